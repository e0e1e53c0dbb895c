"""A column of a schema is a number, a date, a category, or true and false.

`read` turns cells into values: numbers in original units, or the number of a category. NaN marks a missing cell, −1 a
category that is not listed. `encode` turns values into what the mechanisms see. `as_column` reads what users write.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date
from typing import Any, ClassVar

import numpy as np

from ndis._validate import WIDEST, as_scalar, require
from ndis.data.cells import MISSING, READ, UNKNOWN, Cells, Floats, day_number, days, numbers, text_of, truths, words
from ndis.errors import ParameterError

PLACEHOLDER = "?"  # what the template of `ndis schema init` leaves to the user


class _AnyColumn:
    """This class is the base of all kinds of columns."""

    kinds: ClassVar[tuple[str, ...]]
    numeric: ClassVar[bool] = False
    squared_norm: ClassVar[int] = 1  # no encoded cell has a larger one
    _pair: ClassVar[tuple[float, float] | None] = None  # the two values of an encoded column that has no more
    centre: Any
    half_width: Any

    def labels(self, name: str) -> tuple[str, ...]:
        """Return the names of the encoded columns."""
        return (name,)

    def scales(self) -> tuple[tuple[float, float], ...]:
        """Return (centre, half-width) of every encoded column."""
        return ((self.centre, self.half_width),) * len(self.labels(""))

    def two_values(self) -> tuple[tuple[float, float] | None, ...]:
        """Return the two values of every encoded column, or None if it has more."""
        return (self._pair,) * len(self.labels(""))

    def read(self, cells: Cells) -> Floats:
        """Return the values of the cells, and NaN where a cell is missing."""
        raise NotImplementedError  # each kind has its own

    def faults(self, values: Floats) -> tuple[Any, Any, Any]:
        """Return which cells are clipped, which are of no listed value, and which are missing."""
        none = np.zeros(len(values), dtype=bool)
        return none, none, np.isnan(values)

    def encode(self, cells: Cells) -> Floats:
        """The encoded columns; NaN where a cell is missing and there is no fill."""
        return self.encode_values(self.read(cells))

    def encode_values(self, values: Floats) -> Floats:
        """Encode what `read` returned."""
        raise NotImplementedError  # each kind has its own

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, those that are no defaults."""
        stated = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in stated.items() if value != getattr(type(self), name, None)}


class _Range(_AnyColumn):
    """A number or a date between two ends."""

    low: Any
    high: Any
    fill: Any

    def __post_init__(self) -> None:
        for name in ("low", "high") if self.fill is None else ("low", "high", "fill"):
            object.__setattr__(self, name, self._checked(name, getattr(self, name)))
        low, high, fill = self._ends
        require(low < high, "low", "be below high", f"{low!r} and {high!r}")
        good = max(-low, high) <= 2.0**WIDEST and self.half_width >= 2.0**-WIDEST
        require(good, "low", f"be as far from high as 2^{1 - WIDEST}, both within ±2^{WIDEST}", f"{low!r} and {high!r}")
        require(fill is None or low <= fill <= high, "fill", f"lie between {low!r} and {high!r}", fill)

    def _checked(self, name: str, value: Any) -> Any:
        """Return an end or the fill, if it is of the kind of the column."""
        return as_scalar(name, value)

    @property
    def _ends(self) -> tuple[float, float, float | None]:
        """Return low, high and fill as floats; None without a fill."""
        ends = (self.low, self.high, self.fill)
        low, high, fill = (day_number(end) if isinstance(end, date) else end for end in ends)
        return low, high, fill

    @property
    def centre(self) -> float:
        """The value that is encoded as 0; for a date a number of days from 1970-01-01."""
        low, high, _ = self._ends
        return 0.5 * low + 0.5 * high

    @property
    def half_width(self) -> float:
        """The distance from the centre to either end, which is encoded as 1."""
        low, high, _ = self._ends
        return 0.5 * high - 0.5 * low

    def faults(self, values: Floats) -> tuple[Any, Any, Any]:
        """Return which cells are clipped, which are of no listed value, and which are missing."""
        (low, high, _), (_, none, missing) = self._ends, super().faults(values)
        return (values < low) | (values > high), none, missing

    def encode_values(self, values: Floats) -> Floats:
        """Encode what `read` returned."""
        low, high, fill = self._ends
        with np.errstate(all="ignore"):
            filled = np.where(np.isnan(values), np.nan if fill is None else fill, values)
            scaled = (np.minimum(np.maximum(filled, low), high) - self.centre) / self.half_width
            return np.minimum(np.maximum(scaled, -1.0), 1.0).reshape(-1, 1)


