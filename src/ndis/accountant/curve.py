"""Bound the δ(ε) of a composition from above at many ε, from its moments on one line.

By thm:period-sum the sum over a line of e^{K(s) − sε}/(s(s+1)) is δ(ε) plus terms that are not negative. Its
coefficients do not depend on ε, so one line serves every ε, as a polynomial in e^{−2πiε/p}. The line is that of the add
order, whose moments do not explode. The remove order has δ(ε) = e^ε δ'(−ε) − (e^ε − 1) from the same line.
"""

from __future__ import annotations

import math

import numpy as np
from flint import acb, acb_poly, arb

from ndis._balls import Ball, outward, precision
from ndis.accountant.composition import Composition
from ndis.accountant.laws.mixture import quiet
from ndis.errors import PrecisionError

_PLACES = np.geomspace(0.05, 2000.0, 80)  # lines that are tried
_DIGITS = 18.0  # −log of the error of a bound, over the size that counts
_MOST_NODES = 3000
_BLOCK = 24  # terms of one polynomial; each product of balls on the unit circle may widen them by √2
_LONGER = 1.15  # a line that ends too early is made longer by this factor


class UpperCurve:
    """Bound the larger δ(ε) of both orders for |ε| up to an end, with an error far below some size if possible.

    Examples
    --------
    >>> import ndis
    >>> profile = ndis.PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.01).repeat(1000)
    >>> upper = UpperCurve(profile._compositions("add")[0], 2.0, 1e-6)
    >>> profile.certify(1.5).upper <= upper(1.5) * (1 + 1e-6) <= profile.certify(1.5).upper * (1 + 1e-5)
    True
    """

    def __init__(self, add: Composition, end: float, size: float) -> None:
        if add.order != "add" or not add.same_pair:
            raise PrecisionError("the two orders have no moments in common")
        digits = _DIGITS + end - math.log(size)
        self.c, period, self.count, fall = self._plan(add, end, digits)
        total = sum(n for _, n in add.parts)
        self.bits = round(96 + 2 * total.bit_length() + 1.5 * fall)
        with precision(self.bits):
            self.step, parts = 2 * arb.pi() / arb(period), [(law.enclosed(), n) for law, n in add.parts]
            digits = fall + math.log(total) + 4.0
            places = [acb(self.c, self.step * k) for k in range(self.count + 1)]
            terms = [(2 if k else 1) / (s * (1 + s) * arb(period)) for k, s in enumerate(places)]
            for law, n in parts:
                line = law.line(self.c, self.step, self.count + 1, digits)
                terms = [term * m**n for term, m in zip(terms, line, strict=True)]
            last = self.step * self.count
            caps = [n * law.ceiling(self.c, outward(last).lower, 10.0 + digits / n).log() for law, n in parts]
            self.beyond = (sum(caps, arb(0)).exp() / (arb.pi() * last)).upper()
            self.blocks = [acb_poly(terms[k : k + _BLOCK]) for k in range(0, len(terms), _BLOCK)]

    @staticmethod
    @quiet
    def _plan(add: Composition, end: float, digits: float) -> tuple[float, float, int, float]:
        """Return the line, the period, the number of nodes, and −log of the error that one term may have, in floats."""
        floats = add.floats
        b = _PLACES[0.9 * floats.limit > _PLACES]
        k = floats.centred(b.astype(np.complex128))[0].real + b * floats.mean
        falls = k + b * end + digits  # the terms at −end are the largest
        needs = falls / (b - b[:, None])  # Chernoff's bound from every order to the right asks this of the period
        periods = np.maximum(digits / b, np.where(needs > 0.0, needs, math.inf).min(axis=1))
        bend = np.gradient(np.gradient(k, b), b)
        cost = np.where(bend > 0.0, periods * np.sqrt(np.maximum(falls, 1.0) / bend), math.inf)
        i = int(np.argmin(np.where(cost > 0.0, cost, math.inf)))
        if not cost[i] < math.inf:
            raise PrecisionError("no line of moments is known")
        c, nodes, parts = float(b[i]), periods[i] * math.sqrt(2.0 * falls[i] / bend[i]) / (2.0 * math.pi), add.parts
        with precision(64):
            laws = [(law.enclosed(), n) for law, n in parts]
        while -sum(n * law.log_ceiling(c, 2.0 * math.pi * nodes / periods[i]) for law, n in laws) < falls[i]:
            nodes *= _LONGER
            if not nodes * len(parts) <= _MOST_NODES:
                raise PrecisionError(f"the sum over one line needs {nodes:.2g} nodes")
        return c, float(periods[i]), math.ceil(nodes) + 1, float(falls[i])

    def _one(self, epsilon: Ball) -> Ball:
        """Bound δ(ε) of the add order."""
        turns = [acb(0, -self.step * epsilon * k).exp() for k in range(0, _BLOCK * len(self.blocks), _BLOCK)]
        z = acb(0, -self.step * epsilon).exp()
        total = sum(((turn * block(z)).real for turn, block in zip(turns, self.blocks, strict=True)), arb(0))
        return (-self.c * epsilon).exp() * (total + self.beyond)

    def __call__(self, epsilon: float) -> float:
        """Return an upper bound of the larger δ(ε)."""
        with precision(self.bits):
            e = arb(epsilon)
            uppers = [outward(ball).upper for ball in (self._one(e), e.exp() * self._one(-e) - e.expm1())]
        return max(uppers) if all(upper <= 1.0 for upper in uppers) else 1.0  # δ is at most 1; a ball may be no number
