"""All estimators share one base, which declares parameters, reads private records, and turns results into units.

With a schema, rows and targets are encoded by it, bounds come from it, and learnt values go back to original units.
Private rows and targets are opened by their types and shapes, and no check looks at a value.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import _check_feature_names, _check_n_features, check_is_fitted, validate_data

from ndis._validate import STATE_A_BOUND, Floats, as_scalar
from ndis.data import Rows, open_rows, open_table
from ndis.data.cells import kind_of
from ndis.data.memory import check_lengths, is_vector, no_list, no_mask, target_table
from ndis.data.opening import is_dask, is_paths, open_for
from ndis.data.schema import Number, Schema
from ndis.data.schema.changed import changed_rows
from ndis.errors import ParameterError
from ndis.learn._saved import SavedModel
from ndis.ledger import pay

__all__ = [
    "INTERCEPT_SHARE", "PrivateEstimator", "calibrated", "in_memory_only", "one_of", "private_rows", "private_targets",
    "stated_bound",
]  # fmt: skip

# The constant column is this multiple of `row_norm_bound`. A larger one adds noise to the features, and a smaller one
# loses the mean in noise. Between 0.4 and 0.7 the errors measured on real data hardly change.
INTERCEPT_SHARE = 0.5


@lru_cache(maxsize=64)
def calibrated(make: Any, **public: Any) -> Any:
    """Calibrate a mechanism. It depends only on public parameters, so it may be kept."""
    return make(**public)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a parameter that is none of its choices."""
    if value not in choices:
        raise ParameterError(name, f"be one of {', '.join(choices)}", repr(value))


