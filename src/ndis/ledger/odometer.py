"""Count the releases of one process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ndis._validate import require
from ndis.ledger.accounts import Request
from ndis.mechanisms.mechanism import listening
from ndis.profile import PrivacyProfile

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
        self._counts: dict[Request, int] = {}
        self._names: list[str] = []
        self._lock = threading.Lock()

    @property
    def releases(self) -> int:
        """Return how many releases were counted."""
        return len(self._names)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """List the names of the mechanisms, in order."""
        return tuple(self._names)

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
            self._counts[request] = self._counts.get(request, 0) + 1
            self._names.append(str(request.details["mechanism"]))


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
