"""A schema: what is public about a table, stated once.

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

import json
import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.errors import ParameterError
from ndis.gram.cells import read_cells

__all__ = ["Boolean", "Category", "Column", "Date", "Number", "Schema"]

Floats = NDArray[np.float64]
Cells = NDArray[Any]


@dataclass(frozen=True)
class Number:
    """A number with a public range.

    >>> Number(0, 10).encode(np.array([0.0, 2.5, 99.0])).ravel().tolist()
    [-1.0, -0.5, 1.0]
    """

    low: float
    high: float
    fill: float | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, _finite(name, getattr(self, name)))
        if not self.low < self.high or not math.isfinite(self.high - self.low):
            raise ParameterError("low", "be below high", f"{self.low!r} and {self.high!r}")
        if self.fill is not None:
            object.__setattr__(self, "fill", _finite("fill", self.fill))

    @property
    def centre(self) -> float:
        """The value that is encoded as 0."""
        return 0.5 * self.low + 0.5 * self.high

    @property
    def half_width(self) -> float:
        """The distance from the centre to either end, which is encoded as 1."""
        return 0.5 * self.high - 0.5 * self.low

    def labels(self, name: str) -> tuple[str, ...]:
        """The names of the encoded columns."""
        return (name,)

    def encode(self, cells: Cells) -> Floats:
        """One encoded column; NaN where a cell is missing and there is no fill."""
        return self._scaled(_as_numbers(cells))

    def _scaled(self, values: Floats) -> Floats:
        with np.errstate(all="ignore"):  # a warning would tell of the values
            values = np.where(np.isfinite(values), values, np.nan if self.fill is None else self.fill)
            scaled = (np.minimum(np.maximum(values, self.low), self.high) - self.centre) / self.half_width
            return np.minimum(np.maximum(scaled, -1.0), 1.0).reshape(-1, 1)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"low": self.low, "high": self.high} | _with_fill(self.fill)


@dataclass(frozen=True)
class Boolean:
    """True or false: booleans, 0 and 1, or the texts "true", "false", "yes", "no".

    >>> Boolean().encode(np.array([True, False, True])).ravel().tolist()
    [1.0, -1.0, 1.0]
    """

    fill: bool | None = None

    def __post_init__(self) -> None:
        if self.fill is not None and not isinstance(self.fill, bool):
            raise ParameterError("fill", "be true or false", repr(self.fill))

    centre = 0.5
    half_width = 0.5

    def labels(self, name: str) -> tuple[str, ...]:
        """The names of the encoded columns."""
        return (name,)

    def encode(self, cells: Cells) -> Floats:
        """One encoded column; NaN where a cell is missing and there is no fill."""
        if cells.dtype.kind in "fiub":
            values = np.asarray(cells, dtype=np.float64)
        else:
            values = np.array([_truth(cell) for cell in cells.ravel()], dtype=np.float64)
        with np.errstate(all="ignore"):
            values = np.where((values == 0) | (values == 1), values, np.nan if self.fill is None else float(self.fill))
        return (2.0 * values - 1.0).reshape(-1, 1)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"type": "boolean"} | _with_fill(self.fill)


@dataclass(frozen=True)
class Date:
    """A date, or a date and time, with a public range. It counts in days.

    >>> Date(date(2024, 1, 1), date(2024, 1, 11)).encode(np.array(["2024-01-06"], dtype=object)).ravel().tolist()
    [0.0]
    """

    low: date
    high: date
    fill: date | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high") if self.fill is None else ("low", "high", "fill"):
            value: object = getattr(self, name)
            if not isinstance(value, date):
                raise ParameterError(name, "be a date", repr(value))
        self._number()

    def _number(self) -> Number:
        return Number(_days(self.low), _days(self.high), None if self.fill is None else _days(self.fill))

    @property
    def centre(self) -> float:
        """The day, counted from 1970-01-01, that is encoded as 0."""
        return self._number().centre

    @property
    def half_width(self) -> float:
        """The number of days that is encoded as 1."""
        return self._number().half_width

    def labels(self, name: str) -> tuple[str, ...]:
        """The names of the encoded columns."""
        return (name,)

    def encode(self, cells: Cells) -> Floats:
        """One encoded column; NaN where a cell is missing and there is no fill."""
        if cells.dtype.kind == "M":
            with np.errstate(all="ignore"):
                whole = cells.astype("datetime64[us]")
                values = np.where(np.isnat(whole), np.nan, whole.astype(np.int64) / 86_400e6)
        else:
            values = np.array([_day_of(cell) for cell in cells.ravel()], dtype=np.float64)
        return self._number()._scaled(values)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"low": self.low, "high": self.high} | _with_fill(self.fill)


@dataclass(frozen=True)
class Category:
    """One of a public list of values; each becomes a column.

    >>> Category(("N", "S")).encode(np.array(["S", "N", "?"], dtype=object)).tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    """

    values: tuple[str, ...]
    fill: str | None = None

    def __post_init__(self) -> None:
        texts = tuple(_text(value) for value in self.values)
        if not texts or any(text is None for text in texts):
            raise ParameterError("values", "be texts, whole numbers or booleans, at least one", repr(self.values))
        if len(set(texts)) < len(texts):
            raise ParameterError("values", "name each category once", repr(self.values))
        object.__setattr__(self, "values", texts)
        if self.fill is not None:
            fill = _text(self.fill)
            if fill not in texts:
                raise ParameterError("fill", "be one of the categories", repr(self.fill))
            object.__setattr__(self, "fill", fill)

    def labels(self, name: str) -> tuple[str, ...]:
        """The names of the encoded columns."""
        return tuple(f"{name}={value}" for value in self.values)

    def encode(self, cells: Cells) -> Floats:
        """One column per value; a row of zeros where a cell is not listed, of NaN where it is missing without fill."""
        place = {value: i for i, value in enumerate(self.values)}
        found = np.zeros((cells.size, len(self.values)))
        for row, cell in enumerate(cells.ravel()):
            text = _text(cell)
            if text is None or (text in MISSING and text not in place):
                text = self.fill
                if text is None:
                    found[row] = np.nan
                    continue
            if text in place:
                found[row, place[text]] = 1.0
        return found

    def codes(self, cells: Cells) -> Floats:
        """The number of each cell's category, counted from 0; NaN where it is not listed or missing without fill."""
        one_hot = self.encode(cells)
        with np.errstate(all="ignore"):
            return np.where(one_hot.sum(axis=1) == 1.0, one_hot @ np.arange(len(self.values)), np.nan)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"categories": list(self.values)} | _with_fill(self.fill)


