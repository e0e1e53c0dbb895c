"""Read a CSV file line by line: each line is read by itself, so no line changes how another is read.

**One rule in every command and every call.** The caller names the columns (``columns``, from left to right, with None
for a column that is not read; the order of a schema stands in for it), or promises with ``header=True`` that the first
line of every file holds public names. Without ``header`` every line is a record, the first one too.

A line ends at LF; a CR just before it belongs to the end. Nothing else ends a line, and quotes end with it. The last
line of a file needs no LF. A byte order mark at the start of a line, of any line, is no part of it. An empty line is no
record. Every other line is one record:

- Commas separate its cells. A cell that begins with a quote ends at the next quote that is not doubled. A comma or the
  end of the line must follow.
- It is a row of cells if it has as many cells as the file has columns, and no more than `LONGEST` bytes. Otherwise,
  and if a quote stays open, all its cells are missing.
- `ndis.data.cells.number` says which bytes are a number. No byte is ever decoded, so none can fail to be.

A compiled pass finds the cells and which of them are numbers, and Arrow, which rounds correctly as Python does, reads
the digits. A test holds this definition in Python, one line at a time, and compares the bits. A block has a fixed
number of rows at most, so memory is bounded: about 3·`LONGEST` bytes for one record, whatever it holds.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ndis._compile import compiled
from ndis._validate import require
from ndis.data.cells import Cells, number
from ndis.data.table import Wanted

LONGEST = 1 << 23  # bytes of a line that can be a row
_BLOCK = 1 << 22  # bytes of one read
_LF, _CR, _QUOTE, _COMMA = 10, 13, 34, 44
_NONE, _PLAIN, _RARE = 0, 1, 2  # no number; one that cannot leave the range of floats; any other
_PLAIN_BYTES = 40
_MARK = b"\xef\xbb\xbf"
_NUMERIC = ("nan", "inf", "infinity")  # what else Python reads as a number


def first_line(file: BinaryIO) -> bytes | None:
    """Return the first line without mark and end, and move behind it; None if it is longer than `LONGEST`."""
    line = file.readline(LONGEST + len(_MARK) + 2).removeprefix(_MARK)
    return line.removesuffix(b"\n").removesuffix(b"\r") if len(line) <= LONGEST + 1 else None


def line_blocks(file: BinaryIO, *, block: int = _BLOCK, longest: int = LONGEST) -> Iterator[bytes | None]:
    """Yield whole lines, each of which ends at LF, from here to the end of a file; None for a line that is too long."""
    tail, dropping = b"", False
    while chunk := file.read(block):
        if dropping:
            _, end, chunk = chunk.partition(b"\n")
            if not end:
                continue
            yield None
            dropping = False
        data = tail + chunk
        cut = data.rfind(b"\n") + 1
        tail = data[cut:]
        if cut:
            yield data[:cut]
        if len(tail) > longest:
            tail, dropping = b"", True
    if dropping:
        yield None
    elif tail:
        yield tail + b"\n"


# ---------------------------------------------------------------------- names of columns


def given_names(columns: Any) -> tuple[str, ...]:
    """Return the caller's names for the columns of a CSV file; empty for a column that is not read."""
    items = [] if columns is None else [columns] if isinstance(columns, str) else list(columns)
    names = tuple("" if item is None else item for item in items)
    rule = "name all columns of a CSV file, from left to right, by different printable words that are no numbers"
    remedy = "or say header=True (--header) if the first line of every file holds public names"
    good = _are_names([name for name in names if name != ""])
    require(good, "columns", rule, "something else" if items else None, remedy)
    return names


def header_names(path: Path, where: str) -> tuple[str, ...]:
    """Return the names in the first line. Every fault has the same message: the line may be a record after all."""
    with path.open("rb") as file:
        line = first_line(file)
    try:
        names = next(csv.reader([line.decode("utf-8")], strict=True), []) if line else []
    except (UnicodeDecodeError, csv.Error):
        names = []
    rule = "begin with a line of different printable column names in UTF-8, none of them empty or a number"
    require(_are_names(names), "data", rule, where, "without such a line leave header out and name the columns")
    return tuple(names)


def _are_names(names: list[Any]) -> bool:
    words = all(isinstance(name, str) and name.strip() and name.isprintable() for name in names)
    # A line of data may hold NaN and infinity as well.
    numeric = words and any(not np.isnan(number(name)) or name.lower().strip(" +-") in _NUMERIC for name in names)
    return bool(names) and words and len(set(names)) == len(names) and not numeric


# ---------------------------------------------------------------------- numbers, compiled


@compiled()
def _digits(data: Any, at: int, end: int) -> int:
    """The first place from `at` on that holds no digit."""
    while at < end and 48 <= data[at] <= 57:
        at += 1
    return at


