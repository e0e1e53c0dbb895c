"""Densities of positive sums are Chebyshev series on panels: these are the loops of `ndis.accountant.densities`.

A table is its edges in λ, the Chebyshev series of log f on each panel, and the largest value there. The integrals are
Gauss–Legendre sums on pieces on which the logarithm of the integrand changes by a few units. A sum a + b is one over t,
the logarithm of the ratio of both. A difference a − b, in which −b has e^−b times the density of b, is one over log b.
"""

from __future__ import annotations

import math

import numpy as np

from ndis._compile import compiled

NODES = 16  # points of a panel
RULE = np.polynomial.legendre.leggauss(20)
_QUARTERS = 2 * np.arange(NODES)[::-1] + 1  # angles of the points, in units of a quarter turn over NODES
CHEBYSHEV_POINTS = np.cos(0.5 * math.pi * _QUARTERS / NODES)
# whole turns are taken away first: the last rows of a constant must vanish to the last digit
_TURNED = np.outer(np.arange(NODES), _QUARTERS) % (4 * NODES)
_TURNED = np.minimum(_TURNED, 4 * NODES - _TURNED)
_HALF = np.minimum(_TURNED, 2 * NODES - _TURNED)
_COSINES = np.where(_TURNED <= NODES, 1.0, -1.0) * np.cos(0.5 * math.pi * _HALF / NODES)
TO_SERIES = _COSINES * np.where(np.arange(NODES) > 0, 2.0, 1.0)[:, None] / NODES
_DEAD = -41.0
_VARIATION = 16.0  # log units by which an integrand may change on one piece
_RISE = 4.0  # most of |V − v| on one piece near v
_WIDEST = 3.0  # a piece in t; the singularities are at the distance π


@compiled()
def _series(c, z):
    """Evaluate the Chebyshev series c at −1 ≤ z ≤ 1."""
    b1, b2 = 0.0, 0.0
    for k in range(c.size - 1, 0, -1):
        b1, b2 = 2.0 * z * b1 - b2 + c[k], b1
    return z * b1 - b2 + c[0]


@compiled()
def _parts(t, lam, minus):
    """Return the logarithms of both parts of a sum, or of a difference."""
    if minus > 0.0:
        return max(lam, t) + math.log1p(math.exp(-abs(lam - t))), t
    both = lam - math.log1p(math.exp(-abs(t)))
    return both + min(t, 0.0), both - max(t, 0.0)


@compiled()
def _place(one, lam, minus, second):
    """Return the t at which the first or the second part is e^one; infinite if there is none."""
    if minus > 0.0:
        return one if second else one + math.log(-math.expm1(lam - one)) if one > lam else -math.inf
    t = -math.log(math.expm1(lam - one)) if one < lam else math.inf
    return -t if second else t


@compiled(fastmath={"contract"})
def _logs(left, right, lam, minus, nodes, a0, a1, ca, b0, b1, cb, value):
    """Write log f_a + log f_b at the nodes of one piece of t; a0 … b1 are the ends of the panels."""
    half, centre = 0.5 * (right - left), 0.5 * (right + left)
    scale_a, scale_b = 2.0 / (a1 - a0), 2.0 / (b1 - b0)
    for j in range(nodes.size):
        t = centre + half * nodes[j]
        one, two = _parts(t, lam, minus)
        za = min(max((one - a0) * scale_a - 1.0, -1.0), 1.0)
        zb = min(max((two - b0) * scale_b - 1.0, -1.0), 1.0)
        value[j] = _series(ca, za) + _series(cb, zb)
        if minus > 0.0:
            value[j] += lam - one - minus * math.exp(t)


@compiled()
def _convolve(lam, twice, minus, ea, ca, ta, eb, cb, tb, nodes, weights):
    """Return the logarithm of the integral over t; −inf if the parts have no support there.

    Equal parts need one half of it, twice. If `minus` is above 0, it is the unit of all V, and the sum is a difference.
    """
    ends = np.empty(ea.size + eb.size + 1)
    ends[0] = 0.0
    count = 1 if twice else 0
    for second, edges in ((False, ea), (True, eb)):
        for e in edges:
            t = _place(e, lam, minus, second)
            if abs(t) < math.inf:
                ends[count] = t
                count += 1
    # the support: V₁ and V₂ inside their tables
    first, last = _place(eb[0], lam, minus, True), _place(eb[-1], lam, minus, True)
    low = max(_place(ea[0], lam, minus, False), min(first, last))
    high = min(_place(ea[-1], lam, minus, False), max(first, last))
    if twice:
        low = max(low, 0.0)
    if not low < high:
        return -math.inf
    ends = np.sort(ends[:count])
    # the pieces, from the one with the highest bound on
    pieces = 0
    lefts, rights, tops = np.empty(count), np.empty(count), np.empty(count)
    which = np.empty((count, 2), dtype=np.int64)
    for j in range(count - 1):
        left, right = max(ends[j], low), min(ends[j + 1], high)
        if left < right:
            middle = 0.5 * (left + right)
            one, two = _parts(middle, lam, minus)
            ia, ib = np.searchsorted(ea, one) - 1, np.searchsorted(eb, two) - 1
            ia, ib = min(max(ia, 0), ca.shape[0] - 1), min(max(ib, 0), cb.shape[0] - 1)
            lefts[pieces], rights[pieces], tops[pieces] = left, right, ta[ia] + tb[ib]
            which[pieces, 0], which[pieces, 1] = ia, ib
            pieces += 1
    total, scale = 0.0, -math.inf
    stack, value = np.empty((64, 2)), np.empty(nodes.size)
    for j in np.argsort(-tops[:pieces]):
        if tops[j] < scale + _DEAD - 4.0:
            break
        ia, ib = which[j, 0], which[j, 1]
        depth = 1
        stack[0, 0], stack[0, 1] = lefts[j], rights[j]
        while depth > 0:
            depth -= 1
            left, right = stack[depth, 0], stack[depth, 1]
            half = 0.5 * (right - left)
            _logs(left, right, lam, minus, nodes, ea[ia], ea[ia + 1], ca[ia], eb[ib], eb[ib + 1], cb[ib], value)
            most, least = value[0], value[0]
            for k in range(1, nodes.size):
                most, least = max(most, value[k]), min(least, value[k])
            counts = most > scale + _DEAD - 8.0
            if (2.0 * half > _WIDEST or (counts and most - least > _VARIATION)) and depth < 60 and half > 1e-12:
                stack[depth, 0], stack[depth, 1] = left, left + half
                stack[depth + 1, 0], stack[depth + 1, 1] = left + half, right
                depth += 2
                continue
            if not counts:
                continue
            if most > scale:
                total *= math.exp(scale - most)
                scale = most
            for k in range(nodes.size):
                total += half * weights[k] * math.exp(value[k] - scale)
    return scale + math.log(2.0 * total if twice else total) if total > 0.0 else -math.inf


