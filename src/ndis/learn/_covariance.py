"""Mean, covariance and principal components come from one private release: of the Gram matrix, or of a sketch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.covariance import EmpiricalCovariance, empirical_covariance, log_likelihood
from sklearn.utils.validation import check_is_fitted

from ndis._validate import Floats, as_adjacency, as_choice, require
from ndis.data import Rows
from ndis.describing.statistics import NoisyMoments, paired
from ndis.learn._estimator import PrivateEstimator, calibrated, warn_of_score
from ndis.learn._releases import INTERCEPT_SHARE
from ndis.learn._ridge import sketching, stated_records
from ndis.mechanisms.gram import GramMechanism, GramRelease

METHODS = ("gram", "sketch")
KINDS = ("covariance", "correlation")


@dataclass(kw_only=True, eq=False, repr=False)
class MomentsEstimator(PrivateEstimator):
    """Estimators of second moments have these parameters; they learn from rows only."""

    _has_target = False

    row_norm_bound: float | None = None
    adjacency: str = "add-remove"
    method: str = "gram"
    sketch_size: int | None = None
    records: float | None = None

    def _check(self, *, files: bool = False) -> None:
        as_choice("method", self.method, METHODS)
        good = self.method != "gram" or self.sketch_size is None
        require(good, "sketch_size", "be left out with method='gram'", self.sketch_size)
        self._row_bound()
        stated_records(self)

    def _release_moments(self, rows: Rows, *, centered: bool = False) -> NoisyMoments:
        """Release the Gram matrix or a sketch of the rows, and estimate moments from it."""
        bound, width = self._row_bound(), self.n_features_in_
        # A constant column counts the records and carries the mean. If neither is needed it would only cost noise.
        intercept = None if centered and self.records is not None else INTERCEPT_SHARE * bound
        layout: dict[str, Any] = {"row_norm_bound": bound, "intercept": intercept}
        if self.method == "gram":
            adjacency = as_adjacency(self.adjacency)
            mechanism = calibrated(GramMechanism.calibrated, **self._budget(), adjacency=adjacency, **layout)
        else:
            mechanism = sketching(self, columns=width + (intercept is not None), **layout)
        self._keep(mechanism, lambda: mechanism.release(rows, random_state=self.random_state))
        noisy = self._released_moments(centered=centered)
        self.records_ = noisy.records
        return noisy

    def _released_moments(self, *, centered: bool = False) -> NoisyMoments:
        """Estimate count, mean and covariance from the release.

        The noise may leave the covariance with negative eigenvalues: it is unbiased, and is not repaired.
        """
        constant, gram = self.mechanism_.intercept, self.release_.gram()
        gram = gram if constant is not None else np.pad(gram, (0, 1))
        if isinstance(self.release_, GramRelease):
            noise = self.mechanism_.noise_std
        else:  # the standard error of the last diagonal entry of a sketch
            noise = math.sqrt(2 / len(self.release_.sketch)) * (float(gram[-1, -1]) + self.release_.ridge)
        noisy = NoisyMoments.of(gram, noise=noise, constant=constant or 1.0, records=stated_records(self))
        if centered:
            noisy = replace(noisy, mean=np.zeros(len(noisy.mean)), covariance=gram[:-1, :-1] / noisy.records)
        return noisy

    def _known_moments(self) -> NoisyMoments:
        """Return the moments of the release, if they know their errors."""
        check_is_fitted(self)
        good = isinstance(self.release_, GramRelease) and self.mechanism_.intercept is not None
        require(good, "method", "be 'gram', with a mean that is estimated, for standard errors", self.method)
        return self._released_moments()


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateCovariance(MomentsEstimator, EmpiricalCovariance):  # type: ignore[misc]
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

    assume_centered: bool = False
    store_precision: bool = True

    def _learn(self, rows: Rows, public: None, *, one: bool) -> None:
        """Learn location and covariance in the units of the data from released moments."""
        noisy, schema = self._release_moments(rows, centered=self.assume_centered), self._schema()
        self._scale = np.ones(len(noisy.mean)) if schema is None else schema.scales()[1]
        self.location_ = noisy.mean if schema is None else schema.decode(noisy.mean)
        covariance = noisy.covariance * self._scale[:, None] * self._scale
        values, vectors = np.linalg.eigh(covariance)
        self._set_covariance((vectors * np.maximum(values, 0.0)) @ vectors.T)  # for a precision that is positive
        self.covariance_ = covariance

    @property
    def location_error_(self) -> Floats:
        """Return the standard errors of the mean."""
        noisy, last = self._known_moments(), np.eye(2)[1]
        errors = [noisy.error(paired(np.eye(2)[:1], last, noisy.records), [i])[0, 0] for i in range(len(noisy.mean))]
        return np.asarray(np.sqrt(errors) * self._scale)

    @property
    def covariance_error_(self) -> Floats:
        """Return the standard errors of the covariance."""
        noisy, every = self._known_moments(), range(self.n_features_in_)
        errors = np.array([[noisy.product(i, j, 1.0)[1] for j in every] for i in every])
        return np.asarray(errors * self._scale[:, None] * self._scale)

    @property
    def correlation_error_(self) -> Floats:
        """Return the standard errors of the correlation; infinite if a variance is not positive."""
        noisy, every = self._known_moments(), range(self.n_features_in_)
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
        as_choice("kind", kind, KINDS)
        import pandas as pd

        names = self._names()
        return pd.DataFrame(self.covariance_ if kind == "covariance" else self.correlation_, names, names)

    def score(self, X_test: Any, y: Any = None, *, public: bool = False) -> float:
        """Compute the log-likelihood of rows under the released mean and covariance; it warns without ``public``."""
        warn_of_score(public=public)
        rows = self._dense_rows(X_test) - self.location_
        return float(log_likelihood(empirical_covariance(rows, assume_centered=True), self.get_precision()))

    def mahalanobis(self, X: Any) -> Floats:
        """Compute the squared Mahalanobis distances of public rows."""
        rows = self._dense_rows(X) - self.location_
        return np.asarray((rows @ self.get_precision() * rows).sum(axis=1))


@dataclass(kw_only=True, eq=False, repr=False)
class PrivatePCA(MomentsEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Find principal components with differential privacy.

    It finds the eigenvectors of the covariance that `PrivateCovariance` learns. `transform` applies this map. The image
    of private rows is as private as the rows.

    Parameters
    ----------
    n_components : int or float, optional
        How many components to keep; all by default. A number between 0 and 1 keeps the fewest components that explain
        at least this share of the estimated variance. Noise adds variance to every direction.
    epsilon, delta, row_norm_bound, method, sketch_size, adjacency, records, random_state, ledger, slot
        As in `PrivateCovariance`.
    schema : Schema, optional
        What is public about the table. Components and mean are those of encoded rows, in which every column has the
        range [−1, 1]: there is no need to scale. `transform` takes rows in original units, and `inverse_transform`
        gives rows in these units.

    Attributes
    ----------
    components_ : (n_components, features) array
        Orthonormal rows, by falling variance; the largest entry of each is positive.
    explained_variance_, explained_variance_ratio_ : arrays
        A variance that the noise leaves below zero is set to zero.
    explained_variance_error_, components_error_ : arrays
        Standard errors, of privacy and of sampling from normal rows; with ``method="gram"``.
    mean_ : array
    n_components_ : int
    records_, release_, receipt_, mechanism_
        As in `PrivateCovariance`.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(5000, 3)) * [3.0, 1.0, 0.5]
    >>> pca = PrivatePCA(n_components=1, epsilon=2.0, delta=1e-6, row_norm_bound=8.0).fit(rows)
    >>> bool(pca.components_[0, 0] > 0.9)
    True
    """

    n_components: Any = field(default=None, kw_only=False)

    def _learn(self, rows: Rows, public: None, *, one: bool) -> None:
        """Learn the mean and the leading directions from released moments."""
        width, wanted = self.n_features_in_, self.n_components
        share = isinstance(wanted, float | np.floating) and 0 < wanted < 1
        whole = isinstance(wanted, int | np.integer) and not isinstance(wanted, bool) and 1 <= wanted <= width
        rule = f"be an integer from 1 to the {width} features, a share between 0 and 1, or None"
        require(wanted is None or share or whole, "n_components", rule, repr(wanted))
        noisy = self._release_moments(rows)
        values, vectors = noisy.directions(list(range(width)))
        variances = np.maximum(values, 0.0)
        total = float(variances.sum())
        kept = int(wanted) if whole and wanted is not None else width
        if share and wanted is not None and total > 0:
            kept = min(int(np.searchsorted(np.cumsum(variances) / total, wanted)) + 1, width)
        self.mean_, self.n_components_ = noisy.mean, kept
        self.components_: Floats = vectors[:kept]
        self.explained_variance_: Floats = variances[:kept]
        self.explained_variance_ratio_ = variances[:kept] / total if total > 0 else np.zeros(kept)

    def transform(self, X: Any) -> Floats:
        """Return the coordinates of rows along the components; NaN if a row has NaN."""
        check_is_fitted(self)
        rows = self._public_rows(X, encoded=True)
        return np.asarray(rows @ self.components_.T - self.mean_ @ self.components_.T)

    def inverse_transform(self, X: Any) -> Floats:
        """Return the rows with these coordinates."""
        check_is_fitted(self)
        rows = np.asarray(np.asarray(X, dtype=np.float64) @ self.components_ + self.mean_)
        schema = self._schema()
        return rows if schema is None else schema.decode(rows)

    @property
    def explained_variance_error_(self) -> Floats:
        """Return the standard errors of the variances."""
        return self._errors()[:, 0]

    @property
    def components_error_(self) -> Floats:
        """Return the standard errors of the entries of the components."""
        return self._errors()[:, 1:]

    def _errors(self) -> Floats:
        return self._known_moments().components(list(range(self.n_features_in_)), self.n_components_)[2]

    @property
    def _n_features_out(self) -> int:
        return self.n_components_
