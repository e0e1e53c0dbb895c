"""This module computes δ(ε) of sampled steps from the density of their loss, where the contour integral cancels.

The loss of a step lies on one side of its end ±log(1−q), at the distance V = log(1 + r w) > 0 with r = q/(1−q). So the
sum V of the distances of all steps decides everything. Let f be its density in λ = log(V/R) under the first law of the
order. R grows with the number of steps, so that λ is near 0 where most of the mass is. Then f of one step follows from
the density of log w, and for two independent parts a and b

    f_{a+b}(V) = ∫ f_a(V/(1+e^−t)) f_b(V/(1+e^t)) dt,

an integral of positive terms. The module keeps log f as Chebyshev series on panels, and doubles the number of steps.
If the loss lies above its end E, the sum of the ends, then

    δ(ε) = ∫ over V > v of (1 − e^{v−V}) f dλ,   v = ε − E,

and if it lies below, δ(ε) = ∫ over V < v of (1 − e^{V−v}) f dλ, v = E − ε.

A loss of both signs whose pair is its own reverse has the density e^−V f at −V, and it may be 0 with some chance. Its
table has f for V > 0 only, with the end 0: a sum adds the differences of the parts and the chances that one of them is
0.

No term cancels, so that relative errors add up: those of the two parts, and that of the new series. After each sum
∫ f is known to be 1, and f is scaled to it. The errors that are left have the mean 0 under the law itself, so they grow
like those of independent parts, with the root of the number of steps. An error that follows V, such as a (V − EV) over
the deviation of V, counts z times where the sum lies z deviations from its mean: the estimate has this factor, with
z² = −2 log δ. A table ends where f is below e^−depth, and what lies beyond counts as an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np
from flint import arb

from ndis._balls import precision
from ndis._validate import Floats, Order
from ndis.accountant.density import CHEBYSHEV_POINTS, NODES, RULE, TO_SERIES, convolve_all, tail
from ndis.accountant.laws import Law
from ndis.errors import PrecisionError

_UNIT = 2.0**-53
_BITS = 160
_MOST_PANELS = 1000
_SMALL = 1e-12  # a table whose mass is wrong by less is scaled
_NOISY, _NOISY_AND_THIN = 1e-11, 3e-13  # accepted errors where panels of half the width do no better
_NARROWEST = 2.0**-48
_MOST_PARTS = 4  # a panel is cut into at most this many
_THIN = 1.0 / 300.0  # relative to the whole width: the mass of a narrower panel falls with its width
_MARGIN = 36.0  # log units by which tables go deeper than log δ


@dataclass(frozen=True)
class DensityTable:
    """Keep log f on panels, with its relative error. `lost` is the probability of what the table may have wrong."""

    scale: float  # R
    edges: Floats
    series: Floats
    tops: Floats
    error: float
    lost: float
    log_atom: float  # the log of the chance of 0 if there are both signs; NaN for a positive number


class SumTables:
    """Tables of the densities of sums of independent positive numbers V; a subclass says what one number is.

    A table holds log f down to −`depth`. The error that a series may have is `finest`, relative to the size of log f.
    """

    def __init__(self, depth: float, finest: float = _UNIT) -> None:
        self._depth, self._finest, self._noise = depth, finest, 0.0
        self._made: dict[tuple[int, int], DensityTable] = {}

    def _one(self, j: int) -> DensityTable:
        """Return the table of one number of the kind j."""
        raise NotImplementedError  # each kind of sum has its own

    def _span(self, f: Callable[[Floats], Floats], scale: float, low: float, high: float) -> tuple[float, float]:
        """Return where the table of a sum begins and ends. It has no support outside of `low` and `high`."""
        lams = np.linspace(low, high, 97)
        live = np.flatnonzero(f(lams) > -self._depth - 3.0)
        if not live.size:
            return low, high
        return float(lams[max(live[0] - 1, 0)]), float(lams[min(live[-1] + 1, 96)])

    def _power(self, j: int, n: int) -> DensityTable:
        """Return the table of the sum of n numbers of the kind j, by doubling."""
        if (j, n) not in self._made:
            if n == 1:
                self._made[j, n] = self._one(j)
            else:
                half = self._power(j, n // 2)
                both = self._sum(half, half)
                self._made[j, n] = self._sum(both, self._power(j, 1)) if n % 2 else both
        return self._made[j, n]

    def _sum(self, a: DensityTable, b: DensityTable) -> DensityTable:
        """Return the table of the sum of two independent parts."""
        scale = a.scale + b.scale
        ea, eb = a.edges - math.log(scale / a.scale), b.edges - math.log(scale / b.scale)

        def f(lams: Floats) -> Floats:
            out = np.empty(lams.size)
            one, two = (a.log_atom, ea, a.series, a.tops), (b.log_atom, eb, b.series, b.tops)
            convolve_all(lams, a is b, scale, *one, *two, *RULE, out)
            return out

        # both parts at their ends is far less than what counts: look where the sum does
        log_atom = a.log_atom + b.log_atom
        low = float(np.logaddexp(ea[0], eb[0])) if math.isnan(log_atom) else -self._depth - 2.0
        span = self._span(f, scale, low, float(np.logaddexp(ea[-1], eb[-1])))
        return self._make(f, scale, *span, (a.error, b.error), a.lost + b.lost, log_atom)

    def _make(
        self,
        f: Callable[[Floats], Floats],
        scale: float,
        low: float,
        high: float,
        errors: tuple[float, ...] = (),
        lost: float = 0.0,
        log_atom: float = math.nan,
    ) -> DensityTable:
        """Make the table of f. Panels are cut until the last terms of each series are small, or do not count."""
        todo = [(x, y, math.inf) for x, y in pairwise(np.linspace(low, high, 9).tolist())]
        done: list[tuple[float, float, Floats, float]] = []
        worst = 0.0
        while todo:
            lams = np.concatenate([0.5 * (x + y) + 0.5 * (y - x) * CHEBYSHEV_POINTS for x, y, _ in todo])
            values = np.maximum(f(lams), -500.0 - self._depth).reshape(-1, NODES)
            halves: list[tuple[float, float, float]] = []
            for (x, y, before), v in zip(todo, values, strict=True):
                series = TO_SERIES @ v
                size, top = float(np.abs(v).max()), float(v.max())
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
                loose = min(math.exp(min(3.0 - self._depth - share, 0.0)), 3.0)
                dead = top < -self._depth - 10.0 and y - x <= 0.02 * (high - low)
                if not (left <= small or raw <= loose or noisy or dead):
                    if len(done) + len(halves) > _MOST_PANELS:
                        raise PrecisionError("the density of the loss needs too many panels")
                    # the last terms of a series fall with the width of its panel like a power
                    parts = min(max(math.ceil((raw / max(small, loose)) ** (1.0 / NODES)), 2), _MOST_PARTS)
                    halves += [(one, two, raw) for one, two in pairwise(np.linspace(x, y, parts + 1).tolist())]
                    continue
                done.append((x, y, series, top))
                if noisy or left <= min(small, _NOISY * (1.0 + size)):
                    worst = max(worst, left / (1.0 + size))
                else:
                    lost += min(raw, 1.0) * math.exp(min(top, 100.0)) * (y - x)
            todo = halves
        self._noise = max(self._noise, worst)
        done.sort(key=lambda p: p[0])
        for end in (0, -1):
            while len(done) > 1 and done[end][3] < -self._depth:
                del done[end]
        edges, series = np.array([p[0] for p in done] + [done[-1][1]]), np.array([p[2] for p in done])
        value, slope = tail(scale * math.exp(edges[-1]), -1.0, scale, edges, series, *RULE)
        wrong = value + math.log1p(slope)  # the logarithm of the mass
        if not math.isnan(log_atom):  # ∫ f (1 + e^−V) is twice ∫ f less ∫ f (1 − e^−V)
            less = tail(scale * math.exp(edges[0]), 1.0, scale, edges, series, *RULE)[0] - wrong
            wrong += math.log(2.0 - math.exp(min(less, 0.0))) - math.log(-math.expm1(log_atom))
        if abs(wrong) < _SMALL:
            series[:, 0] -= wrong
            error = math.hypot(*errors)
        else:
            error = sum(errors) + abs(wrong)
        tops = np.array([p[3] for p in done]) + 1.0
        lost += math.exp(-min(self._depth, 700.0))
        return DensityTable(scale, edges, series, tops, error + 0.5 * worst + _UNIT, lost, log_atom)


class LossSums(SumTables):
    """The density of the sum of the losses of some sampled steps, each with its number, for log δ down to −`depth`.

    >>> from ndis.accountant.laws.mixture_steps import MixtureStep
    >>> step = MixtureStep(1.0, (0.0, 1.0), (0.9, 0.1)).law("remove")
    >>> sums = LossSums([(step, 3)], "remove", 10.0)
    >>> round(sums.log_delta(0.5)[0], 9)
    -4.879968404
    """

    def __init__(self, steps: Sequence[tuple[Law, int]], order: Order, depth: float) -> None:
        self.depth, self._add, self._doubt = depth, order == "add", 0.0
        self.count = sum(n for _, n in steps)
        super().__init__(depth + _MARGIN + math.log(self.count))
        known = [law.density(order, self._depth) for law, _ in steps]
        self.densities = [one for one in known if one is not None]
        if len(self.densities) < len(known) or len({math.isnan(one.log_atom) for one in self.densities}) > 1:
            raise PrecisionError("the losses of the steps have no densities that tables hold together")
        with precision(_BITS):
            self.end = sum((n * one.end for one, (_, n) in zip(self.densities, steps, strict=True)), arb(0))
        self.table = reduce(self._sum, [self._power(j, n) for j, (_, n) in enumerate(steps)])

    def _one(self, j: int) -> DensityTable:
        """Return the table of the loss of one step, between the places where it counts."""
        law = self.densities[j]

        def f(lams: Floats) -> Floats:
            value, error = law.log_f(lams)
            doubt = float(np.max(error, where=~(value < -self._depth), initial=0.0))
            if not doubt < math.inf:
                raise PrecisionError("the density of a step is not known")
            self._doubt = max(self._doubt, doubt)
            return np.asarray(value)

        live = np.flatnonzero(f(law.places) > -self._depth)
        if not live.size:
            raise PrecisionError("the density of a step is too small to be tabulated")
        low, high = law.places[max(int(live[0]) - 1, 0)], law.places[min(int(live[-1]) + 1, law.places.size - 1)]
        return self._make(f, law.scale, float(low), float(high), log_atom=law.log_atom)

    def log_delta(self, epsilon: float) -> tuple[float, float, float]:
        """Return log δ, −d log δ/dε and the error, for ε inside the ends of the loss."""
        table, sign = self.table, -1.0 if self._add and math.isnan(self.table.log_atom) else 1.0  # 1: above its end
        with precision(_BITS):
            v = float(sign * arb(epsilon) - self.end)  # rounded once
        if not math.isnan(table.log_atom):
            v = max(v, table.scale * math.exp(table.edges[0]))
        value, slope = tail(v, sign, table.scale, table.edges, table.series, *RULE) if v > 0.0 else (-math.inf, 0.0)
        if not value > -math.inf:
            return math.nan, math.nan, math.inf
        rounding = 8.0 * _UNIT * (8.0 + abs(value) + slope * v * (1.0 + abs(math.log(v / table.scale))))
        error = table.error * (1.0 + math.sqrt(-2.0 * min(value, 0.0))) + math.sqrt(self.count) * self._doubt
        lost = math.exp(min(math.log(table.lost) - value, 100.0))
        return value, slope, error + self._noise * abs(value) + rounding + lost
