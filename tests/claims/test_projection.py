"""Random projection: what the paper states of its three mechanisms, against the package."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaincc, ndtri

import ndis
from ndis.errors import NotPrivateWarning
from ndis.gram import exact_gram
from ndis.mechanisms.sketch_law import ProjectionLaw
from ndis.paper import calibrated_projection

PUBLIC = {"epsilon": 1.0, "delta": 1e-6, "sketch_size": 100, "row_norm_bound": 1.0}


def printed_delta(epsilon: float, p: float, r: int) -> float:
    """δ of `lemma: rp inherent`: the difference of two upper incomplete gamma functions, ρ = 1/(1 − p)."""
    ratio = 1 / (1 - p)
    edge = (epsilon + 0.5 * r * math.log(ratio)) / (ratio - 1)  # of χ²/2 under the narrower law
    return gammaincc(r / 2, edge) - math.exp(epsilon) * gammaincc(r / 2, ratio * edge)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-15])
@pytest.mark.parametrize("sketch_size", [1, 100, 100_000])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
# Checks thm:sketch-pair.
def test_calibration_is_tight(epsilon, delta, sketch_size, adjacency):
    """alg::RP mechanism, thm:RP-mech-DP — δ ≤ target with certainty, the target itself to 1e-6, and exceeded at a
    leverage larger by a millionth.
    """
    public = {"epsilon": epsilon, "delta": delta, "sketch_size": sketch_size, "row_norm_bound": 1.5}
    mechanism = ndis.RandomProjection.calibrated(**public, adjacency=adjacency)
    for order in ("remove", "add"):
        assert mechanism.profile().certify(epsilon, order=order).upper <= delta
    worst = mechanism.attained()[-1].profile.certify(epsilon)
    assert (1 - 1e-6) * delta <= worst.lower <= worst.upper <= delta
    more = ProjectionLaw(sketch_size, mechanism.ridge / 1.000001, 1.5, adjacency=adjacency).profile()
    assert more.certify(epsilon).lower > delta
    assert mechanism.leverage == pytest.approx(2.25 / mechanism.ridge, rel=1e-15)


def test_calibration_agrees_with_the_printed_formula():
    """lemma: rp inherent, prop:grp-monotone — p* = h/(1 + h) solves the printed equation."""
    mechanism = ndis.RandomProjection.calibrated(**{**PUBLIC, "delta": 1e-4})
    p = mechanism.leverage / (1 + mechanism.leverage)
    assert printed_delta(1.0, p, 100) == pytest.approx(1e-4, rel=1e-8)


@pytest.mark.parametrize("bound", [1.0, 0.3, 7.0])
def test_the_printed_ridge_is_larger_by_the_squared_bound(bound):
    """alg::RP mechanism — l²/p* where l²(1/p* − 1) will do: the record is in its own Gram matrix."""
    public = {**PUBLIC, "row_norm_bound": bound}
    exact = ndis.RandomProjection.calibrated(**public)
    paper = calibrated_projection("paper", **public)
    gap = Fraction(paper.ridge) - Fraction(exact.ridge) - Fraction(bound) ** 2
    assert 0 <= gap <= math.ulp(paper.ridge)
    assert paper.profile().delta(1.0) < 1e-6
    assert paper.calibration == "paper"


def test_a_sketch_is_a_product_with_gaussians():
    """def:grp, def: leverage — one record moves the covariance of each column by h = vᵀ(D'ᵀD' + λI)⁻¹v ≤ l²/λ."""
    rng = np.random.default_rng(0)
    mechanism = ndis.RandomProjection.calibrated(**PUBLIC)
    for n in (0, 3, 50):
        rest, v = rng.normal(size=(n, 4)) * 0.2, np.full(4, 0.5)
        without = rest.T @ rest + mechanism.ridge * np.eye(4)
        pair = ndis.GaussianPair.from_low_rank(np.zeros(4), np.zeros(4), without, v).repeat(100)
        h = v @ np.linalg.solve(without, v)
        assert h <= mechanism.leverage * (1 + 1e-12)
        p = v @ np.linalg.solve(without + np.outer(v, v), v)
        assert p == pytest.approx(h / (1 + h), rel=1e-12)
        assert pair.delta(1.0) <= 1e-6
        assert (pair.delta(1.0) >= (1 - 1e-9) * 1e-6) == (n == 0)


# Checks thm:sketch-replace-one.
def test_replacing_a_record_is_dominated_by_orthogonal_rows():
    """thm:RP-mech-DP for the other adjacency: all neighbours below the guarantee, orthogonal rows on it."""
    rng = np.random.default_rng(1)
    mechanism = ndis.RandomProjection.calibrated(**{**PUBLIC, "sketch_size": 20}, adjacency="replace-one")
    profile = mechanism.profile()
    base = mechanism.ridge * np.eye(3)

    def pair(rest, v, w):
        common = rest.T @ rest + base
        zero = np.zeros(3)
        moments = (zero, common + np.outer(v, v), zero, common + np.outer(w, w))
        return ndis.GaussianPair.from_moments(*moments).repeat(20)

    for trial in range(12):
        v, w = rng.normal(size=(2, 3))
        v, w = v / np.linalg.norm(v), w / np.linalg.norm(w) * rng.uniform(0, 1)
        found = pair(rng.normal(size=(trial % 3, 3)) * 0.3, v, w)
        for epsilon in (0.1, 1.0, 2.0):
            assert found.delta(epsilon) <= profile.delta(epsilon) * (1 + 1e-9)
    met = pair(np.zeros((0, 3)), np.array([1.0, 0, 0]), np.array([0, 1.0, 0]))
    assert met.delta(1.0) == pytest.approx(profile.delta(1.0), rel=1e-9)


@pytest.mark.parametrize("sketch_size", [50, 100, 200, 500])
def test_leverage_beats_the_least_singular_value(sketch_size):
    """fig:leverage-ratio — p* over p_LSV exceeds 2 on the figure's range, and both mechanisms are what they claim."""
    for epsilon in (0.1, 1.0, 5.0):
        public = {**PUBLIC, "epsilon": epsilon, "sketch_size": sketch_size}
        exact = ndis.RandomProjection.calibrated(**public)
        lsv = calibrated_projection("lsv", **public)
        p = exact.leverage / (1 + exact.leverage)
        assert p * lsv.ridge > 2
        log_term = math.log(4e6)
        assert 1 / lsv.ridge == pytest.approx(epsilon / 4 / (math.sqrt(2 * sketch_size * log_term) + log_term))
        renyi = calibrated_projection("renyi", **public)
        assert exact.ridge < renyi.ridge < lsv.ridge


