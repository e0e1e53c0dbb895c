"""The number of records, their mean and their covariance, from a released Gram matrix."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ndis._validate import as_scalar
from ndis.errors import ParameterError

__all__ = ["MomentEstimates"]


class _WithIntercept(Protocol):
    @property
    def intercept(self) -> float | None:
        """Value of the constant column, if there is one."""


class MomentEstimates:
    """Estimates from a release with `gram()` and `mechanism.intercept`. All of them are post-processing."""

    mechanism: _WithIntercept

    def gram(self) -> NDArray[np.float64]:
        """The estimate of DᵀD."""
        raise NotImplementedError  # each release has its own

    def count(self) -> float:
        """The number of records as the constant column estimates it, with the error of the release."""
        if self.mechanism.intercept is None:
            raise ParameterError("intercept", "be part of the mechanism to estimate the number of records", None)
        return float(self.gram()[-1, -1]) / self.mechanism.intercept**2

    def mean(self, *, records: float | None = None) -> NDArray[np.float64]:
        """The mean row without the constant column, from the release only or with a public number of `records`."""
        n = self._records(records, need_intercept=True)
        return np.asarray(self.gram()[:-1, -1] / (n * float(self.mechanism.intercept or 1.0)))

    def covariance(self, *, records: float | None = None) -> NDArray[np.float64]:
        """The covariance of the clipped rows.

        With a constant column it is DᵀD/n − mean·meanᵀ over the other columns. Here n is `records`, or the count from
        the release. Without a constant column, give a public number of `records`. The result is then DᵀD/n, the
        moments about zero: the covariance of rows whose mean is known to be zero.
        """
        if self.mechanism.intercept is None:
            return self.gram() / self._records(records, need_intercept=False)
        n = self._records(records, need_intercept=True)
        mean = self.mean(records=n)
        return np.asarray(self.gram()[:-1, :-1] / n - np.outer(mean, mean))

    def _records(self, records: float | None, *, need_intercept: bool) -> float:
        if need_intercept and self.mechanism.intercept is None:
            raise ParameterError("intercept", "be part of the mechanism to estimate a mean", None)
        if records is None and self.mechanism.intercept is None:
            raise ParameterError(
                "records",
                "be given, public, for a release without a constant column",
                None,
                "or calibrate with intercept",
            )
        n = self.count() if records is None else as_scalar("records", records)
        if not n > 0:
            got = "an estimate that is not positive" if records is None else n
            raise ParameterError("records", "be a positive number", got, "give a public number of records")
        return n
