"""What a composition to be certified consists of: sampled groups, merged into different steps and plain directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from flint import arb

from ndis._balls import Ball, precision
from ndis.errors import ParameterError, PrecisionError
from ndis.spectrum.directions import Directions
from ndis.spectrum.sampled_moment_balls import ShiftStep

__all__ = ["Order", "Parts", "SampledGroup"]

Order = Literal["remove", "add"]

_EDGE_BITS = 2048


@dataclass(frozen=True)
class SampledGroup:
    """`count` equal releases of one pair, each on a Poisson sample.

    Parameters
    ----------
    rates : tuple of float
        The rate is their exact product; 1 means no sampling.
    invariants : Directions
        The pair of the order asked for, enclosed to 256 bits or more.
    count : int
        Number of releases.
    """

    rates: tuple[float, ...]
    invariants: Directions
    count: int

    def __post_init__(self) -> None:
        for rate in self.rates:
            if not 0.0 < rate <= 1.0:
                raise ParameterError("rate", "lie in (0, 1]", rate)
        if not (isinstance(self.count, int) and self.count >= 1):
            raise ParameterError("count", "be a whole number of at least 1", self.count)
        if self.invariants.mutually_singular:
            raise ParameterError(
                "invariants", "belong to laws that are not mutually singular", "mutually singular laws"
            )


class Parts(NamedTuple):
    """Different sampled steps with their counts, and all plain directions together."""

    steps: list[tuple[ShiftStep, int]]
    curved: list[tuple[Ball, Ball, int]]
    flat: Ball
    rates: list[tuple[tuple[float, ...], int]]  # of the sampled steps

    @classmethod
    def of(cls, groups: Sequence[SampledGroup], order: Order) -> Parts:
        counts: dict[tuple[tuple[float, ...], str], int] = {}
        shifts: dict[tuple[tuple[float, ...], str], Ball] = {}
        curved: list[tuple[Ball, Ball, int]] = []
        flat = arb(0)
        for group in groups:
            rates = tuple(sorted(q for q in group.rates if q != 1.0))
            inner = group.invariants
            if not rates:
                curved += [(t, m2, n * group.count) for t, m2, n in inner.curved]
                flat += inner.flat * group.count
            elif inner.curved:
                raise PrecisionError("a sampled pair with unequal variances has no two-sided certificate of this kind")
            elif inner.flat != 0:
                key = (rates, inner.flat.str(80, more=True))
                counts[key] = counts.get(key, 0) + group.count
                shifts[key] = inner.flat.sqrt()
        steps = [(ShiftStep(product(key[0]), shifts[key], remove=order == "remove"), n) for key, n in counts.items()]
        return cls(steps, curved, flat, [(key[0], n) for key, n in counts.items()])

    def exact(self, epsilon: float, order: Order) -> Ball | None:
        """δ beyond the end of a bounded loss: 0 above it (add), 1 − e^ε below it (remove); None inside."""
        if self.curved or self.flat != 0:
            return None
        if not self.steps:
            return arb(0) if epsilon >= 0 else -arb(epsilon).expm1()
        with precision(_EDGE_BITS):
            edge = sum((n * (-product(rates)).log1p() for rates, n in self.rates), arb(0))
            if order == "add" and arb(epsilon) >= -edge:
                return arb(0)
            if order == "remove" and arb(epsilon) <= edge:
                return -arb(epsilon).expm1()
        return None


def product(rates: tuple[float, ...]) -> Ball:
    product = arb(1)
    for q in rates:
        product *= arb(q)
    return product
