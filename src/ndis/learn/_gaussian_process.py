"""Private Gaussian process regression releases the posterior mean at public points, or a draw from it, plus noise."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils.validation import check_is_fitted

from ndis._validate import Floats, as_floats, as_size
from ndis.data import Rows
from ndis.errors import ParameterError
from ndis.learn._estimator import PrivateEstimator, Scored
from ndis.learn._labels import private_labels
from ndis.mechanisms.lifted import lift
from ndis.models import GaussianProcess


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateGaussianProcess(Scored, PrivateEstimator, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a Gaussian process with differential privacy: release the posterior at public points, plus the least noise.

    Only `fit` sees what is private. It releases z, one value per query point, by `ndis.lift` of
    `ndis.models.GaussianProcess`. `predict` reads only z: it is the best linear prediction from z under the model,
    where `max_records` records lie evenly at the query points. So it shrinks towards zero for the noise added, and for
    the spread of a draw; docs/models.md has the formula. `values_` are the released values.
    `fit_data` reads files, folders, frames or dask collections, and holds their first `max_records` records in memory.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, for records (point, label).
    kernel : callable, optional
        A scikit-learn kernel with fixed parameters, or any function of two matrices of points; public. ``RBF(1.0)`` by
        default. Parameters fitted to the data would leak them.
    noise_variance : float
        Variance of the noise of the labels in the model.
    label_bound : float
        Public bound of the labels; larger ones are clipped. Must be stated.
    prior_variance_bound : float
        Public bound of k(x, x); a record beyond it counts as no record.
    query : (q, features) array, optional
        The public points; by default the origin alone.
    max_records : int
        A public promise on the number of records; later ones are not read. Must be stated.
    point_bound : float
        Public bound of the coordinates of points; a record beyond it counts as no record.
    kernel_tolerance : float, optional
        See `ndis.models.GaussianProcess`; must be stated for kernels whose errors are not known.
    analysis : {"posterior", "prior"}
        See `ndis.models.GaussianProcess`. "posterior", the default here, never needs more noise, and mostly far less;
        "prior" reproduces the numbers of the theory. It concerns a draw only.
    release : {"mean", "draw"}
        What z is before noise: the posterior's mean, or one draw from the posterior. "mean" predicts
        better at its best `noise_variance`; docs/models.md compares them.
    bound : {"exact", "renyi", "paper"}
        See `ndis.lift`.
    random_state : optional
        None draws from the operating system. A seed warns: the result is then not private.
    schema : Schema, optional
        What is public about the table. Points and labels are then taken in original units, and `label_bound` is left
        out. The kernel sees encoded points, in which every column has the range [−1, 1]. `query` is a table like X, and
        by default the centre of all ranges. `predict` and `predict_std` are in original units; `noise_variance`,
        `values_` and `query_` are encoded.
    ledger : path, optional
        The `ndis.Ledger` that pays for the release. It reserves before data is read.
    slot : str, optional
        The slot of a plan in the ledger.

    Attributes
    ----------
    values_ : (q,) array
        What was released at the query points.
    query_ : (q, features) array
    release_, receipt_, mechanism_
        What was released, what it guarantees, and how.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-2, 2, 50).reshape(-1, 1)
    >>> model = PrivateGaussianProcess(noise_variance=25.0, label_bound=1.0, max_records=50)
    >>> model.fit(x, np.cos(x[:, 0])).predict([[0.0]]).shape
    (1,)
    """

    kernel: Any = None
    noise_variance: float = 1.0
    label_bound: float | None = None
    prior_variance_bound: float = 1.0
    query: Any = None
    max_records: int | None = None
    point_bound: float = 1e6
    kernel_tolerance: float | None = None
    analysis: str = "posterior"
    release: str = "mean"
    bound: str = "exact"

    def _check(self, *, files: bool = False) -> float:
        """Check public parameters before any private value is read, and return the bound of the labels."""
        label_bound = self._target_bound("label_bound", clipped="labels")
        if self.max_records is None:
            remedy = "state a number that the data are known not to exceed"
            raise ParameterError("max_records", "be a whole number", None, remedy)
        return label_bound

    def _given_targets(self, y: Any) -> Any:
        return private_labels(y)

    def _learn(self, rows: Rows, public: float, *, one: bool) -> None:
        """Release the model at the query points, and keep what predictions need."""
        query = self._query()
        same = ("noise_variance", "prior_variance_bound", "point_bound", "kernel_tolerance", "analysis", "release")
        stated: dict[str, Any] = {name: getattr(self, name) for name in same}
        most, kernel = as_size("max_records", self.max_records), RBF(1.0) if self.kernel is None else self.kernel
        model = GaussianProcess(kernel=kernel, label_bound=public, query=query, max_records=most, **stated)
        mechanism = lift(model, epsilon=self.epsilon, delta=self.delta, bound=self.bound)  # type: ignore[arg-type]
        self._keep(mechanism, lambda: mechanism.release(rows.arrays(most=most), random_state=self.random_state))
        self.query_: Floats = model.query
        self.values_: Floats = np.asarray(self.release_.values, dtype=np.float64).reshape(len(query))
        noise = mechanism.noise_variance
        self.weights_: Floats = prediction_weights(model, self.values_, noise_variance=noise)
        self.explained_: Floats = explained_root(model, noise_variance=noise)
        self.kernel_ = copy.deepcopy(model.kernel)

    def _query(self) -> Floats:
        """Return the query points, encoded; the origin unless they are stated."""
        schema = self._schema()
        if self.query is None:
            return np.zeros((1, self.n_features_in_))
        query = as_floats("query", self.query) if schema is None else schema.encode(self.query)
        if query.ndim != 2 or query.shape[1] != self.n_features_in_ or not np.isfinite(query).all():
            raise ParameterError("query", f"have {self.n_features_in_} columns, like X", f"shape {query.shape}")
        return query

    def predict(self, X: Any) -> Floats:
        """Return the posterior mean given the released values only; NaN where a row has NaN."""
        check_is_fitted(self)
        centre, scale = self._label_units()
        return np.asarray(self.kernel_(self._dense_rows(X, encoded=True), self.query_) @ self.weights_ * scale + centre)

    def predict_std(self, X: Any) -> Floats:
        """Return the standard deviation of the function around `predict`, given the released values only.

        It holds under the model of `predict`: a draw from the prior, and `max_records` records evenly at the query
        points. It counts the spread of the prior far from the query, the noise of the labels, and the noise added.
        """
        check_is_fitted(self)
        _, scale = self._label_units()
        points = self._dense_rows(X, encoded=True)
        if hasattr(self.kernel_, "diag"):
            prior = np.asarray(self.kernel_.diag(points), dtype=np.float64)
        else:
            prior = np.array([self.kernel_(point[None], point[None])[0, 0] for point in points], dtype=np.float64)
        explained = np.asarray(self.kernel_(points, self.query_)) @ self.explained_
        return np.asarray(np.sqrt(np.maximum(prior - (explained**2).sum(axis=1), 0.0)) * scale)

    def _label_units(self) -> tuple[float, float]:
        schema = self._schema()
        return (0.0, 1.0) if schema is None else schema.target_scale()


