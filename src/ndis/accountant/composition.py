"""Evaluate δ(ε) of several releases in one order, of which some see a sample.

A single release has a closed form (`ndis.accountant.one_release`). Several releases with a sample among them compose
(thm:composition). `ndis.accountant.floats` evaluates their δ in milliseconds with an error estimate, and refuses if
the estimate is too large. Then `ndis.accountant.certify` encloses log δ to ten digits, in about a second, and the
middle is taken. A certificate of the remove order comes from the add order if that loses few digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property

import numpy as np
from flint import arb

from ndis._balls import Ball, outward, precision
from ndis._search import smallest_safe
from ndis._validate import Floats, Order, largest, require
from ndis.accountant.certify import Certifier
from ndis.accountant.floats import FloatComposition, find_saddle
from ndis.accountant.laws import Law
from ndis.accountant.laws.allocation import Allocation
from ndis.accountant.laws.mixture import Mixture, sampled_shift
from ndis.accountant.laws.plain import Plain
from ndis.accountant.laws.sampled_pair import SampledPair
from ndis.accountant.stand_ins import ProfileOnly
from ndis.enclosure import Enclosure
from ndis.errors import BudgetError, PrecisionError
from ndis.spectrum.certified import in_floats, log_of
from ndis.spectrum.invariants import Invariants

WIDTH = 1e-10  # relative width of a certificate of one release, unless one is asked for
SAMPLED_WIDTH = 1e-6  # relative width of a certificate unless one is asked for
_CLOSE = 1e-10  # relative width of the certificate that stands in for floats
_TINY = -700.0  # no certificate stands in for floats below this log δ
_ZERO = -745.2  # δ below this log is the float 0
_NOTHING = 1e15  # −log δ above this is not computed
_LEAST_FLOATS = 1e-322
_LEAST_SHARE = 1e-4  # δ(ε) over e^ε δ'(−ε), for a certificate from the other order
_LEAST_LOG_SHARE = -250.0  # the same for epochs of allocation
_FAR, _LEFT = -60.0, 5.0  # below this log of the share and with a saddle this far left, own moments are quicker
_GUESSES = 5  # a reflected certificate guesses the size of δ so often
_CLEARLY = 0.01  # far more than the error of Chernoff's bound in floats
_ONE_STEP_BITS = 256
_AIMS = 24  # certificates tried for one ε
_TOO_LITTLE_NOISE = (
    "the composition is not known: many sampled steps with a noise multiplier below about 0.07 are out of reach; add "
    "noise"
)
_LEAST_RATE = 1e-15  # a step that composes has at least this rate
_MOST_SHIFT = 50.0  # more sampled steps than two have at most this shift
_PLACES = np.geomspace(0.05, 500.0, 16)


def law_of_pair(pair: Invariants, rates: tuple[float, ...], order: Order) -> Law:
    """Return the law of one release of the pair of this order, which a record enters with the product of the rates."""
    name, got = "pairs of a composition with sampling", "two laws on different subspaces"
    remedy = "such a release hides nothing about a record in its sample"
    require(not pair.mutually_singular, name, "not be mutually singular", got, remedy)
    if not rates or not ((pair.excess != 0.0) | (pair.shift != 0.0)).any():
        return Plain(pair)
    if not (rate := math.prod(rates)) >= _LEAST_RATE:
        raise PrecisionError(
            f"the composition is not known: a sampling rate of {rate:.3g} is out of reach; rates from {_LEAST_RATE:g} "
            "on are accounted"
        )
    return (sampled_shift if (pair.excess == 0.0).all() else SampledPair)(pair, rates, order)


class Composition:
    """Compose several releases in one order, given as laws with their numbers.

    >>> import ndis
    >>> step = law_of_pair(ndis.GaussianPair.from_ratios(1.0, shift=1.0), (0.01,), "remove")
    >>> round(float(Composition([(step, 1000)], "remove").log_delta(np.array([1.5]))[0]), 6)
    -9.121818
    """

    def __init__(self, parts: Iterable[tuple[Law, int]], order: Order) -> None:
        self.order, self.parts = order, [(law, n) for law, n in parts if n > 0]
        shifts = [law for law, _ in self.parts if isinstance(law, Mixture)]
        if any(law.up + law.down > _MOST_SHIFT for law in shifts) and sum(n for _, n in self.parts) > 2:
            raise PrecisionError(_TOO_LITTLE_NOISE)
        self.floats = FloatComposition(self.parts, order)

    @cached_property
    def certifier(self) -> Certifier:
        """The certifier encloses δ in balls."""
        return Certifier(lambda: [(law.enclosed(), n) for law, n in self.parts])

    @cached_property
    def same_pair(self) -> bool:
        """True if every law has the same pair in both orders: mean shifts, or an epoch of allocation."""
        return all(isinstance(law, Mixture | Allocation) or _is_shift(law) for law, _ in self.parts)

    @cached_property
    def _has_epochs(self) -> bool:
        """True if a law is an epoch of allocation, whose moments in balls are quicker in the add order."""
        return any(isinstance(law, Allocation) for law, _ in self.parts)

    def log_delta(self, epsilon: Floats, floor: float = -math.inf) -> Floats:
        """Return log δ at each entry of a vector ε.

        −inf stands for a value known to lie below `floor`, and for one that is not worth a number.
        """
        return self.log_delta_and_error(epsilon, floor)[0]

    def log_delta_and_error(self, epsilon: Floats, floor: float = -math.inf) -> tuple[Floats, Floats]:
        """Return `log_delta` and its error."""
        try:
            return self.floats.log_delta(epsilon)
        except PrecisionError:
            nothing = np.array([-math.inf]), np.zeros(1)
            if epsilon.size > 1:
                few = [
                    nothing if self.below(float(x), floor) else self.log_delta_and_error(np.array([x]), floor)
                    for x in epsilon
                ]
                value, error = zip(*few, strict=True)
                return np.concatenate(value), np.concatenate(error)
            if self.below(float(epsilon[0]), floor) or self._is_nothing(float(epsilon[0])):
                return nothing
            if self.below(float(epsilon[0]), _TINY):
                raise
            return self._certified_log(float(epsilon[0]))

    def _certified_log(self, epsilon: float) -> tuple[Floats, Floats]:
        """Return the middle of a certificate of ten digits, and its width as the error."""
        if sum(n for _, n in self.parts) == 1:
            value, error = self.parts[0][0].enclosed_log_delta(epsilon)
            if error < math.inf:
                return np.array([value]), np.array([error])
        ball = None
        with suppress(PrecisionError):
            ball = self._reflected(epsilon, _CLOSE) if self._has_epochs else None
        box = log_of(self.certifier.enclose(epsilon, _CLOSE) if ball is None else ball)
        if box.upper == -math.inf:
            return np.array([-math.inf]), np.zeros(1)
        return np.array([0.5 * (box.lower + box.upper)]), np.array([box.width + 2.0**-52 * math.fabs(box.upper)])

    def _is_nothing(self, epsilon: float) -> bool:
        """True for mean shifts whose log δ is below −10¹⁵ even without sampling, by the tail of a Gaussian loss."""
        if not self.same_pair:
            return False
        square = math.fsum(2.0 * n * law.size for law, n in self.parts)  # the mean loss of a shift μ is μ²/2
        return epsilon - 0.5 * square > math.sqrt(2.0 * _NOTHING * square) > 0.0

    def below(self, epsilon: float, level: float) -> bool:
        """True if Chernoff's bound shows that log δ(ε) < level."""
        aim = level - _CLEARLY
        return level > -math.inf and find_saddle(self.floats, self.floats.mean - epsilon, aim)[3] < aim

    def certify(self, epsilon: float, relative_width: float) -> Enclosure:
        """Enclose δ(ε). The enclosure has this relative width if a sum of moments can have it, or is wider."""
        if sum(n for _, n in self.parts) == 1:
            with precision(_ONE_STEP_BITS), suppress(PrecisionError):
                return in_floats(self.parts[0][0].enclosed().delta(epsilon))
        with suppress(PrecisionError):
            if (place := self._place_below(epsilon, 1.1 * _ZERO)) and (
                upper := self.certifier.upper(epsilon, place)
            ) <= _LEAST_FLOATS:  # no enclosure in floats is narrower
                return Enclosure(0.0, upper)
        with suppress(PrecisionError):
            if (ball := self._reflected(epsilon, relative_width)) is not None:
                return in_floats(ball)
        return self.certifier.bounds(epsilon, relative_width)

    def _reflected(self, epsilon: float, relative_width: float) -> Ball | None:
        """δ(ε) = e^ε δ'(−ε) − (e^ε − 1) from a certificate of the add order, which is quick; None if δ is too small.

        The moments of the add order do not explode, so that its sum is short even for few steps at a small rate. A mean
        shift is the same pair in both orders. Where e^ε is too large for that, epochs of allocation take their own sum.
        """
        if self.order != "remove" or not (self._has_epochs or (self.same_pair and epsilon >= 0.0)):
            return None
        if epsilon < 0.0:
            return self._mirrored(epsilon, relative_width)
        try:
            log_delta = float(self.floats.log_delta(np.array([epsilon]))[0][0])
        except PrecisionError:
            if not self._has_epochs:
                raise
            log_delta = find_saddle(self.floats, self.floats.mean - epsilon)[3] - 4.0
            if not log_delta > -math.inf:  # not even its size is known
                return None
        if log_delta - epsilon < _FAR and find_saddle(self.floats, self.floats.mean - epsilon)[0] < _LEFT:
            with suppress(PrecisionError):
                return self.certifier.enclose(epsilon, relative_width)
        grown = math.expm1(min(epsilon, 700.0))
        other = Certifier(lambda: [(law.reversed().enclosed(), n) for law, n in self.parts])
        for _ in range(_GUESSES):
            log_share = -float(np.logaddexp(0.0, math.log(grown) - log_delta)) if grown > 0.0 else 0.0  # a plan
            if not log_share > (_LEAST_LOG_SHARE if self._has_epochs else math.log(_LEAST_SHARE)):
                return None
            ball = other.enclose(-epsilon, 0.4 * relative_width * math.exp(log_share))
            with precision(round(128 - 1.5 * log_share)):
                ball = arb(epsilon).exp() * ball - arb(epsilon).expm1()
                if ball.rad() <= relative_width * ball.mid() or not self._has_epochs:
                    return ball
                log_delta = outward(ball.upper().log()).upper - 12.0  # smaller than it looked
        return ball

    def _mirrored(self, epsilon: float, relative_width: float) -> Ball:
        """Enclose δ(ε) = e^ε δ'(−ε) + (1 − e^ε) for ε < 0. A small δ' need only be bounded."""
        other = Composition([(law.reversed(), n) for law, n in self.parts], "add")
        if place := other._place_below(-epsilon, math.log(-0.1 * relative_width * math.expm1(epsilon))):
            ball = arb(0).union(arb(other.certifier.upper(-epsilon, place)))
        else:
            ball = other.certifier.enclose(-epsilon, 0.4 * relative_width)
        with precision(128):
            return arb(epsilon).exp() * ball - arb(epsilon).expm1()

    @cached_property
    def _orders(self) -> tuple[Floats, Floats]:
        """Return some orders s and K(s) in floats."""
        s = _PLACES[0.9 * self.floats.limit > _PLACES]
        s = s if s.size else np.array([0.5 * self.floats.limit])
        with np.errstate(over="ignore", invalid="ignore"):
            return s, self.floats.centred(s.astype(np.complex128))[0].real + s * self.floats.mean

    def _place_below(self, epsilon: float, level: float) -> float:
        """The first of some orders for which Chernoff's bound in floats is below this level; 0 if there is none."""
        s, k = self._orders
        good = np.flatnonzero(k - s * epsilon < level)
        return float(s[good[0]]) if good.size else 0.0

    def smallest_epsilon(self, target: float, start: float, guess: float | None = None) -> float:
        """The smallest safe ε ≥ `start` with δ(ε) ≤ target; a `guess` only saves time."""
        # Rounding moved the loss by about `doubt` of its own size. A loss that moves by r changes δ(ε) to at most
        # e^r δ(ε − r).
        goal = math.log(target)
        doubt = 4.0 * max((law.uncertainty for law, _ in self.parts), default=0.0)
        mean = math.fsum(n * law.size for law, n in self.parts) if doubt > 0.0 else 0.0
        if start > 0.0:  # the answer of the other order: one value tells whether this order asks for more
            moved = doubt * (mean + start)
            if self.below(start - moved, goal - moved):
                return start
            try:
                value, error = self.log_delta_and_error(np.array([start - moved]))
                if value[0] + 2.0 * error[0] <= goal - moved:
                    return start
            except PrecisionError:  # a wide certificate may tell
                if self.certify(start, SAMPLED_WIDTH).upper <= target:
                    return start
        beyond = 2.0 * max(start, self.floats.guess(goal) if guess is None else guess)
        while True:
            moved = doubt * (mean + beyond)
            if not moved < math.inf:
                raise PrecisionError("epsilon of steps with next to no noise is not known; one step alone may have one")
            answer = self._epsilon(target * math.exp(-moved), guess)
            if answer == 0.0 and moved > 0.0:  # δ(0) of the exact law is at most e^moved δ(−moved)
                value, error = self.log_delta_and_error(np.array([-moved]))
                if value[0] + 2.0 * error[0] + moved <= goal:
                    return start
            if doubt == 0.0 or answer <= beyond:
                return max(start, answer + moved)
            beyond, guess = 2.0 * answer, answer

    def renyi(self, orders: Floats) -> Floats:
        """Return the Rényi divergence K(s)/s of orders 1 + s ≥ 1, rounded up by its error; infinite if not known."""
        floats, s = self.floats, orders - 1.0
        values = np.where(s == 0.0, floats.mean, np.where(s == math.inf, floats.most, math.inf))
        inside = (s > 0.0) & (s < floats.limit) & (s < math.inf)
        k = np.zeros(int(inside.sum()))
        for law, n in floats.parts:  # the whole law: no tail is cut off, and the loss 0 counts
            one, error = law.whole().centred(s[inside].astype(np.complex128))
            k += n * (one.real + 2.0 * error)
        values[inside] = floats.mean + k / s[inside]
        doubt = 8.0 * max((law.uncertainty for law, _ in self.parts), default=0.0) + 2.0**-50
        return np.where(np.isnan(values), math.inf, values * (1.0 + doubt))

    def _beyond(self, goal: float) -> float:
        """Return an ε beyond the smallest one: δ(ε) ≤ e^{K(s) − sε} for every s > 0."""
        s, k = self._orders
        answer = (k - goal) / s
        return float(np.min(answer[np.isfinite(answer)], initial=self.floats.most))

    def _epsilon(self, target: float, guess: float | None) -> float:
        """Return the smallest safe ε in floats, or from certificates if floats refuse."""
        with suppress(PrecisionError):
            return self.floats.epsilon(target, guess)
        batches = any(isinstance(law.enclosed(), ProfileOnly) for law, _ in self.parts)
        with suppress(*[PrecisionError] * batches):  # their stand-ins are wide, and on the safe side
            return self._epsilon_by_values(target)
        return self.certified_epsilon(target)

    def _epsilon_by_values(self, target: float) -> float:
        """Search with values of `log_delta`. Each may be a certificate, so few are computed."""

        def upper(x: float) -> float:
            value, error = self.log_delta_and_error(np.array([x]), math.log(target) - 1.0)
            return math.exp(float(value[0]) + 2.0 * float(error[0])) * (1.0 + 2.0**-50)

        return self._smallest(upper, target, 1e-10)

    def certified_epsilon(self, target: float) -> float:
        """An ε whose certified δ is at most `target`, from certificates only; δ there is `target` to a hundredth."""
        return self._smallest(lambda x: self.certify(x, SAMPLED_WIDTH).upper, target, 0.001)

    def _smallest(self, upper: Callable[[float], float], target: float, settled: float) -> float:
        """Search the smallest ε ≥ 0 with an upper bound of δ at most `target`; log δ there is so near to it."""

        def log_upper(x: float) -> float:
            bound = upper(x)
            if not bound >= 0.0:  # a bound that is no number is not private
                return math.inf
            return math.log(bound) + settled if bound > 0.0 else -math.inf

        start = self._beyond(math.log(target) - 0.1)
        if not start < math.inf:  # no moment is finite, so that no certificate would end the search
            raise PrecisionError(_TOO_LITTLE_NOISE)
        if upper(0.0) <= target:
            return 0.0
        with suppress(BudgetError):  # certificates need not know every δ
            return smallest_safe(log_upper, upper, delta=target, start=start, settled=settled)
        raise PrecisionError(f"no epsilon has a certificate for delta = {target!r}")


