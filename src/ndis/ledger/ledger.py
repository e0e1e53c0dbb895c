"""Keep a budget on disk: reserve, release, commit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from ndis._search import budget
from ndis._validate import Adjacency, as_adjacency
from ndis.errors import BudgetError, LedgerError, ParameterError
from ndis.ledger.accounts import Account, Request
from ndis.ledger.filters import Renyi, Shifts
from ndis.ledger.plan import Slot, SlotPlan
from ndis.ledger.report import LedgerReport, curve_of, releases_of
from ndis.ledger.store import Entry, Store
from ndis.mechanisms.mechanism import CertifiedMechanism
from ndis.mechanisms.receipt import Receipt
from ndis.noise.bits import random_bits
from ndis.profile import PrivacyProfile

__all__ = ["Charge", "Ledger", "pay"]

T = TypeVar("T")

SPENT = "the ledger had reserved this release, and what it reserved counts as spent"  # after an interrupt


class Charge:
    """A release that a ledger has reserved, and not yet recorded as released; made by `Ledger.charge`."""

    def __init__(self, ledger: Ledger, entry: Entry, mechanism: Any) -> None:
        self._ledger, self._entry, self._mechanism = ledger, entry, mechanism

    def seal(self, release: T) -> T:
        """Record that the release came out, and return it with the entry that paid in its receipt.

        Parameters
        ----------
        release : release, estimator's receipt, or anything else
            The release of the mechanism that was charged. A release that a seed made is refused, and so is that of
            another mechanism; the reservation then stays spent. What has no receipt is returned unchanged.
        """
        receipt = release if isinstance(release, Receipt) else getattr(release, "receipt", None)
        sealed: Any = release
        if isinstance(receipt, Receipt):
            paid = {"data_name": self._ledger.data_name, "entry": self._entry.number, "head": self._entry.digest}
            named = replace(self._checked(receipt), ledger=paid, digest="")
            sealed = named if release is receipt else replace(sealed, receipt=named)
        self._ledger.commit(self._entry)
        return sealed  # type: ignore[no-any-return]

    def _checked(self, receipt: Receipt) -> Receipt:
        if not receipt.private:
            raise ParameterError("release", "be private to be paid by a ledger", "one that a seed made")
        for name, own in (("epsilon", "target_epsilon"), ("delta", "target_delta"), ("adjacency", "adjacency")):
            value, stated = getattr(self._mechanism, own, None), getattr(receipt, name)
            if value not in (None, stated):
                rule = f"be that of the mechanism that was charged, with {name} {value!r}"
                raise ParameterError("release", rule, repr(stated))
        return receipt


def pay(
    mechanism: Any,
    release: Callable[[], T],
    *,
    ledger: str | os.PathLike[str] | None,
    slot: str | None,
    random_state: Any = None,
) -> T:
    """Make a release, and let a ledger pay for it if there is one. For functions with the arguments `ledger`, `slot`.

    Parameters
    ----------
    mechanism : mechanism
        The mechanism that releases.
    release : callable
        Reads the data and makes the release. It is called when the ledger has reserved.
    ledger : path, optional
    slot : str, optional
        The slot of a plan; for the other kinds a label, or None.
    random_state : optional
        Of the release. A ledger refuses a seed: it would break the guarantee.

    Examples
    --------
    >>> import ndis
    >>> mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    >>> pay(mechanism, lambda: mechanism.release(3.0), ledger=None, slot=None).receipt.ledger is None
    True
    """
    if ledger is None:
        if slot is not None:
            raise ParameterError("slot", "come with a ledger", repr(slot), "pass ledger= as well")
        return release()
    return Ledger(ledger)._pay(slot, mechanism, release, random_state)


class Ledger:
    """A ledger keeps the budget of one data set in one file.

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
    ...     with ledger.charge("weekly", mechanism) as charge:
    ...         release = charge.seal(mechanism.release(3.0))
    ...     ledger.remaining(), release.receipt.ledger["entry"]
    ({'weekly': 3}, 1)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._store = Store(path)
        self._account = self._opened(self._store.about)
        self._last: tuple[Any, Request | None] = (None, None)

    def _opened(self, about: Mapping[str, Any]) -> Account:
        """Return the account of the file. The profile of a slot is read when it is first needed, and kept."""
        kind, target = about["kind"], (about["epsilon"], about["delta"])
        if kind == SlotPlan.kind:
            slots = about["slots"].items()
            return SlotPlan(*target, {name: Slot(one["profile"], one["count"], self._request) for name, one in slots})
        if kind == Shifts.kind:
            return Shifts(*target, int(about["units"], 16))
        if kind == Renyi.kind:
            return Renyi(*target, int(about["units"], 16), about["order"])
        raise LedgerError(f"the ledger has an unknown kind, {kind!r}")

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
        account = _new_account(*budget(epsilon, delta), plan=plan, kind=kind, order=order, adjacency=relation)
        about = {"kind": account.kind, "epsilon": float(epsilon), "delta": float(delta), "adjacency": relation}
        about |= {"data_name": data_name, **account.about()}
        slots = account.slots.values() if isinstance(account, SlotPlan) else ()
        Store.create(path, about, {slot.digest: slot.declared.text for slot in slots})
        return cls(path)

    # ------------------------------------------------------------------ what is fixed

    @property
    def path(self) -> str:
        """Return the name of the file."""
        return str(self._store.path)

    @property
    def kind(self) -> str:
        """Return the kind: "plan", "shifts" or "renyi"."""
        return self._account.kind

    @property
    def target_epsilon(self) -> float:
        """Return the budget's ε."""
        return float(self._store.about["epsilon"])

    @property
    def target_delta(self) -> float:
        """Return the budget's δ."""
        return float(self._store.about["delta"])

    @property
    def adjacency(self) -> Adjacency:
        """Say which data sets are neighbours."""
        return as_adjacency(self._store.about["adjacency"])

    @property
    def data_name(self) -> str:
        """Name the data set that the budget is for."""
        return str(self._store.about["data_name"])

    # ------------------------------------------------------------------ spending

    @contextmanager
    def charge(self, slot: str | None, mechanism: Any) -> Iterator[Charge]:
        """Reserve one release of a mechanism before the block, which makes the release and seals it.

        One charge pays for one release. If the block raises, or does not seal, the reservation counts as spent.

        Parameters
        ----------
        slot : str, optional
            The slot of a plan. For the other kinds a label of your own, or None.
        mechanism : mechanism
            The mechanism that will release.
        """
        check = getattr(mechanism, "check", None)
        if callable(check):  # a mechanism that no longer meets its budget must not spend
            check()
        entry = self.reserve(slot, mechanism)
        try:
            yield Charge(self, entry, mechanism)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(SPENT) from None

    def release(self, slot: str | None, mechanism: Any, data: Any, **how: Any) -> Any:
        """Reserve, release and commit. The data is not read if the budget does not cover the release."""
        return self._pay(slot, mechanism, lambda: mechanism.release(data, **how), how.get("random_state"))

    def _pay(self, slot: str | None, mechanism: Any, release: Callable[[], T], random_state: Any) -> T:
        if not random_bits(random_state).private:
            raise ParameterError("random_state", "be None for a release that a ledger pays", "a seed")
        with self.charge(slot, mechanism) as charge:
            return charge.seal(release())

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
        asked = self._asked(request)
        if asked.profile.adjacency != self.adjacency:
            rule = f"have adjacency {self.adjacency!r}, like the ledger"
            raise ParameterError("request", rule, repr(asked.profile.adjacency))
        if slot is not None and not isinstance(slot, str):
            raise ParameterError("slot", "be a text", type(slot).__name__)
        content = {
            "slot": slot,
            "profile": asked.digest,
            "cost": self._account.cost(slot, asked),
            "max_records": asked.max_records,
            "details": {**asked.details, **(details or {})},
        }

        def make(before: Entry | None) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
            return content, self._after(self._start() if before is None else before.totals, content)

        return self._store.append("reserve", make, profiles={asked.digest: asked.text})

    def commit(self, reservation: Entry) -> Entry:
        """Record that the release of a reservation came out."""

        def make(before: Entry | None) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
            if before is None:
                raise LedgerError("a commit needs a reservation")
            content = {"reservation": reservation.number, "digest": reservation.digest}
            return content, dict(before.totals)

        known = self._store.entry(reservation.number)
        if known is None or known.action != "reserve" or known.digest != reservation.digest:
            raise LedgerError("a commit needs a reservation of this ledger")
        return self._store.append("commit", make, reservation=reservation.number)

    # ------------------------------------------------------------------ looking

    def remaining(self) -> dict[str, Any]:
        """Say what is left of the budget: releases per slot, or the rest of the filter's sum."""
        return self._account.remaining(self._totals()["spent"])

    @property
    def max_records(self) -> int | None:
        """Return the least promise of all requests: the guarantee holds for tables with at most this many records."""
        promise = self._totals()["max_records"]
        return None if promise is None else int(promise)

    @property
    def failure_probability(self) -> float | None:
        """Add up the failure probabilities of all requests so far; None for a filter, which refuses them."""
        return self._account.failure(self._totals()["spent"]) if isinstance(self._account, SlotPlan) else None

    def plan(self) -> dict[str, tuple[PrivacyProfile, int]]:
        """Return the slots of a plan with their profiles and counts; empty for a filter."""
        slots = self._account.slots if isinstance(self._account, SlotPlan) else {}
        return {name: (slot.declared.profile, slot.count) for name, slot in slots.items()}

    def history(self) -> list[Entry]:
        """List all entries, oldest first."""
        return list(self._store.entries())

    def entries(self) -> int:
        """Count the entries."""
        last = self._store.last()
        return 0 if last is None else last.number

    def head(self) -> str:
        """Return the digest of the last entry; that of the ledger itself if there is none."""
        last = self._store.last()
        return self._store.root if last is None else last.digest

    def report(self) -> LedgerReport:
        """Report the budget, the spent part and the rest: `to_html()`, `to_json()` or `to_dict()`; no private values.

        >>> import tempfile, ndis
        >>> with tempfile.TemporaryDirectory() as place:
        ...     ledger = Ledger.create(f"{place}/b.db", epsilon=1.0, delta=1e-6, kind="shifts", data_name="visits")
        ...     "Privacy budget of visits" in ledger.report().to_html()
        True
        """
        smallest, epsilon, delta, plan = self.max_records, self.target_epsilon, self.target_delta, self.plan().items()
        neighbours = {"add-remove": "present or absent", "replace-one": "exchanged"}[self.adjacency]
        condition = f"The guarantee holds for tables with at most {smallest} records." if smallest is not None else ""
        return LedgerReport.of(
            {
                "data_name": self.data_name,
                "kind": self.kind,
                "order": self._store.about.get("order"),
                "epsilon": epsilon,
                "delta": delta,
                "adjacency": self.adjacency,
                "created": self._store.about["created"],
                "guarantee": (
                    f"Everything that this ledger allows is together private with epsilon = {epsilon:g} and "
                    f"delta = {delta:g}, for one record {neighbours}, whatever later requests depend on."
                ),
                "condition": condition,
                "max_records": smallest,
                "failure_probability": self.failure_probability,
                "slots": {name: {"count": n, "epsilon": profile.epsilon(delta)} for name, (profile, n) in plan},
                "remaining": self.remaining(),
                "curve": curve_of(self._account.whole(), epsilon),
                "entries": releases_of(self._store.entries()),
                "head": self.head(),
            }
        )

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
                        costs[request] = self._account.cost(request[0], self._request(request[1]))
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
        """Return the totals after a request, or raise BudgetError."""
        promises = [n for n in (totals["max_records"], content["max_records"]) if n is not None]
        spent = self._account.charge(dict(totals["spent"]), content["cost"])
        return {"spent": spent, "max_records": min(promises, default=None)}

    def _totals(self) -> dict[str, Any]:
        last = self._store.last()
        return self._start() if last is None else dict(last.totals)

    def _asked(self, source: Any) -> Request:
        """Describe a request. That of the last mechanism is kept, unless a model inside it may change."""
        known, request = self._last
        if request is None or source is not known:
            request = Request.of(source)
            fixed = isinstance(source, CertifiedMechanism) and not hasattr(source, "model")
            self._last = (source, request) if fixed else (None, None)
        return request

    def _request(self, digest: str) -> Request:
        """Read a profile of the file by its digest."""
        request = Request.of(PrivacyProfile.from_json(self._store.profile(digest)))
        if request.digest != digest:
            raise LedgerError("a profile in the ledger does not have the digest that its entry names")
        return request


def _new_account(
    epsilon: float, delta: float, *, plan: Any, kind: str | None, order: float | None, adjacency: Adjacency
) -> Account:
    """Make the account of a new ledger."""
    kinds = (SlotPlan.kind, Shifts.kind, Renyi.kind)
    chosen = kind or (None if plan is None else SlotPlan.kind)
    if chosen not in kinds:
        raise ParameterError("kind", f"be {', '.join(map(repr, kinds[1:]))}, or come with a plan", repr(kind))
    if (plan is not None) != (chosen == SlotPlan.kind):
        raise ParameterError("plan", "be given for a ledger of kind 'plan', and only then", f"kind {chosen!r}")
    if order is not None and chosen != Renyi.kind:
        raise ParameterError("order", "be given only for a ledger of kind 'renyi'", order)
    if chosen == SlotPlan.kind:
        return SlotPlan.of(epsilon, delta, plan, adjacency)
    return Shifts.of(epsilon, delta) if chosen == Shifts.kind else Renyi.of(epsilon, delta, order)
