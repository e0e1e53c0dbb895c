"""Errors that are foretold from public numbers are those that a fit has."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import ndis
from ndis.errors import NotPrivateWarning, ParameterError
from ndis.learn import PrivateLinearRegression

SCHEMA = ndis.Schema({"age": (0, 60), "smoker": bool, "ward": ["A", "B", "C"]}, target=("cost", -50, 50))
PUBLIC = {"epsilon": 1.0, "delta": 1e-6}


def test_a_fit_has_the_errors_that_were_foretold():
    """Within a factor of 1.5: the clip of a fit follows noisy counts."""
    n, ratios = 8000, []
    expected = ndis.plan_regression(SCHEMA, records=n, **PUBLIC)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"age": rng.normal(30, 10, n), "smoker": rng.random(n) < 0.5})
        frame["ward"] = rng.choice(list("ABC"), n)
        frame["cost"] = 0.2 * frame["age"] - 3 * frame["smoker"] + 4 * rng.normal(size=n)
        with pytest.warns(NotPrivateWarning):
            model = PrivateLinearRegression(**PUBLIC, schema=SCHEMA, random_state=seed).fit(frame)
        errors = model.summary().standard_error[:-1] / 4
        ratios.append(errors / list(expected.values()))
    assert list(model.feature_names_in_) == list(expected)
    assert np.all(np.abs(np.log(np.median(ratios, axis=0))) < math.log(1.5))


def test_more_of_anything_means_less_error():
    def error(**changed):
        return ndis.plan_regression(SCHEMA, **{"records": 8000, **PUBLIC, **changed})["age"]

    assert error() > error(records=16_000) > 0
    assert error() > error(epsilon=2.0) > 1 / (10 * math.sqrt(8000))  # never below least squares
    assert error(adjacency="replace-one") > error()
    assert error(spreads={"age": 20.0}) == pytest.approx(error() / 2)
    assert error(records=200) == math.inf


def test_a_rare_value_has_the_error_that_was_foretold():
    """Within a factor of 1.5, where its spread is stated; it is about 1.8 times that of least squares."""
    n, share, ratios = 20_000, 0.01, []
    schema = ndis.Schema({"age": (18, 95), "yes": bool}, target=("y", -100, 200))
    expected = ndis.plan_regression(schema, records=n, **PUBLIC, spreads={"age": 22.2, "yes": math.sqrt(share)})
    assert expected["yes"] > 1.5 / math.sqrt(n * share)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"age": rng.uniform(18, 95, n).round(), "yes": rng.random(n) < share})
        frame["y"] = 40 + 0.1 * frame["age"] + 10 * frame["yes"] + 5 * rng.normal(size=n)
        with pytest.warns(NotPrivateWarning):
            model = PrivateLinearRegression(**PUBLIC, schema=schema, random_state=seed).fit(frame)
        ratios.append(model.summary().standard_error[:-1] / 5 / list(expected.values()))
    assert np.all(np.abs(np.log(np.median(ratios, axis=0))) < math.log(1.5))
    few = ndis.plan_regression(schema, records=n, **PUBLIC, spreads={"yes": math.sqrt(0.001)})
    assert few["yes"] == math.inf > few["age"]


@pytest.mark.parametrize("spreads", [{"age": 0.0}, {"ward=A": 1.0}, {"age": math.nan}])
def test_spreads_are_positive_and_name_coefficients(spreads):
    with pytest.raises(ParameterError, match="spreads"):
        ndis.plan_regression(SCHEMA, records=8000, **PUBLIC, spreads=spreads)
