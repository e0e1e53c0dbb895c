"""Make ``data/delta_cases.json``: δ(ε) of Gaussian pairs to 25 digits, by methods the package does not use.

Why. The package integrates along a bent contour in float64 and certifies with a rigorous integrator. A test of either
against the other would share the formula's arrangement, the contour and the tail bound. Here the numbers come from:

* *line*: adaptive composite Gauss-Legendre along a straight vertical line through the saddle, 240-bit arithmetic. Where
  the integrand dies too slowly for that (few directions), the line is cut at height T and continued along a horizontal
  leg, to the side on which exp(-s ε + K(s)) falls, until nothing is left there or on the vertical line above.
* *trapezoid*: the trapezoidal rule on a vertical line at another abscissa, where the integrand dies fast.
* *closed form*, where there is one, at a precision that swallows the cancellation: normal distribution functions for
  one direction and for pure shifts; incomplete gamma functions, with Poisson weights for shifts, for equal ratios;
  Ruben's series of chi-square distribution functions where every ratio lies on the same side of one.

A case is written only if two of these computations (two abscissae and two heights, where only *line* applies) agree to
25 digits in δ and in 1-δ, and δ + (1-δ) = 1 to 25 digits; every applicable closed form must agree as well. The methods
that agreed are listed with the case under "verified". Two exceptions: with more than 500 distinct directions and δ
below one half, 1-δ is taken from δ; and "slope", which only scales a tolerance, is computed once. Inputs are binary
doubles and count as exact.

With what. python-flint's real and complex balls for point values (rounding errors are tracked; nothing else of it is
used: no ``acb.integral``). numpy chooses inputs only.

How long. About six minutes on one core: ``python tests/oracle/make_delta_cases.py``.
With ``--check-given`` it recomputes ``data/given_delta_cases.json`` instead and prints every disagreement.
"""

import argparse
import json
import math
import random
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
from flint import acb, arb, ctx

DATA = Path(__file__).parent / "data"
AGREE = arb("1e-25")  # relative agreement demanded of two computations
NEGLIGIBLE = -88.0  # log of what may be dropped, relative to the saddle (1e-38)


# ---------------------------------------------------------------------------------------------------------------------
# Quadrature: knows nothing of Gaussians. `law` offers exponent(s) and its singular points, poles.
# ---------------------------------------------------------------------------------------------------------------------
@cache
def legendre_rule(n, bits):
    assert bits == ctx.prec
    return [arb.legendre_p_root(n, k, weight=True) for k in range(n)]


def log_size(value):
    """Log of |value| as a float; minus infinity for zero."""
    size = abs(value)
    return float(size.mid().log().mid()) if size.mid() > 0 else -math.inf


class Integral:
    """(1/2πi) ∫ exp(K(s)) rest(s) ds upwards along Re s = c, by symmetry (1/π) Re of the upper half."""

    def __init__(self, law, rest, low, high):
        self.law, self.rest, self.low, self.high = law, rest, low, high
        self.spent = 0  # panels evaluated
        self.saddle()

    def log_f(self, s):
        return float((self.law.exponent(s).real + abs(self.rest(s)).log()).mid())

    def f(self, s):
        return (self.law.exponent(s) - self.shift).exp() * self.rest(s)

    def place(self, u):
        """Map the real line onto (low, high)."""
        low, high = self.low, self.high
        if low is None:
            return high - arb(u).exp()
        if high is None:
            return low + arb(u).exp()
        return low + (high - low) / (1 + arb(-u).exp())

    def saddle(self):
        """Golden-section search for the minimum of the integrand on the real segment (its log is convex there)."""
        a, b = -80.0, 80.0
        ratio = (math.sqrt(5) - 1) / 2
        x, y = b - ratio * (b - a), a + ratio * (b - a)
        fx, fy = (self.log_f(acb(self.place(u))) for u in (x, y))
        while b - a > 1e-3:
            if fx < fy:
                b, y, fy = y, x, fx
                x = b - ratio * (b - a)
                fx = self.log_f(acb(self.place(x)))
            else:
                a, x, fx = x, y, fy
                y = a + ratio * (b - a)
                fy = self.log_f(acb(self.place(y)))
        self.c = self.place((a + b) / 2).mid()
        self.shift = self.law.exponent(acb(self.c)).real.mid()
        self.top = self.log_f(acb(self.c))
        # Width: the height at which the integrand has fallen by e^{-1/2}.
        low, high = -300.0, 300.0
        for _ in range(60):
            mid = (low + high) / 2
            if self.log_f(acb(self.c, arb(mid).exp())) > self.top - 0.5:
                low = mid
            else:
                high = mid
        self.width = arb(low).exp().mid()

    def beside(self, offset):
        """Another abscissa inside the segment: `offset` widths, or that part of the room to the nearer end, away."""
        room = min(abs(self.c - end) for end in (self.low, self.high) if end is not None)
        return (self.c + arb(offset) * min(self.width, room)).mid()

    def gauss(self, start, stop):
        self.spent += 1
        if self.spent > 40_000:
            raise ArithmeticError("too many panels")
        half, middle = (stop - start) / 2, (stop + start) / 2
        total = acb(0)
        for x, weight in legendre_rule(32, ctx.prec):
            total += weight * self.f(middle + half * x)
        return total * half

    def adaptive(self, start, stop, coarse=None, depth=0):
        middle = (start + stop) / 2
        if coarse is None:
            coarse = self.gauss(start, stop)
        left, right = self.gauss(start, middle), self.gauss(middle, stop)
        if log_size(left + right - coarse) < self.unit + NEGLIGIBLE:
            return left + right
        if depth > 60:
            raise ArithmeticError("panel does not settle")
        return self.adaptive(start, middle, left, depth + 1) + self.adaptive(middle, stop, right, depth + 1)

    def turning(self, c, skip):
        """Where to leave the vertical line: (height, side, length of the horizontal leg); side 0: never."""
        floor = self.top + log_size(self.width) + NEGLIGIBLE
        for j in range(1, 120):  # the plain straight line, wherever its phase does not turn too often
            height = self.width * arb(2) ** (arb(j) / 2)
            if j > 14 and abs(self.law.linear) * height * len(self.law.poles) > 2e5:
                break
            if self.log_f(acb(c, height)) + log_size(height) < floor:
                return height * (1 + skip), 0, None
        for j in range(1, 400):
            height = self.width * arb(2) ** (arb(j) / 2)
            for side in (-1, 1):
                length = self.dies(c, height, side, floor)
                if length is not None:
                    if skip == 0:
                        return height, side, length
                    skip -= 1
        raise ArithmeticError("no contour found")

    def dies(self, c, height, side, floor):
        """Length after which the horizontal leg, and the vertical line from there upwards, are negligible; or None."""
        dead = 0
        for k in range(-12, 240):
            length = height * arb(2) ** (arb(k) / 2)
            here = self.log_f(acb(c + side * length, height))
            if here > self.top + 4:
                return None
            dead = dead + 1 if here + log_size(length) < floor - 5 else 0
            if dead == 4:
                break
        else:
            return None
        end = c + side * length
        for k in range(120):
            rise = height * arb(2) ** (arb(k) / 2)
            if self.log_f(acb(end, rise)) + log_size(rise) > floor:
                return None
        # Essential singularities throw narrow peaks: look on both sides of each that is passed, at its own scales.
        scales = range(-1, 40) if len(self.law.poles) < 30 else range(1)
        for pole in self.law.poles:
            for k in scales:
                gap = height * arb(2) ** k
                if gap > abs(pole - c):
                    break
                for x in (side * (pole - c) - gap, side * (pole - c) + gap):
                    if 0 < x < length and self.log_f(acb(c + side * x, height)) > self.top + 4:
                        return None
        return length

    def line(self, offset=0.0, skip=0):
        """Adaptive Gauss-Legendre along the straight line beside the saddle, then sideways if need be."""
        c = self.beside(offset)
        height, side, length = self.turning(c, skip)
        self.unit = self.log_f(acb(c)) - float(self.shift) + log_size(self.width)
        total, at, step = acb(0), arb(0), self.width
        while at < height:
            end = min(at + step, height)
            total += self.adaptive(acb(c, at), acb(c, end))
            at, step = end, max(step, at)
        at, step = arb(0), height / 2
        while side and at < length:
            end = min(at + step, length)
            total += self.adaptive(acb(c + side * at, height), acb(c + side * end, height))
            at, step = end, max(step, at)
        return (total / acb(0, 1)).real / arb.pi() * self.shift.exp()

    def trapezoid(self, offset, most):
        """h/2π Σ exp(K(c + ijh)) rest(c + ijh); None where it would take more than `most` points.

        Error: the aliases, exp(-2πa/h) times the integrand at distance a to the left and to the right.
        """
        c = self.beside(offset)
        room = min(abs(c - end) for end in (self.low, self.high) if end is not None) * arb("0.9")
        a = min(room, 6 * self.width)
        rise = max(self.log_f(acb(c + sign * a)) for sign in (-1, 1)) - self.log_f(acb(c))
        h = 2 * arb.pi() * a / (max(rise, 0.0) + 5 - NEGLIGIBLE)
        floor = self.log_f(acb(c)) + log_size(self.width) + NEGLIGIBLE
        last = h * most
        if self.log_f(acb(c, last)) + log_size(last) > floor:
            return None
        total, j = self.f(acb(c)).real / 2, 0
        while True:
            j += 1
            value = self.f(acb(c, j * h))
            total += value.real
            if j % 8 == 0 and log_size(value) + float(self.shift) + log_size(j * h) < floor:
                break
        return total * h / arb.pi() * self.shift.exp()


