"""Audit a training loop: which guarantee it really has, which claims it breaks, and the line that repairs it.

A loop is a mechanism: `profile` is what theorems promise for all data (thm:loop-guarantee), `attained` lists data on
which the output has a known law (thm:loop-pairs). Only those data convict. If neither decides, no guarantee is known.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from importlib.resources import files
from typing import Any

from flint import arb

from ndis._balls import exact_ball, outward, precision
from ndis._exact import down, root_down, root_up, up
from ndis._groups import as_rate
from ndis._validate import Adjacency, as_adjacency, as_choice, as_size, as_within
from ndis.auditing.audit import audit
from ndis.auditing.claim import Claim, Proof, claim_to_dict
from ndis.auditing.report import AuditReport
from ndis.dpsgd import DPSGD
from ndis.errors import NdisError, ParameterError, PrecisionError
from ndis.mechanisms.mechanism import Attained
from ndis.pages.text import at_least, at_most, few, plain, several
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__all__ = ["Finding", "TrainingLoop", "TrainingReport", "audit_training"]

SAMPLERS = (
    "poisson", "allocation", "shuffled", "fixed-size", "sequential", "full-batch", "with-replacement", "weighted",
    "unknown",
)  # fmt: skip
_CLIPPING = ("record", "batch", "adaptive", "none")
_NORMALISERS = ("constant", "opacus", "records", "batch", "unknown")
_PUBLIC = ("records", "rate", "normaliser", "weights")
_EQUAL_BATCHES = ("shuffled", "fixed-size", "sequential", "full-batch")  # the number of records in a batch is fixed
_IN_PASSES = ("shuffled", "sequential", "allocation")  # each record takes part once in every pass
_WITHOUT_THEOREM = ("with-replacement", "weighted", "unknown")
_UNCLIPPED = 2.0**-10  # noise over the norm of a gradient that nothing clips; data can have any such ratio
_CLOSE = 1.02  # an ε above its own by this factor has a certificate that is wide enough
_FAR = 7.0  # a log δ that lies this far below the claimed one is not certified, as it cannot convict
_MOST_DRAWS = 4096  # draws of a batch with replacement whose numbers of copies are told apart
_LEAST_CHANCE = 1e-30  # rarer numbers of copies of one record are left out
_BITS = 192  # of the balls that hold these chances
_SIZES = ("steps", "parameters", "micro_batches", "batch_size", "records", "batches")
_CHECKS = {
    **dict.fromkeys(("noise_multiplier", "noise_std", "clipping_norm"), partial(as_within, exponent=200)),
    **dict.fromkeys(_SIZES, as_size),
    **dict.fromkeys(("sampling_rate", "largest_share"), lambda name, value: as_rate(value, name=name)),
}
REFUTED, SOUND, UNKNOWN = "refuted", "sound", "no guarantee known"

_ALONE = "data on which one record has a gradient as long as the clipping norm, and all others have none"
_AGAINST = "data on which all gradients are equal and as long as the clipping norm, and one record turns it round"
_UNBOUNDED = (
    f"data on which one record has a gradient {1 / _UNCLIPPED:,.0f} times as long as the noise is wide, seen once"
)
_ASSUMPTIONS = (
    "the loop does what is stated here: it samples, clips, adds noise and divides in this way",
    "the noisy sums are all that depends on the data, and the random bits of samples and noise are secret",
    "what is stated as public was chosen, or may be known, without regard to any one record",
    "one person contributes at most one record",
)


@dataclass(frozen=True, kw_only=True)
class TrainingLoop:
    """The class states a training loop in public numbers: how it draws batches, clips, adds noise, and is accounted.

    Parameters
    ----------
    sampler : str
        "poisson", "allocation" (each record in a random batch of every pass), "shuffled", "fixed-size" (a new draw
        without replacement for each batch), "sequential", "full-batch", "with-replacement", "weighted" or "unknown".
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
    largest_share : float, optional
        Probability that one draw of a weighted sampler takes the heaviest record.
    schedule : tuple of (noise_multiplier, sampling_rate, steps)
        Stages whose noise or rate differs, in place of noise, rate and steps.
    public : tuple of str
        What may be known: "records" (their number), "rate", "normaliser", "weights". If the number of records is
        public, an added or removed record is one that counts in that number and has no gradient.
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
    largest_share: float | None = None
    schedule: tuple[tuple[float, float, int], ...] = ()
    public: tuple[str, ...] = ("records",)
    history: tuple[tuple[float, float, int], ...] = ()
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        given = [name for name in ("noise_multiplier", "noise_std", "schedule") if getattr(self, name)]
        if len(given) != 1:
            names = "noise_multiplier, noise_std or schedule"
            raise ParameterError(names, "be given, one of them", " and ".join(given) or "none")
        for name in ("schedule", "history"):
            stages = DPSGD.from_schedule(getattr(self, name)).stages if getattr(self, name) else ()
            object.__setattr__(self, name, tuple((s.noise_multiplier, s.sampling_rate, s.steps) for s in stages))
        if self.schedule:
            object.__setattr__(self, "steps", sum(row[2] for row in self.schedule))
        for name, check in _CHECKS.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check(name, getattr(self, name)))
        for name, choices in (("sampler", SAMPLERS), ("clipping", _CLIPPING), ("normaliser", _NORMALISERS)):
            as_choice(name, getattr(self, name), choices)
        as_adjacency(self.adjacency)
        if not isinstance(self.drop_last, bool):
            raise ParameterError("drop_last", "be true or false", repr(self.drop_last))
        if not all(word in _PUBLIC for word in self.public):
            raise ParameterError("public", f"hold some of {', '.join(_PUBLIC)}", ", ".join(map(str, self.public)))
        object.__setattr__(self, "public", tuple(self.public))
        object.__setattr__(self, "batches", self.batches or self._batches(self.records))
        if self.sampler == "poisson" and self.sampling_rate is None and self.batches is None and not self.schedule:
            raise ParameterError("sampling_rate", "be known", "none", "state it, or batch_size and records")
        if self.sampler in (*_IN_PASSES, "fixed-size") and (self.batches is None or self.batch_size is None):
            raise ParameterError("batch_size and records", f"be known for sampler {self.sampler!r}", "none")

    def _batches(self, records: int | None) -> int | None:
        """Return the number of batches in a pass over this many records; Opacus takes it from a rate in floats."""
        if records is None or self.batch_size is None or (self.drop_last and records < self.batch_size):
            return None
        count = records // self.batch_size if self.drop_last else max(-(-records // self.batch_size), 1)
        return int(1 / (1 / count)) if self.sampler == "poisson" else count

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
        """Say if the sampling rate depends on the number of records, and that on a record."""
        stated = self.sampling_rate is not None or "rate" in self.public
        return self.sampler == "poisson" and not stated and not self.fixed_records

    def _times(self, *, most: bool) -> int:
        """Return in how many batches a record can be: the most, or the number over whole passes."""
        if self.sampler not in _IN_PASSES:
            return self.steps
        return -(-self.steps // (self.batches or 1)) if most else self.steps // (self.batches or 1)

    # ------------------------------------------------------------------ the guarantee

    def profile(self) -> PrivacyProfile:
        """Return what a theorem promises for all data (thm:loop-guarantee); refuse a loop without such a theorem."""
        lawless = self.sampler in _WITHOUT_THEOREM or self.clipping in ("adaptive", "none")
        if lawless or self.private_scale or self.private_rate:
            raise ParameterError("loop", "have a guarantee that is known", "none", "see the findings of the audit")
        moves = 2 if self.adjacency == "replace-one" or self.clipping == "batch" else 1
        clipped_sum = self.adjacency == "replace-one" and self.clipping == "batch"
        if self.sampler == "poisson" and not (self.random_scale or clipped_sum):
            return self._sampled(moves, self.adjacency, above=False)
        if self.sampler == "fixed-size" and self.adjacency == "replace-one":
            sizes = {"batch_size": min(self.batch_size or 1, self.records or 1), "records": self.records or 1}
            return PrivacyProfile.from_fixed_size(noise_multiplier=self.noise(), **sizes).repeat(self.steps)
        if not (self.fixed_records or self.sampler == "full-batch"):
            raise ParameterError("records", "be public for these batches", "private", "see the findings of the audit")
        noise = self.noise(moves=moves, times=self._times(most=True))
        return PrivacyProfile.from_noise_multiplier(noise, adjacency=self.adjacency)

    def attained(self) -> tuple[Attained, ...]:
        """List data on which the output has a known law (thm:loop-pairs)."""
        if self.private_scale:
            return () if self.fixed_records or self.clipping == "adaptive" else tuple(self._scales())
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
        if self.sampler in ("with-replacement", "weighted"):
            return self._drawn_again()
        if times == 0 or self.sampler == "unknown" or self.clipping == "adaptive":
            return []
        if full or self.sampler == "sequential":
            noise = self.noise(moves=moves, times=times, above=True)
            return [Attained(words, PrivacyProfile.from_noise_multiplier(noise))]
        if self.sampler == "poisson" and self.clipping != "none":
            return [Attained(words, self._sampled(moves, "add-remove", above=True))]  # replaced by one without gradient
        step = PrivacyProfile.from_noise_multiplier(self.noise(moves=moves, above=True)).subsampled(self._share())
        return [Attained(words, step.repeat(1 if self.clipping == "none" else times))]  # one batch is enough there

    def _drawn_again(self) -> list[Attained]:
        """Return the law of one record that a batch may draw several times, while no other has a gradient."""
        share = Fraction(self.largest_share or 0) if self.sampler == "weighted" else Fraction(1, self.records or 1)
        size = self.batch_size or 0
        if not 0 < share < 1 or not 0 < size <= _MOST_DRAWS or self.clipping != "record":
            return []
        with precision(_BITS):
            p = exact_ball(share)
            chances = [outward(arb.bin_uiui(size, k) * p**k * (1 - p) ** (size - k))[0] for k in range(size + 1)]
        # rounded down, relative to their sum too: δ grows with each chance above 0 (thm:loop-pairs)
        kept = {k: chance for k, chance in enumerate(chances) if k > 0 and chance > _LEAST_CHANCE}
        shifts, weights = [0.0, *map(float, kept)], [up(1 - sum(map(Fraction, kept.values()))), *kept.values()]
        noise = self.noise(above=True)
        step = PrivacyProfile.from_mixture(noise_multiplier=noise, sensitivities=shifts, probabilities=weights)
        return [Attained(_ALONE, step.repeat(self.steps))]

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


# ---------------------------------------------------------------------- what is wrong, and what to do


@dataclass(frozen=True)
class Finding:
    """A finding is one difference between the loop and what its claim rests on.

    Attributes
    ----------
    name : str
        The part of the loop.
    why : str
        What it does, and why the claim does not cover it.
    repair : str
        What to change, in one line.
    verdict : str
        "refuted" if data that show it contradict the claim, "sound" if a theorem proves the claim all the same, else
        "no guarantee known".
    """

    name: str
    why: str
    repair: str
    verdict: str


def _faults(loop: TrainingLoop) -> Iterator[str]:
    """Name everything in which the loop differs from what was accounted, as `training.toml` does."""
    if loop.private_scale or loop.random_scale:
        yield f"normaliser-{loop.normaliser}"
    if loop.private_rate:
        yield "private-rate"
    if loop.sampler in _WITHOUT_THEOREM or (loop.history and loop.sampler not in ("poisson", "full-batch")):
        yield f"sampler-{loop.sampler}"
    if loop.drop_last and loop.sampler in ("shuffled", "sequential"):
        yield "last-batch"
    if loop.clipping != "record":
        yield f"clipping-{loop.clipping}"
    if not loop.history:
        return
    noises, rates, counts = zip(*loop.history, strict=True)
    if loop.clipping != "none" and not loop.schedule and loop.noise(above=True) < max(noises):
        yield "noise"
    if loop.steps > sum(counts):
        yield "steps"
    if loop.sampler == "poisson" and loop.rate > max(rates):
        yield "rate"
    if loop.adjacency == "replace-one":
        yield "neighbours"


def _findings(loop: TrainingLoop, verdict: str) -> tuple[Finding, ...]:
    """Return the faults in words. Data that show the normaliser show nothing else, and the other way round."""
    words = tomllib.loads((files("ndis.pages") / "templates" / "training.toml").read_text(encoding="utf-8"))
    told = loop.history or ((0.0, 0.0, 0),)
    numbers = {
        "parameters": several(loop.parameters, "parameter"),
        "steps": several(loop.steps, "step"),
        "noise": few(loop.noise(), 4),
        "rate": few(loop.rate, 4),
        "told_noise": few(max(row[0] for row in told), 4),
        "told_rate": few(max(row[1] for row in told), 4),
        "told_steps": f"{sum(row[2] for row in told):,}",
    }
    findings = []
    for name in _faults(loop):
        part, why, repair = (words[name][key].format(**numbers) for key in ("part", "why", "repair"))
        shown = verdict != REFUTED or (part == "normaliser") == loop.private_scale
        findings.append(Finding(part, why, repair, verdict if shown else UNKNOWN))
    return tuple(findings)


@dataclass(frozen=True, eq=False)
class TrainingReport:
    """The report says what a training loop guarantees, whether the claim is refuted, and what to repair.

    Attributes
    ----------
    loop : TrainingLoop
    claim : Claim
    verdict : str
        "refuted" (with a certificate in `audit`), "sound" (a theorem proves the claim), or "no guarantee known".
    epsilon_guaranteed : float or None
        The ε that holds for all data at the largest claimed δ, on the safe side; None if no theorem gives one.
    findings : tuple of Finding
    audit : AuditReport or None
        The certificate, which can be saved and checked again; None if no data with a known law come near the claim.
    """

    loop: TrainingLoop
    claim: Claim
    verdict: str
    epsilon_guaranteed: float | None
    findings: tuple[Finding, ...]
    audit: AuditReport | None

    @property
    def epsilon_refuted(self) -> float | None:
        """Return the largest ε that is known to be false at the claimed δ; None if there is none."""
        return None if self.audit is None else self.audit.epsilon_refuted

    def __str__(self) -> str:
        lines = [f"claim: {self.claim}", f"verdict: {self.verdict}"]
        delta = plain(max(self.claim.points, key=lambda point: point[1])[1])
        if self.audit is not None and self.audit.refuted and self.audit.witness is not None:
            known = f"{at_least(self.epsilon_refuted)}" if self.epsilon_refuted is not None else "the claim"
            lines.append(f"true ε at δ = {plain(self.audit.witness.delta)}: at least {known}")
            lines.append(f"on {self.audit.witness.neighbours}")
        if self.epsilon_guaranteed is not None:
            lines.append(f"holds for all data: ε = {at_most(self.epsilon_guaranteed)} at δ = {delta}")
        for one in self.findings:
            lines += [f"{one.name}: {one.why} [{one.verdict}]", f"  repair: {one.repair}"]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values. `audit` is an audit report, which `AuditReport.from_dict` reads and certifies again."""
        guaranteed = self.epsilon_guaranteed
        return {
            "format": "ndis.TrainingReport",
            "format_version": 1,
            "claim": claim_to_dict(self.claim),
            "verdict": self.verdict,
            "epsilon_guaranteed": "infinity" if guaranteed == math.inf else guaranteed,
            "findings": [asdict(one) for one in self.findings],
            "loop": asdict(self.loop),
            "audit": None if self.audit is None else self.audit.to_dict(),
        }

    def to_json(self) -> str:
        """Write JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=2)


