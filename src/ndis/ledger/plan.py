"""A plan: named slots with declared profiles (thm:plan)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

from ndis._rounding import up
from ndis._validate import Adjacency, as_count
from ndis.dominance.compare import Dominance, dominates
from ndis.errors import BudgetError, ParameterError
from ndis.ledger.requests import as_profile, profile_digest
from ndis.ledger.units import FAILURE_BITS, plus, smallest_upper, units_up
from ndis.profile import PrivacyProfile

__all__ = ["Plan", "Slot"]

Totals = dict[str, Any]


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
            slots[name] = Slot(profile, as_count("count", item[1]))
        found = cls(epsilon, delta, slots)
        found.certify()
        return found

    def whole(self) -> PrivacyProfile:
        """The profile of all slots together."""
        first, *rest = (slot.profile.repeat(slot.count) for slot in self.slots.values())
        return first.compose(*rest)

    def certify(self) -> None:
        """Certify that the composed profile meets (ε, δ)."""
        whole = self.whole()
        reached = smallest_upper(whole.certify, self.epsilon, self.delta)
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
        if slot is None or slot not in self.slots:
            raise ParameterError("slot", f"be one of {', '.join(map(repr, self.slots))}", repr(slot))
        declared = self.slots[slot].profile
        if not profile.failure_probability <= declared.failure_probability:
            raise BudgetError(
                f"the request may fail with probability {profile.failure_probability!r}; slot {slot!r} allows "
                f"{declared.failure_probability!r}"
            )
        if profile_digest(profile) != profile_digest(declared):
            _need_dominated(declared, profile, slot)
        failure = units_up(Fraction(profile.failure_probability), FAILURE_BITS)
        return {"slot": slot, "failure": f"{failure:x}"}

    def charge(self, totals: Totals, cost: Mapping[str, Any]) -> Totals:
        """Use one release of the slot, if one is left."""
        slot, used = cost["slot"], dict(totals["used"])
        if not used.get(slot, 0) < self.slots[slot].count:
            rest = ", ".join(f"{left} of {name!r}" for name, left in self.remaining(totals).items() if left)
            count = self.slots[slot].count
            raise BudgetError(f"slot {slot!r} is used up: all {count} releases are spent; left: {rest or 'nothing'}")
        used[slot] = used.get(slot, 0) + 1
        return {"used": used, "failure": plus(totals["failure"], cost["failure"])}

    def failure(self, totals: Totals) -> float:
        """The failure probabilities that were spent, rounded up."""
        return up(Fraction(int(totals["failure"], 16), 1 << FAILURE_BITS))

    def remaining(self, totals: Totals) -> dict[str, Any]:
        """How many releases of each slot are left."""
        return {name: slot.count - totals["used"].get(name, 0) for name, slot in self.slots.items()}


def _need_dominated(declared: PrivacyProfile, request: PrivacyProfile, slot: str) -> None:
    answer = _dominance(declared.to_json(), request.to_json())
    if answer.decided and answer.holds:
        return
    if answer.decided:
        raise BudgetError(
            f"the request must be dominated by slot {slot!r} at every epsilon, in each order; got a request that "
            f"exceeds it in the order {answer.order!r} at epsilon = {answer.witness!r}; release with the mechanism of "
            "the slot, or with a slightly smaller epsilon: calibrations with other bounds differ in their last digits"
        )
    raise BudgetError(
        f"the request must be dominated by slot {slot!r} at every epsilon, in each order; got a comparison that could "
        "not be decided; declare the slot with the mechanism that you release"
    )


@lru_cache(maxsize=256)
def _dominance(declared: str, request: str) -> Dominance:
    """The answer depends on the two profiles only, and may take a while; so it is kept."""
    return dominates(PrivacyProfile.from_json(declared), PrivacyProfile.from_json(request))


def _needed(profile: PrivacyProfile, delta: float) -> str:
    return f"{profile.epsilon(delta):.6g}"
