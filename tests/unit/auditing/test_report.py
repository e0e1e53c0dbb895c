"""Stored reports: round trips, and every field that does not fit its numbers."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from helpers.audits import CLAIM, LOUD, ROWS, SHIFT, total
from ndis.auditing import AuditReport, Claim, RemoveEach, Search, audit
from ndis.errors import ParameterError
from ndis.pair import GaussianPair


def test_json_round_trip_and_refusals(tmp_path):
    report = audit(Claim.curve([0.5, 1.0], [1e-4, 1e-6]), pairs=[SHIFT])
    again = AuditReport.from_json(report.to_json())
    assert again.to_json() == report.to_json()
    assert again.witness.recheck().lower > again.witness.delta
    report.save(tmp_path / "audit.json")
    assert (tmp_path / "audit.json").read_text(encoding="utf-8") == report.to_json()
    with pytest.raises(ParameterError, match=r"end in \.html or \.json"):
        report.save(tmp_path / "audit.txt")
    found = json.loads(report.to_json())
    for change in (
        {"format_version": 99},
        {"claim": {"adjacency": "add-remove", "points": []}},
        {"claim": {"adjacency": "both", "points": [[1.0, 0.5]]}},
        {"witness": None},
        {"more": 1},
    ):
        with pytest.raises(ParameterError):
            AuditReport.from_json(json.dumps({**found, **change}))
    for change in ({"enclosure": [1.0]}, {"enclosure": [0.9, 0.1]}, {"side": "worst"}):
        with pytest.raises(ParameterError):
            AuditReport.from_json(json.dumps({**found, "witness": {**found["witness"], **change}}))


def test_a_report_cannot_contradict_its_numbers():
    report = audit(CLAIM, pairs=[LOUD])
    changed = json.loads(report.to_json()) | {"refuted": False}
    changed["verdict"] = "not refuted by the 1 pair tested; this is not a proof of privacy"
    with pytest.raises(ParameterError, match="refuted must be true"):
        AuditReport.from_json(json.dumps(changed))
    quiet = json.loads(audit(CLAIM, pairs=[GaussianPair.from_ratios(1.0, shift=0.01)]).to_json())
    with pytest.raises(ParameterError, match="refuted must be false"):
        AuditReport.from_json(json.dumps(quiet | {"refuted": True, "verdict": "refuted"}))


@pytest.mark.parametrize(
    "change",
    [
        {"refuted": "false"},
        {"verdict": "private"},
        {"epsilon_refuted": "abc"},
        {"epsilon_refuted": -1.0},
        {"delta_possible": None},
        {"delta_possible": 0.5},
        {"pairs_tried": -5},
        {"pairs_tried": "many"},
        {"how_chosen": "abc"},
        {"how_chosen": [1, 2]},
        {"notes": None},
        {"reproduce": 5},
        {"undecided": True},
        {"version": None},
        {"witness": None},
        {"witness.enclosure": [-5, 7]},
        {"witness.delta": 0.9},
        {"witness.epsilon": "1"},
        {"witness.event": 3},
        {"witness.fractions": [["1/3"]]},
    ],
)
def test_every_field_of_a_stored_report_is_checked(change):
    found = json.loads(audit(CLAIM, pairs=[GaussianPair.from_diagonal([0.0], [1.0], [1.0], [1.0])]).to_json())
    for key, value in change.items():
        place, _, name = key.rpartition(".")
        (found[place] if place else found)[name] = value
    with pytest.raises(ParameterError):
        AuditReport.from_json(json.dumps(found))


def test_how_to_reproduce_names_the_function_and_the_data():
    text = audit(CLAIM, algorithm=total, data=ROWS, search=Search(neighbours=RemoveEach())).reproduce
    assert "total" in text
    assert re.search(r"digest of data is [0-9a-f]{16}", text)


def test_other_formats_are_refused():
    for version in (1, 2, "3", True):
        with pytest.raises(ParameterError, match="format_version of the report must be 3"):
            AuditReport.from_dict({**audit(CLAIM, pairs=[SHIFT]).to_dict(), "format_version": version})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"curve": [[0.0, 2.0]]}, "δ between 0 and 1"),
        ({"curve": 3}, "curve must be a list"),
        ({"curve": [[0.0, 1.5]]}, "points of the curve"),
        ({"proof": {"theorem": 1, "statement": "", "assumptions": []}}, "proof must hold sentences"),
        ({"proof": {"theorem": "t", "statement": "s", "assumptions": []}}, "not refuted"),
        ({"witness": None}, "come with a witness"),
        ({"title": 1}, "title must be of type str"),
    ],
)
def test_damaged_reports_are_refused(change, words):
    with pytest.raises(ParameterError, match=re.escape(words)):
        AuditReport.from_dict({**audit(CLAIM, pairs=[SHIFT]).to_dict(), **change})


def test_the_curve_needs_its_witness():
    report = audit(CLAIM, pairs=[GaussianPair.from_ratios(1.01)])
    with pytest.raises(ParameterError, match="curve must come with a witness"):
        dataclasses.replace(report, witness=None, delta_possible=0.0, computed_curve=report.curve)
