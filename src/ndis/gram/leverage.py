"""Leverage scores of all rows in a second pass, for the auditor.

The leverage of a row v in its own Gram matrix is h = vᵀ(DᵀD + λI)⁻¹v = ‖Wq‖². Here LLᵀ = DᵀD + λI, W = L⁻¹·diag(steps),
and q is the integer row. Removing v moves the law of a projection by t = h/(1 − h) in one direction (thm:sketch-pair).
So the row of largest leverage is the worst one to remove. The scores are float64 and **private**.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.data import Rows, open_rows
from ndis.data.table import Parts
from ndis.errors import ParameterError, PrecisionError
from ndis.gram.accumulator import Gram
from ndis.gram.host import integer_tiles
from ndis.gram.layout import RowLayout

__all__ = ["WorstRow", "largest_leverages", "leverage", "worst_row"]


@dataclass(frozen=True, eq=False)
class WorstRow:
    """The row of largest leverage. **Private.**

    Attributes
    ----------
    index : int
        Its number in the order of the source.
    leverage : float
        vᵀ(DᵀD + λI)⁻¹v, with the row in D.
    integers : (d,) int64 array
        The integer row, with which an audit can go on exactly.
    """

    index: int
    leverage: float
    integers: NDArray[np.int64]


def leverage(
    data: Any, gram: Gram, *, ridge: float, columns: Any = None, targets: Any = None, header: bool = False
) -> Iterator[NDArray[np.float64]]:
    """Yield the leverage scores of all rows, block by block in the order of the source.

    Parameters
    ----------
    data : any source of `exact_gram`
        The rows of ``gram``, or others of the same layout.
    gram : Gram
    ridge : float
        λ, positive.
    columns, targets, header : optional
        As for `exact_gram`.

    Examples
    --------
    >>> from ndis.gram import exact_gram
    >>> rows = np.array([[1.0, 0.0], [0.0, 0.5], [0.0, 0.5]])
    >>> gram = exact_gram(rows, row_norm_bound=1.0)
    >>> np.concatenate(list(leverage(rows, gram, ridge=0.5))).round(6)
    array([0.666667, 0.25    , 0.25    ])
    """
    W = _whitener(gram, ridge)
    opened = _opened(data, gram.layout, columns=columns, targets=targets, header=header)
    for tile in _tiles(opened.on_host(), gram.layout):
        yield _scores(tile, W)


def worst_row(
    data: Any, gram: Gram, *, ridge: float, columns: Any = None, targets: Any = None, header: bool = False
) -> WorstRow | None:
    """Return the row of largest leverage, the first one among equals; None without rows.

    Takes the arguments of `leverage`; a dask collection is searched where it lives.

    Examples
    --------
    >>> from ndis.gram import exact_gram
    >>> rows = np.array([[0.0, 0.5], [1.0, 0.0]])
    >>> worst_row(rows, exact_gram(rows, row_norm_bound=1.0), ridge=0.5).index
    1
    """
    W, layout = _whitener(gram, ridge), gram.layout
    opened = _opened(data, layout, columns=columns, targets=targets, header=header)
    if not opened.is_dask:
        return _worst(_tiles(opened.on_host(), layout), W)[1]
    worst: WorstRow | None = opened.reduced(lambda rows: _worst(_tiles(rows, layout, 1), W), _worst_of)[1]
    return worst


def _whitener(gram: Gram, ridge: float) -> NDArray[np.float64]:
    if not 0 < ridge < np.inf:
        raise ParameterError("ridge", "be positive and finite", ridge)
    step = np.array([float(s) for s in gram.layout.steps])
    try:
        L = np.linalg.cholesky(gram.to_float() + ridge * np.eye(len(step)))
    except np.linalg.LinAlgError:
        raise PrecisionError("DᵀD + ridge·I is singular to working precision; leverage needs a larger ridge") from None
    return np.linalg.solve(L, np.diag(step))


def _scores(tile: NDArray[np.float64], W: NDArray[np.float64]) -> NDArray[np.float64]:
    z = tile @ W.T
    return np.asarray(np.einsum("ij,ij->i", z, z))


def _opened(data: Any, layout: RowLayout, **how: Any) -> Rows:
    """Open the data, if they have the columns of the Gram matrix."""
    rows = open_rows(data, **how)
    expected = [layout.features] + ([layout.targets] if layout.targets else [])
    if rows.widths != expected:
        raise ParameterError("data", f"have the columns of the Gram matrix, {expected}", rows.widths)
    return rows


def _tiles(rows: Iterator[Parts], layout: RowLayout, threads: int | None = None) -> Iterator[NDArray[np.float64]]:
    for parts in rows:
        yield from integer_tiles(parts, layout, threads=threads)


Found = tuple[int, WorstRow | None]  # rows seen, and the worst of them


def _worst(tiles: Iterable[NDArray[np.float64]], W: NDArray[np.float64]) -> Found:
    rows, worst = 0, None
    for tile in tiles:
        scores = _scores(tile, W)
        i = int(np.argmax(scores))
        if worst is None or scores[i] > worst.leverage:
            worst = WorstRow(rows + i, float(scores[i]), tile[i].astype(np.int64))
        rows += len(tile)
    return rows, worst


def _worst_of(parts: list[Found]) -> Found:
    rows, worst = 0, None
    for count, found in parts:
        if found is not None and (worst is None or found.leverage > worst.leverage):
            worst = WorstRow(rows + found.index, found.leverage, found.integers)
        rows += count
    return rows, worst


# ---------------------------------------------------------------------- the few rows of largest leverage

# A row v of leverage h = vᵀA⁻¹v, A = DᵀD + λI, has h ≤ ‖v‖²/μ, where μ is the smallest eigenvalue of A. Rounding onto
# the grid moves a row by at most half a step per column, and clipping takes it to its bound. A row is passed over if
# its norm plus that much cannot reach the leverages already found. The other rows go through the integers.

_FEW = 4
_CHUNK = 1 << 15
_FIRST = 32
_SLACK = 1e-6  # of a leverage: far above the rounding of floats, so it adds rows to look at and drops none
_Best = list[tuple[float, int, list[int]]]


def largest_leverages(
    data: Any, gram: Gram, ridge: float, *, columns: Any = None, targets: Any = None, header: bool = False
) -> tuple[list[tuple[int, NDArray[np.int64]]], int]:
    """Return (number, integer row) of the rows of largest leverage in floats, largest first, and the number of rows.

    >>> from ndis.gram import exact_gram
    >>> rows = np.array([[0.0, 0.5], [1.0, 0.0], [0.0, 0.5]])
    >>> found, count = largest_leverages(rows, exact_gram(rows, row_norm_bound=1.0), 0.5)
    >>> [number for number, _ in found], count
    ([1, 0, 2], 3)
    """
    layout, whitener = gram.layout, _whitener(gram, ridge)
    smallest = float(np.linalg.eigvalsh(gram.to_float() + ridge * np.eye(layout.width))[0])
    reach = 1.0 / max((1.0 - _SLACK) * smallest, ridge)  # A ⪰ λI, whatever floats say
    opened = _opened(data, layout, columns=columns, targets=targets, header=header)
    if opened.is_dask:
        row = worst_row(opened, gram, ridge=ridge)
        return ([] if row is None else [(row.index, row.integers)]), len(data)
    count = 0
    best: _Best = []
    for block in opened.on_host():
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


def _squared_norms(parts: Parts, layout: RowLayout) -> NDArray[np.float64]:
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
    best: _Best,
    before: int,
    numbers: NDArray[np.intp],
    parts: Parts,
    layout: RowLayout,
    whitener: NDArray[np.float64],
) -> None:
    """Put the largest of these rows among the best, a heap whose first entry is the smallest."""
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
