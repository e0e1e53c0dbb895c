"""The moment of one Poisson-sampled pair with one variance ratio, in floats: proposals only, nothing rests on them.

The letters are those of `ndis.accountant.curved_balls`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import gammaincc, ive

from ndis._balls import Ball
from ndis.errors import PrecisionError

__all__ = ["CurvedFloats", "short", "to_line"]

_TURNS = 20  # angles tried for a ceiling
_WIDEST = 1.5  # of α, below π/2
_POINTS = 400  # of an integral
_REACH = 60.0  # e-folds below the maximum of an integrand


class CurvedFloats:
    """M(c), and where and how to integrate for it.

    Examples
    --------
    >>> from flint import arb
    >>> from ndis.accountant.curved_balls import CurvedStep
    >>> step = CurvedStep(arb(0.5), arb(0.5), arb(0), 2, remove=True)
    >>> round(step.log_moment(1.0), 9) == round(math.log(13 / 12), 9)
    True
    """

    def __init__(self, rate: Ball, beta: Ball, lead: Ball, centre: Ball, copies: int, *, remove: bool) -> None:
        self.remove, self.copies = remove, copies
        self.q, self.log_stay = float(rate), float((-rate).log1p())
        self._beta, self._lead, self._lam = float(beta), float(lead), float(centre)
        self._half = 0.5 * copies
        self._front = -0.5 * self._lam - self._half * math.log(2.0) - math.lgamma(self._half)
        self._windows: dict[tuple[float, float], tuple[float, float]] = {}
        self._grids: dict[float, Any] = {}
        self._scales: dict[float, float] = {}
        self._tables: dict[tuple[float, float], Any] = {}

    def _power(self, c: float) -> float:
        return 1.0 + c if self.remove else -c

    def _log_ratio(self, place: Any) -> Any:
        """log g(R) in floats, for real or complex R."""
        v = math.log(self.q) + self._lead + self._beta * place
        if not np.iscomplexobj(v):
            return np.logaddexp(self.log_stay, v)
        big = v.real > 300.0
        return np.where(big, v, np.log(math.exp(self.log_stay) + np.exp(np.where(big, 0.0, v))))

    def _log_density(self, place: Any, log_place: Any) -> Any:
        """log of R f(R) in floats."""
        value = self._front + self._half * log_place - 0.5 * place
        return value + _log_bessel(self._half, 0.25 * self._lam * place) if self._lam > 0.0 else value

    def _window(self, r: float, digits: float) -> tuple[float, float]:
        """log R at the ends of the places where the integrand over log R is above e^−digits of its maximum."""
        key = r, digits
        if key in self._windows:
            return self._windows[key]
        room = 1.0 - 2.0 * max(r, 0.0) * max(self._beta, 0.0)
        if not room > 0.0:
            raise PrecisionError(f"the moment of a sampled pair is infinite at the power {r:.3g}")
        size = self.copies + self._lam
        extra = digits + _REACH + math.fabs(r) * (self._log_ratio(np.zeros(1))[0] - self.log_stay)
        low = math.log(size) - 4.0 - extra / self._half
        high = math.log(4.0 * (size / room + extra) / room)
        for _ in range(3):
            x = np.linspace(low, high, 3 * _POINTS)
            place = np.exp(x)
            value = r * self._log_ratio(place) + self._log_density(place, x)
            inside = np.flatnonzero(value > value.max() - digits)
            first, last = max(inside[0] - 1, 0), min(inside[-1] + 1, x.size - 1)
            low, high = float(x[first]), float(x[last])
        self._windows[key] = low, high
        return low, high

    def _grid(self, c: float) -> Any:
        """(log R f(R), log g(R)) on a grid of log R, and its step."""
        if c not in self._grids:
            x = np.linspace(*self._window(self._power(c), _REACH), _POINTS)
            place = np.exp(x)
            self._grids[c] = self._log_density(place, x), self._log_ratio(place), float(x[1] - x[0])
        return self._grids[c]

    def log_moment(self, c: float) -> float:
        """log M(c) for real c, to about float accuracy; inf where M is infinite. Only plans use it."""
        if self.remove and 2.0 * (1.0 + c) * self._beta >= 1.0:
            return math.inf
        density, ratio, step = self._grid(c)
        return _log_sum(density + self._power(c) * ratio) + math.log(step)

    def log_delta(self, epsilon: float) -> float:
        """log δ(ε) of one step for ε ≥ 0, in floats; −inf for the add order, where no plan needs it."""
        if not self.remove:
            return -math.inf
        log_w = math.log(math.expm1(min(epsilon, 700.0)) / self.q + 1.0)
        edge = max((log_w - self._lead) / self._beta, 0.0)
        if self._beta > 0.0:
            place = edge + np.geomspace(1e-3, 60.0, _POINTS) / (0.5 - self._beta)
        elif edge > 0.0:
            place = edge * np.exp(-np.geomspace(1e-3, 60.0, _POINTS) / self._half)
        else:
            return -math.inf
        ratio = self._log_ratio(place)
        with np.errstate(divide="ignore"):
            value = self._log_density(place, np.log(place)) - np.log(place) + ratio
            value += np.log(-np.expm1(np.minimum(epsilon - ratio, 0.0))) + np.log(np.abs(np.gradient(place)))
        return _log_sum(value)

    def body_variance(self) -> float:
        """Variance of the loss without the record, in floats."""
        density, ratio, _ = self._grid(-1.0 if self.remove else 0.0)
        weight = np.exp(density - density.max())
        weight = weight / weight.sum()
        return float((weight * ratio**2).sum() - (weight * ratio).sum() ** 2)

    def body_mean(self, epsilon: float) -> float:
        """Mean of the losses below ε/2 with the record, roughly."""
        density, loss, step = self._grid(0.0)
        return float((np.exp(density + loss) * loss * (loss < 0.5 * epsilon)).sum() * step)

    def tail(self, reach: float, need: float) -> tuple[float, float]:
        """(the loss that is exceeded with probability e^−need, −d log P(loss)/d loss there or at `reach`), roughly.

        For t > 0 and no shift.
        """
        stretch = 1.0 - 2.0 * self._beta  # 1/(1+t)
        low, high = 0.0, 4.0 * (self.copies + need) / stretch
        while high - low > 1e-6 * high:
            x = 0.5 * (low + high)
            with np.errstate(divide="ignore"):
                beyond = np.log(gammaincc(self._half, 0.5 * stretch * x)) if x * stretch < 1300.0 else -math.inf
            low, high = (x, high) if beyond + math.log(self.q) > -need else (low, x)
        top = float(self._log_ratio(np.array([high]))[0])
        jump = min(reach, top)
        place = max((math.log1p(math.expm1(min(jump, 600.0)) / self.q) - self._lead) / self._beta, 1e-3)
        fall = max(0.5 * stretch - (self._half - 1.0) / place, 1.0 / math.sqrt(2.0 * self.copies) * stretch)
        return top, fall / (self._beta * -math.expm1(self.log_stay - jump))

    def _most_angle(self, r: float, scale: float) -> float:
        """The largest α of a strip."""
        return min(_WIDEST, (0.94 if r > 0.0 else 0.49) * math.pi / (math.fabs(self._beta) * scale))

    def _table(self, c: float, scale: float, angle: float) -> Any:
        """(log |f(R) dR/du|, log g(R)) on the line α of the scale k, and the step in u."""
        low, high = (to_line(x, scale) for x in self._window(self._power(c), _REACH))
        u = np.linspace(low, high, _POINTS)
        z = np.exp(np.minimum(u, 300.0) + 1j * angle)
        unit = np.where(np.abs(z) < 1e-5, z * (1.0 - 0.5 * z), np.log(1.0 + z))
        place = scale * np.where(u > 40.0, u + 1j * angle, unit)
        value = self._log_density(place, np.log(place)).real - np.log(np.abs(place))
        value += math.log(scale) - np.log(np.abs(1.0 + 1.0 / z))
        return value, self._log_ratio(place if self._beta > 0.0 else place.conj()), float(u[1] - u[0])

    def _log_growth(self, c: float, scale: float, angle: float) -> float:
        """log N_α/M(c), roughly."""
        value, ratio, step = self._table(c, scale, angle)
        return _log_sum(value + self._power(c) * ratio.real) + math.log(step) - self.log_moment(c)

    def _scale(self, c: float) -> float:
        """A k for which lines are short sums."""
        if c in self._scales:
            return self._scales[c]
        r = self._power(c)
        ends = self._window(r, 50.0)
        best = (math.inf, 1.0)
        for scale in np.geomspace(0.1, 100.0, 10) * math.sqrt(2.0 * self.copies + 4.0 * self._lam):
            length = to_line(ends[1], scale) - to_line(ends[0], scale)
            for share in (0.3, 0.6, 0.95):
                angle = share * self._most_angle(r, scale)
                cost = length * (45.0 + self._log_growth(c, scale, angle)) / angle
                best = min(best, (cost, float(scale)))
        self._scales[c] = short(best[1])
        return self._scales[c]

    def best_angle(self, c: float, y: float) -> tuple[float, float]:
        """(log of the smallest ceiling found for |M(c + iy)| − log M(c), its α), in floats; α = 0 stands for M(c)."""
        r, scale, base = self._power(c), self._scale(c), self.log_moment(c)
        best = (0.0, 0.0)
        for angle in self._most_angle(r, scale) * np.geomspace(0.01, 0.9, _TURNS):
            key = c, float(angle)
            if key not in self._tables:
                value, ratio, step = self._table(c, scale, angle)
                self._tables[key] = value + r * ratio.real + math.log(step) - base, ratio.imag
            log_terms, turn = self._tables[key]
            value = _log_sum(log_terms - y * turn)
            if value < best[0]:
                best = (value, float(angle))
        return best


def short(x: float) -> float:
    """x rounded down to a few bits."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.floor(math.ldexp(mantissa, 12)), exponent - 12)


