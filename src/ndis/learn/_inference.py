"""Estimates without shrinkage, their covariance and their table, from released values only.

The last round of a fit hardly clips a term. Its release g = A(θ* − θ) + N(0, σ²I), with A the Gram matrix and θ* the
least-squares solution, gives

    estimate = θ + Ã⁻¹g,      estimate − θ* = Ã⁻¹(noise − Eδ),      δ = θ* − θ,   E = Ã − A,

to first order in E. Given δ, Eδ is Gaussian with covariance s²/2·(|δ|²I + δδᵀ). So the covariance of the estimate
around the coefficients of the population is

    Ã⁻¹ (σ²I + s²/2·(|δ|²I + δδᵀ)) Ã⁻¹ + ς²Ã⁻¹,

with ς² the variance of the residuals: noise of privacy, and noise of sampling, for errors of equal variance. All
quantities were released, or are estimated from released ones (δ by Ã⁻¹g). The prior of the shrunk estimate has no part
in it, so intervals are for fixed coefficients.

The first order fails where Ã has an eigenvalue near the noise. Then nothing is known of that direction, and all
intervals are infinite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from ndis._text import html_table, text_table
from ndis._validate import Floats, as_one_probability, as_scalar
from ndis.learn._empirical_bayes import Round

__all__ = ["CoefficientTable", "Unshrunk", "newton", "normal_quantile", "unshrunk"]

# The least eigenvalue of the released matrix, over that of its noise, for the first order to hold.
_CLEAR = 1.2


def normal_quantile(level: float) -> float:
    """z with P(|N(0, 1)| ≤ z) = level.

    >>> round(normal_quantile(0.95), 6)
    1.959964
    """
    inside = as_one_probability("level", as_scalar("level", level))
    return float(ndtri((1.0 + inside) / 2.0))


@dataclass(frozen=True, eq=False)
class Unshrunk:
    """An estimate without shrinkage, for every target.

    Attributes
    ----------
    theta : (predictors, targets) array
    covariance : (targets, predictors, predictors) array
        Of its error, noise of privacy and of sampling; infinite where the matrix cannot be inverted reliably.
    residual_variance : (targets,) array
    records : float
        The estimated number of records.
    at : (predictors, targets) array
        Where the last round was taken.
    """

    theta: Floats
    covariance: Floats
    residual_variance: Floats
    records: float
    at: Floats

    def in_units(self, units: tuple[Floats, Floats], *, width: float = 1.0) -> Unshrunk:
        """The estimate mapped by (A, b): A·θ + b; residuals times `width`.

        >>> found = Unshrunk(np.ones((1, 1)), np.ones((1, 1, 1)), np.ones(1), 9.0, np.zeros((1, 1)))
        >>> moved = found.in_units((np.eye(1) * 6.0, np.ones(1)))
        >>> moved.theta.tolist(), moved.covariance.tolist(), moved.at.tolist()
        ([[7.0]], [[[36.0]]], [[1.0]])
        """
        matrix, shift = units
        theta, at = (matrix @ each + shift[:, None] for each in (self.theta, self.at))
        known = np.isfinite(self.covariance).all(axis=(1, 2), keepdims=True)
        covariance = matrix @ np.where(known, self.covariance, 0.0) @ matrix.T
        return Unshrunk(theta, np.where(known, covariance, np.inf), self.residual_variance * width**2, self.records, at)

    def errors(self) -> Floats:
        """Standard errors, (targets, predictors)."""
        return np.asarray(np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2)))

    def interval(self, features: int, level: float) -> Floats:
        """(targets, features, 2) array: intervals of the first coefficients."""
        half = normal_quantile(level) * self.errors()[:, :features]
        centre = self.theta[:features].T
        return np.stack([centre - half, centre + half], axis=-1)

    def predicted(self, rows: Any, level: float, *, residuals: bool = False) -> Floats:
        """(n, targets, 2) array: intervals of xᵀθ for rows x, or with `residuals` of a target at x.

        The constant is added to rows that lack it.

        >>> found = Unshrunk(np.ones((2, 1)), np.eye(2)[None], np.ones(1), 9.0, np.zeros((2, 1)))
        >>> found.predicted(np.zeros((1, 1)), 0.95).round(2).tolist()
        [[[-0.96, 2.96]]]
        """
        z = normal_quantile(level)
        x = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
        if len(self.theta) > x.shape[1]:
            x = np.hstack([x, np.ones((len(x), 1))])
        known = np.asarray(np.isfinite(self.covariance).all(axis=(1, 2)))
        covariance = np.where(known[:, None, None], self.covariance, 0.0)
        variance = np.einsum("ni,tij,nj->nt", x, covariance, x)
        if residuals:
            variance = variance + self.residual_variance
        centre, half = x @ self.theta, np.where(known, z * np.sqrt(variance), np.inf)
        return np.stack([centre - half, centre + half], axis=-1)


def unshrunk(
    last: Round, gram: Floats, *, noise: float, squares: Floats, square_noise: float, records: float
) -> Unshrunk:
    """From the last round, the released Gram matrix with noise s, and the noisy sums of squared residuals at its θ.

    >>> gram = np.diag([400.0, 100.0])
    >>> last = Round(np.zeros((2, 1)), np.array([[200.0], [100.0]]), noise=1.0)
    >>> found = unshrunk(last, gram, noise=0.01, squares=np.array([600.0]), square_noise=1.0, records=500.0)
    >>> found.theta.ravel().tolist(), np.sqrt(np.diagonal(found.covariance[0])).round(3).tolist()
    ([0.5, 1.0], [0.045, 0.09])
    """
    p, m = last.theta.shape
    records = max(records, p + 1.0)
    inverse = _inverse(gram, noise)
    if inverse is None:
        endless = np.full((m, p, p), np.inf)
        return Unshrunk(last.theta.copy(), endless, np.maximum(squares, square_noise) / records, records, last.theta)
    steps = inverse @ last.total
    variances, covariances = np.empty(m), np.empty((m, p, p))
    for j in range(m):
        step = steps[:, j]
        # Squares at θ are those at the solution, plus δᵀAδ.
        gained = max(float(step @ last.total[:, j]) - last.noise**2 * float(np.trace(inverse)), 0.0)
        # The variance is positive: its estimate is raised to what its own noise allows.
        left = max(float(squares[j]) - gained, square_noise)
        variances[j] = left / (records - p)
        covariances[j] = _covariance(last, inverse, step, noise=noise, variance=variances[j])
    return Unshrunk(last.theta + steps, covariances, variances, records, last.theta)


def newton(last: Round, hessian: Floats, *, noise: float) -> Unshrunk:
    """One step of Newton's method from the last round of a logistic fit, with a released Hessian with noise s.

    `last.total` is minus the gradient. If the model holds, the covariance of a sum of scores is the Hessian, so the
    noise of sampling is its inverse. There are no residuals, and the number of records is not needed: both are NaN.

    >>> found = newton(Round(np.zeros((1, 1)), np.array([[50.0]]), noise=3.0), np.array([[100.0]]), noise=0.1)
    >>> found.theta.tolist(), np.sqrt(found.covariance[0]).round(3).tolist()
    ([[0.5]], [[0.104]])
    """
    p = len(last.theta)
    nothing = np.full(1, math.nan)
    inverse = _inverse(hessian, noise)
    if inverse is None:
        return Unshrunk(last.theta.copy(), np.full((1, p, p), np.inf), nothing, math.nan, last.theta)
    steps = inverse @ last.total
    covariance = _covariance(last, inverse, steps[:, 0], noise=noise, variance=1.0)
    return Unshrunk(last.theta + steps, covariance[None], nothing, math.nan, last.theta)


def _inverse(matrix: Floats, noise: float) -> Floats | None:
    """The inverse of a released matrix; None if noise may hide one of its directions."""
    least = float(np.linalg.eigvalsh(matrix)[0])
    if not least > _CLEAR * noise * math.sqrt(2.0 * len(matrix)):
        return None
    inverse = np.linalg.inv(matrix)
    return np.asarray((inverse + inverse.T) / 2)


def _covariance(last: Round, inverse: Floats, step: Floats, *, noise: float, variance: float) -> Floats:
    """Noise of privacy, of the last round and of the matrix, and noise of sampling."""
    p = len(step)
    moved = step @ step * np.eye(p) + np.outer(step, step)
    inner = (last.noise**2 + last.bias**2) * np.eye(p) + noise**2 / 2 * moved
    return np.asarray(inverse @ inner @ inverse + variance * inverse)


@dataclass(frozen=True, eq=False)
class CoefficientTable:
    """Coefficients of one or several targets; printing it shows the table.

    Attributes
    ----------
    title : str
    names : tuple of str
        One for every row.
    estimate, standard_error : (rows,) arrays
        Without shrinkage. The error counts the noise of privacy and of sampling.
    shrunk : (rows,) array
        What `predict` uses.
    level : float
    notes : tuple of str

    Examples
    --------
    >>> CoefficientTable("Trees", ("age",), np.array([2.0]), np.array([0.5]), np.array([1.9]), 0.95, ("in metres",))
    Trees
          estimate  std. error      z  P>|z|   95% interval    shrunk
    age          2         0.5   4.00  0.000  [1.02, 2.98]        1.9
    in metres
    """

    title: str
    names: tuple[str, ...]
    estimate: Floats
    standard_error: Floats
    shrunk: Floats
    level: float
    notes: tuple[str, ...] = ()

    @property
    def interval(self) -> Floats:
        """(rows, 2) array: lower and upper ends."""
        half = normal_quantile(self.level) * self.standard_error
        return np.stack([self.estimate - half, self.estimate + half], axis=1)

    def cells(self) -> list[list[str]]:
        """The header and the rows, as text."""
        rows = [["", "estimate", "std. error", "z", "P>|z|", f"{100 * self.level:g}% interval", "shrunk"]]
        for i, name in enumerate(self.names):
            value, error = float(self.estimate[i]), float(self.standard_error[i])
            low, high = self.interval[i]
            known = math.isfinite(error) and error > 0
            z = value / error if known else 0.0
            rows.append(
                [
                    name,
                    f"{value:.4g}" if known else "unknown",
                    f"{error:.3g}",
                    f"{z:.2f}" if known else "",
                    f"{math.erfc(abs(z) / math.sqrt(2.0)):.3f}" if known else "",
                    f"[{low:.4g}, {high:.4g}]" if known else "[-inf, inf]",
                    f"{float(self.shrunk[i]):.4g}",
                ]
            )
        return rows

    def __repr__(self) -> str:
        return text_table(self.title, self.cells(), self.notes)

    def _repr_html_(self) -> str:
        return html_table(self.title, self.cells(), self.notes)
