"""Draw exact rounded Gaussians: the ideal real-valued draw, rounded to a public grid (thm:exact-draw).

With L the root of the covariance, z the normals and g the grid, the released integers are ⌊(μ + Lz)/g + ½⌋. In fixed
point, with Lᶠ, zᶠ, μᶠ integers within one unit of 2^q·L, 2^p·z, 2^(p+q)·μ,

    | 2^(p+q)·(μ + Lz)ᵢ − (μᶠ + Lᶠzᶠ)ᵢ |  ≤  Eᵢ = Σⱼ |Lᶠᵢⱼ| + Σⱼ |zᶠⱼ| + d + 1,

because (Lᶠ + a)(zᶠ + b) − Lᶠzᶠ = Lᶠb + azᶠ + ab with |a|, |b| ≤ 1. If both ends of this interval round to the same
integer, that integer is the answer. Otherwise p and q grow by 64 until all do, with further digits of the same reals.
A tie has probability zero. No number on this path is a float.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, arb_mat, fmpz, fmpz_mat
from numpy.typing import NDArray

from ndis._balls import cholesky, precision
from ndis._exact import ExactArray, exact_array
from ndis._validate import require
from ndis.errors import ParameterError
from ndis.noise.bits import LazyNormals, RandomBits, nearest_integer, random_bits

_GRID_BITS = 20  # the default grid is 2⁻²⁰ of the noise
_MARGIN_BITS = 40  # the first enclosure is 2⁻⁴⁰ of the grid: one entry in 2³⁹ needs a second look
_MORE_BITS = 64
_NORMALS_AT_ONCE = 1 << 17  # bounds the memory of large draws
_PANEL = 24  # columns factored entry by entry; everything else is a matrix product
Rows = list[list[arb]]


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

    Examples
    --------
    >>> sample = ExactSample(np.array([3, -1]), grid=0.25, private=True)
    >>> sample.values
    array([ 0.75, -0.25])
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
    require(2.0**-500 <= noise_std <= 2.0**500, "noise_std", "be positive and between 2^-500 and 2^500", noise_std)
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
    require(not noise.shape and noise.numerators.item() > 0, name, "be one positive number", given)
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
    """Draw columns of correlated noise, rounded exactly; digits are added until every entry is decided."""
    d = root.size
    normals = LazyNormals(d * count, bits)
    # E is 2^-p·Σ|L| + 2^-q·Σ|z| in real units; Σ|z| is about d. Both parts start near 2^-margin of the grid.
    p = max(_MARGIN_BITS - exponent + root.row_sum_bits, _MARGIN_BITS)
    q = max(_MARGIN_BITS - exponent + d.bit_length(), _MARGIN_BITS)
    while True:
        L = root.fixed_point(q)
        z = np.array(normals.fixed_point(range(d * count), p), dtype=object).reshape(d, count)
        product = np.array([int(e) for e in (fmpz_mat(L.tolist()) * fmpz_mat(z.tolist())).entries()], dtype=object)
        centre = product.reshape(d, count) + np.broadcast_to(mean.fixed_point(p + q), (d, count))
        error = abs(L).sum(axis=1)[:, None] + abs(z).sum(axis=0) + d + 1  # E, in units of 2^-(p+q)
        shift = p + q + exponent
        lower, upper = ((end + (1 << (shift - 1))) >> shift for end in (centre - error, centre + error))
        if np.array_equal(lower, upper):
            return np.asarray(lower, dtype=object)
        p, q = p + _MORE_BITS, q + _MORE_BITS  # about once in 2³⁹ entries


def _exponent(grid: Any) -> int:
    number = isinstance(grid, int | float) and not isinstance(grid, bool) and 2.0**-900 <= grid <= 2.0**900
    if not number or math.frexp(grid)[0] != 0.5:
        raise ParameterError("grid", "be a positive power of two", grid, "grid_for(noise_std) gives one")
    return math.frexp(grid)[1] - 1


def _narrow(integers: NDArray[Any]) -> NDArray[Any]:
    """Return int64 if every entry fits. The integers are released, so this may depend on them."""
    try:
        return integers.astype(np.int64)
    except OverflowError:
        return integers


def exact_symmetric(matrix: ExactArray, *, noise_std: float, random_state: Any = None) -> ExactSample:
    """Add symmetric noise to a symmetric matrix, of variance s² on the diagonal and s²/2 off it, drawn exactly.

    Parameters
    ----------
    matrix : ExactArray
        Private.
    noise_std : float
        s, public. The grid of the result depends on it only.
    random_state : optional
        As for `exact_normal`.

    Examples
    --------
    >>> sample = exact_symmetric(exact_array([[1, 0], [0, 1]]), noise_std=2.0)
    >>> bool((sample.values == sample.values.T).all()), sample.private
    (True, True)
    """
    bits, grid = random_bits(random_state), grid_for(noise_std)
    variance = Fraction(noise_std) ** 2
    upper = np.triu_indices(len(matrix.numerators), 1)
    diagonal = ExactArray(np.diag(matrix.numerators), matrix.denominator)
    above = ExactArray(matrix.numerators[upper], matrix.denominator)
    on = exact_normal(diagonal, noise_variance=variance, grid=grid, random_state=bits)
    off = exact_normal(above, noise_variance=variance / 2, grid=grid, random_state=bits)
    integers = np.zeros(matrix.shape, dtype=object)
    integers[upper] = off.integers
    integers += integers.T
    integers[np.diag_indices(len(integers))] = on.integers
    return ExactSample(integers, grid, bits.private)


# ---------------------------------------------------------------------- the root of a covariance


class CovarianceRoot:
    """L with L·Lᵀ = covariance, lower triangular, known to as many digits as the caller asks for.

    Parameters
    ----------
    covariance : ExactArray
        Symmetric and positive definite. A Gram matrix plus a positive ridge always is. For any other matrix the error
        depends on the covariance.

    Examples
    --------
    >>> from ndis._exact import exact_array
    >>> CovarianceRoot(exact_array([[4, 2], [2, 10]])).fixed_point(4).tolist()
    [[32, 0], [16, 48]]
    """

    def __init__(self, covariance: ExactArray) -> None:
        N = covariance.numerators
        if N.ndim != 2 or N.shape[0] != N.shape[1] or not len(N):
            raise ParameterError("covariance", "be a square matrix", f"shape {N.shape}")
        require(np.array_equal(N, N.T), "covariance", "be symmetric", "an asymmetric matrix")
        self._covariance = covariance
        self._known: dict[int, NDArray[Any]] = {}

    @property
    def size(self) -> int:
        """Return the number of dimensions."""
        return len(self._covariance.numerators)

    @property
    def row_sum_bits(self) -> int:
        """Return b with Σⱼ |Lᵢⱼ| ≤ √(d·Σᵢᵢ) ≤ 2^b for every row."""
        largest = self.size * max(np.diag(self._covariance.numerators).tolist())
        return max(int(largest // self._covariance.denominator).bit_length() + 1, 0) // 2 + 1

    def fixed_point(self, digits: int) -> NDArray[Any]:
        """Return integers within one unit of L·2^digits, zero above the diagonal."""
        if digits not in self._known:
            self._known[digits] = self._enclose(digits)
        return self._known[digits]

    def _enclose(self, digits: int) -> NDArray[Any]:
        """Return the root in fixed point, from an exact Cholesky factorisation in balls."""
        N, denominator = self._covariance.numerators, self._covariance.denominator
        work = digits + self.row_sum_bits + 64
        while True:
            with precision(work):
                scale = arb((1, digits)) / arb(fmpz(denominator)).sqrt()
                rows = _cholesky([[arb(fmpz(n)) for n in row] for row in N.tolist()])
                result = None if rows is None else _integers(rows, scale)
            if result is not None:
                return result
            if rows is None and fmpz_mat(N.tolist()).rank() < len(N):
                raise _not_positive()
            work *= 2  # positive definite, or certainly not: enough precision decides


def positive_definite(numerators: NDArray[Any]) -> bool:
    """Say if a symmetric regular matrix of integers is positive definite, with certainty.

    >>> [positive_definite(np.array([[2, x], [x, 2]], dtype=object)) for x in (1, 3)]
    [True, False]
    """
    try:
        CovarianceRoot(ExactArray(numerators)).fixed_point(0)
    except ParameterError:  # a pivot that is certainly not positive
        return False
    return True


def _cholesky(A: Rows) -> Rows | None:
    """Blocked Cholesky in ball arithmetic; None if the precision leaves a pivot's sign open."""
    n = len(A)
    L: Rows = [[] for _ in range(n)]
    for start in range(0, n, _PANEL):
        stop = min(start + _PANEL, n)
        S = [row[start:stop] for row in A[start:]]
        if start:
            S = (arb_mat(S) - arb_mat(L[start:]) * arb_mat(L[start:stop]).transpose()).tolist()
        corner = cholesky(S[: stop - start], _not_positive)
        if corner is None:
            return None
        for i, row in enumerate(corner):
            L[start + i] = L[start + i] + row
        if stop < n:
            try:
                below = arb_mat(corner).solve(arb_mat(S[stop - start :]).transpose(), algorithm="lu").transpose()
            except ZeroDivisionError:  # a pivot's enclosure holds zero
                return None
            for i, row in enumerate(below.tolist()):
                L[stop + i] = L[stop + i] + row
    return L


def _integers(rows: Rows, scale: arb) -> NDArray[Any] | None:
    """Round the scaled factor to integers; None if the precision leaves an entry open."""
    result = np.zeros((len(rows), len(rows)), dtype=object)
    for i, row in enumerate(rows):
        entries = [nearest_integer(x * scale) for x in row[: i + 1]]
        if None in entries:
            return None
        result[i, : i + 1] = entries
    return result


def _not_positive() -> ParameterError:
    return ParameterError("covariance", "be positive definite", "a matrix that is not", "add a positive ridge")
