"""δ(ε) where a few rare large losses make it up: a sum over their number, each term on a path of its own.

In the remove order at a small rate the loss of a step has a narrow body, from the steps without the record, and a far
tail. The saddle of the whole law then sits at a wall, where the tail explodes, and the integral cancels: what e^K − 1
has from the body dies only far out. A smooth window splits every step, M = body + jumps, and

    e^K = Π (body_j + jumps_j)^{n_j} = Σ_k (coefficient of z^k in Π (body_j + z jumps_j)^{n_j}).

Each coefficient is the transform of a positive measure, so its integral is positive and has a saddle of its own. The
terms add up without cancellation. Terms below e^-33 of the sum are bounded by Chernoff's bound and count as error. At
one real s the coefficients are log-concave in k, so that a geometric series bounds those left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ndis._validate import Floats
from ndis.spectrum.sampled_contour import TOLERANCE, UNIT, find_saddle, integrate
from ndis.spectrum.sampled_moment import Complexes, ShiftMoment

__all__ = ["Composition", "Step", "by_jumps"]

_MOST_JUMPS = 24
_LEAST = -500.0  # log δ below this is not asked for
_WINDOW = 0.35  # width of the step between body and jumps, in standard deviations of the noise


class Step(Protocol):
    """The law of the loss of one step."""

    mean: float
    limit: float

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """log M(s) − s·mean and its error."""


class Composition(Protocol):
    """A law made of steps, each with its number."""

    mean: float
    limit: float
    parts: list[tuple[Step, int]]

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """K(s) − s·mean and its error."""


Pieces = Sequence[tuple[Step, ShiftMoment | None, int]]


class _Part:
    """The part of e^K in which exactly k steps are jumps: the coefficient of z^k in Π (body_j + z jumps_j)^{n_j}."""

    def __init__(self, law: Composition, pieces: Pieces, k: int) -> None:
        self.mean, self.limit, self.pieces, self.k = law.mean, law.limit, pieces, k

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        value, error = np.zeros(s.size, dtype=np.complex128), np.zeros(s.size)
        ratios, counts, doubt = [], [], np.zeros(s.size)
        for body, jumps, n in self.pieces:
            v, e = body.centred(s)
            value += n * v
            error += n * e
            if jumps is not None and self.k:
                high, more = jumps.centred(s)
                ratios.append(high - v)
                counts.append(n)
                doubt = np.maximum(doubt, more + e)
        if not self.k:
            return value, error
        if not ratios:
            return value - math.inf, error
        top = np.max([r.real for r in ratios], axis=0)
        series = np.zeros((self.k + 1, s.size), dtype=np.complex128)
        sizes = np.zeros((self.k + 1, s.size))
        series[0], sizes[0] = 1.0, 1.0
        for r, n in zip(ratios, counts, strict=True):
            step = np.exp(r - top)
            term, terms = np.ones(s.size, dtype=np.complex128), [np.ones(s.size, dtype=np.complex128)]
            for i in range(min(self.k, n)):
                term = term * step * ((n - i) / (i + 1.0))
                terms.append(term)
            fresh, fresh_sizes = np.zeros_like(series), np.zeros_like(sizes)
            for i, term in enumerate(terms):
                fresh[i:] += term * series[: self.k + 1 - i]
                fresh_sizes[i:] += np.abs(term) * sizes[: self.k + 1 - i]
            series, sizes = fresh, fresh_sizes
        with np.errstate(divide="ignore", invalid="ignore"):
            value = value + np.log(series[self.k]) + self.k * top
            error = error + (self.k * doubt + 8.0 * UNIT * len(counts)) * sizes[self.k] / np.abs(series[self.k])
        return value, error


def _valley(m: ShiftMoment, s: float) -> float:
    """The least likely x between the body of the tilted law and its jumps; NaN if it has one hump only."""
    x = np.linspace(-8.0, (1.0 + s) * m.shift + 4.0, 2048)
    f = m.log_density(s, x)
    inner = np.flatnonzero((f[1:-1] <= f[:-2]) & (f[1:-1] < f[2:])) + 1
    return float(x[inner[np.argmin(f[inner])]]) if inner.size else math.nan


def _place(m: ShiftMoment, loss: float) -> float:
    """The x at which one step has this loss."""
    if not loss > 0.0:
        return math.nan
    grown = loss + math.log(-math.expm1(-loss)) - math.log(m.rate)  # of e^loss = 1 + rate (w − 1)
    return float(np.logaddexp(0.0, grown) + 0.5 * m.shift**2) / m.shift


def by_jumps(law: Composition, epsilon: float, c: float) -> tuple[float, float, float]:
    """log δ, −d log δ/dε and the error, as a sum over the number of jumps."""
    best = (math.nan, math.nan, math.inf)
    for rule in (0.5, 0.25, 0.0):
        pieces: list[tuple[Step, ShiftMoment | None, int]] = []
        for m, n in law.parts:
            place = math.nan
            if isinstance(m, ShiftMoment):
                place = _valley(m, c) if rule == 0.0 else _place(m, rule * epsilon)
            if isinstance(m, ShiftMoment) and place >= 2.0:
                body, jumps = m.split(place, _WINDOW)
                pieces.append((body, jumps, n))
            else:
                pieces.append((m, None, n))
        if all(jumps is None for _, jumps, _ in pieces):
            continue
        got = _sum_over_jumps(law, pieces, epsilon, c)
        if got[2] < best[2]:
            best = got
        if best[2] <= TOLERANCE * (1.0 + abs(best[0])):
            break
    return best


def _sum_over_jumps(
    law: Composition, pieces: Pieces, epsilon: float, start: float
) -> tuple[float, float, float]:
    """Σ over k of the part with k jumps; parts that Chernoff's bound shows to be negligible count as error."""
    most = sum(n for _, jumps, n in pieces if jumps is not None)
    lin = law.mean - epsilon
    highest, failed = -math.inf, 0
    values, slopes, errors = [], [], []
    for k in range(min(most, _MOST_JUMPS) + 1):
        part = _Part(law, pieces, k)
        floor = max(highest, _LEAST) - 34.0
        saddle = find_saddle(part, lin, floor, start)
        bound = saddle[3]
        value, slope, error = bound, saddle[0], 1.0
        if bound > floor + 1.0:
            found, mean_s, wrong = integrate(part, np.array([epsilon]), 0, saddle)
            if wrong[0] <= 1e-6:
                value, slope, error = float(found[0]), float(mean_s[0]), float(wrong[0])
                highest = max(highest, value)
            else:
                failed += 1
        values.append(value)
        slopes.append(slope)
        errors.append(error)
        if k >= 1 and error == 1.0 and bound < highest - 32.0:
            # the coefficients at one real s are log-concave in k (Newton): a geometric series bounds those that follow
            at = np.array([saddle[0]], dtype=np.complex128)
            fall = (part.centred(at)[0][0] - _Part(law, pieces, k - 1).centred(at)[0][0]).real
            if fall < -0.7:
                values.append(bound + fall - math.log(-math.expm1(fall)))
                slopes.append(slope)
                errors.append(1.0)
                break
        if failed > 1 or k == _MOST_JUMPS < most:
            return math.nan, math.nan, math.inf
    if highest == -math.inf:
        return math.nan, math.nan, math.inf
    v, s, e = np.array(values), np.array(slopes), np.array(errors)
    weight = np.exp(v - highest)
    good = e < 1.0
    total = float(weight[good].sum())
    mean = float((weight * s)[good].sum()) / total
    return highest + math.log(total), mean, float((weight * e).sum()) / total
