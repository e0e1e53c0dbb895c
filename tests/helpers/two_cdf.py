"""Tool 1 of the paper, which no code of the package uses: δ(ε) as a difference of two tails.

**Two tails**, Tool 1 of the paper (thm:ndis-two-genchi2-cdf). The case of equal means is eq:delta-two-cdf-cov.

The loss of N(m, diag τ) against N(0, I), t = τ − 1, is a generalized chi-square variable (def:genchi2) under both
laws:

    under p:  L = κ + Σ (t/2)·χ'²₁(m²τ/t²) + σG + σ²/2,      under q:  L = κ + Σ (t/2τ)·χ'²₁(m²/t²) + σG − σ²/2,

The sums run over the directions with t ≠ 0, κ = −½ Σ (log τ + m²/t) over the same, and σ² = Σ m² over the rest. In the
paper's letters L = ε − g_ε(Z) and L = ε − g_ε(Z̃). The paper's definition asks for at least one chi-square term. That
leaves out equal covariances, for which the loss is Gaussian. Here the number of terms may be zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ndis._validate import Floats, as_floats, shaped
from ndis.chi_square import loss_laws
from ndis.pair import GaussianPair


def two_cdf_delta(pair: GaussianPair, epsilon: ArrayLike) -> float | Floats:
    """Compute Pr_p[L > ε] − e^ε Pr_q[L > ε] as a cross-check (thm:ndis-two-genchi2-cdf, eq:delta-two-cdf-cov).

    The closer the laws are, or the smaller δ is compared with its tails, the more digits the two terms share. The
    difference loses those digits. Its relative error is that of the tails times Pr_p[L > ε]/δ, and it can be negative.
    With CDF algorithms of fixed absolute accuracy (Imhof, Davies) no digit is left of a δ below about 1e-15. Directions
    with a large shift and a ratio very close to 1 cost accuracy too, because κ and m²/t² grow.

    Parameters
    ----------
    pair
        Any pair.
    epsilon
        Any real ε.

    Returns
    -------
    float or array
        δ(ε), its relative accuracy limited as above.

    Examples
    --------
    >>> import ndis
    >>> pair = ndis.GaussianPair.from_ratios([1.5, 0.8, 1.0], shift=[0.3, 0.7, 0.2])
    >>> f"{two_cdf_delta(pair, 0.5):.10f} {pair.delta(0.5):.10f}"
    '0.1654530084 0.1654530084'
    """
    points = as_floats("epsilon", epsilon)
    if pair.mutually_singular:
        values = np.ones(points.shape)
    else:
        under_p, under_q = loss_laws(pair)
        values = np.asarray(under_p.sf(points) - np.exp(points) * under_q.sf(points))
    return shaped(values.ravel(), values.shape)
