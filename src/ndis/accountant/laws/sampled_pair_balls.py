"""One sampled step of any pair that is no mean shift is bounded here by its own δ and by moments without sampling.

With g = 1 − q + q w, the powers g^{1+c} and g^{−c} are convex functions of w. So M(c) ≤ 1 − q + q e^{K(c)}, where K is
the log-moment of the pair of the order without sampling, and M(c) ≤ (1−q)^{−c} in the add order. M(c) ≥ 1, because
log M is convex and is at most 0 at −1 and 0.

This is all that is known of a pair with several variance ratios: no bound of its Mellin–Barnes form falls with Im s
(docs/theory.md, thm:mellin-moment). So such a step takes its discrete stand-ins. `ndis.accountant.laws.one_ratio` does
better for a pair with one ratio.
"""

from __future__ import annotations

import math

from flint import arb

from ndis._balls import Ball
from ndis._search import log_mixture_ball
from ndis.accountant.laws import BallLaw, sampled_view
from ndis.accountant.laws.plain import PlainBalls, delta_of_pair
from ndis.spectrum.invariants import Directions

__all__ = ["SampledPairBalls"]


class SampledPairBalls(BallLaw):
    """Bound one sampled step of any pair; `pair` is that of the order.

    >>> step = SampledPairBalls(Directions([(arb(0.5), arb(0), 2)], arb(0)), arb(0.5), remove=True)
    >>> step.moment(1.0, 30.0).contains(arb(13) / 12)  # E[(½ + ½w)²] with E w² = 4/3
    True
    """

    def __init__(self, pair: Directions, rate: Ball, *, remove: bool) -> None:
        self.pair, self.rate, self.remove, self._whole = pair, rate, remove, PlainBalls(pair)
        self.limit = self._whole.limit if remove else math.inf

    def moment(self, c: float, digits: float) -> Ball:
        """Enclose M(c) by the bounds of the module docstring."""
        bound = 1 - self.rate + self.rate * self._whole.moment(c, digits)
        if not self.remove:
            bound = bound.min(((-self.rate).log1p() * -c).exp())
        return arb(1).union(bound)

    def ends(self) -> tuple[Ball, Ball]:
        """Enclose the ends of the loss: those of log w, mixed with the rate."""
        low, high = self._whole.ends()
        if not self.remove:
            low, high = -high, -low
        low = (-self.rate).log1p() if not low.is_finite() else log_mixture_ball(self.rate, low)
        high = arb.pos_inf() if not high.is_finite() else log_mixture_ball(self.rate, high)
        return (low, high) if self.remove else (-high, -low)

    def delta(self, epsilon: float) -> Ball:
        """Enclose the δ(ε) of one step (thm:poisson-sampling)."""
        weight, inner = sampled_view(self.rate, epsilon, remove=self.remove)
        return weight if inner is None else weight * delta_of_pair(self.pair, inner)
