"""Read private records (X, y) in memory, and labels as single cells.

Types and shapes are checked; no check looks at a value. A cell that is no number becomes NaN, and a record with a NaN
counts as no record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.data import open_table
from ndis.data.cells import Floats
from ndis.data.columns import series_cells
from ndis.errors import ParameterError

__all__ = ["column_of_cells", "read_records"]


def read_records(data: Any, *, max_records: int | None) -> tuple[Floats, Floats]:
    """Return the first `max_records` rows and labels as float64. No error shows how many there were.

    >>> read_records(([[1, "a"], [2.0, 3.0]], [1, 0]), max_records=None)
    (array([[ 1., nan], [ 2.,  3.]]), array([1., 0.]))
    """
    if not isinstance(data, tuple) or len(data) != 2:
        raise ParameterError("data", "be a pair (X, y)", type(data).__name__)
    rows = open_table(data).matrix()
    if rows.widths[1] != 1:
        raise ParameterError("y", "be one column", f"{rows.widths[1]} columns")
    x, y = rows.arrays(most=max_records)
    return x, y[:, 0]


def column_of_cells(labels: Any) -> NDArray[Any]:
    """Return labels as one column, each cell as it stands. Only the type and the shape of an array can be refused.

    >>> column_of_cells([1, "x", None, [2, 3]]).tolist()
    [1, 'x', None, [2, 3]]
    """
    if isinstance(labels, list | tuple):
        array: NDArray[Any] = np.empty(len(labels), dtype=object)
        for i, cell in enumerate(labels):
            array[i] = cell[0] if _holds_one(cell) else cell
        return array
    series = series_cells(labels, numeric=False)
    if series is not None:
        if series[0] not in ("number", "boolean", "text", "cells"):
            raise ParameterError("y", "hold numbers or text", series[0])
        return np.asarray(series[1])
    array = np.asarray(labels.cpu() if hasattr(labels, "cpu") else labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ParameterError("y", "be one column", f"{array.ndim} dimension(s)")
    return array


def _holds_one(cell: Any) -> bool:
    kind = type(cell)  # not isinstance, which may ask the cell itself
    return cell.shape == (1,) if kind is np.ndarray else kind in (list, tuple) and len(cell) == 1