Column = Number | Boolean | Date | Category
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")  # texts that count as a missing cell


@dataclass(frozen=True, init=False)
class Schema:
    """What is public about a table: its columns, their ranges and categories, and the target.

    Parameters
    ----------
    columns : mapping
        Name → what is known: ``(low, high)`` for a number or for dates, a list for a category, ``bool`` for true or
        false, or a `Number`, `Date`, `Category` or `Boolean` with a `fill` value.
    target : tuple or mapping, optional
        ``(name, low, high)`` for a number, ``(name, [values])`` for classes.
    row_norm_bound : float, optional
        A bound on the norm of an encoded row that is smaller than that of the box. Rows beyond it are scaled down.

    Examples
    --------
    >>> schema = Schema({"age": (18, 90), "region": ["N", "S"]}, target=("spend", 0, 5_000))
    >>> schema.feature_names
    ('age', 'region=N', 'region=S')
    >>> round(schema.row_norm_bound, 6)
    1.414214
    >>> schema.encode({"age": [54, 18], "region": ["S", "N"]}).tolist()
    [[0.0, 0.0, 1.0], [-1.0, 1.0, 0.0]]
    """

    columns: Mapping[str, Column]
    target_name: str | None
    target: Number | Category | None
    row_norm_bound: float

    def __init__(
        self,
        columns: Mapping[str, Any],
        *,
        target: Any = None,
        row_norm_bound: float | None = None,
    ) -> None:
        if not isinstance(columns, Mapping) or not columns:
            raise ParameterError("columns", "map names to ranges or categories, at least one", type(columns).__name__)
        read = {_name(name): _column(name, spec) for name, spec in columns.items()}
        target_name, target_column = _target(target)
        if target_name in read:
            raise ParameterError("target", "not be a feature as well", repr(target_name))
        labels = [label for name, column in read.items() for label in column.labels(name)]
        if len(set(labels)) < len(labels):
            raise ParameterError("columns", "give different names to the encoded columns", repr(sorted(labels)))
        box = math.sqrt(len(read))
        bound = box if row_norm_bound is None else _finite("row_norm_bound", row_norm_bound)
        if not 0 < bound <= box:
            raise ParameterError("row_norm_bound", f"be positive and at most {box!r}, the norm of the box", bound)
        for field, value in (
            ("columns", read),
            ("target_name", target_name),
            ("target", target_column),
            ("row_norm_bound", bound),
        ):
            object.__setattr__(self, field, value)

    # ------------------------------------------------------------------ what it says

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded feature columns."""
        return tuple(label for name, column in self.columns.items() for label in column.labels(name))

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of a categorical target; empty for a numeric one."""
        return self.target.values if isinstance(self.target, Category) else ()

    # ------------------------------------------------------------------ rows

    def encode(self, data: Any) -> Floats:
        """The feature columns of rows in memory, encoded: a frame, an Arrow table, or a mapping of columns.

        A column that the schema names and the data lack is refused by name. Other columns are left alone.
        """
        return self.encode_columns([column_cells(data, name) for name in self.columns])

    def encode_columns(self, cells: Sequence[Cells]) -> Floats:
        """The same from one array of cells per column, in the order of the schema."""
        blocks = [column.encode(part) for column, part in zip(self.columns.values(), cells, strict=True)]
        return np.concatenate(blocks, axis=1)

    def encode_target(self, data: Any) -> Floats:
        """The target column of rows in memory: in [−1, 1] for a number, the number of its class for a category."""
        return self.encode_target_cells(column_cells(data, self._target_name()))

    def encode_target_cells(self, cells: Cells) -> Floats:
        """The same from an array of cells."""
        self._target_name()
        if isinstance(self.target, Category):
            return self.target.codes(cells)
        assert self.target is not None
        return self.target.encode(cells).ravel()

    def _target_name(self) -> str:
        if self.target_name is None:
            raise ParameterError("target", "be part of the schema", None, 'Schema(..., target=("spend", 0, 5_000))')
        return self.target_name

    # ------------------------------------------------------------------ units

    def scales(self) -> tuple[Floats, Floats]:
        """(centre, half-width) of every encoded column in original units; 0 and 1 for a column of a category."""
        pairs = [
            (0.0, 1.0) if isinstance(column, Category) else (column.centre, column.half_width)
            for name, column in self.columns.items()
            for _ in column.labels(name)
        ]
        centre, half_width = np.array(pairs).T
        return centre, half_width

    def in_units(self, coefficients: Any, intercept: Any) -> tuple[Floats, Floats]:
        """Coefficients and intercept of encoded columns as those of the original ones, target included.

        >>> schema = Schema({"age": (0, 100)}, target=("spend", 0, 1_000))
        >>> slope, constant = schema.in_units([0.5], 0.0)
        >>> slope.tolist(), float(constant)
        ([5.0], 250.0)
        """
        centre, half_width = self.scales()
        weights, offset = np.asarray(coefficients, dtype=np.float64), np.asarray(intercept, dtype=np.float64)
        slopes = weights / half_width
        constant = offset - slopes @ centre
        if isinstance(self.target, Number):
            return slopes * self.target.half_width, constant * self.target.half_width + self.target.centre
        return slopes, constant

    # ------------------------------------------------------------------ out and in

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for TOML."""
        found: dict[str, Any] = {"columns": {name: column.to_dict() for name, column in self.columns.items()}}
        if self.target_name is not None and self.target is not None:
            found["target"] = {"name": self.target_name} | self.target.to_dict()
        if self.row_norm_bound != math.sqrt(len(self.columns)):
            found["row_norm_bound"] = self.row_norm_bound
        return found

    @classmethod
    def from_dict(cls, found: Any) -> Schema:
        """The schema that `to_dict` wrote; anything else is refused."""
        if not isinstance(found, dict) or not found.keys() <= {"columns", "target", "row_norm_bound"}:
            raise ParameterError("schema", "have columns, and perhaps target and row_norm_bound", "something else")
        return cls(
            found.get("columns", {}), target=found.get("target"), row_norm_bound=found.get("row_norm_bound")
        )

    def to_toml(self, path: str | os.PathLike[str] | None = None) -> str:
        """The schema as TOML text, written to `path` as well if one is given.

        >>> print(Schema({"age": (18, 90), "region": ["N", "S"]}).to_toml())
        [columns]
        "age" = { low = 18.0, high = 90.0 }
        "region" = { categories = ["N", "S"] }
        <BLANKLINE>
        """
        found = self.to_dict()
        lines = [f"row_norm_bound = {found['row_norm_bound']!r}", ""] if "row_norm_bound" in found else []
        lines += ["[columns]", *(f"{_quoted(name)} = {_toml(spec)}" for name, spec in found["columns"].items()), ""]
        if "target" in found:
            lines += ["[target]", *(f"{key} = {_toml(value)}" for key, value in found["target"].items()), ""]
        text = "\n".join(lines)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_toml(cls, source: str | os.PathLike[str]) -> Schema:
        """The schema in a TOML file.

        >>> import tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as place:
        ...     file = pathlib.Path(place) / "table.toml"
        ...     text = Schema({"age": (18, 90)}, target=("spend", 0, 5_000)).to_toml(file)
        ...     Schema.from_toml(file).feature_names
        ('age',)
        """
        try:
            text = Path(source).read_text(encoding="utf-8")
            found = tomllib.loads(text)
        except OSError as error:
            raise ParameterError("schema", "be a readable file", f"{str(source)!r}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ParameterError("schema", "be a TOML file", f"{str(source)!r}: {error}") from error
        return cls.from_dict(found)


# ---------------------------------------------------------------------- what a user may write


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise ParameterError("columns", "have names that are texts", repr(name))
    return name


def _column(name: str, spec: Any) -> Column:
    """What a user wrote about a column, as a `Column`."""
    if isinstance(spec, Number | Boolean | Date | Category):
        return spec
    if spec is bool:
        return Boolean()
    if isinstance(spec, Mapping):
        return _from_mapping(name, spec)
    if isinstance(spec, tuple) and len(spec) == 2:
        return Date(*spec) if any(isinstance(end, date) for end in spec) else Number(*spec)
    if isinstance(spec, list):
        return Category(tuple(spec))
    rule = "be (low, high), a list of categories, bool, or a Number, Date, Category or Boolean"
    raise ParameterError(f"column {name!r}", rule, repr(spec))


def _from_mapping(name: str, spec: Mapping[str, Any]) -> Column:
    keys = set(spec)
    if keys <= {"low", "high", "fill"} and {"low", "high"} <= keys:
        kind: Any = Date if isinstance(spec["low"], date) else Number
        return kind(spec["low"], spec["high"], spec.get("fill"))
    if keys <= {"categories", "fill"} and "categories" in keys and isinstance(spec["categories"], list):
        return Category(tuple(spec["categories"]), spec.get("fill"))
    if keys <= {"type", "fill"} and spec.get("type") == "boolean":
        return Boolean(spec.get("fill"))
    rule = 'have low and high, or categories, or type = "boolean"; fill may be added'
    raise ParameterError(f"column {name!r}", rule, f"{', '.join(sorted(map(str, keys))) or 'nothing'}")


def _target(target: Any) -> tuple[str | None, Number | Category | None]:
    if target is None:
        return None, None
    if isinstance(target, Mapping):
        rest = dict(target)
        name, column = _name(rest.pop("name", None)), _from_mapping("target", rest)
    elif isinstance(target, tuple) and len(target) == 3:
        name, column = _name(target[0]), Number(target[1], target[2])
    elif isinstance(target, tuple) and len(target) == 2 and not isinstance(target[1], tuple):
        name, column = _name(target[0]), _column("target", target[1])
    else:
        raise ParameterError("target", "be (name, low, high), or (name, [classes])", repr(target))
    if not isinstance(column, Number | Category):
        raise ParameterError("target", "be a number or a category", type(column).__name__)
    return name, column


def _finite(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ParameterError(name, "be a number", repr(value))
    number = float(value)
    if not math.isfinite(number):
        raise ParameterError(name, "be finite", number)
    return number


def _with_fill(fill: Any) -> dict[str, Any]:
    return {} if fill is None else {"fill": fill}


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml(value: Any) -> str:
    """A plain value as TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(part)}" for key, part in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date):
        return value.isoformat()
    return _quoted(value) if isinstance(value, str) else repr(value)


