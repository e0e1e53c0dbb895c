"""A step that draws one of several laws, with a public label: its moments are the mean of theirs.

The pair is (Σ pᵢ δᵢ ⊗ Pᵢ, Σ pᵢ δᵢ ⊗ Qᵢ). The label says nothing about the record, so e^K = Σ pᵢ e^{Kᵢ} and
δ(ε) = Σ pᵢ δᵢ(ε). A mechanism that hides the label is dominated by this pair.

Truncated Poisson batches (thm:truncated) are such a step. Let N be the number of other records in the Poisson sample.
If N < B, nothing is truncated: the record enters with probability q and moves the sum by the clipping norm. If N ≥ B, the
record enters with probability q' and takes the place of another one, which moves the sum by up to twice the norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from flint import arb

from ndis._balls import Ball, precision
from ndis._validate import Adjacency, Floats, Order, as_one_probability, as_size, as_within
from ndis.accountant.laws import BallLaw, Complexes
from ndis.accountant.laws.mixture import LineLaw, Mixture
from ndis.accountant.laws.mixture_balls import Sides
from ndis.errors import ParameterError

__all__ = ["Labelled", "TruncatedStep"]

_UNIT = 2.0**-53
_BITS = 160


class Labelled(LineLaw):
    """Evaluate the moments of a step that draws one of some laws, in floats."""

    poisson = None

    def __init__(self, laws: Sequence[Mixture], chances: Sequence[float], exact: Callable[[], list[Ball]]) -> None:
        super().__init__()
        self.laws, self.chances, self._exact = laws, chances, exact
        self.up, self.down = max(law.up for law in laws), max(law.down for law in laws)
        pairs = list(zip(chances, laws, strict=True))
        self.mean = math.fsum(p * law.mean for p, law in pairs)
        self.largest = max(law.largest for law in laws)
        self.ends = min(law.ends[0] for law in laws), max(law.ends[1] for law in laws)
        self.uncertainty, self.size = max(law.uncertainty for law in laws), max(law.size for law in laws)

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """Return log M(s) − s·mean and its error; M − 1 is the mean of the Mᵢ − 1."""
        total, error, size = np.zeros(s.size, dtype=np.complex128), np.zeros(s.size), np.zeros(s.size)
        top = np.zeros(s.size)
        parts = [(p, law.mean, *law.centred(s)) for p, law in zip(self.chances, self.laws, strict=True)]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            top = np.maximum.reduce([np.maximum((v + mean * s).real, 0.0) for _, mean, v, _ in parts])
            for p, mean, v, e in parts:
                log = v + mean * s
                grown = np.where(top > 1.0, np.exp(log - top) - np.exp(-top), np.expm1(log))
                total += p * grown
                heavy = p * np.exp(log.real - np.where(top > 1.0, top, 0.0))
                error += heavy * (e + 4.0 * _UNIT * (1.0 + np.abs(log)))
                size += 4.0 * _UNIT * p * np.abs(grown)
            moment = np.where(top > 1.0, np.exp(-top) + total, 1.0 + total)
            value = np.where(top > 1.0, top + np.log(moment), np.log1p(total)) - self.mean * s
            error = (error + size) / np.abs(moment) + 4.0 * _UNIT * np.abs(self.mean * s)
        return value, np.where(np.isfinite(value), error, np.inf)

    def far_losses(self, s: float) -> tuple[float, float]:
        """Return share and spread of large losses, those of the law with the most."""
        return max(law.far_losses(s) for law in self.laws)

    def left_out(self, c: float) -> float:
        """Return log of a bound of the share that the windows of the laws leave out."""
        return max(law.left_out(c) for law in self.laws)

    def reversed(self) -> Labelled:
        """Return the law of the other order."""
        return Labelled([law.reversed() for law in self.laws], self.chances, self._exact)

    def enclosed(self) -> LabelledBalls:
        """Return the law in balls."""
        return LabelledBalls([law.enclosed() for law in self.laws], self._exact())


class LabelledBalls:
    """Enclose the moments of a step that draws one of some laws."""

    def __init__(self, laws: list[BallLaw], chances: list[Ball]) -> None:
        self.laws, self.chances = laws, chances
        self.limit = min(law.limit for law in laws)
        self._logs = [float(p.log()) for p in chances]

    def _mean(self, values: list[Any]) -> Any:
        first, *others = (p * x for p, x in zip(self.chances, values, strict=True))
        return sum(others, first)

    def log_moment(self, c: float) -> float:
        """Return log M(c) in floats."""
        return float(np.logaddexp.reduce([p + law.log_moment(c) for p, law in zip(self._logs, self.laws, strict=True)]))

    def log_ceiling(self, c: float, y: float) -> float:
        """Return the logarithm of the ceiling less log M(c), in floats."""
        pairs = zip(self._logs, self.laws, strict=True)
        return float(
            np.logaddexp.reduce([p + law.log_moment(c) + law.log_ceiling(c, y) for p, law in pairs])
        ) - self.log_moment(c)

    def moment(self, c: float, digits: float) -> Ball:
        """Enclose M(c)."""
        return self._mean([law.moment(c, digits) for law in self.laws])

    def line(self, c: float, step: Ball, count: int, digits: float) -> list[Any]:
        """Enclose M(c + ik·step)."""
        lines = [law.line(c, step, count, digits) for law in self.laws]
        return [self._mean(list(values)) for values in zip(*lines, strict=True)]

    def ceiling(self, c: float, y: float, digits: float) -> Ball:
        """Bound |M(c + iy')| for y' ≥ y."""
        return self._mean([law.ceiling(c, y, digits) for law in self.laws]).upper()

    def ends(self) -> tuple[Ball, Ball]:
        """Enclose the least and the largest loss."""
        lows, highs = zip(*(law.ends() for law in self.laws), strict=True)
        return min(lows, key=float), max(highs, key=float)

    def delta(self, epsilon: float) -> Ball:
        """Enclose Σ pᵢ δᵢ(ε)."""
        return self._mean([law.delta(epsilon) for law in self.laws])


@dataclass(frozen=True)
class TruncatedStep:
    """Describe a Gaussian sum over a Poisson sample, of which at most `max_batch_size` records are kept at random.

    Parameters
    ----------
    noise_multiplier : float
        The standard deviation of the noise over the clipping norm of one record.
    sampling_rate : float
        q.
    max_batch_size, records : int
        B, and the number n of records in the larger one of two neighbours, which is public.
    """

    noise_multiplier: float
    sampling_rate: float
    max_batch_size: int
    records: int

    kind: ClassVar[str] = "truncated-poisson"
    adjacency: ClassVar[Adjacency] = "add-remove"
    attained: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", as_within("noise_multiplier", self.noise_multiplier, 400))
        object.__setattr__(self, "sampling_rate", as_one_probability("sampling_rate", self.sampling_rate))
        size, records = as_size("max_batch_size", self.max_batch_size), as_size("records", self.records)
        if not size < records:
            raise ParameterError("max_batch_size", f"be below the number of records, {records}", size)

    def _chances(self) -> tuple[Ball, Ball, Ball]:
        """Enclose q, P(N ≥ B) and q' = q E[B/(N+1) | N ≥ B], at the working precision.

        The number K of all records in the sample is binomial, and q E[1/(N+1); N ≥ B] = P(K > B)/n.
        """
        q, n, size = arb(self.sampling_rate), self.records, self.max_batch_size
        full = q.beta_lower(size, n - size, True)
        return q, full, q.beta_lower(size + 1, n - size, True) * size / (n * full)

    def law(self, order: Order) -> Labelled:
        """Return the law of one step."""
        sigma = self.noise_multiplier

        def sides(which: int) -> Sides:
            q, _, other = self._chances()
            return Sides.poisson((q, other)[which], arb(1 + which) / arb(sigma), remove=order == "remove")

        def chances() -> list[Ball]:
            full = self._chances()[1]
            return [1 - full, full]

        with precision(_BITS):
            laws = [Mixture.from_balls(lambda which=which: sides(which)) for which in (0, 1)]  # type: ignore[misc]
            return Labelled(laws, [float(p) for p in chances()], chances)
