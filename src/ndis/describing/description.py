"""Describe a table: one release, and every linear statistic of it with a standard error and an interval."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import chdtrc, fdtrc, ndtr, ndtri
from sklearn.isotonic import isotonic_regression

from ndis._validate import Adjacency, Floats, as_adjacency, as_probability, require
from ndis.data.opening import open_for
from ndis.data.schema import Boolean, Date, Schema
from ndis.describing.release import COUNT_WEIGHT, Contents, Releases, bins_away, column_shares, long_rows
from ndis.describing.statistics import NoisyMoments, paired, quantile_of, ratio
from ndis.describing.tables import StatisticTable, report
from ndis.ledger import pay
from ndis.mechanisms.mechanism import Receipt, announce
from ndis.noise.bits import random_bits

_COUNT = 1.0 / float(COUNT_WEIGHT)  # noise of a count, in that of a sum
_HIDDEN = "unknown: the noise hides these columns together; fewer columns, a larger epsilon or more records show them"
_NOT_NEGATIVE = (0.0, math.inf)


def describe(
    data: Any, *, schema: Schema, epsilon: float, delta: float, adjacency: Adjacency = "add-remove",
    groups: Any = None, quantiles: bool = True, matrix: bool = True, shares: Mapping[str, float] | None = None,
    columns: Any = None, header: bool = False, progress: bool | None = None, random_state: Any = None,
    ledger: str | os.PathLike[str] | None = None, slot: str | None = None,
) -> Description:  # fmt: skip
    """Release the base statistics of a private table once; every table that follows costs nothing more.

    Parameters
    ----------
    data, columns, header, progress
        As for `Schema.table`: frames, Arrow tables, mappings, files, folders, dask.
    schema : Schema
        What is public about the table. Its target is one column among the others here.
    epsilon, delta : float
        The guarantee of everything together.
    adjacency : {"add-remove", "replace-one"}
    groups : list of names, or of tuples of names, optional
        The groupings to release counts, sums and squares of: categories and booleans, or several of them crossed. By
        default every category and boolean on its own; an empty list for none.
    quantiles : bool
        Release a histogram of every number.
    matrix : bool
        Release the matrix that variances, correlations, cross tables, regressions and components come from.
    shares : mapping, optional
        Weights of the parts "means", "groups", "quantiles" and "matrix" in the budget.
    random_state : optional
        None draws from the operating system. Anything else is reproducible, warns, and is not private.
    ledger, slot : optional
        The `ndis.Ledger` that pays, and the slot of its plan. It reserves before data is read.

    Examples
    --------
    >>> import numpy as np, ndis
    >>> rng = np.random.default_rng(0)
    >>> ward = rng.choice(["A", "B"], 5000)
    >>> cost = rng.normal(900, 100, 5000) + 200 * (ward == "B")
    >>> table = {"age": rng.normal(50, 10, 5000), "ward": ward, "cost": cost}
    >>> schema = ndis.Schema({"age": (0, 100), "ward": ["A", "B"], "cost": (0, 3000)})
    >>> d = ndis.describe(table, schema=schema, epsilon=1.0, delta=1e-6)
    >>> d.means().to_frame().columns.tolist()
    ['estimate', 'standard_error', 'low', 'high']
    >>> bool(d.groups("ward").to_frame().loc[("B", "cost"), "estimate"] > 1000)
    True
    >>> bool(abs(d.regress("cost", on=["age", "ward"]).to_frame().loc["ward=B", "estimate"] - 200) < 80)
    True
    """
    plan = Contents.of(schema, groups, quantiles, matrix, shares)
    table = open_for(schema, data, columns=columns, header=header, progress=progress)
    budget, parts = plan.budget(epsilon, delta, as_adjacency(adjacency))
    releases = Releases(plan, table, budget, parts, random_bits(random_state))

    def make() -> Description:
        announce(budget)
        with np.errstate(all="ignore"):  # no warning or error of NumPy may follow a reservation
            return Description(releases.values, releases.receipt())

    return pay(budget, make, ledger=ledger, slot=slot, random_state=random_state)


def _among(name: Any, names: Any) -> bool:
    """Return whether a name, or a tuple of names, is one of some; it may be anything."""
    return all(isinstance(one, str) for one in (name if isinstance(name, tuple) else (name,))) and name in names


@dataclass(frozen=True, eq=False)
class Description:
    """Hold one release and answer questions from it. No answer reads data, so none costs any budget.

    Attributes
    ----------
    values : mapping of arrays
        What was released.
    receipt : Receipt

    Examples
    --------
    >>> import ndis
    >>> schema = ndis.Schema({"age": (0, 100), "ward": ["A", "B"]})
    >>> table = {"age": np.tile([40.0, 60.0], 500), "ward": np.tile(["A", "B"], 500)}
    >>> description = ndis.describe(table, schema=schema, epsilon=1.0, delta=1e-6)
    >>> description.means().to_frame().index.tolist()
    ['age']
    >>> description.receipt.words
    '(1, 10⁻⁶)-differentially private, add-remove'
    """

    values: Mapping[str, Floats]
    receipt: Receipt
    plan: Contents = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "receipt", self.receipt.bound_to(**self.values))
        options = (self.receipt.parameters[name] for name in ("groups", "quantiles", "matrix", "shares"))
        object.__setattr__(self, "plan", Contents.of(Schema.from_receipt(self.receipt), *options))

    def __repr__(self) -> str:
        size = f"about {self._totals[0]:,.0f} records, {len(self.plan.columns)} columns"
        return f"Description({size}, {self.receipt.words})"

    # ------------------------------------------------------------------ counts and means

    def records(self, level: float = 0.95) -> StatisticTable:
        """Return the number of records, and of missing cells per number."""
        missing = [(i, name) for i, (name, one) in enumerate(self.plan.numbers.items()) if one.fill is None]
        values = np.append(self._totals[0], [self._totals[1 + i] for i, _ in missing])
        errors = self._noise["sums 0"] * np.append(_COUNT, np.ones(len(missing)))
        index = [("records",), *((f"missing: {name}",) for _, name in missing)]
        return StatisticTable.normal("Records", ("name",), index, (values, errors), level, ends=_NOT_NEGATIVE)

    def means(self, level: float = 0.95) -> StatisticTable:
        """Return the mean of every number, over the cells that are there; of a boolean, the share of true."""
        rows = [self._mean(self._totals, 0, name, level) for name in self.plan.numbers]
        return StatisticTable.of("Means", ("name",), zip(self.plan.numbers), rows, level, dates=self._dates)

    def groups(self, *by: str, level: float = 0.95) -> StatisticTable:
        """Return count, share and the mean of every number for each category of one grouping.

        Missing cells and values that are not listed are categories too.
        """
        place, z = self._grouping(by), quantile_of(level)
        error, whole = self._noise[f"sums {place}"] * _COUNT, self._noise["sums 0"] * _COUNT
        index: list[tuple[str, ...]] = []
        rows: list[Any] = []
        for label, sums in zip(self.plan.labels(by), self.values[f"sums {place}"], strict=True):
            named = not {"(other)", "(missing)"} & set(label) or sums[0] > 2 * z * error
            if not named and len(by) > 1:
                continue  # a crossing has many cells of other or missing values
            numbers = [other for other in self.plan.numbers if other not in by and named]
            share = min(max(sums[0] / max(self._totals[0], 1.0), 0.0), 1.0)
            own = error**2 + max(self._totals[0], 0.0) * share * (1.0 - share)
            rows.append((sums[0], error, max(sums[0] - z * error, 0.0), max(sums[0] + z * error, 0.0)))
            rows.append(ratio(sums[0], self._totals[0], own=own, below=whole**2, z=z, ends=(0.0, 1.0)))
            rows += [self._mean(sums, place, other, level) for other in numbers]
            index += [(", ".join(label), each) for each in ("count", "share", *numbers)]
        return StatisticTable.of(f"By {' and '.join(by)}", ("category", "name"), index, rows, level, dates=self._dates)

    def table(self, rows: str, columns: str, level: float = 0.95) -> StatisticTable:
        """Return the count of every pair of categories.

        If the pair is one of the `groups` of the release, the counts come from there, with less noise. Otherwise they
        come from the matrix, which holds the records without a missing cell.
        """
        names, title = (rows, columns), f"{rows} by {columns}"
        for step in (1, -1):
            if _among(names[::step], self.plan.groupings):
                place = self.plan.groupings.index(names[::step])
                index = [label[::step] for label in self.plan.labels(names[::step])]
                values = self.values[f"sums {place}"][:, 0]
                errors = np.full(len(index), self._noise[f"sums {place}"] * _COUNT)
                return StatisticTable.normal(title, names, index, (values, errors), level, ends=_NOT_NEGATIVE)
        left, right = self._indicators(rows), self._indicators(columns)
        index = [(a, b) for a in left for b in right]
        pairs = [(left[a], right[b]) for a, b in index]
        values = np.array([one @ self.values["gram"] @ other for one, other in pairs])
        errors = self._noise["gram"] * np.array([np.linalg.norm(paired(a[None], b, 1.0)[0]) for a, b in pairs])
        notes = ("records without a missing cell",)
        return StatisticTable.normal(title, names, index, (values, errors), level, notes, _NOT_NEGATIVE)

    def compare(self, name: str, *, by: str, level: float = 0.95) -> StatisticTable:
        """Return the differences of group means from the first group, and test that all means are equal.

        Variances may differ between the groups (Welch). Groups that the noise hides are left out.
        """
        place = self._grouping((by,))
        cells = zip(self.plan.labels((by,))[:-2], self.values[f"sums {place}"], strict=False)
        means = {label: self._mean(sums, place, name, level) for (label,), sums in cells}
        known = {label: row for label, row in means.items() if np.isfinite(row[1])}
        require(len(known) > 1, "by", "have two groups that the noise does not hide", f"{len(known)} of them")
        values, errors = np.array([row[:2] for row in known.values()], dtype=np.float64).T
        weights = errors**-2.0
        statistic = float(weights @ (values - weights @ values / weights.sum()) ** 2)
        chance = chdtrc(len(known) - 1, statistic)
        notes = [f"equal means: chi-square {statistic:.4g} on {len(known) - 1} degrees, p = {chance:.3g}"]
        notes += [f"hidden by the noise: {label}" for label in means if label not in known]
        first, *others = known
        index = [(f"{label} \u2212 {first}",) for label in others]
        apart = values[1:] - values[0], np.hypot(errors[1:], errors[0])
        return StatisticTable.normal(f"{name} by {by}", ("difference",), index, apart, level, notes)

    # ------------------------------------------------------------------ second moments

    def variances(self, level: float = 0.95) -> StatisticTable:
        """Return the variance of every number."""
        rows = self._products([(i, i) for i in range(len(self.plan.numbers))], level)
        return StatisticTable.of("Variances", ("name",), zip(self.plan.numbers), rows, level, self._complete)

    def covariance(self, level: float = 0.95) -> StatisticTable:
        """Return the covariance of every pair of numbers."""
        return self._by_pair("Covariances", lambda pairs: self._products(pairs, level), level, itself=True)

    def correlation(self, level: float = 0.95) -> StatisticTable:
        """Return the correlation of every pair of numbers; intervals are Fieller's."""
        moments, z = self._averaged, quantile_of(level)
        return self._by_pair("Correlations", lambda pairs: [moments.correlation(i, j, z) for i, j in pairs], level)

    def regress(
        self, target: str, *, on: Sequence[str] | None = None, against: Sequence[str] | None = None, level: float = 0.95
    ) -> StatisticTable:
        """Fit least squares of a number on any of the other columns.

        Parameters
        ----------
        target : str
            A number or a boolean.
        on : names, optional
            The features; by default all other columns. A category is fitted against its first value.
        against : names, optional
            A smaller set of features. An F test says whether the others add to it.
        level : float
        """
        moments, (centre, scale) = replace(self._moments, chances=self._averaged.chances), self._units
        target = str(target)
        on = [name for name in self._places if name != target] if on is None else on
        require(np.iterable(on), "on", "be a list of names", repr(on))
        require(against is None or np.iterable(against), "against", "be a list of names", repr(against))
        chosen, against = list(on), None if against is None else list(against)
        wrong = [name for name in (*chosen, *(against or ())) if not _among(name, self._places) or name == target]
        good, rule = _among(target, self.plan.numbers), "be columns of the matrix, the target a number"
        require(good and chosen and not wrong, "target and on", rule, repr(wrong or target))
        terms = [(name, label, i) for name in chosen for label, i in self._places[name][name in self.plan.hot :]]
        y, index, k = self._places[target][0][1], [i for _, _, i in terms], len(terms)
        labels = [*((label,) for _, label, _ in terms), ("(intercept)",)]
        if not moments.clear(index):
            hidden = np.array([[math.nan], [math.inf]]) * np.ones(k + 1)
            return StatisticTable.normal(target, ("name",), labels, hidden, level, (_HIDDEN,))
        V = moments.covariance[np.ix_([*index, y], [*index, y])]
        inverse = np.linalg.inv(V[:k, :k])
        beta = inverse @ V[:k, k]
        residual = np.append(-beta, [1.0, 0.0])  # its coefficients in the features, the target and the constant
        rows = np.zeros((k + 1, k + 2))
        rows[:k, :k], rows[k, -1] = inverse, 1.0
        errors = moments.error(paired(rows, residual, moments.records), [*index, y], kurtosis=False)
        # In original units, and with the intercept at zero of every feature.
        units, middle = scale[y] / scale[index], centre[index] + moments.mean[index] * scale[index]
        A = np.diag([*units, scale[y]])
        A[-1, :-1] = -middle * units
        values = np.append(beta * units, centre[y] + moments.mean[y] * scale[y] - beta @ (middle * units))
        full = A @ errors @ A.T
        left = float(residual[:-1] @ V @ residual[:-1]) / V[k, k]
        notes = [f"R² {min(1.0 - left, 1.0):.3f}; errors assume residuals of equal variance", *self._complete]
        if against is not None:
            extra = [i for i, (name, _, _) in enumerate(terms) if name not in against]
            require(extra, "against", "leave out a feature", repr(against))
            test = float(values[extra] @ np.linalg.solve(full[np.ix_(extra, extra)], values[extra])) / len(extra)
            freedom = max(moments.records - k - 1, 1.0)
            chance = fdtrc(len(extra), freedom, test)
            without = ", ".join(name for name in chosen if name not in against)
            notes.append(f"without {without}: F {test:.4g} on {len(extra)} and {freedom:.0f} degrees, p = {chance:.3g}")
        return StatisticTable.normal(target, ("name",), labels, (values, np.sqrt(np.diagonal(full))), level, notes)

    def pca(self, components: int, level: float = 0.95) -> StatisticTable:
        """Return variances and loadings of the first principal components of the numbers, each in its spread."""
        names, moments = list(self.plan.numbers), self._moments
        whole = isinstance(components, int) and 1 <= components <= len(names)
        require(whole, "components", f"be a whole number from 1 to {len(names)}", components)
        variances, loadings, errors, negative = moments.components(list(range(len(names))), components)
        values = np.concatenate([variances[:, None], loadings], axis=1).ravel()
        index = [(f"component {i + 1}", each) for i in range(components) for each in ("variance", *names)]
        notes = ["columns are in units of their released spreads", *self._complete]
        notes += [f"{negative} eigenvalues below zero were set to zero: the noise hides them"] if negative else []
        return StatisticTable.normal("Components", ("component", "name"), index, (values, errors.ravel()), level, notes)

    # ------------------------------------------------------------------ quantiles

    def quantiles(
        self, name: str, probabilities: Sequence[float] = (0.25, 0.5, 0.75), level: float = 0.95
    ) -> StatisticTable:
        """Return a table of quantiles of a number, from its histogram. Intervals end at edges of bins."""
        held = self.plan.quantiles and _among(name, self.plan.numbers)
        require(held, "name", "be a number of a release with quantiles=True", repr(name))
        place, z = list(self.plan.numbers).index(name), quantile_of(level)
        noise, total_noise = self._noise["quantiles"], self._noise["sums 0"]
        counts, inner, column = self.values["quantiles"][place], self.values["edges"][place], self.plan.numbers[name]
        ends = column.centre + column.half_width * np.concatenate([[-1.0], inner, [1.0]])
        below, bins = np.cumsum(counts), np.arange(1, len(counts) + 1)
        records = max(self._totals[0] - self._totals[1 + place], 2 * total_noise)
        # What is below an edge is known from both sides; each sum has the noise of its bins.
        other = total_noise**2 * (_COUNT**2 + 1.0) + noise**2 * (len(counts) - bins)
        weight = other / (other + noise**2 * bins)
        cumulated = weight * below + (1 - weight) * (records - (below[-1] - below))
        cdf = np.pad(isotonic_regression(cumulated[:-1] / records, y_min=0.0, y_max=1.0), 1, constant_values=(0.0, 1.0))
        spread = np.concatenate([[0.0], np.sqrt(noise**2 * bins * weight)[:-1] / records, [0.0]])
        rows, asked = [], np.ravel(as_probability("probabilities", probabilities))
        for p in asked:
            # The quantile lies in a bin if F ≤ p at its lower end and F ≥ p at its upper one. The chance of counts that
            # speak against it as much as these is largest if F = p at the nearer end.
            error = np.sqrt(spread**2 + p * (1 - p) / records)
            over = (cdf - p) / error
            chance = ndtr(-np.maximum(over[:-1], -over[1:])) + ndtr(np.minimum(over[:-1], -over[1:]))
            places = np.flatnonzero(chance >= min(1.0 - level, chance.max()))
            low, high = ends[places[0]], ends[places[-1] + 1]
            # The mean over what the noise and sampling may have done to F: with few records it has less error.
            rising = cdf + np.arange(len(cdf)) * 1e-12
            near = p + float(np.interp(p, rising, error)) * ndtri((np.arange(40) + 0.5) / 40)
            value = float(np.clip(np.interp(near, rising, ends).mean(), low, high))
            rows.append((value, (high - low) / (2 * z), low, high))
        index = [(f"{100 * p:g}%",) for p in asked]
        dates = tuple(each for (each,) in index) if name in self._dates else ()
        return StatisticTable.of(f"Quantiles of {name}", ("quantile",), index, rows, level, dates=dates)

    # ------------------------------------------------------------------ pages

    def tables(self) -> list[StatisticTable]:
        """Return the tables of the report."""
        shown = [self.records(), self.means(), *(self.groups(*by) for by in self.plan.groupings if by)]
        if self.plan.matrix and len(self.plan.numbers) > 1:
            shown.append(self.correlation())
        names = [name for name, one in self.plan.numbers.items() if not isinstance(one, Boolean)]
        each = {name: self.quantiles(name) for name in names if self.plan.quantiles}
        index = [(name, *quantile) for name, one in each.items() for quantile in one.index]
        rows = [row for one in each.values() for row in one.rows()]
        table = StatisticTable.of("Quantiles", ("name", "quantile"), index, rows, 0.95, dates=self._dates)
        return [*shown, *([table] if rows else [])]

    def to_html(self, path: str | os.PathLike[str] | None = None, *, title: str = "A table in numbers") -> str:
        """Return a page with the main tables for readers, and write it to `path` if one is given."""
        return report("describe.html.jinja", path, self.tables(), self.receipt, title=title)

    def plot(self, ax: Any = None) -> Any:
        """Draw the means with their intervals, and return the matplotlib axes."""
        return self.means().plot(ax)

    # ------------------------------------------------------------------ inside

    @property
    def _totals(self) -> Floats:
        return np.asarray(self.values["sums 0"][0])

    @property
    def _dates(self) -> tuple[str, ...]:
        return tuple(name for name, one in self.plan.numbers.items() if isinstance(one, Date))

    @property
    def _noise(self) -> Mapping[str, float]:
        return dict(self.receipt.parameters["noise"])

    def _grouping(self, by: tuple[str, ...]) -> int:
        held = [one if len(one) > 1 else one[0] for one in self.plan.groupings if one]
        good = by and _among(by, self.plan.groupings)
        require(good, "by", f"be a grouping of the release, among {held}", repr(by), "groups= states them")
        return self.plan.groupings.index(by)

    def _mean(self, sums: Floats, grouping: int, name: str, level: float) -> tuple[float, ...]:
        """Return the mean of a number in its units, from the sums of one cell of a grouping."""
        require(_among(name, self.plan.numbers), "name", f"be a number, one of {list(self.plan.numbers)}", repr(name))
        place, D, column = list(self.plan.numbers).index(name), len(self.plan.numbers), self.plan.numbers[name]
        absent = column.fill is None  # otherwise no cell is missing
        total, squares = sums[1 + D + place], sums[1 + 2 * D + place]
        count, noise = sums[0] - absent * sums[1 + place], self._noise[f"sums {grouping}"]
        centre = min(max(total / max(count, 1.0), -1.0), 1.0)
        variance = min(max(squares / max(count, 1.0) - centre**2, 0.0), 1.0 - centre**2)
        how = {"own": noise**2 + max(count, 0.0) * variance, "below": noise**2 * (_COUNT**2 + absent)}
        row = ratio(total, count, **how, z=quantile_of(level), ends=(-1.0, 1.0))
        middle, half = self.values["window"][:, place] if grouping and math.isfinite(row[1]) else (0.0, 1.0)
        scale, shift = column.half_width * half, column.centre + column.half_width * middle
        return row[0] * scale + shift, row[1] * scale, row[2] * scale + shift, row[3] * scale + shift

    def _by_pair(self, title: str, rows: Callable[[Any], Any], level: float, *, itself: bool = False) -> StatisticTable:
        """Return a table of pairs of numbers."""
        names = list(self.plan.numbers)
        pairs = [(i, j) for i in range(len(names)) for j in range(i + (not itself), len(names))]
        index, levels = [(names[i], names[j]) for i, j in pairs], ("row", "column")
        return StatisticTable.of(title, levels, index, rows(pairs), level, self._complete, symmetric=True)

    def _products(self, pairs: Sequence[tuple[int, int]], level: float) -> list[Floats]:
        """Return covariances of numbers with standard errors and intervals, in original units."""
        moments, scale, z = self._averaged, self._units[1], quantile_of(level)
        return [np.array(moments.product(i, j, z)) * scale[i] * scale[j] for i, j in pairs]

    @cached_property
    def _moments(self) -> NoisyMoments:
        """Return the moments from the released matrix, with what clipping took and how far tails reach."""
        require(self.plan.matrix, "matrix", "be part of the release for this", False, "describe(..., matrix=True)")
        (bound, constant, weight), D = self.values["matrix"].tolist(), len(self.plan.numbers)
        plain = NoisyMoments.of(self.values["gram"], noise=self._noise["gram"], constant=constant)
        squares, rows, chances = long_rows(self.values, self._noise["norms"])
        # A clipped row loses what is beyond the bound, each column its share.
        spread, beyond = self.values["spread"], np.maximum(squares - bound**2, 0.0)
        own = column_shares(self.values, squares, self._noise)
        # The last law has no weight, and loses nothing.
        lost = np.pad((rows * beyond) @ own, ((0, 1), (0, len(plain.mean) - D)))
        variances = np.append(self.values["variances"][0] / spread**2, np.diagonal(plain.covariance)[D:]).clip(1e-3)
        apart = np.where([isinstance(one, Boolean) for one in self.plan.numbers.values()], 2.0 / spread, 0.0)
        apart = np.append(apart, np.full(len(variances) - D, weight))
        # Rows that are longer than normal ones make the kurtosis, each column by its share.
        long = np.minimum(squares, bound**2)[:, None] * own * (squares > 4.0 * D)[:, None]
        excess = np.pad((chances @ rows) @ long**2 / (2.0 * plain.records), (0, len(variances) - D))
        if self.plan.quantiles:  # the histogram of a number tells its fourth moment, if its range is not too wide
            fourth = bins_away(self.values) ** 2
            unit = plain.records * variances[:D] ** 2
            kurtosis = (self.values["quantiles"] * fourth).sum(axis=1) / unit - 3.0
            error = self._noise["quantiles"] * np.linalg.norm(fourth, axis=1) / unit
            excess[:D] += (kurtosis - excess[:D]) / (1.0 + error**2)
        excess = np.where(apart > 0.0, apart**2 / variances - 6.0, excess)  # a column may hold two values so far apart
        chances = np.append(chances, 0.0)[:, None]
        return replace(plain, excess=np.maximum(excess, -2.0) / 3.0, lost=lost, chances=chances)

    @cached_property
    def _averaged(self) -> NoisyMoments:
        """Return the moments with the variances of the first sums averaged in, if these hold the same records.

        A regression needs all products of the same clipped rows.
        """
        variances, errors = self.values["variances"] / self.values["spread"] ** 2
        # An error so large leaves the first sums out.
        return self._moments.with_variances(variances, errors + (1e9 if self._complete else 0.0))

    @cached_property
    def _complete(self) -> tuple[str, ...]:
        left = self._totals[0] - self._moments.records
        noise = math.hypot(self._noise["sums 0"] * _COUNT, self._moments.noise / self._moments.constant**2)
        return (f"only complete records count: about {left:,.0f} are left out",) if left > 3.0 * noise else ()

    @cached_property
    def _units(self) -> tuple[Floats, Floats]:
        """Return centre and scale of every column of the matrix, in original units."""
        numbers = self.plan.numbers.values()
        half, middle = np.array([one.half_width for one in numbers]), np.array([one.centre for one in numbers])
        others = len(self.values["gram"]) - 1 - len(half)
        scale = np.append(half * self.values["spread"], np.full(others, 1.0 / self.values["matrix"][2]))
        return np.append(middle + half * self.values["centre"], np.zeros(others)), scale

    @cached_property
    def _places(self) -> dict[str, list[tuple[str, int]]]:
        """Return labels and places of the columns of the matrix."""
        columns = {**self.plan.numbers, **self.plan.hot}
        labels = [(name, label) for name, one in columns.items() for label in one.labels(name)]
        return {name: [(label, i) for i, (own, label) in enumerate(labels) if own == name] for name in columns}

    def _indicators(self, name: str) -> dict[str, Floats]:
        """Return, for every value of a category or boolean, the row whose product with a record is 1 or 0."""
        _, constant, weight = (self._moments, *self.values["matrix"].tolist())[1:]
        unit = np.eye(len(self.values["gram"]))
        if _among(name, self.plan.hot):
            places = zip(self.plan.hot[name].values, self._places[name], strict=True)
            return {str(value): unit[i] / weight for value, (_, i) in places}
        good = _among(name, self.plan.listed) and name in self.plan.numbers
        require(good, "rows and columns", "be categories or booleans of the matrix", repr(name))
        i = self._places[name][0][1]
        true = unit[i] * self.values["spread"][i] / 2 + unit[-1] * (1.0 + self.values["centre"][i]) / (2 * constant)
        return {"False": unit[-1] / constant - true, "True": true}
