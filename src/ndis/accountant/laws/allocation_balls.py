"""One epoch of random allocation has moments that this module encloses on a whole vertical line, in the add order.

W is the mean of t independent X = e^{μg − μ²/2} with normal g, and M(s) = E W^{−s} for Re s = c > 0. For Re s > −1

    Γ(1+s) M(s) = ∫ z^s ψ(z) dz,      ψ(z) = E W e^{−zW} = φ(z/t)^{t−1} φ₁(z/t),
    φ(z) = E e^{−zX},   φ₁(z) = E X e^{−zX},

over any ray z = e^{u + iα} on which ψ falls. It is a trapezoid rule in u: one table of ψ serves all s of a block.

**A turn of all g (thm:allocation-factor).** Move every g to g − iβ/μ. W becomes W e^{−iβ}, and the normal densities
have the modulus e^{tβ²/2μ²} times their own. So for every β with |α − β| < π/2

    |ψ(re^{iα})| ≤ e^{tβ²/2μ²} E W e^{−r cos(α−β) W},
    ∫ |z^s ψ| du ≤ B(α, y) Γ(1+c) M(c),      B(α, y) = e^{−αy + tβ²/2μ²} cos(α−β)^{−1−c}      at s = c + iy.

**Errors of the outer rule.** A step h and a strip of half the width d give at most
(B(α+d, y) + B(α−d, y)) Γ(1+c) M(c)/(e^{2πd/h} − 1). At α = y = 0 this encloses M(c) itself. Terms below u₀ are at most
e^{(1+c)u − αy}, because E W = 1. Terms above u₁ fall like a power: w e^{−v} ≤ (b/e)^b v^{−b} w, and
E W^{1−b} ≤ e^{(b−1)²μ²/2t + (b−1)μ²/2} for b ≥ 1, because W is at least the geometric mean of the X.

**Errors of the inner rule.** Move g to g − iθ. On the lines g − i(θ ± a) the integrands are at most e^{(θ+a)²/2} times
a probability density, if |α − μ(θ ± a)| ≤ π/2. So a step k errs by at most 2e^{(θ+a)²/2}/(e^{2πa/k} − 1), and the nodes
beyond ±G add at most the tails of these densities. The values exp(−z e^{−iμθ} X) at all nodes of both rules lie on one
geometric grid, so that few exponentials are needed.

**Ceiling.** log W is the sum of log W⊥ and of μ times the mean of all g, which is normal with variance 1/t and
independent of it. So |M(c + iy)| ≤ e^{−μ²y²/2t} M(c).

The remove order has no moments here. Compositions take its δ from the add order, by the reversal identity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy
from flint import acb, arb, ctx, fmpz, fmpz_poly

from ndis._balls import Ball, precision
from ndis._validate import Floats
from ndis.accountant.laws import BallLaw, kept, quiet
from ndis.errors import PrecisionError

__all__ = ["AllocationBalls"]

_MOST_NODES = 20_000  # one rule has no more
_BLOCK_LOSS = 60.0  # log units that the terms of a block may be larger than their sum
_WAYS = 24  # angles tried for a ray, turns for a bound
_STRIPS = np.geomspace(0.02, 1.0, 12)
_WIDEST = 4.5  # strip of the inner rule
_GUARD = 24  # bits of a sum in fixed point beyond the working precision


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


class _Grid(NamedTuple):
    """Describe a geometric grid by the logarithm of its ratio, and the strides of the two rules on it."""

    ratio: Ball
    inner: int
    outer: int


class AllocationBalls(BallLaw):
    """Enclose the moments of one epoch at the working precision.

    Parameters
    ----------
    exact_shift : callable
        Returns μ > 0 as a ball at the working precision, which differs from sum to sum.
    bins : int
        t.
    log_moment : callable
        log M(c) in floats.

    Examples
    --------
    >>> epoch = AllocationBalls(lambda: arb(1), 2, lambda c: 0.3)
    >>> epoch.ceiling(1.0, 2.0, 20.0) < 2 * arb(-1).exp()
    True
    """

    def __init__(self, exact_shift: Callable[[], Ball], bins: int, log_moment: Callable[[float], float]) -> None:
        self._exact_shift, self.bins, self._log_moment = exact_shift, bins, log_moment
        self.mu = float(exact_shift())
        self._moments: dict[tuple[float, int], tuple[float, Ball]] = {}

    @property
    def shift(self) -> Ball:
        """Return μ at the working precision."""
        return self._exact_shift()

    def log_moment(self, c: float) -> float:
        """Return log M(c) in floats."""
        return self._log_moment(c)

    def log_ceiling(self, c: float, y: float) -> float:
        """Return the logarithm of the ceiling at c + iy less log M(c)."""
        return -0.5 * self.mu**2 * y * y / self.bins

    def ceiling(self, c: float, y: float, digits: float) -> Ball:
        """Bound |M(c + iy')| for all y' ≥ y by e^{−μ²y²/2t} M(c)."""
        fall = (self.shift * arb(y)) ** 2 / (2 * self.bins)
        return (self.moment(c, digits) * (-fall).exp()).upper()

    def moment(self, c: float, digits: float) -> Ball:
        """Enclose M(c)."""
        known = self._moments.get((c, ctx.prec))
        if known is None or known[0] < digits:
            with precision(ctx.prec + _more_bits(c)):
                ray = self._ray(c, 0.0, 0.0, digits)
                pairs = zip(ray.places, ray.values, strict=True)
                total = sum((v.real * ((1 + arb(c)) * u).exp() for u, v in pairs), arb(0))
                if not ray.strip < 0.5:
                    raise PrecisionError(f"the moment of an epoch at order {c:.3g} did not settle")
                share = arb(0, ray.strip.upper())
                known = digits, (total * ray.step + arb(0, ray.cut.upper())) / (1 + arb(c)).gamma() / (1 + share)
            self._moments[c, ctx.prec] = known
        return known[1]

    def line(self, c: float, step: Ball, count: int, digits: float) -> list[Any]:
        """Enclose M(c + ik·step), block by block, each from one ray."""
        out: list[Any] = []
        width = float(step)
        real = self.moment(c, digits)
        while len(out) < count:
            first = len(out)
            last = count - 1
            while last > first and self._turned(c, width * first, width * last)[1] > _BLOCK_LOSS:
                last = (first + last) // 2
            low, high = width * first, width * last
            with precision(ctx.prec + round(1.5 * self._turned(c, low, high)[1]) + _more_bits(c + high)):
                ray = self._ray(c, low, high, digits)
                weights = [
                    v * acb((1 + arb(c)) * u, step * first * u).exp() * ray.step
                    for u, v in zip(ray.places, ray.values, strict=True)
                ]
                front = (1 + arb(c)).gamma() * real
                error = ray.strip * front + ray.cut
                unknown = arb(0, error.upper())
                values = _transform(weights, step * ray.step, last - first + 1)
                for k, value in enumerate(values, start=first):
                    s = acb(c, step * k)
                    # the places start at ray.places[0], and the sum from `first` on
                    start = acb(0, step * (k - first) * ray.places[0]).exp()
                    turn = acb(-arb(ray.alpha) * step * k, arb(ray.alpha) * (1 + arb(c))).exp()
                    out.append((value * start + acb(unknown, unknown)) * turn / (1 + s).gamma())
        return out

    # ------------------------------------------------------------------ plans in floats

    def _log_bound(self, c: float, alpha: Any, y: float) -> tuple[Any, Any]:
        """Return log B(α, y) for some α and the β that it belongs to."""
        alpha = np.asarray(alpha, dtype=float)[..., None]
        least = np.maximum(np.abs(alpha) - 0.5 * math.pi, 0.0)
        beta = np.sign(alpha) * (least + (np.abs(alpha) - least) * np.linspace(0.0, 1.0, 4 * _WAYS) ** 2)
        cosine = np.cos(alpha - beta)
        cost = self.bins * beta**2 / (2.0 * self.mu**2) - (1.0 + c) * np.log(np.maximum(cosine, 1e-9))
        best = cost.argmin(axis=-1)[..., None]
        value = np.take_along_axis(cost, best, -1)[..., 0]
        return value - alpha[..., 0] * y, np.take_along_axis(beta, best, -1)[..., 0]

    def _turned(self, c: float, low: float, high: float) -> tuple[float, float]:
        """Return the angle of a ray for all y between two, and the most by which terms are larger than their sum."""
        if high == 0.0:
            return 0.0, 0.0
        angles = np.linspace(0.0, min(0.5 * math.pi + 2.0 * self.mu / math.sqrt(self.bins), 2.6), 6 * _WAYS)
        rows = [self._log_bound(c, angles, y)[0] - _log_gamma(c, y) for y in (low, high)]
        losses = np.maximum(*rows) + math.lgamma(1.0 + c)
        return float(angles[losses.argmin()]), float(losses.min())

    def _outer_plan(self, c: float, alpha: float, low: float, high: float, digits: float) -> tuple[float, float, float]:
        """Return h and d of the outer rule, and the logarithm of an error that does not count."""
        widest = min(0.5 * math.pi + 2.0 * self.mu / math.sqrt(self.bins) + 0.3, 2.9) - alpha
        strips = widest * _STRIPS
        lost = np.full(strips.size, -math.inf)
        for sign, y in ((1.0, low), (-1.0, high)):  # over e^{−αy}: e^{−dy} is largest at the low y, e^{dy} at the high
            bound = self._log_bound(c, alpha + sign * strips, 0.0)[0] - sign * strips * y
            lost = np.maximum(lost, bound)
        lost += math.lgamma(1.0 + c)
        floor = min(_log_gamma(c, y) + alpha * y for y in (low, high))
        needed = digits + 4.0 + lost - floor
        steps = 2.0 * math.pi * strips / np.maximum(needed, 1.0)
        best = int(steps.argmax())
        return float(steps[best]), float(strips[best]), floor + self._log_size(c) - math.lgamma(1.0 + c) - digits - 4.0

    def _inner_plan(self, alpha: float, deep: float) -> tuple[float, float, float]:
        """Return (θ, a, k) of the inner rule."""
        turns = np.linspace(max(alpha - 0.5 * math.pi, 0.0), alpha, _WAYS + 1)[1:] if alpha > 0.0 else np.zeros(1)
        strips = np.minimum(0.999 * (0.5 * math.pi - np.abs(alpha - turns)) / self.mu, _WIDEST)
        best = int((strips / (deep + 3.0 + 0.5 * (turns / self.mu + strips) ** 2)).argmax())
        theta, a = float(turns[best] / self.mu), float(strips[best])
        return theta, a, 2.0 * math.pi * a / (deep + 3.0 + 0.5 * (theta + a) ** 2)

    def _log_tail(self, b: Any, cosine: float) -> Any:
        """Return log of the bound of r^b E W e^{−r·cosine·W} over all r."""
        most = 0.5 * np.maximum(b - 1.0, 0.0) * self.mu**2 * (1.0 + (b - 1.0) / self.bins)
        return scipy.special.xlogy(b, b / (math.e * cosine)) + most

    def _ends_of(self, c: float, cosine: float, less: float) -> tuple[float, float, float, float]:
        """Return u₀, u₁ and their powers b, such that the terms beyond are below e^less."""
        down = (1.0 + c) * np.linspace(0.0, 0.99, 60)
        low = (less - self._log_tail(down, cosine)) / (1.0 + c - down)
        up = (1.0 + c) * (1.0 + np.geomspace(0.01, 100.0, 60)) + 1.0
        high = (self._log_tail(up, cosine) - less) / (up - 1.0 - c)
        i, j = int(low.argmax()), int(high.argmin())
        return float(low[i]), float(high[j]), float(down[i]), float(up[j])

    @quiet
    def _terms(self, c: float, u: Floats, cosine: float) -> tuple[Floats, Floats]:
        """Return log of r^{1+c} φ(r·cosine/t)^{t−1} at some log r, and of φ₁(r·cosine/t)."""
        g = np.linspace(-36.0, 16.0 + self.mu, 800)
        x = np.exp(np.minimum(u, 600.0))[:, None] * (cosine / self.bins) * np.exp(self.mu * g - 0.5 * self.mu**2)
        weight = (g[1] - g[0]) / math.sqrt(2.0 * math.pi)
        phi, tilted = (np.exp(-0.5 * (g - m) ** 2 - x).sum(axis=1) * weight for m in (0.0, self.mu))
        less = (np.exp(-0.5 * g * g) * -np.expm1(-x)).sum(axis=1) * weight  # 1 − φ
        log_phi = np.where(less < 0.5, np.log1p(-np.minimum(less, 0.5)), np.log(phi))
        return (1.0 + c) * u + (self.bins - 1) * log_phi, np.log(tilted)

    @kept
    def _log_size(self, c: float) -> float:
        """Return log of Γ(1+c) M(c) roughly, or less: the largest term of its integral."""
        u0, u1, *_ = self._ends_of(c, 1.0, math.lgamma(1.0 + c) - 14.0)
        return max(float(np.add(*self._terms(c, np.linspace(u0, u1, 800), 1.0)).max()), math.lgamma(1.0 + c))

    # ------------------------------------------------------------------ balls

    def _ray(self, c: float, low: float, high: float, digits: float) -> _Ray:
        """Return the table of ψ for all s = c + iy with y from low to high."""
        alpha = self._turned(c, low, high)[0]
        h, d, less = self._outer_plan(c, alpha, low, high, digits)
        beta = arb(float(self._log_bound(c, alpha, 0.0)[1]))
        cosine, lift = (arb(alpha) - beta).cos(), self.bins * (beta / self.shift) ** 2 / 2
        u0, u1, *powers = self._ends_of(c, float(cosine), less - float(lift))
        most = float(self._terms(c, np.linspace(u0, u1, 200), float(cosine))[0].max())
        deep = most + float(lift) + math.log(self.bins) + 5.0 - less
        theta, a, k = self._inner_plan(alpha, deep)
        # one geometric grid for both rules: h is `outer` times the logarithm of its ratio, and μk is `inner` times it
        mu_k = self.mu * k
        grid = _Grid(arb(min(h, mu_k)), max(math.floor(mu_k / h), 1), max(math.floor(h / mu_k), 1))
        step = grid.ratio * grid.outer
        first, count = math.floor(u0 / float(step)), math.ceil((u1 - u0) / float(step)) + 2
        if count > _MOST_NODES:
            raise PrecisionError(f"the moments of an epoch at order {c:.3g} need too many nodes")
        places = [step * j for j in range(first, first + count)]
        with precision(max(ctx.prec, round(1.5 * deep) + 40) + round(theta**2)):
            values = self._psi(alpha, theta, arb(a), grid, first, count, deep)
        growth = (2 * arb.pi() * arb(d) / step).exp() - 1
        margin = 1.0 + 2.0**-40  # the caller rounds y
        strip = (self._bound(c, arb(alpha) + arb(d)) * (-arb(d) * low / margin).exp()) / growth
        strip += (self._bound(c, arb(alpha) - arb(d)) * (arb(d) * high * margin).exp()) / growth
        cut = arb(0)
        for b, end, sign in zip(map(arb, powers), (places[0], places[-1]), (1, -1), strict=True):
            fall = (1 + arb(c) - b) * sign
            size = (b * (b / (arb(1).exp() * cosine)).log() if b > 0 else arb(0)) + lift + (1 + arb(c) - b) * end
            if b > 1:
                size += (b - 1) * self.shift**2 * (1 + (b - 1) / self.bins) / 2
            if not fall > 0:
                raise PrecisionError("the end of a ray is not resolved")
            cut += size.exp() * step / (1 - (-fall * step).exp())
        return _Ray(alpha, places, values, step, strip.upper(), cut.upper())

    def _bound(self, c: float, angle: Ball) -> Ball:
        """Enclose B at this angle and y = 0."""
        beta = arb(float(self._log_bound(c, float(angle), 0.0)[1]))
        cosine = (angle - beta).cos()
        if not cosine > 0:
            raise PrecisionError("the strip of an epoch is too wide")
        return (self.bins * (beta / self.shift) ** 2 / 2 - (1 + arb(c)) * cosine.log()).exp()

    def _psi(self, alpha: float, theta: float, a: Ball, grid: _Grid, first: int, count: int, deep: float) -> list[Any]:
        """Enclose ψ(e^{u + iα}) at u = step·(first + i)."""
        mu, turn = self.shift, arb(alpha) - self.shift * arb(theta)
        for side in (turn + mu * a, mu * a - turn):
            if not side <= arb.pi() / 2:
                raise PrecisionError("the strip of an epoch is too wide")
        k = grid.ratio * grid.inner / mu
        far = math.ceil((math.sqrt(2.0 * deep + theta**2 + 10.0) + 1.0) / float(k))
        right = far + math.ceil(self.mu / float(k))
        lift = (arb(theta) ** 2 / 2).exp()
        error = 2 * ((arb(theta) + a) ** 2 / 2).exp() / ((2 * arb.pi() * a / k).exp() - 1)
        error += lift * (k * (far - 1) / arb(2).sqrt()).erfc()
        # exp(−z e^{−iμθ} X) on the grid
        start, stop = first * grid.outer - far * grid.inner, (first + count - 1) * grid.outer + right * grid.inner
        ray, negligible = -acb(0, turn).exp(), arb(-deep - 30.0).exp()
        scale = grid.ratio * start - mu**2 / 2 - arb(self.bins).log()
        table: list[Any] = []
        for n in range(stop - start + 1):
            size = (scale + grid.ratio * n).exp()
            if size * turn.cos() > deep + 30.0:
                break
            table.append((ray * size).exp())
        error = (error + 4 * lift * negligible).upper()
        table += [acb(0)] * (stop - start + 1 - len(table))
        plain, tilted = [], []
        for j in range(right, -far - 1, -1):
            g = k * j
            plain.append((acb(-g * g / 2, arb(theta) * g) + arb(theta) ** 2 / 2).exp() * k / (2 * arb.pi()).sqrt())
            tilted.append(plain[-1] * acb(mu * g - mu**2 / 2, -mu * arb(theta)).exp())
        unknown = acb(arb(0, error), arb(0, error))
        sums = [_correlate(table, weights, grid, count) for weights in (plain, tilted)]
        return [(one + unknown) ** (self.bins - 1) * (two + unknown) for one, two in zip(*sums, strict=True)]


class _FixedPoint(NamedTuple):
    """Describe the coefficients of a polynomial in fixed point: (real + i·imag)·2^−bits, up to an error each.

    `total` bounds the sum of the moduli of the coefficients, with their errors.
    """

    real: fmpz_poly
    imag: fmpz_poly
    bits: int
    error: Ball
    total: Ball

    @classmethod
    def of(cls, values: list[Any]) -> _FixedPoint:
        """Round balls to the working precision of the largest, and a few bits more."""
        sizes = [value.abs_upper() for value in values]
        top = max(sizes)  # 0 if every value is: exp(−z) on the grid may end before a stride begins
        bits = ctx.prec + _GUARD - (math.ceil(float(top.log().upper()) / math.log(2.0)) if top > 0 else 0)
        pieces = [[value.real for value in values], [value.imag for value in values]]
        error = 2 * (max(max(x.rad() for x in piece) for piece in pieces) + arb(2) ** -bits)
        total = sum(sizes, arb(0)) + len(values) * error
        real, imag = (fmpz_poly([_shifted(x, bits) for x in piece]) for piece in pieces)
        return cls(real, imag, bits, error, total)

    def times(self, other: _FixedPoint, wanted: list[int]) -> list[Any]:
        """Enclose some coefficients of the product. The integers are exact: Σ (xy − XY) = Σ (x − X) y + X (y − Y)."""
        error = (self.error * other.total + other.error * self.total).upper()
        scale, unknown = arb(2) ** -(self.bits + other.bits), arb(0, error)
        real = self.real * other.real - self.imag * other.imag
        imag = self.real * other.imag + self.imag * other.real
        return [acb(arb(real[k]) * scale + unknown, arb(imag[k]) * scale + unknown) for k in wanted]


def _shifted(ball: Ball, bits: int) -> fmpz:
    """Return the middle of a ball times 2^bits, rounded down."""
    mantissa, exponent = ball.mid().man_exp()
    shift = int(exponent) + bits
    return mantissa << shift if shift >= 0 else mantissa >> -shift


def _correlate(table: list[Any], weights: list[Any], grid: _Grid, count: int) -> list[Any]:
    """Enclose Σ_j weights_{−1−j} table_{i·outer + j·inner} for i < count, by products of integer polynomials."""
    factor, last, out = _FixedPoint.of(weights), len(weights) - 1, [acb(0)] * count
    for start in range(min(grid.inner, count * grid.outer)):
        places = [i for i in range(count) if i * grid.outer % grid.inner == start]
        wanted = [i * grid.outer // grid.inner + last for i in places]
        values = _FixedPoint.of(table[start :: grid.inner]).times(factor, wanted)
        for i, value in zip(places, values, strict=True):
            out[i] = value
    return out


def _transform(weights: list[Any], angle: Ball, count: int) -> list[Any]:
    """Enclose Σ_j weights_j e^{ijk·angle} for k < count by one product of polynomials: 2jk = j² + k² − (k − j)².

    >>> [round(float(value.real), 6) for value in _transform([acb(1), acb(2)], arb.pi(), 3)]
    [3.0, -1.0, 3.0]
    """
    size = len(weights)
    chirp = [acb(0, angle * (m * m) / 2).exp() for m in range(max(size, count))]
    turned = _FixedPoint.of([weight * z for weight, z in zip(weights, chirp, strict=False)])
    other = _FixedPoint.of([chirp[m if m > 0 else -m].conjugate() for m in range(1 - size, count)])
    values = turned.times(other, list(range(size - 1, size - 1 + count)))
    return [value * z for value, z in zip(values, chirp, strict=False)]


def _more_bits(size: float) -> int:
    """Return the bits that exponents of this size take away."""
    return 2 * math.ceil(math.log2(2.0 + size))


def _log_gamma(c: float, y: float) -> float:
    return float(scipy.special.loggamma(complex(1.0 + c, y)).real)
