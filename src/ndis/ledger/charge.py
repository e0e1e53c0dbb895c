"""Charge a ledger for one release, and record who asked for it and what for; and count the releases of a process."""

from __future__ import annotations

import getpass
import platform
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from ndis._validate import require
from ndis.ledger.accounts import Request
from ndis.ledger.store import Entry
from ndis.mechanisms.mechanism import CertifiedMechanism, Receipt, listening
from ndis.profile import PrivacyProfile

if TYPE_CHECKING:
    from ndis.ledger.ledger import Ledger

T = TypeVar("T")

_STATED = ("mechanism", "epsilon", "delta", "adjacency")
SPENT = "the ledger had reserved this release, and what it reserved counts as spent"  # after an interrupt


_people: ContextVar[Mapping[str, str]] = ContextVar("people", default=MappingProxyType({}))


@contextmanager
def on_behalf(*, by: str | None = None, purpose: str | None = None) -> Iterator[None]:
    """Record who asks, and what for, with every reservation of this thread inside the block.

    Parameters
    ----------
    by, purpose : str, optional
        Public texts of your own. The name of the user and of the host are recorded in any case.

    Examples
    --------
    >>> import tempfile, ndis
    >>> mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     ledger = ndis.Ledger.create(f"{place}/b.db", epsilon=3.0, delta=1e-6, kind="shifts")
    ...     with ndis.ledger.on_behalf(by="research", purpose="monthly report"):
    ...         release = ledger.release(None, mechanism, 3.0)
    ...     ledger.report().to_dict()["entries"][0]["purpose"]
    'monthly report'
    """
    given = {name: value for name, value in (("by", by), ("purpose", purpose)) if value is not None}
    for name, value in given.items():
        require(isinstance(value, str), name, "be a text", type(value).__name__)
    before = _people.set({**_people.get(), **given})
    try:
        yield
    finally:
        _people.reset(before)


