"""This module computes δ(ε) and ε(δ) of a composition of any laws, in one order, in float64.

The laws of a composition add their K (`ndis.accountant.laws`), and

    δ(ε) = (1/2πi) ∫ e^{K(s) − sε} / (s(s+1)) ds,      Re s = c > 0.

The path is that of `ndis.spectrum.contour`: through the saddle, bent to one side, with a trapezoid rule in its
parameter that is halved until it settles. The values of K are dear here, so that many ε share those along one path,
each with an error estimate of its own. The estimate adds up

    the change of the last halving, times ten times the ratio of the last two changes (at least 1/100),
    the errors of K, each times the modulus of the integrand there, and the rounding of the exponent,
    the last value of the integrand, in place of what is left of the path.

A path is taken only where the integrand dies for good and stays below a few times its value at the saddle. Two steps
have an integral of positive terms (`ndis.accountant.few`). Where rare large losses spoil the contour, a
composition with public labels is the mean over the numbers of steps with each label, and
`ndis.accountant.densities` adds up the densities of all losses. A negative ε is turned into a positive one of the
reversed order, δ_PQ(ε) = 1 − e^ε + e^ε δ_QP(−ε), whose two parts are positive. Every value carries an error estimate,
and none is returned if the estimate is above 5e-11 (1 + |log δ|), or 5e-9 (1 + |log δ|) with epochs of random
allocation among the laws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np

from ndis._search import chernoff_factor, newton_epsilon, quiet, refuse
from ndis._validate import Floats, Order
from ndis.accountant.densities import LossSums
from ndis.accountant.few import few_steps
from ndis.accountant.laws import Complexes, Law
from ndis.accountant.laws.mixture import Mixture
from ndis.errors import PrecisionError
from ndis.spectrum.evaluate import log_one_minus_exp

Saddle = tuple[float, float, float, float]  # place, width, bend of steepest descent, Chernoff's bound on log δ
Path = tuple[float, float, float]  # saddle, width, bend
_Values = tuple[Complexes, Complexes, Complexes, Floats]  # s, ds/du, K − s·mean, its error
_Found = tuple[Floats, Floats, Floats]  # log δ, −d log δ/dε, error

_UNIT = 2.0**-53
_ACCEPTED = 5.0  # the largest error that is returned, over this aim
_DEAD = -41.0  # e^-41: below the rounding of the sum
_DOUBT = -26.0  # log of the error that one value of K may bring into the sum, relative to its saddle value
_LOOK = 0.5  # step of the look along the path; the first trapezoid reuses it
_CHUNK = 8
_MAX_LOOK = 48
_MAX_HALVINGS = 7
_GOAL = 2e-14
_EARLY = 3  # halvings after which the rounding is known well enough to give up
_HOPELESS = 1e-9  # rounding of log δ, relative to 1 + |log δ|
_MOST_S = 1e10
_ONE = 1e-6  # log δ is not above 0
_SLOPES = (0.5, 0.2, 0.05, 0.0, -0.05, -0.2, -0.5)
_MOST_SUMS = 4_000_000  # densities are added up for at most this many steps
_MOST_SHIFT = 14.0  # densities of larger shifts need too many panels
_SHALLOW, _DEEP = 40.0, 200.0  # −log δ between which the first tables end
_NEAR = 8.0  # log units by which log δ may lie below the depth of its tables, of which they know more
_MOST_LABELS = 60  # numbers of labels that are evaluated; the chance of the others is an error
_UNSEEN = 1e-17  # a bump of this relative size does not count
_LEAST = -700.0  # the density of the loss underflows if Chernoff's bound on log δ is below
_LAST = 2.0**-40
_TOGETHER = 64  # at most this many ε share one path


class FloatComposition:
    """Evaluate the privacy loss of some laws, each with its number of steps, in one order. It keeps its tables.

    >>> from ndis.accountant.laws.mixture import sampled_shift
    >>> from ndis.pair import GaussianPair
    >>> step = sampled_shift(GaussianPair.from_ratios(1.0, shift=1.0), (0.01,), "remove")
    >>> log_delta, _ = FloatComposition([(step, 1000)], "remove").log_delta(np.array([1.5]))
    >>> round(float(log_delta[0]), 6)
    -9.121818
    """

    def __init__(self, parts: Sequence[tuple[Law, int]], order: Order) -> None:
        self.order = order
        self.parts = [(law, n) for law, n in parts if n > 0 and law.ends != (0.0, 0.0)]
        self.most = math.fsum(n * law.ends[1] for law, n in self.parts)
        self.mean = math.fsum(n * law.mean for law, n in self.parts)
        self.limit = min((law.limit for law, _ in self.parts), default=math.inf)
        self.largest = max((law.largest for law, _ in self.parts), default=0.0) or 1e-300
        self.tolerance = max((law.accuracy for law, _ in self.parts), default=Law.accuracy)
        self.accepted = _ACCEPTED * self.tolerance  # largest error of log δ that is returned, relative to 1 + |log δ|
        self.deepest = max((law.deepest for law, _ in self.parts), default=-math.inf)
        self._sums: LossSums | None = None
        self._epochs = any(law.direct for law, _ in self.parts)
        self._goal = 0.0  # −log of the least δ that was asked for

    @cached_property
    def _few(self) -> Callable[[float], tuple[float, float]] | None:
        """One or two steps have an own way to log δ(ε) and its error."""
        return few_steps(self.parts, self.order) if 1 <= sum(n for _, n in self.parts) <= 2 else None

    @cached_property
    def variance(self) -> float:
        """The variance of the loss has a few digits: K(s) ≈ s·mean + s²·variance/2."""
        return max(float(self.centred(np.array([1e-3 + 1e-3j]))[0][0].imag) / 1e-6, 0.0)

    @cached_property
    def reverse(self) -> FloatComposition:
        """Return the same composition in the other order."""
        other: Order = "add" if self.order == "remove" else "remove"
        return FloatComposition([(law.reversed(), n) for law, n in self.parts], other)

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """Return K(s) − s·mean and its error."""
        value, error = np.zeros(s.size, dtype=np.complex128), np.zeros(s.size)
        for m, n in self.parts:
            v, e = m.centred(s)
            value += n * v
            error += n * e
        return value, error

    def log_delta(self, epsilon: Floats) -> tuple[Floats, Floats]:
        """Return log δ at each entry of a vector ε, and its error. PrecisionError says that the error is too large."""
        value, _, error = self._evaluate(epsilon)
        bad = ~(error <= self.accepted * (1.0 + np.abs(np.where(np.isinf(value), 0.0, value))))
        refuse(bad, epsilon, error, "the sampled spectrum at epsilon =")
        return np.minimum(value, 0.0), error

    @quiet
    def _evaluate(self, epsilon: Floats) -> _Found:
        """Return log δ, −d log δ/dε and the error, whatever it is."""
        n = epsilon.size
        value, slope, error = np.full(n, -np.inf), np.zeros(n), np.zeros(n)
        negative = epsilon < 0.0
        if negative.any():
            other, s, wrong = self.reverse._evaluate(-epsilon[negative])
            both = np.logaddexp(log_one_minus_exp(epsilon[negative]), epsilon[negative] + other)
            share = np.exp(epsilon[negative] + other - both)
            value[negative], error[negative] = both, share * wrong + 2.0**-51
            slope[negative] = np.exp(epsilon[negative] - both) - share * (1.0 + s)
        todo = np.flatnonzero(~negative & (epsilon < self.most))
        if self._few is not None:
            for i in todo.tolist():
                value[i], error[i] = self._few(float(epsilon[i]))
                # δ is smooth and falls: a difference is enough for the slope, which only steers a search
                near = 1e-6 * (1.0 + float(epsilon[i]))
                slope[i] = (value[i] - self._few(float(epsilon[i]) + near)[0]) / near
            todo = todo[~((error[todo] <= self.tolerance * (1.0 + np.abs(value[todo]))) | self.parts[0][0].direct)]
        todo = todo[np.argsort(epsilon[todo], kind="stable")]
        while todo.size:
            place = max(0, todo.size // 2 - _TOGETHER // 2) if todo.size > _TOGETHER else 0
            some = todo[place : place + _TOGETHER]
            pivot = some.size // 2
            at = float(epsilon[some[pivot]])
            saddle = self._resolved(find_saddle(self, self.mean - at))
            v, s, e = np.full((3, some.size), math.nan)
            for result in self._ways(epsilon[some], pivot, saddle):
                if not e[pivot] <= result[2][pivot]:  # true for NaN
                    v, s, e = result
                if e[pivot] <= self.tolerance * (1.0 + abs(v[pivot])):
                    break
            own = 2.0 * float(e[pivot]) / (1.0 + abs(float(v[pivot])))  # a path of their own would hardly be better
            good = e <= min(max(0.1 * self.tolerance, own), 2.0 * self.tolerance) * (1.0 + np.abs(v))
            good[pivot] = True
            value[some[good]], slope[some[good]], error[some[good]] = v[good], s[good], e[good]
            todo = np.concatenate([todo[:place], some[~good], todo[place + some.size :]])
        return value, slope, error

    def _ways(self, epsilon: Floats, pivot: int, saddle: Saddle) -> Iterator[_Found]:
        """Compute δ in one way after the other. Tables that another ε needed come first, and new ones last.

        Tables of epochs are quick to make, so they come first for many ε.
        """
        if self._sums is not None or (epsilon.size > _CHUNK and self._easy and self._epochs):
            yield self._by_sums(epsilon, pivot)
        yield self._by_contour(epsilon, pivot, saddle)
        if self._labelled:
            yield self._by_labels(epsilon, pivot)
        if not saddle[3] <= _LEAST and self._easy:  # a bound that is not known excludes nothing
            yield self._by_sums(epsilon, pivot)

    def _resolved(self, saddle: Saddle) -> Saddle:
        """Return the saddle with a width at which the path resolves what few large losses add to the integrand.

        They add a bump at the saddle. The wider their losses are spread, the narrower the bump is.
        """
        c, width, bend, bound = saddle
        for m, n in self.parts:
            share, spread = m.far_losses(c)
            if n * share > _UNSEEN and spread * width > 1.0:
                width, bend = 1.0 / spread, 0.0
        return c, width, bend, bound

    @cached_property
    def _easy(self) -> bool:
        """True if densities may be added up: not too many steps, and each hides something."""
        shifts = (law.up + law.down for law, _ in self.parts if isinstance(law, Mixture))
        return sum(n for _, n in self.parts) <= _MOST_SUMS and max(shifts, default=0.0) < _MOST_SHIFT

    def _by_contour(self, epsilon: Floats, pivot: int, saddle: Saddle) -> _Found:
        """Integrate along the contour. A δ so small that what moments leave out may count is not known."""
        value, slope, error = integrate(self, epsilon, pivot, saddle)
        return value, slope, np.where(value < self.deepest, math.inf, error)

    @cached_property
    def _labelled(self) -> list[tuple[float, FloatComposition]]:
        """Return the compositions with known numbers of labels, and the logs of their chances; likely ones first."""
        for i, (law, n) in enumerate(self.parts):
            if ways := law.labels(n):
                own = [[*self.parts[:i], *steps, *self.parts[i + 1 :]] for _, steps in ways]
                return [(way[0], FloatComposition(parts, self.order)) for way, parts in zip(ways, own, strict=True)]
        return []

    def _by_labels(self, epsilon: Floats, pivot: int) -> _Found:
        """Compute δ as the mean over the numbers of labels, from the likeliest on, until the others do not count."""
        value, (slope, error) = np.full(epsilon.size, -math.inf), np.zeros((2, epsilon.size))
        rarer = np.logaddexp.accumulate([log_p for log_p, _ in self._labelled[:0:-1]])[::-1]
        for (log_p, one), left in zip(self._labelled[:_MOST_LABELS], [*rarer, -math.inf], strict=False):
            v, s, e = one._evaluate(epsilon)
            total = np.logaddexp(value, log_p + v)
            old, new = np.exp([value, log_p + v] - np.maximum(total, -1e300))
            value, slope, error = total, old * slope + new * s, old * error + new * e
            if left < value[pivot] + _DEAD:
                break
        return value, slope, error + np.exp(np.minimum(left + 1.0 - value, 100.0))

    def _by_sums(self, epsilon: Floats, pivot: int) -> _Found:
        """Compute δ from the density of the loss. Tables go deep enough for the δ of one step alone, or deeper.

        One epoch alone may have a far smaller δ, for which its table is not deep enough.
        """
        e = float(epsilon[pivot])
        alone = [x for law, _ in self.parts if not law.direct and (x := law.log_delta(e)[0]) == x]
        # nearby ε share tables
        depth = 20.0 * math.ceil(min(max(-max(alone, default=0.0), self._goal, _SHALLOW), _DEEP) / 20.0)
        try:
            while True:
                if self._sums is None or self._sums.depth < depth:
                    self._sums = LossSums(self.parts, self.order, depth)
                rows = np.array([self._sums.log_delta(e) for e in epsilon.tolist()]).T
                if depth == -_LEAST or self._sums.depth + _NEAR >= -rows[0, pivot]:
                    return rows[0], rows[1], rows[2]
                deeper = -float(rows[0, pivot]) if self._epochs else math.inf  # NaN leaves twice the depth
                depth = min(2.0 * self._sums.depth, deeper, -_LEAST)
        except (PrecisionError, ArithmeticError):  # a density that is out of the range of floats
            return np.full(epsilon.size, math.nan), np.full(epsilon.size, math.nan), np.full(epsilon.size, math.inf)

    def epsilon(self, delta: float, guess: float | None = None) -> float:
        """Return the smallest ε ≥ 0 found at which δ, with the error of its computation, is at most `delta`."""
        goal = math.log(delta)
        self._goal = max(self._goal, -goal)

        def excess(e: float) -> tuple[float, float, float]:
            """Return log δ(ε) less its goal, its margin and its slope, for Newton steps."""
            value, slope, error = (float(a[0]) for a in self._evaluate(np.array([e])))
            if value == -math.inf:
                return -math.inf, 0.0, slope
            if not error <= self.accepted * (1.0 + abs(value)):
                if e >= self.most * (1.0 - _LAST):  # δ falls to 0 between two floats
                    return 1.0, 0.0, 0.0
                if find_saddle(self, self.mean - e, goal - 1.0)[3] < goal - 1.0:  # far below, whatever it is
                    return -math.inf, 0.0, 0.0
                raise PrecisionError(f"delta at epsilon = {e!r} did not reach full accuracy", reached=error)
            return value - goal, 2.0 * error + 2.0**-50 * (1.0 + abs(value)), slope

        high = self.most * (1.0 + 2.0**-50)
        guess = self.guess(goal) if guess is None else guess
        return newton_epsilon(excess, guess if 0.0 < guess < high else 0.0, high)

    def guess(self, goal: float) -> float:
        """Return the ε at which a Gaussian loss of the same mean and variance has about this log δ."""
        return self.mean + math.sqrt(self.variance) * (math.sqrt(-2.0 * goal) - 1.0)


def _nodes(path: Path, first: float, step: float, count: int) -> tuple[Complexes, Complexes]:
    """Return s(u) = c + bend w (cosh u − 1) + i w sinh u, and ds/du, at u = first, first + step, …"""
    c, w, bend = path
    up = np.exp(first + step * np.arange(count))
    cosh, sinh = 0.5 * w * (up + 1.0 / up), 0.5 * w * (up - 1.0 / up)
    return c + bend * (cosh - w) + 1j * sinh, bend * sinh + 1j * cosh


def _dying(dead: int, values: _Values, lin: float, base: float, growth: float) -> tuple[int, int]:
    """Return the number of values until they are dead for good, 0 if they go on, −1 if they grow or are in doubt.

    The second result is the number of dead values at the end.
    """
    s, ds, v, e = values
    heights = (v + lin * s).real + np.log(np.abs(ds / (s * (s + 1.0)))) - base
    doubts = heights + np.log(e + _UNIT)
    for j, (height, doubt) in enumerate(zip(heights.tolist(), doubts.tolist(), strict=True)):
        if not (height < growth and doubt < _DOUBT + max(growth, 0.0)):
            return -1, 0
        dead = dead + 1 if max(height, doubt) < _DEAD else 0
        if dead == 3 or (dead == 2 and max(height, doubt) < 2.0 * _DEAD):
            return j + 1, dead
    return 0, dead


def _terms(lin: Floats, v0: float, path: Path, values: _Values) -> tuple[Complexes, Floats]:
    """Return the terms at some nodes, over the one at the saddle, and their errors: a row per node, a column per ε."""
    (c, w, _), (s, ds, v, e) = path, values
    factor = ds / (s * (s + 1.0)) * (c * (1.0 + c) / w)
    exponents = (v - v0)[:, None] + (s - c)[:, None] * lin
    terms = np.exp(exponents) * factor[:, None]
    rounding = (1.0 + np.abs(v))[:, None] + np.abs(s)[:, None] * np.abs(lin)
    return terms, np.minimum(e, 1.0)[:, None] + 4.0 * _UNIT * rounding


@quiet
def find_saddle(law: FloatComposition, lin: float, floor: float = -math.inf) -> Saddle:
    """Return the saddle c, the width w there, the bend of steepest descent, and Chernoff's bound on log δ.

    The search ends early where the bound falls below `floor`; the width is 0 then.
    """
    variance, bound = max(law.variance, 1e-30), math.inf
    root = math.sqrt(lin * lin + 4.0 * variance)
    c = min(2.0 / (lin + root) if lin > 0.0 else (root - lin) / (2.0 * variance), 1e9, 0.5 * law.limit)
    low, high = 0.0, law.limit
    w, bend = math.inf, 0.0
    for _ in range(60):
        # the phase of a moment must not turn by π on the way from c to c + 2iη
        eta = min(1e-3 * c, 1e-3 * (law.limit - c), 0.1 * w, 1.0 / law.largest)
        v, _ = law.centred(np.array([c, c + 1j * eta, c + 2j * eta], dtype=np.complex128))
        bound = float(v[0].real + lin * c + chernoff_factor(c))
        if bound < floor or c > _MOST_S:
            return c, 0.0, 0.0, bound
        i1, i2 = v[1].imag, v[2].imag
        first = (8.0 * i1 - i2) / (6.0 * eta) + lin - 1.0 / c - 1.0 / (1.0 + c)
        second = 2.0 * (v[0].real - v[1].real) / (eta * eta) + 1.0 / c**2 + 1.0 / (1.0 + c) ** 2
        third = (2.0 * i1 - i2) / eta**3 - 2.0 / c**3 - 2.0 / (1.0 + c) ** 3
        # K is convex and 0 at 0: its slope at c is above K(c)/c
        rises = v[0].real / c > 1.0 / c + 1.0 / (1.0 + c) - lin
        good = math.isfinite(first) and math.isfinite(second) and second > 0.0 and not rises
        low, high = (low, c) if not good or first > 0.0 else (c, high)
        move = math.nan
        if good:
            w = 1.0 / math.sqrt(second)
            bend = w * third / (3.0 * second)
            move = c - first / second
            if abs(move - c) <= 0.02 * w:
                break
        if not low < move < high or move > 8.0 * c or move < c / 8.0:
            move = 4.0 * c if math.isinf(high) else math.sqrt(low * high) if low > 0.0 else 0.25 * high
        c = move
    return c, w, bend, bound


def _look(law: FloatComposition, path: Path, lin: float, growth: float, limit: int) -> _Values | None:
    """Return values along the path until they are dead; None if they grow, are in doubt, or live on."""
    c, w, _ = path
    parts: list[_Values] = []
    base, dead, k = 0.0, 0, 0
    while k <= limit:
        s, ds = _nodes(path, _LOOK * k, _LOOK, _CHUNK if k else _CHUNK + 1)
        v, e = law.centred(s)
        if not parts:
            base = float(v[0].real) + lin * c + math.log(w) - math.log(c) - math.log1p(c)
        parts.append((s, ds, v, e))
        count, dead = _dying(dead, parts[-1], lin, base, growth)
        if count < 0:
            return None
        if count > 0:
            stop = k + count - dead + 1  # the first dead value ends the path
            s, ds, v, e = (a[0] if len(a) == 1 else np.concatenate(a) for a in zip(*parts, strict=True))
            return s[:stop], ds[:stop], v[:stop], e[:stop]
        k += s.size
    return None


@quiet
def integrate(law: FloatComposition, epsilon: Floats, pivot: int, saddle: Saddle) -> _Found:
    """Return log δ, mean s and error at every ε, by the path that suits the one at `pivot`."""
    lin = law.mean - float(epsilon[pivot])
    c, w, bend, _ = saddle
    best = (np.full(epsilon.size, np.nan), np.full(epsilon.size, np.nan), np.full(epsilon.size, np.inf))
    if not w > 0.0:
        return best
    tried = set()
    for growth, limit, slopes in (
        (2.0, 16, (min(max(bend, -0.5), 0.5),)),
        (2.0, _MAX_LOOK, _SLOPES),
        (8.0, _MAX_LOOK, _SLOPES),
    ):
        seen = []
        for slope in slopes:
            if slope not in tried:
                nodes = _look(law, (c, w, slope), lin, growth, limit)
                if nodes is not None:
                    seen.append((slope, nodes))
                    tried.add(slope)
        for slope, nodes in sorted(seen, key=lambda pair: pair[1][0].size):
            got = _along(law, epsilon, pivot, (c, w, slope), nodes)
            if not got[2][pivot] >= best[2][pivot]:
                best = got
            if best[2][pivot] <= 0.1 * law.tolerance * (1.0 + abs(best[0][pivot])):
                return best
    return best


def _along(law: FloatComposition, epsilon: Floats, pivot: int, path: Path, nodes: _Values) -> _Found:
    """Apply the trapezoid rule along one path, for every ε: return log δ, the mean of s, the estimated error."""
    (c, w, _), lin = path, law.mean - epsilon
    count, v0 = nodes[0].size - 1, float(nodes[2][0].real)
    scale = v0 + lin * c - math.log(c) - math.log1p(c) + math.log(w)
    h, values, share = _LOOK, nodes, 0.5  # the first node lies on the real axis and counts by half
    total = moment = size = doubt = previous = end = np.zeros(epsilon.size)
    change = np.full(epsilon.size, np.inf)
    for level in range(_MAX_HALVINGS + 1):
        terms, errors = _terms(lin, v0, path, values)
        terms[0] *= share
        sizes = np.abs(terms)
        total, moment = total + terms.sum(axis=0).imag, moment + (values[0] @ terms).imag
        size, doubt = size + sizes.sum(axis=0), doubt + (sizes * errors).sum(axis=0)
        current, last = h * total, change
        if level == 0:
            end, share = sizes[-1], 1.0
        else:
            change = np.abs(current - previous)
            floor = h * (doubt + _UNIT * size)
            left = np.where((change > floor) & (change < last), change * np.maximum(10.0 * change / last, 0.01), change)
            left[~(last < math.inf)] = math.inf
            value = scale + np.log(current / math.pi)
            error = np.where(value < _ONE, (left + floor + end) / current, math.inf)  # NaN too is no value
            low = floor[pivot] / current[pivot]
            if error[pivot] <= max(2.0 * low, _GOAL):
                break
            if level >= 3 and change[pivot] > 0.5 * last[pivot]:
                break  # the integrand is too rough along this path
            if level > _EARLY and not math.fabs(low) < _HOPELESS * (1.0 + math.fabs(scale[pivot])):
                break  # the terms cancel, and the next halvings do not help
        if level < _MAX_HALVINGS:
            s, ds = _nodes(path, 0.5 * h, h, count << level)
            values = (s, ds, *law.centred(s))
        previous, h = current, 0.5 * h
    return value, moment / total, error
