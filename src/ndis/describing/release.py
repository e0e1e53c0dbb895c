"""Release base statistics of a table once: sums per cell, histograms, and a Gram matrix of centred columns.

All of it is one composition of Gaussian releases with shares fixed in advance (thm:rounds). The data are read up to
three times, record by record:

1. ¾·records, missing cells, Σz and ½Σz² of every number z in [−1, 1], the encoded one;
2. a histogram of every number, and one of the norms of the rows after centring and scaling by what step 1 released;
3. the sums of step 1 per cell of every grouping, with every number clipped to a window that steps 1 and 2 chose; and
   the Gram matrix of the centred rows, clipped to a norm that step 2 chose.

The squared sensitivities are those of thm:describe, with D numbers. If a record comes or goes: 9/16 + 5D/4 per
grouping, D and 1 for the histograms, l⁴ for the Gram matrix. If a record is replaced:
max(4D, 9/8 + 5D/2) per grouping (4D if it has one cell), and twice the others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ndis._exact import ExactArray
from ndis._validate import Adjacency, Floats, as_one_positive, require
from ndis.data.cells import Cells
from ndis.data.schema import Boolean, Category, Number, Schema
from ndis.data.schema.changed import row_norms
from ndis.data.table import Table
from ndis.describing.statistics import tails
from ndis.gram import GramAccumulator, RowLayout
from ndis.gram.accumulator import IntegerSum
from ndis.mechanisms.mechanism import Receipt
from ndis.mechanisms.rounds import GaussianRounds

COUNT_WEIGHT, SQUARE_WEIGHT = Fraction(3, 4), Fraction(1, 2)  # a record and a square count so much next to a sum
SHARES = {"means": 0.25, "groups": 0.25, "quantiles": 0.10, "matrix": 0.40}
GROUPED = {**SHARES, "means": 0.08, "groups": 0.92}  # without the matrix
_NORMS = 0.25  # the part of the matrix's share for its histogram of norms
_BITS = 15  # a number lies on the grid 2⁻¹⁵ of half its range
_ROWS = 1 << 16  # rows of one block: sums of integers up to 2³⁰ are exact in float64, and memory does not grow
_CLEAR = 2.5  # standard deviations of noise above which a bin surely holds records
_FEWEST, _MOST, _FINE = 20, 1000, 3.0  # bins of a number's histogram; (_FINE·records/noise)^⅔ of them
_DENSE = 0.25  # width of a bin at the centre, over the average near it
_LEAST_SPREAD = 2.0**-10  # in half ranges: a column is not stretched further
_MOST_CELLS = 1 << 20  # a grouping has no more
_CELLS = 1000  # a grouping by default has at most this many cells
_IN_MATRIX = 64  # a category with more values stays out of the Gram matrix
_WINDOWS: Floats = 6.0 * 2.0 ** (np.arange(12) / 4)  # spreads around the centre that the window of a number may hold
_OUTSIDE = 0.25  # what lies outside is expected to be less than this share of the error of a sum of all records
_LONG = 9.0  # squared spreads beyond which bins tell which columns are long
_UNSEEN = 0.2  # the noise of what these bins tell counts for a column by this factor
_TAILS = (0.05, 0.0)  # shares of the longest rows to which laws are fitted, or as few as the noise allows
_LEAST_SHARE = 1e-6  # a part that is released has at least this share of the squared shift
Codes = dict[str, NDArray[np.intp]]
Job = tuple[Callable[[], list[Any]], Callable[..., None]]  # makes sums, and adds records to them


@dataclass(frozen=True)
class Contents:
    """State what a release holds. Everything here is public.

    Parameters
    ----------
    schema : Schema
    groupings : tuple of tuples of names
        Of columns that are categories or booleans. The first one is empty: it has one cell, the whole table.
    quantiles, matrix : bool
    shares : mapping
        Part → its share of the squared shift.
    """

    schema: Schema
    groupings: tuple[tuple[str, ...], ...]
    quantiles: bool
    matrix: bool
    shares: Mapping[str, float]

    @classmethod
    def of(cls, schema: Schema, groups: Any, quantiles: bool, matrix: bool, shares: Any) -> Contents:
        """Check the options, and divide the budget among the parts that the release holds."""
        require(isinstance(schema, Schema), "schema", "be an ndis.Schema", type(schema).__name__)
        for name, flag in (("quantiles", quantiles), ("matrix", matrix)):
            require(isinstance(flag, bool), name, "be True or False", type(flag).__name__)
        empty = cls(schema, (), quantiles, matrix, {})
        sizes, numbers = empty.sizes, bool(empty.numbers)
        given = [name for name, size in sizes.items() if size <= _CELLS] if groups is None else groups
        rule = f"list groupings by categories and booleans of the schema, {list(sizes)}, each of them once"
        require(isinstance(given, list | tuple), "groups", rule, type(given).__name__)
        asked = [tuple(one) if isinstance(one, list | tuple) else (one,) for one in given]
        named = all(isinstance(name, str) and name in sizes for one in asked for name in one) and all(asked)
        once = named and len({frozenset(one) for one in asked if len(set(one)) == len(one)}) == len(asked)
        require(once, "groups", rule, repr(groups))
        most = max((math.prod(sizes[name] for name in one) for one in asked), default=0)
        require(most <= _MOST_CELLS, "groups", "have at most 2^20 cells each", repr(groups))
        rule, chosen = f"give positive numbers to {', '.join(SHARES)}", {} if shares is None else shares
        require(isinstance(chosen, Mapping) and set(chosen) <= set(SHARES), "shares", rule, f"{shares!r:.80}")
        weights = dict(SHARES if not asked or (matrix and numbers) else GROUPED)
        weights |= {name: as_one_positive("shares", share) for name, share in chosen.items()}
        held = {"means": True, "groups": bool(asked), "quantiles": quantiles and numbers, "matrix": matrix and numbers}
        total = sum(weights[name] for name in SHARES if held[name])
        divided = {name: weights[name] / total for name in SHARES if held[name]}
        return cls(schema, ((), *asked), held["quantiles"], held["matrix"], divided)

    @property
    def columns(self) -> dict[str, Any]:
        """Return all columns, the target as the last of them; numbers without the terms that only regressions have."""
        last = {} if self.schema.target_name is None else {self.schema.target_name: self.schema.target}
        return {
            name: Number(one.low, one.high, None if one.indicator else one.fill) if isinstance(one, Number) else one
            for name, one in (dict(self.schema.columns) | last).items()
        }

    @property
    def numbers(self) -> dict[str, Any]:
        """Return the columns with a mean: numbers, dates and booleans."""
        return {name: one for name, one in self.columns.items() if not isinstance(one, Category)}

    @property
    def listed(self) -> dict[str, Any]:
        """Return the columns that can group records: categories and booleans."""
        return {name: one for name, one in self.columns.items() if isinstance(one, Category | Boolean)}

    @property
    def sizes(self) -> dict[str, int]:
        """Return the number of cells of each: its values, other ones, and missing."""
        return {name: len(one.values) + 2 for name, one in self.listed.items()}

    @property
    def hot(self) -> dict[str, Any]:
        """Return the categories that are part of the Gram matrix, one column per value."""
        return {n: c for n, c in self.listed.items() if isinstance(c, Category) and len(c.values) <= _IN_MATRIX}

    def labels(self, grouping: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the names of the cells of a grouping."""
        return list(itertools.product(*([*map(str, self.listed[n].values), "(other)", "(missing)"] for n in grouping)))

    def budget(self, epsilon: float, delta: float, adjacency: Adjacency) -> tuple[GaussianRounds, list[str]]:
        """Return the certified composition, and the names of its counts in order."""
        enough = min(self.shares.values()) >= _LEAST_SHARE
        require(enough, "shares", "leave a millionth of the budget to each part", repr(dict(self.shares)))
        matrix, groups = self.shares.get("matrix", 0.0), len(self.groupings) - 1
        parts = {"sums 0": self.shares["means"]}
        parts |= {f"sums {i + 1}": self.shares["groups"] / groups for i in range(groups)}
        parts |= {"quantiles": self.shares["quantiles"]} if self.quantiles else {}
        parts |= {"norms": _NORMS * matrix} if self.matrix else {}
        gram = max(1.0 - math.fsum(parts.values()), 0.0) if self.matrix else 0.0
        how: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency}
        return GaussianRounds.calibrated(matrix_shares=[gram], count_shares=list(parts.values()), **how), list(parts)


