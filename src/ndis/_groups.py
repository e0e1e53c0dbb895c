"""Groups of equal releases: the parts of a privacy profile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from ndis._rounding import down, up
from ndis._validate import as_count, as_scalar
from ndis.accountant import groups as kernel
from ndis.accountant.groups import Order, Step
from ndis.enclosure import Enclosure
from ndis.errors import ParameterError, PrecisionError
from ndis.pair import GaussianPair

__all__ = ["Choice", "Group", "Releases", "as_noise_multiplier", "as_rate", "canonical", "orders_of", "total_failure"]

Choice = Literal["worst", "remove", "add"]

_AIMS = 24  # certificates tried for one ε
_ORDERS: dict[str, tuple[Order, ...]] = {"worst": ("remove", "add"), "remove": ("remove",), "add": ("add",)}


@dataclass(frozen=True, eq=False)
class Group:
    """Equal releases: the pair of each order, the rate of Poisson sampling and the number of releases.

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
        if not isinstance(self.remove, GaussianPair):
            raise ParameterError("remove", "be a GaussianPair", type(self.remove).__name__)
        add: object = self.add
        if add is None:
            object.__setattr__(self, "add", self.remove.reversed())
        elif not isinstance(add, GaussianPair):
            raise ParameterError("add", "be a GaussianPair", type(add).__name__)
        object.__setattr__(self, "rates", tuple(q for q in map(as_rate, self.rates) if q < 1.0))
        object.__setattr__(self, "count", as_count("count", self.count))

    @property
    def rate(self) -> float:
        """Probability with which a record enters each release; 1 if there is no sampling."""
        return math.prod(self.rates, start=1.0)

    @property
    def sampled(self) -> bool:
        """True if the releases see a sample only."""
        return bool(self.rates)

    def pair(self, order: Order) -> GaussianPair:
        """The pair of one order."""
        return self.remove if order == "remove" else self.add

    def step(self, order: Order) -> Step:
        """The group as the kernels take it."""
        return Step(self.pair(order), self.rates, self.count)

    def same_release(self, other: Group) -> bool:
        """True if both groups make the same release: equal exact inputs and equal rates.

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


class Releases:
    """The groups of a profile: the properties that follow from them, and the search for ε."""

    groups: tuple[Group, ...]
    failure_probability: float
    certify: Callable[..., Enclosure]

    def _only(self) -> Group:
        """The group of a profile that has one group with one release."""
        if self.composed:
            raise ParameterError(
                "profile",
                "be one release to have one pair per order",
                f"{sum(g.count for g in self.groups)} releases, some of them sampled",
                "read its groups",
            )
        return self.groups[0]

    @property
    def remove(self) -> GaussianPair:
        """The output with the record from the output without it, before sampling. For profiles of one group."""
        return self._only().remove

    @property
    def add(self) -> GaussianPair:
        """The output without the record from the output with it, before sampling. For profiles of one group."""
        return self._only().add

    @property
    def sampling_rates(self) -> tuple[float, ...]:
        """Rates of Poisson sampling, one after the other. For profiles of one group."""
        return self._only().rates

    @property
    def sampling_rate(self) -> float:
        """Probability with which a record enters the mechanism; 1 unless subsampled. For profiles of one group."""
        return self._only().rate

    @property
    def sampled(self) -> bool:
        """True if some release sees a sample only."""
        return any(group.sampled for group in self.groups)

    @property
    def composed(self) -> bool:
        """True if there are several releases with a sample among them: then no single pair per order exists."""
        return len(self.groups) > 1 or self.groups[0].count > 1

    def _steps(self, order: Order) -> list[Step]:
        return [group.step(order) for group in self.groups]

    def _smallest_epsilon(self, target: float, choice: str, guess: float | None = None) -> float:
        if self.failure_probability:
            target = down(Fraction(target) - Fraction(self.failure_probability))
            if not target > 0.0:
                return math.inf
        found = 0.0
        for order in orders_of(choice):
            found = kernel.smallest_epsilon(self._steps(order), order, target, start=found, guess=guess)
        return found

    def _certified_epsilon_of_composition(self, target: float, order: str) -> float:
        """As `certified_epsilon`: it aims below `target` by the width of the certificate, and by more if needed."""
        room, aim = down(Fraction(target) - Fraction(self.failure_probability)), 1.0 - 2.0 * kernel.SAMPLED_WIDTH
        for _ in range(_AIMS):
            if not room > 0.0:
                return math.inf
            try:
                x = self._smallest_epsilon(self.failure_probability + aim * room, order)
            except PrecisionError:  # floats are out of reach
                return max(kernel.certified_epsilon(self._steps(one), one, room) for one in orders_of(order))
            upper = self.certify(x, order=order).upper
            if upper <= target:
                return x
            aim *= (1.0 - 2.0**-20) * room / max(upper - self.failure_probability, room)
        raise PrecisionError(f"no certified epsilon was found at delta = {target!r}", reached=upper / target - 1.0)


def canonical(groups: Iterable[Group]) -> tuple[Group, ...]:
    """The canonical list: one group for all releases without sampling, and equal sampled releases counted."""
    plain: list[Group] = []
    sampled: list[Group] = []
    for group in groups:
        if not isinstance(group, Group):
            raise ParameterError("groups", "be Group values", type(group).__name__)
        if not group.sampled:
            plain.append(_whole(group))
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
        first, *rest = plain
        remove = first.remove.compose(*(g.remove for g in rest))
        plain = [Group(remove, first.add.compose(*(g.add for g in rest)))]
    return (*plain, *sampled)


def _whole(group: Group) -> Group:
    """A group without sampling as one release of all its copies."""
    if group.count == 1:
        return group
    return Group(group.remove.repeat(group.count), group.add.repeat(group.count))


def as_rate(rate: float, *, name: str = "rate") -> float:
    """A sampling rate: above 0 and at most 1."""
    q = as_scalar(name, rate)
    if not 0 < q <= 1:
        raise ParameterError(name, "be above 0 and at most 1", q)
    return q


def as_noise_multiplier(name: str, value: float) -> float:
    """The standard deviation of noise over the sensitivity."""
    noise = as_scalar(name, value)
    if not 2.0**-400 <= noise <= 2.0**400:
        raise ParameterError(name, "be positive and between 2^-400 and 2^400", noise)
    return noise


def total_failure(failures: list[float], *, times: int = 1) -> float:
    """The sum of failure probabilities, `times` over, rounded up. A sum of 1 guarantees nothing and is refused."""
    total = up(times * sum((Fraction(f) for f in failures), Fraction(0)))
    if not total < 1:
        raise ParameterError("failure_probability", "stay below 1 in all", total, "compose fewer releases")
    return total


def orders_of(order: str) -> tuple[Order, ...]:
    """The orders that a caller asks for."""
    if order not in _ORDERS:
        raise ParameterError("order", "be 'worst', 'remove' or 'add'", repr(order))
    return _ORDERS[order]
