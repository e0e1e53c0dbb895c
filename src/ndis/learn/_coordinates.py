"""Choose coordinates of rows from released histograms and from a released Gram matrix.

Public ranges are not spreads. A column whose spread is a tenth of its range has a tenth of the signal and all of the
noise. So rows are measured in the spreads that histograms of the columns show. A histogram of the norms of these rows
tells which columns have records far away, and how far. A Gram matrix then tells directions. In the last coordinates all
directions of the rows spread about alike, but no column with records far away spreads more than before: its rows would
be long.

Everything here is a function of released values. If the noise hides the histograms, the public ranges stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from ndis._validate import Floats

BINS = 64  # equal bins of a public range
NORM_EDGES: tuple[float, ...] = tuple(2.0**k for k in range(-3, 9))  # times the root of the columns
_SEEN = 4.5  # a bin is seen above this many standard deviations of its noise: there are many bins
_MOST = 0.75  # the seen bins hold at least this share of the records, or else likelihoods decide
_RECORDS = 12.0  # and there are at least this many standard deviations of a bin's noise of them
_ALMOST_ALL = 0.98
_SURE = 4.5  # records are surely beyond a distance above this many standard deviations of their noise
_FEWEST = 2.0  # the rarer value of a column of two values has at least this many standard deviations of records
_SHOWN = 3.5  # the same for bins of norms
_FAR = 2.0  # times the root of the columns: rows beyond it are far away
_RAISED = 3.0  # records far away that raise the second moment of a column by less may be another column's
_SHARING = 4  # columns share the squares of rows far away by this power of how far their ranges go
_FLOOR = 0.7  # directions spread at least this share of the largest eigenvalue of the noise
_WIDEST_SHAPE = 2.0  # the last round weighs no direction more than this many times another
FARTHEST = 2.0**16  # spreads: longer rows are clipped, for a constant next to them would be lost
_WITHIN = 1.0  # spreads: a released mean moves a centre by at most this


@dataclass(frozen=True, eq=False)
class PublicRanges:
    """Hold what is public about the columns of encoded rows.

    Attributes
    ----------
    farthest : float
        No feature is further from 0.
    row_bound : float
        No row is longer.
    target_bound : float
    origin, target_origin : arrays
        What a line without an intercept goes through; 0 with one.
    values : tuple
        (low, high) of columns with two values, None for others.
    centred : bool
        There is an intercept, so columns are centred.
    """

    farthest: float
    row_bound: float
    target_bound: float
    origin: Floats
    target_origin: Floats
    values: tuple[tuple[float, float] | None, ...]
    centred: bool

    def start(self) -> Coordinates:
        """Return rows over their bound, from the origin."""
        features = len(self.origin)
        return Coordinates(np.eye(features) / self.row_bound, self.origin, self.target_origin, self.target_bound)

    def weighted(self, root: float, constant: float | None) -> PublicRanges:
        """Return those of rows from their origins, with a constant if there is one, all times at most `root`."""
        row = math.hypot(self.row_bound + float(np.linalg.norm(self.origin)), constant or 0.0) * root
        target = (self.target_bound + float(np.linalg.norm(self.target_origin))) * root
        origin, last = np.zeros(len(self.origin) + (constant is not None)), np.zeros(len(self.target_origin))
        return replace(self, row_bound=row, target_bound=target, origin=origin, target_origin=last)

    def farthest_target(self, here: Coordinates) -> float:
        """Bound the norm of targets in coordinates."""
        return (self.target_bound + float(np.linalg.norm(here.target_centre))) / here.target_scale * (1 + 1e-9)

    def farthest_values(self, here: Coordinates) -> Floats:
        """Return how far the farther of two values of a column is from its centre, in diagonal coordinates; else 0."""
        away = [max(abs(v - c) for v in pair or (c,)) for pair, c in zip(self.values, here.centre, strict=True)]
        return np.array(away) * np.diagonal(here.matrix)

    def longest(self, here: Coordinates) -> float:
        """Bound the norm of a row in coordinates."""
        return float(np.linalg.norm(here.matrix, 2) * (self.row_bound + np.linalg.norm(here.centre))) * (1 + 1e-9)


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Rows are z = matrix·(x − centre), and targets (y − target_centre)/target_scale.

    Attributes
    ----------
    matrix : (features, features) array
    centre : (features,) array
    target_centre : (targets,) array
    target_scale : float
    """

    matrix: Floats
    centre: Floats
    target_centre: Floats
    target_scale: float

    def without_last(self) -> Coordinates:
        """Leave out the last column, a constant, which no other coordinate depends on."""
        return replace(self, matrix=self.matrix[:-1, :-1], centre=self.centre[:-1])

    def units(self, constant: float | None) -> tuple[Floats, Floats]:
        """Find (A, b) with A·θ + b the slopes of x and the intercept, for θ of z and a constant; b by target.

        >>> here = Coordinates(np.array([[0.5]]), np.array([3.0]), np.array([10.0]), 4.0)
        >>> matrix, shift = here.units(1.0)
        >>> (matrix @ [[1.0], [2.0]] + shift).ravel().tolist()  # 4·(0.5·(x − 3) + 2) + 10
        [2.0, 12.0]
        """
        features, middle = len(self.centre), self.target_centre if len(self.target_centre) else np.zeros(1)
        if constant is None:
            return self.target_scale * self.matrix.T, np.zeros((features, len(middle)))
        matrix = np.zeros((features + 1, features + 1))
        matrix[:features, :features] = self.matrix.T
        matrix[features, :features] = -(self.matrix @ self.centre)
        matrix[features, features] = constant
        shift = np.vstack([np.zeros((features, len(middle))), middle])
        return self.target_scale * matrix, shift


