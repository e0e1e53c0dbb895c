"""δ(ε) of a composition of sampled steps from the density of its loss, where the contour integral cancels.

The loss of a step lies on one side of its end, at the distance V > 0 (`sampled_shapes`). So the sum V of the distances
of all steps decides everything. Let f be its density in λ = log(V/R), for a fixed R, under the first law of the order.
Then f of one step is closed, and for two independent parts a and b

    f_{a+b}(V) = ∫ f_a(V/(1+e^−t)) f_b(V/(1+e^t)) dt,

an integral of positive terms. The module keeps log f as Chebyshev series on panels, and doubles the number of steps.
If the loss lies above its end E, the sum of the ends, then

    δ(ε) = ∫ over V > v of (1 − e^{v−V}) f dλ,   v = ε − E,

and if it lies below, δ(ε) = ∫ over V < v of (1 − e^{V−v}) f dλ, v = E − ε. No term cancels, so that relative errors
only add up: those of the two parts, and that of the new series.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from flint import arb

from ndis._balls import precision
from ndis._validate import Floats
from ndis.spectrum.sampled_density import CHEBYSHEV_POINTS, NODES, RULE, TO_SERIES, convolve_all, tail
from ndis.spectrum.sampled_shapes import Shape

__all__ = ["LossSums"]

_UNIT = 2.0**-53
_REACH = 45.0  # in standard deviations of the noise; what lies beyond has a mass below e^-1000
_CUT = 48.0  # e-folds below the tilted mass to which tables reach, if Chernoff's bound is near
_LEAST = -300.0  # log δ below this is not asked for
_MOST_PANELS = 4000


@dataclass(frozen=True)
class _Table:
    """log f on panels. `mass` is log ∫ e^{κV} f dλ, and `lost` the share of it that the table may have wrong."""

    edges: Floats
    series: Floats
    tops: Floats
    mass: float
    error: float
    lost: float


class LossSums:
    """The density of the sum of the losses of some steps, each with its number, near one ε.

    The tables hold what counts under the law tilted by e^{κV}, with κ from the saddle of this ε. Other ε nearby can be
    asked for; the error tells whether the tables suffice. All losses must lie on the same side of their ends.
    """

    def __init__(self, steps: Sequence[tuple[Shape, int]], epsilon: float, *, add: bool) -> None:
        self.steps, self._noise = steps, 0.0
        (side,) = {shape.sign for shape, _ in steps}
        turn = -1 if add else 1
        self._side = side * turn  # 1 if the loss lies above its end
        self.log_scale = max(shape.log_scale for shape, _ in steps)
        with precision(160):
            ends = [turn * float(shape.end()) for shape, _ in steps]
            self._end = turn * sum((n * shape.end() for shape, n in steps), arb(0))
        # the first law of the order has the density e^ℓ against the law without the record, or is that law
        self._weight = [(0.0, 0) if add else (end, side) for end in ends]
        reach, least = _REACH, _LEAST
        grids = [shape.grid(reach, remove=not add) for shape, _ in steps]
        if self._side > 0:  # events whose mass is negligible beside the δ of one step alone are left out
            for (v, mass), end, (start, grade) in zip(grids, ends, self._weight, strict=True):
                with np.errstate(divide="ignore"):
                    rise = np.log(-np.expm1(-np.maximum(v - (epsilon - end), 0.0)))
                least = max(least, float(np.logaddexp.reduce(mass + start + grade * v + rise)) - 1.0)
            count = sum(n for _, n in steps)
            reach = min(reach, math.sqrt(2.0 * (_CUT + 5.0 + math.log(count) - least)))
            grids = [shape.grid(reach, remove=not add) for shape, _ in steps]
        self._places = [v for v, _ in grids]
        self._masses = [mass + a + b * v for (v, mass), (a, b) in zip(grids, self._weight, strict=True)]
        self.saddle = self._saddle(self._rest(epsilon))
        self._tilt, self._cut = self._side * self.saddle, _CUT
        if self._side > 0:
            # Chernoff's bound sees large losses that do not count; the tilted density must die before them
            for _ in range(60):
                self._cut = _CUT + max(0.0, self._bound(epsilon) - least - 4.0)
                if self._dies():
                    break
                self.saddle *= 0.7
                self._tilt = self.saddle
        self._made: dict[tuple[int, int], _Table] = {}
        table = None
        for j, (_, n) in enumerate(steps):
            one = self._power(j, n)
            table = one if table is None else self._sum(table, one)
        assert table is not None
        self._table = table

    def _rest(self, epsilon: float) -> float:
        """v of the module docstring; the difference is rounded once."""
        with precision(160):
            return float(self._side * (arb(epsilon) - self._end))

    def _saddle(self, v: float) -> float:
        """The c > 0 of Chernoff's bound, the least of a convex function, to a few digits."""

        def slope(c: float) -> float:
            total = math.log(c) - math.log1p(c) - self._side * v
            for place, mass, (_, n) in zip(self._places, self._masses, self.steps, strict=True):
                f = self._side * c * place + mass
                weight = np.exp(f - f.max())
                total += self._side * n * float((weight * place).sum() / weight.sum())
            return total

        low, high = math.log(1e-6), math.log(1e20)
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if slope(math.exp(middle)) > 0.0 else (middle, high)
        return math.exp(low)

    def log_delta(self, epsilon: float) -> tuple[float, float, float]:
        """log δ, −d log δ/dε and the error."""
        table, v = self._table, self._rest(epsilon)
        if not v > 0.0:
            return (math.log(-math.expm1(epsilon)), 0.0, 2.0 * _UNIT) if self._side > 0 else (-math.inf, 0.0, 0.0)
        value, slope = tail(v, float(self._side), math.exp(self.log_scale), table.edges, table.series, *RULE)
        if not value > -math.inf:
            return math.nan, math.nan, math.inf
        bound = table.mass + self._shape(v)
        far = 1.0 + abs(math.log(v) - self.log_scale)
        error = table.error + self._noise * abs(value) + 4.0 * _UNIT * (8.0 + abs(value) + slope * v * far)
        return value, slope, error + math.exp(min(math.log(table.lost) + bound - value, 100.0))

    def _shape(self, v: float) -> float:
        """log of the most by which an event of tilted mass 1 can change δ."""
        c = self.saddle
        return c * math.log(c) - (1.0 + c) * math.log1p(c) - self._tilt * v

    def _bound(self, epsilon: float) -> float:
        """Chernoff's bound on log δ."""
        total = self._shape(self._rest(epsilon))
        for place, mass, (_, n) in zip(self._places, self._masses, self.steps, strict=True):
            total += n * float(np.logaddexp.reduce(self._tilt * place + mass))
        return total

    def _dies(self) -> bool:
        """True if the tilted density of every step is negligible where it is cut off."""
        for place, mass in zip(self._places, self._masses, strict=True):
            height = self._tilt * place + mass
            if height[-1] > height.max() - self._cut + 2.0:
                return False
        return True

    def _power(self, j: int, n: int) -> _Table:
        if (j, n) not in self._made:
            if n == 1:
                self._made[j, n] = self._one(j)
            else:
                self._made[j, n] = self._sum(self._power(j, n // 2), self._power(j, n - n // 2))
        return self._made[j, n]

    def _one(self, j: int) -> _Table:
        shape, (start, grade) = self.steps[j][0], self._weight[j]
        height = self._tilt * self._places[j] + self._masses[j]
        live = np.flatnonzero(height > height.max() - self._cut)
        low, high = max(int(live[0]) - 1, 0), min(int(live[-1]) + 1, height.size - 1)

        def f(lams: Floats) -> Floats:
            return np.asarray(shape.log_density(lams, self.log_scale) + start + grade * np.exp(lams + self.log_scale))

        ends = np.log(self._places[j][[low, high]]) - self.log_scale
        mass = float(np.logaddexp.reduce(height))
        return self._make(f, float(ends[0]), float(ends[1]), mass, 0.0, 0.0)

    def _sum(self, a: _Table, b: _Table) -> _Table:

        def f(lams: Floats) -> Floats:
            out = np.empty(lams.size)
            convolve_all(lams, a is b, a.edges, a.series, a.tops, b.edges, b.series, b.tops, *RULE, out)
            return out

        # both parts at their ends is far less than what counts: look where the sum does
        low = float(np.logaddexp(a.edges[0], b.edges[0]))
        high = float(np.logaddexp(a.edges[-1], b.edges[-1]))
        mass = a.mass + b.mass
        lams = np.linspace(low, high, 97)
        height = f(lams) + self._tilt * np.exp(lams + self.log_scale) - mass
        live = np.flatnonzero(height > -self._cut - 3.0)
        if live.size:
            low, high = float(lams[max(live[0] - 1, 0)]), float(lams[min(live[-1] + 1, 96)])
        return self._make(f, low, high, mass, a.error + b.error, a.lost + b.lost)

    def _make(
        self, f: Callable[[Floats], Floats], low: float, high: float, mass: float, error: float, lost: float
    ) -> _Table:
        edges = np.linspace(low, high, 9)
        todo = [(x, y, math.inf) for x, y in pairwise(edges.tolist())]
        done: list[tuple[float, float, Floats, float, float]] = []
        worst = 0.0
        while todo:
            lams = np.concatenate([0.5 * (x + y) + 0.5 * (y - x) * CHEBYSHEV_POINTS for x, y, _ in todo])
            grown = self._tilt * np.exp(lams + self.log_scale) - mass
            values = np.maximum(f(lams), -grown - 500.0 - self._cut)
            rest: list[tuple[float, float, float]] = []
            shapes = values.reshape(-1, NODES), (values + grown).reshape(-1, NODES)
            for (x, y, before), v, height in zip(todo, *shapes, strict=True):
                series = TO_SERIES @ v
                size, top = float(np.abs(v).max()), float(height.max())
                left = float(np.abs(series[-2:]).max())
                # what the rounding of λ does to the values, beside their own
                small = 2.0 * _UNIT * (20.0 + size + max(abs(x), abs(y)) * float(np.ptp(v)) / (y - x))
                noisy = left > 0.25 * before and left <= 1e-11 * (1.0 + size)  # halving did not help
                share = top + min(math.log(y - x), 0.0)
                loose = left <= min(math.exp(min(-share - self._cut + 3.0, 0.0)), 3.0)
                dead = top < -self._cut - 10.0 and y - x <= 0.02 * (high - low)
                if not (left <= small or noisy or loose or dead) and len(done) + len(rest) < _MOST_PANELS:
                    rest += [(x, 0.5 * (x + y), left), (0.5 * (x + y), y, left)]
                    continue
                done.append((x, y, series, float(v.max()), top))
                if left <= min(small, 1e-11 * (1.0 + size)) or noisy:
                    worst = max(worst, left / (1.0 + size))
                else:
                    lost += min(left, 1.0) * math.exp(min(top, 0.0)) * (y - x)
            todo = rest
        self._noise = max(self._noise, worst)
        done.sort(key=lambda p: p[0])
        while len(done) > 1 and done[0][4] < -self._cut:
            del done[0]
        while len(done) > 1 and done[-1][4] < -self._cut:
            del done[-1]
        return _Table(
            np.array([p[0] for p in done] + [done[-1][1]]),
            np.array([p[2] for p in done]),
            np.array([p[3] for p in done]) + 1.0,
            mass,
            error + 0.5 * worst + _UNIT,
            lost + math.exp(-self._cut),
        )
