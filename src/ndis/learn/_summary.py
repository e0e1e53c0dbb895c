"""Fits in rounds: what they have in common, and a summary with errors, intervals and what is worth a note."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ndis._validate import Floats, as_adjacency
from ndis.data.schema import Category, Date
from ndis.data.schema.columns import box_norm
from ndis.describing.tables import StatisticTable, report
from ndis.learn._coordinates import Coordinates, PublicRanges
from ndis.learn._estimator import PrivateEstimator, Scored
from ndis.learn._releases import RoundReleases
from ndis.mechanisms.mechanism import Receipt, announce
from ndis.mechanisms.rounds import GaussianRounds
from ndis.pages.text import few
from ndis.profile import PrivacyProfile

R = TypeVar("R", bound=RoundReleases)
T = TypeVar("T")

_NO_ROWS = (
    "nothing is known: the number of records is within its noise of zero; if the table has more, almost no row was "
    "read: check the header, classes, text columns and missing cells (schema.preview, ndis schema check)"
)
_DEAR, _HIDING = 1.5, 100.0  # errors over those of sampling alone, between which a note names the column
_NAMED = 10  # the number of columns that a note names


@dataclass(frozen=True, eq=False, repr=False)
class CoefficientTable(StatisticTable):
    """Hold coefficients of one or several targets; printing it shows the table.

    It has the other forms of a `StatisticTable`: `to_frame`, `to_csv`, `to_latex`, `plot`.

    Attributes
    ----------
    estimate, standard_error : (rows,) arrays
        Without shrinkage. The error counts the noise of privacy and of sampling.
    shrunk : (rows,) array
        What `predict` uses.

    Examples
    --------
    >>> values = np.array([2.0]), np.array([0.5])
    >>> CoefficientTable.normal("Trees", ("name",), [("age",)], values, 0.95, ["in metres"], shrunk=np.array([1.9]))
    Trees
          estimate  std. error     z  P>|z|  95% interval  shrunk
    age          2         0.5  4.00  0.000  [1.02, 2.98]     1.9
    in metres
    """

    shrunk: Floats = field(default_factory=lambda: np.empty(0))
    pictured = True

    @property
    def names(self) -> tuple[str, ...]:
        """Return one name for every row."""
        return tuple(name for (name,) in self.index)

    @property
    def interval(self) -> Floats:
        """Return a (rows, 2) array: lower and upper ends."""
        return np.stack([self.low, self.high], axis=1)

    def odds_ratios(self) -> Floats:
        """Return a (rows, 3) array for a logistic regression: odds ratios, and the ends of their intervals.

        >>> values = np.array([0.0]), np.array([0.5])
        >>> CoefficientTable.normal("", ("name",), [("age",)], values, 0.95).odds_ratios().round(2).tolist()
        [[1.0, 0.38, 2.66]]
        """
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(np.column_stack([self.estimate, self.interval])))

    def cells(self) -> list[list[str]]:
        """Return the header and the rows, as text."""
        lines = [["", "estimate", "std. error", "z", "P>|z|", f"{100 * self.level:g}% interval", "shrunk"]]
        for name, shrunk, (value, error, low, high) in zip(self.names, self.shrunk, self.rows(), strict=True):
            cells = ["unknown", f"{error:.3g}", "", "", "[-inf, inf]"]
            if math.isfinite(error) and error > 0:
                tails = math.erfc(abs(value / error) / math.sqrt(2.0))
                ends = f"[{low:.4g}, {high:.4g}]"
                cells = [f"{value:.4g}", f"{error:.3g}", f"{value / error:.2f}", f"{tails:.3f}", ends]
            lines.append([name, *cells, f"{float(shrunk):.4g}"])
        return lines

    def wide(self) -> tuple[list[str], list[tuple[str, list[tuple[str, float, float]]]]]:
        """Return the rows for a page. Bars have zero in their middle, and a scale of their own."""
        lines = super().wide()[1]
        for (_, cells), low, high in zip(lines, self.low, self.high, strict=True):
            farthest = max(abs(low), abs(high)) or 1.0
            start, end = (low / farthest, high / farthest) if farthest < math.inf else (-1.0, 1.0)
            cells[0] = cells[0][0], 50.0 + 50.0 * start, 50.0 * (end - start)
        return ["estimate"], lines

    def _after(self) -> tuple[str, ...]:
        return self.notes


@lru_cache(maxsize=64)
def _profile(budget: GaussianRounds) -> PrivacyProfile:
    """Return the guarantee of a budget, which is public, so it may be kept."""
    return budget.profile()


@dataclass(kw_only=True, eq=False, repr=False)
class RoundsEstimator(Scored, PrivateEstimator):
    """Estimators that learn in rounds have these parameters, and an estimate without shrinkage for intervals."""

    row_norm_bound: float | None = None
    adjacency: str = "add-remove"
    fit_intercept: bool = True
    rounds: int = 6
    _long_rows = "are scaled down: this biases estimates, and intervals do not count it"

    def _public(self) -> dict[str, Any]:
        """Return the public numbers that every budget of rounds depends on."""
        return {**self._budget(), "adjacency": as_adjacency(self.adjacency)}

    def _release(self, releases: R, fit: Callable[[R], T], **public: Any) -> T:
        """Make all releases of a fit, paid for together, and keep their guarantee."""
        budget = releases.budget
        learnt: list[T] = []

        def make() -> Receipt:
            announce(budget)
            learnt.append(fit(releases))
            return releases.receipt(**public)

        self.receipt_ = self._paid(budget, make, random_state=releases.bits)
        self.mechanism_, self.profile_, self._stretched = budget, _profile(budget), releases.stretched
        return learnt[0]

    def coef_interval(self, level: float = 0.95) -> Floats:
        """Compute confidence intervals of the coefficients of the population, intercept left out.

        They are around the estimate without shrinkage and count the noise of privacy and of sampling, and of a linear
        regression also what clipping may have taken. If the noise hides a direction of the features, they assume that
        coefficients along it are about as large as along the others (docs: which-regression). For a logistic
        regression, of two classes, the model is assumed to hold.

        Returns
        -------
        (features, 2) array, or (targets, features, 2)
        """
        self._check_intervals()
        intervals: Floats = self.estimate_.interval(self.n_features_in_, level)
        return intervals[0] if self._one_output else intervals

    # ------------------------------------------------------------------ coordinates and units

    def _public_ranges(self, *, targets: int, target_bound: float = 1.0) -> PublicRanges:
        """Say what is public about encoded rows."""
        schema, bound, centred = self._schema(), self._row_bound(), bool(self.fit_intercept)
        features = self.n_features_in_
        origin, target_origin = np.zeros(features), np.zeros(targets)
        values: tuple[tuple[float, float] | None, ...] = (None,) * features
        if schema is None:
            return PublicRanges(bound, bound, target_bound, origin, target_origin, values, centred)
        kept = self._kept_columns(schema)
        every = [pair for column in schema.columns.values() for pair in column.two_values()]
        values = (*(every[i] for i in kept), *values[len(kept) :])
        if not centred:  # through zero in the users' units
            centre, half_width = schema.scales()
            origin[: len(kept)] = (-centre / half_width)[kept]
            target_origin[:] = -schema.target_scale()[0] / schema.target_scale()[1]
        return PublicRanges(1.0, bound, target_bound, origin, target_origin, values, centred)

    def _units(self, here: Coordinates, column: float | None) -> tuple[Floats, Floats]:
        """Find (A, b) with A·θ + b in the units of the data, for θ in the coordinates of a fit; b by target."""
        own = here.units(column)
        matrix, shift = self._in_units(*own)
        return matrix[: len(own[0])], shift[: len(own[0])]  # without an intercept the line goes through zero

    @property
    def baseline_(self) -> dict[str, str]:
        """Return the value that others of a category are compared with; empty if every value has a coefficient."""
        schema = self._schema()
        if schema is None or not self._against_first_category:
            return {}
        return {name: column.texts[0] for name, column in schema.columns.items() if isinstance(column, Category)}

    @property
    def _one_output(self) -> bool:
        """Say if intervals have no dimension for outputs."""
        return True

    def _check_intervals(self) -> None:
        check_is_fitted(self)

    # ------------------------------------------------------------------ summary and page

    def _summary(self, title: str, level: float, note: str) -> CoefficientTable:
        """Make the table of coefficients with the notes that a reader needs."""
        self._check_intervals()
        outputs, intercept = self.estimate_.theta.shape[1], len(self.estimate_.theta) > self.n_features_in_
        names, shrunk = self._names(), np.atleast_2d(self.coef_)
        if intercept:
            names, shrunk = [*names, "(intercept)"], np.hstack([shrunk, np.atleast_1d(self.intercept_)[:, None]])
        rows = names if outputs == 1 else [f"y{t}: {name}" for t in range(outputs) for name in names]
        index, kinds = [(row,) for row in rows], "estimate: without shrinkage, for inference; shrunk: for predictions"
        records = float(f"{max(self.estimate_.records, 0.0):.3g}")
        note = f"about {records:,.0f} records; {note}"
        notes = [note, self.receipt_.words, self._error_words(), *self._costly(rows), kinds]
        if far := ", ".join(names[i] for i in np.flatnonzero(self._stretched)):
            notes.append(f"rows with {far} far from most count less: estimates are right if the model holds there too")
        notes += [*self._hidden_notes(), *self._schema_notes()]
        estimates = (self.estimate_.theta.T.ravel(), self.estimate_.errors().ravel())
        return CoefficientTable.normal(title, ("name",), index, estimates, level, notes, shrunk=shrunk.ravel())

    def to_html(self, path: str | os.PathLike[str] | None = None, *, title: str = "A regression in numbers") -> str:
        """Return a page with the summary for readers, and write it to `path` if one is given."""
        return report("fit.html.jinja", path, [self.summary()], self.receipt_, title=title)

    def _costly(self, names: Sequence[str]) -> Iterator[str]:
        """Name the coefficient whose error privacy multiplies most, and say what would help, if it is by much."""
        cost = self.estimate_.cost()
        cost[:, self.n_features_in_ :] = 0.0  # the intercept is no column
        cost, worst = cost.ravel(), int(cost.argmax())
        if _DEAR < (most := cost[worst]) < _HIDING:  # beyond it directions are hidden, and another note says so
            more = (most**2 - 1.0) / (_DEAR**2 - 1.0)  # the variance of noise falls with records·ε²
            words = f"privacy costs most in {names[worst]}: its error is about {few(most, 2)} times that of sampling"
            helps = f"epsilon {few(math.sqrt(more) * self.receipt_.epsilon, 2)} or {few(more, 2)} times the records"
            yield f"{words}; {helps} would leave {_DEAR:g} times"

    def _error_words(self) -> str:
        """Say what standard errors count, and what they assume."""
        return "errors count the noise of privacy and of sampling"

    def _hidden_notes(self) -> Iterator[str]:
        """Say what the noise hides, from released numbers only."""
        estimate, every = self.estimate_, len(self.estimate_.theta)
        if estimate.hidden == every and not estimate.records > every + 1.0:  # `unshrunk` makes it as many at least
            yield _NO_ROWS
        elif estimate.hidden:
            words = f"the noise hides {estimate.hidden} of {every} directions of the columns"
            assumed = "intervals assume that coefficients along them are about as large as along the others"
            assumed = assumed if estimate.hidden < every else "no interval is known"
            yield f"{words}: {assumed}; more records, a larger epsilon or fewer columns would show them"

    def _schema_notes(self) -> Iterator[str]:
        """Say how the schema changes rows in ways that no interval counts, and where a date counts from."""
        schema = self._schema()
        if schema is None:
            return
        words = "counts in days from 1970-01-01: its slope is per day, and the intercept is the value on that day"
        dates = [name for name, column in schema.columns.items() if isinstance(column, Date)]
        yield from (f"{name} {words}" for name in dates if self.fit_intercept)
        if bases := self.baseline_:
            compared = ", ".join(f"{name} is compared with {base!r}" for name, base in bases.items())
            yield f"{compared}; a value that is not listed counts as that one"
        if empty := [name for name, column in schema.columns.items() if column.fill is None]:
            named = ", ".join(empty[:_NAMED]) + (f" and {len(empty) - _NAMED} others" if len(empty) > _NAMED else "")
            words = "a fill would keep them, and would bend estimates if many cells are missing"
            yield f"rows with a missing cell in {named} count as zero rows: {words}"
        box, bound = box_norm(schema.columns), self._row_bound()
        if bound < box:
            yield f"encoded rows longer than {bound:.4g} (at most {box:.4g}) {self._long_rows}"
