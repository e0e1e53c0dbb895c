"""`ndis regress` with a ledger: which slot takes it, a missing ledger, and an interrupt."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ndis
from helpers.command import fine, refused
from ndis.gram.sums import RecordSums

BUDGET = ("--epsilon", 1, "--delta", 1e-6)
REGRESS = ("regress", "people.csv", "--header", "--schema", "people.toml", *BUDGET)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).uniform(size=(40, 2))
    np.savetxt("people.csv", rows, header="age,time", comments="", delimiter=",")
    ndis.Schema({"age": (0, 1)}, target=("time", 0, 1)).to_toml("people.toml")
    return tmp_path


def make_ledger(noise_multiplier: str) -> None:
    Path("slots.toml").write_text(f"[slots.fit]\ncount = 2\nnoise_multiplier = {noise_multiplier}\n", encoding="utf-8")
    fine(
        "ledger",
        "create",
        "people.ledger",
        *("--epsilon", 3, "--delta", 1e-6),
        "--data-name",
        "x",
        "--plan",
        "slots.toml",
    )


def test_the_slot_that_the_page_shows(place: Path) -> None:
    """The noise of `ndis calibrate gaussian` rounded down pays for a fit; rounded up it does not."""
    found = json.loads(fine("calibrate", "gaussian", *BUDGET, "--sensitivity", 1, "--json"))
    assert str(found["noise_std"]).startswith("4.22467")
    make_ledger("4.2246")
    fine(*REGRESS, "--ledger", "people.ledger", "--slot", "fit")
    assert ndis.Ledger("people.ledger").remaining() == {"fit": 1}
    Path("people.ledger").unlink()
    make_ledger("4.224679")
    assert "must be dominated by slot 'fit'" in refused(*REGRESS, "--ledger", "people.ledger", "--slot", "fit")


def test_a_ledger_that_does_not_exist(place: Path) -> None:
    said = refused(*REGRESS, "--ledger", "none.ledger", "--slot", "fit")
    assert said.startswith("--ledger must be an existing ledger file; got 'none.ledger'")
    assert "'ndis ledger create'" in said


def test_an_interrupt_after_the_reservation(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    make_ledger("4.2246")
    monkeypatch.setattr(RecordSums, "gram", interrupted)
    said = refused(*REGRESS, "--ledger", "people.ledger", "--slot", "fit", status=130)
    assert said == "interrupted; the ledger had reserved this release, and what it reserved counts as spent"
    assert ndis.Ledger("people.ledger").remaining() == {"fit": 1}
    assert refused(*REGRESS, status=130) == "interrupted"


def test_a_template_of_a_csv_file_without_header(place: Path) -> None:
    assert "(--header) if the first line of every file holds public names" in refused("schema", "init", "people.csv")
