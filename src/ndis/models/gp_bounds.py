"""Bound how far one record can move a Gaussian process, and how far its kernel in floats is from an exact one.

The pair of one record is that of thm:process-pair. Given N others, take a record of variance at most L. Let ω be its
variance before its label, s = ω + σ², r its residual, and γ its covariances with the query
points. There is a number w (thm:process-record) with

    max(ω/L, σ²/(NL + σ²)) ≤ w ≤ 1,    |r| ≤ B(1 + √(Nω(1−w))/σ),    ‖γ‖² ≤ Λωw,    γᵀ(Σ'+vI)⁻¹γ ≤ ω·Λw/(Λw + v).

If the residual is large, ω or w is small, and the record moves less.

scikit-learn's kernels, computed in floats, are within known errors of positive semidefinite ones.
For each there is a positive semidefinite k with |k̂(a, b) − k(a, b)| ≤ ρ·√(k(a, a)k(b, b)) + α and k(x, x) ≤ M. This
holds for all points of p coordinates within ±`point_bound`. With u = 2⁻⁵³, and NumPy's exp and power within 32u:

    constant, white             ρ = 0
    RBF, Matérn (½, 1½, 2½, ∞)  ρ = (p + 64)u           dot product              ρ = (p + 4)u
    sum                         ρ = max(ρ₁, ρ₂) + 2u    product                  ρ = ρ₁ + ρ₂ + ρ₁ρ₂ + 2u

α covers underflow. The proof is in docs/models.md. Kernels of other types, and classes derived from these, are unknown.
"""

from __future__ import annotations

import heapq
import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from flint import arb
from numpy.typing import NDArray

from ndis._balls import exact_ball, outward, precision
from ndis._validate import Floats, frozen
from ndis.errors import ParameterError
from ndis.noise.gaussian import positive_definite

_BITS = 128
_SETTLED = 2.0**-16  # how far, relatively, a bound may lie above the supremum
_MOST_SPLITS = 4000
_CELLS = 128  # the range of ω, and that of w, are cut into this many
_UP = 1.0 + 2.0**-40  # past the rounding of a few operations
_MERGED = 1.002  # what a merged cell may add to the largest m²
_UNIT = 2.0**-53
_UNDERFLOW = 2.0**-500
_LEAST = 2.0**-40  # the least tolerance, times the bound on variances: far more than most kernels need
_SMALLEST, _LARGEST = 2.0**-100, 2.0**100  # parameters and coordinates lie between them
_WIDEST = 2.0**900  # M is at most this: nothing overflows


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
    return frozen(omega[inside]), frozen(w[inside]), frozen(leverage[inside])


def largest_eigenvalue(matrix: NDArray[Any]) -> Fraction:
    """Certify an upper bound of the largest eigenvalue of a symmetric integer matrix; public."""
    n = len(matrix)
    if n == 1:
        return Fraction(matrix[0, 0])
    guess = float(np.linalg.eigvalsh(matrix.astype(np.float64))[-1])
    for slack in (2.0**-40, 2.0**-24, 2.0**-8):
        bound = math.ceil(guess * (1 + slack)) + 1
        if positive_definite(np.eye(n, dtype=int).astype(object) * bound - matrix):
            return Fraction(bound)
    return Fraction(max(int(abs(row).sum()) for row in matrix))


# ---------------------------------------------------------------------- errors of kernels


class KernelError(NamedTuple):
    """ρ, α and M are those of the error bound above."""

    relative: float
    absolute: float
    largest: float


def kernel_error(kernel: Any, *, features: int, point_bound: float) -> KernelError | None:
    """Return the error bound of a kernel over all points of the box, or None if none is known.

    >>> from sklearn.gaussian_process.kernels import RBF, PairwiseKernel
    >>> kernel_error(2.0 * RBF(0.5), features=3, point_bound=1e6).relative < 2.0**-46
    True
    >>> kernel_error(PairwiseKernel(metric="rbf"), features=3, point_bound=1e6) is None
    True
    """
    if type(kernel).__module__ != "sklearn.gaussian_process.kernels" or not point_bound <= _LARGEST:
        return None
    error = _known(kernel, features, point_bound)
    return error if error is not None and error.largest <= _WIDEST else None


