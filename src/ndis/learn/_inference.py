"""Make estimates without shrinkage, their covariance and their table, from released values only.

The last round of a fit hardly clips a term. Its release g = A(θ* − θ) + noise, with A the Gram matrix and θ* the
least-squares solution, gives

    estimate = θ + Ã⁻¹g,      estimate − θ* = Ã⁻¹(noise − Eδ),      δ = θ* − θ,   E = Ã − A,

exactly. Given δ, Eδ is Gaussian with covariance s²/2·(|δ|²I + δδᵀ). So the covariance of the estimate around the
coefficients of the population is about

    P = Ã⁻¹ (N + s²/2·(|δ|²I + δδᵀ) + M) Ã⁻¹,

with N the covariance of the noise and of what clipping may have taken, and M that of a sum of terms by sampling. M is
released: Σ ttᵀ of the clipped terms (a sandwich, right for errors of any variances), or is ς²Ã for errors of equal
variance ς². All quantities were released, or are estimated from released ones: δδᵀ by the step Ã⁻¹g, whose square is
larger by P on average. The prior of the shrunk estimate has no part in it, so intervals are for fixed coefficients.

This fails where Ã has an eigenvalue near the noise: such a direction is hidden (`_hidden`). Let the columns of U be the
eigenvectors of the other directions, L their eigenvalues, and H the hidden eigenvectors. The equations of the other
directions hold by themselves:

    U·L⁻¹Uᵀg − UUᵀδ = U·L⁻¹Uᵀ(noise − Eδ),      |δ|² = |Uᵀδ|² + |Hᵀδ|².

So they give intervals, if the hidden part Hᵀδ is bounded: it leaks through E. Its size D is an assumption, and the docs
state it. In coordinates in which all directions spread about alike, coefficients along a hidden direction are about as
large as those along the others, or as if what is left unexplained were explained by all directions alike. And what is
hidden explains no more than what is left unexplained, if the spread of the rows along it is what the noise could just
hide. The variance along H is D². So intervals are finite, unless no direction is clear: then nothing is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ndis._validate import Floats
from ndis.describing.statistics import quantile_of
from ndis.describing.tables import StatisticTable
from ndis.learn._empirical_bayes import Round

__all__ = ["CoefficientTable", "Unshrunk", "newton", "unshrunk"]

# A clear eigenvalue of the released matrix is above this many standard deviations of the noise in one direction,
_LEAST = 3.0
# and the noise in all clear directions together is this many times below them. For p equal eigenvalues that is 1.2
# times the largest eigenvalue of the noise, s·√(2p).
_CLEAR = 1.2
_LIKE_OTHERS = 1.0  # the squared coefficients along hidden directions are this many times those along the others


@dataclass(frozen=True, eq=False)
class Unshrunk:
    """Hold an estimate without shrinkage, for every target.

    Attributes
    ----------
    theta : (predictors, targets) array
    covariance : (targets, predictors, predictors) array
        Of its error, noise of privacy and of sampling.
    residual_variance : (targets,) array
    records : float
        The estimated number of records.
    at : (predictors, targets) array
        Where the last round was taken.
    hidden : int
        The number of directions that the noise hides.
    sampled : (targets, predictors, predictors) array
        The part of the covariance that sampling alone would leave.

    Examples
    --------
    >>> theta, covariance = np.array([[2.0]]), np.array([[[0.25]]])
    >>> estimate = Unshrunk(theta, covariance, np.array([1.0]), records=100.0, at=theta)
    >>> np.sqrt(estimate.covariance[0, 0, 0]).tolist()        # the standard error of the first coefficient
    0.5
    """

    theta: Floats
    covariance: Floats
    residual_variance: Floats
    records: float
    at: Floats
    hidden: int = 0
    sampled: Any = 0.0

    def in_units(self, units: tuple[Floats, Floats], *, width: float = 1.0) -> Unshrunk:
        """Map the estimate by (A, b): A·θ + b; residuals times `width`.

        >>> found = Unshrunk(np.ones((1, 1)), np.ones((1, 1, 1)), np.ones(1), 9.0, np.zeros((1, 1)))
        >>> moved = found.in_units((np.eye(1) * 6.0, np.ones(1)))
        >>> moved.theta.tolist(), moved.covariance.tolist(), moved.at.tolist()
        ([[7.0]], [[[36.0]]], [[1.0]])
        """
        matrix, shift = units
        moved, m = shift.reshape(len(shift), -1), self.theta.shape[1]
        theta, at = (matrix @ each + moved for each in (self.theta, self.at))
        known = bool(np.isfinite(self.covariance).all())
        covariance = matrix @ self.covariance @ matrix.T if known else np.full((m, len(matrix), len(matrix)), np.inf)
        sampled = matrix @ (self.sampled * np.ones_like(self.covariance)) @ matrix.T
        residual = self.residual_variance * width**2
        return replace(self, theta=theta, covariance=covariance, residual_variance=residual, at=at, sampled=sampled)

    def errors(self) -> Floats:
        """Return standard errors, (targets, predictors)."""
        return np.asarray(np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2)))

    def cost(self) -> Floats:
        """Return standard errors over those that sampling alone would leave, (targets, predictors)."""
        alone = np.diagonal(self.sampled * np.ones_like(self.covariance), axis1=1, axis2=2)
        return np.asarray(self.errors() / np.sqrt(np.maximum(alone, 1e-300)))

    def interval(self, features: int, level: float) -> Floats:
        """Return a (targets, features, 2) array: intervals of the first coefficients."""
        half = quantile_of(level) * self.errors()[:, :features]
        centre = self.theta[:features].T
        return np.stack([centre - half, centre + half], axis=-1)

    def predicted(self, rows: Any, level: float, *, residuals: bool = False) -> Floats:
        """Return a (n, targets, 2) array: intervals of xᵀθ for rows x, or with `residuals` of a target at x.

        The constant is added to rows that lack it.

        >>> found = Unshrunk(np.ones((2, 1)), np.eye(2)[None], np.ones(1), 9.0, np.zeros((2, 1)))
        >>> found.predicted(np.zeros((1, 1)), 0.95).round(2).tolist()
        [[[-0.96, 2.96]]]
        """
        z = quantile_of(level)
        x = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
        if len(self.theta) > x.shape[1]:
            x = np.hstack([x, np.ones((len(x), 1))])
        known = np.asarray(np.isfinite(self.covariance).all(axis=(1, 2)))
        covariance = np.where(known[:, None, None], self.covariance, 0.0)
        variance = np.einsum("ni,tij,nj->nt", x, covariance, x) + np.where(known, 0.0, np.inf)
        if residuals:
            variance = variance + self.residual_variance
        centre, half = x @ self.theta, z * np.sqrt(variance)
        return np.stack([centre - half, centre + half], axis=-1)


def unshrunk(
    theta: Floats,
    total: Floats,
    gram: Floats,
    *,
    own: Floats,
    noise: float,
    terms: Floats,
    term_noise: float,
    records: float,
    robust: bool = True,
) -> Unshrunk:
    """Estimate from the last round at θ, the released Gram matrix with noise s, and the released Σ ttᵀ of every target.

    `own` is the covariance of the sum by its own noise and clip. If the number of `records` is not positive, nothing is
    known.

    >>> gram, total = np.diag([400.0, 100.0]), np.array([[200.0], [100.0]])
    >>> released = {"own": np.eye(2), "noise": 0.01, "terms": gram[None] * 0.9, "term_noise": 1.0, "records": 500.0}
    >>> values = unshrunk(np.zeros((2, 1)), total, gram, **released)
    >>> values.theta.ravel().tolist(), np.sqrt(np.diagonal(values.covariance[0])).round(3).tolist()
    ([0.5, 1.0], [0.048, 0.096])
    """
    p, m = theta.shape
    clear = _Clear.of(gram, noise if records > 0.0 else np.inf)
    records = max(records, p + 1.0)
    steps = clear.solve(total)
    variances, covariances, sampled = np.empty(m), np.empty((m, p, p)), np.zeros((m, p, p))
    corrected = records / (records - p)
    for j in range(m):
        if not clear.values.size:  # nothing is known; a variance is a positive number all the same
            variances[j] = max(float(np.trace(terms[j])), term_noise) / max(float(np.trace(gram)), noise)
            covariances[j] = np.inf
            continue
        within, count = corrected * clear.vectors.T @ terms[j] @ clear.vectors, len(clear.values)
        # The variance is positive: its estimate is raised to what its own noise allows.
        least = term_noise * math.sqrt(float((clear.values**-2.0).sum())) / count
        variances[j] = max(float((np.diagonal(within) / clear.values).sum()) / count, least)
        sampling = _positive(within) if robust else np.diag(variances[j] * clear.values)
        bound = clear.size(theta[:, j] + steps[:, j], variance=variances[j], left=variances[j] * records)
        covariances[j] = clear.covariance(own, steps[:, j], sampling=sampling, bound=bound)
        sampled[j] = clear.inverted(sampling)
    return Unshrunk(theta + steps, covariances, variances, records, theta, clear.hidden.shape[1], sampled)


def newton(last: Round, hessian: Floats, *, noise: float, records: float) -> Unshrunk:
    """Take one step of Newton's method from the last round of a logistic fit, with a released Hessian with noise s.

    `last.total` is minus the gradient. If the model holds, the covariance of a sum of scores is the Hessian.

    >>> last = Round(np.zeros((1, 1)), np.array([[50.0]]), noise=3.0)
    >>> values = newton(last, np.array([[100.0]]), noise=0.1, records=500.0)
    >>> values.theta.tolist(), np.sqrt(values.covariance[0]).round(3).tolist()
    ([[0.5]], [[0.104]])
    """
    clear = _Clear.of(hessian, noise if records > 0.0 else np.inf)
    steps = clear.solve(last.total)
    bound = clear.size((last.theta + steps)[:, 0], variance=1.0, left=max(records, 1.0))
    own, sampling = last.noise**2 * np.eye(len(steps)), np.diag(clear.values)
    covariance = clear.covariance(own, steps[:, 0], sampling=sampling, bound=bound)
    unknown, sampled = np.full(1, math.nan), clear.inverted(sampling)[None]
    return Unshrunk(last.theta + steps, covariance[None], unknown, records, last.theta, clear.hidden.shape[1], sampled)


def _positive(matrix: Floats) -> Floats:
    """Return the nearest matrix without negative eigenvalues, which only noise makes."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


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

    def size(self, theta: Floats, *, variance: float, left: float) -> float:
        """Return D², the assumed squared size of θ along a hidden direction; `left` sums squares of this variance."""
        if not self.hidden.size:
            return 0.0
        others = float(((self.vectors.T @ theta) ** 2).sum()) / max(len(self.values) - 1, 1)
        return min(left / (_LEAST * self.noise), max(_LIKE_OTHERS * others, variance / len(theta)))

    def covariance(self, own: Floats, step: Floats, *, sampling: Floats, bound: float) -> Floats:
        """Return P of the module docstring; `own` is N, `sampling` is M between clear directions, and `bound` D²."""
        half, hidden = self.noise**2 / 2, self.hidden
        if not self.values.size:
            return np.full((len(step), len(step)), np.inf)
        moved = self.vectors.T @ step
        leaked = half * (moved @ moved + bound * hidden.shape[1])
        inner = self.vectors.T @ own @ self.vectors + sampling + leaked * np.eye(len(moved))
        inner = inner + half * np.outer(moved, moved)
        return np.asarray(self.inverted(inner) + bound * hidden @ hidden.T)

    def inverted(self, inner: Floats) -> Floats:
        """Return the covariance of a solution, from that of a sum between clear directions."""
        return np.asarray(self.vectors @ (inner / np.outer(self.values, self.values)) @ self.vectors.T)


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


