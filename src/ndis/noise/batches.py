"""Draw the batches of one epoch with secret randomness: every record goes to one batch, on its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import as_count
from ndis.noise.bits import RandomBits, random_bits

_WIDTH = 64  # bits of one draw


def allocation_batches(records: int, bins: int, random_state: Any = None) -> Iterator[NDArray[np.int64]]:
    """Return the batches of one epoch of random allocation (balls and bins), as arrays of record numbers.

    Each record goes to one of the batches with equal chances, on its own. Batches have the sizes that fall, and may be
    empty: an empty one is still a step, with noise. `ndis.PrivacyProfile.from_allocation` says how private a loop over
    these batches is (thm:allocation). Call the function again for every epoch.

    Parameters
    ----------
    records : int
        Number of records, numbered from 0.
    bins : int
        Number of batches.
    random_state : optional
        For tests only: it makes the batches reproducible, and therefore not private. By default the operating system
        draws.

    Returns
    -------
    iterator of arrays
        The record numbers of each batch, in increasing order.

    Examples
    --------
    >>> import numpy as np
    >>> import ndis
    >>> batches = list(ndis.allocation_batches(10, 3))
    >>> len(batches), sorted(np.concatenate(batches).tolist())
    (3, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    places = _uniform(as_count("records", records), as_count("bins", bins), random_bits(random_state))
    order = np.argsort(places, kind="stable")
    return iter(np.split(order, np.searchsorted(places[order], np.arange(1, bins))))


def _uniform(count: int, below: int, bits: RandomBits) -> NDArray[np.int64]:
    """Return independent whole numbers below a bound, all equally likely: draws above a multiple of it are repeated."""
    whole = 2**_WIDTH // below * below
    drawn: list[int] = []
    while len(drawn) < count:
        drawn += [x % below for x in bits.take(count - len(drawn), width=_WIDTH) if x < whole]
    return np.array(drawn, dtype=np.int64)
