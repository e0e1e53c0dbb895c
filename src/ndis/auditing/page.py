"""Render a report as one page that needs no other file: the verdict first, and the exact numbers in an appendix.

The page has no scripts and loads nothing. It only renders the report: the same report gives the same bytes. Its text
stands in `audit.html.jinja`; this module chooses words that depend on numbers.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from ndis import _pages
from ndis._chart import chart
from ndis._digits import at_least, at_most, equation, few, plain, several, unbroken
from ndis._pages import number, sentence
from ndis.auditing.witness import AS_GIVEN, EXCHANGED, WITH_RECORD

if TYPE_CHECKING:
    from ndis.auditing.report import AuditReport
    from ndis.auditing.witness import Witness

__all__ = ["render"]

_HEADINGS = {"refuted": "The claim is false", "proved": "The claim is proved", "open": "Not refuted"}
_ENDINGS = {
    "refuted": "the claim is false",
    "proved": "the claim is proved",
    "open": "not refuted, not a proof of privacy",
}
_NEIGHBOURS = {
    "add-remove": "data sets that differ by one record, present or absent",
    "replace-one": "data sets of equal size that differ in the content of one record",
}
# order of the witness → (what a reader of the output can tell, where p is, where q is)
_SIDES = {
    WITH_RECORD[0]: ("whether a person took part", "if the person took part", "if not"),
    WITH_RECORD[1]: ("whether a person took part", "if the person did not take part", "if they did"),
    EXCHANGED[0]: ("which of two versions of a record was used", "for the data", "for the neighbour"),
    EXCHANGED[1]: ("which of two versions of a record was used", "for the neighbour", "for the data"),
    AS_GIVEN[0]: ("which of two neighbouring data sets was used", "for the first", "for the second"),
    AS_GIVEN[1]: ("which of two neighbouring data sets was used", "for the second", "for the first"),
}
_MOST_DIGITS = 10  # digits of a probability in floats that mean something
_LONG = re.compile(r"(\d+\.\d{6,})")  # a number with more digits than a sentence shows


def render(report: AuditReport) -> str:
    """Render the report as an HTML page.

    >>> import ndis
    >>> from ndis.auditing import Claim, audit
    >>> pairs = [ndis.GaussianPair.from_ratios(1.0, shift=1.0)]
    >>> page = render(audit(Claim(epsilon=1.0, delta=1e-6), pairs=pairs))
    >>> "The claim is false" in page, "<script" in page
    (True, False)
    """
    return _pages.render("audit.html.jinja", r=report, v=_view(report), version=report.version)


# ---------------------------------------------------------------------- words


def _view(report: AuditReport) -> dict[str, Any]:
    """Choose the words of a page that depend on the numbers of the report."""
    kind = "refuted" if report.refuted else "proved" if report.proof is not None else "open"
    return {
        "report": report,
        "kind": kind,
        "heading": _HEADINGS[kind],
        "ending": _ENDINGS[kind],
        "name": report.title or "a system without a name",
        "about": _about(report),
        "mechanism": _in_few_digits(report.mechanism),
        "statement": _statement(report),
        "neighbours": _NEIGHBOURS[report.claim.adjacency],
        "claimed": _claimed(report),
        "tells": None if report.witness is None else _tells(report.witness, refuted=report.refuted),
        "excess": _excess(report),
        "facts": _facts(report),
        "picture": _picture(report),
        "laws": None if report.witness is None else _laws(report.witness),
        "pairs": f"{several(report.pairs_tried, 'pair')} of neighbours {'was' if report.pairs_tried == 1 else 'were'}",
    }


def _about(report: AuditReport) -> str:
    words = [report.date, f"data: {report.data_name}" if report.data_name else ""]
    return " · ".join(["Privacy audit" + (f" of {report.title}" if report.title else ""), *filter(None, words)])


def _in_few_digits(text: str) -> Markup:
    """Write the words of a mechanism; the long numbers in them are rounded, and have all their digits on hover."""
    parts = _LONG.split(unbroken(text))  # words and numbers in turn
    shown = [number(few(float(text)), text) if i % 2 else escape(text) for i, text in enumerate(parts)]
    return Markup("").join(shown)


def _statement(report: AuditReport) -> Markup | None:
    """State the claim that is proved. Only the parameters of the mechanism are rounded; the claim is not."""
    if report.proof is None:
        return None
    text = report.proof.statement
    if not (report.mechanism and text.startswith(report.mechanism)):
        return escape(sentence(text))
    return _in_few_digits(report.mechanism) + escape(unbroken(text.removeprefix(report.mechanism) + "."))


def _claimed(report: AuditReport) -> str:
    points = report.claim.points
    if len(points) == 1:
        return f"{equation('ε', points[0][0])}, {equation('δ', points[0][1])}"
    return unbroken(f"δ at {len(points)} values of ε, from {plain(points[0][0])} to {plain(points[-1][0])}")


def _tells(witness: Witness, *, refuted: bool) -> Markup | None:
    """Give the two probabilities of the event, and what the claim allows, in one sentence."""
    if witness.probabilities is None:
        return None
    what, here, there = _SIDES.get(witness.order, _SIDES[AS_GIVEN[0]])
    p, q = witness.probabilities
    allowed = min(1.0, math.exp(min(witness.epsilon, 700.0)) * q + witness.delta)
    if witness.revealing:
        return Markup(
            "Someone who sees the output can tell {} with certainty: one event has probability exactly 1 {} and "
            "exactly 0 {}. The claim allows at most {}. The record is revealed with certainty."
        ).format(what, here, there, number(plain(witness.delta)))
    if not refuted:
        return Markup("The best event to tell {} has probability {} {} and {} {}; the claim allows at most {}.").format(
            what, _odd(p), here, _odd(q), there, _odd(allowed)
        )
    for digits in range(4, _MOST_DIGITS + 1):
        if float(f"{p:.{digits}g}") > float(f"{allowed:.{digits}g}"):
            return Markup(
                "Someone who sees the output can tell {}: one event has probability {} {} and {} {}. The claim allows "
                "at most {}."
            ).format(what, _odd(p, digits), here, _odd(q, digits), there, _odd(allowed, digits))
    return Markup(
        "Someone who sees the output can tell {} a little better than the claim allows."
    ).format(what)  # fmt: skip


def _excess(report: AuditReport) -> Markup | None:
    """Say by how much δ is above the claim, for a claim that is refuted."""
    witness = report.witness
    if not report.refuted or witness is None:
        return None
    lower, claimed = witness.enclosure.lower, witness.delta
    if lower == 1.0:
        truth = Markup("In truth δ is exactly 1 for two neighbouring data sets.")
    elif lower > claimed:
        shown = number(at_least(lower, above=claimed), plain(lower))
        truth = Markup("In truth δ is at least {} for two neighbouring data sets.").format(shown)
    else:
        truth = Markup(
            "In truth δ is above that for two neighbouring data sets, by less than a floating-point number can show."
        )
    return Markup("At {} the claim says δ is at most {}. {}").format(
        equation("ε", witness.epsilon), number(plain(claimed)), truth
    )


def _facts(report: AuditReport) -> list[tuple[str, object]]:
    """List the claim, and what is certain about it."""
    rows: list[tuple[str, object]] = [
        ("System", report.title or "not named"),
        *([("Mechanism", report.mechanism)] if report.mechanism else []),
        ("Data", report.data_name or "not named"),
        ("Date", report.date or "not given"),
        ("Claim", _claimed(report)),
        ("Between", f"{_NEIGHBOURS[report.claim.adjacency]} ({report.claim.adjacency})"),
    ]
    witness = report.witness
    if witness is not None:
        epsilon, delta = equation("ε", witness.epsilon), equation("δ", witness.delta)
        least, claimed = report.delta_possible, witness.delta
        above = least if report.refuted and least <= claimed else None
        shown = plain(least) if above is not None else at_least(least, above=claimed)
        text = Markup("{}{}").format(number(shown, plain(least)), unbroken(f" (claimed {plain(claimed)})"))
        if witness.revealing:
            text = Markup("exactly 1: the record is revealed with certainty{}").format(
                unbroken(f" (claimed {plain(claimed)})")
            )
        rows.append((f"Smallest δ still possible at {epsilon}", text))
        words = "Refuted at" if report.refuted else "A claim would be false at"
        rows.append((f"{words} {delta}", _refuted_range(report.epsilon_refuted)))
    rows.append(("Pairs of neighbours tested", f"{report.pairs_tried:,}, each in both orders"))
    return rows


def _refuted_range(epsilon: float | None) -> object:
    if epsilon is None:
        return "no ε"
    if epsilon == math.inf:
        return "every ε"
    return Markup("every ε up to {}").format(number(at_least(epsilon), plain(epsilon)))


def _laws(witness: Witness) -> str:
    pair = witness.pair
    if pair is None:
        if witness.profile.composed:
            return "mixtures of Gaussians: each record enters each of several samples by chance"
        rate = at_most(witness.profile.sampling_rate)
        return f"mixtures of Gaussians: each record enters the sample with probability {rate}"
    if pair.mutually_singular:
        return "Gaussians on different subspaces, told apart with certainty"
    return f"Gaussians in {several(pair.dimension, 'dimension')}"


# ---------------------------------------------------------------------- the picture


def _picture(report: AuditReport) -> dict[str, Any] | None:
    witness, drawn = report.witness, report.drawn
    if witness is None or drawn is None:
        return None
    false = (witness.epsilon, witness.delta) if report.refuted else None
    where = "below" if report.refuted else "not below"
    description = (
        f"δ on a logarithmic axis against ε. The claimed point, {equation('ε', witness.epsilon)} and "
        f"{equation('δ', witness.delta)}, lies {where} the curve of the worst pair tested."
    )
    words = ""
    if witness.revealing:
        words = "δ = 1 at every ε: revealed with certainty"
        description += " δ is exactly 1 at every ε: the record is revealed with certainty."
    svg = chart(
        drawn.points, report.claim.points, description=description, refuted=false, right=drawn.right, words=words
    )
    return {
        "svg": svg,
        "certified": drawn.certified,
        "count": len(drawn.points),
        "several": len(report.claim.points) > 1,
    }


# ---------------------------------------------------------------------- small parts


def _odd(x: float, digits: int = 4) -> Markup:
    """Write a probability in floats."""
    return number(few(x, digits) if x > 1e-300 or x == 0.0 else f"less than {few(1e-300)}", plain(x))
