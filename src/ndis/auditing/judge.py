"""From candidates to a verdict: floats put them in order, certificates decide (theory §10).

The worst first, each candidate that floats do not put clearly below the claim is certified, until one is refuted. None
is left out: a candidate is passed over only where its float log δ is below that of the claim by more than a margin ten
times the accuracy of the floats. (The printed audit, lem:ndis-upper-oracle, returns an over-estimate of δ, and that
refutes nothing; a refutation reads the lower end.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ndis.auditing.candidates import Candidate, Found, excess
from ndis.auditing.decide import enclose, exceeds, largest_refuted_epsilon, screen
from ndis.auditing.event import best_event
from ndis.auditing.laws import storable
from ndis.auditing.result import Witness
from ndis.enclosure import Enclosure

__all__ = ["Judgement", "judge"]

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


def judge(found: Found) -> Judgement:
    """The verdict on all candidates."""
    ranked = found.ranked()
    undecided: Candidate | None = None
    worst: Candidate | None = None
    for candidate in (c for c in ranked if c.above):
        answer = exceeds(candidate.make(), candidate.side, candidate.epsilon, candidate.delta)
        if answer:
            worst = candidate
            break
        if answer is None and undecided is None:
            undecided = candidate
    refuted = worst is not None
    shown = worst or undecided or (ranked[0] if ranked else None)
    if shown is None:
        return Judgement(False, False, None, None, 0.0, ())
    profile = shown.make()
    box = enclose(profile, shown.side, shown.epsilon)
    if refuted:  # δ is above the claim, though perhaps by less than floats can show
        box = Enclosure(max(box.lower, shown.delta), box.upper)
    witness = Witness(
        shown.neighbours,
        shown.order,
        shown.epsilon,
        shown.delta,
        box,
        best_event(profile, shown.side, shown.epsilon),
        storable(profile),
        shown.side,
    )
    return Judgement(
        refuted,
        not refuted and undecided is not None,
        witness,
        _epsilon_refuted(ranked, shown, refuted=refuted),
        box.lower,
        _notes(witness, refuted=refuted, undecided=not refuted and undecided is not None),
    )


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
        best = largest_refuted_epsilon(profile, side, shown.delta, known=best)
    return best


def _notes(witness: Witness, *, refuted: bool, undecided: bool) -> tuple[str, ...]:
    notes = []
    if refuted and witness.enclosure.lower <= witness.delta:
        notes.append(
            "δ is above the claim with certainty, by less than the spacing of floating-point numbers: "
            "the lower end printed is the float below it"
        )
    if undecided:
        notes.append("no precision tried could tell δ of the witness from the claim; this counts as not refuted")
    return tuple(notes)
