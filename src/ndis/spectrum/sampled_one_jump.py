"""δ(ε) of one group of sampled mean shifts in the remove order, in float64, where one large loss makes it up.

The steps of a group are split by a soft window of their noise: the body below, and jumps above. The sum of the body is
narrow beside ε. With k jumps,

    δ_k(ε) = C(n, k) ∫ … ∫ J(dL₁) … J(dL_k) D_{n−k}(ε − L₁ − … − L_k),     D_m(e) = E[(1 − e^{e−S})₊; m bodies],

all terms of which are positive. D_m comes from the contour integral near the mean of S, and is closed far below it.
The terms for one and two jumps are summed by Gauss–Legendre rules. Without a jump, and with more than two, there are
bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from ndis._validate import Floats
from ndis.spectrum.sampled_contour import find_saddle, integrate
from ndis.spectrum.sampled_cut import SIDE, Cut, log_ratio, log_sides, log_sum, place
from ndis.spectrum.sampled_jumps import SMALL, Term, log_choose, variance
from ndis.spectrum.sampled_moment import Complexes, ShiftMoment, Step
from ndis.spectrum.sampled_pair import PlainMoment

__all__ = ["few_jumps"]

_UNIT = 2.0**-53
_NONE = math.nan, math.nan, math.inf
_RULE = np.polynomial.legendre.leggauss(12)
_TO_POWERS = np.linalg.inv(np.vander(_RULE[0], increasing=True))  # values at the nodes to powers
_WIDE = 8.0  # standard deviations of the sum of the body below its mean at which it ends
_FARTHEST = 60.0
_CHUNK, _MOST_NODES = 48, 3000
_MOST_PANELS = 48
_SELDOM = 1e-6
_UNSEEN = 28.0  # e-folds below δ
_ENOUGH = 1e-11  # error of the body where it counts
_APART = 10.0  # the same, from where on a loss is a jump
_TAIL = np.array([0.0, 0.15, 0.4, 0.8, 1.5, 2.5, 4.0, 7.0, 12.0, 20.0, 45.0])


def _nodes(edges: Floats) -> tuple[Floats, Floats]:
    """Gauss–Legendre nodes and weights on the panels between rows of edges, as rows."""
    half, middle = 0.5 * np.diff(edges), 0.5 * (edges[..., 1:] + edges[..., :-1])
    x = middle[..., None] + half[..., None] * _RULE[0]
    w = half[..., None] * _RULE[1]
    return x.reshape(*edges.shape[:-1], -1), w.reshape(*edges.shape[:-1], -1)


def _halved(edges: Floats) -> Floats:
    return np.sort(np.concatenate([edges, 0.5 * (edges[1:] + edges[:-1])]))


def _gain(q: float, mu: float, epsilon: float, e: Floats, cut: Cut | None = None) -> Floats:
    """log of the density of a loss, or of a jump, at ε − e beside that at ε."""

    def density(loss: Floats) -> Floats:
        x, rate = places_of(loss, q, mu)
        window = 0.0 if cut is None else log_sides(x, cut.places[0], cut.widths[0])[1]
        return np.asarray(loss - 0.5 * x * x + rate + window)

    loss = epsilon - e
    some = loss > 0.0
    value = density(np.where(some, loss, epsilon)) - density(np.array([epsilon]))
    return np.where(some, value, -np.inf)


def places_of(loss: Floats, q: float, mu: float) -> tuple[Floats, Floats]:
    """x at a positive loss, and log dx/dℓ."""
    with np.errstate(over="ignore"):
        log_w = np.where(loss > 500.0, loss - math.log(q), np.log1p(np.expm1(np.minimum(loss, 600.0)) / q))
    return (log_w + 0.5 * mu * mu) / mu, -np.log(mu * -np.expm1(math.log1p(-q) - loss))


class _Split(NamedTuple):
    """A step with its windows, the standard deviation of the body, and how many of them lead to the likeliest jump."""

    cut: Cut
    sd: float
    tilt: float


class _BodyLaw:
    """The law of the sum of m bodies and of the other releases, for `sampled_contour`."""

    def __init__(self, cut: Cut, others: Sequence[tuple[Step, int]], count: int) -> None:
        self.cut, self.others, self.count = cut, others, count
        self.mean = math.fsum([n * m.mean for m, n in others] + [count * cut.known[1]])
        self.limit = min((m.limit for m, _ in others), default=math.inf)
        self.largest = max([m.largest for m, _ in others] + [float(cut.body[0][0, -1].real)])

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """K(s) − s·mean and its error."""
        v, e = self.cut.log_body(s)
        value, error = self.count * v, self.count * e
        for m, n in self.others:
            v, e = m.centred(s)
            value, error = value + n * v, error + n * e
        return value, error


def _on_line(law: _BodyLaw, c: float, step: float, e: Floats) -> tuple[Floats, Floats]:
    """log D and its error at some e: the trapezoid sum of the integral on Re s = c."""
    chunks = list[tuple[Complexes, Complexes, Floats]]()
    for first in range(0, _MOST_NODES, _CHUNK):
        s = (c + 1j * step * np.arange(first, first + _CHUNK)).astype(np.complex128)
        chunks.append((s, *law.centred(s)))
        height = chunks[-1][1].real - np.log(np.abs(s * (s + 1.0)))
        if not height[-1] > chunks[0][1][0].real - math.log(c * (c + 1.0)) - 45.0:
            break
    s, v, wrong = (np.concatenate(a) for a in zip(*chunks, strict=True))
    lin = (law.mean - e)[:, None]
    f = np.exp(v - v[0].real + lin * (s - c)) * (c * (c + 1.0) / (s * (s + 1.0)))
    f[:, 0] *= 0.5
    total = f.real.sum(axis=1)
    size = np.abs(f)
    burden = size * (wrong + 4.0 * _UNIT * (1.0 + np.abs(v) + np.abs(lin * s)))
    with np.errstate(invalid="ignore", divide="ignore"):
        value = v[0].real + lin[:, 0] * c + np.log(total * step / (math.pi * c * (c + 1.0)))
    error = (burden.sum(axis=1) + s.size * size[:, -1]) / total
    return value, np.where(total > 0.0, error, np.inf)


class _Body:
    """D_m at the nodes of the panels around the mean of the body, and its closed form below."""

    def __init__(self, cut: Cut, others: Sequence[tuple[Step, int]], jumps: int, split: _Split, epsilon: float) -> None:
        m, sd, tilt = cut.count - jumps, split.sd, split.tilt
        law = _BodyLaw(cut, others, m)
        self.mean, self.sd = law.mean, sd
        self.low = law.mean - _WIDE * sd
        orders = np.geomspace(0.3, 60.0, 28) / sd
        k = law.centred(orders.astype(np.complex128))[0].real + law.mean * orders
        some = np.isfinite(k) & (orders < law.limit)
        self._orders, self._moments = orders[some], k[some]
        z = np.arange(2.0, _FARTHEST, 0.5)
        weight = self.bound(law.mean + sd * z) + _gain(cut.rate, cut.shift, epsilon, law.mean + sd * z, cut)
        end = float(z[np.argmax(weight < -SMALL)] if (weight < -SMALL).any() else _FARTHEST)
        self.high = law.mean + sd * end
        self.panels = law.mean + sd * np.linspace(-_WIDE, end, math.ceil((_WIDE + end) / 1.9) + 1)
        places, weights = _nodes(self.panels)
        z = (places - law.mean) / sd
        gain = _gain(cut.rate, cut.shift, epsilon, places, cut)
        value, error = np.full(z.size, np.nan), np.full(z.size, np.inf)
        self.wrong = math.inf
        for c in (0.8 + tilt, 0.3, 0.5 + tilt, 3.0 + tilt, 5.5 + tilt):
            period = max(44.0 / c, 32.0) * sd
            other = c * period / sd + float(self.bound(np.array([self.low + period]))[0])  # what the next period adds
            if not other < -SMALL:
                continue
            found, wrong = _on_line(law, c / sd, 2.0 * math.pi / period, places)
            better = wrong + math.exp(other) < error
            value, error = np.where(better, found, value), np.where(better, wrong, error)
            share = value + gain
            share = np.exp(share - np.max(share)) * weights
            self.wrong = float((error * share).sum() / share.sum())
            if self.wrong <= _ENOUGH:
                break
        else:
            raise ArithmeticError("the body is not known")
        self._series = value.reshape(-1, _RULE[0].size) @ _TO_POWERS.T  # of log D on each panel
        gone_there, gone_here = cut.gone
        self.log_mass = m * math.log1p(-gone_there)
        self.log_mass_without = m * math.log1p(-gone_here)
    def log(self, e: Floats) -> Floats:
        """log D at some e; −inf beyond the last panel."""
        place = (e - self.low) * ((self.panels.size - 1) / (self.high - self.low))
        which = np.clip(np.floor(place), 0, self.panels.size - 2).astype(np.int64)
        at = np.clip(2.0 * (place - which) - 1.0, -1.0, 1.0)
        value = self._series[which, -1]
        for k in range(self._series.shape[1] - 2, -1, -1):
            value = value * at + self._series[which, k]
        return np.where(e <= self.high, value, -np.inf)

    def bound(self, e: Floats) -> Floats:
        """log of Chernoff's bound on D at some e."""
        return np.asarray(np.min(self._moments - self._orders * e[:, None], axis=1, initial=0.0))


