"""The witness of an audit has two output laws, the event that tells them apart best, and their curve.

By the lemma of Neyman and Pearson the best event is {L > ε}, where L = log dp/dq. If q is standard normal and
p = N(m, diag τ), then

    L(z) = Σ [ −½ log τ + ½ z² − (z − m)²/(2τ) ].

Coordinates that share τ and have m = 0 enter only through the sum of their squares.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import scipy

from ndis._files import only_keys
from ndis._validate import as_scalar, as_vector
from ndis.chi_square import loss_laws
from ndis.enclosure import Enclosure
from ndis.errors import NdisError, ParameterError, PrecisionError
from ndis.pages.text import few
from ndis.pair import GaussianPair
from ndis.profile import Group, PrivacyProfile

Side = Literal["remove", "add"]
Point = tuple[float, float]  # (ε, δ)
Odds = tuple[float, float] | None  # probabilities of the event under p and q; None if floats do not give them
SIDES: tuple[Side, Side] = ("remove", "add")
# The words for the two orders of a pair: given by the user, with a record more, or other data.
AS_GIVEN = ("p and q as given", "p and q exchanged")
WITH_RECORD = (
    "p is the output with the record, q the output without it",
    "p is the output without the record, q the output with it",
)
EXCHANGED = (
    "p is the output on the data, q the output on the neighbour",
    "p is the output on the neighbour, q the output on the data",
)
_RECHECK_WIDTH, _CURVE_WIDTH = 1e-12, 1e-6
_TERMS = 4  # numbers of an output that a sentence names
_NOISE = 1e-12  # a smaller term is only the rounding of a whitening
_POINTS, _FLOAT_POINTS = 41, 161  # points of a certified curve, and of a curve in floats
_SMALL = 8  # a dense eigenproblem up to this size takes hundredths of a second to certify
_BEYOND_CLAIM, _BEYOND_REFUTED, _FARTHEST = 1.3, 1.15, 12.0  # right end of the axis, as factors
_SHOWN_BELOW = 1e-6  # how far below the smallest claimed δ the curve goes, as a factor


@dataclass(frozen=True, eq=False)
class Witness:
    """A witness names two neighbouring data sets, the order of their outputs, and how well these can be distinguished.

    Attributes
    ----------
    neighbours : str
        Which data sets, in words.
    order : str
        Which of the two output laws is p and which is q, in words; δ = sup over events S of p(S) − e^ε q(S).
    epsilon, delta : float
        The claimed point that the pair is compared with.
    enclosure : Enclosure
        δ at `epsilon` for these neighbours, certified.
    event : str
        The event that tells the two laws apart best, in words and numbers.
    profile : PrivacyProfile
        The two laws, from their exact inputs; `side` names the order inside it.
    side : str
        "remove" or "add".
    probabilities : (float, float) or None
        Probability of the event under p and under q, in floats. None if floats do not give them.

    Examples
    --------
    >>> import ndis
    >>> pair = ndis.GaussianPair.from_ratios(1.0, shift=0.25)
    >>> witness = ndis.audit(ndis.Claim(epsilon=1.0, delta=1e-6), pairs=[pair]).witness
    >>> witness.enclosure.lower > witness.delta        # the proof that the claim is false
    True
    >>> [f"{p:.3g}" for p in witness.probabilities]
    ['5.33e-05', '1.85e-05']
    """

    neighbours: str
    order: str
    epsilon: float
    delta: float
    enclosure: Enclosure
    event: str
    profile: PrivacyProfile
    side: Side
    probabilities: tuple[float, float] | None = None

    @property
    def pair(self) -> GaussianPair | None:
        """Return the ordered pair, p from q; None if the laws are mixtures by sampling."""
        if self.profile.sampled:
            return None
        return self.profile.groups[0].pair(self.side)

    @property
    def revealing(self) -> bool:
        """Say if the event has probability exactly 1 under p and exactly 0 under q."""
        return self.pair is not None and self.pair.mutually_singular

    def recheck(self) -> Enclosure:
        """Certify δ at `epsilon` again from the exact inputs of the pair."""
        width = None if self.profile.composed else _RECHECK_WIDTH
        return self.profile.certify(self.epsilon, relative_width=width, order=self.side)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; fractions are written as text next to the nearest floats."""
        floats, fractions = _without_fractions(self.profile)
        plain = {
            "neighbours": self.neighbours,
            "order": self.order,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "enclosure": list(self.enclosure),
            "event": self.event,
            "probabilities": None if self.probabilities is None else list(self.probabilities),
            "profile": json.loads(floats.to_json()),
            "side": self.side,
        }
        return plain if fractions is None else {**plain, "fractions": fractions}

    @classmethod
    def from_dict(cls, plain: Any) -> Witness:
        """Read the witness that `to_dict` wrote."""
        required = tuple(name for name in cls.__dataclass_fields__ if name != "probabilities")
        item = dict(only_keys("witness", plain, required, ("fractions", "probabilities")))
        low, high = _two_probabilities("enclosure", item["enclosure"])
        if not low <= high:
            raise ParameterError("enclosure of the witness", "be in order", repr(item["enclosure"]))
        if item["side"] not in SIDES:
            raise ParameterError("side of the witness", "be 'remove' or 'add'", repr(item["side"]))
        for key in ("neighbours", "order", "event"):
            if not isinstance(item[key], str):
                raise ParameterError(f"{key} of the witness", "be text", type(item[key]).__name__)
        for key in ("epsilon", "delta"):
            item[key] = as_scalar(f"{key} of the witness", item[key])
        odds, fractions = item.get("probabilities"), item.pop("fractions", None)
        item["probabilities"] = None if odds is None else _two_probabilities("probabilities", odds)
        profile = PrivacyProfile.from_json(json.dumps(item["profile"]))
        profile = profile if fractions is None else _with_fractions(profile, fractions)
        return cls(**{**item, "enclosure": Enclosure(low, high), "profile": profile})


