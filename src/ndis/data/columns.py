"""Names of the reader before `open_table`; they go when their last callers are switched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ndis.data.cells import Cells, Coded, objects
from ndis.data.memory import _series_frame, column_table, memory_table

__all__ = ["memory_columns", "objects", "series_cells", "series_table"]

series_table = _series_frame


class Columns(NamedTuple):
    kinds: Mapping[str, frozenset[str]]
    read: Callable[[tuple[tuple[str, bool], ...]], Iterator[list[Cells]]]


def memory_columns(data: Any, *, names: Sequence[str | None]) -> Columns:
    """Open data in memory by names."""
    table = memory_table(data)
    called = table.names or tuple(name for name in names if name is not None)

    def read(wanted: tuple[tuple[str, bool], ...]) -> Iterator[list[Cells]]:
        for block in table.cells(tuple((called.index(name), numeric) for name, numeric in wanted)):
            yield [plain_cells(column) for column in block]

    kinds = [frozenset("cells" if k == "objects" else k for k in kind) for kind in table.kinds]
    return Columns(dict(zip(called, kinds, strict=False)), read)


def plain_cells(cells: Cells) -> Any:
    """Return cells as an array; text as texts."""
    if isinstance(cells, Coded):
        values = [*plain_cells(cells.values), None]
        return objects([values[i] for i in cells.codes])
    if isinstance(cells, np.ndarray):
        return cells
    return objects([None if c is None else c.decode("utf-8", "surrogateescape") for c in cells.to_pylist()])


def series_cells(column: Any, *, numeric: bool) -> tuple[str, Any] | None:
    """Return kind and cells of a series of pandas or polars, or of an Arrow array; None if it is something else."""
    if series_table(column) is None:
        return None
    table = column_table(column)
    (kind,) = ("cells" if k == "objects" else k for k in table.kinds[0])
    module = type(column).__module__.partition(".")[0]
    if not numeric and kind in ("number", "boolean"):
        if module == "pandas" and isinstance(column.dtype, np.dtype):
            return kind, np.asarray(column)
        return kind, objects(column.to_pylist() if module == "pyarrow" else column.to_list())
    if kind not in ("number", "boolean", "text", "date", "cells"):
        return kind, np.empty(0, dtype=object)
    blocks = [plain_cells(block[0]) for block in table.cells(((0, numeric),))]
    return kind, np.concatenate(blocks) if blocks else np.empty(0, dtype=object)
