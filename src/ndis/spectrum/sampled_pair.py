"""Log-moments of one step of any Gaussian pair, sampled or not.

At rate 1 the form is closed (`PlainMoment`). At a rate q below 1, with w the likelihood ratio and λ the negative of the
exponent (1 + s in the remove order, −s in the add order), Barnes' integral gives

    E (1−q+qw)^{−λ} = (1/2πi) ∫ Γ(λ+z) Γ(−z)/Γ(λ) (1−q)^{−λ−z} q^z E w^z dz

along a path that has the poles of Γ(λ+z) on its left and those of Γ(−z) on its right, and E w^z is closed. A line moved
to the right leaves the residues at 0, 1, 2, … behind, the terms of the binomial series. Those at 0 and 1 less 1 are of
the order of q², and are computed as such. For large Im s and q|s| the series cancels, and a path that leans, between
the two sequences of poles, is taken with no residue at all.
"""

from __future__ import annotations

import cmath
import math

import numpy as np

from ndis._compile import compiled
from ndis._validate import Floats
from ndis.spectrum.contour import exponent
from ndis.spectrum.loss import half_excess_log
from ndis.spectrum.sampled_moment import Complexes, _log1p, log_excess, second_order_exponential

__all__ = ["PairMoment", "PlainMoment", "log_ratio_range"]

_UNIT = 2.0**-53
_HIGHEST = 500.0  # of Im s: the number of nodes grows with it, and no value is given beyond


def log_ratio_range(excess: Floats, shift: Floats, copies: Floats) -> tuple[float, float]:
    """The ends of log dP/dQ: finite on the side on which every direction bounds it."""
    live = (excess != 0.0) | (shift != 0.0)
    t, m, c = excess[live], shift[live], copies[live]
    if not t.size:
        return 0.0, 0.0
    if not ((t > 0.0).all() or (t < 0.0).all()):
        return -math.inf, math.inf
    edge = math.fsum((c * (-0.5 * np.log1p(t) - 0.5 * m * m / t)).tolist())
    return (edge, math.inf) if t[0] > 0.0 else (-math.inf, edge)


@compiled()
def _exponents(s, t, ratio, nu, q, value, error):
    """K(s) − s·mean in closed form, for an array of s, and its rounding."""
    for i in range(s.size):
        value[i] = exponent(s[i], 0.0, t, ratio, nu, q, False)
        burden = 1.0
        for j in range(t.size):
            z = abs(s[i] * t[j])
            burden += 0.5 * nu[j] * min(z, z * z) + 0.5 * q[j] * abs(s[i]) ** 2 / abs(1.0 - s[i] * t[j])
        error[i] = 4.0 * _UNIT * burden


class PlainMoment:
    """K(s) − s·mean of one Gaussian pair that is released every time."""

    def __init__(self, excess: Floats, shift: Floats, copies: Floats) -> None:
        live = (excess != 0.0) | (shift != 0.0)
        self._t, m, copies = excess[live], shift[live], copies[live]
        self._ratio = 1.0 + self._t
        self._nu = np.where(self._t == 0.0, 0.0, copies)
        self._q = copies * m * m * self._ratio
        self.mean = math.fsum((copies * (half_excess_log(self._t, self._ratio) + 0.5 * m * m)).tolist())
        top = float(self._t.max(initial=0.0))
        self.limit = 1.0 / top if top > 0.0 else math.inf
        self.largest = 0.0  # a closed form has no phase to lose

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """K(s) − s·mean and its error."""
        value, error = np.empty(s.size, dtype=np.complex128), np.empty(s.size)
        _exponents(s, self._t, self._ratio, self._nu, self._q, value, error)
        return value, error


@compiled()
def _log_gamma(z):
    """log Γ(z), on any branch."""
    if z.real < 0.5:  # Γ(z) Γ(1−z) = π / sin πz
        return math.log(math.pi) - _log_sin(z) - _log_gamma_right(1.0 - z)
    return _log_gamma_right(z)


