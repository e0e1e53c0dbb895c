"""Compare two curves at every ε ≥ 0, with a proof for every answer but "undecided".

Write δ_A and δ_B for the curves of two pairs. Floats find a likely answer; what is said rests on enclosures in balls.

*No*: one ε with δ_B(ε) > δ_A(ε), both enclosed.

*Yes* needs a point E and two parts (the lemmas stand, with proofs, in docs/ledger.md).

- Beyond E. If B's loss is bounded, E is its edge (thm:bounded-loss). If A has a positive t above those of B, a lower
  bound of δ_A falls no faster than e^{−rε} (lem:slow-decay). An upper bound of δ_B falls like e^{−sε} (bound:renyi).
  With s ≥ r one comparison at E is enough. If no t is positive and A has the larger shift, lem:shift-tail applies.
- Up to E. Both curves are convex in z = e^ε. Between two points B lies below its chord, and A lies above the lines
  through its values at two points on either side (lem:cells). So finitely many enclosures prove a whole cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from flint import arb

from ndis._balls import Ball, climb, middle_of, outward, precision
from ndis._validate import Floats, require
from ndis.errors import PrecisionError
from ndis.pair import GaussianPair
from ndis.spectrum.bounds import best_exponent
from ndis.spectrum.certified import certify_log
from ndis.spectrum.invariants import Directions
from ndis.spectrum.origins import enclose

_WORK = 128  # bits
_BITS = (256, 512, 1024, 2048)  # tried for the invariants of a pair
_GRID = np.concatenate([[0.0], np.geomspace(1e-3, 1000.0, 120)])
_LOWEST = -20000.0  # log δ below which no float is asked for
_CLEAR = -0.05  # a gap in log δ that makes a good witness
_MOST_POINTS = 80  # enclosures per curve in one proof
_WIDTH = 1e-3
_WITNESS_WIDTHS = (1e-3, 1e-10)


def enclosed(pair: GaussianPair) -> Directions:
    """Enclose the invariants of a pair in balls of at least 200 good bits."""
    require(pair.origins, "pair", "know its exact inputs", "none", "make it with one of the from_ constructors")

    def attempt(bits: int) -> Directions | None:
        balls = enclose(pair.origins, bits)
        if balls is None:
            return None
        fine = balls.mutually_singular or all(t.rel_accuracy_bits() >= 200 for t, _, _ in balls.curved)
        return balls if fine else None

    return climb(attempt, _BITS, "the invariants of a pair could not be enclosed to 200 bits")


def up(value: Ball) -> Fraction:
    """Return the upper end of a ball as an exact number."""
    with precision(2 * max(_BITS)):  # the end of a ball is rounded to the working precision
        return middle_of(value.upper())


class Values(NamedTuple):
    """A number is known from below and from above."""

    low: Ball
    high: Ball


class PairCurve:
    """The curve of one pair gives enclosures to prove with, each computed once."""

    def __init__(self, pair: GaussianPair) -> None:
        self.pair = pair
        self._known: dict[tuple[float, float], Values] = {}

    @cached_property
    def directions(self) -> Directions:
        """Return the invariants in balls."""
        return enclosed(self.pair)

    def at(self, epsilon: float, width: float = _WIDTH) -> Values:
        """Enclose δ(ε) from below and from above, at the working precision."""
        key = epsilon, width
        if key not in self._known:
            low, high = certify_log(self.pair, epsilon, relative_width=width)
            self._known[key] = Values(_exp(low).lower(), _exp(high).upper())
        return self._known[key]


def _exp(log: float) -> Ball:
    return arb(0) if log == -math.inf else arb(log).exp()


class _Scan(NamedTuple):
    """A scan has log δ of both curves and their difference, at ε ≥ 0 where the second is not too small for floats."""

    epsilon: Floats
    a: Floats
    b: Floats
    gap: Floats


def _scan(a: PairCurve, b: PairCurve) -> _Scan:
    points = max(a.pair.form.spread, b.pair.form.spread) * _GRID
    theirs = b.pair.log_delta(points)
    points, theirs = points[theirs > _LOWEST], theirs[theirs > _LOWEST]
    mine = a.pair.log_delta(points)
    return _Scan(points, mine, theirs, mine - theirs)


# ---------------------------------------------------------------------- no


def refute(a: PairCurve, b: PairCurve) -> float | None:
    """An ε ≥ 0 with δ_B(ε) > δ_A(ε), certified; None if none was found."""
    scan = _scan(a, b)
    gap = scan.gap
    # an ε at which the curves lie far apart and the numbers are not small is the best witness
    clear = sorted(np.flatnonzero(gap < _CLEAR).tolist(), key=lambda i: -float(scan.b[i]))
    closest = np.argsort(gap)[:1].tolist() if gap.size and gap.min() < 0 else []
    for i in (*clear[:1], *closest):
        for width in _WITNESS_WIDTHS:
            epsilon = float(scan.epsilon[i])
            with suppress(PrecisionError), precision(_WORK):
                if b.at(epsilon, width).low > a.at(epsilon, width).high:
                    return epsilon
    return _beyond_edge(a.directions, b.directions)


def _beyond_edge(a: Directions, b: Directions) -> float | None:
    """The end of A's loss, if it is bounded and B's loss goes further: there δ_A = 0 and δ_B > 0."""
    if not a.bounded or b.trivial:
        return None
    with precision(_WORK):
        end = max(outward(a.edge()).upper, 0.0)
        return end if b.mutually_singular or not b.bounded or b.edge() > arb(end) else None


# ---------------------------------------------------------------------- yes


def prove(a: PairCurve, b: PairCurve) -> bool:
    """True if δ_A(ε) ≥ δ_B(ε) was proved for every ε ≥ 0. False decides nothing."""
    if b.directions.trivial or a.directions.mutually_singular:
        return True
    if b.directions.mutually_singular or a.directions.trivial:
        return False
    scan = _scan(a, b)
    if not scan.gap.size or not scan.gap.min() > 0.0:
        return False
    try:
        with precision(_WORK):
            end = _end(a, b, scan)
            return end is not None and _proved_up_to(a, b, end)
    except PrecisionError:
        return False


def _end(a: PairCurve, b: PairCurve, scan: _Scan) -> float | None:
    """Find a point E with δ_A ≥ δ_B proved for all ε ≥ E."""
    mine, theirs = a.directions, b.directions
    if theirs.bounded:
        return max(outward(theirs.edge()).upper, 0.0)
    if any(t > 0 for t, _, _ in mine.curved):
        return _end_by_decay(a, b, scan)
    if all(t < 0 for t, _, _ in theirs.curved) and mine.flat > theirs.flat:
        return _end_by_shift(mine, theirs)
    return None


def _end_by_shift(a: Directions, b: Directions) -> float | None:
    """Compare the densities of the two shifts (lem:shift-tail), B's moved by the edge of its other directions."""
    e, big, small = b.edge(), a.flat, b.flat
    if not small > 0:
        return None
    start = float((e * big / (big - small)).upper())
    step = 0.25 * math.sqrt(float(big))
    for k in range(60):
        end = max(start, 0.0) + step * (1.2**k - 1.0)
        x = arb(end)
        mine = -big.log() - (x - big / 2) ** 2 / big
        theirs = -small.log() - (x - e - small / 2) ** 2 / small
        if x * (big - small) >= e * big and mine >= theirs:
            return end
    return None


