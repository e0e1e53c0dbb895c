"""`ndis calibrate projection`, `ndis sketch`, `ndis regress`: what they print, write and refuse."""

from __future__ import annotations

import functools
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import ndis
from helpers import command
from helpers.command import run
from helpers.places import ROOT
from ndis.cli import app
from ndis.learn import PrivateRidge
from ndis.mechanisms.releases import ProjectionRelease

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
DOCS = ROOT / "docs"
BUDGET = ("--epsilon", 1, "--delta", 1e-6)
SKETCH = (*BUDGET, "--sketch-size", 50, "--row-norm-bound", 3)
NOTE = "note: in CSV a cell that is not a number empties its whole row; name the numeric columns with --columns\n"
SMALL = (*BUDGET, "--row-norm-bound", 3, "--sketch-size", 5)
REGRESS = (*BUDGET, "--row-norm-bound", 3, "--target-bound", 4, "--method", "sketch")


fine, refused = (functools.partial(act, note=NOTE) for act in (command.fine, command.refused))


def header(data: object) -> tuple[str, ...]:
    """What a CSV file with names in its first line needs."""
    return ("--header",) if str(data).endswith(".csv") else ()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that holds the same records as CSV, Parquet, NPY and a folder of Parquet."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 3))
    y = x @ [1.0, -0.5, 0.25] + 0.5 + 0.1 * rng.normal(size=3000)
    frame = pd.DataFrame(np.c_[x, y], columns=["a", "b", "c", "y"])
    frame.to_csv(tmp_path / "records.csv", index=False)
    frame.to_parquet(tmp_path / "records.parquet")
    np.save(tmp_path / "records.npy", frame.to_numpy())
    (tmp_path / "many").mkdir()
    for i in range(3):
        frame[i * 1000 : (i + 1) * 1000].to_parquet(tmp_path / "many" / f"{i}.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestCalibrate:
    def test_plain(self):
        found = json.loads(fine("calibrate", "projection", *SKETCH, "--json"))
        mechanism = ndis.RandomProjection.calibrated(epsilon=1, delta=1e-6, sketch_size=50, row_norm_bound=3.0)
        assert found["ridge"] == mechanism.ridge
        assert found["leverage"] == mechanism.leverage
        assert 0.999e-6 < found["certified_delta"] <= 1e-6

    def test_table(self):
        lines = dict(line.split(maxsplit=1) for line in fine("calibrate", "projection", *SKETCH).splitlines())
        assert lines["mechanism"] == "RandomProjection"
        assert float(lines["ridge"]) > 0
        assert "target_bound" not in lines

    def test_variants(self):
        plain = json.loads(fine("calibrate", "projection", *SKETCH, "--json"))
        sampled = json.loads(fine("calibrate", "projection", *SKETCH, "--rate", 0.1, "--json"))
        tested = json.loads(fine("calibrate", "projection", *SKETCH, "--ptr", "--test-noise-std", 90, "--json"))
        other = json.loads(fine("calibrate", "projection", *SKETCH, "--adjacency", "replace-one", "--json"))
        assert sampled["mechanism"] == "PoissonProjection"
        assert sampled["ridge"] < plain["ridge"] < other["ridge"]
        assert tested["mechanism"] == "PTRProjection"
        assert (tested["test_noise_std"], tested["failure_probability"]) == (90.0, pytest.approx(1e-6 / 3))
        assert tested["ridge"] > plain["ridge"]

    def test_joint_bound(self):
        options = ("--target-bound", 4, "--intercept", 12)
        found = json.loads(fine("calibrate", "projection", *SKETCH, *options, "--json"))
        assert found["joint_norm_bound"] == 13.0

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            ((*BUDGET, "--sketch-size", 50), "--row-norm-bound must be a positive number; got none"),
            ((*SKETCH, "--delta", 0), "delta must be above 0"),
            ((*SKETCH, "--epsilon", "nan"), "epsilon must be finite"),
            ((*SKETCH, "--row-norm-bound", -1), "--row-norm-bound must be positive"),
            ((*SKETCH, "--sketch-size", 0), "--sketch-size must be a whole number"),
            ((*SKETCH, "--ptr", "--rate", 0.5), "--rate must be left out with --ptr"),
            ((*SKETCH, "--failure-probability", 1e-7), "come with --ptr"),
            ((*SKETCH, "--rate", 2), "rate must be"),
            ((*SKETCH, "--ptr", "--test-noise-std", 0.01), "the test alone spends the budget"),
        ],
    )
    def test_refused(self, args, message):
        assert message in refused("calibrate", "projection", *args)


