"""The contour integral of δ(ε) for any law whose log-moment function can be evaluated, with an error estimate.

    δ(ε) = (1/2πi) ∫ e^{K(s) − sε} / (s(s+1)) ds,      Re s = c > 0

A law gives K(s) − s·mean and the error of that. The path is the one of `contour`: through the saddle, bent to one side,
with a trapezoid rule in its parameter that is halved until it settles. The values of K are dear here, so that many ε
share those along one path, each with an error estimate of its own. The estimate adds up

    the change of the last halving, times ten times the ratio of the last two changes (at least 1/100),
    the errors of K, each times the modulus of the integrand there, and the rounding of the exponent,
    the last value of the integrand, in place of the rest of the path.

A path is taken only where the integrand dies for good and stays below a few times its value at the saddle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ndis._validate import Floats
from ndis.spectrum.sampled_moment import Complexes

__all__ = ["TOLERANCE", "Law", "Saddle", "find_saddle", "integrate"]

_UNIT = 2.0**-53
TOLERANCE = 1e-11  # of log δ, relative to 1 + |log δ|
_DEAD = -41.0  # e^-41: below the rounding of the sum
_DOUBT = -26.0  # log of the error that one value of K may bring into the sum, relative to its saddle value
_LOOK = 0.5  # step of the look along the path; the first trapezoid reuses it
_CHUNK = 8
_MAX_LOOK = 48
_MAX_HALVINGS = 7
_GOAL = 2e-14
_MOST_S = 1e10
_ONE = 1e-6  # log δ is not above 0
_SLOPES = (0.5, 0.2, 0.05, 0.0, -0.05, -0.2, -0.5)

Saddle = tuple[float, float, float, float]  # place, width, bend of steepest descent, Chernoff's bound on log δ
_Values = tuple[int, Complexes, Complexes, Complexes, Floats]  # number, s, ds/du, K − s·mean, its error


class Law(Protocol):
    """A law of the privacy loss: its mean, the end of the domain of K, and K(s) − s·mean with its error.

    No step of it has a loss above `largest` that counts.
    """

    mean: float
    limit: float
    largest: float

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """K(s) − s·mean at points of the upper half-plane, and the estimated absolute errors."""


@dataclass(frozen=True)
class Path:
    """s(u) = c + bend w (cosh u − 1) + i w sinh u."""

    c: float
    w: float
    bend: float

    def nodes(self, u: Floats) -> tuple[Complexes, Complexes]:
        cosh, sinh = np.cosh(u), np.sinh(u)
        s = self.c + self.bend * self.w * (cosh - 1.0) + 1j * self.w * sinh
        ds = self.w * (self.bend * sinh + 1j * cosh)
        return s, ds


def _chernoff(value: float, lin: float, c: float) -> float:
    """log of the bound E(1 − e^{ε−L})₊ ≤ E e^{c(L−ε)} c^c/(1+c)^{1+c}, for any c > 0."""
    return value + lin * c - math.log1p(c) - c * math.log1p(1.0 / c)


def find_saddle(law: Law, lin: float, floor: float = -math.inf, start: float = 0.0) -> Saddle:
    """The saddle c, the width w there, the bend of steepest descent, and Chernoff's bound on log δ.

    The search ends early where the bound falls below `floor`; the width is 0 then.
    """
    c, bound = start, math.inf
    if not c > 0.0:
        probe, _ = law.centred(np.array([1e-3 + 1e-3j]))
        variance = max(probe[0].imag / 1e-6, 1e-30)  # K̃ ≈ V s²/2
        root = math.sqrt(lin * lin + 4.0 * variance)
        c = 2.0 / (lin + root) if lin > 0.0 else (root - lin) / (2.0 * variance)
    c = min(c, 1e9, 0.5 * law.limit)
    low, high = 0.0, law.limit
    w, bend = math.inf, 0.0
    for _ in range(60):
        # the phase of a moment must not turn by π on the way from c to c + 2iη
        eta = min(1e-3 * c, 1e-3 * (law.limit - c), 0.1 * w, 1.0 / law.largest)
        v, _ = law.centred(np.array([c, c + 1j * eta, c + 2j * eta], dtype=np.complex128))
        bound = _chernoff(v[0].real, lin, c)
        if bound < floor or c > _MOST_S:
            return c, 0.0, 0.0, bound
        i1, i2 = v[1].imag, v[2].imag
        first = (8.0 * i1 - i2) / (6.0 * eta) + lin - 1.0 / c - 1.0 / (1.0 + c)
        second = 2.0 * (v[0].real - v[1].real) / (eta * eta) + 1.0 / c**2 + 1.0 / (1.0 + c) ** 2
        third = (2.0 * i1 - i2) / eta**3 - 2.0 / c**3 - 2.0 / (1.0 + c) ** 3
        good = math.isfinite(first) and math.isfinite(second) and second > 0.0
        if v[0].real / c > 1.0 / c + 1.0 / (1.0 + c) - lin:  # K is convex and 0 at 0: its slope at c is above K(c)/c
            good = False
        if not good or first > 0.0:
            high = c
        else:
            low = c
        if good:
            w = 1.0 / math.sqrt(second)
            bend = w * third / (3.0 * second)
            step = -first / second
            if abs(step) <= 0.02 * w:
                break
            move = c + step
        else:
            move = math.nan
        if not low < move < high or move > 8.0 * c or move < c / 8.0:
            if math.isinf(high):
                move = 4.0 * c
            elif low == 0.0:
                move = 0.25 * high
            else:
                move = math.sqrt(low * high)
        c = move
    return c, w, bend, bound


def _look(law: Law, path: Path, lin: float, base: float, growth: float, limit: int) -> _Values | None:
    """Values along the path until they are dead; None if they grow, are in doubt, or do not die."""
    parts = []
    k = 1
    dead = 0
    while k <= limit:
        u: Floats = _LOOK * np.arange(k, k + _CHUNK, dtype=np.float64)
        s, ds = path.nodes(u)
        v, e = law.centred(s)
        height = (v + lin * s).real + np.log(np.abs(ds / (s * (s + 1.0)))) - base
        parts.append((s, ds, v, e))
        for j in range(_CHUNK):
            doubt = height[j] + math.log(e[j] + _UNIT)
            if not (height[j] < growth and doubt < _DOUBT + max(growth, 0.0)):
                return None
            dead = dead + 1 if max(height[j], doubt) < _DEAD else 0
            if dead == 3 or (dead == 2 and max(height[j], doubt) < 2.0 * _DEAD):
                count = k + j + 1 - dead
                s, ds, v, e = (np.concatenate(a)[:count] for a in zip(*parts, strict=True))
                return count, s, ds, v, e
        k += _CHUNK
    return None


def integrate(
    law: Law, epsilon: Floats, pivot: int, saddle: Saddle
) -> tuple[Floats, Floats, Floats]:
    """log δ, mean s and error at every ε, by the path that suits the one at `pivot`."""
    lin = law.mean - float(epsilon[pivot])
    c, w, bend, _ = saddle
    best = (np.full(epsilon.size, np.nan), np.full(epsilon.size, np.nan), np.full(epsilon.size, np.inf))
    if not w > 0.0:
        return best
    start = law.centred(np.array([c], dtype=np.complex128))
    base = start[0][0].real + lin * c - math.log(c) - math.log1p(c) + math.log(w)
    tried = set()
    for growth, limit, slopes in (
        (2.0, 16, (min(max(bend, -0.5), 0.5),)),
        (2.0, _MAX_LOOK, _SLOPES),
        (8.0, _MAX_LOOK, _SLOPES),
    ):
        seen = []
        for slope in slopes:
            if slope not in tried:
                found = _look(law, Path(c, w, slope), lin, base, growth, limit)
                if found is not None:
                    seen.append((slope, found))
                    tried.add(slope)
        for slope, found in sorted(seen, key=lambda pair: pair[1][0]):
            got = _along(law, epsilon, pivot, Path(c, w, slope), start, found)
            if not got[2][pivot] >= best[2][pivot]:
                best = got
            if best[2][pivot] <= 0.1 * TOLERANCE * (1.0 + abs(best[0][pivot])):
                return best
    return best


def _along(
    law: Law, epsilon: Floats, pivot: int, path: Path, start: tuple[Complexes, Floats], found: _Values
) -> tuple[Floats, Floats, Floats]:
    """The trapezoid rule along one path, for every ε: log δ, the mean of s, the estimated error."""
    count, s, ds, v, e = found
    c, n = path.c, epsilon.size
    v0, e0 = start[0][0], start[1][0]
    lin = law.mean - epsilon
    scale = v0.real + lin * c - math.log(c) - math.log1p(c) + math.log(path.w)
    norm = math.log(path.w) - math.log(c) - math.log1p(c)

    def sums(s: Complexes, ds: Complexes, v: Complexes, e: Floats) -> tuple[Floats, ...]:
        z = v[None, :] + lin[:, None] * s[None, :] - (scale - norm)[:, None]
        f = np.exp(z) * (ds / (s * (s + 1.0)) * math.exp(-norm))[None, :]
        size = np.abs(f)
        round_ = 4.0 * _UNIT * (1.0 + np.abs(v)[None, :] + np.abs(lin[:, None] * s[None, :]))
        wrong = size * (np.minimum(e, 1.0)[None, :] + round_)
        return f.imag.sum(1), (f * s).imag.sum(1), size.sum(1), wrong.sum(1), size[:, -1]

    total, moment, size, wrong, end = sums(s, ds, v, e)
    total, moment, size = total + 0.5, moment + 0.5 * c, size + 0.5
    wrong += 0.5 * (e0 + 4.0 * _UNIT * (1.0 + abs(v0) + np.abs(lin * c)))
    h = _LOOK
    previous, change = h * total, np.full(n, np.inf)
    value, error = np.full(n, np.nan), np.full(n, np.inf)
    for level in range(_MAX_HALVINGS):
        h *= 0.5
        u: Floats = h * (1.0 + 2.0 * np.arange(count << level, dtype=np.float64))
        s, ds = path.nodes(u)
        a, b, d, f, _ = sums(s, ds, *law.centred(s))
        total, moment, size, wrong = total + a, moment + b, size + d, wrong + f
        current = h * total
        last, change = change, np.abs(current - previous)
        previous = current
        floor = wrong * h + _UNIT * size * h
        with np.errstate(all="ignore"):
            left = change * np.where(change < last, np.maximum(10.0 * change / last, 0.01), 1.0)
            left = np.where(np.isfinite(last), np.where(change <= floor, change, left), np.inf)
            value = scale + np.log(current / math.pi)
            error = np.where(value < _ONE, (left + floor + end) / current, np.inf)  # NaN too is no value
        if error[pivot] <= max(2.0 * floor[pivot] / current[pivot], _GOAL):
            break
        if level >= 2 and change[pivot] > 0.5 * last[pivot]:
            break  # the integrand is too rough along this path
    return value, moment / total, error
