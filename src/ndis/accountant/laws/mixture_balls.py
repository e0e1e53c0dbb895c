"""Mixtures of Gaussians on a line have moments that this module encloses on a whole vertical line.

The laws are P = Σ aᵢ N(αᵢ, 1) and Q = Σ bⱼ N(−βⱼ, 1), all shifts at least 0, with the densities A and B against the
standard normal law (`ndis.accountant.laws.mixture`). With ℓ = log A − log B

    M(s) = ∫ A(x)^{1+s} B(x)^{−s} φ(x) dx = ∫ A^{1+c} B^{−c} e^{iyℓ} φ dx,      s = c + iy.

Only c > 0 matters, and M(s̄) is the conjugate of M(s). So take y ≥ 0.

**The line.** Let Im x = θ ≥ 0 with αᵢθ < π and βⱼθ < π. Then 0 ≤ arg A(x) ≤ max αᵢθ, because A is a sum of positive
multiples of the e^{iαᵢθ}, and likewise −max βⱼθ ≤ arg B(x) ≤ 0. Hence |e^{iyℓ}| ≤ 1 there for every y ≥ 0, and the
integral over x may be moved to any such line. So x is the u of `ndis.accountant.laws.LineBalls`, which has the sum of
geometric sequences in y for all M(c + iy), the moment M(c), and the ceiling

    N(θ, y) = ∫ |A^{1+c} B^{−c} φ|(x + iθ) e^{−y Im ℓ(x + iθ)} dx.

**Bells.** |A(x + iτ)| ≤ A(x), and A^{1+c} ≤ Σ aᵢ (e^{αᵢx − αᵢ²/2})^{1+c} by convexity. So A^{1+c} φ is at most a sum of
bells

    aᵢ e^{c(1+c)αᵢ²/2} φ(x − mᵢ),      mᵢ = (1+c)αᵢ.

Let θ max βⱼ ≤ π/2. Then |B(x + iθ)|² = Σ bⱼb_k e^{…} cos((βⱼ−β_k)θ) falls with x, because every term does, and it is at
least the square of any one term. So left of x₀ the integrand is at most |B(x₀ + iθ)|^{−c} times the bells. With the
smallest of the βⱼ, here β, and its weight b, |B|^{−c} ≤ b^{−c} e^{cβx + cβ²/2}. So right of x₀ it is at most the bells

    aᵢ e^{c(1+c)αᵢ²/2} b^{−c} e^{cβ²/2 + cβmᵢ + c²β²/2} φ(x − mᵢ − cβ).

All have the factor e^{θ²/2}, which |φ(x + iθ)| has over φ(x). Terms of a rule beyond x_0 and x_J are below bells that
fall outwards, if x_0 ≤ min mᵢ and x_J ≥ max mᵢ + cβ. So their sums are below integrals.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
from flint import acb, arb, ctx

from ndis._balls import Ball
from ndis._validate import Floats
from ndis.accountant.laws import LineBalls, log_sum
from ndis.errors import PrecisionError

_MARGIN = 18.0  # beyond the bells, for plans
_FAR = 5000.0
_NEAR = 60.0
_HIGHEST = 12.0  # highest line
_MOST_PLACES = 50_000  # a plan looks at no more
_FARTHEST = 1e9  # no place of a likelihood ratio lies beyond


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


class MixtureBalls(LineBalls):
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
        total = log_sum(self._log_terms(c, x)) + math.log((x[1] - x[0]) / math.sqrt(2.0 * math.pi))
        return float(np.logaddexp(total, far))

    def _widest(self, c: float) -> float:
        """Return the largest angle, at which no loss has turned by π, and no B by more than π/2."""
        turns = (0.94 * math.pi, self.up), (0.49 * math.pi, self.down)
        return min(_HIGHEST, *(turn / m for turn, m in turns if m > 0.0))

    def _log_norm(self, c: float, angle: float, y: float) -> float:
        """Return log N/M(c) in floats."""
        x = self._grid(c)
        base, (above, below) = self._log_terms(c, x), self._logs(x + 1j * angle)
        turned = (1.0 + c) * above.real - c * below.real - y * (above - below).imag - 0.5 * x * x
        return 0.5 * angle**2 + log_sum(turned) - log_sum(base)

    def _ends(self, c: float, angle: float, digits: float) -> tuple[float, float]:
        """Places beyond which the tails are below e^−digits of M(c)."""
        floor, bells = self.log_moment(c) - digits - 0.5 * angle**2, self._log_a + 0.5 * c * (1.0 + c) * self._up**2
        at, beta = (1.0 + c) * self._up, float(self._down[self._least])
        right = bells - c * self._log_b + 0.5 * c * beta**2 + c * beta * at + 0.5 * (c * beta) ** 2

        def reach(log_mass: Floats) -> Floats:
            """Return, for each mass, a k with mass · Φ(−k) ≤ e^floor."""
            k = np.sqrt(np.maximum(2.0 * (log_mass - floor), 1.0))
            while (short := scipy.special.log_ndtr(-k) + log_mass > floor).any():
                k = np.where(short, k * (1.0 + 2.0**-40) + 0.25, k)
            return k

        low = float((at - reach(bells)).min())
        return min(low, 0.0), max(float((at + c * beta + reach(right)).max()), 0.0)

    # ------------------------------------------------------------------ balls

    def _at(self, c: float, u: Any, analytic: bool) -> tuple[Any, Any, Any]:
        """Enclose log A^{1+c} B^{−c} φ and ℓ."""
        above, below, power = self._log(u, 0, analytic), self._log(-u, 1, analytic), arb(c)
        return (1 + power) * above - power * below - u * u / 2 - (2 * arb.pi()).log() / 2, acb(1), above - below

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

    def _log(self, x: Any, side: int, analytic: bool = False) -> Any:
        """Return the logarithm of their sum."""
        if (self.down if side else self.up) == 0.0:
            return acb(0)
        first, *others = self._terms(x, side)
        return acb(sum(others, first)).log(analytic=analytic)

    def _loss(self, x: Ball) -> Ball:
        return (self._log(x, 0) - self._log(-x, 1)).real

    def _bells(self, c: float) -> list[tuple[Ball, Ball]]:
        """Return (mass, place) of the bells above A^{1+c} φ."""
        r = arb(c)
        pairs = zip(self.sides.a, self.sides.alpha, strict=True)
        return [(w * (r * (1 + r) * m * m / 2).exp(), (1 + r) * m) for w, m in pairs]

    def _beyond(self, c: float, x: Ball) -> Ball:
        """Bound the mass right of x of the bells above |A^{1+c} B^{−c}| φ on every line."""
        r, beta = arb(c), self.sides.beta[self._least]
        lift = (r * beta * beta * (1 + r) / 2 - r * self.sides.b[self._least].log()).exp()
        masses = [(w * (r * beta * m).exp() * lift, m + r * beta) for w, m in self._bells(c)]
        return sum((mass * _above(x - place) for mass, place in masses), arb(0))

    def _height(self, c: float, x: Ball, tau: float) -> Ball:
        """Return |B(x + iτ)|^{−c}, which rises with x."""
        return (-arb(c) * self._log(acb(-x, -arb(tau)), 1).real).exp()

    def _outside(self, c: float, angle: float, low: Ball, high: Ball) -> Ball:
        """Bound what lies beyond two places by bells that fall there."""
        bells, beta = self._bells(c), self.sides.beta[self._least]
        narrow = all(m * arb(angle) < arb.pi() / 2 for m in self.sides.beta)
        if not (narrow and all(low <= m and high >= m + arb(c) * beta for _, m in bells)):
            raise PrecisionError(f"the moment of a sampled step at order {c:.3g} was not covered")
        left = self._height(c, low, angle) * sum(w * _above(m - low) for w, m in bells)
        return (arb(angle) ** 2 / 2).exp() * (left + self._beyond(c, high))


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
