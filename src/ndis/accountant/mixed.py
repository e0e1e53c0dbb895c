"""δ(ε) from densities for steps whose losses lie on different sides of their ends, beside a Gaussian loss.

Let U be the sum of the distances of those losses that lie above their ends, D the sum of those that lie below, E the
sum of all ends, and G the loss of the plain releases that are mean shifts, with δ_G(x) = [1 − e^x]₊ if there are none.
Then by thm:loss-sides (docs/theory.md)

    δ(ε) = E δ_G(ε − E − U + D),

an integral of positive terms over the tables of U and D (`sampled_sums`). A plain release with unequal variances counts
as a step at rate 1: each of its directions is a step of its own, above or below its end. The tables are made for the
saddle of the whole law. If Chernoff's bound proves far above δ, they are made again, and reach farther.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from flint import arb

from ndis._balls import precision
from ndis._validate import Floats
from ndis.accountant.density import CHEBYSHEV_POINTS, RULE, TO_SERIES, mean_profiles
from ndis.accountant.shapes import Shape
from ndis.accountant.sums import CUT, LossSums, Table, chernoff_factor
from ndis.errors import PrecisionError
from ndis.spectrum.closed_forms import mean_shift_log_delta

__all__ = ["MixedSums"]

_UNIT = 2.0**-53
_DEAD = -41.0
_VARIATION = 7.0  # e-folds by which an integrand may change on one piece
_RISE = 4.0  # most of |x| on one piece near the bend of δ_G
_WIDEST = 3.0  # a piece, in log V and in log |x| near x = 0
_NEAR, _HIGH = -12.0, 42.0  # ends of the table of δ_G, in standard deviations
_PANELS = 108
_ROUNDS = 3
_MOST_PIECES = 4000
_ONE = 1e-6  # log δ is not above 0
_OCTAVES = 2.0 ** -np.arange(0.0, 48.0, 2.0)


class _Profile:
    """log δ_G as Chebyshev series; a `shift` of 0 stands for no Gaussian loss."""

    def __init__(self, shift: float) -> None:
        self.shift, self.low = shift, _NEAR * shift
        self.width = ((_HIGH - _NEAR) * shift + 0.5 * shift * shift) / _PANELS or 1.0
        middles = self.low + self.width * (np.arange(_PANELS)[:, None] + 0.5 * (1.0 + CHEBYSHEV_POINTS))
        self.panels = np.zeros((1, TO_SERIES.shape[0]))
        if shift > 0.0:
            self.panels = np.asarray(mean_shift_log_delta(middles.ravel(), shift)).reshape(middles.shape) @ TO_SERIES.T

    def mean(self, points: Floats, side: int, table: Table) -> tuple[Floats, Floats]:
        """log E δ_G(x − side·V) and minus its slope."""
        value, slope = np.empty(points.size), np.empty(points.size)
        law = float(side), table.scale, table.edges, table.series, table.tops
        mean_profiles(points, *law, self.shift, self.low, self.width, self.panels, *RULE, value, slope)
        return value, slope


class MixedSums:
    """log δ near one ε of steps on both sides of their ends, and of a Gaussian loss with this `shift`.

    >>> from ndis.accountant.shapes import ShiftShape
    >>> law = MixedSums([(ShiftShape(0.1, 1.0), 2)], 1.0, 0.5, add=False)
    >>> round(law.log_delta(0.5)[0], 6)
    -1.410445
    """

    def __init__(self, steps: Sequence[tuple[Shape, int]], shift: float, epsilon: float, *, add: bool) -> None:
        self._shift, self._profile = shift, _Profile(shift)
        parts = [[s for s in steps if s[0].sign == sign] for sign in (1, -1)]
        self.sides = [LossSums(part, None, add=add) for part in parts if part]
        self.sides.sort(key=lambda one: -one.side)  # losses above their ends come first, inside
        cut, before = CUT, -math.inf
        for _ in range(_ROUNDS):
            saddle = self._saddle(epsilon)
            for _ in range(60):
                if all(one.dies(saddle, cut) for one in self.sides):
                    break
                saddle *= 0.7
            for one in self.sides:
                one.build(saddle, cut, -math.inf)
            self.saddle = saddle
            value, _, error = self.log_delta(epsilon)
            if not value > -math.inf or error < 1e-11 * (1.0 + abs(value)) or value == before:
                return
            before, cut = value, CUT + max(self._bound(epsilon) - value, 0.0) + 4.0

    def _rest(self, epsilon: float) -> float:
        """ε less the ends; the difference is rounded once."""
        with precision(160):
            return float(arb(epsilon) - sum((one.end for one in self.sides), arb(0)))

    def _saddle(self, epsilon: float) -> float:
        v, square = self._rest(epsilon), self._shift**2
        return LossSums.saddle_of(lambda c: sum(s.tilted_mean(c) for s in self.sides) + square * (0.5 + c) - v)

    def _bound(self, epsilon: float) -> float:
        """Chernoff's bound on log δ."""
        c = self.saddle
        mass = math.fsum(one.table.mass for one in self.sides) + 0.5 * c * (1.0 + c) * self._shift**2
        return mass + chernoff_factor(c) - c * self._rest(epsilon)

    def log_delta(self, epsilon: float) -> tuple[float, float, float]:
        """log δ, −d log δ/dε and the error."""
        v, inner = self._rest(epsilon), self.sides[0]
        if len(self.sides) == 1:
            found, slopes = self._profile.mean(np.array([v]), inner.side, inner.table)
            value, slope = float(found[0]), float(slopes[0])
        else:
            value, slope = self._both(v)
        if not -math.inf < value < _ONE:
            return math.nan, math.nan, math.inf
        bound = self._bound(epsilon)
        size = max(1.0, abs(v), *(one.table.scale * math.exp(one.table.edges[-1]) for one in self.sides))
        error = math.fsum(one.error(value, bound) for one in self.sides)
        return value, slope, error + 8.0 * _UNIT * (16.0 + abs(value) + slope * size)

    def _both(self, v: float) -> tuple[float, float]:
        """log E h(v + D), h(x) = E δ_G(x − U), and minus its slope; pieces are halved until each is smooth."""
        inner, outer = self.sides[0].table, self.sides[1].table
        # h is as smooth at x as the density of U is there, and smooth in log x beside x = 0, where D = −v
        marks = inner.scale * np.exp(inner.edges) - v
        cuts = np.concatenate([outer.edges, np.log(marks[marks > 0.0] / outer.scale)])
        if v < 0.0:
            cuts = np.concatenate([cuts, math.log(-v / outer.scale) + np.concatenate([-_OCTAVES, [0.0], _OCTAVES])])
        cuts = np.unique(cuts[(cuts >= outer.edges[0]) & (cuts <= outer.edges[-1])])
        todo = np.stack([cuts[:-1], cuts[1:]], axis=1)
        logs: list[Floats] = []
        slopes: list[Floats] = []
        count = 0
        top = -math.inf
        while todo.size:
            half = 0.5 * np.diff(todo)
            lam = todo[:, :1] + half * (1.0 + RULE[0])
            panel = np.clip(np.searchsorted(outer.edges, lam[:, 10]) - 1, 0, outer.series.shape[0] - 1)
            ends = outer.edges[panel][:, None], outer.edges[panel + 1][:, None]
            z = np.clip((2.0 * lam - ends[0] - ends[1]) / (ends[1] - ends[0]), -1.0, 1.0)  # rounding of thin panels
            log_f = np.stack([np.polynomial.chebyshev.chebval(z[k], outer.series[p]) for k, p in enumerate(panel)])
            x = v + outer.scale * np.exp(lam)
            h, fall = (a.reshape(x.shape) for a in self._profile.mean(x.ravel(), 1, inner))
            height = log_f + h
            top = max(top, float(height.max()))
            size = np.abs(x)
            with np.errstate(divide="ignore"):
                ratio = np.log(size.max(1) / size.min(1))
            counts = log_f.max(1) + h.max(1) > top + _DEAD - 8.0  # the product may peak between two nodes
            rough = (np.where(np.isfinite(height), height, -1e9).max(1) - height.min(1) > _VARIATION) & counts
            rough |= ((half[:, 0] > 0.5 * _WIDEST) | (ratio > _WIDEST)) & counts
            rough |= (np.ptp(x, axis=1) > _RISE) & (size.min(1) < 40.0) & counts
            rough &= half[:, 0] > 1e-13
            good = ~rough & counts
            logs.append((height + np.log(half) + np.log(RULE[1]))[good].ravel())
            slopes.append(fall[good].ravel())
            count += todo.shape[0]
            if count > _MOST_PIECES:
                raise PrecisionError("the densities of losses on both sides need too many pieces")
            middle = 0.5 * todo[rough].sum(1)
            todo = np.concatenate([
                np.stack([todo[rough, 0], middle], axis=1), np.stack([middle, todo[rough, 1]], axis=1)
            ])
        masses = np.concatenate(logs)
        if not masses.size or not masses.max() > -math.inf:
            return -math.inf, 0.0
        weight = np.exp(masses - masses.max())
        total = float(weight.sum())
        return float(masses.max()) + math.log(total), float((weight * np.concatenate(slopes)).sum()) / total
