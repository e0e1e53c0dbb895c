"""A composition of sampled releases in one order: fast floats, and the certificate where floats refuse.

`ndis.accountant.floats` evaluates δ in milliseconds with an error estimate, and refuses if the estimate is too large.
For pairs with one variance ratio `ndis.accountant.certified` then encloses log δ to ten digits, in about a
second. Its middle is taken. A certificate of the remove order comes from the add order where that loses few digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from flint import arb

from ndis._balls import climb, outward, precision
from ndis._validate import Floats
from ndis.accountant import certified as sampled_certified
from ndis.accountant import floats as sampled
from ndis.accountant.chernoff import chernoff_upper
from ndis.accountant.contour import find_saddle
from ndis.accountant.one_release import Order
from ndis.enclosure import Enclosure
from ndis.errors import ParameterError, PrecisionError
from ndis.spectrum.invariants import Invariants
from ndis.spectrum.origins import enclose

__all__ = ["SAMPLED_WIDTH", "Composition", "Step", "worse"]

SAMPLED_WIDTH = 1e-6  # relative width of a certificate unless one is asked for
_CLOSE = 1e-10  # relative width of the certificate that stands in for floats
_TINY = -700.0  # no certificate stands in for floats below this log δ
_ZERO = -745.2  # δ below this log is the float 0
_NOTHING = 1e15  # of −log δ: more has no number
_LEAST_FLOATS = 1e-322
_LEAST_SHARE = 1e-4  # of e^ε δ'(−ε) that δ(ε) must be, for a certificate from the other order
_CLEARLY = 0.01  # far more than the error of Chernoff's bound in floats
_BITS = (256, 512, 1024, 2048)
_MOVES = 120
_TOO_LITTLE_NOISE = (
    "the composition is not known: many sampled steps with a noise multiplier below about 0.07 are out of reach; add "
    "noise"
)
_LEAST_RATE = 1e-15  # of a step that composes
_LEAST_SHIFT, _MOST_SHIFT = 1e-8, 50.0  # of a sampled step that composes
_PLACES = np.geomspace(0.05, 500.0, 16)


@dataclass(frozen=True, eq=False)
class Step:
    """`count` equal releases of one order; a record enters each with the product of the rates."""

    pair: Invariants
    rates: tuple[float, ...]
    count: int

    @property
    def curved(self) -> bool:
        """True for a sampled pair with different variance ratios, which has no certificate of a given width."""
        ratios = self.pair.excess[(self.pair.excess != 0.0) | (self.pair.shift != 0.0)]
        return bool(self.rates) and not (ratios == ratios[:1]).all()


class Composition:
    """Several releases, with a sample among them, in one order.

    >>> import ndis
    >>> step = Step(ndis.GaussianPair.from_ratios(1.0, shift=1.0), (0.01,), 1000)
    >>> round(float(Composition([step], "remove").log_delta(np.array([1.5]))[0][0]), 6)
    -9.121818
    """

    def __init__(self, steps: Sequence[Step], order: Order) -> None:
        if any(step.pair.mutually_singular for step in steps):
            raise ParameterError(
                "pairs of a composition with sampling",
                "not be mutually singular",
                "two laws on different subspaces",
                "such a release hides nothing about a record in its sample",
            )
        _in_reach(steps)
        self.steps, self.order = steps, order
        self._stand_ins: dict[float, sampled_certified.StandIns] = {}

    @cached_property
    def law(self) -> sampled.SampledComposition:
        """The law of the loss, as the float kernel takes it."""
        return sampled.SampledComposition(
            [
                sampled.SampledGroup(math.prod(s.rates), s.pair.excess, s.pair.shift, s.pair.copies, s.count)
                for s in self.steps
            ],
            self.order,
        )

    @cached_property
    def enclosed(self) -> list[sampled_certified.SampledGroup]:
        """The groups with their exact invariants, as the certificate takes them."""
        found = []
        for step in self.steps:
            origins = step.pair.origins
            invariants = climb(partial(enclose, origins), _BITS) if origins else None
            if invariants is None:
                raise PrecisionError("the exact inputs of a pair of the composition are not known, or not enclosed")
            found.append(sampled_certified.SampledGroup(step.rates, invariants, step.count))
        return found

    def log_delta(self, epsilon: Floats, floor: float = -math.inf) -> tuple[Floats, Floats]:
        """log δ at each entry of a vector ε, and its error.

        −inf stands for a value known to lie below `floor`, and for one that is not worth a number.
        """
        curved = any(step.curved for step in self.steps)
        if epsilon.size == 1 and not curved and not self.law.few:  # a short certificate takes less time than densities
            with suppress(PrecisionError):
                return self.law.log_delta(epsilon, densities=False)
            with suppress(PrecisionError):
                return self._certified_log(float(epsilon[0]), short=True)
        try:
            return self.law.log_delta(epsilon)
        except PrecisionError:
            if epsilon.size > 1:
                value, error = zip(*(self.log_delta(x, floor) for x in np.split(epsilon, epsilon.size)), strict=True)
                return np.concatenate(value), np.concatenate(error)
            if self.below(float(epsilon[0]), floor) or self._is_nothing(float(epsilon[0])):
                return np.array([-math.inf]), np.zeros(1)
            if curved or self.below(float(epsilon[0]), _TINY):
                raise
            return self._certified_log(float(epsilon[0]))

    def _certified_log(self, epsilon: float, *, short: bool = False) -> tuple[Floats, Floats]:
        """The middle of a certificate of ten digits, and its width as the error."""
        if self.below(epsilon, _TINY):
            raise PrecisionError("delta is too small for a certificate in the place of floats")
        box = sampled_certified.certify_sampled_log(
            self.enclosed, epsilon, order=self.order, relative_width=_CLOSE, short=short
        )
        if box.upper == -math.inf:
            return np.array([-math.inf]), np.zeros(1)
        return np.array([0.5 * (box.lower + box.upper)]), np.array([box.width + 2.0**-52 * math.fabs(box.upper)])

    def _is_nothing(self, epsilon: float) -> bool:
        """True for mean shifts whose log δ is below −10¹⁵ even without sampling, by the tail of a Gaussian loss."""
        if any((step.pair.excess != 0.0).any() for step in self.steps):
            return False
        square = math.fsum(s.count * float((s.pair.copies * s.pair.shift**2).sum()) for s in self.steps)
        return epsilon - 0.5 * square > math.sqrt(2.0 * _NOTHING * square) > 0.0

    def below(self, epsilon: float, level: float) -> bool:
        """True if Chernoff's bound shows that log δ(ε) < level."""
        aim = level - _CLEARLY
        return level > -math.inf and find_saddle(self.law, self.law.mean - epsilon, aim)[3] < aim

    def certify(self, epsilon: float, relative_width: float) -> Enclosure:
        """A certified enclosure of δ(ε). It has this relative width if that is within reach, or is wider.

        For sampled pairs with different variance ratios no width is promised. If nothing else is within reach, the
        enclosure is 0 and the bound of thm:sampled-chernoff.
        """
        curved = any(step.curved for step in self.steps)
        if not curved and (place := self._place_below(epsilon, 1.1 * _ZERO)):
            with suppress(PrecisionError):
                upper = sampled_certified.bound_sampled(self.enclosed, epsilon, order=self.order, place=place)
                if upper <= _LEAST_FLOATS:  # no enclosure in floats is narrower
                    return Enclosure(0.0, upper)
        with suppress(PrecisionError):
            if (box := self._reflected(epsilon, relative_width)) is not None:
                return box
        box = Enclosure(0.0, 1.0)
        with suppress(PrecisionError):
            box = sampled_certified.bounds_sampled(
                self.enclosed, epsilon, order=self.order, relative_width=relative_width, made=self._stand_ins
            )
        if box.lower > 0.0 or box.upper == 0.0:
            return box
        return Enclosure(0.0, min(box.upper, chernoff_upper(self.enclosed, epsilon, order=self.order)))

    def _reflected(self, epsilon: float, relative_width: float) -> Enclosure | None:
        """δ(ε) = e^ε δ'(−ε) − (e^ε − 1) from a certificate of the add order, which is quick; None if δ is too small.

        The moments of the add order do not explode, so that its sum is short even for few steps at a small rate. A mean
        shift is the same pair in both orders.
        """
        if self.order != "remove" or not epsilon >= 0.0 or any((step.pair.excess != 0.0).any() for step in self.steps):
            return None
        log_delta, grown = float(self.law.log_delta(np.array([epsilon]))[0][0]), math.expm1(min(epsilon, 700.0))
        share = 1.0 / (1.0 + grown * math.exp(min(-log_delta, 700.0)))  # for the plan only
        if not share > _LEAST_SHARE:
            return None
        box = sampled_certified.certify_sampled(
            self.enclosed, -epsilon, order="add", relative_width=0.4 * relative_width * share
        )
        with precision(128):
            factor, less = arb(epsilon).exp(), arb(epsilon).expm1()
            low, high = outward(factor * arb(box.lower) - less).lower, outward(factor * arb(box.upper) - less).upper
        return Enclosure(max(low, 0.0), min(high, 1.0))

    def _place_below(self, epsilon: float, level: float) -> float:
        """The first of some orders for which Chernoff's bound in floats is below this level; 0 if there is none."""
        s = _PLACES[0.9 * self.law.limit > _PLACES]
        with np.errstate(over="ignore", invalid="ignore"):
            k, _ = self.law.centred(s.astype(np.complex128))
            good = np.flatnonzero(k.real + s * (self.law.mean - epsilon) < level)
        return float(s[good[0]]) if good.size else 0.0

    def smallest_epsilon(self, target: float, start: float, guess: float | None = None) -> float:
        """The smallest safe ε ≥ `start` with δ(ε) ≤ target; a `guess` only saves time."""
        # Rounding moved the loss by about `doubt` of its own size. A loss that moves by r changes δ(ε) to at most
        # e^r δ(ε − r).
        goal = math.log(target)
        doubt = 4.0 * max(step.pair.uncertainty for step in self.steps)
        mean = math.fsum(s.count * s.pair.form.mean for s in self.steps) if doubt > 0.0 else 0.0
        if start > 0.0:  # the answer of the other order: one value tells whether this order asks for more
            moved = doubt * (mean + start)
            if self.below(start - moved, goal - moved):
                return start
            value, error = self.log_delta(np.array([start - moved]))
            if value[0] + 2.0 * error[0] <= goal - moved:
                return start
        reach = 2.0 * max(start, self.law.guess(goal) if guess is None else guess)
        while True:
            moved = doubt * (mean + reach)
            if not moved < math.inf:
                raise PrecisionError("epsilon of steps with next to no noise is not known; one step alone may have one")
            found = self._epsilon(target * math.exp(-moved), guess)
            if found == 0.0 and moved > 0.0:  # δ(0) of the exact law is at most e^moved δ(−moved)
                value, error = self.log_delta(np.array([-moved]))
                if value[0] + 2.0 * error[0] + moved <= goal:
                    return start
            if doubt == 0.0 or found <= reach:
                return max(start, found + moved)
            reach, guess = 2.0 * found, found

    def _reach(self, goal: float) -> float:
        """An ε beyond the smallest one: δ(ε) ≤ e^{K(s) − sε} for every s > 0."""
        s = _PLACES[0.9 * self.law.limit > _PLACES]
        if not s.size:
            s = np.array([0.5 * self.law.limit])
        k, _ = self.law.centred(s.astype(np.complex128))
        found = self.law.mean + (k.real - goal) / s
        return float(np.min(found[np.isfinite(found)], initial=self.law.most))

    def _epsilon(self, target: float, guess: float | None) -> float:
        try:
            return self.law.epsilon(target, guess)
        except PrecisionError:
            return self._epsilon_by_secants(math.log(target))

    def _epsilon_by_secants(self, goal: float) -> float:
        """As the float kernel, with values of `log_delta`; each may be a certificate, so that few are asked for."""

        def excess(x: float) -> tuple[float, float]:
            value, error = (float(a[0]) for a in self.log_delta(np.array([x]), goal - 1.0))
            return value - goal, 0.0 if value == -math.inf else 2.0 * error + 2.0**-45 * (1.0 + math.fabs(value))

        reach = self._reach(goal)
        if not reach < math.inf:  # no moment is finite, so that no certificate would end the search
            raise PrecisionError(_TOO_LITTLE_NOISE)
        return _smallest(excess, reach)

    def certified_epsilon(self, target: float) -> float:
        """An ε whose certified δ is at most `target`, from certificates only; δ there is `target` to a hundredth."""
        goal = math.log(target)

        def excess(x: float) -> tuple[float, float]:
            upper = self.certify(x, SAMPLED_WIDTH).upper
            value = math.log(upper) - goal if upper > 0.0 else -math.inf
            return value - 0.001, 0.001

        return _smallest(excess, self._reach(goal - 0.1))


