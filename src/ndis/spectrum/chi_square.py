"""A generalized chi-square variable has tails, density and quantiles, computed here in units of its scale.

Close to the end of a support bounded on one side the leading term

    Pr[|W − shift| ≤ y] = y^{N/2}/Γ(N/2+1) · Π |t|^{−ν/2} · e^{−½Σncp} · (1 + O(y)),        N = Σν

is exact to the last bit, and is used there. Elsewhere tails and density are contour integrals
(`ndis.spectrum.contour`, thm:genchi2-contour).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ndis._search import refuse
from ndis._validate import Floats
from ndis.errors import ParameterError, PrecisionError
from ndis.spectrum.contour import CDF, PDF, SF
from ndis.spectrum.dense import rational
from ndis.spectrum.evaluate import NEAR_ONE, evaluate_form, log_one_minus_exp, lost, quantile
from ndis.spectrum.loss import LogMoment
from ndis.spectrum.whitening import scaling, semidefinite_spectrum

_NEGLIGIBLE = 2.0**-56  # relative size of the first term that the expansion at the end of the support leaves out
FLATTEST = 2.0**-500  # smallest weight, relative to the largest scale; its square is still a float
_HEFT = 1000.0  # sum of dof and noncentralities up to which the exponent about `shift` loses no digits near it
_RANK = 2.0**-50  # an eigenvalue (or slope) counts as zero below d times this of the terms it is the sum of


@dataclass(frozen=True, eq=False)
class ChiSquareLaw(LogMoment):
    """A canonical form whose mean is known to twice the precision: mean + mean_low.

    The exponent may be taken about the edge even if the edge is no end of the support. There the density has its kink
    or pole, or nearly ends. The contour reaches out so far that the linear parts taken from the mean cancel.
    """

    mean_low: float = 0.0

    def linear(self, x: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the distance of x to the mean, or to the edge where that is nearer and has more digits."""
        about_mean = (self.mean - x) + self.mean_low
        if self.gaussian and self.exact_edge is None:
            return about_mean, np.zeros(x.shape, dtype=np.bool_)
        high, low = self.edge
        about_edge = (high - x) + low
        scale = np.abs(about_mean)
        if not self.side and self.heft <= _HEFT:
            scale = np.maximum(scale, self.spread)
        near = np.abs(about_edge) <= 0.25 * scale
        return np.where(near, about_edge, about_mean), near

    @cached_property
    def heft(self) -> float:
        """Return Σ (ν + ncp)."""
        live = self.t != 0
        return math.fsum(self.nu[live] + self.q[live] / self.t[live] ** 2)

    @cached_property
    def total_dof(self) -> float:
        """Return Σ ν."""
        return math.fsum(self.nu)

    @cached_property
    def gaussian(self) -> bool:
        """True if there is a Gaussian term. Then the density is smooth and the support is the real line."""
        return bool((self.t == 0).any())

    def cumulant(self, n: int) -> float:
        """Return the n-th cumulant, n ≥ 2: ½(n−1)! Σ [ ν tⁿ + n q tⁿ⁻² ]."""
        return 0.5 * math.factorial(n - 1) * math.fsum(self.nu * self.t**n + n * self.q * self.t ** (n - 2))

    def log_moment(self, s: float) -> float:
        """Return K(s) inside its domain: about the mean or, far out on the unbounded side, about the end."""
        if self.constant:
            return self.mean * s
        z = s * self.t
        if self.from_end and self.side * s < 0 and np.abs(z).max() > 1.0:
            terms = -0.5 * self.nu * np.log1p(-z) + 0.5 * (self.q / self.t**2) * (z / (1.0 - z))
            return self.edge[0] * s + math.fsum(terms)
        if not np.abs(z).max() <= 1.0 / FLATTEST:
            raise PrecisionError(f"the cumulant generating function at {s!r} scales is out of reach")
        return self.value(s)

    # The leading term at the end of the support. Ask only if `side` is not 0.

    @cached_property
    def edge_reach(self) -> float:
        """The distance from the end of the support up to which the leading term is exact to the last bit."""
        scale = np.abs(self.t)
        return float(_NEGLIGIBLE / np.sum((self.nu + self.q / scale**2) / scale.min()))

    @cached_property
    def edge_constant(self) -> float:
        """−½ Σ [ ν log|t| + ncp ]."""
        return -0.5 * math.fsum(self.nu * np.log(np.abs(self.t)) + self.q / self.t**2)

    def edge_log_tail(self, log_y: Floats, derivative: int) -> Floats:
        """log of the probability (derivative 0) or density (1) at distance y from the end of the support."""
        power = 0.5 * self.total_dof - derivative
        return power * log_y + (self.edge_constant - math.lgamma(power + 1.0))

    def where(self, y: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_], Floats]:
        """(below, above, near, logarithm of the distance to the end of the support) of each point.

        `below`: all the mass lies above the point. `above`: all of it lies below. `near`: the point is so near the end
        of the support that the leading term is exact.
        """
        below, above = y == -np.inf, y == np.inf
        near, log_distance = np.zeros(y.size, dtype=np.bool_), np.zeros(y.size)
        if self.constant:
            return y < self.mean, y >= self.mean, near, log_distance
        if self.side:
            high, low = self.edge
            distance = self.side * ((y - high) - low)
            outside = distance <= 0
            below, above = below | (outside & (self.side > 0)), above | (outside & (self.side < 0))
            near = ~outside & (distance <= self.edge_reach)
            log_distance[near] = np.log(distance[near])
        return below, above, near, log_distance

    def log_tail(self, y: Floats, *, upper: bool) -> Floats:
        """log Pr[> y] or log Pr[≤ y] at each point. Near 0 it comes from the other tail, by its own integral."""
        below, above, near, log_distance = self.where(y)
        out = np.where(below if upper else above, 0.0, -np.inf)
        if near.any():
            within = self.edge_log_tail(log_distance[near], 0)
            out[near] = within if upper == (self.side < 0) else log_one_minus_exp(within)
        todo = np.flatnonzero(~(below | above | near))
        right = y[todo] > self.mean
        for kind, other, piece in ((SF, CDF, todo[right]), (CDF, SF, todo[~right])):
            if piece.size:
                value = self.log_integral(y[piece], kind)
                out[piece] = value if (kind == SF) == upper else log_one_minus_exp(value)
                piece = piece[value > NEAR_ONE]
            if piece.size:
                value = self.log_integral(y[piece], other)
                out[piece] = value if (other == SF) == upper else log_one_minus_exp(value)
        return out

    def log_density(self, y: Floats, at_shift: NDArray[np.bool_]) -> Floats:
        """log of the density at each point; `at_shift` marks the points that equal the shift exactly."""
        below, above, near, log_distance = self.where(y)
        out = np.full(y.size, -np.inf)
        if near.any():
            out[near] = self.edge_log_tail(log_distance[near], 1)
        todo = ~(below | above | near)
        if self.constant:
            out[y == self.mean] = np.inf
        elif not self.gaussian:
            if self.side and self.total_dof == 2:
                out[at_shift] = self.edge_log_tail(np.zeros(1), 1)
            elif self.total_dof < 2 or (self.total_dof == 2 and not self.side):
                out[at_shift] = np.inf
                todo &= ~at_shift
        if todo.any():
            out[todo] = self.log_integral(y[todo], PDF)
        return out

    def log_integral(self, y: Floats, kind: int) -> Floats:
        """Return log of the contour integral; refused if rounding has left fewer digits than promised."""
        value, _, error = evaluate_form(self, y, kind)
        refuse(lost(value, error), y, error)
        return value

    @cached_property
    def _about_end(self) -> ChiSquareLaw:
        """The law less the end of its support."""
        mean = double_sum([self.mean, self.mean_low, -self.edge[0], -self.edge[1]])
        return replace(self, mean=mean[0], mean_low=mean[1], exact_edge=lambda: (0.0, 0.0))

    def quantile(self, p: float, *, upper: bool) -> float:
        """The point with that tail probability; of a law with an end it is the distance to that end, with its sign."""
        if not self.from_end:
            return quantile(self, p, upper=upper)[0]
        if upper == (self.side < 0):
            log_y = (math.log(p) - float(self.edge_log_tail(np.zeros(1), 0)[0])) / (0.5 * self.total_dof)
            if log_y <= math.log(self.edge_reach):
                return self.side * math.exp(log_y)
        return quantile(self._about_end, p, upper=upper)[0]


