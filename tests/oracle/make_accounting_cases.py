"""Make ``data/accounting_cases.json``: log δ(ε) of compositions of Poisson-sampled Gaussian pairs, to 15 digits.

The package integrates along a bent path with tilted inner lines, splits off rare losses, and uses Mellin-Barnes
integrals. Nothing of that is used here. The numbers come from two other computations:

* *two steps*: δ₂(ε) = E_P δ₁(ε − L), a real integral of positive terms, with the exact δ₁ of one sampled step inside it
  (normal distribution functions; for a pair with different variances, the roots of a quadratic). The outer step is
  either of the two; a case is written only if two subdivisions of the line agree.
* *line*: the trapezoid rule along a vertical line, with uniform steps, at a precision that swallows all cancellation.
  The moments are trapezoid sums along one straight line for all s. A case is written only if two lines, with different
  steps of either rule and different places of the inner line, agree to fifteen digits.

Inputs are binary doubles and count as exact. About half an hour on one core:
``python tests/oracle/make_accounting_cases.py``.
"""

import json
import math
import time
from pathlib import Path

import numpy as np
from flint import acb, arb, ctx
from mpmath import erfc, exp, expm1, log, log1p, mp, mpf, nstr, pi, quad, sqrt

from accounting_wishes import LINE, TWO

DATA = Path(__file__).parent / "data"
mp.dps = 30


def normal(x):
    return erfc(-x / sqrt(2)) / 2


class Pair:
    """P = N(m, 1+t) against Q = N(0, 1), one direction."""

    def __init__(self, t, m):
        self.t, self.m = mpf(t), mpf(m)

    def loss(self, x):
        t, m = self.t, self.m
        return -log1p(t) / 2 - (x - m) ** 2 / (2 * (1 + t)) + x * x / 2

    def places(self, e):
        """Every x at which the loss is e."""
        t, m = self.t, self.m
        if t == 0:
            return [e / m + m / 2]
        a, b, c = t / (2 * (1 + t)), m / (1 + t), -log1p(t) / 2 - m * m / (2 * (1 + t)) - e
        disc = b * b - 4 * a * c
        return [] if disc < 0 else [(-b - sqrt(disc)) / (2 * a), (-b + sqrt(disc)) / (2 * a)]

    def masses(self, e):
        """P and Q of the event loss > e."""
        t, m = self.t, self.m
        if t == 0:
            edge = e / m + m / 2
            return normal(m - edge), normal(-edge)
        ends = self.places(e)
        if not ends:
            return (mpf(1), mpf(1)) if t > 0 else (mpf(0), mpf(0))
        low, high = sorted(ends)
        root = sqrt(1 + t)
        if t > 0:
            return normal((low - m) / root) + normal((m - high) / root), normal(low) + normal(-high)
        return normal((high - m) / root) - normal((low - m) / root), normal(high) - normal(low)

    def delta(self, e):
        p, q = self.masses(e)
        return p - exp(e) * q

    def reversed(self):
        return Pair(-self.t / (1 + self.t), self.m / sqrt(1 + self.t))


def one_step(e, q, pair, order):
    """δ of one sampled step; `pair` is the remove pair."""
    if order == "remove":
        grown = expm1(e)
        return -grown if grown <= -q else q * pair.delta(log1p(grown / q))
    a = 1 - (1 - q) * exp(e)
    if a <= 0:
        return mpf(0)
    with mp.workdps(mp.dps + 20):
        return a * pair.reversed().delta(log(q * exp(e) / a))


def two_steps(outer, inner, e, order, parts):
    (q, pair), (q2, pair2) = outer, inner

    def ell(x):
        return log1p(q * expm1(pair.loss(x)))

    def f(x):
        loss = ell(x)
        p = exp(-x * x / 2) / sqrt(2 * pi)
        if order == "remove":
            return p * exp(loss) * one_step(e - loss, q2, pair2, order)
        return p * one_step(e + loss, q2, pair2, order)

    # panels of equal length, and more of them where the inner step passes through its own scale
    points = {mpf(-12) + mpf(k) / parts for k in range(0, 34 * parts + 1)}
    targets = [r * q2 for r in (-1, -0.5, 0, 0.5, 1, 2, 4, 8, 16, 64, 256, 1024)] + [log1p(-q2)]
    if pair2.t != 0:  # the end of the inner loss, where its density has an algebraic edge
        targets.append(log1p(q2 * expm1(-log1p(pair2.t) / 2 - pair2.m**2 / (2 * pair2.t))))
    for r in targets:
        at = e - r if order == "remove" else -r - e
        if expm1(at) > -q:
            points.update(pair.places(log1p(expm1(at) / q)))
    return quad(f, sorted(x for x in points if -12 <= x <= 22), maxdegree=5)


def agree(a, b):
    return b is not None and abs(log(a) - log(b)) < mpf(10) ** -15 * (1 + abs(log(a)))


