"""Compute δ(ε) in closed form, for two centred Gaussians with one variance ratio in all directions.

L + s·log τ is t·Gamma(s), t = τ − 1, s = copies/2 (lemma: rp inherent, prop:grp-monotone). As in
`ndis.spectrum.closed_forms`, δ is a positive integral against the density of the loss, not a difference of tails. It is
a cross-check: the exact value of any pair is the contour integral behind `ndis.GaussianPair.delta`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from ndis._validate import Floats, as_floats
from ndis.errors import ParameterError

__all__ = ["equal_ratio_delta", "equal_ratio_log_delta"]


def equal_ratio_delta(epsilon: ArrayLike, variance_ratio: ArrayLike, copies: ArrayLike) -> float | Floats:
    """Compute δ(ε) for one variance ratio in all directions and equal means (lemma: rp inherent, prop:grp-monotone).

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
        function P for τ < 1, which is 0 from ε = −½r log τ on; (1 − e^ε)₊ for τ = 1.

    Examples
    --------
    >>> f"{equal_ratio_delta(1.0, 2.0, 1):.12f}", f"{equal_ratio_delta(1.0, 0.5, 1):.1f}"
    ('0.045611619893', '0.0')
    >>> f"{equal_ratio_delta(1.0, 1.02, 100):.10e}"
    '5.5847835086e-10'
    """
    return _shaped(np.exp(_equal_ratio(epsilon, variance_ratio, copies)))


def equal_ratio_log_delta(epsilon: ArrayLike, variance_ratio: ArrayLike, copies: ArrayLike) -> float | Floats:
    """Logarithm of `equal_ratio_delta`; −∞ if δ is exactly zero.

    Examples
    --------
    >>> f"{equal_ratio_log_delta(50.0, 1.02, 100):.6f}", equal_ratio_log_delta(1.0, 0.5, 1)
    ('-2313.626631', -inf)
    """
    return _shaped(_equal_ratio(epsilon, variance_ratio, copies))


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
    < 0. Times the Jacobian of w = e^y, or of w = −1/(1+e^{−y}), it is log-concave in w. So it has one peak in y,
    and a search by thirds finds it.
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
    """log of x^s e^{−x}/Γ(s) at x = s(1 + over), without the large terms if s is large (Stirling's series)."""
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
