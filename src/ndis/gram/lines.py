"""The lines of a CSV file as rows of numbers: each line is read by itself, so no line changes how another is read.

A line ends at LF; a CR just before it belongs to the end. Nothing else ends a line, and quotes end with it. The last
line of a file needs no LF, and a byte order mark before the first line is dropped. An empty line is no record. Every
other line is one record:

- Commas separate its cells. A cell that begins with a quote ends at the next quote that is not doubled, and a comma
  or the end of the line must follow.
- It is a row of numbers if it has as many cells as the file has columns, and no more than `LONGEST` bytes. Otherwise,
  and if a quote stays open, it is a row of missing numbers.
- `ndis.gram.cells.number` says which bytes are a number. No byte is ever decoded, so none can fail to be.

`rows_by_line` is this definition in Python, one line at a time. `rows_of` gives the same bits faster: a compiled pass
finds the cells and what is a number, and Arrow, which rounds correctly as Python does, reads the digits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from ndis._validate import Floats
from ndis.gram.cells import number
from ndis.gram.lines_kernel import compiled_rows

__all__ = ["LONGEST", "cells_of", "first_line", "line_blocks", "row_blocks", "rows_by_line", "rows_of"]

LONGEST = 1 << 23  # bytes of a line that can be a row
_BLOCK = 1 << 22  # bytes of one read
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


def rows_by_line(data: bytes, width: int, wanted: tuple[int, ...], *, longest: int = LONGEST) -> Floats:
    """The wanted columns of whole lines, each of which ends at LF, one line at a time.

    >>> rows_by_line(b"1,2,3\\n4,5\\n\\n6,x,7\\n", 3, (2, 1))
    array([[ 3.,  2.], [nan, nan], [ 7., nan]])
    """
    rows = []
    for ended in data.split(b"\n")[:-1]:
        line = ended.removesuffix(b"\r")
        if line:
            cells = cells_of(line) if len(ended) <= longest else None
            whole = cells is not None and len(cells) == width
            rows.append([number(cells[i]) if whole and cells is not None else math.nan for i in wanted])
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(wanted))


def rows_of(data: bytes, width: int, wanted: tuple[int, ...], *, longest: int = LONGEST) -> Floats:
    """The same as `rows_by_line`, to the same bits, by compiled code."""
    return compiled_rows(data, width, wanted, longest=longest)


def first_line(file: BinaryIO) -> bytes | None:
    """The first line without mark and end; None if it is longer than `LONGEST`. The file then stands behind it."""
    line = file.readline(LONGEST + len(_MARK) + 2).removeprefix(_MARK)
    return line.removesuffix(b"\n").removesuffix(b"\r") if len(line) <= LONGEST + 1 else None


def row_blocks(
    file: BinaryIO, width: int, wanted: tuple[int, ...], *, block: int = _BLOCK, longest: int = LONGEST
) -> Iterator[Floats]:
    """The records from here to the end of a file, in blocks; memory does not grow with the length of a line.

    >>> import io
    >>> list(row_blocks(io.BytesIO(b"1,2\\n3,4"), 2, (1,)))
    [array([[2.]]), array([[4.]])]
    """
    missing = np.full((1, len(wanted)), math.nan)
    for data in line_blocks(file, block=block, longest=longest):
        yield missing if data is None else rows_of(data, width, wanted, longest=longest)


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
