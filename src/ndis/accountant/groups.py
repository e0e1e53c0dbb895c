"""δ(ε) of several groups of releases: the one place that decides how a profile is evaluated.

A profile is a list of steps per order: a pair, the rates of Poisson sampling and the number of releases. A single step
without sampling is a Gaussian pair. A single sampled release has a closed form (`ndis.accountant.one_release`).
Everything else composes sampled releases (`ndis.accountant.composition`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ndis._validate import Floats
from ndis.accountant import one_release as subsampling
from ndis.accountant.composition import SAMPLED_WIDTH, Composition, Step, worse
from ndis.accountant.one_release import Order
from ndis.enclosure import Enclosure
from ndis.spectrum import certified, evaluate

__all__ = [
    "SAMPLED_WIDTH",
    "WIDTH",
    "Order",
    "Step",
    "certified_epsilon",
    "certify",
    "log_delta",
    "smallest_epsilon",
    "worst_log_delta",
]

WIDTH = 1e-10  # relative width of a certificate of one release, unless one is asked for


def _composed(steps: Sequence[Step]) -> bool:
    """True if the steps compose sampled releases; False if they are one release, which has a closed form."""
    return len(steps) > 1 or steps[0].count > 1


def log_delta(steps: Sequence[Step], order: Order, epsilon: Floats, floor: float = -math.inf) -> Floats:
    """log δ at each entry of a vector ε; −inf may stand for a value below `floor`."""
    if _composed(steps):
        return Composition(steps, order).log_delta(epsilon, floor)[0]
    (step,) = steps
    if not step.rates:
        if epsilon.size == 1:
            return np.array([evaluate.log_delta_at(step.pair, float(epsilon[0]))])
        return evaluate.spectrum(step.pair, epsilon, complement=False).log_delta
    return subsampling.log_delta(step.pair, epsilon, step.rates, order)


def worst_log_delta(
    remove: Sequence[Step], add: Sequence[Step], epsilon: Floats, floor: float = -math.inf
) -> Floats:
    """log of the larger δ of both orders, at each entry of a vector ε; −inf may stand for a value below `floor`."""
    if _composed(remove):
        return worse([Composition(remove, "remove"), Composition(add, "add")], epsilon, floor)
    return np.maximum(log_delta(remove, "remove", epsilon), log_delta(add, "add", epsilon))


def certify(steps: Sequence[Step], order: Order, epsilon: float, *, relative_width: float) -> Enclosure:
    """A certified enclosure of δ(ε), or PrecisionError if the width is not reached.

    For compositions with sampled pairs of different variance ratios both ends are certain, but no width is promised.
    """
    if _composed(steps):
        return Composition(steps, order).certify(epsilon, relative_width)
    (step,) = steps
    if not step.rates:
        return certified.certify(step.pair, epsilon, relative_width=relative_width)
    return subsampling.certify(step.pair, epsilon, step.rates, order, relative_width=relative_width)


def certified_epsilon(steps: Sequence[Step], order: Order, target: float) -> float:
    """An ε with a certified δ(ε) ≤ target for a composition, from certificates only; slow."""
    return Composition(steps, order).certified_epsilon(target)


def smallest_epsilon(
    steps: Sequence[Step], order: Order, target: float, *, start: float = 0.0, guess: float | None = None
) -> float:
    """The smallest safe ε ≥ `start` with δ(ε) ≤ target; a `guess` only saves time."""
    if start == math.inf:
        return start
    if _composed(steps):
        return Composition(steps, order).smallest_epsilon(target, start, guess)
    (step,) = steps
    if not step.rates:
        return max(start, evaluate.smallest_epsilon(step.pair, target))
    if order == "remove":
        return max(start, subsampling.smallest_epsilon_remove(step.pair, target, step.rates))
    return subsampling.smallest_epsilon_add(step.pair, target, step.rates, start)