def squared_reach(kind: str, numbers: int, adjacency: Adjacency, *, cells: int = 2) -> Fraction:
    """Bound the squared norm by which one record moves a part (thm:describe).

    >>> [str(squared_reach("sums", 2, adjacency)) for adjacency in ("add-remove", "replace-one")]
    ['49/16', '8']
    """
    replaced = adjacency == "replace-one"
    if kind != "sums":
        return Fraction(numbers if kind == "quantiles" else 1) * (2 if replaced else 1)
    alone = COUNT_WEIGHT**2 + numbers * (1 + SQUARE_WEIGHT**2)
    same = Fraction(max(4 * numbers, 1))  # 1 keeps the noise positive if there is no number: then nothing moves
    return alone if not replaced else same if cells == 1 else max(same, 2 * alone)


class Releases:
    """Read the table pass by pass, and keep what is released.

    Parameters
    ----------
    plan : Contents
    table : Table
    budget, parts
        As `Contents.budget` returned them.
    bits : RandomBits
    """

    def __init__(self, plan: Contents, table: Table, budget: GaussianRounds, parts: list[str], bits: Any) -> None:
        self._plan, self._table, self._budget, self._parts, self._bits = plan, table, budget, parts, bits
        self._wanted = table.columns_of(plan.schema, target=plan.schema.target is not None)
        self.values: dict[str, Floats] = {}
        self.noise: dict[str, float] = {}
        self.private = True

    def receipt(self) -> Receipt:
        """Make all passes, and write the receipt."""
        plan, budget = self._plan, self._budget
        self._first_pass()
        if plan.quantiles or plan.matrix:
            self._second_pass()
        if plan.matrix or len(plan.groupings) > 1:
            self._last_pass()
        parameters = budget.to_dict()
        guarantee: Any = {name: parameters.pop(name) for name in ("epsilon", "delta", "adjacency")}
        options = {"quantiles": plan.quantiles, "matrix": plan.matrix, "shares": dict(plan.shares)}
        parameters |= {"groups": [list(one) for one in plan.groupings if one], **options, "noise": self.noise}
        return Receipt("describe", {**parameters, "schema": plan.schema.to_toml()}, **guarantee, private=self.private)

    # ------------------------------------------------------------------ the passes

    def _first_pass(self) -> None:
        """Release the sums of the whole table, and choose centre and spread of every number from them."""
        D = len(self._plan.numbers)
        self._release_sums([0], self._passed(self._sums_of([0], np.zeros(D), np.ones(D)))[0])
        (totals,), noise = self.values["sums 0"], self.noise["sums 0"]
        records = np.maximum(totals[0] - totals[1 : 1 + D], 2.0 * noise / float(COUNT_WEIGHT))
        mean, squares = totals[1 + D : 1 + 2 * D] / records, totals[1 + 2 * D :] / records
        own = np.array([not isinstance(one, Boolean) for one in self._plan.numbers.values()])
        squares = np.where(own, squares, 1.0)  # −1 and 1 have this square
        counted = math.hypot(1.0 / float(COUNT_WEIGHT), 1.0)  # noise of records less missing cells
        slopes = own / float(SQUARE_WEIGHT), 2.0 * mean, (2.0 * mean**2 - own * squares) * counted
        error, variance = noise / records * np.linalg.norm(slopes, axis=0), squares - mean**2
        spread = np.clip(np.sqrt(np.maximum(variance, 0.0) + error), _LEAST_SPREAD, 1.0)
        self.values |= {"centre": np.clip(mean, -1.0, 1.0), "spread": spread, "variances": np.stack([variance, error])}
        # Next to a quartile of a normal law a bin has 1.8·n/bins records. The noise of a cumulated count is √bins/2
        # times that of a bin. Intervals are about as short, and errors as small, if the first is 1.2 times the second.
        bins = _FEWEST
        if self._plan.quantiles:
            error = self._budget.count_noise(self._parts.index("quantiles"), squared_reach=D)
            bins = min(max(round((_FINE * max(float(totals[0]), 1.0) / error) ** (2 / 3)), _FEWEST), _MOST)
        self.values["edges"] = np.array([_edges(*one, bins) for one in zip(self.values["centre"], spread, strict=True)])
        # Norms from half √D up to the farthest corner, each √2 times the last.
        first, farthest = 0.5 * math.sqrt(max(D, 1)), float(np.linalg.norm(reach(self.values)))
        steps = max(math.ceil(2.0 * math.log2(max(farthest, first) / first)), 2)
        self.values["norm edges"] = np.asarray(first * 2.0 ** (0.5 * np.arange(steps + 1)), dtype=np.float64)

    def _second_pass(self) -> None:
        """Release histograms of the numbers, and of the norms of centred and scaled rows."""
        edges, norms = self.values["edges"], self.values["norm edges"]
        D, sizes = len(edges), [len(inner) + 1 for inner in [*edges, norms]]
        scaled = self._scaled()

        def count(sums: list[Any], z: Floats, codes: Codes) -> None:
            columns = [*z.T, row_norms(scaled(z, codes))]
            for total, inner, column in zip(sums, [*edges, norms], columns, strict=True):
                place = np.searchsorted(inner, column[~np.isnan(column)], side="right")
                total.add(np.bincount(place, minlength=len(inner) + 1), len(z))

        (sums,) = self._passed((lambda: [IntegerSum(size, 1) for size in sizes], count))
        counts = [one.integers().astype(object) for one in sums]
        if self._plan.quantiles:
            self._release("quantiles", ExactArray(np.stack(counts[:D])))
        if self._plan.matrix:
            self._release("norms", ExactArray(counts[D]))

    def _last_pass(self) -> None:
        """Release the sums of the groupings, each number in a window, and the Gram matrix."""
        grouped = list(range(1, len(self._plan.groupings)))
        self.values["window"] = self._window()
        grouping = self._sums_of(grouped, *self.values["window"])
        if not self._plan.matrix:
            self._release_sums(grouped, self._passed(grouping)[0])
            return
        layout, weight = self._layout()
        hot, scaled = [(name, len(one.values)) for name, one in self._plan.hot.items()], self._scaled()

        def add(sums: list[Any], z: Floats, codes: Codes) -> None:
            """Add a block of records to the Gram matrix: their numbers, and a column per category."""
            rows = scaled(z, codes)
            blocks = [weight * np.eye(width + 2)[codes[name]][:, :width] for name, width in hot]
            sums[0].update(rows, np.concatenate(blocks, axis=1) if blocks else None, threads=1)

        sums, (gram,) = self._passed(grouping, (lambda: [GramAccumulator(layout)], add))
        self._release_sums(grouped, sums)
        sample = self._budget.release_matrix(0, gram.finish(), random_state=self._bits)
        self._note("gram", sample, self._budget.matrix_noise(0, layout.joint_norm_bound_squared))
        self.values["matrix"] = np.array([layout.row_norm_bound, float(layout.intercept or 0.0), weight])

    def _sums_of(self, which: Sequence[int], middle: Floats, half: Floats) -> Job:
        """Sum records, missing cells, numbers and squares per cell of these groupings, with numbers in a window."""
        sizes = [{name: self._plan.sizes[name] for name in self._plan.groupings[i]} for i in which]

        def add(sums: list[Any], z: Floats, codes: Codes) -> None:
            """Add a block of records to the sums of each grouping, as integers."""
            missing = np.isnan(z)
            inside = np.minimum(np.maximum((np.where(missing, middle, z) - middle) / half, -1.0), 1.0)
            q = np.where(missing, 0.0, np.rint(inside * 2.0**_BITS))
            terms = np.concatenate([np.ones((len(z), 1)), missing, q, q * q], axis=1)
            for total, dim in zip(sums, sizes, strict=True):
                place = np.zeros(len(z), dtype=np.intp)
                for name, size in dim.items():
                    place = place * size + codes[name]
                each = [np.bincount(place, column, math.prod(dim.values())) for column in terms.T]  # integers, exact
                total.add(np.stack(each, axis=1).astype(np.int64), len(z))

        width = 1 + 3 * len(self._plan.numbers)
        return lambda: [IntegerSum((math.prod(dim.values()), width), 2 * _BITS) for dim in sizes], add

    def _release_sums(self, which: Sequence[int], sums: Sequence[Any]) -> None:
        """Release the sums of some groupings, with the weights of counts, numbers and squares."""
        D, unit = len(self._plan.numbers), 2 ** (2 * _BITS + 1)
        scale = np.array([int(COUNT_WEIGHT * unit)] + [unit] * D + [2 ** (_BITS + 1)] * D + [1] * D, dtype=object)
        weights = np.array([float(COUNT_WEIGHT)] + [1.0] * 2 * D + [float(SQUARE_WEIGHT)] * D)
        for i, total in zip(which, sums, strict=True):
            exact = total.integers().astype(object) * scale
            self._release(f"sums {i}", ExactArray(exact, unit), cells=len(exact))
            self.values[f"sums {i}"] = self.values[f"sums {i}"] / weights

    def _window(self) -> Floats:
        """Return middle and half width of the interval to which a number of a group is clipped.

        It holds six spreads on either side, or more until little is expected outside by the laws of long rows, and
        all bins of the histogram that surely hold records. Without a histogram it grows with the number of records. A
        window that saves little is the whole range.
        """
        numbers, records = len(self._plan.numbers), max(float(self.values["sums 0"][0, 0]), 1.0)
        wide = np.full(numbers, _WINDOWS[0] if self._plan.quantiles else max(_WINDOWS[0], math.sqrt(records) / 20.0))
        if self._plan.matrix and len(self._plan.groupings) > 1:
            squares, rows, chances = long_rows(self.values, self.noise["norms"])
            own = squares[:, None] * column_shares(self.values, squares, self.noise)
            away = np.minimum(np.sqrt(own), reach(self.values))
            outside = np.maximum(away - _WINDOWS[:, None, None], 0.0)
            bound = squared_reach("sums", numbers, self._budget.adjacency)
            error = np.hypot(_WINDOWS * self._budget.count_noise(1, squared_reach=bound), math.sqrt(records))
            little = np.einsum("r,wrj->wj", chances @ rows, outside) <= _OUTSIDE * error[:, None]
            wide = np.maximum(wide, _WINDOWS[np.where(little.any(axis=0), little.argmax(axis=0), -1)])
        low, high = (self.values["centre"] + side * wide * self.values["spread"] for side in (-1, 1))
        for i, counts in enumerate(self.values.get("quantiles", ())):
            held = np.flatnonzero(counts > _CLEAR * self.noise["quantiles"])
            ends = np.concatenate([[-1.0], self.values["edges"][i], [1.0]])
            if len(held):
                low[i], high[i] = min(low[i], ends[held[0]]), max(high[i], ends[held[-1] + 1])
        low, high = np.maximum(low, -1.0), np.minimum(high, 1.0)
        whole = high - low > 1.95
        return np.stack([np.where(whole, 0.0, (low + high) / 2), np.where(whole, 1.0, (high - low) / 2)])

    def _layout(self) -> tuple[RowLayout, float]:
        """Return the bounds of a row of the Gram matrix, and the weight of a category next to the numbers.

        The clip of the numbers has the least sum of squared noise and squared bias, by the mean of its logarithm over
        the laws that the tail may have.
        """
        count, unit = len(self._plan.hot), self._budget.matrix_noise(0, Fraction(1))
        squares, rows, chances = long_rows(self.values, self.noise["norms"])
        tried = np.outer([1.0, 2.0**-0.25], self.values["norm edges"]).ravel()
        lost = rows @ np.maximum(squares[:, None] - tried**2, 0.0)
        error = np.log((unit * (1.1 * tried**2 + count)) ** 2 + lost**2 / 4)
        bound = float(tried[np.argmin(chances @ error)])
        weight = min(max(bound / math.sqrt(2.0 * max(count, 1)), 1.0), 2.0)
        width = sum(len(one.values) for one in self._plan.hot.values())
        hot: dict[str, Any] = {"targets": width, "target_bound": weight * math.sqrt(count)} if count else {}
        layout = RowLayout(features=len(self._plan.numbers), row_norm_bound=bound, intercept=max(bound / 3, 1.0), **hot)
        return layout, weight

    # ------------------------------------------------------------------ inside

    def _passed(self, *jobs: Job) -> list[list[Any]]:
        columns = self._plan.columns
        return summed(self._table, self._wanted, lambda cells: _values(columns, cells), *jobs)

    def _scaled(self) -> Callable[[Floats, Codes], Floats]:
        """Return what centres and scales rows, with NaN in one that misses a category: it counts as a zero row.

        It travels with every task, so it holds public values only, and not the table.
        """
        centre, spread = self.values["centre"], self.values["spread"]
        missing = {name: len(column.values) + 1 for name, column in self._plan.hot.items()}

        def scaled(z: Floats, codes: Codes) -> Floats:
            rows = np.asarray((z - centre) / spread)
            for name, code in missing.items():
                rows[codes[name] == code] = np.nan
            return rows

        return scaled

    def _release(self, name: str, sums: ExactArray, *, cells: int = 2) -> None:
        kind, index = name.partition(" ")[0], self._parts.index(name)
        bound = squared_reach(kind, len(self._plan.numbers), self._budget.adjacency, cells=cells)
        sample = self._budget.release_count(index, sums, squared_reach=bound, random_state=self._bits)
        self._note(name, sample, self._budget.count_noise(index, squared_reach=bound))

    def _note(self, name: str, sample: Any, noise: float) -> None:
        self.values[name] = np.asarray(sample.values, dtype=np.float64)
        self.noise[name] = noise
        self.private = self.private and sample.private


