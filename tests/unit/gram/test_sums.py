"""Exact sums over records: the same bits on every engine, one record's term and nothing else, norms within the clip."""

from __future__ import annotations

import importlib.util
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from ndis.errors import ParameterError
from ndis.gram import accumulator, device, exact_gram
from ndis.gram.sums import RecordSums, TermSums
from ndis.gram.terms import exponential, probabilities

# A torch device that every machine has; None, the host, if torch is not installed.
DEVICE = "cpu" if importlib.util.find_spec("torch") else None

PUBLIC = {"row_norm_bound": 1.5, "target_bound": 2.0, "intercept": 0.75}
THETA = np.array([0.3, -1.25, 0.01, 2.0, -0.4])
ASKED = {"clip": 0.4, "edges": [0.1, 0.4, 1.0]}


def records(count: int = 3000, seed: int = 0, columns: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, columns)) * rng.uniform(0, 2, size=(count, 1))
    y = x @ rng.normal(size=columns) + rng.normal(size=count)
    x[count // 3, 1], y[count // 2] = np.nan, np.inf
    return x, y


def flat(found: TermSums) -> tuple[list[Fraction], list[int], int]:
    total = [Fraction(int(n), found.total.denominator) for n in found.total.numerators.ravel()]
    return total, found.longer.tolist(), found.records


def linear(data, **more):
    return flat(RecordSums(data, **{**PUBLIC, **more}).residual_products(THETA, **ASKED))


def softmax(data, classes=3, **more):
    theta = np.random.default_rng(5).normal(size=(5, classes))
    public = {"row_norm_bound": 1.5, "intercept": 0.75, "classes": range(classes), **more}
    return flat(RecordSums(data, **public).gradients(theta, clip=0.4, edges=[0.2, 0.4, 0.6]))


def labelled(count: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    x, _ = records(count)
    y = np.random.default_rng(1).integers(0, 3, size=count).astype(float)
    y[7] = 5.0  # of no class
    return x, y


# ---------------------------------------------------------------------- what is summed


def test_residual_products_are_those_of_the_formula():
    x, y = records()
    found = RecordSums((x, y), **PUBLIC).residual_products(THETA, **ASKED)
    known = np.isfinite(x).all(1) & np.isfinite(y)
    rows = x[known] * np.minimum(1, 1.5 / np.linalg.norm(x[known], axis=1))[:, None]
    rows, targets = np.c_[rows, np.full(len(rows), 0.75)], np.clip(y[known], -2, 2)
    residuals = targets - rows @ THETA
    terms = rows * residuals[:, None]
    norms = np.linalg.norm(terms, axis=1)
    expected = (terms * np.minimum(1, 0.4 / norms)[:, None]).sum(0)
    np.testing.assert_allclose(found.total.to_float(), expected, rtol=1e-4, atol=1e-3)
    assert found.records == len(rows) == 2998
    assert found.longer.tolist() == [(norms > edge).sum() for edge in (0.1, 0.4, 1.0)]
    assert found.histogram.sum() == found.records
    assert found.histogram[-1] == found.longer[-1]


def test_gradients_are_those_of_the_formula():
    x, y = labelled()
    theta = np.random.default_rng(5).normal(size=(5, 3))
    sums = RecordSums((x, y), row_norm_bound=1.5, intercept=0.75, classes=[0, 1, 2])
    found = sums.gradients(theta, clip=0.4)
    known = np.isfinite(x).all(1) & (y < 3)
    rows = x[known] * np.minimum(1, 1.5 / np.linalg.norm(x[known], axis=1))[:, None]
    rows = np.c_[rows, np.full(len(rows), 0.75)]
    p = np.exp(rows @ theta)
    v = p / p.sum(1)[:, None] - np.eye(3)[y[known].astype(int)]
    norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(v, axis=1)
    expected = rows.T @ (v * np.minimum(1, 0.4 / norms)[:, None])
    np.testing.assert_allclose(found.total.to_float(), expected, rtol=1e-4, atol=2e-3)
    assert (found.records, found.longer.tolist()) == (len(rows), [(norms > 0.4).sum()])


def test_two_classes_may_have_one_column():
    x, y = labelled()
    y = np.where(y == 2, -3.5, np.where(y == 5, np.nan, 1.0))  # classes are any numbers
    sums = RecordSums((x, y), row_norm_bound=1.5, classes=[1.0, -3.5])
    one = sums.gradients(THETA[:4], clip=10.0)
    two = sums.gradients(np.c_[np.zeros(4), THETA[:4]], clip=10.0)
    np.testing.assert_allclose(two.total.to_float()[:, 1], one.total.to_float(), rtol=1e-5)
    np.testing.assert_allclose(two.total.to_float().sum(1), 0, atol=1e-3)


def test_gram_of_the_predictors_leaves_out_records_without_a_target():
    x, y = records()
    known = np.isfinite(x).all(1) & np.isfinite(y)
    expected = exact_gram(x[known], row_norm_bound=1.5, intercept=0.75)
    assert RecordSums((x, y), **PUBLIC).gram() == expected
    without = RecordSums((x, y), row_norm_bound=1.5, target_bound=2.0).gram()
    assert without == exact_gram(x[known], row_norm_bound=1.5)


def test_own_exponential_and_softmax():
    t = -np.linspace(0, 690, 20_001)
    assert np.abs(exponential(np, t) / np.exp(t) - 1).max() < 1e-13
    p = probabilities(np, np.array([[1e300, 0.0, -800.0], [-1e300, 0.0, 0.0]]))
    assert p[0, :2].tolist() == [1.0, 0.5]
    assert (p >= 0).all()
    assert (p[[1, 0], [0, 2]] < 1e-300).all()
    assert probabilities(np, np.array([[-1e300, 1e300]]))[0, 1] == 1.0


# ---------------------------------------------------------------------- the same bits


def sources(x, y, tmp_path):
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    frame = pd.DataFrame(np.c_[x, y], columns=[*"abcd", "y"])
    by_name = {"targets": "y"}
    yield "pandas", frame, by_name
    yield "polars", pl.from_pandas(frame), by_name
    yield "arrow", pa.Table.from_pandas(frame), by_name
    folder = tmp_path / "folder"
    folder.mkdir()
    for part in range(3):
        frame[part * 1000 : (part + 1) * 1000].to_parquet(folder / f"{part}.parquet", row_group_size=130)
    yield "parquet folder", folder, by_name
    frame.to_csv(tmp_path / "all.csv", index=False, float_format="%.17g")
    yield "csv", tmp_path / "all.csv", {**by_name, "header": True}
    yield "sparse", sparse.csr_array(np.c_[x, y]), {"targets": [4]}
    yield "dask frame", dd.from_pandas(frame, npartitions=5), by_name
    yield "dask array", da.from_array(np.c_[x, y], chunks=(700, 2)), {"targets": [4]}
    yield "fortran", (np.asfortranarray(x), y), {}
    yield "torch on cpu", (x, y), {"device": DEVICE}


def test_every_source_and_engine_has_the_same_bits(tmp_path):
    x, y = records()
    expected = linear((x, y))
    for name, data, how in sources(x, y, tmp_path):
        assert linear(data, **how) == expected, name
        gram = RecordSums(data, **PUBLIC, **how).gram().integers
        assert np.array_equal(gram, RecordSums((x, y), **PUBLIC).gram().integers), name


def test_every_source_and_engine_has_the_same_gradients(tmp_path):
    x, y = labelled()
    expected = softmax((x, y))
    for name, data, how in sources(x, y, tmp_path):
        assert softmax(data, **how) == expected, name


@pytest.mark.parametrize("entries", [5, 64, 1000, 1 << 21])
@pytest.mark.parametrize("compute", [linear, softmax])
def test_the_length_of_a_block_changes_no_bit(entries, compute, monkeypatch):
    data = records() if compute is linear else labelled()
    expected = compute(data)
    monkeypatch.setattr(accumulator, "own_tile_entries", lambda width: entries)
    assert compute(data) == expected
    monkeypatch.setattr(device, "_RESIDENT_ENTRIES", entries)
    assert compute(data, device=DEVICE) == expected


@pytest.mark.parametrize("bits", [8, 18, 24])
@pytest.mark.parametrize("compute", [linear, softmax])
def test_any_order_and_any_split_on_any_grid(bits, compute):
    x, y = records() if compute is linear else labelled()
    order = np.random.default_rng(2).permutation(len(x))
    expected = compute((x, y), fractional_bits=bits)
    assert compute((x[order], y[order]), fractional_bits=bits) == expected
    assert compute((x, y), fractional_bits=bits, device=DEVICE) == expected
    parts = [compute((x[a:b], y[a:b]), fractional_bits=bits) for a, b in ((0, 1), (1, 1300), (1300, 3000))]
    for i in (0, 1):
        assert [sum(column) for column in zip(*(part[i] for part in parts), strict=True)] == list(expected[i])


def test_sums_beyond_int64_become_python_integers():
    x, y = np.ones((1, 1)), np.ones(1)
    sums_ = RecordSums((x, y), row_norm_bound=1.0, target_bound=1.0)
    once = sums_.residual_products([0.0], clip=1.0)
    total = sums_._pass(lambda device: one_accumulator(sums_))
    for _ in range(30):
        total.merge(pickle.loads(pickle.dumps(total)))
    assert total.integers()[0] > 2**63
    assert total.integers()[0] == 2**30 * int(one_accumulator(sums_, x, y).integers()[0])
    assert once.records == 1


def one_accumulator(record_sums, x=None, y=None):
    from ndis.gram.sums import SumAccumulator
    from ndis.gram.terms import residual_rule

    rule = residual_rule(record_sums._tile, np.zeros((1, 1)), constant=False, clip=1.0, edges=(1.0,))
    found = SumAccumulator(record_sums._tile, rule)
    if x is not None:
        found.update(x, y.reshape(-1, 1))
    return found


# ---------------------------------------------------------------------- one record


def squared_norm(values: list[Fraction]) -> Fraction:
    return sum((v * v for v in values), Fraction(0))


@pytest.mark.parametrize("clip", [1e-9, 0.013, 0.4, 1e6])
@pytest.mark.parametrize("intercept", [None, 0.75, 1e-3, 50.0])
def test_no_term_is_longer_than_the_clip_in_exact_arithmetic(clip, intercept):
    x, y = records(60, seed=3)
    x[0], y[0] = 0.0, 2.0
    x[1], y[1] = [1e-5, 0, 0, 0], 2.0
    x[2] = [1e300, -1e300, 1e-300, 5.0]
    theta = np.r_[THETA[:4], [0.2] if intercept else []]
    longest = Fraction(0)
    for i in range(len(x)):
        sums = RecordSums((x[i : i + 1], y[i : i + 1]), row_norm_bound=1.5, target_bound=2.0, intercept=intercept)
        total, longer, count = flat(sums.residual_products(theta, clip=clip))
        assert squared_norm(total) <= Fraction(clip) ** 2
        assert longer[0] <= count <= 1
        longest = max(longest, squared_norm(total))
    if clip < 1:
        assert longest > Fraction(clip) ** 2 * Fraction(999, 1000)  # the clip is used


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_no_gradient_is_longer_than_the_clip_in_exact_arithmetic(classes):
    x, _ = records(40, seed=4)
    rng = np.random.default_rng(6)
    theta, y = rng.normal(size=(5, classes)) * 5, rng.integers(0, classes, size=40).astype(float)
    for i in range(len(x)):
        public = {"row_norm_bound": 1.5, "intercept": 0.75, "classes": range(classes)}
        total, _, _ = flat(RecordSums((x[i : i + 1], y[i : i + 1]), **public).gradients(theta, clip=0.3))
        assert squared_norm(total) <= Fraction(0.3) ** 2


@pytest.mark.parametrize("several", [1, 3])
# Checks thm:term-of-one-record.
def test_a_sum_without_a_record_differs_by_its_term_and_nothing_else(several):
    """One record must not move the rounded terms of others: exactly its own term is missing."""
    x, y = records(700)
    y = np.c_[y, -y, y / 3][:, :several]
    theta = np.c_[THETA, -THETA, THETA * 2][:, :several]
    public = {"row_norm_bound": 1.5, "target_bound": 2.0, "intercept": 0.75}

    def at(rows):
        return flat(RecordSums((x[rows], y[rows]), **public).residual_products(theta, clip=0.4))

    whole = at(np.arange(700))
    for i in (0, 1, 233, 350, 699):
        rest, alone = at(np.delete(np.arange(700), i)), at(np.array([i]))
        for part in (0, 1):
            assert [a + b for a, b in zip(rest[part], alone[part], strict=True)] == list(whole[part])
        assert rest[2] + alone[2] == whole[2]
        assert squared_norm(alone[0]) <= Fraction(0.4) ** 2


def test_a_blas_product_lacks_that_property():
    """Why residuals are exact: float residuals of the same rows differ with the length of the block."""
    rng = np.random.default_rng(0)
    x, theta = rng.normal(size=(999, 50)), rng.normal(size=50)
    whole = x @ theta
    alone = np.array([(x[i : i + 1] @ theta)[0] for i in range(999)])
    exact = np.array([math.fsum(map(float, x[i] * theta)) for i in range(999)])
    assert not np.array_equal(whole, exact) or not np.array_equal(alone, exact)  # rounding is there to be seen
    sums = RecordSums((x, whole), row_norm_bound=8.0, target_bound=30.0)
    assert (
        flat(sums.residual_products(theta, clip=5.0))[0]
        == flat(
            RecordSums((x[::-1], whole[::-1]), row_norm_bound=8.0, target_bound=30.0).residual_products(theta, clip=5.0)
        )[0]
    )


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("public", "asked", "name"),
    [
        ({}, {"clip": 0.0}, "clip"),
        ({}, {"clip": math.nan}, "clip"),
        ({}, {"clip": 1e-200}, "clip"),
        ({}, {"clip": 1.0, "edges": [2.0, 1.0]}, "edges"),
        ({}, {"clip": 1.0, "theta": np.zeros(4)}, "theta"),
        ({}, {"clip": 1.0, "theta": np.full(5, np.nan)}, "theta"),
        ({}, {"clip": 1.0, "theta": np.full(5, 1e40)}, "theta"),
        ({"intercept": 1e-6}, {"clip": 1.0}, "intercept"),
        ({"classes": [0, 1]}, {"clip": 1.0}, "target_bound"),
        ({"classes": [0, 0], "target_bound": None}, {"clip": 1.0}, "classes"),
        ({"classes": [0, math.nan], "target_bound": None}, {"clip": 1.0}, "classes"),
    ],
)
def test_bad_public_values_are_refused(public, asked, name):
    with pytest.raises(ParameterError, match=f"^{name} must"):
        RecordSums(records(10), **{**PUBLIC, **public}).residual_products(**{"theta": THETA, **asked})


def test_each_kind_needs_its_targets():
    x, y = records(10)
    with pytest.raises(ParameterError, match="targets must"):
        RecordSums(x, row_norm_bound=1.0).residual_products(np.zeros(4), clip=1.0)
    with pytest.raises(ParameterError, match="classes must"):
        RecordSums((x, y), **PUBLIC).gradients(THETA, clip=1.0)
    with pytest.raises(ParameterError, match="targets must"):
        RecordSums((x, y), row_norm_bound=1.0, classes=[0, 1]).residual_products(np.zeros(4), clip=1.0)
    with pytest.raises(ParameterError, match="targets must"):
        RecordSums((x, np.c_[y, y]), row_norm_bound=1.0, classes=[0, 1])
    assert RecordSums(x, row_norm_bound=1.0).gram() == exact_gram(x, row_norm_bound=1.0)


def test_no_records_are_a_sum_of_nothing():
    found = RecordSums((np.empty((0, 4)), np.empty(0)), **PUBLIC).residual_products(THETA, **ASKED)
    assert flat(found) == ([0] * 5, [0, 0, 0], 0)
