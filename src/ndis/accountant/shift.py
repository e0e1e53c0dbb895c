"""One Poisson-sampled mean shift: its likelihood ratio, its mean loss, and where the terms of its moments count.

Let x be standard normal under Q₀, w = e^{μx − μ²/2} the likelihood ratio dP₀/dQ₀, u = q(w − 1) and ℓ = log(1 + u), as
in `sampled_moment`. The functions are compiled.
"""

from __future__ import annotations

import cmath
import math

import numpy as np

from ndis._compile import compiled

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
    "second_order_exponential",
    "terms_range",
]

CUT = 46.0  # terms below e^-46 of the largest are left out
_SCAN = 128  # intervals of the scan for the places where terms count
FAR, FAR_WIDTH = 45.0, 2.0  # of the window that cuts off the tail of x in the remove order: a mass below e^-350
_EVEN = tuple(1.0 / math.factorial(k) for k in range(14, 0, -2))  # of (e^z − 1 − z)/z², highest power first
_ODD = tuple(1.0 / math.factorial(k) for k in range(15, 1, -2))


@compiled()
def second_order_exponential(z):
    """e^z − 1 − z, to nearly full relative accuracy."""
    if z.real * z.real + z.imag * z.imag < 0.16:
        square = z * z
        even, odd = 0.0j, 0.0j
        for k in range(len(_EVEN)):
            even, odd = even * square + _EVEN[k], odd * square + _ODD[k]
        return square * (even + z * odd)
    return cmath.exp(z) - 1.0 - z


@compiled()
def log_excess(z):
    """log(1+z) − z, to nearly full relative accuracy, on the principal branch."""
    if z.real * z.real + z.imag * z.imag < 0.04:
        p = 0.0j
        for k in range(22, 1, -1):
            p = p * (-z) + 1.0 / k
        return -z * z * p
    return cmath.log(1.0 + z) - z


@compiled()
def log1p(z):
    """log(1+z) on the principal branch; the error is small beside the modulus."""
    grown = z.real * (2.0 + z.real) + z.imag * z.imag  # |1+z|² − 1
    if -0.5 < grown < 1e300:
        return complex(0.5 * math.log1p(grown), math.atan2(z.imag, 1.0 + z.real))
    return cmath.log(1.0 + z)


@compiled()
def log_ratio(x, turn, q, mu):
    """ℓ = log(1 − q + q e^{μx − μ²/2}) at complex x, on the branch that is real for real x, and its slope.

    |μ Im x| < π; `turn` is e^{iμ Im x} − 1, the same for a whole line.
    """
    a = mu * x.real - 0.5 * mu * mu
    if a > 30.0:  # the ratio alone, and the rest as a small addition
        back = (1.0 - q) / q * math.exp(-a) * (1.0 + turn.conjugate())
        return complex(math.log(q) + a, mu * x.imag) + log1p(back), mu / (1.0 + back)
    grown = math.expm1(a)
    ratio = (1.0 + grown) * turn  # e^{μx − μ²/2} − 1 in two parts, without cancellation
    u = q * (grown + ratio)
    return log1p(u), mu * q * (1.0 + grown + ratio) / (1.0 + u)


@compiled()
def mean_loss(q, mu, add):
    """κ = E_P L ≥ 0, every term of it positive: E[(1+u)ℓ − u], or E[u − ℓ] in the add order, under Q₀."""
    low, high = -9.5, 9.5 + mu * (1.0 if add else 2.0)
    step = min(0.2, 0.45 / mu) * 0.5
    count = int((high - low) / step) + 1
    total = 0.0
    for k in range(count + 1):
        x = low + k * step
        a = mu * x - 0.5 * mu * mu
        u = q * math.expm1(a)
        excess = log_excess(complex(u, 0.0)).real  # ℓ − u
        # (1+u)ℓ − u = ℓ − u + uℓ; for small u the two parts are −u²/2 and u²
        term = -excess if add else excess + u * math.log1p(u)
        total += math.exp(-0.5 * x * x) * term
    return total * step / math.sqrt(2.0 * math.pi)


@compiled()
def log_window(x, mu):
    """log of the window that cuts off large x, a logistic function of a cubic."""
    t = (x - FAR - mu) / FAR_WIDTH
    g = -t * (1.0 + t * t / 12.0)
    if g.real > 80.0:
        return 0.0j
    if g.real > 0.0:
        return -log1p(cmath.exp(-g))
    return g - log1p(cmath.exp(g))


@compiled()
def _log_density(x, q, mu, add):
    """At a real x: the logarithm of the density under P, but for a constant and with the window, and the loss."""
    ratio = log_ratio(complex(x), 0.0j, q, mu)[0].real
    if add:
        return -0.5 * x * x, -ratio
    return -0.5 * x * x + ratio + log_window(complex(x), mu).real, ratio


@compiled()
def terms_range(s, q, mu, add):
    """Where the terms at some rising real s count. A loss near 0 adds little to M − 1, of the order of (qμ)²."""
    most, cut = s[-1], CUT - 2.0 * math.log(q * min(mu, 1.0))
    reach = math.sqrt(2.0 * cut) + 1.0
    right = reach + mu * (1.0 if add else 2.0 + most)
    if not add:
        right = min(right, FAR + mu + 40.0 * FAR_WIDTH)
    left = -reach - (math.sqrt(-2.0 * most * math.log1p(-q)) if add else 0.0)
    pad = (right - left) / _SCAN
    term, top = np.empty((_SCAN + 1, s.size)), np.empty(s.size)
    for k in range(_SCAN + 1):
        density, loss = _log_density(left + k * pad, q, mu, add)
        for j in range(s.size):
            term[k, j] = density + s[j] * loss
            top[j] = term[k, j] if k == 0 else max(top[j], term[k, j])
    low, high = right, left
    for k in range(_SCAN + 1):
        for j in range(s.size):
            if term[k, j] >= top[j] - cut:
                low, high = min(low, left + (k - 1) * pad), max(high, left + (k + 1) * pad)
    return low, high


@compiled()
def far_losses(s, q, mu):
    """Share and spread of large losses under the law of the remove order tilted by s, if they are apart; else 0, 0."""
    left, count = -8.0, 1024
    step = ((1.0 + s) * mu + 4.0 - left) / (count - 1)
    f, loss = np.empty(count), np.empty(count)
    top, valley = -math.inf, 0
    for k in range(count):
        density, loss[k] = _log_density(left + k * step, q, mu, False)
        f[k] = density + s * loss[k]
        top = max(top, f[k])
        if k > 1 and f[k - 2] >= f[k - 1] < f[k] and (valley == 0 or f[k - 1] < f[valley]):
            valley = k - 1
    if valley == 0:
        return 0.0, 0.0
    near, far, mean, square = 0.0, 0.0, 0.0, 0.0
    for k in range(count):
        mass = math.exp(f[k] - top)
        if k < valley:
            near += mass
        elif mass > 0.0:  # mean and sum of squares, updated
            far += mass
            move = loss[k] - mean
            mean += move * mass / far
            square += mass * move * (loss[k] - mean)
    return far / (near + far), math.sqrt(square / far) if far > 0.0 else 0.0
