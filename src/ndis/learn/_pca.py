"""Principal components come from one private release."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ndis._validate import Floats
from ndis.data import Rows
from ndis.errors import ParameterError
from ndis.learn._covariance import check_moments, released_errors, released_moments
from ndis.learn._estimator import PrivateEstimator

__all__ = ["PrivatePCA"]


@dataclass(kw_only=True, eq=False, repr=False)
class PrivatePCA(PrivateEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
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

    _has_target = False

    n_components: Any = field(default=None, kw_only=False)
    row_norm_bound: float | None = None
    adjacency: str = "add-remove"
    method: str = "gram"
    sketch_size: int | None = None
    records: float | None = None

    def _check(self, *, files: bool = False) -> None:
        check_moments(self)

    def _learn(self, rows: Rows, public: None, *, one: bool, changed: Any) -> Self:
        width, wanted = self.n_features_in_, self.n_components
        share = isinstance(wanted, float | np.floating) and 0 < wanted < 1
        whole = isinstance(wanted, int | np.integer) and not isinstance(wanted, bool) and 1 <= wanted <= width
        if not (wanted is None or share or whole):
            rule = f"be an integer from 1 to the {width} features, a share between 0 and 1, or None"
            raise ParameterError("n_components", rule, repr(wanted))
        self.records_, self.mean_, covariance = released_moments(self, rows, centered=False)
        variances, vectors = np.linalg.eigh(covariance)
        variances, vectors = np.maximum(variances[::-1], 0.0), vectors[:, ::-1].T
        largest = np.argmax(np.abs(vectors), axis=1)
        vectors = vectors * np.sign(vectors[np.arange(width), largest])[:, None]
        total = float(variances.sum())
        kept = int(wanted) if whole and wanted is not None else width
        if share and wanted is not None and total > 0:
            kept = min(int(np.searchsorted(np.cumsum(variances) / total, wanted)) + 1, width)
        self.n_components_ = kept
        self.components_: Floats = vectors[:kept]
        self.explained_variance_: Floats = variances[:kept]
        self.explained_variance_ratio_ = variances[:kept] / total if total > 0 else np.zeros(kept)
        return self

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
        noisy = released_errors(self)
        return noisy.components(list(range(self.n_features_in_)), self.n_components_)[2]

    @property
    def _n_features_out(self) -> int:
        return self.n_components_
