"""Compute leverage scores of all rows in a second pass, for the auditor.

The leverage of a row v in its own Gram matrix is h = vᵀ(DᵀD + λI)⁻¹v = ‖Wq‖². Here LLᵀ = DᵀD + λI, W = L⁻¹·diag(steps),
and q is the integer row. Removing v moves the law of a projection by t = h/(1 − h) in one direction (thm:sketch-pair).
So the row of largest leverage is the worst one to remove. The scores are float64 and **private**.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import as_one_positive, require
from ndis.data import open_rows
from ndis.errors import PrecisionError
from ndis.gram.accumulator import Gram
from ndis.gram.host import integer_tiles
from ndis.gram.rows import RowLayout


@dataclass(frozen=True, eq=False)
class WorstRow:
    """A row of large leverage is **private**.

    Attributes
    ----------
    index : int
        Its number in the order of the source.
    leverage : float
        vᵀ(DᵀD + λI)⁻¹v, with the row in D.
    integers : (d,) int64 array
        The integer row, with which an audit can go on exactly.

    Examples
    --------
    >>> from ndis.gram import exact_gram
    >>> rows = np.array([[0.5, 0.25], [0.0, 0.5]])
    >>> worst = worst_row(rows, exact_gram(rows, row_norm_bound=1.0), ridge=1.0)
    >>> worst.index, round(worst.leverage, 6), worst.integers.tolist()
    (0, 0.230769, [131072, 65536])
    """

    index: int
    leverage: float
    integers: NDArray[np.int64]


def leverage(data: Any, gram: Gram, *, ridge: float, **how: Any) -> Iterator[NDArray[np.float64]]:
    """Yield the leverage scores of all rows, block by block in the order of the source.

    Parameters
    ----------
    data : any source of `exact_gram`
        The rows of ``gram``, or others of the same layout.
    gram : Gram
    ridge : float
        λ, positive.
    how : optional
        `columns`, `targets` and `header`, as for `exact_gram`.

    Examples
    --------
    >>> from ndis.gram import exact_gram
    >>> rows = np.array([[1.0, 0.0], [0.0, 0.5], [0.0, 0.5]])
    >>> gram = exact_gram(rows, row_norm_bound=1.0)
    >>> np.concatenate(list(leverage(rows, gram, ridge=0.5))).round(6)
    array([0.666667, 0.25    , 0.25    ])
    """
    W = _whitener(gram, ridge)
    return (_scores(tile, W) for tile in _tiles(data, gram.layout, **how))


def worst_row(data: Any, gram: Gram, *, ridge: float, **how: Any) -> WorstRow | None:
    """Return the row of largest leverage, the first one among equals; None without rows.

    Takes the arguments of `leverage`. The partitions of a dask collection are searched one by one, in this process.

    Examples
    --------
    >>> from ndis.gram import exact_gram
    >>> rows = np.array([[0.0, 0.5], [1.0, 0.0]])
    >>> worst_row(rows, exact_gram(rows, row_norm_bound=1.0), ridge=0.5).index
    1
    """
    return next(iter(worst_rows(data, gram, ridge=ridge, few=1, **how)[0]), None)


def worst_rows(data: Any, gram: Gram, *, ridge: float, few: int = 4, **how: Any) -> tuple[list[WorstRow], int]:
    """Return the few rows of largest leverage, largest first, and the number of rows. It takes what `worst_row` takes.

    >>> from ndis.gram import exact_gram
    >>> rows = np.array([[0.0, 0.5], [1.0, 0.0], [0.0, 0.5]])
    >>> largest, count = worst_rows(rows, exact_gram(rows, row_norm_bound=1.0), ridge=0.5)
    >>> [row.index for row in largest], count
    ([1, 0, 2], 3)
    """
    W, count = _whitener(gram, ridge), 0
    best: list[WorstRow] = []
    for tile in _tiles(data, gram.layout, **how):
        scores = _scores(tile, W)
        bar = best[-1].leverage if len(best) == few else -np.inf
        worth = np.flatnonzero(scores > bar)
        first = worth[np.argsort(-scores[worth], kind="stable")[:few]].tolist()
        best += [WorstRow(count + i, float(scores[i]), tile[i].astype(np.int64)) for i in first]
        best = sorted(best, key=lambda row: (-row.leverage, row.index))[:few]
        count += len(tile)
    return best, count


def _whitener(gram: Gram, ridge: float) -> NDArray[np.float64]:
    """Return the map after which the squared norm of a row is its leverage."""
    ridge = as_one_positive("ridge", ridge)
    step = np.array([float(s) for s in gram.layout.steps])
    try:
        L = np.linalg.cholesky(gram.to_float() + ridge * np.eye(len(step)))
    except np.linalg.LinAlgError:
        raise PrecisionError("DᵀD + ridge·I is singular to working precision; leverage needs a larger ridge") from None
    return np.linalg.solve(L, np.diag(step))


def _scores(tile: NDArray[np.float64], W: NDArray[np.float64]) -> NDArray[np.float64]:
    z = tile @ W.T
    return np.asarray(np.einsum("ij,ij->i", z, z))


def _tiles(data: Any, layout: RowLayout, **how: Any) -> Iterator[NDArray[np.float64]]:
    """Open the data, if they have the columns of the Gram matrix, and return their integer rows."""
    rows = open_rows(data, **how)
    expected = [layout.features] + ([layout.targets] if layout.targets else [])
    require(rows.widths == expected, "data", f"have the columns of the Gram matrix, {expected}", rows.widths)
    return (tile for parts in rows.on_host() for tile in integer_tiles(parts, layout))
