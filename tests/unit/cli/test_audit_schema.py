"""`--schema` in `ndis audit`, `ndis schema check` and `ndis sketch --ledger`; `--target-bound` in `ndis audit`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ndis
from helpers import command
from ndis.auditing import AddAdversarial, DataSet, Domain
from ndis.errors import ParameterError
from ndis.schema import Schema

SCHEMA = Schema({"age": (18, 90), "region": ["N", "S"]}, target=("spend", 0, 100))
FRAME = pd.DataFrame({"age": [18, 54, None, 90], "region": ["N", "S", "N", "W"], "spend": [0, 50, 75, 100]})
FEATURES = [[-1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
TARGETS = [-1.0, 0.0, 0.0, 1.0]
MODEL = """
import json
import numpy as np

def sums(data):
    x, y = data
    return np.append(x.sum(axis=0), y.sum()), np.full(4, 0.5)

def seen(data):
    with open("seen.jsonl", "a") as file:
        print(json.dumps([part.tolist() for part in data]), file=file)
    return sums(data)
"""
CLAIM = ("--epsilon", 1, "--delta", 1e-6)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("rows.csv", index=False)
    FRAME.to_parquet("rows.parquet")
    SCHEMA.to_toml("schema.toml")
    Path("mymodel.py").write_text(MODEL)
    return tmp_path


def run(*args: object, status: int = 0) -> Any:
    result = command.run(*args)
    assert result.exit_code == status, result.output + result.stderr
    return result.stdout if status != 2 else result.stderr


def test_audit_reads_a_table_with_text_and_missing_cells(place: Path) -> None:
    options = ("--algorithm", "mymodel.py:seen", "--seconds", 0, *CLAIM)
    for file in (("rows.csv", "--header"), ("rows.parquet",)):
        Path("seen.jsonl").unlink(missing_ok=True)
        said = run("audit", "--data", *file, "--schema", "schema.toml", *options, status=1)
        assert "verdict: refuted" in said
        first = json.loads(Path("seen.jsonl").read_text().splitlines()[0])
        assert first == [FEATURES, TARGETS]
    said = run("audit", "--data", "rows.parquet", *options, status=2)
    assert "column 'region' must hold real numbers" in said


def test_the_command_on_the_page_names_the_schema(place: Path) -> None:
    more = ("--row-norm-bound", 1.4, "--target-bound", 0.5)
    options = ("--schema", "schema.toml", "--algorithm", "mymodel.py:sums", *more, "--seconds", 0)  # no clock decides
    run("audit", "--data", "rows.csv", "--header", *options, *CLAIM, "-o", "audit.html", "-o", "audit.json", status=1)
    words = json.loads(Path("audit.json").read_text())["command"]
    assert "--schema schema.toml" in words
    assert "--target-bound 0.5" in words
    before = Path("audit.html").read_text()
    run(*shlex.split(words)[1:], status=1)
    assert Path("audit.html").read_text() == before


def test_a_claim_file_may_name_its_schema(place: Path) -> None:
    words = 'claim = {epsilon = 1.0, delta = 1e-6}\nalgorithm = "mymodel.py:seen"\ndata = "rows.csv"\nheader = true\n'
    Path("claim.toml").write_text(words + 'schema = "schema.toml"\ncandidates = "rows.csv"\n')
    assert "refuted" in run("audit", "claim.toml", "--seconds", 0, status=1)
    assert json.loads(Path("seen.jsonl").read_text().splitlines()[0]) == [FEATURES, TARGETS]
    Path("claim.toml").write_text(words)
    assert "refuted" in run("audit", "claim.toml", "--schema", "schema.toml", "--seconds", 0, status=1)


def test_the_worst_row_has_a_target_within_the_schema(place: Path) -> None:
    options = ("--schema", "schema.toml", "--algorithm", "mymodel.py:sums", "--row-norm-bound", 1.4, *CLAIM)
    options += ("--seconds", 0)
    run("audit", "--data", "rows.csv", "--header", *options, "-o", "audit.json", status=1)
    said = AddAdversarial(Domain(row_norm_bound=1.4, target_bound=1.0)).describe()
    assert said in Path("audit.json").read_text()
    run("audit", "--data", "rows.csv", "--header", *options, "--target-bound", 0.5, "-o", "audit.json", status=1)
    assert said not in Path("audit.json").read_text()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--data", "rows.csv", "--header", "--columns", "age"), "--columns must be left out"),
        (("--data", "rows.csv", "--header", "--targets", "age"), "--targets must be left out, or 'spend'"),
        (("pairs.json",), "--schema must come with data"),
        (("--data", "other.csv", "--header"), "data must have a column 'age', which the schema names"),
    ],
)
def test_what_does_not_go_with_a_schema(place: Path, more: tuple[str, ...], message: str) -> None:
    Path("pairs.json").write_text('{"pairs": [{"variance_ratio": 2.0}]}')
    Path("other.csv").write_text("a,region,spend\n1,N,2\n")
    said = run("audit", *more, "--schema", "schema.toml", "--algorithm", "mymodel.py:sums", *CLAIM, status=2)
    assert message in said


def test_a_target_bound_comes_with_a_row_norm_bound(place: Path) -> None:
    FRAME[["age", "spend"]].fillna(0).to_csv("numbers.csv", index=False)
    options = ("--targets", "spend", "--algorithm", "mymodel.py:sums", "--target-bound", 1)
    said = run("audit", "--data", "numbers.csv", "--header", *options, *CLAIM, status=2)
    assert "row_norm_bound, or low and high, must be stated" in said


def test_the_library_takes_a_schema_as_well() -> None:
    seen: list[Any] = []

    def algorithm(data: Any) -> Any:
        seen.append(data)
        return data[0].sum(axis=0), np.full(3, 0.5)

    claim = ndis.Claim(epsilon=1.0, delta=1e-6)
    assert ndis.audit(claim, algorithm=algorithm, data=DataSet(FRAME, schema=SCHEMA)).refuted
    assert [part.tolist() for part in seen[0]] == [FEATURES, TARGETS]
    assert DataSet(SCHEMA.table(FRAME, target=False)).rows().tolist() == FEATURES
    with pytest.raises(ParameterError, match="data and workers must be left out with pairs"):
        ndis.audit(claim, pairs=[ndis.GaussianPair.from_ratios(2.0)], data=DataSet(FRAME, schema=SCHEMA))
    mechanism = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=20, **SCHEMA.bounds())
    assert ndis.audit(claim, mechanism=mechanism, data=DataSet(FRAME, schema=SCHEMA)).proved
    gram = ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, row_norm_bound=1.0)
    with pytest.raises(ParameterError, match="data must be left out for this mechanism"):
        ndis.audit(claim, mechanism=gram, data=DataSet(FRAME, schema=SCHEMA))
    model = ndis.models.BohningLogistic(l2_penalty=100.0, row_norm_bound=1.0)
    with pytest.raises(ParameterError, match="schema must be left out for a lifted mechanism"):
        ndis.audit(claim, mechanism=ndis.lift(model, epsilon=1.0, delta=1e-6), data=DataSet(FRAME, schema=SCHEMA))


def test_schema_check_takes_the_schema_as_an_option_too(place: Path) -> None:
    plain = run("schema", "check", "schema.toml", "rows.parquet")
    assert run("schema", "check", "rows.parquet", "--schema", "schema.toml") == plain
    assert run("schema", "check", "--schema", "schema.toml") == plain
    said = run("schema", "check", "schema.toml", "rows.parquet", "--schema", "schema.toml", status=2)
    assert "--schema must be left out if SCHEMA comes before DATA" in said
    assert "SCHEMA must be given" in run("schema", "check", "--json", status=2)
    FRAME.astype({"age": str}).to_parquet("text.parquet")
    said = run("schema", "check", "text.parquet", "--schema", "schema.toml", status=2)
    assert "column 'age' must hold numbers or booleans" in said


def test_a_sketch_with_a_schema_is_paid_by_the_ledger(place: Path) -> None:
    run("ledger", "create", "b.ledger", "--epsilon", 2, "--delta", "1e-6", "--data-name", "rows", "--kind", "renyi")
    pay = ("--schema", "schema.toml", "--epsilon", 1.5, "--delta", 1e-7, "--sketch-size", 20, "--ledger", "b.ledger")
    run("sketch", "rows.csv", "--header", *pay, "-o", "first")
    assert json.loads(Path("first/receipt.json").read_text())["epsilon"] == 1.5
    said = run("sketch", "rows.csv", "--header", *pay, "-o", "second", status=2)
    assert "the request needs more than is left" in said
    assert not Path("second").exists()