def test_utility():
    """thm:mech-rp-utility — MMᵀ/r − λI has mean DᵀD, and its error is within the bound computed from the sketch."""
    x = np.random.default_rng(2).normal(size=(400, 3)) * 0.3
    truth = exact_gram(x, row_norm_bound=1.0).to_float()
    mechanism = ndis.RandomProjection.calibrated(**{**PUBLIC, "sketch_size": 2000})
    with pytest.warns(NotPrivateWarning):
        release = mechanism.release(x, random_state=0)
    raw = release.sketch.T @ release.sketch / 2000
    assert np.allclose(release.gram(), raw - mechanism.ridge * np.eye(3), rtol=1e-12)
    error = np.linalg.norm(release.gram() - truth, 2)
    eta = math.sqrt(3 / 2000) + math.sqrt(2 * math.log(40) / 2000)
    assert release.error_bound() == pytest.approx((1 / (1 - eta) ** 2 - 1) * np.linalg.norm(raw, 2), rel=1e-4)
    assert error <= release.error_bound() <= 20 * error
    assert error <= (2 * eta + eta**2) * np.linalg.norm(truth + mechanism.ridge * np.eye(3), 2)  # the private form


@pytest.mark.parametrize("rate", [0.5, 0.05])
def test_poisson_wrapper(rate):
    """alg:subsampled-wrapper-rp, thm:subsampling RP-mech-DP — the printed (ε₀, δ₀) gives the exact ridge: removal is
    the worse order.
    """
    sampled = ndis.PoissonProjection.calibrated(**PUBLIC, rate=rate)
    inner = {**PUBLIC, "epsilon": math.log1p(math.expm1(1.0) / rate), "delta": 1e-6 / rate}
    assert sampled.ridge == pytest.approx(ndis.RandomProjection.calibrated(**inner).ridge, rel=1e-9)
    assert sampled.ridge < ndis.RandomProjection.calibrated(**PUBLIC).ridge
    assert sampled.profile().certify(1.0).upper <= 1e-6
    assert sampled.profile().sampling_rate == rate


def test_poisson_sampling_is_monotone_in_the_rate():
    """A record that enters less often than stated is only safer, in both orders."""
    profile = ProjectionLaw(100, 10.0, 1.0).profile()
    for order in ("remove", "add"):
        for epsilon in (0.0, 0.05, 0.5, 1.0):
            found = [profile.subsampled(rate).delta(epsilon, order=order) for rate in (0.01, 0.1, 0.3, 0.9, 1.0)]
            assert (np.diff(found) >= 0).all()


