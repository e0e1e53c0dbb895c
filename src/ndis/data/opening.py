"""Open data of any kind as one `Table`. Opening checks types and shapes. No check looks at a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndis._validate import require, warn_caller
from ndis.data.cells import is_path
from ndis.data.dask import dask_table
from ndis.data.files import file_table
from ndis.data.memory import memory_table, pair_table
from ndis.data.paths import Files, files_of, kind_of_files
from ndis.data.table import Rows, Table
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.data.schema.core import Schema

# It depends on the arguments only: the kind of the files, and the arguments that are missing.
BY_ORDER = (
    "without header=True every line of a CSV file is a record, and its columns are known by their order; "
    "columns= names them in order"
)


def open_table(data: Any, *, columns: Any = None, header: bool = False, progress: bool | None = None) -> Table:
    """Open arrays, sparse matrices, frames, Arrow tables, mappings of columns, tensors, dask or files.

    Parameters
    ----------
    data : object
        Private rows; a pair (X, y) in memory has the columns of y as separate targets. A list is a list of paths, for
        rows in a list declare neither a width nor a type. A `Table` comes back as it stands.
    columns : names, optional
        For CSV files without a header: the names of all columns, from left to right, with None for a column that is not
        read. Other data name their columns themselves.
    header : bool
        The first line of every CSV file holds public names. Without it every line is a record.
    progress : bool, optional
        Show a progress bar for files; by default if standard error is a terminal.

    Examples
    --------
    >>> table = open_table({"age": [30, None], "region": ["N", "S"]})
    >>> table.names, table.width
    (('age', 'region'), 2)
    >>> [block.tolist() for (block,) in table.matrix(columns=["age"]).blocks()]
    [[[30.0], [nan]]]
    """
    shown = progress is None or isinstance(progress, bool)
    require(shown, "progress", "be True, False or None", type(progress).__name__)
    if isinstance(data, Table):
        remedy = "schema.table(data, header=True)"
        require(not header, "header", "be part of the table with its schema", header, remedy)
        return data
    if isinstance(data, tuple):
        require(len(data) == 2, "data", "be rows, or a pair (X, y)", "another tuple")  # two rows would be a pair
        remedy = "pass a list of paths and name targets"
        require(not any(map(is_paths, data)), "data", "be a pair (X, y) in memory", "paths", remedy)
        remedy = "RandomProjection.release reduces one, with its targets named among its columns"
        require(not any(map(is_dask, data)), "data", "be in memory or in files here", "a dask collection", remedy)
        return pair_table(*data)
    if isinstance(data, list) or is_path(data):
        return file_table(data, columns=columns, header=header, progress=progress)
    require(not header, "header", "be left out for data other than CSV files", header)
    return dask_table(data) if is_dask(data) else memory_table(data)


def open_rows(data: Any, *, columns: Any = None, targets: Any = None, **how: Any) -> Rows:
    """Open data and choose columns of numbers; `Rows` come back as they stand. `how` are arguments of `open_table`.

    >>> import numpy as np
    >>> open_rows(np.zeros((3, 2)), targets=[1]).groups
    ((0,), (1,))
    """
    if isinstance(data, Rows):
        return data
    return open_table(data, columns=columns, **how).matrix(columns, targets)


def open_for(
    schema: Schema, data: Any, *, columns: Any = None, header: bool = False, progress: bool | None = None
) -> Table:
    """Open data whose columns a schema names. CSV files without names have its order, with the target last."""
    require(isinstance(header, bool), "header", "be True or False", type(header).__name__)
    if isinstance(data, Table):
        return data
    kind = kind_of_files(files_of(data)) if isinstance(data, list) or is_path(data) else ""
    if kind != "csv" and (header or columns is not None):
        files = "data" if not kind else "files"
        raise ParameterError("columns and header", f"be left out for {files} other than CSV", "one of them")
    require(not header or columns is None, "columns", "be left out where header says that the files have names", "both")
    if kind == "csv" and not header and columns is None:
        warn_caller(BY_ORDER)
        columns = [*schema.columns, *([] if schema.target_name is None else [schema.target_name])]
    return open_table(data, columns=columns, header=header, progress=progress)


def is_dask(data: Any) -> bool:
    """Return whether ``data`` is a dask collection."""
    return type(data).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(data, "__dask_graph__")


def is_paths(data: Any) -> bool:
    """Return whether data are a path or `Files`: a plain list may hold rows, and no item of it decides."""
    return isinstance(data, Files) or is_path(data)
