"""How large a sketch should be: the table, and questions that are refused."""

from __future__ import annotations

import math

import pytest

import ndis
from ndis.errors import ParameterError


def test_sketch_sizes():
    public = {"epsilon": 1.0, "delta": 1e-6, "row_norm_bound": 2.0, "columns": 4}
    table = ndis.RandomProjection.sizes(**public, gram_norm_bound=1e3)
    errors = [row.error_bound for row in table.rows]
    ridges = [row.ridge for row in table.rows]
    assert errors == sorted(errors, reverse=True)
    assert ridges == sorted(ridges)
    assert table.recommended in {row.sketch_size for row in table.rows}
    assert "recommended" in repr(table)
    row = next(row for row in table.rows if row.sketch_size == table.recommended)
    assert row.error_bound <= 1.1 * min(errors)
    aimed = ndis.RandomProjection.sizes(**public, gram_norm_bound=1e3, target_error=errors[3])
    assert aimed.recommended == table.rows[3].sketch_size


@pytest.mark.parametrize(
    "bad",
    [
        {"columns": 0},
        {"sketch_sizes": []},
        {"sketch_sizes": [10.5]},
        {"gram_norm_bound": -1.0},
        {"gram_norm_bound": math.nan},
        {"confidence": 1.0},
        {"target_error": 1e-9},
        {"target_error": math.nan},
    ],
)
def test_bad_questions_about_the_size(bad):
    public = {"epsilon": 1.0, "delta": 1e-6, "row_norm_bound": 2.0, "columns": 4, "sketch_sizes": [64]}
    with pytest.raises(ParameterError):
        ndis.RandomProjection.sizes(**{**public, **bad})
