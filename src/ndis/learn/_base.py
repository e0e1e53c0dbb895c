"""What the estimators that learn from a sketch share: stated bounds, rows by their schema alone, one release."""

from __future__ import annotations

import math
import os
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_feature_names, _check_n_features

from ndis._validate import STATE_A_BOUND, as_scalar
from ndis.errors import ParameterError
from ndis.gram.cells import nested_cells, read_cells
from ndis.mechanisms.base import as_adjacency
from ndis.mechanisms.projection import RandomProjection
from ndis.mechanisms.projection_family import as_calibration, as_size
from ndis.mechanisms.release import ProjectionRelease

__all__ = [
    "INTERCEPT_SHARE",
    "READ_ROWS",
    "Moments",
    "SketchEstimator",
    "moments",
    "private_rows",
    "private_targets",
    "stated_bound",
]

Floats = NDArray[np.float64]

# The constant column is this multiple of `row_norm_bound`. A larger one costs the features noise, a smaller one loses
# the mean in noise; between 0.4 and 0.7 the errors measured on real data hardly change.
INTERCEPT_SHARE = 0.5

# With r rows of sketch, sampling alone adds about columns/r to the squared error: one per cent.
_ROWS_PER_COLUMN = 100

# How `predict` and `transform` read rows, which are not private there: NaN passes through.
READ_ROWS: dict[str, Any] = {
    "reset": False,
    "accept_sparse": "csr",
    "dtype": np.float64,
    "ensure_all_finite": "allow-nan",
}


def stated_bound(name: str, value: Any, *, clipped: str = "rows") -> float:
    """A public bound, which must be a number: one that depends on the data would leak it. `clipped` says what it clips.

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


def private_rows(estimator: Any, X: Any) -> Any:
    """The rows in a form the release engine reads; sets `n_features_in_` and `feature_names_in_`.

    Types and shapes are checked. No check looks at a value: a cell that is not a number becomes NaN, and the engine
    turns its row into zeros.
    """
    rows = _by_schema("X", X)
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
    """The targets as a float64 vector or matrix; cells that are not numbers become NaN, a type of text is refused."""
    if y is None:
        raise ParameterError(
            "y", "be given", None, f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    _check_target_types(y)
    with np.errstate(all="ignore"):  # a warning would tell of the values
        found = _by_schema("y", y if isinstance(y, list | tuple) else np.asarray(y)).astype(np.float64)
    if found.ndim not in (1, 2):
        raise ParameterError("y", "have one or two dimensions", f"{found.ndim} dimension(s)")
    return np.asarray(found)


def _check_target_types(y: Any) -> None:
    """Refuse targets whose type says that they are text, before a cell is read; a type is public.

    Lists, and arrays of objects, say nothing of the kind and are read cell by cell.

    >>> _check_target_types(np.array(["low", "high"]))
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: y must hold real numbers; got dtype <U4; convert it first (a list is read cell by cell)
    """
    frame = hasattr(y, "dtypes") and len(y.shape) == 2
    types: list[Any] = list(y.dtypes) if frame else [getattr(y, "dtype", None)]
    for dtype in types:
        kind = getattr(dtype, "kind", "f")
        if hasattr(dtype, "is_numeric"):  # polars
            kind = "f" if dtype.is_numeric() or str(dtype) == "Boolean" else "O"
        if kind in "US" or (kind == "O" and not isinstance(y, np.ndarray)):
            remedy = "convert it first (a list is read cell by cell)"
            raise ParameterError("y", "hold real numbers", f"dtype {dtype}", remedy)


def _by_schema(name: str, data: Any) -> Any:
    """Sequences and arrays of objects or text cell by cell, so that one record cannot change how another is read."""
    if isinstance(data, str | os.PathLike):
        remedy = "RandomProjection.release and PrivateRidge.fit_data read files"
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
        raise ParameterError(name, "hold real numbers", f"dtype {data.dtype}")
    return read_cells(data)


class SketchEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators that learn from one random projection; see `PrivateRidge` for the parameters."""

    epsilon: Any
    delta: Any
    row_norm_bound: Any
    sketch_size: Any
    adjacency: Any
    calibration: Any
    random_state: Any
    ledger: Any
    slot: Any

    def _calibrate(self, *, columns: int, **layout: Any) -> RandomProjection:
        """The mechanism for rows of this many columns, from public parameters alone."""
        size = _ROWS_PER_COLUMN * columns if self.sketch_size is None else self.sketch_size
        return _calibrated(
            epsilon=as_scalar("epsilon", self.epsilon),
            delta=as_scalar("delta", self.delta),
            sketch_size=as_size("sketch_size", size),
            row_norm_bound=stated_bound("row_norm_bound", self.row_norm_bound),
            adjacency=as_adjacency(self.adjacency),
            calibration=as_calibration(self.calibration),
            **layout,
        )

    def _how(self) -> dict[str, Any]:
        """How to release: whose bits, and which ledger pays."""
        return {"random_state": self.random_state, "ledger": self.ledger, "slot": self.slot}

    def _keep(self, release: ProjectionRelease) -> ProjectionRelease:
        """Keep what was released, and return it."""
        self.release_, self.receipt_, self.mechanism_ = release, release.receipt, release.mechanism
        return release

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # a row with a non-finite entry counts as zero: an error would leak it
        tags.input_tags.sparse = True
        return tags


@lru_cache(maxsize=64)
def _calibrated(**public: Any) -> RandomProjection:
    """The mechanism, which depends on public parameters alone and so may be kept."""
    return RandomProjection.calibrated(**public)


class Moments(NamedTuple):
    """Number of records, mean and covariance, as estimated from a sketch."""

    records: float
    location: Floats
    covariance: Floats


def moments(release: ProjectionRelease, *, features: int, records: float | None, centered: bool) -> Moments:
    """Count, mean and covariance of the features, from the released Gram estimate alone.

    With a constant column c, [XᵀX  Xᵀ1c; ·  nc²] gives n, the mean and the covariance XᵀX/n − mean·meanᵀ. The noise
    may leave the last one with negative eigenvalues; they are set to zero, which brings it nearer to any covariance.
    """
    gram, location = release.gram(), np.zeros(features)
    constant = release.mechanism.intercept or math.nan
    count = records
    if count is None:
        # Below its own standard error, √(2/r)·(nc² + ridge)/c², the count is noise; and there is no less than one row.
        noise = math.sqrt(2 / len(release.sketch)) * (gram[-1, -1] + release.ridge) / constant**2
        count = max(release.count(), float(noise), 1.0)
    if not centered:
        location = gram[:features, -1] / (constant * count)
    values, vectors = np.linalg.eigh(gram[:features, :features] / count - np.outer(location, location))
    return Moments(count, location, (vectors * np.maximum(values, 0.0)) @ vectors.T)