class _Jumps:
    """The density of one jump in its loss, and the sums over jumps."""

    def __init__(self, cut: Cut) -> None:
        self.cut = cut
        self.least = cut.places[0] - SIDE * cut.widths[0]
        self.least_loss = float(log_ratio(np.array([self.least]), cut.rate, cut.shift)[0])

    def at(self, x: Floats) -> tuple[Floats, Floats]:
        """The loss at x and the log of the density in x with the record."""
        c = self.cut
        loss = log_ratio(x, c.rate, c.shift)
        return loss, loss - 0.5 * x * x - 0.5 * math.log(2.0 * math.pi) + log_sides(x, c.places[0], c.widths[0])[1]

    def place(self, loss: Floats) -> tuple[Floats, Floats]:
        """x at a loss above the least one, and log dx/dℓ."""
        return places_of(loss, self.cut.rate, self.cut.shift)

    def one(self, e: Floats, body: _Body, panels: Floats = _TAIL) -> Floats:
        """log ∫ J(dL) D(e − L) at each e."""
        rows = e[:, None]
        first = self.place(np.maximum(e - body.low, self.least_loss))[0]
        # panels on which the density is smooth, and those of the body
        count = math.ceil((float(first.max()) - self.least) / min(0.5, 2.0 * self.cut.widths[0]))
        edges = self.least + (first[:, None] - self.least) * np.linspace(0.0, 1.0, min(max(count, 1), _MOST_PANELS) + 1)
        ends = self.place(np.maximum(rows - body.panels, self.least_loss))[0]
        x, weight = _nodes(np.sort(np.concatenate([edges, np.minimum(ends, first[:, None])], axis=1), axis=1))
        loss, density = self.at(x)
        with np.errstate(divide="ignore"):
            near = density + body.log(rows - loss) + np.log(weight)
        x, weight = _nodes(first[:, None] + panels / np.maximum(np.abs(first), 1.0)[:, None])
        loss, density = self.at(x)
        gap = body.log_mass_without - body.log_mass + e[:, None] - loss
        far = density + body.log_mass + np.log(-np.expm1(gap)) + np.log(weight)
        return np.asarray(np.logaddexp(np.logaddexp.reduce(near, axis=1), np.logaddexp.reduce(far, axis=1)))

    def two(self, epsilon: float, body: _Body, *, fine: bool = False) -> float:
        """log ∫∫ J(dL₁) J(dL₂) D(ε − L₁ − L₂); fine panels are half as wide."""
        c, end = self.cut, epsilon - body.mean
        edge = end - float(log_ratio(np.array([c.places[0]]), c.rate, c.shift)[0])
        around = body.sd * np.array([-9.0, -4.0, 0.0, 4.0, 9.0])
        marks = np.concatenate([end + around, edge + around])  # where the other jump ends or begins to suffice
        marks = marks[marks > self.least_loss]
        ends = self.place(marks)[0]
        top = float(ends.max(initial=self.least + 1.0))
        tail = top + _TAIL[1:] / max(abs(top), 1.0)
        steps = np.arange(self.least, top, min(0.5, 1.0 * c.widths[0] * 2.0))
        edges = np.unique(np.concatenate([steps, ends, tail]))
        x, weight = _nodes(_halved(edges) if fine else edges)
        loss, density = self.at(x)
        inner = self.one(epsilon - loss, body)
        return log_sum(density + inner + np.log(weight))

    def three(self, epsilon: float, body: _Body) -> float:
        """log ∫∫∫ J(dL₁) J(dL₂) J(dL₃) D(ε − L₁ − L₂ − L₃), to a few percent."""
        grid = epsilon * np.sinh(np.linspace(-5.0, 5.0, 401)) / math.sinh(5.0)
        table = self.one(grid, body)
        x = np.linspace(self.least, float(self.place(np.array([2.0 * epsilon]))[0][0]), 1500)
        loss, density = self.at(x)
        few = grid[::4]
        two = np.logaddexp.reduce(density + np.interp(few[:, None] - loss, grid, table), axis=1)
        return log_sum(density + np.interp(epsilon - loss, few, two)) + 2.0 * math.log(x[1] - x[0])


