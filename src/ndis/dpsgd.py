"""Account for DP-SGD in the words of those who train with it: noise multiplier, sampling rate, steps."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ndis._files import check_format, loads, only_keys
from ndis._groups import Group, as_noise_multiplier, as_rate, noise_pairs
from ndis._search import budget, smallest_safe
from ndis._validate import Adjacency, Floats, as_count, as_counts, as_floats, as_one_probability, broadcasts, shaped
from ndis._version import __version__
from ndis.accountant.composition import SAMPLED_WIDTH
from ndis.accountant.few import shift_for
from ndis.errors import BudgetError, ParameterError, PrecisionError
from ndis.mechanisms.mechanism import Attained
from ndis.plotting import plot_epochs
from ndis.profile import PrivacyProfile

__all__ = ["DPSGD", "EpochRow", "Stage"]

_FORMAT, _FORMAT_VERSION = "ndis.DPSGD", 1
_MOST_STEPS = 10**9  # looked at by `longest`
_INSIDE = math.log1p(-2.0 * SAMPLED_WIDTH)  # the float search aims below δ by the width of the certificate
_NEAR = 6  # answers that a guess interpolates
_WHOLE = 1 - Fraction(1, 2**40)  # a sum of rates that rounding keeps below a whole number of epochs still ends it


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Equal steps of a schedule.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the clipping norm.
    sampling_rate : float
        Probability with which each record enters a batch; 1 for full batches.
    steps : int
        Number of batches.
    """

    noise_multiplier: float
    sampling_rate: float
    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", as_noise_multiplier("noise_multiplier", self.noise_multiplier))
        object.__setattr__(self, "sampling_rate", as_rate(self.sampling_rate, name="sampling_rate"))
        object.__setattr__(self, "steps", as_count("steps", self.steps))

    def group(self, steps: int) -> Group:
        """Return a number of steps of the stage as a group."""
        return Group(*noise_pairs(self.noise_multiplier), (self.sampling_rate,), steps)


class EpochRow(NamedTuple):
    """A row says ε after some epochs: a number of steps whose rates add up to `epoch`."""

    epoch: float
    steps: int
    epsilon: float