def located(histograms: Floats, noise: float, public: PublicRanges) -> Coordinates | None:
    """Return coordinates in spreads, from noisy histograms of the columns of features and then of targets.

    None if the noise hides the number of records: the public ranges stay.
    """
    features = len(public.origin)
    records = float(histograms.sum()) / len(histograms)
    if not records > _RECORDS * noise:
        return None
    far = np.append(np.full(features, public.farthest), np.full(len(histograms) - features, public.target_bound))
    origin = np.append(public.origin, public.target_origin)
    centre, scale = origin.copy(), far.copy()
    for j, histogram in enumerate(histograms):
        middle, spread = (x * far[j] for x in _place(histogram, noise, records))
        if j < features and (values := public.values[j]) is not None:
            low, high = values
            rare = min(0.5, _FEWEST * noise / records)
            share = min(max(float(histogram[-1]) / records, rare), 1.0 - rare)
            middle, spread = low + share * (high - low), (high - low) * math.sqrt(share * (1.0 - share))
        scale[j] = spread if public.centred else math.hypot(spread, middle - origin[j])
        centre[j] = middle if public.centred else origin[j]
    target_scale = float(scale[features:].max(initial=0.0)) or 1.0  # classes have none
    return Coordinates(np.diag(1.0 / scale[:features]), centre[:features], centre[features:], target_scale)


def _seen(histogram: Floats, noise: float, records: float) -> tuple[float, float] | None:
    """Estimate centre and spread of values in [−1, 1] from the bins above the noise; bins are joined until most are.

    What is not seen is taken to lie beyond, as that of a normal law does, or as far away as records surely are.

    >>> centre, spread = _seen(np.r_[np.zeros(32), 500.0, 500.0, np.zeros(30)], 1.0, 1000.0)
    >>> round(centre, 5), round(spread, 5)
    (0.03125, 0.01804)
    >>> _seen(np.zeros(64), 1.0, 1000.0)
    """
    counts, own = np.asarray(histogram), noise
    while len(counts) >= 4:
        width = 2.0 / len(counts)
        middles = width * (np.arange(len(counts)) + 0.5) - 1.0
        seen = np.where(counts > _SEEN * own, counts, 0.0)
        total = float(seen.sum())
        if total > _MOST * records:
            centre = float(seen @ middles) / total
            spread = math.sqrt(float(seen @ (middles - centre) ** 2) / total + width**2 / 12)
            where = middles[seen > 0]
            beyond = ndtri((1.0 + min(total / records, _ALMOST_ALL)) / 2)
            least = math.sqrt(_surely_away(np.asarray(histogram), noise, centre) / records)
            return centre, max(spread, least, float(where[-1] - where[0]) / 2 / float(beyond))
        counts, own = counts[0::2] + counts[1::2], own * math.sqrt(2.0)
    return None


