"""The sum of `ndis.accountant.certify` over one line, in balls, and Chernoff's bound."""

from __future__ import annotations

import math
from collections.abc import Sequence

from flint import acb, arb

from ndis._balls import Ball, outward
from ndis.accountant.laws import BallLaw
from ndis.accountant.plan import Plan
from ndis.errors import PrecisionError

__all__ = ["PeriodSum", "chernoff"]

_FEW = 4  # powers up to this need no logarithm


class PeriodSum:
    """Sum for one ε at the working precision (thm:period-sum)."""

    def __init__(self, parts: Sequence[tuple[BallLaw, int]], epsilon: float, plan: Plan) -> None:
        self.parts, self.epsilon, self.plan = parts, epsilon, plan

    def value(self) -> tuple[Ball, float, float]:
        """Return δ(ε) as a ball; p_τ(ε)/δ_τ(ε) and log δ_τ(ε) roughly, or nan if the sum hides them."""
        plan = self.plan
        c, eps, p = arb(plan.c), arb(self.epsilon), arb(plan.period)
        step = 2 * arb.pi() / p
        tau2 = arb(plan.tau) ** 2
        lines = [law.line(plan.c, step, plan.last + 1, plan.digits) for law, _ in self.parts]
        delta, density = arb(0), arb(0)
        for k in range(plan.last + 1):
            s = acb(c, step * k)
            both = s * (1 + s)
            exponent, factor = tau2 * both / 2 - s * eps, acb(1)
            for line, (_, n) in zip(lines, self.parts, strict=True):
                m = line[k]
                if n < _FEW or m.contains(acb(0)):
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
        beyond = cap / (arb.pi() * end)
        upper = (delta + beyond).upper()
        lower = (delta - beyond - self._periods(tau2)).lower()
        smooth = float(lower.log()) if lower > 0 else math.nan
        if plan.tau > 0.0:
            density += cap / (arb.pi() * end * tau2)
            lower = (lower - tau2 * (tau2 / 8).exp() * density).lower()
        if not upper.is_finite():
            raise PrecisionError("the sum did not stay finite")
        ratio = float((density / delta).mid()) if plan.tau > 0.0 and delta > 0 else math.nan
        return lower.union(upper), ratio, smooth

    def _ceiling(self, end: Ball, tau2: Ball) -> Ball:
        """Bound |e^{K(c+iy) − sε}| for all y from `end` on."""
        c, y = self.plan.c, outward(end).lower
        exponent = (tau2 * acb(c, end) * acb(1 + arb(c), end) / 2).real - arb(c) * self.epsilon
        for law, n in self.parts:
            exponent += n * law.ceiling(c, y, _rough(n) + self.plan.digits / n).log()
        return exponent.exp().upper()

    def _periods(self, tau2: Ball) -> Ball:
        """Bound the terms of the other periods."""
        plan, total = self.plan, arb(0)
        for b in (plan.below, plan.above):
            distance = abs(arb(b) - arb(plan.c)) * arb(plan.period)
            height = arb(1) if b == 0.0 else chernoff(self.parts, self.epsilon, b, tau2)
            total += height / (distance.exp() - 1)
        return total.upper()


def chernoff(parts: Sequence[tuple[BallLaw, int]], epsilon: float, b: float, tau2: Ball | int = 0) -> Ball:
    """Bound δ(ε) by b^b/(1+b)^{1+b} e^{K(b) − bε}, for b > 0 (thm:sampled-chernoff)."""
    exact = arb(b)
    exponent = exact * exact.log() - (1 + exact) * (1 + exact).log() - exact * epsilon + tau2 * exact * (1 + exact) / 2
    for law, n in parts:
        exponent += n * law.moment(b, _rough(n)).upper().log()
    return exponent.exp().upper()


def _rough(count: int) -> float:
    """Return the digits, in natural log units, of a moment whose power is only a bound."""
    return 10.0 + math.log(count)
