"""Warnings and refusals of a fit: fixed words, at the line of the caller, with the remedy for a table."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ndis
from ndis.data.opening import BY_ORDER
from ndis.learn import PrivateCovariance, PrivateLinearRegression, PrivateLogisticRegression, PrivateRidge

SCHEMA = ndis.Schema({"age": (18, 90), "shoe": ["Falco", "Brisk"]}, target=("time", 0, 300))


def told(call: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return found


@pytest.mark.parametrize("text", ["", "age,shoe,time\n", "age,shoe,time\n30,Falco,250\n", "30,Falco,250\n"])
def test_a_csv_file_without_header(text: str, tmp_path: Path) -> None:
    """The same words whatever the file holds, at the line that called."""
    file = tmp_path / "runners.csv"
    file.write_text(text, encoding="utf-8")
    model = PrivateLinearRegression(schema=SCHEMA, rounds=2)
    found = told(lambda: model.fit_data(file))
    assert {(str(each.message), each.filename) for each in found} == {(BY_ORDER, __file__)}
    assert told(lambda: model.fit_data(file, columns=["age", "shoe", "time"])) == []
    if text.startswith("age"):
        assert told(lambda: model.fit_data(file, header=True)) == []


@pytest.mark.parametrize(
    "model",
    [
        PrivateLinearRegression(row_norm_bound=1.0, target_bound=1.0, rounds=2, random_state=0),
        PrivateRidge(row_norm_bound=1.0, target_bound=1.0, sketch_size=20, random_state=0),
        PrivateLogisticRegression(row_norm_bound=1.0, classes=(0, 1), rounds=2, random_state=0),
        PrivateCovariance(row_norm_bound=1.0, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_seed_warns_at_the_line_of_the_caller(model: Any) -> None:
    found = told(lambda: model.fit(np.eye(4)[:, :2], np.array([0, 1, 0, 1])))
    assert {(each.category, each.filename) for each in found} == {(ndis.NotPrivateWarning, __file__)}


@pytest.mark.parametrize("model", [PrivateLinearRegression(), PrivateRidge(), PrivateLogisticRegression()])
def test_without_a_bound_the_schema_is_named(model: Any) -> None:
    words = r"row_norm_bound must be a positive number; got None; .*; or state schema= \(--schema\), an ndis.Schema"
    with pytest.raises(ndis.ParameterError, match=words):
        model.fit({"age": [30], "shoe": ["Falco"], "time": [250]})
