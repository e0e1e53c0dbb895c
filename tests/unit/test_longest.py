"""The largest number of steps, also where δ after few steps is too small to be evaluated."""

from __future__ import annotations

import pytest

import ndis


@pytest.mark.parametrize(("epsilon", "noise", "rate"), [(8.0, 4.0, 0.01), (3.0, 4.0, 0.001), (2.0, 8.0, 0.02)])
def test_the_longest_schedule_is_within_its_budget_and_no_shorter_than_that(epsilon, noise, rate):
    found = ndis.DPSGD.longest(epsilon=epsilon, delta=1e-5, noise_multiplier=noise, sampling_rate=rate)
    assert found.profile().certify(epsilon).upper <= 1e-5
    longer = ndis.DPSGD(noise_multiplier=noise, sampling_rate=rate, steps=round(found.steps * 1.001) + 1)
    assert longer.profile().delta(epsilon) > 1e-5
