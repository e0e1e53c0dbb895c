"""Link the ledger of one period to that of the next, and add up the budgets of all periods.

The plan of a period may be chosen after the answers of earlier periods, so budgets add as (ε₁ + ε₂, δ₁ + δ₂), and exact
curves do not (thm:periods). The whole budget of a period counts, whatever of it was used: how much is used depends on
answers too, and a sum over what was used would be the natural filter again (thm:no-natural-filter).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from ndis._exact import up
from ndis.errors import BudgetError, LedgerError


def check_open(totals: Mapping[str, Any]) -> None:
    """Refuse a request after the renewal of its ledger."""
    if "renewed" in totals:
        raise BudgetError("the ledger was renewed, and takes no more requests; ask the ledger of the next period")


def after_renewal(totals: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the totals after a renewal: those before it, closed. A ledger has one successor."""
    if "renewed" in totals:
        raise LedgerError("a ledger must be renewed once; got one that was renewed with another budget")
    return {**totals, "renewed": content["opens"]}


def link_to(about: Mapping[str, Any], entry: Any) -> dict[str, Any]:
    """Return what the next ledger holds of this one and those before it: budgets, promises, and the closing entry."""
    own = {name: about[name] for name in ("created", "kind", "epsilon", "delta")}
    own |= {"max_records": entry.totals["max_records"], "spent": dict(entry.totals["spent"])}
    return {"periods": [*about.get("periods", ()), {**own, "entry": entry.number, "head": entry.digest}]}


def total_of(about: Mapping[str, Any], max_records: int | None) -> dict[str, Any]:
    """Add up the budgets of all periods, rounded up.

    >>> first = {"epsilon": 0.1, "delta": 1e-6, "max_records": None}
    >>> total_of({"epsilon": 0.2, "delta": 1e-6, "periods": [first]}, 50)
    {'periods': 2, 'epsilon': 0.30000000000000004, 'delta': 2e-06, 'max_records': 50}
    """
    periods = [*about.get("periods", ()), {**about, "max_records": max_records}]
    sums = {name: up(sum((Fraction(one[name]) for one in periods), Fraction(0))) for name in ("epsilon", "delta")}
    promises = [one["max_records"] for one in periods if one["max_records"] is not None]
    return {"periods": len(periods), **sums, "max_records": min(promises, default=None)}