def to_line(log_place: float, scale: float) -> float:
    """u with R = k log(1 + e^u)."""
    ratio = math.exp(log_place) / scale
    return ratio + math.log(-math.expm1(-ratio)) if ratio > 1e-8 else math.log(ratio) if ratio > 0.0 else -math.inf


def _log_sum(values: Any) -> float:
    top = float(values.max())
    return top + math.log(float(np.exp(values - top).sum()))


def _log_bessel(order: float, x: Any) -> Any:
    """log ₀F₁(order; x) in floats, roughly."""
    z, nu = 2.0 * np.sqrt(x), order - 1.0
    if nu < 0.0:
        return z + np.log1p(np.exp(-2.0 * z)) - math.log(2.0)
    if nu <= 60.0:
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.log(ive(nu, z)) + z.real + math.lgamma(order) - nu * np.log(0.5 * z)
        return np.where(np.abs(z) < 1e-3, x / order, value)
    w = z / nu  # Debye's expansion
    root = np.sqrt(1.0 + w * w)
    p = 1.0 / root
    first, second = p * (3.0 - 5.0 * p**2) / 24.0, p**2 * (81.0 - 462.0 * p**2 + 385.0 * p**4) / 1152.0
    front = math.lgamma(order) - nu * math.log(nu) + nu - 0.5 * math.log(2.0 * math.pi * nu)
    value = nu * (root - 1.0 - np.log(0.5 * (1.0 + root))) - 0.5 * np.log(root)
    return front + value + np.log(1.0 + (first + second / nu) / nu)
