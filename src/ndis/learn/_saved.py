"""Save a linear model as JSON, load it without its estimator, and apply it to each record by itself."""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ndis._files import loads, read_bytes, write_file
from ndis._validate import Floats
from ndis.data.opening import open_for
from ndis.data.schema import Schema
from ndis.errors import ParameterError


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Hold released coefficients in original units, and predict with them. `ndis regress -o fit.json` writes one too.

    Parameters
    ----------
    coefficients : mapping
        Encoded column, such as "age" or "ward=B" → its coefficient.
    intercept : float
    schema : Schema
    receipt : mapping
        The receipt of the fit, as plain values.

    Examples
    --------
    >>> schema = Schema({"age": (0, 100)}, target=("spend", 0, 10))
    >>> LinearModel({"age": 0.05}, 1.0, schema, {}).predict({"age": [20, 400]}).tolist()
    [2.0, 6.0]
    """

    coefficients: Mapping[str, float]
    intercept: float
    schema: Schema
    receipt: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not set(self.coefficients) <= set(self.schema.feature_names):
            raise ParameterError("coefficients", "be of columns of the schema", "others")
        if not all(map(math.isfinite, (self.intercept, *self.coefficients.values()))):
            raise ParameterError("coefficients", "be finite", "a NaN or an infinity")

    @classmethod
    def of(cls, model: Any) -> LinearModel:
        """Take what a fitted estimator with a schema learnt: one target, or two classes."""
        schema, slopes = getattr(model, "schema", None), np.ravel(getattr(model, "coef_", ()))
        if isinstance(model, cls):
            return model
        if not isinstance(schema, Schema) or len(slopes) != getattr(model, "n_features_in_", -1):
            rule = "be a fitted linear or logistic regression with a schema, of one target or two classes"
            raise ParameterError("model", rule, type(model).__name__)
        intercept = float(np.ravel(model.intercept_)[0])
        names = map(str, model.feature_names_in_)
        receipt = model.receipt_.to_dict()
        return cls(dict(zip(names, slopes.tolist(), strict=True)), intercept, schema, receipt)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        prediction = {"coefficients": dict(self.coefficients), "intercept": self.intercept}
        return {"prediction": prediction, "schema": self.schema.to_toml(), "receipt": dict(self.receipt)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one new JSON file."""
        text = json.dumps(self.to_dict(), allow_nan=False, indent=2)
        write_file(path, text.encode() + b"\n", name="path", new=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearModel:
        """Read what `save`, `ndis regress` or `ndis logistic` wrote."""
        values = loads("fit", read_bytes("path", Path(path)))
        try:
            prediction, schema = values["prediction"], Schema.from_dict(tomllib.loads(values["schema"]))
            slopes = {str(name): float(value) for name, value in prediction["coefficients"].items()}
            return cls(slopes, float(prediction["intercept"]), schema, values["receipt"])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            if isinstance(error, ParameterError):
                raise
            raise ParameterError("path", "be a fit with coefficients and a schema", type(error).__name__) from error

    def scores(self, encoded: Floats) -> Floats:
        """Return intercept + Σ coefficient·column of encoded rows, added column by column: each row by itself."""
        with np.errstate(all="ignore"):  # an overflow must not warn: it depends on the row
            rows = self.schema.decode(encoded)
            total = np.full(len(rows), float(self.intercept))  # an integer would take no float
            for name, slope in self.coefficients.items():
                total += rows[:, self.schema.feature_names.index(name)] * float(slope)
        return total

    def predict(self, data: Any, **how: Any) -> Any:
        """Return the predicted number or class of every row, in memory or in files; none if a cell is missing."""
        table = open_for(self.schema, data, **how).encoded(self.schema, target=False)
        scores = self.scores(table.matrix().arrays()[0])
        if not self.schema.classes:
            return scores
        low, high = self.schema.classes
        return np.array([None if s != s else high if s > 0 else low for s in scores.tolist()], dtype=object)


class SavedModel:
    """Estimators with a schema can be saved: their coefficients, without the release."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write coefficients, schema and receipt as one JSON file, which `LinearModel.load` reads."""
        LinearModel.of(self).save(path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> LinearModel:
        """Read a saved model, which predicts without its estimator."""
        return LinearModel.load(path)
