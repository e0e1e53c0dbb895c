"""The documents are true: their examples give what they show, their commands run, their links lead somewhere.

Warnings are errors here as in all tests.
"""

from __future__ import annotations

import doctest
import json
import re
import runpy
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from helpers.places import ROOT
from ndis.cli import app

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """(line number, text) of each fenced block in the language."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start(2)), m[2]) for m in FENCE.finditer(text) if m[1] == language]


def sessions(page: Path) -> doctest.DocTest:
    """All interactive python blocks of a page as one session."""
    examples = []
    for line, text in sorted([*blocks(page, "python"), *blocks(page, "pycon")]):
        for example in doctest.DocTestParser().get_examples(text, page.name):
            example.lineno += line
            examples.append(example)
    return doctest.DocTest(examples, {}, page.name, str(page), 0, None)


@pytest.mark.parametrize("page", [p for p in PAGES if sessions(p).examples], ids=lambda p: p.name)
def test_examples(page):
    report: list[str] = []
    session = sessions(page)
    found = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(session, out=report.append, clear_globs=False)
    assert found.failed == 0, "".join(report)
    if page.name != "which-regression.md":  # which shows what a script prints
        assert_printed(page, lambda: str(session.globs["model"].summary()))


def masked(line: str) -> str:
    """A line of a table without its digits and widths, which are new in every run; a guarantee is the same in all."""
    return line if "differentially private" in line else " ".join(re.sub(r"-?\d[\d.,]*", "#", line).split())


def assert_printed(page: Path, prints: Callable[[], str]) -> int:
    """Every line of the tables of regressions that a page shows is one that the code prints, but for its digits."""
    shown = [line for _, text in blocks(page, "text") for line in text.split("Private linear regression\n")[1:]]
    printed = {masked(line) for line in prints().splitlines()} if shown else set()
    for text in shown:
        assert [line for line in text.splitlines() if masked(line) not in printed] == [], page.name
    return len(shown)


def test_the_table_of_wages_is_what_the_example_prints(capsys) -> None:
    def prints() -> str:
        runpy.run_path(str(ROOT / "examples" / "wages.py"), run_name="__main__")
        return str(capsys.readouterr().out)

    assert assert_printed(ROOT / "docs" / "which-regression.md", prints) == 1


def test_the_readme_shows_an_example():
    assert len(sessions(ROOT / "README.md").examples) >= 6


RELEASE = """import ndis
MECHANISM = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=5**0.5)
def law(rows):
    return rows.sum(axis=0), [MECHANISM.noise_std**2] * 5
"""


def commands(page: Path) -> list[str]:
    """The `ndis` lines in the shell blocks of a page."""
    lines = [line for _, text in blocks(page, "sh") for line in text.splitlines()]
    return [line for line in lines if line.startswith("ndis ")]


def shown(page: Path) -> list[tuple[str, str]]:
    """The `$ ndis` lines of a page, each with the output that stands below it."""
    texts = [text.split("\n", 1) for _, text in blocks(page, "text") if text.startswith("$ ndis ")]
    return [(line[2:], output) for line, output in texts]


LINES = {line: "" for page in PAGES for line in commands(page)} | {k: v for page in PAGES for k, v in shown(page)}


def test_outputs_of_commands_are_shown():
    assert len(list(filter(None, LINES.values()))) >= 3


@pytest.mark.parametrize("line", sorted(LINES))
def test_commands(line, tmp_path, monkeypatch):
    """Every `ndis` line works where the files are that the documents speak of, and prints what the page shows."""
    moments = {"mean_p": [0.5, 0], "cov_p": [[1.3, 0.2], [0.2, 0.9]]}
    moments |= {"mean_q": [0, 0], "cov_q": [[1, -0.1], [-0.1, 1.1]]}
    np.savez(tmp_path / "gaussians.npz", **moments)
    (tmp_path / "gaussians.json").write_text(json.dumps(moments))
    (tmp_path / "claim.toml").write_text('claim = {epsilon = 5.0, delta = 1e-3}\npairs = ["gaussians.json"]\n')
    (tmp_path / "release.py").write_text(RELEASE)
    (tmp_path / "loop.toml").write_text(blocks(ROOT / "docs" / "audit-a-training-loop.md", "toml")[0][1])
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
    assert result.exit_code == (3 if "no guarantee known" in LINES[line] else 0), result.output
    if LINES[line]:
        assert doctest.OutputChecker().check_output(LINES[line], result.output, FLAGS), result.output


def test_the_examples_of_the_release_engine_run() -> None:
    text = (ROOT / "docs" / "release-engine.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    elsewhere = ("rows/", "Client")  # a folder, a cluster or a device that is not here
    here = [block for block in blocks if not any(word in block for word in elsewhere)]
    assert len(here) == 5
    names: dict[str, object] = {}
    for block in here:
        exec(compile(block, "release-engine.md", "exec"), names)
    parts = names["parts"]
    whole = names["exact_gram"](names["rows"], row_norm_bound=5.0)  # type: ignore[operator]
    assert parts[0].finish() == whole  # type: ignore[index]
    np.testing.assert_allclose(names["gram"].layout.joint_norm_bound, np.sqrt(35))  # type: ignore[attr-defined]


def test_every_command_that_a_page_names_is_there() -> None:
    """Numbers and pictures of the documents come from commands; this holds that each can still be run."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for page in (*PAGES, ROOT / "CONTRIBUTING.md"):
        text = page.read_text(encoding="utf-8")
        for module in re.findall(r"python -m (benchmarks[\w.]*)", text):
            place = ROOT.joinpath(*module.rstrip(".").split("."))
            assert place.is_dir() or place.with_suffix(".py").exists(), (page.name, module)
        for script in re.findall(r"python ((?:examples|docs|\.ci)/[\w/]+\.py)", text):
            assert (ROOT / script).exists(), (page.name, script)
        assert set(re.findall(r"`make ([a-z-]+)`", text)) <= targets, page.name


def test_every_picture_is_drawn_by_a_command() -> None:
    listed = (ROOT / "docs" / "figures.py").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    pictures = [path.stem for path in (ROOT / "docs" / "img").iterdir()]
    assert len(pictures) > 8
    assert [name for name in pictures if not re.search(rf"\b{name}(\.png)?\b", listed)] == []


def test_the_table_of_deployments_has_the_numbers_of_the_risk_card() -> None:
    card = ROOT / "src" / "ndis" / "pages" / "templates" / "deployments.toml"
    page = (ROOT / "docs" / "how-much-epsilon.md").read_text(encoding="utf-8")
    for one in tomllib.loads(card.read_text(encoding="utf-8"))["deployment"]:
        epsilon, unit = re.search(rf"\| {re.escape(one['name'])} \| (.+?) \| .+? \| (.+?) \|", page).groups()
        assert [float(x) for x in epsilon.split(" to ")] == [*filter(None, [one.get("epsilon_least")]), one["epsilon"]]
        assert unit == one["unit"]
