"""This module encloses δ(ε) of a composition of any laws (`ndis.accountant.laws`), with a proof.

Write K(s) for the sum of the log-moments of all releases in one order. Theorem thm:period-sum (docs/theory.md) encloses
δ(ε) by a sum of e^{K(s) − sε}/(s(s+1)) over s_k = c + 2πik/p, and by moments at three real places.

**The rest beyond y_N.** Let C bound |e^{K(c+iy) − sε}| for all y ≥ y_N: a product of the ceilings of all laws. Then the
nodes beyond y_N add up to at most C/(π y_N).

**If the moments fall too slowly** (few steps, or discrete laws), one small Gaussian release of shift τ joins the
composition. It adds ½τ² s(s+1) to K and makes everything fall like e^{−τ²y²/2}. Let δ_τ be the profile with it and p_τ
the density of its loss.

  - δ ≤ δ_τ, because dropping a release is post-processing.
  - δ_τ − δ ≤ τ² e^{τ²/8} p_τ(ε). Proof: the derivative of δ_v with respect to v = τ² is ½p_v(ε) by the formula above,
    and p_v(ε) = E n_v(ε − L − v/2) with n_v the density of N(0, v). The value n_v(x − v/2), which is
    (2πv)^{−½} e^{−x²/2v + x/2 − v/8}, is at most (2πv)^{−½} e^{−x²/2τ² + x/2} for v ≤ τ². Integrate ½ dv over (0, τ²):
    this gives (τ/√(2π)) e^{−x²/2τ² + x/2} = τ² e^{τ²/8} n_{τ²}(x − τ²/2).
  - The same sum without 1/(s(s+1)) is p_τ(ε) plus terms that are not negative, so it bounds p_τ(ε) from above.

**If the sum would be too long**, discrete laws stand in for the steps (`ndis.accountant.stand_ins`): one law that
dominates, one that is dominated. That happens for a record that is almost never sampled, at a δ far below the chance
that it is. If that fails too, Chernoff's bound remains.

The float plan only proposes c, p, b₁, b₂, τ and N. No proof rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from flint import acb, arb

from ndis._balls import Ball, outward, precision
from ndis._search import chernoff_factor_ball
from ndis._validate import as_scalar, require
from ndis.accountant.laws import BallLaw
from ndis.accountant.laws.plain import PlainBalls
from ndis.accountant.plan import Guess, Plan, Planner
from ndis.accountant.stand_ins import dominated, dominating, profile
from ndis.enclosure import Enclosure
from ndis.errors import PrecisionError
from ndis.spectrum.certified import in_floats, too_wide

Parts = list[tuple[BallLaw, int]]

_ATTEMPTS = 6
_BOUND_BITS = 320
_EDGE_BITS = (256, 2048)
_MOST_NODES = 60_000  # in one sum over one law: about five seconds
_PLACES = 400  # at which a stand-in touches the profile
_SUM_WIDTH = 2e-3  # the stand-ins themselves are about as far apart
_CLOSE = 0.01  # relative width of a sum that needs no stand-in
_ORDERS = np.geomspace(0.05, 500.0, 25).tolist()  # for Chernoff's bound
_FEW = 4  # powers up to this need no logarithm


class Certifier:
    """Enclose the δ(ε) of one composition in one order.

    Parameters
    ----------
    make : callable
        Returns the laws with their counts, at the working precision.

    Examples
    --------
    >>> from ndis.accountant.laws.mixture_balls import MixtureBalls, Sides
    >>> certifier = Certifier(lambda: [(MixtureBalls(Sides.poisson(arb(0.01), arb(1), remove=True)), 1000)])
    >>> box = certifier.bounds(1.0, 1e-6)  # 1000 steps of DP-SGD with noise multiplier 1
    >>> box.width <= 1e-6 * box.upper
    True
    """

    def __init__(self, make: Callable[[], Parts]) -> None:
        self.make = make
        self._stand_ins: dict[float, tuple[Parts, Parts, Ball]] = {}

    def bounds(self, epsilon: float, relative_width: float) -> Enclosure:
        """Return lower ≤ δ(ε) ≤ upper, of this relative width if a sum can have it, or wider.

        A sum that is too long has discrete stand-ins, whose bounds are about a percent apart. If these fail too, the
        bounds are 0 and Chernoff's.
        """
        ball, reached, _ = self._search(self.make, epsilon, relative_width)
        low, high = in_floats(ball)
        if reached > max(_CLOSE, relative_width):
            with suppress(PrecisionError):
                below, above = self._by_stand_ins(epsilon, max(relative_width, _SUM_WIDTH))
                low, high = max(low, below), min(high, above)
        if low > 0.0 or high == 0.0:
            return Enclosure(low, high)
        return Enclosure(0.0, min(high, *(self.upper(epsilon, c) for c in _ORDERS)))

    def upper(self, epsilon: float, place: float) -> float:
        """Return Chernoff's bound of δ(ε) from the moments of one order, at most 1; it is good only for a tiny δ."""
        with precision(_BOUND_BITS), suppress(PrecisionError):
            parts = self.make()
            if all(place < law.limit for law, _ in parts):
                bound = outward(chernoff(parts, epsilon, place)).upper
                return bound if bound < 1.0 else 1.0  # 1 for NaN
        return 1.0

    def enclose(self, epsilon: float, relative_width: float) -> Ball:
        """Return δ(ε) as a ball of this relative width. PrecisionError says that the width is not reached."""
        ball, reached, reason = self._search(self.make, epsilon, relative_width)
        if not reached <= relative_width:
            raise too_wide("delta", epsilon, relative_width, reached, reason)
        return ball

    def _search(self, make: Callable[[], Parts], epsilon: float, relative_width: float) -> tuple[Ball, float, str]:
        """Return δ(ε) as a ball of this relative width, or the narrowest found; its width, and why it is no less."""
        e, width = as_scalar("epsilon", epsilon), as_scalar("relative_width", relative_width)
        require(0 < width < 1, "relative_width", "lie strictly between 0 and 1", width)
        exact = _beyond_the_ends(make, e)
        if exact is not None:
            return exact, 0.0, ""
        best, reached, reason, guess = arb(0).union(arb(1)), math.inf, "", Guess()
        for _ in range(_ATTEMPTS):
            with precision(128):
                parts = make()
                total = sum(n for _, n in parts)
                try:
                    plan = Planner(parts, e, width, guess).plan()
                except (PrecisionError, ArithmeticError, ValueError) as error:
                    reason = f" ({error})"
                    break
            if plan.last * len(parts) > _MOST_NODES:
                reason = f" (the sum needs {plan.last:.2g} nodes)"
                break
            try:
                with precision(round(72 + 2 * total.bit_length() + 1.5 * plan.digits)):
                    ball, ratio, smooth = _period_sum(make(), e, plan)
            except PrecisionError as error:
                reason = f" ({error})"
                break
            guess = guess.after(plan, outward(ball.log()).upper if ball > 0 else math.nan, ratio, smooth)
            relative = float((2 * ball.rad() / ball.lower()).upper()) if ball > 0 else math.inf
            if relative < reached or (reached == math.inf and ball.upper() < best.upper()):
                best, reached = ball, relative
                if reached <= width:
                    break
        return best, reached, reason

    def _by_stand_ins(self, epsilon: float, width: float) -> Enclosure:
        """Bound δ(ε) with discrete laws in the place of all sampled steps."""
        with precision(_BOUND_BITS):
            parts = self.make()
        steps = sum(n for _, n in parts)
        mass = 1e-12 / steps
        while True:
            if mass not in self._stand_ins:
                self._stand_ins[mass] = _stand_ins(parts, mass)
            above, below, lost = self._stand_ins[mass]
            top, _, _ = self._search(above.copy, epsilon, width)
            if lost <= width * top or mass < 1e-200:
                bottom = self._search(below.copy, epsilon, width)[0] if below else arb(0)
                with precision(_BOUND_BITS):
                    return Enclosure(max(outward(bottom).lower, 0.0), min(outward(top + lost).upper, 1.0))
            goal = max(0.3 * width * float(top.lower()) / steps, 1e-290)
            mass = min(10.0 ** math.floor(math.log10(goal)), 0.1 * mass)  # few different ones