def audit_training(loop: TrainingLoop, claim: Claim | None = None, *, delta: float = 1e-5) -> TrainingReport:
    """Say which guarantee a training loop really has, and refute a claim that it breaks, with a certificate.

    Parameters
    ----------
    loop : TrainingLoop
    claim : Claim, optional
        What the accountant says at `delta`, for Poisson sampling and its history, unless given.
    delta : float
        δ of that claim.

    Examples
    --------
    >>> steps = dict(sampling_rate=0.01, steps=1000, history=((1.0, 0.01, 1000),))
    >>> audit_training(TrainingLoop(sampler="poisson", noise_std=1.0, **steps)).verdict
    'sound'
    >>> print(audit_training(TrainingLoop(sampler="poisson", noise_std=1.0, clipping_norm=2.0, **steps)))
    claim: (ε = 1.8282..., δ = 1e-05)-differential privacy under add-remove
    verdict: refuted
    true ε at δ = 10⁻⁵: at least 13.3...
    on data on which one record has a gradient as long as the clipping norm, and all others have none
    holds for all data: ε = 13.3... at δ = 10⁻⁵
    noise: the noise of a batch is 0.5 clipping norms wide, and the accountant was given 1 [refuted]
      repair: add noise of 1 × clipping norm to the sum of a batch
    """
    if claim is None:
        if not loop.history:
            raise ParameterError("claim", "be given without a history", None)
        claim = Claim(DPSGD.from_schedule(loop.history).certified_epsilon(delta), delta)
    loop = replace(loop, adjacency=claim.adjacency)
    report = audit(claim, mechanism=loop, progress=False) if _near(loop, claim) else None
    guaranteed, proved = _proved(loop, claim)
    verdict = REFUTED if report and report.refuted else SOUND if proved else UNKNOWN
    findings = _findings(loop, verdict)
    if report is not None:
        proof = (
            Proof("thm:loop-guarantee", f"the training loop keeps {claim}", _ASSUMPTIONS) if verdict == SOUND else None
        )
        steps = ("check the assumptions above; the proof holds only if all of them do",) if proof else report.next_steps
        report = replace(report, proof=proof, next_steps=(*(f"{one.name}: {one.repair}" for one in findings), *steps))
    return TrainingReport(loop, claim, verdict, guaranteed, findings, report)


