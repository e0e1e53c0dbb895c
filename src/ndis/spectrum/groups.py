"""δ(ε) of several groups of releases: the one place that decides how a profile is evaluated.

A profile is a list of steps per order: a pair, the rates of Poisson sampling and the number of releases. A single step
without sampling is a Gaussian pair. A single sampled release has a closed form (`ndis.spectrum.subsampling`).
Everything else composes sampled releases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ndis._validate import Floats
from ndis.enclosure import Enclosure
from ndis.errors import ParameterError
from ndis.spectrum import certified, evaluate, subsampling
from ndis.spectrum.invariants import Invariants
from ndis.spectrum.subsampling import Order

__all__ = ["Order", "Step", "certify", "log_delta", "smallest_epsilon"]


@dataclass(frozen=True, eq=False)
class Step:
    """`count` equal releases of one order; a record enters each with the product of the rates."""

    pair: Invariants
    rates: tuple[float, ...]
    count: int


def log_delta(steps: Sequence[Step], order: Order, epsilon: Floats) -> Floats:
    """log δ at each entry of a vector ε."""
    step = _single(steps)
    if not step.rates:
        if epsilon.size == 1:
            return np.array([evaluate.log_delta_at(step.pair, float(epsilon[0]))])
        return evaluate.spectrum(step.pair, epsilon, complement=False).log_delta
    return subsampling.log_delta(step.pair, epsilon, step.rates, order)


def certify(steps: Sequence[Step], order: Order, epsilon: float, *, relative_width: float) -> Enclosure:
    """A certified enclosure of δ(ε), or PrecisionError if the width is not reached."""
    step = _single(steps)
    if not step.rates:
        return certified.certify(step.pair, epsilon, relative_width=relative_width)
    return subsampling.certify(step.pair, epsilon, step.rates, order, relative_width=relative_width)


def smallest_epsilon(steps: Sequence[Step], order: Order, target: float, *, start: float = 0.0) -> float:
    """The smallest safe ε ≥ `start` with δ(ε) ≤ target."""
    step = _single(steps)
    if start == math.inf:
        return start
    if not step.rates:
        return max(start, evaluate.smallest_epsilon(step.pair, target))
    if order == "remove":
        return max(start, subsampling.smallest_epsilon_remove(step.pair, target, step.rates))
    return subsampling.smallest_epsilon_add(step.pair, target, step.rates, start)


def _single(steps: Sequence[Step]) -> Step:
    """The step of a profile with one release; several releases with a sample among them are refused."""
    if len(steps) == 1 and steps[0].count == 1:
        return steps[0]
    rate = next(float(np.prod(step.rates)) for step in steps if step.rates)
    raise ParameterError(
        "profile",
        "not be subsampled to compose exactly",
        f"sampling rate {rate!r}",
        "compose first and subsample the whole if all releases see one sample, else use a numerical accountant",
    )
