"""The paper's lifting section: what it says, corrected where needed, and the noise that comes out.

Labels: def:gaussian-output-alg, def:additive-noise-family, prop:mr-reduction, def: m,R tuple, def: nids function,
def: m,R tuple set, def:ndis-sensitivity-loewner, def:delta-LC, alg::ndis wrapper, thm:NDIS-mech-DP.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import ndis
from ndis import GaussianPair
from ndis._search import smallest_safe
from ndis.paper.sensitivities import printed_bound_not_private
from ndis.spectrum.batch import log_delta_batch
from ndis.worst_case.envelopes import DominatingPairs, LoewnerEnvelope, RankOneEnvelope
from ndis.worst_case.profile import certified_worst_delta, worst_log_delta


class Logistic:
    """Böhning's logistic regression: its rank-one envelope alone (l = 1.5, λ = 3, n_max = 455)."""

    bound, penalty, records = 1.5, 3.0, 455

    def distribution(self, data):
        raise AssertionError("only its sensitivity is asked for here")

    def sensitivity(self, v):
        ridge, square = self.penalty, self.bound**2
        shift = (self.bound / ridge) / math.sqrt(v + 1 / (ridge + self.records * square / 4))
        return RankOneEnvelope(shift, (v + 1 / ridge) / (v + 1 / (ridge + square / 4)) - 1)


class Process:
    """Gaussian process regression at one public point: its worst pairs alone (n_max = 16, B = ½, l = 1, σ_n² = 250)."""

    def __init__(self, records=16, labels=0.5, variance=250.0):
        self.c = records * labels**2 / variance

    def distribution(self, data):
        raise AssertionError("only its sensitivity is asked for here")

    def sensitivity(self, v):
        t, q = 1 / v, 1 / (1 + v)
        remove = GaussianPair.from_ratios(1 - q, math.sqrt(self.c * q))
        return DominatingPairs(remove, GaussianPair.from_ratios(1 + t, math.sqrt(self.c * t)))


def test_noise_of_logistic_regression():
    """(1, 1e-5): 4.1106 exactly; a mean shift alone would need 3.476."""
    exact, renyi, paper = (ndis.lift(Logistic(), epsilon=1, delta=1e-5, bound=b) for b in ("exact", "renyi", "paper"))
    assert exact.noise_variance == pytest.approx(4.110621711, rel=1e-9)
    assert exact.noise_variance < renyi.noise_variance < 1.25 * exact.noise_variance
    assert exact.noise_variance < paper.noise_variance

    class MeanOnly(Logistic):
        def sensitivity(self, v):
            return RankOneEnvelope(super().sensitivity(v).shift_bound, 0.0)

    assert ndis.lift(MeanOnly(), epsilon=1, delta=1e-5).noise_variance == pytest.approx(3.476, abs=5e-4)


def test_noise_of_gaussian_process_regression():
    """(1, 1e-5): 8.0363 exactly; the Rényi bound asks for 16 % more standard deviation."""
    exact, renyi, paper = (ndis.lift(Process(), epsilon=1, delta=1e-5, bound=b) for b in ("exact", "renyi", "paper"))
    assert exact.noise_variance == pytest.approx(8.0362736928, rel=1e-9)
    assert exact.bound_used == "exact (dominating pair)"
    assert exact.noise_variance < renyi.noise_variance < paper.noise_variance
    assert math.sqrt(renyi.noise_variance / exact.noise_variance) < 1.25


def test_release_has_the_law_that_is_accounted():
    """def:gaussian-output-alg, def:additive-noise-family — N(μ, Σ + vI): the variance of 1000 draws; a z-score beyond
    5 has probability below 6e-7."""

    class Fixed(Logistic):
        def distribution(self, data):
            return [1.0], [[2.0]]

    from ndis.noise.bits import SeededBits

    mechanism, bits = ndis.lift(Fixed(), epsilon=1, delta=1e-5), SeededBits(8)
    draws = np.array([mechanism.release(None, random_state=bits).values[0] for _ in range(1000)])
    assert abs(draws.var(ddof=1) / (2.0 + mechanism.noise_variance) - 1) < 5 * math.sqrt(2 / 1000)


def test_whitening_is_all_that_counts():
    """prop:mr-reduction, def: m,R tuple, def: nids function, def: m,R tuple set — δ of N(μ, Σ+N) from N(μ', Σ'+N) is
    δ of N(m, R) from N(0, I), for every pair of the set."""
    rng = np.random.default_rng(3)
    for _ in range(10):
        a, b = rng.normal(size=(2, 3, 3))
        mean, other = rng.normal(size=(2, 3))
        first, second = a @ a.T + 0.5 * np.eye(3), b @ b.T + 0.5 * np.eye(3)
        values, vectors = np.linalg.eigh(second)
        root = vectors @ np.diag(values**-0.5) @ vectors.T
        whitened = GaussianPair.from_moments(root @ (mean - other), root @ first @ root, np.zeros(3), np.eye(3))
        pair = GaussianPair.from_moments(mean, first, other, second)
        assert whitened.log_delta(1.0) == pytest.approx(pair.log_delta(1.0), rel=1e-9, abs=1e-9)


# Checks thm:envelope-renyi.
def test_every_bound_covers_the_loewner_envelope():
    """def:ndis-sensitivity-loewner, def: m,R tuple set — random members in both orders, under both sound bounds."""
    rng = np.random.default_rng(4)
    for _ in range(25):
        d = int(rng.integers(1, 6))
        rho, nu = rng.uniform(0.01, 0.6, 2)
        envelope = LoewnerEnvelope(rng.uniform(0, 0.8), rho, nu, d)
        epsilon = float(rng.uniform(0, 3))
        limits = [worst_log_delta(envelope, epsilon, bound) for bound in ("renyi", "paper")]
        lengths = np.minimum(rng.dirichlet(np.full(d, 0.5), 60) * nu * rng.uniform(0.5, 1, (60, 1)), rho)
        lengths = np.where(lengths > 1e-6, lengths, 0.0)
        shift = rng.normal(size=(60, d))
        shift *= envelope.shift_bound / np.linalg.norm(shift, axis=1, keepdims=True)
        for sign in (1, -1):
            found = log_delta_batch(np.exp(sign * lengths), shift, epsilon=epsilon)
            assert found.max() <= min(limits) + 1e-9


def test_ordering_on_a_sweep():
    """Every bound is at least the exact worst case: 120 rank-one envelopes."""
    rng = np.random.default_rng(6)
    for _ in range(120):
        envelope = RankOneEnvelope(math.exp(rng.uniform(-4, 0)), math.exp(rng.uniform(-7, 0)))
        epsilon = float(rng.choice([0.25, 1.0, 2.0, 4.0]))
        exact, renyi, paper = (worst_log_delta(envelope, epsilon, bound) for bound in ("exact", "renyi", "paper"))
        assert exact <= renyi + 1e-9
        assert exact <= paper + 1e-9
    for _ in range(5):
        envelope = RankOneEnvelope(math.exp(rng.uniform(-3, -1)), math.exp(rng.uniform(-6, -3)))
        exact, renyi, paper = (certified_worst_delta(envelope, 1.0, bound)[0] for bound in ("exact", "renyi", "paper"))
        assert exact <= min(renyi, paper)


@pytest.mark.parametrize("bound", ["renyi", "paper"])
def test_certified_bounds_are_the_floats_rounded_up(bound):
    rng = np.random.default_rng(7)
    for _ in range(10):
        envelope = LoewnerEnvelope(rng.uniform(0, 0.5), *rng.uniform(0.01, 0.3, 2), int(rng.integers(1, 9)))
        value = math.exp(worst_log_delta(envelope, 1.0, bound))
        upper = certified_worst_delta(envelope, 1.0, bound)[0]
        assert upper == pytest.approx(value, rel=1e-9)
        assert upper >= value * (1 - 1e-11)  # each has its own best order, and a bound holds at any


def test_second_term_of_the_paper_is_idle():
    """lem:ndis-cov-analytic-form as used in def:delta-LC: for ε ≥ 0 the infimum over u is at u → 0, where the term is
    zero."""
    u = np.concatenate([[0.0], np.geomspace(1e-8, 1e3, 400)])
    for length in (1e-3, 0.1, 1.0, 5.0):
        for epsilon in (0.0, 0.1, 1.0):
            exponent = 2 * epsilon * u + u * length - 0.5 * np.log1p(2 * u * -math.expm1(-length))
            assert exponent.argmin() == 0
            assert (np.diff(exponent) >= 0).all()


def test_printed_bound_is_not_a_bound():
    """def:delta-LC — N(0, 2) from N(0, 1) is in its envelope: printed 0, certified 0.0456."""
    envelope = LoewnerEnvelope(0.0, math.log(2.0), math.log(2.0), 1)
    assert printed_bound_not_private(envelope, 1.0) == 0.0
    assert GaussianPair.from_ratios(2.0).certify(1.0).lower > 0.0456
    assert certified_worst_delta(envelope, 1.0, "paper")[0] > 0.0456
    with pytest.raises(ndis.ParameterError, match="epsilon"):
        printed_bound_not_private(envelope, -1.0)


def test_mechanism_calibrated_as_printed_violates_its_claim():
    """alg::ndis wrapper, thm:NDIS-mech-DP — Gaussian process regression with σ_n² = 0.01, B = 0.001, l = 1, n = 1 at
    (1, 1e-5): the printed calibration stops at v = 0.1841, where no data and one record are told apart with
    δ(1) = 0.298, thirty thousand times the claim."""

    def printed(v):
        return printed_bound_not_private(LoewnerEnvelope(0.01 / math.sqrt(v), *2 * [math.log1p(1 / v)], 1), 1.0)

    v = smallest_safe(lambda v: math.log(printed(v) or 1e-300), printed, delta=1e-5)
    assert v == pytest.approx(0.184105, abs=2e-6)
    mean, variance = 0.001 / 1.01, 1 - 1 / 1.01  # with the record (x⋆, 0.001); without any: 0 and 1
    pair = GaussianPair.from_moments(0.0, 1.0 + v, mean, variance + v)
    assert pair.certify(1.0).lower > 0.2984
    assert pair.delta(1.0) == pytest.approx(0.298429, abs=2e-6)
    sound = ndis.lift(Process(1, 0.001, 0.01), epsilon=1, delta=1e-5).noise_variance
    safe = GaussianPair.from_moments(0.0, 1.0 + sound, mean, variance + sound)
    assert max(safe.certify(1.0).upper, safe.reversed().certify(1.0).upper) <= 1e-5
    assert sound > 39 * v
