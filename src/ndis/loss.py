"""The log-moment function K of the privacy loss: its canonical form, its values, and what follows from it alone.

For X = N(m, diag τ) against Y = N(0, I), τ = 1 + t, the loss L = log dX/dY has (lemma: ndis)

    K(s) = log E_X e^{sL} = Σ [ −(s/2) log(1+t) − ½ log(1−st) + ½ s(1+s) m²/(1−st) ]
         = mean·s + Σ [ ½ν φ(st) + ½ q s²/(1−st) ],       φ(z) = −log(1−z) − z,
      ν = 1 (0 where t = 0),   q = m²τ,   mean = Σ ½ [ t − log(1+t) + m² ] = KL(X‖Y).

The second line is the canonical form, shared with the generalized chi-square: nothing in it cancels. `LogMoment` holds
it; the compiled
evaluation of it is `ndis.spectrum.contour.exponent`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ndis._validate import Floats, as_floats, as_reals
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.pair import GaussianPair

__all__ = ["LogMoment", "kl", "log_moment", "loss_supremum", "moment_domain", "renyi"]


@dataclass(frozen=True, eq=False)
class LogMoment:
    """Canonical form of K: the mean and the groups (t, ν, q).

    `exact_edge` gives the end of a support bounded on one side as an unevaluated sum of two floats; it is asked only
    near that end.
    """

    mean: float
    t: Floats
    ratio: Floats  # 1 + t, to full relative accuracy
    nu: Floats
    q: Floats
    exact_edge: Callable[[], tuple[float, float] | None] | None = None

    @property
    def constant(self) -> bool:
        """True when the variable is its mean with certainty."""
        return self.t.size == 0

    @cached_property
    def side(self) -> int:
        """−1 when the support is bounded above (every t < 0), +1 when bounded below (every t > 0), else 0."""
        return -int((self.t < 0).all()) + int((self.t > 0).all()) if self.t.size else 0

    @cached_property
    def edge(self) -> tuple[float, float]:
        """End of the support, as a double-double; ask only where `side` is not 0."""
        return (self._rough_edge, 0.0) if self._exact is None else self._exact

    @cached_property
    def _exact(self) -> tuple[float, float] | None:
        return None if self.exact_edge is None else self.exact_edge()

    @property
    def edge_error(self) -> float:
        """How far the edge may be off, relatively, where it was not computed from exact inputs."""
        return 0.0 if self._exact is not None else 2.0**-36

    @cached_property
    def _rough_edge(self) -> float:
        return self.mean - 0.5 * math.fsum(self.nu * self.t + self.q / self.t)

    def gap(self, x: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Edge less x, and whether it is so small beside mean − x that the integral is taken about the edge."""
        gap = self._rough_edge - x
        near = np.abs(gap) <= 0.25 * np.abs(self.mean - x)
        if near.any():
            high, low = self.edge
            gap = np.where(near, (high - x) + low, gap)
        return gap, near

    @cached_property
    def domain(self) -> tuple[float, float]:
        """The open interval of s on which K is finite."""
        low, high = float(self.t.min(initial=0.0)), float(self.t.max(initial=0.0))
        return (1.0 / low if low < 0 else -math.inf), (1.0 / high if high > 0 else math.inf)

    def linear(self, x: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Coefficient of s in K(s) − s x, and whether it is taken about the edge rather than the mean."""
        about_mean = self.mean - x
        if not self.side:
            return about_mean, np.zeros(x.shape, dtype=np.bool_)
        gap, near = self.gap(x)
        return np.where(near, gap, about_mean), near


def half_excess_log(t: Floats, ratio: Floats) -> Floats:
    """½ (t − log(1+t)), without cancellation.

    With y = t/(2+t), t − log(1+t) = 2y/(1−y) − 2 artanh y = 2y² [ 1/(1−y) − y/3 − y³/5 − … ].
    """
    small = (t > -0.35) & (t < 0.6)
    y = np.where(small, t / (1.0 + ratio), 0.0)
    series = np.zeros_like(t)
    for k in range(27, 1, -2):
        series = 1.0 / k + y * y * series
    return np.where(small, y * y * (1.0 / (1.0 - y) - y * series), 0.5 * (t - np.log(ratio)))


def _real(values: Floats, shape: tuple[int, ...]) -> float | Floats:
    return float(values[0]) if shape == () else values.reshape(shape)


def log_moment(pair: GaussianPair, s: float | Floats) -> float | Floats:
    """K(s) = log E_X e^{sL}; infinite outside `moment_domain`.

    >>> import ndis
    >>> pair = ndis.GaussianPair.from_ratios(2.0)
    >>> log_moment(pair, 0.0), log_moment(pair, -1.0)
    (0.0, 0.0)
    """
    from ndis.spectrum.contour import exponent

    points = as_floats("s", s)
    form = pair.form
    low, high = form.domain
    out = np.full(points.size, math.inf)
    for i, x in enumerate(points.ravel()):
        if x in (0.0, -1.0):
            out[i] = 0.0
        elif low < x < high:
            out[i] = (
                0.0
                if form.constant
                else exponent(complex(x), form.mean, form.t, form.ratio, form.nu, form.q, False).real
            )
    return _real(out, points.shape)


def moment_domain(pair: GaussianPair) -> tuple[float, float]:
    """The open interval of s on which K(s) is finite.

    >>> import ndis
    >>> moment_domain(ndis.GaussianPair.from_ratios([3.0, 0.5]))
    (-2.0, 0.5)
    """
    return pair.form.domain


def loss_supremum(pair: GaussianPair) -> float:
    """Least upper bound of the privacy loss, rounded up; infinite unless every ratio is below one.

    L ≤ Σ [ −½ log(1+t) + m²/(−2t) ] when every direction has t < 0, and δ(ε) = 0 from there on.

    >>> import ndis
    >>> loss_supremum(ndis.GaussianPair.from_ratios(0.25)) >= 0.6931471805599453
    True
    """
    if pair.mutually_singular:
        return math.inf
    form = pair.form
    if form.constant:
        return 0.0
    if form.side != -1:
        return math.inf
    high, low = form.edge
    end = high if low <= 0.0 else math.nextafter(high, math.inf)
    return end + 4.0 * math.fabs(end) * form.edge_error


def kl(pair: GaussianPair) -> float:
    """Kullback–Leibler divergence KL(p‖q), the mean of the loss.

    >>> import ndis
    >>> kl(ndis.GaussianPair.from_ratios(1.0, shift=2.0))
    2.0
    """
    return math.inf if pair.mutually_singular else pair.form.mean


def renyi(pair: GaussianPair, order: float | Floats) -> float | Floats:
    """Rényi divergence D_order(p‖q) = K(order − 1)/(order − 1); order 1 is KL, infinity the supremum of the loss.

    >>> import ndis
    >>> renyi(ndis.GaussianPair.from_ratios(1.0, shift=1.0), 8.0)
    4.0
    """
    orders = as_reals("order", order)
    if not (orders > 0).all():
        raise ParameterError("order", "be positive", order)
    out = np.empty(orders.size)
    for i, a in enumerate(orders.ravel()):
        if pair.mutually_singular:
            out[i] = math.inf
        elif math.isinf(a):
            out[i] = loss_supremum(pair)
        elif a == 1.0:
            out[i] = kl(pair)
        else:
            out[i] = log_moment(pair, a - 1.0) / (a - 1.0)
    return _real(out, orders.shape)
