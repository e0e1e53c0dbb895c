"""scikit-learn's kernels, computed in floats, are within these errors of positive semidefinite ones.

For each there is a positive semidefinite k with |k̂(a, b) − k(a, b)| ≤ ρ·√(k(a, a)k(b, b)) + α and k(x, x) ≤ M. This
holds for all points of p coordinates within ±`point_bound`. With u = 2⁻⁵³, and NumPy's exp and power within 32u:

    constant, white             ρ = 0
    RBF, Matérn (½, 1½, 2½, ∞)  ρ = (p + 64)u           rational quadratic       ρ = (p + 64 + 2·alpha)u
    dot product                 ρ = (p + 4)u
    sum                         ρ = max(ρ₁, ρ₂) + 2u    product                  ρ = ρ₁ + ρ₂ + ρ₁ρ₂ + 2u
    power n                     ρ = (1 + ρ₁)ⁿ − 1 + 40u

α covers underflow. The proof is in docs/models.md. Kernels of other types, and classes derived from these, are unknown.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ndis.errors import ParameterError

__all__ = ["KernelError", "derived_tolerance", "kernel_error"]

_UNIT = 2.0**-53
_UNDERFLOW = 2.0**-500
_LEAST = 2.0**-40  # the least tolerance, times the bound on variances: far more than most kernels need
_SMALLEST, _LARGEST = 2.0**-100, 2.0**100  # parameters and coordinates lie between them
_WIDEST = 2.0**900  # M is at most this: nothing overflows
_COARSEST = 2.0**-10  # ρ is at most this
_HIGHEST_POWER = 64


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
    return error if error is not None and error.largest <= _WIDEST and error.relative <= _COARSEST else None


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
        remedy += "2.5 or inf), RationalQuadratic, DotProduct, ConstantKernel, WhiteKernel, their sums, products, "
        remedy += "whole powers"
        raise ParameterError("kernel_tolerance", rule, None, remedy)
    # variances are at most L up to the same errors, so ρ√(k(a, a)k(b, b)) + α is below twice ρL + α
    return max(_LEAST * prior_variance_bound, 2 * (error.relative * prior_variance_bound + error.absolute))


def _float_constants(kernel: Any) -> None:
    """Turn the constants of a kernel into floats, in place. Integers would overflow."""
    from sklearn.gaussian_process.kernels import ConstantKernel, Exponentiation, KernelOperator

    if isinstance(kernel, KernelOperator):
        _float_constants(kernel.k1)
        _float_constants(kernel.k2)
    elif isinstance(kernel, Exponentiation):
        _float_constants(kernel.kernel)
    elif isinstance(kernel, ConstantKernel) and type(kernel.constant_value) is int:
        kernel.constant_value = float(kernel.constant_value)


def _known(kernel: Any, p: int, point_bound: float) -> KernelError | None:
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
    if kind is sk.RationalQuadratic and _between(_SMALLEST, kernel.alpha) and _between(_SMALLEST, kernel.length_scale):
        return KernelError((p + 64 + 2 * kernel.alpha) * _UNIT, _UNDERFLOW, 1.0)
    if kind is sk.DotProduct and _between(0.0, kernel.sigma_0):
        return KernelError((p + 4) * _UNIT, _UNDERFLOW, p * point_bound**2 + kernel.sigma_0**2)
    if kind in (sk.Sum, sk.Product):
        both = [kernel_error(each, features=p, point_bound=point_bound) for each in (kernel.k1, kernel.k2)]
        if both[0] is not None and both[1] is not None:
            return (_sum if kind is sk.Sum else _product)(both[0], both[1])
    if kind is sk.Exponentiation:
        base = kernel_error(kernel.kernel, features=p, point_bound=point_bound)
        if base is not None and kernel.exponent in range(1, _HIGHEST_POWER + 1):
            return _power(base, int(kernel.exponent))
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


def _power(base: KernelError, n: int) -> KernelError:
    relative = math.expm1(n * math.log1p(base.relative)) + 40 * _UNIT
    widest = 2 * base.largest + base.absolute
    if widest > _WIDEST ** (1 / n):
        return KernelError(relative, math.inf, math.inf)
    return KernelError(relative, 2 * n * base.absolute * widest ** (n - 1) + _UNDERFLOW, base.largest**n)
