"""The audit page for the person who decides: names, plain words, few digits, and data behind it."""

from __future__ import annotations

import json
import math
import re
from importlib.resources import files

from scipy.special import ndtr

from helpers.audits import CLAIM
from helpers.pages import text_of
from ndis.auditing import AuditReport, Claim, audit
from ndis.pages.html import minute
from ndis.pages.text import few, plain
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

SHIFT = GaussianPair.from_ratios(1.0, shift=2.0)
SINGULAR = GaussianPair.from_diagonal([0.0], [0.0], [1.0], [1.0])


# ---------------------------------------------------------------------- the top of the page


def test_names_date_and_claim_stand_on_the_page_and_in_the_json():
    report = audit(CLAIM, pairs=[SHIFT], title="Bus survey <3", data_name="rides.csv")
    page = report.to_html()
    assert re.search(r"<title>Privacy audit: the claim is false · Bus survey &lt;3</title>", page)
    found = text_of(page)
    assert f"Privacy audit of Bus survey &lt;3 · {minute(report.date)} UTC · data: rides.csv" in found
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d\+00:00", report.date)
    kept = json.loads(report.to_json())
    assert (kept["title"], kept["data_name"], kept["date"]) == ("Bus survey <3", "rides.csv", report.date)


def test_the_confidentiality_note_comes_before_the_verdict():
    page = audit(CLAIM, pairs=[SHIFT]).to_html()
    assert page.index("Confidential.") < page.index("<h1>")


def test_the_first_sentence_has_both_probabilities_and_what_the_claim_allows():
    """For N(2, 1) from N(0, 1) the best event at ε = 1 is z > 3/2."""
    p, q = 1.0 - ndtr(1.5 - 2.0), 1.0 - ndtr(1.5)
    found = text_of(audit(CLAIM, pairs=[PrivacyProfile(SHIFT)]).to_html())
    allowed = math.e * q + 1e-6
    assert f"one event has probability {few(p, 4)} if the person took part and {few(q, 4)} if not" in found
    assert f"The claim allows at most {few(allowed, 4)}." in found


def test_more_digits_where_four_would_hide_the_difference():
    delta = float(SHIFT.delta(1.0)) * (1.0 - 1e-6)
    report = audit(Claim(1.0, delta), pairs=[SHIFT])
    assert report.refuted
    found = re.search(r"has probability (\S+) for the first and \S+ for the second. The claim allows at most (\S+)\.",
                      text_of(report.to_html()))  # fmt: skip
    assert found is not None
    assert float(found[1]) > float(found[2])


def test_a_singular_law_reveals_with_certainty_in_words_and_in_the_chart():
    report = audit(CLAIM, pairs=[SINGULAR])
    page = report.to_html()
    assert report.witness.probabilities == (1.0, 0.0)
    assert "exactly 1: the record is revealed with certainty" in text_of(page)
    assert "probability exactly 1 for the first and exactly 0 for the second" in text_of(page)
    assert "δ is exactly 1 at every ε: the record is revealed with certainty" in page  # the words of the picture
    assert "No ε repairs the claim" in text_of(page)
    assert "revealed" not in text_of(audit(CLAIM, pairs=[SHIFT]).to_html())


def test_ticks_have_one_form_and_the_claim_has_its_name():
    page = audit(CLAIM, pairs=[GaussianPair.from_ratios(1.0, shift=0.35)]).to_html()
    along = re.findall(r'<text[^>]*dy="0.32em" text-anchor="end"[^>]*>([^<]*)</text>', page)
    assert len(along) > 2
    assert all(re.fullmatch("10[⁰¹²³⁴-⁹⁻]+", label) for label in along)
    across = re.findall(r'dy="0.8em" text-anchor="middle">([^<]*)</text>', page)
    assert len({len(label.partition(".")[2]) for label in across}) == 1
    assert 'class="label">claim</text>' in page


def test_four_digits_with_the_rest_on_hover_and_the_witness_in_the_appendix():
    report = audit(CLAIM, pairs=[SHIFT])
    page = report.to_html()
    main, appendix = page.split("<h2>Appendix: the witness</h2>")
    assert f'title="{plain(report.delta_possible)}">' in main
    assert plain(report.delta_possible) not in text_of(main)
    assert plain(report.delta_possible) in text_of(appendix)
    assert "The privacy loss log(p/q) exceeds" not in main
    assert "The privacy loss log(p/q) exceeds" in appendix


# ---------------------------------------------------------------------- the report is data


def test_a_page_from_json_certifies_nothing(monkeypatch):
    report = audit(CLAIM, pairs=[SHIFT])
    page = report.to_html()
    again = AuditReport.from_json(report.to_json())

    def fail(*_, **__):
        raise AssertionError("the page must not compute")

    for name in ("certify", "delta", "log_delta", "epsilon"):
        monkeypatch.setattr(PrivacyProfile, name, fail)
    assert again.to_html() == page
    assert len(json.loads(again.to_json())["curve"]) == 161


# ---------------------------------------------------------------------- notebooks, several audits, tests


def test_notebooks_show_the_page_in_a_frame():
    report = audit(CLAIM, pairs=[SHIFT], title='"quoted"')
    shown = report._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert ' sandbox="" ' in shown
    assert shown.count("<") == 2  # all of the page is escaped


def test_the_templates_are_part_of_the_package():
    names = {path.name for path in (files("ndis") / "pages" / "templates").iterdir()}
    assert {"audit.html.jinja", "page.css"} <= names
