"""Mean and covariance from one private release."""

from __future__ import annotations

from typing import Any

from sklearn.covariance import EmpiricalCovariance

from ndis.learn._moments import MomentEstimator

__all__ = ["PrivateCovariance"]


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
        Rows of a sketch; by default 100 per column, so that sampling adds little to the privacy noise.
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
        method: str = "gram",
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
        self.method = method
        self.sketch_size = sketch_size
        self.adjacency = adjacency
        self.records = records
        self.assume_centered = assume_centered
        self.store_precision = store_precision
        self.calibration = calibration
        self.random_state = random_state
        self.ledger = ledger
        self.slot = slot

    def _learn(self, data: Any, how: dict[str, Any]) -> PrivateCovariance:
        found = self._moments(data, how, centered=self.assume_centered)
        self.records_, self.location_ = found.records, found.location
        self._set_covariance(found.covariance)
        return self
