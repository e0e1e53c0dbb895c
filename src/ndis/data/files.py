"""Parquet, Arrow, CSV and NPY files and folders, streamed with bounded memory.

Opening a file reads its schema only. CSV has no schema: the caller names its columns, or promises with `header` that
the first line of every file holds public names. No message quotes that line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ndis._npy import npy_blocks, npy_header
from ndis.data.arrow import arrow_cells, arrow_kind, arrow_schema
from ndis.data.columns import Cells, Columns, Wanted, memory_columns, objects, stacked
from ndis.data.csv import first_line, given_names, header_names, line_blocks, rows_of, texts_of
from ndis.data.paths import files_of, is_paths, kind_of_files
from ndis.data.reading import ahead, fixed_steps, readable, stamps, unchanged
from ndis.data.source import Groups, Parts, Source, check_dtype, matrix_width, rows_per_read
from ndis.errors import ParameterError

__all__ = ["file_source", "open_columns"]

T = TypeVar("T")

_PAGES = 1 << 20  # bytes of a Parquet column that are read at a time


@dataclass(frozen=True)
class _File:
    """One file: its public schema, and a way to read columns by their numbers in blocks of about so many rows.

    A block is a record batch of Arrow, whole lines of a CSV file (None for a line that is too long), or a matrix. With
    it comes the share of the file that is done.
    """

    width: int
    blocks: Callable[[tuple[int, ...], int], Iterator[tuple[Any, float]]]
    names: tuple[str, ...] = ()
    schema: Any = None  # of Arrow


@dataclass(frozen=True)
class _Files:
    """Files of one kind with the same columns; `given` are the names of the columns of CSV files without a header."""

    kind: str
    paths: list[Path]
    files: list[_File]
    before: list[tuple[int, ...]]
    given: tuple[str, ...] | None

    @classmethod
    def open(cls, kind: str, paths: list[Path], given: tuple[str, ...] | None) -> _Files:
        before = stamps(paths)
        files = []
        for path in paths:
            with readable(path):
                files.append(_open_csv(path, given) if kind == "csv" else _OPENERS[kind](path))
            if (files[-1].names, files[-1].width) != (files[0].names, files[0].width):
                raise ParameterError("data", "have the same columns in every file", path)
        return cls(kind, paths, files, before, given)

    @property
    def names(self) -> tuple[str, ...]:
        return self.files[0].names

    def read(
        self, wanted: tuple[int, ...], step: int, convert: Callable[[Any], T], progress: bool | None
    ) -> Iterator[T]:
        """The blocks of all files, one ahead, as ``convert`` makes them."""

        def every() -> Iterator[tuple[T, float]]:
            for done, (path, file) in enumerate(zip(self.paths, self.files, strict=True)):
                with readable(path):
                    for block, share in file.blocks(wanted, step):
                        yield convert(block), (done + share) / len(self.paths)

        with fixed_steps(progress) as show:
            for block, share in ahead(every()):
                yield block
                show(share)
            unchanged(self.paths, self.before)


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
    found = _Files.open(kind, paths, given_names(columns) if kind == "csv" and not header else None)
    names, width = found.names, found.files[0].width
    unread = frozenset(i for i, name in enumerate(names) if kind == "csv" and not name)
    refused = dict.fromkeys(unread, "a column without a name")
    for file in found.files:
        refused |= arrow_schema(file.schema, "data")[1] if file.schema is not None else {}

    def read(groups: Groups) -> Iterator[Parts]:
        wanted = tuple(i for g in groups for i in g)
        cuts = [sum(map(len, groups[:i])) for i in range(len(groups) + 1)]

        def matrix(block: Any) -> Any:
            if kind == "csv":
                return np.full((1, len(wanted)), np.nan) if block is None else rows_of(block, width, wanted)
            return block if kind == "npy" else stacked([arrow_cells(column, True) for column in block.columns])

        for block in found.read(wanted, rows_per_read(width), matrix, progress):
            yield tuple(block[:, a:b] for a, b in pairwise(cuts))

    named = found.given is not None
    return Source(width, read, names, refused, unread=unread, named=named, quotable=kind != "csv")


def open_columns(
    data: Any, *, names: Sequence[str | None], columns: Any = None, header: bool = False, progress: bool | None = None
) -> Columns:
    """Open a frame, an Arrow table, a mapping of columns, rows in the order of `names`, or files, as they are stored.

    `names` is the order of the columns of data that have no names: arrays, lists of rows, and CSV files without a
    header. For the latter, `columns` may say another order, with None for a column that is not read.
    """
    if not is_paths(data):
        if columns is not None or header:
            raise ParameterError("columns and header", "be left out for data other than CSV files", "one of them")
        return memory_columns(data, names=names)
    paths = files_of(data)
    kind = kind_of_files(paths)
    if kind == "npy":
        raise ParameterError("data", "be Parquet, Arrow or CSV files for a schema", "NPY", "load the array and pass it")
    if kind != "csv" and (header or columns is not None):
        raise ParameterError("columns and header", "be left out for files other than CSV", "one of them")
    if header and columns is not None:
        raise ParameterError("columns", "be left out where header says that the files have names", "both")
    called = list(names) if columns is None else columns
    found = _Files.open(kind, paths, None if header or kind != "csv" else given_names(called))

    def read(wanted: Wanted) -> Iterator[list[Cells]]:
        places = tuple((found.names.index(name), numeric) for name, numeric in wanted)

        def cells(block: Any) -> list[Cells]:
            if kind == "csv":
                return _line_cells(block, len(found.names), places)
            return [arrow_cells(block.column(j), numeric) for j, (_, numeric) in enumerate(wanted)]

        return found.read(tuple(i for i, _ in places), rows_per_read(len(wanted)), cells, progress)

    kinds = {
        name: frozenset("cells" if kind == "csv" else arrow_kind(file.schema.field(i).type) for file in found.files)
        for i, name in enumerate(found.names)
        if name
    }
    return Columns(kinds, read, quotable=kind != "csv")


def _line_cells(lines: bytes | None, width: int, wanted: tuple[tuple[int, bool], ...]) -> list[Cells]:
    """Whole lines as columns: numbers where they suffice, and bytes or None elsewhere.

    >>> [cells.tolist() for cells in _line_cells(b"1,a\\n2,b,c\\nx,d\\n", 2, ((0, True), (1, False)))]
    [[1.0, nan, nan], [b'a', None, b'd']]
    """
    if lines is None:  # one line that is too long
        return [np.full(1, np.nan) if numeric else objects([None]) for _, numeric in wanted]
    numbers = tuple(i for i, numeric in wanted if numeric)
    texts = tuple(i for i, numeric in wanted if not numeric)
    matrix = rows_of(lines, width, numbers) if numbers else np.empty((0, 0))
    found = {place: np.ascontiguousarray(matrix[:, j]) for j, place in enumerate(numbers)}
    found |= dict(zip(texts, map(objects, texts_of(lines, width, texts) if texts else []), strict=True))
    return [found[i] for i, _ in wanted]


# ---------------------------------------------------------------------- one file of each kind


def _open_parquet(path: Path) -> _File:
    import pyarrow.parquet as pq

    schema = pq.read_schema(path)
    names, _ = arrow_schema(schema, path)

    def blocks(wanted: tuple[int, ...], step: int) -> Iterator[tuple[Any, float]]:
        chosen = [names[i] for i in wanted]
        # A buffered reader takes a column page by page: otherwise the whole row group would be in memory.
        with pq.ParquetFile(path, buffer_size=_PAGES, pre_buffer=False) as file:
            groups = file.num_row_groups
            for g in range(groups):
                for batch in file.iter_batches(batch_size=step, row_groups=[g], columns=chosen):
                    yield batch.select(chosen), g / groups

    return _File(len(names), blocks, names, schema)


def _open_arrow(path: Path) -> _File:
    import pyarrow as pa

    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        schema = reader.schema
    names, _ = arrow_schema(schema, path)

    def blocks(wanted: tuple[int, ...], step: int) -> Iterator[tuple[Any, float]]:
        chosen = [names[i] for i in wanted]
        options = pa.ipc.IpcReadOptions(included_fields=sorted(wanted))
        # Not mapped: a mapped file that another process cuts short kills this one.
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file, options=options) as reader:
            count = reader.num_record_batches
            for i in range(count):
                batch = reader.get_batch(i).select(chosen)
                for start in range(0, batch.num_rows, step):
                    yield batch.slice(start, step), i / count

    return _File(len(names), blocks, names, schema)


def _open_npy(path: Path) -> _File:
    with path.open("rb") as file:
        try:
            header = npy_header(file)
        except (ValueError, EOFError, SyntaxError, TypeError):  # NumPy's message may quote the content
            raise ParameterError("data", "be an NPY file of numbers", path) from None
        width = matrix_width(header.shape)
        check_dtype(header.dtype)
        if header.start + header.size > file.seek(0, 2):
            raise ParameterError("data", "be an NPY file of numbers", "a file that is cut short")

    def blocks(wanted: tuple[int, ...], step: int) -> Iterator[tuple[Any, float]]:
        rows = max(header.shape[0], 1)
        for i, block in enumerate(npy_blocks(path, header, wanted, step)):
            yield block, min(i * step / rows, 1.0)

    return _File(width, blocks)


def _open_csv(path: Path, given: tuple[str, ...] | None) -> _File:
    names = header_names(path) if given is None else given

    def blocks(wanted: tuple[int, ...], step: int) -> Iterator[tuple[Any, float]]:
        size = max(path.stat().st_size, 1)
        with path.open("rb") as file:
            if given is None:
                first_line(file)
            for lines in line_blocks(file):
                yield lines, min(file.tell() / size, 1.0)

    return _File(len(names), blocks, names)


_OPENERS: dict[str, Callable[[Path], _File]] = {"parquet": _open_parquet, "arrow": _open_arrow, "npy": _open_npy}