def double_sum(entries: Iterable[float | Fraction]) -> tuple[float, float]:
    """The sum of the entries as an unevaluated sum of two floats."""
    total = sum((Fraction(x) for x in entries), Fraction(0))
    high = float(total)
    return high, float(total - Fraction(high))


def canonical(
    mean: tuple[float, float], groups: Iterable[tuple[float, float, float]], edge: float | None
) -> ChiSquareLaw:
    """The form with groups (t, ν, q) of equal t merged, and those with t = 0 as one Gaussian term.

    Groups of equal ν stand side by side, as the kernel needs them.
    """
    merged: dict[float, tuple[float, float]] = {}
    for scale, dof, slope in groups:
        known = merged.get(scale, (0.0, 0.0))
        merged[scale] = (known[0] + dof if scale else 0.0, known[1] + slope)
    rows = sorted((dof, scale, slope) for scale, (dof, slope) in merged.items() if scale or slope)
    nu, t, q = np.array(rows).reshape(-1, 3).T.copy()
    exact_edge = None if edge is None else lambda: (edge, 0.0)
    return ChiSquareLaw(mean[0], t, 1.0 + t, nu, q, exact_edge, mean[1])


def weighted_sum(
    weights: Floats, dof: Floats, noncentrality: Floats, sigma: float, shift: float
) -> tuple[float, ChiSquareLaw]:
    """Return a power of two near the largest scale, and the law of (Σ weight·χ² + sigma·normal + shift)/unit."""
    live = weights != 0
    largest = max(sigma, float((np.abs(weights) * np.maximum(1.0, np.sqrt(noncentrality))).max(initial=0.0)))
    unit = 2.0 ** math.frexp(largest)[1] if largest > 0 else 1.0
    t, nu, ncp = 2.0 * (weights[live] / unit), dof[live], noncentrality[live]
    if not (np.abs(t) >= FLATTEST).all():
        raise ParameterError("weights", "lie within 150 orders of magnitude of the largest scale", weights)
    edge = shift / unit
    terms = zip(t.tolist(), nu.tolist(), ncp.tolist(), strict=True)
    mean = double_sum([edge, *(Fraction(scale) / 2 * (Fraction(n) + Fraction(x)) for scale, n, x in terms)])
    groups = zip(t.tolist(), nu.tolist(), (t * t * ncp).tolist(), strict=True)
    return unit, canonical(mean, [*groups, (0.0, 0.0, (sigma / unit) ** 2)], edge)


