"""Sample rows while they stream: each row enters on its own, and only random bits decide."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndis.data.table import Parts, rows_per_read
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.noise.bits import RandomBits

__all__ = ["LEAST_RATE", "PoissonRows"]

_WIDTH = 64  # bits a row's decision takes
LEAST_RATE = 2.0**-40  # from here on the rate in use is within 2⁻²⁴ of the one asked for, by which estimates divide
_READS = 8  # reads' worth of rows in one block, so that every core has some


class PoissonRows:
    """Keeps each row with probability ⌊rate·2⁶⁴⌋/2⁶⁴: never more than ``rate``, and less by under 2⁻⁶⁴.

    Parameters
    ----------
    rate : float
        From 2⁻⁴⁰ to 1; public.
    bits : RandomBits

    Examples
    --------
    >>> from ndis.noise.bits import SystemBits
    >>> PoissonRows(1.0, SystemBits()).mask(3).tolist()
    [True, True, True]
    """

    def __init__(self, rate: float, bits: RandomBits) -> None:
        if not LEAST_RATE <= rate <= 1:
            raise ParameterError("rate", "be at least 2^-40 and at most 1", rate)
        self._below = int(Fraction(rate) * 2**_WIDTH)
        self._bits = bits

    @property
    def private(self) -> bool:
        """Return whether the choice can neither be known nor repeated."""
        return self._bits.private

    def mask(self, rows: int) -> NDArray[np.bool_]:
        """Return True for the rows that enter."""
        if self._below >> _WIDTH or not rows:
            return np.ones(rows, dtype=np.bool_)
        (drawn,) = self._bits.take(1, width=_WIDTH * rows)
        uniform = np.frombuffer(drawn.to_bytes(_WIDTH // 8 * rows, "big"), dtype=">u8")
        return np.asarray(uniform < np.uint64(self._below))

    def blocks(self, parts: Parts) -> Iterator[Parts]:
        """The rows of ``parts`` that enter, in blocks, so that no copy of all of them is made."""
        step = _READS * rows_per_read(sum(piece.shape[1] for piece in parts))
        for start in range(0, len(parts[0]), step):
            here = tuple(piece[start : start + step] for piece in parts)
            mask = self.mask(len(here[0]))
            yield tuple(piece[_like(mask, piece)] for piece in here)


def _like(mask: NDArray[np.bool_], piece: Any) -> Any:
    if isinstance(piece, np.ndarray):
        return mask
    import torch

    return torch.from_numpy(mask).to(piece.device)