@compiled()
def _log_sin(z):
    """log sin πz, on any branch."""
    turn = 1j * math.pi * z
    if z.imag >= 0.0:
        return -turn + cmath.log((cmath.exp(2.0 * turn) - 1.0) / 2j)
    return turn + cmath.log((1.0 - cmath.exp(-2.0 * turn)) / 2j)


@compiled()
def _log_gamma_right(z):
    """log Γ(z) for Re z ≥ ½ by Stirling's series, after a shift."""
    product = 1.0 + 0.0j
    while z.real < 9.0 and abs(z) < 12.0:
        product *= z
        z += 1.0
    r = 1.0 / z
    r2 = r * r
    tail = 1 / 1188.0 + r2 * (-691 / 360360.0 + r2 * (1 / 156.0 - r2 * 3617 / 122400.0))
    tail = r * (1 / 12.0 + r2 * (-1 / 360.0 + r2 * (1 / 1260.0 + r2 * (-1 / 1680.0 + r2 * tail))))
    return (z - 0.5) * cmath.log(z) - z + 0.5 * math.log(2.0 * math.pi) + tail - cmath.log(product)


@compiled()
def _log_power_mean(z, add, mean, t, ratio, nu, quad):
    """log E w^z under the law without the record, in closed form."""
    s = -z if add else z - 1.0
    if s.imag >= 0.0:
        return exponent(s, mean, t, ratio, nu, quad, False)
    return exponent(s.conjugate(), mean, t, ratio, nu, quad, False).conjugate()


@compiled()
def _barnes(z, dz, power, log_gamma, odds, add, mean, t, ratio, nu, quad):
    """One value of the integrand Γ(λ+z) Γ(−z) / Γ(λ) (q/(1−q))^z E w^z dz, λ = −power."""
    e = _log_gamma(z - power) + _log_gamma(-z) - log_gamma + odds * z
    e += _log_power_mean(z, add, mean, t, ratio, nu, quad)
    return cmath.exp(e) * dz, e