def stated_bound(name: str, value: Any, *, clipped: str = "rows", instead: str | None = None) -> float:
    """Return a public bound. It must be a number: a bound from the data would leak them. `clipped` says what it clips.

    `instead` names what may be stated in its place.

    >>> stated_bound("row_norm_bound", None)
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: row_norm_bound must be a positive number; got None; state what is known without looking
    at the data (a bound taken from the data would leak it), and rows beyond it are clipped
    """
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:  # an integer beyond the floats
        number = math.inf
    if not 0 < number < math.inf:
        beyond = f", and {clipped} beyond it are clipped" if clipped else ""
        remedy = STATE_A_BOUND + beyond + ("" if instead is None else f"; {instead}")
        raise ParameterError(name, "be a positive number", repr(value), remedy)
    return number


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(SavedModel):
    """All estimators have these parameters. scikit-learn reads them from the constructor that `dataclass` writes.

    An estimator inherits from this class first, then from mixins of scikit-learn, and last from its `BaseEstimator`.
    Each has `_check`, which checks public parameters before any private value is read, and `_learn`, which releases.
    """

    _has_target: ClassVar[bool] = True

    epsilon: float = 1.0
    delta: float = 1e-6
    random_state: Any = None
    schema: Any = None
    ledger: Any = None
    slot: str | None = None

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # a fit sets attributes that end in "_"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Make all releases from rows in memory, and learn from them.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, features)
            The private rows.
        y : array of shape (n,) or (n, targets)
            The private targets or labels, one column for all but linear models. With a schema it may be left out if X
            has the target among its columns. Estimators that learn from rows only ignore it.
        """
        public = self._check()
        rows, one = self._fitted_rows(X, y)
        return self._learn(rows, public, one=one, changed=partial(self._changed_rows, X if y is None else (X, y)))

    def fit_data(
        self, data: Any, *, target: Any = None, columns: Any = None, header: bool = False, progress: bool | None = None
    ) -> Self:
        """Fit from files, folders, frames or dask collections, which are read once for every release.

        Parameters
        ----------
        data : path, `ndis.data.Files`, data frame, Arrow table, dask collection or array
            The private records. A folder is read file by file, with bounded memory.
        target : str, int or list of them
            The target column, or for linear models a list of columns. Leave it out with a schema, which names it, and
            for estimators that learn from rows only.
        columns : names or numbers, optional
            The feature columns; by default all but the target. For CSV files without a header: the names of all
            columns, from left to right, the target among them, with None for a column that is not read.
        header : bool
            The first line of every CSV file holds names, which are public. Without it every line is a record.
        progress : bool, optional
            Show a progress bar for files; by default if standard error is a terminal.
        """
        public = self._check(files=True)
        how: dict[str, Any] = {"columns": columns, "header": header, "progress": progress}
        rows, one = self._opened(data, target=target, **how), not isinstance(target, list | tuple)
        return self._learn(rows, public, one=one, changed=partial(self._changed_rows, data, **how))

    def _check(self, *, files: bool = False) -> Any:
        """Check public parameters before any private value is read, and return the public numbers of a fit."""
        raise NotImplementedError  # each estimator has its own

    def _learn(self, rows: Rows, public: Any, *, one: bool, changed: Callable[[], int]) -> Self:
        """Make all releases, and keep results; `one` if the only target has no dimension of its own."""
        raise NotImplementedError  # each estimator has its own

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

    def _fitted_rows(self, X: Any, y: Any) -> tuple[Rows, bool]:
        """Open private rows and targets in memory; True if there is one target, without a dimension of its own.

        A schema encodes both, and finds the targets in X if `y` is left out.
        """
        schema = self._schema()
        in_memory_only("X", X)
        if schema is not None:
            in_memory_only("y", y)
            data = (X, y) if self._has_target and y is not None else X
            return self._encoded(schema, data, target=self._has_target).held(), True
        no_list("X", X)
        rows = private_rows(self, X)
        if not self._has_target:
            return open_rows(rows), True
        if y is None:  # in the words of scikit-learn
            remedy = f"{type(self).__name__} requires y to be passed, but the target y is None"
            raise ParameterError("y", "be given", None, remedy)
        targets = self._given_targets(y)
        check_lengths(rows, targets)
        return open_rows((rows, self._target_numbers(targets))), is_vector(targets)

    def _given_targets(self, y: Any) -> Any:
        """Check private targets in memory by their type and shape."""
        return private_targets(y)

    def _target_numbers(self, targets: Any) -> Any:
        """Return checked targets as the release engine reads them: at their first use, after the ledger has reserved.

        They have no names: a series may have that of a feature.
        """
        return replace(target_table(targets), names=()).matrix().held().table

    def _opened(self, data: Any, *, target: Any, **how: Any) -> Rows:
        """Open files, folders, frames or dask collections by their types; set the number and names of features.

        `how` are the arguments of `open_table`. `target` names one column, or a list of columns.
        """
        schema, with_target = self._schema(), self._has_target
        if target is not None and not with_target:
            raise ParameterError("target", "be left out", repr(target), "the estimator learns from rows only")
        if schema is not None:
            if target not in (None, schema.target_name):
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
        release = self._paid(mechanism, make, random_state=self.random_state)
        self.release_, self.receipt_, self.mechanism_ = release, release.receipt, mechanism
        return release

    def _paid(self, mechanism: Any, make: Callable[[], Any], *, random_state: Any) -> Any:
        """Call `make`, which reads the data; if there is a ledger, only after it has reserved."""
        if self.ledger is None and self.slot is None:
            return make()
        return pay(mechanism, make, ledger=self.ledger, slot=self.slot, random_state=random_state)

    def _public_rows(self, X: Any, *, encoded: bool = False) -> Any:
        """Return rows to predict, which are not private; with a schema in original units, clipped to their ranges."""
        schema = self._schema()
        if schema is None:  # NaN passes through
            how: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": "allow-nan"}
            return validate_data(self, X, reset=False, **how)
        rows = schema.encode(X)
        return (rows if encoded else schema.decode(rows))[:, self._kept_columns(schema)]

    def _linear_scores(self, X: Any) -> Floats:
        """Return Xβ plus the intercept; NaN if a row has NaN."""
        check_is_fitted(self)
        return np.asarray(self._public_rows(X) @ self.coef_.T + self.intercept_)

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
        weights, features = matrix @ theta + shift.reshape(len(shift), -1), self.n_features_in_
        offsets = weights[features] if len(weights) > features else np.zeros(theta.shape[1])
        slopes = np.asarray(weights[:features].T)
        return (slopes[0], float(offsets[0])) if one else (slopes, np.asarray(offsets))


# ---------------------------------------------------------------------- private rows and targets in memory


def in_memory_only(name: str, data: Any) -> None:
    """Refuse a dask collection or a path as an argument of `fit`.

    >>> in_memory_only("X", "table.csv")
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: X must be in memory for fit; got a path; fit_data reads files, with the target among
    their columns; header=True if the first line of a CSV file holds names
    """
    if is_dask(data):
        remedy = "fit_data takes one, with the target among its columns"
        raise ParameterError(name, "be in memory for fit", "a dask collection", remedy)
    if isinstance(data, str | os.PathLike) or (name == "X" and is_paths(data)):  # a list y may hold labels
        remedy = "fit_data reads files, with the target among their columns; "
        remedy += "header=True if the first line of a CSV file holds names"
        raise ParameterError(name, "be in memory for fit", "a path", remedy)


def private_rows(estimator: Any, X: Any) -> Any:
    """Return the rows in a form that the release engine reads. Set `n_features_in_` and `feature_names_in_`.

    Types and shapes are checked, and no check looks at a value. A cell that is not a number becomes NaN, and the engine
    turns its row into zeros.
    """
    rows = _by_type("X", as_array(X))
    shape = getattr(rows, "shape", None)
    if shape is not None and len(shape) != 2:
        remedy = "Reshape your data: one feature is X.reshape(-1, 1)"
        raise ParameterError("X", "have two dimensions, rows and columns", f"{len(shape)} dimension(s)", remedy)
    if shape is not None and shape[1] == 0:
        raise ParameterError("X", "have a column", "0 feature(s) (shape=(n, 0)) while a minimum of 1 is required.")
    _check_feature_names(estimator, X, reset=True)
    _check_n_features(estimator, rows, reset=True)
    return rows


def private_targets(y: Any) -> Any:
    """Return targets as they stand, checked by type and shape: `target_table` opens them. A text type is refused.

    >>> private_targets(np.array(["low", "high"]))
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: y must hold real numbers; got text; convert it first (a list is read cell by cell)
    """
    in_memory_only("y", y)
    given = as_array(y)
    if getattr(given, "ndim", 1) not in (1, 2):
        raise ParameterError("y", "have one or two dimensions", f"{given.ndim} dimension(s)")
    if isinstance(given, np.ndarray) and given.dtype.kind == "f" and given.dtype.itemsize > 8:
        with np.errstate(all="ignore"):  # a warning would reveal something about the values
            given = given.astype(np.float64)
    for kind in target_table(given).refused.values():
        raise ParameterError("y", "hold real numbers", kind, "convert it first (a list is read cell by cell)")
    return given


def as_array(data: Any) -> Any:
    """Return what says that it is an array as one; other data come back unchanged."""
    no_mask(data)
    known = type(data).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow", "scipy", "torch")
    if not known and not hasattr(data, "columns") and hasattr(data, "__array__"):
        return np.asarray(data)
    return data


def _by_type(name: str, data: Any) -> Any:
    """Refuse arrays whose type holds no real numbers; arrays of objects and text are read cell by cell."""
    kind = getattr(getattr(data, "dtype", None), "kind", "f")
    if kind == "c":
        raise ParameterError(name, "be real", "complex numbers", "Complex data not supported")
    if not isinstance(data, np.ndarray) or kind in "fiubO":
        return data
    if kind not in "SU":
        raise ParameterError(name, "hold real numbers", kind_of(data.dtype))
    return data.astype(object)
