"""Certified enclosures of δ(ε) for compositions of Poisson-sampled and plain Gaussian releases.

Write K(s) for the sum of the log-moments of all releases in one order, and δ(x) for the profile at every real x. For
c > 0 the function e^{cx} δ(x) has the Fourier transform e^{K(s)}/(s(s+1)), s = c + iy. It is continuous, and the transform
falls like 1/y². So Poisson's summation formula holds at every point. With a period p, y_k = 2πk/p and s_k = c + iy_k,

    (1/p) Σ_k e^{K(s_k) − s_k ε}/(s_k(s_k+1))  =  δ(ε) + Σ_{j≠0} e^{cjp} δ(ε + jp).

**The other periods** are not negative. For every b ≥ 0, δ(x) ≤ κ_b e^{K(b) − bx} with κ_b = b^b/(1+b)^{1+b} (κ_0 = 1), because
1 − e^{−z} ≤ κ_b e^{bz}. With b₁ < c < b₂ they sum to at most

    κ_{b₂} e^{K(b₂) − b₂ε}/(e^{(b₂−c)p} − 1) + κ_{b₁} e^{K(b₁) − b₁ε}/(e^{(c−b₁)p} − 1).

So only moments at three real places and at the nodes are needed. The moments of sampled steps come from
`ndis.spectrum.sampled_moment_balls`, those of plain releases from their closed form.

**The rest beyond y_N.** Let C bound |e^{K(c+iy) − sε}| for all y ≥ y_N. Then the nodes beyond y_N add up to at most C/(π y_N).
For sampled steps C comes from the ceiling of that module. For plain directions |1−st| grows with y, and the mean terms
fall (the tail bound of `ndis.spectrum.certified`, where 1 − ct > 0).

**If the moments fall too slowly** (few steps), one small Gaussian release of shift τ joins the composition. It adds
½τ² s(s+1) to K and makes everything fall like e^{−τ²y²/2}. Let δ_τ be the profile with it and p_τ the density of its loss.

  - δ ≤ δ_τ, because dropping a release is post-processing.
  - δ_τ − δ ≤ τ² e^{τ²/8} p_τ(ε). Proof: the derivative of δ_v with respect to v = τ² is ½p_v(ε) by the formula above, and
    p_v(ε) = E n_v(ε − L − v/2) with n_v the density of N(0, v). Now n_v(x − v/2) = (2πv)^{−½} e^{−x²/2v + x/2 − v/8} is at most
    (2πv)^{−½} e^{−x²/2τ² + x/2} for v ≤ τ². Integrate ½ dv over (0, τ²): (τ/√(2π)) e^{−x²/2τ² + x/2} = τ² e^{τ²/8} n_{τ²}(x − τ²/2).
  - The same sum without 1/(s(s+1)) is p_τ(ε) plus terms that are not negative, so it bounds p_τ(ε) from above.

The float plan only proposes c, p, b₁, b₂, τ and N. Nothing rests on its being right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from flint import acb, acb_mat, arb

from ndis._validate import as_scalar
from ndis.enclosure import Enclosure
from ndis.errors import ParameterError, PrecisionError
from ndis.spectrum.balls import Ball, outward, precision
from ndis.spectrum.invariants import Groups
from ndis.spectrum.sampled_moment_balls import ShiftStep

__all__ = ["SampledGroup", "certify_sampled", "certify_sampled_log"]

Order = Literal["remove", "add"]

_ATTEMPTS = 6
_MOST_NODES = 600_000
_EDGE_BITS = 2048


@dataclass(frozen=True)
class SampledGroup:
    """`count` equal releases of one pair, each on a Poisson sample.

    Parameters
    ----------
    rates : tuple of float
        The rate is their exact product; 1 means no sampling.
    invariants : Groups
        The pair of the order asked for, enclosed to 256 bits or more.
    count : int
        Number of releases.
    """

    rates: tuple[float, ...]
    invariants: Groups
    count: int

    def __post_init__(self) -> None:
        for rate in self.rates:
            if not 0.0 < rate <= 1.0:
                raise ParameterError("rate", "lie in (0, 1]", rate)
        if not (isinstance(self.count, int) and self.count >= 1):
            raise ParameterError("count", "be a whole number of at least 1", self.count)
        if self.invariants.mutually_singular:
            raise ParameterError("invariants", "belong to laws that are not mutually singular", "mutually singular laws")


def certify_sampled(
    groups: Sequence[SampledGroup], epsilon: float, *, order: Order, relative_width: float = 1e-6
) -> Enclosure:
    """lower ≤ δ(ε) ≤ upper with certainty, upper − lower ≤ relative_width · δ (and the spacing of floats).

    Raises
    ------
    PrecisionError
        If the width asked for is not reached.

    Examples
    --------
    >>> from ndis.spectrum.invariants import Groups
    >>> group = SampledGroup((0.01,), Groups([], arb(1)), 1000)  # 1000 steps of DP-SGD with noise multiplier 1
    >>> box = certify_sampled([group], 1.0, order="remove")
    >>> box.width <= 1e-6 * box.upper
    True
    """
    low, high = outward(_enclose(groups, epsilon, order, relative_width))
    return Enclosure(max(low, 0.0), min(high, 1.0))


def certify_sampled_log(
    groups: Sequence[SampledGroup], epsilon: float, *, order: Order, relative_width: float = 1e-6
) -> Enclosure:
    """Certified enclosure of log δ(ε); −inf where δ is exactly zero."""
    ball = _enclose(groups, epsilon, order, relative_width)
    if ball == 0:
        return Enclosure(-math.inf, -math.inf)
    with precision(128):
        low, high = outward(ball.log())
    return Enclosure(low, min(high, 0.0))


def _enclose(groups: Sequence[SampledGroup], epsilon: float, order: Order, relative_width: float) -> Ball:
    e, width = as_scalar("epsilon", epsilon), as_scalar("relative_width", relative_width)
    if not 0 < width < 1:
        raise ParameterError("relative_width", "lie strictly between 0 and 1", width)
    if order not in ("remove", "add"):
        raise ParameterError("order", "be 'remove' or 'add'", order)
    total = sum(g.count for g in groups)
    reached, reason = math.inf, ""
    guess = _Guess()
    for attempt in range(_ATTEMPTS):
        with precision(96 + 2 * max(total, 1).bit_length() + round(1.5 * (-math.log2(width) + guess.loss)) + 48 * attempt):
            parts = _Parts.of(groups, order)
            exact = parts.exact(e, order)
            if exact is not None:
                return exact
            try:
                ball, guess = _Sum(parts, e, width, guess).value()
            except PrecisionError as error:
                reason = f" ({error})"
                break
            if ball > 0:
                reached = min(reached, float((2 * ball.rad() / ball.lower()).upper()))
                if reached <= width:
                    return ball
    raise PrecisionError(
        f"the enclosure of delta at epsilon = {e!r} did not shrink to relative width {width:g}; "
        f"reached {reached:.3g}{reason}",
        reached=reached,
    )


class _Parts(NamedTuple):
    """Different sampled steps with their counts, and all plain directions together."""

    steps: list[tuple[ShiftStep, int]]
    curved: list[tuple[Ball, Ball, int]]
    flat: Ball
    rates: list[tuple[tuple[float, ...], int]]  # of the sampled steps

    @classmethod
    def of(cls, groups: Sequence[SampledGroup], order: Order) -> _Parts:
        counts: dict[tuple[tuple[float, ...], str], int] = {}
        shifts: dict[tuple[tuple[float, ...], str], Ball] = {}
        curved: list[tuple[Ball, Ball, int]] = []
        flat = arb(0)
        for group in groups:
            rates = tuple(sorted(q for q in group.rates if q != 1.0))
            inner = group.invariants
            if not rates:
                curved += [(t, m2, n * group.count) for t, m2, n in inner.curved]
                flat += inner.flat * group.count
            elif inner.curved:
                raise PrecisionError("a sampled pair with unequal variances has no two-sided certificate of this kind")
            elif inner.flat != 0:
                key = (rates, inner.flat.str(80, more=True))
                counts[key] = counts.get(key, 0) + group.count
                shifts[key] = inner.flat.sqrt()
        steps = [(ShiftStep(_product(key[0]), shifts[key], remove=order == "remove"), n) for key, n in counts.items()]
        return cls(steps, curved, flat, [(key[0], n) for key, n in counts.items()])

    def exact(self, epsilon: float, order: Order) -> Ball | None:
        """δ beyond the end of a bounded loss: 0 above it (add), 1 − e^ε below it (remove); None inside."""
        if self.curved or self.flat != 0:
            return None
        if not self.steps:
            return arb(0) if epsilon >= 0 else -arb(epsilon).expm1()
        with precision(_EDGE_BITS):
            edge = sum((n * (-_product(rates)).log1p() for rates, n in self.rates), arb(0))
            if order == "add" and arb(epsilon) >= -edge:
                return arb(0)
            if order == "remove" and arb(epsilon) <= edge:
                return -arb(epsilon).expm1()
        return None


def _product(rates: tuple[float, ...]) -> Ball:
    product = arb(1)
    for q in rates:
        product *= arb(q)
    return product


class _Guess(NamedTuple):
    """What one attempt leaves to the next."""

    log_delta: float = math.nan
    ratio: float = math.nan  # p_τ(ε)/δ(ε)
    loss: float = 0.0  # e-folds between the largest term and δ
    attempt: int = 0


class _Plan(NamedTuple):
    c: float
    period: float
    below: float  # b₁
    above: float  # b₂
    tau: float
    count: int  # N
    log_delta: float
    loss: float


class _Sum:
    """The sum of the module docstring for one ε, at the working precision."""

    def __init__(self, parts: _Parts, epsilon: float, width: float, guess: _Guess) -> None:
        self.parts, self.epsilon, self.width, self.guess = parts, epsilon, width, guess
        self.patience = 2.0 + 2.0 * guess.attempt
        self.rows = [(float(t), float(m2), n) for t, m2, n in parts.curved]
        self.highest = min((0.999 * outward(1 / t).lower for t, _, _ in parts.curved if not t <= 0), default=math.inf)

    # ------------------------------------------------------------------ plan in floats

    def _exponent(self, b: float) -> float:
        """K(b) − bε in floats."""
        total = -b * self.epsilon + 0.5 * float(self.parts.flat) * b * (1.0 + b)
        for t, m2, n in self.rows:
            total += n * (-0.5 * b * math.log1p(t) - 0.5 * math.log1p(-b * t) + 0.5 * m2 * b * (1.0 + b) / (1.0 - b * t))
        return total + sum(n * step.log_moment(b) for step, n in self.parts.steps)

    def _saddle(self) -> tuple[float, float]:
        """(c, log δ there, roughly)."""

        def height(log_b: float) -> float:
            b = math.exp(log_b)
            return self._exponent(b) - math.log(b) - math.log1p(b)

        low, high = -14.0, min(math.log(self.highest), 32.0)
        ratio = 0.5 * (math.sqrt(5.0) - 1.0)
        x, y = high - ratio * (high - low), low + ratio * (high - low)
        fx, fy = height(x), height(y)
        while high - low > 1e-3:
            if fx <= fy:
                high, y, fy = y, x, fx
                x = high - ratio * (high - low)
                fx = height(x)
            else:
                low, x, fx = x, y, fy
                y = low + ratio * (high - low)
                fy = height(y)
        at = 0.5 * (low + high)
        near, far = (
            max((height(at + d) + height(at - d) - 2.0 * height(at)) / d**2, 1e-3) for d in (0.05, 0.2)
        )
        log_delta = height(at) + at - 0.5 * math.log(2.0 * math.pi * near)
        if not 0.5 < far / near < 2.0:  # a wall: one step does most of it, and no saddle tells the size
            log_delta = min(log_delta, self._one_step())
        return math.exp(at), log_delta

    def _one_step(self) -> float:
        """log δ(ε) of the worst single step, roughly; the composition has no less, for dropping steps is
        post-processing."""
        sizes = [step.log_delta(self.epsilon) for step, _ in self.parts.steps] if self.epsilon > 0.0 else []
        return max(sizes, default=-math.inf)

    def _plan(self) -> _Plan:
        saddle, log_delta = self._saddle()
        if math.isfinite(self.guess.log_delta):
            log_delta = self.guess.log_delta
        lines = [saddle * f for f in (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 1.2, 1.5, 2.0, 3.0)]
        lines = [c for c in lines if c < self.highest]
        c = min(lines, key=lambda c: self._cost(c, log_delta)) if self._steep(saddle, log_delta) else saddle
        plan = self._plan_at(c, log_delta)
        if plan.count > _MOST_NODES:
            raise PrecisionError(f"the sum needs {plan.count:.2g} nodes")
        return plan

    def _steep(self, c: float, log_delta: float) -> bool:
        """Whether the saddle is a poor line."""
        return self._period(c, log_delta)[0] * c > 1.5 * (self._fine() - log_delta) or self._exponent(c) - log_delta > 12.0

    def _fine(self) -> float:
        return -math.log(self.width) + self.patience

    def _cost(self, c: float, log_delta: float) -> float:
        """Nodes needed on the line through c, up to a factor that does not depend on c."""
        loss = self._exponent(c) - log_delta
        return self._period(c, log_delta)[0] * math.sqrt(max(loss + self._fine(), 1.0)) * (1.0 + max(loss, 0.0) / 100.0)

    def _period(self, c: float, log_delta: float) -> tuple[float, float, float]:
        """(p, b₁, b₂) for the line through c."""
        fine = self._fine()

        def need(b: float) -> float:
            log_kappa = b * math.log(b) - (1.0 + b) * math.log1p(b) if b > 0 else 0.0
            value = log_kappa + self._exponent(b) if b > 0 else 0.0
            return max(value - log_delta + fine, 1.0) / math.fabs(b - c)

        below = min((c * (1.0 - g) for g in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)), key=need)
        places = [b for b in (c * (1.0 + g) for g in np.geomspace(0.05, 8.0, 14).tolist()) if b < self.highest]
        above = min(places or [0.5 * (c + self.highest)], key=need)
        return max(need(below), need(above)), below, above

    def _plan_at(self, c: float, log_delta: float) -> _Plan:
        """The plan on the line Re s = c for a δ of about this size."""
        fine = self._fine()
        loss = self._exponent(c) - log_delta
        period, below, above = self._period(c, log_delta)
        bare = self._length(c, 0.0, loss + fine)
        tau, length = 0.0, bare
        if bare * period > 2.0 * math.pi * 3000.0:
            ratio = self.guess.ratio if self.guess.ratio > 0.0 else c * (1.0 + c)
            tau = math.sqrt(0.6 * self.width / ratio) * (1.0 if self.guess.attempt else 24.0)  # the first is a pilot
            smooth = self._length(c, tau, loss + fine + 4.0)
            tau, length = (0.0, bare) if bare <= smooth else (tau, smooth)
        count = math.ceil(min(length * period / (2.0 * math.pi), 1e15)) + 1
        return _Plan(c, period, below, above, tau, count, log_delta, max(loss, 0.0))

    def _length(self, c: float, tau: float, digits: float) -> float:
        """A y beyond which the integrand is below e^−digits of its maximum; inf where none is found."""

        def enough(y: float) -> bool:
            fall = 0.5 * (tau * y) ** 2 + 0.5 * float(self.parts.flat) * y * y + math.log(max(y / c, 1e-3))
            for t, m2, n in self.rows:
                rest = 1.0 - c * t
                fall += 0.25 * n * math.log1p((t * y / rest) ** 2)
                inverse = 1.0 / complex(rest, -t * y)
                fall += n * 0.5 * m2 * (c * (1.0 + c) / rest - (complex(c, y) * complex(1.0 + c, y) * inverse).real)
            if fall > digits:
                return True
            for step, n in self.parts.steps:
                fall -= n * step.best_angle(c, y)[0]
                if fall > digits:
                    return True
            return False

        y = c
        while not enough(y):
            y *= 4.0
            if y > 1e7 * (c + 1.0) + 1e9:
                return math.inf
        low, high = y / 4.0, y
        while high > 1.05 * low:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    # ------------------------------------------------------------------ proof in balls

    def value(self) -> tuple[Ball, _Guess]:
        """δ(ε) as a ball, and what it teaches the next attempt."""
        plan = self._plan()
        c, eps, p = arb(plan.c), arb(self.epsilon), arb(plan.period)
        step = 2 * arb.pi() / p
        tau2 = arb(plan.tau) ** 2
        counts = [n for _, n in self.parts.steps]
        digits = -math.log(self.width) + math.log(max(sum(counts), 1)) + plan.loss + 4.0 + self.patience
        tables = [_powers(*s.line(plan.c, digits), step, plan.count + 1) for s, _ in self.parts.steps]
        side = 1 if not self.parts.steps or self.parts.steps[0][0].remove else -1
        delta, density = arb(0), arb(0)
        for k in range(plan.count + 1):
            s = acb(c, side * step * k)
            both = s * (1 + s)
            exponent, factor = self._closed(s, both) + tau2 * both / 2 - s * eps, acb(1)
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
        end = step * plan.count
        cap = self._ceiling(plan, end, tau2, digits)
        rest = cap / (arb.pi() * end)
        upper = (delta + rest).upper()
        lower = (delta - rest - self._periods(plan, tau2, digits)).lower()
        if plan.tau > 0.0:
            density += cap / (arb.pi() * end * tau2)
            lower = (lower - tau2 * (tau2 / 8).exp() * density).lower()
        if not upper.is_finite():
            raise PrecisionError("the sum did not stay finite")
        size = delta.mid().max(delta.rad())
        ratio = float(density.mid() / size) if plan.tau > 0.0 else math.nan
        if lower > 0:
            log_delta = float(upper.log())
        else:
            log_delta = max(plan.log_delta - 12.0 * 2.0**self.guess.attempt, min(self._one_step(), plan.log_delta - 12.0))
        guess = _Guess(log_delta, ratio, plan.loss + plan.log_delta - log_delta, self.guess.attempt + 1)
        return lower.union(upper), guess

    def _closed(self, s: Any, both: Any) -> Any:
        """K(s) of the plain releases; `both` is s(s+1)."""
        total = self.parts.flat * both / 2
        for t, m2, n in self.parts.curved:
            rest = 1 - s * t
            total += n * (m2 * both / rest - s * (1 + t).log() - rest.log()) / 2
        return total

    def _ceiling(self, plan: _Plan, end: Ball, tau2: Ball, digits: float) -> Ball:
        """C of the module docstring at y = end."""
        c, y = plan.c, outward(end).lower
        s = acb(c, end)
        both = s * (1 + s)
        if not all(1 - c * t > 0 for t, _, _ in self.parts.curved):
            return arb.pos_inf()
        exponent = (self._closed(s, both) + tau2 * both / 2).real - arb(c) * self.epsilon
        for step, n in self.parts.steps:
            theta = step.best_angle(c, y)[1] if plan.tau == 0.0 else 0.0
            exponent += n * step.ceiling(c, y, theta, digits).log()
        return exponent.exp().upper()

    def _periods(self, plan: _Plan, tau2: Ball, digits: float) -> Ball:
        """The bound on the other periods."""
        total = arb(0)
        for b in (plan.below, plan.above):
            exact, distance = arb(b), abs(arb(b) - arb(plan.c)) * arb(plan.period)
            exponent = arb(0)
            if b > 0.0:
                both = exact * (1 + exact)
                exponent = self._closed(exact, both) + tau2 * both / 2 - exact * self.epsilon
                exponent += exact * exact.log() - (1 + exact) * (1 + exact).log()
                for step, n in self.parts.steps:
                    exponent += n * step.moment(b, digits).log()
            total += exponent.exp() / (distance.exp() - 1)
        return total.upper()


def _powers(weights: list[Any], logs: list[Any], error: Ball, step: Ball, count: int) -> list[Any]:
    """Σ_j weights_j exp(ik·step·logs_j) ± error for k = 0 … count−1, as one product of two matrices in C."""
    turn = acb(0, step)
    base = [(turn * log).exp() for log in logs]
    height = math.isqrt(count - 1) + 1
    rows, current = [], weights
    for _ in range(height):
        rows.append(current)
        current = [x * z for x, z in zip(current, base, strict=True)]
    stride = [(height * turn * log).exp() for log in logs]
    columns, current = [], [acb(1)] * len(logs)
    for _ in range(-(-count // height)):
        columns.append(current)
        current = [x * z for x, z in zip(current, stride, strict=True)]
    product = acb_mat(columns) * acb_mat(rows).transpose()
    slack = acb(arb(0, error), arb(0, error))
    return [m + slack for m in product.entries()[:count]]
