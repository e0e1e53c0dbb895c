"""Compute tail integrals of quadratic forms in Gaussians, in float64, to full relative accuracy.

One integral serves the whole package (thm:contour; lemma: ndis, thm:ndis-two-genchi2-cdf):

    I = (1/2πi) ∫ e^{K(s) − s x} g(s) ds,      g(s) = 1/(s(s+1)),  1/s  or  1

K is the log-moment function of the variable. In the order of the kinds below, the integral is δ(ε) and 1 − δ(ε) of a
Gaussian pair (x = ε, the variable is the privacy loss), then the survival function, the distribution function and the
density of a generalized chi-square. The strip in which the path crosses the real axis decides between tails: right of
the poles of g it is the upper tail, left of 0 it is minus the lower one.

The code carries K in one of two forms, so that nothing large cancels:

    about the mean:  K(s) − s x = (mean − x) s + Σ [ ½ν φ(st) + ½ q s²/(1−st) ],        φ(z) = −log(1−z) − z
    about the edge:  K(s) − s x = (edge − x) s + Σ [ −½ν log(1−st) + ½ (q/t²) st/(1−st) ]

The edge is the end of the support of a variable bounded on one side. Near it (mean − x) has lost the digits that
matter.

The path is s(u) = c + b w (cosh u − 1) + i w sinh u through the saddle c of the whole integrand; w is the width there.
The code looks along the path to choose its bend b. The trapezoid rule in u then converges faster than geometrically
under halving of the step. With changes D₁, D₂ of the last two refinements, the error of the last is estimated as
D₂ · max(10 D₂/D₁, 1/100): the errors oscillate, and D₂ may be small by accident. The rounding of the exponent is added
to it.
"""

from __future__ import annotations

import cmath
import math
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from ndis._compile import compiled
from ndis._validate import Floats

KernelGroups = tuple[Floats, Floats, Floats, Floats]  # t, 1 + t, ν, q

# The kind: the number of poles of g, and the side of 0 on which the path crosses the real axis.
DELTA, COMPLEMENT, SF, CDF, PDF = 0, 1, 2, 3, 4

_UNIT = 2.0**-53
_DEAD = -41.0  # e^-41: below the rounding of the sum
_GROWTH = 2.0  # the integrand may exceed its saddle value by at most e²
_PDF_GROWTH = 60.0  # without a pole it may rise before it falls; the error estimate includes the cancellation
LOOK = 0.5  # step of the first look along the path; the first trapezoid sum reuses its values
_MAX_LOOK = 400
_PROMPT = 9  # a path of steepest descent that is dead within this many steps is taken at once
_MAX_HALVINGS = 9
_GOAL = 5e-14  # relative error to aim for, if rounding allows it
_SMALL = 0.0064  # |z|² below which φ(z) is summed as its series
_SLOPES = (-0.5, 0.5, -0.2, 0.2, 0.0)


@compiled()
def _phi(z: complex) -> complex:
    """Return φ(z) = −log(1−z) − z = z²/2 + z³/3 + …, |z| ≤ 0.08."""
    p = 1.0 / 14.0 + 0.0j
    for k in range(13, 1, -1):
        p = p * z + 1.0 / k
    return p * z * z


@compiled()
def _log(z: complex) -> complex:
    """Principal logarithm; |z|² does not overflow here."""
    return complex(0.5 * math.log(z.real * z.real + z.imag * z.imag), math.atan2(z.imag, z.real))


@compiled()
def exponent(s, lin, t, ratio, nu, q, edge):
    """Return K(s) − s x for Im s ≥ 0.

    Consecutive factors with equal ν share one logarithm, that of their product P. Each factor 1 − st has its argument
    in (−π, 0) for t > 0 and in (0, π) for t < 0. So P winds past the negative axis exactly when its imaginary part
    leaves the sign of that half-plane.
    """
    acc = lin * s
    P = 1.0 + 0.0j
    winds = 0
    run = 0.0
    half_s2 = 0.5 * s * s
    for j in range(t.size):
        tj = t[j]
        z = s * tj
        # 1 − st; near t = −1 and s = −1 from the ratio 1 + t, which is known to full relative accuracy
        v = (1.0 + s) - s * ratio[j] if -1.0 < tj < -0.5 else 1.0 - z
        if nu[j] != 0.0:
            if z.real * z.real + z.imag * z.imag < _SMALL and not edge:
                acc += 0.5 * nu[j] * _phi(z)
            else:
                size = P.real * P.real + P.imag * P.imag
                if nu[j] != run or not 1e-200 < size < 1e200:
                    if run != 0.0:
                        acc -= 0.5 * run * (_log(P) + 2j * math.pi * winds)
                    P = 1.0 + 0.0j
                    winds = 0
                    run = nu[j]
                before = P.imag
                P = P * v
                if tj < 0.0:
                    if before >= 0.0 and P.imag < 0.0:
                        winds += 1
                elif before <= 0.0 and P.imag > 0.0:
                    winds -= 1
                if not edge:
                    acc -= 0.5 * nu[j] * z
        if q[j] != 0.0:
            inverse = v.conjugate() / (v.real * v.real + v.imag * v.imag)
            if edge and tj != 0.0:
                acc += 0.5 * (q[j] / (tj * tj)) * (z * inverse)
            else:
                acc += q[j] * (half_s2 * inverse)
    if run != 0.0:
        acc -= 0.5 * run * (_log(P) + 2j * math.pi * winds)
    return acc


