"""The Rényi bound over an envelope (thm:envelope-renyi).

At every s, one pair for each order has the largest log-moment function K(s) over the envelope (`extreme_pairs`). The
Rényi bound of this pair (bound:renyi) is a bound for the whole envelope. Wide from narrow, for 0 < s < 1/e with
e = e^ρ − 1,

    K̄(s) = ½ s(1+s) Δ²/(1 − s e) + Σ [ −½ s ℓ − ½ log(1 − s(e^ℓ − 1)) ],

and narrow from wide K̄(s) = ½ s(1+s) Δ² + Σ [ ½ s ℓ − ½ log(1 + s(1 − e^{−ℓ})) ]. The shift counts most in the
direction of the largest ratio, or outside of all ratios. The sums are convex in each ℓ, so `LoewnerEnvelope.extreme`
maximises them.
"""

from __future__ import annotations

import math

from flint import arb

from ndis._balls import climb, outward
from ndis._formulas import chernoff_factor_ball
from ndis.errors import PrecisionError
from ndis.pair import LEAST_SHIFT, GaussianPair
from ndis.spectrum.bounds import best_exponent
from ndis.spectrum.origins import enclose
from ndis.worst_case.envelopes import LARGEST, DominatingPairs, Envelope, RankOneEnvelope, pieces_of

__all__ = ["certified_renyi", "extreme_pairs", "renyi_log_delta"]

_BITS = (128, 256, 512, 1024)


def extreme_pairs(envelope: Envelope) -> tuple[GaussianPair, GaussianPair] | None:
    """Return the two pairs with the largest K(s) at every s > 0: wide from narrow, and narrow from wide.

    Ratios are rounded outwards. The answer is None if the numbers are beyond what a pair takes; count δ as 1 then.

    >>> wide, narrow = extreme_pairs(RankOneEnvelope(shift_bound=0.25, ratio_bound=1.0))
    >>> wide.variance_ratio.round(6), wide.shift, narrow.variance_ratio.round(6), narrow.shift
    (array([2.]), array([0.25]), array([1. , 0.5]), array([0.25, 0.  ]))
    """
    if isinstance(envelope, DominatingPairs):
        return envelope.remove, envelope.add
    if not envelope.shift_bound <= LARGEST:
        return None
    shift = max(envelope.shift_bound, LEAST_SHIFT) if envelope.shift_bound > 0 else 0.0
    if isinstance(envelope, RankOneEnvelope):
        T = envelope.ratio_bound
        if not T <= LARGEST:
            return None
        groups = [(math.nextafter(1.0 + T, math.inf), (1.0 - 2.0**-50) / (1.0 + T), 1)] if T > 0 else []
    else:
        if not envelope.log_ratio_bound <= math.log(LARGEST):
            return None
        w, lengths = 1.0 + 2.0**-50, [(x, n) for x, n in envelope.extreme if x > 0 and n > 0]
        groups = [(math.exp(x) * w, math.exp(-x) * (2.0 - w), n) for x, n in lengths]
    # the mean shift lies on one coordinate of the largest ratio, or on a coordinate of its own
    wide = [(up, shift if i == 0 else 0.0, 1 if i == 0 else n) for i, (up, _, n) in enumerate(groups)]
    if groups and groups[0][2] > 1:
        wide.append((groups[0][0], 0.0, groups[0][2] - 1))
    wide = wide or [(1.0, shift, 1)]
    narrow = [(1.0, shift, 1), *((down, 0.0, n) for _, down, n in groups)]
    first, second = (GaussianPair.from_ratios(*zip(*rows, strict=True)) for rows in (wide, narrow))
    return first, second


def renyi_log_delta(envelope: Envelope, epsilon: float) -> float:
    """Return the log of the Rényi bound on δ(ε) over the envelope, in floats."""
    pairs = [extreme_pairs(piece) for piece in pieces_of(envelope)]
    return float(max(0.0 if two is None else max(best_exponent(pair, epsilon)[1] for pair in two) for two in pairs))


def certified_renyi(envelope: Envelope, epsilon: float) -> float:
    """Certify the same bound in ball arithmetic, rounded up, at the exponent of the search."""
    worst = 0.0
    for piece in pieces_of(envelope):
        pairs = extreme_pairs(piece)
        if pairs is None:
            return 1.0
        worst = max(worst, *(_certified(pair, epsilon, best_exponent(pair, epsilon)[0]) for pair in pairs))
    return worst


def _certified(pair: GaussianPair, epsilon: float, s: float) -> float:
    """Evaluate the bound e^{K(s) − sε} sˢ/(1+s)^{1+s} at one s > 0, rounded up; at most 1.

    >>> _certified(GaussianPair.from_ratios(1.0, shift=1.0), 2.0, 1.5)  # e^{−(ε − ½)²/2} · 1.5^1.5/2.5^2.5
    0.0603...
    """
    if pair.mutually_singular:
        return 1.0

    def attempt(bits: int) -> float | None:
        directions = enclose(pair.origins, bits)
        if directions is None:
            return None
        x = arb(s)
        moment = None if directions.mutually_singular else directions.log_moment(x)
        if moment is None:
            return 1.0
        total = moment - x * arb(epsilon) + chernoff_factor_ball(x)
        if total.rad() < 1e-12:
            return outward(total.exp()).upper if total < 0 else 1.0
        return None if total < 1 else 1.0  # NaN counts as 1

    bound = climb(attempt, _BITS)
    if bound is None:
        raise PrecisionError("the Rényi bound could not be enclosed")
    return bound
