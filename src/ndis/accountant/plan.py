"""Propose where to sum for a certificate of a composition. All is in floats, and no proof rests on it.

The letters are those of `ndis.accountant.certify`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ndis._search import chernoff_factor, least_point
from ndis.accountant.laws import BallLaw
from ndis.errors import PrecisionError

_WAYS = 21
_MANY_DIGITS = 30.0  # natural log units


class Plan(NamedTuple):
    """Describe a sum: a line, a period and a number of nodes.

    The moments must be known to e^−digits.
    """

    c: float
    period: float
    below: float  # b₁
    above: float  # b₂
    tau: float
    last: int  # N
    log_delta: float
    digits: float


class Guess(NamedTuple):
    """Remember what one attempt tells the next."""

    log_delta: float = math.nan
    ratio: float = math.nan  # p_τ(ε)/δ(ε)
    attempt: int = 0

    def after(self, plan: Plan, log_delta: float, ratio: float, smooth: float) -> Guess:
        """Return the next guess. `log_delta` is the result and `smooth` is log δ_τ, or nan if there is none."""
        if not math.isfinite(log_delta):  # the smoothing hid it, or the sum did
            log_delta = smooth - 2.0 if math.isfinite(smooth) else plan.log_delta - 12.0 * 2.0**self.attempt
        return Guess(log_delta, ratio, self.attempt + 1)


class Planner:
    """Plan the sum for one composition at one ε."""

    def __init__(self, parts: Sequence[tuple[BallLaw, int]], epsilon: float, width: float, guess: Guess) -> None:
        self.parts, self.epsilon, self.width, self.guess = parts, epsilon, width, guess
        self.patience = 2.0 + 2.0 * guess.attempt + (3.0 if width < math.exp(-_MANY_DIGITS) else 0.0)
        self.highest = 0.999 * min((law.limit for law, _ in parts), default=math.inf)

    def _exponent(self, b: float) -> float:
        """Return K(b) − bε."""
        return -b * self.epsilon + sum(n * law.log_moment(b) for law, n in self.parts)

    def saddle(self) -> tuple[float, float]:
        """Return the saddle c and log δ there, roughly."""

        def height(log_b: float) -> float:
            b = math.exp(log_b)
            return self._exponent(b) - math.log(b) - math.log1p(b)

        at, _ = least_point(height, -14.0, min(math.log(self.highest), 32.0), width=1e-3)
        distance = math.log(self.highest) - at  # to where moments end
        near, far = (
            max((height(at + d) + height(at - d) - 2.0 * height(at)) / d**2, 1e-3)
            for d in (min(0.05, 0.2 * distance), min(0.2, 0.8 * distance))
        )
        log_delta = height(at) + at - 0.5 * math.log(2.0 * math.pi * near)
        if not 0.5 < far / near < 2.0:  # a wall: one step may do most of it, and no saddle tells the size
            log_delta = min(log_delta, self._few_hits(self.epsilon))
        return math.exp(at), log_delta

    def _few_hits(self, epsilon: float) -> float:
        """Return log δ(ε) roughly, if the steps together go a part of the way and one of them the rest.

        The answer is inf if that says nothing. The loss of one step is spread by about √(2π) δ(0).
        """
        ways, best = epsilon * np.linspace(0.0, 1.0, _WAYS), -math.inf
        try:
            spread = 2.0 * math.pi * sum(n * float(law.delta(0.0)) ** 2 for law, n in self.parts)
            if not (epsilon > 0.0 and spread > 0.0):
                return math.inf
            for law, n in self.parts:
                deltas = [law.delta(e) for e in (epsilon - ways).tolist()]
                one = np.array([float(d.log().mid()) if d > 0 else -math.inf for d in deltas]) + math.log(n)
                best = max(best, float((np.minimum(one, 0.0) - 0.5 * ways**2 / spread).max()))
        except PrecisionError:  # a law without a closed form, or one that ends before this ε
            return math.inf
        return best if best > -2000.0 else math.inf

    def _ratio(self, c: float) -> float:
        """Return p(ε)/δ(ε) roughly: the square of the slope of log δ."""
        if self.guess.ratio > 0.0:
            return self.guess.ratio
        here, there = self._few_hits(self.epsilon), self._few_hits(1.01 * self.epsilon)
        slope = (here - there) / (0.01 * self.epsilon) if math.isfinite(here) and math.isfinite(there) else 0.0
        return max(c * (1.0 + c), slope * (1.0 + slope))

    def plan(self) -> Plan:
        """Propose the whole sum."""
        saddle, log_delta = self.saddle()
        if saddle > 0.9 * self.highest and not all(law.quick for law, _ in self.parts):
            raise PrecisionError("the moments end before the saddle")
        if math.isfinite(self.guess.log_delta):
            log_delta = self.guess.log_delta
        lines = [saddle * f for f in (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 1.2, 1.5, 2.0, 3.0)]
        many = self._fine() > _MANY_DIGITS  # a line far right of the saddle then has a short period
        lines += [saddle * f for f in (5.0, 8.0, 12.0, 20.0, 30.0, 50.0, 80.0, 120.0)] if many else []
        lines = [c for c in lines if c < self.highest]
        long = self._period(saddle, log_delta)[0] * saddle > 1.5 * (self._fine() - log_delta)
        poor = long or self._exponent(saddle) - log_delta > 12.0
        c = min(lines, key=lambda c: self._cost(c, log_delta)) if many or poor else saddle
        return self._plan_at(c, log_delta)

    def _fine(self) -> float:
        return -math.log(self.width) + self.patience

    def _cost(self, c: float, log_delta: float) -> float:
        """Nodes needed on the line through c, up to a factor that does not depend on c."""
        loss = self._exponent(c) - log_delta
        return self._period(c, log_delta)[0] * math.sqrt(max(loss + self._fine(), 1.0)) * (1.0 + max(loss, 0.0) / 100.0)

    def _period(self, c: float, log_delta: float) -> tuple[float, float, float]:
        """Return (p, b₁, b₂) for the line through c."""
        fine = self._fine()

        def need(b: float) -> float:
            value = float(chernoff_factor(b)) + self._exponent(b) if b > 0 else 0.0
            return max(value - log_delta + fine, 1.0) / math.fabs(b - c)

        below = min((c * (1.0 - g) for g in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)), key=need)
        places = [b for b in (c * (1.0 + g) for g in np.geomspace(0.05, 8.0, 14).tolist()) if b < self.highest]
        above = min(places or [0.5 * (c + self.highest)], key=need)
        return max(need(below), need(above)), below, above

    def _plan_at(self, c: float, log_delta: float) -> Plan:
        """Return the plan on the line Re s = c for a δ of about this size."""
        fine = self._fine()
        loss = self._exponent(c) - log_delta
        period, below, above = self._period(c, log_delta)
        bare = self._length(c, 0.0, loss + fine)
        tau, length = 0.0, bare
        if bare * period > 2.0 * math.pi * 3000.0:
            pilot = 1.0 if self.guess.attempt else 24.0
            tau = pilot * math.sqrt(0.5 * self.width / self._ratio(c))
            smooth = self._length(c, tau, loss + fine + 4.0)
            # the pilot of a first attempt asks for a second one
            tau, length = (0.0, bare) if bare <= (1.0 if self.guess.attempt else 2.0) * smooth else (tau, smooth)
        count = math.ceil(min(length * period / (2.0 * math.pi), 1e15)) + 1
        steps = sum(n for _, n in self.parts)
        digits = fine + max(loss, 0.0) + math.log(max(steps, 1)) + 4.0
        return Plan(c, period, below, above, tau, count, log_delta, digits)

    def _length(self, c: float, tau: float, digits: float) -> float:
        """A y beyond which the integrand is below e^−digits of its maximum; inf where none is found."""

        def enough(y: float) -> bool:
            fall = 0.5 * (tau * y) ** 2 + math.log(max(y / c, 1e-3))
            for law, n in self.parts:
                fall -= n * law.log_ceiling(c, y)
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
