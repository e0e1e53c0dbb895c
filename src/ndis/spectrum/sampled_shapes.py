"""The density of the loss of one sampled step, as `sampled_sums` needs it.

Without the record, the loss of a step is ℓ = log(1 − q + q w), and it runs away from one end: ℓ = end + sign · V with
V > 0. For a mean shift w is log-normal, the end is log(1−q) and V = log(1 + r w), r = q/(1−q).

For a pair N(m, (1+t) I) against N(0, I), log w = a + θX with θ = t/(2(1+t)), a = −Σ (½ log(1+t) + m²/(2t)). There
X = Σ (x + m/t)² is a non-central chi-square variable. The end is log(1 − q + q e^a), the sign is that of t, and
V = |log(1 + ρ(e^{θX} − 1))| with ρ = q e^a/(1 − q + q e^a).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from flint import arb
from scipy.special import gammaln, ive

from ndis._balls import Ball
from ndis._validate import Floats
from ndis.spectrum.sampled_density import log_steps

__all__ = ["CurvedShape", "Shape", "ShiftShape"]

_POINTS = 1200


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
        """Some increasing V, and the log of the mass near each; `reach` is in standard deviations of the noise."""

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


@dataclass(frozen=True)
class CurvedShape:
    """A pair with one excess t ≠ 0 in all its directions, at a rate below 1."""

    rate: float
    excess: float
    copies: float  # number of directions
    shift: float  # root of the sum of the squares of the shifts

    @property
    def sign(self) -> int:
        return 1 if self.excess > 0.0 else -1

    @property
    def _edge(self) -> float:
        return -0.5 * self.copies * math.log1p(self.excess) - 0.5 * self.shift**2 / self.excess

    @property
    def _log_odds(self) -> float:
        return math.log(self.rate) + self._edge - math.log1p(-self.rate)

    @property
    def log_scale(self) -> float:
        return -float(np.logaddexp(0.0, -self._log_odds))  # log ρ

    def end(self) -> Ball:
        t, m = arb(self.excess), arb(self.shift)
        edge = -arb(self.copies) * t.log1p() / 2 - m * m / (2 * t)
        return (arb(self.rate) * edge.expm1()).log1p()

    def _log_chi(self, x: Floats) -> Floats:
        """log of the density of X."""
        k, root = self.copies, abs(self.shift / self.excess)
        if root == 0.0:
            return (0.5 * k - 1.0) * np.log(x) - 0.5 * x - 0.5 * k * math.log(2.0) - float(gammaln(0.5 * k))
        z = root * np.sqrt(x)
        bend = (0.25 * k - 0.5) * (np.log(x) - 2.0 * math.log(root))
        if k == 1.0:
            near = 0.5 * np.log(2.0 / (math.pi * z)) + np.log1p(np.exp(-2.0 * z)) - math.log(2.0)
        else:
            near = np.log(ive(0.5 * k - 1.0, z))
        return -0.5 * (np.sqrt(x) - root) ** 2 + bend + near - math.log(2.0)

    def grid(self, reach: float, *, remove: bool) -> tuple[Floats, Floats]:
        wide = math.sqrt(1.0 + max(self.excess, 0.0)) if remove else 1.0
        far = wide * (abs(self.shift / self.excess) * wide + math.sqrt(self.copies) + reach)
        x = np.exp(np.linspace(-160.0 / self.copies, math.log(far), _POINTS // 3))
        x = np.unique(np.concatenate([x, np.linspace(0.0, far, _POINTS)[1:]])) ** 2
        theta = 0.5 * self.excess / (1.0 + self.excess)
        v = np.abs(np.log1p(math.exp(self.log_scale) * np.expm1(np.minimum(theta * x, 700.0))))
        v = np.where(theta * x > 300.0, theta * x + self.log_scale, v)
        keep = np.concatenate([[True], np.diff(v) > 0.0])
        return v[keep], (self._log_chi(x) + np.log(np.gradient(x)))[keep]

    def log_density(self, lams: Floats, log_scale: float) -> Floats:
        v = np.exp(lams + log_scale)
        rho, theta = math.exp(self.log_scale), 0.5 * self.excess / (1.0 + self.excess)
        with np.errstate(divide="ignore", invalid="ignore"):
            grown = np.expm1(self.sign * v) / rho  # e^{θX} − 1
            x = np.log1p(grown) / theta
            # dX/dλ = V dX/dV
            log_slope = self.sign * v + np.log(v) - self.log_scale - np.log1p(grown) - math.log(abs(theta))
            out = self._log_chi(x) + log_slope
        return np.where((grown > -1.0) & (x > 0.0), out, -math.inf)