@compiled()
def derivatives(c, lin, t, ratio, nu, q, edge, kind):
    """Return the first, second and third derivative of K(c) − c x − log|c| − log|c+1| (with the poles of the kind)."""
    first = lin
    second = 0.0
    third = 0.0
    for j in range(t.size):
        tj = t[j]
        z = c * tj
        i = 1.0 / ((1.0 + c) - c * ratio[j] if -1.0 < tj < -0.5 else 1.0 - z)
        if edge and tj != 0.0:
            first += 0.5 * nu[j] * tj * i
            if q[j] != 0.0:
                first += 0.5 * q[j] / tj * i * i
        else:
            first += 0.5 * nu[j] * tj * z * i + 0.5 * q[j] * c * (2.0 - z) * i * i
        ti = tj * i
        second += 0.5 * nu[j] * ti * ti + q[j] * i * i * i
        third += nu[j] * ti * ti * ti + 3.0 * q[j] * ti * i * i * i
    if kind != PDF:
        p = 1.0 / c
        first -= p
        second += p * p
        third -= 2.0 * p * p * p
    if kind <= COMPLEMENT:
        p = 1.0 / (1.0 + c)
        first -= p
        second += p * p
        third -= 2.0 * p * p * p
    return first, second, third


@compiled()
def _between(a, b, lo, hi):
    """A point inside the bracket (a, b) ⊂ (lo, hi) that halves its log distance to the nearer end of (lo, hi)."""
    if math.isinf(a) and math.isinf(b):
        return 0.0
    if math.isinf(b):
        return 4.0 * a if a > 0.0 else 1.0
    if math.isinf(a):
        return 4.0 * b if b < 0.0 else -1.0
    if not math.isinf(lo) and b - lo > 4.0 * (a - lo):
        near = a - lo if a > lo else (b - lo) * 1e-6
        return lo + math.sqrt(near * (b - lo))
    if not math.isinf(hi) and hi - a > 4.0 * (hi - b):
        near = hi - b if hi > b else (hi - a) * 1e-6
        return hi - math.sqrt(near * (hi - a))
    return 0.5 * (a + b)


@compiled()
def _saddle(lin, t, ratio, nu, q, edge, kind):
    """Return (c, w, bend): the minimiser c of the modulus on the real axis within the strip, and the path through it.

    w is the width of the integrand at c, and w f‴/(3 f″) is the bend of the steepest descent. The width is 0 if there
    is no minimiser. Every c in the strip gives the right integral; a good c gives it fast.
    """
    lo, hi = -math.inf, math.inf
    variance = 0.0
    for j in range(t.size):
        if t[j] > 0.0:
            hi = min(hi, 1.0 / t[j])
        elif t[j] < 0.0:
            lo = max(lo, 1.0 / t[j])
        variance += 0.5 * nu[j] * t[j] * t[j] + q[j]
    if kind in (DELTA, SF):
        lo = 0.0
    elif kind == COMPLEMENT:
        lo, hi = -1.0, 0.0
    elif kind == CDF:
        hi = 0.0
    a, b = lo, hi
    # first guess: the variable as a Gaussian, one pole at 0
    c = 0.0
    if variance > 0.0 and not edge:
        root = math.sqrt(lin * lin + 4.0 * variance)
        if kind in (DELTA, SF):
            c = 2.0 / (lin + root) if lin > 0.0 else (root - lin) / (2.0 * variance)
        elif kind == PDF:
            c = -lin / variance
        else:
            c = -2.0 / (root - lin) if lin < 0.0 else -(root + lin) / (2.0 * variance)
    result, width, bend = 0.0, 0.0, 0.0
    for _ in range(400):
        if not a < c < b:
            c = _between(a, b, lo, hi)
            if not a < c < b:
                break
        first, second, third = derivatives(c, lin, t, ratio, nu, q, edge, kind)
        if not 0.0 < second < math.inf:
            break
        result, width = c, 1.0 / math.sqrt(second)
        bend = width * third / (3.0 * second)
        if first > 0.0:
            b = c
        else:
            a = c
        step = -first / second
        if math.fabs(step) <= 1e-3 * width:
            break
        c += step
    return result, width, bend


