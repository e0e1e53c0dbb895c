"""δ(ε) of sampled mean shifts from the density of their loss, where the contour integral cancels.

The loss of a step lies on one side of its end ±log(1−q), at the distance V = log(1 + r w) > 0 with r = q/(1−q). So the
sum V of the distances of all steps decides everything. Let f be its density in λ = log(V/R) under the first law of the
order. R grows with the number of steps, so that λ is near 0 where most of the mass is. Then f of one step is closed,
and for two independent parts a and b

    f_{a+b}(V) = ∫ f_a(V/(1+e^−t)) f_b(V/(1+e^t)) dt,

an integral of positive terms. The module keeps log f as Chebyshev series on panels, and doubles the number of steps.
If the loss lies above its end E, the sum of the ends, then

    δ(ε) = ∫ over V > v of (1 − e^{v−V}) f dλ,   v = ε − E,

and if it lies below, δ(ε) = ∫ over V < v of (1 − e^{V−v}) f dλ, v = E − ε.

No term cancels, so that relative errors add up: those of the two parts, and that of the new series. After each sum
∫ f and ∫ e^{κV} f are known, and f is scaled to one of them. The errors that are left have a mean near zero under the
law itself, so that the next sum averages over them. The estimate lets them grow like those of independent parts, with
the root of the number of steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from flint import arb

from ndis._balls import Ball, precision
from ndis._formulas import chernoff_factor
from ndis._validate import Floats
from ndis.accountant.density import (
    CHEBYSHEV_POINTS,
    NODES,
    RULE,
    TO_SERIES,
    convolve_all,
    tail,
    tilted_mass,
)
from ndis.errors import PrecisionError

__all__ = ["DensityTable", "LossSums", "Shape", "SumTables"]

_UNIT = 2.0**-53
_POINTS = 1200
_LARGE = 30.0  # V above which e^V is taken out of a logarithm
_REACH = 45.0  # in standard deviations of the noise; what lies beyond has a mass below e^-1000
_CUT = 48.0  # tables go so deep below the tilted mass, in log units, if Chernoff's bound is near
_RARE = 36.0  # an event whose log-probability is so far below log δ does not count
_NOISE = 6.0  # log units above that: errors which the parts of a sum bring along
_LEAST = -300.0  # log δ below this is not asked for
_MOST_PANELS = 1000
_ENOUGH = 1e-11  # error of log δ, relative to 1 + |log δ|
_SMALL = 1e-12  # a table whose mass is wrong by less is scaled
_NOISY, _NOISY_AND_THIN = 1e-11, 3e-13  # accepted errors where panels of half the width do no better
_NARROWEST = 2.0**-48
_MOST_PARTS = 4  # a panel is cut into at most this many
_THIN = 1.0 / 300.0  # relative to the whole width: the mass of a narrower panel falls with its width


@dataclass(frozen=True)
class DensityTable:
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


@dataclass(frozen=True)
class Shape:
    """Describe one sampled mean shift: where its loss ends and the law of the distance V, without the record."""

    rate: float
    shift: float

    @property
    def log_scale(self) -> float:
        """Return log of a typical V."""
        return math.log(self.rate) - math.log1p(-self.rate)

    def end(self) -> Ball:
        """Return log(1−q) at the working precision."""
        return (-arb(self.rate)).log1p()

    def grid(self, deviations: float, *, remove: bool) -> tuple[Floats, Floats]:
        """Return some V in order, up to this many standard deviations, and the log of the mass near each."""
        x = np.linspace(-deviations, deviations + self.shift if remove else deviations, _POINTS)
        v = np.logaddexp(0.0, self.log_scale + self.shift * x - 0.5 * self.shift**2)
        return v, -0.5 * x * x + math.log(float(x[1] - x[0]) / math.sqrt(2.0 * math.pi))

    def log_density(self, lams: Floats, log_scale: float) -> Floats:
        """Return log of the density of λ = log V − log_scale."""
        v = np.exp(lams + log_scale)
        near, far = np.minimum(v, _LARGE), np.maximum(v, _LARGE)
        # log (e^V − 1)/V
        grown = np.where(v > _LARGE, far - np.log(far) + np.log1p(-np.exp(-far)), np.log(np.expm1(near) / near))
        x = (lams + (log_scale - self.log_scale) + grown) / self.shift + 0.5 * self.shift
        return np.asarray(v - grown - 0.5 * x * x - math.log(math.sqrt(2.0 * math.pi) * self.shift))


class SumTables:
    """Tables of the densities of sums of independent positive numbers V; a subclass says what one number is.

    A table holds what counts under the law tilted by e^{κV}: down to `cut` log units below its mass, and events with a
    log-probability above `floor`. The error that a series may have is `finest`, relative to the size of log f.
    """

    def __init__(self, tilt: float, cut: float, floor: float, finest: float = _UNIT) -> None:
        self._tilt, self._cut, self._floor, self._finest, self._noise = tilt, cut, floor, finest, 0.0
        self._made: dict[tuple[int, int], DensityTable] = {}

    def _one(self, j: int) -> DensityTable:
        """Return the table of one number of the kind j."""
        raise NotImplementedError  # each kind of sum has its own

    def _span(
        self, f: Callable[[Floats], Floats], scale: float, low: float, high: float, mass: float
    ) -> tuple[float, float]:
        """Return where the table of a sum begins and ends. It has no support outside of `low` and `high`."""
        lams = np.linspace(low, high, 97)
        value = f(lams)
        height = value + self._tilt * scale * np.exp(lams) - mass
        live = np.flatnonzero((height > -self._cut - 3.0) & (value > self._floor - 3.0))
        if not live.size:
            return low, high
        return float(lams[max(live[0] - 1, 0)]), float(lams[min(live[-1] + 1, 96)])

    def _power(self, j: int, n: int) -> DensityTable:
        if (j, n) not in self._made:
            if n == 1:
                self._made[j, n] = self._one(j)
            else:
                half = self._power(j, n // 2)
                both = self._sum(half, half)
                self._made[j, n] = self._sum(both, self._power(j, 1)) if n % 2 else both
        return self._made[j, n]

    def _sum(self, a: DensityTable, b: DensityTable) -> DensityTable:
        scale = a.scale + b.scale
        ea, eb = a.edges - math.log(scale / a.scale), b.edges - math.log(scale / b.scale)

        def f(lams: Floats) -> Floats:
            out = np.empty(lams.size)
            convolve_all(lams, a is b, ea, a.series, a.tops, eb, b.series, b.tops, *RULE, out)
            return out

        # both parts at their ends is far less than what counts: look where the sum does
        mass = a.mass + b.mass
        support = float(np.logaddexp(ea[0], eb[0])), float(np.logaddexp(ea[-1], eb[-1]))
        low, high = self._span(f, scale, *support, mass)
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
    ) -> DensityTable:
        """Make the table of f."""
        edges = np.linspace(low, high, 9)
        todo = [(x, y, math.inf) for x, y in pairwise(edges.tolist())]
        done: list[tuple[float, float, Floats, float, float]] = []
        worst = 0.0
        while todo:
            lams = np.concatenate([0.5 * (x + y) + 0.5 * (y - x) * CHEBYSHEV_POINTS for x, y, _ in todo])
            grown = self._tilt * scale * np.exp(lams) - mass
            values = np.maximum(f(lams), -grown - 500.0 - self._cut)
            halves: list[tuple[float, float, float]] = []
            shapes = values.reshape(-1, NODES), (values + grown).reshape(-1, NODES)
            for (x, y, before), v, height in zip(todo, *shapes, strict=True):
                series = TO_SERIES @ v
                size, top = float(np.abs(v).max()), float(height.max())
                if y - x <= _NARROWEST * max(1.0, abs(x), abs(y)):  # its nodes are no longer apart
                    series = np.zeros(NODES)
                    series[0] = np.median(v)
                left = float(np.abs(series[-2:]).max())
                if not left < math.inf:
                    raise PrecisionError("the density of the loss is out of the range of floats")
                # a panel that is thin compared with all of them, near a pole, holds little of the mass
                thin = min((y - x) * max(1.0 / (_THIN * (high - low)), 10.0 * math.exp(min(top, 100.0))), 1.0)
                raw, left = left, left * thin
                # the rounding of λ changes the values, in addition to their own rounding
                small = 2.0 * self._finest * (20.0 + size + thin * max(abs(x), abs(y)) * float(np.ptp(v)) / (y - x))
                # halving did not help
                noisy = raw > 0.6 * before and left <= (_NOISY if thin == 1.0 else _NOISY_AND_THIN) * (1.0 + size)
                share = top + min(math.log(y - x), 0.0)
                chance = float(v.max()) + min(math.log(y - x), 0.0)
                seldom = math.exp(min(self._floor - chance, 0.0))
                loose = max(min(math.exp(min(-share - self._cut + 3.0, 0.0)), 3.0), seldom)
                dead = top < -self._cut - 10.0 and y - x <= 0.02 * (high - low)
                if not (left <= small or raw <= loose or noisy or dead):
                    if len(done) + len(halves) > _MOST_PANELS:
                        raise PrecisionError("the density of the loss needs too many panels")
                    # the last terms of a series fall with the width of its panel like a power
                    parts = min(max(math.ceil((raw / max(small, loose)) ** (1.0 / NODES)), 2), _MOST_PARTS)
                    cuts = np.linspace(x, y, parts + 1).tolist()
                    halves += [(one, two, raw) for one, two in pairwise(cuts)]
                    continue
                done.append((x, y, series, float(v.max()), top))
                if left <= min(small, _NOISY * (1.0 + size)):
                    worst = max(worst, left / (1.0 + size))
                elif math.log(raw) + chance <= self._floor + _NOISE:
                    rare += raw * math.exp(chance)
                elif noisy:
                    worst = max(worst, left / (1.0 + size))
                else:
                    lost += min(raw, 1.0) * math.exp(min(top, 100.0)) * (y - x)
            todo = halves
        self._noise = max(self._noise, worst)
        done.sort(key=lambda p: p[0])
        for end in (0, -1):
            while len(done) > 1 and (done[end][4] < -self._cut or done[end][3] < self._floor):
                del done[end]
        edges, series = np.array([p[0] for p in done] + [done[-1][1]]), np.array([p[2] for p in done])
        lost += math.exp(-min(self._cut, 700.0))
        rare += math.exp(self._floor)
        measured = tilted_mass(self._tilt * scale, edges, series, *RULE)
        wrong = min(measured - mass, tilted_mass(0.0, edges, series, *RULE), key=abs)  # one of them may be cut off
        if abs(wrong) < _SMALL:
            series[:, 0] -= wrong
            error = math.hypot(*errors)
        else:
            error = sum(errors) + abs(wrong)
        return DensityTable(
            scale, edges, series, np.array([p[3] for p in done]) + 1.0, mass, error + 0.5 * worst + _UNIT, lost, rare
        )


class LossSums(SumTables):
    """The density of the sum of the losses of some steps, each with its number, near one ε.

    The tables hold what counts under the law tilted by e^{κV}, with κ from the saddle of this ε. Other ε nearby can be
    asked for; the error tells whether the tables suffice.
    """

    def __init__(self, steps: Sequence[tuple[Shape, int]], epsilon: float, *, add: bool) -> None:
        super().__init__(0.0, 0.0, 0.0)  # `_build` says what counts
        self.steps = steps
        self._add, self.side = add, -1 if add else 1  # 1 if the loss lies above its end
        with precision(160):
            self._ends = [self.side * float(shape.end()) for shape, _ in steps]
            self.end = self.side * sum((n * shape.end() for shape, n in steps), arb(0))
        # the first law of the order has the density e^ℓ against the law without the record, or is that law
        self._weight = [(0.0, 0) if add else (end, 1) for end in self._ends]
        self.count = sum(n for _, n in steps)
        self._look(_REACH)
        saddle, cut, floor = self._plan(epsilon)
        self._build(saddle, cut, floor)
        value, _, error = self.log_delta(epsilon)
        gap = self._bound(epsilon) - value
        if error > _ENOUGH * (1.0 + abs(value)) and gap > 4.0:  # Chernoff's bound is far above δ
            self._build(saddle, cut + gap, floor)

    def _look(self, deviations: float) -> None:
        """Make a table of places V of each step and the masses there, up to this many standard deviations."""
        grids = [shape.grid(deviations, remove=not self._add) for shape, _ in self.steps]
        self._places = [v for v, _ in grids]
        self._masses = [mass + a + b * v for (v, mass), (a, b) in zip(grids, self._weight, strict=True)]

    def _plan(self, epsilon: float) -> tuple[float, float, float]:
        """Return the saddle, how deep tables go in log units, and the log of a probability that does not count."""
        v = self._distance(epsilon)
        c = self._saddle(v)
        if self.side < 0:
            return c, _CUT, -math.inf
        least = _LEAST  # events whose mass is negligible compared with δ of one step alone are left out
        for place, mass, end in zip(self._places, self._masses, self._ends, strict=True):
            with np.errstate(divide="ignore"):
                rise = np.log(-np.expm1(-np.maximum(place - (epsilon - end), 0.0)))
            least = max(least, float(np.logaddexp.reduce(mass + rise)) - 1.0)
        self._look(min(_REACH, math.sqrt(2.0 * (_CUT + 5.0 + math.log(self.count) - least))))
        # Chernoff's bound sees large losses that do not count; the tilted density must die before them
        cut = _CUT
        for _ in range(60):
            cut = _CUT + max(0.0, self._log_tilted_mass(c) + chernoff_factor(c) - c * v - least - 4.0)
            if self._dies(c, cut):
                break
            c *= 0.7
        return c, cut, least - _RARE - math.log(self.count)

    def _build(self, saddle: float, cut: float, floor: float) -> None:
        """Make the tables. `floor` is the log of a probability that does not count, though each step has it."""
        self.saddle, self._tilt, self._cut, self._floor = saddle, self.side * saddle, cut, floor
        self._made = {}
        table = None
        for j, (_, n) in enumerate(self.steps):
            one = self._power(j, n)
            table = one if table is None else self._sum(table, one)
        assert table is not None
        self.table = table

    def _distance(self, epsilon: float) -> float:
        """Return v of the module docstring; the difference is rounded once."""
        with precision(160):
            return float(self.side * (arb(epsilon) - self.end))

    def _tilted_mean(self, c: float) -> float:
        """Return the mean of the loss less its end under the law tilted by c."""
        total = 0.0
        for place, mass, (_, n) in zip(self._places, self._masses, self.steps, strict=True):
            f = self.side * c * place + mass
            weight = np.exp(f - f.max())
            total += self.side * n * float((weight * place).sum() / weight.sum())
        return total

    def _log_tilted_mass(self, c: float) -> float:
        """Return log E e^{c(L − end)}, roughly."""
        pairs = zip(self._places, self._masses, self.steps, strict=True)
        return math.fsum(n * float(np.logaddexp.reduce(self.side * c * v + mass)) for v, mass, (_, n) in pairs)

    def _saddle(self, v: float) -> float:
        """Return the c > 0 of Chernoff's bound, the least of a convex function, to a few digits."""
        low, high = math.log(1e-6), math.log(1e20)
        for _ in range(40):
            middle = 0.5 * (low + high)
            c = math.exp(middle)
            rises = self._tilted_mean(c) - self.side * v + math.log(c) - math.log1p(c) > 0.0
            low, high = (low, middle) if rises else (middle, high)
        return math.exp(low)

    def log_delta(self, epsilon: float) -> tuple[float, float, float]:
        """Return log δ, −d log δ/dε and the error."""
        table, v = self.table, self._distance(epsilon)
        if not v > 0.0:
            return (math.log(-math.expm1(epsilon)), 0.0, 2.0 * _UNIT) if self.side > 0 else (-math.inf, 0.0, 0.0)
        value, slope = tail(v, float(self.side), table.scale, table.edges, table.series, *RULE)
        if not value > -math.inf:
            return math.nan, math.nan, math.inf
        far = 1.0 + abs(math.log(v / table.scale))
        error = self._error(value, self._bound(epsilon))
        return value, slope, error + 8.0 * _UNIT * (8.0 + abs(value) + slope * v * far)

    def _bound(self, epsilon: float) -> float:
        """Return Chernoff's bound on log δ."""
        return self.table.mass + float(chernoff_factor(self.saddle)) - self._tilt * self._distance(epsilon)

    def _error(self, value: float, bound: float) -> float:
        """Return the error that the table brings into the log δ with this value and this Chernoff bound."""
        table = self.table
        error = table.error + self._noise * abs(value) + math.exp(min(math.log(table.lost) + bound - value, 100.0))
        return error + math.exp(min(math.log(table.rare) - value, 100.0)) if table.rare else error

    def _dies(self, c: float, cut: float) -> bool:
        """Say if the density of every step, tilted by c, is negligible where it is cut off."""
        for place, mass in zip(self._places, self._masses, strict=True):
            height = self.side * c * place + mass
            if height[-1] > height.max() - cut + 2.0:
                return False
        return True

    def _one(self, j: int) -> DensityTable:
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
        """Return log ∫ e^{κV} f dλ of one step; a small one to full relative accuracy, for many steps multiply it."""
        place, height = self._tilt * self._places[j], self._masses[j]
        mass = np.exp(height)
        grown = float((mass * np.expm1(np.minimum(place, 600.0))).sum() / mass.sum())
        if abs(grown) < 0.5:
            return math.log1p(grown)
        top = float((place + height).max())
        return top + math.log(float(np.exp(place + height - top).sum() / mass.sum()))