@dataclass(frozen=True, repr=False)
class Number(_Range):
    """A number has a public range.

    Parameters
    ----------
    low, high : float
        The range; larger and smaller cells are clipped to it.
    fill : float, optional
        Stands for a missing cell. Without it, one missing cell makes the whole row zero.
    degree : {1, 2}
        2 adds a column: the squared distance from the middle of the range, which goes little with the number itself.
    indicator : bool
        Add a column that is 1 for a missing cell and 0 for others. Such a cell needs a fill, by default the middle of
        the range: the new coefficient tells how rows with a missing cell differ from one at the fill.

    Examples
    --------
    >>> Number(0, 10).encode(np.array([0.0, 2.5, 99.0])).ravel().tolist()
    [-1.0, -0.5, 1.0]
    >>> Number(0, 10, fill=5).encode(np.array([None, "x", "7.5"], dtype=object)).ravel().tolist()
    [0.0, 0.0, 0.5]
    >>> Number(0, 10, degree=2, indicator=True).encode(np.array([10.0, np.nan])).tolist()
    [[1.0, 1.0, 0.0], [0.0, -1.0, 1.0]]
    >>> Number(0, 10, degree=2, indicator=True).labels("age")
    ('age', '(age-5)^2', 'age=missing')
    """

    low: float
    high: float
    fill: float | None = None
    degree: int = 1
    indicator: bool = False

    kinds = ("number", "boolean", "cells", "objects", "texts")
    numeric = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(type(self.degree) is int and self.degree in (1, 2), "degree", "be 1 or 2", repr(self.degree))
        require(type(self.indicator) is bool, "indicator", "be true or false", repr(self.indicator))
        if self.indicator and self.fill is None:
            object.__setattr__(self, "fill", self.centre)

    @property
    def squared_norm(self) -> int:  # type: ignore[override]  # that of other columns is a constant
        """Return the number of encoded columns, each of which is within [−1, 1]."""
        return self.degree + self.indicator

    def _chosen(self, plain: Any, square: Any, missing: Any) -> tuple[Any, ...]:
        """Return what belongs to the encoded columns."""
        return (plain, *([square] if self.degree > 1 else []), *([missing] if self.indicator else []))

    def labels(self, name: str) -> tuple[str, ...]:
        """Return the names of the encoded columns."""
        return self._chosen(name, f"({name}-{self.centre:g})^2", f"{name}=missing")

    def scales(self) -> tuple[tuple[float, float], ...]:
        """Return (centre, half-width) of every encoded column."""
        half = self.half_width * self.half_width / 2  # a power of floats would raise for a wide range
        return self._chosen((self.centre, self.half_width), (half, half), (0.0, 1.0))

    def two_values(self) -> tuple[tuple[float, float] | None, ...]:
        """Return the two values of every encoded column, or None if it has more."""
        return self._chosen(None, None, (0.0, 1.0))

    def encode_values(self, values: Floats) -> Floats:
        """Encode what `read` returned; every column within [−1, 1]."""
        z = super().encode_values(values)[:, 0]
        with np.errstate(all="ignore"):
            return np.stack(self._chosen(z, 2.0 * z * z - 1.0, np.isnan(values).astype(np.float64)), axis=1)

    def __repr__(self) -> str:
        shown = {"low": self.low, "high": self.high, "fill": self.fill} | self.to_dict()
        return f"Number({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def read(self, cells: Cells) -> Floats:
        """Return numbers, and NaN where a cell is no finite number."""
        values = numbers(cells)
        return np.where(np.isfinite(values), values, np.nan)


