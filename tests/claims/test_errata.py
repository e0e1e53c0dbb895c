"""What must not be implemented as printed: each entry of the errata in docs/claims.md that can be shown with the
parts built so far.
"""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import ndis
from ndis.paper.exact_forms import equal_ratio_delta
from ndis.spectrum.closed_forms import mean_shift_delta


def printed_delta_lc(epsilon, distance, rho):
    """δ̄_LC of def:delta-LC with d = 1, ν = ρ∞, φ_s and ψ_u (which the paper never defines) read off the lemma it
    instantiates.
    """

    def covariance(e):
        if e >= rho / 2:
            return 0.0
        s = np.concatenate([[0.0], np.geomspace(1e-4, 1e3, 2000)])
        return math.exp((-2 * e * s + s * rho - 0.5 * np.log1p(2 * s * -math.expm1(-rho))).min())

    split = np.append(np.linspace(0, epsilon, 101), max(epsilon - rho / 2, 0.0))
    return min(float(mean_shift_delta(e, distance)) + math.exp(e) * covariance(epsilon - e) for e in split)


def test_delta_lc_uses_the_easy_order():
    """def:delta-LC — ρ∞ = ν = log 2 admits N(0, 2) from N(0, 1); printed 0 at ε = 1, truth 0.0456."""
    assert printed_delta_lc(1.0, 0.0, math.log(2.0)) == 0.0
    assert ndis.GaussianPair.from_ratios(2.0).delta(1.0) == pytest.approx(0.045611619893, rel=1e-9)
    assert ndis.GaussianPair.from_ratios(2.0).certify(1.0).lower > 0.0456


def test_wrapper_calibrated_as_printed_is_not_private():
    """thm:NDIS-mech-DP, alg::ndis wrapper — Gaussian process regression with σ_n² = 0.01, B = 0.001, l = 1, n = 1
    and (ε, δ) = (1, 1e-5).

    The printed calibration accepts the noise variance 0.18411. The empty data set and {(x⋆, 0.001)} then have δ(1) =
    0.298.
    """
    v = 0.18411
    assert printed_delta_lc(1.0, 0.01 / math.sqrt(v), math.log1p(1 / v)) <= 1.01e-5
    mean, variance = 0.001 / 1.01, 1 - 1 / 1.01
    without, with_record = (0.0, 1.0 + v), (mean, variance + v)
    assert ndis.GaussianPair.from_moments(*without, *with_record).delta(1.0) == pytest.approx(0.298, abs=1e-3)
    assert ndis.GaussianPair.from_moments(*with_record, *without).delta(1.0) == 0.0  # the order that was looked at


def test_bisection_midpoint_overspends():
    """alg::RP mechanism, alg::ndis wrapper — "use binary search to find p⋆": the midpoint exceeds δ in about half
    the runs, the lower end never.
    """
    overspent = 0
    for target in np.geomspace(1e-8, 1e-3, 10):
        low, high = 1e-6, 0.9
        for _ in range(22):
            middle = 0.5 * (low + high)
            if equal_ratio_delta(1.0, 1 / (1 - middle), 100) <= target:
                low = middle
            else:
                high = middle
        overspent += equal_ratio_delta(1.0, 1 / (1 - 0.5 * (low + high)), 100) > target
        assert equal_ratio_delta(1.0, 1 / (1 - low), 100) <= target
    assert 2 <= overspent <= 8


def test_audit_output_is_an_overestimate():
    """lem:ndis-upper-oracle — min(1, max(0, δ̂ + η/2)) is at least δ, so as a lower bound on δ it convicts a correct
    claim.

    The Gaussian mechanism at distance 1 claims its exact δ(1) = 0.12694; with η = 1e-3 and an oracle without error
    the printed auditor reports 0.12744.
    """
    epsilon, eta = 1.0, 1e-3
    claim = ndis.GaussianPair.from_ratios(1.0, shift=1.0).certify(epsilon)
    estimate = ndtr(-0.5) - math.exp(epsilon) * ndtr(-1.5)
    printed = min(1.0, max(0.0, estimate + eta / 2))
    assert printed > claim.upper  # printed: violation
    assert not claim.lower > claim.upper  # the lower end of an enclosure convicts no correct claim
    worst = eta / (2 * (1 + math.exp(epsilon))) * (1 + math.exp(epsilon))  # both oracle errors against us
    assert estimate + worst + eta / 2 == pytest.approx(
        claim.upper + eta, rel=1e-9
    )  # over by η, within the theorem's letter


