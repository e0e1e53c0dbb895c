"""The log-moment function of one Poisson-sampled step whose unsampled pair is a mean shift, at complex s, in float64.

Let x be standard normal under Q₀, w = e^{μx − μ²/2} the likelihood ratio dP₀/dQ₀, u = q(w − 1) and ℓ = log(1 + u). The
loss L of a step is ℓ under P = (1−q)Q₀ + qP₀ in the remove order, and −ℓ under P = Q₀ in the add order. With the mean
κ = E_P L, this module computes

    log M(s) − κs,      M(s) = E_P e^{sL} = 1 + κs + E_P[e^{sL} − 1 − sL],

so that nothing of the size of 1 or of q is subtracted where M is near 1: κ is a mean of terms of one sign, and
e^z − 1 − z is summed as its series for small z.

The mean over x is a trapezoid sum on a line x + iθ. On the real line the integrand turns like (1+u)^{iy}, y = Im s. A
line raised towards the branch points, at the height π/μ, turns the phase into a decay. Among some lines the kernel
takes the one on which the largest term is smallest. It halves the step until the sum settles. The rule converges at
least geometrically in 1/step, so that the changes D₁, D₂ of two halvings leave an error of about D₂ (D₂/D₁)². The
estimate is more careful: D₂ times 10 (D₂/D₁)^{3/2}, and never less than D₂/10⁴.
"""

from __future__ import annotations

import cmath
import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ndis._compile import compiled
from ndis._validate import Floats

__all__ = ["Complexes", "ShiftMoment", "Step", "second_order_exponential"]

Complexes = NDArray[np.complex128]

_UNIT = 2.0**-53
_CUT = 46.0  # terms below e^-46 of the largest are left out
_FIRST = 32  # intervals of the first trapezoid
_MAX_LEVEL = 7
_SLACK = 2.5  # a line whose largest term is e^2.5 times the least may be taken if it needs fewer nodes
_LINES = 17
_FAR, _FAR_WIDTH = 45.0, 2.0  # of the window that cuts off the tail of x in the remove order: a mass below e^-350
_WINDOW_POLE = 1.3  # highest line, as a part of the width of a window; its nearest pole is at 2.26 of it
_HIGHEST = 0.85  # highest line, as a part of the height of the branch points


@compiled()
def second_order_exponential(z):
    """e^z − 1 − z, to nearly full relative accuracy."""
    if z.real * z.real + z.imag * z.imag < 0.16:
        p = 1.0 / 15.0 + 0.0j
        for k in range(14, 2, -1):
            p = (1.0 + p * z) / k
        return 0.5 * z * z * (1.0 + p * z)
    return cmath.exp(z) - 1.0 - z


@compiled()
def log_excess(z):
    """log(1+z) − z, to nearly full relative accuracy, on the principal branch."""
    if z.real * z.real + z.imag * z.imag < 0.04:
        p = 0.0j
        for k in range(22, 1, -1):
            p = p * (-z) + 1.0 / k
        return -z * z * p
    return cmath.log(1.0 + z) - z


@compiled()
def _log1p(z):
    """log(1+z) on the principal branch, to nearly full relative accuracy."""
    if z.real * z.real + z.imag * z.imag < 0.04:
        return log_excess(z) + z
    return cmath.log(1.0 + z)


@compiled()
def _log_ratio(x, q, mu):
    """ℓ = log(1 − q + q e^{μx − μ²/2}) at complex x, on the branch that is real for real x, |μ Im x| < π."""
    a = mu * x - 0.5 * mu * mu
    if a.real > 30.0:  # the ratio alone, and the rest as a small addition
        back = (1.0 - q) / q * cmath.exp(-a)
        return math.log(q) + a + _log1p(back)
    # e^a − 1 without cancellation
    half = cmath.exp(0.5 * a)
    grown = 2.0 * half * cmath.sinh(0.5 * a)
    if a.real * a.real + a.imag * a.imag < 0.01:
        grown = second_order_exponential(a) + a
    return _log1p(q * grown)


