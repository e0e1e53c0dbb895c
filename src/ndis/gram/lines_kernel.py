"""The rule of `ndis.gram.lines` compiled: one pass over the bytes finds every cell and whether it is a number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._compile import compiled

__all__ = ["compiled_rows"]

_LF, _CR, _QUOTE, _COMMA = 10, 13, 34, 44
_NONE, _PLAIN, _RARE = 0, 1, 2  # no number; one that cannot leave the range of floats; any other
_PLAIN_BYTES = 40


@compiled()
def _digits(data: Any, at: int, end: int) -> int:
    """The first place from `at` on that holds no digit."""
    while at < end and 48 <= data[at] <= 57:
        at += 1
    return at


@compiled()
def _classify(data: Any, a: int, z: int) -> tuple[int, int, int]:
    """Whether ``data[a:z]`` is a number, and where it lies without spaces and without a plus sign."""
    while a < z and (data[a] == 32 or 9 <= data[a] <= 13):
        a += 1
    while z > a and (data[z - 1] == 32 or 9 <= data[z - 1] <= 13):
        z -= 1
    if a < z and data[a] == 43:
        a += 1
        at = a
    else:
        at = a + 1 if a < z and data[a] == 45 else a
    start = at
    at = _digits(data, at, z)
    count = at - start
    if at < z and data[at] == 46:
        start = at + 1
        at = _digits(data, start, z)
        count += at - start
    if count == 0:
        return _NONE, a, z
    exponent = 0
    if at < z and (data[at] == 101 or data[at] == 69):
        at += 1
        if at < z and (data[at] == 43 or data[at] == 45):
            at += 1
        start = at
        at = _digits(data, start, z)
        exponent = at - start
        if exponent == 0:
            return _NONE, a, z
    if at != z:
        return _NONE, a, z
    return (_PLAIN if exponent < 3 and z - a <= _PLAIN_BYTES else _RARE), a, z


@compiled()
def _scan(data: Any, slots: Any, longest: int, begin: Any, end: Any, kind: Any) -> int:
    """Fill in place and kind of the wanted cells of every record; returns the number of records."""
    row, i, size, width = 0, 0, data.size, slots.size
    while i < size:
        if data[i] == _LF:
            i += 1
            continue
        if data[i] == _CR and data[i + 1] == _LF:  # the data end in LF, so there is a next byte
            i += 2
            continue
        start, column, whole = i, 0, True
        kind[row] = _NONE
        while True:
            a = z = i
            if data[i] == _QUOTE:
                a = z = i + 1
                while data[z] != _LF and (data[z] != _QUOTE or data[z + 1] == _QUOTE):
                    z += 2 if data[z] == _QUOTE else 1
                whole = data[z] == _QUOTE
                i = z + 1 if whole else z
                if data[i] == _CR and data[i + 1] == _LF:
                    i += 1
                if data[i] != _COMMA and data[i] != _LF:
                    whole = False
                if not whole:
                    while data[i] != _LF:
                        i += 1
                    break
            else:
                while data[i] != _COMMA and data[i] != _LF:
                    i += 1
                z = i
                if data[i] == _LF and z > a and data[z - 1] == _CR:
                    z -= 1
            if column < width and slots[column] >= 0:
                slot = slots[column]
                kind[row, slot], begin[row, slot], end[row, slot] = _classify(data, a, z)
            column += 1
            if data[i] == _LF:
                break
            i += 1
        if not whole or column != width or i - start > longest:
            kind[row] = _NONE
        row += 1
        i += 1
    return row


@compiled()
def _gather(data: Any, places: Any, begin: Any, offsets: Any, out: Any) -> None:
    for k in range(places.size):
        a = begin[places[k]] - offsets[k]
        for i in range(offsets[k], offsets[k + 1]):
            out[i] = data[a + i]


def compiled_rows(data: bytes, width: int, wanted: tuple[int, ...], *, longest: int) -> NDArray[np.float64]:
    """What `ndis.gram.lines.rows_by_line` defines, to the same bits."""
    import pyarrow as pa

    view = np.frombuffer(data, dtype=np.uint8)
    slots = np.full(width, -1, dtype=np.int64)
    slots[list(wanted)] = np.arange(len(wanted))
    shape = (data.count(b"\n"), len(wanted))
    begin, end = np.empty(shape, dtype=np.int32), np.empty(shape, dtype=np.int32)
    kind = np.empty(shape, dtype=np.uint8)
    rows = _scan(view, slots, longest, begin, end, kind)
    found = np.full((rows, len(wanted)), np.nan)
    flat, begins, ends, kinds = found.reshape(-1), begin.reshape(-1), end.reshape(-1), kind[:rows].reshape(-1)
    plain = np.flatnonzero(kinds == _PLAIN)
    if plain.size:
        offsets = np.zeros(plain.size + 1, dtype=np.int32)
        np.cumsum(ends[plain] - begins[plain], out=offsets[1:])
        text = np.empty(offsets[-1], dtype=np.uint8)
        _gather(view, plain, begins, offsets, text)
        cells = pa.StringArray.from_buffers(plain.size, pa.py_buffer(offsets), pa.py_buffer(text))
        flat[plain] = cells.cast(pa.float64()).to_numpy(zero_copy_only=False)
    for i in np.flatnonzero(kinds == _RARE).tolist():
        flat[i] = float(data[begins[i] : ends[i]])
    return found
