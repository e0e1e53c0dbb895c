"""Private records (X, y) in memory, read cell by cell so that one record cannot change how another is read.

Types and shapes are checked; no check looks at a value. A cell that is no number becomes NaN, and a record with a NaN
counts as no record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import Floats
from ndis.data.cells import kind_of, nested_cells, read_cells
from ndis.data.columns import series_cells
from ndis.data.opening import open_source
from ndis.data.source import choose_columns
from ndis.errors import ParameterError

__all__ = ["column_of_cells", "read_records"]


def read_records(data: Any, *, max_records: int | None) -> tuple[Floats, Floats]:
    """The first `max_records` rows and labels as float64. No error shows how many there were.

    >>> read_records(([[1, "a"], [2.0, 3.0]], [1, 0]), max_records=None)
    (array([[ 1., nan], [ 2.,  3.]]), array([1., 0.]))
    """
    if not isinstance(data, tuple) or len(data) != 2:
        raise ParameterError("data", "be a pair (X, y)", type(data).__name__)
    x, y = _rows(data[0]), _column(data[1])
    if len(x) != len(y):
        raise ParameterError("data", "be a pair (X, y) with equally many rows", "another number in y")
    return x[:max_records], y[:max_records]


def _rows(rows: Any) -> Floats:
    if isinstance(rows, list | tuple):
        rows = nested_cells("X", rows)
    if isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype.kind not in "fiub":
        return _cells("X", rows)
    source = open_source(rows)
    groups = choose_columns(source, None, None)
    blocks = [_host(block) for (block,) in source.read(groups)]
    return np.concatenate([np.empty((0, source.width)), *blocks])


def _host(block: Any) -> Floats:
    array = block.cpu().numpy() if hasattr(block, "cpu") else block
    with np.errstate(all="ignore"):  # a warning would tell of the values
        return np.asarray(array, dtype=np.float64)


def _column(labels: Any) -> Floats:
    array = column_of_cells(labels)
    return _host(array) if array.dtype.kind in "fiub" else _cells("y", array)


def column_of_cells(labels: Any) -> NDArray[Any]:
    """Labels as one column, each cell as it stands. Only the type and the shape of an array can be refused.

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
        return series[1]
    array = np.asarray(labels.cpu() if hasattr(labels, "cpu") else labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ParameterError("y", "be one column", f"{array.ndim} dimension(s)")
    return array


def _holds_one(cell: Any) -> bool:
    kind = type(cell)  # and not isinstance, which may ask the cell itself
    return cell.shape == (1,) if kind is np.ndarray else kind in (list, tuple) and len(cell) == 1


def _cells(name: str, array: NDArray[Any]) -> Floats:
    if array.dtype.kind not in "OUS":
        raise ParameterError(name, "hold real numbers", kind_of(array.dtype))
    return read_cells(array)