def _surely_away(histogram: Floats, noise: float, centre: float) -> float:
    """Return the sum of squared distances from the centre of records that surely are there.

    It is Σ N(d)·Δd² for the records N(d) beyond d, where these exceed their noise. So it sees a tail that no bin shows.

    >>> round(_surely_away(np.r_[100.0, np.zeros(31), 900.0, np.zeros(31)], 1.0, 0.0), 1)  # 100 records at −0.98
    96.9
    """
    away = ((np.arange(len(histogram)) + 0.5) * 2.0 / len(histogram) - 1.0 - centre) ** 2
    order = np.argsort(-away)
    beyond = np.cumsum(histogram[order])
    sure = beyond > _SURE * noise * np.sqrt(np.arange(1, len(histogram) + 1))
    return float((beyond * sure)[:-1] @ -np.diff(away[order]))


def _place(histogram: Floats, noise: float, records: float) -> tuple[float, float]:
    """Estimate centre and spread of values in [−1, 1]; where bins hide in the noise, by the likelihood of normal laws.

    These are averages over all normal laws, cut off at the ends of the range, weighted by their likelihood.

    >>> centre, spread = _place(np.full(64, 10.0), 10.0, 640.0)  # every bin is within the noise
    >>> round(abs(centre), 3), round(spread, 1)
    (0.0, 0.5)
    """
    place = _seen(histogram, noise, records)
    if place is not None:
        return place
    shares, centres, spreads = _normal_laws()
    fit = (records * shares @ histogram - records**2 * (shares**2).sum(axis=1) / 2) / noise**2
    weights = np.exp(fit - fit.max())
    weights /= weights.sum()
    return float(weights @ centres), float(np.exp(weights @ np.log(spreads)))


