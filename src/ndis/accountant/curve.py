"""Bound the δ(ε) of a composition from above at many ε, from its moments on one line.

By thm:period-sum the sum over a line of e^{K(s) − sε}/(s(s+1)) is δ(ε) plus terms that are not negative. Its
coefficients do not depend on ε, so one line serves every ε, as a polynomial in e^{−2πiε/p}.

If every law is the same pair in both orders, the line of the add order serves both. Its moments do not explode, and
the remove order has δ(ε) = e^ε δ'(−ε) − (e^ε − 1). Otherwise each order has a line of its own. A law that knows no
moments has a discrete law above it in its place (thm:stand-ins). Then a small Gaussian release joins the composition,
so that moments fall along the line. Both raise δ, by about a thousandth of the distance of two Gaussians with it.
"""

from __future__ import annotations

import math

import numpy as np
from flint import acb, acb_mat, arb

from ndis._balls import Ball, outward, precision
from ndis._validate import Floats
from ndis.accountant.certify import Parts
from ndis.accountant.composition import Composition
from ndis.accountant.laws import _powers, quiet
from ndis.accountant.laws.plain import PlainBalls
from ndis.accountant.stand_ins import dominating, profile
from ndis.errors import PrecisionError
from ndis.spectrum.invariants import Directions

_LINES = np.geomspace(0.05, 2000.0, 80)  # lines that are tried
_DIGITS, _FEW_DIGITS = 16.0, 8.0  # −log of the error of a bound, over the size that counts; with stand-ins
_MOST_NODES = 8000
_EXACT_BITS = 512
_LONGEST, _LEAST = 1.5, 1.03  # a line that ends too early is made longer by a factor between these
_PLACES = 400  # at which a stand-in touches the profile
_MASS = 1e-3  # the infinite losses of all stand-ins, over the size that counts
_SMOOTH = 2e-3  # variance of the loss of the small release, over that of a Gaussian loss with such an end


