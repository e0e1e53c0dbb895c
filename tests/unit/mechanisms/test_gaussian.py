"""The Gaussian mechanism against a 40-digit oracle, and what it refuses."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import ndis
from helpers.values import ANYTHING
from ndis import GaussianMechanism
from ndis.mechanisms.gaussian import _finite


def analytic_noise(epsilon: float, delta: float, start: float) -> mpmath.mpf:
    """Balle and Wang: the least σ with Φ(1/2σ − εσ) − e^ε Φ(−1/2σ − εσ) ≤ δ at sensitivity 1, in 40 digits."""
    with mpmath.workdps(40):
        e, target = mpmath.mpf(epsilon), mpmath.log(mpmath.mpf(delta))

        def excess(x):
            std = mpmath.exp(x)
            value = mpmath.ncdf(1 / (2 * std) - e * std) - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * std) - e * std)
            return mpmath.log(value) - target

        return mpmath.exp(mpmath.findroot(excess, (mpmath.log(start) - 0.01, mpmath.log(start) + 0.01)))


@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.1, 1.0, 4.0, 10.0])
@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-5, 1e-12])
def test_agrees_with_the_analytic_gaussian_mechanism(epsilon, delta):
    found = GaussianMechanism.calibrated(epsilon=epsilon, delta=delta, sensitivity=1.0).noise_std
    expected = analytic_noise(epsilon, delta, found)
    assert 0 <= (found - expected) / expected <= 1e-12


@pytest.mark.parametrize("sensitivity", [1e-12, 0.37, 2.5e8])
def test_noise_scales_with_the_sensitivity(sensitivity):
    one, other = (GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, sensitivity=s) for s in (1.0, sensitivity))
    assert other.noise_std == pytest.approx(sensitivity * one.noise_std, rel=1e-12)


def test_guarantee_is_exact_and_attained():
    mechanism = GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, sensitivity=2.5)
    box = mechanism.profile().certify(1.0)
    assert 0.9999999e-5 < box.lower <= box.upper <= 1e-5
    assert mechanism.attained()[0].profile.certify(1.0) == box
    with pytest.raises(ndis.ParameterError, match="noise_std must keep delta"):
        type(mechanism)(**mechanism.arguments() | {"noise_std": 0.999999 * mechanism.noise_std})


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", [1.0, 2.0], 1e-300])
def test_bad_sensitivity(bad):
    with pytest.raises(ndis.ParameterError, match="sensitivity"):
        GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, sensitivity=bad)


def test_bad_adjacency():
    with pytest.raises(ndis.ParameterError, match="adjacency"):
        GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, sensitivity=1.0, adjacency="both")


def test_release_of_scalars_arrays_and_what_is_not_finite():
    mechanism = GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, sensitivity=1.0, adjacency="replace-one")
    release = mechanism.release(3)
    assert release.values.shape == ()
    assert release.private
    assert release.receipt.adjacency == "replace-one"
    assert release.noise_variance == mechanism.noise_std**2
    assert mechanism.release([[1, 2.0], [Fraction(1, 3), math.inf]]).values.shape == (2, 2)
    assert mechanism.release(np.float32(1.5)).values.shape == ()
    assert mechanism.release(np.array([math.nan, 1.0])).values.shape == (2,)
    with pytest.warns(ndis.NotPrivateWarning):
        zero = mechanism.release([0.0, 1.0], random_state=3).values
    for broken in (math.nan, math.inf, -math.inf):
        with pytest.warns(ndis.NotPrivateWarning):
            assert mechanism.release([broken, 1.0], random_state=3).values.tolist() == zero.tolist()


EXTREME = [1e308, -1e308, Decimal("1e999999"), Decimal("1e-99999999")]


@pytest.mark.parametrize("value", [*ANYTHING, *EXTREME], ids=lambda value: type(value).__name__)
def test_the_gaussian_mechanism_raises_for_no_value(value):
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, sensitivity=1.0)
    cell = np.empty(2, dtype=object)
    cell[:] = [value if not isinstance(value, np.ndarray) else None, 0.25]
    values = mechanism.release(cell).values
    assert values.shape == (2,)
    assert np.isfinite(values).all()
    assert _finite(cell).to_float()[1] == 0.25


def test_what_is_no_finite_number_counts_as_zero():
    zeros = [None, math.nan, -math.inf, 10**400, "1", 1j, Decimal("nan"), np.float32("inf"), Fraction(10**400)]
    assert _finite(zeros).to_float().tolist() == [0.0] * len(zeros)
    kept = [3, 0.5, Fraction(1, 4), Decimal("0.125"), True, np.int8(-2), np.longdouble(1.5)]
    assert _finite(kept).to_float().tolist() == [3.0, 0.5, 0.25, 0.125, 1.0, -2.0, 1.5]
    assert _finite(np.array([math.nan, 1.5], dtype=np.float32)).to_float().tolist() == [0.0, 1.5]
    for scalar in (None, 10**400, Decimal("nan")):
        assert _finite(scalar).shape == ()


def test_epsilon_and_delta_are_functions_and_the_target_is_a_number():
    mechanism = GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, sensitivity=1.0)
    assert (mechanism.target_epsilon, mechanism.target_delta) == (1.0, 1e-5)
    assert mechanism.epsilon(1e-5) == pytest.approx(1.0, rel=1e-9)
    assert mechanism.delta(1.0) == pytest.approx(1e-5, rel=1e-9)
