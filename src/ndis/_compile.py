"""Compiled functions, kept on disk wherever a place for them can be found.

numba keeps compiled code beside the package or in the user's cache folder, and raises if it can write to neither. A
hardened container is such a place. So there is one place more, a folder of the user's own among the temporary files. If
that is not to be had either, every process compiles for itself. Nothing is said, for the numbers are the same.

Files of compiled code are read and written by one process at a time. numba numbers the files of a function's signatures
from an index that it reads first: two processes at once could give one number to two signatures.
"""

from __future__ import annotations

import os
import pickle
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator

from ndis._files import lock

__all__ = ["compiled"]

_PATIENCE = 600  # tenths of a second; files are kept from others for milliseconds

# What reading a file of compiled code raises if another program has changed it.
_UNUSABLE = (
    OSError,
    EOFError,
    pickle.UnpicklingError,
    ValueError,
    TypeError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
)


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a function that numba compiles without the interpreter's lock; `options` are numba's.

    >>> @compiled()
    ... def twice(x):
    ...     return 2 * x
    >>> twice(3)
    6
    """

    def decorate(function: Callable[..., Any]) -> Any:
        found: Any = njit(nogil=True, **options)(function)
        if found is not function:  # it is with NUMBA_DISABLE_JIT
            with suppress(RuntimeError, OSError):  # what numba raises if it finds no place
                found._cache = _Kept(function)
        return found

    return decorate


def own_temporary_folder() -> Path | None:
    """A folder among the temporary files that only this user can write; None if there is none.

    Who writes to it decides what code runs, so a folder of another user, or one that others may write, is not taken.
    """
    try:
        parent = Path(tempfile.gettempdir())
        if not hasattr(os, "getuid"):  # there the temporary files are the user's own
            folder = parent / "ndis-numba"
            folder.mkdir(exist_ok=True)
            return folder
        user, above = os.getuid(), parent.stat()
        others_may_rename = above.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not above.st_mode & stat.S_ISVTX
        if others_may_rename or above.st_uid not in (0, user):
            return None
        folder = parent / f"ndis-numba-{user}"
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError:
        return None
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077
    return folder if private else None


class _TemporaryLocator(UserProvidedCacheLocator):  # type: ignore[misc]
    """The place of last resort."""

    def __init__(self, function: Any, file: str) -> None:
        self._py_file = file
        self._lineno = function.__code__.co_firstlineno
        folder = own_temporary_folder()
        if folder is None:
            raise OSError("no temporary folder")
        self._cache_path = str(folder / self.get_suitable_cache_subpath(file))

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        try:
            found = cls(function, file)
            found.ensure_cache_path()
        except OSError:
            return None
        return found


class _Places(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (*CompileResultCacheImpl._locator_classes, _TemporaryLocator)


class _Kept(FunctionCache):  # type: ignore[misc]
    """numba's cache of one function; a file that cannot be used is one that is not there."""

    _impl_class = _Places

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            with _alone(self.cache_path):
                return super().load_overload(sig, target_context)
        except OSError:
            return None
        except _UNUSABLE:
            with suppress(OSError), _alone(self.cache_path):
                self.flush()  # a new index: the next process finds what this one compiles
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(*_UNUSABLE), _alone(self.cache_path):
            super().save_overload(sig, data)


@contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Keep other processes from the files of a folder, if the system knows how; OSError if another keeps them long."""
    with open(os.path.join(folder, "ndis.lock"), "ab") as file:
        for _ in range(_PATIENCE):
            with suppress(BlockingIOError):
                lock(file)
                break
            time.sleep(0.1)
        else:
            raise TimeoutError(folder)
        try:
            yield
        finally:
            lock(file, release=True)  # a process that was forked meanwhile has the file open too