@compiled()
def _mean_loss(q, mu, add):
    """κ = E_P L ≥ 0, every term of it positive: E[(1+u)ℓ − u], or E[u − ℓ] in the add order, under Q₀."""
    low, high = -9.5, 9.5 + mu * (1.0 if add else 2.0)
    step = min(0.2, 0.45 / mu) * 0.5
    count = int((high - low) / step) + 1
    total = 0.0
    for k in range(count + 1):
        x = low + k * step
        a = mu * x - 0.5 * mu * mu
        u = q * math.expm1(a)
        excess = log_excess(complex(u, 0.0)).real  # ℓ − u
        # (1+u)ℓ − u = ℓ − u + uℓ; for small u the two parts are −u²/2 and u²
        term = -excess if add else excess + u * math.log1p(u)
        total += math.exp(-0.5 * x * x) * term
    return total * step / math.sqrt(2.0 * math.pi)


@compiled()
def _log_window(x, place):
    """log of the window that cuts off large x, a logistic function of a cubic."""
    t = (x - place) / _FAR_WIDTH
    g = -t * (1.0 + t * t / 12.0)
    if g.real > 0.0:
        return -_log1p(cmath.exp(-g))
    return g - _log1p(cmath.exp(g))


@compiled()
def _fill(line, level, low, high, height, q, mu, add, loss, weight):
    """The nodes that a halving adds to the trapezoid sum on one line: loss L and log weight, complex."""
    if level == 0:
        start, count, step, offset = 0, _FIRST + 1, (high - low) / _FIRST, 0.0
    else:
        count = _FIRST << (level - 1)
        start, step = count + 1, (high - low) / count
        offset = 0.5
    for k in range(count):
        x = complex(low + (k + offset) * step, height)
        ratio = _log_ratio(x, q, mu)
        loss[line, start + k] = -ratio if add else ratio
        lp = -0.5 * x * x + (0.0 if add else ratio)
        if not add:
            lp += _log_window(x, _FAR + mu)
        weight[line, start + k] = lp


@compiled()
def _sums(s, start, stop, loss, weight, line):
    """Over some nodes: Σ p(e^{sL} − 1 − sL), Σ p e^{sL}, and the sums of the moduli of the terms."""
    second, plain = 0.0j, 0.0j
    size, heavy = 0.0, 0.0
    for k in range(start, stop):
        L, lp = loss[line, k], weight[line, k]
        z = s * L
        p = cmath.exp(lp)
        if z.real * z.real + z.imag * z.imag < 0.16:
            term = p * second_order_exponential(z)
            whole = term + p * (1.0 + z)
            size += abs(term)
            heavy += abs(whole)
        else:
            whole = cmath.exp(lp + z)
            less = p * (1.0 + z)
            term = whole - less
            # an exponential is as wrong, relatively, as its exponent is absolutely
            rounded = abs(whole) * (1.0 + 0.25 * (abs(lp.real) + abs(lp.imag) + abs(z.real) + abs(z.imag)))
            size += rounded + abs(less)
            heavy += rounded
        second += term
        plain += whole
    return second, plain, size, heavy


@compiled()
def _turn(s, line, top, q, mu, add, loss, weight, heights):
    """How fast the phase of the terms turns along a line, where they count."""
    power = -s if add else 1.0 + s
    turn = 0.0
    for k in range(_FIRST + 1):
        L = loss[line, k]
        if (weight[line, k] + s * L).real > top - _CUT:
            slope = mu * (1.0 - (1.0 - q) * cmath.exp(L if add else -L))  # of log(1+u) along the line
            turn = max(turn, abs((power * slope).imag - heights[line]))
    return turn


