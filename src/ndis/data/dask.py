"""Read dask arrays and data frames of numbers: every partition is read where it lives, and a tree joins the results.

Tasks are pure, so dask computes a partition again, to the same bits, if it is lost with its worker. Only the result
travels to the client.

A dask collection holds numbers and booleans only. dask and pandas infer the type of text from the cells of a partition,
and no check could see what that made of another cell. So every other column is refused by its declared type, and the
paths of files are read by their schema instead.

The type of a partition is private: a null turns a column of integers into floats or objects. So it must never decide
between a result and an error. Types of numbers hold every cell, or its nearest float64; objects and categories are read
value by value. Cells of any other type are no numbers, nor is a text among objects: a cell reads alike in all of them.

The rule of `ndis.data.table` starts at these cells: what tasks did before is the caller's own preparation.
"""

from __future__ import annotations

import logging
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis._validate import require
from ndis.data.cells import Cells, Coded, Floats, number, numbers, truths
from ndis.data.frames import pandas_cells
from ndis.data.memory import no_mask
from ndis.data.table import Table, Wanted, check_names, column_blocks, matrix_width
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.data.schema.core import Schema

_FAN_IN = 8
_KINDS = {"b": "boolean"} | dict.fromkeys("iuf", "number")
_OTHER = "a type of dask that is no number or boolean (give the paths of its files, which are read by their types)"
_INFERRING = ("read-csv", "read-table", "read-fwf", "read_json")  # tasks that infer numbers too


def dask_table(data: Any) -> Table:
    """Open a dask data frame or a two-dimensional dask array by the types that it declares.

    The table reads in this process, which holds one partition at a time; `Table.reduced` works where they live.
    """
    no_mask(data)
    names: tuple[str, ...] = ()
    kind: Any = type(data)  # a delayed value has every attribute, and none of them says anything
    if not hasattr(kind, "ndim") or data.ndim != 2 or not (hasattr(kind, "columns") or hasattr(kind, "rechunk")):
        raise ParameterError("data", "be a dask data frame or a two-dimensional dask array", kind.__name__)
    if hasattr(kind, "columns"):
        tasks = {str(key[0] if isinstance(key, tuple) else key) for key in data.__dask_graph__()}
        typed = not any(task.startswith(_INFERRING) for task in tasks)
        require(typed, "data", "come from no reader of dask that infers types", "one that does", "give the paths")
        names, types, delayed = check_names(data.columns), tuple(data._meta.dtypes), list(data.to_delayed())
    else:  # one list of blocks per strip
        types, delayed = (data.dtype,) * matrix_width(data.shape), data.to_delayed().tolist()
    kinds = tuple(frozenset({_KINDS.get(each.kind, _OTHER)}) for each in types)
    partitions = Partitions(delayed, partial(_opened, names, kinds))
    return Table(kinds, partitions.cells, None, names, partitions=partitions)


@dataclass(frozen=True)
class Partitions:
    """The partitions of a dask collection as delayed values, and how each of them opens as a table."""

    delayed: list[Any]
    open: Callable[[Any], Table]

    def encoded(self, schema: Schema, *, target: bool) -> Partitions:
        """Return the partitions as the schema encodes them."""
        opened = self.open
        return Partitions(self.delayed, lambda piece: opened(piece).encoded(schema, target=target))

    def cells(self, wanted: Wanted) -> Iterator[list[Cells]]:
        """Yield the cells of every partition in turn, in this process."""
        from dask import delayed

        opened = self.open
        for piece in self.delayed:
            yield from computed(delayed(lambda one: list(opened(one).cells(wanted)), pure=False)(piece))

    def reduced(self, each: Callable[[Table], Any], join: Callable[[list[Any]], Any]) -> Any:
        """Return ``each`` of all partitions, where they live, joined in a tree."""
        from dask import delayed

        opened = self.open
        level = [delayed(lambda piece: each(opened(piece)), pure=False)(piece) for piece in self.delayed]
        while len(level) != 1:
            level = [delayed(join, pure=False)(level[i : i + _FAN_IN]) for i in range(0, max(len(level), 1), _FAN_IN)]
        return computed(level[0])


def computed(delayed: Any) -> Any:
    """Return the result, or one fixed message: the error of another task may quote a cell or a size."""
    try:
        with _quiet():
            return delayed.compute()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 -- the tasks of others may raise anything, and quote what they like
        remedy = "compute the collection by itself to see why"
        rule = "be a collection that dask can compute, with the columns it declares in every partition"
        raise ParameterError("data", rule, "a task that failed", remedy) from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the warnings and logs of the tasks of others off the streams: they may quote a cell.

    This is the one place that touches filters and loggers, which belong to the process. Every computation adds a filter
    of its own and takes it away, so overlapping ones leave everything else as others left it.
    """
    entry: Any = ("ignore", re.compile(""), Warning, None, 0)  # which equals no filter of others
    known = [name for name in logging.root.manager.loggerDict if name.startswith(("dask", "distributed"))]
    loggers, mute, filters = [logging.getLogger(name) for name in known], logging.Filter("nobody"), warnings.filters
    filters.insert(0, entry)  # type: ignore[attr-defined]
    for logger in loggers:
        logger.addFilter(mute)
    try:
        yield
    finally:
        for each in [filters] if filters is warnings.filters else [filters, warnings.filters]:
            with suppress(ValueError):
                each.remove(entry)  # type: ignore[attr-defined]
        for logger in loggers:
            logger.removeFilter(mute)


def _opened(names: tuple[str, ...], kinds: tuple[frozenset[str], ...], piece: Any) -> Table:
    """Open a partition by the names and kinds that its collection declares; other columns are refused."""
    if isinstance(piece, list):  # blocks side by side: dask would join them by their types
        # A mask may come with the first missing cell, as from netCDF: so it decides about no error either.
        masked = [isinstance(block, np.ma.MaskedArray) for block in piece]
        blocks = [np.where(b.mask, np.array(None), b.data) if m else b for b, m in zip(piece, masked, strict=True)]
        own, columns = names, [column for block in blocks for column in np.asarray(block).T]
    else:
        own, columns = tuple(map(str, piece.columns)), [piece.iloc[:, i] for i in range(piece.shape[1])]
    length, given = len(columns[0]), (own, [column.shape for column in columns])
    require(given == (names, [(length,)] * len(kinds)), "data", "have the columns it declares", "others")

    def read(rows: slice, i: int, numeric: bool) -> Iterable[Cells]:
        cells = pandas_cells(columns[i].iloc[rows], True) if names else [columns[i][rows]]
        return map(_truths if "boolean" in kinds[i] else _numbers, cells)

    return Table(kinds, column_blocks(length, len(columns), read), names=names)


def _numbers(cells: Cells) -> Floats:
    """Return cells as float64: NaN for what is no number, whatever type its partition has."""
    if isinstance(cells, Coded):
        return cells.spread(_numbers(cells.values))
    if not isinstance(cells, np.ndarray) or cells.dtype.kind not in tuple("iufbcO"):
        return np.full(len(cells), math.nan)
    if cells.dtype.kind != "O":
        return numbers(cells)
    read = (math.nan if issubclass(type(cell), str | bytes) else number(cell) for cell in cells)
    return np.fromiter(read, dtype=np.float64, count=len(cells))


def _truths(cells: Cells) -> Coded:
    read = truths(_numbers(cells))
    return Coded(np.array([False, True]), np.where(np.isnan(read), -1, read).astype(np.int64))