@compiled()
def _classify(data: Any, a: int, z: int) -> tuple[int, int, int]:
    """Return whether ``data[a:z]`` is a number, and where it lies without spaces and without a plus sign."""
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
def _scan(
    data: Any, i: int, slots: Any, numeric: Any, longest: int, begin: Any, end: Any, kind: Any
) -> tuple[int, int]:
    """Fill in place and kind of the wanted cells of the next records; returns their number and the next place."""
    row, size, width = 0, data.size, slots.size
    while i < size and row < len(kind):
        start = i
        if i + 3 < size and data[i] == 239 and data[i + 1] == 187 and data[i + 2] == 191:
            i += 3
        if data[i] == _LF:
            i += 1
            continue
        if data[i] == _CR and data[i + 1] == _LF:  # the data end in LF, so there is a next byte
            i += 2
            continue
        column, whole = 0, True
        kind[row] = _NONE
        while True:
            a = z = i
            doubled = False
            if data[i] == _QUOTE:
                a = z = i + 1
                while data[z] != _LF and (data[z] != _QUOTE or data[z + 1] == _QUOTE):
                    if data[z] == _QUOTE:
                        doubled = True
                        z += 1
                    z += 1
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
                if numeric[slot]:
                    kind[row, slot], begin[row, slot], end[row, slot] = _classify(data, a, z)
                else:
                    kind[row, slot], begin[row, slot], end[row, slot] = _RARE if doubled else _PLAIN, a, z
            column += 1
            if data[i] == _LF:
                break
            i += 1
        if not whole or column != width or i - start > longest:
            kind[row] = _NONE
        row += 1
        i += 1
    return row, i


@compiled()
def _gather(data: Any, begin: Any, offsets: Any, out: Any) -> None:
    for k in range(begin.size):
        a = begin[k] - offsets[k]
        for i in range(offsets[k], offsets[k + 1]):
            out[i] = data[a + i]


def line_cells(
    lines: bytes | None, width: int, wanted: Wanted, *, most: int = 1 << 16, longest: int = LONGEST
) -> Iterator[list[Cells]]:
    """Yield the wanted columns of whole lines, at most this many records at a time: numbers where they suffice.

    None stands for one line that is too long. Elsewhere a cell is its bytes, or missing.

    >>> block, = line_cells(b"1,a\\n2,b,c\\nx,d\\n", 2, ((0, True), (1, False)))
    >>> block[0].tolist(), block[1].to_pylist()
    ([1.0, nan, nan], [b'a', None, b'd'])
    """
    data = b"," * width + b"\n" if lines is None else lines  # as a line of other columns
    view = np.frombuffer(data, dtype=np.uint8)
    slots = np.full(width, -1, dtype=np.int64)
    places = sorted({place for place, _ in wanted})
    slots[places] = np.arange(len(places))
    numeric = np.array([all(suffices for place, suffices in wanted if place == each) for each in places])
    shape = (min(most, data.count(b"\n")), len(places))
    begin, end = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
    kind = np.empty(shape, dtype=np.uint8)
    at = 0
    while at < len(data):
        rows, at = _scan(view, at, slots, numeric, longest, begin, end, kind)
        columns = [(begin[:rows, j].copy(), end[:rows, j].copy(), kind[:rows, j]) for j in range(len(places))]
        read = [_numbers if is_number else _texts for is_number in numeric]
        if rows:
            cells = {place: read[j](data, view, *columns[j]) for j, place in enumerate(places)}
            yield [cells[place] for place, _ in wanted]


def _numbers(data: bytes, view: Any, begin: Any, end: Any, kind: Any) -> Cells:
    """Read the cells of a numeric column: plain ones together by Arrow, rare ones by Python."""
    import pyarrow as pa

    column = np.full(len(kind), np.nan)
    plain = np.flatnonzero(kind == _PLAIN)
    if plain.size:
        texts = pa.LargeStringArray.from_buffers(plain.size, *_gathered(view, begin[plain], end[plain]))
        column[plain] = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
    for i in np.flatnonzero(kind == _RARE).tolist():
        column[i] = float(data[begin[i] : end[i]])
    return column


def _texts(data: bytes, view: Any, begin: Any, end: Any, kind: Any) -> Cells:
    """Return the cells of a column as Arrow bytes, with doubled quotes made single."""
    import pyarrow as pa

    if (kind == _RARE).any():  # doubled quotes
        cut = ((data[a:z], k) for a, z, k in zip(begin, end, kind, strict=True))
        listed = [None if k == _NONE else text.replace(b'""', b'"') if k == _RARE else text for text, k in cut]
        return pa.array(listed, pa.large_binary())
    missing = kind == _NONE
    begin[missing] = end[missing] = 0
    valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    offsets, text = _gathered(view, begin, end)
    return pa.Array.from_buffers(pa.large_binary(), len(kind), [valid, offsets, text])


def _gathered(view: Any, begin: Any, end: Any) -> tuple[Any, Any]:
    """Return the offsets and the bytes of these places, one after the other, as buffers of Arrow."""
    import pyarrow as pa

    offsets = np.zeros(len(begin) + 1, dtype=np.int64)
    np.cumsum(end - begin, out=offsets[1:])
    text = np.empty(offsets[-1], dtype=np.uint8)
    _gather(view, begin, offsets, text)
    return pa.py_buffer(offsets), pa.py_buffer(text)
