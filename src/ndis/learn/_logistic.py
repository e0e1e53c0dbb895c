"""Private logistic regression: in rounds of gradients, or from the posterior of a Gaussian model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ndis._validate import as_scalar, as_size
from ndis.errors import ParameterError
from ndis.gram.sums import RecordSums
from ndis.learn._base import INTERCEPT_SHARE, Floats
from ndis.learn._labels import label_codes, label_signs, occurring_classes, private_labels, stated_classes
from ndis.learn._softmax import CONSTANT_SHARE, GradientReleases, calibrated_gradients, fit_gradients
from ndis.learn._summary import CoefficientTable
from ndis.learn._tables import (
    fitted_rows,
    fitted_targets,
    in_memory,
    opened_data,
    public_rows,
    row_bound,
    schema_of,
    to_units,
    units_map,
)
from ndis.ledger.charging import charged
from ndis.mechanisms.base import as_adjacency
from ndis.mechanisms.gaussian import unit_noise
from ndis.mechanisms.lifted import lift
from ndis.models import BohningLogistic
from ndis.sampling.bits import random_bits

__all__ = ["PrivateLogisticRegression"]

METHODS = ("rounds", "mean", "posterior")


class PrivateLogisticRegression(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Differentially private logistic regression, of several classes by softmax.

    `method="rounds"`, the default, releases a noisy Gram matrix and then, in a few rounds, sums of clipped gradients at
    the weights so far. It needs no penalty, and its error falls as records are added. The other two methods release
    Böhning's Gaussian posterior (`ndis.models.BohningLogistic`) once, by `ndis.lift`: its mean plus noise, or a draw
    plus noise. Their noise does not fall as records are added; they have two classes only.

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
        What is public about the table. Rows are then taken in units as they are, `row_norm_bound` is that of the schema
        unless a smaller one is stated, and the classes are those of its target. Coefficients are in original units.
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

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        row_norm_bound: float | None = None,
        fit_intercept: bool = True,
        classes: Any = None,
        method: str = "rounds",
        rounds: int = 8,
        intervals: bool = False,
        adjacency: str = "add-remove",
        l2_penalty: float | None = None,
        max_records: int | None = None,
        bound: str = "exact",
        random_state: Any = None,
        schema: Any = None,
        ledger: Any = None,
        slot: str | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.row_norm_bound = row_norm_bound
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.method = method
        self.rounds = rounds
        self.intervals = intervals
        self.adjacency = adjacency
        self.l2_penalty = l2_penalty
        self.max_records = max_records
        self.bound = bound
        self.random_state = random_state
        self.schema = schema
        self.ledger = ledger
        self.slot = slot

    def fit(self, X: Any, y: Any = None) -> PrivateLogisticRegression:
        """Release the weights.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, features)
            The private rows.
        y : array of shape (n,)
            The private labels.
        """
        row_norm_bound = self._check()
        rows = fitted_rows(self, X)
        several = self.method == "rounds"
        if self.schema is not None:
            codes = fitted_targets(self, X, y)
        else:
            labels = private_labels(self, y)
            if self.classes is None:
                self.classes_ = occurring_classes(labels, several=several)
                self._check_classes()
            codes = label_codes(labels, self.classes_)
        if not several:
            return self._lift(lambda: (rows, _signs(codes)), row_norm_bound)
        return self._descend((rows, codes[:, None]), range(len(self.classes_)), row_norm_bound)

    def fit_data(
        self,
        data: Any,
        *,
        target: Any = None,
        columns: Any = None,
        header: bool = False,
        progress: bool | None = None,
    ) -> PrivateLogisticRegression:
        """The same from files, folders, frames or dask collections.

        With `method="rounds"` they are read once per release. The other methods keep the encoded records in memory.

        Parameters
        ----------
        data, columns, header, progress
            As for `PrivateLinearRegression.fit_data`.
        target : str or int
            The column of labels, which are numbers, and `classes` must be stated. With a schema it is left out: the
            schema names it and its classes, which may be text.
        """
        row_norm_bound = self._check()
        codes: Any = range(len(self.classes_)) if self.schema is not None else None
        if codes is None:
            self.classes_ = stated_classes(self.classes, several=self.method == "rounds")
            if self.classes_.dtype.kind not in "biuf":
                raise ParameterError("classes", "be numbers, or part of a schema, for files", repr(self.classes))
            codes = self.classes_.astype(np.float64).tolist()
        opened, groups = opened_data(
            self, data, target=target, columns=columns, header=header, progress=progress, with_target=True
        )
        if self.method == "rounds":
            return self._descend(opened, codes, row_norm_bound, columns=groups[0], targets=groups[1])

        def read() -> tuple[Any, Floats]:
            rows, labels = in_memory(opened, groups, most=self.max_records)
            return rows, label_signs(labels, np.array(codes))

        return self._lift(read, row_norm_bound)

    def _check(self) -> float:
        """Check public parameters before any private value is read."""
        row_norm_bound = row_bound(self)
        if hasattr(self, "estimate_"):  # of an earlier fit
            del self.estimate_
        schema = schema_of(self, classes=self.schema is not None)
        if schema is not None and self.classes is not None:
            raise ParameterError("classes", "be left out with a schema, whose target has classes", self.classes)
        classes = self.classes if schema is None else schema.classes
        if self.method not in METHODS:
            raise ParameterError("method", f"be one of {', '.join(METHODS)}", repr(self.method))
        adjacency = as_adjacency(self.adjacency)
        if self.method == "rounds":
            for name in ("l2_penalty", "max_records"):
                if getattr(self, name) is not None:
                    raise ParameterError(name, "be left out with method='rounds'", getattr(self, name))
            if not 2 <= as_size("rounds", self.rounds) <= 100:
                raise ParameterError("rounds", "be from 2 to 100", self.rounds)
        elif adjacency != "add-remove":
            raise ParameterError("adjacency", f"be 'add-remove' with method={self.method!r}", repr(adjacency))
        if self.intervals not in (True, False) or (self.intervals and self.method != "rounds"):
            raise ParameterError("intervals", "be True or False, and True only with method='rounds'", self.intervals)
        if classes is not None:
            self.classes_ = stated_classes(classes, several=self.method == "rounds")
            self._check_classes()
        return row_norm_bound

    def _check_classes(self) -> None:
        if self.intervals and len(self.classes_) != 2:
            remedy = "intervals are for two classes; join the others, or leave intervals out"
            raise ParameterError("classes", "be two with intervals=True", f"{len(self.classes_)} classes", remedy)

    @property
    def _against_first_category(self) -> bool:
        """Beside a constant, the columns of a category are collinear, and no interval would be finite."""
        return bool(self.intervals and self.fit_intercept)

    def _descend(self, data: Any, codes: Any, row_norm_bound: float, **where: Any) -> PrivateLogisticRegression:
        """In rounds of gradients."""
        intercept = CONSTANT_SHARE * row_norm_bound if self.fit_intercept else None
        budget = calibrated_gradients(
            epsilon=as_scalar("epsilon", self.epsilon),
            delta=as_scalar("delta", self.delta),
            adjacency=as_adjacency(self.adjacency),
            rounds=as_size("rounds", self.rounds),
            intervals=bool(self.intervals),
        )
        bits = random_bits(self.random_state)
        sums = RecordSums(data, row_norm_bound=row_norm_bound, classes=codes, intercept=intercept, **where)
        releases = GradientReleases(sums, budget, bits, term_unit=1.0, constant=intercept is not None)
        with charged(budget, ledger=self.ledger, slot=self.slot, private=bits.private) as charge:
            theta, estimate = fit_gradients(
                releases, classes=len(self.classes_), rounds=len(budget.sum_shares), intervals=bool(self.intervals)
            )
            receipt = releases.receipt(
                charge.seal(),
                row_norm_bound=row_norm_bound,
                intercept=intercept,
                classes_stated=self._classes_stated(),
            )
        self.mechanism_: Any = budget
        self.profile_, self.receipt_ = budget.profile(), receipt
        if estimate is None:
            self._set_weights(theta.T / row_norm_bound, intercept)
            return self
        factors = np.full(len(theta), 1.0 / row_norm_bound)
        if intercept is not None:
            factors[-1] *= intercept
        units = None if self.schema is None else units_map(self, constant=intercept is not None)
        weights = theta * factors[:, None]
        if units is not None:
            weights = units[0] @ weights + units[1][:, None]
        offset = weights[-1] if len(weights) > self.n_features_in_ else np.zeros(1)
        self.coef_, self.intercept_ = np.asarray(weights[: self.n_features_in_].T), np.asarray(offset)
        self.estimate_ = estimate.in_units(factors, units)
        return self

    def _lift(self, read: Callable[[], tuple[Any, Floats]], row_norm_bound: float) -> PrivateLogisticRegression:
        """From the posterior."""
        intercept = INTERCEPT_SHARE * row_norm_bound if self.fit_intercept else None
        weights = self.n_features_in_ + (intercept is not None)
        budget = as_scalar("epsilon", self.epsilon), as_scalar("delta", self.delta)
        if self.l2_penalty is None:
            squared = row_norm_bound**2 + (intercept or 0.0) ** 2
            self.l2_penalty_ = squared * unit_noise(*budget)
        else:
            self.l2_penalty_ = as_scalar("l2_penalty", self.l2_penalty)
        model = BohningLogistic(
            l2_penalty=self.l2_penalty_,
            row_norm_bound=row_norm_bound,
            max_records=self.max_records,
            intercept=intercept,
            dimension=weights if self.bound == "paper" else None,
            release="mean" if self.method == "mean" else "draw",
        )
        mechanism = _lifted(model, *budget, str(self.bound))
        self.mechanism_ = mechanism
        how = {"random_state": self.random_state, "ledger": self.ledger, "slot": self.slot}
        release = mechanism.release_from(read, **how)
        parameters = {**release.receipt.parameters, "classes_stated": self._classes_stated()}
        self.release_ = replace(release, receipt=replace(release.receipt, parameters=parameters, digest=""))
        self.receipt_ = self.release_.receipt
        self._set_weights(np.asarray(self.release_.values, dtype=np.float64).reshape(1, weights), intercept)
        return self

    def _classes_stated(self) -> bool:
        return self.classes is not None or self.schema is not None

    def _set_weights(self, weights: Floats, intercept: float | None) -> None:
        offsets = np.zeros(len(weights)) if intercept is None else weights[:, -1] * intercept
        self.coef_, self.intercept_ = to_units(self, weights[:, : self.n_features_in_], offsets)

    def decision_function(self, X: Any) -> Floats:
        """Log-odds of the second class, or a score for each of several classes."""
        check_is_fitted(self)
        rows = public_rows(self, X)
        scores = np.asarray(rows @ self.coef_.T + self.intercept_)
        return scores[:, 0] if len(self.coef_) == 1 else scores

    def predict(self, X: Any) -> Any:
        """The likeliest class of each row."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes under the released weights."""
        scores = self.decision_function(X)
        return np.asarray(np.stack([expit(-scores), expit(scores)], 1) if scores.ndim == 1 else softmax(scores, axis=1))

    def coef_interval(self, level: float = 0.95) -> Floats:
        """Confidence intervals of the log-odds coefficients of the population, intercept left out; with `intervals`.

        They are around an estimate without shrinkage, and count the noise of privacy and of sampling. They assume that
        the model holds. They are infinite if the noise hides a direction of the features.

        Returns
        -------
        (features, 2) array
        """
        self._check_intervals()
        return np.asarray(self.estimate_.interval(self.n_features_in_, level)[0])

    def predict_interval(self, X: Any, level: float = 0.95) -> Floats:
        """Intervals of the probability of the second class for rows; with `intervals`.

        They are those of the log-odds xᵀβ of the population, mapped to probabilities, with the assumptions of
        `coef_interval`. They are [0, 1] if the noise hides a direction of the features.

        Returns
        -------
        (n, 2) array
        """
        self._check_intervals()
        return np.asarray(expit(self.estimate_.predicted(public_rows(self, X), level)[:, 0]))

    def summary(self, level: float = 0.95) -> CoefficientTable:
        """A table of coefficients, standard errors and intervals, in the units of the data; with `intervals`."""
        self._check_intervals()
        features = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        intercept = len(self.estimate_.theta) > self.n_features_in_
        first, second = self.classes_.tolist()
        notes = (
            f"log-odds of {second!r} against {first!r}",
            f"({self.receipt_.epsilon:g}, {self.receipt_.delta:g})-differentially private, {self.receipt_.adjacency}; "
            "errors count the noise of privacy and of sampling",
            "estimate: without shrinkage, for inference; shrunk: for predictions",
        )
        return CoefficientTable(
            "Private logistic regression",
            (*map(str, features), *(["(intercept)"] if intercept else [])),
            self.estimate_.theta[:, 0],
            self.estimate_.errors()[0],
            np.append(self.coef_[0], self.intercept_ if intercept else []),
            float(level),
            notes,
        )

    def _check_intervals(self) -> None:
        check_is_fitted(self)
        if not hasattr(self, "estimate_"):
            raise ParameterError("intervals", "be True before the fit", self.intervals, "it takes a part of the budget")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.method == "rounds"
        tags.classifier_tags.poor_score = True  # on the few rows of a check, noise outweighs the data
        tags.input_tags.allow_nan = True  # a row with a non-finite entry counts as no record: an error would leak it
        tags.input_tags.sparse = True
        return tags


def _signs(codes: Floats) -> Floats:
    """−1 and +1 for the codes 0 and 1; 0, which is no record, where a label is missing or none of the classes."""
    return np.where(np.isnan(codes), 0.0, 2.0 * codes - 1.0)


@lru_cache(maxsize=64)
def _lifted(model: BohningLogistic, epsilon: float, delta: float, bound: Any) -> Any:
    """The calibrated mechanism, which depends on public parameters only and so may be kept."""
    return lift(model, epsilon=epsilon, delta=delta, bound=bound)
