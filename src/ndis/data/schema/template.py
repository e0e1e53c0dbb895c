"""Write TOML: plain values, and a schema to fill in, from the names and storage types of columns only."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

from ndis._validate import require
from ndis.data.opening import open_table

_LINES = {
    "number": '{ low = "?", high = "?" }',
    "boolean": '{ type = "boolean" }',
    "text": '{ categories = ["?"] }',
} | dict.fromkeys(("date", "cells", "objects", "texts"), '{ low = "?", high = "?" }')
_HEAD = """\
# What is public about this table. Replace every "?" by what is known without looking at the data: a range or a category
# that is taken from the data leaks it. Delete the lines of columns that are not features.
#   a number     { low = 18, high = 90 }                      fill = 40 stands for a missing cell
#   a category   { categories = ["north", "south"] }
#   a date       { low = 2020-01-01, high = 2025-01-01 }
#   yes or no    { type = "boolean" }
# A column without fill makes its whole row zero if its cell is missing. Values outside of a range count at its end: if
# a code such as 999 or -1 stands for "missing", empty those cells first. $1,200 is no number and 15/03/2025 no date:
# such cells count as missing, so write 1200 and 2025-03-15. North and north are two categories: list both or write one.
# A [target] of ndis logistic has type = "boolean" for yes and no in any spelling, or categories = ["basic", "plus"].
"""
_NO_TARGET = """\
# A regression needs a target. Take its line out of [columns], and write it here without the "#":
# [target]
# name = "spend"
# low = 0
# high = 5000
# Or leave it as it is, and name one of the columns: ndis regress --target spend. A sketch needs no target.
"""


def template(data: Any, *, columns: Any = None, header: bool = False, target: str | None = None) -> str:
    """Return the text of a TOML file in which every "?" is left to the user. No value is ever read.

    Parameters
    ----------
    data, columns, header
        As for `Schema.table`; for a CSV file, `columns` or `header` gives the names.
    target : str, optional
        The column that is the target.

    Examples
    --------
    >>> import pyarrow as pa
    >>> text = template(pa.table({"age": [41], "city": ["Rome"], "spend": [2.5]}), target="spend")
    >>> print(text[text.index("[columns]") :])
    [columns]
    "age" = { low = "?", high = "?" }  # number
    "city" = { categories = ["?"] }  # text
    <BLANKLINE>
    [target]
    name = "spend"
    low = "?"
    high = "?"
    <BLANKLINE>
    >>> "Rome" in text or "41" in text
    False
    """
    table = open_table(data, columns=columns, header=header)
    names = table.names or tuple(map(str, range(table.width)) if columns is None else columns)
    kinds = {name: kind for name, kind in zip(names, table.kinds, strict=True) if name}
    require(target is None or target in kinds, "target", "be a column of the data", repr(target))
    lines = [_HEAD + "[columns]"]
    for name, stored in kinds.items():
        if name == target:
            continue
        kind = next(iter(stored)) if len(stored) == 1 else "cells"
        note = "" if kind in ("cells", "objects", "texts") else f"  # {kind}"
        lines.append(f"{quoted(name)} = {_LINES[kind]}{note}" if kind in _LINES else f"# {quoted(name)}: {kind}")
    if target is not None:
        lines += ["", "[target]", f"name = {quoted(target)}"]
        bounds = ['categories = ["?"]'] if kinds[target] == {"text"} else ['low = "?"', 'high = "?"']
        lines += ['type = "boolean"'] if kinds[target] == {"boolean"} else bounds
    return "\n".join([*lines, "" if target is not None else "\n" + _NO_TARGET])


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
