"""A number may have a square and an indicator of missing cells next to it."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import ndis
from ndis.errors import NotPrivateWarning, ParameterError
from ndis.learn import PrivateLinearRegression
from ndis.schema import Number

AGE = Number(0, 100, degree=2, indicator=True)


def fit(frame: pd.DataFrame, columns: dict, epsilon: float = 50.0) -> PrivateLinearRegression:
    schema = ndis.Schema(columns, target=("cost", -50, 150))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        return PrivateLinearRegression(epsilon=epsilon, delta=1e-6, schema=schema, random_state=3).fit(frame)


def test_a_square_is_a_coefficient_in_units_of_the_number():
    rng = np.random.default_rng(0)
    age = rng.uniform(0, 100, 20_000)
    frame = pd.DataFrame({"age": age, "cost": 20 + 0.3 * age + 0.01 * (age - 50) ** 2 + rng.normal(size=20_000)})
    model = fit(frame, {"age": Number(0, 100, degree=2)})
    assert list(model.feature_names_in_) == ["age", "(age-50)^2"]
    table = model.summary()
    assert np.abs((table.estimate - [0.3, 0.01, 20.0]) / table.standard_error).max() < 5
    assert table.standard_error[1] < 0.0002
    np.testing.assert_allclose(model.predict(pd.DataFrame({"age": [0.0, 50.0]})), [45.0, 35.0], atol=0.5)


def test_an_indicator_leaves_the_slope_alone():
    """Cells are missing where costs are high. A fill alone bends the slope; the indicator takes the difference."""
    rng = np.random.default_rng(1)
    age = rng.uniform(0, 100, 20_000)
    frame = pd.DataFrame({"age": age, "cost": 20 + 0.5 * age + 30.0 * (age > 80) + rng.normal(size=20_000)})
    frame.loc[frame["age"] > 80, "age"] = np.nan
    with_one, without = (fit(frame, {"age": Number(0, 100, fill=20.0, indicator=each)}) for each in (True, False))
    assert list(with_one.feature_names_in_) == ["age", "age=missing"]
    np.testing.assert_allclose(with_one.coef_, [0.5, 95.0 - 30.0], rtol=0.05)
    assert abs(without.coef_[0] - 0.5) > 0.1


def test_schemas_with_terms_are_written_and_read():
    schema = ndis.Schema({"age": AGE, "ward": ["A", "B"]})
    assert schema.row_norm_bound == 2.0
    assert ndis.Schema.from_dict(schema.to_dict()) == schema
    assert repr(AGE) == "Number(low=0.0, high=100.0, fill=50.0, degree=2, indicator=True)"
    assert repr(Number(0, 1)) == "Number(low=0.0, high=1.0, fill=None)"
    rows = {"age": [0.0, 75.0, None], "ward": ["A", "B", "A"]}
    decoded = schema.decode(schema.encode(rows))
    assert decoded.tolist() == [[0, 2500, 0, 1, 0], [75, 625, 0, 0, 1], [50, 0, 1, 1, 0]]
    assert ndis.plan_regression(schema, records=50_000, epsilon=1.0, delta=1e-6).keys() == {
        "age", "(age-50)^2", "age=missing", "ward=B",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Number(0, 1, degree=3), "degree must be 1 or 2"),
        (lambda: Number(0, 1, indicator=1), "indicator must be true or false"),
        (lambda: ndis.Schema({"x": (0, 1)}, target=("y", AGE)), "target must have degree 1"),
    ],
)
def test_what_is_refused(make, words):
    with pytest.raises(ParameterError, match=words):
        make()
