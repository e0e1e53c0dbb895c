"""What every estimator does with data: rows with or without a schema, in memory or in files.

With a schema, rows and targets are encoded by it, bounds come from it, and what was learnt goes back to original units.
An estimator has the parameter `schema`, and calls

- `row_bound` and `target_bound` for its public bounds,
- `fitted_rows`, `fitted_targets` and `opened_data` for private data,
- `public_rows` for rows to predict,
- `to_units` for coefficients.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ndis.errors import ParameterError
from ndis.gram.cluster import is_dask, open_dask, streamed
from ndis.gram.columns import memory_columns, objects
from ndis.gram.schema import Groups, choose_columns
from ndis.gram.sources import open_source
from ndis.learn._base import READ_ROWS, Floats, not_dask, private_rows, private_targets, stated_bound
from ndis.schema import Number, Schema
from ndis.schema.preview import changed_rows

__all__ = [
    "changed_count",
    "fitted_rows",
    "fitted_targets",
    "in_memory",
    "kept_columns",
    "opened_data",
    "public_rows",
    "row_bound",
    "schema_of",
    "target_bound",
    "target_cells",
    "to_units",
    "units_map",
]


def schema_of(estimator: Any, *, number: bool = False, classes: bool = False) -> Schema | None:
    """The schema of an estimator, if it has one, with a target of the kind that it needs."""
    schema = estimator.schema
    if schema is None:
        return None
    if not isinstance(schema, Schema):
        raise ParameterError("schema", "be an ndis.Schema", type(schema).__name__, "Schema.from_toml reads a file")
    if number or classes:
        name = schema.needed_target()
        if isinstance(schema.target, Number) != number:
            rule = "be a number with a range" if number else "be a category with its classes"
            raise ParameterError(f"target {name!r} of the schema", rule, type(schema.target).__name__)
    return schema


def row_bound(estimator: Any) -> float:
    """The public bound of the norm of a row: stated, or that of the schema."""
    schema, stated = schema_of(estimator), estimator.row_norm_bound
    return stated_bound("row_norm_bound", schema.row_norm_bound if schema is not None and stated is None else stated)


def target_bound(estimator: Any, *, name: str = "target_bound", clipped: str = "targets") -> float:
    """The public bound of a target: stated, or 1 with a schema, whose target has a range."""
    stated = getattr(estimator, name)
    if schema_of(estimator, number=estimator.schema is not None) is None:
        return stated_bound(name, stated, clipped=clipped)
    if stated is not None:
        raise ParameterError(name, "be left out with a schema, whose target has a range", stated)
    return 1.0


def fitted_rows(estimator: Any, X: Any) -> Any:
    """The private rows in a form the release engine reads; sets `n_features_in_` and `feature_names_in_`."""
    schema = schema_of(estimator)
    not_dask("X", X)
    if schema is None:
        return private_rows(estimator, X)
    kept = kept_columns(estimator, schema)
    _set_features(estimator, [schema.feature_names[i] for i in kept])
    return schema.encode(X)[:, kept]


def fitted_targets(estimator: Any, X: Any, y: Any) -> Floats:
    """The private targets; with a schema encoded, and from their column of X where `y` is left out."""
    schema = schema_of(estimator)
    not_dask("y", y)
    if schema is None:
        return private_targets(estimator, y)
    return schema.encode_target(X) if y is None else schema.encode_target_cells(target_cells(schema, y))


def target_cells(schema: Schema, y: Any) -> Any:
    """The cells of separate targets, in a type that fits the schema."""
    name = schema.needed_target()
    if hasattr(y, "columns") or getattr(y, "ndim", 1) == 2:
        found = memory_columns(y, names=[name])
        name = next(iter(found.kinds))
    else:
        found = memory_columns({name: objects(y) if isinstance(y, list | tuple) else y}, names=())
    kinds, column = found.kinds[name], schema.target
    if len(found.kinds) != 1 or column is None or not kinds <= set(column.kinds):
        raise ParameterError("y", "be one column of the type that the schema says", ", ".join(sorted(kinds)))
    blocks = [block[0] for block in found.read(((name, column.numeric),))]
    return np.concatenate(blocks) if blocks else np.empty(0, dtype=object)


def opened_data(
    estimator: Any, data: Any, *, target: Any, columns: Any, header: bool, progress: bool | None, with_target: bool
) -> tuple[Any, Groups]:
    """Files, folders, frames or dask collections, opened by their types, and the columns that are read.

    Sets `n_features_in_` and `feature_names_in_`. The data that are returned are given to the engine with the columns
    as numbers. `target` names one column, or a list of columns.
    """
    schema = schema_of(estimator)
    if schema is not None:
        if with_target and target not in (None, schema.target_name):
            raise ParameterError("target", f"be left out, or {schema.target_name!r} as the schema says", repr(target))
        data = schema.table(data, target=with_target, columns=columns, header=header)
        target, header = schema.target_name, False
        columns = [schema.feature_names[i] for i in kept_columns(estimator, schema)]
    elif with_target and target is None:
        raise ParameterError("target", "name the target column", None, "or state a schema with a target")
    opened = (
        open_dask(data)[0] if is_dask(data) else open_source(data, columns=columns, header=header, progress=progress)
    )
    targets = None if not with_target else list(target) if isinstance(target, list | tuple) else [target]
    groups = choose_columns(opened, columns, targets)
    if len(groups) != 1 + with_target:
        raise ParameterError("data", "be rows without targets", "a pair (X, y)")
    _set_features(estimator, [opened.names[i] for i in groups[0]] if opened.names else len(groups[0]))
    return data if is_dask(data) else opened, groups


def in_memory(data: Any, groups: Groups, *, most: int | None = None) -> tuple[Floats, Floats]:
    """The first `most` records of opened data with one target, as arrays."""
    blocks: list[tuple[Floats, Floats]] = []
    count = 0
    for rows, targets in (streamed(data) if is_dask(data) else data).read(groups):
        with np.errstate(all="ignore"):  # a warning would tell of the values
            host = [np.asarray(part.cpu() if hasattr(part, "cpu") else part, np.float64) for part in (rows, targets)]
        left = None if most is None else max(most - count, 0)
        blocks.append((host[0][:left], host[1][:left, 0]))
        count += len(blocks[-1][0])
    x = np.concatenate([np.empty((0, len(groups[0]))), *(rows for rows, _ in blocks)])
    return x, np.concatenate([np.empty(0), *(values for _, values in blocks)])


def changed_count(estimator: Any, data: Any, y: Any, **how: Any) -> int:
    """**Private**: how many rows the schema of an estimator changes; release it only with noise."""
    schema = schema_of(estimator)
    assert schema is not None
    targets = None if y is None else target_cells(schema, y)
    bound, kept = row_bound(estimator), kept_columns(estimator, schema)
    return changed_rows(schema, data, targets=targets, row_norm_bound=bound, kept=kept, **how)


def _set_features(estimator: Any, names: Any) -> None:
    if isinstance(names, int):
        estimator.n_features_in_ = names
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return
    estimator.n_features_in_ = len(names)
    estimator.feature_names_in_ = np.array(list(names), dtype=object)


def public_rows(estimator: Any, X: Any, *, encoded: bool = False) -> Any:
    """Rows to predict, which are not private there; with a schema in original units, clipped to their ranges."""
    schema = schema_of(estimator)
    if schema is None:
        return validate_data(estimator, X, **READ_ROWS)
    rows = schema.encode(X)
    return (rows if encoded else schema.decode(rows))[:, kept_columns(estimator, schema)]


def kept_columns(estimator: Any, schema: Schema) -> list[int]:
    """Numbers of the encoded columns that an estimator learns from: all, or all but the first of each category."""
    if getattr(estimator, "_against_first_category", False):
        return schema.against_first()
    return list(range(len(schema.feature_names)))


def units_map(estimator: Any, *, constant: bool) -> tuple[Floats, Floats]:
    """(A, b) such that A·θ + b is in original units, for θ of the columns that are learnt and perhaps a constant."""
    schema = schema_of(estimator)
    assert schema is not None
    matrix, shift = schema.unit_map()
    kept = [*kept_columns(estimator, schema), len(shift) - 1]
    return matrix[np.ix_(kept, kept if constant else kept[:-1])], shift[kept]


def to_units(estimator: Any, coefficients: Any, intercept: Any) -> tuple[Any, Any]:
    """Coefficients and intercept in the units of the data."""
    schema = schema_of(estimator)
    return (coefficients, intercept) if schema is None else schema.in_units(coefficients, intercept)
