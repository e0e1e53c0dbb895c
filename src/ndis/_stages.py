"""A run of DP-SGD has stages of equal steps. A table says for each way to draw batches what a stage needs to know.

`RunSearch` finds one number of a run for a budget: the noise, the rate, or a whole number.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import scipy

from ndis._exact import down
from ndis._groups import Group, StepGroup, as_noise_multiplier, as_rate
from ndis._search import smallest_safe
from ndis._validate import Adjacency, as_choice, as_count, assign, require
from ndis.accountant.composition import SAMPLED_WIDTH
from ndis.errors import BudgetError, ParameterError, PrecisionError
from ndis.mechanisms.gaussian import unit_noise
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

if TYPE_CHECKING:
    from ndis.dpsgd import DPSGD

Sampling = Literal["poisson", "allocation", "fixed-size", "truncated"]

_CDF_DOWN = 1.0 - 1e-9  # moves a binomial probability in floats to the safe side
NEARLY_ALL = 1.0 - 2.0**-20  # the largest rate of a sample that may be cut
_MOST_STEPS, _MOST_BINS = 10**9, 10**6  # looked at
_INSIDE = math.log1p(-2.0 * SAMPLED_WIDTH)  # the float search aims below δ by the width of the certificate
USUAL = ("noise_multiplier", "sampling_rate", "steps")  # a stage with Poisson sampling has these


class Sampler(NamedTuple):
    """A sampler is a way to draw batches: what a stage needs to know, and the guarantee of one step or one epoch.

    Attributes
    ----------
    needs : tuple of str
        The numbers of a stage. The last one is counted: steps, or epochs of `bins` steps.
    adjacency : str
        Which data sets are neighbours.
    profile : callable
        Returns the guarantee of one step or one epoch, from the noise multiplier and the numbers that are not counted.
    theorem : str
        The label of the theorem that the guarantee rests on.
    loop : str
        Says what the training loop does.
    attained : callable, optional
        Returns a profile of one step that some neighbours have, for audits, if the guarantee is only an upper bound.
    """

    needs: tuple[str, ...]
    adjacency: Adjacency
    profile: Callable[..., PrivacyProfile]
    theorem: str
    loop: str
    attained: Callable[[Stage], PrivacyProfile] | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Stage:
    """Equal steps of a schedule.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the clipping norm.
    sampling : str
        How batches are drawn: "poisson", "allocation", "fixed-size" or "truncated".
    sampling_rate : float
        Probability with which each record enters a batch; 1 for full batches. For "poisson" and "truncated".
    steps : int
        Number of batches. For "allocation" it is bins × epochs.
    bins, epochs : int
        Batches of an epoch, and epochs, for "allocation".
    batch_size, records : int
        Size of a batch and of the data, for "fixed-size". "truncated" needs the records too.
    max_batch_size : int
        Size to which larger batches are cut, for "truncated".
    examples_per_user : int
        Neighbours differ in one user with up to this many records. Above 1 for "poisson" only.

    Examples
    --------
    >>> import ndis
    >>> ndis.DPSGD.from_schedule([(1.0, 0.01, 500), (1.4, 0.02, 250)]).stages[1]
    Stage(noise_multiplier=1.4, sampling_rate=0.02, steps=250)
    """

    noise_multiplier: float
    sampling: Sampling = "poisson"
    sampling_rate: float = None  # type: ignore[assignment]  # known after the checks, like `steps`
    steps: int = None  # type: ignore[assignment]
    bins: int | None = None
    epochs: int | None = None
    batch_size: int | None = None
    records: int | None = None
    max_batch_size: int | None = None
    examples_per_user: int = 1
    _unit: ClassVar[PrivacyProfile]  # each stage has its own, for one step or one epoch

    def __post_init__(self) -> None:
        given = {"noise_multiplier": as_noise_multiplier("noise_multiplier", self.noise_multiplier)}
        sampler = SAMPLERS[as_choice("sampling", self.sampling, tuple(SAMPLERS))]
        remedy = f"its numbers are {', '.join(('noise_multiplier', *sampler.needs))}"
        for name in _NUMBERS:
            value = getattr(self, name)
            if name in sampler.needs:
                require(value is not None, name, f"be given for {self.sampling!r}", "none", remedy)
                given[name] = as_rate(value, name=name) if name == "sampling_rate" else as_count(name, value)
            elif value is not None:
                raise ParameterError(name, f"not be given for {self.sampling!r}", value, remedy)
        given["examples_per_user"] = as_count("examples_per_user", self.examples_per_user)
        if given["examples_per_user"] > 1 and self.sampling != "poisson":
            raise ParameterError("examples_per_user", f"be 1 for {self.sampling!r}", self.examples_per_user)
        assign(self, **given)
        assign(self, steps=self.steps or self.bins * self.epochs)  # type: ignore[operator]
        numbers = {name: getattr(self, name) for name in ("noise_multiplier", *sampler.needs[:-1])}
        if self.sampling == "poisson":
            numbers["examples_per_user"] = self.examples_per_user
        # the profile checks how the numbers go together
        assign(self, _unit=sampler.profile(**numbers), sampling_rate=float(self.rate))

    @property
    def batches(self) -> int:
        """Return the number of batches that one draw of the sampler makes: those of an epoch, or 1."""
        return self.bins or 1

    @property
    def rate(self) -> Fraction:
        """Return the expected share of the records in a batch."""
        if self.batch_size is not None:
            return Fraction(self.batch_size, self.records or self.batch_size)
        return Fraction(self.sampling_rate) if self.bins is None else Fraction(1, self.bins)

    @property
    def loop(self) -> str:
        """Say in one sentence which loop the numbers are about."""
        k, sampler, most = self.examples_per_user, SAMPLERS[self.sampling], f"a maximum of {self.max_batch_size}"
        who = "one record" if k == 1 else f"one user with up to {k} records"
        return f"{sampler.loop.replace('a maximum', most)}; neighbours differ in {who}, {_CHANGES[sampler.adjacency]}"

    @property
    def theorem(self) -> str:
        """Return the label of the theorem that the guarantee rests on."""
        return "thm:mixtures" if self.examples_per_user > 1 else SAMPLERS[self.sampling].theorem

    def attained(self) -> PrivacyProfile:
        """Return a profile of all steps that some neighbours have."""
        attained = SAMPLERS[self.sampling].attained
        return (self._unit if attained is None else attained(self)).repeat(self._draws(self.steps))

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that make the stage; those that have their usual value are left out."""
        names = ("noise_multiplier", "sampling", *SAMPLERS[self.sampling].needs, "examples_per_user")
        usual = {"sampling": "poisson", "examples_per_user": 1}
        return {name: value for name in names if (value := getattr(self, name)) != usual.get(name)}

    def __repr__(self) -> str:
        return f"Stage({', '.join(f'{name}={value!r}' for name, value in self.arguments().items())})"

    def _draws(self, steps: int) -> int:
        if steps % self.batches:
            raise ParameterError("steps", f"end whole epochs of {self.batches} batches that are allocated", steps)
        return steps // self.batches

    def first(self, steps: int) -> Stage:
        """Return a stage of fewer steps."""
        return Stage(**{**self.arguments(), SAMPLERS[self.sampling].needs[-1]: self._draws(steps)})

    def groups(self, steps: int) -> list[Group | StepGroup]:
        """Return a number of steps of the stage as groups."""
        return [replace(group, count=group.count * self._draws(steps)) for group in self._unit.groups]


