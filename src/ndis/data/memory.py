"""Open data in memory as a table, by types only: arrays, frames, Arrow tables, mappings and tensors.

No cell raises anything, and none changes how another one is read. In particular a column has the same declared types
whether or not a cell is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.data.cells import (
    Cells,
    Coded,
    arrow_cells,
    arrow_kind,
    arrow_pieces,
    kind_of,
    objects,
    text_cuts,
    text_objects,
    unwrapped,
)
from ndis.data.table import (
    DIFFERENT,
    Groups,
    Parts,
    Table,
    Wanted,
    check_names,
    column_blocks,
    matrix_width,
    pick,
    rows_per_read,
    side_by_side,
    together,
)
from ndis.errors import ParameterError

_TEXT = {"U": "texts", "S": "texts", "T": "text"}  # arrays of NumPy; "U" and "S" may hold numbers, as lists do
_KINDS = {"b": "boolean", "i": "number", "u": "number", "f": "number", "M": "date", "O": "cells"} | _TEXT

_UNEQUAL = "be a pair (X, y) with equally many rows", "another number in y"


def memory_table(data: Any) -> Table:
    """Open data in memory.

    >>> memory_table({"a": [1, "x"], "b": np.array([True, False])}).kinds
    (frozenset({'cells'}), frozenset({'boolean'}))
    """
    module = type(data).__module__.partition(".")[0]
    if isinstance(data, np.ndarray):
        return _array(data)
    if module in _OPENERS:
        opener, types = _OPENERS[module]
        if getattr(data, "ndim", 2) == 1:  # a series, which is no frame
            matrix_width(data.shape)
        if types and type(data).__name__ not in types:
            rule = f"be a {module} {' or '.join(types)}"
            raise ParameterError("data", rule, type(data).__name__, "collect it, or pass the path")
        return opener(data)
    if isinstance(data, Mapping):  # some sparse matrices are one too
        return _mapping(data)
    known = "an array, a sparse matrix, a data frame, an Arrow table, a mapping of columns, a tensor"
    raise ParameterError("data", f"be {known}, a dask collection or a path", type(data).__name__)


def no_list(name: str, rows: Any) -> None:
    """Refuse a list of rows by its type: it declares neither a width nor a type, and no row may do so for the others.

    >>> no_list("X", [[0.5], [2.0]])
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: X must be an array, a frame or a file, or come with a schema; got a list;
    write numpy.asarray(X, dtype=float)
    """
    if isinstance(rows, list | tuple):
        rule = "be an array, a frame or a file, or come with a schema"
        raise ParameterError(name, rule, "a list", f"write numpy.asarray({name}, dtype=float)")


def no_mask(data: Any) -> None:
    """Refuse masked arrays by their type: they have two values per cell."""
    if isinstance(getattr(data, "_meta", data), np.ma.MaskedArray):
        raise ParameterError("data", "be a plain array", "a masked array", "fill masked entries with NaN")


def column_table(column: Any) -> Table:
    """Open one column: a list or an array of cells, a series, or an Arrow array."""
    table = _series_frame(column)
    if table is not None:
        return memory_table(table)
    if isinstance(column, list | tuple):
        return _array(objects(column)[:, None])
    tensor, lazy = hasattr(column, "cpu"), hasattr(column, "__dask_graph__")  # whose partitions may have other types
    plain = hasattr(column, "__array__") and isinstance(getattr(column, "dtype", None), np.dtype)
    if lazy or not (tensor or plain):
        raise ParameterError("data", "have columns that are lists, arrays or series", type(column).__name__)
    if column.ndim != 1:
        raise ParameterError("data", "have columns of one dimension", f"{column.ndim} dimension(s)")
    return _torch(column.reshape(-1, 1)) if tensor else _array(np.asanyarray(column)[:, None])


def _series_frame(column: Any) -> Any:
    """Return a series or an array of pandas or polars, or an Arrow array, as a frame; None for something else."""
    module = type(column).__module__.partition(".")[0]
    if module == "pyarrow" and hasattr(column, "type"):
        import pyarrow as pa

        return pa.table({"column": column})
    if module in ("pandas", "polars") and hasattr(column, "to_frame") and getattr(column, "ndim", 1) == 1:
        return column.to_frame(column.name if isinstance(column.name, str) and column.name else "column")
    if module == "pandas" and hasattr(column, "dtype") and getattr(column, "ndim", 0) == 1:
        import pandas as pd

        return pd.Series(column, name="column").to_frame()  # NumPy would read it by its values: a null makes floats
    return None


def is_vector(y: Any) -> bool:
    """Return whether targets are one column without a second dimension, by their type and shape."""
    return isinstance(y, list | tuple) or _series_frame(y) is not None or getattr(y, "ndim", 2) == 1


def target_table(y: Any) -> Table:
    """Open targets: a vector, a series, or whatever `memory_table` opens. A list is one column, cell by cell."""
    if isinstance(y, Table):
        return y
    if isinstance(y, list | tuple):
        return column_table([unwrapped(cell) for cell in y])
    return column_table(y) if is_vector(y) else memory_table(y)


def pair_table(x: Any, y: Any) -> Table:
    """Open a pair (X, y): the columns of y, a vector included, are separate targets."""
    no_list("X", x)
    left, right = x if isinstance(x, Table) else memory_table(x), target_table(y)
    check_lengths(x, y)
    table = side_by_side((left, right), _UNEQUAL)

    def rows(groups: Groups) -> Iterator[Parts]:
        targets = tuple(i - left.width for i in groups[1])
        yield from map(tuple, together([left.read((groups[0],)), right.read((targets,))], _UNEQUAL))

    names = left.names + (right.names or ("",) * right.width) if left.names else ()
    return Table(table.kinds, table.cells, rows, names, target_width=right.width, device=left.device)


def check_lengths(x: Any, y: Any) -> None:
    """Refuse a pair (X, y) whose numbers of rows differ, if both have one before they are read."""
    if None not in (lengths := {_length(x), _length(y)}) and len(lengths) > 1:
        raise ParameterError("data", *_UNEQUAL)


def _length(data: Any) -> int | None:
    """Return the number of rows, if the data have it before they are read."""
    if isinstance(data, Table):
        return None
    if isinstance(data, Mapping) and not hasattr(data, "shape"):  # some sparse matrices are one too
        return next(map(_length, data.values()), None)
    return int(data.shape[0]) if hasattr(data, "shape") else len(data)


# ---------------------------------------------------------------------- arrays


def _array(x: NDArray[Any]) -> Table:
    no_mask(x)
    width = matrix_width(x.shape)
    plain = np.asarray(x)
    kind = _numpy_kind(plain.dtype)

    def cells(wanted: Wanted) -> Iterator[list[Cells]]:
        columns = (text_objects(plain[:, i]) for i, _ in wanted)
        yield [column.astype(object) if plain.dtype.kind in _TEXT else column for column in columns]

    def rows(groups: Groups) -> Iterator[Parts]:
        yield tuple(pick(plain, group) for group in groups)

    numeric = kind in ("number", "boolean")
    return Table((frozenset({kind}),) * width, None if numeric else cells, rows if numeric else None)


def _numpy_kind(dtype: np.dtype[Any]) -> str:
    return kind_of(dtype) if dtype.kind == "f" and dtype.itemsize > 8 else _KINDS.get(dtype.kind, kind_of(dtype))


def _sparse(x: Any) -> Table:
    read = sparse_rows(x)
    dense = read(0, 0)  # its width and its type
    step = rows_per_read(dense.shape[1])

    def cells(wanted: Wanted) -> Iterator[list[Cells]]:
        for start in range(0, x.shape[0], step):
            yield from _array(read(start, start + step)).cells(wanted)

    return Table(_array(dense).kinds, cells)


def sparse_rows(x: Any) -> Callable[[int, int], NDArray[Any]]:
    """Return how to read rows of a sparse matrix as an array: those from a start on, before a stop.

    SciPy does not check the indices of a matrix, and its conversions write wherever they lead. Here an entry outside
    the matrix counts as none. A cell adds its entries up in their stored order. SciPy sorts all rows first if one of
    them is not sorted, and sums of floats depend on the order: one record would change the others.
    """
    from scipy.sparse import issparse

    if not issparse(x) or x.format not in ("csr", "csc", "coo"):
        remedy = "write data.tocsr()"
        raise ParameterError("data", "be a SciPy sparse matrix in CSR, CSC or COO", type(x).__name__, remedy)
    count, width = x.shape[0], matrix_width(x.shape)
    if x.dtype.kind not in "fiub" or x.dtype.itemsize > 8:
        raise ParameterError("data", "hold real numbers of at most 64 bits", kind_of(x.dtype))
    if (np.diff(getattr(x, "indptr", ())) < 0).any():  # records have entries or none: no records make such a matrix
        raise ParameterError("data", "be a sparse matrix whose indptr never falls", "another")
    if x.format == "csr":
        ends, columns, values = x.indptr, x.indices, x.data
    else:
        outer = x.col if x.format == "coo" else np.repeat(np.arange(width), np.diff(x.indptr))
        places = x.row if x.format == "coo" else x.indices[: len(outer)]
        order = np.argsort(places, kind="stable")
        ends = np.searchsorted(places[order], np.arange(count + 1))
        columns, values = outer[order], x.data[: len(outer)][order]

    def read(start: int, stop: int) -> NDArray[Any]:
        cuts = ends[start : stop + 1]
        rows, these = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts)), slice(cuts[0], cuts[-1])
        inside = (columns[these] >= 0) & (columns[these] < width)
        dense = np.zeros((len(cuts) - 1, width), dtype=x.dtype)
        with np.errstate(all="ignore"):  # which is of this thread only
            np.add.at(dense, (rows[inside], columns[these][inside].astype(np.intp)), values[these][inside])
        return dense

    return read


def _torch(tensor: Any) -> Table:
    import torch

    width = matrix_width(tuple(tensor.shape))
    if tensor.is_complex() or tensor.layout != torch.strided:
        raise ParameterError("data", "be a dense tensor of real numbers", f"{tensor.dtype}, {tensor.layout}")
    values = tensor.detach()
    if values.device.type == "cpu":
        return _array((values.float() if values.dtype in (torch.bfloat16, torch.float16) else values).numpy())

    def rows(groups: Groups) -> Iterator[Parts]:
        yield tuple(pick(values, group) for group in groups)

    return Table((frozenset({"number"}),) * width, None, rows, device=str(values.device))


def _mapping(data: Mapping[Any, Any]) -> Table:
    names = check_names(data)
    columns = [column_table(column) for column in data.values()]
    if len(set(map(_length, data.values()))) > 1:
        raise ParameterError("data", *DIFFERENT)
    table = side_by_side(columns)
    return Table(table.kinds, table.cells, names=names)


# ---------------------------------------------------------------------- frames


def _pandas(frame: Any) -> Table:
    names = check_names(frame.columns)
    kinds = tuple(frozenset({pandas_kind(dtype)}) for dtype in frame.dtypes)
    columns = [frame.iloc[:, i] for i in range(len(names))]
    cells = column_blocks(len(frame), len(names), lambda rows, i, numeric: pandas_cells(columns[i].iloc[rows], numeric))
    return Table(kinds, cells, names=names)


def pandas_kind(dtype: Any) -> str:
    """Return the kind of a type of pandas."""
    import pandas as pd

    if isinstance(dtype, pd.ArrowDtype):
        return arrow_kind(dtype.pyarrow_dtype)
    if isinstance(dtype, pd.CategoricalDtype | pd.SparseDtype):
        return pandas_kind(dtype.subtype if isinstance(dtype, pd.SparseDtype) else dtype.categories.dtype)
    if isinstance(dtype, pd.StringDtype | pd.DatetimeTZDtype):
        return "text" if isinstance(dtype, pd.StringDtype) else "date"
    if dtype == np.dtype(object):
        return "objects"
    return f"dtype {dtype}" if getattr(dtype, "kind", "") == "O" else _numpy_kind(dtype)


def pandas_cells(series: Any, numeric: bool) -> Iterable[Cells]:
    """Return the cells of a series by its type, in one piece or in the chunks of Arrow."""
    import pandas as pd

    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):  # by code: a missing cell would turn whole numbers into floats
        values = series.cat.categories.to_numpy(dtype=object)
        return [Coded(values, series.cat.codes.to_numpy().astype(np.int64))]
    if isinstance(dtype, pd.ArrowDtype) or getattr(dtype, "storage", "") == "pyarrow":
        return arrow_pieces(series.array.__arrow_array__(), numeric)
    if isinstance(dtype, pd.DatetimeTZDtype):
        return [np.asarray(series.dt.tz_convert(None).to_numpy())]
    if numeric and pandas_kind(dtype) in ("number", "boolean"):
        with np.errstate(all="ignore"):  # which is of this thread only
            return [np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))]
    plain = isinstance(dtype, np.dtype) and dtype.kind in "fiubM"
    return [np.asarray(series.to_numpy() if plain else series.to_numpy(dtype=object))]


def _polars(frame: Any) -> Table:
    import polars as pl

    names = check_names(frame.columns)

    def kind(dtype: Any) -> str:
        if dtype == pl.Object:
            return "objects"
        if dtype.is_integer():  # Arrow has no integers of 128 bits
            return "number"
        if dtype.is_nested():
            return f"type {dtype.base_type()}"
        return arrow_kind(pl.Series([], dtype=dtype).to_arrow().type)

    def read(rows: slice, i: int, numeric: bool) -> Iterator[Cells]:
        series = frame.get_column(names[i])[rows]
        if series.dtype == pl.Object:
            yield objects(series.to_list())
            return
        if series.dtype.is_integer():
            series = series.cast(pl.Float64 if numeric else pl.String, strict=False)
        text = series.dtype == pl.String
        for cut in text_cuts(series.str.len_bytes().fill_null(0).to_numpy()) if text else [slice(None)]:
            yield arrow_cells(series[cut].rechunk().to_arrow(), numeric)

    kinds = tuple(frozenset({kind(dtype)}) for dtype in frame.dtypes)
    return Table(kinds, column_blocks(frame.height, len(names), read), names=names)


def _arrow(table: Any) -> Table:
    names = check_names(table.schema.names)

    kinds = tuple(frozenset({arrow_kind(kind)}) for kind in table.schema.types)
    cells = column_blocks(
        table.num_rows, len(names), lambda rows, i, numeric: arrow_pieces(table.column(i)[rows], numeric)
    )
    return Table(kinds, cells, names=names)


_OPENERS: dict[str, tuple[Callable[[Any], Table], tuple[str, ...]]] = {  # by module, with the types that each opens
    "scipy": (_sparse, ()),
    "pandas": (_pandas, ("DataFrame",)),
    "polars": (_polars, ("DataFrame",)),
    "pyarrow": (_arrow, ("Table", "RecordBatch")),
    "torch": (_torch, ("Tensor", "Parameter")),
}
