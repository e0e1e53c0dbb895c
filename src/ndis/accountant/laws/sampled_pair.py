"""Interim law of any other sampled pair, until the Mellin–Barnes form replaces it."""

from __future__ import annotations

import math
from typing import Any

from flint import arb

from ndis._balls import Ball
from ndis._formulas import log_mixture
from ndis._validate import Order
from ndis.accountant.curved_balls import CurvedStep
from ndis.accountant.laws import geometric, product, sampled_view
from ndis.accountant.laws.mellin import MellinMoment
from ndis.accountant.laws.plain import ExactPair, delta_of_pair, log_ratio_range
from ndis.errors import PrecisionError
from ndis.spectrum.directions import Directions, reverse_direction
from ndis.spectrum.invariants import Invariants


class SampledPair(MellinMoment):
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
        return SampledPair(self.pair.reversed(), self.rates, "remove" if self.add else "add")

    def enclosed(self) -> SampledPairBalls:
        return SampledPairBalls(self._exact.directions(), product(self.rates), remove=not self.add)


class SampledPairBalls(CurvedStep):
    def __init__(self, pair: Directions, rate: Ball, *, remove: bool) -> None:
        curved = pair.curved
        if pair.flat != 0 or not all(t is curved[0][0] or t == curved[0][0] for t, _, _ in curved):
            raise PrecisionError("several ratios")
        self.pair = pair
        t = curved[0][0]
        m2, d = sum((m2 * n for _, m2, n in curved), arb(0)), sum(n for _, _, n in curved)
        if not remove:
            t, m2, _ = reverse_direction((t, m2, d))
        super().__init__(rate, t, m2, d, remove=remove)

    def log_ceiling(self, c: float, y: float) -> float:
        return self.best_angle(c, y)[0]

    def line(self, c: float, step: Ball, count: int, digits: float) -> list[Any]:
        found = super().line(c, digits)
        values = geometric(found.weights, found.logs, found.error, step, count)
        return values if self.remove else [v.conjugate() for v in values]

    def ceiling(self, c: float, y: float, digits: float) -> Ball:
        return super().ceiling(c, y, self.best_angle(c, y)[1], digits)

    def ends(self) -> tuple[Ball, Ball]:
        stay, edge = (-self.rate).log1p(), (self.rate * self.lead.expm1()).log1p()
        low, high = (edge, arb.pos_inf()) if self.side > 0 else (stay, edge)
        return (low, high) if self.remove else (-high, -low)

    def delta(self, epsilon: float) -> Ball:
        inside = sampled_view(self.rate, epsilon, remove=self.remove)
        return inside[0] * delta_of_pair(self.pair, inside[1]) if isinstance(inside, tuple) else inside
