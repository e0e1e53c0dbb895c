"""Running an algorithm on neighbour after neighbour: in parallel, with progress, interruptible, resumable."""

from __future__ import annotations

import functools
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndis.auditing.candidates import EXCHANGED, SIDES, WITH_RECORD, Candidate, Found
from ndis.auditing.claim import Claim, ClaimedCurve, claim_to_dict
from ndis.auditing.decide import screen
from ndis.auditing.edits import Edit, digest, given, parts_of, row_count
from ndis.auditing.journal import Journal, Scores
from ndis.auditing.laws import LOW_RANK_SLACK, Algorithm, Law, certified_pair, law_of, screening_pair
from ndis.auditing.neighbours import Neighbours, Proposals, RemoveEach, in_batches
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__all__ = ["DataSets", "as_rules", "search"]

THREADS_NOTE = "the algorithm cannot be sent to other processes, so it ran in threads"


@dataclass(frozen=True, eq=False)
class DataSets:
    """Neighbouring data sets of the user's own making; that they are neighbours is taken at their word."""

    sets: tuple[Any, ...]
    adjacency: Any = None

    def describe(self) -> str:
        mark = digest(*(part for one in self.sets for part in parts_of(one)))
        return f"{len(self.sets)} data sets given as neighbours of the data, taken at their word (digest {mark})"

    def proposals(self, data: Any, random: np.random.Generator) -> Proposals:
        yield from in_batches(given(i, one) for i, one in enumerate(self.sets))


def as_rules(neighbours: Any, claim: Claim | ClaimedCurve) -> list[Any]:
    """The rules that choose neighbours, checked against the relation of the claim."""
    if neighbours is None:
        if claim.adjacency != "add-remove":
            remedy = "use ReplaceEach or ReplaceAdversarial"
            raise ParameterError("neighbours", "be given for replace-one", None, remedy)
        return [RemoveEach()]
    if isinstance(neighbours, Neighbours):
        neighbours = [neighbours]
    if isinstance(neighbours, np.ndarray) or not isinstance(neighbours, Iterable):
        wanted = "be a rule of ndis.auditing, or an iterable of rules or of data sets"
        raise ParameterError("neighbours", wanted, type(neighbours).__name__)
    items = list(neighbours)
    if not items:
        raise ParameterError("neighbours", "be at least one", "none")
    rules = [item for item in items if isinstance(item, Neighbours)]
    for rule in rules:
        if rule.adjacency != claim.adjacency:
            wanted = f"be that of the claim, {claim.adjacency!r}"
            raise ParameterError("adjacency of neighbours", wanted, repr(rule.adjacency))
    if len(rules) == len(items):
        return rules
    if rules:
        raise ParameterError("neighbours", "be rules or data sets, not both", f"{len(rules)} rules of {len(items)}")
    return [DataSets(tuple(items))]


def search(
    algorithm: Algorithm,
    data: Any,
    rules: Sequence[Any],
    claim: Claim | ClaimedCurve,
    found: Found,
    *,
    workers: int = 1,
    progress: bool | None = None,
    journal: str | os.PathLike[str] | None = None,
    seed: int = 0,
) -> tuple[str, ...]:
    """Add the candidates of every neighbour to `found`; returns notes for the report."""
    if not any(isinstance(rule, DataSets) for rule in rules):
        row_count(data)
    base = law_of(algorithm, data)
    identity = {
        "claim": claim_to_dict(claim),
        "data": digest(*parts_of(data)),
        "algorithm": _name(algorithm),
        "rules": [f"{type(rule).__name__}: {rule.describe()}" for rule in rules],
        "seed": seed,
    }
    score = functools.partial(_score, algorithm, data, base, claim.points)
    pool, notes = _pool(score, workers)
    seen: set[str] = set()
    with Journal(journal, identity, base.summary) as book, _bar(progress) as advance:
        for number, rule in enumerate(rules):
            proposals = rule.proposals(data, np.random.default_rng([seed, number]))
            batch: list[Edit] | None = next(proposals, None)
            while batch is not None:
                todo = {edit.name: edit for edit in batch if edit.name not in book.done}
                for edit, scores in zip(todo.values(), pool(list(todo.values())), strict=True):
                    book.add(edit.name, scores)
                    advance()
                for edit in batch:
                    if edit.name not in seen:
                        seen.add(edit.name)
                        _add(found, algorithm, data, base, edit, claim, book.done[edit.name])
                try:
                    batch = proposals.send([max(value for value, _ in book.done[edit.name]) for edit in batch])
                except StopIteration:
                    batch = None
    return notes


def _score(algorithm: Algorithm, data: Any, base: Law, points: tuple[tuple[float, float], ...], edit: Edit) -> Scores:
    """(log δ, slack) of both orders at every claimed point, sides outermost."""
    pair, rounded = screening_pair(law_of(algorithm, edit.apply(data)), base)
    profile = _profile(edit, pair)
    scores = []
    for side in SIDES:
        for epsilon, _ in points:
            value, slack = screen(profile, side, epsilon)
            scores.append((value, slack + LOW_RANK_SLACK * (1.0 - min(value, 0.0)) if rounded else slack))
    return scores


def _profile(edit: Edit, other_from_base: GaussianPair) -> PrivacyProfile:
    """`remove` is the output with the record: that of the data, unless the edit adds one."""
    added = edit.remove is None and edit.add is not None
    return PrivacyProfile(other_from_base if added else other_from_base.reversed())


def _add(
    found: Found, algorithm: Algorithm, data: Any, base: Law, edit: Edit, claim: Claim | ClaimedCurve, scores: Scores
) -> None:
    if len(scores) != 2 * len(claim.points):
        raise ParameterError("journal", f"hold {2 * len(claim.points)} scores a neighbour", len(scores))

    @functools.cache
    def make() -> PrivacyProfile:
        return _profile(edit, certified_pair(law_of(algorithm, edit.apply(data)), base))

    one_more = edit.whole is None and (edit.remove is None or edit.add is None)
    places = [(side, point) for side in SIDES for point in claim.points]
    for (side, (epsilon, delta)), (value, slack) in zip(places, scores, strict=True):
        order = (WITH_RECORD if one_more else EXCHANGED)[SIDES.index(side)]
        found.add(Candidate(edit.label, order, make, side, epsilon, delta, value, slack))
    found.tried += 1


def _pool(
    score: Callable[[Edit], Scores], workers: int
) -> tuple[Callable[[list[Edit]], Iterable[Scores]], tuple[str, ...]]:
    """A map over edits that yields in order as results come, and what to say about it."""
    if not (isinstance(workers, int) and workers >= 1):
        raise ParameterError("workers", "be a whole number of at least 1", workers)
    if workers == 1:
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


def _name(algorithm: Any) -> str:
    inner = getattr(algorithm, "func", algorithm)
    return f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', type(inner).__name__)}"


@contextmanager
def _bar(progress: bool | None) -> Iterator[Callable[[], None]]:
    """A counter of neighbours on a terminal; nothing elsewhere."""
    if not (sys.stderr.isatty() if progress is None else progress):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed} neighbours"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("audit", total=None)
        yield lambda: bar.advance(task)
