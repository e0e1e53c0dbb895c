"""Certificates of rare large losses: windows, and sums over the number of jumps, against independent evaluations."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from flint import arb

from ndis._balls import outward, precision
from ndis.accountant import certified as sampled_certified
from ndis.accountant import floats as sampled
from ndis.accountant.certified import SampledGroup, certify_sampled_log
from ndis.accountant.certified_jumps import enclose_by_jumps
from ndis.accountant.certified_parts import Parts
from ndis.accountant.moment_balls import ShiftStep
from ndis.accountant.two import two_steps
from ndis.accountant.windows import WindowStep
from ndis.errors import PrecisionError
from ndis.spectrum.directions import Directions


def shift_group(rate: float, shift: float, steps: int) -> SampledGroup:
    with precision(256):
        return SampledGroup((rate,), Directions([], arb(shift) ** 2), steps)


def by_jumps(groups: list[SampledGroup], epsilon: float, log_delta: float, width: float = 1e-6):
    ball = enclose_by_jumps(lambda: Parts.of(groups, "remove"), epsilon, width, log_delta)
    with precision(128):
        return outward(ball.log())


# ---------------------------------------------------------------------- windows

WINDOWS = [  # rate, shift, low, high, width, c, y
    (0.01, 1.0, -math.inf, 1.0, 0.1, 3.0, 0.0),
    (0.01, 1.0, 1.0, 3.0, 0.1, 3.0, 9.0),
    (1e-6, 0.342, 3.5e-4, 1.1e-3, 1.6e-5, 8e4, 2e5),
    (1e-6, 0.342, -math.inf, 3.5e-4, 1.6e-5, 3e5, 6e5),
    (1e-5, 3.0, 1.7, 4.8, 0.16, 2.7, 11.0),
    (1e-4, 0.02, 4e-5, 9e-5, 4e-7, 1e6, 5e5),
]


def quadrature(rate, shift, window, power):
    """E[g^power W(log g)] by a fine trapezoid rule on the real line; `window` is a function of the loss."""
    q, mu = mp.mpf(rate), mp.mpf(shift)

    def value(x):
        loss = mp.log1p(q * mp.expm1(mu * x - mu * mu / 2))
        return mp.npdf(x) * mp.exp(power * loss) * window(loss)

    step = mp.mpf(1) / 48
    return step * mp.fsum(value(step * j) for j in range(-12 * 48, 45 * 48))


def soft(low, high, width):
    """Φ((high − ℓ)/ω) − Φ((low − ℓ)/ω)."""

    def window(loss):
        top = mp.mpf(1) if high == math.inf else mp.erfc((loss - high) / (mp.sqrt(2) * width)) / 2
        return top - (0 if low == -math.inf else mp.erfc((loss - low) / (mp.sqrt(2) * width)) / 2)

    return window


@pytest.mark.parametrize(("rate", "shift", "low", "high", "width", "c", "y"), WINDOWS)
def test_the_moment_of_a_window(rate, shift, low, high, width, c, y):
    with mp.workdps(35), precision(200):
        step = WindowStep(ShiftStep(arb(rate), arb(shift), remove=True), low, high, width)
        truth = quadrature(rate, shift, soft(low, high, width), mp.mpc(1 + c, y))
        size = quadrature(rate, shift, soft(low, high, width), mp.mpf(1 + c))
        line = step.line(c, 35.0)
        total = sum((w * (arb(y) * log * 1j).exp() for w, log in zip(line.weights, line.logs, strict=True)), 0)
        found = mp.mpc(*(mp.mpf(x.mid().str(60, radius=False)) for x in (total.real, total.imag)))
        error = mp.mpf(line.error.str(20, radius=False))
        assert abs(found - truth) <= error + mp.mpf(10) ** -25 * size
        assert error <= mp.mpf(10) ** -12 * size
        assert abs(step.log_moment(c) - mp.log(size)) <= 1e-9
        moment = step.moment(c, 35.0)
        assert mp.mpf(moment.lower().str(40, radius=False)) * (1 - mp.mpf(10) ** -25) <= size
        assert size <= mp.mpf(moment.upper().str(40, radius=False)) * (1 + mp.mpf(10) ** -25)
        for theta in (step.best_angle(c, y)[1], step._strip(c, 40.0)[0]):
            ceiling = mp.mpf(step.ceiling(c, y, theta, 30.0).str(20, radius=False))
            assert ceiling >= abs(truth) * (1 - mp.mpf(10) ** -15)


@pytest.mark.parametrize(("rate", "shift", "low", "high", "width", "c", "y"), WINDOWS[1:])
def test_the_losses_above_a_window(rate, shift, low, high, width, c, y):
    with mp.workdps(35), precision(200):
        step = WindowStep(ShiftStep(arb(rate), arb(shift), remove=True), low, high, width)
        window = soft(high, math.inf, width)
        for ball, power in zip(step.above(), (1, 0), strict=True):
            truth = quadrature(rate, shift, window, power)
            assert mp.mpf(ball.lower().str(40, radius=False)) <= truth * (1 + mp.mpf(10) ** -18)
            assert truth * (1 - mp.mpf(10) ** -18) <= mp.mpf(ball.upper().str(40, radius=False))
            assert ball.rad() < 1e-15 * ball.mid()
        beta = 2.0 + 1.0 / width
        bound = mp.mpf(step.low_above(beta).str(20, radius=False))
        assert quadrature(rate, shift, window, 1 - beta) <= bound


# ---------------------------------------------------------------------- two and three steps, directly


def panels(rate, shift, epsilon, scale):
    """Ends of panels in x, close together where the rest of the loss passes through its own scale."""
    near = epsilon - scale * np.concatenate([-np.geomspace(1e-2, 1e6, 17), [0.0], np.geomspace(1e-2, 1e2, 9)])
    grown = np.expm1(near[near < 30.0]) / rate
    at = (np.log1p(grown[grown > -1.0]) + 0.5 * shift**2) / shift
    return np.unique(np.concatenate([np.linspace(-10.0, 14.0 + shift, 41), at[(at > -10.0) & (at < 14.0 + shift)]]))


def two(first, second, epsilon):
    """log δ(ε) of two different steps: E_P over the first of the closed form of the second, in mpmath."""
    with mp.workdps(30):
        (q, mu), (p, nu), e = map(mp.mpf, first), map(mp.mpf, second), mp.mpf(epsilon)

        def shift_only(x):
            a, b = (x / nu + s * nu / 2 for s in (-1, 1))
            return (mp.erfc(a / mp.sqrt(2)) - mp.exp(x) * mp.erfc(b / mp.sqrt(2))) / 2

        def value(x):
            loss = mp.log1p(q * mp.expm1(mu * x - mu * mu / 2))
            grown = mp.expm1(e - loss)
            inner = -grown if grown + p <= 0 else p * shift_only(mp.log1p(grown / p))
            return mp.npdf(x) * mp.exp(loss) * inner

        edge = mp.expm1(e - mp.log1p(-p)) / q  # here the closed form changes
        ends = [*panels(*first, epsilon, second[0]).tolist(), (mp.log1p(edge) + mu * mu / 2) / mu]
        return float(mp.log(mp.quad(value, sorted(ends), maxdegree=4)))


def three(rate, shift, epsilon):
    """log δ(ε) of three equal steps: Gauss–Legendre panels over the first, floats of two steps inside."""
    x, w = np.polynomial.legendre.leggauss(12)
    ends = panels(rate, shift, epsilon, rate)
    half = 0.5 * np.diff(ends)
    at = (0.5 * (ends[1:] + ends[:-1])[:, None] + half[:, None] * x).ravel()
    loss = np.log1p(rate * np.expm1(shift * at - 0.5 * shift**2))
    weight = (half[:, None] * w).ravel() * np.exp(loss - 0.5 * at * at) / math.sqrt(2.0 * math.pi)
    inner = [two_steps((rate, shift), (rate, shift), epsilon - y, add=False)[0] for y in loss.tolist()]
    return math.log(float(weight @ np.exp(inner)))


@pytest.mark.parametrize(
    ("first", "second", "epsilon"),
    [
        ((1e-6, 1.0), (1e-6, 1.0), 1e-3),
        ((1e-4, 2.0), (1e-4, 2.0), 0.5),
        ((1e-3, 1.5), (1e-3, 1.5), 1.2),
        ((1e-4, 1.0), (3e-5, 2.0), 0.01),
    ],
)
def test_two_steps_by_direct_integration(first, second, epsilon):
    truth = two(first, second, epsilon)
    groups = [shift_group(*first, 2)] if first == second else [shift_group(*first, 1), shift_group(*second, 1)]
    box = by_jumps(groups, epsilon, truth)
    assert box.width <= 1e-6
    assert box.lower - 1e-12 <= truth <= box.upper + 1e-12


@pytest.mark.parametrize(("rate", "shift", "epsilon"), [(1e-5, 1.0, 2e-3), (1e-4, 0.5, 3e-4)])
def test_three_steps_by_direct_integration(rate, shift, epsilon):
    truth = three(rate, shift, epsilon)
    box = by_jumps([shift_group(rate, shift, 3)], epsilon, truth - 5.0)
    assert box.width <= 1e-6
    assert box.lower - 1e-9 <= truth <= box.upper + 1e-9


# ---------------------------------------------------------------------- many steps

# enclosures of log δ by the plain sum with up to 600,000 nodes, which took up to half a minute each
PLAIN = [
    (1e-6, 1.0, 1_000_000, 0.00650209, -23.025861468215297, -23.025861449274693),
    (1e-6, 3.3, 1000, 19.2153, -46.05176793763652, -46.051767318784144),
    (1e-5, 1.0, 10_000, 3.60689, -115.12927003327914, -115.12927003072447),
    (1e-5, 0.3, 1000, 0.000528632, -27.631027964761973, -27.63102794633385),
    (1e-6, 0.1, 1000, 3.24925e-05, -69.07742837067964, -69.0774283523595),
    (1e-5, 3.0, 10, 3.52722, -18.4206835894225, -18.4206829556209),
]


@pytest.mark.parametrize(("rate", "shift", "steps", "epsilon", "lower", "upper"), PLAIN)
def test_the_plain_sum_agrees(rate, shift, steps, epsilon, lower, upper):
    box = by_jumps([shift_group(rate, shift, steps)], epsilon, lower)
    assert box.width <= 1e-6
    assert max(box.lower, lower) <= min(box.upper, upper)


def test_groups_and_a_plain_release():
    """Where both ways are open, they agree."""
    with precision(256):
        plain = SampledGroup((1.0,), Directions([], arb(0.05)), 1)
    groups = [shift_group(1e-3, 1.0, 500), shift_group(2e-3, 0.7, 300), plain]
    for epsilon in (2.0, 3.5):
        box = certify_sampled_log(groups, epsilon, order="remove")
        other = by_jumps(groups, epsilon, box.lower)
        assert other.width <= 1e-6
        assert max(box.lower, other.lower) <= min(box.upper, other.upper)


@pytest.mark.parametrize(
    ("rate", "shift", "steps", "epsilon", "log_delta"),
    [
        (1.576190111687562e-05, 0.0507509775647905, 6422, 0.0012102114200263079, -192.30563884),
        (1.1692931491535273e-05, 0.3420077018793942, 5523, 0.00694817070591462, -178.78362893),
    ],
)
def test_rare_losses_take_seconds(monkeypatch, rate, shift, steps, epsilon, log_delta):
    """These took 44 and 434 seconds. Floats by another method give the values."""
    monkeypatch.setattr(sampled_certified, "_MOST_NODES", 10_000)  # the plain sum is out of the question
    box = certify_sampled_log([shift_group(rate, shift, steps)], epsilon, order="remove")
    assert box.width <= 1e-6
    assert box.lower - 1e-7 <= log_delta <= box.upper + 1e-7


@pytest.mark.parametrize(("sigma", "rate", "steps", "epsilon"), [(1.0, 1e-4, 10_000, 0.02), (0.7, 1e-3, 300, 0.5)])
def test_a_pessimistic_accountant_is_not_below(sigma, rate, steps, epsilon):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    box = certify_sampled_log([shift_group(rate, 1.0 / sigma, steps)], epsilon, order="remove")
    one = pld.from_gaussian_mechanism(
        sigma, sampling_prob=rate, value_discretization_interval=1e-4, use_connect_dots=True
    )
    found = one.self_compose(steps).get_delta_for_epsilon(epsilon)
    assert math.exp(box.lower) * (1 - 1e-9) <= found <= 1.3 * math.exp(box.upper)


def test_no_split_is_said():
    """With ε below the mean of the losses there is nothing to split."""
    with pytest.raises(PrecisionError):
        by_jumps([shift_group(0.5, 1.0, 100)], -3.0, -0.1)


def test_four_groups_of_tiny_rates():
    """The first guess of δ is far off here, and the plain sum would need too many nodes. Floats: another method."""
    steps = [(6.4e-6, 0.55, 100), (6.4e-6, 0.88, 90), (3.3e-6, 0.91, 80), (1.9e-6, 0.54, 120)]
    box = certify_sampled_log([shift_group(*s) for s in steps], 0.24, order="remove")
    groups = [sampled.SampledGroup(q, np.zeros(1), np.array([mu]), np.ones(1), n) for q, mu, n in steps]
    law = sampled.SampledComposition(groups, "remove")
    value = float(law.log_delta(np.array([0.24]))[0][0])
    assert box.width <= 1e-6
    assert box.lower - 1e-8 <= value <= box.upper + 1e-8
