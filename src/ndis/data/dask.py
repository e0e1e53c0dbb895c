"""Read dask arrays and data frames: every partition is read where it lives, and a tree joins what each of them gives.

Tasks are pure, so dask computes a partition again, to the same bits, if it is lost with its worker. Only the result
travels to the client.

A partition may have another type than the collection declares: a null turns a column of int64 into float64. So the
declared type decides how a cell is read. Numbers of NumPy come as float64, and booleans as truth values, if the
partition has numbers, booleans or objects of NumPy, whose cells are what they were. Whole numbers beyond 2⁵³ may come
as the nearest float64, and `Table.encoded` refuses categories that need more: so none of them is a listed value, in
whatever type it comes. Any other type holds nulls, and every partition must have it: nothing could tell what a type
that was found anew has made of a cell. So categories that are not known are refused by their declared type. Dask's
readers of text take types from the cells that they see first, and its conversion to strings hides what was found: both
are refused by the names of their tasks.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis._validate import require
from ndis.data.cells import Cells, Coded, numbers, text_objects, truths
from ndis.data.frames import pandas_cells
from ndis.data.memory import memory_table, no_mask
from ndis.data.sparse import sparse_rows
from ndis.data.table import Table, Wanted, column_blocks
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.data.schema.core import Schema

_FAN_IN = 8
_UNKNOWN = "__UNKNOWN_CATEGORIES__"  # dask's own word
_INFERRING = ("read-csv", "read-table", "read-fwf", "read_json", "_to_string_dtype", "to_string_dtype")  # tasks of dask


def dask_table(data: Any) -> Table:
    """Open a dask data frame or a two-dimensional dask array by the types that it declares.

    The table reads in this process, which holds one partition at a time; `Table.reduced` works where they live.
    """
    no_mask(data)
    if hasattr(data, "_meta") and hasattr(data, "columns"):
        tasks = {str(key[0] if isinstance(key, tuple) else key) for key in data.__dask_graph__()}
        remedy = "give their paths, which are read by the schema, or use read_parquet or from_pandas"
        typed = not any(task.startswith(_INFERRING) for task in tasks)
        require(typed, "data", "come from a reader of dask that infers no types from cells", "one that does", remedy)
        declared, delayed = memory_table(data._meta), list(data.to_delayed())
        types: tuple[Any, ...] = tuple(data._meta.dtypes)
    elif getattr(data, "ndim", 0) != 2 or not hasattr(data, "rechunk"):
        raise ParameterError("data", "be a dask data frame or a two-dimensional dask array", type(data).__name__)
    else:
        declared = memory_table(np.empty((0, data.shape[1]), dtype=data.dtype))
        types, delayed = (data.dtype,) * declared.width, data.to_delayed().tolist()  # one list of blocks per strip
    rounded = frozenset(i for i, kind in enumerate(types) if _letter(kind) in tuple("iuf"))
    partitions = Partitions(delayed, _Declared(declared.names, types), rounded)
    unknown = (_UNKNOWN in getattr(kind, "categories", ()) for kind in types)  # each partition has its own
    kinds = (
        frozenset({"unknown categories"}) if is_open else kind
        for is_open, kind in zip(unknown, declared.kinds, strict=True)
    )

    def cells(wanted: Wanted) -> Iterator[list[Cells]]:
        return partitions.each_in_turn(lambda table: list(table.cells(wanted)))

    return Table(tuple(kinds), cells, None, declared.names, partitions=partitions)


@dataclass(frozen=True)
class Partitions:
    """The partitions of a dask collection as delayed values, and how each of them opens as a table."""

    delayed: list[Any]
    open: Callable[[Any], Table]
    rounded: frozenset[int] = frozenset()  # the columns whose whole numbers may come as floats

    def encoded(self, schema: Schema, *, target: bool) -> Partitions:
        """Return the partitions as the schema encodes them."""
        opened = self.open
        return Partitions(self.delayed, lambda piece: opened(piece).encoded(schema, target=target, typed=False))

    def each_in_turn(self, read: Callable[[Table], list[Any]]) -> Iterator[Any]:
        """Yield the items that ``read`` gives for every partition, in this process."""
        from dask import delayed

        opened = self.open
        for piece in self.delayed:
            yield from computed(delayed(lambda one: read(opened(one)), pure=False)(piece))

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
        with _QUIET.tasks():
            return delayed.compute()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 -- the tasks of others may raise anything, and quote what they like
        remedy = "compute the collection by itself to see why"
        rule = "be a collection that dask can compute, with the columns it declares in every partition"
        raise ParameterError("data", rule, "a task that failed", remedy) from None


@dataclass
class _Quiet:
    """Keep the warnings and logs of the tasks of others off the streams: they may quote a cell.

    This is the one place that touches filters and loggers, which belong to the process. Overlapping computations share
    one entry among the filters. It goes with the last of them, and everything else stays as others left it.
    """

    lock: Lock = field(default_factory=Lock)
    running: int = 0
    entry: tuple[Any, ...] = ("ignore", None, Warning, None, 0)
    filters: list[Any] = field(default_factory=list)
    loggers: list[logging.Logger] = field(default_factory=list)

    @contextmanager
    def tasks(self) -> Iterator[None]:
        """Be quiet while tasks run, in any thread."""
        with self.lock:
            self.running += 1
            if self.running == 1:
                known = [name for name in logging.root.manager.loggerDict if name.startswith(("dask", "distributed"))]
                self.loggers = [each for each in map(logging.getLogger, known) if not each.disabled]
                self.filters = warnings.filters  # type: ignore[assignment]
                self.filters.insert(0, self.entry)
                for logger in self.loggers:
                    logger.disabled = True
        try:
            yield
        finally:
            with self.lock:
                self.running -= 1
                if not self.running:
                    for filters in (self.filters, warnings.filters):
                        filters[:] = [each for each in filters if each is not self.entry]  # type: ignore[index]
                    for logger in self.loggers:
                        logger.disabled = False


_QUIET = _Quiet()


@dataclass(frozen=True)
class _Declared:
    """Open a partition by the names and types that its collection declares; other columns are refused."""

    names: tuple[str, ...]
    types: tuple[Any, ...]

    def __call__(self, piece: Any) -> Table:
        blocks = [_dense(block) for block in (piece if isinstance(piece, list) else [piece])]  # side by side
        shapes = [tuple(getattr(block, "shape", ())) for block in blocks]
        names = tuple(map(str, piece.columns)) if hasattr(piece, "columns") else ()
        fit = all(len(shape) == 2 and shape[0] == shapes[0][0] for shape in shapes) and names == self.names
        if not fit or sum(width for _, width in shapes) != len(self.types):
            raise ParameterError("data", "have partitions of the columns it declares", "another partition")
        places = [(block, i) for block in blocks for i in range(block.shape[1])]  # dask would join them by their types

        def column(rows: slice, i: int, numeric: bool) -> Iterable[Cells]:
            return self._cells(*places[i], rows, self.types[i], numeric)

        cells = column_blocks(shapes[0][0], len(places), column)
        return Table((frozenset({"cells"}),) * len(places), cells, names=names)

    def _cells(self, block: Any, place: int, rows: slice, declared: Any, numeric: bool) -> Iterable[Cells]:
        """Return one column, in the form that its declared type has."""
        kind, frame = _letter(declared), hasattr(block, "iloc")
        column = block.iloc[rows, place] if frame else np.asarray(block[rows, place])
        own = _letter(column.dtype)
        is_kept = own in _FORMS[kind] if kind in _FORMS else column.dtype == declared
        is_kept = is_kept and not (own in ("f", "c") and column.dtype.itemsize > _LONGEST[own])
        require(is_kept, "data", "have partitions of the types it declares", "another partition")
        columns = pandas_cells(column, numeric) if frame else [text_objects(column)]
        if kind == "b":
            return map(_truth_codes, columns)
        return map(numbers, columns) if numeric or kind in tuple("iuf") else columns


# Kinds of NumPy that a partition may have: those of numbers and booleans hold a cell as it was, or its nearest float.
_FORMS = {**dict.fromkeys("iufb", tuple("iufcbO")), "U": ("U",), "S": ("S",)}
_LONGEST = {"f": 8, "c": 16}  # bytes of a number; a longer one among objects is no number


def _dense(block: Any) -> Any:
    """Return a sparse block as an array, and any other as it stands; masks are refused."""
    no_mask(block)
    return sparse_rows(block)(0, block.shape[0]) if type(block).__module__.startswith("scipy.") else block


def _truth_codes(column: Cells) -> Coded:
    read = truths(column)
    return Coded(np.array([False, True]), np.where(np.isnan(read), -1, read).astype(np.int64))


def _letter(kind: Any) -> str:
    """Return NumPy's letter for a type; empty for the types of others."""
    return kind.kind if isinstance(kind, np.dtype) else ""
