"""Linear regression learns from noisy Gram matrices and rounds of noisy residual products, in spreads of the columns.

Histograms of the columns and a first Gram matrix choose coordinates (`ndis.learn._coordinates`). Then the Gram matrix
in these and rounds of clipped residual products at the solution so far are released. A histogram of the lengths of the
terms comes with every round but the last, and chooses the next clip. The last round hardly clips, and Σ ttᵀ of its
terms comes with it, for robust errors. The first histograms tell about how many records there are, and this divides the
budget. Noise is proportional to the clip, so the shift of every release is known before it (`ndis.mechanisms.rounds`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ndis._validate import Floats, as_choice
from ndis.data import Rows
from ndis.data.memory import check_lengths
from ndis.gram.sums import RecordSums
from ndis.learn import _solver as solver
from ndis.learn._clips import EDGES, FINE_EDGES, FIRST_CLIP, SPREAD_CLIP, LastClips, last_clips, next_clip, tail
from ndis.learn._coordinates import Coordinates, last_shape, nearer
from ndis.learn._estimator import in_memory_only, stated_bound
from ndis.learn._releases import BELOW, INTERCEPT_SHARE, PLACE_SHARES, RoundReleases
from ndis.learn._rows import as_array, weighted_rows
from ndis.learn._summary import CoefficientTable, RoundsEstimator
from ndis.mechanisms.rounds import GaussianRounds
from ndis.noise.bits import random_bits
from ndis.pages.text import few

METHODS = ("rounds", "gram")
ERRORS = ("robust", "equal-variance")
KINDS = ("mean", "observation")


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearRegression(RoundsEstimator, MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a linear regression with differential privacy, with little error, and with intervals.

    Noisy histograms of the columns and a noisy Gram matrix are released first: rows are then measured in spreads, along
    the directions of the data, and not in public ranges. Then, in a few rounds, sums of clipped residual products at
    the solution so far are released. The clip follows the residuals as they get smaller, and so does the noise. All
    rounds are combined by empirical Bayes: the ridge penalty is chosen from released values. If the data show no
    signal, predictions are the centre.

    `fit_data` reads files, folders, frames or dask collections seven times and once per round. A list as its
    `target` names several targets.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, for records (row, target), for all releases together.
    row_norm_bound : float
        Public bound of the Euclidean norm of a row; longer rows count less, with their targets. Must be stated.
    target_bound : float
        Public bound of the absolute value of a target (of the Euclidean norm, for several targets); larger ones are
        clipped. Must be stated.
    fit_intercept : bool
        Append a constant column and learn an intercept, which is not shrunk. Without it the line goes through zero, in
        the units of the data.
    errors : {"robust", "equal-variance"}
        What standard errors assume: nothing about the variances of the errors (a sandwich estimate), or that all are
        equal.
    adjacency : {"add-remove", "replace-one"}
        Which data sets are neighbours.
    method : {"rounds", "gram"}
        "gram" makes one round without a clip, in the public ranges.
    rounds : int
        Passes over the data after those for the coordinates. There is no need to tune it.
    weight_bound : float, optional
        Public bound of sample weights, if there are any; larger ones are clipped. Weighted rows stay in the public
        ranges.
    random_state : optional
        None draws from the operating system. A seed warns: the result is then not private.
    schema : Schema, optional
        What is public about the table. Rows are then taken in original units. `row_norm_bound` is that of the
        schema unless a smaller one is stated, and `target_bound` is left out. Coefficients, errors and intervals are in
        original units, and rows to predict are taken in these units. With an intercept, the first value of a category
        is the one that the others are compared with, and has no coefficient.
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
    >>> model.score(x, y, public=True) > 0.95
    True
    >>> low, high = model.coef_interval(0.9999)[0]
    >>> bool(low < 10 < high), bool(high - low < 2)
    (True, True)
    """

    target_bound: float | None = None
    method: str = "rounds"
    errors: str = "robust"
    weight_bound: float | None = None
    _long_rows = "count less, together with their targets: estimates are those of a weighted fit"

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
        in_memory_only("sample_weight", sample_weight)
        public, weight = self._checked(), stated_bound("weight_bound", self.weight_bound, clipped="weights")
        rows, one = self._fitted_rows(X, y)
        ranges = self._public_ranges(targets=rows.widths[1])
        origins = ranges.origin, ranges.target_origin
        weighted = weighted_rows(rows, sample_weight, bound=weight, constant=public[2], origins=origins)
        if not isinstance(sample_weight, Real):
            check_lengths(as_array(X), as_array(sample_weight))
        self._learn(weighted, public, one=one, weight=weight)
        return self

    def _check(self, *, files: bool = False) -> tuple[float, float, float | None, int]:
        """Return the bounds of rows and targets, the constant column if there is one, and the number of rounds."""
        row, target = self._row_bound(), self._target_bound()
        as_choice("method", self.method, METHODS)
        as_choice("errors", self.errors, ERRORS)
        several = self.method == "rounds"
        rounds = self._checked_rounds(several=several)
        constant = INTERCEPT_SHARE * row if self.fit_intercept else None
        return row, target, constant, rounds if several else 1

    @property
    def _against_first_category(self) -> bool:
        """With a constant, the columns of a category are collinear. So its values are compared with the first one."""
        return bool(self.fit_intercept)

    def _learn(self, rows: Rows, public: Any, *, one: bool, weight: float | None = None) -> None:
        """Make all releases, and keep results in the units of the data."""
        (row, target, constant, rounds), schema = public, self._schema()
        ranges = self._public_ranges(targets=rows.widths[1], target_bound=target)
        if weight is not None:  # rows start at their origins, and have their constant, times the root of their weight
            ranges = ranges.weighted(math.sqrt(weight), constant)
        sums = RecordSums(rows, row_norm_bound=ranges.row_bound, target_bound=ranges.target_bound)
        budget, bits = calibrated_rounds(**self._public(), rounds=rounds), random_bits(self.random_state)
        how: dict[str, Any] = {"held": weight is not None, "fixed": rounds == 1}
        releases = LinearReleases(sums, budget, bits, public=ranges, constant=constant is not None, **how)
        fit = partial(fit_rounds, robust=self.errors == "robust")
        stated = {"row_norm_bound": row, "target_bound": target, "intercept": constant}
        theta, estimate = self._release(releases, fit, **stated, weight_bound=weight)
        here, column = releases.here, releases.column
        if weight is not None and constant is not None:
            here, column = here.without_last(), constant / ranges.row_bound
        units = self._units(here, column)
        self.coef_, self.intercept_ = self._coefficients(theta, units, one=one)
        self.receipt_ = self.receipt_.bound_to(coefficients=self.coef_, intercept=self.intercept_)
        width = here.target_scale * (1.0 if schema is None else schema.target_scale()[1])
        self.estimate_ = estimate.in_units(units, width=width)
        self.records_ = self.estimate_.records
        deviations = np.sqrt(self.estimate_.residual_variance)
        self.residual_std_ = float(deviations[0]) if one else deviations

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
        as_choice("kind", kind, KINDS)
        intervals = self.estimate_.predicted(self._dense_rows(X), level, residuals=kind == "observation")
        return intervals[:, 0] if self._one_output else intervals

    def _error_words(self) -> str:
        counted = "they count the noise of privacy and of sampling, and what clipping may have taken"
        if self.errors == "robust":
            return f"errors are robust (any variances); {counted}"
        return f"errors assume equal variances; {counted}"

    def summary(self, level: float = 0.95) -> CoefficientTable:
        """Make a table of coefficients, standard errors and intervals, in the units of the data."""
        check_is_fitted(self)
        residual = ", ".join(few(x, 2) for x in np.sqrt(self.estimate_.residual_variance))
        return self._summary("Private linear regression", level, f"standard deviation of residuals about {residual}")


