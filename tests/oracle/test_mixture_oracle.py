"""Mixtures of Gaussians against integrals of seventeen digits, and against a value that another package publishes."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb

import ndis
from ndis._balls import precision
from ndis.accountant.composition import Composition
from ndis.accountant.laws.labelled import Labelled, TruncatedStep
from ndis.accountant.laws.mixture import Mixture
from ndis.accountant.laws.mixture_balls import Sides
from ndis.accountant.laws.mixture_steps import mixture_law

CASES = json.loads((Path(__file__).parent / "data" / "given_mixture_cases.json").read_text())

FEW_LARGE_STEPS = 2  # two steps with large shifts: the sum is too long, and discrete stand-ins serve


class Double:
    """Poisson sampling under replace-one: (1−q)N(0) + qN(1) against (1−q)N(0) + qN(−1)."""

    def __init__(self, case: dict[str, Any]) -> None:
        q = Fraction(case["rate"])
        self.inputs = [1 - q, q], [Fraction(0), 1 / Fraction(case["noise_multiplier"])]

    def law(self, order: str) -> Mixture:
        return mixture_law(*self.inputs, order, double=True)


def composition(case: dict[str, Any]) -> Composition:
    if case["kind"] == "double":
        return Composition([(Double(case).law(case["order"]), case["steps"])], case["order"])
    noise = case["noise_multiplier"]
    if case["kind"] == "mixture":
        step = ndis.PrivacyProfile.from_mixture(
            noise_multiplier=noise, sensitivities=case["sensitivities"], probabilities=case["probabilities"]
        )
    else:
        step = ndis.PrivacyProfile.from_noise_multiplier(noise).subsampled(case["rate"]).group(case["group"])
    return step.repeat(case["steps"])._evaluators[case["order"]]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_log_delta(number: int) -> None:
    case = CASES[number]
    want = float(case["log_delta"])
    value, error = composition(case).log_delta_and_error(np.array([case["epsilon"]]))
    assert abs(value[0] - want) <= 1e-10 * (1.0 + abs(want))
    assert error[0] <= 1e-10 * (1.0 + abs(want))


@pytest.mark.parametrize("number", range(len(CASES)))
def test_certificates(number: int) -> None:
    case = CASES[number]
    box = composition(case).certify(case["epsilon"], 1e-6)
    truth = np.exp(float(case["log_delta"]))
    assert box.lower * (1 - 1e-15) <= truth <= box.upper * (1 + 1e-15)
    assert box.width <= (3e-3 if number == FEW_LARGE_STEPS else 1e-6) * box.upper


def test_the_published_value_of_a_composition() -> None:
    """The value of dp_accounting's test of its MixtureOfGaussiansDpEvent."""
    first = ndis.PrivacyProfile.from_mixture(
        noise_multiplier=1.0, sensitivities=[0.0, 1.0, 2.0], probabilities=[0.2, 0.6, 0.2]
    )
    second = ndis.PrivacyProfile.from_mixture(
        noise_multiplier=2.0, sensitivities=[0.0, 2.0, 3.0], probabilities=[0.33, 0.34, 0.33]
    )
    assert first.repeat(3).compose(second.repeat(2)).epsilon(1e-6) == pytest.approx(17.193115, abs=2e-5)


class PeerTruncated:
    """dp_accounting's bound for truncated batches: the second law is the replace-one pair at half the noise."""

    def __init__(self, records: int, count: int) -> None:
        self.step, self.count = TruncatedStep(1.0, 0.5, 2, records), count

    def law(self, order: str) -> Labelled:
        first = self.step.law(order).laws[0]
        with precision(160):
            q = self.step._chances()[2]

        def sides() -> Sides:
            return Sides([1 - q, q], [arb(0), arb(2)], [1 - q, q], [arb(0), arb(2)])

        with precision(160):
            return Labelled((first, Mixture.from_balls(sides)), self.step.law(order)._chances)


def test_truncated_batches_beside_the_published_value() -> None:
    """The peer's own bound is reproduced; ours is lower, by thm:truncated, and has its certificate."""
    peer = [PeerTruncated(4, 3), PeerTruncated(3, 2)]
    both = [Composition([(step.law(order), step.count) for step in peer], order) for order in ("remove", "add")]
    theirs = max(one.smallest_epsilon(1e-6, 0.0) for one in both)
    assert theirs == pytest.approx(17.904330, abs=2e-5)
    steps = [
        ndis.PrivacyProfile.from_truncated_poisson(
            noise_multiplier=1.0, sampling_rate=0.5, max_batch_size=2, records=records
        ).repeat(count)
        for records, count in ((4, 3), (3, 2))
    ]
    ours = steps[0].compose(steps[1])
    assert ours.epsilon(1e-6) == pytest.approx(16.4565087, abs=1e-6)
    assert ours.certify(16.6).upper < 1e-6
