"""Draw random bits from the operating system, and from them standard normals to any number of digits, and batches.

Bits may come from a seed instead, which marks everything built from it as not private.

A normal is z = ±√2·erfc⁻¹(V) for a fair sign and a uniform real V in (0, 1). At any time only a prefix of V's binary
digits has been drawn. If the caller asks for more precision, further digits are drawn behind it. The real number never
changes; only its enclosure shrinks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from ndis._balls import precision
from ndis._validate import as_count, require, warn_caller
from ndis.errors import NotPrivateWarning

_MORE_BITS = 64  # drawn at a time
_GUARD_BITS = 12
_UNIT_BALL = arb(0, 1)


class SystemBits:
    """The bits are those of the operating system's generator."""

    private = True

    def take(self, count: int, *, width: int) -> list[int]:
        """``count`` integers of ``width`` bits each."""
        return _integers(os.urandom(count * width // 8), width)


class SeededBits:
    """The bits are reproducible, for tests.

    >>> SeededBits(0).take(2, width=8) == SeededBits(0).take(2, width=8)
    True
    """

    private = False

    def __init__(self, seed: Any) -> None:
        self._generator = np.random.default_rng(seed)

    def take(self, count: int, *, width: int) -> list[int]:
        """``count`` integers of ``width`` bits each."""
        return _integers(self._generator.bytes(count * width // 8), width)


RandomBits = SystemBits | SeededBits  # streams of independent fair bits; `private` if they cannot be known or repeated


def random_bits(random_state: Any = None) -> RandomBits:
    """Return the operating system's bits for None. For anything else, seeded bits and a warning.

    Parameters
    ----------
    random_state : None, int, numpy.random.Generator, RandomState, BitGenerator, SeedSequence, or bits made here
        A RandomState gives a seed, and so moves on.
    """
    if random_state is None:
        return SystemBits()
    if isinstance(random_state, SystemBits | SeededBits):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        random_state = int.from_bytes(random_state.bytes(16), "big")
    kinds = int | np.integer | np.random.Generator | np.random.BitGenerator | np.random.SeedSequence
    known, rule = isinstance(random_state, kinds), "be None, an integer or a NumPy random generator"
    require(known and not isinstance(random_state, bool), "random_state", rule, type(random_state).__name__)
    whole = isinstance(random_state, int | np.integer)
    require(not whole or random_state >= 0, "random_state", "not be negative", random_state)
    warn_caller(
        "random_state makes the result reproducible, and therefore not private; leave it out for a release",
        NotPrivateWarning,
    )
    return SeededBits(random_state)


def _integers(raw: bytes, width: int) -> list[int]:
    step = width // 8
    return [int.from_bytes(raw[i : i + step], "big") for i in range(0, len(raw), step)]


# ---------------------------------------------------------------------- normals


class LazyNormals:
    """``count`` independent standard normals.

    Parameters
    ----------
    count : int
    bits : RandomBits

    Examples
    --------
    >>> from ndis.noise.bits import SeededBits
    >>> normals = LazyNormals(2, SeededBits(1))
    >>> coarse, fine = normals.fixed_point([0], 20), normals.fixed_point([0], 300)
    >>> -1 <= coarse[0] - (fine[0] >> 280) <= 1
    True
    """

    def __init__(self, count: int, bits: RandomBits) -> None:
        self._bits = bits
        self._width = [2 * _MORE_BITS] * count
        self._prefix = bits.take(count, width=2 * _MORE_BITS)  # sign bit, then digits of V

    def fixed_point(self, which: Iterable[int], digits: int) -> list[int]:
        """Return integers within one unit of z·2^digits, for the normals numbered ``which``."""
        with precision(digits + _GUARD_BITS):
            scale = arb(2).sqrt() * arb((1, digits))
            return [self._one(i, digits, scale) for i in which]

    def _one(self, i: int, digits: int, scale: arb) -> int:
        """Return one normal number on a grid, from as many random bits as it needs."""
        magnitude, guard = nearest_integer(self._uniform(i).erfcinv() * scale), _GUARD_BITS
        while magnitude is None:  # the ball is wider than a unit: more digits of V, more precision
            guard += _MORE_BITS
            self._extend(i)
            with precision(digits + guard):
                magnitude = nearest_integer(self._uniform(i).erfcinv() * arb(2).sqrt() * arb((1, digits)))
        return -magnitude if self._prefix[i] >> (self._width[i] - 1) else magnitude

    def _uniform(self, i: int) -> arb:
        """Return the enclosure of V: all reals whose digits start with the prefix."""
        w = self._width[i] - 1
        v = self._prefix[i] & ((1 << w) - 1)
        return (arb(2 * v + 1) + _UNIT_BALL) * arb((1, -w - 1))

    def _extend(self, i: int) -> None:
        (more,) = self._bits.take(1, width=_MORE_BITS)
        self._prefix[i] = self._prefix[i] << _MORE_BITS | more
        self._width[i] += _MORE_BITS


def nearest_integer(x: arb) -> int | None:
    """An integer within one unit of every point of the ball, or None if the ball is wider than that.

    >>> nearest_integer(arb(7.3, 0.25)), nearest_integer(arb(7.3, 2))
    (7, None)
    """
    if not x.rad() <= 0.5:  # false for NaN too
        return None
    man, exp = map(int, x.mid().man_exp())
    return man << exp if exp >= 0 else ((man >> (-exp - 1)) + 1) >> 1


# ---------------------------------------------------------------------- batches


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
    whole = 2**_MORE_BITS // below * below
    drawn: list[int] = []
    while len(drawn) < count:
        drawn += [x % below for x in bits.take(count - len(drawn), width=_MORE_BITS) if x < whole]
    return np.array(drawn, dtype=np.int64)
