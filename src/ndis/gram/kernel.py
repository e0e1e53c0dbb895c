"""The map of `ndis.gram.rows` compiled: one pass over a row while it is in cache.

The bits are those of `quantise_group`, the definition, and a test compares the two. The compiler may reorder only sums
of squares, because these are exact in any order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._compile import compiled
from ndis.gram.rows import GroupRule

__all__ = ["quantise_group_into"]


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})  # exact sums
def _round_row(x: Any, c: float, q: Any) -> float:
    s = 0.0
    for j in range(x.size):
        v = np.rint(x[j] * c)
        q[j] = v
        s += v * v
    return s


@compiled(error_model="numpy", fastmath={"nnan", "nsz"})  # called without NaN, on magnitudes
def _largest(x: Any) -> float:
    largest = 0.0
    for j in range(x.size):
        largest = max(largest, np.abs(x[j]))
    return largest


@compiled(error_model="numpy", fastmath={"reassoc", "contract"})  # exact sums
def _probe_squares(y: Any, probe: float) -> float:
    s = 0.0
    for j in range(y.size):
        p = np.rint(y[j] * probe)
        s += p * p
    return s


@compiled(error_model="numpy")
def _pull_row_in(x: Any, shrink: float, probe: float, reach: float, slack: float, q: Any) -> None:
    for j in range(x.size):
        q[j] = x[j] * shrink
    norm = np.sqrt(_probe_squares(q, probe)) + slack
    f = reach / norm
    for j in range(x.size):
        q[j] = np.rint(q[j] * f)


@compiled(error_model="numpy")
def _quantise(x: Any, c: float, limit: float, probe: float, reach: float, slack: float, q: Any, broken: Any) -> None:
    for i in range(x.shape[0]):
        squares = _round_row(x[i], c, q[i])
        if squares <= limit:
            continue
        largest = np.inf if np.isnan(squares) else _largest(x[i])  # the sum is NaN only if an entry is
        if largest < np.inf:
            shrink = math.ldexp(1.0, 1 - math.frexp(largest)[1])  # one over a power of two: exact
            _pull_row_in(x[i], shrink, probe, reach, slack, q[i])
        else:
            q[i] = 0.0
            broken[i] = True


def quantise_group_into(
    x: NDArray[np.float64], rule: GroupRule, q: NDArray[np.float64], broken: NDArray[np.bool_]
) -> None:
    """Write the integer rows of ``x`` into ``q`` and mark the rows that hold a NaN or an infinity in ``broken``."""
    _quantise(x, rule.scale, rule.limit, rule.probe, rule.reach, rule.slack, q, broken)