class TestSketch:
    @pytest.mark.parametrize("data", ["records.csv", "records.parquet", "records.npy", "many"])
    def test_writes_a_release(self, data, folder):
        said = fine("sketch", data, *header(data), *SKETCH, "-o", "out")
        assert said == "50 rows x 4 columns, private with epsilon = 1, delta = 1e-06: out\n"
        release = ProjectionRelease.load(folder / "out")
        assert release.sketch.shape == (50, 4)
        assert release.receipt.private
        assert release.names == (() if data == "records.npy" else ("a", "b", "c", "y"))
        assert sorted(p.name for p in folder.iterdir()) == sorted(
            ["many", "out", "records.csv", "records.npy", "records.parquet"]
        )

    def test_columns_targets_and_variants(self, folder):
        options = ("--columns", "c,a", "--target", "y", "--target-bound", 2, "--intercept", 1)
        said = fine("sketch", "records.csv", "--header", *SKETCH, *options, "--rate", 0.5, "-o", "out", "--json")
        receipt = json.loads(said)
        assert receipt == json.loads((folder / "out" / "receipt.json").read_text())
        assert (receipt["mechanism"], receipt["parameters"]["rate"]) == ("PoissonProjection", 0.5)
        release = ProjectionRelease.load(folder / "out")
        assert (release.names, release.targets) == (("c", "a", "y", "intercept"), 1)
        fine("sketch", "records.npy", *SKETCH, "--columns", 2, "--columns", 0, "--ptr", "-o", "two")
        assert ProjectionRelease.load(folder / "two").receipt.mechanism == "PTRProjection"

    @pytest.mark.parametrize(
        ("data", "args", "message"),
        [
            ("missing.csv", (), "data must name an existing file or folder"),
            ("missing.npy", (), "data must name an existing file or folder"),
            ("broken.npy", (), "data must be an NPY file of numbers"),
            ("pickled.npy", (), "data must be an NPY file of numbers"),
            ("records.txt", (), "data must be named"),
            ("broken.parquet", (), "data must be a readable file"),
            ("text.parquet", (), "column 'name' must hold real numbers"),
            ("records.csv", ("--columns", "z"), "columns must be column names of the file, or numbers from 0 to 3"),
            ("records.csv", ("--columns", "7"), "columns must be column names"),
            ("records.csv", ("--target", "y"), "--target-bound must be given with targets"),
            ("records.csv", ("--target-bound", 2), "--target-bound must come with targets"),
            ("records.csv", ("-o", "many"), "-o must be a new folder"),
            ("records.csv", ("-o", "nowhere/out"), "-o must lie in an existing folder"),
        ],
    )
    def test_refused(self, data, args, message, folder):
        import pandas as pd

        (folder / "broken.npy").write_bytes(b"\x93NUMPY secret 1234")
        np.save(folder / "pickled.npy", np.array([{"secret": 1234}], dtype=object), allow_pickle=True)
        (folder / "records.txt").write_text("secret 1234")
        (folder / "broken.parquet").write_text("secret 1234")
        pd.DataFrame({"a": [1.0], "name": ["secret 1234"]}).to_parquet(folder / "text.parquet")
        said = refused("sketch", data, *header(data), *SKETCH, "-o", "out", *args)
        assert message in said
        assert "1234" not in said
        assert not (folder / "out").exists()

    @pytest.mark.parametrize(
        ("problem", "message", "status"),
        [
            (OSError(5, "secret 1234"), "internal error, OSError in ", 70),
            (pa.ArrowInvalid("secret 1234"), "internal error, ArrowInvalid in ", 70),
            (ModuleNotFoundError("secret 1234", name="pyarrow"), "pyarrow must be installed; got none", 2),
        ],
    )
    def test_trouble_that_the_library_does_not_name(self, problem, message, status, folder, monkeypatch):
        def release(*_, **__):
            raise problem

        monkeypatch.setattr(ndis.RandomProjection, "release", release)
        said = refused("sketch", "records.csv", "--header", *SKETCH, "-o", "out", status=status)
        assert message in said
        assert "1234" not in said

    def test_bad_cells_change_neither_status_nor_words(self, folder):
        text = (folder / "records.csv").read_text()
        (folder / "worse.csv").write_text(text + "oops,1,2,3\n1e9,1e9,1e9,1e9\nnan,inf,,1\n")
        plain = fine("sketch", "records.csv", "--header", *SKETCH, "-o", "one")
        worse = fine("sketch", "worse.csv", "--header", *SKETCH, "-o", "two")
        assert worse.replace("two", "one") == plain


