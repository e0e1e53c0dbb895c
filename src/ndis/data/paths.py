"""Say which files a path stands for, each once, and read them unchanged.

A record that is read twice has twice its weight, and the guarantee does not cover that. A folder means every file of
a known kind at any depth below it. Files at or below a name that begins with ``.`` or ``_`` do not count (checkpoints,
temporary and hidden files). Links are followed. A file that is met twice, under any names, is refused. So is a table
whose log says which of its files count. Two copies of a file are two files: nothing can tell them from new records.

Any file is read with a fixed progress bar, and one batch ahead of the arithmetic. Nothing here looks at a cell.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ndis._validate import require
from ndis.data.cells import is_path
from ndis.errors import ParameterError
from ndis.pages.text import printable

T = TypeVar("T")

KINDS = {
    ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
    ".csv": "csv",
    ".npy": "npy",
}  # fmt: skip
_LEFT_OUT = (".", "_")  # how names begin that do not count
_STEPS = 20  # that a progress bar has
_LONE = (".npy",)  # named one by one; in folders they lie next to tables
_IN_FOLDERS = tuple(ending for ending in KINDS if ending not in _LONE)


class Files(list[Any]):
    """Several files or folders, as a list of paths too, which `fit` takes for a list of rows and refuses.

    >>> Files(["january.csv", "february.csv"])
    ['january.csv', 'february.csv']
    """


def shown(data: Any) -> str:
    """Return what a message may show of paths: the one that the caller typed, in printable characters.

    An item of a list may be a cell after all, and the names of files and folders below a folder may be private.

    >>> shown("a\x1b.csv"), shown(["rare disease", "flu"])
    ('a\\\\x1b.csv', 'an item of the list')
    """
    return "an item of the list" if isinstance(data, list) else printable(str(data))


def files_of(data: Any) -> list[Path]:
    """Return the files of a path or a list of paths, folders searched in sorted order.

    >>> files_of("nowhere.parquet")
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: data must name an existing file or folder; got nowhere.parquet
    """
    files: list[Path] = []
    given, where = data if isinstance(data, list) else [data], shown(data)
    paths = [Path(item) for item in given if is_path(item)]
    lead = len(paths) == len(given) > 0 and all(_is(path, folder=True) or _is(path, folder=False) for path in paths)
    if isinstance(data, list) and not lead:  # one message for rows and for wrong paths: an item may be a cell after all
        rule = "be an array, a frame or a file, or list existing files and folders"
        raise ParameterError("data", rule, "another list", "rows are written numpy.asarray(data, dtype=object)")
    for path in paths:
        if _is(path, folder=True):
            inside = sorted(_below(path, where))
            require(inside, "data", f"hold files named {', '.join(_IN_FOLDERS)}", where)
            files += inside
        elif not _is(path, folder=False):
            raise ParameterError("data", "name an existing file or folder", where)
        elif path.suffix.lower() not in KINDS:
            raise ParameterError("data", f"be named {', '.join(KINDS)}", where)
        else:
            files.append(path)
    seen: dict[tuple[int, ...], Path] = {}
    for path in files:
        once, got = seen.setdefault(stamps([path], where)[0][:2], path) is path, f"{where}, which leads to a file twice"
        require(once, "data", "name every file once", got, "a record that is read twice is not protected as one")
    return files


def kind_of_files(paths: list[Path]) -> str:
    """Return the kind that all files have."""
    kinds = {KINDS[p.suffix.lower()] for p in paths}
    require(len(kinds) == 1, "data", "hold files of one kind", ", ".join(sorted(kinds)))
    return kinds.pop()


def _below(folder: Path, where: str) -> Iterator[Path]:
    """Yield the files of a known kind below a folder; a table with a log is refused before anything is left out."""
    above = folder.resolve()
    for place in (above, *above.parents):
        _refuse_tables(place, where)
    seen = set()
    for name, folders, files in os.walk(folder, followlinks=True):
        place = Path(name)
        _refuse_tables(place, where)
        identity = stamps([place], where)[0][:2]
        if identity in seen:
            raise ParameterError("data", "reach every folder once", f"{where}, with a link to a folder that was read")
        seen.add(identity)
        folders[:] = sorted(f for f in folders if not f.startswith(_LEFT_OUT))
        for file in files:
            path = place / file
            if path.suffix.lower() in _IN_FOLDERS and not file.startswith(_LEFT_OUT) and _is(path, folder=False):
                yield path


def _refuse_tables(place: Path, where: str) -> None:
    """Refuse Delta, Hudi and Iceberg tables, which keep the files of earlier versions next to those that count."""
    logs = {"Delta": "_delta_log", "Hudi": ".hoodie"}
    kind = next((kind for kind, log in logs.items() if _is(place / log, folder=True)), None)
    if kind is None and any((place / "metadata").glob("*.metadata.json")):
        kind = "Iceberg"
    got, remedy = f"{where}, which belongs to a {kind} table", "read one version of it with that table's own library"
    require(kind is None, "data", "be a folder of plain files", got, f"{remedy} and pass the result")


def _is(path: Path, *, folder: bool) -> bool:
    """Return whether a path leads to a folder, or to a regular file."""
    try:
        return path.is_dir() if folder else path.is_file()
    except (OSError, ValueError):  # a name with a null byte, a loop of links, a folder that is closed to this user
        return False


# ---------------------------------------------------------------------- reading them


@contextmanager
def readable(where: str) -> Iterator[None]:
    """Turn every error of reading into one message that quotes no cell. Arrow's own messages do quote cells."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError):
        raise ParameterError("data", "be a readable file of its kind", where) from None


def stamps(paths: list[Path], where: str) -> list[tuple[int, ...]]:
    """Return the device, number, size and last change of each file: they differ if the file was changed."""
    with readable(where):
        status = [path.stat() for path in paths]
    return [(each.st_dev, each.st_ino, each.st_size, each.st_mtime_ns) for each in status]


def unchanged(paths: list[Path], before: list[tuple[int, ...]], where: str) -> None:
    """Refuse files that were written to since. Two passes would otherwise see two data sets."""
    if stamps(paths, where) != before:
        raise ParameterError("data", "stay as it is while it is read", "files that changed", "copy them first")


def ahead(items: Iterator[T]) -> Iterator[T]:
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


@contextmanager
def fixed_steps(progress: bool | None, words: str = "reading rows") -> Iterator[Callable[[float], None]]:
    """A bar on standard error, as a function of the share that is done; `words` say of what.

    It writes the same bytes whatever is read: every step once, the last one too. Only their times differ.

    >>> with fixed_steps(False) as show:
    ...     show(0.5)
    """
    if not ((sys.stderr is not None and sys.stderr.isatty()) if progress is None else progress):
        yield lambda share: None
        return
    shown = 0

    def show(share: float) -> None:
        nonlocal shown
        while shown < min(int(share * _STEPS), _STEPS):
            shown += 1
            bar = ("#" * shown).ljust(_STEPS, ".")
            sys.stderr.write(f"\r{words} [{bar}] {100 * shown // _STEPS:3d} %")
            sys.stderr.flush()

    yield show
    show(1.0)
    sys.stderr.write("\n")
    sys.stderr.flush()
