"""Run an algorithm on one neighbour of the data after another, and on other data sets, in parallel and with progress.

On the data given an error of the algorithm ends the audit. On other data sets it is reported, and refutes no claim.
"""

from __future__ import annotations

import copy
import functools
import math
import pickle
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndis._validate import as_size, require
from ndis.auditing.candidates import laws
from ndis.auditing.candidates.data_sets import DataSets, Domain, Path, data_words
from ndis.auditing.candidates.edits import DataSet, Edit, digest, parts_of, row_count
from ndis.auditing.candidates.laws import Algorithm, OutputLaw
from ndis.auditing.candidates.rules import AddAdversarial, AddRows, RemoveEach, ReplaceEach, Search
from ndis.auditing.claim import Claim
from ndis.auditing.judge import Candidate, Candidates, Scores, Seen, Tested, both_orders, counted, screened
from ndis.auditing.witness import EXCHANGED, WITH_RECORD
from ndis.errors import ParameterError
from ndis.pages.text import several
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

Answer = Generator[Tested, None, list[float]]  # candidates, and in the end the best log δ of each edit
Outcome = tuple[Scores, bool]  # the scores of an edit, and if the noise stays
Pool = Callable[[list[Edit]], Iterable[Outcome | None]]  # None for an edit on which the algorithm raised
_ALL_OTHERS = "neighbours of other data sets, and neighbours of this one that the rules above do not make"
_FEW_OTHERS = "all other data sets and their neighbours: a search tries few of them, and no test tries all"
_EXACT_NOTE = "the arithmetic of the algorithm: its numbers are taken as exact, up to the rounding of a few operations"
_THE_DATA = "the data"
_LATE = "time for other data sets ran out before all were tried; Search(seconds=…) or --seconds gives more"
_DRAWN = 20  # rows that stand for the data if none are given


def from_algorithm(
    algorithm: Algorithm, data: Any, search: Search, claim: Claim, about: DataSet, workers: int, progress: bool | None
) -> Candidates:
    """Check the algorithm on the data; return its neighbours, which run while the judge reads them.

    `about` says what is public about the data; if there are no data, rows of its domain stand for them.
    """
    domain, replaces = about.domain, claim.adjacency == "replace-one"
    domain = Domain.of_schema(about.schema) if domain is None and about.schema is not None else domain
    rules = search.rules(claim, domain)
    least, most = max(about.min_rows or 0, int(replaces)), about.max_rows or math.inf
    name = _THE_DATA
    if data is None:
        data = _drawn(domain, int(min(max(least + 1, _DRAWN), most)), np.random.default_rng(search.random_state))
        name = data_words(data)
    count = row_count(data)
    require((about.min_rows or 0) <= count <= most, "data", "have from min_rows to max_rows rows", "fewer or more")
    rules = [rule for rule in rules if count > least or not isinstance(rule, RemoveEach)]
    rules = [rule for rule in rules if replaces or count < most or not isinstance(rule, AddAdversarial)]
    base = _law(algorithm, data)
    _check_same(base, _law(algorithm, data))
    here = _Around(algorithm, data, base, claim, name)
    pool = _pool(here.score, workers)
    seen = Seen()
    others = None
    if search.neighbours is None and search.seconds > 0:
        any_size = not replaces or about.min_rows is not None or about.data is None
        inside = None if domain is None else domain.for_data(data)
        others = DataSets(data, inside, least, most, claim.adjacency, any_size, about.generator)
    best: dict[str, float] = {}

    def answer(batch: list[Edit]) -> Answer:
        fresh = {edit.name: edit for edit in batch if edit.name not in best}
        scores = yield from here.tested(list(fresh.values()), pool, seen)
        best.update(zip(fresh, scores, strict=True))
        return [best[edit.name] for edit in batch]

    def run() -> Iterator[Tested]:
        for number, rule in enumerate(rules):
            yield from _driven(rule.proposals(data, np.random.default_rng([search.random_state, number])), answer)
        if others is not None:
            random = np.random.default_rng([search.random_state, len(rules)])
            yield from _Elsewhere(algorithm, claim, seen, search.seconds).tested(others, random)

    how = () if about.data is not None else (f"no data were given; {name}, drawn in the domain, stand for them",)
    how += tuple(rule.describe() for rule in rules) + (() if others is None else (others.describe(),))
    given_only = all(isinstance(rule, RemoveEach | AddRows | ReplaceEach) for rule in rules)
    missing = (_FEW_OTHERS if others is not None else _ALL_OTHERS, _EXACT_NOTE)
    return Candidates(counted(run(), progress, "neighbours"), how, missing, seen, given_only and domain is None)


