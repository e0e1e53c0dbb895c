"""A neighbouring data set as a change of the data: a row less, a row more, or both."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndis.errors import ParameterError

__all__ = ["Edit", "addition", "digest", "given", "parts_of", "removal", "replacement", "row_count"]


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
    """A short fingerprint of arrays, or of whatever can be pickled."""
    mark = hashlib.sha256()
    for array in arrays:
        if not isinstance(array, np.ndarray | np.generic | float | int):
            mark.update(pickle.dumps(array))
            continue
        a = np.ascontiguousarray(array)
        mark.update(f"{a.dtype.str}{a.shape}".encode())
        mark.update(a.tobytes())
    return mark.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Edit:
    """One neighbour as a change of the data: a row less, a row more, both; or another data set altogether.

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


def removal(i: int) -> Edit:
    """Leave out row i."""
    return Edit(f"remove:{i}", f"the data, and the data without row {i}", remove=i)


def addition(row: tuple[Any, ...]) -> Edit:
    """Append a row."""
    return Edit(f"add:{digest(*row)}", f"the data, and the data with the row {_brief(row)} added", add=row)


def replacement(i: int, row: tuple[Any, ...]) -> Edit:
    """Put a row in the place of row i."""
    label = f"the data, and the data with row {i} replaced by {_brief(row)}"
    return Edit(f"replace:{i}:{digest(*row)}", label, remove=i, add=row)


def given(number: int, data: Any) -> Edit:
    """A data set of the user's choice."""
    name = f"given:{number}:{digest(*parts_of(data))}"
    return Edit(name, f"the data, and data set {number} of those given", whole=data)


def _brief(row: tuple[Any, ...]) -> str:
    texts = [np.array2string(np.asarray(p), threshold=8, edgeitems=3, precision=6, separator=", ") for p in row]
    return " with target ".join(text.replace("\n", "") for text in texts)
