"""The rounds of a linear fit: what is released, in which order, from which budget.

One Gram matrix, then rounds of clipped residual products at the solution so far. A histogram of the lengths of the
terms comes with every round but the last, and chooses the next clip. The last round hardly clips; sums of squared
residuals come with it. Noise is proportional to the clip, so the shift of every round is fixed in advance
(`ndis.mechanisms.rounds`).

Rows are divided by their bound, and targets by theirs: the solver works in these units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ndis._validate import Floats
from ndis.learn._empirical_bayes import NOISE_SHARE, Preconditioner, Round, posterior_mean
from ndis.learn._inference import Unshrunk, unshrunk
from ndis.learn._releases import EDGES, FIRST_CLIP, Releases, mean_square, next_clip, tail
from ndis.mechanisms.rounds import GaussianRounds

__all__ = ["LinearFit", "LinearReleases", "Measured", "calibrated_rounds", "fit_rounds"]

# Shares of the squared shift; chosen like the constants of the solver, and as little sensitive.
GRAM_SHARE = 0.25
ONE_ROUND_GRAM_SHARE = 0.45
COUNT_SHARE = 0.12  # of a round
CLIPPED_SHARE = 0.01  # of the count of clipped rows, if it is asked for: a few dozen rows of noise at epsilon 1
LAST_ROUND = 2.0  # rounds' worth of budget for the last round, which intervals need
BIAS_WEIGHT = 0.15
LAST_BIAS_WEIGHT = 1.0
_PACE = 2.0  # by how much the clip may change per round: histograms are noisy
_SQUARE_REACH = 6.0  # residuals are clipped at so many standard deviations before they are squared
_ROOM = 2.0  # a residual at θ may be so many target bounds long before its square is clipped


@lru_cache(maxsize=64)
def calibrated_rounds(
    *, epsilon: float, delta: float, adjacency: Any, rounds: int, clipped: bool = False
) -> GaussianRounds:
    """The budget of a fit, from public numbers only. With `clipped` the last count is that of clipped rows.

    >>> budget = calibrated_rounds(epsilon=1.0, delta=1e-6, adjacency="add-remove", rounds=3)
    >>> round(sum([budget.gram_share, *budget.sum_shares, *budget.count_shares]), 12)
    1.0
    """
    weights = np.ones(rounds)
    weights[-1] = LAST_ROUND if rounds > 1 else 1.0
    rest = 1.0 - (CLIPPED_SHARE if clipped else 0.0)
    gram = rest * (GRAM_SHARE if rounds > 1 else ONE_ROUND_GRAM_SHARE)
    shares = (rest - gram) * weights / weights.sum()
    counts = (COUNT_SHARE * shares).tolist()
    return GaussianRounds.calibrated(
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        gram_share=gram,
        sum_shares=tuple(((1.0 - COUNT_SHARE) * shares).tolist()),
        count_shares=(*(counts if rounds > 1 else [counts[0] / 2] * 2), *([CLIPPED_SHARE] if clipped else [])),
    )


@dataclass(frozen=True, eq=False)
class Measured:
    """The releases of one round, in the solver's units.

    Attributes
    ----------
    total, noise
        The sum of clipped terms, and the standard deviation of its noise.
    counts, count_noise
        The histogram, or the sums of squares.
    records : float or None
        The number of records, where it was released: in a fit of one round, which has no histogram.
    """

    total: Floats
    noise: float
    counts: Floats
    count_noise: float
    records: float | None = None


class LinearReleases(Releases):
    """Rounds of residual products, drawn exactly."""

    @property
    def targets(self) -> int:
        """Number of target columns."""
        return self._sums.targets

    def round(self, index: int, theta: Floats, *, clip: float, square_clip: float | None) -> Measured:
        """Release one round at θ; with `square_clip` sums of squares come with it, otherwise a histogram."""
        reach = None if square_clip is None else square_clip * self._term_unit
        found = self._sums.residual_products(
            theta * (self._term_unit / self._row),
            clip=clip * self._unit,
            square_clip=reach,
            edges=[edge * self.longest * self._unit for edge in EDGES],
        )
        total, noise = self._total(index, found, "residual products")
        if reach is None:
            return Measured(total, noise, *self._histogram(index, found))
        # One record's squares add up to at most R², and those of one target differ by at most R² in two records.
        squared = Fraction(reach) ** 4 * (self._replaced if self.targets > 1 else 1)
        squares, spread = self._counts(index, found.squares, squared_reach=squared, name="squared residuals")
        records = None
        if len(self.budget.sum_shares) == 1:
            records = float(self._counts(index + 1, [found.records], squared_reach=1, name="records")[0][0])
        return Measured(total, noise, squares / self._term_unit**2, spread / self._term_unit**2, records)

    def clipped(self, rows: int) -> float:
        """Release the number of rows that the schema changes; one record moves it by at most 1."""
        last = len(self.budget.count_shares) - 1
        return float(self._counts(last, [rows], squared_reach=1, name="clipped rows")[0][0])


class LinearFit(NamedTuple):
    """The result of a fit in the solver's units: θ for predictions, and an estimate without shrinkage for intervals."""

    theta: Floats
    estimate: Unshrunk


