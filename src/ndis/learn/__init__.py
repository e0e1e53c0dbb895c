"""The fits of these scikit-learn estimators are differentially private.

All attributes that end in ``_`` are learnt, and are functions of one release. All parameters are public. The user
states bounds; no estimator takes them from the data.

>>> import numpy as np
>>> from ndis.learn import PrivateRidge
>>> rng = np.random.default_rng(0)
>>> x = rng.uniform(-1, 1, size=(20_000, 2))
>>> y = x @ [1.0, -0.5] + 0.25
>>> model = PrivateRidge(epsilon=1.0, delta=1e-6, row_norm_bound=1.5, target_bound=2.0).fit(x, y)
>>> model.score(x, y, public=True) > 0.8
True
>>> model.receipt_.epsilon, model.receipt_.private
(1.0, True)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ndis.learn._covariance import PrivateCovariance, PrivatePCA
    from ndis.learn._gaussian_process import PrivateGaussianProcess
    from ndis.learn._labels import check_labels
    from ndis.learn._linear_regression import PrivateLinearRegression
    from ndis.learn._logistic_regression import PrivateLogisticRegression
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
_NAMES: dict[str, tuple[str, ...]] = {
    "_covariance": ("PrivateCovariance", "PrivatePCA"),
    "_gaussian_process": ("PrivateGaussianProcess",),
    "_labels": ("check_labels",),
    "_linear_regression": ("PrivateLinearRegression",),
    "_logistic_regression": ("PrivateLogisticRegression",),
    "_plan": ("plan_regression",),
    "_ridge": ("PrivateRidge", "ridge_from_gram"),
    "_saved": ("LinearModel",),
    "_score": ("score_privately", "split_records"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        globals()[name] = getattr(import_module(f"ndis.learn.{_HOMES[name]}"), name)
        return globals()[name]
    raise AttributeError(f"module 'ndis.learn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
