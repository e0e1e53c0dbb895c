"""Make estimates without shrinkage, their covariance and their table, from released values only.

The last round of a fit hardly clips a term. Its release g = A(θ* − θ) + N(0, σ²I), with A the Gram matrix and θ* the
least-squares solution, gives

    estimate = θ + Ã⁻¹g,      estimate − θ* = Ã⁻¹(noise − Eδ),      δ = θ* − θ,   E = Ã − A,

exactly. Given δ, Eδ is Gaussian with covariance s²/2·(|δ|²I + δδᵀ). So the covariance of the estimate around the
coefficients of the population is about

    P = Ã⁻¹ (σ²I + s²/2·(|δ|²I + δδᵀ) + s²/2·(tr(P)·I + P)) Ã⁻¹ + ς²Ã⁻¹,

with ς² the variance of the residuals: noise of privacy, and noise of sampling, for errors of equal variance. All
quantities were released, or are estimated from released ones (δ by Ã⁻¹g, whose own error is the term with P). The prior
of the shrunk estimate has no part in it, so intervals are for fixed coefficients.

This fails where Ã has an eigenvalue near the noise: such a direction is hidden (`_hidden`). Let the columns of U be the
eigenvectors of the other directions, L their eigenvalues, and H the hidden eigenvectors. The equations of the other
directions hold by themselves:

    U·L⁻¹Uᵀg − UUᵀδ = U·L⁻¹Uᵀ(noise − Eδ),      |δ|² = |Uᵀδ|² + |Hᵀδ|².

So they give intervals, if the hidden part Hᵀδ is bounded: it leaks through E. Its bound D is an assumption, and the
docs state it: the hidden part explains no more of the target than what is left unexplained, if the spread of the rows
along it is what the noise could just hide. D² is then the sum of squared residuals over that spread.

A coefficient c = eᵢ is known if it has no part along H but that which the noise makes: |Hᵀc| is then about
s/√2·|L⁻¹Uᵀc| times the root of the number of hidden directions. Its variance has (D·|Hᵀc|)² as well. Otherwise the
coefficient is unknown, and its interval is infinite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ndis._validate import Floats, as_one_probability, as_scalar
from ndis.learn._empirical_bayes import Round
from ndis.pages.text import html_table, text_table

__all__ = ["CoefficientTable", "Unshrunk", "least_spread", "newton", "normal_quantile", "unshrunk"]

# A clear eigenvalue of the released matrix is above this many standard deviations of the noise in one direction,
_LEAST = 3.0
# and the noise in all clear directions together is this many times below them. For p equal eigenvalues that is 1.2
# times the largest eigenvalue of the noise, s·√(2p).
_CLEAR = 1.2
# A coefficient is known if its part along hidden directions is within this many standard deviations of nothing, and if
# its square is at most this.
_WITHIN = 3.0
_PART = 0.1
_MARGIN = 2.0  # `least_spread` leaves this many standard deviations of the noise above a hidden eigenvalue


def normal_quantile(level: float) -> float:
    """Return z with P(|N(0, 1)| ≤ z) = level.

    >>> round(normal_quantile(0.95), 6)
    1.959964
    """
    inside = as_one_probability("level", as_scalar("level", level))
    return float(ndtri((1.0 + inside) / 2.0))


@dataclass(frozen=True, eq=False)
class Unshrunk:
    """Hold an estimate without shrinkage, for every target.

    Attributes
    ----------
    theta : (predictors, targets) array
    covariance : (targets, predictors, predictors) array
        Of its error, noise of privacy and of sampling; infinite in rows and columns of coefficients that noise hides.
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
        """Map the estimate by (A, b): A·θ + b; residuals times `width`.

        >>> found = Unshrunk(np.ones((1, 1)), np.ones((1, 1, 1)), np.ones(1), 9.0, np.zeros((1, 1)))
        >>> moved = found.in_units((np.eye(1) * 6.0, np.ones(1)))
        >>> moved.theta.tolist(), moved.covariance.tolist(), moved.at.tolist()
        ([[7.0]], [[[36.0]]], [[1.0]])
        """
        matrix, shift = units
        theta, at = (matrix @ each + shift[:, None] for each in (self.theta, self.at))
        known = np.isfinite(self.covariance)
        covariance = matrix @ np.where(known, self.covariance, 0.0) @ matrix.T
        touched = self.unknown() @ (matrix != 0.0).T
        covariance = _endless(covariance, touched)
        return Unshrunk(theta, covariance, self.residual_variance * width**2, self.records, at)

    def unknown(self) -> NDArray[np.bool_]:
        """Say which coefficients the noise hides, (targets, predictors)."""
        return np.asarray(~np.isfinite(np.diagonal(self.covariance, axis1=1, axis2=2)))

    def errors(self) -> Floats:
        """Return standard errors, (targets, predictors)."""
        return np.asarray(np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2)))

    def interval(self, features: int, level: float) -> Floats:
        """Return a (targets, features, 2) array: intervals of the first coefficients."""
        half = normal_quantile(level) * self.errors()[:, :features]
        centre = self.theta[:features].T
        return np.stack([centre - half, centre + half], axis=-1)

    def predicted(self, rows: Any, level: float, *, residuals: bool = False) -> Floats:
        """Return a (n, targets, 2) array: intervals of xᵀθ for rows x, or with `residuals` of a target at x.

        The constant is added to rows that lack it.

        >>> found = Unshrunk(np.ones((2, 1)), np.eye(2)[None], np.ones(1), 9.0, np.zeros((2, 1)))
        >>> found.predicted(np.zeros((1, 1)), 0.95).round(2).tolist()
        [[[-0.96, 2.96]]]
        """
        z = normal_quantile(level)
        x = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
        if len(self.theta) > x.shape[1]:
            x = np.hstack([x, np.ones((len(x), 1))])
        covariance = np.where(np.isfinite(self.covariance), self.covariance, 0.0)
        known = (x != 0.0).astype(float) @ self.unknown().T == 0.0  # rows that touch no hidden coefficient
        variance = np.einsum("ni,tij,nj->nt", x, covariance, x)
        if residuals:
            variance = variance + self.residual_variance
        centre, half = x @ self.theta, np.where(known, z * np.sqrt(variance), np.inf)
        return np.stack([centre - half, centre + half], axis=-1)