class _Listed(_AnyColumn):
    """A cell is one of some values, and reads as its number among them."""

    values: tuple[Any, ...]
    fill: Any

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the values as texts."""
        return tuple(str(text_of(value)) for value in self.values)

    def _filled(self, values: Floats) -> Floats:
        """Put the number of the fill, if there is one, where a cell is missing."""
        fill = math.nan if self.fill is None else float(self.texts.index(str(text_of(self.fill))))
        return np.where(np.isnan(values), fill, values)

    def codes(self, values: Floats) -> Floats:
        """Return the number of the value; NaN where a cell is not listed, or missing without fill."""
        filled = self._filled(values)
        return np.where(filled == UNKNOWN, np.nan, filled)


@dataclass(frozen=True)
class Boolean(_Listed):
    """A boolean is true or false: booleans, 0 and 1, or the texts true, false, yes, no, t, f, y, n in any case.

    Parameters
    ----------
    fill : bool, optional
        Stands for a cell that is neither.

    Examples
    --------
    >>> Boolean().encode(np.array([True, False, True])).ravel().tolist()
    [1.0, -1.0, 1.0]
    """

    fill: bool | None = None

    kinds = ("number", "boolean", "text", "cells", "objects", "texts")
    centre = half_width = 0.5
    _pair = (-1.0, 1.0)
    values = (False, True)

    def __post_init__(self) -> None:
        require(self.fill is None or type(self.fill) is bool, "fill", "be true or false", repr(self.fill))

    def read(self, cells: Cells) -> Floats:
        """Return 1 and 0, and NaN where a cell is neither true nor false."""
        return truths(cells)

    def encode_values(self, values: Floats) -> Floats:
        """Encode what `read` returned."""
        return (2.0 * self.codes(values) - 1.0).reshape(-1, 1)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"type": "boolean"} | super().to_dict()


@dataclass(frozen=True)
class Date(_Range):
    """A date, or a date and time, has a public range. It counts in days; a time with a zone counts in UTC.

    Parameters
    ----------
    low, high : date or datetime
        The range.
    fill : date or datetime, optional
        Stands for a missing cell.

    Examples
    --------
    >>> Date(date(2024, 1, 1), date(2024, 1, 11)).encode(np.array(["2024-01-06"], dtype=object)).ravel().tolist()
    [0.0]
    """

    low: date
    high: date
    fill: date | None = None

    kinds = ("date", "text", "cells", "objects", "texts")

    def _checked(self, name: str, value: Any) -> Any:
        require(isinstance(value, date), name, "be a date", repr(value))
        return value

    def read(self, cells: Cells) -> Floats:
        """Return days since 1970-01-01, and NaN where a cell is no date."""
        return days(cells)


@dataclass(frozen=True)
class Category(_Listed):
    """One of a public list of values; each becomes a column.

    Parameters
    ----------
    values : tuple of text, whole numbers or booleans
        Cells match by their text, without spaces at its ends; 3 and 3.0 are the same, and so are true and True. Texts
        such as "NA" and "nan" count as missing unless they are listed.
    fill : text, whole number or boolean, optional
        One of the values; stands for a missing cell.

    Examples
    --------
    >>> Category(("N", "S")).encode(np.array(["S", "N", "?"], dtype=object)).tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    """

    values: tuple[Any, ...]
    fill: Any = None

    kinds = ("number", "boolean", "text", "cells", "objects", "texts")
    centre = 0.0
    half_width = 1.0
    _pair = (0.0, 1.0)

    def __post_init__(self) -> None:
        given: Any = self.values
        if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
            raise ParameterError("values", "be a list of categories", repr(given))
        values = tuple(value.item() if isinstance(value, np.generic) else value for value in given)
        texts = [text_of(v) if isinstance(v, str | int) and READ.fullmatch(str(text_of(v))) else None for v in values]
        require(texts and all(texts), "values", "be texts, whole numbers or booleans, at least one", repr(given))
        require(len(set(texts)) == len(texts), "values", "name each category once", repr(given))
        object.__setattr__(self, "values", values)
        require(self.fill is None or text_of(self.fill) in texts, "fill", "be one of the categories", repr(self.fill))

    def labels(self, name: str) -> tuple[str, ...]:
        """Return the names of the encoded columns."""
        return tuple(f"{name}={text}" for text in self.texts)

    def read(self, cells: Cells) -> Floats:
        """Return the number of each cell's category from 0 on; −1 where it is not listed, NaN where it is missing."""
        place = dict.fromkeys(sorted(MISSING), math.nan)
        for i, text in enumerate(self.texts):
            if text.lower() in ("true", "false"):  # a boolean is written in several ways
                for word in (text.lower(), text.title(), text.upper()):
                    place.setdefault(word, float(i))
        place |= {text: float(i) for i, text in enumerate(self.texts)}
        return words(cells, place)

    def faults(self, values: Floats) -> tuple[Any, Any, Any]:
        """Return which cells are clipped, which are of no listed value, and which are missing."""
        none, _, missing = super().faults(values)
        return none, values == UNKNOWN, missing

    def encode_values(self, values: Floats) -> Floats:
        """Return one column per value; zeros where a cell is not listed, NaN where it is missing without fill."""
        filled = self._filled(values)
        columns = np.empty((len(self.values), len(filled)))  # column by column, as the quantiser takes them
        for place, column in enumerate(columns):
            np.equal(filled, place, out=column)
        columns[:, np.flatnonzero(np.isnan(filled))] = np.nan
        return columns.T

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        stated = super().to_dict()
        return {"categories": list(stated.pop("values"))} | stated


