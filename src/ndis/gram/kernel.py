"""The map of `ndis.gram.rows` compiled: one pass over a row while it is in cache.

The bits are those of `quantise_group`, which stays the definition; a test holds the two together. The relaxed
summation order is allowed for sums of squares alone, because those sums are exact in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ndis.gram.rows import GroupRule

__all__ = ["quantise_group_into"]

F = TypeVar("F", bound=Callable[..., Any])


def _compiled(*, sums_in_any_order: bool) -> Callable[[F], F]:
    relaxed = {"reassoc", "contract"} if sums_in_any_order else False
    decorator: Callable[[F], F] = njit(nogil=True, cache=True, error_model="numpy", fastmath=relaxed)
    return decorator


@_compiled(sums_in_any_order=True)
def _round_row(x: Any, c: float, q: Any) -> float:
    s = 0.0
    for j in range(x.size):
        v = np.rint(x[j] * c)
        q[j] = v
        s += v * v
    return s


@_compiled(sums_in_any_order=False)
def _pull_row_in(x: Any, power: float, probe: float, reach: float, slack: float, q: Any) -> None:
    for j in range(x.size):
        q[j] = x[j] / power
    norm = np.sqrt(_probe_squares(q, probe)) + slack
    f = reach / norm
    for j in range(x.size):
        q[j] = np.rint(q[j] * f)


@_compiled(sums_in_any_order=True)
def _probe_squares(y: Any, probe: float) -> float:
    s = 0.0
    for j in range(y.size):
        p = np.rint(y[j] * probe)
        s += p * p
    return s


@_compiled(sums_in_any_order=False)
def _quantise(x: Any, c: float, limit: float, probe: float, reach: float, slack: float, q: Any, broken: Any) -> None:
    for i in range(x.shape[0]):
        if _round_row(x[i], c, q[i]) <= limit:
            continue
        largest = 0.0
        finite = True
        for j in range(x.shape[1]):
            size = np.abs(x[i, j])
            finite = finite and size < np.inf  # false for NaN too
            largest = max(largest, size)
        if finite:
            power = math.ldexp(1.0, math.frexp(largest)[1] - 1)
            _pull_row_in(x[i], power, probe, reach, slack, q[i])
        else:
            q[i] = 0.0
            broken[i] = True


def quantise_group_into(
    x: NDArray[np.float64], rule: GroupRule, q: NDArray[np.float64], broken: NDArray[np.bool_]
) -> None:
    """Write the integer rows of ``x`` into ``q`` and mark the rows that hold a NaN or an infinity in ``broken``."""
    _quantise(x, rule.scale, rule.limit, rule.probe, rule.reach, rule.slack, q, broken)
