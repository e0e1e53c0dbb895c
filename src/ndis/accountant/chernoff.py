"""A rigorous upper bound of δ(ε) for a composition of sampled releases of any pairs, in closed form.

Theorem thm:sampled-chernoff (docs/theory.md). For every c > 0

    δ(ε) ≤ c^c/(1+c)^{1+c} e^{K(c) − cε},      K(c) = Σ n log M(c),

and with the likelihood ratio w of the unsampled pair, its second law Q and u = q(w − 1)

    remove, c a whole number:  M(c) = Σ_j binom(1+c, j) (1−q)^{1+c−j} q^j E_Q w^j,
    add:                       M(c) ≤ 1 − q + q E_Q w^−c   and   M(c) ≤ 1 + ½c(c+1)(1−q)^{−c−2} q² (E_Q w² − 1).

It stands in where no sum for an enclosure is within reach. Its distance from δ is what it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from flint import arb

from ndis._balls import Ball, outward, precision
from ndis.accountant.certified_parts import Order, SampledGroup, product
from ndis.spectrum.directions import Directions, reverse_direction

__all__ = ["chernoff_upper"]

_BITS = 192
_REMOVE = (*range(1, 17), 20, 24, 32, 48, 64, 96, 128)
_ADD = tuple(2.0 ** (0.5 * k) for k in range(-8, 50))


def chernoff_upper(groups: Sequence[SampledGroup], epsilon: float, *, order: Order) -> float:
    """An upper bound of δ(ε), at most 1.

    Examples
    --------
    >>> group = SampledGroup((0.01,), Directions([], arb(1)), 100)
    >>> 0.0 < chernoff_upper([group], 1.0, order="remove") < 1e-3
    True
    """
    best = 1.0
    with precision(_BITS):
        for place in _REMOVE if order == "remove" else _ADD:
            c = arb(place)
            total: Ball | None = c * c.log() - (1 + c) * (1 + c).log() - c * arb(epsilon)
            for group in groups:
                one = _log_moment(group, place, order)
                total = None if one is None or total is None else total + group.count * one
            if total is not None:
                upper = outward(total.exp()).upper
                if upper < best:  # false for NaN
                    best = upper
    return best


def _log_moment(group: SampledGroup, place: float, order: Order) -> Ball | None:
    """An upper bound of log M at this place; None if there is none."""
    pair, q, c = group.invariants, product(group.rates), arb(place)
    if not group.sampled:
        return pair.log_moment(c)
    if order == "remove":
        power = round(place) + 1
        total = arb(0)
        for j in range(power + 1):
            moment = arb(0) if j < 2 else pair.log_moment(arb(j - 1))
            if moment is None:
                return None
            total += math.comb(power, j) * (1 - q) ** (power - j) * q**j * moment.exp()
        return total.log()
    bounds = []
    inverse = pair.log_moment(c)
    if inverse is not None:
        bounds.append(q * (inverse.exp() - 1))
    square = Directions([reverse_direction(one) for one in pair.curved], pair.flat).log_moment(arb(1))
    if square is not None:
        bounds.append(c * (c + 1) / 2 * (1 - q) ** (-c - 2) * q**2 * (square.exp() - 1))
    return min((b.log1p() for b in bounds), key=lambda b: float(b.upper()), default=None)
