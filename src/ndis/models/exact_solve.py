"""Linear algebra over the rationals is exact, so that neighbours differ by exactly what the theorems say."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

import numpy as np
from flint import fmpq_mat, fmpz_mat
from numpy.typing import NDArray

from ndis._exact import ExactArray

Release = Literal["draw", "mean"]  # a draw from the posterior plus noise, or its mean plus noise


def covariance_before_noise(dimension: int) -> ExactArray:
    """Return the covariance of a mean before noise: the zero matrix, exactly.

    >>> covariance_before_noise(2).to_float().tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    return ExactArray(np.zeros((dimension, dimension), dtype=int).astype(object))


def exact_inverse(matrix: ExactArray) -> ExactArray:
    """Invert a regular matrix exactly.

    >>> from ndis._exact import exact_array
    >>> exact_inverse(exact_array([[2.0, 0.0], [0.0, 0.5]])).to_float()
    array([[0.5, 0. ],
           [0. , 2. ]])
    """
    N = matrix.numerators
    content = int(np.gcd.reduce(N.ravel())) or 1
    return _scaled(fmpz_mat((N // content).tolist()).inv(), Fraction(matrix.denominator, content))


def posterior(
    among: NDArray[Any], across: NDArray[Any], queries: NDArray[Any] | None, labels: NDArray[Any], noise: Fraction
) -> tuple[ExactArray, ExactArray]:
    """Compute mean and covariance of Gaussian process regression, exactly (def:gpr-gaussian-output):

        μ = Kᵀ⋆ (K + σ²I)⁻¹ y,      Σ = K⋆⋆ − Kᵀ⋆ (K + σ²I)⁻¹ K⋆.

    Parameters
    ----------
    among, across, queries : integer arrays (n, n), (n, q), (q, q)
        K, K⋆ and K⋆⋆, in units of the kernel grid. Without K⋆⋆ the covariance is that of a mean before noise: zero.
    labels : (n,) integer array
        y, in units of the label grid.
    noise : Fraction
        σ², in units of the kernel grid.

    Returns
    -------
    mean, covariance : ExactArray
        In units of the label grid and of the kernel grid.

    Examples
    --------
    >>> mean, covariance = posterior(*(np.array([[1]], dtype=object),) * 3, np.array([3], dtype=object), Fraction(1, 2))
    >>> mean.to_float(), covariance.to_float()
    (array([2.]), array([[0.33333333]]))
    """
    (n, q), drawn = across.shape, queries is not None
    mean, product, denominator = np.zeros(q, dtype=object), np.zeros((q, q), dtype=int).astype(object), 1
    if n:
        solved = _solved(among, across if drawn else across[:, :0], labels, noise)
        both = _scaled(fmpq_mat(fmpz_mat(across.T.tolist())) * solved, Fraction(1))
        mean, product, denominator = both.numerators[:, -1].copy(), both.numerators[:, :-1], both.denominator
    if queries is None:
        return ExactArray(mean, denominator), covariance_before_noise(q)
    return ExactArray(mean, denominator), ExactArray(queries * denominator - product, denominator)


def _solved(among: NDArray[Any], across: NDArray[Any], labels: NDArray[Any], noise: Fraction) -> Any:
    """Apply (K + σ²I)⁻¹ to the columns of `across` and to the labels; K + σ²I is positive definite."""
    A = among * noise.denominator
    A[np.diag_indices(len(A))] += noise.numerator
    sides = fmpz_mat(np.concatenate([across, labels[:, None]], axis=1).tolist())
    return fmpz_mat(A.tolist()).solve(sides) * noise.denominator


def _scaled(matrix: Any, factor: Fraction) -> ExactArray:
    numerators, denominator = matrix.numer_denom()
    shape = (matrix.nrows(), matrix.ncols())
    entries = np.array([int(e) for e in numerators.entries()], dtype=object).reshape(shape)
    return ExactArray(entries * factor.numerator, int(denominator) * factor.denominator)
