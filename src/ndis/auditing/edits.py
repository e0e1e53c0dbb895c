"""Data sets and their neighbours: a table as rows of numbers, and a neighbour as a change of the rows."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndis._digits import several
from ndis._validate import Floats
from ndis.data.opening import open_source
from ndis.data.table import Table, choose_columns
from ndis.errors import ParameterError
from ndis.mechanisms.rows import encoded_data

__all__ = [
    "DataSets",
    "Edit",
    "Proposals",
    "addition",
    "as_rows",
    "digest",
    "in_batches",
    "matrix_of",
    "parts_of",
    "removal",
    "replacement",
    "row_count",
    "with_targets",
]

_BATCH = 256
_FRAMES = ("pandas", "polars", "pyarrow")


# ---------------------------------------------------------------------- rows


def as_rows(
    data: Any,
    *,
    columns: Any = None,
    targets: Any = None,
    header: bool = False,
    schema: Any = None,
    progress: bool | None = False,
) -> Any:
    """A data frame, an Arrow table, a file or a table with its schema as an array of rows, or (X, y) with targets.

    Other data come back as they are, unless `columns` or `targets` choose among them.

    >>> as_rows(np.array([[1.0, 2.0, 3.0]]), targets=[2])
    (array([[1., 2.]]), array([3.]))
    """
    if schema is not None:
        how = {"columns": columns, "targets": targets, "header": header}
        table, how = encoded_data(schema, data, how, target=schema.target is not None)
        return as_rows(table, **how, progress=progress)
    choice = columns is not None or targets is not None or header
    parts = parts_of(data)
    encoded = isinstance(data, Table)
    if not (choice or encoded or isinstance(data, str | os.PathLike) or any(map(_is_frame, parts))):
        return data
    source = open_source(data, columns=columns, header=header, progress=progress)
    blocks = list(source.read(choose_columns(source, columns, targets)))
    if not blocks:
        raise ParameterError("data", "hold at least one row", "none")
    features, *others = (np.concatenate([np.asarray(block) for block in part]) for part in zip(*blocks, strict=True))
    if encoded:  # a row with a missing cell is zeros for every mechanism, target included
        empty = np.isnan(np.concatenate([features, *others], axis=1)).any(axis=1)
        features, *others = (np.where(empty[:, None], 0.0, part) for part in (features, *others))
    return with_targets("data", features, others[0] if others else None)


def _is_frame(part: Any) -> bool:
    return type(part).__module__.partition(".")[0] in _FRAMES


def matrix_of(name: str, found: Any) -> Floats:
    """A finite matrix. No message about it quotes an entry."""
    try:
        array = np.asarray(found)
    except ValueError:
        raise ParameterError(name, "be rows of equal length", "rows of different lengths") from None
    if array.dtype.kind not in "uifb":
        raise ParameterError(name, "be rows of numbers", f"entries of type {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise ParameterError(name, "be rows and columns, at least one of each", f"shape {array.shape}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ParameterError(name, "be finite", "entries that are not")
    return array


def with_targets(name: str, features: Any, targets: Any) -> Any:
    """The features, or (features, targets) with a single target column as a vector."""
    matrix = matrix_of(name, features)
    if targets is None:
        return matrix
    column = np.asarray(targets)
    columns = matrix_of(f"targets of {name}", column.reshape(len(column), -1) if column.ndim else [])
    return matrix, columns[:, 0] if columns.shape[1] == 1 else columns


def parts_of(data: Any) -> tuple[Any, ...]:
    """A matrix as a tuple of one, (X, y) as a tuple of two."""
    return data if isinstance(data, tuple) else (data,)


def row_count(data: Any) -> int:
    """Number of rows of a matrix or of (X, y), checked."""
    parts = parts_of(data)
    if len(parts) not in (1, 2) or not all(isinstance(p, np.ndarray) and p.ndim >= 1 for p in parts):
        raise ParameterError("data", "be an array of rows, or a pair (X, y) of arrays", type(data).__name__)
    if any(isinstance(p, np.ma.MaskedArray) for p in parts):
        raise ParameterError("data", "be without masks", "a masked array", "fill it, or leave the rows out")
    if parts[0].ndim != 2 or any(len(p) != len(parts[0]) for p in parts):
        raise ParameterError("data", "be a matrix, with as many targets as rows", [p.shape for p in parts])
    return len(parts[0])


def digest(*arrays: Any) -> str:
    """A short fingerprint of arrays, or of any values that can be pickled."""
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
    """One neighbour as a change of the data: a row less, a row more, or both; or another data set.

    Attributes
    ----------
    name : str
        Unique within an audit; the journal knows the edit by it.
    label : str
        The same in words.
    remove : int or None
        Number of the row to leave out.
    add : tuple or None
        Parts of the row to append: (x,) or (x, y).
    whole : object
        The neighbouring data set itself, instead of a change.
    """

    name: str
    label: str
    remove: int | None = None
    add: tuple[Any, ...] | None = None
    whole: Any = None

    def apply(self, data: Any) -> Any:
        """The neighbouring data set."""
        if self.whole is not None:
            return self.whole
        parts = parts_of(data)
        if self.remove is not None:
            parts = tuple(np.delete(p, self.remove, axis=0) for p in parts)
        if self.add is not None:
            parts = tuple(np.concatenate([p, np.asarray([row])]) for p, row in zip(parts, self.add, strict=True))
        return parts if isinstance(data, tuple) else parts[0]


Proposals = Generator[list[Edit], list[float], None]


def in_batches(edits: Iterable[Edit]) -> Proposals:
    """Propose edits that do not depend on the scores."""
    batch: list[Edit] = []
    for edit in edits:
        batch.append(edit)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def removal(i: int) -> Edit:
    """Leave out row i."""
    return Edit(f"remove:{i}", f"the data, and the data without row {i}", remove=i)


def addition(row: tuple[Any, ...]) -> Edit:
    """Append a row."""
    return Edit(f"add:{digest(*row)}", f"the data, and the data with the row {_brief(row)} added", add=row)


def replacement(i: int, row: tuple[Any, ...]) -> Edit:
    """Replace row i by another row."""
    label = f"the data, and the data with row {i} replaced by {_brief(row)}"
    return Edit(f"replace:{i}:{digest(*row)}", label, remove=i, add=row)


def _brief(row: tuple[Any, ...]) -> str:
    texts = [np.array2string(np.asarray(p), threshold=8, edgeitems=3, precision=6, separator=", ") for p in row]
    return " with target ".join(text.replace("\n", "") for text in texts)


# ---------------------------------------------------------------------- data sets that the user gives


@dataclass(frozen=True, eq=False)
class DataSets:
    """Neighbouring data sets that the user made. The audit does not check that they are neighbours."""

    sets: tuple[Any, ...]
    adjacency: Any = None

    def describe(self) -> str:
        mark = digest(*(part for one in self.sets for part in parts_of(one)))
        sets = several(len(self.sets), "data set")
        return f"{sets} given as neighbours of the data; the audit takes this on trust (digest {mark})"

    def check(self, data: Any) -> None:
        """Every data set must be of the kind of the data."""
        for number, one in enumerate(self.sets):
            if _kind(one) != _kind(data):
                rule = f"be like data, {_told(data)}"
                raise ParameterError(f"data set {number} of neighbours", rule, _told(one), "give a list of data sets")

    def proposals(self, data: Any, random: np.random.Generator) -> Proposals:
        yield from in_batches(
            Edit(f"given:{i}:{digest(*parts_of(one))}", f"the data, and data set {i} of those given", whole=one)
            for i, one in enumerate(self.sets)
        )


def _kind(data: Any) -> tuple[Any, ...]:
    """The properties that data sets share if they differ by a row."""
    if not isinstance(data, tuple):
        return ("array", data.ndim, data.shape[1:]) if isinstance(data, np.ndarray) else (type(data),)
    return tuple(_kind(part) for part in data)


def _told(data: Any) -> str:
    if isinstance(data, tuple):
        return f"({', '.join(map(_told, data))})"
    if isinstance(data, np.ndarray):
        return f"an array of shape (…{''.join(f', {n}' for n in data.shape[1:])})" if data.ndim else "a number"
    return f"a {type(data).__name__}"
