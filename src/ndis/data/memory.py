"""Open data in memory as a table, by types only: arrays, frames, Arrow tables, mappings and tensors.

No cell raises anything, and none changes how another one is read. In particular a column has the same declared types
whether or not a cell is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import require
from ndis.data.cells import kind_of_array, objects, text_objects, unwrapped
from ndis.data.frames import arrow_table, pandas_table, polars_table
from ndis.data.sparse import sparse_table
from ndis.data.table import Groups, Parts, Table, check_names, matrix_width, pick, same_length, side_by_side, together
from ndis.errors import ParameterError


def memory_table(data: Any) -> Table:
    """Open data in memory.

    >>> memory_table({"a": [1, "x"], "b": np.array([True, False])}).kinds
    (frozenset({'cells'}), frozenset({'boolean'}))
    """
    module = type(data).__module__.partition(".")[0]
    if isinstance(data, np.ndarray):
        return _array(data)
    if module in _OPENERS:
        opener, types = _OPENERS[module]
        if getattr(data, "ndim", 2) == 1:  # a series, which is no frame
            matrix_width(data.shape)
        if types and type(data).__name__ not in types:
            rule = f"be a {module} {' or '.join(types)}"
            raise ParameterError("data", rule, type(data).__name__, "collect it, or pass the path")
        return opener(data)
    if isinstance(data, Mapping):  # some sparse matrices are one too
        names, columns = check_names(data), [column_table(column) for column in data.values()]
        same_length(map(_length, data.values()))
        return side_by_side(columns, names)
    known = "an array, a sparse matrix, a data frame, an Arrow table, a mapping of columns, a tensor"
    raise ParameterError("data", f"be {known}, a dask collection or a path", type(data).__name__)


def no_list(name: str, rows: Any) -> None:
    """Refuse a list of rows by its type: it declares neither a width nor a type, and no row may do so for the others.

    >>> no_list("X", [[0.5], [2.0]])
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: X must be an array, a frame or a file; got a list; write numpy.asarray(X, dtype=object)
    """
    remedy = f"write numpy.asarray({name}, dtype=object)"
    require(not isinstance(rows, list | tuple), name, "be an array, a frame or a file", "a list", remedy)


def no_mask(data: Any) -> None:
    """Refuse masked arrays by their type: they have two values per cell."""
    if isinstance(getattr(data, "_meta", data), np.ma.MaskedArray):
        raise ParameterError("data", "be a plain array", "a masked array", "fill masked entries with NaN")


def column_table(column: Any) -> Table:
    """Open one column: a list or an array of cells, a series, or an Arrow array."""
    table = _series_frame(column)
    if table is not None:
        return memory_table(table)
    if isinstance(column, list | tuple):
        return _array(objects(column)[:, None])
    tensor = type(column).__module__.partition(".")[0] == "torch"
    if not (tensor or isinstance(column, np.ndarray)):  # others may compute it by NumPy, from chunks of other types
        raise ParameterError("data", "have columns that are lists, arrays or series", type(column).__name__)
    require(column.ndim == 1, "data", "have columns of one dimension", f"{column.ndim} dimension(s)")
    return _torch(column.reshape(-1, 1)) if tensor else _array(column[:, None])


def _series_frame(column: Any) -> Any:
    """Return a series or an array of pandas or polars, or an Arrow array, as a frame; None for something else."""
    module = type(column).__module__.partition(".")[0]
    if module == "pyarrow" and hasattr(column, "type"):
        import pyarrow as pa

        return pa.table({"column": column})
    if module == "pandas" and hasattr(column, "dtype") and getattr(column, "ndim", 0) == 1:
        import pandas as pd

        column = pd.Series(column)  # NumPy would read an array by its values: a null makes floats
    elif module != "polars" or not hasattr(column, "to_frame"):
        return None
    return column.to_frame(column.name if isinstance(column.name, str) and column.name else "column")


def is_vector(y: Any) -> bool:
    """Return whether targets are one column without a second dimension, by their type and shape."""
    return isinstance(y, list | tuple) or _series_frame(y) is not None or getattr(y, "ndim", 2) == 1


def target_table(y: Any) -> Table:
    """Open targets: a vector, a series, or whatever `memory_table` opens. A list is one column, cell by cell."""
    if isinstance(y, Table):
        return y
    if isinstance(y, list | tuple):
        return column_table([unwrapped(cell) for cell in y])
    return column_table(y) if is_vector(y) else memory_table(y)


def pair_table(x: Any, y: Any) -> Table:
    """Open a pair (X, y): the columns of y, a vector included, are separate targets."""
    no_list("X", x)
    left, right = x if isinstance(x, Table) else memory_table(x), target_table(y)
    check_lengths(x, y)
    table = side_by_side((left, right))

    def rows(groups: Groups) -> Iterator[Parts]:
        targets = tuple(i - left.width for i in groups[1])
        yield from map(tuple, together([left.read((groups[0],)), right.read((targets,))]))

    names = left.names + (right.names or ("",) * right.width) if left.names else ()
    return Table(table.kinds, table.cells, rows, names, target_width=right.width, device=left.device)


def check_lengths(x: Any, y: Any) -> None:
    """Refuse a pair (X, y) whose numbers of rows differ, if both have one before they are read."""
    same_length(map(_length, (x, y)))


def _length(data: Any) -> int | None:
    """Return the number of rows, if the data have it before they are read."""
    if isinstance(data, Table):
        return None
    if isinstance(data, Mapping) and not hasattr(data, "shape"):  # some sparse matrices are one too
        return next(map(_length, data.values()), None)
    return int(data.shape[0]) if hasattr(data, "shape") else len(data)


# ---------------------------------------------------------------------- arrays


def _array(x: NDArray[Any]) -> Table:
    """Open a NumPy array: numbers as rows, anything else by column."""
    no_mask(x)
    width = matrix_width(x.shape)
    plain = np.asarray(x)
    kind = kind_of_array(plain.dtype)

    def cells(wanted: Any) -> Iterator[list[Any]]:
        columns = (text_objects(plain[:, i]) for i, _ in wanted)
        yield [column.astype(object) if plain.dtype.kind in "UST" else column for column in columns]

    def rows(groups: Groups) -> Iterator[Parts]:
        yield tuple(pick(plain, group) for group in groups)

    numeric = kind in ("number", "boolean")
    return Table((frozenset({kind}),) * width, None if numeric else cells, rows if numeric else None)


def _torch(tensor: Any) -> Table:
    """Open a tensor; on the CPU it is a NumPy array."""
    width = matrix_width(tuple(tensor.shape))
    if tensor.is_complex() or str(tensor.layout) != "torch.strided":
        raise ParameterError("data", "be a dense tensor of real numbers", f"{tensor.dtype}, {tensor.layout}")
    values = tensor.detach()
    if values.device.type == "cpu":
        return _array((values.float() if str(values.dtype) in ("torch.bfloat16", "torch.float16") else values).numpy())

    def rows(groups: Groups) -> Iterator[Parts]:
        yield tuple(pick(values, group) for group in groups)

    return Table((frozenset({"number"}),) * width, None, rows, device=str(values.device))


_OPENERS: dict[str, tuple[Callable[[Any], Table], tuple[str, ...]]] = {  # by module, with the types that each opens
    "scipy": (sparse_table, ()),
    "pandas": (pandas_table, ("DataFrame",)),
    "polars": (polars_table, ("DataFrame",)),
    "pyarrow": (arrow_table, ("Table", "RecordBatch")),
    "torch": (_torch, ("Tensor", "Parameter")),
}
