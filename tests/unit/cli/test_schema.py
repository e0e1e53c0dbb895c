"""`ndis schema`, and `--schema` of the other commands."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import ndis
from helpers.command import fine, run
from helpers.places import ROOT
from ndis.mechanisms.releases import ProjectionRelease
from ndis.schema import Schema

pd = pytest.importorskip("pandas")
BUDGET = ("--epsilon", 20, "--delta", 1e-3)
PLAIN = ("plain.csv", "--columns", "age,region,spend")
SCHEMA = Schema({"age": (18, 90), "region": ["N", "S"]}, target=("spend", 0, 5_000))


def refused(*args: object) -> str:
    result = run(*args)
    *notes, said = result.stderr.splitlines()
    assert (result.exit_code, result.stdout) == (2, "")
    assert all(note.startswith("note: ") for note in notes)
    return said.removeprefix("ndis: ")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the same records as CSV and Parquet, and their schema."""
    rng = np.random.default_rng(0)
    age, region = rng.uniform(18, 90, 5000), rng.choice(["N", "S"], 5000)
    frame = pd.DataFrame({"name": "Ann", "age": age, "region": region, "spend": 20 * age + 300 * (region == "S")})
    frame["member"] = frame.age > 50
    frame["since"] = pd.Timestamp("2020-01-01")
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    frame[["age", "region", "spend"]].to_csv(tmp_path / "plain.csv", index=False, header=False)
    SCHEMA.to_toml(tmp_path / "s.toml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestInit:
    def test_names_that_are_not_printable_do_not_reach_the_terminal(self, place: Path) -> None:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({"a\x9b31m": [1.0]}), place / "names.parquet")
        said = refused("schema", "init", "names.parquet")
        assert said == "data must have column names of printable characters; got names.parquet"
        pq.write_table(pa.table({"a": pa.array([{"f\x1b[31m\n[target]": 1}])}), place / "fields.parquet")
        text = fine("schema", "init", "fields.parquet")
        assert '# "a": type struct<f?[31m?[target]: int64>' in text.splitlines()

    def test_a_template_says_what_a_target_is(self, place: Path) -> None:
        text = fine("schema", "init", "t.csv", "--header")
        for words in ("# [target]", '# name = "spend"', "ndis regress --target spend"):
            assert words in text
        assert "# [target]" not in fine("schema", "init", "t.csv", "--header", "--target", "spend")

    def test_names_and_types_only(self, place: Path) -> None:
        text = fine("schema", "init", "t.parquet", "--target", "spend")
        for line in (
            '"age" = { low = "?", high = "?" }  # number',
            '"region" = { categories = ["?"] }  # text',
            '"member" = { type = "boolean" }  # boolean',
            '"since" = { low = "?", high = "?" }  # date',
            'name = "spend"',
        ):
            assert line in text.splitlines()
        assert "Ann" not in text
        assert '"N"' not in text

    def test_a_csv_needs_a_promise(self, place: Path) -> None:
        assert refused("schema", "init", "t.csv").startswith("--columns must name all columns of a CSV file")
        text = fine("schema", "init", "t.csv", "--header")
        assert '"region" = { low = "?", high = "?" }' in text
        assert '"b" = ' in fine("schema", "init", "plain.csv", "--columns", "a,b,c")

    def test_no_value_is_read(self, place: Path) -> None:
        """A template is the same for all tables of the same names and types."""
        first = fine("schema", "init", "t.parquet")
        pd.read_parquet("t.parquet")[:0].to_parquet("empty.parquet")
        assert fine("schema", "init", "empty.parquet") == first

    def test_output_is_new(self, place: Path) -> None:
        fine("schema", "init", "t.parquet", "-o", "new.toml")
        assert (place / "new.toml").read_text().startswith("# What is public")
        assert refused("schema", "init", "t.parquet", "-o", "new.toml").startswith("-o must be a new file; got")
        message = refused("schema", "check", "new.toml")
        assert message.startswith("column 'name' must be filled in; got a template")

    def test_target_is_a_column(self, place: Path) -> None:
        assert refused("schema", "init", "t.parquet", "--target", "z").startswith("--target must be a column")


