"""Guarantees by how batches are drawn; `ndis.PrivacyProfile` has these constructors and methods.

Some are upper bounds, and have lower ends: losses that some neighbours really have. With batches of a fixed size the
gradients of the other records may be chosen in turn. Then each step has the loss of W·Q against Q, or that of its
reverse (thm:fixed-size), and neighbours exist for every number of steps of the one kind. A search takes the worst
number that it finds. Whatever it finds is attained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from ndis._exact import root_down, up
from ndis._groups import Group, StepGroup, as_noise_multiplier, orders_of, sampled_step
from ndis._validate import Order, as_choice, as_count, as_floats, as_one_probability, as_size, require
from ndis.accountant.composition import Composition
from ndis.accountant.laws.allocation import AllocationStep
from ndis.accountant.laws.fixed_size import FixedSizeStep
from ndis.accountant.laws.labelled import TruncatedStep
from ndis.accountant.laws.mixture_steps import MixtureStep, SampledStep
from ndis.enclosure import Enclosure
from ndis.errors import ParameterError, PrecisionError

if TYPE_CHECKING:
    from ndis.profile import PrivacyProfile


_NEARLY = 0.98  # no other neighbours are tried above this share of the upper bound
_SHARES = [k / 16 for k in range(16, -1, -1)]  # shares of the steps that are W·Q against Q
_BELOW = 1.0 - 1e-9  # an ε that floats put on the safe side is moved below the true one


class BatchedProfile:
    """Make profiles of steps, by the way in which their batches are drawn. `repeat` makes many steps of one."""

    groups: tuple[Group | StepGroup, ...]
    failure_probability: float
    from_noise_multiplier: ClassVar[Callable[..., PrivacyProfile]]
    _of_steps: ClassVar[Callable[..., PrivacyProfile]]
    _smallest_epsilon: Callable[..., float]

    @classmethod
    def from_mixture(
        cls, *, noise_multiplier: float, sensitivities: Sequence[float], probabilities: Sequence[float]
    ) -> PrivacyProfile:
        """Return the guarantee of Gaussian noise on a sum that one record moves by a random amount, exactly.

        The record moves it by at most cᵢ with probability pᵢ, in any directions (thm:mixtures). Neighbours are
        "add-remove".

        Parameters
        ----------
        noise_multiplier : float
            Standard deviation of the noise.
        sensitivities, probabilities : sequence of float
            cᵢ ≥ 0 and pᵢ > 0. Probabilities are taken relative to their sum, which must be 1 up to rounding.

        Examples
        --------
        >>> import ndis
        >>> step = ndis.PrivacyProfile.from_mixture(
        ...     noise_multiplier=1.0, sensitivities=[0.0, 1.0, 2.0], probabilities=[0.2, 0.6, 0.2]
        ... )
        >>> round(step.repeat(3).epsilon(1e-6), 6)
        14.550958
        """
        step = MixtureStep(noise_multiplier, sensitivities, probabilities)  # type: ignore[arg-type]  # made tuples there
        return cls._of_steps([StepGroup(step)])

    @classmethod
    def from_fixed_size(cls, *, noise_multiplier: float, batch_size: int, records: int) -> PrivacyProfile:
        """Return an upper bound for Gaussian noise on a batch of fixed size, drawn without replacement.

        Neighbours are "replace-one": a replaced record moves the sum by up to twice the clipping norm. The profile is
        exact for one step; for several it is an upper bound (thm:fixed-size), and `bounds` says how close it is. A
        batch of all records is no sample: its profile is that of the Gaussian mechanism, and exact.

        Parameters
        ----------
        noise_multiplier : float
            Standard deviation of the noise over the clipping norm.
        batch_size, records : int
            Records in a batch and in the data; both are public.

        Examples
        --------
        >>> import ndis
        >>> step = ndis.PrivacyProfile.from_fixed_size(noise_multiplier=1.0, batch_size=16, records=1000)
        >>> [round(end, 3) for end in step.repeat(128).bounds(1e-6)]
        [10.858, 11.25]
        """
        if as_size("batch_size", batch_size) == as_size("records", records):
            noise = as_noise_multiplier("noise_multiplier", noise_multiplier)
            return cls.from_noise_multiplier(noise / 2.0, adjacency="replace-one")
        return cls._of_steps([StepGroup(FixedSizeStep(noise_multiplier, batch_size, records))])

    @classmethod
    def from_truncated_poisson(
        cls, *, noise_multiplier: float, sampling_rate: float, max_batch_size: int, records: int
    ) -> PrivacyProfile:
        """Return an upper bound for Gaussian noise on a Poisson sample that is cut down to a size at random.

        Neighbours are "add-remove" (thm:truncated). Chua et al. (arXiv 2411.04205) and arXiv 2508.15089 describe the
        sampler.

        Parameters
        ----------
        noise_multiplier : float
            Standard deviation of the noise over the clipping norm.
        sampling_rate : float
            Rate of the Poisson sample.
        max_batch_size : int
            Larger samples lose records at random until this many are left.
        records : int
            Records in the larger one of two neighbours; it is public.

        Examples
        --------
        >>> import ndis
        >>> step = ndis.PrivacyProfile.from_truncated_poisson(
        ...     noise_multiplier=1.0, sampling_rate=0.01, max_batch_size=128, records=10_000
        ... )
        >>> round(step.repeat(1000).epsilon(1e-6), 6)
        5.20243
        """
        return cls._of_steps([StepGroup(TruncatedStep(noise_multiplier, sampling_rate, max_batch_size, records))])

    @classmethod
    def from_adaptive_clipping(cls, *, noise_multiplier: float, count_noise: float) -> PrivacyProfile:
        """Return the guarantee of one step that also releases how many gradients were clipped, on the same batch.

        The count is of b − ½ with b 0 or 1, with noise of the standard deviation `count_noise`. Both are one Gaussian
        with σ⁻² = σ_sum⁻² + (2σ_count)⁻² (thm:strategy; Andrew et al., arXiv 1905.03871); `subsampled` comes next.

        >>> import ndis
        >>> step = ndis.PrivacyProfile.from_adaptive_clipping(noise_multiplier=1.0, count_noise=10.0)
        >>> round(step.subsampled(0.01).repeat(1000).epsilon(1e-5), 6)
        1.833019
        """
        count = Fraction(as_noise_multiplier("count_noise", count_noise))
        return cls._gaussian(noise_multiplier, 1, 1 / (2 * count) ** 2)

    @classmethod
    def from_tree_aggregation(cls, *, noise_multiplier: float, steps: int) -> PrivacyProfile:
        """Return the guarantee of noisy sums at the nodes of a binary tree over `steps` leaves, in a fixed order.

        A node is released once all its leaves have come. Each record is in one leaf, and so in ⌈log₂(steps + 1)⌉ such
        nodes at most (thm:strategy; Kairouz et al., arXiv 2103.00039). The order of the records is no secret.

        >>> import ndis
        >>> round(ndis.PrivacyProfile.from_tree_aggregation(noise_multiplier=10.0, steps=1000).epsilon(1e-6), 6)
        1.367571
        """
        return cls._gaussian(noise_multiplier, as_size("steps", steps).bit_length())

    @classmethod
    def from_matrix(cls, *, noise_multiplier: float, strategy: ArrayLike) -> PrivacyProfile:
        """Return the guarantee of a matrix mechanism, DP-FTRL, in which each record takes part in one step.

        The steps are in a fixed order. Record t of the steps moves the noisy sums by column t of the strategy matrix,
        so the largest column norm counts (thm:strategy; Denisov et al., arXiv 2202.08312).

        >>> import ndis
        >>> profile = ndis.PrivacyProfile.from_matrix(noise_multiplier=2.0, strategy=[[1.0, 0.0], [1.0, 1.0]])
        >>> round(profile.epsilon(1e-6), 6)
        3.307601
        """
        columns = np.atleast_2d(as_floats("strategy", strategy)).T.tolist()
        return cls._gaussian(noise_multiplier, max(sum(Fraction(x) ** 2 for x in column) for column in columns))

    @classmethod
    def from_banded_matrix(
        cls, *, noise_multiplier: float, bands: int, batch_size: int, records: int, steps: int
    ) -> PrivacyProfile:
        """Return the guarantee of BandMF with cyclic Poisson sampling, columns of norm 1.

        The records are split into `bands` fixed groups, which take turns. A step draws a Poisson sample of its group
        with the mean `batch_size`. So a record is sampled at the rate batch/⌊records/bands⌋ in ⌈steps/bands⌉ steps
        (thm:strategy; Choquette-Choo et al., arXiv 2306.08153).

        >>> import ndis
        >>> training = ndis.PrivacyProfile.from_banded_matrix(
        ...     noise_multiplier=1.0, bands=8, batch_size=100, records=100_000, steps=1000
        ... )
        >>> training.groups[0].rate, training.groups[0].count
        (0.008, 125)
        """
        bands, steps = as_size("bands", bands), as_size("steps", steps)
        least = as_size("records", records) // bands  # records in the smallest group, whose rate is the largest
        rule = f"be at most {least}, the records of the smallest group"
        require(as_size("batch_size", batch_size) <= least, "batch_size", rule, batch_size)
        rate = Fraction(batch_size, least)
        return cls._gaussian(noise_multiplier, 1).subsampled(up(rate)).repeat(-(-steps // bands))

    @classmethod
    def _gaussian(cls, noise_multiplier: float, square: Fraction | int, more: Fraction | int = 0) -> PrivacyProfile:
        """Return the guarantee of a mean shift with the square `square`/σ² + `more`, its noise rounded down."""
        sigma = Fraction(as_noise_multiplier("noise_multiplier", noise_multiplier))
        return cls.from_noise_multiplier(root_down(1 / (square / sigma**2 + more)))

    @classmethod
    def from_allocation(
        cls, *, noise_multiplier: float, bins: int, epochs: int = 1, assignment: Literal["fresh", "once"] = "fresh"
    ) -> PrivacyProfile:
        """Return the guarantee of epochs in which each record goes to one of several batches, drawn at random.

        Every batch gets Gaussian noise of `noise_multiplier` times the sensitivity. The assignment stays secret, batch
        sizes fall as they may, and sums are divided by public numbers only (thm:allocation). `ndis.allocation_batches`
        draws such batches. Shuffled batches of a fixed size are another loop, and this number says nothing about them.

        Parameters
        ----------
        noise_multiplier : float
        bins : int
            Number of batches of an epoch.
        epochs : int
        assignment : {"fresh", "once"}
            Whether every epoch draws its own assignment, or all keep one. `repeat` always draws anew.

        Examples
        --------
        >>> import ndis
        >>> epoch = ndis.PrivacyProfile.from_allocation(noise_multiplier=0.5, bins=1000)
        >>> round(epoch.epsilon(1e-6), 7)
        4.1060159
        >>> ten = ndis.PrivacyProfile.from_allocation(noise_multiplier=0.5, bins=1000, epochs=10)
        >>> ten.epsilon(1e-6) == epoch.repeat(10).epsilon(1e-6)
        True
        """
        times, once = as_count("epochs", epochs), as_choice("assignment", assignment, ("fresh", "once")) == "once"
        if as_count("bins", bins) == 1:
            return cls.from_noise_multiplier(noise_multiplier).repeat(times)
        step = AllocationStep(noise_multiplier, bins, times if once else 1)
        return cls._of_steps([StepGroup(step, 1 if once else times)])

    @property
    def attained(self) -> bool:
        """Say if some neighbours have the losses of this profile. If not, it is only an upper bound."""
        return all(group.step.attained for group in self.groups if isinstance(group, StepGroup))

    def bounds(self, delta: float) -> Enclosure:
        """Return ends between which the smallest ε for `delta` lies, in floats.

        The upper end is `epsilon(delta)`, the guarantee. Some profiles are upper bounds only, and then the lower end is
        an ε that some neighbours really need: with batches of a fixed size, the worst of many ways to choose the
        gradients of the other records in turn. It is 0 if none is known. The ends of any other profile agree.

        >>> import ndis
        >>> ends = ndis.PrivacyProfile.from_noise_multiplier(2.0).bounds(1e-6)
        >>> ends.lower == ends.upper
        True
        """
        target = as_one_probability("delta", delta)
        upper = self._smallest_epsilon(target, "worst")
        if self.attained:
            return Enclosure(upper, upper)
        worst = worst_attained(self.groups, orders_of("worst"), upper, target)
        return Enclosure(0.0 if worst is None else _BELOW * worst.smallest_epsilon(target, 0.0), upper)

    def group(self, size: int) -> PrivacyProfile:
        """Return the guarantee for one user with up to `size` examples, all of them added or all removed, exactly.

        Each example enters each batch on its own, and the number that enter is binomial (thm:mixtures). A group of
        `size` users has as many times the examples of one. Every release
        must be Gaussian noise on a Poisson sample, made by `from_noise_multiplier` and `subsampled`; other profiles are
        refused. So is a failure probability, which says nothing about several examples.

        >>> import ndis
        >>> step = ndis.PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.01)
        >>> [round(step.repeat(100).group(k).epsilon(1e-6), 6) for k in (1, 2, 4)]
        [0.954217, 1.970757, 3.993018]
        """
        k, groups = as_size("size", size), []
        if k == 1:
            return self  # type: ignore[return-value]  # it is a profile
        for g in self.groups:
            step = g.step if isinstance(g, StepGroup) else sampled_step(g)
            if not isinstance(step, SampledStep) or step.adjacency == "replace-one" or self.failure_probability:
                rule = "consist of Gaussian noise on Poisson samples, from from_noise_multiplier and subsampled"
                raise ParameterError("profile", rule, "other releases")
            groups.append(StepGroup(replace(step, size=k * step.size), g.count))
        return self._of_steps(groups)

    @property
    def _examples_per_user(self) -> int:
        """Return in how many examples of one user neighbours may differ."""
        steps = (g.step for g in self.groups if isinstance(g, StepGroup))
        return max((step.size for step in steps if isinstance(step, SampledStep)), default=1)


@lru_cache(len(_SHARES) * 8)
def _attained(groups: tuple[Group | StepGroup, ...], order: Order, chosen: tuple[int, ...]) -> Composition | None:
    """Return a composition that neighbours attain, with some steps of a group on one side; None if none is known."""
    parts = []
    for group, some in zip(groups, chosen, strict=True):
        if isinstance(group, Group) or group.step.attained:
            parts.append((group.law(order), group.count))
        elif isinstance(group.step, FixedSizeStep):
            sides: tuple[tuple[Order, int], ...] = (("remove", some), ("add", group.count - some))
            parts += [(group.step.one_sided(side), count) for side, count in sides]
        else:
            return None
    return Composition(parts, order)


def worst_attained(
    groups: tuple[Group | StepGroup, ...], orders: tuple[Order, ...], epsilon: float, upper: float
) -> Composition | None:
    """Return the composition with the largest δ(ε) among those that were tried, which neighbours attain.

    No other is tried once one comes near an upper bound.
    """
    if all(isinstance(group, StepGroup) for group in groups):
        orders = orders[:1]  # both are alike
    known: list[tuple[float, Composition]] = []
    choices = dict.fromkeys(tuple(round(share * group.count) for group in groups) for share in _SHARES)
    for one in (_attained(groups, order, chosen) for order in orders for chosen in choices):
        with suppress(PrecisionError):
            known += [] if one is None else [(float(one.log_delta(np.array([epsilon]))[0]), one)]
            if known and np.exp(known[-1][0]) >= _NEARLY * upper:
                break
    return max(known, key=lambda pair: pair[0])[1] if known else None