def unshrunk(
    last: Round, gram: Floats, *, noise: float, squares: Floats, square_noise: float, records: float
) -> Unshrunk:
    """Estimate from the last round, the released Gram matrix with noise s, and the noisy sums of squared residuals.

    >>> gram = np.diag([400.0, 100.0])
    >>> last = Round(np.zeros((2, 1)), np.array([[200.0], [100.0]]), noise=1.0)
    >>> found = unshrunk(last, gram, noise=0.01, squares=np.array([600.0]), square_noise=1.0, records=500.0)
    >>> found.theta.ravel().tolist(), np.sqrt(np.diagonal(found.covariance[0])).round(3).tolist()
    ([0.5, 1.0], [0.045, 0.09])
    """
    p, m = last.theta.shape
    records = max(records, p + 1.0)
    clear = _Clear.of(gram, noise)
    steps = clear.solve(last.total)
    variances, covariances = np.empty(m), np.empty((m, p, p))
    for j in range(m):
        step = steps[:, j]
        # Squares at θ are those at the solution, plus δᵀAδ.
        gained = max(float(step @ last.total[:, j]) - last.noise**2 * float((1.0 / clear.values).sum()), 0.0)
        # The variance is positive: its estimate is raised to what its own noise allows.
        left = max(float(squares[j]) - gained, square_noise)
        variances[j] = left / (records - p)
        covariances[j] = clear.covariance(last, step, variance=variances[j], left=left)
    return Unshrunk(last.theta + steps, covariances, variances, records, last.theta)


def newton(last: Round, hessian: Floats, *, noise: float, records: float) -> Unshrunk:
    """Take one step of Newton's method from the last round of a logistic fit, with a released Hessian with noise s.

    `last.total` is minus the gradient. If the model holds, the covariance of a sum of scores is the Hessian, so the
    noise of sampling is its inverse, as with a residual variance of 1.

    >>> last = Round(np.zeros((1, 1)), np.array([[50.0]]), noise=3.0)
    >>> found = newton(last, np.array([[100.0]]), noise=0.1, records=500.0)
    >>> found.theta.tolist(), np.sqrt(found.covariance[0]).round(3).tolist()
    ([[0.5]], [[0.104]])
    """
    clear = _Clear.of(hessian, noise)
    steps = clear.solve(last.total)
    covariance = clear.covariance(last, steps[:, 0], variance=1.0, left=max(records, 1.0))
    return Unshrunk(last.theta + steps, covariance[None], np.full(1, math.nan), records, last.theta)


