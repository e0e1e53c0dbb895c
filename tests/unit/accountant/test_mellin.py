"""Moments of sampled Gaussian pairs by the Mellin–Barnes form, and the compositions on which floats were once wrong."""

import math

import numpy as np
import pytest

import ndis
from ndis.accountant import few
from ndis.accountant.few import PairStep, _over_pair, two_pairs
from ndis.accountant.laws.sampled_pair import SampledPair


def law_of(rate, excess, shift=0.0, copies=1, *, add):
    """Return the law of a step; the pair has the record in its first law."""
    pair = ndis.GaussianPair.from_excess(excess, shift, copies=copies)
    return SampledPair(pair.reversed() if add else pair, (rate,), "add" if add else "remove")


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
        step = law_of(rate, excess, shift, [1, 1], add=add)
        (value,), (error,) = step.centred(np.array([s], dtype=complex))
        found = np.expm1(value + step.mean * s)
        assert abs(found - want) <= abs(1 + want) * error + 1e-13 * abs(want) + 1e-15 * rate
        assert error <= 1e-9

    @pytest.mark.parametrize("add", [False, True])
    def test_a_small_rate_and_a_small_difference_keep_their_digits(self, add):
        """M − 1 ≈ ½s(1+s)q²(E w² − 1), far below the rounding of M."""
        rate, t = 1e-6, 1e-4
        step = law_of(rate, t, add=add)
        (value,), (error,) = step.centred(np.array([1.0 + 0j]))
        want = rate**2 * math.expm1(-0.5 * math.log1p(-(t**2)))
        assert value.real + step.mean == pytest.approx(want, rel=1e-5)
        assert error <= 1e-12 * want

    def test_a_whole_order_is_a_binomial_sum(self):
        step = law_of(0.25, [0.1, -0.3], [0.2, 0.4], [3, 5], add=False)
        w = [1.0, 1.0]
        for k in (2, 3):
            s, log = k - 1, 0.0
            for t, m, c in ((0.1, 0.2, 3), (-0.3, 0.4, 5)):
                log += c * (-0.5 * s * math.log1p(t) - 0.5 * math.log1p(-s * t) + 0.5 * s * k * m * m / (1 - s * t))
            w.append(math.exp(log))
        want = sum(math.comb(3, k) * 0.75 ** (3 - k) * 0.25**k * w[k] for k in range(4))
        (value,), _ = step.centred(np.array([2.0 + 0j]))
        assert value.real + 2.0 * step.mean == pytest.approx(math.log(want), rel=1e-13)


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


def step(rate, ratios, **others):
    pair = ndis.GaussianPair.from_ratios(ratios, **others)
    return PairStep(rate, pair.form, pair.reversed().form)


@pytest.mark.sweep
def test_two_steps_of_several_ratios_do_not_depend_on_the_order_of_integration():
    a = step(0.3, [1.5, 0.8], shift=[0.0, 0.3], copies=[2, 1])
    b = step(0.1, 1.2, shift=0.4, copies=3)
    (x, wrong), (y, off) = (_over_pair(outer, inner, 0.3, False) for outer, inner in ((a, b), (b, a)))
    assert abs(x - y) <= wrong + off
    assert wrong < 1e-11


def test_a_density_without_a_value_has_no_answer(monkeypatch):
    """NaN at one node, of a density or of an error, must not look like a small contribution."""
    a = step(0.3, 1.5, copies=2)
    b = step(0.1, 1.2, shift=0.4, copies=3)
    assert two_pairs(a, b, 0.3, add=False)[1] < 1e-11
    density = few.log_ratio_density
    for entry in (0, 1):

        def spoiled(form, gap, entry=entry):
            both = [array.copy() for array in density(form, gap)]
            both[entry][np.argmax(both[0])] = math.nan
            return tuple(both)

        monkeypatch.setattr(few, "log_ratio_density", spoiled)
        assert not two_pairs(a, b, 0.3, add=False)[1] < 1.0
