"""δ(ε) from densities for sampled mean shifts that are composed with plain ones, whose loss is Gaussian.

Let U be the sum of the distances of the sampled losses from their ends, E the sum of the ends, and G the loss of the
plain releases, with the profile δ_G. Then δ(ε) = E δ_G(ε − E ∓ U), an integral of positive terms over the table of U
(`ndis.accountant.sums`). The sign is − in the remove order and + in the add order. The tables are made for the saddle
of the whole law. If Chernoff's bound proves far above δ, the tables are made again, and they reach farther.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from flint import arb

from ndis._balls import precision
from ndis._validate import Floats
from ndis.accountant.density import CHEBYSHEV_POINTS, RULE, TO_SERIES, mean_profiles
from ndis.accountant.shapes import Shape
from ndis.accountant.sums import CUT, LossSums, Table, chernoff_factor
from ndis.spectrum.closed_forms import mean_shift_log_delta

__all__ = ["MixedSums"]

_UNIT = 2.0**-53
_NEAR, _HIGH = -12.0, 42.0  # ends of the table of δ_G, in standard deviations
_PANELS = 108
_ROUNDS = 3
_ONE = 1e-6  # log δ is not above 0


class _Profile:
    """log δ_G as Chebyshev series; a `shift` of 0 stands for no Gaussian loss."""

    def __init__(self, shift: float) -> None:
        self.shift, self.low = shift, _NEAR * shift
        self.width = ((_HIGH - _NEAR) * shift + 0.5 * shift * shift) / _PANELS or 1.0
        middles = self.low + self.width * (np.arange(_PANELS)[:, None] + 0.5 * (1.0 + CHEBYSHEV_POINTS))
        self.panels = np.zeros((1, TO_SERIES.shape[0]))
        if shift > 0.0:
            self.panels = np.asarray(mean_shift_log_delta(middles.ravel(), shift)).reshape(middles.shape) @ TO_SERIES.T

    def mean(self, points: Floats, side: int, table: Table) -> tuple[Floats, Floats]:
        """log E δ_G(x − side·V) and minus its slope."""
        value, slope = np.empty(points.size), np.empty(points.size)
        law = float(side), table.scale, table.edges, table.series, table.tops
        mean_profiles(points, *law, self.shift, self.low, self.width, self.panels, *RULE, value, slope)
        return value, slope


class MixedSums:
    """The profile near one ε of sampled mean shifts and a Gaussian loss with this `shift`.

    >>> from ndis.accountant.shapes import ShiftShape
    >>> law = MixedSums([(ShiftShape(0.1, 1.0), 2)], 1.0, 0.5, add=False)
    >>> round(law.log_delta(0.5)[0], 6)
    -1.410445
    """

    def __init__(self, steps: Sequence[tuple[Shape, int]], shift: float, epsilon: float, *, add: bool) -> None:
        self._shift, self._profile = shift, _Profile(shift)
        self._sums = LossSums(steps, None, add=add)
        cut, before = CUT, -math.inf
        for _ in range(_ROUNDS):
            saddle = self._saddle(epsilon)
            for _ in range(60):
                if self._sums.dies(saddle, cut):
                    break
                saddle *= 0.7
            self._sums.build(saddle, cut, -math.inf)
            self.saddle = saddle
            value, _, error = self.log_delta(epsilon)
            if not value > -math.inf or error < 1e-11 * (1.0 + abs(value)) or value == before:
                return
            before, cut = value, CUT + max(self._bound(epsilon) - value, 0.0) + 4.0

    def _rest(self, epsilon: float) -> float:
        """ε less the ends; the difference is rounded once."""
        with precision(160):
            return float(arb(epsilon) - self._sums.end)

    def _saddle(self, epsilon: float) -> float:
        v, square = self._rest(epsilon), self._shift**2
        return LossSums.saddle_of(lambda c: self._sums.tilted_mean(c) + square * (0.5 + c) - v)

    def _bound(self, epsilon: float) -> float:
        """Chernoff's bound on log δ."""
        c = self.saddle
        mass = self._sums.table.mass + 0.5 * c * (1.0 + c) * self._shift**2
        return mass + chernoff_factor(c) - c * self._rest(epsilon)

    def log_delta(self, epsilon: float) -> tuple[float, float, float]:
        """log δ, −d log δ/dε and the error."""
        v, table = self._rest(epsilon), self._sums.table
        logs, slopes = self._profile.mean(np.array([v]), self._sums.side, table)
        value, slope = float(logs[0]), float(slopes[0])
        if not -math.inf < value < _ONE:
            return math.nan, math.nan, math.inf
        size = max(1.0, abs(v), table.scale * math.exp(table.edges[-1]))
        error = self._sums.error(value, self._bound(epsilon))
        return value, slope, error + 8.0 * _UNIT * (16.0 + abs(value) + slope * size)
