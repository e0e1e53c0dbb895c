"""Arrow columns as float64: one rule per type, and the nearest float64 for every cell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.errors import ParameterError

__all__ = ["arrow_matrix", "arrow_numbers", "arrow_schema", "decimal_numbers", "is_number"]


def arrow_schema(schema: Any, where: object) -> tuple[tuple[str, ...], dict[int, str]]:
    """Return the column names and the types of those columns that do not hold real numbers."""
    refused = {i: f"type {f.type}" for i, f in enumerate(schema) if not is_number(f.type)}
    names = tuple(schema.names)
    if not names:
        raise ParameterError("data", "have at least one column", where)
    if len(set(names)) < len(names):
        raise ParameterError("data", "have columns of different names", where)
    if not all(name.isprintable() for name in names):
        raise ParameterError("data", "have column names of printable characters", where)
    return names, refused


def is_number(kind: Any) -> bool:
    """Whether an Arrow type holds real numbers or booleans.

    >>> import pyarrow as pa
    >>> is_number(pa.decimal128(5, 2)), is_number(pa.string())
    (True, False)
    """
    import pyarrow.types as t

    return any(is_a(kind) for is_a in (t.is_integer, t.is_floating, t.is_boolean, t.is_decimal))


def arrow_matrix(batch: Any, columns: Iterable[int]) -> NDArray[np.float64]:
    """Columns of a record batch as float64, nulls as NaN."""
    chosen = tuple(columns)
    matrix = np.empty((len(chosen), batch.num_rows))  # column by column; the quantiser turns it row by row in cache
    for j, column in enumerate(chosen):
        matrix[j] = arrow_numbers(batch.column(column))
    return matrix.T


def arrow_numbers(array: Any) -> NDArray[np.float64]:
    """One column of numbers or booleans as float64; nulls become NaN."""
    import pyarrow as pa

    if pa.types.is_decimal(array.type):
        return decimal_numbers(array)
    if array.type != pa.float64():
        array = array.cast(pa.float64(), safe=False)  # a safe cast raises on large integers
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)


def decimal_numbers(array: Any) -> NDArray[np.float64]:
    """Decimals as the nearest float64, as Python, NumPy and CSV read them; Arrow's own cast rounds twice.

    >>> import decimal, pyarrow as pa
    >>> decimal_numbers(pa.array([decimal.Decimal("0.3"), None])).tolist()
    [0.3, nan]
    """
    import pyarrow as pa

    text = array.cast(pa.string())  # exact, and the cast of text rounds once; 10⁻⁷⁶ and 10⁷⁶ are floats
    return np.asarray(text.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
