"""Private labels are read one by one: no label changes how another one is read, and none raises anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning

from ndis._validate import require, warn_caller
from ndis.data.cells import kind_of, objects, python_value
from ndis.errors import ParameterError
from ndis.learn._estimator import in_memory_only
from ndis.models.records import column_of_cells


def private_labels(y: Any) -> NDArray[Any]:
    """Return the labels as one column of cells. Only its type and its shape are checked."""
    in_memory_only("y", y)
    if tuple(getattr(y, "shape", ()))[1:] == (1,):
        warn_caller("A column-vector y was passed when a 1d array was expected.", DataConversionWarning)
    labels = column_of_cells(y)
    require(labels.dtype.kind in "biufOUS", "y", "hold numbers or text", kind_of(labels.dtype))
    return labels


def label_signs(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return −1 and +1 for the first and the second class; 0, which is no record, for everything else.

    >>> label_signs(np.array([0, "1", 1.0, None, True, float("nan")], dtype=object), np.array([0, 1])).tolist()
    [-1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    """
    codes = label_codes(labels, classes)
    return np.where(np.isnan(codes), 0.0, 2.0 * codes - 1.0)


def label_codes(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return the number of each label's class; NaN, which is no record, for everything else.

    >>> label_codes(np.array([7, "x", 5.0, None], dtype=object), np.array([5, 7])).tolist()
    [1.0, nan, 0.0, nan]
    """
    known = {_key(c): float(code) for code, c in enumerate(classes.tolist())}
    return np.array([known.get(_key(cell), np.nan) for cell in labels.tolist()], dtype=np.float64)


def stated_classes(classes: Any, *, several: bool = False) -> NDArray[Any]:
    """Check the stated classes: two different labels, or with ``several`` two or more, text or numbers; public."""
    sequence = isinstance(classes, Iterable) and not isinstance(classes, str | bytes)
    given = [_key(c) for c in classes] if sequence and getattr(classes, "shape", None) != () else []
    enough = len(given) == 2 or (several and len(given) > 2)
    if not enough or None in given or len(set(given)) < len(given):
        count = "two or more" if several else "two"
        raise ParameterError("classes", f"be {count} different labels, text or numbers", repr(classes))
    return _class_array([key for key in given if key is not None])


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
    keys = {_key(each) for each in known}
    for label in column_of_cells(labels).tolist():
        key = _key(label)
        if key not in keys:
            rule, got = f"be among the classes {known}", repr(label if key is None else key[1])
            raise ParameterError("labels", rule, got, "records with other labels count as none")


def occurring_classes(labels: NDArray[Any], *, several: bool = False) -> NDArray[Any]:
    """Return the labels that occur, sorted by value, which are then public; only text and numbers are labels.

    Equal labels of several types are one class, of the type of a typed array and otherwise an integer: its type does
    not tell which of them came first.

    >>> occurring_classes(np.array([True, 0.0, 1], dtype=object))
    array([0, 1])
    """
    seen = {key for key in map(_key, labels.tolist()) if key is not None}
    if any(isinstance(c, float) and not c.is_integer() for _, c in seen):
        raise ParameterError("y", "hold classes", "other numbers", "Unknown label type: continuous")
    if len(seen) > 2 and not several:
        got = "more (Only binary classification is supported)"
        raise ParameterError("y", "have two classes", got, "drop or join the others")
    if len(seen) < 2:
        raise ParameterError("y", "have two classes", "at most one class", "state both as classes=(negative, positive)")
    typed = labels.dtype.kind in "biuf"
    return _class_array(sorted((kind, c if typed or kind != "number" else int(c)) for kind, c in seen))


def _class_array(keys: list[tuple[str, Any]]) -> NDArray[Any]:
    """Return the labels with these keys as an array, of objects if they have several kinds."""
    classes = [label for _, label in keys]
    return np.array(classes) if len({kind for kind, _ in keys}) == 1 else objects(classes)


def _key(cell: Any) -> tuple[str, Any] | None:
    """Return the kind of a label and its plain value, by its type only; None if it is neither text nor a number.

    Labels are equal if their keys are. Nothing that a class of its own says about a cell is run: it might raise.
    """
    cell = python_value(cell)
    kind = type(cell)  # and not isinstance, which may ask the cell itself
    for plain, name, read in _READERS:
        if issubclass(kind, plain):
            value = read(cell)
            return None if value != value else (name, value)  # NaN is no label
    return None


_READERS: tuple[tuple[type, str, Any], ...] = (
    (bool, "number", bool),
    (int, "number", int.__int__),
    (float, "number", float.__float__),
    (str, "text", str.__str__),
    (bytes, "bytes", lambda cell: bytes.__getitem__(cell, slice(None))),
)
