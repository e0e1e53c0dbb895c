"""Moments of sampled pairs with one variance ratio in balls (thm:curved-line), and the certificates they give."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from flint import acb, arb

import ndis
from ndis._balls import outward, precision
from ndis.accountant import certified as sampled_certified
from ndis.accountant.certified import SampledGroup, bounds_sampled, certify_sampled, certify_sampled_log
from ndis.accountant.certified_parts import Parts
from ndis.accountant.curved_balls import CurvedStep, _bessel
from ndis.accountant.floats import SampledComposition
from ndis.accountant.floats import SampledGroup as FloatGroup
from ndis.accountant.one_release import certify as sample_once
from ndis.errors import PrecisionError
from ndis.pair import GaussianPair
from ndis.spectrum.directions import Directions
from ndis.spectrum.origins import enclose

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
    return CurvedStep(arb(q), arb(t), arb(m2), d, remove=remove)


def group_of(q, t, m, d, steps, order):
    """Steps of a pair with this ratio and this shift in each direction, as the order asks for them."""
    pair = GaussianPair.from_ratios(1.0 + t, m, d)
    pair = pair if order == "remove" else pair.reversed()
    with precision(256):
        return SampledGroup((q,), enclose(pair.origins, 256), steps)


# ---------------------------------------------------------------------- moments


@pytest.mark.parametrize(("q", "t", "m2", "d"), PAIRS)
@pytest.mark.parametrize("power", [2, 3])
def test_whole_powers_have_a_closed_form(q, t, m2, d, power):
    """E(1 − q + qw)^r is a binomial sum of the E w^k."""
    with precision(BITS):
        if not power * arb(t) < 1 + arb(t):
            pytest.skip("this moment is infinite")
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


@pytest.mark.parametrize("order", ["remove", "add"])
@pytest.mark.parametrize(("q", "t", "m"), [(0.3, 0.6, 0.7), (0.3, -0.5, 0.7), (0.05, 0.5, 0.0), (0.7, -0.9, 0.0)])
def test_a_line_of_one_direction_against_direct_integration(q, t, m, order):
    c = 0.8
    with precision(BITS), mp.workdps(30):
        line = step_of(q, t, m * m, 1, remove=order == "remove").line(c, 30.0)
        for y in (0.0, 3.0, 20.0):
            turn = acb(0, y)
            got = sum((w * (turn * log).exp() for w, log in zip(line.weights, line.logs, strict=True)), acb(0))
            truth = integral(q, t, m, mp.mpc(c, y if order == "remove" else -y), order)
            off = abs(got - acb(arb(mp.nstr(truth.real, 28)), arb(mp.nstr(truth.imag, 28))))
            assert off <= line.error + 1e-22
        assert line.error < 1e-11
        assert all(log.imag >= 0 for log in line.logs)


@pytest.mark.parametrize("remove", [True, False])
@pytest.mark.parametrize(("q", "t", "m2", "d"), PAIRS)
def test_ceilings_lie_above_the_line_and_fall(q, t, m2, d, remove):
    c = min(1.5, 0.6 / t) if t > 0 else 1.5
    with precision(BITS):
        step = step_of(q, t, m2, d, remove=remove)
        line = step.line(c, 30.0)
        before = step.moment(c, 30.0)
        for y in (5.0, 50.0, 500.0):
            log_fall, theta = step.best_angle(c, y)
            cap = step.ceiling(c, y, theta, 20.0)
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
        CurvedStep(arb(0.1), arb(0, 1e-9), arb(0), 1, remove=True)


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


@pytest.mark.parametrize("order", ["remove", "add"])
@pytest.mark.parametrize(
    ("q", "t", "m", "d", "epsilon"), [(0.3, 0.3, 0.0, 20, 0.2), (0.3, -0.2, 0.1, 12, 0.2), (0.2, 0.5, 0.3, 6, 0.1)]
)
def test_one_step_has_a_closed_form(q, t, m, d, epsilon, order):
    pair = GaussianPair.from_ratios(1.0 + t, m, d)
    truth = sample_once(pair if order == "remove" else pair.reversed(), epsilon, (q,), order, relative_width=1e-9)
    box = certify_sampled([group_of(q, t, m, d, 1, order)], epsilon, order=order)
    assert box.lower <= truth.upper
    assert truth.lower <= box.upper
    assert box.width <= 1.01e-6 * truth.upper


def two_steps(q, t, epsilon, order):
    """log δ(ε) of two equal steps with d = 2 and no shift: R is twice an exponential variable."""
    q, t, e = mp.mpf(q), mp.mpf(t), mp.mpf(epsilon)
    beta, lead = t / (2 * (1 + t)), -mp.log(1 + t)

    def ratio(r):
        return 1 - q + q * mp.exp(lead + beta * r)

    def one(x):
        """δ(x) of one step: an integral over the R with a loss above x."""
        edge = mp.exp(x) if order == "remove" else mp.exp(-x)
        if edge <= 1 - q:
            return 1 - mp.exp(x) if order == "remove" else mp.mpf(0)
        at = max((mp.log((edge - 1 + q) / q) - lead) / beta, mp.mpf(0))
        above, without = (t > 0) == (order == "remove"), mp.exp(-at / 2)
        mixed = (1 - q) * without + q * mp.exp(-at / (2 * (1 + t)))
        if not above:
            without, mixed = 1 - without, 1 - mixed
        return mixed - mp.exp(x) * without if order == "remove" else without - mp.exp(x) * mixed

    def value(r):
        g = ratio(r)
        weight = mp.exp(-r / 2) / 2
        return weight * (g * one(e - mp.log(g)) if order == "remove" else one(e + mp.log(g)))

    # where the second step meets an end of its loss
    kinks = []
    for end in (mp.log(1 - q), mp.log(ratio(0))):
        edge = mp.exp(e - end) if order == "remove" else mp.exp(-e - end)
        if edge > 1 - q:
            kinks.append((mp.log((edge - 1 + q) / q) - lead) / beta)
    return mp.log(mp.quad(value, sorted([*mp.linspace(0, 400, 101), *(k for k in kinks if 0 < k < 400)])))


@pytest.mark.parametrize(
    ("q", "t", "epsilon", "order"),
    [(0.3, 0.6, 0.2, "add"), (0.3, -0.4, 0.2, "remove"), (0.5, -0.5, 0.3, "add"), (0.9, 0.5, 0.4, "remove")],
)
def test_two_steps_by_direct_integration(q, t, epsilon, order):
    with mp.workdps(25):
        truth = two_steps(q, t, epsilon, order)
    group = group_of(q, t, 0.0, 2, 2, order)
    box = bounds_sampled([group], epsilon, order=order)
    assert math.log(box.lower) - 1e-12 <= truth <= math.log(box.upper) + 1e-12
    assert box.width <= 1e-3 * box.upper


CASES = [  # groups of (q, t, m, d, steps); ε
    ([(0.1, 0.1, 0.0, 50, 10)], 0.5),
    ([(0.01, 0.1, 0.0, 50, 100)], 0.2),
    ([(0.5, 0.1, 0.0, 50, 100)], 3.0),
    ([(0.01, 0.02, 0.0, 100, 100)], 0.05),  # the saddle of the remove order lies at the end of the moments
    ([(0.1, -0.1, 0.0, 30, 10)], 0.3),
    ([(0.1, 1.0, 0.5, 1, 10)], 0.2),
    ([(0.2, 0.3, 0.0, 10, 5), (0.1, 0.0, 1.0, 1, 20)], 0.7),
    ([(0.2, 0.3, 0.0, 10, 5), (1.0, 0.1, 0.2, 3, 2), (0.05, 0.0, 1.0, 1, 9)], 0.9),
]


@pytest.mark.parametrize("order", ["remove", "add"])
@pytest.mark.parametrize(("groups", "epsilon"), CASES)
def test_floats_lie_in_the_enclosure(groups, epsilon, order):
    box = certify_sampled_log([group_of(*g, order) for g in groups], epsilon, order=order)
    law = [FloatGroup(q, np.array([t]), np.array([m]), np.array([float(d)]), n) for q, t, m, d, n in groups]
    law = law if order == "remove" else [g.reversed() for g in law]
    (value,), (error,) = SampledComposition(law, order).log_delta(np.array([epsilon]))
    assert box.width <= 1.01e-6
    assert box.lower - 2 * error <= value <= box.upper + 2 * error


def test_equal_steps_are_one_step():
    one, two = group_of(0.1, 0.2, 0.1, 10, 12, "remove"), group_of(0.1, 0.2, 0.1, 10, 30, "remove")
    assert [n for _, n in Parts.of([one, two], "remove").steps] == [42]
    whole = certify_sampled([group_of(0.1, 0.2, 0.1, 10, 42, "remove")], 1.0, order="remove")
    split = certify_sampled([one, two], 1.0, order="remove")
    assert max(whole.lower, split.lower) <= min(whole.upper, split.upper)


@pytest.mark.parametrize("order", ["remove", "add"])
def test_a_shift_in_one_of_several_directions(order):
    """Rows with one ratio and different shifts are one step: only the length of the shift counts."""
    rows = GaussianPair.from_ratios([1.3, 1.3], [0.5, 0.0], [1, 4])
    even = GaussianPair.from_ratios(1.3, math.sqrt(0.05), 5)
    boxes = []
    for pair in (rows, even):
        pair = pair if order == "remove" else pair.reversed()
        with precision(256):
            group = SampledGroup((0.2,), enclose(pair.origins, 256), 5)
        assert group.single
        boxes.append(certify_sampled([group], 0.3, order=order))
    assert abs(boxes[0].upper / boxes[1].upper - 1.0) < 3e-6


def test_ends_of_the_loss():
    """A wider pair bounds the loss of the add order by less than its rate does; a narrower one bounds both sides."""
    group = group_of(0.2, 0.5, 0.0, 3, 4, "add")
    edge = -4.0 * math.log1p(0.2 * math.expm1(-1.5 * math.log(1.5)))
    assert edge < -4.0 * math.log1p(-0.2)
    assert certify_sampled([group], edge * (1 + 1e-12), order="add") == (0.0, 0.0)
    assert certify_sampled([group], 0.8 * edge, order="add").lower > 0.0
    narrow = group_of(0.2, -0.5, 0.0, 3, 4, "remove")
    edge = 4.0 * math.log1p(0.2 * math.expm1(1.5 * math.log(2.0)))
    assert certify_sampled([narrow], edge * (1 + 1e-12), order="remove") == (0.0, 0.0)
    assert certify_sampled([narrow], 0.5 * edge, order="remove").lower > 0.0
    low = 4.0 * math.log1p(-0.2) - 0.01
    assert -math.expm1(low) in certify_sampled([narrow], low, order="remove")


def test_stand_ins_where_the_sum_is_out_of_reach(monkeypatch):
    group = group_of(0.1, 0.1, 0.0, 12, 3, "remove")
    truth = certify_sampled([group], 0.1, order="remove")
    whole = sampled_certified._search

    def refuse(groups, epsilon, order, width, discrete=None, **options):
        return (
            whole(groups, epsilon, order, width, discrete, **options) if discrete else (arb(0).union(1), math.inf, "")
        )

    monkeypatch.setattr(sampled_certified, "_search", refuse)
    box = bounds_sampled([group], 0.1, order="remove", places=150)
    assert box.lower <= truth.lower
    assert truth.upper <= box.upper
    assert 1e-6 * truth.upper < box.width <= 0.1 * truth.upper


def test_different_ratios_are_not_one():
    assert not SampledGroup((0.1,), Directions([(arb(0.5), arb(0), 1), (arb(0.25), arb(0), 1)], arb(0)), 1).single
    assert not SampledGroup((0.1,), Directions([(arb(0.5), arb(0), 1)], arb(1)), 1).single
    assert not SampledGroup((0.1,), Directions([], arb(1)), 1).single
    vague = arb(0.5, 1e-20)  # two numbers in one ball may differ
    other = arb(0.5, 1e-20)
    assert not SampledGroup((0.1,), Directions([(vague, arb(0), 1), (other, arb(0), 1)], arb(0)), 1).single


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
        vague = CurvedStep(arb(0.2), arb(0.5, 1e-3), arb(0), 3, remove=True)
        sharp = step_of(0.2, 0.5, 0.0, 3, remove=True)
        got = vague.moment(1.0, 20.0)
        assert got.contains(sharp.moment(1.0, 20.0).mid())
        assert outward(got).upper > outward(got).lower * (1 + 1e-5)
