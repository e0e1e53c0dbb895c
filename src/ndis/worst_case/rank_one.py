"""Find the worst δ(ε) over a rank-one envelope (thm:rank-one): monotonicity mostly ends the search at once.

A pair of the envelope is {(t, Δ²c), (0, Δ²(1−c))}. One ratio 1 + t is not 1, and c is the squared cosine of the angle
between the mean shift and its direction. ‖m‖ = Δ is enough, because δ never decreases in any m² (thm:monotone-shift).
*Wide* means 0 ≤ t ≤ T, and *narrow* means −T/(1+T) ≤ t ≤ 0. In both cases |t| = q.

The theorem has a pair that dominates a cell q₀ ≤ q ≤ q₁, c₀ ≤ c ≤ c₁, and a bound by the total variation distance to
the centre of the cell. It also says from which ε on the worst pair is a corner,

    ε ≥ ½Δ² + max( ½(T − log(1+T)) + 2T,  ½(log(1+T) − p) + √(3(3p²/2 + Δ²)) ),   p = T/(1+T),

that is at every budget with a small δ. One evaluation of each corner is then the exact worst case. At smaller ε the
search splits cells. docs/theory.md has the proof.
"""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndis._exact import up
from ndis._validate import Floats
from ndis.enclosure import Enclosure
from ndis.errors import PrecisionError
from ndis.pair import LEAST_SHIFT, GaussianPair
from ndis.spectrum.batch import log_delta_batch
from ndis.worst_case.envelopes import LARGEST, RankOneEnvelope

Mask = NDArray[np.bool_]

_UP = 1.0 + 2.0**-46  # past the rounding of a few operations
_WIDEST = 2.0**50  # if T is beyond it, δ counts as 1 too: 1 ± |t| runs out of digits
_HOPELESS = 1e9  # a shift at which δ is 1
_LEAST = 2.0**-400  # the least |t| of a cell that is not a point at 0
_SPLIT = 16.0  # by how much the cell that touches t = 0 shrinks


class Leaf(NamedTuple):
    """A cell that is not split further. On it δ ≤ δ(pair) + extra; `log_bound` is the logarithm of this in floats."""

    excess: Floats
    shift: Floats
    extra: float
    log_bound: float


class RankOneSearch(NamedTuple):
    """The search returns the worst pair seen in the envelope, its log δ, and bounds that cover all."""

    lower: float
    worst: GaussianPair
    leaves: tuple[Leaf, ...]

    @property
    def upper(self) -> float:
        """Return the largest logarithm of the bounds, in floats."""
        return max(leaf.log_bound for leaf in self.leaves)


class _Cells(NamedTuple):
    """Cells are stored as columns. `most` is Δ; `sign` is +1 for wide and −1 for narrow."""

    most: Floats
    sign: Floats
    q0: Floats
    q1: Floats
    c0: Floats
    c1: Floats

    def take(self, which: Mask) -> _Cells:
        return _Cells(*(a[which] for a in self))

    @property
    def point(self) -> Mask:
        return np.asarray((self.q0 == self.q1) & (self.c0 == self.c1))