def _is_shift(law: Law) -> bool:
    return isinstance(law, Plain) and bool((law.pair.excess == 0.0).all())


def worse(both: Sequence[Composition], epsilon: Floats, floor: float = -math.inf) -> Floats:
    """log of the larger δ of both orders; −inf stands for a value that is known to lie below `floor`.

    An order whose Chernoff bound lies below the value of the other one is not evaluated. Near the end of its support δ
    of the add order is too small to evaluate, and this bound tells so.
    """
    if epsilon.size > 1:
        with suppress(PrecisionError):
            return np.asarray(np.maximum.reduce([one.floats.log_delta(epsilon)[0] for one in both]))
    return np.array([_worse(both, x, floor) for x in epsilon.tolist()])


def _worse(both: Sequence[Composition], epsilon: float, floor: float) -> float:
    """Return the larger log δ of both orders; an order that fails counts only if it may be the larger one."""
    worst, missing = -math.inf, list[tuple[Composition, PrecisionError]]()
    for one in both:
        if not one.below(epsilon, max(worst, floor)):
            try:
                worst = max(worst, float(one.log_delta(np.array([epsilon]))[0]))
            except PrecisionError as error:
                missing.append((one, error))
    for one, reason in missing:
        if not one.below(epsilon, worst):
            raise reason
    return worst


def certified_epsilon(both: Sequence[Composition], target: float) -> float:
    """Return an ε at which the certified δ of every order is at most `target`.

    Floats propose it: they aim below the target by the width of the certificate, and by more if needed. If they refuse,
    the search takes certificates only.
    """
    aim, upper, before = 1.0 - 2.0 * SAMPLED_WIDTH, 1.0, (1.0, math.nan)
    for _ in range(_AIMS):
        epsilon = 0.0
        try:
            for one in both:
                epsilon = one.smallest_epsilon(aim * target, epsilon)
        except PrecisionError:
            return largest(one.certified_epsilon(target) for one in both)
        upper = largest(one.certify(epsilon, SAMPLED_WIDTH).upper for one in both)
        if upper <= target:
            return epsilon
        share = math.log(upper / target)  # it grows with a power of the aim, where stand-ins are wide
        power = (share - before[1]) / math.log(aim / before[0]) if before[1] > share else 1.0
        before, aim = (aim, share), aim * (1.0 - 2.0**-20) * math.exp(-share / min(max(power, 0.2), 1.0))
    raise PrecisionError(f"no certified epsilon was found at delta = {target!r}", reached=upper / target - 1.0)
