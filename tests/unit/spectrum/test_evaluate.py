"""Float evaluation near the ends: tiny ratios, bounded losses, numbers beyond the floats."""

from __future__ import annotations

import math

import pytest

import ndis
from helpers.pairs import agree
from ndis import GaussianPair


def test_tiny_ratios_are_told_apart_and_have_an_end() -> None:
    agree(GaussianPair.from_ratios([1e-20, 1e-30]), 57.0)
    for ratio in (1e-50, 1.6830891525830475e-58, 1e-60, 1e-200):
        pair = GaussianPair.from_ratios(ratio)
        assert pair.loss_supremum() == pytest.approx(-0.5 * math.log(ratio), rel=1e-15)
        assert pair.certify(pair.epsilon(1e-6)).upper <= 1e-6


def test_tradeoff_near_the_end_of_the_loss() -> None:
    # N(0, ½) against N(0, 1): reject P for |x| beyond a threshold; β = erf(x/√2) with erf(x) = 1 − α
    assert GaussianPair.from_ratios(0.5).tradeoff(1 - 1e-12) == pytest.approx(7.0709e-13, rel=1e-4)
    assert 1 - GaussianPair.from_ratios(2.0).tradeoff(1e-12) == pytest.approx(1.41e-12, rel=1e-2)


@pytest.mark.parametrize("rest", [0.0, 1e-9, 1e-12, 1.66e-15])
def test_epsilon_beside_the_cliff_of_an_almost_bounded_loss(rest):
    """A narrower coordinate bounds the loss at 0.468; the rounding of a whitening adds a hair of a Gaussian to it, and
    log δ falls off a cliff there. The answer, far from the cliff, does not change."""
    pair = ndis.GaussianPair.from_ratios([0.9920712457027678, 1.0], shift=[0.08578450318538254, rest])
    assert pair.epsilon(1e-5) == pytest.approx(0.2413974665545498, rel=1e-12)


def test_an_overflowing_error_refuses_without_a_warning() -> None:
    with pytest.raises(ndis.PrecisionError):
        GaussianPair.from_ratios(1.0, shift=1.0).log_delta(1e200)


def test_a_tiny_shift_keeps_its_digits_at_negative_epsilon():
    """1 − δ(ε) = Φ(a) + e^ε Φ(−b) has two positive terms, so ε/μ may be as large as it likes."""
    pair = GaussianPair.from_ratios(1.0, shift=1e-6)
    for epsilon in (-3.0, -2.617138925694442, -2.0):
        assert pair.delta(epsilon) == pytest.approx(-math.expm1(epsilon), rel=1e-14)
        assert pair.certify(epsilon).lower <= pair.delta(epsilon) * (1 + 1e-13)
