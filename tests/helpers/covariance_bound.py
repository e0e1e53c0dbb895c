"""The covariance lemma of the paper, which no code of the package uses: the Rényi bound is never larger."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ndis._validate import Floats
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.spectrum.bounds import ULP, best_exponent, over, round_up


def covariance_bound(pair: GaussianPair, epsilon: ArrayLike) -> float | Floats:
    """The covariance lemma in the order in which it is proved: p the *narrower* law (lem:ndis-cov-analytic-form).

    With w = 1 − τ, w' = (1 − τ)/τ, f = −Σ log τ − 2ε: δ(ε) = 0 if f ≤ 0. Otherwise, for all v ≥ 0 and
    0 < u < 1/(2 max w'),

        δ(ε) ≤ exp(v f − ½ Σ log(1 + 2vw)) − e^ε (1 − exp(−u f − ½ Σ log(1 − 2uw'))).

    For ε ≥ 0 the second term does nothing. Its exponent grows with u from the start, Σ w' ≥ −Σ log τ ≥ f, so the
    infimum is at u → 0 and the term vanishes. The first is e^{K(s) − sε} at s = 2v, Chernoff's bound on Pr[L > ε]. So
    the lemma is never better than `renyi_bound`, which is smaller by sˢ/(1+s)^{1+s} at every s.

    The other order is the harder one, and this is *not* a bound for it: N(0, 2) from N(0, 1) has δ(1) = 0.0456, but
    the formula for the reverse gives 0. Use `renyi_bound` or the exact value for that order.

    Parameters
    ----------
    pair
        A pair with equal means and no variance ratio above 1.
    epsilon
        Any real ε.

    Returns
    -------
    float or array
        An upper bound on `pair.delta(epsilon)`, at most 1; exactly 0 from ε = −½ Σ log τ on.

    Examples
    --------
    >>> import ndis
    >>> pair = ndis.GaussianPair.from_ratios(0.1, copies=20)
    >>> f"{pair.delta(20.0):.4f} <= {covariance_bound(pair, 20.0):.4f}, {covariance_bound(pair, 24.0)}"
    '0.0007 <= 0.0141, 0.0'
    """
    t, n = pair.excess, pair.copies
    if pair.mutually_singular or not (t <= 0).all():
        rule = "have every variance ratio at most 1 (the easy order)"
        raise ParameterError("pair", rule, pair.variance_ratio, "use renyi_bound or pair.delta")
    if not (pair.shift == 0).all():
        raise ParameterError("pair", "have equal means", pair.shift, "use split_bound, renyi_bound or pair.delta")
    edge = -0.5 * math.fsum(n * np.where(t < -0.5, np.log(pair.variance_ratio), np.log1p(t)))
    edge += (n.size + 16) * ULP * edge

    def bound(e: float) -> float:
        return 0.0 if e >= edge else round_up(math.exp(best_exponent(pair, e, lambda _: 0.0)[1]))

    return over(epsilon, bound)
