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
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ndis.gram.sums import RecordSums
from ndis.learn._clip import EDGES, FIRST_CLIP, mean_square, next_clip, tail
from ndis.learn._empirical_bayes import NOISE_SHARE, Preconditioner, Round, posterior_mean
from ndis.learn._inference import Unshrunk, unshrunk
from ndis.mechanisms.rounds import GaussianRounds

__all__ = ["LinearFit", "Measured", "Measurements", "Releases", "calibrated_rounds", "fit_rounds"]

Floats = NDArray[np.float64]

# Shares of the squared shift; chosen like the constants of the solver, and as little sensitive.
GRAM_SHARE = 0.25
COUNT_SHARE = 0.12  # of a round
LAST_ROUND = 2.0  # rounds' worth of budget for the last round, which intervals need
BIAS_WEIGHT = 0.15
LAST_BIAS_WEIGHT = 1.0
_PACE = 2.0  # by how much the clip may change per round: histograms are noisy
_SQUARE_REACH = 6.0  # residuals are clipped at so many standard deviations before they are squared
_ROOM = 2.0  # a residual at θ may be so many target bounds long before its square is clipped


@lru_cache(maxsize=64)
def calibrated_rounds(*, epsilon: float, delta: float, adjacency: Any, rounds: int) -> GaussianRounds:
    """The budget of a fit, from public numbers only.

    >>> budget = calibrated_rounds(epsilon=1.0, delta=1e-6, adjacency="add-remove", rounds=3)
    >>> round(sum([budget.gram_share, *budget.sum_shares, *budget.count_shares]), 12)
    1.0
    """
    weights = np.ones(rounds)
    weights[-1] = LAST_ROUND if rounds > 1 else 1.0
    gram = GRAM_SHARE if rounds > 1 else 0.45
    shares = (1.0 - gram) * weights / weights.sum()
    return GaussianRounds.calibrated(
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        gram_share=gram,
        sum_shares=tuple(((1.0 - COUNT_SHARE) * shares).tolist()),
        count_shares=tuple((COUNT_SHARE * shares).tolist()),
    )


@dataclass(frozen=True, eq=False)
class Measured:
    """What one round released, in the solver's units.

    Attributes
    ----------
    total, noise
        The sum of clipped terms, and the standard deviation of its noise.
    counts, count_noise
        The histogram, or the sums of squares.
    """

    total: Floats
    noise: float
    counts: Floats
    count_noise: float


class Measurements(Protocol):
    """Where rounds come from."""

    predictors: int
    targets: int
    constant: bool
    longest: float

    def gram(self) -> tuple[Floats, float]:
        """The noisy Gram matrix and s."""

    def round(self, index: int, theta: Floats, *, clip: float, square_clip: float | None) -> Measured:
        """One round at θ; with `square_clip` sums of squares come with it, otherwise a histogram."""

    def shift(self, index: int) -> float:
        """Clip over noise of a round."""


class Releases:
    """Rounds drawn exactly from exact sums.

    Parameters
    ----------
    sums : RecordSums
    budget : GaussianRounds
    bits
        The source of randomness of all draws.
    target_bound : float
    constant : bool
        Whether the last predictor is a constant (times the root of a weight).

    Attributes
    ----------
    private : bool
        False if any draw came from a seed.
    log : list
        Clip, noise and grid of every release, for the receipt.
    """

    def __init__(
        self, sums: RecordSums, budget: GaussianRounds, bits: Any, *, target_bound: float, constant: bool
    ) -> None:
        self._sums, self._budget, self._bits = sums, budget, bits
        layout = sums.layout
        self._row, self._target = layout.row_norm_bound, target_bound
        self._length_squared = layout.joint_norm_bound_squared
        self.predictors, self.targets, self.constant = layout.width, sums.targets, constant
        self.longest = math.sqrt(float(self._length_squared)) / self._row
        self.private = True
        self.log: list[dict[str, Any]] = []

    def gram(self) -> tuple[Floats, float]:
        """Release the Gram matrix."""
        sample = self._budget.release_gram(self._sums.gram(), random_state=self._bits)
        noise = self._budget.gram_noise(self._length_squared)
        self._note({"release": "gram", "noise_std": noise, "grid": sample.grid}, sample)
        return np.asarray(sample.values) / self._row**2, noise / self._row**2

    def shift(self, index: int) -> float:
        """Clip over noise of a round."""
        return 1.0 / self._budget.sum_noise(index, clip=1.0)

    def round(self, index: int, theta: Floats, *, clip: float, square_clip: float | None) -> Measured:
        """Release one round."""
        unit = self._row * self._target
        reach = None if square_clip is None else square_clip * self._target
        found = self._sums.residual_products(
            theta * (self._target / self._row),
            clip=clip * unit,
            square_clip=reach,
            edges=[edge * self.longest * unit for edge in EDGES],
        )
        total = self._budget.release_sum(index, found, random_state=self._bits)
        noise = self._budget.sum_noise(index, clip=found.clip)
        self._note({"release": "residual products", "clip": found.clip, "noise_std": noise, "grid": total.grid}, total)
        replaced = 1 if self._budget.adjacency == "add-remove" else 2
        if reach is None or found.squares is None:
            values: Any = found.histogram
            squared, scale, name = replaced, 1.0, "histogram of lengths"
        else:
            values, scale, name = found.squares, self._target**2, "squared residuals"
            squared = Fraction(reach) ** 4 * (1 if self.targets == 1 else replaced)
        counts = self._budget.release_count(index, values, squared_reach=squared, random_state=self._bits)
        spread = self._budget.count_noise(index, squared_reach=squared)
        self._note({"release": name, "noise_std": spread, "grid": counts.grid}, counts)
        return Measured(
            np.asarray(total.values).reshape(self.predictors, self.targets) / unit,
            noise / unit,
            np.asarray(counts.values, dtype=np.float64) / scale,
            spread / scale,
        )

    def _note(self, entry: dict[str, Any], sample: Any) -> None:
        self.private = self.private and sample.private
        self.log.append(entry)


