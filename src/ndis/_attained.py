"""Lower ends for profiles that are upper bounds: losses that some neighbours really have.

With batches of a fixed size the gradients of the other records may be chosen in turn. Then each step has the loss of
W·Q against Q, or that of its reverse (thm:fixed-size), and neighbours exist for every number of steps of the one kind.
A search takes the worst number that it finds. Whatever it finds is attained.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache

import numpy as np

from ndis._groups import Group, StepGroup, orders_of
from ndis._validate import Order
from ndis.accountant.composition import Composition
from ndis.accountant.laws.fixed_size import FixedSizeStep
from ndis.errors import PrecisionError

_SHARES = [k / 16 for k in range(17)]  # shares of the steps that are W·Q against Q
_BELOW = 1.0 - 1e-9  # an ε that floats put on the safe side is moved below the true one


@lru_cache(len(_SHARES) * 8)
def _attained(groups: tuple[Group | StepGroup, ...], order: Order, share: float) -> Composition | None:
    """Return a composition that neighbours attain, with this share of the steps of one kind; None if none is known."""
    parts = []
    for group in groups:
        if isinstance(group, Group) or group.step.attained:
            parts.append((group.law(order), group.count))
        elif isinstance(group.step, FixedSizeStep):
            some = round(share * group.count)
            sides: tuple[tuple[Order, int], ...] = (("remove", some), ("add", group.count - some))
            parts += [(group.step.one_sided(side), count) for side, count in sides]
        else:
            return None
    return Composition(parts, order)


def _worst(groups: tuple[Group | StepGroup, ...], orders: tuple[Order, ...], epsilon: float) -> Composition | None:
    """Return the composition with the largest δ(ε) among those that were tried."""
    if all(isinstance(group, StepGroup) for group in groups):
        orders = orders[:1]  # both are alike
    known: list[tuple[float, Composition]] = []
    for one in (_attained(groups, order, share) for order in orders for share in _SHARES):
        with suppress(PrecisionError):
            known += [] if one is None else [(float(one.log_delta(np.array([epsilon]))[0]), one)]
    return max(known, key=lambda pair: pair[0])[1] if known else None


def attained_epsilon(groups: tuple[Group | StepGroup, ...], target: float, near: float) -> float:
    """Return an ε that some neighbours need for the δ `target`, in floats; 0 if none is known. It is about `near`."""
    worst = _worst(groups, orders_of("worst"), near)
    return 0.0 if worst is None else _BELOW * worst.smallest_epsilon(target, 0.0)


def attained_delta(
    groups: tuple[Group | StepGroup, ...], orders: tuple[Order, ...], epsilon: float, relative_width: float
) -> float:
    """Return a δ that some neighbours have at ε in one of the orders with certainty; 0 if none is known."""
    worst = _worst(groups, orders, epsilon)
    return 0.0 if worst is None else worst.certify(epsilon, relative_width).lower
