"""Pages on which somebody decides: how bad it is, in which units, what to check, and a page that checks itself."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import re

import numpy as np
import pytest

import ndis
from helpers.audits import CLAIM
from helpers.cases import Made
from helpers.command import refused, run
from helpers.pages import text_of
from ndis.auditing import AuditReport, Claim, DataSet, Domain, ProjectionLaw, Search, audit
from ndis.auditing.witness import outcome_words
from ndis.errors import ParameterError
from ndis.mechanisms.rounds import GaussianRounds
from ndis.pair import GaussianPair

UNIT = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0).noise_std
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def count(noise: float) -> GaussianPair:
    return GaussianPair.from_diagonal([58.0], [noise**2], [57.0], [noise**2])


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (count(0.98 * UNIT), "Small miss: the true ε at this δ is at least 1.0"),
        (count(0.7 * UNIT), "Clear miss: the true ε at this δ is at least 1."),
        (count(0.3 * UNIT), "Large miss: the true ε at this δ is at least"),
        (count(0.01 * UNIT), "Practically no protection: the true ε at this δ is at least"),
        (GaussianPair.from_diagonal([0.0], [0.0], [1.0], [1.0]), "Practically no protection: the record is revealed"),
    ],
)
def test_severity_in_one_sentence(pair, words):
    page = text_of(audit(CLAIM, pairs=[pair]).to_html())
    assert words in page
    assert "Scale: small miss (up to 1.1 times the claimed ε)" in page


def test_no_page_advises_a_useless_epsilon():
    bad = audit(CLAIM, pairs=[count(0.01 * UNIT)])
    assert bad.epsilon_refuted > 300
    assert not any("claim an ε" in step for step in bad.next_steps)
    assert any("no useful ε" in step for step in bad.next_steps)
    assert any("claim an ε above 1." in step for step in audit(CLAIM, pairs=[count(0.9 * UNIT)]).next_steps)
    weak = ndis.GaussianMechanism.calibrated(epsilon=20.0, delta=1e-6, sensitivity=1.0)
    assert not any("claim ε = 2" in step for step in audit(CLAIM, mechanism=weak).next_steps)


def test_delta_zero_says_every_epsilon():
    page = text_of(audit(Claim(1.0, 0.0), pairs=[count(10.0)]).to_html())
    assert "with δ = 0 every ε is refuted" in page


@pytest.mark.parametrize(
    ("laws", "words"),
    [
        (([58.0], [16.0], [57.0], [16.0]), "the published number exceeds 73.5"),
        (([57.0], [16.0], [58.0], [16.0]), "the published number lies below 41.5"),
        (([5.0], [0.0], [6.0], [1.0]), "the published number is exactly 5"),
        (([5.0], [1.0], [6.0], [0.0]), "the published number is not exactly 6"),
        (([1.0, 3.0], [4.0, 4.0], [1.0, 2.0], [4.0, 4.0]), "number 2 of the output exceeds 6.5"),
        (([1.0, 1.0], [1.0, 4.0], [0.0, 0.0], [1.0, 4.0]), ""),
    ],
)
def test_the_event_in_units_of_the_output(laws, words):
    witness = audit(CLAIM, pairs=[GaussianPair.from_diagonal(*laws)]).witness
    if witness.side == "add":
        witness = dataclasses.replace(witness, side="remove")
    assert outcome_words(witness) == words


@pytest.mark.parametrize("order", ["remove", "add"])
@pytest.mark.parametrize("laws", [(0.3, 4.0, 0.0, 1.0), (0.3, 1.0, 0.0, 4.0), (-1.0, 2.0, 1.0, 2.5)])
def test_the_ends_of_the_event_have_a_loss_of_epsilon(laws, order):
    """For laws of different width the event is an interval, or what lies outside of one."""
    witness = audit(CLAIM, pairs=[GaussianPair.from_diagonal(*([x] for x in laws))]).witness
    witness = dataclasses.replace(witness, side=order, epsilon=0.1)
    a, u, b, v = laws if order == "remove" else laws[2:] + laws[:2]
    text = outcome_words(witness)
    ends = [float(x.replace("−", "-")) for x in re.findall(r"−?\d+\.\d+", text)]
    assert len(ends) == 2
    for x in ends:
        loss = 0.5 * math.log(v / u) - (x - a) ** 2 / (2 * u) + (x - b) ** 2 / (2 * v)
        assert loss == pytest.approx(0.1, abs=1e-4)
    assert ("between" in text) == (u < v)


def test_small_laws_are_printed_and_large_ones_are_summed_up():
    page = text_of(audit(CLAIM, pairs=[count(4.0)]).to_html())
    assert "Output law p normal with mean 58 and variance 16" in page
    assert "Output law q normal with mean 57 and variance 16" in page
    assert "one event (the published number exceeds 73.5) has probability" in page
    sketch = audit(
        CLAIM,
        algorithm=lambda d: ndis.Gaussian(np.zeros(2), d.T @ d + 9.0 * np.eye(2), copies=300),
        data=np.eye(2),
        search=Search(seconds=0),
    )
    assert "300 draws, each normal with means 0, 0 and covariance rows (10, 0), (0, 10)" in text_of(sketch.to_html())
    large = text_of(audit(CLAIM, pairs=[GaussianPair.from_ratios(1.5, shift=0.1, copies=100)]).to_html())
    assert "Gaussians in 100 dimensions" in large
    assert "Distance of their means, in standard deviations of q 1" in large
    assert "Variances of p in units of those of q from 1.5 to 1.5" in large


MECHANISMS = Made(
    **{
        "gaussian": lambda: ndis.GaussianMechanism.calibrated(**BUDGET, sensitivity=1.0),
        "gram": lambda: ndis.GramMechanism.calibrated(**BUDGET, row_norm_bound=1.0),
        "sketch": lambda: ndis.RandomProjection.calibrated(**BUDGET, sketch_size=20, row_norm_bound=1.0),
        "law": lambda: ProjectionLaw(sketch_size=100, ridge=40.0, row_norm_bound=1.0),
        "sampled": lambda: ndis.PoissonProjection.calibrated(**BUDGET, sketch_size=20, row_norm_bound=1.0, rate=0.5),
        "training": lambda: ndis.DPSGD.calibrated(**BUDGET, sampling_rate=0.01, steps=10),
    }
)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_proved_page_contradicts_nothing_and_lists_what_to_check(name):
    report = audit(CLAIM, mechanism=MECHANISMS[name])
    page = text_of(report.to_html())
    assert report.proved
    assert "All neighbours of all data sets are covered by the theorem, tested or not." in page
    assert "What was not tested" not in page
    assert "All other neighbours" not in page
    assert "Confidential" not in page
    assert "were stated without looking at the data" in page
    assert all(": " in text for text in report.proof.assumptions)  # each says how to check it
    assert "The theorem bounds δ for all neighbours of all data sets." not in page  # it has a sentence of its own
    exact = "its bytes keep the guarantee" in page
    assert exact == (name in ("gaussian", "gram", "sketch", "sampled"))
    assert exact != ("Attacks on the floating-point numbers" in page)


def test_rounds_have_a_sentence_too():
    report = audit(CLAIM, mechanism=GaussianRounds.calibrated(**BUDGET, sum_shares=(0.5, 0.5)))
    assert "squared shift is the sum of those of the rounds" in text_of(report.to_html())


def test_the_banner_stands_only_where_data_may_show():
    quiet = {"algorithm": lambda d: (d.sum(axis=0), np.full(1, 900.0)), "search": Search(seconds=0)}
    made_up = audit(CLAIM, data=DataSet(domain=Domain(low=0.0, high=1.0, features=1)), **quiet)
    given = audit(CLAIM, data=np.ones((2, 1)), data_name="rides", **quiet)
    assert "Confidential" not in text_of(made_up.to_html())
    assert "Confidential. This page was computed from data (rides)" in text_of(given.to_html())
    assert "If the output laws on this page come from private data" in text_of(
        audit(CLAIM, pairs=[count(9.0)]).to_html()
    )


def test_noise_that_depends_is_said_first():
    report = audit(
        CLAIM, algorithm=lambda d: ([d.sum()], [50.0 + len(d)]), data=np.ones((3, 1)), search=Search(seconds=0)
    )
    page = text_of(report.to_html())
    assert page.index("The noise depends on the data.") < page.index("The claim: ")


# ---------------------------------------------------------------------- a page that checks itself


def test_a_page_holds_its_report(tmp_path):
    report = audit(CLAIM, pairs=[count(4.0)])
    report.save(tmp_path / "audit.html")
    assert AuditReport.load(tmp_path / "audit.html").to_json() == report.to_json()
    result = run("report", tmp_path / "audit.html", "-o", tmp_path / "audit.json")
    assert result.exit_code == 1
    assert "verdict: refuted" in result.stdout
    assert AuditReport.load(tmp_path / "audit.json").to_html() == report.to_html()


def test_a_page_that_was_changed_is_refused(tmp_path):
    report = audit(CLAIM, pairs=[count(4.0)])
    page = report.to_html()
    for old, new in (
        ("The claim is false", "The claim is proved"),
        ("mean 58", "mean 57"),
        ("1.06 times", "1.01 times"),
    ):
        assert old in page
        (tmp_path / "audit.html").write_text(page.replace(old, new), encoding="utf-8")
        with pytest.raises(ParameterError, match="be the page that its own JSON makes"):
            AuditReport.load(tmp_path / "audit.html")
        assert "its own JSON" in refused("report", tmp_path / "audit.html")


def test_a_page_whose_report_was_changed_is_refused(tmp_path):
    """Page and JSON agree, but the numbers are not those of the pair."""
    report = audit(CLAIM, pairs=[count(4.0)])
    plain = json.loads(report.to_json())
    plain["witness"]["enclosure"] = [1e-3, 1e-3]
    plain["delta_possible"] = 1e-3
    (tmp_path / "audit.html").write_text(AuditReport.from_dict(plain).to_html(), encoding="utf-8")
    assert "agree with its own witness" in refused("report", tmp_path / "audit.html")


@pytest.mark.parametrize("text", ["<!doctype html>", '<!doctype html><a href="data:application/json;base64,%%%">x</a>'])
def test_other_pages_are_refused(tmp_path, text):
    (tmp_path / "page.html").write_text(text)
    with pytest.raises(ParameterError, match="file must"):
        AuditReport.load(tmp_path / "page.html")


def test_a_page_of_another_version_is_read(tmp_path):
    page = dataclasses.replace(audit(CLAIM, pairs=[count(4.0)]), version="0.0.1").to_html()
    (tmp_path / "audit.html").write_text(page.replace("What to do next", "Next"), encoding="utf-8")
    assert AuditReport.load(tmp_path / "audit.html").refuted


def test_the_digest_is_that_of_the_download():
    import hashlib

    page = audit(CLAIM, pairs=[count(4.0)]).to_html()
    content = base64.b64decode(re.search(r'base64,([^"]*)"', page)[1])
    assert hashlib.sha256(content).hexdigest() in page
    assert AuditReport.from_json(content).refuted


# ---------------------------------------------------------------------- a budget


def test_the_page_of_a_budget_says_first_what_may_be_released(tmp_path):
    mechanism = ndis.GaussianMechanism.calibrated(**BUDGET, sensitivity=1.0)
    plan = {"monthly": (mechanism, 2)}
    ledger = ndis.Ledger.create(tmp_path / "a.ledger", epsilon=2.5, delta=1e-6, plan=plan, data_name="visits")
    ledger.release("monthly", mechanism, 1.0)
    page = text_of(ledger.report().to_html())
    assert "More may be released Of 2 planned releases from visits, 1 is left:" in page
    assert "ε = 2.5 and δ = 10⁻⁶" in page
    assert "1e-06" not in page
    ledger.release("monthly", mechanism, 1.0)
    page = text_of(ledger.report().to_html())
    assert "Nothing more may be released All 2 planned releases from visits are used." in page


def test_the_claim_is_said_in_words():
    for pair in (count(0.7 * UNIT), count(10.0 * UNIT)):
        page = text_of(audit(CLAIM, pairs=[pair]).to_html())
        assert "It promises: one record makes no result more than 2.719 times as likely, up to an extra" in page


def test_an_undecided_page_gives_only_its_reasons():
    edge = UNIT**2 * (1 - 1e-12)
    law = lambda rows: ([float(len(rows))], [edge])  # noqa: E731
    report = audit(CLAIM, algorithm=law, data=np.zeros((1, 1)), search=Search(seconds=0))
    page = text_of(report.to_html())
    assert report.undecided
    assert len(report.notes) == 1
    assert "The reasons: δ of the closest pair lies above the claim by so little" in page  # a small letter stays small
    assert "1 pair of neighbours was tested, and it does not contradict the claim." in page


def test_a_page_that_proves_nothing_is_no_approval():
    report = audit(CLAIM, pairs=[count(10.0 * UNIT)])
    assert report.next_steps[0].startswith("do not take this page for an approval: ask for a proof")
