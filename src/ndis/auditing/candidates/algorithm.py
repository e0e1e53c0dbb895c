"""Run an algorithm on one neighbour of the data after another, in parallel and with progress."""

from __future__ import annotations

import copy
import functools
import math
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ndis._validate import as_size
from ndis.auditing.candidates.edits import Edit, GivenSets, row_count
from ndis.auditing.candidates.laws import Algorithm, OutputLaw, bar, certified_pair, law_of, like, same, screening_pair
from ndis.auditing.candidates.rules import AddRows, RemoveEach, ReplaceEach, Search
from ndis.auditing.claim import Claim
from ndis.auditing.judge import Candidate, Candidates, Tested, counter, screen
from ndis.auditing.witness import EXCHANGED, SIDES, WITH_RECORD
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__all__ = ["THREADS_NOTE", "from_algorithm"]

Scores = list[tuple[float, float]]  # (log δ, slack) of each order at each claimed point
_ALL_OTHERS = "neighbours of other data sets, and neighbours of this one that the rules above do not make"
THREADS_NOTE = "the algorithm cannot be sent to other processes, so it ran in threads"
_EXACT_NOTE = "the numbers returned by the algorithm are taken as exact, up to the rounding of its own arithmetic"


def from_algorithm(
    algorithm: Algorithm, data: Any, search: Search, claim: Claim, *, workers: int = 1, progress: bool | None = None
) -> Candidates:
    """Check the algorithm on the data; return its neighbours, which run while the judge reads them."""
    rules = search.rules(claim)
    given_sets = [rule for rule in rules if isinstance(rule, GivenSets)]
    for rule in given_sets:
        rule.check(data)
    if not given_sets:
        row_count(data)
    law = functools.partial(_law, algorithm, data)
    base = law()
    _check_same(base, law())
    pool, notes = _pool(functools.partial(_score, law, base, claim.points), workers)

    def run() -> Iterator[Tested]:
        scores: dict[str, Scores] = {}
        with counter(progress, "neighbours") as advance:
            for number, rule in enumerate(rules):
                proposals = rule.proposals(data, np.random.default_rng([search.random_state, number]))
                batch: list[Edit] | None = next(proposals, None)
                while batch is not None:
                    fresh = list({edit.name: edit for edit in batch if edit.name not in scores}.values())
                    for edit, values in zip(fresh, pool(fresh), strict=True):
                        scores[edit.name] = values
                        advance()
                        yield 1, _candidates(law, base, edit, claim, values)
                    try:
                        batch = proposals.send([max(value for value, _ in scores[edit.name]) for edit in batch])
                    except StopIteration:
                        batch = None

    how = tuple(rule.describe() for rule in rules)
    notes = notes if base.exact is not None else (_EXACT_NOTE, *notes)
    given_only = all(isinstance(rule, RemoveEach | AddRows | ReplaceEach | GivenSets) for rule in rules)
    return Candidates(run(), how, (_ALL_OTHERS,), notes, given_only)


def _law(algorithm: Algorithm, data: Any, edit: Edit | None = None) -> OutputLaw:
    """Return the law on the data, or on a neighbour. The algorithm gets its own copy, which it may write to."""
    if edit is None:
        return law_of(algorithm, copy.deepcopy(data))
    return law_of(algorithm, edit.apply(data) if edit.whole is None else copy.deepcopy(edit.whole))


def _check_same(first: OutputLaw, second: OutputLaw) -> None:
    if not same(first, second):
        raise ParameterError(
            "algorithm", "return the same law for the same data", "two that differ", "fix the seeds of what it draws"
        )


def _score(
    law: Callable[..., OutputLaw], base: OutputLaw, points: tuple[tuple[float, float], ...], edit: Edit
) -> Scores:
    """Compute (log δ, slack) of both orders at every claimed point, sides outermost."""
    pair, blur = screening_pair(like(law(edit), base), base)
    profile = _profile(edit, pair)
    scores = []
    for side in SIDES:
        for epsilon, delta in points:
            value, slack = screen(profile, side, epsilon, blur)
            # less than any float breaks a claim of δ = 0
            scores.append((value, math.inf if blur > 0.0 and delta == 0.0 and value == -math.inf else slack))
    return scores


def _profile(edit: Edit, other_from_base: GaussianPair) -> PrivacyProfile:
    """Make `remove` the output with the record: the output on the data, unless the edit adds a record."""
    added = edit.remove is None and edit.add is not None
    return PrivacyProfile(other_from_base if added else other_from_base.reversed())


def _candidates(
    law: Callable[..., OutputLaw], base: OutputLaw, edit: Edit, claim: Claim, scores: Scores
) -> Iterator[Candidate]:
    @functools.cache
    def other() -> OutputLaw:
        return like(law(edit), base)

    @functools.cache
    def make() -> PrivacyProfile:
        return _profile(edit, certified_pair(other(), base))

    def confirm() -> None:
        _check_same(base, law())
        _check_same(other(), like(law(edit), base))

    one_more = edit.whole is None and (edit.remove is None or edit.add is None)
    orders = zip(SIDES, WITH_RECORD if one_more else EXCHANGED, strict=True)
    places = [(side, order, point) for side, order in orders for point in claim.points]
    for (side, order, point), score in zip(places, scores, strict=True):
        yield Candidate(edit.label, order, make, side, *point, *score, lambda delta: bar(other(), base)(delta), confirm)


def _pool(
    score: Callable[[Edit], Scores], workers: int
) -> tuple[Callable[[list[Edit]], Iterable[Scores]], tuple[str, ...]]:
    """Make a map over edits that yields results in order, and notes about it."""
    if as_size("workers", workers) == 1:
        return lambda edits: map(score, edits), ()
    from joblib import Parallel, delayed  # type: ignore[import-untyped]
    from joblib.externals.loky.backend.reduction import dumps  # type: ignore[import-untyped]

    backend = "loky"
    notes: tuple[str, ...] = ()
    try:
        dumps(score)
    except (pickle.PicklingError, TypeError, AttributeError):
        backend, notes = "threading", (THREADS_NOTE,)
    pool = Parallel(n_jobs=workers, backend=backend, return_as="generator")
    return lambda edits: pool(delayed(score)(edit) for edit in edits), notes
