"""Where rows come from: one small value per source, opened by its schema alone.

A `Source` knows the names and the number of its columns, which are public, and can be read more than once. Opening
checks types and shapes; no check ever looks at a value.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.errors import ParameterError
from ndis.gram.arrow import arrow_matrix, arrow_schema, decimal_numbers
from ndis.gram.cells import kind_of

__all__ = [
    "Groups",
    "Parts",
    "Source",
    "check_dtype",
    "choose_columns",
    "matrix_width",
    "open_source",
    "pick",
    "rows_per_read",
]

Groups = tuple[tuple[int, ...], ...]  # column numbers of the features, then of the targets if any
Parts = tuple[Any, ...]  # one matrix per group


@dataclass(frozen=True)
class Source:
    """Rows with a public schema.

    Parameters
    ----------
    width : int
        Number of columns.
    read : callable
        ``read(groups)`` yields blocks: for every group of column numbers a matrix with those columns.
    names : tuple of str
        Names of the columns, or empty.
    refused : mapping
        Column number → type of the columns that do not hold real numbers, and so cannot be chosen.
    target_width : int
        How many of the last columns came as separate targets.
    device : str, optional
        The torch device the rows live on.
    unread : set of int
        Columns that are features only if they are chosen.
    named : bool
        Whether the caller's `columns` named all columns, and so choose none.
    quotable : bool
        Whether a message may list the names. A first line of a CSV file may be a record after all.
    """

    width: int
    read: Callable[[Groups], Iterator[Parts]]
    names: tuple[str, ...] = ()
    refused: Mapping[int, str] = field(default_factory=dict)
    target_width: int = 0
    device: str | None = None
    unread: frozenset[int] = frozenset()
    named: bool = False
    quotable: bool = True


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
    if isinstance(data, str | os.PathLike) or _is_paths(data):
        from ndis.gram.files import file_source

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


def choose_columns(source: Source, columns: Any, targets: Any) -> Groups:
    """Return the column numbers of the features and the targets.

    >>> choose_columns(open_source(np.zeros((3, 4))), None, [2])
    ((0, 1, 3), (2,))
    """
    groups = _groups(source, columns, targets)
    for i in (i for group in groups for i in group):
        if i in source.refused:
            label = repr(source.names[i]) if source.names else str(i)
            raise ParameterError(f"column {label}", "hold real numbers", source.refused[i], "choose columns without it")
    return groups


def _groups(source: Source, columns: Any, targets: Any) -> Groups:
    if source.target_width:
        if columns is not None or targets is not None:
            raise ParameterError("columns and targets", "be left out when data is a pair (X, y)", "columns or targets")
        cut = source.width - source.target_width
        return tuple(range(cut)), tuple(range(cut, source.width))
    chosen = () if targets is None else _indices(source, targets, "targets")
    features = (
        tuple(i for i in range(source.width) if i not in {*chosen, *source.unread})
        if columns is None or source.named
        else _indices(source, columns, "columns")
    )
    if not features:
        raise ParameterError("columns", "leave at least one feature", "none")
    if len(set(features + chosen)) != len(features) + len(chosen):
        raise ParameterError("columns and targets", "name each column once", "a column named twice")
    return (features, chosen) if chosen else (features,)


def rows_per_read(width: int) -> int:
    """Rows of one read: about 2²⁰ entries, so that memory does not grow with the data."""
    return max(1024, (1 << 20) // max(width, 1))


def pick(matrix: Any, columns: tuple[int, ...]) -> Any:
    """Columns of a matrix; a view where they are consecutive."""
    if columns == tuple(range(columns[0], columns[0] + len(columns))):
        return matrix[:, columns[0] : columns[0] + len(columns)]
    if str(matrix.dtype) in ("torch.uint16", "torch.uint32", "torch.uint64"):
        matrix = matrix.double()  # torch selects columns of these on no device; the rows become float64 in any case
    return matrix[:, list(columns)]


def _indices(source: Source, wanted: Any, name: str) -> tuple[int, ...]:
    items: list[Any] = list(wanted) if isinstance(wanted, Iterable) and not isinstance(wanted, str) else [wanted]
    result = []
    for item in items:
        if isinstance(item, str) and item and item in source.names:
            result.append(source.names.index(item))
        elif isinstance(item, int | np.integer) and not isinstance(item, bool) and 0 <= item < source.width:
            result.append(int(item))
        else:
            known = f"numbers from 0 to {source.width - 1}"
            if source.names:
                known = f"names among {list(source.names)}" if source.quotable else "names of the file, or " + known
            raise ParameterError(name, f"be column {known}", repr(item))
    return tuple(result)


def _is_paths(data: Any) -> bool:
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


def matrix_width(shape: tuple[int, ...]) -> int:
    """The number of columns of a matrix; other shapes are refused."""
    if len(shape) != 2:
        remedy = "a single column is data.reshape(-1, 1)" if len(shape) == 1 else ""
        raise ParameterError("data", "have two dimensions, rows and columns", f"{len(shape)} dimension(s)", remedy)
    if shape[1] == 0:
        raise ParameterError("data", "have at least one column", "none")
    return shape[1]


def check_dtype(dtype: Any, name: str = "data") -> None:
    """Refuse types of NumPy that do not hold real numbers."""
    if not isinstance(dtype, np.dtype) or dtype.kind not in "fiub" or dtype.itemsize > 8:
        raise ParameterError(name, "hold real numbers of at most 64 bits", kind_of(dtype))


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
    refused = {
        i: f"dtype {dtype}"
        for i, dtype in enumerate(frame.dtypes)
        if not (is_numeric_dtype(dtype) or is_bool_dtype(dtype))
        or is_complex_dtype(dtype)
        or isinstance(dtype, pd.CategoricalDtype)
        or getattr(dtype, "itemsize", 8) > 8
    }
    if len(set(names)) < len(names):
        raise ParameterError("data", "have columns of different names", "a name twice")
    step = rows_per_read(width)

    def read(groups: Groups) -> Iterator[Parts]:
        for start in range(0, len(frame), step):
            rows = frame.iloc[start : start + step]
            with np.errstate(all="ignore"):
                parts = tuple(rows.iloc[:, list(g)].to_numpy(dtype=np.float64, na_value=np.nan) for g in groups)
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
