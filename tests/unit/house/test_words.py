"""The prose of the source is plain English: sentences with verbs, words in their common meaning."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from helpers.places import ROOT
from helpers.words import violations

PACKAGE = ROOT / "src" / "ndis"
FOLDERS = sorted({path.parent for path in PACKAGE.rglob("*.py")})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(PACKAGE.parent)))
def test_words(folder: Path) -> None:
    assert [line for path in sorted(folder.glob("*.py")) for line in violations(path)] == []


def test_a_violation_is_seen(tmp_path: Path) -> None:
    text = '"""Number of rows."""\n\nfound = 1  # of the rows beside it\n'
    (tmp_path / "module.py").write_text(text)
    assert len(list(violations(tmp_path / "module.py"))) == 4


LONG = 8  # lines of a function that must say why it is there


def silent(text: str) -> list[str]:
    """Return the names of long functions without a docstring."""
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    named = (node for node in functions if not node.name.startswith("__") and ast.get_docstring(node) is None)
    return [node.name for node in named if (node.end_lineno or 0) - node.body[0].lineno + 1 >= LONG]


def test_a_long_function_says_why_it_is_there() -> None:
    assert {
        str(path.relative_to(PACKAGE)): names for path in PACKAGE.rglob("*.py") if (names := silent(path.read_text()))
    } == {}


def test_a_silent_function_is_seen() -> None:
    body = "\n".join(f"    x{i} = {i}" for i in range(LONG))
    assert silent(f"def quiet():\n{body}\n\ndef short():\n    pass\n") == ["quiet"]
