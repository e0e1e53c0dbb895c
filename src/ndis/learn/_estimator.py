"""All estimators share one base, which declares parameters, reads private records, and turns results into units.

With a schema, rows and targets are encoded by it, bounds come from it, and learnt values go back to original units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import validate_data

from ndis._validate import Floats, as_scalar
from ndis.data import Rows, open_table
from ndis.data.schema import Number, Schema
from ndis.data.schema.changed import changed_rows
from ndis.data.schema.table import open_for
from ndis.errors import ParameterError
from ndis.learn._records import in_memory_only, private_rows, private_targets, stated_bound
from ndis.ledger import pay

__all__ = ["PrivateEstimator", "calibrated", "one_of"]


@lru_cache(maxsize=64)
def calibrated(make: Any, **public: Any) -> Any:
    """Calibrate a mechanism. It depends only on public parameters, so it may be kept."""
    return make(**public)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a parameter that is none of its choices."""
    if value not in choices:
        raise ParameterError(name, f"be one of {', '.join(choices)}", repr(value))


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator:
    """All estimators have these parameters. scikit-learn reads them from the constructor that `dataclass` writes.

    An estimator inherits from this class first, then from mixins of scikit-learn, and last from its `BaseEstimator`.
    """

    epsilon: float = 1.0
    delta: float = 1e-6
    random_state: Any = None
    schema: Any = None
    ledger: Any = None
    slot: str | None = None

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # a fit sets attributes that end in "_"

    @property
    def _against_first_category(self) -> bool:
        """Say if the first column of each category is left out, because a constant makes them collinear."""
        return False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # BaseEstimator has them
        tags.input_tags.allow_nan = True  # an error at a record with a non-finite entry would leak it
        tags.input_tags.sparse = True
        for kind in filter(None, (tags.regressor_tags, tags.classifier_tags)):
            kind.poor_score = True  # on the few rows of a check, noise outweighs the data
        return tags

    # ------------------------------------------------------------------ public parameters

    def _budget(self) -> dict[str, float]:
        return {"epsilon": as_scalar("epsilon", self.epsilon), "delta": as_scalar("delta", self.delta)}

    def _schema(self, *, number: bool = False, classes: bool = False) -> Schema | None:
        """Return the schema, if there is one, with a target of the kind that the estimator needs."""
        schema = self.schema
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

    def _row_bound(self, name: str = "row_norm_bound") -> float:
        """Return the public bound of the norm of a row: the parameter `name`, or the bound of the schema."""
        schema, stated = self._schema(), getattr(self, name)
        bound = schema.row_norm_bound if schema is not None and stated is None else stated
        instead = "or state schema= (--schema), an ndis.Schema with the ranges and categories of a table"
        return stated_bound(name, bound, instead=instead if bound is None else None)

    def _target_bound(self, name: str = "target_bound", *, clipped: str = "targets") -> float:
        """Return the public bound of a target: the parameter `name`, or 1 with a schema, whose target has a range."""
        stated = getattr(self, name)
        if self._schema(number=self.schema is not None) is None:
            return stated_bound(name, stated, clipped=clipped)
        if stated is not None:
            raise ParameterError(name, "be left out with a schema, whose target has a range", stated)
        return 1.0

    # ------------------------------------------------------------------ private records

    def _fitted_rows(self, X: Any) -> Any:
        """Return private rows in memory as the release engine reads them; set the number and names of features."""
        schema = self._schema()
        in_memory_only("X", X)
        return private_rows(self, X) if schema is None else self._encoded(schema, X, target=False).held()

    def _fitted_records(self, X: Any, y: Any, read: Callable[[Any, Any], Any] = private_targets) -> tuple[Any, Any]:
        """Return private rows and targets in memory; without a schema `read` reads the targets.

        A schema encodes both, and finds the targets in X if `y` is left out.
        """
        schema = self._schema()
        in_memory_only("X", X)
        in_memory_only("y", y)
        if schema is None:
            return private_rows(self, X), read(self, y)
        rows, targets = self._encoded(schema, X if y is None else (X, y), target=True).arrays()
        return rows, targets[:, 0]

    def _opened(self, data: Any, *, target: Any = None, with_target: bool = True, **how: Any) -> Rows:
        """Open files, folders, frames or dask collections by their types; set the number and names of features.

        `how` are the arguments of `open_table`. `target` names one column, or a list of columns.
        """
        schema = self._schema()
        if schema is not None:
            if with_target and target not in (None, schema.target_name):
                rule = f"be left out, or {schema.target_name!r} as the schema says"
                raise ParameterError("target", rule, repr(target))
            return self._encoded(schema, data, target=with_target, **how)
        if with_target and target is None:
            raise ParameterError("target", "name the target column", None, "or state a schema with a target")
        targets = None if not with_target else list(target) if isinstance(target, list | tuple) else [target]
        rows = open_table(data, **how).matrix(how["columns"], targets)
        if len(rows.groups) != 1 + with_target:
            raise ParameterError("data", "be rows without targets", "a pair (X, y)")
        names, features = rows.table.names, rows.groups[0]
        self._set_features([names[i] for i in features] if names else len(features))
        return rows

    def _encoded(self, schema: Schema, data: Any, *, target: bool, **how: Any) -> Rows:
        """Open data once, and return the encoded rows to learn from, with the target last if `target` is true."""
        table = open_for(schema, data, **how).encoded(schema, target=target)
        kept = tuple(self._kept_columns(schema))
        self._set_features([schema.feature_names[i] for i in kept])
        groups = (kept, (len(schema.feature_names),)) if target else (kept,)
        return Rows(table, groups, tuple(table.names[i] for group in groups for i in group))

    def _changed_rows(self, data: Any, **how: Any) -> int:
        """Count the rows that the schema changes. **Private**: release the count only with noise."""
        schema = self._schema()
        assert schema is not None
        return changed_rows(schema, data, row_norm_bound=self._row_bound(), kept=self._kept_columns(schema), **how)

    def _set_features(self, names: list[str] | int) -> None:
        if isinstance(names, int):
            self.n_features_in_ = names
            self.__dict__.pop("feature_names_in_", None)  # an earlier fit may have set it
            return
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.array(names, dtype=object)

    # ------------------------------------------------------------------ released and learnt values

    def _keep(self, mechanism: Any, make: Callable[[], Any]) -> Any:
        """Make a release, paid by the ledger if there is one; keep it with its mechanism and receipt, and return it."""
        release = pay(mechanism, make, ledger=self.ledger, slot=self.slot, random_state=self.random_state)
        self.release_, self.receipt_, self.mechanism_ = release, release.receipt, mechanism
        return release

    def _public_rows(self, X: Any, *, encoded: bool = False) -> Any:
        """Return rows to predict, which are not private; with a schema in original units, clipped to their ranges."""
        schema = self._schema()
        if schema is None:  # NaN passes through
            how: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": "allow-nan"}
            return validate_data(self, X, reset=False, **how)
        rows = schema.encode(X)
        return (rows if encoded else schema.decode(rows))[:, self._kept_columns(schema)]

    def _dense_rows(self, X: Any, *, encoded: bool = False) -> Floats:
        """Return rows to predict as a dense array."""
        rows = self._public_rows(X, encoded=encoded)
        return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)

    def _kept_columns(self, schema: Schema) -> list[int]:
        """Number the encoded columns to learn from: all, or all but the first of each category."""
        return schema.against_first() if self._against_first_category else list(range(len(schema.feature_names)))

    def _names(self) -> list[str]:
        """List the names of the features, or x0, x1, … if they have none."""
        return list(map(str, getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])))

    def _unit_map(self, predictors: int, *, unit: float, constant: float | None) -> tuple[Floats, Floats]:
        """Find (A, b) with A·θ + b in the units of the data, for θ in `unit`; the constant's weight is last."""
        matrix = np.diag(np.full(predictors, unit))
        if constant is not None:
            matrix[-1, -1] *= constant
        schema = self._schema()
        if schema is None:
            return matrix, np.zeros(predictors)
        original, shift = schema.unit_map()
        kept = [*self._kept_columns(schema), len(shift) - 1]
        return original[np.ix_(kept, kept[:predictors])] @ matrix, shift[kept]

    def _coefficients(self, theta: Floats, units: tuple[Floats, Floats], *, one: bool = False) -> tuple[Floats, Any]:
        """Return slopes and intercepts in the units of the data; θ has one column per output.

        There is one row of slopes per output. With `one` the only output has no dimension.
        """
        matrix, shift = units
        weights, features = matrix @ theta + shift[:, None], self.n_features_in_
        offsets = weights[features] if len(weights) > features else np.zeros(theta.shape[1])
        slopes = np.asarray(weights[:features].T)
        return (slopes[0], float(offsets[0])) if one else (slopes, np.asarray(offsets))
