"""Release base statistics of a table once: sums per cell, histograms, and a Gram matrix of centred columns.

All of it is one composition of Gaussian releases with shares fixed in advance (thm:rounds). The data are read up to
three times, record by record:

1. ¾·records, missing cells, Σz and ½Σz² of every number z in [−1, 1], the encoded one;
2. a histogram of every number, and one of the norms of the rows after centring and scaling by what step 1 released;
3. the sums of step 1 per cell of every grouping, with every number clipped to a window that steps 1 and 2 chose; and the
   Gram matrix of the centred rows, clipped to a norm that step 2 chose, with Σ(z/R)⁴ of every number.

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
from sklearn.isotonic import isotonic_regression

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

__all__ = ["CLIPPING", "COUNT_WEIGHT", "Plan", "Releases", "all_columns", "clipped", "squared_reach", "tail"]

COUNT_WEIGHT, SQUARE_WEIGHT = Fraction(3, 4), Fraction(1, 2)  # of a record and of a square beside a sum
SHARES = {"means": 0.25, "groups": 0.25, "quantiles": 0.10, "matrix": 0.40}
GROUPED = {**SHARES, "means": 0.08, "groups": 0.92}  # without the matrix
_NORMS, _FOURTH = 0.25, 0.08  # parts of the matrix's share, for its histogram of norms and for the fourth powers
_BITS = 15  # a number lies on the grid 2⁻¹⁵ of half its range
_POWER_BITS = 20  # a fourth power lies on the grid 2⁻²⁰
_BELOW = 1.0 - 2.0**-30  # more than the roundings of a row's norm and powers can add, for up to 2¹² columns
_ROWS = 1 << 20  # rows of one block: sums of integers up to 2³⁰ are then exact in float64
CLIPPING = 0.5  # of all that clipping took from the squared norms, the part that one statistic may miss
_CLEAR = 2.5  # standard deviations of noise above which a bin surely holds records
_BINS = 40  # of a number's histogram: half of them equal, half of them near its centre
_LEAST_SPREAD = 2.0**-10  # of half a range: a column is not stretched further
_CELLS = 1000  # a grouping by default has at most this many cells
_IN_MATRIX = 64  # a category with more values stays out of the Gram matrix
_WINDOW = 6.0  # spreads around the centre that the window of a number holds, at least
Codes = list[NDArray[np.intp]]
Job = tuple[Callable[[], list[Any]], Callable[[list[Any], Floats, Codes], None]]  # makes sums, and adds records to them


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
        held = {"means": True, "groups": bool(asked), "quantiles": quantiles and numbers, "matrix": matrix}
        default = SHARES if matrix or not asked else GROUPED
        weights = {**default, **(shares or {})}
        wrong = [name for name in weights if name not in SHARES]
        if wrong or not all(isinstance(weights[n], int | float) and 0 < weights[n] < math.inf for n in SHARES):
            raise ParameterError("shares", f"give positive numbers to {', '.join(SHARES)}", repr(shares))
        total = math.fsum(weights[name] for name, there in held.items() if there)
        divided = {name: weights[name] / total for name, there in held.items() if there}
        return cls(schema, ((), *asked), held["quantiles"], matrix, divided)

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
        parts = {
            name: self.shares["groups"] / (len(grouped) - 1) if grouping else self.shares["means"]
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
        self._first_pass()
        if plan.quantiles or plan.matrix:
            self._second_pass()
        if plan.matrix or len(plan.groupings) > 1:
            self._last_pass()
        options = {"quantiles": plan.quantiles, "matrix": plan.matrix, "shares": dict(plan.shares)}
        parameters = {
            **{name: value for name, value in budget.to_dict().items() if name not in _GUARANTEE},
            **{"groups": [list(one) for one in plan.groupings if one], **options, "noise": self.noise, **public},
            "schema": plan.schema.to_toml(),
        }
        guarantee = (budget.target_epsilon, budget.target_delta, budget.adjacency)
        return Receipt("describe", parameters, *guarantee, private=self.private)

    # ------------------------------------------------------------------ the passes

    def _first_pass(self) -> None:
        """Release the sums of the whole table, and choose centre and spread of every number from them."""
        D = len(self._plan.numbers)
        (sums,) = self._passed(self._sums_of([0], np.zeros(D), np.ones(D)))
        self._release_sums([0], sums)
        totals, noise = self.values["sums 0"][0], self.noise["sums 0"]
        records = np.maximum(totals[0] - totals[1 : 1 + D], 2.0 * noise / float(COUNT_WEIGHT))
        centre = np.clip(totals[1 + D : 1 + 2 * D] / records, -1.0, 1.0)
        error = noise / records * np.sqrt(float(SQUARE_WEIGHT) ** -2 + 4.0 * centre**2)
        variance = np.maximum(totals[1 + 2 * D :] / records - centre**2, 0.0) + error
        self.values |= {"centre": centre, "spread": np.clip(np.sqrt(variance), _LEAST_SPREAD, 1.0)}
        self.values["edges"] = np.array([_edges(*each) for each in zip(centre, self.values["spread"], strict=True)])
        farthest = float(np.linalg.norm((1.0 + np.abs(centre)) / self.values["spread"]))
        self.values["norm edges"] = _norm_edges(D, farthest)

    def _second_pass(self) -> None:
        """Release histograms of the numbers, and of the norms of centred and scaled rows."""
        edges, norms = self.values["edges"], self.values["norm edges"]

        def count(sums: list[Any], z: Floats, codes: Codes) -> None:
            here = [np.bincount(_bins(inner, one), minlength=_BINS + 1) for inner, one in zip(edges, z.T, strict=True)]
            sums[0].add(np.stack(here)[:, :_BINS], len(z))

        def measure(sums: list[Any], z: Floats, codes: Codes) -> None:
            length = row_norms(self._scaled(z, codes))
            place = np.searchsorted(norms, length[~np.isnan(length)])
            sums[0].add(np.bincount(place, minlength=len(norms) + 1), len(z))

        jobs: dict[str, Job] = {
            "quantiles": (lambda: [IntegerSum((len(edges), _BINS), 1)], count),
            "norms": (lambda: [IntegerSum(len(norms) + 1, 1)], measure),
        }
        held = [name for name in jobs if name in self._parts]
        for name, (total,) in zip(held, self._passed(*(jobs[name] for name in held)), strict=True):
            self._release(name, ExactArray(total.integers().astype(object)))

    def _last_pass(self) -> None:
        """Release the sums of the groupings, each number in a window, and the Gram matrix with fourth powers."""
        grouped = list(range(1, len(self._plan.groupings)))
        middle, half = self._window()
        self.values["window"] = np.stack([middle, half])
        jobs = [self._sums_of(grouped, middle, half)]
        if self._plan.matrix:
            layout, weight = self._layout()
            jobs.append((lambda: [GramAccumulator(layout), IntegerSum(layout.features, _POWER_BITS)], self._rows(layout, weight)))
        sums, *matrix = self._passed(*jobs)
        self._release_sums(grouped, sums)
        for gram, fourth in matrix:
            sample = self._budget.release_gram(gram.finish(), random_state=self._bits)
            self._note("gram", sample, self._budget.gram_noise(layout.joint_norm_bound_squared))
            if "fourth" in self._parts:
                self._release("fourth", ExactArray(fourth.integers().astype(object), 2**_POWER_BITS))
            self.values["matrix"] = np.array([layout.row_norm_bound, float(layout.intercept or 0.0), weight])

    # ------------------------------------------------------------------ what is summed

    def _sums_of(self, which: Sequence[int], middle: Floats, half: Floats) -> Job:
        """Sum records, missing cells, numbers and squares per cell of these groupings, with numbers in a window."""
        plan, D = self._plan, len(self._plan.numbers)
        groupings = [plan.groupings[i] for i in which]
        sizes = [[len(plan.listed[name].values) + 2 for name in one] for one in groupings]
        order = list(plan.listed)

        def add(sums: list[Any], z: Floats, codes: Codes) -> None:
            missing = np.isnan(z)
            inside = np.minimum(np.maximum((np.where(missing, middle, z) - middle) / half, -1.0), 1.0)
            q = np.where(missing, 0.0, np.rint(inside * 2.0**_BITS))
            terms = np.concatenate([np.ones((len(z), 1)), missing, q, q * q], axis=1)
            for total, grouping, dim in zip(sums, groupings, sizes, strict=True):
                place = np.zeros(len(z), dtype=np.intp)
                for name, size in zip(grouping, dim, strict=True):
                    place = place * size + codes[order.index(name)]
                each = [np.bincount(place, column, math.prod(dim)) for column in terms.T]  # integers, exact
                total.add(np.stack(each, axis=1).astype(np.int64), len(z))

        return lambda: [IntegerSum((math.prod(dim), 1 + 3 * D), 2 * _BITS) for dim in sizes], add

    def _release_sums(self, which: Sequence[int], sums: Sequence[Any]) -> None:
        D, unit = len(self._plan.numbers), 2 ** (2 * _BITS + 1)
        scale = [int(COUNT_WEIGHT * unit)] + [unit] * D + [2 ** (_BITS + 1)] * D + [1] * D
        weights = np.array([float(COUNT_WEIGHT)] + [1.0] * 2 * D + [float(SQUARE_WEIGHT)] * D)
        for i, total in zip(which, sums, strict=True):
            exact = total.integers().astype(object) * np.array(scale, dtype=object)
            self._release(f"sums {i}", ExactArray(exact, unit), cells=len(exact))
            self.values[f"sums {i}"] = self.values[f"sums {i}"] / weights

    def _window(self) -> tuple[Floats, Floats]:
        """Return middle and half width of the interval to which a number of a group is clipped.

        It holds six spreads on either side, and all bins of the histogram that surely hold records. Without a
        histogram it grows with the number of records. A window that saves little is the whole range.
        """
        centre, spread = self.values["centre"], self.values["spread"]
        records = max(float(self.values["sums 0"][0, 0]), 1.0)
        wide = _WINDOW if "quantiles" in self.values else max(_WINDOW, math.sqrt(records) / 12.0)
        low, high = centre - wide * spread, centre + wide * spread
        for i, counts in enumerate(self.values.get("quantiles", ())):
            held = np.flatnonzero(counts > _CLEAR * self.noise["quantiles"])
            ends = np.concatenate([[-1.0], self.values["edges"][i], [1.0]])
            if len(held):
                low[i], high[i] = min(low[i], ends[held[0]]), max(high[i], ends[held[-1] + 1])
        low, high = np.maximum(low, -1.0), np.minimum(high, 1.0)
        whole = high - low > 1.8
        return np.where(whole, 0.0, (low + high) / 2), np.where(whole, 1.0, (high - low) / 2)

    def _layout(self) -> tuple[RowLayout, float]:
        """Return the bounds of a row of the Gram matrix, and the weight of a category beside the numbers."""
        D, widths = len(self._plan.numbers), [len(one.values) for one in self._plan.in_matrix.values()]
        box = math.sqrt(max(len(widths), 1))
        if not D:
            return RowLayout(features=sum(widths), row_norm_bound=box, intercept=1.0), 1.0
        unit = self._budget.gram_noise(Fraction(1))
        bound = _norm_bound(self.values["norm edges"], self.values["norms"], self.noise["norms"], unit, len(widths))
        weight = min(max(bound / (math.sqrt(2.0) * box), 1.0), 2.0)
        hot: dict[str, Any] = {"targets": sum(widths), "target_bound": weight * box} if widths else {}
        return RowLayout(features=D, row_norm_bound=bound, intercept=max(bound / 3, 1.0), **hot), weight

    def _rows(self, layout: RowLayout, weight: float) -> Callable[[list[Any], Floats, Codes], None]:
        plan = self._plan
        blocks = [(list(plan.listed).index(name), len(one.values)) for name, one in plan.in_matrix.items()]

        def add(sums: list[Any], z: Floats, codes: Codes) -> None:
            hot = [weight * np.eye(width + 2)[codes[place]][:, :width] for place, width in blocks]
            whole = np.concatenate([np.empty((len(z), 0)), *hot], axis=1)
            numbers = self._scaled(z, codes)
            first, *second = [part for part in (numbers, whole) if part.shape[1]]
            if not z.shape[1]:
                first = np.where(np.isnan(numbers).any(axis=1)[:, None], np.nan, first)
            sums[0].update(first, *second, threads=1)
            sums[1].add(_fourth_powers(first / layout.row_norm_bound).sum(axis=0).astype(np.int64), len(z))

        return add

    # ------------------------------------------------------------------ inside

    def _passed(self, *jobs: Job) -> list[list[Any]]:
        """Feed the values of all records to the sums of these jobs, where the records live, and merge the sums."""
        wanted, columns = self._wanted, list(all_columns(self._plan.schema).values())

        def each(opened: Table) -> list[list[Any]]:
            sums = [make() for make, _ in jobs]
            for cells in opened.cells(wanted):
                for start in range(0, len(cells[0]), _ROWS):
                    values = _values(columns, [one[start : start + _ROWS] for one in cells])
                    for total, (_, add) in zip(sums, jobs, strict=True):
                        add(total, *values)
            return sums

        def join(several: list[list[list[Any]]]) -> list[list[Any]]:
            whole = [make() for make, _ in jobs]
            for sums in several:
                for total, one in zip(itertools.chain(*whole), itertools.chain(*sums), strict=True):
                    total.merge(one)
            return whole

        return list(self._table.reduced(each, join))

    def _scaled(self, z: Floats, codes: Codes) -> Floats:
        """Return centred and scaled rows; NaN in a row that misses a category, so that it counts as a zero row."""
        rows = (z - self.values["centre"]) / self.values["spread"] if z.shape[1] else np.zeros((len(z), 1))
        places = list(self._plan.listed)
        for name, column in self._plan.in_matrix.items():
            rows[codes[places.index(name)] == len(column.values) + 1] = np.nan
        return rows if z.shape[1] else rows[:, :1]

    def _release(self, name: str, sums: ExactArray, *, cells: int = 2) -> None:
        part, index = name.partition(" ")[0], self._parts.index(name)
        reach = squared_reach(part, len(self._plan.numbers), self._budget.adjacency, cells=cells)
        sample = self._budget.release_count(index, sums, squared_reach=reach, random_state=self._bits)
        self._note(name, sample, self._budget.count_noise(index, squared_reach=reach))

    def _note(self, name: str, sample: Any, noise: float) -> None:
        self.values[name] = np.asarray(sample.values, dtype=np.float64)
        self.noise[name] = noise
        self.private = self.private and sample.private


_GUARANTEE = ("epsilon", "delta", "adjacency")


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

    >>> clipped(np.array([1.0, 2.0]), np.array([0.0, 10.0, 0.0]), 0.1, 1.0)
    22.5
    """
    squares, rows = tail(edges, counts, noise)
    return float(np.maximum(squares - bound**2, 0.0) @ rows)


def tail(edges: Floats, counts: Floats, noise: float) -> tuple[Floats, Floats]:
    """Return the squared norm of every bin, and how many rows it holds, with the noise smoothed.

    Counts beyond the largest one are taken to fall, and beyond the last one that is clear of its noise at a constant
    rate, which their sum gives.
    """
    mode = int(np.argmax(counts))
    falling = isotonic_regression(counts[mode:], increasing=False)
    positive = np.maximum(np.concatenate([counts[:mode], falling]), 0.0)
    last = int(np.flatnonzero(positive > _CLEAR * noise)[-1:].sum())
    after = np.arange(len(counts)) - last
    beyond = counts[last + 1 :].sum() + noise * math.sqrt(len(counts) - last - 1)
    relative = max(float(beyond), 0.0) / max(float(positive[last]), 1.0)
    rate = min(max(relative / (1.0 + relative), 0.05), 0.5)
    rows = np.where(after > 0, positive[last] * rate ** np.maximum(after, 0), positive)
    return np.append(edges, edges[-1] * math.sqrt(2.0)) ** 2 * 0.75, rows
