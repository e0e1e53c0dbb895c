"""Sampled steps with very little noise: a moment that is not known says so, and the user gets one clear refusal."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ndis
from ndis.accountant.laws.mixture import sampled_shift
from ndis.errors import PrecisionError


@pytest.mark.parametrize("add", [False, True])
def test_a_point_that_is_not_finite_has_no_moment(add):
    law = sampled_shift(ndis.GaussianPair.from_ratios(1.0, shift=1.0), (0.01,), "add" if add else "remove")
    s = np.array([0.5, np.nan, np.inf, 1e308, 1.0 + 1j * np.inf, 0.5], dtype=np.complex128)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, error = law.centred(s)
    assert np.isnan(value[1:5]).all()
    assert (error[1:5] == np.inf).all()
    assert value[0] == value[5] == law.centred(s[:1])[0][0]
    assert error[0] < 1e-10


@pytest.mark.parametrize(("noise", "rate", "steps"), [(0.015, 0.5, 10), (0.01, 0.01, 100_000)])
def test_little_noise_is_refused_without_warnings(noise, rate, steps):
    training = ndis.DPSGD(noise_multiplier=noise, sampling_rate=rate, steps=steps)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PrecisionError, match=r"noise multiplier below about 0\.07 are out of reach; add noise"):
            training.epsilon(1e-5)


def test_little_noise_that_is_in_reach_agrees_with_its_certificate():
    """A shift of 20: ten steps, each of which reveals the record if it is sampled."""
    profile = ndis.PrivacyProfile.from_noise_multiplier(0.05).subsampled(0.5).repeat(10)
    epsilon = profile.epsilon(1e-5)
    box = profile.certify(epsilon, order="remove")
    assert box.lower <= profile.delta(epsilon, order="remove") * (1 + 1e-9) <= box.upper * (1 + 2e-9)
    assert box.width <= 1e-6 * box.upper
