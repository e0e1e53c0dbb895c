"""The law of one Poisson-sampled step of any Gaussian pair that is no mean shift.

Floats take the Mellin–Barnes form of the moments (`ndis.accountant.laws.mellin`). Balls take a line in the chi-square
variable if the pair has one variance ratio (`ndis.accountant.curved_balls`), and the Mellin–Barnes form else.
"""

from __future__ import annotations

import math
from typing import Any

from flint import arb

from ndis._balls import Ball
from ndis._formulas import log_mixture, log_mixture_ball
from ndis._validate import Order
from ndis.accountant.curved_balls import CurvedStep
from ndis.accountant.laws import BallLaw, geometric, product, sampled_view
from ndis.accountant.laws.mellin import MellinMoment
from ndis.accountant.laws.mellin_balls import MellinStep
from ndis.accountant.laws.plain import ExactPair, PlainBalls, delta_of_pair, log_ratio_range
from ndis.spectrum.invariants import Directions, Invariants, reverse_direction

__all__ = ["SampledPair"]


class SampledPair(MellinMoment):
    """Evaluate the moments of one sampled step of a pair; `pair` is that of the order."""

    def __init__(self, pair: Invariants, rates: tuple[float, ...], order: Order) -> None:
        super().__init__(math.prod(rates), pair.excess, pair.shift, pair.copies, add=order == "add")
        self.pair, self.rates, self._exact = pair, rates, ExactPair(pair)
        low, high = log_ratio_range(pair.excess, pair.shift, pair.copies)
        if self.add:
            low, high = -high, -low
        low, high = float(log_mixture(self.rate, low)), float(log_mixture(self.rate, high))
        self.ends = (-high, -low) if self.add else (low, high)
        self.uncertainty, self.size = pair.uncertainty, pair.form.mean

    def reversed(self) -> SampledPair:
        """Return the law of the other order."""
        return SampledPair(self.pair.reversed(), self.rates, "remove" if self.add else "add")

    def enclosed(self) -> BallLaw:
        """Return the law in balls."""
        pair, rate, remove = self._exact.directions(), product(self.rates), not self.add
        curved = pair.curved
        if pair.flat == 0 and all(t is curved[0][0] or t == curved[0][0] for t, _, _ in curved):
            return SingleBalls(pair, rate, remove=remove)
        return SampledPairBalls(pair, rate, remove=remove)


def _ends(pair: Directions, rate: Ball, *, remove: bool) -> tuple[Ball, Ball]:
    """Enclose the ends of the loss: those of log w, mixed with the rate."""
    low, high = PlainBalls(pair).ends()
    if not remove:
        low, high = -high, -low
    low = (-rate).log1p() if not low.is_finite() else log_mixture_ball(rate, low)
    high = arb.pos_inf() if not high.is_finite() else log_mixture_ball(rate, high)
    return (low, high) if remove else (-high, -low)


def _delta(pair: Directions, rate: Ball, epsilon: float, *, remove: bool) -> Ball:
    """Enclose δ(ε) of one sampled step."""
    inside = sampled_view(rate, epsilon, remove=remove)
    return inside[0] * delta_of_pair(pair, inside[1]) if isinstance(inside, tuple) else inside


class SampledPairBalls(MellinStep):
    """Enclose the moments of one sampled step of any pair; `pair` is that of the order."""

    def __init__(self, pair: Directions, rate: Ball, *, remove: bool) -> None:
        self.pair = pair
        curved = pair.curved if remove else [reverse_direction(one) for one in pair.curved]
        super().__init__(rate, curved, pair.flat, remove=remove)

    def log_ceiling(self, c: float, y: float) -> float:
        """Return 0: the ceiling is M(c)."""
        return 0.0

    def line(self, c: float, step: Ball, count: int, digits: float) -> list[Any]:
        """Enclose M(c + ik·step)."""
        values = self.values(c, step, count, digits)
        return values if self.remove else [v.conjugate() for v in values]

    def ceiling(self, c: float, y: float, digits: float) -> Ball:
        """Bound the moments on the line by M(c)."""
        return self.moment(c, digits).upper()

    def ends(self) -> tuple[Ball, Ball]:
        """Enclose the least and the largest loss."""
        return _ends(self.pair, self.rate, remove=self.remove)

    def delta(self, epsilon: float) -> Ball:
        """Enclose δ(ε) of one step."""
        return _delta(self.pair, self.rate, epsilon, remove=self.remove)


class SingleBalls(CurvedStep):
    """Enclose the moments of one sampled step of a pair with one variance ratio."""

    def __init__(self, pair: Directions, rate: Ball, *, remove: bool) -> None:
        self.pair, curved = pair, pair.curved
        t = curved[0][0]
        m2, d = sum((m2 * n for _, m2, n in curved), arb(0)), sum(n for _, _, n in curved)
        if not remove:
            t, m2, _ = reverse_direction((t, m2, d))
        super().__init__(rate, t, m2, d, remove=remove)

    def log_ceiling(self, c: float, y: float) -> float:
        """Return the logarithm of the ceiling at c + iy less log M(c)."""
        return self.best_angle(c, y)[0]

    def line(self, c: float, step: Ball, count: int, digits: float) -> list[Any]:  # type: ignore[override]
        """Enclose M(c + ik·step)."""
        sums = super().line(c, digits)
        values = geometric(sums.weights, sums.logs, sums.error, step, count)
        return values if self.remove else [v.conjugate() for v in values]

    def ceiling(self, c: float, y: float, digits: float) -> Ball:  # type: ignore[override]
        """Bound |M(c + iy')| for all y' ≥ y."""
        return super().ceiling(c, y, self.best_angle(c, y)[1], digits)

    def ends(self) -> tuple[Ball, Ball]:
        """Enclose the least and the largest loss."""
        return _ends(self.pair, self.rate, remove=self.remove)

    def delta(self, epsilon: float) -> Ball:
        """Enclose δ(ε) of one step."""
        return _delta(self.pair, self.rate, epsilon, remove=self.remove)
