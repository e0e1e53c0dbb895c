"""Assertions for the test suites of mechanisms."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import ndis
from helpers.audits import CLAIM
from ndis.auditing import Claim
from ndis.pair import GaussianPair
from ndis.testing import assert_not_refuted, assert_refuted

LOUD, QUIET = GaussianPair.from_ratios(1.0, shift=0.35), GaussianPair.from_ratios(1.0, shift=0.1)


def noisy_sum(data):
    return data.sum(axis=0), np.full(data.shape[1], 4.0)


def test_what_holds_returns_the_report():
    report = assert_not_refuted(CLAIM, pairs=[QUIET])
    assert not report.refuted
    assert report.pairs_tried == 1


def test_what_is_false_fails_with_the_witness():
    with pytest.raises(AssertionError) as caught:
        assert_not_refuted(CLAIM, pairs=[QUIET, LOUD])
    report = assert_refuted(CLAIM, pairs=[QUIET, LOUD])
    message = str(caught.value)
    assert message.splitlines()[:2] == ["the claim is false", f"claim: {CLAIM}"]
    for part in (
        f"lies in [{report.witness.enclosure.lower!r}, ",
        "; claimed 1e-06, which is less with certainty",
        f"largest ε refuted: {report.epsilon_refuted!r}",
        "pair 1 of those given",
        report.witness.order,
        "privacy loss log(p/q) exceeds",
    ):
        assert part in message
    assert len(message.splitlines()) == 7


def test_the_edge_is_decided():
    """Of two neighbouring floats with the truth between them, one claim is refuted and the other is not."""
    box = LOUD.certify(1.0, relative_width=1e-20)
    assert box.upper == math.nextafter(box.lower, 1.0)
    assert_refuted(Claim(epsilon=1.0, delta=box.lower), pairs=[LOUD])
    assert_not_refuted(Claim(epsilon=1.0, delta=box.upper), pairs=[LOUD])
    with pytest.raises(AssertionError, match="which is less with certainty"):
        assert_not_refuted(Claim(epsilon=1.0, delta=box.lower), pairs=[LOUD])


def test_expected_refutations_that_do_not_come():
    with pytest.raises(AssertionError, match="expected to be false, and was not refuted by the 1 pair tested"):
        assert_refuted(CLAIM, pairs=[QUIET])


def test_an_algorithm_with_data():
    rows = np.eye(3)
    report = assert_refuted(CLAIM, algorithm=noisy_sum, data=rows)
    assert "without row" in report.witness.neighbours
    assert_not_refuted(Claim(epsilon=4.0, delta=1e-3), algorithm=noisy_sum, data=rows)


def test_bad_arguments_are_no_verdict():
    """A test must not pass, nor fail as refuted, because the audit could not run."""
    for check in (assert_not_refuted, assert_refuted):
        with pytest.raises(ndis.ParameterError):
            check(CLAIM)
        with pytest.raises(ndis.ParameterError):
            check(CLAIM, pairs=[])
        with pytest.raises(ndis.ParameterError):
            check((1.0, 1e-6), pairs=[QUIET])


SHIFT = GaussianPair.from_ratios(1.0, shift=2.0)


@pytest.mark.parametrize("check", [assert_not_refuted, assert_refuted])
def test_helpers_hide_their_own_frames(check):
    pair = SHIFT if check is assert_not_refuted else GaussianPair.from_ratios(1.01)
    with pytest.raises(AssertionError) as caught:
        check(CLAIM, pairs=[pair])
    shown = caught.traceback.filter(caught)
    assert {entry.path for entry in shown} == {Path(__file__)}
