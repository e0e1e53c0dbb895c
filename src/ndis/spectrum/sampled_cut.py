"""One sampled mean shift in the remove order, cut by two soft windows of its noise x, in float64.

    W₁W₂ + (1 − W₁)W₂ + (1 − W₂) = 1:     the body, the jumps, and the far losses.

A window is a logistic function of a cubic. Its poles are at 2.26 widths from the real line. The moments B(s) of the
body and J(s) of the jumps are trapezoid sums on a line x + iθ, the one of some lines on which the largest term is
smallest. The error of a sum is judged by its half with every other node. B(s) is summed from 1 on, as in
`sampled_moment`.
"""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ndis._compile import compiled
from ndis._validate import Floats
from ndis.spectrum.sampled_moment import Complexes, ShiftMoment, second_order_exponential
from ndis.spectrum.sampled_shift import FAR, FAR_WIDTH, log1p
from ndis.spectrum.sampled_shift import log_ratio as complex_log_ratio

__all__ = ["SIDE", "Cut", "left_out", "log_ratio", "log_sides", "log_sum", "place"]

_UNIT = 2.0**-53
_LEFT = -9.6  # no x below it counts
SIDE = 8.0  # widths of a window beyond which it is 0 or 1
_MOST_NODES = 8000


@compiled()
def _log_sides(x, place, width):
    """log W and log (1 − W) of a window at complex x: a logistic function of a cubic."""
    t = (x - place) / width
    g = t * (1.0 + t * t / 12.0)
    if g.real > 0.0:
        back = log1p(cmath.exp(-g))
        return -g - back, -back
    back = log1p(cmath.exp(g))
    return -back, g - back


@compiled()
def _fill(x, heights, q, mu, places, widths, jumps, loss, log_weight):
    """Losses and log weights of the body, or of the jumps, at the nodes of some lines."""
    unit = math.log((x[1] - x[0]) / math.sqrt(2.0 * math.pi))
    for j in range(heights.size):
        for k in range(x.size):
            z = complex(x[k], heights[j])
            ratio = complex_log_ratio(z, cmath.exp(1j * mu * z.imag) - 1.0, q, mu)[0]
            one, two = _log_sides(z, places[0], widths[0]), _log_sides(z, places[1], widths[1])
            loss[j, k] = ratio
            log_weight[j, k] = unit - 0.5 * z * z + ratio + (one[1] if jumps else one[0]) + two[0]


@compiled()
def _lowest(s, loss, log_weight):
    """The line on which the largest term is smallest, and the log of that."""
    best, least = 0, math.inf
    for j in range(loss.shape[0]):
        top = -math.inf
        for k in range(loss.shape[1]):
            top = max(top, log_weight[j, k].real + s.real * loss[j, k].real - s.imag * loss[j, k].imag)
        if top < least:
            best, least = j, top
    return best, least


@compiled()
def _left(change, size):
    """The error of a trapezoid sum from the change that its halving made; it falls with the square of that."""
    return change * min(max(10.0 * math.sqrt(change / size), 1e-4), 1.0) if size > 0.0 else 0.0


@compiled()
def _body_sums(s, loss, log_weight, weight, second, wrong):
    """Σ p(e^{sL} − 1 − sL) for each s, and what its trapezoid sum and rounding may have wrong."""
    for i in range(s.size):
        j, _ = _lowest(s[i], loss, log_weight)
        even, odd, size = 0.0j, 0.0j, 0.0
        for k in range(loss.shape[1]):
            z = s[i] * loss[j, k]
            lp, p = log_weight[j, k], weight[j, k]
            if z.real * z.real + z.imag * z.imag < 0.16:
                term = p * second_order_exponential(z)
                size += abs(term)
            else:
                whole = cmath.exp(lp + z)
                less = p * (1.0 + z)
                term = whole - less
                burden = abs(lp.real) + abs(lp.imag) + abs(z.real) + abs(z.imag)
                size += math.exp(lp.real + z.real) * (1.0 + 0.25 * burden) + abs(less)
            if k % 2:
                odd += term
            else:
                even += term
        second[i] = even + odd
        wrong[i] = _left(abs(even - odd), size) + 4.0 * _UNIT * size


