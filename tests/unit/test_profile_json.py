"""Profiles as JSON: bit-exact round trips, the first format, what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

WIDE = GaussianPair.from_ratios(2.0)
MIXED = GaussianPair.from_ratios([1.5, 0.8], shift=[0.0, 0.7])
ROUND_TRIPS = {
    "ratios": PrivacyProfile(GaussianPair.from_ratios([1.1, 1 / 3], shift=[0.1, -0.2], copies=[3, 2])),
    "diagonal": PrivacyProfile(GaussianPair.from_diagonal([0.1, 0.2], [1.1, 2.0], [0.0, 0.3], [1.0, 1.9])),
    "dense": PrivacyProfile(
        GaussianPair.from_moments([0.1, 0.2], [[2.0, 0.3], [0.3, 1.0]], [0.0, 0.0], [[1.0, 0.1], [0.1, 1.5]])
    ),
    "low-rank": PrivacyProfile(
        GaussianPair.from_low_rank([0.1, 0.2, 0.3], [0, 0, 0], np.eye(3), [[0.1], [0.2], [0.3]], sign=-1)
    ),
    "composed": PrivacyProfile(MIXED.compose(GaussianPair.from_moments(0.1, 1.3, 0.0, 1.0).reversed()).repeat(3)),
    "reversed": PrivacyProfile(MIXED.reversed()),
    "own add": PrivacyProfile(remove=WIDE, add=MIXED),
    "sampled": PrivacyProfile(MIXED).subsampled(0.1).subsampled(1 / 3),
    "replace-one": PrivacyProfile(MIXED, adjacency="replace-one"),
}


def format_1(profile: PrivacyProfile) -> dict[str, object]:
    """What the first version of the format held: one group, and no adjacency."""
    found = json.loads(profile.to_json())
    (group,) = found.pop("groups")
    assert group.pop("count") == 1
    del found["adjacency"]
    return {**found, "format_version": 1, "sampling_rates": group.pop("rates"), **group}


class TestJson:
    @pytest.mark.parametrize("profile", ROUND_TRIPS.values(), ids=ROUND_TRIPS)
    def test_round_trip_is_bit_exact(self, profile):
        text = profile.to_json()
        back = PrivacyProfile.from_json(text)
        assert back.to_json() == text
        for ours, theirs in ((profile.remove, back.remove), (profile.add, back.add)):
            assert len(ours.origins) == len(theirs.origins)
            for a, b in zip(ours.origins, theirs.origins, strict=True):
                assert (a.kind, a.reverse, a.copies) == (b.kind, b.reverse, b.copies)
                assert [x.tobytes() for x in a.arrays] == [x.tobytes() for x in b.arrays]
                assert [x.shape for x in a.arrays] == [x.shape for x in b.arrays]
        assert back.sampling_rates == profile.sampling_rates
        assert back.adjacency == profile.adjacency
        assert back.certify(0.4) == profile.certify(0.4)
        assert back.delta(0.4) == pytest.approx(profile.delta(0.4), rel=1e-14)

    def test_what_is_written(self):
        found = json.loads(ROUND_TRIPS["sampled"].to_json())
        assert found["format"] == "ndis.PrivacyProfile"
        assert found["format_version"] == 2
        assert set(found) == {"format", "format_version", "ndis_version", "adjacency", "groups"}
        assert [set(group) for group in found["groups"]] == [{"remove", "rates", "count"}]
        assert "add" in json.loads(ROUND_TRIPS["own add"].to_json())["groups"][0]

    def test_groups_survive(self):
        step = PrivacyProfile(MIXED).subsampled(0.1).subsampled(1 / 3)
        profile = PrivacyProfile(WIDE).compose(step.repeat(7), PrivacyProfile(WIDE, MIXED).subsampled(0.5))
        back = PrivacyProfile.from_json(profile.to_json())
        assert back.to_json() == profile.to_json()
        assert [(g.rates, g.count) for g in back.groups] == [((), 1), ((0.1, 1 / 3), 7), ((0.5,), 1)]
        for ours, theirs in zip(profile.groups, back.groups, strict=True):
            assert ours.same_release(theirs)

    @pytest.mark.parametrize("name", [name for name in ROUND_TRIPS if name != "replace-one"])
    def test_format_1_is_still_read(self, name):
        profile = ROUND_TRIPS[name]
        back = PrivacyProfile.from_json(json.dumps(format_1(profile)))
        assert back.adjacency == "add-remove"
        assert back.to_json() == profile.to_json()

    def test_a_pair_without_origins_is_refused(self):
        bare = GaussianPair(np.array([2.0]), np.zeros(1), np.ones(1), 1, np.ones(1))
        with pytest.raises(ParameterError, match=r"^pair must know what it was made from; got no origins; make it"):
            PrivacyProfile(bare).to_json()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda d: d.update(format="other"), "^format of the profile must be 'ndis.PrivacyProfile'; got 'other'"),
            (lambda d: d.pop("format"), "^format of the profile must be .*; got None"),
            (lambda d: d.update(format_version=4), "^format_version of the profile must be 1 or 2 or 3; got 4"),
            (lambda d: d.update(format_version=True), "^format_version of the profile must be 1 or 2 or 3; got True"),
            (lambda d: d.update(extra=1), "^profile must have only the keys .*; got extra"),
            (lambda d: d.pop("remove"), "^profile must have the keys .*; got none called remove"),
            (lambda d: d.update(sampling_rates=0.5), "^sampling_rates must be a list of numbers; got 0.5"),
            (lambda d: d.update(sampling_rates=[2.0]), "^rate must be above 0 and at most 1; got 2.0"),
            (lambda d: d.update(sampling_rates=["x"]), "^rate must be a real number; got "),
            (lambda d: d.update(remove=[]), "^remove must be a list of at least one origin; got a list"),
            (lambda d: d.update(remove={}), "^remove must be a list of at least one origin; got a dict"),
            (lambda d: d.update(add=[1]), "^add must be a JSON object; got a int"),
            (lambda d: d["remove"][0].update(kind="magic"), "^kind in remove must be one of ratios, .*; got 'magic'"),
            (lambda d: d["remove"][0].update(kind=[]), r"^kind in remove must be one of ratios, .*; got \[\]"),
            (lambda d: d["remove"][0].update(reverse=0), "^reverse in remove must be true or false; got 0"),
            (lambda d: d["remove"][0].update(copies=1.5), "^copies in remove must be a whole number .*; got 1.5"),
            (lambda d: d["remove"][0].update(copies=True), "^copies in remove must be a whole number .*; got True"),
            (lambda d: d["remove"][0].update(copies=0), "^times must be whole numbers of at least 1; got "),
            (
                lambda d: d["remove"][0]["arrays"].pop("shift"),
                "^arrays in remove must have the keys .*; got none called shift",
            ),
            (lambda d: d["remove"][0]["arrays"].update(x=[1.0]), "^arrays in remove must have only the keys .*; got x"),
            (lambda d: d["remove"][0]["arrays"].update(shift=["a", "b"]), "^shift must be real numbers; got "),
            (
                lambda d: d["remove"][0]["arrays"].update(variance_ratio=[-1.0, 2.0]),
                "^variance_ratio must be positive; got ",
            ),
        ],
    )
    def test_refuses_what_it_did_not_write(self, change, message):
        found = format_1(PrivacyProfile(MIXED))
        change(found)
        with pytest.raises(ParameterError, match=message):
            PrivacyProfile.from_json(json.dumps(found))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda d: d.update(extra=1), "^profile must have only the keys .*; got extra"),
            (lambda d: d.update(sampling_rates=[]), "^profile must have only the keys .*; got sampling_rates"),
            (lambda d: d.pop("adjacency"), "^profile must have the keys .*; got none called adjacency"),
            (lambda d: d.update(adjacency="swap"), "^adjacency must be 'add-remove' or 'replace-one'; got 'swap'"),
            (lambda d: d.update(adjacency=None), "^adjacency must be 'add-remove' or 'replace-one'; got None"),
            (lambda d: d.update(groups=[]), r"^groups of the profile must be a list of at least one group; got \[\]"),
            (lambda d: d.update(groups={}), r"^groups of the profile must be a list of at least one group; got \{\}"),
            (lambda d: d.update(groups=[1]), "^group of the profile must be a JSON object; got a int"),
            (
                lambda d: d["groups"][0].pop("count"),
                "^group of the profile must have the keys .*; got none called count",
            ),
            (
                lambda d: d["groups"][0].update(count=1.0),
                "^count of a group must be a whole number of at least 1; got 1.0",
            ),
            (
                lambda d: d["groups"][0].update(count=True),
                "^count of a group must be a whole number of at least 1; got Tr",
            ),
            (lambda d: d["groups"][0].update(count=-1), "^count must be whole numbers of at least 1; got "),
            (lambda d: d["groups"][0].update(rates=0.5), "^rates must be a list of numbers; got 0.5"),
            (lambda d: d["groups"][0].update(rates=[0.0]), "^rate must be above 0 and at most 1; got 0.0"),
            (lambda d: d["groups"][0].update(remove=[]), "^remove must be a list of at least one origin; got a list"),
            (lambda d: d["groups"][0].update(x=1), "^group of the profile must have only the keys .*; got x"),
        ],
    )
    def test_refuses_groups_it_did_not_write(self, change, message):
        found = json.loads(PrivacyProfile(MIXED).to_json())
        change(found)
        with pytest.raises(ParameterError, match=message):
            PrivacyProfile.from_json(json.dumps(found))

    @pytest.mark.parametrize(
        "text",
        ["", "{", "[1, 2", "{'a': 1}", "NaN", '{"a": NaN}', '{"a": 1, "a": 2}', "[" * 100_000, b"\xff\xfe\x00", 3],
    )
    def test_refuses_what_is_not_json(self, text):
        with pytest.raises(ParameterError, match=r"^profile must be valid JSON; got "):
            PrivacyProfile.from_json(text)

    @pytest.mark.parametrize("text", ["[]", "3", "null", '"text"'])
    def test_refuses_other_json(self, text):
        with pytest.raises(ParameterError, match=r"^format of the profile must be .*; got None"):
            PrivacyProfile.from_json(text)

    def test_numbers_beyond_floats_are_refused(self):
        text = PrivacyProfile(GaussianPair.from_ratios(2.5)).to_json().replace("2.5", "1e999")
        with pytest.raises(ParameterError, match=r"^variance_ratio must be finite; got "):
            PrivacyProfile.from_json(text)


FALLIBLE = PrivacyProfile(WIDE, failure_probability=1e-3)


def test_the_failure_probability_survives_json():
    text = FALLIBLE.to_json()
    again = PrivacyProfile.from_json(text)
    assert again.failure_probability == 1e-3
    assert again.certify(1.0) == FALLIBLE.certify(1.0)
    assert "failure_probability" not in PrivacyProfile(WIDE).to_json()
    for value in (-0.1, 1.0, "0.1", None):
        spoilt = json.dumps({**json.loads(text), "failure_probability": value})
        with pytest.raises(ParameterError, match="failure_probability"):
            PrivacyProfile.from_json(spoilt)
