"""Requests that a ledger is asked for, and a model that remembers whether it was asked."""

from __future__ import annotations

import ndis


def shift(size: float, **options) -> ndis.PrivacyProfile:
    return ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=size), **options)


def sketch(copies: int = 50, ratio: float = 1.02) -> ndis.PrivacyProfile:
    return ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(ratio, copies=copies))


class Model:
    """A mean that remembers whether it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def distribution(self, data):
        self.asked += 1
        if data == "broken":
            raise ValueError("no")
        return [0.5], [[0.0]]

    def sensitivity(self, noise_variance):
        return ndis.worst_case.envelopes.DominatingPairs(
            ndis.GaussianPair.from_ratios(1.0, shift=0.01 / noise_variance**0.5)
        )


def lifted(model: Model) -> ndis.LiftedMechanism:
    return ndis.lift(model, epsilon=1.0, delta=1e-6)
