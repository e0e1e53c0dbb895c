"""Imports run one way, and `import ndis` stays light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from helpers.places import ROOT

SOURCE = ROOT / "src"

# Layers, lowest first. A module may import, at module level, modules of its own layer and of those before it.
# An entry names a module, or a package with everything in it; the most exact entry counts.
LAYERS = (
    ("ndis.errors", "ndis.enclosure", "ndis._version"),
    ("ndis._validate", "ndis._balls", "ndis.data.npy", "ndis._exact", "ndis.pages.text", "ndis._files"),
    ("ndis.pages",),
    ("ndis._exact", "ndis._search"),
    ("ndis._compile",),
    ("ndis.spectrum",),
    ("ndis.accountant",),
    ("ndis.pair", "ndis.chi_square"),
    ("ndis.spectrum.batch",),
    ("ndis.plotting", "ndis._groups"),
    ("ndis._batches", "ndis.risk"),
    ("ndis.profile",),
    ("ndis.worst_case",),
    ("ndis.dominance",),
    ("ndis.data", "ndis.noise"),
    ("ndis.gram",),
    ("ndis.schema",),
    ("ndis.mechanisms",),
    ("ndis._stages",),
    ("ndis.dpsgd", "ndis.models", "ndis.ledger"),
    ("ndis.describing",),
    ("ndis.learn", "ndis.auditing", "ndis.testing", "ndis.interop"),
    ("ndis.paper",),
    ("ndis",),
    ("ndis.cli",),
    ("ndis.__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

# Packages whose modules still import each other in a circle, some of them inside functions. Nothing may be added.
CIRCLES_LEFT: tuple[str, ...] = ()

# Modules that may import modules of the package inside functions, and why.
LATE = {
    "ndis.__main__": "an interrupt during the imports must find the handler in place",
    "ndis.cli": "a command loads what it runs, so that the help is there at once",
    "ndis.pages.card": "few cards are written as a page, and templates take a while to load",
    "ndis.ledger.report": "few ledgers are printed, and templates take a while to load",
}
LATE_LEFT: tuple[str, ...] = ()
HEAVY = ("numba", "scipy", "matplotlib", "flint", "sklearn", "pandas", "pyarrow", "dask", "torch", "click", "rich")


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted((SOURCE / "ndis").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def rank(module: str) -> int | None:
    """Layer of a module: its own entry or that of the nearest package around it, the root package not counted."""
    name = module
    while name not in RANK:
        name = name.rpartition(".")[0]
        if name in ("", "ndis"):
            return None
    return RANK[name]


def imports(tree: ast.Module) -> Iterator[tuple[str, bool, int]]:
    """(imported module, whether inside a function, line) of each import of the package; type checking is left out."""

    def walk(node: ast.AST, late: bool) -> Iterator[tuple[str, bool, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
                continue
            if isinstance(child, ast.Import):
                yield from ((alias.name, late, child.lineno) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"line {child.lineno}: imports name the package, they are not relative"
                for alias in child.names:
                    whole = f"{child.module}.{alias.name}"
                    yield (whole if whole in MODULES else str(child.module)), late, child.lineno
            yield from walk(child, late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    for name, late, line in walk(tree, False):
        if name == "ndis" or name.startswith("ndis."):
            yield name, late, line


def broken_rules(module: str, text: str) -> list[str]:
    """What in the text of a module goes against the order."""
    own = rank(module)
    if own is None:
        return [f"{module} is in no layer; say in {Path(__file__).name} where it belongs"]
    problems = []
    for target, late, line in imports(ast.parse(text)):
        there = rank(target)
        if there is None or there > own:
            where = "inside a function" if late else "at module level"
            problems.append(f"{module}, line {line}: imports {target} {where}, which comes later in the order")
    return problems


@pytest.mark.parametrize("module", MODULES)
def test_imports_run_one_way(module):
    assert broken_rules(module, MODULES[module].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("ndis.plotting", "from ndis.profile import PrivacyProfile"),
        ("ndis.spectrum.evaluate", "from ndis.pair import GaussianPair"),
        ("ndis.pair", "def f():\n    from ndis.profile import PrivacyProfile"),
        ("ndis.spectrum.contour", "import ndis.chi_square"),
        ("ndis.profile", "from ndis import cli"),
        ("ndis.nowhere", ""),
    ],
)
def test_a_broken_rule_is_found(module, text):
    assert len(broken_rules(module, text)) == 1


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("ndis.pair", "from ndis.spectrum.evaluate import spectrum"),
        ("ndis.spectrum.certified", "if TYPE_CHECKING:\n    from ndis.cli import app"),
        ("ndis.cli.spectrum", "from ndis.profile import PrivacyProfile"),
    ],
)
def test_what_is_allowed_passes(module, text):
    assert broken_rules(module, text) == []


@cache
def mapped() -> dict[str, int]:
    """Rows of the map in CONTRIBUTING.md by file or folder; a file counts before its folder."""
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("lives there |")[1].split("\n\n")[0]
    places = (line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    return {name: row for row, place in enumerate(places) for name in re.findall(r"`([\w/]+(?:\.py|/))`", place)}


def map_row(module: str) -> int | None:
    """Row of the map that names a module, or the folder it lies in."""
    path = MODULES[module].relative_to(SOURCE / "ndis")
    names = [str(path), *(f"{folder}/" for folder in path.parents if folder.parts)]
    return next((mapped()[name] for name in names if name in mapped()), None)


def test_the_map_names_what_is_there() -> None:
    assert [name for name in mapped() if not (SOURCE / "ndis" / name).exists()] == []
    assert [module for module in MODULES if map_row(module) is None] == []


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_from_rows_above_its_own(module: str) -> None:
    own, tree = map_row(module), ast.parse(MODULES[module].read_text(encoding="utf-8"))
    above = [map_row(target) for target, late, _ in imports(tree) if not late and target != "ndis"]
    assert all(row is not None and row <= own for row in above)


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules that reach each other (Tarjan's strongly connected components with more than one member)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph.get(name, ())):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            members = set(stack[at:])
            del stack[at:]
            if len(members) > 1 or name in graph.get(name, ()):
                found.append(members)

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return found


def test_no_circles():
    """No module reaches itself through its imports, those inside functions included."""
    graph = {
        module: {target for target, _, _ in imports(ast.parse(path.read_text(encoding="utf-8")))}
        for module, path in MODULES.items()
    }
    left = [found for found in circles(graph) if not all(name.startswith(CIRCLES_LEFT) for name in found)]
    assert left == []


def test_imports_stand_at_the_top():
    """No import of the package stands inside a function, except where `LATE` says why."""
    found = [
        f"{module}, line {line}: imports {target} inside a function"
        for module, path in MODULES.items()
        if not module.startswith((*LATE, *LATE_LEFT))
        for target, late, line in imports(ast.parse(path.read_text(encoding="utf-8")))
        if late
    ]
    assert found == []


def test_a_circle_is_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [{"a", "b", "c"}]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_import_stays_light():
    """A fresh `import ndis` loads nothing heavy: no compiler, no ball arithmetic, none of the extras."""
    code = f"import ndis, sys; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_importing_the_gram_engine_brings_no_optional_package() -> None:
    heavy = ["flint", "pyarrow", "pandas", "polars", "dask", "torch", "sklearn", "rich"]
    code = f"import sys, ndis.gram; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_test_files_are_short():
    """A long test file mixes subjects: give each subject a file."""
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "tests").rglob("*.py")}
    assert {str(path.relative_to(ROOT)): lines for path, lines in lengths.items() if lines > 400} == {}
