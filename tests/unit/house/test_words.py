"""The prose of the source is plain English: sentences with verbs, words in their common meaning."""

from __future__ import annotations

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
