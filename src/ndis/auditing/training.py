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
from datetime import UTC, datetime
from importlib.resources import files
from operator import itemgetter
from typing import Any

from ndis._validate import require
from ndis.auditing.audit import audit
from ndis.auditing.claim import Claim, Proof, claim_to_dict
from ndis.auditing.guarantees import call_of, described, statement
from ndis.auditing.loop import LAWLESS, REFUTED, SOUND, UNKNOWN, TrainingLoop
from ndis.auditing.report import AuditReport
from ndis.dpsgd import DPSGD
from ndis.errors import NdisError, PrecisionError
from ndis.pages.text import at_least, at_most, few, plain, several

_CLOSE = 1.02  # an ε above its own by this factor has a certificate that is wide enough
_FAR = 7.0  # a log δ that lies this far below the claimed one is not certified, as it cannot convict
_NEXT = {
    REFUTED: "do not rely on the claim, and do not publish further outputs under it",
    SOUND: "check the assumptions: the proof holds only if all of them do",
    UNKNOWN: "do not publish under this claim: no theorem proves it",
}
_FAR_BELOW = "on all data on which the output has a known law, δ lies far below the claim"
_NO_LAW = "no data are known on which the output of this loop has a law that can be computed, so none were tested"
_NO_GUARANTEE = "no guarantee is known: no theorem proves the claim for this loop, and no data tried contradict it"
_ASSUMPTIONS = (
    "the loop does what is stated here: it draws a batch of its own for each step, clips, adds noise and divides so",
    "the noisy sums are all that depends on the data, and the random bits of samples and noise are secret",
    "what is stated as public was chosen, or may be known, without regard to any one record",
    "one person contributes at most one record",
)


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

    Examples
    --------
    >>> from ndis.auditing import TrainingLoop, audit_training
    >>> loop = TrainingLoop(sampler="sequential", noise_multiplier=1.0, records=60_000, batch_size=250, steps=480,
    ...                     history=[(1.0, 250 / 60_000, 480)])
    >>> (finding,) = audit_training(loop).findings
    >>> finding.name, finding.verdict
    ('sampler', 'refuted')
    >>> finding.repair
    'draw Poisson samples, or account for each pass as one release without sampling'
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
    if loop.sampler in LAWLESS or (loop.history and loop.sampler not in ("poisson", "full-batch")):
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
    given = loop.history or ((0.0, 0.0, 0),)
    numbers = {
        "parameters": several(loop.parameters, "parameter"),
        "steps": several(loop.steps, "step"),
        "noise": few(loop.noise(), 4),
        "rate": few(loop.rate, 4),
        "given_noise": few(max(row[0] for row in given), 4),
        "given_rate": few(max(row[1] for row in given), 4),
        "given_steps": f"{sum(row[2] for row in given):,}",
    }
    findings = []
    unexplained = {REFUTED: ("claim",), UNKNOWN: ("between",), SOUND: ()}
    for name in tuple(_faults(loop)) or unexplained[verdict]:
        topic, why, repair = (words[name][key].format(**numbers) for key in ("part", "why", "repair"))
        shown = verdict != REFUTED or (topic == "normaliser") == loop.private_scale
        findings.append(Finding(topic, why, repair, verdict if shown else UNKNOWN))
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
    audit : AuditReport
        The certificate, a page that can be saved and checked again. It has no witness if no data with a known law come
        near the claim.

    Examples
    --------
    >>> from ndis.auditing import TrainingLoop, audit_training
    >>> loop = TrainingLoop(sampler="poisson", noise_multiplier=1.0, records=60_000, batch_size=250, steps=480,
    ...                     history=[(1.0, 250 / 60_000, 480)])
    >>> report = audit_training(loop)
    >>> report.verdict, round(report.epsilon_guaranteed, 3)
    ('sound', 0.511)
    """

    loop: TrainingLoop
    claim: Claim
    verdict: str
    epsilon_guaranteed: float | None
    findings: tuple[Finding, ...]
    audit: AuditReport

    @property
    def epsilon_refuted(self) -> float | None:
        """Return the largest ε that is known to be false at the claimed δ; None if there is none."""
        return self.audit.epsilon_refuted

    def __str__(self) -> str:
        lines = [f"claim: {self.claim}", f"verdict: {self.verdict}"]
        delta = plain(max(self.claim.points, key=lambda point: point[1])[1])
        if self.audit.refuted and self.audit.witness is not None:
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
            "audit": self.audit.to_dict(),
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
        require(loop.history, "claim", "be given if the loop states no history", "none")
        claim = Claim(DPSGD.from_schedule(loop.history).certified_epsilon(delta), delta)
    loop = replace(loop, adjacency=claim.adjacency)
    time = datetime.now(UTC).isoformat(timespec="minutes")
    why = (_FAR_BELOW if loop.attained() else _NO_LAW,)
    none = AuditReport(claim, False, None, None, 0.0, 0, why, (), "", date=time, mechanism=described(loop))
    report = audit(claim, mechanism=loop, progress=False) if _near(loop, claim) else none
    guaranteed, proved = _proved(loop, claim)
    claimed, loosest = max(claim.points, key=itemgetter(1))
    verdict = REFUTED if report.refuted else SOUND if proved else UNKNOWN
    findings = _findings(loop, verdict)
    holds = "no ε at all" if guaranteed is None else f"ε = {at_most(guaranteed)} at δ = {plain(loosest)}"
    known = (f"what theorems prove for all data is {holds}; the claim says ε = {few(claimed)} there",)
    first = (_NO_GUARANTEE, *known) if verdict == UNKNOWN else ()  # a gate must not take the page for a pass
    made = call_of(loop) or ("", "")
    report = replace(
        report,
        proof=Proof("thm:loop-guarantee", statement(loop, claim), _ASSUMPTIONS) if verdict == SOUND else None,
        next_steps=(
            _NEXT[verdict],
            *(known if verdict == REFUTED else ()),
            *(f"{one.name}: {one.why}. To repair it, {one.repair}" for one in findings),
        ),
        undecided=verdict == UNKNOWN,
        notes=(*first, *report.notes),
        reproduce=f"{made[0]}\nfrom ndis.auditing import Claim, audit_training\naudit_training({made[1]}, {claim!r})",
        data_used="no",
    )
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
        floors = [(epsilon, math.log(delta) - _FAR) for epsilon, delta in claim.points if delta]
        above = any(one._logs(epsilon, "worst", floor) > floor for one in profiles for epsilon, floor in floors)
        return above or (len(floors) < len(claim.points) and bool(profiles))  # a claim of δ = 0 is near every law
    except PrecisionError:
        return True
