"""The one line that every release goes through: reserve before data is read, commit when it is out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ndis.errors import ParameterError
from ndis.ledger.odometer import count_release
from ndis.ledger.store import Entry

if TYPE_CHECKING:
    from ndis.ledger.ledger import Ledger

__all__ = ["Charge", "charged"]


@dataclass
class Charge:
    """A release that is under way, and its reservation if it has one."""

    ledger: Ledger | None = None
    entry: Entry | None = None

    def seal(self) -> dict[str, Any] | None:
        """What the receipt carries: the data set, the entry and its digest; None without a ledger."""
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
        count_release(request)
        yield Charge()
        return
    if not private:
        raise ParameterError("random_state", "be None for a release that a ledger pays", "a seed")
    from ndis.ledger.ledger import Ledger

    book = Ledger(ledger)
    entry = book.reserve(slot, request)
    count_release(request)
    yield Charge(book, entry)
    book.commit(entry)
