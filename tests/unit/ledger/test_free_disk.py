"""A full disk is public: it is met before a reservation, and a reservation says if its owner may give it back."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ndis
from ndis.errors import LedgerError, ParameterError
from ndis.ledger.report import STATES
from ndis.mechanisms.releases import ProjectionRelease


@pytest.fixture
def ledger(tmp_path: Path) -> ndis.Ledger:
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    return ndis.Ledger.create(tmp_path / "l", epsilon=2.0, delta=2e-6, plan={"a": (mechanism, 2)}, data_name="x")


def full(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(total=1 << 40, free=free))


def test_a_reservation_on_a_full_disk_spends_nothing(ledger: ndis.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    full(monkeypatch, 1000)
    with pytest.raises(LedgerError, match="MiB free"):
        ledger.release("a", mechanism, [0.0])
    assert ledger.entries() == 0
    monkeypatch.undo()
    assert ledger.release("a", mechanism, [0.0]).receipt.private


def test_a_release_that_came_out_is_committed_on_a_disk_that_filled_up(
    ledger: ndis.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    with ledger.charge("a", mechanism) as charge:
        full(monkeypatch, 1000)
        charge.seal(mechanism.release([0.0]))
    assert [row["state"] for row in ledger.releases()] == ["released"]


def test_an_output_that_does_not_fit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=5, row_norm_bound=1.0)
    release: ProjectionRelease = mechanism.release(np.array([[0.5]]))
    full(monkeypatch, 1000)
    with pytest.raises(ParameterError, match=r"folder must be a new folder; got .*MiB free, of 1 MiB needed"):
        release.save(tmp_path / "sketch")
    assert list(tmp_path.iterdir()) == []


def test_a_sketch_whose_output_does_not_fit_spends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The size follows from public numbers: 2,000,000 rows of two columns and room for two more are 61 MiB."""
    from ndis.cli import main

    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    full(monkeypatch, 30 << 20)
    words = ["sketch", str(tmp_path / "t.csv"), "--header", "--columns", "a,b", "--epsilon", "1", "--delta", "1e-6"]
    words += ["--sketch-size", "2000000", "--row-norm-bound", "1", "-o", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    assert "30 MiB free, of 62.04 MiB needed" in capsys.readouterr().err


def test_a_reservation_says_if_data_were_read(ledger: ndis.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    ledger.reserve("a", mechanism)
    seen: list[Any] = []

    def fails(*args: Any, **how: Any) -> None:
        seen.append(ledger.releases()[-1]["state"])
        raise ZeroDivisionError

    monkeypatch.setattr("ndis.mechanisms.gaussian.exact_normal", fails)
    with pytest.raises(ZeroDivisionError):
        ledger.release("a", mechanism, [0.0])
    assert seen == [STATES["read"]]
    states = [row["state"] for row in ledger.releases()]
    assert states == [STATES["reserve"], STATES["read"]]
