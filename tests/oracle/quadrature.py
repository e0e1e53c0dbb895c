"""Integrals along straight lines, for the generators of the tables: they know nothing of Gaussians.

`law` offers exponent(s) and its singular points, poles. The docstring of ``make_delta_cases.py`` says why it is so.
"""

import math
from functools import cache

from flint import acb, arb, ctx

AGREE = arb("1e-25")  # relative agreement demanded of two computations
NEGLIGIBLE = -88.0  # log of what may be dropped, relative to the saddle (1e-38)


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


def exact(x):
    """A double as an exact ball."""
    return arb(float(x))


def with_precision(bits, work):
    old = ctx.prec
    ctx.prec = bits
    try:
        return work()
    finally:
        ctx.prec = old
