"""Linear regression learns from one noisy Gram matrix and rounds of noisy residual products.

One Gram matrix, then rounds of clipped residual products at the solution so far are released. A histogram of the
lengths of the terms comes with every round but the last, and chooses the next clip. The last round hardly clips; sums
of squared residuals come with it. Noise is proportional to the clip, so the shift of every round is fixed in advance
(`ndis.mechanisms.rounds`).

Rows are divided by their bound, and targets by theirs: the solver works in these units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ndis._validate import Floats
from ndis.data import Rows, open_rows
from ndis.data.cells import numbers
from ndis.data.memory import column_table
from ndis.errors import ParameterError
from ndis.gram.sums import RecordSums
from ndis.learn._empirical_bayes import NOISE_SHARE, Preconditioner, Round, posterior_mean
from ndis.learn._estimator import INTERCEPT_SHARE, as_array, one_of, stated_bound
from ndis.learn._inference import CoefficientTable, Unshrunk, unshrunk
from ndis.learn._rounds_estimator import FIRST_CLIP, RoundReleases, RoundsEstimator, mean_square, next_clip, tail
from ndis.mechanisms.rounds import GaussianRounds
from ndis.noise.bits import random_bits

__all__ = ["LinearFit", "LinearReleases", "Measured", "PrivateLinearRegression", "calibrated_rounds", "fit_rounds"]

METHODS = ("rounds", "gram")
KINDS = ("mean", "observation")


class _Bounds(NamedTuple):
    """A fit has these public numbers: bounds of rows and targets, and the constant column, if there is one."""

    row: float
    target: float
    constant: float | None
    rounds: int


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearRegression(RoundsEstimator, MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a linear regression with differential privacy, with little error, and with intervals.

    One noisy Gram matrix is released, and then, in a few rounds, sums of clipped residual products at the solution so
    far. The clip follows the residuals as they get smaller, and so does the noise. All rounds are combined by empirical
    Bayes: the ridge penalty is chosen from released values. If the data show no signal, predictions are the centre.

    `fit_data` reads files, folders, frames or dask collections once for the matrix and once per round. A list as its
    `target` names several targets.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, for records (row, target), for all releases together.
    row_norm_bound : float
        Public bound of the Euclidean norm of a row; longer rows are clipped to it. Must be stated.
    target_bound : float
        Public bound of the absolute value of a target (of the Euclidean norm, for several targets); larger ones are
        clipped. Must be stated.
    fit_intercept : bool
        Append a constant column and learn an intercept, which is not shrunk.
    adjacency : {"add-remove", "replace-one"}
        Which data sets are neighbours.
    method : {"rounds", "gram"}
        "gram" makes one round without a clip: one pass for the matrix, one for its product with the targets.
    rounds : int
        Passes over the data after the one for the Gram matrix. There is no need to tune it: 8 was best or near the
        best on every data set tried.
    weight_bound : float, optional
        Public bound of sample weights, if there are any; larger ones are clipped.
    random_state : optional
        None draws from the operating system. A seed warns: the result is then not private.
    schema : Schema, optional
        What is public about the table. Rows are then taken in original units. `row_norm_bound` is that of the
        schema unless a smaller one is stated, and `target_bound` is left out. Coefficients, errors and intervals are in
        original units, and rows to predict are taken in these units. With an intercept, the first value of a category
        is the one that the others are compared with, and has no coefficient.
    count_clipped : bool
        With a schema: release the number of rows that it clips or otherwise changes as well, with noise and from the
        same budget. Many such rows say that the ranges are too narrow. It costs one more pass.
    ledger : path, optional
        The `ndis.Ledger` that pays for all releases of a fit together. It reserves before data is read.
    slot : str, optional
        The slot of a plan in the ledger.

    Attributes
    ----------
    coef_ : (features,) or (targets, features) array
        Shrunk: for predictions.
    intercept_ : float or (targets,) array
    estimate_ : Unshrunk
        Without shrinkage, with its covariance, in the units of the data; the intercept is last. For intervals.
    baseline_ : dict
        With a schema and an intercept: the value that the others of each category are compared with.
    records_ : float
        The estimated number of records.
    clipped_rows_ : float
        The noisy number of rows that the schema changes, with `count_clipped`.
    residual_std_ : float or (targets,) array
    profile_ : PrivacyProfile
        The certified guarantee of all releases together, at every ε.
    receipt_, mechanism_
        What is guaranteed, with the noise of every release; and the budget, a `GaussianRounds`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, size=(20_000, 2))
    >>> y = 10 * x[:, 0] + rng.normal(size=20_000)
    >>> model = PrivateLinearRegression(epsilon=1.0, delta=1e-6, row_norm_bound=1.5, target_bound=15.0).fit(x, y)
    >>> model.score(x, y) > 0.95
    True
    >>> low, high = model.coef_interval(0.9999)[0]
    >>> bool(low < 10 < high), bool(high - low < 2)
    (True, True)
    """

    target_bound: float | None = None
    method: str = "rounds"
    weight_bound: float | None = None
    count_clipped: bool = False

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Make all releases, and solve.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, features)
            The private rows.
        y : array of shape (n,) or (n, targets)
            The private targets. With a schema it may be left out if X has the target among its columns.
        sample_weight : array of shape (n,), optional
            Private weights, up to `weight_bound`. Row and target are multiplied by the root of their weight, and the
            bounds by the root of `weight_bound`. A record whose weight is not positive counts as no record.
        """
        if sample_weight is None:
            return super().fit(X, y)
        bounds, weight = self._check(), stated_bound("weight_bound", self.weight_bound, clipped="weights")
        rows, one = self._fitted_rows(X, y)
        weighted = weighted_rows(rows, sample_weight, bound=weight, constant=bounds.constant)
        changed = partial(self._changed_rows, X if y is None else (X, y))
        return self._learn(weighted, bounds, one=one, changed=changed, weight=weight)

    def _check(self, *, files: bool = False) -> _Bounds:
        """Check public parameters before any private value is read."""
        row, target = self._row_bound(), self._target_bound()
        self.__dict__.pop("clipped_rows_", None)  # an earlier fit may have set it
        one_of("method", self.method, METHODS)
        if self.count_clipped and self.schema is None:
            raise ParameterError("count_clipped", "come with a schema", "no schema")
        several = self.method == "rounds"
        rounds = self._checked_rounds(several=several)
        constant = INTERCEPT_SHARE * row if self.fit_intercept else None
        return _Bounds(row, target, constant, rounds if several else 1)

    @property
    def _against_first_category(self) -> bool:
        """With a constant, the columns of a category are collinear. So its values are compared with the first one."""
        return bool(self.fit_intercept)

    def _matrix_noise(self) -> float:
        one_of("method", self.method, METHODS)
        rounds = self._checked_rounds() if self.method == "rounds" else 1
        budget = calibrated_rounds(**self._public(), rounds=rounds, clipped=bool(self.count_clipped))
        return budget.gram_noise(1 + Fraction(INTERCEPT_SHARE if self.fit_intercept else 0.0) ** 2)

    def _learn(
        self, rows: Rows, public: _Bounds, *, one: bool, changed: Callable[[], int], weight: float | None = None
    ) -> Self:
        """Make all releases, and keep results in the units of the data."""
        constant, root = public.constant, 1.0 if weight is None else math.sqrt(weight)
        width, row, column = public.target * root, public.row, constant
        if weight is not None:  # rows have their constant, times the root of their weight
            row, column = math.hypot(row, constant or 0.0) * root, None
        sums = RecordSums(rows, row_norm_bound=row, target_bound=width, intercept=column)
        budget = calibrated_rounds(**self._public(), rounds=public.rounds, clipped=bool(self.count_clipped))
        bits = random_bits(self.random_state)
        releases = LinearReleases(sums, budget, bits, term_unit=width, constant=constant is not None)

        def fit(releases: LinearReleases) -> LinearFit:
            if self.count_clipped:
                self.clipped_rows_ = releases.clipped(changed())
            return fit_rounds(releases, rounds=public.rounds)

        stated = {"row_norm_bound": public.row, "target_bound": public.target, "intercept": constant}
        theta, estimate = self._release(releases, fit, **stated, weight_bound=weight)
        units = self._unit_map(len(theta), unit=width / sums.layout.row_norm_bound, constant=constant)
        self.coef_, self.intercept_ = self._coefficients(theta, units, one=one)
        self.receipt_ = self.receipt_.bound_to(coefficients=self.coef_, intercept=self.intercept_)
        schema = self._schema()
        if schema is not None:
            width *= schema.target_scale()[1]
        self.estimate_ = estimate.in_units(units, width=width)
        self.records_ = self.estimate_.records
        deviations = np.sqrt(self.estimate_.residual_variance)
        self.residual_std_ = float(deviations[0]) if one else deviations
        return self

    # ------------------------------------------------------------------ learnt values

    @property
    def _one_output(self) -> bool:
        return bool(self.coef_.ndim == 1)

    def predict(self, X: Any) -> Floats:
        """Predict the targets of rows; NaN if a row has NaN."""
        return self._linear_scores(X)

    def predict_interval(self, X: Any, level: float = 0.95, *, kind: str = "mean") -> Floats:
        """Compute intervals for rows: of the mean of the target, or of a new observation.

        Parameters
        ----------
        X : (n, features) array
        level : float
        kind : {"mean", "observation"}
            "mean": where xᵀβ is. "observation": where a new target at x is, for normal errors of equal variance.

        Returns
        -------
        (n, 2) array, or (n, targets, 2)
        """
        check_is_fitted(self)
        one_of("kind", kind, KINDS)
        intervals = self.estimate_.predicted(self._dense_rows(X), level, residuals=kind == "observation")
        return intervals[:, 0] if self._one_output else intervals

    def summary(self, level: float = 0.95) -> CoefficientTable:
        """Make a table of coefficients, standard errors and intervals, in the units of the data."""
        check_is_fitted(self)
        residual = ", ".join(f"{x:.4g}" for x in np.sqrt(self.estimate_.residual_variance))
        counted = getattr(self, "clipped_rows_", None)
        clipped = "" if counted is None else f"; about {max(counted, 0):.3g} rows clipped"
        note = f"about {max(self.records_, 0):.3g} records; standard deviation of residuals {residual}{clipped}"
        return self._summary("Private linear regression", level, note)


def weighted_rows(rows: Rows, weights: Any, *, bound: float, constant: float | None) -> Rows:
    """Return rows (with the constant as a last column) and targets, times √weight; NaN where a weight is not positive.

    Every operation is elementwise, so a record's numbers depend on that record only.

    >>> x, y = weighted_rows(open_rows((np.ones((2, 1)), [1.0, 1.0])), [4.0, 0.0], bound=9.0, constant=0.5).arrays()
    >>> x.tolist(), y.tolist()
    ([[2.0, 1.0], [nan, nan]], [[2.0], [nan]])
    """
    x, y = rows.arrays()
    given = _numbers(weights)
    if given.shape not in ((len(x),), ()):
        raise ParameterError("sample_weight", "have one weight per row, in one dimension", f"{given.ndim} dimension(s)")
    with np.errstate(all="ignore"):  # a warning would reveal something about the values
        root = np.sqrt(np.where(given > 0, np.minimum(given, bound), np.nan))
        root = np.broadcast_to(root, (len(x),))[:, None]
        if constant is not None:
            x = np.hstack([x, np.full((len(x), 1), constant)])
        return open_rows((x * root, y * root))


def _numbers(weights: Any) -> Floats:
    """Return weights as float64, each cell read on its own; NaN where one is no number. Only a type can be refused."""
    if isinstance(weights, Real):
        return np.asarray(float(weights))
    given = as_array(weights)
    if getattr(given, "ndim", 1) != 1:
        raise ParameterError("sample_weight", "have one weight per row, in one dimension", f"{given.ndim} dimension(s)")
    table = column_table(given)
    for kind in table.kinds[0] - {"number", "boolean", "cells", "objects", "texts"}:
        raise ParameterError("sample_weight", "hold real numbers", kind)
    return np.concatenate([np.empty(0), *(numbers(block[:, 0]) for (block,) in table.read(((0,),)))])


# ---------------------------------------------------------------------- the rounds: order and budget of the releases

# Shares of the squared shift; chosen like the constants of the solver, and as little sensitive.
GRAM_SHARE = 0.25
ONE_ROUND_GRAM_SHARE = 0.45
COUNT_SHARE = 0.12  # the counts take this share of a round
CLIPPED_SHARE = 0.01  # for the count of clipped rows, if it is asked for: a few dozen rows of noise at epsilon 1
LAST_ROUND = 2.0  # rounds' worth of budget for the last round, which intervals need
BIAS_WEIGHT = 0.15
LAST_BIAS_WEIGHT = 1.0
_PACE = 2.0  # the clip may change by this factor per round: histograms are noisy
_SQUARE_CLIP = 6.0  # residuals are clipped at this many standard deviations before they are squared
_LONGEST_RESIDUAL = 2.0  # a residual at θ may be this many target bounds long before its square is clipped


@lru_cache(maxsize=64)
def calibrated_rounds(*, rounds: int, clipped: bool = False, **guarantee: Any) -> GaussianRounds:
    """Calibrate the budget of a fit to ε, δ and adjacency. With `clipped` the last count is that of clipped rows.

    >>> budget = calibrated_rounds(epsilon=1.0, delta=1e-6, adjacency="add-remove", rounds=3)
    >>> round(sum([budget.gram_share, *budget.sum_shares, *budget.count_shares]), 12)
    1.0
    """
    weights = np.ones(rounds)
    weights[-1] = LAST_ROUND if rounds > 1 else 1.0
    shared = 1.0 - (CLIPPED_SHARE if clipped else 0.0)
    gram = shared * (GRAM_SHARE if rounds > 1 else ONE_ROUND_GRAM_SHARE)
    shares = (shared - gram) * weights / weights.sum()
    counts = (COUNT_SHARE * shares).tolist()
    counts = [*(counts if rounds > 1 else [counts[0] / 2] * 2), *([CLIPPED_SHARE] if clipped else [])]
    sums = tuple(((1.0 - COUNT_SHARE) * shares).tolist())
    return GaussianRounds.calibrated(gram_share=gram, sum_shares=sums, count_shares=tuple(counts), **guarantee)


@dataclass(frozen=True, eq=False)
class Measured:
    """One round releases these values, in the solver's units.

    Attributes
    ----------
    total, noise
        The sum of clipped terms, and the standard deviation of its noise.
    counts, count_noise
        The histogram, or the sums of squares.
    records : float or None
        The number of records, where it was released: in a fit of one round, which has no histogram.
    """

    total: Floats
    noise: float
    counts: Floats
    count_noise: float
    records: float | None = None


class LinearReleases(RoundReleases):
    """Draw rounds of residual products exactly."""

    @property
    def targets(self) -> int:
        """Return the number of target columns."""
        return self._sums.targets

    def round(self, index: int, theta: Floats, *, clip: float, square_clip: float | None) -> Measured:
        """Release one round at θ; with `square_clip` sums of squares come with it, otherwise a histogram."""
        longest = None if square_clip is None else square_clip * self._term_unit
        at = theta * (self._term_unit / self._row)
        clips: dict[str, Any] = {"clip": clip * self._unit, "square_clip": longest, "edges": self._edges(self.longest)}
        sums = self._sums.residual_products(at, **clips)
        total, noise = self._total(index, sums, "residual products")
        if longest is None:
            return Measured(total, noise, *self._histogram(index, sums))
        # One record's squares add up to at most R², and those of one target differ by at most R² in two records.
        squared = Fraction(longest) ** 4 * (self._replaced if self.targets > 1 else 1)
        squares, spread = self._counts(index, sums.squares, squared_reach=squared, name="squared residuals")
        records = None
        if len(self.budget.sum_shares) == 1:
            records = float(self._counts(index + 1, [sums.records], squared_reach=1, name="records")[0][0])
        return Measured(total, noise, squares / self._term_unit**2, spread / self._term_unit**2, records)

    def clipped(self, rows: int) -> float:
        """Release the number of rows that the schema changes; one record moves it by at most 1."""
        last = len(self.budget.count_shares) - 1
        return float(self._counts(last, [rows], squared_reach=1, name="clipped rows")[0][0])


class LinearFit(NamedTuple):
    """A fit returns, in the solver's units, θ for predictions and an estimate without shrinkage for intervals."""

    theta: Floats
    estimate: Unshrunk


