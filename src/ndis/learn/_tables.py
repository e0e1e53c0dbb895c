"""The base of all estimators: parameters, rows with or without a schema, in memory or in files, and units.

With a schema, rows and targets are encoded by it, bounds come from it, and what was learnt goes back to original units.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ndis._validate import as_scalar, as_size
from ndis.data.columns import memory_columns, objects
from ndis.data.dask import is_dask, open_dask
from ndis.data.opening import open_source
from ndis.data.schema import Number, Schema
from ndis.data.schema.preview import changed_rows
from ndis.data.source import Groups, choose_columns
from ndis.errors import ParameterError
from ndis.learn._base import Floats, in_memory_only, private_rows, private_targets, stated_bound
from ndis.mechanisms.base import as_adjacency
from ndis.mechanisms.projection import RandomProjection
from ndis.mechanisms.sketch_law import as_calibration
from ndis.mechanisms.sketch_size import default_sketch_size

__all__ = [
    "PrivateEstimator",
    "RowEstimator",
    "SketchEstimator",
    "TargetEstimator",
    "calibrated",
    "changed_count",
    "in_memory",
    "one_of",
]


@lru_cache(maxsize=64)
def calibrated(make: Any, **public: Any) -> Any:
    """A calibrated mechanism. It depends only on public parameters, so it may be kept."""
    return make(**public)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a parameter that is none of its choices."""
    if value not in choices:
        raise ParameterError(name, f"be one of {', '.join(choices)}", repr(value))


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of all estimators. scikit-learn reads the parameters from the constructor that `dataclass` writes."""

    epsilon: float = 1.0
    delta: float = 1e-6
    random_state: Any = None
    schema: Any = None
    ledger: Any = None
    slot: str | None = None

    @property
    def _against_first_category(self) -> bool:
        """Whether the first column of each category is left out, because a constant makes them collinear."""
        return False

    def _budget(self) -> dict[str, float]:
        return {"epsilon": as_scalar("epsilon", self.epsilon), "delta": as_scalar("delta", self.delta)}

    def _how(self) -> dict[str, Any]:
        """How to release: whose bits, and which ledger pays."""
        return {"random_state": self.random_state, "ledger": self.ledger, "slot": self.slot}

    def _keep(self, mechanism: Any, release: Any) -> Any:
        """Keep what was released, and return it."""
        self.release_, self.receipt_, self.mechanism_ = release, release.receipt, mechanism
        return release

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # an error at a record with a non-finite entry would leak it
        tags.input_tags.sparse = True
        return tags

    # ------------------------------------------------------------------ private data

    def _schema(self, *, number: bool = False, classes: bool = False) -> Schema | None:
        """The schema, if there is one, with a target of the kind that the estimator needs."""
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

    def _target_bound(self, *, name: str = "target_bound", clipped: str = "targets") -> float:
        """The public bound of a target: stated, or 1 with a schema, whose target has a range."""
        stated = getattr(self, name)
        if self._schema(number=self.schema is not None) is None:
            return stated_bound(name, stated, clipped=clipped)
        if stated is not None:
            raise ParameterError(name, "be left out with a schema, whose target has a range", stated)
        return 1.0

    def _fitted_rows(self, X: Any) -> Any:
        """The private rows in a form the release engine reads; sets `n_features_in_` and `feature_names_in_`."""
        schema = self._schema()
        in_memory_only("X", X)
        if schema is None:
            return private_rows(self, X)
        kept = self._kept_columns(schema)
        self._set_features([schema.feature_names[i] for i in kept])
        return schema.encode(X)[:, kept]

    def _fitted_targets(self, X: Any, y: Any) -> Floats:
        """The private targets; with a schema encoded, and from their column of X if `y` is left out."""
        schema = self._schema()
        in_memory_only("y", y)
        if schema is None:
            return private_targets(self, y)
        return schema.encode_target(X) if y is None else schema.encode_target_cells(_target_cells(schema, y))

    def _opened(
        self,
        data: Any,
        *,
        columns: Any,
        header: bool,
        progress: bool | None,
        target: Any = None,
        with_target: bool = True,
    ) -> tuple[Any, Groups]:
        """Files, folders, frames or dask collections, opened by their types, and the columns that are read.

        Sets `n_features_in_` and `feature_names_in_`. The data that are returned are given to the engine with the
        columns as numbers. `target` names one column, or a list of columns.
        """
        schema = self._schema()
        if schema is not None:
            if with_target and target not in (None, schema.target_name):
                rule = f"be left out, or {schema.target_name!r} as the schema says"
                raise ParameterError("target", rule, repr(target))
            data = schema.table(data, target=with_target, columns=columns, header=header)
            target, header = schema.target_name, False
            columns = [schema.feature_names[i] for i in self._kept_columns(schema)]
        elif with_target and target is None:
            raise ParameterError("target", "name the target column", None, "or state a schema with a target")
        opened = (
            open_dask(data)[0]
            if is_dask(data)
            else open_source(data, columns=columns, header=header, progress=progress)
        )
        targets = None if not with_target else list(target) if isinstance(target, list | tuple) else [target]
        groups = choose_columns(opened, columns, targets)
        if len(groups) != 1 + with_target:
            raise ParameterError("data", "be rows without targets", "a pair (X, y)")
        self._set_features([opened.names[i] for i in groups[0]] if opened.names else len(groups[0]))
        return data if is_dask(data) else opened, groups

    def _set_features(self, names: list[str] | int) -> None:
        if isinstance(names, int):
            self.n_features_in_ = names
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
            return
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.array(names, dtype=object)

    # ------------------------------------------------------------------ what was learnt

    def _public_rows(self, X: Any, *, encoded: bool = False) -> Any:
        """Rows to predict, which are not private; with a schema in original units, clipped to their ranges."""
        schema = self._schema()
        if schema is None:  # NaN passes through
            how: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": "allow-nan"}
            return validate_data(self, X, reset=False, **how)
        rows = schema.encode(X)
        return (rows if encoded else schema.decode(rows))[:, self._kept_columns(schema)]

    def _dense_rows(self, X: Any, *, encoded: bool = False) -> Floats:
        """The same as a plain array."""
        rows = self._public_rows(X, encoded=encoded)
        return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)

    def _kept_columns(self, schema: Schema) -> list[int]:
        """Numbers of the encoded columns to learn from: all, or all but the first of each category."""
        return schema.against_first() if self._against_first_category else list(range(len(schema.feature_names)))

    def _names(self) -> list[str]:
        """The names of the features, or x0, x1, … if they have none."""
        return list(map(str, getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])))

    def _unit_map(self, predictors: int, *, unit: float, constant: float | None) -> tuple[Floats, Floats]:
        """(A, b) such that A·θ + b is in the units of the data, for θ in `unit`; the weight of a constant is last."""
        matrix = np.diag(np.full(predictors, unit))
        if constant is not None:
            matrix[-1, -1] *= constant
        schema = self._schema()
        if schema is None:
            return matrix, np.zeros(predictors)
        original, shift = schema.unit_map()
        kept = [*self._kept_columns(schema), len(shift) - 1]
        return original[np.ix_(kept, kept[:predictors])] @ matrix, shift[kept]

    def _coefficients(self, theta: Floats, units: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        """Slopes, one row per output, and intercepts in the units of the data; θ has one column per output."""
        matrix, shift = units
        weights, features = matrix @ theta + shift[:, None], self.n_features_in_
        offsets = weights[features] if len(weights) > features else np.zeros(theta.shape[1])
        return np.asarray(weights[:features].T), np.asarray(offsets)


@dataclass(kw_only=True, eq=False, repr=False)
class RowEstimator(PrivateEstimator):
    """Base of the estimators that clip rows to a norm."""

    row_norm_bound: float | None = None
    adjacency: str = "add-remove"

    def _row_bound(self) -> float:
        """The public bound of the norm of a row: stated, or that of the schema."""
        schema, stated = self._schema(), self.row_norm_bound
        bound = schema.row_norm_bound if schema is not None and stated is None else stated
        instead = "or state schema= (--schema), an ndis.Schema with the ranges and categories of a table"
        return stated_bound("row_norm_bound", bound, instead=instead if bound is None else None)


@dataclass(kw_only=True, eq=False, repr=False)
class SketchEstimator(RowEstimator):
    """Base of the estimators that learn from one random projection; see `PrivateRidge` for the parameters."""

    sketch_size: int | None = None
    records: float | None = None
    calibration: str = "exact"

    def _records(self) -> float | None:
        return None if self.records is None else stated_bound("records", self.records, clipped="")

    def _calibrate(self, *, columns: int, **layout: Any) -> RandomProjection:
        """The mechanism for rows of this many columns, from public parameters only."""
        budget, size = self._budget(), self.sketch_size
        if size is None:
            size = default_sketch_size(columns=columns, records=self._records(), **budget)
        found: RandomProjection = calibrated(
            RandomProjection.calibrated,
            **budget,
            sketch_size=as_size("sketch_size", size),
            adjacency=as_adjacency(self.adjacency),
            calibration=as_calibration(self.calibration),
            **layout,
        )
        return found


class TargetEstimator(PrivateEstimator):
    """Base of the estimators that learn a target, which files and frames hold in a column of their own."""

    def fit_data(
        self, data: Any, *, target: Any = None, columns: Any = None, header: bool = False, progress: bool | None = None
    ) -> Self:
        """Fit from files, folders, frames or dask collections; the class says which of them it takes.

        Parameters
        ----------
        data : path, list of paths, data frame, Arrow table, dask collection or array
            The private records. A folder is read file by file, with bounded memory.
        target : str, int or list of them
            The target column, or columns if the estimator learns several. Leave it out with a schema, which names it.
        columns : names or numbers, optional
            The feature columns; by default all but the target. For CSV files without a header: the names of all
            columns, from left to right, the target among them, with None for a column that is not read.
        header : bool
            The first line of every CSV file holds names, which are public. Without it every line is a record.
        progress : bool, optional
            Show a progress bar for files; by default if standard error is a terminal.
        """
        bounds = self._check(files=True)
        how = {"columns": columns, "header": header, "progress": progress}
        opened, groups = self._opened(data, target=target, **how)
        return self._learn_opened(opened, groups, bounds, data=data, target=target, **how)

    def _check(self, *, files: bool = False) -> Any:
        """Check public parameters before any private value is read, and return the public bounds."""
        raise NotImplementedError  # each estimator has its own

    def _learn_opened(self, opened: Any, groups: Groups, bounds: Any, **given: Any) -> Self:
        """Learn from opened data; `given` are the arguments of `fit_data`."""
        raise NotImplementedError  # each estimator has its own


# ---------------------------------------------------------------------- data in memory


def _target_cells(schema: Schema, y: Any) -> Any:
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


def in_memory(data: Any, groups: Groups, *, most: int | None = None) -> tuple[Floats, Floats]:
    """The first `most` records of opened data with one target, as arrays."""
    blocks: list[tuple[Floats, Floats]] = []
    count = 0
    for rows, targets in (open_dask(data)[0] if is_dask(data) else data).read(groups):
        with np.errstate(all="ignore"):  # a warning would tell of the values
            host = [np.asarray(part.cpu() if hasattr(part, "cpu") else part, np.float64) for part in (rows, targets)]
        left = None if most is None else max(most - count, 0)
        blocks.append((host[0][:left], host[1][:left, 0]))
        count += len(blocks[-1][0])
    x = np.concatenate([np.empty((0, len(groups[0]))), *(rows for rows, _ in blocks)])
    return x, np.concatenate([np.empty(0), *(values for _, values in blocks)])


def changed_count(estimator: Any, data: Any, y: Any, **how: Any) -> int:
    """**Private**: how many rows the schema of an estimator changes; release it only with noise."""
    schema = estimator._schema()
    assert schema is not None
    targets = None if y is None else _target_cells(schema, y)
    bound, kept = estimator._row_bound(), estimator._kept_columns(schema)
    return changed_rows(schema, data, targets=targets, row_norm_bound=bound, kept=kept, **how)