# ---------------------------------------------------------------------- the rounds: order and budget of the releases

# Shares of the squared shift; chosen like the constants of the solver, and as little sensitive.
GRAM_SHARES = (0.07, 0.26)  # the matrix that finds directions, and the one along them
TERM_SHARES = (0.03, 0.05)  # Σ ttᵀ for the shape of the last round, and Σ ttᵀ of it for robust errors
LAST_SHARE = 0.28  # the last round, which intervals need
HISTOGRAM_SHARE = 0.01  # the histogram of a round
FINE_SHARE = 0.05  # the histogram that chooses the last clip
FEW_SHARES = (0.27, 0.02, 0.02, 0.1)  # Gram matrix, Σ ttᵀ, last histogram and round, if the noise hides the columns
FURTHER_ROUNDS = 3  # more than with many records
# If records are this many times the largest eigenvalue of the noise of a Gram matrix with all of the budget, early
# releases need a part of their shares, which falls like the root of the records.
_CLEAR = 15.0
BIAS_WEIGHT = 0.15
_LONGEST_TERM = 8.0  # in the last round, times the root of the entries: the unit of its clip
_SEEN = 3.0  # standard deviations of its noise above which a bin of longer terms is seen
_PACE = 2.0  # the clip may change by this factor per round: histograms are noisy


