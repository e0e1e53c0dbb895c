"""Choose the account of a ledger by its kind: a filter, or the plan here, which counts releases of slots (thm:plan)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from ndis._exact import up
from ndis._search import budget
from ndis._validate import Adjacency, as_count, require
from ndis.dominance import Dominance, dominates
from ndis.errors import BudgetError, LedgerError, ParameterError
from ndis.ledger.accounts import FAILURE_BITS, Renyi, Request, Shifts, Totals, plus, smallest_upper, units_up
from ndis.pages.text import at_most
from ndis.profile import Order, PrivacyProfile


@dataclass(frozen=True)
class Slot:
    """A number of releases with a declared profile, which is read from the file when it is first needed."""

    digest: str
    count: int
    read: Callable[[str], Request]

    @cached_property
    def declared(self) -> Request:
        """Return the declared profile as a request."""
        return self.read(self.digest)


@dataclass(frozen=True)
class SlotPlan:
    """A plan has named slots with declared profiles. A request must be dominated by its slot in each order (thm:plan).

    The composed profile of all slots is certified when the ledger is made.
    """

    kind: ClassVar[str] = "plan"

    epsilon: float
    delta: float
    slots: Mapping[str, Slot]

    @classmethod
    def of(cls, epsilon: float, delta: float, plan: Any, adjacency: Adjacency) -> SlotPlan:
        """Make the account of a plan as the user writes it: {name: (mechanism or profile, count)}."""
        if not isinstance(plan, Mapping) or not plan:
            raise ParameterError("plan", "map names to (mechanism or profile, count), at least one", repr(plan))
        slots = {}
        for name, item in plan.items():
            require(isinstance(name, str) and name, "plan", "have names that are texts", repr(name))
            if not isinstance(item, tuple) or len(item) != 2:
                raise ParameterError(f"plan[{name!r}]", "be (mechanism or profile, count)", repr(item))
            declared = Request.of(item[0])
            got = repr(declared.profile.adjacency)
            require(declared.profile.adjacency == adjacency, f"plan[{name!r}]", f"have adjacency {adjacency!r}", got)
            slots[name] = Slot(declared.digest, as_count("count", item[1]), {declared.digest: declared}.__getitem__)
        made = cls(epsilon, delta, slots)
        made.certify()
        return made

    def whole(self) -> PrivacyProfile:
        """Return the profile of all slots together."""
        return self._composed({name: slot.count for name, slot in self.slots.items()})

    def later(self, totals: Totals) -> float | None:
        """Return ε of the slots that are left: later requests are dominated by them, whatever came before."""
        left = {name: count for name, count in self.remaining(totals).items() if count}
        return min(self._composed(left).epsilon(self.delta), self.epsilon) if left else None

    def _composed(self, counts: Mapping[str, int]) -> PrivacyProfile:
        first, *others = (self.slots[name].declared.profile.repeat(count) for name, count in counts.items())
        return first.compose(*others)

    def certify(self) -> None:
        """Certify that the composed profile meets (ε, δ)."""
        whole = self.whole()
        reached = smallest_upper(whole.certify, self.epsilon, self.delta)
        if not reached <= self.delta:
            raise BudgetError(
                f"the plan must keep delta at epsilon = {self.epsilon:g} within {self.delta:g}; got a plan that "
                f"reaches {reached:.6g}; take fewer, more noise, or epsilon = {at_most(whole.epsilon(self.delta))}"
            )

    def about(self) -> dict[str, Any]:
        """Return names, counts and digests; the profiles themselves are kept by their digests."""
        return {"slots": {name: {"profile": slot.digest, "count": slot.count} for name, slot in self.slots.items()}}

    def start(self) -> Totals:
        """Return the totals of an unused plan."""
        return {"used": {}, "failure": "0"}

    def cost(self, slot: str | None, request: Request) -> dict[str, Any]:
        """Return the cost of one release of a slot whose profile dominates the request."""
        if slot is None or slot not in self.slots:
            raise ParameterError("slot", f"be one of {', '.join(map(repr, self.slots))}", repr(slot))
        failure = request.profile.failure_probability
        if request.digest != self.slots[slot].digest:
            declared = self.slots[slot].declared
            allowed = declared.profile.failure_probability
            if not failure <= allowed:
                words = f"the request may fail with probability {failure!r}; slot {slot!r} allows {allowed!r}"
                raise BudgetError(words)
            _need_dominated(declared, request, slot)
        return {"slot": slot, "failure": f"{units_up(Fraction(failure), FAILURE_BITS):x}"}

    def charge(self, totals: Totals, cost: Mapping[str, Any]) -> Totals:
        """Use one release of the slot, if one is left."""
        slot, used = cost["slot"], dict(totals["used"])
        if not used.get(slot, 0) < self.slots[slot].count:
            left = ", ".join(f"{number} of {name!r}" for name, number in self.remaining(totals).items() if number)
            count = self.slots[slot].count
            raise BudgetError(f"slot {slot!r} is used up: all {count} releases are spent; left: {left or 'nothing'}")
        used[slot] = used.get(slot, 0) + 1
        return {"used": used, "failure": plus(totals["failure"], cost["failure"])}

    def give_back(self, totals: Totals, cost: Mapping[str, Any]) -> Totals:
        """Count one release of the slot less."""
        used = {**totals["used"], cost["slot"]: totals["used"][cost["slot"]] - 1}
        return {"used": used, "failure": plus(totals["failure"], cost["failure"], -1)}

    def failure(self, totals: Totals) -> float:
        """Add up the failure probabilities that were spent, rounded up."""
        return up(Fraction(int(totals["failure"], 16), 1 << FAILURE_BITS))

    def remaining(self, totals: Totals) -> dict[str, Any]:
        """Count how many releases of each slot are left."""
        return {name: slot.count - totals["used"].get(name, 0) for name, slot in self.slots.items()}


def _need_dominated(declared: Request, request: Request, slot: str) -> None:
    """Refuse a request unless its curve is proved to lie below that of its slot."""
    answer = _dominance(declared, request)
    if answer.decided and answer.holds:
        return
    rule = f"the request must be dominated by slot {slot!r} at every epsilon, in each order; got a "
    if answer.decided:
        raise BudgetError(
            f"{rule}request that exceeds it in the order {answer.order!r} at epsilon = {answer.witness!r}, where delta "
            f"is {_delta(request, answer)} for the request and {_delta(declared, answer)} for the slot; release "
            "with the mechanism of the slot, or with a slightly smaller epsilon: calibrations with other bounds differ "
            "in their last digits"
        )
    remedy = "declare the slot with the mechanism that you release"
    raise BudgetError(f"{rule}comparison that could not be decided; {remedy}")


def _delta(one: Request, answer: Dominance) -> str:
    """Return δ at a witness, as text."""
    order: Order = "add" if answer.order == "add" else "remove"
    return f"{one.profile.delta(answer.witness or 0.0, order=order):.6g}"


@lru_cache(maxsize=256)
def _dominance(declared: Request, request: Request) -> Dominance:
    """Compare two profiles as the file has them. This may take a while, so the answer is kept."""
    return dominates(PrivacyProfile.from_json(declared.text), PrivacyProfile.from_json(request.text))


# ---------------------------------------------------------------------- the account of a ledger

# An account knows the cost of a request and what is spent. `start`, `charge` and `give_back` move its totals, `cost`
# refuses what its kind cannot count, `remaining` and `later` say what is left, and `certify` checks the whole again.
Account = SlotPlan | Shifts | Renyi


def account_of(about: Mapping[str, Any], read: Callable[[str], Request]) -> Account:
    """Return the account of a file. `read` reads the profile of a slot when it is first needed."""
    kind, target = about["kind"], (about["epsilon"], about["delta"])
    if kind == SlotPlan.kind:
        slots = about["slots"].items()
        return SlotPlan(*target, {name: Slot(one["profile"], one["count"], read) for name, one in slots})
    if kind == Shifts.kind:
        return Shifts(*target, int(about["units"], 16))
    if kind == Renyi.kind:
        return Renyi(*target, int(about["units"], 16), about["order"])
    raise LedgerError(f"the ledger has an unknown kind, {kind!r}")


def opening(
    about: Mapping[str, Any], *, plan: Any = None, kind: str | None = None, order: float | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Certify a budget, and return what its ledger is made with: public values, and the profiles of slots.

    `about` has `epsilon`, `delta`, `adjacency` and `data_name`.
    """
    kinds = (SlotPlan.kind, Shifts.kind, Renyi.kind)
    chosen = kind or (None if plan is None else SlotPlan.kind)
    require(chosen in kinds, "kind", f"be {', '.join(map(repr, kinds[1:]))}, or come with a plan", repr(kind))
    if (plan is not None) != (chosen == SlotPlan.kind):
        raise ParameterError("plan", "be given for a ledger of kind 'plan', and only then", f"kind {chosen!r}")
    require(order is None or chosen == Renyi.kind, "order", "be given only for a ledger of kind 'renyi'", order)
    target, profiles = budget(about["epsilon"], about["delta"]), {}
    if chosen == SlotPlan.kind:
        slots = SlotPlan.of(*target, plan, about["adjacency"])
        account: Account = slots
        profiles = {slot.digest: slot.declared.text for slot in slots.slots.values()}
    else:
        account = Shifts.of(*target) if chosen == Shifts.kind else Renyi.of(*target, order)
    return {**about, "kind": chosen, "epsilon": target[0], "delta": target[1], **account.about()}, profiles
