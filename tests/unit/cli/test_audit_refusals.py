"""`ndis audit`: one line for everything that can be wrong."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from helpers.audit_command import LOUD, QUIET, passed, refused, write

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
    def test_content(self, workplace, content, message):
        (workplace / "bad.json").write_bytes(content)
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
    def test_toml(self, workplace, content, message):
        (workplace / "bad.toml").write_bytes(content)
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
    def test_npz(self, workplace, arrays, message):
        np.savez("bad.npz", **arrays)
        assert refused("bad.npz", "--epsilon", 1, "--delta", 1e-6).startswith(message)

    @pytest.mark.parametrize("name", ["bad.csv", "bad.parquet", "bad.npy", "bad.arrow", "bad.npz", "bad.toml", "bad"])
    @pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00\x01" * 9, b"PAR1", b"\x93NUMPY\x01\x00", b"a,b\n1,x\n"])
    def test_junk_under_any_name(self, workplace, name, content):
        (workplace / name).write_bytes(content)
        before = sorted(os.listdir())
        refused(name, "--epsilon", 1, "--delta", 1e-6, "--algorithm", "model:quiet", "--report", "r.html")
        assert sorted(os.listdir()) == before

    def test_cut_short(self, workplace):
        """Whatever is left of a file after a cut, the answer is one line."""
        np.savez("whole.npz", epsilon=1.0, delta=1e-6, **LOUD)
        for whole, name in (
            ((workplace / "whole.npz").read_bytes(), "cut.npz"),
            ((workplace / "rows.npy").read_bytes(), "cut.npy"),
        ):
            for share in (0.1, 0.5, 0.9):
                (workplace / name).write_bytes(whole[: int(share * len(whole))])
                refused(name, "--epsilon", 1, "--delta", 1e-6, "--algorithm", "model:quiet")

    def test_objects_are_never_unpickled(self, workplace):
        class Trap:
            def __reduce__(self):
                return (pytest.fail, ("unpickled",))

        np.save("trap.npy", np.array([[Trap()]], dtype=object))
        np.savez("trap.npz", data=np.array([[Trap()]], dtype=object))
        for name in ("trap.npy", "trap.npz"):
            refused(name, "--epsilon", 1, "--delta", 1e-6, "--algorithm", "model:quiet")

    def test_missing_file_or_folder(self, workplace):
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
    def test_algorithms(self, workplace, algorithm, message):
        (workplace / "broken.py").write_text("x = 1\nx = (\n")
        (workplace / "raising.py").write_text("1 / 0\n")
        (workplace / "leaving.py").write_text("raise SystemExit(0)\n")
        found = refused("rows.npy", "--algorithm", algorithm, "--epsilon", 1, "--delta", 1e-6, "--report", "r.html")
        assert found.removeprefix("--").startswith(message)
        assert "secret" not in found
        assert not (workplace / "r.html").exists()

    def test_in_parallel(self, workplace):
        options = ("--algorithm", "model:raises_later", "--epsilon", 1, "--delta", 1e-6, "--workers", 2)
        assert "ValueError in model.py" in refused("rows.npy", *options)

    def test_options(self, workplace):
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

    def test_a_journal_of_another_audit(self, workplace):
        options = ("rows.npy", "--algorithm", "model:quiet", "--delta", 1e-6, "--journal", "j")
        passed(*options, "--epsilon", 1)
        assert refused(*options, "--epsilon", 2).startswith("--journal must belong to this audit")
        (workplace / "j").write_text("junk\n")
        refused(*options, "--epsilon", 1)
