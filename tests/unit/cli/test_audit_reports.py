"""`ndis report`: reports that were saved are checked, and shown again."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path

import pytest

import ndis
from helpers import command
from helpers.audit_command import CLAIM, LOUD, convicted, passed, refused, write
from ndis.auditing import AuditReport, Claim
from ndis.pair import GaussianPair


class TestSavedReports:
    def test_the_command_on_the_page_makes_the_page_again(self, workplace):
        file = write({"claim": CLAIM, "pairs": [LOUD], "title": "A system", "data_name": "its data"})
        convicted(file, "--delta", 1e-5, "--report", "one.html", "--report", "one.json")
        page = Path("one.html").read_text(encoding="utf-8")
        assert "A system" in page
        assert "its data" in page
        words = shlex.split(json.loads(Path("one.json").read_text())["command"])
        assert words[:2] == ["ndis", "audit"]
        Path("one.html").unlink()
        convicted(*words[2:])
        assert Path("one.html").read_text(encoding="utf-8") == page

    def test_a_report_does_not_take_the_place_of_a_pair(self, workplace):
        Path("pair.json").write_text(json.dumps(LOUD), encoding="utf-8")
        file = write({"claim": CLAIM, "pairs": ["pair.json"]})
        said = command.refused("audit", file, "--report", "./pair.json")
        assert said.startswith("--report must be another file than those that are read")
        assert json.loads(Path("pair.json").read_text()) == LOUD

    def test_a_saved_report_is_certified_and_shown_again(self, workplace):
        ndis.audit(Claim(**CLAIM), pairs=[GaussianPair.from_diagonal(**LOUD)]).save("saved.json")
        shown = command.run("report", "saved.json", "--output", "again.html")
        assert shown.exit_code == 1
        assert "verdict: refuted" in shown.stdout
        whole = AuditReport.from_json(Path("saved.json").read_text(encoding="utf-8"))
        assert Path("again.html").read_text(encoding="utf-8") == whole.to_html()

    @pytest.mark.parametrize("factor", [0.999, 1.001])
    def test_a_report_that_its_witness_contradicts_is_refused(self, workplace, factor):
        found = ndis.audit(Claim(**CLAIM), pairs=[GaussianPair.from_diagonal(**LOUD)]).to_dict()
        found["witness"]["enclosure"] = [factor * x for x in found["witness"]["enclosure"]]
        found["delta_possible"] = found["witness"]["enclosure"][0]
        assert "report must agree with its own witness" in command.refused("report", write(found))

    def test_a_claim_that_the_witness_keeps_is_not_refuted_by_a_file(self, workplace):
        found = ndis.audit(Claim(**CLAIM), pairs=[GaussianPair.from_diagonal(**LOUD)]).to_dict()
        (low, high) = found["witness"]["enclosure"]
        assert high > low
        found["claim"]["points"] = [[1.0, low]]
        found["witness"]["delta"], found["witness"]["enclosure"] = high, [high, math.nextafter(high, 1.0)]
        found["claim"]["points"], found["delta_possible"] = [[1.0, high]], high
        assert "report must agree with its own witness" in command.refused("report", write(found))

    def test_a_proof_is_not_checked_again_and_the_command_says_so(self, workplace):
        mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
        ndis.audit(Claim(1.0, 1e-6), mechanism=mechanism).save("saved.json")
        result = command.run("report", "saved.json")
        assert result.exit_code == 0
        assert "proved by thm:mean-shift" in result.stdout
        assert "does not check the proof" in result.stderr

    def test_where_none_can_be_written(self, workplace):
        ndis.audit(Claim(**CLAIM), pairs=[GaussianPair.from_diagonal(**LOUD)]).save("saved.json")
        assert command.refused("report", "saved.json", "-o", "r.txt").startswith("-o must end in .html or .json")
        assert "format" in command.refused("report", write({"claim": CLAIM, "pairs": [LOUD]}))


def test_columns_choose_the_features(workplace):
    options = ("--data", "rows.csv", "--header", "--algorithm", "model.py:dense", "--epsilon", 1, "--delta", 1e-6)
    options += ("--seconds", 0)
    chosen = json.loads(passed(*options, "--json", "--columns", "0", "--columns", "1,2"))
    assert chosen["witness"] == json.loads(passed(*options, "--json"))["witness"]
    assert "--columns must be column names" in refused(*options, "--columns", "9")
    pairs = write({"claim": CLAIM, "pairs": [LOUD]})
    assert refused(pairs, "--columns", "0").startswith("--columns must come with data")
