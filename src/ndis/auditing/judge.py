"""From candidates to a verdict (rule:audit): floats put the candidates in order, and certificates decide.

Producers yield `Tested` values. `shortlist` keeps the candidates that matter, and `judge` certifies them, the worst
first, until one is refuted. A candidate is passed over only if its float log δ lies below the claim by more than ten
times the accuracy of the floats. (The printed audit, lem:ndis-upper-oracle, returns an over-estimate of δ. An
over-estimate refutes nothing; a refutation reads the lower end.)
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from ndis.auditing.claim import Claim, ClaimedCurve
from ndis.auditing.laws import Room, confidence, exactly, harder
from ndis.auditing.witness import Side, Witness, best_event
from ndis.enclosure import Enclosure
from ndis.errors import ParameterError, PrecisionError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile
from ndis.spectrum import certified

__all__ = [
    "AS_GIVEN",
    "EXCHANGED",
    "KEPT",
    "SCREEN_MARGIN",
    "SIDES",
    "WITH_RECORD",
    "Advance",
    "Candidate",
    "Judgement",
    "Tested",
    "candidates_of",
    "enclose",
    "exceeds",
    "judge",
    "largest_refuted_epsilon",
    "screen",
    "shortlist",
    "silent",
]

Advance = Callable[[], None]
Answer = Literal["above", "within", "below", "open"]
SIDES: tuple[Side, Side] = ("remove", "add")
AS_GIVEN = ("p and q as given", "p and q exchanged")
WITH_RECORD = (
    "p is the output with the record, q the output without it",
    "p is the output without the record, q the output with it",
)
EXCHANGED = (
    "p is the output on the data, q the output on the neighbour",
    "p is the output on the neighbour, q the output on the data",
)

KEPT = 64  # candidates clearly below the claim that are kept, only for the report
# The float screen is accurate to 1e-11·(1 + |log δ|) or says so. A candidate within ten times that is certified.
SCREEN_MARGIN = 1e-10
_WIDTHS = (1e-12, 1e-8, 1e-3)  # tried in this order; the first that succeeds counts
_COMPOSED_WIDTHS = (1e-9, 1e-6, 1e-3)  # the same for compositions of sampled releases
_NARROW = 1e-14
_FIRST_STEP, _LAST_STEP = 2.0**-33, 0.5  # relative steps of ε; nearer to the edge certificates take seconds
_LOOKED_AT = 4  # of the worst pairs, for the largest ε refuted


def silent() -> None:
    """Show nothing."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One order of one pair at one claimed point. `log_delta` + `slack` is above the true log δ."""

    neighbours: str
    order: str
    make: Callable[[], PrivacyProfile]
    side: Side
    epsilon: float
    delta: float
    log_delta: float
    slack: float
    allowed: Room = exactly  # how far its laws may be off
    confirm: Callable[[], None] | None = None  # raises if the laws do not come out again

    @property
    def excess(self) -> float:
        """log δ − log(claimed δ) in floats."""
        return _excess(self.log_delta, self.delta)

    @property
    def rank(self) -> tuple[float, float]:
        """The judge certifies the largest rank first."""
        return self.excess, self.log_delta

    @property
    def above(self) -> bool:
        """Whether the truth may lie above the claim."""
        return not self.excess + self.slack <= 0.0

    @cached_property
    def harder(self) -> tuple[float, float] | None:
        """(ε', δ') that refutes the claim for all laws within the accuracy of the numbers; None if nothing does."""
        return harder(self.allowed, self.epsilon, self.delta)


@dataclass(frozen=True, eq=False)
class Tested:
    """Some pairs of neighbours that a producer tried, and those of their candidates that may matter."""

    pairs: int
    candidates: tuple[Candidate, ...]


def _excess(log_delta: float, delta: float) -> float:
    """log δ − log(claimed δ); any δ above 0 is infinitely far above a claim of 0."""
    if log_delta == -math.inf:
        return -math.inf
    return log_delta - math.log(delta) if delta > 0.0 else math.inf


def shortlist(tested: Iterable[Tested]) -> tuple[int, list[Candidate]]:
    """How many pairs were tried, and the candidates that matter, the worst first.

    These are all candidates that may lie above the claim, and the `KEPT` closest of the others.
    """
    tried = number = 0
    above: list[Candidate] = []
    below: list[tuple[tuple[float, float], int, Candidate]] = []
    for some in tested:
        tried += some.pairs
        for candidate in some.candidates:
            if candidate.above:
                above.append(candidate)
                continue
            number -= 1  # among equals the first one stays
            put = heapq.heappush if len(below) < KEPT else heapq.heappushpop
            put(below, (candidate.rank, number, candidate))
    ordered = [c for _, _, c in sorted(below, key=lambda e: e[:2], reverse=True)]
    return tried, sorted([*above, *ordered], key=lambda c: c.rank, reverse=True)


