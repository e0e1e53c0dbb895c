"""The claim against the curve of the worst pair tested: which points are computed, and what is said below them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ndis.auditing.chart import Point, chart
from ndis.auditing.digits import equation, several
from ndis.auditing.markup import Markup, tag
from ndis.auditing.result import AuditReport, Side, Witness
from ndis.errors import PrecisionError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__all__ = ["picture"]

_POINTS = 41  # of a curve whose every point is certified
_FLOAT_POINTS = 161  # of a curve in floats
_SMALL = 8  # size of a dense eigenproblem up to which a certificate takes hundredths of a second
_BEYOND_CLAIM, _BEYOND_REFUTED, _FARTHEST = 1.3, 1.15, 12.0  # right end of the axis, as factors
_SHOWN_BELOW = 1e-6  # how far below the smallest claimed δ the picture goes, as a factor


def picture(report: AuditReport) -> Markup:
    """The section with the picture; nothing where there is no pair to draw."""
    witness = report.witness
    if witness is None:
        return Markup()
    claimed = report.claim.points
    right = _right_end(claimed[-1][0], report.epsilon_refuted)
    points, certified = _curve(report, witness, right)
    false = (witness.epsilon, witness.delta) if report.refuted else None
    where = "below" if report.refuted else "not below"
    description = (
        f"δ on a logarithmic axis against ε. The claimed point, {equation('ε', witness.epsilon)} and "
        f"{equation('δ', witness.delta)}, lies {where} the curve of the worst pair tested."
    )
    return tag(
        "section",
        tag("h2", "The claim against the certified curve" if certified else "The claim against the curve"),
        tag(
            "figure",
            chart(points, claimed, false=false, description=description, right=right),
            _legend(len(claimed), drawn=bool(points), refuted=report.refuted),
            tag("figcaption", _caption(len(points), certified=certified)),
        ),
    )


def _caption(points: int, *, certified: bool) -> str:
    if points == 0:
        return (
            "There is no curve to draw: δ of the worst pair of neighbours tested is 0, or too small to be drawn beside "
            "the claim. That does not make the claim true."
        )
    line = (
        f"The line joins {several(points, 'certified lower bound')} of δ for the worst pair of neighbours tested."
        if certified
        else "The line is δ of the worst pair of neighbours tested, computed in floating point to far more digits than "
        "can be seen; the verdict rests on the certified bounds below."
    )
    return (
        f"{line} Claims in the shaded region are false; its steps lie below the curve. A claim outside it is not "
        "thereby true."
    )


def _legend(points: int, *, drawn: bool, refuted: bool) -> Markup:
    def entry(name: str, shape: Markup) -> Markup:
        return tag("li", tag("svg", shape, viewBox="0 0 26 16", aria_hidden="true"), name)

    def diamond(kind: str) -> Markup:
        return tag("polygon", points="13,1 20,8 13,15 6,8", class_=kind)

    claim = [entry("the claim, which is false", diamond("mark refuted"))] if refuted else []
    if points > 1 or not refuted:
        claim.append(entry("other claimed points" if refuted else "the claim", diamond("mark")))
    curve = [entry("δ of the worst pair tested", tag("line", x1=1, x2=25, y1=8, y2=8, class_="curve"))]
    region = [entry("false claims", tag("rect", x=1, y=2, width=24, height=12, class_="false"))]
    return tag("ul", *(curve if drawn else []), *claim, *(region if drawn else []), class_="legend")


def _curve(report: AuditReport, witness: Witness, right: float) -> tuple[list[Point], bool]:
    """(ε, δ) of the witness as far as it is worth drawing, and whether each δ is a certified lower end."""
    profile, side = witness.profile, witness.side
    try:
        floor = _floor([y for _, y in report.claim.points if y > 0], float(profile.delta(0.0, order=side)))
        end = min(right, _meets(profile, side, floor))
    except PrecisionError:
        floor, end = 0.0, right
    if not profile.composed and _size(profile.remove if side == "remove" else profile.add) <= _SMALL:
        grid = [end * i / (_POINTS - 1) for i in range(_POINTS)]
        try:
            return _above(floor, zip(grid, report.certified_curve(grid).tolist(), strict=True)), True
        except PrecisionError:
            pass
    grid = [end * i / (_FLOAT_POINTS - 1) for i in range(_FLOAT_POINTS)]
    try:
        values = profile.delta(grid, order=side)
    except PrecisionError:
        return _above(0.0, [(witness.epsilon, witness.enclosure.lower)]), True
    return _above(floor, zip(grid, values.tolist(), strict=True)), False


def _above(floor: float, points: Iterable[Point]) -> list[Point]:
    return [(x, y) for x, y in points if y > 0 and y >= 0.5 * floor]


def _meets(profile: PrivacyProfile, side: Side, floor: float) -> float:
    """The ε at which the curve leaves the picture; ∞ where it does not."""
    return float(profile.epsilon(floor, order=side)) if 0 < floor < 1 else math.inf


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


def _floor(claimed: list[float], top: float) -> float:
    """The smallest δ worth drawing."""
    if not claimed:
        return 1e-12 * top
    return min(_SHOWN_BELOW * min(claimed), 1e-3 * top if top > 0 else 1.0)