@compiled()
def _log_moments(s, low, high, heights, q, mu, add, mean, filled, loss, weight, value, error):
    """log M(s) − κs and its estimated absolute error, for an array of s with Im s ≥ 0.

    A moment near 1 is summed from 1 on, the others as they are.
    """
    root = math.sqrt(2.0 * math.pi)
    tops = np.empty(heights.size)
    for i in range(s.size):
        si = s[i]
        least = math.inf
        for j in range(heights.size):
            top = -math.inf
            for k in range(_FIRST + 1):
                L, lp = loss[j, k], weight[j, k]
                top = max(top, lp.real + si.real * L.real - si.imag * L.imag)
            tops[j] = top
            least = min(least, top)
        # the phase may turn by at most two from node to node; a coarser rule can settle on a wrong value
        best, enough = 0, 1000
        for j in range(heights.size):
            if tops[j] > least + (0.25 if enough <= 2 else _SLACK):
                continue
            needed = max(2, int(math.ceil(math.log2(max(_turn(si, j, tops[j], q, mu, add, loss, weight, heights), 1e-9)
                                                    * (high - low) / _FIRST / 2.0))))
            if needed < enough:
                best, enough = j, needed
        step = (high - low) / _FIRST
        second, plain, size, heavy = _sums(si, 0, _FIRST + 1, loss, weight, best)
        change = math.inf
        end = 0.0
        for k in (0, _FIRST):
            L, lp = loss[best, k], weight[best, k]
            end += math.exp(lp.real + si.real * L.real - si.imag * L.imag)
            end += math.exp(lp.real) * (1.0 + abs(si * L)) if abs(si * L) > 0.4 else 0.0
        for level in range(1, _MAX_LEVEL + 1):
            if filled[best] < level:
                _fill(best, level, low, high, heights[best], q, mu, add, loss, weight)
                filled[best] = level
            nodes = _FIRST << (level - 1)
            before_second, before_plain = second * step, plain * step
            a, b, c, d = _sums(si, nodes + 1, 2 * nodes + 1, loss, weight, best)
            second, plain, size, heavy = second + a, plain + b, size + c, heavy + d
            step *= 0.5
            near = second * step / root + mean * si
            centred = abs(near) < 0.5
            last = change
            if centred:
                change, scale, rest = abs(second * step - before_second), size * step, abs(near)
            else:
                change, scale, rest = abs(plain * step - before_plain), heavy * step, abs(plain) * step / root
            left = change
            if last < math.inf and change < last:
                left = change * min(max(10.0 * (change / last) ** 1.5, 1e-4), 1.0)
            wrong = (left + 4.0 * _UNIT * scale) / root + step * end + 2.0 * _UNIT * rest
            if enough > _MAX_LEVEL:
                wrong = math.inf
                break
            if level >= enough and left < 4.0 * _UNIT * scale:
                break
        if centred:
            value[i] = second * step / root + log_excess(near)
            error[i] = wrong / abs(1.0 + near)
        else:
            moment = plain * step / root
            value[i] = (cmath.log(moment) if moment != 0.0 else complex(-745.0, 0.0)) - mean * si
            error[i] = wrong / max(abs(moment), 1e-300) + 4.0 * _UNIT * abs(mean * si)


class Step(Protocol):
    """The law of the loss of one step."""

    mean: float
    limit: float
    largest: float  # no loss above it counts

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """log M(s) − s·mean and its error."""

    def far_losses(self, s: float) -> tuple[float, float]:
        """Share and spread of large losses under the law tilted by s, if they are apart from the others; else 0, 0."""


