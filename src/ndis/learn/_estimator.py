"""All estimators share one base, which declares parameters, reads private records, and turns results into units.

With a schema, rows and targets are encoded by it, bounds come from it, and learnt values go back to original units.
Private rows and targets are opened by their types and shapes, and no check looks at a value.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from ndis._validate import STATE_A_BOUND, WIDEST, Floats, as_scalar, as_size, as_within, require, warn_caller
from ndis.data import Rows, open_rows, open_table
from ndis.data.memory import check_lengths, is_vector, no_list, target_table
from ndis.data.opening import is_dask, is_paths, open_for
from ndis.data.schema import Number, Schema
from ndis.errors import ParameterError
from ndis.learn._rows import private_rows, private_targets
from ndis.learn._saved import SavedModel
from ndis.ledger import pay

_MOST_ROUNDS = 20  # more would leave nothing to the last one


@lru_cache(maxsize=64)
def calibrated(make: Any, **public: Any) -> Any:
    """Calibrate a mechanism. It depends only on public parameters, so it may be kept."""
    return make(**public)


def stated_bound(name: str, value: Any, *, clipped: str = "rows", instead: str | None = None) -> float:
    """Return a public bound. It must be a number: a bound from the data would leak them. `clipped` says what it clips.

    `instead` names what may be stated in its place.

    >>> stated_bound("row_norm_bound", None)
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: row_norm_bound must be a positive number; got None; state what is known without looking
    at the data (a bound taken from the data would leak it), and rows beyond it are clipped
    """
    real = isinstance(value, Real) and not isinstance(value, bool)
    beyond = f", and {clipped} beyond it are clipped" if clipped else ""
    remedy = STATE_A_BOUND + beyond + ("" if instead is None else f"; {instead}")
    require(real and 0 < value <= sys.float_info.max, name, "be a positive number", repr(value), remedy)
    return as_within(name, float(value), WIDEST)


def in_memory_only(name: str, data: Any) -> None:
    """Refuse a dask collection or a path as an argument of `fit`.

    >>> in_memory_only("X", "table.csv")
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: X must be in memory for fit; got a path; fit_data reads files, with the target among
    their columns; header=True if the first line of a CSV file holds names
    """
    remedy = "fit_data takes one, with the target among its columns"
    require(not is_dask(data), name, "be in memory for fit", "a dask collection", remedy)
    if isinstance(data, str | os.PathLike) or (name == "X" and is_paths(data)):  # a list y may hold labels
        remedy = "fit_data reads files, with the target among their columns; "
        remedy += "header=True if the first line of a CSV file holds names"
        raise ParameterError(name, "be in memory for fit", "a path", remedy)


def warn_of_score(*, public: bool) -> None:
    """Warn that a score has no noise, unless the caller says that its rows are public. No row is looked at."""
    if not public:
        remedy = "public=True says they are not private; ndis.learn.score_privately releases a score with noise"
        warn_caller(f"a score is exact, and leaks private rows; {remedy}")


class Scored:
    """The score of a model on rows has no noise, so it is for public rows."""

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, public: bool = False) -> float:
        """Compute R² of predictions, or their accuracy, without noise.

        The score of private rows leaks them, so it warns unless ``public=True`` says that they are not.
        `ndis.learn.score_privately` releases a score of private rows.

        Parameters
        ----------
        X, y, sample_weight
            As for scikit-learn.
        public : bool
            The rows are not private.
        """
        warn_of_score(public=public)
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]  # a mixin of scikit-learn has it


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(SavedModel):
    """All estimators have these parameters. scikit-learn reads them from the constructor that `dataclass` writes.

    An estimator inherits from this class first, then from mixins of scikit-learn, and last from its `BaseEstimator`.
    Each has two methods. `_check(files=)` checks public parameters before any private value is read, and returns public
    numbers. `_learn(rows, public, one=)` makes all releases, and keeps results; with `one` the only target has no
    dimension of its own.
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
        public = self._checked()
        rows, one = self._fitted_rows(X, y)
        self._learn(rows, public, one=one)
        return self

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
        public = self._checked(files=True)
        rows = self._opened(data, target=target, columns=columns, header=header, progress=progress)
        self._learn(rows, public, one=not isinstance(target, list | tuple))
        return self

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

    def _checked(self, *, files: bool = False) -> Any:
        """Check the parameters that are true or false by default, then all others; return the public numbers."""
        for one in fields(self):
            given = getattr(self, one.name)
            good = "bool" not in str(one.type) or given is one.default or isinstance(given, bool | np.bool_)
            require(good, one.name, "be True or False", f"{given!r:.80}")
        return self._check(files=files)

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
        known = stated_bound(name, bound, instead=instead if bound is None else None)
        return known if schema is None else min(known, schema.row_norm_bound)

    def _target_bound(self, name: str = "target_bound", *, clipped: str = "targets") -> float:
        """Return the public bound of a target: the parameter `name`, or 1 with a schema, whose target has a range."""
        stated = getattr(self, name)
        if self._schema(number=self.schema is not None) is None:
            return stated_bound(name, stated, clipped=clipped)
        require(stated is None, name, "be left out with a schema, whose target has a range", stated)
        return 1.0

    def _checked_rounds(self, *, several: bool = True) -> int:
        """Return the number of rounds."""
        rounds = as_size("rounds", self.rounds)
        require(not several or 2 <= rounds <= _MOST_ROUNDS, "rounds", f"be from 2 to {_MOST_ROUNDS}", rounds)
        return rounds

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
        opened = open_rows((rows, self._target_numbers(targets)))
        check_lengths(rows, targets)
        return opened, is_vector(targets)

    def _given_targets(self, y: Any) -> Any:
        """Check private targets in memory by their type and shape."""
        in_memory_only("y", y)
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
            rule = f"be left out, or {schema.target_name!r} as the schema says"
            require(target in (None, schema.target_name), "target", rule, repr(target))
            return self._encoded(schema, data, target=with_target, **how)
        if with_target and target is None:
            raise ParameterError("target", "name the target column", None, "or state a schema with a target")
        targets = None if not with_target else list(target) if isinstance(target, list | tuple) else [target]
        rows = open_table(data, **how).matrix(how["columns"], targets)
        require(len(rows.groups) == 1 + with_target, "data", "be rows without targets", "a pair (X, y)")
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
        with np.errstate(all="ignore"):  # no warning or error of NumPy may follow a reservation
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

    def _in_units(self, matrix: Floats, shift: Any = 0.0) -> tuple[Floats, Floats]:
        """Find (B, c) with B·θ + c in the units of the data, where A·θ + b are slopes and an intercept of encoded rows.

        The intercept is last; there is one with a schema in any case, because units have their own zeros.
        """
        shift, schema = shift * np.ones((len(matrix), 1)), self._schema()
        if schema is None:
            return matrix, shift
        original, moved = schema.unit_map()
        kept = [*self._kept_columns(schema), len(moved) - 1]
        original = original[np.ix_(kept, kept[: len(matrix)])]
        return original @ matrix, original @ shift + moved[kept][:, None]

    def _coefficients(self, theta: Floats, units: tuple[Floats, Floats], *, one: bool = False) -> tuple[Floats, Any]:
        """Return slopes and intercepts in the units of the data; θ has one column per output.

        There is one row of slopes per output. With `one` the only output has no dimension.
        """
        weights, features = units[0] @ theta + units[1], self.n_features_in_
        offsets = weights[features] if len(weights) > features else np.zeros(theta.shape[1])
        slopes = np.asarray(weights[:features].T)
        return (slopes[0], float(offsets[0])) if one else (slopes, np.asarray(offsets))
