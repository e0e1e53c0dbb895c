"""Lists of rows and cells of text or objects as floats, each cell read on its own.

Whether a cell is a number is private, so no cell raises anything. A cell that is no number becomes NaN, and the engine
turns its row into zeros. No cell changes how another one is read. Only shapes are refused, and shapes are public.

Text has one rule in every source. It is a number if it has decimal digits with at most one point. A sign before them,
an exponent after them and ASCII spaces around all of it are allowed. The number is the nearest float64.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.errors import ParameterError

__all__ = ["is_nested", "kind_of", "listed_rows", "nested_cells", "number", "read_cells"]

_NUMBER = r"[ \t\n\v\f\r]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[ \t\n\v\f\r]*"
_TEXT, _BYTES = re.compile(_NUMBER), re.compile(_NUMBER.encode())


def number(cell: Any) -> float:
    """A cell as a float; NaN if it is not a number, or too large for a float.

    >>> [number(cell) for cell in (1, " 2.5", b"+3", "1_0", "nan", 10**400, None)]
    [1.0, 2.5, 3.0, nan, nan, nan, nan]
    """
    kind = type(cell)  # not isinstance, which may ask the cell itself
    if issubclass(kind, str | bytes):
        match = (_TEXT if issubclass(kind, str) else _BYTES).fullmatch(cell)
        return math.nan if match is None else float(match[1])
    try:
        return float(cell)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 -- the cell may bring code of its own, which may raise anything
        return math.nan


def read_cells(array: NDArray[Any]) -> NDArray[np.float64]:
    """An array of objects or text as float64, cell by cell.

    >>> read_cells(np.array([[1, "x"], [None, 2.5]], dtype=object)).tolist()
    [[1.0, nan], [nan, 2.5]]
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning would reveal something about the values
        found = np.empty(array.size, dtype=np.float64)
        for i, cell in enumerate(array.ravel().tolist() if array.dtype.kind in "US" else array.ravel()):
            found[i] = math.nan if is_nested(cell) else number(cell)
    return found.reshape(array.shape)


def nested_cells(name: str, data: Sequence[Any]) -> NDArray[np.float64]:
    """A list of cells as a vector, or a list of equally long rows as a matrix. A row inside a row is no number.

    >>> nested_cells("data", [[1, 2], ["x", [4]]]).tolist()
    [[1.0, 2.0], [nan, nan]]
    >>> nested_cells("data", [[1, 2], 3])
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: data must be rows with equally many cells in each; got rows of different shapes
    """
    rows = [list(row) if is_nested(row) else row for row in data]
    shapes = {len(row) if isinstance(row, list) else None for row in rows}
    if len(shapes) > 1:
        raise ParameterError(name, "be rows with equally many cells in each", "rows of different shapes")
    width = shapes.pop() if shapes else None
    flat = np.empty(len(rows) * (1 if width is None else width), dtype=object)
    for i, cell in enumerate(rows if width is None else (cell for row in rows for cell in row)):
        flat[i] = cell
    return read_cells(flat if width is None else flat.reshape(len(rows), width))


def listed_rows(name: str, data: Sequence[Any]) -> NDArray[np.float64]:
    """`nested_cells` of a list that must show its columns: an empty one is refused."""
    if not data:
        remedy = "without rows, np.empty((0, columns)) says how many columns there are"
        raise ParameterError(name, "show its columns", "an empty list", remedy)
    return nested_cells(name, data)


def is_nested(item: Any) -> bool:
    """Whether an item of a list is itself a list, a tuple or an array of cells."""
    kind = type(item)
    try:
        if hasattr(kind, "ndim"):
            return bool(item.ndim)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 -- the item or its class may bring code of its own, which may raise anything
        return True
    return issubclass(kind, Sequence) and not issubclass(kind, str | bytes)


def kind_of(dtype: Any) -> str:
    """A type in words that reveal nothing about the cells: NumPy's name of a text type tells the longest length.

    >>> kind_of(np.array(["secret"]).dtype), kind_of(np.array([1j]).dtype)
    ('text', 'dtype complex128')
    """
    kind = getattr(dtype, "kind", "")
    return {"U": "text", "S": "bytes", "V": "records"}.get(kind, f"dtype {dtype}")
