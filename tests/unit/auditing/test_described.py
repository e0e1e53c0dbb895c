"""A report on a mechanism names what it is about, and its Python lines run as they are written."""

from __future__ import annotations

from typing import Any

import pytest

import ndis
from helpers.cases import quick
from helpers.pages import Page
from ndis.auditing import AuditReport, ProjectionLaw
from ndis.auditing.guarantees import call_of, described
from ndis.learn._linear_regression import calibrated_rounds
from ndis.models import BohningLogistic

CLAIM = ndis.Claim(epsilon=1.0, delta=1e-6)
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
MECHANISMS = {
    "gaussian": ndis.GaussianMechanism.calibrated(**BUDGET, sensitivity=0.5),
    "gram": ndis.GramMechanism.calibrated(**BUDGET, row_norm_bound=2.0),
    "sketch": ndis.RandomProjection.calibrated(**BUDGET, sketch_size=50, row_norm_bound=2.0),
    "law": ProjectionLaw(sketch_size=100, ridge=36.0, row_norm_bound=1.0),
    "rounds": calibrated_rounds(**BUDGET, adjacency="add-remove", rounds=3),
    "training": ndis.DPSGD(noise_multiplier=4.0, sampling_rate=0.01, steps=100),
    "schedule": ndis.DPSGD.from_schedule([(4.0, 0.01, 50), (5.0, 0.02, 50)]),
}


@pytest.mark.parametrize("name", quick(MECHANISMS, set(MECHANISMS) - {"schedule"}))
def test_a_proved_page_names_what_is_proved_and_how_to_run_it(name: str) -> None:
    mechanism = MECHANISMS[name]
    report = ndis.audit(CLAIM, mechanism=mechanism)
    assert report.proof is not None
    assert described(mechanism) in report.proof.statement
    page = " ".join(Page(report.to_html()).text().split())
    assert " ".join(described(mechanism).split()) in page
    scope: dict[str, Any] = {}
    *setup, last = report.reproduce.splitlines()
    exec("\n".join(setup), scope)
    again = eval(last, scope)
    assert again.proof == report.proof
    assert AuditReport.from_json(report.to_json()).reproduce == report.reproduce


def test_words_have_the_public_parameters() -> None:
    assert "noise_std = 2.11" in described(MECHANISMS["gaussian"])
    assert "sensitivity = 0.5" in described(MECHANISMS["gaussian"])
    assert "sketch_size = 50, row_norm_bound = 2, ridge = " in described(MECHANISMS["sketch"])
    assert described(MECHANISMS["schedule"]) == "DPSGD with stages = ((4, 0.01, 50), (5, 0.02, 50))"
    model = BohningLogistic(l2_penalty=100.0, row_norm_bound=1.0)
    assert "model = a BohningLogistic" in described(ndis.lift(model=model, epsilon=1.0, delta=1e-6))


def test_a_call_with_other_objects_is_called_a_sketch() -> None:
    lifted = ndis.lift(BohningLogistic(l2_penalty=100.0, row_norm_bound=1.0), **BUDGET)
    assert call_of(lifted) is None
    pair = ndis.GaussianPair.from_ratios(1.0, shift=0.1)
    for report in (ndis.audit(CLAIM, mechanism=lifted), ndis.audit(CLAIM, pairs=[pair])):
        assert report.reproduce.startswith("# a sketch of the call")


class TestTraining:
    """The certificate of DP-SGD is a proof, as that of every mechanism of the package."""

    def test_a_true_claim_is_proved(self) -> None:
        training = ndis.DPSGD(noise_multiplier=1.1, sampling_rate=256 / 60000, steps=14062)
        report = ndis.audit(ndis.Claim(epsilon=2.5, delta=1e-5), mechanism=training)
        assert report.proof is not None
        assert report.proof.theorem == "thm:sampled-moment"
        assert "Poisson sampling" in report.proof.assumptions[0]
        assert "clipped" in report.proof.assumptions[0]
        text = Page(report.to_html()).text()
        assert "The claim is proved" in text
        assert "steps = 14062" in " ".join(text.split())

    def test_a_false_claim_is_not(self) -> None:
        training = ndis.DPSGD(noise_multiplier=1.1, sampling_rate=0.01, steps=100)
        epsilon = training.epsilon(1e-5)
        assert ndis.audit(ndis.Claim(epsilon=1.001 * epsilon, delta=1e-5), mechanism=training).proof is not None
        below = ndis.audit(ndis.Claim(epsilon=0.999 * epsilon, delta=1e-5), mechanism=training)
        assert (below.proof, below.refuted) == (None, True)
