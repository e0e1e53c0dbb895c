"""A budget on disk: reserve, release, commit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ndis._validate import Adjacency, as_adjacency
from ndis.errors import BudgetError, LedgerError, ParameterError
from ndis.ledger.accounts import Account, account_of, make_account
from ndis.ledger.plan import Plan
from ndis.ledger.report import LedgerReport, curve_of, releases_of
from ndis.ledger.requests import as_profile, described, profile_digest, promised_records
from ndis.ledger.store import Entry, Store
from ndis.profile import PrivacyProfile

__all__ = ["Ledger"]


class Ledger:
    """A budget for one data set, kept in one file.

    Open an existing ledger with ``Ledger(path)``, or make one with `create`. Any number of processes may use the file
    at once. A release is reserved before data is read and committed after it. A reservation without a commit counts as
    spent.

    Parameters
    ----------
    path : path
        The file.

    Examples
    --------
    >>> import tempfile, ndis
    >>> mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     plan = {"weekly": (mechanism, 4)}
    ...     ledger = Ledger.create(f"{place}/budget.db", epsilon=3.0, delta=1e-6, plan=plan, data_name="visits")
    ...     entry = ledger.reserve("weekly", mechanism)
    ...     ledger.remaining()
    {'weekly': 3}
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._store = Store(path)
        self._account: Account = account_of(self._store.about, self._profile)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        epsilon: float,
        delta: float,
        plan: Mapping[str, tuple[Any, int]] | None = None,
        kind: str | None = None,
        order: float | None = None,
        data_name: str = "",
        adjacency: Adjacency = "add-remove",
    ) -> Ledger:
        """Make a ledger in a new file. The guarantee of the whole budget is certified first.

        Parameters
        ----------
        epsilon, delta : float
            The guarantee of everything that the ledger will allow, together.
        plan : mapping, optional
            ``{name: (mechanism or profile, count)}``: the slots of a ledger of kind "plan".
        kind : str, optional
            "shifts" for Gaussian mean shifts of free size, "renyi" for anything with a Rényi curve.
        order : float, optional
            The Rényi order of kind "renyi", above 1. By default the one at which a Gaussian mechanism gets the most.
        data_name : str
            The data set that this budget is for. One data set needs one ledger: two ledgers for one table cannot be
            detected.
        adjacency : str
            "add-remove" or "replace-one"; requests must have the same.
        """
        relation = as_adjacency(adjacency)
        if not isinstance(data_name, str):
            raise ParameterError("data_name", "be a text", type(data_name).__name__)
        account = make_account(epsilon, delta, plan=plan, kind=kind, order=order, adjacency=relation)
        about = {
            "kind": account.kind,
            "epsilon": float(epsilon),
            "delta": float(delta),
            "adjacency": relation,
            "data_name": data_name,
            **account.about(),
        }
        profiles = [slot.profile for slot in account.slots.values()] if isinstance(account, Plan) else []
        Store.create(path, about, {profile_digest(p): p.to_json() for p in profiles})
        return cls(path)

    # ------------------------------------------------------------------ what is fixed

    @property
    def path(self) -> str:
        """The file."""
        return str(self._store.path)

    @property
    def kind(self) -> str:
        """The kind: "plan", "shifts" or "renyi"."""
        return self._account.kind

    @property
    def target_epsilon(self) -> float:
        """ε of the whole budget."""
        return float(self._store.about["epsilon"])

    @property
    def target_delta(self) -> float:
        """δ of the whole budget."""
        return float(self._store.about["delta"])

    @property
    def adjacency(self) -> Adjacency:
        """Which data sets are neighbours."""
        return as_adjacency(self._store.about["adjacency"])

    @property
    def data_name(self) -> str:
        """The data set that the budget is for."""
        return str(self._store.about["data_name"])

    # ------------------------------------------------------------------ spending

    def reserve(self, slot: str | None, request: Any, *, details: Mapping[str, Any] | None = None) -> Entry:
        """Reserve the cost of a request, or raise BudgetError. It counts as spent from here on.

        Parameters
        ----------
        slot : str, optional
            The slot of a plan. For the other kinds a label of your own, or None.
        request : mechanism or PrivacyProfile
            What will be released.
        details : mapping, optional
            Public values to keep with the entry, such as the name of the mechanism.
        """
        profile = as_profile(request)
        if profile.adjacency != self.adjacency:
            raise ParameterError(
                "request", f"have adjacency {self.adjacency!r}, like the ledger", repr(profile.adjacency)
            )
        if slot is not None and not isinstance(slot, str):
            raise ParameterError("slot", "be a text", type(slot).__name__)
        digest = profile_digest(profile)
        cost = self._account.cost(slot, profile)
        content = {
            "slot": slot,
            "profile": digest,
            "cost": cost,
            "max_records": promised_records(request),
            "details": {**described(request), **(details or {})},
        }

        def make(before: Entry | None) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
            return content, self._after(self._start() if before is None else before.totals, content)

        return self._store.append("reserve", make, profiles={digest: profile.to_json()})

    def commit(self, reservation: Entry) -> Entry:
        """Say that the release of a reservation came out."""

        def make(before: Entry | None) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
            if before is None:
                raise LedgerError("a commit needs a reservation")
            content = {"reservation": reservation.number, "digest": reservation.digest}
            return content, dict(before.totals)

        known = self._store.entry(reservation.number)
        if known is None or known.action != "reserve" or known.digest != reservation.digest:
            raise LedgerError("a commit needs a reservation of this ledger")
        return self._store.append("commit", make, reservation=reservation.number)

    def release(self, slot: str | None, mechanism: Any, data: Any, **how: Any) -> Any:
        """Reserve, release and commit. The data is not read if the budget does not cover the release."""
        return mechanism.release(data, ledger=self.path, slot=slot, **how)

    # ------------------------------------------------------------------ looking

    def remaining(self) -> dict[str, Any]:
        """The rest of the budget: releases per slot, or the rest of the filter's sum."""
        return self._account.remaining(self._totals()["spent"])

    @property
    def max_records(self) -> int | None:
        """The smallest promise of all requests: the guarantee holds for tables with at most so many records."""
        found = self._totals()["max_records"]
        return None if found is None else int(found)

    @property
    def failure_probability(self) -> float | None:
        """The failure probabilities of all requests so far, added up; None for a filter, which refuses them."""
        return self._account.failure(self._totals()["spent"]) if isinstance(self._account, Plan) else None

    def plan(self) -> dict[str, tuple[PrivacyProfile, int]]:
        """The slots of a plan with their profiles and counts; empty for a filter."""
        slots = self._account.slots if isinstance(self._account, Plan) else {}
        return {name: (slot.profile, slot.count) for name, slot in slots.items()}

    def history(self) -> list[Entry]:
        """All entries, oldest first."""
        return list(self._store.entries())

    def entries(self) -> int:
        """The number of entries."""
        last = self._store.last()
        return 0 if last is None else last.number

    def head(self) -> str:
        """The digest of the last entry; that of the ledger itself if there is none."""
        last = self._store.last()
        return self._store.root if last is None else last.digest

    def report(self) -> LedgerReport:
        """The budget, the spent part and the rest: `to_html()`, `to_json()` or `to_dict()`. It holds no private values.

        >>> import tempfile, ndis
        >>> with tempfile.TemporaryDirectory() as place:
        ...     ledger = Ledger.create(f"{place}/b.db", epsilon=1.0, delta=1e-6, kind="shifts", data_name="visits")
        ...     "Privacy budget of visits" in ledger.report().to_html()
        True
        """
        entries = releases_of(self._store.entries())
        whole = self._account.whole()
        slots = {
            name: {"count": count, "epsilon": profile.epsilon(self.target_delta)}
            for name, (profile, count) in self.plan().items()
        }
        smallest = self.max_records
        condition = f"The guarantee holds for tables with at most {smallest} records." if smallest is not None else ""
        neighbours = {"add-remove": "present or absent", "replace-one": "exchanged"}[self.adjacency]
        return LedgerReport.of(
            {
                "data_name": self.data_name,
                "kind": self.kind,
                "order": self._store.about.get("order"),
                "epsilon": self.target_epsilon,
                "delta": self.target_delta,
                "adjacency": self.adjacency,
                "created": self._store.about["created"],
                "guarantee": (
                    f"Everything that this ledger allows is together private with epsilon = {self.target_epsilon:g} "
                    f"and delta = {self.target_delta:g}, for one record {neighbours}, whatever later requests "
                    "depend on."
                ),
                "condition": condition,
                "max_records": smallest,
                "failure_probability": self.failure_probability,
                "slots": slots,
                "remaining": self.remaining(),
                "curve": curve_of(whole, self.target_epsilon),
                "entries": entries,
                "head": self.head(),
            }
        )

    @classmethod
    def migrate(cls, path: str | os.PathLike[str]) -> Ledger:
        """Bring a ledger of an older format to the format of this version; make a backup first."""
        Store.migrate(path)
        return cls(path)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the ledger to a new file, consistent at one moment."""
        self._store.backup(path)

    def verify(self, *, heads: Mapping[int, str] | None = None) -> int:
        """Check the whole file again and return the number of entries.

        The chain must fit together, and every total must follow from the entries. Every request must be within its
        slot. The guarantee of the budget is certified again.

        Parameters
        ----------
        heads : mapping, optional
            Entry number → digest, as receipts carry them. With them a cut-off end is found too.

        Raises
        ------
        LedgerError
            With the number of the first entry that does not fit.
        """
        self._account.certify()
        totals, previous, number = self._start(), self._store.root, 0
        missing = dict(heads or {})
        costs: dict[tuple[str | None, str], Any] = {}
        open_reservations: dict[int, str] = {}
        for entry in self._store.entries():
            number += 1
            if entry.number != number or entry.previous != previous or entry.digest != entry.expected_digest():
                raise LedgerError(f"entry {number} of the ledger does not fit the chain")
            if entry.action == "reserve":
                request = entry.content["slot"], entry.content["profile"]
                if request not in costs:
                    try:
                        costs[request] = self._account.cost(request[0], self._profile(request[1]))
                    except (BudgetError, ParameterError) as error:
                        raise LedgerError(f"entry {number} of the ledger is not covered by the budget") from error
                if costs[request] != entry.content["cost"]:
                    raise LedgerError(f"entry {number} of the ledger has a wrong cost")
                try:
                    totals = self._after(totals, entry.content)
                except BudgetError as error:
                    raise LedgerError(f"entry {number} of the ledger exceeds the budget") from error
                open_reservations[number] = entry.digest
            elif entry.action != "commit":
                raise LedgerError(f"entry {number} of the ledger has an unknown action")
            elif open_reservations.pop(entry.content["reservation"], None) != entry.content["digest"]:
                raise LedgerError(f"entry {number} of the ledger commits what was not reserved")
            if totals != dict(entry.totals):
                raise LedgerError(f"entry {number} of the ledger has wrong totals")
            if missing.pop(number, entry.digest) != entry.digest:
                raise LedgerError(f"entry {number} of the ledger is not the one that a receipt names")
            previous = entry.digest
        if missing:
            raise LedgerError(f"entry {min(missing)} of the ledger is missing: a receipt names it")
        return number

    # ------------------------------------------------------------------ inside

    def _start(self) -> dict[str, Any]:
        return {"spent": self._account.start(), "max_records": None}

    def _after(self, totals: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
        """Totals after a request, or BudgetError."""
        promises = [n for n in (totals["max_records"], content["max_records"]) if n is not None]
        spent = self._account.charge(dict(totals["spent"]), content["cost"])
        return {"spent": spent, "max_records": min(promises, default=None)}

    def _totals(self) -> dict[str, Any]:
        last = self._store.last()
        return self._start() if last is None else dict(last.totals)

    def _profile(self, digest: str) -> PrivacyProfile:
        profile = PrivacyProfile.from_json(self._store.profile(digest))
        if profile_digest(profile) != digest:
            raise LedgerError("a profile in the ledger does not have the digest that its entry names")
        return profile