def fit_rounds(data: LinearReleases, *, rounds: int) -> LinearFit:
    """Make all releases, and solve. With one round nothing is clipped: the plain solution from a Gram matrix."""
    gram, s = data.gram()
    matrix = Preconditioner.of(gram, noise=s, constant=data.constant)
    theta = np.zeros((data.predictors, data.targets))
    done: list[Round] = []
    seen: list[Measured] = []
    clips = [FIRST_CLIP * data.longest if rounds > 1 else data.longest]
    for index in range(rounds - 1):
        found = data.round(index, theta, clip=clips[-1], square_clip=None)
        done.append(Round(theta, found.total, found.noise, _bias(found, clips[0], data.longest) if index == 0 else 0.0))
        seen.append(found)
        theta = posterior_mean(done, matrix)
        clips.append(_next(seen, clips[-1], data, last=index == rounds - 2))
    spread = float(np.trace(gram)) / max(_records(seen), 1.0)
    last = data.round(rounds - 1, theta, clip=clips[-1], square_clip=_square_clip(seen, data.longest, spread))
    done.append(Round(theta, last.total, last.noise))
    estimate = unshrunk(
        done[-1],
        gram,
        noise=s,
        squares=last.counts,
        square_noise=last.count_noise,
        records=_records(seen) if last.records is None else last.records,
    )
    return LinearFit(posterior_mean(done, matrix), estimate)


def _bias(found: Measured, clip: float, longest: float) -> float:
    """The loss by clipping in the first round, whose clip was a guess, beyond its noise; per entry."""
    taken = BIAS_WEIGHT * longest * tail(found.counts, clip / longest)
    return math.sqrt(NOISE_SHARE * max(taken**2 / found.total.size - found.noise**2, 0.0))


def _next(seen: list[Measured], clip: float, data: LinearReleases, *, last: bool) -> float:
    """The clip of the next round."""
    counts = _steady(seen) if last else seen[-1].counts
    chosen = data.longest * next_clip(
        counts,
        entries=seen[-1].total.size,
        shift=data.shift(len(seen)),
        weight=LAST_BIAS_WEIGHT if last else BIAS_WEIGHT,
    )
    return max(chosen, clip / _PACE) if last else min(max(chosen, clip / _PACE), clip * _PACE)


def _steady(seen: list[Measured]) -> Floats:
    """The mean histogram of the later rounds, up to its first bin beyond the fullest one that may be noise only."""
    later = seen[len(seen) // 2 :]
    mean = np.mean([found.counts for found in later], axis=0)
    sure = mean > 2.0 * later[0].count_noise / math.sqrt(len(later))
    fullest = int(mean.argmax())
    sure[fullest:] = np.logical_and.accumulate(sure[fullest:])
    return np.where(sure, mean, 0.0)


def _square_clip(seen: list[Measured], longest: float, spread: float) -> float:
    """The clip of residuals before they are squared: a few standard deviations, or a target bound if these are unknown.

    The variance is, roughly, the mean squared length over the mean squared row norm, ``spread``.
    """
    if not seen or not spread > 0:
        return 1.0
    counts = _steady(seen)
    deviation = math.sqrt(longest**2 * mean_square(counts) / spread) if counts.any() else 0.0
    return min(_SQUARE_REACH * deviation, _ROOM) if deviation > 0 else 1.0


def _records(seen: list[Measured]) -> float:
    """The number of records: histograms add up to it."""
    return float(np.mean([found.counts.sum() for found in seen])) if seen else 0.0
