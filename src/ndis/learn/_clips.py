"""Choose the clip of the next round of a fit from the noisy histogram of the lengths of its terms, and its shape.

Lengths are in units of the longest row, and in the last round in a unit of its own.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from ndis._validate import Floats
from ndis.learn._empirical_bayes import NOISE_SHARE

__all__ = ["EDGES", "FINE_EDGES", "FIRST_CLIP", "clip_bias", "last_clip", "last_shape", "next_clip", "tail"]

EDGES: tuple[float, ...] = tuple(2.0**k for k in range(-7, 3))  # upper ends of the bins; beyond the last is one more
FINE_EDGES: tuple[float, ...] = tuple(2.0 ** (k / 2) for k in range(-14, 5))  # the last clip has a finer histogram
FIRST_CLIP = 0.25  # before anything is known
_MIDDLES: Floats = 0.75 * np.array([*EDGES, 2 * EDGES[-1]])
_FINE_MIDDLES: Floats = 2.0**-0.25 * np.array([*FINE_EDGES, FINE_EDGES[-1] * 2.0**0.5])
_CANDIDATES: Floats = 2.0 ** (np.arange(-56, 25) / 8)
_TAKEN = 1.5  # the standard deviation of what the last clip takes, over its estimate: errors may be skew
_TAIL = 0.05  # the share of the longest terms to which a law is fitted,
_TAIL_NOISE = 6.0  # or this many standard deviations of the noise of a bin, if that is more
_TAIL_FIT = 0.2  # relative error of the share of a bin by a law
_TIMES: Floats = 2.0 ** (np.arange(97) / 8)  # lengths over that where the law starts
_WIDEST_SHAPE = 4.0  # the last round weighs no direction more than this many times another
_FARTHEST = 16.0  # terms beyond it, in units of the histogram, are taken to be none


def tail(histogram: Floats, clip: float) -> float:
    """Estimate the length that a clip takes from all terms together, Σ (length − clip)⁺, from the noisy histogram.

    >>> tail(np.r_[np.zeros(7), 10.0, 2.0, np.zeros(2)], 1.0)  # two terms between 1 and 2
    1.0
    """
    return float(np.maximum(_MIDDLES - clip, 0.0) @ np.maximum(histogram, 0.0))


def clip_bias(histogram: Floats, clip: float, *, noise: float, entries: int, weight: float) -> float:
    """Estimate the loss by clipping in a round, beyond its noise; per entry."""
    taken = weight * tail(histogram, clip)
    return math.sqrt(NOISE_SHARE * max(taken**2 / entries - noise**2, 0.0))


def next_clip(histogram: Floats, *, entries: int, shift: float, weight: float) -> float:
    """Choose the clip with the least sum of squared noise and squared bias.

    The noise of a sum of ``entries`` numbers has norm √entries·clip/shift. The bias is at most `tail`, if all clipped
    terms point the same way; `weight` is the share of it that is expected. With many records the bias outweighs the
    noise, and then hardly a term is clipped.

    >>> few, many = (np.r_[np.zeros(5), n, n, n / 8, np.zeros(3)] for n in (100.0, 1e6))
    >>> [round(next_clip(h, entries=10, shift=0.1, weight=0.15), 3) for h in (few, many)]
    [0.162, 0.771]
    """
    cost = [entries * (c / shift) ** 2 + (weight * tail(histogram, c)) ** 2 for c in _CANDIDATES]
    return float(_CANDIDATES[int(np.argmin(cost))])


@cache
def _tail_laws() -> Floats:
    """Return P(length > xℓ) = exp(−a(xᵇ − 1)/b) at the `_TIMES` x, for many a and b: from powers to normal laws.

    −d log P/d log x = axᵇ is at least 2 after four doublings, so that the variance of a mean is no matter of luck.
    """
    start, growth = np.meshgrid(2.0 ** np.arange(-0.5, 2.1, 0.25), [1e-9, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0, 2.0])
    a, b = (each[start * 16.0**growth >= 2.0][:, None] for each in (start, growth))
    return np.asarray(np.exp(-a * np.expm1(b * np.log(_TIMES)) / b))


def last_clip(histogram: Floats, noise: float, *, entries: int, shift: float) -> tuple[float, float]:
    """Choose the clip of the last round from a fine histogram; with the standard deviation of the length that it takes.

    The longest terms are few, and the noise hides them. So laws are fitted to the number of long terms: an average of
    all laws, weighted by their likelihood, tells what is beyond any length.

    >>> clip, taken = last_clip(np.r_[np.zeros(10), 400.0, 300.0, 100.0, np.zeros(7)], 5.0, entries=4, shift=0.15)
    >>> round(clip, 2), round(taken, 1)
    (0.42, 3.8)
    """
    edges, longer = np.array(FINE_EDGES), np.cumsum(histogram[::-1])[::-1][1:]  # longer[i]: terms beyond edges[i]
    start = int(np.argmax(longer <= max(_TAIL * float(histogram.sum()), _TAIL_NOISE * noise)))
    start = min(start, len(edges) - 2)
    edge, count = edges[start], max(float(longer[start]), noise)
    laws = _tail_laws()
    beyond = laws[:, : 4 * (len(edges) - start) : 4]  # two edges are four of the times apart
    expected = -count * np.diff(beyond, append=0.0)
    variance = noise**2 + expected + (_TAIL_FIT * expected) ** 2
    fit = -(np.square(histogram[start + 1 :] - expected) / variance + np.log(variance)).sum(axis=1) / 2
    weights = np.exp(fit - fit.max())
    law, times = weights @ laws / weights.sum(), _TIMES[_TIMES * edge <= _FARTHEST]
    areas = np.diff(times) * (law[1 : len(times)] + law[: len(times) - 1]) / 2
    after = np.append(np.cumsum(areas[::-1])[::-1], 0.0)  # the integral of the law from each of the times on
    within = np.maximum(np.minimum(_FINE_MIDDLES, edge) - _CANDIDATES[:, None], 0.0)[:, : start + 1]
    over = np.interp(_CANDIDATES / edge, times, after) + np.maximum(1.0 - _CANDIDATES / edge, 0.0)
    taken = _TAKEN * (np.maximum(within @ histogram[: start + 1], 0.0) + count * edge * over)
    best = int(np.argmin(entries * (_CANDIDATES / shift) ** 2 + taken**2))
    return float(_CANDIDATES[best]), float(taken[best])


def last_shape(terms: Floats, noise: float, records: float) -> Floats:
    """Return a root of the inverse of the mean of ttᵀ of all targets, nearer to a sphere by as much as may be noise.

    >>> last_shape(np.diag([400.0, 100.0])[None], 1.0, 100.0).round(2).tolist()
    [[0.5, 0.0], [0.0, 1.0]]
    """
    terms, p = terms.sum(axis=0), len(terms[0])
    sphere = max(float(np.trace(terms)) / p, noise) * np.eye(p)
    away = float(((terms - sphere) ** 2).sum())
    weight = max(1.0 - noise**2 * p * (p + 1) / 2 / away, 0.0) if away > 0 else 0.0
    values, vectors = np.linalg.eigh(sphere + weight * (terms - sphere))
    least = max(noise * math.sqrt(2.0 * p) * weight, float(values[-1]) / _WIDEST_SHAPE**2)
    return np.asarray((vectors * np.sqrt(records / np.maximum(values, least))) @ vectors.T)
