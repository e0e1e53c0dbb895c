"""Sampled compositions: identities that hold exactly, and a brute-force evaluation that shares no code with them."""

import math

import numpy as np
import pytest

import ndis
from helpers.compositions import in_floats, releases
from helpers.compositions import shifts as shift
from ndis.accountant.laws.mixture import sampled_shift
from ndis.accountant.laws.sampled_pair import SampledPair
from ndis.pair import GaussianPair


def log_delta(groups, order, *epsilon):
    return in_floats(groups, order).log_delta(np.array(epsilon))[0]


def moment(rate, t, m, copies, order):
    pair = GaussianPair.from_ratios(1.0 + t, shift=m, copies=copies)
    return SampledPair(pair, (rate,), order)  # the pair is that of the order


def brute_force(rate, mu, count, epsilon, order):
    """The vertical line with equal steps, and the real line with equal steps inside it; no tilt, no bend."""
    high = 10.0 + 12.0 * mu if order == "remove" else 12.0
    x = np.arange(-10.0, high, min(0.05, 0.25 / mu))
    u = rate * np.expm1(mu * x - 0.5 * mu * mu)
    ell = np.log1p(u)
    p = np.exp(-0.5 * x * x) * (x[1] - x[0]) / math.sqrt(2 * math.pi)

    def log_moment(s):
        power = np.atleast_1d(1.0 + s if order == "remove" else -s)[:, None]
        excess = np.exp(power * ell) - 1.0 - power * u
        return count * np.log1p((p * excess).sum(1))

    grid = np.geomspace(1e-3, 10.0 / mu if order == "remove" else 1e4, 400)
    with np.errstate(over="ignore", invalid="ignore"):
        height = log_moment(grid + 0j).real - grid * epsilon - np.log(grid * (grid + 1.0))
    c, lowest = grid[np.nanargmin(height)], np.nanmin(height)
    step, total, k = c / 6.0, 0.0, 0
    while True:
        s = c + 1j * step * np.arange(k, k + 256)
        f = np.exp(log_moment(s) - s * epsilon - lowest) / (s * (s + 1.0))
        f[0] *= 0.5 if k == 0 else 1.0
        total += f.real.sum()
        k += 256
        if np.abs(f[-32:]).max() < 1e-15 * abs(total) or k > 40000:
            break
    return math.log(total * step / math.pi) + lowest


def random_case(seed):
    rng = np.random.default_rng(seed)
    order = "remove" if seed % 2 else "add"
    count, rate, mu = int(10 ** rng.uniform(2, 5)), 10 ** rng.uniform(-2, -0.5), 10 ** rng.uniform(-1, 0)
    spread = math.sqrt(count * rate**2 * math.expm1(mu * mu))
    epsilon = 0.5 * spread**2 + spread * rng.uniform(-0.5, 4.0)
    if order == "add":
        epsilon = min(epsilon, -0.7 * count * math.log1p(-rate))
    return rate, mu, count, max(epsilon, 0.0), order


@pytest.mark.parametrize("seed", range(50))
def test_brute_force_agrees(seed):
    rate, mu, count, epsilon, order = random_case(seed)
    (got,), (error,) = in_floats([shift(rate, mu, count)], order).log_delta(np.array([epsilon]))
    want = brute_force(rate, mu, count, epsilon, order)
    assert abs(got - want) <= 1e-9 * (1 + abs(want)), (rate, mu, count, epsilon, order)
    assert error <= 1e-11 * (1 + abs(got))


@pytest.mark.parametrize("order", ["remove", "add"])
def test_a_group_may_be_split_and_reordered(order):
    whole = log_delta([shift(0.01, 1.0, 1000), shift(0.02, 0.5, 300)], order, 0.5, 1.5)
    parts = log_delta([shift(0.02, 0.5, 100), shift(0.01, 1.0, 1000), shift(0.02, 0.5, 200)], order, 0.5, 1.5)
    np.testing.assert_allclose(parts, whole, rtol=1e-11)


