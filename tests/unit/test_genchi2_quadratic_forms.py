"""Quadratic forms of Gaussian vectors as generalized chi-square laws."""

import math

import numpy as np
import pytest
from scipy import stats

from ndis.chi_square import GeneralizedChiSquare
from ndis.errors import ParameterError


def agree(got, want, rel=1e-12):
    """Relative agreement, the tolerance growing with |log want| as the promise does."""
    want = np.asarray(want, dtype=float)
    error = np.abs(np.asarray(got) - want)
    assert (error <= rel * (1 + np.abs(np.log(want))) * want).all(), (got, want)


def random_form(rng, d, rank):
    root = rng.normal(size=(d, rank))
    Q = rng.normal(size=(d, d))
    return Q + Q.T, rng.normal(size=d), rng.normal(), rng.normal(size=d), root @ root.T


def test_quadratic_form_against_a_diagonal_one():
    law = GeneralizedChiSquare.from_quadratic_form(
        np.diag([1.0, -2.0, 0.0]), [0.5, 0.0, 3.0], 1.0, [1.0, 2.0, -1.0], np.diag([4.0, 1.0, 0.25])
    )
    # x = mean + C z: 4(z₁ + 5/8)² − 1/16, −2(z₂ + 2)², 1.5 z₃ − 3, and the constant
    direct = GeneralizedChiSquare([4.0, -2.0], 1.0, [0.390625, 4.0], sigma=1.5, shift=1.0 - 3.0 - 0.0625)
    x = np.linspace(-60, 60, 13)
    assert law.cdf(x) == pytest.approx(direct.cdf(x), rel=1e-12)
    assert law.sf(x) == pytest.approx(direct.sf(x), rel=1e-12)
    assert law.sigma == pytest.approx(1.5)
    assert law.shift == pytest.approx(direct.shift)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rank", [1, 3, 5])
def test_quadratic_form_in_new_coordinates(seed, rank):
    """x = Ty + u: the law does not depend on the coordinates, singular covariance or not."""
    rng = np.random.default_rng(seed)
    Q, b, c, mean, cov = random_form(rng, 5, rank)
    T, u = rng.normal(size=(5, 5)), rng.normal(size=5)
    inverse = np.linalg.inv(T)
    moved_cov = inverse @ cov @ inverse.T
    one = GeneralizedChiSquare.from_quadratic_form(Q, b, c, mean, cov)
    two = GeneralizedChiSquare.from_quadratic_form(
        T.T @ Q @ T, T.T @ (2 * Q @ u + b), c + u @ Q @ u + b @ u, inverse @ (mean - u), 0.5 * (moved_cov + moved_cov.T)
    )
    assert one.weights.size == two.weights.size == rank
    x = one.mean() + one.std() * np.array([-4.0, -1.0, 0.0, 1.0, 4.0])
    assert two.cdf(x) == pytest.approx(one.cdf(x), rel=1e-9)
    assert one.mean() == pytest.approx(np.trace(Q @ cov) + mean @ Q @ mean + b @ mean + c)
    gradient = 2 * Q @ mean + b
    assert one.var() == pytest.approx(2 * np.trace(Q @ cov @ Q @ cov) + gradient @ cov @ gradient)


def test_quadratic_form_keeps_a_bounded_support():
    """A semidefinite form about its own vertex, in four dimensions of which two matter."""
    rng = np.random.default_rng(3)
    A, vertex = rng.normal(size=(2, 4)), rng.normal(size=4)
    Q = A.T @ A
    law = GeneralizedChiSquare.from_quadratic_form(Q, -2 * Q @ vertex, vertex @ Q @ vertex, vertex, np.eye(4))
    assert law.sigma == 0.0
    assert law.weights.size == 2
    assert law.support() == (pytest.approx(0.0, abs=1e-13), math.inf)
    direct = GeneralizedChiSquare(np.linalg.eigvalsh(A @ A.T), 1.0)
    assert law.cdf([0.01, 1.0]) == pytest.approx(direct.cdf([0.01, 1.0]), rel=1e-10)


@pytest.mark.parametrize("tiny", [1e-12, 1e-40, 1e-300, 0.0])
def test_quadratic_form_with_a_vanishing_curvature(tiny):
    """λZ² + gZ as λ → 0 is Gaussian; completed squares would have a noncentrality of g²/4λ²."""
    law = GeneralizedChiSquare.from_quadratic_form(tiny, 3.0, 1.0, 0.0, 4.0)
    x = np.array([-50.0, 0.0, 1.0, 3.0, 50.0])
    assert law.cdf(x) == pytest.approx(stats.norm(1.0, 6.0).cdf(x), rel=1e-9)
    assert law.ppf(0.1) == pytest.approx(stats.norm(1.0, 6.0).ppf(0.1), rel=1e-9)


def test_quadratic_form_far_from_the_origin():
    """The constant, the linear part and the quadratic one are 1e16 times their sum."""
    m = 2.0**27 + 1.0
    law = GeneralizedChiSquare.from_quadratic_form(1.0, -2 * m, m * m - 1.0, m + 1.0, 1.0)
    # the form is (x − m)² + (m² rounded − m²) − 1
    rounded = float(int(m * m - 1.0) - int(m) ** 2)
    direct = GeneralizedChiSquare(1.0, 1.0, 1.0, shift=rounded)
    assert law.cdf(rounded + 2.0) == pytest.approx(direct.cdf(rounded + 2.0), rel=1e-12)


def test_quadratic_form_of_a_constant():
    law = GeneralizedChiSquare.from_quadratic_form(
        [[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0], 2.0, [1.0, 1.0], np.zeros((2, 2))
    )
    assert law.support() == (5.0, 5.0)


@pytest.mark.parametrize(("matrix", "mean"), [(1e300, 1e300), (1.0, 1e200)])
def test_a_form_beyond_floats_is_refused_in_words(matrix, mean):
    with pytest.raises(ParameterError, match="Q, b, c and mean must give a form within the range of floats"):
        GeneralizedChiSquare.from_quadratic_form([[matrix]], 0.0, 0.0, mean, 1.0)
