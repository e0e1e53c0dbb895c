"""Random hostile tables change nothing of another record; `make sweep` runs thousands of them."""

from pathlib import Path

import pytest

from benchmarks.border_attack import differences
from ndis.data import files, sparse, table


@pytest.mark.parametrize("whole", [False, True], ids=["rows", "releases"])
def test_no_record_decides_about_another(whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((files, "rows_per_read"), (sparse, "rows_per_read"), (table, "rows_per_read")):
        monkeypatch.setattr(module, name, getattr(module, name))  # which a case changes, and the test restores
    monkeypatch.setattr(files, "line_blocks", files.line_blocks)
    seeds = range(8 if whole else 60)
    assert [seed for seed in seeds if any(differences(seed, tmp_path, whole=whole))] == []
