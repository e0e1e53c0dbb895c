"""Running an algorithm on neighbour after neighbour: in parallel, with progress, interruptible, resumable."""

from __future__ import annotations

import functools
import hashlib
import math
import os
import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndis.auditing.accuracy import confidence, rooms
from ndis.auditing.candidates import EXCHANGED, SIDES, WITH_RECORD, Candidate, Found
from ndis.auditing.claim import Claim, ClaimedCurve, claim_to_dict
from ndis.auditing.decide import screen
from ndis.auditing.digits import few, several
from ndis.auditing.edits import Edit, digest, given, parts_of, row_count
from ndis.auditing.identity import fingerprint
from ndis.auditing.journal import Journal, Scores
from ndis.auditing.laws import Algorithm, Law, certified_pair, law_of, private_copy, screening_pair
from ndis.auditing.neighbours import Neighbours, Proposals, RemoveEach, in_batches
from ndis.auditing.progress import counter
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__all__ = ["DataSets", "as_rules", "search"]

Laws = Callable[..., Law]
THREADS_NOTE = "the algorithm cannot be sent to other processes, so it ran in threads"


@dataclass(frozen=True, eq=False)
class DataSets:
    """Neighbouring data sets of the user's own making; that they are neighbours is taken at their word."""

    sets: tuple[Any, ...]
    adjacency: Any = None

    def describe(self) -> str:
        mark = digest(*(part for one in self.sets for part in parts_of(one)))
        sets = several(len(self.sets), "data set")
        return f"{sets} given as neighbours of the data, taken at their word (digest {mark})"

    def check(self, data: Any) -> None:
        """Every data set must be of the kind of the data."""
        for number, one in enumerate(self.sets):
            if _kind(one) != _kind(data):
                rule = f"be like data, {_told(data)}"
                raise ParameterError(f"data set {number} of neighbours", rule, _told(one), "give a list of data sets")

    def proposals(self, data: Any, random: np.random.Generator) -> Proposals:
        yield from in_batches(given(i, one) for i, one in enumerate(self.sets))


def _kind(data: Any) -> tuple[Any, ...]:
    """What data sets that differ by a row have in common."""
    if not isinstance(data, tuple):
        return ("array", data.ndim, data.shape[1:]) if isinstance(data, np.ndarray) else (type(data),)
    return tuple(_kind(part) for part in data)


def _told(data: Any) -> str:
    if isinstance(data, tuple):
        return f"({', '.join(map(_told, data))})"
    if isinstance(data, np.ndarray):
        return f"an array of shape (…{''.join(f', {n}' for n in data.shape[1:])})" if data.ndim else "a number"
    return f"a {type(data).__name__}"


def as_rules(neighbours: Any, claim: Claim | ClaimedCurve) -> list[Any]:
    """The rules that choose neighbours, checked against the relation of the claim."""
    if neighbours is None:
        if claim.adjacency != "add-remove":
            remedy = "use ReplaceEach or ReplaceAdversarial"
            raise ParameterError("neighbours", "be given for replace-one", None, remedy)
        return [RemoveEach()]
    if isinstance(neighbours, Neighbours):
        neighbours = [neighbours]
    if isinstance(neighbours, np.ndarray | str | bytes) or not isinstance(neighbours, Iterable):
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
    law_accuracy: float = 0.0,
) -> tuple[str, ...]:
    """Add the candidates of every neighbour to `found`; returns notes for the report."""
    given_sets = [rule for rule in rules if isinstance(rule, DataSets)]
    for rule in given_sets:
        rule.check(data)
    if not given_sets:
        row_count(data)
    identity = {
        "claim": claim_to_dict(claim),
        "data": digest(*parts_of(data)),
        "algorithm": "" if journal is None else fingerprint(algorithm),
        "rules": [f"{type(rule).__name__}: {rule.describe()}" for rule in rules],
        "seed": seed,
    }
    law = functools.partial(_law, algorithm, data)
    base = law()
    _same(base, law(), law_accuracy)
    identity["law"] = hashlib.sha256(base.mark).hexdigest()
    score = functools.partial(_score, law, base, claim.points)
    pool, notes = _pool(score, workers)
    seen: set[str] = set()
    with Journal(journal, identity, 2 * len(claim.points)) as book, counter(progress, "neighbours") as advance:
        for number, rule in enumerate(rules):
            proposals = rule.proposals(data, np.random.default_rng([seed, number]))
            batch: list[Edit] | None = next(proposals, None)
            while batch is not None:
                todo = {edit.name: edit for edit in batch if edit.name not in book.done or edit.name in book.probes}
                for edit, scores in zip(todo.values(), pool(list(todo.values())), strict=True):
                    book.add(edit.name, scores)
                    advance()
                for edit in batch:
                    if edit.name not in seen:
                        seen.add(edit.name)
                        _add(found, law, base, edit, claim, book.done[edit.name], law_accuracy)
                try:
                    batch = proposals.send([max(value for value, _ in book.done[edit.name]) for edit in batch])
                except StopIteration:
                    batch = None
    return (*_accuracy_note(base, law_accuracy), *notes)


def _law(algorithm: Algorithm, data: Any, edit: Edit | None = None) -> Law:
    """The law on the data, or on a neighbour; the algorithm gets a copy of its own, which it may write to."""
    if edit is None:
        return law_of(algorithm, private_copy(data))
    return law_of(algorithm, edit.apply(data) if edit.whole is None else private_copy(edit.whole))


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
        f"the numbers returned by the algorithm are taken as exact but for a relative error of {few(accuracy, 3)}: "
        "what such an error explains is not held against the claim",
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
            # a claim of δ = 0 is broken by less than any float
            scores.append((value, math.inf if moved > 0.0 and delta == 0.0 and value == -math.inf else slack))
    return scores


def _profile(edit: Edit, other_from_base: GaussianPair) -> PrivacyProfile:
    """`remove` is the output with the record: that of the data, unless the edit adds one."""
    added = edit.remove is None and edit.add is not None
    return PrivacyProfile(other_from_base if added else other_from_base.reversed())


def _add(
    found: Found,
    law: Laws,
    base: Law,
    edit: Edit,
    claim: Claim | ClaimedCurve,
    scores: Scores,
    accuracy: float,
) -> None:
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
        found.add(Candidate(edit.label, order, make, side, epsilon, delta, value, slack, allowed, confirm))
    found.tried += 1


def _pool(
    score: Callable[[Edit], Scores], workers: int
) -> tuple[Callable[[list[Edit]], Iterable[Scores]], tuple[str, ...]]:
    """A map over edits that yields in order as results come, and what to say about it."""
    if not (type(workers) is int and workers >= 1):
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
