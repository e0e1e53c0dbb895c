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

from ndis._search import quiet
from ndis._validate import Adjacency, Floats, Order, as_count, as_within, assign, require
from ndis.accountant.densities import DensityTable, SumTables
from ndis.accountant.density import RULE
from ndis.accountant.laws import BallLaw, Complexes, Law, LossDensity, kept
from ndis.accountant.laws.allocation_balls import AllocationBalls
from ndis.accountant.laws.mixture import complex_log1p
from ndis.errors import PrecisionError

_UNIT = 2.0**-53
_MOST_NOISE = 400  # noise multipliers lie between 2^-400 and 2^400
_DEPTH = 110.0  # −log of the mass, under both laws, that the table leaves out at each end
_MARGIN = 12.0  # log units by which the tables of the parts of a sum go deeper
_FINEST = 2.0**-46  # error of log f in a table, relative to 20 + |log f|
_LOOKS = 65  # places at which the end of a sum is looked for
_SHIFTS = (1e-4, 20.0)  # noise multipliers from 0.05 to 10,000
_KEPT = 8  # tables that are kept
_VARIATION = 10.0  # log units by which the density may change on one piece
_TURN = 4.0  # radians by which e^{sL} may turn on one half of a piece
_MOST_PIECES = 4096
_GONE = 45.0  # e^−45 of M(c) is below the rounding of a sum
_LEAST_KNOWN = 1e-2  # share of a moment that may lie beyond the table
_CHUNK = 200_000  # entries of one matrix of exponentials
_PLACES = 1601  # at which the ends of the density of a loss are looked for


class _Lognormals(SumTables):
    """Tables of the densities of sums of X. A sum ends before its parts do, so that it sees no end.

    `end` is log X beyond which one number has a mass of about e^{−_DEPTH} under P.
    """

    def __init__(self, shift: float, count: int) -> None:
        self.shift, self.count = shift, count
        # −log of the mass beyond the ends of one number; a sum of n has n times as much beyond the same V
        self.deviations = math.sqrt(2.0 * (_DEPTH + _MARGIN + math.log(count)))
        self.end = shift * self.deviations + 0.5 * shift**2  # counted from the mean under P
        super().__init__(0.5 * (self.deviations + shift) ** 2 + 5.0, _FINEST)
        self.table, self.noise = self._power(0, count), self._noise

    def _span(self, f: Callable[[Floats], Floats], scale: float, low: float, high: float) -> tuple[float, float]:
        """Return the ends of the table of a sum, beyond which the mass under both laws does not count."""
        unit = self._power(0, 1).scale
        lams = np.linspace(low, 0.0, _LOOKS)[1:]
        below = np.flatnonzero(f(lams) < -_DEPTH - math.log(self.count * unit / scale))
        least = float(lams[below[-1] if below.size else 0])
        most = self.end - math.log(scale)  # one large number
        lams = np.linspace(max(most, 0.0), high, _LOOKS)
        many = np.flatnonzero(f(lams) > math.log(scale / unit) + _MARGIN - self._depth)  # many that are a little large
        return least, float(lams[min(many[-1] + 1, _LOOKS - 1)]) if many.size else most

    def _one(self, j: int) -> DensityTable:
        """Return the table of one lognormal number."""
        log_unit = math.log(math.sqrt(2.0 * math.pi) * self.shift)

        def f(lams: Floats) -> Floats:
            return np.asarray(-0.5 * (lams / self.shift + 0.5 * self.shift) ** 2 - log_unit)

        low = -self.shift * self.deviations - 0.5 * self.shift**2
        return self._make(f, 1.0, low, self.end)


class _Epoch:
    """Keep the density of ℓ = log W under Q, on panels, and sums over it."""

    def __init__(self, shift: float, bins: int) -> None:
        sums = _Lognormals(shift, bins)
        self._table, self.noise = sums.table, sums.noise
        self.error = sums.table.error + 2.0 * _UNIT * math.log2(2.0 * bins)
        self.edges = self._table.edges + math.log(self._table.scale / bins)

    def nodes(self, low: float, high: float, width: float) -> tuple[Floats, Floats, Floats]:
        """Return ℓ, log of density times weight, and its error, on pieces between two ℓ of at most this width."""
        inside = self.edges[(self.edges > low) & (self.edges < high)]
        ends = np.unique(np.concatenate([[max(low, self.edges[0])], inside, [min(high, self.edges[-1])]]))
        panel = np.clip(np.searchsorted(self.edges, 0.5 * (ends[1:] + ends[:-1])) - 1, 0, self.edges.size - 2)
        looks = np.stack([ends[:-1], 0.5 * (ends[1:] + ends[:-1]), ends[1:]], axis=1)
        change = np.ptp(self.log_density(panel, looks), axis=1)
        parts = np.ceil(np.maximum(change / _VARIATION, np.diff(ends) / width) + 1e-9).astype(int)
        if parts.sum() > _MOST_PIECES:
            raise PrecisionError("the density of an epoch needs too many pieces")
        start = np.repeat(ends[:-1], parts)
        half = 0.5 * np.repeat(np.diff(ends) / parts, parts)
        place = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
        x = (start + half * (2 * place + 1))[:, None] + half[:, None] * RULE[0]
        log_f = self.log_density(np.repeat(panel, parts), x)
        doubt = self.error + (self.noise + 4.0 * _UNIT) * (1.0 + np.abs(log_f))
        return x.ravel(), (log_f + np.log(half)[:, None] + np.log(RULE[1])).ravel(), doubt.ravel()

    def log_density(self, panel: NDArray[np.int64], x: Floats) -> Floats:
        """Return log f at points of the panels, a row for each panel given."""
        left, right = self.edges[panel][:, None], self.edges[panel + 1][:, None]
        z, series = np.clip((2.0 * x - left - right) / (right - left), -1.0, 1.0), self._table.series[panel]
        b1 = b2 = np.zeros(x.shape)
        for k in range(series.shape[1] - 1, 0, -1):
            b1, b2 = 2.0 * z * b1 - b2 + series[:, k, None], b1
        return np.asarray(z * b1 - b2 + series[:, 0, None])

    def level(self, width: float) -> tuple[Floats, Floats, Floats]:
        """Return the nodes of the whole table for pieces of at most this width."""
        return self._level(2.0 ** math.floor(math.log2(max(min(width, 1.0), 1e-12))))

    @kept
    def _level(self, width: float) -> tuple[Floats, Floats, Floats]:
        return self.nodes(-math.inf, math.inf, width)


_epoch = lru_cache(_KEPT)(_Epoch)


