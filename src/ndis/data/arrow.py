"""Read Arrow columns by their declared types: kinds, cells, and the nearest float64 for every number.

No call here can raise by value: text keeps its bytes, dictionaries are read by their codes, and chunks stay apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndis.data.cells import Cells, Coded, Floats

__all__ = ["arrow_cells", "arrow_chunks", "arrow_kind"]


def arrow_kind(kind: Any) -> str:
    """Return the kind of an Arrow type.

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
        ("objects", (t.is_null,)),
    ):
        if any(test(kind) for test in tests):
            return name
    return "type " + "".join(c if c.isprintable() else "?" for c in str(kind))  # fields of a struct have names


def arrow_chunks(array: Any, start: int, count: int) -> list[Any]:
    """Return rows of an array or a chunked array as arrays. Joining chunks of text fails beyond 2 GiB."""
    piece = array.slice(start, count)
    return list(piece.chunks) if hasattr(piece, "chunks") else [piece]


def arrow_cells(array: Any, numeric: bool) -> Cells:
    """Return the cells of an Arrow array, by its type only; text comes as bytes, for it may be no UTF-8.

    >>> import pyarrow as pa
    >>> arrow_cells(pa.array([2**53 + 1, None]), False).to_pylist()
    [b'9007199254740993', None]
    """
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_dictionary(array.type):
        codes = array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return Coded(arrow_cells(array.dictionary, numeric), codes)
    kind = arrow_kind(array.type)
    if kind in ("number", "boolean") and (numeric or t.is_floating(array.type)):
        return _numbers(array)
    if kind in ("number", "boolean"):  # as text: a null would turn whole numbers into floats
        array, kind = array.cast(pa.large_string()), "text"
    if kind == "text":
        return array.cast(pa.large_binary())
    if kind == "date":
        unit = "D" if t.is_date32(array.type) else "ms" if t.is_date64(array.type) else array.type.unit
        whole = array.cast(pa.int32()).cast(pa.int64()) if t.is_date32(array.type) else array.cast(pa.int64())
        return np.asarray(whole.fill_null(np.iinfo(np.int64).min).to_numpy()).view(f"datetime64[{unit}]")
    return np.full(len(array), None, dtype=object)


def _numbers(array: Any) -> Floats:
    """Return numbers or booleans as float64; nulls become NaN.

    Decimals take the way over text, which is exact: Arrow's own cast rounds twice. 10⁻⁷⁶ and 10⁷⁶ are floats.

    >>> import decimal, pyarrow as pa
    >>> _numbers(pa.array([decimal.Decimal("0.3"), None])).tolist()
    [0.3, nan]
    """
    import pyarrow as pa

    if pa.types.is_decimal(array.type):
        array = array.cast(pa.large_string())
    if array.type != pa.float64():
        array = array.cast(pa.float64(), safe=False)  # a safe cast raises on large integers
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)