def fit_rounds(data: LinearReleases, *, rounds: int) -> LinearFit:
    """Make all releases, and solve. With one round nothing is clipped: the plain solution from a Gram matrix."""
    gram, s = data.gram()
    matrix = Preconditioner.of(gram, noise=s, constant=data.constant)
    theta = np.zeros((data.predictors, data.targets))
    done: list[Round] = []
    seen: list[Measured] = []
    clips = [FIRST_CLIP * data.longest if rounds > 1 else data.longest]
    for index in range(rounds - 1):
        seen.append(data.round(index, theta, clip=clips[-1], square_clip=None))
        bias = _bias(seen[0], clips[0], data.longest) if index == 0 else 0.0
        done.append(Round(theta, seen[-1].total, seen[-1].noise, bias))
        theta = posterior_mean(done, matrix)
        clips.append(_next(seen, clips[-1], data, last=index == rounds - 2))
    spread = float(np.trace(gram)) / max(_records(seen), 1.0)
    last = data.round(rounds - 1, theta, clip=clips[-1], square_clip=_square_clip(seen, data.longest, spread))
    done.append(Round(theta, last.total, last.noise))
    records = _records(seen) if last.records is None else last.records
    estimate = unshrunk(done[-1], gram, noise=s, squares=last.counts, square_noise=last.count_noise, records=records)
    return LinearFit(posterior_mean(done, matrix), estimate)