def candidates_of(
    neighbours: str, words: tuple[str, str], profile: PrivacyProfile, claim: Claim | ClaimedCurve
) -> Iterator[Candidate]:
    """Both orders of a pair at every claimed point.

    A probability of failure is an allowance that no pair of outputs shows. It is left out.
    """
    profile = replace(profile, failure_probability=0.0)
    for side, order in zip(SIDES, words, strict=True):
        for epsilon, delta in claim.points:
            value, slack = screen(profile, side, epsilon)
            yield Candidate(neighbours, order, lambda: profile, side, epsilon, delta, value, slack)


def as_profile(value: Any) -> PrivacyProfile:
    """A profile as it is, a pair as the profile of both its orders."""
    if isinstance(value, PrivacyProfile):
        return value
    if isinstance(value, GaussianPair):
        return PrivacyProfile(value)
    raise ParameterError("pairs", "hold GaussianPair or PrivacyProfile values", type(value).__name__)


# ---------------------------------------------------------------------- one pair against one claimed point


def screen(profile: PrivacyProfile, side: Side, epsilon: float, room: float = 0.0) -> tuple[float, float]:
    """(log δ, slack) in floats: log δ(ε) lies below the sum, and the verdict never rests on it.

    `room` is how far in ε the pair may be off. If floats cannot tell, the slack is infinite, and the judge asks for a
    certificate.
    """
    try:
        return _screen(profile, side, epsilon, room)
    except PrecisionError:
        return -math.inf, math.inf


def _screen(profile: PrivacyProfile, side: Side, epsilon: float, room: float) -> tuple[float, float]:
    value = float(profile.log_delta(epsilon, order=side))
    slack = 0.0 if math.isinf(value) else SCREEN_MARGIN * (1.0 + math.fabs(value))
    pairs = [(group.pair(side), group.count) for group in profile.groups]
    uncertainty = max(pair.uncertainty for pair, _ in pairs)
    if uncertainty > 0.0 or room > 0.0:  # whitening in floats moved the loss by about this much of its own size
        mean = math.fsum(n * pair.form.mean for pair, n in pairs)
        moved = room + 4.0 * uncertainty * (mean + math.fabs(epsilon))
        if not math.isfinite(moved):
            return value, math.inf
        higher = float(profile.log_delta(epsilon - moved, order=side))
        if higher > value:
            slack = math.inf if math.isinf(value) else slack + 4.0 * uncertainty + (higher - value)
    return value, slack


def enclose(profile: PrivacyProfile, side: Side, epsilon: float) -> Enclosure:
    """δ(ε) enclosed as finely as possible; [0, 1] if nothing better is certain."""
    for width in _COMPOSED_WIDTHS if profile.composed else _WIDTHS:
        try:
            return profile.certify(epsilon, relative_width=width, order=side)
        except PrecisionError:
            continue
    return Enclosure(0.0, 1.0)


def exceeds(profile: PrivacyProfile, side: Side, epsilon: float, delta: float) -> bool | None:
    """Whether δ(ε) > delta with certainty; None if no precision tried can tell.

    >>> import ndis
    >>> profile = PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=1.0))
    >>> box = profile.certify(1.0, relative_width=1e-20)
    >>> [exceeds(profile, "remove", 1.0, delta) for delta in box]  # two neighbouring floats, the truth between them
    [True, False]
    """
    if not profile.sampled:
        return certified.exceeds(profile.remove if side == "remove" else profile.add, epsilon, delta)
    for width in _COMPOSED_WIDTHS[::-1] if profile.composed else (*_WIDTHS[::-1], _NARROW):
        try:
            box = profile.certify(epsilon, relative_width=width, order=side)
        except PrecisionError:
            return None
        if box.lower > delta:
            return True
        if box.upper <= delta:
            return False
    return None


def largest_refuted_epsilon(
    profile: PrivacyProfile, side: Side, delta: float, *, known: float | None, allowed: Room = exactly
) -> float | None:
    """The largest ε found that is refuted at delta with certainty; `known` is one that is already certified, if any.

    `profile.epsilon` lies above the edge. From there the search steps back until the certificate says yes. `allowed`
    is the room of the two laws.
    """
    sampled = profile.sampled
    singular = any(group.pair(side).mutually_singular for group in profile.groups)
    if singular and (side == "remove" or not sampled):
        if allowed(confidence(0.0, delta)) == math.inf:
            return known
        return math.inf if not sampled or exceeds(profile, side, 0.0, delta) else known  # δ is 1, or the rate, at all ε
    if delta == 0.0:
        return known  # δ falls to 0 at no float known in general
    try:
        start = float(profile.epsilon(delta, order=side))
    except PrecisionError:
        return known
    if not math.isfinite(start):
        return known
    step = _FIRST_STEP if not profile.composed else 2.0**10 * _FIRST_STEP
    while step <= _LAST_STEP:
        x = start * (1.0 - step)
        if known is not None and x <= known:
            return known
        test = harder(allowed, x, delta)
        if test is not None and exceeds(profile, side, *test):
            return x
        if x == 0.0:
            return known
        step *= 2.0
    return known


