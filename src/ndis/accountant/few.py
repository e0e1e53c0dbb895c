"""δ(ε) of one or two sampled mean shifts: δ₂(ε) = E_P δ₁(ε − L) has positive terms only, and δ₁ is closed.

For one step (see `ndis.subsampling`) δ₁(ε) = a δ₀(ε'), e^ε' − 1 = (e^ε − 1)/a, with a = q in the remove order and
a = q − (1−q)(e^ε − 1) in the add order. δ₀ is the closed form of a mean shift. Gauss–Legendre panels cover the outer
step, with more panels where the inner one passes through its own scale; halving them gives the error.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from ndis._validate import Floats

__all__ = ["log_delta_shift", "one_step", "shift_for", "two_steps"]

_UNIT = 2.0**-53
_MAX_HALVINGS = 6
_RULE = np.polynomial.legendre.leggauss(20)
_SCALES = np.array([-0.5, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 65536.0])


def log_delta_shift(e: Floats, mu: float) -> Floats:
    """log δ of a mean shift for any real ε; a negative ε through 1 − e^ε + e^ε δ(−ε)."""
    size = np.abs(e)
    a, b = size / mu - 0.5 * mu, size / mu + 0.5 * mu
    far = np.maximum(a, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = scipy.special.erfcx(b / math.sqrt(2.0))
        tail = np.log(0.5 * (scipy.special.erfcx(far / math.sqrt(2.0)) - beyond)) - 0.5 * far * far
        near = np.log(scipy.special.ndtr(-a) - np.exp(np.minimum(size - 0.5 * b * b, 700.0)) * 0.5 * beyond)
        log_delta = np.where(a > 0.0, tail, near)
        negative = np.logaddexp(np.log(-np.expm1(-size)), log_delta - size)
    return np.asarray(np.where(e >= 0.0, log_delta, negative))


def shift_for(epsilon: float, log_delta: float) -> float:
    """The mean shift whose log δ(ε) is about this, roughly: a start for searches.

    >>> round(shift_for(1.0, math.log(1e-5)), 6)
    0.268051
    """
    low, high = -60.0, 10.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        safe = log_delta_shift(np.array([epsilon]), math.exp(middle))[0] <= log_delta
        low, high = (middle, high) if safe else (low, middle)
    return math.exp(low)


def _one_step(e: Floats, q: float, mu: float, *, add: bool) -> Floats:
    """log δ₁(ε) of one sampled step."""
    grown = np.expm1(e)
    weight = q - (1.0 - q) * grown if add else np.full(e.shape, q)
    some = weight > 0.0 if add else grown > -q
    out = np.full(e.shape, -math.inf)
    if not add:
        out[~some] = np.log(-grown[~some])
    w = weight[some]
    out[some] = np.log(w) + log_delta_shift(np.log1p(grown[some] / w), mu)
    return out


def one_step(step: tuple[float, float], e: float, *, add: bool) -> tuple[float, float]:
    """log δ(ε) of one step, its rate and its shift, and the rounding of that."""
    value = float(_one_step(np.array([e]), *step, add=add)[0])
    return value, 16.0 * _UNIT * (4.0 + 1.0 / step[1] + (abs(value) if value > -math.inf else 0.0))


def _integral(ends: Floats, e: float, outer: tuple[float, float], inner: tuple[float, float], add: bool) -> float:
    """log of the sum over the panels between `ends`."""
    q, mu = outer
    half, middle = 0.5 * np.diff(ends), 0.5 * (ends[1:] + ends[:-1])
    x = (middle[:, None] + half[:, None] * _RULE[0]).ravel()
    width = (half[:, None] * _RULE[1]).ravel()
    a = mu * x - 0.5 * mu * mu
    if q == 1.0:
        ratio = a
    else:
        large = a + math.log(q) + np.log1p((1.0 - q) / q * np.exp(-np.maximum(a, 30.0)))
        ratio = np.where(a > 30.0, large, np.log1p(q * np.expm1(np.minimum(a, 40.0))))
    terms = _one_step(e + ratio, *inner, add=True) if add else ratio + _one_step(e - ratio, *inner, add=False)
    terms -= 0.5 * x * x
    top = float(terms.max())
    if top == -math.inf:
        return -math.inf
    return top + math.log(float((np.exp(terms - top) * width).sum()) / math.sqrt(2.0 * math.pi))


def two_steps(first: tuple[float, float], second: tuple[float, float], e: float, *, add: bool) -> tuple[float, float]:
    """log δ(ε) and its estimated error, by the better of the two orders of integration; a step is rate and shift."""
    best = (math.nan, math.inf)
    for (q, mu), inner in ((first, second), (second, first)):
        near, far = (-36.0 if add else -12.0), 12.0 + 2.0 * mu
        if not add and e > 0.0:
            far = max(far, min((np.logaddexp(0.0, e - math.log(q)) + 0.5 * mu * mu) / mu + 8.0, 60.0 + 2.0 * mu))
        end = -math.log1p(-inner[0]) if inner[0] < 1.0 else 0.0  # where the inner loss ends
        scales = np.concatenate([inner[0] * _SCALES, [-end]])
        at = -scales - e if add else e - scales
        grown = np.expm1(np.minimum(at, 600.0))
        extra = (np.log1p(grown[grown > -q] / q) + 0.5 * mu * mu) / mu
        base = np.arange(near, far, 0.5 if mu > 1.0 else 1.0)
        edges = np.unique(np.concatenate([base, extra[(extra > near) & (extra < far)], [far]]))
        value, change, last = _integral(edges, e, (q, mu), inner, add), math.inf, math.inf
        for level in range(_MAX_HALVINGS):
            edges = np.sort(np.concatenate([edges, 0.5 * (edges[1:] + edges[:-1])]))
            before, value = value, _integral(edges, e, (q, mu), inner, add)
            last, change = change, abs(value - before) if value > -math.inf else math.inf
            if level and max(change, 1e-2 * last) < 1e-13:
                break
        error = change + 1e-2 * last + 16.0 * _UNIT * (4.0 + 1.0 / inner[1] + abs(value))
        if error < best[1]:
            best = (value, error)
        if best[1] < 1e-12:
            break
    return best
