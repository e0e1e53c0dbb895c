"""Open data for a schema, and the scikit-learn step that encodes rows by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from ndis._validate import warn_caller
from ndis.data.cells import Floats
from ndis.data.opening import open_table
from ndis.data.paths import files_of, is_paths, kind_of_files
from ndis.data.table import Table
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.data.schema.core import Schema

__all__ = ["SchemaTransformer", "open_for"]

# It depends on the arguments only: the kind of the files, and the arguments that are missing.
BY_ORDER = (
    "without header=True every line of a CSV file is a record, and its columns are known by their order; "
    "columns= names them in order"
)


def open_for(
    schema: Schema, data: Any, *, columns: Any = None, header: bool = False, progress: bool | None = None
) -> Table:
    """Open data whose columns a schema names. CSV files without names have its order, with the target last."""
    if isinstance(data, Table):
        return data
    kind = kind_of_files(files_of(data)) if is_paths(data) else ""
    if kind != "csv" and (header or columns is not None):
        files = "data" if not kind else "files"
        raise ParameterError("columns and header", f"be left out for {files} other than CSV", "one of them")
    if header and columns is not None:
        raise ParameterError("columns", "be left out where header says that the files have names", "both")
    if kind == "csv" and not header and columns is None:
        warn_caller(BY_ORDER)
        columns = [*schema.columns, *([] if schema.target_name is None else [schema.target_name])]
    return open_table(data, columns=columns, header=header, progress=progress)


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
        """Return the names of the encoded columns, such as ``region=N``."""
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