@dataclass(frozen=True, eq=False)
class _Clear:
    """Hold the directions of a released matrix that its noise does not hide, and the hidden ones.

    Attributes
    ----------
    values, vectors
        Eigenvalues and eigenvectors of the clear directions.
    hidden : (predictors, hidden) array
        The other eigenvectors.
    noise : float
        s, of the matrix.
    """

    values: Floats
    vectors: Floats
    hidden: Floats
    noise: float

    @classmethod
    def of(cls, matrix: Floats, noise: float) -> _Clear:
        values, vectors = np.linalg.eigh(matrix)
        h = _hidden(values, noise)
        return cls(values[h:], vectors[:, h:], vectors[:, :h], noise)

    def solve(self, total: Floats) -> Floats:
        return np.asarray(self.vectors @ (self.vectors.T @ total / self.values[:, None]))

    def covariance(self, last: Round, step: Floats, *, variance: float, left: float) -> Floats:
        """Return P of the module docstring, infinite if a coefficient is unknown; `left` sums squared residuals."""
        half, count = self.noise**2 / 2, self.hidden.shape[1]
        bound = left / (_LEAST * self.noise) if count else 0.0  # D²
        moved = self.vectors.T @ step
        inner = np.diag(last.noise**2 + last.bias**2 + half * (moved @ moved + bound) + variance * self.values)
        inner = inner + half * np.outer(moved, moved)
        # Entry by entry P·(λᵢλⱼ − s²/2) = inner + [i = j]·s²/2·tr(P), and so its trace is known first.
        divisor = np.outer(self.values, self.values) - half
        own = 1.0 / np.diagonal(divisor)
        trace = float(np.diagonal(inner) @ own) / (1.0 - half * float(own.sum()))
        covariance = self.vectors @ ((inner + half * trace * np.eye(len(own))) / divisor) @ self.vectors.T
        if not count:
            return np.asarray(covariance)
        along = (self.hidden**2).sum(axis=1)
        expected = half * count * ((self.vectors / self.values) ** 2).sum(axis=1)
        unknown = ~(along <= np.minimum(_WITHIN**2 * expected, _PART))
        return _endless(covariance + bound * self.hidden @ self.hidden.T, unknown)


def _hidden(values: Floats, noise: float) -> int:
    """Count the ascending eigenvalues of a released matrix that are too near its noise.

    Next to the least eigenvalue itself, the sum of 1/λ² over the clear directions counts: of a step δ in these
    directions the noise of the matrix makes an error of mean square about s²/2·Σ λ⁻²·|δ|².

    >>> _hidden(np.array([2.0, 100.0]), 1.0), _hidden(np.array([4.0, 100.0]), 1.0)  # the noise is 1 in any direction
    (1, 0)
    >>> _hidden(np.full(7, 4.0), 1.0)  # in six directions together it is about 3.5
    2
    """
    with np.errstate(divide="ignore"):
        each = np.maximum(values, 0.0) ** -2.0
    together = np.cumsum(each[::-1])[::-1]
    clear = (values > _LEAST * noise) & (2.0 * _CLEAR**2 * noise**2 * together <= 1.0)
    return int(np.count_nonzero(~clear))


def least_spread(noise: float, *, predictors: int, records: int) -> float:
    """Return the standard deviation that rows need along every direction for a matrix with noise s to show it.

    >>> round(least_spread(10.0, predictors=7, records=8000), 4)
    0.0901
    """
    need = noise * (max(_LEAST, _CLEAR * math.sqrt(2.0 * predictors)) + _MARGIN)
    return math.sqrt(need / records)


def _endless(covariance: Floats, unknown: NDArray[np.bool_]) -> Floats:
    """Return the covariance, infinite in the rows and columns of unknown coefficients."""
    return np.where(unknown[..., :, None] | unknown[..., None, :], np.inf, covariance)


@dataclass(frozen=True, eq=False)
class CoefficientTable:
    """Hold coefficients of one or several targets; printing it shows the table.

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
        """Return a (rows, 2) array: lower and upper ends."""
        half = normal_quantile(self.level) * self.standard_error
        return np.stack([self.estimate - half, self.estimate + half], axis=1)

    def cells(self) -> list[list[str]]:
        """Return the header and the rows, as text."""
        rows = [["", "estimate", "std. error", "z", "P>|z|", f"{100 * self.level:g}% interval", "shrunk"]]
        for i, name in enumerate(self.names):
            value, error = float(self.estimate[i]), float(self.standard_error[i])
            low, high = self.interval[i]
            cells = ["unknown", f"{error:.3g}", "", "", "[-inf, inf]"]
            if math.isfinite(error) and error > 0:
                z = value / error
                tails = math.erfc(abs(z) / math.sqrt(2.0))
                cells = [f"{value:.4g}", f"{error:.3g}", f"{z:.2f}", f"{tails:.3f}", f"[{low:.4g}, {high:.4g}]"]
            rows.append([name, *cells, f"{float(self.shrunk[i]):.4g}"])
        return rows

    def __repr__(self) -> str:
        return text_table(self.title, self.cells(), self.notes)

    def _repr_html_(self) -> str:
        return html_table(self.title, self.cells(), self.notes)