@compiled()
def _value(lam, e, c):
    """Return log f at one place; −inf outside of the table."""
    j = np.searchsorted(e, lam) - 1
    return _series(c[j], (2.0 * lam - e[j] - e[j + 1]) / (e[j + 1] - e[j])) if 0 <= j < c.shape[0] else -math.inf


@compiled()
def convolve_all(lams, twice, scale, pa, ea, ca, ta, pb, eb, cb, tb, nodes, weights, out):
    """Write log f of a sum; pa and pb are the logs of the chances that a part is 0, and NaN if no part is negative."""
    for i in range(lams.size):
        lam = lams[i]
        out[i] = _convolve(lam, twice, 0.0, ea, ca, ta, eb, cb, tb, nodes, weights)
        if pa == pa:
            one = _convolve(lam, False, scale, ea, ca, ta, eb, cb, tb, nodes, weights)
            two = one if twice else _convolve(lam, False, scale, eb, cb, tb, ea, ca, ta, nodes, weights)
            three, four = pa + _value(lam, eb, cb), pb + _value(lam, ea, ca)
            out[i] = np.logaddexp(np.logaddexp(out[i], np.logaddexp(one, two)), np.logaddexp(three, four))


@compiled()
def tail(v, sign, scale_v, e, c, nodes, weights):
    """Return log ∫ (1 − e^−|V−v|) f dλ over V > v (sign 1) or V < v (sign −1), and minus its slope against v."""
    edge = math.log(v / scale_v)
    total, moment, scale = 0.0, 0.0, -math.inf
    stack = np.empty((64, 2))
    for sweep in range(2):
        for j in range(e.size - 1):
            left, right = e[j], e[j + 1]
            if sign > 0:
                left = max(left, edge)
            else:
                right = min(right, edge)
            if not left < right:
                continue
            depth = 1
            stack[0, 0], stack[0, 1] = left, right
            while depth > 0:
                depth -= 1
                left, right = stack[depth, 0], stack[depth, 1]
                half, centre = 0.5 * (right - left), 0.5 * (right + left)
                most, least = -math.inf, math.inf
                for k in range(4):
                    lam = left + (right - left) * (0.01 if k == 0 else k / 3.0 if k < 3 else 0.99)
                    z = _series(c[j], (2.0 * lam - e[j] - e[j + 1]) / (e[j + 1] - e[j]))
                    rise = v * math.expm1(lam - edge)
                    grade = math.log(-math.expm1(-abs(rise))) if rise != 0.0 else -800.0
                    most, least = max(most, z + grade), min(least, z)
                if sweep == 0:
                    scale = max(scale, most)
                    continue
                if most < scale + _DEAD - 8.0:
                    continue
                # near v the factor 1 − e^−|V−v| rises from 0 to 1 over |V − v| of order 1
                near, far = abs(v * math.expm1(left - edge)), abs(v * math.expm1(right - edge))
                rises = min(near, far) < 40.0 and abs(near - far) > _RISE
                if (rises or most - least > _VARIATION or right - left > _WIDEST) and depth < 60 and half > 1e-13:
                    stack[depth, 0], stack[depth, 1] = left, centre
                    stack[depth + 1, 0], stack[depth + 1, 1] = centre, right
                    depth += 2
                    continue
                for k in range(nodes.size):
                    lam = centre + half * nodes[k]
                    z = _series(c[j], (2.0 * lam - e[j] - e[j + 1]) / (e[j + 1] - e[j]))
                    rise = v * math.expm1(lam - edge)
                    whole = math.exp(z - scale)
                    term = -whole * math.expm1(-abs(rise))
                    total += half * weights[k] * term
                    moment += half * weights[k] * (whole - term)
    if not total > 0.0:
        return -math.inf, 0.0
    return scale + math.log(total), moment / total
