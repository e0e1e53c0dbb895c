"""Numbers behind the sensitivity of a Gaussian process, with certainty: how far a label can be off, and Λ.

Given the others, a record has the variance ω ≤ L before its label, s = ω + σ², and a residual r. With x = ω/σ² and N
others (docs/models.md, thm:process-residual),

    r² ≤ B²(1 + √(N x min(η, 1 − σ²x/L)))²,        η = NL/(NL + σ²),        0 ≤ x ≤ L/σ².

So r²/s and ω/s are bounded at the same x: where the residual is largest, ω is small.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.errors import ParameterError
from ndis.exact import ExactArray

__all__ = ["label_leverage", "largest_eigenvalue", "mean_leverage"]

_BITS = 128
_SETTLED = 2.0**-16  # how far, relatively, a bound may lie above the supremum
_MOST_SPLITS = 4000


@lru_cache(maxsize=256)
def label_leverage(
    records: int, label_bound: float, variance: Fraction, noise: Fraction, low: float = 0.0, high: float = 1.0
) -> float:
    """An upper bound of r²/s over data sets of at most `records` records with low ≤ ω/L ≤ high.

    The maximum over all is at ω = Lσ²/(NL + σ²) where NL ≤ σ²; copies of one point then attain it.

    >>> label_leverage(16, 1.0, Fraction(1), Fraction(250)) < 0.00446 < 16 / 250
    True
    """
    return _supremum(records, label_bound, variance, noise, (low, high), lambda a, b: 1 / (1 + a))


@lru_cache(maxsize=256)
def mean_leverage(records: int, label_bound: float, variance: Fraction, noise: Fraction) -> float:
    """An upper bound of ωr²/s², which times Λ is the squared distance that one record moves the mean.

    >>> mean_leverage(16, 0.5, Fraction(1), Fraction(1)) < 0.4925 < label_leverage(16, 0.5, Fraction(1), Fraction(1))
    True
    """

    def weight(a: Any, b: Any) -> Any:  # x/(1+x)² is largest at x = 1
        x = b if b <= 1 else a if a >= 1 else 1
        return x / (1 + x) ** 2

    return _supremum(records, label_bound, variance, noise, (0.0, 1.0), weight)


def _supremum(
    records: int,
    label_bound: float,
    variance: Fraction,
    noise: Fraction,
    shares: tuple[float, float],
    weight: Callable[[Any, Any], Any],
) -> float:
    """(B²/σ²) sup of (1 + √(NQ(x)))²·weight over ω/L between two shares, by splitting, rounded up.

    `weight(a, b)` bounds the weight on a ≤ x ≤ b, and is its value where a = b.
    """
    from flint import arb, fmpq

    from ndis.spectrum.balls import outward, precision

    others = records - 1
    with precision(_BITS):
        L, noise_ball = (arb(fmpq(x.numerator, x.denominator)) for x in (variance, noise))
        eta, scale = others * L / (others * L + noise_ball), arb(label_bound) ** 2 / noise_ball

        def bound(low: float, high: float) -> float:
            a, b = arb(low) * L / noise_ball, arb(high) * L / noise_ball
            room = 1 - arb(low)
            q = b * (eta if eta < room else room)  # both bound it where the two cannot be told apart
            return outward(scale * (1 + (others * q).sqrt()) ** 2 * weight(a, b)).upper

        known, heap = 0.0, [(-bound(*shares), *shares)]
        for _ in range(_MOST_SPLITS):
            upper, low, high = -heap[0][0], *heap[0][1:]
            middle = 0.5 * (low + high)
            known = max(known, bound(middle, middle))
            if upper <= known * (1 + _SETTLED) or not low < middle < high:
                break
            heapq.heapreplace(heap, (-bound(low, middle), low, middle))
            heapq.heappush(heap, (-bound(middle, high), middle, high))
        return -heap[0][0]


def largest_eigenvalue(matrix: NDArray[Any]) -> Fraction:
    """A certified upper bound of the largest eigenvalue of a symmetric integer matrix; public."""
    from ndis.sampling.root import CovarianceRoot

    n = len(matrix)
    if n == 1:
        return Fraction(matrix[0, 0])
    guess = float(np.linalg.eigvalsh(matrix.astype(np.float64))[-1])
    slack = 2.0**-40
    while slack < 1.0:
        bound = math.ceil(guess * (1 + slack)) + 1
        try:
            CovarianceRoot(ExactArray(np.eye(n, dtype=int).astype(object) * bound - matrix)).fixed_point(0)
        except ParameterError:  # bound·I − K is not positive definite
            slack *= 16
        else:
            return Fraction(bound)
    return Fraction(max(int(abs(row).sum()) for row in matrix))