def _two_probabilities(name: str, plain: Any) -> tuple[float, float]:
    values = as_vector(f"{name} of the witness", plain).tolist()
    if not (len(values) == 2 and all(0 <= x <= 1 for x in values)):
        raise ParameterError(f"{name} of the witness", "be two numbers between 0 and 1", repr(plain))
    return values[0], values[1]


# ---------------------------------------------------------------------- fractions in JSON


def _without_fractions(profile: PrivacyProfile) -> tuple[PrivacyProfile, list[Any] | None]:
    """Round the fractions of a profile to floats; return the fractions too, if there are any."""
    (*others, origin) = (() if profile.composed else profile.remove.origins) or (None,)
    if others or origin is None or origin.kind != "dense" or not any(a.dtype == object for a in origin.arrays):
        return profile, None
    floats = replace(origin, arrays=tuple(a.astype(np.float64) for a in origin.arrays))
    remove = replace(profile.remove, origins=(floats,))
    return _with_pair(profile, remove), [[str(x) for x in a.flat] for a in origin.arrays]


def _with_fractions(profile: PrivacyProfile, texts: Any) -> PrivacyProfile:
    """Put the fractions in the place of their nearest floats."""
    arrays = []
    try:
        (origin,) = profile.remove.origins
        for some, floats in zip(texts, origin.arrays, strict=True):
            arrays.append(np.array([*map(Fraction, some), None], dtype=object)[:-1].reshape(floats.shape))
        near = all(map(np.array_equal, (a.astype(np.float64) for a in arrays), origin.arrays))
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        near = False
    if not near:
        rule = "be those nearest to the floats of its profile"
        raise ParameterError("fractions of the witness", rule, "others")
    return _with_pair(profile, replace(profile.remove, origins=(replace(origin, arrays=tuple(arrays)),)))


def _with_pair(profile: PrivacyProfile, remove: GaussianPair) -> PrivacyProfile:
    """Give the profile another pair, used in both orders."""
    return replace(profile, groups=(Group(remove, remove.reversed(), profile.sampling_rates),))


# ---------------------------------------------------------------------- the event


def best_event(profile: PrivacyProfile, side: Side, epsilon: float) -> tuple[str, Odds]:
    """Describe the best distinguishing event at ε in words and numbers, and return its two probabilities.

    >>> import ndis
    >>> print(best_event(PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=2.0)), "remove", 1.0)[0])
    The privacy loss log(p/q) exceeds ε = 1. In coordinates in which q is standard normal: z > 1.5, z the one...
    It happens with probability 0.6915 under p and 0.06681 under q.
    """
    opening = f"The privacy loss log(p/q) exceeds ε = {few(epsilon)}."
    if profile.composed:
        count = sum(group.count for group in profile.groups)
        return f"{opening} It is the sum of the losses of {count:,} releases; the record enters each by chance.", None
    pair = profile.groups[0].pair(side)
    if profile.sampled:
        chance = f"the record is in the sample with probability {few(profile.sampling_rate)}"
        return f"{opening} One of the two laws is a mixture: {chance}.", None
    if pair.mutually_singular:
        return "The output lies in a set that has probability one under p and probability zero under q.", (1.0, 0.0)
    if pair.form.constant:
        return "None: the two laws are equal.", None
    odds = _odds(pair, epsilon)
    happens = (
        "" if odds is None else f"\nIt happens with probability {_odd(odds[0])} under p and {_odd(odds[1])} under q."
    )
    return f"{opening} {_region(pair, epsilon)}.{happens}", odds


