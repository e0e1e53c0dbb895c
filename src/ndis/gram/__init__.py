"""Turn rows into their exact integer Gram matrix, from a laptop to a cluster (thm:exact-gram).

>>> import numpy as np
>>> from ndis.gram import exact_gram
>>> rows = np.random.default_rng(0).normal(size=(1000, 3))
>>> whole = exact_gram(rows, row_norm_bound=2.0)
>>> shuffled = exact_gram(rows[::-1], row_norm_bound=2.0)
>>> whole == shuffled
True

Everything here is private: a Gram matrix is exact and carries no noise.
"""

from ndis.gram.accumulator import Gram, GramAccumulator, exact_gram
from ndis.gram.leverage import WorstRow, leverage, worst_row
from ndis.gram.rows import DEFAULT_FRACTIONAL_BITS, RowLayout

__all__ = [
    "DEFAULT_FRACTIONAL_BITS", "Gram", "GramAccumulator", "RowLayout", "WorstRow", "exact_gram", "leverage",
    "worst_row",
]  # fmt: skip
