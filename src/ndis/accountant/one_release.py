"""Poisson subsampling, exactly: every record enters the sample on its own with probability q.

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
from typing import NamedTuple

import numpy as np
from flint import arb

from ndis._balls import Ball, climb, outward, precision
from ndis._validate import Floats, Order
from ndis.enclosure import Enclosure
from ndis.errors import PrecisionError
from ndis.spectrum import certified
from ndis.spectrum.evaluate import excess_over, smallest_epsilon, spectrum
from ndis.spectrum.invariants import Invariants

__all__ = [
    "Order",
    "certify",
    "largest_epsilon",
    "log_delta",
    "satisfied",
    "smallest_epsilon_add",
    "smallest_epsilon_remove",
]

_BITS = 128
_LADDER = tuple(_BITS << k for k in range(7))


class _View(NamedTuple):
    """δ = weight · δ'(inner); `inner` is None if δ = weight."""

    weight: Ball
    inner: Ball | None


def _rate(rates: tuple[float, ...]) -> Ball:
    """The product of the rates, at the working precision."""
    product = arb(1)
    for q in rates:
        product *= arb(q)
    return product


def _view(epsilon: float, rates: tuple[float, ...], order: Order) -> _View:
    """(w, ε') of the module docstring, each to more digits than a float holds."""

    def attempt(bits: int) -> _View | None:
        q, x = _rate(rates), arb(epsilon)
        grown = x.expm1()
        weight = q if order == "remove" else q - (1 - q) * grown
        if weight < 0:
            return _View(arb(0), None)
        if order == "remove" and grown + q < 0:
            return _View(-grown, None)
        ratio = 1 + grown / q if order == "remove" else q * x.exp() / weight  # e^ε'
        if not (weight > 0 and ratio > 0):
            return None
        inner = (grown / weight).log1p() if ratio > 0.5 else ratio.log()
        fine = min(weight.rel_accuracy_bits(), inner.rel_accuracy_bits()) >= 64
        return _View(weight, inner) if fine else None

    found = climb(attempt, _LADDER)
    if found is None:
        raise PrecisionError(f"the subsampled spectrum at epsilon = {epsilon!r} is out of reach at {_LADDER[-1]} bits")
    return found


def log_delta(pair: Invariants, epsilon: Floats, rates: tuple[float, ...], order: Order) -> Floats:
    """log δ at each entry of a vector ε; `pair` is (X, Y) for remove and (Y, X) for add."""
    out, inner = np.empty(epsilon.size), np.full(epsilon.size, np.nan)
    for i, e in enumerate(epsilon.tolist()):
        view = _view(e, rates, order)
        out[i] = -math.inf if view.weight == 0 else float(view.weight.log())
        if view.inner is not None:
            inner[i] = float(view.inner)
    inside = ~np.isnan(inner)
    out[inside] += spectrum(pair, inner[inside], complement=False).log_delta
    return out


def certify(
    pair: Invariants, epsilon: float, rates: tuple[float, ...], order: Order, *, relative_width: float
) -> Enclosure:
    """Certified enclosure of δ(ε): δ' at the two ends of an enclosure of ε', times an enclosure of w."""
    view = _view(epsilon, rates, order)
    if view.inner is None:
        low, high = outward(view.weight)
        return Enclosure(low, min(high, 1.0))
    near, far = outward(view.inner)
    top = certified.certify(pair, near, relative_width=0.25 * relative_width)
    bottom = top if near == far else certified.certify(pair, far, relative_width=0.25 * relative_width)
    with precision(_BITS):
        top_end = outward(view.weight * arb(top.upper)).upper
        box = Enclosure(outward(view.weight * arb(bottom.lower)).lower, min(top_end, 1.0))
    if not box.width <= relative_width * box.upper + 4 * math.ulp(box.upper):
        reached = box.width / box.upper
        raise PrecisionError(
            f"the enclosure of the subsampled delta at epsilon = {epsilon!r} did not shrink to relative width "
            f"{relative_width:g}; reached {reached:.3g}",
            reached=reached,
        )
    return box


def satisfied(pair: Invariants, epsilon: float, target: float, rates: tuple[float, ...], order: Order) -> bool:
    """True if δ(ε) ≤ target, with the error of the computation counted against it."""
    view = _view(epsilon, rates, order)
    if view.weight <= target:
        return True
    if view.inner is None:
        return False
    share = outward(arb(target) / view.weight).lower
    if not share > 0.0:
        return False
    h, margin = excess_over(pair, outward(view.inner).lower, share)[:2]
    return h + margin <= 0.0


def smallest_epsilon_remove(pair: Invariants, target: float, rates: tuple[float, ...]) -> float:
    """Smallest safe ε ≥ 0 for the remove order: δ'(ε') ≤ target/q, then ε = log(1 + q(e^ε' − 1)), rounded safely."""
    with precision(_BITS):
        q = _rate(rates)
        share = outward(arb(target) / q).lower
    if share >= 1.0:
        return 0.0
    share = max(share, math.ulp(0.0))  # target ≤ target/q, and no smaller float is positive
    inner = smallest_epsilon(pair, share)
    if inner == 0.0 or inner == math.inf:
        return inner
    with precision(_BITS):
        return outward((q * arb(inner).expm1()).log1p()).upper


def smallest_epsilon_add(pair: Invariants, target: float, rates: tuple[float, ...], start: float) -> float:
    """Smallest safe ε ≥ `start` for the add order, by bisection. δ = 0 from −log(1−q) on, so the search is bounded."""
    if satisfied(pair, start, target, rates, "add"):
        return start
    low, high = start, largest_epsilon(rates)
    while high - low > 2.0**-48 * high:
        middle = low + 0.5 * (high - low)
        if not low < middle < high:
            break
        if satisfied(pair, middle, target, rates, "add"):
            high = middle
        else:
            low = middle
    return high


def largest_epsilon(rates: tuple[float, ...]) -> float:
    """−log(1−q), rounded up: from there on the add order has δ = 0."""
    with precision(_BITS):
        return outward(-(-_rate(rates)).log1p()).upper
