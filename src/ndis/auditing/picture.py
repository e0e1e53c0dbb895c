"""The claim against the curve of the worst pair tested: which points are computed, and what is said below them."""

from __future__ import annotations

import math

from ndis.auditing.chart import Point, chart
from ndis.auditing.digits import equation
from ndis.auditing.markup import Markup, tag
from ndis.auditing.result import AuditReport, Witness
from ndis.errors import PrecisionError
from ndis.pair import GaussianPair

__all__ = ["picture"]

_POINTS = 25  # of a curve whose every point is certified
_FLOAT_POINTS = 101  # of a curve in floats
_SMALL = 8  # size of a dense eigenproblem up to which a certificate takes hundredths of a second
_BEYOND_CLAIM, _BEYOND_REFUTED, _FARTHEST = 1.3, 1.15, 12.0  # right end of the axis, as factors
_SHOWN_BELOW = 1e-6  # how far below the smallest claimed δ the picture goes, as a factor


def picture(report: AuditReport) -> Markup:
    """The section with the picture; nothing where there is no pair to draw."""
    witness = report.witness
    if witness is None:
        return Markup()
    points, certified = _curve(report, witness)
    claimed = report.claim.points
    floor = _floor([y for _, y in claimed if y > 0], [y for _, y in points])
    false = (witness.epsilon, witness.delta) if report.refuted else None
    where = "below" if report.refuted else "not below"
    description = (
        f"δ on a logarithmic axis against ε. The claimed point, {equation('ε', witness.epsilon)} and "
        f"{equation('δ', witness.delta)}, lies {where} the curve of the worst pair tested."
    )
    line = (
        f"The line joins {len(points)} certified lower bounds of δ for the worst pair of neighbours tested; "
        "between them it is drawn straight."
        if certified
        else "The line is δ of the worst pair of neighbours tested, computed in floating point to far more digits than "
        "can be seen; the verdict rests on the certified bounds below."
    )
    caption = f"{line} Claims in the shaded region are false. A claim outside it is not thereby true."
    return tag(
        "section",
        tag("h2", "The claim against the certified curve" if certified else "The claim against the curve"),
        tag(
            "figure",
            chart(_cut(points, floor), claimed, false=false, description=description, right=points[-1][0]),
            _legend(len(claimed), refuted=report.refuted),
            tag("figcaption", caption),
        ),
    )


def _legend(points: int, *, refuted: bool) -> Markup:
    def entry(name: str, shape: Markup) -> Markup:
        return tag("li", tag("svg", shape, viewBox="0 0 26 16", aria_hidden="true"), name)

    def diamond(kind: str) -> Markup:
        return tag("polygon", points="13,1 20,8 13,15 6,8", class_=kind)

    claim = [entry("the claim, which is false", diamond("mark refuted"))] if refuted else []
    if points > 1 or not refuted:
        claim.append(entry("other claimed points" if refuted else "the claim", diamond("mark")))
    return tag(
        "ul",
        entry("δ of the worst pair tested", tag("line", x1=1, x2=25, y1=8, y2=8, class_="curve")),
        *claim,
        entry("false claims", tag("rect", x=1, y=2, width=24, height=12, class_="false")),
        class_="legend",
    )


def _curve(report: AuditReport, witness: Witness) -> tuple[list[Point], bool]:
    """(ε, δ) of the witness, and whether each δ is a certified lower end."""
    right = _right_end(report.claim.points[-1][0], report.epsilon_refuted)
    pair = witness.profile.remove if witness.side == "remove" else witness.profile.add
    if _size(pair) <= _SMALL:
        grid = [right * i / (_POINTS - 1) for i in range(_POINTS)]
        try:
            return list(zip(grid, report.certified_curve(grid).tolist(), strict=True)), True
        except PrecisionError:
            pass
    grid = [right * i / (_FLOAT_POINTS - 1) for i in range(_FLOAT_POINTS)]
    try:
        values = witness.profile.delta(grid, order=witness.side)
    except PrecisionError:
        return [(witness.epsilon, witness.enclosure.lower)], True
    return list(zip(grid, values.tolist(), strict=True)), False


def _size(pair: GaussianPair) -> int:
    return max((origin.size for origin in pair.origins), default=0)


def _right_end(claimed: float, refuted: float | None) -> float:
    """An ε beyond the claim, and beyond what is refuted unless that is so far off that the claim would not be seen."""
    edge = _BEYOND_REFUTED * refuted if refuted is not None else 0.0
    if not math.isfinite(edge):
        edge = 0.0
    if claimed > 0:
        return max(_BEYOND_CLAIM * claimed, min(edge, _FARTHEST * claimed))
    return edge if edge > 0 else 1.0


def _floor(claimed: list[float], curve: list[float]) -> float:
    """The smallest δ worth drawing."""
    top = max(curve, default=0.0)
    if not claimed:
        return 1e-12 * top
    return min(_SHOWN_BELOW * min(claimed), 1e-3 * top if top > 0 else 1.0)


def _cut(points: list[Point], floor: float) -> list[Point]:
    """The part of a falling curve down to the floor, ended by a straight line there."""
    shown: list[Point] = []
    for x, y in points:
        if y >= floor and y > 0:
            shown.append((x, y))
            continue
        if shown and y > 0 and floor > 0:
            a, b = shown[-1]
            share = math.log(b / floor) / (math.log(b) - math.log(y)) if b > y else 0.0
            shown.append((a + share * (x - a), floor))
        break
    return shown
