"""One cell as a text, a truth value or a day. No cell raises anything, and no cell runs code of its own.

The type of a cell says how to read it, and not the cell: a text is read by the methods of `str`, whatever a class
derived from it says. A cell of any other type is missing.
"""

from __future__ import annotations

import math
import re
import warnings
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.data.cells import read_cells

__all__ = ["MISSING", "Cells", "Floats", "days", "numbers", "text_of", "texts", "truths"]

Floats = NDArray[np.float64]
Cells = NDArray[Any]

MISSING = frozenset(("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", "NaT"))  # texts of missing cells
_TRUTH = dict.fromkeys(("true", "t", "yes", "y", "1"), 1.0) | dict.fromkeys(("false", "f", "no", "n", "0"), 0.0)
_SLASHES = re.compile(r"([0-9]{4})/([0-9]{2})/([0-9]{2})(?![0-9/])")  # 2020/05/01: the year comes first
_WHOLE = re.compile(r"([+-]?[0-9]+)\.0*")
_SPACE = " \t\n\v\f\r"
_EPOCH = 719_163  # date(1970, 1, 1).toordinal()
_DAY_UNITS = {
    "W": 7.0, "D": 1.0, "h": 1 / 24, "m": 1 / 1440, "s": 1 / 86_400, "ms": 1 / 86_400e3, "us": 1 / 86_400e6,
    "ns": 1 / 86_400e9, "ps": 1 / 86_400e12, "fs": 1 / 86_400e15, "as": 1 / 86_400e18,
}  # fmt: skip
_FAR = 100_000  # years from 1970 that are still told apart


def numbers(cells: Cells) -> Floats:
    """Numbers; NaN where a cell is none.

    >>> numbers(np.array([1, "2.5", None, "x"], dtype=object)).tolist()
    [1.0, 2.5, nan, nan]
    """
    if cells.dtype.kind in "fiub":
        with np.errstate(all="ignore"):  # a warning would tell of the values
            return np.asarray(cells, dtype=np.float64).ravel()
    return read_cells(cells.ravel())


def text_of(cell: Any) -> str | None:
    """The text of a category; None where the cell is missing or cannot be one.

    >>> [text_of(cell) for cell in (" a", 3, 3.0, "3.0", True, b"x", None, float("nan"), 2.5)]
    ['a', '3', '3', '3', 'true', 'x', None, None, '2.5']
    """
    kind = type(cell)  # and not isinstance, which may ask the cell itself
    if issubclass(kind, np.generic) and kind.__module__ == "numpy":
        cell = cell.item()
        kind = type(cell)
    if issubclass(kind, bytes):
        cell, kind = bytes.decode(cell, "utf-8", "surrogateescape"), str
    if issubclass(kind, str):
        text = str.strip(str.__str__(cell), _SPACE)
        whole = _WHOLE.fullmatch(text)
        return text if whole is None else whole[1]
    if kind is bool:
        return "true" if cell else "false"
    if issubclass(kind, int):
        whole_number = int.__int__(cell)
        return str(whole_number) if whole_number.bit_length() <= 1024 else "a long number"  # Python refuses longer ones
    if issubclass(kind, float):
        number = float.__float__(cell)
        if not math.isfinite(number):
            return None
        return str(int(number)) if number.is_integer() else repr(number)
    return None


def texts(cells: Cells) -> list[str | None]:
    """`text_of` every cell."""
    return [text_of(cell) for cell in cells.ravel()]


def truths(cells: Cells) -> Floats:
    """1 and 0 for true and false; NaN where a cell is neither.

    >>> truths(np.array([True, "no", "Y", 1, 2, None], dtype=object)).tolist()
    [1.0, 0.0, 1.0, 1.0, nan, nan]
    """
    if cells.dtype.kind in "fiub":
        found = numbers(cells)
        return np.where((found == 0.0) | (found == 1.0), found, np.nan)
    return np.array([_TRUTH.get((text or "").lower(), math.nan) for text in texts(cells)], dtype=np.float64)


def days(cells: Cells) -> Floats:
    """Days since 1970-01-01, in UTC where a time has a zone; NaN where a cell is no date.

    >>> days(np.array(["1970-01-02", "1970/01/02", "1970-01-01T06:00+06:00", "?"], dtype=object)).tolist()
    [1.0, 1.0, 0.0, nan]
    >>> days(np.array(["1971", "NaT"], dtype="datetime64[Y]")).tolist()
    [365.0, nan]
    """
    if cells.dtype.kind != "M":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a zone of its own may warn, and that would tell of the cell
            return np.array([_day_of(cell) for cell in cells.ravel()], dtype=np.float64)
    unit, count = np.datetime_data(cells.dtype)
    if unit == "generic":  # only missing dates have no unit
        return np.full(cells.size, np.nan)
    whole = np.ascontiguousarray(cells).ravel().view(np.int64)
    missing = whole == np.iinfo(np.int64).min
    if unit in ("Y", "M"):  # not of equal length in days; NumPy does not notice an overflow, so cells are clipped first
        far = _FAR * (1 if unit == "Y" else 12) // count
        near = np.minimum(np.maximum(whole, -far), far).view(f"datetime64[{count}{unit}]")
        found = near.astype("datetime64[D]").view(np.int64).astype(np.float64)
    else:
        found = whole.astype(np.float64) * (count * _DAY_UNITS[unit])
    return np.where(missing, np.nan, found)


def _day_of(cell: Any) -> float:
    kind = type(cell)
    if kind is np.datetime64:
        return float(days(np.array([cell]))[0])
    try:
        if issubclass(kind, str | bytes):
            text = text_of(cell)
            return math.nan if text is None else day_number(datetime.fromisoformat(_SLASHES.sub(r"\1-\2-\3", text)))
        return day_number(cell) if issubclass(kind, date) else math.nan
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 -- a missing time of pandas has no day, and a zone may bring code of its own
        return math.nan


def day_number(day: date) -> float:
    """Days since 1970-01-01 of a date, or of a date and time; in UTC if it has a zone.

    >>> day_number(date(1970, 1, 3))
    2.0
    """
    if not isinstance(day, datetime):
        return float(date.toordinal(day) - _EPOCH)
    if day.tzinfo is not None:
        day = day.astimezone(UTC)
    seconds = 3600 * day.hour + 60 * day.minute + day.second + 1e-6 * day.microsecond
    return float(day.toordinal() - _EPOCH) + seconds / 86_400.0
