"""Least squares and ridge regression are solved from one private sketch of rows, targets and a constant."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin

from ndis._validate import Floats, as_adjacency, as_not_negative, as_size, require
from ndis.data import Rows, Table
from ndis.data.table import Groups, Parts
from ndis.errors import ParameterError
from ndis.learn._estimator import PrivateEstimator, Scored, calibrated, stated_bound
from ndis.learn._releases import INTERCEPT_SHARE
from ndis.mechanisms.gram import GramRelease
from ndis.mechanisms.projection import RandomProjection, default_sketch_size
from ndis.mechanisms.releases import ProjectionRelease

# Targets are scaled so that their bound is this multiple of `row_norm_bound`, whatever their unit. The noise is the
# same in every column. So a target with a far larger bound would drown the rows, and one with a far smaller bound would
# drown itself. Between 0.4 and 1 the errors measured on real data hardly change.
TARGET_SHARE = 0.75


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRidge(Scored, PrivateEstimator, MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit least squares or ridge regression with differential privacy, from one sketch of [X, y, 1].

    The estimator releases the rows, the targets and a constant as one sketch (`RandomProjection`). It solves the normal
    equations with the unbiased Gram estimate of the sketch. Noise may make this estimate indefinite. So the penalty is
    `alpha`, or the least one that lifts the smallest eigenvalue to the noise level if that is larger (see
    `ridge_from_gram`). `fit_data` reads files, folders, frames or dask collections in one pass.

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
    random_state : optional
        None draws from the operating system. A seed warns: the result is then not private.
    schema : Schema, optional
        What is public about the table. Rows are then taken in original units. `row_norm_bound` is that of the
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
    >>> model.score(x, y, public=True) > 0.9
    True
    >>> PrivateRidge(epsilon=1.0, delta=1e-6).fit(x, y)
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: row_norm_bound must be a positive number; got None; state what is known without looking
    at the data (a bound taken from the data would leak it), and rows beyond it are clipped; or state schema=
    (--schema), an ndis.Schema with the ranges and categories of a table
    """

    row_norm_bound: float | None = None
    target_bound: float | None = None
    alpha: float = 0.0
    fit_intercept: bool = True
    sketch_size: int | None = None
    records: float | None = None
    adjacency: str = "add-remove"

    def _check(self, *, files: bool = False) -> float:
        """Check the public parameters before any private value is read, and return the scale of the targets."""
        scale = TARGET_SHARE * self._row_bound() / self._target_bound()
        as_not_negative("alpha", self.alpha)
        stated_records(self)
        return scale

    def _learn(self, rows: Rows, public: float, *, one: bool) -> None:
        """Release one sketch of rows and targets, and solve the ridge regression in it."""
        bound = self._row_bound()
        features, targets = rows.widths
        intercept = INTERCEPT_SHARE * bound if self.fit_intercept else None
        layout = {"row_norm_bound": bound, "target_bound": TARGET_SHARE * bound, "intercept": intercept}
        mechanism = sketching(self, columns=features + targets + (intercept is not None), **layout)
        scaled = _scaled(rows, public)
        release = self._keep(mechanism, lambda: mechanism.release(scaled, random_state=self.random_state))
        noise = release.ridge / math.sqrt(len(release.sketch))
        split = {"features": features, "targets": targets}
        weights, self.penalty_ = ridge_from_matrix(release.gram(), **split, alpha=float(self.alpha), noise=noise)
        units = self._in_units(np.diag(np.append(np.ones(features), intercept or [])) / public)
        self.coef_, self.intercept_ = self._coefficients(weights, units, one=one)

    def predict(self, X: Any) -> Floats:
        """Predict the targets of rows; NaN if a row has NaN."""
        return self._linear_scores(X)


def stated_records(estimator: Any) -> float | None:
    """Return the public number of records that an estimator was given, checked; None if there is none."""
    records = None if estimator.records is None else stated_bound("records", estimator.records, clipped="")
    require(records is None or 1 <= records <= 2**53, "records", "be from 1 to 2^53", records)
    return records


def sketching(estimator: Any, *, columns: int, **layout: Any) -> RandomProjection:
    """Calibrate the projection of an estimator for rows of this many columns, from public parameters only."""
    budget, size = estimator._budget(), estimator.sketch_size
    if size is None:
        size = default_sketch_size(columns=columns, records=stated_records(estimator), **budget)
    public = {"sketch_size": as_size("sketch_size", size), "adjacency": as_adjacency(estimator.adjacency), **layout}
    mechanism: RandomProjection = calibrated(RandomProjection.calibrated, **budget, **public)
    return mechanism


def _scaled(rows: Rows, scale: float) -> Rows:
    """Return the same rows, with targets times a public number."""

    def read(_: Groups) -> Iterator[Parts]:
        for features, values in rows.blocks():
            with np.errstate(all="ignore"):  # a warning would reveal something about the values
                scaled = np.asarray(values, dtype=np.float64) * scale
            yield features, scaled

    kinds = (frozenset({"number"}),) * sum(rows.widths)
    return Table(kinds, None, read, rows.names, target_width=rows.widths[1], device=rows.table.device).matrix()


