"""Mean and covariance from one private release."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.covariance import EmpiricalCovariance
from sklearn.utils.validation import check_is_fitted

from ndis.errors import ParameterError
from ndis.learn._base import Floats
from ndis.learn._moments import MomentEstimator
from ndis.learn._tables import public_rows, schema_of

__all__ = ["PrivateCovariance"]

KINDS = ("covariance", "correlation")


class PrivateCovariance(MomentEstimator, EmpiricalCovariance):  # type: ignore[misc]
    """Differentially private mean and covariance, in the manner of `sklearn.covariance`.

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
    calibration : {"exact", "paper", "lsv", "renyi"}
        The calibration of a sketch; see `RandomProjection.calibrated`.
    random_state : optional
        None draws from the operating system. A seed warns: the result is then not private.
    schema : Schema, optional
        What is public about the table. Rows are then taken in units as they are, and `row_norm_bound` is that of the
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

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        row_norm_bound: float | None = None,
        method: str = "gram",
        sketch_size: int | None = None,
        adjacency: str = "add-remove",
        records: float | None = None,
        assume_centered: bool = False,
        store_precision: bool = True,
        calibration: str = "exact",
        random_state: Any = None,
        schema: Any = None,
        ledger: Any = None,
        slot: str | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.row_norm_bound = row_norm_bound
        self.method = method
        self.sketch_size = sketch_size
        self.adjacency = adjacency
        self.records = records
        self.assume_centered = assume_centered
        self.store_precision = store_precision
        self.calibration = calibration
        self.random_state = random_state
        self.schema = schema
        self.ledger = ledger
        self.slot = slot

    def _learn(self, data: Any, how: dict[str, Any]) -> PrivateCovariance:
        found = self._moments(data, how, centered=self.assume_centered)
        location, covariance = found.location, found.covariance
        schema = schema_of(self)
        if schema is not None:
            _, half_width = schema.scales()
            location = schema.decode(location)
            covariance = covariance * half_width[:, None] * half_width
        self.records_, self.location_ = found.records, location
        self._set_covariance(covariance)
        return self

    @property
    def correlation_(self) -> Floats:
        """The correlation matrix; NaN beside a column whose estimated variance is zero."""
        check_is_fitted(self)
        spread = np.sqrt(np.diagonal(self.covariance_))
        with np.errstate(all="ignore"):
            found = self.covariance_ / spread[:, None] / spread
        found = np.where(np.isfinite(found), np.clip(found, -1.0, 1.0), np.nan)
        found[np.diag_indices(len(found))] = np.where(spread > 0, 1.0, np.nan)
        return np.asarray(found, dtype=np.float64)

    def to_frame(self, kind: str = "covariance") -> Any:
        """The covariance, or the correlation, as a pandas DataFrame with the names of the columns.

        Parameters
        ----------
        kind : {"covariance", "correlation"}
        """
        check_is_fitted(self)
        if kind not in KINDS:
            raise ParameterError("kind", f"be one of {', '.join(KINDS)}", repr(kind))
        import pandas as pd

        names = list(getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)]))
        return pd.DataFrame(self.covariance_ if kind == "covariance" else self.correlation_, names, names)

    def score(self, X_test: Any, y: Any = None) -> float:
        """The log-likelihood of public rows under the released mean and covariance."""
        with _rows_without_names():
            return float(super().score(public_rows(self, X_test)))

    def mahalanobis(self, X: Any) -> Floats:
        """Squared Mahalanobis distances of public rows."""
        with _rows_without_names():
            return np.asarray(super().mahalanobis(public_rows(self, X)))


@contextmanager
def _rows_without_names() -> Iterator[None]:
    """Rows that were read by name lose their names, which scikit-learn would tell."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield
