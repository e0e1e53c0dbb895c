"""A schema states the public knowledge about a table once.

A schema names the columns, with the range of each number and the list of each category. It never looks at data: a range
or a category that was read from private rows would leak them. `Schema` turns rows as people have them (units, text,
dates, missing cells) into rows that every mechanism takes:

- a number is clipped to its range and mapped to [−1, 1], the middle of the range to 0;
- a date is a number of days, with the same map; a boolean is −1 or 1;
- a category becomes one column per value, 1 for its own and 0 elsewhere, so that the block has norm at most 1. A value
  that is not listed becomes a row of zeros in its block.

Every cell is read by itself, so one record cannot change how another one is read. A cell that is missing gets the
column's `fill`. If the column has none, the whole row counts as zeros, as without a schema.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from ndis._files import write_file
from ndis._validate import as_scalar, require, warn_caller
from ndis.data.cells import Cells, Floats
from ndis.data.opening import open_for
from ndis.data.schema.columns import Boolean, Category, Column, Number, as_column, as_name, as_target, box_norm
from ndis.data.schema.preview import Preview, preview
from ndis.data.schema.template import quoted, toml_value
from ndis.data.table import Table
from ndis.errors import ParameterError


@dataclass(frozen=True, init=False)
class Schema:
    """A schema states what is public about a table: its columns, their ranges and categories, and the target.

    Parameters
    ----------
    columns : mapping
        Name → what is known: ``(low, high)`` for a number or for dates, a list for a category, ``bool`` for true or
        false, or a `Number`, `Date`, `Category` or `Boolean` with a `fill` value.
    target : tuple or mapping, optional
        ``(name, low, high)`` for a number, ``(name, [values])`` for classes, ``(name, bool)`` for true or false.
    row_norm_bound : float, optional
        A bound on the norm of an encoded row that is smaller than that of the box, √(number of columns). Rows beyond
        it are scaled down.

    Examples
    --------
    >>> schema = Schema({"age": (18, 90), "region": ["N", "S"]}, target=("spend", 0, 5_000))
    >>> schema.feature_names
    ('age', 'region=N', 'region=S')
    >>> round(schema.row_norm_bound, 6)
    1.414214
    >>> schema.encode({"age": [54, 18], "region": ["S", "N"]}).tolist()
    [[0.0, 0.0, 1.0], [-1.0, 1.0, 0.0]]

    A release and its coefficients:

    >>> from ndis.learn import PrivateRidge
    >>> model = PrivateRidge(epsilon=1.0, schema=schema)
    >>> rows = {"age": [30, 40], "region": ["N", "S"], "spend": [100, None]}
    >>> model.fit(rows).feature_names_in_.tolist()
    ['age', 'region=N', 'region=S']
    """

    columns: Mapping[str, Column]
    target_name: str | None
    target: Number | Category | Boolean | None
    row_norm_bound: float

    def __init__(self, columns: Mapping[str, Any], *, target: Any = None, row_norm_bound: float | None = None) -> None:
        if not isinstance(columns, Mapping) or not columns:
            raise ParameterError("columns", "map names to ranges or categories, at least one", type(columns).__name__)
        read = {as_name(name): as_column(name, spec) for name, spec in columns.items()}
        target_name, target_column = as_target(target)
        labels = [label for name, column in read.items() for label in column.labels(name)]
        if target_name is not None and (target_name in read or target_name in labels):
            raise ParameterError("target", "not be a feature as well", repr(target_name))
        if len(set(labels)) < len(labels):
            raise ParameterError("columns", "give different names to the encoded columns", repr(sorted(labels)))
        box = box_norm(read)
        bound = box if row_norm_bound is None else as_scalar("row_norm_bound", row_norm_bound)
        require(0 < bound <= box, "row_norm_bound", f"be positive and at most {box!r}, the norm of the box", bound)
        self.__dict__.update(columns=MappingProxyType(read), target_name=target_name, target=target_column)
        self.__dict__["row_norm_bound"] = bound

    def __repr__(self) -> str:
        target = "" if self.target is None else f", target={(self.target_name, self.target)!r}"
        bound = "" if self.row_norm_bound == box_norm(self.columns) else f", row_norm_bound={self.row_norm_bound}"
        return f"Schema({dict(self.columns)!r}{target}{bound})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Schema.from_dict, (self.to_dict(),)  # a mapping that cannot be changed cannot be pickled either

    def __hash__(self) -> int:
        return hash((tuple(self.columns.items()), self.target_name, self.target, self.row_norm_bound))

    def __deepcopy__(self, memo: Any) -> Schema:
        return self

    # ------------------------------------------------------------------ what it says

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Return the names of the encoded feature columns."""
        return tuple(label for name, column in self.columns.items() for label in column.labels(name))

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes of a target that is a category or a boolean; empty for a number."""
        return self.target.values if isinstance(self.target, Category | Boolean) else ()

    def against_first(self) -> list[int]:
        """Return the numbers of the encoded columns without the first of each category, which a constant makes up for.

        >>> Schema({"age": (18, 90), "region": ["N", "S", "W"]}).against_first()
        [0, 2, 3]
        """
        labels = [(column, i) for name, column in self.columns.items() for i, _ in enumerate(column.labels(name))]
        return [place for place, (column, i) in enumerate(labels) if i or not isinstance(column, Category)]

    def bounds(self) -> dict[str, float]:
        """The public bounds of encoded rows, as arguments of a mechanism.

        >>> Schema({"age": (18, 90)}, target=("spend", 0, 5_000)).bounds()
        {'row_norm_bound': 1.0, 'target_bound': 1.0}
        """
        own = {"row_norm_bound": self.row_norm_bound}
        return own | ({"target_bound": 1.0} if isinstance(self.target, Number) else {})

    def needed_target(self) -> str:
        """Return the name of the target, or refuse."""
        if self.target_name is None:
            remedy = 'in Python target=("spend", 0, 5_000), or schema.with_target("spend") if it is a column; '
            remedy += 'in TOML [target] with name = "spend", low = 0 and high = 5000'
            raise ParameterError("schema", "have a target", "none", remedy)
        return self.target_name

    def with_target(self, name: str) -> Schema:
        """The schema in which this column is the target, and no feature.

        >>> schema = Schema({"age": (18, 90), "spend": (0, 5_000)}).with_target("spend")
        >>> schema.feature_names, schema.target_name
        (('age',), 'spend')
        """
        if self.target_name is not None:
            raise ParameterError("target", f"be left out, or {self.target_name!r} as the schema says", repr(name))
        rule = f"be a column of the schema, one of {', '.join(map(repr, self.columns))}"
        require(name in self.columns, "target", rule, repr(name))
        others = {key: column for key, column in self.columns.items() if key != name}
        require(others, "target", "leave another column", repr(name))
        bound = self.row_norm_bound if self.row_norm_bound < box_norm(others) else None
        return Schema(others, target=(name, self.columns[name]), row_norm_bound=bound)

    # ------------------------------------------------------------------ rows

    def table(
        self,
        data: Any,
        *,
        target: bool | None = None,
        columns: Any = None,
        header: bool = False,
        progress: bool | None = None,
    ) -> Table:
        """Return the data as encoded rows, which every mechanism and estimator takes in place of data.

        Parameters
        ----------
        data : data frame, Arrow table, mapping of columns, array, path or `ndis.data.Files`
            Files and folders (CSV, Parquet, Arrow) are streamed. A dask data frame is encoded where it lives.
        target : bool, optional
            Whether the encoded target is the last column; by default if the schema has one.
        columns : names, optional
            For CSV files without a header: the names of all columns, with None for one that is not read. By default
            the order of the schema, with the target last.
        header : bool
            The first line of every CSV file holds public names.
        progress : bool, optional
            Show a progress bar for files; by default if standard error is a terminal.

        Examples
        --------
        >>> import ndis
        >>> schema = Schema({"age": (18, 90), "region": ["N", "S"]})
        >>> mechanism = ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, **schema.bounds())
        >>> mechanism.release(schema.table({"age": [54, 18], "region": ["S", "N"]})).names
        ('age', 'region=N', 'region=S')
        """
        opened = open_for(self, data, columns=columns, header=header, progress=progress)
        return opened.encoded(self, target=target)

    def encode(self, data: Any) -> Floats:
        """Encode the feature columns of rows in memory: a frame, an Arrow table, a mapping of columns, or an array.

        A column that the schema names and the data lack is refused by name. Other columns are left alone.
        """
        return open_for(self, data).encoded(self, target=False).matrix().arrays()[0]

    def encode_cells(self, cells: Sequence[Cells]) -> Floats:
        """Encode one array of cells per column, in the order of the schema."""
        blocks = [column.encode(each).T for column, each in zip(self.columns.values(), cells, strict=True)]
        return np.concatenate(blocks).T

    def encode_target(self, data: Any) -> Floats:
        """Encode the target column of rows in memory: a number in [−1, 1], a category as the number of its class."""
        opened = open_for(self, data)
        blocks = opened.cells(opened.columns_of(self, target=True, features=False))
        return np.concatenate([np.empty(0), *(self.encode_target_cells(cells) for (cells,) in blocks)])

    def encode_target_cells(self, cells: Cells) -> Floats:
        """Encode an array of cells of the target."""
        self.needed_target()
        if isinstance(self.target, Number):
            return self.target.encode(cells).ravel()
        assert self.target is not None
        return self.target.codes(self.target.read(cells))

    def decode(self, encoded: Any) -> Floats:
        """Return encoded rows in original units, one column per encoded column; a category stays in columns of 0 and 1.

        >>> Schema({"age": (18, 90)}).decode([[0.0], [1.0]]).ravel().tolist()
        [54.0, 90.0]
        """
        centre, half_width = self.scales()
        rows = np.asarray(encoded, dtype=np.float64)
        rule = f"have {len(centre)} columns, those of feature_names"
        remedy = "rows of a sketch are random draws, not records: use release.gram(), and in_units for slopes"
        require(rows.shape[-1:] == centre.shape, "encoded", rule, f"shape {rows.shape}", remedy)
        return rows * half_width + centre

    def preview(self, rows: Any, *, public: bool = False, columns: Any = None, header: bool = False) -> Preview:
        """Show the effect of the schema on **public or synthetic** rows: shares clipped, missing, unknown; norms.

        A preview of private rows leaks them, so it warns unless ``public=True`` says that they are not. `clipped_count`
        counts clipped rows of private data with noise.

        >>> shown = Schema({"age": (18, 90)}).preview({"age": [17, 20, 50, None]}, public=True)
        >>> shown.columns[0].clipped, shown.columns[0].missing
        (0.25, 0.25)
        """
        if not public:
            warn_caller("a preview shows rows without noise, and leaks private ones; public=True says they are not")
        return preview(self, rows, columns=columns, header=header)

    def clipped_count(self, data: Any, *, epsilon: float, delta: float, **how: Any) -> Any:
        """Release a noisy count of the rows of private data that this schema changes.

        A row counts if a cell, the target included, is clipped to its range, missing, or of no listed category, or if
        the encoded row is beyond the norm bound. One record moves the count by at most 1.

        Parameters
        ----------
        data : as for `table`
        epsilon, delta : float
            The guarantee.
        how : optional
            `row_norm_bound`, `adjacency`, `columns`, `header`, `progress`, `random_state`, `ledger` and `slot`, as for
            the release of a mechanism.

        Returns
        -------
        GaussianRelease
            `values` holds the count, `noise_variance` its variance, and `receipt` what is guaranteed.

        Examples
        --------
        >>> release = Schema({"age": (18, 90)}).clipped_count({"age": [30, 95, 40, 12] * 1000}, epsilon=1.0, delta=1e-6)
        >>> bool(1900 < release.values[0] < 2100), release.receipt.private
        (True, True)
        """
        mechanisms = import_module("ndis.mechanisms.rows")  # it lies above, so it is met by its name only
        return mechanisms.clipped_count(data, self, epsilon=epsilon, delta=delta, **how)

    def transformer(self) -> SchemaTransformer:
        """The scikit-learn step that encodes rows; it learns nothing, so it leaks nothing.

        >>> step = Schema({"age": (18, 90), "region": ["N", "S"]}).transformer()
        >>> step.fit_transform({"age": [54], "region": ["S"]}).tolist()
        [[0.0, 0.0, 1.0]]
        """
        return SchemaTransformer(self)

    # ------------------------------------------------------------------ units

    def scales(self) -> tuple[Floats, Floats]:
        """(centre, half-width) of every encoded column in original units; 0 and 1 for a column of a category."""
        centre, half_width = np.array([pair for column in self.columns.values() for pair in column.scales()]).T
        return centre, half_width

    def target_scale(self) -> tuple[float, float]:
        """(centre, half-width) of the target in original units; 0 and 1 unless it is a number."""
        return (self.target.centre, self.target.half_width) if isinstance(self.target, Number) else (0.0, 1.0)

    def unit_map(self) -> tuple[Floats, Floats]:
        """(A, b) such that A·(coefficients, intercept) + b is in original units, for the encoded ones.

        The covariance of encoded estimates becomes A·C·Aᵀ.

        >>> A, b = Schema({"age": (0, 100)}, target=("spend", 0, 1_000)).unit_map()
        >>> (A @ [0.5, 0.0] + b).tolist()
        [5.0, 250.0]
        """
        (centre, half_width), (target_centre, target_width) = self.scales(), self.target_scale()
        p = len(centre)
        matrix = np.zeros((p + 1, p + 1))
        matrix[np.arange(p), np.arange(p)] = target_width / half_width
        matrix[p, :p] = -centre / half_width * target_width
        matrix[p, p] = target_width
        return matrix, np.concatenate([np.zeros(p), [target_centre]])

    def in_units(self, coefficients: Any, intercept: Any) -> tuple[Floats, Floats]:
        """Return coefficients and intercept of encoded columns as those of the original ones, target included.

        Parameters
        ----------
        coefficients : (features,), (outputs, features) or (features, 1) array
            One per encoded column, without the weight of a constant. `ndis.learn.ridge_from_gram` returns a column.
        intercept : number or (outputs,) array

        Examples
        --------
        >>> schema = Schema({"age": (0, 100)}, target=("spend", 0, 1_000))
        >>> slope, constant = schema.in_units([0.5], 0.0)
        >>> slope.tolist(), float(constant)
        ([5.0], 250.0)
        """
        given, (matrix, shift) = np.asarray(coefficients, dtype=np.float64), self.unit_map()
        p = len(shift) - 1
        column = given.ndim == 2 and given.shape == (p, 1)
        if not column and (given.ndim not in (1, 2) or given.shape[-1] != p):
            rule = f"have {p} entries, one per encoded column, in a vector, in rows or in one column"
            raise ParameterError("coefficients", rule, f"shape {given.shape}", "leave out the weight of a constant")
        slopes = given.T if column else given
        constant = np.broadcast_to(np.asarray(intercept, dtype=np.float64), slopes.shape[:-1])[..., None]
        moved = np.concatenate([slopes, constant], axis=-1) @ matrix.T + shift
        return moved[..., :-1].T if column else moved[..., :-1], moved[..., -1]

    # ------------------------------------------------------------------ out and in

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for TOML."""
        stated: dict[str, Any] = {"columns": {name: column.to_dict() for name, column in self.columns.items()}}
        if self.target_name is not None and self.target is not None:
            stated["target"] = {"name": self.target_name} | self.target.to_dict()
        if self.row_norm_bound != box_norm(self.columns):
            stated["row_norm_bound"] = self.row_norm_bound
        return stated

    @classmethod
    def from_dict(cls, stated: Any) -> Schema:
        """The schema that `to_dict` wrote; anything else is refused."""
        if not isinstance(stated, dict) or not stated.keys() <= {"columns", "target", "row_norm_bound"}:
            raise ParameterError("schema", "have columns, and perhaps target and row_norm_bound", "something else")
        return cls(stated.get("columns", {}), target=stated.get("target"), row_norm_bound=stated.get("row_norm_bound"))

    def to_toml(self, path: str | os.PathLike[str] | None = None) -> str:
        """The schema as TOML text, written to `path` as well if one is given.

        >>> print(Schema({"age": (18, 90), "region": ["N", "S"]}).to_toml())
        [columns]
        "age" = { low = 18.0, high = 90.0 }
        "region" = { categories = ["N", "S"] }
        <BLANKLINE>
        """
        stated = self.to_dict()
        lines = [f"row_norm_bound = {stated['row_norm_bound']!r}", ""] if "row_norm_bound" in stated else []
        columns = [f"{quoted(name)} = {toml_value(spec)}" for name, spec in stated["columns"].items()]
        lines += ["[columns]", *columns, ""]
        if "target" in stated:
            lines += ["[target]", *(f"{key} = {toml_value(value)}" for key, value in stated["target"].items()), ""]
        text = "\n".join(lines)
        if path is not None:
            write_file(path, text.encode(), name="path")
        return text

    @classmethod
    def from_receipt(cls, receipt: Any) -> Schema:
        """The schema that a release was made with. It is public, and its receipt has it.

        >>> import ndis
        >>> schema = Schema({"age": (18, 90)})
        >>> mechanism = ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, **schema.bounds())
        >>> Schema.from_receipt(mechanism.release({"age": [54, 18]}, schema=schema).receipt) == schema
        True
        """
        text: Any = getattr(receipt, "parameters", {}).get("schema")
        remedy = "release(table, schema=schema) writes it into the receipt"
        require(isinstance(text, str), "receipt", "have the schema of its release", "none", remedy)
        try:
            return cls.from_dict(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise ParameterError("schema of the receipt", "be TOML", str(error)) from error

    @classmethod
    def from_toml(cls, source: str | os.PathLike[str]) -> Schema:
        """Read the schema in a TOML file.

        >>> import tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place) / "table.toml"
        ...     text = Schema({"age": (18, 90)}, target=("spend", 0, 5_000)).to_toml(file)
        ...     Schema.from_toml(file).feature_names
        ('age',)
        """
        try:
            stated = tomllib.loads(Path(source).read_text(encoding="utf-8"))
        except OSError as error:
            raise ParameterError("schema", "be a readable file", f"{str(source)!r}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:  # the last if it is nested a thousand times
            raise ParameterError("schema", "be a TOML file", f"{str(source)!r}: {error}") from error
        return cls.from_dict(stated)


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
