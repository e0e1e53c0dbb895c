"""Sample weights as records: row and target times the root of their weight."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.errors import ParameterError
from ndis.gram.cells import nested_cells
from ndis.gram.sources import choose_columns, open_source

__all__ = ["weighted_records"]

Floats = NDArray[np.float64]


def weighted_records(
    rows: Any, targets: Floats, weights: Any, *, bound: float, constant: float | None
) -> tuple[Floats, Floats]:
    """Rows (with the constant as a last column) and targets, times √weight; NaN where a weight is not positive.

    Every operation is elementwise, so a record's numbers depend on that record only.

    >>> x, y = weighted_records(np.ones((2, 1)), np.ones((2, 1)), [4.0, 0.0], bound=9.0, constant=0.5)
    >>> x.tolist(), y.tolist()
    ([[2.0, 1.0], [nan, nan]], [[2.0], [nan]])
    """
    if isinstance(weights, list | tuple):
        weights = nested_cells("sample_weight", weights)
    source = open_source((rows, targets))
    blocks = list(source.read(choose_columns(source, None, None)))
    with np.errstate(all="ignore"):  # a warning would tell of the values
        given = np.asarray(weights, dtype=np.float64)
        x = np.concatenate([np.asarray(block[0], dtype=np.float64) for block in blocks])
        y = np.concatenate([np.asarray(block[1], dtype=np.float64) for block in blocks])
        if given.shape not in ((len(x),), ()):
            raise ParameterError(
                "sample_weight", "have one weight per row, in one dimension", f"{given.ndim} dimension(s)"
            )
        given = np.broadcast_to(given, (len(x),))
        root = np.sqrt(np.where(given > 0, np.minimum(given, bound), np.nan))[:, None]
        if constant is not None:
            x = np.hstack([x, np.full((len(x), 1), constant)])
        return x * root, y * root
