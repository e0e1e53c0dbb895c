"""The log-moment of a Gaussian pair that is released every time: a closed form. The ends of its loss."""

from __future__ import annotations

import math

import numpy as np

from ndis._compile import compiled
from ndis._validate import Floats
from ndis.accountant.moment import Complexes
from ndis.spectrum.contour import exponent
from ndis.spectrum.loss import half_excess_log

__all__ = ["PlainMoment", "log_ratio_range"]

_UNIT = 2.0**-53


def log_ratio_range(excess: Floats, shift: Floats, copies: Floats) -> tuple[float, float]:
    """The ends of log dP/dQ: finite on the side on which every direction bounds it."""
    live = (excess != 0.0) | (shift != 0.0)
    t, m, c = excess[live], shift[live], copies[live]
    if not t.size:
        return 0.0, 0.0
    if not ((t > 0.0).all() or (t < 0.0).all()):
        return -math.inf, math.inf
    edge = math.fsum((c * (-0.5 * np.log1p(t) - 0.5 * m * m / t)).tolist())
    return (edge, math.inf) if t[0] > 0.0 else (-math.inf, edge)


@compiled()
def _exponents(s, t, ratio, nu, q, value, error):
    """K(s) − s·mean in closed form, for an array of s, and its rounding."""
    for i in range(s.size):
        value[i] = exponent(s[i], 0.0, t, ratio, nu, q, False)
        burden = 1.0
        for j in range(t.size):
            z = abs(s[i] * t[j])
            burden += 0.5 * nu[j] * min(z, z * z) + 0.5 * q[j] * abs(s[i]) ** 2 / abs(1.0 - s[i] * t[j])
        error[i] = 4.0 * _UNIT * burden


class PlainMoment:
    """K(s) − s·mean of one Gaussian pair that is released every time."""

    def __init__(self, excess: Floats, shift: Floats, copies: Floats) -> None:
        live = (excess != 0.0) | (shift != 0.0)
        self._t, m, copies = excess[live], shift[live], copies[live]
        self._ratio = 1.0 + self._t
        self._nu = np.where(self._t == 0.0, 0.0, copies)
        self._q = copies * m * m * self._ratio
        self.mean = math.fsum((copies * (half_excess_log(self._t, self._ratio) + 0.5 * m * m)).tolist())
        top = float(self._t.max(initial=0.0))
        self.limit = 1.0 / top if top > 0.0 else math.inf
        self.largest = 0.0  # a closed form has no phase to lose

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """K(s) − s·mean and its error."""
        value, error = np.empty(s.size, dtype=np.complex128), np.empty(s.size)
        _exponents(s, self._t, self._ratio, self._nu, self._q, value, error)
        return value, error

    def far_losses(self, s: float) -> tuple[float, float]:
        """Return zeros, because a closed form needs no other path."""
        return 0.0, 0.0
