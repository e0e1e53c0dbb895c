"""Compute δ(ε) for one variance ratio in all directions, an exact form of the paper (lemma: rp inherent).

It is a cross-check. The exact value of any pair is the contour integral behind `ndis.GaussianPair.delta`. For two
centred Gaussians δ is a difference of two incomplete gamma functions (prop:grp-monotone). The difference loses digits,
so ball arithmetic computes it with as many as it takes.
"""

from __future__ import annotations

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from ndis._balls import Ball, climb
from ndis._validate import Floats, as_floats, require, shaped

_LADDER = tuple(1 << k for k in range(7, 15))  # bits of working precision to try
_ACCURACY = 60  # bits of δ that must be right


def equal_ratio_delta(epsilon: ArrayLike, variance_ratio: ArrayLike, copies: ArrayLike) -> float | Floats:
    """Compute δ(ε) for one variance ratio in all directions and equal means (lemma: rp inherent, prop:grp-monotone).

    A sketch with r columns is this pair: in the paper's letters τ = ρ = 1/(1 − p) for the removal of a record of
    leverage p, copies = r. Both orders are covered: τ > 1 is the wider law measured from the narrower one, τ < 1 the
    reverse.

    Parameters
    ----------
    epsilon
        Any real ε.
    variance_ratio
        τ > 0.
    copies
        Number of directions, positive (need not be whole).

    Returns
    -------
    float or array
        With t₀ = 2(ε + ½r log τ)/(τ − 1): Q(r/2, t₀/2) − e^ε Q(r/2, τt₀/2) for τ > 1; the same with the lower
        function P for τ < 1, which is 0 from ε = −½r log τ on; (1 − e^ε)₊ for τ = 1.

    Examples
    --------
    >>> f"{equal_ratio_delta(1.0, 2.0, 1):.12f}", f"{equal_ratio_delta(1.0, 0.5, 1):.1f}"
    ('0.045611619893', '0.0')
    >>> f"{equal_ratio_delta(1.0, 1.02, 100):.10e}"
    '5.5847835086e-10'
    """
    numbers = {"epsilon": epsilon, "variance_ratio": variance_ratio, "copies": copies}
    e, tau, r = np.broadcast_arrays(*(as_floats(name, x) for name, x in numbers.items()))
    require((tau > 0).all(), "variance_ratio", "be positive", variance_ratio)
    require((r > 0).all(), "copies", "be positive", copies)
    points = zip(e.ravel().tolist(), tau.ravel().tolist(), r.ravel().tolist(), strict=True)
    return shaped(np.array([float(_delta(*point)) for point in points]), e.shape)


def _delta(epsilon: float, variance_ratio: float, copies: float) -> Ball:
    """Enclose δ at one point; the ball is so narrow that its middle is as good as δ."""

    def attempt(_: int) -> Ball | None:
        """Return δ at one precision; None if it is too low."""
        e, tau, s = arb(epsilon), arb(variance_ratio), arb(copies) / 2
        x = (e + s * tau.log()) / (tau - 1) if variance_ratio != 1.0 else arb(-1)  # t₀/2
        if x > 0:
            tail = arb.gamma_upper if variance_ratio > 1.0 else arb.gamma_lower
            delta = tail(x, s, 1) - e.exp() * tail(tau * x, s, 1)
        else:  # the loss always exceeds ε, or never
            delta = -e.expm1() if variance_ratio >= 1.0 and epsilon < 0.0 else arb(0)
        return delta if (x > 0 or x < 0) and (delta == 0 or delta.rel_accuracy_bits() >= _ACCURACY) else None

    return climb(attempt, _LADDER, f"delta at epsilon = {epsilon!r} needs more than {_LADDER[-1]} bits")
