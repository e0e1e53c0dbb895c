"""What all estimators that learn from a sketch share: stated bounds, rows by their schema, one release."""

from __future__ import annotations

import math
import os
from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_feature_names, _check_n_features

from ndis._validate import STATE_A_BOUND, Floats, as_scalar, as_size
from ndis.errors import ParameterError
from ndis.gram.cells import kind_of, listed_rows, nested_cells, read_cells
from ndis.gram.cluster import is_dask
from ndis.gram.sources import open_source
from ndis.mechanisms.base import as_adjacency
from ndis.mechanisms.projection import RandomProjection
from ndis.mechanisms.sketch_law import as_calibration
from ndis.mechanisms.sketch_size import default_sketch_size

__all__ = [
    "INTERCEPT_SHARE",
    "READ_ROWS",
    "Floats",
    "SketchEstimator",
    "not_dask",
    "private_rows",
    "private_targets",
    "stated_bound",
]

# The constant column is this multiple of `row_norm_bound`. A larger one adds noise to the features, and a smaller one
# loses the mean in noise. Between 0.4 and 0.7 the errors measured on real data hardly change.
INTERCEPT_SHARE = 0.5

# How `predict` and `transform` read rows, which are not private there: NaN passes through.
READ_ROWS: dict[str, Any] = {
    "reset": False,
    "accept_sparse": "csr",
    "dtype": np.float64,
    "ensure_all_finite": "allow-nan",
}


def stated_bound(name: str, value: Any, *, clipped: str = "rows") -> float:
    """A public bound. It must be a number: a bound from the data would leak them. `clipped` names what it clips.

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
        raise ParameterError(name, "be a positive number", repr(value), STATE_A_BOUND + beyond)
    return number


def not_dask(name: str, data: Any) -> None:
    """Refuse a dask collection as an argument of `fit`."""
    if is_dask(data):
        remedy = "fit_data takes one, with the target among its columns"
        raise ParameterError(name, "be in memory for fit", "a dask collection", remedy)


def private_rows(estimator: Any, X: Any) -> Any:
    """The rows in a form that the release engine reads. Sets `n_features_in_` and `feature_names_in_`.

    Types and shapes are checked, and no check looks at a value. A cell that is not a number becomes NaN, and the engine
    turns its row into zeros.
    """
    not_dask("X", X)
    rows = listed_rows("X", X) if isinstance(X, list | tuple) else _by_schema("X", X)
    shape = getattr(rows, "shape", None)
    if shape is not None and len(shape) != 2:
        remedy = "Reshape your data: one feature is X.reshape(-1, 1)"
        raise ParameterError("X", "have two dimensions, rows and columns", f"{len(shape)} dimension(s)", remedy)
    if shape is not None and shape[1] == 0:
        raise ParameterError("X", "have a column", "0 feature(s) (shape=(n, 0)) while a minimum of 1 is required.")
    _check_feature_names(estimator, X, reset=True)
    _check_n_features(estimator, rows, reset=True)
    return rows


def private_targets(estimator: Any, y: Any) -> Floats:
    """The targets as a float64 vector or matrix. Cells that are not numbers become NaN; a text type is refused."""
    if y is None:
        raise ParameterError(
            "y", "be given", None, f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    not_dask("y", y)
    with np.errstate(all="ignore"):  # a warning would reveal something about the values
        found = _typed_targets(y)
        if found is None:
            found = _by_schema("y", y if isinstance(y, list | tuple) else np.asarray(y)).astype(np.float64)
    if found.ndim not in (1, 2):
        raise ParameterError("y", "have one or two dimensions", f"{found.ndim} dimension(s)")
    return np.asarray(found)


def _typed_targets(y: Any) -> Floats | None:
    """Targets in a container whose columns have types, which are public; None if it has none.

    Another type than numbers and booleans is refused before a cell is read. Lists and arrays of objects are read cell
    by cell.

    >>> _typed_targets(np.array(["low", "high"]))
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: y must hold real numbers; got text; convert it first (a list is read cell by cell)
    """
    module = type(y).__module__.partition(".")[0]
    if isinstance(y, np.ndarray) and y.dtype.kind in "UST":
        _refuse_target_type(kind_of(y.dtype))
    if module not in ("pandas", "polars", "pyarrow"):
        return None
    one = hasattr(y, "to_frame" if module != "pyarrow" else "type")  # a series or an array, and no frame or table
    if one and module == "pyarrow":
        from pyarrow import table

        y = table({"y": y})
    elif one:
        y = y.to_frame()
    frame = open_source(y)
    for kind in frame.refused.values():
        _refuse_target_type(kind)
    blocks = [part for (part,) in frame.read((tuple(range(frame.width)),))]
    found = np.concatenate([np.empty((0, frame.width)), *blocks])
    return found[:, 0] if one else found


def _refuse_target_type(kind: str) -> None:
    raise ParameterError("y", "hold real numbers", kind, "convert it first (a list is read cell by cell)")


def _by_schema(name: str, data: Any) -> Any:
    """Read sequences and arrays of objects or text cell by cell: no record changes how another one is read."""
    if isinstance(data, str | os.PathLike):
        remedy = "fit_data and the release of a mechanism read files"
        raise ParameterError(name, "be rows in memory", "a path", remedy)
    if isinstance(data, list | tuple):
        return nested_cells(name, data)
    if not hasattr(data, "dtype") and not hasattr(data, "columns") and hasattr(data, "__array__"):
        data = np.asarray(data)
    kind = getattr(getattr(data, "dtype", None), "kind", "f")
    if kind == "c":
        raise ParameterError(name, "be real", "complex numbers", "Complex data not supported")
    if not isinstance(data, np.ndarray) or kind in "fiub":
        return data
    if kind not in "OSU":
        raise ParameterError(name, "hold real numbers", kind_of(data.dtype))
    return read_cells(data)


class SketchEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators that learn from one random projection; see `PrivateRidge` for the parameters."""

    epsilon: Any
    delta: Any
    row_norm_bound: Any
    sketch_size: Any
    records: Any
    adjacency: Any
    calibration: Any
    random_state: Any
    schema: Any
    ledger: Any
    slot: Any

    def _calibrate(self, *, columns: int, row_norm_bound: float, **layout: Any) -> RandomProjection:
        """The mechanism for rows of this many columns, from public parameters only."""
        epsilon, delta, size = as_scalar("epsilon", self.epsilon), as_scalar("delta", self.delta), self.sketch_size
        if size is None:
            records = None if self.records is None else stated_bound("records", self.records, clipped="")
            size = default_sketch_size(columns=columns, epsilon=epsilon, delta=delta, records=records)
        return _calibrated(
            epsilon=epsilon,
            delta=delta,
            sketch_size=as_size("sketch_size", size),
            row_norm_bound=row_norm_bound,
            adjacency=as_adjacency(self.adjacency),
            calibration=as_calibration(self.calibration),
            **layout,
        )

    def _how(self) -> dict[str, Any]:
        """How to release: whose bits, and which ledger pays."""
        return {"random_state": self.random_state, "ledger": self.ledger, "slot": self.slot}

    def _keep(self, release: Any) -> Any:
        """Keep what was released, and return it."""
        self.release_, self.receipt_, self.mechanism_ = release, release.receipt, release.mechanism
        return release

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # a row with a non-finite entry counts as zero; an error would leak it
        tags.input_tags.sparse = True
        return tags


@lru_cache(maxsize=64)
def _calibrated(**public: Any) -> RandomProjection:
    """The mechanism. It depends only on public parameters, so it may be kept."""
    return RandomProjection.calibrated(**public)