def few_jumps(parts: Sequence[tuple[Step, int]], epsilon: float) -> tuple[float, float, float]:
    """log δ, −d log δ/dε and the error; NaN and inf if there are several groups, or the body is not narrow beside ε."""
    sampled = [(m, n) for m, n in parts if isinstance(m, ShiftMoment)]
    others = [(m, n) for m, n in parts if isinstance(m, PlainMoment)]
    if len(sampled) == 1 and len(others) == len(parts) - 1:
        quiet = np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what is not finite is no value
        with suppress(ArithmeticError, ValueError), quiet:  # out of the range of floats, or of those of log
            return _few_jumps(*sampled[0], others, epsilon)
    return _NONE


def _few_jumps(
    m: ShiftMoment, count: int, others: Sequence[tuple[Step, int]], epsilon: float
) -> tuple[float, float, float]:
    split = _split(m, count, others, epsilon)
    if split is None:
        return _NONE
    cut, sd, _ = split
    jumps, lost = _Jumps(cut), list[float]()
    body = _Body(cut, others, 1, split, epsilon)
    near = 1e-6 * epsilon
    first, moved = (jumps.one(np.array([epsilon, epsilon + near]), body) + math.log(count)).tolist()
    slope = (first - moved) / near
    error = math.fabs(float(jumps.one(np.array([epsilon]), body, _halved(_TAIL))[0]) + math.log(count) - first)
    # the body above its last node, by Chernoff's bound
    x = np.linspace(jumps.least, cut.places[1], 2000)
    loss, density = jumps.at(x)
    some = epsilon - loss > body.high
    rest = density[some] + body.bound(epsilon - loss[some])
    lost.append(log_sum(rest) + math.log(count * (x[1] - x[0])))
    logs = [first]
    none = _no_jump(Term([cut], others, 0), epsilon, first - SMALL)
    seen = max(first, none[0])  # what counts is judged beside it
    chance = log_sum(cut.jumps[1][0].real) + math.log(count)  # of a jump
    top = log_sum(cut.above[0] + cut.above[1]) + math.log(count)
    for k in range(2, min(count, 4) + 1):
        # more jumps, of which one is above the window or not: Chernoff's bound
        term = Term([cut], others, k)
        c, _, _, bound = find_saddle(term, term.mean - epsilon, seen - SMALL, start=2.0 / sd)
        more = log_sum(np.array([bound, top + (k - 1.0) * chance]))
        if term.next_one(c) < 0.5 and more < seen - _UNSEEN:
            lost.append(more + 1.0)
            break
        if k == 2:
            two = _Body(cut, others, 2, split, epsilon)
            logs.append(jumps.two(epsilon, two) + log_choose(count, 2))
            if logs[1] > seen - 12.0:  # its rule counts
                better = jumps.two(epsilon, two, fine=True) + log_choose(count, 2)
                error += math.fabs(math.expm1(better - logs[1])) * math.exp(logs[1] - first)
        elif k == 3:
            logs.append(jumps.three(epsilon, two) + log_choose(count, 3))
            lost.append(logs[-1] - 3.0)
        if not logs[-1] < logs[-2] - 4.0:
            return _NONE
        if k == 4 or 2.0 * logs[-1] - logs[-2] < seen - _UNSEEN:  # each further jump is less likely than the last one
            lost.append(2.0 * logs[-1] - logs[-2] + 1.0)
            break
    jumped = log_sum(np.array(logs))
    whole = float(np.logaddexp(jumped, none[0]))
    share = math.exp(none[0] - whole)
    error = (1.0 - share) * (error + 2.0 * body.wrong) + share * none[2] + 3e-13 + 16.0 * _UNIT * abs(whole)
    slope = (1.0 - share) * slope + share * none[1]
    return whole, slope, error + math.exp(min(log_sum(np.array([*lost, none[3]])) - whole, 100.0))


