"""Linear regression from a private sketch of rows, targets and a constant."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ndis._validate import as_not_negative
from ndis.data.dask import is_dask, open_dask
from ndis.data.opening import open_source
from ndis.data.source import Groups, Parts, Source, choose_columns
from ndis.errors import ParameterError
from ndis.learn._base import INTERCEPT_SHARE, Floats
from ndis.learn._solve import ridge_from_matrix
from ndis.learn._tables import SketchEstimator, TargetEstimator

__all__ = ["TARGET_SHARE", "LinearPredictor", "PrivateRidge"]

# Targets are scaled so that their bound is this multiple of `row_norm_bound`, whatever their unit. The noise is the
# same in every column. So a target with a far larger bound would drown the rows, and one with a far smaller bound would
# drown itself. Between 0.4 and 1 the errors measured on real data hardly change.
TARGET_SHARE = 0.75


class LinearPredictor(MultiOutputMixin, RegressorMixin, TargetEstimator):  # type: ignore[misc]
    """Base of the linear regressions: targets in memory, and predictions in the units of the data."""

    def _records_in_memory(self, X: Any, y: Any) -> tuple[Any, Floats, bool]:
        """Rows, targets as columns, and whether there is one target without a second dimension."""
        rows, targets = self._fitted_rows(X), self._fitted_targets(X, y)
        one = targets.ndim == 1
        return rows, targets[:, None] if one else targets, one

    def _set_coefficients(self, theta: Floats, units: tuple[Floats, Floats], *, one: bool) -> None:
        slopes, offsets = self._coefficients(theta, units)
        self.coef_: Floats = slopes[0] if one else slopes
        self.intercept_ = float(offsets[0]) if one else offsets

    def predict(self, X: Any) -> Floats:
        """Predict the targets of rows; NaN if a row has NaN."""
        check_is_fitted(self)
        return np.asarray(self._public_rows(X) @ self.coef_.T + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on the few rows of a check, noise outweighs the data
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRidge(LinearPredictor, SketchEstimator):
    """Differentially private least squares and ridge regression, from one sketch of [X, y, 1].

    The estimator releases the rows, the targets and a constant as one sketch (`RandomProjection`). It solves the normal
    equations with the unbiased Gram estimate of the sketch. Noise may make this estimate indefinite. So the penalty is
    `alpha`, or the least one that lifts the smallest eigenvalue to the noise level if that is larger (see
    `ridge_from_gram`). `fit_data` reads files, folders, frames or dask collections in one pass, with
    one target column.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, for records (row, target).
    row_norm_bound : float
        Public bound of the Euclidean norm of a row; longer rows are clipped to it. Must be stated.
    target_bound : float
        Public bound of the absolute value of a target (of the Euclidean norm, for several targets); larger ones are
        clipped. Must be stated.
    alpha : float
        Penalty on the squared coefficients, as in `sklearn.linear_model.Ridge`; 0 is least squares.
    fit_intercept : bool
        Release a constant column too, and learn an intercept. It bears the noise penalty like a coefficient: if a
        public centre of the targets is known, subtract it first.
    sketch_size : int, optional
        Rows of the sketch, r. With many records, coefficients are as noisy as least squares on r rows, and time is in
        proportion to r: about 15 µs per entry. By default a sketch of 2¹⁶ entries, a second or two, and at least 100
        rows per column. If `records` is stated: as many rows as there are records, if they serve, up to 2¹⁸ entries.
    records : int, optional
        The number of records, if it is public. It is used only for the default sketch size.
    adjacency : {"add-remove", "replace-one"}
        Which data sets are neighbours.
    calibration : {"exact", "paper", "lsv", "renyi"}
        See `RandomProjection.calibrated`.
    random_state : optional
        None draws from the operating system. A seed warns: the result is then not private.
    schema : Schema, optional
        What is public about the table. Rows are then taken in units as they are. `row_norm_bound` is that of the
        schema unless a smaller one is stated, and `target_bound` is left out. `coef_` and `intercept_` are in
        original units, and `predict` takes rows in these units.
    ledger : path, optional
        The `ndis.Ledger` that pays for the release. It reserves before data is read.
    slot : str, optional
        The slot of a plan in the ledger.

    Attributes
    ----------
    coef_ : (features,) or (targets, features) array
    intercept_ : float or (targets,) array
    penalty_ : float
        The penalty used, at least `alpha`.
    release_, receipt_, mechanism_
        What was released (in units in which targets have the bound 0.75·row_norm_bound), what it guarantees, and how.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, size=(20_000, 2))
    >>> y = 100 * x[:, 0] + rng.normal(size=20_000)
    >>> model = PrivateRidge(epsilon=2.0, delta=1e-6, row_norm_bound=1.5, target_bound=100.0).fit(x, y)
    >>> model.score(x, y) > 0.9
    True
    >>> PrivateRidge(epsilon=1.0, delta=1e-6).fit(x, y)
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: row_norm_bound must be a positive number; got None; state what is known without looking
    at the data (a bound taken from the data would leak it), and rows beyond it are clipped; or state schema=
    (--schema), an ndis.Schema with the ranges and categories of a table
    """

    target_bound: float | None = None
    alpha: float = 0.0
    fit_intercept: bool = True

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release a sketch of rows and targets, and solve with it.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, features)
            The private rows.
        y : array of shape (n,) or (n, targets)
            The private targets. With a schema it may be left out if X has the target among its columns.
        """
        scale = self._check()
        rows, targets, one = self._records_in_memory(X, y)
        source = open_source((rows, targets))
        return self._learn(source, choose_columns(source, None, None), scale=scale, one=one)

    def _learn_opened(self, opened: Any, groups: Groups, bounds: float, **given: Any) -> Self:
        if len(groups[1]) != 1:
            raise ParameterError("target", "name one column", f"{len(groups[1])} columns")
        source = open_dask(opened)[0] if is_dask(opened) else opened
        return self._learn(source, groups, scale=bounds, one=True, progress=given["progress"])

    def _check(self, *, files: bool = False) -> float:
        """Check the public parameters before any private value is read, and return the scale of the targets."""
        scale = TARGET_SHARE * self._row_bound() / self._target_bound()
        if not 0 < scale < math.inf:
            raise ParameterError("target_bound", "be comparable with row_norm_bound", self.target_bound)
        as_not_negative("alpha", self.alpha)
        self._records()
        return scale

    def _learn(self, source: Source, groups: Groups, *, scale: float, one: bool, progress: bool | None = None) -> Self:
        bound = self._row_bound()
        features, targets = len(groups[0]), len(groups[1])
        intercept = INTERCEPT_SHARE * bound if self.fit_intercept else None
        mechanism = self._calibrate(
            columns=features + targets + (intercept is not None),
            row_norm_bound=bound,
            target_bound=TARGET_SHARE * bound,
            intercept=intercept,
        )
        scaled = _scaled(source, groups, scale)
        release = self._keep(mechanism, mechanism.release(scaled, progress=progress, **self._how()))
        weights, self.penalty_ = ridge_from_matrix(
            release.gram(),
            features=features,
            targets=targets,
            alpha=float(self.alpha),
            noise=release.ridge / math.sqrt(len(release.sketch)),
        )
        units = self._unit_map(len(weights), unit=1.0 / scale, constant=intercept)
        self._set_coefficients(weights, units, one=one)
        return self


def _scaled(source: Source, groups: Groups, scale: float) -> Source:
    """The chosen features, and the chosen targets times a public number, as a source of their own."""

    def read(_: Groups) -> Iterator[Parts]:
        for rows, values in source.read(groups):
            with np.errstate(all="ignore"):  # a warning would reveal something about the values
                scaled = np.asarray(values, dtype=np.float64) * scale
            yield rows, scaled

    names = tuple(source.names[i] for group in groups for i in group) if source.names else ()
    return Source(sum(map(len, groups)), read, names, target_width=len(groups[1]), device=source.device)