@compiled()
def _jump_sums(s, loss, log_weight, value, wrong):
    """log Σ p e^{sL} for each s, and its error."""
    for i in range(s.size):
        j, top = _lowest(s[i], loss, log_weight)
        even, odd, size = 0.0j, 0.0j, 0.0
        for k in range(loss.shape[1]):
            z = log_weight[j, k] + s[i] * loss[j, k]
            if z.real < top - 50.0:
                continue
            term = cmath.exp(z - top)
            size += math.exp(z.real - top) * (1.0 + 0.25 * (abs(log_weight[j, k].real) + abs(z.real) + abs(z.imag)))
            if k % 2:
                odd += term
            else:
                even += term
        total = even + odd
        if total == 0.0:
            value[i], wrong[i] = complex(-math.inf, 0.0), math.inf
        else:
            value[i] = top + cmath.log(total)
            wrong[i] = (_left(abs(even - odd), size) + 4.0 * _UNIT * size) / abs(total)


def log_ratio(x: Floats, q: float, mu: float) -> Floats:
    """ℓ at real x, to full relative accuracy."""
    a = mu * x - 0.5 * mu * mu
    with np.errstate(over="ignore"):
        large = math.log(q) + a + np.log1p((1.0 - q) / q * np.exp(-np.maximum(a, 30.0)))
    return np.where(a > 30.0, large, np.log1p(q * np.expm1(np.minimum(a, 40.0))))


def place(loss: float, q: float, mu: float) -> float:
    """The x of a positive loss."""
    log_w = math.log1p(math.expm1(loss) / q) if loss < 600.0 else loss - math.log(q)
    return (log_w + 0.5 * mu * mu) / mu


def log_sides(x: Floats, place: float, width: float) -> tuple[Floats, Floats]:
    """log W and log (1 − W) of a window: a logistic function of a cubic."""
    t = (x - place) / width
    g = t * (1.0 + t * t / 12.0)
    return -np.logaddexp(0.0, g), -np.logaddexp(0.0, -g)


def _log_excess(z: Any) -> Any:
    """log(1+z) − z of an array, real or complex, to nearly full relative accuracy."""
    small = np.abs(z) < 0.2
    near, p = np.where(small, z, 0.0), np.zeros_like(z)
    for k in range(22, 1, -1):
        p = 1.0 / k - p * near
    return np.where(small, -near * near * p, np.log(1.0 + np.where(small, 0.0, z)) - z)


def log_sum(terms: Floats) -> float:
    return float(np.logaddexp.reduce(terms)) if terms.size else -math.inf


