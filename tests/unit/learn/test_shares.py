"""The shares of a regression follow from the number of records that its first release tells."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ndis.errors import NotPrivateWarning, ParameterError
from ndis.learn import PrivateLinearRegression, PrivateLogisticRegression
from ndis.learn._linear_regression import calibrated_rounds, chosen_shares
from ndis.learn._logistic_regression import GradientReleases, calibrated_gradients
from ndis.mechanisms.rounds import GaussianRounds

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


# Checks thm:rounds-chosen.
def test_a_share_that_follows_from_answers_leaves_the_law_of_the_loss():
    """Forty thousand losses: five standard deviations of their mean are 0.025 shifts, and of their variance 3.5 %."""
    rng, shift = np.random.default_rng(0), 1.2
    first = rng.normal(size=40_000) + shift * np.sqrt(0.3)  # of a release with share 0.3, shifted
    share = np.where(first > 0.5, 0.1, 0.6)
    second = rng.normal(size=40_000) + shift * np.sqrt(share)
    third = rng.normal(size=40_000) + shift * np.sqrt(0.7 - share)
    loss = sum(
        shift * np.sqrt(q) * z - shift**2 * q / 2 for q, z in ((0.3, first), (share, second), (0.7 - share, third))
    )
    assert abs(loss.mean() - shift**2 / 2) < 0.025 * shift
    assert abs(loss.var() / shift**2 - 1.0) < 0.035


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("records", [-50.0, 500.0, 1e6])
def test_other_shares_add_up_to_no_more(adjacency, few, records):
    budget = calibrated_rounds(**BUDGET, adjacency=adjacency, rounds=6)
    chosen = chosen_shares(budget, records=records, predictors=3, few=few)
    other = budget.reshared(1, **chosen)
    assert other.shift == budget.shift
    assert other.count_shares[0] == budget.count_shares[0]
    assert other.profile().certify(1.0).upper <= budget.profile().certify(1.0).upper
    assert sum(sum(each) for each in chosen.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("intervals", [False, True])
@pytest.mark.parametrize("few", [False, True])
def test_other_shares_of_gradients_add_up_to_no_more(intervals, few):
    """Two rounds to twenty: what is divided anew after the data were read is never refused."""
    for rounds in range(2, 21):
        budget = calibrated_gradients(**BUDGET, adjacency="add-remove", rounds=rounds, intervals=intervals)
        releases = GradientReleases.__new__(GradientReleases)
        releases.budget = budget
        chosen = releases.shares(None if few else object(), 100.0)
        assert budget.reshared(1, **chosen).count_shares[0] == budget.count_shares[0]
        assert [len(each) for each in chosen.values()] == [2 + 2 * intervals, rounds, rounds + 1]


@pytest.mark.parametrize(
    "shares",
    [{"sum_shares": [0.5, 0.1]}, {"count_shares": [0.3, 0.2]}, {"count_shares": []}, {"matrix_shares": [0.01]}],
    ids=["more", "another count", "no count", "a further matrix"],
)
def test_more_than_the_budget_is_refused(shares):
    budget = GaussianRounds.calibrated(**BUDGET, sum_shares=[0.5], count_shares=[0.25, 0.25])
    with pytest.raises(ParameterError, match="shares must"):
        budget.reshared(1, **shares)


def fit(records, kind=PrivateLinearRegression, **how):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(records, 2))
    y = x[:, 0] + rng.normal(size=records)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        if kind is PrivateLogisticRegression:
            return kind(**BUDGET, row_norm_bound=1.5, classes=(0, 1), random_state=0, **how).fit(x, y > 0)
        return kind(**BUDGET, row_norm_bound=1.5, target_bound=4.0, random_state=0, **how).fit(x, y)


def test_the_last_round_gets_what_earlier_releases_need_not():
    shares = [fit(records).receipt_.parameters["sum_shares"] for records in (200, 4000, 100_000)]
    assert [len(each) for each in shares] == [9, 6, 6]
    assert shares[0][-1] < shares[1][-1] < shares[2][-1]
    assert shares[2][-1] > 0.6


@pytest.mark.parametrize("kind", [PrivateLinearRegression, PrivateLogisticRegression])
@pytest.mark.parametrize("records", [100, 20_000])
def test_what_a_receipt_lists_was_paid(kind, records):
    model = fit(records, kind)
    used = model.receipt_.parameters
    total = sum(sum(used[name]) for name in ("matrix_shares", "sum_shares", "count_shares"))
    assert total <= 1.0 + 1e-12
    assert used["shift"] == model.mechanism_.shift
    released = [entry["release"] for entry in used["releases"]]
    positive = sum(share > 0 for name in ("matrix_shares", "sum_shares", "count_shares") for share in used[name])
    assert len(released) == positive, "every share is used"
