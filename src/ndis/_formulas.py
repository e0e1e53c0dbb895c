"""This module holds the formulas that several methods share: each stands here once, with its label.

A function without a suffix takes floats and arrays. Its neighbour that ends in `_ball` takes balls (`flint.arb`), whose
operations carry their error. `reverse` needs only arithmetic, so it takes floats, arrays, rationals and balls.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndis._validate import Floats

_LARGE = 30.0  # a log-ratio above this is taken out of the logarithm, so that its exponential cannot overflow


def chernoff_factor(c: Any) -> Any:
    """Return log(c^c/(1+c)^{1+c}) for c > 0, the constant of Chernoff's bound for δ (thm:sampled-chernoff).

    It is the largest value of (1 − e^{−x})₊ e^{−cx} over x, taken at e^x = (1+c)/c. So for every c > 0

        δ(ε) = E(1 − e^{ε−L})₊ ≤ c^c/(1+c)^{1+c} E e^{c(L−ε)}.

    >>> round(float(chernoff_factor(1.0)), 9)  # log ¼
    -1.386294361
    """
    return -np.log1p(c) - c * np.log1p(1.0 / c)


def chernoff_factor_ball(c: Any) -> Any:
    """Return `chernoff_factor` as a ball, for a ball c > 0.

    >>> from flint import arb
    >>> chernoff_factor_ball(arb(1)).overlaps(-arb(4).log())
    True
    """
    return c * c.log() - (1 + c) * (1 + c).log()


def reverse(excess: Any, square: Any, ratio: Any = None) -> tuple[Any, Any]:
    """Return the invariants (t', m'²) of the reversed pair: t' = −t/(1+t), m'² = m²/(1+t) (def:invariants).

    Give the variance ratio τ = 1 + t if it is known to more digits than 1 + t keeps.

    >>> reverse(3.0, 4.0)
    (-0.75, 1.0)
    """
    ratio = 1 + excess if ratio is None else ratio
    return -excess / ratio, square / ratio


def reverse_shift(excess: Floats, shift: Floats, ratio: Floats | None = None) -> tuple[Floats, Floats]:
    """Return (t', |m'|-signed like m) of the reversed pair: `reverse` for a shift m in place of its square.

    >>> [float(x) for x in reverse_shift(np.float64(3.0), np.float64(4.0))]
    [-0.75, 2.0]
    """
    return reverse(excess, 0.0, ratio)[0], shift / np.sqrt(1.0 + excess if ratio is None else ratio)


def log_mixture(rate: float, log_ratio: Any) -> Any:
    """Return log(1 − q + q w) from q and log w: the loss of a release that a record enters with probability q.

    It has nearly full relative accuracy, also if q or log w is tiny; w may be 0 or beyond the range of floats.

    >>> round(float(log_mixture(0.5, np.log(3.0))), 12), log_mixture(1.0, 5.0)  # log 2, and log w without sampling
    (0.69314718056, 5.0)
    """
    if rate == 1.0:
        return log_ratio
    large, small = np.maximum(log_ratio, _LARGE), np.minimum(log_ratio, _LARGE)
    lower = rate * np.expm1(small)
    return np.where(
        log_ratio > _LARGE,
        np.log(rate) + large + np.log1p((1.0 - rate) / rate * np.exp(-large)),
        # a rate near 1 and a small w: 1 − q is exact, and 1 + q(w − 1) would cancel
        np.where(lower < -0.5, np.log((1.0 - rate) + rate * np.exp(small)), np.log1p(lower)),
    )


def log_mixture_ball(rate: Any, log_ratio: Any) -> Any:
    """Return `log_mixture` as a ball, for balls q and log w.

    >>> from flint import arb
    >>> log_mixture_ball(arb(0.5), arb(3).log()).overlaps(arb(2).log())
    True
    """
    return (rate * log_ratio.expm1()).log1p()
