"""Trade-off curves from privacy profiles: the least type II error of a test that tells neighbours apart.

With t = e^ε the function 1 − δ(ε) − αt is concave in t, because δ is convex in t. So it rises to one maximum and falls
after it, in t and in ε (thm:tradeoff). A search by sections closes in on it, for all α at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ndis._validate import Floats

__all__ = ["NEGLIGIBLE", "least_type_two"]

NEGLIGIBLE = 1e-16  # beyond the ε with this δ nothing changes in a float
_FIRST, _SECTION = 64, 10  # intervals of the first grid, and of each one that follows
_ROUNDS = 14
_SETTLED = 1e-14


def least_type_two(delta: Callable[[Floats], Floats], alpha: Floats, reach: float) -> Floats:
    """f(α) = sup over real ε of [1 − δ(ε) − e^ε α]₊, from below; δ(`reach`) is negligible.

    >>> equal = lambda e: np.maximum(0.0, -np.expm1(e))  # two equal laws
    >>> least_type_two(equal, np.array([0.25, 1.0]), 1.0)
    array([0.75, 0.  ])
    """
    low, high = np.full(alpha.size, -reach), np.full(alpha.size, reach)
    best = np.zeros(alpha.size)
    parts, calm = _FIRST, 0
    for _ in range(_ROUNDS):
        grid = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, parts + 1)
        places, where = np.unique(grid, return_inverse=True)
        value = 1.0 - delta(places)[where].reshape(grid.shape) - np.exp(grid) * alpha[:, None]
        top, rows = value.argmax(axis=1), np.arange(alpha.size)
        fresh = np.maximum(best, value[rows, top])
        calm = calm + 1 if (fresh - best <= _SETTLED).all() else 0
        best = fresh
        if calm == 2:
            break
        low, high = grid[rows, np.maximum(top - 1, 0)], grid[rows, np.minimum(top + 1, parts)]
        parts = _SECTION
    return np.minimum(best, 1.0 - alpha)  # a test that ignores the output has this error
