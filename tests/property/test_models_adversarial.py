"""Neighbours meant to be hard never leave what the models declare, in either order, nor the calibrated profile."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hard_neighbours import KINDS, climb, gp_neighbours, logistic_neighbours, profile_on
from sklearn.gaussian_process.kernels import RBF, DotProduct

from helpers.cases import crossed
from ndis.mechanisms.lifted import lift
from ndis.models import BohningLogistic, GaussianProcess

EPSILONS = np.array([0.1, 0.5, 1.0, 2.0])
LOGISTIC = BohningLogistic(l2_penalty=3.0, row_norm_bound=1.5)


def inside_a_piece(envelope, pair):
    """Whether the invariants of an ordered pair lie in a piece of a rank-one envelope (to the rounding of floats)."""
    shift = math.sqrt(float(pair.copies @ pair.shift**2))
    wide = pair.excess if (pair.excess >= -1e-12).all() else -pair.excess / pair.variance_ratio
    ratio = max(float(wide.max()), 0.0)
    others = int((np.abs(pair.excess) > 1e-9).sum())
    return others <= 1 and any(
        shift <= piece.shift_bound * (1 + 1e-9) and ratio <= piece.ratio_bound * (1 + 1e-9) + 1e-14
        for piece in envelope.pieces
    )


def below(found, limit):
    """log δ within its limit. Moments as floats may lose a change below 1e-15, and with it an exact zero of δ."""
    return bool(((found <= limit + 1e-7) | (found < -1e6)).all())


@pytest.mark.parametrize(
    "model",
    [
        LOGISTIC,
        BohningLogistic(l2_penalty=0.1, row_norm_bound=2.0),
        BohningLogistic(l2_penalty=1.0, row_norm_bound=1.0, max_records=40, intercept=0.5),
        BohningLogistic(l2_penalty=10.0, row_norm_bound=1.5, max_records=40),
        BohningLogistic(l2_penalty=40.0, row_norm_bound=2.0, max_records=40),
    ],
    ids=["setting", "weak penalty", "intercept", "promise", "strong penalty"],
)
@pytest.mark.parametrize("v", [0.05, *(pytest.param(v, marks=pytest.mark.sweep) for v in (1e-9, 4.0))])
def test_logistic_neighbours_lie_in_the_envelope(model, v):
    envelope = model.sensitivity(v)
    seen = set()
    for seed, features in ((0, 1), (1, 3)):
        neighbours = logistic_neighbours(model, features=features, records=40, random_state=seed)
        for kind, data in itertools.islice(neighbours, 60):
            profile = profile_on(model, data, v)
            assert inside_a_piece(envelope, profile.remove), kind
            assert inside_a_piece(envelope, profile.add), kind
            seen.add(kind)
    assert seen == set(KINDS)


@pytest.fixture(scope="module")
def logistic():
    return lift(LOGISTIC, epsilon=1.0, delta=1e-5)


def test_logistic_neighbours_never_exceed_the_profile(logistic):
    limit = logistic.profile().log_delta(EPSILONS)
    neighbours = logistic_neighbours(LOGISTIC, features=1, records=60, random_state=7)
    for kind, data in itertools.islice(neighbours, 180):
        assert below(profile_on(LOGISTIC, data, logistic.noise_variance).log_delta(EPSILONS), limit), kind


def test_logistic_optimised_neighbours_come_close_and_stay_below(logistic):
    """A crowd of short rows against one long row, then climbed; the long search is examples/adversarial_search.py."""
    v = logistic.noise_variance
    limit = float(logistic.profile().log_delta(1.0))

    def score(data):
        return float(profile_on(LOGISTIC, data, v).log_delta(1.0))

    crowd = np.r_[np.full((400, 1), 0.04), [[1.5]]], np.r_[np.full(400, -1.0), [1.0]]
    best, _ = climb(score, crowd, steps=60, random_state=0)
    assert limit - 3.0 < best <= limit
    attained = max(float(found.profile.log_delta(1.0)) for found in logistic.attained())
    assert limit - 1.0 < attained <= limit


@pytest.mark.parametrize(
    ("penalty", "records", "release"),
    crossed([(10.0, 40), (30.0, 40), (3.0, 8)], ["draw", "mean"], keep=[(10.0, 40, "draw"), (3.0, 8, "mean")]),
)
def test_logistic_optimised_neighbours_of_a_promise_stay_below(penalty, records, release):
    """Crowds that use the promised number of records, climbed; a bound that forgot ā or ρ's proof would show."""
    model = BohningLogistic(l2_penalty=penalty, row_norm_bound=1.5, max_records=records, release=release)
    mechanism = lift(model, epsilon=1.0, delta=1e-5)
    v = mechanism.noise_variance if mechanism.noise_variance > 1e-50 else 1e-6
    limit = float(lift(model, epsilon=1.0, delta=1e-5).profile().log_delta(1.0)) if v > 1e-6 else math.log(1e-5)
    best = -math.inf
    for share in (0.1, 0.3, 1.0):
        crowd = np.r_[np.full((records - 1, 1), 1.5 * share), [[1.5]]], np.r_[np.full(records - 1, -1.0), [1.0]]
        score = lambda data: float(profile_on(model, data, v).log_delta(1.0))  # noqa: E731
        best = max(best, climb(score, crowd, steps=60, random_state=0)[0])
    assert best <= limit