def outcome_words(witness: Witness) -> str:
    """Describe the best event in units of the output, if the output is one number or only its mean moves; else nothing.

    >>> import ndis
    >>> from ndis.auditing import Claim, audit
    >>> counts = ndis.GaussianPair.from_diagonal([58.0], [16.0], [57.0], [16.0])
    >>> outcome_words(audit(Claim(1.0, 1e-6), pairs=[counts]).witness)
    'the published number exceeds 73.5'
    """
    pair, epsilon = witness.pair, witness.epsilon
    (*others, origin) = (None,) if pair is None else pair.origins or (None,)
    if others or origin is None or origin.kind not in ("diagonal", "dense") or origin.copies > 1:
        return ""
    laws = [np.asarray(a, dtype=np.float64) for a in origin.arrays]
    a, u, b, v = laws[2:] + laws[:2] if origin.reverse else laws
    if a.size == 1:
        return "the published number " + _of_one_number(*(float(x.ravel()[0]) for x in (a, u, b, v)), epsilon=epsilon)
    if not np.array_equal(u, v) or pair is None or pair.mutually_singular or a.size > _TERMS:
        return ""
    weights = (a - b) / u if u.ndim == 1 else np.linalg.lstsq(u, a - b)[0]
    if not np.isfinite(weights).all():
        return ""
    level, scale = float(weights @ (a + b)) / 2 + epsilon, float(np.abs(weights).max())
    terms = [f"{few(w / scale, 4)} × number {i + 1}" for i, w in enumerate(weights) if math.fabs(w) > _NOISE * scale]
    alone = len(terms) == 1 and terms[0].startswith("1 × ")
    return f"{terms[0][4:] if alone else ' + '.join(terms)} of the output exceeds {few(level / scale)}"


def _of_one_number(a: float, u: float, b: float, v: float, *, epsilon: float) -> str:
    """Say where the loss of N(a, u) from N(b, v) exceeds ε."""
    if u == 0.0 or v == 0.0:
        return f"is exactly {few(a)}" if u == 0.0 else f"is not exactly {few(b)}"
    if u == v:
        level = (a + b) / 2 + (epsilon * u / (a - b) if a != b else math.inf)
        return f"{'exceeds' if a >= b else 'lies below'} {few(level)}"
    # ½(1/v − 1/u)x² + (a/u − b/v)x + b²/2v − a²/2u + ½log(v/u) − ε > 0, about the point where it is extreme
    curve = 0.5 * (1.0 / v - 1.0 / u)
    middle = -0.5 * (a / u - b / v) / curve
    height = (middle - b) ** 2 / (2 * v) - (middle - a) ** 2 / (2 * u) + 0.5 * math.log(v / u) - epsilon
    if height * curve >= 0.0:
        return "takes any value" if curve > 0.0 else "takes no value that tells"
    ends = f"{few(middle - math.sqrt(-height / curve))}", f"{few(middle + math.sqrt(-height / curve))}"
    return f"lies below {ends[0]} or above {ends[1]}" if curve > 0.0 else f"lies between {ends[0]} and {ends[1]}"


def _odds(pair: GaussianPair, epsilon: float) -> Odds:
    """Return the probability of {L > ε} under p and under q, in floats; None if floats do not give them."""
    distance = pair.form.distance
    if distance:  # the means alone differ, and L is normal
        p, q = (float(scipy.special.ndtr(side * distance / 2 - epsilon / distance)) for side in (1, -1))
        return p, q
    try:
        p, q = (float(law.sf(epsilon)) for law in loss_laws(pair))
    except NdisError:
        return None
    return (p, q) if 0.0 <= q <= 1.0 and 0.0 <= p <= 1.0 else None


def _region(pair: GaussianPair, epsilon: float) -> str:
    """Say where the loss exceeds ε, if that is simple in coordinates in which q is standard normal."""
    differs = (pair.excess != 0) | (pair.shift != 0)
    clear = (np.abs(pair.excess) > _NOISE) | (np.abs(pair.shift) > _NOISE)
    chosen = clear if clear.any() else differs
    where = "In coordinates in which q is standard normal:"
    t, tau, m, n = (a[chosen] for a in (pair.excess, pair.variance_ratio, pair.shift, pair.copies))
    logs = math.fsum(n * np.log(tau))
    if (t == 0).all():
        size = math.sqrt(math.fsum(n * m * m))
        return f"{where} z > {few(epsilon / size + size / 2)}, z the one coordinate along which the means differ"
    if t.size == 1 and m[0] == 0:
        count, level = int(n[0]), (2 * epsilon + logs) * tau[0] / t[0]
        which = "the coordinate" if count == 1 else f"the {count} coordinates"
        square = "square of" if count == 1 else "sum of squares of"
        above = "exceeds" if t[0] > 0 else "stays below"
        return f"{where} the {square} {which} with variance ratio {few(tau[0])} {above} {few(level)}"
    return "The loss is a quadratic form of the output, which the two laws give"


