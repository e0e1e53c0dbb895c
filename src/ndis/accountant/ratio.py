"""The law of the likelihood ratio of any Gaussian pair under its second law, as densities on panels.

For N(m, diag(1+t)) against N(0, I) the logarithm of the ratio w is

    log w = a + D,    D = Σ θ (x + m/t)²,    θ = t/(2(1+t)),    a = −Σ (½ log(1+t) + m²/(2t)),

and a direction with t = 0 adds m x to D and −m²/2 to a. D is a generalized chi-square variable, whose density
`ndis.spectrum.chi_square` gives to full relative accuracy. If all t have one sign, D has an end at 0 and the
density is smooth in τ, the logarithm of D over its mean. If both signs occur, the density may have a pole or a kink at
D = 0, and τ = D. If that place is far from the mean, or smooth, τ is D less its mean.

`RatioPanels` keeps log f(τ) as Chebyshev series on panels that grow as far as they are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ndis._validate import Floats
from ndis.accountant.density import CHEBYSHEV_POINTS, NODES, RULE, TO_SERIES
from ndis.errors import PrecisionError
from ndis.spectrum.chi_square import weighted_sum
from ndis.spectrum.contour import PDF
from ndis.spectrum.evaluate import evaluate_form

__all__ = ["RatioLaw", "RatioPanels", "log_mixture"]

_UNIT = 2.0**-53
_ACCURACY = 1e-11  # of a log density, relative to 1 + its size; the usual one is 1e-14
_END_IS_NEAR = 60.0  # standard deviations between the mean and the end of D up to which the end matters
_SMALL = 1e-15  # size of the last terms of a series, relative to 1 + |log f|
_NOISE = 1e-12  # accepted where panels of half the width do no better
_NARROW = 0.01  # panels below this part of the range may be less accurate: their mass is smaller
_NARROWEST = 2.0**-52
_DEAD = -50.0  # log of a mass that does not count beside the largest
_MOST_NODES = 60_000
_DEEP = 1200.0  # e-folds; what is below does not count for any purpose
_VARIATION = 6.0  # e-folds by which the density may change on one piece
_TURN = 4.0  # most of the change of log w on one piece
_PHASE = 16.0  # most of |s|·(change of the loss) on one piece of 20 nodes
_MOST_PANELS = 3000
_NEAREST = -600.0  # log of the least distance from an end, in means
_NEAR_MEAN = 0.5  # |τ| below which the density is taken about the mean of D
_MOST_STEPS = 40  # on the way outwards; each is half as long again as the one before
_NINTHS = np.polynomial.chebyshev.chebvander(np.linspace(-1.0, 1.0, 9), NODES - 1).T  # a series at nine places


def log_mixture(rate: float, log_ratio: Floats) -> Floats:
    """ℓ = log(1 − q + q w) from log w, to nearly full relative accuracy."""
    small = np.minimum(log_ratio, 30.0)
    large = np.maximum(log_ratio, 30.0)
    return np.where(
        log_ratio > 30.0,
        math.log(rate) + large + np.log1p((1.0 - rate) / rate * np.exp(-large)),
        np.log1p(rate * np.expm1(small)),
    )


class RatioLaw:
    """D of the module docstring: its density, its end and its mean.

    >>> law = RatioLaw(np.array([0.5]), np.array([0.0]), np.array([2.0]))
    >>> round(float(np.exp(law.log_density(np.array([0.25]))[0])), 6)  # θ = 1/6 times a χ² with two degrees of freedom
    1.4171
    """

    def __init__(self, excess: Floats, shift: Floats, copies: Floats) -> None:
        curved = excess != 0.0
        t, m, c = excess[curved], shift[curved], copies[curved]
        flat = math.fsum((copies[~curved] * shift[~curved] ** 2).tolist())
        theta = 0.5 * t / (1.0 + t)
        self.unit, self.law = weighted_sum(theta, c, c * (m / t) ** 2, math.sqrt(flat), 0.0)
        self.side = self.law.side
        self.offset = -0.5 * math.fsum([*(c * (np.log1p(t) + m * m / t)).tolist(), flat])  # a
        # E log w, each term of one sign
        terms = c * (np.log1p(t) - t / (1.0 + t) + m * m / (1.0 + t))
        self.mean_log = -0.5 * math.fsum([*terms.tolist(), flat])
        self.mean = self.unit * self.law.mean
        self.spread = self.unit * self.law.spread
        near = not self.law.gaussian and abs(self.mean) <= _END_IS_NEAR * self.spread
        self.from_end, self.from_pole = near and self.side != 0, near and self.side == 0

    @cached_property
    def _gamma(self) -> bool:
        """True for equal ratios without a shift: D has a gamma law."""
        return self.side != 0 and self.law.t.size == 1 and float(self.law.q[0]) == 0.0

    @property
    def dof(self) -> float:
        """The number of directions with t ≠ 0."""
        return self.law.total_dof

    def log_density(self, d: Floats) -> Floats:
        """log of the density of D."""
        if self._gamma:
            half, scale = 0.5 * self.dof, self.unit * abs(float(self.law.t[0]))
            with np.errstate(divide="ignore", invalid="ignore"):
                x = self.side * d / scale
                return np.where(x > 0.0, (half - 1.0) * np.log(x) - x - math.lgamma(half) - math.log(scale), -math.inf)
        return self.law.log_density(d / self.unit, np.zeros(d.size, dtype=np.bool_)) - math.log(self.unit)

    def log_density_about_mean(self, z: Floats) -> Floats:
        """log of the density of D at its mean plus z; z counts as exact."""
        if self._gamma:
            return self.log_density(self.mean + z)
        x = (self.mean + z) / self.unit
        linear, near = self.law.linear(x)
        value, _, error = evaluate_form(self.law, x, PDF, (np.where(near, linear, -z / self.unit), near))
        outside = x * self.side < 0.0
        if not (outside | (error <= _ACCURACY * (1.0 + np.abs(value)))).all():
            raise PrecisionError("the density of a likelihood ratio did not reach full accuracy")
        return np.where(outside, -math.inf, value - math.log(self.unit))

    def log_density_of(self, log_ratio: Floats) -> Floats:
        """log of the density of D where log w is given, without the cancellation of its offset with a large D."""
        z = log_ratio - self.mean_log
        near = np.full(z.shape, not self.from_pole)
        if self.from_end:
            near = np.abs(z) < 0.5 * abs(self.mean)
        out = np.empty(z.size)
        out[near] = self.log_density_about_mean(z[near])
        out[~near] = self.log_density(log_ratio[~near] - self.offset)
        return out

    # the coordinate τ

    def place(self, tau: Floats) -> Floats:
        """D at τ."""
        if self.from_end:
            return self.mean * np.exp(tau)
        return tau if self.from_pole else tau + self.mean

    def log_ratio(self, tau: Floats) -> Floats:
        """log w at τ, without the cancellation of its offset with a large D."""
        if self.from_end:
            return self.mean_log + self.mean * np.expm1(tau)
        return tau + (self.offset if self.from_pole else self.mean_log)

    def log_density_at(self, tau: Floats) -> Floats:
        """log of the density of τ."""
        if not self.from_end:
            return self.log_density(tau) if self.from_pole else self.log_density_about_mean(tau)
        out = tau + math.log(abs(self.mean))
        near = np.abs(tau) < _NEAR_MEAN
        out[near] += self.log_density_about_mean(self.mean * np.expm1(tau[near]))
        out[~near] += self.log_density(self.mean * np.exp(tau[~near]))
        return out

    @cached_property
    def centre(self) -> tuple[float, float]:
        """A place where much of the mass of τ is, and its width."""
        if self.from_end:
            return 0.0, min(self.spread / abs(self.mean), 1.0)
        return (self.mean if self.from_pole else 0.0), self.spread

    def reach(self, height: Callable[[Floats], Floats], sign: float, depth: float = -_DEAD) -> float:
        """The τ on one side beyond which log f + height stays below its top by so many e-folds."""
        tau, step = self.centre
        top, dead = -math.inf, 0
        for _ in range(_MOST_STEPS):
            x: Floats = tau + sign * step * np.arange(1.0, 5.0, dtype=np.float64)
            values: Floats = self.log_density_at(x) + height(x)
            for place, value in zip(x.tolist(), values.tolist(), strict=True):
                top = max(top, value)
                dead = dead + 1 if not value > top - depth else 0
                if dead == 2 or (self.from_end and place < _NEAREST):
                    return float(max(place, _NEAREST)) if self.from_end else float(place)
            tau = float(x[-1])
            step *= 1.5
        raise PrecisionError("the density of a likelihood ratio reaches too far")


class RatioPanels:
    """log f(τ) on panels that grow to where they are asked for."""

    def __init__(self, law: RatioLaw) -> None:
        self.law = law
        self.low = self.high = law.centre[0]
        self.edges, self.series, self.errors = np.empty((0, 2)), np.empty((0, NODES)), np.empty(0)

    def cover(self, height: Callable[[Floats], Floats], depth: float = -_DEAD) -> bool:
        """Reach to where log f + height is below its top by `depth`; True if the panels have grown.

        `height` is a function of τ.
        """
        low, high = self.law.reach(height, -1.0, depth), self.law.reach(height, 1.0, depth)
        first = not self.edges.size
        grown = []
        if first:
            grown.append((low, high))
        else:
            if low < self.low:
                grown.append((low, self.low))
            if high > self.high:
                grown.append((self.high, high))
        for left, right in grown:
            self._add(left, right)
        self.low, self.high = (low, high) if first else (min(low, self.low), max(high, self.high))
        return bool(grown)

    def _add(self, low: float, high: float) -> None:
        """Panels from low to high."""
        cuts = np.linspace(low, high, 9)
        if self.law.from_pole and low < 0.0 < high:
            near = (high - low) * 2.0 ** -np.arange(3.0, 53.0)
            cuts = np.concatenate([cuts[np.abs(cuts) > near[0]], -near, near, [low, 0.0, high]])
            cuts = np.unique(cuts[(cuts >= low) & (cuts <= high)])
        todo = [(x, y, math.inf) for x, y in pairwise(cuts.tolist())]
        narrow, least = _NARROW * (high - low), _NARROWEST * (high - low)
        done: list[tuple[float, float, Floats, float]] = []
        while todo:
            ends = np.array(todo)[:, :2]
            tau = 0.5 * ends.sum(1)[:, None] + 0.5 * np.diff(ends) * CHEBYSHEV_POINTS
            values = self.law.log_density_at(tau.ravel()).reshape(-1, NODES)
            series = values @ TO_SERIES.T
            left, size = np.abs(series[:, -2:]).max(1), 1.0 + np.abs(values).max(1)
            if not np.isfinite(left).all() or len(done) + len(todo) > _MOST_PANELS:
                raise PrecisionError("the density of a likelihood ratio is out of reach")
            width = ends[:, 1] - ends[:, 0]
            before = np.array([panel[2] for panel in todo])
            loose = np.maximum(narrow / width, 1.0)
            noisy = (left > 0.25 * before) & (left <= _NOISE * size)  # halving did not help
            good = (left <= _SMALL * size * loose) | noisy | (width <= least)
            rows = zip(todo, series, left.tolist(), good, strict=True)
            done += [(x, y, one, wrong) for (x, y, _), one, wrong, ok in rows if ok]
            todo = [
                (*half, was)
                for (x, y, _), was, ok in zip(todo, left.tolist(), good, strict=True)
                for half in pairwise((x, 0.5 * (x + y), y))
                if not ok
            ]
        done.sort(key=lambda panel: panel[0])
        made = np.array([p[:2] for p in done]), np.array([p[2] for p in done]), np.array([p[3] for p in done])
        known = self.edges, self.series, self.errors
        first, last = (made, known) if self.edges.size and low < self.edges[0, 0] else (known, made)
        self.edges, self.series, self.errors = (np.concatenate(both) for both in zip(first, last, strict=True))

    def nodes(
        self,
        loss: Callable[[Floats], Floats],
        size: float,
        heights: Sequence[Callable[[Floats], Floats]] = (),
        depth: float = -_DEAD,
    ) -> tuple[Floats, Floats, Floats]:
        """τ, the log of its mass, and the relative error of that.

        The rule resolves e^{s·loss} for |s| ≤ size, where log f plus one of the `heights` is within `depth` of its top.
        """
        tau = self.edges[:, :1] + np.diff(self.edges) * np.linspace(0.0, 1.0, 9)
        log_mass = self.series @ _NINTHS + np.log(np.diff(self.edges))
        live = np.zeros(tau.shape[0], dtype=np.bool_)
        for height in heights:
            top = (log_mass + height(tau.ravel()).reshape(tau.shape)).max(1)
            live |= top > top.max() - depth
        ends = np.abs(np.diff(loss(tau[:, [0, -1]].ravel()).reshape(-1, 2)))[:, 0]
        # log(1 − q + q w) has its branch points at the height π of log w
        turn = np.abs(np.diff(self.law.log_ratio(tau[:, [0, -1]].ravel()).reshape(-1, 2)))[:, 0]
        deep = np.maximum(log_mass, log_mass.max() - _DEEP)
        steep = np.maximum(np.ptp(deep, axis=1) / _VARIATION, np.where(np.ptp(deep, axis=1) > 0.0, turn / _TURN, 0.0))
        pieces = np.maximum(np.ceil(np.where(live, np.maximum(size * ends / _PHASE, steep), steep)), 1.0)
        if not pieces.sum() * RULE[0].size <= _MOST_NODES:
            raise PrecisionError("a moment needs too many nodes")
        count: NDArray[np.int64] = pieces.astype(np.int64)
        panel = np.repeat(np.arange(count.size), count)
        place = np.arange(panel.size) - np.repeat(np.cumsum(count) - count, count)
        # within its panel, from −1 to 1
        z = (2.0 * place + 1.0 + RULE[0][:, None]) / count[panel] - 1.0
        series = self.series[panel]
        b1, b2 = np.zeros_like(z), np.zeros_like(z)
        for k in range(NODES - 1, 0, -1):
            b1, b2 = 2.0 * z * b1 - b2 + series[:, k], b1
        log_f = z * b1 - b2 + series[:, 0]
        half = 0.5 * (self.edges[:, 1] - self.edges[:, 0])[panel]
        tau = self.edges[:, 0][panel] + half * (1.0 + z)
        log_mass = log_f + np.log(half / count[panel]) + np.log(RULE[1])[:, None]
        return tau.T.ravel(), log_mass.T.ravel(), np.repeat(self.errors[panel], RULE[0].size)
