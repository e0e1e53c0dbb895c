"""Mean and covariance from a private sketch."""

from __future__ import annotations

from typing import Any

from sklearn.covariance import EmpiricalCovariance

from ndis.learn._base import INTERCEPT_SHARE, SketchEstimator, moments, private_rows, stated_bound

__all__ = ["PrivateCovariance"]


class PrivateCovariance(SketchEstimator, EmpiricalCovariance):  # type: ignore[misc]
    """Differentially private mean and covariance, in the manner of `sklearn.covariance`.

    The rows, with a constant column, are released as one sketch (`RandomProjection`); count, mean and covariance are
    read off its unbiased Gram estimate. Everything learnt is a function of that release.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    row_norm_bound : float
        Public bound of the Euclidean norm of a row; longer rows are clipped to it. Must be stated.
    sketch_size : int, optional
        Rows of the sketch; by default 100 for every column, so that sampling adds little to the privacy noise.
    adjacency : {"add-remove", "replace-one"}
        Which data sets are neighbours. Under add/remove the number of records is private.
    records : float, optional
        The number of records, where it is public (replace-one, or published elsewhere); estimated from the sketch
        otherwise.
    assume_centered : bool
        Take the mean to be zero.
    store_precision : bool
        Keep the (pseudo-)inverse as `precision_`.
    calibration : {"exact", "paper", "lsv", "renyi"}
        See `RandomProjection.calibrated`.
    random_state : optional
        None draws from the operating system. A seed warns: the result is then not private.
    ledger : path, optional
        The `ndis.Ledger` that pays for the release. It reserves before data is read.
    slot : str, optional
        The slot of a plan in the ledger.

    Attributes
    ----------
    covariance_, location_, precision_
        As in `sklearn.covariance.EmpiricalCovariance`.
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
        sketch_size: int | None = None,
        adjacency: str = "add-remove",
        records: float | None = None,
        assume_centered: bool = False,
        store_precision: bool = True,
        calibration: str = "exact",
        random_state: Any = None,
        ledger: Any = None,
        slot: str | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.row_norm_bound = row_norm_bound
        self.sketch_size = sketch_size
        self.adjacency = adjacency
        self.records = records
        self.assume_centered = assume_centered
        self.store_precision = store_precision
        self.calibration = calibration
        self.random_state = random_state
        self.ledger = ledger
        self.slot = slot

    def fit(self, X: Any, y: Any = None) -> PrivateCovariance:
        """Release a sketch of the rows and estimate from it.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, features)
            The private rows.
        y : ignored
        """
        bound = stated_bound("row_norm_bound", self.row_norm_bound)
        records = None if self.records is None else stated_bound("records", self.records, clipped="")
        # A constant column counts the records and carries the mean; without need of either it would only cost noise.
        intercept = None if self.assume_centered and records is not None else INTERCEPT_SHARE * bound
        rows = private_rows(self, X)
        width = self.n_features_in_
        mechanism = self._calibrate(columns=width + (intercept is not None), intercept=intercept)
        release = self._keep(mechanism.release(rows, **self._how()))
        found = moments(release, features=width, records=records, centered=self.assume_centered)
        self.records_, self.location_ = found.records, found.location
        self._set_covariance(found.covariance)
        return self