def test_sigma_is_a_variance():
    """def:additive-noise-family takes N = σ²I, alg::ndis wrapper N = σI.

    σ = 4, means 3 apart, ε = 1: δ = 0.320 as it is, 0.050 if σ is taken for a deviation.
    """
    as_variance, as_deviation = (ndis.GaussianPair.from_moments(3.0, n, 0.0, n).delta(1.0) for n in (4.0, 4.0**2))
    assert as_variance == pytest.approx(mean_shift_delta(1.0, 3.0 / 2.0), rel=1e-12)
    assert as_deviation == pytest.approx(mean_shift_delta(1.0, 3.0 / 4.0), rel=1e-12)
    assert (round(as_variance, 3), round(as_deviation, 3)) == (0.320, 0.050)


def test_deletion_footnote_has_the_order_reversed():
    """The footnote before lemma: rp inherent says deletion gives Σ(D) ⪯ Σ(D'); removing a row can only shrink the
    Gram matrix.
    """
    data = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 2.0]])
    gram, less = data.T @ data, data[:2].T @ data[:2]
    assert np.linalg.eigvalsh(gram - less).round(12).tolist() == [0.0, 5.0]


def test_ptr_profitability_forgets_the_noise():
    """prop:ptr-profitability — λ_lb carries noise η that the claim leaves out: just above the threshold it fails for
    every η below 0.
    """
    ridge_rp, ridge_ptr, tau = 41.0, 64.0, 10.0  # λ_rp and l²/p⋆ of the two calibrations
    alpha = tau * float(ndtri(1 - 1e-6 / 3))
    smallest = alpha + ridge_ptr - ridge_rp + 0.01  # λ_min(DᵀD), above the printed threshold

    def ridge(noise):
        return max(ridge_ptr - max(smallest + noise - alpha, 0.0), 0.0)

    assert ridge(0.0) < ridge_rp
    assert ridge(-tau) > ridge_rp  # probability Φ(−0.001) = 0.4996 of failing at this λ_min


def test_ptr_overspends_when_the_test_alone_exceeds_the_budget():
    """alg:ptr-rp — ε_R = max(ε − ε_T, 0) with ε_T > ε: the proof's "ε_T + ε_R ≤ ε" is false. τ = l², δ_T = 1e-6, ε =
    1.
    """
    pair = ndis.GaussianPair.from_ratios(1.0, shift=1.0)  # l²/τ = 1
    epsilon_t = pair.epsilon(1e-6)
    assert epsilon_t + max(1.0 - epsilon_t, 0.0) > 4.0


def test_leverage_threshold_beats_the_least_singular_value():
    """fig:leverage-ratio — p⋆ exceeds p_LSV on the figure's grid: at twice p_LSV the exact δ is still below 1e-6."""
    for r in (50, 100, 200, 500):
        epsilon = np.linspace(0.1, 5, 8)
        threshold = epsilon / (4 * (math.sqrt(2 * r * math.log(4e6)) + math.log(4e6)))
        assert (equal_ratio_delta(epsilon, 1 / (1 - 2 * threshold), r) < 1e-6).all()


def test_leverage_fact():
    """fact:leverage-basic — 0 ≤ p ≤ 1 and Σp = d."""
    data = np.random.default_rng(5).normal(size=(12, 4))
    leverage = np.einsum("ij,ji->i", data, np.linalg.solve(data.T @ data, data.T))
    assert leverage.sum() == pytest.approx(4.0, rel=1e-12)
    assert ((leverage >= 0) & (leverage <= 1)).all()
