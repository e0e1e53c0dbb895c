"""DP-SGD by every sampler: the same methods, the right neighbours, and numbers that are those of the profile."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest

import ndis
from ndis import DPSGD, BudgetError, ParameterError, PrivacyProfile
from ndis.dpsgd import Stage

BUDGET = {"epsilon": 3.0, "delta": 1e-5}
NUMBERS = {
    "poisson": {"sampling_rate": 0.02, "steps": 100},
    "allocation": {"bins": 50, "epochs": 2},
    "fixed-size": {"batch_size": 20, "records": 1000, "steps": 100},
    "truncated": {"sampling_rate": 0.02, "max_batch_size": 60, "records": 1000, "steps": 100},
}
SAMPLERS = list(NUMBERS)
SLOW = [n if n in ("poisson", "allocation") else pytest.param(n, marks=pytest.mark.sweep) for n in SAMPLERS]
NOISE = {"fixed-size": 3.0}  # the others have 1


def run_of(sampling, noise=None, **change):
    noise = NOISE.get(sampling, 1.0) if noise is None else noise
    return DPSGD(noise_multiplier=noise, sampling=sampling, **{**NUMBERS[sampling], **change})


def profile_of(sampling):
    """The profile of the numbers above, by hand."""
    step = {
        "poisson": lambda: PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.02).repeat(100),
        "allocation": lambda: PrivacyProfile.from_allocation(noise_multiplier=1.0, bins=50).repeat(2),
        "fixed-size": lambda: PrivacyProfile.from_fixed_size(noise_multiplier=3.0, batch_size=20, records=1000).repeat(
            100
        ),
        "truncated": lambda: PrivacyProfile.from_truncated_poisson(
            noise_multiplier=1.0, sampling_rate=0.02, max_batch_size=60, records=1000
        ).repeat(100),
    }
    return step[sampling]()


@pytest.mark.parametrize("sampling", SAMPLERS)
class TestEverySampler:
    def test_the_number_is_that_of_its_profile(self, sampling):
        run, profile = run_of(sampling), profile_of(sampling)
        assert run.epsilon(1e-5) == profile.epsilon(1e-5)
        assert run.adjacency == profile.adjacency
        assert run.steps == 100
        assert run.sampling_rate == 0.02

    def test_the_loop_in_one_sentence(self, sampling):
        text = run_of(sampling).loop
        words = {"poisson": "on its own", "allocation": "drawn anew", "fixed-size": "fixed size", "truncated": "cut"}
        assert words[sampling] in text
        assert ("replaced" in text) == (sampling == "fixed-size")
        assert ". " not in text

    def test_json(self, sampling):
        run = run_of(sampling)
        assert DPSGD.from_json(run.to_json()) == run
        assert json.loads(run.to_json())["format_version"] == (1 if sampling == "poisson" else 2)
        profile = run.profile()
        assert PrivacyProfile.from_json(profile.to_json()).delta(1.0) == profile.delta(1.0)

    def test_epochs(self, sampling):
        rows = run_of(sampling).epsilon_by_epoch(1e-5)
        assert [(row.epoch, row.steps) for row in rows] == [(1.0, 50), (2.0, 100)]
        assert 0 < rows[0].epsilon < rows[1].epsilon
        assert run_of(sampling).after(50).epsilon(1e-5) == pytest.approx(rows[0].epsilon, rel=1e-7)

    def test_an_audit_convicts_no_honest_claim(self, sampling):
        run = run_of(sampling)
        claim = ndis.Claim(epsilon=1.05 * run.epsilon(1e-5), delta=1e-5, adjacency=run.adjacency)
        report = ndis.audit(claim, mechanism=run)
        assert not report.refuted
        theorems = {"poisson": "sampled-moment"}
        assert report.verdict.startswith(f"proved by thm:{theorems.get(sampling, sampling)}")

    def test_what_is_attained_lies_below(self, sampling):
        run = run_of(sampling)
        (worst,) = run.attained()
        for epsilon in (0.0, 0.5, 1.5):
            assert worst.profile.delta(epsilon) <= run.delta(epsilon) * (1 + 1e-9)

    def test_a_plan_of_a_ledger_takes_it(self, sampling, tmp_path):
        run = run_of(sampling)
        ledger = ndis.Ledger.create(
            tmp_path / "budget.db",
            epsilon=run.epsilon(1e-6) * 1.01,
            delta=1e-6,
            plan={"training": (run, 1)},
            adjacency=run.adjacency,
        )
        with ledger.charge("training", run) as charge:
            charge.seal(None)
        with pytest.raises(ndis.NdisError), ledger.charge("training", run):
            pass

    def test_its_risks(self, sampling):
        profile = run_of(sampling).profile()
        assert profile.delta(0.0) <= profile.advantage() <= profile.delta(0.0) * (1 + 1e-6)
        assert 1e-6 < profile.true_positive_rate(1e-6) < profile.true_positive_rate(1e-3) < 1
        assert 0 < profile.bayes_risk(0.3) < 0.3
        assert 0 < profile.renyi(2.0) < profile.renyi(8.0)


@pytest.mark.parametrize("sampling", SLOW)
class TestWholeNumbersAndBatches:
    """Certificates of the samplers whose numbers are upper bounds take seconds each."""

    def test_an_audit_convicts_a_false_claim(self, sampling):
        run = run_of(sampling)
        assert ndis.audit(ndis.Claim(epsilon=0.2, delta=1e-9, adjacency=run.adjacency), mechanism=run).refuted

    def test_the_smallest_noise(self, sampling):
        run = DPSGD.calibrated(**BUDGET, sampling=sampling, **NUMBERS[sampling])
        assert run.profile().certify(3.0).upper <= 1e-5
        close = 1e-4 if sampling in ("poisson", "allocation") else 1e-2  # the others have certificates a percent wide
        less = run_of(sampling, run.noise_multiplier * (1 - close))
        assert less.delta(3.0) > 1e-5

    def test_a_picture(self, sampling):
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("agg")
        axes = run_of(sampling).profile().plot(points=7)
        other = run_of(sampling).plot(1e-5)
        assert len(axes.get_lines()) == 3
        assert len(other.get_lines()[0].get_xdata()) == 2
        for ax in (axes, other):
            matplotlib.pyplot.close(ax.figure)

    def test_the_most_updates(self, sampling):
        name = "epochs" if sampling == "allocation" else "steps"
        run = DPSGD.longest(
            **BUDGET,
            noise_multiplier=NOISE.get(sampling, 1.0),
            sampling=sampling,
            **{k: v for k, v in NUMBERS[sampling].items() if k != name},
        )
        count = getattr(run.stages[0], name)
        assert run.profile().certify(3.0).upper <= 1e-5
        assert run_of(sampling, **{name: count + max(count // 500, 1)}).delta(3.0) > 1e-5

    def test_the_largest_batch(self, sampling):
        name = {"allocation": "bins", "fixed-size": "batch_size"}.get(sampling, "sampling_rate")
        noise = NOISE.get(sampling, 1.0)
        numbers = {k: v for k, v in NUMBERS[sampling].items() if k != name}
        run = DPSGD.calibrated(**BUDGET, noise_multiplier=noise, sampling=sampling, **numbers)
        value = getattr(run.stages[0], name)
        worse = {"bins": lambda n: n - 1, "batch_size": lambda n: n + 1}.get(name, lambda q: q * (1 + 1e-4))(value)
        assert run.profile().certify(3.0).upper <= 1e-5
        assert run_of(sampling, noise, **{name: worse}).delta(3.0) > 1e-5


def test_the_smallest_noise_of_one_step_of_a_fixed_size():
    numbers = {"batch_size": 20, "records": 1000, "steps": 1}
    run = DPSGD.calibrated(**BUDGET, sampling="fixed-size", **numbers)
    assert run.profile().certify(3.0).upper <= 1e-5
    assert run_of("fixed-size", run.noise_multiplier * (1 - 1e-4), steps=1).delta(3.0) > 1e-5


class TestCutSamples:
    def test_a_maximum_that_always_cuts_still_keeps_its_share(self):
        """B/n of the sampled records are kept at least, and that is what an audit may count on."""
        run = DPSGD(
            noise_multiplier=1.0, sampling="truncated", sampling_rate=0.9, max_batch_size=2, records=100, steps=3
        )
        (worst,) = run.attained()
        assert worst.profile.groups[0].rate == pytest.approx(0.9 * 2 / 100, rel=1e-12)
        assert worst.profile.delta(0.1) <= run.delta(0.1)


class TestUsers:
    def test_a_user_with_several_examples(self):
        step = PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.02)
        run = run_of("poisson", examples_per_user=3)
        assert run.epsilon(1e-5) == step.repeat(100).group(3).epsilon(1e-5)
        assert "one user with up to 3 records" in run.loop
        assert DPSGD.from_json(run.to_json()) == run
        assert run.attained()[0].profile.delta(1.0) == run.delta(1.0)

    def test_full_batches(self):
        run = DPSGD(noise_multiplier=3.0, sampling_rate=1.0, steps=4, examples_per_user=3)
        assert run.epsilon(1e-5) == pytest.approx(PrivacyProfile.from_noise_multiplier(0.5).epsilon(1e-5), rel=1e-12)

    def test_calibrated(self):
        run = DPSGD.calibrated(**BUDGET, **NUMBERS["poisson"], examples_per_user=2)
        assert run.profile().certify(3.0).upper <= 1e-5
        one = DPSGD.calibrated(**BUDGET, **NUMBERS["poisson"])
        assert 1.2 < run.noise_multiplier / one.noise_multiplier < 2.0

    def test_other_samplers_know_no_users(self):
        with pytest.raises(ParameterError, match=r"^examples_per_user must be 1 for 'fixed-size'; got 2"):
            run_of("fixed-size", examples_per_user=2)

    def test_a_group_of_users_has_all_their_examples(self):
        step = PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.1).repeat(100)
        assert step.group(2).group(3).groups == step.group(6).groups
        assert "one person's records, up to 2, are there or not" in str(step.group(2).report(groups=()))


class TestSchedules:
    def test_samplers_of_one_adjacency_mix(self):
        stages = [{"noise_multiplier": 1.0, "sampling": name, **NUMBERS[name]} for name in ("poisson", "allocation")]
        run = DPSGD.from_schedule(stages)
        both = profile_of("poisson").compose(profile_of("allocation"))
        assert run.epsilon(1e-5) == both.epsilon(1e-5)
        assert run.steps == 200
        assert [row.steps for row in run.epsilon_by_epoch(1e-5)] == [50, 100, 150, 200]
        assert DPSGD.from_json(run.to_json()) == run
        assert ". Then: " in run.loop

    def test_an_epoch_of_allocation_is_whole(self):
        run = run_of("allocation")
        with pytest.raises(
            ParameterError, match=r"^steps must end whole epochs of 50 batches that are allocated; got 60"
        ):
            run.after(60)
        assert run.after(50).stages[0].epochs == 1

    def test_neighbours_of_two_kinds_are_refused(self):
        stages = [Stage(noise_multiplier=1.0, sampling=name, **NUMBERS[name]) for name in ("poisson", "fixed-size")]
        with pytest.raises(ParameterError, match=r"^stages must have neighbours of one kind; got 2 kinds"):
            DPSGD.from_schedule(stages)
        users = [Stage(noise_multiplier=1.0, sampling_rate=0.1, steps=5, examples_per_user=k) for k in (1, 2)]
        with pytest.raises(ParameterError, match=r"^stages must have neighbours of one kind"):
            DPSGD.from_schedule(users)

    def test_the_noise_of_one_stage(self):
        run = DPSGD.calibrated(**BUDGET, schedule=[(1.5, 0.02, 100), (None, 0.05, 100)])
        assert run.stages[0].noise_multiplier == 1.5
        assert run.profile().certify(3.0).upper <= 1e-5
        noise = run.stages[1].noise_multiplier
        assert DPSGD.from_schedule([(1.5, 0.02, 100), (noise * (1 - 1e-4), 0.05, 100)]).delta(3.0) > 1e-5

    def test_a_schedule_that_cannot_be_saved(self):
        with pytest.raises(BudgetError, match="the other stages use it up"):
            DPSGD.calibrated(epsilon=0.1, delta=1e-5, schedule=[(0.5, 0.5, 100), (None, 0.05, 100)])


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                {"sampling": "shuffle"},
                r"^sampling must be 'poisson', 'allocation', 'fixed-size' or 'truncated'; got 'shuf",
            ),
            ({"bins": 3}, r"^bins must not be given for 'poisson'; got 3; its numbers are noise_multiplier, sampling_"),
            ({"sampling": "allocation"}, r"^sampling_rate must not be given for 'allocation'; got"),
            ({"batches": 3}, r"^batches must be a number of a run; got 3; they are sampling_rate, steps, bins"),
            ({"examples_per_user": 0}, r"^examples_per_user must be whole numbers of at least 1"),
        ],
    )
    def test_numbers_of_another_sampler(self, change, message):
        with pytest.raises(ParameterError, match=message):
            DPSGD(**{"noise_multiplier": 1.0, "sampling_rate": 0.1, "steps": 10, **change})

    def test_a_batch_larger_than_the_data(self):
        with pytest.raises(ParameterError, match="batch_size"):
            run_of("fixed-size", batch_size=2000)

    def test_nothing_or_too_much_to_find(self):
        with pytest.raises(
            ParameterError, match=r"^run must leave out one of noise_multiplier, .*; got a run without noth"
        ):
            DPSGD.calibrated(**BUDGET, noise_multiplier=1.0, sampling_rate=0.1, steps=10)
        with pytest.raises(ParameterError, match=r"got a run without noise_multiplier, steps"):
            DPSGD.calibrated(**BUDGET, sampling_rate=0.1)
        with pytest.raises(ParameterError, match=r"got a run without records"):
            DPSGD.calibrated(**BUDGET, noise_multiplier=1.0, sampling="fixed-size", batch_size=3, steps=10)


class TestComparison:
    def test_every_sampler_has_neighbours_that_need_nearly_as_much(self):
        rows = DPSGD.compare(noise_multiplier=1.0, batch_size=100, records=10_000, epochs=1, delta=1e-5)
        assert all(0.8 * row.epsilon <= row.lower <= row.epsilon for row in rows)

    def test_every_sampler_has_a_row_with_its_neighbours(self):
        rows = DPSGD.compare(noise_multiplier=1.0, batch_size=20, records=1000, epochs=2, delta=1e-5)
        assert [row.run.stages[0].sampling for row in rows] == SAMPLERS
        assert [row.run.adjacency for row in rows] == ["add-remove", "add-remove", "replace-one", "add-remove"]
        for row in rows:
            assert row.run.steps == 100
            assert row.epsilon == row.run.epsilon(1e-5)
            assert (row.lower == row.epsilon) == row.run.profile().attained
            assert row.lower <= row.epsilon

    def test_batches_that_do_not_divide_the_data(self):
        rows = DPSGD.compare(noise_multiplier=2.0, batch_size=300, records=1000, epochs=1.5, delta=1e-5)
        assert [row.run.steps for row in rows] == [5, 6, 5, 5]
        assert Fraction(rows[1].run.stages[0].bins) == math.floor(1000 / 300)
