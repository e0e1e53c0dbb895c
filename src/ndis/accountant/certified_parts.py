"""What a composition to be certified consists of: sampled groups, merged into different steps and plain directions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from flint import arb

from ndis._balls import Ball, outward, precision
from ndis._validate import Order
from ndis.accountant.curved_balls import CurvedStep
from ndis.accountant.moment_balls import ShiftStep
from ndis.accountant.upper import DiscreteStep
from ndis.accountant.windows import WindowStep
from ndis.errors import ParameterError, PrecisionError
from ndis.spectrum.directions import Directions, reverse_direction

__all__ = ["Order", "Parts", "SampledGroup", "Step", "product"]

Step = ShiftStep | CurvedStep | DiscreteStep | WindowStep

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

    @property
    def sampled(self) -> bool:
        """True if some rate is below 1."""
        return any(q != 1.0 for q in self.rates)

    @property
    def single(self) -> bool:
        """True if every direction that differs has the same variance ratio, and it is not 1.

        Balls tell this only if both are the same object or both are exact.
        """
        curved = self.invariants.curved
        if not curved or self.invariants.flat != 0:
            return False
        return all(t is curved[0][0] or t == curved[0][0] for t, _, _ in curved)


class _Kind(NamedTuple):
    """What tells sampled steps apart: the rates, then t and the total m² of one step, and the number of directions."""

    rates: tuple[float, ...]
    excess: str
    shift2: str
    copies: int


class Parts(NamedTuple):
    """Different sampled steps with their counts, and all plain directions together."""

    steps: list[tuple[Step, int]]  # the stand-ins first
    curved: list[tuple[Ball, Ball, int]]
    flat: Ball
    rates: list[tuple[float, ...]]  # of the steps

    @classmethod
    def of(cls, groups: Sequence[SampledGroup], order: Order, discrete: dict[int, DiscreteStep] | None = None) -> Parts:
        """The parts at the working precision; `discrete` holds stand-ins for some groups by their position."""
        remove = order == "remove"
        counts: dict[_Kind, int] = {}
        steps: dict[_Kind, Step] = {}
        curved: list[tuple[Ball, Ball, int]] = []
        flat = arb(0)
        stand_ins: list[tuple[Step, int]] = []
        rates_of: list[tuple[float, ...]] = []
        for i, group in enumerate(groups):
            rates = tuple(sorted(q for q in group.rates if q != 1.0))
            inner = group.invariants
            if not rates:
                curved += [(t, m2, n * group.count) for t, m2, n in inner.curved]
                flat += inner.flat * group.count
                continue
            if discrete and i in discrete:
                stand_ins.append((discrete[i], group.count))
                rates_of.append(rates)
                continue
            if not inner.curved and inner.flat == 0:
                continue
            if inner.curved and not group.single:
                raise PrecisionError(
                    "a sampled pair with different variance ratios has no certificate of a given width; "
                    "use bounds_sampled"
                )
            t, m2, d = _one_direction(inner)
            kind = _Kind(rates, t.repr(), m2.repr(), d)
            counts[kind] = counts.get(kind, 0) + group.count
            if kind in steps:
                continue
            if not inner.curved:
                steps[kind] = ShiftStep(product(rates), m2.sqrt(), remove=remove)
            else:
                if not remove:  # the pair of the add order has the record in its second law
                    t, m2, _ = reverse_direction((t, m2, d))
                steps[kind] = CurvedStep(product(rates), t, m2, d, remove=remove)
        rates_of += [kind.rates for kind in steps]
        return cls(stand_ins + [(step, counts[kind]) for kind, step in steps.items()], curved, flat, rates_of)

    @property
    def limit(self) -> float:
        """All moments are finite for 0 ≤ c < limit; rounded down."""
        plain = [outward(1 / t).lower for t, _, _ in self.curved if not t <= 0]
        return min([*plain, *(step.limit for step, _ in self.steps if isinstance(step, CurvedStep))], default=math.inf)

    def exact(self, epsilon: float, order: Order) -> Ball | None:
        """δ beyond an end of the loss: 0 above the upper end, 1 − e^ε below the lower one; None inside."""
        with precision(_EDGE_BITS):
            least, most = arb(0), arb(0)
            if self.flat != 0:
                least, most = arb.neg_inf(), arb.pos_inf()
            for t, m2, n in self.curved:
                edge = Directions([(t, m2, n)], arb(0)).edge()
                least, most = least + (edge if t > 0 else arb.neg_inf()), most + (edge if t < 0 else arb.pos_inf())
            for (step, n), rates in zip(self.steps, self.rates, strict=True):
                low, high = _ends(step, product(rates))
                if order == "add":
                    low, high = -high, -low
                least, most = least + n * low, most + n * high
            if arb(epsilon) >= most:
                return arb(0)
            if arb(epsilon) <= least:
                return -arb(epsilon).expm1()
        return None


def _one_direction(inner: Directions) -> tuple[Ball, Ball, int]:
    """(t, m² of all copies together, copies) of a pair with one t."""
    if not inner.curved:
        return arb(0), inner.flat, 1
    t = inner.curved[0][0]
    return t, sum((m2 * n for _, m2, n in inner.curved), arb(0)), sum(n for _, _, n in inner.curved)


def _ends(step: Step, rate: Ball) -> tuple[Ball, Ball]:
    """The ends of log g for one step."""
    stay = (-rate).log1p()
    if not isinstance(step, CurvedStep):
        return stay, arb.pos_inf()
    edge = (rate * step.lead.expm1()).log1p()
    return (edge, arb.pos_inf()) if step.side > 0 else (stay, edge)


def product(rates: tuple[float, ...]) -> Ball:
    """The product of the rates, at the working precision."""
    total = arb(1)
    for q in rates:
        total *= arb(q)
    return total
