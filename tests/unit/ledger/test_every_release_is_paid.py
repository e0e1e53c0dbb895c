"""A ledger pays for every release, with a schema or without one, from memory or from files; the second is refused."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ndis
from helpers.command import run
from ndis import learn

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

BUDGET = {"epsilon": 1.0, "delta": 1e-5}
SCHEMA = ndis.Schema({"age": (0, 1), "height": (0, 1)}, target=("spend", 0, 1))
CLASSES = ndis.Schema({"age": (0, 1), "height": (0, 1)}, target=("spend", [0, 1]))
BOUNDS = {"row_norm_bound": 1.5, "target_bound": 1.0}
SIZE = {"sketch_size": 20}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same records as a frame, a CSV file, a Parquet file and a folder, and schemas of them."""
    place = tmp_path_factory.mktemp("files")
    frame().to_csv(place / "rows.csv", index=False)
    frame().to_parquet(place / "rows.parquet")
    (place / "folder").mkdir()
    frame().to_parquet(place / "folder" / "part.parquet")
    SCHEMA.to_toml(place / "schema.toml")
    return place


def frame() -> Any:
    rows = np.random.default_rng(0).uniform(size=(60, 3))
    rows[:, 2] = rows[:, 2] > 0.5
    return pd.DataFrame(rows, columns=["age", "height", "spend"])


def ledger_for(place: Path, mechanism: Any) -> ndis.Ledger:
    """A ledger with one slot for one release."""
    return ndis.Ledger.create(place / "one.ledger", epsilon=9.0, delta=1e-3, plan={"one": (mechanism, 1)}, data_name="")


ESTIMATORS = {
    "ridge": (learn.PrivateRidge, SCHEMA, SIZE, {"target_bound": 1.0, **SIZE}),
    "rounds": (learn.PrivateLinearRegression, SCHEMA, {"rounds": 2}, {"target_bound": 1.0, "rounds": 2}),
    "gram": (learn.PrivateLinearRegression, SCHEMA, {"method": "gram"}, {"target_bound": 1.0, "method": "gram"}),
    "logistic": (learn.PrivateLogisticRegression, CLASSES, {"rounds": 2}, {"classes": (0, 1), "rounds": 2}),
    "covariance": (learn.PrivateCovariance, SCHEMA, {}, {}),
    "sketched covariance": (learn.PrivateCovariance, SCHEMA, *[{"method": "sketch", **SIZE}] * 2),
    "pca": (learn.PrivatePCA, SCHEMA, {"n_components": 1}, {"n_components": 1}),
}


@pytest.mark.parametrize("by_file", [False, True])
@pytest.mark.parametrize("with_schema", [False, True])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators(name: str, with_schema: bool, by_file: bool, files: Path, tmp_path: Path) -> None:
    kind, schema, own, plain = ESTIMATORS[name]
    public = {**own, "schema": schema} if with_schema else {**plain, "row_norm_bound": 1.5}
    targets = name not in ("covariance", "sketched covariance", "pca")

    def fit(model: Any) -> Any:
        if by_file:
            where = {"target": "spend"} if targets and not with_schema else {}
            columns = {} if with_schema else {"columns": ["age", "height"]}
            return model.fit_data(files / "rows.parquet", **where, **columns)
        rows = frame() if with_schema else frame()[["age", "height"]]
        return model.fit(rows, frame()["spend"]) if targets else model.fit(rows)

    mechanism = fit(kind(**BUDGET, **public)).mechanism_
    ledger = ledger_for(tmp_path, mechanism)
    paid = fit(kind(**BUDGET, **public, ledger=ledger.path, slot="one"))
    assert paid.receipt_.ledger["entry"] == 1
    assert ledger.remaining() == {"one": 0}
    with pytest.raises(ndis.BudgetError):
        fit(kind(**BUDGET, **public, ledger=ledger.path, slot="one"))
    with pytest.raises(ndis.ParameterError, match="ledger must be an existing ledger file"):
        fit(kind(**BUDGET, **public, ledger=tmp_path / "none.ledger", slot="one"))


