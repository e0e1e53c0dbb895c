"""PrivacyProfile: worst of both orders, composition, groups, failure probabilities."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import ndis
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import Group, PrivacyProfile

WIDE = GaussianPair.from_ratios(2.0)
MIXED = GaussianPair.from_ratios([1.5, 0.8], shift=[0.0, 0.7])


class TestWorstOfBothOrders:
    def test_is_the_larger_one(self):
        profile = PrivacyProfile(MIXED)
        x = np.linspace(-1.0, 12.0, 27)
        both = np.stack([MIXED.delta(x), MIXED.reversed().delta(x)])
        assert (profile.delta(x) == both.max(axis=0)).all()
        assert (both.argmax(axis=0) == 0).any()
        assert (both.argmax(axis=0) == 1).any()
        assert (profile.delta(x, order="remove") == both[0]).all()
        assert (profile.delta(x, order="add") == both[1]).all()

    def test_own_add_pair(self):
        profile = PrivacyProfile(remove=WIDE, add=MIXED)
        assert profile.delta(1.0) == max(WIDE.delta(1.0), MIXED.delta(1.0))

    def test_epsilon_is_safe_for_both(self):
        profile = PrivacyProfile(MIXED)
        for target in (0.3, 1e-3, 1e-9, 1e-12):
            e = profile.epsilon(target)
            assert e == max(MIXED.epsilon(target), MIXED.reversed().epsilon(target))
            assert profile.delta(e) <= target
        assert profile.epsilon(0.9) == 0.0

    def test_certify_takes_both_ends_from_the_worst(self):
        a, b, box = MIXED.certify(10.5), MIXED.reversed().certify(10.5), PrivacyProfile(MIXED).certify(10.5)
        assert box == (max(a.lower, b.lower), max(a.upper, b.upper))

    def test_broadcasts(self):
        profile = PrivacyProfile(WIDE)
        assert isinstance(profile.delta(1.0), float)
        assert isinstance(profile.epsilon(0.01), float)
        assert profile.delta([[0.0, 1.0], [2.0, 3.0]]).shape == (2, 2)
        assert profile.epsilon(np.array([0.1, 0.01])).shape == (2,)
        assert profile.delta([]).shape == (0,)

    def test_mutually_singular(self):
        profile = PrivacyProfile(GaussianPair.from_diagonal(0.0, 0.0, 1.0, 1.0))
        assert profile.delta(5.0) == 1.0
        assert profile.epsilon(0.5) == math.inf
        sampled = profile.subsampled(0.1)
        assert sampled.delta(0.0) == pytest.approx(0.1, rel=1e-15)
        assert sampled.epsilon(0.05) == math.inf
        assert sampled.epsilon(0.05, order="add") == pytest.approx(math.log(0.95 / 0.9), rel=1e-12)
        assert sampled.epsilon(0.2) == 0.0

    @pytest.mark.parametrize("bad", [1.0, "remove", None, [WIDE]])
    def test_refuses_what_is_not_a_pair(self, bad):
        with pytest.raises(ParameterError, match=r"^remove must be a GaussianPair; got "):
            PrivacyProfile(bad)
        if bad is not None:
            with pytest.raises(ParameterError, match=r"^add must be a GaussianPair; got "):
                PrivacyProfile(WIDE, bad)

    def test_refuses_bad_arguments(self):
        profile = PrivacyProfile(WIDE)
        for call, message in (
            (lambda: profile.delta(math.nan), "^epsilon must be finite; got nan"),
            (lambda: profile.delta("1"), "^epsilon must be real numbers; got "),
            (lambda: profile.delta(1.0, order="p-q"), "^order must be 'worst', 'remove' or 'add'; got 'p-q'"),
            (lambda: profile.epsilon(0.0), "^delta must lie strictly between 0 and 1; got "),
            (lambda: profile.epsilon(math.nan), "^delta must be finite; got nan"),
            (lambda: profile.certify([1.0, 2.0]), "^epsilon must be a single number; got shape"),
            (lambda: profile.certify(math.inf), "^epsilon must be finite; got inf"),
            (lambda: profile.certify(1.0, relative_width=0.0), "^relative_width must lie strictly"),
            (lambda: profile.certify(1.0, relative_width=math.nan), "^relative_width must be finite; got nan"),
            (lambda: profile.certify(1.0, relative_width="1"), "^relative_width must be real numbers; got "),
            (lambda: profile.certify(1.0, relative_width=[0.1]), "^relative_width must be a single number; got shape"),
            (lambda: profile.certified_epsilon([0.1]), "^delta must be a single number; got shape"),
            (lambda: profile.repeat(0), "^times must be whole numbers of at least 1; got "),
            (lambda: profile.repeat(1.5), "^times must be whole numbers of at least 1; got "),
        ):
            with pytest.raises(ParameterError, match=message):
                call()


class TestComposition:
    def test_is_concatenation_in_each_order(self):
        other = PrivacyProfile(
            remove=GaussianPair.from_ratios(1.3, shift=0.2), add=GaussianPair.from_ratios(1.1, copies=3)
        )
        both = PrivacyProfile(MIXED).compose(other)
        remove = GaussianPair.from_ratios([1.5, 0.8, 1.3], shift=[0.0, 0.7, 0.2])
        assert both.delta(1.0, order="remove") == pytest.approx(remove.delta(1.0), rel=1e-13)
        assert both.delta(1.0, order="add") == pytest.approx(MIXED.reversed().compose(other.add).delta(1.0), rel=1e-13)

    def test_repeat_is_composition_with_itself(self):
        one = PrivacyProfile(GaussianPair.from_ratios(1.1, shift=0.3, copies=2))
        assert one.repeat(3).delta([0.5, 2.0]) == pytest.approx(one.compose(one, one).delta([0.5, 2.0]), rel=1e-12)
        assert one.repeat(1).delta(0.5) == one.delta(0.5)

    @pytest.mark.parametrize("order", ["remove", "add"])
    def test_repeat_of_a_bounded_loss(self, order):
        """The narrower law from the wider one has a bounded loss; its bound must count every copy once."""
        one, ten = (
            PrivacyProfile(GaussianPair.from_ratios(1.02, copies=10)),
            PrivacyProfile(GaussianPair.from_ratios(1.02, copies=100)),
        )
        x = np.array([0.1, 0.5, 0.9, 0.98, 1.0, 2.0])
        assert one.repeat(10).log_delta(x, order=order) == pytest.approx(ten.log_delta(x, order=order), rel=1e-12)
        assert one.repeat(10).add.loss_supremum() == ten.add.loss_supremum()

    def test_adjacencies_do_not_mix(self):
        replaced = PrivacyProfile(WIDE, adjacency="replace-one")
        assert replaced.repeat(2).adjacency == replaced.compose(replaced).adjacency == "replace-one"
        for one, two in ((PrivacyProfile(WIDE), replaced), (replaced, PrivacyProfile(WIDE))):
            with pytest.raises(ParameterError, match=r"^adjacency of others must be '.*', like that of this profile"):
                one.compose(two)
        with pytest.raises(ParameterError, match=r"^adjacency must be 'add-remove' or 'replace-one'; got 'swap'"):
            PrivacyProfile(WIDE, adjacency="swap")

    def test_refuses_pairs(self):
        with pytest.raises(ParameterError, match=r"^others must be PrivacyProfile values; got GaussianPair; wrap"):
            PrivacyProfile(WIDE).compose(WIDE)


class TestGroups:
    """The shape of a profile: releases without sampling are one group, sampled releases are counted."""

    def test_plain_releases_are_one_group(self):
        profile = PrivacyProfile(WIDE).repeat(2).compose(PrivacyProfile(MIXED))
        (group,) = profile.groups
        assert (group.rates, group.rate, group.count, group.sampled) == ((), 1.0, 1, False)
        assert group.remove.dimension == 4
        assert group.pair("remove") is profile.remove
        assert group.pair("add") is profile.add

    def test_equal_sampled_releases_are_counted(self):
        step = PrivacyProfile(GaussianPair.from_ratios(1.0, shift=0.5)).subsampled(0.1)
        again = PrivacyProfile(GaussianPair.from_ratios(1.0, shift=0.5)).subsampled(0.1)
        other = PrivacyProfile(GaussianPair.from_ratios(1.0, shift=0.5)).subsampled(0.2)
        profile = PrivacyProfile(WIDE).compose(step.repeat(3), other, again, PrivacyProfile(WIDE))
        assert [(g.rate, g.count) for g in profile.groups] == [(1.0, 1), (0.1, 4), (0.2, 1)]
        assert profile.groups[0].remove.dimension == 2
        assert [g.count for g in profile.repeat(5).groups] == [1, 20, 5]
        assert profile.repeat(5).groups[0].remove.dimension == 10

    @pytest.mark.parametrize("other", [WIDE.reversed(), GaussianPair.from_ratios(2.1), WIDE.repeat(2), MIXED])
    def test_other_sampled_releases_are_not(self, other):
        profile = PrivacyProfile(WIDE).subsampled(0.1).compose(PrivacyProfile(other).subsampled(0.1))
        assert [g.count for g in profile.groups] == [1, 1]

    def test_pairs_without_exact_inputs_are_not_equal(self):
        bare = GaussianPair(np.array([2.0]), np.zeros(1), np.ones(1), 1, np.ones(1))
        same = GaussianPair(np.array([2.0]), np.zeros(1), np.ones(1), 1, np.ones(1))
        assert bare.same_origins(bare)
        assert not bare.same_origins(same)

    def test_several_groups_have_no_single_pair(self):
        profile = PrivacyProfile(WIDE).compose(PrivacyProfile(WIDE).subsampled(0.1))
        for call in (
            lambda: profile.remove,
            lambda: profile.add,
            lambda: profile.sampling_rate,
            lambda: profile.sampling_rates,
        ):
            with pytest.raises(ParameterError, match=r"^profile must be one release to have one pair per order; got 2"):
                call()
        for many in (profile, PrivacyProfile(WIDE).subsampled(0.1).repeat(2)):
            with pytest.raises(
                ParameterError, match=r"^profile must be one release, or releases that all see one samp"
            ):
                many.subsampled(0.5)
            assert many.subsampled(1.0) is many

    @pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
    def test_mechanisms_name_their_adjacency(self, adjacency):
        public = {"epsilon": 1.0, "delta": 1e-6, "adjacency": adjacency}
        sketch = ndis.RandomProjection.calibrated(sketch_size=20, row_norm_bound=1.0, **public)
        noise = ndis.GaussianMechanism.calibrated(sensitivity=1.0, **public)
        found = [sketch.profile(), noise.profile(), *(one.profile for one in sketch.attained())]
        assert {profile.adjacency for profile in found} == {adjacency}
        other = PrivacyProfile(WIDE, adjacency="replace-one" if adjacency == "add-remove" else "add-remove")
        for profile in found:
            assert profile.compose(profile).adjacency == adjacency
            with pytest.raises(ParameterError, match=r"^adjacency of others must be "):
                profile.compose(other)
            if adjacency == "replace-one":
                with pytest.raises(ParameterError, match=r"^adjacency must be 'add-remove' for Poisson samples"):
                    profile.subsampled(0.1)

    def test_replaced_records_are_not_sampled(self):
        profile = PrivacyProfile(WIDE, adjacency="replace-one")
        message = "^adjacency must be 'add-remove' for Poisson samples; got 'replace-one'"
        for call in (
            lambda: profile.subsampled(0.1),
            lambda: PrivacyProfile(WIDE, sampling_rates=(0.1,), adjacency="replace-one"),
            lambda: PrivacyProfile(groups=[Group(WIDE, rates=(0.1,))], adjacency="replace-one"),
        ):
            with pytest.raises(ParameterError, match=message):
                call()
        assert profile.subsampled(1.0).delta(1.0) == profile.delta(1.0)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: PrivacyProfile(groups=[]), "^groups must hold at least one group; got none"),
            (lambda: PrivacyProfile(groups=[WIDE]), "^groups must be Group values; got GaussianPair"),
            (lambda: PrivacyProfile(WIDE, groups=[Group(WIDE)]), "^groups must stand in place of remove"),
            (lambda: Group(WIDE, count=0), "^count must be whole numbers of at least 1; got "),
            (lambda: Group(WIDE, count=math.nan), "^count must be finite; got nan"),
            (lambda: Group(WIDE, rates=(math.nan,)), "^rate must be finite; got nan"),
            (lambda: Group(None), "^remove must be a GaussianPair; got NoneType"),
        ],
    )
    def test_refuses(self, make, message):
        with pytest.raises(ParameterError, match=message):
            make()


class TestNoiseMultiplier:
    @pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0, 49.0, 1e-3, 12345.678])
    def test_is_a_shift_of_one_over_sigma(self, sigma):
        profile = PrivacyProfile.from_noise_multiplier(sigma)
        shift = Fraction(float(profile.remove.shift[0]))
        assert 0 <= shift * Fraction(sigma) - 1 < Fraction(1, 2**50)
        assert profile.remove.excess.tolist() == [0.0]

    @pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf, "1", None, 1e-200])
    def test_refuses(self, sigma):
        with pytest.raises(ParameterError, match=r"^sigma must be "):
            PrivacyProfile.from_noise_multiplier(sigma)


# --- what the pairs say nothing about --------------------------------------------------------------

FALLIBLE = PrivacyProfile(WIDE, failure_probability=1e-3)


def test_every_delta_includes_the_failure_probability():
    whole = PrivacyProfile(WIDE)
    for epsilon in (-1.0, 0.0, 1.0, 30.0):
        assert FALLIBLE.delta(epsilon) == pytest.approx(min(whole.delta(epsilon) + 1e-3, 1.0), rel=1e-12)
        box, plain = FALLIBLE.certify(epsilon), whole.certify(epsilon)
        assert Fraction(box.upper) >= min(Fraction(plain.upper) + Fraction(1e-3), 1)
        assert box.lower == plain.lower  # nothing says that the failure is attained
        assert box.lower <= FALLIBLE.delta(epsilon) <= box.upper * (1 + 1e-12)
    assert FALLIBLE.delta([0.0, 1.0], order="add").shape == (2,)


def test_epsilon_pays_for_the_failure_probability():
    assert FALLIBLE.epsilon(2e-3) == pytest.approx(PrivacyProfile(WIDE).epsilon(1e-3), rel=1e-9)
    assert FALLIBLE.delta(FALLIBLE.epsilon(2e-3)) <= 2e-3 * (1 + 1e-12)
    assert FALLIBLE.certify(FALLIBLE.certified_epsilon(2e-3)).upper <= 2e-3 * (1 + 1e-9)
    for delta in (1e-3, 1e-4):
        assert FALLIBLE.epsilon(delta) == FALLIBLE.certified_epsilon(delta) == math.inf


def test_failure_probabilities_add_up():
    other = PrivacyProfile(MIXED, failure_probability=0.1)
    exact = Fraction(1e-3) + Fraction(0.1)
    for found in (FALLIBLE.compose(other), other.compose(FALLIBLE)):
        assert exact <= Fraction(found.failure_probability) <= exact * (1 + Fraction(1, 2**50))
    assert Fraction(other.repeat(3).failure_probability) >= 3 * Fraction(0.1)
    assert PrivacyProfile(WIDE).repeat(3).failure_probability == 0.0
    assert other.subsampled(0.5).failure_probability == 0.1
    assert other.subsampled(0.5).delta(1.0) >= 0.1
    with pytest.raises(ParameterError, match="below 1 in all"):
        other.repeat(10)


@pytest.mark.parametrize("value", [-1e-9, 1.0, math.nan, math.inf, "0"])
def test_bad_failure_probabilities(value):
    with pytest.raises(ParameterError, match="failure_probability"):
        PrivacyProfile(WIDE, failure_probability=value)
