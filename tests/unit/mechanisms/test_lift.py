"""The lift: what it takes, what it refuses, what comes out."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import ndis
from helpers.models import mean_of
from ndis import GaussianPair
from ndis._exact import exact_array
from ndis.errors import BudgetError, ParameterError
from ndis.mechanisms.lifted import LiftedMechanism, lift
from ndis.mechanisms.mechanism import Attained
from ndis.mechanisms.releases import GaussianRelease
from ndis.worst_case.envelopes import DominatingPairs, LoewnerEnvelope, RankOneEnvelope
from ndis.worst_case.profile import EnvelopeProfile, certified_worst_delta, envelope_profile, worst_log_delta
from ndis.worst_case.rank_one import rank_one_search


@dataclass(frozen=True)
class ClippedMean:
    """Mean of numbers clipped to [0, 1], over a public count; the covariance is public too."""

    count: int = 100
    spread: float = 0.0
    labels: tuple[str, ...] = ("a", "b")

    def distribution(self, data):
        clipped = [min(max(x, 0.0), 1.0) if math.isfinite(x) else 0.0 for x in data]
        return [Fraction(1, self.count) * sum(map(Fraction, clipped))], [[self.spread]]

    def sensitivity(self, noise_variance):
        return RankOneEnvelope(1.0 / self.count / math.sqrt(noise_variance + self.spread) * (1 + 1e-12), 0.0)


def of(envelope, **more):
    """A model that declares one envelope whatever the noise."""
    members = {"distribution": lambda self, data: ([0.0], [[1.0]]), "sensitivity": lambda self, v: envelope(v), **more}
    return type("Model", (), members)()


# ---------------------------------------------------------------------- lift


def test_lift_of_a_mean_is_the_gaussian_mechanism():
    mechanism = ndis.lift(ClippedMean(), epsilon=1.0, delta=1e-5)
    known = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, sensitivity=0.01)
    assert math.sqrt(mechanism.noise_variance) == pytest.approx(known.noise_std, rel=1e-10)
    inside = ndis.lift(ClippedMean(spread=0.25 * mechanism.noise_variance), epsilon=1.0, delta=1e-5)
    assert inside.noise_variance == pytest.approx(0.75 * mechanism.noise_variance, rel=1e-9)


@pytest.mark.parametrize("bound", ["exact", "renyi", "paper"])
def test_lift_is_certified_and_tight(bound):
    model = of(lambda v: RankOneEnvelope(0.5 / math.sqrt(v), 0.06 / v))
    mechanism = lift(model, epsilon=1.0, delta=1e-5, bound=bound)
    envelope = model.sensitivity(mechanism.noise_variance)
    assert 0.999e-5 < certified_worst_delta(envelope, 1.0, bound)[0] <= 1e-5
    with pytest.raises(ndis.ParameterError, match="noise_variance must keep delta"):
        type(mechanism)(**mechanism.arguments() | {"noise_variance": 0.999 * mechanism.noise_variance})
    assert type(mechanism)(**mechanism.arguments() | {"noise_variance": 1.1 * mechanism.noise_variance}).bound == bound


def test_paper_sensitivity_is_used_for_the_paper_bound_alone():
    model = of(
        lambda v: RankOneEnvelope(0.5 / math.sqrt(v), 0.0),
        sensitivity_paper=lambda self, v: LoewnerEnvelope(1.0 / math.sqrt(v), 0.0, 0.0, 1),
    )
    exact, paper = (lift(model, epsilon=1.0, delta=1e-5, bound=bound) for bound in ("exact", "paper"))
    assert paper.noise_variance == pytest.approx(4 * exact.noise_variance, rel=1e-3)
    assert paper.profile().delta(1.0) < 1e-12  # the profile is that of the model's own envelope
    wrong = of(lambda v: RankOneEnvelope(0.5, 0.0), sensitivity_paper=lambda self, v: RankOneEnvelope(0.5, 0.0))
    with pytest.raises(ndis.ParameterError, match="sensitivity_paper"):
        lift(wrong, epsilon=1.0, delta=1e-5, bound="paper")


def test_more_budget_less_noise():
    model = of(lambda v: RankOneEnvelope(0.5 / math.sqrt(v), 0.06 / v))
    grid = [lift(model, epsilon=e, delta=1e-5).noise_variance for e in (0.25, 0.5, 1.0, 2.0, 4.0)]
    assert all(a > b for a, b in pairwise(grid))


def test_large_delta_needs_the_search():
    """Budgets with a large δ are where no corner is proved to be the worst."""
    model = of(lambda v: RankOneEnvelope(0.5 / math.sqrt(v), 0.06 / v))
    mechanism = lift(model, epsilon=1.0, delta=0.05)
    envelope = model.sensitivity(mechanism.noise_variance)
    assert len(rank_one_search(envelope, 1.0).leaves) > 2
    box = mechanism.profile().certify(1.0)
    assert 0.04994 < box.lower <= box.upper <= 0.05


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": math.nan},
        {"bound": "printed"},
        {"bound": None},
    ],
)
def test_lift_refuses(change):
    with pytest.raises(ndis.ParameterError, match="must"):
        lift(ClippedMean(), **({"epsilon": 1.0, "delta": 1e-5} | change))


def test_lift_refuses_models():
    for model, word in (
        (object(), "distribution"),
        (of(lambda v: 1.0), "sensitivity"),
        (of(lambda v: RankOneEnvelope(0.1, 0.0), adjacency="neighbourly"), "adjacency"),
    ):
        with pytest.raises(ndis.ParameterError, match=word):
            lift(model, epsilon=1.0, delta=1e-5)
    with pytest.raises(ndis.BudgetError):
        lift(of(lambda v: RankOneEnvelope(3.0, 0.0)), epsilon=1.0, delta=1e-5)  # noise that does not help


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 2.0**-1000])
def test_mechanism_refuses_noise(bad):
    with pytest.raises(ndis.ParameterError, match="noise_variance"):
        LiftedMechanism(ClippedMean(), noise_variance=bad, epsilon=1.0, delta=1e-5)


# ---------------------------------------------------------------------- profile and release


def test_profile_of_an_envelope():
    mechanism = lift(of(lambda v: RankOneEnvelope(0.5 / math.sqrt(v), 0.06 / v)), epsilon=1.0, delta=1e-5)
    profile = mechanism.profile()
    assert isinstance(profile, EnvelopeProfile)
    assert profile.delta(1.0) == pytest.approx(1e-5, rel=1e-8)
    assert profile.epsilon(1e-5) == pytest.approx(1.0, rel=1e-8)
    assert profile.certify(profile.certified_epsilon(1e-7)).upper <= 1e-7
    grid = np.linspace(-0.5, 3.0, 15)
    assert (np.diff(profile.log_delta(grid)) < 0).all()
    assert (profile.log_delta(grid) <= profile.remove.log_delta(grid) + 1e-3).all()  # the pair that dominates all
    twice = profile.repeat(2)
    assert type(twice) is ndis.PrivacyProfile
    assert profile.epsilon(1e-5) < twice.epsilon(1e-5) < 2.5
    assert profile.compose(profile).epsilon(1e-5) == pytest.approx(twice.epsilon(1e-5), rel=1e-9)
    assert profile.subsampled(0.1).delta(1.0) < 1e-5
    assert ndis.PrivacyProfile.from_json(profile.to_json()).delta(1.0) >= profile.delta(1.0)
    assert profile.epsilon(0.9) == 0.0


def test_profile_of_a_lift_can_be_drawn():
    import matplotlib

    ax = lift(ClippedMean(), epsilon=1.0, delta=1e-5).profile().plot(points=5)
    assert len(ax.get_lines()) == 3
    matplotlib.pyplot.close(ax.figure)


def test_release_and_receipt(tmp_path):
    mechanism = lift(ClippedMean(), epsilon=1.0, delta=1e-5)
    release = mechanism.release([0.5] * 50 + [math.nan, 7.0])
    assert release.values.shape == (1,)
    assert not release.values.flags.writeable
    assert release.private
    assert release.noise_variance == mechanism.noise_variance
    found = json.loads(release.receipt.to_json())
    assert found["mechanism"] == "lift(ClippedMean)"
    assert found["parameters"]["model"] == {"name": "ClippedMean", "count": 100, "spread": 0.0, "labels": ["a", "b"]}
    assert found["parameters"]["bound_used"] == "exact (branch and bound)"
    release.save(tmp_path / "release.json")
    again = GaussianRelease.load(tmp_path / "release.json")
    assert again.values.tolist() == release.values.tolist()
    assert again.receipt == release.receipt
    for path in (tmp_path / "missing.json", tmp_path):
        with pytest.raises(ndis.ParameterError, match="path"):
            GaussianRelease.load(path)


def test_seeded_release_is_not_private():
    mechanism = lift(ClippedMean(), epsilon=1.0, delta=1e-5)
    with pytest.warns(ndis.NotPrivateWarning):
        first = mechanism.release([0.5], random_state=1)
    with pytest.warns(ndis.NotPrivateWarning):
        second = mechanism.release([0.5], random_state=1)
    assert first.values.tolist() == second.values.tolist()
    assert not first.private
    with pytest.raises(ndis.ParameterError, match="random_state"):
        mechanism.release([0.5], random_state="seed")


def test_grid_is_public():
    """The grid depends on the noise alone, whatever the data."""
    wide = of(lambda v: RankOneEnvelope(0.5 / math.sqrt(v), 0.0), distribution=lambda self, data: ([data], [[data]]))
    mechanism = lift(wide, epsilon=1.0, delta=1e-5)
    grids = {mechanism.release(x).receipt.parameters["grid"] for x in (0.0, 1e-9, 1e9)}
    assert len(grids) == 1


def test_law_of_the_release():
    """Mean and variance of 1500 draws: each of the four z-scores beyond 5 has probability below 6e-7."""
    model = of(
        lambda v: RankOneEnvelope(0.5 / math.sqrt(v), 0.0),
        distribution=lambda self, data: (exact_array([1, Fraction(1, 3)]), [[2.0, 0.5], [0.5, 1.0]]),
    )
    mechanism = lift(model, epsilon=1.0, delta=1e-2)
    rng = np.random.default_rng(5)
    from ndis.noise.bits import SeededBits

    bits = SeededBits(rng)
    draws = np.array([mechanism.release(None, random_state=bits).values for _ in range(1500)])
    variance = np.array([2.0, 1.0]) + mechanism.noise_variance
    scores = (draws.mean(axis=0) - [1, 1 / 3]) / np.sqrt(variance / 1500)
    spread = (draws.var(axis=0, ddof=1) / variance - 1) / math.sqrt(2 / 1500)
    assert np.abs([*scores, *spread]).max() < 5


def test_asymmetry_of_rounding_is_no_error():
    model = of(
        lambda v: RankOneEnvelope(0.5 / math.sqrt(v), 0.0),
        distribution=lambda self, data: ([0.0, 0.0], [[1.0, 0.3], [0.3 + 1e-16, 1.0]]),
    )
    assert lift(model, epsilon=1.0, delta=1e-5).release(None).values.shape == (2,)


@pytest.mark.parametrize("law", [([0.0], [[1.0, 0.0], [0.0, 1.0]]), ([[0.0]], [[1.0]]), (0.0, 1.0), ([], [])])
def test_shapes_are_checked(law):
    model = of(lambda v: RankOneEnvelope(0.5 / math.sqrt(v), 0.0), distribution=lambda self, data: law)
    with pytest.raises(ndis.ParameterError, match="shape"):
        lift(model, epsilon=1.0, delta=1e-5).release(None)


def test_attained_comes_from_the_model():
    assert lift(ClippedMean(), epsilon=1.0, delta=1e-5).attained() == ()
    pair = GaussianPair.from_ratios(1.0, shift=0.1)
    model = of(
        lambda v: RankOneEnvelope(0.5 / math.sqrt(v), 0.0),
        attained=lambda self, v: [Attained("two data sets", ndis.PrivacyProfile(pair))],
        adjacency="replace-one",
    )
    mechanism = lift(model, epsilon=1.0, delta=1e-5)
    assert mechanism.attained()[0].profile.remove is pair
    assert mechanism.adjacency == mechanism.release(None).receipt.adjacency == "replace-one"


def test_pieces_of_dominating_pairs_decide_and_are_checked():
    """The worst piece counts, not the pair that dominates all; composition goes through that pair."""
    small, large = (ndis.GaussianPair.from_ratios(1.0, shift=x) for x in (0.2, 0.25))
    envelope = DominatingPairs(large, pieces=(DominatingPairs(small),))
    assert worst_log_delta(envelope, 1.0, "exact") == pytest.approx(float(small.log_delta(1.0)))
    assert (
        certified_worst_delta(envelope, 1.0, "renyi")[0]
        < certified_worst_delta(DominatingPairs(large), 1.0, "renyi")[0]
    )
    profile = envelope_profile(envelope, epsilon=1.0)
    assert profile.certify(1.0).upper == pytest.approx(small.delta(1.0), rel=1e-9)
    assert profile.repeat(2).delta(1.0) == pytest.approx(large.repeat(2).delta(1.0))
    for pieces in ((large,), (envelope,)):
        with pytest.raises(ndis.ParameterError, match="pieces must be DominatingPairs values without pieces"):
            DominatingPairs(large, pieces=pieces)


# ---------------------------------------------------------------------- other models


class Mean:
    bound = 1.0

    def distribution(self, data):
        assert self.bound == 1.0, "the data were touched"
        return [sum(data) / 100], [[0.0]]

    def sensitivity(self, noise_variance):
        return RankOneEnvelope(self.bound / 100 / noise_variance**0.5, 0.0)


def test_a_model_changed_after_lift_is_refused_before_the_data_are_touched():
    model = Mean()
    mechanism = ndis.lift(model, epsilon=1.0, delta=1e-5)
    assert mechanism.release([0.5]).values.shape == (1,)
    model.bound = 1000.0
    with pytest.raises(ParameterError, match="noise_variance must keep delta"):
        mechanism.release([0.5])


def test_a_model_that_needs_no_noise():
    model = type("Still", (Mean,), {"sensitivity": lambda self, noise_variance: RankOneEnvelope(0.01, 0.0)})()
    mechanism = ndis.lift(model, epsilon=1.0, delta=1e-5)
    assert 0 < mechanism.noise_variance < 1e-50
    assert mechanism.release([0.5]).private
    never = type("Never", (Mean,), {"sensitivity": lambda self, noise_variance: RankOneEnvelope(9.0, 0.0)})()
    with pytest.raises(BudgetError, match="no value of the parameter meets the budget"):
        ndis.lift(never, epsilon=1.0, delta=1e-5)


def test_the_mean_may_be_a_number_in_one_dimension():
    assert mean_of(lambda data: (0.5, [[0.0]])).release(None).values.shape == (1,)
    with pytest.raises(ParameterError, match="shape"):
        mean_of(lambda data: (0.5, np.eye(2))).release(None)
