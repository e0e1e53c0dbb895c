"""Read private rows, targets and weights as an estimator is given them, and check bounds that are stated.

Types and shapes are checked, and no check looks at a value.
"""

from __future__ import annotations

import math
import os
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_feature_names, _check_n_features

from ndis._validate import STATE_A_BOUND, Floats
from ndis.data import open_rows
from ndis.data.cells import kind_of, numbers
from ndis.data.dask import is_dask
from ndis.data.memory import column_table, is_vector, rows_of_lists, target_table
from ndis.data.paths import is_paths
from ndis.errors import ParameterError

__all__ = ["INTERCEPT_SHARE", "check_given", "in_memory_only", "private_rows", "private_targets", "stated_bound"]

# The constant column is this multiple of `row_norm_bound`. A larger one adds noise to the features, and a smaller one
# loses the mean in noise. Between 0.4 and 0.7 the errors measured on real data hardly change.
INTERCEPT_SHARE = 0.5


def stated_bound(name: str, value: Any, *, clipped: str = "rows", instead: str | None = None) -> float:
    """Return a public bound. It must be a number: a bound from the data would leak them. `clipped` says what it clips.

    `instead` names what may be stated in its place.

    >>> stated_bound("row_norm_bound", None)
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: row_norm_bound must be a positive number; got None; state what is known without looking
    at the data (a bound taken from the data would leak it), and rows beyond it are clipped
    """
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:  # an integer beyond the floats
        number = math.inf
    if not 0 < number < math.inf:
        beyond = f", and {clipped} beyond it are clipped" if clipped else ""
        remedy = STATE_A_BOUND + beyond + ("" if instead is None else f"; {instead}")
        raise ParameterError(name, "be a positive number", repr(value), remedy)
    return number


def in_memory_only(name: str, data: Any) -> None:
    """Refuse a dask collection or a path as an argument of `fit`.

    >>> in_memory_only("X", "table.csv")
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: X must be in memory for fit; got a path; fit_data reads files, with the target among
    their columns; header=True if the first line of a CSV file holds names
    """
    if is_dask(data):
        remedy = "fit_data takes one, with the target among its columns"
        raise ParameterError(name, "be in memory for fit", "a dask collection", remedy)
    if isinstance(data, str | os.PathLike) or (name == "X" and is_paths(data)):  # a list y may hold labels
        remedy = "fit_data reads files, with the target among their columns; "
        remedy += "header=True if the first line of a CSV file holds names"
        raise ParameterError(name, "be in memory for fit", "a path", remedy)


def private_rows(estimator: Any, X: Any) -> Any:
    """Return the rows in a form that the release engine reads. Set `n_features_in_` and `feature_names_in_`.

    Types and shapes are checked, and no check looks at a value. A cell that is not a number becomes NaN, and the engine
    turns its row into zeros.
    """
    rows = rows_of_lists("X", X) if isinstance(X, list | tuple) else _by_type("X", as_array(X))
    shape = getattr(rows, "shape", None)
    if shape is not None and len(shape) != 2:
        remedy = "Reshape your data: one feature is X.reshape(-1, 1)"
        raise ParameterError("X", "have two dimensions, rows and columns", f"{len(shape)} dimension(s)", remedy)
    if shape is not None and shape[1] == 0:
        raise ParameterError("X", "have a column", "0 feature(s) (shape=(n, 0)) while a minimum of 1 is required.")
    _check_feature_names(estimator, X, reset=True)
    _check_n_features(estimator, rows, reset=True)
    return rows


def check_given(estimator: Any, y: Any) -> None:
    """Refuse targets that were left out, in the words of scikit-learn, and those in a dask collection."""
    if y is None:
        remedy = f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        raise ParameterError("y", "be given", None, remedy)
    in_memory_only("y", y)


def private_targets(estimator: Any, y: Any) -> Floats:
    """Return the targets as a float64 vector or matrix. Other cells than numbers become NaN; a text type is refused.

    >>> private_targets(None, np.array(["low", "high"]))
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: y must hold real numbers; got text; convert it first (a list is read cell by cell)
    """
    check_given(estimator, y)
    given = as_array(y)
    if getattr(given, "ndim", 1) not in (1, 2):
        raise ParameterError("y", "have one or two dimensions", f"{given.ndim} dimension(s)")
    if isinstance(given, np.ndarray) and given.dtype.kind == "f" and given.dtype.itemsize > 8:
        with np.errstate(all="ignore"):  # a warning would reveal something about the values
            given = given.astype(np.float64)
    table = target_table(given)
    for kind in table.refused.values():
        raise ParameterError("y", "hold real numbers", kind, "convert it first (a list is read cell by cell)")
    (targets,) = table.matrix().arrays()
    return targets[:, 0] if is_vector(given) else targets


def as_array(data: Any) -> Any:
    """Return what says that it is an array as one; other data come back unchanged."""
    known = type(data).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow", "scipy", "torch")
    if not known and not hasattr(data, "columns") and hasattr(data, "__array__"):
        return np.asarray(data)
    return data


def _by_type(name: str, data: Any) -> Any:
    """Refuse arrays whose type holds no real numbers; arrays of objects and text are read cell by cell."""
    kind = getattr(getattr(data, "dtype", None), "kind", "f")
    if kind == "c":
        raise ParameterError(name, "be real", "complex numbers", "Complex data not supported")
    if not isinstance(data, np.ndarray) or kind in "fiubO":
        return data
    if kind not in "SU":
        raise ParameterError(name, "hold real numbers", kind_of(data.dtype))
    return data.astype(object)


def weighted_records(
    rows: Any, targets: Floats, weights: Any, *, bound: float, constant: float | None
) -> tuple[Floats, Floats]:
    """Return rows (with the constant as a last column) and targets, times √weight; NaN where a weight is not positive.

    Every operation is elementwise, so a record's numbers depend on that record only.

    >>> x, y = weighted_records(np.ones((2, 1)), np.ones((2, 1)), [4.0, 0.0], bound=9.0, constant=0.5)
    >>> x.tolist(), y.tolist()
    ([[2.0, 1.0], [nan, nan]], [[2.0], [nan]])
    """
    x, y = open_rows((rows, targets)).arrays()
    with np.errstate(all="ignore"):  # a warning would reveal something about the values
        given = _numbers(weights)
        if given.shape not in ((len(x),), ()):
            rule = "have one weight per row, in one dimension"
            raise ParameterError("sample_weight", rule, f"{given.ndim} dimension(s)")
        given = np.broadcast_to(given, (len(x),))
        root = np.sqrt(np.where(given > 0, np.minimum(given, bound), np.nan))[:, None]
        if constant is not None:
            x = np.hstack([x, np.full((len(x), 1), constant)])
        return x * root, y * root


def _numbers(weights: Any) -> Floats:
    """Return weights as float64, each cell read on its own; NaN where one is no number. Only a type can be refused."""
    if isinstance(weights, Real):
        return np.asarray(float(weights))
    given = as_array(weights)
    if getattr(given, "ndim", 1) != 1:
        raise ParameterError("sample_weight", "have one weight per row, in one dimension", f"{given.ndim} dimension(s)")
    table = column_table(given)
    for kind in table.kinds[0] - {"number", "boolean", "cells", "objects", "texts"}:
        raise ParameterError("sample_weight", "hold real numbers", kind)
    return np.concatenate([np.empty(0), *(numbers(block[:, 0]) for (block,) in table.read(((0,),)))])