MECHANISMS = {
    "sketch": ndis.RandomProjection.calibrated(**BUDGET, **BOUNDS, **SIZE),
    "sampled": ndis.PoissonProjection.calibrated(**BUDGET, **BOUNDS, **SIZE, rate=0.5),
    "tested": ndis.PTRProjection.calibrated(**BUDGET, **BOUNDS, **SIZE),
    "gram": ndis.GramMechanism.calibrated(**BUDGET, **BOUNDS),
}


@pytest.mark.parametrize("source", ["frame", "rows.csv", "rows.parquet", "folder"])
@pytest.mark.parametrize("with_schema", [False, True])
@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms(name: str, with_schema: bool, source: str, files: Path, tmp_path: Path) -> None:
    mechanism: Any = MECHANISMS[name]
    data = frame() if source == "frame" else files / source
    where = {"schema": SCHEMA} if with_schema else {"targets": ["spend"]}
    how = where | ({"header": True} if source == "rows.csv" else {})
    ledger = ledger_for(tmp_path, mechanism)
    paid = ledger.release("one", mechanism, data, **how)
    assert paid.receipt.ledger["entry"] == 1
    with pytest.raises(ndis.BudgetError):
        ledger.release("one", mechanism, data, **how)
    with pytest.raises(ndis.BudgetError), ledger.charge("one", mechanism):
        pytest.fail("the block of a refused charge must not run")
    with pytest.warns(DeprecationWarning, match="charge"), pytest.raises(ndis.BudgetError):
        mechanism.release(data, **how, ledger=ledger.path, slot="one")
    with pytest.warns(DeprecationWarning, match="charge"), pytest.raises(ndis.ParameterError, match="existing"):
        mechanism.release(data, **how, ledger=tmp_path / "none.ledger", slot="one")


COMMANDS = {
    "sketch": ("sketch", "--sketch-size", 20),
    "sampled": ("sketch", "--sketch-size", 20, "--rate", 0.5),
    "tested": ("sketch", "--sketch-size", 20, "--ptr"),
    "rounds": ("regress",),
    "ridge": ("regress", "--method", "sketch", "--sketch-size", 20),
}


@pytest.mark.parametrize("source", ["rows.csv", "rows.parquet", "folder"])
@pytest.mark.parametrize("with_schema", [False, True])
@pytest.mark.parametrize("name", COMMANDS)
def test_commands(
    name: str, with_schema: bool, source: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command, *options = COMMANDS[name]
    words: list[Any] = [command, files / source, "--epsilon", 1, "--delta", 1e-5, *options]
    words += ["--header"] if source == "rows.csv" else []
    words += ["--schema", files / "schema.toml"] if with_schema else ["--row-norm-bound", 1.5, "--target-bound", 1]
    words += [] if with_schema else ["--target", "spend"]

    ending = "" if command == "sketch" else ".json"

    def ended(ledger: str, output: str) -> int:
        return int(run(*words, "-o", output + ending, "--ledger", ledger, "--slot", "one").exit_code)

    assert ended("none.ledger", "zero") == 2
    assert not Path("zero" + ending).exists()
    if source != "rows.csv":
        return
    public: dict[str, Any] = {"schema": SCHEMA} if with_schema else BOUNDS
    if command == "sketch":
        assert run(*words, "-o", "free").exit_code == 0
        mechanism: Any = ndis.mechanisms.releases.ProjectionRelease.load("free").mechanism
    else:
        kind = learn.PrivateLinearRegression if name == "rounds" else partial(learn.PrivateRidge, **SIZE)
        rows = (frame(),) if with_schema else (frame()[["age", "height"]], frame()["spend"])
        mechanism = kind(**BUDGET, **public).fit(*rows).mechanism_
    ledger = ledger_for(tmp_path, mechanism)
    assert [ended(ledger.path, output) for output in ("first", "second")] == [0, 2]
    assert ledger.remaining() == {"one": 0}
    assert not Path("second" + ending).exists()