def prediction_weights(model: GaussianProcess, values: Floats, *, noise_variance: float) -> Floats:
    """Return the weights a of the best linear prediction k(x, Q)a from the released values.

    Let n records lie evenly at q query points, and let τ = qσ²/n. Let k be the eigenvalues of K = k(Q, Q). In its
    eigenbasis the mean μ has the variances G = k²/(k+τ) before noise, and Cov(f, z) = G. A draw z has the
    variance k + v, a mean G + v:

        draw    a = k/((k+τ)(k+v)) z,        mean    a = k/(k² + v(k+τ)) z.

    >>> one = GaussianProcess(
    ...     kernel=RBF(1.0), noise_variance=2.0, label_bound=1.0, prior_variance_bound=1.0, query=[[0.0]],
    ...     max_records=2, release="draw",
    ... )
    >>> prediction_weights(one, np.array([1.0]), noise_variance=0.25)  # half of it is spread, a fifth is noise
    array([0.4])
    """
    k, basis, tau = _spectrum(model)
    below = (k + tau) * (k + noise_variance) if model.release == "draw" else k * k + noise_variance * (k + tau)
    return np.asarray(basis @ (k / below * (basis.T @ values)), dtype=np.float64)


def explained_root(model: GaussianProcess, *, noise_variance: float) -> Floats:
    """Return a matrix B such that the released values explain the variance ‖Bᵀk(Q, x)‖² of f(x).

    Cov(f(x), z) = k(x, Q)K⁻¹G, so they explain k(x, Q)·K⁻¹G·Var(z)⁻¹·GK⁻¹·k(Q, x). In the eigenbasis of K, K⁻¹G is
    k/(k+τ), and Var(z) is k + v for a draw, G + v for a mean, as in `prediction_weights`.

    >>> one = GaussianProcess(
    ...     kernel=RBF(1.0), noise_variance=2.0, label_bound=1.0, prior_variance_bound=1.0, query=[[0.0]],
    ...     max_records=2, release="draw",
    ... )
    >>> (explained_root(one, noise_variance=0.25) ** 2).round(12)  # (1/2)²/(5/4)
    array([[0.2]])
    """
    k, basis, tau = _spectrum(model)
    variance = (k if model.release == "draw" else k * k / (k + tau)) + noise_variance
    return np.asarray(basis * (k / (k + tau) / np.sqrt(variance)), dtype=np.float64)


def _spectrum(model: GaussianProcess) -> tuple[Floats, Floats, float]:
    """Return eigenvalues and eigenvectors of k(Q, Q), and τ."""
    k, basis = np.linalg.eigh(np.asarray(model.kernel(model.query, model.query), dtype=np.float64))
    return np.maximum(k, 0.0), basis, len(k) * model.noise_variance / model.max_records
