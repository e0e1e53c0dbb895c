"""`fit` takes rows in memory. A path is refused before anything is read: its first line would be taken for a record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ndis
from ndis import learn
from ndis.data import Files
from ndis.errors import ParameterError

SCHEMA = ndis.Schema({"age": (0, 1)}, target=("cost", 0, 1))
CLASSES = ndis.Schema({"age": (0, 1)}, target=("cost", ["no", "yes"]))
ESTIMATORS = [
    learn.PrivateRidge(schema=SCHEMA),
    learn.PrivateLinearRegression(schema=SCHEMA),
    learn.PrivateLogisticRegression(schema=CLASSES),
    learn.PrivateCovariance(schema=SCHEMA),
    learn.PrivatePCA(schema=SCHEMA),
    learn.PrivateGaussianProcess(schema=SCHEMA, max_records=10),
    learn.PrivateRidge(row_norm_bound=1.0, target_bound=1.0),
    learn.PrivateCovariance(row_norm_bound=1.0),
]


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_a_path_is_refused_with_a_remedy(model: Any, tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("age,cost\n0.5,0.5\n")
    for path in (str(file), file, Files([str(file)])):
        with pytest.raises(ParameterError, match="X must be in memory for fit; got a path; fit_data reads"):
            model.fit(path)
    if model.schema is None:
        with pytest.raises(ParameterError, match="X must be an array, a frame or a file; got a list"):
            model.fit([str(file)])


def test_labels_in_a_list_are_no_paths() -> None:
    model = learn.PrivateLogisticRegression(schema=CLASSES, rounds=2)
    assert model.fit({"age": [0.2, 0.8]}, ["no", "yes"]).classes_.tolist() == ["no", "yes"]
    plain = learn.PrivateLogisticRegression(row_norm_bound=1.0, classes=("no", "yes"), rounds=2)
    assert plain.fit(np.array([[0.2], [0.8]]), ["no", "yes"]).coef_.shape[-1] == 1
