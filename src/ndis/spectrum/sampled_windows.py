"""The moment of one Poisson-sampled mean shift, of those losses only that lie softly in an interval.

The letters x, w, q, μ, g and the remove order (e = r + iy, r = 1 + c ≥ 1, y ≥ 0) are those of
`ndis.spectrum.sampled_moment_balls`. Let ℓ = log g be the loss. For an interval (a, b) and a width ω > 0 the window

    W(ℓ) = Φ((b − ℓ)/ω) − Φ((a − ℓ)/ω),   with a = −∞ or b = ∞ allowed,

is the share of (a, b) in a Gaussian at ℓ. The windows of neighbouring intervals with one ω add up to 1. The moment of
the window is M_W(s) = E[g^e W(log g)]: the transform of a positive measure. If b < ∞, it stays small where the whole
moment explodes.

**On the line Im x = θ**, 0 ≤ α = μθ ≤ π/2, write log g = U + iV. Then V lies between 0 and α, and U and V rise with
x. Since W is an integral of Gaussian densities over (a, b), |W(U + iV)| ≤ e^{V²/2ω²} W(U). So the integrand is at most

    e^{θ²/2} φ(x) e^{rU − yV + V²/2ω²} W(U)                                                              (*)

in modulus. On a cell of x it is below its Gaussian part times the values of rU and V at the right end, times W at the
end that is nearer to the middle of (a, b) (or 1, if the middle is inside). Right of the last cell V ≤ α and
W(U) ≤ ½ e^{−(U−b)²/2ω²}, and the bound falls with U if U ≥ b + rω². Sums over cells bound the integral N_θ of (*) for
every y ≥ 0 at once, and, with the largest φ of a cell times the step added to its mass, sums over nodes.

**The rule** on the line θ = a' with step h errs by at most (N_0 + N_{2a'})/(e^{2πa'/h} − 1), as for the whole moment.
So M_W(c + iy) = Σ a_j e^{iy l_j} within one error for all y ≥ 0. **The ceiling** follows: for all y' ≥ y,
|M_W(c + iy')| ≤ Σ |a_j| e^{−y Im l_j} + error.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb, ctx
from scipy.special import log_ndtr

from ndis._balls import Ball, precision
from ndis._validate import Floats
from ndis.errors import PrecisionError
from ndis.spectrum.sampled_moment_balls import Line, ShiftStep

__all__ = ["WindowStep"]

_MOST_NODES = 20_000
_FAR = 40.0  # in standard deviations of the noise, or widths of the window
_CELL_BITS = 80


class _Rule(NamedTuple):
    """A trapezoid rule on Im x = theta, with nodes from low to high."""

    theta: float
    step: float
    low: int
    high: int


class WindowStep:
    """One sampled mean shift in the remove order, with the losses in a soft interval only.

    It answers the same questions as `ndis.spectrum.sampled_moment_balls.ShiftStep`.

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
        self._lines: dict[tuple[float, float, int], Line] = {}
        self._strips: dict[tuple[float, float], tuple[float, float]] = {}
        self._grids: dict[float, tuple[Floats, Floats, Floats]] = {}

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

    def _grid(self, c: float) -> tuple[Floats, Floats, Floats]:
        """(x, log dx, log of the terms of M_W(c)) where it may count; equal steps of 8x max(1, μ) + 2 log g/ω."""
        if c not in self._grids:
            w, r, pace = self.width, 1.0 + c, 8.0 * max(1.0, self.mu)

            def warp(x: Floats) -> Floats:
                return np.asarray(pace * x + 2.0 * self._log_ratio(x) / w)

            left = max(self._place(self.low - _FAR * w), -_FAR)
            right = min(self._place(self.high + (_FAR + r * w) * w), r * self.mu + _FAR)
            coarse = np.linspace(left, right, 2000)
            grown = warp(coarse)
            t = np.linspace(grown[0], grown[-1], math.ceil(grown[-1] - grown[0]) + 2)
            x = np.interp(t, grown, coarse)
            loss = self._log_ratio(x)
            for _ in range(3):
                slope = pace - 2.0 * self.mu / w * np.expm1(np.minimum(self._log_stay - loss, 0.0))
                x = np.clip(x - (warp(x) - t) / slope, left, right)
                loss = self._log_ratio(x)
            slope = pace - 2.0 * self.mu / w * np.expm1(np.minimum(self._log_stay - loss, 0.0))
            log_dx = math.log(t[1] - t[0]) - np.log(slope)
            self._grids[c] = x, log_dx, log_dx + r * loss - 0.5 * x * x + self._log_window(loss)
        return self._grids[c]

    def _bound(self, c: float, theta: float) -> Floats:
        """log of (*) dx at the places of the grid, but for y and constants."""
        x, log_dx, _ = self._grid(c)
        line = self._log_ratio(x + 1j * theta)
        lift = 0.5 * (theta**2 + (line.imag / self.width) ** 2)
        return np.asarray(lift + (1.0 + c) * line.real - 0.5 * x * x + self._log_window(line.real) + log_dx)

    def log_moment(self, c: float) -> float:
        """log M_W(c) for real c > 0, in floats."""
        return _log_sum(self._grid(c)[2]) - 0.5 * math.log(2.0 * math.pi)

    def log_delta(self, epsilon: float) -> float:
        """−inf: no plan needs it."""
        return -math.inf

    def body_variance(self) -> float:
        """A variance that no plan needs."""
        return 1.0

    def best_angle(self, c: float, y: float) -> tuple[float, float]:
        """(log of the ceiling for |M_W(c + iy)| − log M_W(c), the line θ of the rule), in floats."""
        theta = self._strip(c, 40.0)[0]
        x, log_dx, terms = self._grid(c)
        line = self._log_ratio(x + 1j * theta)
        log_window, turn = self._log_window(line.real), line.imag / self.width
        edges = [0.5 * (turn**2 - ((end - line.real) / self.width) ** 2) for end in (self.low, self.high)]
        # |W| is at most e^{V²/2ω²} W, and at most W and what its two ends change
        window = np.minimum(0.5 * turn**2 + log_window, np.logaddexp(log_window, np.logaddexp(*edges)))
        value = (1.0 + c) * line.real - y * line.imag - 0.5 * x * x + window + log_dx
        fall = 0.5 * theta**2 + _log_sum(value) - _log_sum(terms)
        return min(fall, 0.0), theta

    def _strip(self, c: float, digits: float) -> tuple[float, float]:
        """(a', h) of a rule with error about e^−digits of M_W(c)."""
        if (c, digits) in self._strips:
            return self._strips[c, digits]
        size = _log_sum(self._grid(c)[2])
        best = (0.0, 0.0)
        for a in 0.49 * math.pi / 2.0 / self.mu * np.geomspace(1.0, 1e-3, 15):
            lift = max(_log_sum(self._bound(c, 2.0 * a)) - size, 0.0)
            step = 2.0 * math.pi * float(a) / (digits + 4.0 + lift)
            if step > best[1]:
                best = (float(a), step)
            elif best[1] > 0.0 and step < 0.5 * best[1]:
                break
        self._strips[c, digits] = best
        return best

    def _rule(self, c: float, digits: float) -> _Rule:
        theta, step = self._strip(c, digits)
        theta, step = (math.ldexp(math.floor(math.ldexp(v, 20 - math.frexp(v)[1])), math.frexp(v)[1] - 20) for v in (theta, step))
        x, _, terms = self._grid(c)
        bound = self._bound(c, theta)
        live = np.flatnonzero(bound > _log_sum(terms) - digits - 8.0)
        low, high = math.floor(float(x[live[0]]) / step) - 1, math.ceil(float(x[live[-1]]) / step) + 1
        if high - low > _MOST_NODES:
            raise PrecisionError(f"the moment of a window at order {c:.3g} needs too many nodes")
        return _Rule(theta, step, low, high)

    def _edges(self, c: float, theta: float, digits: float, among: tuple[float, ...]) -> list[float]:
        """Ends of cells, such that the bound (*) but for φ changes by a factor of about e over each that counts.

        `among` are further ends.
        """
        x, w, r = self._grid(c)[0], self.width, 1.0 + c
        line = self._log_ratio(x + 1j * theta)
        window = np.maximum(self._log_window(line.real), -1e6)
        turn = 0.5 * (line.imag / w) ** 2
        left = r * line.real + turn + window + log_ndtr(x)  # of the first, which has no left end
        bound = self._bound(c, theta)
        top = _log_sum(bound)
        small = np.flatnonzero(left < top - digits - 20.0)
        first = int(small[small < np.argmax(left)].max(initial=0))
        rise = np.abs(np.diff(r * line.real)) + np.abs(np.diff(turn)) + np.abs(np.diff(window)) + np.diff(x)
        rise /= 0.5 + 0.1 * np.maximum(top - np.maximum(bound[1:], bound[:-1]), 0.0)
        cell = np.floor(np.cumsum(rise[first:]))
        edges = [float(x[first]), *x[first + 1 :][:-1][np.diff(cell) > 0.0].tolist(), float(x[-1])]
        for _ in range(500):
            u = float(self._log_ratio(np.array([edges[-1] + 1j * theta]))[0].real)
            beyond = u - self.high
            fall = 0.5 * (beyond**2 - (self.mu * theta) ** 2) / w**2 - r * u
            if beyond > r * w * w and fall > digits + 50.0 - top and edges[-1] > 0.0:
                return sorted({*edges, *(x for x in among if edges[0] < x < edges[-1])})
            edges.append(max(self._place(u + max(0.3 * beyond, 0.3 * w)), edges[-1] + 1e-3))
        raise PrecisionError(f"the moment of a window at order {c:.3g} is out of reach")

    # ------------------------------------------------------------------ balls

    def _window(self, log: Any) -> Any:
        """W at a loss, real or complex."""
        root, far = self.width * arb(2).sqrt(), float(log.real) > self.middle
        ends = (self.high, self.low) if far else (self.low, self.high)
        sign = 1 if far else -1
        big, small = (
            (sign * (log - end) / root).erfc() / 2 if math.isfinite(end) else type(log)(0) for end in ends
        )
        return big - small

    def _log_g(self, x: Any) -> Any:
        return (1 - self.rate + self.rate * (self.shift * x - self.shift**2 / 2).exp()).log()

    def _height(self, c: float, left: Any, right: Any) -> Ball:
        """e^{rU + V²/2ω²} W(U) at most, on a cell with these values of log g at its ends; `left` may be None."""
        window = arb(1)
        if left is not None and left.real >= self.middle:
            window = self._window(left.real)
        elif right.real <= self.middle:
            window = self._window(right.real)
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
            log, mass = self._log_g(acb(edges[0], theta)), _beyond(arb(edges[0]))
            start = self._height(c, None, log) * (1 - mass + step * _density(arb(min(edges[0], 0.0))))
            cells = [(-math.inf, edges[0], lift * start)]
            for left, right in pairwise(edges):
                following, rest = self._log_g(acb(right, theta)), _beyond(arb(right))
                top = _density(arb(left if left > 0.0 else min(right, 0.0)))
                cells.append((left, right, lift * self._height(c, log, following) * (mass - rest + step * top)))
                log, mass = following, rest
            distance = log.real - self.high
            if not (distance >= r * w * w and edges[-1] >= 0.0):
                raise PrecisionError(f"the moment of a window at order {c:.3g} was not covered")
            last = (r * log.real + ((self.shift * theta) ** 2 - distance**2) / (2 * w * w)).exp() / 2
            cells.append((edges[-1], math.inf, lift * last * (mass + step * _density(arb(edges[-1])))))
        return cells

    def _nodes(self, c: float, rule: _Rule) -> list[tuple[Any, Any]]:
        """(weight, log g) at the nodes of a rule."""
        r, step = 1 + arb(c), arb(rule.step)
        unit = (step / (2 * arb.pi()).sqrt()).log()
        nodes = []
        for j in range(rule.low, rule.high + 1):
            x = acb(step * j, rule.theta)
            log = self._log_g(x)
            nodes.append(((r * log - x * x / 2 + unit).exp() * self._window(log), log))
        return nodes

    def moment(self, c: float, digits: float) -> Ball:
        """M_W(c) for real c > 0, meant to be known to e^−digits."""
        line = self.line(c, digits)
        return sum((weight.real for weight in line.weights), arb(0)) + arb(0, line.error)

    def line(self, c: float, digits: float) -> Line:
        """The line Re s = c as a sum of geometric sequences, meant to err by e^−digits of M_W(c)."""
        key = c, digits, int(ctx.prec)
        if key not in self._lines:
            rule = self._rule(c, digits)
            damping = (2 * arb.pi() * arb(rule.theta) / rule.step).exp() - 1
            strip = [n for at in (0.0, 2.0 * rule.theta) for _, _, n in self._cells(c, at, digits, 0.0)]
            error = sum(strip, arb(0)) / damping
            ends = rule.step * rule.low, rule.step * rule.high
            for left, right, size in self._cells(c, rule.theta, digits, rule.step, ends):
                if not (ends[0] <= left and right <= ends[1]):  # the nodes left out are all in such cells
                    error += size
            nodes = self._nodes(c, rule)
            self._lines[key] = Line([w for w, _ in nodes], [log for _, log in nodes], error.upper())
        return self._lines[key]

    def ceiling(self, c: float, y: float, theta: float, digits: float) -> Ball:
        """Upper bound of |M_W(c + iy')| for all |y'| ≥ y."""
        line = self.line(c, digits)
        total = sum((abs(w) * (-y * log.imag).exp() for w, log in zip(line.weights, line.logs, strict=True)), arb(0))
        return (total + line.error).upper()

    def mass_above(self) -> Ball:
        """E_P Φ((ℓ − b)/ω) at most: the probability of the losses above the window."""
        w, places = self.width, np.arange(-_FAR, 12.0, 0.5)
        edges = [e for e in (self._place(self.high + k * w) for k in places.tolist()) if math.isfinite(e)]
        root, total = w * arb(2).sqrt(), arb(0)

        def beyond(x: float) -> Ball:
            return (1 - self.rate) * _beyond(arb(x)) + self.rate * _beyond(arb(x) - self.shift)

        def height(x: float) -> Ball:
            return ((self.high - self._log_g(arb(x))) / root).erfc() / 2

        mass = beyond(edges[0])
        total = height(edges[0])
        for end in edges[1:]:
            rest = beyond(end)
            total += height(end) * (mass - rest)
            mass = rest
        return (total + mass).upper()


def _log_sum(terms: Floats) -> float:
    top = float(terms.max())
    return top + math.log(float(np.exp(terms - top).sum())) if top > -math.inf else top


def _beyond(x: Ball) -> Ball:
    """1 − Φ(x)."""
    return (x / arb(2).sqrt()).erfc() / 2


def _density(x: Ball) -> Ball:
    """φ(x)."""
    return (-x * x / 2).exp() / (2 * arb.pi()).sqrt()
