"""Compositions of sampled releases as profiles, and the accountant of DP-SGD."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import ndis
from ndis import DPSGD, GaussianPair, ParameterError, PrivacyProfile
from ndis.dpsgd import Stage
from ndis.profile import Group
from ndis.worst_case.profile import envelope_profile

STEP = PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.01)
MNIST = DPSGD(noise_multiplier=1.1, sampling_rate=256 / 60000, steps=14062)


def close(a, b, rel=1e-9):
    return np.testing.assert_allclose(a, b, rtol=rel, atol=0)


class TestCompositions:
    """Identities that hold whatever the numbers are."""

    @pytest.mark.parametrize("order", ["remove", "add", "worst"])
    def test_known_epsilons(self, order):
        """Both from a high-precision reference; the remove order is the worse one in either."""
        other = DPSGD(noise_multiplier=0.8, sampling_rate=0.01, steps=2000).profile()
        found = MNIST.profile().epsilon(1e-5, order=order), other.epsilon(1e-8, order=order)
        if order == "add":
            assert found[0] < 2.3815969
            assert found[1] < 6.1849201
        else:
            close(found, (2.38159692, 6.18492017), rel=3e-9)

    @pytest.mark.parametrize("order", ["remove", "add"])
    def test_a_split_group_is_the_group(self, order):
        x = np.array([-0.3, 0.0, 0.5, 2.0])
        whole = STEP.repeat(700).log_delta(x, order=order)
        close(STEP.repeat(300).compose(STEP.repeat(400)).log_delta(x, order=order), whole)
        other = PrivacyProfile.from_noise_multiplier(1.0 + 2.0**-52).subsampled(0.01)  # kept as a group of its own
        close(STEP.repeat(300).compose(other.repeat(400)).log_delta(x, order=order), whole)

    @pytest.mark.parametrize("order", ["remove", "add"])
    def test_the_order_of_groups_does_not_matter(self, order):
        a, b = STEP.repeat(100), PrivacyProfile.from_noise_multiplier(2.0).subsampled(0.1).repeat(50)
        plain = PrivacyProfile(GaussianPair.from_ratios(1.1, shift=0.3))
        x = np.array([0.2, 1.5])
        close(a.compose(b, plain).log_delta(x, order=order), plain.compose(b, a).log_delta(x, order=order))

    def test_rate_one_is_plain_composition(self):
        plain = PrivacyProfile.from_noise_multiplier(4.0)
        assert plain.subsampled(1.0).repeat(20).remove.dimension == 20
        nearly = Group(plain.remove, rates=(1.0 - 2.0**-53,), count=20)
        x = np.array([-1.0, 0.5, 3.0])
        close(PrivacyProfile(groups=[nearly]).log_delta(x), plain.repeat(20).log_delta(x), rel=1e-8)

    def test_several_steps_are_repeats(self):
        assert STEP.repeat(6).delta(0.4) == STEP.repeat(2).repeat(3).delta(0.4) == STEP.compose(*[STEP] * 5).delta(0.4)

    def test_two_steps_against_a_plain_integral(self):
        """δ₂(ε) = E_P δ₁(ε − L): the closed form of one step under an integral over the other."""
        q, mu, e = 0.2, 1.0, 0.3
        step = PrivacyProfile.from_noise_multiplier(1 / mu).subsampled(q)
        x = np.linspace(-12.0, 14.0, 20001)
        normal = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        loss = np.log1p(q * np.expm1(mu * x - 0.5 * mu * mu))
        inner = {o: step.delta(e - (loss if o == "remove" else -loss), order=o) for o in ("remove", "add")}
        h = x[1] - x[0]
        close(step.repeat(2).delta(e, order="remove"), h * np.sum(normal * np.exp(loss) * inner["remove"]), rel=1e-7)
        close(step.repeat(2).delta(e, order="add"), h * np.sum(normal * inner["add"]), rel=1e-7)

    def test_monotone_in_rate_noise_and_steps(self):
        def delta(noise=1.0, rate=0.01, steps=500):
            return DPSGD(noise_multiplier=noise, sampling_rate=rate, steps=steps).profile().delta(1.0)

        assert delta(rate=0.009) < delta() < delta(rate=0.011)
        assert delta(noise=1.1) < delta() < delta(noise=0.9)
        assert delta(steps=499) < delta() < delta(steps=501)

    def test_delta_at_negative_epsilon(self):
        profile = STEP.repeat(300)
        for e in (0.1, 0.7):
            for order, other in (("remove", "add"), ("add", "remove")):
                reverse = -math.expm1(-e) + math.exp(-e) * profile.delta(e, order=other)
                close(profile.delta(-e, order=order), reverse, rel=1e-11)

    def test_broadcasting(self):
        profile = STEP.repeat(100)
        x = np.array([[0.1, 0.2], [0.3, 1.0]])
        found = profile.delta(x)
        assert found.shape == (2, 2)
        close(found, [[profile.delta(v) for v in row] for row in x.tolist()], rel=1e-10)
        assert profile.epsilon(np.array([1e-3, 1e-6])).shape == (2,)
        assert profile.tradeoff([0.1, 0.2, 0.3]).shape == (3,)

    def test_beyond_the_end_of_the_add_order(self):
        """There δ of the add order is 0 or too small to evaluate, and the worse order is still found."""
        end = -300 * math.log1p(-0.01)
        for e in (end * (1 - 1e-9), end * 1.001, 5.0):
            profile = STEP.repeat(300)
            assert profile.delta(e) == profile.delta(e, order="remove")
        assert STEP.repeat(300).log_delta(5.0, order="add") == -math.inf

    @pytest.mark.parametrize("order", ["remove", "add", "worst"])
    def test_certificates(self, order):
        profile = STEP.repeat(1000).compose(PrivacyProfile(GaussianPair.from_ratios(1.05, shift=0.2)))
        for e in (-0.5, 1.0, 3.0):
            box = profile.certify(e, order=order)
            assert box.width <= 1e-6 * box.upper
            assert box.lower * (1 - 1e-10) <= profile.delta(e, order=order) <= box.upper * (1 + 1e-10)

    @pytest.mark.parametrize("delta", [1e-3, 1e-9])
    def test_certified_epsilon(self, delta):
        profile = STEP.repeat(1000)
        e = profile.certified_epsilon(delta)
        assert profile.certify(e).upper <= delta
        assert profile.epsilon(delta) <= e <= profile.epsilon(delta) * (1 + 1e-5)

    def test_a_failure_probability_counts(self):
        profile = PrivacyProfile(groups=STEP.repeat(100).groups, failure_probability=1e-7)
        assert profile.delta(0.5) == pytest.approx(STEP.repeat(100).delta(0.5) + 1e-7, rel=1e-12)
        e = profile.certified_epsilon(1e-6)
        assert profile.certify(e).upper <= 1e-6
        assert profile.certified_epsilon(1e-7) == math.inf

    def test_json(self):
        profile = STEP.repeat(40).compose(PrivacyProfile(GaussianPair.from_ratios(1.1)))
        again = PrivacyProfile.from_json(profile.to_json())
        assert again.delta(0.3) == profile.delta(0.3)
        assert again.certify(0.3) == profile.certify(0.3)

    def test_plot(self):
        matplotlib = pytest.importorskip("matplotlib")
        ax = STEP.repeat(100).plot(points=11)
        assert len(ax.get_lines()) == 3
        matplotlib.pyplot.close(ax.figure)

    def test_sketches_compose_after_sampling(self):
        sketch = PrivacyProfile(GaussianPair.from_ratios(1.02, copies=100)).subsampled(0.1)
        profile = sketch.repeat(100)
        for order in ("remove", "add"):
            box = profile.certify(0.3, order=order)
            assert box.lower * (1 - 1e-10) <= profile.delta(0.3, order=order) <= box.upper
            assert box.width <= 0.2 * box.upper
        whole = PrivacyProfile(GaussianPair.from_ratios(1.02, copies=10_000))
        assert sketch.delta(0.3) < profile.delta(0.3) < whole.delta(0.3)
        assert profile.certify(profile.certified_epsilon(1e-4)).upper <= 1e-4

    def test_few_samples_of_a_sketch_lie_within_their_certificate(self):
        profile = PrivacyProfile(GaussianPair.from_ratios(1.02, copies=100)).subsampled(0.1).repeat(2)
        box = profile.certify(0.01)
        assert profile.delta(0.01) in box
        one = PrivacyProfile(GaussianPair.from_ratios(1.02, copies=100)).subsampled(0.1)
        assert one.delta(0.01) < box.upper < 2.5 * one.delta(0.01)

    def test_a_lifted_model_composes_through_its_dominating_pair(self):
        envelope = ndis.worst_case.envelopes.RankOneEnvelope(shift_bound=0.1, ratio_bound=0.012)
        profile = envelope_profile(envelope, epsilon=1.0)
        together = profile.compose(STEP.repeat(10))
        pair = PrivacyProfile(profile.remove, profile.add)
        assert together.delta(1.0) == pair.compose(STEP.repeat(10)).delta(1.0)

    def test_singular_pairs_are_refused(self):
        bare = PrivacyProfile(GaussianPair.from_diagonal(0.0, 0.0, 1.0, 0.0))
        with pytest.raises(ParameterError, match=r"must not be mutually singular; got"):
            bare.compose(STEP).delta(1.0)

    def test_relations_between_data_sets_do_not_mix(self):
        replaced = PrivacyProfile.from_noise_multiplier(1.0, adjacency="replace-one")
        sketch = PrivacyProfile(GaussianPair.from_ratios(1.1), adjacency="replace-one")
        with pytest.raises(ParameterError, match=r"^adjacency must be 'add-remove' for Poisson samples; got 'replace-"):
            sketch.subsampled(0.1)
        with pytest.raises(ParameterError, match=r"^adjacency of others must be 'add-remove'"):
            STEP.compose(replaced)


class TestDPSGD:
    def test_epochs(self):
        run = DPSGD(noise_multiplier=1.0, sampling_rate=1 / 3, steps=8)
        rows = run.epsilon_by_epoch(1e-5)
        assert [row.steps for row in rows] == [3, 6, 8]
        close([row.epsilon for row in rows], run.epsilon_after([3, 6, 8], delta=1e-5), rel=1e-12)
        assert rows[-1].epoch == pytest.approx(8 / 3)
        assert {(type(row.epoch), type(row.steps), type(row.epsilon)) for row in rows} == {(float, int, float)}

    def test_schedules(self):
        schedule = DPSGD.from_schedule([(1.0, 0.01, 500), Stage(noise_multiplier=1.4, sampling_rate=0.02, steps=300)])
        assert schedule.steps == 800
        assert schedule.after(500).stages == (Stage(noise_multiplier=1.0, sampling_rate=0.01, steps=500),)
        assert [row.steps for row in schedule.epsilon_by_epoch(1e-5)] == [100, 200, 300, 400, *range(500, 801, 50)]
        a, b = schedule.stages
        parts = [DPSGD.from_schedule([stage]).profile() for stage in (a, b)]
        assert schedule.profile().delta(1.0) == parts[0].compose(parts[1]).delta(1.0)

    def test_a_full_batch_is_a_gaussian(self):
        run = DPSGD(noise_multiplier=5.0, sampling_rate=1.0, steps=25)
        assert run.epsilon(1e-6) == pytest.approx(PrivacyProfile.from_noise_multiplier(1.0).epsilon(1e-6), rel=1e-12)

    def test_calibrated(self):
        run = DPSGD.calibrated(epsilon=2.0, delta=1e-5, sampling_rate=0.01, steps=1000)
        (stage,) = run.stages
        assert run.profile().certify(2.0).upper <= 1e-5
        less = DPSGD(noise_multiplier=stage.noise_multiplier * (1 - 1e-5), sampling_rate=0.01, steps=1000)
        assert less.profile().certify(2.0).lower > 1e-5

    def test_longest(self):
        public = {"epsilon": 2.0, "delta": 1e-5}
        run = DPSGD.longest(noise_multiplier=1.0, sampling_rate=0.01, **public)
        assert run.profile().certify(2.0).upper <= 1e-5
        more = DPSGD(noise_multiplier=1.0, sampling_rate=0.01, steps=run.steps + 1)
        assert more.profile().certify(2.0).lower > 1e-5
        with pytest.raises(ndis.BudgetError, match="not even one step"):
            DPSGD.longest(noise_multiplier=0.1, sampling_rate=0.5, **public)

    def test_json(self):
        run = DPSGD.from_schedule([(1.0, 0.01, 500), (1.4, 1.0, 3)])
        assert DPSGD.from_json(run.to_json()) == run
        for change, message in (
            ({"format": "other"}, "^format of the schedule must be 'ndis.DPSGD'; got 'other'"),
            ({"format_version": 3}, "^format_version of the schedule must be 1 or 2; got 3"),
            ({"stages": []}, "^stages must be at least one; got none"),
            ({"stages": {}}, "^stages must be a list"),
            ({"stages": [{"noise_multiplier": 1.0}]}, "^stage must have the keys"),
            ({"more": 1}, "^schedule must have only the keys"),
        ):
            with pytest.raises(ParameterError, match=message):
                DPSGD.from_json(json.dumps({**json.loads(run.to_json()), **change}))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"sampling_rate": 0.0}, "^sampling_rate must be above 0 and at most 1; got 0.0"),
            ({"sampling_rate": 1.5}, "^sampling_rate must be above 0 and at most 1; got 1.5"),
            ({"sampling_rate": math.nan}, "^sampling_rate must be finite"),
            ({"sampling_rate": None}, "^sampling_rate must be given for .poisson."),
            ({"steps": 0}, "^steps must be whole numbers of at least 1"),
            ({"steps": 10.5}, "^steps must be whole numbers of at least 1"),
            ({"steps": True}, "^steps must be a real number"),
            ({"noise_multiplier": 0.0}, "^noise_multiplier must be positive"),
            ({"noise_multiplier": -1.0}, "^noise_multiplier must be positive"),
            ({"noise_multiplier": math.nan}, "^noise_multiplier must be finite"),
            ({"noise_multiplier": "1"}, "^noise_multiplier must be a real number"),
        ],
    )
    def test_bad_input(self, change, message):
        with pytest.raises(ParameterError, match=message):
            DPSGD(**{"noise_multiplier": 1.0, "sampling_rate": 0.01, "steps": 100, **change})

    def test_delta_is_that_of_the_profile_and_broadcasts(self):
        run = DPSGD(noise_multiplier=1.0, sampling_rate=0.01, steps=1000)
        given = np.array([[0.5, 1.0], [2.0, -0.5]])
        assert run.delta(given).shape == (2, 2)
        assert (run.delta(given) == run.profile().delta(given)).all()
        found = run.delta(1.5)
        assert isinstance(found, float)
        assert run.epsilon(found) == pytest.approx(1.5, rel=1e-9)

    def test_an_audit_asks_for_a_certificate_although_delta_is_a_function(self):
        run = DPSGD(noise_multiplier=1.0, sampling_rate=0.01, steps=1000)
        claim = ndis.Claim(epsilon=run.epsilon(1e-5) * 1.01, delta=1e-5)
        assert ndis.audit(claim, mechanism=run).proved

    def test_bad_schedules(self):
        for bad in ([], [(1.0, 0.1)], [1.0], ["abc"]):
            with pytest.raises(ParameterError, match=r"^stages must be "):
                DPSGD.from_schedule(bad)
        for steps in (0, 101, 2.5):
            with pytest.raises(ParameterError, match=r"^steps must be "):
                DPSGD(noise_multiplier=1.0, sampling_rate=0.1, steps=100).epsilon_after(steps, delta=1e-5)

    def test_plot(self):
        matplotlib = pytest.importorskip("matplotlib")
        ax = DPSGD(noise_multiplier=1.0, sampling_rate=0.25, steps=20).plot(1e-5)
        assert len(ax.get_lines()[0].get_xdata()) == 5
        matplotlib.pyplot.close(ax.figure)
