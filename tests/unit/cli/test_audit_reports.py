"""`ndis audit`: reports that are saved, and shown again."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path

import pytest

import ndis
from helpers.audit_command import CLAIM, LOUD, convicted, passed, refused, run, write
from ndis.auditing import AuditReport, Claim
from ndis.pair import GaussianPair


class TestSavedReports:
    def test_the_command_on_the_page_makes_the_page_again(self, workplace):
        file = write({"claim": CLAIM, "pairs": [LOUD], "title": "A system", "data_name": "its data"})
        convicted(file, "--delta", 1e-5, "--report", "one.html", "--report", "one.json")
        page = Path("one.html").read_text(encoding="utf-8")
        assert "A system" in page
        assert "its data" in page
        command = shlex.split(json.loads(Path("one.json").read_text())["command"])
        assert command[:2] == ["ndis", "audit"]
        Path("one.html").unlink()
        convicted(*command[2:])
        assert Path("one.html").read_text(encoding="utf-8") == page

    def test_a_saved_report_is_certified_and_shown_again(self, workplace):
        ndis.audit(Claim(**CLAIM), pairs=[GaussianPair.from_diagonal(**LOUD)]).save("saved.json")
        convicted("saved.json", "--report", "again.html")
        whole = AuditReport.from_json(Path("saved.json").read_text(encoding="utf-8"))
        assert Path("again.html").read_text(encoding="utf-8") == whole.to_html()

    @pytest.mark.parametrize("factor", [0.999, 1.001])
    def test_a_report_that_its_witness_contradicts_is_refused(self, workplace, factor):
        found = ndis.audit(Claim(**CLAIM), pairs=[GaussianPair.from_diagonal(**LOUD)]).to_dict()
        found["witness"]["enclosure"] = [factor * x for x in found["witness"]["enclosure"]]
        found["delta_possible"] = found["witness"]["enclosure"][0]
        assert "report must agree with its own witness" in refused(write(found))

    def test_a_claim_that_the_witness_keeps_is_not_refuted_by_a_file(self, workplace):
        found = ndis.audit(Claim(**CLAIM), pairs=[GaussianPair.from_diagonal(**LOUD)]).to_dict()
        (low, high) = found["witness"]["enclosure"]
        assert high > low
        found["claim"]["points"] = [[1.0, low]]
        found["witness"]["delta"], found["witness"]["enclosure"] = high, [high, math.nextafter(high, 1.0)]
        found["claim"]["points"], found["delta_possible"] = [[1.0, high]], high
        assert "report must agree with its own witness" in refused(write(found))

    def test_options_do_not_go_with_a_saved_report(self, workplace):
        ndis.audit(Claim(**CLAIM), pairs=[GaussianPair.from_diagonal(**LOUD)]).save("saved.json")
        assert "--epsilon must be left out for a saved report" in refused("saved.json", "--epsilon", 2)

    def test_a_proof_is_not_checked_again_and_the_command_says_so(self, workplace):
        mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
        ndis.audit(Claim(1.0, 1e-6), mechanism=mechanism).save("saved.json")
        result = run("saved.json")
        assert result.exit_code == 0
        assert "proved by thm:mean-shift" in result.stdout
        assert "does not check the proof" in result.stderr

    def test_columns_choose_the_features(self, workplace):
        options = ("--algorithm", "model:dense", "--epsilon", 1, "--delta", 1e-6, "--json")
        found = json.loads(passed("rows.csv", *options, "--columns", "0", "--columns", "1", "--columns", "2"))
        assert found["witness"] == json.loads(passed("rows.csv", *options))["witness"]
        assert "columns" in refused("rows.csv", *options, "--columns", "9")
        assert "--columns must be left out" in refused(write({"claim": CLAIM, "pairs": [LOUD]}), "--columns", "0")
