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
from ndis.spectrum.sampled_upper import DiscreteStep
from ndis.spectrum.sampled_windows import WindowStep

__all__ = ["Order", "Parts", "SampledGroup", "Step", "product"]

Order = Literal["remove", "add"]
Step = ShiftStep | DiscreteStep | WindowStep

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

    steps: list[tuple[Step, int]]  # the stand-ins first
    curved: list[tuple[Ball, Ball, int]]
    flat: Ball
    rates: list[tuple[tuple[float, ...], int]]  # of the sampled steps

    @classmethod
    def of(cls, groups: Sequence[SampledGroup], order: Order, discrete: dict[int, DiscreteStep] | None = None) -> Parts:
        """The parts at the working precision; `discrete` holds stand-ins for some groups by their position."""
        counts: dict[tuple[tuple[float, ...], str], int] = {}
        shifts: dict[tuple[tuple[float, ...], str], Ball] = {}
        curved: list[tuple[Ball, Ball, int]] = []
        flat = arb(0)
        stand_ins: list[tuple[Step, int]] = []
        rates_of: list[tuple[tuple[float, ...], int]] = []
        for i, group in enumerate(groups):
            rates = tuple(sorted(q for q in group.rates if q != 1.0))
            inner = group.invariants
            if not rates:
                curved += [(t, m2, n * group.count) for t, m2, n in inner.curved]
                flat += inner.flat * group.count
            elif discrete and i in discrete:
                stand_ins.append((discrete[i], group.count))
                rates_of.append((rates, group.count))
            elif inner.curved:
                raise PrecisionError(
                    "a sampled pair with unequal variances has no certificate of a given width; use bounds_sampled"
                )
            elif inner.flat != 0:
                key = (rates, inner.flat.repr())
                counts[key] = counts.get(key, 0) + group.count
                shifts[key] = inner.flat.sqrt()
        remove = order == "remove"
        steps: list[tuple[Step, int]] = [
            (ShiftStep(product(key[0]), shifts[key], remove=remove), n) for key, n in counts.items()
        ]
        rates_of += [(key[0], n) for key, n in counts.items()]
        return cls(stand_ins + steps, curved, flat, rates_of)

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
    """The product of the rates, at the working precision."""
    total = arb(1)
    for q in rates:
        total *= arb(q)
    return total
