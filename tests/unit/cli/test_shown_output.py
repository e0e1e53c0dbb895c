"""What docs/command-line.md prints is what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from helpers.command import fine
from helpers.places import ROOT

PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?")


def output_after(words: str) -> str:
    """The next block of output in the page."""
    return PAGE[PAGE.index(words) :].split("```text\n", 1)[1].split("```", 1)[0]


@pytest.mark.parametrize(
    "command",
    [
        "ndis delta   --ratio 2 --epsilon 0,1,2",
        "ndis audit gaussians.json --epsilon 5 --delta 1e-3 --report audit.html",
    ],
)
def test_printed_figures(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = re.search(r"^echo '(.*)' > gaussians.json$", PAGE, re.MULTILINE)
    assert found is not None
    Path("gaussians.json").write_text(found[1])
    shown, printed = output_after(command), fine(*shlex.split(command)[1:])
    assert NUMBER.sub("#", shown).split() == NUMBER.sub("#", printed).split()
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (shown, printed)]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-13)
