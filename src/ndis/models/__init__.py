"""Gaussian-output algorithms as maps data → (mean, covariance), with bounds on the change by one record.

>>> import ndis
>>> model = ndis.models.BohningLogistic(l2_penalty=3.0, row_norm_bound=1.5)
>>> mean, covariance = model.distribution(([[0.6, 0.8], [1.0, 0.0]], [1, -1]))
>>> covariance.shape
(2, 2)

Both maps are private; `ndis.lift` releases them with the least noise that makes them differentially private.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ndis.models.gp import GaussianProcess
    from ndis.models.logistic import BohningLogistic

__all__ = ["BohningLogistic", "GaussianProcess"]

_HOMES = {"BohningLogistic": "logistic", "GaussianProcess": "gp"}  # Python imports a model when it is first asked for


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"ndis.models.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'ndis.models' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
