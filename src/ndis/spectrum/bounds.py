"""Upper bounds on δ(ε) from the moments of the loss.

Every bound here is an infimum over a parameter, and the inequality holds at every value of the parameter. So a search
needs no certificate: if it stops too early, the bound is a little larger, never wrong. Only rounding is left, and each
result is rounded up past it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from ndis._search import chernoff_factor, least_point
from ndis._validate import Floats, as_floats, shaped
from ndis.spectrum.invariants import Invariants

Curve = Callable[[float], float]
ULP = 2.0**-52


# --- Rényi (Chernoff) -----------------------------------------------------------------------------


def renyi_bound(pair: Invariants, epsilon: ArrayLike) -> float | Floats:
    """The sharp bound from one moment of the loss: δ(ε) ≤ inf over s > 0 of e^{K(s) − sε} sˢ/(1+s)^{1+s}.

    (1 − e^{−x})₊ ≤ e^{sx} · max over x of e^{−sx}(1 − e^{−x}), and that maximum, at e^x = (1+s)/s, is sˢ/(1+s)^{1+s};
    take the mean over L − ε. The bound holds for every pair, every real ε and every s, so for the s of the search too.
    The paper's lem:ndis-cov-analytic-form, for the easier order alone, is e^{K(s) − sε}, and so never smaller.

    Parameters
    ----------
    pair
        Any pair, means and covariances both different.
    epsilon
        Any real ε.

    Returns
    -------
    float or array
        An upper bound on `pair.delta(epsilon)`, at most 1.

    Examples
    --------
    >>> import ndis
    >>> pair = ndis.GaussianPair.from_ratios([1.5, 0.8], shift=[0.0, 0.7])
    >>> f"{pair.delta(4.0):.4e} <= {renyi_bound(pair, 4.0):.4e}"
    '4.3869e-05 <= 6.4836e-04'
    """
    return over(epsilon, lambda e: round_up(math.exp(best_exponent(pair, e)[1])))


def renyi_log_bound(pair: Invariants, epsilon: ArrayLike) -> float | Floats:
    """Logarithm of `renyi_bound`, finite even if the bound itself underflows.

    Examples
    --------
    >>> import ndis
    >>> pair = ndis.GaussianPair.from_ratios(1.02, copies=100)
    >>> f"{pair.log_delta(50.0):.3f} <= {renyi_log_bound(pair, 50.0):.3f}"
    '-2313.627 <= -2307.827'
    """
    return over(epsilon, lambda e: best_exponent(pair, e)[1])


def best_exponent(pair: Invariants, epsilon: float, weight: Curve = chernoff_factor) -> tuple[float, float]:
    """Return an s > 0 at which K(s) − sε + weight(s) is about the least, and that value, rounded up and at most 0.

    With the usual weight it is the logarithm of the Rényi bound.

    >>> import ndis
    >>> s, log_bound = best_exponent(ndis.GaussianPair.from_ratios(1.0, shift=1.0), 2.0)
    >>> round(s, 2), round(log_bound, 4)
    (1.92, -2.9134)
    """
    if pair.mutually_singular:
        return 1.0, 0.0
    pole = pair.form.domain[1]
    size = max(epsilon, -epsilon)

    def exponent(y: float) -> float:
        return math.exp(y) if math.isinf(pole) else pole / (1.0 + math.exp(-y))

    def log_bound(y: float) -> float:
        # a rounding error in s·t is magnified by at most 1/room, with room = 1 − s/pole
        s, slack = exponent(y), 1.0 if math.isinf(pole) else 1.0 / (1.0 + math.exp(y))
        moment = pair.form.value(s) if s < pole else math.inf
        return moment - s * epsilon + weight(s) + (pair.copies.size + 16) * ULP * (moment + s * size + 1.0) / slack

    y, value = least_point(log_bound, -80.0, 80.0 if math.isinf(pole) else 36.0)
    return exponent(y), min(0.0, value)


# --- rounding ---------------------------------------------------------------------------------------


def round_up(value: float) -> float:
    """Return a little above `value`: past the rounding of a few operations, and above zero if it underflowed."""
    return min(1.0, value * (1.0 + 16 * ULP) + 2.0**-1070)


def over(epsilon: ArrayLike, bound: Curve) -> float | Floats:
    """The bound at each ε."""
    points = as_floats("epsilon", epsilon)
    return shaped(np.array([bound(e) for e in points.ravel().tolist()]), points.shape)
