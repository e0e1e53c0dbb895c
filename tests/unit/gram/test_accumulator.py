"""The mergeable sum: order, splits, overflow and the trip through pickle change no bit."""

from __future__ import annotations

import pickle
import random
from fractions import Fraction

import numpy as np
import pytest

from ndis._exact import ExactArray
from ndis.errors import ParameterError
from ndis.gram import GramAccumulator, RowLayout, exact_gram

LAYOUT = RowLayout(4, 1.0)


def rows(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 4)) * rng.uniform(0, 1.5, size=(count, 1))


def test_blocks_in_any_order_and_any_split_give_the_same_bits() -> None:
    x = rows(10_000)
    whole = exact_gram(x, row_norm_bound=1.0)
    for seed in range(5):
        cuts = sorted(random.Random(seed).sample(range(len(x)), 20))
        blocks = np.split(x, cuts)
        random.Random(seed).shuffle(blocks)
        parts = [GramAccumulator(LAYOUT), GramAccumulator(LAYOUT)]
        for i, block in enumerate(blocks):
            parts[i % 2].update(block, threads=1 + i % 3)
        parts[0].merge(pickle.loads(pickle.dumps(parts[1])))
        assert parts[0].finish() == whole


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, np.uint16, np.bool_, np.float16])
def test_all_number_types_are_read_as_the_float64_they_stand_for(dtype: type) -> None:
    x = (rows(500) * 3).astype(dtype)
    assert exact_gram(x, row_norm_bound=2.0) == exact_gram(x.astype(np.float64), row_norm_bound=2.0)


@pytest.mark.parametrize("order", ["F", "strided", "reversed"])
def test_memory_layout_does_not_matter(order: str) -> None:
    x = rows(999)
    views = {"F": np.asfortranarray(x), "strided": np.repeat(x, 2, axis=1)[:, ::2], "reversed": x[::-1][::-1]}
    assert exact_gram(views[order], row_norm_bound=1.0) == exact_gram(x, row_norm_bound=1.0)


def test_more_rows_than_one_exact_block_holds() -> None:
    x = rows(300)
    few = exact_gram(x, row_norm_bound=1.0, fractional_bits=24)  # 32 rows a block
    layout = few.layout
    assert layout.block_rows == 32
    total = sum(exact_gram(x[i : i + 1], row_norm_bound=1.0, fractional_bits=24).integers for i in range(300))
    assert np.array_equal(few.integers, total)


def test_sums_beyond_int64_become_python_integers() -> None:
    x = np.array([[1.0]])
    layout = RowLayout(1, 1.0, fractional_bits=24)
    accumulator = GramAccumulator(layout)
    accumulator.update(x)
    for _ in range(20):  # doubling 2⁴⁸ twenty times passes 2⁶³
        copy = pickle.loads(pickle.dumps(accumulator))
        accumulator.merge(copy)
    gram = accumulator.finish()
    assert gram.integers.tolist() == [[2**68]]
    assert gram.exact(ridge=0).numerators.item() == 2**20 * gram.exact(ridge=0).denominator
    other = GramAccumulator(layout)
    other.update(x)
    other.merge(accumulator)
    assert other.finish().integers.tolist() == [[2**68 + 2**48]]


def test_merging_leaves_the_other_alone_and_checks_the_layout() -> None:
    left, right = GramAccumulator(LAYOUT), GramAccumulator(LAYOUT)
    right.update(rows(10))
    before = right.finish()
    left.merge(right)
    left.update(rows(10, seed=1))
    assert right.finish() == before
    with pytest.raises(ParameterError, match="other must have the layout"):
        left.merge(GramAccumulator(RowLayout(4, 2.0)))


def test_no_rows_give_the_zero_matrix() -> None:
    assert not exact_gram(np.empty((0, 3)), row_norm_bound=1.0).integers.any()
    assert not exact_gram(np.full((5, 3), np.nan), row_norm_bound=1.0).integers.any()


def test_the_result_holds_nothing_but_layout_and_integers() -> None:
    gram = exact_gram(rows(10), row_norm_bound=1.0)
    assert set(vars(gram)) == {"integers", "layout"}


def test_exact_covariance_in_real_units() -> None:
    gram = exact_gram(rows(20), row_norm_bound=0.3, targets=[1], target_bound=0.7)
    ridge = Fraction(1, 3)
    exact = gram.exact(ridge=ridge)
    steps = gram.layout.steps
    for i in range(4):
        for j in range(4):
            expected = int(gram.integers[i, j]) * steps[i] * steps[j] + (ridge if i == j else 0)
            assert Fraction(exact.numerators[i, j], exact.denominator) == expected
    np.testing.assert_allclose(exact.to_float(), gram.to_float() + np.eye(4) / 3, rtol=1e-14)
    assert isinstance(exact, ExactArray)
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ParameterError, match="ridge must"):
            gram.exact(ridge=bad)


@pytest.mark.parametrize("rows", [10, 20_000, 32_773, 70_000])
def test_merging_with_itself_doubles(rows: int) -> None:
    accumulator = GramAccumulator(RowLayout(features=1, row_norm_bound=1.0, fractional_bits=24))
    accumulator.update(np.ones((rows, 1)))
    once = int(accumulator.finish().integers[0, 0])
    accumulator.merge(accumulator)
    assert int(accumulator.finish().integers[0, 0]) == 2 * once


def test_masked_blocks_are_refused() -> None:
    accumulator = GramAccumulator(RowLayout(features=2, row_norm_bound=1.0))
    with pytest.raises(ParameterError, match="be a plain array; got a masked array"):
        accumulator.update(np.ma.masked_array([[0.5, 0.25]], mask=[[True, False]]))
