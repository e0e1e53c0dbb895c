"""This module computes δ(ε) and ε(δ) of a composition of any laws, in one order, in float64.

The laws of a composition add their K (`ndis.accountant.laws`). The integral is that of `ndis.accountant.contour`. Two
steps have an integral of positive terms (`ndis.accountant.few`). Where rare large losses spoil the contour,
`ndis.accountant.densities` adds up densities of mean shifts. In the remove order δ may also come from the add order at
−ε, if that loses few digits. A negative ε is turned into a positive one of the reversed order,

    δ_PQ(ε) = 1 − e^ε + e^ε δ_QP(−ε),

whose two parts are positive. Every value carries an error estimate, and none is returned if the estimate is above
5e-11 (1 + |log δ|).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np

from ndis._search import newton_epsilon
from ndis._validate import Floats, Order
from ndis.accountant.contour import TOLERANCE, Saddle, find_saddle, integrate
from ndis.accountant.densities import LossSums, MixedSums, Shape
from ndis.accountant.few import PairStep, log_delta_shift, one_step, two_pairs, two_steps
from ndis.accountant.laws import Complexes, Law
from ndis.accountant.laws.mean_shift import MeanShift
from ndis.accountant.laws.plain import Plain
from ndis.accountant.laws.sampled_pair import SampledPair
from ndis.errors import PrecisionError
from ndis.spectrum.evaluate import log_one_minus_exp

__all__ = ["FloatComposition"]

_Found = tuple[Floats, Floats, Floats]  # log δ, −d log δ/dε, error
_MOST_SUMS = 10_000_000  # densities are added up for at most this many steps
_FEW = 256  # steps
_FEEL_WINDOWS = -300.0  # log δ below this may depend on the windows of the moments
_FARTHEST = -1750.0  # log of the probability of x beyond 60 deviations, in all steps
_LOST_DIGITS = 8.0  # a reflection may lose this much of log δ
_RARE = 8.0  # fewer far losses than this, under the tilted law, are few
_UNSEEN = 1e-17  # a bump of this relative size does not count
_LOSS = 8.0  # a log distance between Chernoff's bound and δ that costs too many digits
_LEAST = -700.0  # the density of the loss underflows if Chernoff's bound on log δ is below
_ACCEPTED = 5e-11  # error of log δ, relative to 1 + |log δ|
_LAST = 2.0**-40
_TOGETHER = 64  # at most this many ε share one path


class FloatComposition:
    """Evaluate the privacy loss of some laws, each with its number of steps, in one order. It keeps its tables.

    >>> import numpy as np
    >>> from ndis.pair import GaussianPair
    >>> step = MeanShift(GaussianPair.from_ratios(1.0, shift=1.0), (0.01,), "remove")
    >>> log_delta, _ = FloatComposition([(step, 1000)], "remove").log_delta(np.array([1.5]))
    >>> round(float(log_delta[0]), 6)
    -9.121818
    """

    def __init__(self, parts: Sequence[tuple[Law, int]], order: Order) -> None:
        self.order = order
        self.parts = [(law, n) for law, n in parts if n > 0 and law.ends != (0.0, 0.0)]
        self.least = math.fsum(n * law.ends[0] for law, n in self.parts)
        self.most = math.fsum(n * law.ends[1] for law, n in self.parts)
        self.mean = math.fsum(n * law.mean for law, n in self.parts)
        self.limit = min((law.limit for law, _ in self.parts), default=math.inf)
        self.largest = max((law.largest for law, _ in self.parts), default=0.0) or 1e-300
        self._sums: LossSums | MixedSums | None = None

    @cached_property
    def _few_steps(self) -> tuple[tuple[float, float], ...] | tuple[PairStep, ...]:
        """The steps are listed if there are one or two: rate and shift of each if all are mean shifts; else nothing."""
        if not 1 <= sum(n for _, n in self.parts) <= 2:
            return ()
        laws = [law for law, n in self.parts for _ in range(n)]
        shifts = [shift for shift in map(_as_shift, laws) if shift]
        if len(shifts) == len(laws):
            return tuple(shifts)
        if len(laws) == 1 or not all(isinstance(law, Plain | MeanShift | SampledPair) for law in laws):
            return ()  # the contour serves one step
        return tuple(_as_pair(law, self.order) for law in laws)

    def _few(self, epsilon: float) -> tuple[float, float]:
        add, steps = self.order == "add", self._few_steps
        if isinstance(steps[0], PairStep):
            return two_pairs(steps[0], steps[1], epsilon, add=add)
        if len(steps) == 1:
            return one_step(steps[0], epsilon, add=add)
        return two_steps(steps[0], steps[1], epsilon, add=add)

    @property
    def few(self) -> bool:
        """True if the steps are so few that their densities are soon added up."""
        return sum(n for _, n in self.parts) <= _FEW

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
        """K(s) − s·mean and its error."""
        value, error = np.zeros(s.size, dtype=np.complex128), np.zeros(s.size)
        for m, n in self.parts:
            v, e = m.centred(s)
            value += n * v
            error += n * e
        return value, error

    def log_delta(self, epsilon: Floats, *, densities: bool = True) -> tuple[Floats, Floats]:
        """log δ at each entry of a vector ε, and its estimated error; PrecisionError where that is too large.

        Without `densities` only closed forms and the contour are tried.
        """
        value, _, error = self._evaluate(epsilon, densities)
        bad = ~(error <= _ACCEPTED * (1.0 + np.abs(np.where(np.isinf(value), 0.0, value))))
        if bad.any():
            i = int(np.argmax(bad))
            raise PrecisionError(
                f"the sampled spectrum at epsilon = {float(epsilon[i])!r} did not reach full accuracy; relative "
                f"tolerance reached: {error[i]:.3g}",
                reached=float(error[i]),
            )
        return np.minimum(value, 0.0), error

    def _evaluate(self, epsilon: Floats, densities: bool = True) -> tuple[Floats, Floats, Floats]:
        """log δ, −d log δ/dε and the error, whatever it is."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what is not finite is refused later
            return self._quietly(epsilon, densities)

    def _quietly(self, epsilon: Floats, densities: bool) -> tuple[Floats, Floats, Floats]:
        n = epsilon.size
        value, slope, error = np.full(n, -np.inf), np.zeros(n), np.zeros(n)
        negative = epsilon < 0.0
        if negative.any():
            other, s, wrong = self.reverse._evaluate(-epsilon[negative], densities)
            with np.errstate(divide="ignore"):
                both = np.logaddexp(log_one_minus_exp(epsilon[negative]), epsilon[negative] + other)
            share = np.exp(epsilon[negative] + other - both)
            value[negative], error[negative] = both, share * wrong + 2.0**-51
            slope[negative] = np.exp(epsilon[negative] - both) - share * (1.0 + s)
        todo = np.flatnonzero(~negative & (epsilon < self.most))
        if todo.size and not self.parts:
            todo = todo[:0]
        if self._few_steps:
            for i in todo.tolist():
                value[i], error[i] = self._few(float(epsilon[i]))
                # δ is smooth and falls: a difference is enough for the slope, which only steers a search
                near = 1e-6 * (1.0 + float(epsilon[i]))
                slope[i] = (value[i] - self._few(float(epsilon[i]) + near)[0]) / near
            todo = todo[~(error[todo] <= TOLERANCE * (1.0 + np.abs(value[todo])))]
        todo = todo[np.argsort(epsilon[todo], kind="stable")]
        while todo.size:
            if self._sums is not None:  # tables that another ε needed may serve these too
                for i in todo.tolist():
                    value[i], slope[i], error[i] = self._sums.log_delta(float(epsilon[i]))
                todo = todo[~(error[todo] <= TOLERANCE * (1.0 + np.abs(value[todo])))]
                if not todo.size:
                    break
            place = max(0, todo.size // 2 - _TOGETHER // 2) if todo.size > _TOGETHER else 0
            some = todo[place : place + _TOGETHER]
            pivot = some.size // 2
            at = float(epsilon[some[pivot]])
            saddle = self._resolved(find_saddle(self, self.mean - at))
            v, s, e = np.full((3, some.size), math.nan)
            ways: list[Callable[[], _Found]] = [partial(self._by_contour, epsilon[some], pivot, saddle)]
            if densities and self._shapes[0] and not saddle[3] <= _LEAST:  # a bound that is not known excludes nothing
                ways.append(partial(_alone, self._by_sums, at, some.size, pivot))
                if self.few and self._cancels(at, saddle):  # densities are dear for many
                    ways.reverse()
            if self.order == "remove" and saddle[3] >= _log_grown(at) - _LOST_DIGITS:
                ways = [partial(self._by_reflection, epsilon[some], pivot), *ways]
            for way in ways:
                result = way()
                if not e[pivot] <= result[2][pivot]:  # true for NaN
                    v, s, e = result
                if e[pivot] <= TOLERANCE * (1.0 + abs(v[pivot])):
                    break
            good = e <= 0.1 * TOLERANCE * (1.0 + np.abs(v))
            good[pivot] = True
            value[some[good]], slope[some[good]], error[some[good]] = v[good], s[good], e[good]
            todo = np.concatenate([todo[:place], some[~good], todo[place + some.size :]])
        return value, slope, error

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

    def _cancels(self, epsilon: float, saddle: Saddle) -> bool:
        """True if Chernoff's bound is far above δ, so that the integral at its saddle would cancel.

        The tilted law then sees few losses far from the others, and they are too rare to matter for δ. About as much δ
        as there is comes from a normal law of the same variance, or from one step alone.
        """
        c, _, _, bound = saddle
        steps = [(m, n) for m, n in self.parts if isinstance(m, MeanShift)]
        if not any(0.0 < n * m.far_losses(c)[0] < _RARE for m, n in steps):
            return False
        rough = float(log_delta_shift(np.array([epsilon]), math.sqrt(self.variance))[0])
        for m, n in steps:
            rough = max(rough, one_step((m.rate, m.shift), epsilon, add=m.add)[0] + math.log(n))
        return rough < bound - _LOSS

    @cached_property
    def _shapes(self) -> tuple[tuple[tuple[Shape, int], ...], float]:
        """The sampled steps, and the shift of the plain releases; no steps if some law is no mean shift."""
        result = [(_as_shift(law), n) for law, n in self.parts]
        steps = tuple((Shape(*shift), n) for shift, n in result if shift and shift[0] < 1.0)
        if not all(shift for shift, _ in result) or sum(n for _, n in steps) > _MOST_SUMS:
            return (), 0.0
        return steps, math.sqrt(math.fsum(n * shift[1] ** 2 for shift, n in result if shift and shift[0] == 1.0))

    def _by_contour(self, epsilon: Floats, pivot: int, saddle: Saddle) -> _Found:
        """Integrate along the contour. Moments of mean shifts leave out large x; that part of δ counts as an error."""
        value, slope, error = integrate(self, epsilon, pivot, saddle)
        cut = [(m, n) for m, n in self.parts if isinstance(m, MeanShift) and not m.add]
        if cut and float(np.nanmin(value, initial=0.0)) < _FEEL_WINDOWS:
            # the probability left out, and the tilted one at the saddle
            places = (0.0, saddle[0])
            plain, tilted = (np.logaddexp.reduce([m.left_out(c) + math.log(n) for m, n in cut]) for c in places)
            bound = saddle[3] + saddle[0] * (float(epsilon[pivot]) - epsilon)  # Chernoff's at the same place
            gap = np.logaddexp(np.minimum(plain, bound + tilted), _FARTHEST) - value
            error = error + np.where(gap < 100.0, np.exp(np.minimum(gap, 100.0)), np.inf)
        return value, slope, error

    def _by_reflection(self, epsilon: Floats, pivot: int) -> _Found:
        """From the other order at −ε, whose integral is easy: δ = e^ε δ'(−ε) − (e^ε − 1).

        The difference loses digits if δ is small compared with ε, and the error says so.
        """
        other = self.reverse
        result = integrate(other, -epsilon, pivot, find_saddle(other, other.mean + float(epsilon[pivot])))
        whole, less = epsilon + result[0], np.array([_log_grown(e) for e in epsilon.tolist()])
        value = whole + np.log(-np.expm1(less - whole))
        share = np.exp(whole - value)
        error = share * (result[2] + 2.0**-51 * (1.0 + np.abs(whole)))
        value = np.where((value > -np.inf) & (value <= 0.0), value, np.nan)  # nothing is left of the difference
        return value, np.exp(epsilon - value) - share * (1.0 + result[1]), np.where(np.isnan(value), np.inf, error)

    def _by_sums(self, epsilon: float) -> tuple[float, float, float]:
        """Compute δ from the density of the loss, with the tables made for another ε if they suffice."""
        if self._sums is not None:
            got = self._sums.log_delta(epsilon)
            if got[2] <= TOLERANCE * (1.0 + abs(got[0])):
                return got
        try:
            steps, shift = self._shapes
            add = self.order == "add"
            if shift > 0.0:
                self._sums = MixedSums(steps, shift, epsilon, add=add)
            else:
                self._sums = LossSums(steps, epsilon, add=add)
            return self._sums.log_delta(epsilon)
        except (PrecisionError, ArithmeticError):  # a density that is out of the range of floats
            self._sums = None
            return math.nan, math.nan, math.inf

    def epsilon(self, delta: float, guess: float | None = None) -> float:
        """The smallest ε ≥ 0 found at which δ, with the error of its computation, is at most `delta`."""
        goal = math.log(delta)

        def excess(e: float) -> tuple[float, float, float]:
            value, slope, error = (float(a[0]) for a in self._evaluate(np.array([e])))
            if value == -math.inf:
                return -math.inf, 0.0, slope
            if not error <= _ACCEPTED * (1.0 + abs(value)):
                if e >= self.most * (1.0 - _LAST):  # δ falls to 0 between two floats
                    return 1.0, 0.0, 0.0
                if find_saddle(self, self.mean - e, goal - 1.0)[3] < goal - 1.0:  # far below, whatever it is
                    return -math.inf, 0.0, 0.0
                raise PrecisionError(f"delta at epsilon = {e!r} did not reach full accuracy", reached=error)
            return value - goal, 2.0 * error + 2.0**-50 * (1.0 + abs(value)), slope

        if not self.parts:
            return 0.0
        high = self.most * (1.0 + 2.0**-50)
        guess = self.guess(goal) if guess is None else guess
        return newton_epsilon(excess, guess if 0.0 < guess < high else 0.0, high)

    def guess(self, goal: float) -> float:
        """The ε at which a Gaussian loss of the same mean and variance has about this log δ."""
        return self.mean + math.sqrt(self.variance) * (math.sqrt(-2.0 * goal) - 1.0)


def _log_grown(epsilon: float) -> float:
    """log(e^ε − 1)."""
    return (epsilon if epsilon > 40.0 else math.log(math.expm1(epsilon))) if epsilon > 0.0 else -math.inf


def _alone(way: Callable[[float], tuple[float, float, float]], epsilon: float, size: int, place: int) -> _Found:
    """Return what a way computes for one ε, at one place of vectors that are NaN elsewhere."""
    result = np.full((3, size), math.nan)
    result[:, place] = way(epsilon)
    return result[0], result[1], result[2]


def _as_shift(law: Law) -> tuple[float, float] | None:
    """Return rate and shift of a mean shift, sampled or not; None for any other law."""
    if isinstance(law, MeanShift):
        return law.rate, law.shift
    if isinstance(law, Plain) and (law.pair.excess == 0.0).all():
        return 1.0, math.sqrt(math.fsum((law.pair.copies * law.pair.shift**2).tolist()))
    return None


def _as_pair(law: Law, order: Order) -> PairStep:
    """Return a step as the integral over two steps needs it: with the pair of the remove order."""
    assert isinstance(law, Plain | MeanShift | SampledPair)
    pair = law.pair if order == "remove" else law.pair.reversed()
    return PairStep(1.0 if isinstance(law, Plain) else law.rate, pair.excess, pair.shift, pair.copies)
