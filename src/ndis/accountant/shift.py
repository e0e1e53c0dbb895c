"""One Poisson-sampled mean shift has a likelihood ratio, a mean loss, and places where the terms of its moments count.

Let x be standard normal under Q₀, w = e^{μx − μ²/2} the likelihood ratio dP₀/dQ₀, u = q(w − 1) and ℓ = log(1 + u), as
in `ndis.accountant.moment`. All functions take arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ndis._compile import compiled
from ndis._formulas import log_mixture
from ndis._validate import Floats

__all__ = [
    "CUT",
    "FAR",
    "FAR_WIDTH",
    "far_losses",
    "log1p",
    "log_excess",
    "log_ratio",
    "log_window",
    "mean_loss",
    "quiet",
    "second_order_exponential",
    "terms_range",
]

P = ParamSpec("P")
R = TypeVar("R")

CUT = 46.0  # terms below e^-46 of the largest are left out
_SCAN = 128  # intervals of the scan for the places where terms count
FAR, FAR_WIDTH = 45.0, 2.0  # the window that cuts off the tail of x in the remove order: a mass below e^-350
_LARGE = 30.0  # log w above which the ratio is taken out of the logarithm
_EVEN = tuple(1.0 / math.factorial(k) for k in range(14, 0, -2))  # (e^z − 1 − z)/z² by powers, highest first
_ODD = tuple(1.0 / math.factorial(k) for k in range(15, 1, -2))


def quiet(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function whose numbers may overflow: a value that is not finite is refused later."""

    @wraps(function)
    def without_warnings(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return function(*args, **kwargs)

    return without_warnings


@compiled()
def second_order_exponential(z: Any) -> Any:
    """Return e^z − 1 − z, to nearly full relative accuracy."""
    if z.real * z.real + z.imag * z.imag < 0.16:
        square = z * z
        even, odd = 0.0j, 0.0j
        for k in range(len(_EVEN)):
            even, odd = even * square + _EVEN[k], odd * square + _ODD[k]
        return square * (even + z * odd)
    return np.exp(z) - 1.0 - z


@compiled()
def log_excess(z: Any) -> Any:
    """Return log(1+z) − z, to nearly full relative accuracy, on the principal branch."""
    if z.real * z.real + z.imag * z.imag < 0.04:
        p = 0.0j
        for k in range(22, 1, -1):
            p = p * (-z) + 1.0 / k
        return -z * z * p
    return np.log(1.0 + z) - z


def log1p(z: Any) -> Any:
    """Return log(1+z) on the principal branch; the error is small compared with the modulus."""
    grown = z.real * (2.0 + z.real) + z.imag * z.imag  # |1+z|² − 1
    size = np.where((grown > -0.5) & (grown < 1e300), 0.5 * np.log1p(grown), np.log(np.abs(1.0 + z)))
    return size + 1j * np.arctan2(z.imag, 1.0 + z.real)


def log_ratio(x: Any, q: float, mu: float) -> tuple[Any, Any]:
    """Return ℓ = log(1 − q + q e^{μx − μ²/2}) at complex x with |μ Im x| < π, and its slope.

    The branch is the one that is real for real x.
    """
    a, angle = mu * x.real - 0.5 * mu * mu, mu * x.imag
    turn = -2.0 * np.sin(0.5 * angle) ** 2 + 1j * np.sin(angle)  # e^{iμ Im x} − 1
    grown = np.expm1(np.minimum(a, _LARGE))
    ratio = (1.0 + grown) * turn  # e^{μx − μ²/2} − 1 in two terms, without cancellation
    u = q * (grown + ratio)
    # for a large ratio: the ratio itself, and the other term as a small addition
    back = (1.0 - q) / q * np.exp(-np.maximum(a, _LARGE)) * (1.0 + np.conj(turn))
    large = a > _LARGE
    sampled = q * np.exp(np.minimum(a, _LARGE)) * (1.0 + turn)
    # near −1 the sum 1 + u cancels if q is near 1; 1 − q is then exact
    mixed = np.where(u.real < -0.5, (1.0 - q) + sampled, 1.0 + u)
    near = np.where(u.real < -0.5, np.log(mixed), log1p(np.where(large, back, u)))
    ell = np.where(large, math.log(q) + a + 1j * angle, 0.0) + near
    return ell, mu * np.where(large, 1.0 / (1.0 + back), sampled / mixed)


@quiet
def mean_loss(q: float, mu: float, add: bool) -> float:
    """Return κ = E_P L ≥ 0, every term of it positive: E[(1+u)ℓ − u], or E[u − ℓ] in the add order, under Q₀."""
    low, high = -9.5, 9.5 + mu * (1.0 if add else 2.0)
    step = min(0.2, 0.45 / mu) * 0.5
    x = low + step * np.arange(int((high - low) / step) + 2)
    u, ell = q * np.expm1(mu * x - 0.5 * mu * mu), log_mixture(q, mu * x - 0.5 * mu * mu)
    excess = _log_excess(u, ell)  # ℓ − u
    # (1+u)ℓ − u = ℓ − u + uℓ; for small u the two terms are −u²/2 and u²
    term = -excess if add else excess + u * ell
    return float((np.exp(-0.5 * x * x) * term).sum()) * step / math.sqrt(2.0 * math.pi)


def _log_excess(u: Floats, ell: Floats) -> Floats:
    """Return ℓ − u with ℓ = log(1+u) for real u > −1, to nearly full relative accuracy."""
    y = np.where(np.abs(u) < 0.2, u, 0.0)
    series = np.zeros_like(u)
    for k in range(22, 1, -1):
        series = series * -y + 1.0 / k
    return np.where(np.abs(u) < 0.2, -y * y * series, ell - u)


def log_window(x: Any, mu: float) -> Any:
    """Return log of the window that cuts off large x, a logistic function of a cubic."""
    t = (x - FAR - mu) / FAR_WIDTH
    g = -t * (1.0 + t * t / 12.0)
    if g.real.min() > 80.0:
        return 0.0
    side = np.where(g.real > 0.0, -1.0, 1.0)
    return np.where(g.real > 0.0, 0.0, g) - log1p(np.exp(side * g))


def _log_densities(x: Floats, q: float, mu: float, add: bool) -> tuple[Floats, Floats]:
    """Return at real x the logarithm of the density under P, but for a constant and with the window, and the loss."""
    ratio = log_mixture(q, mu * x - 0.5 * mu * mu)
    if add:
        return -0.5 * x * x, -ratio
    return -0.5 * x * x + ratio + np.real(log_window(x + 0.0j, mu)), ratio


@quiet
def terms_range(s: Floats, q: float, mu: float, add: bool) -> tuple[float, float]:
    """Return where the terms at some rising real s count. A loss near 0 adds to M − 1 only about (qμ)²."""
    most, cut = float(s[-1]), CUT - 2.0 * math.log(q * min(mu, 1.0))
    width = math.sqrt(2.0 * cut) + 1.0
    right = width + mu * (1.0 if add else 2.0 + most)
    if not add:
        right = min(right, FAR + mu + 40.0 * FAR_WIDTH)
    left = -width - (math.sqrt(-2.0 * most * math.log1p(-q)) if add else 0.0)
    x, pad = np.linspace(left, right, _SCAN + 1), (right - left) / _SCAN
    density, loss = _log_densities(x, q, mu, add)
    terms = density + s[:, None] * loss
    counts = np.flatnonzero((terms >= terms.max(axis=1, keepdims=True) - cut).any(axis=0))
    if not counts.size:
        return right, left
    return float(x[counts[0]]) - pad, float(x[counts[-1]]) + pad


@quiet
def far_losses(s: float, q: float, mu: float) -> tuple[float, float]:
    """Return share and spread of large losses under the law of the remove order tilted by s; 0, 0 if none is apart."""
    x = np.linspace(-8.0, (1.0 + s) * mu + 4.0, 1024)
    density, loss = _log_densities(x, q, mu, False)
    f = density + s * loss
    valleys = 1 + np.flatnonzero((f[:-2] >= f[1:-1]) & (f[1:-1] < f[2:]))
    if not valleys.size:
        return 0.0, 0.0
    mass = np.exp(f - f.max())
    far = slice(valleys[np.argmin(f[valleys])], None)
    share = float(mass[far].sum())
    if not share > 0.0:
        return 0.0, 0.0
    mean = float((mass[far] * loss[far]).sum()) / share
    return share / float(mass.sum()), math.sqrt(float((mass[far] * (loss[far] - mean) ** 2).sum()) / share)
