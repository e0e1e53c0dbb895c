"""Count records by the values of their columns and by the norms of their rows, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.gram.accumulator import TileAccumulator
from ndis.gram.rows import RowLayout


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """Hold the counts of one pass. **Private.**

    Attributes
    ----------
    above : (edges, columns) int array
        Records whose value is above the edge.
    longer : (norms,) int array
        Records whose features have a larger norm.
    records : int
    """

    above: NDArray[np.int64]
    longer: NDArray[np.int64]
    records: int

    def histograms(self) -> NDArray[np.int64]:
        """Return the records between edges, (columns, edges + 1). A record is in one bin of each column."""
        return between(self.above.T, self.records)

    def lengths(self) -> NDArray[np.int64]:
        """Return the records by the norm of their features. A record is in one bin."""
        return between(self.longer, self.records)


def between(above: NDArray[np.int64], records: int) -> NDArray[np.int64]:
    """Return the records between edges from those above each of them, along the last axis.

    >>> between(np.array([3, 1]), 5).tolist()
    [2, 2, 1]
    """
    ends = np.zeros((*above.shape[:-1], 1), dtype=np.int64)
    return np.asarray(-np.diff(np.concatenate([ends + records, above, ends], axis=-1)), dtype=np.int64)


class CountAccumulator(TileAccumulator):
    """Counts values of integer rows above edges; merges and pickles as `GramAccumulator` does.

    Integers are compared with public numbers, so the counts have the same bits everywhere.
    """

    def __init__(self, tile: RowLayout, edges: Any, norms: Any, device: str | None = None) -> None:
        super().__init__(tile, device)
        self._edges, self._norms = edges, norms
        self._above = np.zeros(edges.T.shape, dtype=np.int64)
        self._longer, self._records = np.zeros(len(norms), dtype=np.int64), 0

    def _add(self, xp: Any, tile: Any) -> None:
        """Count the rows of one tile."""
        rows = np.asarray(tile if xp is np else tile.cpu())
        rows = rows[rows[:, -1] != 0]
        self._records += len(rows)
        for i, edge in enumerate(self._edges.T):
            self._above[i] += (rows[:, :-1] > edge).sum(axis=0)
        squares = (rows[:, : self.layout.features] ** 2).sum(axis=1)
        self._longer += (squares[:, None] > self._norms).sum(axis=0)

    def merge(self, other: CountAccumulator) -> None:
        """Add all rows of ``other``."""
        self._above, self._longer = self._above + other._above, self._longer + other._longer
        self._records += other._records

    def finish(self) -> ValueCounts:
        """Return the counts of all rows so far."""
        return ValueCounts(self._above, self._longer, self._records)
