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
estimate is more careful: D₂ times 10 (D₂/D₁)^{3/2}, and never less than D₂/10⁴. After one halving it is D₁.
"""

from __future__ import annotations

import cmath
import math

import numpy as np
from numpy.typing import NDArray

from ndis._compile import compiled
from ndis._validate import Floats
from ndis.accountant.shift import (
    CUT,
    FAR,
    FAR_WIDTH,
    far_losses,
    log_excess,
    log_ratio,
    log_window,
    mean_loss,
    second_order_exponential,
    terms_range,
)

__all__ = ["Complexes", "ShiftMoment", "Step", "log_excess", "second_order_exponential"]

Complexes = NDArray[np.complex128]

_UNIT = 2.0**-53
_FIRST = 32  # intervals of the first trapezoid
_MAX_LEVEL = 7
_ROOM = 2  # halvings for which a table has room at first
_SLACK = 2.5  # a line whose largest term is e^2.5 times the least may be taken if it needs fewer nodes
_LITTLE = 0.25  # e-folds that are not worth another line
_LINES = 17
_WINDOW_POLE = 1.3  # highest line, as a part of the width of a window; its nearest pole is at 2.26 of it
_HIGHEST = 0.85  # highest line, as a part of the height of the branch points


@compiled()
def _fill(line, level, low, high, height, q, mu, add, nodes, slope):
    """The nodes that a halving adds to the trapezoid sum on one line: loss L, log weight and weight, complex."""
    if level == 0:
        start, count, step, offset = 0, _FIRST + 1, (high - low) / _FIRST, 0.0
    else:
        count = _FIRST << (level - 1)
        start, step = count + 1, (high - low) / count
        offset = 0.5
    angle = mu * height
    turn = complex(-2.0 * math.sin(0.5 * angle) ** 2, math.sin(angle))
    for k in range(count):
        x = complex(low + (k + offset) * step, height)
        ratio, steep = log_ratio(x, turn, q, mu)
        weight = -0.5 * x * x
        if not add:
            weight += ratio + log_window(x, mu)
        nodes[0, line, start + k] = -ratio if add else ratio
        nodes[1, line, start + k] = weight
        nodes[2, line, start + k] = cmath.exp(weight)
        if level == 0:
            slope[line, k] = steep


@compiled()
def _sums(s, loss, weights, masses):
    """Over some nodes: Σ p(e^{sL} − 1 − sL), Σ p e^{sL}, and the sums of the moduli of the terms."""
    second, plain = 0.0j, 0.0j
    size, heavy = 0.0, 0.0
    for k in range(loss.size):
        z, p = s * loss[k], masses[k]
        less = p * (1.0 + z)
        if z.real * z.real + z.imag * z.imag < 0.16:
            term = p * second_order_exponential(z)
            whole = term + less
            size += _modulus(term)
            heavy += _modulus(whole)
        else:
            lp = weights[k]
            large = math.exp(lp.real + z.real)
            angle = lp.imag + z.imag
            whole = complex(large * math.cos(angle), large * math.sin(angle))
            term = whole - less
            # an exponential is as wrong, relatively, as its exponent is absolutely
            rounded = large * (1.0 + 0.25 * (abs(lp.real) + abs(lp.imag) + abs(z.real) + abs(z.imag)))
            size += rounded + _modulus(less)
            heavy += rounded
        second += term
        plain += whole
    return second, plain, size, heavy


@compiled()
def _modulus(z):
    """|z|, or 0 below 1e-160."""
    return math.sqrt(z.real * z.real + z.imag * z.imag)


@compiled()
def _top(s, line, low, high, heights, q, mu, add, filled, nodes, slope):
    """Logarithm of the largest term on a line, among the first nodes."""
    if filled[line] < 0:
        _fill(line, 0, low, high, heights[line], q, mu, add, nodes, slope)
        filled[line] = 0
    top = -math.inf
    for k in range(_FIRST + 1):
        L = nodes[0, line, k]
        top = max(top, nodes[1, line, k].real + s.real * L.real - s.imag * L.imag)
    return top


@compiled()
def _turn(s, line, top, add, heights, nodes, slope):
    """How fast the phase of the terms turns along a line, where they count."""
    power = -s if add else 1.0 + s
    turn = 0.0
    for k in range(_FIRST + 1):
        L = nodes[0, line, k]
        if nodes[1, line, k].real + s.real * L.real - s.imag * L.imag > top - CUT:
            turn = max(turn, abs((power * slope[line, k]).imag - heights[line]))
    return turn


@compiled()
def _enough(angle):
    """So many halvings that the phase, which turns by this angle from node to node, turns by at most two; at least 1.

    A coarser rule can settle on a wrong value. The result is above the largest level for an angle that is no number.
    """
    level = 1
    while level <= _MAX_LEVEL and not angle <= 2.0 * 2.0**level:
        level += 1
    return level


@compiled()
def _choose(s, low, high, heights, q, mu, add, filled, nodes, slope):
    """The line for one s, and the least number of halvings there.

    The logarithm of the largest term is a convex function of the height (Hadamard), so that the search climbs only
    while it falls.
    """
    shape = (low, high, heights, q, mu, add, filled, nodes, slope)
    step = (high - low) / _FIRST
    best, least = 0, _top(s, 0, *shape)
    turn = _turn(s, 0, least, add, heights, nodes, slope)
    if turn * abs(heights[1]) < _LITTLE:  # the next line gains less than that
        return 0, _enough(turn * step)
    while best + 1 < heights.size:
        top = _top(s, best + 1, *shape)
        if not top < least:
            break
        best, least = best + 1, top
    enough = 1000
    for line in range(best, heights.size):
        top = least if line == best else _top(s, line, *shape)
        if top > least + _SLACK:
            break
        needed = _enough(_turn(s, line, top, add, heights, nodes, slope) * step)
        if needed < enough:
            best, enough = line, needed
        if enough <= 2:
            break
    return best, enough


@compiled()
def _bucket(s):
    """The number of the table for Re s ≤ 2^(bucket−2); −1 for a point that is not finite or too far out."""
    if not (s.real < 2.0**1000 and abs(s.imag) < math.inf):
        return -1
    return int(math.ceil(math.log2(max(s.real, 0.25)))) + 2


@compiled()
def _log_moments(done, bucket, s, low, high, heights, q, mu, add, mean, filled, nodes, slope, value, error):
    """log M(s) − κs and its estimated absolute error, for an array of s with Im s ≥ 0, from the place `done` on.

    A moment near 1 is summed from 1 on, the others as they are. The value at a point without a bucket is NaN. Returns
    the place that needs a table of another bucket, or one with more room, or the end.
    """
    root = math.sqrt(2.0 * math.pi)
    room = nodes.shape[2]
    for i in range(done, s.size):
        si = s[i]
        own = _bucket(si)
        if own < 0:
            value[i], error[i] = math.nan, math.inf
            continue
        if own != bucket:
            return i
        line, enough = _choose(si, low, high, heights, q, mu, add, filled, nodes, slope)
        loss, weights, masses = nodes[0, line], nodes[1, line], nodes[2, line]
        step = first = (high - low) / _FIRST
        second, plain, size, heavy = _sums(si, loss[: _FIRST + 1], weights, masses)
        change = math.inf
        end = 0.0
        for k in (0, _FIRST):
            z = si * loss[k]
            end += math.exp(weights[k].real + z.real)
            end += math.exp(weights[k].real) * (1.0 + abs(z)) if abs(z) > 0.4 else 0.0
        for level in range(1, _MAX_LEVEL + 1):
            last_node = _FIRST << level
            if last_node >= room:
                return i
            if filled[line] < level:
                _fill(line, level, low, high, heights[line], q, mu, add, nodes, slope)
                filled[line] = level
            these = slice((last_node >> 1) + 1, last_node + 1)
            before_second, before_plain = second * step, plain * step
            a, b, c, d = _sums(si, loss[these], weights[these], masses[these])
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
            wrong = (left + 6.0 * _UNIT * scale) / root + first * end + 2.0 * _UNIT * rest
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
            error[i] = wrong / max(abs(moment), 1e-300)
        error[i] += 16.0 * _UNIT * abs(mean * si)  # the rounding of κ
    return s.size


class ShiftMoment:
    """log M(s) − κs of one step: a mean shift μ sampled at the rate q. It keeps its tables between calls.

    In the remove order the far tail of x is cut off. The mass lost is below e^-350 per step, and δ changes by no more
    than that. Without the cut, M(s) explodes from events that no δ above e^-300 sees.
    """

    def __init__(self, rate: float, shift: float, *, add: bool) -> None:
        self.rate, self.shift, self.add = rate, shift, add
        self.mean = float(mean_loss(rate, shift, add))
        self.limit = math.inf
        # the window leaves no x far above its place; in the add order a loss is at most −log(1−q)
        far = shift * (FAR + 20.0 * FAR_WIDTH) - math.log1p(-rate) + math.log(rate)
        self.largest = -math.log1p(-rate) if add else float(np.logaddexp(0.0, far))
        highest = min(_HIGHEST * math.pi / shift, math.inf if add else _WINDOW_POLE * FAR_WIDTH)
        self._tables: dict[int, tuple[float, float, NDArray[np.int64], Complexes, Complexes]] = {}
        spacing = min(0.4, highest / 6.0)
        count = int(min(_LINES, 1 + highest / spacing))
        self._heights = spacing * np.arange(count) * (-1.0 if self.add else 1.0)

    def far_losses(self, s: float) -> tuple[float, float]:
        """Share and spread of large losses under the law tilted by s, if they are apart from the others; else 0, 0."""
        return (0.0, 0.0) if self.add else far_losses(s, self.rate, self.shift)

    def left_out(self, c: float) -> float:
        """log of the share that the window leaves out, under the law tilted by e^{cL}; up to 60 deviations."""
        x = np.linspace(0.0, 60.0 + self.shift, 2048)
        ratio = np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + self.shift * x - 0.5 * self.shift**2)
        t = (x - FAR - self.shift) / FAR_WIDTH
        gone = np.log(-np.expm1(-np.logaddexp(0.0, t * (1.0 + t * t / 12.0)) - 1e-300))
        step = math.log(float(x[1]) / math.sqrt(2.0 * math.pi))
        log_moment = float(self.centred(np.array([c], dtype=np.complex128))[0][0].real) + self.mean * c if c else 0.0
        return float(np.logaddexp.reduce((1.0 + c) * ratio - 0.5 * x * x + gone)) + step - log_moment

    def _table(self, bucket: int) -> tuple[float, float, NDArray[np.int64], Complexes, Complexes]:
        """The nodes for 2^(bucket−3) ≤ Re s ≤ 2^(bucket−2): ends, halvings done on each line, nodes, slopes."""
        if bucket not in self._tables:
            ends = np.array([0.0, 0.125 * 2.0**bucket, 0.25 * 2.0**bucket])
            low, high = terms_range(ends, self.rate, self.shift, self.add)
            lines = self._heights.size
            nodes = np.empty((3, lines, (_FIRST << _ROOM) + 1), dtype=np.complex128)
            slope = np.empty((lines, _FIRST + 1), dtype=np.complex128)
            self._tables[bucket] = low, high, np.full(lines, -1), nodes, slope
        return self._tables[bucket]

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """log M(s) − κs at points of the upper half-plane, and the estimated errors.

        The value at a point that is not finite is not known: NaN, with an infinite error.
        """
        value, error = np.empty(s.size, dtype=np.complex128), np.empty(s.size)
        done, last = 0, -1
        while done < s.size:
            bucket = max(_bucket(s[done]), 0)
            if bucket == last:  # the table was too short
                self._lengthen(bucket)
            low, high, filled, nodes, slope = self._table(bucket)
            shape = low, high, self._heights, self.rate, self.shift, self.add, self.mean
            done, last = _log_moments(done, bucket, s, *shape, filled, nodes, slope, value, error), bucket
        return value, error

    def _lengthen(self, bucket: int) -> None:
        """Give a table room for one more halving."""
        low, high, filled, nodes, slope = self._tables[bucket]
        more = np.empty((3, nodes.shape[1], 2 * nodes.shape[2] - 1), dtype=np.complex128)
        more[:, :, : nodes.shape[2]] = nodes
        self._tables[bucket] = low, high, filled, more, slope