def _poisson(noise_multiplier: float, sampling_rate: float, examples_per_user: int) -> PrivacyProfile:
    if examples_per_user > 1 and sampling_rate == 1.0:  # all examples of a user move the sum, always
        return PrivacyProfile(GaussianPair.from_excess(0, examples_per_user / Fraction(noise_multiplier)))
    profile = PrivacyProfile.from_noise_multiplier(noise_multiplier).subsampled(sampling_rate)
    return profile.group(examples_per_user) if examples_per_user > 1 else profile


def _sampled(noise: float, rate: Fraction) -> PrivacyProfile:
    """Return a step at a rate, rounded down."""
    return PrivacyProfile.from_noise_multiplier(noise).subsampled(down(rate))


def _surely_kept(stage: Stage) -> PrivacyProfile:
    """Return what happens if only one record has a gradient. It counts in samples that are not cut, at least.

    A sampled record is kept with probability B/(N+1), N the number of the others in the sample, so at least with B/n.
    """
    size, records = stage.max_batch_size or 1, stage.records or 1
    whole = Fraction(float(scipy.special.bdtr(size - 1, records - 1, stage.sampling_rate)) * _CDF_DOWN)
    return _sampled(stage.noise_multiplier, Fraction(stage.sampling_rate) * max(whole, Fraction(size, records)))


SAMPLERS: dict[Sampling, Sampler] = {
    "poisson": Sampler(
        ("sampling_rate", "steps"),
        "add-remove",
        _poisson,
        "thm:sampled-moment",
        "Poisson sampling, in which each record enters each batch on its own",
    ),
    "allocation": Sampler(
        ("bins", "epochs"),
        "add-remove",
        PrivacyProfile.from_allocation,
        "thm:allocation",
        "random allocation, in which each record goes to one batch of each epoch, drawn anew",
    ),
    "fixed-size": Sampler(
        ("batch_size", "records", "steps"),
        "replace-one",
        PrivacyProfile.from_fixed_size,
        "thm:fixed-size",
        "batches of a fixed size, each drawn without replacement from all records",
        attained=lambda stage: _sampled(stage.noise_multiplier / 2.0, stage.rate),
    ),
    "truncated": Sampler(
        ("sampling_rate", "max_batch_size", "records", "steps"),
        "add-remove",
        PrivacyProfile.from_truncated_poisson,
        "thm:truncated",
        "Poisson sampling, in which batches above a maximum are cut at random",
        attained=_surely_kept,
    ),
}
_NUMBERS = ("sampling_rate", "steps", "bins", "epochs", "batch_size", "records", "max_batch_size")
_CHANGES = {"add-remove": "added or removed", "replace-one": "replaced"}