@compiled()
def _pair_moments(s, rate, add, limit, mean, t, ratio, nu, quad, value, error):
    """M(s) − 1 and its error, M(s) = E (1 − q + q w)^power under the law without the record."""
    odds = math.log(rate) - math.log1p(-rate)
    for i in range(s.size):
        power = -s[i] if add else 1.0 + s[i]
        y = s[i].imag
        if y > _HIGHEST:
            value[i], error[i] = 0.0, math.inf
            continue
        # (1−q)^power + power q (1−q)^(power−1) − 1, the terms of order 0 and 1 less 1
        first = (power - 1.0) * math.log1p(-rate) + _log1p((power - 1.0) * rate)
        if abs(power) * rate < 0.05:
            first = (power - 1.0) * log_excess(complex(-rate, 0.0)).real + log_excess((power - 1.0) * rate)
        slanted = abs(power) * rate > 0.3 if add else abs(power) * rate > 3.0 and y > 2.0 * (power.real + 2.0)
        extra = second_order_exponential(first) + first
        size = abs(extra)
        scale = (1.0 - rate) ** power
        if slanted:
            # a path between the two sequences of poles: left of 0, and right of `power` at its height
            left, lean = -0.5, 0.0
            if add:
                left = -0.5 * min(1.0, s[i].real)
            else:
                lean = (power.real + 1.0) / y
            extra, size = -1.0 + 0.0j, 1.0
        else:
            # right of 1 and of `power`, as near to them as the poles at the whole numbers allow
            lean = 0.0
            start = 1.0 if add else max(1.0, power.real)
            room = min(0.5, 0.3 * (limit - start))
            left = start + room
            if abs(left - round(left)) < 0.3 * room:
                left = start + 0.6 * room
            term = power * math.exp(odds)
            for k in range(2, int(math.floor(left)) + 1):
                term *= (power - (k - 1.0)) / k * math.exp(odds)
                whole = scale * term * cmath.exp(_log_power_mean(complex(k), add, mean, t, ratio, nu, quad))
                extra += whole
                size += abs(whole)
        log_gamma = _log_gamma(-power)
        # on the upper part of the line Γ(λ+z) turns at the height −Im λ = Im power
        centre = power.imag
        low, high = min(0.0, centre), max(0.0, centre)
        step = 0.5
        total, heavy = 0.0j, 0.0
        # find where the integrand is dead
        peak = -math.inf
        for k in range(33):
            v = low + (high - low) * k / 32.0
            _, e = _barnes(complex(left + lean * v, v), 1.0, power, log_gamma, odds, add, mean, t, ratio, nu, quad)
            peak = max(peak, e.real)
        ends = [low, high]
        for side in range(2):
            v, sign, dead = ends[side], (-1.0 if side == 0 else 1.0), 0
            for _ in range(400):
                v += sign
                _, e = _barnes(complex(left + lean * v, v), 1.0, power, log_gamma, odds, add, mean, t, ratio, nu, quad)
                peak = max(peak, e.real)
                dead = dead + 1 if e.real < peak - 42.0 else 0
                if dead == 2:
                    break
            ends[side] = v
        low, high = ends[0], ends[1]
        count = int((high - low) / step) + 1
        step = (high - low) / count
        for k in range(count + 1):
            v = low + step * k
            z = complex(left + lean * v, v)
            f, e = _barnes(z, complex(lean, 1.0), power, log_gamma, odds, add, mean, t, ratio, nu, quad)
            total += f
            heavy += abs(f) * (1.0 + abs(e))
        change = math.inf
        wrong = math.inf
        result = 0.0j
        for level in range(9):
            before = total * step
            for k in range(count):
                v = low + step * (k + 0.5)
                z = complex(left + lean * v, v)
                f, e = _barnes(z, complex(lean, 1.0), power, log_gamma, odds, add, mean, t, ratio, nu, quad)
                total += f
                heavy += abs(f) * (1.0 + abs(e))
            count *= 2
            step *= 0.5
            last, change = change, abs(total * step - before)
            remain = change
            if last < math.inf and change < last:
                remain = change * min(max(10.0 * (change / last) ** 1.5, 1e-4), 1.0)
            factor = abs(scale) / (2.0 * math.pi)
            result = extra + scale * total * step / (2j * math.pi)
            floor_ = 16.0 * _UNIT * (size + heavy * step * factor)
            wrong = remain * factor + floor_
            if level >= 1 and remain * factor < floor_:
                break
        value[i], error[i] = result, wrong


class PairMoment:
    """log M(s) − s·mean of one step of any Gaussian pair sampled at a rate below 1."""

    def __init__(self, rate: float, excess: Floats, shift: Floats, copies: Floats, *, add: bool) -> None:
        form = PlainMoment(excess, shift, copies)
        self._form = form.mean, form._t, form._ratio, form._nu, form._q
        self._rate, self._add = rate, add
        low, high = float(form._t.min(initial=0.0)), float(form._t.max(initial=0.0))
        # where the moments E w^z of the unsampled ratio end
        self._end = (-1.0 / low if low < 0.0 else math.inf) if add else (1.0 + 1.0 / high if high > 0.0 else math.inf)
        self.limit = math.inf if add else form.limit
        spread = math.sqrt(math.fsum((0.5 * form._nu * form._t**2 + form._q).tolist()))
        self.largest = float(np.logaddexp(math.log1p(-rate), math.log(rate) + form.mean + 40.0 * spread))
        self.mean = 0.0
        self.mean = float(self.centred(np.array([1e-4j]))[0][0].imag / 1e-4)

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """log M(s) − s·mean and its error."""
        value, error = np.empty(s.size, dtype=np.complex128), np.empty(s.size)
        try:
            _pair_moments(s, self._rate, self._add, self._end, *self._form, value, error)
        except ZeroDivisionError:  # a point on a pole of a Γ function: no value there
            return np.full(s.size, np.nan, dtype=np.complex128), np.full(s.size, np.inf)
        log = np.array([_log1p(complex(v)) for v in value])
        return log - self.mean * s, error / np.abs(1.0 + value) + 4.0 * _UNIT * np.abs(self.mean * s)
