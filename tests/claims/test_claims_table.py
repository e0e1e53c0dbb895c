"""docs/claims.md, the code and the paper's list of labels stay in step."""

import ast
import importlib
import inspect
import io
import re
import tokenize
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
SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py"))}
PAGES = sorted((ROOT / "docs").glob("*.md"))
CITATION = re.compile(r"\b(?:thm|def|lem|cor|bound|rule|prop|eq|alg|fig|fact)::?(?=\w)")


def test_every_label_once():
    """The labels of the table are those of the paper, each once."""
    labels = (HERE / "labels.txt").read_text(encoding="utf-8").splitlines()
    assert sorted(row[0] for row in ROWS) == sorted(labels)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_row(row):
    """Six cells, a known status, a function and a test that exist. If there is a function, both name the label."""
    assert len(row) == 6
    label, _, status, function, test, _ = row
    assert status in STATUSES
    if function != NONE:
        assert status in {"as stated", "corrected"}
        assert test != NONE
        assert names(label, source(resolve(function))), f"{function} does not name {label}"
    if status == "refuted":
        assert test != NONE
    if test != NONE:
        file, name = test.split("::")
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        found = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
        assert name in found
        assert function == NONE or names(label, ast.get_source_segment(text, found[name]))


def names(label, text):
    """Whether a text names a label, and not only a longer one."""
    return re.search(rf"{re.escape(label)}(?![\w-])", text) is not None


def source(target):
    """The source of a function, a class or a property, with its docstring."""
    return inspect.getsource(target.fget if isinstance(target, property) else target)


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


# ---------------------------------------------------------------------- citations


def stated():
    """The labels that the docs state: headings, bold labels, and the labels of the paper in the claims table."""
    found = {row[0] for row in ROWS}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found |= set(re.findall(r"^#+ ((?:thm|def|lem|cor|bound|rule|prop):[\w-]+)(?:: .+)?$", text, re.M))
        found |= set(re.findall(r"^\*\*((?:thm|def|lem|cor|bound|rule|prop):[\w-]+)\.?\*\*", text, re.M))
    return found


def cited(text):
    """The beginning of each citation in the strings and comments of a module, with the words that follow."""
    words = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type in (tokenize.STRING, tokenize.COMMENT)
    ]
    line = re.sub(r"\s+#?\s*", " ", " ".join(words))
    return [line[match.start() : match.start() + 60] for match in CITATION.finditer(line)]


def unresolved(citations):
    """The citations that begin with no stated label."""
    labels = sorted(stated(), key=len, reverse=True)
    return [one for one in citations if not any(names(label, one[: len(label) + 1]) for label in labels)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_label_cited_is_stated(path):
    assert unresolved(cited(SOURCES[path])) == []
    assert "theory §" not in SOURCES[path]


def test_a_label_that_nobody_states_is_found():
    text = '"""See thm:contour, thm:ptr RP-mech-DP and thm:contours."""  # and\n# (bound:no-such-bound)\nx: int = 1\n'
    found = cited(text)
    assert [one[:12] for one in found] == ["thm:contour,", "thm:ptr RP-m", "thm:contours", "bound:no-suc"]
    assert unresolved(found) == found[2:]