class TestCheck:
    def test_fits(self, place: Path) -> None:
        assert "3 encoded columns: age, region=N, region=S" in fine("schema", "check", "s.toml", "t.parquet")
        found = json.loads(fine("schema", "check", "s.toml", "t.csv", "--header", "--json"))
        assert found["target"] == "spend"
        assert fine("schema", "check", "s.toml", *PLAIN)

    def test_does_not_fit(self, place: Path) -> None:
        Schema({"region": (0, 1)}).to_toml("wrong.toml")
        assert refused("schema", "check", "wrong.toml", "t.parquet").startswith("column 'region' must hold numbers")
        Schema({"height": (0, 1)}).to_toml("wrong.toml")
        message = refused("schema", "check", "wrong.toml", "t.csv", "--header")
        assert message.startswith("data must have a column 'height'")
        assert "region" not in message  # the first line of a CSV file may be a record after all


class TestCommands:
    @pytest.mark.parametrize("command", [("regress",), ("sketch", "--sketch-size", 40), ("describe",)])
    def test_a_forgotten_header_spends_nothing(self, place: Path, command: tuple[object, ...]) -> None:
        """Each line was a record whose cells were taken in another order, and the ledger paid for that."""
        ledger = ndis.Ledger.create("v.ledger", epsilon=40, delta=1e-2, kind="shifts")
        said = refused(*command, "t.csv", "--schema", "s.toml", *BUDGET, "--ledger", "v.ledger", "-o", "out.html")
        assert said.startswith("a CSV file must have --header, or --columns that names its columns; got neither")
        assert said.endswith("--columns 'age,region,spend'")
        assert ledger.history() == []

    @pytest.mark.parametrize("data", [("t.csv", "--header"), ("t.parquet",), PLAIN])
    def test_regress(self, place: Path, data: tuple[str, ...]) -> None:
        sketch = ("regress", *data, "--schema", "s.toml", *BUDGET, "--method", "sketch")
        found = json.loads(fine(*sketch, "--json", "-o", "fit.json"))
        coefficients = found["prediction"]["coefficients"]
        assert abs(coefficients["age"] - 20) < 3
        assert abs(coefficients["region=S"] - coefficients["region=N"] - 300) < 150
        assert found["target"] == "spend"
        assert json.loads((place / "fit.json").read_text()) == found
        again = refused("regress", *data, "--schema", "s.toml", *BUDGET, "-o", "fit.json")
        assert again.startswith("-o must be a new file; got 'fit.json', which exists")

    @pytest.mark.parametrize("data", [("t.csv", "--header"), ("t.parquet",), PLAIN])
    def test_regress_in_rounds_with_intervals(self, place: Path, data: tuple[str, ...]) -> None:
        rounds = ("regress", *data, "--schema", "s.toml", *BUDGET)  # the default
        found = json.loads(fine(*rounds, "--json"))
        inference = found["inference"]
        assert inference["level"] == 0.95
        assert inference["coefficients"].keys() == found["prediction"]["coefficients"].keys()
        assert found["baseline"] == {"region": "N"}
        Path("copy.toml").write_text(found["schema"])
        assert Schema.from_toml("copy.toml") == Schema.from_toml("s.toml")
        assert len(found["receipt"]["digest"]) == 64  # it binds the receipt to the coefficients
        for each in (*inference["coefficients"].values(), inference["intercept"]):
            assert each["interval_low"] < each["estimate"] < each["interval_high"]
            half = each["interval_high"] - each["estimate"]
            assert half == pytest.approx(1.959964 * each["standard_error"], rel=1e-5)
        age = inference["coefficients"]["age"]
        assert abs(age["estimate"] - 20) < age["interval_high"] - age["interval_low"] < 5
        assert found["target_range"] == [0, 5_000]
        assert "target_bound" not in found
        assert found["residual_std"] > 0
        assert "estimate: without shrinkage, for inference; shrunk: for predictions" in found["notes"]
        table = fine(*rounds)
        assert "95% interval" in table
        assert "region=S" in table
        assert refused(*rounds, "--alpha", 1).startswith("--alpha must be left out with --method rounds; got 1.0")

    @pytest.mark.parametrize(
        "data", [("t.csv", "--header"), ("t.parquet",), ("turned.csv", "--columns", "spend,age,region")]
    )
    def test_a_template_without_a_target(self, place: Path, data: tuple[str, ...]) -> None:
        """Every column of the template is filled in; --target says which of them is the target."""
        pd.read_csv("t.csv")[["spend", "age", "region"]].to_csv("turned.csv", index=False, header=False)
        Schema({"spend": (0, 5_000), "age": (18, 90), "region": ["N", "S"]}).to_toml("all.toml")
        words = ("regress", *data, "--schema", "all.toml", *BUDGET)
        said = refused(*words)
        assert said.startswith("--schema must have a target; got none; write [target] with name, low and high into")
        assert said.endswith("or name one of its columns with --target")
        found = json.loads(fine(*words, "--target", "spend", "--json"))
        assert found["target"] == "spend"
        assert abs(found["prediction"]["coefficients"]["age"] - 20) < 3
        said = refused(*words, "--target", "height")
        assert said.startswith("--target must be a column of the schema, one of 'spend'")
        fine("sketch", *data, "--schema", "all.toml", *BUDGET, "--sketch-size", 40, "--target", "spend", "-o", "out")
        release = ProjectionRelease.load("out")
        assert release.names == ("age", "region=N", "region=S", "spend")
        assert Schema.from_receipt(release.receipt).target_name == "spend"

    @pytest.mark.parametrize("data", [("t.csv", "--header"), ("t.parquet",), PLAIN])
    def test_sketch(self, place: Path, data: tuple[str, ...]) -> None:
        fine("sketch", *data, "--schema", "s.toml", *BUDGET, "--sketch-size", 40, "-o", "out")
        release = ProjectionRelease.load("out")
        assert release.names == ("age", "region=N", "region=S", "spend")
        assert release.mechanism.row_norm_bound == SCHEMA.row_norm_bound

    def test_calibrate(self, place: Path) -> None:
        public = ("calibrate", "projection", *BUDGET, "--sketch-size", 40, "--json")
        stated = ("--row-norm-bound", SCHEMA.row_norm_bound, "--target-bound", 1)
        found = json.loads(fine(*public, "--schema", "s.toml"))
        assert found["ridge"] == json.loads(fine(*public, *stated))["ridge"]

    def test_refused(self, place: Path) -> None:
        regress = ("regress", "t.csv", "--header", *BUDGET)
        for args, words in (
            ((*regress, "--schema", "none.toml"), "--schema must be a readable file; got 'none.toml'"),
            ((*regress, "--schema", "s.toml", "--target-bound", 3), "--target-bound must be left out with a schema"),
            ((*regress, "--schema", "s.toml", "--target", "age"), "--target must be left out, or 'spend'"),
            ((*regress, "--target", "spend"), "--row-norm-bound must be a positive number"),
            ((*regress, "--schema", "s.toml", "--columns", "a,b"), "--columns must be left out where header says"),
        ):
            assert refused(*args).startswith(words)
        sketch = ("sketch", "t.parquet", *BUDGET, "--sketch-size", 9, "-o", "o")
        assert refused(*sketch).startswith("--row-norm-bound must be a positive number; got none")
        assert refused(*sketch, "--schema", "s.toml", "--target", "age").startswith("--target must be left out")
        message = refused(*sketch, "--row-norm-bound", 1)
        assert message.startswith("column 'name' must hold real numbers")  # text is refused by name


def test_drawing_and_reading_show_their_own_bars(place: Path) -> None:
    """Fixed steps: the same bytes for any data."""
    sketch = ("sketch", "--schema", "s.toml", *BUDGET, "--sketch-size", 40, "--progress")
    first = run(*sketch, "t.parquet", "-o", "one")
    pd.read_parquet("t.parquet")[:1].to_parquet("short.parquet")
    second = run(*sketch, "short.parquet", "-o", "two")
    assert first.stderr == second.stderr
    assert first.stderr.count("\n") == 2
    for words in ("reading rows", "drawing rows"):
        assert first.stderr.count(words) == 20


def test_shown_commands(place: Path) -> None:
    """The commands of docs/tables.md run as shown."""
    page = ROOT / "docs" / "tables.md"
    shown = re.findall(r"^\$ ndis (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(shown) >= 4
    for kind in ("csv", "parquet"):
        (place / f"t.{kind}").rename(place / f"records.{kind}")
    (place / "s.toml").rename(place / "filled-in.toml")
    for line in shown:
        fine(*shlex.split(line))