def _beyond_the_ends(make: Callable[[], Parts], epsilon: float) -> Ball | None:
    """Return δ beyond an end of the loss: 0 above the upper end, 1 − e^ε below the lower one; None inside."""
    for bits in _EDGE_BITS:
        with precision(bits):
            least, most, e = arb(0), arb(0), arb(epsilon)
            for law, n in make():
                low, high = law.ends()
                least, most = least + n * low, most + n * high
            if e >= most:
                return arb(0)
            if e <= least:
                return -e.expm1()
            if least < e < most:
                break
    return None


def _stand_ins(parts: Parts, mass: float) -> tuple[Parts, Parts, Ball]:
    """Return laws above all, laws below all (none if one is not resolved), and p_∞ of all those above together.

    A law in closed form stands for itself.
    """
    above, below, resolved = list[tuple[BallLaw, int]](), list[tuple[BallLaw, int]](), True
    with precision(_BOUND_BITS):
        stay = arb(1)
        for law, n in parts:
            high = low = law
            if not law.quick:
                raise PrecisionError("discrete stand-ins of a step would take too long")
            if not isinstance(law, PlainBalls):
                curve = profile(law, places=_PLACES, mass=mass)
                high, infinite = dominating(curve)
                stay *= (1 - infinite) ** n
                try:
                    low = dominated(curve)
                except PrecisionError:
                    resolved = False
            above.append((high, n))
            below.append((low, n))
        return above, below if resolved else [], (1 - stay).nonnegative_part()


