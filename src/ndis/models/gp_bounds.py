"""Bound how far one record can move the mean and the variance of a Gaussian process.

Given N others, take a record of variance at most L. Let ω be its variance before its label, s = ω + σ², r its residual,
and γ its covariances with the query points. There is a number w (thm:process-record) with

    max(ω/L, σ²/(NL + σ²)) ≤ w ≤ 1,    |r| ≤ B(1 + √(Nω(1−w))/σ),    ‖γ‖² ≤ Λωw,    γᵀ(Σ'+vI)⁻¹γ ≤ ω·Λw/(Λw + v).

If the residual is large, ω or w is small, and the record moves less.
"""

from __future__ import annotations

import heapq
import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from ndis._balls import exact_ball, outward, precision
from ndis._validate import Floats
from ndis.noise.gaussian import positive_definite

__all__ = ["largest_eigenvalue", "mean_leverage", "ratios_and_leverages"]

_BITS = 128
_SETTLED = 2.0**-16  # how far, relatively, a bound may lie above the supremum
_MOST_SPLITS = 4000
_CELLS = 128  # the range of ω, and that of w, are cut into this many
_UP = 1.0 + 2.0**-40  # past the rounding of a few operations
_MERGED = 1.002  # what a merged cell may add to the largest m²


@lru_cache(maxsize=64)
def mean_leverage(records: int, label_bound: float, variance: Fraction, noise: Fraction) -> float:
    """Bound r²ωw/s² from above. Times Λ, it is the squared distance that one record moves the mean.

    For one ω, let z = √(Nω(1−w))/σ. Then (1+z)²w is largest at 2z² + z = Nω/σ², or at the least w. A search by
    splitting finds the supremum over ω (thm:process-mean).

    >>> round(mean_leverage(16, 0.5, Fraction(1), Fraction(1)), 4)
    0.3294
    """
    others = records - 1
    with precision(_BITS):
        L, sigma2 = (exact_ball(x) for x in (variance, noise))
        eta, scale = others * L / (others * L + sigma2), arb(label_bound) ** 2 / sigma2

        def bound(low: float, high: float) -> float:
            """Return the bound over low ≤ ω/L ≤ high: more ω allows a larger residual, less ω a smaller w."""
            a, b = arb(low) * L / sigma2, arb(high) * L / sigma2
            x = b if b <= 1 else a if a >= 1 else arb(1)  # x/(1+x)² is largest at 1
            pulled = arb(1)
            if others and high > 0:
                pull, share = others * b, 1 - arb(low)
                share = eta if eta < share else share  # if their balls overlap, both are bounds
                best, last = ((1 + 8 * pull).sqrt() - 1) / 4, (pull * share).sqrt()
                z = last if last < best else best
                pulled = (1 + z) ** 2 * (1 - z**2 / pull)
            return outward(scale * pulled * x / (1 + x) ** 2).upper

        known, heap = 0.0, [(-bound(0.0, 1.0), 0.0, 1.0)]
        for _ in range(_MOST_SPLITS):
            upper, low, high = -heap[0][0], *heap[0][1:]
            middle = 0.5 * (low + high)
            known = max(known, bound(middle, middle))
            if upper <= known * (1 + _SETTLED) or not low < middle < high:
                break
            heapq.heapreplace(heap, (-bound(low, middle), low, middle))
            heapq.heappush(heap, (-bound(middle, high), middle, high))
        return -heap[0][0]


def ratios_and_leverages(
    records: int, label_bound: float, *, variance: float, noise: float, prior: float, noise_variance: float
) -> tuple[Floats, Floats]:
    """Return pairs (t, r²/s), rounded up: every neighbour has both at most as large as one of them. The ratios t fall.

    ω and w are cut into cells. A cell with less of both than another one is dropped. Cells are merged if that adds next
    to nothing to the largest (r²/s)·t.

    >>> t, leverage = ratios_and_leverages(16, 0.5, variance=1.0, noise=0.1, prior=1.0, noise_variance=100.0)
    >>> bool((np.diff(t) < 0).all() and (np.diff(leverage) > 0).all())
    True
    """
    omega, w, leverage = _cells(records, label_bound, variance, noise)
    t = omega * prior * w / (noise * prior * w + noise_variance * (omega + noise)) * _UP
    order = np.lexsort((-leverage, -t))
    t, leverage = t[order], leverage[order]
    new = leverage > np.concatenate([[0.0], np.maximum.accumulate(leverage)[:-1]])
    t, leverage = t[new], leverage[new]
    most = float((t * leverage).max()) * _MERGED
    kept_t, kept = [t[0]], [leverage[0]]
    for one, level in zip(t[1:], leverage[1:], strict=True):
        if kept_t[-1] * level <= most:
            kept[-1] = level
        else:
            kept_t.append(one)
            kept.append(level)
    return np.array(kept_t), np.array(kept)


@lru_cache(maxsize=16)
def _cells(records: int, label_bound: float, variance: float, noise: float) -> tuple[Floats, Floats, Floats]:
    """Return the largest ω and w of each cell that a neighbour may lie in, and the largest r²/s there, rounded up."""
    others, ends = records - 1, np.arange(_CELLS + 1) / _CELLS
    taken = ends * (variance / (variance + noise))  # ω/s; its even steps are fine if the labels' noise is small
    shares = np.unique(np.concatenate([ends, np.minimum(taken[1:-1] / (1.0 - taken[1:-1]) * (noise / variance), 1.0)]))
    low, high = shares[:-1, None], shares[1:, None]  # ends of ω/L
    floor = 1.0 / (others * variance / noise * _UP + 1.0) / _UP
    least = np.maximum(np.maximum(ends[:-1][None, :], low), floor)  # the least w
    inside = ends[1:][None, :] >= np.maximum(low, floor)
    x = variance / noise * _UP
    residual = (1.0 + np.sqrt(others * x * high * (1.0 - np.minimum(least, 1.0)) * _UP)) ** 2
    # r²/s ≤ yᵀA⁻¹y ≤ nB²/σ² as well
    leverage = label_bound**2 / noise * np.minimum(residual / (1.0 + low * x / _UP**2), records) * _UP
    omega, w = np.broadcast_arrays(high * variance * _UP, ends[1:][None, :])
    corners = omega[inside], w[inside], leverage[inside]
    for array in corners:
        array.setflags(write=False)
    return corners


def largest_eigenvalue(matrix: NDArray[Any]) -> Fraction:
    """Certify an upper bound of the largest eigenvalue of a symmetric integer matrix; public."""
    n = len(matrix)
    if n == 1:
        return Fraction(matrix[0, 0])
    guess = float(np.linalg.eigvalsh(matrix.astype(np.float64))[-1])
    slack = 2.0**-40
    while slack < 1.0:
        bound = math.ceil(guess * (1 + slack)) + 1
        if positive_definite(np.eye(n, dtype=int).astype(object) * bound - matrix):
            return Fraction(bound)
        slack *= 16
    return Fraction(max(int(abs(row).sum()) for row in matrix))
