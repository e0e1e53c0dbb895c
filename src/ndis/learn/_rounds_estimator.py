"""Estimators that work in rounds share a base, the draws of one fit, and the rule that chooses the next clip.

All releases of a fit are drawn from exact sums, with a clip that follows the terms, and are paid for together.
"""

from __future__ import annotations

import math
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ndis._validate import Floats, as_adjacency, as_size
from ndis.data.schema.columns import Category
from ndis.errors import ParameterError
from ndis.gram.sums import RecordSums, TermSums
from ndis.learn._estimator import PrivateEstimator
from ndis.learn._inference import CoefficientTable, least_spread
from ndis.mechanisms.mechanism import announce
from ndis.mechanisms.receipt import Receipt
from ndis.mechanisms.rounds import GaussianRounds
from ndis.profile import PrivacyProfile

__all__ = ["EDGES", "FIRST_CLIP", "RoundReleases", "RoundsEstimator", "mean_square", "next_clip", "tail"]

_UNKNOWN = (
    "unknown: the noise hides this coefficient; more records, a larger epsilon, fewer columns, or a smaller "
    "row_norm_bound would show it; the others hold if what is hidden explains no more than the residuals"
)
_NO_ROWS = (
    "unknown: the number of records is within its noise of zero; if the table has more, almost no row was read: check "
    "the header, text columns and missing cells (schema.preview, ndis schema check)"
)
_LEAST_RECORDS = 3.0  # below this many standard deviations of its noise, the number of records may be zero
_NAMED = 10  # the number of columns that a note names

R = TypeVar("R", bound="RoundReleases")
T = TypeVar("T")


@lru_cache(maxsize=64)
def _profile(budget: GaussianRounds) -> PrivacyProfile:
    """Return the guarantee of a budget, which is public, so it may be kept."""
    return budget.profile()


@dataclass(kw_only=True, eq=False, repr=False)
class RoundsEstimator(PrivateEstimator, metaclass=ABCMeta):
    """Estimators that learn in rounds have these parameters, and an estimate without shrinkage for intervals."""

    row_norm_bound: float | None = None
    adjacency: str = "add-remove"
    fit_intercept: bool = True
    rounds: int = 8

    def _checked_rounds(self, *, several: bool = True) -> int:
        rounds = as_size("rounds", self.rounds)
        if several and not 2 <= rounds <= 100:
            raise ParameterError("rounds", "be from 2 to 100", rounds)
        return rounds

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

        self.receipt_ = self._paid(budget, make, releases.bits)
        self.mechanism_, self.profile_ = budget, _profile(budget)
        return learnt[0]

    def coef_interval(self, level: float = 0.95) -> Floats:
        """Compute confidence intervals of the coefficients of the population, intercept left out.

        They are around the estimate without shrinkage and count the noise of privacy and of sampling. That of a
        coefficient is infinite if it has a part along a direction of the features that the noise hides. The others then
        assume that what is hidden explains no more than the residuals (docs: which-regression). For a linear
        regression the sampling noise is that of errors of equal variance. For a logistic regression, which needs
        `intervals`, the model is assumed to hold.

        Returns
        -------
        (features, 2) array, or (targets, features, 2)
        """
        self._check_intervals()
        intervals: Floats = self.estimate_.interval(self.n_features_in_, level)
        return intervals[0] if self._one_output else intervals

    def least_spread(self, records: int, *, columns: int | None = None) -> float:
        """Compute how far rows must spread for all intervals to be finite, from public numbers only: nothing is read.

        The standard deviation along every direction of the features, in the units of `row_norm_bound`. With a schema
        the unit of a number is half its range. If some column spreads less, or nearly follows from others, its
        coefficient may come out as unknown. It is for columns whose means are near the middle of their ranges, and for
        a logistic regression of classes of about equal size.

        Parameters
        ----------
        records : int
            About how many there are.
        columns : int, optional
            The number of features; by default that of the schema.

        Examples
        --------
        >>> from ndis.learn import PrivateLinearRegression
        >>> model = PrivateLinearRegression(epsilon=1.0, delta=1e-6, row_norm_bound=2.0, target_bound=1.0)
        >>> round(model.least_spread(8_000, columns=6), 2), round(model.least_spread(80_000, columns=6), 2)
        (0.19, 0.06)
        """
        schema = self._schema()
        if columns is not None:
            features = as_size("columns", columns)
        elif schema is not None:
            features = len(self._kept_columns(schema))
        else:
            raise ParameterError("columns", "be stated without a schema", None)
        noise = self._matrix_noise()
        counted = as_size("records", records)
        return self._row_bound() * least_spread(noise, predictors=features + bool(self.fit_intercept), records=counted)

    @abstractmethod
    def _matrix_noise(self) -> float:
        """Return the noise of the matrix that intervals rest on, divided by the squared row bound."""

    def _summary(self, title: str, level: float, note: str) -> CoefficientTable:
        self._check_intervals()
        outputs, intercept = self.estimate_.theta.shape[1], len(self.estimate_.theta) > self.n_features_in_
        names, shrunk = self._names(), np.atleast_2d(self.coef_)
        if intercept:
            names, shrunk = [*names, "(intercept)"], np.hstack([shrunk, np.atleast_1d(self.intercept_)[:, None]])
        rows = tuple(names if outputs == 1 else [f"y{t}: {name}" for t in range(outputs) for name in names])
        counted = f"{self.receipt_.words}; errors count the noise of privacy and of sampling"
        kinds = "estimate: without shrinkage, for inference; shrunk: for predictions"
        notes = (note, counted, kinds, *self._schema_notes(), *self._unknown_notes())
        estimates = (self.estimate_.theta.T.ravel(), self.estimate_.errors().ravel(), shrunk.ravel())
        return CoefficientTable(title, rows, *estimates, float(level), notes)

    def _unknown_notes(self) -> list[str]:
        """Say why coefficients are unknown, from released numbers only."""
        if not self.estimate_.unknown().any():
            return []
        return [_UNKNOWN if self.estimate_.records > _LEAST_RECORDS * self._records_noise() else _NO_ROWS]

    def _records_noise(self) -> float:
        """Return the noise in the number of records, which has its own release or is the mean sum of histograms."""
        log = self.receipt_.parameters["releases"]
        own = [each["noise_std"] for each in log if each["release"] == "records"]
        if own:
            return float(own[0])
        bins = [each["noise_std"] for each in log if each["release"] == "histogram of lengths"]
        return math.sqrt(len(EDGES) + 1) * math.hypot(*bins) / len(bins)

    def _schema_notes(self) -> list[str]:
        """Say how the schema changes rows in ways that no interval counts."""
        schema = self._schema()
        if schema is None:
            return []
        notes = []
        if bases := self.baseline_:
            compared = ", ".join(f"{name} is compared with {base!r}" for name, base in bases.items())
            notes.append(f"{compared}; a value that is not listed counts as that one")
        if empty := [name for name, column in schema.columns.items() if column.fill is None]:
            named = ", ".join(empty[:_NAMED]) + (f" and {len(empty) - _NAMED} others" if len(empty) > _NAMED else "")
            notes.append(f"rows with a missing cell in {named} count as zero rows: give these columns a fill")
        box, bound = math.sqrt(len(schema.columns)), self._row_bound()
        if bound < box:
            words = "this biases estimates, and intervals do not count it"
            notes.append(f"encoded rows longer than {bound:.4g} (at most {box:.4g}) are scaled down: {words}")
        return notes

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


