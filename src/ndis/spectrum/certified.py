"""Enclose δ(ε) with a certificate, by ball arithmetic from the exact inputs.

Two laws that differ only in their means have a closed form (prop:ndis-mean-analytic-form), which balls evaluate at a
precision that outlasts its cancellation.

Others take the trapezoid rule of `ndis.spectrum.contour`, with every error bounded by proof. The float64 kernel only
proposes the path, the step and the width of the strip below. The proof does not need the proposals to be good. Write
Φ(u) = F(s(u)) s'(u) with F(s) = e^{K(s)−sε}/(s(s+1)) and s(u) = c + bw(cosh u − 1) + iw sinh u. By conjugate symmetry
2πi δ = ∫Φ du over the whole path. The code encloses it as

    h Σ_{|k|≤N} Φ(kh)   ±   (trapezoid error)   ±   (rest of the path beyond u = ±R),      R = (N + ½) h.

Trapezoid error. Let Φ be analytic on the rectangle |Re u| ≤ R, |Im u| ≤ a. The integral of Φ(u) cot(πu/h)/2i around
the rectangle gives the sum by residues. In the upper half cot(πu/h)/2i = −½ − 1/(e^{−2πiu/h} − 1). In the lower half
it is ½ + 1/(e^{2πiu/h} − 1). The halves ∓½ add up to ∫_{−R}^{R} Φ. On Im u = ±a the remaining factors are at most
1/(e^{2πa/h} − 1) in modulus. On Re u = ±R, where e^{∓2πiu/h} is negative, they are at most ½. Hence

    | h Σ Φ(kh) − ∫_{−R}^{R} Φ |  ≤  (N₊ + N₋)/(e^{2πa/h} − 1) + ∫_{−a}^{a} |Φ(R + iv)| dv,

    N± = ∫_{−R}^{R} |Φ(u ± ia)| du.

The code bounds the integrals of |Φ|: it covers the lines with cells and evaluates Φ on each cell in balls. Φ is
analytic inside for two reasons. For 0 < Re u ≤ R, s(u) lies in the upper half-plane if cos a + b sin a and
cos a − b sin a are positive. On Re u = 0, s(u) is real and lies between s(ia) and s(−ia), which must lie strictly
between 0 and 1/max(t)₊.

Tail bound. Let the path end at σ + iY, Y > 0, and go on vertically to infinity. With t, m as in lemma: ndis and
s = σ + iy, y ≥ Y:

  1. |1−st|² = (1−σt)² + t²y² grows with y, so every factor |1−st|^{−n/2} is largest at y = Y.
  2. The mean terms are ½m² s(1+s)/(1−st) = ½m² [ −s/t − (1+t)/t² + (1+t)/(t²(1−st)) ]. On the ray the first two have
     constant real part. Re 1/(1−st) = (1−σt)/|1−st|² falls with y if 1−σt ≥ 0, and rises to 0 if 1−σt < 0. So the real
     part of the whole term is at most its value at Y, increased by ½m²(1+t)/t² · max(0, −Re 1/(1−s_Y t)).
  3. For t = 0 the real part ½m²(σ + σ² − y²) falls with y.
  4. |s| |s+1| ≥ y².

Hence |e^{K(s)−sε}| ≤ B on the ray, where B is the product of the bounds at Y, and
∫ |e^{K(s)−sε}| / |s(s+1)| |ds| ≤ B ∫_Y^∞ dy/y² = B/Y.

Why this path. The formula δ(ε) = (1/2πi) ∫ e^{K(s)−sε}/(s(s+1)) ds holds on the vertical line through any c in
(0, 1/max(t)₊). The integrand is analytic in the upper half-plane, where no 1 − st vanishes. By 1–4 (with any σ between
the two) it is O(y⁻²) on horizontal segments between the vertical line through c and the ray. So the upper half of the
line may be moved to the path. The lower half is its mirror image.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import numpy as np
from flint import acb, arb

from ndis._balls import Ball, outward, precision
from ndis._validate import as_scalar, require
from ndis.enclosure import Enclosure
from ndis.errors import PrecisionError
from ndis.spectrum.closed_forms import mean_shift_ball
from ndis.spectrum.contour import DELTA, LOOK, path, strip
from ndis.spectrum.invariants import Directions, Invariants
from ndis.spectrum.origins import enclose

_ATTEMPTS = 6
_CLOSED_ATTEMPTS = 4  # attempts in which the closed form decides, for two laws that differ in their means
_STRIPS = (1.1, 0.9, 0.75, 0.6, 0.5, 0.4, 0.3, 0.2, 0.12, 0.06, 0.03)
_CELLS = 4  # per unit of u, to begin with
_DEPTH = 10
_DECIDING_WIDTHS = (1e-10, 1e-17, 1e-20, 1e-25, 1e-32)


def certify(pair: Invariants, epsilon: float, *, relative_width: float = 1e-10) -> Enclosure:
    """lower ≤ δ(ε) ≤ upper with certainty, and upper − lower ≤ relative_width · δ up to the spacing of floats.

    Raises
    ------
    PrecisionError
        If the enclosure does not reach that width.
    """
    return in_floats(_enclose_delta(pair, epsilon, relative_width))


def in_floats(delta: Ball) -> Enclosure:
    """Return an enclosure of δ in floats: 0 ≤ δ ≤ 1 holds always."""
    low, high = outward(delta)
    return Enclosure(max(low, 0.0), min(high, 1.0))


def certify_log(pair: Invariants, epsilon: float, *, relative_width: float = 1e-10) -> Enclosure:
    """Certified enclosure of log δ(ε), for values below the smallest float; −inf if δ is exactly zero."""
    return log_of(_enclose_delta(pair, epsilon, relative_width))


def log_of(ball: Ball) -> Enclosure:
    """Return an enclosure of log δ in floats; −inf if δ is exactly zero, and from −inf if it may be."""
    if ball == 0:
        return Enclosure(-math.inf, -math.inf)
    with precision(128):
        low = outward(ball.lower().log()).lower if ball > 0 else -math.inf
        return Enclosure(low, min(outward(ball.upper().log()).upper, 0.0))


def exceeds(pair: Invariants, epsilon: float, delta: float) -> bool | None:
    """Say if δ(ε) > delta; None if no width tried decides.

    The ball itself decides, not the floats around it: as a rule δ lies strictly between two floats.
    """
    claimed = as_scalar("delta", delta)
    for width in _DECIDING_WIDTHS:
        with suppress(PrecisionError):  # a path planned for another width may succeed
            ball = _enclose_delta(pair, epsilon, width)
            if ball > claimed or ball <= claimed:
                return bool(ball > claimed)
    return None


def _enclose_delta(pair: Invariants, epsilon: float, relative_width: float) -> Ball:
    """Enclose δ(ε) to a relative width, at higher and higher precision."""
    e, width = as_scalar("epsilon", epsilon), as_scalar("relative_width", relative_width)
    require(0 < width < 1, "relative_width", "lie strictly between 0 and 1", width)
    remedy = "make it with one of the from_ constructors"
    require(pair.origins, "pair", "know its exact inputs to be certified", "none", remedy)
    reached, bits = math.inf, 80 - round(math.log2(width))
    for number in range(_ATTEMPTS):
        with precision(bits):
            directions = enclose(pair.origins, bits)
            digits = 6.0 * (1 + number) - math.log(width)
            ball = None if directions is None else _delta_ball(directions, e, digits, number)
            if ball is not None and ball > 0:
                reached = min(reached, float((2 * ball.rad() / ball.lower()).upper()))
            if ball is not None and (ball == 0 or (ball > 0 and reached <= width)):
                return ball
        bits = bits * 7 // 4
    raise too_wide("delta", e, width, reached)


def too_wide(what: str, epsilon: float, width: float, reached: float, reason: str = "") -> PrecisionError:
    """Return the error of an enclosure that is wider than it should be."""
    words = f"the enclosure of {what} at epsilon = {epsilon!r} did not shrink to relative width {width:g}"
    return PrecisionError(f"{words}; reached {reached:.3g}{reason}", reached=reached)


def _delta_ball(directions: Directions, epsilon: float, digits: float, narrower: int = 0) -> Ball | None:
    """δ(ε) as a ball at the working precision, without the `narrower` widest strips; None if this cannot decide."""
    if directions.mutually_singular:
        return arb(1)
    eps = arb(epsilon)
    if not directions.curved and directions.flat == 0:
        return arb(0) if epsilon >= 0 else -eps.expm1()
    if not directions.curved and narrower < _CLOSED_ATTEMPTS:
        ball = mean_shift_ball(eps, directions.flat) * arb(1, math.exp(-digits) / 16.0)  # room for the float value
        return ball if ball > 0 else None
    gap = None
    if directions.side:
        gap = directions.edge() - eps
        if directions.side < 0 and gap <= 0:
            return arb(0)
        if directions.side > 0 and gap >= 0 and epsilon < 0:
            return -eps.expm1()
        if not (gap > 0 or gap < 0):
            return None
    return _Integral(directions, eps, gap).value(digits, narrower)


class _Integral:
    """This class is the contour integral of one pair at one ε, at the working precision."""

    def __init__(self, directions: Directions, eps: Ball, gap: Ball | None) -> None:
        self.curved, self.flat = directions.curved, directions.flat
        # the coefficient of s outside the logarithms and the mean terms, and K'(0) − ε
        linear, mean = -eps, -eps + self.flat / 2
        for t, m2, n in self.curved:
            log_ratio = (1 + t).log()
            linear -= n * log_ratio / 2
            mean += n * (t - log_ratio + m2) / 2
        # near the end of a bounded support, the linear part of the mean terms joins −ε in the gap
        self.near_edge = gap is not None and bool(4 * abs(gap) < abs(mean))
        self.linear: Ball = gap if self.near_edge else linear
        self.centre: Ball = gap if self.near_edge else mean
        # 1 − st vanishes only on the real axis outside (low, high)
        self.low = max((outward(1 / t).upper for t, _, _ in self.curved if not t >= 0), default=-math.inf)
        self.high = min((outward(1 / t).lower for t, _, _ in self.curved if not t <= 0), default=math.inf)

    def value(self, digits: float, narrower: int) -> Ball | None:
        """Return the integral with the bounds of what the sum leaves out; None if the plan fails."""
        plan = self._plan(digits, narrower)
        if plan is None:
            return None
        c, w, bend, a, h, n = plan
        self.c, self.w, self.bend = arb(c), arb(w), arb(bend)
        start = self._moment(acb(c)).real / (self.c * (1 + self.c))
        self.scale = start.mid()
        total = start / self.scale / 2
        for k in range(1, n + 1):
            s, speed = self._place(arb(h) * k)
            total += (self._moment(s) * speed / (s * (1 + s) * self.scale)).imag
        end = arb(h) * n + arb(h) / 2
        with precision(64):
            error = self._trapezoid_error(arb(a), arb(h), end) / 2 + self._rest(end)
        if not error.is_finite():
            return None
        return (arb(h) * total + arb(0, error.upper())) * self.w * self.scale / arb.pi()

    def _plan(self, digits: float, narrower: int) -> tuple[float, float, float, float, float, int] | None:
        """Return the path, half-width a of the strip, step h and number of nodes for a relative error near e^−digits.

        They come from the float64 kernel. They should be good; the proof does not need them to be.
        """
        t, ratio, nu, q = (np.array(x) for x in zip(*self._floats(), strict=True))
        lin, edge = float(self.centre), self.near_edge
        c, w, bend, looks, base, _ = path(-digits, lin, t, ratio, nu, q, edge, DELTA)
        if not looks:
            return None
        best = None
        for a in _STRIPS[narrower:]:
            height, end = strip(a, -digits, LOOK * looks, c, w, bend, base, lin, t, ratio, nu, q, edge, DELTA)
            if not end > 0.0:
                continue
            h = 2.0 * math.pi * a / (digits + 4.0 + max(height, 0.0))
            nodes = math.ceil(end / h)
            if best is None or nodes < best[-1]:
                best = (c, w, bend, a, h, nodes)
        return best

    def _place(self, u: Any) -> tuple[Any, Any]:
        """Return s(u) and s'(u)/w."""
        up = acb(u).exp()
        down = 1 / up
        cosh, sinh = (up + down) / 2, (up - down) / 2
        i = acb(0, 1)
        return self.c + self.w * (self.bend * (cosh - 1) + i * sinh), self.bend * sinh + i * cosh

    def _trapezoid_error(self, a: Ball, h: Ball, end: Ball) -> Ball:
        """The bound of the module docstring, over w·scale; infinite if Φ is not shown analytic on the rectangle."""
        crossings = [self._place(acb(0, side * a))[0].real for side in (1, -1)]
        tilt = self.bend * a.sin()
        if not (all(x > 0 and x < self.high for x in crossings) and a.cos() + tilt > 0 and a.cos() - tilt > 0):
            return arb.pos_inf()
        damping = (2 * arb.pi() * a / h).exp() - 1
        enough = arb(0.1)
        lines = sum((2 * self._modulus_integral(acb(0, y), acb(end, y), enough) for y in (a, -a)), arb(0))
        return lines / damping + self._modulus_integral(acb(end, -a), acb(end, a), enough / damping)

    def _modulus_integral(self, start: Any, stop: Any, enough: Ball) -> Ball:
        """Upper bound of ∫ |Φ| / (w·scale) along a straight line in u, cell by cell.

        A cell is halved if its bound is loose and above `enough`.
        """
        count = max(8, math.ceil(_CELLS * float(abs(stop - start))))
        todo = [(k / count, 1.0 / count, 0) for k in range(count)]
        total = arb(0)
        while todo:
            at, piece, depth = todo.pop()
            bound, typical = self._modulus(start, stop - start, at + piece / 2, piece / 2)
            if depth < _DEPTH and not (bound < enough or bound < 30 * typical):
                todo += [(at, piece / 2, depth + 1), (at + piece / 2, piece / 2, depth + 1)]
            else:
                total += bound.upper() * piece
        return total * abs(stop - start)

    def _modulus(self, start: Any, along: Any, at: float, radius: float) -> tuple[Ball, Ball]:
        """|Φ| / (w·scale) on the cell start + along·[at ± radius], and at its midpoint.

        It uses the mean value theorem for log Φ along the cell. Only the slope along the cell counts, and terms that
        cancel in it do cancel.
        """
        s, speed = self._place(start + along * arb(at, radius))
        if not (s.imag > 0 or (s.real > self.low and s.real < self.high)):
            return arb.pos_inf(), arb(0)
        middle, turn = self._place(start + along * arb(at))
        typical = abs(self._moment(middle) * turn / (middle * (1 + middle) * self.scale))
        slope = self._slope(s) - 1 / s - 1 / (1 + s)
        bend = (s - self.c + self.w * self.bend) / (self.w * speed)  # s''/s'
        growth = abs((along * (slope * speed * self.w + bend)).real)
        return typical * (growth * radius).exp(), typical

    def _floats(self) -> list[tuple[float, float, float, float]]:
        rows = [(float(t), float(1 + t), float(n), float(n * m2 * (1 + t))) for t, m2, n in self.curved]
        return sorted(rows, key=lambda row: row[2]) + ([(0.0, 1.0, 0.0, float(self.flat))] if self.flat != 0 else [])

    def _moment(self, s: Any) -> Any:
        """Return e^{K(s) − sε} at a point with Re s inside (low, high) or Im s > 0.

        There no 1 − st touches the cut of the square root.
        """
        both = s * (1 + s) / 2
        exponent = self.linear * s + self.flat * both
        roots = []
        logs = acb(0)
        for t, m2, n in self.curved:
            v = 1 - s * t
            if m2 != 0:  # ½ s(1+s)/(1−st) = −s/(2t) + ½ (1+t)/t · s/(1−st)
                exponent += (n * m2 * (1 + t) / (2 * t)) * (s / v) if self.near_edge else (n * m2) * (both / v)
            if n == 1:
                roots.append(v.sqrt())
            else:
                logs += n * v.log()
        while len(roots) > 1:  # a balanced tree: a long chain of complex products would inflate the balls
            roots = [x * y for x, y in zip(roots[::2], roots[1::2], strict=False)] + roots[len(roots) & ~1 :]
        return (exponent - logs / 2).exp() / (roots[0] if roots else 1)

    def _slope(self, s: Any) -> Any:
        """Return d/ds of K(s) − sε.

        The mean terms s(1+s)/(1−st) are s + (1+t)s²/(1−st), or −s/t − (1+t)/t² + (1+t)/(t²(1−st)) if |st| > 2. On a
        wide box only the latter form lets the directions cancel.
        """
        total = self.linear + self.flat * (2 * s + 1) / 2
        for t, m2, n in self.curved:
            z = s * t
            i = 1 / (1 - z)
            total += (n * t / 2) * i
            if m2 != 0:
                if self.near_edge:
                    term = (1 + t) / t * i * i
                elif abs(z) > 2:
                    term = (1 + t) / t * i * i - 1 / t
                else:
                    term = 1 + (1 + t) * s * (1 + i) * i
                total += (n * m2 / 2) * term
        return total

    def _rest(self, end: Ball) -> Ball:
        """B/Y of the tail bound above, over w·scale, from the end of the path."""
        s, _ = self._place(end)
        bound = abs(self._moment(s))
        for t, m2, n in self.curved:
            inverse = (1 / (1 - s * t)).real
            if m2 != 0 and not inverse >= 0:
                bound *= (n * m2 * (1 + t) / (2 * t * t) * (-inverse)).max(arb(0)).exp()
        return bound / (s.imag * self.w * self.scale)