def _in_reach(steps: Sequence[Step]) -> None:
    """Refuse sampled steps whose numbers leave the range of floats, or would take for ever."""
    for step in steps:
        if not step.rates or step.count == 0:
            continue
        if not (rate := math.prod(step.rates)) >= _LEAST_RATE:
            raise PrecisionError(
                f"the composition is not known: a sampling rate of {rate:.3g} is out of reach; rates from "
                f"{_LEAST_RATE:g} on are accounted"
            )
        shift = math.sqrt(math.fsum((step.pair.copies * step.pair.shift**2).tolist()))
        if step.curved or shift == 0.0:
            continue
        if shift > _MOST_SHIFT and sum(s.count for s in steps) > 2:
            raise PrecisionError(_TOO_LITTLE_NOISE)
        if shift < _LEAST_SHIFT:
            raise PrecisionError(
                f"the composition is not known: a noise multiplier above {1.0 / _LEAST_SHIFT:g} is out of reach; take "
                "less noise"
            )


def _smallest(excess: Callable[[float], tuple[float, float]], reach: float) -> float:
    """The smallest ε ≥ 0 with a log δ below the goal by no more than eight margins, by secants (Illinois).

    `excess` gives log δ − goal and a margin; at `reach` δ is below the goal.
    """
    low, high = 0.0, reach * (1.0 + 2.0**-40)
    over, margin = excess(low)
    if over + margin <= 0.0:
        return 0.0
    if not high < math.inf:
        raise PrecisionError(_TOO_LITTLE_NOISE)
    under, side = -math.inf, 0  # the end that stayed twice counts half
    for _ in range(_MOVES):
        share = over / (over - under) if math.isfinite(under) else 0.5
        x = low + (high - low) * min(max(share, 2.0**-30), 1.0 - 2.0**-30)
        if not low < x < high:
            if math.isfinite(under):  # `high` was evaluated
                return high
            break
        value, margin = excess(x)
        if value + margin <= 0.0:
            high, under, over, side = x, value - 2.0 * margin, 0.5 * over if side < 0 else over, -1
            if value + 8.0 * margin >= 0.0:
                return x
        else:
            low, over, under, side = x, value + 2.0 * margin, 0.5 * under if side > 0 else under, 1
    raise PrecisionError(f"epsilon did not settle; it lies between {low!r} and {high!r}")


def worse(both: Sequence[Composition], epsilon: Floats, floor: float = -math.inf) -> Floats:
    """log of the larger δ of both orders; −inf stands for a value that is known to lie below `floor`.

    An order whose Chernoff bound lies below the value of the other one is not evaluated. Near the end of its support δ
    of the add order is too small to evaluate, and this bound tells so.
    """
    if epsilon.size > 1:
        try:
            return np.maximum(*(one.law.log_delta(epsilon)[0] for one in both))
        except PrecisionError:
            pass
    return np.array([_worse(both, x, floor) for x in epsilon.tolist()])


def _worse(both: Sequence[Composition], epsilon: float, floor: float) -> float:
    worst = -math.inf
    missing: tuple[Composition, PrecisionError] | None = None
    for one in both:
        if one.below(epsilon, max(worst, floor)):
            continue
        try:
            worst = max(worst, float(one.log_delta(np.array([epsilon]))[0][0]))
        except PrecisionError as error:
            if missing is not None:
                raise
            missing = one, error
    if missing is not None and not missing[0].below(epsilon, worst):
        raise missing[1]
    return worst
