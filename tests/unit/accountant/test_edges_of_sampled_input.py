"""Compositions of sampled steps at and beyond the promised range: an answer, or one clear refusal, and no warning."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import ndis
from ndis import DPSGD
from ndis._search import newton_epsilon
from ndis.errors import BudgetError, PrecisionError


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def profile(noise, rate, steps):
    return DPSGD(noise_multiplier=noise, sampling_rate=rate, steps=steps).profile()


CALLS = {
    "delta": lambda p: p.delta(1.0),
    "log_delta": lambda p: p.log_delta([0.5, 1.0]),
    "epsilon": lambda p: p.epsilon(1e-5),
    "certify": lambda p: p.certify(1.0),
    "certified_epsilon": lambda p: p.certified_epsilon(1e-5),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize(
    ("noise", "rate", "steps", "why"),
    [
        (1e-3, 1e-6, 10, "noise multiplier below about 0.07"),
        (0.01, 0.01, 10, "noise multiplier below about 0.07"),
        (1.0, 1e-300, 10, "sampling rate of 1e-300"),
        (1.0, 1e-320, 10, "sampling rate of"),
        (1e9, 0.01, 10, "noise multiplier above 1e"),
    ],
)
def test_what_is_out_of_reach_is_refused(call, noise, rate, steps, why):
    with pytest.raises(PrecisionError, match=why):
        call(profile(noise, rate, steps))


@pytest.mark.parametrize("order", ["worst", "remove"])
def test_one_hopeless_entry_spoils_no_other(order):
    p = profile(1.0, 0.01, 100)
    found = p.log_delta([0.5, 1.0, 1e300], order=order)
    assert found[:2].tolist() == pytest.approx(p.log_delta([0.5, 1.0], order=order).tolist(), rel=1e-12)
    assert found[2] == -math.inf
    assert p.delta([0.5, 1e300], order=order)[1] == 0.0


@pytest.mark.parametrize("target", [1e-3, 1e-2, 0.5])
def test_epsilon_is_zero_where_it_may_be(target):
    p = profile(10.0, 0.001, 10)
    assert p.delta(0.0) < target
    assert p.epsilon(target) == 0.0


def test_a_search_from_above_ends_at_zero():
    """The root is below 0, and every tangent asks for a positive ε first."""
    seen = []

    def excess(e):
        seen.append(e)
        return -1e-3 - math.sqrt(e), 1e-12, 0.5 / math.sqrt(e) if e > 0.0 else math.inf

    assert newton_epsilon(excess, 1.0, math.inf) == 0.0
    assert len(seen) < 20


def test_a_noise_multiplier_for_a_tiny_budget():
    found = DPSGD.calibrated(epsilon=1e-6, delta=1e-9, sampling_rate=0.01, steps=100)
    assert found.noise_multiplier == pytest.approx(243_641, rel=1e-5)
    assert found.profile().certify(1e-6).upper <= 1e-9
    less = ndis.DPSGD(noise_multiplier=0.9999 * found.noise_multiplier, sampling_rate=0.01, steps=100)
    assert less.profile().certify(1e-6).lower > 1e-9


def test_a_budget_that_needs_no_noise():
    with pytest.raises(BudgetError, match="every noise multiplier meets the budget"):
        DPSGD.calibrated(epsilon=3.0, delta=1e-3, sampling_rate=1e-6, steps=900)


@pytest.mark.parametrize("rate", [1e-9, 1e-14])
def test_small_rates_are_answered(rate):
    """At ε = 0 n steps add up: δ(0) is nearly n times that of one step, which is q δ₀(0)."""
    one = ndis.PrivacyProfile.from_noise_multiplier(1.0).delta(0.0)
    assert profile(1.0, rate, 3).delta(0.0) <= 3.0 * rate * one * (1.0 + 1e-9)
    assert profile(1.0, rate, 3).delta(0.0) >= rate * one
    assert np.isfinite(profile(1.0, rate, 100).log_delta(3.0 * rate))


@pytest.mark.parametrize(("noise", "rate", "steps", "epsilon"), [(51.2, 1e-6, 3, 44_575.0), (1.0, 0.01, 100, 1e300)])
def test_a_certificate_of_next_to_nothing(noise, rate, steps, epsilon):
    box = profile(noise, rate, steps).certify(epsilon)
    assert box.lower == 0.0
    assert 0.0 < box.upper <= 1e-322


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "epsilon"), [(300.0, 1e-5, 1_000_000, 2.8e-4), (1e5, 0.01, 100, 3e-6)]
)
def test_much_noise_is_certified(noise, rate, steps, epsilon):
    """A plan that takes large orders for cheap finds no saddle, and the sum there has no end."""
    p = profile(noise, rate, steps)
    box = p.certify(epsilon, order="remove")
    assert box.width <= 1e-6 * box.upper
    assert box.lower * (1.0 - 1e-9) <= p.delta(epsilon, order="remove") <= box.upper * (1.0 + 1e-9)
