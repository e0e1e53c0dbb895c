"""Risks of a profile in plain numbers: they bound the truth from the safe side, and are near to it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from scipy.integrate import quad
from scipy.stats import norm

from ndis import DPSGD, GaussianPair, ParameterError, PrecisionError, PrivacyProfile
from ndis.accountant.curve import UpperCurve
from ndis.profile import Group
from ndis.risk import _proved, certified_mu
from ndis.spectrum.closed_forms import mean_shift_delta

SHIFTS = (0.1, 1.0, 3.0)
RUN = DPSGD(noise_multiplier=1.0, sampling_rate=0.01, steps=1000).profile()
SKETCH = PrivacyProfile(GaussianPair.from_ratios(1.02, copies=100))
FAILS = PrivacyProfile(GaussianPair.from_ratios(1.0, shift=1.0), failure_probability=1e-3)


def shift(mu: float) -> PrivacyProfile:
    return PrivacyProfile(GaussianPair.from_ratios(1.0, shift=mu))


class TestPower:
    @pytest.mark.parametrize("mu", SHIFTS)
    def test_of_the_gaussian_down_to_tiny_levels(self, mu):
        alpha = np.array([1e-12, 1e-6, 0.01, 0.3, 0.9])
        exact = norm.cdf(norm.ppf(alpha) + mu)
        answer = shift(mu).true_positive_rate(alpha)
        assert (answer >= exact * (1 - 1e-13)).all()
        np.testing.assert_allclose(answer, exact, rtol=2e-8)

    @pytest.mark.parametrize("alpha", [1e-12, 1e-7, 1e-3, 0.2])
    def test_of_a_run_is_the_lowest_line(self, alpha):
        e = np.linspace(-6, 6, 4001)
        lines = RUN.delta(e) + np.exp(e) * alpha
        answer = RUN.true_positive_rate(alpha)
        assert answer <= lines.min() * (1 + 1e-7)
        assert answer >= lines.min() * (1 - 1e-4)  # the grid is that coarse
        assert answer == pytest.approx(1 - RUN.tradeoff(alpha), abs=1e-8)

    def test_ends_and_shapes(self):
        assert 0.0 < RUN.true_positive_rate(0.0) < 1e-15
        assert RUN.true_positive_rate(1.0) == 1.0
        assert RUN.true_positive_rate([[0.1], [0.2]]).shape == (2, 1)
        assert FAILS.true_positive_rate(0.0) >= 1e-3
        for bad in (-0.1, 1.1, math.nan):
            with pytest.raises(ParameterError, match=r"^at_false_positive_rate must "):
                RUN.true_positive_rate(bad)

    def test_laws_that_say_everything(self):
        open_book = PrivacyProfile(GaussianPair.from_diagonal(0.0, 0.0, 1.0, 0.0))
        assert open_book.true_positive_rate(1e-9) == 1.0
        assert open_book.advantage() == 1.0
        assert open_book.bayes_risk(0.5) == 0.0
        assert open_book.renyi(2.0) == math.inf
        assert open_book.gdp().mu == math.inf

    def test_total_variation_is_delta_at_zero_rounded_up(self):
        for profile in (RUN, SKETCH, FAILS):
            assert profile.delta(0.0) <= profile.total_variation() <= profile.delta(0.0) * (1 + 1e-8)
            assert profile.advantage() == profile.total_variation()


class TestBayesRisk:
    @pytest.mark.parametrize("mu", SHIFTS)
    @pytest.mark.parametrize("prior", [1e-6, 0.1, 0.5, 0.7, 1 - 1e-6])
    def test_of_the_gaussian(self, mu, prior):
        threshold = math.log((1 - prior) / prior) / mu
        exact = prior * norm.cdf(threshold - mu / 2) + (1 - prior) * norm.sf(threshold + mu / 2)
        answer = shift(mu).bayes_risk(prior)
        assert answer <= exact * (1 + 1e-13)
        assert answer == pytest.approx(exact, rel=1e-8)

    def test_a_failure_counts(self):
        assert FAILS.bayes_risk(0.5) == pytest.approx(shift(1.0).bayes_risk(0.5) - 0.0005, abs=1e-9)

    def test_bad_priors(self):
        for bad in (0.0, 1.0, math.nan):
            with pytest.raises(ParameterError, match=r"^prior must "):
                RUN.bayes_risk(bad)


class TestRenyi:
    def test_of_a_pair(self):
        for order in (1.0, 1.5, 8.0):
            pair = GaussianPair.from_ratios([1.1, 0.9], shift=[0.3, 0.2])
            exact = max(pair.renyi(order), pair.reversed().renyi(order))
            assert exact <= PrivacyProfile(pair).renyi(order) <= exact * (1 + 1e-9)
        assert SKETCH.renyi(60.0) == math.inf  # 1/t is 50

    @pytest.mark.parametrize("order", [1.5, 2.0, 16.0])
    def test_of_a_run_by_quadrature(self, order):
        q, steps = 0.01, 1000

        def moment(power: float) -> float:
            return quad(lambda x: norm.pdf(x) * (1 - q + q * math.exp(x - 0.5)) ** power, -12, 30, epsrel=1e-12)[0]

        exact = max(steps * math.log(moment(power)) / (order - 1) for power in (order, 1 - order))
        assert RUN.renyi(order) == pytest.approx(exact, rel=1e-7)

    def test_the_ends(self):
        bounded = PrivacyProfile(GaussianPair.from_ratios(0.25), GaussianPair.from_ratios(0.25))
        assert bounded.renyi(math.inf) == pytest.approx(math.log(2), rel=1e-12)
        assert RUN.renyi(math.inf) == math.inf
        assert FAILS.renyi(2.0) == math.inf
        with pytest.raises(ParameterError, match=r"^order must be at least 1"):
            RUN.renyi(0.5)


class TestGaussianBound:
    def test_plain_gaussians_are_themselves(self):
        assert shift(0.7).gdp() == (0.7, 1e-10)
        assert PrivacyProfile.from_noise_multiplier(2.0).repeat(4).gdp(0.0).mu == 1.0

    def test_without_slack_the_tails_decide(self):
        assert RUN.gdp(0.0).mu == pytest.approx(math.sqrt(1000), rel=1e-12)
        assert SKETCH.gdp(0.0).mu == math.inf

    def test_a_failure_needs_its_slack(self):
        assert FAILS.gdp(1e-4).mu == math.inf
        assert FAILS.gdp(1e-3).mu == 1.0
        assert FAILS.subsampled(0.5).gdp(0.01).mu < 1.0

    @pytest.mark.parametrize(
        "profile",
        [SKETCH, PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.1), RUN],
        ids=["sketch", "one step", "run"],
    )
    @pytest.mark.parametrize("slack", [1e-10, pytest.param(1e-5, marks=pytest.mark.sweep)])
    def test_it_holds_everywhere_and_no_smaller_one_does(self, profile, slack):
        """thm:certified-mu: both orders, at places between those of the proof, and at negative ε."""
        mu = profile.gdp(slack).mu
        end = profile.epsilon(slack / 2)
        e = np.linspace(-1.5 * end, 1.5 * end, 1201)
        for order in ("remove", "add"):
            assert (profile.delta(e, order=order) <= (mean_shift_delta(e, mu) + slack) * (1 + 1e-9)).all()
        smaller = mean_shift_delta(e, mu * (1 - 1e-4)) + slack
        assert (profile.delta(e) > smaller).any()

    def test_a_proof_can_fail(self):
        """thm:certified-mu asks for a small end, and for a tangent above every chord."""
        x = np.linspace(0.0, 5.0, 400)
        y = mean_shift_delta(x, 1.0)
        slack = float(y[-1])
        assert _proved(1.001, x, y, slack)
        assert not _proved(0.999, x, y, slack)
        assert not _proved(1.001, x, y, 0.5 * slack)
        assert not _proved(1.001, x[::40], np.append(y[:-1:40], slack)[: x[::40].size], slack)  # cells too wide
        assert not _proved(1.001, x, np.where(x == x[100], np.nan, y), slack)

    def test_a_curve_that_no_certificate_confirms_raises_mu(self):
        def upper(e):
            return np.where(e < 5, 1.01 * mean_shift_delta(e, 1.0), 1e-9)

        mu = certified_mu(upper, 5.5, 1e-6)
        assert 1.0 < mu < 1.02

    @pytest.mark.parametrize("run", [RUN, RUN.compose(shift(0.3))], ids=["steps", "steps and a release"])
    def test_one_line_bounds_both_orders_at_every_epsilon(self, run):
        """thm:period-sum: the other periods are not negative, so that a sum is never below δ."""
        end = 1.02 * run.epsilon(1e-10)
        x = np.linspace(0.0, end, 5)
        for e, bound in zip(x, UpperCurve(run._compositions("add")[0], end, 1e-10, both=True)(x), strict=True):
            box = run.certify(e)
            assert box.lower <= bound <= box.upper * (1 + 1e-6) + 1e-16

    @pytest.mark.parametrize("order", ["remove", "add"])
    @pytest.mark.parametrize(("exact", "wide"), [(True, 1e-5), (False, 0.05)], ids=["itself", "stand-ins"])
    def test_one_line_bounds_one_order(self, order, exact, wide):
        """thm:stand-ins: a law above another one has a larger δ, and so has one more release."""
        end = 3.0
        x = np.linspace(0.0, end, 4)
        upper = UpperCurve(RUN._compositions(order)[0], end, 1e-4, both=False, exact=exact)
        for e, bound in zip(x, upper(x), strict=True):
            box = RUN.certify(e, order=order)
            assert box.lower <= bound <= box.upper * (1 + wide) + 1e-4 * wide

    def test_no_line_serves_orders_that_differ(self):
        other = PrivacyProfile(GaussianPair.from_ratios(1.1), GaussianPair.from_ratios(1.1)).subsampled(0.1).repeat(9)
        with pytest.raises(PrecisionError):
            UpperCurve(other._compositions("add")[0], 1.0, 1e-6, both=True)
        with pytest.raises(PrecisionError):
            UpperCurve(RUN._compositions("remove")[0], 1.0, 1e-6, both=True)

    @pytest.mark.parametrize("shifts", [(1.0, 0.5), (0.5, 1.0)])
    def test_orders_that_are_given_apart_both_count(self, shifts):
        """The pair of the add order may be any; the line of one order says nothing about the other then."""
        remove, add = (GaussianPair.from_ratios(1.0, shift=shift) for shift in shifts)
        profile = PrivacyProfile(groups=[Group(remove, add, rates=(0.5,), count=20)])
        bound = PrivacyProfile.from_noise_multiplier(1.0 / profile.gdp(1e-6).mu)
        for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
            assert profile.certify(epsilon).lower <= bound.certify(epsilon).upper + 1e-6

    def test_a_line_that_ends_too_high_is_refused(self):
        with pytest.raises(PrecisionError, match="did not settle"):
            UpperCurve(RUN._compositions("add")[0], 0.1, 1e-6, both=True)

    def test_a_curve_is_kept_for_larger_slacks(self):
        run = DPSGD(noise_multiplier=1.0, sampling_rate=0.01, steps=1000).profile()
        first = run.gdp(1e-8).mu
        (curve,) = run._curves.values()
        assert run.gdp(1e-6).mu < first
        assert list(run._curves.values()) == [curve]
        assert run.gdp(1e-6).mu == pytest.approx(RUN.gdp(1e-6).mu, rel=2e-6)
        assert run.gdp(1e-9).mu > first
        assert len(run._curves) == 2

    def test_bad_slacks(self):
        for bad in (-1e-9, 1.0, math.nan):
            with pytest.raises(ParameterError, match=r"^slack must "):
                RUN.gdp(bad)

    def test_the_slack_is_shown(self):
        assert "slack=1e-06" in repr(shift(1.0).gdp(1e-6))
        assert Fraction(shift(1.0).gdp(1e-6).slack) == Fraction(1e-6)


@pytest.mark.parametrize("broken", [0, 1])
def test_a_bound_that_is_no_number_is_one(broken, monkeypatch):
    """One order may have no ball; the bound of the other must not stand for both."""
    steps = PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.01).repeat(100)
    upper = UpperCurve(steps._compositions("add")[0], 1.5, 1e-6, both=True)
    known = upper._sums
    place = np.array([0.5])
    assert upper(place)[0] < 0.1
    monkeypatch.setattr(
        upper, "_sums", lambda e: [[arb("nan") if k == broken else x for k, x in enumerate(known(e)[0])]]
    )
    assert upper(place)[0] == 1.0
