"""Soft windows of the loss of a sampled sketch (thm:curved-window), and the certificates by jumps that they give."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import acb, arb
from scipy.special import ndtr

from ndis._balls import precision
from ndis.accountant.certified import SampledGroup, certify_sampled_log
from ndis.accountant.curved_balls import CurvedStep
from ndis.accountant.curved_windows import CurvedWindow
from ndis.accountant.floats import SampledComposition
from ndis.accountant.floats import SampledGroup as FloatGroup
from ndis.errors import PrecisionError
from ndis.pair import GaussianPair
from ndis.spectrum.origins import enclose

BITS = 160
SKETCHES = [  # q, t, d, T₁, T₂, ω
    (0.01, 0.25, 20, 1.0, 9.0, 0.1),
    (0.001, 0.2, 50, 0.15, 5.0, 0.02),
    (0.01, 0.2, 10, 0.05, 0.4, 0.01),
    (0.1, 0.5, 2, 0.3, 3.0, 0.05),
]


def whole_of(q, t, d):
    return CurvedStep(arb(q), arb(t), arb(0), d, remove=True)


def integral(q, t, d, s, window):
    """∫ g^{1+s} W(log g) f dR by the trapezoid rule over log R, in floats."""
    half = 0.5 * d
    x, step = np.linspace(-80.0 / d - 3.0, math.log(900.0), 400_001, retstep=True)
    place = np.exp(x)
    log_g = np.log1p(q * np.expm1(-half * math.log1p(t) + t / (2.0 * (1.0 + t)) * place))
    front = -half * math.log(2.0) - math.lgamma(half)
    part = window(log_g)
    inside = part > 0.0  # elsewhere the power may overflow
    return step * (np.exp(((1.0 + s) * log_g + half * x - 0.5 * place + front)[inside]) * part[inside]).sum()


def share(low, high, width):
    return lambda x: ndtr((high - x) / width) - ndtr((low - x) / width)


@pytest.mark.parametrize(("q", "t", "d", "low", "high", "width"), SKETCHES)
@pytest.mark.parametrize("jumps", [False, True])
def test_a_line_against_direct_integration(q, t, d, low, high, width, jumps):
    ends = (low, high) if jumps else (-math.inf, low)
    with precision(BITS):
        part = CurvedWindow(whole_of(q, t, d), *ends, width)
        line = part.line(1.0, 30.0)
        size = math.exp(part.log_moment(1.0))
        assert line.error < 1e-11 * size
        for y in (1.0, 7.0, 60.0):
            turn = acb(0, y)
            got = sum((w * (turn * log).exp() for w, log in zip(line.weights, line.logs, strict=True)), acb(0))
            truth = complex(integral(q, t, d, complex(1.0, y), share(*ends, width)))
            assert abs(got - acb(truth.real, truth.imag)) <= line.error + 1e-11 * size
            log_fall, theta = part.best_angle(1.0, y)
            cap = float(part.ceiling(1.0, y, theta, 30.0))
            assert log_fall <= 0.0
            assert abs(truth) - 1e-11 * size <= cap <= size * math.exp(log_fall) * (1 + 1e-3) + 1e-11 * size


@pytest.mark.parametrize(("q", "t", "d", "low", "high", "width"), SKETCHES)
def test_windows_add_up_to_the_step(q, t, d, low, high, width):
    """Body, jumps and what lies above the windows, at s = 0 with the record and at s = −1 without it."""
    with precision(BITS):
        whole = whole_of(q, t, d)
        body, jumps = CurvedWindow(whole, -math.inf, low, width), CurvedWindow(whole, low, high, width)
        there, here = jumps.above()
        for s, above in ((0.0, there), (-1.0, here)):
            total = body.moment(s, 30.0) + jumps.moment(s, 30.0) + above
            assert total.contains(1)
            assert total.rad() < 1e-11


@pytest.mark.parametrize(("q", "t", "d", "low", "high", "width"), SKETCHES)
def test_the_low_moment_above_the_windows(q, t, d, low, high, width):
    with precision(BITS):
        bound = float(CurvedWindow(whole_of(q, t, d), low, high, width).low_above(2.5))
        truth = float(integral(q, t, d, -2.5, lambda x: ndtr((x - high) / width)))
        assert truth * (1 - 1e-9) <= bound <= 3 * truth


def test_orders_beyond_the_end_of_the_whole_moment():
    """The whole step has no moment at 1/t, and a window that ends has."""
    with precision(BITS):
        part = CurvedWindow(whole_of(0.01, 0.5, 10), -math.inf, 0.2, 0.02)
        truth = float(integral(0.01, 0.5, 10, 40.0, share(-math.inf, 0.2, 0.02)))
        got = part.moment(40.0, 25.0)
        assert abs(got.mid() - truth) <= got.rad() + 1e-11 * truth
        assert got.rad() < 1e-9 * got.mid()


@pytest.mark.parametrize(
    ("t", "m2", "d", "remove"), [(-0.2, 0.0, 5, True), (0.2, 1.0, 5, True), (0.2, 0.0, 1, True), (0.2, 0.0, 5, False)]
)
def test_other_steps_have_no_windows(t, m2, d, remove):
    step = CurvedStep(arb(0.1), arb(t), arb(m2), d, remove=remove)
    assert not CurvedWindow.serves(step)
    with pytest.raises(PrecisionError, match="sketch"):
        CurvedWindow(step, 0.0, 1.0, 0.1)


CASES = [  # groups of (q, t, m, d, steps); ε
    ([(0.001, 0.2, 0.0, 50, 2)], 0.3),
    ([(1e-4, 0.2, 0.0, 50, 5)], 0.3),
    ([(1e-4, 0.2, 0.0, 50, 5)], 4.5e-4),  # no single step is that bad
    ([(1e-6, 0.2, 0.0, 50, 100)], 0.3),
    ([(0.005, 0.4, 0.0, 3, 3)], 0.02),
    ([(0.001, 0.2, 0.0, 50, 3), (0.001, 0.0, 1.0, 1, 3)], 0.3),  # a mean shift beside it
]


@pytest.mark.parametrize(("groups", "epsilon"), CASES)
def test_floats_lie_in_the_enclosure(groups, epsilon):
    boxes = []
    for q, t, m, d, n in groups:
        with precision(256):
            boxes.append(SampledGroup((q,), enclose(GaussianPair.from_ratios(1.0 + t, m, d).origins, 256), n))
    box = certify_sampled_log(boxes, epsilon, order="remove")
    law = [FloatGroup(q, np.array([t]), np.array([m]), np.array([float(d)]), n) for q, t, m, d, n in groups]
    (value,), (error,) = SampledComposition(law, "remove").log_delta(np.array([epsilon]))
    assert box.width <= 1.01e-6
    assert box.lower - 2 * error <= value <= box.upper + 2 * error
