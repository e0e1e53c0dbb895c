"""Rows onto the grid: the integer row, its norm, and the same bits from NumPy and from compiled code."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from ndis.errors import ParameterError
from ndis.gram import GramAccumulator, RowLayout, exact_gram
from ndis.gram.host import integer_tiles
from ndis.gram.rows import ColumnGroup, GroupRule, quantise_group, quantise_group_into

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True, width=64)
NEAR_ONE = st.floats(-1.0, 1.0)
SHAPES = array_shapes(min_dims=2, max_dims=2, max_side=12)
MATRICES = st.one_of(arrays(np.float64, SHAPES, elements=entries) for entries in (ANY_FLOAT, NEAR_ONE))


def integer_row(x: list[float], bound: float, k: int) -> list[int]:
    """The map written with Python numbers, one entry at a time."""
    if not all(math.isfinite(v) for v in x):
        return [0] * len(x)
    c = 2.0**k / bound
    if all(math.isfinite(v * c) for v in x):
        q = [round(v * c) for v in x]
        if sum(v * v for v in q) <= 4**k:
            return q
    d = len(x)
    B = (53 - (d - 1).bit_length()) // 2
    power = 2.0 ** (math.frexp(max(abs(v) for v in x))[1] - 1)
    y = [v / power for v in x]
    p = [round(v * 2.0 ** (B - 1)) for v in y]
    norm = math.sqrt(sum(v * v for v in p)) + math.sqrt(d) / 2
    f = (2**k - math.ceil(math.sqrt(d) / 2) - 1) * 2.0 ** (B - 1) / norm
    return [round(v * f) for v in y]


@settings(deadline=None, max_examples=200)
@given(x=MATRICES, bound=st.sampled_from([1.0, 0.3, 7.0, 2.0**-400, 2.0**400]), k=st.sampled_from([8, 18, 24]))
@example(x=np.array([[1.7e308, -1.7e308]]), bound=2.0**-400, k=24)
@example(x=np.array([[5e-324], [1e-310]]), bound=2.0**400, k=18)
@example(x=np.array([[1.0, 0.0], [0.6, 0.8], [1.0, 1e-9], [np.nextafter(1.0, 2), 0.0]]), bound=1.0, k=24)
# Checks thm:exact-gram.
def test_gram_equals_python_integers_and_norms_keep_the_bound(x: np.ndarray, bound: float, k: int) -> None:
    rows = [integer_row(row, bound, k) for row in x.tolist()]
    assert all(sum(v * v for v in row) <= 4**k for row in rows)
    expected = [[sum(r[i] * r[j] for r in rows) for j in range(x.shape[1])] for i in range(x.shape[1])]
    gram = exact_gram(x, row_norm_bound=bound, fractional_bits=k)
    assert gram.integers.tolist() == expected


def numpy_quantiser(x: np.ndarray, rule: GroupRule, q: np.ndarray, broken: np.ndarray) -> None:
    """The definition, in the form of the compiled quantiser."""
    q[...], bad = quantise_group(np, x, rule)
    broken |= bad


@settings(deadline=None, max_examples=200)
@given(x=MATRICES, k=st.sampled_from([8, 18, 24]))
def test_compiled_and_numpy_quantisers_agree_bit_for_bit(x: np.ndarray, k: int) -> None:
    rule = GroupRule.of(ColumnGroup(0, x.shape[1], bound=0.7), k)
    results = []
    for quantiser in (quantise_group_into, numpy_quantiser):
        q, broken = np.full(x.shape, np.nan), np.zeros(len(x), dtype=bool)
        with np.errstate(all="ignore"):
            quantiser(x, rule, q, broken)
        results.append((q.tolist(), broken.tolist()))
    assert results[0] == results[1]


def test_a_row_within_the_bound_moves_by_half_a_step_at_most() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 5))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * 1.001
    layout = RowLayout(5, 1.0)
    (tile,) = integer_tiles((x,), layout)
    for row, q in zip(x.tolist(), tile.tolist(), strict=True):
        for v, n, step in zip(row, q, layout.steps, strict=True):
            # half a step, and half an ulp of the product v·2ᵏ
            assert abs(Fraction(v) - int(n) * step) <= step / 2 * (1 + Fraction(1, 2**30))


@pytest.mark.parametrize("columns", [1, 3, 100])
def test_a_row_beyond_the_bound_keeps_its_direction(columns: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, columns)) * 10.0 ** rng.uniform(0.5, 300, size=(200, 1))
    k = 18
    (tile,) = integer_tiles((x,), RowLayout(columns, 1e-3, fractional_bits=k))
    unit = x / np.max(np.abs(x), axis=1, keepdims=True)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    assert np.all(np.linalg.norm(tile - unit * 2.0**k, axis=1) <= 1.2 * math.sqrt(columns) + 2)


def test_rounding_is_unbiased_up_to_the_grid() -> None:
    """Mean rounding error over 10⁶ entries: its standard deviation is 0.29/1000 steps; six of them is one in 10⁹."""
    x = np.random.default_rng(2).uniform(-0.05, 0.05, size=(10_000, 100))
    (tile,) = integer_tiles((x,), RowLayout(100, 1.0, fractional_bits=10))
    assert np.all(np.sum(tile**2, axis=1) <= 4.0**10)
    error = tile - x * 2.0**10
    assert abs(error.mean()) < 6 * 0.29 / 1000


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_broken_entry_empties_its_whole_row_and_no_other(bad: float) -> None:
    x = np.random.default_rng(3).normal(size=(50, 4))
    y = np.ones((50, 1))
    options = {"row_norm_bound": 1.0, "target_bound": 1.0, "intercept": 1.0}
    without = exact_gram((np.delete(x, 7, 0), np.delete(y, 7, 0)), **options)
    in_features, in_target = x.copy(), y.copy()
    in_features[7, 2], in_target[7] = bad, bad
    assert exact_gram((in_features, y), **options) == without
    assert exact_gram((x, in_target), **options) == without


def test_groups_are_clipped_apart_and_the_joint_bound_holds() -> None:
    layout = RowLayout(2, 3.0, targets=1, target_bound=4.0, intercept=12.0)
    assert layout.joint_norm_bound == 13.0
    assert layout.joint_norm_bound_squared == 169
    x, y = np.array([[30.0, 40.0]]), np.array([[-99.0]])
    (tile,) = integer_tiles((x, y), layout)
    real = [int(n) * step for n, step in zip(tile[0].tolist(), layout.steps, strict=True)]
    assert sum(v * v for v in real) <= 169
    np.testing.assert_allclose([float(v) for v in real], [1.8, 2.4, -4.0, 12.0], rtol=1e-4)


@settings(deadline=None)
@given(bounds=st.lists(st.floats(1e-100, 1e100), min_size=1, max_size=3))
def test_joint_bound_is_the_smallest_safe_float(bounds: list[float]) -> None:
    names = dict(zip(("row_norm_bound", "target_bound", "intercept"), bounds, strict=False))
    layout = RowLayout(1, targets=int(len(bounds) > 1), **names)
    exact = sum(Fraction(b) ** 2 for b in bounds)
    assert Fraction(layout.joint_norm_bound) ** 2 >= exact
    assert Fraction(math.nextafter(layout.joint_norm_bound, 0)) ** 2 < exact


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"row_norm_bound": 0.0}, "row_norm_bound must be positive"),
        ({"row_norm_bound": math.nan}, "row_norm_bound must be finite"),
        ({"row_norm_bound": "1"}, "row_norm_bound must be a real number; got '1'"),
        ({"row_norm_bound": 1.0, "fractional_bits": 25}, "fractional_bits must be an integer from 8 to 24; got 25"),
        ({"row_norm_bound": 1.0, "targets": [0]}, "target_bound must be given with targets"),
        ({"row_norm_bound": 1.0, "target_bound": 1.0}, "target_bound must come with targets"),
        ({"row_norm_bound": 1.0, "intercept": -1.0}, "intercept must be positive"),
        ({"row_norm_bound": 1.0, "columns": [5]}, "columns must be column numbers from 0 to 1; got 5"),
        ({"row_norm_bound": 1.0, "columns": [0, 0]}, "name each column once"),
        ({"row_norm_bound": 1.0, "columns": []}, "columns must leave at least one feature"),
    ],
)
def test_public_parameters_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        exact_gram(np.zeros((3, 2)), **options)


def test_blocks_are_checked_by_shape_and_type() -> None:
    accumulator = GramAccumulator(RowLayout(2, 1.0))
    for block, message in [
        (np.zeros((3, 3)), "be matrices of 2 column"),
        (np.zeros(3), "be matrices of 2 column"),
        (np.zeros((3, 2), dtype=complex), "real numbers of at most 64 bits; got dtype complex128"),
        (np.zeros((3, 2), dtype=np.longdouble), "real numbers of at most 64 bits"),
        ([[1.0, 2.0]], "block must be a NumPy array; got list"),
    ]:
        with pytest.raises(ParameterError, match=message):
            accumulator.update(block)
    with pytest.raises(ParameterError, match="be matrices of 2 column"):
        accumulator.update(np.zeros((3, 2)), np.zeros((3, 1)))
