"""Compile functions with numba when they are first called, and keep the code in numba's cache on disk.

The first call imports numba, which takes a third of a second. numba keeps compiled code next to the source, or in the
user's cache if that folder cannot be written. Without a place for it, every process compiles again. One process at a
time reads and writes the cache: numba numbers the files of a function's signatures from an index that it reads first,
so two processes at once could give one number to two signatures.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

_ONE_THREAD = threading.RLock()
_SAID: list[str] = []  # the notice is written once per process


def compiled(*, patience: float = 0.0, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a function that numba compiles without the interpreter's lock; `options` are numba's.

    Python itself runs the function for the first `patience` seconds: one answer takes less time than a compiler.

    >>> @compiled()
    ... def twice(x):
    ...     return 2 * x
    >>> twice(3)
    6
    """
    return lambda function: _Later(function, patience, options)


class _Later:
    """A function that is given to numba with its first call, together with the compiled functions that it calls."""

    def __init__(self, function: Callable[..., Any], patience: float, options: dict[str, Any]) -> None:
        self.__doc__, self.__name__, self.__module__ = function.__doc__, function.__name__, function.__module__
        self.__wrapped__, self.left, self.options = function, patience, options

    def __call__(self, *arguments: Any) -> Any:
        if self.left > 0.0:
            begun = time.thread_time()
            try:
                return self.__wrapped__(*arguments)
            except (ArithmeticError, ValueError):  # a number beyond the floats, which compiled code carries on with
                self.left = 0.0
            finally:
                self.left -= time.thread_time() - begun
        return self.dispatcher()(*arguments)

    def dispatcher(self) -> Any:
        """Return numba's function. It takes the place of this one in every module that has been seen."""
        names = self.__wrapped__.__globals__
        with _ONE_THREAD:  # another one must not meet it before the functions that it calls are in place
            if "_dispatcher" not in self.__dict__:
                from numba import njit

                dispatcher = njit(nogil=True, **self.options)(self.__wrapped__)
                if dispatcher is not self.__wrapped__:  # it is with NUMBA_DISABLE_JIT
                    with suppress(RuntimeError, OSError):  # numba finds no place for files
                        dispatcher._cache = _cache(self.__wrapped__)
                for name in self.__wrapped__.__code__.co_names:
                    inner = names.get(name)
                    if isinstance(inner, _Later):
                        names[name] = dispatcher if inner is self else inner.dispatcher()
                self._dispatcher = dispatcher
        return self._dispatcher


def _cache(function: Callable[..., Any]) -> Any:
    """Return numba's cache of one function, made safe: a file that cannot be used is one that is not there."""
    from numba.core.caching import FunctionCache

    class Cache(FunctionCache):  # type: ignore[misc]
        def load_overload(self, sig: Any, target_context: Any) -> Any:
            """Return compiled code from the cache, or None; say once that a compilation begins."""
            code = None
            with suppress(OSError), _alone(self.cache_path):
                try:
                    code = super().load_overload(sig, target_context)
                except Exception:  # noqa: BLE001 - a damaged pickle raises anything
                    self.flush()
            if code is None and not _SAID and sys.stderr is not None and sys.stderr.isatty():
                _SAID.append("compiling once")
                print("ndis: compiling once; the next run starts at once", file=sys.stderr)
            return code

        def save_overload(self, sig: Any, data: Any) -> None:
            with suppress(OSError), _alone(self.cache_path):
                super().save_overload(sig, data)

    return Cache(function)


@contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Keep other processes from the files of a folder, if the system has locks."""
    with open(os.path.join(folder, "ndis.lock"), "ab") as file:
        with suppress(ImportError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
