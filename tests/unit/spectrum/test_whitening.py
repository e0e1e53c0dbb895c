"""Dense covariances become ratios and shifts, also where floats cannot see them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.pairs import agree
from ndis import GaussianPair
from ndis.errors import ParameterError


@pytest.mark.parametrize(("scale", "epsilon"), [(2.0, 1.0), (0.5, 1.8), (200.0, 5.0)])
def test_repeated_ratios_share_the_shift(scale: float, epsilon: float) -> None:
    dense = GaussianPair.from_moments([1.0, 0, 0], scale * np.eye(3), [0] * 3, np.eye(3))
    plain = GaussianPair.from_ratios([scale] * 3, [1.0, 0, 0])
    assert dense.certify(epsilon).lower <= plain.certify(epsilon).upper
    assert plain.certify(epsilon).lower <= dense.certify(epsilon).upper
    assert dense.delta(epsilon) == pytest.approx(plain.delta(epsilon), rel=1e-12)
    assert dense.loss_supremum() == pytest.approx(plain.loss_supremum(), rel=1e-12)


def test_epsilon_is_checked_where_the_factor_is_rank_deficient() -> None:
    pair = GaussianPair.from_low_rank([1.0, -0.3], [0, 0], np.eye(2), [[0.3, 0.1], [0.6, 0.2]], sign=-1)
    epsilon = pair.epsilon(1e-6)
    assert pair.certify(epsilon).upper <= 1e-6
    assert math.isinf(pair.loss_supremum())


def test_what_is_exactly_singular_is_not_private() -> None:
    for pair in (
        GaussianPair.from_low_rank([0, 0], [0, 0], [[2, 1], [1, 1]], [[1], [0]], sign=-1),
        GaussianPair.from_moments([1, 1 + 2**-50], 0.5 * np.ones((2, 2)), [0, 0], np.ones((2, 2))),
    ):
        assert pair.mutually_singular
        assert pair.delta(1.0) == 1.0
        assert pair.epsilon(1e-6) == math.inf
        assert pair.certify(1.0).lower == 1.0


@pytest.mark.parametrize("k", [46, 48, 49, 50, 52])
def test_directions_that_floats_cannot_see_count(k: int) -> None:
    u = 2.0**-k
    pair = GaussianPair.from_moments([0, 0], [[1, 1], [1, 1 + 4 * u]], [0, 0], [[1, 1], [1, 1 + 2 * u]])
    assert pair.delta(1.0) == pytest.approx(GaussianPair.from_ratios(2.0).delta(1.0), rel=1e-9)
    agree(pair, 1.0)


def test_common_range_with_and_without_rounding() -> None:
    two = GaussianPair.from_ratios(2.0, copies=2)
    rng = np.random.default_rng(0)
    rounded = rng.normal(size=(5, 2))
    exact = rng.integers(-3, 4, size=(40, 2)).astype(float)
    for f in (rounded, exact):
        c = f @ f.T
        pair = GaussianPair.from_moments(np.zeros(len(c)), 2 * c, np.zeros(len(c)), c)
        assert pair.delta(1.0) == pytest.approx(two.delta(1.0), rel=1e-12)


def test_small_and_large_excess_in_one_dense_pair() -> None:
    w = np.array([[-1.0, 3, 0], [-2, -2, 2], [-1, -1, -3]])
    ratio = np.array([0.5, 1 + 2**-30, 1 + 2**-30])
    dense = GaussianPair.from_moments(np.zeros(3), w @ np.diag(ratio) @ w.T, np.zeros(3), w @ w.T)
    assert dense.log_delta(1.0) == pytest.approx(GaussianPair.from_ratios(ratio).log_delta(1.0), rel=1e-12)


def test_a_tiny_covariance_beside_no_variance_is_refused_in_words() -> None:
    cov = np.array([[0.0, 1e-20], [1e-20, 1.0]])  # indefinite, which floats do not see
    pair = GaussianPair.from_moments([0.0, 0.0], 1.1 * cov, [0.0, 0.0], cov)
    with pytest.raises(ParameterError, match="cov_q must be positive semidefinite as exact binary numbers"):
        pair.certify(0.1)
