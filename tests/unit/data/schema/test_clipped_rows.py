"""The noisy count of clipped rows is that of the bound in use, and of the last fit."""

from __future__ import annotations

import numpy as np
import pytest

import ndis
from ndis.data.schema.changed import changed_rows
from ndis.errors import ParameterError
from ndis.learn import PrivateLinearRegression

SCHEMA = ndis.Schema({"age": (0, 2), "region": ["N", "S"]}, target=("spend", 0, 2))
ROWS = {"age": [1.0, 1.5, 2.0] * 2000, "region": ["N", "N", "S"] * 2000, "spend": [1.0] * 6000}


def test_the_bound_that_the_estimator_states_counts() -> None:
    # The encoded ages are 0, 0.5 and 1. Without its first value the region has norm 0 for N and 1 for S.
    model = PrivateLinearRegression(schema=SCHEMA, epsilon=5.0, rounds=2, count_clipped=True)
    assert abs(model.fit(ROWS).clipped_rows_) < 100
    for bound, share in ((1.3, 1 / 3), (0.4, 2 / 3)):
        model.set_params(row_norm_bound=bound).fit(ROWS)
        assert abs(model.clipped_rows_ - share * 6000) < 100


def test_clipped_count_takes_a_stated_bound() -> None:
    budget = {"epsilon": 5.0, "delta": 1e-6}
    assert abs(ndis.mechanisms.rows.clipped_count(ROWS, SCHEMA, **budget).values[0]) < 100
    assert abs(ndis.mechanisms.rows.clipped_count(ROWS, SCHEMA, row_norm_bound=1.05, **budget).values[0] - 4000) < 100
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ParameterError, match="row_norm_bound must"):
            ndis.mechanisms.rows.clipped_count(ROWS, SCHEMA, row_norm_bound=bad, **budget)


def test_the_corner_of_the_box_is_not_clipped() -> None:
    corner = {"age": [0.0, 2.0], "region": ["N", "S"], "spend": [0.0, 2.0]}
    assert changed_rows(SCHEMA, corner) == 0
    assert changed_rows(SCHEMA, corner, row_norm_bound=2**0.5) == 0


def test_a_count_of_an_earlier_fit_does_not_stay() -> None:
    model = PrivateLinearRegression(schema=SCHEMA, rounds=2, count_clipped=True).fit(ROWS)
    assert "rows clipped" in repr(model.summary())
    model.set_params(count_clipped=False).fit(ROWS)
    assert not hasattr(model, "clipped_rows_")
    assert "rows clipped" not in repr(model.set_params(count_clipped=True).summary())
