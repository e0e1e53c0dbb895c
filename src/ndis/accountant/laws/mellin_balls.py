"""Enclose the moments of one Poisson-sampled step of any Gaussian pair at all places of a line by one product.

The letters are those of `ndis.accountant.laws.mellin`. Theorem thm:mellin-moment (docs/theory.md) has the form of M,
the error of its trapezoid rule and the bound of its ends. On the lattice z = a + ihj, e = r₀ + ihrk the sum over j is

    S_k = Σ_j u_j g_{j−rk},      u_j = Γ(−z) ρ^z e^{κ(z) + πv/2},   g_i = Γ(a − r₀ + ihi) e^{−πhi/2},

because Γ(z−e) depends on the difference of two indices only. So one product of two polynomials has all S_k. The factors
e^{±πv/2} take the decay of the Gammas away, and the coefficients of both polynomials have similar sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from flint import acb, acb_poly, arb, ctx
from scipy.special import loggamma

from ndis._balls import Ball, outward, precision
from ndis.accountant.laws.mellin import MellinMoment
from ndis.errors import PrecisionError

__all__ = ["MellinStep"]

_SHARES = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
_LEAST_ANGLE = 1.2
_MOST_NODES = 400_000
_NARROWEST = 0.02  # cell between two poles
_RIGHTMOST = 24  # cells to the right of 0 that are tried
_SPARE = 3.0  # in log units
_ROUNDED = 1e-9  # more than the rounding of a power; a larger one is right too


class _Line(NamedTuple):
    """A line Re z = a has a strip of half the width d, a step, a length beyond 0 and Im e, and cancellation."""

    place: float
    strip: float
    step: float
    beyond: float
    lost: float


class MellinStep:
    """One sampled step of any pair gives M in balls at the working precision, and in floats for plans.

    Parameters
    ----------
    rate : ball
        q, strictly between 0 and 1.
    curved : list of (ball, ball, int)
        t ≠ 0, m² and the number of copies of each direction; the first law has the record.
    flat : ball
        The sum of m² over directions with t = 0.
    remove : bool
        The order: remove or add.

    Examples
    --------
    >>> step = MellinStep(arb(0.5), [(arb(0.5), arb(0), 2)], arb(0), remove=True)
    >>> step.moment(1.0, 30.0).contains(arb(13) / 12)  # E[(½ + ½w)²] with E w² = 4/3
    True
    """

    def __init__(self, rate: Ball, curved: list[tuple[Ball, Ball, int]], flat: Ball, *, remove: bool) -> None:
        self.rate, self.curved, self.flat, self.remove = rate, curved, flat, remove
        highs = [outward(1 / t).lower for t, _, _ in curved if t > 0]
        lows = [outward(1 / t).upper for t, _, _ in curved if t < 0]
        if len(highs) + len(lows) < len(curved):
            raise PrecisionError("the sign of a variance ratio less 1 is not known")
        self._domain = 1.0 + max(lows, default=-math.inf), 1.0 + min(highs, default=math.inf)
        self.limit = min(highs, default=math.inf) if remove else math.inf  # M(c) is finite below
        t, m2, c = (np.array([float(x) for x in row]) for row in zip(*curved, (0.0, flat, 1), strict=True))
        if not remove:  # floats take the pair of the order
            t, m2 = -t / (1.0 + t), m2 / (1.0 + t)
        self._floats = MellinMoment(float(rate), t, np.sqrt(m2), c, add=not remove)

    # ------------------------------------------------------------------ floats, for plans only

    def log_moment(self, c: float) -> float:
        """Return log M(c) in floats."""
        value = float(self._floats.centred(np.array([c + 0j]))[0][0].real) + c * self._floats.mean
        if not math.isfinite(value):
            raise PrecisionError(f"the moment of a sampled pair at order {c:.3g} is out of the range of floats")
        return value

    def _cells(self, r0: float) -> Iterator[tuple[float, float]]:
        """Yield neighbouring poles between which a line may lie, inside the domain of κ."""
        low, high = self._domain
        if self.remove:
            least = math.floor(max(low, -4.0))
            poles = {float(k) for k in range(_RIGHTMOST)} | {r0 - j for j in range(math.ceil(r0 - least) + 1)}
        else:
            poles = {float(k) for k in range(_RIGHTMOST)} | {r0, 0.5 * r0, 0.25 * r0}
        inside = sorted(pole for pole in poles if low < pole < high)
        if low > (-4.0 if self.remove else r0):
            inside.insert(0, low)
        if high < _RIGHTMOST - 1.0:
            inside.append(high)
        for x, y in pairwise(inside):
            if y - x > _NARROWEST and (self.remove or x >= r0):
                yield x, y

    def _log_bound(self, b: float, r0: float, y: float) -> float:
        """Return log of N_b roughly."""
        power, log = _gamma_power(-b) + _gamma_power(b - r0), math.lgamma(-b) + math.lgamma(b - r0)
        theta = _angle(power, y)
        log += b * (math.log(self._floats.rate) - math.log1p(-self._floats.rate)) + r0 * math.log1p(-self._floats.rate)
        log += self._floats._log_ratio_moment(b) - power * math.log(math.cos(theta)) - theta * y
        return log + math.log(y + 1.0 / theta) - float(loggamma(complex(-r0, -max(y, 1e-9))).real)

    def _line(self, c: float, y: float, digits: float) -> _Line:
        """Return the line with the longest step for an error of e^−digits of M(c) at 0 ≤ Im e ≤ y."""
        r0, aim = self._power(c), digits + _SPARE - self.log_moment(c)
        best: _Line | None = None
        for low, high in self._cells(r0):
            a = 0.5 * (low + high)
            for share in _SHARES:
                d = share * 0.5 * (high - low)
                try:
                    need = aim + max(self._log_bound(b, r0, v) for b in (a - d, a + d) for v in (0.0, y))
                    here = max(self._log_bound(a, r0, v) for v in (0.0, y))
                except (ValueError, OverflowError):  # a pole of a Gamma
                    continue
                step = 2.0 * math.pi * d / max(need, 1.0)
                if best is None or step > best.step:
                    beyond = max(aim + here + 4.0, 4.0) / (2.0 * _LEAST_ANGLE) + 1.0
                    best = _Line(a, d, step, beyond, max(here - self.log_moment(c), 0.0))
        if best is None:
            raise PrecisionError(f"the moment of a sampled pair at order {c:.3g} has no line between its poles")
        return best

    def _power(self, c: float) -> float:
        return 1.0 + c if self.remove else -c

    # ------------------------------------------------------------------ balls

    def moment(self, c: float, digits: float) -> Ball:
        """Enclose M(c) for real c, meant to be known to e^−digits."""
        return self.values(c, arb(1), 1, digits)[0].real

    def values(self, c: float, spacing: Ball, count: int, digits: float) -> list[Any]:
        """Enclose M at Im e = 0, spacing, 2 spacing, …, meant to err by e^−digits of M(c)."""
        line = self._line(c, float(spacing) * (count - 1), digits)
        with precision(ctx.prec + math.ceil(1.5 * line.lost) + 32):
            return self._values(c, spacing, count, line)

    def _values(self, c: float, spacing: Ball, count: int, line: _Line) -> list[Any]:
        ratio = math.ceil(float(spacing) / line.step) if count > 1 else 1
        h = spacing / ratio if count > 1 else arb(line.step)
        a, r0 = arb(line.place), arb(c) + 1 if self.remove else -arb(c)
        self._check(a - arb(line.strip), a + arb(line.strip), r0)
        beyond = math.ceil(line.beyond / float(h))
        first, last = -beyond, ratio * (count - 1) + beyond
        if 2 * (last - first) > _MOST_NODES:
            raise PrecisionError(f"the moments of a sampled pair at order {c:.3g} need too many nodes")
        turn, log_stay = arb.pi() / 2, (1 - self.rate).log()
        log_odds = self.rate.log() - log_stay
        left = []
        for j in range(first, last + 1):
            z = acb(a, h * j)
            left.append((-z).gamma() * (z * log_odds + self._kappa(z) + turn * h * j).exp())
        differences = range(beyond, first - ratio * (count - 1) - 1, -1)
        right = [acb(a - r0, h * i).gamma() * (-turn * h * i).exp() for i in differences]
        product = acb_poly(left) * acb_poly(right)
        bounds = [self._constant(line.place + x, r0, log_odds, log_stay) for x in (-line.strip, line.strip, 0.0)]
        damping = (2 * arb.pi() * arb(line.strip) / h).exp() - 1
        out = []
        for k in range(count):
            e = acb(r0, spacing * k)
            lead = (e * log_stay).exp() * (-e).rgamma()
            value = h / (2 * arb.pi()) * lead * (-turn * spacing * k).exp() * product[beyond - first + ratio * k]
            error = self._error(bounds, (-e).rgamma().abs_upper(), spacing * k, h, arb(h * beyond), damping)
            unknown = arb(0, error.upper())
            out.append(value + self._residues(e, line.place, log_stay, log_odds) + acb(unknown, unknown))
        return out

    def _check(self, low: Ball, high: Ball, r0: Ball) -> None:
        """Refuse a strip that may hold a pole or leave the domain of κ, and an e outside that domain."""
        above, below = max(math.ceil(float(low)), 0), max(math.ceil(float(r0 - high)), 0)
        right = above > high and (above == 0 or above - 1 < low)
        left = below > r0 - low and (below == 0 or below - 1 < r0 - high)
        ends = (low, high, r0) if self.remove else (low, high)
        if not (left and right and all(1 - (z - 1) * t > 0 for z in ends for t, _, _ in self.curved)):
            raise PrecisionError("a line of the moment of a sampled pair meets a pole")

    def _kappa(self, z: Any) -> Any:
        """κ(z) is the log-moment of the unsampled pair at z − 1."""
        s = z - 1
        both = s * z
        total = self.flat * both / 2
        for t, m2, n in self.curved:
            factor = 1 - s * t
            total += n * (m2 * both / factor - s * (1 + t).log() - factor.log()) / 2
        return total

    def _constant(self, b: float, r0: Ball, log_odds: Ball, log_stay: Ball) -> tuple[Ball, float]:
        """Bound the factor of |F| on the line b that depends on neither v nor e; return the power of cos θ too."""
        exact = arb(b)
        gammas = abs((-exact).gamma()) * abs((exact - r0).gamma())
        size = gammas * (r0 * log_stay + exact * log_odds + self._kappa(exact)).exp()
        if not size.is_finite():
            raise PrecisionError("a line of the moment of a sampled pair meets a pole")
        return size.upper(), _gamma_power(-b) + _gamma_power(b - float(r0)) + _ROUNDED

    @staticmethod
    def _error(
        bounds: list[tuple[Ball, float]], inverse: Ball, y: Ball, h: Ball, beyond: Ball, damping: Ball
    ) -> Ball:
        """Bound the trapezoid rule on the strip between the first two lines, and its ends on the third."""
        total = arb(0)
        for i, (size, power) in enumerate(bounds):
            theta = arb(_angle(power, float(y)))
            size = size * inverse * theta.cos() ** (-arb(power)) * (-theta * y).exp() / (2 * arb.pi())
            if i < 2:
                total += size * (y + 1 / theta) / damping
            else:
                total += size * 2 * h * (-2 * theta * beyond).exp() / (1 - (-2 * theta * h).exp())
        return total

    def _residues(self, e: Any, a: float, log_stay: Ball, log_odds: Ball) -> Any:
        """Sum the residues between the line and the poles of the binomial series."""
        total, factor = acb(0), acb(1)
        for k in range(max(math.ceil(a), 0)):
            moment = self._kappa(arb(k)) if k > 1 else arb(0)
            total += factor * (e * log_stay + k * log_odds + moment).exp()
            factor *= (e - k) / (k + 1)
        factor, j = acb(1), 0
        while e.real - j > a:
            z = e - j
            total += factor * (e * log_stay + z * log_odds + self._kappa(z)).exp()
            factor *= z / (j + 1)
            j += 1
        return total


def _gamma_power(x: float) -> float:
    """Return the least x + m ≥ ½ with a whole m ≥ 0."""
    return x if x >= 0.5 else x + math.ceil(0.5 - x)


def _angle(power: float, y: float) -> float:
    """θ for which (cos θ)^−power e^{−θy} is small; any θ is right."""
    return max(_LEAST_ANGLE, math.atan2(y, power))
