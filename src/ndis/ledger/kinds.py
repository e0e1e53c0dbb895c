"""Choose the account of a ledger by its kind, for a new file and for one that is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ndis._search import budget
from ndis._validate import Adjacency
from ndis.errors import LedgerError, ParameterError
from ndis.ledger.accounts import Request
from ndis.ledger.filters import Renyi, Shifts
from ndis.ledger.plan import Slot, SlotPlan

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
    epsilon: float,
    delta: float,
    data_name: str,
    *,
    adjacency: Adjacency,
    plan: Any = None,
    kind: str | None = None,
    order: float | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Certify a budget, and return what its ledger is made with: public values, and the profiles of slots."""
    kinds = (SlotPlan.kind, Shifts.kind, Renyi.kind)
    chosen = kind or (None if plan is None else SlotPlan.kind)
    if chosen not in kinds:
        raise ParameterError("kind", f"be {', '.join(map(repr, kinds[1:]))}, or come with a plan", repr(kind))
    if (plan is not None) != (chosen == SlotPlan.kind):
        raise ParameterError("plan", "be given for a ledger of kind 'plan', and only then", f"kind {chosen!r}")
    if order is not None and chosen != Renyi.kind:
        raise ParameterError("order", "be given only for a ledger of kind 'renyi'", order)
    target, profiles = budget(epsilon, delta), {}
    if chosen == SlotPlan.kind:
        slots = SlotPlan.of(*target, plan, adjacency)
        account: Account = slots
        profiles = {slot.digest: slot.declared.text for slot in slots.slots.values()}
    else:
        account = Shifts.of(*target) if chosen == Shifts.kind else Renyi.of(*target, order)
    about = {"kind": chosen, "epsilon": float(epsilon), "delta": float(delta), "adjacency": adjacency}
    return {**about, "data_name": data_name, **account.about()}, profiles
