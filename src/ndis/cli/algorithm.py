"""The function that `ndis audit` runs: found by its name, without a change to what any other import finds.

The module that the user names is loaded from its file. It may import the modules beside it under names that nothing
else has: a finder at the end of the search gives them to the user's modules, and to nobody else. A file called
statistics.py or html.py in that folder is never run unless the user names it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

import numpy as np

from ndis.cli.commands import told
from ndis.errors import ParameterError

__all__ = ["NamedAlgorithm", "workers_without_current_folder"]


@dataclass(frozen=True)
class NamedAlgorithm:
    """A function `data → (mean, covariance)` by its name, ``module:function``, looked for in some folders first."""

    name: str
    folders: tuple[str, ...] = field(default_factory=lambda: (os.getcwd(),))

    @property
    def func(self) -> Callable[[Any], Any]:
        """The function itself."""
        module, _, path = self.name.partition(":")
        if not (module and path and all(part.isidentifier() for part in [*module.split("."), *path.split(".")])):
            raise ParameterError("algorithm", "be written module:function", repr(self.name))
        try:
            with redirect_stdout(sys.stderr):
                found: Any = _module(module, self.folders)
                for part in path.split("."):
                    found = getattr(found, part, None)
        except ModuleNotFoundError as error:
            raise ParameterError("algorithm", "be in a module that can be found", f"{error.name!r}") from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the user's module may raise anything
            raise ParameterError("algorithm", "be in a module that imports", told(error)) from error
        if not callable(found):
            raise ParameterError("algorithm", "be a function of its module", repr(self.name))
        return found  # type: ignore[no-any-return]

    def __call__(self, data: Any) -> Any:
        function = self.func
        try:
            with redirect_stdout(sys.stderr):
                found = function(data)
                if isinstance(found, tuple | list):  # what turns into an array runs the user's code too
                    return tuple(np.asarray(part) if hasattr(part, "__array__") else part for part in found)
                return found
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # and so may the function
            raise ParameterError(f"algorithm {self.name}", "return (mean, covariance)", told(error)) from error


@contextmanager
def workers_without_current_folder() -> Iterator[None]:
    """Processes that start meanwhile do not search the current folder first, as Python would with `python -m`."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def _module(name: str, folders: Sequence[str]) -> ModuleType:
    """The module from one of the folders, else the one that Python finds under its name."""
    top, dot, rest = name.partition(".")
    spec = PathFinder.find_spec(top, list(folders))
    if spec is None:
        return importlib.import_module(name)
    found = _loaded(top, spec, folders)
    return importlib.import_module(f"{found.__name__}.{rest}") if dot else found


def _loaded(top: str, spec: ModuleSpec, folders: Sequence[str]) -> ModuleType:
    """The user's module: under its own name if that is free, else under another, so that nothing is shadowed."""
    other = f"audited_{top}"
    for name in (top, other):
        known = sys.modules.get(name)
        if known is not None and _same(known.__spec__, spec):
            return known
    if top in sys.stdlib_module_names or top in sys.modules or not _free(top, spec):
        spec = _renamed(spec, other)
    _SIBLINGS.serve(spec.name, folders)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        if spec.loader is not None:
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module


def _free(top: str, spec: ModuleSpec) -> bool:
    elsewhere = importlib.util.find_spec(top)
    return elsewhere is None or _same(elsewhere, spec)


def _same(one: ModuleSpec | None, other: ModuleSpec) -> bool:
    def place(spec: ModuleSpec) -> tuple[str | None, list[str]]:
        return spec.origin, list(spec.submodule_search_locations or ())

    return one is not None and place(one) == place(other)


def _renamed(spec: ModuleSpec, name: str) -> ModuleSpec:
    inside = spec.submodule_search_locations
    if spec.origin is None:  # a folder without __init__.py
        found = ModuleSpec(name, None, is_package=True)
        found.submodule_search_locations = list(inside or ())
        return found
    made = importlib.util.spec_from_file_location(
        name, spec.origin, submodule_search_locations=None if inside is None else list(inside)
    )
    if made is None:
        raise ModuleNotFoundError(name=spec.name)
    return made


class _Siblings(MetaPathFinder):
    """What lies beside the user's modules, for the user's modules, where no other finder has anything of the name."""

    def __init__(self) -> None:
        self._folders: dict[str, list[str]] = {}  # by the first name of the module that may look there

    def serve(self, name: str, folders: Sequence[str]) -> None:
        """Let a module, and what it imports from these folders, look in these folders."""
        self._folders[name] = list(folders)
        if self not in sys.meta_path:
            sys.meta_path.append(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of that name in the folders of the module that asks; None if it may not look there."""
        if path is not None:  # part of a package, which knows where its parts are
            return None
        folders = self._folders.get(_importer().partition(".")[0])
        spec = None if folders is None else PathFinder.find_spec(fullname, folders)
        if spec is not None and folders is not None:
            self.serve(fullname, folders)
        return spec


_SIBLINGS = _Siblings()


def _importer() -> str:
    """The name of the module whose code asks for an import."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name != __name__ and not name.startswith(("importlib", "_frozen_importlib")):
            return name
        frame = frame.f_back
    return ""
