"""Moments of sampled pairs with one variance ratio in balls (thm:curved-line), and the certificates they give."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from flint import acb, arb

import ndis
from helpers.cases import crossed
from helpers.compositions import composition, in_balls, releases
from ndis._balls import outward, precision
from ndis.accountant.laws.sampled_pair_balls import OneRatioBalls, _bessel, _scaled_bessel
from ndis.accountant.one_release import OneRelease
from ndis.errors import PrecisionError
from ndis.spectrum.invariants import Directions, reverse_direction

BITS = 160
PAIRS = [  # q, t, |m|², d
    (0.1, 0.3, 0.0, 20),
    (0.3, -0.3, 0.0, 5),
    (0.3, 1.0, 0.5, 1),
    (0.3, -0.5, 0.5, 1),
    (0.2, 0.4, 1.0, 3),
    (0.05, 0.01, 1.0, 3),  # a noncentrality of 10⁴
    (0.05, -0.02, 1.0, 2),
    (0.01, 0.1, 0.0, 300),
    (0.3, 0.2, 2.0, 300),
]


def step_of(q, t, m2, d, *, remove):
    """Return the step of d directions with the excess t, of which the first has the shift; t may be a ball."""
    curved = [(arb(t), arb(m2), 1), (arb(t), arb(0), d - 1)][: min(d, 2)]
    pair = Directions(curved if remove else [reverse_direction(one) for one in curved], arb(0))
    return OneRatioBalls(pair, arb(q), remove=remove)


def line_of(step, c):
    return step._on(c, 30.0)


# ---------------------------------------------------------------------- moments


@pytest.mark.parametrize(
    ("q", "t", "m2", "d", "power"),
    [(q, t, m2, d, power) for q, t, m2, d in PAIRS for power in (2, 3) if power * t < 1 + t],  # others are infinite
)
def test_whole_powers_have_a_closed_form(q, t, m2, d, power):
    """E(1 − q + qw)^r is a binomial sum of the E w^k."""
    with precision(BITS):
        truth = arb(0)
        for k in range(power + 1):
            s, rest = arb(k - 1), 1 - (k - 1) * arb(t)
            log = (m2 * s * (1 + s) / rest - d * (s * (1 + arb(t)).log() + rest.log())) / 2
            truth += math.comb(power, k) * arb(q) ** k * (1 - arb(q)) ** (power - k) * log.exp()
        step = step_of(q, t, m2, d, remove=True)
        got = step.moment(power - 1.0, 30.0)
        assert got.overlaps(truth)
        assert 2 * got.rad() < 1e-11 * got.mid()
        assert abs(step.log_moment(power - 1.0) - float(truth.log())) < 1e-7 * (1 + abs(float(truth.log())))


def integral(q, t, m, s, order):
    """M(s) of one direction by mpmath, over the output x itself."""
    q, t, m = mp.mpf(q), mp.mpf(t), mp.mpf(m)
    e = 1 + s if order == "remove" else -s

    def value(x):
        log_w = -mp.log(1 + t) / 2 - (x - m) ** 2 / (2 * (1 + t)) + x * x / 2
        return mp.exp(e * mp.log(1 - q + q * mp.exp(log_w))) * mp.npdf(x)

    return mp.quad(value, mp.linspace(-24, 24, 97))


@pytest.mark.parametrize(
    ("q", "t", "m", "order"),
    crossed(
        [(0.3, 0.6, 0.7), (0.3, -0.5, 0.7), (0.05, 0.5, 0.0), (0.7, -0.9, 0.0)],
        ["remove", "add"],
        keep=[(0.3, -0.5, 0.7, "remove"), (0.05, 0.5, 0.0, "add")],
    ),
)
def test_a_line_of_one_direction_against_direct_integration(q, t, m, order):
    c = 0.8
    with precision(BITS), mp.workdps(30):
        line = line_of(step_of(q, t, m * m, 1, remove=order == "remove"), c)
        for y in (0.0, 3.0, 20.0):
            turn = acb(0, y)
            got = sum((w * (turn * log).exp() for w, log in zip(line.weights, line.logs, strict=True)), acb(0))
            truth = integral(q, t, m, mp.mpc(c, y if order == "remove" else -y), order)
            off = abs(got - acb(arb(mp.nstr(truth.real, 28)), arb(mp.nstr(truth.imag, 28))))
            assert off <= line.error + 1e-22
        assert line.error < 1e-11
        assert all(log.imag >= 0 for log in line.logs)


@pytest.mark.parametrize("remove", [True, False])
@pytest.mark.parametrize(
    ("q", "t", "m2", "d"), [*PAIRS[:5], *(pytest.param(*p, marks=pytest.mark.sweep) for p in PAIRS[5:])]
)
def test_ceilings_lie_above_the_line_and_fall(q, t, m2, d, remove):
    c = min(1.5, 0.6 / t) if t > 0 else 1.5
    with precision(BITS):
        step = step_of(q, t, m2, d, remove=remove)
        line = line_of(step, c)
        before = step.moment(c, 30.0)
        for y in (5.0, 50.0, 500.0):
            log_fall, cap = step.log_ceiling(c, y), step.ceiling(c, y, 20.0)
            assert cap <= before.upper() * (1 + 1e-8)
            share = math.exp(float(cap.log()) - step.log_moment(c))
            assert 0.999 * math.exp(log_fall) <= share <= 1.001 * math.exp(log_fall) + math.exp(-18.0)
            for further in (1.0, 1.1, 2.0):
                pairs = zip(line.weights, line.logs, strict=True)
                value = abs(sum((w * (acb(0, further * y) * log).exp() for w, log in pairs), acb(0)))
                assert (value - line.error).lower() <= cap
            before = cap


def test_a_negative_order_serves_too():
    """E_P e^{−βℓ} of the remove order is a moment of the add order."""
    with precision(BITS):
        one = step_of(0.2, 0.4, 1.0, 3, remove=True).moment(-2.5, 30.0)
        other = step_of(0.2, 0.4, 1.0, 3, remove=False).moment(1.5, 30.0)
        assert one.overlaps(other)
        assert one.rad() < 1e-10


def test_the_moment_is_infinite_from_a_limit_on():
    with precision(BITS):
        step = step_of(0.2, 0.5, 0.0, 3, remove=True)
        assert 1.99 < step.limit <= 2.0
        assert step.log_moment(2.0) == math.inf
        with pytest.raises(PrecisionError, match="infinite"):
            step.moment(2.0, 20.0)
        assert step_of(0.2, 0.5, 0.0, 3, remove=False).limit == math.inf


def test_a_ratio_of_unknown_sign_is_refused():
    with pytest.raises(PrecisionError, match="sign"):
        step_of(0.1, arb(0, 1e-9), 0.0, 1, remove=True)


def test_the_bessel_factor_of_large_orders():
    """Each of the three ways, against the series."""
    with precision(128):
        for order, x in ((1.5, 30.0), (150.0, 19000.0), (500.0, 1e5)):
            term = total = arb(1)
            for n in range(2000):
                term *= arb(x) / ((n + 1) * (arb(order) + n))
                total += term
            got = _bessel(arb(x), arb(order))
            assert got.rel_accuracy_bits() > 80
            assert abs(got / total - 1) < 1e-20


# ---------------------------------------------------------------------- certificates


@pytest.mark.parametrize(
    ("q", "t", "m", "d", "epsilon", "order"),
    crossed(
        [(0.2, 0.3, 0.0, 4, 0.05), (0.3, -0.3, 0.2, 2, 0.1)],
        ["remove", "add"],
        keep=[(0.2, 0.3, 0.0, 4, 0.05, "remove"), (0.3, -0.3, 0.2, 2, 0.1, "add")],
    ),
)
def test_one_step_has_a_closed_form(q, t, m, d, epsilon, order):
    one = releases(q, t, m, 1, d)
    truth = OneRelease(one[0] if order == "remove" else one[0].reversed(), (q,), order).certify(epsilon, 1e-9)
    box = in_balls([one], order).bounds(epsilon, 1e-6)
    assert box.lower <= truth.upper
    assert truth.lower <= box.upper
    assert box.width <= 0.1 * truth.upper


@pytest.mark.parametrize("order", ["remove", "add"])
@pytest.mark.parametrize(
    ("parts", "epsilon"),
    [
        ([(0.1, 0.03, 0.0, 20, 20)], 0.3),
        ([(0.05, 0.2, 0.3, 200, 3), (1.0, 0.0, 0.2, 1, 1)], 1.0),
        ([(0.1, 0.03, 0.0, 20, 20), (0.02, 0.0, 1.0, 50, 1)], 0.6),
    ],
)
def test_floats_lie_in_the_enclosure(parts, epsilon, order):
    law = composition([releases(*part) for part in parts], order)
    (value,), (error,) = law.log_delta_and_error(np.array([epsilon]))
    box = law.certify(epsilon, 1e-6)
    assert math.log(box.lower) <= value + error
    assert value - error <= math.log(box.upper)
    assert box.width <= 1.01e-6 * box.upper


def test_ends_of_the_loss():
    """Wider pairs have a least loss in the remove order, narrower ones a largest."""
    for t, side in ((0.5, 1), (-0.5, -1)):
        law = composition([releases(0.1, t, 0.0, 3, 2)], "remove")
        edge = 3 * math.log1p(0.1 * math.expm1(-math.log1p(t)))
        beyond = edge - 1e-6 if side > 0 else edge + 1e-6
        box = law.certify(beyond, 1e-6)
        assert box == (0.0, 0.0) if side < 0 else -math.expm1(beyond) in box


@pytest.mark.sweep
def test_repeated_sketches():
    """A profile of many sketches: the certificate is narrow, and ε is found from few certificates."""
    mechanism = ndis.PoissonProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=20, row_norm_bound=1.0, rate=0.1)
    profile = mechanism.profile().repeat(20)
    epsilon = profile.certified_epsilon(1e-6)
    box = profile.certify(epsilon)
    assert box.upper <= 1e-6
    assert box.lower >= 0.99e-6
    assert box.width <= 1.01e-6 * box.upper
    assert abs(profile.epsilon(1e-6) / epsilon - 1.0) < 1e-3


def test_the_window_of_a_ball_that_is_not_known():
    """A ball around t that reaches further than the moments allow gives no number that looks certain."""
    with precision(BITS):
        vague = step_of(0.2, arb(0.5, 1e-3), 0.0, 3, remove=True)
        sharp = step_of(0.2, 0.5, 0.0, 3, remove=True)
        got = vague.moment(1.0, 20.0)
        assert got.contains(sharp.moment(1.0, 20.0).mid())
        assert outward(got).upper > outward(got).lower * (1 + 1e-5)


@pytest.mark.parametrize("order", [0.5, 1.0, 1.5, 150.0])
@pytest.mark.parametrize("z", [0.5, 30.0, 2700.0])
def test_bessel_functions_on_wide_balls(order, z):
    """They hold every value inside, and keep the digits that a bound of their slope leaves."""
    with precision(256):
        for turn in (0.0, 0.2):
            middle = acb(z * z / 4, turn * z * z / 4)
            wide = acb(arb(z * z / 4, z * z * 0.005), arb(turn * z * z / 4, z * z * 0.005))
            enclosed = _scaled_bessel(wide, arb(order))
            for move in (0.0, 0.004, -0.004, 0.004j, -0.003 + 0.003j):
                assert enclosed.contains(_scaled_bessel(middle + acb(move * z * z), arb(order)))
            exact = _scaled_bessel(middle, arb(order))
            assert order > 2.0 or enclosed.real.rad() < exact.abs_upper()  # both factors alone have no digit
