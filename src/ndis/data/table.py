"""A table has private rows with public names and kinds. It is opened once, and mechanisms read views of it.

**The rule.** For every source, every order of records and every split into blocks, files or partitions: the rows of n
records are the rows of the n records read alone. Only arguments and declared types decide how a cell is read. No check
here looks at a value.

`ndis.data.open_table` opens a `Table`. ``table.matrix(columns, targets)`` chooses columns of numbers and gives `Rows`.
``table.encoded(schema)`` gives the table that a schema makes of it, whose columns are numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis._validate import require
from ndis.data.cells import Cells, Floats, numbers
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.data.dask import Partitions
    from ndis.data.schema.core import Schema

Groups = tuple[tuple[int, ...], ...]  # column numbers of the features, then of the targets if there are any
Parts = tuple[Any, ...]  # one matrix per group
Wanted = tuple[tuple[int, bool], ...]  # number of a column, and whether its numbers suffice as float64
# "cells" may be anything, one by one: lists, arrays of objects, CSV. "objects" are the same in a frame that has types,
# and "texts" in an array of NumPy; both may hold numbers for a schema, and give no matrix.
_NUMBERS = frozenset({"number", "boolean", "cells"})
_WORDS = {"number": "numbers", "boolean": "booleans", "text": "text", "date": "dates"}
_TYPES = _WORDS | {"objects": "dtype object", "texts": "text"}


@dataclass(frozen=True)
class Table:
    """A table has private rows and a public kind per column. It can be read more than once.

    Parameters
    ----------
    kinds : tuple of sets
        The kinds in which each column is stored: "number", "boolean", "text", "date", "cells", "objects" or "texts", or
        other words for a type without a kind. Several files may store a column in several ways.
    by_column : callable or None
        ``by_column(wanted)`` yields blocks of rows: one column of cells (`ndis.data.cells`) per wanted column.
    rows : callable, optional
        ``rows(groups)`` yields blocks of rows: for every group of column numbers a matrix with those columns. A table
        has one of both at least.
    names : tuple of str
        Names of the columns, or empty; "" for a column without a name, which is not read.
    target_width : int
        How many of the last columns came as separate targets.
    device : str, optional
        The torch device that holds the rows.
    named : bool
        Whether the caller's `columns` named all columns, and so choose none.
    quotable : bool
        Whether a message may list the names. The first line of a CSV file may be a record after all.
    partitions : Partitions, optional
        Those of a dask collection, each of which opens as a table where it lives.

    Examples
    --------
    >>> from ndis.schema import Schema
    >>> table = Schema({"age": (18, 90)}).table({"age": [20.0, 54.0]})
    >>> table.names, [sorted(kinds) for kinds in table.kinds]
    (('age',), [['number']])
    """

    kinds: tuple[frozenset[str], ...]
    by_column: Callable[[Wanted], Iterator[list[Cells]]] | None
    rows: Callable[[Groups], Iterator[Parts]] | None = None
    names: tuple[str, ...] = ()
    target_width: int = 0
    device: str | None = None
    named: bool = False
    quotable: bool = True
    partitions: Partitions | None = None

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return len(self.kinds)

    @property
    def refused(self) -> dict[int, str]:
        """Return the columns that give no matrix, with their types in words."""
        types = {i: sorted(_TYPES.get(kind, kind) for kind in kinds - _NUMBERS) for i, kinds in enumerate(self.kinds)}
        unread = {} if self.target_width else dict.fromkeys(self.unread, "a column without a name")
        return {i: " and ".join(words) for i, words in types.items() if words} | unread

    @property
    def unread(self) -> frozenset[int]:
        """Return the columns of a CSV file that the caller left without a name."""
        return frozenset(i for i, name in enumerate(self.names) if not name)

    def cells(self, wanted: Wanted) -> Iterator[list[Cells]]:
        """Yield blocks of rows: one column of cells per wanted column."""
        if self.by_column is not None:
            yield from self.by_column(wanted)
            return
        for (block,) in self.on_host((tuple(i for i, _ in wanted),)):
            yield [np.ascontiguousarray(column) for column in block.T]

    def on_host(self, groups: Groups) -> Iterator[Parts]:
        """Yield what `read` does as arrays of this process."""
        step = rows_per_read(sum(map(len, groups)))
        for parts in self.read(groups):
            if self.device is None:
                yield parts
                continue
            for start in range(0, len(parts[0]), step):
                yield tuple(each[start : start + step].double().cpu().numpy() for each in parts)

    def read(self, groups: Groups) -> Iterator[Parts]:
        """Yield blocks of rows: for every group of column numbers a matrix."""
        if self.rows is not None:
            yield from self.rows(groups)
            return
        cuts = [sum(map(len, groups[:i])) for i in range(len(groups) + 1)]
        for block in self.cells(tuple((i, True) for group in groups for i in group)):
            # Column by column: the quantiser turns the matrix row by row in cache.
            yield tuple(np.stack([numbers(column) for column in block[a:b]]).T for a, b in pairwise(cuts))

    def matrix(self, columns: Any = None, targets: Any = None) -> Rows:
        """Choose columns of numbers, by names or numbers; by default all columns but the targets are features."""
        groups = choose_columns(self, columns, targets)
        names = tuple(self.names[i] for group in groups for i in group) if self.names else ()
        clear = len(set(names)) == len(names) and not (self.target_width and "" in names)
        return Rows(self, groups, names if clear else ())

    def encoded(self, schema: Schema, *, target: bool | None = None) -> Table:
        """Return the table of encoded features, and of the target after them if `target` is true.

        By default the target is there if the schema has one. A column that is missing, or of a type that does not fit
        the schema, is refused by name.
        """
        with_target = schema.target is not None if target is None else target
        wanted = self.columns_of(schema, target=with_target)
        features = len(schema.columns)

        def rows(groups: Groups) -> Iterator[Parts]:
            for cells in self.cells(wanted):
                block = schema.encode_cells(cells[:features])
                if with_target:
                    block = np.concatenate([block, schema.encode_target_cells(cells[-1])[:, None]], axis=1)
                yield tuple(pick(block, group) for group in groups)

        names = schema.feature_names + ((schema.needed_target(),) if with_target else ())
        partitions = None if self.partitions is None else self.partitions.encoded(schema, target=with_target)
        kinds = (frozenset({"number"}),) * len(names)
        return Table(kinds, None, rows, names, target_width=self.target_width and 1, partitions=partitions)

    def columns_of(self, schema: Schema, *, target: bool, features: bool = True) -> Wanted:
        """Return the columns that a schema names, in its order and with the target last if `target` is true.

        Rows without names are in the order of the schema, with or without its target.
        """
        wanted: dict[str, Any] = dict(schema.columns) if features else {}
        if target:
            wanted[schema.needed_target()] = schema.target
        order: Sequence[str] = self.names
        if not self.names:
            order = [*schema.columns, *([] if schema.target_name is None else [schema.target_name])]
            if self.width == len(wanted):
                order = list(wanted)
            if self.width != len(order):
                raise ParameterError("data", f"have {len(order)} columns, in the order of the schema", self.width)
        if self.target_width > 1:
            raise ParameterError("y", "be one column of the type that the schema says", f"{self.target_width} columns")
        places = []
        for name, column in wanted.items():
            separate = self.target_width and target and name == schema.target_name  # it came in a pair (X, y)
            got = f"columns {', '.join(map(repr, list(order)[:20]))}" if self.quotable else "other names"
            require(separate or name in order, "data", f"have a column {name!r}, which the schema names", got)
            places.append((self.width - 1 if separate else order.index(name), bool(column.numeric)))
            self._check_type(places[-1][0], "y" if separate else f"column {name!r}", column)
        return tuple(places)

    def _check_type(self, place: int, label: str, column: Any) -> None:
        """Refuse a column whose declared type does not fit."""
        for kind in sorted(self.kinds[place] - set(column.kinds)):
            rule = f"hold {' or '.join(_WORDS[k] for k in column.kinds if k in _WORDS)}, as the schema says"
            remedy = "convert the column first, or change the schema"
            if kind == "text" and column.numeric:
                remedy = "convert it first, in pandas with pd.to_numeric(column, errors='coerce'), or list categories"
            raise ParameterError(label, rule, _TYPES.get(kind, kind), remedy)

    def reduced(self, each: Callable[[Table], Any], join: Callable[[list[Any]], Any]) -> Any:
        """Return ``each`` of the table, or of every partition where it lives, and then ``join`` in a tree."""
        return each(self) if self.partitions is None else self.partitions.reduced(each, join)


@dataclass(frozen=True)
class Rows:
    """Rows are the chosen columns of a table, which hold numbers.

    Parameters
    ----------
    table : Table
    groups : tuple
        The numbers of the feature columns, and of the target columns if there are any.
    names : tuple of str
        Names of the chosen columns, or empty.
    """

    table: Table
    groups: Groups
    names: tuple[str, ...] = ()

    @property
    def is_dask(self) -> bool:
        """Return whether the rows live in the partitions of a dask collection."""
        return self.table.partitions is not None

    @property
    def widths(self) -> list[int]:
        """Return the number of feature columns, and of target columns if there are any."""
        return [len(group) for group in self.groups]

    def blocks(self) -> Iterator[Parts]:
        """Yield blocks of rows where they live: one matrix for the features, and one for the targets."""
        return self.table.read(self.groups)

    def on_host(self) -> Iterator[Parts]:
        """Yield the blocks as arrays of this process."""
        return self.table.on_host(self.groups)

    def arrays(self, *, most: int | None = None) -> tuple[Floats, ...]:
        """Return the first `most` rows as float64, one array per group. No error shows how many there were."""
        blocks: list[Parts] = []
        left = most
        for parts in self.on_host():
            blocks.append(tuple(numbers(each[:left]) for each in parts))
            left = None if left is None else left - len(blocks[-1][0])
        starts = (np.empty((0, width)) for width in self.widths)
        return tuple(np.concatenate([start, *(block[g] for block in blocks)]) for g, start in enumerate(starts))

    def held(self) -> Rows:
        """Return rows that are read at their first use, and then stay in memory."""

        @cache
        def matrix() -> Floats:
            return np.concatenate(self.arrays(), axis=1)

        def rows(groups: Groups) -> Iterator[Parts]:
            yield tuple(pick(matrix(), group) for group in groups)

        cuts = np.cumsum([0, *self.widths]).tolist()
        groups = tuple(tuple(range(a, b)) for a, b in pairwise(cuts))
        return Rows(Table((frozenset({"number"}),) * cuts[-1], None, rows, self.names), groups, self.names)

    def reduced(self, each: Callable[[Iterator[Parts]], Any], join: Callable[[list[Any]], Any]) -> Any:
        """Return ``each`` of the blocks of every partition where it lives, and then ``join`` in a tree."""
        groups = self.groups  # what travels with every task
        return self.table.reduced(lambda table: each(table.read(groups)), join)


def together(streams: Sequence[Iterator[Sequence[Any]]]) -> Iterator[list[Any]]:
    """Yield the blocks of several streams of the same rows, cut at the same rows; another number of rows is refused.

    >>> list(together([iter([["ab"], ["c"]]), iter([["x"], ["yz"]])]))
    [['a', 'x'], ['b', 'y'], ['c', 'z']]
    """
    held: list[Any] = [()] * len(streams)
    while True:
        for i, stream in enumerate(streams):
            while held[i] is not None and not (len(held[i]) and len(held[i][0])):
                held[i] = next(stream, None)
        if any(block is None for block in held):
            same_length(0 if block is None else 1 for block in held)
            return
        count = min(len(block[0]) for block in held)
        yield [column[:count] for block in held for column in block]
        held = [[column[count:] for column in block] for block in held]


def same_length(lengths: Iterable[int | None]) -> None:
    """Refuse columns of different lengths; None stands for one that is not known before it is read."""
    if len({length for length in lengths if length is not None}) > 1:
        raise ParameterError("data", "have columns of equal length", "different lengths")


def pieces_together(columns: Iterable[Iterable[Cells]]) -> Iterator[list[Cells]]:
    """Yield blocks of columns, each of which comes in pieces of its own."""
    return together([([piece] for piece in pieces) for pieces in columns])


def column_blocks(
    length: int, width: int, column: Callable[[slice, int, bool], Iterable[Cells]]
) -> Callable[[Wanted], Iterator[list[Cells]]]:
    """Return the cells of a table that reads rows of one column at a time, in one piece or in several."""
    step = rows_per_read(width)

    def cells(wanted: Wanted) -> Iterator[list[Cells]]:
        for start in range(0, length, step):
            rows = slice(start, start + step)
            yield from pieces_together(column(rows, i, numeric) for i, numeric in wanted)

    return cells


def side_by_side(tables: Sequence[Table], names: tuple[str, ...] = ()) -> Table:
    """Return one table, with these names, of the columns of several tables with the same rows."""
    cuts = np.cumsum([0, *(table.width for table in tables)]).tolist()

    def stream(place: int, numeric: bool) -> Iterator[list[Cells]]:
        side = bisect_right(cuts, place) - 1
        return tables[side].cells(((place - cuts[side], numeric),))

    kinds = tuple(kind for table in tables for kind in table.kinds)
    return Table(kinds, lambda wanted: together([stream(*column) for column in wanted]), names=names)


# ---------------------------------------------------------------------- columns


def choose_columns(table: Table, columns: Any, targets: Any) -> Groups:
    """Return the column numbers of the features and the targets; columns that hold no real numbers are refused.

    >>> choose_columns(Table((frozenset({"number"}),) * 4, lambda wanted: iter(())), None, [2])
    ((0, 1, 3), (2,))
    """
    if table.target_width and (columns is not None or targets is not None):
        raise ParameterError("columns and targets", "be left out when data is a pair (X, y)", "columns or targets")
    last = tuple(range(table.width - table.target_width, table.width))
    chosen = last if targets is None else _indices(table, targets, "targets")
    unread = () if table.target_width else table.unread
    others = tuple(i for i in range(table.width) if i not in {*chosen, *unread})
    features = others if columns is None or table.named else _indices(table, columns, "columns")
    require(features, "columns", "leave at least one feature", "none")
    if len(set(features + chosen)) != len(features) + len(chosen):
        raise ParameterError("columns and targets", "name each column once", "a column named twice")
    refused = table.refused
    for i in (i for i in features + chosen if i in refused):
        require(table.names, "data", "hold real numbers of at most 64 bits", refused[i])
        label, rule = f"column {table.names[i]!r}", "hold real numbers"
        raise ParameterError(label, rule, refused[i], "choose columns without it")
    return (features, chosen) if chosen else (features,)


def _indices(table: Table, wanted: Any, name: str) -> tuple[int, ...]:
    """Return the numbers of columns that are given by name or by number."""
    items: list[Any] = list(wanted) if isinstance(wanted, Iterable) and not isinstance(wanted, str) else [wanted]
    places = []
    for item in items:
        if isinstance(item, str) and item and item in table.names:
            places.append(table.names.index(item))
        elif isinstance(item, int | np.integer) and not isinstance(item, bool) and 0 <= item < table.width:
            places.append(int(item))
        else:
            known = f"numbers from 0 to {table.width - 1}"
            if table.names:
                known = f"names among {list(table.names)}" if table.quotable else "names of the file, or " + known
            raise ParameterError(name, f"be column {known}", repr(item))
    return tuple(places)


def rows_per_read(width: int) -> int:
    """Return the rows of one read: about 2²⁰ entries, so that memory does not grow with the data."""
    return max(1024, (1 << 20) // max(width, 1))


def pick(matrix: Any, columns: tuple[int, ...]) -> Any:
    """Return columns of a matrix; a view if they are consecutive."""
    if columns == tuple(range(columns[0], columns[0] + len(columns))):
        return matrix[:, columns[0] : columns[0] + len(columns)]
    if str(matrix.dtype) in ("torch.uint16", "torch.uint32", "torch.uint64"):
        matrix = matrix.double()  # torch selects columns of these on no device; the rows become float64 in any case
    return matrix[:, list(columns)]


def matrix_width(shape: tuple[int, ...]) -> int:
    """Return the number of columns of a matrix; other shapes are refused."""
    remedy = "a single column is data.reshape(-1, 1)" if len(shape) == 1 else ""
    require(len(shape) == 2, "data", "have two dimensions, rows and columns", f"{len(shape)} dimension(s)", remedy)
    require(shape[1] > 0, "data", "have at least one column", "none")
    return shape[1]


def check_names(given: Iterable[Any], where: object = "others") -> tuple[str, ...]:
    """Return names as texts. Names that are none, twice the same or not printable are refused; they are public."""
    names = tuple(map(str, given))
    require(names, "data", "have at least one column", "none")
    require(len(set(names)) == len(names), "data", "have columns of different names", where)
    require(all(name.isprintable() for name in names), "data", "have column names of printable characters", where)
    return names
