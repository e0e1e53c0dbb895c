"""Gaussian-output algorithms as maps data → (mean, covariance), with bounds on the change by one record.

>>> import ndis, numpy as np
>>> model = ndis.models.BohningLogistic(l2_penalty=3.0, row_norm_bound=1.5)
>>> mean, covariance = model.distribution((np.array([[0.6, 0.8], [1.0, 0.0]]), [1, -1]))
>>> covariance.shape
(2, 2)

Both maps are private; `ndis.lift` releases them with the least noise that makes them differentially private.
"""

from ndis.models.gp import GaussianProcess
from ndis.models.logistic import BohningLogistic

__all__ = ["BohningLogistic", "GaussianProcess"]
