"""The witness in words: the event, its probabilities, and nothing that reads as private."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.audits import CLAIM, LOUD
from ndis.auditing import Claim, audit
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile


def test_nothing_reads_as_private():
    report = audit(CLAIM, pairs=[GaussianPair.from_ratios(1.0, shift=0.01)])
    for text in (report.verdict, str(report)):
        assert "not a proof" in text
        assert "is private" not in text
    assert "infringes" not in report.verdict


def test_the_event_has_the_delta_it_says():
    """The printed probabilities against an independent law of the loss: log 1.5 per coordinate, and a chi-square."""
    from scipy.stats import chi2

    report = audit(Claim(0.5, 0.0), pairs=[GaussianPair.from_ratios(1.5, copies=9)])
    level = (2 * 0.5 + 9 * math.log(1.5)) * 1.5 / 0.5
    p, q = chi2.sf(level / 1.5, 9), chi2.sf(level, 9)
    assert p - math.exp(0.5) * q == pytest.approx(report.witness.enclosure.lower, rel=1e-5)
    assert f"{p:.4g} under p and {q:.4g} under q" in report.witness.event


SINGULAR = GaussianPair.from_moments([0, 0], np.diag([1.0, 0.0]), [0, 0], np.diag([1.0, 1.0]))


def test_a_sample_of_a_singular_pair():
    profile = PrivacyProfile(SINGULAR).subsampled(0.1)
    report = audit(Claim(0.5, 0.01), pairs=[profile])
    assert report.refuted
    assert report.epsilon_refuted == math.inf
    assert "the record is in the sample with probability 0.1" in report.witness.event
    assert audit(Claim(0.5, 0.1), pairs=[profile]).epsilon_refuted != math.inf
    backwards = PrivacyProfile(LOUD, SINGULAR.reversed()).subsampled(0.1)
    assert audit(Claim(0.01, 0.05), pairs=[backwards]).witness.side == "add"


def test_words_of_profiles_under_replace_one():
    claim = Claim(1.0, 1e-6, "replace-one")
    assert "record" not in audit(claim, pairs=[PrivacyProfile(LOUD)]).witness.order
    with pytest.raises(ParameterError, match="profile of a sample"):
        audit(claim, pairs=[PrivacyProfile(LOUD).subsampled(0.1)])


def test_a_probability_below_all_floats_is_not_zero():
    event = audit(Claim(800.0, 1e-6), pairs=[GaussianPair.from_ratios(1.0, shift=0.1)]).witness.event
    assert "less than 10⁻³⁰⁰ under q" in event
    assert "probability 0 " not in event
