"""How far a loss moves where the numbers behind a law are a little off, and a harder test that allows for it.

Say the law in hand is P = N(μ, Σ) and the one meant is P* = N(μ*, Σ*). In standard deviations of P let the means lie
at most `shift` = e apart, and the covariances differ by a matrix of norm at most `spread` = η ≤ 1/5. For every x > 0

    the mean:        L ~ N(e²/2, e²) stays below e²/2 + e√(2x),
    the covariance:  L ≤ ½·1.2ηd + ½·1.25η·χ²_d stays below 2η(d + x), by χ²_d ≤ 2d + 3x,

each but for a probability of e^−x; 5/4 of the sum, `room`, also does for the order P* from P. By the triangle
inequality of δ, with rooms r_P and r_Q and κ = 3e^−x,

    δ_{P,Q}(ε + r_P + r_Q) ≤ κ + e^{r_P} (δ_{P*,Q*}(ε) + e^ε κ).

So where δ_{P,Q} at ε + r_P + r_Q is above e^{r_P + r_Q}·δ, and κ far below it, the laws meant break the claim too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ndis._validate import Floats

if TYPE_CHECKING:
    from ndis.auditing.laws import Law

__all__ = ["ROUNDING", "Room", "confidence", "exactly", "harder", "room", "rooms"]

Room = Callable[[float], float]  # x → ε

ROUNDING = 2.0**-52  # of one rounding to a float, with room
_MOST = 0.2  # η from which nothing is said
_CLEAR = 40.0  # e^−40 of the claimed δ does not count
_NOTHING = 800.0  # e^−800 is below every float
_ENOUGH = 50.0  # a room beyond this excludes any conviction


def exactly(x: float) -> float:
    """The room of numbers that are exact."""
    return 0.0


def room(shift: float, spread: float, dimension: int) -> Room:
    """The room of one law, as a function of x.

    >>> room(1e-12, 0.0, 3)(50.0) < 1.3e-11
    True
    """
    if not (spread <= _MOST and math.isfinite(shift)):
        return lambda x: math.inf
    return lambda x: 1.25 * (0.5 * shift * shift + shift * math.sqrt(2.0 * x) + 2.0 * spread * (dimension + x))


def confidence(epsilon: float, delta: float) -> float:
    """An x with e^−x (1 + e^ε) far below δ, or below all floats where δ = 0."""
    return epsilon + (_CLEAR - math.log(delta) if delta > 0.0 else _NOTHING)


def harder(allowed: Room, epsilon: float, delta: float) -> tuple[float, float] | None:
    """(ε', δ') such that δ_{P,Q}(ε') > δ' refutes (ε, δ) for the laws meant; None where nothing does."""
    r = allowed(confidence(epsilon, delta))
    if r == 0.0:
        return epsilon, delta
    if not r <= _ENOUGH:
        return None
    raised = math.exp(r) * delta * (1.0 + 2.0**-48) if delta > 0.0 else math.ulp(0.0)
    return math.nextafter(epsilon + r, math.inf), raised


def rooms(p: Law, q: Law, accuracy: float) -> Room:
    """The room of two laws whose numbers are relatively accurate: each mean to `accuracy` of itself and of its standard
    deviation, each covariance to `accuracy` of the two standard deviations. Fractions are exact.

    A variance of 0 is 0. Where both laws fix a coordinate, at places that are no further apart than the accuracy of the
    numbers, nothing can be said.
    """
    if accuracy == 0.0 or (p.exact is not None and q.exact is not None):
        return exactly
    apart = np.abs(p.mean - q.mean)
    fixed = (p.variances == 0) & (q.variances == 0) & (apart > 0)
    if (apart <= accuracy * (np.abs(p.mean) + np.abs(q.mean)))[fixed].any():
        return lambda x: math.inf
    one, other = _room(p, accuracy), _room(q, accuracy)
    return lambda x: one(x) + other(x)


def _room(law: Law, accuracy: float) -> Room:
    if law.exact is not None:
        return exactly
    free = law.variances > 0
    count = int(free.sum())
    # |error of μᵢ| ≤ a(|μᵢ| + σᵢ); in correlations all errors are at most a, a matrix of norm at most a·d
    far: Floats = np.abs(law.mean[free]) / np.sqrt(law.variances[free]) + 1.0
    least = law.smallest
    if not least > 0.0:
        return lambda x: math.inf
    size = 1 if law.covariance.ndim == 1 else count
    return room(accuracy * float(np.linalg.norm(far)) / math.sqrt(least), accuracy * size / least, count)
