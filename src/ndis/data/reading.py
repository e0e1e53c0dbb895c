"""Read any file with a fixed progress bar, a check that it did not change, and one batch ahead of the arithmetic."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from ndis.errors import ParameterError

__all__ = ["ahead", "fixed_steps", "readable", "stamps", "unchanged"]

T = TypeVar("T")

_STEPS = 20


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
    if not (_on_terminal() if progress is None else progress):
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


def _on_terminal() -> bool:
    try:
        return os.isatty(2)
    except OSError:
        return False
