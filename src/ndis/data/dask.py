"""Dask arrays and data frames: every partition becomes an accumulator where it lives, and a tree merges them.

Tasks are pure, so dask computes a partition again, to the same bits, if it is lost with its worker. Only the d×d result
travels to the client.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.data.cells import read_cells
from ndis.data.opening import open_source
from ndis.data.source import Groups, Parts, Source, rows_per_read
from ndis.errors import ParameterError

__all__ = ["computed", "is_dask", "open_dask", "read_partition", "tree"]

_FAN_IN = 8


def is_dask(data: Any) -> bool:
    """Whether ``data`` is a dask collection."""
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(data, "__dask_graph__")


def open_dask(data: Any) -> tuple[Source, list[Any]]:
    """Return the rows of a dask collection as a source, and its partitions as delayed values.

    The source reads in this process, which holds one partition at a time.
    """
    if hasattr(data, "_meta") and hasattr(data, "columns"):
        schema, partitions = open_source(data._meta), list(data.to_delayed())
    elif getattr(data, "ndim", 0) != 2 or not hasattr(data, "rechunk"):
        raise ParameterError("data", "be a dask data frame or a two-dimensional dask array", type(data).__name__)
    else:
        schema = open_source(data._meta.reshape(0, data.shape[1]))
        partitions = list(data.rechunk({1: -1}).to_delayed().ravel())
    declared = schema.names or schema.width

    def read(groups: Groups) -> Iterator[Parts]:
        from dask import delayed

        for part in partitions:
            yield from computed(delayed(_blocks, pure=False)(part, declared, groups))

    return replace(schema, read=read), partitions


def _blocks(part: Any, columns: int | tuple[str, ...], groups: Groups) -> list[Parts]:
    return list(read_partition(part, columns, groups))


def computed(delayed: Any) -> Any:
    """The result, or one fixed message: the errors, warnings and logs of other tasks may quote a cell or a size."""
    try:
        with _silence():
            return delayed.compute()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 -- the tasks of others may raise anything, and quote what they like
        remedy = "compute the collection by itself to see why"
        rule = "be a collection that dask can compute, with the columns it declares in every partition"
        raise ParameterError("data", rule, "a task that failed", remedy) from None


@contextmanager
def _silence() -> Iterator[None]:
    """No warnings, and no log records of dask's own loggers in this process."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in ("dask", "distributed")]
    loggers = [logger for logger in map(logging.getLogger, names) if not logger.disabled]
    for logger in loggers:
        logger.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger in loggers:
            logger.disabled = False


def tree(partitions: list[Any], each: Callable[[Any], Any], join: Callable[[list[Any]], Any]) -> Any:
    """Apply ``each`` to all partitions and ``join`` the results in a tree; returns a delayed value."""
    from dask import delayed

    level = [delayed(each, pure=False)(part) for part in partitions]
    while len(level) != 1:
        level = [delayed(join, pure=False)(level[i : i + _FAN_IN]) for i in range(0, max(len(level), 1), _FAN_IN)]
    return level[0]


def read_partition(part: Any, columns: int | tuple[str, ...], groups: Groups) -> Iterator[Parts]:
    """Rows of one partition, each cell read on its own. No cell raises anything, whatever its type.

    `columns` are the names that the collection declares, or the number of its columns. Other columns are refused.

    >>> import pandas as pd
    >>> [block.tolist() for (block,) in read_partition(pd.DataFrame({"a": [0.5, "x"]}), ("a",), ((0,),))]
    [[[0.5], [nan]]]
    """
    shape = tuple(getattr(part, "shape", ()))
    found = tuple(map(str, part.columns)) if hasattr(part, "columns") else shape[1:]
    if len(shape) != 2 or found != (columns if isinstance(columns, tuple) else (columns,)):
        raise ParameterError("data", "have partitions of the columns it declares", "another partition")
    step = rows_per_read(shape[1])
    for start in range(0, shape[0], step):
        rows = part.iloc[start : start + step] if hasattr(part, "iloc") else part[start : start + step]
        rows = rows.toarray() if hasattr(rows, "toarray") else rows
        yield tuple(np.stack([_column(rows, i) for i in group], axis=1) for group in groups)


def _column(rows: Any, i: int) -> NDArray[np.float64]:
    """A column as float64: by its type if the type is numeric, otherwise cell by cell."""
    cells = rows.iloc[:, i] if hasattr(rows, "iloc") else rows[:, i]
    kind = getattr(cells.dtype, "kind", "O")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if kind in "fiub" and cells.dtype.itemsize <= 8:
            if hasattr(cells, "iloc"):
                return np.asarray(cells.to_numpy(dtype=np.float64, na_value=np.nan))
            return np.asarray(cells, dtype=np.float64)
        return read_cells(np.fromiter(iter(cells), dtype=object, count=len(cells)))
