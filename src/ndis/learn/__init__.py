"""The fits of these scikit-learn estimators are differentially private.

All attributes that end in ``_`` are learnt, and are functions of one release. All parameters are public. The user
states bounds; no estimator takes them from the data.

>>> import numpy as np
>>> from ndis.learn import PrivateRidge
>>> rng = np.random.default_rng(0)
>>> x = rng.uniform(-1, 1, size=(20_000, 2))
>>> y = x @ [1.0, -0.5] + 0.25
>>> model = PrivateRidge(epsilon=1.0, delta=1e-6, row_norm_bound=1.5, target_bound=2.0).fit(x, y)
>>> model.score(x, y) > 0.8
True
>>> model.receipt_.epsilon, model.receipt_.private
(1.0, True)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ndis.learn._covariance import PrivateCovariance
    from ndis.learn._gaussian_process import PrivateGaussianProcess
    from ndis.learn._labels import check_labels
    from ndis.learn._linear_regression import PrivateLinearRegression
    from ndis.learn._logistic_regression import PrivateLogisticRegression
    from ndis.learn._pca import PrivatePCA
    from ndis.learn._plan import plan_regression
    from ndis.learn._ridge import PrivateRidge, ridge_from_gram
    from ndis.learn._saved import LinearModel
    from ndis.learn._score import score_privately, split_records

__all__ = [
    "LinearModel", "PrivateCovariance", "PrivateGaussianProcess", "PrivateLinearRegression",
    "PrivateLogisticRegression", "PrivatePCA", "PrivateRidge", "check_labels", "plan_regression", "ridge_from_gram",
    "score_privately", "split_records",
]  # fmt: skip

# Imported when first asked for: each brings in scikit-learn.
_HOMES = {
    "LinearModel": "_saved",
    "PrivateCovariance": "_covariance",
    "PrivateGaussianProcess": "_gaussian_process",
    "PrivateLinearRegression": "_linear_regression",
    "PrivateLogisticRegression": "_logistic_regression",
    "PrivatePCA": "_pca",
    "PrivateRidge": "_ridge",
    "check_labels": "_labels",
    "plan_regression": "_plan",
    "ridge_from_gram": "_ridge",
    "score_privately": "_score",
    "split_records": "_score",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        globals()[name] = getattr(import_module(f"ndis.learn.{_HOMES[name]}"), name)
        return globals()[name]
    raise AttributeError(f"module 'ndis.learn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
