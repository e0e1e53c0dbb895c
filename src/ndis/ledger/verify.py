"""Follow the totals of a ledger from entry to entry and from period to period, and check a whole history again.

The plan of a period may be chosen after the answers of earlier periods, so budgets add as (ε₁ + ε₂, δ₁ + δ₂), and exact
curves do not (thm:periods). The whole budget of a period counts, whatever of it was used: how much is used depends on
answers too, and a sum over what was used would be the natural filter again (thm:no-natural-filter).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from ndis._exact import up
from ndis.errors import BudgetError, LedgerError, ParameterError
from ndis.ledger.accounts import Request
from ndis.ledger.kinds import Account
from ndis.ledger.store import Entry

CLOSINGS = ("commit", "return")  # what may become of a reservation, once


def no_requests(account: Account) -> dict[str, Any]:
    """Return the totals of a ledger without entries."""
    return {"spent": account.start(), "max_records": None}


def after(
    account: Account, totals: Mapping[str, Any], action: str, content: Mapping[str, Any], cost: Any = None
) -> dict[str, Any]:
    """Return the totals after an entry, or raise. `cost` is that of the reservation that a return gives back.

    The promise of a returned request stays: it only costs.
    """
    totals = totals or no_requests(account)
    if action == "reserve":
        if "renewed" in totals:
            raise BudgetError("the ledger was renewed, and takes no more requests; ask the ledger of the next period")
        promises = [n for n in (totals["max_records"], content["max_records"]) if n is not None]
        spent = account.charge(dict(totals["spent"]), content["cost"])
        return {"spent": spent, "max_records": min(promises, default=None)}
    if action == "renew":
        if "renewed" in totals:
            raise LedgerError("a ledger must be renewed once; got one that was renewed with another budget or path")
        return {**totals, "renewed": content["opens"]}
    if action not in CLOSINGS:
        raise LedgerError(f"the ledger has an entry of an unknown action, {action!r}")
    returned = {"spent": account.give_back(dict(totals["spent"]), cost)} if action == "return" else {}
    return {**totals, **returned}


def digest_of_secret(secret: str) -> str:
    """Return what a reservation says of its owner: the digest of a secret that only the owner holds."""
    return hashlib.sha256(secret.encode()).hexdigest()


def verify_entries(
    account: Account,
    root: str,
    entries: Iterable[Entry],
    request_of: Callable[[str], Request],
    heads: Iterable[tuple[int, str]],
) -> int:
    """Check all entries and return their number; see `Ledger.verify`.

    Parameters
    ----------
    account : Account
    root : str
        The digest that the first entry continues.
    entries : iterable of Entry
    request_of : callable
        Reads the profile of a request by its digest.
    heads : iterable of (int, str)
        Entries that others know by number and digest.
    """
    account.certify()
    totals: Mapping[str, Any] = {}
    previous, number = root, 0
    missing = _one_digest_each(heads)
    if missing.pop(0, root) != root:
        raise LedgerError("the ledger is not the one that a receipt names: it was created with other values")
    costs: dict[tuple[str | None, str], Any] = {}
    reservations: dict[int, Entry] = {}

    def need(good: object, words: str) -> None:
        if not good:
            raise LedgerError(f"entry {number} of the ledger {words}")

    for entry in entries:
        number += 1
        linked = entry.number == number and entry.previous == previous and entry.digest == entry.expected_digest()
        need(linked, "does not fit the chain")
        content, cost = entry.content, None
        try:
            if entry.action == "reserve":
                request = content["slot"], content["profile"]
                if request not in costs:
                    costs[request] = account.cost(request[0], request_of(request[1]))
                need(costs[request] == content["cost"], "has a wrong cost")
                reservations[number] = entry
            elif entry.action in CLOSINGS:
                reserved = reservations.pop(content["reservation"], None)
                if reserved is None or reserved.digest != content["digest"]:
                    raise LedgerError(f"entry {number} of the ledger commits what was not reserved")
                owner = digest_of_secret(str(content.get("secret")))
                owned = entry.action == "commit" or owner == reserved.content.get("owner")
                need(owned, "gives back what it does not own")
                cost = reserved.content["cost"]
            totals = after(account, totals, entry.action, content, cost)
        except (BudgetError, ParameterError) as error:
            raise LedgerError(f"entry {number} of the ledger exceeds the budget") from error
        need(totals == dict(entry.totals), "has wrong totals")
        need(missing.pop(number, entry.digest) == entry.digest, "is not the one that a receipt names")
        previous = entry.digest
    if missing:
        raise LedgerError(f"entry {min(missing)} of the ledger is missing: a receipt names it")
    return number


def _one_digest_each(heads: Iterable[tuple[int, str]]) -> dict[int, str]:
    """Return the digest of each entry; two digests of one entry prove that the history was written twice."""
    known: dict[int, str] = {}
    for number, digest in heads:
        if known.setdefault(number, digest) != digest:
            raise LedgerError(f"two receipts name entry {number} with different digests: the history was written twice")
    return known


# ---------------------------------------------------------------------- periods


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
