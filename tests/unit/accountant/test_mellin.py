"""Moments of sampled Gaussian pairs by the Mellin–Barnes form, and the compositions on which floats were once wrong."""

import math

import numpy as np
import pytest
from flint import acb, arb

import ndis
from ndis._balls import precision
from ndis.accountant.few import PairStep, two_pairs
from ndis.accountant.laws.mellin import MellinMoment
from ndis.accountant.laws.mellin_balls import MellinStep


def plane(rate, excess, shift, s, *, add):
    """M − 1 of two directions by a trapezoid sum over the plane, which errs by rounding only."""
    x = np.arange(-14.0, 14.0, 0.04)
    logs = [
        -0.5 * math.log1p(t) + 0.5 * x * x - 0.5 * (x - m) ** 2 / (1.0 + t) for t, m in zip(excess, shift, strict=True)
    ]
    weight = np.exp(-0.5 * x * x) * 0.04 / math.sqrt(2.0 * math.pi)
    mixture = np.log1p(rate * np.expm1(np.add.outer(*logs)))
    power = -s if add else 1.0 + s
    return weight @ np.expm1(power * mixture) @ weight


class TestMoments:
    @pytest.mark.parametrize("add", [False, True])
    @pytest.mark.parametrize(
        ("rate", "excess", "shift"),
        [
            (1e-6, [0.3, -0.4], [0.2, 0.0]),
            (0.02, [0.25, 0.1], [0.0, 0.7]),
            (0.4, [-0.6, -0.2], [0.5, 0.0]),
            (1e-3, [-0.9, 0.3], [0.0, 0.0]),
        ],
    )
    @pytest.mark.parametrize("s", [1e-3, 0.6, 1.0, 0.5 + 3.0j, 1.7 + 8.0j])
    def test_two_ratios(self, rate, excess, shift, s, add):
        want = plane(rate, excess, shift, s, add=add)
        t, m = np.array(excess), np.array(shift)
        if add:  # the pair of the add order
            t, m = -t / (1.0 + t), m / np.sqrt(1.0 + t)
        step = MellinMoment(rate, t, m, np.ones(2), add=add)
        (value,), (error,) = step.centred(np.array([s], dtype=complex))
        found = np.expm1(value + step.mean * s)
        assert abs(found - want) <= abs(1 + want) * error + 1e-13 * abs(want) + 1e-15 * rate
        assert error <= 1e-9

    @pytest.mark.parametrize("add", [False, True])
    def test_a_small_rate_and_a_small_difference_keep_their_digits(self, add):
        """M − 1 ≈ ½s(1+s)q²(E w² − 1), far below the rounding of M."""
        rate, t = 1e-6, 1e-4
        step = MellinMoment(rate, np.array([t]), np.zeros(1), np.ones(1), add=add)
        square = math.expm1(-0.5 * math.log1p(-(t**2)))
        (value,), (error,) = step.centred(np.array([1.0 + 0j]))
        want = rate**2 * square if not add else rate**2 * math.expm1(-0.5 * math.log1p(-((t / (1 + t)) ** 2)))
        assert value.real + step.mean == pytest.approx(want, rel=1e-5)
        assert error <= 1e-12 * want

    def test_a_whole_order_is_a_binomial_sum(self):
        step = MellinMoment(0.25, np.array([0.1, -0.3]), np.array([0.2, 0.4]), np.array([3.0, 5.0]), add=False)
        w = [1.0, 1.0]
        for k in (2, 3):
            s, log = k - 1, 0.0
            for t, m, c in ((0.1, 0.2, 3), (-0.3, 0.4, 5)):
                log += c * (-0.5 * s * math.log1p(t) - 0.5 * math.log1p(-s * t) + 0.5 * s * k * m * m / (1 - s * t))
            w.append(math.exp(log))
        want = sum(math.comb(3, k) * 0.75 ** (3 - k) * 0.25**k * w[k] for k in range(4))
        (value,), _ = step.centred(np.array([2.0 + 0j]))
        assert value.real + 2.0 * step.mean == pytest.approx(math.log(want), rel=1e-13)


