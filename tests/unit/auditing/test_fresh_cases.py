"""Cases that surprised: loops and algorithms that the audit once judged wrongly, or that their author did."""

from __future__ import annotations

import numpy as np
import pytest

import ndis
from helpers.audits import CLAIM
from ndis.auditing import Claim, DataSet, Domain, TrainingLoop, audit, audit_training
from ndis.errors import ParameterError

NOISE = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0).noise_std ** 2 * (1.0 + 1e-9)
UNIT = Domain(low=0.0, high=1.0, features=1)


@pytest.mark.parametrize("sampler", ["sequential", "shuffled", "fixed-size"])
def test_batches_that_contradict_the_other_numbers_are_refused(sampler):
    """More batches than there are would mean fewer passes, and a guarantee that is too good."""
    sizes = {"noise_multiplier": 4.0, "records": 1000, "batch_size": 100, "steps": 40}
    with pytest.raises(ParameterError, match="batches must be 10, as records and batch_size have it; got 1000"):
        TrainingLoop(sampler=sampler, batches=1000, **sizes)
    assert TrainingLoop(sampler=sampler, batches=10, **sizes).batches == 10


def test_a_claim_without_delta_is_refuted_however_large_its_epsilon():
    loop = TrainingLoop(sampler="poisson", sampling_rate=0.01, noise_multiplier=5.0, steps=1000)
    report = audit_training(loop, Claim(50.0, 0.0))
    assert report.verdict == "refuted"
    assert report.epsilon_refuted == np.inf


def test_a_batch_of_all_records_is_a_full_batch():
    sizes = {"noise_multiplier": 9.0, "records": 50, "batch_size": 100, "steps": 4}
    guaranteed = audit_training(TrainingLoop(sampler="fixed-size", **sizes), Claim(1.8, 1e-5, "replace-one"))
    assert guaranteed.verdict == "sound"
    assert guaranteed.epsilon_guaranteed == pytest.approx(1.7479, abs=1e-3)  # a shift of 2 √4 / 9


def largest_three(rows):
    top = np.sort(rows.ravel())[::-1][:3]
    return np.pad(top, (0, 3 - len(top))), np.full(3, NOISE)


def isolated(rows):
    """Count the rows that have no other within 0.1: one row between two of them takes both away."""
    x = np.sort(rows.ravel())
    gaps = np.diff(x, prepend=-1.0, append=2.0)
    return [float(np.sum(np.minimum(gaps[:-1], gaps[1:]) >= 0.1))], [NOISE]


def test_a_row_that_ties_two_others_together_is_tried():
    report = audit(CLAIM, algorithm=isolated, data=DataSet(domain=UNIT))
    assert report.refuted
    assert report.epsilon_refuted > 2.0


def test_the_largest_three_move_by_one_together():
    """The differences of sorted numbers add up to at most 1, so their norm is at most 1."""
    report = audit(CLAIM, algorithm=largest_three, data=DataSet(domain=UNIT))
    assert not report.refuted
    assert report.delta_possible > 0.99e-6