def _driven(proposals: Generator[Any, list[float], None], answer: Callable[[Any], Answer]) -> Iterator[Tested]:
    """Yield what the answers to proposals yield. The generator gets the scores before it makes the next proposal."""
    item = next(proposals, None)
    while item is not None:
        scores = yield from answer(item)
        try:
            item = proposals.send(scores)
        except StopIteration:
            item = None


def _drawn(domain: Domain | None, count: int, random: np.random.Generator) -> Any:
    """Draw rows at the edge of the domain, in place of data."""
    if domain is None or domain.features is None:
        remedy = "or state a domain with its features: DataSet(domain=Domain(row_norm_bound=…, features=…))"
        raise ParameterError("data", "come with an algorithm", None, remedy)
    parts = tuple(map(np.array, zip(*(domain.draw(random) for _ in range(count)), strict=True)))
    return parts if domain.has_target else parts[0]


class _Elsewhere:
    """The algorithm runs on other data sets and on their neighbours; an error there is noted."""

    def __init__(self, algorithm: Algorithm, claim: Claim, seen: Seen, seconds: float) -> None:
        self._algorithm, self._claim, self._seen = algorithm, claim, seen
        self._end = time.monotonic() + seconds
        self._laws: dict[str, OutputLaw | None] = {}
        self._errors: Counter[str] = Counter()

    def tested(self, others: DataSets, random: np.random.Generator) -> Iterator[Tested]:
        """Yield what the tour through the other data sets tries; after the last second it tries nothing more."""
        yield from _driven(others.tour(random, self._bend), self._answer)
        if self._late:
            self._seen.notes.append(_LATE)
        if self._errors:
            times, kinds = several(self._errors.total(), "time"), ", ".join(sorted(self._errors))
            self._seen.notes.append(
                f"on other data sets the algorithm gave no law {times} ({kinds}); this refutes no claim, but an error "
                "that depends on the data is an output too: handle these data, or state min_rows if it is public"
            )

    def _answer(self, step: tuple[Any, list[Edit]]) -> Answer:
        """Test the edits of one other data set, unless the time is up or it has no law."""
        data, edits = step
        base = None if self._late else self._law_on(data)
        if base is None:
            return []
        around = _Around(self._algorithm, data, base, self._claim, data_words(data))

        def run(edits: list[Edit]) -> Iterator[Outcome | None]:
            return (self._try(functools.partial(around.score, edit)) for edit in edits)

        return (yield from around.tested(edits, run, self._seen))

    @property
    def _late(self) -> bool:
        return time.monotonic() > self._end

    def _try(self, run: Callable[[], Any]) -> Any:
        """Run the algorithm; None if it raises, which it may where it was not made to run."""
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return run()
        except Exception as error:  # noqa: BLE001 - it refutes no claim, and the report says how often it happened
            cause = error.__cause__ or error
            self._errors["no finite Gaussian" if isinstance(cause, ParameterError) else type(cause).__name__] += 1
            return None

    def _law_on(self, data: Any) -> OutputLaw | None:
        key = digest(*parts_of(data))
        if key not in self._laws:
            self._laws[key] = self._try(functools.partial(_law, self._algorithm, data))
        return self._laws[key]

    def _bend(self, at: Path, low: int, high: int) -> float:
        """Return how far the law in the middle of a path differs from the line between its ends; it only guides."""
        if self._late:
            return -math.inf
        middle = (low + high) // 2
        first, half, end = (self._law_on(at(step)) for step in (low, middle, high))
        if first is None or half is None or end is None:
            return -math.inf
        if not first.covariance.shape == half.covariance.shape == end.covariance.shape:
            return -math.inf
        share = (middle - low) / (high - low) if middle > low else 1.0
        with np.errstate(all="ignore"):
            deviation = np.sqrt(np.maximum(first.variances, end.variances))
            means = (half.mean - (1.0 - share) * first.mean - share * end.mean) / deviation
            spread = half.covariance - (1.0 - share) * first.covariance - share * end.covariance
            spread = spread / deviation / (deviation[:, None] if spread.ndim == 2 else deviation)
        sizes = np.abs(np.concatenate([means, spread.ravel()]))
        return float(np.max(sizes, initial=-math.inf, where=~np.isnan(sizes)))


