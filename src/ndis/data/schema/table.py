"""This module has the scikit-learn step that encodes rows by a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from ndis.data.cells import Floats

if TYPE_CHECKING:
    from ndis.data.schema.core import Schema

__all__ = ["SchemaTransformer"]


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
