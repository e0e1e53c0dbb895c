"""From means and covariances to the invariants (t, τ, m) of a pair, in float64."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh
from scipy.linalg.blas import dtrsm

from ndis._validate import Floats
from ndis.errors import ParameterError

__all__ = ["whiten", "whiten_low_rank"]

# An eigenvalue of a matrix with unit diagonal counts as zero below d times this.
_RANK = 2.0**-50


def _solve(factor: Floats, right: Floats, *, transposed: bool = False) -> Floats:
    """L⁻¹ B or L⁻ᵀ B, by the BLAS routine that does not start threads for small matrices."""
    matrix = right.reshape(factor.shape[0], -1)
    solution: Floats = dtrsm(1.0, factor, matrix, lower=1, trans_a=int(transposed))
    return solution.reshape(right.shape)


def _scale(cov: Floats) -> Floats:
    """Powers of two that bring the variances to order one, exactly; the answer does not depend on the units of a
    coordinate."""
    return np.array([2.0 ** -round(0.5 * math.log2(v)) if v > 0 else 1.0 for v in np.diagonal(cov)])


def _spectrum(name: str, cov: Floats) -> tuple[Floats, Floats, float]:
    """Eigenvalues, eigenvectors and rank threshold of a scaled covariance, refusing what is not positive
    semidefinite."""
    values, vectors = eigh(cov)
    threshold = cov.shape[0] * _RANK * max(values[-1], 0.0)
    if not values[0] >= -threshold:
        raise ParameterError(
            name, "be positive semidefinite", f"an eigenvalue of {values[0] / values[-1]:.3g} of the largest"
        )
    return values, vectors, threshold


def _factor(name: str, cov: Floats) -> Floats | None:
    """Lower Cholesky factor of a positive definite matrix with diagonal of order one; None when it is singular."""
    values, _, threshold = _spectrum(name, cov)
    if not values[0] > threshold:
        return None
    try:
        factor: Floats = cholesky(cov, lower=True)
    except LinAlgError:
        return None
    return factor


def _restrict(shift: Floats, cov_p: Floats, cov_q: Floats) -> tuple[Floats, Floats, Floats] | None:
    """The pair inside the common range of two singular covariances; None when range or mean shift differ."""
    values, vectors, threshold = _spectrum("cov_q", cov_q)
    own, _, own_threshold = _spectrum("cov_p", cov_p)
    inside = values > threshold
    null, basis = vectors[:, ~inside], vectors[:, inside]
    level = 8 * cov_q.shape[0] * _RANK
    same_rank = np.count_nonzero(own > own_threshold) == np.count_nonzero(inside)
    same_range = np.linalg.norm(cov_p @ null) <= level * np.linalg.norm(cov_p)
    shift_inside = np.linalg.norm(null.T @ shift) <= level * np.linalg.norm(shift)
    if not (same_rank and same_range and shift_inside):
        return None
    return basis.T @ shift, basis.T @ cov_p @ basis, basis.T @ cov_q @ basis


def whiten(shift: Floats, cov_p: Floats, cov_q: Floats) -> tuple[Floats, Floats, Floats, bool] | None:
    """(t, τ, m) of N(shift, cov_p) against N(0, cov_q), or None when the laws are mutually singular.

    The last value says whether floats may have lost digits that matter: a condition number above 100, or a t at the
    level of rounding of
    the largest (a difference of low rank).

    Σ_q = CCᵀ,  C⁻¹(Σ_p − Σ_q)C⁻ᵀ = V diag(t) Vᵀ,  m = Vᵀ C⁻¹ shift. A ratio below ½ is taken from τ = ‖C_pᵀ C⁻ᵀ v‖²
    instead, which
    keeps its own relative accuracy.
    """
    a = _scale(cov_q)
    shift, cov_p, cov_q = a * shift, a[:, None] * cov_p * a, a[:, None] * cov_q * a
    b = _scale(cov_p)
    factor_q, factor_p = _factor("cov_q", cov_q), _factor("cov_p", b[:, None] * cov_p * b)
    if (factor_q is None) != (factor_p is None):
        return None
    if factor_q is None or factor_p is None:
        inner = _restrict(shift, cov_p, cov_q)
        if inner is None:
            return None
        shift, cov_p, cov_q = inner
        if shift.size == 0:
            return np.zeros(1), np.ones(1), np.zeros(1), False
        factor_q, factor_p, b = cholesky(cov_q, lower=True), cholesky(cov_p, lower=True), np.ones(shift.size)
    half = _solve(factor_q, cov_p - cov_q)
    a_matrix = _solve(factor_q, half.T)
    t, v = eigh(0.5 * (a_matrix + a_matrix.T))
    m = v.T @ _solve(factor_q, shift)
    w = _solve(factor_q, v, transposed=True)
    direct = np.sum((factor_p.T @ (w / b[:, None])) ** 2, axis=0)
    ratio = np.where(t < -0.5, direct, 1.0 + t)
    pivots = np.diagonal(factor_q)
    ill = (pivots.max() / pivots.min()) ** 2 > 100.0 or ratio.min() < 1e-2 or ratio.max() > 1e2
    low_rank = np.abs(t).min() < 2.0**-40 * np.abs(t).max()
    return np.where(t < -0.5, direct - 1.0, t), ratio, m, bool(ill or low_rank)


def whiten_low_rank(
    shift: Floats, factor: Floats, cov_q: Floats, sign: int, cholesky_q: Floats | None
) -> tuple[Floats, Floats, Floats]:
    """(t, τ, m) of the pair with cov_p = cov_q + sign·F Fᵀ: the k directions it changes, then what is left of the
    shift.

    With C⁻¹F = U diag(s) Wᵀ the ratios are 1 ± s²; the part of C⁻¹·shift outside U has ratio one.
    """
    if cholesky_q is None:
        cholesky_q = _factor("cov_q", cov_q)
        if cholesky_q is None:
            raise ParameterError(
                "cov_q", "be positive definite", "a singular matrix", "use from_moments for singular covariances"
            )
    y = _solve(cholesky_q, shift)
    u, s, _ = np.linalg.svd(_solve(cholesky_q, factor), full_matrices=False)
    t = sign * s * s
    ratio = (1.0 - s) * (1.0 + s) if sign < 0 else 1.0 + t
    if not (ratio > 0).all():
        raise ParameterError("factor", "leave cov_q − F Fᵀ positive definite", f"a variance ratio of {ratio.min():.3g}")
    m = u.T @ y
    rest = float(np.linalg.norm(y - u @ m))
    if u.shape[1] < shift.size and rest > 0:
        t, ratio, m = np.append(t, 0.0), np.append(ratio, 1.0), np.append(m, rest)
    return t, ratio, m
