"""This module evaluates one release on a Poisson sample: every record enters the sample on its own with probability q.

Let X be the output with the record in the sample, and Y the output without it. On a sample the mechanism gives
P = (1−q)Y + qX if the data have the record, and Y if they do not. For every real ε, with S over all events,

    remove:  δ(ε) = sup P(S) − e^ε Y(S) = sup q X(S) − (e^ε − 1 + q) Y(S)
    add:     δ(ε) = sup Y(S) − e^ε P(S) = sup a Y(S) − q e^ε X(S),       a = 1 − (1−q) e^ε = q − (1−q)(e^ε − 1)

and both have the one form

    δ(ε) = w · δ'(ε'),      e^ε' − 1 = (e^ε − 1)/w,

with w = q and δ' = δ_{X,Y} for remove, w = a and δ' = δ_{Y,X} for add. If e^ε − 1 ≤ −q (remove, ε < 0), the best S is
everything and δ = 1 − e^ε. If a ≤ 0 (add, ε ≥ −log(1−q)), the best S is empty and δ = 0. A sample of a sample has the
rate q₁q₂: (1−q₂)Y + q₂((1−q₁)Y + q₁X) = (1−q₁q₂)Y + q₁q₂X.

The code encloses w and ε' in balls: a cancels near its end, and a certificate must cover the rounding of ε'. δ' never
increases in ε'. So its value at the lower end of ε' is an upper bound of δ'(ε'), and conversely.
"""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
from flint import arb

from ndis._balls import Ball, climb, outward, precision
from ndis._search import log_mixture_ball
from ndis._validate import Floats, Order
from ndis.accountant.laws import product, sampled_view
from ndis.enclosure import Enclosure
from ndis.errors import PrecisionError
from ndis.spectrum import certified
from ndis.spectrum.evaluate import excess_over, log_delta_at, smallest_epsilon, spectrum
from ndis.spectrum.invariants import Invariants

_BITS = 128
_LADDER = (128, 256, 512, 1024, 2048, 4096, 8192)


def _view(epsilon: float, rates: tuple[float, ...], order: Order) -> tuple[Ball, Ball | None]:
    """Enclose (w, ε') of the module docstring, each to more digits than a float holds; ε' is None if δ = w."""

    def attempt(bits: int) -> tuple[Ball, Ball | None] | None:
        with suppress(PrecisionError):
            weight, inner = sampled_view(product(rates), epsilon, remove=order == "remove")
            if inner is None or min(weight.rel_accuracy_bits(), inner.rel_accuracy_bits()) >= 64:
                return weight, inner
        return None

    failure = f"the subsampled spectrum at epsilon = {epsilon!r} is out of reach at {_LADDER[-1]} bits"
    return climb(attempt, _LADDER, failure)


class OneRelease:
    """Evaluate one release in one order, on a sample or not.

    Parameters
    ----------
    pair : Invariants
        (X, Y) for remove and (Y, X) for add.
    rates : tuple of float
        Rates of Poisson sampling, below 1; none if the release sees all the data.
    order : str
        "remove" or "add".

    Examples
    --------
    >>> from ndis.pair import GaussianPair
    >>> release = OneRelease(GaussianPair.from_ratios(1.0, shift=1.0), (0.5,), "remove")
    >>> box, value = release.certify(0.5, 1e-9), math.exp(float(release.log_delta(np.array([0.5]))[0]))
    >>> box.lower * (1 - 1e-14) <= value <= box.upper * (1 + 1e-14)
    True
    """

    def __init__(self, pair: Invariants, rates: tuple[float, ...], order: Order) -> None:
        self.pair, self.rates, self.order = pair, rates, order

    def log_delta(self, epsilon: Floats, floor: float = -math.inf) -> Floats:
        """Return log δ at each entry of a vector ε."""
        if not self.rates:
            if epsilon.size == 1:
                return np.array([log_delta_at(self.pair, float(epsilon[0]))])
            return spectrum(self.pair, epsilon, complement=False).log_delta
        out, inner = np.empty((2, epsilon.size))
        for i, e in enumerate(epsilon.tolist()):
            weight, at = _view(e, self.rates, self.order)
            out[i] = -math.inf if weight == 0 else float(weight.log())
            inner[i] = math.nan if at is None else float(at)
        inside = ~np.isnan(inner)
        out[inside] += spectrum(self.pair, inner[inside], complement=False).log_delta
        return out

    def certify(self, epsilon: float, relative_width: float) -> Enclosure:
        """Enclose δ(ε): δ' at the two ends of an enclosure of ε', times an enclosure of w."""
        if not self.rates:
            return certified.certify(self.pair, epsilon, relative_width=relative_width)
        weight, inner = _view(epsilon, self.rates, self.order)
        if inner is None:
            return certified.in_floats(weight)
        near, far = outward(inner)
        top = certified.certify(self.pair, near, relative_width=0.25 * relative_width)
        bottom = top if near == far else certified.certify(self.pair, far, relative_width=0.25 * relative_width)
        with precision(_BITS):
            top_end = outward(weight * arb(top.upper)).upper
            box = Enclosure(outward(weight * arb(bottom.lower)).lower, min(top_end, 1.0))
        if not box.width <= relative_width * box.upper + 4 * math.ulp(box.upper):
            raise certified.too_wide("the subsampled delta", epsilon, relative_width, box.width / box.upper)
        return box

    def smallest_epsilon(self, target: float, start: float = 0.0, guess: float | None = None) -> float:
        """Return the smallest safe ε ≥ `start` with δ(ε) ≤ target."""
        if not self.rates:
            return max(start, smallest_epsilon(self.pair, target))
        if self.order == "remove":
            return max(start, self._smallest_of_remove(target))
        return self._smallest_of_add(target, start)

    def _satisfied(self, epsilon: float, target: float) -> bool:
        """Return whether δ(ε) ≤ target, with the error of the computation counted against it."""
        weight, inner = _view(epsilon, self.rates, self.order)
        if weight <= target or inner is None:
            return bool(weight <= target)
        share = outward(arb(target) / weight).lower
        if not share > 0.0:
            return False
        h, margin = excess_over(self.pair, outward(inner).lower, share)[:2]
        return h + margin <= 0.0

    def _smallest_of_remove(self, target: float) -> float:
        """Solve δ'(ε') ≤ target/q, then take ε = log(1 + q(e^ε' − 1)), rounded up."""
        with precision(_BITS):
            q = product(self.rates)
            share = outward(arb(target) / q).lower
        if share >= 1.0:
            return 0.0
        share = max(share, math.ulp(0.0))  # target ≤ target/q, and no smaller float is positive
        inner = smallest_epsilon(self.pair, share)
        if inner == 0.0 or inner == math.inf:
            return inner
        with precision(_BITS):
            return outward(log_mixture_ball(q, arb(inner))).upper

    def _smallest_of_add(self, target: float, start: float) -> float:
        """Search by bisection. δ = 0 from −log(1−q) on, so the search is bounded."""
        if self._satisfied(start, target):
            return start
        low, high = start, largest_epsilon(self.rates)
        while high - low > 2.0**-48 * high:
            middle = low + 0.5 * (high - low)
            if not low < middle < high:
                break
            if self._satisfied(middle, target):
                high = middle
            else:
                low = middle
        return high


def largest_epsilon(rates: tuple[float, ...]) -> float:
    """Return −log(1−q), rounded up: from there on the add order has δ = 0."""
    with precision(_BITS):
        return outward(-(-product(rates)).log1p()).upper
