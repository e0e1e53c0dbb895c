"""A privacy profile consists of groups of equal releases."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from ndis._exact import up
from ndis._validate import Order, as_choice, as_count, as_scalar, as_within
from ndis.accountant.composition import Step
from ndis.errors import ParameterError
from ndis.pair import GaussianPair

Choice = Literal["worst", "remove", "add"]

_ORDERS: dict[str, tuple[Order, ...]] = {"worst": ("remove", "add"), "remove": ("remove",), "add": ("add",)}


@dataclass(frozen=True, eq=False)
class Group:
    """A group holds equal releases: the pair of each order, the rates of Poisson sampling and the number of releases.

    Parameters
    ----------
    remove : GaussianPair
        The output with the record from the output without it, before sampling.
    add : GaussianPair, optional
        The output without the record from the output with it; `remove.reversed()` unless given.
    rates : tuple of float
        Rates of Poisson sampling, one after the other. They multiply, and the certificate uses the exact product.
    count : int
        Number of releases. Each draws its own sample.

    Examples
    --------
    >>> import ndis
    >>> from ndis.profile import Group
    >>> step = Group(ndis.GaussianPair.from_ratios(1.0, shift=1.0), rates=(0.5, 0.25), count=10)
    >>> step.rate, step.count, step.sampled
    (0.125, 10, True)
    """

    remove: GaussianPair
    add: GaussianPair = None  # type: ignore[assignment]  # filled in below
    rates: tuple[float, ...] = ()
    count: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "add", other_order(self.remove, self.add))
        object.__setattr__(self, "rates", tuple(q for q in map(as_rate, self.rates) if q < 1.0))
        object.__setattr__(self, "count", as_count("count", self.count))

    @property
    def rate(self) -> float:
        """Return the probability with which a record enters each release; 1 if there is no sampling."""
        return math.prod(self.rates, start=1.0)

    @property
    def sampled(self) -> bool:
        """Say if the releases see only a sample."""
        return bool(self.rates)

    def pair(self, order: Order) -> GaussianPair:
        """Return the pair of one order."""
        return self.remove if order == "remove" else self.add

    def step(self, order: Order) -> Step:
        """Return the group as the kernels take it."""
        return Step(self.pair(order), self.rates, self.count)

    def same_release(self, other: Group) -> bool:
        """Say if both groups make the same release: equal exact inputs and equal rates.

        >>> import ndis
        >>> a, b = (Group(ndis.GaussianPair.from_ratios(2.0), count=n) for n in (1, 2))
        >>> a.same_release(b)
        True
        """
        return (
            sorted(self.rates) == sorted(other.rates)
            and self.remove.same_origins(other.remove)
            and self.add.same_origins(other.add)
        )


def other_order(remove: GaussianPair, add: GaussianPair | None) -> GaussianPair:
    """Check the pairs of both orders, and return that of the second: `remove.reversed()` unless given."""
    for name, pair in (("remove", remove), ("add", remove if add is None else add)):
        if not isinstance(pair, GaussianPair):
            raise ParameterError(name, "be a GaussianPair", type(pair).__name__)
    return remove.reversed() if add is None else add


def canonical(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Return the canonical list: one group for all releases without sampling, and equal sampled releases counted."""
    plain: list[Group] = []
    sampled: list[Group] = []
    for group in groups:
        if not isinstance(group, Group):
            raise ParameterError("groups", "be Group values", type(group).__name__)
        if not group.sampled:
            n = group.count
            plain.append(group if n == 1 else Group(group.remove.repeat(n), group.add.repeat(n)))
            continue
        for i, known in enumerate(sampled):
            if known.same_release(group):
                sampled[i] = replace(known, count=known.count + group.count)
                break
        else:
            sampled.append(group)
    if not plain and not sampled:
        raise ParameterError("groups", "hold at least one group", "none")
    if len(plain) > 1:
        first, *others = plain
        remove = first.remove.compose(*(g.remove for g in others))
        plain = [Group(remove, first.add.compose(*(g.add for g in others)))]
    return (*plain, *sampled)


def as_rate(rate: float, *, name: str = "rate") -> float:
    """Return a sampling rate, which must be above 0 and at most 1."""
    q = as_scalar(name, rate)
    if not 0 < q <= 1:
        raise ParameterError(name, "be above 0 and at most 1", q)
    return q


def as_noise_multiplier(name: str, value: float) -> float:
    """Return the standard deviation of noise over the sensitivity, which must be positive."""
    return as_within(name, value, 400)


def noise_pair(noise_multiplier: float) -> GaussianPair:
    """Return the pair of Gaussian noise: a mean shift of 1/noise_multiplier, exactly."""
    return GaussianPair.from_excess(0, 1 / Fraction(noise_multiplier))


def total_failure(failures: list[float], *, times: int = 1) -> float:
    """Return the sum of failure probabilities, `times` over, rounded up. A sum of 1 is refused."""
    total = up(times * sum((Fraction(f) for f in failures), Fraction(0)))
    if not total < 1:
        raise ParameterError("failure_probability", "stay below 1 in all", total, "compose fewer releases")
    return total


def orders_of(order: str) -> tuple[Order, ...]:
    """Return the orders that a caller asks for."""
    return _ORDERS[as_choice("order", order, tuple(_ORDERS))]
