"""The report of an audit holds the verdict, the witness, the curve, and what was not tested, as data.

Everything that the page shows is in the report, so its JSON has it too. The text of the page stands in
`audit.html.jinja`; the functions below compute what the text needs.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ndis._files import check_format, loads, only_keys, read_bytes
from ndis._validate import as_vector, require
from ndis._version import __version__
from ndis.auditing.claim import Claim, Proof, claim_from_dict, claim_to_dict
from ndis.auditing.witness import AS_GIVEN, EXCHANGED, WITH_RECORD, Point, Witness, outcome_words, probability
from ndis.errors import ParameterError, PrecisionError
from ndis.pages.html import Page, chart, number, render
from ndis.pages.text import equation, plain, unbroken

_FORMAT, _FORMAT_VERSION = "ndis.AuditReport", 3
# The types of fields by their annotations.
_KINDS: dict[Any, type[Any]] = {"bool": bool, "int": int, "str": str, "tuple[str, ...]": tuple}
# order of the witness → (what a reader of the output can tell, where p is, where q is)
_SIDES = {
    WITH_RECORD[0]: ("whether a person took part", "if the person took part", "if not"),
    WITH_RECORD[1]: ("whether a person took part", "if the person did not take part", "if they did"),
    EXCHANGED[0]: ("which of two versions of a record was used", "for the data", "for the neighbour"),
    EXCHANGED[1]: ("which of two versions of a record was used", "for the neighbour", "for the data"),
    AS_GIVEN[0]: ("which of two neighbouring data sets was used", "for the first", "for the second"),
    AS_GIVEN[1]: ("which of two neighbouring data sets was used", "for the second", "for the first"),
}
NOISE_DEPENDS = (
    "the noise depends on the data, and no test then stands for all data sets: fix the noise beforehand, or use a "
    "mechanism with a proof"
)
_POINTS = 161  # points of a curve
_BEYOND_CLAIM, _BEYOND_REFUTED, _FARTHEST = 1.3, 1.15, 10.0  # right end of the axis, as factors
_SHOWN_BELOW = 1e-6  # how far below the smallest claimed δ the curve goes, as a factor
_DIGITS, _MOST_DIGITS = 4, 10  # digits of a probability in floats: those shown, and those that mean something
_EMBEDDED = re.compile(rb'href="data:application/json;base64,([^"]*)"')  # the JSON of a page


@dataclass(frozen=True, eq=False)
class AuditReport(Page):
    """The report says if the claim is refuted. A claim that is not refuted is not thereby proved.

    Attributes
    ----------
    claim : Claim
    refuted : bool
        True if δ of a tested pair is above the claimed δ with certainty.
    witness : Witness or None
        The worst pair found; if nothing is refuted, the closest one. None if no pair was tried.
    epsilon_refuted : float or None
        Largest ε known to be refuted at the claimed δ of the witness; None if not even ε = 0 is refuted.
    delta_possible : float
        Smallest δ still possible at the claimed ε of the witness, a certified lower end.
    pairs_tried : int
        The number of pairs of neighbours, each in both orders.
    how_chosen, not_tested, notes : tuple of str
        Sentences: where the pairs come from, what they leave out, and what else a reader must know.
    reproduce : str
        How to run the audit again in Python.
    undecided : bool
        True if a pair is so close to the claim that no precision tried could tell the two apart, or that rounding of
        the numbers that an algorithm returned may explain the difference. True as well if no guarantee is known for a
        training loop.
    version : str
        Version of the package.
    title, data_name, date : str
        Names of the audited system and of the data, and the time of the audit.
    given_only : bool
        True if only rows or pairs were tried that the user gave, so that nothing looked for worse ones.
    next_steps : tuple of str
        Sentences: what the reader can do next.
    proof : Proof or None
        The theorem that proves the claim, if the audited mechanism has one.
    command : str
        The shell command that made the report, if one did.
    mechanism : str
        The audited mechanism with its public parameters, in words; empty if an algorithm or pairs were audited.
    noise_depends : bool
        True if the covariance of the output was seen to depend on the data. No test then stands for a bound over all
        data sets.
    data_used : str
        "yes" if numbers of the report come from data, "no" if none do; empty if only the user knows, as for pairs.
    computed_curve : tuple of (ε, δ), or None
        The curve, if it is already known; `curve` computes it otherwise.

    Examples
    --------
    >>> import ndis
    >>> from ndis.auditing import Claim, audit
    >>> report = audit(Claim(epsilon=1.0, delta=1e-6), pairs=[ndis.GaussianPair.from_ratios(1.0, shift=0.1)])
    >>> report.verdict
    'not refuted by the 1 pair tested; this is not a proof of privacy'
    >>> AuditReport.from_json(report.to_json()).to_json() == report.to_json()
    True
    """

    claim: Claim
    refuted: bool
    witness: Witness | None
    epsilon_refuted: float | None
    delta_possible: float
    pairs_tried: int
    how_chosen: tuple[str, ...]
    not_tested: tuple[str, ...]
    reproduce: str
    notes: tuple[str, ...] = ()
    undecided: bool = False
    version: str = __version__
    title: str = ""
    data_name: str = ""
    date: str = ""
    given_only: bool = False
    next_steps: tuple[str, ...] = ()
    proof: Proof | None = None
    command: str = ""
    mechanism: str = ""
    noise_depends: bool = False
    data_used: str = ""
    computed_curve: tuple[Point, ...] | None = None

    def __post_init__(self) -> None:
        for name, kind in ((one.name, _KINDS[one.type]) for one in fields(self) if one.type in _KINDS):
            value = getattr(self, name)
            require(type(value) is kind, name, f"be of type {kind.__name__}", type(value).__name__)
            if kind is tuple and not all(isinstance(text, str) for text in value):
                raise ParameterError(name, "hold sentences", "other values")
        known, witness = self.epsilon_refuted, self.witness
        low, high = (0.0, 0.0) if witness is None else witness.enclosure
        point = self.claim.points[0] if witness is None else (witness.epsilon, witness.delta)
        of_claim = isinstance(self.proof, Proof) and not self.refuted
        for name, rule, holds in (
            ("pairs_tried", "count the pairs", self.pairs_tried >= (witness is not None)),
            ("refuted", "come with a witness", not self.refuted or witness is not None),
            ("refuted", "be false if a claim is undecided", not (self.refuted and self.undecided)),
            ("proof", "be a Proof, of a claim that is not refuted", self.proof is None or of_claim),
            ("curve", "come with a witness", self.computed_curve is None or witness is not None),
            ("epsilon_refuted", "be at least 0, or None", known is None or (isinstance(known, float) and known >= 0)),
            ("delta_possible", "be the lower end of the witness", self.delta_possible == low),
            ("point of the witness", "be a claimed one", point in self.claim.points),
            ("refuted", "be true if δ of the witness is above the claim", self.refuted or low <= point[1]),
            ("refuted", "be false if it is not", not self.refuted or low >= point[1] < high),
        ):
            require(holds, name, rule, "another value")

    @property
    def verdict(self) -> str:
        """Say it in one sentence, which reads as a proof of privacy only if there is one."""
        if self.refuted:
            return "refuted"
        if self.proof is not None:
            return f"proved by {self.proof.theorem}, if its assumptions hold"
        pairs = f"{self.pairs_tried} pair{'' if self.pairs_tried == 1 else 's'}"
        why = "; a pair too close to the claim, or a loop without a theorem, leaves it undecided"
        doubt = why if self.undecided else ""
        return f"not refuted by the {pairs} tested{doubt}; this is not a proof of privacy"

    @property
    def proved(self) -> bool:
        """Say if a theorem of the package proves the claim, under the assumptions in `proof`."""
        return self.proof is not None

    @cached_property
    def curve(self) -> tuple[Point, ...] | None:
        """Compute points (ε, δ) of the witness for the picture, once; None without a witness."""
        if self.computed_curve is not None or self.witness is None:
            return self.computed_curve
        return curve_of(self.witness, self.claim.points, self.epsilon_refuted)

    def __str__(self) -> str:
        lines = [*([f"warning: {NOISE_DEPENDS}"] if self.noise_depends and not self.proved else [])]
        lines += [f"claim: {self.claim}", f"verdict: {self.verdict}"]
        if self.witness is not None:
            w = self.witness
            sure = ", which is less with certainty" if self.refuted else ""
            lines.append(f"worst pair: {w.neighbours}; {w.order}")
            lines.append(f"δ at ε = {w.epsilon!r} lies in {list(w.enclosure)}; claimed {w.delta!r}{sure}")
            lines += [f"event: {' '.join(w.event.split())}"] if self.refuted else []
        if self.witness is not None and self.epsilon_refuted is not None:
            every, largest = self.epsilon_refuted == math.inf, f"largest ε refuted: {self.epsilon_refuted!r}"
            lines.append(f"at δ = {self.witness.delta!r} {'every ε is refuted' if every else largest}")
        return "\n".join(lines)

    # ------------------------------------------------------------------ files

    def to_dict(self) -> dict[str, Any]:
        """Return everything that the page shows, as plain values; `from_dict` reads it back."""
        names = ["format", "format_version", "verdict", *self.__dataclass_fields__]
        values: dict[str, Any] = {name: getattr(self, name, None) for name in names if name != "computed_curve"}
        values |= {name: list(value) for name, value in values.items() if isinstance(value, tuple)}
        values |= {"format": _FORMAT, "format_version": _FORMAT_VERSION, "claim": claim_to_dict(self.claim)}
        parts = {"proof": self.proof, "witness": self.witness}
        values |= {name: None if value is None else value.to_dict() for name, value in parts.items()}
        values["curve"] = None if self.curve is None else [list(point) for point in self.curve]
        return values | ({"epsilon_refuted": "infinity"} if self.epsilon_refuted == math.inf else {})

    @classmethod
    def from_dict(cls, plain: Any) -> AuditReport:
        """Read the report that `to_dict` wrote."""
        check_format("report", plain, _FORMAT, _FORMAT_VERSION)
        names = ("curve", *(name for name in cls.__dataclass_fields__ if name != "computed_curve"))
        item = only_keys("report", plain, ("format", "format_version", "verdict", *names))
        values: dict[str, Any] = {key: tuple(item[key]) if isinstance(item[key], list) else item[key] for key in names}
        for key in ("delta_possible", "epsilon_refuted"):
            values[key] = float(item[key]) if type(item[key]) is int else item[key]
        if item["epsilon_refuted"] == "infinity":
            values["epsilon_refuted"] = math.inf
        values["claim"] = claim_from_dict(item["claim"])
        for key, read in (("witness", Witness.from_dict), ("proof", Proof.from_dict), ("curve", curve_from_list)):
            if values.get(key) is not None:
                values[key] = read(item[key])
        values["computed_curve"] = values.pop("curve", None)
        report = cls(**values)
        if item["verdict"] != report.verdict:
            raise ParameterError("verdict of the report", f"be {report.verdict!r}", repr(item["verdict"]))
        return report

    @classmethod
    def from_json(cls, text: str | bytes) -> AuditReport:
        """Read the report that `to_json` wrote; anything else is refused.

        >>> AuditReport.from_json('{"format": "something else"}')
        Traceback (most recent call last):
        ...
        ndis.errors.ParameterError: format of the report must be 'ndis.AuditReport'; got 'something else'
        """
        return cls.from_dict(loads("report", text))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> AuditReport:
        """Read a saved report: JSON, or a page, which holds its JSON.

        A page of this version must be the one that its JSON makes, to the last character.
        """
        content = read_bytes("file", Path(path))
        if not content.lstrip().lower().startswith(b"<!doctype html"):
            return cls.from_json(content)
        try:
            (embedded,) = _EMBEDDED.findall(content)
            text = base64.b64decode(embedded, validate=True)
        except ValueError:  # no JSON, several, or other text in its place
            raise ParameterError("file", "be a page of an audit, with its JSON", "another page") from None
        report = cls.from_json(text)
        if report.version == __version__ and report.to_html().encode() != content:
            raise ParameterError("file", "be the page that its own JSON makes", "another page")
        return report

    def to_html(self) -> str:
        """Write a page that needs no other file: the verdict first, and the exact numbers in an appendix.

        It has no scripts and loads nothing. The same report gives the same bytes.

        >>> import ndis
        >>> from ndis.auditing import Claim, audit
        >>> pairs = [ndis.GaussianPair.from_ratios(1.0, shift=1.0)]
        >>> page = audit(Claim(epsilon=1.0, delta=1e-6), pairs=pairs).to_html()
        >>> "The claim is false" in page, "<script" in page
        (True, False)
        """
        content = json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False).encode()
        kinds = {"refuted": self.refuted, "proved": self.proved, "undecided": self.undecided, "open": True}
        view = {
            "kind": next(kind for kind, holds in kinds.items() if holds),
            "claimed": _claimed(self),
            "tells": None if self.witness is None else _tells(self.witness, refuted=self.refuted),
            "outcome": "" if self.witness is None else outcome_words(self.witness),
            "svg": _picture(self),
            "json": base64.b64encode(content).decode("ascii"),
            "digest": hashlib.sha256(content).hexdigest(),
        }
        return render("audit.html.jinja", r=self, w=self.witness, v=view, version=self.version)


# ---------------------------------------------------------------------- what the page needs


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
    shown = (number(probability(x, digits or _DIGITS), plain(x)) for x in (p, q, allowed))
    what, here, there = _SIDES.get(witness.order, _SIDES[AS_GIVEN[0]])
    return dict(zip(("p", "q", "allowed"), shown, strict=True), what=what, here=here, there=there, apart=bool(digits))


def _picture(report: AuditReport) -> Markup | None:
    """Draw the claim against the curve of the witness."""
    witness, curve = report.witness, report.curve
    if witness is None or curve is None:
        return None
    description = (
        f"δ on a logarithmic axis against ε. The claimed point, {equation('ε', witness.epsilon)} and "
        f"{equation('δ', witness.delta)}, lies {'below' if report.refuted else 'not below'} the curve of the worst "
        "pair tested."
    )
    if witness.revealing:
        description += " δ is exactly 1 at every ε: the record is revealed with certainty."
    false = (witness.epsilon, witness.delta) if report.refuted else None
    return chart(curve, report.claim.points, description=description, refuted=false)


# ---------------------------------------------------------------------- the curve


def curve_of(witness: Witness, claimed: Sequence[Point], refuted: float | None) -> tuple[Point, ...]:
    """Compute points (ε, δ) of a witness for a picture, in floats; `refuted` is the largest ε refuted.

    A picture shows far fewer digits than floats have. If floats fail, the certified point of the witness is all.
    """
    last, false = claimed[-1][0], refuted if refuted is not None and math.isfinite(refuted) else 0.0
    # beyond the claim, and beyond the refuted range unless the claim would then be too small to see
    right = max(_BEYOND_CLAIM * last, _BEYOND_REFUTED * (min(false, _FARTHEST * last) if last > 0 else false)) or 1.0
    profile, side = witness.profile, witness.side
    try:
        least = min((_SHOWN_BELOW * y for _, y in claimed if y > 0), default=_SHOWN_BELOW**2)
        floor = min(least, 1e-3 * float(profile.delta(0.0, order=side)) or 1.0)
        end = min(right, float(profile.epsilon(floor, order=side)) if 0 < floor < 1 else math.inf)
        grid = [end * i / (_POINTS - 1) for i in range(_POINTS)]
        points = list(zip(grid, profile.delta(grid, order=side).tolist(), strict=True))
    except PrecisionError:
        floor, points = 0.0, [(witness.epsilon, witness.enclosure.lower)]
    return tuple((x, y) for x, y in points if y > 0 and y >= 0.5 * floor)


def curve_from_list(plain: Any) -> tuple[Point, ...]:
    """Read the points of a curve from JSON.

    >>> curve_from_list([[0.0, 0.5], [1.0, 0.1]])
    ((0.0, 0.5), (1.0, 0.1))
    """
    if not (isinstance(plain, list) and all(isinstance(point, list) and len(point) == 2 for point in plain)):
        raise ParameterError("curve", "be a list of [epsilon, delta]", type(plain).__name__)
    points = tuple((x, y) for x, y in (as_vector("points of the curve", point).tolist() for point in plain))
    if not all(x >= 0 and 0 <= y <= 1 for x, y in points):
        raise ParameterError("points of the curve", "have ε of at least 0 and δ between 0 and 1", "others")
    return points
