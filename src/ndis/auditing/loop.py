"""Describe a training loop in public numbers: what theorems promise for it, and data with a known law of the output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import partial
from typing import Any

from ndis._exact import down, root_down, root_up
from ndis._groups import as_rate
from ndis._validate import Adjacency, as_adjacency, as_choice, as_size, as_within, require
from ndis.dpsgd import DPSGD
from ndis.errors import ParameterError
from ndis.mechanisms.mechanism import Attained
from ndis.pages.text import several
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

_CLIPPING = ("record", "batch", "adaptive", "none")
_NORMALISERS = ("constant", "opacus", "records", "batch", "unknown")
_PUBLIC = ("records", "rate", "normaliser")
_EQUAL_BATCHES = ("shuffled", "fixed-size", "sequential", "full-batch")  # the number of records in a batch is fixed
_IN_PASSES = ("shuffled", "sequential", "allocation")  # each record takes part once in every pass
LAWLESS = ("with-replacement", "weighted", "never-empty", "accumulated", "repeated", "shared", "unsteady", "unknown")
SAMPLERS = ("poisson", "allocation", *_EQUAL_BATCHES, *LAWLESS)
_UNCLIPPED = 2.0**-10  # noise over the norm of a gradient that nothing clips; data can have any such ratio
_SIZES = ("steps", "parameters", "micro_batches", "batch_size", "records", "batches")
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("noise_multiplier", "noise_std", "clipping_norm"), partial(as_within, exponent=200)),
    **dict.fromkeys(_SIZES, as_size),
    "sampling_rate": lambda name, value: as_rate(value, name=name),
    "sampler": partial(as_choice, choices=SAMPLERS),
    "clipping": partial(as_choice, choices=_CLIPPING),
    "normaliser": partial(as_choice, choices=_NORMALISERS),
}
REFUTED, SOUND, UNKNOWN = "refuted", "sound", "no guarantee known"

_ALONE = "data on which one record has a gradient as long as the clipping norm, and all others have none"
_AGAINST = "data on which all gradients are equal and as long as the clipping norm, and one record turns it round"
_UNBOUNDED = (
    f"data on which one record has a gradient {1 / _UNCLIPPED:,.0f} times as long as the noise is wide, seen once"
)


@dataclass(frozen=True, kw_only=True)
class TrainingLoop:
    """The class states a training loop in public numbers: how it draws batches, clips, adds noise, and is accounted.

    Parameters
    ----------
    sampler : str
        "poisson", "allocation" (each record in a random batch of every pass), "shuffled", "fixed-size" (a new draw
        without replacement for each batch), "sequential", "full-batch", "with-replacement", "weighted", "never-empty"
        (Poisson samples, of which empty ones are left out or filled), "accumulated" (a step adds up several batches,
        and a record may be in more than one), "repeated" (the data hold a record several times), "shared" (several
        steps or optimizers use one batch), "unsteady" (which noise the steps had is not known) or "unknown".
    steps : int
        Number of batches that were really taken.
    noise_multiplier, noise_std : float
        Standard deviation of the noise that is added to the sum of a batch, over the clipping norm or in itself. State
        one of the two, or a schedule.
    clipping_norm : float
        Norm to which gradients are clipped.
    sampling_rate : float, optional
        Rate of Poisson sampling, chosen without looking at the data. If left out, it is 1 over the number of batches.
    batch_size, records, batches : int, optional
        The number of records in a batch, in the data set, and of batches per pass; the last follows from the others.
    parameters : int
        Number of parameters that get noise. A smaller number than the true one is safe.
    clipping : str
        "record", "batch" (or microbatch: a sum is clipped, not each gradient), "adaptive" (as Opacus does it: the
        clipping norm follows the share of unclipped gradients) or "none".
    normaliser : str
        What noisy sums are divided by: "constant", "records" (their number), "opacus" (⌊records / batches⌋), "batch"
        (the number of records in the batch), or "unknown".
    micro_batches : int
        Number of parts of a batch, if each gets noise of its own and only their sum is used.
    drop_last : bool
        True if a last batch that is not full is left out.
    schedule : tuple of (noise_multiplier, sampling_rate, steps)
        Stages whose noise or rate differs, in place of noise, rate and steps.
    public : tuple of str
        What may be known: "records" (their number), "rate", "normaliser". If the number of records is public, an added
        or removed record is one that counts in that number and has no gradient.
    history : tuple of (noise_multiplier, sampling_rate, steps)
        What the accountant was given.
    adjacency : str
        Which data sets are neighbours.

    Examples
    --------
    >>> loop = TrainingLoop(sampler="poisson", noise_multiplier=1.0, sampling_rate=0.01, steps=1000)
    >>> round(loop.profile().epsilon(1e-5), 6)
    1.828237
    """

    sampler: str
    steps: int = 0
    noise_multiplier: float | None = None
    noise_std: float | None = None
    clipping_norm: float = 1.0
    sampling_rate: float | None = None
    batch_size: int | None = None
    records: int | None = None
    batches: int | None = None
    parameters: int = 1
    clipping: str = "record"
    normaliser: str = "constant"
    micro_batches: int = 1
    drop_last: bool = False
    schedule: tuple[tuple[float, float, int], ...] = ()
    public: tuple[str, ...] = ("records",)
    history: tuple[tuple[float, float, int], ...] = ()
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        given = [name for name in ("noise_multiplier", "noise_std", "schedule") if getattr(self, name)]
        if len(given) != 1:
            names = "noise_multiplier, noise_std or schedule"
            raise ParameterError(names, "be given, one of them", " and ".join(given) or "none")
        for name in ("schedule", "history", "public"):
            require(isinstance(getattr(self, name), tuple | list), name, "be a list", repr(getattr(self, name)))
        for name in ("schedule", "history"):
            stages = DPSGD.from_schedule(getattr(self, name)).stages if getattr(self, name) else ()
            object.__setattr__(self, name, tuple((s.noise_multiplier, s.sampling_rate, s.steps) for s in stages))
        if self.schedule:
            object.__setattr__(self, "steps", sum(row[2] for row in self.schedule))
        for one in (one for one in fields(self) if one.name in _CHECKS):
            if getattr(self, one.name) is not None or one.default is not None:
                object.__setattr__(self, one.name, _CHECKS[one.name](one.name, getattr(self, one.name)))
        as_adjacency(self.adjacency)
        require(isinstance(self.drop_last, bool), "drop_last", "be true or false", repr(self.drop_last))
        if not all(word in _PUBLIC for word in self.public):
            raise ParameterError("public", f"hold some of {', '.join(_PUBLIC)}", ", ".join(map(str, self.public)))
        object.__setattr__(self, "public", tuple(self.public))
        own = self._batches(self.records)
        if self.sampler in _EQUAL_BATCHES and None not in (self.batches, own) and self.batches != own:
            raise ParameterError("batches", f"be {own}, as records and batch_size have it", self.batches)
        object.__setattr__(self, "batches", self.batches or own)
        if self.sampler == "poisson" and self.sampling_rate is None and self.batches is None and not self.schedule:
            raise ParameterError("sampling_rate", "be known", "none", "state it, or batch_size and records")
        if self.sampler in ("shuffled", "sequential", "fixed-size") and (not self.batches or not self.batch_size):
            raise ParameterError("batch_size and records", f"be known for sampler {self.sampler!r}", "none")
        require(self.sampler != "allocation" or self.batches, "batches", "be known for sampler 'allocation'", "none")

    def _batches(self, records: int | None) -> int | None:
        """Return the number of batches in a pass over this many records; Opacus takes it from a rate in floats."""
        if records is None or self.batch_size is None or (self.drop_last and records < self.batch_size):
            return None
        count = records // self.batch_size if self.drop_last else max(-(-records // self.batch_size), 1)
        return int(1 / (1 / count)) if self.sampler == "poisson" else count

    def arguments(self) -> dict[str, Any]:
        """Return what was stated, or follows from it: the fields that differ from their defaults."""
        return {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}

    # ------------------------------------------------------------------ numbers that follow

    def noise(self, *, moves: int = 1, times: int = 1, above: bool = False) -> float:
        """Return the noise of a batch over what a record moves: `moves` clipping norms, in `times` batches together.

        It is rounded down, or up if `above`: a guarantee may take less noise, and data that convict may take more.
        """
        if self.clipping == "none":
            return _UNCLIPPED
        own = [Fraction(row[0]) for row in self.schedule] or [Fraction(self.noise_multiplier or self.noise_std or 0)]
        own = own if self.noise_std is None else [own[0] / Fraction(self.clipping_norm)]
        square = ((max(own) if above else min(own)) / moves) ** 2 * self.micro_batches / times
        return root_up(square) if above else root_down(square)

    def _sampled(self, moves: int, adjacency: Adjacency, *, above: bool) -> PrivacyProfile:
        """Return the law of Poisson sampling, stage by stage."""
        rows = self.schedule or ((None, self.rate, self.steps),)
        stages = [self if noise is None else replace(self, schedule=((noise, rate, n),)) for noise, rate, n in rows]
        noises = [stage.noise(moves=moves, above=above) for stage in stages]
        first, *others = (
            PrivacyProfile.from_noise_multiplier(noise, adjacency=adjacency).subsampled(rate).repeat(n)
            for noise, (_, rate, n) in zip(noises, rows, strict=True)
        )
        return first.compose(*others)

    def _allocated(self, noise: float, *, most: bool) -> PrivacyProfile:
        """Return the law of passes in which each record is in one batch, drawn at random."""
        times = self._times(most=most)
        return PrivacyProfile.from_allocation(noise_multiplier=noise, bins=self.batches or 1, epochs=times)

    @property
    def rate(self) -> float:
        """Return the rate of Poisson sampling; Opacus takes 1 over the number of batches."""
        if self.schedule:
            return max(row[1] for row in self.schedule)
        return 1.0 / (self.batches or 1) if self.sampling_rate is None else self.sampling_rate

    @property
    def fixed_records(self) -> bool:
        """Say if neighbours have equally many records."""
        return self.adjacency == "replace-one" or "records" in self.public

    @property
    def private_scale(self) -> bool:
        """Say if what the sums are divided by may depend on one record."""
        if self.normaliser == "constant" or "normaliser" in self.public:
            return False
        return self.normaliser == "unknown" or not self.fixed_records

    @property
    def random_scale(self) -> bool:
        """Say if what the sums are divided by depends on who is in the batch."""
        return self.normaliser == "batch" and self.sampler not in _EQUAL_BATCHES

    @property
    def private_rate(self) -> bool:
        """Say if the rate or the number of batches depends on the number of records, and that on one record."""
        stated = self.sampling_rate is not None or self.records is None or "rate" in self.public
        return self.sampler in ("poisson", "allocation") and not stated and not self.fixed_records

    def _times(self, *, most: bool) -> int:
        """Return in how many batches a record can be: the most, or the number over whole passes."""
        if self.sampler not in _IN_PASSES:
            return self.steps
        return -(-self.steps // (self.batches or 1)) if most else self.steps // (self.batches or 1)

    # ------------------------------------------------------------------ the guarantee

    def profile(self) -> PrivacyProfile:
        """Return what a theorem promises for all data (thm:loop-guarantee); refuse a loop without such a theorem."""
        lawless = self.sampler in LAWLESS or self.clipping in ("adaptive", "none")
        if lawless or self.private_scale or self.private_rate:
            raise ParameterError("loop", "have a guarantee that is known", "none", "see the findings of the audit")
        moves = 2 if self.adjacency == "replace-one" or self.clipping == "batch" else 1
        clipped_sum = self.adjacency == "replace-one" and self.clipping == "batch"
        if self.sampler == "poisson" and not (self.random_scale or clipped_sum):
            return self._sampled(moves, self.adjacency, above=False)
        if self.sampler == "allocation" and self.adjacency == "add-remove" and not self.random_scale:
            return self._allocated(self.noise(moves=moves), most=True)
        size, records = self.batch_size or 1, self.records or 1
        if self.sampler == "fixed-size" and self.adjacency == "replace-one" and size < records:
            step = PrivacyProfile.from_fixed_size(noise_multiplier=self.noise(), batch_size=size, records=records)
            return step.repeat(self.steps)
        if not (self.fixed_records or self.sampler == "full-batch"):
            raise ParameterError("records", "be public for these batches", "private", "see the findings of the audit")
        noise = self.noise(moves=moves, times=self._times(most=True))
        return PrivacyProfile.from_noise_multiplier(noise, adjacency=self.adjacency)

    def attained(self) -> tuple[Attained, ...]:
        """List data on which the output has a known law (thm:loop-pairs)."""
        if self.sampler in LAWLESS or self.clipping == "adaptive":
            return ()
        if self.private_scale:
            return () if self.fixed_records else tuple(self._scales())
        # batches of two records: two neighbours exist with equally many batches, and so with one rate
        lawless = self.random_scale or (self.private_rate and (self.batch_size or 1) < 2)
        return () if lawless else tuple(self._law())

    def _law(self) -> list[Attained]:
        """Return data on which one record moves the sums as far as is known to be possible."""
        full = self.sampler == "full-batch" or (self.sampler == "poisson" and self.rate == 1.0)
        crowded = not self.fixed_records and (self.sampler == "fixed-size" or (self.drop_last and not full))
        clipped_sum = self.clipping == "batch" and (self.batch_size or self.records or 2) > 1
        equal = full or self.sampler in _EQUAL_BATCHES
        two = equal and (self.adjacency == "replace-one" or crowded or clipped_sum)
        moves, words = (2, _AGAINST) if two else (1, _ALONE)
        words, times = _UNBOUNDED if self.clipping == "none" else words, self._times(most=False)
        if times == 0:
            return []
        if full or self.sampler == "sequential":
            noise = self.noise(moves=moves, times=times, above=True)
            return [Attained(words, PrivacyProfile.from_noise_multiplier(noise))]
        if self.sampler == "poisson" and self.clipping != "none":
            return [Attained(words, self._sampled(moves, "add-remove", above=True))]  # replaced by one without gradient
        # every batch of a shuffled pass is full; if the number of records is private, one may choose it so
        size = (self.batch_size or 0) * (self.batches or 0)
        whole = self.sampler == "shuffled" and (size == self.records if self.fixed_records else not self.drop_last)
        if (whole or self.sampler == "allocation") and self.clipping != "none":
            return [Attained(words, self._allocated(self.noise(moves=moves, above=True), most=False))]
        step = PrivacyProfile.from_noise_multiplier(self.noise(moves=moves, above=True)).subsampled(self._share())
        return [Attained(words, step.repeat(1 if self.clipping == "none" else times))]  # one batch is enough there

    def _share(self) -> float:
        """Return the chance of a record to be in the first batch of a pass, rounded down."""
        if self.sampler == "poisson":
            return min((row[1] for row in self.schedule), default=self.rate)
        size, records = self.batch_size or 1, self.records or 1
        if not self.fixed_records:  # a data set with as many batches, all of them full
            records = records + 1 if self.sampler == "fixed-size" else size * (self.batches or 1) + self.drop_last
        return down(Fraction(min(size, records), records))

    def _scales(self) -> list[Attained]:
        """Return data of two sizes on which all gradients are zero, so that only the width of the noise differs."""
        n, whole = self.records or 0, (self.batch_size or 0) * (self.batches or 0)
        near = [self._scale(m) for m in (n, n - 1)]
        known = [one for one in near if one] or [one for one in [self._scale(whole - 1)] if one]  # full batches only
        return [Attained(*one[1:]) for one in sorted(known, key=lambda one: one[0])[-1:]]

    def _scale(self, n: int) -> tuple[Fraction, str, PrivacyProfile] | None:
        """Compare n records with n + 1: the ratio of the divisors, words, and the two laws; None if they are equal."""
        divisors = [self._divisor(m) for m in (n, n + 1)]
        least, steps = min(self._batches(m) or self.steps + 1 for m in (n, n + 1)), self.steps
        if steps >= least:  # the loop goes through the data, and a pass of the neighbour may be shorter
            steps = steps // (self.batches or 1) * least
        if n < 1 or steps < 1 or 0 in divisors or divisors[0] == divisors[1]:
            return None
        ratio = Fraction(divisors[0], divisors[1])
        pair = GaussianPair.from_excess(ratio**2 - 1, copies=self.parameters * steps)
        words = (
            f"{n + 1:,} and {n:,} records, all gradients zero: the noise is divided by {divisors[1]:,} and by "
            f"{divisors[0]:,}, in {several(self.parameters, 'parameter')} and {several(steps, 'step')}"
        )
        return max(ratio, 1 / ratio), words, PrivacyProfile(pair)

    def _divisor(self, records: int) -> int:
        """Return what the sums are divided by for this many records; 0 if that is not known."""
        if self.normaliser == "records" or (self.normaliser == "batch" and self.sampler == "full-batch"):
            return records
        count = self._batches(records)
        stated = self.records is not None and self._batches(self.records) == self.batches
        return int(records * (1 / count)) if self.normaliser == "opacus" and count and stated else 0  # in its floats
