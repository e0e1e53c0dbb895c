"""Account for DP-SGD in the words of those who train with it: noise multiplier, sampling rate, steps."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ndis._files import check_format, loads, only_keys
from ndis._search import budget
from ndis._stages import NEARLY_ALL, SAMPLERS, USUAL, RunSearch, Sampling, Stage, as_plan, as_stage, missing
from ndis._validate import Adjacency, Floats, as_count, as_counts, as_one_probability, broadcasts, require, shaped
from ndis._version import __version__
from ndis.errors import ParameterError, PrecisionError
from ndis.mechanisms.mechanism import Attained
from ndis.plotting import plot_epochs
from ndis.profile import PrivacyProfile

__all__ = ["DPSGD", "SAMPLERS", "ComparisonRow", "EpochRow", "Sampling", "Stage"]

_FORMAT = "ndis.DPSGD"  # format 1 has Poisson sampling only
_FINDABLE = ("noise_multiplier", "sampling_rate", "batch_size", "bins", "steps", "epochs")
_BELOW = 1.0 - 1e-9  # an ε that floats put on the safe side is moved below the true one
_WHOLE = 1 - Fraction(1, 2**40)  # a sum of rates that rounding keeps below a whole number of epochs still ends it


class EpochRow(NamedTuple):
    """A row says ε after some epochs: a number of steps whose rates add up to `epoch`.

    >>> import ndis
    >>> rows = ndis.DPSGD(noise_multiplier=1.0, sampling_rate=0.5, steps=4).epsilon_by_epoch(1e-6)
    >>> [(row.epoch, row.steps) for row in rows]
    [(1.0, 2), (2.0, 4)]
    """

    epoch: float
    steps: int
    epsilon: float


class ComparisonRow(NamedTuple):
    """A row says the ε of one training plan with one sampler.

    `lower` is an ε that some neighbours need. It is ε itself where the number is exact. Where no number is known, ε is
    infinite, and `reason` says why.

    >>> row = ComparisonRow(DPSGD(noise_multiplier=1.0, sampling_rate=0.5, steps=4), epsilon=3.0, lower=2.5)
    >>> row.run.steps, row.epsilon - row.lower
    (4, 0.5)
    """

    run: DPSGD
    epsilon: float
    lower: float
    reason: str = ""


@dataclass(frozen=True, init=False)
class DPSGD:
    """The class is an accountant of DP-SGD: it adds up steps and releases nothing.

    A step draws a batch, clips the gradient of each record to a norm, and adds Gaussian noise to the sum. The guarantee
    depends on how batches are drawn, and `loop` says it. By default each record enters each batch on its own with
    probability `sampling_rate` (Poisson sampling). Shuffled epochs are another algorithm, and these numbers are not
    about them; "allocation" is nearly the same loop.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the clipping norm.
    sampling : str
        "poisson" (needs `sampling_rate` and `steps`), "allocation" (`bins` and `epochs`), "fixed-size" (`batch_size`,
        `records` and `steps`) or "truncated" (`sampling_rate`, `max_batch_size`, `records` and `steps`).
    **numbers
        These numbers, and `examples_per_user`; see `Stage`. For a schedule that changes, use `from_schedule`.

    Examples
    --------
    >>> import ndis
    >>> training = ndis.DPSGD(noise_multiplier=1.1, sampling_rate=256 / 60000, steps=14062)
    >>> round(training.epsilon(1e-5), 8)
    2.38159692
    >>> training = ndis.DPSGD(noise_multiplier=0.5, sampling="allocation", bins=1000, epochs=1)
    >>> round(training.epsilon(1e-6), 6)
    4.106016
    """

    stages: tuple[Stage, ...]

    def __init__(self, *, noise_multiplier: float, sampling: Sampling = "poisson", **numbers: Any) -> None:
        object.__setattr__(self, "stages", (as_stage(noise_multiplier=noise_multiplier, sampling=sampling, **numbers),))

    @classmethod
    def from_schedule(cls, stages: Iterable[Stage | Sequence[float] | Mapping[str, Any]]) -> DPSGD:
        """A schedule in which the noise, the rate or the sampler changes, or the last batch is smaller.

        Parameters
        ----------
        stages : iterable of Stage, of (noise_multiplier, sampling_rate, steps), or of mappings with the arguments
            All stages must have neighbours of one kind.

        Examples
        --------
        >>> import ndis
        >>> schedule = ndis.DPSGD.from_schedule([(1.0, 0.01, 500), (1.4, 0.02, 500)])
        >>> schedule.steps, round(schedule.epsilon(1e-6), 6)
        (1000, 2.303885)
        """
        result = tuple(item if isinstance(item, Stage) else as_stage(**as_plan(item)) for item in stages)
        require(result, "stages", "be at least one", "none")
        kinds = {(SAMPLERS[stage.sampling].adjacency, stage.examples_per_user) for stage in result}
        remedy = "a guarantee for one relation between data sets says nothing about the other"
        require(len(kinds) == 1, "stages", "have neighbours of one kind", f"{len(kinds)} kinds", remedy)
        new = cls.__new__(cls)
        object.__setattr__(new, "stages", result)
        return new

    # ------------------------------------------------------------------ the guarantee

    @property
    def adjacency(self) -> Adjacency:
        """Which data sets are neighbours."""
        return SAMPLERS[self.stages[0].sampling].adjacency

    @property
    def loop(self) -> str:
        """Say which loop the numbers are about, in one sentence for each kind of stage.

        >>> import ndis
        >>> ndis.DPSGD(noise_multiplier=1.0, sampling_rate=0.01, steps=10).loop
        'Poisson sampling, in which each record enters each batch on its own; neighbours differ in one record, added...'
        """
        return ". Then: ".join(dict.fromkeys(stage.loop for stage in self.stages))

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
        return self._profile_after(self.steps)

    def _profile_after(self, steps: int) -> PrivacyProfile:
        groups = [group for stage, n in self._taken(steps) for group in stage.groups(n)]
        return PrivacyProfile(groups=groups, adjacency=self.adjacency)

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
        return DPSGD.from_schedule(stage.first(n) for stage, n in self._taken(as_count("steps", steps)))

    def _taken(self, count: int) -> list[tuple[Stage, int]]:
        """The stages of the first `count` steps, and how many steps of each."""
        require(count <= self.steps, "steps", f"be at most {self.steps}, the length of the schedule", count)
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
        given = np.asarray(steps)
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
        epochs = (float(sum(stage.rate * k for stage, k in self._taken(n))) for n in ends)
        return [EpochRow(*row) for row in zip(epochs, ends, result, strict=True)]

    def _epsilons(self, ends: list[int], delta: float) -> list[float]:
        """ε after each of these numbers of steps; the answers around a number give the first guess for it."""
        steps = np.unique(ends)
        result: dict[int, float] = {}
        last = steps.size - 1
        # the first and the last, then the middle of every gap
        for i in sorted(range(steps.size), key=lambda i: i & -i if 0 < i < last else steps.size, reverse=True):
            n, known = int(steps[i]), sorted(result)
            guess = np.interp(math.sqrt(n), np.sqrt(known), [result[k] for k in known]) if len(known) > 1 else None
            result[n] = float(self._profile_after(n)._smallest_epsilon(delta, "worst", guess))
        return [result[n] for n in ends]

    def _epoch_ends(self) -> list[int]:
        """The number of steps after each epoch, and at the end."""
        ends: list[int] = []
        before = Fraction(0)
        for stage, first in zip(self.stages, accumulate((s.steps for s in self.stages), initial=0), strict=False):
            rate, draw = stage.rate, stage.batches
            after = before + rate * stage.steps
            for epoch in range(math.floor(before) + 1, math.floor(after / _WHOLE) + 1):
                n = math.ceil((epoch * _WHOLE - before) / rate)
                ends.append(first + min(draw * max(-(-n // draw), 1), stage.steps))  # whole draws
            before = after
        return sorted({*ends, self.steps})

    @property
    def theorem(self) -> str:
        """Return the label of the theorem that the guarantee rests on."""
        theorems = {stage.theorem for stage in self.stages}
        return theorems.pop() if len(theorems) == 1 else "thm:composition"

    @property
    def examples_per_user(self) -> int:
        """Return the largest number of records in which neighbours differ."""
        return self.stages[0].examples_per_user

    def attained(self) -> tuple[Attained, ...]:
        """Data on which the guarantee is met: only one record has a gradient, as long as the clipping norm, always.

        Numbers for batches of a fixed size and for truncated batches are upper bounds. Their data come near.

        >>> import ndis
        >>> training = ndis.DPSGD(noise_multiplier=1.0, sampling_rate=0.01, steps=1000)
        >>> ndis.audit(ndis.Claim(epsilon=1.0, delta=1e-5), mechanism=training).refuted
        True
        """
        text = "data on which one record has a gradient as long as the clipping norm, the same one in every step"
        if self.adjacency == "replace-one":
            text += ", and all others, like the record that replaces it, have the opposite one"
        if self.examples_per_user > 1:
            text = text.replace("one record has", "the records of one user have")
        first, *others = (stage.attained() for stage in self.stages)
        return (Attained(text, first.compose(*others)),)

    # ------------------------------------------------------------------ the other way round

    @classmethod
    def calibrated(
        cls, *, epsilon: float, delta: float, schedule: Iterable[Any] | None = None, **numbers: Any
    ) -> DPSGD:
        """Return the run that meets a budget, with one number found; its δ is certified.

        Leave one number of the run out: `noise_multiplier` (the smallest is found, to about six digits),
        `sampling_rate`, `batch_size` or `bins` (the largest batch is found), or `steps` or `epochs` (the most).

        Parameters
        ----------
        epsilon, delta : float
        schedule : iterable, optional
            Stages as in `from_schedule`, with None for the one number to find.
        **numbers
            Arguments of `DPSGD`, in place of a schedule.

        Examples
        --------
        >>> import ndis
        >>> training = ndis.DPSGD.calibrated(epsilon=2.0, delta=1e-5, sampling_rate=0.01, steps=1000)
        >>> round(training.stages[0].noise_multiplier, 5), training.profile().certify(2.0).upper <= 1e-5
        (0.9591, True)
        >>> training = ndis.DPSGD.calibrated(epsilon=2.0, delta=1e-5, schedule=[(1.0, 0.01, 500), (None, 0.02, 500)])
        >>> round(training.stages[1].noise_multiplier, 4)
        1.4...
        """
        epsilon, delta = budget(epsilon, delta)
        plans = [numbers] if schedule is None else [as_plan(item) for item in schedule]
        unknown = [(i, name) for i, plan in enumerate(plans) for name in missing(plan)]
        if len(unknown) != 1 or unknown[0][1] not in _FINDABLE or (numbers and schedule is not None):
            got = ", ".join(name for _, name in unknown) or "nothing"
            raise ParameterError("run", f"leave out one of {', '.join(_FINDABLE)}", f"a run without {got}")
        ((i, name),) = unknown

        def at(x: float) -> DPSGD:
            return cls.from_schedule([*plans[:i], {**plans[i], name: x}, *plans[i + 1 :]])

        search = RunSearch(at, epsilon, delta)
        if name == "noise_multiplier":
            return search.least(i)
        if name == "sampling_rate":
            return search.largest_rate(1.0 if plans[i].get("sampling") != "truncated" else NEARLY_ALL)
        return search.most(name, plans[i].get("records"))

    @classmethod
    def longest(cls, *, epsilon: float, delta: float, noise_multiplier: float, **numbers: Any) -> DPSGD:
        """The largest number of steps within a budget; its δ is certified.

        >>> import ndis
        >>> training = ndis.DPSGD.longest(epsilon=2.0, delta=1e-5, noise_multiplier=1.0, sampling_rate=0.01)
        >>> training.steps
        1202
        """
        return cls.calibrated(epsilon=epsilon, delta=delta, noise_multiplier=noise_multiplier, **numbers)

    @classmethod
    def compare(
        cls, *, noise_multiplier: float, batch_size: int, records: int, epochs: float, delta: float
    ) -> list[ComparisonRow]:
        """Return a row with ε for each sampler. All have about the same batches and steps.

        "truncated" cuts batches at six standard deviations above their mean. It has no row for batches of all records.

        >>> import ndis
        >>> plan = {"noise_multiplier": 2.0, "batch_size": 100, "records": 1_000, "epochs": 10}
        >>> for row in ndis.DPSGD.compare(**plan, delta=1e-5):
        ...     print(f"{row.run.stages[0].sampling:<10} {row.run.adjacency:<11} {row.epsilon:.3f}")
        poisson    add-remove  ...
        allocation add-remove  ...
        fixed-size replace-one ...
        truncated  add-remove  ...
        """
        size, count, passes = as_count("batch_size", batch_size), as_count("records", records), Fraction(epochs)
        require(size <= count, "batch_size", "be at most records", size)
        rate, most = size / count, min(math.ceil(size + 6.0 * math.sqrt(size)), max(count - 1, 1))
        steps, bins = math.ceil(passes * count / size), max(count // size, 1)
        numbers = {"sampling_rate": rate, "steps": steps, "bins": bins, "epochs": math.ceil(passes)}
        numbers |= {"batch_size": size, "records": count, "max_batch_size": most}
        rows = []
        for sampling in (x for x in SAMPLERS if x != "truncated" or size < count):
            own = {name: numbers[name] for name in SAMPLERS[sampling].needs}
            run = cls(noise_multiplier=noise_multiplier, sampling=sampling, **own)
            try:
                lower, upper = run.profile().bounds(delta)
                if lower < upper:  # another attained pair may need more than the one that `bounds` knows
                    lower = max(lower, _BELOW * run.stages[0].attained().epsilon(delta))
                rows.append(ComparisonRow(run, upper, lower))
            except PrecisionError as error:
                rows.append(ComparisonRow(run, math.inf, 0.0, str(error)))
        return rows

    # ------------------------------------------------------------------ out and in

    def plot(self, delta: float, *, ax: Any = None, label: str | None = None) -> Any:
        """Draw ε against epochs and return the matplotlib axes."""
        rows = self.epsilon_by_epoch(delta)
        return plot_epochs([row.epoch for row in rows], [row.epsilon for row in rows], delta=delta, ax=ax, label=label)

    def to_json(self) -> str:
        """The schedule as JSON text, to go on from later.

        >>> import ndis
        >>> training = ndis.DPSGD(noise_multiplier=1.0, sampling_rate=0.01, steps=1000)
        >>> ndis.DPSGD.from_json(training.to_json()) == training
        True
        """
        stages = [stage.arguments() for stage in self.stages]
        version = 1 if all(tuple(stage) == USUAL for stage in stages) else 2
        about = {"format": _FORMAT, "format_version": version, "ndis_version": __version__}
        return json.dumps({**about, "stages": stages}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> DPSGD:
        """The schedule that `to_json` wrote; anything else is refused."""
        result = loads("schedule", text)
        version = check_format("schedule", result, _FORMAT, 1, 2)
        only_keys("schedule", result, ("format", "format_version", "ndis_version", "stages"))
        require(isinstance(result["stages"], list), "stages", "be a list", f"{result['stages']!r:.80}")
        keys = (USUAL, ()) if version == 1 else ((), tuple(field.name for field in fields(Stage)))
        return cls.from_schedule(only_keys("stage", item, *keys) for item in result["stages"])