# Checks thm:ptr-joint.
def test_ptr_joint_accounting():
    """alg:ptr-rp — l²/p* is 40.72 jointly and 64.02 with the paper's thirds."""
    joint = ndis.PTRProjection.calibrated(**PUBLIC, test_noise_std=10.0)
    assert joint.failure_probability == pytest.approx(1e-6 / 3)
    assert joint.ridge + 1.0 == pytest.approx(40.72, abs=0.005)
    thirds = calibrated_projection("paper", ndis.PTRProjection, **PUBLIC, test_noise_std=10.0)
    assert thirds.ridge == pytest.approx(64.02, abs=0.005)
    for order in ("remove", "add"):
        assert joint.profile().certify(1.0, order=order).upper <= 1e-6
    assert joint.profile().certify(1.0).upper >= 0.999999e-6


def delta_with_test(mechanism: ndis.PTRProjection, smallest: float, order: str, epsilon: float) -> float:
    """δ of test and sketch on the real line, where λ_min is the sum of squares itself: `smallest` without the record.

    The ridge is the mechanism's function of the noisy eigenvalue y. Given y the sketch is a pair of Gaussians, so δ is
    the integral over y of the density times δ of that pair at ε less the loss of y.
    """
    std, r = mechanism.test_noise_std, mechanism.sketch_size
    quantile = float(ndtri(1 - mechanism.failure_probability))
    sign, centre = (1, smallest + 1.0) if order == "remove" else (-1, smallest)
    other = 2 * smallest + 1.0 - centre

    def integrand(y: float) -> float:
        ridge = max(mechanism.ridge - max(y - std * quantile - 1.0, 0.0), 2.0**-10)
        pair = ndis.GaussianPair.from_ratios(1.0 + 1.0 / (smallest + ridge), copies=r)
        loss = ((y - other) ** 2 - (y - centre) ** 2) / (2 * std**2)
        density = math.exp(-(((y - centre) / std) ** 2) / 2) / (std * math.sqrt(2 * math.pi))
        return density * (pair if sign > 0 else pair.reversed()).delta(epsilon - loss)

    points = [std * quantile + 1.0, std * quantile + 1.0 + mechanism.ridge]
    low, high = centre - 9 * std, centre + 9 * std
    cuts = [low, *(x for x in points if low < x < high), high]
    return sum(quad(integrand, a, b, epsrel=1e-4, epsabs=1e-14, limit=30)[0] for a, b in pairwise(cuts))


@pytest.mark.parametrize("order", ["remove", "add"])
def test_ptr_survives_its_worst_case(order):
    """thm:ptr RP-mech-DP — exact δ of test and sketch together on neighbours with any λ_min stays within δ; with no
    other row it is all of the joint share.
    """
    public = {**PUBLIC, "epsilon": 1.0, "delta": 1e-3, "sketch_size": 20}
    mechanism = ndis.PTRProjection.calibrated(**public, test_noise_std=6.0)
    threshold = 6.0 * float(ndtri(1 - mechanism.failure_probability))
    found = [delta_with_test(mechanism, a, order, 1.0) for a in (0.0, threshold, threshold + 0.5 * mechanism.ridge)]
    assert max(found) <= 1e-3
    if order == "remove":
        assert found[0] == pytest.approx(1e-3 - mechanism.failure_probability, rel=1e-2)


def test_ptr_profitability():
    """prop:ptr-profitability, as a statement in probability — above `profitable_eigenvalue` the ridge is smaller half
    of the time, and well above it nearly always.
    """
    public = {"epsilon": 1.0, "delta": 1e-6, "sketch_size": 100, "row_norm_bound": 1.0}
    mechanism = ndis.PTRProjection.calibrated(**public)
    plain = ndis.RandomProjection.calibrated(**public)
    edge = mechanism.profitable_eigenvalue
    for noise in (5.0, 8.0, 12.0):  # no other noise does much better
        other = ndis.PTRProjection.calibrated(**public, test_noise_std=noise)
        assert edge <= other.profitable_eigenvalue * 1.001
    for extra, smaller in ((-5.0, False), (5.0, True)):
        rows = np.ones((round(edge + extra * mechanism.test_noise_std), 1))
        with pytest.warns(NotPrivateWarning):
            release = mechanism.release(rows, random_state=1)
        assert (release.ridge < plain.ridge) == smaller
        assert release.ridge <= mechanism.ridge