def asking() -> dict[str, str]:
    """Name who asks: the account and the host, and what `on_behalf` said."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # an account without a name
        user = ""
    return {"user": user, "host": platform.node(), **_people.get()}


class Charge:
    """A release that a ledger pays for; made by `Ledger.charge`.

    It is *reserved* until its mechanism starts to read, then *reading*, then *released*. It can be given back only
    while it is reserved.
    """

    def __init__(self, ledger: Ledger, slot: str | None, mechanism: Any, reserved: Entry | None) -> None:
        self._ledger, self._slot, self._mechanism, self._reserved = ledger, slot, mechanism, reserved
        self._thread = threading.get_ident()

    @contextmanager
    def _watching(self) -> Iterator[Charge]:
        """Notice when a mechanism starts to read, and say after an interrupt what is spent."""
        try:
            with listening(self._announced):
                yield self
        except KeyboardInterrupt:
            raise KeyboardInterrupt(*([SPENT] if self._reserved else [])) from None

    def _announced(self, mechanism: Any) -> None:
        if threading.get_ident() == self._thread and mechanism is self._mechanism:
            self._read()

    def _read(self) -> Entry:
        """Go to the state "reading": reserve if nothing is reserved yet."""
        if self._reserved is None:
            self._reserved = self._ledger._reserve(self._slot, self._mechanism, owner="")
        return self._reserved

    def give_back(self) -> None:
        """Give the reservation back, on record. Refused once any mechanism of this process has started to read.

        Call it only if nothing was read, and if what made you stop is public.
        """
        if self._reserved is not None:
            self._ledger.give_back(self._reserved)

    def seal(self, release: T) -> T:
        """Record that the release came out, and return it with the entry that paid in its receipt.

        Parameters
        ----------
        release : release, estimator's receipt, or anything else
            The release of the mechanism that was charged. A release that a seed made is refused, and so is that of
            another mechanism; the reservation then stays spent. What has no receipt is returned unchanged.
        """
        entry = self._read()  # nothing leaves without a reservation, even if the mechanism announced nothing
        receipt = release if isinstance(release, Receipt) else getattr(release, "receipt", None)
        sealed: Any = release
        if isinstance(receipt, Receipt):
            paid = {"data_name": self._ledger.data_name, "entry": entry.number, "head": entry.digest}
            named = replace(self._checked(receipt), ledger=paid, digest="")
            sealed = named if release is receipt else replace(sealed, receipt=named)
        self._ledger.commit(entry)
        return sealed  # type: ignore[no-any-return]

    def _checked(self, receipt: Receipt) -> Receipt:
        """Refuse a release that the charged mechanism did not make, as far as receipts tell."""
        require(receipt.private, "release", "be private to be paid by a ledger", "one that a seed made")
        own = self._mechanism
        charged = {name: getattr(own, f"target_{name}", None) for name in ("epsilon", "delta")}
        charged |= {"adjacency": getattr(own, "adjacency", None)}
        if isinstance(own, CertifiedMechanism):  # its receipt has all its numbers
            charged |= {name: value for name, value in own.arguments().items() if isinstance(value, int | float | str)}
            if hasattr(own, "release") and not hasattr(own, "model"):
                charged = {"mechanism": type(own).__name__, **charged}
        stated = {**receipt.parameters, **{name: getattr(receipt, name) for name in _STATED}}
        for name, value in charged.items():
            rule = f"be that of the mechanism that was charged, with {name} {value!r}"
            require(value in (None, stated.get(name)), "release", rule, repr(stated.get(name)))
        return receipt


# ---------------------------------------------------------------------- the odometer

_LABEL = "valid only if sizes did not depend on answers"
_LIMITS = (
    "Scores and best_params_ of a search on private data are not private, and are not counted here.",
    "Releases of other processes are not counted (joblib's backends 'loky' and 'multiprocessing' are other processes).",
)


class Odometer:
    """Counts the releases of one process; made by `odometer`.

    The sum of exact curves bounds the releases together **only if sizes did not depend on answers**
    (thm:no-natural-filter). A `Ledger` has no such condition.
    """

    def __init__(self) -> None:
        self._counts: Counter[Request] = Counter()
        self._lock = threading.Lock()

    @property
    def releases(self) -> int:
        """Return how many releases were counted."""
        return self._counts.total()

    def profile(self) -> PrivacyProfile:
        """Return the profile of all releases together; refused if there are none, or if their adjacency differs."""
        require(self._counts, "odometer", "have counted a release", "none")
        first, *others = (request.profile.repeat(n) for request, n in self._counts.items())
        return first.compose(*others)

    def epsilon(self, delta: float) -> float:
        """Return ε of all releases together at δ, 0 without releases. Valid only if sizes did not depend on answers."""
        return float(self.profile().epsilon(delta)) if self._counts else 0.0

    def delta(self, epsilon: float) -> float:
        """Return δ of all releases together at ε, 0 without releases. Valid only if sizes did not depend on answers."""
        return float(self.profile().delta(epsilon)) if self._counts else 0.0

    def report(self, *, delta: float = 1e-6) -> str:
        """State the number of releases and their cost, with the conditions, in words."""
        cost = f"epsilon = {self.epsilon(delta):.6g} at delta = {delta:g}, {_LABEL}"
        return "\n".join((f"{self.releases} releases in this process: {cost}.", *_LIMITS))

    def __str__(self) -> str:
        return self.report()

    def _count(self, mechanism: Any) -> None:
        request = Request.of(mechanism)
        with self._lock:
            self._counts[request] += 1


@contextmanager
def odometer() -> Iterator[Odometer]:
    """Count every release of this process inside the block, those of other threads included.

    The total is **valid only if sizes did not depend on answers**; a `Ledger` is valid always. Scores and
    ``best_params_`` of a grid search on private data are not private, whatever the total says. Releases in other
    processes are not counted: give joblib its backend "threading" to have its workers counted.

    Examples
    --------
    >>> import ndis
    >>> mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    >>> with ndis.ledger.odometer() as spent:
    ...     for _ in range(10):
    ...         release = mechanism.release(3.0)
    >>> spent.releases, round(spent.epsilon(1e-6), 3)
    (10, 3.525)
    """
    counter = Odometer()
    with listening(counter._count):
        yield counter