@dataclass(frozen=True, eq=False)
class Cut:
    """One step with its two windows; `far` tells whether losses above the second one exceed ε."""

    rate: float
    shift: float
    count: int
    places: tuple[float, float]
    widths: tuple[float, float]
    far: bool

    def grid(self, low: float, high: float, pole: float) -> Floats:
        """Nodes of a trapezoid sum of an even number; `pole` is the width of the narrowest window."""
        step = min(0.2 * pole, 0.3, 0.4 / self.shift)
        count = 2 * math.ceil((high - low) / (2.0 * step)) if step > 0.0 else 0
        if not 8 <= count <= _MOST_NODES:
            raise ArithmeticError("a step needs too many nodes, or has none")
        return np.linspace(low, high, count)

    @staticmethod
    def log_mass(x: Floats) -> Floats:
        return -0.5 * x * x + math.log((x[1] - x[0]) / math.sqrt(2.0 * math.pi))

    def _lines(self, low: float, high: float, *, jumps: bool) -> tuple[Complexes, Complexes]:
        """Loss and log weight at nodes between two x, on some lines below the poles of the windows."""
        pole = min(self.widths) if jumps or high > self.places[1] - SIDE * self.widths[1] else self.widths[0]
        x, highest = self.grid(low, high, pole), min(0.8 * pole, 0.5 * math.pi / self.shift)
        heights = highest * np.array([0.0, 0.35, 0.7, 1.0])
        loss, log_weight = (np.empty((heights.size, x.size), dtype=np.complex128) for _ in range(2))
        _fill(x, heights, self.rate, self.shift, np.array(self.places), np.array(self.widths), jumps, loss, log_weight)
        return loss, log_weight

    @cached_property
    def body(self) -> tuple[Complexes, Complexes, Complexes]:
        """Loss, log weight and weight at the nodes of the body, on some lines."""
        (x1, x2), (w1, w2) = self.places, self.widths
        end = min(x1 + SIDE * w1, x2 + SIDE * w2)
        loss, log_weight = self._lines(min(_LEFT, x1 - 1.0), end, jumps=False)
        return loss, log_weight, np.exp(log_weight)

    @cached_property
    def jumps(self) -> tuple[Complexes, Complexes]:
        """Loss and log weight at the nodes of the jumps, on some lines."""
        (x1, x2), (w1, w2) = self.places, self.widths
        return self._lines(x1 - SIDE * w1, x2 + SIDE * w2, jumps=True)

    @cached_property
    def above(self) -> tuple[Floats, Floats]:
        """Loss and log weight without the record at nodes of the far losses."""
        x2, w2 = self.places[1], self.widths[1]
        x = self.grid(x2 - SIDE * w2, max(x2, self.shift) + 12.0, w2)
        return log_ratio(x, self.rate, self.shift), self.log_mass(x) + log_sides(x, x2, w2)[1]

    @cached_property
    def known(self) -> tuple[float, float]:
        """B(0) − 1, and the mean loss of the body."""
        loss, log_weight = self.body[0][0].real, self.body[1][0].real
        u = np.expm1(loss)
        far_loss, far_mass = self.above
        jump_loss, jump_mass = self.jumps[0][0].real, self.jumps[1][0].real
        # E ℓ with the record = E [(1+u)ℓ − u] + E u without it, and E u is 0 over all x
        near = float((np.exp(log_weight - loss) * (_log_excess(u) + u * np.log1p(u))).sum())
        rest = float((np.exp(jump_mass) * -np.expm1(-jump_loss)).sum() + (np.exp(far_mass) * np.expm1(far_loss)).sum())
        return -self.gone[0], near - rest

    @cached_property
    def gone(self) -> tuple[float, float]:
        """1 − B(0) with the record and without: the probability of all but the body."""
        jump_loss, jump_mass = self.jumps[0][0].real, self.jumps[1][0].real
        far_loss, far_mass = self.above
        there = float(np.exp(jump_mass).sum() + np.exp(far_mass + far_loss).sum())
        return there, float(np.exp(jump_mass - jump_loss).sum() + np.exp(far_mass).sum())

    def log_body(self, s: Complexes) -> tuple[Complexes, Floats]:
        """log B(s) − s·mean, and its error."""
        key = s.tobytes()
        if key not in self._seen:
            second, wrong = np.empty(s.size, dtype=np.complex128), np.empty(s.size)
            _body_sums(s, *self.body, second, wrong)
            gone, mean = self.known
            second += gone
            near = second + mean * s
            small = np.abs(near) < 0.2
            log = np.where(small, second + _log_excess(np.where(small, near, 0.0)), np.log(1.0 + near) - mean * s)
            self._seen[key] = log, wrong / np.abs(1.0 + near) + 2.0 * _UNIT * np.abs(second)
        return self._seen[key]

    @cached_property
    def _seen(self) -> dict[bytes, tuple[Complexes, Floats]]:
        """Values of the body: laws with different numbers of steps share their paths."""
        return {}

    def log_jumps(self, s: Complexes) -> tuple[Complexes, Floats]:
        """log J(s), and its error."""
        value, wrong = np.empty(s.size, dtype=np.complex128), np.empty(s.size)
        _jump_sums(s, *self.jumps, value, wrong)
        return value, wrong


def left_out(m: ShiftMoment, c: float) -> float:
    """log of the share that the window of `sampled_moment` leaves out, under the law tilted by e^{cL}; up to x = 60."""
    x = np.linspace(0.0, 60.0 + m.shift, 2048)
    ratio = np.logaddexp(math.log1p(-m.rate), math.log(m.rate) + m.shift * x - 0.5 * m.shift**2)
    t = (x - FAR - m.shift) / FAR_WIDTH
    gone = np.log(-np.expm1(-np.logaddexp(0.0, t * (1.0 + t * t / 12.0)) - 1e-300))
    log_moment = float(m.centred(np.array([c], dtype=np.complex128))[0][0].real) + m.mean * c if c else 0.0
    return log_sum((1.0 + c) * ratio + gone + Cut.log_mass(x)) - log_moment
