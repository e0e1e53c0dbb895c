"""Sampled mean shifts whose δ comes from few large losses: floats, certificates, and the other order at −ε."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ndis
from helpers.compositions import certify_log
from ndis.accountant.floats import find_saddle, integrate
from ndis.errors import PrecisionError

# noise multiplier, rate, steps, ε: a narrow body and one jump, several jumps, and a body that goes part of the way
SLOW = pytest.param(0.969, 1e-6, 400_000, 1.2, marks=pytest.mark.sweep)
LONG = pytest.param(1.77, 7.6e-5, 269, 0.185, marks=pytest.mark.sweep)
ONE = [LONG, (1.98, 5.9e-4, 76, 1.24), SLOW]
SEVERAL = [(1.115, 1.17e-3, 114, 13.0), (4.76, 7.3e-5, 838_805, 0.244), (8.2, 4.3e-4, 2913, 0.065)]


def composition(*stages):
    return ndis.DPSGD.from_schedule(stages).profile()._evaluators["remove"]


def enclosed(law, epsilon):
    return certify_log(law.certifier, epsilon, 1e-9)


@pytest.mark.parametrize(("noise", "rate", "steps", "epsilon"), ONE + SEVERAL)
def test_the_value_lies_in_the_certificate(noise, rate, steps, epsilon):
    law = composition((noise, rate, steps))
    (value,), (error,) = law.log_delta_and_error(np.array([epsilon]))
    box = enclosed(law, epsilon)
    assert error <= 1e-10 * (1.0 + abs(value))
    assert box.lower - error <= value <= box.upper + error


def test_groups_with_and_without_sampling():
    """A schedule of full batches and two kinds of steps has no sound float: it is refused, and certified."""
    law = composition((80.14, 1.0, 1), (3.198, 1.077e-3, 224), (90.13, 4.064e-4, 246_970))
    with pytest.raises(PrecisionError):
        law.floats.log_delta(np.array([0.1138]))
    box = law.certify(0.1138, 1e-6)
    assert 0.0 < box.lower <= box.upper <= 1.1 * box.lower


def test_what_the_moments_leave_out_is_in_the_error():
    """The window of the moments is 45 standard deviations out; here a loss beyond counts."""
    law, epsilon = composition((2.0, 1e-4, 3)).floats, np.array([10.0])
    saddle = law._resolved(find_saddle(law, law.mean - 10.0))
    bare = integrate(law, epsilon, 0, saddle)
    assert bare[2][0] < 1e-10  # the integral does not know
    assert law._by_contour(epsilon, 0, saddle)[2][0] > 1e-3
    with pytest.raises(PrecisionError):
        law.log_delta(epsilon)


@pytest.mark.parametrize(("noise", "rate", "steps", "epsilon"), [(0.5, 1e-5, 2, 0.0), (0.5, 1e-3, 3, 2e-3)])
def test_few_steps_at_a_small_rate_are_certified(noise, rate, steps, epsilon):
    """By the other order at −ε: the sum of this order did not get near the width."""
    law = composition((noise, rate, steps))
    box = law.certify(epsilon, 1e-6)
    assert box.width <= 1e-6 * box.upper
    (value,), (error,) = law.log_delta_and_error(np.array([epsilon]))
    assert math.log(box.lower) - error - 1e-14 <= value <= math.log(box.upper) + error + 1e-14
