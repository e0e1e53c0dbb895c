"""Read rows of numbers from a data set, and make its neighbours: an edit changes one row."""

from __future__ import annotations

import hashlib
import itertools
import os
import pickle
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import Floats, as_size, require
from ndis.data.table import Rows, Table
from ndis.errors import ParameterError
from ndis.mechanisms.rows import encoded_rows

if TYPE_CHECKING:
    from ndis.auditing.candidates.data_sets import Domain
    from ndis.data.schema import Schema

_BATCH = 256
_FRAMES = ("pandas", "polars", "pyarrow")


# ---------------------------------------------------------------------- rows


@dataclass(frozen=True, eq=False)
class DataSet:
    """A table says which of its columns are read, and how.

    Parameters
    ----------
    data : array of rows, (X, y), data frame, Arrow table or path
        The rows.
    columns, targets : optional
        Names or numbers of the columns to read, and of the targets, as for `ndis.gram.exact_gram`.
    header : bool
        Say if the first line of a CSV file names its columns. A CSV file needs `header=True` or the list `columns`.
    schema : Schema, optional
        It states what is public about the columns. An algorithm gets the rows as the schema encodes them, and (X, y)
        if the schema has a target: its number in [−1, 1], or the number of its class. A row with a missing cell becomes
        zeros.

    domain : Domain, optional
        The public set in which every row lies. An audit then makes up other data sets inside it, and `data` may be left
        out. A schema is a domain too.
    min_rows : int, optional
        The audit tries no data set with fewer rows. By default 0; under replace-one the number of rows of `data`, which
        is public there.
    max_rows : int, optional
        The audit tries no data set with more rows; state it if the claim holds only up to a public number of records.
    generator : callable, optional
        ``generator(random)`` makes a data set from a NumPy generator; an audit starts from some of them as well.

    Examples
    --------
    >>> DataSet(np.array([[1.0, 2.0, 3.0]]), targets=[2]).rows()
    (array([[1., 2.]]), array([3.]))
    """

    data: Any = None
    columns: Any = None
    targets: Any = None
    header: bool = False
    schema: Schema | None = None
    domain: Domain | None = None
    min_rows: int | None = None
    max_rows: int | None = None
    generator: Callable[[np.random.Generator], Any] | None = None

    def __post_init__(self) -> None:
        if self.min_rows not in (None, 0):
            as_size("min_rows", self.min_rows)
        if self.max_rows is not None and as_size("max_rows", self.max_rows) <= (self.min_rows or 0):
            raise ParameterError("max_rows", "be above min_rows", self.max_rows)

    @property
    def file_name(self) -> str:
        """Return the name of the file that is read, or nothing."""
        return os.path.basename(os.fspath(self.data)) if isinstance(self.data, str | os.PathLike) else ""

    def open(self, *, target: bool, progress: bool | None = False) -> Rows:
        """Open the rows as the schema encodes them, with the target if `target` is true."""
        how = {"columns": self.columns, "targets": self.targets, "header": self.header, "progress": progress}
        return encoded_rows(self.schema, self.data, how, target=target)

    def rows(self, *, progress: bool | None = False) -> Any:
        """Read an array of rows, or (X, y) if there are targets.

        Arrays come back unchanged, unless `columns` or `targets` choose among them.
        """
        if self.data is None:
            raise ParameterError("data", "come with an algorithm", None, "or state a domain: DataSet(domain=Domain(…))")
        encoded = self.schema is not None or isinstance(self.data, Table)
        frames = any(type(one).__module__.partition(".")[0] in _FRAMES for one in parts_of(self.data))
        chosen = self.columns is not None or self.targets is not None or self.header
        if not (encoded or frames or chosen or isinstance(self.data, str | os.PathLike)):
            return self.data
        target = self.schema is not None and self.schema.target is not None
        opened = self.open(target=target, progress=progress)
        arrays = opened.arrays()
        if encoded:  # a row with a missing cell is zeros for every mechanism, target included
            empty = np.isnan(np.concatenate(arrays, axis=1)).any(axis=1, keepdims=True)
            arrays = tuple(np.where(empty, 0.0, one) for one in arrays)
        names = opened.names if opened.table.quotable else ()  # the first line of a CSV file may be a record after all
        return with_targets("data", *arrays, names=names)


