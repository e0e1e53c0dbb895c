"""The log-moment function K of the privacy loss has a canonical form.

For X = N(m, diag τ) against Y = N(0, I), τ = 1 + t, the loss L = log dX/dY has (lemma: ndis)

    K(s) = log E_X e^{sL} = Σ [ −(s/2) log(1+t) − ½ log(1−st) + ½ s(1+s) m²/(1−st) ]
         = mean·s + Σ [ ½ν φ(st) + ½ q s²/(1−st) ],       φ(z) = −log(1−z) − z,
      ν = 1 (0 if t = 0),   q = m²τ,   mean = Σ ½ [ t − log(1+t) + m² ] = KL(X‖Y).

The second line is the canonical form. The generalized chi-square shares it, and nothing in it cancels. `LogMoment`
holds it. `ndis.spectrum.contour.exponent` is its compiled evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ndis._validate import Floats
from ndis.spectrum.contour import exponent
from ndis.spectrum.origins import Origin, exact_edge


@dataclass(frozen=True, eq=False)
class LogMoment:
    """The canonical form of K has the mean and the groups (t, ν, q).

    `exact_edge` gives the end of a support bounded on one side as an unevaluated sum of two floats. The evaluation asks
    for it only near that end.
    """

    mean: float
    t: Floats
    ratio: Floats  # 1 + t, to full relative accuracy
    nu: Floats
    q: Floats
    exact_edge: Callable[[], tuple[float, float] | None] | None = None

    @property
    def constant(self) -> bool:
        """True if the variable always equals its mean."""
        return self.t.size == 0

    @cached_property
    def distance(self) -> float:
        """Return the Mahalanobis distance of two laws that differ only in their means; 0 for other laws."""
        return math.sqrt(float(self.q[0])) if self.t.size == 1 and self.t[0] == 0.0 else 0.0

    @cached_property
    def side(self) -> int:
        """−1 if the support is bounded above (every t < 0), +1 if it is bounded below (every t > 0), else 0."""
        return -int((self.t < 0).all()) + int((self.t > 0).all()) if self.t.size else 0

    @cached_property
    def edge(self) -> tuple[float, float]:
        """The end of the support, as a sum of two floats. Ask only if `side` is not 0."""
        return (self._rough_edge, 0.0) if self._exact is None else self._exact

    @cached_property
    def _exact(self) -> tuple[float, float] | None:
        return None if self.exact_edge is None else self.exact_edge()

    @property
    def edge_error(self) -> float:
        """The relative error of the edge; 0 if it was computed from exact inputs."""
        return 0.0 if self._exact is not None else 2.0**-36

    @cached_property
    def _rough_edge(self) -> float:
        return self.mean - 0.5 * math.fsum(self.nu * self.t + self.q / self.t)

    @cached_property
    def spread(self) -> float:
        """Return the standard deviation."""
        return math.sqrt(math.fsum(0.5 * self.nu * self.t**2 + self.q))

    @cached_property
    def from_end(self) -> bool:
        """True if the support ends on one side, at a distance from the mean that floats resolve well."""
        return self.side != 0 and math.fabs(self.mean - self.edge[0]) <= 1024.0 * self.spread

    def gap(self, x: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Edge − x, and whether it is so small compared with mean − x that the integral is taken about the edge."""
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

    @property
    def groups(self) -> tuple[Floats, Floats, Floats, Floats]:
        """(t, 1 + t, ν, q), as the kernel takes them."""
        return self.t, self.ratio, self.nu, self.q

    def value(self, s: float) -> float:
        """Return K(s) inside the domain."""
        return 0.0 if self.constant else float(exponent(complex(s), self.mean, *self.groups, False).real)

    def linear(self, x: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Coefficient of s in K(s) − s x, and whether it is taken about the edge rather than the mean."""
        about_mean = self.mean - x
        if not self.side:
            return about_mean, np.zeros(x.shape, dtype=np.bool_)
        gap, near = self.gap(x)
        return np.where(near, gap, about_mean), near


def half_excess_log(t: Floats, ratio: Floats) -> Floats:
    """Return ½ (t − log(1+t)), without cancellation.

    With y = t/(2+t), t − log(1+t) = 2y/(1−y) − 2 artanh y = 2y² [ 1/(1−y) − y/3 − y³/5 − … ].
    """
    small = (t > -0.35) & (t < 0.6)
    y = np.where(small, t / (1.0 + ratio), 0.0)
    series = np.zeros_like(t)
    for k in range(27, 1, -2):
        series = 1.0 / k + y * y * series
    return np.where(small, y * y * (1.0 / (1.0 - y) - y * series), 0.5 * (t - np.log(ratio)))


def log_moment(form: LogMoment, s: Floats) -> Floats:
    """Return K(s) = log E e^{sL} at each entry of a vector; infinite outside `form.domain`."""
    low, high = form.domain
    return np.array([0.0 if x in (0.0, -1.0) else form.value(x) if low < x < high else math.inf for x in s.tolist()])


def supremum(form: LogMoment) -> float:
    """The least upper bound of the variable, rounded up; infinite unless every t is below 0.

    L ≤ Σ [ −½ log(1+t) + m²/(−2t) ] if every direction has t < 0, and δ(ε) = 0 from there on.
    """
    if form.constant:
        return 0.0
    if form.side != -1:
        return math.inf
    high, low = form.edge
    end = high if low <= 0.0 else math.nextafter(high, math.inf)
    return end + 4.0 * math.fabs(end) * form.edge_error


def canonical_form(
    excess: Floats, ratio: Floats, shift: Floats, copies: Floats, origins: tuple[Origin, ...]
) -> LogMoment:
    """Return the canonical log-moment function of the loss under p.

    Equal groups are merged, and directions on which the laws agree are dropped.
    """
    m2, flat = shift**2, excess == 0
    pure = math.fsum((copies * m2)[flat])  # directions that differ in mean only add up to one
    key, where = np.unique(np.stack([excess, ratio, m2])[:, ~flat], axis=1, return_inverse=True)
    n: Floats = np.bincount(where.ravel(), weights=copies[~flat], minlength=key.shape[1]).astype(np.float64)
    order = np.argsort(n, kind="stable")  # the kernel takes logarithms of equal multiplicities together
    (t, tau, m2), n = key[:, order], n[order]
    mean = math.fsum(n * half_excess_log(t, tau)) + 0.5 * math.fsum(n * m2) + 0.5 * pure
    nu, q = n, n * m2 * tau
    if pure != 0:
        t, tau, nu, q = (np.append(a, v) for a, v in ((t, 0.0), (tau, 1.0), (nu, 0.0), (q, pure)))
    return LogMoment(mean, t, tau, nu, q, (lambda: exact_edge(origins)) if origins else None)
