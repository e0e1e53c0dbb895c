"""Lower ends for profiles that are upper bounds: losses that some neighbours really have.

With batches of a fixed size the gradients of the other records may be chosen in turn. Then each step has the loss of
W·Q against Q, or that of its reverse (thm:fixed-size), and neighbours exist for every number of steps of the one kind.
A search takes the worst number that it finds. Whatever it finds is attained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from ndis._groups import Group, StepGroup
from ndis._validate import Order
from ndis.accountant.composition import Composition
from ndis.accountant.laws import Law
from ndis.accountant.laws.fixed_size import FixedSizeStep
from ndis.errors import PrecisionError

__all__ = ["attained_delta", "attained_epsilon"]

_FIRST = (0.0, 0.25, 0.5, 0.75, 1.0)  # shares of the steps that are W·Q against Q
_NARROWINGS = 3
_BELOW = 1.0 - 1e-9  # an ε that floats put on the safe side is moved below the true one


@dataclass(frozen=True)
class _Release:
    one: Law
    count: int

    def law(self, order: Order) -> Law:
        """Return the law, whatever the order."""
        return self.one


def _attained(groups: Sequence[Group | StepGroup], share: float) -> Composition | None:
    """Return a composition that neighbours attain, with this share of the steps of one kind; None if none is known."""
    releases = []
    for group in groups:
        if isinstance(group, Group) or group.step.attained:
            releases.append(_Release(group.law("remove"), group.count))
        elif isinstance(group.step, FixedSizeStep):
            some = round(share * group.count)
            releases.append(_Release(group.step.one_sided("remove"), some))
            releases.append(_Release(group.step.one_sided("add"), group.count - some))
        else:
            return None
    return Composition(releases, "remove")


def _worst(groups: Sequence[Group | StepGroup], value: Callable[[Composition], float]) -> Composition | None:
    """Return the composition with the largest value among those that were tried."""
    known: dict[float, tuple[float, Composition]] = {}

    def try_out(share: float) -> None:
        if 0.0 <= share <= 1.0 and share not in known and (made := _attained(groups, share)) is not None:
            with suppress(PrecisionError):
                known[share] = value(made), made

    for share in _FIRST:
        try_out(share)
    step = 0.5 * _FIRST[1]
    for _ in range(_NARROWINGS if known else 0):
        best = max(known, key=lambda share: known[share][0])
        try_out(best - step)
        try_out(best + step)
        step *= 0.5
    return max(known.values(), key=lambda pair: pair[0])[1] if known else None


def attained_epsilon(groups: Sequence[Group | StepGroup], target: float, near: float) -> float:
    """Return an ε that some neighbours need for the δ `target`, in floats; 0 if none is known. It is about `near`."""
    worst = _worst(groups, lambda one: float(one.log_delta(np.array([near]))[0]))
    return 0.0 if worst is None else _BELOW * worst.smallest_epsilon(target, 0.0)


def attained_delta(groups: Sequence[Group | StepGroup], epsilon: float, relative_width: float) -> float:
    """Return a δ that some neighbours have at ε with certainty; 0 if none is known."""
    worst = _worst(groups, lambda one: float(one.log_delta(np.array([epsilon]))[0]))
    return (
        max(worst.certify(epsilon, relative_width).lower, 0.0) if worst is not None else max(-math.expm1(epsilon), 0.0)
    )
