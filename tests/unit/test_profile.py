"""PrivacyProfile: worst of both orders, composition, exact subsampling, JSON and pictures."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import pairwise

import matplotlib as mpl
import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

import ndis
from ndis.errors import ParameterError, PrecisionError
from ndis.pair import GaussianPair
from ndis.plotting import epsilon_grid, plot_profile
from ndis.profile import Group, PrivacyProfile

mpl.use("agg")

WIDE = GaussianPair.from_ratios(2.0)
MIXED = GaussianPair.from_ratios([1.5, 0.8], shift=[0.0, 0.7])


def mixture_delta(ratio: float, shift: float, rate: float, epsilon: float, order: str) -> mpf:
    """δ of the sampled mechanism straight from the definition, with 40 digits.

    Both densities are written down, the places where the integrand changes sign are found on a grid and refined, and
    the normal laws are integrated between them.
    """
    with mp.workdps(40):
        r, m, q, e = mpf(ratio), mpf(shift), mpf(rate), mpf(epsilon)

        def present(x: mpf) -> mpf:
            return mpmath.npdf(x, m, mp.sqrt(r))

        def absent(x: mpf) -> mpf:
            return mpmath.npdf(x)

        def integrand(x: mpf) -> mpf:
            mixed = (1 - q) * absent(x) + q * present(x)
            return mixed - mp.exp(e) * absent(x) if order == "remove" else absent(x) - mp.exp(e) * mixed

        def measure(a: mpf, b: mpf) -> mpf:
            def mass(mean: mpf, std: mpf) -> mpf:
                low, high = (a - mean) / std, (b - mean) / std
                return mpmath.ncdf(-low) - mpmath.ncdf(-high) if low > 0 else mpmath.ncdf(high) - mpmath.ncdf(low)

            y, x = mass(mpf(0), mpf(1)), mass(m, mp.sqrt(r))
            mixed = (1 - q) * y + q * x
            return mixed - mp.exp(e) * y if order == "remove" else y - mp.exp(e) * mixed

        grid = [mpf(k) / 4 for k in range(-100, 101)]
        signs = [integrand(x) > 0 for x in grid]
        cuts = []
        for i in range(len(grid) - 1):
            if signs[i] != signs[i + 1]:
                low, high = grid[i], grid[i + 1]
                for _ in range(130):
                    middle = (low + high) / 2
                    low, high = (middle, high) if (integrand(middle) > 0) == signs[i] else (low, middle)
                cuts.append(low)
        ends = [mp.ninf, *cuts, mp.inf]
        inside = signs[0]
        total = mpf(0)
        for a, b in pairwise(ends):
            total += measure(a, b) if inside else 0
            inside = not inside
        return total


SAMPLED = [
    (ratio, shift, rate, epsilon, order)
    for ratio, shift in ((2.0, 0.0), (1.0, 1.0), (0.6, 0.5))
    for rate, epsilons in (
        (0.3, (0.0, 0.1, 0.3, 1.0, -0.2, -0.5)),
        (0.01, (1e-9, 0.003, 0.5, -0.004)),
        (1e-7, (0.0, 5e-8, 1e-3)),
    )
    for epsilon in epsilons
    for order in ("remove", "add")
]


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
            lambda: PrivacyProfile.from_groups([Group(WIDE, rates=(0.1,))], adjacency="replace-one"),
        ):
            with pytest.raises(ParameterError, match=message):
                call()
        assert profile.subsampled(1.0).delta(1.0) == profile.delta(1.0)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: PrivacyProfile.from_groups([]), "^groups must hold at least one group; got none"),
            (lambda: PrivacyProfile.from_groups([WIDE]), "^groups must be Group values; got GaussianPair"),
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


class TestSubsampling:
    @pytest.mark.parametrize(("ratio", "shift", "rate", "epsilon", "order"), SAMPLED)
    def test_is_the_definition(self, ratio, shift, rate, epsilon, order):
        profile = PrivacyProfile(GaussianPair.from_ratios(ratio, shift=shift)).subsampled(rate)
        exact = mixture_delta(ratio, shift, rate, epsilon, order)
        box = profile.certify(epsilon, order=order)
        if exact == 0:
            assert profile.delta(epsilon, order=order) == 0.0
            assert box == (0.0, 0.0)
        else:
            assert abs(profile.delta(epsilon, order=order) / exact - 1) < 1e-12 * (1 - mp.log(exact))
            assert mpf(box.lower) <= exact <= mpf(box.upper)
            assert box.width <= 1e-10 * box.upper

    def test_add_is_exactly_zero_beyond_its_end(self):
        profile = PrivacyProfile(WIDE).subsampled(0.01)
        end = -math.log1p(-0.01)
        assert profile.delta(end * (1 + 1e-15), order="add") == 0.0
        assert profile.log_delta(1.0, order="add") == -math.inf
        assert profile.certify(1.0, order="add") == (0.0, 0.0)

    def test_digits_survive_next_to_the_end(self):
        """Just before −log(1−q) the factor 1 − (1−q)e^ε is 1e-18 and must not be taken as a difference of floats."""
        shift, rate = 30.0, 0.01
        epsilon = math.nextafter(-math.log1p(-rate), 0.0)
        profile = PrivacyProfile(GaussianPair.from_ratios(1.0, shift=shift)).subsampled(rate)
        exact = mixture_delta(1.0, shift, rate, epsilon, "add")
        assert 0 < exact < 1e-17
        assert abs(profile.delta(epsilon, order="add") / exact - 1) < 1e-11

    def test_rate_one_changes_nothing(self):
        profile = PrivacyProfile(MIXED)
        assert profile.subsampled(1.0).delta(0.7) == profile.delta(0.7)
        assert profile.subsampled(1).repeat(2).remove.dimension == 4

    def test_a_sample_of_a_sample(self):
        profile = PrivacyProfile(MIXED)
        twice, once = profile.subsampled(0.5).subsampled(0.25), profile.subsampled(0.125)
        assert twice.sampling_rate == once.sampling_rate == 0.125
        for e in (0.0, 0.1, 2.0):
            assert twice.log_delta(e) == once.log_delta(e)
            assert twice.certify(e) == once.certify(e)

    def test_rates_multiply_exactly(self):
        """0.1 · 0.1 is not a float; the certificate is for the exact product."""
        box = PrivacyProfile(WIDE).subsampled(0.1).subsampled(0.1).certify(0.0, relative_width=1e-15)
        with mp.workdps(40):
            exact = mpf(0.1) ** 2 * mixture_delta(2.0, 0.0, 1.0, 0.0, "remove")
            assert mpf(box.lower) <= exact <= mpf(box.upper)

    @pytest.mark.parametrize("rate", [1e-6, 0.01, 0.5, 0.999])
    @pytest.mark.parametrize("pair", [WIDE, MIXED, WIDE.reversed(), GaussianPair.from_ratios(1.0, shift=0.4)])
    def test_epsilon_is_the_smallest_safe_one(self, pair, rate):
        profile = PrivacyProfile(pair).subsampled(rate)
        for target in (0.3 * rate, 1e-3 * rate, 1e-9):
            for order in ("remove", "add", "worst"):
                e = profile.epsilon(target, order=order)
                assert profile.log_delta(e, order=order) <= math.log(target) + 1e-14
                if e > 0.0:
                    assert profile.delta(e * (1 - 1e-9), order=order) > target

    def test_certified_epsilon(self):
        for profile in (PrivacyProfile(MIXED), PrivacyProfile(MIXED).subsampled(0.05)):
            e = profile.certified_epsilon(1e-7)
            assert profile.certify(e, relative_width=1e-13).upper <= 1e-7
            assert e == pytest.approx(profile.epsilon(1e-7), rel=1e-11)
        assert PrivacyProfile(MIXED).certified_epsilon(0.9) == 0.0

    @pytest.mark.parametrize("rate", [0.0, -0.1, 1.0000001, math.nan, math.inf, "half", [0.1, 0.2], None])
    def test_refuses_bad_rates(self, rate):
        with pytest.raises(ParameterError, match=r"^rate must "):
            PrivacyProfile(WIDE).subsampled(rate)

    def test_a_certificate_out_of_reach_is_refused(self):
        """The rounding of the inner ε moves δ more than the width asked for."""
        profile = PrivacyProfile(GaussianPair.from_ratios(1.0, shift=0.01)).subsampled(0.3)
        with pytest.raises(PrecisionError, match="relative width 1e-14"):
            profile.certify(0.05, relative_width=1e-14)

    def test_far_below_the_smallest_float(self):
        profile = PrivacyProfile(GaussianPair.from_ratios(1.0, shift=0.01)).subsampled(0.5)
        inner = math.log1p(2.0 * math.expm1(3.0))
        assert profile.log_delta(3.0) == pytest.approx(math.log(0.5) + profile.remove.log_delta(inner), rel=1e-14)
        assert profile.certify(3.0).lower == 0.0


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
            (lambda d: d.update(format_version=3), "^format_version of the profile must be 1 or 2; got 3"),
            (lambda d: d.update(format_version=True), "^format_version of the profile must be 1 or 2; got True"),
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


@pytest.fixture
def close():
    from matplotlib import pyplot

    yield
    pyplot.close("all")


@pytest.mark.usefixtures("close")
class TestPlot:
    def test_draws_what_the_profile_says(self):
        profile = PrivacyProfile(MIXED)
        ax = profile.plot(points=31)
        worst, remove, add = ax.get_lines()
        assert [line.get_label() for line in (worst, remove, add)] == ["worst of both", "remove", "add"]
        x = worst.get_xdata()
        assert x.size == 31
        assert x[0] == 0.0
        assert x[-1] == profile.epsilon(1e-12)
        assert worst.get_ydata() == pytest.approx(profile.delta(x), rel=1e-13)
        assert remove.get_ydata() == pytest.approx(MIXED.delta(x), rel=1e-13)
        assert add.get_ydata() == pytest.approx(MIXED.reversed().delta(x), rel=1e-13)
        assert worst.get_linewidth() > 2 * remove.get_linewidth()
        assert remove.get_linestyle() != add.get_linestyle()
        assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_yscale()) == ("ε", "δ(ε)", "log")
        low, high = ax.get_ylim()
        assert low < 1e-12
        assert high > profile.delta(0.0)

    def test_leaves_out_what_is_zero(self):
        ax = PrivacyProfile(WIDE).plot(epsilon_range=(0.0, 2.0), points=41)
        add = ax.get_lines()[2]
        zero = add.get_xdata() >= 0.5 * math.log(2.0)
        assert np.isnan(add.get_ydata()[zero]).all()
        assert np.isfinite(add.get_ydata()[~zero]).all()
        assert ax.get_ylim()[0] > 1e-4

    def test_pairs_and_several(self):
        assert [line.get_label() for line in plot_profile(MIXED, points=5).get_lines()][1:] == ["p from q", "q from p"]
        named = {"whole": PrivacyProfile(MIXED), "sampled": PrivacyProfile(MIXED).subsampled(0.1), "pair": WIDE}
        lines = plot_profile(named, points=5).get_lines()
        assert [line.get_label() for line in lines] == list(named)
        assert lines[1].get_ydata() == pytest.approx(named["sampled"].delta(lines[1].get_xdata()), rel=1e-13)
        assert len({line.get_color() for line in lines}) == 3

    def test_draws_on_given_axes_and_keeps_what_is_there(self):
        from matplotlib import pyplot

        _, ax = pyplot.subplots()
        ax.plot([0.0, 20.0], [1e-20, 1.0])
        ax.set_yscale("log")
        assert PrivacyProfile(WIDE).plot(ax) is ax
        assert ax.get_ylim()[0] <= 1e-20
        assert ax.get_xlim()[1] >= 20.0

    @pytest.mark.parametrize(
        ("pair", "span"),
        [
            (GaussianPair.from_ratios(1.0), (0.0, 1.0)),
            (GaussianPair.from_diagonal(0.0, 0.0, 1.0, 1.0), (0.0, 1.0)),
            (GaussianPair.from_ratios(1.0, shift=1e-9), (0.0, None)),
            (GaussianPair.from_ratios(1.0, shift=40.0), (None, None)),
        ],
    )
    def test_range_in_the_corners(self, pair, span):
        ax = plot_profile(pair, points=5)
        x = ax.get_lines()[0].get_xdata()
        assert x[0] < x[-1]
        for found, expected in zip((x[0], x[-1]), span, strict=True):
            assert expected is None or found == expected
        ax.figure.canvas.draw()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"points": 1}, "^points must be a whole number of at least 2; got 1"),
            ({"points": 2.5}, "^points must be a whole number of at least 2; got 2.5"),
            ({"epsilon_range": (1.0, 1.0)}, "^epsilon_range must be two numbers, the smaller first; got "),
            ({"epsilon_range": (0.0, math.nan)}, "^epsilon_range must be finite; got "),
            ({"epsilon_range": (0.0, 1.0, 2.0)}, "^epsilon_range must be two numbers"),
        ],
    )
    def test_refuses(self, options, message):
        with pytest.raises(ParameterError, match=message):
            epsilon_grid(PrivacyProfile(WIDE), **options)

    def test_refuses_other_things(self):
        with pytest.raises(ParameterError, match=r"^profiles must be PrivacyProfile or GaussianPair values; got float"):
            plot_profile(1.0)
        with pytest.raises(ParameterError, match=r"^profiles must hold at least one profile; got none"):
            plot_profile({})


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


@pytest.mark.parametrize("value", [-1e-9, 1.0, math.nan, math.inf, "0"])
def test_bad_failure_probabilities(value):
    with pytest.raises(ParameterError, match="failure_probability"):
        PrivacyProfile(WIDE, failure_probability=value)