class TestRegress:
    @pytest.mark.parametrize("data", ["records.csv", "records.parquet", "records.npy", "many"])
    def test_coefficients(self, data, folder):
        target = 3 if data == "records.npy" else "y"
        said = fine("regress", data, *header(data), "--target", target, *REGRESS, "--epsilon", 20, "-o", "fit.json")
        written = json.loads((folder / "fit.json").read_text())
        names = ["0", "1", "2"] if data == "records.npy" else ["a", "b", "c"]
        coefficients = written["prediction"]["coefficients"]
        assert list(coefficients) == names
        np.testing.assert_allclose(list(coefficients.values()), [1.0, -0.5, 0.25], atol=0.15)
        assert written["prediction"]["intercept"] == pytest.approx(0.5, abs=0.1)
        assert written["receipt"]["private"] is True
        shown = dict(line.split() for line in said.splitlines())
        assert [float(shown[name]) for name in names] == list(coefficients.values())
        assert list(shown)[3:] == ["(intercept)", "(penalty)"]

    def test_options(self, folder):
        found = json.loads(
            fine(
                "regress", "records.npy", "--target", 1, "--columns", "3,0", *REGRESS,
                "--no-intercept", "--alpha", 1e6, "--sketch-size", 70, "--adjacency", "replace-one", "--json",
            )
        )  # fmt: skip
        assert list(found["prediction"]["coefficients"]) == ["3", "0"]
        assert (found["prediction"]["intercept"], found["penalty"]) == (0.0, 1e6)
        assert not {"schema", "baseline"} & found.keys()
        assert found["receipt"]["parameters"]["sketch_size"] == 70
        assert found["receipt"]["adjacency"] == "replace-one"

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (("records.csv", "--header", "--target", "z", *REGRESS), "--target must be column names"),
            (("records.csv", "--header", "--target", "y,a", *REGRESS), "--target must name one column"),
            (("records.csv", "--header", "--target", "y", "--columns", "y", *REGRESS), "name each column once"),
            (("records.csv", "--header", "--target", "y", *REGRESS, "--target-bound", 0), "--target-bound must be"),
            (("records.csv", "--header", "--target", "y", *REGRESS, "--alpha", -1), "alpha must not be negative"),
            (("records.csv", "--header", *REGRESS), "--target must name the target column; got none"),
            (
                ("records.csv", "--header", "--target", "y", *REGRESS, "-o", "nowhere/fit.json"),
                "-o must lie in an existing folder",
            ),
            (("records.csv", "--header", "--target", "y", *REGRESS, "-o", "many"), "-o must end in .html or .json"),
        ],
    )
    def test_refused(self, args, message, folder):
        assert message in refused("regress", *args)


def shown_commands() -> list[str]:
    """The `$ ndis` lines of the documents that speak of a file of records."""
    pages = [DOCS / "command-line.md", DOCS / "private-sketches.md"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages).replace("\\\n", "")
    return re.findall(r"^\$ (ndis .*records.*)$", text, re.MULTILINE)


