"""A table with its schema: encoded rows that every mechanism and estimator reads, streamed where the table is.

`SchemaTransformer` is the scikit-learn step that encodes rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from ndis._validate import warn_caller
from ndis.data.cells import is_nested
from ndis.data.columns import Cells, Columns, Wanted
from ndis.data.dask import is_dask
from ndis.data.files import open_columns
from ndis.data.paths import is_paths
from ndis.data.schema.cells import Floats
from ndis.data.schema.columns import Column
from ndis.data.source import Groups, Parts, Source, pick
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.data.schema.core import Schema

# It depends on the arguments only: the kind of the files, and what is left out.
BY_ORDER = (
    "without header=True every line of a CSV file is a record, and its columns are known by their order; "
    "columns= names them in order"
)

__all__ = ["SchemaTransformer", "Table", "cells_of", "checked_columns", "dask_table"]


@dataclass(frozen=True, eq=False)
class Table:
    """Data and the schema they are read by; `Schema.table` makes one.

    `ndis.data.opening.open_source` opens it, and so does everything that takes data. Its columns are the encoded
    features, and the target after them if `target` is true.
    """

    schema: Schema
    data: Any
    target: bool
    columns: Any = None
    header: bool = False
    typed: bool = True  # whether a type that does not fit is refused; that of a partition may depend on its cells

    def __ndis_source__(self, *, progress: bool | None = None) -> Source:
        """Open the data by their types only."""
        schema = self.schema
        wanted = dict(schema.columns)
        if self.target:
            wanted[schema.needed_target()] = schema.target  # type: ignore[assignment]
        found, names = checked_columns(schema, self.data, wanted, self.columns, self.header, progress, typed=self.typed)

        def read(groups: Groups) -> Iterator[Parts]:
            for cells in found.read(names):
                block = schema.encode_cells(cells[: len(schema.columns)])
                if self.target:
                    block = np.concatenate([block, schema.encode_target_cells(cells[-1])[:, None]], axis=1)
                yield tuple(pick(block, group) for group in groups)

        labels = schema.feature_names + ((schema.needed_target(),) if self.target else ())
        return Source(len(labels), read, labels)


def checked_columns(
    schema: Schema,
    data: Any,
    wanted: dict[str, Column],
    columns: Any,
    header: bool,
    progress: bool | None,
    *,
    typed: bool = True,
) -> tuple[Columns, Wanted]:
    """The data, opened, with all wanted columns in types that fit; otherwise a refusal by name."""
    order = [*schema.columns, *([] if schema.target_name is None else [schema.target_name])]
    if _width(data) == len(wanted):
        order = list(wanted)
    found = open_columns(data, names=order, columns=columns, header=header, progress=progress)
    if is_paths(data) and not found.quotable and columns is None and not header:
        warn_caller(BY_ORDER)
    for name, column in wanted.items():
        if name not in found.kinds:
            got = f"columns {', '.join(map(repr, list(found.kinds)[:20]))}" if found.quotable else "other names"
            raise ParameterError("data", f"have a column {name!r}, which the schema names", got)
        for kind in sorted(found.kinds[name]):
            if typed and kind not in column.kinds:
                rule = f"hold {' or '.join(_WORDS[k] for k in column.kinds if k in _WORDS)}, as the schema says"
                raise ParameterError(f"column {name!r}", rule, _WORDS.get(kind, kind), _remedy(kind, column))
    return found, tuple((name, column.numeric) for name, column in wanted.items())


def _remedy(kind: str, column: Column) -> str:
    """What to do about a column of another type."""
    if kind == "text" and column.numeric:
        return "convert it first, in pandas with pd.to_numeric(column, errors='coerce'), or list categories"
    return "convert the column first, or change the schema"


_WORDS = {"number": "numbers", "boolean": "booleans", "text": "text", "date": "dates"}


def cells_of(schema: Schema, data: Any, wanted: dict[str, Column]) -> list[Cells]:
    """The cells of these columns of data in memory, all rows at once."""
    found, names = checked_columns(schema, data, wanted, None, False, False)
    blocks = list(found.read(names))
    return [_joined([block[i] for block in blocks]) for i in range(len(names))]


def _joined(parts: Sequence[Cells]) -> Cells:
    return np.concatenate(parts) if parts else np.empty(0, dtype=object)


def _width(data: Any) -> int | None:
    """The number of columns of rows without names, which are in the order of the schema."""
    if isinstance(data, np.ndarray):
        return data.shape[1] if data.ndim == 2 else None
    first: Any = data[0] if isinstance(data, list | tuple) and data else None
    return len(first) if is_nested(first) else None


def dask_table(schema: Schema, data: Any, *, target: bool) -> Any:
    """A dask data frame of encoded rows, computed where its partitions live."""
    if not is_dask(data) or not hasattr(data, "map_partitions") or not hasattr(data, "columns"):
        raise ParameterError("data", "be a dask data frame", type(data).__name__)
    Table(schema, data._meta, target).__ndis_source__()  # types that do not fit are refused
    meta = _partition(data._meta, schema, target)
    return data.map_partitions(_partition, schema, target, meta=meta)


def _partition(part: Any, schema: Schema, target: bool) -> Any:
    source = Table(schema, part, target, typed=False).__ndis_source__()
    everything = tuple(range(source.width))
    blocks: list[Floats] = [block for (block,) in source.read((everything,))]
    return type(part)(np.concatenate([np.empty((0, source.width)), *blocks]), columns=list(source.names))


class SchemaTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode rows by a schema, in place of a `StandardScaler` and a `OneHotEncoder`.

    Those learn from the rows, and what they learn leaks. This step learns nothing: `fit` does not read a cell.

    Parameters
    ----------
    schema : Schema

    Examples
    --------
    >>> from ndis.schema import Schema
    >>> from ndis.learn import PrivateCovariance
    >>> from sklearn.pipeline import make_pipeline
    >>> schema = Schema({"age": (18, 90), "region": ["N", "S"]})
    >>> model = make_pipeline(schema.transformer(), PrivateCovariance(row_norm_bound=schema.row_norm_bound))
    >>> model.fit({"age": [54, 18], "region": ["S", "N"]})[-1].covariance_.shape
    (3, 3)
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def fit(self, X: Any, y: Any = None) -> SchemaTransformer:
        """Nothing is learnt."""
        return self

    def transform(self, X: Any) -> Floats:
        """The encoded feature columns; NaN where a cell is missing and its column has no fill."""
        return self.schema.encode(X)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the encoded columns, such as ``region=N``."""
        return np.array(self.schema.feature_names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags
