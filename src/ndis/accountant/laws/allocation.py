"""In random allocation (balls and bins) each record goes to one of t batches of an epoch, drawn anew in every epoch.

With shift μ = 1/σ the worst pair of one epoch (thm:allocation) is P = (1/t) Σ N(μeᵢ, I) against Q = N(0, I). So

    W = dP/dQ = (1/t) Σ Xᵢ,      Xᵢ = e^{μgᵢ − μ²/2} independent,

is a mean of lognormal numbers. Under Q, with ℓ = log W,

    δ_remove(ε) = E (W − e^ε)₊,      δ_add(ε) = E (1 − e^ε W)₊,      M_remove(s) = E W^{1+s},      M_add(s) = E W^{−s}.

**Floats.** The density of the sum of t lognormals comes from that of one by doubling (`ndis.accountant.densities`). No
term cancels, so the relative accuracy reaches far into both tails. One epoch is an integral of positive terms over it.
Moments are Gauss–Legendre sums over pieces on which neither the density nor the phase of e^{sL} changes much. The
table ends where both laws have a mass below e^−110, and what lies beyond counts as an error.

**Balls.** See `ndis.accountant.laws.allocation_balls`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from flint import arb
from numpy.typing import NDArray

from ndis._validate import Adjacency, Floats, Order, as_count, as_within
from ndis.accountant.densities import DensityTable, SumTables
from ndis.accountant.density import RULE
from ndis.accountant.laws import BallLaw, Complexes
from ndis.accountant.laws.allocation_balls import AllocationBalls
from ndis.accountant.laws.mixture import complex_log1p, quiet
from ndis.errors import ParameterError, PrecisionError

__all__ = ["Allocation", "AllocationStep"]

_UNIT = 2.0**-53
_MOST_NOISE = 400  # noise multipliers lie between 2^-400 and 2^400
_DEPTH = 110.0  # −log of the mass, under both laws, that the table leaves out at each end
_MARGIN = 12.0  # log units by which the tables of the parts of a sum go deeper
_FINEST = 2.0**-50  # error of log f in a table, relative to 20 + |log f|
_LOOKS = 65  # places at which the end of a sum is looked for
_SHIFTS = (1e-4, 20.0)  # noise multipliers from 0.05 to 10,000
_KEPT = 8  # tables that are kept
_VARIATION = 10.0  # log units by which the density may change on one piece
_TURN = 4.0  # radians by which e^{sL} may turn on one half of a piece
_MOST_PIECES = 4096
_GONE = 45.0  # e^−45 of M(c) is below the rounding of a sum
_NEAR = 0.5  # |sL| below this loses digits in e^{sL} − 1 − sL
_CHUNK = 200_000  # entries of one matrix of exponentials
_APART = 3.0  # log units by which the tilted density falls between losses that lie apart


class _Lognormals(SumTables):
    """Tables of the densities of sums of lognormal numbers. A sum ends before its parts do, so that it sees no end."""

    def __init__(self, shift: float, count: int) -> None:
        self.shift, self.count = shift, count
        # −log of the mass beyond the ends of one number; a sum of n has n times as much beyond the same V
        self.deviations = math.sqrt(2.0 * (_DEPTH + _MARGIN + math.log(count)))
        self.most = shift * self.deviations + 0.5 * shift**2  # log V, counted from the mean under P
        super().__init__(0.0, 0.5 * (self.deviations + shift) ** 2 + 5.0, -math.inf, _FINEST)
        self.table, self.noise = self._power(0, count), self._noise

    def _one(self, j: int) -> DensityTable:
        log_unit = math.log(math.sqrt(2.0 * math.pi) * self.shift)

        def f(lams: Floats) -> Floats:
            return np.asarray(-0.5 * (lams / self.shift + 0.5 * self.shift) ** 2 - log_unit)

        low = -self.shift * self.deviations - 0.5 * self.shift**2
        return self._make(f, 1.0, low, self.most, 0.0, (), 0.0, 0.0)

    def _span(
        self, f: Callable[[Floats], Floats], scale: float, low: float, high: float, mass: float
    ) -> tuple[float, float]:
        lams = np.linspace(low, 0.0, _LOOKS)[1:]
        below = np.flatnonzero(f(lams) < -_DEPTH - math.log(self.count / scale))
        least = float(lams[below[-1] if below.size else 0])
        most = self.most - math.log(scale)  # one large number
        lams = np.linspace(max(most, 0.0), high, _LOOKS)
        value = f(lams)
        many = np.flatnonzero(value > math.log(scale) + _MARGIN - self._cut)  # many that are a little large
        return least, float(lams[min(many[-1] + 1, _LOOKS - 1)]) if many.size else most


class _Epoch:
    """Keep the density of ℓ = log W under Q, on panels, and sums over it."""

    def __init__(self, shift: float, bins: int) -> None:
        sums = _Lognormals(shift, bins)
        self._table, self._noise = sums.table, sums.noise
        self.error = sums.table.error + 2.0 * _UNIT * math.log2(2.0 * bins)
        self.edges = self._table.edges + math.log(self._table.scale / bins)
        self._levels: dict[float, tuple[Floats, Floats, Floats]] = {}

    def nodes(self, low: float, high: float, width: float) -> tuple[Floats, Floats, Floats]:
        """Return ℓ, log of density times weight, and its error, on pieces between two ℓ of at most this width."""
        inside = self.edges[(self.edges > low) & (self.edges < high)]
        ends = np.unique(np.concatenate([[max(low, self.edges[0])], inside, [min(high, self.edges[-1])]]))
        panel = np.clip(np.searchsorted(self.edges, 0.5 * (ends[1:] + ends[:-1])) - 1, 0, self.edges.size - 2)
        looks = np.stack([ends[:-1], 0.5 * (ends[1:] + ends[:-1]), ends[1:]], axis=1)
        change = np.ptp(self._log_density(panel, looks), axis=1)
        parts = np.ceil(np.maximum(change / _VARIATION, np.diff(ends) / width) + 1e-9).astype(int)
        if parts.sum() > _MOST_PIECES:
            raise PrecisionError("the density of an epoch needs too many pieces")
        start = np.repeat(ends[:-1], parts)
        half = 0.5 * np.repeat(np.diff(ends) / parts, parts)
        place = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
        x = (start + half * (2 * place + 1))[:, None] + half[:, None] * RULE[0]
        log_f = self._log_density(np.repeat(panel, parts), x)
        doubt = self.error + (self._noise + 4.0 * _UNIT) * (1.0 + np.abs(log_f))
        return x.ravel(), (log_f + np.log(half)[:, None] + np.log(RULE[1])).ravel(), doubt.ravel()

    def _log_density(self, panel: NDArray[np.int64], x: Floats) -> Floats:
        """Return log f at points of the panels, a row for each panel given."""
        left, right = self.edges[panel][:, None], self.edges[panel + 1][:, None]
        z, series = np.clip((2.0 * x - left - right) / (right - left), -1.0, 1.0), self._table.series[panel]
        b1 = b2 = np.zeros(x.shape)
        for k in range(series.shape[1] - 1, 0, -1):
            b1, b2 = 2.0 * z * b1 - b2 + series[:, k, None], b1
        return np.asarray(z * b1 - b2 + series[:, 0, None])

    def level(self, width: float) -> tuple[Floats, Floats, Floats]:
        """Return the nodes of the whole table for pieces of at most this width."""
        width = 2.0 ** math.floor(math.log2(max(min(width, 1.0), 1e-12)))
        if width not in self._levels:
            self._levels[width] = self.nodes(-math.inf, math.inf, width)
        return self._levels[width]


@lru_cache(_KEPT)
def _epoch(shift: float, bins: int) -> _Epoch:
    return _Epoch(shift, bins)


class Allocation:
    """Evaluate one epoch in which each record goes to one of several bins.

    >>> law = Allocation(1.0, 10, "remove")
    >>> round(law.log_delta(0.5)[0], 9)
    -3.617476201
    """

    accuracy = 1e-9  # aim for the error of log δ, relative to 1 + |log δ|

    def __init__(self, shift: float, bins: int, order: Order, step: AllocationStep | None = None) -> None:
        if not _SHIFTS[0] <= shift <= _SHIFTS[1]:
            raise PrecisionError(
                f"the epoch is not known: a noise multiplier of {1.0 / shift:.3g} is out of reach; take one between "
                f"{1.0 / _SHIFTS[1]:g} and {1.0 / _SHIFTS[0]:g}"
            )
        self.shift, self.bins, self.order, self.step = shift, bins, order, step
        self.remove = order == "remove"
        self.limit, self.ends, self.uncertainty, self.size = math.inf, (-math.inf, math.inf), 0.0, 0.0
        self._epoch = _epoch(shift, bins)
        ell, log_p, _ = self._tilted(1.0)
        self.mean = float((np.exp(log_p) * ell).sum())
        self.largest = float(np.abs(ell).max())

    def _tilted(self, width: float) -> tuple[Floats, Floats, Floats]:
        """Return the losses at the nodes, the logarithms of their masses and the relative errors of those."""
        ell, log_f, doubt = self._epoch.level(width)
        return (ell, log_f + ell, doubt) if self.remove else (-ell, log_f, doubt)

    def reversed(self) -> Allocation:
        """Return the law of the other order."""
        return Allocation(self.shift, self.bins, "add" if self.remove else "remove", self.step)

    def enclosed(self) -> BallLaw:
        """Return the law in balls."""
        if self.step is None:
            raise PrecisionError("an epoch without its exact inputs has no certificate")
        exact = arb(self.step.passes).sqrt() / arb(self.step.noise_multiplier)
        return AllocationBalls(exact, self.bins, self._log_moment, remove=self.remove)

    def _log_moment(self, c: float) -> float:
        ell, log_p, _ = self._tilted(1.0)
        terms = log_p + c * ell
        top = float(terms.max())
        if max(terms[0], terms[-1]) > top - 10.0:  # the table ends too early; W is at least the geometric mean of the X
            return 0.5 * c * self.shift**2 * (1.0 + c / self.bins)
        return top + math.log(float(np.exp(terms - top).sum()))

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return log δ(ε) of the epoch alone and its error, from an integral of positive terms."""
        if self.remove:
            ell, log_f, doubt = self._epoch.nodes(epsilon, math.inf, 1.0)
            gain = epsilon + np.log(np.expm1(ell - epsilon))
        else:
            ell, log_f, doubt = self._epoch.nodes(-math.inf, -epsilon, 1.0)
            gain = np.log(-np.expm1(ell + epsilon))
        terms = log_f + gain
        top = float(terms.max())
        share = np.exp(terms - top)
        value = top + math.log(float(share.sum()))
        error = float((share * doubt).sum() / share.sum()) + 8.0 * _UNIT * (8.0 + abs(value))
        return value, error + math.exp(min(2.0 - _DEPTH - value, 100.0))

    def far_losses(self, s: float) -> tuple[float, float]:
        """Return share and spread of large losses under the law tilted by s, if they lie apart; else 0, 0."""
        ell, log_p, _ = self._tilted(1.0)
        height = log_p - np.log(np.gradient(ell)) + s * ell if self.remove else np.zeros(1)
        mode = int(height.argmax())
        rises = height[mode:] - np.minimum.accumulate(height[mode:])
        if not rises.max() > _APART:
            return 0.0, 0.0
        valley = mode + int(height[mode : mode + int(rises.argmax()) + 1].argmin())
        weight = np.exp(log_p + s * ell - (log_p + s * ell).max())
        far, far_ell = weight[valley:], ell[valley:]
        centre = float((far * far_ell).sum() / far.sum())
        return float(far.sum() / weight.sum()), math.sqrt(float((far * (far_ell - centre) ** 2).sum() / far.sum()))

    @quiet
    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """Return log M(s) − s·mean at points of the upper half-plane, and the estimated errors."""
        value, error = np.full(s.size, complex(math.nan)), np.full(s.size, math.inf)
        fall = 0.5 * self.shift**2 / self.bins * s.imag**2  # |M(c + iy)| ≤ e^−fall M(c): thm:allocation-factor
        high = ~(fall < _GONE)
        points = np.where(high, s.real, s)
        try:
            ell, log_p, doubt = self._tilted(2.0 * _TURN / max(float(points.imag.max(initial=0.0)), 1e-300))
        except PrecisionError:
            return value, error
        size = max(_CHUNK // ell.size, 1)
        for start in range(0, s.size, size):
            some = slice(start, start + size)
            value[some], error[some] = self._moments(points[some], ell, log_p, doubt)
        value[high] -= (fall + 1j * self.mean * s.imag)[high]
        error[high] = 2.0  # the value is only a bound
        return value, np.where(np.isfinite(value), error, math.inf)

    def _moments(self, s: Complexes, ell: Floats, log_p: Floats, doubt: Floats) -> tuple[Complexes, Floats]:
        z, p = np.outer(s, ell), np.exp(log_p)
        exponent = log_p + z
        top = exponent.real.max(axis=1)
        whole = np.exp(exponent - top[:, None])
        small = np.abs(z) < _NEAR
        second = np.where(top[:, None] < 600.0, whole * np.exp(np.minimum(top, 600.0))[:, None], np.inf) - p * (1.0 + z)
        rows, columns = np.nonzero(small)
        w = z[rows, columns]
        second[rows, columns] = p[columns] * (np.expm1(w) - w)
        excess = second.sum(axis=1)
        near = excess + self.mean * s  # M − 1
        modulus, sizes = np.abs(whole), np.abs(second)
        total = whole.sum(axis=1)
        close = np.abs(near) < 0.5
        value = np.where(close, excess + (complex_log1p(near) - near), top + np.log(total) - self.mean * s)
        rounding = _UNIT * (2.0 + 0.25 * np.abs(z) + 0.25 * np.abs(log_p))
        wrong_near = ((sizes + p * np.abs(z)) * (doubt + rounding)).sum(axis=1) / np.abs(1.0 + near)
        wrong_far = (modulus * (doubt + rounding)).sum(axis=1) / np.abs(total)
        # beyond an end of the table there is less than on its last piece, or nothing is known
        ends = 10.0 * (modulus[:, : RULE[0].size] + modulus[:, -RULE[0].size :]).sum(axis=1) / np.abs(total)
        return value, np.where(close, wrong_near, wrong_far) + ends + 4.0 * _UNIT * np.abs(value)


@dataclass(frozen=True)
class AllocationStep:
    """Describe one epoch in which each record goes to one of several batches, drawn at random.

    Parameters
    ----------
    noise_multiplier : float
        σ: the noise of each batch over the sensitivity.
    bins : int
        Number of batches.
    passes : int
        Number of epochs that keep this assignment.
    """

    noise_multiplier: float
    bins: int
    passes: int = 1

    kind: ClassVar[str] = "allocation"
    adjacency: ClassVar[Adjacency] = "add-remove"
    attained: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", as_within("noise_multiplier", self.noise_multiplier, _MOST_NOISE))
        object.__setattr__(self, "bins", as_count("bins", self.bins))
        object.__setattr__(self, "passes", as_count("passes", self.passes))
        if self.bins < 2:
            raise ParameterError("bins", "be at least 2", self.bins, "one batch holds every record")

    def law(self, order: Order) -> Allocation:
        """Return the law of one epoch; floats round the shift up, which is the safe side."""
        shift = math.nextafter(math.nextafter(math.sqrt(self.passes) / self.noise_multiplier, math.inf), math.inf)
        return Allocation(shift, self.bins, order, self)
