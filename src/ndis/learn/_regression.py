"""Linear regression from one noisy Gram matrix and rounds of noisy residual products."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ndis.data.source import Groups
from ndis.errors import ParameterError
from ndis.gram.sums import RecordSums
from ndis.learn._base import INTERCEPT_SHARE, Floats, stated_bound, weighted_records
from ndis.learn._inference import CoefficientTable
from ndis.learn._linear import LinearPredictor
from ndis.learn._releases import RoundsEstimator
from ndis.learn._rounds import LinearFit, LinearReleases, calibrated_rounds, fit_rounds
from ndis.learn._tables import changed_count, one_of
from ndis.noise.bits import random_bits

__all__ = ["PrivateLinearRegression"]

METHODS = ("rounds", "gram")
KINDS = ("mean", "observation")


class _Bounds(NamedTuple):
    """Public numbers of a fit: bounds of rows and targets, and the constant column, if there is one."""

    row: float
    target: float
    constant: float | None
    rounds: int


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearRegression(LinearPredictor, RoundsEstimator):
    """Differentially private linear regression with little error, and with intervals.

    One noisy Gram matrix is released, and then, in a few rounds, sums of clipped residual products at the solution so
    far. The clip follows the residuals as they get smaller, and so does the noise. All rounds are combined by empirical
    Bayes: the ridge penalty is chosen from what was released. If the data show no signal, predictions are the centre.

    `fit_data` reads files, folders, frames or dask collections once for the matrix and once per round. A list as its
    `target` names several targets.

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
    baseline_ : dict
        With a schema and an intercept: the value that the others of each category are compared with.
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

    target_bound: float | None = None
    method: str = "rounds"
    weight_bound: float | None = None
    count_clipped: bool = False

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
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
        rows, targets, one = self._records_in_memory(X, y)
        changed = partial(changed_count, self, X, y) if self.count_clipped else None
        if weight is None:
            return self._learn(_sums((rows, targets), bounds), bounds, one=one, changed=changed)
        weighted = weighted_records(rows, targets, sample_weight, bound=weight, constant=bounds.constant)
        root = math.sqrt(weight)
        wide = math.hypot(bounds.row, bounds.constant or 0.0) * root
        sums = RecordSums(weighted, row_norm_bound=wide, target_bound=bounds.target * root)
        return self._learn(sums, bounds, one=one, weight=weight, changed=changed)

    def _learn_opened(
        self, opened: Any, groups: Groups, bounds: _Bounds, *, data: Any = None, target: Any = None, **how: Any
    ) -> Self:
        sums = _sums(opened, bounds, columns=groups[0], targets=groups[1])
        changed = partial(changed_count, self, data, None, **how) if self.count_clipped else None
        return self._learn(sums, bounds, one=not isinstance(target, list | tuple), changed=changed)

    def _check(self, *, files: bool = False) -> _Bounds:
        """Check public parameters before any private value is read."""
        row, target = self._row_bound(), self._target_bound()
        self.__dict__.pop("clipped_rows_", None)  # of an earlier fit
        one_of("method", self.method, METHODS)
        if self.count_clipped and self.schema is None:
            raise ParameterError("count_clipped", "come with a schema", "no schema")
        several = self.method == "rounds"
        rounds = self._checked_rounds(several=several)
        constant = INTERCEPT_SHARE * row if self.fit_intercept else None
        return _Bounds(row, target, constant, rounds if several else 1)

    @property
    def _against_first_category(self) -> bool:
        """Beside a constant, the columns of a category are collinear. So its values are compared with the first one."""
        return bool(self.fit_intercept)

    def _matrix_noise(self) -> float:
        one_of("method", self.method, METHODS)
        rounds = self._checked_rounds() if self.method == "rounds" else 1
        budget = calibrated_rounds(**self._public(), rounds=rounds, clipped=bool(self.count_clipped))
        return budget.gram_noise(1 + Fraction(INTERCEPT_SHARE if self.fit_intercept else 0.0) ** 2)

    def _learn(
        self,
        sums: RecordSums,
        bounds: _Bounds,
        *,
        one: bool,
        weight: float | None = None,
        changed: Callable[[], int] | None = None,
    ) -> Self:
        scale = 1.0 if weight is None else math.sqrt(weight)
        budget = calibrated_rounds(**self._public(), rounds=bounds.rounds, clipped=changed is not None)
        releases = LinearReleases(
            sums,
            budget,
            random_bits(self.random_state),
            term_unit=bounds.target * scale,
            constant=bounds.constant is not None,
        )

        def fit(releases: LinearReleases) -> LinearFit:
            if changed is not None:
                self.clipped_rows_ = releases.clipped(changed())
            return fit_rounds(releases, rounds=bounds.rounds)

        found = self._release(
            releases,
            fit,
            row_norm_bound=bounds.row,
            target_bound=bounds.target,
            intercept=bounds.constant,
            weight_bound=weight,
        )
        self._set_fit(found, sums, bounds, one=one, scale=scale)
        return self

    def _set_fit(self, found: LinearFit, sums: RecordSums, bounds: _Bounds, *, one: bool, scale: float) -> None:
        """Keep results in the units of the data."""
        width = bounds.target * scale
        units = self._unit_map(len(found.theta), unit=width / sums.layout.row_norm_bound, constant=bounds.constant)
        self._set_coefficients(found.theta, units, one=one)
        schema = self._schema()
        if schema is not None:
            width *= schema.target_scale()[1]
        self.estimate_ = found.estimate.in_units(units, width=width)
        self.records_ = self.estimate_.records
        deviations = np.sqrt(self.estimate_.residual_variance)
        self.residual_std_ = float(deviations[0]) if one else deviations

    # ------------------------------------------------------------------ what was learnt

    @property
    def _one_output(self) -> bool:
        return self.coef_.ndim == 1

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
        one_of("kind", kind, KINDS)
        found = self.estimate_.predicted(self._dense_rows(X), level, residuals=kind == "observation")
        return found[:, 0] if self._one_output else found

    def summary(self, level: float = 0.95) -> CoefficientTable:
        """A table of coefficients, standard errors and intervals, in the units of the data."""
        check_is_fitted(self)
        residual = ", ".join(f"{x:.4g}" for x in np.sqrt(self.estimate_.residual_variance))
        counted = getattr(self, "clipped_rows_", None)
        clipped = "" if counted is None else f"; about {max(counted, 0):.3g} rows clipped"
        note = f"about {max(self.records_, 0):.3g} records; standard deviation of residuals {residual}{clipped}"
        return self._summary("Private linear regression", level, note)


def _sums(data: Any, bounds: _Bounds, **where: Any) -> RecordSums:
    return RecordSums(data, row_norm_bound=bounds.row, target_bound=bounds.target, intercept=bounds.constant, **where)
