"""The change by one record in penalised logistic regression, if the number of records is promised.

Take at most n records of norm at most l. The minimiser μ satisfies λμ = Σ σ(−mᵢ)zᵢ with mᵢ = zᵢᵀμ. So
λ‖μ‖² = Σ mᵢσ(−mᵢ). Here mσ(−m) is at most W(1/e) = 0.27846…, and at most m/2 for m ≥ 0. Hence

    ‖μ‖ ≤ R = min(√(n W(1/e)/λ), nl/(2λ)),        |margins| ≤ lR,

and two factors follow: a ≤ ā = σ(lR), and Hessian weights of at least σ'(lR) = ρ/4 (thm:logistic-records).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from flint import arb

__all__ = ["Margins", "hessian_leverage", "margins"]

_LARGEST_PULL = (27847, 100000)  # above W(1/e) = 0.278464…, the maximum of m/(1 + e^m)
_SHARES = np.concatenate([np.linspace(1 / 64, 1.0, 64), 1 - np.geomspace(1e-6, 1e-2, 16), np.geomspace(1e-4, 1e-2, 8)])


class Margins(NamedTuple):
    """Balls: `pull` is ā, the largest weight of the record's own gradient; `curvature` is ρ, the least 4σ'."""

    pull: Any
    curvature: Any


def margins(records: int | None, l2_penalty: Any, norm_bound: Any) -> Margins:
    """ā and ρ for at most `records` records; 1 and 0 without a promise.

    >>> from flint import arb
    >>> pull, curvature = margins(455, arb(300), arb(1.5))
    >>> 0.726 < float(pull) < 0.727, 0.79 < float(curvature) < 0.8
    (True, True)
    """
    if records is None:
        return Margins(arb(1), arb(0))
    numerator, denominator = _LARGEST_PULL
    far = (arb(records) * numerator / (denominator * l2_penalty)).sqrt() * norm_bound
    near = records * norm_bound**2 / (2 * l2_penalty)
    margin = near if near < far else far
    pull = 1 / (1 + (-margin).exp())
    return Margins(pull, 4 * pull * (1 - pull))


def hessian_leverage(l2_penalty: Any, curvature: Any, noise_variance: Any, largest: Any, rounding: Any) -> Any:
    """An upper bound of xᵀH⁻¹S⁻¹H⁻¹x over unit vectors x, as a ball; None if the curvature gives none.

    S⁻¹ = ψ(P) with ψ(p) = p/(1 + vp), H ⪰ λ(1−ρ) + ρP and P ⪯ `largest`. ψ is operator monotone, so for 0 < θ ≤ 1

        S⁻¹ ⪯ ψ(αH + β),    α = θ/ρ,    β = (1−θ)·largest − θλ(1−ρ)/ρ + θ·rounding,

    which commutes with H. So the bound is the maximum over h ≥ λ of y/((1 + vy)h²) with y = αh + β. Its derivative has
    the sign of −(2vy² + y + β): it rises up to the root y* and falls from there. The search for θ uses floats, and any
    θ is sound. `rounding` bounds the excess of P over λI + ¼Σxxᵀ.
    """
    if not curvature > arb(2) ** -60:
        return None
    lam, rho, v, top = (float(x) for x in (l2_penalty, curvature, noise_variance, largest))
    share = arb(min(_SHARES.tolist(), key=lambda theta: _at(theta, lam, rho, v, top)))
    alpha = share / curvature
    beta = (1 - share) * largest - share * l2_penalty * (1 - curvature) / curvature + share * rounding
    least = alpha * l2_penalty + beta  # y at h = λ
    if not beta < 0:
        return least / ((1 + noise_variance * least) * l2_penalty**2) if beta >= 0 else None
    root = -2 * beta / (1 + (1 - 8 * noise_variance * beta).sqrt())
    y = least if root < least else root  # past the root the maximum over all h is an upper bound too
    return y / (1 + noise_variance * y) * (alpha / (y - beta)) ** 2


def _at(share: float, lam: float, rho: float, v: float, top: float) -> float:
    """The same bound in floats."""
    alpha, beta = share / rho, (1 - share) * top - share * lam * (1 - rho) / rho
    y = alpha * lam + beta
    if beta < 0:
        y = max(y, -2 * beta / (1 + float(np.sqrt(1 - 8 * v * beta))))
    return y / (1 + v * y) * (alpha / (y - beta)) ** 2
