"""The NDIS lemma and the exact closed forms of Tool 2, each as the paper prints it, against the package."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

import ndis
from ndis.paper.exact_forms import equal_ratio_delta
from ndis.spectrum.closed_forms import mean_shift_delta, mean_shift_log_delta


def random_covariance(rng, d, spread=1.0):
    root = rng.normal(size=(d, d)) * np.exp(spread * rng.normal(size=d))
    return root @ root.T + 0.1 * np.eye(d)


def printed_quadratic(mean_p, cov_p, mean_q, cov_q, epsilon):
    """a, b, c(ε) of lemma: ndis, letter by letter."""
    values, vectors = np.linalg.eigh(cov_p)
    root = vectors @ np.diag(np.sqrt(values)) @ vectors.T
    inverse = np.linalg.inv(cov_q)
    gap = mean_p - mean_q
    tau, u = np.linalg.eigh(root @ inverse @ root)
    log_det = np.linalg.slogdet(cov_p)[1] - np.linalg.slogdet(cov_q)[1]
    return 1 - tau, -u.T @ root @ inverse @ gap, epsilon + 0.5 * log_det - 0.5 * gap @ inverse @ gap


def hinge_1d(a, b, c):
    """E(1 − exp(c + bZ + aZ²/2))₊ over one standard normal: the set where the quadratic is negative has at most two
    ends.
    """

    def pieces():
        if a == 0:
            root = -c / b
            return [(-math.inf, root)] if b > 0 else [(root, math.inf)]
        disc = b * b - 2 * a * c
        if disc <= 0:
            return [(-math.inf, math.inf)] if a < 0 else []
        low, high = sorted(((-b - math.sqrt(disc)) / a, (-b + math.sqrt(disc)) / a))
        return [(low, high)] if a > 0 else [(-math.inf, low), (high, math.inf)]

    s = 1 / math.sqrt(1 - a)  # e^{g} φ is a multiple of the density of N(b s², s²)
    total = 0.0
    for low, high in pieces():
        total += ndtr(high) - ndtr(low)
        total -= math.exp(c + 0.5 * b * b * s * s) * s * (ndtr((high - b * s * s) / s) - ndtr((low - b * s * s) / s))
    return total


@pytest.mark.parametrize("seed", range(6))
def test_ndis_lemma(seed):
    """lemma: ndis — the expectation as printed, by quadrature over one coordinate, for dense pairs in two
    dimensions.
    """
    rng = np.random.default_rng(seed)
    mean_p, cov_p, mean_q, cov_q = (
        rng.normal(size=2),
        random_covariance(rng, 2),
        rng.normal(size=2),
        random_covariance(rng, 2),
    )
    epsilon = rng.uniform(-0.5, 2)
    a, b, c = printed_quadratic(mean_p, cov_p, mean_q, cov_q, epsilon)

    def outer(z):
        return math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) * hinge_1d(a[0], b[0], c + b[1] * z + 0.5 * a[1] * z * z)

    expectation = sum(quad(outer, k, k + 1, epsabs=1e-13, epsrel=1e-11)[0] for k in range(-9, 9))
    assert ndis.GaussianPair.from_moments(mean_p, cov_p, mean_q, cov_q).delta(epsilon) == pytest.approx(
        expectation, rel=1e-8
    )


def test_ndis_lemma_gives_the_loss_as_a_quadratic():
    """lemma: ndis — g_ε is ε minus the privacy loss: its mean under X is ε − KL."""
    rng = np.random.default_rng(7)
    moments = rng.normal(size=4), random_covariance(rng, 4), rng.normal(size=4), random_covariance(rng, 4)
    a, _, c = printed_quadratic(*moments, 0.0)
    assert ndis.GaussianPair.from_moments(*moments).kl() == pytest.approx(-(c + 0.5 * a.sum()), rel=1e-10)


# --- Tool 2, equal covariances


def mp_mean_shift(epsilon, distance):
    epsilon, mu = mp.mpf(epsilon), mp.mpf(distance)
    x = epsilon / mu
    return (mp.erfc((x - mu / 2) / mp.sqrt(2)) - mp.exp(epsilon) * mp.erfc((x + mu / 2) / mp.sqrt(2))) / 2


def test_mean_shift_as_printed():
    """prop:ndis-mean-analytic-form — the printed formula in 60 digits, from δ = 1 to 1e-200 and μ from 1e-6 to 60."""
    rng = np.random.default_rng(1)
    mu = 10 ** rng.uniform(-6, 1.8, size=400)
    epsilon = mu * mu / 2 + mu * rng.uniform(-8, 30, size=400)
    ours = mean_shift_log_delta(epsilon, mu)
    with mp.workdps(60):
        truth = np.array([float(mp.log(mp_mean_shift(e, m))) for e, m in zip(epsilon, mu, strict=True)])
    assert (np.abs(ours - truth) <= 1e-14 * (1 + np.abs(truth))).all()


def test_mean_shift_is_the_pair():
    rng = np.random.default_rng(2)
    for _ in range(20):
        shift, epsilon = rng.normal(size=3), rng.uniform(-1, 4)
        pair = ndis.GaussianPair.from_ratios(1.0, shift=shift)
        assert pair.delta(epsilon) == pytest.approx(mean_shift_delta(epsilon, np.linalg.norm(shift)), rel=1e-12)


def test_mean_shift_edges():
    assert mean_shift_delta([0.0, 1.0, -1.0], 0.0).tolist() == [0.0, 0.0, -math.expm1(-1.0)]
    assert mean_shift_delta(0.0, 1e3) == 1.0
    assert mean_shift_delta(1.0, 1e-300) == 0.0
    assert mean_shift_log_delta(1e3, 1e-2) == pytest.approx(-5e9, rel=1e-6)
    assert mean_shift_delta(np.ones((2, 1)), np.ones(3)).shape == (2, 3)


@pytest.mark.parametrize("bad", [math.nan, -1.0, math.inf])
def test_mean_shift_refuses(bad):
    with pytest.raises(ndis.ParameterError, match="distance must"):
        mean_shift_delta(1.0, bad)


# --- Tool 2, equal ratios


def mp_equal_ratio(epsilon, ratio, copies):
    with mp.workdps(60):
        epsilon, rho, s = mp.mpf(epsilon), mp.mpf(ratio), mp.mpf(copies) / 2
        x = (epsilon + s * mp.log(rho)) / (rho - 1)  # t₀/2
        tail = (x, mp.inf) if rho > 1 else (0, x)
        tail_q = (rho * x, mp.inf) if rho > 1 else (0, rho * x)
        return (mp.gammainc(s, *tail) - mp.exp(epsilon) * mp.gammainc(s, *tail_q)) / mp.gamma(s)


@pytest.mark.parametrize("copies", [1, 2, 3, 30, 100])
@pytest.mark.parametrize("ratio", [1.001, 1.02, 1.5, 20.0, 0.98, 0.6, 0.01])
def test_equal_ratio_as_printed(copies, ratio):
    """lemma: rp inherent — the printed gamma functions in 60 digits; for τ < 1 the same with the lower ones."""
    for epsilon in (0.0, 0.1, 1.0, 3.0, -0.3):
        if (epsilon + 0.5 * copies * math.log(ratio)) / (ratio - 1) <= 0:
            expected = 0.0 if ratio < 1 else -math.expm1(epsilon)
            assert equal_ratio_delta(epsilon, ratio, copies) == expected
            continue
        truth = mp_equal_ratio(epsilon, ratio, copies)
        value = equal_ratio_delta(epsilon, ratio, copies)
        if truth > 1e-40:
            assert math.fabs(math.log(value) - float(mp.log(truth))) <= 1e-12 * (1 - float(mp.log(truth)))
        if value > 1e-300:
            pair = ndis.GaussianPair.from_ratios(ratio, copies=copies)
            assert pair.log_delta(epsilon) == pytest.approx(math.log(value), rel=1e-11, abs=1e-11)


def test_equal_ratio_is_the_projection_of_neighbours():
    """lemma: rp inherent — N(0, I_r ⊗ DᵀD) against the same without row i, from the matrices themselves; leverage p,
    ρ = 1/(1 − p).
    """
    rng = np.random.default_rng(3)
    data = rng.normal(size=(9, 3))
    gram, r = data.T @ data, 4
    for i in range(3):
        leverage = data[i] @ np.linalg.solve(gram, data[i])
        less = gram - np.outer(data[i], data[i])
        pair = ndis.GaussianPair.from_moments(
            np.zeros(3 * r), np.kron(np.eye(r), gram), np.zeros(3 * r), np.kron(np.eye(r), less)
        )
        assert pair.delta(0.5) == pytest.approx(equal_ratio_delta(0.5, 1 / (1 - leverage), r), rel=1e-9)


def test_equal_ratio_needs_a_full_rank_neighbour():
    """lemma: rp inherent asks only DᵀD ≻ 0; with leverage p = 1 the neighbour is singular, ρ is infinite and δ = 1."""
    gram = np.diag([1.0, 4.0])  # rows e₁ and 2e₂: both have leverage 1
    pair = ndis.GaussianPair.from_moments([0.0, 0.0], gram, [0.0, 0.0], np.diag([1.0, 0.0]))
    assert pair.mutually_singular
    assert pair.delta(5.0) == 1.0


def test_leverage_curve_is_monotone():
    """prop:grp-monotone — nondecreasing in the leverage, with the slope t₀ f(t₀)/ρ of its proof."""
    p = np.linspace(0.001, 0.999, 400)
    for r, epsilon in ((1, 0.0), (2, 1.0), (50, 0.5), (200, 3.0)):
        curve = equal_ratio_delta(epsilon, 1 / (1 - p), r)
        assert (np.diff(curve) >= -1e-13 * curve[1:]).all()
    with mp.workdps(40):
        rho, epsilon, s = mp.mpf("1.7"), mp.mpf("0.8"), mp.mpf(7) / 2
        t0 = 2 * (epsilon + s * mp.log(rho)) / (rho - 1)
        density = (t0 / 2) ** (s - 1) * mp.exp(-t0 / 2) / (2 * mp.gamma(s))
        slope = mp.diff(lambda x: mp_equal_ratio(epsilon, x, 7), rho)
        assert mp.almosteq(slope, t0 / rho * density, rel_eps=mp.mpf(10) ** -10)


def test_equal_ratio_edges():
    assert equal_ratio_delta([0.0, 1.0, -1.0], 1.0, 5).tolist() == [0.0, 0.0, -math.expm1(-1.0)]
    assert equal_ratio_delta(0.5 * math.log(2.0) + 1e-9, 0.5, 1) == 0.0
    assert equal_ratio_delta(-3.0, 1.001, 2) == -math.expm1(-3.0)
    assert equal_ratio_delta(np.ones((2, 1)), [0.5, 1.0, 2.0], 3).shape == (2, 3)
    tall = ndis.GaussianPair.from_ratios(1.001, copies=10_000)
    assert equal_ratio_delta(0.3, 1.001, 10_000) == pytest.approx(tall.delta(0.3), rel=1e-10)


@pytest.mark.parametrize(
    ("name", "ratio", "copies"),
    [("variance_ratio", 0.0, 1), ("variance_ratio", math.nan, 1), ("copies", 2.0, 0), ("copies", 2.0, -3)],
)
def test_equal_ratio_refuses(name, ratio, copies):
    with pytest.raises(ndis.ParameterError, match=f"{name} must"):
        equal_ratio_delta(1.0, ratio, copies)
