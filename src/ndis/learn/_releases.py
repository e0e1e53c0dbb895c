"""Draw the releases of one fit from exact sums, and keep what the receipt needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.gram.sums import RecordSums, TermSums
from ndis.mechanisms.base import Receipt
from ndis.mechanisms.rounds import GaussianRounds

__all__ = ["Releases"]

Floats = NDArray[np.float64]


class Releases:
    """Exact draws for one fit. Rows are in units of their bound, terms in units of row bound times `term_unit`.

    Parameters
    ----------
    sums : RecordSums
    budget : GaussianRounds
    bits
        The source of randomness of all draws.
    term_unit : float
        The target bound; 1 for gradients.
    constant : bool
        Whether the last predictor is a constant (times the root of a weight).

    Attributes
    ----------
    predictors : int
    longest : float
        The norm that no row exceeds, the constant included.
    private : bool
        False if any draw came from a seed.
    log : list
        Clip, noise and grid of every release, for the receipt.
    """

    def __init__(
        self, sums: RecordSums, budget: GaussianRounds, bits: Any, *, term_unit: float, constant: bool
    ) -> None:
        self._sums, self._budget, self._bits = sums, budget, bits
        layout = sums.layout
        self._row, self._term_unit = layout.row_norm_bound, term_unit
        self._length_squared = layout.joint_norm_bound_squared
        self.predictors, self.constant = layout.width, constant
        self.longest = math.sqrt(float(self._length_squared)) / self._row
        self.private = True
        self.log: list[dict[str, Any]] = []

    @property
    def _unit(self) -> float:
        return self._row * self._term_unit

    def gram(self) -> tuple[Floats, float]:
        """Release the Gram matrix; with the standard deviation of its diagonal's noise."""
        sample = self._budget.release_gram(self._sums.gram(), random_state=self._bits)
        noise = self._budget.gram_noise(self._length_squared)
        self._note(sample, release="gram", noise_std=noise)
        return np.asarray(sample.values) / self._row**2, noise / self._row**2

    def weighted_gram(self, index: int, theta: Floats) -> tuple[Floats, float]:
        """Release the Hessian of the logistic loss at θ; with the standard deviation of its diagonal's noise."""
        found = self._sums.weighted_gram(theta[:, 0] / self._row)
        sample = self._budget.release_weighted_gram(index, found, random_state=self._bits)
        noise = self._budget.weighted_gram_noise(index, self._length_squared)
        self._note(sample, release="weighted gram", noise_std=noise)
        return np.asarray(sample.values) / self._row**2, noise / self._row**2

    def shift(self, index: int) -> float:
        """Clip over noise of a round."""
        return 1.0 / self._budget.sum_noise(index, clip=1.0)

    def _total(self, index: int, found: TermSums, name: str) -> tuple[Floats, float]:
        """Release a sum of clipped terms; with the standard deviation of its noise."""
        sample = self._budget.release_sum(index, found, random_state=self._bits)
        noise = self._budget.sum_noise(index, clip=found.clip)
        self._note(sample, release=name, clip=found.clip, noise_std=noise)
        return np.asarray(sample.values, dtype=np.float64) / self._unit, noise / self._unit

    def _histogram(self, index: int, found: TermSums) -> tuple[Floats, float]:
        """Release the histogram of the lengths of the terms; one record replaced moves it by √2."""
        return self._counts(index, found.histogram, squared_reach=self._replaced, name="histogram of lengths")

    def _counts(self, index: int, values: Any, *, squared_reach: Any, name: str) -> tuple[Floats, float]:
        sample = self._budget.release_count(index, values, squared_reach=squared_reach, random_state=self._bits)
        noise = self._budget.count_noise(index, squared_reach=squared_reach)
        self._note(sample, release=name, noise_std=noise)
        return np.asarray(sample.values, dtype=np.float64), noise

    @property
    def _replaced(self) -> Fraction:
        """By how much a replaced record multiplies the squared reach of one that comes or goes."""
        return Fraction(1 if self._budget.adjacency == "add-remove" else 2)

    def _note(self, sample: Any, **entry: Any) -> None:
        self.private = self.private and sample.private
        self.log.append({**entry, "grid": sample.grid})

    def receipt(self, seal: Mapping[str, Any] | None = None, **public: Any) -> Receipt:
        """What is guaranteed, with the budget, the bounds in ``public`` and every release.

        `seal` is the entry of the ledger that paid for all of them.
        """
        budget = self._budget
        shares = {k: v for k, v in budget.to_dict().items() if k not in ("epsilon", "delta", "adjacency")}
        return Receipt(
            type(budget).__name__,
            {**shares, **public, "releases": self.log},
            budget.epsilon,
            budget.delta,
            budget.adjacency,
            private=self.private,
            ledger=seal,
        )
