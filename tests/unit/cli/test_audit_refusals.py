"""`ndis audit`: one line for everything that can be wrong."""

from __future__ import annotations

import os

import numpy as np
import pytest

from helpers.audit_command import QUIET, refused, write


class TestBadInput:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "file must be valid JSON; got "),
            (b'{"claim": {"epsilon": 1', "file must be valid JSON; got "),
            (b"\xff\xfe\x00\x01\x93junk", "file must be valid JSON; got "),
            (b"[1, 2]", "file must hold a JSON object; got a list"),
            (b"3", "file must hold a JSON object"),
            (b"{}", "pairs, algorithm or mechanism must be given, one of them; got none"),
            (b'{"pairs": [{"variance_ratio": NaN}]}', "file must be valid JSON; got the constant NaN"),
            (b'{"pairs": [{"variance_ratio": -Infinity}]}', "file must be valid JSON; got the constant -Infinity"),
            (b'{"pairs": [], "pairs": []}', "file must be valid JSON; got a key that appears twice"),
            (b'{"pairs": []}', "pairs must be a list of at least one pair; got an empty list"),
            (b'{"pairs": {"variance_ratio": 1}}', "pairs must be a list of at least one pair; got a dict"),
            (b'{"pairs": [3]}', "pair 0 must be an object or the name of a file; got a int"),
            (b'{"pairs": [{"variance_ratio": 2}, {"variance": 2}]}', "keys of pair 1 must be "),
            (b'{"pairs": [{"variance_ratio": 0}]}', "variance_ratio must be positive; got "),
            (b'{"pairs": [{"variance_ratio": [1, 2], "shift": [1, 2, 3]}]}', "variance_ratio and shift"),
            (b'{"pairs": [{"variance_ratio": 1}], "other": 1}', "file must have only the keys "),
            (b'{"pairs": [{"variance_ratio": 1}], "data": [[1]]}', "data and workers must be left out with pairs"),
            (b'{"claim": 3, "pairs": [{"variance_ratio": 1}]}', "claim must be a JSON object; got a int"),
            (b'{"claim": {"eps": 3}, "pairs": [{"variance_ratio": 1}]}', "claim must have only the keys "),
            (b'{"claim": {"epsilon": "1"}, "pairs": [{"variance_ratio": 1}]}', "epsilon must be a real number"),
            (b'{"claim": {"epsilon": -1}, "pairs": [{"variance_ratio": 1}]}', "epsilon must not be negative"),
            (b'{"claim": {"epsilon": [1, 2]}, "pairs": [{"variance_ratio": 1}]}', "deltas must "),
            (b'{"claim": {"epsilon": 1, "delta": 2}, "pairs": [{"variance_ratio": 1}]}', "delta must "),
            (b'{"claim": {"epsilon": 1, "adjacency": "x"}, "pairs": [{"variance_ratio": 1}]}', "adjacency must "),
            (b'{"claim": {"epsilon": 1}}', "pairs, algorithm or mechanism must be given"),
            (b'{"data": [[1]]}', "pairs, algorithm or mechanism must be given"),
            (b'{"data": [[1]], "algorithm": 3}', "algorithm must be written path/to/file.py:name; got 3"),
            (b'{"data": [[1], [1, 2]], "algorithm": "model.py:quiet"}', "data must be an array of numbers"),
            (b'{"data": [["a"]], "algorithm": "model.py:quiet"}', "data must be an array of numbers"),
            (b'{"data": [], "algorithm": "model.py:quiet"}', "data must be rows and columns"),
            (b'{"data": [1, 2], "algorithm": "model.py:quiet"}', "data must be rows and columns"),
            (b'{"data": [[1e999]], "algorithm": "model.py:quiet"}', "data must be finite"),
            (b'{"data": "none.csv", "algorithm": "model.py:quiet"}', "data must name an existing file"),
            (b'{"data": "none.npy", "algorithm": "model.py:quiet"}', "data must name an existing file"),
            (b'{"data": "model.py", "algorithm": "model.py:quiet"}', "data must be named"),
            (b'{"data": "rows.npy", "algorithm": "model.py:quiet", "targets": [[1]]}', "targets must be names or"),
            (b'{"data": "rows.npy", "algorithm": "model.py:fit", "targets": 7}', "targets must be column numbers"),
            (b'{"data": "rows.csv", "header": true, "algorithm": "model.py:fit", "targets": "z"}', "targets must be"),
            (b'{"data": "rows.csv", "algorithm": "model.py:fit", "targets": "c"}', "columns must name all columns of"),
            (b'{"data": "rows.npy", "algorithm": "model.py:quiet", "candidates": [[1]]}', "candidates must have"),
            (b'{"data": "rows.npy", "algorithm": "model.py:quiet", "row_norm_bound": -1}', "row_norm_bound must"),
            (b'{"pairs": ["none.json"]}', "file must be readable"),
            (b'{"pairs": [{"variance_ratio": 1}], "title": 3}', "title must be text; got int"),
            (b'{"data": "rows.npy", "algorithm": "model.py:quiet", "header": 1}', "header must be true or false"),
            (b'{"data": "rows.npy", "algorithm": "model.py:quiet", "schema": 1}', "schema must be text"),
            (b'{"pairs": ["rows.npy"]}', "file must be valid JSON"),
            (b'{"format": "ndis.PrivacyProfile"}', "file must have only the keys "),
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
            (b"", "pairs, algorithm or mechanism must be given"),
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

    @pytest.mark.parametrize("name", ["bad.csv", "bad.parquet", "bad.npy", "bad.arrow", "bad.npz", "bad.toml", "bad"])
    @pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00\x01" * 9, b"PAR1", b"\x93NUMPY\x01\x00", b"a,b\n1,x\n"])
    def test_junk_under_any_name(self, workplace, name, content):
        (workplace / name).write_bytes(content)
        before = sorted(os.listdir())
        options = ("--epsilon", 1, "--delta", 1e-6, "--algorithm", "model.py:quiet", "--report", "r.html")
        refused(name, *options)
        refused("--data", name, "--header", *options)
        refused(write({"pairs": [name]}, "pairs.json"), *options[:4])
        assert sorted(os.listdir()) == sorted([*before, "pairs.json"])

    def test_cut_short(self, workplace):
        """Whatever is left of a file after a cut, the answer is one line."""
        whole = (workplace / "rows.npy").read_bytes()
        for share in (0.1, 0.5, 0.9):
            (workplace / "cut.npy").write_bytes(whole[: int(share * len(whole))])
            refused("--data", "cut.npy", "--epsilon", 1, "--delta", 1e-6, "--algorithm", "model.py:quiet")

    def test_objects_are_never_unpickled(self, workplace):
        class Trap:
            def __reduce__(self):
                return (pytest.fail, ("unpickled",))

        np.save("trap.npy", np.array([[Trap()]], dtype=object))
        refused("--data", "trap.npy", "--epsilon", 1, "--delta", 1e-6, "--algorithm", "model.py:quiet")

    def test_missing_file_or_folder(self, workplace):
        for name in ("none.json", "none.csv", "none.npy", "none.toml", "."):
            refused(name, "--epsilon", 1, "--delta", 1e-6)
            refused("--data", name, "--epsilon", 1, "--delta", 1e-6, "--algorithm", "model.py:quiet")

    @pytest.mark.parametrize(
        ("algorithm", "message"),
        [
            ("model", "algorithm must be written path/to/file.py:name; got 'model'"),
            ("model.py", "algorithm must be written path/to/file.py:name"),
            ("model.py:", "algorithm must be written path/to/file.py:name"),
            (":quiet", "algorithm must be written path/to/file.py:name"),
            ("model.py:quiet()", "algorithm must be written path/to/file.py:name"),
            ("model:quiet", "algorithm must be written path/to/file.py:name"),
            ("none_such.py:f", "algorithm must be in a file that exists; got 'none_such.py'"),
            ("broken.py:f", "algorithm must be in a file that Python can run; got SyntaxError in broken.py, line 2"),
            (
                "raising.py:f",
                "algorithm must be in a file that Python can run; got ZeroDivisionError in raising.py, line 1",
            ),
            ("leaving.py:f", "algorithm must be in a file that Python can run; got SystemExit in leaving.py, line 1"),
            ("model.py:none", "algorithm must be a function of its file; got 'model.py:none'"),
            ("model.py:number", "algorithm must be a function of its file"),
            (
                "model.py:raises",
                "algorithm model.py:raises must return (mean, covariance); got ValueError in model.py, line ",
            ),
            (
                "model.py:raises_later",
                "algorithm model.py:raises_later on a neighbour must return (mean, covariance); got ValueError",
            ),
            ("model.py:leaves", "algorithm model.py:leaves must return (mean, covariance); got SystemExit"),
            ("model.py:one", "algorithm must return (mean, covariance) or a Gaussian; got "),
            ("model.py:wrong_shapes", "covariance returned by algorithm must have shape (3, 3)"),
            ("model.py:not_a_number", "mean returned by algorithm must be finite"),
            ("model.py:changes", "algorithm must return laws of one dimension"),
            ("model.py:indefinite", ""),
        ],
    )
    def test_algorithms(self, workplace, algorithm, message):
        (workplace / "broken.py").write_text("x = 1\nx = (\n")
        (workplace / "raising.py").write_text("1 / 0\n")
        (workplace / "leaving.py").write_text("raise SystemExit(0)\n")
        found = refused(
            "--data", "rows.npy", "--algorithm", algorithm, "--epsilon", 1, "--delta", 1e-6, "--report", "r.html"
        )
        assert found.removeprefix("--").startswith(message)
        assert "secret" not in found
        assert not (workplace / "r.html").exists()

    @pytest.mark.parametrize("name", ["model.py", "rows.csv", "rows.npy"])
    def test_a_program_or_a_table_is_no_claim_file(self, workplace, name):
        found = refused(name, "--epsilon", 1, "--delta", 1e-6)
        assert found.startswith(
            f"file must be a claim file, TOML or JSON; got {name!r}; name a function with --algorithm"
        )

    def test_a_column_of_text_is_no_column_of_numbers(self, workplace):
        (workplace / "text.csv").write_text("a,name\n1,x\n2,y\n")
        options = ("--algorithm", "model.py:quiet", "--epsilon", 1, "--delta", 1e-6)
        found = refused("--data", "text.csv", "--header", *options)
        assert found.endswith("leave out columns of text (columns), or state a schema")

    def test_in_parallel(self, workplace):
        options = ("--algorithm", "model.py:raises_later", "--epsilon", 1, "--delta", 1e-6, "--workers", 2)
        assert "ValueError in model.py" in refused("--data", "rows.npy", *options)

    def test_options(self, workplace):
        file = write({"pairs": [QUIET]})
        assert refused(file).startswith("claim must have epsilon and delta; got none called epsilon or delta")
        assert refused(file, "--epsilon", 1).endswith("or a claim in the file")
        assert refused(file, "--epsilon", "nan", "--delta", 0.1).startswith("--epsilon must be finite")
        assert refused(file, "--epsilon", 1, "--delta", 1).startswith("--delta must ")
        assert "--adjacency" in refused(file, "--epsilon", 1, "--delta", 0.1, "--adjacency", "other")
        both = refused(file, "--algorithm", "model.py:quiet", "--epsilon", 1, "--delta", 0.1)
        assert both.startswith("pairs, algorithm or mechanism must be given, one of them; got pairs and algorithm")
        assert refused(
            "--data", "rows.npy", "--algorithm", "model.py:quiet", "--epsilon", 1, "--delta", 0.1, "--workers", 0
        )
