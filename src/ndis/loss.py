"""The log-moment function of the privacy loss of a pair, as functions."""

from __future__ import annotations

from numpy.typing import ArrayLike

from ndis._validate import Floats
from ndis.pair import GaussianPair

__all__ = ["log_moment", "moment_domain"]


def log_moment(pair: GaussianPair, s: ArrayLike) -> float | Floats:
    """K(s) = log E e^{sL} of the loss L; see `GaussianPair.log_moment`.

    >>> import ndis
    >>> log_moment(ndis.GaussianPair.from_ratios(2.0), -1.0)
    0.0
    """
    return pair.log_moment(s)  # type: ignore[arg-type]  # an ArrayLike is a float or a Vector


def moment_domain(pair: GaussianPair) -> tuple[float, float]:
    """The open interval of s on which K(s) is finite; see `GaussianPair.moment_domain`.

    >>> import ndis
    >>> moment_domain(ndis.GaussianPair.from_ratios([3.0, 0.5]))
    (-2.0, 0.5)
    """
    return pair.moment_domain