def check_two_steps(groups, e, order):
    pairs = [(mpf(q), Pair(t, m)) for q, t, m in groups]
    different = groups[0] != groups[1]
    for outer, inner in ((0, 1), (1, 0))[: 1 + different]:
        a = two_steps(pairs[outer], pairs[inner], mpf(e), order, 1)
        if agree(a, two_steps(pairs[outer], pairs[inner], mpf(e), order, 2)):
            return log(a)
    return None


# ---------------------------------------------------------------------------------------------------------------------
DIGITS = 62.0  # e^-62 = 1e-27
MOST = 150_000  # values on a line


class Law:
    """M(s) of one sampled step: E_Q (1 − q + q w)^e, with e = 1 + s (remove) or −s (add)."""

    def __init__(self, group, order):
        self.q, self.t, self.m, self.r, self.n = group
        self.order = order
        self.table = []

    def exponent(self, s):
        return s + 1 if self.order == "remove" else -s

    def limit(self):
        """M is finite left of this."""
        return 1 / self.t if self.order == "remove" and self.t > 0 else math.inf

    def shape(self, x):
        """The loss log w and the logarithm of the density under Q, in floats, at x: a direction, or log χ² of many."""
        t, m, r = self.t, self.m, self.r
        if r > 1:
            constant = -r / 2 * math.log(2) - math.lgamma(r / 2)
            return -r / 2 * math.log1p(t) + t / (2 * (1 + t)) * np.exp(x), r / 2 * x - np.exp(x) / 2 + constant
        loss = -math.log1p(t) / 2 - (x - m) ** 2 / (2 * (1 + t)) + x * x / 2
        return loss, -x * x / 2 - math.log(2 * math.pi) / 2

    def on_axis(self, c):
        """n log M(c) in floats, and where the integrand lives. It only steers."""
        x = (
            np.linspace(-12.0, 9.0, 6000)
            if self.r > 1
            else np.linspace(-60.0, 60.0 + max(self.exponent(c) * self.m, 0.0), 6000)
        )
        loss, weight = self.shape(x)
        ell = loss if self.q == 1 else np.logaddexp(math.log1p(-self.q), math.log(self.q) + loss)
        height = self.exponent(c) * ell + weight
        live = x[height > height.max() - 160.0]
        total = height.max() + math.log(np.exp(height - height.max()).sum() * (x[1] - x[0]))
        return self.n * total, live[0], live[-1]

    def prepare(self, c, top, fine, digits):
        """The nodes of the inner sum: log(1 − q + q w) and the logarithm of the weight.

        A mean shift is integrated along Im x = ±π/2μ, where the power of 1 − q + q w does not grow with |s|, for all s.
        Other pairs are integrated along the real line, with a step that shrinks as |s| grows.
        """
        if self.q == 1:
            return
        _, low, high = self.on_axis(c)
        t, m, r = (arb(v) for v in (self.t, self.m, self.r))
        tilt, scale = 0.0, 1.0
        if self.t == 0:
            reach = min(math.pi / (2 * self.m), 8.0)
            tilt = (reach if self.order == "remove" else -reach) * fine**0.2
            h = 2 * math.pi * 0.7 * reach / (digits + 20.0 + tilt * tilt) * fine
        else:
            x = np.array([low, high])
            slope = float(
                np.abs(np.diff(self.shape(np.array([low, low + 1e-6, high, high + 1e-6]))[0]))[::2].max() / 1e-6
            )
            scale = math.exp(x[1]) / 4 if self.r > 1 else 1.0
            reach = min(math.sqrt((2.0 * digits + 40.0) / scale), 1.2, math.pi / slope)
            h = 2 * math.pi / ((digits + 20.0) / reach + scale * reach / 2 + top * slope) * fine
        constant = -(r / 2) * arb(2).log() - (r / 2).lgamma() if self.r > 1 else -(2 * arb.pi()).log() / 2
        base, q = constant + arb(h).log(), arb(self.q)
        self.table = []
        for k in range(int((high - low) / h) + 2):
            x = acb(arb(low) + k * arb(h), arb(tilt))
            if self.r > 1:
                loss, weight = -(r / 2) * (1 + t).log() + t / (2 * (1 + t)) * x.exp(), r / 2 * x - x.exp() / 2
            else:
                loss, weight = -(1 + t).log() / 2 - (x - m) ** 2 / (2 * (1 + t)) + x * x / 2, -x * x / 2
            self.table.append(((q * (loss.exp() - 1) + 1).log(), weight + base))

    def line(self, s, step):
        """M(s)^n, then M(s + i·step)^n, and so on. A node costs one product; every 64th is made afresh."""
        if self.q == 1:
            t, m = arb(self.t), arb(self.m)
            while True:
                e = self.exponent(s)
                a = 1 - e * t / (1 + t)
                one = -e * (1 + t).log() - a.log() - e * m * m / (1 + t) + (e * m / (1 + t)) ** 2 / a
                yield (self.r * self.n * one / 2).exp()
                s += acb(0, step)
        turn = self.exponent(acb(0, step)) - self.exponent(acb(0))
        turns = [(turn * ell).exp() for ell, _ in self.table]
        while True:
            e = self.exponent(s)
            here = [(e * ell + w).exp() for ell, w in self.table]
            for _ in range(64):
                yield sum(here, acb(0)) ** self.n
                here = [a * b for a, b in zip(here, turns, strict=True)]
            s += acb(0, 64 * step)


