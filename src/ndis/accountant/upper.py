"""Discrete pairs that dominate one sampled step of any Gaussian pair, or are dominated by it.

With P = R·Q, the profile as a function of t = e^ε is f(t) = E_Q (R − t)₊: convex, falling, f(0) = 1. Let f_i ≥ f(t_i)
at finitely many places 0 = t_0 < t_1 < … < t_J, f_0 = 1, and let f̃ be the lower convex hull of the points (t_i, f_i),
constant right of t_J. A chord between points on or above a convex function lies above it, so f̃ ≥ f everywhere. f̃ is
the profile of a discrete pair. Its ratio is t_i with Q-probability s_i − s_{i−1}, where s_i is the slope of f̃ right of
t_i, and P-probability p_i = t_i (s_i − s_{i−1}). The ratio is infinite with P-probability p_∞ = f̃(t_J).
This pair dominates the step, and dominating pairs compose (Zhu, Dong and Wang 2022). So

    δ(ε) ≤ 1 − Π(1 − p_∞)^n + δ̃(ε),

where δ̃ comes from the moments Σ p_i t_i^s in the place of those of the step.

**From below.** Let l_i ≤ f(t_i) ≤ u_i. By convexity f lies above the chord of two neighbours outside of it. So on
[t_i, t_{i+1}] it lies above the line through (t_i, l_i) with slope (l_i − u_{i−1})/(t_i − t_{i−1}), and above the line
through (t_{i+1}, l_{i+1}) with slope (u_{i+2} − l_{i+1})/(t_{i+2} − t_{i+1}). f ≥ 1 − t and f ≥ 0 serve at the ends.
Let τ_i be a place in (t_i, t_{i+1}) near their crossing (the first: in (0, t_1), on the line 1 − t), φ_i a height there
not above either line. The lower hull f̌ of the points (τ_i, φ_i), (0, 1) and the last crossing with 0 satisfies f̌ ≤ f,
if f̌(t_i) ≤ l_i for every i ≥ 1: on each half of [t_i, t_{i+1}] f̌ is convex, so it is below its own chord, whose ends
are below one of the lines. All this is checked in balls. f̌ is the profile of a discrete pair that the step dominates.

The values f_i are certified: δ = w·δ'(ε') as in `ndis.accountant.one_release`, with δ' from the pair's own certificate.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb

from ndis._balls import Ball, precision
from ndis.accountant.moment_balls import Line
from ndis.errors import PrecisionError
from ndis.spectrum.certified import _delta_ball
from ndis.spectrum.directions import Directions

__all__ = ["DiscreteStep", "Place", "dominated", "dominating", "profile"]

_DIGITS = 32.0
_VISIBLE = 1e-9  # of f − (1 − t): less is lost in the enclosures of f
_BITS = 320


class DiscreteStep:
    """A step with finitely many losses; the same questions as to `ndis.accountant.moment_balls.ShiftStep`."""

    def __init__(self, losses: list[Ball], masses: list[Ball], *, remove: bool) -> None:
        self.losses, self.masses, self.remove = losses, masses, remove
        self._loss = np.array([float(x) for x in losses])
        self._log_mass = np.array([float(p.log()) for p in masses])

    def log_moment(self, c: float) -> float:
        """log M(c) in floats."""
        terms = self._log_mass + c * self._loss
        top = float(terms.max())
        return top + math.log(float(np.exp(terms - top).sum()))

    def log_delta(self, epsilon: float) -> float:
        """log δ(ε) of one step in floats; −inf beyond the largest loss."""
        beyond = self._loss > epsilon
        total = float((np.exp(self._log_mass[beyond]) * -np.expm1(epsilon - self._loss[beyond])).sum())
        return math.log(total) if total > 0.0 else -math.inf

    def body_variance(self) -> float:
        """Variance of the loss in floats."""
        p = np.exp(self._log_mass)
        return float((p * self._loss**2).sum() - (p * self._loss).sum() ** 2)

    def best_angle(self, c: float, y: float) -> tuple[float, float]:
        """No ceiling below M(c): a discrete loss does not fall."""
        return 0.0, 0.0

    def moment(self, c: float, digits: float) -> Ball:
        """M(c)."""
        return sum((p * (arb(c) * x).exp() for p, x in zip(self.masses, self.losses, strict=True)), arb(0))

    def line(self, c: float, digits: float) -> Line:
        """M(c ± iy) = Σ p_i e^{cx_i} e^{±iyx_i}; terms that do not count join the error."""
        size = self.moment(c, digits)
        small = (size * arb(-digits - 6.0).exp() / len(self.losses)).upper()
        side = 1 if self.remove else -1
        weights: list[Any] = []
        logs: list[Any] = []
        error = arb(0)
        for p, x in zip(self.masses, self.losses, strict=True):
            weight = p * (arb(c) * x).exp()
            if weight < small:
                error += weight
            else:
                weights.append(acb(weight))
                logs.append(acb(side * arb(x)))
        return Line(weights, logs, error.upper())

    def ceiling(self, c: float, y: float, theta: float, digits: float) -> Ball:
        """M(c)."""
        return self.moment(c, digits).upper()


class Place(NamedTuple):
    """t = e^ε and an enclosure of f(t)."""

    t: Ball
    value: Ball
    epsilon: float


def profile(invariants: Directions, rate: Ball, *, remove: bool, places: int, mass: float) -> list[Place]:
    """Enclosures of the profile of one step at about so many places, up to where it is about `mass`."""
    with precision(_BITS):
        low, high = _range(invariants, rate, remove, mass)
        scale = float(_step(invariants, rate, remove, 0.0))  # the total variation, of the size of a typical loss
        near = 0 if remove else places // 3  # places that close in on the end of the bounded loss
        middle = high if remove else 0.5 * high
        ends = math.asinh(low / scale), math.asinh(middle / scale)
        inner = scale * np.sinh(np.linspace(*ends, places - near)[1:-1])
        edge = high * (1.0 - np.geomspace(0.5, 1e-3, near))
        epsilons = [low, *inner.tolist(), *edge.tolist(), high]
        return [Place(arb(e).exp(), _step(invariants, rate, remove, e), e) for e in epsilons]


def dominating(places: list[Place], *, remove: bool) -> tuple[DiscreteStep, Ball]:
    """The discrete pair with the profile f̃ of the module docstring, and p_∞."""
    with precision(_BITS):
        hull: list[_Point] = [(arb(0), arb(1))]
        for place in places:
            height = place.value.upper().min(hull[-1][1])  # f never grows, so the earlier value serves here too
            _extend(hull, (place.t, height))
        return _pair(hull, remove), hull[-1][1]


def dominated(places: list[Place], *, remove: bool) -> DiscreteStep:
    """The discrete pair with the profile f̌ of the module docstring."""
    with precision(_BITS):
        inside = [p for p in places if p.value.lower() > 0 and p.value + p.t - 1 > _VISIBLE]
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
        return _pair(hull, remove)


_Point = tuple[Ball, Ball]


def _extend(hull: list[_Point], point: _Point) -> None:
    """Join a point right of a convex chain; a chain that is not certainly convex loses its last points."""
    while len(hull) > 1 and not _slope(hull[-1], point) > _slope(hull[-2], hull[-1]):
        hull.pop()
    hull.append(point)


def _at(hull: list[_Point], t: Ball) -> Ball:
    """Height of the chain at t."""
    for a, b in pairwise(hull):
        if t <= b[0]:
            return a[1] + _slope(a, b) * (t - a[0])
    return hull[-1][1]


def _pair(hull: list[_Point], remove: bool) -> DiscreteStep:
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
    return DiscreteStep(losses, masses, remove=remove)


def _slope(a: _Point, b: _Point) -> Ball:
    return (b[1] - a[1]) / (b[0] - a[0])


def _step(invariants: Directions, rate: Ball, remove: bool, epsilon: float) -> Ball:
    """δ(ε) of the sampled step, enclosed."""
    e = arb(epsilon)
    grown = e.expm1()
    weight = rate if remove else rate - (1 - rate) * grown
    if weight <= 0:
        return arb(0)
    if remove and grown + rate <= 0:
        return -grown
    inner = (grown / weight).log1p() if remove else (rate * e.exp() / weight).log()
    if not inner.is_finite():
        raise PrecisionError(f"the sampled step at epsilon = {epsilon!r} is out of reach")
    for narrower in range(4):
        delta = _delta_ball(invariants, inner, _DIGITS, narrower)
        if delta is not None and delta.is_finite():
            return weight * delta
    raise PrecisionError(f"the pair at epsilon = {epsilon!r} is out of reach")


def _range(invariants: Directions, rate: Ball, remove: bool, mass: float) -> tuple[float, float]:
    """(lowest, highest) ε for the places."""
    stay = float((-rate).log1p())
    low, high = (max(stay, -60.0), 1e-3) if remove else (-1e-3, -stay)
    if remove:
        while _step(invariants, rate, remove, high) > mass and high < 700.0:
            high *= 1.5
        return low, high
    while _step(invariants, rate, remove, low) + arb(low).expm1() > mass and low > -700.0:
        low *= 1.5
    return low, high
