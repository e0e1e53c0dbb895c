"""The moment of one Poisson-sampled mean shift, of those losses only that lie softly in an interval.

The letters x, w, q, μ, g and the remove order (e = r + iy, r = 1 + c ≥ 1, y ≥ 0) are those of
`ndis.accountant.moment_balls`. Let ℓ = log g be the loss. For an interval (a, b) and a width ω > 0 the window

    W(ℓ) = Φ((b − ℓ)/ω) − Φ((a − ℓ)/ω),   with a = −∞ or b = ∞ allowed,

is the share of (a, b) in a Gaussian at ℓ. The windows of neighbouring intervals with one ω add up to 1. The moment of
the window is M_W(s) = E[g^e W(log g)]: the transform of a positive measure. If b < ∞, it stays small where the whole
moment explodes.

**On the line Im x = θ**, 0 ≤ α = μθ ≤ π/2, write log g = U + iV. By theorem thm:soft-window (docs/theory.md) U and V
rise with x, 0 ≤ V ≤ α, and the integrand is at most

    e^{θ²/2} φ(x) e^{rU − yV + V²/2ω²} W(U)                                                              (*)

in modulus. On a cell of x it is below its Gaussian part times the values of rU and V at the right end, times W at the
end that is nearer to the middle of (a, b) (or 1, if the middle is inside). Right of the last cell V ≤ α and
W(U) ≤ ½ e^{−(U−b)²/2ω²}, and the bound falls with U if U ≥ b + rω². Sums over cells bound the integral N_θ of (*) for
every y ≥ 0 at once. With the largest φ of a cell times the step added to its mass, they bound sums over nodes.

**The rule** on the line θ with step h errs by at most (N_0 + N_{2θ})/(e^{2πθ/h} − 1), by the same theorem.
So M_W(c + iy) = Σ a_j e^{iy l_j} within one error for all y ≥ 0. **The ceiling** follows: for all y' ≥ y,
|M_W(c + iy')| ≤ Σ |a_j| e^{−y Im l_j} + error.
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb, ctx
from scipy.special import log_ndtr

from ndis._balls import Ball, precision
from ndis._validate import Floats
from ndis.accountant.moment_balls import Line, ShiftStep
from ndis.errors import PrecisionError

__all__ = ["WindowStep"]

_MOST_NODES = 20_000
_FAR = 40.0  # in standard deviations of the noise, or widths of the window
_CELL_BITS = 80
_ROUGH = 20.0


class _Rule(NamedTuple):
    """A trapezoid rule on Im x = theta, with nodes from low to high."""

    theta: float
    step: float
    low: int
    high: int


class WindowStep:
    """One sampled mean shift in the remove order, with the losses in a soft interval only.

    It answers the same questions as `ndis.accountant.moment_balls.ShiftStep`.

    Parameters
    ----------
    step : ShiftStep
        The whole step.
    low, high : float
        The ends a and b; a may be −inf. The float b must be finite.
    width : float
        ω.

    Examples
    --------
    >>> whole = ShiftStep(arb(0.01), arb(1), remove=True)
    >>> two = WindowStep(whole, -math.inf, 1.0, 0.1), WindowStep(whole, 1.0, 9.0, 0.1)
    >>> total = sum(part.moment(1.0, 30.0) for part in two)
    >>> bool(abs(total - whole.moment(1.0, 30.0)) < 1e-10)  # no loss above 9 counts
    True
    """

    remove = True

    def __init__(self, step: ShiftStep, low: float, high: float, width: float) -> None:
        self.rate, self.shift, self.q, self.mu = step.rate, step.shift, step.q, step.mu
        self.low, self.high, self.width = low, high, width
        self.middle = 0.5 * (low + high)
        self._log_ratio, self._log_stay = step._log_ratio, step.log_stay
        self._lines: dict[tuple[float, float, int, float | None], Line] = {}
        self._strips: dict[tuple[float, float], tuple[float, float]] = {}
        self._lines_at: dict[float, tuple[Floats, Floats, Floats]] = {}

    # ------------------------------------------------------------------ floats, for plans only

    def _place(self, loss: float) -> float:
        """The x of a loss; −inf if no x has it."""
        grown = math.expm1(min(loss, 700.0)) / self.q
        if not grown > -1.0:
            return -math.inf
        log_w = math.log1p(grown) if loss < 700.0 else loss - math.log(self.q)
        return (log_w + 0.5 * self.mu**2) / self.mu

    def _log_window(self, loss: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            high, low = (self.high - loss) / self.width, (self.low - loss) / self.width
            far = loss > self.middle
            big, small = log_ndtr(np.where(far, high, -low)), log_ndtr(np.where(far, low, -high))
            return np.asarray(big + np.log1p(-np.exp(np.minimum(small - big, -1e-300))))

    @cached_property
    def _places(self) -> tuple[Floats, Floats, Floats]:
        """(x, log g, log of φ W dx but for a constant) where it may count; equal steps of 8x max(1, μ) + 2 log g/ω."""
        w, pace = self.width, 8.0 * max(1.0, self.mu)

        def warp(x: Floats) -> Floats:
            return np.asarray(pace * x + 2.0 * self._log_ratio(x) / w)

        left, right = max(self._place(self.low - _FAR * w), -_FAR), self._place(self.high + 2.0 * _FAR * w)
        coarse = np.linspace(left, right, 2000)
        grown = warp(coarse)
        t = np.linspace(grown[0], grown[-1], math.ceil(grown[-1] - grown[0]) + 2)
        x = np.interp(t, grown, coarse)
        for move in (True, True, True, False):
            loss = self._log_ratio(x)
            slope = pace - 2.0 * self.mu / w * np.expm1(np.minimum(self._log_stay - loss, 0.0))
            if move:
                x = np.clip(x - (warp(x) - t) / slope, left, right)
        self._log_dx = math.log(t[1] - t[0]) - np.log(slope) - 0.5 * x * x
        return x, loss, self._log_dx + self._log_window(loss)

    def _terms(self, c: float) -> Floats:
        """log of the terms of M_W(c) at the places, but for a constant."""
        _, loss, base = self._places
        return np.asarray(base + (1.0 + c) * loss)

    def _turned(self, theta: float) -> tuple[Floats, Floats, Floats]:
        """U, V and log of φ W(U) dx but for a constant, on the line θ."""
        if theta not in self._lines_at:
            line = self._log_ratio(self._places[0] + 1j * theta)
            self._lines_at[theta] = line.real, line.imag, self._log_dx + self._log_window(line.real)
        return self._lines_at[theta]

    def _bound(self, c: float, theta: float) -> Floats:
        """log of (*) dx at the places, but for y and a constant."""
        u, v, base = self._turned(theta)
        return np.asarray(0.5 * theta**2 + 0.5 * (v / self.width) ** 2 + (1.0 + c) * u + base)

    def log_moment(self, c: float) -> float:
        """log M_W(c) for real c > 0, in floats; far out only its size."""
        if (1.0 + c) * self.width > _FAR:
            return (1.0 + c) * (self.high + 0.5 * (1.0 + c) * self.width**2)
        return _log_sum(self._terms(c)) - 0.5 * math.log(2.0 * math.pi)

    def log_delta(self, epsilon: float) -> float:
        """−inf: no plan needs it."""
        return -math.inf

    def body_variance(self) -> float:
        """A variance that no plan needs."""
        return 1.0

    def best_angle(self, c: float, y: float) -> tuple[float, float]:
        """(log of the smallest ceiling found for |M_W(c + iy)| − log M_W(c), its line θ), in floats."""
        x, terms = self._places[0], self._terms(c)
        best, size = (0.0, 0.0), _log_sum(terms)
        live = x[terms > terms.max() - 50.0]
        least = 50.0 * float(live[-1] - live[0]) / (2.0 * math.pi * 0.4 * _MOST_NODES)
        for theta in (self._strip(c, 40.0)[0] * np.array([1.0, 0.5, 0.25, 0.1, 0.05])).tolist():
            if theta < least:
                break
            u, v, base = self._turned(theta)
            turn = v / self.width
            edges = [0.5 * (turn**2 - ((end - u) / self.width) ** 2) + self._log_dx for end in (self.low, self.high)]
            # |W| is at most e^{V²/2ω²} W, and at most W and what its two ends change
            window = np.minimum(0.5 * turn**2 + base, np.logaddexp(base, np.logaddexp(*edges)))
            value = (1.0 + c) * u - y * v + window
            fall = 0.5 * theta**2 + _log_sum(value) - size
            if fall < best[0]:
                best = (fall, theta)
        return best

    def _strip(self, c: float, digits: float) -> tuple[float, float]:
        """(a', h) of a rule with error about e^−digits of M_W(c)."""
        if (c, digits) in self._strips:
            return self._strips[c, digits]
        size = _log_sum(self._terms(c))
        best = (0.0, 0.0)
        for a in (min(0.24 * math.pi / self.mu, 3.0) * np.geomspace(1.0, 2e-3, 15)).tolist():
            lift = max(_log_sum(self._bound(c, 2.0 * a)) - size, 0.0)
            step = 2.0 * math.pi * a / (digits + 4.0 + lift)
            if step > best[1]:
                best = (a, step)
            elif best[1] > 0.0 and step < 0.5 * best[1]:
                break
        self._strips[c, digits] = best
        return best

    def _rule(self, c: float, digits: float, theta: float | None) -> _Rule:
        """A rule on the line θ, or on the line that needs the fewest nodes."""
        if theta is None:
            theta, step = self._strip(c, digits)
        else:
            lift = max(_log_sum(self._bound(c, 2.0 * theta)) - _log_sum(self._terms(c)), 0.0)
            step = 2.0 * math.pi * theta / (digits + 4.0 + lift)
        step = math.ldexp(math.floor(math.ldexp(step, 12 - math.frexp(step)[1])), math.frexp(step)[1] - 12)
        x, terms, bound = self._places[0], self._terms(c), self._bound(c, theta)
        live = np.flatnonzero(bound > _log_sum(terms) - digits - 8.0)
        if not live.size:
            raise PrecisionError(f"the moment of a window at order {c:.3g} is out of the range of floats")
        low, high = math.floor(float(x[live[0]]) / step) - 1, math.ceil(float(x[live[-1]]) / step) + 1
        if high - low > _MOST_NODES:
            raise PrecisionError(f"the moment of a window at order {c:.3g} needs too many nodes")
        return _Rule(theta, step, low, high)

    def _edges(self, c: float, theta: float, digits: float, among: tuple[float, ...]) -> list[float]:
        """Ends of cells, such that the bound (*) but for φ changes by a factor of about e over each that counts.

        `among` are further ends.
        """
        x, w, r = self._places[0], self.width, 1.0 + c
        u, v, base = self._turned(theta)
        window = np.maximum(base - self._log_dx, -1e6)
        turn = 0.5 * (v / w) ** 2
        left = r * u + turn + window + log_ndtr(x)  # of the first, which has no left end
        bound = self._bound(c, theta)
        top = _log_sum(bound)
        small = np.flatnonzero(left < top - digits - 20.0)
        first = int(small[small < np.argmax(left)].max(initial=0))
        rise = np.abs(np.diff(r * u)) + np.abs(np.diff(turn)) + np.abs(np.diff(window)) + np.diff(x)
        rise /= 0.5 + 0.1 * np.maximum(top - np.maximum(bound[1:], bound[:-1]), 0.0)
        cell = np.floor(np.cumsum(rise[first:]))
        edges = [float(x[first]), *x[first + 1 :][:-1][np.diff(cell) > 0.0].tolist(), float(x[-1])]
        for _ in range(500):
            end = float(self._log_ratio(np.array([edges[-1] + 1j * theta]))[0].real)
            loss, beyond = float(self._log_ratio(np.array([edges[-1]]))[0]), end - self.high
            fall = 0.5 * (beyond**2 - (self.mu * theta) ** 2) / w**2 - r * end
            if beyond > r * w * w and fall > digits + 50.0 - top and edges[-1] > 0.0:
                return sorted({*edges, *(x for x in among if edges[0] < x < edges[-1])})
            edges.append(self._place(loss + 0.3 * max(beyond, w)))
        raise PrecisionError(f"the moment of a window at order {c:.3g} is out of reach")

    # ------------------------------------------------------------------ balls

    def _window(self, log: Any, digits: float) -> Any:
        """W at a loss, real or complex; well inside, where 1 − W is about e^−digits, only to that."""
        root, far = self.width * arb(2).sqrt(), float(log.real) > self.middle
        ends = (self.high, self.low) if far else (self.low, self.high)
        sign = 1 if far else -1
        sides = [sign * (log - end) / root if math.isfinite(end) else None for end in ends]
        depths = [math.inf if z is None else float(z.real) ** 2 - float(z.imag) ** 2 for z in sides]
        big, small = sides
        if min(depths) > digits and (big is None or big.real < 0) and (small is None or small.real > 0):
            # |erfc z| ≤ e^{(Im z)² − (Re z)²} for Re z ≥ 0, and erfc(−z) = 2 − erfc z
            slack = sum(((z.imag**2 - z.real**2).exp() for z in sides if z is not None), arb(0)).upper()
            return 1 + (arb(0, slack) if isinstance(log, arb) else acb(arb(0, slack), arb(0, slack)))
        big, small = (type(log)(0) if z is None else z.erfc() / 2 for z in sides)
        return big - small

    def _log_g(self, x: Any) -> Any:
        return (1 - self.rate + self.rate * (self.shift * x - self.shift**2 / 2).exp()).log()

    def _height(self, c: float, left: Any, right: Any) -> Ball:
        """e^{rU + V²/2ω²} W(U) at most, on a cell with these values of log g at its ends; `left` may be None."""
        window = arb(1)
        if left is not None and left.real >= self.middle:
            window = self._window(left.real, _ROUGH)
        elif right.real <= self.middle:
            window = self._window(right.real, _ROUGH)
        return ((1 + arb(c)) * right.real + (right.imag / self.width) ** 2 / 2).exp() * window

    def _cells(
        self, c: float, theta: float, digits: float, step: float, ends: tuple[float, ...] = ()
    ) -> list[tuple[float, float, Ball]]:
        """Bounds of (*) on cells that cover the line: its integral plus `step` times its largest value.

        Each comes with the ends of its cell.
        """
        edges = self._edges(c, theta, digits, ends)
        with precision(_CELL_BITS):
            if not self.shift * theta <= arb.pi() / 2:
                raise PrecisionError("the strip of a window is too wide")
            lift, r, w = (arb(theta) ** 2 / 2).exp(), 1 + arb(c), arb(self.width)
            log = self._log_g(acb(edges[0], theta))
            start = self._height(c, None, log) * (_beyond(-arb(edges[0])) + step * _density(arb(min(edges[0], 0.0))))
            cells = [(-math.inf, edges[0], lift * start)]
            for left, right in pairwise(edges):
                following = self._log_g(acb(right, theta))
                near, far = (left, right) if left > 0.0 else (-right, -left)
                mass = _beyond(arb(near)) - _beyond(arb(far)) + step * _density(arb(max(near, 0.0)))
                cells.append((left, right, lift * self._height(c, log, following) * mass))
                log = following
            distance = log.real - self.high
            if not (distance >= r * w * w and edges[-1] >= 0.0):
                raise PrecisionError(f"the moment of a window at order {c:.3g} was not covered")
            last = (r * log.real + ((self.shift * theta) ** 2 - distance**2) / (2 * w * w)).exp() / 2
            end = arb(edges[-1])
            cells.append((edges[-1], math.inf, lift * last * (_beyond(end) + step * _density(end))))
        return cells

    def _nodes(self, c: float, rule: _Rule, digits: float) -> list[tuple[Any, Any]]:
        """(weight, log g) at the nodes of a rule."""
        r, step = 1 + arb(c), arb(rule.step)
        unit = (step / (2 * arb.pi()).sqrt()).log()
        nodes = []
        for j in range(rule.low, rule.high + 1):
            x = acb(step * j, rule.theta)
            log = self._log_g(x)
            nodes.append(((r * log - x * x / 2 + unit).exp() * self._window(log, digits + 12.0), log))
        return nodes

    def moment(self, c: float, digits: float) -> Ball:
        """M_W(c) for real c > 0, meant to be known to e^−digits."""
        line = self.line(c, digits)
        return sum((weight.real for weight in line.weights), arb(0)) + arb(0, line.error)

    def line(self, c: float, digits: float, theta: float | None = None) -> Line:
        """The line Re s = c as a sum of geometric sequences, meant to err by e^−digits of M_W(c)."""
        key = c, digits, int(ctx.prec), theta
        if key not in self._lines:
            rule = self._rule(c, digits, theta)
            damping = (2 * arb.pi() * arb(rule.theta) / rule.step).exp() - 1
            strip = [n for at in (0.0, 2.0 * rule.theta) for _, _, n in self._cells(c, at, digits, 0.0)]
            error = sum(strip, arb(0)) / damping
            ends = rule.step * rule.low, rule.step * rule.high
            for left, right, size in self._cells(c, rule.theta, digits, rule.step, ends):
                if not (ends[0] <= left and right <= ends[1]):  # the nodes left out are all in such cells
                    error += size
            nodes = self._nodes(c, rule, digits)
            self._lines[key] = Line([w for w, _ in nodes], [log for _, log in nodes], error.upper())
        return self._lines[key]

    def ceiling(self, c: float, y: float, theta: float, digits: float) -> Ball:
        """Upper bound of |M_W(c + iy')| for all |y'| ≥ y, from the line θ."""
        if theta == 0.0:
            return self.moment(c, digits).upper()
        line = self.line(c, digits, theta)
        total = sum((abs(w) * (-y * log.imag).exp() for w, log in zip(line.weights, line.logs, strict=True)), arb(0))
        return (total + line.error).upper()

    def above(self) -> tuple[Ball, Ball]:
        """E Φ((ℓ − b)/ω) under both laws: the probability of the losses above the window, with the record and without.

        Near b arb integrates with its own bounds of the error. The window is monotone beyond.
        """
        left, right = self._place(self.high - _FAR * self.width), self._place(self.high + 20.0 * self.width)
        left = max(left, -_FAR)
        root, unit = self.width * arb(2).sqrt(), (2 * arb.pi()).sqrt()
        stay, drift = 1 - self.rate, self.shift**2 / 2

        def window(loss: Any) -> Any:
            return ((self.high - loss) / root).erfc() / 2

        def half(mean: Ball) -> Ball:
            top = (arb(self._place(self.high)) - mean) ** 2 / 2  # the integrand is of size 1 near b

            def density(x: Any, analytic: bool) -> Any:
                loss = (stay + self.rate * (self.shift * x - drift).exp()).log(analytic=analytic)
                return (top - (x - mean) ** 2 / 2).exp() * window(loss)

            middle = acb.integral(density, acb(left), acb(right), rel_tol=arb(2) ** -90, eval_limit=200_000).real
            below, beyond = window(self._log_g(arb(left))), _beyond(arb(right) - mean)
            ends = (below * _beyond(mean - arb(left))).union(arb(0)) + beyond * window(self._log_g(arb(right))).union(1)
            return middle * (-top).exp() / unit + ends

        without = half(arb(0))
        return stay * without + self.rate * half(self.shift), without

    def low_above(self, beta: float) -> Ball:
        """E e^{−βℓ} Φ((ℓ − b)/ω) with the record, at most."""
        places = (self.high + k * self.width for k in np.arange(-_FAR, 12.0, 0.25).tolist())
        edges = [e for e in map(self._place, places) if math.isfinite(e)]
        root, total, low = self.width * arb(2).sqrt(), arb(0), (1 - self.rate).log()
        mass = arb(1)
        for x in edges:
            loss = self._log_g(arb(x))
            rest = (1 - self.rate) * _beyond(arb(x)) + self.rate * _beyond(arb(x) - self.shift)
            total += ((self.high - loss) / root).erfc() / 2 * (mass - rest) * (-beta * low).exp()
            low, mass = loss, rest
        return (total + mass * (-beta * low).exp()).upper()


def _log_sum(terms: Floats) -> float:
    top = float(terms.max())
    return top + math.log(float(np.exp(terms - top).sum())) if top > -math.inf else top


def _beyond(x: Ball) -> Ball:
    """1 − Φ(x)."""
    return (x / arb(2).sqrt()).erfc() / 2


def _density(x: Ball) -> Ball:
    """φ(x)."""
    return (-x * x / 2).exp() / (2 * arb.pi()).sqrt()
