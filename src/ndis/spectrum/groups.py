"""δ(ε) of several groups of releases: the one place that decides how a profile is evaluated.

A profile is a list of steps per order: a pair, the rates of Poisson sampling and the number of releases. A single step
without sampling is a Gaussian pair. A single sampled release has a closed form (`ndis.spectrum.subsampling`).
Everything else composes sampled releases: `ndis.spectrum.sampled` evaluates such a composition in floats, and
`ndis.spectrum.sampled_certified` encloses it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ndis._balls import climb
from ndis._validate import Floats
from ndis.enclosure import Enclosure
from ndis.errors import ParameterError, PrecisionError
from ndis.spectrum import certified, evaluate, sampled, sampled_certified, subsampling
from ndis.spectrum.invariants import Invariants
from ndis.spectrum.origins import enclose
from ndis.spectrum.sampled_contour import find_saddle
from ndis.spectrum.subsampling import Order

__all__ = ["DEFAULT_WIDTH", "SAMPLED_WIDTH", "Order", "Step", "certify", "composed", "log_delta", "smallest_epsilon", "worst_log_delta"]

DEFAULT_WIDTH = 1e-10  # relative width of a certificate of one release
SAMPLED_WIDTH = 1e-6  # and of a composition of sampled releases
_CLEARLY = 0.01  # far more than the error of a bound in floats
_BITS = (256, 512, 1024, 2048)


@dataclass(frozen=True, eq=False)
class Step:
    """`count` equal releases of one order; a record enters each with the product of the rates."""

    pair: Invariants
    rates: tuple[float, ...]
    count: int


def composed(steps: Sequence[Step]) -> bool:
    """True if the steps compose sampled releases; False if they are one release, which has a closed form."""
    return len(steps) > 1 or steps[0].count > 1


def log_delta(steps: Sequence[Step], order: Order, epsilon: Floats) -> Floats:
    """log δ at each entry of a vector ε."""
    if composed(steps):
        return _composition(steps, order).log_delta(epsilon)[0]
    (step,) = steps
    if not step.rates:
        if epsilon.size == 1:
            return np.array([evaluate.log_delta_at(step.pair, float(epsilon[0]))])
        return evaluate.spectrum(step.pair, epsilon, complement=False).log_delta
    return subsampling.log_delta(step.pair, epsilon, step.rates, order)


def worst_log_delta(remove: Sequence[Step], add: Sequence[Step], epsilon: Floats) -> Floats:
    """log of the larger δ of both orders, for compositions.

    An order whose Chernoff bound lies below the value of the other one is not evaluated. Near the end of its support δ
    of the add order is too small to evaluate, and this bound tells so.
    """
    laws = _composition(remove, "remove"), _composition(add, "add")
    if epsilon.size > 1:
        try:
            return np.maximum(*(law.log_delta(epsilon)[0] for law in laws))
        except PrecisionError:
            pass
    return np.array([_worse(laws, x) for x in epsilon.tolist()])


def _worse(laws: Sequence[sampled.SampledComposition], epsilon: float) -> float:
    worst = -math.inf
    missing: PrecisionError | None = None
    for law in laws:
        if _below(law, epsilon, worst):
            continue
        try:
            worst = max(worst, float(law.log_delta(np.array([epsilon]))[0][0]))
        except PrecisionError as error:
            if missing is not None:
                raise
            missing, unknown = error, law
    if missing is not None and not _below(unknown, epsilon, worst):
        raise missing
    return worst


def _below(law: sampled.SampledComposition, epsilon: float, level: float) -> bool:
    """True if Chernoff's bound shows that log δ(ε) < level."""
    return level > -math.inf and find_saddle(law, law.mean - epsilon, level - _CLEARLY)[3] < level - _CLEARLY


def certify(steps: Sequence[Step], order: Order, epsilon: float, *, relative_width: float | None = None) -> Enclosure:
    """A certified enclosure of δ(ε), or PrecisionError if the width is not reached.

    For compositions with sampled pairs of unequal variances both ends are certain, but no width is promised.
    """
    if composed(steps):
        width = SAMPLED_WIDTH if relative_width is None else relative_width
        if any(step.rates and not (step.pair.excess == 0.0).all() for step in steps):
            return sampled_certified.bounds_sampled(_enclosed(steps), epsilon, order=order)
        return sampled_certified.certify_sampled(_enclosed(steps), epsilon, order=order, relative_width=width)
    (step,) = steps
    width = DEFAULT_WIDTH if relative_width is None else relative_width
    if not step.rates:
        return certified.certify(step.pair, epsilon, relative_width=width)
    return subsampling.certify(step.pair, epsilon, step.rates, order, relative_width=width)


def smallest_epsilon(steps: Sequence[Step], order: Order, target: float, *, start: float = 0.0) -> float:
    """The smallest safe ε ≥ `start` with δ(ε) ≤ target."""
    if start == math.inf:
        return start
    if composed(steps):
        return _smallest_epsilon(steps, order, target, start)
    (step,) = steps
    if not step.rates:
        return max(start, evaluate.smallest_epsilon(step.pair, target))
    if order == "remove":
        return max(start, subsampling.smallest_epsilon_remove(step.pair, target, step.rates))
    return subsampling.smallest_epsilon_add(step.pair, target, step.rates, start)


# ---------------------------------------------------------------------- compositions


def _composition(steps: Sequence[Step], order: Order) -> sampled.SampledComposition:
    """The law of the loss, as the float kernel takes it."""
    _refuse_singular(steps)
    groups = [
        sampled.SampledGroup(math.prod(s.rates), s.pair.excess, s.pair.shift, s.pair.copies, s.count) for s in steps
    ]
    return sampled.SampledComposition(groups, order)


def _smallest_epsilon(steps: Sequence[Step], order: Order, target: float, start: float) -> float:
    law = _composition(steps, order)
    doubt = max(step.pair.uncertainty for step in steps)
    if doubt == 0.0:
        if start > 0.0:  # the answer of the other order: one value tells whether this order asks for more
            if _below(law, start, math.log(target)):
                return start
            value, error = law.log_delta(np.array([start]))
            if value[0] + 2.0 * error[0] <= math.log(target):
                return start
        return max(start, law.epsilon(target))
    # Float64 whitening moved the loss by about `doubt` of its own size. A loss that moves by r changes δ(ε) to at most
    # e^r δ(ε − r).
    moved = 4.0 * doubt * (math.fsum(s.count * s.pair.form.mean for s in steps) + law.epsilon(target))
    return max(start, law.epsilon(target * math.exp(-moved)) + moved)


def _enclosed(steps: Sequence[Step]) -> list[sampled_certified.SampledGroup]:
    """The groups with their exact invariants, as the certificate takes them."""
    _refuse_singular(steps)
    found = []
    for step in steps:
        origins = step.pair.origins
        invariants = climb(partial(enclose, origins), _BITS) if origins else None
        if invariants is None:
            raise PrecisionError("the exact inputs of a pair of the composition are not known, or not enclosed")
        found.append(sampled_certified.SampledGroup(step.rates, invariants, step.count))
    return found


def _refuse_singular(steps: Sequence[Step]) -> None:
    if any(step.pair.mutually_singular for step in steps):
        raise ParameterError(
            "pairs of a composition with sampling",
            "not be mutually singular",
            "two laws on different subspaces",
            "such a release hides nothing about a record in its sample",
        )
