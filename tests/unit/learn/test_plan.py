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


@pytest.mark.parametrize("spreads", [{"age": 0.0}, {"ward=A": 1.0}, {"age": math.nan}])
def test_spreads_are_positive_and_name_coefficients(spreads):
    with pytest.raises(ParameterError, match="spreads"):
        ndis.plan_regression(SCHEMA, records=8000, **PUBLIC, spreads=spreads)
