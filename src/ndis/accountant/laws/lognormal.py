"""The Laplace transform of a lognormal number, enclosed at many complex places by one sum (thm:lognormal-laplace).

A trapezoid rule on a vertical line of the Mellin transforms of zʲφⱼ(z) = zʲ E Xʲ e^{−zX}, j ≤ 9, is one
polynomial in z^{−iη}, whose coefficients serve all z. About a hundred terms are enough for any noise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy
from flint import acb, acb_poly, acb_series, arb, ctx

from ndis._balls import Ball, precision
from ndis.errors import PrecisionError

MOST_NODES = 30_000  # one rule has no more, for moments and for δ
_LINES, _BEYOND = np.geomspace(0.05, 200.0, 60), np.geomspace(0.05, 20.0, 30)  # c, and b/c − 1, that are tried
MOST_POWER = 9  # j
_PIECE = 32  # coefficients of a polynomial
_GUARD = 1e-9  # more than floats round


class Laplace:
    """Enclose zʲφⱼ at all z with log |z| ≥ low and 0 ≤ arg z ≤ angle, up to e^−deep (thm:lognormal-laplace).

    The law is that of an epoch: it has `mu`, `shift`, which is μ as a ball, and `bins`.
    """

    def __init__(self, law: Any, low: float, angle: float, deep: float, power: int = 1) -> None:
        mu, self.bins, self.low, deep = law.mu, law.bins, low, max(deep, 1.0)  # no rule is without a node
        low, angle = low - _GUARD, angle + _GUARD  # floats below are rounded
        margin = min(0.5, 3.0 * mu)  # φ far out is bounded after a turn by this much less
        turn, over = max(angle - 0.5 * math.pi + margin, 0.0), max(angle - 0.5 * math.pi, 0.0)
        c, y = _LINES[:, None], np.geomspace(0.1, 1e3, 400) * (1.0 + (1.0 + over / mu) / mu)
        sizes = scipy.special.loggamma(c + 1j * y).real - c * low + 0.5 * mu**2 * (c * (c + 1.0) - y * y) + angle * y
        tops = np.maximum(sizes.max(axis=1), 0.0)
        ends = y[np.minimum((sizes > -deep - 3.0).cumsum(axis=1).argmax(axis=1) + 1, y.size - 1)]
        far = c * (1.0 + _BEYOND)
        lift = deep + 0.5 * (turn / mu) ** 2
        high = far + power  # errors are planned for this j
        asked = high * np.log(high / (math.e * math.sin(margin))) + far * (0.5 * mu**2 * (far + 1.0) - low)
        asked = (asked - math.lgamma(power + 1) + lift) / (far - c)
        periods = np.maximum(lift / _LINES, asked.min(axis=1))
        i = int((ends * periods).argmin())
        self.count = math.ceil(ends[i] * periods[i] / (2.0 * math.pi)) + 1
        if self.count > MOST_NODES:
            raise PrecisionError("the transform of a lognormal number needs too many nodes")
        self.bits = round(1.45 * (deep + float(tops[i]))) + 64
        with precision(max(ctx.prec, self.bits)):
            self.c, b, period = arb(float(_LINES[i])), arb(float(far[i, asked[i].argmin()])), arb(float(periods[i]))
            shift, self.step = law.shift, 2 * arb.pi() / period
            places = [acb(self.c, self.step * j) for j in range(self.count + 1)]
            half = [s.gamma() * (shift**2 * s * (1 + s) / 2).exp() / period for s in places]
            self.places = [s.conjugate() for s in places[:0:-1]] + places
            self.weights = [m.conjugate() for m in half[:0:-1]] + half
            # short pieces: a rectangle of balls grows with each complex product
            self.pieces = [acb_poly(self.weights[i : i + _PIECE]) for i in range(0, len(self.weights), _PIECE)]
            end, log_low = self.step * self.count, arb(low)
            slope = arb.atan2(end, self.c) + shift**2 * end - angle
            ratio = (-slope * self.step).exp() * (1 + 1 / arb(self.count)) ** MOST_POWER
            if not ratio < 1:
                raise PrecisionError("the transform of a lognormal number is not resolved")
            beyond = 2 * half[-1].abs_upper() * (arb(angle) * end - self.c * log_low).exp() * ratio / (1 - ratio)
            plain, turned = (((arb(angle_) / shift) ** 2 / 2).exp() for angle_ in (over, turn))
            fall = arb(1).exp() * arb(margin).sin()
            self.errors = []
            for extra in range(MOST_POWER + 1):
                most = turned * (extra / fall) ** extra if extra else plain
                size = ((b + extra) / fall).log() * (b + extra) + shift**2 * b * (b + 1) / 2 - b * log_low
                above = turned * size.exp() / (period * (b - self.c)).expm1()
                last = (extra + places[-1]).abs_upper() ** extra  # at least |s(s+1)…|
                self.errors.append((most / (period * self.c).expm1() + above + beyond * last).upper())

    def on_ray(self, alpha: float, places: list[Ball], power: int) -> list[Any]:
        """Enclose E Wʲ e^{−zW} for the power j and z = e^{u + iα}, at equidistant u."""
        start, step = places[0] - arb(self.bins).log(), places[1] - places[0]
        first = [m * (-s * acb(start, alpha)).exp() for m, s in zip(self.weights, self.places, strict=True)]
        if not ctx.cap > power:
            raise PrecisionError("the series of this process are too short; raise flint.ctx.cap")
        rows, t, out = [first], int(self.bins), []
        for j in range(power):
            rows.append([m * (s + j) for m, s in zip(rows[-1], self.places, strict=True)])
        for n, sums in enumerate(zip(*transform(rows, -self.step * step, len(places)), strict=True)):
            turn = (acb(-self.c, self.step * self.count) * step * n).exp()
            values = [value * turn + disc(error) for value, error in zip(sums, self.errors[: power + 1], strict=True)]
            a = [value / math.factorial(j) for j, value in enumerate(values)]  # φ(z/t − hz/t) = Σ aⱼhʲ
            one = acb_series(a, prec=power + 1)  # a logarithm is quicker
            psi = ((t * one.log()).exp() if a[0].real > 0 else one**t)[power] * math.factorial(power)
            out.append(psi * (-power * (acb(places[0], alpha) + step * n)).exp())
        return out

    def at(self, logs: list[Any]) -> list[Any]:
        """Enclose φ at the z with these logarithms."""
        out = []
        for log in logs:
            q = (acb(0, -self.step) * log).exp()
            terms = (p(q) * (-s * log).exp() for p, s in zip(self.pieces, self.places[::_PIECE], strict=True))
            out.append(sum(terms, disc(self.errors[0])))
        return out


def transform(rows: list[list[Any]], angle: Ball, count: int) -> list[list[Any]]:
    """Enclose Σ_j row_j e^{ijk·angle} for each row and k < count by products of polynomials: 2jk = j² + k² − (k − j)².

    >>> [round(float(value.real), 6) for value in transform([[acb(1), acb(2)]], arb.pi(), 3)[0]]
    [3.0, -1.0, 3.0]
    """
    size = len(rows[0])
    chirp = [acb(0, angle * (m * m) / 2).exp() for m in range(max(size, count))]
    back = acb_poly([chirp[abs(m)].conjugate() for m in range(1 - size, count)])
    both = (acb_poly([weight * z for weight, z in zip(row, chirp, strict=False)]) * back for row in rows)
    return [[one[size - 1 + k] * chirp[k] for k in range(count)] for one in both]


def disc(radius: Ball) -> Any:
    return acb(arb(0, radius), arb(0, radius))