def rank_one_search(
    envelope: RankOneEnvelope, epsilon: float, *, tolerance: float = 1e-3, max_cells: int = 4000
) -> RankOneSearch:
    """Split cells until the bounds are within a relative `tolerance` of a pair of the envelope.

    All values are floats; `certified_rank_one` encloses them. At `max_cells` the search ends with a wider gap between
    `lower` and `upper`. The leaves still cover the whole envelope.

    >>> search = rank_one_search(RankOneEnvelope(shift_bound=0.25, ratio_bound=0.012), 1.0)
    >>> len(search.leaves), search.upper == search.lower  # one pair each, wide and narrow
    (2, True)
    """
    cells = _roots(envelope)
    if cells is None:
        equal = GaussianPair.from_ratios(1.0)  # in every envelope
        return RankOneSearch(-math.inf, equal, (Leaf(np.zeros(1), np.array([_HOPELESS]), 0.0, 0.0),))
    lower, leaves, evaluated = -math.inf, [], 0
    worst = GaussianPair.from_ratios(1.0)
    slack = math.log1p(tolerance)
    while cells.q0.size:
        cells = _collapse(cells, epsilon)
        value, pair = _attained(cells, epsilon)
        if value >= lower:
            lower, worst = value, pair
        excess, shift, extra, bound = _bound(cells, epsilon)
        evaluated += bound.size
        done = cells.point | (bound <= lower + slack) | (evaluated >= max_cells)
        leaves += [Leaf(excess[i], shift[i], float(extra[i]), float(bound[i])) for i in np.flatnonzero(done)]
        cells = _split(cells.take(~done), extra[~done] > 0)
    return RankOneSearch(lower, worst, tuple(leaves))


@lru_cache(maxsize=64)  # a calibration asks again for the point it ends on, and so does the mechanism made from it
def certified_rank_one(envelope: RankOneEnvelope, epsilon: float, *, relative_width: float = 1e-10) -> Enclosure:
    """Enclose the supremum of δ(ε) over the envelope: ball arithmetic certifies every leaf.

    The code rounds T/(1+T) up to a float. The lower end is that of the rounded envelope.

    >>> box = certified_rank_one(RankOneEnvelope(shift_bound=0.25, ratio_bound=0.012), 1.0)
    >>> 1.219115e-05 < box.lower <= box.upper < 1.219116e-05
    True
    """
    search = rank_one_search(envelope, epsilon)
    upper = 0.0
    for leaf in search.leaves:
        near = leaf.log_bound >= search.lower - 1e-2
        bound = _upper(_pair(leaf.excess, leaf.shift), epsilon, relative_width if near else 1e-3)
        if leaf.extra:
            bound = (bound + leaf.extra) * (1.0 + 2.0**-52)
        if not bound <= upper:
            upper = bound
    lower = search.worst.certify(epsilon, relative_width=relative_width).lower
    return Enclosure(lower, upper if not upper > 1.0 else 1.0)


def _upper(pair: GaussianPair, epsilon: float, relative_width: float) -> float:
    """Certify an upper end of δ, as tight as possible. 1 always holds."""
    for width in (relative_width, 1e-3):
        with suppress(PrecisionError):
            return pair.certify(epsilon, relative_width=width).upper
    return 1.0


# ---------------------------------------------------------------------- cells


def _roots(envelope: RankOneEnvelope) -> _Cells | None:
    """Return the wide and the narrow side of each piece, with |t| rounded outwards to a float.

    The answer is None if the numbers are too large to be of use.
    """
    rows = []
    for piece in envelope.pieces or (envelope,):
        most, T = piece.shift_bound, piece.ratio_bound
        if not (most <= LARGEST and T <= _WIDEST):
            return None
        if T == 0:
            rows.append((most, 1.0, 0.0, 0.0, 0.0, 0.0))
            continue
        wide = max(T, _LEAST)
        narrow = up(Fraction(wide) / (1 + Fraction(wide)))
        rows += [(most, 1.0, 0.0, wide, 0.0, 1.0), (most, -1.0, 0.0, narrow, 0.0, 1.0)]
    return _Cells(*np.array(rows).T)


def _collapse(cells: _Cells, epsilon: float) -> _Cells:
    """Replace a cell by the edge or corner on which its maximum lies, if the sign of a derivative is proved."""
    wide = cells.sign > 0
    after3, before3 = _beyond_modes(cells, epsilon, 1.0)
    after5, before5 = _beyond_modes(cells, epsilon, 2.0)
    grows, falls = np.where(wide, after3, before3), np.where(wide, before3, after3)  # in c
    c0, c1 = np.where(grows, cells.c1, cells.c0), np.where(falls & ~grows, cells.c0, cells.c1)
    still = (c1 == 0) | (cells.most == 0)  # no mean shift in the changed direction
    q0 = np.where(still | np.where(wide, after5, before5), cells.q1, cells.q0)  # δ grows in |t|
    return _Cells(cells.most, cells.sign, q0, cells.q1, c0, c1)


