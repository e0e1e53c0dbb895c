"""Two Gaussians with the same covariance have δ(ε) in closed form.

δ(ε) = E_X (1 − e^{ε−L})₊ (lemma: ndis) is an integral against the density f of the loss,

    δ(ε) = ∫₀^∞ f(ε + v) (1 − e^{−v}) dv,      L ~ N(μ²/2, μ²)   (prop:ndis-mean-analytic-form).

The paper writes it as a difference of two tails. The difference cancels if δ is far below its tails. The integrand
above is positive, and every line below keeps full relative accuracy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike

from ndis._validate import Floats, as_floats, exponential, require, shaped

_NODES, _WEIGHTS = leggauss(12)
_ROUNDING = 2.0**-50  # rounding of a closed form, relative to 1 + |log δ| + |ε/μ|


def mean_shift_delta(epsilon: ArrayLike, distance: ArrayLike) -> float | Floats:
    """Return the δ(ε) of two Gaussians with the same covariance: the Gaussian mechanism (prop:ndis-mean-analytic-form).

    Parameters
    ----------
    epsilon
        Any real ε; negative values are meaningful.
    distance
        Mahalanobis distance μ = √(Δᵀ Σ⁻¹ Δ) ≥ 0 of the means.

    Returns
    -------
    float or array
        Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), and (1 − e^ε)₊ if μ = 0.

    Examples
    --------
    >>> f"{mean_shift_delta(1.0, 1.0):.12f}"
    '0.126936737507'
    >>> f"{mean_shift_delta(1.0, 1e-1):.6e}"  # as printed, no digit would be right
    '1.230836e-25'
    """
    return exponential(_mean_shift(epsilon, distance))


def mean_shift_log_delta(epsilon: ArrayLike, distance: ArrayLike) -> float | Floats:
    """Logarithm of `mean_shift_delta`, finite if δ itself underflows.

    Examples
    --------
    >>> f"{mean_shift_log_delta(1.0, 1e-3):.6f}"
    '-500021.142207'
    """
    values = _mean_shift(epsilon, distance)
    return shaped(values.ravel(), values.shape)


def mean_shift_tail(epsilon: Floats, distance: float, *, complement: bool) -> tuple[Floats, Floats, Floats]:
    """Return log I, −d log I/dε and the relative error of I, where I is δ(ε), or 1 − δ(ε) = Φ(a) + e^ε Φ(−b).

    −dδ/dε = e^ε Φ(−b) with a, b = ε/μ ∓ μ/2.
    """
    x = epsilon / distance
    with np.errstate(over="ignore", invalid="ignore"):
        slope, lost = epsilon + scipy.special.log_ndtr(-x - 0.5 * distance), np.abs(x)
        if complement:  # two positive terms: what x loses in the smaller one does not count in the sum
            value = np.logaddexp(scipy.special.log_ndtr(x - 0.5 * distance), slope)
            lost = np.minimum(lost, 3.0 + 3.0 * np.abs(value) + 4.0 * np.abs(epsilon))
        else:
            value = _mean_shift(epsilon, distance)
        error = _ROUNDING * (1.0 + np.abs(value) + lost)
        return value, np.exp(slope - value) * (-1.0 if complement else 1.0), error


def mean_shift_ball(epsilon: Any, square: Any) -> Any:
    """Return δ(ε) as a ball, for balls ε and μ². The difference of the tails costs digits where δ is far below them.

    >>> from flint import arb
    >>> mean_shift_ball(arb(1), arb(1)).overlaps(arb("0.1269367375", "1e-9"))
    True
    """
    root = (2 * square).sqrt()  # a/√2 = (ε − μ²/2)/(√2 μ)
    return (((epsilon - square / 2) / root).erfc() - epsilon.exp() * ((epsilon + square / 2) / root).erfc()) / 2


def _mean_shift(epsilon: ArrayLike, distance: ArrayLike) -> Floats:
    """Return log δ of a mean shift; negative ε come from the reversed pair."""
    e, mu = np.broadcast_arrays(as_floats("epsilon", epsilon), as_floats("distance", distance))
    require((mu >= 0).all(), "distance", "be non-negative", distance)
    # The pair is its own reverse, so δ(−e) = 1 − e^{−e} + e^{−e} δ(e): only e ≥ 0 needs a formula.
    up = np.where(e < 0, -e, e)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        shifted = np.where(mu > 0, _log_mills_difference(up / mu, mu), -np.inf)
        return np.where(e < 0, np.log(-np.expm1(-up) + np.exp(shifted - up)), shifted)


def _log_mills_difference(x: Floats, mu: Floats) -> Floats:
    """Return log(Φ(−a) − e^ε Φ(−b)) = log φ(a) [R(a) − R(b)]: a, b = x ∓ μ/2, x = ε/μ ≥ 0, R = (1 − Φ)/φ is Mills'."""
    a, b = x - 0.5 * mu, x + 0.5 * mu
    y = x[..., None] + 0.5 * mu[..., None] * _NODES
    # R(a) − R(b) = ∫ₐᵇ −R', relative to R(a); for μ ≤ 1
    descent = np.where(y < 1e3, 1.0 - y * _mills(y), (1.0 - 3.0 / y**2) / y**2)  # −R' = 1 − yR; far out by its series
    near = 0.5 * mu * (descent * _WEIGHTS).sum(axis=-1) / _mills(a)
    share = np.where(mu > 1, 1.0 - _mills(b) / _mills(a), near)
    tail = scipy.special.log_ndtr(-a)
    return np.where(x < 1e150, tail + np.log(share), -np.inf)  # beyond it log δ ≈ −x²/2 is no float


def _mills(x: Floats) -> Floats:
    return math.sqrt(0.5 * math.pi) * np.asarray(scipy.special.erfcx(x / math.sqrt(2.0)))
