"""Exact inputs as balls: python-flint helpers and the invariants of pairs given by scalars."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from flint import arb

from ndis.enclosure import Enclosure
from ndis.precision import precision

if TYPE_CHECKING:
    from ndis.pair import Origin

__all__ = ["Ball", "outward", "precision", "scalar_invariants"]

Ball = Any  # flint.arb carries no type information


def outward(ball: Ball) -> Enclosure:
    """Floats below and above a ball, the nearest that are."""

    def beyond(end: Ball, side: float) -> float:
        value = float(end)
        return value if arb(value) == end else math.nextafter(value, side)

    return Enclosure(beyond(ball.lower(), -math.inf), beyond(ball.upper(), math.inf))


def scalar_invariants(origin: Origin) -> list[tuple[Ball, Ball, int]]:
    """(t, m², copies) of each direction of a pair given by ratios or by diagonals, enclosed at the working
    precision."""
    found = []
    if origin.kind == "ratios":
        ratio, shift, copies = (a.tolist() for a in origin.arrays)
        for r, m, n in zip(ratio, shift, copies, strict=True):
            found.append((arb(r) - 1, arb(m) ** 2, int(n) * origin.copies))
    else:
        for mu_p, v_p, mu_q, v_q in zip(*(a.tolist() for a in origin.arrays), strict=True):
            if v_q != 0.0:
                found.append(((arb(v_p) - arb(v_q)) / arb(v_q), (arb(mu_p) - arb(mu_q)) ** 2 / arb(v_q), origin.copies))
    if origin.reverse:
        return [(-t / (1 + t), m2 / (1 + t), n) for t, m2, n in found]
    return found
