"""Exactly how private is an algorithm with Gaussian output?

>>> import ndis
>>> pair = ndis.GaussianPair.from_ratios([1.5, 0.8], shift=[0.0, 0.7])
>>> pair.delta(1.0) < pair.delta(0.5)
True
"""

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
    "log_delta_batch",
]