@dataclass(frozen=True, eq=False)
class LinearFit:
    """The result of a fit in the solver's units: θ for predictions, and an estimate without shrinkage for intervals."""

    theta: Floats
    estimate: Unshrunk
    clips: tuple[float, ...]


def fit_rounds(data: Measurements, *, rounds: int) -> LinearFit:
    """Make all releases, and solve. With one round nothing is clipped: the plain solution from a Gram matrix."""
    gram, s = data.gram()
    matrix = Preconditioner.of(gram, noise=s, constant=data.constant)
    theta = np.zeros((data.predictors, data.targets))
    entries = theta.size
    done: list[Round] = []
    clips: list[float] = []
    counted: list[float] = []
    clip, deviation = FIRST_CLIP * data.longest if rounds > 1 else data.longest, 0.0
    squares, square_noise = np.zeros(data.targets), math.inf
    for index in range(rounds):
        last = index == rounds - 1
        reach = _square_clip(deviation) if last else None
        found = data.round(index, theta, clip=clip, square_clip=reach)
        clips.append(clip)
        bias = 0.0
        if last:
            squares, square_noise = found.counts, found.count_noise
        else:
            taken = data.longest * tail(found.counts, clip / data.longest)
            if index == 0:  # its clip was a guess
                bias = math.sqrt(NOISE_SHARE * max((BIAS_WEIGHT * taken) ** 2 / entries - found.noise**2, 0.0))
            counted.append(float(found.counts.sum()))
            deviation = _deviation(found, gram, data.longest, sum(counted) / len(counted))
        done.append(Round(theta, found.total, found.noise, bias))
        if not last:
            theta = posterior_mean(done, matrix)
            weight = LAST_BIAS_WEIGHT if index == rounds - 2 else BIAS_WEIGHT
            shift = data.shift(index + 1)
            chosen = data.longest * next_clip(found.counts, entries=entries, shift=shift, weight=weight)
            fastest = _PACE * clip if index < rounds - 2 else math.inf
            clip = min(max(chosen, clip / _PACE), fastest)
    final = done[-1]
    records = _records(counted, gram, data)
    estimate = unshrunk(final, gram, noise=s, squares=squares, square_noise=square_noise, records=records)
    return LinearFit(posterior_mean(done, matrix), estimate, tuple(clips))


def _deviation(found: Measured, gram: Floats, longest: float, records: float) -> float:
    """Standard deviation of the residuals, roughly: mean squared length over mean squared row norm."""
    spread = float(np.trace(gram))
    if not (spread > 0 and records > 1):
        return 0.0
    return math.sqrt(longest**2 * mean_square(found.counts, noise=found.count_noise) * records / spread)


def _square_clip(deviation: float) -> float:
    """Where to clip residuals before they are squared; a target bound or two if nothing is known."""
    return min(_SQUARE_REACH * deviation, _ROOM) if deviation > 0 else 1.0


def _records(counted: list[float], gram: Floats, data: Measurements) -> float:
    """The number of records: histograms add up to it, and so does the constant's diagonal entry."""
    if counted:
        return sum(counted) / len(counted)
    if data.constant:
        return float(gram[-1, -1]) / (data.longest**2 - 1.0)
    return float(np.trace(gram))  # rows have norm 1 at most: a lower bound, which makes intervals longer
