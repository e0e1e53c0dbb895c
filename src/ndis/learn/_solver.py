"""Learn from released rounds: the clip of the next round, a solution for predictions, and one for intervals.

Everything here is a function of released values only.

**For predictions, by empirical Bayes.** Let A = XᵀX, and Ã = A + E with symmetric noise E: standard
deviation s on the diagonal, s/√2 off it. Round u released gᵤ = A(θ* − θᵤ) + noise of standard deviation σᵤ, with θ* the
least-squares solution. With Â near Ã,

    hᵤ = gᵤ + Âθᵤ = Âθ* + (A − Â)(θ* − θᵤ) + noise.

So the rounds measure h(θ) = Âθ* + (A − Â)(θ* − θ) at several θ, and all errors are Gaussian with known covariance: the
error of round u and that of round v have covariance s²/2·⟨θᵤ, θᵥ⟩ + [u = v]·σᵤ² + κ²·τᵤτᵥ. Here τ is what clips took,
which biases all rounds alike by a share κ, and how far rounds are apart tells κ (`biased`). `combined` finds the best
weights for h(θ*) = Âθ* (universal kriging: they add up to 1). Rounds that were far from θ*, noisy or clipped count
less.

One measurement wⱼθⱼ + N(0, τ²) is left per eigenvector of Â. With the prior θⱼ ~ N(0, v) the posterior mean is
a ridge solution, and maximum likelihood chooses v after the release, at no cost. No evidence of a signal, v = 0, leaves
the centre. The prior does not touch the intercept: features are centred by the released means first.

**For intervals, without shrinkage.** The last round hardly clips a term. Its release g = A(θ* − θ) + noise gives

    estimate = θ + Ã⁻¹g,      estimate − θ* = Ã⁻¹(noise − Eδ),      δ = θ* − θ,   E = Ã − A,

exactly. Given δ, Eδ is Gaussian with covariance s²/2·(|δ|²I + δδᵀ). So the covariance of the estimate around the
coefficients of the population is about

    P = Ã⁻¹ (N + s²/2·(|δ|²I + δδᵀ) + M) Ã⁻¹,

with N the covariance of the noise, and M that of a sum of terms by sampling and what clipping may have taken. M is
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
hide. In public ranges directions do not spread alike, and only this last bound holds, with one standard deviation of
the noise for three. The variance along H is D². So intervals are finite, unless no direction is clear: then nothing is
known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ndis._validate import Floats
from ndis.describing.statistics import quantile_of

# Chosen on five public data sets, and checked on four others and on scikit-learn's and statsmodels' (docs:
# which-regression). Errors change little within a factor of 1.5 of each.
EIGENVALUE_FLOOR = 0.5  # times s·√(2d), the largest eigenvalue of the noise
MATRIX_SHARE = 0.5  # times s²/2: the part of the noise of Ã that its eigenvectors do not hold already
NOISE_SHARE = 0.3  # times σ²: a prior with one variance for all directions shrinks the few with a signal too much
EVIDENCE = 1.5  # a signal needs this much log-likelihood before a prediction other than the centre is made
_SHARES: Floats = 0.01 * 2.0 ** (np.arange(15) / 2)  # what clips took may be bias by one of these shares,
_LIKELY = 0.1  # and the prior is around this one, e times more or less
_ITERATIONS = 6
_VARIANCES: Floats = np.concatenate([[0.0], 10.0 ** np.linspace(-6.0, 6.0, 61)])
# A clear eigenvalue of the released matrix is above this many standard deviations of the noise in one direction,
_LEAST = 3.0
# and the noise in all clear directions together is this many times below them. For p equal eigenvalues that is 1.2
# times the largest eigenvalue of the noise, s·√(2p).
_CLEAR = 1.2


@dataclass(frozen=True, eq=False)
class Round:
    """A round releases one sum of clipped residual products.

    Attributes
    ----------
    theta : (predictors, targets) array
        Where the residuals were taken.
    total : (predictors, targets) array
        The released sum.
    noise : float
        Standard deviation of its noise, in the coordinates of its terms.
    taken : float
        What clipping took, per entry, if all clipped terms pointed the same way.
    own : (predictors, predictors) array, or 1
        Covariance of the total where noise is 1 in the coordinates of its terms.
    """

    theta: Floats
    total: Floats
    noise: float
    taken: float = 0.0
    own: Any = 1.0


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """Hold Â and its parts, from the released Gram matrix.

    Attributes
    ----------
    values, vectors
        Eigenvalues of the (centred) part of the features, floored at the noise, and its eigenvectors.
    means : (features,) array
        Of the features over that of the constant; zeros without a constant.
    count : float
        The constant's diagonal entry; 0 without a constant.
    noise : float
        s, in the units of the matrix.
    """

    values: Floats
    vectors: Floats
    means: Floats
    count: float
    noise: float

    @classmethod
    def of(cls, gram: Floats, *, noise: float, constant: bool) -> Preconditioner:
        """Make it from the released matrix; the constant is its last column.

        >>> found = Preconditioner.of(np.diag([4.0, 0.0]), noise=1.0, constant=False)
        >>> found.values.tolist()  # the second one is noise, whose largest eigenvalue is about 2
        [1.0, 4.0]
        """
        features = len(gram) - constant
        means, count, block = np.zeros(features), 0.0, gram[:features, :features]
        if constant:
            count = max(float(gram[-1, -1]), noise)
            means = gram[:-1, -1] / count
            block = block - np.outer(means, means) * count
        values, vectors = np.linalg.eigh(block)
        spread = math.sqrt(1.0 + float(means @ means) / features)
        floor = EIGENVALUE_FLOOR * noise * math.sqrt(2.0 * features) * spread
        return cls(np.maximum(values, floor), vectors, means, count, noise)

    @property
    def constant(self) -> bool:
        """Say if the last predictor is a constant."""
        return self.count > 0

    def apply(self, theta: Floats) -> Floats:
        """Return Âθ, for (…, predictors, targets) arrays."""
        slopes = theta[..., :-1, :] if self.constant else theta
        product = self.vectors @ (self.values[:, None] * (self.vectors.T @ slopes))
        if not self.constant:
            return np.asarray(product)
        centre = self.means @ slopes + theta[..., -1, :]
        count = self.count * centre[..., None, :]
        return np.concatenate([product + self.means[:, None] * count, count], axis=-2)


def posterior_mean(rounds: Sequence[Round], matrix: Preconditioner) -> Floats:
    """Return θ given all rounds so far, one column per target.

    >>> matrix = Preconditioner.of(np.diag([400.0, 400.0]), noise=0.1, constant=False)
    >>> one = Round(np.zeros((2, 1)), np.array([[200.0], [100.0]]), noise=0.1)
    >>> posterior_mean([one], matrix).ravel().round(2).tolist()
    [0.5, 0.25]
    >>> posterior_mean([Round(np.zeros((2, 1)), np.array([[0.2], [-0.1]]), noise=0.3)], matrix).ravel().tolist()
    [0.0, 0.0]
    """
    theta = np.stack([r.theta for r in rounds])
    measured = np.stack([r.total for r in rounds]) + matrix.apply(theta)
    at = np.eye(theta.shape[1], len(matrix.vectors)) @ matrix.vectors
    sizes = np.array([(at * np.dot(r.own, at)).sum(axis=0) for r in rounds])
    variances = np.array([[r.noise**2] for r in rounds]) * sizes
    taken = np.array([r.taken for r in rounds]) * np.sqrt(sizes.mean(axis=1))
    columns = [_one_target(theta[:, :, j], measured[:, :, j], variances, taken, matrix) for j in range(theta.shape[2])]
    return np.stack(columns, axis=1)


def biased(theta: Floats, measured: Floats, variances: Floats, taken: Floats, *, scale: float) -> float:
    """Return the likeliest share of what clips took that biases all rounds alike, from how far rounds are apart.

    The likelihood is that of contrasts between the rounds, with the covariance of `combined`; shares have a prior.

    >>> at, taken = np.zeros((2, 1)), np.array([40.0, 0.0])
    >>> [round(biased(at, np.array([[x], [50.0]]), np.ones(2), taken, scale=0.0), 2) for x in (50.0, 30.0)]
    [0.06, 0.32]
    """
    likelihoods = []
    for share in _SHARES:
        inverse = np.linalg.inv(scale * theta @ theta.T + np.diag(variances) + share**2 * np.outer(taken, taken))
        ones = inverse.sum(axis=1)
        left = inverse - np.outer(ones, ones) / ones.sum()
        fit = float(np.linalg.slogdet(inverse)[1]) - math.log(ones.sum())
        apart = float(np.einsum("uj,uv,vj", measured, left, measured))
        likelihoods.append(measured.shape[1] * fit - apart - math.log(share / _LIKELY) ** 2)
    return float(_SHARES[int(np.argmax(likelihoods))])


def combined(theta: Floats, variances: Floats, bias: Floats, at: Floats, *, scale: float) -> tuple[Floats, float]:
    """Return the weights w of the rounds in the best linear prediction of h at a point, and |Σ wᵤθᵤ − at|².

    Rounds at the rows of ``theta`` have errors of covariance scale·⟨θᵤ, θᵥ⟩ + [u = v]·variancesᵤ + biasᵤ·biasᵥ. So that
    of the prediction has the variance scale·|Σ wᵤθᵤ − at|² + Σ wᵤ²·variancesᵤ + (Σ wᵤ·biasᵤ)².

    >>> at, one = np.array([[0.0], [1.0]]), np.array([1.0, 1.0])
    >>> weights, away = combined(at, one, 0.0 * one, np.array([0.0]), scale=0.0)
    >>> weights.tolist(), away
    ([0.5, 0.5], 0.25)
    """
    covariance = scale * theta @ theta.T + np.diag(variances) + np.outer(bias, bias)
    cross = scale * theta @ at
    ones, own = np.linalg.solve(covariance, np.stack([np.ones(len(theta)), cross], axis=1)).T
    weights = own + (1.0 - own.sum()) / ones.sum() * ones
    return weights, float(((weights @ theta - at) ** 2).sum())


def _one_target(theta: Floats, measured: Floats, honest: Floats, taken: Floats, matrix: Preconditioner) -> Floats:
    """Find a fixed point: the prediction is made at the solution, and the solution comes from the prediction."""
    scale, variances = MATRIX_SHARE * matrix.noise**2 / 2, NOISE_SHARE * honest
    spread = 1.0 + float(matrix.means @ matrix.means) / len(matrix.means)
    bias = taken * biased(theta, measured, honest.mean(axis=1), taken, scale=matrix.noise**2 / 2)
    at, loose = theta[-1], 0.0
    for _ in range(_ITERATIONS):
        weights, away = combined(theta, variances.mean(axis=1), bias, at, scale=scale)
        z, clipped = weights @ measured, float(weights @ bias) ** 2
        noise = scale * (away + loose) + weights**2 @ variances + clipped
        slopes = z[:-1] - matrix.means * z[-1] if matrix.constant else z
        rotated = matrix.vectors.T @ slopes
        mean, spread_left = shrunk(rotated, matrix.values, noise * spread)
        # Without a signal, the noise of the matrix counts as far as the rounds were from the centre of the targets.
        off = float(weights @ theta[:, -1]) - z[-1] / matrix.count if matrix.constant else 0.0
        alone = matrix.noise**2 / 2 * off**2 + weights**2 @ honest + clipped
        if not evidence(rotated, matrix.values, alone * spread) > EVIDENCE:
            mean = np.zeros_like(mean)
        loose = min(spread_left, 4.0 * float(mean @ mean))
        at = matrix.vectors @ mean
        if matrix.constant:  # whose coefficient goes with the slopes
            at = np.append(at, z[-1] / matrix.count - float(matrix.means @ at))
    return np.asarray(at)


def _likelihoods(z: Floats, values: Floats, noise: Any) -> Floats:
    """Return the log-likelihood of z for every prior variance."""
    total = values**2 * _VARIANCES[:, None] + noise
    return np.asarray(-0.5 * (np.log(total) + z**2 / total).sum(axis=1))


def shrunk(z: Floats, values: Floats, noise: Any) -> tuple[Floats, float]:
    """Return the posterior mean and the sum of the posterior variances, at the likeliest prior variance."""
    v = _VARIANCES[_likelihoods(z, values, noise).argmax()]
    total = values**2 * v + noise
    return v * values * z / total, float((v * noise / total).sum())


def evidence(z: Floats, values: Floats, noise: Any) -> float:
    """Return the log-likelihood that the likeliest prior variance gains over none."""
    likelihoods = _likelihoods(z, values, noise)
    return float(likelihoods.max() - likelihoods[0])


# ---------------------------------------------------------------------- without shrinkage


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
        The part of the covariance that sampling alone would leave; zeros if nothing is known.

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
        >>> moved = found.in_units((np.eye(1) * 6.0, np.ones((1, 1))))
        >>> moved.theta.tolist(), moved.covariance.tolist(), moved.at.tolist()
        ([[7.0]], [[[36.0]]], [[1.0]])
        """
        (matrix, shift), m = units, self.theta.shape[1]
        theta, at = (matrix @ each + shift for each in (self.theta, self.at))
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
    records: float,
    terms: Floats | None = None,
    term_noise: float = 0.0,
    bias: float = 0.0,
    robust: bool = True,
    alike: bool = True,
) -> Unshrunk:
    """Estimate from the last round at θ, the released matrix with noise s, and the released Σ ttᵀ of every target.

    `own` is the covariance of the sum by its own noise. What clipping may have taken counts as a share `bias` of that
    by sampling. If the number of `records` is not positive, nothing is known. Without `terms`, of a logistic fit, the
    model is taken to hold: then the matrix, the Hessian, is also the covariance of the sum, minus the gradient.
    Directions of the rows spread about `alike`, but not in public ranges.

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
    variances, covariances, sampled = np.ones(m), np.empty((m, p, p)), np.empty((m, p, p))
    for j in range(m):
        sampling = np.diag(clear.values)
        if terms is not None:
            # The variance is positive: its estimate is raised to what its own noise allows.
            left = max(float(np.trace(terms[j])), term_noise * math.sqrt(p)) / max(float(np.trace(gram)), noise)
            variances[j], corrected = left * records / (records - p), terms[j] * records / (records - p)
            sampling = _positive(clear.vectors.T @ corrected @ clear.vectors) if robust else variances[j] * sampling
        bound = clear.size(theta[:, j] + steps[:, j], variance=variances[j], left=variances[j] * records, alike=alike)
        covariances[j] = clear.covariance(own, steps[:, j], sampling=(1.0 + bias) * sampling, bound=bound)
        if terms is None:  # a step of Newton's method errs by half its square: the Hessian may change by e^|xᵀδ|
            covariances[j] += np.outer(steps[:, j], steps[:, j]) * (steps[:, j] @ steps[:, j]) / 4
        sampled[j] = clear.inverted(sampling)
    return Unshrunk(theta + steps, covariances, variances, records, theta, clear.hidden.shape[1], sampled)


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

    def size(self, theta: Floats, *, variance: float, left: float, alike: bool) -> float:
        """Return D², the assumed squared size of θ along a hidden direction; `left` sums squares of this variance."""
        if not self.hidden.size or not alike:
            return left / self.noise
        others = float(((self.vectors.T @ theta) ** 2).sum()) / max(len(self.values) - 1, 1)
        return min(left / (_LEAST * self.noise), max(others, variance / len(theta)))

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