@compiled()
def _node(up, bend, c, w, base, lin, t, ratio, nu, q, edge, kind):
    """Return at e^u = up the exponent less its saddle value, g(s) s'(u) over its modulus at the saddle, and s."""
    down = 1.0 / up
    cosh, sinh = 0.5 * (up + down), 0.5 * (up - down)
    s = complex(c + bend * w * (cosh - 1.0), w * sinh)
    g = complex(bend * sinh, cosh)
    if kind != PDF:
        g *= s.conjugate() * (c / (s.real * s.real + s.imag * s.imag))
    if kind <= COMPLEMENT:
        v = 1.0 + s
        g *= v.conjugate() * ((1.0 + c) / (v.real * v.real + v.imag * v.imag))
    return exponent(s, lin, t, ratio, nu, q, edge) - base, g, s


@compiled()
def _look(bend, limit, store, mute, c, w, base, lin, t, ratio, nu, q, edge, kind):
    """Return the number of nodes until the integrand stays below e^mute of its saddle value.

    It is 0 if the integrand grows, or lives longer than `limit` nodes.
    """
    dead = 0
    for k in range(1, min(limit, _MAX_LOOK) + 3):
        e, g, s = _node(math.exp(LOOK * k), bend, c, w, base, lin, t, ratio, nu, q, edge, kind)
        height = e.real + 0.5 * math.log(g.real * g.real + g.imag * g.imag)
        if not height < (_PDF_GROWTH if kind == PDF else _GROWTH):
            return 0
        store[k, 0] = cmath.exp(e) * g
        store[k, 1] = store[k, 0] * s
        dead = dead + 1 if height < mute else 0
        if dead == 3:
            return k - 2
    return 0


@compiled()
def path(mute, lin, t, ratio, nu, q, edge, kind):
    """Return the contour: (c, w, bend, number of looks until dead, K(c) − c x, values of the integrand at the looks).

    The number of looks is 0 if no path was found. The code takes the steepest descent through the saddle if it sees
    it die promptly. Otherwise it takes the slope that dies first. The curvature at the saddle only would pick a wrong
    side for one pair in a hundred, and so would the growth at infinity.
    """
    kept = np.empty((_MAX_LOOK + 3, 2), dtype=np.complex128)
    c, w, steepest = _saddle(lin, t, ratio, nu, q, edge, kind)
    if not w > 0.0:
        return 0.0, 0.0, 0.0, 0, 0.0, kept
    base = exponent(complex(c, 0.0), lin, t, ratio, nu, q, edge).real
    bend = min(max(steepest, -0.5), 0.5)
    best = _look(bend, _PROMPT, kept, mute, c, w, base, lin, t, ratio, nu, q, edge, kind)
    if best == 0:
        trial = np.empty((_MAX_LOOK + 3, 2), dtype=np.complex128)
        for slope in _SLOPES:
            limit = best - 1 if best else _MAX_LOOK
            looks = _look(slope, limit, trial, mute, c, w, base, lin, t, ratio, nu, q, edge, kind)
            if looks and (best == 0 or looks < best):
                best, bend = looks, slope
                kept, trial = trial, kept
    return c, w, bend, best, base, kept


@compiled()
def strip(a, mute, end, c, w, bend, base, lin, t, ratio, nu, q, edge, kind):
    """Return (height, place): the largest log modulus of the integrand, over its saddle value, on the lines Im u = ±a.

    From `place` ≥ `end` on, both lines and the path are below e^mute. The result is (inf, 0) if the lines leave the
    domain or do not die. The height says how fast the trapezoid rule converges. The certificate uses it to choose its
    step, and proves the error separately.
    """
    highest = -math.inf
    k = 0
    while k < 4 * _MAX_LOOK:
        x = 0.25 * k
        worst = -math.inf
        for side in (-a, 0.0, a):
            u = complex(x, side)
            cosh, sinh = cmath.cosh(u), cmath.sinh(u)
            s = c + w * (bend * (cosh - 1.0) + 1j * sinh)
            if k == 0:
                s = complex(s.real, 0.0)
                if s.real * c <= 0.0:
                    return math.inf, 0.0
                for j in range(t.size):
                    if 1.0 - s.real * t[j] <= 0.0:
                        return math.inf, 0.0
            elif not s.imag > 0.0:
                return math.inf, 0.0
            g = (bend * sinh + 1j * cosh) * (c / s) * ((1.0 + c) / (1.0 + s))
            e = exponent(s, lin, t, ratio, nu, q, edge).real - base
            worst = max(worst, e + 0.5 * math.log(g.real * g.real + g.imag * g.imag))
        highest = max(highest, worst)
        if worst < mute and x >= end:
            return highest, x
        if not worst < 60.0:
            return math.inf, 0.0
        k += 1
    return math.inf, 0.0


