"""The worst δ(ε) over an envelope, bounded three ways, each certified in the end (theory §8).

By prop:mr-reduction the worst case over neighbours is the supremum of δ_ε(m, R) (def: nids function) over their set of
(m, R) (def: m,R tuple set); the envelope holds that set.

- ``"renyi"``: the log-moment function K(s) over the envelope is largest, at every s, at one pair for each order
  (`extreme_pairs`); the Rényi bound of that pair is a bound for all. Wide from narrow, for 0 < s < 1/e, e = e^ρ − 1,

      K̄(s) = ½ s(1+s) Δ²/(1 − s e) + Σ [ −½ s ℓ − ½ log(1 − s(e^ℓ − 1)) ],

  narrow from wide K̄(s) = ½ s(1+s) Δ² + Σ [ ½ s ℓ − ½ log(1 + s(1 − e^{−ℓ})) ]: m² counts most in the direction of the
  largest ratio, or beside all of them; the sums are convex in each ℓ, so they are largest at `LoewnerEnvelope.extreme`.
- ``"paper"``: mean and covariance apart, through the triangle inequality; see `split_log_delta`.
- ``"exact"``: the supremum itself, for rank-one envelopes and where the worst pair is known; for a Loewner envelope,
  the smaller of the other two.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from ndis.errors import ParameterError, PrecisionError
from ndis.mechanisms.envelopes import DominatingPairs, Envelope, LoewnerEnvelope, RankOneEnvelope, as_loewner, pieces_of
from ndis.mechanisms.worst_case_rank_one import certified_rank_one, rank_one_search
from ndis.mechanisms.worst_case_split import certified_split, split_log_delta
from ndis.pair import LEAST_SHIFT, GaussianPair

__all__ = ["BOUNDS", "Bound", "as_bound", "certified_worst_delta", "extreme_pairs", "worst_log_delta"]

Bound = Literal["exact", "renyi", "paper"]
BOUNDS: tuple[Bound, ...] = ("exact", "renyi", "paper")

_LARGEST = 1e60  # of Δ and of ratios; beyond, δ is taken to be 1
_MARGIN = 1e-9  # of log δ, past the width of the certificates to come
_BITS = (128, 256, 512, 1024)
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


def as_bound(value: Any) -> Bound:
    """One of the three bounds, checked."""
    if value not in BOUNDS:
        raise ParameterError("bound", "be 'exact', 'renyi' or 'paper'", repr(value))
    return value  # type: ignore[no-any-return]


def worst_log_delta(envelope: Envelope, epsilon: float, bound: Bound) -> float:
    """log of the bound on δ(ε) over the envelope, in floats: what a search walks on.

    >>> from ndis.mechanisms.envelopes import RankOneEnvelope
    >>> envelope = RankOneEnvelope(shift_bound=0.25, ratio_bound=0.012)
    >>> [round(worst_log_delta(envelope, 1.0, bound), 4) for bound in ("exact", "renyi", "paper")]
    [-11.3148, -9.8588, -9.8436]
    """
    if bound == "paper":
        return split_log_delta(as_loewner(envelope), epsilon)
    if bound == "renyi":
        return _renyi_log_delta(envelope, epsilon)
    if isinstance(envelope, RankOneEnvelope):
        search = rank_one_search(envelope, epsilon)
        return min(search.upper + (_MARGIN if search.upper > search.lower else 0.0), 0.0)
    if isinstance(envelope, LoewnerEnvelope):
        return min(_renyi_log_delta(envelope, epsilon), split_log_delta(envelope, epsilon))
    try:
        return max(float(pair.log_delta(epsilon)) for pair in _pairs(envelope))
    except PrecisionError:
        return 0.0  # δ ≤ 1 is true everywhere


def certified_worst_delta(envelope: Envelope, epsilon: float, bound: Bound) -> tuple[float, str]:
    """A certified upper bound on δ(ε) over the envelope, and in words what gave it.

    >>> from ndis.mechanisms.envelopes import RankOneEnvelope
    >>> certified_worst_delta(RankOneEnvelope(shift_bound=0.25, ratio_bound=0.012), 1.0, "exact")
    (1.2191...e-05, 'exact (branch and bound)')
    """
    if bound == "paper":
        return certified_split(as_loewner(envelope), epsilon), "paper (corrected)"
    if bound == "renyi":
        return _renyi_certified(envelope, epsilon), "renyi"
    if isinstance(envelope, RankOneEnvelope):
        return certified_rank_one(envelope, epsilon).upper, "exact (branch and bound)"
    if isinstance(envelope, LoewnerEnvelope):
        renyi, paper = _renyi_certified(envelope, epsilon), certified_split(envelope, epsilon)
        chosen = "renyi" if renyi <= paper else "paper (corrected)"
        return min(renyi, paper), f"{chosen}; no exact worst case is known for this envelope"
    found = max(pair.certify(epsilon).upper for pair in _pairs(envelope))
    return found, "exact (dominating pair)"


def _pairs(envelope: DominatingPairs) -> list[GaussianPair]:
    """The pairs of each piece, or those of the whole."""
    return [pair for piece in envelope.pieces or (envelope,) for pair in (piece.remove, piece.add)]


# ---------------------------------------------------------------------- one pair for each order


def extreme_pairs(envelope: Envelope) -> tuple[GaussianPair, GaussianPair] | None:
    """The pairs with the largest K(s) at every s > 0, wide from narrow and narrow from wide, ratios rounded outwards.

    None where the numbers are beyond what a pair takes; δ is 1 there for all purposes.

    >>> from ndis.mechanisms.envelopes import RankOneEnvelope
    >>> wide, narrow = extreme_pairs(RankOneEnvelope(shift_bound=0.25, ratio_bound=1.0))
    >>> wide.variance_ratio.round(6), wide.shift, narrow.variance_ratio.round(6), narrow.shift
    (array([2.]), array([0.25]), array([1. , 0.5]), array([0.25, 0.  ]))
    """
    if isinstance(envelope, DominatingPairs):
        return envelope.remove, envelope.add
    if not envelope.shift_bound <= _LARGEST:
        return None
    shift = max(envelope.shift_bound, LEAST_SHIFT) if envelope.shift_bound > 0 else 0.0
    if isinstance(envelope, RankOneEnvelope):
        T = envelope.ratio_bound
        if not T <= _LARGEST:
            return None
        groups = [(math.nextafter(1.0 + T, math.inf), (1.0 - 2.0**-50) / (1.0 + T), 1)] if T > 0 else []
    else:
        if not envelope.log_ratio_bound <= math.log(_LARGEST):
            return None
        widest = 1.0 + 2.0**-50
        groups = [
            (math.exp(x) * widest, math.exp(-x) * (2.0 - widest), n) for x, n in envelope.extreme if x > 0 and n > 0
        ]
    # the mean shift sits on one coordinate of the largest ratio, or on one of its own
    wide = [(up, shift if i == 0 else 0.0, 1 if i == 0 else n) for i, (up, _, n) in enumerate(groups)]
    if groups and groups[0][2] > 1:
        wide.append((groups[0][0], 0.0, groups[0][2] - 1))
    wide = wide or [(1.0, shift, 1)]
    narrow = [(1.0, shift, 1), *((down, 0.0, n) for _, down, n in groups)]
    first, second = (GaussianPair.from_ratios(*zip(*rows, strict=True)) for rows in (wide, narrow))
    return first, second


# ---------------------------------------------------------------------- Rényi


def _renyi_log_delta(envelope: Envelope, epsilon: float) -> float:
    found = [extreme_pairs(piece) for piece in pieces_of(envelope)]
    return max(
        0.0 if two is None else max(best_exponent(pair, epsilon, hinge=True)[1] for pair in two) for two in found
    )


def _renyi_certified(envelope: Envelope, epsilon: float) -> float:
    worst = 0.0
    for piece in pieces_of(envelope):
        pairs = extreme_pairs(piece)
        if pairs is None:
            return 1.0
        for pair in pairs:
            s = best_exponent(pair, epsilon, hinge=True)[0]
            worst = max(worst, certified_chernoff(pair, epsilon, s, hinge=True))
    return worst


def best_exponent(pair: GaussianPair, epsilon: float, *, hinge: bool) -> tuple[float, float]:
    """(s, log bound) in floats: the s > 0 with about the least K(s) − sε (+ log of sˢ/(1+s)^{1+s}), a convex function.

    >>> s, log_bound = best_exponent(GaussianPair.from_ratios(1.0, shift=1.0), 2.0, hinge=False)
    >>> round(s, 4), round(log_bound, 6)  # e^{−(ε − ½)²/2}
    (1.5, -1.125)
    """
    from ndis.loss import log_moment, moment_domain

    if pair.mutually_singular:
        return 1.0, 0.0
    pole = moment_domain(pair)[1]

    def at(y: float) -> tuple[float, float]:
        s = math.exp(y) if math.isinf(pole) else pole / (1.0 + math.exp(-y))
        weight = -math.log1p(s) - s * math.log1p(1.0 / s) if hinge else 0.0
        return float(log_moment(pair, s)) - s * epsilon + weight, s

    low, high = (-20.0, 40.0) if math.isinf(pole) else (-20.0, 16.0)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = at(left), at(right)
    best = min(at_left, at_right)
    for _ in range(32):  # the minimum is flat: 1e-5 in log s is 1e-10 in the bound
        if at_left[0] <= at_right[0]:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = at(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = at(right)
        best = min(best, at_left, at_right)
    return best[1], min(best[0], 0.0)


def certified_chernoff(pair: GaussianPair, epsilon: float, s: float, *, hinge: bool) -> float:
    """The bound e^{K(s) − sε} at one s > 0, times sˢ/(1+s)^{1+s} where `hinge`, by ball arithmetic; at most 1.

    >>> certified_chernoff(GaussianPair.from_ratios(1.0, shift=1.0), 2.0, 1.5, hinge=False)
    0.324652467358...
    """
    from flint import arb

    from ndis._balls import outward, precision
    from ndis.spectrum.origins import enclose

    if pair.mutually_singular:
        return 1.0
    for bits in _BITS:
        with precision(bits):
            groups = enclose(pair.origins, bits)
            if groups is None:
                continue
            if groups.mutually_singular:
                return 1.0
            x = arb(s)
            total = x * (1 + x) * groups.flat / 2 - x * arb(epsilon)
            for t, m2, n in groups.curved:
                room = 1 - x * t
                if not room > 0:
                    return 1.0
                total += n * (-x * (1 + t).log() - room.log() + x * (1 + x) * m2 / room) / 2
            if hinge:
                total += x * x.log() - (1 + x) * (1 + x).log()
            if total.rad() < 1e-12:
                return outward(total.exp()).upper if total < 0 else 1.0
            if not total < 1:  # what is not a number included
                return 1.0
    raise PrecisionError("the Rényi bound could not be enclosed")
