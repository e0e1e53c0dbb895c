"""docs/claims.md, the code and the paper's list of labels stay in step."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
STATUSES = {"as stated", "corrected", "refuted", "unused"}
NONE = "—"


def rows():
    """(label, statement, status, function, test, note) of every row of the tables that have these columns."""
    found, inside = [], False
    for line in (ROOT / "docs" / "claims.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if cells[:1] == ["label"]:
            inside = True
        elif not cells:
            inside = False
        elif inside and not set(line) <= set("|-"):
            found.append(tuple(cell.strip("`") for cell in cells))
    return found


ROWS = rows()
SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py")))


def test_every_label_once():
    """The labels of the table are those of the paper, each once."""
    labels = (HERE / "labels.txt").read_text(encoding="utf-8").splitlines()
    assert sorted(row[0] for row in ROWS) == sorted(labels)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_row(row):
    """Six cells, a known status, a function and a test that exist; where there is a function, both files name the
    label.
    """
    assert len(row) == 6
    label, _, status, function, test, _ = row
    assert status in STATUSES
    if function != NONE:
        assert status in {"as stated", "corrected"}
        assert test != NONE
        assert resolve(function) is not None
        assert re.search(rf"{re.escape(label)}(?![\w-])", SOURCES), f"no docstring in src names {label}"
    if status == "refuted":
        assert test != NONE
    if test != NONE:
        file, name = test.split("::")
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        tree = ast.parse(text)
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert function == NONE or label in text


def resolve(dotted):
    """The object behind a dotted name: the longest importable module, then attributes."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            target = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            target = getattr(target, name)
        return target
    raise AssertionError(f"{dotted} cannot be imported")
