"""Enclose the Cholesky factor of an exact covariance to any precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb, arb_mat, fmpz, fmpz_mat
from numpy.typing import NDArray

from ndis._balls import cholesky, precision
from ndis._exact import ExactArray
from ndis.errors import ParameterError
from ndis.noise.normals import nearest_integer

__all__ = ["CovarianceRoot", "positive_definite"]

_PANEL = 24  # columns factored entry by entry; everything else is a matrix product
Rows = list[list[arb]]


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
        if not np.array_equal(N, N.T):
            raise ParameterError("covariance", "be symmetric", "an asymmetric matrix")
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
    n = len(rows)
    result = np.zeros((n, n), dtype=object)
    for i in range(n):
        for j in range(i + 1):
            entry = nearest_integer(rows[i][j] * scale)
            if entry is None:
                return None
            result[i, j] = entry
    return result


def _not_positive() -> ParameterError:
    return ParameterError("covariance", "be positive definite", "a matrix that is not", "add a positive ridge")
