"""`ndis audit`: verdicts as exit statuses, for pairs and for data."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest

import ndis
from helpers.audit_command import CLAIM, LOUD, QUIET, convicted, passed, refused, run, write
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
        assert report.to_dict() == {**again.to_dict(), "command": "ndis audit audit.json --report audit.html"}

    def test_options_take_the_place_of_the_file(self, workplace):
        file = write({"claim": CLAIM, "pairs": [LOUD]})
        assert "not refuted" in passed(file, "--epsilon", 8)
        assert "not refuted" in passed(file, "--delta", 0.5)
        assert "under replace-one" in convicted(file, "--adjacency", "replace-one")

    def test_a_pair_as_for_the_other_commands(self, workplace):
        convicted(write(LOUD), "--epsilon", 1, "--delta", 1e-6)
        np.savez("pair.npz", **LOUD)
        convicted("pair.npz", "--epsilon", 1, "--delta", 1e-6)
        profile = PrivacyProfile(GaussianPair.from_ratios(1.0, shift=1.0)).subsampled(0.1)
        (workplace / "profile.json").write_text(profile.to_json())
        convicted("profile.json", "--epsilon", 1, "--delta", 1e-6)

    def test_toml(self, workplace):
        (workplace / "audit.toml").write_text(
            'claim = {epsilon = 1, delta = 1e-6, adjacency = "add-remove"}\n'
            "[[pairs]]\nvariance_ratio = [1.0, 1.001]\nshift = [1.0, 0]\n[[pairs]]\nvariance_ratio = 1.0001\n"
        )
        assert "pair 0 of those given" in convicted("audit.toml")

    def test_many_points(self, workplace):
        claim = {"epsilon": [1.0, 5.0], "delta": [0.5, 1e-9]}
        assert "2 points" in convicted(write({"claim": claim, "pairs": [LOUD]}))

    def test_npz(self, workplace):
        np.savez("one.npz", epsilon=1.0, delta=1e-6, adjacency="replace-one", **LOUD)
        assert "under replace-one" in convicted("one.npz")
        means = np.array([[0.0, 1e-3], [0.0, 1.0]])
        ones = np.ones((2, 2))
        np.savez("stack.npz", epsilon=1.0, delta=1e-6, mean_p=means, var_p=ones, mean_q=0 * means, var_q=ones)
        assert "pair 1 of those given" in convicted("stack.npz")
        np.savez("batch.npz", epsilon=1.0, delta=1e-6, variance_ratio=np.array([[1.001], [1.002], [3.0]]), copies=4)
        assert "pair 2 of those given" in convicted("batch.npz")
        np.savez("curve.npz", epsilon=[0.5, 1.0], delta=[1e-3, 1e-6], **LOUD)
        assert "2 points" in convicted("curve.npz")


class TestData:
    @pytest.mark.parametrize("name", ["rows.csv", "rows.npy", "rows.npz"])
    def test_rows_by_themselves(self, workplace, name):
        options = ("--epsilon", 1, "--delta", 1e-6)
        assert "6 pairs tested" in passed(name, "--algorithm", "model:quiet", *options)
        assert "the data without row" in convicted(name, "--algorithm", "model:loud", *options)

    def test_parquet(self, workplace):
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        columns = dict(zip("abc", np.load("rows.npy").T, strict=True))
        parquet.write_table(arrow.table(columns), "rows.parquet")
        options = ("--algorithm", "model:dense", "--epsilon", 1, "--delta", 1e-6, "--json")
        found = [json.loads(passed(name, *options)) for name in ("rows.parquet", "rows.csv", "rows.npy")]
        for one, name in zip(found, ("rows.parquet", "rows.csv", "rows.npy"), strict=True):
            assert one.pop("data_name") == name
            assert name in one.pop("command")
        assert found[0] == found[1] == found[2]

    def test_what_the_algorithm_prints_stays_out_of_the_answer(self, workplace):
        text = convicted("rows.npy", "--algorithm", "model:loud", "--epsilon", 1, "--delta", 1e-6, "--json")
        assert AuditReport.from_json(text).refuted

    @pytest.mark.parametrize("data", ["rows.csv", "rows.npy", [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]])
    def test_named_in_a_file(self, workplace, data):
        os.mkdir("inside")
        if isinstance(data, str):
            data = f"../{data}"
        file = write({"claim": CLAIM, "algorithm": "model:Holder.inside", "data": data}, "inside/audit.json")
        passed(file)
        convicted(file, "--algorithm", "model:loud")

    @pytest.mark.parametrize("column", ["c", "2"])
    def test_targets(self, workplace, column):
        options = ("--algorithm", "model:fit", "--epsilon", 1, "--delta", 1e-6)
        passed("rows.csv", *options, "--targets", column)
        if column == "2":
            passed("rows.npy", *options, "--targets", column)
        np.savez("xy.npz", data=np.ones((3, 2)), targets=np.arange(3.0))
        passed("xy.npz", *options)

    def test_more_neighbours(self, workplace):
        base = {"claim": CLAIM, "algorithm": "model:quiet", "data": "rows.npy"}
        assert "8 pairs" in passed(write({**base, "candidates": [[1, 0, 0], [0, 1, 0]]}))
        claim = {**CLAIM, "adjacency": "replace-one"}
        assert "12 pairs" in passed(write({**base, "claim": claim, "candidates": [[1, 0, 0], [0, 1, 0]]}))
        assert "neighbours must be given for replace-one" in refused(write({**base, "claim": claim}))
        found = AuditReport.from_json(passed(write(base), "--row-norm-bound", 1, "--json"))
        assert found.pairs_tried > 100

    def test_in_parallel(self, workplace):
        options = ("rows.npy", "--algorithm", "model:quiet", "--epsilon", 1, "--delta", 1e-6, "--json")
        assert passed(*options, "--workers", 2) == passed(*options)

    def test_interrupted_and_resumed(self, workplace, monkeypatch):
        options = ("rows.npy", "--algorithm", "model:slow", "--epsilon", 1, "--delta", 1e-6, "--json")
        whole = passed(*options, "--report", "r.html")
        os.remove("r.html")
        runs = len(sys.modules.pop("model").CALLS)
        monkeypatch.setenv("STOP_AT", "5")
        result = run(*options, "--journal", "journal.jsonl", "--report", "r.html")
        assert result.exit_code == 130
        assert result.stdout == ""
        assert result.stderr == "ndis: interrupted; the same command goes on from the journal\n"
        assert not os.path.exists("r.html")
        monkeypatch.delenv("STOP_AT")
        sys.modules["model"].CALLS.clear()
        assert passed(*options, "--journal", "journal.jsonl", "--report", "r.html") == whole
        # two neighbours were finished; so few are both run again, to see that the algorithm is the same
        assert len(sys.modules["model"].CALLS) == runs
        assert os.path.exists("r.html")


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