def _bias(first: Measured, clip: float, longest: float) -> float:
    """Estimate the loss by clipping in the first round, whose clip was a guess, beyond its noise; per entry."""
    taken = BIAS_WEIGHT * longest * tail(first.counts, clip / longest)
    return math.sqrt(NOISE_SHARE * max(taken**2 / first.total.size - first.noise**2, 0.0))


def _next(seen: list[Measured], clip: float, data: LinearReleases, *, last: bool) -> float:
    """Choose the clip of the next round."""
    counts = _steady(seen) if last else seen[-1].counts
    entries, weight = seen[-1].total.size, LAST_BIAS_WEIGHT if last else BIAS_WEIGHT
    chosen = data.longest * next_clip(counts, entries=entries, shift=data.shift(len(seen)), weight=weight)
    return max(chosen, clip / _PACE) if last else min(max(chosen, clip / _PACE), clip * _PACE)


def _steady(seen: list[Measured]) -> Floats:
    """Average the histograms of the later rounds, up to its first bin beyond the fullest one that may be noise only."""
    later = seen[len(seen) // 2 :]
    mean = np.mean([each.counts for each in later], axis=0)
    sure = mean > 2.0 * later[0].count_noise / math.sqrt(len(later))
    fullest = int(mean.argmax())
    sure[fullest:] = np.logical_and.accumulate(sure[fullest:])
    return np.where(sure, mean, 0.0)


def _square_clip(seen: list[Measured], longest: float, spread: float) -> float:
    """Choose the clip of residuals before they are squared: a few standard deviations, or else a target bound.

    The variance is, roughly, the mean squared length over the mean squared row norm, ``spread``.
    """
    if not seen or not spread > 0:
        return 1.0
    counts = _steady(seen)
    deviation = math.sqrt(longest**2 * mean_square(counts) / spread) if counts.any() else 0.0
    return min(_SQUARE_CLIP * deviation, _LONGEST_RESIDUAL) if deviation > 0 else 1.0


def _records(seen: list[Measured]) -> float:
    """Estimate the number of records: histograms add up to it."""
    return float(np.mean([each.counts.sum() for each in seen])) if seen else 0.0