def divided(rounds: int, *, few: bool = False, early: float = 1.0) -> dict[str, Any]:
    """Divide a budget among the releases of a fit.

    If the noise hides the columns, there are few records, and errors of the last round matter less than predictions.
    If there are many, what comes before the last round needs only a part of its share, `early`.

    >>> shares = divided(3)
    >>> [len(each) for each in shares.values()], round(sum(map(sum, shares.values())), 12)
    ([4, 3, 5], 1.0)
    """
    matrices, places, fine, last = [*GRAM_SHARES, *TERM_SHARES], list(PLACE_SHARES), FINE_SHARE, LAST_SHARE
    if few:
        gram, squares, fine, last = FEW_SHARES
        matrices, places[1] = [gram, 0.0, 0.0, squares], 0.0
        rounds += FURTHER_ROUNDS if rounds > 1 else 0
    counts = [*places, *[HISTOGRAM_SHARE] * (rounds - 1), fine]
    left = 1.0 - sum(counts) - sum(matrices) - last
    sums = [early * left / (rounds - 1)] * (rounds - 1) if rounds > 1 else []
    matrices[:-1] = [early * share for share in matrices[:-1]]
    sums.append(1.0 - sum(counts) - sum(matrices) - sum(sums))
    return {"matrix_shares": matrices, "sum_shares": sums, "count_shares": counts}


def chosen_shares(budget: GaussianRounds, *, records: float, predictors: int, few: bool = False) -> dict[str, Any]:
    """Divide a budget anew, once the number of records is known (thm:rounds-chosen)."""
    noise = (2.0 * predictors) ** 1.5 / budget.shift  # the largest eigenvalue, of rows of squared norm 2 per column
    early = math.sqrt(min(1.0, _CLEAR * noise / max(records, noise)))
    shares = divided(len(budget.sum_shares), few=few, early=early)
    return shares | {"sum_shares": [share * BELOW for share in shares["sum_shares"]]}


@lru_cache(maxsize=64)
def calibrated_rounds(*, rounds: int, **guarantee: Any) -> GaussianRounds:
    """Calibrate the budget of a fit to ε, δ and adjacency.

    >>> budget = calibrated_rounds(epsilon=1.0, delta=1e-6, adjacency="add-remove", rounds=3)
    >>> round(sum([*budget.matrix_shares, *budget.sum_shares, *budget.count_shares]), 12)
    1.0
    """
    return GaussianRounds.calibrated(**divided(rounds), **guarantee)


# ---------------------------------------------------------------------- the last round, and its shape

_AWAY, _DOUBT = 2.0, 0.5  # for columns with records more spreads away, Σ ttᵀ may be larger by a share of its noise