class UpperCurve:
    """Bound δ(ε) of one order, or of both, for 0 ≤ ε ≤ end, with an error far below some size if possible.

    Examples
    --------
    >>> import ndis
    >>> profile = ndis.PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.01).repeat(1000)
    >>> upper = UpperCurve(profile._compositions("add")[0], 2.0, 1e-6, both=True)
    >>> profile.certify(1.5).upper <= upper(np.array([1.5]))[0] * (1 + 1e-6) <= profile.certify(1.5).upper * (1 + 1e-5)
    True
    """

    def __init__(self, one: Composition, end: float, size: float, *, both: bool, exact: bool = True) -> None:
        self.both, self.exact, self.lost, total = both, exact, 0.0, sum(n for _, n in one.parts)
        if both and not (one.order == "add" and one.same_pair):
            raise PrecisionError("the two orders have no moments in common")
        with precision(_EXACT_BITS):
            parts: Parts = [(law.enclosed(), n) for law, n in one.parts]
            self.c, period, count, fall = self._plan(one, parts, end, size)
        self.bits = round(96 + 2 * total.bit_length() + 1.5 * fall)
        with precision(self.bits):
            self.step, digits = 2 * arb.pi() / arb(period), fall + math.log(total) + 4.0
            places = [acb(self.c, self.step * k) for k in range(count + 1)]
            terms = [(2 if k else 1) / (s * (1 + s) * arb(period)) for k, s in enumerate(places)]
            for law, n in parts:
                line = law.line(self.c, self.step, count + 1, digits)
                terms = [term * m**n for term, m in zip(terms, line, strict=True)]
            last = self.step * count
            caps = [n * law.ceiling(self.c, outward(last).lower, 10.0 + digits / n).log() for law, n in parts]
            self.beyond = (sum(caps, arb(0)).exp() / (arb.pi() * last)).upper()
            self.height = math.isqrt(count) + 1
            terms += [acb(0)] * (-len(terms) % self.height)
            rows = [terms[k : k + self.height] for k in range(0, len(terms), self.height)]
            self.blocks = len(rows)
            if both:  # at −ε the sum has the conjugate terms
                rows += [[term.conjugate() for term in row] for row in rows]
            self.terms = acb_mat(rows).transpose()
        if not self(np.array([end]))[0] <= size:
            raise PrecisionError("the sum over one line did not settle")

    def _stand_ins(self, parts: Parts, end: float, size: float) -> bool:
        """Put laws above those that know no moments in their places, and add a small release; say if there are any."""
        lost, share, some = arb(0), _MASS * size / sum(n for _, n in parts), False
        for i, (law, n) in enumerate(parts):
            try:
                law.log_moment(1.0)
                if self.exact or isinstance(law, PlainBalls):
                    continue
            except PrecisionError:
                if self.both:  # a law above another one is not the same pair in both orders
                    raise
            above, infinite = dominating(profile(law, places=_PLACES, mass=share))
            parts[i], lost, some = (above, n), lost + n * infinite, True
        if some:
            self.lost, tail = outward(lost).upper, math.sqrt(-2.0 * math.log(size))
            distance = math.sqrt(tail**2 + 2.0 * end) - tail  # two Gaussians have about this δ at the end
            parts.append((PlainBalls(Directions([], arb(_SMOOTH * distance**2))), 1))
        return some

    @quiet
    def _plan(self, one: Composition, parts: Parts, end: float, size: float) -> tuple[float, float, int, float]:
        """Return the line, the period, the number of nodes, and −log of the error that one term may have, in floats."""
        b = _LINES[0.9 * one.floats.limit > _LINES]
        digits = (_DIGITS + end if self.both else _DIGITS) - math.log(size)
        if self._stand_ins(parts, end, size):
            digits += _FEW_DIGITS - _DIGITS
            k = np.array([sum(n * law.log_moment(c) for law, n in parts) for c in b.tolist()])
        else:
            k = one.floats.centred(b.astype(np.complex128))[0].real + b * one.floats.mean
        falls = k + digits + (b * end if self.both else 0.0)  # the terms at the least ε are the largest
        needs = falls / (b - b[:, None])  # Chernoff's bound from every order to the right asks this of the period
        periods = np.maximum(digits / b, np.where(needs > 0.0, needs, math.inf).min(axis=1))
        bend = np.gradient(np.gradient(k, b), b)
        cost = np.where(bend > 0.0, periods * np.sqrt(np.maximum(falls, 1.0) / bend), math.inf)
        i = int(np.argmin(np.where(cost > 0.0, cost, math.inf)))
        if not cost[i] < math.inf:
            raise PrecisionError("no line of moments is known")
        c, period, fall = (float(a[i]) for a in (b, periods, falls))
        nodes = period * math.sqrt(2.0 * fall / bend[i]) / (2.0 * math.pi)
        while (fallen := -sum(n * law.log_ceiling(c, 2.0 * math.pi * nodes / period) for law, n in parts)) < fall:
            nodes *= min(max(math.sqrt(fall / fallen), _LEAST), _LONGEST) if fallen > 0.0 else _LONGEST
            if not nodes <= _MOST_NODES:
                raise PrecisionError(f"the sum over one line needs {nodes:.2g} nodes")
        return c, period, math.ceil(nodes) + 1, fall

    def __call__(self, epsilon: Floats) -> Floats:
        """Return an upper bound of δ(ε) at each entry of a vector ε ≥ 0."""
        with precision(self.bits):
            places = [arb(e) for e in epsilon.tolist()]
            bounds = [self._bounds(e, sums) for e, sums in zip(places, self._sums(places), strict=True)]
        # δ is at most 1, and a ball may be no number
        return np.array([max(one) if all(bound <= 1.0 for bound in one) else 1.0 for one in bounds])

    def _sums(self, epsilon: list[Ball]) -> list[list[Ball]]:
        """Return Re Σ a_k e^{−ik·step·ε} for every ε, and that with conjugate terms, by a product of matrices.

        No ball is a long chain of products, which would widen it.
        """
        near = _powers([acb(0, -self.step * e).exp() for e in epsilon], self.height)
        far = _powers([acb(0, -self.step * self.height * e).exp() for e in epsilon], self.blocks)
        inner = (acb_mat([list(row) for row in zip(*near, strict=True)]) * self.terms).tolist()
        sums = []
        for row, turns in zip(inner, zip(*far, strict=True), strict=True):
            halves = row[: self.blocks], row[self.blocks :]
            sums.append([sum((x * y).real for x, y in zip(half, turns, strict=True)) for half in halves if half])
        return sums

    def _bounds(self, epsilon: Ball, sums: list[Ball]) -> list[float]:
        """Return upper bounds of δ(ε), of one order or of both."""
        turned = [(sign * self.c * epsilon).exp() * (x + self.beyond) for sign, x in zip((-1, 1), sums, strict=False)]
        balls = [turned[0] + self.lost, *(epsilon.exp() * x - epsilon.expm1() for x in turned[1:])]
        return [outward(ball).upper for ball in balls]
