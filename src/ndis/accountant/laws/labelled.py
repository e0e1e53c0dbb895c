"""A step that draws one of several laws, with a public label: its moments are the mean of theirs.

The pair is (Σ pᵢ δᵢ ⊗ Pᵢ, Σ pᵢ δᵢ ⊗ Qᵢ). The label says nothing about the record, so e^K = Σ pᵢ e^{Kᵢ} and
δ(ε) = Σ pᵢ δᵢ(ε). A mechanism that hides the label is dominated by this pair.

Truncated Poisson batches (thm:truncated) are such a step. Let N be the number of other records in the Poisson sample.
If N < B, nothing is truncated: the record enters with probability q and moves the sum by the clipping norm. If N ≥ B,
the record enters with probability q' and takes the place of another one, which moves the sum by up to twice the norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from flint import arb

from ndis._balls import Ball, precision
from ndis._validate import Adjacency, Floats, Order, as_one_probability, as_size, as_within, require
from ndis.accountant.laws import Law
from ndis.accountant.laws.mixture import Mixture
from ndis.accountant.laws.mixture_balls import Sides
from ndis.accountant.stand_ins import ProfileOnly

_BITS = 160
_MOST_SPREAD, _WINDOW = 10.0, 100  # variance and distance from the mean of the number of second labels
_NONE = np.zeros(1)  # the order 0, at which a range has its left end


class Labelled(Mixture):
    """Evaluate the moments of a step that draws one of two mixtures, in floats; the second has the larger shift.

    Positive places are those of the second mixture, negative ones those of the first, each from its left end on.
    """

    def __init__(self, laws: tuple[Mixture, Mixture], chances: Callable[[], list[Ball]]) -> None:
        self.laws, self._chances = laws, chances
        with precision(_BITS):
            self.weights = [float(p) for p in chances()]
            self._logs = [float(p.log()) for p in chances()]  # a chance may be far below the smallest float
        super().__init__(laws[1].sides, laws[1]._exact)
        self.ends = min(law.ends[0] for law in laws), max(law.ends[1] for law in laws)

    def reversed(self) -> Labelled:
        """Return the law of the other order."""
        return Labelled((self.laws[0].reversed(), self.laws[1].reversed()), self._chances)

    def whole(self) -> Labelled:
        """Return the law without the windows of the mixtures."""
        return Labelled((self.laws[0].whole(), self.laws[1].whole()), self._chances)

    def enclosed(self) -> ProfileOnly:
        """Return the law in balls: δ(ε) = Σ pᵢ δᵢ(ε)."""
        pairs = list(zip(self._chances(), [law.enclosed() for law in self.laws], strict=True))
        lows, highs = zip(*(law.ends() for _, law in pairs), strict=True)
        ends = min(lows, key=arb.lower), max(highs, key=arb.upper)  # the ball that reaches farthest holds the end
        return ProfileOnly(ends, lambda epsilon: sum((p * law.delta(epsilon) for p, law in pairs), arb(0)))

    def labels(self, n: int) -> list[tuple[float, list[tuple[Law, int]]]]:
        """Return the chance that k steps have the second label, and the laws of all, for the k that count."""
        p, first, second = self.weights[1], *self.laws
        if n * p * (1.0 - p) > _MOST_SPREAD:
            return []
        near = range(max(round(n * p) - _WINDOW, 0), min(round(n * p) + _WINDOW, n) + 1)
        logs = {k: math.log(math.comb(n, k)) + (n - k) * self._logs[0] + k * self._logs[1] for k in near}
        return [(logs[k], [(first, n - k), (second, k)]) for k in sorted(near, key=lambda k: -logs[k])]

    density = Law.density  # tables serve the compositions with known numbers of labels

    def at(self, place: Floats, height: float) -> tuple[Any, Any, Any]:
        """Return log weight and loss at places of a line, and the slopes of both."""
        first, second = (law.at(np.abs(place) + law.terms_range(_NONE)[0], height) for law in self.laws)
        which = place > 0.0
        weight, loss = (np.where(which, b, a) for a, b in zip(first[:2], second[:2], strict=True))
        logs = np.where(which, self._logs[1], self._logs[0])
        return weight + logs, loss, np.where(which[:, None], second[2], first[2])

    def terms_range(self, s: Floats) -> tuple[float, float]:
        """Return the places between which the terms at some rising real s count."""
        first, second = (law.terms_range(s)[1] - law.terms_range(_NONE)[0] for law in self.laws)
        return -first, second

    def _mean_loss(self) -> float:
        return math.fsum(p * law.mean for p, law in zip(self.weights, self.laws, strict=True))


@dataclass(frozen=True)
class TruncatedStep:
    """Describe a Gaussian sum over a Poisson sample, of which at most `max_batch_size` records are kept at random.

    Parameters
    ----------
    noise_multiplier : float
        The standard deviation of the noise over the clipping norm of one record.
    sampling_rate : float
        q.
    max_batch_size, records : int
        B, and the number n of records in the larger one of two neighbours, which is public.
    """

    noise_multiplier: float
    sampling_rate: float
    max_batch_size: int
    records: int

    kind: ClassVar[str] = "truncated-poisson"
    adjacency: ClassVar[Adjacency] = "add-remove"
    attained: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", as_within("noise_multiplier", self.noise_multiplier, 400))
        object.__setattr__(self, "sampling_rate", as_one_probability("sampling_rate", self.sampling_rate))
        size, records = as_size("max_batch_size", self.max_batch_size), as_size("records", self.records)
        require(size < records, "max_batch_size", f"be below the number of records, {records}", size)

    def _chances(self) -> tuple[Ball, Ball, Ball, Ball]:
        """Enclose q, P(N ≥ B), q' = q E[B/(N+1) | N ≥ B] and P(N < B), at the working precision.

        The number K of all records in the sample is binomial, and q E[1/(N+1); N ≥ B] = P(K > B)/n.
        """
        q, n, size = arb(self.sampling_rate), self.records, self.max_batch_size
        full = q.beta_lower(size, n - size, True)
        other = q.beta_lower(size + 1, n - size, True) * size / (n * full)
        return q, full, other, (1 - q).beta_lower(n - size, size, True)

    def law(self, order: Order) -> Labelled:
        """Return the law of one step."""
        sigma = self.noise_multiplier

        def sides(which: int) -> Sides:
            q, _, other, _ = self._chances()
            return Sides.poisson((q, other)[which], arb(1 + which) / arb(sigma), remove=order == "remove")

        def chances() -> list[Ball]:
            _, full, _, fits = self._chances()
            return [fits, full]

        with precision(_BITS):
            laws = Mixture.from_balls(partial(sides, 0)), Mixture.from_balls(partial(sides, 1))
            return Labelled(laws, chances)
