"""Lists of rows and cells of text or objects as floats, each cell read on its own.

Whether a cell is a number is private, so it raises nothing: a cell that is none becomes NaN, and the engine turns its
row into zeros. No cell changes how another one is read. Shapes are public, and the only thing that is refused.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.errors import ParameterError

__all__ = ["nested_cells", "number", "read_cells"]


def number(cell: Any) -> float:
    """A cell as a float; NaN where it is not a number, or too large for one.

    >>> [number(cell) for cell in (1, "2.5", b"3", "1_0", 10**400, None)]
    [1.0, 2.5, 3.0, nan, nan, nan]
    """
    try:
        if isinstance(cell, str | bytes) and "_" in repr(cell):  # Python alone would read 1_0 as 10
            return math.nan
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def read_cells(array: NDArray[Any]) -> NDArray[np.float64]:
    """An array of objects or text as float64, cell by cell.

    >>> read_cells(np.array([[1, "x"], [None, 2.5]], dtype=object)).tolist()
    [[1.0, nan], [nan, 2.5]]
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which would tell of the values
        return np.array([number(cell) for cell in array.ravel()], dtype=np.float64).reshape(array.shape)


def nested_cells(name: str, data: Sequence[Any]) -> NDArray[np.float64]:
    """A list of cells as a vector, or a list of equally long rows as a matrix; other shapes are refused.

    >>> nested_cells("data", [[1, 2], ["x", 4]]).tolist()
    [[1.0, 2.0], [nan, 4.0]]
    >>> nested_cells("data", [[1, 2], 3])
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: data must be rows with equally many cells in each; got rows of different shapes
    """
    rows = [list(row) if _is_row(row) else row for row in data]
    shapes = {len(row) if isinstance(row, list) else None for row in rows}
    if len(shapes) > 1 or any(_is_row(cell) for row in rows if isinstance(row, list) for cell in row):
        raise ParameterError(name, "be rows with equally many cells in each", "rows of different shapes")
    width = shapes.pop() if shapes else None
    flat = np.empty(len(rows) * (1 if width is None else width), dtype=object)
    for i, cell in enumerate(rows if width is None else (cell for row in rows for cell in row)):
        flat[i] = cell
    return read_cells(flat if width is None else flat.reshape(len(rows), width))


def _is_row(item: Any) -> bool:
    if isinstance(item, str | bytes):
        return False
    return isinstance(item, Sequence) or getattr(item, "ndim", 0) > 0
