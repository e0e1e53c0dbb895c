"""From any source to the exact Gram matrix."""

from __future__ import annotations

from typing import Any

from ndis.errors import ParameterError
from ndis.gram.accumulator import Gram, GramAccumulator
from ndis.gram.cluster import dask_gram, is_dask
from ndis.gram.layout import DEFAULT_FRACTIONAL_BITS
from ndis.gram.poisson import PoissonRows
from ndis.gram.schema import choose_columns, layout_for
from ndis.gram.sources import open_source

__all__ = ["exact_gram"]


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
        The private rows. A folder stands for the files that `ndis.gram.paths` names. Dask collections are reduced
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
    public: dict[str, Any] = {
        "row_norm_bound": row_norm_bound,
        "target_bound": target_bound,
        "intercept": intercept,
        "fractional_bits": fractional_bits,
    }
    if is_dask(data):
        if device is not None:
            raise ParameterError("device", "be left out for dask collections", device)
        if header:
            raise ParameterError("header", "be left out for data other than CSV files", header)
        return dask_gram(data, columns=columns, targets=targets, sample=sample, **public)
    source = open_source(data, columns=columns, header=header, progress=progress)
    groups = choose_columns(source, columns, targets)
    accumulator = GramAccumulator(layout_for(source, groups, **public), device=device or source.device)
    for parts in source.read(groups):
        for block in (parts,) if sample is None else sample.blocks(parts):
            accumulator.update(*block)
    return accumulator.finish()
