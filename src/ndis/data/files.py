"""Open Parquet, Arrow, CSV and NPY files and folders as a table, streamed with bounded memory.

Opening a file reads its schema only. CSV has no schema: `ndis.data.csv` states the rule. No message quotes a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ndis._validate import require
from ndis.data.cells import Cells, arrow_kind, arrow_pieces, kind_of
from ndis.data.csv import first_line, given_names, header_names, line_blocks, line_cells
from ndis.data.footer import plain_footer, text_plan
from ndis.data.npy import npy_blocks, npy_header
from ndis.data.paths import ahead, files_of, fixed_steps, kind_of_files, readable, shown, stamps, unchanged
from ndis.data.table import Table, Wanted, check_names, matrix_width, pieces_together, rows_per_read
from ndis.errors import ParameterError

_PAGES = 1 << 20  # bytes of a Parquet column that are read at a time
_KIND = {"csv": "cells", "npy": "number"}
Blocks = Iterator[tuple[list[Cells], float]]  # columns of cells, with the share of the file that is done


# A file has public names and types (of Arrow or NumPy; None in CSV), and gives wanted columns in blocks of rows, at
# most as many as the second argument says.
_File = tuple[tuple[str, ...], tuple[Any, ...], Callable[[Wanted, int], Blocks]]


def file_table(data: Any, *, columns: Any = None, header: bool = False, progress: bool | None = None) -> Table:
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
    paths, where = files_of(data), shown(data)
    kind = kind_of_files(paths)
    require(not header or kind == "csv", "header", "be left out for files other than CSV", header)
    given = given_names(columns) if kind == "csv" and not header else None
    before = stamps(paths, where)
    files = []
    for path in paths:
        with readable(where):
            files.append(_open_csv(path, where, given) if kind == "csv" else _OPENERS[kind](path, where))
        same = (files[-1][0], len(files[-1][1])) == (files[0][0], len(files[0][1]))
        require(same, "data", "have the same columns in every file", where)
    names = files[0][0]

    def blocks(wanted: Wanted) -> Blocks:
        for done, (_, _, read) in enumerate(files):
            with readable(where):
                for block, share in read(wanted, rows_per_read(len(wanted))):
                    yield block, (done + share) / len(files)

    def cells(wanted: Wanted) -> Iterator[list[Cells]]:
        with fixed_steps(progress) as show:
            for block, share in ahead(blocks(wanted)):
                yield block
                show(share)
            unchanged(paths, before, where)

    types = map(set, zip(*(file[1] for file in files), strict=True))
    kinds = tuple(frozenset(_KIND.get(kind) or arrow_kind(each) for each in one) for one in types)
    return Table(kinds, cells, None, names, named=given is not None, quotable=kind != "csv")


# ---------------------------------------------------------------------- one file of each kind


def _open_parquet(path: Path, where: str) -> _File:
    """Open a Parquet file by its footer; its columns are read page by page."""
    import pyarrow.parquet as pq

    schema, leaves = pq.read_schema(path), plain_footer(path).schema
    names = check_names(schema.names, where)
    paths = [leaves.column(i).path for i in range(len(leaves))]  # a reader takes a.b for the field b of a as well
    require(len(set(paths)) == len(paths), "data", "have columns of different names, with those of fields", where)

    def blocks(wanted: Wanted, step: int) -> Blocks:
        """Give the wanted columns, a few rows of a row group at a time."""
        chosen = [names[i] for i, _ in wanted]
        metadata = plain_footer(path)
        texts = [names[i] for i, _ in wanted if arrow_kind(schema.types[i]) == "text"]
        coded, steps = text_plan(metadata, texts, step)
        # A buffered reader takes a column page by page: otherwise the whole row group would be in memory.
        how = {"read_dictionary": coded, "buffer_size": _PAGES, "pre_buffer": False}
        with pq.ParquetFile(path, metadata=metadata, **how) as file:
            done, total = 0, max(metadata.num_rows, 1)
            for g, rows in enumerate(steps):
                for batch in file.iter_batches(batch_size=rows, row_groups=[g], columns=chosen):
                    done += batch.num_rows
                    yield from ((block, done / total) for block in _batch_blocks(batch.select(chosen), wanted))

    return names, tuple(schema.types), blocks


def _open_arrow(path: Path, where: str) -> _File:
    """Open an Arrow file by its schema."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        schema = reader.schema
    names = check_names(schema.names, where)

    def blocks(wanted: Wanted, step: int) -> Blocks:
        """Give the wanted columns of one record batch after the other."""
        chosen = [names[i] for i, _ in wanted]
        options = pa.ipc.IpcReadOptions(included_fields=sorted({i for i, _ in wanted}))
        # Not mapped: a mapped file that another process cuts short kills this one.
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file, options=options) as reader:
            count = reader.num_record_batches
            for i in range(count):
                batch = reader.get_batch(i).select(chosen)
                for start in range(0, batch.num_rows, step):
                    yield from ((block, i / count) for block in _batch_blocks(batch.slice(start, step), wanted))

    return names, tuple(schema.types), blocks


def _batch_blocks(batch: Any, wanted: Wanted) -> Iterator[list[Cells]]:
    return pieces_together(arrow_pieces(batch.column(j), numeric) for j, (_, numeric) in enumerate(wanted))


def _open_npy(path: Path, where: str) -> _File:
    """Open an NPY file by its header, which must fit the length of the file."""
    with path.open("rb") as file:
        try:
            header = npy_header(file)
        except (ValueError, EOFError, SyntaxError, TypeError):  # NumPy's message may quote the content
            raise ParameterError("data", "be an NPY file of numbers", where) from None
        width = matrix_width(header.shape)
        if header.dtype.kind not in "fiub" or header.dtype.itemsize > 8:
            raise ParameterError("data", "hold real numbers of at most 64 bits", kind_of(header.dtype))
        if header.start + header.size > file.seek(0, 2):
            raise ParameterError("data", "be an NPY file of numbers", "a file that is cut short")

    def blocks(wanted: Wanted, step: int) -> Blocks:
        total = max(header.shape[0], 1)
        for i, block in enumerate(npy_blocks(path, header, tuple(i for i, _ in wanted), step)):
            yield block, min(i * step / total, 1.0)

    return (), (header.dtype,) * width, blocks


def _open_csv(path: Path, where: str, given: tuple[str, ...] | None) -> _File:
    """Open a CSV file by the given names, or by its first line."""
    names = header_names(path, where) if given is None else given

    def blocks(wanted: Wanted, step: int) -> Blocks:
        """Give the wanted columns of one block of lines after the other."""
        size = max(path.stat().st_size, 1)
        with path.open("rb") as file:
            if given is None:
                first_line(file)
            for lines in line_blocks(file):
                for block in line_cells(lines, len(names), wanted, most=step):
                    yield block, min(file.tell() / size, 1.0)

    return names, (None,) * len(names), blocks


_OPENERS: dict[str, Callable[[Path, str], _File]] = {"parquet": _open_parquet, "arrow": _open_arrow, "npy": _open_npy}