class LastRound(NamedTuple):
    """The last round has terms times a matrix, so that their noise is like that of sampling in every direction.

    Attributes
    ----------
    rows : RecordSums
    inverse : (predictors, predictors) array
        Its product with such a term is the term.
    clips : LastClips
    doubt : array
        Σ ttᵀ may be larger than released by this share of its noise, where few records far away make most of it.
    """

    rows: RecordSums
    inverse: Any
    clips: LastClips
    doubt: Any = 0.0

    def meat(self, terms: Floats, noise: float, gram: Floats) -> dict[str, Any]:
        """Return the released Σ ttᵀ in the present coordinates, its noise, and what clipping adds, as a share of it.

        A noisy matrix is brought nearer to that of errors of equal variance, but no entry of its diagonal that is, or
        may be, above. The clip takes Σ wᵢuᵢ from the sum, with lengths wᵢ and directions uᵢ, and
        (Σ wᵢuᵢ)(Σ wᵢuᵢ)ᵀ ≤ Σ wᵢ·Σ wᵢuᵢuᵢᵀ. The directions of long terms are taken to be those of all terms, so it is at
        most (Σ wᵢ)² times Σ ttᵀ/Σ‖t‖².
        """
        shape = np.linalg.inv(self.inverse)
        equal, least = shape @ gram @ shape.T, noise * math.sqrt(len(gram))
        size = [max(float(np.trace(each)), least) for each in terms]
        whole = max(float(np.trace(equal)), least)
        grown = []
        for each, n in zip(terms, size, strict=True):
            near = nearer(each, n / whole * equal, noise)[0]
            above = np.maximum(np.diagonal(each) - np.diagonal(near) + self.doubt * noise, 0.0)
            grown.append(self.clips.grown * self.inverse @ (near + np.diag(above)) @ self.inverse.T)
        wide = noise * self.clips.grown * float((self.inverse**2).sum()) / len(gram)
        return {"terms": np.stack(grown), "term_noise": wide, "bias": self.clips.taken / sum(size) / self.clips.grown}


class LinearReleases(RoundReleases):
    """Draw rounds of residual products exactly."""

    @property
    def targets(self) -> int:
        """Return the number of target columns."""
        return self._sums.targets

    def shares(self, spreads: Coordinates | None, records: float) -> dict[str, Any]:
        """Choose the shares of all further releases from the number of records that the first one tells."""
        if self._fixed:  # in public coordinates one Gram matrix has the shares of both
            (first, second, *others), (place, _, *counts) = self.budget.matrix_shares, self.budget.count_shares
            return {"matrix_shares": ((first + second) * BELOW, 0.0, *others), "count_shares": (place, 0.0, *counts)}
        predictors = len(self.here.centre) + self.constant
        return chosen_shares(self.budget, records=records, predictors=predictors, few=spreads is None)

    def here_clipped(self, predictors: int, clip: float) -> LastRound:
        """Return clipped terms in the present coordinates."""
        return LastRound(self.rows(), np.eye(predictors), LastClips(clip, 0.0, clip, 1.0))

    def round(self, index: int, theta: Floats, terms: LastRound) -> tuple[Floats, float, Floats, float]:
        """Release one round at θ: a sum, its noise, the histogram of its terms, and its noise."""
        edges = [edge * self.longest for edge in EDGES]
        sums = terms.rows.residual_products(theta, clip=terms.clips.clip, edges=edges)
        return *self._total(index, sums, "residual products"), *self._histogram(len(PLACE_SHARES) + index, sums)

    def squares(self, index: int, theta: Floats, last: LastRound) -> tuple[Floats, float]:
        """Release Σ ttᵀ of the clipped terms at θ in their shape, one matrix per target; with its noise."""
        grams = last.rows.term_grams(last.inverse.T @ theta, clip=last.clips.squares)
        released = [self._matrix(len(GRAM_SHARES) + index, gram, "squared terms") for gram in grams]
        return np.stack([values for values, _ in released]), released[0][1]

    def last_round(self, index: int, theta: Floats, shape: Floats) -> LastRound:
        """Release the histogram of the lengths of terms times `shape`, and choose their clips."""
        rows, inverse, unit = self.rows(shape), np.linalg.inv(shape), math.sqrt(theta.size) * _LONGEST_TERM
        sums = rows.residual_products(inverse.T @ theta, clip=unit, edges=[unit * edge for edge in FINE_EDGES])
        histogram, s = self._histogram(len(PLACE_SHARES) + index, sums)
        residual = self.farthest_target + self.row_bound * float(np.linalg.norm(theta))
        farthest = float(np.linalg.norm(shape, 2)) * self.row_bound * residual / unit
        how = {"shift": self.shift(index), "square_noise": self.budget.matrix_noise(len(GRAM_SHARES) + 1, Fraction(1))}
        c = last_clips(histogram, s, entries=theta.size, farthest=farthest, rare=1 / (1 + self.far.max() ** 2), **how)
        doubt = _DOUBT * (np.append(self.far, np.zeros(len(theta)))[: len(theta)] > _AWAY)
        return LastRound(rows, inverse, LastClips(c.clip * unit, c.taken * unit**2, c.squares * unit, c.grown), doubt)

    def total(self, index: int, theta: Floats, last: LastRound) -> tuple[Floats, float]:
        """Release the sum of the last round in the present coordinates; with its noise in those of its shape."""
        sums = last.rows.residual_products(last.inverse.T @ theta, clip=last.clips.clip)
        if index == 0:  # no histogram adds up to the number of records
            self._record_count(len(PLACE_SHARES), [sums.records], squared_reach=1, name="records")
        total, noise = self._total(index, sums, "residual products")
        return last.inverse @ total, noise


