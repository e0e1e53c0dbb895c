"""For every profile: worst of both orders, composition as concatenation, sampling, inversion, round trips."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

ROUNDING = 1e-11


def plain(largest: float) -> st.SearchStrategy[float]:
    """Zero, or of either sign and not tiny: pairs that nearly agree are tested where the kernel is."""
    return st.one_of(st.just(0.0), st.floats(1e-6, largest), st.floats(-largest, -1e-6))


directions = st.lists(
    st.tuples(plain(math.log(5.0)).map(math.exp), plain(2.0), st.integers(1, 20)),
    min_size=1,
    max_size=3,
)
pairs = directions.map(lambda rows: GaussianPair.from_ratios(*(np.array(c) for c in zip(*rows, strict=True))))
rates = st.floats(math.log(1e-6), math.log(0.999)).map(math.exp)
epsilons = st.floats(0.0, 5.0)
many = settings(max_examples=40, deadline=None)
few = settings(max_examples=12, deadline=None)


def close(a: float, b: float) -> bool:
    """Equal logarithms of δ, to rounding: 1e-11 of δ and of log δ."""
    return a == b or math.fabs(a - b) <= ROUNDING * (1.0 + math.fabs(a))


@many
@given(pairs, epsilons)
def test_worst_of_both_orders(pair, epsilon):
    profile = PrivacyProfile(pair)
    assert profile.log_delta(epsilon) == max(pair.log_delta(epsilon), profile.add.log_delta(epsilon))
    assert PrivacyProfile(pair.reversed()).log_delta(epsilon) == pytest.approx(
        profile.log_delta(epsilon), rel=1e-11, abs=1e-11
    )


@many
@given(pairs, pairs, epsilons)
def test_composition_is_concatenation(one, two, epsilon):
    both = PrivacyProfile(one).compose(PrivacyProfile(two))
    joint = PrivacyProfile(
        GaussianPair.from_ratios(
            *(np.concatenate([getattr(p, a) for p in (one, two)]) for a in ("variance_ratio", "shift", "copies"))
        )
    )
    for order in ("remove", "add"):
        assert close(both.log_delta(epsilon, order=order), joint.log_delta(epsilon, order=order))


@many
@given(pairs, st.integers(1, 5), epsilons)
def test_repeat_is_composition(pair, times, epsilon):
    profile = PrivacyProfile(pair)
    assert close(profile.repeat(times).log_delta(epsilon), profile.compose(*[profile] * (times - 1)).log_delta(epsilon))


@many
@given(pairs, rates, epsilons)
def test_sampling_helps_and_the_whole_is_the_limit(pair, rate, epsilon):
    """δ grows with the rate in each order, is at most the rate, and at rate one is that of the whole."""
    whole = PrivacyProfile(pair)
    for order in ("remove", "add"):
        some = whole.subsampled(rate).log_delta(epsilon, order=order)
        fewer = whole.subsampled(0.5 * rate).log_delta(epsilon, order=order)
        everything = whole.log_delta(epsilon, order=order)
        slack = ROUNDING * (1.0 + math.fabs(some)) if some > -math.inf else 0.0
        assert fewer <= some + slack
        assert some <= everything + slack
        assert some <= math.log(rate) + slack


@many
@given(pairs, rates, rates, epsilons)
def test_a_sample_of_a_sample(pair, first, second, epsilon):
    profile = PrivacyProfile(pair)
    twice, once = profile.subsampled(first).subsampled(second), profile.subsampled(second).subsampled(first)
    assert twice.log_delta(epsilon) == once.log_delta(epsilon)


@many
@given(pairs, rates, st.floats(-3.0, 3.0))
def test_reversal_identity_survives_sampling(pair, rate, epsilon):
    """δ_remove(ε) = 1 − e^ε + e^ε δ_add(−ε), for negative ε too."""
    profile = PrivacyProfile(pair).subsampled(rate)
    left = profile.delta(epsilon, order="remove")
    right = -math.expm1(epsilon) + math.exp(epsilon) * profile.delta(-epsilon, order="add")
    assert math.fabs(left - right) <= 1e-12 * (1.0 + math.exp(epsilon))


@many
@given(pairs, st.one_of(st.none(), rates), st.floats(math.log(1e-15), math.log(0.9)).map(math.exp))
def test_epsilon_is_safe_and_smallest(pair, rate, target):
    profile = PrivacyProfile(pair) if rate is None else PrivacyProfile(pair).subsampled(rate)
    epsilon = profile.epsilon(target)
    assert profile.log_delta(epsilon) <= math.log(target) + 1e-15 * (1.0 - math.log(target))
    if epsilon > 0.0:
        assert profile.log_delta(epsilon * (1.0 - 1e-8)) > math.log(target)


@few
@given(pairs, st.one_of(st.none(), rates), epsilons)
def test_the_float_lies_in_its_certificate(pair, rate, epsilon):
    profile = PrivacyProfile(pair) if rate is None else PrivacyProfile(pair).subsampled(rate)
    for order in ("remove", "add", "worst"):
        box = profile.certify(epsilon, order=order)
        delta = profile.delta(epsilon, order=order)
        slack = ROUNDING * (1.0 - math.log(delta)) * delta if delta > 0.0 else 0.0
        assert box.lower - slack <= delta <= box.upper + slack


@few
@given(pairs, pairs, st.one_of(st.none(), rates), epsilons)
def test_json_round_trip(remove, add, rate, epsilon):
    profile = PrivacyProfile(remove, add.repeat(2).reversed())
    profile = profile if rate is None else profile.subsampled(rate)
    back = PrivacyProfile.from_json(profile.to_json())
    assert back.to_json() == profile.to_json()
    assert back.log_delta(epsilon) == profile.log_delta(epsilon)
    assert back.certify(epsilon) == profile.certify(epsilon)
