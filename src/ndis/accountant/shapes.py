"""The density of the loss of one sampled step, as `sampled_sums` needs it.

Without the record, the loss of a step is ℓ = log(1 − q + q w), and it runs away from one end: ℓ = end + sign · V with
V > 0. For a mean shift w is log-normal, the end is log(1−q) and V = log(1 + r w), r = q/(1−q).
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

__all__ = ["Shape", "ShiftShape"]

_POINTS = 1200


class Shape(Protocol):
    """A step knows where its loss ends and the law of the distance V from there, without the record."""

    @property
    def sign(self) -> int:
        """1 if the loss ℓ lies above its end, −1 if below."""

    @property
    def log_scale(self) -> float:
        """log of a typical V."""

    def end(self) -> Ball:
        """The end of ℓ, at the working precision."""

    def grid(self, deviations: float, *, remove: bool) -> tuple[Floats, Floats]:
        """Some V in order, and the log of the mass near each; `deviations` is in standard deviations of the noise."""

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

    def grid(self, deviations: float, *, remove: bool) -> tuple[Floats, Floats]:
        x = np.linspace(-deviations, deviations + self.shift if remove else deviations, _POINTS)
        v = np.logaddexp(0.0, self.log_scale + self.shift * x - 0.5 * self.shift**2)
        return v, -0.5 * x * x + math.log(float(x[1] - x[0]) / math.sqrt(2.0 * math.pi))

    def log_density(self, lams: Floats, log_scale: float) -> Floats:
        out = np.empty(lams.size)
        log_steps(lams, log_scale, self.log_scale, self.shift, out)
        return out
