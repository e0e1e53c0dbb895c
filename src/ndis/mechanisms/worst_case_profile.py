"""The privacy profile of an envelope: its own worst case at every ε, and one pair that dominates all of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndis._validate import Adjacency, Floats
from ndis.enclosure import Enclosure
from ndis.mechanisms.envelopes import DominatingPairs, Envelope, LoewnerEnvelope, RankOneEnvelope
from ndis.mechanisms.worst_case import certified_worst_delta, worst_log_delta
from ndis.mechanisms.worst_case_rank_one import certified_rank_one
from ndis.pair import LEAST_SHIFT, GaussianPair
from ndis.profile import Order, PrivacyProfile

__all__ = ["EnvelopeProfile", "dominating_pair", "envelope_profile"]

_UP = 1.0 + 2.0**-46
_SETTLED = 2.0**-40
_LARGEST = 1e8  # of Δ and T; beyond, nothing is private
_SHARES = (0.9, *(2.0 ** (-k / 2) for k in range(1, 31)))  # b² tried


@dataclass(frozen=True, eq=False, init=False)
class EnvelopeProfile(PrivacyProfile):
    """How private a mechanism is whose neighbours are known to lie in an envelope.

    δ(ε), ε(δ) and `certify` are those of the worst case over the envelope, at each ε its own. That worst case is no
    single pair, so what needs a pair — composition, subsampling, JSON — goes through `remove` and `add`, one Gaussian
    pair that dominates the whole envelope in both orders. It is a little looser: sound, and what a composition costs.

    Parameters
    ----------
    envelope : LoewnerEnvelope, RankOneEnvelope or DominatingPairs with pieces
        For the first, the worst case is the best sound bound on it.
    remove, add, failure_probability, adjacency, groups
        As in `PrivacyProfile`; made by `envelope_profile`.

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

    def _own(self) -> bool:
        """Whether the worst case over the envelope is the answer; else the dominating pair is."""
        return not self.failure_probability

    def _log_delta(self, order: Order, epsilon: Floats) -> Floats:
        if not self._own():
            return super()._log_delta(order, epsilon)
        return np.array([worst_log_delta(self.envelope, x, "exact") for x in epsilon.tolist()])

    def _certify(self, order: Order, epsilon: float, relative_width: float) -> Enclosure:
        """The upper end is certified for every neighbour; the lower one is met inside the envelope, or 0."""
        if not self._own():
            return super()._certify(order, epsilon, relative_width)
        if isinstance(self.envelope, RankOneEnvelope):
            return certified_rank_one(self.envelope, epsilon, relative_width=relative_width)
        return Enclosure(0.0, certified_worst_delta(self.envelope, epsilon, "exact")[0])

    def _smallest_epsilon(self, target: float, choice: str) -> float:
        if not self._own():
            return super()._smallest_epsilon(target, choice)
        goal = math.log(target)

        def safe(x: float) -> bool:
            return worst_log_delta(self.envelope, x, "exact") <= goal

        if safe(0.0):
            return 0.0
        low, high = 0.0, 1.0
        while not safe(high):
            low, high = high, 2.0 * high
            if not high < 1e12:
                return math.inf
        while high - low > _SETTLED * high:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if safe(middle) else (middle, high)
        return high


def envelope_profile(envelope: Envelope, *, epsilon: float, adjacency: Adjacency = "add-remove") -> PrivacyProfile:
    """The profile of an envelope: exactly that of its pairs where it holds them.

    `epsilon` is where the dominating pair of the others is made as tight as it gets.
    """
    if isinstance(envelope, DominatingPairs):
        if envelope.pieces:
            return EnvelopeProfile(envelope.remove, envelope.add, envelope=envelope, adjacency=adjacency)
        return PrivacyProfile(envelope.remove, envelope.add, adjacency=adjacency)
    pair = dominating_pair(envelope, epsilon=epsilon)
    return EnvelopeProfile(pair, pair, envelope=envelope, adjacency=adjacency)


def dominating_pair(envelope: LoewnerEnvelope | RankOneEnvelope, *, epsilon: float) -> GaussianPair:
    """One pair that dominates every ordered pair of the envelope, at every ε and in both orders.

    For a² + b² = 1, T = e^ρ − 1, p = T/(1+T) and k coordinates that may change (1 for rank one, else all),

        {(0, Δ²/a²)} ∪ {(T/b², 0), k copies} ∪ {(−p/b², 0), k copies}

    dominates {(tᵢ, mᵢ²)} with 0 ≤ tᵢ ≤ T, or −p ≤ tᵢ ≤ 0, ‖m‖ ≤ Δ: drop the copies of the other sign and apply
    B = (diag bᵢ, (a/Δ)·m), bᵢ = b√(tᵢ/T) or b√(tᵢ/−p). ‖Bx‖ ≤ b‖x'‖ + a|x''| ≤ ‖x‖, so (Bm, BABᵀ) is
    post-processing (theory §2), and it is the pair. It holds for every b² above p; the one that gives the least δ at
    `epsilon` is taken.

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
        up, down = 1.0 + wide / b2 * _UP, 1.0 - narrow / b2 * _UP
        return GaussianPair.from_ratios(
            [1.0, math.nextafter(up, math.inf), math.nextafter(down, 0.0)],
            [shift / math.sqrt(1.0 - b2) * _UP, 0.0, 0.0],
            [1, copies, copies],
        )

    from ndis.spectrum.bounds import renyi_log_bound

    return min(map(at, shares), key=lambda pair: float(renyi_log_bound(pair, epsilon)))
