"""What the estimators of a mean and a covariance share: one release of the Gram matrix or of a sketch."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ndis._validate import as_scalar
from ndis.errors import ParameterError
from ndis.learn._base import INTERCEPT_SHARE, Floats, SketchEstimator, stated_bound
from ndis.learn._tables import fitted_rows, opened_data, row_bound
from ndis.mechanisms.base import as_adjacency
from ndis.mechanisms.gram import GramMechanism, GramRelease
from ndis.mechanisms.projection import RandomProjection
from ndis.mechanisms.release import ProjectionRelease

__all__ = ["MomentEstimator", "Moments", "moments"]

METHODS = ("gram", "sketch")


class Moments(NamedTuple):
    """Number of records, mean and covariance, as estimated from a release."""

    records: float
    location: Floats
    covariance: Floats


class MomentEstimator(SketchEstimator):
    """Base of the estimators that learn from second moments; see `PrivateCovariance` for the parameters."""

    method: Any
    records: Any

    def fit(self, X: Any, y: Any = None) -> Any:
        """Release the Gram matrix or a sketch of the rows, and estimate from it.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, features)
            The private rows.
        y : ignored
        """
        self._check()
        rows = fitted_rows(self, X)
        return self._learn(rows, {})

    def fit_data(self, data: Any, *, columns: Any = None, header: bool = False, progress: bool | None = None) -> Any:
        """The same from files, folders, frames or dask collections, read in one pass.

        Parameters
        ----------
        data : path, list of paths, data frame, Arrow table, dask collection or array
            The private records. A folder is read file by file, with bounded memory.
        columns : names or numbers, optional
            The columns to learn from; all by default. For CSV files without a header: the names of all columns, from
            left to right, with None for a column that is not read.
        header : bool
            The first line of every CSV file holds names, which are public. Without it every line is a record.
        progress : bool, optional
            Show a progress bar for files; by default if standard error is a terminal.
        """
        self._check()
        opened, groups = opened_data(
            self, data, target=None, columns=columns, header=header, progress=progress, with_target=False
        )
        return self._learn(opened, {"columns": groups[0]})

    def _check(self) -> None:
        """Check public parameters before any private value is read."""
        if self.method not in METHODS:
            raise ParameterError("method", f"be one of {', '.join(METHODS)}", repr(self.method))
        if self.method == "gram" and self.sketch_size is not None:
            raise ParameterError("sketch_size", "be left out with method='gram'", self.sketch_size)
        if self.method == "gram" and self.calibration != "exact":
            raise ParameterError("calibration", "be 'exact' with method='gram'", repr(self.calibration))
        row_bound(self)
        if self.records is not None:
            stated_bound("records", self.records, clipped="")

    def _learn(self, data: Any, how: dict[str, Any]) -> Any:
        raise NotImplementedError  # each estimator has its own

    def _moments(self, data: Any, how: dict[str, Any], *, centered: bool) -> Moments:
        """Release, keep what was released, and estimate."""
        records = None if self.records is None else stated_bound("records", self.records, clipped="")
        # A constant column counts the records and carries the mean; without need of either it would only cost noise.
        bound = row_bound(self)
        intercept = None if centered and records is not None else INTERCEPT_SHARE * bound
        width = self.n_features_in_
        mechanism: GramMechanism | RandomProjection
        if self.method == "gram":
            mechanism = _calibrated(
                epsilon=as_scalar("epsilon", self.epsilon),
                delta=as_scalar("delta", self.delta),
                row_norm_bound=bound,
                adjacency=as_adjacency(self.adjacency),
                intercept=intercept,
            )
        else:
            mechanism = self._calibrate(
                columns=width + (intercept is not None), row_norm_bound=bound, intercept=intercept
            )
        release: Any = mechanism.release(data, **self._how(), **how)
        self._keep(release)
        return moments(release, features=width, records=records, centered=centered)


@lru_cache(maxsize=64)
def _calibrated(**public: Any) -> GramMechanism:
    """The mechanism, which depends on public parameters only and so may be kept."""
    return GramMechanism.calibrated(**public)


def moments(
    release: GramRelease | ProjectionRelease, *, features: int, records: float | None, centered: bool
) -> Moments:
    """Count, mean and covariance of the features, from the released Gram estimate only.

    With a constant column c, [XᵀX  Xᵀ1c; ·  nc²] gives n, the mean and the covariance XᵀX/n − mean·meanᵀ. The noise
    may leave the last one with negative eigenvalues; they are set to zero, which brings it nearer to any covariance.
    """
    gram, location = release.gram(), np.zeros(features)
    constant = release.mechanism.intercept or math.nan
    count = records
    if count is None:
        # Below its own standard error the count is noise; and there is no less than one row.
        count = max(release.count(), _count_error(release, gram) / constant**2, 1.0)
    if not centered:
        location = gram[:features, -1] / (constant * count)
    values, vectors = np.linalg.eigh(gram[:features, :features] / count - np.outer(location, location))
    return Moments(count, location, (vectors * np.maximum(values, 0.0)) @ vectors.T)


def _count_error(release: GramRelease | ProjectionRelease, gram: Floats) -> float:
    """The standard error of the last diagonal entry: s, or √(2/r)·(nc² + ridge) of a sketch."""
    if isinstance(release, GramRelease):
        return release.mechanism.noise_std
    return float(math.sqrt(2 / len(release.sketch)) * (gram[-1, -1] + release.ridge))
