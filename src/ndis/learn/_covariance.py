"""Mean and covariance come from one private release: of the Gram matrix, or of a sketch."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.covariance import EmpiricalCovariance
from sklearn.utils.validation import check_is_fitted

from ndis._validate import Floats, as_adjacency
from ndis.data import Rows
from ndis.describing.statistics import NoisyMoments, paired
from ndis.errors import ParameterError
from ndis.learn._estimator import INTERCEPT_SHARE, PrivateEstimator, calibrated, one_of
from ndis.learn._ridge import sketching, stated_records
from ndis.mechanisms.gram import GramMechanism, GramRelease
from ndis.mechanisms.releases import ProjectionRelease

__all__ = ["Moments", "PrivateCovariance", "check_moments", "moments", "released_errors", "released_moments"]

METHODS = ("gram", "sketch")
KINDS = ("covariance", "correlation")


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateCovariance(PrivateEstimator, EmpiricalCovariance):  # type: ignore[misc]
    """Learn mean and covariance with differential privacy, in the manner of `sklearn.covariance`.

    One release holds the Gram matrix of the rows and a constant column, with noise (`GramMechanism`). Count, mean and
    covariance come from this unbiased estimate. The estimator learns nothing beyond the release.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    row_norm_bound : float
        Public bound of the Euclidean norm of a row; longer rows are clipped to it. Must be stated.
    method : {"gram", "sketch"}
        "gram" releases the Gram matrix with symmetric noise: the least error if only the matrix is wanted. "sketch"
        releases a random projection (`RandomProjection`), whose rows others can analyse in their own ways.
    sketch_size : int, optional
        Rows of a sketch; by default chosen from public numbers, as for `PrivateRidge`.
    adjacency : {"add-remove", "replace-one"}
        Which data sets are neighbours. Under add/remove the number of records is private.
    records : float, optional
        The number of records, if it is public (replace-one, or published elsewhere); otherwise it is estimated from
        the release.
    assume_centered : bool
        Take the mean to be zero.
    store_precision : bool
        Keep the (pseudo-)inverse as `precision_`.
    random_state : optional
        None draws from the operating system. A seed warns: the result is then not private.
    schema : Schema, optional
        What is public about the table. Rows are then taken in original units, and `row_norm_bound` is that of the
        schema unless a smaller one is stated. Mean and covariance are in original units.
    ledger : path, optional
        The `ndis.Ledger` that pays for the release. It reserves before data is read.
    slot : str, optional
        The slot of a plan in the ledger.

    Attributes
    ----------
    covariance_, location_, precision_
        As in `sklearn.covariance.EmpiricalCovariance`.
    correlation_ : array
    location_error_, covariance_error_, correlation_error_ : arrays
        Standard errors, of privacy and of sampling from normal rows; with ``method="gram"``. Covariances are unbiased:
        no eigenvalue is repaired, except for `precision_`.
    records_ : float
        The number of records used: `records`, or its noisy estimate.
    release_, receipt_, mechanism_
        What was released, what it guarantees, and how.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(5000, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
    >>> model = PrivateCovariance(epsilon=2.0, delta=1e-6, row_norm_bound=4.0).fit(rows)
    >>> bool(abs(model.covariance_[0, 1] - 0.6) < 0.3), model.receipt_.private
    (True, True)
    """

    _has_target = False

    row_norm_bound: float | None = None
    adjacency: str = "add-remove"
    method: str = "gram"
    sketch_size: int | None = None
    records: float | None = None
    assume_centered: bool = False
    store_precision: bool = True

    def _check(self, *, files: bool = False) -> None:
        check_moments(self)

    def _learn(self, rows: Rows, public: None, *, one: bool, changed: Any) -> Self:
        self.records_, location, covariance = released_moments(self, rows, centered=self.assume_centered)
        schema = self._schema()
        self._scale = np.ones(len(location)) if schema is None else schema.scales()[1]
        self.location_ = location if schema is None else schema.decode(location)
        covariance = covariance * self._scale[:, None] * self._scale
        values, vectors = np.linalg.eigh(covariance)
        self._set_covariance((vectors * np.maximum(values, 0.0)) @ vectors.T)  # for a precision that is positive
        self.covariance_ = covariance
        return self

    @property
    def location_error_(self) -> Floats:
        """Return the standard errors of the mean."""
        noisy, last = released_errors(self), np.eye(2)[1]
        errors = [noisy.error(paired(np.eye(2)[:1], last, noisy.records), [i])[0, 0] for i in range(len(noisy.mean))]
        return np.asarray(np.sqrt(errors) * self._scale)

    @property
    def covariance_error_(self) -> Floats:
        """Return the standard errors of the covariance."""
        noisy, every = released_errors(self), range(self.n_features_in_)
        errors = np.array([[noisy.covariance_error(i, j) for j in every] for i in every])
        return np.asarray(errors * self._scale[:, None] * self._scale)

    @property
    def correlation_error_(self) -> Floats:
        """Return the standard errors of the correlation; infinite if a variance is not positive."""
        noisy, every = released_errors(self), range(self.n_features_in_)
        return np.array([[noisy.correlation(i, j, 1.0)[1] if i != j else 0.0 for j in every] for i in every])

    @property
    def correlation_(self) -> Floats:
        """Return the correlation matrix; NaN in the row and column of a feature whose estimated variance is zero."""
        check_is_fitted(self)
        spread = np.sqrt(np.diagonal(self.covariance_))
        with np.errstate(all="ignore"):
            scaled = self.covariance_ / spread[:, None] / spread
        correlation = np.where(np.isfinite(scaled), np.clip(scaled, -1.0, 1.0), np.nan)
        correlation[np.diag_indices(len(correlation))] = np.where(spread > 0, 1.0, np.nan)
        return np.asarray(correlation, dtype=np.float64)

    def to_frame(self, kind: str = "covariance") -> Any:
        """Return the covariance, or the correlation, as a pandas DataFrame with the names of the columns.

        Parameters
        ----------
        kind : {"covariance", "correlation"}
        """
        check_is_fitted(self)
        one_of("kind", kind, KINDS)
        import pandas as pd

        names = self._names()
        return pd.DataFrame(self.covariance_ if kind == "covariance" else self.correlation_, names, names)

    def score(self, X_test: Any, y: Any = None) -> float:
        """Compute the log-likelihood of public rows under the released mean and covariance."""
        with _rows_without_names():
            return float(super().score(self._public_rows(X_test)))

    def mahalanobis(self, X: Any) -> Floats:
        """Compute the squared Mahalanobis distances of public rows."""
        with _rows_without_names():
            return np.asarray(super().mahalanobis(self._public_rows(X)))


@contextmanager
def _rows_without_names() -> Iterator[None]:
    """Silence scikit-learn: rows that were read by name have lost their names, which it would report."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield


# ---------------------------------------------------------------------- second moments, for PrivatePCA too


class Moments(NamedTuple):
    """The number of records, their mean and covariance are estimated from a release."""

    records: float
    location: Floats
    covariance: Floats


def check_moments(estimator: Any) -> None:
    """Check the public parameters of an estimator of moments before any private value is read."""
    one_of("method", estimator.method, METHODS)
    if estimator.method == "gram" and estimator.sketch_size is not None:
        raise ParameterError("sketch_size", "be left out with method='gram'", estimator.sketch_size)
    estimator._row_bound()
    stated_records(estimator)


def released_moments(estimator: Any, data: Any, *, centered: bool) -> Moments:
    """Release the Gram matrix or a sketch of the rows, keep the release, and estimate moments from it."""
    records, bound, width = stated_records(estimator), estimator._row_bound(), estimator.n_features_in_
    # A constant column counts the records and carries the mean. If neither is needed it would only cost noise.
    intercept = None if centered and records is not None else INTERCEPT_SHARE * bound
    layout: dict[str, Any] = {"row_norm_bound": bound, "intercept": intercept}
    if estimator.method == "gram":
        adjacency = as_adjacency(estimator.adjacency)
        mechanism = calibrated(GramMechanism.calibrated, **estimator._budget(), adjacency=adjacency, **layout)
    else:
        mechanism = sketching(estimator, columns=width + (intercept is not None), **layout)
    release = estimator._keep(mechanism, lambda: mechanism.release(data, random_state=estimator.random_state))
    return moments(release, features=width, records=records, centered=centered)


def moments(
    release: GramRelease | ProjectionRelease, *, features: int, records: float | None, centered: bool
) -> Moments:
    """Estimate count, mean and covariance of the features, from the released Gram estimate only.

    With a constant column c, [XᵀX  Xᵀ1c; ·  nc²] gives n, the mean and the covariance XᵀX/n − mean·meanᵀ. The noise
    may leave the last one with negative eigenvalues: it is unbiased, and is not repaired.
    """
    gram, location = release.gram(), np.zeros(features)
    constant = release.mechanism.intercept or math.nan
    count = records
    if count is None:
        # Below its own standard error the count is noise; and there is no less than one row.
        count = max(release.count(), _count_error(release, gram) / constant**2, 1.0)
    if not centered:
        location = gram[:features, -1] / (constant * count)
    return Moments(count, location, gram[:features, :features] / count - np.outer(location, location))


def released_errors(estimator: Any) -> NoisyMoments:
    """Return the moments of an estimator's release, which know their errors."""
    check_is_fitted(estimator)
    release = estimator.release_
    if not isinstance(release, GramRelease) or release.mechanism.intercept is None:
        rule = "be 'gram', with a mean that is estimated, for standard errors"
        raise ParameterError("method", rule, estimator.method)
    how = {"noise": release.mechanism.noise_std, "constant": release.mechanism.intercept}
    return NoisyMoments.of(release.gram(), **how, records=estimator.records_)


def _count_error(release: GramRelease | ProjectionRelease, gram: Floats) -> float:
    """Return the standard error of the last diagonal entry: s, or √(2/r)·(nc² + ridge) of a sketch."""
    if isinstance(release, GramRelease):
        return release.mechanism.noise_std
    return float(math.sqrt(2 / len(release.sketch)) * (gram[-1, -1] + release.ridge))
