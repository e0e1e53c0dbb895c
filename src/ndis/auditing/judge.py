"""The judge turns candidates into a verdict (rule:audit): floats put them in order, and certificates decide.

`shortlist` keeps the candidates that matter, and `judge` certifies them, the worst first, until one is refuted. A
candidate is passed over only if its float log δ lies below the claim by more than ten times the accuracy of the floats.
(The printed audit, lem:ndis-upper-oracle, returns an over-estimate of δ. An over-estimate refutes nothing; a refutation
reads the lower end.)
"""

from __future__ import annotations

import heapq
import math
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ndis._validate import ORDERS
from ndis.auditing.claim import Claim
from ndis.auditing.witness import Side, Witness, best_event
from ndis.enclosure import Enclosure
from ndis.errors import PrecisionError
from ndis.profile import Group, PrivacyProfile, StepGroup
from ndis.spectrum import certified
from ndis.spectrum.origins import enclose as enclose_origins

Item = TypeVar("Item")
Make = Callable[[], PrivacyProfile]
Scores = list[tuple[float, float]]  # (log δ, slack) of each order at each claimed point, orders outermost
# The float screen is accurate to 1e-11·(1 + |log δ|) or says so. A candidate within ten times that is certified.
SCREEN_MARGIN = 1e-10
_SAME_RANK = 9  # decimals of log δ; a smaller difference does not put one candidate before another
_KEPT = 64  # candidates clearly below the claim that are kept, only for the report
_WIDTHS = (1e-12, 1e-8, 1e-3)  # relative widths of a certificate, tried in this order; the first that succeeds counts
_COMPOSED_WIDTHS = (1e-9, 1e-6, 1e-3)  # the same for compositions of sampled releases
_NARROW = 1e-14  # the last relative width at which a sampled release is compared with a claim
_FIRST_STEP, _LAST_STEP = 2.0**-33, 0.5  # relative steps of ε; nearer to the edge certificates take seconds
_UNBOUNDED_BITS = 320  # enough to see that a variance ratio is above 1
_MOST_PAIRS = 4  # the number of worst pairs that are asked for the largest ε refuted


# ---------------------------------------------------------------------- candidates


@dataclass(frozen=True, eq=False)
class Candidate:
    """A candidate has a float value, `log_delta`, and a `slack`: the true log δ lies below their sum.

    `make` returns the profile with its exact inputs. `bar` maps the claimed δ to the δ that the pair must exceed for a
    conviction. `confirm` raises an error if the laws are not the same when they are computed again.
    """

    neighbours: str
    order: str
    make: Make
    side: Side
    epsilon: float
    delta: float
    log_delta: float
    slack: float
    bar: Callable[[float], float] = float
    confirm: Callable[[], None] | None = None

    @property
    def rank(self) -> tuple[float, float]:
        """The judge certifies the largest rank first."""
        return log_excess(self.log_delta, self.delta), self.log_delta

    @property
    def above(self) -> bool:
        """Say if the truth may lie above the claim."""
        return not self.rank[0] + self.slack <= 0.0


Tested = tuple[int, Iterable[Candidate]]  # the number of pairs that were tried, and their candidates that may matter


@dataclass(eq=False)
class Seen:
    """A producer notes what it sees while it works: sentences for the reader, and if the noise depends on the data."""

    notes: list[str] = field(default_factory=list)
    noise_depends: bool = False


@dataclass(frozen=True, eq=False)
class Candidates:
    """A producer returns the pairs that it tests, and sentences about them for the report.

    Attributes
    ----------
    tested : iterable of Tested
        The producer works while the judge reads it.
    how, missing : tuple of str
        How the pairs were chosen, and which ones they leave out.
    seen : Seen
        What else the reader must know, once the judge has read all pairs.
    given_only : bool
        True if only pairs or rows were tried that the user gave.
    """

    tested: Iterable[Tested]
    how: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    seen: Seen = field(default_factory=Seen)
    given_only: bool = False


def log_excess(log_delta: float, delta: float) -> float:
    """Return log δ − log(claimed δ); any δ above 0 is infinitely far above a claim of 0."""
    if log_delta == -math.inf:
        return -math.inf
    return log_delta - math.log(delta) if delta > 0.0 else math.inf


def screened(profile: PrivacyProfile, claim: Claim, blur: float = 0.0) -> Scores:
    """Return the scores of both orders of a pair at each claimed point."""
    scores = []
    for side in ORDERS:
        for epsilon, delta in claim.points:
            value, slack = screen(profile, side, epsilon, blur)
            # less than any float breaks a claim of δ = 0
            scores.append((value, math.inf if blur > 0.0 and delta == 0.0 and value == -math.inf else slack))
    return scores


def both_orders(
    neighbours: str, words: tuple[str, str], make: Make, claim: Claim, scores: Scores, **more: Any
) -> Iterator[Candidate]:
    """Yield a candidate for each order of a pair at each claimed point, from their scores."""
    places = [(side, order, point) for side, order in zip(ORDERS, words, strict=True) for point in claim.points]
    for (side, order, point), score in zip(places, scores, strict=True):
        yield Candidate(neighbours, order, make, side, *point, *score, **more)


