"""Count the rows that a schema changes by more than a map of units.

The count is **private**: release it only with noise (`Schema.clipped_count`). One record moves it by at most 1, because
whether a row counts depends on that row only. In particular no sum over an axis decides it: NumPy adds up one row in
another order than many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndis.data.cells import Cells, Floats
from ndis.data.opening import open_for
from ndis.data.table import Table

if TYPE_CHECKING:
    from ndis.data.schema.core import Schema

CORNER = 1.0 + 1e-9  # rounding may put a corner of the box beyond the bound


def changed_rows(schema: Schema, data: Any, *, row_norm_bound: float | None = None, **how: Any) -> int:
    """Return how many rows the schema changes. **Private**: release it only with noise.

    A row counts once: if a cell is clipped, unknown or missing, the target included, or if the row is beyond the bound.
    The bound is that of the schema unless `row_norm_bound` states another one.
    `how` are the arguments of `open_for`.
    """
    bound = schema.row_norm_bound if row_norm_bound is None else row_norm_bound
    table = open_for(schema, data, **how)
    wanted = table.columns_of(schema, target=schema.target is not None)

    def count(opened: Table) -> int:
        return sum(int(_changed(schema, cells, bound).sum()) for cells in opened.cells(wanted))

    return int(table.reduced(count, sum))


def _changed(schema: Schema, cells: list[Cells], bound: float) -> NDArray[np.bool_]:
    """Mark the rows that encoding changes: a clipped, unlisted or missing cell, or a row beyond the bound."""
    columns: list[Any] = [*schema.columns.values(), *([] if schema.target is None else [schema.target])]
    values = [column.read(each) for column, each in zip(columns, cells, strict=True)]
    encoded = [column.encode_values(each) for column, each in zip(columns, values, strict=True)][: len(schema.columns)]
    changed: NDArray[np.bool_] = ~(row_norms(np.concatenate(encoded, axis=1)) <= bound * CORNER)
    for column, each in zip(columns, values, strict=True):
        for mask in column.faults(each):
            changed |= mask
    return changed


def row_norms(rows: Floats) -> Floats:
    """Return the norms of rows, added column by column: the norm of a row does not depend on the other rows.

    >>> row_norms(np.array([[3.0, 4.0]])).tolist()
    [5.0]
    """
    total = np.zeros(len(rows))
    with np.errstate(all="ignore"):  # which is of this thread only
        for column in rows.T:
            total += column * column
    return np.sqrt(total)
