"""Load what `ndis audit` runs: a function or a mechanism of a Python file, named ``path/to/file.py:name``.

The file may import modules of its own folder. Python looks there last, so a statistics.py in that folder does not take
the place of Python's own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any

from ndis.cli.output import place_of
from ndis.errors import ParameterError


@dataclass(frozen=True)
class NamedAlgorithm:
    """A function `data → (mean, covariance)` has a name by which other processes load it too."""

    name: str  # path/to/file.py:function, as the user wrote it
    folder: Path  # a relative path starts here

    @property
    def func(self) -> Any:
        """Return the function itself."""
        function = load("algorithm", self.name, self.folder)
        if not callable(function):
            raise ParameterError("algorithm", "be a function of its file", repr(self.name))
        return function

    def __call__(self, data: Any) -> Any:
        function = self.func
        with _guarded(f"algorithm {self.name}", "return (mean, covariance)", self.folder / self.name):
            law = function(data)
            if isinstance(law, tuple | list):  # what turns into an array runs the user's code too
                return tuple(item.__array__() if hasattr(item, "__array__") else item for item in law)
            return law


def load(kind: str, name: Any, folder: Path) -> Any:
    """Return the value that ``path/to/file.py:name`` names, or none if its file has no such value.

    A function that is named as a mechanism is called: it makes one.
    """
    path, _, inside = name.rpartition(":") if isinstance(name, str) else ("", "", "")
    if not (path.endswith(".py") and all(word.isidentifier() for word in inside.split("."))):
        raise ParameterError(kind, "be written path/to/file.py:name", repr(name))
    file = (folder / path).absolute()
    if not file.is_file():
        raise ParameterError(kind, "be in a file that exists", repr(path))
    with _guarded(kind, "be in a file that Python can run", file):
        value: Any = _module(file)
        for word in inside.split("."):
            value = getattr(value, word, None)
        return value() if kind == "mechanism" and isfunction(value) else value


@lru_cache
def _module(file: Path) -> ModuleType:
    spec = spec_from_file_location(f"audited_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for their module there
    spec.loader.exec_module(module)
    return module


@contextmanager
def _guarded(name: str, rule: str, file: Path) -> Iterator[None]:
    """Run the user's code: what it prints goes to stderr, and of what it raises only the place is reported."""
    sys.path.append(str(file.parent))
    try:
        with redirect_stdout(sys.stderr):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's code may raise anything
        raise ParameterError(name, rule, place_of(error)) from error
    finally:
        sys.path.remove(str(file.parent))
