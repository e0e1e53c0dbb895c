"""Compare two convex curves on one cell (lem:cells): the proof in balls, and its rehearsal in floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from ndis._balls import Ball
from ndis._validate import Floats

__all__ = ["Values", "cell_holds", "next_step"]


class Values(NamedTuple):
    """A number is known from below and from above."""

    low: Ball
    high: Ball


def cell_holds(points: Sequence[float], a: Sequence[Values], b: Sequence[Values]) -> bool:
    """Say if δ_A ≥ δ_B is certain between points 1 and 2 of four.

    Parameters
    ----------
    points : four floats
        Growing values of ε.
    a : four Values
        δ_A at the points.
    b : two Values
        δ_B at the points 1 and 2.
    """
    return _holds([arb(x).exp() for x in points], a, b, lambda place: place.mid())


def _holds(z: Any, a: Sequence[Values], b: Sequence[Values], point: Callable[[Any], Any]) -> bool:
    """Work as `cell_holds` for z = e^ε in balls, or in floats for a rehearsal; `point` picks a point of a number."""
    if not (a[1].low >= b[0].high and a[2].low >= b[1].high):
        return False
    if a[2].low >= b[0].high:  # both curves fall
        return True
    before = (a[1].low - a[0].high) / (z[1] - z[0])  # slope of A before the cell, at least
    after = (a[3].high - a[2].low) / (z[3] - z[2])  # slope of A after the cell, at most
    chord = (b[1].high - b[0].high) / (z[2] - z[1])
    # On the cell A lies above both lines, B below its chord. At its ends each line starts above the chord. So it is
    # enough that at some point between the ends both lines lie above the chord.
    gap = after - before
    if not gap > 0:
        return False
    place = point(((a[1].low - a[2].low) + after * z[2] - before * z[1]) / gap)
    if not (place >= z[1] and place <= z[2]):
        return False
    level = b[0].high + chord * (place - z[1])
    return bool(a[1].low + before * (place - z[1]) >= level and a[2].low + after * (place - z[2]) >= level)


def next_step(grid: Floats, log_a: Floats, log_b: Floats, start: float, end: float) -> float | None:
    """Suggest a cell width at `start` for which the float curves pass the test; None if no width does."""

    @np.errstate(all="ignore")
    def rehearsed(h: float) -> bool:
        x = start + h * np.array([-1.0, 0.0, 1.0, 2.0])
        level = float(np.interp(start, grid, log_a))
        a, b = (
            [Values(0.999 * value, 1.001 * value) for value in np.exp(_read(x, grid, logs) - level)]
            for logs in (log_a, log_b)
        )
        return _holds(np.exp(h * np.array([-1.0, 0.0, 1.0, 2.0])), a, b[1:3], lambda place: place)

    h = 2.0 * (end - start)
    for _ in range(40):
        if math.isfinite(h) and rehearsed(min(h, 20.0)):
            return 0.85 * min(h, 20.0)
        h *= 0.8
    return None


def _read(x: Floats, grid: Floats, logs: Floats) -> Floats:
    """Interpolate log δ between the points of a grid by straight lines, also beyond its ends."""
    inside = np.interp(x, grid, np.maximum(logs, -1e5))
    first = (logs[1] - logs[0]) / (grid[1] - grid[0]) if grid.size > 1 else 0.0
    last = (logs[-1] - logs[-2]) / (grid[-1] - grid[-2]) if grid.size > 1 else 0.0
    inside = np.where(x < grid[0], logs[0] + first * (x - grid[0]), inside)
    return np.asarray(np.where(x > grid[-1], np.maximum(logs[-1] + last * (x - grid[-1]), -1e5), inside))