@pytest.mark.parametrize("order", ["remove", "add"])
def test_rate_one_is_plain_composition(order):
    """n plain shifts are one shift of √n times the size, and its δ is closed."""
    mu, epsilon = 0.3 * math.sqrt(7), 1.1
    phi = [0.5 * math.erfc(-a / math.sqrt(2)) for a in (mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu)]
    want = math.log(phi[0] - math.exp(epsilon) * phi[1])
    assert log_delta([shift(1.0, 0.3, 7)], order, epsilon)[0] == pytest.approx(want, rel=1e-11)


@pytest.mark.parametrize("order", ["remove", "add"])
def test_one_step_is_the_closed_form(order):
    """δ(ε) = a δ₀(ε'), e^ε' − 1 = (e^ε − 1)/a, for one step at any rate."""
    rate, mu, epsilon = 0.3, 1.2, 0.2
    a = rate if order == "remove" else rate - (1 - rate) * math.expm1(epsilon)
    inner = math.log1p(math.expm1(epsilon) / a)
    phi = [0.5 * math.erfc(-b / math.sqrt(2)) for b in (mu / 2 - inner / mu, -mu / 2 - inner / mu)]
    want = math.log(a * (phi[0] - math.exp(inner) * phi[1]))
    assert log_delta([shift(rate, mu, 1)], order, epsilon)[0] == pytest.approx(want, rel=1e-10)


def test_delta_grows_with_rate_steps_and_shift_and_falls_with_epsilon():
    base = log_delta([shift(0.01, 1.0, 1000)], "remove", 1.0)[0]
    for larger in (shift(0.011, 1.0, 1000), shift(0.01, 1.05, 1000), shift(0.01, 1.0, 1100)):
        assert log_delta([larger], "remove", 1.0)[0] > base
    curve = log_delta([shift(0.01, 1.0, 1000)], "remove", *np.linspace(-3, 6, 200))
    assert (np.diff(curve) < 0).all()
    assert curve[0] <= 0


def test_many_epsilon_on_shared_paths_are_those_of_one_at_a_time():
    composition = in_floats([shift(0.02, 0.8, 2000)], "remove")
    epsilon = np.linspace(-1.0, 12.0, 40)
    together, _ = composition.log_delta(epsilon)
    alone = [composition.log_delta(np.array([e]))[0][0] for e in epsilon]
    np.testing.assert_allclose(together, alone, rtol=1e-11)


def test_beyond_the_end_of_the_loss_delta_is_exactly_zero():
    end = -50 * math.log1p(-0.01)
    assert log_delta([shift(0.01, 1.0, 50)], "add", end * 1.0001)[0] == -math.inf
    low = log_delta([shift(0.01, 1.0, 50)], "remove", -end * 1.0001)[0]
    assert low == pytest.approx(math.log(-math.expm1(-end * 1.0001)), rel=1e-14)


def test_two_steps_far_out_in_the_add_order():
    """Near the end of the loss δ comes from the far left; it is small there and not zero."""

    groups = [shift(0.0129600985, 0.0420466, 1), shift(7.96265763e-05, 0.21039414, 1)]
    (got,), _ = in_floats(groups, "add").log_delta(np.array([0.006777468711]))
    contour = in_floats(groups, "add")
    contour.__dict__["_few_steps"] = ()
    (want,), _ = contour.log_delta(np.array([0.006777468711]))
    assert -168 < want < -167
    assert got == pytest.approx(want, rel=1e-11)


def test_epsilon_meets_its_delta():
    for order in ("remove", "add"):
        e = in_floats([shift(256 / 60000, 1 / 1.1, 14062)], order).epsilon(1e-5)
        assert log_delta([shift(256 / 60000, 1 / 1.1, 14062)], order, e)[0] <= math.log(1e-5)
        assert log_delta([shift(256 / 60000, 1 / 1.1, 14062)], order, e * (1 - 1e-9))[0] > math.log(1e-5)
    assert in_floats([shift(256 / 60000, 1 / 1.1, 14062)], "remove").epsilon(1e-5) == pytest.approx(
        2.38159692, abs=1e-8
    )


@pytest.mark.parametrize("order", ["remove", "add"])
@pytest.mark.parametrize("s", [0.5, 2.0 + 3.0j, 1.5 + 40.0j])
def test_both_ways_to_a_moment_agree_on_a_shift(order, s):
    """The trapezoid on a tilted line and the Mellin–Barnes integral."""
    pair = GaussianPair.from_ratios(1.0, shift=0.7)
    line, barnes = sampled_shift(pair, (0.05,), order), SampledPair(pair, (0.05,), order)
    point = np.array([s], dtype=complex)
    a, b = (m.centred(point)[0][0] + m.mean * s for m in (line, barnes))
    assert abs(a - b) <= 1e-12 * abs(a)