def ridge_from_gram(
    release: GramRelease | ProjectionRelease, *, target: str | int | None = None, alpha: float = 0.0
) -> tuple[Floats, float]:
    """Solve least squares or ridge regression on the columns of a release, such as a loaded one.

    It reads the release only, so it costs no budget, and every column may be the target in turn. The penalty is
    `alpha`, or the least one that lifts the smallest eigenvalue of the estimate to the noise level if that is larger.

    Parameters
    ----------
    release : GramRelease or ProjectionRelease
    target : str or int, optional
        The column to regress on, by its name or number. By default the target columns of the release.
    alpha : float
        Penalty on the squared coefficients of all columns but the constant.

    Returns
    -------
    weights : (predictors, targets) array
        In the units of the release. Predictors are all columns but the targets, in their order. If the release has a
        constant column, its weight is last; the offset is this weight times `release.mechanism.intercept`.
    penalty : float
        The penalty used.

    Examples
    --------
    >>> import tempfile, ndis
    >>> from ndis.learn import ridge_from_gram
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, size=(20_000, 2))
    >>> rows = np.c_[x, x @ [0.5, -0.25]]
    >>> sketching = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=4000, row_norm_bound=1.6)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sketching.release(rows).save(f"{folder}/sketch.npz")
    ...     loaded = ndis.mechanisms.releases.ProjectionRelease.load(f"{folder}/sketch.npz")
    >>> weights, penalty = ridge_from_gram(loaded, target=2)
    >>> bool(np.abs(weights.ravel() - [0.5, -0.25]).max() < 0.05), penalty
    (True, 0.0)
    >>> mechanism = ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, row_norm_bound=1.6)
    >>> weights, penalty = ridge_from_gram(mechanism.release(rows), target=2)
    >>> bool(np.abs(weights.ravel() - [0.5, -0.25]).max() < 0.05), penalty
    (True, 0.0)
    """
    if isinstance(release, GramRelease):
        noise = release.mechanism.noise_std / math.sqrt(2.0)
    elif isinstance(release, ProjectionRelease):
        noise = release.ridge / math.sqrt(len(release.sketch))
    else:
        raise ParameterError("release", "be a GramRelease or a ProjectionRelease", type(release).__name__)
    gram = release.gram()
    constant = release.mechanism.intercept is not None
    columns = len(gram) - constant
    wanted = list(range(columns - release.targets, columns)) if target is None else [_column(release, target, columns)]
    require(wanted, "target", "be stated for a release without target columns", None)
    others = [j for j in range(columns) if j not in wanted]
    require(others, "release", "have a column beside the target", f"{columns} column(s)")
    order = [*others, *wanted, *([columns] if constant else [])]
    split = {"features": len(others), "targets": len(wanted)}
    return ridge_from_matrix(gram[np.ix_(order, order)], **split, alpha=alpha, noise=noise)


def _column(release: GramRelease | ProjectionRelease, target: str | int, columns: int) -> int:
    """Return the number of a target column that is given by name or by number."""
    if isinstance(target, str):
        if target not in release.names[:columns]:
            raise ParameterError("target", f"be one of {', '.join(release.names[:columns]) or 'no names'}", target)
        return release.names.index(target)
    if isinstance(target, bool) or not isinstance(target, int) or not 0 <= target < columns:
        raise ParameterError("target", f"be a column from 0 to {columns - 1}", target)
    return target


def ridge_from_matrix(gram: Floats, *, features: int, targets: int, alpha: float, noise: float) -> tuple[Floats, float]:
    """Solve the normal equations of [features, targets, constant] with an unbiased Gram estimate.

    With Â the part of the predictors (features and constant, p of them) and b̂ that against the targets,

        (Â + diag(penalty)) w = b̂,     penalty = max(alpha, ρ) on features, ρ on the constant,
        ρ = max(0, √p·noise − λ_min(Â)).

    The error of Â is a symmetric matrix whose entries have a standard deviation of about `noise`: ridge/√r for a
    sketch, s/√2 for a noisy Gram matrix. So its smallest eigenvalue is as low as −2√p·noise. The least ρ that lifts
    λ_min to √p·noise keeps the solution stable. It vanishes if the data outweigh the noise, and it reads only released
    values. To solve with the sketch itself (penalty = ridge) has a bias that grows as √r.

    Returns
    -------
    weights : (p, targets) array
    penalty : float
        That on the features.

    Examples
    --------
    >>> gram = np.array([[4.0, 2.0], [2.0, 1.0]])
    >>> weights, penalty = ridge_from_matrix(gram, features=1, targets=1, alpha=0.0, noise=1.0)
    >>> weights.tolist(), penalty
    ([[0.5]], 0.0)
    >>> ridge_from_matrix(gram - 4 * np.eye(2), features=1, targets=1, alpha=0.0, noise=1.0)[1]
    1.0
    """
    alpha = as_not_negative("alpha", alpha)
    predictors = np.r_[np.arange(features), np.arange(features + targets, len(gram))]
    normal = gram[np.ix_(predictors, predictors)]
    lift = max(0.0, math.sqrt(len(predictors)) * noise - float(np.linalg.eigvalsh(normal)[0]))
    penalty = np.full(len(predictors), lift)
    penalty[:features] = max(alpha, lift)
    weights = np.linalg.solve(normal + np.diag(penalty), gram[predictors, features : features + targets])
    return weights, max(alpha, lift)
