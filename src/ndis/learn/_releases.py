"""Draw all releases of a fit in rounds from exact sums, in coordinates that follow from the first ones.

Public ranges are not spreads. A column whose spread is a tenth of its range has a tenth of the signal and all of the
noise. So a fit first releases histograms of all columns, with a small share of its budget, and measures rows in the
spreads that they show. A histogram of the norms of these rows chooses where the matrix that follows clips them. The
directions of that matrix are the last coordinates: in these, all directions of the rows spread about alike. But a rare
value makes no row so long that clips take from records with it only.

Coordinates are a function of released values. If the noise hides the histograms, the public ranges stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from ndis._validate import Floats
from ndis.gram import Gram
from ndis.gram.sums import RecordSums, TermSums
from ndis.mechanisms.mechanism import Receipt
from ndis.mechanisms.rounds import GaussianRounds

# The constant column is this multiple of `row_norm_bound`. A larger one adds noise to the features, and a smaller one
# loses the mean in noise. Between 0.4 and 0.7 the errors measured on real data hardly change.
INTERCEPT_SHARE = 0.5
PLACE_SHARES = (0.02, 0.01)  # the squared shift has these shares for the histograms of columns and of norms
BELOW = 1.0 - 2.0**-40  # shares that are divided anew add up to a little less: floats round
_COUNTING = 0.35  # the constant over the bound of rows in spreads, where it only counts and centres
_LEAST_RECORDS = 3.0  # below this many standard deviations of its noise, the number of records may be zero
_COLUMN = 1.0  # the constant next to rows whose directions spread by about 1
BINS = 64  # equal bins of a public range
NORM_EDGES: tuple[float, ...] = tuple(2.0 ** (k / 2) for k in range(-12, 13))  # times the root of the columns
_SEEN = 3.5  # a bin is seen above this many standard deviations of its noise
_MOST = 0.75  # the seen bins hold at least this share of the records, or else likelihoods decide
_RECORDS = 12.0  # and there are at least this many standard deviations of a bin's noise of them
_ALMOST_ALL = 0.98
_TOLD = 5.0  # bins that are not seen count where noise is below a uniform law's second moment by this factor
_FEWEST = 2.0  # the rarer value of a column of two values has at least this many standard deviations of records
_LONG_ROWS = 0.1  # the clip takes this share of the squared norms of all rows,
_FEW_ROWS = 5.0  # and more by this many times the noise of a bin over the records: noise then costs more than bias
_FLOOR = 0.7  # directions spread at least this share of the largest eigenvalue of the noise
_WIDEST_SHAPE = 4.0  # the last round weighs no direction more than this many times another
_FARTHEST = 2.0**16  # spreads: longer rows are clipped, for a constant next to them would be lost
RARE = 10.0  # fewer records than this many standard deviations of the last histogram's noise are hardly seen in it
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
    even : float
        Half of what all columns of an array spread if rows reach their bound. It is 0 where a schema says which columns
        have two values. Columns spread at least this much, or what the noise of a second moment may hide if it is less.
    """

    farthest: float
    row_bound: float
    target_bound: float
    origin: Floats
    target_origin: Floats
    values: tuple[tuple[float, float] | None, ...]
    centred: bool
    even: float = 0.0

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
    far = np.append(np.full(features, public.farthest), np.full(len(histograms) - features, public.target_bound))
    origin = np.append(public.origin, public.target_origin)
    centre, scale = origin.copy(), far.copy()
    # the noise of a second moment; ∫x⁴ on [0, 1] is 1/5
    unseen = min(public.farthest * math.sqrt(noise * math.sqrt(BINS / 5) / records), public.even)
    for j, histogram in enumerate(histograms):
        middle, spread = (x * far[j] for x in _place(histogram, noise, records))
        if j < features and (values := public.values[j]) is not None:
            low, high = values
            rare = min(0.5, _FEWEST * noise / records)
            share = min(max(float(histogram[-1]) / records, rare), 1.0 - rare)
            middle, spread = low + share * (high - low), (high - low) * math.sqrt(share * (1.0 - share))
        scale[j] = max(spread if public.centred else math.hypot(spread, middle - origin[j]), unseen * (j < features))
        centre[j] = middle if public.centred else origin[j]
    target_scale = float(scale[features:].max(initial=0.0)) or 1.0  # classes have none
    return Coordinates(np.diag(1.0 / scale[:features]), centre[:features], centre[features:], target_scale)


