"""The two families of pairs whose loss has an elementary density (the paper's Tool 2, exact cases).

In both, δ(ε) = E_X (1 − e^{ε−L})₊ (lemma: ndis) is a single integral against the density f of the loss,

    δ(ε) = ∫₀^∞ f(ε + v) (1 − e^{−v}) dv,

and the paper's closed forms are this integral written as a difference of two tails. The difference cancels when δ is
far below its tails, so it is not evaluated as printed: the integrand above is positive, and every line below keeps
full relative accuracy. These forms are cross-checks and fast paths; the exact value of any pair is the contour
integral behind `ndis.GaussianPair.delta`.

*Equal covariances* (prop:ndis-mean-analytic-form): L ~ N(μ²/2, μ²). *Equal variance ratios, same mean* (lemma: rp
inherent, prop:grp-monotone): L + s·log τ is t·Gamma(s), t = τ − 1, s = copies/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike
from scipy.special import erfcx, gammaln, log_ndtr

from ndis._validate import Floats, as_floats
from ndis.errors import ParameterError

__all__ = ["equal_ratio_delta", "equal_ratio_log_delta", "mean_shift_delta", "mean_shift_log_delta"]

_NODES, _WEIGHTS = leggauss(12)


def mean_shift_delta(epsilon: ArrayLike, distance: ArrayLike) -> float | Floats:
    """δ(ε) of two Gaussians with the same covariance: the Gaussian mechanism (prop:ndis-mean-analytic-form).

    Parameters
    ----------
    epsilon
        Any real ε; negative values are meaningful.
    distance
        Mahalanobis distance μ = √(Δᵀ Σ⁻¹ Δ) ≥ 0 of the means.

    Returns
    -------
    float or array
        Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), and (1 − e^ε)₊ where μ = 0.

    Examples
    --------
    >>> f"{mean_shift_delta(1.0, 1.0):.12f}"
    '0.126936737507'
    >>> f"{mean_shift_delta(1.0, 1e-1):.6e}"  # as printed, no digit would be right
    '1.230836e-25'
    """
    return _shaped(np.exp(_mean_shift(epsilon, distance)))


def mean_shift_log_delta(epsilon: ArrayLike, distance: ArrayLike) -> float | Floats:
    """Logarithm of `mean_shift_delta`, finite where δ itself underflows.

    Examples
    --------
    >>> f"{mean_shift_log_delta(1.0, 1e-3):.6f}"
    '-500021.142207'
    """
    return _shaped(_mean_shift(epsilon, distance))


def equal_ratio_delta(epsilon: ArrayLike, variance_ratio: ArrayLike, copies: ArrayLike) -> float | Floats:
    """δ(ε) of centred Gaussians with one variance ratio in all directions (lemma: rp inherent, prop:grp-monotone).

    A sketch with r columns is this pair: in the paper's letters τ = ρ = 1/(1 − p) for the removal of a record of
    leverage p, copies = r. Both orders are covered: τ > 1 is the wider law measured from the narrower one, τ < 1 the
    reverse.

    Parameters
    ----------
    epsilon
        Any real ε.
    variance_ratio
        τ > 0.
    copies
        Number of directions, positive (need not be whole).

    Returns
    -------
    float or array
        With t₀ = 2(ε + ½r log τ)/(τ − 1): Q(r/2, t₀/2) − e^ε Q(r/2, τt₀/2) for τ > 1; the same with the lower
        function P for τ < 1, where it is 0 from ε = −½r log τ on; (1 − e^ε)₊ for τ = 1.

    Examples
    --------
    >>> f"{equal_ratio_delta(1.0, 2.0, 1):.12f}", f"{equal_ratio_delta(1.0, 0.5, 1):.1f}"
    ('0.045611619893', '0.0')
    >>> f"{equal_ratio_delta(1.0, 1.02, 100):.10e}"
    '5.5847835086e-10'
    """
    return _shaped(np.exp(_equal_ratio(epsilon, variance_ratio, copies)))


def equal_ratio_log_delta(epsilon: ArrayLike, variance_ratio: ArrayLike, copies: ArrayLike) -> float | Floats:
    """Logarithm of `equal_ratio_delta`; −∞ where δ is exactly zero.

    Examples
    --------
    >>> f"{equal_ratio_log_delta(50.0, 1.02, 100):.6f}", equal_ratio_log_delta(1.0, 0.5, 1)
    ('-2313.626631', -inf)
    """
    return _shaped(_equal_ratio(epsilon, variance_ratio, copies))


# --- equal covariances ----------------------------------------------------------------------------


def _mean_shift(epsilon: ArrayLike, distance: ArrayLike) -> Floats:
    e, mu = np.broadcast_arrays(as_floats("epsilon", epsilon), as_floats("distance", distance))
    if not (mu >= 0).all():
        raise ParameterError("distance", "be non-negative", distance)
    # The pair is its own reverse, so δ(−e) = 1 − e^{−e} + e^{−e} δ(e): only e ≥ 0 needs a formula.
    up = np.where(e < 0, -e, e)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        shifted = np.where(mu > 0, _log_mills_difference(up / mu, mu), -np.inf)
        return np.where(e < 0, np.log(-np.expm1(-up) + np.exp(shifted - up)), shifted)


def _log_mills_difference(x: Floats, mu: Floats) -> Floats:
    """log of Φ(−a) − e^ε Φ(−b) = φ(a) [R(a) − R(b)]: a, b = x ∓ μ/2, x = ε/μ ≥ 0, Mills' ratio R = (1 − Φ)/φ."""
    a, b = x - 0.5 * mu, x + 0.5 * mu
    y = x[..., None] + 0.5 * mu[..., None] * _NODES
    near = 0.5 * mu * (_mills_descent(y) @ _WEIGHTS) / _mills(a)  # R(a) − R(b) = ∫ₐᵇ −R', relative to R(a); for μ ≤ 1
    share = np.where(mu > 1, 1.0 - _mills(b) / _mills(a), near)
    return np.where(x < 1e150, log_ndtr(-a) + np.log(share), -np.inf)  # beyond, log δ ≈ −x²/2 is out of range