# ---------------------------------------------------------------------- cells


def column_cells(data: Any, name: str) -> Cells:
    """The cells of one column of rows in memory, as they are stored.

    >>> column_cells({"age": [1, None]}, "age").tolist()
    [1, None]
    """
    names = list(data) if isinstance(data, Mapping) else list(getattr(data, "column_names", getattr(data, "columns", ())))
    if name not in names:
        raise ParameterError("data", f"have a column {name!r}", f"columns {', '.join(map(repr, names[:20]))}")
    column = data[name]
    if hasattr(column, "to_numpy") and not isinstance(column, np.ndarray):
        plain = np.asarray(column.to_numpy())
        return plain if plain.dtype.kind in "fiubMO" else plain.astype(object)
    if isinstance(column, np.ndarray):
        return column if column.dtype.kind in "fiubMO" else column.astype(object)
    cells = np.empty(len(column), dtype=object)
    cells[:] = list(column)
    return cells


def _as_numbers(cells: Cells) -> Floats:
    if cells.dtype.kind in "fiub":
        with np.errstate(all="ignore"):
            return np.asarray(cells, dtype=np.float64).ravel()
    return read_cells(cells.ravel())


def _text(cell: Any) -> str | None:
    """The text of a category; None where the cell is missing or cannot be a category.

    >>> [_text(cell) for cell in ("a", 3, 3.0, True, None, float("nan"), 2.5)]
    ['a', '3', '3', 'true', None, None, '2.5']
    """
    if isinstance(cell, str):
        return str(cell)
    if isinstance(cell, bytes):
        return cell.decode("latin-1")
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, int | np.integer):
        return str(int(cell))
    if isinstance(cell, float | np.floating) and math.isfinite(cell):
        return str(int(cell)) if float(cell).is_integer() else repr(float(cell))
    return None


def _truth(cell: Any) -> float:
    text = _text(cell)
    return {"true": 1.0, "yes": 1.0, "1": 1.0, "false": 0.0, "no": 0.0, "0": 0.0}.get((text or "").lower(), math.nan)


def _days(day: date) -> float:
    """Days since 1970-01-01; the zone of a time is left out."""
    if isinstance(day, datetime):
        plain = day.replace(tzinfo=None)
        rest = plain - datetime(plain.year, plain.month, plain.day)
        return float(plain.date().toordinal() - 719_163) + rest.total_seconds() / 86_400.0
    return float(day.toordinal() - 719_163)


def _day_of(cell: Any) -> float:
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[us]").item()
    if isinstance(cell, bytes):
        cell = cell.decode("latin-1")
    if isinstance(cell, str):
        try:
            return _days(datetime.fromisoformat(cell))
        except ValueError:
            return math.nan
    try:
        return _days(cell) if isinstance(cell, date) else math.nan
    except (ValueError, OverflowError, TypeError, AttributeError):  # pandas' missing time is a date without a day
        return math.nan
