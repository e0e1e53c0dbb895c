"""Laws of the Gram mechanism and of noisy sums, and the low-bit attack against both, on fixed seeds.

Every statistic is compared with its law at a false-alarm rate of 1e-6.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import ndis
from ndis.errors import NotPrivateWarning
from ndis.gram import exact_gram
from ndis.gram.sums import RecordSums
from ndis.mechanisms.rounds import GaussianRounds
from ndis.noise.bits import SeededBits
from ndis.noise.gaussian import exact_symmetric

ALARM = 1e-6
RELEASES = 2000


@pytest.fixture(scope="module")
def noise():
    rows = np.random.default_rng(4).normal(size=(300, 4))
    gram = exact_gram(rows, row_norm_bound=1.0)
    bits = SeededBits(1)
    return np.array(
        [exact_symmetric(gram.exact(ridge=0), noise_std=2.0, random_state=bits).values for _ in range(RELEASES)]
    ) - (gram.to_float())


def test_the_noise_has_its_law(noise):
    """N(0, s²) on the diagonal, N(0, s²/2) beside it, all of them independent."""
    upper = np.triu_indices(4)
    spread = np.where(upper[0] == upper[1], 2.0, math.sqrt(2.0))
    z = noise[:, upper[0], upper[1]] / spread
    for column in z.T:
        assert stats.kstest(column, "norm").pvalue > ALARM
    correlation = np.corrcoef(z.T) * math.sqrt(RELEASES)
    limit = stats.norm.isf(ALARM / 200)
    assert np.abs(correlation[np.triu_indices(10, 1)]).max() < limit


def test_the_error_bound_holds(noise):
    release = ndis.GramMechanism.with_noise(noise_std=2.0, delta=1e-6, row_norm_bound=1.0).release(np.zeros((1, 4)))
    norms = np.linalg.norm(noise, 2, axis=(1, 2))
    for confidence in (0.5, 0.9, 0.99):
        bound = release.error_bound(confidence)
        exceeded = int((norms > bound).sum())
        assert stats.binomtest(exceeded, RELEASES, 1 - confidence, alternative="greater").pvalue > ALARM
        assert bound < 3 * np.quantile(norms, confidence)  # of the size of the error


# --- The low-bit attack: a feature is zero in every record but one -----------------------------------------------

SCALE = 40.72


def could_be_noise_alone(y: np.ndarray) -> np.ndarray:
    """Whether y = fl(SCALE·g) for some float64 g."""
    near = y / SCALE
    candidates = (np.nextafter(near, -np.inf), near, np.nextafter(near, np.inf))
    return np.any([SCALE * g == y for g in candidates], axis=0)


def records(*, present: bool) -> tuple[np.ndarray, np.ndarray]:
    rows = np.random.default_rng(5).uniform(-0.5, 0.5, size=(20, 2))
    rows[:, 1] = 0.0
    rows = np.vstack([rows, [0.3, 0.5]]) if present else rows
    return rows, np.full(len(rows), 0.7)


def secret_sum(*, present: bool):
    found = RecordSums(records(present=present), row_norm_bound=1.0, target_bound=1.0)
    return found.residual_products(np.zeros(2), clip=0.9)


def test_the_attack_breaks_float_noise_on_a_sum():
    rng = np.random.default_rng(6)
    passed = []
    for present in (False, True):
        entry = float(secret_sum(present=present).total.to_float()[1])
        passed.append(could_be_noise_alone(entry + SCALE * rng.standard_normal(RELEASES)))
    assert passed[0].all()  # no false accusation, ever
    assert passed[1].mean() < 0.9  # and one entry alone often proves that the record is there


@pytest.mark.parametrize("what", ["sum", "gram"])
def test_the_attack_has_no_advantage_against_the_engine(what):
    from ndis.noise import exact_normal

    counts = []
    for present in (False, True):
        bits = SeededBits(7 + present)
        if what == "sum":
            mean = secret_sum(present=present).total
            drawn = [exact_normal(mean, noise_std=SCALE, random_state=bits).values[1] for _ in range(RELEASES)]
        else:
            gram = exact_gram(records(present=present)[0], row_norm_bound=1.0)
            drawn = [
                exact_symmetric(gram.exact(ridge=0), noise_std=SCALE, random_state=bits).values[1, 1]
                for _ in range(RELEASES)
            ]
        passed = int(could_be_noise_alone(np.array(drawn)).sum())
        counts.append([passed, RELEASES - passed])
    assert stats.fisher_exact(counts).pvalue > ALARM


def test_low_bits_of_a_released_sum_are_fair_whatever_the_record():
    rounds = GaussianRounds.calibrated(epsilon=1.0, delta=1e-6, sum_shares=[1.0])
    for present in (False, True):
        found, bits = secret_sum(present=present), SeededBits(20 + present)
        drawn = np.concatenate([rounds.release_sum(0, found, random_state=bits).integers for _ in range(RELEASES)])
        for bit in range(3):
            assert stats.binomtest(int((drawn >> bit & 1).sum()), drawn.size, 0.5).pvalue > ALARM


def test_a_seed_says_that_it_is_not_private():
    with pytest.warns(NotPrivateWarning):
        assert not exact_symmetric(
            exact_gram(np.eye(2), row_norm_bound=1.0).exact(ridge=0), noise_std=1.0, random_state=1
        ).private
