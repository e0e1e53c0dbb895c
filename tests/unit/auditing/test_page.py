"""The report as a page: whole, self-contained, escaped, legible, and never reading as a proof of privacy."""

from __future__ import annotations

import dataclasses
import math
import re
from decimal import Decimal
from importlib.resources import files

import numpy as np
import pytest

import ndis
from helpers.audits import CLAIM
from helpers.pages import Page
from ndis.auditing import AuditReport, Claim, audit
from ndis.pages.html import tag
from ndis.pages.text import at_least, at_most, plain
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

LOUD, QUIET = GaussianPair.from_ratios(1.0, shift=0.35), GaussianPair.from_ratios(1.02, copies=100)
SINGULAR = GaussianPair.from_diagonal([0.0], [0.0], [1.0], [1.0])


def dense(size: int) -> GaussianPair:
    """A pair whose certificates come from an eigenproblem of this size."""
    random = np.random.default_rng(size)
    a = random.normal(size=(size, 2 * size))
    factor = random.normal(size=(size, 1))
    return GaussianPair.from_moments(np.zeros(size), a @ a.T + factor @ factor.T, np.full(size, 0.1), a @ a.T)


REPORTS = {
    "refuted": lambda: audit(CLAIM, pairs=[LOUD]),
    "not refuted": lambda: audit(CLAIM, pairs=[QUIET, GaussianPair.from_ratios(1.01)]),
    "curve": lambda: audit(Claim.curve([0.5, 1.0, 2.0], [1e-2, 1e-3, 0.0]), pairs=[LOUD]),
    "zero delta": lambda: audit(Claim(epsilon=3.0, delta=0.0), pairs=[LOUD]),
    "zero epsilon": lambda: audit(Claim(epsilon=0.0, delta=0.5), pairs=[QUIET]),
    "far more private": lambda: audit(
        Claim(3.0, 1e-6, "replace-one"), pairs=[GaussianPair.from_ratios(1.0, shift=0.01)]
    ),
    "sampled": lambda: audit(CLAIM, pairs=[PrivacyProfile(GaussianPair.from_ratios(1.0, shift=1.0)).subsampled(0.1)]),
    "told apart": lambda: audit(CLAIM, pairs=[SINGULAR]),
    "equal laws": lambda: audit(CLAIM, pairs=[GaussianPair.from_ratios(1.0)]),
    "large": lambda: audit(CLAIM, pairs=[dense(12)]),
    "none": lambda: AuditReport(CLAIM, False, None, None, 0.0, 0, ("no pairs",), ("everything",), "nothing"),
}


@pytest.fixture(scope="module")
def pages() -> dict[str, tuple[AuditReport, str]]:
    reports = {name: make() for name, make in REPORTS.items()}
    return {name: (report, report.to_html()) for name, report in reports.items()}


