"""What an audit found: the verdict, the witness behind it, and what was not looked at."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ndis._validate import Floats, as_scalar, as_vector
from ndis._version import __version__
from ndis.auditing.claim import Claim, ClaimedCurve, claim_from_dict, claim_to_dict
from ndis.enclosure import Enclosure
from ndis.errors import ParameterError
from ndis.files import write_file
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__all__ = ["AuditReport", "Witness"]

Side = Literal["remove", "add"]
_FORMAT, _FORMAT_VERSION = "ndis.AuditReport", 1
_RECHECK_WIDTH = 1e-12
_KINDS = {
    "refuted": bool,
    "undecided": bool,
    "pairs_tried": int,
    "how_chosen": tuple,
    "not_tested": tuple,
    "notes": tuple,
    "reproduce": str,
    "version": str,
}


@dataclass(frozen=True, eq=False)
class Witness:
    """Two neighbouring data sets, the order in which their outputs are told apart, and how well they can be.

    Attributes
    ----------
    neighbours : str
        Which data sets, in words.
    order : str
        Which of the two output laws is p and which is q, in words; δ = sup over events of p(S) − e^ε q(S).
    epsilon, delta : float
        The claimed point it is held against.
    enclosure : Enclosure
        δ at `epsilon` for these neighbours, with certainty.
    event : str
        The event that tells them apart best, in words and numbers.
    profile : PrivacyProfile
        The two laws, from their exact inputs, fractions among them; `side` names the order inside it.
    side : str
        "remove" or "add".
    """

    neighbours: str
    order: str
    epsilon: float
    delta: float
    enclosure: Enclosure
    event: str
    profile: PrivacyProfile
    side: Side

    @property
    def pair(self) -> GaussianPair | None:
        """The ordered pair, p from q; None where the laws are mixtures by sampling."""
        if self.profile.sampling_rates:
            return None
        return self.profile.remove if self.side == "remove" else self.profile.add

    def recheck(self) -> Enclosure:
        """δ at `epsilon`, enclosed again from the exact inputs of the pair."""
        return self.profile.certify(self.epsilon, relative_width=_RECHECK_WIDTH, order=self.side)

    def to_dict(self) -> dict[str, Any]:
        """As plain values; fractions are written out as text beside the floats nearest to them."""
        floats, fractions = _plain(self.profile)
        found = {
            "neighbours": self.neighbours,
            "order": self.order,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "enclosure": list(self.enclosure),
            "event": self.event,
            "profile": json.loads(floats.to_json()),
            "side": self.side,
        }
        return found if fractions is None else {**found, "fractions": fractions}

    @classmethod
    def from_dict(cls, found: Any) -> Witness:
        """The witness that `to_dict` wrote."""
        from ndis._json import only_keys

        item = dict(only_keys("witness", found, tuple(cls.__dataclass_fields__), ("fractions",)))
        box, side = item["enclosure"], item["side"]
        if not (isinstance(box, list) and len(box) == 2):
            raise ParameterError("enclosure of the witness", "be two numbers", repr(box))
        low, high = as_vector("enclosure of the witness", box).tolist()
        if not 0 <= low <= high <= 1:
            raise ParameterError("enclosure of the witness", "be in order, between 0 and 1", repr(box))
        if side not in ("remove", "add"):
            raise ParameterError("side of the witness", "be 'remove' or 'add'", repr(side))
        for key in ("neighbours", "order", "event"):
            if not isinstance(item[key], str):
                raise ParameterError(f"{key} of the witness", "be text", type(item[key]).__name__)
        for key in ("epsilon", "delta"):
            item[key] = as_scalar(f"{key} of the witness", item[key])
        fractions = item.pop("fractions", None)
        profile = PrivacyProfile.from_json(json.dumps(item["profile"]))
        if fractions is not None:
            profile = _with_fractions(profile, fractions)
        return cls(**{**item, "enclosure": Enclosure(low, high), "profile": profile})


def _plain(profile: PrivacyProfile) -> tuple[PrivacyProfile, list[Any] | None]:
    """The profile with fractions rounded to floats, and the fractions themselves where there are any."""
    (*others, origin) = profile.remove.origins or (None,)
    if others or origin is None or origin.kind != "dense" or not any(a.dtype == object for a in origin.arrays):
        return profile, None
    floats = replace(origin, arrays=tuple(a.astype(np.float64) for a in origin.arrays))
    remove = replace(profile.remove, origins=(floats,))
    return _with_pair(profile, remove), [[str(x) for x in a.flat] for a in origin.arrays]


def _with_fractions(profile: PrivacyProfile, found: Any) -> PrivacyProfile:
    """The profile with fractions in the place of the floats nearest to them."""
    name, rule = "fractions of the witness", "be those nearest to the floats of its profile"
    origins = profile.remove.origins
    if not (len(origins) == 1 and isinstance(found, list) and len(found) == len(origins[0].arrays)):
        raise ParameterError(name, rule, "others")
    arrays = []
    for texts, floats in zip(found, origins[0].arrays, strict=True):
        try:
            exact = np.array([Fraction(text) for text in texts] + [None], dtype=object)[:-1]
            near = np.array_equal(exact.astype(np.float64), floats.ravel())
        except (TypeError, ValueError, ZeroDivisionError, OverflowError):
            near = False
        if not near:
            raise ParameterError(name, rule, "others")
        arrays.append(exact.reshape(floats.shape))
    remove = replace(profile.remove, origins=(replace(origins[0], arrays=tuple(arrays)),))
    return _with_pair(profile, remove)


def _with_pair(profile: PrivacyProfile, remove: GaussianPair) -> PrivacyProfile:
    """The profile with another pair, which is the worst case of both orders."""
    (group,) = profile.groups
    return replace(profile, groups=(replace(group, remove=remove, add=remove.reversed()),))


@dataclass(frozen=True, eq=False)
class AuditReport:
    """What an audit found. A claim that is not refuted is not thereby proved.

    Attributes
    ----------
    claim : Claim or ClaimedCurve
    refuted : bool
        True when δ of a tested pair is above the claimed δ with certainty.
    witness : Witness or None
        The worst pair found, also where nothing is refuted: then it comes closest. None where no pair was tried.
    epsilon_refuted : float or None
        Largest ε known to be refuted at the claimed δ of the witness; None where not even ε = 0 is.
    delta_possible : float
        Smallest δ still possible at the claimed ε of the witness: a certified lower end.
    pairs_tried : int
        How many pairs of neighbours, each in both orders.
    how_chosen, not_tested, notes : tuple of str
        Sentences: where the pairs come from, what they leave out, what else a reader should know.
    reproduce : str
        How to run the audit again.
    undecided : bool
        True when a pair came so close to the claim that no precision tried could tell the two apart.
    version : str
        Of the package.

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

    claim: Claim | ClaimedCurve
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

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if type(value) is not kind:
                raise ParameterError(name, f"be of type {kind.__name__}", type(value).__name__)
        for name in ("how_chosen", "not_tested", "notes"):
            if not all(isinstance(text, str) for text in getattr(self, name)):
                raise ParameterError(name, "hold sentences", "other values")
        if not self.pairs_tried >= (self.witness is not None):
            raise ParameterError("pairs_tried", "count the pairs", self.pairs_tried)
        if self.refuted and (self.witness is None or self.undecided):
            raise ParameterError("refuted", "come with a witness, and without doubt", "neither or both")
        self._check_numbers()

    def _check_numbers(self) -> None:
        """The verdict must be what the numbers say."""
        known = self.epsilon_refuted
        if not (known is None or (isinstance(known, float) and known >= 0)):
            raise ParameterError("epsilon_refuted", "be a number that is not negative, or None", repr(known))
        if not (isinstance(self.delta_possible, float) and 0 <= self.delta_possible <= 1):
            raise ParameterError("delta_possible", "lie between 0 and 1", repr(self.delta_possible))
        witness = self.witness
        if witness is None:
            return
        if (witness.epsilon, witness.delta) not in self.claim.points:
            raise ParameterError("point of the witness", "be a claimed one", (witness.epsilon, witness.delta))
        if self.delta_possible != witness.enclosure.lower:
            raise ParameterError("delta_possible", "be the lower end of the witness", self.delta_possible)
        low, high = witness.enclosure
        if not self.refuted and low > witness.delta:
            raise ParameterError("refuted", "be true where δ of the witness is above the claim", self.refuted)
        if self.refuted and not (low >= witness.delta and high > witness.delta):
            raise ParameterError("refuted", "be false where δ of the witness is not above the claim", self.refuted)

    @property
    def verdict(self) -> str:
        """One sentence that never reads as a proof of privacy."""
        if self.refuted:
            return "refuted"
        pairs = f"{self.pairs_tried} pair{'' if self.pairs_tried == 1 else 's'}"
        told = "; one of them lies too close to the claim to decide" if self.undecided else ""
        return f"not refuted by the {pairs} tested{told}; this is not a proof of privacy"

    @property
    def curve(self) -> PrivacyProfile | None:
        """The two laws of the witness; `curve.delta(epsilon, order=witness.side)` is drawn against the claim."""
        return None if self.witness is None else self.witness.profile

    def certified_curve(self, epsilons: ArrayLike) -> Floats:
        """Certified lower ends of δ of the witness, one for each ε."""
        if self.witness is None:
            raise ParameterError("witness", "be there for a curve", None)
        profile, side = self.witness.profile, self.witness.side
        points = as_vector("epsilons", epsilons).tolist()
        return np.array([profile.certify(e, relative_width=1e-6, order=side).lower for e in points])

    def __str__(self) -> str:
        lines = [f"claim: {self.claim}", f"verdict: {self.verdict}"]
        if self.witness is not None:
            w = self.witness
            lines += [
                f"worst pair: {w.neighbours}; {w.order}",
                f"δ at ε = {w.epsilon!r} lies in [{w.enclosure.lower!r}, {w.enclosure.upper!r}]; claimed {w.delta!r}",
            ]
        return "\n".join(lines)

    # ------------------------------------------------------------------ files

    def to_json(self) -> str:
        """As JSON text; `from_json` reads it back."""
        found = {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "version": self.version,
            "claim": claim_to_dict(self.claim),
            "verdict": self.verdict,
            "refuted": self.refuted,
            "undecided": self.undecided,
            "witness": None if self.witness is None else self.witness.to_dict(),
            "epsilon_refuted": "infinity" if self.epsilon_refuted == math.inf else self.epsilon_refuted,
            "delta_possible": self.delta_possible,
            "pairs_tried": self.pairs_tried,
            "how_chosen": list(self.how_chosen),
            "not_tested": list(self.not_tested),
            "notes": list(self.notes),
            "reproduce": self.reproduce,
        }
        return json.dumps(found, allow_nan=False, ensure_ascii=False, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> AuditReport:
        """The report that `to_json` wrote; anything else is refused.

        >>> AuditReport.from_json('{"format": "something else"}')
        Traceback (most recent call last):
        ...
        ndis.errors.ParameterError: format of the report must be 'ndis.AuditReport'; got 'something else'
        """
        from ndis._json import loads, only_keys

        found = loads("report", text)
        tag, version = (found.get(k) if isinstance(found, dict) else None for k in ("format", "format_version"))
        if tag != _FORMAT:
            raise ParameterError("format of the report", f"be {_FORMAT!r}", repr(tag))
        if version != _FORMAT_VERSION:
            raise ParameterError("format_version of the report", f"be {_FORMAT_VERSION}", repr(version))
        fields = tuple(cls.__dataclass_fields__)
        item = only_keys("report", found, ("format", "format_version", "verdict", *fields))
        values: dict[str, Any] = {key: tuple(item[key]) if isinstance(item[key], list) else item[key] for key in fields}
        for key in ("delta_possible", "epsilon_refuted"):
            values[key] = float(item[key]) if type(item[key]) is int else item[key]
        values["claim"] = claim_from_dict(item["claim"])
        values["witness"] = None if item["witness"] is None else Witness.from_dict(item["witness"])
        if item["epsilon_refuted"] == "infinity":
            values["epsilon_refuted"] = math.inf
        report = cls(**values)
        if item["verdict"] != report.verdict:
            raise ParameterError("verdict of the report", f"be {report.verdict!r}", repr(item["verdict"]))
        return report

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report: a self-contained page for a path that ends in .html, JSON for .json."""
        ending = os.path.splitext(os.fspath(path))[1].lower()
        if ending == ".html":
            from ndis.auditing.html import render

            text = render(self)
        elif ending == ".json":
            text = self.to_json()
        else:
            raise ParameterError("path", "end in .html or .json", repr(os.fspath(path)))
        write_file(path, text.encode("utf-8"), name="path")
