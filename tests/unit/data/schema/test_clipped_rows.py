"""The noisy count of clipped rows is that of the bound in use."""

from __future__ import annotations

import numpy as np
import pytest

import ndis
from ndis.data.schema.changed import changed_rows
from ndis.errors import ParameterError

SCHEMA = ndis.Schema({"age": (0, 2), "region": ["N", "S"]}, target=("spend", 0, 2))
ROWS = {"age": [1.0, 1.5, 2.0] * 2000, "region": ["N", "N", "S"] * 2000, "spend": [1.0] * 6000}


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