def _mills(x: Floats) -> Floats:
    return math.sqrt(0.5 * math.pi) * np.asarray(erfcx(x / math.sqrt(2.0)))


def _mills_descent(x: Floats) -> Floats:
    """−R'(x) = 1 − x R(x); from its asymptotic series where the difference would round to nothing."""
    return np.where(x < 1e3, 1.0 - x * _mills(x), (1.0 - 3.0 / x**2) / x**2)


# --- equal ratios ---------------------------------------------------------------------------------


def _equal_ratio(epsilon: ArrayLike, variance_ratio: ArrayLike, copies: ArrayLike) -> Floats:
    e, tau, r = np.broadcast_arrays(
        as_floats("epsilon", epsilon), as_floats("variance_ratio", variance_ratio), as_floats("copies", copies)
    )
    if not (tau > 0).all():
        raise ParameterError("variance_ratio", "be positive", variance_ratio)
    if not (r > 0).all():
        raise ParameterError("copies", "be positive", copies)
    shape, s = e.shape, 0.5 * r.ravel()
    e, tau = e.ravel(), tau.ravel()
    # δ(ε) = 1 − e^ε + e^ε δ'(−ε) with the reversed pair, τ' = 1/τ: only ε ≥ 0 needs a formula.
    up = np.where(e < 0, -e, e)
    t = np.where(e < 0, (1.0 - tau) / tau, tau - 1.0)
    log_tau = np.where(e < 0, -1.0, 1.0) * np.where(tau < 0.5, np.log(tau), np.log1p(tau - 1.0))
    out = np.full(e.shape, -np.inf)  # the same law twice, or a bounded loss that never exceeds ε
    for side in t > 0, (t < 0) & (up + s * log_tau < 0):
        if side.any():
            out[side] = np.minimum(_log_gamma_hinge(up[side], t[side], log_tau[side], s[side]), 0.0)
    with np.errstate(divide="ignore"):
        out = np.where(e < 0, np.log(-np.expm1(-up) + np.exp(out - up)), out)
    return np.asarray(out.reshape(shape))


def _log_gamma_hinge(e: Floats, t: Floats, log_tau: Floats, s: Floats) -> Floats:
    """log ∫ f(ε+v)(1−e^{−v}) dv for the density f of −s log τ + t·Gamma(s), in w = v/(tx); all t of one sign.

    With x = (ε + s log τ)/t the integrand is x^s e^{−x}/Γ(s) · (1+w)^{s−1} e^{−xw} (1 − e^{−txw}), w > 0 or −1 < w
    < 0. It is log-concave in w once multiplied by the Jacobian of w = e^y, respectively w = −1/(1+e^{−y}), so it has
    one peak in y, found by thirds.
    """
    over = (e / s + log_tau) / t - 1.0  # x/s − 1
    x = s * (1.0 + over)
    rate = t * x if t[0] > 0 else -t * x

    def log_integrand(y: Floats) -> Floats:
        if t[0] > 0:
            w = np.exp(y)
            return y + (s - 1.0) * np.log1p(w) - x * w + np.log(-np.expm1(-rate * w))
        log_w, log_rest = -np.logaddexp(0.0, -y), -np.logaddexp(0.0, y)  # w and 1 − w
        w = np.exp(log_w)
        return log_w + s * log_rest + x * w + np.log(-np.expm1(-rate * w))

    return _log_gamma_kernel(over, s) + _log_integral_of_one_peak(log_integrand, e.size)


def _log_gamma_kernel(over: Floats, s: Floats) -> Floats:
    """log of x^s e^{−x}/Γ(s) at x = s(1 + over), the large terms removed by Stirling's series where s is large."""
    big = np.maximum(s, 20.0)
    stirling = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / big**2) / big**2) / big**2) / big
    series = 0.5 * np.log(big / (2 * math.pi)) - stirling
    small = s * np.log(s) - s - gammaln(s)
    return np.asarray(np.where(s < 20.0, small, series) - s * (over - np.log1p(over)))


def _log_integral_of_one_peak(log_f: Callable[[Floats], Floats], n: int) -> Floats:
    """log ∫ e^{log_f(y)} dy for n functions with one peak each: the trapezoidal rule between their e^{−46} points."""
    with np.errstate(over="ignore", divide="ignore"):
        low, high = np.full(n, -650.0), np.full(n, 650.0)
        for _ in range(90):  # thirds; on the far right log_f is −∞ on both, and the right end moves
            left, right = low + (high - low) / 3, high - (high - low) / 3
            rising = log_f(left) < log_f(right)
            low, high = np.where(rising, left, low), np.where(rising, high, right)
        peak, top = low, log_f(low)

        def edge(outside: float) -> Floats:
            inside, outer = peak, np.full(n, outside)
            for _ in range(60):
                middle = 0.5 * (inside + outer)
                seen = log_f(middle) > top - 46.0
                inside, outer = np.where(seen, middle, inside), np.where(seen, outer, middle)
            return outer

        start, stop = edge(-700.0), edge(700.0)
        step = (stop - start) / 400
        values = np.exp(log_f(start + np.arange(401.0)[:, None] * step) - top)
    return np.asarray(top + np.log(values.sum(axis=0) * step))


def _shaped(values: Floats) -> float | Floats:
    return float(values) if values.ndim == 0 else values
