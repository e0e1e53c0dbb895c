"""From candidates to a verdict: floats put them in order, certificates decide (rule:audit).

The worst first, each candidate that floats do not put clearly below the claim is certified, until one is refuted. None
is left out: a candidate is passed over only where its float log δ is below that of the claim by more than a margin ten
times the accuracy of the floats. (The printed audit, lem:ndis-upper-oracle, returns an over-estimate of δ, and that
refutes nothing; a refutation reads the lower end.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ndis.auditing.accuracy import harder
from ndis.auditing.candidates import Candidate, Found, excess
from ndis.auditing.decide import enclose, exceeds, largest_refuted_epsilon, screen
from ndis.auditing.event import best_event
from ndis.auditing.progress import Advance, silent
from ndis.auditing.result import Witness
from ndis.enclosure import Enclosure
from ndis.profile import PrivacyProfile

__all__ = ["Judgement", "judge"]

Answer = Literal["above", "within", "below", "open"]
_LOOKED_AT = 4  # of the worst pairs, for the largest ε refuted


@dataclass(frozen=True, eq=False)
class Judgement:
    """The fields of a report that hang on numbers."""

    refuted: bool
    undecided: bool
    witness: Witness | None
    epsilon_refuted: float | None
    delta_possible: float
    notes: tuple[str, ...]


def judge(found: Found, *, progress: Advance = silent) -> Judgement:
    """The verdict on all candidates."""
    ranked = found.ranked()
    undecided: Candidate | None = None
    close: Candidate | None = None  # above the claim, by no more than its numbers are accurate
    worst: Candidate | None = None
    answers: dict[tuple[object, ...], Answer] = {}  # equal pairs are certified once
    for candidate in (c for c in ranked if c.above):
        profile = candidate.make()
        key = (_mark(profile), candidate.side, candidate.epsilon, candidate.delta)
        if key not in answers:
            answers[key] = _answer(candidate, profile)
        progress()
        if answers[key] == "above":
            worst = candidate
            break
        if answers[key] == "within" and close is None:
            close = candidate
        if answers[key] == "open" and undecided is None:
            undecided = candidate
    shown = worst or close or undecided or (ranked[0] if ranked else None)
    if shown is None:
        return Judgement(False, False, None, None, 0.0, ())
    profile = shown.make()
    box = enclose(profile, shown.side, shown.epsilon)
    if worst is None and close is None and box.lower > shown.delta:  # floats had put it below the claim
        worst, close = (shown, None) if _certain(shown, profile, box) else (None, shown)
    if worst is not None and worst.confirm is not None:
        worst.confirm()
    lower = box.lower
    if worst is not None:  # δ is above the claim, though perhaps by less than floats can show
        lower = max(lower, shown.delta)
    elif close is shown:
        lower = min(_least(shown, profile), shown.delta)
    box = Enclosure(lower, max(lower, box.upper))
    open_ = worst is None and (close is not None or undecided is not None)
    witness = Witness(
        shown.neighbours,
        shown.order,
        shown.epsilon,
        shown.delta,
        box,
        best_event(profile, shown.side, shown.epsilon),
        profile,
        shown.side,
    )
    return Judgement(
        worst is not None,
        open_,
        witness,
        _epsilon_refuted(ranked, shown, refuted=worst is not None),
        box.lower,
        _notes(witness, refuted=worst is not None, open_=open_, within=close is not None),
    )


def _answer(candidate: Candidate, profile: PrivacyProfile) -> Answer:
    """Whether δ is above the claim by more than an error of the laws explains, within that, not, or unknown."""
    side, epsilon, delta = candidate.side, candidate.epsilon, candidate.delta
    answer = exceeds(profile, side, epsilon, delta)
    if answer is None:
        return "open"
    if not answer:
        return "below"
    test = harder(candidate.allowed, epsilon, delta)
    if test == (epsilon, delta):
        return "above"
    return "above" if test is not None and exceeds(profile, side, *test) else "within"


def _certain(candidate: Candidate, profile: PrivacyProfile, box: Enclosure) -> bool:
    """Whether an enclosure above the claim stays above it when the laws are as far off as they may be."""
    test = harder(candidate.allowed, candidate.epsilon, candidate.delta)
    if test is None:
        return False
    epsilon, delta = test
    return (box if epsilon == candidate.epsilon else enclose(profile, candidate.side, epsilon)).lower > delta


def _least(candidate: Candidate, profile: PrivacyProfile) -> float:
    """A lower end of δ for all laws within the accuracy of the numbers: e^−r δ(ε + r), r the room."""
    test = harder(candidate.allowed, candidate.epsilon, candidate.delta)
    if test is None:
        return 0.0
    lower = enclose(profile, candidate.side, test[0]).lower
    return lower * math.exp(candidate.epsilon - test[0]) * (1.0 - 2.0**-40)


def _mark(profile: PrivacyProfile) -> tuple[object, ...]:
    """Equal for equal pairs."""
    parts: list[object] = [profile.sampling_rates]
    for pair in (profile.remove, profile.add):
        for o in pair.origins:
            numbers = tuple(tuple(a.ravel()) if a.dtype == object else a.tobytes() for a in o.arrays)
            parts.append((o.kind, o.reverse, o.copies, numbers))
        if not pair.origins:
            parts.append(id(pair))
    return tuple(parts)


def _epsilon_refuted(ranked: list[Candidate], shown: Candidate, *, refuted: bool) -> float | None:
    """The largest over the worst few pairs: the worst at one ε need not be the worst at another."""
    best = shown.epsilon if refuted else None
    others = [c for c in ranked if c.delta == shown.delta and c.epsilon == shown.epsilon and c is not shown]
    for candidate in [shown, *others[: _LOOKED_AT - 1]]:
        if best == math.inf:
            break
        profile, side = candidate.make(), candidate.side
        if candidate is not shown and best is not None and excess(screen(profile, side, best)[0], shown.delta) <= 0.0:
            continue
        best = largest_refuted_epsilon(profile, side, shown.delta, known=best, allowed=candidate.allowed)
    return best


def _notes(witness: Witness, *, refuted: bool, open_: bool, within: bool) -> tuple[str, ...]:
    notes = []
    if refuted and witness.enclosure.lower <= witness.delta:
        notes.append(
            "δ is above the claim with certainty, by less than the spacing of floating-point numbers: "
            "the lower end printed is the float below it"
        )
    if within:
        notes.append(
            "undecided: δ of the witness is above the claim, but within the accuracy of the algorithm's numbers; this "
            "counts as not refuted, and law_accuracy=0 takes the numbers as exact"
        )
    elif open_:
        notes.append("no precision tried could tell δ of the witness from the claim; this counts as not refuted")
    return tuple(notes)
