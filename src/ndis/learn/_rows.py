"""Private rows, targets and weights in memory are checked by their types and shapes, and no check looks at a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_feature_names

from ndis._validate import Floats, as_scalar, require
from ndis.data import Rows, Table, open_table
from ndis.data.cells import numbers, text_objects
from ndis.data.memory import column_table, no_mask, target_table
from ndis.data.table import Groups, Parts, pick, same_length
from ndis.errors import ParameterError


def private_rows(estimator: Any, X: Any) -> Any:
    """Return the rows in a form that the release engine reads. Set `n_features_in_` and `feature_names_in_`.

    Types and shapes are checked, and no check looks at a value. A cell that is not a number becomes NaN, and the engine
    turns its row into zeros.
    """
    rows = _by_type("X", as_array(X))
    if tuple(getattr(rows, "shape", ()))[1:] == (0,):
        raise ParameterError("X", "have a column", "0 feature(s) (shape=(n, 0)) while a minimum of 1 is required.")
    estimator.n_features_in_ = open_table(rows).width  # scikit-learn would count the cells of a column named 0
    _check_feature_names(estimator, X, reset=True)
    return rows


def private_targets(y: Any) -> Any:
    """Return targets as they stand, checked by type and shape: `target_table` opens them. A text type is refused.

    >>> private_targets(np.array(["low", "high"]))
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: y must hold real numbers; got text; convert it first (a list is read cell by cell)
    """
    given = as_array(y)
    if getattr(given, "ndim", 1) not in (1, 2):
        raise ParameterError("y", "have one or two dimensions", f"{given.ndim} dimension(s)")
    if isinstance(given, np.ndarray) and given.dtype.kind == "f" and given.dtype.itemsize > 8:
        with np.errstate(all="ignore"):  # a warning would reveal something about the values
            given = given.astype(np.float64)
    for kind in target_table(given).refused.values():
        raise ParameterError("y", "hold real numbers", kind, "convert it first (a list is read cell by cell)")
    return given


def as_array(data: Any) -> Any:
    """Return an array of NumPy as a plain one; other data come back unchanged, and are opened or refused by type."""
    no_mask(data)
    return np.asarray(data) if isinstance(data, np.ndarray) else data


def _by_type(name: str, data: Any) -> Any:
    """Refuse arrays whose type holds no real numbers; arrays of objects and text are read cell by cell."""
    kind = getattr(getattr(data, "dtype", None), "kind", "f")
    require(kind != "c", name, "be real", "complex numbers", "Complex data not supported")
    return text_objects(data).astype(object) if isinstance(data, np.ndarray) and kind in "SU" else data


def weighted_rows(
    rows: Rows, weights: Any, *, bound: float, constant: float | None, origins: tuple[Any, Any] = (0.0, 0.0)
) -> Rows:
    """Return rows (with the constant as a last column) and targets, times √weight; NaN where a weight is not positive.

    Rows and targets count from their origins. Nothing is read before the first use.

    Every operation is elementwise, so a record's numbers depend on that record only.

    >>> from ndis.data import open_rows
    >>> x, y = weighted_rows(open_rows((np.ones((2, 1)), [1.0, 1.0])), [4.0, 0.0], bound=9.0, constant=0.5).arrays()
    >>> x.tolist(), y.tolist()
    ([[2.0, 1.0], [nan, nan]], [[2.0], [nan]])
    """
    read_weights, (features, targets) = _numbers(weights), rows.widths

    @cache
    def weighted() -> Floats:
        (x, y), given = rows.arrays(), read_weights()
        same_length((len(x), *given.shape))
        with np.errstate(all="ignore"):  # a warning would reveal something about the values
            root = np.sqrt(np.where(given > 0, np.minimum(given, bound), np.nan))
            root = np.broadcast_to(root, (len(x),))[:, None]
            ends = [] if constant is None else [np.full((len(x), 1), constant)]
            return np.hstack([x - origins[0], *ends, y - origins[1]]) * root

    def read(groups: Groups) -> Iterator[Parts]:
        yield tuple(pick(weighted(), group) for group in groups)

    kinds = (frozenset({"number"}),) * (features + (constant is not None) + targets)
    return Table(kinds, None, read, target_width=targets).matrix()


def _numbers(weights: Any) -> Callable[[], Floats]:
    """Return what reads weights as float64, each cell on its own; NaN where one is no number.

    Only a type can be refused.
    """
    if isinstance(weights, Real):
        return partial(np.asarray, as_scalar("sample_weight", weights))  # type: ignore[arg-type]
    given = as_array(weights)
    if getattr(given, "ndim", 1) != 1:
        raise ParameterError("sample_weight", "have one weight per row, in one dimension", f"{given.ndim} dimension(s)")
    table = column_table(given)
    for kind in table.kinds[0] - {"number", "boolean", "cells", "objects", "texts"}:
        raise ParameterError("sample_weight", "hold real numbers", kind)
    return lambda: np.concatenate([np.empty(0), *(numbers(block[:, 0]) for (block,) in table.read(((0,),)))])
