"""What an audit advises, and what is proved without one."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

import ndis
from helpers.audits import CLAIM, sketch
from helpers.pages import text_of
from helpers.places import ROOT
from ndis.auditing import AuditReport, Claim, ProjectionLaw, audit
from ndis.errors import ParameterError
from ndis.pages.text import at_most
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

SHIFT = GaussianPair.from_ratios(1.0, shift=2.0)
ROWS = np.array([[0.0, 1.0], [1.0, 0.0], [0.6, 0.8], [-0.8, 0.6], [0.1, -0.2]])
THEORY = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")


def noisy_sum(variance: float):
    return lambda data: (data.sum(axis=0), np.full(2, variance))


def test_the_ridge_of_the_advice_makes_the_claim_true():
    law = ProjectionLaw(sketch_size=50, ridge=20.0, row_norm_bound=1.0)
    report = audit(CLAIM, mechanism=law)
    assert report.refuted
    ridge = at_most(sketch().ridge)
    assert any(f"raise ridge from 20 to {ridge}" in step for step in report.next_steps)
    repaired = audit(CLAIM, mechanism=dataclasses.replace(law, ridge=float(ridge)))
    assert repaired.proved
    assert not repaired.refuted


def test_the_noise_of_the_advice_repairs_the_pair():
    report = audit(CLAIM, algorithm=noisy_sum(1.0), data=ROWS)
    (factor,) = [float(m[1]) for step in report.next_steps if (m := re.search("noise by ([0-9.]+):", step))]
    assert not audit(CLAIM, algorithm=noisy_sum(factor**2), data=ROWS).refuted
    assert audit(CLAIM, algorithm=noisy_sum((0.999 * factor) ** 2), data=ROWS).refuted


def test_the_noise_of_a_gaussian_mechanism():
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=2.0, delta=1e-6, sensitivity=1.0)
    report = audit(CLAIM, mechanism=mechanism)
    needed = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0).noise_std
    assert report.refuted
    assert any(f"to {at_most(needed)}" in step for step in report.next_steps)


def test_a_claim_of_zero_delta_is_not_told_to_raise_epsilon():
    report = audit(Claim(1.0, 0.0), pairs=[SHIFT])
    assert any("claim a δ above 0" in step for step in report.next_steps)
    assert not any("claim an ε above" in step for step in report.next_steps)


@pytest.mark.parametrize(
    "make",
    [
        sketch,
        lambda: sketch(adjacency="replace-one"),
        lambda: ndis.PoissonProjection.calibrated(
            epsilon=1.0, delta=1e-6, sketch_size=50, row_norm_bound=1.0, rate=0.1
        ),
        lambda: ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0),
        lambda: ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, row_norm_bound=1.0),
    ],
)
def test_a_proved_mechanism_gets_a_page_of_its_own_kind(make):
    mechanism = make()
    claim = Claim(1.0, 1e-6, mechanism.adjacency)
    report = audit(claim, mechanism=mechanism)
    assert report.proved
    assert not report.refuted
    assert report.verdict.startswith(f"proved by {report.proof.theorem}")
    assert f"### {report.proof.theorem}: " in THEORY
    page = report.to_html()
    assert 'class="verdict proved"' in page
    assert "<h1>The claim is proved</h1>" in page
    assert "not a proof of privacy" not in page
    for assumption in report.proof.assumptions:
        assert assumption[1:] in text_of(page)
    again = AuditReport.from_json(report.to_json())
    assert again.proof == report.proof
    assert again.to_html() == page
    tighter = audit(Claim(0.9, 1e-6, mechanism.adjacency), mechanism=mechanism)
    assert not tighter.proved


def test_somebody_elses_word_is_no_proof():
    class Mine:
        adjacency = "add-remove"

        def profile(self):
            return PrivacyProfile(GaussianPair.from_ratios(1.0, shift=1e-3))

        def attained(self):
            return ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0).attained()

    report = audit(CLAIM, mechanism=Mine())
    assert not report.proved
    assert "This is not a proof of privacy." in report.to_html()

    class GaussianMechanism(ndis.GaussianMechanism):  # its name does not make it ours
        pass

    assert not audit(
        CLAIM, mechanism=GaussianMechanism(noise_std=10.0, sensitivity=1.0, epsilon=1.0, delta=1e-6)
    ).proved


def test_a_refutation_wins_over_a_proof_whose_assumption_is_false():
    class Sum:  # says that one record moves it by at most 1, and does not clip
        def distribution(self, data):
            return data.sum(axis=0), np.zeros((2, 2))

        def sensitivity(self, noise_variance):
            return ndis.worst_case.envelopes.DominatingPairs(
                GaussianPair.from_diagonal([0.0], [noise_variance], [1.0], [noise_variance])
            )

    mechanism = ndis.lift(Sum(), epsilon=1.0, delta=1e-6)
    assert audit(CLAIM, mechanism=mechanism, data=ROWS).proved
    report = audit(CLAIM, mechanism=mechanism, data=10.0 * ROWS)
    assert report.refuted
    assert not report.proved
    assert any("one of the assumptions" in note for note in report.notes)
    with pytest.raises(ParameterError, match="proof must be a Proof, of a claim that is not refuted"):
        dataclasses.replace(report, proof=audit(CLAIM, mechanism=sketch()).proof)
