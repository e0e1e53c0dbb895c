"""Parquet, Arrow, CSV and NPY files and folders, streamed with bounded memory.

Opening a file reads its schema only. CSV has no schema: the caller names its columns, or promises with `header` that
the first line of every file holds public names. No message quotes that line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.errors import ParameterError
from ndis.gram.arrow import arrow_matrix, arrow_schema
from ndis.gram.cells import number
from ndis.gram.lines import cells_of, first_line, row_blocks
from ndis.gram.npy import npy_blocks, npy_header
from ndis.gram.paths import files_of, kind_of_files
from ndis.gram.reading import ahead, fixed_steps, readable, stamps, unchanged
from ndis.gram.schema import Groups, Parts, Source, check_dtype, matrix_width, rows_per_read

__all__ = ["PAGES", "file_source", "given_names", "header_names"]

Blocks = Iterator[tuple[NDArray[np.float64], float]]  # rows, and the share of the file that is done after them

PAGES = 1 << 20  # bytes of a Parquet column that are read at a time


@dataclass(frozen=True)
class _Table:
    """One file: its public schema, and a way to read columns by their numbers in blocks of about so many rows."""

    width: int
    blocks: Callable[[tuple[int, ...], int], Blocks]
    names: tuple[str, ...] = ()
    refused: dict[int, str] = field(default_factory=dict)


def file_source(data: Any, *, columns: Any = None, header: bool = False, progress: bool | None = None) -> Source:
    """Open a file, a folder (searched for files of one kind, in sorted order) or a list of files and folders.

    Parameters
    ----------
    data : path or list of paths
    columns : names, optional
        The names of all columns of a CSV file without a header, from left to right; None for a column that is not
        read. Other files name their columns themselves.
    header : bool
        The first line of every CSV file holds public names.
    progress : bool, optional
        Show a progress bar; by default if standard error is a terminal.
    """
    paths = files_of(data)
    kind = kind_of_files(paths)
    if header and kind != "csv":
        raise ParameterError("header", "be left out for files other than CSV", header)
    before = stamps(paths)
    given = given_names(columns) if kind == "csv" and not header else None
    tables = [_open(kind, path, given) for path in paths]
    names, width = tables[0].names, tables[0].width
    for path, table in zip(paths, tables, strict=True):
        if (table.names, table.width) != (names, width):
            raise ParameterError("data", "have the same columns in every file", path)
    step = rows_per_read(width)
    refused = {i: why for table in tables for i, why in table.refused.items()}

    def read(groups: Groups) -> Iterator[Parts]:
        wanted = tuple(i for g in groups for i in g)
        cuts = [sum(map(len, groups[:i])) for i in range(len(groups) + 1)]
        with fixed_steps(progress) as show:
            for block, share in ahead(_all_blocks(paths, tables, wanted, step)):
                yield tuple(block[:, a:b] for a, b in pairwise(cuts))
                show(share)
            unchanged(paths, before)

    unread = frozenset() if given is None else frozenset(i for i, name in enumerate(given) if not name)
    return Source(width, read, names, refused, unread=unread, named=given is not None, quotable=kind != "csv")


def _all_blocks(paths: list[Path], tables: list[_Table], wanted: tuple[int, ...], step: int) -> Blocks:
    for done, (path, table) in enumerate(zip(paths, tables, strict=True)):
        with readable(path):
            for block, share in table.blocks(wanted, step):
                yield block, (done + share) / len(paths)


def _open(kind: str, path: Path, names: tuple[str, ...] | None) -> _Table:
    with readable(path):
        if kind == "parquet":
            return _open_parquet(path)
        if kind == "arrow":
            return _open_arrow(path)
        return _open_npy(path) if kind == "npy" else _open_csv(path, names)


# ---------------------------------------------------------------------- Parquet, Arrow, NPY


def _open_parquet(path: Path) -> _Table:
    import pyarrow.parquet as pq

    names, refused = arrow_schema(pq.read_schema(path), path)

    def blocks(wanted: tuple[int, ...], step: int) -> Blocks:
        chosen = [names[i] for i in wanted]
        # A buffered reader takes a column page by page: otherwise the whole row group would be in memory.
        with pq.ParquetFile(path, buffer_size=PAGES, pre_buffer=False) as file:
            groups = file.num_row_groups
            for g in range(groups):
                for batch in file.iter_batches(batch_size=step, row_groups=[g], columns=chosen):
                    yield arrow_matrix(batch.select(chosen), range(len(chosen))), g / groups

    return _Table(len(names), blocks, names, refused)


def _open_arrow(path: Path) -> _Table:
    import pyarrow as pa

    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        names, refused = arrow_schema(reader.schema, path)

    def blocks(wanted: tuple[int, ...], step: int) -> Blocks:
        chosen = [names[i] for i in wanted]
        options = pa.ipc.IpcReadOptions(included_fields=sorted(wanted))
        # Not mapped: a mapped file that another process cuts short kills this one.
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file, options=options) as reader:
            count = reader.num_record_batches
            for i in range(count):
                batch = reader.get_batch(i).select(chosen)
                for start in range(0, batch.num_rows, step):
                    yield arrow_matrix(batch.slice(start, step), range(len(chosen))), i / count

    return _Table(len(names), blocks, names, refused)


def _open_npy(path: Path) -> _Table:
    with path.open("rb") as file:
        try:
            header = npy_header(file)
        except (ValueError, EOFError, SyntaxError, TypeError):  # NumPy's message may quote the content
            raise ParameterError("data", "be an NPY file of numbers", path) from None
        width = matrix_width(header.shape)
        check_dtype(header.dtype)
        if header.start + header.size > file.seek(0, 2):
            raise ParameterError("data", "be an NPY file of numbers", "a file that is cut short")

    def blocks(wanted: tuple[int, ...], step: int) -> Blocks:
        rows = max(header.shape[0], 1)
        for i, block in enumerate(npy_blocks(path, header, wanted, step)):
            yield block, min(i * step / rows, 1.0)

    return _Table(width, blocks)


# ---------------------------------------------------------------------- CSV


def _open_csv(path: Path, given: tuple[str, ...] | None) -> _Table:
    names = header_names(path) if given is None else given

    def blocks(wanted: tuple[int, ...], step: int) -> Blocks:
        size = max(path.stat().st_size, 1)
        with path.open("rb") as file:
            if given is None:
                first_line(file)
            for block in row_blocks(file, len(names), wanted):
                yield block, min(file.tell() / size, 1.0)

    return _Table(len(names), blocks, names, {i: "a column without a name" for i, name in enumerate(names) if not name})


def given_names(columns: Any) -> tuple[str, ...]:
    """The caller's names for the columns of a CSV file; empty for a column that is not read."""
    items = [columns] if columns is None or isinstance(columns, str) else list(columns)
    if items == [None]:
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
