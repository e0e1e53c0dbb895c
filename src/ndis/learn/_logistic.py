"""Logistic regression as one private draw from its posterior."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ndis._validate import as_scalar
from ndis.learn._base import INTERCEPT_SHARE, READ_ROWS, Floats, private_rows, stated_bound
from ndis.learn._labels import label_signs, occurring_classes, private_labels, stated_classes
from ndis.mechanisms.lifted import lift
from ndis.models import BohningLogistic

__all__ = ["PrivateLogisticRegression"]


class PrivateLogisticRegression(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Differentially private logistic regression of two classes: one draw from the posterior, plus the least noise.

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
    bound : {"exact", "renyi", "paper"}
        See `ndis.lift`.
    random_state : optional
        None draws from the operating system. A seed warns: the result is then not private.
    ledger : path, optional
        The `ndis.Ledger` that pays for the release. It reserves before data is read.
    slot : str, optional
        The slot of a plan in the ledger.

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
        bound: str = "exact",
        random_state: Any = None,
        ledger: Any = None,
        slot: str | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.l2_penalty = l2_penalty
        self.row_norm_bound = row_norm_bound
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.max_records = max_records
        self.bound = bound
        self.random_state = random_state
        self.ledger = ledger
        self.slot = slot

    def fit(self, X: Any, y: Any) -> PrivateLogisticRegression:
        """Release one draw from the posterior.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, features)
            The private rows.
        y : array of shape (n,)
            The private labels.
        """
        row_norm_bound = stated_bound("row_norm_bound", self.row_norm_bound)
        intercept = INTERCEPT_SHARE * row_norm_bound if self.fit_intercept else None
        rows = private_rows(self, X)
        labels = private_labels(self, y)
        self.classes_ = occurring_classes(labels) if self.classes is None else stated_classes(self.classes)
        signs = label_signs(labels, self.classes_)
        weights = self.n_features_in_ + (intercept is not None)
        model = BohningLogistic(
            l2_penalty=self.l2_penalty,
            row_norm_bound=row_norm_bound,
            max_records=self.max_records,
            intercept=intercept,
            dimension=weights if self.bound == "paper" else None,
        )
        budget = as_scalar("epsilon", self.epsilon), as_scalar("delta", self.delta)
        self.mechanism_ = _lifted(model, *budget, str(self.bound))
        how = {"random_state": self.random_state, "ledger": self.ledger, "slot": self.slot}
        release = self.mechanism_.release((rows, signs), **how)
        parameters = {**release.receipt.parameters, "classes_stated": self.classes is not None}
        self.release_ = replace(release, receipt=replace(release.receipt, parameters=parameters, digest=""))
        self.receipt_ = self.release_.receipt
        w = np.asarray(self.release_.values, dtype=np.float64).reshape(1, weights)
        self.coef_: Floats = w[:, : self.n_features_in_]
        self.intercept_: Floats = np.zeros(1) if intercept is None else w[:, -1] * intercept
        return self

    def decision_function(self, X: Any) -> Floats:
        """Log-odds of the second class under the draw."""
        check_is_fitted(self)
        rows = validate_data(self, X, **READ_ROWS)
        return np.asarray(rows @ self.coef_[0] + self.intercept_[0])

    def predict(self, X: Any) -> Any:
        """The likelier class of each row."""
        odds = self.decision_function(X)
        return self.classes_[(odds > 0).astype(int)]

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the two classes under the draw."""
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


@lru_cache(maxsize=64)
def _lifted(model: BohningLogistic, epsilon: float, delta: float, bound: Any) -> Any:
    """The calibrated mechanism, which depends on public parameters alone and so may be kept."""
    return lift(model, epsilon=epsilon, delta=delta, bound=bound)