@dataclass(frozen=True, eq=False, repr=False)
class CoefficientTable(StatisticTable):
    """Hold coefficients of one or several targets; printing it shows the table.

    It has the other forms of a `StatisticTable`: `to_frame`, `to_csv`, `to_latex`, `plot`.

    Attributes
    ----------
    estimate, standard_error : (rows,) arrays
        Without shrinkage. The error counts the noise of privacy and of sampling.
    shrunk : (rows,) array
        What `predict` uses.

    Examples
    --------
    >>> values = np.array([2.0]), np.array([0.5])
    >>> CoefficientTable.normal("Trees", ("name",), [("age",)], values, 0.95, ["in metres"], shrunk=np.array([1.9]))
    Trees
          estimate  std. error     z  P>|z|  95% interval  shrunk
    age          2         0.5  4.00  0.000  [1.02, 2.98]     1.9
    in metres
    """

    shrunk: Floats = field(default_factory=lambda: np.empty(0))
    pictured = True

    @property
    def names(self) -> tuple[str, ...]:
        """Return one name for every row."""
        return tuple(name for (name,) in self.index)

    @property
    def interval(self) -> Floats:
        """Return a (rows, 2) array: lower and upper ends."""
        return np.stack([self.low, self.high], axis=1)

    def odds_ratios(self) -> Floats:
        """Return a (rows, 3) array for a logistic regression: odds ratios, and the ends of their intervals.

        >>> values = np.array([0.0]), np.array([0.5])
        >>> CoefficientTable.normal("", ("name",), [("age",)], values, 0.95).odds_ratios().round(2).tolist()
        [[1.0, 0.38, 2.66]]
        """
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(np.column_stack([self.estimate, self.interval])))

    def cells(self) -> list[list[str]]:
        """Return the header and the rows, as text."""
        lines = [["", "estimate", "std. error", "z", "P>|z|", f"{100 * self.level:g}% interval", "shrunk"]]
        for name, shrunk, (value, error, low, high) in zip(self.names, self.shrunk, self.rows(), strict=True):
            cells = ["unknown", f"{error:.3g}", "", "", "[-inf, inf]"]
            if math.isfinite(error) and error > 0:
                tails = math.erfc(abs(value / error) / math.sqrt(2.0))
                ends = f"[{low:.4g}, {high:.4g}]"
                cells = [f"{value:.4g}", f"{error:.3g}", f"{value / error:.2f}", f"{tails:.3f}", ends]
            lines.append([name, *cells, f"{float(shrunk):.4g}"])
        return lines

    def wide(self) -> tuple[list[str], list[tuple[str, list[tuple[str, float, float]]]]]:
        """Return the rows for a page. Bars have zero in their middle, and a scale of their own."""
        lines = super().wide()[1]
        for (_, cells), low, high in zip(lines, self.low, self.high, strict=True):
            farthest = max(abs(low), abs(high)) or 1.0
            cells[0] = cells[0][0], 50.0 + 50.0 * low / farthest, 50.0 * (high - low) / farthest
        return ["estimate"], lines

    def _after(self) -> tuple[str, ...]:
        return self.notes
