"""Define requests, sums without rounding, and filters, which stop in time (thm:shift-filter, thm:renyi-filter).

Sums are whole numbers of a fixed small unit, rounded to the safe side once per request. So no sum is ever rounded, and
the order of requests does not matter. Each kind of account is sound if requests are chosen from earlier answers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from flint import arb

from ndis._balls import exact_ball, precision
from ndis._exact import down, root_down, root_up
from ndis._search import chernoff_factor_ball
from ndis._validate import ORDERS, as_scalar, require
from ndis.dominance.curves import enclosed, up
from ndis.enclosure import Enclosure
from ndis.errors import BudgetError, LedgerError, ParameterError, PrecisionError
from ndis.ledger.store import digest_of
from ndis.mechanisms.gaussian import shift_profile, unit_noise
from ndis.profile import Group, Order, PrivacyProfile, StepGroup

Totals = dict[str, Any]

UNIT_BITS = 256  # sums of μ² and K are whole multiples of 2⁻²⁵⁶
FAILURE_BITS = 1074  # failure probabilities are floats, and so whole multiples of 2⁻¹⁰⁷⁴
_WIDTHS = (1e-13, 1e-15)  # relative widths of enclosures that are tried if the usual one does not decide
_BITS = 320
_DIGITS = 90.0  # the moment of a sampled step is meant to be known to e^-90


@dataclass(frozen=True)
class Request:
    """A request asks a ledger for one release. Two requests are equal if their profiles have the same exact inputs.

    Attributes
    ----------
    digest : str
        The digest of the exact inputs of the profile; the version of the package that wrote them plays no part.
    profile : PrivacyProfile
    text : str
        The profile as JSON.
    max_records : int, optional
        The number of records that a mechanism, or the model inside it, was promised.
    details : mapping
        The name of a mechanism and the guarantee that it states; all of it is public.
    """

    digest: str
    profile: PrivacyProfile = field(compare=False)
    text: str = field(compare=False)
    max_records: int | None = field(compare=False)
    details: Mapping[str, Any] = field(compare=False)

    @classmethod
    def of(cls, source: Any) -> Request:
        """Make the request of a mechanism or a profile.

        >>> from ndis.pair import GaussianPair
        >>> a, b = (PrivacyProfile(GaussianPair.from_ratios(2.0)) for _ in range(2))
        >>> Request.of(a) == Request.of(b)
        True
        """
        profile = source if isinstance(source, PrivacyProfile) else getattr(source, "profile", lambda: None)()
        if not isinstance(profile, PrivacyProfile):
            raise ParameterError("request", "be a mechanism or a PrivacyProfile", type(source).__name__)
        text = profile.to_json()
        inputs = {name: value for name, value in json.loads(text).items() if name != "ndis_version"}
        holders: tuple[Any, ...] = (source, getattr(source, "model", None))
        promises = [int(one.max_records) for one in holders if getattr(one, "max_records", None) is not None]
        stated = {name: getattr(source, f"target_{name}", None) for name in ("epsilon", "delta")}
        numbers = {name: value for name, value in stated.items() if isinstance(value, int | float)}
        details = {"mechanism": type(source).__name__, **numbers}
        return cls(digest_of(inputs), profile, text, promises[0] if promises else None, details)


def plus(a: str, b: str, sign: int = 1) -> str:
    """Add two numbers in hexadecimal digits, or subtract the second."""
    return f"{int(a, 16) + sign * int(b, 16):x}"


def units_up(value: Fraction, bits: int) -> int:
    """Count units of 2^−bits, rounded up."""
    return math.ceil(value * (1 << bits))


def units_down(value: Fraction, bits: int) -> int:
    """Count units of 2^−bits, rounded down."""
    return math.floor(value * (1 << bits))


def smallest_upper(certify: Callable[..., Enclosure], epsilon: float, delta: float) -> float:
    """Return a certified upper bound of δ(ε), tighter if the first one is above `delta`.

    Enclosures of one number differ a little between machines, and a budget may lie inside that difference.
    """
    upper = certify(epsilon).upper
    for width in _WIDTHS:
        if upper <= delta:
            break
        try:
            upper = min(upper, certify(epsilon, relative_width=width).upper)
        except PrecisionError:
            break
    return upper


# ---------------------------------------------------------------------- filters


@dataclass(frozen=True)
class _Filter:
    """A filter adds up costs. Each sum must stay within one budget."""

    sums: ClassVar[tuple[str, ...]]

    epsilon: float
    delta: float
    units: int  # the budget in units of 2⁻²⁵⁶, rounded down

    def start(self) -> Totals:
        """Return the totals of an unused budget."""
        return dict.fromkeys(self.sums, "0")

    def charge(self, totals: Totals, cost: Mapping[str, Any]) -> Totals:
        """Spend the cost, if it fits in every sum."""
        after = {name: plus(totals[name], cost[name]) for name in totals}
        if not all(int(spent, 16) <= self.units for spent in after.values()):
            left = ", ".join(f"{name} = {value:.6g}" for name, value in self.remaining(totals).items())
            raise BudgetError(f"the request needs more than is left; left: {left}")
        return after

    def give_back(self, totals: Totals, cost: Mapping[str, Any]) -> Totals:
        """Take the cost out of every sum."""
        return {name: plus(totals[name], cost[name], -1) for name in totals}

    def remaining(self, totals: Totals) -> dict[str, Any]:
        """Say what is left of the budget, in words and numbers for people."""
        raise NotImplementedError  # each kind has its own

    def _left(self, totals: Totals) -> dict[str, Fraction]:
        left = {name: Fraction(self.units - int(totals[name], 16), 1 << UNIT_BITS) for name in self.sums}
        if min(left.values()) < 0:
            raise LedgerError("the ledger has spent more than its budget")
        return left


@dataclass(frozen=True)
class Shifts(_Filter):
    """Counts Gaussian mean shifts of free size. The sum of μ² stays within a budget (thm:shift-filter)."""

    kind: ClassVar[str] = "shifts"
    sums = ("spent",)  # μ²

    @classmethod
    def of(cls, epsilon: float, delta: float) -> Shifts:
        """Find the largest sum of μ² whose single shift is certified to meet (ε, δ)."""
        squared = (1 / Fraction(unit_noise(epsilon, delta))) ** 2
        made = cls(epsilon, delta, units_down(squared, UNIT_BITS))
        made.certify()
        return made

    def whole(self) -> PrivacyProfile:
        """Return one shift of the whole budget, rounded up."""
        return shift_profile(root_up(Fraction(self.units, 1 << UNIT_BITS)))

    def later(self, totals: Totals) -> float | None:
        """Return ε of one shift of all that is left."""
        left = self._left(totals)["spent"]
        return min(shift_profile(root_up(left)).epsilon(self.delta), self.epsilon) if left else None

    def certify(self) -> None:
        """Certify that one shift with the whole budget meets (ε, δ)."""
        if not smallest_upper(self.whole().remove.certify, self.epsilon, self.delta) <= self.delta:
            raise LedgerError("the budget of shifts does not meet its epsilon and delta")

    def about(self) -> dict[str, Any]:
        """Return the budget in units."""
        return {"units": f"{self.units:x}"}

    def cost(self, slot: str | None, request: Request) -> dict[str, Any]:
        """Return the squared shift of the request."""
        _refuse_failures(request.profile)
        return {"spent": f"{units_up(squared_shift(request.profile), UNIT_BITS):x}"}

    def remaining(self, totals: Totals) -> dict[str, Any]:
        """Return what is left of the sum of μ², and the largest single shift that fits."""
        left = self._left(totals)["spent"]
        return {"squared_shift": down(left), "largest_shift": root_down(left) if left else 0.0}


@dataclass(frozen=True)
class Renyi(_Filter):
    """Counts anything with a Rényi curve. One order is fixed in advance (thm:renyi-filter).

    The sum of K stays within a budget in each direction.
    """

    kind: ClassVar[str] = "renyi"
    sums = ORDERS  # K(s) in each direction

    order: float  # α = 1 + s

    @classmethod
    def of(cls, epsilon: float, delta: float, order: float | None) -> Renyi:
        """Find the budget of one order; by default the order at which a Gaussian mechanism gets the most."""
        alpha = _best_order(epsilon, delta) if order is None else as_scalar("order", order)
        require(1.0 + 2.0**-20 <= alpha <= 2.0**20, "order", "be above 1 and at most 2^20", alpha)
        units = units_down(log_budget(alpha, epsilon, delta), UNIT_BITS)
        if not units > 0:
            raise BudgetError(f"order {alpha!r} leaves no budget at epsilon = {epsilon:g}, delta = {delta:g}")
        return cls(epsilon, delta, units, alpha)

    def whole(self) -> None:
        """Return no profile: a bound of one moment is no curve."""

    def later(self, totals: Totals) -> float | None:
        """Return the ε that the order gives for all that is left in the worse direction, rounded up."""
        left = max(self._left(totals).values())
        bound = (left - log_budget(self.order, 0.0, self.delta)) / (Fraction(self.order) - 1)
        return min(max(-down(-bound), 0.0), self.epsilon) if left else None

    def certify(self) -> None:
        """Check the budget again from ε, δ and the order."""
        if not self.units <= units_down(log_budget(self.order, self.epsilon, self.delta), UNIT_BITS):
            raise LedgerError("the Rényi budget does not meet its epsilon and delta")

    def about(self) -> dict[str, Any]:
        """Return the order and the budget in units."""
        return {"order": self.order, "units": f"{self.units:x}"}

    def cost(self, slot: str | None, request: Request) -> dict[str, Any]:
        """Return K of the request at the fixed order, in each direction."""
        _refuse_failures(request.profile)
        moments = {way: certified_log_moment(request.profile, way, self.order) for way in ORDERS}
        return {way: f"{units_up(moment, UNIT_BITS):x}" for way, moment in moments.items()}

    def remaining(self, totals: Totals) -> dict[str, Any]:
        """Return what is left of K at the order, in each direction."""
        return {"order": self.order} | {way: down(left) for way, left in self._left(totals).items()}


def squared_shift(profile: PrivacyProfile) -> Fraction:
    """Return μ² of a profile that is a mean shift, rounded up; anything else is refused.

    >>> from ndis.pair import GaussianPair
    >>> squared_shift(PrivacyProfile(GaussianPair.from_ratios([1.0, 1.0], shift=[0.5, 0.25])))
    Fraction(5, 16)
    """
    total = Fraction(0)
    for group in profile.groups:
        both = [] if group.sampled else [enclosed(group.pair(way)) for way in ORDERS]
        if not both or any(one.curved or one.mutually_singular for one in both):
            rule, remedy = "be a Gaussian mean shift without sampling", "a ledger of kind 'renyi' or a plan takes it"
            raise ParameterError("request", rule, "another profile", remedy)
        total += group.count * max(up(one.flat) for one in both)
    return total


def _refuse_failures(profile: PrivacyProfile) -> None:
    failure, remedy = profile.failure_probability, "a plan takes such a request"
    require(not profile.failure_probability, "request", "have no failure probability", failure, remedy)


def _best_order(epsilon: float, delta: float) -> float:
    """Choose the order at which the budget of K allows the largest shift: B(s)/(s(1+s)/2) is largest."""
    orders = [1.0 + math.exp2(k / 8) for k in range(-64, 81)]
    return max(orders, key=lambda a: float(log_budget(a, epsilon, delta)) / ((a - 1.0) * a))


def certified_log_moment(profile: PrivacyProfile, way: Order, order: float) -> Fraction:
    """Return an upper bound of K(s), s = order − 1, of a profile in one direction, as an exact number.

    Parameters
    ----------
    profile : PrivacyProfile
    way : str
        "remove" or "add".
    order : float
        The Rényi order, above 1.

    Raises
    ------
    BudgetError
        If the profile has an infinite Rényi divergence of this order.

    Examples
    --------
    >>> from ndis.pair import GaussianPair
    >>> shift = PrivacyProfile(GaussianPair.from_ratios(1.0, shift=0.5))
    >>> certified_log_moment(shift, "remove", 3.0)  # s(1+s)/2 · μ²
    Fraction(3, 4)
    """
    return sum((g.count * (_sampled if g.sampled else _unsampled)(g, way, order) for g in profile.groups), Fraction(0))


def log_budget(order: float, epsilon: float, delta: float) -> Fraction:
    """Return the largest B with e^{B − sε} s^s/(1+s)^{1+s} ≤ δ, s = order − 1, rounded down (thm:renyi-filter).

    >>> float(log_budget(2.0, 1.0, 0.25)) <= 1.0 < float(log_budget(2.0, 1.0, 0.25)) + 1e-12
    True
    """
    with precision(_BITS):
        s = exact_ball(Fraction(order) - 1)
        return -up(chernoff_factor_ball(s) - arb(delta).log() - s * arb(epsilon))


def _unsampled(group: Group | StepGroup, way: Order, order: float) -> Fraction:
    pair = enclosed(group.pair(way))
    with precision(_BITS):
        value = None if pair.mutually_singular else pair.log_moment(exact_ball(Fraction(order) - 1))
        if value is None:
            raise _infinite(way, order)
        return max(up(value), Fraction(0))


def _sampled(group: Group | StepGroup, way: Order, order: float) -> Fraction:
    """Bound K(s) of one sampled mean shift, or of a step of another kind, by its law; a sampled sketch is refused."""
    if group.singular:
        raise _infinite(way, order)
    if isinstance(group, Group) and (group.pair(way).excess != 0.0).any():
        rule = "be a mean shift if it is sampled, for a ledger of kind 'renyi'"
        got = f"a release with sampling rate {group.rate!r} and unequal variances"
        raise ParameterError("request", rule, got, "declare it in a plan")
    with precision(_BITS):
        value = group.law(way).enclosed().moment(order - 1.0, _DIGITS).log()  # order − 1 is exact in floats
        if not value.is_finite():
            raise PrecisionError(f"the Rényi divergence of order {order!r} of a sampled release could not be enclosed")
        return max(up(value), Fraction(0))


def _infinite(way: Order, order: float) -> BudgetError:
    return BudgetError(
        f"the request must have a finite Rényi divergence of order {order!r} to be counted; got a request for which it "
        f"is infinite in the direction {way!r}; make a ledger with a smaller order, or a plan"
    )
