"""Keep a budget on disk: reserve, release, commit."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from ndis._validate import Adjacency, as_adjacency, require
from ndis.errors import LedgerError, NdisError
from ndis.ledger import verify as history
from ndis.ledger.accounts import Request
from ndis.ledger.charge import Charge, asking
from ndis.ledger.kinds import SlotPlan, account_of, opening
from ndis.ledger.report import LedgerReport, releases_of, report_of
from ndis.ledger.store import Entry, Store, now
from ndis.mechanisms.mechanism import CertifiedMechanism, announcements
from ndis.noise.bits import random_bits
from ndis.profile import PrivacyProfile

T = TypeVar("T")


def pay(
    mechanism: Any,
    release: Callable[[], T],
    *,
    ledger: str | os.PathLike[str] | None,
    slot: str | None,
    random_state: Any = None,
    announced: bool = False,
) -> T:
    """Make a release, and let a ledger pay for it if there is one. For functions with the arguments `ledger`, `slot`.

    Parameters
    ----------
    mechanism : mechanism
        The mechanism that releases.
    release : callable
        Reads the data and makes the release. Whatever is public must have been checked before.
    ledger : path, optional
    slot : str, optional
        The slot of a plan; for the other kinds a label, or None.
    random_state : optional
        Of the release. A ledger refuses a seed: it would break the guarantee.
    announced : bool
        `release` is that of a mechanism of this package, which checks what is public, announces that it starts to read,
        and then reads. The ledger reserves at the announcement. By default it reserves before `release` is called.

    Examples
    --------
    >>> import ndis
    >>> mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    >>> pay(mechanism, lambda: mechanism.release(3.0), ledger=None, slot=None).receipt.ledger is None
    True
    """
    if ledger is None:
        require(slot is None, "slot", "come with a ledger", repr(slot), "pass ledger= as well")
        return release()
    return Ledger(ledger)._pay(slot, mechanism, release, random_state, announced=announced)


class Ledger:
    """A ledger keeps the budget of one data set in one file.

    Open an existing ledger with ``Ledger(path)``, or make one with `create`. Any number of processes may use the file
    at once. A release is reserved before data is read and committed after it. A reservation without a commit counts as
    spent, unless its owner gives it back before anything is read.

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
        self._account = account_of(self._store.about, self._request)
        self._last: tuple[Any, Request | None] = (None, None)
        self._owned: dict[int, tuple[str, int, int]] = {}  # what this object may give back: its secret, and since when

    def __reduce__(self) -> tuple[Any, ...]:
        return Ledger, (self.path,)  # a copy owns nothing

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
        require(isinstance(data_name, str), "data_name", "be a text", type(data_name).__name__)
        stated = {"epsilon": epsilon, "delta": delta, "adjacency": as_adjacency(adjacency), "data_name": data_name}
        Store.create(path, *opening(stated, plan=plan, kind=kind, order=order))
        return cls(path)

    def renew(self, path: str | os.PathLike[str], *, epsilon: float, delta: float, **choice: Any) -> Ledger:
        """Close this ledger, and make one for the next period of the same data in a new file.

        The new budget may be chosen after answers. It adds to this one: `total` says what all periods cost together.
        What is not used here is not carried over. The closing entry holds all that the new ledger is made with,
        and where. If the file could not be written, the same call makes that same ledger; others are refused.

        Parameters
        ----------
        path : path
            The new file.
        epsilon, delta, **choice
            The budget of the next period, and its `plan`, or `kind` and `order`, as in `create`.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     first = Ledger.create(f"{place}/2026.db", epsilon=1.0, delta=1e-6, kind="shifts", data_name="visits")
        ...     second = first.renew(f"{place}/2027.db", epsilon=0.5, delta=1e-6, kind="shifts")
        ...     second.total()
        {'periods': 2, 'epsilon': 1.5, 'delta': 2e-06, 'max_records': None}
        """
        stated = {"epsilon": epsilon, "delta": delta, "adjacency": self.adjacency, "data_name": self.data_name}
        about, profiles = opening(stated, **choice)
        Store.check_new(path)
        self.verify()
        before = self._totals().get("renewed")
        created = before["root"]["created"] if isinstance(before, dict) else now()
        opens: dict[str, Any] = {"root": {**about, "created": created}, "path": str(Path(path).resolve())}
        if before == opens:  # the same file could not be written before
            closed = next(entry for entry in self._store.entries() if entry.action == "renew")
        else:
            closed = self._append("renew", {"opens": opens, "details": asking()})
        Store.create(path, {**opens["root"], **history.link_to(self._store.about, closed)}, profiles)
        return Ledger(path)

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
        `Charge.give_back` gives it back if the mechanism has not started to read.

        Parameters
        ----------
        slot : str, optional
            The slot of a plan. For the other kinds a label of your own, or None.
        mechanism : mechanism
            The mechanism that will release.
        """
        with Charge(self, slot, mechanism, self.reserve(slot, mechanism))._watching() as charge:
            yield charge

    def release(self, slot: str | None, mechanism: Any, data: Any, **how: Any) -> Any:
        """Reserve, release and commit. The data is not read if the budget does not cover the release.

        A mechanism of this package checks first what is public: arguments, the existence of files, names and types of
        columns. If one is wrong, nothing is spent.
        """
        announced = isinstance(mechanism, CertifiedMechanism)
        seed = how.get("random_state")
        return self._pay(slot, mechanism, lambda: mechanism.release(data, **how), seed, announced=announced)

    def _pay(
        self, slot: str | None, mechanism: Any, release: Callable[[], T], random_state: Any, *, announced: bool
    ) -> T:
        """Charge a slot, make the release and seal its receipt."""
        require(random_bits(random_state).private, "random_state", "be None for a release that a ledger pays", "a seed")
        if not announced:
            with self.charge(slot, mechanism) as charge:
                return charge.seal(release())
        asked = self._content(slot, self._asked(mechanism))
        history.after(self._account, self._totals(), "reserve", asked)  # what the budget does not cover opens nothing
        with Charge(self, slot, mechanism, None)._watching() as charge:
            return charge.seal(release())

    def reserve(self, slot: str | None, request: Any) -> Entry:
        """Reserve the cost of a request, or raise BudgetError. It counts as spent, unless this object gives it back.

        Parameters
        ----------
        slot : str, optional
            The slot of a plan. For the other kinds a label of your own, or None.
        request : mechanism or PrivacyProfile
            What will be released.
        """
        secret, since = secrets.token_hex(32), announcements()
        entry = self._reserve(slot, request, owner=history.digest_of_secret(secret))
        self._owned[entry.number] = secret, os.getpid(), since
        return entry

    def _reserve(self, slot: str | None, request: Any, *, owner: str) -> Entry:
        """Append a reservation. Its `owner` is the digest of a secret, or nothing if the data are read at once."""
        asked = self._asked(request)
        content = {**self._content(slot, asked), "details": {**asked.details, **asking()}, "owner": owner}
        return self._append("reserve", content, profiles={asked.digest: asked.text})

    def _content(self, slot: str | None, asked: Request) -> dict[str, Any]:
        """Describe a request and its cost, or refuse it."""
        rule = f"have adjacency {self.adjacency!r}, like the ledger"
        require(asked.profile.adjacency == self.adjacency, "request", rule, repr(asked.profile.adjacency))
        require(slot is None or isinstance(slot, str), "slot", "be a text", type(slot).__name__)
        cost = self._account.cost(slot, asked)
        return {"slot": slot, "profile": asked.digest, "cost": cost, "max_records": asked.max_records}

    def commit(self, reservation: Entry) -> Entry:
        """Record that the release of a reservation came out."""
        self._owned.pop(reservation.number, None)
        return self._close("commit", reservation)

    def give_back(self, reservation: Entry) -> Entry:
        """Give a reservation back, on record, before anything is read.

        Only the object that reserved can do it, in its process: the file has the digest of a secret that only this
        object holds, and the secret goes into the file now. The right ends as soon as any mechanism of the process
        starts to read, because it may be the one that was paid.

        Examples
        --------
        >>> import tempfile, ndis
        >>> mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
        >>> with tempfile.TemporaryDirectory() as place:
        ...     ledger = Ledger.create(f"{place}/b.db", epsilon=3.0, delta=1e-6, plan={"a": (mechanism, 1)})
        ...     entry = ledger.give_back(ledger.reserve("a", mechanism))
        ...     entry.action, ledger.remaining()
        ('return', {'a': 1})
        """
        secret, *since = self._owned.pop(reservation.number, ("",))
        if since != [os.getpid(), announcements()]:
            raise LedgerError("a reservation can be given back only by its owner, and only before data are read")
        return self._close("return", reservation, {"secret": secret})

    def _close(self, action: str, reservation: Entry, more: Mapping[str, str] = MappingProxyType({})) -> Entry:
        """Append the one entry that says what became of a reservation."""
        known = self._store.entry(reservation.number)
        if known is None or known.action != "reserve" or known.digest != reservation.digest:
            raise LedgerError(f"a {action} needs a reservation of this ledger")
        content = {"reservation": reservation.number, "digest": reservation.digest, **more}
        return self._append(action, content, known.content["cost"], reservation=known.number)

    # ------------------------------------------------------------------ looking

    def remaining(self) -> dict[str, Any]:
        """Say what is left of the budget: releases per slot, or the rest of the filter's sum."""
        return self._account.remaining(self._totals()["spent"])

    def left(self) -> dict[str, float]:
        """Say what all that may still be released costs by itself: its ε at the budget's δ. Both are 0 at the end.

        It does not add up with what was spent: exact curves compose, and their ε do not add.
        """
        epsilon = None if self.renewed else self._account.later(self._totals()["spent"])
        return {"epsilon": 0.0 if epsilon is None else epsilon, "delta": 0.0 if epsilon is None else self.target_delta}

    def total(self) -> dict[str, Any]:
        """Add up the budgets of this period and of all that it renews: (ε₁ + ε₂ + …, δ₁ + δ₂ + …), used or not."""
        return history.total_of(self._store.about, self.max_records)

    @property
    def renewed(self) -> bool:
        """Say if the ledger was renewed, and so takes no more requests."""
        return "renewed" in self._totals()

    @property
    def periods(self) -> list[dict[str, Any]]:
        """List the periods that this ledger renews: their budgets, and the entries that closed them."""
        return list(self._store.about.get("periods", ()))

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
        return self._store.last().number

    def head(self) -> str:
        """Return the digest of the last entry; that of the ledger itself if there is none."""
        return self._store.last().digest

    def releases(self) -> list[dict[str, Any]]:
        """List one row per reservation: when, which slot, for whom, what for, and what became of it."""
        return releases_of(self._store.entries())

    def anchor(self) -> dict[str, Any]:
        """Verify the ledger and return its head, to be kept where those who write the file cannot change it.

        A later `verify` with this head finds every entry until now that was changed, cut off or written anew.

        Examples
        --------
        >>> import tempfile, ndis
        >>> with tempfile.TemporaryDirectory() as place:
        ...     ledger = Ledger.create(f"{place}/b.db", epsilon=1.0, delta=1e-6, kind="shifts", data_name="visits")
        ...     seal = ledger.anchor()
        ...     seal["entry"], ledger.verify(heads={seal["entry"]: seal["head"]})
        (0, 0)
        """
        self.verify()
        last = self._store.last()
        return {"data_name": self.data_name, "entry": last.number, "head": last.digest}

    def report(self) -> LedgerReport:
        """Report the budget, the spent part and the rest: `to_html()`, `to_json()` or `to_dict()`; no private values.

        >>> import tempfile, ndis
        >>> with tempfile.TemporaryDirectory() as place:
        ...     ledger = Ledger.create(f"{place}/b.db", epsilon=1.0, delta=1e-6, kind="shifts", data_name="visits")
        ...     "Privacy budget of visits" in ledger.report().to_html()
        True
        """
        return report_of(self, self._store.about, self._account.whole())

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the ledger to a new file, consistent at one moment."""
        self._store.backup(path)

    def verify(self, *, heads: Mapping[int, str] | Iterable[tuple[int, str]] | None = None) -> int:
        """Check the whole file again and return the number of entries.

        The chain must fit together, and every total must follow from the entries. Every request must be within its
        slot. The guarantee of the budget is certified again.

        Parameters
        ----------
        heads : mapping or pairs, optional
            Entry number and digest, as receipts carry them; number 0 stands for the ledger without entries. With them
            a cut-off end is found too, and a history that was written twice: two digests of one entry.

        Raises
        ------
        LedgerError
            With the number of the first entry that does not fit.
        """
        given = heads.items() if isinstance(heads, Mapping) else heads or ()
        try:
            return history.verify_entries(self._account, self._store.root, self._store.entries(), self._request, given)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            if isinstance(error, NdisError):  # otherwise a forged entry, which may hold anything
                raise
            raise LedgerError("an entry of the ledger cannot be read: it has not the form of its action") from error

    # ------------------------------------------------------------------ inside

    def _totals(self) -> dict[str, Any]:
        return dict(self._store.last().totals) or history.no_requests(self._account)

    def _append(self, action: str, content: Mapping[str, Any], cost: Any = None, **how: Any) -> Entry:
        """Append an entry, and the totals after it."""
        after = partial(history.after, self._account, action=action, content=content, cost=cost)
        return self._store.append(action, content, lambda last: after(last.totals), **how)

    def _asked(self, source: Any) -> Request:
        """Describe a request, if its mechanism still meets its budget. That of the last fixed mechanism is kept."""
        known, request = self._last
        if request is None or source is not known:
            if callable(check := getattr(source, "check", None)):  # a model inside it may have changed
                check()
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
