"""Make ``data/accounting_cases.json``: log δ(ε) of compositions of Poisson-sampled Gaussian pairs, to 15 digits.

The package integrates along a bent path with tilted inner lines, splits off rare losses, and uses Mellin-Barnes
integrals. Nothing of that is used here. The numbers come from two other computations:

* *two steps*: δ₂(ε) = E_P δ₁(ε − L), a real integral of positive terms, with the exact δ₁ of one sampled step inside it
  (normal distribution functions; for a pair with different variances, the roots of a quadratic). The outer step is
  either of the two; a case is written only if two subdivisions of the line agree.
* *line*: the trapezoid rule along a vertical line, with uniform steps, at a precision that swallows all cancellation.
  The moments are trapezoid sums on the real line. A case is written only if two steps of either rule agree.

Inputs are binary doubles and count as exact. About five minutes on one core:
``python tests/oracle/make_accounting_cases.py``.
"""

import json
import math
import time
from pathlib import Path

from flint import acb, arb, ctx
from mpmath import erfc, exp, expm1, log, log1p, mp, mpf, nstr, pi, quad, sqrt

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
def moments(q, mu, order, h, top):
    """The function M(s) as a trapezoid sum on the real line with step h."""
    q, mu = arb(q), arb(mu)
    nodes = []
    low, high = -16.0, 18.0 + float(mu) * (top + 2.0 if order == "remove" else 1.0)
    count = int((high - low) / h)
    root = (2 * arb.pi()).sqrt()
    for k in range(count + 1):
        x = arb(low) + arb(k) * arb(h)
        ell = (q * ((mu * x - mu * mu / 2).exp() - 1) + 1).log()
        nodes.append((ell, -x * x / 2 + (arb(h) / root).log()))

    def moment(s):
        power = s + 1 if order == "remove" else -s
        return sum(((power * ell + w).exp() for ell, w in nodes), acb(0))

    return moment


def line(groups, e, order, c, step, h, cut=1e-24):
    """(1/π) Re ∫ over the upper half of the vertical line through c."""
    fs = [(moments(q, mu, order, h, c), n) for q, mu, n in groups]
    total, k, dead, peak = arb(0), 0, 0, None
    while dead < 40:
        s = acb(arb(c), arb(k) * arb(step))
        value = (-s * arb(e)).exp() / (s * (s + 1))
        for moment, n in fs:
            value *= moment(s) ** n
        size = float(abs(value).mid()) if k else None
        total += value.real / 2 if k == 0 else value.real
        peak = max(peak or 0.0, float(abs(value).mid()))
        dead = dead + 1 if size is not None and size < cut * float(abs(total).mid()) else 0
        k += 1
        assert k < 20000
    return (total * arb(step) / arb.pi()).log()


def check_line(groups, e, order, c, step, h):
    ctx.prec = 240
    a = line(groups, e, order, c, step, h)
    b = line(groups, e, order, c * 1.03, step * 0.7, h * 0.7)
    good = abs((a - b).mid()) < 1e-19 * (1 + abs(float(a.mid())))
    return a.mid().str(25, radius=False) if good else None


TWO = [
    ([(1e-6, 0.0, 2.0), (1e-6, 0.0, 2.0)], [0.0, 1e-3, 1.0], "remove"),
    ([(1e-6, 0.0, 3.3), (1e-4, 0.0, 0.5)], [1e-5, 0.5], "remove"),
    ([(0.3, 0.0, 10 / 3), (0.3, 0.0, 10 / 3)], [0.1, 2.0, 9.0], "remove"),
    ([(0.3, 0.0, 10 / 3), (0.3, 0.0, 10 / 3)], [0.1, 0.5], "add"),
    ([(0.5, 0.0, 0.01), (0.5, 0.0, 0.01)], [0.0, 0.01, 0.05], "remove"),
    ([(0.00093, 0.0, 0.6403), (0.002589, 0.0, 0.2765)], [2.0], "remove"),
    ([(0.1, 0.5, 0.0), (0.1, 0.5, 0.0)], [0.05, 1.0], "remove"),
    ([(0.1, 0.5, 0.0), (0.1, 0.5, 0.0)], [0.05, 0.1], "add"),
    ([(0.2, -0.4, 0.3), (0.2, -0.4, 0.3)], [0.02, 0.2], "remove"),
    ([(0.2, -0.4, 0.3), (0.05, 0.3, 0.1)], [0.02, 0.2], "add"),
    ([(0.2, -0.4, 0.3), (0.05, 0.3, 0.1)], [0.02, 0.4], "remove"),
]
# groups (rate, shift, steps), ε, order, c, step along the line, step of the inner sum. Any c > 0 is right: one far left
# of the saddle costs digits, which are there, and is far from where M explodes.
LINE = [
    ([(1e-3, 1.0, 1000)], 0.1, "add", 45.0, 2.0, 0.04),
    ([(0.5, 0.01, 1000000)], 100.0, "remove", 3.5, 0.2, 0.1),
    ([(0.02, 1.0, 5000)], 25.0, "remove", 3.0, 0.2, 0.05),
    ([(0.25, 0.01, 100)], 0.5, "remove", 800.0, 20.0, 0.1),
]


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
    for groups, e, order, c, step, h in LINE:
        value = check_line(groups, e, order, c, step, h)
        print(f"{time.time() - start:6.0f} s  line {order} {groups} {e}: {value}", flush=True)
        if value is not None:
            rows = [{"rate": q, "excess": 0.0, "shift": m, "steps": n} for q, m, n in groups]
            cases.append({"groups": rows, "epsilon": e, "order": order, "log_delta": value, "by": "line"})
    (DATA / "accounting_cases.json").write_text(json.dumps({"cases": cases}, indent=1) + "\n")
    print(len(cases), "cases,", math.ceil(time.time() - start), "s")


if __name__ == "__main__":
    main()
