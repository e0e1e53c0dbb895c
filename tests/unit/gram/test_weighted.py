"""The Hessian of the logistic loss as an exact sum: its value, its bits, and the norm that no row exceeds."""

from __future__ import annotations

import importlib.util
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from ndis.errors import ParameterError
from ndis.gram import host
from ndis.gram.rows import RowLayout
from ndis.gram.sums import RecordSums
from ndis.gram.terms import WeightedAccumulator, gradient_rule
from ndis.learn._logistic_regression import calibrated_gradients
from ndis.mechanisms.gaussian import unit_noise

# A torch device that every machine has; None, the host, if torch is not installed.
DEVICE = "cpu" if importlib.util.find_spec("torch") else None

PUBLIC = {"row_norm_bound": 1.5, "intercept": 0.75, "classes": (0, 1)}
THETA = np.array([0.3, -1.25, 0.01, 2.0, -0.4])


def labelled(count: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 4)) * rng.uniform(0, 2, size=(count, 1))
    y = rng.integers(0, 2, size=count).astype(float)
    x[count // 3, 1], y[7] = np.nan, 5.0  # unreadable, and of no class
    return x, y


def integers(data, theta=THETA, **more):
    return RecordSums(data, **{**PUBLIC, **more}).weighted_gram(theta).integers.tolist()


@pytest.mark.parametrize("intercept", [None, 0.75])
def test_is_the_hessian(intercept):
    x, y = labelled()
    theta = THETA if intercept else THETA[:4]
    kept = np.isfinite(x).all(axis=1) & np.isin(y, (0, 1))
    rows = x[kept] * np.minimum(1.0, 1.5 / np.linalg.norm(x[kept], axis=1))[:, None]
    rows = np.c_[rows, np.full(len(rows), intercept)] if intercept else rows
    p = 1 / (1 + np.exp(-rows @ theta))
    found = RecordSums((x, y), **{**PUBLIC, "intercept": intercept}).weighted_gram(theta)
    np.testing.assert_allclose(found.to_float(), (rows * (p * (1 - p))[:, None]).T @ rows, atol=1e-4 * len(rows))
    quarter = (Fraction(9, 4) + Fraction(intercept or 0) ** 2) / 4
    assert quarter <= found.layout.joint_norm_bound_squared < quarter * (1 + Fraction(1, 1 << 50))


@pytest.mark.parametrize("intercept", [None, 0.75])
def test_long_rows_weigh_less_in_the_hessian_and_in_gradients(intercept):
    """Their weight is (reach/length)², and their log-odds stay."""
    x, y = labelled()
    theta, reach = THETA if intercept else THETA[:4], 0.8
    kept = np.isfinite(x).all(axis=1) & np.isin(y, (0, 1))
    rows = x[kept] * np.minimum(1.0, 1.5 / np.linalg.norm(x[kept], axis=1))[:, None]
    rows = np.c_[rows, np.full(len(rows), intercept)] if intercept else rows
    p, w = 1 / (1 + np.exp(-rows @ theta)), np.minimum(1.0, reach / np.linalg.norm(rows, axis=1)) ** 2
    assert (w < 1).mean() > 0.3
    sums = RecordSums((x, y), **{**PUBLIC, "intercept": intercept})
    found = sums.weighted_gram(theta, row_bound=reach)
    assert found.layout.joint_norm_bound == reach / 2
    np.testing.assert_allclose(found.to_float(), (rows * (w * p * (1 - p))[:, None]).T @ rows, atol=1e-4 * len(rows))
    terms, edges = rows * (w * (p - y[kept]))[:, None], (0.1, 0.4)
    values = sums.gradients(theta, clip=reach, edges=edges, row_bound=reach)
    np.testing.assert_allclose(values.total.to_float(), terms.sum(axis=0), atol=1e-4 * len(rows))
    lengths = np.linalg.norm(terms, axis=1)
    assert values.longer.tolist() == [int((lengths > edge).sum()) for edge in edges]


def test_every_engine_order_and_block_has_the_same_bits(tmp_path, monkeypatch):
    import dask.dataframe as dd
    import pandas as pd

    x, y = labelled()
    expected = integers((x, y))
    assert integers((x[::-1], y[::-1]), device=DEVICE) == expected
    frame = pd.DataFrame(np.c_[x, y], columns=[*"abcd", "y"])
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=130)
    assert integers(frame, targets="y") == expected
    assert integers(tmp_path / "rows.parquet", targets="y") == expected
    assert integers(dd.from_pandas(frame, npartitions=5), targets="y") == expected
    order = np.random.default_rng(2).permutation(len(x))
    assert integers((x[order], y[order])) == expected
    assert integers((x, y), device=DEVICE) == expected
    monkeypatch.setattr(host, "_TILE_ENTRIES", 64)
    assert integers((x, y)) == expected


