"""A discrete pair that dominates one sampled step of any Gaussian pair, for upper bounds of compositions.

With P = R·Q, the profile as a function of t = e^ε is f(t) = E_Q (R − t)₊: convex, falling, f(0) = 1. Let f_i ≥ f(t_i)
at finitely many places 0 = t_0 < t_1 < … < t_J, f_0 = 1, and let f̃ be the lower convex hull of the points (t_i, f_i),
constant right of t_J. A chord between points on or above a convex function lies above it, so f̃ ≥ f everywhere. f̃ is
the profile of a discrete pair. Its ratio is t_i with Q-probability s_i − s_{i−1}, where s_i is the slope of f̃ right of
t_i, and P-probability p_i = t_i (s_i − s_{i−1}). The ratio is infinite with P-probability p_∞ = f̃(t_J).
This pair dominates the step, and dominating pairs compose (Zhu, Dong and Wang 2022). So

    δ(ε) ≤ 1 − Π(1 − p_∞)^n + δ̃(ε),

where δ̃ comes from the moments Σ p_i t_i^s in the place of those of the step.

The values f_i are certified: δ = w·δ'(ε') as in `ndis.spectrum.subsampling`, with δ' from the pair's own certificate.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from flint import acb, arb

from ndis._balls import Ball, outward, precision
from ndis.errors import PrecisionError
from ndis.spectrum.certified import _delta_ball
from ndis.spectrum.directions import Directions
from ndis.spectrum.sampled_moment_balls import Line

__all__ = ["DiscreteStep", "dominating"]

_DIGITS = 23.0
_BITS = 320


class DiscreteStep:
    """A step with finitely many losses; the same questions as to `ndis.spectrum.sampled_moment_balls.ShiftStep`."""

    def __init__(self, losses: list[float], masses: list[Ball], *, remove: bool) -> None:
        self.losses, self.masses, self.remove = losses, masses, remove
        self._loss = np.array(losses)
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


def dominating(invariants: Directions, rate: Ball, *, remove: bool, places: int, mass: float) -> tuple[DiscreteStep, Ball]:
    """The discrete pair of the module docstring with about so many places, and p_∞, which is about `mass` or less.

    The places lie where the profile is neither 1 − e^ε nor below `mass`, up to their float approximations.
    """
    with precision(_BITS):
        low, high = _range(invariants, rate, remove, mass)
        scale = float(_above(invariants, rate, remove, 0.0))  # the total variation, of the size of a typical loss
        near = 0 if remove else places // 3  # places that close in on the end of the bounded loss
        ends = np.arcsinh([low / scale, high / scale])
        inner = scale * np.sinh(np.linspace(*ends, places - near)[1:-1])
        edge = high * (1.0 - np.geomspace(0.5, 1e-3, near))
        epsilons = [low, *np.unique(np.concatenate([inner, edge])).tolist(), high]
        places_above = [(arb(e).exp(), _above(invariants, rate, remove, e), e) for e in epsilons]
        hull: list[tuple[Ball, Ball, float]] = []
        for point in [(arb(0), arb(1), -math.inf), *places_above]:
            if hull and not point[1] < hull[-1][1]:  # f never grows, so the earlier value serves here too
                point = (point[0], hull[-1][1], point[2])
            while len(hull) > 1 and not _slope(hull[-1], point) > _slope(hull[-2], hull[-1]):
                hull.pop()
            hull.append(point)
        slopes = [_slope(a, b) for a, b in pairwise(hull)] + [arb(0)]
        losses, masses = [], []
        for i in range(1, len(hull)):
            jump = hull[i][0] * (slopes[i] - slopes[i - 1])
            if jump.upper() > 0:
                losses.append(hull[i][2])
                masses.append(jump.nonnegative_part())
        return DiscreteStep(losses, masses, remove=remove), hull[-1][1]


def _slope(a: tuple[Ball, Ball, float], b: tuple[Ball, Ball, float]) -> Ball:
    return (b[1] - a[1]) / (b[0] - a[0])


def _above(invariants: Directions, rate: Ball, remove: bool, epsilon: float) -> Ball:
    """An exact number not below δ(ε) of the sampled step, and close to it."""
    e = arb(epsilon)
    grown = e.expm1()
    weight = rate if remove else rate - (1 - rate) * grown
    if weight <= 0:
        return arb(0)
    if remove and grown + rate <= 0:
        return (-grown).upper()
    inner = (grown / weight).log1p() if remove else (rate * e.exp() / weight).log()
    if not inner.is_finite():
        raise PrecisionError(f"the sampled step at epsilon = {epsilon!r} is out of reach")
    place = outward(inner).lower
    for narrower in range(4):
        delta = _delta_ball(invariants, place, _DIGITS, narrower)
        if delta is not None and delta.is_finite():
            return (weight * delta).upper().min(arb(1))
    raise PrecisionError(f"the pair at epsilon = {place!r} is out of reach")


def _range(invariants: Directions, rate: Ball, remove: bool, mass: float) -> tuple[float, float]:
    """(lowest, highest) ε for the places."""
    stay = float((-rate).log1p())
    low, high = (max(stay, -60.0), 1e-3) if remove else (-1e-3, -stay)
    if remove:
        while _above(invariants, rate, remove, high) > mass and high < 700.0:
            high *= 1.5
        return low, high
    while _above(invariants, rate, remove, low) + arb(low).expm1() > mass and low > -700.0:
        low *= 1.5
    return low, high