class RoundReleases:
    """Draw all releases of one fit exactly.

    Rows are in units of their bound, and terms in units of the row bound times `term_unit`.

    Parameters
    ----------
    sums : RecordSums
    budget : GaussianRounds
    bits
        The source of randomness of all draws.
    term_unit : float
        The target bound; 1 for gradients.
    constant : bool
        Whether the last predictor is a constant (times the root of a weight).

    Attributes
    ----------
    budget, bits
    predictors : int
    longest : float
        The norm that no row exceeds, the constant included.
    private : bool
        False if any draw came from a seed.
    log : list
        Clip, noise and grid of every release, for the receipt.
    """

    def __init__(self, sums: RecordSums, budget: GaussianRounds, bits: Any, *, term_unit: float, constant: bool):
        self._sums, self.budget, self.bits, self.constant = sums, budget, bits, constant
        self._row, self._term_unit = sums.layout.row_norm_bound, term_unit
        self._unit = self._row * term_unit
        self._length_squared, self.predictors = sums.layout.joint_norm_bound_squared, sums.layout.width
        self.longest = math.sqrt(float(self._length_squared)) / self._row
        self.private = True
        self.log: list[dict[str, Any]] = []

    def gram(self) -> tuple[Floats, float]:
        """Release the Gram matrix; with the standard deviation of its diagonal's noise."""
        sample = self.budget.release_gram(self._sums.gram(), random_state=self.bits)
        noise = self.budget.gram_noise(self._length_squared)
        self._note(sample, release="gram", noise_std=noise)
        return np.asarray(sample.values) / self._row**2, noise / self._row**2

    def weighted_gram(self, index: int, theta: Floats) -> tuple[Floats, float]:
        """Release the Hessian of the logistic loss at θ; with the standard deviation of its diagonal's noise."""
        hessian = self._sums.weighted_gram(theta[:, 0] / self._row)
        sample = self.budget.release_weighted_gram(index, hessian, random_state=self.bits)
        noise = self.budget.weighted_gram_noise(index, self._length_squared)
        self._note(sample, release="weighted gram", noise_std=noise)
        return np.asarray(sample.values) / self._row**2, noise / self._row**2

    def shift(self, index: int) -> float:
        """Return the clip of a round divided by its noise."""
        return 1.0 / self.budget.sum_noise(index, clip=1.0)

    def _total(self, index: int, sums: TermSums, name: str) -> tuple[Floats, float]:
        """Release a sum of clipped terms; with the standard deviation of its noise."""
        sample = self.budget.release_sum(index, sums, random_state=self.bits)
        noise = self.budget.sum_noise(index, clip=sums.clip)
        self._note(sample, release=name, clip=sums.clip, noise_std=noise)
        return np.asarray(sample.values, dtype=np.float64) / self._unit, noise / self._unit

    def _edges(self, longest: float) -> list[float]:
        """Return the edges of the histogram of lengths, if the longest term has this length."""
        return [edge * longest * self._unit for edge in EDGES]

    def _histogram(self, index: int, sums: TermSums) -> tuple[Floats, float]:
        """Release the histogram of the lengths of the terms; one record replaced moves it by √2."""
        return self._counts(index, sums.histogram, squared_reach=self._replaced, name="histogram of lengths")

    def _counts(self, index: int, values: Any, *, squared_reach: Any, name: str) -> tuple[Floats, float]:
        sample = self.budget.release_count(index, values, squared_reach=squared_reach, random_state=self.bits)
        noise = self.budget.count_noise(index, squared_reach=squared_reach)
        self._note(sample, release=name, noise_std=noise)
        return np.asarray(sample.values, dtype=np.float64), noise

    @property
    def _replaced(self) -> Fraction:
        """Return the factor by which a replaced record multiplies the squared reach of one that comes or goes."""
        return Fraction(1 if self.budget.adjacency == "add-remove" else 2)

    def _note(self, sample: Any, **entry: Any) -> None:
        self.private = self.private and sample.private
        self.log.append({**entry, "grid": sample.grid})

    def receipt(self, **public: Any) -> Receipt:
        """Make the receipt: the guarantee, with the budget, the bounds in ``public`` and every release."""
        budget = self.budget
        shares = {k: v for k, v in budget.to_dict().items() if k not in ("epsilon", "delta", "adjacency")}
        parameters = {**shares, **public, "releases": self.log}
        guarantee = (budget.target_epsilon, budget.target_delta, budget.adjacency)
        return Receipt(type(budget).__name__, parameters, *guarantee, private=self.private)