class ShiftMoment:
    """log M(s) − κs of one step: a mean shift μ sampled at the rate q. It keeps its tables between calls.

    In the remove order the far tail of x is cut off. The mass lost is below e^-350 per step, and δ changes by no more
    than that. Without the cut, M(s) explodes from events that no δ above e^-300 sees.
    """

    def __init__(self, rate: float, shift: float, *, add: bool) -> None:
        self.rate, self.shift, self.add = rate, shift, add
        self.mean = float(_mean_loss(rate, shift, add))
        self.limit = math.inf
        # the window leaves no x far above its place; in the add order a loss is at most −log(1−q)
        far = shift * (_FAR + 20.0 * _FAR_WIDTH) - math.log1p(-rate) + math.log(rate)
        self.largest = -math.log1p(-rate) if add else float(np.logaddexp(0.0, far))
        highest = min(_HIGHEST * math.pi / shift, math.inf if add else _WINDOW_POLE * _FAR_WIDTH)
        self._tables: dict[int, tuple[float, float, NDArray[np.int64], Complexes, Complexes]] = {}
        spacing = min(0.4, highest / 6.0)
        count = int(min(_LINES, 1 + highest / spacing))
        self._heights = spacing * np.arange(count) * (-1.0 if self.add else 1.0)

    def _log_ratio(self, x: Floats) -> Floats:
        """log w."""
        return np.asarray(self.shift * x - 0.5 * self.shift**2)

    def log_density(self, s: float, x: Floats) -> Floats:
        """Logarithm of the terms of M at a real s, but for a constant."""
        ratio = np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + self._log_ratio(x))
        f = -0.5 * x * x + (-s * ratio if self.add else (1.0 + s) * ratio)
        if not self.add:
            t = (x - _FAR - self.shift) / _FAR_WIDTH
            f -= np.logaddexp(0.0, t * (1.0 + t * t / 12.0))
        return f

    def far_losses(self, s: float) -> tuple[float, float]:
        """Share and spread of large losses under the law tilted by s, if they are apart from the others; else 0, 0."""
        x = np.linspace(-8.0, (1.0 + s) * self.shift + 4.0, 1024)
        f = self.log_density(s, x)
        inner = np.flatnonzero((f[1:-1] <= f[:-2]) & (f[1:-1] < f[2:])) + 1
        if self.add or not inner.size:
            return 0.0, 0.0
        mass, valley = np.exp(f - f.max()), inner[np.argmin(f[inner])]
        far = mass[valley:]
        loss = np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + self._log_ratio(x[valley:]))
        spread = math.sqrt(float((far * (loss - (far * loss).sum() / far.sum()) ** 2).sum() / far.sum()))
        return float(far.sum() / mass.sum()), spread

    def _range(self, s: float) -> tuple[float, float]:
        """Where the terms at a real s, and those of M(0), are not negligible."""
        q, mu = self.rate, self.shift
        right = 12.0 + mu * (1.0 if self.add else 2.0 + max(s, 0.0))
        if not self.add:
            right = min(right, _FAR + mu + 40.0 * _FAR_WIDTH)
        left = -12.0 - (math.sqrt(-2.0 * s * math.log1p(-q)) if self.add and s > 0.0 else 0.0)
        x = np.linspace(left, right, 1024)
        ends = []
        for real in (0.0, s):
            f = self.log_density(real, x)
            ends.append(x[f >= f.max() - _CUT])
        pad = x[1] - x[0]
        return float(min(e[0] for e in ends) - pad), float(max(e[-1] for e in ends) + pad)

    def _table(self, bucket: int) -> tuple[float, float, NDArray[np.int64], Complexes, Complexes]:
        if bucket not in self._tables:
            near, far = self._range(0.25 * 2.0 ** (bucket - 1)), self._range(0.25 * 2.0**bucket)
            low, high = min(near[0], far[0]), max(near[1], far[1])
            shape = (self._heights.size, (_FIRST << _MAX_LEVEL) + 1)
            loss, weight = np.empty(shape, dtype=np.complex128), np.empty(shape, dtype=np.complex128)
            filled = np.zeros(self._heights.size, dtype=np.int64)
            for j, height in enumerate(self._heights):
                _fill(j, 0, low, high, height, self.rate, self.shift, self.add, loss, weight)
            self._tables[bucket] = low, high, filled, loss, weight
        return self._tables[bucket]

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """log M(s) − κs at points of the upper half-plane, and the estimated errors.

        The value at a point that is not finite is not known: NaN, with an infinite error.
        """
        value, error = np.full(s.size, np.nan, dtype=np.complex128), np.full(s.size, np.inf)
        bucket = np.ceil(np.log2(np.maximum(s.real, 0.25))) + 2.0
        known = (bucket < 1024.0) & np.isfinite(s.imag)  # the table of a bucket reaches to 2^bucket
        for b in np.unique(bucket[known]).tolist():
            low, high, filled, loss, weight = self._table(int(b))
            here = known & (bucket == b)
            v, e = np.empty(int(here.sum()), dtype=np.complex128), np.empty(int(here.sum()))
            shape = low, high, self._heights, self.rate, self.shift, self.add, self.mean
            _log_moments(s[here], *shape, filled, loss, weight, v, e)
            value[here], error[here] = v, e
        return value, error
