"""The guarantee of a mechanism is the worse of its two ordered pairs, composed and sampled exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ndis._batches import worst_attained
from ndis._exact import down, up
from ndis._groups import (
    Choice,
    Group,
    StepGroup,
    as_noise_multiplier,
    as_rate,
    canonical,
    noise_pairs,
    orders_of,
    profile_from_json,
    profile_to_json,
    sampled_step,
    total_failure,
)
from ndis._search import first_safe_epsilon
from ndis._validate import (
    Adjacency,
    Floats,
    Order,
    as_adjacency,
    as_count,
    as_floats,
    as_one_probability,
    as_probability,
    as_scalar,
    assign,
    broadcasts,
    exponential,
    largest,
    require,
    shaped,
    single,
    warn_caller,
)
from ndis.accountant.composition import SAMPLED_WIDTH, WIDTH, Composition, certified_epsilon, worse
from ndis.accountant.one_release import OneRelease
from ndis.enclosure import Enclosure
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.plotting import plot_profile
from ndis.risk import Risks

__all__ = ["Choice", "Group", "Order", "PrivacyProfile", "StepGroup"]

_LOG_OF_ZERO = -800.0  # δ below e^-800 is the float 0


@dataclass(frozen=True, eq=False, init=False)
class PrivacyProfile(Risks):
    """A profile says how private a mechanism is for one record: δ at every ε, the worse of both orders.

    Parameters
    ----------
    remove : GaussianPair
        The output with the record from the output without it.
    add : GaussianPair, optional
        The output without the record from the output with it; `remove.reversed()` unless given.
    sampling_rates : tuple of float
        Rates of Poisson sampling, one after the other; use `subsampled`.
    failure_probability : float
        Probability that the pairs say nothing, for example because a private test errs. Every δ of a profile includes
        it.
    adjacency : str
        Which data sets are neighbours: "add-remove" or "replace-one".
    groups : tuple of Group
        The releases of all groups together, in place of `remove`, `add` and `sampling_rates`. Releases without sampling
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

    groups: tuple[Group | StepGroup, ...]
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
        groups: Iterable[Group | StepGroup] | None = None,
    ) -> None:
        if groups is None:
            groups = (Group(remove, add, sampling_rates),)  # type: ignore[arg-type]  # checked there
        elif remove is not None or add is not None or sampling_rates:
            raise ParameterError("groups", "stand in place of remove, add and sampling_rates", "both")
        failure = as_scalar("failure_probability", failure_probability)
        require(0 <= failure < 1, "failure_probability", "be at least 0 and below 1", failure)
        assign(self, groups=canonical(groups), adjacency=as_adjacency(adjacency), failure_probability=failure)
        for step in (group.step for group in self.groups if isinstance(group, StepGroup)):
            rule = f"be {step.adjacency!r} for a step of kind {step.kind!r}"
            require(step.adjacency == self.adjacency, "adjacency", rule, repr(self.adjacency))
        sampled = any(group.sampled for group in self.groups if isinstance(group, Group))
        remedy = "use from_noise_multiplier and subsampled, which know the worst pair of Gaussian noise"
        good = self.adjacency == "add-remove" or not sampled
        require(good, "adjacency", "be 'add-remove' for Poisson samples", "'replace-one'", remedy)

    @classmethod
    def from_pair(cls, pair: GaussianPair, *, adjacency: Adjacency = "add-remove") -> PrivacyProfile:
        """Return the guarantee of a mechanism whose worst case is one pair, in both orders.

        >>> import ndis
        >>> profile = ndis.PrivacyProfile.from_pair(ndis.GaussianPair.from_ratios(0.5))
        >>> profile.delta(1.0) == profile.add.delta(1.0) > profile.remove.delta(1.0)
        True
        """
        return PrivacyProfile(pair, adjacency=adjacency)

    @classmethod
    def from_groups(cls, groups: Iterable[Group | StepGroup], **options: Any) -> PrivacyProfile:
        """Use `PrivacyProfile(groups=...)`; this name is deprecated and goes with the next version."""
        warn_caller("PrivacyProfile.from_groups is deprecated; use PrivacyProfile(groups=...)", DeprecationWarning)
        return PrivacyProfile(groups=groups, **options)

    @classmethod
    def from_noise_multiplier(cls, sigma: float, *, adjacency: Adjacency = "add-remove") -> PrivacyProfile:
        """Return the guarantee of Gaussian noise whose standard deviation is `sigma` times the sensitivity.

        It is a mean shift of 1/sigma. Certificates use that rational exactly; floats round it up.

        >>> import ndis
        >>> round(ndis.PrivacyProfile.from_noise_multiplier(2.0).epsilon(1e-6), 9)
        2.25408465
        """
        return PrivacyProfile(*noise_pairs(as_noise_multiplier("sigma", sigma)), adjacency=adjacency)

    @classmethod
    def _of_steps(cls, groups: list[StepGroup]) -> PrivacyProfile:
        return PrivacyProfile(groups=groups, adjacency=groups[0].step.adjacency)

    # ------------------------------------------------------------------ its releases

    def _only(self) -> Group:
        """Return the group of a profile that has one pair per order; others are refused."""
        first = self.groups[0]
        if self.composed or isinstance(first, StepGroup):
            got = f"{sum(g.count for g in self.groups)} releases, some of them sampled"
            raise ParameterError("profile", "be one release to have one pair per order", got, "read its groups")
        return first

    @property
    def remove(self) -> GaussianPair:
        """Return the pair of the output with the record from the output without it, before sampling.

        Profiles of several groups have no such pair and are refused.
        """
        return self._only().remove

    @property
    def add(self) -> GaussianPair:
        """Return the pair of the output without the record from the output with it, as `remove` does."""
        return self._only().add

    @property
    def sampling_rates(self) -> tuple[float, ...]:
        """Return the rates of Poisson sampling, one after the other. Profiles of several groups are refused."""
        return self._only().rates

    @property
    def sampling_rate(self) -> float:
        """Return the probability with which a record enters the mechanism; 1 unless subsampled."""
        return self._only().rate

    @property
    def sampled(self) -> bool:
        """Say if some release sees only a sample."""
        return any(group.sampled for group in self.groups)

    @property
    def composed(self) -> bool:
        """Say if no pair per order exists: there are several releases, some of them sampled, or a step is no pair."""
        return len(self.groups) > 1 or self.groups[0].count > 1 or isinstance(self.groups[0], StepGroup)

    # ------------------------------------------------------------------ the guarantee

    @broadcasts
    def log_delta(self, epsilon: ArrayLike, *, order: Choice = "worst") -> float | Floats:
        """Return log δ(ε), accurate far below the smallest float. It broadcasts over `epsilon`, which may be negative.

        >>> import ndis
        >>> round(ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=0.01)).log_delta(3.0), 6)
        -45015.43172
        """
        return self._logs(epsilon, order, -math.inf)

    @broadcasts
    def delta(self, epsilon: ArrayLike, *, order: Choice = "worst") -> float | Floats:
        """Return δ(ε): the larger of the two orders, or the one asked for. It broadcasts; ε may be negative.

        >>> import ndis
        >>> profile = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(2.0))
        >>> round(profile.delta(1.0), 12), round(profile.delta(1.0, order="add"), 12)
        (0.045611619893, 0.0)
        """
        return exponential(self._logs(epsilon, order, _LOG_OF_ZERO))

    @broadcasts
    def epsilon(self, delta: ArrayLike, *, order: Choice = "worst") -> float | Floats:
        """Return the smallest ε ≥ 0 with δ(ε) ≤ `delta`, on the safe side. It broadcasts over `delta`.

        >>> import ndis
        >>> profile = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=1.0))
        >>> profile.delta(profile.epsilon(1e-6)) <= 1e-6
        True
        """
        target = as_probability("delta", delta)
        return shaped(np.array([self._smallest_epsilon(d, order) for d in target.ravel().tolist()]), target.shape)

    def certify(self, epsilon: float, *, relative_width: float | None = None, order: Choice = "worst") -> Enclosure:
        """Return a rigorous enclosure of δ(ε), from the exact inputs.

        A failure probability counts only in the upper end. A guarantee must include it, but no mechanism is known to
        use it up.

        Parameters
        ----------
        epsilon : float
            May be negative.
        relative_width : float, optional
            Width of the enclosure relative to δ: 1e-10 unless given, and 1e-6 for compositions of sampled releases.
            A composition of sampled releases that cannot be enclosed to this width gets the narrowest enclosure that
            was computed. For compositions of sampled pairs with different variance ratios the ends are about a percent
            apart, and no width is promised. Both ends are certain in every case.
        order : {"worst", "remove", "add"}

        Raises
        ------
        PrecisionError
            If the enclosure of one release does not reach that width, or if there is no enclosure.

        Examples
        --------
        >>> import ndis
        >>> profile = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(2.0)).subsampled(0.1)
        >>> box = profile.certify(0.5)
        >>> box.lower <= profile.delta(0.5) * (1 + 1e-12) and profile.delta(0.5) * (1 - 1e-12) <= box.upper
        True
        """
        x = single("epsilon", as_floats("epsilon", epsilon))
        usual = SAMPLED_WIDTH if self.composed else WIDTH
        width = usual if relative_width is None else as_one_probability("relative_width", relative_width)
        boxes = [self._certify(one, x, width) for one in self._orders(order)]
        lower, upper = largest(b.lower for b in boxes), largest(b.upper for b in boxes)
        if not self.attained:
            worst = worst_attained(self.groups, orders_of(order), x, upper)
            lower = 0.0 if worst is None else worst.certify(x, width).lower
        if not self.failure_probability:
            return Enclosure(lower, upper)
        return Enclosure(lower, min(up(Fraction(upper) + Fraction(self.failure_probability)), 1.0))

    def certified_epsilon(self, delta: float, *, order: Choice = "worst") -> float:
        """Return an ε whose certified δ(ε) is at most `delta`: `epsilon(delta)`, moved up in its last digits if needed.

        >>> import ndis
        >>> profile = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=1.0))
        >>> profile.certify(profile.certified_epsilon(1e-6), relative_width=1e-13).upper <= 1e-6
        True
        """
        target = as_one_probability("delta", delta)
        if self.composed:
            left = down(Fraction(target) - Fraction(self.failure_probability))
            return certified_epsilon(self._compositions(order), left) if left > 0.0 else math.inf
        start = self._smallest_epsilon(target, order)
        return first_safe_epsilon(start, lambda x: self.certify(x, relative_width=1e-13, order=order).upper, target)

    # ------------------------------------------------------------------ new guarantees from old

    def compose(self, *others: PrivacyProfile) -> PrivacyProfile:
        """Return the guarantee of all mechanisms together, each with its own randomness.

        Later ones may depend on the outputs of earlier ones. Each order composes separately; the worse order is taken
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
            remedy = "wrap a pair as PrivacyProfile(pair)"
            require(isinstance(p, PrivacyProfile), "others", "be PrivacyProfile values", type(p).__name__, remedy)
            rule = f"be {self.adjacency!r}, like that of this profile"
            remedy = "a guarantee for one relation between data sets says nothing about the other"
            require(p.adjacency == self.adjacency, "adjacency of others", rule, repr(p.adjacency), remedy)
        groups = (group for p in profiles for group in p.groups)
        failure = total_failure([p.failure_probability for p in profiles])
        return PrivacyProfile(groups=groups, adjacency=self.adjacency, failure_probability=failure)

    def repeat(self, times: int) -> PrivacyProfile:
        """Return the guarantee of `times` runs. If the runs are sampled, each draws its own sample.

        >>> import ndis
        >>> ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.1)).repeat(10).remove.dimension
        10
        """
        times = as_count("times", times)
        groups = (replace(group, count=group.count * times) for group in self.groups)
        failure = total_failure([self.failure_probability], times=times)
        return PrivacyProfile(groups=groups, adjacency=self.adjacency, failure_probability=failure)

    def subsampled(self, rate: float) -> PrivacyProfile:
        """Return the guarantee if each record enters independently with probability `rate` (Poisson sampling), exactly.

        All releases of the profile see one sample. Sampling a sample multiplies the rates. A failure probability stays
        unchanged, though sampling would make it smaller. Releases that draw a sample each are refused.

        For "replace-one" neighbours the profile must come from `from_noise_multiplier`. The sensitivity is then the
        diameter of the ball in which the contribution of a record lies, and a record outside the sample contributes its
        centre, as with clipped sums (thm:replace-poisson).

        >>> import ndis
        >>> profile = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=1.0))
        >>> round(profile.delta(0.0), 12), round(profile.subsampled(0.1).delta(0.0), 12)
        (0.382924922548, 0.038292492255)
        """
        q = as_rate(rate)
        if q == 1.0:
            return self
        alone = self.adjacency == "replace-one" and len(self.groups) == self.groups[0].count == 1
        step = sampled_step(self.groups[0], q, adjacency="replace-one") if alone else None
        rule = "be one release, or releases that all see one sample, to be subsampled"
        got = f"{sum(g.count for g in self.groups)} releases, some of which draw their own sample"
        require(step or not self.composed, "profile", rule, got, "sample each release before you compose")
        group = StepGroup(step) if step else replace(self._only(), rates=(*self._only().rates, q))
        return PrivacyProfile(groups=(group,), adjacency=self.adjacency, failure_probability=self.failure_probability)

    # ------------------------------------------------------------------ out and in

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw δ against ε and return the axes; see `ndis.plotting.plot_profile` for the options."""
        return plot_profile(self, ax=ax, **options)

    def to_json(self) -> str:
        """Write the profile as JSON text, from the exact inputs of its pairs.

        >>> import ndis
        >>> profile = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.02, copies=100))
        >>> ndis.PrivacyProfile.from_json(profile.to_json()).certify(1.0) == profile.certify(1.0)
        True
        """
        return profile_to_json(self.groups, self.adjacency, self.failure_probability)

    @classmethod
    def from_json(cls, text: str | bytes) -> PrivacyProfile:
        """Read the profile that `to_json` wrote; anything else is refused.

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
        """Return log δ(ε). A value that is known to lie below `floor` may be −inf."""
        x = as_floats("epsilon", epsilon)
        if self.composed and order == "worst":
            values = worse(self._compositions(order), x.ravel(), floor)
        else:
            values = np.maximum.reduce([self._log_delta(one, x.ravel(), floor) for one in self._orders(order)])
        if self.failure_probability:
            values = np.minimum(np.logaddexp(values, math.log(self.failure_probability)), 0.0)
        return shaped(values, x.shape)

    def _log_delta(self, order: Order, epsilon: Floats, floor: float) -> Floats:
        return self._evaluators[order].log_delta(epsilon, floor)

    def _certify(self, order: Order, epsilon: float, relative_width: float) -> Enclosure:
        return self._evaluators[order].certify(epsilon, relative_width)

    @cached_property
    def _evaluators(self) -> dict[Order, Composition | OneRelease]:
        """Return what evaluates the groups in each order. It keeps its tables from one ε to the next."""
        if self.composed:
            made = {one: Composition([(g.law(one), g.count) for g in self.groups], one) for one in orders_of("worst")}
            return {**made, "remove": made["add" if all(law.symmetric for law, _ in made["add"].parts) else "remove"]}
        group = self._only()
        return {one: OneRelease(group.pair(one), group.rates, one) for one in orders_of("worst")}

    def _orders(self, order: str) -> list[Order]:
        """Return the orders that a caller asks for, and one of them if both are alike."""
        return list({self._evaluators[one]: one for one in orders_of(order)}.values())

    def __getstate__(self) -> dict[str, object]:
        """Return what is copied and pickled: no tables."""
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def _compositions(self, order: Choice) -> list[Composition]:
        """Return the evaluators of a profile that composes releases."""
        return [one for one in map(self._evaluators.__getitem__, self._orders(order)) if isinstance(one, Composition)]

    def _smallest_epsilon(self, target: float, choice: str, guess: float | None = None) -> float:
        """Return the smallest safe ε for the δ `target`; a guess only saves time."""
        if self.failure_probability:
            target = down(Fraction(target) - Fraction(self.failure_probability))
            if not target > 0.0:
                return math.inf
        epsilon = 0.0
        for order in self._orders(choice):
            if epsilon < math.inf:
                epsilon = self._evaluators[order].smallest_epsilon(target, epsilon, guess)
        return epsilon