def check(name, a, b):
    """Refuse a case on which two computations disagree."""
    if not abs(a - b) <= AGREE * abs(b):
        raise ArithmeticError(f"{name}: {a} against {b}")


def agree(integral, directions=1):
    """The integral by two computations that agree; and the names of the two."""
    first = integral.line()
    second = integral.trapezoid(0.4, 4000 if directions < 50 else 600)
    names = ["line", "trapezoid"]
    if second is None:
        second = integral.line(offset=0.4, skip=1)
        names = ["line", "line at another abscissa and height"]
    check("two contours", second, first)
    return first, names


# ---------------------------------------------------------------------------------------------------------------------
# The pair N(m, diag τ) against N(0, I).
# ---------------------------------------------------------------------------------------------------------------------
class PairLaw:
    """exponent(s) = K(s) - s ε, def:log-moment, from exact inputs: lists of (t, log τ, m², copies) as balls."""

    def __init__(self, groups, epsilon):
        self.groups = [g for g in groups if g[0] != 0 or g[2] != 0]
        self.epsilon = epsilon
        self.flat = [(t, n, n * m2) for t, _, m2, n in self.groups if t != 0]
        self.linear = sum((-n * log_tau / 2 for _, log_tau, _, n in self.groups), arb(0)) - epsilon
        self.gauss = sum((n * m2 for t, _, m2, n in self.groups if t == 0), arb(0))
        top = max((t for t, *_ in self.flat), key=lambda t: t.mid(), default=arb(0))
        self.right = 1 / top if top > 0 else None
        self.poles = [1 / t for t, *_ in self.flat]

    def exponent(self, s):
        logs, means = acb(0), acb(self.gauss)
        for t, n, nm2 in self.flat:
            d = 1 - s * t
            logs += d.log() if n == 1 else n * d.log()
            if nm2 != 0:
                means += nm2 / d
        return s * self.linear - logs / 2 + s * (1 + s) * means / 2

    def supremum(self):
        """Largest loss, or None where it is unbounded; `infimum` likewise."""
        return self.bound(-1)

    def infimum(self):
        return self.bound(1)

    def bound(self, sign):
        if self.gauss != 0 or not all(sign * t > 0 for t, *_ in self.flat):
            return None
        return self.linear + self.epsilon + sum((-nm2 / (2 * t) for t, _, nm2 in self.flat), arb(0))


def exact(x):
    """A double as an exact ball."""
    return arb(float(x))


def groups_of(ratio, shift, copies):
    tally = {}
    for tau, m, n in zip(ratio, shift, copies, strict=True):
        key = (float(tau), abs(float(m)))
        tally[key] = tally.get(key, 0) + int(n)
    return [(exact(tau) - 1, exact(tau).log(), exact(m) ** 2, n) for (tau, m), n in tally.items()]


def normal_cdf(x):
    return (-x / arb(2).sqrt()).erfc() / 2


def one_ratio_closed_form(law):
    """P_X(L > ε) - e^ε P_Y(L > ε) where every direction has the same ratio: (δ, name), or None.

    One direction: L is a quadratic in x, the event an interval or its complement. Several: L is affine in a noncentral
    chi-square variable, a Poisson mixture of gamma variables. No ratio but one: normal.
    """
    eps = law.epsilon
    if not law.flat:
        mu = law.gauss.sqrt()
        return normal_cdf(mu / 2 - eps / mu) - eps.exp() * normal_cdf(-mu / 2 - eps / mu), "normal closed form"
    distinct = {t.mid().str(60, radius=False) for t, *_ in law.groups}
    if len(distinct) != 1:
        return None
    t = law.groups[0][0]
    tau = 1 + t
    n = sum(g[3] for g in law.groups)
    mean = sum((g[2] * g[3] for g in law.groups), arb(0))
    # L = linear - mean/(2t) + t/(2τ) Σ (x + m/t)², with x ~ N(0, 1) under Y and N(m, τ) under X.
    q = (eps - (law.linear + eps) + mean / (2 * t)) * 2 / t  # L > ε  <=>  χ²_X > q (t > 0) or < q (t < 0)
    if n == 1:
        m = mean.sqrt()
        root = q.sqrt()

        def above(centre, scale):  # P(|scale·z + centre|² > τ q scaled to scale)
            edge = root * tau.sqrt() / scale
            return normal_cdf(-edge - centre / scale), normal_cdf(-edge + centre / scale)

        parts = []
        for centre, scale in ((m + m / t, tau.sqrt()), (m / t, arb(1))):
            low, high = above(centre, scale)
            parts.append(low + high if t > 0 else 1 - low - high)
        return parts[0] - eps.exp() * parts[1], "normal closed form"

    parts = []
    for ncp, x in ((mean * tau / t**2, q / 2), (mean / t**2, q * tau / 2)):
        if ncp > 3000:
            return None
        parts.append(poisson_gamma(arb(n) / 2, ncp / 2, x, upper=t > 0))
    return parts[0] - eps.exp() * parts[1], "incomplete gamma closed form"


