"""The three ways to keep a budget. Each is sound if requests are chosen from earlier answers.

- `Plan` (thm:plan): named slots, each with a profile and a count, declared in advance. The composed profile of all slots is
  certified when the ledger is made. A request must be dominated by its slot in each order.
- `Shifts` (thm:shift-filter): Gaussian mean shifts of free size. The sum of μ² stays within a budget.
- `Renyi` (thm:renyi-filter): anything with a Rényi curve. One order is fixed in advance, and the sum of K stays within a
  budget in each direction.

Sums are whole numbers of a fixed small unit, rounded to the safe side once per request. So no sum is ever rounded, and
the order of requests does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol

from ndis._validate import Adjacency, as_counts, as_scalar
from ndis.calibrate import budget, smallest_safe
from ndis.errors import BudgetError, LedgerError, ParameterError
from ndis.ledger.dominance import dominates_in_both_orders
from ndis.ledger.moments import certified_log_moment, log_budget
from ndis.ledger.store import digest_of
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__all__ = ["Account", "Plan", "Renyi", "Shifts", "account_of", "profile_digest"]

_UNIT_BITS = 256  # sums of μ² and K are whole multiples of 2⁻²⁵⁶, failure probabilities of 2⁻¹⁰⁷⁴
_FAILURE_BITS = 1074

Totals = dict[str, Any]


def profile_digest(profile: PrivacyProfile) -> str:
    """The digest of the exact inputs of a profile.

    >>> from ndis.pair import GaussianPair
    >>> a, b = (PrivacyProfile(GaussianPair.from_ratios(2.0)) for _ in range(2))
    >>> profile_digest(a) == profile_digest(b)
    True
    """
    return digest_of(plain_profile(profile))


def plain_profile(profile: PrivacyProfile) -> dict[str, Any]:
    """A profile as plain values, without the version of the package that wrote it."""
    found = profile.to_dict()
    found.pop("ndis_version")
    return found


class Account(Protocol):
    """How a kind of ledger counts."""

    kind: ClassVar[str]

    def about(self) -> dict[str, Any]:
        """What is fixed when the ledger is made, as plain values."""

    def start(self) -> Totals:
        """Totals before the first request."""

    def cost(self, slot: str | None, profile: PrivacyProfile) -> dict[str, Any]:
        """The cost of a request, whatever is left. A request that this kind cannot count is refused.

        It may take a while, so it runs before the ledger is locked.
        """

    def charge(self, totals: Totals, cost: Mapping[str, Any]) -> Totals:
        """Totals after a request of this cost, or BudgetError."""

    def remaining(self, totals: Totals) -> dict[str, Any]:
        """What is left, in words and numbers for people."""

    def certify(self) -> None:
        """Check the guarantee of the whole budget again, or raise LedgerError."""


# ---------------------------------------------------------------------- plans


@dataclass(frozen=True)
class Slot:
    """A number of releases with a declared profile."""

    profile: PrivacyProfile
    count: int


@dataclass(frozen=True)
class Plan:
    """Named slots with declared profiles (thm:plan)."""

    kind: ClassVar[str] = "plan"

    epsilon: float
    delta: float
    slots: Mapping[str, Slot]

    @classmethod
    def of(cls, epsilon: float, delta: float, plan: Any, adjacency: Adjacency) -> Plan:
        """The account of a plan as the user writes it: {name: (mechanism or profile, count)}."""
        if not isinstance(plan, Mapping) or not plan:
            raise ParameterError("plan", "map names to (mechanism or profile, count), at least one", repr(plan))
        slots = {}
        for name, item in plan.items():
            if not isinstance(name, str) or not name:
                raise ParameterError("plan", "have names that are texts", repr(name))
            if not isinstance(item, tuple) or len(item) != 2:
                raise ParameterError(f"plan[{name!r}]", "be (mechanism or profile, count)", repr(item))
            profile = as_profile(item[0])
            if profile.adjacency != adjacency:
                raise ParameterError(f"plan[{name!r}]", f"have adjacency {adjacency!r}", repr(profile.adjacency))
            slots[name] = Slot(profile, int(as_counts("count", as_scalar("count", item[1]))[0]))
        found = cls(epsilon, delta, slots)
        found.certify()
        return found

    def composed(self) -> PrivacyProfile:
        """The profile of all slots together."""
        first, *rest = (slot.profile.repeat(slot.count) for slot in self.slots.values())
        return first.compose(*rest)

    def certify(self) -> None:
        """Certify that the composed profile meets (ε, δ)."""
        whole = self.composed()
        reached = whole.certify(self.epsilon).upper
        if not reached <= self.delta:
            raise BudgetError(
                f"the plan must keep delta at epsilon = {self.epsilon:g} within {self.delta:g}; got a plan that "
                f"reaches {reached:.6g}; take fewer releases, more noise, or epsilon = {_needed(whole, self.delta)}"
            )

    def about(self) -> dict[str, Any]:
        """Names, counts and digests; the profiles themselves are kept by their digests."""
        slots = {name: {"profile": profile_digest(s.profile), "count": s.count} for name, s in self.slots.items()}
        return {"slots": slots}

    def start(self) -> Totals:
        """Nothing is used."""
        return {"used": {}, "failure": "0"}

    def cost(self, slot: str | None, profile: PrivacyProfile) -> dict[str, Any]:
        """One release of a slot whose profile dominates the request."""
        if slot not in self.slots:
            raise ParameterError("slot", f"be one of {', '.join(map(repr, self.slots))}", repr(slot))
        declared = self.slots[slot].profile
        if not profile.failure_probability <= declared.failure_probability:
            raise BudgetError(
                f"the request may fail with probability {profile.failure_probability!r}; slot {slot!r} allows "
                f"{declared.failure_probability!r}"
            )
        if profile_digest(profile) != profile_digest(declared):
            _need_dominated(declared, profile, slot)
        failure = _units_up(Fraction(profile.failure_probability), _FAILURE_BITS)
        return {"slot": slot, "failure": f"{failure:x}"}

    def charge(self, totals: Totals, cost: Mapping[str, Any]) -> Totals:
        """Use one release of the slot, if one is left."""
        slot, used = cost["slot"], dict(totals["used"])
        if not used.get(slot, 0) < self.slots[slot].count:
            rest = ", ".join(f"{left} of {name!r}" for name, left in self.remaining(totals).items() if left) or "nothing"
            raise BudgetError(f"slot {slot!r} is used up: all {self.slots[slot].count} releases are spent; left: {rest}")
        used[slot] = used.get(slot, 0) + 1
        return {"used": used, "failure": _plus(totals["failure"], cost["failure"])}

    def remaining(self, totals: Totals) -> dict[str, Any]:
        """How many releases of each slot are left."""
        return {name: slot.count - totals["used"].get(name, 0) for name, slot in self.slots.items()}


def _need_dominated(declared: PrivacyProfile, request: PrivacyProfile, slot: str) -> None:
    answer = dominates_in_both_orders(declared, request)
    if answer.decided and answer.holds:
        return
    if answer.decided:
        raise BudgetError(
            f"the request must be dominated by slot {slot!r} at every epsilon, in each order; got a request that "
            f"exceeds it in the order {answer.order!r} at epsilon = {answer.witness!r}"
        )
    raise BudgetError(
        f"the request must be dominated by slot {slot!r} at every epsilon, in each order; got a comparison that could "
        "not be decided; declare the slot with the mechanism that you release"
    )


def _needed(profile: PrivacyProfile, delta: float) -> str:
    return f"{profile.epsilon(delta):.6g}"


# ---------------------------------------------------------------------- filters


@dataclass(frozen=True)
class Shifts:
    """Gaussian mean shifts of free size, within a sum of μ² (thm:shift-filter)."""

    kind: ClassVar[str] = "shifts"

    epsilon: float
    delta: float
    units: int  # μ² of the budget, in units of 2⁻²⁵⁶, rounded down

    @classmethod
    def of(cls, epsilon: float, delta: float) -> Shifts:
        """The largest sum of μ² whose single shift is certified to meet (ε, δ)."""

        def pair(noise: float) -> GaussianPair:
            return GaussianPair.from_ratios(1.0, shift=math.nextafter(1.0 / noise, math.inf))

        noise = smallest_safe(
            lambda x: float(pair(x).log_delta(epsilon)), lambda x: pair(x).certify(epsilon).upper, delta=delta
        )
        return cls(epsilon, delta, _units_down(1 / Fraction(noise) ** 2, _UNIT_BITS))

    def certify(self) -> None:
        """Certify that one shift with the whole budget meets (ε, δ)."""
        square = Fraction(self.units, 1 << _UNIT_BITS)
        shift = math.sqrt(square)
        while Fraction(shift) ** 2 < square:
            shift = math.nextafter(shift, math.inf)
        # `of` certified the next float above 1/noise, which is at least this shift
        if not GaussianPair.from_ratios(1.0, shift=shift).certify(self.epsilon).upper <= self.delta:
            raise LedgerError("the budget of shifts does not meet its epsilon and delta")

    def about(self) -> dict[str, Any]:
        """The budget in units."""
        return {"units": f"{self.units:x}"}

    def start(self) -> Totals:
        """Nothing is spent."""
        return {"spent": "0"}

    def cost(self, slot: str | None, profile: PrivacyProfile) -> dict[str, Any]:
        """The squared shift of the request."""
        _refuse_failures(profile)
        return {"spent": f"{_units_up(squared_shift(profile), _UNIT_BITS):x}"}

    def charge(self, totals: Totals, cost: Mapping[str, Any]) -> Totals:
        """Spend the cost, if it fits."""
        return _within(self, totals, cost)

    def remaining(self, totals: Totals) -> dict[str, Any]:
        """What is left of the sum of μ², and the largest single shift that fits."""
        rest = Fraction(self.units - int(totals["spent"], 16), 1 << _UNIT_BITS)
        return {"squared_shift": _down(rest), "largest_shift": _down(rest, root=True)}


@dataclass(frozen=True)
class Renyi:
    """Anything with a Rényi curve, at one order fixed in advance (thm:renyi-filter)."""

    kind: ClassVar[str] = "renyi"

    epsilon: float
    delta: float
    order: float  # α = 1 + s
    units: int  # the budget of K(s), in units of 2⁻²⁵⁶, rounded down

    @classmethod
    def of(cls, epsilon: float, delta: float, order: float | None) -> Renyi:
        """The budget of one order; by default the order at which a Gaussian mechanism gets the most."""
        alpha = _best_order(epsilon, delta) if order is None else as_scalar("order", order)
        if not 1.0 + 2.0**-20 <= alpha <= 2.0**20:
            raise ParameterError("order", "be above 1 and at most 2^20", alpha)
        units = _units_down(log_budget(alpha, epsilon, delta), _UNIT_BITS)
        if not units > 0:
            raise BudgetError(f"order {alpha!r} leaves no budget at epsilon = {epsilon:g}, delta = {delta:g}")
        return cls(epsilon, delta, alpha, units)

    def certify(self) -> None:
        """Check the budget again from ε, δ and the order."""
        if not self.units <= _units_down(log_budget(self.order, self.epsilon, self.delta), _UNIT_BITS):
            raise LedgerError("the Rényi budget does not meet its epsilon and delta")

    def about(self) -> dict[str, Any]:
        """The order and the budget in units."""
        return {"order": self.order, "units": f"{self.units:x}"}

    def start(self) -> Totals:
        """Nothing is spent in either direction."""
        return {"remove": "0", "add": "0"}

    def cost(self, slot: str | None, profile: PrivacyProfile) -> dict[str, Any]:
        """K of the request at the fixed order, in each direction."""
        _refuse_failures(profile)
        return {
            way: f"{_units_up(certified_log_moment(profile, way, self.order), _UNIT_BITS):x}" for way in ("remove", "add")
        }

    def charge(self, totals: Totals, cost: Mapping[str, Any]) -> Totals:
        """Spend the cost, if it fits in both directions."""
        return _within(self, totals, cost)

    def remaining(self, totals: Totals) -> dict[str, Any]:
        """What is left of K at the order, in each direction."""
        left = {way: Fraction(self.units - int(totals[way], 16), 1 << _UNIT_BITS) for way in ("remove", "add")}
        return {"order": self.order} | {way: _down(rest) for way, rest in left.items()}


def account_of(about: Mapping[str, Any], profile: Any) -> Account:
    """The account of an existing file; `profile` gives the profile of a digest."""
    kind, epsilon, delta = about["kind"], about["epsilon"], about["delta"]
    if kind == Plan.kind:
        slots = {name: Slot(profile(item["profile"]), item["count"]) for name, item in about["slots"].items()}
        return Plan(epsilon, delta, slots)
    if kind == Shifts.kind:
        return Shifts(epsilon, delta, int(about["units"], 16))
    if kind == Renyi.kind:
        return Renyi(epsilon, delta, about["order"], int(about["units"], 16))
    raise LedgerError(f"the ledger has an unknown kind, {kind!r}")


def make_account(
    epsilon: float, delta: float, *, plan: Any, kind: str | None, order: float | None, adjacency: Adjacency
) -> Account:
    """The account of a new ledger."""
    epsilon, delta = budget(epsilon, delta)
    kinds = (Plan.kind, Shifts.kind, Renyi.kind)
    chosen = kind or (None if plan is None else Plan.kind)
    if chosen not in kinds:
        raise ParameterError("kind", f"be {', '.join(map(repr, kinds[1:]))}, or come with a plan", repr(kind))
    if (plan is not None) != (chosen == Plan.kind):
        raise ParameterError("plan", "be given for a ledger of kind 'plan', and only then", f"kind {chosen!r}")
    if order is not None and chosen != Renyi.kind:
        raise ParameterError("order", "be given only for a ledger of kind 'renyi'", order)
    if chosen == Plan.kind:
        return Plan.of(epsilon, delta, plan, adjacency)
    return Shifts.of(epsilon, delta) if chosen == Shifts.kind else Renyi.of(epsilon, delta, order)


# ---------------------------------------------------------------------- small things


def as_profile(request: Any) -> PrivacyProfile:
    """The profile of a mechanism, or the profile itself."""
    found = request if isinstance(request, PrivacyProfile) else getattr(request, "profile", lambda: None)()
    if not isinstance(found, PrivacyProfile):
        raise ParameterError("request", "be a mechanism or a PrivacyProfile", type(request).__name__)
    return found


def squared_shift(profile: PrivacyProfile) -> Fraction:
    """μ² of a profile that is a mean shift, exactly; anything else is refused.

    >>> squared_shift(PrivacyProfile(GaussianPair.from_ratios([1.0, 1.0], shift=[0.5, 0.25])))
    Fraction(5, 16)
    """
    total = Fraction(0)
    for group in profile.groups:
        pairs = (group.remove, group.add)
        if group.sampled or any((pair.excess != 0).any() or pair.mutually_singular for pair in pairs):
            raise ParameterError(
                "request",
                "be a Gaussian mean shift without sampling",
                "another profile",
                "a ledger of kind 'renyi' or a plan takes it",
            )
        if any(pair.uncertainty != 0 for pair in pairs):
            raise ParameterError("request", "be a mean shift that is known exactly", "a shift computed by whitening")
        total += group.count * max(_sum_of_squares(pair) for pair in pairs)
    return total


def _sum_of_squares(pair: GaussianPair) -> Fraction:
    return sum(
        (int(n) * Fraction(m) ** 2 for m, n in zip(pair.shift.tolist(), pair.copies.tolist(), strict=True)), Fraction(0)
    )


def _refuse_failures(profile: PrivacyProfile) -> None:
    if profile.failure_probability:
        raise ParameterError(
            "request", "have no failure probability", profile.failure_probability, "a plan takes such a request"
        )


def _best_order(epsilon: float, delta: float) -> float:
    """The order at which the budget of K allows the largest shift: B(s)/(s(1+s)/2) is largest."""
    orders = [1.0 + 2.0 ** (k / 8) for k in range(-64, 81)]
    return max(orders, key=lambda a: float(log_budget(a, epsilon, delta)) / ((a - 1.0) * a))


def _plus(a: str, b: str) -> str:
    return f"{int(a, 16) + int(b, 16):x}"


def _within(account: Shifts | Renyi, totals: Totals, cost: Mapping[str, Any]) -> Totals:
    """Totals plus cost, each of which must stay within the budget."""
    after = {name: _plus(totals[name], cost[name]) for name in totals}
    if not all(int(spent, 16) <= account.units for spent in after.values()):
        rest = ", ".join(f"{name} = {value:.6g}" for name, value in account.remaining(totals).items())
        raise BudgetError(f"the request needs more than is left; left: {rest}")
    return after


def _units_up(value: Fraction, bits: int) -> int:
    return math.ceil(value * (1 << bits))


def _units_down(value: Fraction, bits: int) -> int:
    return math.floor(value * (1 << bits))


def _down(value: Fraction, *, root: bool = False) -> float:
    """A float at most the value, or at most its root."""
    found = math.sqrt(value) if root else float(value)
    while Fraction(found) ** (2 if root else 1) > value:
        found = math.nextafter(found, -math.inf)
    return found
