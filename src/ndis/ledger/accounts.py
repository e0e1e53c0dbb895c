"""The three ways to keep a budget. Each is sound if requests are chosen from earlier answers.

- `Plan` (thm:plan): named slots, each with a profile and a count, declared in advance. The composed profile of all
  slots is certified when the ledger is made. A request must be dominated by its slot in each order.
- `Shifts` (thm:shift-filter): Gaussian mean shifts of free size. The sum of μ² stays within a budget.
- `Renyi` (thm:renyi-filter): anything with a Rényi curve. One order is fixed in advance, and the sum of K stays within
  a budget in each direction.

Sums are whole numbers of a fixed small unit, rounded to the safe side once per request. So no sum is ever rounded, and
the order of requests does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from ndis._search import budget
from ndis._validate import Adjacency
from ndis.errors import LedgerError, ParameterError
from ndis.ledger.filters import Renyi, Shifts
from ndis.ledger.plan import Plan, Slot
from ndis.profile import PrivacyProfile

__all__ = ["Account", "Totals", "account_of", "make_account"]

Totals = dict[str, Any]


class Account(Protocol):
    """How a kind of ledger counts."""

    kind: ClassVar[str]

    def about(self) -> dict[str, Any]:
        """The values that are fixed when the ledger is made."""

    def start(self) -> Totals:
        """Totals before the first request."""

    def cost(self, slot: str | None, profile: PrivacyProfile) -> dict[str, Any]:
        """The cost of a request, whatever is left. A request that this kind cannot count is refused.

        It may take a while, so it runs before the ledger is locked.
        """

    def charge(self, totals: Totals, cost: Mapping[str, Any]) -> Totals:
        """Totals after a request of this cost, or BudgetError."""

    def remaining(self, totals: Totals) -> dict[str, Any]:
        """The rest of the budget, in words and numbers for people."""

    def whole(self) -> PrivacyProfile | None:
        """The exact profile of the whole budget, if there is one."""

    def certify(self) -> None:
        """Check the guarantee of the whole budget again, or raise LedgerError."""


def account_of(about: Mapping[str, Any], profile: Callable[[str], PrivacyProfile]) -> Account:
    """The account of an existing file; `profile` gives the profile of a digest."""
    kind, epsilon, delta = about["kind"], about["epsilon"], about["delta"]
    if kind == Plan.kind:
        slots = {name: Slot(profile(item["profile"]), item["count"]) for name, item in about["slots"].items()}
        return Plan(epsilon, delta, slots)
    if kind == Shifts.kind:
        return Shifts(epsilon, delta, int(about["units"], 16))
    if kind == Renyi.kind:
        return Renyi(epsilon, delta, int(about["units"], 16), about["order"])
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
