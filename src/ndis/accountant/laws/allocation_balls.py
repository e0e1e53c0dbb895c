"""One epoch of random allocation has a δ and moments on a line that this module encloses, in both orders.

W is the mean of t independent X = e^{μg − μ²/2} with normal g. For a whole j ≥ 1, a > 0 and s = a + iy

    Γ(s) E W^{j−s} = ∫ z^{s−1} ψ(z) dz,      ψ(z) = E Wʲ e^{−zW},

over any ray z = e^{u + iα} on which ψ falls. It is a trapezoid rule in u: one table of ψ serves all s of a block. The
add order takes M(c + iy) = E W^{−c−iy} with a = j + c. The remove order takes the conjugate of
M(c + iy) = E W^{1+c+iy} with a = j − 1 − c. A large j makes the ray short, and Wʲ large. ψ comes from powers of the
series with terms ζⁱ E Xⁱ e^{−ζX}, ζ = z/t.

**A turn of all g (thm:allocation-factor).** Move every g to g − iβ/μ. W becomes W e^{−iβ}, and the normal densities
have the modulus e^{tβ²/2μ²} times their own. So for every β with |α − β| < π/2

    |ψ(re^{iα})| ≤ e^{tβ²/2μ²} E Wʲ e^{−r cos(α−β) W},
    ∫ |z^s ψ| du ≤ B(α, y) Γ(a) M(c),      B(α, y) = e^{−αy + tβ²/2μ²} cos(α−β)^{−a}      at s = a + iy.

**Errors of the outer rule.** A step h and a strip from −d' to d give at most
(B(α+d, y)/(e^{2πd/h} − 1) + B(α−d', y)/(e^{2πd'/h} − 1)) Γ(a) M(c). At α = y = 0 this encloses M(c) itself. The terms
beyond u₀ and u₁ fall like r^{a−b}, because r^b w^j e^{−rw} ≤ (b/e)^b w^{j−b}. E W^p is at most (E Wʲ)^{(p−1)/(j−1)} for
1 ≤ p ≤ j, 1 for p from 0 to 1, and e^{p²μ²/2t − pμ²/2} for p ≤ 0, because W is at least the geometric mean of the X.

**One epoch (thm:allocation-epoch).** E (k − W)₊ is an integral of e^{kz} φ(z/t)^t z⁻² over one hyperbola, in both
orders. It needs no moments. Values of φ at real places bound the integrand on the edges of a strip, which gives the
error.

**Ceiling.** log W is the sum of log W⊥ and of μ times the mean of all g, which is normal with variance 1/t and
independent of it. So |M(c + iy)| ≤ e^{−μ²y²/2t} M(c).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy
from flint import acb, acb_series, arb, ctx

from ndis._balls import Ball, precision
from ndis._search import quiet
from ndis._validate import Floats
from ndis.accountant.laws import BallLaw, kept
from ndis.accountant.laws.lognormal import MOST_NODES, MOST_POWER, Laplace, disc, transform
from ndis.errors import PrecisionError

_MOST_TERMS = 4_000  # one rule has no more
_BLOCK_LOSS = 60.0  # log units that the terms of a block may be larger than their sum
_SLACK = 20.0  # log units given up for a wide strip
_LENGTH, _USUAL = 10.0, 60.0  # a ray's length beyond its fall, and the digits of its terms, where a power is chosen
_WAYS = 24  # angles tried for a ray, turns for a bound
_STRIPS = np.geomspace(0.02, 1.0, 12)
_LADDER = (64.0, 112.0, 160.0, 256.0)
_FINE = 2.0**-50  # relative error of a δ
_PLAN_BITS, _MORE_BITS, _BOUND_BITS = 64, 64, 256  # exponents take some away
_HALF_ANGLES = np.geomspace(0.7, 0.003, 12)
_CROSSINGS = np.geomspace(0.3, 3000.0, 30)
_LOOKS = np.concatenate([np.geomspace(1e-3, 0.3, 20), np.linspace(0.32, 1.0, 40)])
_CELLS, _MOST_CELLS, _MOST_LOSS, _LARGEST_TURN = 40, 1500, 600.0, 1.2
_BEFORE = 4.0  # by so much a table begins before the first node, for bounds of the edge


class _Ray(NamedTuple):
    """Describe a table of ψ on the ray of angle alpha: places u, values, step h, and bounds of its errors.

    `strip` times Γ(1+c) M(c) bounds the error of the rule, and `cut` the terms left out, both over e^{−αy}.
    """

    alpha: float
    places: list[Ball]
    values: list[Any]
    step: Ball
    strip: Ball
    cut: Ball


class _Contour(NamedTuple):
    """Describe z = b + iℓ sinh(w + id) with nodes w = hn, n ≤ nodes."""

    b: float
    scale: float
    half: float
    step: float
    nodes: int


class AllocationBalls(BallLaw):
    """Enclose the δ and the moments of one epoch at the working precision.

    Parameters
    ----------
    exact_shift : callable
        Returns μ > 0 as a ball at the working precision, which differs from sum to sum.
    bins : int
        t.
    log_moment : callable
        log M(c) in floats.
    remove : bool
        Whether the record is there in the first law.

    Examples
    --------
    >>> epoch = AllocationBalls(lambda: arb(1), 10, lambda c: 0.3, remove=True)
    >>> round(float(epoch.delta(0.5).log()), 9)
    -3.617476201
    >>> epoch.ceiling(1.0, 2.0, 20.0) < 2 * arb(-0.2).exp()
    True
    """

    quick = False

    def __init__(
        self, exact_shift: Callable[[], Ball], bins: int, log_moment: Callable[[float], float], *, remove: bool
    ) -> None:
        self._exact_shift, self.bins, self._log_moment, self.remove = exact_shift, bins, log_moment, remove
        self.mu, self.limit = float(exact_shift()), MOST_POWER - 2.0 if remove else math.inf
        self._moments: dict[tuple[float, int], tuple[float, Ball]] = {}

    @property
    def shift(self) -> Ball:
        """Return μ at the working precision."""
        return self._exact_shift()

    def delta(self, epsilon: float) -> Ball:
        """Enclose δ(ε) by an integral over one hyperbola (thm:allocation-epoch)."""
        log_k = epsilon if self.remove else -epsilon
        for digits in _LADDER if math.fabs(epsilon) < _MOST_LOSS else ():
            with suppress(PrecisionError), precision(round(1.5 * (digits + math.fabs(epsilon))) + 64):
                value = self._shortfall(log_k, digits)
                value = value - arb(log_k).expm1() if self.remove else value * arb(epsilon).exp()
                if value.rad() <= value.mid() * _FINE:
                    return value
        raise PrecisionError(f"one epoch at epsilon = {epsilon!r} is out of reach")

    def _shortfall(self, log_k: float, digits: float) -> Ball:
        """Enclose E (k − W)₊, up to about e^−digits."""
        contour, loss = self._plan(math.exp(log_k), digits)
        b, scale, half, step, count = contour
        with precision(round(1.5 * (digits + loss + max(log_k, 0.0))) + 80):
            turns = [acb(arb(step) * n, half) for n in range(count + 1)]
            places = [b + acb(0, scale) * w.sinh() for w in turns]
            logs = [(z / self.bins).log() for z in places]
            low, angle = min(float(log.real.lower()) for log in logs), max(float(log.imag.upper()) for log in logs)
            table = Laplace(self, low - _BEFORE, angle, loss + digits)
            with precision(_PLAN_BITS):
                k = arb(log_k).exp()
                error = self._edge(k, contour, table, digits + 5.0 - 2.0 * math.pi * half / step, 0.0, 0.0)
                error += (k * b + self._log_real(arb(b), table)).exp() * arb.pi() / (2 * arb(b))  # the line
                error /= (2 * arb.pi() * arb(half) / step).expm1()
                error += self._edge(k, contour, table, digits + 20.0, step * count, step)
            with precision(max(ctx.prec, table.bits)):
                total, k = arb(0), arb(log_k).exp()
                for n, (w, z, phi) in enumerate(zip(turns, places, table.at(logs), strict=True)):
                    term = (k * z).exp() * phi**self.bins / z**2 * w.cosh()
                    total += term.real if n else term.real / 2
                return (total * step * scale + arb(0, error.upper())) / arb.pi()

    @quiet
    def _plan(self, k: float, digits: float) -> tuple[_Contour, float]:
        """Propose a contour with few nodes, and the digits that its largest term takes beyond those asked for."""
        t, mu, half, b = self.bins, self.mu, _HALF_ANGLES[:, None], digits / k * _CROSSINGS
        scale = 0.95 * b / np.sin(2.0 * half)

        def log_edge(angle: Floats) -> tuple[Floats, Floats]:
            """Return places on the edge of a strip, and the log of a bound of the integrand there."""
            lift = 0.5 * t * (angle / mu) ** 2
            w = np.arccosh(1.5 + (k * b + lift + 700.0) / (k * scale * np.sin(angle))) * _LOOKS[:, None, None]
            x, v = b - scale * np.sin(angle) * np.cosh(w), scale * np.cos(angle) * np.sinh(w)
            r, turn = np.hypot(x, v), np.maximum(np.arctan2(-x, v), 0.0)
            beta = np.maximum(turn, np.minimum(r * mu**2 / t * self._mean()(r / t), _LARGEST_TURN))
            q = np.maximum(x * np.cos(beta) + v * np.sin(beta), 1e-300) / t
            turned, square = t * (0.5 * (beta / mu) ** 2 - q * self._mean()(q)), r * r / (2 * t)
            near = square - x + np.exp(0.5 * (turn / mu) ** 2) * np.minimum(square * math.exp(mu**2), 2 * r)
            return w, k * x + np.minimum(turned, near) + np.log(scale * np.cosh(w) / r**2)

        plain = b / t * self._mean()(b / t)
        most = np.maximum(log_edge(2.0 * half)[1].max(axis=0), k * b - t * plain - np.log(b))
        w, terms = log_edge(half)
        far = np.where(terms > -digits - 5.0, w, 0.0).max(axis=0) * 1.2
        step = 2.0 * math.pi * half / np.maximum(digits + most + 5.0, 5.0)
        loss = np.maximum(most, 0.0) + plain + np.log(t * np.maximum(b, 1.0))
        i, j = np.unravel_index((far / step * (digits + loss) ** 1.5).argmin(), far.shape)
        count = float(far[i, j] / step[i, j])
        if not (count < _MOST_TERMS and loss[i, j] < _MOST_TERMS):
            raise PrecisionError("one epoch needs too many nodes")
        contour = _Contour(float(b[j]), float(scale[i, j]), float(half[i, 0]), float(step[i, j]), math.ceil(count))
        return contour, float(loss[i, j])

    @kept
    def _mean(self) -> Callable[[Any], Any]:
        """Return the function −log φ(q)/q in floats, a mean of X that is near 1 for small q."""
        u = np.linspace(-45.0, 45.0, 900)
        means = np.minimum(-self._log_transform(u), _MOST_LOSS) * np.exp(-u)
        return lambda q: np.interp(np.log(q), u, means)

    @quiet
    def _log_transform(self, u: Floats) -> Floats:
        """Return log φ in floats, at some log q."""
        g = np.linspace(-36.0, 16.0 + self.mu, 800)
        x = np.exp(np.minimum(u, 600.0))[:, None] * np.exp(self.mu * g - 0.5 * self.mu**2)
        weights = np.exp(-0.5 * g * g) * (g[1] - g[0]) / math.sqrt(2.0 * math.pi)
        phi, less = np.exp(-x) @ weights, -np.expm1(-x) @ weights  # φ and 1 − φ
        return np.asarray(np.where(less < 0.5, np.log1p(-np.minimum(less, 0.5)), np.log(phi)))

    def _log_real(self, x: Ball, table: Laplace) -> Ball:
        """Bound t log φ(x/t), for x ≥ 0, by its value at an exact place, where the balls of a sum are narrow."""
        if not x > self.bins * arb(table.low).exp():
            return arb(0)
        with precision(table.bits):
            return (self.bins * table.at([acb((x / self.bins).log().lower())])[0].real.upper().log()).upper()

    def _log_turned(self, k: Ball, x: Ball, v: Ball, beta: Ball, table: Laplace) -> Ball:
        """Bound kx + t log φ(q/t) with q = x cos β + v sin β ≥ 0. The sum of q and the logarithm rises with q."""
        q = x * beta.cos() + v * beta.sin()
        plain, least = k * x + self._log_real(q.lower(), table), self.bins * arb(table.low).exp()
        top = q.upper().max(least)  # below `least` the table knows nothing
        return plain.upper().min((x * (k - beta.cos()) - v * beta.sin() + top + self._log_real(top, table)).upper())

    def _log_edge(self, k: Ball, b: float, scale: float, angle: float, w: Ball, table: Laplace) -> Ball:
        """Bound the logarithm of the integrand on the hyperbola of this angle, for an interval of w ≥ 0."""
        t, x, v = self.bins, b - scale * arb(angle).sin() * w.cosh(), scale * arb(angle).cos() * w.sinh()
        least, most = (x.abs_lower() ** 2 + v.abs_lower() ** 2), (x.abs_upper() ** 2 + v.abs_upper() ** 2)
        r, turn = most.sqrt().upper(), arb.atan2(-x, v).upper().max(arb(0))
        beta = turn.max(arb(min(float(r) * self.mu**2 / t * float(self._mean()(float(r) / t)), _LARGEST_TURN)))
        turned = self._log_turned(k, x, v, beta, table) + t * (beta / self.shift) ** 2 / 2
        more = ((turn / self.shift) ** 2 / 2).exp() * (most / (2 * t) * (self.shift**2).exp()).min(2 * r)
        near = x * (k - 1) + most / (2 * t) + more
        return turned.upper().min(near.upper()) + (scale * w.cosh() / least).log()

    def _edge(self, k: Ball, path: _Contour, table: Laplace, digits: float, start: float, extra: float) -> Ball:
        """Bound the integral over the edge of the strip, or a sum with steps `extra` over its middle from `start`."""
        b, scale, angle = path.b, path.scale, path.half if extra > 0.0 else 2.0 * path.half
        lift = self.bins * (arb(angle) / self.shift) ** 2 / 2
        far = 1.5 + (float(k) * b + float(lift) + 700.0) / (float(k) * scale * math.sin(angle))
        grid = np.geomspace(1e-3, 1.0, _CELLS) * math.acosh(far)
        ends = [start, *grid[grid > start].tolist()]
        total, todo, tries = arb(0), list(pairwise(ends)), 0
        while todo:
            if (tries := tries + 1) > _MOST_CELLS:
                raise PrecisionError("the strip of an epoch is not resolved")
            low, high = todo.pop()
            value, middle = self._log_edge(k, b, scale, angle, arb(low).union(arb(high)), table), 0.5 * (low + high)
            if value > 3.0 - digits and value > 3.0 + self._log_edge(k, b, scale, angle, arb(middle), table):
                todo += [(low, middle), (middle, high)]
            else:
                total += value.exp() * (arb(high) - low + extra)
        w = arb(ends[-1])
        fall = k * (b - scale * arb(angle).sin() * w.cosh()) + lift
        return total + fall.exp() / (scale * arb(angle).cos() ** 2 * w.sinh()) * (1 + extra / w.tanh())

    def log_moment(self, c: float) -> float:
        """Return log M(c) in floats."""
        return self._log_moment(c)

    def log_ceiling(self, c: float, y: float) -> float:
        """Return the logarithm of the ceiling at c + iy less log M(c) (thm:allocation-factor)."""
        return -0.5 * self.mu**2 * y * y / self.bins

    def ceiling(self, c: float, y: float, digits: float) -> Ball:
        """Bound |M(c + iy')| for all y' ≥ y by e^{−μ²y²/2t} M(c)."""
        fall = (self.shift * arb(y)) ** 2 / (2 * self.bins)
        return (self.moment(c, digits) * (-fall).exp()).upper()

    def moment(self, c: float, digits: float) -> Ball:
        """Enclose M(c)."""
        known = self._moments.get((c, ctx.prec))
        if known is None or known[0] < digits:
            with precision(ctx.prec + _MORE_BITS):
                ray, a = self._ray(c, 0.0, 0.0, digits), self._place(arb(c))
                total = sum((v.real * (a * u).exp() for u, v in zip(ray.places, ray.values, strict=True)), arb(0))
                if not ray.strip < 0.5:
                    raise PrecisionError(f"the moment of an epoch at order {c:.3g} did not settle")
                share = arb(0, ray.strip.upper())
                known = digits, (total * ray.step + arb(0, ray.cut.upper())) / a.gamma() / (1 + share)
            self._moments[c, ctx.prec] = known
        return known[1]

    def line(self, c: float, step: Ball, count: int, digits: float) -> list[Any]:
        """Enclose M(c + ik·step), block by block, each from one ray."""
        out, width, real = list[Any](), float(step), self.moment(c, digits)
        while len(out) < count:
            first, last = len(out), count - 1
            while last > first and self._turned(c, width * first, width * last)[1] > _BLOCK_LOSS:
                last = (first + last) // 2
            low, high = width * first, width * last
            with precision(ctx.prec + round(1.5 * self._turned(c, low, high)[1]) + _MORE_BITS):
                ray, a = self._ray(c, low, high, digits), self._place(arb(c))
                pairs = zip(ray.places, ray.values, strict=True)
                weights = [v * acb(a * u, step * first * u).exp() * ray.step for u, v in pairs]
                unknown = disc((ray.strip * a.gamma() * real + ray.cut).upper())
                values = transform([weights], step * ray.step, last - first + 1)[0]
                for k, value in enumerate(values, start=first):
                    # the places start at ray.places[0], and the sum from `first` on
                    start = acb(0, step * (k - first) * ray.places[0]).exp()
                    turn = acb(-arb(ray.alpha) * step * k, arb(ray.alpha) * a).exp()
                    value = (value * start + unknown) * turn / acb(a, step * k).gamma()
                    out.append(value.conjugate() if self.remove else value)
        return out

    @kept
    def _power(self, c: float) -> int:
        """Return the power j of W in ψ, for which a ray is short."""
        b = 1.0 + c if self.remove else -c

        def length(j: int) -> float:
            a, larger = j - b, (j - 1) * float(self._log_power(j)) - self.log_moment(c)
            return (j + 2) * (_LENGTH + (_USUAL + larger - math.lgamma(a)) / a)

        return min(range(max(math.ceil(b + 1.0), 1), MOST_POWER + 1), key=length)

    def _place(self, c: Any) -> Any:
        """Return a, such that Γ(a + iy) M(c ± iy) is the integral of z^{a+iy−1} ψ."""
        return self._power(float(c)) - (1 + c if self.remove else -c)

    # ------------------------------------------------------------------ plans in floats

    def _log_bound(self, c: float, alpha: Any, y: float) -> tuple[Any, Any]:
        """Return log B(α, y) for some α and the β that it belongs to."""
        alpha = np.asarray(alpha, dtype=float)[..., None]
        least = np.maximum(np.abs(alpha) - 0.5 * math.pi, 0.0)
        beta = np.sign(alpha) * (least + (np.abs(alpha) - least) * np.linspace(0.0, 1.0, 4 * _WAYS) ** 2)
        cosine = np.cos(alpha - beta)
        cost = self.bins * beta**2 / (2.0 * self.mu**2) - self._place(c) * np.log(np.maximum(cosine, 1e-9))
        best = cost.argmin(axis=-1)[..., None]
        value = np.take_along_axis(cost, best, -1)[..., 0]
        return value - alpha[..., 0] * y, np.take_along_axis(beta, best, -1)[..., 0]

    def _turned(self, c: float, low: float, high: float) -> tuple[float, float]:
        """Return the angle of a ray for all y between two, and the most by which terms are larger than their sum."""
        if high == 0.0:
            return 0.0, 0.0
        angles = np.linspace(0.0, min(0.5 * math.pi + 2.0 * self.mu / math.sqrt(self.bins), 2.6), 6 * _WAYS)
        a = self._place(c)
        rows = [self._log_bound(c, angles, y)[0] - scipy.special.loggamma(complex(a, y)).real for y in (low, high)]
        losses = np.maximum(*rows) + math.lgamma(a)
        i = int((losses <= losses.min() + _SLACK).argmax())  # a smaller angle leaves room for a wide strip
        return float(angles[i]), float(losses[i])

    def _outer_plan(self, c: float, alpha: float, low: float, high: float, digits: float) -> tuple[Any, ...]:
        """Return h and the widths d of the outer rule on both sides, and the log of an error that does not count."""
        a, widest, plans = self._place(c), min(0.5 * math.pi + 2.0 * self.mu / math.sqrt(self.bins) + 0.3, 2.9), []
        floor = min(scipy.special.loggamma(complex(a, y)).real + alpha * y for y in (low, high))
        for sign, y in ((1.0, low), (-1.0, high)):  # over e^{−αy}: e^{−dy} is largest at the low y, e^{dy} at the high
            strips = (widest - sign * alpha) * _STRIPS
            lost = self._log_bound(c, alpha + sign * strips, 0.0)[0] - sign * strips * y + math.lgamma(a)
            steps = 2.0 * math.pi * strips / np.maximum(digits + 4.0 + lost - floor, 1.0)
            plans.append((float(steps.max()), float(strips[steps.argmax()])))
        steps, widths = zip(*plans, strict=True)
        return min(steps), widths, floor + self.log_moment(c) - digits - 4.0

    @kept
    def _log_power(self, power: int) -> Ball:
        """Bound log E Wʲ over j − 1 for the power j (thm:allocation-factor (5) at z = 0)."""
        with precision(_BOUND_BITS):
            one = [(self.shift**2 * (i * (i - 1)) / 2).exp() / math.factorial(i) for i in range(power + 1)]
            whole = (acb_series(one, prec=power + 1) ** int(self.bins))[power].real * math.factorial(power)
            return (whole.log() - power * arb(self.bins).log()).upper() / max(power - 1, 1)

    def _log_tail(self, b: Any, power: int, cosine: float) -> Any:
        """Return log of the bound of r^b E Wʲ e^{−r·cosine·W} over all r, with the power j."""
        p, slope = power - b, float(self._log_power(power))
        most = np.where(p < 0.0, 0.5 * p * self.mu**2 * (p / self.bins - 1.0), np.maximum(p - 1.0, 0.0) * slope)
        return scipy.special.xlogy(b, b / (math.e * cosine)) + most

    def _ends_of(self, c: float, cosine: float, less: float) -> tuple[float, float, float, float]:
        """Return u₀, u₁ and their powers b, such that the terms beyond are below e^less."""
        a, power = self._place(c), self._power(c)
        down = a * np.linspace(0.0, 0.99, 60)
        low = (less - self._log_tail(down, power, cosine)) / (a - down)
        up = a * (1.0 + np.geomspace(0.01, 100.0, 60)) + power
        high = (self._log_tail(up, power, cosine) - less) / (up - a)
        i, j = int(low.argmax()), int(high.argmin())
        return float(low[i]), float(high[j]), float(down[i]), float(up[j])

    # ------------------------------------------------------------------ balls

    def _ray(self, c: float, low: float, high: float, digits: float) -> _Ray:
        """Return the table of ψ for all s = c + iy with y from low to high."""
        alpha = self._turned(c, low, high)[0]
        h, widths, less = self._outer_plan(c, alpha, low, high, digits)
        beta, a, power = arb(float(self._log_bound(c, alpha, 0.0)[1])), self._place(arb(c)), self._power(c)
        cosine, lift = (arb(alpha) - beta).cos(), self.bins * (beta / self.shift) ** 2 / 2
        u0, u1, *powers = self._ends_of(c, float(cosine), less - float(lift))
        u = np.linspace(u0, u1, 200)
        log_phi = self._log_transform(u + math.log(float(cosine) / self.bins))
        most = float((float(a) * u + (self.bins - 1) * log_phi).max())
        most = max(most, min(float(a) - power, 0.0) * u0) + math.log(self.bins) + 3.0 * power
        step, first, count = arb(h), math.floor(u0 / h), math.ceil((u1 - u0) / h) + 2
        # few are left where floats take the moment for more than its integrand
        if not 2 < count <= 10 * MOST_NODES / (power + 2):
            raise PrecisionError(f"the moments of an epoch at order {c:.3g} need too many nodes, or are not resolved")
        table = Laplace(self, u0 - h - math.log(self.bins), alpha, most + float(lift) + 5.0 - less, power)
        with precision(max(ctx.prec, table.bits)):
            places = [step * j for j in range(first, first + count)]
            values = table.on_ray(alpha, places, power)
        strip, margin = arb(0), 1.0 + 2.0**-40  # the caller rounds y
        for sign, y, d in zip((1, -1), (low / margin, high * margin), map(arb, widths), strict=True):
            bound = self._bound(c, alpha + sign * d) * (-sign * d * y).exp()
            strip += bound / (2 * arb.pi() * d / step).expm1()
        cut = arb(0)
        for b, end, sign in zip(map(arb, powers), (places[0], places[-1]), (1, -1), strict=True):
            fall, p, slope = (a - b) * sign, power - b, self._log_power(power)
            size = (b * (b / (arb(1).exp() * cosine)).log() if b > 0 else arb(0)) + lift + (a - b) * end
            more = p * self.shift**2 / 2 * (p / self.bins - 1) if p < 0 else (p - 1).max(arb(0)) * slope
            if not fall > 0:
                raise PrecisionError("the end of a ray is not resolved")
            cut += (size + more).exp() * step / (1 - (-fall * step).exp())
        # the bounds reach too far for many bins, and a transform is slow where its weights differ by thousands of bits
        sizes = [(a * u).exp() * v.abs_upper() * step for u, v in zip(places, values, strict=True)]
        counts = [j for j, size in enumerate(sizes) if not size < cut / count]
        inside = slice(counts[0], counts[-1] + 1) if counts else slice(1)
        cut += sum(sizes[: inside.start], arb(0)) + sum(sizes[inside.stop :], arb(0))
        return _Ray(alpha, places[inside], values[inside], step, strip.upper(), cut.upper())

    def _bound(self, c: float, angle: Ball) -> Ball:
        """Enclose B at this angle and y = 0."""
        beta = arb(float(self._log_bound(c, float(angle), 0.0)[1]))
        cosine = (angle - beta).cos()
        if not cosine > 0:
            raise PrecisionError("the strip of an epoch is too wide")
        return (self.bins * (beta / self.shift) ** 2 / 2 - self._place(arb(c)) * cosine.log()).exp()
