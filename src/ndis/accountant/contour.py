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
from typing import Protocol

import numpy as np

from ndis._formulas import chernoff_factor
from ndis._validate import Floats
from ndis.accountant.moment import Complexes
from ndis.accountant.shift import quiet

__all__ = ["TOLERANCE", "Law", "Saddle", "find_saddle", "integrate"]

_UNIT = 2.0**-53
TOLERANCE = 1e-11  # error of log δ, relative to 1 + |log δ|
_DEAD = -41.0  # e^-41: below the rounding of the sum
_DOUBT = -26.0  # log of the error that one value of K may bring into the sum, relative to its saddle value
_LOOK = 0.5  # step of the look along the path; the first trapezoid reuses it
_CHUNK = 8
_MAX_LOOK = 48
_MAX_HALVINGS = 7
_GOAL = 2e-14
_EARLY = 3  # halvings after which the rounding is known well enough to give up
_HOPELESS = 1e-9  # rounding of log δ, relative to 1 + |log δ|
_MOST_S = 1e10
_ONE = 1e-6  # log δ is not above 0
_SLOPES = (0.5, 0.2, 0.05, 0.0, -0.05, -0.2, -0.5)

Saddle = tuple[float, float, float, float]  # place, width, bend of steepest descent, Chernoff's bound on log δ
Path = tuple[float, float, float]  # saddle, width, bend
_Values = tuple[Complexes, Complexes, Complexes, Floats]  # s, ds/du, K − s·mean, its error


class Law(Protocol):
    """A law of the privacy loss has a mean, the end of the domain of K, and K(s) − s·mean with its error.

    No step of it has a loss above `largest` that counts.
    """

    mean: float
    limit: float
    largest: float

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """K(s) − s·mean at points of the upper half-plane, and the estimated absolute errors."""


def _nodes(path: Path, first: float, step: float, count: int) -> tuple[Complexes, Complexes]:
    """Return s(u) = c + bend w (cosh u − 1) + i w sinh u, and ds/du, at u = first, first + step, …"""
    c, w, bend = path
    up = np.exp(first + step * np.arange(count))
    cosh, sinh = 0.5 * w * (up + 1.0 / up), 0.5 * w * (up - 1.0 / up)
    return c + bend * (cosh - w) + 1j * sinh, bend * sinh + 1j * cosh


def _dying(dead: int, values: _Values, lin: float, base: float, growth: float) -> tuple[int, int]:
    """Return the number of values until they are dead for good, 0 if they go on, −1 if they grow or are in doubt.

    The second result is the number of dead values at the end.
    """
    s, ds, v, e = values
    heights = (v + lin * s).real + np.log(np.abs(ds / (s * (s + 1.0)))) - base
    doubts = heights + np.log(e + _UNIT)
    for j, (height, doubt) in enumerate(zip(heights.tolist(), doubts.tolist(), strict=True)):
        if not (height < growth and doubt < _DOUBT + max(growth, 0.0)):
            return -1, 0
        dead = dead + 1 if max(height, doubt) < _DEAD else 0
        if dead == 3 or (dead == 2 and max(height, doubt) < 2.0 * _DEAD):
            return j + 1, dead
    return 0, dead


def _terms(lin: Floats, v0: float, path: Path, values: _Values) -> tuple[Complexes, Floats]:
    """Return the terms at some nodes, over the one at the saddle, and their errors: a row per node, a column per ε."""
    (c, w, _), (s, ds, v, e) = path, values
    factor = ds / (s * (s + 1.0)) * (c * (1.0 + c) / w)
    exponents = (v - v0)[:, None] + (s - c)[:, None] * lin
    terms = np.exp(exponents) * factor[:, None]
    rounding = (1.0 + np.abs(v))[:, None] + np.abs(s)[:, None] * np.abs(lin)
    return terms, np.minimum(e, 1.0)[:, None] + 4.0 * _UNIT * rounding


@quiet
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
        bound = float(v[0].real + lin * c + chernoff_factor(c))
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


