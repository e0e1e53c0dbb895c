"""Logistic regression in rounds: a noisy Gram matrix preconditions clipped, noisy gradients.

The Hessian of the logistic loss is at most XᵀX/4, and that of softmax at most XᵀX/2 (Böhning). So one released Gram
matrix serves all rounds. A round releases Σ clip(x ⊗ (p − onehot(y))) at the weights so far. It also releases a
histogram of the lengths of its terms, which chooses the next clip. The step is shrunk by empirical Bayes: with no
evidence of a gradient there is no step. Every round's shift is fixed in advance (`ndis.mechanisms.rounds`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ndis._validate import Floats
from ndis.learn._empirical_bayes import EVIDENCE, NOISE_SHARE, Round, evidence, shrunk
from ndis.learn._inference import Unshrunk, newton
from ndis.learn._releases import EDGES, FIRST_CLIP, Releases, next_clip
from ndis.mechanisms.rounds import GaussianRounds

__all__ = ["CONSTANT_SHARE", "GradientReleases", "calibrated_gradients", "fit_gradients"]

# Chosen on breast cancer and digits; accuracies change by less than a point within a factor of 1.5.
CONSTANT_SHARE = 0.25  # the constant column over the row bound; a larger one costs the features noise
GRAM_SHARE = 0.3
COUNT_SHARE = 0.1  # of a round
BIAS_WEIGHT = 0.3
INTERVAL_GRAM_SHARE = 0.15  # if intervals are asked for: the Hessian then serves for half of the rounds
HESSIAN_SHARES = (0.05, 0.1)  # of the two weighted Gram matrices, if intervals are asked for
LAST_ROUND = 3.0  # rounds' worth of budget for the last round then, which intervals are made from
CURVATURE = 0.6  # of Böhning's bound, which holds at weights of zero only; a step is stable above one half of it
EIGENVALUE_FLOOR = 0.5  # of s·√(2p), the largest eigenvalue of the noise
_PACE = 4.0  # by how much the clip may change per round


@lru_cache(maxsize=64)
def calibrated_gradients(
    *, epsilon: float, delta: float, adjacency: Any, rounds: int, intervals: bool = False
) -> GaussianRounds:
    """The budget of a fit, from public numbers only; the last round has no histogram.

    With `intervals` there are shares for two Hessians, and the last round has more.

    >>> budget = calibrated_gradients(epsilon=1.0, delta=1e-6, adjacency="add-remove", rounds=3)
    >>> len(budget.sum_shares), len(budget.count_shares)
    (3, 2)
    """
    hessians = HESSIAN_SHARES if intervals else ()
    gram = INTERVAL_GRAM_SHARE if intervals else GRAM_SHARE
    share = (1.0 - gram - sum(hessians)) / (rounds - 1 + (LAST_ROUND if intervals else 1.0))
    last = LAST_ROUND * share if intervals else share
    return GaussianRounds.calibrated(
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        gram_share=gram,
        sum_shares=((1.0 - COUNT_SHARE) * share,) * (rounds - 1) + (last,),
        count_shares=(COUNT_SHARE * share,) * (rounds - 1),
        weighted_gram_shares=hessians,
    )


class GradientReleases(Releases):
    """Rounds of gradients, drawn exactly."""

    def round(self, index: int, theta: Floats, *, clip: float, longest: float, last: bool) -> Any:
        """Release a gradient at θ, and the histogram of its terms; without the histogram in the last round."""
        given = theta / self._row
        found = self._sums.gradients(
            given[:, 0] if given.shape[1] == 1 else given,
            clip=clip * self._unit,
            edges=[edge * longest * self._unit for edge in EDGES],
        )
        total, noise = self._total(index, found, "gradients")
        return total.reshape(theta.shape), noise, None if last else self._histogram(index, found)[0]


def fit_gradients(
    data: GradientReleases, *, classes: int, rounds: int, intervals: bool = False
) -> tuple[Floats, Unshrunk | None]:
    """Make all releases.

    Returns
    -------
    theta : (predictors, 1) array for two classes, (predictors, classes) otherwise
    estimate : Unshrunk or None
        Without shrinkage, with `intervals`. The Hessian is released after half of the rounds. The steps from there
        on are near those of Newton's method. It is released again for the last round, which is near the solution. One
        step from there, not shrunk, is the estimate. The last round clips nothing: a clip would bias it.
    """
    outputs = 1 if classes == 2 else classes
    gram, s = data.gram()
    values, vectors = np.linalg.eigh(gram)
    floor = EIGENVALUE_FLOOR * s * np.sqrt(2.0 * data.predictors)
    curvature = CURVATURE * (0.25 if outputs == 1 else 0.5) * np.maximum(values, floor)
    longest = data.longest * (1.0 if outputs == 1 else float(np.sqrt(2.0)))
    theta, clip = np.zeros((data.predictors, outputs)), FIRST_CLIP * longest
    estimate = None
    counted: list[float] = []  # histograms add up to the number of records
    for index in range(rounds):
        last = index == rounds - 1
        if intervals and (last or index == rounds // 2):
            hessian, s = data.weighted_gram(int(last), theta)
            values, vectors = np.linalg.eigh(hessian)
            curvature = np.maximum(values, EIGENVALUE_FLOOR * s * np.sqrt(2.0 * data.predictors))
            clip = longest if last else clip
        total, noise, histogram = data.round(index, theta, clip=clip, longest=longest, last=last)
        if intervals and last:
            estimate = newton(Round(theta, -total, noise), hessian, noise=s, records=float(np.mean(counted)))
        if outputs > 1:
            total = total - total.mean(axis=1, keepdims=True)  # residuals of a record add up to zero: this is noise
        rotated, every = (vectors.T @ total).ravel(), np.repeat(curvature, outputs)
        if evidence(rotated, every, noise**2) > EVIDENCE:
            step = shrunk(rotated, every, NOISE_SHARE * noise**2)[0]
            theta = theta - vectors @ step.reshape(theta.shape)
        if not last:
            counted.append(float(histogram.sum()))
            shift = data.shift(index + 1)
            chosen = longest * next_clip(histogram, entries=theta.size, shift=shift, weight=BIAS_WEIGHT)
            clip = min(max(chosen, clip / _PACE), clip * _PACE)
    return theta, estimate
