"""Choose the clip of the next round from the noisy histogram of the lengths of the terms.

Lengths are in units of the longest term at θ = 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["EDGES", "FIRST_CLIP", "mean_square", "next_clip", "tail"]

Floats = NDArray[np.float64]

EDGES: tuple[float, ...] = tuple(2.0**k for k in range(-7, 3))  # upper ends of the bins; beyond the last is one more
FIRST_CLIP = 0.25  # before anything is known
_MIDDLES: Floats = 0.75 * np.array([*EDGES, 2 * EDGES[-1]])
_CANDIDATES: Floats = np.sort(np.concatenate([EDGES, np.sqrt(0.5) * np.array(EDGES)]))


def tail(histogram: Floats, clip: float) -> float:
    """How much a clip takes from all terms together, Σ (length − clip)⁺, from the noisy histogram.

    >>> tail(np.r_[np.zeros(7), 10.0, 2.0, np.zeros(2)], 1.0)  # two terms between 1 and 2
    1.0
    """
    return float(np.maximum(_MIDDLES - clip, 0.0) @ np.maximum(histogram, 0.0))


def next_clip(histogram: Floats, *, entries: int, shift: float, weight: float) -> float:
    """The clip with the least sum of squared noise and squared bias.

    The noise of a sum of ``entries`` numbers has norm √entries·clip/shift. The bias is at most `tail`, if all clipped
    terms point the same way; `weight` is the part of it that is expected. With many records the bias outweighs the
    noise, and then hardly a term is clipped.

    >>> few, many = (np.r_[np.zeros(5), n, n, n / 8, np.zeros(3)] for n in (100.0, 1e6))
    >>> [next_clip(h, entries=10, shift=0.1, weight=0.15) for h in (few, many)]
    [0.1767766952966369, 1.0]
    """
    cost = [entries * (c / shift) ** 2 + (weight * tail(histogram, c)) ** 2 for c in _CANDIDATES]
    return float(_CANDIDATES[int(np.argmin(cost))])


def mean_square(histogram: Floats) -> float:
    """Mean squared length, from a histogram without noise-only bins.

    >>> mean_square(np.r_[np.zeros(7), 10.0, np.zeros(3)])
    0.5625
    """
    return float(_MIDDLES**2 @ histogram / histogram.sum())