def heights(laws, e):
    """log of the integrand at places on the axis, in floats. It only steers."""
    limit = min(law.limit() for law in laws)
    places = np.geomspace(1e-3, 1e8, 220) if math.isinf(limit) else limit / (1 + np.geomspace(1e-4, 1e4, 150))[::-1]

    def height(c):
        if laws[0].order == "remove" and max(law.m for law in laws) * c > 1000.0:
            return math.inf
        value = sum(law.on_axis(c)[0] for law in laws) - c * e - math.log(c * (c + 1))
        return value if math.isfinite(value) else math.inf

    with np.errstate(all="ignore"):
        return places, np.array([height(c) for c in places])


def plan(laws, e, digits):
    """A line and a step: the step is as large as 29 digits of the trapezoid rule allow. Nothing hangs on it.

    Moved by d to either side, the line bounds the error of the rule by e^(−2πd/step) times the integrand there. A line
    left of the saddle costs digits, which are there.
    """
    places, values = heights(laws, e)
    k, best = int(np.argmin(values)), (0.0, 0.0)
    for i in range(min(k, places.size - 2), 1, -1):
        c, need = places[i], digits + values[i] - values[k]
        if need > digits + 30.0:
            break
        right = 2 * math.pi * (places[i + 1 :] - c) / (need + values[i + 1 :] - values[i])
        left = 2 * math.pi * (c - places[:i]) / (need + values[:i] - values[i])
        best = max(best, (float(min(right.max(), left.max())), float(c)))
    return best[1], best[0]


def line(groups, e, order, c, step, fine, digits):
    """log of (1/π) Re ∫ over the upper half of the vertical line through c, by the trapezoid rule."""
    laws = [Law(g, order) for g in groups]
    step, e, top, k = arb(step), arb(e), 50.0 * step, 0
    total, peak, dead, parts = arb(0), -math.inf, 0, None
    while dead < 200:
        if parts is None or (k * float(step) > top and any(law.t != 0 for law in laws)):
            top *= 3.0
            for law in laws:
                law.prepare(c, top, fine, digits)
            parts = [law.line(acb(c, k * step), step) for law in laws]
        s = acb(arb(c), k * step)
        value = (-s * e).exp() / (s * (s + 1))
        for part in parts:
            value *= next(part)
        size = float(abs(value).log().mid())
        total += value.real / 2 if k == 0 else value.real
        peak = max(peak, size)
        dead = dead + 1 if size < peak - digits else 0
        k += 1
        if k == MOST:
            return None, k, 0.0
    total = abs(total * step / arb.pi()).log()
    return total, k, peak - float(total.mid())


def check_line(groups, e, order):
    """log δ by two lines with different steps, if they agree; the precision follows the digits that cancel."""
    ctx.prec, digits = 256, DIGITS
    while True:
        c, step = plan([Law(g, order) for g in groups], e, digits)
        a, count, lost = line(groups, e, order, c, step, 1.0, digits)
        print(f"   c = {c:.4g}, step {step:.3g}, {count} values, e^{lost:.0f} cancel", flush=True)
        if a is None or digits > 300.0:
            return None
        if lost < digits - DIGITS + 8.0:
            break
        digits = DIGITS + min(lost + 2.0, 2.0 * digits)
        ctx.prec = 200 + int(1.5 * digits)
    b, *_ = line(groups, e, order, 0.93 * c, 0.83 * step, 0.8, digits)
    if b is None or not abs(float((a - b).mid())) < 1e-15 * (1 + abs(float(a.mid()))):
        print("   no agreement", a, b, flush=True)
        return None
    return a.mid().str(18, radius=False)


def main():
    cases, start = [], time.time()
    for groups, points, order in TWO:
        for e in points:
            value = check_two_steps(groups, e, order)
            print(f"{time.time() - start:4.0f} s  {order} {groups} {e}: {value and nstr(value, 20)}", flush=True)
            if value is not None:
                rows = [{"rate": q, "excess": t, "shift": m, "steps": 1} for q, t, m in groups]
                case = {"groups": rows, "epsilon": e, "order": order, "log_delta": nstr(value, 22), "by": "two steps"}
                cases.append(case)
    for groups, e, order in LINE:
        value = check_line(groups, e, order)
        print(f"{time.time() - start:6.0f} s  line {order} {groups} {e}: {value}", flush=True)
        if value is not None:
            names = ("rate", "excess", "shift", "copies", "steps")
            rows = [dict(zip(names, group, strict=True)) for group in groups]
            cases.append({"groups": rows, "epsilon": e, "order": order, "log_delta": value, "by": "line"})
    (DATA / "accounting_cases.json").write_text(json.dumps({"cases": cases}, indent=1) + "\n")
    print(len(cases), "cases,", math.ceil(time.time() - start), "s")


if __name__ == "__main__":
    main()