def _no_jump(term: Term, epsilon: float, floor: float) -> tuple[float, float, float, float]:
    """log δ₀, its slope and error, if it is above the floor; else −inf, and a bound of it in the last place."""
    saddle = find_saddle(term, term.mean - epsilon, floor)
    if not saddle[3] > floor:
        return -math.inf, 0.0, 0.0, saddle[3]
    value, slope, error = (float(a[0]) for a in integrate(term, np.array([epsilon]), 0, saddle))
    if not error < 1e-6:
        raise ArithmeticError("the outcomes without a jump are not known")
    return value, slope, error, -math.inf


def _split(
    m: ShiftMoment, count: int, others: Sequence[tuple[Step, int]], epsilon: float
) -> _Split | None:
    """The step with its windows, and the standard deviation of the body; None if it is not narrow."""
    q, mu = m.rate, m.shift
    x = np.linspace(-9.0, 9.0 + 2.0 * mu, 2048)
    loss = log_ratio(x, q, mu)
    weight = np.exp(loss - 0.5 * x * x) * (x[1] - x[0]) / math.sqrt(2.0 * math.pi)
    plain = math.fsum(n * variance(s) for s, n in others)
    part = np.cumsum(weight * loss * loss) * count + plain
    # the smallest T₁ that is _APART standard deviations of all below it, or one that is passed once in a million
    apart = np.flatnonzero((loss > 0.0) & (loss > _APART * np.sqrt(part)))
    low = float(loss[apart[0]]) if apart.size else _APART * math.sqrt(float(part[-1]))
    if not 3.0 * low < epsilon:
        beyond = np.cumsum(weight[::-1])[::-1] * count
        at = int(np.argmax(beyond < _SELDOM))
        low = max(float(loss[at]), 0.02 * epsilon)
    if not 0.0 < low < 0.7 * epsilon:
        return None
    sd = math.sqrt(float(part[np.searchsorted(loss, low) - 1]))
    x1 = place(low, q, mu)
    grade = mu * -math.expm1(math.log1p(-q) - low)  # dℓ/dx
    there = place(epsilon, q, mu)
    z = np.arange(0.0, min(max((epsilon - low) / sd, 0.1), _FARTHEST), 0.1)
    tilt = float(z[np.argmax(_gain(q, mu, epsilon, sd * z) - 0.5 * z * z)])
    w1 = min(1.0, 2.0 / max(x1, 2.0), 2.0 / ((1.0 + tilt) / sd * grade))
    w2 = min(1.0, 1.2 / max(there, 1.2))
    cut = Cut(q, mu, count, (x1, place(epsilon + 10.0 * sd, q, mu) + SIDE * w2), (w1, w2), far=True)
    return _Split(cut, sd, tilt)
