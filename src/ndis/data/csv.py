"""The lines of a CSV file as rows of numbers: each line is read by itself, so no line changes how another is read.

A line ends at LF; a CR just before it belongs to the end. Nothing else ends a line, and quotes end with it. The last
line of a file needs no LF, and a byte order mark before the first line is dropped. An empty line is no record. Every
other line is one record:

- Commas separate its cells. A cell that begins with a quote ends at the next quote that is not doubled. A comma or the
  end of the line must follow.
- It is a row of numbers if it has as many cells as the file has columns, and no more than `LONGEST` bytes. Otherwise,
  and if a quote stays open, it is a row of missing numbers.
- `ndis.data.cells.number` says which bytes are a number. No byte is ever decoded, so none can fail to be.

`rows_of` reads numbers: a compiled pass finds the cells and what is a number, and Arrow, which rounds correctly as
Python does, reads the digits. A test holds this definition in Python, one line at a time, and compares the bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ndis._compile import compiled
from ndis._validate import Floats
from ndis.data.cells import number
from ndis.errors import ParameterError

__all__ = ["LONGEST", "cells_of", "first_line", "given_names", "header_names", "line_blocks", "rows_of", "texts_of"]

LONGEST = 1 << 23  # bytes of a line that can be a row
_BLOCK = 1 << 22  # bytes of one read
_LF, _CR, _QUOTE, _COMMA = 10, 13, 34, 44
_NONE, _PLAIN, _RARE = 0, 1, 2  # no number; one that cannot leave the range of floats; any other
_PLAIN_BYTES = 40
_MARK = b"\xef\xbb\xbf"
_CELL = re.compile(rb'"((?:[^"]|"")*)"(?=,|\Z)|([^",][^,]*|(?=,|\Z))', re.DOTALL)


def cells_of(line: bytes) -> list[bytes] | None:
    """The cells of a line without its end; None if its quotes do not pair.

    >>> cells_of(b'a,"b,c",'), cells_of(b'a,"b'), cells_of(b'a,"b"c')
    ([b'a', b'b,c', b''], None, None)
    """
    cells, at = [], 0
    while True:
        match = _CELL.match(line, at)
        if match is None:
            return None
        cells.append(match[2] if match[1] is None else match[1].replace(b'""', b'"'))
        at = match.end() + 1
        if at > len(line):
            return cells


def texts_of(data: bytes, width: int, wanted: tuple[int, ...], *, longest: int = LONGEST) -> list[list[bytes | None]]:
    """The wanted columns of whole lines as bytes; all cells of a line that cannot be split are None.

    >>> texts_of(b"1,a\\n2,b,c\\nx,d\\n", 2, (1,))
    [[b'a', None, b'd']]
    """
    rows: list[list[bytes] | None] = []
    for ended in data.split(b"\n")[:-1]:
        line = ended.removesuffix(b"\r")
        if line:
            cells = (line.split(b",") if b'"' not in line else cells_of(line)) if len(ended) <= longest else None
            rows.append(cells if cells is not None and len(cells) == width else None)
    return [[None if row is None else row[i] for row in rows] for i in wanted]


def first_line(file: BinaryIO) -> bytes | None:
    """The first line without mark and end; None if it is longer than `LONGEST`. The file then stands behind it."""
    line = file.readline(LONGEST + len(_MARK) + 2).removeprefix(_MARK)
    return line.removesuffix(b"\n").removesuffix(b"\r") if len(line) <= LONGEST + 1 else None


def line_blocks(file: BinaryIO, *, block: int = _BLOCK, longest: int = LONGEST) -> Iterator[bytes | None]:
    """Whole lines, each of which ends at LF, from here to the end of a file; None for a line that is too long."""
    rest, dropping = b"", False
    if not file.tell():
        rest = file.read(len(_MARK)).removeprefix(_MARK)
    while chunk := file.read(block):
        if dropping:
            _, end, chunk = chunk.partition(b"\n")
            if not end:
                continue
            yield None
            dropping = False
        data = rest + chunk
        cut = data.rfind(b"\n") + 1
        rest = data[cut:]
        if cut:
            yield data[:cut]
        if len(rest) > longest:
            rest, dropping = b"", True
    if dropping:
        yield None
    elif rest:
        yield rest + b"\n"


# ---------------------------------------------------------------------- names of columns


def given_names(columns: Any) -> tuple[str, ...]:
    """The caller's names for the columns of a CSV file; empty for a column that is not read."""
    items = [columns] if columns is None or isinstance(columns, str) else list(columns)
    if not items or items == [None]:
        remedy = "or say header=True (--header) if the first line of every file holds public names"
        raise ParameterError("columns", "name all columns of a CSV file, from left to right", None, remedy)
    names = tuple("" if item is None else item for item in items)
    called = [name for name in names if name != ""]
    if not called or not _are_names(called):
        remedy = "numbers choose columns only with header=True (--header)"
        rule = "name all columns of a CSV file without a header by different printable words that are no numbers"
        raise ParameterError("columns", rule, "something else", remedy)
    return names


def header_names(path: Path) -> tuple[str, ...]:
    """The names in the first line. Every fault has the same message, because the line may be a record after all."""
    with path.open("rb") as file:
        line = first_line(file)
    cells = None if line is None else cells_of(line)
    try:
        names = [] if cells is None else [cell.decode("utf-8") for cell in cells]
    except UnicodeDecodeError:
        names = []
    if not _are_names(names):
        rule = "begin with a line of different printable column names in UTF-8, none of them empty or a number"
        raise ParameterError("data", rule, path, "without such a line leave header out and name the columns")
    return tuple(names)


def _are_names(names: list[Any]) -> bool:
    words = all(isinstance(name, str) and name.strip() and name.isprintable() for name in names)
    return bool(names) and words and len(set(names)) == len(names) and not any(map(_is_number, names))


def _is_number(name: str) -> bool:
    """Whether a name reads as a number, NaN and infinity included: a line of data may hold those."""
    try:
        float(name)
    except ValueError:
        return not np.isnan(number(name))
    return True


# ---------------------------------------------------------------------- numbers, compiled


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


def rows_of(data: bytes, width: int, wanted: tuple[int, ...], *, longest: int = LONGEST) -> Floats:
    """The wanted columns of whole lines, each of which ends at LF, as numbers.

    >>> rows_of(b"1,2,3\\n4,5\\n\\n6,x,7\\n", 3, (2, 1))
    array([[ 3.,  2.], [nan, nan], [ 7., nan]])
    """
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
