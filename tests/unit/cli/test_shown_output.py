"""The files that docs/command-line.md shows work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.command import fine, run
from helpers.places import ROOT

PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")


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