def poisson_gamma(shape, rate, x, upper):
    """P(G > x) or P(G < x), G gamma of shape + Poisson(rate)."""
    if rate == 0:
        q = x.gamma_upper(shape, regularized=1)
        return q if upper else 1 - q
    total, j, weight = arb(0), 0, (-rate).exp()
    while True:
        q = x.gamma_upper(shape + j, regularized=1)
        total += weight * (q if upper else 1 - q)
        j += 1
        weight = weight * rate / j
        if j > 2 * rate and (weight.mid() == 0 or weight < arb(2) ** (-ctx.prec)):
            return total


def ruben(terms, x, upper):
    """P(W > x) or P(W < x), W = Σ λ χ²_ν(ncp) with every λ > 0, by Ruben's (1962) series; None if it is slow."""
    beta = min((g[0] for g in terms), key=lambda v: v.mid())
    gammas = [(1 - beta / lam, nu, ncp) for lam, nu, ncp in terms]
    worst = max(float(g.mid()) for g, *_ in gammas)
    bits = ctx.prec
    spread = sum(float((ncp / 2).mid()) for *_, ncp in terms)
    count = int(bits * math.log(2) / -math.log(worst)) + 50 if worst > 0 else 50
    count += int(4 * spread)
    if count > 2500:
        return None
    a0 = (-sum((ncp for *_, ncp in terms), arb(0)) / 2).exp()
    for lam, nu, _ in terms:
        a0 *= (beta / lam) ** (arb(nu) / 2)
    powers = [arb(1) for _ in gammas]
    g = [arb(0)]
    for k in range(1, count):
        value = arb(0)
        for i, (gamma, nu, ncp) in enumerate(gammas):
            value += ncp * k * powers[i] * (1 - gamma) / 2
            powers[i] = powers[i] * gamma
            value += arb(nu) * powers[i] / 2
        g.append(value)
    a = [a0]
    for k in range(1, count):
        a.append(sum((g[k - r] * a[r] for r in range(k)), arb(0)) / k)
    shape, y = sum((arb(nu) for _, nu, _ in terms), arb(0)) / 2, x / beta / 2
    total = arb(0)
    for k, weight in enumerate(a):
        q = y.gamma_upper(shape + k, regularized=1)
        total += weight * (q if upper else 1 - q)
    return total


def ruben_pair(law):
    """δ where every ratio lies on the same side of one, as a difference of two series; None elsewhere or if slow."""
    if law.gauss != 0 or len(law.flat) > 12:
        return None
    sign = 1 if all(t > 0 for t, *_ in law.flat) else -1 if all(t < 0 for t, *_ in law.flat) else 0
    if sign == 0:
        return None
    edge = law.bound(sign)
    x = (law.epsilon - edge) * sign  # |L - edge| is a positive combination of chi-squares
    parts = []
    for under_x in (True, False):
        terms = []
        for t, n, nm2 in law.flat:
            tau = 1 + t
            lam = sign * t / 2 if under_x else sign * t / (2 * tau)
            terms.append((lam, n, nm2 * tau / t**2 if under_x else nm2 / t**2))
        part = ruben(terms, x, upper=sign > 0)
        if part is None:
            return None
        parts.append(part)
    return parts[0] - law.epsilon.exp() * parts[1]


def with_precision(bits, work):
    old = ctx.prec
    ctx.prec = bits
    try:
        return work()
    finally:
        ctx.prec = old


