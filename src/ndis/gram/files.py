"""Parquet, Arrow and CSV files and folders, streamed with bounded memory.

CSV has no types. Whether a cell is a number is a private value, so it raises nothing: a cell that is not a number
counts as missing, and its row becomes zero, like any row with a non-finite entry. Every cell is read on its own, so
one record cannot change how another one is read (a column's type is never inferred).
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ndis.errors import ParameterError
from ndis.gram.cells import number
from ndis.gram.sources import Groups, Parts, Source, rows_per_read

__all__ = ["arrow_matrix", "arrow_schema", "file_source"]

_KINDS = {
    ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
    ".csv": "csv",
}  # fmt: skip
_MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]

_CSV_BLOCK = 1 << 23  # bytes; a record must fit in one

Schema = tuple[tuple[str, ...], dict[int, str]]
T = TypeVar("T")
Batches = Iterator[tuple[Any, float]]  # a record batch, and the share of its file that is done after it


def file_source(data: Any, *, progress: bool | None = None) -> Source:
    """Open a file, a folder (searched for files of one kind, in sorted order) or a list of files.

    Parameters
    ----------
    data : path or list of paths
    progress : bool, optional
        Show a progress bar; by default when standard error is a terminal.
    """
    paths = _paths(data)
    kinds = {_KINDS[p.suffix.lower()] for p in paths}
    if len(kinds) != 1:
        raise ParameterError("data", "hold files of one kind", ", ".join(sorted(kinds)))
    schema_of, batches_of = _READERS[kinds.pop()]
    names, refused = _schema(paths[0], schema_of)
    for path in paths[1:]:
        these, also_refused = _schema(path, schema_of)
        if these != names:
            raise ParameterError("data", f"have the same columns in every file, {list(names)}", path)
        refused |= also_refused
    step = rows_per_read(len(names))

    def read(groups: Groups) -> Iterator[Parts]:
        wanted = tuple(dict.fromkeys(i for g in groups for i in g))
        place = {column: i for i, column in enumerate(wanted)}

        def batches() -> Batches:
            sizes = [p.stat().st_size for p in paths]
            for done, (path, size) in enumerate(zip(paths, sizes, strict=True)):
                with _readable(path):
                    for batch, share in batches_of(path, [names[i] for i in wanted], step):
                        yield batch, (sum(sizes[:done]) + share * size) / max(sum(sizes), 1)

        for batch in _with_progress(_ahead(batches()), progress):
            with _readable(data):
                parts = tuple(arrow_matrix(batch, tuple(place[i] for i in g)) for g in groups)
            yield parts

    return Source(len(names), read, names, refused)


def arrow_schema(schema: Any, where: object) -> Schema:
    """Return the column names and the types of those columns that do not hold real numbers."""
    import pyarrow.types as t

    numeric = (t.is_integer, t.is_floating, t.is_boolean, t.is_decimal)
    refused = {i: f"type {f.type}" for i, f in enumerate(schema) if not any(is_a(f.type) for is_a in numeric)}
    return _different(tuple(schema.names), where), refused


def arrow_matrix(batch: Any, columns: tuple[int, ...]) -> NDArray[np.float64]:
    """Columns of a record batch as float64, nulls and unreadable cells as NaN."""
    import pyarrow as pa

    matrix = np.empty((len(columns), batch.num_rows))  # column by column; the quantiser turns it row by row in cache
    for j, column in enumerate(columns):
        array = batch.column(column)
        if pa.types.is_string(array.type):
            matrix[j] = _numbers(array)
            continue
        if array.type != pa.float64():
            array = array.cast(pa.float64(), safe=False)  # a safe cast raises on large integers
        matrix[j] = array.to_numpy(zero_copy_only=False)  # nulls become NaN
    return matrix.T


def _numbers(cells: Any) -> NDArray[np.float64]:
    """Read text cells; the two ways agree on every cell, the second also takes what the first refuses."""
    import pyarrow as pa

    try:
        array = cells.cast(pa.float64())
    except pa.ArrowInvalid:
        raw = cells.view(pa.binary()).to_pylist()  # as bytes, which need not be valid text
        return np.array([number(cell) for cell in raw], dtype=np.float64)
    return np.asarray(array.fill_null(np.nan).to_numpy(zero_copy_only=False), dtype=np.float64)


def _paths(data: Any) -> list[Path]:
    given = [Path(p) for p in (data if isinstance(data, list) else [data])]
    paths: list[Path] = []
    for path in given:
        if path.is_dir():
            inside = sorted(
                p for p in path.rglob("*") if p.suffix.lower() in _KINDS and p.name[0] not in "._" and p.is_file()
            )
            if not inside:
                raise ParameterError("data", f"hold files named {', '.join(_KINDS)}", path)
            paths += inside
        elif not path.is_file():
            raise ParameterError("data", "name an existing file or folder", path)
        elif path.suffix.lower() not in _KINDS:
            raise ParameterError("data", f"be named {', '.join(_KINDS)}", path)
        else:
            paths.append(path)
    return paths


def _schema(path: Path, schema_of: Callable[[Path], Schema]) -> Schema:
    with _readable(path):
        return schema_of(path)


@contextmanager
def _readable(path: Any) -> Iterator[None]:
    """Whatever goes wrong while reading, in words that quote no cell, as Arrow's own do."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise ParameterError("data", "be a readable file of its kind", path) from None


