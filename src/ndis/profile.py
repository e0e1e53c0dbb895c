"""The guarantee of a mechanism: the worse of its two ordered pairs, and what composition and sampling make of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from ndis._groups import Choice, Group, Releases, as_noise_multiplier, as_rate, canonical, orders_of, total_failure
from ndis._pair_json import profile_from_json, profile_to_json
from ndis._rounding import up
from ndis._search import least_type_two
from ndis._validate import (
    Adjacency,
    Floats,
    Vector,
    as_adjacency,
    as_count,
    as_floats,
    as_one_probability,
    as_probability,
    as_scalar,
    shaped,
    single,
)
from ndis.accountant import groups as kernel
from ndis.accountant.groups import Order
from ndis.enclosure import Enclosure
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.plotting import plot_profile

__all__ = ["Choice", "Group", "Order", "PrivacyProfile"]

_FARTHEST = 690.0  # e^ε is a float up to there
_NEGLIGIBLE = 1e-16  # beyond the ε with this δ a trade-off curve does not change in a float
_ZERO = -800.0  # a δ below e^-800 is the float 0


@dataclass(frozen=True, eq=False, init=False)
class PrivacyProfile(Releases):
    """How private a mechanism is for one record: δ at every ε, the worse of both orders.

    Parameters
    ----------
    remove : GaussianPair
        The output with the record from the output without it.
    add : GaussianPair, optional
        The output without the record from the output with it; `remove.reversed()` unless given.
    sampling_rates : tuple of float
        Rates of Poisson sampling, one after the other; use `subsampled`.
    failure_probability : float
        Probability that the pairs say nothing, for example because a private test errs. Every δ here includes it.
    adjacency : str
        Which data sets are neighbours: "add-remove" or "replace-one".
    groups : tuple of Group
        The releases, in place of `remove`, `add` and `sampling_rates`; use `from_groups`. Releases without sampling
        are kept as one group, which comes first.

    Examples
    --------
    >>> import ndis
    >>> sketch = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.02, copies=100))
    >>> round(sketch.epsilon(1e-6), 9)
    0.692349824
    >>> round(sketch.repeat(10).epsilon(1e-6), 9)
    2.119854412
    >>> round(sketch.subsampled(0.01).epsilon(1e-6), 9)
    0.00...
    """

    groups: tuple[Group, ...]
    adjacency: Adjacency
    failure_probability: float

    def __init__(
        self,
        remove: GaussianPair | None = None,
        add: GaussianPair | None = None,
        sampling_rates: tuple[float, ...] = (),
        failure_probability: float = 0.0,
        *,
        adjacency: Adjacency = "add-remove",
        groups: Iterable[Group] | None = None,
    ) -> None:
        if groups is None:
            groups = (Group(remove, add, sampling_rates),)  # type: ignore[arg-type]  # checked there
        elif remove is not None or add is not None or sampling_rates:
            raise ParameterError("groups", "stand in place of remove, add and sampling_rates", "both")
        failure = as_scalar("failure_probability", failure_probability)
        if not 0 <= failure < 1:
            raise ParameterError("failure_probability", "be at least 0 and below 1", failure)
        object.__setattr__(self, "groups", canonical(groups))
        object.__setattr__(self, "adjacency", as_adjacency(adjacency))
        object.__setattr__(self, "failure_probability", failure)
        if self.adjacency == "replace-one" and any(group.sampled for group in self.groups):
            raise ParameterError(
                "adjacency",
                "be 'add-remove' for Poisson samples",
                "'replace-one'",
                "a replaced record under Poisson sampling has no single worst pair",
            )

    @classmethod
    def from_pair(cls, pair: GaussianPair, *, adjacency: Adjacency = "add-remove") -> PrivacyProfile:
        """The guarantee if one pair, and its reverse, is the worst case of both orders.

        >>> import ndis
        >>> profile = ndis.PrivacyProfile.from_pair(ndis.GaussianPair.from_ratios(0.5))
        >>> profile.delta(1.0) == profile.add.delta(1.0) > profile.remove.delta(1.0)
        True
        """
        return PrivacyProfile(pair, adjacency=adjacency)

    @classmethod
    def from_groups(
        cls, groups: Iterable[Group], *, adjacency: Adjacency = "add-remove", failure_probability: float = 0.0
    ) -> PrivacyProfile:
        """The guarantee of all releases of all groups together.

        >>> import ndis
        >>> from ndis.profile import Group
        >>> pair = ndis.GaussianPair.from_ratios(1.0, shift=0.5)
        >>> profile = ndis.PrivacyProfile.from_groups([Group(pair), Group(pair, count=3)])
        >>> len(profile.groups), profile.remove.dimension
        (1, 4)
        """
        return PrivacyProfile(groups=groups, adjacency=adjacency, failure_probability=failure_probability)

    @classmethod
    def from_noise_multiplier(cls, sigma: float, *, adjacency: Adjacency = "add-remove") -> PrivacyProfile:
        """The guarantee of Gaussian noise whose standard deviation is `sigma` times the sensitivity.

        It is a mean shift of 1/sigma. Certificates use that rational exactly; floats round it up.

        >>> import ndis
        >>> round(ndis.PrivacyProfile.from_noise_multiplier(2.0).epsilon(1e-6), 9)
        2.25408465
        """
        noise = as_noise_multiplier("sigma", sigma)
        return PrivacyProfile(GaussianPair.from_excess(0, 1 / Fraction(noise)), adjacency=adjacency)

    # ------------------------------------------------------------------ the guarantee

    @overload
    def log_delta(self, epsilon: float, *, order: Choice = ...) -> float: ...
    @overload
    def log_delta(self, epsilon: Vector, *, order: Choice = ...) -> Floats: ...
    def log_delta(self, epsilon: ArrayLike, *, order: Choice = "worst") -> float | Floats:
        """log δ(ε), accurate far below the smallest float. Broadcasts over `epsilon`, which may be negative.

        >>> import ndis
        >>> round(ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=0.01)).log_delta(3.0), 6)
        -45015.43172
        """
        return self._logs(epsilon, order, -math.inf)

    @overload
    def delta(self, epsilon: float, *, order: Choice = ...) -> float: ...
    @overload
    def delta(self, epsilon: Vector, *, order: Choice = ...) -> Floats: ...
    def delta(self, epsilon: ArrayLike, *, order: Choice = "worst") -> float | Floats:
        """δ(ε): the larger of the two orders, or the one asked for. Broadcasts; ε may be negative.

        >>> import ndis
        >>> profile = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(2.0))
        >>> round(profile.delta(1.0), 12), round(profile.delta(1.0, order="add"), 12)
        (0.045611619893, 0.0)
        """
        value: Any = np.exp(self._logs(epsilon, order, _ZERO))
        return float(value) if value.ndim == 0 else value

    @overload
    def epsilon(self, delta: float, *, order: Choice = ...) -> float: ...
    @overload
    def epsilon(self, delta: Vector, *, order: Choice = ...) -> Floats: ...
    def epsilon(self, delta: ArrayLike, *, order: Choice = "worst") -> float | Floats:
        """The smallest ε ≥ 0 with δ(ε) ≤ `delta`, on the safe side; 0 if that holds at 0 already. Broadcasts.

        >>> import ndis
        >>> profile = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=1.0))
        >>> profile.delta(profile.epsilon(1e-6)) <= 1e-6
        True
        """
        target = as_probability("delta", delta)
        return shaped(np.array([self._smallest_epsilon(d, order) for d in target.ravel().tolist()]), target.shape)

    def certify(self, epsilon: float, *, relative_width: float | None = None, order: Choice = "worst") -> Enclosure:
        """A rigorous enclosure of δ(ε), from the exact inputs.

        A failure probability counts only in the upper end: a guarantee must include it, but nobody has shown that a
        mechanism uses it up.

        Parameters
        ----------
        epsilon : float
            May be negative.
        relative_width : float, optional
            Width of the enclosure relative to δ: 1e-10 unless given, and 1e-6 for compositions of sampled releases.
            A composition of sampled releases whose width is out of reach gets the narrowest enclosure found. For
            sampled pairs with different variance ratios that compose, the ends are about a percent apart, and no
            width is promised. Both ends are certain in every case.
        order : {"worst", "remove", "add"}

        Raises
        ------
        PrecisionError
            If the enclosure of one release does not reach that width, or no enclosure is found.

        Examples
        --------
        >>> import ndis
        >>> profile = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(2.0)).subsampled(0.1)
        >>> box = profile.certify(0.5)
        >>> box.lower <= profile.delta(0.5) * (1 + 1e-12) and profile.delta(0.5) * (1 - 1e-12) <= box.upper
        True
        """
        x = single("epsilon", as_floats("epsilon", epsilon))
        usual = kernel.SAMPLED_WIDTH if self.composed else kernel.WIDTH
        width = usual if relative_width is None else as_one_probability("relative_width", relative_width)
        boxes = [self._certify(one, x, width) for one in orders_of(order)]
        lower, upper = max(b.lower for b in boxes), max(b.upper for b in boxes)
        if not self.failure_probability:
            return Enclosure(lower, upper)
        return Enclosure(lower, min(up(Fraction(upper) + Fraction(self.failure_probability)), 1.0))

    def certified_epsilon(self, delta: float, *, order: Choice = "worst") -> float:
        """An ε whose certified δ(ε) is at most `delta`: `epsilon(delta)`, moved up in its last digits if needed.

        >>> import ndis
        >>> profile = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=1.0))
        >>> profile.certify(profile.certified_epsilon(1e-6), relative_width=1e-13).upper <= 1e-6
        True
        """
        target = as_one_probability("delta", delta)
        if self.composed:
            return self._certified_epsilon_of_composition(target, order)
        start = x = self._smallest_epsilon(target, order)
        step = 2.0**-48 * max(start, 2.0**-1000)
        while math.isfinite(x) and not self.certify(x, relative_width=1e-13, order=order).upper <= target:
            x, step = start + step, 2.0 * step
        return x

    @overload
    def tradeoff(self, alpha: float) -> float: ...
    @overload
    def tradeoff(self, alpha: Vector) -> Floats: ...
    def tradeoff(self, alpha: ArrayLike) -> float | Floats:
        """The least type II error of a test with type I error `alpha` that tells neighbours apart. Broadcasts.

        This is f(α) = sup over real ε of [1 − δ(ε) − e^ε α]₊ with the worse order at each ε (thm:tradeoff). So it is
        exact for compositions too. Every ε gives a lower bound, and the best one found is returned.

        >>> import ndis
        >>> profile = ndis.PrivacyProfile.from_noise_multiplier(1.0)
        >>> round(profile.tradeoff(0.05), 9)  # Φ(Φ⁻¹(0.95) − 1)
        0.740488977
        """
        level = as_floats("alpha", alpha)
        if not ((level >= 0) & (level <= 1)).all():
            raise ParameterError("alpha", "lie between 0 and 1", alpha)
        reach = replace(self, failure_probability=0.0).epsilon(_NEGLIGIBLE)
        return shaped(least_type_two(self.delta, level.ravel(), min(reach, _FARTHEST)), level.shape)

    # ------------------------------------------------------------------ new guarantees from old

    def compose(self, *others: PrivacyProfile) -> PrivacyProfile:
        """The guarantee of all mechanisms together, each with its own randomness.

        Later ones may depend on the outputs of earlier ones. Each order composes on its own; the worse order is taken
        at the end. Sampled releases compose exactly too: each draws its own Poisson sample. A lifted model enters with
        the one Gaussian pair that dominates its envelope. The accuracy promised is then that of the dominating pair.

        >>> import ndis
        >>> sketch = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.02, copies=100))
        >>> mean = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=0.1))
        >>> sketch.compose(mean).epsilon(1e-6) > sketch.epsilon(1e-6)
        True
        >>> step = ndis.PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.01)  # a step of DP-SGD
        >>> round(step.repeat(1000).compose(mean).epsilon(1e-6), 6)
        2.168499
        """
        profiles = (self, *others)
        for p in others:
            if not isinstance(p, PrivacyProfile):
                raise ParameterError(
                    "others", "be PrivacyProfile values", type(p).__name__, "wrap a pair as PrivacyProfile(pair)"
                )
            if p.adjacency != self.adjacency:
                raise ParameterError(
                    "adjacency of others",
                    f"be {self.adjacency!r}, like that of this profile",
                    repr(p.adjacency),
                    "a guarantee for one relation between data sets says nothing about the other",
                )
        return PrivacyProfile.from_groups(
            (group for p in profiles for group in p.groups),
            adjacency=self.adjacency,
            failure_probability=total_failure([p.failure_probability for p in profiles]),
        )

    def repeat(self, times: int) -> PrivacyProfile:
        """The guarantee of `times` runs in all. If the runs are sampled, each draws its own sample.

        >>> import ndis
        >>> ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.1)).repeat(10).remove.dimension
        10
        """
        times = as_count("times", times)
        return PrivacyProfile.from_groups(
            (replace(group, count=group.count * times) for group in self.groups),
            adjacency=self.adjacency,
            failure_probability=total_failure([self.failure_probability], times=times),
        )

    def subsampled(self, rate: float) -> PrivacyProfile:
        """The guarantee if each record enters on its own with probability `rate` (Poisson sampling), exactly.

        All releases of the profile see one sample. Sampling a sample multiplies the rates. A failure probability stays
        as it is, though sampling would make it smaller. Two cases are refused: releases that draw a sample each, and
        "replace-one" neighbours.

        >>> import ndis
        >>> profile = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=1.0))
        >>> round(profile.delta(0.0), 12), round(profile.subsampled(0.1).delta(0.0), 12)
        (0.382924922548, 0.038292492255)
        """
        q = as_rate(rate)
        if q == 1.0:
            return self
        if self.composed:
            raise ParameterError(
                "profile",
                "be one release, or releases that all see one sample, to be subsampled",
                f"{sum(g.count for g in self.groups)} releases, some of which draw their own sample",
                "sample each release before you compose",
            )
        (group,) = self.groups
        return PrivacyProfile.from_groups(
            [replace(group, rates=(*group.rates, q))],
            adjacency=self.adjacency,
            failure_probability=self.failure_probability,
        )

    # ------------------------------------------------------------------ out and in

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw δ against ε and return the axes; see `ndis.plotting.plot_profile` for the options."""
        return plot_profile(self, ax=ax, **options)

    def to_json(self) -> str:
        """The profile as JSON text, from the exact inputs of its pairs.

        >>> import ndis
        >>> profile = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.02, copies=100))
        >>> ndis.PrivacyProfile.from_json(profile.to_json()).certify(1.0) == profile.certify(1.0)
        True
        """
        return profile_to_json(self.groups, self.adjacency, self.failure_probability)

    @classmethod
    def from_json(cls, text: str | bytes) -> PrivacyProfile:
        """The profile that `to_json` wrote; anything else is refused.

        Format 1 did not name the adjacency. Its profiles are read as "add-remove".

        >>> import ndis
        >>> ndis.PrivacyProfile.from_json('{"format": "something else"}')
        Traceback (most recent call last):
        ...
        ndis.errors.ParameterError: format of the profile must be 'ndis.PrivacyProfile'; got 'something else'
        """
        return PrivacyProfile(**profile_from_json(text))

    # ------------------------------------------------------------------ one order at a time

    def _logs(self, epsilon: ArrayLike, order: Choice, floor: float) -> float | Floats:
        """log δ(ε); −inf may stand for a value that is known to lie below `floor`."""
        x = as_floats("epsilon", epsilon)
        if self.composed and order == "worst":
            values = kernel.worst_log_delta(self._steps("remove"), self._steps("add"), x.ravel(), floor)
        else:
            values = np.maximum.reduce([self._log_delta(one, x.ravel(), floor) for one in orders_of(order)])
        if self.failure_probability:
            values = np.minimum(np.logaddexp(values, math.log(self.failure_probability)), 0.0)
        return shaped(values, x.shape)

    def _log_delta(self, order: Order, epsilon: Floats, floor: float) -> Floats:
        return kernel.log_delta(self._steps(order), order, epsilon, floor)

    def _certify(self, order: Order, epsilon: float, relative_width: float) -> Enclosure:
        return kernel.certify(self._steps(order), order, epsilon, relative_width=relative_width)