def delta_of(groups, epsilon):
    """δ, log δ, log(1-δ) and d log δ/dε as balls (None for minus infinity), and the methods that agreed."""
    law = PairLaw(groups, epsilon)
    supremum, infimum = law.supremum(), law.infimum()
    if not law.groups:
        raise ValueError("a pair of equal laws needs no oracle")
    if supremum is not None and epsilon >= supremum:
        return arb(0), None, arb(0), None, ["loss bounded: zero"]
    if infimum is not None and epsilon <= infimum:  # L > ε surely: δ = 1 - e^ε
        value = 1 - epsilon.exp()
        return value, value.log(), epsilon, -epsilon.exp() / value, ["loss bounded below: 1 - exp(epsilon)"]
    count = len(law.flat)
    both = Integral(law, lambda s: 1 / (s * (s + 1)), arb(0), law.right)
    delta, names = agree(both, count)
    if count > 500 and delta < 0.5:  # the identity will have to do; every evaluation is dear here
        rest, slope = 1 - delta, None
    else:
        rest, more = agree(Integral(law, lambda s: 1 / (s * (s + 1)), arb(-1), arb(0)), count)
        rest = -rest
        names = list(dict.fromkeys(names + more))
        check("delta + complement", delta + rest, arb(1))
        slope = -Integral(law, lambda s: 1 / (s + 1), arb(-1), law.right).line() / delta
    # Enough for p0 - e^ε p1, 1 - p and 1 - δ to keep 60 digits: log2 e < 3/2.
    bits = 320 + int(1.5 * (-log_size(delta) - log_size(rest)))
    if infimum is None:
        bits += int(1.5 * abs(float(epsilon)))
    if bits < 60000:
        closed = with_precision(bits, lambda: one_ratio_closed_form(PairLaw(groups, epsilon)))
        if closed is not None:
            check("closed form", closed[0], delta)
            check("closed form, complement", with_precision(bits, lambda: 1 - closed[0]), rest)
            names.append(closed[1])
        elif bits < 1500:
            series = with_precision(bits, lambda: ruben_pair(PairLaw(groups, epsilon)))
            if series is not None:
                check("Ruben", series, delta)
                check("Ruben, complement", with_precision(bits, lambda: 1 - series), rest)
                names.append("Ruben series")
    log_delta = delta.log() if delta < 0.5 else (-rest).log1p()
    log_rest = rest.log() if rest < 0.5 else (-delta).log1p()
    return delta, log_delta, log_rest, slope, names


# ---------------------------------------------------------------------------------------------------------------------
# The choice of cases. Nothing below needs accuracy.
# ---------------------------------------------------------------------------------------------------------------------
def expand(field, count):
    """A list, or a grid of `count` exact dyadic numbers: (first + step·(i·multiplier mod count))/2^bits."""
    if isinstance(field, dict):
        index = (np.arange(field["count"]) * field["multiplier"]) % field["count"]
        return [float(v) for v in np.ldexp(float(field["first"]) + field["step"] * index, -field["bits"])]
    return [float(v) for v in field] if isinstance(field, list) else [float(field)] * count


def arrays(case):
    ratio = expand(case["variance_ratio"], 1)
    return ratio, expand(case["shift"], len(ratio)), [int(n) for n in expand(case["copies"], len(ratio))]


def moments(case, s):
    ratio, shift, copies = (np.array(a, float) for a in arrays(case))
    t, m2 = ratio - 1, shift**2
    d = 1 - s * t
    k = copies * (-s / 2 * np.log(ratio) - np.log(d) / 2 + s * (1 + s) * m2 / d / 2)
    dk = copies * (-np.log(ratio) / 2 + t / d / 2 + m2 / 2 * ((1 + 2 * s) * d + s * (1 + s) * t) / d**2)
    return k.sum(), dk.sum()


def epsilon_near(case, log_delta=None, log_complement=None):
    """An ε at which δ (or 1-δ) is near the wish, by the exponent of Chernoff's bound; four digits."""
    top = max(max(arrays(case)[0]) - 1, 0.0)
    target = log_complement if log_delta is None else log_delta

    def at(u):
        if log_delta is None:
            return -1 / (1 + math.exp(-u))
        return math.exp(u) if top == 0 else 1 / top / (1 + math.exp(-u))

    a, b = -40.0, 34.0 if top else 60.0
    for _ in range(200):
        u = (a + b) / 2
        s = at(u)
        k, dk = moments(case, s)
        a, b = (u, b) if k - s * dk > target else (a, u)
    return float(f"{moments(case, at(a))[1]:{'.4g' if top else '.17g'}}")


