"""Evaluate the worst case over an envelope: as a number at one ε, and as a privacy profile.

There are three bounds, and each ends in a certificate:

- ``"exact"``: the supremum itself, for rank-one envelopes and if the worst pair is known. For a Loewner envelope, the
  smaller of the other two.
- ``"renyi"``: one moment of the loss; see `ndis.worst_case.bounds`.
- ``"paper"``: mean and covariance apart, through the triangle inequality; see `ndis.worst_case.bounds`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ndis._search import smallest_safe
from ndis._validate import Adjacency, Floats, as_choice, largest
from ndis.enclosure import Enclosure
from ndis.errors import BudgetError, PrecisionError
from ndis.pair import LEAST_SHIFT, GaussianPair
from ndis.profile import Order, PrivacyProfile
from ndis.spectrum.bounds import renyi_log_bound
from ndis.worst_case.bounds import certified_renyi, certified_split, renyi_log_delta, split_log_delta
from ndis.worst_case.envelopes import DominatingPairs, Envelope, LoewnerEnvelope, RankOneEnvelope, as_loewner
from ndis.worst_case.rank_one import certified_rank_one, rank_one_search

Bound = Literal["exact", "renyi", "paper"]
BOUNDS: tuple[Bound, ...] = ("exact", "renyi", "paper")

_MARGIN = 1e-9  # added to log δ, past the width of the certificates to come
_UP = 1.0 + 2.0**-46
_LARGEST = 1e8  # if Δ or T is beyond it, nothing is private
_SHARES = (0.9, *(2.0 ** (-k / 2) for k in range(1, 31)))  # b² tried


def as_bound(value: Any) -> Bound:
    """Check that a value is one of the three bounds, and return it."""
    return as_choice("bound", value, BOUNDS)  # type: ignore[no-any-return]


def worst_log_delta(envelope: Envelope, epsilon: float, bound: Bound) -> float:
    """Return the log of the bound on δ(ε) over the envelope, in floats, for a search to walk on.

    >>> envelope = RankOneEnvelope(shift_bound=0.25, ratio_bound=0.012)
    >>> [round(worst_log_delta(envelope, 1.0, bound), 4) for bound in ("exact", "renyi", "paper")]
    [-11.3148, -9.8588, -9.8436]
    """
    if bound == "paper":
        return split_log_delta(as_loewner(envelope), epsilon)
    if bound == "renyi":
        return renyi_log_delta(envelope, epsilon)
    if isinstance(envelope, RankOneEnvelope):
        search = rank_one_search(envelope, epsilon)
        return min(search.upper + (_MARGIN if search.upper > search.lower else 0.0), 0.0)
    if isinstance(envelope, LoewnerEnvelope):
        return min(renyi_log_delta(envelope, epsilon), split_log_delta(envelope, epsilon))
    try:
        return largest(float(pair.log_delta(epsilon)) for pair in _pairs(envelope))
    except PrecisionError:
        return 0.0  # δ ≤ 1 always holds


def certified_worst_delta(envelope: Envelope, epsilon: float, bound: Bound) -> tuple[float, str]:
    """Certify an upper bound on δ(ε) over the envelope, and return it with the name of the bound that gave it.

    By prop:mr-reduction the worst case over neighbours is the supremum of δ_ε(m, R) (def: nids function). It runs over
    their whitened shifts and ratios (def: m,R tuple), and the envelope contains this set (def: m,R tuple set).

    >>> certified_worst_delta(RankOneEnvelope(shift_bound=0.25, ratio_bound=0.012), 1.0, "exact")
    (1.2191...e-05, 'exact (branch and bound)')
    """
    if bound == "paper":
        return certified_split(as_loewner(envelope), epsilon), "paper (corrected)"
    if bound == "renyi":
        return certified_renyi(envelope, epsilon), "renyi"
    if isinstance(envelope, RankOneEnvelope):
        return certified_rank_one(envelope, epsilon).upper, "exact (branch and bound)"
    if isinstance(envelope, LoewnerEnvelope):
        renyi, paper = certified_renyi(envelope, epsilon), certified_split(envelope, epsilon)
        chosen = "renyi" if renyi <= paper else "paper (corrected)"
        return min(renyi, paper), f"{chosen}; no exact worst case is known for this envelope"
    return largest(pair.certify(epsilon).upper for pair in _pairs(envelope)), "exact (dominating pair)"


def _pairs(envelope: DominatingPairs) -> list[GaussianPair]:
    """List the pairs of each piece, or of the envelope itself."""
    return [pair for piece in envelope.pieces or (envelope,) for pair in (piece.remove, piece.add)]


@dataclass(frozen=True, eq=False, init=False)
class EnvelopeProfile(PrivacyProfile):
    """The privacy of a mechanism whose neighbours lie in an envelope.

    δ(ε), ε(δ) and `certify` take the worst case over the envelope, at each ε its own. This worst case is not a single
    pair. Composition, subsampling and JSON need a pair. They use `remove` and `add`: one Gaussian pair that dominates
    the whole envelope in both orders. It is sound, and a little looser.

    Parameters
    ----------
    envelope : LoewnerEnvelope, RankOneEnvelope or DominatingPairs with pieces
        For a LoewnerEnvelope, the worst case is the best sound bound on it.
    remove, add, failure_probability, adjacency, groups
        As in `PrivacyProfile`. `envelope_profile` makes them.

    Examples
    --------
    >>> profile = envelope_profile(RankOneEnvelope(shift_bound=0.25, ratio_bound=0.012), epsilon=1.0)
    >>> f"{profile.delta(1.0):.6g} <= {profile.remove.delta(1.0):.2g}"
    '1.21912e-05 <= 2.8e-05'
    """

    envelope: Envelope

    def __init__(
        self, remove: GaussianPair | None = None, add: GaussianPair | None = None, *, envelope: Envelope, **options: Any
    ) -> None:
        super().__init__(remove, add, **options)
        object.__setattr__(self, "envelope", envelope)

    def _log_delta(self, order: Order, epsilon: Floats, floor: float) -> Floats:
        if self.failure_probability:  # then the dominating pair is the answer
            return super()._log_delta(order, epsilon, floor)
        return np.array([worst_log_delta(self.envelope, x, "exact") for x in epsilon.tolist()])

    def _certify(self, order: Order, epsilon: float, relative_width: float) -> Enclosure:
        """The upper end holds for all neighbours. The lower end is attained inside the envelope, or is 0."""
        if self.failure_probability:
            return super()._certify(order, epsilon, relative_width)
        if isinstance(self.envelope, RankOneEnvelope):
            return certified_rank_one(self.envelope, epsilon, relative_width=relative_width)
        return Enclosure(0.0, certified_worst_delta(self.envelope, epsilon, "exact")[0])

    def _smallest_epsilon(self, target: float, choice: str, guess: float | None = None) -> float:
        """Return the smallest ε for the worst pair of the envelope, found without a dominating pair."""
        if self.failure_probability:
            return super()._smallest_epsilon(target, choice, guess)

        def log_delta(x: float) -> float:
            return worst_log_delta(self.envelope, x, "exact")

        if log_delta(0.0) <= math.log(target):
            return 0.0
        try:
            return smallest_safe(log_delta, lambda x: math.exp(log_delta(x)), delta=target, least=math.ulp(0.0))
        except BudgetError:  # no ε is enough
            return math.inf


def envelope_profile(envelope: Envelope, *, epsilon: float, adjacency: Adjacency = "add-remove") -> PrivacyProfile:
    """Make the profile of an envelope. If the envelope is a pair for each order, it is the profile of the pairs.

    For the others, the dominating pair is made as tight as it gets at `epsilon`.
    """
    if isinstance(envelope, DominatingPairs):
        if envelope.pieces:
            return EnvelopeProfile(envelope.remove, envelope.add, envelope=envelope, adjacency=adjacency)
        return PrivacyProfile(envelope.remove, envelope.add, adjacency=adjacency)
    pair = dominating_pair(envelope, epsilon=epsilon)
    return EnvelopeProfile(pair, pair, envelope=envelope, adjacency=adjacency)


def dominating_pair(envelope: LoewnerEnvelope | RankOneEnvelope, *, epsilon: float) -> GaussianPair:
    """Find a pair that dominates every ordered pair of the envelope, at every ε and in both orders.

    For a² + b² = 1, T = e^ρ − 1, p = T/(1+T) and k coordinates that may change (1 for rank one, else all),

        {(0, Δ²/a²)} ∪ {(T/b², 0), k copies} ∪ {(−p/b², 0), k copies}

    dominates {(tᵢ, mᵢ²)} with ‖m‖ ≤ Δ and 0 ≤ tᵢ ≤ T for all i, or −p ≤ tᵢ ≤ 0 for all i. To see it, drop the copies
    of the other sign and apply B = (diag bᵢ, (a/Δ)·m), with bᵢ = b√(tᵢ/T) or b√(tᵢ/−p). Then
    ‖Bx‖ ≤ b‖x'‖ + a|x''| ≤ ‖x‖, so thm:post-processing applies, and (Bm, BABᵀ) is the pair (thm:envelope-pair). This
    holds for every b² above p. The function takes the b² with the least Rényi bound at `epsilon`.

    >>> pair = dominating_pair(RankOneEnvelope(shift_bound=0.25, ratio_bound=0.012), epsilon=1.0)
    >>> pair.shift[0] > 0.25, pair.dimension
    (np.True_, 3)
    """
    if isinstance(envelope, RankOneEnvelope):
        wide, copies = envelope.ratio_bound, 1
    else:
        length = min(envelope.log_ratio_bound, envelope.log_det_bound)
        wide, copies = math.expm1(min(length, 100.0)) * _UP, envelope.dimension
    if not (wide <= _LARGEST and envelope.shift_bound <= _LARGEST):
        return GaussianPair.from_diagonal(0.0, 0.0, 1.0, 0.0)  # mutually singular laws dominate everything
    shift = envelope.shift_bound and max(envelope.shift_bound, LEAST_SHIFT)
    if wide == 0:
        return GaussianPair.from_ratios(1.0, shift=shift)
    narrow = wide / (1.0 + wide)
    shares = [b2 for b2 in (*_SHARES, 0.5 * (1.0 + narrow)) if narrow * _UP < b2 * (1.0 - 2.0**-30) and b2 < 1.0]

    def at(b2: float) -> GaussianPair:
        """Return the pair in which the mean shift takes all but the share b² of the variance."""
        up, down = 1.0 + wide / b2 * _UP, 1.0 - narrow / b2 * _UP
        ratios = [1.0, math.nextafter(up, math.inf), math.nextafter(down, 0.0)]
        return GaussianPair.from_ratios(ratios, [shift / math.sqrt(1.0 - b2) * _UP, 0.0, 0.0], [1, copies, copies])

    return min(map(at, shares), key=lambda pair: float(renyi_log_bound(pair, epsilon)))
