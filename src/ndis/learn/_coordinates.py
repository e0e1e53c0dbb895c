"""Choose the coordinates of a regression from released counts and matrices: centres, spreads, then directions.

Public ranges are not spreads. A column whose spread is a tenth of its range has a tenth of the signal and all of the
noise. So a fit first releases histograms of all columns, with a small share of its budget, and measures rows in the
spreads that they show. A histogram of the norms of these rows chooses where the matrix that follows clips them. The
directions of that matrix are the last coordinates: in these, all directions of the rows spread about alike.

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

__all__ = ["BINS", "NORM_EDGES", "Coordinates", "PublicRanges", "located", "norm_bound", "turned"]

BINS = 64  # equal bins of a public range
NORM_EDGES: tuple[float, ...] = tuple(2.0 ** (k / 2) for k in range(-12, 13))  # times the root of the columns
_SEEN = 3.5  # a bin is seen above this many standard deviations of its noise
_MOST = 0.75  # the seen bins hold at least this share of the records, or else likelihoods decide
_RECORDS = 12.0  # and there are at least this many standard deviations of a bin's noise of them
_ALMOST_ALL = 0.98
_FEWEST = 2.0  # the rarer value of a column of two values has at least this many standard deviations of records
_LONG_ROWS = 0.1  # the clip takes this share of the squared norms of all rows,
_FEW_ROWS = 5.0  # and more by this many times the noise of a bin over the records: noise then costs more than bias
_FLOOR = 0.7  # directions spread at least this share of the largest eigenvalue of the noise
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
    centre, scale = public.origin.copy(), np.full(features, public.farthest)
    for j, values in enumerate(public.values):
        middle, spread = (x * public.farthest for x in _place(histograms[j], noise, records))
        if values is not None:
            low, high = values
            rare = min(0.5, _FEWEST * noise / records)
            share = min(max(float(histograms[j, -1]) / records, rare), 1.0 - rare)
            middle, spread = low + share * (high - low), (high - low) * math.sqrt(share * (1.0 - share))
        scale[j] = spread if public.centred else math.hypot(spread, middle - public.origin[j])
        centre[j] = middle if public.centred else public.origin[j]
    target_centre, spreads = public.target_origin.copy(), []
    for t, histogram in enumerate(histograms[features:]):
        middle, spread = (x * public.target_bound for x in _place(histogram, noise, records))
        spreads.append(spread if public.centred else math.hypot(spread, middle - public.target_origin[t]))
        target_centre[t] = middle if public.centred else public.target_origin[t]
    return Coordinates(np.diag(1.0 / scale), centre, target_centre, max(spreads, default=1.0))


def _seen(histogram: Floats, noise: float, records: float) -> tuple[float, float] | None:
    """Estimate centre and spread of values in [−1, 1] from the bins above the noise; bins are joined until most are.

    What is not seen is taken to lie beyond, as that of a normal law does.

    >>> centre, spread = _seen(np.r_[np.zeros(32), 500.0, 500.0, np.zeros(30)], 1.0, 1000.0)
    >>> round(centre, 5), round(spread, 5)
    (0.03125, 0.01804)
    >>> _seen(np.zeros(64), 1.0, 1000.0)
    """
    counts = np.asarray(histogram)
    while len(counts) >= 4:
        width = 2.0 / len(counts)
        middles = width * (np.arange(len(counts)) + 0.5) - 1.0
        seen = np.where(counts > _SEEN * noise, counts, 0.0)
        total = float(seen.sum())
        if total > _MOST * records:
            centre = float(seen @ middles) / total
            spread = math.sqrt(float(seen @ (middles - centre) ** 2) / total + width**2 / 12)
            where = middles[seen > 0]
            beyond = ndtri((1.0 + min(total / records, _ALMOST_ALL)) / 2)
            return centre, max(spread, float(where[-1] - where[0]) / 2 / float(beyond))
        counts, noise = counts[0::2] + counts[1::2], noise * math.sqrt(2.0)
    return None


def _place(histogram: Floats, noise: float, records: float) -> tuple[float, float]:
    """Estimate centre and spread of values in [−1, 1]; where bins hide in the noise, by the likelihood of normal laws.

    These are averages over all normal laws, cut off at the ends of the range, weighted by their likelihood.

    >>> centre, spread = _place(np.full(64, 10.0), 10.0, 640.0)  # every bin is within the noise
    >>> round(abs(centre), 3), round(spread, 1)
    (0.0, 0.6)
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


def norm_bound(histogram: Floats, noise: float, *, unit: float, longest: float) -> float:
    """Choose where rows are clipped in a Gram matrix: hardly any of their squared norms is lost.

    >>> norm_bound(np.r_[np.zeros(11), 500.0, 400.0, 100.0, np.zeros(12)], 5.0, unit=2.0, longest=50.0)
    3.0
    """
    edges = np.array(NORM_EDGES)
    middles = np.concatenate([edges[:1] * 0.7, np.sqrt(edges[1:] * edges[:-1]), edges[-1:] * 1.2])
    beyond = np.cumsum(histogram[::-1])[::-1]
    sure = beyond > 2.0 * noise * np.sqrt(np.arange(len(middles), 0, -1))
    sure[int(histogram.argmax()) :] = np.logical_and.accumulate(sure[int(histogram.argmax()) :])
    counts = np.where(sure, np.maximum(histogram, 0.0), 0.0)
    lost = np.maximum(middles**2 - edges[:, None] ** 2, 0.0) @ counts
    share = _LONG_ROWS + _FEW_ROWS * noise / max(float(histogram.sum()), noise)
    bound = unit * edges[int(np.argmax(lost <= share * float(counts @ middles**2)))]
    return float(min(max(bound, unit + min(unit, 1.0)), longest))


def turned(here: Coordinates, gram: Floats, noise: float, *, constant: float, centred: bool) -> tuple[Coordinates, Any]:
    """Return coordinates along the directions of a released Gram matrix, whose last column is a constant.

    Also returns by which factor a typical row gets longer.
    """
    features = len(here.centre)
    records = max(float(gram[-1, -1]), 2.0 * noise) / constant**2
    means = np.clip(gram[:-1, -1] / (constant * records), -_WITHIN, _WITHIN) * centred
    values, vectors = np.linalg.eigh(gram[:-1, :-1] / records - np.outer(means, means))
    floor = _FLOOR * noise / records * math.sqrt(2.0 * features)
    floored, likely = np.maximum(values, floor), np.maximum(values, floor / 2)
    matrix = (vectors / np.sqrt(floored)).T @ here.matrix
    centre = here.centre + np.linalg.solve(here.matrix, means)
    longer = math.sqrt(float((likely / floored).sum() / likely.sum()))
    return replace(here, matrix=matrix, centre=centre), longer
