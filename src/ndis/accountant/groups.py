"""The steps of a profile in one order know their δ(ε): this is the one place that decides how it is evaluated.

A step is a pair, the rates of Poisson sampling and the number of releases. A single step without sampling is a Gaussian
pair. A single sampled release has a closed form (`ndis.accountant.one_release`). All other profiles compose sampled
releases (`ndis.accountant.composition`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ndis._validate import Floats, Order
from ndis.accountant import one_release
from ndis.accountant.composition import SAMPLED_WIDTH, Composition, Step, worse
from ndis.enclosure import Enclosure
from ndis.spectrum import certified, evaluate

__all__ = ["SAMPLED_WIDTH", "WIDTH", "Step", "Steps", "worst_log_delta"]

WIDTH = 1e-10  # relative width of a certificate of one release, unless the caller gives one


class Steps:
    """The steps of a profile in one order have δ(ε), ε(δ) and certificates. Tables are kept, and serve many ε."""

    def __init__(self, steps: Sequence[Step], order: Order) -> None:
        self.steps, self.order = tuple(steps), order
        self.composed = len(self.steps) > 1 or self.steps[0].count > 1  # else there is one release

    @cached_property
    def composition(self) -> Composition:
        """Return the composition of the steps."""
        return Composition(self.steps, self.order)

    def log_delta(self, epsilon: Floats, floor: float = -math.inf) -> Floats:
        """Return log δ at each entry of a vector ε; a value below `floor` may be −inf."""
        if self.composed:
            return self.composition.log_delta(epsilon, floor)[0]
        (step,) = self.steps
        if not step.rates:
            if epsilon.size == 1:
                return np.array([evaluate.log_delta_at(step.pair, float(epsilon[0]))])
            return evaluate.spectrum(step.pair, epsilon, complement=False).log_delta
        return one_release.log_delta(step.pair, epsilon, step.rates, self.order)

    def certify(self, epsilon: float, relative_width: float) -> Enclosure:
        """Return a certified enclosure of δ(ε), or raise PrecisionError if one release does not reach the width.

        For compositions with sampled pairs of different variance ratios both ends are certain. No width is promised.
        """
        if self.composed:
            return self.composition.certify(epsilon, relative_width)
        (step,) = self.steps
        if not step.rates:
            return certified.certify(step.pair, epsilon, relative_width=relative_width)
        return one_release.certify(step.pair, epsilon, step.rates, self.order, relative_width=relative_width)

    def smallest_epsilon(self, target: float, *, start: float = 0.0, guess: float | None = None) -> float:
        """Return the smallest safe ε ≥ `start` with δ(ε) ≤ target; a `guess` only saves time."""
        if start == math.inf:
            return start
        if self.composed:
            return self.composition.smallest_epsilon(target, start, guess)
        (step,) = self.steps
        if not step.rates:
            return max(start, evaluate.smallest_epsilon(step.pair, target))
        if self.order == "remove":
            return max(start, one_release.smallest_epsilon_remove(step.pair, target, step.rates))
        return one_release.smallest_epsilon_add(step.pair, target, step.rates, start)


def worst_log_delta(remove: Steps, add: Steps, epsilon: Floats, floor: float = -math.inf) -> Floats:
    """Return log of the larger δ of both orders, at each entry of a vector ε; a value below `floor` may be −inf."""
    if remove.composed:
        return worse([remove.composition, add.composition], epsilon, floor)
    return np.maximum(remove.log_delta(epsilon), add.log_delta(epsilon))