def _odd(x: float) -> str:
    """Write a probability; if floats round it to 0, it is below their range and not 0."""
    return few(x, 4) if x > 1e-300 else f"less than {few(1e-300)}"


# ---------------------------------------------------------------------- the curve


@dataclass(frozen=True)
class DrawnCurve:
    """The picture shows these points: δ of the witness against ε.

    Attributes
    ----------
    points : tuple of (ε, δ)
        In order of ε.
    certified : bool
        True if every δ is a certified lower end; else δ is computed in floats.
    right : float
        An ε up to which the picture goes.

    Examples
    --------
    >>> DrawnCurve(points=((0.0, 0.5), (1.0, 0.1)), certified=True, right=1.0).points[-1]
    (1.0, 0.1)
    """

    points: tuple[Point, ...]
    certified: bool
    right: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"points": [list(point) for point in self.points], "certified": self.certified, "right": self.right}

    @classmethod
    def from_dict(cls, plain: Any) -> DrawnCurve:
        """Read the curve that `to_dict` wrote.

        >>> DrawnCurve.from_dict({"points": [[0.0, 0.5]], "certified": True, "right": 1.0}).points
        ((0.0, 0.5),)
        """
        item = only_keys("curve of the report", plain, ("points", "certified", "right"))
        points = item["points"]
        if not (isinstance(points, list) and all(isinstance(p, list) and len(p) == 2 for p in points)):
            raise ParameterError("points of the curve", "be a list of [epsilon, delta]", type(points).__name__)
        pairs = [tuple(as_vector("points of the curve", p).tolist()) for p in points]
        if not all(x >= 0 and 0 <= y <= 1 for x, y in pairs):
            raise ParameterError("points of the curve", "have ε of at least 0 and δ between 0 and 1", "others")
        if type(item["certified"]) is not bool:
            raise ParameterError("certified of the curve", "be true or false", repr(item["certified"]))
        return cls(tuple((x, y) for x, y in pairs), item["certified"], as_scalar("right of the curve", item["right"]))


def curve_of(witness: Witness, claimed: Sequence[Point], refuted: float | None) -> DrawnCurve:
    """Compute the curve of a witness, up to an ε that a picture shows; `refuted` is the largest ε refuted."""
    right = _right_end(claimed[-1][0], refuted)
    profile, side = witness.profile, witness.side
    try:
        floor = _floor([y for _, y in claimed if y > 0], float(profile.delta(0.0, order=side)))
        end = min(right, float(profile.epsilon(floor, order=side)) if 0 < floor < 1 else math.inf)
    except PrecisionError:
        floor, end = 0.0, right
    small = not profile.composed and all(origin.size <= _SMALL for origin in profile.groups[0].pair(side).origins)
    if small:
        grid = [end * i / (_POINTS - 1) for i in range(_POINTS)]
        try:
            lower = [profile.certify(e, relative_width=_CURVE_WIDTH, order=side).lower for e in grid]
            return DrawnCurve(_above(floor, zip(grid, lower, strict=True)), True, right)
        except PrecisionError:
            pass
    grid = [end * i / (_FLOAT_POINTS - 1) for i in range(_FLOAT_POINTS)]
    try:
        values = profile.delta(grid, order=side)
    except PrecisionError:
        return DrawnCurve(_above(0.0, [(witness.epsilon, witness.enclosure.lower)]), True, right)
    return DrawnCurve(_above(floor, zip(grid, values.tolist(), strict=True)), False, right)


def _above(floor: float, points: Iterable[Point]) -> tuple[Point, ...]:
    return tuple((x, y) for x, y in points if y > 0 and y >= 0.5 * floor)


def _right_end(claimed: float, refuted: float | None) -> float:
    """Return an ε beyond the claim, and beyond the refuted range unless the claim would then be too small to see."""
    edge = _BEYOND_REFUTED * refuted if refuted is not None and math.isfinite(refuted) else 0.0
    if claimed > 0:
        return max(_BEYOND_CLAIM * claimed, min(edge, _FARTHEST * claimed))
    return edge if edge > 0 else 1.0


def _floor(claimed: list[float], top: float) -> float:
    """Return the smallest δ that is drawn."""
    if not claimed:
        return 1e-12 * top
    return min(_SHOWN_BELOW * min(claimed), 1e-3 * top if top > 0 else 1.0)