def summed(table: Table, wanted: Any, read: Callable[[list[Cells]], tuple[Any, ...]], *jobs: Job) -> list[list[Any]]:
    """Feed what `read` makes of all records to the sums of these jobs, where the records live, and merge the sums."""

    def each(opened: Table) -> list[list[Any]]:
        sums = [make() for make, _ in jobs]
        for cells in opened.cells(wanted):
            for start in range(0, len(cells[0]), _ROWS):
                values = read([one[start : start + _ROWS] for one in cells])
                for total, (_, add) in zip(sums, jobs, strict=True):
                    add(total, *values)
        return sums

    def join(several: list[list[list[Any]]]) -> list[list[Any]]:
        whole = [make() for make, _ in jobs]
        for sums in several:
            for total, one in zip(itertools.chain(*whole), itertools.chain(*sums), strict=True):
                total.merge(one)
        return whole

    return list(table.reduced(each, join))


def _values(columns: Mapping[str, Any], cells: Sequence[Cells]) -> tuple[Floats, Codes]:
    """Return the encoded numbers of records, and the code of every category or boolean; each record by itself."""
    numbers, codes = [np.empty((len(cells[0]), 0))], {}
    for (name, column), each in zip(columns.items(), cells, strict=True):
        read = column.read(each)
        if not isinstance(column, Category):
            numbers.append(column.encode_values(read))
        if isinstance(column, Category | Boolean):
            known = column._filled(read) if isinstance(column, Category) else column.codes(read)
            count = len(column.values)
            codes[name] = np.where(np.isnan(known), count + 1, np.where(known < 0, count, known)).astype(np.intp)
    return np.concatenate(numbers, axis=1), codes


