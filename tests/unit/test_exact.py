"""Exact arrays: nothing is rounded, and no entry changes another."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndis._exact import ExactArray, exact_array, up


@pytest.mark.parametrize("other", [0.5, -1, 1])
def test_entries_of_a_list_do_not_change_each_other(other: float) -> None:
    for large in (2**53 + 1, 2**63 + 1):
        exact = exact_array([large, other])
        assert exact.numerators[0] == large * exact.denominator


@settings(deadline=None)
@given(st.lists(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(), st.fractions()), min_size=1))
def test_exact_arrays_round_nothing(values: list[object]) -> None:
    written = exact_array(np.array([*values, None], dtype=object)[:-1])
    for value, numerator in zip(values, written.numerators.tolist(), strict=True):
        assert Fraction(numerator, written.denominator) == Fraction(value)  # type: ignore[arg-type]
    floor = written.fixed_point(5)
    assert floor.tolist() == [math.floor(Fraction(v) * 32) for v in values]  # type: ignore[arg-type]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_float_arrays_are_exact_and_come_back(values: list[float]) -> None:
    written = exact_array(np.array(values, dtype=np.float64))
    assert written.to_float().tolist() == values
    assert written == exact_array(np.array([*map(Fraction, values), None], dtype=object)[:-1])
    assert written != ExactArray(written.numerators + 1, written.denominator) or not values


def test_round_up():
    third = Fraction(1, 3)
    assert Fraction(math.nextafter(up(third), 0)) < third <= Fraction(up(third))
    assert up(Fraction(5, 4)) == 1.25
