"""Mixtures of Gaussians on a line have moments that this module encloses on a whole vertical line.

The laws are P = Σ aᵢ N(αᵢ, 1) and Q = Σ bⱼ N(−βⱼ, 1), all shifts at least 0, with the densities A and B against the
standard normal law (`ndis.accountant.laws.mixture`). With ℓ = log A − log B

    M(s) = ∫ A(x)^{1+s} B(x)^{−s} φ(x) dx = ∫ A^{1+c} B^{−c} e^{iyℓ} φ dx,      s = c + iy.

Only c > 0 matters, and M(s̄) is the conjugate of M(s). So take y ≥ 0.

**The inner line.** Let Im x = θ ≥ 0 with αᵢθ < π and βⱼθ < π. Then 0 ≤ arg A(x) ≤ max αᵢθ, because A is a sum of
positive multiples of the e^{iαᵢθ}, and likewise −max βⱼθ ≤ arg B(x) ≤ 0. Hence |e^{iyℓ}| ≤ 1 there for every y ≥ 0, and
the integral over x may be moved to any such line. The trapezoid rule on the line θ = a with step h has, for every y ≥ 0
at once, the error

    | h Σ f(x_j + ia) − M |  ≤  (N₀ + N₂ₐ)/(e^{2πa/h} − 1),      N_τ = e^{τ²/2} ∫ |A^{1+c} B^{−c}|(x + iτ) φ(x) dx.

The rule is a sum of geometric sequences in y: M(c + iy) = Σ w_j e^{iyℓ_j} with ℓ_j = ℓ(x_j + ia) and |e^{iyℓ_j}| ≤ 1. A
node with a small weight |w_j| is dropped, and |w_j| joins the error.

**Bells.** |A(x + iτ)| ≤ A(x), and A^{1+c} ≤ Σ aᵢ (e^{αᵢx − αᵢ²/2})^{1+c} by convexity. So A^{1+c} φ is at most a sum of
bells

    aᵢ e^{c(1+c)αᵢ²/2} φ(x − mᵢ),      mᵢ = (1+c)αᵢ.

If B is not 1, let τ max βⱼ ≤ π/2. Then |B(x + iτ)|² = Σ bⱼb_k e^{…} cos((βⱼ−β_k)τ) falls with x, because every term
does, and it is at least the square of any one term. So left of x₀ the integrand is at most |B(x₀ + iτ)|^{−c} times the
bells. With the smallest of the βⱼ, here β, and its weight b, |B|^{−c} ≤ b^{−c} e^{cβx + cβ²/2}. So everywhere, and to
be used on the right, it is at most the bells

    aᵢ e^{c(1+c)αᵢ²/2} b^{−c} e^{cβ²/2 + cβmᵢ + c²β²/2} φ(x − mᵢ − cβ).

**N_τ.** If B = 1, N_τ ≤ e^{τ²/2} M(c). Otherwise it is at most the sum over cells [x_i, x_{i+1}] of |B(x_{i+1} +
iτ)|^{−c} times the mass of the bells in the cell, with the bounds above outside the cells.

**M(c) itself** follows from the real line, where the rule with strip ±a gives |T − M(c)| ≤ 2N_a/(e^{2πa/h} − 1). If
B = 1 the right side is η M(c), and M(c) ≤ T/(1 − η).

**Tails.** The terms outside [x_0, x_J] are below bells that fall outwards, if x_0 ≤ min mᵢ and x_J ≥ max mᵢ + cβ. So
sums are below integrals.

**Ceiling.** |M(c + iy)| ≤ J = e^{θ²/2} ∫ |A^{1+c} B^{−c}|(x + iθ) e^{−y Im ℓ(x + iθ)} φ(x) dx for every θ as above, and
J falls with y. Its integrand is analytic: it is the root of the product of A^{1+s} B^{−s} at x + iθ and A^{1+s̄}
B^{−s̄} at x − iθ. On Im x = a' these places have the heights τ = θ + a' and τ' = a' − θ, and the modulus has the factor
e^{−y(Im ℓ(x+iτ) − Im ℓ(x+iτ'))/2}. It is at most 1 if a' ≤ θ, because then Im ℓ(x+iτ') ≤ 0. It is at most 1 too if τ
times every shift is at most π/2: then Im ℓ rises with the height, since the real part of A'/A is a positive multiple of
Σ αᵢ|zᵢ||z_j| cos((αᵢ−α_j)τ) with the terms zᵢ of A. Im x = −a' is alike. So the trapezoid rule errs by at most 2
e^{(a'² + θ² − τ²)/2} N_τ/(e^{2πa'/h} − 1), where N_τ is bounded as above.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
from flint import acb, arb, ctx

from ndis._balls import Ball
from ndis._validate import Floats
from ndis.accountant.laws import BallLaw, geometric
from ndis.errors import PrecisionError

_MOST_NODES = 60_000
_TURNS = 28  # angles tried for a ceiling
_MARGIN = 18.0  # beyond the bells, for plans
_FAR = 5000.0
_ROUGH = 5.0  # digits of a moment, in natural log units, that only bounds an error
_LOW = 6.0  # log of a bound of |B|^{−c} that is good enough
_NEAR = 60.0
_MOST_PLACES = 50_000  # a plan looks at no more
_FARTHEST = 1e9  # no place of a likelihood ratio lies beyond


class _Rule(NamedTuple):
    """Describe a trapezoid rule on Im x = theta with its nodes from low to high."""

    theta: float
    step: float
    low: int
    high: int


class Sides(NamedTuple):
    """Keep weights and shifts of both laws: P = Σ aᵢ N(αᵢ, 1) and Q = Σ bⱼ N(−βⱼ, 1), as arrays or as lists of
    balls."""

    a: Any
    alpha: Any
    b: Any
    beta: Any

    def swapped(self) -> Sides:
        """Return the laws of the other order, at −x."""
        return Sides(self.b, self.beta, self.a, self.alpha)

    @classmethod
    def poisson(cls, rate: Ball, shift: Ball, *, remove: bool) -> Sides:
        """Return the laws of one mean shift on a Poisson sample, in balls."""
        sides = cls([1 - rate, rate], [arb(0), shift], [arb(1)], [arb(0)])
        return sides if remove else sides.swapped()


class MixtureBalls(BallLaw):
    """Enclose the moments of one mixture of Gaussians against another at the working precision.

    Examples
    --------
    >>> step = MixtureBalls(Sides.poisson(arb(0.5), arb(1), remove=True))
    >>> step.moment(1.0, 30.0).contains((arb(1).exp() + 3) / 4)  # E[(½ + ½w)²]
    True
    """

    def __init__(self, sides: Sides) -> None:
        self.sides = sides
        logs = [np.array([float(w.log()) for w in weights]) for weights in (sides.a, sides.b)]
        shifts = [np.array([float(m) for m in one]) for one in (sides.alpha, sides.beta)]
        self._floats = [(log - 0.5 * m * m, m) for log, m in zip(logs, shifts, strict=True)]
        self._log_a = logs[0]
        self._up, self._down = shifts[0], shifts[1]
        self.up, self.down = float(shifts[0].max()), float(shifts[1].max())
        self._least = int(shifts[1].argmin())  # number of the bⱼ with the smallest shift
        self._log_b = float(logs[1][self._least])

    # ------------------------------------------------------------------ floats, for plans only

    def _logs(self, x: Any) -> tuple[Any, Any]:
        """Return log A and log B in floats, for real or complex x."""
        return _log_sum(x, *self._floats[0]), _log_sum(-x, *self._floats[1])

    def _log_terms(self, c: float, x: Any) -> Any:
        """Return log of A^{1+c} B^{−c} φ but for a constant, at real x."""
        above, below = self._logs(x)
        return (1.0 + c) * above - c * below - 0.5 * x * x

    def _pull(self, c: float) -> float:
        """Return the largest place to which B^{−c} alone moves the largest term: x is c times the mean of the βⱼ.

        A grid of a plan ends beyond it. It would be far too long up to c times the largest βⱼ, if that one is rare.
        """
        low, high = 0.0, c * self.down
        while high - low > 0.1:
            x = 0.5 * (low + high)
            terms = self._floats[1][0] - self._down * x
            share = np.exp(terms - terms.max())
            low, high = (x, high) if c * float((share * self._down).sum() / share.sum()) > x else (low, x)
        return high

    def _grid(self, c: float) -> Floats:
        low, high = -_MARGIN, (1.0 + c) * self.up + self._pull(c) + _MARGIN
        step = max(min(0.25, 0.25 / max(self.up, self.down)), (high - low) / _MOST_PLACES)
        return np.arange(low, high + step, step)

    def log_moment(self, c: float) -> float:
        """log M(c) for real c > 0, to about float accuracy; only plans use it."""
        far, end = -math.inf, (1.0 + c) * self.up
        x = self._grid(c) if end <= _FAR else np.arange(-_MARGIN, _NEAR, min(0.25, 0.25 / max(self.up, self.down)))
        if end > _FAR:  # beyond the near ones the largest term is enough; plans avoid such places
            far = float(self._log_terms(c, np.linspace(_NEAR, end, 4096)).max())
        log_terms = self._log_terms(c, x)
        top = float(log_terms.max())
        total = float(np.exp(log_terms - top).sum()) * (x[1] - x[0]) / math.sqrt(2.0 * math.pi)
        return float(np.logaddexp(top + math.log(total), far))

    def log_ceiling(self, c: float, y: float) -> float:
        """Return the logarithm of the smallest ceiling found for |M(c + iy)|, less log M(c), in floats."""
        return self._best_angle(c, y)[0]

    def _best_angle(self, c: float, y: float) -> tuple[float, float]:
        """Return (log of the smallest ceiling found for |M(c + iy)| − log M(c), the line θ it belongs to)."""
        x = self._grid(c)
        base = self._log_terms(c, x)
        top = float(base.max())
        reference = float(np.exp(base - top).sum())
        best = (0.0, 0.0)
        for theta in self._widest(2.6, 1.2, 16.0) * np.geomspace(1.0, 1e-4, _TURNS):
            above, below = self._logs(x + 1j * theta)
            log_terms = (1.0 + c) * above.real - c * below.real - y * (above - below).imag - 0.5 * x * x - top
            log_terms = log_terms[log_terms > -300.0]
            value = 0.5 * theta**2 + math.log(max(float(np.exp(log_terms).sum()) / reference, 1e-300))
            if value < best[0]:
                best = (value, float(theta))
            elif best[1] > 0.0:  # the logarithm of a ceiling is convex in θ
                break
        return best

    def _widest(self, above: float, below: float, most: float = math.inf) -> float:
        """Return the height at which the largest angle of A is `above`, or that of B `below`; at most `most`."""
        limits = [angle / m for angle, m in ((above, self.up), (below, self.down)) if m > 0.0]
        return min(most, *limits)

    def _log_growth(self, c: float, tau: float) -> float:
        """log N_τ/M(c), roughly."""
        if self.down == 0.0 or self._bounded(c):
            return 0.5 * tau**2 - c * min(self._log_b, 0.0)
        x = self._grid(c)
        base = self._log_terms(c, x)
        turned = base + c * (self._logs(x)[1] - self._logs(x + 1j * tau)[1].real)
        top = float(base.max())
        upper = float(np.exp(np.minimum(turned - top, 600.0)).sum())
        return 0.5 * tau**2 + math.log(max(upper / float(np.exp(base - top).sum()), 1.0)) + 2.0

    def _rule(self, c: float, digits: float, theta: float | None) -> tuple[_Rule, float]:
        """A rule with error about e^−digits of M(c) and half the width of its strip; in its middle if θ is None."""
        widest, best = self._widest(0.94 * math.pi, 0.49 * math.pi), (0.0, 0.0)
        if theta is not None:  # a ceiling needs a' ≤ θ, or a narrow strip
            widest = min(widest, max(2.0 * theta, self._widest(0.49 * math.pi, 0.49 * math.pi)))
        for a in np.geomspace(0.05, 1.0, 12) * min(4.5, 0.5 * widest if theta is None else widest - theta):
            top = 2.0 * a if theta is None else theta + a
            step = 2.0 * math.pi * a / (digits + 2.0 + self._log_growth(c, top))
            best = max(best, (step, float(a)))
        step, a = best
        step = math.ldexp(math.floor(math.ldexp(step, 12 - math.frexp(step)[1])), math.frexp(step)[1] - 12)
        low, high = self._ends(c, digits + 0.5 * (a if theta is None else theta) ** 2 + 3.0)
        first, last = math.floor(low / step), math.ceil(high / step)
        if last - first > _MOST_NODES:
            raise PrecisionError(f"the moment of a sampled step at order {c:.3g} needs too many nodes")
        return _Rule(a if theta is None else theta, step, first, last), a

    def _ends(self, c: float, digits: float) -> tuple[float, float]:
        """Places beyond which the tails are below e^−digits of M(c)."""
        floor, bells = self.log_moment(c) - digits, self._log_a + 0.5 * c * (1.0 + c) * self._up**2
        at, beta = (1.0 + c) * self._up, float(self._down[self._least])
        right = bells - c * self._log_b + 0.5 * c * beta**2 + c * beta * at + 0.5 * (c * beta) ** 2

        def reach(log_mass: Floats) -> Floats:
            k = np.sqrt(np.maximum(2.0 * (log_mass - floor), 1.0))
            while (short := scipy.special.log_ndtr(-k) + log_mass > floor).any():
                k = np.where(short, k * (1.0 + 2.0**-40) + 0.25, k)
            return k

        low = float((at - reach(bells)).min())
        return min(low, 0.0), max(float((at + c * beta + reach(right)).max()), 0.0)

    # ------------------------------------------------------------------ balls

    def moment(self, c: float, digits: float) -> Ball:
        """M(c) for real c > 0, meant to be known to e^−digits."""
        rule, a = self._rule(c, digits, 0.0)
        nodes = self._nodes(c, rule)
        total = sum((weight.real for weight, _ in nodes), arb(0))
        tails = self._tails(c, rule)
        damping = (2 * arb.pi() * arb(a) / rule.step).exp() - 1
        if self.down > 0.0:
            error = 2 * self._growth(c, a) / damping + tails
            return total + arb(0, error.upper())
        share = 2 * (arb(a) ** 2 / 2).exp() / damping
        if not share < 0.5:
            raise PrecisionError(f"the moment of a sampled step at order {c:.3g} did not settle")
        error = share * (total + tails) / (1 - share) + tails
        return total + arb(0, error.upper())

    def line(self, c: float, step: Ball, count: int, digits: float) -> list[Any]:
        """Enclose M(c + ik·step), from one rule on Im x = θ for all k: a sum of geometric sequences."""
        rule, a = self._rule(c, digits, None)
        damping = (2 * arb.pi() * arb(a) / rule.step).exp() - 1
        real = self.moment(c, _ROUGH)
        strip = (real + self._growth(c, 2.0 * a, real)) / damping
        weights, logs = zip(*self._nodes(c, rule), strict=True)
        return geometric(weights, logs, (strip + self._tails(c, rule)).upper(), step, count)

    def ends(self) -> tuple[Ball, Ball]:
        """Enclose the least and the largest loss."""
        low = -_log_least(self.sides.a, self.sides.alpha) if self.down == 0.0 else arb.neg_inf()
        return low, _log_least(self.sides.b, self.sides.beta) if self.up == 0.0 else arb.pos_inf()

    def delta(self, epsilon: float) -> Ball:
        """Enclose δ(ε) of one step, which is P(x > x*) − e^ε Q(x > x*) with ℓ(x*) = ε, for ℓ rises."""
        e, (low, high) = arb(epsilon), self.ends()
        if e >= high:
            return arb(0)
        if e <= low:
            return -e.expm1()
        x, sides = self._place(e), self.sides
        p, q = _dot(sides.a, [_above(x - m) for m in sides.alpha]), _dot(sides.b, [_above(x + m) for m in sides.beta])
        return (p - e.exp() * q).nonnegative_part()

    def _place(self, epsilon: Ball) -> Ball:
        """Enclose the x with ℓ(x) = ε, by a search in floats and Newton's method."""
        goal, end = float(epsilon), 1.0

        def excess(x: float) -> float:
            above, below = self._logs(np.array([x]))
            return float((above - below)[0]) - goal

        while not excess(-end) < 0.0 < excess(end) and end < _FARTHEST:
            end *= 2.0
        try:
            x = arb(scipy.optimize.brentq(excess, -end, end))
        except ValueError:  # a place that floats do not tell from an end of the loss
            x = arb(end)
        for _ in range(ctx.prec.bit_length()):
            terms = self._terms(x, 0), self._terms(-x, 1)
            pairs = zip(terms, (self.sides.alpha, self.sides.beta), strict=True)
            slope = sum((_dot(shifts, one) / sum(one, arb(0)) for one, shifts in pairs), arb(0))
            x = (x - (self._loss(x) - epsilon) / slope).mid()
        near = (1 + abs(x)) * arb(2) ** (-(3 * ctx.prec) // 4)
        if not (self._loss(x - near) <= epsilon <= self._loss(x + near)):
            raise PrecisionError(f"the likelihood ratio of a mixture at epsilon = {float(epsilon)!r} was not enclosed")
        return (x - near).union(x + near)

    def _terms(self, x: Any, side: int) -> list[Any]:
        """Return the terms wᵢ e^{mᵢx − mᵢ²/2} of one side."""
        weights, shifts = self.sides[2 * side : 2 * side + 2]
        return [w * (m * x - m * m / 2).exp() for w, m in zip(weights, shifts, strict=True)]

    def _log(self, x: Any, side: int) -> Any:
        """Return the logarithm of their sum."""
        if (self.down if side else self.up) == 0.0:
            return acb(0)
        first, *others = self._terms(x, side)
        return sum(others, first).log()

    def _loss(self, x: Ball) -> Ball:
        return (self._log(x, 0) - self._log(-x, 1)).real

    def ceiling(self, c: float, y: float, digits: float) -> Ball:
        """Bound |M(c + iy')| for all |y'| ≥ y, from the line θ that promises most."""
        real, theta = self.moment(c, digits), self._best_angle(c, y)[1]
        if theta == 0.0:
            return real.upper()
        rule, a = self._rule(c, digits, theta)
        total = sum((abs(weight) * (-y * log.imag).exp() for weight, log in self._nodes(c, rule)), arb(0))
        damping = (2 * arb.pi() * arb(a) / rule.step).exp() - 1
        tau = arb(theta) + arb(a)
        growth = self._growth(c, theta + a, real) * ((arb(a) ** 2 + arb(theta) ** 2 - tau**2) / 2).exp()
        return (total + 2 * growth / damping + self._tails(c, rule)).upper()

    def _nodes(self, c: float, rule: _Rule) -> list[tuple[Any, Any]]:
        """Return (weight w_j, ℓ_j) at the nodes of a rule."""
        power, step = arb(c), arb(rule.step)
        unit = (step / (2 * arb.pi()).sqrt()).log()
        out = []
        for j in range(rule.low, rule.high + 1):
            x = acb(step * j, rule.theta)
            above = self._log(x, 0)
            log = above - self._log(-x, 1)
            out.append(((above + power * log - x * x / 2 + unit).exp(), log))
        return out

    def _bells(self, c: float) -> list[tuple[Ball, Ball]]:
        """Return (mass, place) of the bells above A^{1+c} φ."""
        r = arb(c)
        pairs = zip(self.sides.a, self.sides.alpha, strict=True)
        return [(w * (r * (1 + r) * m * m / 2).exp(), (1 + r) * m) for w, m in pairs]

    def _bounded(self, c: float) -> bool:
        """Say if all bells above |A^{1+c} B^{−c}| φ are a good bound: A = 1, and B has a large constant term."""
        return self.up == 0.0 == float(self._down[self._least]) and -c * self._log_b < _LOW

    def _beyond(self, c: float, x: Ball = None) -> Ball:
        """Bound the mass right of x, or all of it, of the bells above |A^{1+c} B^{−c}| φ on every line."""
        r, beta = arb(c), self.sides.beta[self._least]
        lift = (r * beta * beta * (1 + r) / 2 - r * self.sides.b[self._least].log()).exp()
        masses = [(w * (r * beta * m).exp() * lift, m + r * beta) for w, m in self._bells(c)]
        return sum((mass if x is None else mass * _above(x - place) for mass, place in masses), arb(0))

    def _height(self, c: float, x: Ball, tau: float) -> Ball:
        """Return |B(x + iτ)|^{−c}, which rises with x."""
        return (-arb(c) * self._log(acb(-x, -arb(tau)), 1).real).exp()

    def _growth(self, c: float, tau: float, real: Ball | None = None) -> Ball:
        """Upper bound of N_τ; `real` is M(c), needed if B = 1."""
        lift = (arb(tau) ** 2 / 2).exp()
        if self.down == 0.0:
            assert real is not None
            return real.upper() * lift
        if not all(m * arb(tau) < arb.pi() / 2 for m in self.sides.beta):
            raise PrecisionError("the strip of a sampled step is too wide")
        if self._bounded(c):
            return (self._beyond(c) * lift).upper()
        low, high = self._ends(c, 60.0)
        count = math.ceil(min(max((high - low) / 0.1, 40.0), 4000.0))
        width, bells = (high - low) / count, self._bells(c)

        def mass(x: Ball) -> Ball:
            return sum((w * _above(m - x) for w, m in bells), arb(0))

        total, before = arb(0), arb(0)
        for i in range(count + 1):
            x = arb(low) + arb(width) * i
            after = mass(x)
            total += self._height(c, x, tau) * (after - before)
            before = after
        return ((total + self._beyond(c, x)) * lift).upper()

    def _tails(self, c: float, rule: _Rule) -> Ball:
        """Upper bound of the terms of a rule outside its ends, in modulus and for every y ≥ 0."""
        low, high = arb(rule.step) * rule.low, arb(rule.step) * rule.high
        bells, beta = self._bells(c), self.sides.beta[self._least]
        narrow = all(m * arb(rule.theta) < arb.pi() / 2 for m in self.sides.beta) or self.down == 0.0
        if not (narrow and all(low <= m and high >= m + arb(c) * beta for _, m in bells)):
            raise PrecisionError(f"the moment of a sampled step at order {c:.3g} was not covered")
        left = self._height(c, low, rule.theta) * sum((w * _above(m - low) for w, m in bells), arb(0))
        return ((arb(rule.theta) ** 2 / 2).exp() * (left + self._beyond(c, high))).upper()


def _dot(first: list[Ball], second: list[Ball]) -> Ball:
    return sum((x * y for x, y in zip(first, second, strict=True)), arb(0))


def _above(x: Ball) -> Ball:
    """Return 1 − Φ(x)."""
    return (x / arb(2).sqrt()).erfc() / 2


def _log_least(weights: list[Ball], shifts: list[Ball]) -> Ball:
    """Return −log of the least value of Σ wᵢ e^{mᵢx − mᵢ²/2}."""
    still = [w for w, m in zip(weights, shifts, strict=True) if m == 0]
    return -sum(still[1:], still[0]).log() if still else arb.pos_inf()


def _log_sum(x: Any, logs: Floats, shifts: Floats) -> Any:
    """Return log Σ e^{logs + shifts x} at real or complex x, each term divided by the largest."""
    terms = logs[:, None] + shifts[:, None] * x
    top = np.take_along_axis(terms, terms.real.argmax(axis=0)[None], 0)
    return top[0] + np.log(np.exp(terms - top).sum(axis=0))
