"""The steward's year runs as the example tells it."""

from __future__ import annotations

import runpy

import pytest

from helpers.places import ROOT
from ndis.ledger.report import STATES


def test_three_teams_one_year_a_crash_a_cheat_and_a_renewal(tmp_path):
    story = runpy.run_path(str(ROOT / "examples" / "steward.py"))["main"](tmp_path)
    assert 1.0 < story["plan"]["epsilon"] <= 3.0
    assert story["crash"] == 1
    assert story["after the crash"] == (50, STATES["reserve"], 7)
    assert "must be dominated by slot 'product'" in story["too loud"]
    assert "is missing: a receipt names it" in story["rolled back"]
    assert "is not the one that a receipt names" in story["written twice"]
    assert "was renewed" in story["closed"]
    assert story["linked"] is True
    assert story["total"] == {"periods": 2, "epsilon": 5.0, "delta": pytest.approx(2e-6), "max_records": None}
