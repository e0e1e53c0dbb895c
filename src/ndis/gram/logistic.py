"""Compute the softmax from single IEEE operations in a fixed order, with the same bits on every engine.

Libraries differ in the last bits of their exponentials. Here

    e^t = 2ⁿ·P(r),   y = t·log₂e,   n = rint(y),   r = y − n in [−½, ½],

P being the Taylor polynomial of 2^r of degree 11 by Horner's rule, with one rounding per product and per sum. In
units of 2⁻⁵³ its remainder is at most 58.3, Horner's rule adds 31.2, the coefficients 1.5, and the rounding of y at
most 0.8. So e^t is within 2⁻⁴⁶·⁴ for t ≤ 0, and the logistic function, with two roundings more, within 2⁻⁴⁶. An array
library rounds after every elementwise operation, so nothing is fused.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

__all__ = ["exponential", "probabilities"]

_LN_2 = Fraction("0.69314718055994530941723212145817656807550013436")
_LOG2_E = float(1 / _LN_2)
_LOWEST = -700.0  # below it the exponential is under 10⁻³⁰³
# Correctly rounded from rationals, so the same on every machine.
_TAYLOR = tuple(float(_LN_2**i / math.factorial(i)) for i in range(11, -1, -1))


def exponential(xp: Any, t: Any) -> Any:
    """e^t of float64 numbers t ≤ 0, to about fourteen digits; ``xp`` is ``numpy`` or ``torch``.

    >>> import numpy as np
    >>> [round(float(x), 12) for x in exponential(np, np.array([0.0, -1.0, -30.5]))]
    [1.0, 0.367879441171, 0.0]
    """
    y = xp.clip(t, _LOWEST, 0.0) * _LOG2_E
    n = xp.round(y)
    r = y - n
    p = xp.full_like(r, _TAYLOR[0])
    for coefficient in _TAYLOR[1:]:
        p *= r
        p += coefficient
    power = xp.asarray(n, dtype=xp.int64)
    power += 1023
    power <<= 52
    p *= power.view(xp.float64)
    return p


def probabilities(xp: Any, logits: Any) -> Any:
    """Softmax over the rows of ``logits``; of one row, the logistic function, which is softmax with a zero.

    >>> import numpy as np
    >>> probabilities(np, np.array([[0.0, math.log(3.0)]])).round(12).tolist()
    [[0.5, 0.75]]
    >>> probabilities(np, np.array([[0.0], [0.0], [math.log(2.0)]])).round(12).tolist()
    [[0.25], [0.25], [0.5]]
    """
    if len(logits) == 1:
        e = exponential(xp, -xp.abs(logits))
        whole = e + 1.0
        return xp.where(logits >= 0, xp.ones_like(e), e) / whole
    e = exponential(xp, logits - xp.amax(logits, 0))
    total = e[0] + e[1]
    for one in e[2:]:
        total += one
    e /= total
    return e
