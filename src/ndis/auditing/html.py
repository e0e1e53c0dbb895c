"""The report as one page that needs nothing else: verdict first, then the picture, the witness, and what was left out.

The page has no scripts, loads nothing, and depends on the report alone: the same report gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from importlib.resources import files

from ndis.auditing.digits import at_least, at_most, equation, plain, unbroken
from ndis.auditing.markup import Markup, tag
from ndis.auditing.picture import picture
from ndis.auditing.result import AuditReport, Witness

__all__ = ["render"]

_NEIGHBOURS = {
    "add-remove": "data sets that differ by one record, present or absent",
    "replace-one": "data sets of equal size that differ in the content of one record",
}


def render(report: AuditReport) -> str:
    """The report as an HTML page.

    >>> import ndis
    >>> from ndis.auditing import Claim, audit
    >>> pairs = [ndis.GaussianPair.from_ratios(1.0, shift=1.0)]
    >>> page = render(audit(Claim(epsilon=1.0, delta=1e-6), pairs=pairs))
    >>> "The claim is false" in page, "<script" in page
    (True, False)
    """
    title = "Privacy audit: " + ("the claim is false" if report.refuted else "not refuted, not a proof of privacy")
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"ndis {report.version}"),
        tag("title", title),
        tag("style", Markup((files("ndis.auditing") / "report.css").read_text(encoding="utf-8"))),
    )
    body = (
        tag(
            "main",
            tag("p", "Privacy audit", class_="kind"),
            _verdict(report),
            _numbers(report),
            picture(report),
            _witness(report),
            _tested(report),
            _not_tested(report),
            _notes(report),
            _reading(report),
            _again(report),
        ),
        tag("footer", f"Made by ndis {report.version}. Every number on which the verdict rests is a rigorous bound."),
    )
    page = tag("html", tag("head", *head), tag("body", *body), lang="en")
    return f"<!doctype html>\n{page}\n"


# ---------------------------------------------------------------------- sections, in the order of the page


def _verdict(report: AuditReport) -> Markup:
    """What was found, in a sentence or two."""
    witness = report.witness
    if report.refuted and witness is not None:
        lower, claimed = witness.enclosure.lower, witness.delta
        if lower > claimed:
            found: tuple[object, ...] = (
                "δ is at least ",
                _number(at_least(lower, above=claimed)),
                " for two neighbouring data sets",
            )
        else:
            found = ("δ is above that for two neighbouring data sets, by less than a floating-point number can show",)
        told = (
            tag("p", "At ", equation("ε", witness.epsilon), " the claim says δ is at most ",
                _number(plain(claimed)), ". In truth ", *found, "."),
            tag("p", "This is a proof, not an estimate: no better analysis can make the claim true."),
        )  # fmt: skip
        return tag("section", tag("h1", "The claim is false"), *told, class_="verdict refuted")
    undecided = (
        [tag("p", "One pair of neighbours lies so close to the claim that it is undecided; the notes say why.")]
        if report.undecided
        else []
    )
    return tag(
        "section",
        tag("h1", "Not refuted"),
        tag("p", tag("strong", "This is not a proof of privacy.")),
        tag("p", f"{_pairs(report.pairs_tried)} tested, and none of them contradicts the claim. "
                 "Neighbours that were not tested may still contradict it."),
        *undecided,
        class_="verdict",
    )  # fmt: skip


def _numbers(report: AuditReport) -> Markup:
    """The claim beside what is certain."""
    claim, witness = report.claim, report.witness
    if len(claim.points) == 1:
        (epsilon, delta), *_ = claim.points
        claimed: tuple[object, ...] = (equation("ε", epsilon), ", ", equation("δ", delta))
    else:
        low, high = claim.points[0][0], claim.points[-1][0]
        claimed = (f"δ at {len(claim.points)} values of ε, from ", _number(plain(low)), " to ", _number(plain(high)))
    rows = [("Claim", claimed), ("Between", (f"{_NEIGHBOURS[claim.adjacency]} ({claim.adjacency})",))]
    if witness is not None:
        epsilon, delta = witness.epsilon, witness.delta
        least = report.delta_possible
        shown = plain(least) if report.refuted and least <= delta else at_least(least, above=delta)
        rows.append(
            (
                f"Smallest δ still possible at {equation('ε', epsilon)}",
                (_number(shown), unbroken(f" (claimed {plain(delta)})")),
            )
        )
        words = "Refuted at" if report.refuted else "A claim would be false at"
        rows.append((f"{words} {equation('δ', delta)}", _refuted_range(report.epsilon_refuted)))
    rows.append(("Pairs of neighbours tested", (f"{report.pairs_tried:,}, each in both orders",)))
    return tag(
        "section",
        tag("h2", "The claim and what is certain"),
        tag("table", tag("tbody", *(_row(name, value) for name, value in rows)), class_="facts"),
        class_="whole",
    )


def _witness(report: AuditReport) -> Markup:
    """Who proves it, or who comes closest."""
    witness = report.witness
    if witness is None:
        return Markup()
    box = witness.enclosure
    at = f"δ at {equation('ε', witness.epsilon)}"
    between: tuple[object, ...] = (_number(plain(box.lower)), " and ", _number(plain(box.upper)))
    bounds = (at, (_number(plain(box.lower)),)) if box.lower == box.upper else (f"{at}, between", between)
    rows = [
        ("Neighbours", (witness.neighbours,)),
        ("Order", (witness.order,)),
        bounds,
        ("Claimed δ", (_number(plain(witness.delta)),)),
        ("Best event to tell them apart", (unbroken(witness.event),)),
        ("The two output laws", (_laws(witness),)),
    ]
    opening = (
        "These neighbours prove that the claim is false. Somebody who sees the output and asks whether the event below "
        "happened learns more about one record than the claim allows."
        if report.refuted
        else "Of all pairs tested, these neighbours come closest to contradicting the claim."
    )
    return tag(
        "section",
        tag("h2", "The witness" if report.refuted else "The closest pair"),
        tag("p", opening),
        tag("table", tag("tbody", *(_row(name, value) for name, value in rows)), class_="facts"),
        class_="whole",
    )


def _tested(report: AuditReport) -> Markup:
    count = f"{_pairs(report.pairs_tried)} tested, each in both orders."
    return tag("section", tag("h2", "What was tested"), _list([count, *report.how_chosen]))


def _not_tested(report: AuditReport) -> Markup:
    always = () if report.refuted else ("Nothing on this page shows that the claim is true.",)
    return tag("section", tag("h2", "What was not tested"), _list([*report.not_tested, *always]))


def _notes(report: AuditReport) -> Markup:
    return tag("section", tag("h2", "Notes"), _list(report.notes)) if report.notes else Markup()


def _reading(report: AuditReport) -> Markup:
    verdict = (
        "Refuted means: for the neighbours shown, δ lies above the claim with certainty. "
        "One such pair is enough, whatever the others do."
        if report.refuted
        else "Not refuted means: none of the pairs tested lies above the claim with certainty. "
        "A false claim looks the same when the neighbours that break it were not among those tested."
    )
    items = (
        Markup(
            "A mechanism is (ε, δ)-differentially private when, for all neighbouring data sets and every event S, "
            "P(S)&nbsp;≤&nbsp;e<sup>ε</sup>&nbsp;Q(S)&nbsp;+&nbsp;δ, P and Q being the laws of its output on the two."
        ),
        f"Neighbours here are {_NEIGHBOURS[report.claim.adjacency]}.",
        "For one pair of neighbours the smallest δ at each ε can be computed exactly when the output is Gaussian. "
        "The bounds here enclose it by ball arithmetic, from the exact inputs.",
        verdict,
        "This page was computed from the laws it names. Where these came from private data, it tells about the data "
        "and is as confidential as they are.",
    )
    return tag("section", tag("h2", "How to read this"), _list(items))


def _again(report: AuditReport) -> Markup:
    return tag(
        "section",
        tag("h2", "How to reproduce"),
        tag("pre", tag("code", report.reproduce)),
        tag("p", "The JSON form of this report holds the exact numbers of the pair shown."),
    )


# ---------------------------------------------------------------------- small parts


def _row(name: str, value: Iterable[object]) -> Markup:
    return tag("tr", tag("th", name, scope="row"), tag("td", *value))


def _list(items: Iterable[str]) -> Markup:
    return tag("ul", *(tag("li", item if isinstance(item, Markup) else unbroken(_sentence(item))) for item in items))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?", ":")) else ".")


def _number(text: str) -> Markup:
    """A number in running text, kept on one line unless it is wider than the page."""
    return tag("span", unbroken(text), class_="n")


def _pairs(count: int) -> str:
    return "1 pair of neighbours was" if count == 1 else f"{count:,} pairs of neighbours were"


def _refuted_range(epsilon: float | None) -> tuple[object, ...]:
    if epsilon is None:
        return ("no ε",)
    if epsilon == math.inf:
        return ("every ε",)
    return ("every ε up to ", _number(at_least(epsilon)))


def _laws(witness: Witness) -> str:
    pair = witness.pair
    if pair is None:
        if witness.profile.composed:
            return "mixtures of Gaussians: each record enters each of several samples by chance"
        rate = at_most(witness.profile.sampling_rate)
        return f"mixtures of Gaussians: each record enters the sample with probability {rate}"
    if pair.mutually_singular:
        return "Gaussians on different subspaces, told apart with certainty"
    return f"Gaussians in {pair.dimension:,} dimension{'s' * (pair.dimension != 1)}"