def _different(names: tuple[str, ...], where: object) -> tuple[str, ...]:
    if not names:
        raise ParameterError("data", "have at least one column", where)
    if len(set(names)) < len(names):
        raise ParameterError("data", "have columns of different names", where)
    return names


def _parquet_schema(path: Path) -> Schema:
    import pyarrow.parquet as pq

    return arrow_schema(pq.read_schema(path), path)


def _parquet_batches(path: Path, names: list[str], step: int) -> Batches:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        groups = file.num_row_groups
        for g in range(groups):
            for batch in file.iter_batches(batch_size=step, row_groups=[g], columns=names):
                yield batch.select(names), (g + 1) / groups


def _arrow_schema(path: Path) -> Schema:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        return arrow_schema(reader.schema, path)


def _arrow_batches(path: Path, names: list[str], step: int) -> Batches:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        count = reader.num_record_batches
        for i in range(count):
            batch = reader.get_batch(i).select(names)
            for start in range(0, batch.num_rows, step):
                yield batch.slice(start, step), (i + 1) / count


def _csv_header(path: Path) -> bytes:
    """The first line with its end, which is \\n, \\r\\n or \\r; this line alone, for the rest is private."""
    with path.open("rb") as file:
        line = file.readline(_CSV_BLOCK)
    head, end, rest = line.partition(b"\r")
    return line if rest == b"\n" else head + end


def _csv_schema(path: Path) -> Schema:
    line = _csv_header(path).rstrip(b"\r\n")
    try:
        return _different(tuple(next(csv.reader([line.decode("utf-8-sig")]), ())), path), {}
    except (csv.Error, UnicodeDecodeError):
        raise ParameterError("data", "begin with one line of column names in UTF-8", path) from None


def _csv_batches(path: Path, names: list[str], step: int) -> Batches:
    import pyarrow as pa
    import pyarrow.csv as pc

    total = path.stat().st_size
    if len(_csv_header(path)) == total:  # Arrow refuses a file without records
        return
    try:
        with (
            path.open("rb") as file,
            pc.open_csv(
                file,
                read_options=pc.ReadOptions(block_size=_CSV_BLOCK),
                parse_options=pc.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda row: "skip"),
                convert_options=pc.ConvertOptions(
                    column_types={name: pa.string() for name in names},
                    include_columns=names,
                    null_values=_MISSING,
                    strings_can_be_null=True,
                    check_utf8=False,
                ),
            ) as reader,
        ):
            for batch in reader:
                yield batch, file.tell() / total
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        # Arrow's own message quotes the cell it stopped at.
        raise ParameterError("data", "be a well-formed CSV file", path) from None


_READERS: dict[str, tuple[Callable[[Path], Schema], Callable[[Path, list[str], int], Batches]]] = {
    "parquet": (_parquet_schema, _parquet_batches),
    "arrow": (_arrow_schema, _arrow_batches),
    "csv": (_csv_schema, _csv_batches),
}


def _ahead(items: Iterator[T]) -> Iterator[T]:
    """Read the next item in a thread while the caller works on this one."""
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="ndis-read") as pool:
        try:
            coming = pool.submit(next, items, end)
            while (item := coming.result()) is not end:
                coming = pool.submit(next, items, end)
                yield item  # type: ignore[misc]
        finally:
            coming.cancel()
            pool.submit(getattr(items, "close", lambda: None)).result()


def _with_progress(batches: Batches, progress: bool | None) -> Iterator[Any]:
    """Show the share of the files that is read: a share tells nothing about the number of rows."""
    if not (os.isatty(2) if progress is None else progress):
        for batch, _ in batches:
            yield batch
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    bar = (TextColumn("reading rows"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*bar, console=Console(stderr=True)) as shown:
        task = shown.add_task("rows", total=1.0)
        for batch, share in batches:
            yield batch
            shown.update(task, completed=share)
