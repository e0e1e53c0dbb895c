"""Discrete laws that dominate one step, or are dominated by it: the fallback for every law (thm:stand-ins).

With P = R·Q, the profile as a function of t = e^ε is f(t) = E_Q (R − t)₊: convex, falling, f(0) = 1. Let f_i ≥ f(t_i)
at finitely many places 0 = t_0 < t_1 < … < t_J, f_0 = 1, and let f̃ be the lower convex hull of the points (t_i, f_i),
constant right of t_J. A chord between points on or above a convex function lies above it, so f̃ ≥ f everywhere. f̃ is
the profile of a discrete pair. Its ratio is t_i with Q-probability s_i − s_{i−1}, where s_i is the slope of f̃ right of
t_i, and P-probability p_i = t_i (s_i − s_{i−1}). The ratio is infinite with P-probability p_∞ = f̃(t_J).
This pair dominates the step, and dominating pairs compose (Zhu, Dong and Wang 2022). So

    δ(ε) ≤ 1 − Π(1 − p_∞)^n + δ̃(ε),

where δ̃ comes from the moments Σ p_i t_i^s in the place of those of the step. Moments of a discrete law never explode
for want of a bound on the loss, so the line of the sum can lie where little cancels.

**From below.** Let l_i ≤ f(t_i) ≤ u_i. By convexity f lies above the chord of two neighbours outside of it. So on
[t_i, t_{i+1}] it lies above the line through (t_i, l_i) with slope (l_i − u_{i−1})/(t_i − t_{i−1}), and above the line
through (t_{i+1}, l_{i+1}) with slope (u_{i+2} − l_{i+1})/(t_{i+2} − t_{i+1}). f ≥ 1 − t and f ≥ 0 serve at the ends.
Let τ_i be a place in (t_i, t_{i+1}) near their crossing (the first: in (0, t_1), on the line 1 − t), φ_i a height there
not above either line. The lower hull f̌ of the points (τ_i, φ_i), (0, 1) and the last crossing with 0 satisfies f̌ ≤ f,
if f̌(t_i) ≤ l_i for every i ≥ 1: on each half of [t_i, t_{i+1}] f̌ is convex, so it is below its own chord, whose ends
are below one of the lines. All this is checked in balls. f̌ is the profile of a discrete pair that the step dominates.

The values f_i come from `BallLaw.delta`. For n steps and J places the two bounds differ by about 1/J², because a chord
misses a smooth function by the square of the gap between its ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb

from ndis._balls import Ball, outward, precision
from ndis.accountant.laws import BallLaw, geometric, log_sum
from ndis.errors import PrecisionError

_VISIBLE = 1e-9  # f − (1 − t) over its largest value: less is lost in the enclosures of f
_BITS = 320
_FARTHEST = 700.0


class Discrete(BallLaw):
    """Enclose the moments of a law with finitely many losses."""

    def __init__(self, losses: list[Ball], masses: list[Ball]) -> None:
        self.losses, self.masses = losses, masses
        self._loss = np.array([float(x) for x in losses])
        self._log_mass = np.array([float(p.log()) for p in masses])

    def log_moment(self, c: float) -> float:
        """Return log M(c) in floats."""
        return log_sum(self._log_mass + c * self._loss)

    def moment(self, c: float, digits: float) -> Ball:
        """Enclose M(c)."""
        return sum((p * (arb(c) * x).exp() for p, x in zip(self.masses, self.losses, strict=True)), arb(0))

    def line(self, c: float, step: Ball, count: int, digits: float) -> list[Any]:
        """Enclose Σ p_i e^{cx_i} e^{ik·step·x_i}; terms that do not count join the error."""
        weights = [acb(p * (arb(c) * x).exp()) for p, x in zip(self.masses, self.losses, strict=True)]
        error = self.moment(c, digits) * arb(-digits - 4.0).exp()
        return geometric(weights, [acb(x) for x in self.losses], error.upper(), step, count)

    def ends(self) -> tuple[Ball, Ball]:
        """Return the least and the largest loss."""
        return self.losses[0], self.losses[-1]

    def delta(self, epsilon: float) -> Ball:
        """Enclose Σ p_i (1 − e^{ε−x_i})₊."""
        pairs = zip(self.masses, self.losses, strict=True)
        return sum((p * (-(arb(epsilon) - x).expm1()).nonnegative_part() for p, x in pairs), arb(0))


class ProfileOnly(BallLaw):
    """Enclose the profile of a law and the ends of its loss, for a law whose sum of moments is too long to build.

    Its moments are refused, so that discrete stand-ins take its place.
    """

    def __init__(self, ends: tuple[Ball, Ball], delta: Callable[[float], Ball]) -> None:
        self._ends, self._delta = ends, delta

    def ends(self) -> tuple[Ball, Ball]:
        """Return the least and the largest loss."""
        return self._ends

    def delta(self, epsilon: float) -> Ball:
        """Return the profile at ε."""
        return self._delta(epsilon)


class Place(NamedTuple):
    """Keep t = e^ε and an enclosure of f(t)."""

    t: Ball
    value: Ball


def profile(law: BallLaw, *, places: int, mass: float) -> list[Place]:
    """Enclose the profile of one step at about this many places, up to where it is about `mass`."""
    with precision(_BITS):
        scale = float(law.delta(0.0))  # the total variation, of the size of a typical loss
        if not scale > 0.0:
            raise PrecisionError("a step that reveals nothing needs no stand-in")
        low, high = _range(law, scale, mass)
        bounded = law.ends()[1].is_finite()
        near = places // 3 if bounded else 0  # places that close in on the end of a bounded loss
        middle = 0.5 * high if bounded else high
        ends = math.asinh(low / scale), math.asinh(middle / scale)
        inner = scale * np.sinh(np.linspace(*ends, places - near)[1:-1])
        edge = high * (1.0 - np.geomspace(0.5, 1e-3, near))
        return [Place(arb(e).exp(), law.delta(e)) for e in (low, *inner.tolist(), *edge.tolist(), high)]


def dominating(places: list[Place]) -> tuple[Discrete, Ball]:
    """Return the discrete law with the profile f̃ of the module docstring, and p_∞."""
    with precision(_BITS):
        hull: list[_Point] = [(arb(0), arb(1))]
        for place in places:
            height = place.value.upper().min(hull[-1][1])  # f never grows, so the earlier value serves here too
            _extend(hull, (place.t, height))
        return _pair(hull), hull[-1][1]


def dominated(places: list[Place]) -> Discrete:
    """Return the discrete law with the profile f̌ of the module docstring."""
    with precision(_BITS):
        above = [p.value + (p.t - 1).min(arb(0)) for p in places]  # f less what every profile has
        visible = _VISIBLE * max(float(x.mid()) for x in above)
        inside = [p for p in places if p.value.lower() > 0 and p.value + p.t - 1 > visible]
        t, low, high = [p.t for p in inside], [p.value.lower() for p in inside], [p.value.upper() for p in inside]
        last = len(t) - 1
        vertices: list[_Point] = []
        for i in range(last):
            left = (low[i] - high[i - 1]) / (t[i] - t[i - 1]) if i else arb(-1)
            start = low[i] if i else 1 - t[0]
            if i == last - 1:
                vertices.append(((t[i] - start / left * (1 - arb(2) ** -60)).lower(), arb(0)))
                fits = start + left * (vertices[-1][0] - t[i]) >= 0
            else:
                right = (high[i + 2] - low[i + 1]) / (t[i + 2] - t[i + 1])
                at = (start - left * t[i] - low[i + 1] + right * t[i + 1]) / (right - left)
                at = (at + arb(2) ** -60 * (t[i + 1] - t[i])).mid()
                first, second = start + left * (at - t[i]), low[i + 1] + right * (at - t[i + 1])
                vertices.append((at, first.min(second).lower() if i else 1 - at))
                fits = at > (t[i] if i else 0) and at < t[i + 1] and vertices[-1][1] <= second
            if not fits:
                raise PrecisionError("the profile of a sampled step is not resolved")
        hull: list[_Point] = [(arb(0), arb(1))]
        for vertex in vertices:
            _extend(hull, vertex)
        kept = {id(vertex) for vertex in hull}
        checks = [(t[i], low[i]) for i in range(1, last)] + [v for v in vertices if id(v) not in kept]
        if last < 3 or hull[1] is not vertices[0] or not all(_at(hull, x) <= height for x, height in checks):
            raise PrecisionError("the profile of a sampled step is not resolved")
        return _pair(hull)


_Point = tuple[Ball, Ball]


def _extend(hull: list[_Point], point: _Point) -> None:
    """Join a point right of a convex chain; a chain that is not certainly convex loses its last points."""
    while len(hull) > 1 and not _slope(hull[-1], point) > _slope(hull[-2], hull[-1]):
        hull.pop()
    hull.append(point)


def _at(hull: list[_Point], t: Ball) -> Ball:
    """Return the height of the chain at t."""
    for a, b in pairwise(hull):
        if t <= b[0]:
            return a[1] + _slope(a, b) * (t - a[0])
    return hull[-1][1]


def _pair(hull: list[_Point]) -> Discrete:
    """The pair whose profile is the chain, constant right of its end."""
    slopes = [_slope(a, b) for a, b in pairwise(hull)] + [arb(0)]
    losses, masses = [], []
    for (t, _), before, after in zip(hull[1:], slopes, slopes[1:], strict=False):
        mass = t * (after - before)
        if mass > 0:
            losses.append(t.log())
            masses.append(mass)
        elif not mass.is_zero():
            raise PrecisionError("the profile of a sampled step is not resolved")
    return Discrete(losses, masses)


def _slope(a: _Point, b: _Point) -> Ball:
    return (b[1] - a[1]) / (b[0] - a[0])


def _range(law: BallLaw, scale: float, mass: float) -> tuple[float, float]:
    """Return the least and the largest ε for the places."""
    least, most = law.ends()
    low, high = -scale, scale
    if least > -60:
        low = outward(least).lower
    else:
        while law.delta(low) + arb(low).expm1() > mass and low > -_FARTHEST:
            low *= 1.5
    if most.is_finite():
        high = outward(most).upper
    else:
        while law.delta(high) > mass and high < _FARTHEST:
            high *= 1.5
    return low, high
