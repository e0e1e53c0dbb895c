"""Names of the last version still work, and say where they went."""

import pytest

import ndis


@pytest.mark.parametrize(("old", "new"), ndis._DEPRECATED.items())
def test_an_old_name_warns_and_is_the_new_thing(old, new):
    with pytest.warns(DeprecationWarning, match=rf"^ndis\.{old} is deprecated; use {new}$"):
        thing = getattr(ndis, old)
    assert thing is not None
    assert old not in ndis.__all__


def test_groups_as_a_keyword():
    pair = ndis.GaussianPair.from_ratios(1.0, shift=0.5)
    with pytest.warns(DeprecationWarning, match=r"use PrivacyProfile\(groups=...\)$"):
        profile = ndis.PrivacyProfile.from_groups([ndis.profile.Group(pair, count=4)])
    assert profile.remove.dimension == 4


def test_about_thirty_names():
    assert len(ndis.__all__) <= 36
    assert all(hasattr(ndis, name) for name in ndis.__all__)
