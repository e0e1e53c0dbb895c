"""Arrow columns by their types: kinds, cells, and the nearest float64 for every number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.errors import ParameterError

__all__ = ["arrow_cells", "arrow_kind", "arrow_schema", "is_number"]


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


def _numbers(array: Any) -> NDArray[np.float64]:
    """One column of numbers or booleans as float64; nulls become NaN."""
    import pyarrow as pa

    if pa.types.is_decimal(array.type):
        return _decimals(array)
    if array.type != pa.float64():
        array = array.cast(pa.float64(), safe=False)  # a safe cast raises on large integers
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)


def _decimals(array: Any) -> NDArray[np.float64]:
    """Decimals as the nearest float64, as Python, NumPy and CSV read them; Arrow's own cast rounds twice.

    >>> import decimal, pyarrow as pa
    >>> _decimals(pa.array([decimal.Decimal("0.3"), None])).tolist()
    [0.3, nan]
    """
    import pyarrow as pa

    text = array.cast(pa.string())  # exact, and the cast of text rounds once; 10⁻⁷⁶ and 10⁷⁶ are floats
    return np.asarray(text.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def arrow_kind(kind: Any) -> str:
    """The kind of an Arrow type.

    >>> import pyarrow as pa
    >>> [arrow_kind(kind) for kind in (pa.int8(), pa.string(), pa.timestamp("ns"), pa.list_(pa.int8()))]
    ['number', 'text', 'date', 'type list<item: int8>']
    """
    import pyarrow.types as t

    if t.is_dictionary(kind):
        return arrow_kind(kind.value_type)
    for name, tests in (
        ("boolean", (t.is_boolean,)),
        ("number", (t.is_integer, t.is_floating, t.is_decimal)),
        ("text", (t.is_string, t.is_large_string, t.is_string_view)),
        ("date", (t.is_date, t.is_timestamp)),
        ("cells", (t.is_null,)),
    ):
        if any(test(kind) for test in tests):
            return name
    return "type " + "".join(c if c.isprintable() else "?" for c in str(kind))  # fields of a struct have names


def arrow_cells(array: Any, numeric: bool) -> NDArray[Any]:
    """The cells of an Arrow array, by its type only; text comes as bytes, for it may be no UTF-8.

    >>> import pyarrow as pa
    >>> arrow_cells(pa.array([2**53 + 1, None]), False).tolist()
    [b'9007199254740993', None]
    """
    import pyarrow as pa
    import pyarrow.types as t

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # none or several chunks are left, by version
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if t.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = arrow_kind(array.type)
    if kind in ("number", "boolean") and (numeric or t.is_floating(array.type)):
        return _numbers(array)
    if kind in ("number", "boolean"):  # as text: a null would turn whole numbers into floats
        array, kind = array.cast(pa.string()), "text"
    if kind == "text":
        return np.asarray(array.cast(pa.large_binary()).to_numpy(zero_copy_only=False), dtype=object)
    if kind == "date":
        unit = "D" if t.is_date32(array.type) else "ms" if t.is_date64(array.type) else array.type.unit
        whole = array.cast(pa.int32()).cast(pa.int64()) if t.is_date32(array.type) else array.cast(pa.int64())
        return np.asarray(whole.fill_null(np.iinfo(np.int64).min).to_numpy()).view(f"datetime64[{unit}]")
    return np.full(len(array), None, dtype=object)
