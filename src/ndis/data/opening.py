"""The sources of rows: arrays, frames, tables, tensors and files, each opened as a `Source`.

Opening checks types and shapes. No check looks at a value.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.data.columns import memory_columns, stacked
from ndis.data.files import file_source
from ndis.data.paths import is_paths
from ndis.data.source import Groups, Parts, Source, check_dtype, choose_columns, matrix_width, pick, rows_per_read
from ndis.errors import ParameterError

__all__ = ["open_source"]


def open_source(data: Any, *, columns: Any = None, header: bool = False, progress: bool | None = None) -> Source:
    """Open arrays, sparse matrices, frames, tables, tensors or file paths, or a table with its schema.

    `columns` and `header` say what the columns of a CSV file are called; see `ndis.data.files.file_source`.

    >>> open_source(np.zeros((3, 2))).width
    2
    """
    if isinstance(data, Source):
        return data
    if hasattr(type(data), "__ndis_source__"):  # a table with its schema, `ndis.schema.Table`
        if header:
            remedy = "schema.table(data, header=True)"
            raise ParameterError("header", "be part of the table with its schema", header, remedy)
        opened: Source = data.__ndis_source__(progress=progress)
        return opened
    if isinstance(data, tuple) and len(data) == 2:
        if any(isinstance(part, str | os.PathLike) for part in data):
            raise ParameterError("data", "be a pair (X, y) in memory", "paths", "pass a list of paths and name targets")
        return _pair(*(open_source(part) for part in map(_as_matrix, data)))
    if is_paths(data):
        return file_source(data, columns=columns, header=header, progress=progress)
    if header:
        raise ParameterError("header", "be left out for data other than CSV files", header)
    module = type(data).__module__.partition(".")[0]
    if isinstance(data, np.ndarray):
        return _array(data)
    openers = {"scipy": _sparse, "pandas": _frame, "polars": _frame, "pyarrow": _frame, "torch": _torch}
    if module in openers:
        return openers[module](data)
    if module in ("dask", "dask_expr"):
        remedy = "RandomProjection.release reduces one, with its targets named among its columns"
        raise ParameterError("data", "be in memory or in files here", "a dask collection", remedy)
    raise ParameterError(
        "data",
        "be an array, a sparse matrix, a data frame, an Arrow table, a tensor, a dask collection or a path",
        type(data).__name__,
    )


def _as_matrix(part: Any) -> Any:
    """A vector of targets, a series included, as one column."""
    if getattr(part, "ndim", 2) != 1:
        return part
    if hasattr(part, "to_frame"):
        return part.to_frame()
    return part.reshape(-1, 1)


def _pair(left: Source, right: Source) -> Source:
    whole = choose_columns(left, None, None), choose_columns(right, None, None)  # all columns, or a refusal by name

    def read(groups: Groups) -> Iterator[Parts]:
        # The two sides may cut their rows differently, so each is joined first; both are in memory anyway.
        x = _join([block for (block,) in left.read(whole[0])], left.width)
        y = _join([block for (block,) in right.read(whole[1])], right.width)
        if len(x) != len(y):
            raise ParameterError("data", "be a pair (X, y) with equally many rows", "another number in y")
        yield x, y

    names = left.names + right.names if left.names and right.names else ()
    if len(set(names)) < len(names):
        names = ()
    return Source(left.width + right.width, read, names, target_width=right.width, device=left.device)


def _join(blocks: list[Any], width: int) -> Any:
    return blocks[0] if len(blocks) == 1 else np.concatenate([np.empty((0, width)), *blocks])


def _array(x: NDArray[Any]) -> Source:
    if isinstance(x, np.ma.MaskedArray):
        raise ParameterError("data", "be a plain array", "a masked array", "fill masked entries with NaN")
    width = matrix_width(x.shape)
    check_dtype(x.dtype)
    plain = np.asarray(x)

    def read(groups: Groups) -> Iterator[Parts]:
        yield tuple(pick(plain, g) for g in groups)

    return Source(width, read)


def _sparse(x: Any) -> Source:
    from scipy.sparse import issparse

    if not issparse(x):
        raise ParameterError("data", "be a SciPy sparse matrix or array", type(x).__name__)
    width = matrix_width(x.shape)
    check_dtype(x.dtype)
    rows = x.tocsr()
    step = rows_per_read(width)

    def read(groups: Groups) -> Iterator[Parts]:
        for start in range(0, rows.shape[0], step):
            block = rows[start : start + step].toarray()
            yield tuple(pick(block, g) for g in groups)

    return Source(width, read)


def _frame(data: Any) -> Source:
    """A frame or a table, by the types of its columns."""
    if hasattr(data, "ndim"):  # a series of pandas, which is no frame
        matrix_width(data.shape)
    found = memory_columns(data, names=())
    names = tuple(found.kinds)

    def read(groups: Groups) -> Iterator[Parts]:
        cuts = [sum(map(len, groups[:i])) for i in range(len(groups) + 1)]
        for block in found.read(tuple((names[i], True) for group in groups for i in group)):
            yield tuple(stacked(block[a:b]) for a, b in pairwise(cuts))

    return Source(len(names), read, names, {i: found.refused[n] for i, n in enumerate(names) if n in found.refused})


def _torch(tensor: Any) -> Source:
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise ParameterError("data", "be a torch tensor", type(tensor).__name__)
    width = matrix_width(tuple(tensor.shape))
    if tensor.is_complex() or tensor.layout != torch.strided:
        raise ParameterError("data", "be a dense tensor of real numbers", f"{tensor.dtype}, {tensor.layout}")
    rows = tensor.detach()
    if rows.device.type == "cpu":
        return _array((rows.float() if rows.dtype in (torch.bfloat16, torch.float16) else rows).numpy())

    def read(groups: Groups) -> Iterator[Parts]:
        yield tuple(pick(rows, g) for g in groups)

    return Source(width, read, device=str(rows.device))
