"""Receipts of fits in rounds have a digest, and nothing is read that the budget does not cover."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import ndis
from ndis import Schema
from ndis.data import table
from ndis.errors import BudgetError, ParameterError
from ndis.learn import (
    PrivateCovariance,
    PrivateGaussianProcess,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    _logistic_regression,
)
from ndis.mechanisms.mechanism import Receipt

X = np.random.default_rng(0).normal(size=(50, 2))


@pytest.mark.parametrize("several", [False, True])
def test_a_receipt_of_rounds_has_a_digest_of_itself_and_the_coefficients(several: bool) -> None:
    if several:
        model: Any = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, row_norm_bound=2.0, classes=[0, 1], rounds=2)
        model.fit(X, (X[:, 0] > 0).astype(int))
    else:
        model = PrivateLinearRegression(epsilon=1.0, delta=1e-6, row_norm_bound=2.0, target_bound=1.0, rounds=2)
        model.fit(X, X[:, 0])
    saved = Receipt.from_saved(model.receipt_.to_json())
    assert len(saved.digest) == 64
    assert saved.bound_to(coefficients=model.coef_, intercept=model.intercept_) == saved
    with pytest.raises(ParameterError, match="a digest of others"):
        saved.bound_to(coefficients=model.coef_ + 1e-9, intercept=model.intercept_)


def test_a_fit_with_a_schema_reads_nothing_that_the_budget_does_not_cover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table was encoded before the ledger was asked."""
    schema = Schema({"a": (0, 1), "b": (0, 1)})
    shift = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    path = tmp_path / "small.ledger"
    ndis.Ledger.create(path, epsilon=1.1, delta=1e-6, plan={"other": (shift, 1)}, data_name="visits")
    ndis.Ledger(path).release("other", shift, 3.0)
    monkeypatch.setattr(Schema, "encode_cells", lambda *_: pytest.fail("read"))
    model = PrivateCovariance(epsilon=1.0, delta=1e-6, schema=schema, ledger=path, slot="other")
    with pytest.raises(BudgetError):
        model.fit({"a": [0.5, 0.2], "b": [0.1, 0.3]})


@pytest.mark.parametrize("covered", [False, True])
@pytest.mark.parametrize("kind", ["numbers", "labels", "process"])
def test_targets_are_read_after_the_ledger_has_reserved(
    kind: str, covered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read = tmp_path / "small.ledger", []
    how: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "ledger": path, "slot": "fit"}
    if kind == "numbers":
        model: Any = PrivateLinearRegression(row_norm_bound=2.0, target_bound=1.0, **how)
    elif kind == "labels":
        model = PrivateLogisticRegression(row_norm_bound=2.0, classes=["no", "yes"], rounds=2, **how)
    else:
        model = PrivateGaussianProcess(label_bound=1.0, max_records=50, **how)
    targets = ["yes" if x > 0 else "no" for x in X[:, 0]] if kind == "labels" else X[:, 0].tolist()
    free = clone(model).set_params(ledger=None, slot=None).fit(X, targets)
    ledger = ndis.Ledger.create(path, epsilon=1.1, delta=1e-5, plan={"fit": (free.mechanism_, 1)}, data_name="visits")
    if not covered:
        clone(model).fit(X, targets)

    def spied(known: Any) -> Any:
        return lambda *cells: read.append(ledger.remaining()["fit"]) or known(*cells)

    monkeypatch.setattr(_logistic_regression, "label_codes", spied(_logistic_regression.label_codes))
    monkeypatch.setattr(table, "numbers", spied(table.numbers))
    with pytest.raises(ParameterError, match="columns of equal length"):
        model.fit(X, targets[1:])
    if covered:
        model.fit(X, targets)
        assert set(read) == {0}  # it was reserved
    else:
        with pytest.raises(BudgetError):
            model.fit(X, targets)
        assert read == []
