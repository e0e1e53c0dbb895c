"""δ(ε) of sampled mean shifts in the remove order, in float64, where few large losses make it up.

The contour integral of the whole law then cancels, because its path must serve outcomes with and without a large loss.
So every step is split, as in theorem thm:jump-split (docs/theory.md), by two soft windows of its noise x:

    W₁W₂ + (1 − W₁)W₂ + (1 − W₂) = 1:     the body, the jumps, and losses far above ε.

The outcomes with k jumps and no far loss have a positive measure. Its transform is the coefficient of z^k in
Π (B_j + z J_j)^{n_j}. Each of these measures has a contour
integral of its own (`sampled_contour`), at its own saddle. An outcome with a far loss exceeds ε, so that

    E[(1 − e^{ε−S})₊; some loss is far] = P(some loss is far) − e^ε Q(some loss is far) + a correction,

and the correction has a Chernoff bound. The error adds up those of the integrals and the bounds of all that is left
out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import log_ndtr

from ndis._validate import Floats
from ndis.spectrum.sampled_contour import TOLERANCE, find_saddle, integrate
from ndis.spectrum.sampled_cut import SIDE, Cut, log_ratio, log_sum, place
from ndis.spectrum.sampled_moment import Complexes, ShiftMoment, Step
from ndis.spectrum.sampled_two import one_step

__all__ = ["SMALL", "JumpSplit", "Term", "log_choose", "variance"]

_UNIT = 2.0**-53
_SHARES = (0.5, 0.75, 0.25, 0.1, 0.03)  # T₁ as a share of the loss that a jump must reach
_NARROW = 30.0  # standard deviations
_LARGE = 3.0  # where one jump need not do it all, from small shares on
_NONE = math.nan, math.nan, math.inf
_RARE = 3.5  # a window that starts at a smaller x cuts the body
_HOPELESS = 5.0  # tolerances, of an error that ends a split
_MOST_JUMPS = 24
SMALL = 37.0  # e-folds below δ at which nothing counts
_ROUNDS = 3


class Term:
    """The measure of the outcomes with k jumps, as a law of `sampled_contour`."""

    def __init__(self, cuts: Sequence[Cut], others: Sequence[tuple[Step, int]], jumps: int) -> None:
        self.cuts, self.others, self.jumps = cuts, others, jumps
        self.mean = math.fsum([n * m.mean for m, n in others] + [c.count * c.known[1] for c in cuts])
        self.limit = min((m.limit for m, _ in others), default=math.inf)
        self.largest = max([m.largest for m, _ in others] + [float(c.jumps[0][0, -1].real) for c in cuts])

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """The log of the transform less s·mean, and its error."""
        value, error, ratios = self._parts(s)
        log, wrong = self._coefficient(ratios, self.jumps)
        return value + log, error + wrong

    def next_one(self, s: float) -> float:
        """The ratio of the transforms with one jump more and with this number, at a real s."""
        _, _, ratios = self._parts(np.array([s], dtype=np.complex128))
        more, less = (self._coefficient(ratios, self.jumps + i)[0][0].real for i in (1, 0))
        return math.exp(min(more - less, 700.0)) if more > -math.inf else 0.0

    def _parts(self, s: Complexes) -> tuple[Complexes, Floats, list[tuple[Complexes, Floats]]]:
        value, error = np.zeros(s.size, dtype=np.complex128), np.zeros(s.size)
        ratios = []
        for m, n in self.others:
            v, e = m.centred(s)
            value, error = value + n * v, error + n * e
        for c in self.cuts:
            v, e = c.log_body(s)
            value, error = value + c.count * v, error + c.count * e
            j, wrong = c.log_jumps(s)
            ratios.append((j - v - c.known[1] * s, e + wrong))
        return value, error, ratios

    def _coefficient(self, ratios: list[tuple[Complexes, Floats]], k: int) -> tuple[Complexes, Floats]:
        """log of the coefficient of z^k in Π (1 + z r_j)^{n_j}, and its error."""
        if len(self.cuts) == 1:
            (log, error), n = ratios[0], self.cuts[0].count
            if k > n:
                return np.full(log.size, -math.inf, dtype=np.complex128), np.zeros(log.size)
            return k * log + log_choose(n, k), k * error
        size = ratios[0][0].size
        # all ratios relative to the largest n_j |r_j|
        top = np.max([log.real + math.log(c.count) for (log, _), c in zip(ratios, self.cuts, strict=True)], axis=0)
        whole, sizes = (np.zeros((k + 1, size), dtype=np.complex128) for _ in range(2))
        whole[0], sizes[0] = 1.0, 1.0
        wrong = np.zeros(size)
        for (log, error), c in zip(ratios, self.cuts, strict=True):
            r = np.exp(log - top)
            chosen = [log_choose(c.count, i) for i in range(k + 1)]
            powers = [np.exp(x + i * (log - top)) if x > -math.inf else 0.0 * r for i, x in enumerate(chosen)]
            whole = np.array([sum(powers[i] * whole[m - i] for i in range(m + 1)) for m in range(k + 1)])
            sizes = np.array([sum(np.abs(powers[i]) * sizes[m - i] for i in range(m + 1)) for m in range(k + 1)])
            wrong = np.maximum(wrong, np.where(np.abs(r) * c.count > 1e-18, error, 0.0))
        return np.log(whole[k]) + k * top, k * wrong * sizes[k].real / np.abs(whole[k])


def log_choose(n: int, k: int) -> float:
    if k > n:
        return -math.inf
    return math.fsum(math.log((n - i) / (i + 1)) for i in range(k))


class JumpSplit:
    """The steps of a composition in the remove order, of which some are sampled mean shifts; asked at one ε at a time.

    >>> step = ShiftMoment(1e-3, 1.0, add=False)
    >>> value, _, _ = JumpSplit([(step, 1000)]).log_delta(0.4)
    >>> round(value, 6)
    -20.508154
    """

    def __init__(self, parts: Sequence[tuple[Step, int]]) -> None:
        self.steps = [(m, n) for m, n in parts if isinstance(m, ShiftMoment) and not m.add]
        self.others = [(m, n) for m, n in parts if not isinstance(m, ShiftMoment)]

    def log_delta(self, epsilon: float) -> tuple[float, float, float]:
        """log δ, −d log δ/dε and the error; NaN and inf if no split is found."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what is not finite is no value
            return self._log_delta(epsilon)

    def _log_delta(self, epsilon: float) -> tuple[float, float, float]:
        best = _NONE
        reach, spread = self._reach(epsilon)
        if not 0.0 < reach < math.inf:
            return best
        guess = max(one_step((m.rate, m.shift), reach, add=False)[0] + math.log(n) for m, n in self.steps)
        guess = max(guess, -0.5 * reach * reach / spread)
        if not guess > -math.inf:
            return best
        for share in _SHARES if reach < _LARGE else _SHARES[::-1]:
            for _ in range(_ROUNDS):
                try:
                    cuts = [self._cut(m, n, reach, share, guess, spread) for m, n in self.steps]
                    found, again = self._value(cuts, epsilon, guess)
                except (ArithmeticError, ValueError):  # out of the range of floats, or of those of log
                    break
                if not found[2] >= best[2]:
                    best = found
                if best[2] <= TOLERANCE * (1.0 + abs(best[0])):
                    return best
                if not again < math.inf or abs(again - guess) < 1.0:
                    break
                guess = again
        return best

    def _reach(self, epsilon: float) -> tuple[float, float]:
        """What jumps must add to the mean of the others to reach ε, and the variance of the others."""
        body = [self._body(m, epsilon) for m, _ in self.steps]
        counts = [n for _, n in self.steps]
        others = [(m.mean, variance(m), n) for m, n in self.others]
        mean, spread = (
            math.fsum([n * b[i] for b, n in zip(body, counts, strict=True)] + [o[2] * o[i] for o in others])
            for i in (0, 1)
        )
        return epsilon - mean, spread

    def one_is_enough(self, epsilon: float) -> bool:
        """True if one jump most likely makes up δ(ε), because the sum of all others is narrow beside ε."""
        reach, spread = self._reach(epsilon)
        return 0.0 < reach < _LARGE and reach > _NARROW * math.sqrt(spread)

    @staticmethod
    def _body(m: ShiftMoment | Cut, epsilon: float) -> tuple[float, float]:
        """Mean and variance of the losses below ε/2, roughly."""
        x = np.linspace(-9.0, 9.0 + m.shift, 1024)
        loss = log_ratio(x, m.rate, m.shift)
        weight = np.exp(np.minimum(loss, 0.5 * epsilon) + Cut.log_mass(x)) * (loss < 0.5 * epsilon)
        return float((weight * loss).sum()), float((weight * loss * loss).sum())

    @staticmethod
    def _cut(m: ShiftMoment, n: int, reach: float, share: float, guess: float, spread: float) -> Cut:
        q, mu = m.rate, m.shift
        need = SMALL + math.log(n) - guess
        x = np.linspace(0.0, mu + math.sqrt(2.0 * need) + 1.0, 4001)
        tail = np.logaddexp(math.log1p(-q) + log_ndtr(-x), math.log(q) + log_ndtr(mu - x))
        top = float(x[max(int((tail > -need).sum()) - 1, 0)])
        top_loss = float(log_ratio(np.array([top]), q, mu)[0])
        jump = min(reach, top_loss)
        at = place(jump, q, mu)
        grade = mu * -math.expm1(math.log1p(-q) - jump)  # dℓ/dx
        slope = max(at / grade - 1.0, 0.0)
        width = min(1.0, 1.2 / max(at, 1.2))
        low = min(place(share * reach, q, mu), top - 1.0)
        if not low > _RARE:
            raise ArithmeticError("jumps are no rare events")
        near = min(1.0, 2.0 / max(low, 2.0))
        # where the tilted density has one mode at such a loss, nothing needs to be cut off above
        share = grade / mu
        if (1.0 + slope) * mu * mu * share * (1.0 - share) < 0.5:
            return Cut(q, mu, n, (low, max(at, top) + 9.0), (near, 1.0), far=False)
        beyond = slope * spread + math.sqrt((slope * spread) ** 2 + 2.0 * SMALL * spread)
        high = place(reach + beyond, q, mu) + SIDE * width
        far = high < top
        return Cut(q, mu, n, (low, high if far else top), (near, width), far)

    def _value(self, cuts: list[Cut], epsilon: float, guess: float) -> tuple[tuple[float, float, float], float]:
        """(log δ, −slope, error), and log δ as far as it is seen."""
        logs, slopes, errors = list[float](), list[float](), list[float]()  # of the parts
        lost = list[float]()  # logs of what is left out
        log_far, log_there = self._far(cuts, epsilon)
        if log_far > -math.inf:
            logs.append(log_far)
            slopes.append(math.exp(log_there - log_far))
            errors.append(64.0 * _UNIT)
            lost.append(self._correction(cuts, epsilon))
        lost += [log_sum(c.above[0] + c.above[1]) + math.log(c.count) for c in cuts if not c.far]
        start, total = 0.0, sum(c.count for c in cuts)
        for k in range(min(_MOST_JUMPS, total) + 1):
            term = Term(cuts, self.others, k)
            seen = log_sum(np.array([*logs, guess]))
            saddle = find_saddle(term, term.mean - epsilon, seen - SMALL, start)
            c, width, _, bound = saddle
            if not bound < math.inf:
                raise ArithmeticError("a bound is not known")
            if bound < seen - SMALL or not width > 0.0:
                lost.append(bound)
            else:
                v, s, e = (float(a[0]) for a in integrate(term, np.array([epsilon]), 0, saddle))
                if not e * math.exp(min(v - seen, 0.0)) < _HOPELESS * TOLERANCE * (1.0 + abs(seen)):
                    return _NONE, math.nan
                logs.append(v)
                slopes.append(s)
                errors.append(e)
                start = c
            ratio = term.next_one(c) if k < total else 0.0
            rest = bound + math.log(2.0 * ratio + 1e-300)
            if ratio < 0.5 and rest < log_sum(np.array([*logs, guess - 5.0])) - SMALL:
                lost.append(rest)
                break
        else:
            if total > _MOST_JUMPS:
                raise ArithmeticError("too many jumps count")
        whole = log_sum(np.array(logs))
        if not whole > -math.inf:
            return _NONE, log_sum(np.array(lost))
        shares = np.exp(np.array(logs) - whole)
        error = 2.0 * float(shares @ np.array(errors)) + math.exp(min(log_sum(np.array(lost)) - whole, 100.0))
        return (whole, float(shares @ np.array(slopes)), error), whole

    def _far(self, cuts: list[Cut], epsilon: float) -> tuple[float, float]:
        """log of P(some loss is far) − e^ε Q(some loss is far), and log of e^ε Q(...)."""
        live = [c for c in cuts if c.far]
        if not live:
            return -math.inf, -math.inf
        logs, mass = zip(*((c.above[0], c.above[1] + math.log(c.count)) for c in live), strict=True)
        loss, weight = np.concatenate(logs), np.concatenate(mass)
        without = epsilon + log_sum(weight)
        top = float((loss + weight).max())
        difference = float((np.exp(loss + weight - top) * -np.expm1(epsilon - loss)).sum())
        if not difference > 0.0:
            raise ArithmeticError("far losses do not exceed epsilon")
        if top < -45.0:
            return top + math.log(difference), without
        gone, more = 0.0, 0.0
        for c in live:
            f = float(np.exp(c.above[1]).sum())
            g = float((np.exp(c.above[1]) * np.expm1(c.above[0])).sum())
            gone, more = gone + c.count * math.log1p(-f), more + c.count * math.log1p(-g / (1.0 - f))
        value = -math.exp(gone) * math.expm1(more) + math.expm1(epsilon) * math.expm1(gone)
        if not value > 0.0:
            raise ArithmeticError("far losses do not exceed epsilon")
        return math.log(value), epsilon + math.log(-math.expm1(gone))

    def _correction(self, cuts: list[Cut], epsilon: float) -> float:
        """log of a bound of E[(e^{ε−S} − 1)₊; some loss is far]: Chernoff's, at the best of some orders."""
        best = math.inf
        inner = [c.count * self._body(c, epsilon)[1] for c in cuts]
        moved = math.fsum(inner + [n * variance(m) for m, n in self.others])
        for beta in (1.0 + np.array([0.5, 1.0, 1.5, 2.0, 3.0]) * math.sqrt(2.0 * SMALL / moved)).tolist():
            total = (beta - 1.0) * math.log(beta - 1.0) - beta * math.log(beta) + beta * epsilon
            for m, n in self.others:
                v, _ = m.centred(np.array([-beta], dtype=np.complex128))
                total += n * (float(v[0].real) - beta * m.mean)
            one = list[float]()
            for c in cuts:
                x = np.linspace(-12.0 - c.shift, 12.0 + c.shift, 2001)
                loss = log_ratio(x, c.rate, c.shift)
                # e^{−bℓ} − 1 + b u has one sign, and E u = 0
                b = beta - 1.0
                grown = float((np.exp(c.log_mass(x)) * (np.expm1(-b * loss) + b * np.expm1(loss))).sum())
                total += c.count * math.log1p(grown)
                if c.far:
                    one.append(math.log(c.count) + log_sum(c.above[1] - b * c.above[0]) - math.log1p(grown))
            best = min(best, total + log_sum(np.array(one)))
        return best


def variance(m: Step) -> float:
    return max(float(m.centred(np.array([1e-3 + 1e-3j]))[0][0].imag) / 1e-6, 0.0)