@pytest.mark.parametrize("bits", [8, 18, 24])
def test_no_row_is_longer_than_half_the_bound_in_exact_arithmetic(bits):
    """One record at a time: the trace of its matrix is its squared norm. p(1 − p) is largest for θ near zero."""
    rng = np.random.default_rng(3)
    longest = Fraction(0)
    for theta, reach in ((np.zeros(5), None), (1e-9 * THETA, None), (THETA, None), (np.zeros(5), 0.3)):
        bound = Fraction(9, 4) + Fraction(9, 16) if reach is None else Fraction(reach) ** 2
        for x in (*rng.normal(size=(20, 4)), 1e9 * np.eye(4)[0], np.zeros(4)):
            one = RecordSums((x[None], np.ones(1)), **PUBLIC, fractional_bits=bits)
            found = one.weighted_gram(theta, row_bound=reach)
            exact = found.exact(ridge=0)
            square = sum(Fraction(int(n), exact.denominator) for n in np.diag(exact.numerators))
            longest = max(longest, square / bound)
            assert square <= bound / 4 * (1 + Fraction(1, 1 << 50))
    assert longest > (1 - Fraction(1, 1 << (bits - 3))) / 4


def test_a_matrix_without_a_record_differs_by_its_row_and_nothing_else():
    x, y = labelled(400)
    whole = np.array(integers((x, y)))
    for i in (0, 7, 133, 399):
        rest = np.delete(x, i, axis=0), np.delete(y, i)
        assert (whole - integers(rest) == np.array(integers((x[i : i + 1], y[i : i + 1])))).all()


def test_accumulators_merge_and_pickle():
    x, y = labelled()
    sums = RecordSums((x, y), **PUBLIC)
    reach = sums.layout.joint_norm_bound
    rule = gradient_rule(sums._tile, THETA[:, None], constant=True, clip=2.0, edges=(), row_bound=reach)
    layout = RowLayout(5, reach / 2)
    left, right = (WeightedAccumulator(sums._tile, layout, rule, device) for device in (None, DEVICE))
    coded = np.where(np.isin(y, (0, 1)), y, np.nan)[:, None]
    left.update(x[:1000], coded[:1000])
    right.update(x[1000:], coded[1000:])
    left.merge(pickle.loads(pickle.dumps(right)))
    assert left.finish()[0].integers.tolist() == integers((x, y))


def test_two_classes_and_a_theta_are_needed():
    x, y = labelled(10)
    for public in ({"classes": (0, 1, 2)}, {"classes": None, "target_bound": 1.0}):
        with pytest.raises(ParameterError, match=r"^classes must be two"):
            RecordSums((x, y), **{**PUBLIC, **public}).weighted_gram(THETA)
    for theta in (THETA[:4], np.append(THETA[:4], math.nan)):
        with pytest.raises(ParameterError, match=r"^theta must"):
            RecordSums((x, y), **PUBLIC).weighted_gram(theta)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
# Checks thm:rounds-weighted.
def test_no_two_records_are_farther_apart_than_the_joint_profile_says(adjacency):
    """All releases of a fit on one record against those on another, or on none: the shift in standard deviations."""
    budget = calibrated_gradients(epsilon=1.0, delta=1e-6, adjacency=adjacency, rounds=3, intervals=True)
    allowed = 1 / unit_noise(1.0, 1e-6)
    clip, zero, rng = 0.5, np.zeros(5), np.random.default_rng(4)

    def shifts(x, y):
        sums = RecordSums((np.reshape(x, (1, 4)), np.array([y])), **PUBLIC)
        longest = sums.layout.joint_norm_bound_squared
        matrices = [sums.gram().to_float() / budget.matrix_noise(i, longest) for i in range(2)]
        matrices += [sums.weighted_gram(zero).to_float() / budget.matrix_noise(i, longest / 4) for i in (2, 3)]
        terms = [
            sums.gradients(zero, clip=clip).total.to_float() / budget.sum_noise(i, clip=clip)
            for i in range(len(budget.sum_shares))
        ]
        return [np.ravel(each) for each in (*matrices, *terms)]

    reach = 1 if adjacency == "add-remove" else 2
    counts = sum(reach / budget.count_noise(i, squared_reach=reach) ** 2 for i in range(len(budget.count_shares)))
    farthest = 0.0
    for _ in range(40):
        x = rng.normal(size=4) * 10
        other = rng.choice([-1.0, 0.1, -1e-3]) * x + rng.choice([0.0, 1.0]) * rng.normal(size=4) * 10
        one = shifts(x, 1.0)
        two = shifts(other, 0.0) if adjacency == "replace-one" else [np.zeros_like(each) for each in one]
        square = counts + sum(float(np.sum((a - b) ** 2)) for a, b in zip(one, two, strict=True))
        farthest = max(farthest, square)
    assert farthest <= allowed**2 * (1 + 1e-9)
    assert farthest > (0.7 if adjacency == "add-remove" else 0.5) * allowed**2
