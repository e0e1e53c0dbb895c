"""Describe a table: one release, and every linear statistic of it with a standard error and an interval."""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import chdtrc, erfc, fdtrc
from sklearn.isotonic import isotonic_regression

from ndis._files import loads, only_keys, write_file
from ndis._validate import Adjacency, Floats, as_adjacency
from ndis._version import __version__
from ndis.data.opening import open_for
from ndis.data.schema import Boolean, Schema
from ndis.describing.release import CLIPPING, COUNT_WEIGHT, Plan, Releases, clipped, tail
from ndis.describing.statistics import NoisyMoments, mean_gradient, product_gradient, quantile_of, ratio
from ndis.describing.tables import FREE, StatisticTable
from ndis.errors import ParameterError
from ndis.ledger import pay
from ndis.mechanisms.mechanism import announce
from ndis.mechanisms.receipt import Receipt
from ndis.noise.bits import random_bits
from ndis.pages.html import render

__all__ = ["Description", "describe"]

_PRIOR = 3.0  # standard deviation of an excess kurtosis before its noisy estimate is seen
_HIDDEN = "unknown: the noise hides these columns together; fewer columns, a larger epsilon or more records show them"
_EQUAL = "errors assume residuals of equal variance"


def describe(
    data: Any,
    *,
    schema: Schema,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "add-remove",
    groups: Any = None,
    quantiles: bool = True,
    matrix: bool = True,
    shares: Mapping[str, float] | None = None,
    columns: Any = None,
    header: bool = False,
    progress: bool | None = None,
    random_state: Any = None,
    ledger: str | os.PathLike[str] | None = None,
    slot: str | None = None,
) -> Description:
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
    >>> table = {"age": rng.normal(50, 10, 5000), "ward": ward, "cost": rng.normal(900, 100, 5000) + 200 * (ward == "B")}
    >>> schema = ndis.Schema({"age": (0, 100), "ward": ["A", "B"], "cost": (0, 3000)})
    >>> d = ndis.describe(table, schema=schema, epsilon=1.0, delta=1e-6)
    >>> d.means().to_frame().columns.tolist()
    ['estimate', 'standard_error', 'low', 'high']
    >>> d.groups("ward").to_frame().loc[("B", "cost"), "estimate"] > 1000
    True
    >>> abs(d.regress("cost", on=["age", "ward"]).to_frame().loc["ward=B", "estimate"] - 200) < 80
    True
    """
    plan = Plan.of(schema, groups=groups, quantiles=quantiles, matrix=matrix, shares=shares)
    table = open_for(schema, data, columns=columns, header=header, progress=progress)
    budget, parts = plan.budget(epsilon, delta, as_adjacency(adjacency))
    releases = Releases(plan, table, budget, parts, random_bits(random_state))

    def make() -> Description:
        announce(budget)
        receipt = releases.receipt()
        return Description(releases.values, receipt)

    return pay(budget, make, ledger=ledger, slot=slot, random_state=random_state)


@dataclass(frozen=True, eq=False)
class Description:
    """Hold one release and answer questions from it. No answer reads data, so none costs any budget.

    Attributes
    ----------
    values : mapping of arrays
        What was released.
    receipt : Receipt
    """

    values: Mapping[str, Floats]
    receipt: Receipt
    plan: Plan = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", {name: _fixed(value) for name, value in self.values.items()})
        object.__setattr__(self, "receipt", self.receipt.bound_to(**self.values))
        held = self.receipt.parameters
        schema = Schema.from_dict(tomllib.loads(held["schema"]))
        options = {name: held[name] for name in ("groups", "quantiles", "matrix", "shares")}
        object.__setattr__(self, "plan", Plan.of(schema, **options))

    def __repr__(self) -> str:
        rows = f"about {self._totals[0][0]:,.0f} records, {len(self.plan.numbers)} numbers"
        return f"Description({rows}, {len(self.plan.listed)} groupings, {self.receipt.words})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write values and receipt as one JSON file."""
        content = {"values": {k: v.tolist() for k, v in self.values.items()}, "receipt": self.receipt.to_dict()}
        write_file(path, json.dumps(content, allow_nan=False).encode() + b"\n", name="path")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Description:
        """Read what `save` wrote."""
        with open(path, "rb") as file:
            content = only_keys("release", loads("release", file.read()), ("values", "receipt"))
        return cls(content["values"], Receipt.from_saved(json.dumps(content["receipt"])))

    # ------------------------------------------------------------------ counts and means

    def records(self, level: float = 0.95) -> StatisticTable:
        """Return the number of records, and of missing cells per column."""
        totals, noise = self._totals
        names = [n for n, one in self.plan.numbers.items() if one.fill is None]
        places = [1 + list(self.plan.numbers).index(name) for name in names]
        values = np.array([totals[0], *totals[places]])
        errors = np.array([noise / float(COUNT_WEIGHT), *[noise] * len(names)])
        index = [("records",), *((f"missing: {name}",) for name in names)]
        return self._normal("Records", ("name",), index, values, errors, level, ends=(0.0, math.inf))

    def means(self, level: float = 0.95) -> StatisticTable:
        """Return the mean of every number, over the cells that are there; of a boolean, the share of true."""
        totals, noise = self._totals
        rows = [self._mean(totals, noise, name, level) for name in self.plan.numbers]
        return self._table("Means", ("name",), [(name,) for name in self.plan.numbers], rows, level)

    def groups(self, *by: str, level: float = 0.95) -> StatisticTable:
        """Return count, share and the mean of every number for each category of one grouping.

        Missing cells and values that are not listed are categories too.
        """
        cells, noise = self._cells(by)
        totals, whole_noise = self._totals
        index, rows = [], []
        for label, sums in zip(self.plan.labels(by), cells, strict=True):
            name, error = ", ".join(label), noise / float(COUNT_WEIGHT)
            half = quantile_of(level) * error
            rows.append((sums[0], error, max(sums[0] - half, 0.0), max(sums[0] + half, 0.0)))
            share = min(max(sums[0] / max(totals[0], 1.0), 0.0), 1.0)
            rows.append(
                ratio(
                    sums[0], totals[0], noise=error, count_noise=whole_noise / float(COUNT_WEIGHT),
                    variance=share * (1.0 - share), z=quantile_of(level), ends=(0.0, 1.0),
                )
            )  # fmt: skip
            clear = label[-1][:1] != "(" or sums[0] > 2 * quantile_of(level) * error
            numbers = [other for other in self.plan.numbers if other not in by and clear]
            rows += [self._mean(sums, noise, other, level) for other in numbers]
            index += [(name, each) for each in ("count", "share", *numbers)]
        return self._table(f"By {' and '.join(by)}", ("category", "name"), index, rows, level)

    def table(self, rows: str, columns: str, level: float = 0.95) -> StatisticTable:
        """Return the count of every pair of categories.

        If the pair is one of the `groups` of the release, the counts come from there, with less noise. Otherwise they
        come from the matrix, which holds the records without a missing cell.
        """
        title, names = f"{rows} by {columns}", (rows, columns)
        for grouping in (names, names[::-1]):
            if grouping in self.plan.groupings:
                cells, noise = self._cells(grouping)
                index = [label if grouping == names else label[::-1] for label in self.plan.labels(grouping)]
                errors = np.full(len(index), noise / float(COUNT_WEIGHT))
                return self._normal(title, names, index, cells[:, 0], errors, level, ends=(0.0, math.inf))
        gram, noise = self._matrix()[0], self.receipt.parameters["noise"]["gram"]
        left, right = self._indicators(rows), self._indicators(columns)
        index = [(a, b) for a in left for b in right]
        pairs = [(one, other) for one in left.values() for other in right.values()]
        values = np.array([one @ gram @ other for one, other in pairs])
        errors = [noise * np.linalg.norm(np.outer(one, other) + np.outer(other, one)) / 2 for one, other in pairs]
        notes = ("records without a missing cell",)
        return self._normal(title, names, index, values, np.array(errors), level, (0.0, math.inf), notes)

    def compare(self, name: str, *, by: str, level: float = 0.95) -> StatisticTable:
        """Return the differences of group means from the first group, and test that all means are equal.

        Variances may differ between the groups (Welch). Groups that the noise hides are left out.
        """
        labels = self.plan.labels((by,))[: len(self.plan.listed[by].values)]
        cells, noise = self._cells((by,))
        rows = [self._mean(sums, noise, name, level) for sums in cells[: len(labels)]]
        known = [(label[0], float(row[0]), float(row[1])) for label, row in zip(labels, rows) if np.isfinite(row[1])]
        if len(known) < 2:
            raise ParameterError("by", "have two groups that the noise does not hide", f"{len(known)} of them")
        (first, start, error), *others = known
        weights = np.array([1.0 / e**2 for _, _, e in known])
        values = np.array([v for _, v, _ in known])
        statistic = float(weights @ (values - weights @ values / weights.sum()) ** 2)
        chance = float(chdtrc(len(others), statistic))
        notes = [f"equal means: chi-square {statistic:.4g} on {len(others)} degrees, p = {chance:.3g}"]
        notes += [f"hidden by noise: {', '.join(label[0] for label in labels if label[0] not in {k[0] for k in known})}"
                  ] if len(known) < len(labels) else []  # fmt: skip
        index = [(f"{label} \u2212 {first}",) for label, _, _ in others]
        errors = np.array([math.hypot(e, error) for _, _, e in others])
        return self._normal(f"{name} by {by}", ("difference",), index, values[1:] - start, errors, level, notes=notes)

    # ------------------------------------------------------------------ second moments

    def variances(self, level: float = 0.95) -> StatisticTable:
        """Return the variance of every number."""
        moments, scale, names = self._moments(), self._scale(), list(self.plan.numbers)
        values = np.diagonal(moments.covariance)[: len(names)] * scale**2
        errors = np.array([moments.covariance_error(i, i) for i in range(len(names))]) * scale**2
        index = [(name,) for name in names]
        return self._normal("Variances", ("name",), index, values, errors, level, (0.0, math.inf), self._complete())

    def covariance(self, level: float = 0.95) -> StatisticTable:
        """Return the covariance of every pair of numbers."""
        moments, scale, names = self._moments(), self._scale(), list(self.plan.numbers)
        pairs = [(i, j) for i in range(len(names)) for j in range(i, len(names))]
        values = np.array([moments.covariance[i, j] * scale[i] * scale[j] for i, j in pairs])
        errors = np.array([moments.covariance_error(i, j) * scale[i] * scale[j] for i, j in pairs])
        index, notes = [(names[i], names[j]) for i, j in pairs], self._complete()
        return self._normal("Covariances", ("row", "column"), index, values, errors, level, notes=notes, symmetric=True)

    def correlation(self, level: float = 0.95) -> StatisticTable:
        """Return the correlation of every pair of numbers; intervals are Fisher's, with the noise counted."""
        moments, names, z = self._moments(), list(self.plan.numbers), quantile_of(level)
        pairs = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names))]
        rows = []
        for i, j in pairs:
            r, error = moments.correlation(i, j)
            low, high = r - z * error, r + z * error
            if abs(r) < 1.0:
                half = z * error / (1.0 - r * r)
                low, high = math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)
            unknown = not math.isfinite(error)
            ends = (-1.0, 1.0) if unknown else (min(max(low, -1.0), 1.0), min(max(high, -1.0), 1.0))
            rows.append((r, error, *ends))
        index = [(names[i], names[j]) for i, j in pairs]
        return self._table("Correlations", ("row", "column"), index, rows, level, self._complete(), symmetric=True)

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
        moments, (centre, scale), places = self._moments(), self._units(), self._places()
        chosen = [name for name in places if name != target] if on is None else list(on)
        for name in (*chosen, target, *(against or ())):
            if name not in places or (name == target and target not in self.plan.numbers) or target in chosen:
                raise ParameterError("target and on", "be columns of the matrix, the target a number", repr(name))
        terms = [(name, label, i) for name in chosen for label, i in places[name]]
        y, index = places[target][0][1], [i for _, _, i in terms]
        labels = [*((label,) for _, label, _ in terms), ("(intercept)",)]
        if not moments.clear(index):
            gone = np.array([[math.nan], [math.inf]]) * np.ones(len(labels))
            return self._normal(target, ("name",), labels, *gone, level, notes=(_HIDDEN,))
        V, width = moments.covariance, len(index) + 1
        inverse = np.linalg.inv(V[np.ix_(index, index)])
        beta = inverse @ V[index, y]
        direction = np.append(-beta, 1.0)  # the residual, among the features and the target
        step = np.zeros((width + 1, width + 1))
        gradients = []
        for row in np.vstack([inverse, np.zeros(width - 1)]):
            one = step.copy()
            one[: width - 1, :width] = np.outer(row, direction)
            gradients.append((one + one.T) / (2 * moments.records))
        gradients[-1] = sum(mean_gradient(moments, i, width) * part for i, part in enumerate(direction.tolist()))
        covariance = moments.error(gradients, [*index, y], kurtosis=False)
        # In original units, and with the intercept at zero of every feature.
        middle = centre[index] + moments.mean[index] * scale[index]
        A = np.diag([*(scale[y] / scale[index]), scale[y]])
        A[-1, :-1] = -middle * scale[y] / scale[index]
        slopes = beta * scale[y] / scale[index]
        values = np.append(slopes, centre[y] + moments.mean[y] * scale[y] - slopes @ middle)
        full = A @ covariance @ A.T
        residual = float(direction @ V[np.ix_([*index, y], [*index, y])] @ direction)
        notes = [f"R² {1.0 - residual / V[y, y]:.3f}; {_EQUAL}", *self._complete()]
        if against is not None:
            extra = [i for i, (name, _, _) in enumerate(terms) if name not in against]
            test = float(slopes[extra] @ np.linalg.solve(full[np.ix_(extra, extra)], slopes[extra])) / max(len(extra), 1)
            freedom = max(moments.records - width, 1.0)
            words = f"F {test:.4g} on {len(extra)} and {freedom:.0f} degrees, p = {fdtrc(len(extra), freedom, test):.3g}"
            notes.append(f"without {', '.join(n for n in chosen if n not in against)}: {words}")
        return self._normal(target, ("name",), labels, values, np.sqrt(np.diagonal(full)), level, notes=notes)

    def pca(self, components: int, level: float = 0.95) -> StatisticTable:
        """Return variances and loadings of the first principal components of the numbers, each in its spread."""
        moments, names = self._moments(), list(self.plan.numbers)
        D, index = len(names), list(range(len(names)))
        if not (isinstance(components, int) and 1 <= components <= D):
            raise ParameterError("components", f"be a whole number from 1 to {D}", components)
        values, vectors = np.linalg.eigh(moments.covariance[:D, :D])
        values, vectors = values[::-1], vectors[:, ::-1]
        labels, rows, errors = [], [], []
        for i in range(components):
            v = vectors[:, i] * np.sign(vectors[np.argmax(np.abs(vectors[:, i])), i])
            gaps = values[i] - np.delete(values, i)
            others = np.delete(vectors, i, axis=1)
            gradients = [np.outer(v, v)]
            with np.errstate(divide="ignore"):
                gradients += [np.outer((others[a] / gaps) @ others.T, v) for a in index]
            padded = np.zeros((D + 1, D + 1, D + 1))
            for place, one in enumerate(gradients):
                padded[place, :D, :D] = (one + one.T) / (2 * moments.records)
            padded[0, -1, -1] = -values[i] / moments.records
            errors += np.sqrt(np.diagonal(moments.error(padded, index))).tolist()
            rows += [max(values[i], 0.0), *v]
            labels += [(f"component {i + 1}", each) for each in ("variance", *names)]
        negative = int((values < 0).sum())
        notes = ["columns are in units of their released spreads", *self._complete()]
        notes += [f"{negative} eigenvalues below zero were set to zero: the noise hides them"] if negative else []
        return self._normal("Components", ("component", "name"), labels, np.array(rows), np.array(errors), level, notes=notes)

    # ------------------------------------------------------------------ quantiles

    def quantiles(self, name: str, probabilities: Sequence[float] = (0.25, 0.5, 0.75), level: float = 0.95) -> StatisticTable:
        """Return quantiles of a number from its histogram. Intervals end at edges of bins."""
        if not self.plan.quantiles or name not in self.plan.numbers:
            raise ParameterError("name", "be a number of a release with quantiles=True", repr(name))
        place = list(self.plan.numbers).index(name)
        noise, edges = self.receipt.parameters["noise"]["quantiles"], self.values["edges"][place]
        counts, ends = self.values["quantiles"][place], np.concatenate([[-1.0], edges, [1.0]])
        below, bins = np.cumsum(counts), np.arange(1, len(counts) + 1)
        totals, total_noise = self._totals
        records = max(totals[0] - totals[1 + place], 2 * total_noise, 1.0)
        # What is below an edge is known from both sides; each sum has the noise of its bins.
        other = total_noise**2 / float(COUNT_WEIGHT) ** 2 + total_noise**2 + noise**2 * (len(counts) - bins)
        weight = other / (other + noise**2 * bins)
        cumulated = weight * below + (1 - weight) * (records - (below[-1] - below))
        error = np.sqrt(noise**2 * bins * weight)[:-1]
        share = isotonic_regression(cumulated[:-1] / records, y_min=0.0, y_max=1.0)
        cdf = np.concatenate([[0.0], share, [1.0]])
        spread = np.concatenate([[0.0], error / records, [0.0]])
        centre, half = self.plan.numbers[name].centre, self.plan.numbers[name].half_width
        rows, z = [], quantile_of(level)
        for p in probabilities:
            if not 0 < p < 1:
                raise ParameterError("probabilities", "lie between 0 and 1", p)
            slack = z * np.sqrt(spread**2 + p * (1 - p) / records)
            low = ends[max(np.searchsorted(cdf + slack, p, side="left") - 1, 0)] if (cdf + slack)[0] < p else -1.0
            high = ends[min(np.searchsorted(cdf - slack, p, side="right"), len(ends) - 1)]
            value = float(np.interp(p, cdf + np.arange(len(cdf)) * 1e-12, ends))
            rows.append(np.array([value, (high - low) / (2 * z), low, high]) * half + [centre, 0.0, centre, centre])
        index = [(f"{100 * p:g}%",) for p in probabilities]
        return self._table(f"Quantiles of {name}", ("quantile",), index, rows, level)

    # ------------------------------------------------------------------ pages

    def tables(self) -> list[StatisticTable]:
        """Return the tables of the report."""
        shown = [self.records(), self.means()]
        shown += [self.quantiles(name) for name, one in self.plan.numbers.items() if not isinstance(one, Boolean)
                  ] if self.plan.quantiles else []  # fmt: skip
        shown += [self.groups(*by) for by in self.plan.groupings if by]
        return shown + ([self.correlation()] if self.plan.matrix and len(self.plan.numbers) > 1 else [])

    def to_html(self, path: str | os.PathLike[str] | None = None, *, title: str = "Description of a table") -> str:
        """Return a page with the main tables for readers, and write it to `path` if one is given."""
        records, *others = self.tables()
        page = render(
            "describe.html.jinja", title=title, version=__version__, receipt=self.receipt, free=FREE, records=records,
            tables=others, total=self._totals[0][0], bars=_bars,
        )  # fmt: skip
        if path is not None:
            write_file(path, page.encode(), name="path")
        return page

    def plot(self) -> Any:
        """Draw means, each within its range, and correlations; return the matplotlib figure."""
        from matplotlib.figure import Figure

        tables = [self.means(), *([self.correlation()] if self.plan.matrix and len(self.plan.numbers) > 1 else [])]
        figure = Figure(figsize=(6.4, 2.4 + 0.28 * sum(len(one.index) for one in tables)), layout="constrained")
        heights = [1 + len(one.index) for one in tables]
        for one, ax in zip(tables, np.ravel(figure.subplots(len(tables), height_ratios=heights)), strict=True):
            one.plot(ax)
        return figure

    # ------------------------------------------------------------------ inside

    @cached_property
    def _totals(self) -> tuple[Floats, float]:
        return self.values["sums 0"][0], self.receipt.parameters["noise"]["sums 0"]

    def _cells(self, by: tuple[str, ...]) -> tuple[Floats, float]:
        if by not in self.plan.groupings:
            held = ", ".join(repr(one[0] if len(one) == 1 else one) for one in self.plan.groupings if one) or "none"
            raise ParameterError("by", f"be a grouping of the release: {held}", repr(by), "groups= of describe states it")
        i = self.plan.groupings.index(by)
        return self.values[f"sums {i}"], self.receipt.parameters["noise"][f"sums {i}"]

    def _mean(self, sums: Floats, noise: float, name: str, level: float) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the mean of a number in its units, from the sums of one cell."""
        names, column = list(self.plan.numbers), self.plan.numbers[name]
        place, D = names.index(name), len(names)
        known = column.fill is not None  # then no cell is missing
        count = sums[0] - (0.0 if known else sums[1 + place])
        total, squares = sums[1 + D + place], sums[1 + 2 * D + place]
        records = max(count, 1.0)
        centre = min(max(total / records, -1.0), 1.0)
        variance = min(max(squares / records - centre**2, 0.0), 1.0 - centre**2)
        error = noise * math.sqrt(float(COUNT_WEIGHT) ** -2 + (not known))
        estimate, deviation, low, high = ratio(
            total, count, noise=noise, count_noise=error, variance=variance, z=quantile_of(level), ends=(-1.0, 1.0)
        )
        middle, half = (0.0, 1.0) if sums is self._totals[0] else self.values["window"][:, place].tolist()
        c, h = column.centre + column.half_width * middle, column.half_width * half
        hidden = not math.isfinite(float(deviation))  # then it may lie anywhere in its range
        ends = (column.centre - column.half_width, column.centre + column.half_width)
        low, high = (np.asarray(end) if hidden else np.asarray(x * h + c) for x, end in zip((low, high), ends))
        return estimate * h + c, deviation * h, low, high

    def _matrix(self) -> tuple[Floats, float]:
        if not self.plan.matrix:
            raise ParameterError("matrix", "be part of the release for this", False, "describe(..., matrix=True)")
        return self.values["gram"], float(self.values["matrix"][1])

    def _moments(self) -> NoisyMoments:
        gram, constant = self._matrix()
        noise = self.receipt.parameters["noise"]
        plain = NoisyMoments.of(gram, noise=noise["gram"], constant=constant)
        D, bound = len(self.plan.numbers), float(self.values["matrix"][0])
        variances = np.diagonal(plain.covariance)
        with np.errstate(all="ignore"):
            excess = np.where(variances > 0, self.values["matrix"][2] ** 2 / variances - 6.0, 0.0) / 3.0  # of 0 and 1
        lost = 0.0
        if D:
            norms = (self.values["norm edges"], self.values["norms"], noise["norms"])
            squares, rows = tail(*norms)
            long = float((np.minimum(squares, bound**2) ** 2 * (squares > 4.0 * D)) @ rows) / (2.0 * plain.records)
            size = bound**4 / (plain.records * np.maximum(variances[:D], 1e-3) ** 2)
            prior = _PRIOR**2 + long**2
            weight = prior / (prior + (size * noise["fourth"]) ** 2)
            excess[:D] = (weight * (size * self.values["fourth"] - 3.0) + (1.0 - weight) * long) / 3.0
            lost = CLIPPING * clipped(*norms, bound)
        return NoisyMoments(
            plain.records, plain.mean, plain.covariance, plain.noise, constant, np.maximum(excess, -2.0 / 3.0), lost
        )

    def _complete(self) -> tuple[str, ...]:
        moments = self._moments()
        left = self._totals[0][0] - moments.records
        noise = 3.0 * math.hypot(self._totals[1] / float(COUNT_WEIGHT), moments.noise / moments.constant**2)
        return (f"records without a missing cell: about {left:,.0f} are left out",) if left > noise else ()

    def _units(self) -> tuple[Floats, Floats]:
        """Return centre and scale of every column of the matrix, in original units."""
        columns = self.plan.numbers.values()
        centre = np.array([one.centre + one.half_width * c for one, c in zip(columns, self.values["centre"])])
        hot = sum(len(one.values) for one in self.plan.in_matrix.values())
        return np.append(centre, np.zeros(hot)), np.append(self._scale(), np.full(hot, 1.0 / self.values["matrix"][2]))

    def _scale(self) -> Floats:
        self._matrix()
        return np.array([one.half_width for one in self.plan.numbers.values()]) * self.values["spread"]

    def _places(self) -> dict[str, list[tuple[str, int]]]:
        """Return labels and places of the columns of the matrix; of a category without its first value."""
        places = {name: [(name, i)] for i, name in enumerate(self.plan.numbers)}
        at = len(places)
        for name, one in self.plan.in_matrix.items():
            places[name] = [(label, at + i) for i, label in enumerate(one.labels(name))][1:]
            at += len(one.values)
        return places

    def _indicators(self, name: str) -> dict[str, Floats]:
        """Return, for every value of a category or boolean, the row whose product with a record is 1 or 0."""
        gram, constant = self._matrix()
        column, width = self.plan.listed.get(name), len(gram)
        if isinstance(column, Boolean):
            place = list(self.plan.numbers).index(name)
            true = np.zeros(width)
            true[place] = self.values["spread"][place] / 2
            true[-1] = (1.0 + self.values["centre"][place]) / (2 * constant)
            return {"False": np.eye(width)[-1] / constant - true, "True": true}
        if name not in self.plan.in_matrix or column is None:
            raise ParameterError("rows and columns", "be categories or booleans of the matrix", repr(name))
        first = self._places()[name][0][1] - 1 if len(column.values) > 1 else self._first(name)
        return {text: np.eye(width)[first + i] / self.values["matrix"][2] for i, text in enumerate(map(str, column.values))}

    def _first(self, name: str) -> int:
        before = list(self.plan.in_matrix)[: list(self.plan.in_matrix).index(name)]
        return len(self.plan.numbers) + sum(len(self.plan.in_matrix[one].values) for one in before)

    def _table(
        self, title: str, levels: tuple[str, ...], index: Any, rows: Any, level: float, notes: Any = (), **how: Any
    ) -> StatisticTable:
        columns = np.array([np.asarray(row, dtype=np.float64) for row in rows]).reshape(-1, 4).T
        return StatisticTable(title, levels, tuple(map(tuple, index)), *columns, level, tuple(notes), **how)

    def _normal(
        self, title: str, levels: tuple[str, ...], index: Any, values: Floats, errors: Floats, level: float,
        ends: tuple[float, float] = (-math.inf, math.inf), notes: Any = (), **how: Any,
    ) -> StatisticTable:  # fmt: skip
        """Return a table with intervals around the estimates."""
        half = quantile_of(level) * errors
        low, high = (np.where(np.isinf(errors), end, np.clip(values + side * half, *ends)) for side, end in zip((-1, 1), ends))
        return self._table(title, levels, index, np.stack([values, errors, low, high], axis=1), level, notes, **how)


def _fixed(value: Any) -> Floats:
    array = np.array(value, dtype=np.float64)
    array.setflags(write=False)
    return array


def _bars(table: StatisticTable) -> list[tuple[float, float, float]]:
    """Return left end, width and estimate of every interval, in per cent of a picture; per name of the last part."""
    ends: dict[str, tuple[float, float]] = {}
    for name, low, high in zip(table.index, table.low.tolist(), table.high.tolist(), strict=True):
        old = ends.get(name[-1], (low, high))
        ends[name[-1]] = min(old[0], low), max(old[1], high)
    bars = []
    for name, (value, _, low, high) in zip(table.index, table.rows(), strict=True):
        start, stop = ends[name[-1]]
        width = (stop - start) or 1.0
        bars.append(tuple(round(100 * x / width, 1) for x in (low - start, high - low, value - start)))
    return bars