def _law(algorithm: Algorithm, data: Any, edit: Edit | None = None) -> OutputLaw:
    """Return the law on the data, or on a neighbour. The algorithm gets its own copy, which it may write to."""
    if edit is None:
        return laws.law_of(algorithm, copy.deepcopy(data))
    try:
        return laws.law_of(algorithm, edit.apply(data))
    except ParameterError as error:
        name, _, rule = str(error).partition(" must ")
        raise ParameterError(f"{name} on a neighbour", *rule.split("; got ", 1)) from error.__cause__


def _check_same(first: OutputLaw, second: OutputLaw) -> None:
    rule, remedy = "return the same law for the same data", "fix the seeds of what it draws"
    require(laws.same(first, second), "algorithm", rule, "two that differ", remedy)


@dataclass(frozen=True, eq=False)
class _Around:
    """A data set whose neighbours are tried: `base` is the law of the output on it, and `name` is for the reader."""

    algorithm: Algorithm
    data: Any
    base: OutputLaw
    claim: Claim
    name: str = _THE_DATA

    def law(self, edit: Edit) -> OutputLaw:
        """Return the law on a neighbour, with the numbers of the base where rounding explains the difference."""
        return laws.like(_law(self.algorithm, self.data, edit), self.base)

    def profile(self, edit: Edit, other_from_base: GaussianPair) -> PrivacyProfile:
        """Make `remove` the output with the record: the output on the data, unless the edit adds a record."""
        added = edit.remove is None and edit.add is not None
        return PrivacyProfile(other_from_base if added else other_from_base.reversed())

    def score(self, edit: Edit) -> Outcome:
        """Return the scores of a neighbour, and say if the noise stays."""
        other = self.law(edit)
        pair, blur = laws.screening_pair(other, self.base)
        return screened(self.profile(edit, pair), self.claim, blur), laws.same_noise(other, self.base)

    def tested(self, edits: list[Edit], run: Pool, seen: Seen) -> Answer:
        """Yield the candidates of some neighbours, and note if the noise depends on the data."""
        best = []
        for edit, outcome in zip(edits, run(edits), strict=True):
            values, still = outcome or ([(-math.inf, 0.0)], True)
            best.append(max(value for value, _ in values))
            seen.noise_depends |= not still
            if outcome is not None:
                yield 1, self._candidates(edit, values)
        return best

    def _candidates(self, edit: Edit, scores: Scores) -> Iterator[Candidate]:
        """Return the pair of one edit in both orders, each with a check that the laws are repeatable."""
        other = functools.cache(lambda: self.law(edit))
        make = functools.cache(lambda: self.profile(edit, laws.certified_pair(other(), self.base)))

        def confirm() -> None:
            _check_same(self.base, _law(self.algorithm, self.data))
            _check_same(other(), self.law(edit))

        words = WITH_RECORD if edit.remove is None or edit.add is None else EXCHANGED
        elsewhere = f"{self.name}, and the same"
        label = edit.label if self.name == _THE_DATA else edit.label.replace("the data, and the data", elsewhere)
        bar = lambda delta: laws.bar(other(), self.base)(delta)  # noqa: E731
        return both_orders(label, words, make, self.claim, scores, bar=bar, confirm=confirm)


def _pool(score: Callable[[Edit], Outcome], workers: int) -> Pool:
    """Make a map over edits that yields results in order."""
    if as_size("workers", workers) == 1:
        return lambda edits: map(score, edits)
    from joblib import Parallel, delayed  # type: ignore[import-untyped]
    from joblib.externals.loky.backend.reduction import dumps  # type: ignore[import-untyped]

    try:
        dumps(score)
    except (pickle.PicklingError, TypeError, AttributeError):
        raise ParameterError("workers", "be 1 for an algorithm that no other process can get", workers) from None
    pool = Parallel(n_jobs=workers, return_as="generator")
    return lambda edits: pool(delayed(score)(edit) for edit in edits)
