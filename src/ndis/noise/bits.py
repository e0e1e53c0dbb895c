"""Draw random bits from the operating system, or from a seed that marks everything built from it as not private."""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np

from ndis._validate import warn_caller
from ndis.errors import NotPrivateWarning, ParameterError

__all__ = ["RandomBits", "SeededBits", "SystemBits", "random_bits"]


class RandomBits(Protocol):
    """This is a stream of independent fair bits."""

    @property
    def private(self) -> bool:
        """Say if the bits cannot be known or repeated."""

    def take(self, count: int, *, width: int) -> list[int]:
        """``count`` integers of ``width`` bits each; ``width`` is a multiple of 8."""


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
    if isinstance(random_state, bool) or not isinstance(random_state, kinds):
        raise ParameterError(
            "random_state", "be None, an integer or a NumPy random generator", type(random_state).__name__
        )
    if isinstance(random_state, int | np.integer) and random_state < 0:
        raise ParameterError("random_state", "not be negative", random_state)
    warn_caller(
        "random_state makes the result reproducible, and therefore not private; leave it out for a release",
        NotPrivateWarning,
    )
    return SeededBits(random_state)


def _integers(raw: bytes, width: int) -> list[int]:
    step = width // 8
    return [int.from_bytes(raw[i : i + step], "big") for i in range(0, len(raw), step)]
