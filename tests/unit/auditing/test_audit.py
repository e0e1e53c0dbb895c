"""The auditor: verdicts on pairs, batches and algorithms."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest

import ndis
from helpers.audits import CLAIM, SHIFT
from ndis._search import smallest_safe
from ndis.auditing import (
    AddAdversarial,
    AddRows,
    AuditReport,
    Claim,
    Domain,
    PairBatch,
    ProjectionLaw,
    RemoveEach,
    ReplaceAdversarial,
    ReplaceEach,
    Search,
    audit,
)
from ndis.auditing.judge import exceeds
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile


def noisy_sum(variance, columns=3):
    return lambda data: (data.sum(axis=0), np.full(columns, variance))


def unit_rows(count, columns=3, seed=0):
    x = np.random.default_rng(seed).standard_normal((count, columns))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


# ---------------------------------------------------------------------- the decision


@pytest.mark.parametrize(
    "pair",
    [
        SHIFT,
        GaussianPair.from_ratios(1.02, copies=100),
        GaussianPair.from_ratios([2.0, 0.5], shift=[0.0, 1.0]),
        GaussianPair.from_moments([0.1, 0.0], [[2.0, 0.3], [0.3, 1.0]], [0.0, 0.0], [[1.0, 0.0], [0.0, 1.5]]),
    ],
)
@pytest.mark.parametrize("side", ["remove", "add"])
def test_neighbouring_floats_of_the_truth_are_told_apart(pair, side):
    profile = PrivacyProfile(pair)
    low, high = profile.certify(0.5, relative_width=1e-20, order=side)
    assert math.nextafter(low, 1.0) == high  # the truth lies strictly between two neighbouring floats
    assert exceeds(profile, side, 0.5, low) is True
    assert exceeds(profile, side, 0.5, high) is False


def test_a_claim_one_float_below_the_truth_is_refuted_and_one_above_is_not():
    low, high = PrivacyProfile(SHIFT).certify(1.0, relative_width=1e-20)
    below, above = (audit(Claim(1.0, delta), pairs=[SHIFT]) for delta in (low, high))
    assert below.refuted
    assert any("spacing of floating-point numbers" in note for note in below.notes)
    assert not above.refuted
    assert not above.undecided


def test_equality_is_not_refuted():
    same = GaussianPair.from_ratios(1.0)
    report = audit(Claim(0.0, 0.0), pairs=[same])
    assert not report.refuted
    assert report.delta_possible == 0.0
    bounded = GaussianPair.from_ratios(0.5)  # its loss ends at ½ log 2; the reverse has no end
    profile = PrivacyProfile(bounded, bounded)
    assert not audit(Claim(0.5, 0.0), pairs=[profile]).refuted
    assert audit(Claim(0.3, 0.0), pairs=[profile]).refuted


def test_delta_zero_is_refuted_by_any_unbounded_loss():
    report = audit(Claim(5.0, 0.0), pairs=[SHIFT])
    assert report.refuted
    assert report.witness.enclosure.lower > 0
    assert audit(Claim(30.0, 0.0), pairs=[SHIFT]).refuted  # below the smallest float, and above 0


def test_mutually_singular_laws_refute_everything():
    apart = GaussianPair.from_moments([0.0, 1.0], [[1.0, 0.0], [0.0, 0.0]], [0.0, 0.0], [[1.0, 0.0], [0.0, 0.0]])
    report = audit(Claim(50.0, 0.99), pairs=[apart])
    assert report.refuted
    assert report.epsilon_refuted == math.inf
    assert "probability zero" in report.witness.event
    assert AuditReport.from_json(report.to_json()).epsilon_refuted == math.inf


def test_a_subsampled_profile_is_judged_on_its_mixture():
    profile = PrivacyProfile(GaussianPair.from_ratios(1.0, shift=1.0)).subsampled(0.1)
    box = profile.certify(1.0)
    report = audit(Claim(1.0, box.lower * 0.999), pairs=[profile])
    assert report.refuted
    assert report.witness.pair is None
    assert not audit(Claim(1.0, box.upper), pairs=[profile]).refuted


def test_a_probability_of_failure_convicts_nobody():
    profile = PrivacyProfile(GaussianPair.from_ratios(1.0, shift=0.05), failure_probability=0.1)
    assert not audit(CLAIM, pairs=[profile]).refuted


def test_both_orders_are_tested():
    wide = GaussianPair.from_ratios(2.0)
    for pair in (wide, wide.reversed()):
        report = audit(Claim(1.0, 0.04), pairs=[pair])
        assert report.refuted
        assert report.witness.enclosure.lower == pytest.approx(0.045611619893, rel=1e-9)
    assert audit(Claim(1.0, 0.04), pairs=[wide]).witness.side == "remove"
    assert audit(Claim(1.0, 0.04), pairs=[wide.reversed()]).witness.side == "add"


def test_the_ends_reported_are_on_the_right_side():
    report = audit(CLAIM, pairs=[SHIFT, GaussianPair.from_ratios(1.0, shift=0.3)])
    assert report.refuted
    assert report.witness.neighbours == "pair 0 of those given"
    assert report.delta_possible == report.witness.enclosure.lower <= SHIFT.delta(1.0) * (1 + 1e-9)
    assert report.epsilon_refuted == pytest.approx(SHIFT.epsilon(1e-6), rel=1e-9)
    assert SHIFT.certify(report.epsilon_refuted, relative_width=1e-14).lower > 1e-6
    assert report.witness.recheck().lower == pytest.approx(report.delta_possible, rel=1e-9)


def test_where_nothing_is_refuted_the_closest_pair_is_shown():
    small = [GaussianPair.from_ratios(1.0, shift=m) for m in (0.01, 0.1, 0.05)]
    report = audit(CLAIM, pairs=small)
    assert not report.refuted
    assert report.witness.neighbours == "pair 1 of those given"
    assert report.epsilon_refuted == pytest.approx(small[1].epsilon(1e-6), rel=1e-9)
    assert report.epsilon_refuted < 1.0
    assert report.verdict == "not refuted by the 3 pairs tested; this is not a proof of privacy"
    assert audit(CLAIM, pairs=[GaussianPair.from_ratios(1.0)]).epsilon_refuted is None


def test_a_curve_is_refuted_where_one_point_is():
    pair = GaussianPair.from_ratios(1.0, shift=0.3)
    epsilons = [0.25, 0.5, 1.0, 1.5]
    honest = [pair.certify(e).upper for e in epsilons]
    assert not audit(Claim.curve(epsilons, honest), pairs=[pair]).refuted
    wrong = honest.copy()
    wrong[2] *= 0.999
    report = audit(Claim.curve(epsilons, wrong), pairs=[pair])
    assert report.refuted
    assert (report.witness.epsilon, report.witness.delta) == (1.0, wrong[2])


# ---------------------------------------------------------------------- batches


def test_a_batch_says_what_single_pairs_say():
    random = np.random.default_rng(3)
    ratio, shift = 1 + random.uniform(-0.3, 0.3, 60), random.uniform(-0.4, 0.4, 60)
    copies = random.integers(1, 6, 60)
    for delta in (1e-3, 0.05, 0.2, 0.5):
        claim = Claim(0.5, delta)
        single = audit(claim, pairs=[GaussianPair.from_ratios(*row) for row in zip(ratio, shift, copies, strict=True)])
        batch = audit(claim, pairs={"variance_ratio": ratio, "shift": shift, "copies": copies})
        assert batch.refuted == single.refuted
        assert batch.witness.neighbours == single.witness.neighbours
        assert batch.witness.order == single.witness.order
        assert batch.witness.enclosure == single.witness.enclosure
        assert batch.epsilon_refuted == single.epsilon_refuted
        assert batch.pairs_tried == 60


@pytest.mark.parametrize("order", ["given", "reversed"])
def test_no_pair_of_a_large_batch_is_passed_over(order):
    """The worst of many is found whatever its place: bounds leave out only what is smaller."""
    random = np.random.default_rng(5)
    n = 15_000
    ratio, shift = np.exp(random.normal(0, 0.1, n)), random.normal(0, 0.2, n)
    if order == "reversed":
        ratio, shift = 1 / ratio, shift / np.sqrt(ratio)
    report = audit(CLAIM, pairs=PairBatch(ratio, shift))
    both = [ndis.delta_batch(ratio, shift, 1, 1.0)]
    both.append(ndis.delta_batch(shift=shift / np.sqrt(ratio), epsilon=1.0, excess=(1 - ratio) / ratio))
    worst = np.maximum(*both)
    assert report.witness.neighbours == f"pair {np.argmax(worst)} of those given"
    assert report.witness.enclosure.lower == pytest.approx(worst.max(), rel=1e-10)


def test_pairs_with_several_directions_in_a_batch():
    ratio = np.array([[1.0, 1.1], [1.5, 0.7], [1.2, 1.2]])
    report = audit(CLAIM, pairs=PairBatch(ratio, shift=[[0.1, 0.2]], copies=2))
    assert report.witness.neighbours == "pair 1 of those given"
    assert report.witness.pair.copies.tolist() == [2.0, 2.0]


# ---------------------------------------------------------------------- algorithms and neighbours


GIVEN = {"search": Search(seconds=0)}  # no other data


def test_the_wrong_sensitivity_is_found_by_removal():
    """Noise calibrated to rows of norm 1; the data hold rows of norm 2."""
    noise = 1.0 / GaussianPairScale.unit
    honest = audit(CLAIM, algorithm=noisy_sum(noise**2), data=unit_rows(20))
    assert not honest.refuted
    report = audit(
        CLAIM, algorithm=noisy_sum(noise**2), data=np.vstack([unit_rows(20), 1.01 * unit_rows(1, seed=1)]), **GIVEN
    )
    assert report.refuted
    assert report.witness.neighbours == "the data, and the data without row 20"
    assert report.witness.order.startswith("p is the output with the record")
    assert report.pairs_tried == 21


class GaussianPairScale:
    """The largest μ with δ(1) ≤ 1e-6 for a shift of μ standard deviations."""

    unit = 1 / smallest_safe(
        lambda noise: GaussianPair.from_ratios(1.0, shift=1 / noise).log_delta(1.0),
        lambda noise: GaussianPair.from_ratios(1.0, shift=1 / noise).certify(1.0).upper,
        delta=1e-6,
    )


def second_moments(data):
    """Σxxᵀ + I as the covariance of the output: low-rank changes."""
    return np.zeros(data.shape[1]), data.T @ data + np.eye(data.shape[1])


@pytest.mark.parametrize("columns", [2, 6, 25])
def test_low_rank_and_dense_screens_agree_with_the_certificate(columns):
    data = 0.3 * unit_rows(3, columns)
    claim = Claim(0.1, 1e-3)
    report = audit(claim, algorithm=second_moments, data=data, **GIVEN)
    worst = max(
        GaussianPair.from_moments(*p, *q).delta(0.1)
        for i in range(3)
        for p, q in itertools.permutations([second_moments(data), second_moments(np.delete(data, i, axis=0))])
    )
    assert report.refuted == (worst > 1e-3)
    assert report.witness.enclosure.lower == pytest.approx(worst, rel=1e-8)


def test_given_rows():
    data = unit_rows(10)
    rows = AddRows([[3.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    report = audit(CLAIM, algorithm=noisy_sum(25.0), data=data, search=Search(neighbours=rows))
    assert report.refuted
    far = GaussianPair.from_diagonal([3.0, 0.0, 0.0], [25.0] * 3, [0.0] * 3, [25.0] * 3)
    assert report.delta_possible == pytest.approx(far.delta(1.0), rel=1e-9)


def test_the_adversary_finds_the_worst_row():
    """A linear statistic stretched along one axis: the worst row lies along it, at the bound."""
    data = 0.1 * unit_rows(15)
    stretched = lambda x: (x.sum(axis=0) * np.array([1.0, 1.0, 4.0]), np.full(3, 30.0))  # noqa: E731
    worst = GaussianPair.from_ratios(1.0, shift=4.0 / math.sqrt(30.0)).delta(1.0)
    rule = AddAdversarial(Domain(row_norm_bound=1.0))
    report = audit(CLAIM, algorithm=stretched, data=data, search=Search(neighbours=[rule], random_state=7))
    assert report.delta_possible == pytest.approx(worst, rel=0.01)
    assert report.delta_possible <= worst * (1 + 1e-9)
    again = audit(CLAIM, algorithm=stretched, data=data, search=Search(neighbours=[rule], random_state=7))
    assert again.to_json() == report.to_json()


def test_rows_with_targets():
    data = (unit_rows(8), np.arange(8.0) % 2)
    algorithm = lambda d: (d[0].T @ d[1], np.full(3, 20.0))  # noqa: E731
    rules = [
        RemoveEach(),
        AddAdversarial(Domain(row_norm_bound=1.0, target_bound=3.0), generations=1),
        AddAdversarial(Domain(row_norm_bound=1.0, target_values=(0.0, 1.0)), generations=2),
    ]
    report = audit(CLAIM, algorithm=algorithm, data=data, search=Search(neighbours=rules))
    assert report.pairs_tried > 13
    assert len(report.how_chosen) == 3
    with pytest.raises(ParameterError, match="target_bound or target_values"):
        audit(CLAIM, algorithm=algorithm, data=data, search=Search(neighbours=AddAdversarial(Domain(1.0))))


def test_replacing_one():
    claim = Claim(1.0, 1e-6, "replace-one")
    data = unit_rows(6)
    variance = (1.9 / GaussianPairScale.unit) ** 2  # enough for rows 1.9 apart, not for opposite ones
    report = audit(claim, algorithm=noisy_sum(variance), data=data, search=Search(neighbours=ReplaceEach(-data)))
    assert report.refuted
    assert report.pairs_tried == 36
    assert re.search("row [0-5] replaced", report.witness.neighbours)
    found = audit(
        claim,
        algorithm=noisy_sum(variance),
        data=data,
        search=Search(neighbours=ReplaceAdversarial(Domain(row_norm_bound=1.0))),
    )
    assert found.refuted


def test_the_relation_of_claim_and_neighbours_must_agree():
    replace = Claim(1.0, 1e-6, "replace-one")
    with pytest.raises(ParameterError, match="adjacency of neighbours"):
        audit(replace, algorithm=noisy_sum(1.0), data=unit_rows(3), search=Search(neighbours=RemoveEach()))
    with pytest.raises(ParameterError, match="neighbours must be given"):
        audit(replace, algorithm=noisy_sum(1.0), data=unit_rows(3))
    with pytest.raises(ParameterError, match="adjacency of the claim"):
        audit(replace, mechanism=ProjectionLaw(10, 50.0, 1.0))


def test_a_conviction_after_a_pair_that_stays_open_leaves_no_doubt(monkeypatch):
    answers = iter([None, True])
    monkeypatch.setattr("ndis.auditing.judge._answer", lambda *_: next(answers))
    report = audit(Claim(1.0, 1e-6), pairs=[GaussianPair.from_ratios(1.0, shift=shift) for shift in (2.0, 1.0)])
    assert report.refuted
    assert not report.undecided
