"""One symmetric pair dominates a step whose batch has a fixed size, drawn without replacement (thm:fixed-size).

A replaced record is in the batch with probability q = B/n, and then moves the sum by up to twice the clipping norm.
With μ = 2/σ and W = 1 − q + q e^{μx − μ²/2}, x standard normal under Q, the profile of a step at ε ≥ 0 is at most that
of W·Q against Q. Neighbours are symmetric, so the same holds in both orders. The pair with this profile at ε ≥ 0 that
is its own reverse has, for x > μ/2, where W > 1, the loss ℓ = log W with density Wφ and −ℓ with density φ; the rest of
its mass has the loss 0. So

    M(s) − 1 = ∫ over x > μ/2 of φ (W^{1+s} + W^{−s} − W − 1) dx,      κ = ∫ φ (W − 1) ℓ dx.

The integrals have an end, so x = μ/2 + log(1 + e^u) with u = v − e^{−v/4}, which makes them whole lines in v again. The
first term is taken on a path that rises from μ/2 to the height θ, the second on its mirror image: both make the phase
decay. Positive places are v of the first, negative ones those of the second.

No neighbours have this very pair if there are several steps. Some have W·Q against Q or its reverse in each step, as
they like: that is the attained lower end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from flint import arb

from ndis._balls import Ball
from ndis._search import quiet
from ndis._validate import Adjacency, Floats, Order, as_size, as_within, require
from ndis.accountant.laws import LossDensity
from ndis.accountant.laws.mixture import Mixture, log_side, log_window
from ndis.accountant.laws.mixture_steps import mixture_law
from ndis.accountant.stand_ins import ProfileOnly

_START = -13.0  # the first v; there t is 1e-17
_STEP = 1.0 / 64.0  # step of v for the mean
_PLACES = 1601  # at which the ends of the density are looked for
_ROOT = math.sqrt(2.0 * math.pi)
_UNIT = 2.0**-53


class FixedSize(Mixture):
    """Evaluate the moments of the symmetric pair, from the law of W·Q against Q."""

    symmetric = True

    def __init__(self, one_sided: Mixture) -> None:
        self.one_sided = one_sided
        super().__init__(one_sided.sides, one_sided._exact)
        self.ends = -math.inf, math.inf
        stay, q = self.sides.a.tolist()
        self.atom = stay * math.erf(self.up / math.sqrt(8.0))
        self.log_atom = math.log1p(-q - stay * math.erfc(self.up / math.sqrt(8.0)))

    def reversed(self) -> FixedSize:
        """Return the law itself: both orders are equal."""
        return self

    def enclosed(self) -> ProfileOnly:
        """Return the law in balls: δ(ε) = 1 − e^ε + e^ε δ(−ε) for a pair that is its own reverse."""
        inner = self.one_sided.enclosed()

        def delta(epsilon: float) -> Ball:
            if epsilon >= 0.0:
                return inner.delta(epsilon)
            return arb(epsilon).exp() * inner.delta(-epsilon) - arb(epsilon).expm1()

        return ProfileOnly((arb.neg_inf(), arb.pos_inf()), delta)

    def density(self, order: Order, depth: float) -> LossDensity:
        """Return the density of the losses above 0, which those below 0 mirror, and the chance of the loss 0."""
        q, mu = float(self.sides.a[1]), self.up
        end = mu + math.sqrt(2.0 * depth) + 1.0
        scale, high = log_side(np.array([mu, end]) + 0.0j, self.sides.a, self.sides.alpha)[0].real.tolist()

        @quiet
        def log_f(lams: Floats) -> tuple[Floats, Floats]:
            y = scale * np.exp(lams)
            x = np.log1p(np.expm1(y) / q) / mu + 0.5 * mu
            slope = mu * (q - (1.0 - q) * np.expm1(-y))
            value = y - 0.5 * x * x + np.log(scale / (_ROOT * slope)) + lams
            return value, 4.0 * _UNIT * (1.0 + x * x + (1.0 + x) * y / slope)

        places = np.linspace(-depth - 2.0, math.log(high / scale), _PLACES)
        return LossDensity(arb(0), scale, places, log_f, self.log_atom)

    def at(self, place: Floats, height: float) -> tuple[Any, Any, Any]:
        """Return log weight and loss at places of a line, and the slopes of both."""
        v = np.abs(place) + _START
        y = np.exp(v - np.exp(-0.25 * v))
        t = np.log1p(y)
        x = 0.5 * self.up + t - 1j * height * np.expm1(-t)
        pace = y / (1.0 + y) * (1.0 + 0.25 * np.exp(-0.25 * v)) * (1.0 + 1j * height * np.exp(-t))  # dx/dv
        loss, rise = log_side(x, self.sides.a, self.sides.alpha)
        weight, other = -0.5 * x * x + np.log(pace), place < 0.0
        window = log_window(x, self._far) if self._far < math.inf else 0.0
        weight = np.where(other, weight.conj(), weight + loss + window)
        slopes = np.stack([(np.where(other, 0.0, rise) - x) * pace, rise * pace], axis=-1)
        return weight, np.where(other, -loss.conj(), loss), np.where(other[:, None], slopes.conj(), slopes)

    def terms_range(self, s: Floats) -> tuple[float, float]:
        """Return the places between which the terms at some rising real s count."""
        first, second = super().terms_range(s)[1] - 0.5 * self.up, self.one_sided.reversed().terms_range(s[:1])[1]
        return _START - second - 1.0, max(first, 1.0) - _START

    @quiet
    def _mean_loss(self) -> float:
        """Return κ, whose terms are all positive."""
        weight, loss, _ = self.at(-np.arange(0.0, 12.0 + self.up - _START, _STEP), 0.0)
        return -float((np.exp(weight.real) * np.expm1(-loss.real) * loss.real).sum()) * _STEP / math.sqrt(2.0 * math.pi)


@dataclass(frozen=True)
class FixedSizeStep:
    """Describe a Gaussian sum over a batch of `batch_size` of `records` records, drawn without replacement.

    Parameters
    ----------
    noise_multiplier : float
        The standard deviation of the noise over the clipping norm of one record.
    batch_size, records : int
        B and n.
    """

    noise_multiplier: float
    batch_size: int
    records: int

    kind: ClassVar[str] = "fixed-size"
    adjacency: ClassVar[Adjacency] = "replace-one"
    attained: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", as_within("noise_multiplier", self.noise_multiplier, 400))
        size, records = as_size("batch_size", self.batch_size), as_size("records", self.records)
        require(size < records, "batch_size", f"be at most the number of records, {records}", size)

    def one_sided(self, order: Order) -> Mixture:
        """Return the law of neighbours that exist: W·Q against Q, or its reverse."""
        q = Fraction(self.batch_size, self.records)
        return mixture_law([1 - q, q], [Fraction(0), 2 / Fraction(self.noise_multiplier)], order)

    def law(self, order: Order) -> FixedSize:
        """Return the law of one step, the same in both orders."""
        return FixedSize(self.one_sided("remove"))
