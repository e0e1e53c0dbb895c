"""Estimates without shrinkage and their covariance, from released values only.

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

import numpy as np
from numpy.typing import NDArray

from ndis.learn._empirical_bayes import Round

__all__ = ["Unshrunk", "unshrunk"]

Floats = NDArray[np.float64]

# The least eigenvalue of the released matrix, over that of its noise, for the first order to hold.
_CLEAR = 1.2


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
    least = float(np.linalg.eigvalsh(gram)[0])
    if not least > _CLEAR * noise * math.sqrt(2.0 * p):
        endless = np.full((m, p, p), np.inf)
        return Unshrunk(last.theta.copy(), endless, np.maximum(squares, square_noise) / records, records, last.theta)
    inverse = np.linalg.inv(gram)
    inverse = (inverse + inverse.T) / 2
    steps = inverse @ last.total
    variances, covariances = np.empty(m), np.empty((m, p, p))
    for j in range(m):
        step = steps[:, j]
        # Squares at θ are those at the solution, plus δᵀAδ.
        gained = max(float(step @ last.total[:, j]) - last.noise**2 * float(np.trace(inverse)), 0.0)
        # The variance is positive: its estimate is raised to what its own noise allows.
        left = max(float(squares[j]) - gained, square_noise)
        variances[j] = left / (records - p)
        inner = (last.noise**2 + last.bias**2) * np.eye(p) + noise**2 / 2 * (
            step @ step * np.eye(p) + np.outer(step, step)
        )
        covariances[j] = inverse @ inner @ inverse + variances[j] * inverse
    return Unshrunk(last.theta + steps, covariances, variances, records, last.theta)