def derived_tolerance(kernel: Any, *, features: int, point_bound: float, prior_variance_bound: float) -> float:
    """Bound |k̂ − k| over all points of the box with variances at most L = `prior_variance_bound`.

    It is 2⁻⁴⁰L, or more if that is too little. Integer constants in the kernel become floats, in place.

    >>> from sklearn.gaussian_process.kernels import RBF
    >>> derived_tolerance(RBF(1.0), features=2, point_bound=1e6, prior_variance_bound=1.0) == 2.0**-40
    True
    >>> derived_tolerance(lambda a, b: a @ b.T, features=2, point_bound=1e6, prior_variance_bound=1.0)
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: kernel_tolerance must be stated for a kernel whose rounding errors are not known; ...
    """
    if type(kernel).__module__.startswith("sklearn."):
        _float_constants(kernel)
    error = kernel_error(kernel, features=features, point_bound=point_bound)
    if error is None:
        rule = "be stated for a kernel whose rounding errors are not known"
        remedy = "state a bound that you can prove for all points within point_bound, or use RBF, Matern (nu 0.5, 1.5, "
        remedy += "2.5 or inf), DotProduct, ConstantKernel, WhiteKernel, their sums, products"
        raise ParameterError("kernel_tolerance", rule, None, remedy)
    # variances are at most L up to the same errors, so ρ√(k(a, a)k(b, b)) + α is below twice ρL + α
    return max(_LEAST * prior_variance_bound, 2 * (error.relative * prior_variance_bound + error.absolute))


def _float_constants(kernel: Any) -> None:
    """Turn the constants of a kernel into floats, in place. Integers would overflow."""
    from sklearn.gaussian_process.kernels import ConstantKernel, KernelOperator

    if isinstance(kernel, KernelOperator):
        _float_constants(kernel.k1)
        _float_constants(kernel.k2)
    elif isinstance(kernel, ConstantKernel) and type(kernel.constant_value) is int:
        kernel.constant_value = float(kernel.constant_value)


def _known(kernel: Any, p: int, point_bound: float) -> KernelError | None:
    """Return the error bounds of a kernel of scikit-learn; None if they are not proved."""
    from sklearn.gaussian_process import kernels as sk

    kind = type(kernel)
    if kind is sk.WhiteKernel:  # zero between two matrices
        return KernelError(0.0, 0.0, 0.0)
    if kind is sk.ConstantKernel and _between(0.0, kernel.constant_value):
        return KernelError(0.0, 0.0, float(kernel.constant_value))
    if kind in (sk.RBF, sk.Matern) and getattr(kernel, "nu", 0.5) in (0.5, 1.5, 2.5, math.inf):
        scales = np.ravel(kernel.length_scale).tolist()
        if all(_between(_SMALLEST, scale) for scale in scales):
            return KernelError((p + 64) * _UNIT, _UNDERFLOW, 1.0)
    if kind is sk.DotProduct and _between(0.0, kernel.sigma_0):
        return KernelError((p + 4) * _UNIT, _UNDERFLOW, p * point_bound**2 + kernel.sigma_0**2)
    if kind in (sk.Sum, sk.Product):
        both = [kernel_error(each, features=p, point_bound=point_bound) for each in (kernel.k1, kernel.k2)]
        if both[0] is not None and both[1] is not None:
            return (_sum if kind is sk.Sum else _product)(both[0], both[1])
    return None


def _between(smallest: float, value: Any) -> bool:
    return isinstance(value, int | float) and smallest <= value <= _LARGEST


def _sum(one: KernelError, other: KernelError) -> KernelError:
    relative = max(one.relative, other.relative) + 2 * _UNIT
    return KernelError(relative, 2 * (one.absolute + other.absolute), one.largest + other.largest)


def _product(one: KernelError, other: KernelError) -> KernelError:
    relative = one.relative + other.relative + one.relative * other.relative + 2 * _UNIT
    crossed = one.absolute * (2 * other.largest + other.absolute) + 2 * other.absolute * one.largest
    return KernelError(relative, 2 * crossed + _UNDERFLOW, one.largest * other.largest)