def test_a_logistic_record_out_of_bounds_is_caught():
    """The check above can fail: the same neighbours against a model that declares half the norm."""
    small = BohningLogistic(l2_penalty=3.0, row_norm_bound=0.75)
    neighbours = logistic_neighbours(LOGISTIC, features=1, records=40, random_state=0)
    found = [profile_on(LOGISTIC, data, 4.0) for _, data in itertools.islice(neighbours, 30)]
    assert not all(inside_a_piece(small.sensitivity(4.0), profile.add) for profile in found)


@pytest.mark.parametrize("analysis", ["prior", "posterior"])
@pytest.mark.parametrize(
    ("kernel", "noise", "query"),
    [
        (RBF(1.0), 250.0, [[0.0]]),
        (RBF(0.5), 0.3, [[0.0, 0.0], [1.0, 0.0], [0.3, 0.4]]),
        (DotProduct(sigma_0=0.5), 0.05, [[0.8], [-0.8]]),
    ],
    ids=["setting", "three points", "linear"],
)
def test_gp_neighbours_are_dominated(analysis, kernel, noise, query):
    model = GaussianProcess(
        kernel=kernel, noise_variance=noise, label_bound=0.5, prior_variance_bound=1.0, query=query, max_records=16,
        analysis=analysis,
    )  # fmt: skip
    for v in (0.02, 2.0):
        worst = model.sensitivity(v)
        limits = {"add": worst.add.log_delta(EPSILONS / 10), "remove": worst.remove.log_delta(EPSILONS / 10)}
        for kind, data in itertools.islice(gp_neighbours(model, records=16, random_state=3), 24):
            profile = profile_on(model, data, v)
            for order, limit in limits.items():
                assert below(profile.log_delta(EPSILONS / 10, order=order), limit), (kind, order)


def test_gp_optimised_neighbours_stay_below():
    model = GaussianProcess(
        kernel=RBF(1.0), noise_variance=0.2, label_bound=0.5, prior_variance_bound=1.0, query=[[0.0]], max_records=8,
        analysis="posterior",
    )  # fmt: skip
    limit = float(model.sensitivity(0.5).add.log_delta(1.0))
    data = (np.full((8, 1), 2.0), np.array([-0.5] * 7 + [0.5]))
    best, _ = climb(lambda data: float(profile_on(model, data, 0.5).log_delta(1.0)), data, steps=60, random_state=0)
    assert best <= limit
    assert max(float(found.profile.log_delta(1.0)) for found in model.attained(0.5)) <= limit
