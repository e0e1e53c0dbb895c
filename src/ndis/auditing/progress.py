"""A counter on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Advance", "counter", "silent"]

Advance = Callable[[], None]


def silent() -> None:
    """Nothing is shown."""


@contextmanager
def counter(progress: bool | None, noun: str) -> Iterator[Advance]:
    """Call what this yields once for each thing done; None shows it on a terminal alone.

    >>> with counter(False, "neighbours") as advance:
    ...     advance()
    """
    if not (sys.stderr.isatty() if progress is None else progress):
        yield silent
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed} " + noun), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("audit", total=None)
        yield lambda: bar.advance(task)
