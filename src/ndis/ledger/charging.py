"""Every release reserves before data is read, commits when it is out, and tells the odometers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ndis.errors import ParameterError
from ndis.ledger.requests import as_profile, described, profile_digest
from ndis.ledger.store import Entry
from ndis.profile import PrivacyProfile

if TYPE_CHECKING:
    from ndis.ledger.ledger import Ledger

__all__ = ["Charge", "Odometer", "charged", "odometer"]

_LABEL = "valid only if sizes did not depend on answers"
_LIMITS = (
    "Scores and best_params_ of a search on private data are not private, and are not counted here.",
    "Releases of other processes are not counted (joblib's backends 'loky' and 'multiprocessing' are other processes).",
)

# The words of an interrupt after the reservation.
SPENT = "the ledger had reserved this release, and what it reserved counts as spent"

_lock = threading.Lock()
_running: list[Odometer] = []


@dataclass
class Charge:
    """A release that is under way, and its reservation if it has one."""

    ledger: Ledger | None = None
    entry: Entry | None = None

    def seal(self) -> dict[str, Any] | None:
        """The part of a receipt that names the data set, the entry and its digest; None without a ledger."""
        if self.ledger is None or self.entry is None:
            return None
        return {"data_name": self.ledger.data_name, "entry": self.entry.number, "head": self.entry.digest}


@contextmanager
def charged(
    request: Any, *, ledger: str | os.PathLike[str] | None, slot: str | None, private: bool = True
) -> Iterator[Charge]:
    """Reserve before the block and commit after it. Without a ledger only the odometers count.

    If the block raises, the reservation stays and counts as spent.

    Parameters
    ----------
    request : mechanism
        What will be released.
    ledger : path, optional
        The ledger that pays.
    slot : str, optional
        The slot of a plan; for the other kinds a label, or None.
    private : bool
        False if a seed makes the release reproducible. A ledger refuses such a release: it would break the guarantee.

    Examples
    --------
    >>> import ndis
    >>> mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    >>> with charged(mechanism, ledger=None, slot=None) as charge:
    ...     charge.seal() is None
    True
    """
    if ledger is None:
        if slot is not None:
            raise ParameterError("slot", "come with a ledger", repr(slot), "pass ledger= as well")
        _count(request)
        yield Charge()
        return
    if not private:
        raise ParameterError("random_state", "be None for a release that a ledger pays", "a seed")
    from ndis.ledger.ledger import Ledger

    book = Ledger(ledger)
    entry = book.reserve(slot, request)
    _count(request)
    try:
        yield Charge(book, entry)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(SPENT) from None
    book.commit(entry)


# ---------------------------------------------------------------------- the odometer


class Odometer:
    """Counts the releases of one process; made by `odometer`.

    The sum of exact curves bounds the releases together **only if sizes did not depend on answers**
    (thm:no-natural-filter). A `Ledger` has no such condition.
    """

    def __init__(self) -> None:
        self._counts: dict[str, tuple[PrivacyProfile, int]] = {}
        self._names: list[str] = []

    @property
    def releases(self) -> int:
        """How many releases were counted."""
        return len(self._names)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(self._names)

    def profile(self) -> PrivacyProfile:
        """The profile of all releases together; refused if there are none, or if their adjacency differs."""
        if not self._counts:
            raise ParameterError("odometer", "have counted a release", "none")
        first, *rest = (profile.repeat(n) for profile, n in self._counts.values())
        return first.compose(*rest)

    def epsilon(self, delta: float) -> float:
        """ε of all releases together at this δ; 0 if there were none. Valid only if sizes did not depend on answers."""
        return float(self.profile().epsilon(delta)) if self._counts else 0.0

    def delta(self, epsilon: float) -> float:
        """δ of all releases together at this ε; 0 if there were none. Valid only if sizes did not depend on answers."""
        return float(self.profile().delta(epsilon)) if self._counts else 0.0

    def report(self, *, delta: float = 1e-6) -> str:
        """The number of releases and their cost, with the conditions, in words."""
        cost = f"epsilon = {self.epsilon(delta):.6g} at delta = {delta:g}, {_LABEL}"
        return "\n".join((f"{self.releases} releases in this process: {cost}.", *_LIMITS))

    def __str__(self) -> str:
        return self.report()

    def _add(self, profile: PrivacyProfile, name: str) -> None:
        digest = profile_digest(profile)
        known, count = self._counts.get(digest, (profile, 0))
        self._counts[digest] = known, count + 1
        self._names.append(name)


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
    >>> with ndis.odometer() as spent:
    ...     for _ in range(10):
    ...         release = mechanism.release(3.0)
    >>> spent.releases, round(spent.epsilon(1e-6), 3)
    (10, 3.525)
    """
    found = Odometer()
    with _lock:
        _running.append(found)
    try:
        yield found
    finally:
        with _lock:
            _running[:] = [one for one in _running if one is not found]


def _count(request: Any) -> None:
    """Tell the odometers that run now of a release."""
    if not _running:
        return
    profile, name = as_profile(request), str(described(request)["mechanism"])
    with _lock:
        for one in _running:
            one._add(profile, name)
