"""Trade-off curves from privacy profiles: the least type II error of a test that tells neighbours apart.

With t = e^ε the function 1 − δ(ε) − αt is concave in t, because δ is convex in t. So it rises to one maximum and falls
after it, in t and in ε, and a bracket with a search by sections finds it (thm:tradeoff).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import minimize_scalar

__all__ = ["least_type_two"]

_FIRST = 0.125  # of the bracket in ε
_FARTHEST = 690.0
_SETTLED = 1e-9  # relative width in ε at which the search stops; the error of the value is of second order


def least_type_two(delta: Callable[[float], float], alpha: float) -> float:
    """f(α) = sup over real ε of [1 − δ(ε) − e^ε α]₊, from below.

    >>> round(least_type_two(lambda e: max(0.0, 1.0 - math.exp(e)), 0.25), 9)  # equal laws
    0.75
    """
    if alpha == 1.0:
        return 0.0
    best = 0.0

    def loss(epsilon: float) -> float:
        nonlocal best
        value = 1.0 - delta(epsilon) - alpha * math.exp(epsilon)
        best = max(best, value)
        return -value

    middle, here, step = 0.0, loss(0.0), _FIRST
    left, right = loss(-step), loss(step)
    if left >= here <= right:
        low, high = -step, step
    else:
        side = 1.0 if right < here else -1.0
        before, middle, here = 0.0, side * step, min(left, right)
        while True:
            step *= 2.0
            ahead = middle + side * step
            if not -_FARTHEST <= ahead <= _FARTHEST:
                return best
            value = loss(ahead)
            if value >= here:
                break
            before, middle, here = middle, ahead, value
        low, high = min(before, ahead), max(before, ahead)
    minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": _SETTLED * (high - low)})
    return best
