"""`ndis audit`: verdicts as exit statuses, files of every sort, one line for everything that can be wrong."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import ndis
from ndis.auditing import AuditReport, Claim
from ndis.cli import app
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

LOUD = {"mean_p": [0.0, 1.0], "var_p": [1.0, 1.0], "mean_q": [0.0, 0.0], "var_q": [1.0, 1.0]}
QUIET = {"variance_ratio": 1.001, "copies": 10}
CLAIM = {"epsilon": 1.0, "delta": 1e-6}
MODEL = """
import os
import numpy as np

CALLS = []

def loud(data):
    print("from the algorithm")
    return data.sum(axis=0), np.full(data.shape[1], 0.5)

def quiet(data):
    return data.sum(axis=0), np.full(data.shape[1], 200.0)

def dense(data):
    return np.zeros(data.shape[1]), data.T @ data + 10.0 * np.eye(data.shape[1])

def fit(data):
    features, target = data
    return features.T @ target, 500.0 * np.eye(features.shape[1])

def slow(data):
    CALLS.append(len(data))
    if len(CALLS) == int(os.environ.get("STOP_AT", 0)):
        raise KeyboardInterrupt
    return quiet(data)

def raises(data):
    raise ValueError("secret 42")

def raises_later(data):
    if len(data) < 6:
        raise ValueError("secret 42")
    return quiet(data)

def leaves(data):
    raise SystemExit(0)

def one(data):
    return 3.0

def wrong_shapes(data):
    return np.zeros(3), np.eye(2)

def not_a_number(data):
    return np.full(3, np.nan), np.eye(3)

def indefinite(data):
    return np.zeros(2), np.array([[1.0, 2.0], [2.0, 1.0]]) + len(data)

def changes(data):
    return np.zeros(len(data)), np.ones(len(data))

class Holder:
    @staticmethod
    def inside(data):
        return quiet(data)

