"""Principal components from one private release."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ndis.errors import ParameterError
from ndis.learn._base import READ_ROWS, Floats
from ndis.learn._moments import MomentEstimator

__all__ = ["PrivatePCA"]


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MomentEstimator):  # type: ignore[misc]
    """Differentially private principal component analysis.

    It finds the eigenvectors of the covariance that `PrivateCovariance` learns. `transform` applies this map. The image
    of private rows is as private as the rows.

    Parameters
    ----------
    n_components : int, optional
        How many components to keep; all by default.
    epsilon, delta, row_norm_bound, method, sketch_size, adjacency, records, calibration, random_state, ledger, slot
        As in `PrivateCovariance`.

    Attributes
    ----------
    components_ : (n_components, features) array
        Orthonormal rows, by falling variance; the largest entry of each is positive.
    explained_variance_, explained_variance_ratio_ : arrays
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

    def __init__(
        self,
        n_components: int | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        row_norm_bound: float | None = None,
        method: str = "gram",
        sketch_size: int | None = None,
        adjacency: str = "add-remove",
        records: float | None = None,
        calibration: str = "exact",
        random_state: Any = None,
        ledger: Any = None,
        slot: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.row_norm_bound = row_norm_bound
        self.method = method
        self.sketch_size = sketch_size
        self.adjacency = adjacency
        self.records = records
        self.calibration = calibration
        self.random_state = random_state
        self.ledger = ledger
        self.slot = slot

    def _learn(self, data: Any, how: dict[str, Any]) -> PrivatePCA:
        width, kept = self.n_features_in_, self.n_components
        if kept is None:
            kept = width
        if isinstance(kept, bool) or not (isinstance(kept, int | np.integer) and 1 <= kept <= width):
            raise ParameterError("n_components", f"be an integer from 1 to the {width} features, or None", repr(kept))
        found = self._moments(data, how, centered=False)
        self.records_, self.mean_ = found.records, found.location
        variances, vectors = np.linalg.eigh(found.covariance)
        variances, vectors = np.maximum(variances[::-1], 0.0), vectors[:, ::-1].T
        largest = np.argmax(np.abs(vectors), axis=1)
        vectors = vectors * np.sign(vectors[np.arange(width), largest])[:, None]
        total = float(variances.sum())
        self.n_components_ = int(kept)
        self.components_: Floats = vectors[:kept]
        self.explained_variance_: Floats = variances[:kept]
        self.explained_variance_ratio_ = variances[:kept] / total if total > 0 else np.zeros(int(kept))
        return self

    def transform(self, X: Any) -> Floats:
        """Coordinates of rows along the components; NaN where a row has NaN."""
        check_is_fitted(self)
        rows = validate_data(self, X, **READ_ROWS)
        return np.asarray(rows @ self.components_.T - self.mean_ @ self.components_.T)

    def inverse_transform(self, X: Any) -> Floats:
        """Rows with these coordinates."""
        check_is_fitted(self)
        return np.asarray(np.asarray(X, dtype=np.float64) @ self.components_ + self.mean_)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_