def _period_sum(parts: Parts, epsilon: float, plan: Plan) -> tuple[Ball, float, float]:
    """Return δ(ε) as a ball (thm:period-sum); p_τ(ε)/δ_τ(ε) and log δ_τ(ε) roughly, or nan if the sum hides them."""
    c, eps, p = arb(plan.c), arb(epsilon), arb(plan.period)
    step = 2 * arb.pi() / p
    tau2 = arb(plan.tau) ** 2
    lines = [law.line(plan.c, step, plan.last + 1, plan.digits) for law, _ in parts]
    delta, density = arb(0), arb(0)
    for k in range(plan.last + 1):
        s = acb(c, step * k)
        both = s * (1 + s)
        exponent, factor = tau2 * both / 2 - s * eps, acb(1)
        for line, (_, n) in zip(lines, parts, strict=True):
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
    # the terms beyond the end, by a bound of |e^{K(c+iy) − sε}|
    exponent = (tau2 * acb(c, end) * acb(1 + c, end) / 2).real - c * eps
    for law, n in parts:
        exponent += n * law.ceiling(plan.c, outward(end).lower, _rough(n) + plan.digits / n).log()
    cap = exponent.exp().upper()
    beyond = cap / (arb.pi() * end)
    periods = arb(0)  # the terms of the other periods
    for b in (plan.below, plan.above):
        height = arb(1) if b == 0.0 else chernoff(parts, epsilon, b, tau2)
        periods += height / (abs(arb(b) - c) * p).expm1()
    upper = (delta + beyond).upper()
    lower = (delta - beyond - periods.upper()).lower()
    smooth = float(lower.log()) if lower > 0 else math.nan
    if plan.tau > 0.0:
        density += cap / (arb.pi() * end * tau2)
        lower = (lower - tau2 * (tau2 / 8).exp() * density).lower()
    if not upper.is_finite():
        raise PrecisionError("the sum did not stay finite")
    ratio = float((density / delta).mid()) if plan.tau > 0.0 and delta > 0 else math.nan
    return lower.union(upper), ratio, smooth


def chernoff(parts: Parts, epsilon: float, b: float, tau2: Ball | int = 0) -> Ball:
    """Bound δ(ε) by b^b/(1+b)^{1+b} e^{K(b) − bε}, for b > 0 (thm:sampled-chernoff)."""
    exact = arb(b)
    exponent = chernoff_factor_ball(exact) - exact * epsilon + tau2 * exact * (1 + exact) / 2
    for law, n in parts:
        exponent += n * law.moment(b, _rough(n)).upper().log()
    return exponent.exp().upper()


def _rough(count: int) -> float:
    """Return the digits, in natural log units, of a moment whose power is only a bound."""
    return 10.0 + math.log(count)