class Allocation(Law):
    """Evaluate one epoch in which each record goes to one of several bins.

    >>> law = AllocationStep(1.0, 10).law("remove")
    >>> round(law.log_delta(0.5)[0], 9)
    -3.617476201
    """

    accuracy = 1e-9  # aim for the error of log δ, relative to 1 + |log δ|
    direct = True  # both come from one table

    def __init__(self, step: AllocationStep, order: Order) -> None:
        # rounded up, which is the safe side
        shift = math.nextafter(math.nextafter(math.sqrt(step.passes) / step.noise_multiplier, math.inf), math.inf)
        if not _SHIFTS[0] <= shift <= _SHIFTS[1]:
            raise PrecisionError(
                f"the epoch is not known: a noise multiplier of {1.0 / shift:.3g} is out of reach; take one between "
                f"{1.0 / _SHIFTS[1]:g} and {1.0 / _SHIFTS[0]:g}"
            )
        self.step, self.shift, self.bins, self.remove = step, shift, step.bins, order == "remove"
        self.ends = (-math.inf, math.inf)
        self.size = 0.5 * shift**2  # the mean loss if the bin were known, as for a sampled mean shift
        self._epoch = _epoch(shift, step.bins)
        loss, log_p, _ = self._tilted(1.0)
        self.mean, self.largest = float((np.exp(log_p) * loss).sum()), float(np.abs(loss).max())

    def _tilted(self, width: float) -> tuple[Floats, Floats, Floats]:
        """Return the losses at the nodes, the logarithms of their masses and the relative errors of those."""
        loss, log_f, doubt = self._epoch.level(width)
        return (loss, log_f + loss, doubt) if self.remove else (-loss, log_f, doubt)

    def density(self, order: Order, depth: float) -> LossDensity | None:
        """Return the density of ℓ, counted from a place before its table; none below the table."""
        if depth > _DEPTH:
            return None
        epoch, edges = self._epoch, self._epoch.edges
        least = 1.05 * float(edges[0])

        def log_f(lams: Floats) -> tuple[Floats, Floats]:
            ell = -least * np.expm1(lams)
            panel = np.clip(np.searchsorted(edges, ell) - 1, 0, edges.size - 2)
            value = epoch.log_density(panel, ell[:, None])[:, 0]
            error = epoch.error + epoch.noise * (1.0 + np.abs(value))
            return value + (ell if self.remove else 0.0) + np.log(-least) + lams, error

        places = np.log1p(-np.linspace(edges[0], edges[-1], _PLACES) / least)
        return LossDensity(arb(least), -least, places, log_f)

    def reversed(self) -> Allocation:
        """Return the law of the other order."""
        return Allocation(self.step, "add" if self.remove else "remove")

    def enclosed(self) -> BallLaw:
        """Return the law in balls."""
        passes, noise = self.step.passes, self.step.noise_multiplier
        return AllocationBalls(lambda: arb(passes).sqrt() / arb(noise), self.bins, self._log_moment, remove=self.remove)

    def _log_moment(self, c: float) -> float:
        loss, log_p, _ = self._tilted(1.0)
        terms = log_p + c * loss
        if max(terms[0], terms[-1]) > terms.max() - 10.0:  # the table ends too early; take a bound
            return 0.5 * c * self.shift**2 * (1.0 + (c if self.remove else c / self.bins))  # E W^{1+c} ≤ E X^{1+c}
        return float(np.logaddexp.reduce(terms))

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return log δ(ε) of the epoch alone and its error, from an integral of positive terms."""
        if not self._epoch.edges[0] < (epsilon if self.remove else -epsilon) < self._epoch.edges[-1]:
            return math.nan, math.inf
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

    @quiet
    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """Return log M(s) − s·mean at points of the upper half-plane, and the estimated errors."""
        value, error = np.full(s.size, complex(math.nan)), np.full(s.size, math.inf)
        fall = 0.5 * self.shift**2 / self.bins * s.imag**2  # |M(c + iy)| ≤ e^−fall M(c): thm:allocation-factor
        high = ~(fall < _GONE)
        points = np.where(high, s.real, s)
        try:
            loss, log_p, doubt = self._tilted(2.0 * _TURN / max(float(points.imag.max(initial=0.0)), 1e-300))
        except PrecisionError:
            return value, error
        p, size = np.exp(log_p), max(_CHUNK // loss.size, 1)
        for some in (slice(start, start + size) for start in range(0, s.size, size)):
            z = np.outer(points[some], loss - self.mean)
            terms = p * (np.expm1(z) - z)
            excess = terms.sum(axis=1)
            # an exponential is as wrong, relatively, as its exponent is absolutely
            wrong = (np.abs(terms) + p * np.abs(z)) * (doubt + _UNIT * (2.0 + np.abs(z)))
            # beyond an end of the table there is less than on its last piece, or nothing is known
            ends = np.abs(terms[:, : RULE[0].size]).sum(axis=1) + np.abs(terms[:, -RULE[0].size :]).sum(axis=1)
            known = 10.0 * ends < _LEAST_KNOWN * (1.0 + np.abs(terms).sum(axis=1))  # no bound may rest on less
            value[some] = np.where(known, complex_log1p(excess), math.nan)
            error[some] = (wrong.sum(axis=1) + 10.0 * ends) / np.abs(1.0 + excess) + 4.0 * _UNIT * np.abs(value[some])
        value[high] -= fall[high]
        error[high] = 2.0  # the value is only a bound
        return value, np.where(np.isfinite(value), error, math.inf)


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
        assign(self, bins=as_count("bins", self.bins), passes=as_count("passes", self.passes))
        require(self.bins >= 2, "bins", "be at least 2", self.bins, "one batch holds every record")

    def law(self, order: Order) -> Allocation:
        """Return the law of one epoch."""
        return Allocation(self, order)
