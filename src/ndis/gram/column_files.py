"""Columns of any source as they are stored; those of Parquet, Arrow and CSV files streamed with bounded memory.

Cells of a CSV file are bytes, split as `ndis.gram.lines` says. All cells of a line that cannot be split are missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ndis.errors import ParameterError
from ndis.gram.columns import Cells, Columns, Wanted, arrow_cells, arrow_kind, memory_columns, objects
from ndis.gram.files import PAGES, given_names, header_names
from ndis.gram.lines import LONGEST, cells_of, first_line, line_blocks, rows_of
from ndis.gram.paths import files_of, kind_of_files
from ndis.gram.reading import ahead, fixed_steps, readable, stamps, unchanged
from ndis.gram.schema import rows_per_read

__all__ = ["cell_blocks", "open_columns"]

Shares = Iterator[tuple[list[Cells], float]]  # columns, and the share of the file that is done after them


@dataclass(frozen=True)
class _File:
    kinds: dict[str, str]
    blocks: Callable[[Wanted], Shares]


def open_columns(
    data: Any, *, names: Sequence[str | None], columns: Any = None, header: bool = False, progress: bool | None = None
) -> Columns:
    """Open a frame, an Arrow table, a mapping of columns, rows in the order of `names`, or files.

    `names` is the order of the columns of data that have no names: arrays, lists of rows, and CSV files without a
    header. For the latter, `columns` may say another order, with None for a column that is not read.
    """
    listed = isinstance(data, list) and bool(data) and all(isinstance(p, str | os.PathLike) for p in data)
    if listed or isinstance(data, str | os.PathLike):
        return _files(data, names=names, columns=columns, header=header, progress=progress)
    if columns is not None or header:
        raise ParameterError("columns and header", "be left out for data other than CSV files", "one of them")
    return memory_columns(data, names=names)


def _files(data: Any, *, names: Sequence[str | None], columns: Any, header: bool, progress: bool | None) -> Columns:
    paths = files_of(data)
    kind = kind_of_files(paths)
    if kind == "npy":
        raise ParameterError("data", "be Parquet, Arrow or CSV files for a schema", "NPY", "load the array and pass it")
    if kind != "csv" and (header or columns is not None):
        raise ParameterError("columns and header", "be left out for files other than CSV", "one of them")
    if header and columns is not None:
        raise ParameterError("columns", "be left out where header says that the files have names", "both")
    before = stamps(paths)
    given = None if header or kind != "csv" else given_names(list(names) if columns is None else columns)
    opened = [_open(kind, path, given) for path in paths]
    for path, file in zip(paths, opened, strict=True):
        if list(file.kinds) != list(opened[0].kinds):
            raise ParameterError("data", "have the same columns in every file", path)

    def blocks(wanted: Wanted) -> Shares:
        for done, (path, file) in enumerate(zip(paths, opened, strict=True)):
            with readable(path):
                for block, share in file.blocks(wanted):
                    yield block, (done + share) / len(paths)

    def read(wanted: Wanted) -> Iterator[list[Cells]]:
        with fixed_steps(progress) as show:
            for block, share in ahead(blocks(wanted)):
                yield block
                show(share)
            unchanged(paths, before)

    kinds = {name: frozenset(file.kinds[name] for file in opened) for name in opened[0].kinds if name}
    return Columns(kinds, read, quotable=kind != "csv")


def _open(kind: str, path: Path, given: tuple[str, ...] | None) -> _File:
    with readable(path):
        if kind == "csv":
            return _open_csv(path, given)
        return _open_parquet(path) if kind == "parquet" else _open_arrow(path)


def _arrow_kinds(schema: Any, path: Path) -> dict[str, str]:
    if len(set(schema.names)) < len(schema.names) or not schema.names:
        raise ParameterError("data", "have columns of different names", path)
    if not all(name.isprintable() for name in schema.names):
        raise ParameterError("data", "have column names of printable characters", path)
    return {field.name: arrow_kind(field.type) for field in schema}


def _open_parquet(path: Path) -> _File:
    import pyarrow.parquet as pq

    kinds = _arrow_kinds(pq.read_schema(path), path)

    def blocks(wanted: Wanted) -> Shares:
        chosen = [name for name, _ in wanted]
        with pq.ParquetFile(path, buffer_size=PAGES, pre_buffer=False) as file:
            groups = file.num_row_groups
            for g in range(groups):
                for batch in file.iter_batches(batch_size=rows_per_read(len(wanted)), row_groups=[g], columns=chosen):
                    yield [arrow_cells(batch.column(name), numeric) for name, numeric in wanted], g / groups

    return _File(kinds, blocks)


def _open_arrow(path: Path) -> _File:
    import pyarrow as pa

    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        kinds = _arrow_kinds(reader.schema, path)

    def blocks(wanted: Wanted) -> Shares:
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
            count, step = reader.num_record_batches, rows_per_read(len(wanted))
            for i in range(count):
                batch = reader.get_batch(i)
                for start in range(0, batch.num_rows, step):
                    rows = batch.slice(start, step)
                    yield [arrow_cells(rows.column(name), numeric) for name, numeric in wanted], i / count

    return _File(kinds, blocks)


def _open_csv(path: Path, given: tuple[str, ...] | None) -> _File:
    names = header_names(path) if given is None else given

    def blocks(wanted: Wanted) -> Shares:
        size = max(path.stat().st_size, 1)
        with path.open("rb") as file:
            if given is None:
                first_line(file)
            places = tuple((names.index(name), numeric) for name, numeric in wanted)
            for block in cell_blocks(file, len(names), places):
                yield block, min(file.tell() / size, 1.0)

    return _File(dict.fromkeys(names, "cells"), blocks)


def cell_blocks(
    file: BinaryIO, width: int, wanted: tuple[tuple[int, bool], ...], *, longest: int = LONGEST
) -> Iterator[list[Cells]]:
    """The records from here to the end of a file: numbers where they suffice, and bytes or None elsewhere.

    >>> import io
    >>> lines = io.BytesIO(b"1,a\\n2,b,c\\nx,d\\n")
    >>> [[cells.tolist() for cells in block] for block in cell_blocks(lines, 2, ((0, True), (1, False)))]
    [[[1.0, nan, nan], [b'a', None, b'd']]]
    """
    numbers = tuple(i for i, numeric in wanted if numeric)
    texts = tuple(i for i, numeric in wanted if not numeric)
    for data in line_blocks(file, longest=longest):
        if data is None:  # one line that is too long
            found = dict.fromkeys(numbers, np.full(1, np.nan)) | dict.fromkeys(texts, objects([None]))
        else:
            matrix = rows_of(data, width, numbers, longest=longest) if numbers else np.empty((0, 0))
            found = {place: np.ascontiguousarray(matrix[:, j]) for j, place in enumerate(numbers)}
            if texts:
                found |= _texts(data, width, texts, longest)
        yield [found[i] for i, _ in wanted]


def _texts(data: bytes, width: int, texts: tuple[int, ...], longest: int) -> dict[int, Cells]:
    rows: list[list[bytes] | None] = []
    for ended in data.split(b"\n")[:-1]:
        line = ended.removesuffix(b"\r")
        if line:
            cells = (line.split(b",") if b'"' not in line else cells_of(line)) if len(ended) <= longest else None
            rows.append(cells if cells is not None and len(cells) == width else None)
    return {i: objects([None if row is None else row[i] for row in rows]) for i in texts}