@dataclass(frozen=True, init=False)
class DPSGD:
    """The class is an accountant of DP-SGD: it adds up steps and releases nothing.

    A step draws a batch, clips the gradient of each record to a norm, and adds Gaussian noise to the sum. The guarantee
    is for Poisson sampling: each record enters each batch on its own with probability `sampling_rate`. Neighbours
    differ in one record that is added or removed. Batches of fixed size and shuffled epochs are other algorithms, and
    these numbers are not about them.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the clipping norm.
    sampling_rate : float
        Probability with which each record enters a batch.
    steps : int
        Number of batches. For a schedule that changes, use `from_schedule`.

    Examples
    --------
    >>> import ndis
    >>> training = ndis.DPSGD(noise_multiplier=1.1, sampling_rate=256 / 60000, steps=14062)
    >>> round(training.epsilon(1e-5), 8)
    2.38159692
    """

    stages: tuple[Stage, ...]

    def __init__(self, *, noise_multiplier: float, sampling_rate: float, steps: int) -> None:
        stage = Stage(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, steps=steps)
        object.__setattr__(self, "stages", (stage,))

    @classmethod
    def from_schedule(cls, stages: Iterable[Stage | Sequence[float]]) -> DPSGD:
        """A schedule in which the noise or the rate changes, or the last batch is smaller.

        Parameters
        ----------
        stages : iterable of Stage or of (noise_multiplier, sampling_rate, steps)

        Examples
        --------
        >>> import ndis
        >>> schedule = ndis.DPSGD.from_schedule([(1.0, 0.01, 500), (1.4, 0.02, 500)])
        >>> schedule.steps, round(schedule.epsilon(1e-6), 6)
        (1000, 2.303885)
        """
        result = []
        for item in stages:
            if isinstance(item, Stage):
                result.append(item)
                continue
            if not (isinstance(item, list | tuple) and len(item) == 3):
                raise ParameterError("stages", "be (noise_multiplier, sampling_rate, steps) each", f"{item!r:.80}")
            noise, rate, steps = item
            result.append(Stage(noise_multiplier=noise, sampling_rate=rate, steps=steps))  # type: ignore[arg-type]
        if not result:
            raise ParameterError("stages", "be at least one", "none")
        new = cls.__new__(cls)
        object.__setattr__(new, "stages", tuple(result))
        return new

    # ------------------------------------------------------------------ the guarantee

    @property
    def adjacency(self) -> Adjacency:
        """Neighbours differ in one record that is added or removed."""
        return "add-remove"

    @property
    def noise_multiplier(self) -> float:
        """The noise multiplier of a schedule with one stage; others are refused."""
        return self._only_stage("noise_multiplier").noise_multiplier

    @property
    def sampling_rate(self) -> float:
        """The sampling rate of a schedule with one stage; others are refused."""
        return self._only_stage("sampling_rate").sampling_rate

    def _only_stage(self, name: str) -> Stage:
        if len(self.stages) > 1:
            raise ParameterError("schedule", f"have one stage to have one {name}", len(self.stages), "read its stages")
        return self.stages[0]

    @property
    def steps(self) -> int:
        """Return the number of steps in all."""
        return sum(stage.steps for stage in self.stages)

    def profile(self) -> PrivacyProfile:
        """Return the exact guarantee of all steps, which composes with other releases.

        >>> import ndis
        >>> training = ndis.DPSGD(noise_multiplier=1.0, sampling_rate=0.01, steps=1000)
        >>> box = training.profile().certify(1.5)
        >>> box.width <= 1e-6 * box.upper
        True
        """
        return PrivacyProfile(groups=(stage.group(stage.steps) for stage in self.stages))

    @broadcasts
    def epsilon(self, delta: ArrayLike) -> float | Floats:
        """Return the smallest ε for δ, on the safe side. Broadcasts."""
        answer: float | Floats = self.profile().epsilon(delta=delta)
        return answer

    @broadcasts
    def delta(self, epsilon: ArrayLike) -> float | Floats:
        """Return the larger δ(ε) of the two orders, for all steps. Broadcasts; ε may be negative.

        >>> import ndis
        >>> training = ndis.DPSGD(noise_multiplier=1.1, sampling_rate=256 / 60000, steps=14062)
        >>> round(training.delta(2.0), 9)
        0.000119043
        """
        answer: float | Floats = self.profile().delta(epsilon=epsilon)
        return answer

    def certified_epsilon(self, delta: float) -> float:
        """An ε whose certified δ is at most `delta`."""
        return self.profile().certified_epsilon(delta)

    def after(self, steps: int) -> DPSGD:
        """Return the first steps of the schedule, as an accountant.

        >>> import ndis
        >>> ndis.DPSGD.from_schedule([(1.0, 0.01, 500), (1.4, 0.02, 500)]).after(600).stages[1].steps
        100
        """
        taken = self._taken(as_count("steps", steps))
        return DPSGD.from_schedule((stage.noise_multiplier, stage.sampling_rate, n) for stage, n in taken)

    def _taken(self, count: int) -> list[tuple[Stage, int]]:
        """The stages of the first `count` steps, and how many steps of each."""
        if count > self.steps:
            raise ParameterError("steps", f"be at most {self.steps}, the length of the schedule", count)
        firsts = accumulate((stage.steps for stage in self.stages), initial=0)
        pairs = zip(self.stages, firsts, strict=False)
        return [(stage, min(count - first, stage.steps)) for stage, first in pairs if first < count]

    @broadcasts
    def epsilon_after(self, steps: ArrayLike, *, delta: float) -> float | Floats:
        """Return ε after some steps. It broadcasts over `steps`.

        >>> import ndis
        >>> training = ndis.DPSGD(noise_multiplier=1.1, sampling_rate=0.004, steps=10000)
        >>> training.epsilon_after([250, 10000], delta=1e-5).round(6)
        array([0.293757, 1.84096 ])
        """
        d = as_one_probability("delta", delta)
        given = as_floats("steps", steps)
        numbers = [int(n) for n in as_counts("steps", given.ravel()).tolist()]
        return shaped(np.array(self._epsilons(numbers, d)), given.shape)

    def epsilon_by_epoch(self, delta: float) -> list[EpochRow]:
        """ε after each epoch, and at the end.

        An epoch ends with the step at which the sampling rates of all steps add up to a whole number.

        >>> import ndis
        >>> for row in ndis.DPSGD(noise_multiplier=1.0, sampling_rate=0.4, steps=6).epsilon_by_epoch(1e-5):
        ...     print(f"{row.epoch:.1f} {row.steps} {row.epsilon:.3f}")
        1.2 3 ...
        2.0 5 ...
        2.4 6 ...
        """
        ends = self._epoch_ends()
        result = self._epsilons(ends, as_one_probability("delta", delta))
        return [EpochRow(self._epochs(n), n, epsilon) for n, epsilon in zip(ends, result, strict=True)]

    def _epsilons(self, ends: list[int], delta: float) -> list[float]:
        """ε after each of these numbers of steps; the answers around a number give the first guess for it."""
        steps = np.unique(ends)
        result: dict[int, float] = {}
        last = steps.size - 1
        # the first and the last, then the middle of every gap
        for i in sorted(range(steps.size), key=lambda i: i & -i if 0 < i < last else steps.size, reverse=True):
            n = int(steps[i])
            near = sorted(result, key=lambda other: abs(math.log(other / n)))[:_NEAR]
            guess = None
            if len(near) > 1:
                middle = _interpolated(np.log(near), [result[other] for other in near], math.log(n))
                below = max(answer for other, answer in result.items() if other < n)  # ε grows with the steps
                guess = min(max(middle, below), min(answer for other, answer in result.items() if other > n))
            profile = PrivacyProfile(groups=(stage.group(taken) for stage, taken in self._taken(n)))
            result[n] = profile._smallest_epsilon(delta, "worst", guess)
        return [result[n] for n in ends]

    def _epochs(self, count: int) -> float:
        return float(sum(Fraction(stage.sampling_rate) * n for stage, n in self._taken(count)))

    def _epoch_ends(self) -> list[int]:
        """The number of steps after each epoch, and at the end."""
        ends: list[int] = []
        before = Fraction(0)
        for stage, first in zip(self.stages, accumulate((s.steps for s in self.stages), initial=0), strict=False):
            rate = Fraction(stage.sampling_rate)
            after = before + rate * stage.steps
            for epoch in range(math.floor(before) + 1, math.floor(after / _WHOLE) + 1):
                n = math.ceil((epoch * _WHOLE - before) / rate)
                ends.append(first + min(max(n, 1), stage.steps))
            before = after
        return sorted({*ends, self.steps})

    def attained(self) -> tuple[Attained, ...]:
        """Data on which the guarantee is met: only one record has a gradient, as long as the clipping norm, always.

        >>> import ndis
        >>> training = ndis.DPSGD(noise_multiplier=1.0, sampling_rate=0.01, steps=1000)
        >>> ndis.audit(ndis.Claim(epsilon=1.0, delta=1e-5), mechanism=training).refuted
        True
        """
        text = "data on which one record has a gradient as long as the clipping norm, the same one in every step"
        return (Attained(text, self.profile()),)

    # ------------------------------------------------------------------ the other way round

    @classmethod
    def calibrated(cls, *, epsilon: float, delta: float, sampling_rate: float, steps: int) -> DPSGD:
        """The smallest noise multiplier for a budget, to about six digits; its δ is certified.

        >>> import ndis
        >>> training = ndis.DPSGD.calibrated(epsilon=2.0, delta=1e-5, sampling_rate=0.01, steps=1000)
        >>> round(training.stages[0].noise_multiplier, 5), training.profile().certify(2.0).upper <= 1e-5
        (0.9591, True)
        """
        epsilon, delta = budget(epsilon, delta)
        rate, count = as_rate(sampling_rate, name="sampling_rate"), as_count("steps", steps)

        if rate < 1.0 and -math.expm1(count * math.log1p(-rate)) <= delta:
            raise BudgetError("every noise multiplier meets the budget: a record enters a batch with a chance below δ")

        def at(noise: float) -> PrivacyProfile:
            return cls(noise_multiplier=noise, sampling_rate=rate, steps=count).profile()

        # by the central limit theorem the steps are nearly one Gaussian with shift q √(n (e^{1/σ²} − 1))
        shift = shift_for(epsilon, math.log(delta)) / (rate * math.sqrt(count))
        noise = smallest_safe(
            lambda x: float(at(x)._logs(epsilon, "worst", 2.0 * math.log(delta) - 10.0)) - _INSIDE,
            lambda x: at(x).certify(epsilon).upper,
            delta=delta,
            start=1.0 / math.sqrt(math.log1p(shift * shift)),
            settled=0.1 * SAMPLED_WIDTH,
            step=0.06,
        )
        return cls(noise_multiplier=noise, sampling_rate=rate, steps=count)

    @classmethod
    def longest(cls, *, epsilon: float, delta: float, noise_multiplier: float, sampling_rate: float) -> DPSGD:
        """The largest number of steps within a budget; its δ is certified.

        >>> import ndis
        >>> training = ndis.DPSGD.longest(epsilon=2.0, delta=1e-5, noise_multiplier=1.0, sampling_rate=0.01)
        >>> training.steps
        1202
        """
        epsilon, delta = budget(epsilon, delta)
        goal = math.log(delta)

        def at(count: int) -> PrivacyProfile:
            return cls(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, steps=count).profile()

        def safe(count: int) -> bool:
            return bool(at(count)._logs(epsilon, "worst", goal - 1.0) <= goal)

        if not at(1).certify(epsilon).upper <= delta:
            raise BudgetError("not even one step meets the budget; add noise, or sample at a smaller rate")
        low, high = 1, 2
        while safe(high):
            low, high = high, 2 * high
            if high > _MOST_STEPS:
                raise PrecisionError(f"more than {low} steps meet the budget; longer schedules are out of reach")
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if safe(middle) else (low, middle)
        back = 0  # the certificate is a little wider than the floats
        while not at(max(low - back, 1)).certify(epsilon).upper <= delta:
            back = 2 * back + 1
        return cls(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, steps=max(low - back, 1))

    # ------------------------------------------------------------------ out and in

    def plot(self, delta: float, *, ax: Any = None) -> Any:
        """Draw ε against epochs and return the matplotlib axes."""
        rows = self.epsilon_by_epoch(delta)
        return plot_epochs([row.epoch for row in rows], [row.epsilon for row in rows], delta=delta, ax=ax)

    def to_json(self) -> str:
        """The schedule as JSON text, to go on from later.

        >>> import ndis
        >>> training = ndis.DPSGD(noise_multiplier=1.0, sampling_rate=0.01, steps=1000)
        >>> ndis.DPSGD.from_json(training.to_json()) == training
        True
        """
        stages = [asdict(stage) for stage in self.stages]
        about = {"format": _FORMAT, "format_version": _FORMAT_VERSION, "ndis_version": __version__}
        return json.dumps({**about, "stages": stages}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> DPSGD:
        """The schedule that `to_json` wrote; anything else is refused."""
        result = loads("schedule", text)
        check_format("schedule", result, _FORMAT, _FORMAT_VERSION)
        only_keys("schedule", result, ("format", "format_version", "ndis_version", "stages"))
        if not isinstance(result["stages"], list):
            raise ParameterError("stages", "be a list", f"{result['stages']!r:.80}")
        keys = ("noise_multiplier", "sampling_rate", "steps")
        return cls.from_schedule(Stage(**only_keys("stage", item, keys)) for item in result["stages"])


def _interpolated(places: Floats, values: list[float], x: float) -> float:
    """Return the polynomial through some values, at a point between their places (Lagrange)."""
    gaps = places[:, None] - places + np.eye(places.size)
    factors = (x - places + np.eye(places.size) * (1.0 - x + places)) / gaps
    return float(np.prod(factors, axis=1) @ values)
