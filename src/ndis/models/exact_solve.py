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
    inverse = fmpz_mat((N // content).tolist()).inv()
    return _scaled(inverse, Fraction(matrix.denominator, content))


def posterior(
    among: NDArray[Any], across: NDArray[Any], queries: NDArray[Any], labels: NDArray[Any], noise: Fraction
) -> tuple[ExactArray, ExactArray]:
    """Compute mean and covariance of Gaussian process regression, exactly (def:gpr-gaussian-output):

        μ = Kᵀ⋆ (K + σ²I)⁻¹ y,      Σ = K⋆⋆ − Kᵀ⋆ (K + σ²I)⁻¹ K⋆.

    Parameters
    ----------
    among, across, queries : integer arrays (n, n), (n, q), (q, q)
        K, K⋆ and K⋆⋆, in units of the kernel grid.
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
    n, q = across.shape
    if n == 0:
        return ExactArray(np.zeros(q, dtype=object)), ExactArray(queries)
    product = _scaled(fmpq_mat(fmpz_mat(across.T.tolist())) * _solved(among, across, labels, noise), Fraction(1))
    N, denominator = product.numerators, product.denominator
    return ExactArray(N[:, q].copy(), denominator), ExactArray(queries * denominator - N[:, :q], denominator)


def posterior_mean(among: NDArray[Any], across: NDArray[Any], labels: NDArray[Any], noise: Fraction) -> ExactArray:
    """Compute only the mean of `posterior`: one solve in place of one per query point.

    >>> one = np.array([[1]], dtype=object)
    >>> posterior_mean(one, one, np.array([3], dtype=object), Fraction(1, 2)).to_float()
    array([2.])
    """
    n, q = across.shape
    if n == 0:
        return ExactArray(np.zeros(q, dtype=object))
    weights = _scaled(_solved(among, across[:, :0], labels, noise), Fraction(1))
    return ExactArray(across.T @ weights.numerators[:, 0], weights.denominator)


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
