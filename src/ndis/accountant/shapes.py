"""The density of the loss of one sampled step, as `sampled_sums` needs it.

Without the record, the loss of a step is ℓ = log(1 − q + q w), and it runs away from one end: ℓ = end + sign · V with
V > 0. For a mean shift w is log-normal, the end is log(1−q) and V = log(1 + r w), r = q/(1−q).

For any other pair log w = a + D (`sampled_ratio`). If D has an end, at 0, then the end of ℓ is log(1 − q + q e^a), and
V = |log(1 + ρ(e^D − 1))| with ρ = q e^a/(1 − q + q e^a). Otherwise the end and V are those of a mean shift: w has no
end but 0. That also serves narrower pairs: only a single direction has a pole of its density at the other end, e^a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from flint import arb

from ndis._balls import Ball
from ndis._validate import Floats
from ndis.accountant.density import log_steps
from ndis.accountant.ratio import RatioLaw, RatioPanels
from ndis.errors import PrecisionError

__all__ = ["CurvedShape", "Shape", "ShiftShape"]

_POINTS = 1200
_FINE, _DEPTH = 40.0, 200.0  # a piece of the grid spans 16/40 of log V where the mass is above e^-200


class Shape(Protocol):
    """One step: where its loss ends and the law of the distance V from there, without the record."""

    @property
    def sign(self) -> int:
        """1 if the loss ℓ lies above its end, −1 if below."""

    @property
    def log_scale(self) -> float:
        """log of a typical V."""

    def end(self) -> Ball:
        """The end of ℓ, at the working precision."""

    def grid(self, reach: float, *, remove: bool) -> tuple[Floats, Floats]:
        """Some V in order, and the log of the mass near each; `reach` is in standard deviations of the noise."""

    def log_density(self, lams: Floats, log_scale: float) -> Floats:
        """log of the density of λ = log V − log_scale."""


@dataclass(frozen=True)
class ShiftShape:
    """A mean shift at a rate below 1."""

    rate: float
    shift: float

    @property
    def sign(self) -> int:
        return 1

    @property
    def log_scale(self) -> float:
        return math.log(self.rate) - math.log1p(-self.rate)

    def end(self) -> Ball:
        return (-arb(self.rate)).log1p()

    def grid(self, reach: float, *, remove: bool) -> tuple[Floats, Floats]:
        x = np.linspace(-reach, reach + self.shift if remove else reach, _POINTS)
        v = np.logaddexp(0.0, self.log_scale + self.shift * x - 0.5 * self.shift**2)
        return v, -0.5 * x * x + math.log(float(x[1] - x[0]) / math.sqrt(2.0 * math.pi))

    def log_density(self, lams: Floats, log_scale: float) -> Floats:
        out = np.empty(lams.size)
        log_steps(lams, log_scale, self.log_scale, self.shift, out)
        return out


class CurvedShape:
    """Any pair at a rate below 1, or at rate 1 a pair whose t have one sign; the pair has the record in its first law.

    >>> shape = CurvedShape(0.5, np.array([0.2]), np.array([0.0]), np.array([2.0]))
    >>> shape.sign, round(float(shape.end()), 6)  # log(½ + ½/1.2)
    (1, -0.087011)
    """

    def __init__(self, rate: float, excess: Floats, shift: Floats, copies: Floats) -> None:
        self.rate, self._pair = rate, (excess, shift, copies)
        self.ratio = RatioLaw(excess, shift, copies)
        self._panels = RatioPanels(self.ratio)
        side = self.ratio.side
        self._from_zero = side == 0 or (side < 0 and rate < 1.0 and self.ratio.dof >= 2.0)
        self.sign = 1 if self._from_zero else side
        odds = math.inf if rate == 1.0 else math.log(rate) - math.log1p(-rate)
        self.log_scale = odds if self._from_zero else -float(np.logaddexp(0.0, -(odds + self.ratio.offset)))  # log ρ
        if not self.log_scale < math.inf:
            raise PrecisionError("a release without sampling has no end of its loss")

    def end(self) -> Ball:
        if self._from_zero:
            return (-arb(self.rate)).log1p()
        edge = arb(0)
        for t, m, c in zip(*(a.tolist() for a in self._pair), strict=True):
            if t != 0.0 or m != 0.0:
                edge -= arb(c) * (arb(t).log1p() + arb(m) ** 2 / arb(t)) / 2
        return (arb(self.rate) * edge.expm1()).log1p()

    def _distance(self, tau: Floats) -> Floats:
        """V at τ of the law of the ratio."""
        if self._from_zero:
            return np.logaddexp(0.0, self.log_scale + self.ratio.log_ratio(tau))
        d = self.ratio.place(tau)
        if self.rate == 1.0:
            return np.abs(d)
        v = np.abs(np.log1p(math.exp(self.log_scale) * np.expm1(np.minimum(d, 700.0))))
        return np.where(d > 300.0, d + self.log_scale, v)

    def _log_distance(self, tau: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(self._distance(tau)), -700.0)

    def grid(self, reach: float, *, remove: bool) -> tuple[Floats, Floats]:
        heights = (self.ratio.log_ratio, np.zeros_like) if remove else (np.zeros_like,)
        for height in heights:
            self._panels.cover(height, 0.5 * reach * reach)
        tau, log_mass, _ = self._panels.nodes(self._log_distance, _FINE, heights, _DEPTH)
        v = self._distance(tau)
        if v[-1] < v[0]:
            v, log_mass = v[::-1], log_mass[::-1]
        return v[v > 0.0], log_mass[v > 0.0]

    def log_density(self, lams: Floats, log_scale: float) -> Floats:
        v = np.exp(lams + log_scale)
        if self.rate == 1.0:  # V = |D|
            return self.ratio.log_density(self.sign * v) + lams + log_scale
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # |e^{±V} − 1|/ρ, which is |e^D − 1|, or w
            log_grown = np.log(np.abs(np.expm1(self.sign * np.minimum(v, 700.0)))) - self.log_scale
            if self.sign > 0:
                log_grown = np.where(v > 700.0, v - self.log_scale, log_grown)
            if self._from_zero:
                d, found = log_grown - self.ratio.offset, log_grown
            else:
                d = found = np.where(log_grown > 600.0, log_grown, np.log1p(self.sign * np.exp(log_grown)))
            out = np.full(v.shape, -math.inf)
            good = ((d * self.ratio.side > 0.0) | (self.ratio.side == 0)) & np.isfinite(d)
            density = self.ratio.log_density_of(found[good]) if self._from_zero else self.ratio.log_density(d[good])
            out[good] = density
            # dD/dλ = V dD/dV
            return np.where(good, out + self.sign * v + np.log(v) - self.log_scale - found, -math.inf)