def test_shown_commands(folder):
    found = shown_commands()
    assert len(found) >= 3
    for line in found:
        fine(*shlex.split(line, comments=True)[1:])


ALL_COLUMNS = (
    "note: without --header every line of a CSV file is a record and --columns names all its columns, in order\n"
)


class TestNotes:
    @pytest.mark.parametrize("rows", ["1,2\n3,4\n", "1,x\n", ""], ids=["numbers", "text", "none"])
    @pytest.mark.parametrize("name", ["records.csv", "RECORDS.CSV", "folder"])
    def test_the_note_on_csv_depends_on_names_and_options_alone(self, tmp_path, rows, name):
        (tmp_path / "folder").mkdir()
        (tmp_path / ("folder/part.csv" if name == "folder" else name)).write_text("age,bmi\n" + rows)
        data = tmp_path / name
        bare = run("sketch", data, "--header", *SMALL, "-o", tmp_path / "out")
        assert (bare.exit_code, bare.stderr) == (0, NOTE)
        named = run("sketch", data, "--header", *SMALL, "--columns", "age, bmi", "-o", tmp_path / "named")
        assert (named.exit_code, named.stderr) == (0, "")
        sketch = ("--method", "sketch", "--sketch-size", 5)
        regress = ("regress", data, *BUDGET, "--row-norm-bound", 3, "--target", "bmi", "--target-bound", 4, *sketch)
        for options, note in ((["--header"], NOTE), (["--columns", "age,bmi"], ALL_COLUMNS)):
            found = run(*regress, *options)
            assert (found.exit_code, found.stderr) == (0, note)

    def test_no_note_without_csv(self, tmp_path):
        np.save(tmp_path / "records.npy", np.zeros((3, 2)))
        assert run("sketch", tmp_path / "records.npy", *SMALL, "-o", tmp_path / "out").stderr == ""

    def test_a_name_with_a_space_is_still_found(self, tmp_path):
        (tmp_path / "records.csv").write_text("age, bmi\n1,2\n")
        for columns in ("age, bmi", "age,bmi"):
            args = ("sketch", tmp_path / "records.csv", "--header", *SMALL, "--columns", columns)
            found = run(*args, "-o", tmp_path / columns)
            assert found.exit_code == (0 if columns == "age, bmi" else 2)

    def test_what_is_wrong_with_the_output(self, tmp_path):
        (tmp_path / "records.csv").write_text("age\n1\n")
        args = ("sketch", tmp_path / "records.csv", *SMALL, "-o")
        assert "-o must be a new folder; got" in run(*args, tmp_path).stderr
        assert "which exists" in run(*args, tmp_path).stderr
        assert "-o must lie in an existing folder; got" in run(*args, tmp_path / "no" / "out").stderr


def test_regress_on_awkward_names(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("(intercept),y\n0.5,0.25\n")
    args = ["regress", "rows.csv", "--header", "--target", "y", "--epsilon", "1", "--delta", "1e-6"]
    args += ["--row-norm-bound", "1", "--target-bound", "1", "--method", "sketch"]
    shown = CliRunner().invoke(app, args).stdout.split()
    assert shown[::2] == ["(intercept)", "((intercept))", "(penalty)"]

    def drawn(*_: object, **__: object) -> None:
        raise AssertionError("drawn before the output was checked")

    monkeypatch.setattr(PrivateRidge, "fit_data", drawn)
    Path("old.json").write_text("kept")
    assert refused(*args, "-o", "old.json").startswith("-o must be a new file")


def test_names_with_control_characters_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a\x1b[31m": [1.0]}), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("a\x1b[31m\n1\n")
    options = ["--epsilon", "1", "--delta", "1e-6", "--sketch-size", "5", "--row-norm-bound", "1"]
    for name, more in (("a.parquet", []), ("a.csv", ["--header"])):
        found = CliRunner().invoke(app, ["sketch", str(tmp_path / name), *options, *more, "-o", str(tmp_path / "out")])
        assert found.exit_code == 2
        assert "printable" in found.stderr
        assert "\x1b" not in found.output