def wishes():
    """Yield every case without its answer."""
    rng = random.Random(20240607)

    def case(kind, ratio, shift=0.0, copies=1, **wish):
        ratio = ratio if isinstance(ratio, (list, dict)) else [ratio]
        count = ratio["count"] if isinstance(ratio, dict) else len(ratio)
        shift = shift if isinstance(shift, (list, dict)) else [shift] * count
        copies = copies if isinstance(copies, list) or count > 3000 else [copies] * count
        out = {"kind": kind, "variance_ratio": ratio, "shift": shift, "copies": copies}
        out["epsilon"] = wish["epsilon"] if "epsilon" in wish else epsilon_near(out, **wish)
        return out

    def ratios(n, low, high):
        return [float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.6g}") for _ in range(n)]

    def shifts(n, size):
        return [float(f"{rng.gauss(0, size):.5g}") for _ in range(n)]

    def edge(ratio, shift, copies, distance):
        law = PairLaw(groups_of(ratio, shift, copies), arb(0))
        return float((law.supremum() * (1 - arb(distance))).mid())

    # One direction.
    for ratio, shift, wish in [
        (1e-5, 0.0, -0.3),
        (1e-5, 3.0, -25.0),
        (0.1, 0.7, -4.0),
        (0.5, 0.0, -12.0),
        (0.5, 25.0, -2.0),
        (0.999, 0.3, -40.0),
        (0.999999, 1e-3, -12.0),
        (1.001, 0.0, -8.0),
        (1.001, 2.0, -100.0),
        (2.0, 0.0, -690.0),
        (2.0, 12.0, -3.0),
        (30.0, 5.0, -60.0),
        (30.0, 0.0, -1.5),
        (1e5, 0.0, -5.0),
        (1e5, 80.0, -650.0),
        (1e5, 0.5, -1e4),
        (1.5, 30.0, -0.05),
        (3.0, 0.25, -1e4),
    ]:
        yield case("one_direction", ratio, shift, log_delta=wish)
    yield case("one_direction", 4.0, 1.0, epsilon=200.0)
    yield case("one_direction", 1.25, 0.5, epsilon=1e-6)

    # Shifts only.
    for shift, eps in [
        (1e-9, 1e-9),
        (1e-9, 3e-8),
        (1e-3, 1e-6),
        (1e-3, 0.037),
        (0.1, 1.0),
        (0.1, 3.7),
        (1.0, 0.0),
        (1.0, 37.0),
        (10.0, 200.0),
        (40.0, 0.0),
        (40.0, 800.0),
        (40.0, 2500.0),
        (60.0, 60.0),
    ]:
        yield case("mean_shift", [1.0, 1.0], [0.6 * shift, 0.8 * shift], epsilon=eps)

    # Equal ratios: sketches.
    for ratio, copies, wish in [
        (1.02, 100, -13.8),
        (1.02, 100, -600.0),
        (1.02, 10000, -25.0),
        (1.002, 100000, -13.8),
        (0.998, 100000, -200.0),
        (0.98, 200, -13.8),
        (5.0, 10, -50.0),
        (0.2, 10, -9.0),
        (1.5, 3, -300.0),
        (1.00001, 100000, -20.0),
        (1.3, 100000, -30.0),
        (0.7, 1000, -1e4),
        (2.5, 2, -20.0),
        (1.1, 7, -0.9),
    ]:
        yield case("equal_ratio", ratio, 0.0, copies, log_delta=wish)
    for ratio, shift, copies, wish in [
        (1.4, 0.3, 6, -18.0),
        (0.6, 0.4, 5, -18.0),
        (2.0, 1.0, 30, -4.0),
        (0.9, 0.05, 400, -80.0),
    ]:
        yield case("equal_ratio_shifted", ratio, shift, copies, log_delta=wish)

    # A few directions of every kind.
    for n, wish in [
        (2, -0.5),
        (3, -5.0),
        (4, -30.0),
        (5, -200.0),
        (6, -690.0),
        (8, -3000.0),
        (3, -1e4),
        (12, -13.8),
        (20, -1.0),
        (50, -25.0),
        (2, -90.0),
        (7, -450.0),
    ]:
        yield case("general", ratios(n, 0.2, 5.0), shifts(n, 0.5), log_delta=wish)
    for n, wish in [(2, -6.0), (3, -40.0), (5, -2.0), (4, -250.0)]:
        yield case("general_wider", ratios(n, 1.2, 3.0), shifts(n, 0.3), log_delta=wish)
    for n, wish in [(2, -6.0), (3, -40.0), (5, -2.0), (4, -12.0)]:
        yield case("general_narrower", ratios(n, 0.4, 0.8), shifts(n, 0.2), log_delta=wish)

    # Ratios from 1e-5 to 1e5 in one pair.
    for n, size, wish in [
        (3, 0.0, -3.0),
        (5, 0.5, -30.0),
        (11, 0.0, -0.2),
        (11, 1.0, -100.0),
        (21, 0.2, -690.0),
        (21, 3.0, -10.0),
        (41, 0.0, -2.0),
        (101, 0.3, -50.0),
    ]:
        spread = [float(f"{10.0 ** (-5 + 10 * i / (n - 1)):.6g}") for i in range(n)]
        yield case("wide_spectrum", spread, shifts(n, size) if size else 0.0, log_delta=wish)
    yield case("wide_spectrum", [1e-5, 1e5], [0.0, 0.0], [50, 50], log_complement=-230.0)

    # Shifts of tens of standard deviations.
    for n, size, wish in [
        (2, 30.0, -1.0),
        (3, 50.0, -50.0),
        (5, 20.0, -600.0),
        (8, 40.0, -0.3),
        (20, 15.0, -5.0),
        (3, 70.0, -1e4),
    ]:
        yield case("large_shift", ratios(n, 0.3, 3.0), shifts(n, size), log_delta=wish)

    # Equal to within 1e-9.
    tiny = [1.000000001, 0.9999999995, 1.0000000003]
    for ratio, shift, copies, wish in [
        ([tiny[0]], 0.0, 1, -9.0),
        ([tiny[1]], 0.0, 1, -6.0),
        (tiny, [1e-9, 2e-9, 0.0], 1, -25.0),
        (tiny, 0.0, 1, -60.0),
        (tiny, [1e-9, 0.0, 1e-9], 100, -40.0),
        ([tiny[0], tiny[1]], [0.0, 1e-5], 1, -30.0),
        ([tiny[0], 1.0], [0.0, 1e-9], 1, -500.0),
        ([tiny[0], 1.5], [1e-9, 0.0], 1, -7.0),
        ([tiny[1], 1.0], [0.0, 0.5], 1, -20.0),
        ([tiny[0], 0.9999999990000000827], 0.0, 10000, -20.0),
    ]:
        yield case("nearly_equal", ratio, shift, copies, log_delta=wish)
    yield case("nearly_equal", tiny, [1e-9, 2e-9, 0.0], 1, epsilon=0.0)
    yield case("nearly_equal", tiny, [1e-9, 2e-9, 0.0], 1, epsilon=-1e-9)

    # The edge of a bounded loss.
    for ratio, shift, copies in [
        ([0.5], [0.0], [1]),
        ([0.3, 0.8], [0.2, 0.1], [1, 1]),
        ([0.9], [0.0], [100]),
        ([1e-5, 0.99], [0.0, 0.01], [1, 3]),
    ]:
        for distance in ("1e-3", "1e-6", "1e-9", "0", "-1e-3") if len(ratio) > 1 else ("1e-3", "1e-9", "-1e-12"):
            if distance != "0":
                yield case("bounded_edge", ratio, shift, copies, epsilon=edge(ratio, shift, copies, distance))
    yield case("bounded_edge", [0.25, 0.5, 0.75, 0.875], 0.0, 1, epsilon=200.0)

    # Negative ε, and ε = 0.
    pairs = [
        ([2.0, 0.5], [0.3, 0.1], 1),
        ([1.5, 3.0], [0.5, 0.2], 1),
        ([0.4, 0.7], [0.0, 1.0], 1),
        ([1.02, 0.98], 0.0, 50),
        ([1.0], 3.0, 1),
        ([50.0, 0.02, 1.0], [1.0, 0.3, 5.0], 2),
    ]
    for ratio, shift, copies in pairs:
        for eps in (-0.3, -3.0):
            yield case("negative_epsilon", ratio, shift, copies, epsilon=eps)
        yield case("zero_epsilon", ratio, shift, copies, epsilon=0.0)
    yield case("negative_epsilon", [1.5, 3.0], 0.0, 1, epsilon=-60.0)
    yield case("negative_epsilon", [0.4, 1.5, 3.0], 0.0, 1, epsilon=-200.0)
    yield case("negative_epsilon", [1.2], 0.0, 1, epsilon=-0.0911607)
    yield case("zero_epsilon", [1.0001, 0.9999], 0.0, 1, epsilon=0.0)
    yield case("zero_epsilon", [1.3] * 1, 0.0, 100000, epsilon=0.0)

    # Small ratios of mixed sign.
    for n, size, copies, wish in [
        (2, 0.0, 1, -3.0),
        (2, 0.01, 1, -30.0),
        (6, 0.0, 1, -14.0),
        (6, 0.3, 1, -40.0),
        (20, 0.02, 1, -600.0),
        (20, 1.0, 1, -0.5),
        (50, 0.0, 10, -25.0),
        (4, 0.001, 1000, -10.0),
        (3, 2.0, 1, -300.0),
        (10, 0.1, 1, -1e4),
    ]:
        signs = [1 + float(f"{(-1) ** i * rng.uniform(0.3, 3) * 1e-4:.4g}") for i in range(n)]
        yield case("tiny_mixed", signs, shifts(n, size) if size else 0.0, copies, log_delta=wish)

    # Large noncentrality on a small weight.
    for ratio, shift, wish in [
        ([1.001, 51.0], [3.0, 0.0], -5.0),
        ([0.999, 0.2], [5.0, 0.1], -8.0),
        ([1.0001, 0.02], [2.0, 0.0], -30.0),
        ([0.9999, 3.0], [1.0, 0.0], -20.0),
        ([1.00001, 1000.0], [10.0, 1.0], -60.0),
        ([0.99999, 1.00001, 7.0], [4.0, -4.0, 0.2], -200.0),
        ([1.0001, 0.9999, 0.001], [20.0, 10.0, 1.0], -2.0),
        ([0.9990, 20.0], [30.0, 0.0], -690.0),
        ([1.000001, 1e5], [1.0, 0.0], -15.0),
        ([0.999999, 1e-5], [3.0, 0.0], -1.0),
    ]:
        yield case("small_weight_large_noncentrality", ratio, shift, log_delta=wish)

    # δ near one.
    for ratio, shift, copies, wish in [
        ([2.0, 0.5], 1.0, 60, -27.6),
        ([2.0, 0.5], 1.0, 200, -69.0),
        ([1.0], 45.0, 1, -230.0),
        ([100.0, 0.01], 0.0, 20, -27.6),
        ([3.0], 0.0, 2000, -230.0),
        ([0.3], 0.0, 100, -27.6),
        ([1.1, 0.9], [20.0, 30.0], 1, -100.0),
        ([5.0, 0.4, 1.0], [9.0, 2.0, 15.0], 1, -45.0),
    ]:
        yield case("delta_near_one", ratio, shift, copies, log_complement=wish)

    # Many distinct directions.
    for wish in (-0.7, -14.0, -500.0):
        yield case("distinct_200", ratios(200, 0.7, 1.4), shifts(200, 0.1), log_delta=wish)
    yield case("distinct_200", ratios(200, 1e-5, 1e5), shifts(200, 0.1), log_delta=-40.0)

    def grid(first, step, bits, count, multiplier):
        return {"first": first, "step": step, "bits": bits, "count": count, "multiplier": multiplier}

    yield case("distinct_2000", grid(2**20 - 20_000, 20, 20, 2000, 1), grid(0, 3, 20, 2000, 777), log_delta=-14.0)
    yield case("distinct_2000", grid(2**10, 1, 10, 2000, 1), grid(0, 1, 12, 2000, 333), log_delta=-600.0)
    yield case(
        "distinct_10000", grid(2**24 - 100_000, 20, 24, 10_000, 1), grid(0, 1, 20, 10_000, 777), 1, log_delta=-14.0
    )