class TestBalls:
    """Enclosures contain what floats and closed forms say, and are narrow."""

    PAIRS = (
        (0.1, [(0.3, 0.4, 2), (-0.2, 0.1, 3)], 1.2),
        (0.02, [(34.0, 0.0, 10), (1.0, 0.1, 2)], 0.02),
        (1e-3, [(0.1, 0.0, 10), (0.05, 0.1, 2), (-0.3, 0.0, 4)], 4.2),
        (0.3, [(-0.9, 0.0, 1)], 2.5),
    )

    @staticmethod
    def step(rate, directions, *, remove):
        return MellinStep(arb(rate), [(arb(t), arb(m) ** 2, n) for t, m, n in directions], arb(0), remove=remove)

    @pytest.mark.parametrize("remove", [True, False])
    @pytest.mark.parametrize(("rate", "directions", "c"), PAIRS)
    def test_a_line_contains_the_floats(self, rate, directions, c, remove):
        """thm:mellin-moment"""
        with precision(160):
            step = self.step(rate, directions, remove=remove)
            values = step.values(c, arb(2.5), 40, 40.0)  # up to Im s = 97.5
        s = c + 2.5j * np.arange(40)
        log, error = step._floats.centred(s)
        floats = np.exp(log + step._floats.mean * s)
        for ball, value, wrong in zip(values, floats, error * np.abs(floats), strict=True):
            room = wrong + 4e-16 * abs(value) + 4e-16
            assert abs(float(ball.real.mid()) - value.real) <= room
            assert abs(float(ball.imag.mid()) - (value.imag if remove else -value.imag)) <= room
            assert max(float(ball.real.rad()), float(ball.imag.rad())) <= 1e-17 * abs(floats[0])

    @pytest.mark.parametrize("remove", [True, False])
    def test_a_direct_integral_lies_inside(self, remove):
        """One direction without a shift, as a rigorous integral over x."""
        q, t, c = 0.25, -0.5, 1.7
        with precision(120):
            step = self.step(q, [(t, 0.0, 1)], remove=remove)
            value = step.values(c, arb(3), 2, 40.0)[1]
            power = acb(arb(c) + 1, 3) if remove else acb(-arb(c), 3)

            def f(x, analytic):
                ratio = (x * x * arb(t) / (2 * (1 + arb(t)))).exp() / (1 + arb(t)).sqrt()
                return (power * (1 - arb(q) + arb(q) * ratio).log(analytic=analytic)).exp() * (-x * x / 2).exp()

            whole = acb.integral(f, acb(-14), acb(14)) / (2 * arb.pi()).sqrt()
            assert (value - whole).contains(acb(0))
            assert (value - whole).abs_upper() < 1e-18

    def test_a_whole_order_is_a_binomial_sum(self):
        with precision(200):
            step = self.step(0.5, [(0.5, 0.0, 2), (0.25, 0.0, 4)], remove=True)
            square = 1 / ((1 - arb(0.5) ** 2) * (1 - arb(0.25) ** 2) ** 2)
            value = step.moment(1.0, 45.0)
            assert value.overlaps((3 + square) / 4)
            assert float(value.rad()) < 1e-18


def sketch(ratio, copies):
    return ndis.GaussianPair.from_ratios(ratio, copies=copies)


def shift(mu):
    return ndis.PrivacyProfile.from_noise_multiplier(1.0 / mu).remove


Group = ndis.profile.Group
# Floats disagreed with these certificates: the panels of the likelihood ratio ended between its two scales.
CLASHES = [
    (
        [Group(sketch(35.04804978034679, 10), rates=(0.0227935942914759,), count=7), Group(sketch(0.5, 2), count=2)],
        "add",
        4.420728762264271e-06,
        (0.4002473076, 0.4002474065),
    ),
    (
        [
            Group(sketch(28.119336385645838, 10), rates=(0.00015520981916232742,), count=7),
            Group(shift(0.4016581924042109), count=2),
        ],
        "remove",
        0.0,
        (0.22401770782, 0.22403124221),
    ),
    (
        [Group(sketch(307.6767935151242, 1), rates=(0.009501894198206342,), count=113), Group(sketch(0.5, 1), count=2)],
        "add",
        0.6752879144206505,
        (0.3099979157, 0.3099979995),
    ),
    (
        [
            Group(sketch(35.13314042701538, 10), rates=(0.24298606406049258,), count=283),
            Group(shift(1.4965318790525717), rates=(0.006497511078741126,), count=10),
        ],
        "remove",
        20300.10804455031,
        (2.012405744e-12, 2.012407400e-12),
    ),
]


@pytest.mark.parametrize(("groups", "order", "epsilon", "box"), CLASHES)
def test_floats_lie_in_their_certificates(groups, order, epsilon, box):
    law = ndis.PrivacyProfile(groups=groups)._evaluators[order]
    (value,), (error,) = law.log_delta_and_error(np.array([epsilon]))
    assert math.log(box[0]) <= value <= math.log(box[1])
    assert error <= 1e-10


def test_two_steps_of_several_ratios_do_not_depend_on_the_order_of_integration():
    a = PairStep(0.3, np.array([0.5, -0.2]), np.array([0.0, 0.3]), np.array([2.0, 1.0]))
    b = PairStep(0.1, np.array([0.2]), np.array([0.4]), np.array([3.0]))
    (x, wrong), (y, off) = two_pairs(a, b, 0.3, add=False), two_pairs(b, a, 0.3, add=False)
    assert abs(x - y) <= wrong + off
    assert wrong < 1e-11
