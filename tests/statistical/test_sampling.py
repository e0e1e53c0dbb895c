"""Laws of the sampler and the low-bit attack, on fixed seeds.

Every statistic is compared with its law at a two-sided false-alarm rate of 1e-6, so that all of them together would
fail by chance for fewer than one choice of seeds in 10 000; the seeds here are fixed, so they do not fail by chance.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ndis.errors import NotPrivateWarning
from ndis.gram import exact_gram
from ndis.noise import exact_gaussian, exact_normal, grid_for

ALARM = 1e-6


@pytest.fixture(scope="module")
def covariance() -> np.ndarray:
    A = np.random.default_rng(0).normal(size=(6, 6))
    return A @ A.T + 0.1 * np.eye(6)


@pytest.fixture(scope="module")
def sample(covariance: np.ndarray) -> np.ndarray:
    """20 000 vectors, mean (0, 1, …, 5)."""
    with pytest.warns(NotPrivateWarning):
        drawn = exact_gaussian(np.arange(6), covariance, size=20_000, grid=grid_for(0.1), random_state=1)
    return drawn.values


def test_marginals_are_normal(sample: np.ndarray, covariance: np.ndarray) -> None:
    for i in range(6):
        fit = stats.kstest(sample[:, i], "norm", args=(i, math.sqrt(covariance[i, i])))
        assert fit.pvalue > ALARM


def test_covariances_are_right(sample: np.ndarray, covariance: np.ndarray) -> None:
    """W = Σ⁻½ S Σ⁻½ has independent χ²-like entries: diagonal χ²ₙ, off-diagonal variance n."""
    n = len(sample)
    z = np.linalg.solve(np.linalg.cholesky(covariance), (sample - np.arange(6)).T)
    W = z @ z.T
    diagonal = stats.chi2.cdf(np.diag(W), n)
    assert np.all(np.minimum(diagonal, 1 - diagonal) > ALARM)
    off = W[np.triu_indices(6, 1)] / math.sqrt(n)
    assert np.all(np.abs(off) < stats.norm.isf(ALARM / 2))
    assert np.all(np.abs(z.sum(axis=1)) < math.sqrt(n) * stats.norm.isf(ALARM / 2))


def test_successive_vectors_and_squares_are_independent(sample: np.ndarray, covariance: np.ndarray) -> None:
    z = np.linalg.solve(np.linalg.cholesky(covariance), (sample - np.arange(6)).T)
    limit = stats.norm.isf(ALARM / 2)
    for x in (z, (z**2 - 1) / math.sqrt(2)):
        products = x[:, :-1] @ x[:, 1:].T / math.sqrt(x.shape[1] - 1)
        assert np.all(np.abs(products) < limit)


def test_tails_are_as_heavy_as_they_should_be() -> None:
    """Counts beyond 1, 2, 3 and 4 standard deviations among 100 000 draws, on each side."""
    with pytest.warns(NotPrivateWarning):
        z = exact_normal(np.zeros(100_000), noise_std=1.0, random_state=2).values
    for side in (-z, z):
        for cut in (1.0, 2.0, 3.0, 4.0):
            count = int(np.sum(side > cut))
            assert stats.binomtest(count, len(z), stats.norm.sf(cut)).pvalue > ALARM


def test_the_rounded_law_is_exact_on_a_coarse_grid() -> None:
    """Grid as wide as the noise: every cell's count against Φ differences, by χ²."""
    with pytest.warns(NotPrivateWarning):
        drawn = exact_normal(np.full(50_000, 0.3), noise_std=1.0, grid=1.0, random_state=3)
    cells = np.arange(-3, 5)
    observed = np.array([np.sum(drawn.integers == c) for c in cells])
    edges = stats.norm.cdf(np.append(cells - 0.5, 4.5), loc=0.3)
    expected = np.diff(edges)
    rest = len(drawn.integers) - observed.sum()
    law = np.append(expected, 1 - expected.sum()) * len(drawn.integers)
    assert stats.chisquare(np.append(observed, rest), law).pvalue > ALARM


def test_low_bits_are_fair() -> None:
    """The lowest bit of the released integer is uniform up to e^(−2π²·4²⁰): no pattern to read."""
    with pytest.warns(NotPrivateWarning):
        drawn = exact_normal(np.zeros(20_000), noise_std=1.0, random_state=4)
    for bit in range(8):
        ones = int(np.sum(drawn.integers >> bit & 1))
        assert stats.binomtest(ones, 20_000, 0.5).pvalue > ALARM


# --- The low-bit attack -------------------------------------------------------------------------------------------
# A feature is zero in every record but one. Without that record the float64 sketch of this feature is fl(√λ·g) for a
# float64 g, and not every float64 is such a product. With the record it is a sum, which may be any float64. So a single
# entry that is no such product proves that the record is there.

RIDGE = 40.72
COLUMNS = 40
RELEASES = 2000


def records(*, present: bool) -> np.ndarray:
    """Twenty public-looking records; the last column is zero but for the record in question."""
    rows = np.random.default_rng(5).uniform(-0.5, 0.5, size=(20, 2))
    rows[:, 1] = 0.0
    return np.vstack([rows, [0.3, 0.5]]) if present else rows


def naive_sketches(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """RELEASES × COLUMNS entries of the secret feature's row of DᵀG + √λ·G′ in float64."""
    released = []
    for _ in range(RELEASES):
        projected = rows.T @ rng.standard_normal((len(rows), COLUMNS))
        released.append((projected + math.sqrt(RIDGE) * rng.standard_normal((2, COLUMNS)))[1])
    return np.array(released)


def exact_sketches(rows: np.ndarray, seed: int) -> np.ndarray:
    """The same entries from the release engine."""
    covariance = exact_gram(rows, row_norm_bound=1.0).exact(ridge=RIDGE)
    with pytest.warns(NotPrivateWarning):
        sample = exact_gaussian(
            0, covariance, size=RELEASES * COLUMNS, grid=grid_for(math.sqrt(RIDGE)), random_state=seed
        )
    return sample.values[:, 1].reshape(RELEASES, COLUMNS)


def could_be_noise_alone(y: np.ndarray) -> np.ndarray:
    """Whether y = fl(√λ·g) for some float64 g."""
    root = math.sqrt(RIDGE)
    near = y / root
    candidates = (np.nextafter(near, -np.inf), near, np.nextafter(near, np.inf))
    return np.any([root * g == y for g in candidates], axis=0)


def test_the_low_bit_attack_breaks_a_float_sketch() -> None:
    rng = np.random.default_rng(6)
    without = could_be_noise_alone(naive_sketches(records(present=False), rng)).all(axis=1)
    with_record = could_be_noise_alone(naive_sketches(records(present=True), rng)).all(axis=1)
    assert np.all(without)  # no false accusation, ever
    assert np.mean(with_record) < 0.02  # and the record is found nearly always, although δ < 1e-6 is claimed


def test_the_low_bit_attack_has_no_advantage_against_the_engine() -> None:
    """Entry by entry, and release by release at the best of all thresholds on the number of suspicious entries."""
    passed = [could_be_noise_alone(exact_sketches(records(present=p), 7 + p)) for p in (False, True)]
    counts = [int(p.sum()) for p in passed]
    total = passed[0].size
    assert stats.fisher_exact([[counts[0], total - counts[0]], [counts[1], total - counts[1]]]).pvalue > ALARM
    suspicious = [(~p).sum(axis=1) for p in passed]
    assert stats.ks_2samp(*suspicious).pvalue > ALARM