@cache
def _normal_laws() -> tuple[Floats, Floats, Floats]:
    """Return shares of bins, mean and standard deviation of normal laws on [−1, 1], at every centre and scale."""
    edges = np.linspace(-1.0, 1.0, BINS + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    scales = 2.0 ** np.arange(-5.0, 0.5, 0.5)
    shares = np.diff(ndtr((edges - middles[:, None, None]) / scales[:, None]), axis=-1).reshape(-1, BINS)
    shares = shares / shares.sum(axis=1, keepdims=True)
    means = shares @ middles
    return shares, means, np.sqrt(shares @ middles**2 - means**2)


def with_far(
    here: Coordinates, histogram: Floats, noise: float, public: PublicRanges, most: float
) -> tuple[Coordinates, Floats]:
    """Return coordinates in which columns spread as the norms of rows tell, and how far away their records are.

    The squares of long rows belong to columns whose ranges go far, and to rare ones of two values. They raise the
    second moments of the former. Records that are far away in one column are then at most about `most` away.

    >>> here = Coordinates(np.diag([1.0, 10.0]), np.zeros(2), np.zeros(1), 1.0)
    >>> public = PublicRanges(3.0, 4.0, 1.0, np.zeros(2), np.zeros(1), (None, None), centred=True)
    >>> norms = np.r_[np.zeros(3), 600.0, 300.0, 0.0, 100.0, np.zeros(6)]  # a tenth is about 8 spreads away
    >>> found, far = with_far(here, norms, 5.0, public, most=4.0)
    >>> np.diagonal(found.matrix).round(2).tolist(), far.round(1).tolist()
    ([0.94, 3.71], [0.0, 3.0])
    """
    root, two = math.sqrt(len(here.centre)), public.farthest_values(here)
    edges = np.array(NORM_EDGES) * root
    lengths = np.concatenate([edges[:1] * 0.7, np.sqrt(edges[1:] * edges[:-1]), edges[-1:] * 1.4])
    seen = np.where((histogram > _SHOWN * noise) & (lengths > _FAR * root), histogram, 0.0)
    ends = np.where(two > 0.0, two, (public.farthest + np.abs(here.centre)) * np.diagonal(here.matrix))
    up_to = np.minimum(lengths[:, None], ends)
    shares = up_to**_SHARING / (up_to**_SHARING).sum(axis=1, keepdims=True)
    parts = (seen * lengths**2 / max(float(histogram.sum()), noise))[:, None] * shares
    raised = np.where(two > 0.0, 0.0, parts.sum(axis=0))
    spread, away = np.sqrt(1.0 + raised), (parts * up_to).sum(axis=0) / np.maximum(raised, 1e-300)
    far = np.where(raised > _RAISED, away / spread, two)
    return replace(here, matrix=here.matrix / (spread * np.maximum(far / most, 1.0))), far


def turned(
    here: Coordinates, gram: Floats, noise: float, constant: float, *, centred: bool, long: Any
) -> tuple[Coordinates, Any]:
    """Return coordinates along the directions of a released Gram matrix, whose last column is a constant.

    Columns that are `long` spread as before. Also returns by which factor a typical row gets longer.
    """
    features = len(here.centre)
    records = max(float(gram[-1, -1]), 2.0 * noise) / constant**2
    means = np.clip(gram[:-1, -1] / (constant * records), -_WITHIN, _WITHIN) * centred
    covariance = gram[:-1, :-1] / records - np.outer(means, means)
    floor = _FLOOR * noise / records * math.sqrt(2.0 * features)
    own = np.sqrt(np.where(long, np.maximum(np.diagonal(covariance), floor), 1.0))
    values, vectors = np.linalg.eigh(covariance / np.outer(own, own))
    floored, likely = np.maximum(values, floor), np.maximum(values, floor / 2)
    matrix = own[:, None] * (vectors / np.sqrt(floored)) @ (vectors.T / own) @ here.matrix
    centre = here.centre + np.linalg.solve(here.matrix, means)
    longer = math.sqrt(float((likely / floored).sum() / likely.sum()))
    return replace(here, matrix=matrix, centre=centre), longer


def nearer(terms: Floats, centre: Floats, noise: float) -> tuple[Floats, float]:
    """Return a noisy symmetric matrix, nearer to another one by as much as may be noise; with its weight.

    >>> nearer(np.diag([5.0, 3.0]), 4.0 * np.eye(2), 0.5)[0].round(3).tolist()  # as of James and Stein
    [[4.625, 0.0], [0.0, 3.375]]
    """
    away, p = float(((terms - centre) ** 2).sum()), len(terms)
    weight = max(1.0 - noise**2 * p * (p + 1) / 2 / away, 0.0) if away > 0 else 0.0
    return centre + weight * (terms - centre), weight


def last_shape(terms: Floats, noise: float, records: float) -> Floats:
    """Return a root of the inverse of the mean of ttᵀ of all targets, nearer to a sphere by as much as may be noise.

    >>> last_shape(np.diag([400.0, 100.0])[None], 1.0, 100.0).round(2).tolist()
    [[0.5, 0.0], [0.0, 1.0]]
    """
    together, p = terms.sum(axis=0), len(terms[0])
    known, weight = nearer(together, max(float(np.trace(together)) / p, noise) * np.eye(p), noise)
    values, vectors = np.linalg.eigh(known)
    least = max(noise * math.sqrt(2.0 * p) * weight, float(values[-1]) / _WIDEST_SHAPE**2)
    return np.asarray((vectors * np.sqrt(records / np.maximum(values, least))) @ vectors.T)
