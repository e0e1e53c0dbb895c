"""Sum the exact Gram matrix of any source, of all rows or of a sample of them. Data are read where they live."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndis.data import open_rows
from ndis.data.table import Parts, rows_per_read
from ndis.errors import ParameterError
from ndis.gram.accumulator import Gram, GramAccumulator, total
from ndis.gram.rows import DEFAULT_FRACTIONAL_BITS, layout_for

if TYPE_CHECKING:
    from ndis.noise.bits import RandomBits


def exact_gram(
    data: Any,
    *,
    row_norm_bound: float,
    columns: Any = None,
    targets: Any = None,
    header: bool = False,
    target_bound: float | None = None,
    intercept: float | None = None,
    fractional_bits: int = DEFAULT_FRACTIONAL_BITS,
    device: str | None = None,
    progress: bool | None = None,
    sample: PoissonRows | None = None,
) -> Gram:
    """Clip rows, round them onto their grid and return the exact integer Gram matrix.

    The result has the same bits however the rows are stored, split or ordered, and on every engine (thm:exact-gram).

    Parameters
    ----------
    data : array, sparse matrix, data frame, Arrow table, tensor, dask collection, path, list of paths, or pair (X, y)
        The private rows. A folder stands for the files that `ndis.data.paths` names. Dask collections are reduced
        where they live, and so is a tensor on a CUDA device. A row with a missing, NaN or infinite entry becomes a
        zero row.
    row_norm_bound : float
        Public bound: the features of a row are clipped to this Euclidean norm.
    columns : names or numbers, optional
        The feature columns; by default all but the targets. For CSV files without a header: the names of all columns,
        from left to right, with None for a column that is not read.
    targets : names or numbers, optional
        The target columns, which are clipped on their own.
    header : bool
        The first line of every CSV file holds names, which are public. Without it every line is a record.
    target_bound : float, optional
        Public bound of the target part of a row.
    intercept : float, optional
        Value of a constant column to append.
    fractional_bits : int
        k: each part of a row lies on the grid bound·2⁻ᵏ.
    device : str, optional
        A torch device to send the rows to, ``"cuda"``.
    progress : bool, optional
        Show a progress bar for files; by default if standard error is a terminal.
    sample : PoissonRows, optional
        Keep each row on its own with a probability; by default all rows.

    Returns
    -------
    Gram
        Private: exact, without noise.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[0.5, 0.0], [3.0, 4.0]])
    >>> gram = exact_gram(rows, row_norm_bound=1.0, fractional_bits=10)
    >>> gram.integers.tolist()
    [[637913, 501434], [501434, 669124]]
    >>> gram.layout.joint_norm_bound
    1.0
    """
    rows = open_rows(data, columns=columns, targets=targets, header=header, progress=progress)
    if rows.is_dask and sample is not None and not sample.private:
        raise ParameterError("random_state", "be left out for a sample of a dask collection", "a seed")
    grid: dict[str, Any] = {"intercept": intercept, "fractional_bits": fractional_bits}
    layout = layout_for(rows, row_norm_bound=row_norm_bound, target_bound=target_bound, **grid)
    blocks = (lambda parts: (parts,)) if sample is None else sample.blocks
    whole: GramAccumulator = total(rows, lambda where: GramAccumulator(layout, device=where), device, blocks)
    return whole.finish()


# ---------------------------------------------------------------------- a sample, by random bits only

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
