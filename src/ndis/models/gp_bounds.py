"""Two numbers behind the sensitivity of a Gaussian process, with certainty: r²/s and the largest prior eigenvalue."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.errors import ParameterError
from ndis.exact import ExactArray

__all__ = ["label_leverage", "largest_eigenvalue"]


def label_leverage(records: int, label_bound: Any, variance: Any, noise: Any) -> Any:
    """An upper bound of r²/s over all data sets of at most `records` records, as a ball.

    With N = records − 1 others, L = `variance`, σ² = `noise`:

        r²/s ≤ (B²/σ²) sup_E (1 + √(N E min(η, 1 − σ²E/L)))² / (1 + E),      η = NL/(NL + σ²).

    The maximum is at E = L/(NL + σ²) where NL ≤ σ²; it is then attained by copies of one point. Elsewhere
    (1 + √x)² ≤ (1 + 1/θ)(1 + θx) leaves a quotient whose maximum is closed form, for any θ.

    >>> from flint import arb
    >>> float(label_leverage(16, arb(1), arb(1), arb(250))) < 0.00446 < 16 / 250
    True
    """
    from flint import arb

    scale, others = label_bound**2 / noise, records - 1
    if others == 0:
        return scale
    edge = variance / (others * variance + noise)
    eta = others * edge
    if others * variance <= noise:
        return scale * (1 + eta) ** 2 / (1 + edge)
    theta = arb(_best_theta(others, float(variance), float(noise)))
    alpha, beta = theta * others, theta * others * noise / variance
    low = 1 + edge
    at_edge = (1 + alpha * edge - beta * edge**2) / low
    rest = alpha + beta - 1  # the quotient is α + 2β − βw − rest/w in w = 1 + E
    if rest <= 0 or rest / beta < low**2:
        best = at_edge
    elif rest > 0:
        best = alpha + 2 * beta - 2 * (beta * rest).sqrt()
    else:
        return scale * (1 + others * eta)
    bound = (1 + 1 / theta) * best
    plain = 1 + others * eta
    return scale * (bound if bound < plain else plain)


def _best_theta(others: int, variance: float, noise: float) -> float:
    """θ = 1/√(NQ) where the float maximum of (1 + √(NQ))²/(1 + E) is; any positive θ is sound."""
    e = np.geomspace(variance / (others * variance + noise), variance / noise, 2001)[:-1]
    q = others * e * (1 - noise * e / variance)
    return float(1 / math.sqrt(q[np.argmax((1 + np.sqrt(q)) ** 2 / (1 + e))]))


def largest_eigenvalue(matrix: NDArray[Any]) -> Fraction:
    """A certified upper bound of the largest eigenvalue of a symmetric integer matrix; public."""
    from ndis.sampling.root import CovarianceRoot

    n = len(matrix)
    if n == 1:
        return Fraction(matrix[0, 0])
    guess = float(np.linalg.eigvalsh(matrix.astype(np.float64))[-1])
    slack = 2.0**-40
    while slack < 1.0:
        bound = math.ceil(guess * (1 + slack)) + 1
        try:
            CovarianceRoot(ExactArray(np.eye(n, dtype=int).astype(object) * bound - matrix)).fixed_point(0)
        except ParameterError:  # bound·I − K is not positive definite
            slack *= 16
        else:
            return Fraction(bound)
    return Fraction(max(int(abs(row).sum()) for row in matrix))
