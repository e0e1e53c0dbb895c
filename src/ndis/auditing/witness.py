"""The witness of an audit has two output laws, the event that tells them apart best, and their curve.

By the lemma of Neyman and Pearson the best event is {L > ε}, where L = log dp/dq. If q is standard normal and
p = N(m, diag τ), then

    L(z) = Σ [ −½ log τ + ½ z² − (z − m)²/(2τ) ].

Coordinates that share τ and have m = 0 enter only through the sum of their squares.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy

from ndis._files import only_keys
from ndis._validate import ORDERS, as_scalar, as_vector, require
from ndis.chi_square import loss_laws
from ndis.enclosure import Enclosure
from ndis.errors import NdisError, ParameterError
from ndis.pages.text import few
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

Side = Literal["remove", "add"]
Point = tuple[float, float]  # (ε, δ)
Odds = tuple[float, float] | None  # probabilities of the event under p and q; None if floats do not give them
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
_RECHECK_WIDTH = 1e-12  # relative


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
        return None if self.profile.sampled else self.profile.groups[0].pair(self.side)

    @property
    def revealing(self) -> bool:
        """Say if the event has probability exactly 1 under p and exactly 0 under q."""
        return self.pair is not None and self.pair.mutually_singular

    def recheck(self) -> Enclosure:
        """Certify δ at `epsilon` again from the exact inputs of the pair."""
        width = None if self.profile.composed else _RECHECK_WIDTH
        return self.profile.certify(self.epsilon, relative_width=width, order=self.side)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        pairs = {"enclosure": self.enclosure, "probabilities": self.probabilities}
        values |= {name: None if pair is None else list(pair) for name, pair in pairs.items()}
        return values | {"profile": json.loads(self.profile.to_json())}

    @classmethod
    def from_dict(cls, plain: Any) -> Witness:
        """Read the witness that `to_dict` wrote."""
        required = tuple(name for name in cls.__dataclass_fields__ if name != "probabilities")
        item = dict(only_keys("witness", plain, required, ("probabilities",)))
        low, high = _two_probabilities("enclosure", item["enclosure"])
        require(low <= high, "enclosure of the witness", "be in order", repr(item["enclosure"]))
        require(item["side"] in ORDERS, "side of the witness", "be 'remove' or 'add'", repr(item["side"]))
        for key in ("neighbours", "order", "event"):
            require(isinstance(item[key], str), f"{key} of the witness", "be text", type(item[key]).__name__)
        for key in ("epsilon", "delta"):
            item[key] = as_scalar(f"{key} of the witness", item[key])
        odds = item.get("probabilities")
        item["probabilities"] = None if odds is None else _two_probabilities("probabilities", odds)
        profile = PrivacyProfile.from_json(json.dumps(item["profile"]))
        return cls(**{**item, "enclosure": Enclosure(low, high), "profile": profile})


def _two_probabilities(name: str, plain: Any) -> tuple[float, float]:
    values = as_vector(f"{name} of the witness", plain).tolist()
    if not (len(values) == 2 and all(0 <= x <= 1 for x in values)):
        raise ParameterError(f"{name} of the witness", "be two numbers between 0 and 1", repr(plain))
    return values[0], values[1]


# ---------------------------------------------------------------------- the event


def best_event(profile: PrivacyProfile, side: Side, epsilon: float) -> tuple[str, Odds]:
    """Describe the best distinguishing event at ε in words and numbers, and return its two probabilities.

    >>> import ndis
    >>> print(best_event(PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=2.0)), "remove", 1.0)[0])
    The privacy loss log(p/q) exceeds ε = 1.
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
    if odds is None:
        return opening, None
    here, there = map(probability, odds)
    return f"{opening}\nIt happens with probability {here} under p and {there} under q.", odds


def outcome_words(witness: Witness) -> str:
    """Describe the best event in units of the output, if one number of it decides and the others are the same; or "".

    >>> import ndis
    >>> from ndis.auditing import Claim, audit
    >>> counts = ndis.GaussianPair.from_diagonal([58.0], [16.0], [57.0], [16.0])
    >>> outcome_words(audit(Claim(1.0, 1e-6), pairs=[counts]).witness)
    'the published number exceeds 73.5'
    """
    (*others, origin) = (None,) if witness.pair is None else witness.pair.origins or (None,)
    if others or origin is None or origin.kind not in ("diagonal", "dense") or origin.copies > 1:
        return ""
    laws = [np.asarray(a, dtype=np.float64) for a in origin.arrays]
    size = laws[0].size
    if size > 1 and origin.kind == "dense":
        return ""
    numbers = np.stack([law.reshape(size) for law in (laws[2:] + laws[:2] if origin.reverse else laws)])
    moved = np.flatnonzero((numbers[:2] != numbers[2:]).any(axis=0))
    if moved.size != 1:
        return ""
    name = "the published number" if size == 1 else f"number {moved[0] + 1} of the output"
    return f"{name} {_of_one_number(*numbers[:, moved[0]].tolist(), epsilon=witness.epsilon)}"


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


def probability(x: float, digits: int = 4) -> str:
    """Write a probability; if floats round it to 0, it is below their range and not 0."""
    return few(x, digits) if x > 1e-300 else f"less than {few(1e-300)}"