def _proved(loop: TrainingLoop, claim: Claim) -> tuple[float | None, bool]:
    """Return the ε that a theorem gives at the largest claimed δ, and say if certificates prove the claim by it.

    Far above its own ε a profile has a tiny δ, whose certificate takes long. As δ falls, a smaller ε may do.
    """
    try:
        profile = loop.profile()
        own = {delta: float(profile.epsilon(delta)) for _, delta in claim.points}
        for epsilon, delta in claim.points:
            near = sorted({min(epsilon, _CLOSE * own[delta]), epsilon})
            if own[delta] > epsilon or not any(profile.certify(x).upper <= delta for x in near):
                return own[max(own)], False
        return own[max(own)], True
    except NdisError:  # no theorem, a claim of δ = 0, or a number that cannot be computed
        return None, False


def _near(loop: TrainingLoop, claim: Claim) -> bool:
    """Say if δ of data with a known law may come near a claimed δ. Far below it a certificate would take minutes."""
    profiles = [one.profile for one in loop.attained()]
    try:
        floors = [(epsilon, math.log(delta) - _FAR if delta else -math.inf) for epsilon, delta in claim.points]
        return any(one._logs(epsilon, "worst", floor) > floor for one in profiles for epsilon, floor in floors)
    except PrecisionError:
        return True