def fit_rounds(data: LinearReleases, *, robust: bool = True) -> tuple[Floats, solver.Unshrunk]:
    """Make all releases, and return θ for predictions and an estimate without shrinkage, in the coordinates of a fit.

    With one round nothing is clipped: the plain solution from a Gram matrix.
    """
    gram, s = data.settle()
    rounds = len(data.budget.sum_shares)
    matrix = solver.Preconditioner.of(gram, noise=s, constant=data.constant)
    theta = np.zeros((len(gram), data.targets))
    done: list[solver.Round] = []
    in_spreads = data.budget.count_shares[1] > 0  # only then the norms of rows have a histogram
    clip = (SPREAD_CLIP if in_spreads else FIRST_CLIP) if rounds > 1 else data.farthest_target
    for index in range(rounds - 1):
        terms = data.here_clipped(len(gram), clip * data.longest)
        total, noise, histogram, hidden = data.round(index, theta, terms)
        seen = histogram if index == 0 else np.where(histogram > _SEEN * hidden, histogram, 0.0)
        taken = tail(seen, clip) * data.longest
        done.append(solver.Round(theta, total, noise, taken / math.sqrt(total.size)))
        theta = solver.posterior_mean(done, matrix)
        chosen = next_clip(histogram, entries=total.size, shift=data.shift(index), weight=BIAS_WEIGHT)
        clip = min(max(chosen, clip / _PACE), clip * _PACE)
    last = data.here_clipped(len(gram), clip * data.longest)
    if rounds > 1:
        shape = np.eye(len(gram)) * math.sqrt(theta.size) / last.clips.clip
        if data.budget.matrix_shares[len(GRAM_SHARES)]:  # otherwise there are too few records to see their shape
            shape = last_shape(*data.squares(0, theta, last), max(data.records(), 1.0))
        last = data.last_round(rounds - 1, theta, shape)
    total, noise = data.total(rounds - 1, theta, last)
    own = last.inverse @ last.inverse.T
    done.append(solver.Round(theta, total, noise, math.sqrt(last.clips.taken / total.size), own))
    solved = solver.posterior_mean(done, matrix)
    meat = last.meat(*data.squares(1, theta if rounds > 1 else solved, last), gram)
    how = {"own": own * noise**2, "noise": s, "records": data.records(), "robust": robust, "alike": in_spreads, **meat}
    return solved, solver.unshrunk(theta, total, gram, **how)
