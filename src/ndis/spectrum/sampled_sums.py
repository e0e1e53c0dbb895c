"""δ(ε) of a composition of sampled mean shifts from the density of its loss, where the contour integral cancels.

Write r = q/(1−q). Without the record, the loss of a step is ℓ = log(1−q) + v with v = log(1 + r w) > 0, and w is
log-normal. So the sum V of the v of all steps decides everything. Let f be its density in λ = log(V/R), for a fixed R.
Then f of one step is closed, and for two independent parts a and b

    f_{a+b}(V) = ∫ f_a(V/(1+e^−t)) f_b(V/(1+e^t)) dt,

an integral of positive terms. The module keeps log f as Chebyshev series on panels, and doubles the number of steps.
With the end n log(1−q) of the loss, both orders come from one density:

    remove:  δ(ε) = ∫ over V > v of e^ε (e^{V−v} − 1) f dλ,   v = ε − n log(1−q),
    add:     δ(ε) = ∫ over V < v of (1 − e^{V−v}) f dλ,        v = −ε − n log(1−q).

No term cancels, so that relative errors only add up: those of the two parts, and that of the new series.
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
from ndis.spectrum.sampled_density import CHEBYSHEV_POINTS, NODES, RULE, TO_SERIES, convolve_all, log_steps, tail
from ndis.spectrum.sampled_two import one_step

__all__ = ["LossSums"]

_UNIT = 2.0**-53
_REACH = 45.0  # in standard deviations of the noise; what lies beyond has a mass below e^-1000
_CUT = 52.0  # e-folds below the tilted mass to which tables reach, if Chernoff's bound is near
_LEAST = -300.0  # log δ below this is not asked for
_MOST_PANELS = 4000
_ROOT = math.sqrt(2.0 * math.pi)


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
    """The density of the sum of the losses of some sampled mean shifts, near one ε: (rate below 1, shift, number).

    The tables hold what counts under the law tilted by e^{κV}, with κ from the saddle of this ε. Other ε nearby can be
    asked for; the error tells whether the tables suffice.
    """

    def __init__(self, steps: Sequence[tuple[float, float, int]], epsilon: float, *, add: bool) -> None:
        self.steps, self.add = [s for s in steps if s[2] > 0], add
        self.log_scale = max(math.log(q) - math.log1p(-q) for q, _, _ in self.steps)
        with precision(160):
            self._end = sum((n * (-arb(q)).log1p() for q, _, n in self.steps), arb(0))
        reach = _REACH
        if not add:  # events whose mass is negligible beside the δ of one step alone are left out
            least, count = max(self._one_alone(epsilon), _LEAST), sum(n for _, _, n in self.steps)
            reach = min(reach, math.sqrt(2.0 * (_CUT + 4.0 + math.log(count) - least)))
        self._places = [np.linspace(-reach, reach if add else reach + mu, 1200) for _, mu, _ in self.steps]
        self._losses = [_loss(x, q, mu) for x, (q, mu, _) in zip(self._places, self.steps, strict=True)]
        self.saddle = self._saddle(self._rest(epsilon))
        self._tilt, self._cut = (-self.saddle if add else 1.0 + self.saddle), _CUT
        if not add:
            # Chernoff's bound sees large losses that do not count; the tilted density must die before them
            for _ in range(60):
                bound = self._bound(epsilon)
                self._cut = _CUT + max(0.0, bound - least - 4.0)
                if self._dies():
                    break
                self.saddle *= 0.7
                self._tilt = 1.0 + self.saddle
        self._made: dict[tuple[float, float, int], _Table] = {}
        table = None
        for j, (q, mu, n) in enumerate(self.steps):
            one = self._power(j, q, mu, n)
            table = one if table is None else self._sum(table, one)
        assert table is not None
        self._table = table

    def _rest(self, epsilon: float) -> float:
        """v of the module docstring; the difference is rounded once."""
        with precision(160):
            return float((-arb(epsilon) if self.add else arb(epsilon)) - self._end)

    def _saddle(self, v: float) -> float:
        """The c > 0 of Chernoff's bound, the least of a convex function, to a few digits."""

        def slope(c: float) -> float:
            kappa, total = (-c if self.add else 1.0 + c), math.log(c) - math.log1p(c)
            for x, loss, (_, _, n) in zip(self._places, self._losses, self.steps, strict=True):
                f = kappa * loss - 0.5 * x * x
                weight = np.exp(f - f.max())
                total += n * float((weight * loss).sum() / weight.sum()) * (-1.0 if self.add else 1.0)
            return total + (v if self.add else -v)

        low, high = math.log(1e-6), math.log(1e20)
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if slope(math.exp(middle)) > 0.0 else (middle, high)
        return math.exp(low)

    def log_delta(self, epsilon: float) -> tuple[float, float, float]:
        """log δ, −d log δ/dε and the error."""
        table, v = self._table, self._rest(epsilon)
        if not v > 0.0:
            return (-math.inf, 0.0, 0.0) if self.add else (math.log(-math.expm1(epsilon)), 0.0, 2.0 * _UNIT)
        sign = -1.0 if self.add else 1.0
        value, share = tail(v, sign, math.exp(self.log_scale), table.edges, table.series, *RULE)
        start = 0.0 if self.add else epsilon
        value += start
        slope = share - (0.0 if self.add else 1.0)
        if not value > -math.inf:
            return math.nan, math.nan, math.inf
        bound = table.mass + self._shape(epsilon, v)
        far = 1.0 + abs(math.log(v) - self.log_scale)
        error = table.error + 4.0 * _UNIT * (8.0 + abs(value) + slope * v * far)
        return value, slope, error + math.exp(min(math.log(table.lost) + bound - value, 100.0))

    def _shape(self, epsilon: float, v: float) -> float:
        """log of the most by which an event of tilted mass 1 can change δ."""
        c = self.saddle
        return (0.0 if self.add else epsilon) - self._tilt * v + c * math.log(c) - (1.0 + c) * math.log1p(c)

    def _bound(self, epsilon: float) -> float:
        """Chernoff's bound on log δ."""
        total = self._shape(epsilon, self._rest(epsilon))
        for x, loss, (_, _, n) in zip(self._places, self._losses, self.steps, strict=True):
            total += n * _log_mass(x, self._tilt * loss - 0.5 * x * x)
        return total

    def _dies(self) -> bool:
        """True if the tilted density of every step is negligible where it is cut off."""
        for x, loss in zip(self._places, self._losses, strict=True):
            height = self._tilt * loss - 0.5 * x * x
            if height[-1] > height.max() - self._cut + 2.0:
                return False
        return True

    def _one_alone(self, epsilon: float) -> float:
        """log δ of the worst step alone, a lower bound."""
        return max(one_step((q, mu), epsilon, add=False)[0] for q, mu, _ in self.steps)

    def _power(self, j: int, q: float, mu: float, n: int) -> _Table:
        key = (q, mu, n)
        if key not in self._made:
            if n == 1:
                self._made[key] = self._one(j, q, mu)
            else:
                self._made[key] = self._sum(self._power(j, q, mu, n // 2), self._power(j, q, mu, n - n // 2))
        return self._made[key]

    def _one(self, j: int, q: float, mu: float) -> _Table:
        log_odds = math.log(q) - math.log1p(-q)
        x, loss = self._places[j], self._losses[j]
        height = self._tilt * loss - 0.5 * x * x
        live = np.flatnonzero(height > height.max() - self._cut)
        low, high = max(int(live[0]) - 1, 0), min(int(live[-1]) + 1, x.size - 1)

        def f(lams: Floats) -> Floats:
            out = np.empty(lams.size)
            log_steps(lams, self.log_scale, log_odds, mu, out)
            return out

        ends = np.log(loss[[low, high]]) - self.log_scale
        mass = _log_mass(x, height)
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
            rest = []
            shapes = values.reshape(-1, NODES), (values + grown).reshape(-1, NODES)
            for (x, y, before), v, height in zip(todo, *shapes, strict=True):
                series = TO_SERIES @ v
                size, top = float(np.abs(v).max()), float(height.max())
                left = float(np.abs(series[-2:]).max())
                # what the rounding of λ does to the values, beside their own
                small = 2.0 * _UNIT * (20.0 + size + max(abs(x), abs(y)) * float(np.ptp(v)) / (y - x))
                noisy = left > 0.25 * before and left <= 1e-11 * (1.0 + size)  # halving did not help
                loose = left <= min(math.exp(min(-top - self._cut + 6.0, 0.0)), 3.0)
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
            error + worst + 4.0 * _UNIT,
            lost + math.exp(-self._cut),
        )


def _loss(x: Floats, q: float, mu: float) -> Floats:
    """v = log(1 + r w)."""
    return np.asarray(np.logaddexp(0.0, math.log(q) - math.log1p(-q) + mu * x - 0.5 * mu * mu))


def _log_mass(x: Floats, height: Floats) -> float:
    """log of the mean of e^height over a standard normal x, its own density included in the height."""
    top = float(height.max())
    return top + math.log(float(np.exp(height - top).sum()) * float(x[1] - x[0]) / _ROOT)
