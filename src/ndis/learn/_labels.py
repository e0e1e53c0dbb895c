"""Private labels are read one by one: no label changes how another one is read, and none raises anything."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning

from ndis.data.cells import kind_of
from ndis.errors import ParameterError
from ndis.learn._estimator import check_given
from ndis.models.records import column_of_cells

__all__ = ["check_labels", "label_codes", "label_signs", "occurring_classes", "private_labels", "stated_classes"]


def private_labels(estimator: Any, y: Any) -> NDArray[Any]:
    """Return the labels as one column of cells. Only its presence, its type and its shape are checked."""
    check_given(estimator, y)
    if tuple(getattr(y, "shape", ()))[1:] == (1,):
        words = "A column-vector y was passed when a 1d array was expected."
        warnings.warn(words, DataConversionWarning, stacklevel=3)
    labels = column_of_cells(y)
    if labels.dtype.kind not in "biufOUS":
        raise ParameterError("y", "hold numbers or text", kind_of(labels.dtype))
    return labels


def label_signs(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return −1 and +1 for the first and the second class; 0, which is no record, for everything else.

    >>> label_signs(np.array([0, "1", 1.0, None, True, float("nan")], dtype=object), np.array([0, 1])).tolist()
    [-1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    """
    return signs_of(label_codes(labels, classes))


def signs_of(codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return −1 and +1 for the codes 0 and 1; 0, which is no record, where a label is missing or of no class."""
    return np.where(np.isnan(codes), 0.0, 2.0 * codes - 1.0)


def label_codes(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return the number of each label's class; NaN, which is no record, for everything else.

    >>> label_codes(np.array([7, "x", 5.0, None], dtype=object), np.array([5, 7])).tolist()
    [1.0, nan, 0.0, nan]
    """
    known = {(_kind(c), c): float(code) for code, c in enumerate(map(_value, classes.tolist()))}
    cells = map(_value, labels.tolist())
    return np.array([known.get((_kind(c), c), np.nan) if _kind(c) else np.nan for c in cells], dtype=np.float64)


def stated_classes(classes: Any, *, several: bool = False) -> NDArray[Any]:
    """Check the stated classes: two different labels, or with ``several`` two or more, text or numbers; public."""
    sequence = isinstance(classes, Iterable) and not isinstance(classes, str | bytes)
    given = [_value(c) for c in classes] if sequence else []
    enough = len(given) == 2 or (several and len(given) > 2)
    if not enough or not all(_same(c, c) for c in given) or len({(_kind(c), c) for c in given}) < len(given):
        count = "two or more" if several else "two"
        raise ParameterError("classes", f"be {count} different labels, text or numbers", repr(classes))
    return _class_array(given)


def check_labels(labels: Any, classes: Any) -> None:
    """Refuse **public** example labels that are none of the classes: records with such labels would count as none.

    `PrivateLogisticRegression(classes=(-1, 1))` drops every record with the label 0, silently, because an error would
    tell about the record. Check on examples that are public, such as the labels in the description of the data.

    Parameters
    ----------
    labels : sequence
        Public examples.
    classes : sequence
        What the estimator is given as `classes`.

    Examples
    --------
    >>> check_labels([0, 1, 1], classes=(0, 1))
    >>> check_labels([0, 1, 1], classes=(-1, 1))
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: labels must be among the classes [-1, 1]; got 0; records with other labels count as none
    """
    known = stated_classes(classes, several=True).tolist()
    for label in map(_value, column_of_cells(labels).tolist()):
        if not any(_same(label, each) for each in known):
            rule = f"be among the classes {known}"
            raise ParameterError("labels", rule, repr(label), "records with other labels count as none")


def occurring_classes(labels: NDArray[Any], *, several: bool = False) -> NDArray[Any]:
    """Return the labels that occur, sorted by value, which are then public; only text and numbers are labels.

    Equal labels of several types are one class, of the type of a typed array and otherwise an integer: its type does
    not tell which of them came first.

    >>> occurring_classes(np.array([True, 0.0, 1], dtype=object))
    array([0, 1])
    """
    seen = {cell for cell in map(_value, labels.tolist()) if _same(cell, cell)}
    if any(isinstance(c, float) and not c.is_integer() for c in seen):
        raise ParameterError("y", "hold classes", "other numbers", "Unknown label type: continuous")
    if len(seen) > 2 and not several:
        got = "more (Only binary classification is supported)"
        raise ParameterError("y", "have two classes", got, "drop or join the others")
    if len(seen) < 2:
        raise ParameterError("y", "have two classes", "at most one class", "state both as classes=(negative, positive)")
    typed = labels.dtype.kind in "biuf"
    classes = [c if typed or _kind(c) != "number" else int(c) for c in seen]
    return _class_array(sorted(classes, key=lambda c: (_kind(c), c)))


def _class_array(classes: list[Any]) -> NDArray[Any]:
    if len({_kind(c) for c in classes}) == 1:
        return np.array(classes)
    array = np.empty(len(classes), dtype=object)  # a common type would change one of them
    array[:] = classes
    return array


def _value(cell: Any) -> Any:
    """Return a label as a plain value of Python, by its type only; None if it is neither text nor a number.

    Nothing that a class of its own says about a cell is run: it might raise.
    """
    kind = type(cell)  # and not isinstance, which may ask the cell itself
    if issubclass(kind, np.generic) and kind.__module__ == "numpy":
        cell = cell.item()
        kind = type(cell)
    for plain, read in _READERS:
        if issubclass(kind, plain):
            return read(cell)
    return None


_READERS: tuple[tuple[type, Any], ...] = (
    (bool, bool),
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
    (bytes, lambda cell: bytes.join(b"", (cell,))),
)


def _kind(cell: Any) -> str:
    """Return the kind of labels that a plain label may be compared with; empty if it is neither text nor a number."""
    return {bool: "number", int: "number", float: "number", str: "text", bytes: "bytes"}.get(type(cell), "")


def _same(a: Any, b: Any) -> bool:
    return _kind(a) != "" and _kind(a) == _kind(b) and bool(a == b)
