"""Private logistic regression: one draw from the posterior, or its mean, plus noise."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ndis._validate import as_scalar
from ndis.errors import ParameterError
from ndis.learn._base import INTERCEPT_SHARE, Floats
from ndis.learn._labels import label_signs, occurring_classes, private_labels, stated_classes
from ndis.learn._tables import (
    fitted_rows,
    fitted_targets,
    in_memory,
    opened_data,
    public_rows,
    row_bound,
    schema_of,
    to_units,
)
from ndis.mechanisms.lifted import lift
from ndis.models import BohningLogistic

__all__ = ["PrivateLogisticRegression"]


class PrivateLogisticRegression(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Differentially private logistic regression of two classes: a draw from the posterior or its mean, plus noise.

    The posterior is Böhning's Gaussian (`ndis.models.BohningLogistic`), released by `ndis.lift`.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, for records (row, label).
    l2_penalty : float
        λ, the penalty on the squared weights, that of the intercept included. The noise falls as 1/λ.
    row_norm_bound : float
        Public bound of the Euclidean norm of a row; longer rows are clipped to it. Must be stated.
    fit_intercept : bool
        Append a constant column of half the norm bound and learn its weight.
    classes : pair, optional
        The two labels, text or numbers, the positive one last; public. None takes them from `y`: **the set of labels
        that occur is then treated as public knowledge**, and the guarantee holds for data sets with the same two
        labels. With `classes` given it holds for all, and a record with another label counts as no record.
    max_records : int, optional
        See `BohningLogistic`; None, the default, needs no promise.
    release : {"draw", "mean"}
        "draw" releases one draw from the posterior plus the least noise, "mean" the penalised minimiser plus the least
        noise. **"mean" classifies better**: the draw has the posterior's own spread on top.
    bound : {"exact", "renyi", "paper"}
        See `ndis.lift`.
    random_state : optional
        None draws from the operating system. A seed warns: the result is then not private.
    schema : Schema, optional
        What is public about the table. Rows are then taken in units as they are, `row_norm_bound` is that of the schema
        unless a smaller one is stated, and the classes are those of its target. Coefficients are in original units.

    Attributes
    ----------
    coef_ : (1, features) array
    intercept_ : (1,) array
    classes_ : (2,) array
    release_, receipt_, mechanism_
        What was released, what it guarantees, and how. The receipt's parameter `classes_stated` is false where the
        classes were taken from `y`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, size=(4000, 2))
    >>> y = (x @ [2.0, -1.0] > 0).astype(int)
    >>> model = PrivateLogisticRegression(row_norm_bound=1.5, l2_penalty=20.0, classes=(0, 1), bound="renyi").fit(x, y)
    >>> model.score(x, y) > 0.8
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
        l2_penalty: float = 1.0,
        row_norm_bound: float | None = None,
        fit_intercept: bool = True,
        classes: Any = None,
        max_records: int | None = None,
        release: str = "draw",
        bound: str = "exact",
        random_state: Any = None,
        schema: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.l2_penalty = l2_penalty
        self.row_norm_bound = row_norm_bound
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.max_records = max_records
        self.release = release
        self.bound = bound
        self.random_state = random_state
        self.schema = schema

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
        if self.schema is not None:
            return self._learn(rows, _signs(fitted_targets(self, X, y)), row_norm_bound)
        labels = private_labels(self, y)
        if self.classes is None:
            self.classes_ = occurring_classes(labels)
        return self._learn(rows, label_signs(labels, self.classes_), row_norm_bound)

    def fit_data(
        self,
        data: Any,
        *,
        target: Any = None,
        columns: Any = None,
        header: bool = False,
        progress: bool | None = None,
    ) -> PrivateLogisticRegression:
        """The same from files, folders or frames, whose encoded records are held in memory.

        Parameters
        ----------
        data, columns, header, progress
            As for `PrivateRidge.fit_data`.
        target : str or int
            The column of labels, which are numbers, and `classes` must be stated. With a schema it is left out: the
            schema names it and its classes, which may be text.
        """
        row_norm_bound = self._check()
        if self.schema is None:
            self.classes_ = stated_classes(self.classes)
            if self.classes_.dtype.kind not in "biuf":
                raise ParameterError("classes", "be numbers, or part of a schema, for files", repr(self.classes))
        opened, groups = opened_data(
            self, data, target=target, columns=columns, header=header, progress=progress, with_target=True
        )
        rows, labels = in_memory(opened, groups, most=self.max_records)
        signs = label_signs(labels, self.classes_) if self.schema is None else _signs(labels)
        return self._learn(rows, signs, row_norm_bound)

    def _check(self) -> float:
        """Check public parameters before any private value is read; returns the bound of a row."""
        bound = row_bound(self)
        schema = schema_of(self, classes=self.schema is not None)
        if schema is not None:
            if self.classes is not None:
                raise ParameterError("classes", "be left out with a schema, whose target has classes", self.classes)
            self.classes_ = stated_classes(schema.classes)
        elif self.classes is not None:
            self.classes_ = stated_classes(self.classes)
        return bound

    def _learn(self, rows: Any, signs: Floats, row_norm_bound: float) -> PrivateLogisticRegression:
        intercept = INTERCEPT_SHARE * row_norm_bound if self.fit_intercept else None
        weights = self.n_features_in_ + (intercept is not None)
        model = BohningLogistic(
            l2_penalty=self.l2_penalty,
            row_norm_bound=row_norm_bound,
            max_records=self.max_records,
            intercept=intercept,
            dimension=weights if self.bound == "paper" else None,
            release=self.release,  # type: ignore[arg-type]
        )
        budget = as_scalar("epsilon", self.epsilon), as_scalar("delta", self.delta)
        self.mechanism_ = _lifted(model, *budget, str(self.bound))
        release = self.mechanism_.release((rows, signs), random_state=self.random_state)
        stated = self.classes is not None or self.schema is not None
        parameters = {**release.receipt.parameters, "classes_stated": stated}
        self.release_ = replace(release, receipt=replace(release.receipt, parameters=parameters, digest=""))
        self.receipt_ = self.release_.receipt
        w = np.asarray(self.release_.values, dtype=np.float64).reshape(1, weights)
        offset = np.zeros(1) if intercept is None else w[:, -1] * intercept
        self.coef_: Floats
        self.intercept_: Floats
        self.coef_, self.intercept_ = to_units(self, w[:, : self.n_features_in_], offset)
        return self

    def decision_function(self, X: Any) -> Floats:
        """Log-odds of the second class under the released weights."""
        check_is_fitted(self)
        rows = public_rows(self, X)
        return np.asarray(rows @ self.coef_[0] + self.intercept_[0])

    def predict(self, X: Any) -> Any:
        """The likelier class of each row."""
        odds = self.decision_function(X)
        return self.classes_[(odds > 0).astype(int)]

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the two classes under the released weights."""
        from scipy.special import expit

        odds = self.decision_function(X)
        return np.stack([expit(-odds), expit(odds)], axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # on the few rows of a check, noise outweighs the data
        tags.input_tags.allow_nan = True  # a row with a non-finite entry counts as no record: an error would leak it
        tags.input_tags.sparse = True
        return tags


def _signs(codes: Floats) -> Floats:
    """−1 and +1 for the codes 0 and 1 of a schema; 0, which is no record, where a label is missing or unknown."""
    return np.where(np.isnan(codes), 0.0, 2.0 * codes - 1.0)


@lru_cache(maxsize=64)
def _lifted(model: BohningLogistic, epsilon: float, delta: float, bound: Any) -> Any:
    """The calibrated mechanism, which depends on public parameters alone and so may be kept."""
    return lift(model, epsilon=epsilon, delta=delta, bound=bound)
