"""δ of a composition far below the smallest float: 0, and log δ refused at once if it cannot be had."""

from __future__ import annotations

import numpy as np
import pytest

import ndis


@pytest.mark.parametrize(("sigma", "rate", "steps"), [(100.0, 1e-4, 10_000), (100.0, 1e-6, 1_000_000), (0.3, 0.3, 5)])
@pytest.mark.parametrize("order", ["remove", "add", "worst"])
def test_delta_is_zero_where_it_underflows(sigma, rate, steps, order):
    """Chernoff's bound proves it, whatever the kernels can do."""
    profile = ndis.PrivacyProfile.from_noise_multiplier(sigma).subsampled(rate).repeat(steps)
    far = 5000.0 if sigma < 1 else 8.0
    assert profile.delta(far, order=order) == 0.0
    values = profile.delta(np.array([0.0, far]), order=order)
    assert values[0] > 0.0
    assert values[1] == 0.0


def test_log_delta_is_refused_rather_than_wrong():
    profile = ndis.PrivacyProfile.from_noise_multiplier(100.0).subsampled(1e-6).repeat(1_000_000)
    with pytest.raises(ndis.PrecisionError, match="did not reach full accuracy"):
        profile.log_delta(8.0)
