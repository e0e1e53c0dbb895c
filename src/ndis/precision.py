"""Working precision of ball arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from flint import ctx

__all__ = ["precision"]

_LOCK = RLock()  # python-flint keeps the precision in one place for the whole process


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Precision in bits within the block; other threads wait for theirs.

    >>> from flint import ctx
    >>> with precision(200):
    ...     ctx.prec
    200
    """
    with _LOCK:
        previous, ctx.prec = ctx.prec, bits
        try:
            yield
        finally:
            ctx.prec = previous
