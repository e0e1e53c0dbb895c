"""Release base statistics of a table once: sums per cell, histograms, and a Gram matrix of centred columns.

All of it is one composition of Gaussian releases with shares fixed in advance (thm:rounds). The data are read up to
three times, record by record:

1. per cell of every grouping: ¾·records, missing cells, Σz and ½Σz² of every number z in [−1, 1], the encoded one;
2. a histogram of every number, and one of the norms of the rows after centring and scaling by what step 1 released;
3. the Gram matrix of these rows, clipped to a norm that step 2 chose, and Σ(z/R)⁴ of every number.

The squared sensitivities are those of thm:describe, with D numbers. If a record comes or goes: 9/16 + 5D/4 per
grouping, D and 1 for the histograms, 1 for the fourth powers, l⁴ for the Gram matrix. If a record is replaced:
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

from ndis._exact import ExactArray
from ndis._validate import Adjacency, Floats, as_adjacency
from ndis.data.cells import Cells
from ndis.data.schema import Boolean, Category, Schema
from ndis.data.schema.changed import row_norms
from ndis.data.table import Table
from ndis.errors import ParameterError
from ndis.gram import GramAccumulator, RowLayout
from ndis.gram.accumulator import IntegerSum
from ndis.mechanisms.receipt import Receipt
from ndis.mechanisms.rounds import GaussianRounds

__all__ = ["CLIPPING", "COUNT_WEIGHT", "Plan", "Releases", "all_columns", "clipped", "squared_reach", "whole_table"]

COUNT_WEIGHT, SQUARE_WEIGHT = Fraction(3, 4), Fraction(1, 2)  # of a record and of a square beside a sum
SHARES = {"means": 0.25, "groups": 0.25, "quantiles": 0.10, "matrix": 0.40}
_NORMS, _FOURTH = 0.12, 0.08  # parts of the matrix's share, for its histogram of norms and for the fourth powers
_BITS = 15  # a number lies on the grid 2⁻¹⁵ of half its range
_POWER_BITS = 20  # a fourth power lies on the grid 2⁻²⁰
_BELOW = 1.0 - 2.0**-30  # more than the roundings of a row's norm and powers can add, for up to 2¹² columns
_ROWS = 1 << 20  # rows of one block: sums of integers up to 2³⁰ are then exact in float64
CLIPPING = 0.3  # of all that clipping took from the squared norms, the part that one statistic may miss
_CLEAR = 2.5  # standard deviations of noise above which a bin surely holds records
_BINS = 40  # of a number's histogram: half of them equal, half of them near its centre
_LEAST_SPREAD = 2.0**-10  # of half a range: a column is not stretched further
_CELLS = 1000  # a grouping by default has at most this many cells
_IN_MATRIX = 64  # a category with more values stays out of the Gram matrix
Codes = list[NDArray[np.intp]]


@dataclass(frozen=True)
class Plan:
    """State what a release holds. Everything here is public.

    Parameters
    ----------
    schema : Schema
    groupings : tuple of tuples of names
        Of columns that are categories or booleans. The empty grouping has one cell, the whole table.
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
    def of(
        cls, schema: Schema, *, groups: Any = None, quantiles: bool = True, matrix: bool = True, shares: Any = None
    ) -> Plan:
        """Check the options, and divide the budget among the parts that the release holds."""
        columns = all_columns(schema)
        listed = {name: len(column.values) + 2 for name, column in columns.items() if hasattr(column, "values")}
        given = [name for name, cells in listed.items() if cells <= _CELLS] if groups is None else list(groups)
        asked = [(one,) if isinstance(one, str) else tuple(one) for one in given]
        for name in (name for one in asked for name in one):
            if name not in listed:
                rule = f"name categories or booleans of the schema, among {', '.join(map(repr, listed)) or 'none'}"
                raise ParameterError("groups", rule, repr(name))
        if len({frozenset(one) for one in asked}) < len(asked) or not all(asked):
            raise ParameterError("groups", "name each grouping once", repr(groups))
        if any(math.prod(listed[name] for name in one) > 1 << 20 for one in asked):
            raise ParameterError("groups", "have at most 2^20 cells each", repr(groups))
        numbers = any(not isinstance(column, Category) for column in columns.values())
        whole = [()] if matrix or not asked else []
        held = {"means": bool(whole), "groups": bool(asked), "quantiles": quantiles and numbers, "matrix": matrix}
        weights = {**SHARES, **(shares or {})}
        wrong = [name for name in weights if name not in SHARES]
        if wrong or not all(isinstance(weights[n], int | float) and 0 < weights[n] < math.inf for n in SHARES):
            raise ParameterError("shares", f"give positive numbers to {', '.join(SHARES)}", repr(shares))
        total = math.fsum(weights[name] for name, there in held.items() if there)
        divided = {name: weights[name] / total for name, there in held.items() if there}
        return cls(schema, (*whole, *asked), held["quantiles"], matrix, divided)

    @property
    def numbers(self) -> dict[str, Any]:
        """Return the columns with a mean: numbers, dates and booleans, the target included."""
        return {name: one for name, one in all_columns(self.schema).items() if not isinstance(one, Category)}

    @property
    def listed(self) -> dict[str, Any]:
        """Return the columns that can group records: categories and booleans."""
        return {name: one for name, one in all_columns(self.schema).items() if isinstance(one, Category | Boolean)}

    @property
    def in_matrix(self) -> dict[str, Any]:
        """Return the categories that are part of the Gram matrix."""
        all_listed = self.listed.items()
        return {n: one for n, one in all_listed if isinstance(one, Category) and len(one.values) <= _IN_MATRIX}

    def labels(self, grouping: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the names of the cells of a grouping."""
        each = [[str(value) for value in self.listed[name].values] + ["(other)", "(missing)"] for name in grouping]
        return list(itertools.product(*each))

    def budget(self, epsilon: float, delta: float, adjacency: Adjacency) -> tuple[GaussianRounds, list[str]]:
        """Return the certified composition, and the names of its counts in order."""
        grouped = [f"sums {i}" for i in range(len(self.groupings))]
        groups = sum(map(bool, self.groupings))
        parts = {
            name: self.shares["groups"] / groups if grouping else self.shares["means"]
            for name, grouping in zip(grouped, self.groupings, strict=True)
        }
        parts |= {"quantiles": self.shares["quantiles"]} if self.quantiles else {}
        matrix = self.shares.get("matrix", 0.0)
        parts |= {"norms": _NORMS * matrix, "fourth": _FOURTH * matrix} if matrix and self.numbers else {}
        gram = max(1.0 - math.fsum(parts.values()), 0.0) if matrix else 0.0
        how: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency}
        return GaussianRounds.calibrated(gram_share=gram, count_shares=list(parts.values()), **how), list(parts)


def all_columns(schema: Schema) -> dict[str, Any]:
    """Return the columns of a schema with its target as the last of them."""
    return dict(schema.columns) | ({} if schema.target_name is None else {schema.target_name: schema.target})


def squared_reach(part: str, numbers: int, adjacency: Adjacency, *, cells: int = 2) -> Fraction:
    """Bound the squared norm by which one record moves a part (thm:describe).

    >>> [str(squared_reach("sums", 2, adjacency)) for adjacency in ("add-remove", "replace-one")]
    ['49/16', '8']
    """
    replaced = as_adjacency(adjacency) == "replace-one"
    if part != "sums":
        return Fraction(numbers if part == "quantiles" else 1) * (2 if replaced else 1)
    alone = COUNT_WEIGHT**2 + numbers * (1 + SQUARE_WEIGHT**2)
    if not replaced:
        return alone
    same = Fraction(max(4 * numbers, 1))  # 1 keeps the noise positive if there is no number: then nothing moves
    return same if cells == 1 else max(same, 2 * alone)


class Releases:
    """Read the table pass by pass, and keep what is released.

    Parameters
    ----------
    plan : Plan
    table : Table
    budget, parts
        As `Plan.budget` returned them.
    bits : RandomBits
    """

    def __init__(self, plan: Plan, table: Table, budget: GaussianRounds, parts: list[str], bits: Any) -> None:
        self._plan, self._table, self._budget, self._parts, self._bits = plan, table, budget, parts, bits
        self._wanted = table.columns_of(plan.schema, target=plan.schema.target is not None)
        self.values: dict[str, Floats] = {}
        self.noise: dict[str, float] = {}
        self.private = True

    def receipt(self, **public: Any) -> Receipt:
        """Make all passes, and write the receipt."""
        plan, budget = self._plan, self._budget
        self._release_sums()
        if plan.quantiles or plan.matrix:
            self._release_rows()
        options = {"quantiles": plan.quantiles, "matrix": plan.matrix, "shares": dict(plan.shares)}
        parameters = {
            **{name: value for name, value in budget.to_dict().items() if name not in _GUARANTEE},
            **{"groups": [list(one) for one in plan.groupings if one], **options, "noise": self.noise, **public},
            "schema": plan.schema.to_toml(),
        }
        guarantee = (budget.target_epsilon, budget.target_delta, budget.adjacency)
        return Receipt("describe", parameters, *guarantee, private=self.private)

    # ------------------------------------------------------------------ the passes

    def _release_sums(self) -> None:
        plan, width = self._plan, 1 + 3 * len(self._plan.numbers)
        cells = [len(plan.labels(one)) for one in plan.groupings]
        dims = [[len(plan.listed[name].values) + 2 for name in one] for one in plan.groupings]
        order = list(plan.listed)

        def add(sums: list[Any], z: Floats, codes: Codes) -> None:
            missing = np.isnan(z)
            q = np.rint(np.where(missing, 0.0, z) * 2.0**_BITS)
            terms = np.concatenate([np.ones((len(z), 1)), missing, q, q * q], axis=1)
            for total, grouping, dim, count in zip(sums, plan.groupings, dims, cells, strict=True):
                place = np.zeros(len(z), dtype=np.intp)
                for name, size in zip(grouping, dim, strict=True):
                    place = place * size + codes[order.index(name)]
                each = [np.bincount(place, column, count) for column in terms.T]  # integers, exact
                total.add(np.stack(each, axis=1).astype(np.int64), len(z))

        sums = self._passed(lambda: [IntegerSum((count, width), 2 * _BITS) for count in cells], add)
        numbers = len(plan.numbers)
        scale = [int(COUNT_WEIGHT * 2 ** (2 * _BITS + 1))] + [2 ** (2 * _BITS + 1)] * numbers
        scale += [2 ** (_BITS + 1)] * numbers + [1] * numbers
        for i, (total, count) in enumerate(zip(sums, cells, strict=True)):
            exact = total.integers().astype(object) * np.array(scale, dtype=object)
            self._release(f"sums {i}", ExactArray(exact, 2 ** (2 * _BITS + 1)), cells=count)
            weights = np.array([float(COUNT_WEIGHT)] + [1.0] * 2 * numbers + [float(SQUARE_WEIGHT)] * numbers)
            self.values[f"sums {i}"] = self.values[f"sums {i}"] / weights

    def _release_rows(self) -> None:
        plan, D = self._plan, len(self._plan.numbers)
        centre, spread = self._centres()
        farthest = float(np.linalg.norm((1.0 + np.abs(centre)) / spread)) if D else 0.0
        norms = _norm_edges(D, farthest)
        edges = [_edges(c, s) for c, s in zip(centre.tolist(), spread.tolist(), strict=True)]
        made = {"quantiles": (D, _BINS), "norms": (len(norms) + 1,)}
        made = {name: shape for name, shape in made.items() if name in self._parts}

        def count(sums: list[Any], z: Floats, codes: Codes) -> None:
            for name, total in zip(made, sums, strict=True):
                if name == "quantiles":
                    here = [np.bincount(_bins(inner, column), minlength=_BINS + 1) for inner, column in zip(edges, z.T)]
                    total.add(np.stack(here)[:, :_BINS], len(z))
                else:
                    rows = self._complete((z - centre) / spread, codes)
                    length = row_norms(rows)
                    total.add(np.bincount(np.searchsorted(norms, length[~np.isnan(length)]), minlength=len(norms) + 1), len(z))

        sums = self._passed(lambda: [IntegerSum(shape, 1) for shape in made.values()], count) if made else []
        for name, total in zip(made, sums, strict=True):
            self._release(name, ExactArray(total.integers().astype(object)))
        self.values |= {"edges": np.array(edges)} if plan.quantiles else {}
        if plan.matrix:
            self._release_matrix(centre, spread, norms)

    def _release_matrix(self, centre: Floats, spread: Floats, norms: Floats) -> None:
        plan, D = self._plan, len(centre)
        widths = [len(one.values) for one in plan.in_matrix.values()]
        places = [list(plan.listed).index(name) for name in plan.in_matrix]
        box = math.sqrt(max(len(widths), 1))
        unit = self._budget.gram_noise(Fraction(1))
        bound = _norm_bound(norms, self.values["norms"], self.noise["norms"], unit, box**2) if D else box
        hot = bool(D and widths)
        weight = min(max(bound / (math.sqrt(2.0) * box), 1.0), 2.0) if hot else 1.0  # of a category beside the numbers
        layout = RowLayout(
            features=D or sum(widths), row_norm_bound=bound, targets=sum(widths) if hot else 0,
            target_bound=weight * box if hot else None, intercept=max(bound / 3, 1.0),
        )  # fmt: skip

        def add(sums: list[Any], z: Floats, codes: Codes) -> None:
            rows = self._complete((z - centre) / spread, codes)
            blocks = [weight * np.eye(width + 2)[codes[place]][:, :width] for place, width in zip(places, widths, strict=True)]
            whole = np.concatenate([np.empty((len(z), 0)), *blocks], axis=1)
            if D:
                sums[0].update(rows, whole if hot else None, threads=1)
                sums[1].add(_fourth_powers(rows / bound).sum(axis=0).astype(np.int64), len(z))
            else:
                sums[0].update(self._complete(whole, codes), threads=1)

        def make() -> list[Any]:
            return [GramAccumulator(layout), *([IntegerSum(D, _POWER_BITS)] if D else [])]

        gram, *fourth = self._passed(make, add)
        sample = self._budget.release_gram(gram.finish(), random_state=self._bits)
        self._note("gram", sample, self._budget.gram_noise(layout.joint_norm_bound_squared))
        for total in fourth:
            self._release("fourth", ExactArray(total.integers().astype(object), 2**_POWER_BITS))
        self.values |= {"centre": centre, "spread": spread, "norm edges": norms}
        self.values["matrix"] = np.array([bound, float(layout.intercept or 0.0), weight])

    # ------------------------------------------------------------------ inside

    def _passed(self, make: Callable[[], list[Any]], add: Callable[[list[Any], Floats, Codes], None]) -> list[Any]:
        """Feed the values of all records to sums, where the records live, and merge the sums."""
        wanted, columns = self._wanted, list(all_columns(self._plan.schema).values())

        def each(opened: Table) -> list[Any]:
            sums = make()
            for cells in opened.cells(wanted):
                for start in range(0, len(cells[0]), _ROWS):
                    add(sums, *_values(columns, [one[start : start + _ROWS] for one in cells]))
            return sums

        def join(several: list[list[Any]]) -> list[Any]:
            whole = make()
            for sums in several:
                for total, one in zip(whole, sums, strict=True):
                    total.merge(one)
            return whole

        return list(self._table.reduced(each, join))

    def _complete(self, rows: Floats, codes: Codes) -> Floats:
        """Return the rows with NaN in those that miss a category, so that they count as zero rows."""
        places = list(self._plan.listed)
        for name, column in self._plan.in_matrix.items():
            rows[codes[places.index(name)] == len(column.values) + 1] = np.nan
        return rows

    def _release(self, name: str, sums: ExactArray, *, cells: int = 2) -> None:
        part, index = name.partition(" ")[0], self._parts.index(name)
        reach = squared_reach(part, len(self._plan.numbers), self._budget.adjacency, cells=cells)
        sample = self._budget.release_count(index, sums, squared_reach=reach, random_state=self._bits)
        self._note(name, sample, self._budget.count_noise(index, squared_reach=reach))

    def _note(self, name: str, sample: Any, noise: float) -> None:
        self.values[name] = np.asarray(sample.values, dtype=np.float64)
        self.noise[name] = noise
        self.private = self.private and sample.private

    def _centres(self) -> tuple[Floats, Floats]:
        """Return centre and spread of every number, from the released sums; a spread is rather too wide."""
        totals, noise = whole_table(self._plan, self.values, self.noise)
        D = len(self._plan.numbers)
        records = np.maximum(totals[0] - totals[1 : 1 + D], 2.0 * noise / float(COUNT_WEIGHT))
        centre = np.clip(totals[1 + D : 1 + 2 * D] / records, -1.0, 1.0)
        error = noise / records * np.sqrt(float(SQUARE_WEIGHT) ** -2 + 4.0 * centre**2)
        variance = np.maximum(totals[1 + 2 * D :] / records - centre**2, 0.0) + error
        return centre, np.clip(np.sqrt(variance), _LEAST_SPREAD, 1.0)


_GUARANTEE = ("epsilon", "delta", "adjacency")


def whole_table(plan: Plan, values: Mapping[str, Floats], noise: Mapping[str, float]) -> tuple[Floats, float]:
    """Return the sums of the whole table with their noise: released, or added up from the least grouping."""
    i = min(range(len(plan.groupings)), key=lambda i: len(values[f"sums {i}"]))
    cells = values[f"sums {i}"]
    return cells.sum(axis=0), noise[f"sums {i}"] * math.sqrt(len(cells))


def _values(columns: Sequence[Any], cells: Sequence[Cells]) -> tuple[Floats, Codes]:
    """Return the encoded numbers of records, and the code of every category or boolean; each record by itself."""
    numbers, codes = [], []
    for column, each in zip(columns, cells, strict=True):
        read = column.read(each)
        if not isinstance(column, Category):
            numbers.append(column.encode_values(read).ravel())
        if isinstance(column, Category | Boolean):
            count, known = len(column.values), column._filled(read) if isinstance(column, Category) else column.codes(read)
            codes.append(np.where(np.isnan(known), count + 1, np.where(known < 0, count, known)).astype(np.intp))
    length = len(cells[0])
    return np.stack(numbers, axis=1) if numbers else np.empty((length, 0)), codes


def _fourth_powers(rows: Floats) -> Floats:
    """Return integers near 2²⁰·x⁴ of rows clipped to norm 1, of norm at most 2²⁰; zeros for a row with NaN.

    ‖(x⁴)‖ ≤ ‖x‖⁴ ≤ 1 up to roundings, which are below 2⁻³⁰, and truncation only shortens.

    >>> _fourth_powers(np.array([[0.5, 0.0], [3.0, 4.0], [np.nan, 0.0]])).tolist()
    [[65535.0, 0.0], [135895.0, 429496.0], [0.0, 0.0]]
    """
    length = row_norms(rows)
    inside = rows * np.where(length > 1.0, 1.0 / np.where(length > 1.0, length, 1.0), 1.0)[:, None]
    squares = inside * inside
    powers = np.trunc(squares * squares * (2.0**_POWER_BITS * _BELOW))
    return np.where(np.isnan(length)[:, None], 0.0, powers)


def _edges(centre: float, spread: float) -> list[float]:
    """Return the inner edges of a number's bins: half of them equal, half of them near its centre."""
    near = np.clip(centre + 2.5 * spread * np.linspace(-1.0, 1.0, _BINS // 2), -1.0, 1.0)
    return np.sort(np.concatenate([np.linspace(-1.0, 1.0, _BINS - _BINS // 2 + 1)[1:-1], near])).tolist()


def _bins(inner: list[float], column: Floats) -> NDArray[np.intp]:
    """Return the bin of every value, and one bin more for missing ones."""
    return np.where(np.isnan(column), _BINS, np.searchsorted(inner, column, side="right"))


def _norm_edges(numbers: int, farthest: float) -> Floats:
    """Return norms from half the root of the number of columns up to the farthest corner, each √2 times the last."""
    first = 0.5 * math.sqrt(max(numbers, 1))
    steps = max(math.ceil(2.0 * math.log2(max(farthest, first) / first)), 1)
    return first * 2.0 ** (0.5 * np.arange(steps + 1))


def _norm_bound(edges: Floats, counts: Floats, noise: float, unit: float, other: float) -> float:
    """Choose the clip of rows with the least sum of squared noise and squared bias of the matrix."""
    tried = np.concatenate([edges, edges * 2.0**-0.25])
    cost = [(unit * (1.1 * r * r + other)) ** 2 + (CLIPPING * clipped(edges, counts, noise, r)) ** 2 for r in tried]
    return float(tried[int(np.argmin(cost))])


def clipped(edges: Floats, counts: Floats, noise: float, bound: float) -> float:
    """Estimate Σ (‖z‖² − bound²)⁺ over all rows from the noisy histogram of norms.

    A bin counts if it is clear of its noise. Beyond the last clear bin the counts are taken to fall at a constant rate.

    >>> clipped(np.array([1.0, 2.0]), np.array([0.0, 10.0, 0.0]), 0.1, 1.0)
    12.5
    """
    middles = np.append(edges, edges[-1] * math.sqrt(2.0)) ** 2 * 0.75
    positive = np.maximum(counts, 0.0)
    last = int(np.flatnonzero(counts > _CLEAR * noise)[-1:].sum())
    rate = min(max(positive[last] / max(positive[last - 1], 1.0), 0.05), 0.4) if last else 0.05
    after = np.arange(len(counts)) - last
    guess = np.minimum(positive[last] * rate ** np.maximum(after, 0), positive + noise)
    return float(np.maximum(middles - bound**2, 0.0) @ np.where(after > 0, guess, positive))
