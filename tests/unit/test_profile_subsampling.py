"""Poisson sampling of a profile, against the definition with 40 digits."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath
import pytest
from mpmath import mp, mpf

from ndis.errors import ParameterError, PrecisionError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

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


class TestSubsampling:
    @pytest.mark.parametrize(("ratio", "shift", "rate", "epsilon", "order"), SAMPLED)
    # Checks thm:poisson-sampling.
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
