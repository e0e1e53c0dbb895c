"""Solve a regression from a noisy Gram matrix and noisy residual products, by empirical Bayes.

Everything here is a function of released values only. In units in which rows and targets have norm at most 1, let
A = XᵀX, and Ã = A + E with symmetric noise E: standard deviation s on the diagonal, s/√2 off it. Round u released
gᵤ = A(θ* − θᵤ) + noise of standard deviation σᵤ, with θ* the least-squares solution. With Â near Ã,

    hᵤ = gᵤ + Âθᵤ = Âθ* + (A − Â)(θ* − θᵤ) + noise.

So the rounds measure h(θ) = Âθ* + (A − Â)(θ* − θ) at several θ, and all errors are Gaussian with known covariance: the
error of round u and that of round v have covariance s²/2·⟨θᵤ, θᵥ⟩ + [u = v]·σᵤ². `predicted` finds the best linear
combination for h(θ*) = Âθ* (universal kriging: weights that add up to 1). Rounds that were far from θ*, or noisy, count
less.

One measurement wⱼθⱼ + N(0, τ²) is left per eigenvector of Â. With the prior θⱼ ~ N(0, v) the posterior mean is
a ridge solution, and maximum likelihood chooses v after the release, at no cost. No evidence of a signal, v = 0, leaves
the centre. The prior does not touch the intercept: features are centred by the released means first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ndis._validate import Floats

__all__ = ["EVIDENCE", "NOISE_SHARE", "Preconditioner", "Round", "evidence", "posterior_mean", "predicted", "shrunk"]

# Chosen on five public data sets, and checked on four others and on scikit-learn's and statsmodels' (docs:
# which-regression). Errors change little within a factor of 1.5 of each.
EIGENVALUE_FLOOR = 0.5  # times s·√(2d), the largest eigenvalue of the noise
MATRIX_SHARE = 0.5  # times s²/2: the part of the noise of Ã that its eigenvectors do not hold already
NOISE_SHARE = 0.3  # times σ²: a prior with one variance for all directions shrinks the few with a signal too much
EVIDENCE = 1.5  # a signal needs this much log-likelihood before a prediction other than the centre is made
GROWTH = 2.0  # the coefficients may grow by this factor per round: clipped terms cannot correct a far larger step
_ITERATIONS = 6
_VARIANCES: Floats = np.concatenate([[0.0], 10.0 ** np.linspace(-6.0, 6.0, 61)])


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
        Standard deviation of its noise.
    bias : float
        Standard deviation, per entry, of what clipping may have taken; 0 where hardly a term was clipped.
    """

    theta: Floats
    total: Floats
    noise: float
    bias: float = 0.0


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
    variances = np.array([r.noise**2 * NOISE_SHARE + r.bias**2 for r in rounds])
    honest = np.array([r.noise**2 + r.bias**2 for r in rounds])
    columns = [_one_target(theta[:, :, j], measured[:, :, j], variances, honest, matrix) for j in range(theta.shape[2])]
    return np.stack(columns, axis=1)


def predicted(theta: Floats, variances: Floats, at: Floats, *, scale: float) -> tuple[Floats, float]:
    """Return the weights of the rounds in the best linear prediction of h at a point, and the variance of its error.

    Rounds at the rows of ``theta`` have errors of covariance scale·⟨θᵤ, θᵥ⟩ + [u = v]·variancesᵤ.

    >>> weights, error = predicted(np.array([[0.0], [1.0]]), np.array([1.0, 1.0]), np.array([0.0]), scale=0.0)
    >>> weights.tolist(), error
    ([0.5, 0.5], 0.5)
    """
    kernel = scale * theta @ theta.T
    covariance, cross = kernel + np.diag(variances), scale * theta @ at
    solved = np.linalg.solve(covariance, np.stack([np.ones(len(theta)), cross], axis=1))
    ones, own = solved[:, 0], solved[:, 1]
    weights = own + (1.0 - own.sum()) / ones.sum() * ones
    error = weights @ covariance @ weights - 2.0 * weights @ cross + scale * at @ at
    return weights, float(error)


def _one_target(theta: Floats, measured: Floats, variances: Floats, honest: Floats, matrix: Preconditioner) -> Floats:
    """Find a fixed point: the prediction is made at the solution, and the solution comes from the prediction."""
    scale = MATRIX_SHARE * matrix.noise**2 / 2
    features = len(matrix.means)
    spread = 1.0 + float(matrix.means @ matrix.means) / features
    at, loose, most = theta[-1], 0.0, GROWTH * float(np.linalg.norm(theta[-1, :features]))
    for _ in range(_ITERATIONS):
        weights, error = predicted(theta, variances, at, scale=scale)
        z = weights @ measured
        noise = max(error, 0.0) + scale * loose
        slopes = z[:-1] - matrix.means * z[-1] if matrix.constant else z
        rotated = matrix.vectors.T @ slopes
        mean, spread_left = shrunk(rotated, matrix.values, noise * spread)
        if not evidence(rotated, matrix.values, float(weights**2 @ honest) * spread) > EVIDENCE:
            mean = np.zeros_like(mean)
        loose = min(spread_left, 4.0 * float(mean @ mean))
        at = _with_constant(matrix.vectors @ mean, z, matrix)
    size = float(np.linalg.norm(at[:features]))
    if most and size > most:
        at = _with_constant(at[:features] * (most / size), z, matrix)
    return np.asarray(at)


def _with_constant(slopes: Floats, z: Floats, matrix: Preconditioner) -> Floats:
    """Return θ with the constant's coefficient that goes with the slopes."""
    if not matrix.constant:
        return slopes
    return np.append(slopes, z[-1] / matrix.count - float(matrix.means @ slopes))


def _likelihoods(z: Floats, values: Floats, noise: float) -> Floats:
    """Return the log-likelihood of z for every prior variance."""
    total = values**2 * _VARIANCES[:, None] + noise
    return np.asarray(-0.5 * (np.log(total) + z**2 / total).sum(axis=1))


def shrunk(z: Floats, values: Floats, noise: float) -> tuple[Floats, float]:
    """Return the posterior mean and the sum of the posterior variances, at the likeliest prior variance."""
    v = _VARIANCES[_likelihoods(z, values, noise).argmax()]
    total = values**2 * v + noise
    return v * values * z / total, float((v * noise / total).sum())


def evidence(z: Floats, values: Floats, noise: float) -> float:
    """Return the log-likelihood that the likeliest prior variance gains over none."""
    likelihoods = _likelihoods(z, values, noise)
    return float(likelihoods.max() - likelihoods[0])
