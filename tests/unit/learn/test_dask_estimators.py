"""Dask collections: estimators take them through `fit_data`; what does not take one says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import ndis
from ndis.errors import ParameterError
from ndis.learn import (
    PrivateCovariance,
    PrivateGaussianProcess,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateRidge,
)

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
da = pytest.importorskip("dask.array")

SCHEMA = ndis.Schema({"age": (18, 90), "region": [1, 2]}, target=("spend", 0, 100))
CLASSES = ndis.Schema({"age": (18, 90), "region": [1, 2]}, target=("bought", bool))
SEED = {"random_state": 5}


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    ages = rng.uniform(10, 100, 300)
    return pd.DataFrame(
        {
            "age": ages,
            "region": rng.choice([1, 2, 3], 300),
            "spend": ages + rng.normal(size=300),
            "bought": rng.choice([False, True], 300),
            "note": rng.choice(["a", "b"], 300),  # nobody wants it
        }
    )


@pytest.fixture(autouse=True)
def in_this_process() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.filterwarnings("ignore:.*random_state")
@pytest.mark.parametrize(
    "model",
    [
        PrivateRidge(schema=SCHEMA, sketch_size=20, **SEED),
        PrivateGaussianProcess(schema=SCHEMA, max_records=20, noise_variance=25.0, **SEED),
        PrivateLogisticRegression(schema=CLASSES, method="posterior", max_records=50, l2_penalty=200.0, **SEED),
        PrivateLogisticRegression(schema=CLASSES, rounds=2, **SEED),
        PrivateLinearRegression(schema=SCHEMA, rounds=2, **SEED),
    ],
    ids=lambda model: f"{type(model).__name__} {getattr(model, 'method', '')}",
)
def test_fit_data_learns_the_same_from_a_collection_as_from_the_frame(model: Any, frame: pd.DataFrame) -> None:
    names = ("coef_", "intercept_", "values_")
    found = []
    for data in (frame, dd.from_pandas(frame, npartitions=4)):
        model.fit_data(data)
        found.append([np.asarray(getattr(model, name)).tolist() for name in names if hasattr(model, name)])
    assert found[0]
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore:.*random_state")
def test_a_ridge_regression_takes_a_dask_array(frame: pd.DataFrame) -> None:
    rows = frame[["age", "spend"]].to_numpy() / 100
    model = PrivateRidge(row_norm_bound=1.0, target_bound=1.0, sketch_size=20, **SEED)
    whole = model.fit_data(rows, target=1).coef_.tolist()
    assert model.fit_data(da.from_array(rows, chunks=(70, 2)), target=1).coef_.tolist() == whole


@pytest.mark.filterwarnings("ignore:.*random_state")
def test_the_count_of_clipped_rows_is_the_same(frame: pd.DataFrame) -> None:
    budget = {"epsilon": 1.0, "delta": 1e-6, **SEED}
    whole = ndis.mechanisms.rows.clipped_count(frame, SCHEMA, **budget).values
    parts = ndis.mechanisms.rows.clipped_count(dd.from_pandas(frame, npartitions=4), SCHEMA, **budget).values
    assert whole.tolist() == parts.tolist()


@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_fit_says_who_takes_a_collection(schema: ndis.Schema | None, frame: pd.DataFrame) -> None:
    parts = dd.from_pandas(frame, npartitions=2)
    stated = {"schema": schema} if schema else {"row_norm_bound": 1.0}
    target = {} if schema else {"target_bound": 1.0}
    for model in (
        PrivateRidge(**stated, **target),
        PrivateLinearRegression(**stated, **target),
        PrivateCovariance(**stated),
        PrivateGaussianProcess(schema=schema, label_bound=None if schema else 1.0, max_records=10),
        PrivateLogisticRegression(**(stated if schema is None else {"schema": CLASSES})),
    ):
        with pytest.raises(ParameterError, match="X must be in memory for fit; got a dask collection; fit_data takes"):
            model.fit(parts, frame.spend)
        if not isinstance(model, PrivateCovariance):
            rows = frame[["age", "region"]] if schema else frame[["age"]]
            with pytest.raises(ParameterError, match="y must be in memory for fit; got a dask collection"):
                model.fit(rows, parts.spend)


def test_a_schema_reads_a_collection_as_it_reads_a_frame(frame: pd.DataFrame) -> None:
    parts = dd.from_pandas(frame, npartitions=2)
    assert SCHEMA.encode(parts).tobytes() == SCHEMA.encode(frame).tobytes()
    assert repr(SCHEMA.preview(parts, public=True)) == repr(SCHEMA.preview(frame, public=True))
    with pytest.raises(ParameterError, match="columns and header must be left out"):
        SCHEMA.table(parts, header=True)
    text = dd.from_pandas(pd.DataFrame({"age": ["x"], "region": [1], "spend": [1.0]}), npartitions=1)
    with pytest.raises(ParameterError, match=r"column 'age' must hold numbers.*give the paths of its files"):
        ndis.mechanisms.rows.clipped_count(text, SCHEMA, epsilon=1.0, delta=1e-6)
