"""Open frames of pandas and polars, and tables of Arrow, by the types of their columns.

A column has the same declared type whether or not a cell is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ndis.data.cells import Cells, Coded, arrow_cells, arrow_kind, arrow_pieces, kind_of_array, text_cuts
from ndis.data.table import Table, check_names, column_blocks


def pandas_table(frame: Any) -> Table:
    names = check_names(frame.columns)
    kinds = tuple(frozenset({pandas_kind(dtype)}) for dtype in frame.dtypes)
    cells = column_blocks(len(frame), len(names), lambda rows, i, numeric: pandas_cells(frame.iloc[rows, i], numeric))
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
    return f"dtype {dtype}" if getattr(dtype, "kind", "") == "O" else kind_of_array(dtype)


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
    plain = isinstance(dtype, np.dtype) and dtype.kind in "fiubcMm"
    return [np.asarray(series.to_numpy() if plain else series.to_numpy(dtype=object))]


def polars_table(frame: Any) -> Table:
    """Open a polars frame; long texts are copied in pieces."""
    import polars as pl

    names = check_names(frame.columns)

    def kind(dtype: Any) -> str:
        foreign = dtype.is_nested() or dtype == pl.Object or str(dtype).endswith("nt128")  # Arrow has no such integers
        return f"type {dtype.base_type()}" if foreign else arrow_kind(pl.Series([], dtype=dtype).to_arrow().type)

    def read(rows: slice, i: int, numeric: bool) -> Iterator[Cells]:
        series = frame.get_column(names[i])[rows]
        text = series.dtype == pl.String
        for cut in text_cuts(series.str.len_bytes().fill_null(0).to_numpy()) if text else [slice(None)]:
            yield arrow_cells(series[cut].rechunk().to_arrow(), numeric)

    kinds = tuple(frozenset({kind(dtype)}) for dtype in frame.dtypes)
    return Table(kinds, column_blocks(frame.height, len(names), read), names=names)


def arrow_table(table: Any) -> Table:
    """Open an Arrow table or record batch."""
    names = check_names(table.schema.names)

    kinds = tuple(frozenset({arrow_kind(kind)}) for kind in table.schema.types)

    def read(rows: slice, i: int, numeric: bool) -> Iterable[Cells]:
        return arrow_pieces(table.column(i)[rows], numeric)

    return Table(kinds, column_blocks(table.num_rows, len(names), read), names=names)