Column = Number | Boolean | Date | Category


def box_norm(columns: Mapping[str, Column]) -> float:
    """Bound the norm of an encoded row.

    >>> box_norm({"age": Number(0, 1, degree=2), "ward": Category(("A", "B")), "old": Boolean()})
    2.0
    """
    return math.sqrt(sum(column.squared_norm for column in columns.values()))


# ---------------------------------------------------------------------- specifications, in Python or TOML


def as_name(name: Any) -> str:
    """Check the name of a column."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ParameterError("columns", "have names that are printable texts", repr(name))
    return name


def as_column(name: str, spec: Any) -> Column:
    """Turn the specification of a column by the user into a `Column`.

    >>> as_column("age", (18, 90)), as_column("member", bool)
    (Number(low=18.0, high=90.0, fill=None), Boolean(fill=None))
    """
    if isinstance(spec, Number | Boolean | Date | Category):
        return spec
    if spec is bool:
        return Boolean()
    try:
        if isinstance(spec, Mapping):
            return _from_mapping(name, spec)
        if isinstance(spec, tuple) and len(spec) == 2:
            return Date(*spec) if any(isinstance(end, date) for end in spec) else Number(*spec)
        if isinstance(spec, list):
            return Category(tuple(spec))
    except ParameterError as error:
        if error.name not in ("low", "high", "fill", "values", "degree", "indicator"):
            raise
        rule, _, got = str(error).partition(f"{error.name} must ")[2].partition("; got ")
        raise ParameterError(f"{error.name} of column {name!r}", rule, got) from None
    rule = "be (low, high), a list of categories, bool, or a Number, Date, Category or Boolean"
    raise ParameterError(f"column {name!r}", rule, repr(spec))


def _from_mapping(name: str, spec: Mapping[str, Any]) -> Column:
    """Make the column that a mapping of TOML describes, by its keys."""
    filled = PLACEHOLDER not in (spec.get("low"), spec.get("high")) and spec.get("categories") != [PLACEHOLDER]
    remedy = "replace each ? by what is known without looking at the data, or delete the line"
    require(filled, f"column {name!r}", "be filled in", "a template", remedy)
    keys = set(spec)
    further = {"degree", "indicator"} & keys
    if keys <= {"low", "high", "fill", "degree", "indicator"} and {"low", "high"} <= keys:
        kind: Any = Date if isinstance(spec["low"], date) and not further else Number
        return kind(**spec)  # type: ignore[no-any-return]
    if keys <= {"categories", "fill"} and isinstance(spec.get("categories"), list):
        return Category(tuple(spec["categories"]), spec.get("fill"))
    if keys <= {"type", "fill"} and spec.get("type") == "boolean":
        return Boolean(spec.get("fill"))
    rule = 'have low and high, or categories, or type = "boolean"; fill may be added'
    raise ParameterError(f"column {name!r}", rule, ", ".join(sorted(map(str, keys))) or "nothing")


def as_target(target: Any) -> tuple[str | None, Number | Category | Boolean | None]:
    """Name and column of the target.

    >>> as_target(("spend", 0, 5_000))
    ('spend', Number(low=0.0, high=5000.0, fill=None))
    """
    if target is None:
        return None, None
    if isinstance(target, Mapping):
        spec: Any = dict(target)
        name = spec.pop("name", None)
    elif isinstance(target, tuple) and len(target) == 3:
        name, spec = target[0], target[1:]
    elif isinstance(target, tuple) and len(target) == 2 and not isinstance(target[1], tuple):
        name, spec = target
    else:
        raise ParameterError("target", "be (name, low, high), (name, [classes]) or (name, bool)", repr(target))
    column = as_column(as_name(name), spec)
    if isinstance(column, Category) and list(map(repr, column.values)) == ["False", "True"]:
        column = Boolean(column.fill)  # which reads yes and no too; 0 and 1 are equal to these, and stay classes
    if not isinstance(column, Number | Category | Boolean):
        raise ParameterError("target", "be a number, a category or a boolean", type(column).__name__)
    require(column.squared_norm <= 1, "target", "have degree 1 and no indicator", repr(column))
    return name, column
