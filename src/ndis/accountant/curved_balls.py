"""The moment of one Poisson-sampled pair with one variance ratio, enclosed on a whole vertical line at once.

The pair is N(m, (1+t)I) against N(0, I) in d dimensions. With β = t/(2(1+t)) and R = |x + m/t|²,

    log w = A + βR,      A = −(d/2) log(1+t) − |m|²/(2t),

and R is a noncentral chi-square variable, with noncentrality λ = |m|²/t² without the record. Its density is

    f(R) = e^{−λ/2} R^{d/2−1} e^{−R/2} ₀F₁(d/2; λR/4) / (2^{d/2} Γ(d/2)).

The moment is M(s) = ∫ g(R)^e f(R) dR with g = 1 − q + q e^{A+βR}, and e = 1 + s (remove order) or e = −s (add order).
So take e = r + iy with y ≥ 0, r = 1 + c or r = −c, as in `ndis.accountant.moment_balls`.

Theorem thm:curved-line (docs/theory.md) moves the integral to R = k log(1 + e^{u ± iα}), u real. The sign is that of t.
There 0 ≤ arg g ≤ |β|kα, so |g^{iy}| ≤ 1 for every y ≥ 0 at once. The theorem has the error of the trapezoid rule in u,
in terms of

    N_α = ∫ |g(R)|^r |f(R)| |dR|,

and bounds of the terms at both ends. N_α is bounded by cells here. The same rule bounds |M(c ± iy)| for large y by
Σ |a_j| e^{−y Im l_j} plus its error, and this falls with y.

If t > 0 in the remove order, M(c) is finite only for c < 1/t.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb, ctx

from ndis._balls import Ball, outward, precision
from ndis.accountant.curved_floats import CurvedFloats, short, to_line
from ndis.errors import PrecisionError

__all__ = ["CurvedStep"]

_MOST_NODES = 40_000
_CELL_BITS = 80
_CELL_POINTS = 1600
_MOVES = 60
_SPARE_BITS = 40
_MORE_BITS = 192
_OPEN = arb.pos_inf(), arb(1)  # a bound that says nothing


class Line(NamedTuple):
    """Sum."""

    weights: list[Any]
    logs: list[Any]
    error: Ball


class _Rule(NamedTuple):
    """A trapezoid rule in u on R = k log(1 + e^{u ± iα}), with its nodes from low to high."""

    scale: float  # k
    angle: float  # α
    step: float
    low: int
    high: int


class CurvedStep(CurvedFloats):
    """One sampled pair with one variance ratio: M in balls at the working precision, and in floats for plans.

    Parameters
    ----------
    rate, excess, shift2 : balls
        q, strictly between 0 and 1; t ≠ 0, above −1; and |m|². The pair is the law with the record in the sample,
        against the law without it.
    copies : int
        d, the number of directions.
    remove : bool
        The order: remove or add.

    Examples
    --------
    >>> step = CurvedStep(arb(0.5), arb(0.5), arb(0), 2, remove=True)
    >>> step.moment(1.0, 30.0).contains(arb(13) / 12)  # E[(½ + ½w)²] with E w² = 4/3
    True
    """

    def __init__(self, rate: Ball, excess: Ball, shift2: Ball, copies: int, *, remove: bool) -> None:
        if not (excess < 0 or excess > 0):
            raise PrecisionError("the sign of a variance ratio less 1 is not known")
        self.rate = rate
        self.beta = excess / (2 * (1 + excess))
        self.lead = -(copies * (1 + excess).log() + shift2 / excess) / 2  # A
        self.centre = shift2 / excess**2  # λ
        self.side = 1 if excess > 0 else -1
        self.limit = outward(1 / excess).lower if remove and excess > 0 else math.inf  # of c with a finite M(c)
        super().__init__(rate, self.beta, self.lead, self.centre, copies, remove=remove)

    def _rule(self, c: float, digits: float, angle: float | None) -> tuple[_Rule, float]:
        """A rule with error about e^−digits of M(c) and half the width a of its strip.

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
        step, a, middle = short(best[0]), best[1], best[2]
        low, high = self._ends(c, scale, middle, digits + 3.0)
        first, last = math.floor(low / step), math.ceil(high / step)
        if last - first > _MOST_NODES:
            raise PrecisionError(f"the moment of a sampled pair at order {c:.3g} needs too many nodes")
        return _Rule(scale, middle, step, first, last), a

    def moment(self, c: float, digits: float) -> Ball:
        """M(c) for real c, meant to be known to e^−digits."""
        rule, a = self._rule(c, digits, 0.0)
        total = sum((weight.real for weight, _ in self._nodes(c, rule)), arb(0))
        error = 2 * self._growth(c, rule.scale, a) / _damping(a, rule.step) + self._tails(c, rule)
        return total + arb(0, error.upper())

    def line(self, c: float, digits: float) -> Line:
        """The line Re s = c as a sum of geometric sequences, meant to err by e^−digits of M(c)."""
        rule, a = self._rule(c, digits, None)
        return self._on(c, rule, a, digits)

    def ceiling(self, c: float, y: float, theta: float, digits: float) -> Ball:
        """Upper bound of |M(c + iy')| for all |y'| ≥ y, from the line α = theta."""
        if theta == 0.0:
            return self.moment(c, digits).upper()
        rule, a = self._rule(c, digits, theta)
        found = self._on(c, rule, a, digits)
        pairs = zip(found.weights, found.logs, strict=True)
        return (sum((abs(weight) * (-y * log.imag).exp() for weight, log in pairs), arb(0)) + found.error).upper()

    def _on(self, c: float, rule: _Rule, a: float, digits: float) -> Line:
        """The sum over the nodes of a rule that count, and its error for every y ≥ 0."""
        edges = self._growth(c, rule.scale, rule.angle - a) + self._growth(c, rule.scale, rule.angle + a)
        error = edges / _damping(a, rule.step) + self._tails(c, rule)
        small = (arb(self.log_moment(c) - digits - 6.0).exp() / (rule.high - rule.low + 1)).lower()
        weights, logs = [], []
        for weight, log in self._nodes(c, rule):
            size = weight.abs_upper()
            if size < small:
                error += size
            else:
                weights.append(weight)
                logs.append(log)
        return Line(weights, logs, error.upper())

    def _exponent(self, c: float) -> Ball:
        return arb(c) + 1 if self.remove else -arb(c)

    def _front_ball(self) -> Ball:
        """log of e^{−λ/2} / (2^{d/2} Γ(d/2))."""
        half = arb(self.copies) / 2
        return -self.centre / 2 - half * arb(2).log() - half.lgamma()

    def _nodes(self, c: float, rule: _Rule) -> list[tuple[Any, Any]]:
        """(weight a_j, log g) at the nodes of a rule."""
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
        """(b(ρ), (log b)'(ρ)) at ρ = near: |f(R)| |R|^{min(0, 1 − d/2)} ≤ b(Re R) if |Im R| ≤ wide."""
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
        """Pairs (B, η) with |g|^r |f dR/du| at most the sum of B e^{−η(u − u')} for all u' ≤ u on the line α."""
        k, order, found = arb(scale), arb(self.copies) / 2, list[tuple[Ball, Ball]]()
        if u > 0:
            far = k * u.exp().log1p()
            size, slope = self._bell(far, k * arb(angle))
            if self.copies == 1:
                size /= (k * arb(2).log() / 2).sqrt()
            size *= k * self._power_bound(c, scale, angle, arb(0), far)
            found.append((size, k * slope / 2) if slope > 0 else _OPEN)
            u = arb(0)
        z = u.exp()
        size = self._front_ball().exp() * (1 + z) * (k * z) ** order
        if not self.centre.is_zero():
            size *= _bessel(self.centre / 4 * k * z, order)
        return [*found, (size * self._power_bound(c, scale, angle, arb(0), k * z.log1p()), order)]

    def _right(self, c: float, scale: float, angle: float, u: Ball) -> list[tuple[Ball, Ball]]:
        """Pairs (B, η) with |g|^r |f dR/du| at most the sum of B e^{−η(u' − u)} for all u' ≥ u on the line α."""
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

    def _ends(self, c: float, scale: float, angle: float, digits: float) -> tuple[float, float]:
        """Places in u beyond which the bounds are below e^−digits of M(c), or almost."""
        aim = self.log_moment(c) - digits
        found = []
        with precision(_CELL_BITS):
            starts = self._window(self._power(c), digits)
            for bound, sign, x in zip((self._left, self._right), (-1.0, 1.0), starts, strict=True):
                u = to_line(x, scale)
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
                found.append(u)
        return found[0], found[1]

    def _ratio(self, place: Ball) -> Ball:
        """w for a real R."""
        return (self.lead + self.beta * place).exp()

    def _power_bound(self, c: float, scale: float, angle: float, near: Ball, far: Ball) -> Ball:
        """Upper bound of |g|^r where near ≤ Re R ≤ far on the line α; `far` may be infinite if log w falls."""
        r = self._exponent(c)
        outer = far if (self.side > 0) == bool(r > 0) else near
        ratio = self.rate * self._ratio(outer) if outer.is_finite() else arb(0)
        if r > 0:
            return (1 - self.rate + ratio) ** r
        turn = abs(self.beta) * arb(scale) * arb(angle)
        if not turn < arb.pi() / 2:
            raise PrecisionError("the strip of a sampled pair is too wide")
        return (1 - self.rate + ratio * turn.cos()) ** r

    def _tails(self, c: float, rule: _Rule) -> Ball:
        """Upper bound of the terms of a rule outside its ends, in modulus and for every y ≥ 0."""
        step, ends = arb(rule.step), (c, rule.scale, rule.angle)
        pieces = self._left(*ends, step * (rule.low - 1)) + self._right(*ends, step * (rule.high + 1))
        return (step * sum((size / -(-step * fall).expm1() for size, fall in pieces), arb(0))).upper()

    def _growth(self, c: float, scale: float, angle: float) -> Ball:
        """Upper bound of N_α: by cells, and by the bounds of the ends outside them."""
        low, high = self._ends(c, scale, angle, 4.0)
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
        """Places in u between which the logarithms of the factors of the integrand change by about a half each."""
        u = np.linspace(low, high, _CELL_POINTS)
        speed = 1.0 / (1.0 + np.exp(-np.clip(u, -700.0, 700.0)))  # dR/du in units of k
        place = scale * np.logaddexp(0.0, u)
        tilt, part = r * self._beta, -np.expm1(np.minimum(self.log_stay - self._log_ratio(place), 0.0))
        slopes = np.where(
            part > 0.5, math.fabs(tilt - 0.5) + math.fabs(tilt) * (1.0 - part), 0.5 + math.fabs(tilt) * part
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
    """₀F₁(order; x). For large orders the first way loses digits, and the last one takes a millisecond."""
    bits = ctx.prec
    value = x.hypgeom_0f1(order)
    if value.rel_accuracy_bits() < bits - _SPARE_BITS:
        with precision(bits + _MORE_BITS):
            value = x.hypgeom_0f1(order)
    if value.rel_accuracy_bits() < bits - _SPARE_BITS:
        z = 2 * x.sqrt()
        value = z.bessel_i(order - 1) * (order.lgamma() - (order - 1) * (z / 2).log()).exp()
    return value