def _edges(centre: float, spread: float, bins: int) -> Floats:
    """Return the inner edges of a number's bins: a quarter of them equal, the others near its centre, densest there.

    Half of the records lie much closer to the centre than the spread says if a few are far away.
    """
    place = np.linspace(-1.0, 1.0, 3 * bins // 4)
    near = np.clip(centre + 2.5 * spread * (_DENSE + (1.0 - _DENSE) * place**2) * place, -1.0, 1.0)
    return np.sort(np.concatenate([np.linspace(-1.0, 1.0, bins - len(near) + 1)[1:-1], near]))


def reach(values: Mapping[str, Floats]) -> Floats:
    """Return how many spreads the farther end of the range of every number is away from its centre."""
    return np.asarray((1.0 + np.abs(values["centre"])) / values["spread"])


def bins_away(values: Mapping[str, Floats]) -> Floats:
    """Return the squared distances of the bins of every number from its centre, in spreads."""
    ends = np.pad(values["edges"], ((0, 0), (1, 1)), constant_values=(-1.0, 1.0))
    middles = (ends[:, 1:] + ends[:, :-1]) / 2.0
    return np.asarray(((middles - values["centre"][:, None]) / values["spread"][:, None]) ** 2)


def column_shares(values: Mapping[str, Floats], squares: Floats, noise: Mapping[str, float]) -> Floats:
    """Return which share of rows of these squared norms each number has: by its range, and by its histogram.

    >>> values = {"centre": np.zeros(2), "spread": np.array([0.1, 0.1]), "edges": np.array([[-0.5, 0.5], [-0.5, 0.5]])}
    >>> values["quantiles"] = np.array([[100.0, 800.0, 100.0], [0.0, 1000.0, 0.0]])  # one number is seldom far away
    >>> column_shares(values, np.array([4.0]), {"quantiles": 10.0}).round(2).tolist()
    [[0.99, 0.01]]
    """
    own = np.minimum(squares[:, None], reach(values) ** 2)
    if "quantiles" in values:
        away = bins_away(values)
        away[away < _LONG] = 0.0
        unseen = _UNSEEN * noise["quantiles"] * np.linalg.norm(away, axis=1)
        # without a bin far away the numbers share by their ranges alone: the last term is the same for all
        own = own * (np.maximum((values["quantiles"] * away).sum(axis=1), 0.0) + unseen + 1e-9)
    return np.asarray(own / own.sum(axis=1, keepdims=True))


def long_rows(values: Mapping[str, Floats], noise: float) -> tuple[Floats, Floats, Floats]:
    """Return squared norms, how many rows have about this one by each law of the tail, and the weights of the laws.

    A few long columns may begin where most rows end. So laws are fitted to a tail that is long, and to a short one. No
    row is longer than ranges allow, so none is beyond the last edge.

    >>> values = {"centre": np.zeros(1), "spread": np.array([0.4]), "norm edges": 2.0 ** np.arange(0, 2, 0.5)}
    >>> squares, rows, weights = long_rows({**values, "norms": np.array([0.0, 100.0, 2.0, 0.0, 0.0])}, 0.1)
    >>> squares[::4].round(2).tolist(), (weights @ rows).reshape(4, 4).sum(axis=1).round(1).tolist()
    ([0.55, 1.09, 2.18, 4.36], [0.0, 100.0, 1.3, 0.7])
    """
    edges, counts, fits = values["norm edges"], values["norms"], []
    for share in _TAILS:
        start, count, laws, fit = tails(edges[:-1], counts[:-1], noise, share, far=True)
        expected = -count * np.diff(laws[:, : 4 * (len(edges) - 1 - start)], append=0.0)
        known = np.tile(np.repeat(np.maximum(counts[: start + 1], 0.0) / 4.0, 4), (len(laws), 1))
        fits.append(np.hstack([known, expected, np.exp(fit - logsumexp(fit))[:, None] / len(_TAILS)]))
    every, lengths = np.concatenate(fits), edges[0] * 2.0 ** ((np.arange(4 * len(edges)) - 3.5) / 8.0)
    return np.minimum(lengths, np.linalg.norm(reach(values))) ** 2, every[:, :-1], every[:, -1]
