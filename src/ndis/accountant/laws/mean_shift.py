"""One Poisson-sampled mean shift, the step of DP-SGD, has a log-moment function that this module computes in floats.

Let x be standard normal under Q₀, w = e^{μx − μ²/2} the likelihood ratio dP₀/dQ₀, u = q(w − 1) and ℓ = log(1 + u). The
loss L of a step is ℓ under P = (1−q)Q₀ + qP₀ in the remove order, and −ℓ under P = Q₀ in the add order. With the mean
κ = E_P L, this module computes

    log M(s) − κs,      M(s) = E_P e^{sL} = 1 + κs + E_P[e^{sL} − 1 − sL],

so that nothing of the size of 1 or of q is subtracted where M is near 1: κ is a mean of terms of one sign, and
e^z − 1 − z is summed as its series for small z.

The mean over x is a trapezoid sum on a line x + iθ. On the real line the integrand turns like (1+u)^{iy}, y = Im s. A
line raised towards the branch points, at the height π/μ, turns the phase into a decay. Among some lines the code takes
the one on which the largest term is smallest. It halves the step until the sum settles. The rule converges at least
geometrically in 1/step, so that the changes D₁, D₂ of two halvings leave an error of about D₂ (D₂/D₁)². The estimate
is more careful: D₂ times 10 (D₂/D₁)^{3/2}, and never less than D₂/10⁴.

One function is compiled, the sums at many s. NumPy fills the tables that it reads: they serve many s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ndis._compile import compiled
from ndis._formulas import log_mixture
from ndis._validate import Floats, Order
from ndis.accountant.laws import Complexes, product
from ndis.accountant.laws.mean_shift_balls import MeanShiftBalls
from ndis.accountant.laws.plain import ExactPair
from ndis.errors import PrecisionError
from ndis.spectrum.invariants import Invariants

__all__ = ["MeanShift", "complex_log1p", "quiet"]

P = ParamSpec("P")
R = TypeVar("R")

_UNIT = 2.0**-53
_FIRST = 32  # intervals of the first trapezoid
_MAX_LEVEL = 7  # halvings of the last one
_START_LEVEL = 2  # halvings for which NumPy fills a table at first
_SLACK = 2.5  # a line whose largest term is e^2.5 times the least may be taken if it needs fewer nodes
_LITTLE = 0.25  # a line that lowers the largest term by less than this, in log units, is not tried
_LINES = 17
_WINDOW_POLE = 1.3  # highest line, as a part of the width of a window; its nearest pole is at 2.26 of it
_HIGHEST = 0.85  # highest line, as a part of the height of the branch points
_SERIES = tuple(1.0 / math.factorial(k) for k in range(15, 1, -1))  # (e^z − 1 − z)/z², highest power first
_ROOT = math.sqrt(2.0 * math.pi)
_SETTLED = -1  # a place that is no line: the kernel has come to the end
_CUT = 46.0  # terms below e^-46 of the largest are left out
_SCAN = 128  # intervals of the scan for the places where terms count
_FAR, _FAR_WIDTH = 45.0, 2.0  # the window that cuts off the tail of x in the remove order: a mass below e^-350
_LARGE = 30.0  # log w above which the ratio is taken out of the logarithm
_LEAST_SHIFT = 1e-8


def quiet(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function whose numbers may overflow: a value that is not finite is refused later."""

    @wraps(function)
    def without_warnings(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return function(*args, **kwargs)

    return without_warnings


@compiled(error_model="numpy", patience=0.8)
def _log_moments(done, s, width, mean, sign, heights, slope, nodes, filled, value, error):
    """Compute log M(s) − κs and its estimated absolute error, for points s with Im s ≥ 0, from the place `done` on.

    `nodes[line, node]` has the loss L, the log weight and the weight as complex numbers, in the order in which halvings
    add nodes. The result is the place and the line that need one more halving in the table, or (size of s, −1).

    The logarithm of the largest term is a convex function of the height of a line (Hadamard). So the search climbs
    while it falls. Then it goes on to lines with terms of nearly this size, for one on which the phase turns slower: a
    rule under which it turns by more than 2 from node to node can settle on a wrong value.
    """
    for i in range(done, s.size):
        a, b = s[i].real, s[i].imag
        line, least, enough = 0, math.inf, 1000
        for k in range(heights.size):
            if filled[k] < 0:
                return i, k
            top, turn = -math.inf, 0.0
            for j in range(_FIRST + 1):
                top = max(top, nodes[k, j, 1].real + a * nodes[k, j, 0].real - b * nodes[k, j, 0].imag)
            if top > least + _SLACK:
                break
            for j in range(_FIRST + 1):
                if nodes[k, j, 1].real + a * nodes[k, j, 0].real - b * nodes[k, j, 0].imag > top - _CUT:
                    power = a if sign < 0.0 else 1.0 + a
                    phase = power * slope[k, j].imag + b * slope[k, j].real
                    turn = max(turn, abs(sign * phase - heights[k]))
            needed, angle = 1, turn * width / _FIRST
            while needed <= _MAX_LEVEL and not angle <= 2.0:
                needed, angle = needed + 1, 0.5 * angle
            if top < least or needed < enough:
                line, enough = k, needed
            if not top < least and enough <= 2:
                break
            least = min(least, top)
            if k == 0 and turn * abs(heights[1]) < _LITTLE:
                break
        second, plain = 0.0j, 0.0j
        size, heavy, change, wrong = 0.0, 0.0, math.inf, math.inf
        start, stop, step = 0, _FIRST + 1, width / (_FIRST * _ROOT)
        before_second, before_plain, near = 0.0j, 0.0j, 0.0j
        centred = False
        for level in range(_MAX_LEVEL + 1):
            if filled[line] < level:
                return i, line
            for j in range(start, stop):
                z, p = s[i] * nodes[line, j, 0], nodes[line, j, 2]
                less = p * (1.0 + z)
                modulus = z.real * z.real + z.imag * z.imag
                if modulus < 0.16:
                    term = 0.0j
                    for c in _SERIES:
                        term = term * z + c
                    term = p * (term * (z * z))
                    whole = term + less
                    size += math.sqrt(term.real * term.real + term.imag * term.imag)
                    heavy += math.sqrt(whole.real * whole.real + whole.imag * whole.imag)
                else:
                    lp = nodes[line, j, 1]
                    large = math.exp(lp.real + z.real)
                    angle = lp.imag + z.imag
                    whole = complex(large * math.cos(angle), large * math.sin(angle))
                    term = whole - less
                    # an exponential is as wrong, relatively, as its exponent is absolutely
                    rounded = large * (1.0 + 0.25 * (abs(lp.real) + abs(lp.imag) + abs(z.real) + abs(z.imag)))
                    size += rounded + math.sqrt(less.real * less.real + less.imag * less.imag)
                    heavy += rounded
                second += term
                plain += whole
            start, stop = stop, stop + (_FIRST << level)
            if level > 0:
                step *= 0.5
                near = second * step + mean * s[i]
                kept = math.hypot(near.real, near.imag)
                centred = kept < 0.5
                moved = second * step - before_second if centred else plain * step - before_plain
                scale = (size if centred else heavy) * step
                if not centred:
                    kept = math.hypot(plain.real, plain.imag) * step
                last, change = change, math.hypot(moved.real, moved.imag)
                left = change
                if last < math.inf and change < last:
                    left = change * min(max(10.0 * (change / last) ** 1.5, 1e-4), 1.0)
                wrong = left + _UNIT * (6.0 * scale + 2.0 * kept)
                if enough > _MAX_LEVEL:
                    wrong = math.inf
                    break
                if level >= enough and left < 4.0 * _UNIT * scale:
                    break
            before_second, before_plain = second * step, plain * step
        for j in (0, _FIRST):  # the ends of the line
            z, lp = s[i] * nodes[line, j, 0], nodes[line, j, 1].real
            modulus = math.hypot(z.real, z.imag)
            end = math.exp(lp + z.real) + (math.exp(lp) * (1.0 + modulus) if modulus > 0.4 else 0.0)
            wrong += width / _FIRST * end
        if centred:
            grown = near.real * (2.0 + near.real) + near.imag * near.imag  # |M|² − 1
            log = complex(0.5 * math.log1p(grown), math.atan2(near.imag, 1.0 + near.real))
            value[i] = second * step + (log - near)
            wrong /= math.sqrt(1.0 + grown)
        else:
            most, least = max(abs(plain.real), abs(plain.imag)), min(abs(plain.real), abs(plain.imag))
            moment = math.hypot(most, least) * step
            size = math.log(most * step) + 0.5 * math.log1p((least / most) ** 2) if most > 0.0 else -745.0
            log = complex(size, math.atan2(plain.imag, plain.real))
            value[i] = log - mean * s[i]
            wrong /= max(moment, 1e-300)
        error[i] = wrong + 16.0 * _UNIT * mean * (abs(a) + abs(b))  # the rounding of κ
    return s.size, _SETTLED


class _NodeTable:
    """Keep the nodes on all lines for one range of Re s; `filled` counts the halvings done on each line."""

    def __init__(self, law: MeanShift, bucket: int) -> None:
        ends = np.array([0.0, 0.125 * 2.0**bucket, 0.25 * 2.0**bucket])
        self.law = law
        self.low, self.high = _terms_range(ends, law.rate, law.shift, law.add)
        lines = law.heights.size
        self.nodes = np.empty((lines, (_FIRST << _START_LEVEL) + 1, 3), dtype=np.complex128)
        self.slope = np.empty((lines, _FIRST + 1), dtype=np.complex128)
        self.filled = np.full(lines, -1)

    def _places(self, shares: Floats) -> Floats:
        return self.low + (self.high - self.low) * shares

    def _fill(self, line: int, where: slice, x: Complexes) -> Any:
        """Write loss, log weight and weight at complex x; return the slope of log(1 + u)."""
        law = self.law
        ratio, slope = _log_ratio(x, law.rate, law.shift)
        weight = -0.5 * x * x
        if not law.add:
            weight += ratio + _log_window(x, law.shift)
        self.nodes[line, where] = np.stack([-ratio if law.add else ratio, weight, np.exp(weight)], axis=-1)
        return slope

    def halve(self, line: int) -> None:
        """Add the first nodes of a line, or those between the nodes that it has."""
        level = int(self.filled[line]) + 1
        self.filled[line] = level
        if level == 0:
            x = self._places(np.arange(_FIRST + 1) / _FIRST) + 1j * self.law.heights[line]
            self.slope[line] = self._fill(line, slice(0, _FIRST + 1), x)
            return
        start, count = (_FIRST << (level - 1)) + 1, _FIRST << (level - 1)
        if start + count > self.nodes.shape[1]:
            more = np.empty((self.nodes.shape[0], start + count, 3), dtype=np.complex128)
            more[:, : self.nodes.shape[1]] = self.nodes
            self.nodes = more
        x = self._places((np.arange(count) + 0.5) / count) + 1j * self.law.heights[line]
        self._fill(line, slice(start, start + count), x)


class MeanShift:
    """Evaluate the moments of one mean shift μ that is released on a Poisson sample at the rate q.

    It keeps its tables between calls. In the remove order the far tail of x is cut off. The mass lost is below e^-350
    per step, and δ changes by no more than that. Without the cut, M(s) explodes from events that no δ above e^-300 has.

    >>> from ndis.pair import GaussianPair
    >>> law = MeanShift(GaussianPair.from_ratios(1.0, shift=1.0), (0.5,), "remove")
    >>> round(law.mean, 6), law.limit
    (0.138579, inf)
    """

    def __init__(self, pair: Invariants, rates: tuple[float, ...], order: Order) -> None:
        self.shift = shift = math.sqrt(math.fsum((pair.copies * pair.shift**2).tolist()))
        if shift < _LEAST_SHIFT:
            raise PrecisionError(
                f"the composition is not known: a noise multiplier above {1.0 / _LEAST_SHIFT:g} is out of reach; take "
                "less noise"
            )
        self.pair, self.rates = pair, rates
        self.rate, self.add = rate, add = math.prod(rates), order == "add"
        stay = math.log1p(-rate)
        self.ends = (-math.inf, -stay) if add else (stay, math.inf)
        self.uncertainty, self.size = pair.uncertainty, 0.5 * shift * shift  # the mean loss without sampling
        self.mean, self.limit = _mean_loss(rate, shift, add), math.inf
        # the window leaves no x far above its place; in the add order a loss is at most −log(1−q)
        far = shift * (_FAR + 20.0 * _FAR_WIDTH) - math.log1p(-rate) + math.log(rate)
        self.largest = -math.log1p(-rate) if add else float(np.logaddexp(0.0, far))
        highest = min(_HIGHEST * math.pi / shift, math.inf if add else _WINDOW_POLE * _FAR_WIDTH)
        spacing = min(0.4, highest / 6.0)
        count = int(min(_LINES, 1 + highest / spacing))
        self.heights: Floats = np.arange(float(count)) * (-spacing if self.add else spacing)
        self._tables: dict[int, _NodeTable] = {}

    @cached_property
    def _exact(self) -> ExactPair:
        return ExactPair(self.pair)

    def reversed(self) -> MeanShift:
        """Return the law of the other order."""
        return MeanShift(self.pair, self.rates, "remove" if self.add else "add")

    def enclosed(self) -> MeanShiftBalls:
        """Return the law in balls."""
        directions = self._exact.directions()
        if directions.curved or not directions.flat > 0:
            raise PrecisionError("a pair of the composition is a mean shift in floats, and perhaps not exactly")
        return MeanShiftBalls(product(self.rates), directions.flat.sqrt(), remove=not self.add)

    def far_losses(self, s: float) -> tuple[float, float]:
        """Return share and spread of large losses under the law tilted by s, if they are apart; else 0, 0."""
        return (0.0, 0.0) if self.add else _far_losses(s, self.rate, self.shift)

    @quiet
    def left_out(self, c: float) -> float:
        """Return log of the share that the window leaves out, under the law tilted by e^{cL}; up to 60 deviations."""
        x = np.linspace(0.0, 60.0 + self.shift, 2048)
        ratio = log_mixture(self.rate, self.shift * x - 0.5 * self.shift**2)
        t = (x - _FAR - self.shift) / _FAR_WIDTH
        gone = np.log(-np.expm1(-np.logaddexp(0.0, t * (1.0 + t * t / 12.0)) - 1e-300))
        step = math.log(float(x[1]) / _ROOT)
        log_moment = float(self.centred(np.array([c], dtype=np.complex128))[0][0].real) + self.mean * c if c else 0.0
        return float(np.logaddexp.reduce((1.0 + c) * ratio - 0.5 * x * x + gone)) + step - log_moment

    @quiet
    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """Return log M(s) − κs at points of the upper half-plane, and the estimated errors.

        The value at a point that is not finite is not known: NaN, with an infinite error.
        """
        value, error = np.full(s.size, complex(math.nan)), np.full(s.size, math.inf)
        buckets = [_bucket(z) for z in s.tolist()]
        for number in set(buckets) - {-1}:
            if number not in self._tables:
                self._tables[number] = _NodeTable(self, number)
            here = [i for i, own in enumerate(buckets) if own == number]
            alone = len(here) == s.size
            given = s if alone else s[here]
            got = self._in_table(self._tables[number], given)
            if alone:
                return got
            value[here], error[here] = got
        return value, error

    def _in_table(self, table: _NodeTable, s: Complexes) -> tuple[Complexes, Floats]:
        value, error = np.empty(s.size, dtype=np.complex128), np.empty(s.size)
        done, line, sign = 0, _SETTLED, -1.0 if self.add else 1.0
        while done < s.size:
            shape = table.high - table.low, self.mean, sign, self.heights, table.slope, table.nodes, table.filled
            done, line = _log_moments(done, s, *shape, value, error)
            if line != _SETTLED:
                table.halve(line)
        return value, error


def _bucket(s: complex) -> int:
    """Return the number of the table for Re s ≤ 2^(bucket−2); −1 for a point that is not finite or too far out."""
    if not (s.real < 2.0**1000 and abs(s.imag) < math.inf):
        return -1
    return math.ceil(math.log2(max(s.real, 0.25))) + 2


def complex_log1p(z: Any) -> Any:
    """Return log(1+z) on the principal branch; the error is small compared with the modulus."""
    grown = z.real * (2.0 + z.real) + z.imag * z.imag  # |1+z|² − 1
    size = np.where((grown > -0.5) & (grown < 1e300), 0.5 * np.log1p(grown), np.log(np.abs(1.0 + z)))
    return size + 1j * np.arctan2(z.imag, 1.0 + z.real)


def _log_ratio(x: Any, q: float, mu: float) -> tuple[Any, Any]:
    """Return ℓ = log(1 − q + q e^{μx − μ²/2}) at complex x with |μ Im x| < π, and its slope.

    The branch is the one that is real for real x.
    """
    a, angle = mu * x.real - 0.5 * mu * mu, mu * x.imag
    turn = -2.0 * np.sin(0.5 * angle) ** 2 + 1j * np.sin(angle)  # e^{iμ Im x} − 1
    grown = np.expm1(np.minimum(a, _LARGE))
    ratio = (1.0 + grown) * turn  # e^{μx − μ²/2} − 1 in two terms, without cancellation
    u = q * (grown + ratio)
    # for a large ratio: the ratio itself, and the other term as a small addition
    back = (1.0 - q) / q * np.exp(-np.maximum(a, _LARGE)) * (1.0 + np.conj(turn))
    large = a > _LARGE
    sampled = q * np.exp(np.minimum(a, _LARGE)) * (1.0 + turn)
    # near −1 the sum 1 + u cancels if q is near 1; 1 − q is then exact
    mixed = np.where(u.real < -0.5, (1.0 - q) + sampled, 1.0 + u)
    near = np.where(u.real < -0.5, np.log(mixed), complex_log1p(np.where(large, back, u)))
    ell = np.where(large, math.log(q) + a + 1j * angle, 0.0) + near
    return ell, mu * np.where(large, 1.0 / (1.0 + back), sampled / mixed)


@quiet
def _mean_loss(q: float, mu: float, add: bool) -> float:
    """Return κ = E_P L ≥ 0, every term of it positive: E[(1+u)ℓ − u], or E[u − ℓ] in the add order, under Q₀."""
    low, high = -9.5, 9.5 + mu * (1.0 if add else 2.0)
    step = min(0.2, 0.45 / mu) * 0.5
    x = low + step * np.arange(int((high - low) / step) + 2)
    u, ell = q * np.expm1(mu * x - 0.5 * mu * mu), log_mixture(q, mu * x - 0.5 * mu * mu)
    excess = _log_excess(u, ell)  # ℓ − u
    # (1+u)ℓ − u = ℓ − u + uℓ; for small u the two terms are −u²/2 and u²
    term = -excess if add else excess + u * ell
    return float((np.exp(-0.5 * x * x) * term).sum()) * step / math.sqrt(2.0 * math.pi)


def _log_excess(u: Floats, ell: Floats) -> Floats:
    """Return ℓ − u with ℓ = log(1+u) for real u > −1, to nearly full relative accuracy."""
    y = np.where(np.abs(u) < 0.2, u, 0.0)
    series = np.zeros_like(u)
    for k in range(22, 1, -1):
        series = series * -y + 1.0 / k
    return np.where(np.abs(u) < 0.2, -y * y * series, ell - u)


def _log_window(x: Any, mu: float) -> Any:
    """Return log of the window that cuts off large x, a logistic function of a cubic."""
    t = (x - _FAR - mu) / _FAR_WIDTH
    g = -t * (1.0 + t * t / 12.0)
    if g.real.min() > 80.0:
        return 0.0
    side = np.where(g.real > 0.0, -1.0, 1.0)
    return np.where(g.real > 0.0, 0.0, g) - complex_log1p(np.exp(side * g))


def _log_densities(x: Floats, q: float, mu: float, add: bool) -> tuple[Floats, Floats]:
    """Return at real x the logarithm of the density under P, but for a constant and with the window, and the loss."""
    ratio = log_mixture(q, mu * x - 0.5 * mu * mu)
    if add:
        return -0.5 * x * x, -ratio
    return -0.5 * x * x + ratio + np.real(_log_window(x + 0.0j, mu)), ratio


@quiet
def _terms_range(s: Floats, q: float, mu: float, add: bool) -> tuple[float, float]:
    """Return where the terms at some rising real s count. A loss near 0 adds to M − 1 only about (qμ)²."""
    most, cut = float(s[-1]), _CUT - 2.0 * math.log(q * min(mu, 1.0))
    width = math.sqrt(2.0 * cut) + 1.0
    right = width + mu * (1.0 if add else 2.0 + most)
    if not add:
        right = min(right, _FAR + mu + 40.0 * _FAR_WIDTH)
    left = -width - (math.sqrt(-2.0 * most * math.log1p(-q)) if add else 0.0)
    x, pad = np.linspace(left, right, _SCAN + 1), (right - left) / _SCAN
    density, loss = _log_densities(x, q, mu, add)
    terms = density + s[:, None] * loss
    counts = np.flatnonzero((terms >= terms.max(axis=1, keepdims=True) - cut).any(axis=0))
    if not counts.size:
        return right, left
    return float(x[counts[0]]) - pad, float(x[counts[-1]]) + pad


@quiet
def _far_losses(s: float, q: float, mu: float) -> tuple[float, float]:
    """Return share and spread of large losses under the law of the remove order tilted by s; 0, 0 if none is apart."""
    x = np.linspace(-8.0, (1.0 + s) * mu + 4.0, 1024)
    density, loss = _log_densities(x, q, mu, False)
    f = density + s * loss
    valleys = 1 + np.flatnonzero((f[:-2] >= f[1:-1]) & (f[1:-1] < f[2:]))
    if not valleys.size:
        return 0.0, 0.0
    mass = np.exp(f - f.max())
    far = slice(valleys[np.argmin(f[valleys])], None)
    share = float(mass[far].sum())
    if not share > 0.0:
        return 0.0, 0.0
    mean = float((mass[far] * loss[far]).sum()) / share
    return share / float(mass.sum()), math.sqrt(float((mass[far] * (loss[far] - mean) ** 2).sum()) / share)
