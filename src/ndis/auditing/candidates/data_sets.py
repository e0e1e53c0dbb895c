"""An audit also starts from other data sets: at the edges of a stated domain, and those that a search finds.

Made-up rows lie inside a `Domain` that the user states. Without one, the data sets are made of rows of the data given.

**Paths.** Two data sets are the ends of a path on which each data set is a neighbour of the next. If a law jumps
somewhere on the way, as that of a hidden test does, it leaves the line between the laws at the ends there: it bends. A
change that is even along the path does not, however large. So halving the path, each time where it bends more, ends at
two neighbours on the two sides of a jump.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import Adjacency, as_size, as_vector, as_within, require
from ndis.auditing.candidates import edits
from ndis.auditing.candidates.edits import Edit, parts_of, row_count
from ndis.data.schema.columns import Boolean, Category
from ndis.errors import ParameterError
from ndis.pages.text import plain, several

if TYPE_CHECKING:
    from ndis.data.schema import Schema

Row = tuple[Any, ...]  # the parts of one row: (x,) or (x, y)
Tour = Generator[tuple[Any, list[Edit]], list[float], None]
Path = Callable[[int], Any]  # the data set after this many steps
Bend = Callable[[Path, int, int], float]  # how far the law bends between two steps of a path

_EXPONENT = 500  # bounds lie between 2^−500 and 2^500, so that squares of rows stay within floats
_ROWS = 20  # rows of a made-up data set if no data are given
_EXTREMES = 10  # rows at the edge of the domain that are used, at most
_CLUSTERS = 4  # how many of them stand for a data set of equal rows
_KINDS = 3  # different rows of a data set that are removed or replaced in turn
_MANY = 5000  # rows at the far end of a path
_NARROW = 1e-3  # spread of rows that are nearly equal, as a part of the domain
_LADDERS = (2, 4, 8, 16)  # even steps across the domain: one of them is close to any distance that matters
_GENERATED = 8  # data sets asked of a generator
_GENERATIONS, _OFFSPRING = 12, 6  # the climb over whole data sets
_FIRST_STEP = 0.3  # the first step of the climb, as a part of the domain
_CERTAIN = -0.01  # log δ above which a climb has nothing left to gain
_SHOWN = 3  # different rows that a description quotes


# ---------------------------------------------------------------------- where rows lie


@dataclass(frozen=True)
class Domain:
    """A domain is the public set in which every row lies: a ball, a box, or the rows that a schema encodes.

    Parameters
    ----------
    row_norm_bound : float, optional
        Bound on the norm of the features, for a ball.
    low, high : float, or one for each feature
        Ends of the features, for a box.
    target_bound : float or (low, high), optional
        For data (X, y): bound of |y|, or the ends of y.
    target_values : tuple of float
        For data (X, y): the values that a target may take, instead of a bound.
    features : int, optional
        Number of features; needed if no data are given, and `low` is one number.
    categories : tuple of (start, stop)
        Columns of a box of which at most one is 1, and the others are 0.

    Examples
    --------
    >>> box = Domain(low=0.0, high=(1.0, 5.0))
    >>> box.toward(np.array([1.0, -1.0])), box.fit(np.array([7.0, 2.0]))
    ((array([1., 0.]),), (array([1., 2.]),))
    >>> print(box, "and", Domain(row_norm_bound=1.0, target_bound=2.0))
    0 ≤ x ≤ 1 or 5 in each feature and ‖x‖ ≤ 1, |y| ≤ 2
    """

    row_norm_bound: float | None = None
    low: Any = None
    high: Any = None
    target_bound: Any = None
    target_values: tuple[float, ...] = ()
    features: int | None = None
    categories: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        box = self.low is not None and self.high is not None
        if box if self.row_norm_bound is not None else not box:
            raise ParameterError("row_norm_bound, or low and high,", "be stated", "both" if box else "none of them")
        if self.row_norm_bound is None:
            low, high = np.broadcast_arrays(as_vector("low", self.low), as_vector("high", self.high))
            require((low < high).all(), "low", "lie below high", "others")
            own = low.size if np.ndim(self.low) or np.ndim(self.high) else self.features
            require(self.features in (None, own), "features", "be as many as low and high have", self.features)
            object.__setattr__(self, "features", own)
        else:
            as_within("row_norm_bound", self.row_norm_bound, _EXPONENT)
        if self.features is not None:
            as_size("features", self.features)
        object.__setattr__(self, "target_values", tuple(as_vector("target_values", self.target_values).tolist()))
        if self.target_bound is not None:
            ends = as_vector("target_bound", self.target_bound)
            if not (ends[0] < ends[1] if ends.size == 2 else ends.size == 1 and ends[0] >= 0):
                raise ParameterError("target_bound", "not be negative, or be (low, high)", self.target_bound)

    @classmethod
    def of_schema(cls, schema: Schema) -> Domain:
        """Return the rows that a schema encodes: numbers between −1 and 1, and one column for each category.

        >>> from ndis import Schema
        >>> Domain.of_schema(Schema({"age": (18, 90), "region": ["N", "S"]})).draw(np.random.default_rng(0))
        (array([..., ...]),)
        """
        start, low, groups = 0, [], []
        for name, column in schema.columns.items():
            stop = start + len(column.labels(name))
            low += [0.0 if isinstance(column, Category) else -1.0] * (stop - start)
            groups += [(start, stop)] if isinstance(column, Category | Boolean) else []
            start = stop
        target: dict[str, Any] = {}
        if schema.target is not None:
            target = {"target_values": tuple(range(len(schema.classes)))} if schema.classes else {"target_bound": 1.0}
        return cls(low=tuple(low), high=(1.0,) * start, categories=tuple(groups), **target)

    def for_data(self, data: Any) -> Domain:
        """Return the domain with as many features as the data, if it fits them."""
        row_count(data)
        rule = "come with data (X, y), and data (X, y) with one of them"
        require(self.has_target == isinstance(data, tuple), "target_bound or target_values", rule, type(data).__name__)
        width = int(parts_of(data)[0].shape[1])
        if self.features not in (None, width):
            raise ParameterError("features of the domain", "be those of the data", f"{self.features} for {width}")
        return replace(self, features=width)

    @property
    def has_target(self) -> bool:
        """Say if rows have a target."""
        return self.target_bound is not None or bool(self.target_values)

    @property
    def target_ends(self) -> tuple[float, ...]:
        """Return the values of a target that are tried first: all that are listed, or the two ends."""
        if self.target_values or not self.target_bound:
            return self.target_values or (0.0,)
        return tuple(self.target_bound) if np.ndim(self.target_bound) else (-self.target_bound, self.target_bound)

    def fit(self, x: NDArray[np.float64], y: float = 0.0) -> Row:
        """Return a row within the domain, near this one."""
        if self.row_norm_bound is None:
            x_given, x = x, np.clip(np.asarray(x, dtype=np.float64), self.low, self.high)
            for start, stop in self.categories:  # one of several columns is 1; a lone column is at one of its ends
                best = start + int(np.argmax(x[start:stop]))
                x[start:stop] = 0.0
                x[best] = 1.0 if stop - start > 1 or x_given[best] > 0 else self.low[best]
        else:
            norm = float(np.linalg.norm(x))
            if norm > self.row_norm_bound:
                x = x * (self.row_norm_bound / norm)
                while float(np.linalg.norm(x)) > self.row_norm_bound:
                    x = x * (1.0 - 2.0**-52)
        if not self.has_target:
            return (x,)
        if self.target_values:
            return x, min(self.target_values, key=lambda value: math.fabs(value - y))
        return x, min(max(y, self.target_ends[0]), self.target_ends[-1])

    def toward(self, direction: NDArray[np.float64], y: float = 0.0) -> Row:
        """Return the row at the edge of the domain in a direction."""
        if self.row_norm_bound is not None:
            return self.fit(direction * (self.row_norm_bound / float(np.linalg.norm(direction))), y)
        return self.fit(np.where(direction > 0, self.high, self.low), y)

    def draw(self, random: np.random.Generator) -> Row:
        """Draw a row at the edge of the domain, with a target from its range."""
        assert self.features is not None
        x = random.standard_normal(self.features)
        ends = self.target_ends
        y = random.choice(self.target_values) if self.target_values else random.uniform(ends[0], ends[-1])
        return self.toward(x, float(y))

    def near(self, random: np.random.Generator, row: Row, step: float) -> Row:
        """Draw a row near another."""
        x, ends = row[0], self.target_ends
        size: Any = self.row_norm_bound
        size = 0.5 * np.subtract(self.high, self.low) if size is None else size / math.sqrt(x.size)
        moved = x + step * size * random.standard_normal(x.size)
        y = row[1] if len(row) > 1 else 0.0
        return self.fit(moved, float(y + step * (ends[-1] - ends[0]) * random.standard_normal()))

    def centre(self) -> Row:
        """Return the row in the middle."""
        assert self.features is not None
        middle = np.zeros(self.features)
        if self.row_norm_bound is None:
            middle = middle + 0.5 * np.add(self.low, self.high)
        return self.fit(middle, math.fsum(self.target_ends) / len(self.target_ends))

    def extremes(self) -> list[Row]:
        """Return rows at the edge, and the one half way to the first: features up or down together, and one alone."""
        assert self.features is not None
        directions = [np.ones(self.features), np.eye(self.features)[0]]
        turned = [sign * x for x in directions for sign in (1.0, -1.0)]
        rows = [self.toward(x, y) for x in turned for y in self.target_ends[:: max(1, len(self.target_ends) - 1)]]
        middle = self.centre()
        rows += [self.fit(0.5 * (rows[0][0] + middle[0]), self.target_ends[-1]), middle]
        return list({edits.digest(*row): row for row in rows}.values())

    def ladder(self, steps: int) -> list[Row]:
        """Return rows in even steps from one end of the domain to the other.

        >>> [x.tolist() for (x,) in Domain(low=0.0, high=1.0, features=1).ladder(2)]
        [[0.0], [0.5], [1.0]]
        """
        assert self.features is not None
        (low, high), ends = (self.toward(sign * np.ones(self.features))[0] for sign in (-1.0, 1.0)), self.target_ends
        shares = [i / steps for i in range(steps + 1)]
        return [self.fit(low + share * (high - low), ends[0] + share * (ends[-1] - ends[0])) for share in shares]

    def __str__(self) -> str:
        if self.row_norm_bound is not None:
            words = f"‖x‖ ≤ {plain(self.row_norm_bound)}"
        else:
            low, high = np.unique(self.low).tolist(), np.unique(self.high).tolist()
            words = f"{' or '.join(map(plain, low))} ≤ x ≤ {' or '.join(map(plain, high))} in each feature"
        if self.target_values:
            return f"{words}, y among {', '.join(map(plain, self.target_values))}"
        if np.ndim(self.target_bound):
            return f"{words}, {plain(self.target_ends[0])} ≤ y ≤ {plain(self.target_ends[1])}"
        return words if self.target_bound is None else f"{words}, |y| ≤ {plain(self.target_bound)}"


# ---------------------------------------------------------------------- data sets


def data_words(data: Any) -> str:
    """Describe a data set by its different rows, if they are few.

    >>> data_words(np.array([[0.5], [0.5], [1.0]]))
    '3 rows: 2 × [0.5], 1 × [1.]'
    """
    parts = parts_of(data)
    if len(parts[0]) == 0:
        return "no rows"
    first, counts = kinds_of(data)
    if len(first) > _SHOWN:
        return f"{several(len(parts[0]), 'row')}, {len(first)} of them different (digest {edits.digest(*parts)})"
    shown = [f"{n} × {edits.brief(tuple(p[i] for p in parts))}" for i, n in zip(first, counts, strict=True)]
    return f"{several(len(parts[0]), 'row')}: {', '.join(shown)}"


def kinds_of(data: Any) -> tuple[list[int], list[int]]:
    """Return the number of the first row of each kind, and how many rows are like it."""
    seen: dict[bytes, list[int]] = {}
    for i, row in enumerate(zip(*parts_of(data), strict=True)):
        seen.setdefault(b"".join(np.asarray(p).tobytes() for p in row), []).append(i)
    return [rows[0] for rows in seen.values()], [len(rows) for rows in seen.values()]


@dataclass(frozen=True, eq=False)
class DataSets:
    """These are the data sets that an audit tries besides the data.

    Attributes
    ----------
    data : array of rows or (X, y)
        The data given, or rows of the domain if none are.
    domain : Domain or None
        Where made-up rows lie; None allows only rows of the data.
    min_rows, max_rows : number
        No data set has fewer or more rows.
    adjacency : str
        Under replace-one all data sets have as many rows as the data, unless `any_size`.
    any_size : bool
        True if the number of rows may vary.
    generator : callable or None
        ``generator(random)`` makes a data set.
    """

    data: Any
    domain: Domain | None
    min_rows: int
    max_rows: float
    adjacency: Adjacency
    any_size: bool = True
    generator: Callable[[np.random.Generator], Any] | None = None

    def tour(self, random: np.random.Generator, bend: Bend) -> Tour:
        """Yield data sets with their edits and receive scores. Numbers, not time, say where it ends."""
        rows = self._rows()
        if not rows:
            return
        equal = [self._stack([row] * self._size) for row in rows[:_CLUSTERS]]
        best, top = self.data, -math.inf
        for data in self._starts(rows, equal, random):
            score = max((yield data, self._edits(data, rows)), default=-math.inf)
            best, top = (data, score) if score > top else (best, top)
        few = self._stack([rows[-1]] * self.min_rows) if self.any_size else self.data
        longest = int(min(_MANY, self.max_rows)) if self.any_size else 0
        many = [self._stack([row] * longest) for row in rows[:2]] + [self._stack(rows * (longest // len(rows)))]
        paths = [*((few, other) for other in many), (equal[0], equal[1 % len(equal)]), (self.data, equal[0])]
        for one, other in paths:
            for data, edit in self._halved(one, other, bend):
                yield data, [edit]
        step = _FIRST_STEP
        for _ in range(_GENERATIONS if self.domain is not None else 0):
            before = top
            for data in [self._moved(best, rows, random, step) for _ in range(_OFFSPRING)]:
                if top > _CERTAIN:
                    return
                score = max((yield data, self._edits(data, rows)), default=-math.inf)
                best, top = (data, score) if score > top else (best, top)
            step = min(1.5 * step, 1.0) if top > before else 0.6 * step

    def describe(self) -> str:
        """Write one sentence for the report."""
        where = "made of rows of the data" if self.domain is None else f"with rows within {self.domain}"
        more = "" if self.generator is None else ", some of them from the generator given"
        least = f" and at least {several(self.min_rows, 'row')}" if self.min_rows else ""
        return f"other data sets {where}{least}{more}: few, equal and far rows, clusters, and what a search finds"

    @property
    def _size(self) -> int:
        """Return the usual number of rows."""
        count = row_count(self.data)
        return int(min(max(count, self.min_rows, _ROWS), self.max_rows)) if self.any_size else count

    def _rows(self) -> list[Row]:
        """Return extreme rows, and last one in the middle."""
        if self.domain is not None:
            return self.domain.extremes()
        parts = parts_of(self.data)
        count = len(parts[0])
        order = list(range(count))
        if count and all(p.dtype.kind in "uifb" for p in parts):
            table = np.concatenate([np.asarray(p, dtype=np.float64).reshape(count, -1) for p in parts], axis=1)
            order = np.argsort(-np.linalg.norm(table - table.mean(axis=0), axis=1), kind="stable").tolist()
        chosen = [tuple(p[i] for p in parts) for i in (*order[: _EXTREMES - 1], *order[-1:])]
        return list({edits.digest(*row): row for row in chosen}.values())

    def _starts(self, rows: list[Row], equal: list[Any], random: np.random.Generator) -> Iterator[Any]:
        """Yield data sets at the edges of what is possible, each of them once."""
        size, parts, middle = self._size, parts_of(self.data), rows[-1]
        half = len(parts[0]) // 2
        sets = [self._stack([middle] * self.min_rows)]
        sets += [*(self._stack([row] * max(self.min_rows, 1)) for row in rows), *equal]
        sets += [self._stack([rows[0]] * (size - size // 2) + [rows[1 % len(rows)]] * (size // 2))]
        sets += [self._stack([middle] * (size - 1) + [rows[0]]), self._stack(rows)]
        if self.domain is not None:
            close = [self.domain.near(random, middle, _NARROW) for _ in range(size)]
            sets += [self._stack(close), self._stack([*close[1:], rows[0]])]
            sets += [self._stack([self.domain.draw(random) for _ in range(size)])]
            sets += [self._stack(self.domain.ladder(steps)) for steps in _LADDERS]
        for chosen in (slice(half), slice(half, None), np.tile(np.arange(len(parts[0])), 2)):
            sets.append(self._like([p[chosen] for p in parts]))
        sets += [] if self.generator is None else [self.generator(random) for _ in range(_GENERATED)]
        seen = set()
        for data in sets:
            count, mark = row_count(data), edits.digest(*parts_of(data))
            if self.min_rows <= count <= self.max_rows and (self.any_size or count == size) and mark not in seen:
                seen.add(mark)
                yield data

    def _edits(self, data: Any, rows: list[Row]) -> list[Edit]:
        """Return neighbours of a data set: one row less of each kind, one more, or one exchanged."""
        if self.domain is not None and row_count(data) > 1:  # a row may tie two others together
            rows = [*rows, self.domain.fit(*(0.5 * (two[0] + two[1]) for two in parts_of(data)))]
        first, _ = kinds_of(data)
        places = first if len(first) <= _KINDS else [*first[: _KINDS - 1], first[-1]]
        if self.adjacency == "replace-one":
            return [edits.replacement(i, row) for i in places for row in rows]
        removals = [edits.removal(i) for i in places] if row_count(data) > self.min_rows else []
        return [*removals, *map(edits.addition, rows if row_count(data) < self.max_rows else ())]

    def _halved(self, one: Any, other: Any, bend: Bend) -> Iterator[tuple[Any, Edit]]:
        """Yield the neighbours at the end of a path that is halved again and again.

        Rows of the other data set are added one by one; under replace-one each takes the place of a row.
        """
        old, new = (list(zip(*parts_of(data), strict=True)) for data in (one, other))
        replaces = self.adjacency == "replace-one"
        low, high = 0, min(len(old) if replaces else int(min(_MANY, self.max_rows)) - len(old), len(new))

        def at(step: int) -> Any:
            return self._stack([*old[step if replaces else 0 :], *new[:step]])

        while high - low > 1:
            middle = (low + high) // 2
            left, right = bend(at, low, middle), bend(at, middle, high)
            if max(left, right) == -math.inf:
                return
            low, high = (low, middle) if left >= right else (middle, high)
        if high > low:
            yield at(low), edits.replacement(0, new[low]) if replaces else edits.addition(new[low])

    def _moved(self, data: Any, rows: list[Row], random: np.random.Generator, step: float) -> Any:
        """Return a data set near this one: a row moved, added, left out or copied, or all rows drawn together."""
        own: list[Row] = list(zip(*parts_of(data), strict=True))
        fresh = rows[int(random.integers(len(rows)))]
        if self.domain is not None and random.random() < 0.5:
            fresh = self.domain.near(random, own[int(random.integers(len(own)))] if own else fresh, step)
        kind = random.integers(4)
        if self.any_size and (kind == 0 or not own) and len(own) < self.max_rows:
            own.append(fresh)
        elif self.any_size and kind == 1 and len(own) > self.min_rows:
            own.pop(int(random.integers(len(own))))
        elif kind == 2:
            chosen = random.random(len(own)) < 0.5
            own = [fresh if moved else row for row, moved in zip(own, chosen, strict=True)]
        elif own:
            own[int(random.integers(len(own)))] = fresh
        return self._stack(own)

    def _stack(self, rows: Sequence[Row]) -> Any:
        """Make a data set of rows."""
        parts = []
        for i, like in enumerate(parts_of(self.data)):
            kind = like.dtype if self.domain is None else np.float64
            parts.append(np.array([row[i] for row in rows], dtype=kind).reshape(len(rows), *like.shape[1:]))
        return self._like(parts)

    def _like(self, parts: Sequence[Any]) -> Any:
        return tuple(parts) if isinstance(self.data, tuple) else parts[0]