@pytest.mark.parametrize("name", REPORTS)
class TestEveryPage:
    def test_whole_and_self_contained(self, pages, name):
        text = re.sub('href="data:application/json;base64,[A-Za-z0-9+/=]*"', 'href="#json"', pages[name][1])
        page = Page(text)
        assert text.startswith("<!doctype html>\n<html lang=")
        assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "img", "iframe", "object", "base", "form"})
        assert {link["href"] for link in page.elements("a")} <= {"#json", "#theorem"}
        assert not re.search(r"https?:|url\(|@import|javascript:|\bon[a-z]+=", text)
        assert "<?" not in text

    def test_accessible(self, pages, name):
        page = Page(pages[name][1])
        assert page.elements("html") == [{"lang": "en"}]
        assert any(m.get("name") == "viewport" for m in page.elements("meta"))
        assert len(page.text("title")) > 10
        headings = [tag for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
        assert headings.count("h1") == 1
        assert headings[0] == "h1"
        assert set(headings) <= {"h1", "h2"}
        assert all(th.get("scope") for th in page.elements("th"))
        for svg in page.elements("svg"):
            assert svg.get("aria-hidden") == "true" or (svg.get("role") == "img" and svg["aria-label"])

    def test_the_verdict_comes_first_and_is_never_privacy(self, pages, name):
        report, text = pages[name]
        page = Page(text)
        assert page.text("h1") == ("The claim is false" if report.refuted else "Not refuted")
        end = "the claim is false" if report.refuted else "not refuted, not a proof of privacy"
        assert page.text("title").startswith(f"Privacy audit: {end}")
        if not report.refuted:
            assert page.text("strong") == "This is not a proof of privacy."
            assert "Nothing on this page shows that the claim is true." in page.text()
            assert "The claim is false" not in page.text()
        rest = page.text().replace("Nothing on this page shows that the claim is true.", "")
        assert not re.search(r"\b(is|are) private\b|claim (is true|holds)|safe|proved", rest)

    def test_deterministic(self, pages, name):
        report, text = pages[name]
        assert report.to_html() == text
        assert AuditReport.from_json(report.to_json()).to_html() == text

    def test_says_what_the_report_says(self, pages, name):
        report, text = pages[name]
        found = " ".join(Page(text).text().split())
        for sentence in (*report.how_chosen, *report.not_tested, *report.notes):
            assert sentence[1:] in found
        assert " ".join(report.reproduce.split()) in found
        assert f"ndis {report.version}" in found
        if report.witness is not None:
            assert report.witness.neighbours in found
            assert report.witness.order in found
            assert " ".join(report.witness.event.split()) in found
            for end in report.witness.enclosure:
                assert " ".join(plain(end).split()) in found

    def test_no_number_is_lost_on_the_way(self, pages, name):
        found = Page(pages[name][1]).text().split("How to reproduce")[0]
        assert not re.search(r"\b(nan|inf)\b|\bNone\b(?!: the two laws)", found)


class TestWords:
    def test_refuted(self, pages):
        report, text = pages["refuted"]
        found = " ".join(Page(text).text("p").split() + Page(text).text("span").split())
        assert "the claim says δ is at most" in found
        assert at_least(report.witness.enclosure.lower) in text
        exact = plain(report.epsilon_refuted)
        assert f'every ε up to <span class="n" title="{exact}">{at_least(report.epsilon_refuted)}</span>' in text

    def test_undecided_is_said(self, pages):
        report = dataclasses.replace(pages["not refuted"][0], undecided=True)
        assert "The claim is neither refuted nor proved. Do not publish under it." in report.to_html()

    def test_a_refutation_by_less_than_a_digit_shows(self):
        """The float below the certified lower end is claimed: all digits are shown that tell the two apart."""
        lower = PrivacyProfile(LOUD).certify(1.0, relative_width=1e-15).lower
        claimed = math.nextafter(lower, 0.0)
        text = audit(Claim(epsilon=1.0, delta=claimed), pairs=[LOUD]).to_html()
        assert "The claim is false" in text
        shown = Page(text).text("span")
        assert plain(claimed) in shown or "by less than a floating-point number can show" in text

    def test_many_points(self, pages):
        text = pages["curve"][1]
        assert "3 values of ε" in text
        assert text.count('class="mark refuted"') == 2  # the point of the witness, and the legend
        assert text.count('class="mark"') == 3

    def test_the_verdict_does_not_rest_on_the_picture(self, pages):
        for name in ("large", "refuted"):
            assert "The verdict rests on the certified bounds in the appendix." in pages[name][1]


def test_every_text_is_escaped(pages):
    evil = """<script>alert(1)</script> "&' <img src=x onerror=alert(1)> </style></pre>"""
    report = pages["refuted"][0]
    witness = dataclasses.replace(report.witness, neighbours=evil, order=evil, event=evil)
    texts = {"how_chosen": (evil,), "not_tested": (evil,), "notes": (evil,), "reproduce": evil, "version": evil}
    page = dataclasses.replace(report, witness=witness, **texts).to_html()
    assert "<script" not in page
    assert "<img" not in page
    assert {name for name, _ in Page(page).tags}.isdisjoint({"script", "img"})
    assert Page(page).text().count("alert(1)") >= 2 * (3 + 3)
    assert tag("p", evil, title=evil).count("<") == 2


def test_save_writes_the_page(pages, tmp_path):
    report, text = pages["refuted"]
    report.save(tmp_path / "audit.html")
    assert (tmp_path / "audit.html").read_text(encoding="utf-8") == text
    assert [f.name for f in tmp_path.iterdir()] == ["audit.html"]


def test_a_page_that_cannot_be_made_leaves_no_file(pages, tmp_path, monkeypatch):
    def fail(report: AuditReport) -> str:
        raise ndis.PrecisionError("no")

    monkeypatch.setattr(AuditReport, "to_html", fail)
    with pytest.raises(ndis.PrecisionError):
        pages["refuted"][0].save(tmp_path / "audit.html")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- numbers


def value(text: str) -> Decimal:
    """What a reader reads."""
    plain_digits = text.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-"))
    match = re.fullmatch(r"(?:([\d.]+) × )?10(-?\d+)", plain_digits) if text != plain_digits else None
    return Decimal(match[1] or 1).scaleb(int(match[2])) if match else Decimal(text)


def test_rounded_numbers_keep_the_sentence_true():
    random = np.random.default_rng(0)
    for x in np.exp(random.uniform(-700, 700, size=300)).tolist():
        assert value(at_least(x)) <= Decimal(x) <= value(at_most(x))
        assert value(at_most(x)) - value(at_least(x)) <= Decimal(x) / 999
        assert float(value(plain(x))) == x
        above, below = math.nextafter(x, math.inf), math.nextafter(x, 0.0)
        assert Decimal(repr(x)) < value(at_least(above, above=x)) <= Decimal(above)
        assert Decimal(repr(x)) > value(at_most(below, below=x)) >= Decimal(below)


def test_numbers_that_are_none():
    assert (plain(math.nan), at_least(math.inf), at_most(-math.inf)) == ("not a number", "infinity", "minus infinity")
    assert plain(0.0) == at_least(0.0) == "0"


# ---------------------------------------------------------------------- colours


def contrast(one: str, other: str) -> float:
    """Of two colours, by the formula of the Web Content Accessibility Guidelines."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_are_told_apart_in_light_dark_and_print():
    style = ((files("ndis") / "pages" / "templates") / "page.css").read_text(encoding="utf-8")
    themes = [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{(.*?)\}", style, re.S)
    ]
    assert len(themes) == 3
    for theme in themes:
        for front, back in (
            ("text", "back"), ("text", "panel"), ("text", "red-panel"), ("text", "amber-panel"), ("soft", "back"),
            ("red", "red-panel"), ("amber", "amber-panel"), ("text", "green-panel"), ("green", "green-panel"),
        ):  # fmt: skip
            assert contrast(theme[front], theme[back]) >= 4.5, (front, back)
        for front, back in (
            ("blue", "back"),
            ("red", "shade"),
            ("amber", "back"),
            ("amber", "shade"),
            ("soft", "shade"),
        ):
            assert contrast(theme[front], theme[back]) >= 3, (front, back)


def test_a_page_without_a_curve_says_so():
    page = audit(CLAIM, pairs=[GaussianPair.from_ratios(1.0)]).to_html()
    assert "There is no curve to draw" in page
    assert "false claims" not in page
    assert 'class="mark"' in page
    zero = audit(Claim(1.0, 0.0), pairs=[LOUD]).to_html()
    assert ">claim, δ = 0</text>" in zero