number = 3
"""


def run(*args: object):
    return CliRunner().invoke(app, ["audit", *(str(a) for a in args)], prog_name="ndis")


def passed(*args: object) -> str:
    result = run(*args)
    assert result.exit_code == 0, result.output
    return result.stdout


def convicted(*args: object) -> str:
    result = run(*args)
    assert result.exit_code == 1, result.output
    return result.stdout


def refused(*args: object, status: int = 2) -> str:
    result = run(*args)
    assert result.exit_code == status, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("ndis: ")
    assert result.stderr.endswith("\n")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("ndis: ").rstrip("\n")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a module of algorithms and rows in every form."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "model.py").write_text(MODEL)
    rows = np.random.default_rng(0).normal(size=(6, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.save("rows.npy", rows)
    np.savez("rows.npz", data=rows)
    np.savetxt("rows.csv", rows, fmt="%.17g", delimiter=",", header="a,b,c", comments="")
    yield tmp_path
    for name in ("model", "broken", "raising", "leaving"):
        sys.modules.pop(name, None)


def write(content: object, name: str = "audit.json") -> str:
    with open(name, "w") as file:
        json.dump(content, file)
    return name


class TestPairs:
    def test_refuted(self, folder):
        text = convicted(write({"claim": CLAIM, "pairs": [QUIET, LOUD]}))
        box = PrivacyProfile(GaussianPair.from_diagonal(**LOUD)).certify(1.0, relative_width=1e-12)
        assert "verdict: refuted" in text
        assert "pair 1 of those given" in text
        assert repr(box.lower) in text
        assert "largest ε refuted" in text

    def test_not_refuted_never_reads_as_private(self, folder):
        text = passed(write({"claim": CLAIM, "pairs": [QUIET]}))
        assert "not refuted" in text
        assert "not a proof of privacy" in text

    def test_json(self, folder):
        text = convicted(write({"claim": CLAIM, "pairs": [LOUD]}), "--json")
        report = AuditReport.from_json(text)
        assert report.refuted
        again = ndis.audit(Claim(**CLAIM), pairs=[GaussianPair.from_diagonal(**LOUD)])
        assert report.to_dict() == {**again.to_dict(), "command": "ndis audit audit.json --report audit.html"}

    def test_options_take_the_place_of_the_file(self, folder):
        file = write({"claim": CLAIM, "pairs": [LOUD]})
        assert "not refuted" in passed(file, "--epsilon", 8)
        assert "not refuted" in passed(file, "--delta", 0.5)
        assert "under replace-one" in convicted(file, "--adjacency", "replace-one")

    def test_a_pair_as_for_the_other_commands(self, folder):
        convicted(write(LOUD), "--epsilon", 1, "--delta", 1e-6)
        np.savez("pair.npz", **LOUD)
        convicted("pair.npz", "--epsilon", 1, "--delta", 1e-6)
        profile = PrivacyProfile(GaussianPair.from_ratios(1.0, shift=1.0)).subsampled(0.1)
        (folder / "profile.json").write_text(profile.to_json())
        convicted("profile.json", "--epsilon", 1, "--delta", 1e-6)

    def test_toml(self, folder):
        (folder / "audit.toml").write_text(
            'claim = {epsilon = 1, delta = 1e-6, adjacency = "add-remove"}\n'
            "[[pairs]]\nvariance_ratio = [1.0, 1.001]\nshift = [1.0, 0]\n[[pairs]]\nvariance_ratio = 1.0001\n"
        )
        assert "pair 0 of those given" in convicted("audit.toml")

    def test_many_points(self, folder):
        claim = {"epsilon": [1.0, 5.0], "delta": [0.5, 1e-9]}
        assert "2 points" in convicted(write({"claim": claim, "pairs": [LOUD]}))

    def test_npz(self, folder):
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
    def test_rows_by_themselves(self, folder, name):
        options = ("--epsilon", 1, "--delta", 1e-6)
        assert "6 pairs tested" in passed(name, "--algorithm", "model:quiet", *options)
        assert "the data without row" in convicted(name, "--algorithm", "model:loud", *options)

    def test_parquet(self, folder):
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

    def test_what_the_algorithm_prints_stays_out_of_the_answer(self, folder):
        text = convicted("rows.npy", "--algorithm", "model:loud", "--epsilon", 1, "--delta", 1e-6, "--json")
        assert AuditReport.from_json(text).refuted

    @pytest.mark.parametrize("data", ["rows.csv", "rows.npy", [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]])
    def test_named_in_a_file(self, folder, data):
        os.mkdir("inside")
        if isinstance(data, str):
            data = f"../{data}"
        file = write({"claim": CLAIM, "algorithm": "model:Holder.inside", "data": data}, "inside/audit.json")
        passed(file)
        convicted(file, "--algorithm", "model:loud")

    @pytest.mark.parametrize("column", ["c", "2"])
    def test_targets(self, folder, column):
        options = ("--algorithm", "model:fit", "--epsilon", 1, "--delta", 1e-6)
        passed("rows.csv", *options, "--targets", column)
        if column == "2":
            passed("rows.npy", *options, "--targets", column)
        np.savez("xy.npz", data=np.ones((3, 2)), targets=np.arange(3.0))
        passed("xy.npz", *options)

    def test_more_neighbours(self, folder):
        base = {"claim": CLAIM, "algorithm": "model:quiet", "data": "rows.npy"}
        assert "8 pairs" in passed(write({**base, "candidates": [[1, 0, 0], [0, 1, 0]]}))
        claim = {**CLAIM, "adjacency": "replace-one"}
        assert "12 pairs" in passed(write({**base, "claim": claim, "candidates": [[1, 0, 0], [0, 1, 0]]}))
        assert "neighbours must be given for replace-one" in refused(write({**base, "claim": claim}))
        found = AuditReport.from_json(passed(write(base), "--row-norm-bound", 1, "--json"))
        assert found.pairs_tried > 100

    def test_in_parallel(self, folder):
        options = ("rows.npy", "--algorithm", "model:quiet", "--epsilon", 1, "--delta", 1e-6, "--json")
        assert passed(*options, "--workers", 2) == passed(*options)

    def test_interrupted_and_resumed(self, folder, monkeypatch):
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
    def test_both_forms(self, folder):
        file = write({"claim": CLAIM, "pairs": [LOUD]})
        convicted(file, "--report", "r.html", "-o", "r.json")
        assert (folder / "r.html").read_text(encoding="utf-8").startswith("<!doctype html>")
        assert AuditReport.from_json((folder / "r.json").read_bytes()).refuted
        assert not list(folder.glob("*.part"))

    @pytest.mark.parametrize("path", ["r.txt", "r", "none/r.html", "."])
    def test_where_none_can_be_written(self, folder, path):
        file = write({"claim": CLAIM, "pairs": [LOUD]})
        before = sorted(os.listdir())
        assert refused(file, "--report", path).startswith("--report must ")
        assert sorted(os.listdir()) == before

    def test_a_full_disk_leaves_nothing(self, folder, monkeypatch):
        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        file = write({"claim": CLAIM, "pairs": [LOUD]})
        (folder / "r.html").write_text("an older report")
        before = sorted(os.listdir())
        monkeypatch.setattr(os, "fsync", full)
        result = run(file, "--report", "r.html")
        assert result.exit_code == 2
        assert "verdict: refuted" in result.stdout  # said before the report is written
        assert "No space left on device" in result.stderr
        assert sorted(os.listdir()) == before
        assert (folder / "r.html").read_text() == "an older report"


PAIR = json.dumps(QUIET)


class TestBadInput:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "file must be valid JSON; got "),
            (b'{"claim": {"epsilon": 1', "file must be valid JSON; got "),
            (b"\xff\xfe\x00\x01\x93junk", "file must be valid JSON; got "),
            (b"PK\x03\x04 junk", "file must be an NPZ archive of plain numeric arrays; got a file that is cut short"),
            (b"[1, 2]", "file must hold an object with a claim and pairs or data; got a list"),
            (b"3", "file must hold an object"),
            (b"{}", "keys of the file must be variance_ratio"),
            (b'{"pairs": [{"variance_ratio": NaN}]}', "file must be valid JSON; got the constant NaN"),
            (b'{"pairs": [{"variance_ratio": -Infinity}]}', "file must be valid JSON; got the constant -Infinity"),
            (b'{"pairs": [], "pairs": []}', "file must be valid JSON; got a key that appears twice"),
            (b'{"pairs": []}', "pairs must be a list of at least one pair; got an empty list"),
            (b'{"pairs": {"variance_ratio": 1}}', "pairs must be a list of at least one pair; got a dict"),
            (b'{"pairs": [3]}', "pair 0 must be an object; got a int"),
            (b'{"pairs": [{"variance_ratio": 2}, {"variance": 2}]}', "keys of pair 1 must be "),
            (b'{"pairs": [{"variance_ratio": 0}]}', "variance_ratio must be positive; got "),
            (b'{"pairs": [{"variance_ratio": [1, 2], "shift": [1, 2, 3]}]}', "variance_ratio and shift"),
            (b'{"pairs": [{"variance_ratio": 1}], "other": 1}', "file must have only the keys "),
            (b'{"pairs": [{"variance_ratio": 1}], "data": [[1]]}', "file must hold pairs or data, not both"),
            (b'{"claim": 3, "pairs": [{"variance_ratio": 1}]}', "claim must be an object; got a int"),
            (b'{"claim": {"eps": 3}, "pairs": [{"variance_ratio": 1}]}', "claim must have only the keys "),
            (b'{"claim": {"epsilon": "1"}, "pairs": [{"variance_ratio": 1}]}', "epsilon must be a real number"),
            (b'{"claim": {"epsilon": -1}, "pairs": [{"variance_ratio": 1}]}', "epsilon must not be negative"),
            (b'{"claim": {"epsilon": [1, 2]}, "pairs": [{"variance_ratio": 1}]}', "deltas must "),
            (b'{"claim": {"epsilon": 1, "delta": 2}, "pairs": [{"variance_ratio": 1}]}', "delta must "),
            (b'{"claim": {"epsilon": 1, "adjacency": "x"}, "pairs": [{"variance_ratio": 1}]}', "adjacency must "),
            (b'{"claim": {"epsilon": 1}}', "file must hold pairs or data; got neither"),
            (b'{"data": [[1]]}', "algorithm must come with data; got none"),
            (b'{"data": [[1]], "algorithm": 3}', "algorithm must be written module:function; got 3"),
            (b'{"data": [[1], [1, 2]], "algorithm": "model:quiet"}', "data must be rows of equal length"),
            (b'{"data": [["a"]], "algorithm": "model:quiet"}', "data must be rows of numbers"),
            (b'{"data": [], "algorithm": "model:quiet"}', "data must be rows and columns"),
            (b'{"data": [1, 2], "algorithm": "model:quiet"}', "data must be rows and columns"),
            (b'{"data": [[1e999]], "algorithm": "model:quiet"}', "data must be finite"),
            (b'{"data": "none.csv", "algorithm": "model:quiet"}', "data must name an existing file"),
            (b'{"data": "none.npy", "algorithm": "model:quiet"}', "file must be readable"),
            (b'{"data": "model.py", "algorithm": "model:quiet"}', "data must be named .npy"),
            (b'{"data": "rows.npy", "algorithm": "model:quiet", "targets": [[1]]}', "targets must be names or numbers"),
            (b'{"data": "rows.npy", "algorithm": "model:fit", "targets": 7}', "targets must be column numbers"),
            (b'{"data": "rows.csv", "algorithm": "model:fit", "targets": "z"}', "targets must be column names"),
            (b'{"data": "rows.npy", "algorithm": "model:quiet", "candidates": [[1]]}', "candidates must have"),
            (b'{"data": "rows.npy", "algorithm": "model:quiet", "row_norm_bound": -1}', "row_norm_bound must"),
            (b'{"format": "ndis.PrivacyProfile"}', "format_version of the profile must be 1 or 2"),
        ],
    )  # fmt: skip
    def test_content(self, folder, content, message):
        (folder / "bad.json").write_bytes(content)
        before = sorted(os.listdir())
        found = [] if b'"delta"' in content else ["--delta", 1e-6]
        found += [] if b'"epsilon"' in content else ["--epsilon", 1]
        assert refused("bad.json", *found, "--report", "r.html").startswith(message)
        assert sorted(os.listdir()) == before

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "keys of the file must be "),
            (b"claim = {epsilon", "file must be valid TOML"),
            (b"\xff", "file must be valid TOML"),
            (b"pairs = [{variance_ratio = nan}]", "variance_ratio must be finite"),
            (b"pairs = [{variance_ratio = inf}]", "variance_ratio must be finite"),
            (b"pairs = [{variance_ratio = 1979-05-27}]", "variance_ratio must be "),
            (b"a = 1\na = 2", "file must be valid TOML"),
        ],
    )
    def test_toml(self, folder, content, message):
        (folder / "bad.toml").write_bytes(content)
        assert refused("bad.toml", "--epsilon", 1, "--delta", 1e-6).startswith(message)

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"variance_ratio": [np.nan]}, "variance_ratio must be finite"),
            ({"variance_ratio": [[np.nan]]}, "variance_ratio must be finite"),
            ({"variance_ratio": [[1.0]], "shifts": [[1.0]]}, "keys of pairs must be "),
            ({"variance_ratio": np.ones((2, 2, 2))}, "variance_ratio must "),
            ({"mean_p": np.zeros((2, 1)), "var_p": 1.0, "mean_q": 0.0, "var_q": 1.0}, "arrays of stacked pairs must "),
            ({"mean_p": np.zeros((0, 1)), "var_p": np.zeros((0, 1))}, "arrays of stacked pairs must "),
            ({"data": np.zeros((2, 2)), "other": 1}, "NPZ file must have only the keys "),
            ({"data": np.zeros(2)}, "data must be rows and columns"),
            ({"data": np.array([[np.inf]])}, "data must be finite"),
            ({"data": np.zeros((2, 2))}, "algorithm must come with data"),
            ({"data": np.zeros((2, 2)), "targets": 1.0}, "targets of data must be rows and columns"),
            ({}, "keys of the file must be "),
        ],
    )
    def test_npz(self, folder, arrays, message):
        np.savez("bad.npz", **arrays)
        assert refused("bad.npz", "--epsilon", 1, "--delta", 1e-6).startswith(message)

    @pytest.mark.parametrize("name", ["bad.csv", "bad.parquet", "bad.npy", "bad.arrow", "bad.npz", "bad.toml", "bad"])
    @pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00\x01" * 9, b"PAR1", b"\x93NUMPY\x01\x00", b"a,b\n1,x\n"])
    def test_junk_under_any_name(self, folder, name, content):
        (folder / name).write_bytes(content)
        before = sorted(os.listdir())
        refused(name, "--epsilon", 1, "--delta", 1e-6, "--algorithm", "model:quiet", "--report", "r.html")
        assert sorted(os.listdir()) == before

    def test_cut_short(self, folder):
        """Whatever is left of a file after a cut, the answer is one line."""
        np.savez("whole.npz", epsilon=1.0, delta=1e-6, **LOUD)
        for whole, name in (
            ((folder / "whole.npz").read_bytes(), "cut.npz"),
            ((folder / "rows.npy").read_bytes(), "cut.npy"),
        ):
            for share in (0.1, 0.5, 0.9):
                (folder / name).write_bytes(whole[: int(share * len(whole))])
                refused(name, "--epsilon", 1, "--delta", 1e-6, "--algorithm", "model:quiet")

    def test_objects_are_never_unpickled(self, folder):
        class Trap:
            def __reduce__(self):
                return (pytest.fail, ("unpickled",))

        np.save("trap.npy", np.array([[Trap()]], dtype=object))
        np.savez("trap.npz", data=np.array([[Trap()]], dtype=object))
        for name in ("trap.npy", "trap.npz"):
            refused(name, "--epsilon", 1, "--delta", 1e-6, "--algorithm", "model:quiet")

    def test_missing_file_or_folder(self, folder):
        for name in ("none.json", "none.npz", "none.csv", "none.npy", "none.toml", "."):
            refused(name, "--epsilon", 1, "--delta", 1e-6)

    @pytest.mark.parametrize(
        ("algorithm", "message"),
        [
            ("model", "algorithm must be written module:function; got 'model'"),
            ("model:", "algorithm must be written module:function"),
            (":quiet", "algorithm must be written module:function"),
            ("model:quiet()", "algorithm must be written module:function"),
            ("../model:quiet", "algorithm must be written module:function"),
            ("none_such:f", "algorithm must be in a module that can be found; got 'none_such'"),
            ("broken:f", "algorithm must be in a module that imports; got SyntaxError in broken.py, line 2"),
            ("raising:f", "algorithm must be in a module that imports; got ZeroDivisionError in raising.py, line 1"),
            ("leaving:f", "algorithm must be in a module that imports; got SystemExit in leaving.py, line 1"),
            ("model:none", "algorithm must be a function of its module; got 'model:none'"),
            ("model:number", "algorithm must be a function of its module"),
            (
                "model:raises",
                "algorithm model:raises must return (mean, covariance); got ValueError in model.py, line ",
            ),
            ("model:raises_later", "algorithm model:raises_later must return (mean, covariance); got ValueError"),
            ("model:leaves", "algorithm model:leaves must return (mean, covariance); got SystemExit"),
            ("model:one", "algorithm must return (mean, covariance); got "),
            ("model:wrong_shapes", "covariance returned by algorithm must have shape (3, 3)"),
            ("model:not_a_number", "mean returned by algorithm must be finite"),
            ("model:changes", "algorithm must return laws of one dimension"),
            ("model:indefinite", ""),
        ],
    )
    def test_algorithms(self, folder, algorithm, message):
        (folder / "broken.py").write_text("x = 1\nx = (\n")
        (folder / "raising.py").write_text("1 / 0\n")
        (folder / "leaving.py").write_text("raise SystemExit(0)\n")
        found = refused("rows.npy", "--algorithm", algorithm, "--epsilon", 1, "--delta", 1e-6, "--report", "r.html")
        assert found.removeprefix("--").startswith(message)
        assert "secret" not in found
        assert not (folder / "r.html").exists()

    def test_in_parallel(self, folder):
        options = ("--algorithm", "model:raises_later", "--epsilon", 1, "--delta", 1e-6, "--workers", 2)
        assert "ValueError in model.py" in refused("rows.npy", *options)

    def test_options(self, folder):
        file = write({"pairs": [QUIET]})
        assert refused(file).startswith("claim must have epsilon and delta; got none called epsilon or delta")
        assert refused(file, "--epsilon", 1).endswith("or a claim in the file")
        assert refused(file, "--epsilon", "nan", "--delta", 0.1).startswith("--epsilon must be finite")
        assert refused(file, "--epsilon", 1, "--delta", 1).startswith("--delta must ")
        assert "--adjacency" in refused(file, "--epsilon", 1, "--delta", 0.1, "--adjacency", "other")
        assert refused(file, "--algorithm", "a:b", "--epsilon", 1, "--delta", 0.1).startswith(
            "--algorithm must be left out"
        )
        assert refused("rows.npy", "--algorithm", "model:quiet", "--epsilon", 1, "--delta", 0.1, "--workers", 0)

    def test_a_journal_of_another_audit(self, folder):
        options = ("rows.npy", "--algorithm", "model:quiet", "--delta", 1e-6, "--journal", "j")
        passed(*options, "--epsilon", 1)
        assert refused(*options, "--epsilon", 2).startswith("--journal must belong to this audit")
        (folder / "j").write_text("junk\n")
        refused(*options, "--epsilon", 1)


class TestSavedReports:
    def test_the_command_on_the_page_makes_the_page_again(self, folder):
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

    def test_a_saved_report_is_certified_and_shown_again(self, folder):
        ndis.audit(Claim(**CLAIM), pairs=[GaussianPair.from_diagonal(**LOUD)]).save("saved.json")
        convicted("saved.json", "--report", "again.html")
        whole = AuditReport.from_json(Path("saved.json").read_text(encoding="utf-8"))
        assert Path("again.html").read_text(encoding="utf-8") == whole.to_html()

    @pytest.mark.parametrize("factor", [0.999, 1.001])
    def test_a_report_that_its_witness_contradicts_is_refused(self, folder, factor):
        found = ndis.audit(Claim(**CLAIM), pairs=[GaussianPair.from_diagonal(**LOUD)]).to_dict()
        found["witness"]["enclosure"] = [factor * x for x in found["witness"]["enclosure"]]
        found["delta_possible"] = found["witness"]["enclosure"][0]
        assert "report must agree with its own witness" in refused(write(found))

    def test_a_claim_that_the_witness_keeps_is_not_refuted_by_a_file(self, folder):
        found = ndis.audit(Claim(**CLAIM), pairs=[GaussianPair.from_diagonal(**LOUD)]).to_dict()
        (low, high) = found["witness"]["enclosure"]
        assert high > low
        found["claim"]["points"] = [[1.0, low]]
        found["witness"]["delta"], found["witness"]["enclosure"] = high, [high, math.nextafter(high, 1.0)]
        found["claim"]["points"], found["delta_possible"] = [[1.0, high]], high
        assert "report must agree with its own witness" in refused(write(found))

    def test_options_do_not_go_with_a_saved_report(self, folder):
        ndis.audit(Claim(**CLAIM), pairs=[GaussianPair.from_diagonal(**LOUD)]).save("saved.json")
        assert "--epsilon must be left out for a saved report" in refused("saved.json", "--epsilon", 2)

    def test_a_proof_is_not_checked_again_and_the_command_says_so(self, folder):
        mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
        ndis.audit(Claim(1.0, 1e-6), mechanism=mechanism).save("saved.json")
        result = run("saved.json")
        assert result.exit_code == 0
        assert "proved by thm:mean-shift" in result.stdout
        assert "does not check the proof" in result.stderr

    def test_columns_choose_the_features(self, folder):
        options = ("--algorithm", "model:dense", "--epsilon", 1, "--delta", 1e-6, "--json")
        found = json.loads(passed("rows.csv", *options, "--columns", "0", "--columns", "1", "--columns", "2"))
        assert found["witness"] == json.loads(passed("rows.csv", *options))["witness"]
        assert "columns" in refused("rows.csv", *options, "--columns", "9")
        assert "--columns must be left out" in refused(write({"claim": CLAIM, "pairs": [LOUD]}), "--columns", "0")
