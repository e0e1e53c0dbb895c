"""δ(ε) of a composition of Poisson-sampled Gaussian pairs, one order of a pair at a time, in float64.

    δ(ε) = (1/2πi) ∫ e^{K(s) − sε} / (s(s+1)) ds,      K(s) = Σ n_j log M_j(s),      Re s = c > 0

over the groups j of n_j equal steps. The path and the trapezoid rule along it are those of `contour`; the values of K come
from `sampled_moment`, with an error estimate of their own, which the sum carries on. Many ε share the values of K along
one path, as long as the estimate allows it.

A negative ε is turned into a positive one of the reversed order: δ_PQ(ε) = 1 − e^ε + e^ε δ_QP(−ε).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ndis._validate import Floats
from ndis.spectrum.sampled_moment import Complexes, ShiftMoment

__all__ = ["SampledGroup", "sampled_log_delta"]

Order = Literal["remove", "add"]

_UNIT = 2.0**-53
_DEAD = -41.0
_DOUBT = -26.0  # log of the error that one value of K may bring into the sum, relative to its saddle value
_LOOK = 0.5
_CHUNK = 8
_MAX_LOOK = 48
_MAX_HALVINGS = 7
_GOAL = 2e-14
_TOLERANCE = 1e-11  # of log δ, relative to 1 + |log δ|
_MOST_JUMPS = 24
_MOST_S = 1e10
_WINDOW = 0.35  # width of the step between body and jumps
_LEAST = -500.0  # log δ below this is not asked for
_SLOPES = (0.5, 0.2, 0.05, 0.0, -0.05, -0.2, -0.5)


@dataclass(frozen=True, eq=False)
class SampledGroup:
    """`count` steps that sample at `rate` and release one Gaussian pair, the pair of the order that is asked about."""

    rate: float
    excess: Floats
    shift: Floats
    copies: Floats
    count: int


class _Law:
    """K̃(s) = K(s) − s·mean of a whole composition in one order."""

    def __init__(self, groups: Sequence[SampledGroup], order: Order) -> None:
        self.parts = []
        self.mean = 0.0
        self.limit = math.inf
        self.low, self.high = 0.0, 0.0
        for g in groups:
            mu = math.sqrt(math.fsum((g.copies * g.shift * g.shift).tolist()))
            m = ShiftMoment(g.rate, mu, add=order == "add")
            self.parts.append((m, g.count))
            self.mean += g.count * m.mean

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        value, error = np.zeros(s.size, dtype=np.complex128), np.zeros(s.size)
        for m, n in self.parts:
            v, e = m.centred(s)
            value += n * v
            error += n * e
        return value, error


@dataclass
class _Path:
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


def _saddle(law: _Law | _Jumps, lin: float, floor: float = -math.inf, start: float = 0.0) -> tuple[float, float, float, float]:
    """The saddle c, the width w there, the bend of steepest descent, and Chernoff's bound on log δ.

    The search ends early where the bound falls below `floor`; the width is 0 then.
    """
    c, bound = start, math.inf
    if not c > 0.0:
        probe, _ = law.centred(np.array([1e-3 + 1e-3j]))
        variance = max(probe[0].imag / 1e-6, 1e-30)  # K̃ ≈ V s²/2
        root = math.sqrt(lin * lin + 4.0 * variance)
        c = 2.0 / (lin + root) if lin > 0.0 else (root - lin) / (2.0 * variance)
    c = min(c, 1e9)
    low, high = 0.0, law.limit
    w, bend = math.inf, 0.0
    for _ in range(60):
        eta = min(1e-3 * c, 0.1 * w)
        v, _ = law.centred(np.array([c, c + 1j * eta, c + 2j * eta], dtype=np.complex128))
        bound = _chernoff(v[0].real, lin, c)
        if bound < floor or c > _MOST_S:
            return c, 0.0, 0.0, bound
        i1, i2 = v[1].imag, v[2].imag
        first = (8.0 * i1 - i2) / (6.0 * eta) + lin - 1.0 / c - 1.0 / (1.0 + c)
        second = 2.0 * (v[0].real - v[1].real) / (eta * eta) + 1.0 / c**2 + 1.0 / (1.0 + c) ** 2
        third = (2.0 * i1 - i2) / eta**3 - 2.0 / c**3 - 2.0 / (1.0 + c) ** 3
        good = math.isfinite(first) and math.isfinite(second) and second > 0.0
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


def _look(law: _Law, path: _Path, lin: float, base: float, growth: float, limit: int):
    """Values along the path, until dead: (nodes s, ds, K̃, error), or None."""
    parts = []
    k = 1
    dead = 0
    top = 0.0
    while k <= limit:
        u = _LOOK * np.arange(k, k + _CHUNK)
        s, ds = path.nodes(u)
        v, e = law.centred(s)
        height = (v + lin * s).real + np.log(np.abs(ds / (s * (s + 1.0)))) - base
        parts.append((s, ds, v, e))
        for j in range(_CHUNK):
            doubt = height[j] + math.log(e[j] + _UNIT)
            if not (height[j] < growth and doubt < _DOUBT + max(growth, 0.0)):
                return None
            top = max(top, height[j])
            dead = dead + 1 if max(height[j], doubt) < _DEAD else 0
            if dead == 3:
                count = k + j - 2
                s, ds, v, e = (np.concatenate(a)[:count] for a in zip(*parts))
                return count, s, ds, v, e, top
        k += _CHUNK
    return None


def _contour(
    law: _Law | _Jumps, epsilon: Floats, pivot: int, saddle: tuple[float, float, float, float]
) -> tuple[Floats, Floats, Floats]:
    """log δ, mean s and error at every ε, by the path that suits the one at `pivot`."""
    lin = law.mean - float(epsilon[pivot])
    c, w, bend, _ = saddle
    start = law.centred(np.array([c], dtype=np.complex128))
    base = start[0][0].real + lin * c - math.log(c) - math.log1p(c) + math.log(w)
    best = (np.full(epsilon.size, np.nan), np.full(epsilon.size, np.nan), np.full(epsilon.size, np.inf))
    tried = set()
    for growth, limit, slopes in (
        (2.0, 16, (min(max(bend, -0.5), 0.5),)),
        (2.0, _MAX_LOOK, _SLOPES),
        (8.0, _MAX_LOOK, _SLOPES),
    ):
        seen = []
        for slope in slopes:
            if slope not in tried:
                found = _look(law, _Path(c, w, slope), lin, base, growth, limit)
                if found is not None:
                    seen.append((slope, found))
                    tried.add(slope)
        for slope, found in sorted(seen, key=lambda pair: pair[1][0]):
            got = _integrate(law, epsilon, pivot, _Path(c, w, slope), start, found)
            if not got[2][pivot] >= best[2][pivot]:
                best = got
            if best[2][pivot] <= 0.1 * _TOLERANCE * (1.0 + abs(best[0][pivot])):
                return best
    return best


def _integrate(law, epsilon, pivot, path, start, found):
    """The trapezoid rule along one path, for every ε: log δ, the mean of s, the estimated error."""
    count, s, ds, v, e, _ = found
    c, n = path.c, epsilon.size
    v0, e0 = start[0][0], start[1][0]
    lin = law.mean - epsilon
    scale = v0.real + lin * c - math.log(c) - math.log1p(c) + math.log(path.w)
    norm = math.log(path.w) - math.log(c) - math.log1p(c)

    def sums(s, ds, v, e):
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
        u = h * (1.0 + 2.0 * np.arange(count << level))
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
            error = np.where(current > 0.0, (left + floor + end) / current, np.inf)
            value = scale + np.log(current / math.pi)
        if error[pivot] <= max(2.0 * floor[pivot] / current[pivot], _GOAL):
            break
        if level >= 2 and change[pivot] > 0.5 * last[pivot]:
            break  # the integrand is too rough along this path
    return value, moment / total, error


class _Jumps:
    """The part of e^K in which exactly k steps are jumps: the coefficient of z^k in Π (body_j + z jumps_j)^{n_j}."""

    def __init__(self, law: _Law, pieces: Sequence[tuple[ShiftMoment, ShiftMoment | None, int]], k: int) -> None:
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
            error = error + (self.k * doubt + 8.0 * _UNIT * len(counts)) * sizes[self.k] / np.abs(series[self.k])
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


def _by_jumps(law: _Law, epsilon: float, c: float) -> tuple[float, float]:
    """log δ and error as a sum over the number of jumps, each of them an integral of its own."""
    best = (math.nan, math.inf)
    for rule in (0.5, 0.25, 0.0):
        pieces: list[tuple[ShiftMoment, ShiftMoment | None, int]] = []
        for m, n in law.parts:
            place = _valley(m, c) if rule == 0.0 else _place(m, rule * epsilon)
            if place >= 2.0:
                body, jumps = m.split(place, _WINDOW)
                pieces.append((body, jumps, n))
            else:
                pieces.append((m, None, n))
        if all(jumps is None for _, jumps, _ in pieces):
            continue
        got = _sum_over_jumps(law, pieces, epsilon, c)
        if got[1] < best[1]:
            best = got
        if best[1] <= _TOLERANCE * (1.0 + abs(best[0])):
            break
    return best


def _sum_over_jumps(
    law: _Law, pieces: Sequence[tuple[ShiftMoment, ShiftMoment | None, int]], epsilon: float, start: float
) -> tuple[float, float]:
    """Σ over k of the part with k jumps; parts that Chernoff's bound shows to be negligible count as error."""
    most = sum(n for _, jumps, n in pieces if jumps is not None)
    lin = law.mean - epsilon
    highest, last, failed = -math.inf, math.inf, 0
    values, errors = [], []
    for k in range(min(most, _MOST_JUMPS) + 1):
        part = _Jumps(law, pieces, k)
        floor = max(highest, _LEAST) - 34.0
        saddle = _saddle(part, lin, floor, start)
        bound = saddle[3]
        value, error = bound, 1.0
        if bound > floor + 1.0:
            found, _, wrong = _contour(part, np.array([epsilon]), 0, saddle)
            if wrong[0] <= 1e-6:
                value, error = float(found[0]), float(wrong[0])
                highest = max(highest, value)
            else:
                failed += 1
        values.append(value)
        errors.append(error)
        if k >= 1 and error == 1.0 and bound < min(last, highest - 32.0) - 1.0:
            # a further jump costs no less than this one did: a geometric series bounds all that follow
            values.append(bound - math.log(math.expm1(min(last - bound, 50.0))))
            errors.append(1.0)
            break
        if failed > 1 or k == _MOST_JUMPS < most:
            return math.nan, math.inf
        last = bound
    if highest == -math.inf:
        return math.nan, math.inf
    v, e = np.array(values), np.array(errors)
    weight = np.exp(v - highest)
    total = float(weight[e < 1.0].sum())
    return highest + math.log(total), float((weight * e).sum()) / total


def sampled_log_delta(groups: Sequence[SampledGroup], order: Order, epsilon: Floats) -> tuple[Floats, Floats]:
    law = _Law(groups, order)
    out, err = np.empty(epsilon.size), np.empty(epsilon.size)
    for i in range(epsilon.size):
        saddle = _saddle(law, law.mean - epsilon[i])
        v, s, e = _contour(law, epsilon[i : i + 1], 0, saddle)
        out[i], err[i] = v[0], e[0]
        if not err[i] <= _TOLERANCE * (1.0 + abs(out[i])) and order == "remove":
            out[i], err[i] = _by_jumps(law, float(epsilon[i]), saddle[0])
    return out, err
