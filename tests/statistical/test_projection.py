"""Estimates and bounds of a projection over repeated releases, on fixed seeds.

Every statistic is compared with its law at a false-alarm rate of 1e-6.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import ndis
from ndis.errors import NotPrivateWarning
from ndis.gram import exact_gram
from ndis.gram.accumulator import PoissonRows
from ndis.noise.bits import SeededBits, SystemBits

ALARM = 1e-6
LIMIT = stats.norm.isf(ALARM / 2)
PUBLIC = {"epsilon": 2.0, "delta": 1e-5, "row_norm_bound": 1.0}


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(4).normal(size=(300, 3)) @ np.diag([0.5, 0.3, 0.1])


def releases(mechanism, rows, count):
    generator = np.random.default_rng(9)
    with pytest.warns(NotPrivateWarning):
        return [mechanism.release(rows, random_state=generator) for _ in range(count)]


def test_gram_is_unbiased(rows):
    """The mean of k estimates of entry (i, j) has standard deviation √((A_ii·A_jj + A_ij²)/(k·r)), A = DᵀD + λI."""
    mechanism = ndis.RandomProjection.calibrated(**PUBLIC, sketch_size=20)
    truth = exact_gram(rows, row_norm_bound=1.0).to_float()
    mean = np.mean([release.gram() for release in releases(mechanism, rows, 150)], axis=0)
    A = truth + mechanism.ridge * np.eye(3)
    spread = np.sqrt((np.outer(np.diag(A), np.diag(A)) + A**2) / (150 * 20))
    assert (np.abs(mean - truth) < LIMIT * spread).all()


def test_gram_of_a_sample_is_unbiased(rows):
    """Given the sample the spread is as above; over samples S_ij has variance q(1−q)·Σ(x_i·x_j)²."""
    mechanism = ndis.PoissonProjection.calibrated(**PUBLIC, sketch_size=20, rate=0.3)
    q, truth = 0.3, exact_gram(rows, row_norm_bound=1.0).to_float()
    mean = np.mean([release.gram() for release in releases(mechanism, rows, 150)], axis=0)
    clipped = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1))[:, None]
    squares = clipped**2
    var = q * (1 - q) * squares.T @ squares  # of S_ij; the covariance of S_ii and S_jj is the same sum
    A = q * truth + mechanism.ridge * np.eye(3)
    inner = (np.outer(np.diag(A), np.diag(A)) + A**2 + 2 * var) / 20
    spread = np.sqrt((inner + var) / 150) / q
    assert (np.abs(mean - truth) < LIMIT * spread).all()


@pytest.mark.parametrize("kind", ["plain", "poisson", "ptr"])
def test_the_error_bound_holds(rows, kind):
    """At confidence 0.9 at most Binomial(80, 0.1) releases may exceed it; the bound is of the size of the error."""
    public = {**PUBLIC, "sketch_size": 200}
    mechanism = {
        "plain": lambda: ndis.RandomProjection.calibrated(**public),
        "poisson": lambda: ndis.PoissonProjection.calibrated(**public, rate=0.3),
        "ptr": lambda: ndis.PTRProjection.calibrated(**public, test_noise_std=10.0),
    }[kind]()
    truth = exact_gram(rows, row_norm_bound=1.0).to_float()
    found = releases(mechanism, rows, 80)
    errors = np.array([np.linalg.norm(release.gram() - truth, 2) for release in found])
    bounds = np.array([release.error_bound(0.9) for release in found])
    assert (errors > bounds).sum() <= stats.binom.isf(ALARM, 80, 0.1)
    assert np.median(bounds) < 15 * np.median(errors)


def test_the_bound_of_the_test_fails_as_rarely_as_stated():
    """λ_lb exceeds λ_min with probability δ_ptr, here a tenth: neither more often nor never."""
    mechanism = ndis.PTRProjection.with_ridge(
        ridge=50.0, delta=0.3, sketch_size=2, row_norm_bound=1.0, test_noise_std=2.0, failure_probability=0.1
    )
    many = np.vstack([np.eye(2)] * 8) * 0.9
    smallest = np.linalg.eigvalsh(exact_gram(many, row_norm_bound=1.0).to_float())[0]
    allowed = mechanism.ridge - (smallest - 1.0)  # the ridge where λ_lb = λ_min
    over = sum(release.ridge < allowed for release in releases(mechanism, many, 400))
    assert stats.binom.ppf(ALARM, 400, 0.1) <= over <= stats.binom.isf(ALARM, 400, 0.1)


@pytest.mark.parametrize("bits", [SeededBits(0), SystemBits()], ids=["seed", "system"])
def test_rows_enter_at_the_rate(bits):
    n = 200_000
    mask = PoissonRows(0.3, bits).mask(n)
    assert abs(mask.sum() - 0.3 * n) < LIMIT * np.sqrt(0.21 * n)
    together = (mask[1:] & mask[:-1]).sum()  # neighbours enter independently; variance of the count below 0.16·n
    assert abs(together - 0.09 * n) < LIMIT * 0.4 * np.sqrt(n)
