"""Sample weights as records: row and target times the root of their weight."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.errors import ParameterError
from ndis.gram.cells import kind_of, read_cells
from ndis.gram.columns import objects, series_cells
from ndis.gram.schema import choose_columns
from ndis.gram.sources import open_source

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
    source = open_source((rows, targets))
    blocks = list(source.read(choose_columns(source, None, None)))
    with np.errstate(all="ignore"):  # a warning would tell of the values
        given = _numbers(weights)
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


def _numbers(weights: Any) -> Floats:
    """Weights as float64, each cell read on its own; NaN where one is no number. Only a type can be refused."""
    series = series_cells(weights, numeric=True)
    if series is not None and series[0] not in ("number", "boolean", "cells"):
        raise ParameterError("sample_weight", "hold real numbers", series[0])
    listed = isinstance(weights, list | tuple)
    array = series[1] if series is not None else objects(weights) if listed else np.asarray(weights)
    if array.dtype.kind in "OUS":
        return read_cells(array)
    if array.dtype.kind not in "fiub":
        raise ParameterError("sample_weight", "hold real numbers", kind_of(array.dtype))
    return np.asarray(array, dtype=np.float64)
