"""Intervals of predicted probabilities, from the same estimate as those of the coefficients."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import norm

import ndis
from ndis.errors import ParameterError
from ndis.learn import PrivateLogisticRegression

BETA, CONSTANT = np.array([2.0, -1.0]), 0.5


def records(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 2))
    return x, (rng.uniform(size=n) < expit(x @ BETA + CONSTANT)).astype(int)


def fitted(epsilon: float = 50.0, seed: int = 0, n: int = 20_000) -> PrivateLogisticRegression:
    model = PrivateLogisticRegression(epsilon=epsilon, row_norm_bound=1.5, classes=(0, 1), intervals=True)
    return model.fit(*records(n, seed))


def test_an_interval_is_that_of_the_log_odds_in_probabilities() -> None:
    model, rows = fitted(), np.array([[0.3, -0.2], [1.0, 1.0]])
    found = model.predict_interval(rows, 0.9)
    x = np.hstack([rows, np.ones((2, 1))])
    centre = x @ model.estimate_.theta[:, 0]
    half = norm.isf(0.05) * np.sqrt(np.diagonal(x @ model.estimate_.covariance[0] @ x.T))
    np.testing.assert_allclose(found, expit(np.stack([centre - half, centre + half], axis=1)), rtol=1e-12)
    assert (found[:, 0] > 0).all()
    assert (found[:, 1] < 1).all()


def test_the_true_probability_is_inside_about_as_often_as_the_level_says() -> None:
    row = np.array([[0.4, 0.1]])
    truth = expit(row @ BETA + CONSTANT)[0]
    inside = 0
    for seed in range(25):
        low, high = fitted(epsilon=5.0, seed=seed, n=5_000).predict_interval(row, 0.8)[0]
        inside += low <= truth <= high
    assert 13 <= inside <= 25  # 20 are expected; fewer than 13 of 25 have probability 4·10⁻⁴


def test_hidden_directions_missing_cells_and_several_classes() -> None:
    rows = np.array([[0.3, -0.2], [np.nan, 1.0]])
    noisy = PrivateLogisticRegression(epsilon=0.01, row_norm_bound=1.5, classes=(0, 1), intervals=True)
    found = noisy.fit(*records(20)).predict_interval(rows)
    assert found[0].tolist() == [0.0, 1.0]
    assert np.isnan(found[1]).all()
    plain = PrivateLogisticRegression(row_norm_bound=1.5, classes=(0, 1), intervals=False).fit(*records(20))
    with pytest.raises(ParameterError, match="intervals must be released in the fit"):
        plain.predict_interval(rows)


def test_with_a_schema_rows_come_as_they_are() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(20, 80, 20_000), "region": rng.choice(["N", "S"], 20_000)})
    table["bought"] = np.where(rng.uniform(size=20_000) < expit((table.age - 50) / 10), "yes", "no")
    schema = ndis.Schema({"age": (20, 80), "region": ["N", "S"]}, target=("bought", ["no", "yes"]))
    model = PrivateLogisticRegression(epsilon=20.0, schema=schema, intervals=True).fit(table)
    low, high = model.predict_interval({"age": [50, 80], "region": ["N", "S"]}).T
    truth = expit(np.array([0.0, 3.0]))
    assert (low < truth + 0.03).all()
    assert (high > truth - 0.03).all()
    assert (high - low < 0.2).all()
