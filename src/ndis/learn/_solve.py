"""Least squares and ridge regression from a released Gram matrix."""

from __future__ import annotations

import math

import numpy as np

from ndis._validate import Floats, as_not_negative
from ndis.errors import ParameterError
from ndis.mechanisms.gram import GramRelease
from ndis.mechanisms.release import ProjectionRelease

__all__ = ["ridge_from_gram", "ridge_from_matrix"]


def ridge_from_gram(
    release: GramRelease | ProjectionRelease, *, target: str | int | None = None, alpha: float = 0.0
) -> tuple[Floats, float]:
    """Least squares or ridge regression on the columns of a release, such as a loaded one.

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
    ...     loaded = ndis.ProjectionRelease.load(f"{folder}/sketch.npz")
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
    if not wanted:
        raise ParameterError("target", "be stated for a release without target columns", None)
    others = [j for j in range(columns) if j not in wanted]
    if not others:
        raise ParameterError("release", "have a column beside the target", f"{columns} column(s)")
    order = [*others, *wanted, *([columns] if constant else [])]
    return ridge_from_matrix(
        gram[np.ix_(order, order)], features=len(others), targets=len(wanted), alpha=alpha, noise=noise
    )


def _column(release: GramRelease | ProjectionRelease, target: str | int, columns: int) -> int:
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