def _beyond_modes(cells: _Cells, epsilon: float, times: float) -> tuple[Mask, Mask]:
    """Say if ε is above, or below, the mode of L + t·Gamma(times) on the whole cell; both False if not proved.

    The derivatives of δ in c and t are slopes of such densities at ε, so on either side of a mode `_collapse` knows
    their signs (thm:rank-one, proof of (b)). The mean lies between `lowest` and `highest`, and the mode within √3
    standard deviations of it: below it if t > 0, above it if t < 0.
    """
    q0, q1, sign = cells.q0, cells.q1, cells.sign
    wide, delta2 = sign > 0, cells.most**2

    def half(q: Floats) -> Floats:  # ½(t − log(1+t)), growing with |t|
        return 0.5 * (sign * q - np.log1p(sign * q))

    deviation = np.sqrt(3.0 * ((0.5 + times) * q1 * q1 + delta2 * np.where(wide, 1.0 + cells.c1 * q1, 1.0)))
    highest = half(q1) + 0.5 * delta2 + times * np.where(wide, q1, -q0)
    lowest = half(q0) + 0.5 * delta2 + times * np.where(wide, q0, -q1)
    margin = 2.0**-40 * (1.0 + delta2 + q1 + abs(epsilon) + half(q1))  # far beyond the rounding of these lines
    after = epsilon >= highest + np.where(wide, 0.0, deviation) + margin
    before = epsilon <= lowest - np.where(wide, deviation, 0.0) - margin
    return after, before


