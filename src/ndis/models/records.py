"""Read private records (X, y) in memory, and labels as single cells.

Types and shapes are checked; no check looks at a value. A cell that is no number becomes NaN, and a record with a NaN
counts as no record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import require
from ndis.data import Table, open_table
from ndis.data.cells import Coded, Floats, each_cell, objects, text_objects, unwrapped
from ndis.data.memory import column_table, is_vector, no_mask


def read_records(data: Any, *, max_records: int | None) -> tuple[Floats, Floats]:
    """Return the first `max_records` rows and labels as float64. No error shows how many there were.

    >>> read_records((np.array([[1, "a"], [2.0, 3.0]], dtype=object), [1, 0]), max_records=None)
    (array([[ 1., nan], [ 2.,  3.]]), array([1., 0.]))
    """
    require(isinstance(data, tuple) and len(data) == 2, "data", "be a pair (X, y)", type(data).__name__)
    labels = data[1] if isinstance(data[1], Table) else column_of_cells(data[1])
    rows = open_table((data[0], labels)).matrix()
    require(rows.widths[1] == 1, "y", "be one column", f"{rows.widths[1]} columns")
    x, y = rows.arrays(most=max_records)
    return x, y[:, 0]


def column_of_cells(labels: Any) -> NDArray[Any]:
    """Return labels as one column, each cell as it stands. Only the type and the shape of an array can be refused.

    >>> column_of_cells([1, "x", None, [2, 3]]).tolist()
    [1, 'x', None, [2, 3]]
    """
    no_mask(labels)
    if isinstance(labels, list | tuple):
        return objects([unwrapped(cell) for cell in labels])
    module = type(labels).__module__.partition(".")[0]
    if module in ("pandas", "polars") and tuple(getattr(labels, "shape", ()))[1:] == (1,):  # a frame of one column
        labels = labels.iloc[:, 0] if module == "pandas" else labels.to_series(0)
    if module in ("pandas", "polars", "pyarrow") and is_vector(labels):
        return _typed_cells(labels)
    good = module == "torch" or isinstance(labels, np.ndarray)  # NumPy would choose one type for all cells of others
    require(good, "y", "be a list, an array or a series", type(labels).__name__)
    array = text_objects(np.asarray(labels.cpu() if module == "torch" else labels))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    require(array.ndim == 1, "y", "be one column", f"{array.ndim} dimension(s)")
    return array


def _typed_cells(column: Any) -> NDArray[Any]:
    """Return the cells of a series, or of an Arrow array, by its declared type: numbers, texts or objects."""
    table = column_table(column)
    (kind,) = table.kinds[0]
    require(kind in ("number", "boolean", "text", "cells", "objects"), "y", "hold numbers or text", kind)
    blocks = (cells for (cells,) in table.cells(((0, kind != "text"),)))
    if kind == "text":  # bytes may be no UTF-8; equal labels are one object, as views of a long one were
        known: dict[Any, Any] = {}
        return objects([known.setdefault(cell, cell) for cells in blocks for cell in _texts(cells)])
    held, dtype = list(blocks), getattr(column, "dtype", None)
    if any(isinstance(cells, Coded) for cells in held):  # a code may have no value
        return objects([cell for cells in held for cell in _texts(cells)])
    if isinstance(dtype, np.dtype):
        return np.asarray(column)
    return objects(column.to_pylist() if hasattr(column, "to_pylist") else column.to_list())


def _texts(cells: Any) -> list[Any]:
    if isinstance(cells, Coded):
        values = [*_texts(cells.values), None]
        return [values[code if 0 <= code < len(values) else -1] for code in cells.codes.tolist()]
    return [cell.decode("utf-8", "surrogateescape") if type(cell) is bytes else cell for cell in each_cell(cells)]
