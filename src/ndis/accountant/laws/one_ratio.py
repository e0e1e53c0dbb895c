"""One sampled pair with one variance ratio has moments that this module encloses on a whole vertical line at once.

The pair is N(m, (1+t)I) against N(0, I) in d dimensions. With β = t/(2(1+t)) and R = |x + m/t|²,

    log w = A + βR,      A = −(d/2) log(1+t) − |m|²/(2t),

and R is a noncentral chi-square variable, with noncentrality λ = |m|²/t² without the record. Its density is

    f(R) = e^{−λ/2} R^{d/2−1} e^{−R/2} ₀F₁(d/2; λR/4) / (2^{d/2} Γ(d/2)).

The moment is M(s) = ∫ g(R)^e f(R) dR with g = 1 − q + q e^{A+βR}, and e = 1 + s (remove order) or e = −s (add order).
So take e = r + iy with y ≥ 0, r = 1 + c or r = −c, as in `ndis.accountant.laws.mixture_balls`.

Theorem thm:curved-line (docs/theory.md) moves the integral to R = k log(1 + e^{u ± iα}), u real. The sign is that of t.
There 0 ≤ arg g ≤ |β|kα, so |g^{iy}| ≤ 1 for every y ≥ 0 at once. The theorem has the error of the trapezoid rule in u
in terms of N_α = ∫ |g(R)|^r |f(R)| |dR|, and bounds of the terms at both ends. N_α is bounded by cells here.
The same rule bounds |M(c ± iy)| for large y by Σ |a_j| e^{−y Im l_j} plus its error, and this falls with y.

If t > 0 in the remove order, M(c) is finite only for c < 1/t. The floats of this module only propose, and no proof
rests on them. Those that answer stand in `ndis.accountant.laws.sampled_pair`.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb, ctx
from scipy.special import ive

from ndis._balls import Ball, precision
from ndis.accountant.laws import geometric, kept
from ndis.accountant.laws.sampled_pair_balls import SampledPairBalls
from ndis.errors import PrecisionError
from ndis.spectrum.invariants import Directions, reverse_direction

__all__ = ["OneRatioBalls"]

_TURNS = 20  # angles tried for a ceiling
_WIDEST = 1.5  # the largest α, below π/2
_POINTS = 400  # nodes of an integral in floats
_DEPTH = 60.0  # log distance below the maximum of an integrand at which its window ends
_MOST_NODES = 40_000
_CELL_BITS = 80
_CELL_POINTS = 1600
_MOVES = 60
_SPARE_BITS = 40
_MORE_BITS = 192
_OPEN = arb.pos_inf(), arb(1)  # a bound that says nothing


class _Line(NamedTuple):
    """Keep M(c + iy) = Σ weights e^{iy·logs} ± error, for every y ≥ 0."""

    weights: tuple[Any, ...]
    logs: tuple[Any, ...]
    error: Ball


class _RatioRule(NamedTuple):
    """Describe a trapezoid rule in u on R = k log(1 + e^{u ± iα}), with its nodes from low to high."""

    scale: float  # k
    angle: float  # α
    step: float
    low: int
    high: int


class OneRatioBalls(SampledPairBalls):
    """Enclose the moments of one sampled pair with one variance ratio at the working precision.

    Parameters
    ----------
    pair : Directions
        The pair of the order, every direction with the same t ≠ 0.
    rate : ball
        q, strictly between 0 and 1.
    remove : bool
        The order: remove or add.

    Examples
    --------
    >>> step = OneRatioBalls(Directions([(arb(0.5), arb(0), 2)], arb(0)), arb(0.5), remove=True)
    >>> step.moment(1.0, 30.0).contains(arb(13) / 12)  # E[(½ + ½w)²] with E w² = 4/3
    True
    """

    def __init__(self, pair: Directions, rate: Ball, *, remove: bool) -> None:
        super().__init__(pair, rate, remove=remove)
        t, _, _ = pair.curved[0]
        square, self.copies = sum((m2 * n for _, m2, n in pair.curved), arb(0)), sum(n for _, _, n in pair.curved)
        if not remove:  # the law with the record is the second one
            t, square, _ = reverse_direction((t, square, self.copies))
        if not (t < 0 or t > 0):
            raise PrecisionError("the sign of a variance ratio less 1 is not known")
        self.side = 1 if t > 0 else -1
        self.beta, self.centre = t / (2 * (1 + t)), square / t**2  # β and λ
        self.lead = -(self.copies * (1 + t).log() + square / t) / 2  # A
        self.q, self.log_stay = float(rate), float((-rate).log1p())
        self._beta, self._lead, self._lam = float(self.beta), float(self.lead), float(self.centre)
        self._half = 0.5 * self.copies
        self._front = -0.5 * self._lam - self._half * math.log(2.0) - math.lgamma(self._half)

    # ------------------------------------------------------------------ floats, for plans only

    def _power(self, c: float) -> float:
        return 1.0 + c if self.remove else -c

    def _log_ratio(self, place: Any) -> Any:
        """Return log g(R) in floats, for real or complex R."""
        v = math.log(self.q) + self._lead + self._beta * place
        if not np.iscomplexobj(v):
            return np.logaddexp(self.log_stay, v)
        big = v.real > 300.0
        return np.where(big, v, np.log(math.exp(self.log_stay) + np.exp(np.where(big, 0.0, v))))

    def _log_density(self, place: Any, log_place: Any) -> Any:
        """Return log of R f(R) in floats."""
        value = self._front + self._half * log_place - 0.5 * place
        return value + _log_bessel(self._half, 0.25 * self._lam * place) if self._lam > 0.0 else value

    @kept
    def _window(self, r: float, digits: float) -> tuple[float, float]:
        """Return log R at the ends of the places where the integrand over log R is above e^−digits of its maximum."""
        left = 1.0 - 2.0 * max(r, 0.0) * max(self._beta, 0.0)
        if not left > 0.0:
            raise PrecisionError(f"the moment of a sampled pair is infinite at the power {r:.3g}")
        size = self.copies + self._lam
        extra = digits + _DEPTH + math.fabs(r) * (self._log_ratio(np.zeros(1))[0] - self.log_stay)
        low = math.log(size) - 4.0 - extra / self._half
        high = math.log(4.0 * (size / left + extra) / left)
        for _ in range(3):
            x = np.linspace(low, high, 3 * _POINTS)
            place = np.exp(x)
            value = r * self._log_ratio(place) + self._log_density(place, x)
            inside = np.flatnonzero(value > value.max() - digits)
            first, last = max(inside[0] - 1, 0), min(inside[-1] + 1, x.size - 1)
            low, high = float(x[first]), float(x[last])
        return low, high

    @kept
    def log_moment(self, c: float) -> float:
        """Return log M(c) to about float accuracy; inf where M is infinite."""
        if self.remove and 2.0 * (1.0 + c) * self._beta >= 1.0:
            return math.inf
        x = np.linspace(*self._window(self._power(c), _DEPTH), _POINTS)
        place = np.exp(x)
        return _log_sum(self._log_density(place, x) + self._power(c) * self._log_ratio(place)) + math.log(x[1] - x[0])

    def _most_angle(self, r: float, scale: float) -> float:
        """Return the largest α of a strip."""
        return min(_WIDEST, (0.94 if r > 0.0 else 0.49) * math.pi / (math.fabs(self._beta) * scale))

    @kept
    def _table(self, c: float, scale: float, angle: float) -> Any:
        """Return log |f(R) dR/du| and log g(R) on the line α of the scale k, and the step in u."""
        low, high = (_to_line(x, scale) for x in self._window(self._power(c), _DEPTH))
        u = np.linspace(low, high, _POINTS)
        z = np.exp(np.minimum(u, 300.0) + 1j * angle)
        unit = np.where(np.abs(z) < 1e-5, z * (1.0 - 0.5 * z), np.log(1.0 + z))
        place = scale * np.where(u > 40.0, u + 1j * angle, unit)
        value = self._log_density(place, np.log(place)).real - np.log(np.abs(place))
        value += math.log(scale) - np.log(np.abs(1.0 + 1.0 / z))
        return value, self._log_ratio(place if self._beta > 0.0 else place.conj()), float(u[1] - u[0])

    def _log_growth(self, c: float, scale: float, angle: float) -> float:
        """Return log N_α/M(c), roughly."""
        value, ratio, step = self._table(c, scale, angle)
        return _log_sum(value + self._power(c) * ratio.real) + math.log(step) - self.log_moment(c)

    @kept
    def _scale(self, c: float) -> float:
        """Return a k for which lines are short sums."""
        r = self._power(c)
        ends = self._window(r, 50.0)
        best = (math.inf, 1.0)
        for scale in np.geomspace(0.1, 100.0, 10) * math.sqrt(2.0 * self.copies + 4.0 * self._lam):
            length = _to_line(ends[1], scale) - _to_line(ends[0], scale)
            for share in (0.3, 0.6, 0.95):
                angle = share * self._most_angle(r, scale)
                cost = length * (45.0 + self._log_growth(c, scale, angle)) / angle
                best = min(best, (cost, float(scale)))
        return _short(best[1])

    def log_ceiling(self, c: float, y: float) -> float:
        """Return the logarithm of the smallest ceiling found at c + iy less log M(c)."""
        return self._best_angle(c, y)[0]

    def _best_angle(self, c: float, y: float) -> tuple[float, float]:
        """Return the logarithm of `log_ceiling` and its α; α = 0 stands for M(c)."""
        r, scale, base = self._power(c), self._scale(c), self.log_moment(c)
        best = (0.0, 0.0)
        for angle in (self._most_angle(r, scale) * np.geomspace(0.01, 0.9, _TURNS)).tolist():
            value, ratio, step = self._table(c, scale, angle)
            best = min(best, (_log_sum(value + r * ratio.real - y * ratio.imag) + math.log(step) - base, angle))
        return best

    # ------------------------------------------------------------------ balls

    def _rule(self, c: float, digits: float, angle: float | None) -> tuple[_RatioRule, float]:
        """Return a rule with error about e^−digits of M(c), and half the width a of its strip.

        Without an angle the line lies in the middle of the strip from 0. The strip of the angle 0 is −a to a.
        """
        r, scale = self._power(c), self._scale(c)
        most = self._most_angle(r, scale)
        best = (0.0, 0.0, 0.0)
        for share in np.geomspace(0.1, 0.98, 8):
            if angle is None:
                a = 0.5 * share * most
            elif angle == 0.0:
                a = share * most
            else:
                a = share * min(angle, most - angle)
            middle = a if angle is None else angle
            step = 2.0 * math.pi * a / (digits + 3.0 + max(self._log_growth(c, scale, middle + a), 0.0))
            best = max(best, (step, float(a), middle))
        step, a, middle = _short(best[0]), best[1], best[2]
        low, high = self._ends_of_rule(c, scale, middle, digits + 3.0)
        first, last = math.floor(low / step), math.ceil(high / step)
        if last - first > _MOST_NODES:
            raise PrecisionError(f"the moment of a sampled pair at order {c:.3g} needs too many nodes")
        return _RatioRule(scale, middle, step, first, last), a

    def moment(self, c: float, digits: float) -> Ball:
        """Enclose M(c)."""
        rule, a = self._rule(c, digits, 0.0)
        total = sum((weight.real for weight, _ in self._nodes(c, rule)), arb(0))
        error = 2 * self._growth(c, rule.scale, a) / _damping(a, rule.step) + self._tails(c, rule)
        return total + arb(0, error.upper())

    def line(self, c: float, step: Ball, count: int, digits: float) -> list[Any]:
        """Enclose M(c + ik·step), from one rule for all k: a sum of geometric sequences."""
        values = geometric(*self._on(c, *self._rule(c, digits, None)), step, count)
        return values if self.remove else [value.conjugate() for value in values]  # e = −s in the add order

    def ceiling(self, c: float, y: float, digits: float) -> Ball:
        """Bound |M(c + iy')| for all y' ≥ y, from the line α that promises most."""
        angle = self._best_angle(c, y)[1]
        if angle == 0.0:
            return self.moment(c, digits).upper()
        weights, logs, error = self._on(c, *self._rule(c, digits, angle))
        pairs = zip(weights, logs, strict=True)
        return (sum((abs(weight) * (-y * log.imag).exp() for weight, log in pairs), arb(0)) + error).upper()

    def _on(self, c: float, rule: _RatioRule, a: float) -> _Line:
        """Return the sum over the nodes of a rule, and its error for every y ≥ 0."""
        edges = self._growth(c, rule.scale, rule.angle - a) + self._growth(c, rule.scale, rule.angle + a)
        error = edges / _damping(a, rule.step) + self._tails(c, rule)
        weights, logs = zip(*self._nodes(c, rule), strict=True)
        return _Line(weights, logs, error.upper())

    def _exponent(self, c: float) -> Ball:
        return arb(c) + 1 if self.remove else -arb(c)

    def _front_ball(self) -> Ball:
        """Enclose the logarithm of e^{−λ/2} / (2^{d/2} Γ(d/2))."""
        half = arb(self.copies) / 2
        return -self.centre / 2 - half * arb(2).log() - half.lgamma()

    def _nodes(self, c: float, rule: _RatioRule) -> list[tuple[Any, Any]]:
        """Enclose (weight a_j, log g) at the nodes of a rule."""
        r, k, step = self._exponent(c), arb(rule.scale), arb(rule.step)
        stay, log_join, beta = 1 - self.rate, self.rate.log() + self.lead, self.beta
        order = arb(self.copies) / 2
        front, less, quarter = self._front_ball() + (step * k).log(), order - 1, self.centre / 4
        central = self.centre.is_zero()
        turn = acb(0, self.side * arb(rule.angle)).exp()
        out = []
        for j in range(rule.low, rule.high + 1):
            z = (step * j).exp() * turn
            place = k * z.log1p()
            log = (stay + (log_join + beta * place).exp()).log()
            weight = (r * log + less * place.log() - place / 2 + front).exp() * z / (1 + z)
            if not central:
                weight *= _bessel(quarter * place, order)
            out.append((weight, log))
        return out

    # The bounds below are those of thm:curved-line.

    def _bell(self, near: Ball, wide: Ball) -> tuple[Ball, Ball]:
        """Enclose b(ρ) and (log b)'(ρ) at ρ = near: |f(R)| |R|^{min(0, 1 − d/2)} ≤ b(Re R) if |Im R| ≤ wide."""
        order, at = arb(self.copies) / 2, near + wide
        size, slope = (self._front_ball() - near / 2).exp(), arb(-0.5)
        if self.copies > 2:
            size, slope = size * at ** (order - 1), slope + (order - 1) / at
        if not self.centre.is_zero():
            x = self.centre / 4 * (near + wide / 2)
            value = _bessel(x, order)
            size, slope = size * value, slope + self.centre / 4 * _bessel(x, order + 1) / (order * value)
        return size, slope

    def _left(self, c: float, scale: float, angle: float, u: Ball) -> list[tuple[Ball, Ball]]:
        """Return pairs (B, η) with |g|^r |f dR/du| at most the sum of B e^{−η(u − u')} for all u' ≤ u on the line α."""
        k, order, pieces = arb(scale), arb(self.copies) / 2, list[tuple[Ball, Ball]]()
        if u > 0:
            far = k * u.exp().log1p()
            size, slope = self._bell(far, k * arb(angle))
            if self.copies == 1:
                size /= (k * arb(2).log() / 2).sqrt()
            size *= k * self._power_bound(c, scale, angle, arb(0), far)
            pieces.append((size, k * slope / 2) if slope > 0 else _OPEN)
            u = arb(0)
        z = u.exp()
        size = self._front_ball().exp() * (1 + z) * (k * z) ** order
        if not self.centre.is_zero():
            size *= _bessel(self.centre / 4 * k * z, order)
        return [*pieces, (size * self._power_bound(c, scale, angle, arb(0), k * z.log1p()), order)]

    def _right(self, c: float, scale: float, angle: float, u: Ball) -> list[tuple[Ball, Ball]]:
        """Return pairs (B, η) with |g|^r |f dR/du| at most the sum of B e^{−η(u' − u)} for all u' ≥ u on the line α."""
        r, k = self._exponent(c), arb(scale)
        near = k * u
        if not near > 0:
            return [_OPEN]
        size, slope = self._bell(near, k * arb(angle))
        if self.copies == 1:
            size /= near.sqrt()
        if r > 0 and self.side > 0:
            rise = r * self.beta  # g = w (q + (1−q)/w), and w rises
            factor = (r * self.lead).exp() * (self.rate + (1 - self.rate) / self._ratio(near)) ** r
        else:
            rise, factor = arb(0), self._power_bound(c, scale, angle, near, arb.pos_inf())
        fall = -k * (slope + rise)
        return [(k * size * factor * (rise * near).exp(), fall) if fall > 0 else _OPEN]

    def _ends_of_rule(self, c: float, scale: float, angle: float, digits: float) -> tuple[float, float]:
        """Return places in u beyond which the bounds are below e^−digits of M(c), or almost."""
        aim = self.log_moment(c) - digits
        places = []
        with precision(_CELL_BITS):
            starts = self._window(self._power(c), digits)
            for bound, sign, x in zip((self._left, self._right), (-1.0, 1.0), starts, strict=True):
                u = _to_line(x, scale)
                for _ in range(_MOVES):
                    pieces = bound(c, scale, angle, arb(u))
                    total = sum((size / fall for size, fall in pieces), arb(0))
                    if not total.is_finite():
                        u += sign * max(1.0, 0.3 * math.fabs(u))
                    elif (over := float(total.log()) - aim) > 0.0:
                        move = over / float(pieces[0][1]) + 0.05
                        u += sign * (min(move, 4.0 + 0.5 * u) if u > 0.0 else move)
                    else:
                        break
                places.append(u)
        return places[0], places[1]

    def _ratio(self, place: Ball) -> Ball:
        """Enclose w at a real R."""
        return (self.lead + self.beta * place).exp()

    def _power_bound(self, c: float, scale: float, angle: float, near: Ball, far: Ball) -> Ball:
        """Bound |g|^r where near ≤ Re R ≤ far on the line α; `far` may be infinite if log w falls."""
        r = self._exponent(c)
        outer = far if (self.side > 0) == bool(r > 0) else near
        ratio = self.rate * self._ratio(outer) if outer.is_finite() else arb(0)
        if r > 0:
            return (1 - self.rate + ratio) ** r
        turn = abs(self.beta) * arb(scale) * arb(angle)
        if not turn < arb.pi() / 2:
            raise PrecisionError("the strip of a sampled pair is too wide")
        return (1 - self.rate + ratio * turn.cos()) ** r

    def _tails(self, c: float, rule: _RatioRule) -> Ball:
        """Bound the terms of a rule outside its ends, in modulus and for every y ≥ 0."""
        step, ends = arb(rule.step), (c, rule.scale, rule.angle)
        pieces = self._left(*ends, step * (rule.low - 1)) + self._right(*ends, step * (rule.high + 1))
        return (step * sum((size / -(-step * fall).expm1() for size, fall in pieces), arb(0))).upper()

    def _growth(self, c: float, scale: float, angle: float) -> Ball:
        """Bound N_α: by cells, and by the bounds of the ends outside them."""
        low, high = self._ends_of_rule(c, scale, angle, 4.0)
        with precision(_CELL_BITS):
            k, r, order = arb(scale), self._exponent(c), arb(self.copies) / 2
            if not (arb(angle) < arb.pi() / 2 and abs(self.beta) * k * arb(angle) < arb.pi()):
                raise PrecisionError("the strip of a sampled pair is too wide")
            pieces = self._left(c, scale, angle, arb(low)) + self._right(c, scale, angle, arb(high))
            total = sum((size / fall for size, fall in pieces), arb(0))
            stay, log_join, central = 1 - self.rate, self.rate.log() + self.lead, self.centre.is_zero()
            turn, front, less, eighth = acb(0, arb(angle)).exp(), self._front_ball(), order - 1, self.centre / 8
            join, middle = log_join.exp(), arb(self.log_stay)
            edges = [arb(u) for u in self._cells(self._power(c), scale, low, high)]
            for start, end in pairwise(edges):
                z = start.union(end).exp() * turn
                place = k * z.log1p()
                log_w = log_join + self.beta * place
                if log_w.real.mid() > middle:  # g e^{−βR} changes less than g
                    ratio, slope = abs(stay * (-self.beta * place).exp() + join), r * self.beta - 0.5
                else:
                    ratio, slope = abs(stay + log_w.exp()), arb(-0.5)
                size = (ratio.upper() if r > 0 else ratio.lower()).log() * r
                size += abs(place).log() * less + place.real * slope + front
                if not central:
                    size += _bessel((eighth * (abs(place) + place.real)).upper(), order).log()
                total += (size.exp() * k * abs(z / (1 + z))).upper() * (end - start)
            if not total.is_finite():
                raise PrecisionError(f"the strip of a sampled pair at order {c:.3g} was not bounded")
            return total.upper()

    def _cells(self, r: float, scale: float, low: float, high: float) -> list[float]:
        """Return places in u between which the log of each factor of the integrand changes by about a half."""
        u = np.linspace(low, high, _CELL_POINTS)
        speed = 1.0 / (1.0 + np.exp(-np.clip(u, -700.0, 700.0)))  # dR/du in units of k
        place = scale * np.logaddexp(0.0, u)
        tilt, share = r * self._beta, -np.expm1(np.minimum(self.log_stay - self._log_ratio(place), 0.0))
        slopes = np.where(
            share > 0.5, math.fabs(tilt - 0.5) + math.fabs(tilt) * (1.0 - share), 0.5 + math.fabs(tilt) * share
        )
        slopes = slopes + math.fabs(self._half - 1.0) / place
        if self._lam > 0.0:
            slopes = slopes + np.minimum(0.5 * math.sqrt(self._lam) / np.sqrt(place), 0.5 * self._lam / self.copies)
        rate = 2.0 * scale * speed * slopes + 2.0
        total = np.concatenate([[0.0], np.cumsum(0.5 * (rate[1:] + rate[:-1]) * np.diff(u))])
        count = min(math.ceil(total[-1]), _MOST_NODES)
        return [low, *np.interp(np.linspace(0.0, total[-1], count + 1)[1:-1], total, u).tolist(), high]


def _damping(a: float, step: float) -> Ball:
    return (2 * arb.pi() * arb(a) / arb(step)).expm1()


def _bessel(x: Any, order: Ball) -> Any:
    """Enclose ₀F₁(order; x). For large orders the first way loses digits, and the last one takes a millisecond."""
    bits = ctx.prec
    value = x.hypgeom_0f1(order)
    if value.rel_accuracy_bits() < bits - _SPARE_BITS:
        with precision(bits + _MORE_BITS):
            value = x.hypgeom_0f1(order)
    if value.rel_accuracy_bits() < bits - _SPARE_BITS:
        z = 2 * x.sqrt()
        value = z.bessel_i(order - 1) * (order.lgamma() - (order - 1) * (z / 2).log()).exp()
    return value


def _short(x: float) -> float:
    """Return x rounded down to a few bits."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.floor(math.ldexp(mantissa, 12)), exponent - 12)


def _to_line(log_place: float, scale: float) -> float:
    """Return u with R = k log(1 + e^u)."""
    ratio = math.exp(log_place) / scale
    return ratio + math.log(-math.expm1(-ratio)) if ratio > 1e-8 else math.log(ratio) if ratio > 0.0 else -math.inf


def _log_sum(values: Any) -> float:
    top = float(values.max())
    return top + math.log(float(np.exp(values - top).sum()))


def _log_bessel(order: float, x: Any) -> Any:
    """Return log ₀F₁(order; x) in floats, roughly."""
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
