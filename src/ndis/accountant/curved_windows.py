"""The moment of one Poisson-sampled sketch, of those losses only that lie softly in an interval.

The step is that of `ndis.accountant.curved_balls` with t > 0, no shift and d ≥ 2, in the remove order. The window
W is that of `ndis.accountant.windows`. On the line R = k log(1 + e^{u + iα}) with φ = βkα < π/2 write
log g = U + iV. Theorem thm:curved-window (docs/theory.md) bounds the integrand of M_W by

    e^{rU − yV + V²/2ω²} W(U) |f(R) dR/du|                                                              (*)

and has the bounds of (*) left and right of a place. Its integral N_α is bounded by cells. The rule on the line α, with
step h, errs by at most (N_0 + N_{2α})/(e^{2πα/h} − 1).
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from flint import acb, arb, ctx

from ndis._balls import Ball, precision
from ndis._validate import Floats
from ndis.accountant.curved_balls import CurvedStep
from ndis.accountant.curved_floats import short
from ndis.accountant.moment_balls import Line
from ndis.accountant.windows import WindowStep
from ndis.errors import PrecisionError

__all__ = ["CurvedWindow"]

_MOST_NODES = 20_000
_FAR = 40.0  # widths of the window
_CELL_BITS = 80
_ROUGH = 20.0
_REACH = 50.0  # e-folds
_MOVES = 200
_FINE = 4.0


class CurvedWindow(WindowStep):
    """One sampled sketch in the remove order, with the losses in a soft interval only.

    Parameters
    ----------
    step : CurvedStep
        The whole step, with t > 0, no shift and at least two directions.
    low, high : float
        The ends a and b; a may be −inf. The float b must be finite.
    width : float
        ω.

    Examples
    --------
    >>> whole = CurvedStep(arb(0.01), arb(0.25), arb(0), 20, remove=True)
    >>> two = CurvedWindow(whole, -math.inf, 1.0, 0.1), CurvedWindow(whole, 1.0, 9.0, 0.1)
    >>> total = sum(part.moment(1.0, 30.0) for part in two)
    >>> bool(abs(total - whole.moment(1.0, 30.0)) < 1e-9)  # no loss above 9 counts
    True
    """

    def __init__(self, step: CurvedStep, low: float, high: float, width: float) -> None:
        if not self.serves(step):
            raise PrecisionError("only a sampled sketch in the remove order has windows")
        self.whole, self.rate, self.q, self._log_stay = step, step.rate, step.q, step.log_stay
        self.low, self.high, self.width = low, high, width
        self.middle = 0.5 * (low + high)
        self._lines: dict[tuple[float, float, int, float | None], Line] = {}
        self._found: dict[float, tuple[float, float]] = {}
        self._at: dict[tuple[float, float], tuple[Floats, Floats, Floats, Floats]] = {}

    @staticmethod
    def serves(step: object) -> bool:
        """True for a step that can be split."""
        return (
            isinstance(step, CurvedStep)
            and step.remove
            and step.side > 0
            and bool(step.centre.is_zero())
            and step.copies > 1
        )

    # ------------------------------------------------------------------ floats, for plans only

    def _place(self, loss: float) -> float:
        """The R of a loss; 0 if none has it."""
        grown = math.expm1(min(loss, 700.0)) / self.q
        if not grown > -1.0:
            return 0.0
        log_w = math.log1p(grown) if loss < 700.0 else loss - math.log(self.q)
        return max((log_w - self.whole._lead) / self.whole._beta, 0.0)

    @cached_property
    def _places(self) -> tuple[Floats, Floats, Floats]:
        """(R, log g, log of f W dR) where it may count, in equal steps of a warped variable."""
        step, half, w = self.whole, 0.5 * self.whole.copies, self.width
        pace = 4.0 * math.sqrt(step.copies) + 4.0
        least = math.log(step.copies) - 4.0 - 2.0 * _REACH / half
        left = max(math.log(max(self._place(self.low - _FAR * w), 1e-300)), least)
        right = math.log(self._place(self.high + 2.0 * _FAR * w))

        def warp(x: Floats) -> Floats:
            place = np.exp(x)
            return np.asarray(pace * x + place + 2.0 * step._log_ratio(place) / w)

        coarse = np.linspace(left, right, 4000)
        grown = warp(coarse)
        t = np.linspace(grown[0], grown[-1], math.ceil(min(grown[-1] - grown[0], 2e5)) + 2)
        x = np.interp(t, grown, coarse)
        for move in (True, True, True, False):
            place = np.exp(x)
            loss = step._log_ratio(place)
            slope = pace + place - 2.0 / w * step._beta * place * np.expm1(np.minimum(self._log_stay - loss, 0.0))
            if move:
                x = np.clip(x - (warp(x) - t) / slope, left, right)
        self._log_dx = math.log(t[1] - t[0]) - np.log(slope)
        return place, loss, self._log_dx + step._log_density(place, x) + self._log_window(loss)

    def log_moment(self, c: float) -> float:
        """log M_W(c) for real c > 0, in floats; far out only its size."""
        if (1.0 + c) * self.width > _FAR:
            return (1.0 + c) * (self.high + 0.5 * (1.0 + c) * self.width**2)
        return _log_sum(self._terms(c))

    def _on(self, scale: float, angle: float) -> tuple[Floats, Floats, Floats, Floats]:
        """U, V, log of |f dR| and of W(U), on the line α of the scale k."""
        if (scale, angle) not in self._at:
            step, place = self.whole, self._places[0]
            ratio = place / scale
            log_speed = np.log(-np.expm1(-ratio))  # of dR/du in units of k, at α = 0
            u = ratio + log_speed
            z = np.exp(np.minimum(u, 300.0) + 1j * angle)
            unit = np.where(np.abs(z) < 1e-5, z * (1.0 - 0.5 * z), np.log(1.0 + z))
            turned = scale * np.where(u > 40.0, u + 1j * angle, unit)
            mass = step._log_density(turned, np.log(turned)).real - np.log(np.abs(turned))
            mass += self._log_dx + np.log(place) - log_speed - np.log(np.abs(1.0 + 1.0 / z))
            log = step._log_ratio(turned)
            self._at[scale, angle] = log.real, log.imag, mass, self._log_window(log.real)
        return self._at[scale, angle]

    def _over(self, c: float, scale: float, angle: float) -> Floats:
        """log of (*) du at the places, but for y."""
        u, v, mass, window = self._on(scale, angle)
        return np.asarray((1.0 + c) * u + 0.5 * (v / self.width) ** 2 + mass + window)

    def _lift(self, c: float, scale: float, angle: float) -> float:
        """log N_α/M_W(c), roughly."""
        return max(_log_sum(self._over(c, scale, angle)) - _log_sum(self._terms(c)), 0.0)

    def _choice(self, c: float) -> tuple[float, float]:
        """(k, α) of a line that needs few nodes; its strip is 0 to 2α."""
        if c in self._found:
            return self._found[c]
        place, terms = self._places[0], self._terms(c)
        live = place[terms > terms.max() - _REACH]
        best = (math.inf, 1.0, 0.1)
        for scale in (math.sqrt(2.0 * self.whole.copies) * np.geomspace(0.2, 30.0, 6)).tolist():
            ends = [x / scale + math.log(-math.expm1(-x / scale)) for x in (float(live[0]), float(live[-1]))]
            for angle in (0.5 * self.whole._most_angle(-1.0, scale) * np.geomspace(0.97, 0.01, 8)).tolist():
                cost = (ends[1] - ends[0] + 1.0) * (40.0 + self._lift(c, scale, 2.0 * angle)) / angle
                best = min(best, (cost, scale, angle))
        self._found[c] = short(best[1]), best[2]
        return self._found[c]

    def best_angle(self, c: float, y: float) -> tuple[float, float]:
        """(log of the smallest ceiling found for |M_W(c + iy)| − log M_W(c), its line α), in floats."""
        scale, most = self._choice(c)
        place, terms = self._places[0], self._terms(c)
        size, best = _log_sum(terms), (0.0, 0.0)
        live = place[terms > terms.max() - _REACH] / scale
        length = float(live[-1] - live[0]) + math.log(math.expm1(min(live[-1], 1.0)) / math.expm1(min(live[0], 1.0)))
        least = _REACH * length / (2.0 * math.pi * 0.4 * _MOST_NODES)
        for angle in (most * np.array([1.0, 0.5, 0.25, 0.1, 0.05])).tolist():
            if angle < least:
                break
            u, v, mass, window = self._on(scale, angle)
            turn = v / self.width
            edges = [0.5 * (turn**2 - ((end - u) / self.width) ** 2) for end in (self.low, self.high)]
            # |W| is at most e^{V²/2ω²} W, and at most W and what its two ends change
            window = np.minimum(0.5 * turn**2 + window, np.logaddexp(window, np.logaddexp(*edges)))
            fall = _log_sum((1.0 + c) * u - y * v + mass + window) - size
            if fall < best[0]:
                best = (fall, angle)
        return best

    # ------------------------------------------------------------------ balls: the bounds of thm:curved-window

    def _ratio(self, place: Ball) -> Ball:
        """q w for a real R."""
        return self.rate * self.whole._ratio(place)

    def _left_of(self, c: float, scale: float, angle: float, u: float, step: Ball) -> Ball:
        """The integral of (*) left of u at most, plus `step` times its largest value; or a sum over nodes there."""
        k, wide, order = arb(scale), arb(scale) * arb(angle), arb(self.whole.copies) / 2
        start = min(u, 0.0)
        far = k * arb(u).exp().log1p()
        ratio = self._ratio(far)
        top, turn = (1 - self.rate + ratio).log(), (ratio / (1 - self.rate)).min(self.whole.beta * wide)
        factor = ((1 + arb(c)) * top + (turn / self.width) ** 2 / 2).exp()
        if self.low > -math.inf and top <= self.middle:
            factor *= self._window(top, _ROUGH).upper()
        peak = (2 * order - 2 - wide).max(arb(0)).min(far)
        between = k * self.whole._bell(peak, wide)[0] * (arb(u) + step) if u > 0.0 else arb(0)
        z = arb(start).exp()
        head = self.whole._front_ball().exp() * (1 + z) * (k * z) ** order
        return factor * (between + head * (1 / order + step))

    def _right_of(self, c: float, scale: float, angle: float, u: float, step: Ball) -> Ball:
        """The same right of u."""
        k, wide, r, w = arb(scale), arb(scale) * arb(angle), 1 + arb(c), arb(self.width)
        near, turn = k * arb(u), self.whole.beta * wide
        if not (near > 0 and turn < arb.pi() / 2):
            return arb.pos_inf()
        size, slope = self.whole._bell(near, wide)
        floor = (1 - self.rate + self._ratio(near) * turn.cos()).log()
        beyond = floor - self.high
        if not (slope < 0 and beyond >= r * w * w):
            return arb.pos_inf()
        factor = (r * (floor - turn.cos().log()) + (turn**2 - beyond**2) / (2 * w * w)).exp() / 2
        return k * size * factor * (-1 / (k * slope) + step)

    def _ends(self, c: float, scale: float, angle: float, digits: float) -> tuple[float, float]:
        """Places in u beyond which the bounds are below e^−digits of M_W(c), or almost."""
        aim, place, over = self.log_moment(c) - digits, self._places[0], self._over(c, scale, angle)
        live = place[over >= min(aim, float(over.max()))]
        if not live.size:
            raise PrecisionError(f"the moment of a window at order {c:.3g} is not a number")
        found = []
        with precision(_CELL_BITS):
            starts = float(live[0]), float(live[-1])
            for bound, sign, x in zip((self._left_of, self._right_of), (-1.0, 1.0), starts, strict=True):
                u = x / scale + math.log(-math.expm1(-x / scale))
                for _ in range(_MOVES):
                    if bound(c, scale, angle, u, arb(0)) < arb(aim).exp():
                        break
                    u += sign * max(0.05 * math.fabs(u), 0.05)
                else:
                    raise PrecisionError(f"the moment of a window at order {c:.3g} was not covered")
                found.append(u)
        return found[0], found[1]

    def _edges(self, c: float, theta: float, digits: float, among: tuple[float, ...]) -> list[float]:
        """Ends of cells in u, such that (*) changes by a factor of about e over each that counts.

        `among` are the two ends, and `digits` the scale.
        """
        scale, (low, high) = digits, among
        u, v, mass, window = self._on(scale, theta)
        ratio = self._places[0] / scale
        at = ratio + np.log(-np.expm1(-ratio))
        parts = (1.0 + c) * u, 0.5 * (v / self.width) ** 2, np.maximum(window, -1e6), mass - self._log_dx, 2.0 * at
        rise = sum((np.abs(np.diff(part)) for part in parts), np.zeros(at.size - 1))
        over = self._over(c, scale, theta)
        top = _log_sum(over)
        rise = _FINE * rise / (0.5 + 0.1 * np.maximum(top - np.maximum(over[1:], over[:-1]), 0.0))
        inner = at[1:-1][np.diff(np.floor(np.cumsum(rise))) > 0.0]
        outer = [*np.arange(low, float(at[0]), 0.25), *np.arange(float(at[-1]), high, 0.25)]
        return [low, *sorted({float(x) for x in (*inner, *outer) if low < x < high}), high]

    def _growth(self, c: float, scale: float, angle: float) -> Ball:
        """Upper bound of N_α."""
        low, high = self._ends(c, scale, angle, 4.0)
        with precision(_CELL_BITS):
            k, r, step = arb(scale), 1 + arb(c), self.whole
            if not (arb(angle) < arb.pi() / 2 and step.beta * k * arb(angle) < arb.pi() / 2):
                raise PrecisionError("the strip of a window is too wide")
            total = self._left_of(c, scale, angle, low, arb(0)) + self._right_of(c, scale, angle, high, arb(0))
            stay, log_join, front = 1 - self.rate, self.rate.log() + step.lead, step._front_ball()
            turn, less = acb(0, arb(angle)).exp(), arb(step.copies) / 2 - 1
            for start, end in pairwise([arb(x) for x in self._edges(c, angle, scale, (low, high))]):
                z = start.union(end).exp() * turn
                place = k * z.log1p()
                log = (stay + (log_join + step.beta * place).exp()).log()
                size = r * log.real + (log.imag / self.width) ** 2 / 2 + abs(place).log() * less - place.real / 2
                window = arb(1)
                if log.real >= self.middle:
                    window = self._window(log.real.lower(), _ROUGH).upper()
                elif log.real <= self.middle:
                    window = self._window(log.real.upper(), _ROUGH).upper()
                total += ((size + front).exp() * window * k * abs(z / (1 + z))).upper() * (end - start)
            if not total.is_finite():
                raise PrecisionError(f"the strip of a window at order {c:.3g} was not bounded")
            return total.upper()

    def line(self, c: float, digits: float, theta: float | None = None) -> Line:
        """The line Re s = c as a sum of geometric sequences, meant to err by e^−digits of M_W(c)."""
        key = c, digits, int(ctx.prec), theta
        if key in self._lines:
            return self._lines[key]
        scale, angle = self._choice(c)
        angle = angle if theta is None else theta
        h = short(2.0 * math.pi * angle / (digits + 4.0 + self._lift(c, scale, 2.0 * angle)))
        low, high = self._ends(c, scale, angle, digits + 3.0)
        first, last = math.floor(low / h), math.ceil(high / h)
        if last - first > _MOST_NODES:
            raise PrecisionError(f"the moment of a window at order {c:.3g} needs too many nodes")
        damping = (2 * arb.pi() * arb(angle) / arb(h)).expm1()
        error = (self._growth(c, scale, 0.0) + self._growth(c, scale, 2.0 * angle)) / damping
        ends = c, scale, angle
        error += self._left_of(*ends, h * first, arb(h)) + self._right_of(*ends, h * last, arb(h))
        small = (arb(self.log_moment(c) - digits - 6.0).exp() / (last - first + 1)).lower()
        weights, logs = [], []
        for weight, log in self._values(c, scale, angle, h, first, last, digits):
            size = weight.abs_upper()
            if size < small:
                error += size
            else:
                weights.append(weight)
                logs.append(log)
        self._lines[key] = Line(weights, logs, error.upper())
        return self._lines[key]

    def _values(
        self, c: float, scale: float, angle: float, h: float, first: int, last: int, digits: float
    ) -> list[tuple[Any, Any]]:
        """(weight, log g) at the nodes of a rule."""
        step, k, r = self.whole, arb(scale), 1 + arb(c)
        stay, log_join, turn = 1 - self.rate, self.rate.log() + step.lead, acb(0, arb(angle)).exp()
        front, less = step._front_ball() + (arb(h) * k).log(), arb(step.copies) / 2 - 1
        found = []
        for j in range(first, last + 1):
            z = (arb(h) * j).exp() * turn
            place = k * z.log1p()
            log = (stay + (log_join + step.beta * place).exp()).log()
            weight = (r * log + less * place.log() - place / 2 + front).exp() * z / (1 + z)
            found.append((weight * self._window(log, digits + 12.0), log))
        return found

    def _law_beyond(self, place: Ball, *, with_record: bool) -> Ball:
        """P(R > place) if the record is in the sample, or if it is not."""
        stretch = 1 - 2 * self.whole.beta if with_record else arb(1)  # 1/(1+t)
        return (place * stretch / 2).gamma_upper(arb(self.whole.copies) / 2, regularized=1)

    def above(self) -> tuple[Ball, Ball]:
        """E Φ((ℓ − b)/ω) under both laws: the probability of the losses above the window, with the record and without.

        Near b arb integrates with its own bounds of the error. The window is monotone beyond.
        """
        left, right = self._place(self.high - _FAR * self.width), self._place(self.high + 20.0 * self.width)
        root, order = self.width * arb(2).sqrt(), arb(self.whole.copies) / 2
        stay, log_join, left = 1 - self.rate, self.rate.log() + self.whole.lead, max(left, 1e-3)

        def window(loss: Any) -> Any:
            return ((self.high - loss) / root).erfc() / 2

        def half(with_record: bool) -> Ball:
            stretch = 1 - 2 * self.whole.beta if with_record else arb(1)
            front = -order * (2 / stretch).log() - order.lgamma()
            at = arb(max(self._place(self.high), left))
            top = front + (order - 1) * at.log() - at * stretch / 2  # the integrand is of size 1 near b

            def density(x: Any, analytic: bool) -> Any:
                loss = (stay + (log_join + self.whole.beta * x).exp()).log(analytic=analytic)
                log = x.log(analytic=analytic)
                return (front + (order - 1) * log - x * stretch / 2 - top).exp() * window(loss)

            middle = acb.integral(density, acb(left), acb(right), rel_tol=arb(2) ** -90, eval_limit=200_000).real
            below, beyond = (window((stay + self._ratio(arb(x))).log()) for x in (left, right))
            head = 1 - self._law_beyond(arb(left), with_record=with_record)
            tail = self._law_beyond(arb(right), with_record=with_record)
            return middle * top.exp() + (below * head).union(arb(0)) + tail * beyond.union(arb(1))

        without = half(False)
        return stay * without + self.rate * half(True), without

    def low_above(self, beta: float) -> Ball:
        """E e^{−βℓ} Φ((ℓ − b)/ω) with the record, at most."""
        places = (self.high + x * self.width for x in np.arange(-_FAR, 12.0, 0.25).tolist())
        edges = [e for e in map(self._place, places) if e > 0.0]
        stay, root = 1 - self.rate, self.width * arb(2).sqrt()
        total, low, mass = arb(0), (stay + self._ratio(arb(0))).log(), arb(1)
        for x in edges:
            loss = (stay + self._ratio(arb(x))).log()
            rest = stay * self._law_beyond(arb(x), with_record=False)
            rest += self.rate * self._law_beyond(arb(x), with_record=True)
            total += ((self.high - loss) / root).erfc() / 2 * (mass - rest) * (-beta * low).exp()
            low, mass = loss, rest
        return (total + mass * (-beta * low).exp()).upper()


def _log_sum(terms: Floats) -> float:
    top = float(terms.max())
    return top + math.log(float(np.exp(terms - top).sum())) if top > -math.inf else top
