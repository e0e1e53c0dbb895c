"""Bounds that are no numbers never look private, wherever they stand."""

import math

import pytest

import ndis
from ndis._validate import largest
from ndis.enclosure import Enclosure
from ndis.errors import PrecisionError
from ndis.profile import PrivacyProfile


@pytest.mark.parametrize("bounds", [[math.nan], [math.nan, 0.5], [0.5, math.nan], [0.1, math.nan, 0.5]])
def test_the_largest_of_bounds_drops_none(bounds):
    with pytest.raises(PrecisionError):
        largest(bounds)
    assert largest([0.1, 0.5, -math.inf]) == 0.5


@pytest.mark.parametrize("unknown", ["remove", "add"])
def test_an_order_without_a_number_has_no_certificate(unknown, monkeypatch):
    """`max` dropped a NaN of the second order, and the first one looked like the worst."""
    profile = ndis.PrivacyProfile.from_noise_multiplier(1.0)

    def certify(self, order, epsilon, relative_width):
        return Enclosure(math.nan, math.nan) if order == unknown else Enclosure(0.1, 0.2)

    monkeypatch.setattr(PrivacyProfile, "_certify", certify)
    with pytest.raises(PrecisionError):
        profile.certify(1.0)
