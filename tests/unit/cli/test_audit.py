"""`ndis audit`: verdicts as exit statuses, for pairs and for data."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import ndis
from helpers.audit_command import CLAIM, LOUD, QUIET, convicted, ended, passed, refused, run, write
from ndis.auditing import AuditReport, Claim
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile


class TestPairs:
    def test_refuted(self, workplace):
        text = convicted(write({"claim": CLAIM, "pairs": [QUIET, LOUD]}))
        box = PrivacyProfile(GaussianPair.from_diagonal(**LOUD)).certify(1.0, relative_width=1e-12)
        assert "verdict: refuted" in text
        assert "pair 1 of those given" in text
        assert repr(box.lower) in text
        assert "largest ε refuted" in text

    def test_not_refuted_never_reads_as_private(self, workplace):
        text = passed(write({"claim": CLAIM, "pairs": [QUIET]}))
        assert "not refuted" in text
        assert "not a proof of privacy" in text

    def test_json(self, workplace):
        text = convicted(write({"claim": CLAIM, "pairs": [LOUD]}), "--json")
        report = AuditReport.from_json(text)
        assert report.refuted
        again = ndis.audit(Claim(**CLAIM), pairs=[GaussianPair.from_diagonal(**LOUD)])
        assert report.to_dict() == {**again.to_dict(), "command": "ndis audit claim.json --report audit.html"}

    def test_options_take_the_place_of_the_file(self, workplace):
        file = write({"claim": CLAIM, "pairs": [LOUD]})
        assert "not refuted" in passed(file, "--epsilon", 8)
        assert "not refuted" in passed(file, "--delta", 0.5)
        assert "under replace-one" in convicted(file, "--adjacency", "replace-one")

    def test_a_pair_may_be_a_file_as_for_the_other_commands(self, workplace):
        write(LOUD, "pair.json")
        np.savez("pair.npz", **LOUD)
        profile = PrivacyProfile(GaussianPair.from_ratios(1.0, shift=1.0)).subsampled(0.1)
        (workplace / "profile.json").write_text(profile.to_json())
        for name in ("pair.json", "pair.npz", "profile.json"):
            assert "pair 1 of those given" in convicted(write({"claim": CLAIM, "pairs": [QUIET, name]}))

    def test_zero_is_a_claim(self, workplace):
        file = write({"claim": CLAIM, "pairs": [LOUD]})
        assert "δ = 0.0" in convicted(file, "--delta", 0)
        assert "ε = 0.0" in convicted(file, "--epsilon", 0)

    def test_toml(self, workplace):
        (workplace / "claim.toml").write_text(
            'claim = {epsilon = 1, delta = 1e-6, adjacency = "add-remove"}\n'
            "[[pairs]]\nvariance_ratio = [1.0, 1.001]\nshift = [1.0, 0]\n[[pairs]]\nvariance_ratio = 1.0001\n"
        )
        assert "pair 0 of those given" in convicted("claim.toml")

    def test_many_points(self, workplace):
        claim = {"epsilon": [1.0, 5.0], "delta": [0.5, 1e-9]}
        assert "2 points" in convicted(write({"claim": claim, "pairs": [LOUD]}))


class TestData:
    @pytest.mark.parametrize("data", [("--data", "rows.csv", "--header"), ("--data", "rows.npy")])
    def test_without_a_claim_file(self, workplace, data):
        options = (*data, "--epsilon", 1, "--delta", 1e-6)
        assert "6 pairs tested" in passed(*options, "--algorithm", "model.py:quiet", "--seconds", 0)
        assert "the data without row" in convicted(*options, "--algorithm", "model.py:loud")

    def test_parquet(self, workplace):
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        columns = dict(zip("abc", np.load("rows.npy").T, strict=True))
        parquet.write_table(arrow.table(columns), "rows.parquet")
        options = ("--algorithm", "model.py:dense", "--epsilon", 1, "--delta", 1e-6, "--json", "--seconds", 0, "--data")
        names = ("rows.parquet", "rows.csv", "rows.npy")
        reports = [json.loads(passed(*options, name, *["--header"] * (name == "rows.csv"))) for name in names]
        for one, name in zip(reports, names, strict=True):
            assert one.pop("data_name") == name
            assert name in one.pop("command")
        assert reports[0] == reports[1] == reports[2]

    def test_a_csv_file_is_read_by_the_rule_of_all_commands(self, workplace):
        (workplace / "plain.csv").write_text((workplace / "rows.csv").read_text().partition("\n")[2])
        options = ("--algorithm", "model.py:dense", "--epsilon", 1, "--delta", 1e-6, "--json", "--seconds", 0, "--data")
        named = json.loads(passed(*options, "rows.csv", "--header"))
        plain = json.loads(passed(*options, "plain.csv", "--columns", "a,b,c"))
        assert plain["witness"] == named["witness"]
        assert refused(*options, "rows.csv").startswith("columns must name all columns of a CSV file")
        claim = {"claim": CLAIM, "algorithm": "model.py:dense", "data": "rows.csv", "seconds": 0}
        assert json.loads(passed(write({**claim, "header": True}), "--json"))["witness"] == named["witness"]
        assert refused(write(claim)).startswith("columns must name all columns of a CSV file")

    def test_what_the_algorithm_prints_stays_out_of_the_answer(self, workplace):
        text = convicted(
            "--data", "rows.npy", "--algorithm", "model.py:loud", "--epsilon", 1, "--delta", 1e-6, "--json"
        )
        assert AuditReport.from_json(text).refuted

    @pytest.mark.parametrize("data", ["../rows.csv", "../rows.npy", [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]])
    def test_named_in_a_file(self, workplace, data):
        """Paths in the file start at its folder, paths in options at the current one."""
        os.mkdir("inside")
        claim = {
            "claim": CLAIM,
            "algorithm": "../model.py:Holder.inside",
            "data": data,
            "header": data == "../rows.csv",
        }
        file = write(claim, "inside/claim.json")
        passed(file, "--seconds", 0)
        convicted(file, "--algorithm", "model.py:loud", "--seconds", 0)

    @pytest.mark.parametrize("column", ["c", "2"])
    def test_targets(self, workplace, column):
        options = ("--algorithm", "model.py:fit", "--epsilon", 1, "--delta", 1e-6, "--targets", column)
        options += ("--seconds", 0, "--data")
        passed(*options, "rows.csv", "--header")
        if column == "2":
            passed(*options, "rows.npy")
            rows = {"claim": CLAIM, "algorithm": "model.py:fit", "data": np.load("rows.npy").tolist()}
            passed(write({**rows, "targets": 2}), "--seconds", 0)

    @pytest.mark.parametrize("name", ["mechanism", "make"])
    def test_a_mechanism(self, workplace, name):
        text = passed(write({"claim": CLAIM, "mechanism": f"model.py:{name}"}))
        assert "proved by thm:mean-shift" in text
        convicted("--mechanism", f"model.py:{name}", "--epsilon", 0.5, "--delta", 1e-6)
        assert "mechanism must" in refused("--mechanism", "model.py:number", "--epsilon", 0.5, "--delta", 1e-6)

    def test_more_neighbours(self, workplace):
        base = {"claim": CLAIM, "algorithm": "model.py:quiet", "data": "rows.npy", "seconds": 0}
        assert "8 pairs" in passed(write({**base, "candidates": [[1, 0, 0], [0, 1, 0]]}))
        claim = {**CLAIM, "adjacency": "replace-one"}
        assert "12 pairs" in passed(write({**base, "claim": claim, "candidates": [[1, 0, 0], [0, 1, 0]]}))
        assert "neighbours must be given for replace-one" in refused(write({**base, "claim": claim}))
        found = AuditReport.from_json(passed(write(base), "--row-norm-bound", 1, "--json"))
        assert found.pairs_tried > 100

    def test_in_parallel(self, workplace):
        options = ("--data", "rows.npy", "--algorithm", "model.py:quiet", "--epsilon", 1, "--delta", 1e-6, "--json")
        options += ("--seconds", 0)
        assert passed(*options, "--workers", 2) == passed(*options)

    def test_interrupted(self, workplace):
        options = ("--data", "rows.npy", "--algorithm", "model.py:stopped", "--epsilon", 1, "--delta", 1e-6)
        assert refused(*options, "--report", "r.html", status=130) == "interrupted"
        assert not os.path.exists("r.html")


class TestReports:
    def test_both_forms(self, workplace):
        file = write({"claim": CLAIM, "pairs": [LOUD]})
        convicted(file, "--report", "r.html", "-o", "r.json")
        assert (workplace / "r.html").read_text(encoding="utf-8").startswith("<!doctype html>")
        assert AuditReport.from_json((workplace / "r.json").read_bytes()).refuted
        assert not list(workplace.glob("*.part"))

    @pytest.mark.parametrize("path", ["r.txt", "r", "none/r.html", "."])
    def test_where_none_can_be_written(self, workplace, path):
        file = write({"claim": CLAIM, "pairs": [LOUD]})
        before = sorted(os.listdir())
        assert refused(file, "--report", path).startswith("--report must ")
        assert sorted(os.listdir()) == before

    def test_a_full_disk_leaves_nothing(self, workplace, monkeypatch):
        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        file = write({"claim": CLAIM, "pairs": [LOUD]})
        (workplace / "r.html").write_text("an older report")
        before = sorted(os.listdir())
        monkeypatch.setattr(os, "fsync", full)
        result = run(file, "--report", "r.html")
        assert result.exit_code == 2
        assert "verdict: refuted" in result.stdout  # said before the report is written
        assert "No space left on device" in result.stderr
        assert sorted(os.listdir()) == before
        assert (workplace / "r.html").read_text() == "an older report"


class TestGate:
    """Status 0 as required, 1 refuted, 3 not decided."""

    BUDGET = ("--epsilon", 1, "--delta", 1e-6)

    def test_a_proof_may_be_required(self, workplace):
        (workplace / "gauss.py").write_text(
            "import ndis\n"
            "MECHANISM = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)\n"
            "def law(data):\n    return [data.sum()], [10000.0]\n"
        )
        gauss = ("--mechanism", "gauss.py:MECHANISM")
        assert "proved by thm:mean-shift" in passed(*self.BUDGET, *gauss, "--require", "proved")
        named = write({"claim": CLAIM, "mechanism": "gauss.py:MECHANISM"})
        assert "proved" in passed(named, "--require", "proved")
        box = ("--algorithm", "gauss.py:law", "--low", 0, "--high", 1, "--features", 2, "--seconds", 0)
        assert "not refuted" in passed(*self.BUDGET, *box)
        assert "not refuted" in ended(3, *self.BUDGET, *box, "--require", "proved")

    def test_a_refuted_claim_is_refuted_whatever_is_required(self, workplace):
        for wanted in ("proved", "not-refuted"):
            ended(1, write({"claim": CLAIM, "pairs": [LOUD]}), "--require", wanted)

    def test_what_is_undecided_is_no_success(self, workplace):
        (workplace / "edge.py").write_text(
            "import ndis\n"
            "noise = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0).noise_std\n"
            "def count(data):\n    return [float(len(data))], [noise**2 * (1 - 1e-12)]\n"
        )
        box = ("--low", 0, "--high", 1, "--features", 1, "--seconds", 0)
        for wanted in ("proved", "not-refuted"):
            options = (*self.BUDGET, "--algorithm", "edge.py:count", *box)
            assert "leaves it undecided" in ended(3, *options, "--require", wanted)

    def test_data_are_made_up_inside_a_stated_domain(self, workplace):
        (workplace / "scaled.py").write_text(
            "def mean(data):\n    return [data.mean()], [(6.0 * data.std() + 1e-6) ** 2]\n"
        )
        options = (*self.BUDGET, "--algorithm", "scaled.py:mean")
        said = ended(1, *options, "--low", 0, "--high", 1, "--features", 1)
        assert said.startswith("warning: the noise depends on the data")
        assert "data must come with an algorithm" in refused(*options)
        assert "a domain must come with data" in refused(
            write({"claim": CLAIM, "pairs": [LOUD]}), "--low", 0, "--high", 1
        )

    def test_every_epsilon_is_refuted_at_delta_zero(self, workplace):
        said = ended(1, write({"claim": {"epsilon": 1, "delta": 0}, "pairs": [LOUD]}))
        assert "at δ = 0.0 every ε is refuted" in said
