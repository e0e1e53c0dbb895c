"""From means and covariances to the invariants (t, τ, m) of a pair, in float64."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy
from numpy.linalg import LinAlgError

from ndis._validate import Floats, require
from ndis.errors import ParameterError, PrecisionError
from ndis.spectrum.origins import EXACT_SIZE, DenseOrigin, DiagonalOrigin, LowRankOrigin, Rounded

_DIGITS = 2.0**-50  # rounding of one step of whitening, with room

# An eigenvalue of a matrix with unit diagonal counts as zero below d times this.
_RANK = 2.0**-50
_WITHIN_FLOATS = "be within the range of floats in standard deviations of q"


class Whitened(NamedTuple):
    """Invariants of a pair as floats find them.

    `doubtful`: floats may have lost digits that matter. `singular`: a direction was dropped as singular to working
    precision.
    """

    rounded: Rounded
    doubtful: bool
    singular: bool = False


def invariants_of_diagonal(origin: DiagonalOrigin) -> Rounded:
    """Return the invariants of two Gaussians with independent coordinates."""
    mu_p, v_p, mu_q, v_q = origin.arrays
    fixed = (v_p == 0) & (v_q == 0) & (mu_p == mu_q)
    if (((v_p == 0) | (v_q == 0)) & ~fixed).any():
        return Rounded.singular()
    v_p, v_q = np.where(fixed, 1.0, v_p), np.where(fixed, 1.0, v_q)
    ratio = v_p / v_q
    t = np.where((ratio > 0.5) & (ratio < 2.0), (v_p - v_q) / v_q, ratio - 1.0)
    return Rounded(t, ratio, (mu_p - mu_q) / np.sqrt(v_q), np.ones(ratio.size))


def invariants_of_moments(origin: DenseOrigin) -> Rounded:
    """Return the invariants of two Gaussians given by means and covariances.

    If floats may have lost digits that matter, the exact binary inputs decide. Floats decide then only if rounding made
    those inputs no covariances.
    """
    mu_p, sigma_p, mu_q, sigma_q = origin.arrays
    d = mu_p.size
    with np.errstate(over="ignore"):
        shift = mu_p - mu_q
    floats = whiten(shift, sigma_p, sigma_q)
    if d <= EXACT_SIZE and (floats is None or floats.doubtful):
        exact = origin.rounded()
        if exact is not None:
            return exact
    elif floats is None or floats.singular:
        keep = origin.common_coordinates()
        if keep is None:
            return Rounded.singular()
        block = np.ix_(keep, keep)
        floats = whiten(shift[keep], sigma_p[block], sigma_q[block])
        if floats is None or floats.singular:
            raise PrecisionError(
                "a covariance is singular to working precision, though not exactly; give independent coordinates"
            )
    return Rounded.singular() if floats is None else floats.rounded


def invariants_of_low_rank(origin: LowRankOrigin, cholesky_q: Floats | None) -> Rounded:
    """Return the invariants of a pair whose covariances differ by a matrix of low rank."""
    mu_p, mu_q, sigma_q, factor, sign = origin.arrays
    with np.errstate(over="ignore"):
        shift = mu_p - mu_q
    floats = whiten_low_rank(shift, factor, sigma_q, int(sign), cholesky_q)
    if not floats.doubtful:
        return floats.rounded
    exact = origin.rounded() if mu_p.size <= EXACT_SIZE else None
    if exact is None:
        rule = "leave cov_q − F Fᵀ positive definite"
        raise ParameterError("factor", rule, "a matrix singular to working precision")
    return exact


def _solve(factor: Floats, right: Floats, *, transposed: bool = False) -> Floats:
    """L⁻¹ B or L⁻ᵀ B, by the BLAS routine that does not start threads for small matrices."""
    matrix = right.reshape(factor.shape[0], -1)
    solution: Floats = scipy.linalg.blas.dtrsm(1.0, factor, matrix, lower=1, trans_a=int(transposed))
    return solution.reshape(right.shape)


def scaling(cov: Floats) -> Floats:
    """Return powers of two that bring the variances to order one, exactly.

    So the answer does not depend on the units of a coordinate.
    """
    return np.array([2.0 ** -round(0.5 * math.log2(v)) if v > 0 else 1.0 for v in np.diagonal(cov)])


def semidefinite_spectrum(name: str, cov: Floats) -> tuple[Floats, Floats, float]:
    """Eigenvalues, eigenvectors and rank threshold of a scaled covariance; it must be positive semidefinite."""
    values, vectors = scipy.linalg.eigh(cov)
    threshold = cov.shape[0] * _RANK * max(values[-1], 0.0)
    if not values[0] >= -threshold:
        got = f"an eigenvalue of {values[0] / values[-1]:.3g} of the largest"
        raise ParameterError(name, "be positive semidefinite", got)
    return values, vectors, threshold


def _factor(name: str, cov: Floats) -> tuple[Floats, float] | None:
    """Lower Cholesky factor and condition number of a positive definite matrix with diagonal of order one.

    None if the matrix is singular to working precision.
    """
    values, _, threshold = semidefinite_spectrum(name, cov)
    if not values[0] > threshold:
        return None
    try:
        return scipy.linalg.cholesky(cov, lower=True), float(values[-1] / values[0])
    except LinAlgError:
        return None


def _restrict(shift: Floats, cov_p: Floats, cov_q: Floats) -> tuple[Floats, Floats, Floats] | None:
    """The pair inside the common range of two singular covariances; None if range or mean shift differ."""
    values, vectors, threshold = semidefinite_spectrum("cov_q", cov_q)
    own, _, own_threshold = semidefinite_spectrum("cov_p", cov_p)
    inside = values > threshold
    null, basis = vectors[:, ~inside], vectors[:, inside]
    level = 8 * cov_q.shape[0] * _RANK
    same_rank = np.count_nonzero(own > own_threshold) == np.count_nonzero(inside)
    same_range = np.linalg.norm(cov_p @ null) <= level * np.linalg.norm(cov_p)
    shift_inside = np.linalg.norm(null.T @ shift) <= level * np.linalg.norm(shift)
    if not (same_rank and same_range and shift_inside):
        return None
    return basis.T @ shift, basis.T @ cov_p @ basis, basis.T @ cov_q @ basis


def whiten(shift: Floats, cov_p: Floats, cov_q: Floats) -> Whitened | None:
    """Return (t, τ, m) of N(shift, cov_p) against N(0, cov_q), or None if the laws seem mutually singular.

    Σ_q = CCᵀ,  C⁻¹(Σ_p − Σ_q)C⁻ᵀ = V diag(t) Vᵀ,  m = Vᵀ C⁻¹ shift. A ratio below ½ is
    τ = ‖C_pᵀ C⁻ᵀ v‖² instead, which keeps its own relative accuracy.
    """
    d = shift.size
    a = scaling(cov_q)
    with np.errstate(over="ignore"):
        shift, cov_p, cov_q = a * shift, a[:, None] * cov_p * a, a[:, None] * cov_q * a
    for name, array in (("mean_p - mean_q", shift), ("cov_p", cov_p), ("cov_q", cov_q)):
        require(np.isfinite(array).all(), name, _WITHIN_FLOATS, "an overflow")
    b = scaling(cov_p)
    found_q, found_p = _factor("cov_q", cov_q), _factor("cov_p", b[:, None] * cov_p * b)
    singular = found_q is None or found_p is None
    if found_q is None or found_p is None:
        inner = _restrict(shift, cov_p, cov_q)
        if inner is None:
            return None
        shift, cov_p, cov_q = inner
        if shift.size == 0:
            return Whitened(Rounded(np.zeros(1), np.ones(1), np.zeros(1), np.ones(1)), True, True)
        b = np.ones(shift.size)
        found_q, found_p = _factor("cov_q", cov_q), _factor("cov_p", cov_p)
        if found_q is None or found_p is None:
            return None
    (factor_q, condition), (factor_p, _) = found_q, found_p
    half = _solve(factor_q, cov_p - cov_q)
    a_matrix = _solve(factor_q, half.T)
    t, v = scipy.linalg.eigh(0.5 * (a_matrix + a_matrix.T))
    m = v.T @ _solve(factor_q, shift)
    w = _solve(factor_q, v, transposed=True)
    direct = np.sum((factor_p.T @ (w / b[:, None])) ** 2, axis=0)
    ratio = np.where(t < -0.5, direct, 1.0 + t)
    graded = np.abs(t).min() < 1e-3 * np.abs(t).max() or ratio.min() < 1e-2 or ratio.max() > 1e2
    doubtful = bool(singular or condition > 100.0 or graded)
    t = np.where(t < -0.5, direct - 1.0, t)
    return Whitened(Rounded(t, ratio, m, np.ones(t.size), error=d * _DIGITS * condition), doubtful, singular)


def whiten_low_rank(shift: Floats, factor: Floats, cov_q: Floats, sign: int, cholesky_q: Floats | None) -> Whitened:
    """Return (t, τ, m) of the pair with cov_p = cov_q + sign·F Fᵀ: the directions it changes, then the other shift.

    With C⁻¹F = U diag(s) Wᵀ the ratios are 1 ± s²; the part of C⁻¹·shift outside U has ratio one.
    """
    a = scaling(cov_q)
    scaled = a[:, None] * cov_q * a
    chol = _own_factor(scaled) if cholesky_q is None else _given_factor(a[:, None] * cholesky_q, scaled)
    with np.errstate(over="ignore", invalid="ignore"):
        y, f = _solve(chol, a * shift), _solve(chol, a[:, None] * factor)
    require(np.isfinite(y).all() and np.isfinite(f).all(), "factor and shift", _WITHIN_FLOATS, "an overflow")
    u, s, _ = np.linalg.svd(f, full_matrices=False)
    t = sign * s * s
    ratio = (1.0 - s) * (1.0 + s) if sign < 0 else 1.0 + t
    if not (ratio > -1e-9).all():
        raise ParameterError("factor", "leave cov_q − F Fᵀ positive definite", f"a variance ratio of {ratio.min():.3g}")
    m, n, d = u.T @ y, np.ones(t.size), shift.size
    others = float(np.linalg.norm(y - u @ m)) if t.size < d else 0.0
    for distance, copies in ((others, float(others > 0)), (0.0, float(d - t.size - (others > 0)))):
        if copies:  # the directions that F does not change: one with the other part of the shift, and those without
            t, ratio, m, n = (np.append(a, x) for a, x in ((t, 0.0), (ratio, 1.0), (m, distance), (n, copies)))
    pivots = np.diagonal(chol)
    condition = d * float(pivots.max() / pivots.min()) ** 2
    deficient = bool(((s > 0) & (s < 1e-6 * s.max(initial=0.0))).any()) and d <= EXACT_SIZE
    doubtful = bool(ratio.min(initial=1.0) < 1e-9) or deficient
    return Whitened(Rounded(t, ratio, m, n, error=d * _DIGITS * condition), doubtful)


def _own_factor(cov: Floats) -> Floats:
    """Return the Cholesky factor of a positive definite matrix with diagonal of order one; no eigenproblem."""
    try:
        factor: Floats = scipy.linalg.cholesky(cov, lower=True)
    except LinAlgError:
        factor = np.zeros_like(cov)
    pivots = np.diagonal(factor)
    if not pivots.min() ** 2 > cov.shape[0] * _RANK * pivots.max() ** 2:
        raise ParameterError("cov_q", "be positive definite", "a singular or indefinite matrix", "use from_moments")
    return factor


def _given_factor(factor: Floats, cov: Floats) -> Floats:
    """Return the caller's factor, checked against the covariance in O(d²): L(Lᵀz) = Σz for a fixed z."""
    z = np.cos(np.arange(1.0, cov.shape[0] + 1.0))
    lower = not np.triu(factor, 1).any() and (np.diagonal(factor) > 0).all()
    size = 1e-8 * np.abs(cov).sum(axis=1).max()
    good = lower and np.allclose(factor @ (factor.T @ z), cov @ z, rtol=0.0, atol=size)
    require(good, "cholesky_q", "be the lower Cholesky factor of cov_q", "another matrix")
    return factor
