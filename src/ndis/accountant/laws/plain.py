"""The law of a Gaussian pair that is released every time: its moments have a closed form (def:log-moment).

For the pair N(m, diag(1+t)) against N(0, I)

    K(s) = ½ Σ [ m² s(s+1)/(1 − st) − s log(1+t) − log(1 − st) ].

On a line Re s = c with 1 − ct > 0 the modulus of e^{K(c+iy)} falls as y grows: |1 − st| grows, and the real part of
s(s+1)/(1 − st) falls.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any

import numpy as np
from flint import acb, arb, ctx

from ndis._balls import Ball, climb, outward
from ndis._compile import compiled
from ndis._validate import Floats
from ndis.accountant.laws import BallLaw, Complexes, Law
from ndis.errors import PrecisionError
from ndis.spectrum.certified import _delta_ball
from ndis.spectrum.contour import PDF, exponent
from ndis.spectrum.evaluate import evaluate_form
from ndis.spectrum.invariants import Directions, Invariants
from ndis.spectrum.loss import LogMoment
from ndis.spectrum.origins import Origin, enclose

_UNIT = 2.0**-53
_BITS = (256, 512, 1024, 2048)
_DIGITS = 32.0


def exact_directions(pair: Invariants) -> Directions:
    """Enclose the invariants of a pair to the working precision or more, up to 2048 bits."""
    return _enclosed(pair.origins, tuple(bits for bits in _BITS if bits >= ctx.prec) or _BITS[-1:])


@lru_cache(64)
def _enclosed(origins: tuple[Origin, ...], ladder: tuple[int, ...]) -> Directions:
    failure = "the exact inputs of a pair of the composition are not known, or not enclosed"
    return climb(partial(enclose, origins), ladder if origins else (), failure)


def delta_of_pair(directions: Directions, epsilon: Ball) -> Ball:
    """Enclose the δ of one pair at a ball ε."""
    for narrower in range(4):
        delta = _delta_ball(directions, epsilon, _DIGITS, narrower)
        if delta is not None and delta.is_finite():
            return delta
    raise PrecisionError("delta of a pair of the composition was not enclosed")


def rough_edge(form: LogMoment) -> float:
    """Return the end of log dP/dQ in the directions that bound it, in floats; 0 if there is none."""
    t, ratio, nu, q = (a[form.t != 0.0] for a in form.groups)
    return -0.5 * math.fsum((nu * np.log1p(t) + q / (ratio * t)).tolist())


def log_ratio_range(form: LogMoment) -> tuple[float, float]:
    """Return the ends of log dP/dQ, finite on the side on which every direction bounds it."""
    edge = rough_edge(form)
    low = edge if form.side > 0 or form.constant else -math.inf
    return low, edge if form.side < 0 or form.constant else math.inf


def log_ratio_density(form: LogMoment, gap: Floats) -> tuple[Floats, Floats]:
    """Return log of the density of x = log dP/dQ under Q at the edge plus `gap`, and its error."""
    x, mu = rough_edge(form) + gap, form.distance
    if mu:
        z = x / mu + 0.5 * mu
        return -0.5 * z * z - math.log(math.sqrt(2.0 * math.pi) * mu), 4.0 * _UNIT * (1.0 + z * z)
    near = (np.abs(gap) <= 0.25 * np.abs(form.mean - x)) & (form.side != 0)
    value, _, error = evaluate_form(form, x, PDF, (np.where(near, -gap, form.mean - x), near))
    outside = gap * form.side < 0.0
    return np.where(outside, -math.inf, value - x), np.where(outside, 0.0, error)


@compiled()
def _exponents(s, t, ratio, nu, q, value, error):
    """Compute K(s) − s·mean in closed form, for an array of s, and its rounding."""
    for i in range(s.size):
        value[i] = exponent(s[i], 0.0, t, ratio, nu, q, False)
        burden = 1.0
        for j in range(t.size):
            z = abs(s[i] * t[j])
            burden += 0.5 * nu[j] * min(z, z * z) + 0.5 * q[j] * abs(s[i]) ** 2 / abs(1.0 - s[i] * t[j])
        error[i] = 4.0 * _UNIT * burden


class Plain(Law):
    """Evaluate K(s) − s·mean of one Gaussian pair that is released every time."""

    def __init__(self, pair: Invariants) -> None:
        self.pair = pair
        self.mean, self.limit = pair.form.mean, pair.form.domain[1]
        self.ends = log_ratio_range(pair.form)
        self.uncertainty, self.size = pair.uncertainty, pair.form.mean

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """Return K(s) − s·mean and its error."""
        value, error = np.empty(s.size, dtype=np.complex128), np.empty(s.size)
        _exponents(s, *self.pair.form.groups, value, error)
        return value, error

    def reversed(self) -> Plain:
        """Return the law of the reversed pair."""
        return Plain(self.pair.reversed())

    def enclosed(self) -> PlainBalls:
        """Return the law in balls."""
        return PlainBalls(exact_directions(self.pair))


class PlainBalls(BallLaw):
    """Enclose the moments of a pair that is released every time.

    >>> law = PlainBalls(Directions([], arb(4)))
    >>> law.moment(1.0, 30.0).overlaps(arb(4).exp())  # K(1) = m²
    True
    """

    def __init__(self, directions: Directions) -> None:
        self.directions = directions
        self.limit = min((outward(1 / t).lower for t, _, _ in directions.curved if not t <= 0), default=math.inf)

    def log_moment(self, c: float) -> float:
        """Return K(c) in floats; inf where it is infinite."""
        value = self.directions.log_moment(arb(c))
        return math.inf if value is None else float(value)

    def log_ceiling(self, c: float, y: float) -> float:
        """Return log |e^{K(c+iy) − K(c)}| in floats."""
        return min(float(self.directions.exponent(acb(c, y)).real) - self.log_moment(c), 0.0)

    def moment(self, c: float, digits: float) -> Ball:
        """Enclose e^{K(c)}."""
        value = self.directions.log_moment(arb(c))
        return arb.pos_inf() if value is None else value.exp()

    def line(self, c: float, step: Ball, count: int, digits: float) -> list[Any]:
        """Enclose e^{K(c + ik·step)}."""
        return [self.directions.exponent(acb(c, step * k)).exp() for k in range(count)]

    def ceiling(self, c: float, y: float, digits: float) -> Ball:
        """Bound |e^{K(c+iy')}| for y' ≥ y by its value at y."""
        inside = self.directions.log_moment(arb(c)) is not None
        return self.directions.exponent(acb(c, y)).real.exp().upper() if inside else arb.pos_inf()

    def ends(self) -> tuple[Ball, Ball]:
        """Enclose the least and the largest loss."""
        pair = self.directions
        if not pair.curved and pair.flat == 0:
            return arb(0), arb(0)
        side = pair.side
        low, high = (pair.edge() if side > 0 else arb.neg_inf()), (pair.edge() if side < 0 else arb.pos_inf())
        return low, high

    def delta(self, epsilon: float) -> Ball:
        """Enclose the δ(ε) of the pair."""
        return delta_of_pair(self.directions, arb(epsilon))