@compiled()
def tail(lin, t, ratio, nu, q, edge, kind):
    """log |I|, −d log|I| / dx and the estimated relative error of I; NaN if no path was found."""
    c, w, bend, best, base, kept = path(_DEAD, lin, t, ratio, nu, q, edge, kind)
    if not w > 0.0:
        return math.nan, math.nan, math.nan
    scale = base
    if kind != PDF:
        scale -= math.log(math.fabs(c))
    if kind <= COMPLEMENT:
        scale -= math.log1p(c)
    rounding = _UNIT * (4.0 + _burden(c, lin, t, nu, q, edge))
    if rounding > 1e-3:
        # |log I| is above 10¹³. All its digits are in the saddle value, and a factor of I is far below them.
        return scale + math.log(w / math.sqrt(2.0 * math.pi)), c, 1.0 + rounding
    if best == 0:
        return math.nan, math.nan, math.nan
    total, moment, size = 0.5, 0.5 * c, 0.5
    for k in range(1, best + 1):
        total += kept[k, 0].imag
        moment += kept[k, 1].imag
        size += math.fabs(kept[k, 0].real) + math.fabs(kept[k, 0].imag)
    h = LOOK
    previous = h * total
    change = math.inf
    for level in range(_MAX_HALVINGS):
        h *= 0.5
        up, stride = math.exp(h), math.exp(2.0 * h)
        for _ in range(best << level):
            e, g, s = _node(up, bend, c, w, base, lin, t, ratio, nu, q, edge, kind)
            value = cmath.exp(e) * g
            total += value.imag
            moment += (value * s).imag
            size += math.fabs(value.real) + math.fabs(value.imag)
            up *= stride
        current = h * total
        last, change = change, math.fabs(current - previous)
        previous = current
        floor = rounding * h * size
        if change <= floor:
            error = change + floor
        elif change < last < math.inf:
            error = change * max(10.0 * change / last, 0.01) + floor
        else:
            continue
        if current > 0.0 and error <= max(4.0 * floor, _GOAL * current):
            return scale + math.log(w * current / math.pi), moment / total, error / current
    return math.nan, math.nan, change / math.fabs(previous)


@compiled()
def _burden(c, lin, t, nu, q, edge):
    """The sum of the moduli of the terms of the exponent at the saddle. Its rounding is relative to this."""
    total = math.fabs(lin * c)
    for j in range(t.size):
        z = c * t[j]
        i = 1.0 / (1.0 - z)
        if edge and t[j] != 0.0:
            total += 0.5 * nu[j] * math.fabs(math.log1p(-z))
            if q[j] != 0.0:
                total += 0.5 * q[j] / (t[j] * t[j]) * math.fabs(z) * i
        else:
            total += 0.5 * nu[j] * (math.fabs(z) if z * z > _SMALL else z * z) + 0.5 * q[j] * c * c * i
    return total


@compiled()
def tails(start, stop, lin, first, last, t, ratio, nu, q, edge, kind, value, slope, error):
    """`tail` for the problems start ≤ i < stop. Problem i owns the groups first[i] ≤ j < last[i]."""
    for i in range(start, stop):
        a, b = first[i], last[i]
        value[i], slope[i], error[i] = tail(lin[i], t[a:b], ratio[a:b], nu[a:b], q[a:b], edge[i], kind)


_CHUNK = 2048  # problems that a thread takes at a time


def evaluate(
    lin: Floats,
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    groups: KernelGroups,
    edge: NDArray[np.bool_],
    kind: int,
) -> tuple[Floats, Floats, Floats]:
    """Return `tail` for many problems: arrays of log |I|, −d log|I|/dx, relative error. Many problems use all cores."""
    n = lin.size
    out = (np.empty(n), np.empty(n), np.empty(n))

    def run(start: int) -> None:
        tails(start, min(start + _CHUNK, n), lin, first, last, *groups, edge, kind, *out)

    if n <= _CHUNK:
        run(0)
    else:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(run, range(0, n, _CHUNK)))
    return out
