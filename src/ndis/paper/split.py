"""Upper bounds on δ(ε) that treat means and covariances apart (the paper's Tool 2).

Every bound here holds at every value of the parameter that it minimises over; see `ndis.spectrum.bounds`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from numpy.typing import ArrayLike

from ndis._search import least_point
from ndis._validate import Floats
from ndis.pair import GaussianPair
from ndis.spectrum.bounds import ULP, Curve, over, round_up
from ndis.spectrum.closed_forms import mean_shift_delta


def triangle_bound(first: Curve, second: Curve, epsilon: ArrayLike) -> float | Floats:
    """Bound δ for X from Z through a law Y between them (prop: triangle for DP divergence): the best split of ε.

    δ_XZ(ε₁ + ε₂) ≤ δ_XY(ε₁) + e^{ε₁} δ_YZ(ε₂) holds for all real ε₁, ε₂, not only non-negative ones as printed, and
    the best split often has one of them below zero. The right side falls and then rises in ε₁ (its slope is e^{ε₁}
    [Pr_Y(L_YZ > ε₂) − Pr_Y(L_XY > ε₁)]); every split is sound.

    Parameters
    ----------
    first, second
        δ_XY and δ_YZ, or upper bounds on them, as functions of one real ε of either sign.
    epsilon
        Any real ε.

    Returns
    -------
    float or array
        An upper bound on δ_XZ(ε), at most 1.

    Examples
    --------
    >>> from ndis.spectrum.closed_forms import mean_shift_delta
    >>> def step(epsilon):
    ...     return mean_shift_delta(epsilon, 0.5)
    >>> f"{mean_shift_delta(1.0, 1.0):.6f} <= {triangle_bound(step, step, 1.0):.6f}"  # nothing lost on a line
    '0.126937 <= 0.126937'
    """

    def bound(epsilon: float) -> float:
        def total(split: float) -> float:
            return float(first(split)) + math.exp(split) * float(second(epsilon - split)) if split < 700.0 else math.inf

        low, high = min(0.0, epsilon), max(0.0, epsilon)
        return round_up(min(total(0.0), total(epsilon), least_point(total, low - 4.0, high + 4.0)[1]))

    return over(epsilon, bound)


def split_bound(
    pair: GaussianPair, epsilon: ArrayLike, covariance: Callable[[GaussianPair, float], float] | None = None
) -> float | Floats:
    """Mean and covariance apart (thm:ndis-analytic-form): the better of two paths, each with its best split of ε.

        mean first:        N(μ₁, Σ₁) → N(μ₂, Σ₁) → N(μ₂, Σ₂)
        covariance first:  N(μ₁, Σ₁) → N(μ₁, Σ₂) → N(μ₂, Σ₂)

    The covariance step keeps the pair's own order. The mean step keeps the covariance under which it happens. So only
    the triangle inequality is used: no Loewner order and no asymmetry lemma. The printed bounds put Σ_min under both
    means and the harder order on the covariances, and are never smaller than these. The paper then says that
    lem:ndis-cov-analytic-form covers their covariance terms. That is false: the lemma bounds the easier order.

    Parameters
    ----------
    pair
        Any pair.
    epsilon
        Any real ε.
    covariance
        Upper bound on δ of a pair with equal means, called as ``covariance(pair, epsilon)`` for real ε of either
        sign; the exact value by default. For a rigorous result pass ``lambda pair, epsilon:
        pair.certify(epsilon).upper``; for a closed form, `renyi_bound`.

    Returns
    -------
    float or array
        An upper bound on `pair.delta(epsilon)`, at most 1.

    Examples
    --------
    >>> import ndis
    >>> from ndis.spectrum.bounds import renyi_bound
    >>> pair = ndis.GaussianPair.from_ratios([1.2, 1.1], shift=[0.5, 0.0])
    >>> f"{pair.delta(1.0):.4f} <= {split_bound(pair, 1.0):.4f} <= {split_bound(pair, 1.0, renyi_bound):.4f}"
    '0.0242 <= 0.0336 <= 0.0686'
    """
    if pair.mutually_singular:
        return over(epsilon, lambda _: 1.0)
    centred = pair.centred()
    under_p = math.sqrt(math.fsum(pair.copies * pair.shift**2 / pair.variance_ratio)) * (1.0 + 8 * ULP)
    under_q = math.sqrt(math.fsum(pair.copies * pair.shift**2)) * (1.0 + 8 * ULP)

    def spread(e: float) -> float:
        return float(centred.delta(e)) if covariance is None else covariance(centred, e)

    def mean(distance: float) -> Curve:
        return lambda e: round_up(float(mean_shift_delta(e, distance)))

    def bound(e: float) -> float:
        return min(float(triangle_bound(mean(under_p), spread, e)), float(triangle_bound(spread, mean(under_q), e)))

    return over(epsilon, bound)