def of_profile(neighbours: str, words: tuple[str, str], profile: PrivacyProfile, claim: Claim) -> Iterator[Candidate]:
    """Yield the candidates of a profile.

    A probability of failure is an allowance that no pair of outputs shows. It is left out.
    """
    profile = replace(profile, failure_probability=0.0)
    return both_orders(neighbours, words, lambda: profile, claim, screened(profile, claim))


def screen(profile: PrivacyProfile, side: Side, epsilon: float, blur: float = 0.0) -> tuple[float, float]:
    """Return (log δ, slack) in floats: log δ(ε) lies below the sum, and the verdict never rests on it.

    `blur` bounds how far the loss of the pair may be off. If floats cannot tell, the slack is infinite, and the judge
    asks for a certificate.
    """
    blurs = [(*group.blur(side), group.count) for group in profile.groups]
    uncertainty = max(one for one, _, _ in blurs)
    # whitening in floats moved the loss by about this much of its own size
    moved = blur + 4.0 * uncertainty * (math.fsum(n * size for _, size, n in blurs) + math.fabs(epsilon))
    try:
        value = float(profile.log_delta(epsilon, order=side))
        if not math.isfinite(moved):
            return value, math.inf
        higher = value if moved == 0.0 else float(profile.log_delta(epsilon - moved, order=side))
    except PrecisionError:
        return -math.inf, math.inf
    if math.isinf(value):
        return value, math.inf if higher > value else 0.0
    return value, SCREEN_MARGIN * (1.0 + math.fabs(value)) + 4.0 * uncertainty + max(higher - value, 0.0)


def counted(items: Iterable[Item], progress: bool | None, noun: str) -> Iterator[Item]:
    """Yield the items, and count them for the user. None shows a counter only on a terminal.

    >>> list(counted([1, 2], False, "neighbours"))
    [1, 2]
    """
    if not (sys.stderr.isatty() if progress is None else progress):
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed} " + noun), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as display:
        yield from display.track(items, total=None)


# ---------------------------------------------------------------------- those that matter


def shortlist(tested: Iterable[Tested]) -> tuple[int, list[Candidate]]:
    """Count the pairs that were tried, and return the candidates that matter, the worst first.

    These are all candidates that may lie above the claim, and the closest `_KEPT` of the others.
    """
    tried, above, below = 0, list[Candidate](), list[Candidate]()
    for count, candidates in tested:
        tried += count
        fresh = list(candidates)
        above += [one for one in fresh if one.above]
        below = heapq.nlargest(_KEPT, [*below, *(one for one in fresh if not one.above)], key=lambda one: one.rank)
    # among pairs that floats do not tell apart the first one stays first: a pair of the data before one of other data
    return tried, sorted([*above, *below], key=lambda c: tuple(round(x, _SAME_RANK) for x in c.rank), reverse=True)


# ---------------------------------------------------------------------- one pair against one claimed point


def enclose(profile: PrivacyProfile, side: Side, epsilon: float) -> Enclosure:
    """Enclose δ(ε) as finely as possible; the answer is [0, 1] if nothing better is certain."""
    widths = _COMPOSED_WIDTHS if profile.composed else _WIDTHS
    return next(_boxes(profile, side, epsilon, widths), Enclosure(0.0, 1.0))


def _boxes(profile: PrivacyProfile, side: Side, epsilon: float, widths: tuple[float, ...]) -> Iterator[Enclosure]:
    """Yield the enclosures of δ(ε) that the widths lead to."""
    for width in widths:
        with suppress(PrecisionError):
            yield profile.certify(epsilon, relative_width=width, order=side)


def exceeds(profile: PrivacyProfile, side: Side, epsilon: float, delta: float) -> bool | None:
    """Say if δ(ε) > delta with certainty; None if no precision tried can tell.

    >>> import ndis
    >>> profile = PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=1.0))
    >>> box = profile.certify(1.0, relative_width=1e-20)
    >>> [exceeds(profile, "remove", 1.0, delta) for delta in box]  # two neighbouring floats, the truth between them
    [True, False]
    """
    if not profile.sampled:
        return certified.exceeds(profile.groups[0].pair(side), epsilon, delta)
    if delta == 0.0 and _unbounded(profile, side):
        return True
    widths = _COMPOSED_WIDTHS[::-1] if profile.composed else (*_WIDTHS[::-1], _NARROW)
    boxes = _boxes(profile, side, epsilon, widths)
    return next((box.lower > delta for box in boxes if box.lower > delta or box.upper <= delta), None)


def largest_refuted_epsilon(profile: PrivacyProfile, side: Side, delta: float, *, known: float | None) -> float | None:
    """Search for the largest ε that is refuted at delta with certainty; `known` is one that is certified, if any.

    `profile.epsilon` lies above the edge. From there the search steps back until the certificate says yes.
    """
    sampled = profile.sampled
    singular = any(group.singular for group in profile.groups)
    if singular and (side == "remove" or not sampled):  # δ is 1, or the rate, at all ε
        return math.inf if exceeds(profile, side, 0.0, delta) else known
    if delta == 0.0:
        return math.inf if _unbounded(profile, side) else known  # δ falls to 0 at no float known in general
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
        if exceeds(profile, side, x, delta):
            return x
        if x == 0.0:
            return known
        step *= 2.0
    return known