@pytest.mark.parametrize("order", ["remove", "add"])
@pytest.mark.parametrize(("t", "m"), [(0.4, 0.3), (-0.4, 0.3), (0.4, 0.0)])
def test_moments_of_a_pair_are_those_of_a_direct_sum(order, t, m):
    add, rate, s = order == "add", 0.1, 1.2 + 6.0j
    x = np.arange(-40.0, 40.0, 0.002)
    p, q = np.exp(-0.5 * (x - m) ** 2 / (1 + t)) / math.sqrt(1 + t), np.exp(-0.5 * x * x)
    own, other = (p, q) if add else (q, p)
    with np.errstate(divide="ignore", invalid="ignore"):
        mixed = own * np.exp((-s if add else 1 + s) * np.log((1 - rate) + rate * other / own))
    want = np.nansum(mixed) * 0.002 / math.sqrt(2 * math.pi)
    law = moment(rate, t, m, 1, order)
    got = np.exp(law.centred(np.array([s]))[0][0] + law.mean * s)
    assert abs(got - want) <= 1e-10 * abs(want)


@pytest.mark.parametrize("s", [0.7, 3.0 + 8.0j, 10.0 + 30.0j])
def test_moments_of_a_sketch_are_those_of_a_chi_square(s):
    """r equal directions without a shift: the loss depends on one chi-square variable only."""
    rate, t, r = 0.05, 1 / 35.54, 100
    x = np.arange(1.0, 600.0, 0.01)
    law = np.exp((r / 2 - 1) * np.log(x / 2) - x / 2 - math.lgamma(r / 2)) / 2
    ratio = np.exp(-0.5 * r * math.log1p(t) + 0.5 * t / (1 + t) * x)
    want = (law * ((1 - rate + rate * ratio) ** (1 + s))).sum() * 0.01
    sketch = moment(rate, t, 0.0, r, "remove")
    got = np.exp(sketch.centred(np.array([s], dtype=complex))[0][0] + sketch.mean * s)
    assert abs(got - want) <= 1e-10 * abs(want)


@pytest.mark.parametrize("order", ["remove", "add"])
def test_a_sampled_sketch_composes(order):
    """Splitting changes nothing, and many steps at a small rate are near the Gaussian law of their variance."""
    sketch, half = (releases(0.01, 1 / 35.54, 0.0, n, 100) for n in (2000, 1000))
    whole = log_delta([sketch], order, 0.1, 0.3)
    np.testing.assert_allclose(log_delta([half, half], order, 0.1, 0.3), whole, rtol=1e-11)
    ratio = (1 - (1 / 35.54) ** 2) ** -50  # E w² under the law without the record
    mu = math.sqrt(2000 * 0.01**2 * (ratio - 1))
    near = log_delta([shift(1.0, mu, 1)], order, 0.1, 0.3)
    assert np.abs(whole - near).max() < 0.5


@pytest.mark.parametrize("guess", [1e-9, 0.5, 2.3815969, 2.3816, 40.0, -1.0])
def test_a_guess_does_not_change_epsilon(guess):
    law = in_floats([shift(256 / 60000, 1 / 1.1, 14062)], "remove")
    got = law.epsilon(1e-5, guess)
    assert got == pytest.approx(law.epsilon(1e-5), rel=1e-12)
    assert law.log_delta(np.array([got]))[0][0] <= math.log(1e-5)


def test_epsilon_after_several_numbers_of_steps_is_that_of_each():
    """Each answer starts from its neighbours; a change of the schedule makes those bad guesses."""
    schedule = ndis.DPSGD.from_schedule([(1.0, 0.01, 300), (0.6, 0.05, 200), (8.0, 0.3, 500)])
    steps = [1, 10, 299, 301, 501, 1000, 10]
    got = schedule.epsilon_after(steps, delta=1e-6)
    np.testing.assert_allclose(got, [schedule.after(n).epsilon(1e-6) for n in steps], rtol=1e-12)