# ---------------------------------------------------------------------- the verdict


@dataclass(frozen=True, eq=False)
class Judgement:
    """The fields of a report that depend on numbers."""

    refuted: bool
    undecided: bool
    witness: Witness | None
    epsilon_refuted: float | None
    delta_possible: float
    notes: tuple[str, ...]


def judge(ranked: list[Candidate], *, progress: Advance = silent) -> Judgement:
    """The verdict on all candidates; the worst comes first."""
    undecided: Candidate | None = None
    close: Candidate | None = None  # above the claim, by no more than the accuracy of its numbers
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
    refuted = worst is not None
    open_ = not refuted and (close is not None or undecided is not None)
    event, odds = best_event(profile, shown.side, shown.epsilon)
    box = Enclosure(lower, max(lower, box.upper))
    point = (shown.epsilon, shown.delta)
    witness = Witness(shown.neighbours, shown.order, *point, box, event, profile, shown.side, odds)
    largest = _epsilon_refuted(ranked, shown, refuted=refuted)
    notes = _notes(witness, refuted=refuted, open_=open_, within=close is not None)
    return Judgement(refuted, open_, witness, largest, box.lower, notes)


def _answer(candidate: Candidate, profile: PrivacyProfile) -> Answer:
    """Whether δ is above the claim by more than an error of the laws explains, within that, not, or unknown."""
    side, point, test = candidate.side, (candidate.epsilon, candidate.delta), candidate.harder
    answer = exceeds(profile, side, *point)
    if answer is None:
        return "open"
    if not answer:
        return "below"
    certain = test == point or (test is not None and exceeds(profile, side, *test))
    return "above" if certain else "within"


def _certain(candidate: Candidate, profile: PrivacyProfile, box: Enclosure) -> bool:
    """Whether an enclosure above the claim stays above it if the laws are as far off as they may be."""
    if candidate.harder is None:
        return False
    epsilon, delta = candidate.harder
    return (box if epsilon == candidate.epsilon else enclose(profile, candidate.side, epsilon)).lower > delta


def _least(candidate: Candidate, profile: PrivacyProfile) -> float:
    """A lower end of δ for all laws within the accuracy of the numbers: e^−r δ(ε + r), where r is the room."""
    if candidate.harder is None:
        return 0.0
    epsilon = candidate.harder[0]
    return enclose(profile, candidate.side, epsilon).lower * math.exp(candidate.epsilon - epsilon) * (1.0 - 2.0**-40)


def _mark(profile: PrivacyProfile) -> tuple[object, ...]:
    """Equal for equal pairs."""
    parts: list[object] = [(group.rates, group.count) for group in profile.groups]
    for pair in (pair for group in profile.groups for pair in (group.remove, group.add)):
        for o in pair.origins:
            numbers = tuple(tuple(a.ravel()) if a.dtype == object else a.tobytes() for a in o.arrays)
            parts.append((o.kind, o.reverse, o.copies, numbers))
        if not pair.origins:
            parts.append(id(pair))
    return tuple(parts)


def _epsilon_refuted(ranked: list[Candidate], shown: Candidate, *, refuted: bool) -> float | None:
    """The largest over the worst few pairs: the worst pair at one ε need not be the worst at another."""
    best = shown.epsilon if refuted else None
    others = [c for c in ranked if c.delta == shown.delta and c.epsilon == shown.epsilon and c is not shown]
    for candidate in [shown, *others[: _LOOKED_AT - 1]]:
        if best == math.inf:
            break
        profile, side = candidate.make(), candidate.side
        if candidate is not shown and best is not None and _excess(screen(profile, side, best)[0], shown.delta) <= 0.0:
            continue
        best = largest_refuted_epsilon(profile, side, shown.delta, known=best, allowed=candidate.allowed)
    return best


def _notes(witness: Witness, *, refuted: bool, open_: bool, within: bool) -> tuple[str, ...]:
    notes = []
    if refuted and witness.enclosure.lower <= witness.delta:
        notes.append(
            "δ is above the claim with certainty, but by less than the spacing of floating-point numbers; "
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