def as_stage(**arguments: Any) -> Stage:
    """Make a stage; an argument that no sampler knows is refused."""
    for name in arguments.keys() - {field.name for field in fields(Stage)}:
        remedy = f"they are {', '.join(_NUMBERS)}"
        raise ParameterError(name, "be a number of a run", f"{arguments[name]!r:.80}", remedy)
    return Stage(**{"noise_multiplier": None, **arguments})


def as_plan(item: Any) -> dict[str, Any]:
    """Return the arguments of a stage, however they are given."""
    if isinstance(item, Stage):
        return item.arguments()
    if isinstance(item, Mapping):
        return dict(item)
    if not (isinstance(item, list | tuple) and len(item) == 3):
        raise ParameterError("stages", "be (noise_multiplier, sampling_rate, steps) each", f"{item!r:.80}")
    return dict(zip(USUAL, item, strict=True))


def missing(plan: Mapping[str, Any]) -> list[str]:
    """List the numbers that a plan leaves out."""
    needs = SAMPLERS[as_choice("sampling", plan.get("sampling", "poisson"), tuple(SAMPLERS))].needs
    return [name for name in ("noise_multiplier", *needs) if plan.get(name) is None]


class RunSearch:
    """Find one number of a run that meets a budget; the last point is certified."""

    def __init__(self, at: Callable[[float], DPSGD], epsilon: float, delta: float) -> None:
        self.at, self.epsilon, self.delta = at, epsilon, delta

    def _log(self, x: float, floor: float) -> float:
        with suppress(PrecisionError):
            return float(self.at(x).profile()._logs(self.epsilon, "worst", floor))
        return 0.0  # δ ≤ 1 always holds

    def _upper(self, x: float) -> float:
        return self.at(x).profile().certify(self.epsilon).upper

    def _smallest(self, number: Callable[[float], float], start: float, least: float | None = None) -> float:
        """Return the smallest x whose run meets the budget; `number` turns x into the number of the run."""
        floor = 2.0 * math.log(self.delta) - 10.0
        return smallest_safe(
            lambda x: self._log(number(x), floor) - _INSIDE,
            lambda x: self._upper(number(x)),
            delta=self.delta,
            start=start,
            least=least,
            settled=0.1 * SAMPLED_WIDTH,
            step=0.06,
        )

    def least(self, i: int) -> DPSGD:
        """Return the run with the smallest noise in stage i."""
        run = self.at(1.0)
        stage, k = run.stages[i], run.stages[i].examples_per_user
        chance = -math.expm1(stage.steps * k * math.log1p(-stage.sampling_rate)) if stage.sampling_rate < 1.0 else 1.0
        if len(run.stages) == 1 and stage.batches == 1 and chance <= self.delta:
            raise BudgetError("every noise multiplier meets the budget: a record enters a batch with a chance below δ")
        others = [group for j, one in enumerate(run.stages) if j != i for group in one.groups(one.steps)]
        if others and not PrivacyProfile(groups=others, adjacency=run.adjacency).delta(self.epsilon) < self.delta:
            raise BudgetError("no noise multiplier meets the budget: the other stages use it up")
        # by the central limit theorem the steps are nearly one Gaussian with shift q √(n (e^{1/σ²} − 1))
        shift = 1.0 / (unit_noise(self.epsilon, self.delta) * stage.sampling_rate * math.sqrt(stage.steps))
        size = 2 if run.adjacency == "replace-one" else k  # how far neighbours move a sum, in clipping norms
        return self.at(self._smallest(lambda x: x, size / math.sqrt(math.log1p(shift * shift))))

    def largest_rate(self, most: float) -> DPSGD:
        """Return the run with the largest sampling rate: δ must fall along a search, so it takes one over the rate."""
        return self.at(min(1.0 / self._smallest(lambda x: min(1.0 / x, most), 100.0, 1.0 / most), most))

    def most(self, name: str, records: int | None) -> DPSGD:
        """Return the run with the most steps, epochs or records in a batch, or with the fewest bins."""
        goal, few = math.log(self.delta), name == "bins"
        most = records if name == "batch_size" and records else _MOST_BINS if few else _MOST_STEPS

        def safe(n: int) -> bool:
            return self._log(n, goal - 1.0) <= goal

        if not (few or self._upper(1) <= self.delta):
            raise BudgetError("not even one step meets the budget; add noise, or sample at a smaller rate")
        beyond = 1 if few else 2  # doubled until it is safe with that many bins, or unsafe with that many steps
        while beyond <= most and safe(beyond) != few:
            beyond *= 2
        if not (few or beyond <= most or name == "batch_size"):
            raise PrecisionError(f"more than {beyond // 2} steps meet the budget; longer schedules are out of reach")
        between = range(beyond // 2 + 1, min(beyond, most + 1))
        turn = between.start + bisect_left(between, True, key=lambda n: safe(n) == few)
        back = 0  # the certificate is a little wider than the floats
        while not self._upper(n := max(turn + back if few else turn - 1 - back, 1)) <= self.delta:
            if few and n > most:
                raise BudgetError(f"not even {most} bins meet the budget; add noise")
            back = 2 * back + 1
        return self.at(n)
