"""Private logistic regression learns in rounds of gradients, or from the posterior of a Gaussian model.

*Rounds.* Coordinates are chosen as for a linear regression (`ndis.learn._coordinates`). A noisy Gram matrix in these
preconditions clipped, noisy gradients. The Hessian of the logistic loss is at most XᵀX/4, and that of softmax at most
XᵀX/2 (Böhning). So one released Gram matrix serves all rounds. A round releases
Σ clip(x ⊗ (p − onehot(y))) at the weights so far. It also releases a histogram of the lengths of its terms, which
chooses the next clip. The step is shrunk by empirical Bayes: with no evidence of a gradient there is no step. Every
round's shift is fixed in advance (`ndis.mechanisms.rounds`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ndis._validate import Floats, as_adjacency, as_choice, as_scalar, require
from ndis.data import Rows, Table
from ndis.errors import ParameterError
from ndis.gram.sums import RecordSums
from ndis.learn import _solver as solver
from ndis.learn._clips import EDGES, FIRST_CLIP, next_clip, tail
from ndis.learn._coordinates import FARTHEST, Coordinates
from ndis.learn._estimator import calibrated
from ndis.learn._labels import label_codes, label_signs, occurring_classes, private_labels, stated_classes
from ndis.learn._releases import BELOW, INTERCEPT_SHARE, PLACE_SHARES, RoundReleases
from ndis.learn._summary import CoefficientTable, RoundsEstimator
from ndis.mechanisms.gaussian import unit_noise
from ndis.mechanisms.lifted import lift
from ndis.mechanisms.releases import GaussianRelease
from ndis.mechanisms.rounds import GaussianRounds
from ndis.models import BohningLogistic
from ndis.models.exact_solve import Release
from ndis.noise.bits import random_bits

METHODS = ("rounds", "mean", "posterior")

# Chosen on breast cancer and digits; accuracies change by less than a point within a factor of 1.5.
GRAM_SHARES = (0.08, 0.2)  # the matrix that finds directions, and the one along them
COUNT_SHARE = 0.1  # the histogram takes this share of a round
BIAS_WEIGHT = 0.3
INTERVAL_GRAM_SHARES = (0.06, 0.08)  # if intervals are asked for: the Hessian then serves for half of the rounds
HESSIAN_SHARES = (0.05, 0.1)  # for the two weighted Gram matrices, if intervals are asked for
FEW_HESSIAN = 0.03  # for the last one, if there are few records
LAST_ROUND = 3.0  # rounds' worth of budget for the last round then, which intervals are made from
CURVATURE = 0.6  # this share of Böhning's bound, which holds at weights of zero only; steps are stable above one half
EIGENVALUE_FLOOR = 0.5  # this share of s·√(2p), the largest eigenvalue of the noise
HESSIAN_FLOOR = 1.5  # the same for the Hessian: steps along directions that its noise makes would be too long
AFFORDED = 0.1  # rows of the last Hessian are longer while its noise is below this share of its least eigenvalue
_SETTLED = 0.5  # typical log-odds move by less in the last round, or else a note says so
_READ = "; classes were read from the labels, which is not private: state `classes`"
_PACE = 4.0  # the clip may change by this factor per round


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(RoundsEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a logistic regression with differential privacy, of several classes by softmax.

    `method="rounds"`, the default, releases a noisy Gram matrix and then, in a few rounds, sums of clipped gradients at
    the weights so far. It needs no penalty, and its error falls as records are added. The other two methods release
    Böhning's Gaussian posterior (`ndis.models.BohningLogistic`) once, by `ndis.lift`: its mean plus noise, or a draw
    plus noise. Their noise does not fall as records are added; they have two classes only.

    `fit_data` reads files, folders, frames or dask collections. With `method="rounds"` they are read once per release.
    The other methods keep the encoded records in memory. Labels are then numbers and
    `classes` must be stated, or a schema names the target and its classes, which may be text.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, for records (row, label).
    row_norm_bound : float
        Public bound of the Euclidean norm of a row; longer rows are clipped to it. Must be stated.
    fit_intercept : bool
        Append a constant column and learn its weight.
    classes : sequence, optional
        The labels, text or numbers; public. Of two, the positive one is last. None takes them from `y`: **the set of
        labels that occur is then treated as public knowledge**, and the guarantee holds for data sets with the same
        labels. With `classes` given it holds for all, and a record with another label counts as no record.
    method : {"rounds", "mean", "posterior"}
    rounds : int
        Of "rounds": passes over the data after the one for the Gram matrix.
    intervals : bool, optional
        Of "rounds", for two classes, and then the default: release the Hessian too, from the same budget, for
        `coef_interval` and errors in `summary`. It takes two more passes and some of the budget. With a schema and an
        intercept, the other values of a category are then compared with its first one.
    adjacency : {"add-remove", "replace-one"}
        Of "rounds": which data sets are neighbours. The other methods have "add-remove" only.
    l2_penalty : float, optional
        Of "mean" and "posterior": λ, the penalty on the squared weights, the intercept included. The noise falls
        as 1/λ. None takes l²/μ, with l the norm bound of a row and μ the shift that the budget allows: with it the
        noise moves the log-odds of a row by about one.
    max_records : int, optional
        Of "mean" and "posterior"; see `BohningLogistic`. None needs no promise.
    bound : {"exact", "renyi", "paper"}
        Of "mean" and "posterior"; see `ndis.lift`.
    random_state : optional
        None draws from the operating system. A seed warns: the result is then not private.
    schema : Schema, optional
        What is public about the table. Rows are then taken in original units. `row_norm_bound` is that of the schema
        unless a smaller one is stated. The classes are those of its target. Coefficients are in original units.
    ledger : path, optional
        The `ndis.Ledger` that pays for all releases of a fit together. It reserves before data is read.
    slot : str, optional
        The slot of a plan in the ledger.

    Attributes
    ----------
    coef_ : (1, features) or (classes, features) array
    intercept_ : (1,) or (classes,) array
    classes_ : array
    profile_ : PrivacyProfile
        The certified guarantee of all releases together, at every ε; of "rounds".
    estimate_ : Unshrunk
        With intervals: the weights without shrinkage, with their covariance, in the units of the data; the intercept
        is last.
    last_step_ : float
        With intervals: by how much typical log-odds moved in the last round.
    baseline_ : dict
        With intervals, a schema and an intercept: the value that the others of each category are compared with.
    receipt_, mechanism_
        What is guaranteed, and how. The receipt's parameter `classes_stated` is false where the classes were taken from
        `y`.
    release_, l2_penalty_
        Of "mean" and "posterior": what was released, and the penalty used.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, size=(4000, 2))
    >>> y = (x @ [2.0, -1.0] > 0).astype(int)
    >>> model = PrivateLogisticRegression(row_norm_bound=1.5, classes=(0, 1)).fit(x, y)
    >>> model.score(x, y, public=True) > 0.9
    True
    >>> y = (rng.uniform(size=4000) < 1 / (1 + np.exp(-x[:, 0]))).astype(int)
    >>> model = PrivateLogisticRegression(row_norm_bound=1.5, classes=(0, 1)).fit(x, y)
    >>> low, high = model.coef_interval(0.9999)[0]
    >>> bool(low < 1 < high)
    True
    >>> PrivateLogisticRegression().fit(x, y)
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: row_norm_bound must be a positive number; got None; ...
    """

    classes: Any = None
    method: str = "rounds"
    intervals: bool | None = None
    l2_penalty: float | None = None
    max_records: int | None = None
    bound: str = "exact"

    def _check(self, *, files: bool = False) -> tuple[float, bool]:
        """Return the row bound, and whether targets are the classes themselves, which are then numbers, in files."""
        row_norm_bound = self._row_bound()
        self.__dict__.pop("estimate_", None)  # an earlier fit may have set it
        schema = self._schema(classes=self.schema is not None)
        if schema is not None and self.classes is not None:
            raise ParameterError("classes", "be left out with a schema, whose target has classes", self.classes)
        classes = self.classes if schema is None else schema.classes
        as_choice("method", self.method, METHODS)
        adjacency, several = as_adjacency(self.adjacency), self.method == "rounds"
        if several:
            for name in ("l2_penalty", "max_records"):
                require(getattr(self, name) is None, name, "be left out with method='rounds'", getattr(self, name))
            self._checked_rounds()
        elif adjacency != "add-remove":
            raise ParameterError("adjacency", f"be 'add-remove' with method={self.method!r}", repr(adjacency))
        require(several or not self.intervals, "intervals", "be True only with method='rounds'", self.intervals)
        if classes is not None or files:
            self.classes_ = stated_classes(classes, several=several)
            self._check_classes()
        if files and schema is None and self.classes_.dtype.kind not in "biuf":
            raise ParameterError("classes", "be numbers, or part of a schema, for files", repr(self.classes))
        return row_norm_bound, files and schema is None

    def _given_targets(self, y: Any) -> Any:
        """Check labels. Without stated classes, those that occur are public, and labels are read here."""
        labels = private_labels(y)
        if self.classes is None:
            self.classes_ = occurring_classes(labels, several=self.method == "rounds")
            self._check_classes()
        return labels

    def _target_numbers(self, targets: Any) -> Any:
        """Return the numbers of the classes, which are read at their first use."""
        classes = self.classes_
        codes = cache(lambda: label_codes(targets, classes))
        return Table((frozenset({"number"}),), lambda wanted: iter([[codes()] * len(wanted)]))

    def _learn(self, rows: Rows, public: tuple[float, bool], *, one: bool) -> None:
        """Learn in rounds, or lift the model with the bound of Böhning."""
        row_norm_bound, as_numbers = public
        codes: Any = self.classes_.astype(np.float64).tolist() if as_numbers else range(len(self.classes_))
        if self.method == "rounds":
            self._descend(rows, codes, row_norm_bound)
            return

        require(rows.widths[1:] == [1], "targets", "be one column of classes", rows.widths[1])

        def read() -> tuple[Any, Floats]:
            x, labels = rows.arrays(most=self.max_records)
            return x, label_signs(labels[:, 0], np.array(codes))

        self._lift(read, row_norm_bound)

    def _check_classes(self) -> None:
        if self.intervals and len(self.classes_) != 2:
            remedy = "intervals are for two classes; join the others, or leave intervals out"
            raise ParameterError("classes", "be two with intervals=True", f"{len(self.classes_)} classes", remedy)

    @property
    def _with_intervals(self) -> bool:
        """Say if the fit has intervals: unless stated otherwise, in rounds for two classes."""
        return bool(self.method == "rounds" and len(self.classes_) == 2 if self.intervals is None else self.intervals)

    @property
    def _against_first_category(self) -> bool:
        """With a constant, the columns of a category are collinear, and no interval would be finite."""
        return bool(self._with_intervals and self.fit_intercept)

    def _descend(self, data: Any, codes: Any, row_norm_bound: float) -> None:
        """Learn in rounds of gradients."""
        intervals = self._with_intervals
        budget = calibrated_gradients(**self._public(), rounds=self._checked_rounds(), intervals=intervals)
        sums = RecordSums(data, row_norm_bound=row_norm_bound, classes=codes)
        ranges, constant = self._public_ranges(targets=0), bool(self.fit_intercept)
        bits = random_bits(self.random_state)
        releases = GradientReleases(sums, budget, bits, public=ranges, constant=constant)
        fit = partial(fit_gradients, classes=len(self.classes_), rounds=len(budget.sum_shares), intervals=intervals)
        public = {"row_norm_bound": row_norm_bound, "classes_stated": self._classes_stated()}
        theta, estimate = self._release(releases, fit, **public)
        units = self._units(releases.here, releases.column)
        self.coef_, self.intercept_ = self._coefficients(theta, units)
        self.receipt_ = self.receipt_.bound_to(coefficients=self.coef_, intercept=self.intercept_)
        if estimate is not None:
            self.estimate_ = estimate.in_units(units)
            self.last_step_ = float(np.linalg.norm(estimate.theta - estimate.at))

    def _lift(self, read: Callable[[], tuple[Any, Floats]], row_norm_bound: float) -> None:
        """Learn from the posterior."""
        constant = INTERCEPT_SHARE * row_norm_bound if self.fit_intercept else None
        weights, budget = self.n_features_in_ + (constant is not None), self._budget()
        if self.l2_penalty is None:
            squared = row_norm_bound**2 + (constant or 0.0) ** 2
            self.l2_penalty_ = squared * unit_noise(*budget.values())
        else:
            self.l2_penalty_ = as_scalar("l2_penalty", self.l2_penalty)
        public: dict[str, Any] = {"row_norm_bound": row_norm_bound, "max_records": self.max_records}
        drawn: Release = "mean" if self.method == "mean" else "draw"
        model = BohningLogistic(l2_penalty=self.l2_penalty_, intercept=constant, release=drawn, **public)
        mechanism = calibrated(lift, model=model, bound=str(self.bound), **budget)

        def make() -> GaussianRelease:
            release: GaussianRelease = mechanism.release(read(), random_state=self.random_state)
            parameters = {**release.receipt.parameters, "classes_stated": self._classes_stated()}
            return replace(release, receipt=replace(release.receipt, parameters=parameters, digest=""))

        release = self._keep(mechanism, make)
        theta = np.asarray(release.values, dtype=np.float64).reshape(weights, 1)
        units = self._in_units(np.diag(np.append(np.ones(self.n_features_in_), constant or [])))
        self.coef_, self.intercept_ = self._coefficients(theta, units)

    def _classes_stated(self) -> bool:
        return self.classes is not None or self.schema is not None

    def decision_function(self, X: Any) -> Floats:
        """Compute the log-odds of the second class, or a score for each of several classes."""
        scores = self._linear_scores(X)
        return scores[:, 0] if len(self.coef_) == 1 else scores

    def predict(self, X: Any) -> Any:
        """Return the likeliest class of each row."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Floats:
        """Compute the probabilities of the classes under the released weights."""
        scores = self.decision_function(X)
        return np.asarray(np.stack([expit(-scores), expit(scores)], 1) if scores.ndim == 1 else softmax(scores, axis=1))

    def predict_interval(self, X: Any, level: float = 0.95) -> Floats:
        """Compute intervals of the probability of the second class for rows; of a fit with intervals.

        They are those of the log-odds xᵀβ of the population, mapped to probabilities, with the assumptions of
        `coef_interval`. They are [0, 1] if the noise hides all directions of the features.

        Returns
        -------
        (n, 2) array
        """
        self._check_intervals()
        return np.asarray(expit(self.estimate_.predicted(self._dense_rows(X), level)[:, 0]))

    def summary(self, level: float = 0.95) -> CoefficientTable:
        """Make a table of coefficients, in the units of the data, with errors and intervals if the fit has them.

        `summary().odds_ratios()` are the odds ratios with their intervals.
        """
        check_is_fitted(self)
        if not hasattr(self, "estimate_"):
            return self._shrunk_table(level)
        words = "log-odds of {1!r} against {0!r}".format(*self.classes_.tolist()) + _READ * (not self._classes_stated())
        if self.last_step_ > _SETTLED:
            words += f"; they moved by {self.last_step_:.2g} in the last round: a column may separate the classes"
        return self._summary("Private logistic regression", level, words)

    def _shrunk_table(self, level: float) -> CoefficientTable:
        """Make a table of a fit without intervals: the weights for predictions, and no error is known."""
        labels = [""] if len(self.coef_) == 1 else [f"{label}: " for label in self.classes_.tolist()]
        weights = np.hstack([self.coef_, np.reshape(self.intercept_, (-1, 1))]).ravel()
        index = [(f"{label}{name}",) for label in labels for name in [*self._names(), "(intercept)"]]
        note = "shrunk: for predictions; errors are unknown: rounds of two classes with intervals release them"
        values, notes = (weights, weights + np.inf), (self.receipt_.words, note + _READ * (not self._classes_stated()))
        title = "Private logistic regression"
        return CoefficientTable.normal(title, ("name",), index, values, level, notes, shrunk=weights)

    def _check_intervals(self) -> None:
        check_is_fitted(self)
        if not hasattr(self, "estimate_"):
            remedy = "two classes with method='rounds' have them by default; they take a part of the budget"
            raise ParameterError("intervals", "be released in the fit", self.intervals, remedy)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.method == "rounds"
        return tags


# ---------------------------------------------------------------------- the rounds: order and budget of the releases


@lru_cache(maxsize=64)
def calibrated_gradients(*, rounds: int, intervals: bool = False, **guarantee: Any) -> GaussianRounds:
    """Calibrate the budget of a fit to ε, δ and adjacency; the last round has no histogram.

    With `intervals` there are shares for two Hessians, and the last round has more.

    >>> budget = calibrated_gradients(epsilon=1.0, delta=1e-6, adjacency="add-remove", rounds=3)
    >>> len(budget.sum_shares), len(budget.count_shares)
    (3, 4)
    """
    return GaussianRounds.calibrated(**divided_gradients(rounds, intervals=intervals), **guarantee)


def divided_gradients(rounds: int, *, intervals: bool, few: bool = False) -> dict[str, Any]:
    """Divide a budget among the releases of a fit; with few records predictions matter more than intervals."""
    own, times = [*INTERVAL_GRAM_SHARES, *HESSIAN_SHARES], LAST_ROUND
    if few or not intervals:
        own, times = [*GRAM_SHARES, *(0.0, FEW_HESSIAN) * intervals], 1.0
    share = (1.0 - sum(own) - sum(PLACE_SHARES)) / (rounds - 1 + times)
    sums = [*[(1.0 - COUNT_SHARE) * share] * (rounds - 1), times * share]
    counts = [*PLACE_SHARES, *[COUNT_SHARE * share] * (rounds - 1)]
    if few:  # the public coordinates stay: one Gram matrix has the shares of both
        own[:2], counts[1] = [own[0] + own[1], 0.0], 0.0
    return {"matrix_shares": own, "sum_shares": sums, "count_shares": counts}


class GradientReleases(RoundReleases):
    """Draw rounds of gradients exactly.

    Rows beyond a bound weigh less. The Hessian is small if a class is rare: noise that rows could afford would hide
    it. So the bound is that of typical rows, until a Hessian tells more.
    """

    afforded = 0.0

    def shares(self, spreads: Coordinates | None, records: float) -> dict[str, Any]:
        """Choose the shares of all further releases: if the noise hides the columns, there are few records."""
        intervals, few = len(self.budget.matrix_shares) > len(GRAM_SHARES), spreads is None
        own = divided_gradients(len(self.budget.sum_shares), intervals=intervals, few=few)
        return own | {"sum_shares": [share * BELOW for share in own["sum_shares"]]}

    def round(self, index: int, theta: Floats, *, clip: float, last: bool) -> Any:
        """Release a gradient at θ, and the histogram of its terms; without the histogram in the last round."""
        at, edges = theta[:, 0] if theta.shape[1] == 1 else theta, [edge * self.row_bound for edge in EDGES]
        sums = self._whole_rows().gradients(at, clip=clip * self.row_bound, edges=edges, row_bound=self.row_bound)
        total, noise = self._total(index, sums, "gradients")
        histogram = None if last else self._histogram(len(PLACE_SHARES) + index, sums)[0]
        return total.reshape(theta.shape), noise, histogram

    def hessian(self, index: int, theta: Floats, size: float) -> tuple[Floats, float]:
        """Release the Hessian of the logistic loss at θ; with the standard deviation of its diagonal's noise.

        The bound is larger while the noise is small against `size`, the least eigenvalue of an earlier one.
        """
        at, rows = len(INTERVAL_GRAM_SHARES) + index, self._whole_rows()
        noise = self.budget.matrix_noise(at, Fraction(1, 4)) * math.sqrt(2.0 * len(theta))
        self.row_bound = min(max(self.row_bound, math.sqrt(AFFORDED * size / noise)), rows.layout.joint_norm_bound)
        return self._matrix(at, rows.weighted_gram(theta[:, 0], row_bound=self.row_bound), "weighted gram")

    def _whole_rows(self) -> RecordSums:
        """Return the records with rows that no bound shortens: log-odds are those of whole rows."""
        return self._mapped(min(self._public.longest(self.here), FARTHEST), self.column)


def fit_gradients(
    data: GradientReleases, *, classes: int, rounds: int, intervals: bool = False
) -> tuple[Floats, solver.Unshrunk | None]:
    """Make all releases.

    Returns
    -------
    theta : (predictors, 1) array for two classes, (predictors, classes) otherwise
    estimate : Unshrunk or None
        Without shrinkage, with `intervals`. The Hessian is released after half of the rounds. The steps from there
        on are near those of Newton's method. It is released again for the last round, which is near the solution. One
        step from there, not shrunk, is the estimate. The last round hardly clips: a clip would bias it. If the noise
        hides the columns, there are few records, and predictions come first: the Hessian is released for the last round
        only, whose clip is that for predictions, and what it may take is counted.
    """
    outputs = 1 if classes == 2 else classes
    gram, s = data.settle()
    values, vectors = np.linalg.eigh(gram)
    predictors, many = len(gram), data.budget.count_shares[1] > 0  # only then the norms of rows have a histogram
    widest = np.sqrt(2.0 * predictors)  # the largest eigenvalue of a matrix of noise
    curvature = CURVATURE * 0.25 * min(outputs, 2) * np.maximum(values, EIGENVALUE_FLOOR * s * widest)
    theta, clip, size = np.zeros((predictors, outputs)), FIRST_CLIP * math.sqrt(min(outputs, 2)), 0.0
    estimate = None
    for index in range(rounds):
        last = index == rounds - 1
        if intervals and (last or (index == rounds // 2 and many)):
            hessian, s = data.hessian(int(last), theta, size)
            if many:
                if last:  # no term of two classes is longer than its row
                    clip, taken = 1.0, 0.0
                values, vectors = np.linalg.eigh(hessian)
                curvature, size = np.maximum(values, HESSIAN_FLOOR * s * widest), max(float(values[0]), 0.0)
        total, noise, histogram = data.round(index, theta, clip=clip, last=last)
        if intervals and last:
            own = (noise**2 + taken**2) * np.eye(predictors)
            estimate = solver.unshrunk(theta, -total, hessian, own=own, noise=s, records=data.records(), alike=many)
        if outputs > 1:
            total = total - total.mean(axis=1, keepdims=True)  # residuals of a record add up to zero: this is noise
        rotated, every = (vectors.T @ total).ravel(), np.repeat(curvature, outputs)
        if solver.evidence(rotated, every, noise**2) > solver.EVIDENCE:
            step = solver.shrunk(rotated, every, solver.NOISE_SHARE * noise**2)[0]
            theta = theta - vectors @ step.reshape(theta.shape)
        if not last:
            shift = data.shift(index + 1)
            chosen = next_clip(histogram, entries=theta.size, shift=shift, weight=BIAS_WEIGHT)
            clip = min(max(chosen, clip / _PACE), clip * _PACE)
            taken = tail(histogram, clip) * data.row_bound
    return theta, estimate
