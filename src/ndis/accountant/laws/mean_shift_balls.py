"""One Poisson-sampled mean shift, the step of DP-SGD, has moments that this module encloses on a whole vertical line.

Let x be a standard normal number, w = exp(μx − μ²/2), and 0 < q < 1 the rate. With e = 1 + s (remove order) or
e = −s (add order) the moment is

    M(s) = E[(1 − q + q w)^e] = ∫ g(x)^e φ(x) dx,      g(x) = 1 − q + q exp(μx − μ²/2).

Only Re s = c > 0 matters, and M(s̄) is the conjugate of M(s). So take e = r + iy with y ≥ 0, r = 1 + c or r = −c.

**The inner line.** On Im x = θ with 0 ≤ α = μθ < π the argument of g lies between 0 and α, because g is a positive
number plus a positive multiple of e^{iα}. Hence |g^{iy}| ≤ 1 there for every y ≥ 0, and the integral over x may be
moved to any such line. The trapezoid rule on the line θ = a with step h has, for every y ≥ 0 at once, the error

    | h Σ f(x_j + ia) − M |  ≤  (N₀ + N₂ₐ)/(e^{2πa/h} − 1),      N_τ = e^{τ²/2} ∫ |g(x + iτ)|^r φ(x) dx,

if 2aμ < π. The rule is a sum of geometric sequences in y: M(c ± iy) = Σ a_j e^{iy l_j} with l_j = log g(x_j + ia) and
|e^{iy l_j}| ≤ 1. A node with a small weight |a_j| is dropped, and |a_j| joins the error.

**N_τ.** If r > 0, |g(x + iτ)| ≤ g(x), so N_τ ≤ e^{τ²/2} M(c). If r < 0 and μτ ≤ π/2, |g(x + iτ)| rises with x. So the
integral is at most Σ |g(x_i + iτ)|^r (Φ(x_{i+1}) − Φ(x_i)) over cells, and |g|^r ≤ (1−q)^r left of them.

**M(c) itself** follows from the real line, where the rule with strip ±a gives |T − M(c)| ≤ 2N_a/(e^{2πa/h} − 1). If
r > 0 the right side is η M(c), and M(c) ≤ T/(1 − η).

**Tails.** If r ≥ 1, g^r ≤ (1−q) + q w^r by convexity. So the terms outside [x_0, x_J] are below two Gaussian bells that
fall outwards if x_0 ≤ 0 and x_J ≥ rμ, and sums are below integrals. If r < 0, |g|^r ≤ (1−q)^r on the left and
|g|^r ≤ |g(x_J + iθ)|^r on the right.

**Ceiling.** |M(c ± iy)| ≤ e^{θ²/2} ∫ |g(x + iθ)|^r e^{−y arg g(x + iθ)} φ(x) dx for every θ with 0 ≤ μθ < π, and the
right side falls with y. Its integrand is exp(½[e log g(x + iθ) + ē log g(x − iθ)]) φ(x), which is analytic for
|Im x| < π/μ − θ. On Im x = ±a' it is at most |g(x + iτ)|^{r/2} |g(x + iτ')|^{r/2} e^{a'²/2} φ(x) in modulus with
|τ'| ≤ τ = θ + a'. So the trapezoid rule errs by at most 2 e^{(a'² + θ² − τ²)/2} N_τ/(e^{2πa'/h} − 1).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy
from flint import acb, arb

from ndis._balls import Ball
from ndis._validate import Floats
from ndis.accountant.laws import geometric, sampled_view
from ndis.errors import PrecisionError

__all__ = ["MeanShiftBalls"]

_MOST_NODES = 60_000
_TURNS = 28  # angles tried for a ceiling
_MARGIN = 18.0  # beyond the bells, for plans
_FAR = 5000.0
_NEAR = 60.0
_MOST_PLACES = 50_000  # a plan looks at no more


class _Rule(NamedTuple):
    """Describe a trapezoid rule on Im x = theta with its nodes from low to high."""

    theta: float
    step: float
    low: int
    high: int


class MeanShiftBalls:
    """Enclose the moments of one sampled mean shift at the working precision.

    Parameters
    ----------
    rate, shift : balls
        q, strictly between 0 and 1, and μ > 0.
    remove : bool
        The order: remove or add.

    Examples
    --------
    >>> step = MeanShiftBalls(arb(0.5), arb(1), remove=True)
    >>> step.moment(1.0, 30.0).contains((arb(1).exp() + 3) / 4)  # E[(½ + ½w)²]
    True
    """

    def __init__(self, rate: Ball, shift: Ball, *, remove: bool) -> None:
        self.rate, self.shift, self.remove = rate, shift, remove
        self.q, self.mu = float(rate), float(shift)
        self.log_stay = float((-rate).log1p())
        self.limit = math.inf

    # ------------------------------------------------------------------ floats, for plans only

    def _power(self, c: float) -> float:
        return 1.0 + c if self.remove else -c

    def _log_ratio(self, x: Any) -> Any:
        """log g(x + iθ) in floats, for real or complex x."""
        v = self.mu * x - 0.5 * self.mu**2
        if np.iscomplexobj(v):
            big = v.real > 300.0
            inner = np.log(1.0 - self.q + self.q * np.exp(np.where(big, 0.0, v)))
            return np.where(big, v + math.log(self.q), inner)
        return np.logaddexp(self.log_stay, math.log(self.q) + v)

    def _grid(self, c: float) -> Floats:
        r = self._power(c)
        if r > 0:
            low, high = -_MARGIN, r * self.mu + _MARGIN
        else:
            low, high = self._peak(c) - _MARGIN, _MARGIN
        step = max(min(0.25, 0.25 / self.mu), (high - low) / _MOST_PLACES)
        return np.arange(low, high + step, step)

    def _peak(self, c: float) -> float:
        """The place of the largest term for the add order: −cμ times the share of w in g equals x there."""
        low, high = -min(c * self.mu, math.sqrt(-2.0 * c * self.log_stay)) - 1.0, 0.0
        odds = math.log(self.q) - self.log_stay - 0.5 * self.mu**2
        while high - low > 0.1:
            x = 0.5 * (low + high)
            share = 1.0 / (1.0 + math.exp(min(-odds - self.mu * x, 700.0)))
            low, high = (x, high) if x + c * self.mu * share < 0.0 else (low, x)
        return low

    def log_moment(self, c: float) -> float:
        """log M(c) for real c > 0, to about float accuracy; only plans use it."""
        r = self._power(c)
        far = -math.inf
        x = self._grid(c) if r * self.mu <= _FAR else np.arange(-_MARGIN, _NEAR, min(0.25, 0.25 / self.mu))
        if r * self.mu > _FAR:  # beyond the near ones the largest term is enough; plans avoid such places
            places = np.linspace(_NEAR, r * self.mu, 4096)
            far = float((r * self._log_ratio(places) - 0.5 * places * places).max())
        log_terms = r * self._log_ratio(x) - 0.5 * x * x
        top = float(log_terms.max())
        total = float(np.exp(log_terms - top).sum()) * (x[1] - x[0]) / math.sqrt(2.0 * math.pi)
        return float(np.logaddexp(top + math.log(total), far))

    def log_ceiling(self, c: float, y: float) -> float:
        """Return the logarithm of the smallest ceiling found for |M(c + iy)|, less log M(c), in floats."""
        return self._best_angle(c, y)[0]

    def _best_angle(self, c: float, y: float) -> tuple[float, float]:
        """Return (log of the smallest ceiling found for |M(c + iy)| − log M(c), the line θ it belongs to)."""
        r, x = self._power(c), self._grid(c)
        base = r * self._log_ratio(x) - 0.5 * x * x
        top = float(base.max())
        reference = float(np.exp(base - top).sum())
        best = (0.0, 0.0)
        limit = min((2.6 if r > 0 else 1.2) / self.mu, 16.0)
        for theta in limit * np.geomspace(1e-4, 1.0, _TURNS):
            line = self._log_ratio(x + 1j * theta)
            log_terms = r * line.real - y * line.imag - 0.5 * x * x - top
            log_terms = log_terms[log_terms > -300.0]
            value = 0.5 * theta**2 + math.log(max(float(np.exp(log_terms).sum()) / reference, 1e-300))
            if value < best[0]:
                best = (value, float(theta))
        return best

    def _log_growth(self, c: float, tau: float) -> float:
        """log N_τ/M(c), roughly."""
        if self.remove:
            return 0.5 * tau**2
        x = self._grid(c)
        flat, turned = self._log_ratio(x), self._log_ratio(x + 1j * tau).real
        base = -c * flat - 0.5 * x * x
        top = float(base.max())
        upper = float(np.exp(np.minimum(-c * turned - 0.5 * x * x - top, 600.0)).sum())
        return 0.5 * tau**2 + math.log(max(upper / float(np.exp(base - top).sum()), 1.0)) + 2.0

    def _rule(self, c: float, digits: float, theta: float | None) -> tuple[_Rule, float]:
        """A rule with error about e^−digits of M(c) and half the width of its strip; in its middle if θ is None."""
        widest = (0.94 if self.remove else 0.49) * math.pi / self.mu
        best: tuple[float, float] | None = None
        for a in np.geomspace(0.05, 1.0, 12) * min(4.5, 0.5 * widest if theta is None else widest - theta):
            top = 2.0 * a if theta is None else theta + a
            step = 2.0 * math.pi * a / (digits + 2.0 + self._log_growth(c, top))
            if best is None or step > best[0]:
                best = (step, float(a))
        assert best is not None
        step, a = best
        step = math.ldexp(math.floor(math.ldexp(step, 12 - math.frexp(step)[1])), math.frexp(step)[1] - 12)
        low, high = self._ends(c, digits + 0.5 * (a if theta is None else theta) ** 2 + 3.0)
        first, last = math.floor(low / step), math.ceil(high / step)
        if last - first > _MOST_NODES:
            raise PrecisionError(f"the moment of a sampled step at order {c:.3g} needs too many nodes")
        return _Rule(a if theta is None else theta, step, first, last), a

    def _ends(self, c: float, digits: float) -> tuple[float, float]:
        """Places beyond which the tails are below e^−digits of M(c)."""
        floor, r = self.log_moment(c) - digits, self._power(c)

        def reach(log_mass: float) -> float:
            k = math.sqrt(max(2.0 * (log_mass - floor), 1.0))
            while scipy.special.log_ndtr(-k) + log_mass > floor:
                k += 0.25
            return k

        if r > 0:
            bell = math.log(self.q) + 0.5 * r * (r - 1.0) * self.mu**2
            spread = reach(0.0)
            return min(-spread, r * self.mu - reach(bell)), max(spread, r * self.mu + reach(bell))
        return -reach(r * self.log_stay), reach(0.0)

    # ------------------------------------------------------------------ balls

    def moment(self, c: float, digits: float) -> Ball:
        """M(c) for real c > 0, meant to be known to e^−digits."""
        rule, a = self._rule(c, digits, 0.0)
        nodes = self._nodes(c, rule)
        total = sum((weight.real for weight, _ in nodes), arb(0))
        tails = self._tails(c, rule)
        damping = (2 * arb.pi() * arb(a) / rule.step).exp() - 1
        if not self.remove:
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
        real = self.moment(c, digits)
        strip = (real + self._growth(c, 2.0 * a, real)) / damping
        small = (real * arb(-digits - 6.0).exp() / (rule.high - rule.low + 1)).upper()
        weights, logs, dropped = [], [], self._tails(c, rule)
        for weight, log in self._nodes(c, rule):
            size = weight.abs_upper()
            if size < small:
                dropped += size
            else:
                weights.append(weight)
                logs.append(log)
        values = geometric(weights, logs, (strip + dropped).upper(), step, count)
        return values if self.remove else [value.conjugate() for value in values]  # e = −s in the add order

    def ends(self) -> tuple[Ball, Ball]:
        """Enclose the least and the largest loss: log(1−q) bounds log g from below."""
        stay = (-self.rate).log1p()
        return (stay, arb.pos_inf()) if self.remove else (arb.neg_inf(), -stay)

    def delta(self, epsilon: float) -> Ball:
        """Enclose δ(ε) of one step (thm:poisson-sampling), with the closed form of a mean shift (thm:mean-shift)."""
        inside = sampled_view(self.rate, epsilon, remove=self.remove)
        if not isinstance(inside, tuple):
            return inside
        weight, inner = inside
        root = self.shift * arb(2).sqrt()
        near, far = (inner - self.shift**2 / 2) / root, (inner + self.shift**2 / 2) / root
        return weight * (near.erfc() - inner.exp() * far.erfc()) / 2

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
        """Return (weight a_j, log g) at the nodes of a rule."""
        r = arb(c) + 1 if self.remove else -arb(c)
        q, mu, step = self.rate, self.shift, arb(rule.step)
        stay, drift, unit = 1 - q, mu * mu / 2, (step / (2 * arb.pi()).sqrt()).log()
        out = []
        for j in range(rule.low, rule.high + 1):
            x = acb(step * j, rule.theta)
            log = (stay + q * (mu * x - drift).exp()).log()
            out.append(((r * log - x * x / 2 + unit).exp(), log))
        return out

    def _growth(self, c: float, tau: float, real: Ball | None = None) -> Ball:
        """Upper bound of N_τ; `real` is M(c), needed for the remove order."""
        lift = (arb(tau) ** 2 / 2).exp()
        if self.remove:
            assert real is not None
            return real.upper() * lift
        q, mu, r = self.rate, self.shift, -arb(c)
        turn = acb(0, mu * arb(tau)).exp()
        if not mu * arb(tau) < arb.pi() / 2:
            raise PrecisionError("the strip of a sampled step is too wide")
        low, high = self._ends(c, 60.0)
        count = math.ceil(min(max((high - low) / 0.1, 40.0), 4000.0))
        width = (high - low) / count
        root = arb(2).sqrt()

        def below(x: Ball) -> Ball:  # Φ(x)
            return (-x / root).erfc() / 2

        x = arb(low)
        mass = below(x)
        total = ((1 - q).log() * r).exp() * mass
        for i in range(1, count + 1):
            height = (abs(1 - q + q * turn * (mu * x - mu * mu / 2).exp()).log() * r).exp()
            if i == count:
                total += height * (1 - mass)
                break
            x = arb(low) + arb(width) * i
            next_mass = below(x)
            total += height * (next_mass - mass)
            mass = next_mass
        return (total * lift).upper()

    def _tails(self, c: float, rule: _Rule) -> Ball:
        """Upper bound of the terms of a rule outside its ends, in modulus and for every y ≥ 0."""
        q, mu = self.rate, self.shift
        low, high, root = arb(rule.step) * rule.low, arb(rule.step) * rule.high, arb(2).sqrt()
        lift = (arb(rule.theta) ** 2 / 2).exp()

        def beyond(x: Ball) -> Ball:  # 1 − Φ(x)
            return (x / root).erfc() / 2

        if self.remove:
            r = arb(c) + 1
            if not (low <= 0 and high >= r * mu):
                raise PrecisionError(f"the moment of a sampled step at order {c:.3g} was not covered")
            bell = q * (r * (r - 1) * mu * mu / 2).exp()
            left = (1 - q) * beyond(-low) + bell * beyond(r * mu - low)
            right = (1 - q) * beyond(high) + bell * beyond(high - r * mu)
            return (lift * (left + right)).upper()
        angle = mu * arb(rule.theta)
        if not (low <= 0 and high >= 0 and angle < arb.pi() / 2):
            raise PrecisionError(f"the moment of a sampled step at order {c:.3g} was not covered")
        r = -arb(c)
        edge = abs(1 - q + q * acb(mu * high - mu * mu / 2, angle).exp())
        return (lift * (((1 - q).log() * r).exp() * beyond(-low) + (edge.log() * r).exp() * beyond(high))).upper()
