"""Columns as they are stored, for those who read them by a public schema: numbers, text, dates, or cells of any kind.

`memory_columns` opens frames, tables, mappings and matrices by their types only. No cell raises anything, and none
changes how another one is read. In particular a column has the same types whether or not a cell is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.data.arrow import arrow_cells, arrow_kind, arrow_schema, is_number
from ndis.data.cells import is_nested, kind_of
from ndis.data.source import rows_per_read
from ndis.errors import ParameterError

__all__ = ["Cells", "Columns", "Wanted", "memory_columns", "objects", "series_cells", "series_table", "stacked"]

Cells = NDArray[Any]  # one column: numbers, datetime64, or objects
Wanted = tuple[tuple[str, bool], ...]  # name of a column, and whether its numbers suffice as float64
Blocks = Iterator[list[Cells]]

KINDS = ("number", "boolean", "text", "date", "cells")  # "cells" may be anything, cell by cell


@dataclass(frozen=True)
class Columns:
    """Columns with a public storage type each.

    Parameters
    ----------
    kinds : mapping
        Name → the kinds in which the column is stored, each from `KINDS` or in other words for a type that has none.
        Several files may store it in several ways.
    read : callable
        ``read(wanted)`` yields blocks of rows: one array per wanted column.
    quotable : bool
        Whether a message may list the names. A first line of a CSV file may be a record after all.
    refused : mapping
        Name → type, in words, of columns that do not hold plain real numbers, for frames and tables.
    """

    kinds: Mapping[str, frozenset[str]]
    read: Callable[[Wanted], Blocks]
    quotable: bool = True
    refused: Mapping[str, str] = field(default_factory=dict)


def memory_columns(data: Any, *, names: Sequence[str | None]) -> Columns:
    """Open a frame, an Arrow table, a mapping of columns, or rows in the order of `names`.

    >>> found = memory_columns({"a": [1, "x"], "b": ["u", None]}, names=())
    >>> dict(found.kinds)
    {'a': frozenset({'cells'}), 'b': frozenset({'cells'})}
    >>> [[cells.tolist() for cells in block] for block in found.read((("b", False),))]
    [[['u', None]]]
    """
    module = type(data).__module__.partition(".")[0]
    if module == "pandas" and hasattr(data, "dtypes") and hasattr(data, "columns"):
        return _pandas(data)
    if module == "polars":
        return _polars(data)
    if module == "pyarrow":
        return _arrow(data)
    if isinstance(data, Mapping):
        return _mapping(data)
    if isinstance(data, np.ndarray | list | tuple):
        return _mapping(_by_place(data, [name for name in names if name is not None]))
    if module in ("dask", "dask_expr"):
        remedy = "fit_data, clipped_count and the release of a mechanism take one, with the target among its columns"
        raise ParameterError("data", "be in memory or in files here", "a dask collection", remedy)
    raise ParameterError(
        "data",
        "be a data frame, an Arrow table, a mapping of columns, rows in the order of the schema, or a path",
        type(data).__name__,
    )


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise ParameterError("data", "have at least one column", "none")
    if len(set(names)) < len(names):
        raise ParameterError("data", "have columns of different names", "a name twice")


# ---------------------------------------------------------------------- in memory


def _pandas(frame: Any) -> Columns:
    names = [str(name) for name in frame.columns]
    _check_names(names)
    step = rows_per_read(len(names))

    def read(wanted: Wanted) -> Blocks:
        places = [(names.index(name), numeric) for name, numeric in wanted]
        for start in range(0, len(frame), step):
            rows = frame.iloc[start : start + step]
            yield [_pandas_cells(rows.iloc[:, i], numeric) for i, numeric in places]

    types = dict(zip(names, frame.dtypes, strict=True))
    refused = {name: f"dtype {dtype}" for name, dtype in types.items() if not _holds_numbers(dtype)}
    return Columns({name: frozenset({_pandas_kind(dtype)}) for name, dtype in types.items()}, read, refused=refused)


def _holds_numbers(dtype: Any) -> bool:
    """Whether a type of pandas holds plain real numbers or booleans."""
    import pandas as pd
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    if isinstance(dtype, pd.ArrowDtype):
        return is_number(dtype.pyarrow_dtype)
    plain = (is_numeric_dtype(dtype) or is_bool_dtype(dtype)) and not is_complex_dtype(dtype)
    return plain and not isinstance(dtype, pd.CategoricalDtype) and getattr(dtype, "itemsize", 8) <= 8


def _pandas_kind(dtype: Any) -> str:
    import pandas as pd

    if isinstance(dtype, pd.ArrowDtype):
        return arrow_kind(dtype.pyarrow_dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        return _pandas_kind(dtype.categories.dtype)
    if isinstance(dtype, pd.StringDtype):
        return "text"
    if isinstance(dtype, pd.SparseDtype):
        return _pandas_kind(dtype.subtype)
    kind = getattr(dtype, "kind", "")
    if isinstance(dtype, pd.DatetimeTZDtype):
        return "date"
    if kind == "O":
        return "cells" if dtype == np.dtype(object) else f"dtype {dtype}"
    return {"b": "boolean", "i": "number", "u": "number", "f": "number", "M": "date"}.get(kind, f"dtype {dtype}")


def _pandas_cells(series: Any, numeric: bool) -> Cells:
    import pandas as pd

    dtype = series.dtype
    with np.errstate(all="ignore"):  # a warning would tell of the values
        if isinstance(dtype, pd.CategoricalDtype):  # by code: a missing cell would turn whole numbers into floats
            values = np.append(series.cat.categories.to_numpy(dtype=object), np.array([None], dtype=object))
            return np.asarray(values[series.cat.codes.to_numpy()])
        if isinstance(dtype, pd.ArrowDtype):
            return arrow_cells(series.array.__arrow_array__(), numeric)
        if isinstance(dtype, pd.DatetimeTZDtype):
            return np.asarray(series.dt.tz_convert(None).to_numpy())
        if numeric and _pandas_kind(dtype) in ("number", "boolean"):
            return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
        plain = isinstance(dtype, np.dtype) and dtype.kind in "fiubM"
        return np.asarray(series.to_numpy() if plain else series.to_numpy(dtype=object))


def _polars(frame: Any) -> Columns:
    import polars as pl

    if not isinstance(frame, pl.DataFrame):
        raise ParameterError("data", "be a polars DataFrame", type(frame).__name__, "collect it, or pass the path")
    names = list(frame.columns)
    _check_names(names)

    def kind(dtype: Any) -> str:
        if dtype == pl.Object:
            return "cells"
        if dtype.is_integer():  # Arrow has no integers of 128 bits
            return "number"
        if dtype.is_nested():
            return f"type {dtype.base_type()}"
        return arrow_kind(pl.Series([], dtype=dtype).to_arrow().type)

    def cells(series: Any, numeric: bool) -> Cells:
        if series.dtype == pl.Object:
            return objects(series.to_list())
        if series.dtype.is_integer():
            series = series.cast(pl.Float64 if numeric else pl.String, strict=False)
        return arrow_cells(series.to_arrow(), numeric)

    step = rows_per_read(len(names))

    def read(wanted: Wanted) -> Blocks:
        for start in range(0, frame.height, step):
            rows = frame.slice(start, step)
            yield [cells(rows.get_column(name), numeric) for name, numeric in wanted]

    types = dict(zip(names, frame.dtypes, strict=True))
    # The base type, for the type of categories would list them.
    refused = {n: f"dtype {t.base_type()}" for n, t in types.items() if not (t.is_numeric() or t == pl.Boolean)}
    return Columns({name: frozenset({kind(dtype)}) for name, dtype in types.items()}, read, refused=refused)


def _arrow(table: Any) -> Columns:
    import pyarrow as pa

    if not isinstance(table, pa.Table | pa.RecordBatch):
        raise ParameterError("data", "be an Arrow table or record batch", type(table).__name__)
    names, refused = arrow_schema(table.schema, "data")
    batches = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table

    def read(wanted: Wanted) -> Blocks:
        for batch in batches.to_batches(max_chunksize=rows_per_read(len(names))):
            yield [arrow_cells(batch.column(names.index(name)), numeric) for name, numeric in wanted]

    kinds = {column.name: frozenset({arrow_kind(column.type)}) for column in table.schema}
    return Columns(kinds, read, refused={names[i]: kind for i, kind in refused.items()})


def _mapping(data: Mapping[Any, Any]) -> Columns:
    names = [str(name) for name in data]
    _check_names(names)
    opened = {str(name): _column(column) for name, column in data.items()}
    if len({length for _, length, _ in opened.values()}) > 1:
        raise ParameterError("data", "have columns of equal length", "different lengths")

    def read(wanted: Wanted) -> Blocks:
        yield [opened[name][2](numeric) for name, numeric in wanted]

    return Columns({name: frozenset({kind}) for name, (kind, _, _) in opened.items()}, read)


def _column(column: Any) -> tuple[str, int, Callable[[bool], Cells]]:
    """Kind, length and cells of one column in memory."""
    table = series_table(column)
    if table is None:
        cells = _as_cells(column)
        kinds = {"b": "boolean", "i": "number", "u": "number", "f": "number", "M": "date", "O": "cells"}
        kind = kinds.get(cells.dtype.kind, kind_of(cells.dtype))
        if getattr(getattr(column, "dtype", None), "kind", "") == "T":  # text, whatever the cells; "U" may hold numbers
            kind = "text"
        return kind, len(cells), lambda numeric: cells
    opened = memory_columns(table, names=())
    ((name, (kind,)),) = opened.kinds.items()

    def read(numeric: bool) -> Cells:
        blocks = [block[0] for block in opened.read(((name, numeric),))]
        return np.concatenate(blocks) if blocks else np.empty(0, dtype=object)

    return kind, len(column), read


def series_table(column: Any) -> Any:
    """A series of pandas or polars, or an Arrow array, as a table with one column; None if it is something else."""
    module = type(column).__module__.partition(".")[0]
    if getattr(column, "ndim", 1) != 1:
        return None
    if module == "pyarrow" and hasattr(column, "type"):
        import pyarrow as pa

        return pa.table({"column": column})
    return column.to_frame("column") if module in ("pandas", "polars") and hasattr(column, "to_frame") else None


def series_cells(column: Any, *, numeric: bool) -> tuple[str, Cells] | None:
    """Kind and cells of a series of pandas or polars, or of an Arrow array; None if it is something else.

    Text of Arrow comes as texts, and not as bytes: labels are compared with texts.

    >>> import pyarrow as pa
    >>> kind, cells = series_cells(pa.array(["no", None]), numeric=False)
    >>> kind, cells.tolist()
    ('text', ['no', None])
    """
    if series_table(column) is None:
        return None
    module = type(column).__module__.partition(".")[0]
    kind, _, read = _column(column)
    if kind not in KINDS:
        return kind, np.empty(0, dtype=object)
    if numeric or kind not in ("number", "boolean"):
        cells = read(numeric)
        return kind, objects([_as_text(cell) for cell in cells]) if kind == "text" else cells
    if module == "pandas" and isinstance(column.dtype, np.dtype):
        return kind, np.asarray(column)
    return kind, objects(column.to_pylist() if module == "pyarrow" else column.to_list())


def _as_text(cell: Any) -> Any:
    return bytes.decode(cell, "utf-8", "surrogateescape") if type(cell) is bytes else cell


def _as_cells(column: Any) -> Cells:
    if isinstance(column, np.ma.MaskedArray):
        raise ParameterError("data", "have plain columns", "a masked array", "fill masked entries with None or NaN")
    array = column if isinstance(column, np.ndarray) else None
    if array is None and hasattr(column, "__array__") and hasattr(column, "dtype"):
        array = np.asarray(column)
    if array is not None:
        if array.ndim != 1:
            raise ParameterError("data", "have columns of one dimension", f"{array.ndim} dimension(s)")
        return array.astype(object) if array.dtype.kind in "UST" else array
    if isinstance(column, str | bytes) or not isinstance(column, Sequence):
        raise ParameterError("data", "have columns that are lists, arrays or series", type(column).__name__)
    return objects(column)


def _by_place(data: Any, names: list[str]) -> dict[str, Cells]:
    """The columns of a matrix or of a list of rows, in the order of the names; a row that is no list is missing."""
    rule = f"have {len(names)} columns, in the order of the schema"
    if isinstance(data, np.ndarray):
        if data.ndim != 2 or data.shape[1] != len(names):
            raise ParameterError("data", rule, f"shape (n, {data.shape[1]})" if data.ndim == 2 else f"{data.ndim}-d")
        return {name: _as_cells(data[:, i]) for i, name in enumerate(names)}
    rows = [list(row) if is_nested(row) else [row] for row in data]
    if any(len(row) != len(names) for row in rows):
        raise ParameterError("data", rule, "a list with rows of another length")
    return {name: objects([row[i] for row in rows]) for i, name in enumerate(names)}


def stacked(cells: Sequence[Cells]) -> NDArray[np.float64]:
    """Columns of numbers as one matrix, column by column: the quantiser turns it row by row in cache."""
    return np.stack(cells).T


def objects(cells: Sequence[Any]) -> Cells:
    """An array of these objects, lists and arrays among them as they are.

    >>> objects([1, [2, 3]]).tolist()
    [1, [2, 3]]
    """
    found = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        found[i] = cell
    return found
