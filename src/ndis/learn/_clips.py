"""Choose the clips of rounds from noisy histograms of the lengths of their terms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from ndis._validate import Floats
from ndis.describing.statistics import TIMES, tails

EDGES: tuple[float, ...] = tuple(2.0**k for k in range(-7, 3))  # upper ends of the bins; beyond the last is one more
FIRST_CLIP = 0.25  # before anything is known, in units of the longest row and of the bound of targets
SPREAD_CLIP = 1.0  # the same where the spread of the targets is the unit
CLIPS: Floats = 2.0 ** (np.arange(-56, 25) / 8)  # the clips that are tried
_MIDDLES: Floats = 0.75 * np.array([*EDGES, 2 * EDGES[-1]])


def tail(histogram: Floats, clip: float) -> float:
    """Estimate the length that a clip takes from all terms together, Σ (length − clip)⁺, from the noisy histogram.

    >>> tail(np.r_[np.zeros(7), 10.0, 2.0, np.zeros(2)], 1.0)  # two terms between 1 and 2
    1.0
    """
    return float(np.maximum(_MIDDLES - clip, 0.0) @ np.maximum(histogram, 0.0))


def next_clip(histogram: Floats, *, entries: int, shift: float, weight: float) -> float:
    """Choose the clip with the least sum of squared noise and squared bias.

    The noise of a sum of ``entries`` numbers has norm √entries·clip/shift. The bias is at most `tail`, if all clipped
    terms point the same way; `weight` is the share of it that is expected. With many records the bias outweighs the
    noise, and then hardly a term is clipped.

    >>> few, many = (np.r_[np.zeros(5), n, n, n / 8, np.zeros(3)] for n in (100.0, 1e6))
    >>> [round(next_clip(h, entries=10, shift=0.1, weight=0.15), 3) for h in (few, many)]
    [0.162, 0.771]
    """
    cost = [entries * (c / shift) ** 2 + (weight * tail(histogram, c)) ** 2 for c in CLIPS]
    return float(CLIPS[int(np.argmin(cost))])


# ---------------------------------------------------------------------- the last round

FINE_EDGES: tuple[float, ...] = tuple(2.0 ** (k / 2) for k in range(-14, 5))  # the last clip has a fine histogram
_FINE_MIDDLES: Floats = 2.0**-0.25 * np.array([*FINE_EDGES, FINE_EDGES[-1] * 2.0**0.5])
_BIASED = 0.2  # the square of what the last clip may take, over the variance by noise and sampling, at most
_FARTHEST = 16.0  # terms beyond it, in units of the histogram, are taken to be none
_TAIL = 0.05  # laws are fitted to this share of the terms,
_RARE = 0.04  # so records that are far away make a bump of the tail if they have less than this share
_FACTORS = 11  # terms of rare records are longer by a factor: each one of fewer bins is tried,
_FACTOR, _UNSURE = 3.0, 2.0  # and this is the mean number of bins by its prior, and its standard deviation
_ALONG = 3.0  # times the entries: how much more counts what the clip of Σ ttᵀ takes from rare records


class LastClips(NamedTuple):
    """The last round has a clip for its sum, and a smaller one for Σ ttᵀ, whose noise grows with the square.

    Attributes
    ----------
    clip : float
    taken : float
        The squared length that it may take from all terms together.
    squares : float
        The clip of Σ ttᵀ.
    grown : float
        Σ‖t‖² with the first clip, over that with the second one.
    """

    clip: float
    taken: float
    squares: float
    grown: float


def last_clips(
    histogram: Floats, noise: float, *, entries: int, shift: float, square_noise: float, farthest: float = 16.0,
    rare: float = 0.0,
) -> LastClips:  # fmt: skip
    """Choose the clips of the last round from a fine histogram of the lengths ℓ of terms.

    The longest terms are few, and the noise hides them. So laws are fitted to the number of long terms, and weighted by
    their likelihood. They begin at the longest 5 % of all, or where the noise does, and end at `farthest`. A share
    `rare` of the records is far away: their terms are taken to be longer by a factor, and each factor has a likelihood.
    The clip takes at most Σ (ℓ − clip)⁺, if all long terms point the same way, and intervals count the mean square of
    this as variance. If they point either way it takes nothing, and 95 % intervals cover 97 % if 1.2 times the variance
    is counted. So the clip is the best one of those for which at most a fifth is counted. The noise of Σ ttᵀ changes
    coverage by its square, and what its clip takes by itself: their sum is the least. What it takes from rare records
    counts more, because it is taken along one direction.

    >>> lengths = np.r_[np.zeros(10), 400.0, 300.0, 100.0, np.zeros(7)]
    >>> found = last_clips(lengths, 5.0, entries=4, shift=0.15, square_noise=20.0)
    >>> [round(each, 2) for each in found]
    [0.42, 8.41, 0.42, 1.0]
    """
    clips, start, rare, farthest = CLIPS, None, rare * (rare < _RARE), min(farthest, _FARTHEST)
    one, two, fits = [], [], []
    for k in range(_FACTORS if rare else 1):
        longer = rare * np.append(np.zeros(k), histogram)[: len(histogram)]
        start, count, laws, fit = tails(np.array(FINE_EDGES), histogram - longer, noise, _TAIL, start=start)
        terms = (histogram - longer, longer, start, count, laws, farthest)
        one.append(_taken(1, *terms))
        two.append(_taken(2, *terms))
        fits.append(fit - ((k - _FACTOR) / _UNSURE) ** 2 / 2.0)
    weights = np.exp(np.concatenate(fits) - logsumexp(np.concatenate(fits)))
    own, taken, lost = entries * (clips / shift) ** 2, weights @ np.concatenate(one) ** 2, weights @ np.concatenate(two)
    sampled = float(lost[0]) + float(clips[0]) ** 2 * max(float(histogram.sum()), noise)
    little = taken <= _BIASED * (own + sampled)
    best = int(np.argmin(np.where(little, own + taken, np.inf))) if little.any() else len(clips) - 1
    along = _ALONG * entries if rare else 1.0
    squares = min(int(np.argmin((entries * square_noise * clips**2 / sampled) ** 2 + along * lost / sampled)), best)
    grown = (sampled - float(lost[best])) / (sampled - float(lost[squares]))
    return LastClips(float(clips[best]), float(taken[best]), float(clips[squares]), grown)


def _taken(
    power: int, known: Floats, longer: Floats, start: int, count: float, laws: Floats, farthest: float
) -> Floats:
    """Return Σ (ℓᵏ − clipᵏ)⁺ by law and clip: of known terms up to an edge, of laws beyond it, and of longer terms."""
    clips, edge = CLIPS, FINE_EDGES[start]
    times = TIMES[TIMES * edge <= max(farthest, 2.0 * edge)]
    areas = np.diff(times**power) * (laws[:, 1 : len(times)] + laws[:, : len(times) - 1]) / 2
    after = np.cumsum(areas[:, ::-1], axis=1)[:, ::-1]  # the integral of a law from each of the times on
    over = np.array([np.interp(clips / edge, times, [*each, 0.0]) for each in after])
    over += np.maximum(1.0 - (clips / edge) ** power, 0.0)
    lengths = np.append(np.minimum(_FINE_MIDDLES[: start + 1], edge), _FINE_MIDDLES)
    counts = np.maximum(np.append(known[: start + 1], longer), 0.0)
    within = np.maximum(lengths**power - clips[:, None] ** power, 0.0) @ counts
    return np.asarray(within + count * edge**power * over)
