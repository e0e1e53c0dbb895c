"""Exactly how private is an algorithm with Gaussian output?

Two Gaussians, the output on neighbouring data, and how well they can be told apart:

>>> import ndis
>>> pair = ndis.GaussianPair.from_moments([0.0, 1.0], [[2.0, 0.3], [0.3, 1.0]], [0.0, 0.0], [[1.0, 0.0], [0.0, 1.5]])
>>> round(pair.delta(1.0), 12), round(pair.reversed().delta(1.0), 12)  # the order matters
(0.104310352051, 0.194768717623)
>>> pair.delta(1.0) in pair.certify(1.0)  # enclosed with certainty
True
>>> profile = ndis.PrivacyProfile.from_pair(pair)  # the worse order is the guarantee
>>> epsilon = profile.epsilon(1e-6)
>>> profile.delta(epsilon) <= 1e-6
True
>>> sketch = ndis.PrivacyProfile.from_pair(ndis.GaussianPair.from_ratios(1.02, copies=100))
>>> sketch.compose(profile).epsilon(1e-6) > epsilon  # releases add up exactly
True

`ndis.gram` and `ndis.sampling` turn such a guarantee into released bytes.
"""

from importlib import import_module
from types import ModuleType

from ndis.batch import delta_batch, log_delta_batch
from ndis.enclosure import Enclosure
from ndis.errors import BudgetError, NdisError, NotPrivateWarning, ParameterError, PrecisionError
from ndis.genchi2 import GeneralizedChiSquare
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__version__ = "0.1.0"

__all__ = [
    "BudgetError",
    "Enclosure",
    "GaussianPair",
    "GeneralizedChiSquare",
    "NdisError",
    "NotPrivateWarning",
    "ParameterError",
    "PrecisionError",
    "PrivacyProfile",
    "__version__",
    "delta_batch",
    "gram",
    "log_delta_batch",
    "plotting",
    "sampling",
]


def __getattr__(name: str) -> ModuleType:
    """Subpackages are imported when first asked for, so that `import ndis` stays light."""
    if name in ("gram", "plotting", "sampling"):
        return import_module(f"ndis.{name}")
    raise AttributeError(f"module 'ndis' has no attribute {name!r}")
