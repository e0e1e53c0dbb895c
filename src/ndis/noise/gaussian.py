"""Draw exact rounded Gaussians: the ideal real-valued draw, rounded to a public grid (thm:exact-draw).

With L the root of the covariance, z the normals and g the grid, the released integers are ⌊(μ + Lz)/g + ½⌋. In fixed
point, with Lᶠ, zᶠ, μᶠ integers within one unit of 2^q·L, 2^p·z, 2^(p+q)·μ,

    | 2^(p+q)·(μ + Lz)ᵢ − (μᶠ + Lᶠzᶠ)ᵢ |  ≤  Eᵢ = Σⱼ |Lᶠᵢⱼ| + Σⱼ |zᶠⱼ| + d + 1,

because (Lᶠ + a)(zᶠ + b) − Lᶠzᶠ = Lᶠb + azᶠ + ab with |a|, |b| ≤ 1. If both ends of this interval round to the same
integer, that integer is the answer. Otherwise p and q grow by 64 until they do, with further digits of the same reals.
A tie has probability zero. No number on this path is a float.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpz_mat
from numpy.typing import NDArray

from ndis._exact import ExactArray, exact_array
from ndis.errors import ParameterError
from ndis.noise.bits import RandomBits, random_bits
from ndis.noise.normals import LazyNormals
from ndis.noise.root import CovarianceRoot

__all__ = ["ExactSample", "draw_rounded", "exact_gaussian", "exact_normal", "grid_for"]

_GRID_BITS = 20  # the default grid is 2⁻²⁰ of the noise
_MARGIN_BITS = 40  # the first enclosure is 2⁻⁴⁰ of the grid: one entry in 2³⁹ needs a second look
_MORE_BITS = 64
_NORMALS_AT_ONCE = 1 << 17  # bounds the memory of large draws


@dataclass(frozen=True, eq=False)
class ExactSample:
    """A draw rounded to a grid: ``integers`` × ``grid``.

    Attributes
    ----------
    integers : array
        int64, or Python integers if int64 would overflow.
    grid : float
        A power of two.
    private : bool
        False if a seed made the draw. Do not release such a sample.
    """

    integers: NDArray[Any]
    grid: float
    private: bool

    @property
    def values(self) -> NDArray[np.float64]:
        """The draw as float64: exact below 2⁵³ grid steps, correctly rounded beyond."""
        up, down = Fraction(self.grid).as_integer_ratio()
        return ExactArray(np.asarray(np.asarray(self.integers).astype(object) * up, dtype=object), down).to_float()


def grid_for(noise_std: float) -> float:
    """Return the largest power of two not above 2⁻²⁰ of a *public* noise level.

    >>> grid_for(1.0) == 2.0**-20 and grid_for(3.9) == 2.0**-19
    True
    """
    if not 2.0**-500 <= noise_std <= 2.0**500:
        raise ParameterError("noise_std", "be positive and between 2^-500 and 2^500", noise_std)
    return math.ldexp(0.5, math.frexp(noise_std)[1] - _GRID_BITS)


def exact_gaussian(
    mean: Any,
    covariance: Any,
    *,
    size: int,
    grid: float,
    random_state: Any = None,
    show: Callable[[float], None] | None = None,
) -> ExactSample:
    """Draw ``size`` vectors from N(mean, covariance), rounded to the grid, exactly.

    Parameters
    ----------
    mean : array_like of length d, or one number for all
        Integers, fractions or floats, taken as exact; or an `ExactArray`.
    covariance : (d, d) array_like
        Likewise; symmetric and positive definite, as every Gram matrix plus a positive ridge is.
    size : int
        Number of independent vectors.
    grid : float
        A public power of two, far below the noise: ``grid_for(noise_std)`` of a *public* noise level, such as the
        square root of the ridge. It has no default, because a grid from the covariance would leak it.
    random_state : optional
        None draws from the operating system. Anything else is reproducible, warns, and is not private.
    show : callable, optional
        Called with the share of the vectors that are drawn, after each part of a size that is public.

    Returns
    -------
    ExactSample
        Of shape (size, d).

    Examples
    --------
    >>> sample = exact_gaussian(0, [[2.0, 1.0], [1.0, 2.0]], size=3, grid=grid_for(1.0))
    >>> sample.values.shape, sample.private
    ((3, 2), True)
    """
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
        raise ParameterError("size", "be a number of vectors, not negative", size)
    exponent = _exponent(grid)
    root = CovarianceRoot(exact_array(covariance, name="covariance"))
    centre = exact_array(mean, name="mean")
    if centre.shape not in ((), (root.size,)):
        raise ParameterError("mean", f"have {root.size} entries, like covariance", f"shape {centre.shape}")
    column = np.broadcast_to(centre.numerators, (root.size,)).reshape(-1, 1)
    bits = random_bits(random_state)
    drawn = draw_rounded(ExactArray(column, centre.denominator), root, int(size), exponent, bits, show)
    return ExactSample(_narrow(drawn.T), grid, bits.private)


def exact_normal(
    mean: Any, *, noise_std: Any = None, noise_variance: Any = None, grid: float | None = None, random_state: Any = None
) -> ExactSample:
    """Add independent N(0, noise_std²) to every entry of ``mean`` and round to the grid, exactly.

    Parameters
    ----------
    mean : number or array_like
        Integers, fractions or floats, taken as exact; or an `ExactArray`. Of any shape.
    noise_std, noise_variance : number
        Exactly one of them; public.
    grid : float, optional
        A public power of two; by default ``grid_for`` the noise.
    random_state : optional
        None draws from the operating system. Anything else is reproducible, warns, and is not private.

    Examples
    --------
    >>> sample = exact_normal([1.0, 2.0, 3.0], noise_std=0.5)
    >>> sample.values.shape, sample.grid == 2.0**-21
    ((3,), True)
    """
    if (noise_std is None) == (noise_variance is None):
        raise ParameterError("noise_std or noise_variance", "be given, exactly one", "both or neither")
    name, given = ("noise_std", noise_std) if noise_variance is None else ("noise_variance", noise_variance)
    noise = exact_array(given, name=name)
    if noise.shape or not noise.numerators.item() > 0:
        raise ParameterError(name, "be one positive number", given)
    power = 2 if noise_variance is None else 1
    variance = ExactArray(noise.numerators.reshape(1, 1) ** power, noise.denominator**power)
    if grid is None:
        grid = grid_for(math.sqrt(float(variance.to_float().item())))
    centre = exact_array(mean, name="mean")
    row = ExactArray(centre.numerators.reshape(1, -1), centre.denominator)
    bits = random_bits(random_state)
    drawn = draw_rounded(row, CovarianceRoot(variance), row.shape[1], _exponent(grid), bits)
    return ExactSample(_narrow(drawn).reshape(centre.shape), grid, bits.private)


def draw_rounded(
    mean: ExactArray,
    root: CovarianceRoot,
    count: int,
    exponent: int,
    bits: RandomBits,
    show: Callable[[float], None] | None = None,
) -> NDArray[Any]:
    """⌊(μ + Lz)/2^exponent + ½⌋ for ``count`` columns z of fresh normals. ``mean`` has one column, or one per z."""
    step = max(_NORMALS_AT_ONCE // root.size, 1)
    columns = []
    for start in range(0, count, step):
        piece = ExactArray(mean.numerators[:, start : start + step], mean.denominator) if mean.shape[1] > 1 else mean
        columns.append(_draw_columns(piece, root, min(step, count - start), exponent, bits))
        if show is not None:
            show(min(start + step, count) / count)
    return np.concatenate([np.empty((root.size, 0), dtype=object), *columns], axis=1)


def _draw_columns(mean: ExactArray, root: CovarianceRoot, count: int, exponent: int, bits: RandomBits) -> NDArray[Any]:
    d = root.size
    normals = LazyNormals(d * count, bits)
    # E is 2^-p·Σ|L| + 2^-q·Σ|z| in real units; Σ|z| is about d. Both parts start near 2^-margin of the grid.
    p = max(_MARGIN_BITS - exponent + root.row_sum_bits, _MARGIN_BITS)
    q = max(_MARGIN_BITS - exponent + d.bit_length(), _MARGIN_BITS)
    L = root.fixed_point(q)
    z = np.array(normals.fixed_point(range(d * count), p), dtype=object).reshape(d, count)
    centre = np.broadcast_to(mean.fixed_point(p + q), (d, count))
    lower, upper = _round_interval(_product(L, z) + centre, _error(L, z), p + q + exponent)
    for i, c in np.argwhere(lower != upper).tolist():
        one = ExactArray(mean.numerators[i : i + 1, [c if mean.shape[1] > 1 else 0]], mean.denominator)
        lower[i, c] = _resolve(one, root, normals, i, range(c, d * count, count), (p, q, exponent))
    return lower


def _resolve(
    mean: ExactArray, root: CovarianceRoot, normals: LazyNormals, i: int, column: range, digits: tuple[int, int, int]
) -> int:
    """Refine one entry until its interval lies between two rounding boundaries."""
    p, q, exponent = digits
    while True:
        p, q = p + _MORE_BITS, q + _MORE_BITS
        L = root.fixed_point(q)[i : i + 1]
        z = np.array(normals.fixed_point(column, p), dtype=object).reshape(-1, 1)
        lower, upper = _round_interval(L @ z + mean.fixed_point(p + q), _error(L, z), p + q + exponent)
        if lower.item() == upper.item():
            return int(lower.item())


def _error(L: NDArray[Any], z: NDArray[Any]) -> NDArray[Any]:
    """Return E of the module's formula, in units of 2^-(p+q)."""
    return np.asarray(abs(L).sum(axis=1)[:, None] + abs(z).sum(axis=0) + L.shape[1] + 1, dtype=object)


def _round_interval(centre: NDArray[Any], error: NDArray[Any], shift: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """⌊x/2^shift + ½⌋ at both ends of centre ± error."""
    half = 1 << (shift - 1)
    return (centre - error + half) >> shift, (centre + error + half) >> shift


def _product(L: NDArray[Any], z: NDArray[Any]) -> NDArray[Any]:
    entries = (fmpz_mat(L.tolist()) * fmpz_mat(z.tolist())).entries()
    return np.array([int(e) for e in entries], dtype=object).reshape(len(L), -1)


def _exponent(grid: Any) -> int:
    if not isinstance(grid, int | float) or isinstance(grid, bool) or not 2.0**-900 <= grid <= 2.0**900:
        raise ParameterError("grid", "be a positive power of two", grid, "grid_for(noise_std) gives one")
    mantissa, exponent = math.frexp(grid)
    if mantissa != 0.5:
        raise ParameterError("grid", "be a power of two", grid, "grid_for(noise_std) gives one")
    return exponent - 1


def _narrow(integers: NDArray[Any]) -> NDArray[Any]:
    """Return int64 if every entry fits. The integers are released, so this may depend on them."""
    try:
        return integers.astype(np.int64)
    except OverflowError:
        return integers
