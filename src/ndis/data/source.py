"""Rows with a public schema, and the choice of columns from it.

A `Source` knows the names and the number of its columns, which are public. It can be read more than once. No check
here looks at a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ndis.data.cells import kind_of
from ndis.errors import ParameterError

__all__ = [
    "Groups",
    "Parts",
    "Source",
    "check_dtype",
    "choose_columns",
    "matrix_width",
    "pick",
    "rows_per_read",
]

Groups = tuple[tuple[int, ...], ...]  # column numbers of the features, then of the targets if any
Parts = tuple[Any, ...]  # one matrix per group


@dataclass(frozen=True)
class Source:
    """Rows with a public schema.

    Parameters
    ----------
    width : int
        Number of columns.
    read : callable
        ``read(groups)`` yields blocks: for every group of column numbers a matrix with those columns.
    names : tuple of str
        Names of the columns, or empty.
    refused : mapping
        Column number → type of the columns that do not hold real numbers, and so cannot be chosen.
    target_width : int
        How many of the last columns came as separate targets.
    device : str, optional
        The torch device the rows live on.
    unread : set of int
        Columns that are features only if they are chosen.
    named : bool
        Whether the caller's `columns` named all columns, and so choose none.
    quotable : bool
        Whether a message may list the names. A first line of a CSV file may be a record after all.
    """

    width: int
    read: Callable[[Groups], Iterator[Parts]]
    names: tuple[str, ...] = ()
    refused: Mapping[int, str] = field(default_factory=dict)
    target_width: int = 0
    device: str | None = None
    unread: frozenset[int] = frozenset()
    named: bool = False
    quotable: bool = True


def choose_columns(source: Source, columns: Any, targets: Any) -> Groups:
    """Return the column numbers of the features and the targets.

    >>> choose_columns(Source(4, lambda groups: iter(())), None, [2])
    ((0, 1, 3), (2,))
    """
    groups = _groups(source, columns, targets)
    for i in (i for group in groups for i in group):
        if i in source.refused:
            label = repr(source.names[i]) if source.names else str(i)
            raise ParameterError(f"column {label}", "hold real numbers", source.refused[i], "choose columns without it")
    return groups


def _groups(source: Source, columns: Any, targets: Any) -> Groups:
    if source.target_width:
        if columns is not None or targets is not None:
            raise ParameterError("columns and targets", "be left out when data is a pair (X, y)", "columns or targets")
        cut = source.width - source.target_width
        return tuple(range(cut)), tuple(range(cut, source.width))
    chosen = () if targets is None else _indices(source, targets, "targets")
    features = (
        tuple(i for i in range(source.width) if i not in {*chosen, *source.unread})
        if columns is None or source.named
        else _indices(source, columns, "columns")
    )
    if not features:
        raise ParameterError("columns", "leave at least one feature", "none")
    if len(set(features + chosen)) != len(features) + len(chosen):
        raise ParameterError("columns and targets", "name each column once", "a column named twice")
    return (features, chosen) if chosen else (features,)


def rows_per_read(width: int) -> int:
    """Rows of one read: about 2²⁰ entries, so that memory does not grow with the data."""
    return max(1024, (1 << 20) // max(width, 1))


def pick(matrix: Any, columns: tuple[int, ...]) -> Any:
    """Columns of a matrix; a view if they are consecutive."""
    if columns == tuple(range(columns[0], columns[0] + len(columns))):
        return matrix[:, columns[0] : columns[0] + len(columns)]
    if str(matrix.dtype) in ("torch.uint16", "torch.uint32", "torch.uint64"):
        matrix = matrix.double()  # torch selects columns of these on no device; the rows become float64 in any case
    return matrix[:, list(columns)]


def _indices(source: Source, wanted: Any, name: str) -> tuple[int, ...]:
    items: list[Any] = list(wanted) if isinstance(wanted, Iterable) and not isinstance(wanted, str) else [wanted]
    result = []
    for item in items:
        if isinstance(item, str) and item and item in source.names:
            result.append(source.names.index(item))
        elif isinstance(item, int | np.integer) and not isinstance(item, bool) and 0 <= item < source.width:
            result.append(int(item))
        else:
            known = f"numbers from 0 to {source.width - 1}"
            if source.names:
                known = f"names among {list(source.names)}" if source.quotable else "names of the file, or " + known
            raise ParameterError(name, f"be column {known}", repr(item))
    return tuple(result)


def matrix_width(shape: tuple[int, ...]) -> int:
    """The number of columns of a matrix; other shapes are refused."""
    if len(shape) != 2:
        remedy = "a single column is data.reshape(-1, 1)" if len(shape) == 1 else ""
        raise ParameterError("data", "have two dimensions, rows and columns", f"{len(shape)} dimension(s)", remedy)
    if shape[1] == 0:
        raise ParameterError("data", "have at least one column", "none")
    return shape[1]


def check_dtype(dtype: Any, name: str = "data") -> None:
    """Refuse types of NumPy that do not hold real numbers."""
    if not isinstance(dtype, np.dtype) or dtype.kind not in "fiub" or dtype.itemsize > 8:
        raise ParameterError(name, "hold real numbers of at most 64 bits", kind_of(dtype))