def _seen(histogram: Floats, noise: float, records: float) -> tuple[float, float] | None:
    """Estimate centre and spread of values in [−1, 1] from the bins above the noise; bins are joined until most are.

    What is not seen is taken to lie beyond, as that of a normal law does. With many records its second moment counts as
    well: most records may share one value, and the others lie far from it.

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
            away = (middles - centre) ** 2
            spread = math.sqrt(float(seen @ away) / total + width**2 / 12)
            if 3.0 * _TOLD * noise * float(np.linalg.norm(middles**2)) < records:
                spread = math.hypot(spread, math.sqrt(max(float((counts - seen) @ away) / records, 0.0)))
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


def shortened(steps: Floats, typical: Any, most: float = 0.0) -> Floats:
    """Return K⁻¹ᐟ², which makes columns m of `steps` short: mᵀm is at most 2√p + 1 times `typical`, or `most` if more.

    So a row of length √p is √p + 1 long at most. K = I + Σ κ·mmᵀ, so mᵀK⁻¹m ≤ mᵀm/(1 + κ·mᵀm); κ may be 0.
    """
    squared = np.maximum(typical * (2.0 * math.sqrt(len(steps)) + 1.0), max(most, 1e-300))
    more = 1.0 / squared - 1.0 / np.maximum((steps**2).sum(axis=0), squared)
    vectors, sizes, _ = np.linalg.svd(steps * np.sqrt(more))
    return np.asarray((vectors / np.hypot(np.pad(sizes, (0, len(steps) - len(sizes))), 1.0)) @ vectors.T)


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


class RoundReleases:
    """Draw all releases of one fit exactly, in coordinates that follow from the first ones.

    Parameters
    ----------
    sums : RecordSums
    budget : GaussianRounds
        Its first two counts are histograms of columns and of norms, its first two matrices Gram matrices. The shares of
        later releases may follow from the first histograms.
    bits
        The source of randomness of all draws.
    public : PublicRanges
    constant : bool
        Whether the last predictor is a constant.
    held, fixed : bool
        Rows hold the constant already, times the root of a weight; the public coordinates stay.

    Attributes
    ----------
    budget, bits, constant, here
    column : float or None
        The value of the constant next to the rows.
    longest : float
        A norm that few rows exceed, the constant included: the unit of clips.
    private : bool
        False if a draw came from a seed.
    log : list
        Clip, noise and grid of every release, for the receipt.
    """

    shares: Any  # a subclass divides the budget anew by this method, after the first histograms
    afforded = 0.1  # rows may be longer while the largest eigenvalue of the noise is below this share of the records

    def __init__(
        self,
        sums: RecordSums,
        budget: GaussianRounds,
        bits: Any,
        *,
        public: PublicRanges,
        constant: bool,
        held: bool = False,
        fixed: bool = False,
    ) -> None:
        self._sums, self.budget, self.bits, self.constant = sums, budget, bits, constant
        self._public, self._held, self._fixed, self.here = public, held, fixed or held, public.start()
        self.column: float | None = None
        self._widths = self._seen = np.zeros(len(public.origin))
        self.longest, self.private = 1.0, True
        self.log: list[dict[str, Any]] = []
        self._rows = self._clipped = sums
        self._counted: list[tuple[float, float]] = []

    # ------------------------------------------------------------------ coordinates

    def settle(self) -> tuple[Floats, float]:
        """Choose coordinates, and release the Gram matrix in them; with the noise of its diagonal."""
        spreads, counted = (None, 0.0) if self._fixed else self._spreads()
        self.budget = self.budget.reshared(int(not self._fixed), **self.shares(spreads, counted))
        if spreads is None:
            return self._stay()
        self._widths = widths = np.array([pair[1] - pair[0] if pair else 0.0 for pair in self._public.values])
        having = counted / np.maximum(np.diagonal(spreads.matrix * widths) ** 2, 1e-300)  # records with the rarer value
        self._seen = np.maximum(having / (RARE * self.budget.count_noise(-1)), 1.0)
        self.here = spreads = replace(spreads, matrix=shortened(spreads.matrix * widths, 1.0) @ spreads.matrix)
        bound = self._norm_bound()
        column = _COUNTING * bound
        gram, noise = self._matrix(0, self._mapped(bound, column).gram(), "gram")
        here, longer = turned(spreads, gram, noise, constant=column, centred=self.constant)
        records = max(float(gram[-1, -1]), noise) / column**2
        unit = self.budget.matrix_noise(1, Fraction(1)) * math.sqrt(2.0 * len(gram))
        self.column = _COLUMN if self.constant else None
        clip = max(bound * longer, math.sqrt(self.afforded * records / unit))
        self.here = replace(here, matrix=shortened(here.matrix * widths, 1.0, clip**2 - len(widths)) @ here.matrix)
        far = min(self._public.longest(self.here), _FARTHEST)
        self._settled(min(clip, far), far)
        self.longest = math.hypot(min(bound * longer, far), self.column or 0.0)
        return self._matrix(1, self._clipped.gram(), "gram")

    def _stay(self) -> tuple[Floats, float]:
        """Keep the public coordinates: one Gram matrix serves."""
        bound = self._public.longest(self.here)
        self.column = INTERCEPT_SHARE * bound if self.constant and not self._held else None
        self._settled(bound, bound)
        return self._matrix(0, self._clipped.gram(), "gram")

    def _settled(self, bound: float, far: float) -> None:
        """Keep the records in the present coordinates, clipped to a bound for matrices, and not clipped for terms."""
        self._clipped, self._rows = self._mapped(bound, self.column), self._mapped(far, self.column)
        self.longest = math.hypot(bound, self.column or 0.0)

    def _spreads(self) -> tuple[Coordinates | None, float]:
        """Release histograms of all columns; one record is in one bin of each. They tell the number of records too."""
        public = self._public
        features, targets = len(public.origin), len(public.target_origin)
        far, zeros = public.farthest, np.zeros(features)
        unit = Coordinates(np.eye(features) / far, zeros, np.zeros(targets), public.target_bound)
        edges = np.linspace(-1.0, 1.0, BINS + 1)[1:-1].tolist()
        counts = self._mapped(public.row_bound / far, None, unit).value_counts(edges)
        squared = (features + targets) * self._replaced
        values = counts.histograms()[: features + targets]
        released, noise = self._counts(0, values, squared_reach=squared, name="histograms of columns")
        return located(released, noise, public), float(released.sum()) / len(released)

    def _norm_bound(self) -> float:
        """Release the histogram of the norms of rows in spreads, and choose where the Gram matrix clips them."""
        far, unit = self._public.longest(self.here), math.sqrt(len(self.here.centre))
        counts = self._mapped(far, None).value_counts((), norms=[unit * edge for edge in NORM_EDGES])
        released, noise = self._counts(1, counts.lengths(), squared_reach=self._replaced, name="histogram of norms")
        return norm_bound(released, noise, unit=unit, longest=far)

    def _mapped(self, bound: float, column: float | None, at: Coordinates | None = None) -> RecordSums:
        """Return the records in coordinates, with rows clipped to a bound."""
        here = self.here if at is None else at
        how: dict[str, Any] = {"row_norm_bound": bound, "intercept": column}
        if len(here.target_centre):
            how["target"] = here.target_centre, here.target_scale
            how["target_bound"] = self._public.farthest_target(here)
        return self._sums.in_coordinates(here.matrix, -(here.matrix @ here.centre), **how)

    @property
    def farthest_target(self) -> float:
        """Return the largest norm of targets in the present coordinates."""
        return self._public.farthest_target(self.here)

    def short(self, matrix: Floats, typical: float) -> Floats:
        """Return what leaves no row times `matrix` much longer for a rare value; more if more records have it."""
        return shortened(matrix[:, : len(self._widths)] @ self.here.matrix * self._widths, typical * self._seen)

    def shaped(self, shape: Floats) -> RecordSums:
        """Return the records with their predictors, the constant included, times a public matrix: no longer apart."""
        here, column = self.here, self.column
        matrix, shift = here.matrix, -(here.matrix @ here.centre)
        if column is not None:
            matrix, shift = np.vstack([matrix, np.zeros(matrix.shape[1])]), np.append(shift, column)
        far = float(np.linalg.norm(shape, 2)) * math.hypot(self._public.longest(here), column or 0.0) * (1 + 1e-9)
        how: dict[str, Any] = {"target": (here.target_centre, here.target_scale), "target_bound": self.farthest_target}
        return self._sums.in_coordinates(shape @ matrix, shape @ shift, row_norm_bound=far, **how)

    # ------------------------------------------------------------------ one release each

    def shift(self, index: int) -> float:
        """Return the clip of a round divided by its noise."""
        return 1.0 / self.budget.sum_noise(index, clip=1.0)

    def _matrix(self, index: int, gram: Gram, name: str) -> tuple[Floats, float]:
        """Release a matrix; with the standard deviation of its diagonal's noise."""
        sample = self.budget.release_matrix(index, gram, random_state=self.bits)
        noise = self.budget.matrix_noise(index, gram.layout.joint_norm_bound_squared)
        return self._noted(sample, release=name, norm_bound=gram.layout.joint_norm_bound, noise_std=noise)

    def _total(self, index: int, sums: TermSums, name: str) -> tuple[Floats, float]:
        """Release a sum of clipped terms; with the standard deviation of its noise."""
        sample = self.budget.release_sum(index, sums, random_state=self.bits)
        noise = self.budget.sum_noise(index, clip=sums.clip)
        return self._noted(sample, release=name, clip=sums.clip, noise_std=noise)

    def _histogram(self, index: int, sums: TermSums) -> tuple[Floats, float]:
        """Release the histogram of the lengths of the terms; one record replaced moves it by √2."""
        return self._record_count(index, sums.histogram, squared_reach=self._replaced, name="histogram of lengths")

    def _record_count(self, index: int, values: Any, **how: Any) -> tuple[Floats, float]:
        """Release counts that add up to the number of records."""
        released, noise = self._counts(index, values, **how)
        self._counted.append((float(released.sum()), noise * math.sqrt(len(released))))
        return released, noise

    def records(self) -> float:
        """Estimate the number of records, to which histograms of lengths add up; 0 if it is within its noise of 0."""
        weights = np.array([noise**-2.0 for _, noise in self._counted])
        records = float(weights @ [count for count, _ in self._counted] / weights.sum())
        return records if records > _LEAST_RECORDS / math.sqrt(float(weights.sum())) else 0.0

    def _counts(self, index: int, values: Any, *, squared_reach: Any, name: str) -> tuple[Floats, float]:
        sample = self.budget.release_count(index, values, squared_reach=squared_reach, random_state=self.bits)
        noise = self.budget.count_noise(index, squared_reach=squared_reach)
        return self._noted(sample, release=name, noise_std=noise)

    @property
    def _replaced(self) -> Fraction:
        """Return the factor by which a replaced record multiplies the squared reach of one that comes or goes."""
        return Fraction(1 if self.budget.adjacency == "add-remove" else 2)

    def _noted(self, sample: Any, **entry: Any) -> tuple[Floats, float]:
        """Log a release for the receipt; return it with its noise."""
        self.private = self.private and sample.private
        self.log.append({**entry, "grid": sample.grid})
        return np.asarray(sample.values, dtype=np.float64), entry["noise_std"]

    def receipt(self, **public: Any) -> Receipt:
        """Make the receipt: the guarantee, with the budget, the bounds in ``public`` and every release."""
        budget = self.budget
        shares = {k: v for k, v in budget.to_dict().items() if k not in ("epsilon", "delta", "adjacency")}
        parameters = {**shares, **public, "releases": self.log}
        guarantee = (budget.target_epsilon, budget.target_delta, budget.adjacency)
        return Receipt(type(budget).__name__, parameters, *guarantee, private=self.private)
