"""The sum of `ndis.accountant.certified` over one line, in balls."""

from __future__ import annotations

import math
from typing import Any

from flint import acb, acb_mat, arb

from ndis._balls import Ball, outward
from ndis.accountant.certified_parts import Parts
from ndis.accountant.certified_plan import Plan
from ndis.errors import PrecisionError

__all__ = ["PeriodSum", "chernoff"]


class PeriodSum:
    """The sum for one ε, at the working precision. The law may be any positive measure with these moments."""

    def __init__(self, parts: Parts, epsilon: float, plan: Plan) -> None:
        self.parts, self.epsilon, self.plan = parts, epsilon, plan

    def value(self) -> tuple[Ball, float, float]:
        """δ(ε) as a ball; p_τ(ε)/δ_τ(ε) and log δ_τ(ε) roughly, or nan where they are not seen."""
        plan = self.plan
        c, eps, p = arb(plan.c), arb(self.epsilon), arb(plan.period)
        step = 2 * arb.pi() / p
        tau2 = arb(plan.tau) ** 2
        counts = [n for _, n in self.parts.steps]
        tables = [_powers(*s.line(plan.c, plan.digits), step, plan.last + 1) for s, _ in self.parts.steps]
        side = 1 if not self.parts.steps or self.parts.steps[0][0].remove else -1
        delta, density = arb(0), arb(0)
        for k in range(plan.last + 1):
            s = acb(c, side * step * k)
            both = s * (1 + s)
            exponent, factor = self.closed(self.parts, s, both) + tau2 * both / 2 - s * eps, acb(1)
            for table, n in zip(tables, counts, strict=True):
                m = table[k]
                if n < 4 or m.contains(acb(0)):
                    factor *= m**n
                else:
                    exponent += n * m.log()
            value = (1 if k == 0 else 2) * factor * exponent.exp()
            delta += (value / both).real
            if plan.tau > 0.0:
                density += value.real
        delta, density = delta / p, density / p
        end = step * plan.last
        cap = self._ceiling(end, tau2)
        rest = cap / (arb.pi() * end)
        upper = (delta + rest).upper()
        lower = (delta - rest - self._periods(tau2)).lower()
        smooth = float(lower.log()) if lower > 0 else math.nan
        if plan.tau > 0.0:
            density += cap / (arb.pi() * end * tau2)
            lower = (lower - tau2 * (tau2 / 8).exp() * density).lower()
        if not upper.is_finite():
            raise PrecisionError("the sum did not stay finite")
        ratio = float((density / delta).mid()) if plan.tau > 0.0 and delta > 0 else math.nan
        return lower.union(upper), ratio, smooth

    @staticmethod
    def closed(parts: Parts, s: Any, both: Any) -> Any:
        """K(s) of the plain releases; `both` is s(s+1)."""
        total = parts.flat * both / 2
        for t, m2, n in parts.curved:
            rest = 1 - s * t
            total += n * (m2 * both / rest - s * (1 + t).log() - rest.log()) / 2
        return total

    def _ceiling(self, end: Ball, tau2: Ball) -> Ball:
        """C at y = end: a bound of |e^{K(c+iy) − sε}| for all y beyond."""
        c, y = self.plan.c, outward(end).lower
        s = acb(c, end)
        both = s * (1 + s)
        if not all(1 - c * t > 0 for t, _, _ in self.parts.curved):
            return arb.pos_inf()
        exponent = (self.closed(self.parts, s, both) + tau2 * both / 2).real - arb(c) * self.epsilon
        for step, n in self.parts.steps:
            exponent += n * step.ceiling(c, y, step.best_angle(c, y)[1], _rough(n) + self.plan.digits / n).log()
        return exponent.exp().upper()

    def _periods(self, tau2: Ball) -> Ball:
        """The bound on the other periods."""
        plan, total = self.plan, arb(0)
        for b in (plan.below, plan.above):
            exact, distance = arb(b), abs(arb(b) - arb(plan.c)) * arb(plan.period)
            exponent = arb(0)
            if b > 0.0:
                both = exact * (1 + exact)
                exponent = self.closed(self.parts, exact, both) + tau2 * both / 2 - exact * self.epsilon
                exponent += exact * exact.log() - (1 + exact) * (1 + exact).log()
                for step, n in self.parts.steps:
                    exponent += n * step.moment(b, _rough(n)).upper().log()
            total += exponent.exp() / (distance.exp() - 1)
        return total.upper()


def chernoff(parts: Parts, epsilon: float, b: float) -> Ball:
    """κ_b e^{K(b) − bε} at most: a bound of δ(ε), for b > 0."""
    exact = arb(b)
    both = exact * (1 + exact)
    if not all(1 - exact * t > 0 for t, _, _ in parts.curved):
        return arb.pos_inf()
    exponent = PeriodSum.closed(parts, exact, both) - exact * epsilon
    exponent += exact * exact.log() - (1 + exact) * (1 + exact).log()
    for step, n in parts.steps:
        exponent += n * step.moment(b, _rough(n)).upper().log()
    return exponent.exp().upper()


def _rough(count: int) -> float:
    """The digits, in e-folds, of a moment whose power is only a bound."""
    return 10.0 + math.log(count)


def _powers(weights: list[Any], logs: list[Any], error: Ball, step: Ball, count: int) -> list[Any]:
    """Σ_j weights_j exp(ik·step·logs_j) ± error for k = 0 … count−1, as products of two matrices in C.

    The terms fall with k. Those that are certainly small from some k on are dropped there, and join the error.
    """
    turn = acb(0, step)
    height = math.isqrt(count - 1) + 1
    near = _vandermonde([(turn * log).exp() for log in logs], height)
    far = _vandermonde([(height * turn * log).exp() for log in logs], -(-count // height))
    rows = [[weight * z for weight, z in zip(weights, row, strict=True)] for row in near]
    sizes = [weight.abs_upper() if log.imag >= 0 else arb.pos_inf() for weight, log in zip(weights, logs, strict=True)]
    small = (error / (4 * len(weights) + 1)).lower()
    out: list[Any] = []
    start = 0
    while start < len(far):
        end = min(max(2 * start, start + 1), len(far))
        slack, kept = error, list[int]()
        for j, (size, z) in enumerate(zip(sizes, far[start], strict=True)):
            left = size * z.abs_upper()
            if left < small:
                slack += left
            else:
                kept.append(j)
        if kept:
            left_part = acb_mat([[row[j] for j in kept] for row in far[start:end]])
            entries = (left_part * acb_mat([[row[j] for j in kept] for row in rows]).transpose()).entries()
        else:
            entries = [acb(0)] * ((end - start) * height)
        unknown = arb(0, slack.upper())
        out += [m + acb(unknown, unknown) for m in entries]
        start = end
    return out[:count]


def _vandermonde(base: list[Any], count: int) -> list[list[Any]]:
    """Powers 0 … count−1 of each entry. Each is a product of two halves: a long chain of complex products would inflate
    the balls."""
    powers = [[acb(1)] * len(base), base]
    for k in range(2, count):
        powers.append([x * y for x, y in zip(powers[k // 2], powers[k - k // 2], strict=True)])
    return powers[:count]
