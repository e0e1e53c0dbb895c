"""Pairs in a row, ready to be judged: what each is, and how far above the claim floats put it."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ndis.auditing.accuracy import Room, exactly
from ndis.auditing.claim import Claim, ClaimedCurve
from ndis.auditing.decide import screen
from ndis.auditing.result import Side
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__all__ = ["KEPT", "WITH_RECORD", "Candidate", "Found", "as_profile", "candidates_of", "explicit"]

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

KEPT = 64  # of the candidates that floats put clearly below the claim, for the report alone


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
    confirm: Callable[[], None] | None = None  # raises where the laws do not come out again

    @property
    def excess(self) -> float:
        """log δ − log(claimed δ) in floats."""
        return excess(self.log_delta, self.delta)

    @property
    def rank(self) -> tuple[float, float]:
        """What comes first is certified first."""
        return self.excess, self.log_delta

    @property
    def above(self) -> bool:
        """Whether the truth may lie above the claim."""
        return not self.excess + self.slack <= 0.0


def excess(log_delta: float, delta: float) -> float:
    """log δ − log(claimed δ); any δ above 0 is infinitely far above a claim of 0."""
    if log_delta == -math.inf:
        return -math.inf
    return log_delta - math.log(delta) if delta > 0.0 else math.inf


class Found:
    """The candidates that matter: all that may lie above the claim, and the closest of the others."""

    def __init__(self) -> None:
        self.tried = 0
        self._above: list[Candidate] = []
        self._below: list[tuple[tuple[float, float], int, Candidate]] = []
        self._order = 0

    def add(self, candidate: Candidate) -> None:
        """Keep it if it matters; among equals the first one stays."""
        if candidate.above:
            self._above.append(candidate)
            return
        self._order -= 1
        entry = (candidate.rank, self._order, candidate)
        if len(self._below) < KEPT:
            heapq.heappush(self._below, entry)
        else:
            heapq.heappushpop(self._below, entry)

    def ranked(self) -> list[Candidate]:
        """The worst first."""
        below = [c for _, _, c in sorted(self._below, key=lambda e: e[:2], reverse=True)]
        return sorted([*self._above, *below], key=lambda c: c.rank, reverse=True)


def as_profile(value: Any) -> PrivacyProfile:
    """A profile as it is, a pair as the profile of both its orders."""
    if isinstance(value, PrivacyProfile):
        return value
    if isinstance(value, GaussianPair):
        return PrivacyProfile(value)
    raise ParameterError("pairs", "hold GaussianPair or PrivacyProfile values", type(value).__name__)


def candidates_of(
    neighbours: str, words: tuple[str, str], profile: PrivacyProfile, claim: Claim | ClaimedCurve
) -> Iterator[Candidate]:
    """Both orders of a pair at every claimed point.

    A probability of failure is an allowance, not something a pair of outputs shows: it is left out.
    """
    profile = replace(profile, failure_probability=0.0)
    for side, order in zip(SIDES, words, strict=True):
        for epsilon, delta in claim.points:
            value, slack = screen(profile, side, epsilon)
            yield Candidate(neighbours, order, lambda: profile, side, epsilon, delta, value, slack)


def explicit(pairs: Iterable[Any], claim: Claim | ClaimedCurve, found: Found) -> None:
    """Pairs given one by one."""
    for number, value in enumerate(pairs):
        profile = as_profile(value)
        if profile.sampled and claim.adjacency != "add-remove":
            rule = "be 'add-remove' for profiles of Poisson samples, which are derived for it alone"
            raise ParameterError("adjacency of the claim", rule, repr(claim.adjacency))
        known = isinstance(value, PrivacyProfile) and claim.adjacency == "add-remove"
        words = WITH_RECORD if known else AS_GIVEN
        for candidate in candidates_of(f"pair {number} of those given", words, profile, claim):
            found.add(candidate)
        found.tried += 1
