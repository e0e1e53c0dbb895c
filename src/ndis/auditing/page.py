"""Render a report as one page that needs no other file: the verdict first, and the exact numbers in an appendix.

The page has no scripts and loads nothing. It only renders the report: the same report gives the same bytes. Its text
stands in `audit.html.jinja` and `parts.html.jinja`; this module computes what the text needs.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from ndis.auditing.witness import AS_GIVEN, EXCHANGED, WITH_RECORD
from ndis.pages import environment
from ndis.pages.chart import chart
from ndis.pages.digits import equation, few, plain, unbroken
from ndis.pages.environment import number, sentence

if TYPE_CHECKING:
    from ndis.auditing.report import AuditReport
    from ndis.auditing.witness import Witness

__all__ = ["render"]

# order of the witness → (what a reader of the output can tell, where p is, where q is)
_SIDES = {
    WITH_RECORD[0]: ("whether a person took part", "if the person took part", "if not"),
    WITH_RECORD[1]: ("whether a person took part", "if the person did not take part", "if they did"),
    EXCHANGED[0]: ("which of two versions of a record was used", "for the data", "for the neighbour"),
    EXCHANGED[1]: ("which of two versions of a record was used", "for the neighbour", "for the data"),
    AS_GIVEN[0]: ("which of two neighbouring data sets was used", "for the first", "for the second"),
    AS_GIVEN[1]: ("which of two neighbouring data sets was used", "for the second", "for the first"),
}
_DIGITS, _MOST_DIGITS = 4, 10  # digits of a probability in floats: those shown, and those that mean something
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
    view = {
        "kind": "refuted" if report.refuted else "proved" if report.proof is not None else "open",
        "mechanism": _in_few_digits(report.mechanism),
        "statement": _statement(report),
        "claimed": _claimed(report),
        "tells": None if report.witness is None else _tells(report.witness, refuted=report.refuted),
        "svg": _picture(report),
    }
    return environment.render("audit.html.jinja", r=report, w=report.witness, v=view, version=report.version)


def _in_few_digits(text: str) -> Markup:
    """Write the words of a mechanism; the long numbers in them are rounded, and have all their digits on hover."""
    parts = _LONG.split(unbroken(text))  # words and numbers in turn
    return Markup("").join(number(few(float(s)), s) if i % 2 else escape(s) for i, s in enumerate(parts))


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


def _tells(witness: Witness, *, refuted: bool) -> dict[str, Any] | None:
    """Return the two probabilities of the event and what the claim allows, in digits that show which is larger."""
    if witness.probabilities is None:
        return None
    p, q = witness.probabilities
    allowed = min(1.0, math.exp(min(witness.epsilon, 700.0)) * q + witness.delta)
    enough = (d for d in range(_DIGITS, _MOST_DIGITS + 1) if float(f"{p:.{d}g}") > float(f"{allowed:.{d}g}"))
    digits = next(enough, None) if refuted else _DIGITS
    shown = (_odd(x, digits or _DIGITS) for x in (p, q, allowed))
    what, here, there = _SIDES.get(witness.order, _SIDES[AS_GIVEN[0]])
    return dict(zip(("p", "q", "allowed"), shown, strict=True), what=what, here=here, there=there, apart=bool(digits))


def _odd(x: float, digits: int) -> Markup:
    """Write a probability in floats."""
    return number(few(x, digits) if x > 1e-300 or x == 0.0 else f"less than {few(1e-300)}", plain(x))


def _picture(report: AuditReport) -> Markup | None:
    """Draw the claim against the curve of the witness."""
    witness, drawn = report.witness, report.drawn
    if witness is None or drawn is None:
        return None
    description = (
        f"δ on a logarithmic axis against ε. The claimed point, {equation('ε', witness.epsilon)} and "
        f"{equation('δ', witness.delta)}, lies {'below' if report.refuted else 'not below'} the curve of the worst "
        "pair tested."
    )
    words = "δ = 1 at every ε: revealed with certainty" if witness.revealing else ""
    if witness.revealing:
        description += " δ is exactly 1 at every ε: the record is revealed with certainty."
    false = (witness.epsilon, witness.delta) if report.refuted else None
    points, claimed = drawn.points, report.claim.points
    return chart(points, claimed, description=description, refuted=false, right=drawn.right, words=words)
