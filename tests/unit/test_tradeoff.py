"""Trade-off curves of profiles."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ndis import ParameterError, PrivacyProfile

STEP = PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.01)


class TestTradeoff:
    def test_the_gaussian_curve(self):
        from scipy.stats import norm

        alpha = np.array([1e-6, 0.01, 0.3, 0.9])
        for mu in (0.1, 1.0, 3.0):
            found = PrivacyProfile.from_noise_multiplier(1 / mu).tradeoff(alpha)
            np.testing.assert_allclose(found, norm.cdf(norm.ppf(1 - alpha) - mu), rtol=1e-9, atol=1e-12)

    def test_ends(self):
        profile = STEP.repeat(100)
        assert profile.tradeoff(0.0) == pytest.approx(1.0, abs=1e-12)
        assert profile.tradeoff(1.0) == 0.0
        for bad in (-0.1, 1.1, math.nan):
            with pytest.raises(ParameterError, match=r"^alpha must "):
                profile.tradeoff(bad)

    # Checks thm:tradeoff.
    def test_it_is_the_conjugate_of_the_profile(self):
        """Every line 1 − δ(ε) − e^ε α lies below it, and it touches δ: δ(ε) = 1 + sup of −e^ε α − f(α)."""
        profile = STEP.repeat(2000)
        alpha = np.linspace(0.001, 0.9, 200)
        curve = profile.tradeoff(alpha)
        for e in (-0.5, 0.0, 1.0):
            lines = 1 - profile.delta(e) - math.exp(e) * alpha
            assert (curve >= lines - 1e-10).all()
            assert (curve - lines).min() < 2e-3

    def test_a_sampled_pair_by_counting(self):
        """One sampled step, remove and add, against the test with the threshold on x itself."""
        from scipy.stats import norm

        q = 0.3
        profile = PrivacyProfile.from_noise_multiplier(1.0).subsampled(q)
        t = np.linspace(-6, 6, 4001)
        one = norm.sf(t), (1 - q) * norm.cdf(t) + q * norm.cdf(t - 1)  # type I, II: reject for large x
        for a in (0.05, 0.4):
            plain = np.interp(a, one[0][::-1], one[1][::-1])
            other = np.interp(a, one[1], one[0])  # the two laws exchanged
            assert profile.tradeoff(a) <= min(plain, other) + 1e-6
