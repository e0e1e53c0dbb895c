"""The theory is whole: every result has a reason, a statement, a proof, code that uses it and a test that checks it."""

from __future__ import annotations

import re

import pytest

import ndis
from helpers.places import ROOT

TEXT = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
LABEL = r"(?:thm|lem|cor|def|bound|rule):[a-z0-9-]+"
PARTS = re.split(rf"^### ({LABEL}): (.+)$", TEXT, flags=re.MULTILINE)
RESULTS = {label: re.split(r"^##", body, flags=re.M)[0] for label, body in zip(PARTS[1::3], PARTS[3::3], strict=True)}
CODE = {path: path.read_text(encoding="utf-8") for path in (ROOT / "src" / "ndis").rglob("*.py")}
TESTS = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
PAGES = {path: path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")}


def named(label: str, texts: dict) -> list:
    """The files that name a label, and not only a longer one."""
    return [path.name for path, text in texts.items() if re.search(rf"{label}(?![\w-])", text)]


def test_there_is_a_theory():
    assert len(RESULTS) > 50
    assert len(re.findall(rf"^### {LABEL}", TEXT, re.M)) == len(RESULTS), "a result without a title, or stated twice"


@pytest.mark.parametrize("label", RESULTS)
def test_a_result_is_whole(label):
    body = RESULTS[label]
    assert body.startswith("\n\n*Why.* "), "a sentence that says why it is there"
    before, *proof = re.split(r"\*(?:Proof|Reference|Why)\.\*", body.removeprefix("\n\n*Why.* "))
    assert len(before) > 80, "a statement"
    if not label.startswith("def"):
        assert proof, "a proof, or a reference to one"
    assert named(label, CODE), "code that uses it"
    assert named(label, {p: t for p, t in TESTS.items() if p.name not in ("test_claims_table.py", "test_theory.py")})


def test_results_are_stated_on_one_page_only():
    elsewhere = {
        path.name: re.findall(rf"^(?:#+ |\*\*){LABEL}", text, re.M)
        for path, text in PAGES.items()
        if path.name != "theory.md"
    }
    assert {name: labels for name, labels in elsewhere.items() if labels} == {}


def test_every_work_that_is_cited_is_listed():
    body, references = TEXT.split("## References")
    listed = re.findall(r"^- (.+?)\. \*", references, re.M)
    surnames = {name.split()[-1] for authors in listed for name in re.split(r", | and ", authors)}
    cited = re.findall(r"((?:[A-ZÀ-Ž][\w-]+(?:, | and | et al\.)? ?)+)\(?\(((?:19|20)\d\d)\)", body)
    assert cited
    for names, year in cited:
        first = re.match(r"[\w-]+", names)[0]
        assert first in surnames, (names, year)
        assert year in references


def test_the_citation_has_the_number_of_its_result():
    version, number, label = re.findall(rf"Theory of ndis ([\d.]+), Theorem (\d+), ({LABEL})`", TEXT)[0]
    assert version == ndis.__version__
    assert list(RESULTS).index(label) + 1 == int(number)


@pytest.mark.parametrize("page", ["docs/theory.md", "docs/install.md", "README.md", "CITATION.cff"])
def test_the_version_is_this_one(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"(?:ndis[- ]|(?<!cff-)\bversion(?::| +=) *\{?)(\d+\.\d+\.\d+)", text)
    assert named
    assert set(named) == {ndis.__version__}


@pytest.mark.parametrize("page", [path.name for path, text in PAGES.items() if "$$" in text])
def test_displayed_formulas_stand_alone(page):
    """Else the page shows their source."""
    text = next(text for path, text in PAGES.items() if path.name == page)
    for formula in re.split(r"\n\s*\n", text):
        if "$$" in formula:
            assert re.fullmatch(r"\s*\$\$[^$]+\$\$\s*", formula), formula
