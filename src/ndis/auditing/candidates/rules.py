"""A rule says which neighbours are tested, and `Search` says which rules.

A rule has an `adjacency`; `describe()`, one sentence for the report; and `proposals(data, random)`, a generator that
yields batches of edits. It learns the score of each, log δ of the worse order, before it proposes more. The
adversarial rules climb by these scores; the others ignore them. The proposals depend only on data, scores and seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndis._validate import Adjacency, as_floats, as_not_negative, as_scalar, as_size, require
from ndis.auditing.candidates import edits
from ndis.auditing.candidates.data_sets import Domain
from ndis.auditing.candidates.edits import Proposals, parts_of, row_count
from ndis.auditing.claim import Claim
from ndis.errors import ParameterError
from ndis.pages.text import several

_MOVES = 0.3  # how often a climb turns to another row that is replaced


@dataclass(frozen=True)
class RemoveEach:
    """Leave out every row in turn.

    >>> [edit.name for batch in RemoveEach().proposals(np.zeros((2, 3)), None) for edit in batch]
    ['remove:0', 'remove:1']
    """

    adjacency: Adjacency = "add-remove"

    def describe(self) -> str:
        return "every single row of the data removed in turn"

    def proposals(self, data: Any, random: np.random.Generator) -> Proposals:
        yield from edits.in_batches(edits.removal(i) for i in range(row_count(data)))


@dataclass(frozen=True, eq=False)
class _Given:
    """These rules take rows from the user: a matrix, or (X, y)."""

    candidates: Any

    def __post_init__(self) -> None:
        pair = isinstance(self.candidates, tuple) and len(self.candidates) == 2
        parts = tuple(as_floats("candidates", array) for array in (self.candidates if pair else [self.candidates]))
        rows = parts if pair else np.atleast_2d(parts[0])
        row_count(rows)
        object.__setattr__(self, "candidates", rows)

    def _rows(self, data: Any) -> list[tuple[Any, ...]]:
        """Return the rows, if they have the columns of the data."""
        row_count(data)
        ours, theirs = parts_of(self.candidates), parts_of(data)
        if [p.shape[1:] for p in ours] != [p.shape[1:] for p in theirs]:
            raise ParameterError("candidates", "have the columns of data", [p.shape[1:] for p in ours])
        return list(zip(*ours, strict=True))


@dataclass(frozen=True, eq=False)
class AddRows(_Given):
    """Add rows that the user chooses in turn: a matrix, or (X, y).

    >>> (batch,) = AddRows([[1.0, 0.0], [0.0, 2.0]]).proposals(np.zeros((5, 2)), None)
    >>> [edit.add[0].tolist() for edit in batch]
    [[1.0, 0.0], [0.0, 2.0]]
    """

    adjacency: Adjacency = "add-remove"

    def describe(self) -> str:
        rows = several(row_count(self.candidates), "given row")
        return f"{rows} added in turn (digest {edits.digest(*parts_of(self.candidates))})"

    def proposals(self, data: Any, random: np.random.Generator) -> Proposals:
        yield from edits.in_batches(edits.addition(row) for row in self._rows(data))


@dataclass(frozen=True, eq=False)
class ReplaceEach(_Given):
    """Replace every row in turn by every candidate.

    >>> (batch,) = ReplaceEach([[1.0, 0.0]]).proposals(np.zeros((2, 2)), None)
    >>> [(edit.remove, edit.add[0].tolist()) for edit in batch]
    [(0, [1.0, 0.0]), (1, [1.0, 0.0])]
    """

    adjacency: Adjacency = "replace-one"

    def describe(self) -> str:
        rows = several(row_count(self.candidates), "given row")
        return f"every row of the data replaced in turn by {rows} (digest {edits.digest(*parts_of(self.candidates))})"

    def proposals(self, data: Any, random: np.random.Generator) -> Proposals:
        candidates, places = self._rows(data), range(row_count(data))
        yield from edits.in_batches(edits.replacement(i, row) for i in places for row in candidates)


@dataclass(frozen=True)
class AddAdversarial:
    """Add the row within the public bounds that makes δ largest, as far as a search finds it.

    The search is a (1+λ) evolution strategy from several starts: random rows, and the principal directions along which
    the data vary most and least. Each generation of λ rows is drawn about the best row so far and pulled back within
    the bounds. The step widens after a success and shrinks after a failure.

    Parameters
    ----------
    domain : Domain
        The public set in which rows lie.
    generations : int
        Generations per start.
    offspring : int
        λ, rows per generation.
    starts : int
        How many of the best starting rows are climbed from.

    Examples
    --------
    >>> rule = AddAdversarial(Domain(row_norm_bound=1.0), generations=2)
    >>> batch = next(rule.proposals(np.zeros((5, 2)), np.random.default_rng(0)))
    >>> all(np.linalg.norm(edit.add[0]) <= 1.0 + 1e-9 for edit in batch)
    True
    """

    domain: Domain
    generations: int = 20
    offspring: int = 8
    starts: int = 2
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        if not isinstance(self.domain, Domain):
            raise ParameterError("domain", "be a Domain", type(self.domain).__name__, "Domain(row_norm_bound=…)")
        for name in ("generations", "offspring", "starts"):
            as_size(name, getattr(self, name))

    def describe(self) -> str:
        return (
            f"a row within {self.domain} added, chosen to make δ large by {several(self.starts, 'climb')} of "
            f"{several(self.generations, 'generation')} with {several(self.offspring, 'row')} each"
        )

    def proposals(self, data: Any, random: np.random.Generator) -> Proposals:
        yield from self._climb(data, random, lambda row, _: edits.addition(row), [None])

    def _climb(self, data: Any, random: np.random.Generator, edit: Any, places: Sequence[Any]) -> Proposals:
        """Yield proposals and receive their scores, and move the best rows uphill in smaller and smaller steps."""
        domain = self.domain.for_data(data)
        rows = [domain.draw(random) for _ in range(self.offspring)]
        x = np.asarray(parts_of(data)[0], dtype=np.float64)
        for axis in np.linalg.eigh(x.T @ x)[1].T[[0, -1]]:  # directions with the smallest and largest second moment
            rows += [domain.toward(sign * axis, y) for y in domain.target_ends for sign in (1.0, -1.0)]
        seeds = [(row, places[i % len(places)]) for i, row in enumerate(rows)]
        scores = yield [edit(*seed) for seed in seeds]
        order = sorted(range(len(seeds)), key=lambda i: -scores[i])
        for start in order[: self.starts]:
            best, top, step = seeds[start], scores[start], 0.3
            for _ in range(self.generations):
                brood = []
                for _ in range(self.offspring):
                    row, moves = domain.near(random, best[0], step), len(places) > 1 and random.random() < _MOVES
                    brood.append((row, places[int(random.integers(len(places)))] if moves else best[1]))
                values = yield [edit(*one) for one in brood]
                winner = max(range(len(brood)), key=values.__getitem__)
                if values[winner] > top:
                    best, top, step = brood[winner], values[winner], min(1.5 * step, 1.0)
                else:
                    step *= 0.6


@dataclass(frozen=True)
class ReplaceAdversarial(AddAdversarial):
    """Replace a row of the data by one within the public bounds; a search chooses both to make δ large.

    >>> rule = ReplaceAdversarial(Domain(row_norm_bound=1.0), generations=2)
    >>> batch = next(rule.proposals(np.zeros((5, 2)), np.random.default_rng(0)))
    >>> all(edit.remove in range(5) for edit in batch)
    True
    """

    adjacency: Adjacency = "replace-one"

    def describe(self) -> str:
        return super().describe().replace("added, chosen", "put in the place of one of the data, both chosen")

    def proposals(self, data: Any, random: np.random.Generator) -> Proposals:
        places = random.permutation(row_count(data)).tolist()
        yield from self._climb(data, random, lambda row, i: edits.replacement(i, row), places)


# ---------------------------------------------------------------------- the choice of rules


@dataclass(frozen=True, eq=False)
class Search:
    """A search says which neighbours of the data an audit tries.

    Parameters
    ----------
    neighbours : rule, or list of rules, optional
        `RemoveEach`, `AddRows`, `AddAdversarial`, `ReplaceEach`, `ReplaceAdversarial`. By default `RemoveEach`, and the
        search for the worst row as well if the `DataSet` states a domain.
    random_state : int
        Seed of the rules that draw rows.
    seconds : float
        Time for other data sets than the data (`DataSet`); 0 tries none. They are tried only without `neighbours`. An
        audit tries some hundred of them, which usually takes seconds. The report says if time ran out.

    Examples
    --------
    >>> [type(rule).__name__ for rule in Search().rules(Claim(1.0, 1e-6), Domain(row_norm_bound=1.0))]
    ['RemoveEach', 'AddAdversarial']
    """

    neighbours: Any = None
    random_state: int = 0
    seconds: float = 60.0

    def __post_init__(self) -> None:
        as_not_negative("seconds", self.seconds)
        seed: Any = 0 if self.random_state is None else self.random_state
        if isinstance(seed, bool) or not (as_scalar("random_state", seed) >= 0 and int(seed) == seed):
            raise ParameterError("random_state", "be a whole number, not negative", repr(seed))
        object.__setattr__(self, "random_state", int(seed))

    def rules(self, claim: Claim, domain: Domain | None = None) -> list[Any]:
        """Return the rules that choose neighbours, checked against the adjacency of the claim."""
        if self.neighbours is None:
            replaces = claim.adjacency == "replace-one"
            worst = [] if domain is None else [(ReplaceAdversarial if replaces else AddAdversarial)(domain)]
            remedy = "state a Domain, DataSet(data, domain=Domain(…)), or use ReplaceEach"
            require(worst or not replaces, "neighbours", "be given for replace-one", None, remedy)
            return [*([] if replaces else [RemoveEach()]), *worst]
        rules = list(self.neighbours) if isinstance(self.neighbours, list | tuple) else [self.neighbours]
        if not rules or not all(hasattr(rule, "proposals") for rule in rules):
            given = ", ".join(type(rule).__name__ for rule in rules) or "none"
            raise ParameterError("neighbours", "be a rule of ndis.auditing, or a list of rules", given)
        for rule in rules:
            wanted = f"be that of the claim, {claim.adjacency!r}"
            require(rule.adjacency == claim.adjacency, "adjacency of neighbours", wanted, repr(rule.adjacency))
        return rules
