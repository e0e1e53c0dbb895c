"""Run an algorithm on one neighbour after another: in parallel, with progress, and so that it can be resumed."""

from __future__ import annotations

import copy
import functools
import hashlib
import math
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndis._digits import few
from ndis._validate import as_size
from ndis.auditing.claim import Claim, ClaimedCurve, claim_to_dict
from ndis.auditing.edits import DataSets, Edit, digest, parts_of, row_count
from ndis.auditing.journal import Journal, Scores
from ndis.auditing.judge import EXCHANGED, SIDES, WITH_RECORD, Advance, Candidate, Tested, screen, silent
from ndis.auditing.laws import (
    Algorithm,
    Law,
    certified_pair,
    confidence,
    law_of,
    rooms,
    screening_pair,
)
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__all__ = ["THREADS_NOTE", "Source", "counter", "neighbours_to_test"]

Laws = Callable[..., Law]
THREADS_NOTE = "the algorithm cannot be sent to other processes, so it ran in threads"


@dataclass(frozen=True, eq=False)
class Source:
    """Pairs to test, and sentences about them for the report.

    Attributes
    ----------
    tested : iterable of Tested
        The work happens while the judge reads it.
    how, missing, notes : tuple of str
        How the pairs were chosen, what they leave out, and what else the reader must know.
    given_only : bool
        Whether only pairs or rows were tried that the user gave.
    """

    tested: Iterable[Tested]
    how: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    given_only: bool = False


def neighbours_to_test(
    algorithm: Algorithm,
    data: Any,
    rules: Sequence[Any],
    claim: Claim | ClaimedCurve,
    *,
    workers: int = 1,
    progress: bool | None = None,
    journal: str | os.PathLike[str] | None = None,
    seed: int = 0,
    law_accuracy: float = 0.0,
) -> tuple[Iterator[Tested], tuple[str, ...]]:
    """Check the algorithm on the data; return its neighbours, to be run while they are read, and notes."""
    given_sets = [rule for rule in rules if isinstance(rule, DataSets)]
    for rule in given_sets:
        rule.check(data)
    if not given_sets:
        row_count(data)
    law = functools.partial(_law, algorithm, data)
    base = law()
    _same(base, law(), law_accuracy)
    identity = {
        "claim": claim_to_dict(claim),
        "data": digest(*parts_of(data)),
        "rules": [f"{type(rule).__name__}: {rule.describe()}" for rule in rules],
        "seed": seed,
        "law": hashlib.sha256(base.mark).hexdigest(),
    }
    pool, notes = _pool(functools.partial(_score, law, base, claim.points), workers)

    def run() -> Iterator[Tested]:
        seen: set[str] = set()
        with Journal(journal, identity, 2 * len(claim.points)) as book, counter(progress, "neighbours") as advance:
            for number, rule in enumerate(rules):
                proposals = rule.proposals(data, np.random.default_rng([seed, number]))
                batch: list[Edit] | None = next(proposals, None)
                while batch is not None:
                    todo = {e.name: e for e in batch if e.name not in book.done or e.name in book.probes}
                    for edit, scores in zip(todo.values(), pool(list(todo.values())), strict=True):
                        book.add(edit.name, scores)
                        advance()
                    for edit in batch:
                        if edit.name not in seen:
                            seen.add(edit.name)
                            candidates = _candidates(law, base, edit, claim, book.done[edit.name], law_accuracy)
                            yield Tested(1, tuple(candidates))
                    try:
                        batch = proposals.send([max(value for value, _ in book.done[edit.name]) for edit in batch])
                    except StopIteration:
                        batch = None

    return run(), (*_accuracy_note(base, law_accuracy), *notes)


def _law(algorithm: Algorithm, data: Any, edit: Edit | None = None) -> Law:
    """The law on the data, or on a neighbour. The algorithm gets its own copy, which it may write to."""
    if edit is None:
        return law_of(algorithm, copy.deepcopy(data))
    return law_of(algorithm, edit.apply(data) if edit.whole is None else copy.deepcopy(edit.whole))


def _same(first: Law, second: Law, accuracy: float) -> None:
    if not first.agrees(second, accuracy):
        raise ParameterError(
            "algorithm", "return the same law for the same data", "two that differ", "fix the seeds of what it draws"
        )


def _accuracy_note(base: Law, accuracy: float) -> tuple[str, ...]:
    if base.exact is not None:
        return ()
    if accuracy == 0.0:
        return ("the numbers returned by the algorithm are taken as exact",)
    return (
        f"the numbers returned by the algorithm may have a relative error of {few(accuracy, 3)}; "
        "the audit allows for that error",
    )


def _score(law: Laws, base: Law, points: tuple[tuple[float, float], ...], edit: Edit) -> Scores:
    """(log δ, slack) of both orders at every claimed point, sides outermost."""
    pair, room = screening_pair(law(edit), base)
    profile = _profile(edit, pair)
    scores = []
    for side in SIDES:
        for epsilon, delta in points:
            moved = room(confidence(epsilon, delta))
            value, slack = screen(profile, side, epsilon, moved)
            # less than any float breaks a claim of δ = 0
            scores.append((value, math.inf if moved > 0.0 and delta == 0.0 and value == -math.inf else slack))
    return scores


def _profile(edit: Edit, other_from_base: GaussianPair) -> PrivacyProfile:
    """`remove` is the output with the record: the output on the data, unless the edit adds a record."""
    added = edit.remove is None and edit.add is not None
    return PrivacyProfile(other_from_base if added else other_from_base.reversed())


def _candidates(
    law: Laws, base: Law, edit: Edit, claim: Claim | ClaimedCurve, scores: Scores, accuracy: float
) -> Iterator[Candidate]:
    @functools.cache
    def other() -> Law:
        return law(edit)

    @functools.cache
    def make() -> PrivacyProfile:
        return _profile(edit, certified_pair(other(), base))

    def allowed(x: float) -> float:
        return rooms(other(), base, accuracy)(x)

    def confirm() -> None:
        _same(base, law(), accuracy)
        _same(other(), law(edit), accuracy)

    one_more = edit.whole is None and (edit.remove is None or edit.add is None)
    places = [(side, point) for side in SIDES for point in claim.points]
    for (side, (epsilon, delta)), (value, slack) in zip(places, scores, strict=True):
        order = (WITH_RECORD if one_more else EXCHANGED)[SIDES.index(side)]
        yield Candidate(edit.label, order, make, side, epsilon, delta, value, slack, allowed, confirm)


def _pool(
    score: Callable[[Edit], Scores], workers: int
) -> tuple[Callable[[list[Edit]], Iterable[Scores]], tuple[str, ...]]:
    """A map over edits that yields results in order, and notes about it."""
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


@contextmanager
def counter(progress: bool | None, noun: str) -> Iterator[Advance]:
    """Yield a function to call once for each finished piece of work. None shows a counter only on a terminal.

    >>> with counter(False, "neighbours") as advance:
    ...     advance()
    """
    if not (sys.stderr.isatty() if progress is None else progress):
        yield silent
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed} " + noun), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("audit", total=None)
        yield lambda: bar.advance(task)
