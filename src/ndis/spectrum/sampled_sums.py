"""δ(ε) of a composition of sampled steps from the density of its loss, where the contour integral cancels.

The loss of a step lies on one side of its end, at the distance V > 0 (`sampled_shapes`). So the sum V of the distances
of all steps decides everything. Let f be its density in λ = log(V/R) under the first law of the order. R grows with the
number of steps, so that λ is near 0 where most of the mass is. Then f of one step is closed, and for two independent
parts a and b

    f_{a+b}(V) = ∫ f_a(V/(1+e^−t)) f_b(V/(1+e^t)) dt,

an integral of positive terms. The module keeps log f as Chebyshev series on panels, and doubles the number of steps.
If the loss lies above its end E, the sum of the ends, then

    δ(ε) = ∫ over V > v of (1 − e^{v−V}) f dλ,   v = ε − E,

and if it lies below, δ(ε) = ∫ over V < v of (1 − e^{V−v}) f dλ, v = E − ε. No term cancels, so that relative errors
add up: those of the two parts, and that of the new series. After each sum ∫ f and ∫ e^{κV} f are known, and f is
scaled to one of them. What is left of the errors has a mean near zero under the law itself, so that the next sum
averages over it. The estimate lets them grow like those of independent parts, with the root of the number of steps.
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
from ndis.errors import PrecisionError
from ndis.spectrum.sampled_density import CHEBYSHEV_POINTS, NODES, RULE, TO_SERIES, convolve_all, tail, tilted_mass
from ndis.spectrum.sampled_shapes import Shape

__all__ = ["LossSums"]

_UNIT = 2.0**-53
_REACH = 45.0  # in standard deviations of the noise; what lies beyond has a mass below e^-1000
_CUT = 48.0  # e-folds below the tilted mass to which tables reach, if Chernoff's bound is near
_RARE = 36.0  # e-folds below δ at which the probability of an event does not count
_NOISE = 6.0  # e-folds above that of an error which the parts of a sum bring along
_LEAST = -300.0  # log δ below this is not asked for
_MOST_PANELS = 1000
_SMALL = 1e-12  # a table whose mass is wrong by less is scaled
_MOST_PARTS = 4  # of a panel that is cut
_THIN = 1.0 / 300.0  # of the whole width: the mass of a narrower panel falls with its width


@dataclass(frozen=True)
class _Table:
    """log f on panels. `mass` is log ∫ e^{κV} f dλ, and `lost` the share of it that the table may have wrong.

    `rare` is the probability of events that the table may have wrong besides. No event counts for more than that in δ.
    """

    scale: float  # R
    edges: Floats
    series: Floats
    tops: Floats
    mass: float
    error: float
    lost: float
    rare: float


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
        with precision(160):
            ends = [turn * float(shape.end()) for shape, _ in steps]
            self._end = turn * sum((n * shape.end() for shape, n in steps), arb(0))
        # the first law of the order has the density e^ℓ against the law without the record, or is that law
        self._weight = [(0.0, 0) if add else (end, side) for end in ends]
        reach, least, count = _REACH, _LEAST, sum(n for _, n in steps)
        grids = [shape.grid(reach, remove=not add) for shape, _ in steps]
        if self._side > 0:  # events whose mass is negligible beside the δ of one step alone are left out
            for (v, mass), end, (start, grade) in zip(grids, ends, self._weight, strict=True):
                with np.errstate(divide="ignore"):
                    rise = np.log(-np.expm1(-np.maximum(v - (epsilon - end), 0.0)))
                least = max(least, float(np.logaddexp.reduce(mass + start + grade * v + rise)) - 1.0)
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
        # the log of a probability that does not count, though each step has it
        self._floor = least - _RARE - math.log(count) if self._side > 0 else -math.inf
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
        value, slope = tail(v, float(self._side), table.scale, table.edges, table.series, *RULE)
        if not value > -math.inf:
            return math.nan, math.nan, math.inf
        bound = table.mass + self._shape(v)
        far = 1.0 + abs(math.log(v / table.scale))
        error = table.error + self._noise * abs(value) + 8.0 * _UNIT * (8.0 + abs(value) + slope * v * far)
        error += math.exp(min(math.log(table.lost) + bound - value, 100.0))
        return value, slope, error + math.exp(min(math.log(table.rare) - value, 100.0)) if table.rare else error

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
                half = self._power(j, n // 2)
                both = self._sum(half, half)
                self._made[j, n] = self._sum(both, self._power(j, 1)) if n % 2 else both
        return self._made[j, n]

    def _one(self, j: int) -> _Table:
        shape, (start, grade) = self.steps[j][0], self._weight[j]
        height = self._tilt * self._places[j] + self._masses[j]
        live = np.flatnonzero(height > height.max() - self._cut)
        if not live.size:
            raise PrecisionError("the density of a step is too small to be tabulated")
        low, high = max(int(live[0]) - 1, 0), min(int(live[-1]) + 1, height.size - 1)

        scale = math.exp(shape.log_scale)

        def f(lams: Floats) -> Floats:
            return np.asarray(shape.log_density(lams, shape.log_scale) + start + grade * scale * np.exp(lams))

        ends = np.log(self._places[j][[low, high]]) - shape.log_scale
        return self._make(f, scale, float(ends[0]), float(ends[1]), self._mass(j), (), 0.0, 0.0)

    def _mass(self, j: int) -> float:
        """log ∫ e^{κV} f dλ of one step; a small one to full relative accuracy, for it is multiplied by many steps."""
        place, height = self._tilt * self._places[j], self._masses[j]
        mass = np.exp(height)
        grown = float((mass * np.expm1(np.minimum(place, 600.0))).sum() / mass.sum())
        if abs(grown) < 0.5:
            return math.log1p(grown)
        top = float((place + height).max())
        return top + math.log(float(np.exp(place + height - top).sum() / mass.sum()))

    def _sum(self, a: _Table, b: _Table) -> _Table:
        scale = a.scale + b.scale
        ea, eb = a.edges - math.log(scale / a.scale), b.edges - math.log(scale / b.scale)

        def f(lams: Floats) -> Floats:
            out = np.empty(lams.size)
            convolve_all(lams, a is b, ea, a.series, a.tops, eb, b.series, b.tops, *RULE, out)
            return out

        # both parts at their ends is far less than what counts: look where the sum does
        low, high = float(np.logaddexp(ea[0], eb[0])), float(np.logaddexp(ea[-1], eb[-1]))
        mass = a.mass + b.mass
        lams = np.linspace(low, high, 97)
        value = f(lams)
        height = value + self._tilt * scale * np.exp(lams) - mass
        live = np.flatnonzero((height > -self._cut - 3.0) & (value > self._floor - 3.0))
        if live.size:
            low, high = float(lams[max(live[0] - 1, 0)]), float(lams[min(live[-1] + 1, 96)])
        return self._make(f, scale, low, high, mass, (a.error, b.error), a.lost + b.lost, a.rare + b.rare)

    def _make(
        self,
        f: Callable[[Floats], Floats],
        scale: float,
        low: float,
        high: float,
        mass: float,
        errors: tuple[float, ...],
        lost: float,
        rare: float,
    ) -> _Table:
        """The table of f."""
        edges = np.linspace(low, high, 9)
        todo = [(x, y, math.inf) for x, y in pairwise(edges.tolist())]
        done: list[tuple[float, float, Floats, float, float]] = []
        worst = 0.0
        while todo:
            lams = np.concatenate([0.5 * (x + y) + 0.5 * (y - x) * CHEBYSHEV_POINTS for x, y, _ in todo])
            grown = self._tilt * scale * np.exp(lams) - mass
            values = np.maximum(f(lams), -grown - 500.0 - self._cut)
            rest: list[tuple[float, float, float]] = []
            shapes = values.reshape(-1, NODES), (values + grown).reshape(-1, NODES)
            for (x, y, before), v, height in zip(todo, *shapes, strict=True):
                series = TO_SERIES @ v
                size, top = float(np.abs(v).max()), float(height.max())
                left = float(np.abs(series[-2:]).max())
                if not left < math.inf:
                    raise PrecisionError("the density of the loss is out of the range of floats")
                # a panel that is thin beside all of them, near a pole, holds little of the mass
                thin = min((y - x) * max(1.0 / (high - low), math.exp(min(top, 100.0))) / _THIN, 1.0)
                left *= thin
                # what the rounding of λ does to the values, beside their own
                small = 2.0 * _UNIT * (20.0 + size + thin * max(abs(x), abs(y)) * float(np.ptp(v)) / (y - x))
                # halving did not help
                noisy = thin == 1.0 and left > 0.6 * before and left <= 1e-11 * (1.0 + size)
                share = top + min(math.log(y - x), 0.0)
                chance = float(v.max()) + min(math.log(y - x), 0.0)
                seldom = math.exp(min(self._floor - chance, 0.0))
                loose = max(min(math.exp(min(-share - self._cut + 3.0, 0.0)), 3.0), seldom)
                dead = top < -self._cut - 10.0 and y - x <= 0.02 * (high - low)
                enough = max(small, loose)
                if not (left <= enough or noisy or dead):
                    if len(done) + len(rest) > _MOST_PANELS:
                        raise PrecisionError("the density of the loss needs too many panels")
                    # the last terms of a series fall with the width of its panel like a power
                    parts = min(max(math.ceil((left / enough) ** (1.0 / NODES)), 2), _MOST_PARTS)
                    cuts = np.linspace(x, y, parts + 1).tolist()
                    rest += [(one, two, left) for one, two in pairwise(cuts)]
                    continue
                done.append((x, y, series, float(v.max()), top))
                if left <= min(small, 1e-11 * (1.0 + size)):
                    worst = max(worst, left / (1.0 + size))
                elif left * math.exp(chance) <= math.exp(self._floor + _NOISE):
                    rare += left * math.exp(chance)
                elif noisy:
                    worst = max(worst, left / (1.0 + size))
                else:
                    lost += min(left, 1.0) * math.exp(min(top, 0.0)) * (y - x)
            todo = rest
        self._noise = max(self._noise, worst)
        done.sort(key=lambda p: p[0])
        for end in (0, -1):
            while len(done) > 1 and (done[end][4] < -self._cut or done[end][3] < self._floor):
                del done[end]
        edges, series = np.array([p[0] for p in done] + [done[-1][1]]), np.array([p[2] for p in done])
        lost += math.exp(-self._cut)
        rare += math.exp(self._floor)
        found = tilted_mass(self._tilt * scale, edges, series, *RULE)
        wrong = min(found - mass, tilted_mass(0.0, edges, series, *RULE), key=abs)  # one of them may be cut off
        if abs(wrong) < _SMALL:
            series[:, 0] -= wrong
            error = math.hypot(*errors)
        else:
            error = sum(errors)
        return _Table(
            scale, edges, series, np.array([p[3] for p in done]) + 1.0, mass, error + 0.5 * worst + _UNIT, lost, rare
        )