def text(value):
    if value is None:
        return "-inf"
    if value == 0:
        return "0"
    assert abs(value) > 0
    assert value.rad() < abs(value.mid()) * arb("1e-27"), value
    return value.mid().str(25, radius=False)


def solve(case):
    ctx.prec = 240
    groups = groups_of(*arrays(case))
    delta, log_delta, log_rest, slope, names = delta_of(groups, exact(case["epsilon"]))
    answer = {"delta": text(delta), "log_delta": text(log_delta), "log_complement": text(log_rest)}
    if slope is not None:
        answer["slope"] = text(slope)
    return answer | {"verified": names}


def write(name, about, cases):
    lines = ",\n".join(json.dumps(case) for case in cases)
    (DATA / name).write_text(f'{{"about": {json.dumps(about)},\n"cases": [\n{lines}\n]}}\n')


def number(cases):
    return [{"id": f"{i:03d}-{case['kind']}"} | case for i, case in enumerate(cases)]


def check_given():
    worst = arb(0)
    for i, case in enumerate(json.loads((DATA / "given_delta_cases.json").read_text())):
        ctx.prec = 240
        delta, log_delta, _, _, names = delta_of(groups_of(*arrays(case)), exact(case["epsilon"]))
        for mine, given, name in ((delta, case["delta"], "delta"), (log_delta, case["log_delta"], "log_delta")):
            error = (abs(arb(given) / mine - 1)).mid()
            worst = max(worst, error)
            if not error < arb("1e-18"):
                print(i, case["kind"], name, given, text(mine), error.str(3, radius=False))
        print(i, case["kind"], names, flush=True)
    print("largest relative difference", worst.str(3, radius=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check-given", action="store_true")
    parser.add_argument("--only", default="", help="kinds to try without writing, comma-separated")
    options = parser.parse_args()
    ctx.prec = 240
    if options.check_given:
        return check_given()
    done, failed = [], 0
    for case in number(wishes()):
        if options.only and case["kind"] not in options.only.split(","):
            continue
        start = time.perf_counter()
        try:
            done.append(case | solve(case))
        except ArithmeticError as error:
            failed += 1
            print(case["id"], "REFUSED", error)
            continue
        last = done[-1]
        print(
            case["id"],
            case["epsilon"],
            last["log_delta"][:12],
            last["log_complement"][:12],
            last["verified"],
            f"{time.perf_counter() - start:.1f} s",
            flush=True,
        )
    if failed:
        sys.exit(f"{failed} cases refused: nothing written")
    if not options.only:
        write(
            "delta_cases.json",
            "delta(epsilon) of N(shift, diag(variance_ratio)) from N(0, I), each direction `copies` times; "
            "inputs are exact doubles; slope = d log delta/d epsilon; made by make_delta_cases.py",
            done,
        )
    return None


if __name__ == "__main__":
    main()
