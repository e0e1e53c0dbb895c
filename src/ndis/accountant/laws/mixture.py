"""Mixtures of Gaussians on a line have a log-moment function that this module computes in floats.

The two laws of a step are P = Σ aᵢ N(αᵢ, 1) and Q = Σ bⱼ N(−βⱼ, 1), all αᵢ, βⱼ ≥ 0. Against the standard normal law
they have the densities

    A(x) = Σ aᵢ e^{αᵢx − αᵢ²/2},      B(x) = Σ bⱼ e^{−βⱼx − βⱼ²/2},

so the loss L = log A − log B rises with x. A Poisson-sampled mean shift μ, the step of DP-SGD, has A = 1 − q + q w with
w = e^{μx − μ²/2}, and B = 1 in the remove order. The add order swaps A and B, and x is −x. With the mean κ = E_P L,
this module computes

    log M(s) − κs,      M(s) = E_P e^{sL} = 1 + κs + E_P[e^{sL} − 1 − sL],

so that nothing of the size of 1 or of q is subtracted where M is near 1. The mean is κ = E_P[e^{−L} − 1 + L], whose
terms are positive, and e^z − 1 − z is summed as its series for small z.

The mean over x is a trapezoid sum on a line x + iθ. On the real line the integrand turns like e^{iyL}, y = Im s. A
line raised towards the branch points of log A and log B turns the phase into a decay. Among some lines the code takes
the one on which the largest term is smallest. It halves the step until the sum settles. The rule converges at least
geometrically in 1/step, so that the changes D₁, D₂ of two halvings leave an error of about D₂ (D₂/D₁)². The estimate
is more careful: D₂ times 10 (D₂/D₁)^{3/2}, and never less than D₂/10⁴.

One function is compiled, the sums at many s. NumPy fills the tables that it reads: they serve many s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from ndis._balls import precision
from ndis._compile import compiled
from ndis._search import quiet
from ndis._validate import Floats, Order
from ndis.accountant.laws import BallLaw, Complexes, Law, LossDensity, product
from ndis.accountant.laws.mixture_balls import MixtureBalls, Sides
from ndis.accountant.laws.mixture_density import one_sided, two_sided
from ndis.accountant.laws.plain import exact_directions
from ndis.errors import PrecisionError
from ndis.spectrum.invariants import Invariants

LEAST_SHIFT = 1e-8  # a composition of steps with less is refused
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
_HIGH = 600.0  # a largest term above e^600 is taken out of a sum
_CUT = 46.0  # terms below e^-46 of the largest are left out
_SCAN = 128  # intervals of the scan for the places where terms count
FAR, FAR_WIDTH = 45.0, 2.0  # the window that cuts off the tail of x in the remove order: a mass below e^-350
_LARGE = 30.0  # the exponent of a term above which only its logarithm is taken
_DEEPEST = -300.0  # log δ; what the window leaves out, below e^-350 per step, may count below
_MOST_TERMS = 4e7  # terms of the sum for the mean
_BITS = 160  # bits of the end of a loss
_PLACES = 1601  # at which the ends of a density are looked for
_SMALL = 0.2  # a loss below this has a series for e^−L − 1 + L


@compiled(error_model="numpy", patience=0.8)
def _log_moments(done, s, width, mean, atom, heights, slope, nodes, filled, value, error):
    """Compute log M(s) − κs and its estimated absolute error, for points s with Im s ≥ 0, from the place `done` on.

    `nodes[line, node]` has the loss L, the log weight and the weight as complex numbers, in the order in which halvings
    add nodes. The result is the place and the line that need one more halving in the table, or (size of s, −1).

    The logarithm of the largest term is a convex function of the height of a line (Hadamard). So the search climbs
    while it falls. Then it goes on to lines with terms of nearly this size, for one on which the phase turns slower: a
    rule under which it turns by more than 2 from node to node can settle on a wrong value.
    """
    for i in range(done, s.size):
        a, b = s[i].real, s[i].imag
        line, least, enough, lift = 0, math.inf, 1000, 0.0
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
                    phase = slope[k, j, 0].imag + a * slope[k, j, 1].imag + b * slope[k, j, 1].real
                    turn = max(turn, abs(phase))
            needed, angle = 1, turn * width / _FIRST
            while needed <= _MAX_LEVEL and not angle <= 2.0:
                needed, angle = needed + 1, 0.5 * angle
            if top < least or needed < enough:
                line, enough, lift = k, needed, max(top - _HIGH, 0.0)
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
                    large = math.exp(lp.real + z.real - lift)
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
                centred = kept < 0.5 and lift == 0.0
                moved = second * step - before_second if centred else plain * step - before_plain
                scale = (size if centred else heavy) * step
                if not centred:
                    kept = math.hypot(plain.real * step + atom * math.exp(-lift), plain.imag * step)
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
            end = math.exp(lp + z.real - lift) + (math.exp(lp) * (1.0 + modulus) if modulus > 0.4 else 0.0)
            wrong += width / _FIRST * end
        if centred:
            grown = near.real * (2.0 + near.real) + near.imag * near.imag  # |M|² − 1
            log = complex(0.5 * math.log1p(grown), math.atan2(near.imag, 1.0 + near.real))
            value[i] = second * step + (log - near)
            wrong /= math.sqrt(1.0 + grown)
        else:
            along, across = plain.real * step + atom * math.exp(-lift), plain.imag * step
            most, least = max(abs(along), abs(across)), min(abs(along), abs(across))
            moment = math.hypot(most, least)
            size = math.log(most) + 0.5 * math.log1p((least / most) ** 2) if most > 0.0 else -745.0
            log = complex(size + lift, math.atan2(across, along))
            value[i] = log - mean * s[i]
            wrong /= max(moment, 1e-300)
        error[i] = wrong + 16.0 * _UNIT * mean * (abs(a) + abs(b))  # the rounding of κ
    return s.size, _SETTLED


class _NodeTable:
    """Keep the nodes on all lines for one range of Re s; `filled` counts the halvings done on each line."""

    def __init__(self, law: Mixture, bucket: int) -> None:
        self.law = law
        self.low, self.high = law.terms_range(np.array([0.0, 0.125 * 2.0**bucket, 0.25 * 2.0**bucket]))
        lines = law.heights.size
        self.nodes = np.empty((lines, (_FIRST << _START_LEVEL) + 1, 3), dtype=np.complex128)
        self.slope = np.empty((lines, _FIRST + 1, 2), dtype=np.complex128)
        self.filled = np.full(lines, -1)

    def _fill(self, line: int, where: slice, shares: Floats) -> Any:
        """Write loss, log weight and weight at some shares of the way; return the slopes of the last two."""
        place = self.low + (self.high - self.low) * shares
        weight, loss, slopes = self.law.at(place, float(self.law.heights[line]))
        self.nodes[line, where] = np.stack([loss, weight, np.exp(weight)], axis=-1)
        return slopes

    def halve(self, line: int) -> None:
        """Add the first nodes of a line, or those between the nodes that it has."""
        level = int(self.filled[line]) + 1
        self.filled[line] = level
        if level == 0:
            self.slope[line] = self._fill(line, slice(0, _FIRST + 1), np.arange(_FIRST + 1) / _FIRST)
            return
        start, count = (_FIRST << (level - 1)) + 1, _FIRST << (level - 1)
        if start + count > self.nodes.shape[1]:
            more = np.empty((self.nodes.shape[0], start + count, 3), dtype=np.complex128)
            more[:, : self.nodes.shape[1]] = self.nodes
            self.nodes = more
        self._fill(line, slice(start, start + count), (np.arange(count) + 0.5) / count)


class Mixture(Law):
    """Evaluate the moments of one mixture of Gaussians against another.

    It keeps its tables between calls. If losses are unbounded, the far tail of x is cut off. The mass lost is below
    e^-350 per step, and δ changes by no more than that. Without the cut, M(s) explodes from events that no δ above
    e^-300 has.

    Parameters
    ----------
    sides : Sides of arrays
        The weights aᵢ and shifts αᵢ of P, and bⱼ and βⱼ of Q.
    exact : callable
        Returns the same in balls, at the working precision.
    uncertainty : float
        See `Law`.

    Examples
    --------
    >>> from ndis.pair import GaussianPair
    >>> law = sampled_shift(GaussianPair.from_ratios(1.0, shift=1.0), (0.5,), "remove")
    >>> round(law.mean, 6), law.limit
    (0.138579, inf)
    """

    def __init__(self, sides: Sides, exact: Callable[[], Sides], uncertainty: float = 2.0**-50) -> None:
        self.sides, self._exact, self.uncertainty = sides, exact, uncertainty
        self._tables: dict[int, _NodeTable] = {}
        self._a, self._b = (sides.a, sides.alpha), (sides.b, sides.beta)
        self.up, self.down = up, down = float(sides.alpha.max()), float(sides.beta.max())
        self.size = 0.5 * (up + down) ** 2  # the mean loss without sampling
        self.ends = -_log_least(*self._a, bounded=down == 0.0), _log_least(*self._b, bounded=up == 0.0)
        self._far = math.inf if self.ends[1] < math.inf else FAR + up  # the place of the window
        self.deepest = -math.inf if self.ends[1] < math.inf else _DEEPEST
        self.mean = self._mean_loss()
        self.largest, highest = self.ends[1], _HIGHEST * math.pi / max(up, down)
        if self._far < math.inf:  # the window leaves no x far above its place
            far = float(self._real(np.array([self._far + 20.0 * FAR_WIDTH]))[1][0])
            self.largest, highest = far - max(self.ends[0], -far), min(highest, _WINDOW_POLE * FAR_WIDTH)
        spacing = min(0.4, highest / 6.0)
        self.heights: Floats = np.arange(float(int(min(_LINES, 1 + highest / spacing)))) * spacing

    @staticmethod
    def from_balls(exact: Callable[[], Sides]) -> Mixture:
        """Return the law whose exact inputs are these, at the working precision and in floats."""
        return Mixture(Sides(*(np.array([float(ball) for ball in side]) for side in exact())), exact)

    def reversed(self) -> Mixture:
        """Return the law of the other order."""
        return Mixture(self.sides.swapped(), lambda: self._exact().swapped(), self.uncertainty)

    def whole(self) -> Mixture:
        """Return the law without the window, whose moments of large orders are those of events that no δ has."""
        twin = copy(self)
        twin._far, twin._tables = math.inf, {}
        return twin

    def enclosed(self) -> BallLaw:
        """Return the law in balls."""
        return MixtureBalls(self._exact())

    def at(self, place: Floats, height: float) -> tuple[Any, Any, Any]:
        """Return log weight and loss at places of a line, and the slopes of both."""
        x = place + 1j * height
        (above, rise), (below, fall) = log_side(x, *self._a), log_side(-x, *self._b)
        weight = -0.5 * x * x + above
        if self._far < math.inf:
            weight = weight + log_window(x, self._far)
        return weight, above - below, np.stack([rise - x, rise + fall], axis=-1)

    def _real(self, x: Floats) -> tuple[Floats, Floats]:
        """Return log weight and loss of the mixture at real x."""
        weight, loss, _ = Mixture.at(self, x, 0.0)
        return weight.real, loss.real

    @quiet
    def _mean_loss(self) -> float:
        """Return κ = E_P[e^{−L} − 1 + L]; every term of it is positive."""
        step = 0.5 * min(0.2, 0.45 / max(self.up, self.down))
        bells = np.concatenate([self._a[1], -self._b[1]])[:, None]
        if not min(20.0 * bells.size, 20.0 + self.up + self.down) / step * bells.size < _MOST_TERMS:
            raise PrecisionError(
                f"the composition is not known: a mixture of {bells.size} Gaussians with shifts up to "
                f"{max(self.up, self.down):.3g} is out of reach; add noise"
            )
        side = math.ceil(10.0 / step)
        x = step * np.unique(np.round(bells / step) + np.arange(-side, side + 1)) + 0.0j
        above, below = log_side(x, *self._a)[0].real, log_side(-x, *self._b)[0].real
        loss = above - below
        small = np.abs(loss) < _SMALL
        y, series = np.where(small, -loss, 0.0), np.zeros(x.size)
        for c in _SERIES:
            series = series * y + c
        term = np.where(small, np.exp(above) * series * y * y, np.exp(below) + np.exp(above) * (loss - 1.0))
        return float((np.exp(-0.5 * x.real**2) * term).sum()) * step / _ROOT

    def density(self, order: Order, depth: float) -> LossDensity | None:
        """Return the density of y, which is the loss or, in the add order, its negative.

        y = log G(x) − log H(x) rises with x, where G is A or, in the add order, B at −x. It has an end if H is 1 and a
        part of G stays.
        """
        signed = bool(np.array_equal(self._a, self._b))  # its own reverse
        add = order == "add" and not signed
        (w, m), other = (self._b, self._a) if add else (self._a, self._b)
        width = math.sqrt(2.0 * depth) + 1.0
        ends = -width - float(other[1].max()), width + float(m.max())
        x = np.geomspace(math.exp(-depth - 2.0), ends[1], _PLACES) if signed else np.linspace(*ends, _PLACES)
        if not other[1].any() and not m.all():
            with precision(_BITS):
                low, high = self.enclosed().ends()
                return one_sided(x, w, m, -high if add else low, add=add)

        def at(x: Floats) -> Any:
            (above, rise), (below, fall) = log_side(x + 0.0j, w, m), log_side(-x + 0.0j, *other)
            loss = (above - below).real
            if signed:  # near 0 the two sides are nearly equal, and A − B is a sum of positive terms
                odd = w[:, None] * np.sinh(m[:, None] * np.minimum(x, 1.0)) * np.exp(-0.5 * m * m)[:, None]
                loss = np.where(x < 1.0, np.log1p(2.0 * odd.sum(axis=0) / np.exp(below.real)), loss)
            return loss, (rise + fall).real, (below if add else above).real

        return two_sided(x, at, signed=signed)

    @quiet
    def terms_range(self, s: Floats) -> tuple[float, float]:
        """Return the places between which terms count. A loss near 0 adds to M − 1 only about its square."""
        scale = sum(float((w * np.minimum(m, 1.0)).sum()) for w, m in (self._a, self._b))
        most, cut = float(s[-1]), _CUT - 2.0 * math.log(min(scale, 1.0))
        width = math.sqrt(2.0 * cut) + 1.0
        weight, shift = min(zip(*self._b, strict=True), key=lambda pair: float(pair[1]))
        right = width + self.up * (2.0 + most) + most * float(shift) + math.sqrt(-2.0 * most * math.log(weight))
        right = min(right, self._far + 40.0 * FAR_WIDTH)
        left = -width - self.down
        x, pad = np.linspace(left, right, _SCAN + 1), (right - left) / _SCAN
        density, loss = self._real(x)
        terms = density + s[:, None] * loss
        counts = np.flatnonzero((terms >= terms.max(axis=1, keepdims=True) - cut).any(axis=0))
        if not counts.size:
            return right, left
        return float(x[counts[0]]) - pad, float(x[counts[-1]]) + pad

    @quiet
    def far_losses(self, s: float) -> tuple[float, float]:
        """Return share and spread of large losses under the law tilted by s, if they are apart; else 0, 0."""
        if self._far == math.inf:
            return 0.0, 0.0
        x = np.linspace(-8.0, (1.0 + s) * self.up + s * self.down + 4.0, 1024)
        density, loss = self._real(x)
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
            value[here], error[here] = self._in_table(self._tables[number], s[here])
        return value, error

    def _in_table(self, table: _NodeTable, s: Complexes) -> tuple[Complexes, Floats]:
        """Return log moments and errors at the points of one table, which grows until all are known."""
        value, error = np.empty(s.size, dtype=np.complex128), np.empty(s.size)
        done, line = 0, _SETTLED
        while done < s.size:
            shape = table.high - table.low, self.mean, self.atom, self.heights, table.slope, table.nodes, table.filled
            done, line = _log_moments(done, s, *shape, value, error)
            if line != _SETTLED:
                table.halve(line)
        return value, error


def sampled_shift(pair: Invariants, rates: tuple[float, ...], order: Order) -> Mixture:
    """Return the law of a mean shift that is released on a Poisson sample."""
    shift, rate = math.sqrt(math.fsum((pair.copies * pair.shift**2).tolist())), math.prod(rates)
    remove = order == "remove"
    if shift < LEAST_SHIFT:
        raise PrecisionError(
            f"the composition is not known: a noise multiplier above {1.0 / LEAST_SHIFT:g} is out of reach; take "
            "less noise"
        )

    def exact() -> Sides:
        directions = exact_directions(pair)
        if directions.curved or not directions.flat > 0:
            raise PrecisionError("a pair of the composition is a mean shift in floats, and perhaps not exactly")
        return Sides.poisson(product(rates), directions.flat.sqrt(), remove=remove)

    one, none = (np.array([1.0 - rate, rate]), np.array([0.0, shift])), (np.ones(1), np.zeros(1))
    return Mixture(Sides(*one, *none) if remove else Sides(*none, *one), exact, pair.uncertainty)


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


@quiet
def log_side(x: Any, weights: Floats, shifts: Floats) -> tuple[Any, Any]:
    """Return log Σ wᵢ e^{mᵢx − mᵢ²/2} at complex x with |mᵢ Im x| < π, and its slope.

    The branch is the one that is real for real x. A value near 0 has full relative accuracy.
    """
    if shifts.size == 1 and shifts[0] == 0.0:
        return np.zeros_like(x), np.zeros_like(x)
    moves = shifts > 0.0
    m, w, still = shifts[moves, None], weights[moves, None], float(weights[~moves].sum())
    size, angle = m * x.real - 0.5 * m * m, m * x.imag
    turn = -2.0 * np.sin(0.5 * angle) ** 2 + 1j * np.sin(angle)  # e^{i angle} − 1
    # e^{mx − m²/2} − 1 in two terms, without cancellation
    grown = np.expm1(np.minimum(size, _LARGE))
    both = grown + (1.0 + grown) * turn
    u = (w * both).sum(axis=0)
    value, slope = complex_log1p(u), (m * w * (1.0 + both)).sum(axis=0) / (1.0 + u)
    far = ~(np.abs(u) < 0.5) | (size > _LARGE).any(axis=0)
    if far.any():
        size, turn = size[:, far] + np.log(w), turn[:, far]
        top = np.maximum(size.max(axis=0), math.log(still) if still > 0.0 else -math.inf)
        terms = np.exp(size - top) * (1.0 + turn)
        total = still * np.exp(-top) + terms.sum(axis=0)
        value[far], slope[far] = top + np.log(total), (m * terms).sum(axis=0) / total
    return value, slope


def _log_least(weights: Floats, shifts: Floats, *, bounded: bool) -> float:
    """Return −log of the least value of Σ wᵢ e^{mᵢx − mᵢ²/2}, if the other law leaves the loss bounded there."""
    moved, still = float(weights[shifts > 0.0].sum()), float(weights[shifts <= 0.0].sum())
    if not (bounded and still > 0.0):
        return math.inf
    return -math.log1p(-moved) if moved < 0.5 else -math.log(still)  # the one of both that keeps its digits


def log_window(x: Any, place: float) -> Any:
    """Return log of the window that cuts off large x, a logistic function of a cubic."""
    t = (x - place) / FAR_WIDTH
    g = -t * (1.0 + t * t / 12.0)
    if g.real.min() > 80.0:
        return 0.0
    side = np.where(g.real > 0.0, -1.0, 1.0)
    return np.where(g.real > 0.0, 0.0, g) - complex_log1p(np.exp(side * g))
