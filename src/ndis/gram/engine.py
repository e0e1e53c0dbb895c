"""From any source to an exact sum: data are opened once, and every pass reads them where they live."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ndis.data import Rows, open_rows
from ndis.data.table import Parts
from ndis.errors import ParameterError
from ndis.gram.accumulator import Gram, GramAccumulator
from ndis.gram.layout import DEFAULT_FRACTIONAL_BITS, layout_for
from ndis.gram.poisson import PoissonRows

__all__ = ["exact_gram", "opened_rows", "total"]


def opened_rows(data: Any, *, device: str | None = None, **how: Any) -> Rows:
    """Open data and choose columns by the arguments of `exact_gram`."""
    rows = open_rows(data, **how)
    if rows.is_dask and device is not None:
        raise ParameterError("device", "be left out for dask collections", device)
    return rows


def total(
    rows: Rows,
    make: Callable[[str | None], Any],
    device: str | None,
    blocks: Callable[[Parts], Iterable[Parts]] = lambda parts: (parts,),
) -> Any:
    """Make one pass: feed ``blocks`` of all rows to the accumulators that ``make`` makes, and return their sum."""

    def fed(accumulator: Any, stream: Iterator[Parts], **how: Any) -> Any:
        for parts in stream:
            for block in blocks(parts):
                accumulator.update(*block, **how)
        return accumulator

    def merged(accumulators: list[Any]) -> Any:
        whole = make(None)
        for one in accumulators:
            whole.merge(one)
        return whole

    if not rows.is_dask:
        return fed(make(device or rows.device), rows.blocks())
    return rows.reduced(lambda stream: fed(make(None), stream, threads=1), merged)  # the scheduler keeps all cores busy


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
    rows = opened_rows(data, columns=columns, targets=targets, header=header, device=device, progress=progress)
    if rows.is_dask and sample is not None and not sample.private:
        raise ParameterError("random_state", "be left out for a sample of a dask collection", "a seed")
    layout = layout_for(
        rows,
        row_norm_bound=row_norm_bound,
        target_bound=target_bound,
        intercept=intercept,
        fractional_bits=fractional_bits,
    )

    def blocks(parts: Parts) -> Iterable[Parts]:
        return (parts,) if sample is None else sample.blocks(parts)

    whole: GramAccumulator = total(rows, lambda where: GramAccumulator(layout, device=where), device, blocks)
    return whole.finish()
