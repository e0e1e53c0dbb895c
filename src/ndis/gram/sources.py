"""Where rows come from: arrays, frames, tables, tensors and files, each opened as a `Source`.

Opening checks types and shapes. No check looks at a value.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.errors import ParameterError
from ndis.gram.arrow import arrow_matrix, arrow_schema, decimal_numbers, is_number
from ndis.gram.columns import pandas_cells
from ndis.gram.files import file_source
from ndis.gram.schema import Groups, Parts, Source, check_dtype, choose_columns, matrix_width, pick, rows_per_read

__all__ = ["is_paths", "open_source"]


def open_source(data: Any, *, columns: Any = None, header: bool = False, progress: bool | None = None) -> Source:
    """Open arrays, sparse matrices, frames, tables, tensors or file paths, or a table with its schema.

    `columns` and `header` say what the columns of a CSV file are called; see `ndis.gram.files.file_source`.

    >>> open_source(np.zeros((3, 2))).width
    2
    """
    if isinstance(data, Source):
        return data
    if hasattr(type(data), "__ndis_source__"):  # a table with its schema, `ndis.schema.Table`
        if header:
            remedy = "schema.table(data, header=True)"
            raise ParameterError("header", "be part of the table with its schema", header, remedy)
        opened: Source = data.__ndis_source__(progress=progress)
        return opened
    if isinstance(data, tuple) and len(data) == 2:
        if any(isinstance(part, str | os.PathLike) for part in data):
            raise ParameterError("data", "be a pair (X, y) in memory", "paths", "pass a list of paths and name targets")
        return _pair(*(open_source(part) for part in map(_as_matrix, data)))
    if isinstance(data, str | os.PathLike) or is_paths(data):
        return file_source(data, columns=columns, header=header, progress=progress)
    if header:
        raise ParameterError("header", "be left out for data other than CSV files", header)
    module = type(data).__module__.partition(".")[0]
    if isinstance(data, np.ndarray):
        return _array(data)
    openers = {"scipy": _sparse, "pandas": _pandas, "polars": _polars, "pyarrow": _arrow, "torch": _torch}
    if module in openers:
        return openers[module](data)
    if module in ("dask", "dask_expr"):
        remedy = "RandomProjection.release reduces one, with its targets named among its columns"
        raise ParameterError("data", "be in memory or in files here", "a dask collection", remedy)
    raise ParameterError(
        "data",
        "be an array, a sparse matrix, a data frame, an Arrow table, a tensor, a dask collection or a path",
        type(data).__name__,
    )


def is_paths(data: Any) -> bool:
    """Whether ``data`` is a list of paths."""
    return isinstance(data, list) and bool(data) and all(isinstance(p, str | os.PathLike) for p in data)


def _as_matrix(part: Any) -> Any:
    """A vector of targets, a series included, as one column."""
    if getattr(part, "ndim", 2) != 1:
        return part
    if hasattr(part, "to_frame"):
        return part.to_frame()
    return part.reshape(-1, 1)


def _pair(left: Source, right: Source) -> Source:
    whole = choose_columns(left, None, None), choose_columns(right, None, None)  # all columns, or a refusal by name

    def read(groups: Groups) -> Iterator[Parts]:
        # The two sides may cut their rows differently, so each is joined first; both are in memory anyway.
        x = _join([block for (block,) in left.read(whole[0])], left.width)
        y = _join([block for (block,) in right.read(whole[1])], right.width)
        if len(x) != len(y):
            raise ParameterError("data", "be a pair (X, y) with equally many rows", "another number in y")
        yield x, y

    names = left.names + right.names if left.names and right.names else ()
    if len(set(names)) < len(names):
        names = ()
    return Source(left.width + right.width, read, names, target_width=right.width, device=left.device)


def _join(blocks: list[Any], width: int) -> Any:
    return blocks[0] if len(blocks) == 1 else np.concatenate([np.empty((0, width)), *blocks])


def _array(x: NDArray[Any]) -> Source:
    if isinstance(x, np.ma.MaskedArray):
        raise ParameterError("data", "be a plain array", "a masked array", "fill masked entries with NaN")
    width = matrix_width(x.shape)
    check_dtype(x.dtype)
    plain = np.asarray(x)

    def read(groups: Groups) -> Iterator[Parts]:
        yield tuple(pick(plain, g) for g in groups)

    return Source(width, read)


def _sparse(x: Any) -> Source:
    from scipy.sparse import issparse

    if not issparse(x):
        raise ParameterError("data", "be a SciPy sparse matrix or array", type(x).__name__)
    width = matrix_width(x.shape)
    check_dtype(x.dtype)
    rows = x.tocsr()
    step = rows_per_read(width)

    def read(groups: Groups) -> Iterator[Parts]:
        for start in range(0, rows.shape[0], step):
            block = rows[start : start + step].toarray()
            yield tuple(pick(block, g) for g in groups)

    return Source(width, read)


def _pandas(frame: Any) -> Source:
    import pandas as pd
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    width = matrix_width(frame.shape)
    names = tuple(str(c) for c in frame.columns)

    def holds_numbers(dtype: Any) -> bool:
        if isinstance(dtype, pd.ArrowDtype):
            return is_number(dtype.pyarrow_dtype)
        plain = (is_numeric_dtype(dtype) or is_bool_dtype(dtype)) and not is_complex_dtype(dtype)
        return plain and not isinstance(dtype, pd.CategoricalDtype) and getattr(dtype, "itemsize", 8) <= 8

    refused = {i: f"dtype {dtype}" for i, dtype in enumerate(frame.dtypes) if not holds_numbers(dtype)}
    if len(set(names)) < len(names):
        raise ParameterError("data", "have columns of different names", "a name twice")
    step = rows_per_read(width)

    def numbers(rows: Any, group: tuple[int, ...]) -> Any:
        if any(isinstance(frame.dtypes.iloc[i], pd.ArrowDtype) for i in group):
            return np.stack([pandas_cells(rows.iloc[:, i], True) for i in group], axis=1)
        return rows.iloc[:, list(group)].to_numpy(dtype=np.float64, na_value=np.nan)

    def read(groups: Groups) -> Iterator[Parts]:
        for start in range(0, len(frame), step):
            rows = frame.iloc[start : start + step]
            with np.errstate(all="ignore"):
                parts = tuple(numbers(rows, g) for g in groups)
            yield parts

    return Source(width, read, names, refused)


def _polars(frame: Any) -> Source:
    import polars as pl

    if not isinstance(frame, pl.DataFrame):
        raise ParameterError("data", "be a polars DataFrame", type(frame).__name__, "collect it, or pass the path")
    width = matrix_width(frame.shape)
    kinds = enumerate(frame.dtypes)
    # The base type, for the type of categories would list them.
    refused = {i: f"dtype {kind.base_type()}" for i, kind in kinds if not (kind.is_numeric() or kind == pl.Boolean)}
    step = rows_per_read(width)

    def column(rows: Any, i: int) -> Any:
        cells = rows.to_series(i)
        if cells.dtype == pl.Decimal:
            return decimal_numbers(cells.to_arrow())  # one rule for decimals, wherever they come from
        return cells.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()

    def read(groups: Groups) -> Iterator[Parts]:
        for start in range(0, frame.height, step):
            rows = frame.slice(start, step)
            yield tuple(np.stack([column(rows, i) for i in g], axis=1) for g in groups)

    return Source(width, read, tuple(frame.columns), refused)


def _arrow(table: Any) -> Source:
    import pyarrow as pa

    if not isinstance(table, pa.Table | pa.RecordBatch):
        raise ParameterError("data", "be an Arrow table or record batch", type(table).__name__)
    names, refused = arrow_schema(table.schema, "data")
    batches = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
    step = rows_per_read(len(names))

    def read(groups: Groups) -> Iterator[Parts]:
        for batch in batches.to_batches(max_chunksize=step):
            yield tuple(arrow_matrix(batch, g) for g in groups)

    return Source(len(names), read, names, refused)


def _torch(tensor: Any) -> Source:
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise ParameterError("data", "be a torch tensor", type(tensor).__name__)
    width = matrix_width(tuple(tensor.shape))
    if tensor.is_complex() or tensor.layout != torch.strided:
        raise ParameterError("data", "be a dense tensor of real numbers", f"{tensor.dtype}, {tensor.layout}")
    rows = tensor.detach()
    if rows.device.type == "cpu":
        return _array((rows.float() if rows.dtype in (torch.bfloat16, torch.float16) else rows).numpy())

    def read(groups: Groups) -> Iterator[Parts]:
        yield tuple(pick(rows, g) for g in groups)

    return Source(width, read, device=str(rows.device))
