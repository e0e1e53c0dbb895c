"""Imports run one way, and `import ndis` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

# Layers, lowest first. A module may import, at module level, modules of its own layer and of those before it.
# An entry names a module, or a package with everything in it; the most exact entry counts.
LAYERS = (
    ("ndis.errors", "ndis.enclosure", "ndis.precision"),
    ("ndis._validate", "ndis.files"),
    ("ndis._compile",),
    ("ndis.loss", "ndis.pair", "ndis.whitening"),
    ("ndis.spectrum",),
    ("ndis.genchi2", "ndis.batch", "ndis.subsampling", "ndis.spectrum.two_cdf", "ndis.spectrum.groups"),
    ("ndis.profile", "ndis._json", "ndis.plotting"),
    ("ndis.exact", "ndis.calibrate"),
    ("ndis.gram", "ndis.sampling"),
    ("ndis.ledger",),
    ("ndis.mechanisms",),
    ("ndis.models",),
    ("ndis.learn", "ndis.auditing", "ndis.testing", "ndis.interop"),
    ("ndis",),
    ("ndis.cli",),
    ("ndis.__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

# Inside functions a module may reach higher: where a value asks for a number, it imports what computes it. Only
# these may, and only so far.
LATE = {
    "ndis.loss": ("ndis.spectrum",),  # K(s) is evaluated by the compiled kernel
    "ndis.pair": ("ndis.spectrum",),  # δ, ε, certificates
    "ndis.profile": ("ndis._json", "ndis.plotting", "ndis"),  # JSON, pictures, the version
    "ndis.mechanisms.base": ("ndis",),  # the version
    "ndis.ledger.report": ("ndis",),  # the version
}
HEAVY = ("numba", "scipy", "matplotlib", "flint", "sklearn", "pandas", "pyarrow", "dask", "torch", "typer", "rich")


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
        allowed = late and any(target == name or target.startswith(name + ".") for name in LATE.get(module, ()))
        if there is None or (there > own and not allowed):
            where = "inside a function" if late else "at module level"
            problems.append(f"{module}, line {line}: imports {target} {where}, which comes later in the order")
    return problems


@pytest.mark.parametrize("module", MODULES)
def test_imports_run_one_way(module):
    assert broken_rules(module, MODULES[module].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("ndis.loss", "from ndis.profile import PrivacyProfile"),
        ("ndis.pair", "from ndis.spectrum.evaluate import spectrum"),  # inside a function only
        ("ndis.pair", "def f():\n    from ndis.profile import PrivacyProfile"),
        ("ndis.spectrum.contour", "import ndis.genchi2"),
        ("ndis.profile", "from ndis import cli"),
        ("ndis.nowhere", ""),
    ],
)
def test_a_broken_rule_is_found(module, text):
    assert len(broken_rules(module, text)) == 1


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("ndis.pair", "def f():\n    from ndis.spectrum.evaluate import spectrum"),
        ("ndis.spectrum.certified", "if TYPE_CHECKING:\n    from ndis.cli import app"),
        ("ndis.cli.spectrum", "from ndis.profile import PrivacyProfile"),
    ],
)
def test_what_is_allowed_passes(module, text):
    assert broken_rules(module, text) == []


def test_import_stays_light():
    """A fresh import of pairs and profiles loads nothing heavy: no compiler, no ball arithmetic, none of the extras."""
    names = "GaussianPair, GeneralizedChiSquare, PrivacyProfile, delta_batch"
    code = f"import sys; from ndis import {names}; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