def _unbounded(profile: PrivacyProfile, side: Side) -> bool:
    """Say if the loss is unbounded with certainty, so that δ is above 0 at every ε.

    It is if p is wider than q in a direction, or if only the means differ there. A sampled record bounds the loss of
    the order "add".
    """
    if side == "add" and profile.sampled:
        return False
    steps = [group for group in profile.groups if isinstance(group, StepGroup)]
    if any(group.step.attained and group.law(side).ends[1] == math.inf for group in steps):
        return True
    pairs = (group.pair(side) for group in profile.groups if isinstance(group, Group))
    exact = (enclose_origins(pair.origins, _UNBOUNDED_BITS) for pair in pairs)
    return any(one is not None and (one.flat > 0 or any(t > 0 for t, _, _ in one.curved)) for one in exact)


# ---------------------------------------------------------------------- the verdict


@dataclass(frozen=True, eq=False)
class Judgement:
    """The judgement holds the fields of a report that depend on numbers."""

    refuted: bool
    undecided: bool
    witness: Witness
    epsilon_refuted: float | None
    notes: tuple[str, ...]


def judge(ranked: list[Candidate], *, progress: bool | None = None) -> Judgement:
    """Decide on all candidates, of which there is at least one; the worst comes first."""
    worst, undecided = _certified([candidate for candidate in ranked if candidate.above], progress)
    shown = worst or undecided or ranked[0]
    profile = shown.make()
    box = enclose(profile, shown.side, shown.epsilon)
    if worst is None and undecided is None and box.lower > shown.delta:  # floats had put it below the claim
        worst, undecided = (shown, None) if box.lower > shown.bar(shown.delta) else (None, shown)
    if worst is not None and worst.confirm is not None:
        worst.confirm()
    refuted, rounding = worst is not None, worst is None and box.lower > shown.delta
    # a refuted δ is above the claim, though perhaps by less than floats can show; any other is not
    lower = max(box.lower, shown.delta) if refuted else min(box.lower, shown.delta)
    event, odds = best_event(profile, shown.side, shown.epsilon)
    box = Enclosure(lower, max(lower, box.upper))
    witness = Witness(shown.neighbours, shown.order, shown.epsilon, shown.delta, box, event, profile, shown.side, odds)
    notes = []
    if refuted and lower == shown.delta:
        notes.append(
            "δ is above the claim with certainty, but by less than the spacing of floating-point numbers; "
            "the lower end printed is the float below it"
        )
    if rounding:
        notes.append(
            "δ of the closest pair lies above the claim by so little that rounding of the numbers that the algorithm "
            "returned may explain it; the same pair given as such (pairs=), which is exact, decides it"
        )
    elif undecided is not None:
        notes.append("no precision tried could tell δ of the closest pair from the claim")
    return Judgement(refuted, undecided is not None, witness, _epsilon_refuted(ranked, shown, refuted), tuple(notes))


def _certified(above: list[Candidate], progress: bool | None) -> tuple[Candidate | None, Candidate | None]:
    """Return the first candidate that certificates convict; if there is none, the first one that they leave open."""
    undecided: Candidate | None = None
    answers: dict[tuple[bytes, Side, float, float], bool | None] = {}  # equal pairs are certified once
    for candidate in counted(above, progress, "certificates"):
        profile = candidate.make()
        inputs = [(g.exact_inputs(), g.count) for g in profile.groups]
        key = (pickle.dumps(inputs), candidate.side, candidate.epsilon, candidate.delta)
        if key not in answers:
            answers[key] = _answer(candidate, profile)
        if answers[key]:
            return candidate, None
        if answers[key] is None and undecided is None:
            undecided = candidate
    return None, undecided


def _answer(candidate: Candidate, profile: PrivacyProfile) -> bool | None:
    """Say if the candidate convicts; None if precision, or rounding of an algorithm's own numbers, leaves it open."""
    side, epsilon, bar = candidate.side, candidate.epsilon, candidate.bar(candidate.delta)
    answer = exceeds(profile, side, epsilon, candidate.delta)
    return answer if not answer or bar == candidate.delta else exceeds(profile, side, epsilon, bar) or None


def _epsilon_refuted(ranked: list[Candidate], shown: Candidate, refuted: bool) -> float | None:
    """Return the largest over the worst few pairs: the worst pair at one ε need not be the worst at another."""
    best = shown.epsilon if refuted else None
    others = [c for c in ranked if c.delta == shown.delta and c.epsilon == shown.epsilon and c is not shown]
    for candidate in [shown, *others[: _MOST_PAIRS - 1]]:
        bar = candidate.bar(candidate.delta)
        if best == math.inf or bar >= 1.0:
            continue
        profile, side = candidate.make(), candidate.side
        if candidate is shown or best is None or log_excess(screen(profile, side, best)[0], bar) > 0.0:
            best = largest_refuted_epsilon(profile, side, bar, known=best)
    return best
