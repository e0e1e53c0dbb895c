"""The rows of largest leverage in one pass over the data, most of them passed over by their norm.

The leverage of a row v in its own Gram is h = vᵀA⁻¹v ≤ ‖v‖²/μ, A = DᵀD + λI and μ its smallest eigenvalue. Rounding
onto the grid moves a row by at most half a step a column, and clipping takes it to its bound: a row whose norm, with
that much added, cannot reach the leverages already found is passed over. What is left goes through the integers.
"""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import Floats
from ndis.gram import Gram, RowLayout, worst_row
from ndis.gram.cluster import is_dask
from ndis.gram.host import integer_tiles
from ndis.gram.leverage import _checked, _on_host, _scores, _whitener
from ndis.gram.schema import choose_columns
from ndis.gram.sources import open_source

__all__ = ["largest_leverages"]

Rows = list[tuple[int, NDArray[np.int64]]]
_FEW = 4
_CHUNK = 1 << 15
_FIRST = 32
_SLACK = 1e-6  # of a leverage, for the rounding of floats: far above it, for more rows are looked at, never fewer


def largest_leverages(
    data: Any, gram: Gram, ridge: float, *, columns: Any = None, targets: Any = None
) -> tuple[Rows, int]:
    """(number, integer row) of the rows of largest leverage in floats, the largest first, and the number of rows.

    >>> from ndis.gram import exact_gram
    >>> rows = np.array([[0.0, 0.5], [1.0, 0.0], [0.0, 0.5]])
    >>> found, count = largest_leverages(rows, exact_gram(rows, row_norm_bound=1.0), 0.5)
    >>> [number for number, _ in found], count
    ([1, 0, 2], 3)
    """
    if is_dask(data):
        row = worst_row(data, gram, ridge=ridge, columns=columns, targets=targets)
        return ([] if row is None else [(row.index, row.integers)]), len(data)
    layout, whitener = gram.layout, _whitener(gram, ridge)
    smallest = float(np.linalg.eigvalsh(gram.to_float() + ridge * np.eye(layout.width))[0])
    reach = 1.0 / max((1.0 - _SLACK) * smallest, ridge)  # A ⪰ λI, whatever floats say
    source = open_source(data)
    groups = _checked(choose_columns(source, columns, targets), layout)
    count = 0
    best: list[tuple[float, int, list[int]]] = []
    for parts in source.read(groups):
        for block in [parts] if source.device is None else _on_host(parts, layout.width):
            for start in range(0, len(block[0]), _CHUNK):
                chunk = tuple(part[start : start + _CHUNK] for part in block)
                most = reach * _squared_norms(chunk, layout)  # no leverage is above it
                first = np.argpartition(most, -_FIRST)[-_FIRST:] if most.size > _FIRST else np.arange(most.size)
                for look in (first, None):  # the longest rows raise the bar for the others
                    bar = best[0][0] if len(best) == _FEW else -1.0
                    worth = np.flatnonzero(most >= bar) if look is None else look[most[look] >= bar]
                    if worth.size:
                        _take(best, count, worth, tuple(part[worth] for part in chunk), layout, whitener)
                    most[first] = -np.inf
                count += most.size
    best.sort(reverse=True)
    return [(-number, np.array(row, dtype=np.int64)) for _, number, row in best], count


def _squared_norms(parts: tuple[Any, ...], layout: RowLayout) -> Floats:
    """An upper end of the squared norm of every row, clipped and rounded."""
    total = np.full(parts[0].shape[0], (layout.intercept or 0.0) ** 2)
    for part, group in zip(parts, layout.groups, strict=False):
        if type(part) is not np.ndarray or part.dtype.kind != "f":
            total += group.bound**2
            continue
        step = math.ldexp(group.bound, -layout.fractional_bits)
        with np.errstate(all="ignore"):
            norm = np.sqrt(np.einsum("ij,ij->i", part, part, dtype=np.float64)) + math.sqrt(group.width) * step
        total += np.fmin(norm, group.bound) ** 2  # NaN counts as the bound
    return total * (1.0 + _SLACK)


def _take(
    best: list[tuple[float, int, list[int]]],
    before: int,
    numbers: NDArray[np.intp],
    parts: tuple[Any, ...],
    layout: RowLayout,
    whitener: Floats,
) -> None:
    """Put the largest of these rows among the best, a heap with the smallest in front."""
    seen = 0
    for tile in integer_tiles(parts, layout):
        scores = _scores(tile, whitener)
        few = min(_FEW, len(scores))
        for i in np.argpartition(scores, -few)[-few:].tolist():
            entry = (float(scores[i]), -(before + int(numbers[seen + i])), tile[i].astype(np.int64).tolist())
            if len(best) < _FEW:
                heapq.heappush(best, entry)
            else:
                heapq.heappushpop(best, entry)
        seen += len(tile)