def _look(law: Law, path: Path, lin: float, growth: float, limit: int) -> _Values | None:
    """Values along the path, from the saddle on, until they are dead; None if they grow, are in doubt, or live on."""
    c, w, _ = path
    parts: list[_Values] = []
    base, dead, k = 0.0, 0, 0
    while k <= limit:
        s, ds = _nodes(path, _LOOK * k, _LOOK, _CHUNK if k else _CHUNK + 1)
        v, e = law.centred(s)
        if not parts:
            base = float(v[0].real) + lin * c + math.log(w) - math.log(c) - math.log1p(c)
        parts.append((s, ds, v, e))
        count, dead = _dying(dead, parts[-1], lin, base, growth)
        if count < 0:
            return None
        if count > 0:
            stop = k + count - dead + 1  # the first dead value ends the path
            s, ds, v, e = (a[0] if len(a) == 1 else np.concatenate(a) for a in zip(*parts, strict=True))
            return s[:stop], ds[:stop], v[:stop], e[:stop]
        k += s.size
    return None


@quiet
def integrate(law: Law, epsilon: Floats, pivot: int, saddle: Saddle) -> tuple[Floats, Floats, Floats]:
    """log δ, mean s and error at every ε, by the path that suits the one at `pivot`."""
    lin = law.mean - float(epsilon[pivot])
    c, w, bend, _ = saddle
    best = (np.full(epsilon.size, np.nan), np.full(epsilon.size, np.nan), np.full(epsilon.size, np.inf))
    if not w > 0.0:
        return best
    tried = set()
    for growth, limit, slopes in (
        (2.0, 16, (min(max(bend, -0.5), 0.5),)),
        (2.0, _MAX_LOOK, _SLOPES),
        (8.0, _MAX_LOOK, _SLOPES),
    ):
        seen = []
        for slope in slopes:
            if slope not in tried:
                nodes = _look(law, (c, w, slope), lin, growth, limit)
                if nodes is not None:
                    seen.append((slope, nodes))
                    tried.add(slope)
        for slope, nodes in sorted(seen, key=lambda pair: pair[1][0].size):
            got = _along(law, epsilon, pivot, (c, w, slope), nodes)
            if not got[2][pivot] >= best[2][pivot]:
                best = got
            if best[2][pivot] <= 0.1 * TOLERANCE * (1.0 + abs(best[0][pivot])):
                return best
    return best


def _along(law: Law, epsilon: Floats, pivot: int, path: Path, nodes: _Values) -> tuple[Floats, Floats, Floats]:
    """Apply the trapezoid rule along one path, for every ε: return log δ, the mean of s, the estimated error."""
    (c, w, _), lin = path, law.mean - epsilon
    count, v0 = nodes[0].size - 1, float(nodes[2][0].real)
    scale = v0 + lin * c - math.log(c) - math.log1p(c) + math.log(w)
    h, values, share = _LOOK, nodes, 0.5  # the first node lies on the real axis and counts by half
    total = moment = size = doubt = previous = end = np.zeros(epsilon.size)
    change = np.full(epsilon.size, np.inf)
    for level in range(_MAX_HALVINGS + 1):
        terms, errors = _terms(lin, v0, path, values)
        terms[0] *= share
        sizes = np.abs(terms)
        total, moment = total + terms.sum(axis=0).imag, moment + (values[0] @ terms).imag
        size, doubt = size + sizes.sum(axis=0), doubt + (sizes * errors).sum(axis=0)
        current, last = h * total, change
        if level == 0:
            end, share = sizes[-1], 1.0
        else:
            change = np.abs(current - previous)
            floor = h * (doubt + _UNIT * size)
            left = np.where(
                (change > floor) & (change < last), change * np.maximum(10.0 * change / last, 0.01), change
            )
            left[~(last < math.inf)] = math.inf
            value = scale + np.log(current / math.pi)
            error = np.where(value < _ONE, (left + floor + end) / current, math.inf)  # NaN too is no value
            low = floor[pivot] / current[pivot]
            if error[pivot] <= max(2.0 * low, _GOAL):
                break
            if level >= 3 and change[pivot] > 0.5 * last[pivot]:
                break  # the integrand is too rough along this path
            if level > _EARLY and not math.fabs(low) < _HOPELESS * (1.0 + math.fabs(scale[pivot])):
                break  # the terms cancel, and the next halvings do not help
        if level < _MAX_HALVINGS:
            s, ds = _nodes(path, 0.5 * h, h, count << level)
            values = (s, ds, *law.centred(s))
        previous, h = current, 0.5 * h
    return value, moment / total, error