def quadratic_form(
    matrix: Floats, slope: Floats, constant: float, mu: Floats, sigma: Floats
) -> tuple[Floats, Floats, float, float, float, ChiSquareLaw]:
    """Return the law of xᵀQx + bᵀx + c for x = N(μ, Σ): weights, noncentralities, σ, shift, (unit, law of W/unit)."""
    d = len(matrix)
    # the value at the mean and the gradient there, from exact rationals
    centre, b = rational(mu[:, None]), rational(slope[:, None])
    image = rational(matrix) * centre
    (inner,) = (centre.transpose() * (image + b)).entries()
    value = Fraction(constant) + Fraction(int(inner.p), int(inner.q))
    parts = double_sum([value])
    gradient = np.array([int(x.p) / int(x.q) for x in (image + image + b).entries()])
    scale = scaling(sigma)
    values, basis, threshold = semidefinite_spectrum("cov", scale[:, None] * sigma * scale)
    inside = values > threshold
    C = basis[:, inside] * np.sqrt(values[inside]) / scale[:, None]
    A = C.T @ matrix @ C
    lam, V = np.linalg.eigh(0.5 * (A + A.T))
    g = V.T @ (C.T @ gradient)
    # sizes of the terms that λ and g are sums of; rounding is relative to these
    size = (np.abs(C).T @ np.abs(matrix) @ np.abs(C)).max(initial=0.0)
    slope_size = (np.abs(C).T @ (2.0 * (np.abs(matrix) @ np.abs(mu)) + np.abs(slope))).max(initial=0.0)
    largest = max(np.abs(lam).max(initial=0.0), np.abs(g).max(initial=0.0))
    flat = np.abs(lam) <= max(d * _RANK * size, FLATTEST * largest)
    still = flat & (np.abs(g) <= d * _RANK * slope_size)
    lam, g = np.where(flat, 0.0, lam), np.where(still, 0.0, g)
    unit = 2.0 ** math.frexp(largest)[1] if largest > 0 else 1.0
    mean = double_sum([value / Fraction(unit), *(lam / unit).tolist()])
    groups = [(2.0 * a, 1.0, q) for a, q in zip((lam / unit).tolist(), ((g / unit) ** 2).tolist(), strict=True)]
    law = canonical(mean, groups, None)
    w, slopes = lam[~flat], g[~flat]
    gaussian = float(np.linalg.norm(g[flat]))
    shift = math.fsum([*parts, *(-0.25 * slopes * (slopes / w))])
    return w, (slopes / (2.0 * w)) ** 2, gaussian, shift, unit, law
