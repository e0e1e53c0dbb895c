"""Private logistic regression: in rounds of gradients, or from the posterior of a Gaussian model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ndis._validate import as_scalar
from ndis.data.source import Groups
from ndis.errors import ParameterError
from ndis.gram.sums import RecordSums
from ndis.learn._base import INTERCEPT_SHARE, Floats
from ndis.learn._inference import CoefficientTable
from ndis.learn._labels import label_codes, label_signs, occurring_classes, private_labels, signs_of, stated_classes
from ndis.learn._releases import RoundsEstimator
from ndis.learn._softmax import CONSTANT_SHARE, GradientReleases, calibrated_gradients, fit_gradients
from ndis.learn._tables import calibrated, in_memory, one_of
from ndis.mechanisms.base import as_adjacency
from ndis.mechanisms.gaussian import unit_noise
from ndis.mechanisms.lifted import lift
from ndis.models import BohningLogistic
from ndis.noise.bits import random_bits

__all__ = ["PrivateLogisticRegression"]

METHODS = ("rounds", "mean", "posterior")


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(ClassifierMixin, RoundsEstimator):  # type: ignore[misc]
    """Differentially private logistic regression, of several classes by softmax.

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
        Of "rounds": passes over the data beside the one for the Gram matrix.
    intervals : bool
        Of "rounds", for two classes: release the Hessian too, from the same budget, so that there are `coef_interval`
        and `summary`. It takes two more passes and some of the budget: predictions get a little worse. With a schema
        and an intercept, the other values of a category are then compared with its first one.
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
        What is public about the table. Rows are then taken in units as they are. `row_norm_bound` is that of the schema
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
        With `intervals`: the weights without shrinkage, with their covariance, in the units of the data; the intercept
        is last.
    baseline_ : dict
        With `intervals`, a schema and an intercept: the value that the others of each category are compared with.
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
    >>> model.score(x, y) > 0.9
    True
    >>> y = (rng.uniform(size=4000) < 1 / (1 + np.exp(-x[:, 0]))).astype(int)
    >>> model = PrivateLogisticRegression(row_norm_bound=1.5, classes=(0, 1), intervals=True).fit(x, y)
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
    intervals: bool = False
    l2_penalty: float | None = None
    max_records: int | None = None
    bound: str = "exact"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the weights.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, features)
            The private rows.
        y : array of shape (n,)
            The private labels.
        """
        row_norm_bound = self._check()
        rows = self._fitted_rows(X)
        several = self.method == "rounds"
        if self.schema is not None:
            codes = self._fitted_targets(X, y)
        else:
            labels = private_labels(self, y)
            if self.classes is None:
                self.classes_ = occurring_classes(labels, several=several)
                self._check_classes()
            codes = label_codes(labels, self.classes_)
        if not several:
            return self._lift(lambda: (rows, signs_of(codes)), row_norm_bound)
        return self._descend((rows, codes[:, None]), range(len(self.classes_)), row_norm_bound)

    def _learn_opened(self, opened: Any, groups: Groups, bounds: float, **given: Any) -> Self:
        codes: Any = self.classes_.astype(np.float64).tolist() if self.schema is None else range(len(self.classes_))
        if self.method == "rounds":
            return self._descend(opened, codes, bounds, columns=groups[0], targets=groups[1])

        def read() -> tuple[Any, Floats]:
            rows, labels = in_memory(opened, groups, most=self.max_records)
            return rows, label_signs(labels, np.array(codes))

        return self._lift(read, bounds)

    def _check(self, *, files: bool = False) -> float:
        """Check public parameters before any private value is read. Labels in files must be numbers, or in a schema."""
        row_norm_bound = self._row_bound()
        self.__dict__.pop("estimate_", None)  # of an earlier fit
        schema = self._schema(classes=self.schema is not None)
        if schema is not None and self.classes is not None:
            raise ParameterError("classes", "be left out with a schema, whose target has classes", self.classes)
        classes = self.classes if schema is None else schema.classes
        one_of("method", self.method, METHODS)
        adjacency, several = as_adjacency(self.adjacency), self.method == "rounds"
        if several:
            for name in ("l2_penalty", "max_records"):
                if getattr(self, name) is not None:
                    raise ParameterError(name, "be left out with method='rounds'", getattr(self, name))
            self._checked_rounds()
        elif adjacency != "add-remove":
            raise ParameterError("adjacency", f"be 'add-remove' with method={self.method!r}", repr(adjacency))
        if self.intervals not in (True, False) or (self.intervals and not several):
            raise ParameterError("intervals", "be True or False, and True only with method='rounds'", self.intervals)
        if classes is not None or files:
            self.classes_ = stated_classes(classes, several=several)
            self._check_classes()
        if files and schema is None and self.classes_.dtype.kind not in "biuf":
            raise ParameterError("classes", "be numbers, or part of a schema, for files", repr(self.classes))
        return row_norm_bound

    def _check_classes(self) -> None:
        if self.intervals and len(self.classes_) != 2:
            remedy = "intervals are for two classes; join the others, or leave intervals out"
            raise ParameterError("classes", "be two with intervals=True", f"{len(self.classes_)} classes", remedy)

    @property
    def _against_first_category(self) -> bool:
        """Beside a constant, the columns of a category are collinear, and no interval would be finite."""
        return bool(self.intervals and self.fit_intercept)

    def _matrix_noise(self) -> float:
        """Of the last Hessian, times 4: a row counts for at most a quarter in it."""
        if not self.intervals:
            raise ParameterError("intervals", "be True", self.intervals, "a fit has no intervals otherwise")
        budget = calibrated_gradients(**self._public(), rounds=self._checked_rounds(), intervals=True)
        return 4.0 * budget.weighted_gram_noise(1, 1 + Fraction(CONSTANT_SHARE if self.fit_intercept else 0.0) ** 2)

    def _descend(self, data: Any, codes: Any, row_norm_bound: float, **where: Any) -> Self:
        """In rounds of gradients."""
        constant = CONSTANT_SHARE * row_norm_bound if self.fit_intercept else None
        intervals = bool(self.intervals)
        budget = calibrated_gradients(**self._public(), rounds=self._checked_rounds(), intervals=intervals)
        bits = random_bits(self.random_state)
        sums = RecordSums(data, row_norm_bound=row_norm_bound, classes=codes, intercept=constant, **where)
        theta, estimate = self._release(
            GradientReleases(sums, budget, bits, term_unit=1.0, constant=constant is not None),
            lambda releases: fit_gradients(
                releases, classes=len(self.classes_), rounds=len(budget.sum_shares), intervals=intervals
            ),
            row_norm_bound=row_norm_bound,
            intercept=constant,
            classes_stated=self._classes_stated(),
        )
        units = self._unit_map(len(theta), unit=1.0 / row_norm_bound, constant=constant)
        self.coef_, self.intercept_ = self._coefficients(theta, units)
        if estimate is not None:
            self.estimate_ = estimate.in_units(units)
        return self

    def _lift(self, read: Callable[[], tuple[Any, Floats]], row_norm_bound: float) -> Self:
        """From the posterior."""
        constant = INTERCEPT_SHARE * row_norm_bound if self.fit_intercept else None
        weights, budget = self.n_features_in_ + (constant is not None), self._budget()
        if self.l2_penalty is None:
            squared = row_norm_bound**2 + (constant or 0.0) ** 2
            self.l2_penalty_ = squared * unit_noise(*budget.values())
        else:
            self.l2_penalty_ = as_scalar("l2_penalty", self.l2_penalty)
        model = BohningLogistic(
            l2_penalty=self.l2_penalty_,
            row_norm_bound=row_norm_bound,
            max_records=self.max_records,
            intercept=constant,
            dimension=weights if self.bound == "paper" else None,
            release="mean" if self.method == "mean" else "draw",
        )
        mechanism = calibrated(lift, model=model, bound=str(self.bound), **budget)
        release = mechanism.release_from(read, **self._how())
        parameters = {**release.receipt.parameters, "classes_stated": self._classes_stated()}
        receipt = replace(release.receipt, parameters=parameters, digest="")
        release = self._keep(mechanism, replace(release, receipt=receipt))
        theta = np.asarray(release.values, dtype=np.float64).reshape(weights, 1)
        units = self._unit_map(weights, unit=1.0, constant=constant)
        self.coef_, self.intercept_ = self._coefficients(theta, units)
        return self

    def _classes_stated(self) -> bool:
        return self.classes is not None or self.schema is not None

    def decision_function(self, X: Any) -> Floats:
        """Log-odds of the second class, or a score for each of several classes."""
        check_is_fitted(self)
        scores = np.asarray(self._public_rows(X) @ self.coef_.T + self.intercept_)
        return scores[:, 0] if len(self.coef_) == 1 else scores

    def predict(self, X: Any) -> Any:
        """The likeliest class of each row."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes under the released weights."""
        scores = self.decision_function(X)
        return np.asarray(np.stack([expit(-scores), expit(scores)], 1) if scores.ndim == 1 else softmax(scores, axis=1))

    def predict_interval(self, X: Any, level: float = 0.95) -> Floats:
        """Intervals of the probability of the second class for rows; with `intervals`.

        They are those of the log-odds xᵀβ of the population, mapped to probabilities, with the assumptions of
        `coef_interval`. They are [0, 1] if the noise hides a direction of the features.

        Returns
        -------
        (n, 2) array
        """
        self._check_intervals()
        return np.asarray(expit(self.estimate_.predicted(self._dense_rows(X), level)[:, 0]))

    def summary(self, level: float = 0.95) -> CoefficientTable:
        """A table of coefficients, standard errors and intervals, in the units of the data; with `intervals`."""
        self._check_intervals()
        first, second = self.classes_.tolist()
        return self._summary("Private logistic regression", level, f"log-odds of {second!r} against {first!r}")

    def _check_intervals(self) -> None:
        check_is_fitted(self)
        if not hasattr(self, "estimate_"):
            raise ParameterError("intervals", "be True before the fit", self.intervals, "it takes a part of the budget")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.method == "rounds"
        tags.classifier_tags.poor_score = True  # on the few rows of a check, noise outweighs the data
        return tags
