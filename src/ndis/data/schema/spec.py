"""Read specifications of columns by the user, in Python or TOML, and write a schema as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import Any

from ndis.data.schema.columns import PLACEHOLDER, Boolean, Category, Column, Date, Number
from ndis.errors import ParameterError

__all__ = ["as_column", "as_name", "as_target", "quoted", "toml_value"]


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
        if error.name not in ("low", "high", "fill", "values"):
            raise
        message = str(error).partition(f"{error.name} must ")[2]
        raise ParameterError(f"{error.name} of column {name!r}", *message.split("; got ", 1)) from None
    rule = "be (low, high), a list of categories, bool, or a Number, Date, Category or Boolean"
    raise ParameterError(f"column {name!r}", rule, repr(spec))


def _from_mapping(name: str, spec: Mapping[str, Any]) -> Column:
    if PLACEHOLDER in (spec.get("low"), spec.get("high")) or spec.get("categories") == [PLACEHOLDER]:
        remedy = "replace each ? by what is known without looking at the data, or delete the line"
        raise ParameterError(f"column {name!r}", "be filled in", "a template", remedy)
    keys = set(spec)
    if keys <= {"low", "high", "fill"} and {"low", "high"} <= keys:
        kind: Any = Date if isinstance(spec["low"], date) else Number
        return kind(spec["low"], spec["high"], spec.get("fill"))  # type: ignore[no-any-return]
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
        others = dict(target)
        name = as_name(others.pop("name", None))
        column = as_column(name, others)
    elif isinstance(target, tuple) and len(target) == 3:
        name = as_name(target[0])
        column = as_column(name, target[1:])
    elif isinstance(target, tuple) and len(target) == 2 and not isinstance(target[1], tuple):
        name = as_name(target[0])
        column = as_column(name, target[1])
    else:
        raise ParameterError("target", "be (name, low, high), (name, [classes]) or (name, bool)", repr(target))
    if not isinstance(column, Number | Category | Boolean):
        raise ParameterError("target", "be a number, a category or a boolean", type(column).__name__)
    return name, column


def quoted(text: str) -> str:
    """Write a text as TOML.

    >>> quoted('a "b"')
    '"a \\\\"b\\\\""'
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_value(value: Any) -> str:
    """Write a plain value as TOML.

    >>> toml_value({"low": 1.0, "fill": True})
    '{ low = 1.0, fill = true }'
    """
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml_value(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date):
        return value.isoformat()
    return quoted(value) if isinstance(value, str) else repr(value)