def _bound(cells: _Cells, epsilon: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Return (excesses, shifts, extra, log bound) of each cell: the better of the two bounds above."""
    most, sign, q0, q1, c0, c1 = cells
    stretch = np.divide(q1, q0, out=np.ones_like(q1), where=q0 > 0)
    at_corner = cells.point & ((c0 == 0) | (c0 == 1))  # m² unchanged, nothing rounded
    shift = _shifts(most, c1 * stretch, 1.0 - c0, np.where(at_corner, 1.0, _UP))
    excess = _with_flat(sign * q1)
    bound = _log_delta(excess, shift, epsilon)
    extra = np.zeros_like(bound)
    touching = (q0 == 0) & (q1 > 0) & (c1 > 0) & (most > 0)  # no pair above dominates such a cell
    excess[touching], shift[touching], bound[touching] = 0.0, (_HOPELESS, 0.0), 0.0
    open_ = np.flatnonzero(~cells.point)
    centre, centre_shift, near = _centres(cells.take(~cells.point))
    value = np.log(np.exp(_log_delta(centre, centre_shift, epsilon)) + near)
    better = value < bound[open_]
    which = open_[better]
    excess[which], shift[which] = centre[better], centre_shift[better]
    extra[which], bound[which] = near[better], value[better]
    return excess, shift, extra, bound


def _centres(cells: _Cells) -> tuple[Floats, Floats, Floats]:
    """Return (excesses, shifts, total variation) from the centre of each cell to its farthest point, rounded up."""
    most, sign, q0, q1, c0, c1 = cells
    centre = sign * 0.5 * (q0 + q1)
    ratio = 1.0 + centre
    low, high = np.minimum(1.0 + sign * q0, 1.0 + sign * q1), np.maximum(1.0 + sign * q0, 1.0 + sign * q1)
    x = np.maximum(high / ratio, ratio / low) - 1.0
    angle0, angle1 = _angle(c1), _angle(c0)
    angle = 0.5 * (angle0 + angle1)
    turn = 0.5 * np.abs(centre) * np.sin(0.5 * (angle1 - angle0)) / np.sqrt(ratio)
    near = (x / math.sqrt(8.0) + turn) * (1.0 + 2.0**-30) + 2.0**-40  # past the rounding of ratios and angles
    shift = _shifts(most, np.cos(angle) ** 2, np.sin(angle) ** 2, np.full(angle.size, _UP))
    return _with_flat(centre), shift, near


def _angle(c: Floats) -> Floats:
    """Return θ with c = cos²θ, accurate at both ends."""
    return np.arctan2(np.sqrt(1.0 - c), np.sqrt(c))


def _with_flat(t: Floats) -> Floats:
    """Append 0 to t, for the flat coordinate."""
    return np.stack([t, np.zeros_like(t)], axis=1)


def _pair(excess: Floats, shift: Floats) -> GaussianPair:
    return GaussianPair.from_excess(excess.tolist(), shift.tolist())


def _shifts(most: Floats, curved: Floats, flat: Floats, up: Floats) -> Floats:
    """Return Δ times the roots of the two shares of Δ², times `up`; never between 0 and the least shift of a pair."""
    root = np.sqrt(np.stack([curved, flat], axis=1)) * (most * up)[:, None]
    return np.where(root > 0, np.maximum(root, LEAST_SHIFT), 0.0)


def _log_delta(excess: Floats, shift: Floats, epsilon: float) -> Floats:
    """Return log δ of each row; 0, the largest possible value, if floats do not reach it."""
    if not len(excess):
        return np.zeros(0)
    try:
        return log_delta_batch(excess=excess, shift=shift, epsilon=epsilon)
    except PrecisionError:
        if len(excess) == 1:
            return np.zeros(1)
        return np.concatenate([_log_delta(excess[[i]], shift[[i]], epsilon) for i in range(len(excess))])


def _attained(cells: _Cells, epsilon: float) -> tuple[float, GaussianPair]:
    """Return the largest log δ at corners of the cells, and its pair. Corners are pairs of the envelope."""
    t, c = np.tile(cells.sign * cells.q1, 2), np.concatenate([cells.c0, cells.c1])
    inside = np.where((c == 0) | (c == 1), 1.0, 2.0 - _UP)
    excess, shift = _with_flat(t), _shifts(np.tile(cells.most, 2), c, 1.0 - c, inside)
    values = _log_delta(excess, shift, epsilon)
    values = np.where(values == 0.0, -math.inf, values)
    best = int(np.argmax(values))
    return float(values[best]), _pair(excess[best], shift[best])


def _split(cells: _Cells, by_centre: Mask) -> _Cells:
    """Each cell cut in two, across the side on which its bound loses more."""
    if not cells.q0.size:
        return cells
    most, sign, q0, q1, c0, c1 = cells
    touching = q0 == 0
    between = np.where(touching, q1 / np.where(by_centre, 2.0, _SPLIT), np.sqrt(q0) * np.sqrt(q1))
    stretch = np.divide(q1, q0, out=np.full_like(q1, math.inf), where=~touching)
    angle0, angle1 = _angle(c1), _angle(c0)
    loss_q = np.where(by_centre, (q1 - q0) / math.sqrt(8.0), np.where(touching, math.inf, c1 * (stretch - 1.0)))
    loss_c = np.where(by_centre, 0.5 * q1 * (angle1 - angle0), c1 - c0)
    across_q = (loss_q >= loss_c) & (between > q0) & (between < q1) & (between >= _LEAST)
    middle = np.where(by_centre, np.cos(0.5 * (angle0 + angle1)) ** 2, 0.5 * (c0 + c1))
    first = _Cells(most, sign, q0, np.where(across_q, between, q1), c0, np.where(across_q, c1, middle))
    second = _Cells(most, sign, np.where(across_q, between, q0), q1, np.where(across_q, c0, middle), c1)
    return _Cells(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))
