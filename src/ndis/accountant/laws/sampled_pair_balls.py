"""One sampled step of any pair that is no mean shift is bounded here; a pair with one variance ratio has moments.

**Any pair.** With g = 1 − q + q w, the powers g^{1+c} and g^{−c} are convex functions of w. So M(c) ≤ 1 − q + q
e^{K(c)}, where K is the log-moment of the pair of the order without sampling, and M(c) ≤ (1−q)^{−c} in the add order.
M(c) ≥ 1, because log M is convex and is at most 0 at −1 and 0. This is all that is known of a pair with several
variance ratios: no bound of its Mellin–Barnes form falls with Im s (docs/theory.md, thm:mellin-moment). So such a step
takes its discrete stand-ins.

**One variance ratio.** The pair is N(m, (1+t)I) against N(0, I) in d dimensions. With β = t/(2(1+t)) and
R = |x + m/t|²,

    log w = A + βR,      A = −(d/2) log(1+t) − |m|²/(2t),

and R is a noncentral chi-square variable, with noncentrality λ = |m|²/t² without the record. Its density is

    f(R) = e^{−λ/2} R^{d/2−1} e^{−R/2} ₀F₁(d/2; λR/4) / (2^{d/2} Γ(d/2)).

The moment is M(s) = ∫ g(R)^e f(R) dR with g = 1 − q + q e^{A+βR}, and e = 1 + s (remove order) or e = −s (add order).
So take e = r + iy with y ≥ 0, r = 1 + c or r = −c, as in `ndis.accountant.laws.mixture_balls`.

Theorem thm:curved-line (docs/theory.md) moves the integral to R = k log(1 + e^{u ± iα}), u real. The sign is that of t.
There 0 ≤ arg g ≤ |β|kα, so |g^{iy}| ≤ 1 for every y ≥ 0 at once. Such a u is that of `ndis.accountant.laws.LineBalls`.
The theorem bounds what lies beyond two places. The factors e^{−R/2} and ₀F₁ of the integrand are large on balls, so the
code takes e^{−(√R−√λ)²/2} and e^{−√(λR)} ₀F₁ instead.

If t > 0 in the remove order, M(c) is finite only for c < 1/t. The floats of this module only propose, and no proof
rests on them. Those that answer stand in `ndis.accountant.laws.sampled_pair`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import acb, arb, ctx
from scipy.special import ive

from ndis._balls import Ball, precision
from ndis._search import log_mixture_ball
from ndis.accountant.laws import BallLaw, LineBalls, kept, log_sum, sampled_view, short
from ndis.accountant.laws.plain import PlainBalls, delta_of_pair
from ndis.errors import PrecisionError
from ndis.spectrum.invariants import Directions, reverse_direction

_WIDEST = 1.5  # the largest α, below π/2
_POINTS = 400  # nodes of an integral in floats
_DEPTH = 60.0  # log distance below the maximum of an integrand at which its window ends
_END_BITS = 80
_MOVES = 60
_SPARE_BITS = 40
_WIDE_BITS = 40  # a ball with fewer digits is wide
_MORE_BITS = 192
_OPEN = arb.pos_inf(), arb(1)  # a bound that says nothing
_UNKNOWN = (acb(arb.nan()),) * 3


class SampledPairBalls(BallLaw):
    """Bound one sampled step of any pair; `pair` is that of the order.

    >>> step = SampledPairBalls(Directions([(arb(0.5), arb(0), 2)], arb(0)), arb(0.5), remove=True)
    >>> step.moment(1.0, 30.0).contains(arb(13) / 12)  # E[(½ + ½w)²] with E w² = 4/3
    True
    """

    def __init__(self, pair: Directions, rate: Ball, *, remove: bool) -> None:
        self.pair, self.rate, self.remove, self._whole = pair, rate, remove, PlainBalls(pair)
        self.limit = self._whole.limit if remove else math.inf

    def moment(self, c: float, digits: float) -> Ball:
        """Enclose M(c) by the bounds of the module docstring."""
        bound = 1 - self.rate + self.rate * self._whole.moment(c, digits)
        if not self.remove:
            bound = bound.min(((-self.rate).log1p() * -c).exp())
        return arb(1).union(bound)

    def ends(self) -> tuple[Ball, Ball]:
        """Enclose the ends of the loss: those of log w, mixed with the rate."""
        low, high = self._whole.ends()
        if not self.remove:
            low, high = -high, -low
        low = (-self.rate).log1p() if not low.is_finite() else log_mixture_ball(self.rate, low)
        high = arb.pos_inf() if not high.is_finite() else log_mixture_ball(self.rate, high)
        return (low, high) if self.remove else (-high, -low)

    def delta(self, epsilon: float) -> Ball:
        """Enclose the δ(ε) of one step (thm:poisson-sampling)."""
        weight, inner = sampled_view(self.rate, epsilon, remove=self.remove)
        return weight if inner is None else weight * delta_of_pair(self.pair, inner)


class OneRatioBalls(LineBalls, SampledPairBalls):
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
        x = np.linspace(*self._window(self._power(c), _DEPTH), _POINTS)  # even near the limit all of it counts
        place = np.exp(x)
        return log_sum(self._log_density(place, x) + self._power(c) * self._log_ratio(place)) + math.log(x[1] - x[0])

    def _widest(self, c: float) -> float:
        """Return the largest α."""
        return _WIDEST

    def _scale(self, c: float) -> float:
        """Return the k with which g turns by less than π on the widest line, or by less than π/2 if its power falls."""
        return short((0.94 if self._power(c) > 0.0 else 0.49) * math.pi / (math.fabs(self._beta) * _WIDEST))

    @kept
    def _table(self, c: float, angle: float) -> Any:
        """Return log |f(R) dR/du| and log g(R) on the line α, and the step in u."""
        scale = self._scale(c)
        low, high = (_to_line(x, scale) for x in self._window(self._power(c), _DEPTH))
        u = np.linspace(low, high, _POINTS)
        z = np.exp(np.minimum(u, 300.0) + 1j * angle)
        unit = np.where(np.abs(z) < 1e-5, z * (1.0 - 0.5 * z), np.log(1.0 + z))
        place = scale * np.where(u > 40.0, u + 1j * angle, unit)
        value = self._log_density(place, np.log(place)).real - np.log(np.abs(place))
        value += math.log(scale) - np.log(np.abs(1.0 + 1.0 / z))
        return value, self._log_ratio(place if self._beta > 0.0 else place.conj()), float(u[1] - u[0])

    def _log_norm(self, c: float, angle: float, y: float) -> float:
        """Return log N/M(c) in floats."""
        value, ratio, step = self._table(c, angle)
        norm = log_sum(value + self._power(c) * ratio.real - y * ratio.imag) + math.log(step)
        return norm - self.log_moment(c)

    # ------------------------------------------------------------------ balls

    def line(self, c: float, step: Ball, count: int, digits: float) -> list[Any]:
        """Enclose M(c + ik·step); the power is −s in the add order."""
        values = super().line(c, step, count, digits)
        return values if self.remove else [value.conjugate() for value in values]

    def _exponent(self, c: float) -> Ball:
        return arb(c) + 1 if self.remove else -arb(c)

    def _front_ball(self) -> Ball:
        """Enclose the logarithm of e^{−λ/2} / (2^{d/2} Γ(d/2))."""
        half = arb(self.copies) / 2
        return -self.centre / 2 - half * arb(2).log() - half.lgamma()

    def _at(self, c: float, u: Any, analytic: bool) -> tuple[Any, Any, Any]:
        """Enclose the logarithm of g^r R^{d/2−1} e^{−(√R−√λ)²/2} and constants, the rest of g^r f dR/du, and log g."""
        r, k, order, z = self._exponent(c), arb(self._scale(c)), arb(self.copies) / 2, u.exp()
        if analytic and not z.real > -1:
            return _UNKNOWN
        place = k * z.log1p()
        log = (1 - self.rate + (self.rate.log() + self.lead + self.beta * place).exp()).log(analytic=analytic)
        log_f = r * log + (order - 1) * place.log(analytic=analytic) + self._front_ball() + self.centre / 2 + k.log()
        log_f -= (place.sqrt(analytic=analytic) - self.centre.sqrt()) ** 2 / 2
        return log_f, z / (1 + z) * _scaled_bessel(self.centre / 4 * place, order), log

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

    def _left(self, c: float, angle: float, u: Ball) -> list[tuple[Ball, Ball]]:
        """Return pairs (B, η) with |g|^r |f dR/du| at most the sum of B e^{−η(u − u')} for all u' ≤ u on the line α."""
        k, order, pieces = arb(self._scale(c)), arb(self.copies) / 2, list[tuple[Ball, Ball]]()
        if u > 0:
            far = k * u.exp().log1p()
            size, slope = self._bell(far, k * arb(angle))
            if self.copies == 1:
                size /= (k * arb(2).log() / 2).sqrt()
            size *= k * self._power_bound(c, angle, arb(0), far)
            pieces.append((size, k * slope / 2) if slope > 0 else _OPEN)
            u = arb(0)
        z = u.exp()
        size = self._front_ball().exp() * (1 + z) * (k * z) ** order
        if not self.centre.is_zero():
            size *= _bessel(self.centre / 4 * k * z, order)
        return [*pieces, (size * self._power_bound(c, angle, arb(0), k * z.log1p()), order)]

    def _right(self, c: float, angle: float, u: Ball) -> list[tuple[Ball, Ball]]:
        """Return pairs (B, η) with |g|^r |f dR/du| at most the sum of B e^{−η(u' − u)} for all u' ≥ u on the line α."""
        r, k = self._exponent(c), arb(self._scale(c))
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
            rise, factor = arb(0), self._power_bound(c, angle, near, arb.pos_inf())
        fall = -k * (slope + rise)
        return [(k * size * factor * (rise * near).exp(), fall) if fall > 0 else _OPEN]

    def _ends(self, c: float, angle: float, digits: float) -> tuple[float, float]:
        """Return places in u beyond which the bounds are below e^−digits of M(c), or almost."""
        aim, scale = self.log_moment(c) - digits, self._scale(c)
        places = []
        with precision(_END_BITS):
            starts = self._window(self._power(c), digits)
            for bound, sign, x in zip((self._left, self._right), (-1.0, 1.0), starts, strict=True):
                u = _to_line(x, scale)
                for _ in range(_MOVES):
                    pieces = bound(c, angle, arb(u))
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

    def _power_bound(self, c: float, angle: float, near: Ball, far: Ball) -> Ball:
        """Bound |g|^r where near ≤ Re R ≤ far on the line α; `far` may be infinite if log w falls."""
        r = self._exponent(c)
        outer = far if (self.side > 0) == bool(r > 0) else near
        ratio = self.rate * self._ratio(outer) if outer.is_finite() else arb(0)
        if r > 0:
            return (1 - self.rate + ratio) ** r
        turn = abs(self.beta) * arb(self._scale(c)) * arb(angle)
        if not turn < arb.pi() / 2:
            raise PrecisionError("the strip of a sampled pair is too wide")
        return (1 - self.rate + ratio * turn.cos()) ** r

    def _outside(self, c: float, angle: float, low: Ball, high: Ball) -> Ball:
        """Bound what lies beyond two places, by exponential functions that fall there."""
        return sum((size / fall for size, fall in self._left(c, angle, low) + self._right(c, angle, high)), arb(0))


def _bessel(x: Any, order: Ball) -> Any:
    """Enclose ₀F₁(order; x)."""
    return _scaled_bessel(x, order) * (2 * x.sqrt()).exp()


def _scaled_bessel(x: Any, order: Ball) -> Any:
    """Enclose e^{−z} ₀F₁(order; x), z = 2√x."""
    known, z = min(ctx.prec, x.rel_accuracy_bits()), 2 * x.sqrt()
    if known < _WIDE_BITS and (one := _from_middle(z, order, max(known, 0))).rel_accuracy_bits() >= known - 10:
        return one
    value = x.hypgeom_0f1(order) * (-z).exp()
    if value.rel_accuracy_bits() < known - 10:  # the two factors are far apart
        other = z.bessel_i(order - 1, scaled=True) * (order.lgamma() - (order - 1) * (z / 2).log()).exp()
        value = max(value, other, key=lambda one: one.rel_accuracy_bits())
    if value.rel_accuracy_bits() < known - _SPARE_BITS:  # a large order
        with precision(ctx.prec + _MORE_BITS):
            value = x.hypgeom_0f1(order) * (-z).exp()
    return value


def _from_middle(z: Any, order: Ball, known: int) -> Any:
    """Enclose e^{−z} ₀F₁(order; z²/4) on a wide ball, by its value in the middle and a bound of its slope.

    By Poisson's integral it is E e^{−zV} for a V between 0 and 2. So its slope in z is at most that at a real z which
    is no further right.
    """

    def scaled(z: Any, order: Ball) -> Any:
        return (z * z / 4).hypgeom_0f1(order) * (-z).exp()

    with precision(known + _SPARE_BITS):
        middle, left = z.mid(), z.real.lower()
        slope = scaled(left, order) - left / (2 * order) * scaled(left, order + 1)
        error = arb(0, (abs(z - middle) * slope).upper())
        return scaled(middle, order) + error * (1 if isinstance(z, arb) else acb(1, 1))


def _to_line(log_place: float, scale: float) -> float:
    """Return u with R = k log(1 + e^u)."""
    ratio = math.exp(log_place) / scale
    return ratio + math.log(-math.expm1(-ratio)) if ratio > 1e-8 else math.log(ratio) if ratio > 0.0 else -math.inf


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
