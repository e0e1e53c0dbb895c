"""Bound δ over an envelope in two quick ways: by one moment of the loss, and by mean and covariance apart.

**The Rényi bound** (thm:envelope-renyi). At every s, one pair for each order has the largest log-moment function K(s)
over the envelope (`extreme_pairs`). The Rényi bound of this pair (bound:renyi) is a bound for the whole envelope. Wide
from narrow, for 0 < s < 1/e with e = e^ρ − 1,

    K̄(s) = ½ s(1+s) Δ²/(1 − s e) + Σ [ −½ s ℓ − ½ log(1 − s(e^ℓ − 1)) ],

and narrow from wide K̄(s) = ½ s(1+s) Δ² + Σ [ ½ s ℓ − ½ log(1 + s(1 − e^{−ℓ})) ]. The shift counts most in the
direction of the largest ratio, or outside of all ratios. The sums are convex in each ℓ, so `LoewnerEnvelope.extreme`
maximises them.

**Mean and covariance apart**: the paper's route over a Loewner envelope, corrected (thm:envelope-split). The bound
as printed stands in `ndis.paper.sensitivities`. Take the law that has the mean of one law and the covariance of the
other. By prop: triangle for DP divergence, on both paths,

    δ(ε₁ + ε₂) ≤ δ_mean(ε₁; Δ) + e^{ε₁} δ_cov(ε₂),      δ(ε₁ + ε₂) ≤ δ_cov(ε₂) + e^{ε₂} δ_mean(ε₁; Δ),

for all real ε₁, ε₂. The envelope holds for both orders, so ‖m‖ ≤ Δ holds under either covariance. For δ_cov the paper
takes Chernoff's bound of lem:ndis-cov-analytic-form in the *easy* order (X narrower). It calls this a bound for both
orders, and that is wrong. Here each order has its own bound. With ℓ at `LoewnerEnvelope.extreme`, and s twice the
paper's,

    wide    δ_cov(ε) ≤ inf over 0 < s < 1/e of exp(−sε + Σ [ −½ s ℓ − ½ log(1 − s(e^ℓ − 1)) ]),   e = e^ρ − 1,
    narrow  δ_cov(ε) ≤ inf over s > 0 of exp(−sε + Σ [ ½ s ℓ − ½ log(1 + s(1 − e^{−ℓ})) ]),

and the worse order counts. The paper has a second term:

    −e^ε (1 − inf over u of exp(2εu + Σ [ uℓ − ½ log(1 + 2u(1 − e^{−ℓ})) ])).

It is zero for ε ≥ 0. The exponent is convex in u, and its slope at u = 0 is 2ε + Σ [ ℓ − (1 − e^{−ℓ}) ] ≥ 0. So its
infimum is 1, and the code leaves the term out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from flint import arb

from ndis._balls import climb, outward, precision
from ndis.errors import PrecisionError
from ndis.pair import LEAST_SHIFT, GaussianPair
from ndis.spectrum.bounds import best_exponent
from ndis.spectrum.closed_forms import mean_shift_log_delta
from ndis.spectrum.origins import enclose
from ndis.worst_case.envelopes import LARGEST, DominatingPairs, Envelope, LoewnerEnvelope, RankOneEnvelope, pieces_of

_BITS = (128, 256, 512, 1024)
_LEAST_DELTA = 1e-290  # a smaller δ cannot be certified to many digits, because floats end there
_SPLITS, _EXPONENTS, _ZOOMS = 161, 241, 3
_BEYOND = 4.0  # the search looks for the split this far beyond 0 and ε


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
        """Return the bound at one precision, rounded up; None if it is too low."""
        directions = enclose(pair.origins, bits)
        if directions is None:
            return None
        total = directions.renyi_log_bound(arb(s), arb(epsilon))
        if total is None:
            return 1.0
        if total.rad() < 1e-12:
            return outward(total.exp()).upper if total < 0 else 1.0
        return None if total < 1 else 1.0  # NaN counts as 1

    return climb(attempt, _BITS, "the Rényi bound could not be enclosed")


class _Best(NamedTuple):
    value: float  # log of the bound on δ, in floats
    first: float  # ε₁, for the means
    s: float
    mean_first: bool


def split_log_delta(envelope: LoewnerEnvelope, epsilon: float) -> float:
    """Return the log of the corrected paper bound on δ(ε) over the envelope, in floats.

    >>> round(split_log_delta(LoewnerEnvelope(0.25, 0.012, 0.012, 1), 1.0), 4)
    -9.8...
    """
    both = [_search(envelope, epsilon, order) for order in (1, -1)]
    return min(max(0.0 if best is None else best.value for best in both), 0.0)


def certified_split(envelope: LoewnerEnvelope, epsilon: float) -> float:
    """Certify the same bound in ball arithmetic, rounded up, at the split and exponent of the search."""
    worst = 0.0
    for order in (1, -1):
        best = _search(envelope, epsilon, order)
        if best is None:
            return 1.0
        shift = envelope.shift_bound and max(envelope.shift_bound, LEAST_SHIFT)
        mean = _mean_upper(shift, best.first)
        with precision(128):
            # ε₁ + ε₂ ≤ ε must hold exactly, so ε₂ is the ball ε − ε₁
            second, s = arb(epsilon) - arb(best.first), arb(best.s)
            exponent = -s * second
            for length, copies in envelope.extreme:
                gain = (arb(length) * order).exp() - 1
                denominator = 1 - s * gain
                if not denominator > 0:
                    return 1.0
                exponent -= copies * (s * order * arb(length) + denominator.log()) / 2
            covariance = exponent.exp()
            if not envelope.extreme:  # two equal laws
                covariance = arb(0) if second >= 0 else 1 - second.exp()
            elif not covariance < 1:
                covariance = arb(1)
            factor = arb(best.first).exp() if best.mean_first else second.exp()
            total = arb(mean) + factor * covariance if best.mean_first else covariance + factor * arb(mean)
            upper = outward(total).upper
        if math.isnan(upper):
            raise PrecisionError("the split bound is not a number")
        worst = max(worst, upper)
    return min(worst, 1.0)


def _search(envelope: LoewnerEnvelope, epsilon: float, order: int) -> _Best | None:
    """Find the best split, exponent and path in floats, for order 1 (wide) or −1 (narrow); None if Δ is too large."""
    if not (envelope.shift_bound <= LARGEST and envelope.log_ratio_bound <= math.log(LARGEST)):
        return None
    extreme = envelope.extreme
    pole = 1.0 / math.expm1(extreme[0][0]) if extreme and order > 0 else math.inf
    low, high = min(0.0, epsilon) - _BEYOND, max(0.0, epsilon) + _BEYOND
    bottom, top = -12.0, 12.0
    best = _Best(math.inf, 0.0, 1.0, True)
    for _ in range(_ZOOMS):
        y = np.linspace(bottom, top, _EXPONENTS)
        s = np.exp(y) if math.isinf(pole) else pole / (1.0 + np.exp(-y))
        K = np.zeros(s.size)
        for x, n in extreme:
            K -= 0.5 * n * (order * s * x + np.log1p(-s * math.expm1(order * x)))
        first = np.linspace(low, high, _SPLITS)
        exponent = K - np.outer(epsilon - first, s)
        where = exponent.argmin(axis=1)
        covariance = np.minimum(exponent[np.arange(first.size), where], 0.0)
        if not extreme:  # two equal laws
            covariance = np.asarray(mean_shift_log_delta(epsilon - first, 0.0))
        mean = np.asarray(mean_shift_log_delta(first, envelope.shift_bound))
        for mean_first in (True, False):
            parts = (mean, first + covariance) if mean_first else (covariance, epsilon - first + mean)
            total = np.logaddexp(*parts)
            i = int(np.argmin(total))
            if total[i] <= best.value:
                best = _Best(float(total[i]), float(first[i]), float(s[where[i]]), mean_first)
        width = 4.0 * (high - low) / (_SPLITS - 1)
        low, high = best.first - width, best.first + width
        middle = math.log(best.s) if math.isinf(pole) else -math.log(pole / best.s - 1.0)
        half = 4.0 * (top - bottom) / (_EXPONENTS - 1)
        bottom, top = middle - half, middle + half
    return best


def _mean_upper(shift: float, epsilon: float) -> float:
    """Certify an upper end of δ_mean(ε; Δ). If δ is next to nothing, it is Chernoff's e^{−(ε − ½Δ²)²/(2Δ²)}."""
    simple = 1.0
    with precision(128):
        square = arb(shift) ** 2
        above = arb(epsilon) - square / 2
        if shift and above > 0:
            simple = outward((-(above**2) / (2 * square)).exp()).upper
    if simple < _LEAST_DELTA:
        return simple
    try:
        return GaussianPair.from_ratios(1.0, shift=shift).certify(epsilon).upper
    except PrecisionError:
        return simple
