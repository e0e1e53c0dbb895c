"""The asymmetry lemma: true wherever it was tried, proved here for equal ratios, and not proved in the paper.

Four printed steps point the wrong way, three in its own proof and one in that of the proposition it rests on. Each is
shown with numbers. Nothing in the package relies on the lemma: both orders are evaluated.
"""

import math

import mpmath as mp
import numpy as np
import pytest

import ndis


def upper(k, x):
    return mp.gammainc(k, x, mp.inf, regularized=True)


def lower(k, x):
    return mp.gammainc(k, 0, x, regularized=True)


def g(d, a, t):
    """g_d of prop:radial-comparison, E(1 − exp(a − tR²/2))₊."""
    k, a, t = mp.mpf(d) / 2, mp.mpf(a), mp.mpf(t)
    if t == 0:
        return max(mp.mpf(0), 1 - mp.exp(a))
    x = max(a / t, mp.mpf(0))
    return upper(k, x) - mp.exp(a) * (1 + t) ** -k * upper(k, (1 + t) * x)


def h(d, a, t):
    """h_d of prop:radial-comparison for t < 1, E(1 − exp(a + tR²/2))₊."""
    k, a, t = mp.mpf(d) / 2, mp.mpf(a), mp.mpf(t)
    if a >= 0 or t == 0:
        return max(mp.mpf(0), 1 - mp.exp(a))
    x = -a / t
    return lower(k, x) - mp.exp(a) * (1 - t) ** -k * lower(k, (1 - t) * x)


def test_asymmetry_lemma():
    """lem: asymetric order for covariance — 100 random pairs Σ₁ ⪰ Σ₂, ε from 0 to past the supremum of the easier
    order.
    """
    rng = np.random.default_rng(0)
    for _ in range(100):
        d = int(rng.integers(1, 6))
        ratio = 1 + 10 ** rng.uniform(-3, 2) * rng.uniform(size=d)
        hard = ndis.GaussianPair.from_ratios(ratio, copies=rng.integers(1, 20, size=d))
        easy = hard.reversed()
        epsilon = easy.loss_supremum() * np.array([0.0, 1e-3, 0.1, 0.5, 0.9, 1.1])
        assert (easy.log_delta(epsilon) <= hard.log_delta(epsilon) + 1e-11).all()


@pytest.mark.parametrize("copies", [1, 2, 3, 10, 100])
@pytest.mark.parametrize("excess", [1e-3, 0.3, 5.0, 1e3])
def test_asymmetry_lemma_for_equal_ratios_is_proved(copies, excess):
    """The step the proof in docs/claims.md turns on: e^{−ε} f(ε) − f(−ε) is negative, then positive, f the density
    of the loss.
    """
    c = 0.5 * copies * math.log1p(excess)
    x = np.linspace(0, 1, 4001)[1:-1]
    log_ratio = (copies - 2) * np.arctanh(x) - c * x * (1 + 2 / excess)  # log of e^{−ε} f(ε)/f(−ε) at ε = cx
    sign = np.sign(log_ratio)
    assert sign[0] < 0
    assert np.count_nonzero(np.diff(sign)) <= 1


def test_radial_comparison_statement():
    """prop:radial-comparison — holds on its whole range as far as tried (smallest relative margin 0.008, at t = 1e6,
    d = 2).
    """
    rng = np.random.default_rng(1)
    for _ in range(400):
        d, t = int(rng.choice([2, 3, 4, 10])), 10 ** rng.uniform(-4, 6)
        a = -0.5 * math.log1p(t) * rng.choice([0.0, 1.0, rng.uniform()])
        assert h(d, a, t / (1 + t)) <= g(d, a + math.log1p(t), t)


def test_radial_comparison_proof_step():
    """Proof of prop:radial-comparison: P_k(x_h) ≥ P_k(x_h/(1+t)) is used to replace −P_k(x_h) from *below* by the
    larger −P_k(x_h/(1+t)).

    At d = 2, t = 1, a = −½ log 2 the difference is 0.2678 and the claimed lower bound of it 0.3284.
    """
    d, t = 2, mp.mpf(1)
    k, a = mp.mpf(d) / 2, -mp.log(1 + t) / 2
    x_g, x_h = (a + mp.log(1 + t)) / t, -a * (1 + t) / t
    difference = g(d, a + mp.log(1 + t), t) - h(d, a, t / (1 + t))
    claimed = upper(k, x_g) * (1 - mp.exp(a) * (1 + t) ** (1 - k)) + lower(k, x_h / (1 + t)) * (
        mp.exp(a) * (1 + t) ** k - 1
    )
    assert (round(float(difference), 4), round(float(claimed), 4)) == (0.2678, 0.3284)


def test_asymmetry_proof_step_h_is_not_nondecreasing():
    """Proof of the lemma: "h_d(a, ·) is nondecreasing in its second argument". It is nonincreasing."""
    assert h(2, -0.5, 0.1) == pytest.approx(0.3268, abs=1e-4)
    assert h(2, -0.5, 0.5) == pytest.approx(0.1548, abs=1e-4)


def test_asymmetry_proof_step_range_of_a():
    """Proof of the lemma: log(1+t) ≤ L is said to give a = ε − L/2 ≥ −½ log(1+t); it gives the opposite. Σ₁ = 4I, d
    = 2, ε = 0.
    """
    total, direction = 2 * math.log(4.0), math.log(4.0)  # L and log(1+t), the same for every direction
    a = 0.0 - total / 2
    assert direction <= total
    assert a < -0.5 * direction  # −1.386 < −0.693: the proposition does not apply


def test_asymmetry_proof_step_g_is_not_nondecreasing():
    """Proof of the lemma: "g_d(·, t) is nondecreasing in its first argument". It is nonincreasing."""
    assert g(2, 0.5, 1.0) == pytest.approx(0.3033, abs=1e-4)
    assert g(2, 1.0, 1.0) == pytest.approx(0.1839, abs=1e-4)


def test_asymmetry_does_not_hold_direction_by_direction():
    """What those steps were to show, h_d(ε − L/2, β(U)) ≤ g_d(ε + L/2, α(U)) for every U, is false: Σ₁ = diag(4, 1),
    U = e₂, ε = 0.
    """
    half = 0.5 * math.log(4.0)
    assert float(h(2, -half, 0.0)) == 0.5  # half is a float, whatever the precision of mpmath
    assert g(2, half, 0.0) == 0
    pair = ndis.GaussianPair.from_ratios([4.0, 1.0])  # while the lemma itself holds, with equality at ε = 0
    assert pair.delta(0.0) == pytest.approx(pair.reversed().delta(0.0), rel=1e-12)
