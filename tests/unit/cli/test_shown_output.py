"""What docs/command-line.md prints is what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from helpers.command import fine, run
from helpers.places import ROOT

PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?")


def output_after(words: str) -> str:
    """The next block of output in the page."""
    return PAGE[PAGE.index(words) :].split("```text\n", 1)[1].split("```", 1)[0]


def blocks(kind: str) -> list[str]:
    """The blocks of code of one kind in the part on audits."""
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE[PAGE.index("## Auditing") :], re.MULTILINE | re.DOTALL)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the page shows."""
    monkeypatch.chdir(tmp_path)
    pair = re.search(r"^echo '(.*)' > gaussians.json$", PAGE, re.MULTILINE)
    assert pair is not None
    Path("gaussians.json").write_text(pair[1])
    Path("claim.toml").write_text(blocks("toml")[0])
    return tmp_path


@pytest.mark.parametrize(
    "command", ["ndis delta   --ratio 2 --epsilon 0,1,2", "ndis audit claim.toml --report audit.html"]
)
def test_printed_figures(command: str, place: Path) -> None:
    shown, printed = output_after(command), fine(*shlex.split(command)[1:])
    assert NUMBER.sub("#", shown).split() == NUMBER.sub("#", printed).split()
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (shown, printed)]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-13)


def test_claim_files(place: Path) -> None:
    _, pairs, algorithm = blocks("toml")
    Path("pairs.toml").write_text(pairs)
    assert "not refuted by the 2 pairs tested" in fine("audit", "pairs.toml")
    Path("data.toml").write_text(algorithm)
    (model,) = blocks("python")
    Path("mymodel.py").write_text(model)
    Path("rows.csv").write_text("a,b,y\n0.5,0.1,0.3\n0.2,0.4,-0.2\n0.1,0.6,0.5\n")
    result = run("audit", "data.toml", "--seconds", 0, "--report", "audit.json", "--report", "audit.html")
    assert (result.exit_code, result.stderr) in ((0, ""), (1, "")), result.output
    page = Path("audit.html").read_text(encoding="utf-8")
    assert "Posterior of the survey" in page
    assert "survey 2026" in page
    again = run("report", "audit.json")
    assert (again.exit_code, again.stdout) == (result.exit_code, result.stdout)
