"""Linear regression from one noisy Gram matrix and rounds of noisy residual products."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ndis._validate import as_scalar, as_size
from ndis.errors import ParameterError
from ndis.gram.sums import RecordSums
from ndis.learn._base import INTERCEPT_SHARE, Floats, stated_bound
from ndis.learn._rounds import LinearFit, LinearReleases, calibrated_rounds, fit_rounds
from ndis.learn._summary import CoefficientTable
from ndis.learn._tables import (
    changed_count,
    fitted_rows,
    fitted_targets,
    opened_data,
    public_rows,
    row_bound,
    schema_of,
    target_bound,
    units_map,
)
from ndis.learn._weights import weighted_records
from ndis.ledger.charging import charged
from ndis.mechanisms.base import as_adjacency
from ndis.sampling.bits import random_bits

__all__ = ["PrivateLinearRegression"]

METHODS = ("rounds", "gram")
KINDS = ("mean", "observation")


@dataclass(frozen=True)
class _Bounds:
    """Public numbers of a fit: bounds of rows and targets, and the constant column, if there is one."""

    row: float
    target: float
    constant: float | None
    rounds: int


class PrivateLinearRegression(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Differentially private linear regression with little error, and with intervals.

    One noisy Gram matrix is released, and then, in a few rounds, sums of clipped residual products at the solution so
    far. The clip follows the residuals as they get smaller, and so does the noise. All rounds are combined by empirical
    Bayes: the ridge penalty is chosen from what was released. If the data show no signal, predictions are the centre.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, for records (row, target), for all releases together.
    row_norm_bound : float
        Public bound of the Euclidean norm of a row; longer rows are clipped to it. Must be stated.
    target_bound : float
        Public bound of the absolute value of a target (of the Euclidean norm, for several targets); larger ones are
        clipped. Must be stated.
    fit_intercept : bool
        Append a constant column and learn an intercept, which is not shrunk.
    adjacency : {"add-remove", "replace-one"}
        Which data sets are neighbours.
    method : {"rounds", "gram"}
        "gram" makes one round without a clip: one pass for the matrix, one for its product with the targets.
    rounds : int
        Passes over the data beside the one for the Gram matrix. There is no need to tune it: 8 was best or near the
        best on every data set tried.
    weight_bound : float, optional
        Public bound of sample weights, if there are any; larger ones are clipped.
    random_state : optional
        None draws from the operating system. A seed warns: the result is then not private.
    schema : Schema, optional
        What is public about the table. Rows are then taken in units as they are. `row_norm_bound` is that of the
        schema unless a smaller one is stated, and `target_bound` is left out. Coefficients, errors and intervals are in
        original units, and rows to predict are taken in these units. With an intercept, the first value of a category
        is the one that the others are compared with, and has no coefficient.
    count_clipped : bool
        With a schema: release the number of rows that it clips or otherwise changes as well, with noise and from the
        same budget. Many such rows say that the ranges are too narrow. It costs one more pass.
    ledger : path, optional
        The `ndis.Ledger` that pays for all releases of a fit together. It reserves before data is read.
    slot : str, optional
        The slot of a plan in the ledger.

    Attributes
    ----------
    coef_ : (features,) or (targets, features) array
        Shrunk: for predictions.
    intercept_ : float or (targets,) array
    estimate_ : Unshrunk
        Without shrinkage, with its covariance, in the units of the data; the intercept is last. For intervals.
    records_ : float
        The estimated number of records.
    clipped_rows_ : float
        The noisy number of rows that the schema changes, with `count_clipped`.
    residual_std_ : float or (targets,) array
    profile_ : PrivacyProfile
        The certified guarantee of all releases together, at every ε.
    receipt_, mechanism_
        What is guaranteed, with the noise of every release; and the budget, a `GaussianRounds`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, size=(20_000, 2))
    >>> y = 10 * x[:, 0] + rng.normal(size=20_000)
    >>> model = PrivateLinearRegression(epsilon=1.0, delta=1e-6, row_norm_bound=1.5, target_bound=15.0).fit(x, y)
    >>> model.score(x, y) > 0.95
    True
    >>> low, high = model.coef_interval(0.9999)[0]
    >>> bool(low < 10 < high), bool(high - low < 2)
    (True, True)
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        row_norm_bound: float | None = None,
        target_bound: float | None = None,
        fit_intercept: bool = True,
        adjacency: str = "add-remove",
        method: str = "rounds",
        rounds: int = 8,
        weight_bound: float | None = None,
        random_state: Any = None,
        schema: Any = None,
        count_clipped: bool = False,
        ledger: Any = None,
        slot: str | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.row_norm_bound = row_norm_bound
        self.target_bound = target_bound
        self.fit_intercept = fit_intercept
        self.adjacency = adjacency
        self.method = method
        self.rounds = rounds
        self.weight_bound = weight_bound
        self.random_state = random_state
        self.schema = schema
        self.count_clipped = count_clipped
        self.ledger = ledger
        self.slot = slot

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> PrivateLinearRegression:
        """Make all releases, and solve.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, features)
            The private rows.
        y : array of shape (n,) or (n, targets)
            The private targets. With a schema it may be left out if X has the target among its columns.
        sample_weight : array of shape (n,), optional
            Private weights, up to `weight_bound`. Row and target are multiplied by the root of their weight, and the
            bounds by the root of `weight_bound`. A record whose weight is not positive counts as no record.
        """
        bounds = self._check()
        weight = None if sample_weight is None else stated_bound("weight_bound", self.weight_bound, clipped="weights")
        rows, targets = fitted_rows(self, X), fitted_targets(self, X, y)
        one = targets.ndim == 1
        columns = targets[:, None] if one else targets
        changed = partial(changed_count, self, X, y) if self.count_clipped else None
        if weight is None:
            sums = RecordSums(
                (rows, columns), row_norm_bound=bounds.row, target_bound=bounds.target, intercept=bounds.constant
            )
            return self._learn(sums, bounds, one=one, changed=changed)
        weighted = weighted_records(rows, columns, sample_weight, bound=weight, constant=bounds.constant)
        root = math.sqrt(weight)
        wide = math.hypot(bounds.row, bounds.constant or 0.0) * root
        sums = RecordSums(weighted, row_norm_bound=wide, target_bound=bounds.target * root)
        return self._learn(sums, bounds, one=one, weight=weight, changed=changed)

    def fit_data(
        self,
        data: Any,
        *,
        target: Any = None,
        columns: Any = None,
        header: bool = False,
        progress: bool | None = None,
    ) -> PrivateLinearRegression:
        """The same from files, folders, frames or dask collections, read once for the matrix and once per round.

        Parameters
        ----------
        data : path, list of paths, data frame, Arrow table, dask collection or array
            The private records; a folder is read file by file, with bounded memory.
        target : str, int or list of them
            The target column or columns; left out with a schema, which names its target.
        columns : names or numbers, optional
            The feature columns; by default all but the target. For CSV files without a header: the names of all
            columns, from left to right, with None for a column that is not read.
        header : bool
            The first line of every CSV file holds names, which are public. Without it every line is a record.
        progress : bool, optional
            Show a progress bar for files; by default when standard error is a terminal.
        """
        bounds = self._check()
        opened, groups = opened_data(
            self, data, target=target, columns=columns, header=header, progress=progress, with_target=True
        )
        sums = RecordSums(
            opened,
            row_norm_bound=bounds.row,
            target_bound=bounds.target,
            intercept=bounds.constant,
            columns=groups[0],
            targets=groups[1],
        )
        how = {"columns": columns, "header": header, "progress": progress}
        changed = partial(changed_count, self, data, None, **how) if self.count_clipped else None
        return self._learn(sums, bounds, one=not isinstance(target, list | tuple), changed=changed)

    def _check(self) -> _Bounds:
        """Check public parameters before any private value is read."""
        row, target = row_bound(self), target_bound(self)
        if hasattr(self, "clipped_rows_"):  # of an earlier fit
            del self.clipped_rows_
        if self.method not in METHODS:
            raise ParameterError("method", f"be one of {', '.join(METHODS)}", repr(self.method))
        if self.count_clipped and self.schema is None:
            raise ParameterError("count_clipped", "come with a schema", "no schema")
        rounds = as_size("rounds", self.rounds)
        if self.method == "rounds" and not 2 <= rounds <= 100:
            raise ParameterError("rounds", "be from 2 to 100", rounds)
        constant = INTERCEPT_SHARE * row if self.fit_intercept else None
        return _Bounds(row, target, constant, rounds if self.method == "rounds" else 1)

    @property
    def _against_first_category(self) -> bool:
        """Beside a constant, the columns of a category are collinear. So its values are compared with the first one."""
        return bool(self.fit_intercept)

    def _learn(
        self,
        sums: RecordSums,
        bounds: _Bounds,
        *,
        one: bool,
        weight: float | None = None,
        changed: Callable[[], int] | None = None,
    ) -> PrivateLinearRegression:
        scale = 1.0 if weight is None else math.sqrt(weight)
        budget = calibrated_rounds(
            epsilon=as_scalar("epsilon", self.epsilon),
            delta=as_scalar("delta", self.delta),
            adjacency=as_adjacency(self.adjacency),
            rounds=bounds.rounds,
            clipped=changed is not None,
        )
        constant = bounds.constant is not None
        bits = random_bits(self.random_state)
        releases = LinearReleases(sums, budget, bits, term_unit=bounds.target * scale, constant=constant)
        with charged(budget, ledger=self.ledger, slot=self.slot, private=bits.private) as charge:
            if changed is not None:
                self.clipped_rows_ = releases.clipped(changed())
            found = fit_rounds(releases, rounds=bounds.rounds)
            receipt = releases.receipt(
                charge.seal(),
                row_norm_bound=bounds.row,
                target_bound=bounds.target,
                intercept=bounds.constant,
                weight_bound=weight,
            )
        self.mechanism_, self.profile_, self.receipt_ = budget, budget.profile(), receipt
        self._keep(found, sums, bounds, one=one, scale=scale)
        return self

    def _keep(self, found: LinearFit, sums: RecordSums, bounds: _Bounds, *, one: bool, scale: float) -> None:
        """Results in the units of the data."""
        unit = bounds.target * scale / sums.layout.row_norm_bound
        factors = np.full(len(found.theta), unit)
        if bounds.constant is not None:
            factors[-1] *= bounds.constant
        theta, width, units = found.theta * factors[:, None], bounds.target * scale, None
        schema = schema_of(self)
        if schema is not None:
            units = units_map(self, constant=bounds.constant is not None)
            theta = units[0] @ theta + units[1][:, None]
            width *= schema.target_scale()[1]
        slopes = theta[: self.n_features_in_].T
        offsets = theta[-1] if len(theta) > self.n_features_in_ else np.zeros(theta.shape[1])
        self.coef_: Floats = slopes[0] if one else slopes
        self.intercept_ = float(offsets[0]) if one else offsets
        self.estimate_ = found.estimate.in_units(factors, units, width=width)
        self.records_ = self.estimate_.records
        deviations = np.sqrt(self.estimate_.residual_variance)
        self.residual_std_ = float(deviations[0]) if one else deviations

    # ------------------------------------------------------------------ what was learnt

    def predict(self, X: Any) -> Floats:
        """Predict the targets of rows; NaN where a row has NaN."""
        check_is_fitted(self)
        rows = public_rows(self, X)
        return np.asarray(rows @ self.coef_.T + self.intercept_)

    def coef_interval(self, level: float = 0.95) -> Floats:
        """Confidence intervals of the coefficients of the population, intercept left out.

        They are around the estimate without shrinkage and count the noise of privacy and of sampling. The sampling
        noise is that of errors of equal variance. They are infinite where the noise hides a direction of the features.

        Returns
        -------
        (features, 2) array, or (targets, features, 2)
        """
        check_is_fitted(self)
        found = self.estimate_.interval(self.n_features_in_, level)
        return found[0] if self.coef_.ndim == 1 else found

    def predict_interval(self, X: Any, level: float = 0.95, *, kind: str = "mean") -> Floats:
        """Intervals for rows: of the mean of the target, or of a new observation.

        Parameters
        ----------
        X : (n, features) array
        level : float
        kind : {"mean", "observation"}
            "mean": where xᵀβ is. "observation": where a new target at x is, for normal errors of equal variance.

        Returns
        -------
        (n, 2) array, or (n, targets, 2)
        """
        check_is_fitted(self)
        if kind not in KINDS:
            raise ParameterError("kind", f"be one of {', '.join(KINDS)}", repr(kind))
        found = self.estimate_.predicted(public_rows(self, X), level, residuals=kind == "observation")
        return found[:, 0] if self.coef_.ndim == 1 else found

    def summary(self, level: float = 0.95) -> CoefficientTable:
        """A table of coefficients, standard errors and intervals, in the units of the data."""
        check_is_fitted(self)
        features = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        intercept = len(self.estimate_.theta) > self.n_features_in_
        names = [*map(str, features), *(["(intercept)"] if intercept else [])]
        targets = self.estimate_.theta.shape[1]
        shrunk = np.atleast_2d(self.coef_)
        if intercept:
            shrunk = np.hstack([shrunk, np.atleast_1d(self.intercept_)[:, None]])
        labels = names if targets == 1 else [f"y{t}: {name}" for t in range(targets) for name in names]
        residual = ", ".join(f"{x:.4g}" for x in np.sqrt(self.estimate_.residual_variance))
        counted = getattr(self, "clipped_rows_", None)
        clipped = "" if counted is None else f"; about {max(counted, 0):.3g} rows clipped"
        notes = (
            f"about {max(self.records_, 0):.3g} records; standard deviation of residuals {residual}{clipped}",
            f"({self.receipt_.epsilon:g}, {self.receipt_.delta:g})-differentially private, {self.receipt_.adjacency}; "
            "errors count the noise of privacy and of sampling",
            "estimate: without shrinkage, for inference; shrunk: for predictions",
        )
        return CoefficientTable(
            "Private linear regression",
            tuple(labels),
            self.estimate_.theta.T.ravel(),
            self.estimate_.errors().ravel(),
            shrunk.ravel(),
            float(level),
            notes,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # a row with a non-finite entry counts as no record: an error would leak it
        tags.input_tags.sparse = True
        tags.regressor_tags.poor_score = True  # on the few rows of a check, noise outweighs the data
        return tags