def as_numbers(name: str, values: Any, kinds: str = "uif") -> NDArray[Any]:
    """Check that values are an array of numbers. A message quotes no entry."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise ParameterError(name, "be an array of numbers", "entries of different lengths") from None
    require(array.dtype.kind in kinds, name, "be an array of numbers", f"entries of type {array.dtype}")
    return array


def matrix_of(name: str, rows: Any, names: Sequence[str] = ()) -> Floats:
    """Check that rows are a finite matrix. A message names a column, and quotes no entry."""
    array = as_numbers(name, rows, "uifb")
    if array.ndim != 2 or 0 in array.shape:
        raise ParameterError(name, "be rows and columns, at least one of each", f"shape {array.shape}")
    array = array.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(array).all(axis=0)).tolist()
    if bad:
        where = f"column {names[bad[0]]!r}" if names else f"column {bad[0] + 1} of {array.shape[1]}"
        remedy = "leave out columns of text (columns), or state a schema"
        raise ParameterError(name, "be finite", f"entries that are not, or no numbers, in {where}", remedy)
    return array


def with_targets(name: str, features: Any, targets: Any = None, *, names: Sequence[str] = ()) -> Any:
    """Check features, or (features, targets); a single target column becomes a vector."""
    matrix = matrix_of(name, features, names)
    if targets is None:
        return matrix
    column = np.asarray(targets)
    columns = matrix_of(f"targets of {name}", column.reshape(len(column), -1), names[matrix.shape[1] :])
    return matrix, columns[:, 0] if columns.shape[1] == 1 else columns


def parts_of(data: Any) -> tuple[Any, ...]:
    """Return a matrix as a tuple of one, (X, y) as a tuple of two."""
    return data if isinstance(data, tuple) else (data,)


def row_count(data: Any) -> int:
    """Count the rows of a matrix or of (X, y), and check it."""
    parts = parts_of(data)
    if len(parts) not in (1, 2) or not all(isinstance(p, np.ndarray) and p.ndim >= 1 for p in parts):
        raise ParameterError("data", "be an array of rows, or a pair (X, y) of arrays", type(data).__name__)
    if any(isinstance(p, np.ma.MaskedArray) for p in parts):
        raise ParameterError("data", "be without masks", "a masked array", "fill it, or leave the rows out")
    if parts[0].ndim != 2 or any(len(p) != len(parts[0]) for p in parts):
        raise ParameterError("data", "be a matrix, with as many targets as rows", [p.shape for p in parts])
    return len(parts[0])


def digest(*arrays: Any) -> str:
    """Make a short fingerprint of arrays, or of any values that can be pickled."""
    mark = hashlib.sha256()
    for array in arrays:
        if not isinstance(array, np.ndarray | np.generic | float | int):
            mark.update(pickle.dumps(array))
            continue
        a = np.ascontiguousarray(array)
        mark.update(f"{a.dtype.str}{a.shape}".encode())
        mark.update(a.tobytes())
    return mark.hexdigest()[:16]


# ---------------------------------------------------------------------- edits


@dataclass(frozen=True, eq=False)
class Edit:
    """An edit makes one neighbour of the data: a row less, a row more, or both.

    Attributes
    ----------
    name : str
        Unique within an audit.
    label : str
        The same in words.
    remove : int or None
        Number of the row to leave out.
    add : tuple or None
        Parts of the row to append: (x,) or (x, y).
    """

    name: str
    label: str
    remove: int | None = None
    add: tuple[Any, ...] | None = None

    def apply(self, data: Any) -> Any:
        """Make the neighbouring data set."""
        parts = parts_of(data)
        if self.remove is not None:
            parts = tuple(np.delete(p, self.remove, axis=0) for p in parts)
        if self.add is not None:
            parts = tuple(np.concatenate([p, np.asarray([row])]) for p, row in zip(parts, self.add, strict=True))
        return parts if isinstance(data, tuple) else parts[0]


Proposals = Generator[list[Edit], list[float], None]


def in_batches(edits: Iterable[Edit]) -> Proposals:
    """Propose edits that do not depend on the scores."""
    left = iter(edits)
    while batch := list(itertools.islice(left, _BATCH)):
        yield batch


def removal(i: int) -> Edit:
    """Leave out row i."""
    return Edit(f"remove:{i}", f"the data, and the data without row {i}", remove=i)


def addition(row: tuple[Any, ...]) -> Edit:
    """Append a row."""
    return Edit(f"add:{digest(*row)}", f"the data, and the data with the row {brief(row)} added", add=row)


def replacement(i: int, row: tuple[Any, ...]) -> Edit:
    """Replace row i by another row."""
    label = f"the data, and the data with row {i} replaced by {brief(row)}"
    return Edit(f"replace:{i}:{digest(*row)}", label, remove=i, add=row)


def brief(row: tuple[Any, ...]) -> str:
    """Write a row in few digits."""
    texts = [np.array2string(np.asarray(p), threshold=8, edgeitems=3, precision=6, separator=", ") for p in row]
    return " with target ".join(text.replace("\n", "") for text in texts)
