"""Tool 1: the two-CDF theorem holds, and is no way to compute a small δ."""

import math

import numpy as np
import pytest
from scipy.special import gammainc

import ndis
from helpers.two_cdf import two_cdf_delta
from ndis.paper.exact_forms import equal_ratio_delta
from ndis.spectrum.closed_forms import mean_shift_delta


@pytest.mark.parametrize("seed", range(8))
def test_two_cdf_theorem(seed):
    """thm:ndis-two-genchi2-cdf — two tails give δ, for ratios on both sides of 1 and equal to it."""
    rng = np.random.default_rng(seed)
    ratio = np.concatenate([np.exp(rng.normal(size=3)), [1.0]])
    pair = ndis.GaussianPair.from_ratios(ratio, shift=rng.normal(size=4), copies=rng.integers(1, 4, size=4))
    epsilon = np.array([-0.7, 0.0, 0.4, 1.5])
    assert two_cdf_delta(pair, epsilon) == pytest.approx(pair.delta(epsilon), abs=1e-12)


def test_two_cdf_equal_means():
    """eq:delta-two-cdf-cov — the same with equal means."""
    pair = ndis.GaussianPair.from_ratios([0.5, 2.0, 3.0], copies=[2, 1, 1])
    assert two_cdf_delta(pair, [0.0, 1.0]) == pytest.approx(pair.delta([0.0, 1.0]), abs=1e-13)


def test_two_cdf_needs_no_chi_square_term():
    """def:genchi2 asks for at least one term; with equal covariances every a_i is 0 and the loss is Gaussian: none."""
    pair = ndis.GaussianPair.from_ratios(1.0, shift=0.9)
    assert (pair.excess == 0).all()
    assert two_cdf_delta(pair, 1.0) == pytest.approx(mean_shift_delta(1.0, 0.9), abs=1e-14)


def test_two_cdf_cancels_for_close_laws():
    """Two tails of 0.32 whose difference is 2e-13: the digits are gone, while the contour keeps them."""
    pair = ndis.GaussianPair.from_ratios(1 + 2.0**-40)
    truth = equal_ratio_delta(0.0, 1 + 2.0**-40, 1)
    assert pair.delta(0.0) == pytest.approx(truth, rel=1e-11)
    assert math.fabs(two_cdf_delta(pair, 0.0) / truth - 1) > 1e-6


def test_two_cdf_cancels_for_small_delta():
    """With CDFs of absolute accuracy 1e-16, as Imhof's and Davies' methods give, a δ of 3e-23 comes out as noise."""
    epsilon, rho, s = 2.0, 1.02, 50.0
    truth = equal_ratio_delta(epsilon, rho, 100)
    assert 2e-23 < truth < 4e-23
    x = (epsilon + s * math.log(rho)) / (rho - 1)
    printed = (1 - gammainc(s, x)) - math.exp(epsilon) * (1 - gammainc(s, rho * x))
    assert not math.isclose(printed, truth, rel_tol=0.5)
    assert ndis.GaussianPair.from_ratios(rho, copies=100).delta(epsilon) == pytest.approx(truth, rel=1e-11)


def test_mutually_singular_laws():
    pair = ndis.GaussianPair.from_diagonal(0.0, 1.0, 0.0, 0.0)
    assert two_cdf_delta(pair, [0.0, 9.0]).tolist() == [1.0, 1.0]
