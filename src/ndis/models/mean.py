"""A model may release its mean plus Gaussian noise, without a draw from the posterior.

The covariance of such a release is vI whatever the data are. So one pair dominates all neighbours: a shift of
sensitivity/√v (thm:mean-shift). docs/models.md proves the sensitivities (thm:logistic-mean, thm:process-mean).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ndis._balls import outward
from ndis._exact import ExactArray
from ndis.errors import ParameterError
from ndis.pair import LEAST_SHIFT, GaussianPair
from ndis.worst_case.envelopes import DominatingPairs

__all__ = ["Release", "as_release", "covariance_before_noise", "mean_envelope", "mean_shift"]

_LARGEST = 1e60  # for a shift beyond it, δ is 1 at every ε of interest
Release = Literal["draw", "mean"]


def as_release(value: Any) -> Release:
    """Return the kind of release of a model, checked."""
    if not isinstance(value, str) or value not in ("draw", "mean"):
        raise ParameterError("release", "be 'draw' or 'mean'", repr(value))
    return value  # type: ignore[return-value]


def mean_envelope(sensitivity: Any, noise_variance: Any) -> DominatingPairs:
    """Return the pair that dominates all neighbours whose means are at most `sensitivity` apart; both are balls.

    >>> from flint import arb
    >>> mean_envelope(arb(1), arb(4)).add.shift
    array([0.5])
    """
    pair = GaussianPair.from_ratios(1.0, shift=mean_shift(sensitivity, noise_variance))
    return DominatingPairs(pair, pair)


def covariance_before_noise(dimension: int) -> ExactArray:
    """Return the covariance of a mean before noise: the zero matrix, exactly.

    >>> covariance_before_noise(2).to_float().tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    return ExactArray(np.zeros((dimension, dimension), dtype=int).astype(object))


def mean_shift(sensitivity: Any, noise_variance: Any) -> float:
    """Return the whitened shift sensitivity/√v, rounded up; both arguments are balls."""
    shift = outward(sensitivity / noise_variance.sqrt()).upper
    return max(shift, LEAST_SHIFT) if shift <= _LARGEST else _LARGEST