# ---------------------------------------------------------------------- the clip of the next round

# It is chosen from the noisy histogram of the lengths of the terms, in units of the longest term at θ = 0.

EDGES: tuple[float, ...] = tuple(2.0**k for k in range(-7, 3))  # upper ends of the bins; beyond the last is one more
FIRST_CLIP = 0.25  # before anything is known
_MIDDLES: Floats = 0.75 * np.array([*EDGES, 2 * EDGES[-1]])
_CANDIDATES: Floats = np.sort(np.concatenate([EDGES, np.sqrt(0.5) * np.array(EDGES)]))


def tail(histogram: Floats, clip: float) -> float:
    """Estimate the length that a clip takes from all terms together, Σ (length − clip)⁺, from the noisy histogram.

    >>> tail(np.r_[np.zeros(7), 10.0, 2.0, np.zeros(2)], 1.0)  # two terms between 1 and 2
    1.0
    """
    return float(np.maximum(_MIDDLES - clip, 0.0) @ np.maximum(histogram, 0.0))


def next_clip(histogram: Floats, *, entries: int, shift: float, weight: float) -> float:
    """Choose the clip with the least sum of squared noise and squared bias.

    The noise of a sum of ``entries`` numbers has norm √entries·clip/shift. The bias is at most `tail`, if all clipped
    terms point the same way; `weight` is the part of it that is expected. With many records the bias outweighs the
    noise, and then hardly a term is clipped.

    >>> few, many = (np.r_[np.zeros(5), n, n, n / 8, np.zeros(3)] for n in (100.0, 1e6))
    >>> [next_clip(h, entries=10, shift=0.1, weight=0.15) for h in (few, many)]
    [0.1767766952966369, 1.0]
    """
    cost = [entries * (c / shift) ** 2 + (weight * tail(histogram, c)) ** 2 for c in _CANDIDATES]
    return float(_CANDIDATES[int(np.argmin(cost))])


def mean_square(histogram: Floats) -> float:
    """Estimate the mean squared length, from a histogram without noise-only bins.

    >>> mean_square(np.r_[np.zeros(7), 10.0, np.zeros(3)])
    0.5625
    """
    return float(_MIDDLES**2 @ histogram / histogram.sum())