def _end_by_decay(a: PairCurve, b: PairCurve, scan: _Scan) -> float | None:
    """lem:slow-decay against bound:renyi, for the direction of A's largest t only."""
    t, square, _ = max(a.directions.curved, key=lambda row: float(row[0]))
    points = scan.epsilon[(scan.epsilon > 0) & np.isfinite(scan.a)]
    far = points[-1] * 1.3 ** np.arange(1, 30) if points.size else np.zeros(0)
    for end in np.concatenate([points[::2], far]).tolist():
        above = arb(end) + (1 + t).log() / 2 + square / (2 * t)  # how far the loss exceeds its end
        least = _single(t, square.sqrt(), arb(end), above)
        if not (above > 0 and least > 0):
            continue
        rate = 1 / t + 1 / (2 * above)
        s = max(best_exponent(b.pair, end)[0], math.nextafter(float(rate) * (1.0 + 1e-12), math.inf))
        bound = b.directions.renyi_log_bound(arb(s), arb(end))
        if bound is not None and arb(s) >= rate and least.log() >= bound:
            return float(end)
    return None


def _single(t: Ball, m: Ball, end: Ball, above: Ball) -> Ball:
    """Compute δ(E) for one direction with t > 0: the loss exceeds E where |x + m/t| > c, c² = 2(1+t)/t · above."""
    with precision(2 * _WORK):
        c = (2 * (1 + t) / t * above).sqrt()

        def outside(centre: Ball, deviation: Ball) -> Ball:
            root = arb(2).sqrt() * deviation
            return (((c - centre) / root).erfc() + ((c + centre) / root).erfc()) / 2

        return outside(m * (1 + t) / t, (1 + t).sqrt()) - end.exp() * outside(m / t, arb(1))


def _proved_up_to(a: PairCurve, b: PairCurve, end: float) -> bool:
    """Prove δ_A ≥ δ_B on [0, E] cell by cell; a cell that fails is halved."""
    if end == 0.0:
        return bool(a.at(0.0).low >= b.at(0.0).high)
    points = [-end, 0.0, end, 2.0 * end]  # one more point on each side for the lines
    i = 1
    while i < len(points) - 2:
        around = points[i - 1 : i + 3]
        if cell_holds(around, [a.at(x) for x in around], [b.at(x) for x in around[1:3]]):
            i += 1
            continue
        middle = 0.5 * (around[1] + around[2])
        if len(points) > _MOST_POINTS or not around[1] < middle < around[2]:
            return False
        points.insert(i + 1, middle)
        points[0], points[-1] = -points[2], 2.0 * points[-2] - points[-3]  # no farther than the cells at the ends
    return True


# ---------------------------------------------------------------------- one cell (lem:cells)


def cell_holds(points: Sequence[float], a: Sequence[Values], b: Sequence[Values]) -> bool:
    """Say if δ_A ≥ δ_B is certain between points 1 and 2 of four.

    Parameters
    ----------
    points : four floats
        Growing values of ε.
    a : four Values
        δ_A at the points.
    b : two Values
        δ_B at the points 1 and 2.
    """
    z = [arb(x).exp() for x in points]
    if not (a[1].low >= b[0].high and a[2].low >= b[1].high):
        return False
    if a[2].low >= b[0].high:  # both curves fall
        return True
    before = (a[1].low - a[0].high) / (z[1] - z[0])  # slope of A before the cell, at least
    after = (a[3].high - a[2].low) / (z[3] - z[2])  # slope of A after the cell, at most
    chord = (b[1].high - b[0].high) / (z[2] - z[1])
    # On the cell A lies above both lines, B below its chord. At its ends each line starts above the chord. So it is
    # enough that at some point between the ends both lines lie above the chord.
    gap = after - before
    if not gap > 0:
        return False
    place = (((a[1].low - a[2].low) + after * z[2] - before * z[1]) / gap).mid()
    if not (place >= z[1] and place <= z[2]):
        return False
    level = b[0].high + chord * (place - z[1])
    return bool(a[1].low + before * (place - z[1]) >= level and a[2].low + after * (place - z[2]) >= level)
