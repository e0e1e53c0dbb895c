"""Leverage scores of all rows in a second pass, for the auditor.

The leverage of a row v in its own Gram matrix is h = vᵀ(DᵀD + λI)⁻¹v = ‖Wq‖². Here LLᵀ = DᵀD + λI, W = L⁻¹·diag(steps),
and q is the integer row. Removing v moves the law of a projection by t = h/(1 − h) in one direction (thm:sketch-pair).
So the row of largest leverage is the worst one to remove. The scores are float64 and **private**.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.errors import ParameterError, PrecisionError
from ndis.gram.accumulator import Gram
from ndis.gram.cluster import computed, is_dask, open_dask, read_partition, tree
from ndis.gram.host import integer_tiles
from ndis.gram.layout import RowLayout
from ndis.gram.schema import Groups, Parts, choose_columns, rows_per_read
from ndis.gram.sources import open_source

__all__ = ["WorstRow", "leverage", "worst_row"]


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
    for tile in _tiles(data, gram.layout, columns, targets, header):
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
    W = _whitener(gram, ridge)
    layout = gram.layout
    if not is_dask(data):
        return _worst(_tiles(data, layout, columns, targets, header), W)[1]
    schema, partitions = open_dask(data)
    groups = _checked(choose_columns(schema, columns, targets), layout)
    declared = schema.names or schema.width
    found = tree(partitions, lambda part: _worst(_part_tiles(part, declared, groups, layout, 1), W), _worst_of)
    worst: WorstRow | None = computed(found)[1]
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


def _tiles(data: Any, layout: RowLayout, columns: Any, targets: Any, header: bool) -> Iterator[NDArray[np.float64]]:
    if is_dask(data):
        schema, partitions = open_dask(data)
        groups = _checked(choose_columns(schema, columns, targets), layout)
        for part in partitions:
            yield from _part_tiles(computed(part), schema.names or schema.width, groups, layout)
        return
    source = open_source(data, columns=columns, header=header)
    groups = _checked(choose_columns(source, columns, targets), layout)
    for parts in source.read(groups):
        for block in [parts] if source.device is None else _on_host(parts, layout.width):
            yield from integer_tiles(block, layout)


def _on_host(parts: Parts, width: int) -> Iterator[Parts]:
    """Bring rows from a device over, a block at a time."""
    step = rows_per_read(width)
    for start in range(0, len(parts[0]), step):
        yield tuple(part[start : start + step].cpu().numpy() for part in parts)


def _part_tiles(
    part: Any, columns: int | tuple[str, ...], groups: Groups, layout: RowLayout, threads: int | None = None
) -> Iterator[NDArray[np.float64]]:
    for parts in read_partition(part, columns, groups):
        yield from integer_tiles(parts, layout, threads=threads)


def _checked(groups: Groups, layout: RowLayout) -> Groups:
    widths = [len(g) for g in groups]
    expected = [layout.features] + ([layout.targets] if layout.targets else [])
    if widths != expected:
        raise ParameterError("data", f"have the columns of the Gram matrix, {expected}", widths)
    return groups


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
