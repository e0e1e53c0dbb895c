"""Read one cell as a number, a word, a truth value or a day: each cell by its type only, and by itself.

Whether a cell is a number is private. So no cell raises, warns or logs anything, and none runs code of its own. A cell
that cannot be read becomes NaN, and the engine turns its row into zeros. Nothing here changes the state of the process.

Text has one rule in every source. It is a number if it has decimal digits with at most one point. A sign before them,
an exponent after them and ASCII spaces around all of it are allowed. The number is the nearest float64.

Arrow columns are read by their declared types. No call on them can raise by value: text keeps its bytes, dictionaries
are read by their codes, and chunks stay apart.

A column of cells is an array of NumPy, an Arrow array of text (`LargeBinaryArray`, which may hold any bytes), or
`Coded`: a few values and one code per row. `ndis.data.table` says who makes them.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timezone
from decimal import Decimal
from functools import cache
from pathlib import PurePath
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Cells = Any  # one column: an array of numbers, dates or objects, an Arrow array of text, or `Coded`

UNKNOWN = -1.0  # the code of a word that is not listed
MISSING = frozenset(("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", "NaT"))  # texts of missing cells
# Possessive: no step is taken back, so the time of a cell grows with its length and not with the square of it.
_NUMBER = r"[ \t\n\v\f\r]*+([+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)[ \t\n\v\f\r]*+"
_TEXT, _BYTES = re.compile(_NUMBER), re.compile(_NUMBER.encode())
_TRUTH = dict.fromkeys(("true", "t", "yes", "y", "1"), 1.0) | dict.fromkeys(("false", "f", "no", "n", "0"), 0.0)
_TRUTH |= {way: value for word, value in _TRUTH.items() for way in (word.title(), word.upper())}
_SLASHES = re.compile(r"([0-9]{4})/([0-9]{2})/([0-9]{2})(?![0-9/])")  # 2020/05/01: the year comes first
_WHOLE = re.compile(r"([+-]?[0-9]++)\.0*+")
_INTEGER = re.compile(r"[+-]?[0-9]+")
READ = re.compile("[^\ud800-\udc7f\udd00-\udfff]*")  # the characters that bytes of a file may read as
_SPACE = " \t\n\v\f\r"
_EPOCH = 719_163  # date(1970, 1, 1).toordinal()
_PER_DAY = {"D": 1, "h": 24, "m": 1440, "s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_KINDS = {"b": "boolean", "i": "number", "u": "number", "f": "number", "M": "date", "O": "cells"}  # NumPy's letters
_KINDS |= {"U": "texts", "S": "texts", "T": "text"}
_ARROW = {"boolean": "boolean", "number": "integer floating decimal", "text": "string large_string string_view"}
_ARROW |= {"date": "date timestamp", "objects": "null"}  # types by their kind
_FIELDS = ("year", "month", "day", "hour", "minute", "second", "microsecond", "fold")
_SCALARS = tuple(set(np.sctypeDict.values()))  # the types of NumPy's own numbers, texts and dates
_SCALES = {32: 9, 64: 18, 128: 38, 256: 76}  # the largest scale of a decimal by its bits
_UNPACKED = 1 << 26  # bytes of text that are copied from views at a time


class Coded:
    """A column may be a few values and one code per row; −1, or any code without a value, marks a missing cell.

    >>> numbers(Coded(np.array([0.5, 2.0]), np.array([1, -1, 0]))).tolist()
    [2.0, nan, 0.5]
    """

    def __init__(self, values: Cells, codes: NDArray[Any]) -> None:
        self.values, self.codes = values, codes

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice) -> Coded:
        return Coded(self.values, self.codes[rows])

    def spread(self, read: Floats) -> Floats:
        """Return one number per row from one number per value."""
        known = (self.codes >= 0) & (self.codes < len(read))  # no library checks the codes of a file
        return np.asarray(np.append(read, math.nan)[np.where(known, self.codes, -1)])


def objects(cells: Sequence[Any]) -> NDArray[Any]:
    """Return an array of these objects; lists and arrays among them stay single cells.

    >>> objects([1, [2, 3]]).tolist()
    [1, [2, 3]]
    """
    return np.fromiter(cells, dtype=object, count=len(cells))


def text_objects(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of NumPy's text as objects, and None for a text with a number that is no character.

    NumPy raises at such a cell. Other arrays come back as they stand.

    >>> text_objects(np.array([78, 0x110000], dtype=np.uint32).view("U1")).tolist()
    ['N', None]
    """
    if array.dtype.kind != "U":
        return array
    letters = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).view(np.uint32)
    known = (letters.reshape(*array.shape, array.itemsize // 4) <= sys.maxunicode).all(axis=-1)
    texts = np.asarray(np.where(known, array, "").astype(object))
    texts[~known] = None
    return texts


def is_path(item: Any) -> bool:
    """Return whether an item is a text or a path, by its type: it may be a cell, which must not be asked.

    >>> is_path("a.csv"), is_path(""), is_path(b"a.csv")
    (True, False, False)
    """
    kind = type(item)  # and not os.PathLike, which may ask the type itself
    return issubclass(kind, PurePath) or (issubclass(kind, str) and str.__len__(item) > 0)


def unwrapped(cell: Any) -> Any:
    """Return what a list, a tuple or a vector of one item holds, by its type; any other cell as it stands.

    >>> [unwrapped(cell) for cell in ([1], (2,), [3, 4], "x")]
    [1, 2, [3, 4], 'x']
    """
    kind = type(cell)  # not isinstance, which may ask the cell itself
    if issubclass(kind, list | tuple):
        items = list(list.__iter__(cell) if issubclass(kind, list) else tuple.__iter__(cell))
    else:
        items = list(text_objects(cell)) if kind is np.ndarray and cell.shape == (1,) else []
    return items[0] if len(items) == 1 else cell


def is_numpy(kind: type) -> bool:
    """Return whether a type is one of NumPy's own scalars: a type that inherits from one may bring code."""
    return any(kind is each for each in _SCALARS)


def python_value(cell: Any) -> Any:
    """Return a number or a text of NumPy as a value of Python, None for its dates and records, any other as it stands.

    >>> python_value(np.float32(0.5)), python_value(np.datetime64("2020")), python_value("x")
    (0.5, None, 'x')
    """
    kind = type(cell)
    if not is_numpy(kind):
        return cell
    known = issubclass(kind, np.number | np.bool_ | np.character) and not issubclass(kind, np.timedelta64)
    return None if not known else float(cell) if issubclass(kind, np.floating) else cell.item()


def each_cell(cells: Cells) -> list[Any]:
    """Return the cells of an array one by one; text of Arrow comes as bytes."""
    return list(cells.ravel()) if isinstance(cells, np.ndarray) else list(cells.to_pylist())


# ---------------------------------------------------------------------- numbers


def number(cell: Any) -> float:
    """Return a cell as a float: NaN if its type holds no real number, or if it is too large for a float.

    >>> [number(cell) for cell in (1, " 2.5", b"+3", "1_0", "nan", 10**400, 1j, None)]
    [1.0, 2.5, 3.0, nan, nan, nan, nan, nan]
    """
    kind = type(cell)  # not isinstance, which may ask the cell itself
    if issubclass(kind, str | bytes):  # as text and bytes of Python's own, for a type may bring code
        text = issubclass(kind, str)
        match = _TEXT.fullmatch(str.__str__(cell)) if text else _BYTES.fullmatch(bytes.__getitem__(cell, slice(None)))
        return math.nan if match is None else float(match[1])
    try:
        if issubclass(kind, float):
            return float.__float__(cell)
        if issubclass(kind, int):
            return float(int.__int__(cell))
        if kind is complex or (is_numpy(kind) and issubclass(kind, np.complexfloating)):
            return float(cell.real) if cell.imag == 0 else math.nan  # one complex cell makes a whole array complex
        if kind is Decimal or (is_numpy(kind) and issubclass(kind, np.number | np.bool_)):
            return math.nan if issubclass(kind, np.timedelta64) else float(cell)
        if kind is np.ndarray and cell.ndim == 0 and cell.dtype.kind in "fiub":
            return float(cell)
    except (OverflowError, ValueError):  # an integer beyond the floats, a signalling NaN of decimals
        pass
    return math.nan


def numbers(cells: Cells) -> Floats:
    """Return a column, or a matrix of objects, as float64, cell by cell; NaN where a cell is no number.

    >>> numbers(np.array([[1, "x"], [None, 2.5]], dtype=object)).tolist()
    [[1.0, nan], [nan, 2.5]]
    """
    if isinstance(cells, Coded):
        return cells.spread(numbers(cells.values))
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiubc":
        with np.errstate(all="ignore"):  # which is of this thread only
            real = np.where(cells.imag == 0, cells.real, np.nan) if cells.dtype.kind == "c" else cells
            return np.asarray(real, dtype=np.float64)
    read = np.array([number(cell) for cell in each_cell(cells)], dtype=np.float64)
    return read.reshape(cells.shape) if isinstance(cells, np.ndarray) else read


def kind_of(dtype: Any) -> str:
    """Name a type in words that reveal nothing about the cells: NumPy's name of a text type tells the longest length.

    >>> kind_of(np.array(["secret"]).dtype), kind_of(np.array([1j]).dtype)
    ('text', 'dtype complex128')
    """
    kind = getattr(dtype, "kind", "")
    return {"U": "text", "S": "bytes", "T": "text", "V": "records"}.get(kind, f"dtype {dtype}")


def kind_of_array(dtype: np.dtype[Any]) -> str:
    """Return the kind of a type of NumPy; text of fixed length may hold numbers, as lists do.

    >>> [kind_of_array(np.dtype(each)) for each in ("f4", "U3", "M8[D]", "c8", "O")]
    ['number', 'texts', 'date', 'dtype complex64', 'cells']
    """
    unit = np.datetime_data(dtype) if dtype.kind == "M" else ("D", 1)
    wide = dtype.kind == "f" and dtype.itemsize > 8
    return kind_of(dtype) if wide or unit[0] not in _PER_DAY or unit[1] > 1 else _KINDS.get(dtype.kind, kind_of(dtype))


# ---------------------------------------------------------------------- words


def text_of(cell: Any) -> str | None:
    """Return the text of a category; None where the cell is missing or cannot be one.

    >>> [text_of(cell) for cell in (" a", 3, 3.0, "3.0", True, b"x", None, float("nan"), 2.5)]
    ['a', '3', '3', '3', 'true', 'x', None, None, '2.5']
    """
    cell = python_value(cell)
    kind = type(cell)  # not isinstance, which may ask the cell itself
    if kind is complex and cell.imag == 0:
        cell, kind = cell.real, float
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
        value = float.__float__(cell)
        if not math.isfinite(value):
            return None
        return str(int(value)) if value.is_integer() else repr(value)
    return None


def words(cells: Cells, codes: Mapping[str, float], *, lower: bool = False) -> Floats:
    """Return the code of each cell's text; `UNKNOWN` for a text that has none, NaN for a cell without text.

    With `lower` the cells are compared in lower case.

    >>> words(np.array(["b ", 3.0, None, "c"], dtype=object), {"b": 0.0, "3": 1.0}).tolist()
    [0.0, 1.0, nan, -1.0]
    """
    if isinstance(cells, Coded):
        return cells.spread(words(cells.values, codes, lower=lower))

    def code(cell: Any) -> float:
        text = text_of(cell)
        return math.nan if text is None else codes.get(text.lower() if lower else text, UNKNOWN)

    if not isinstance(cells, np.ndarray):
        return _arrow_words(cells, codes, cache(code))  # most texts come many times
    if cells.dtype.kind == "b":
        return np.array([code(False), code(True)])[cells.astype(np.intp)]
    if cells.dtype.kind in "fiu":
        return _number_words(cells, codes)
    return np.array([code(cell) for cell in each_cell(cells)], dtype=np.float64)


def _number_words(cells: NDArray[Any], codes: Mapping[str, float]) -> Floats:
    """Compare numbers with the numbers among the words; no cell is written as text."""
    whole = cells.dtype.kind in "iu"
    cells = cells if whole else numbers(cells)  # a narrow type would round the words
    coded = np.full(len(cells), UNKNOWN) if whole else np.where(np.isfinite(cells), UNKNOWN, np.nan)
    for word, code in codes.items():
        value: Any = int(word) if _INTEGER.fullmatch(word) and len(word) < 400 else number(word)
        if text_of(value) != word:
            continue
        if not whole:
            coded[cells == number(value)] = code
        elif isinstance(value, int) and np.iinfo(cells.dtype).min <= value <= np.iinfo(cells.dtype).max:
            coded[cells == value] = code
    return coded


def _arrow_words(cells: Any, codes: Mapping[str, float], code: Callable[[Any], float]) -> Floats:
    """Look the bytes of an Arrow array up among the words, all of them at once; the others cell by cell."""
    import pyarrow as pa
    import pyarrow.compute as pc

    listed = pa.array([word.encode("utf-8", "surrogateescape") for word in codes], pa.large_binary())
    place = pc.index_in(cells, value_set=listed).fill_null(len(codes)).to_numpy(zero_copy_only=False)
    coded: Floats = np.array([*codes.values(), math.nan])[place]
    others = np.flatnonzero(place == len(codes))
    coded[others] = [code(cell) for cell in cells.take(pa.array(others)).to_pylist()]
    return coded


def truths(cells: Cells) -> Floats:
    """Return 1 and 0 for true and false; NaN where a cell is neither.

    >>> truths(np.array([True, "no", "Y", 1, 2, None], dtype=object)).tolist()
    [1.0, 0.0, 1.0, 1.0, nan, nan]
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiubc":
        read = numbers(cells)
        return np.where((read == 0.0) | (read == 1.0), read, np.nan)
    read = words(cells, _TRUTH, lower=True)
    return np.where(read == UNKNOWN, np.nan, read)


# ---------------------------------------------------------------------- days


def days(cells: Cells) -> Floats:
    """Return days since 1970-01-01, in UTC where a time has a zone; NaN where a cell is no date.

    The day and the share of the day are exact before they are added, so the unit of a column, from days to nanoseconds,
    does not matter. Other units are refused as a type of a column, and missing as cells.

    >>> days(np.array(["1970-01-02", "1970/01/02", "1970-01-01T06:00+06:00", "?"], dtype=object)).tolist()
    [1.0, 1.0, 0.0, nan]
    >>> days(np.array(["1970-01-01T12", "NaT"], dtype="datetime64[ms]")).tolist()
    [0.5, nan]
    """
    if isinstance(cells, Coded):
        return cells.spread(days(cells.values))
    if not isinstance(cells, np.ndarray) or cells.dtype.kind != "M":
        return np.array([_day_of(cell) for cell in each_cell(cells)], dtype=np.float64)
    unit, count = np.datetime_data(cells.dtype)
    whole = np.ascontiguousarray(cells, dtype=cells.dtype.newbyteorder("=")).ravel().view(np.int64)
    missing = (whole == np.iinfo(np.int64).min) | (count > 1 or unit not in _PER_DAY)  # as a whole, by the type
    per = _PER_DAY.get(unit, 1)
    day = whole // per
    return np.where(missing, np.nan, day.astype(np.float64) + (whole - day * per).astype(np.float64) / per)


def _day_of(cell: Any) -> float:
    """Return the day of one cell; NaN for what is no date."""
    kind = type(cell)
    pandas: Any = sys.modules.get("pandas")
    if pandas is not None and (cell is pandas.NaT or kind is pandas.Timestamp):
        cell = cell.to_datetime64()  # with its nanoseconds and its far years, as in a column of such cells
    if issubclass(type(cell), np.datetime64):
        return float(days(np.array([cell]))[0])
    try:
        if issubclass(kind, str | bytes):
            text = text_of(cell)
            return math.nan if text is None else day_number(datetime.fromisoformat(_SLASHES.sub(r"\1-\2-\3", text)))
        return day_number(cell) if issubclass(kind, date) else math.nan
    except (ValueError, OverflowError):  # a text that is no date; a zone that leads before the year 1
        return math.nan


def day_number(day: date) -> float:
    """Return days since 1970-01-01 of a date, or of a date and time; in UTC if it has a zone.

    A zone must be that of `datetime` or `zoneinfo`: others bring code of their own, and such a cell is missing.

    >>> day_number(date(1970, 1, 3))
    2.0
    """
    if not issubclass(type(day), datetime):  # not isinstance, which may ask the cell itself
        return float(date.toordinal(day) - _EPOCH)
    zone = datetime.tzinfo.__get__(day)
    if not (zone is None or type(zone) is timezone or type(zone) is ZoneInfo):
        return math.nan
    fields = {field: getattr(datetime, field).__get__(day) for field in _FIELDS}  # a type may bring code of its own
    plain = datetime(**fields, tzinfo=zone)
    plain = plain if zone is None else plain.astimezone(UTC)
    micro = ((plain.hour * 60 + plain.minute) * 60 + plain.second) * 10**6 + plain.microsecond
    return float(plain.toordinal() - _EPOCH + micro / _PER_DAY["us"])


# ---------------------------------------------------------------------- Arrow


def arrow_kind(kind: Any) -> str:
    """Return the kind of an Arrow type.

    >>> import pyarrow as pa
    >>> [arrow_kind(kind) for kind in (pa.int8(), pa.string(), pa.timestamp("ns"), pa.list_(pa.int8()))]
    ['number', 'text', 'date', 'type list<item: int8>']
    """
    import pyarrow.types as t

    if t.is_dictionary(kind):
        return arrow_kind(kind.value_type)
    if t.is_decimal(kind) and abs(kind.scale) > _SCALES[kind.bit_width]:  # Arrow writes none of their cells
        return f"type {kind}"
    for name, types in _ARROW.items():
        if any(getattr(t, f"is_{each}")(kind) for each in types.split()):
            return name
    return "type " + "".join(c if c.isprintable() else "?" for c in str(kind))  # fields of a struct have names


def text_cuts(lengths: NDArray[Any]) -> Iterator[slice]:
    """Yield slices of rows whose texts have at most `_UNPACKED` bytes together, or one row.

    Views of one long text may stand in many rows, and copies of it would fill the memory.

    >>> list(text_cuts(np.array([1, 1 << 26, 2, 3])))
    [slice(0, 1, None), slice(1, 2, None), slice(2, 4, None)]
    """
    ends = np.append(0, np.cumsum(np.maximum(lengths, 0), dtype=np.int64))
    start = 0
    while start < len(lengths):
        stop = max(int(np.searchsorted(ends, ends[start] + _UNPACKED, side="right")) - 1, start + 1)
        yield slice(start, stop)
        start = stop


def arrow_pieces(array: Any, numeric: bool) -> Iterator[Cells]:
    """Yield the cells of an array or a chunked array in pieces. Joining chunks of text fails beyond 2 GiB."""
    import pyarrow.types as t

    for chunk in array.chunks if hasattr(array, "chunks") else [array]:
        if not t.is_string_view(chunk.type):
            yield arrow_cells(chunk, numeric)
            continue
        views = np.frombuffer(chunk.buffers()[1], dtype=np.int32).reshape(-1, 4)  # each begins with its length
        for rows in text_cuts(views[chunk.offset : chunk.offset + len(chunk), 0]):
            yield arrow_cells(chunk[rows], numeric)


def arrow_cells(array: Any, numeric: bool) -> Cells:
    """Return the cells of an Arrow array, by its type only; text comes as bytes, for it may be no UTF-8.

    >>> import pyarrow as pa
    >>> arrow_cells(pa.array([2**53 + 1, None]), False).to_pylist()
    [b'9007199254740993', None]
    """
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_dictionary(array.type):
        codes = array.indices.cast(pa.int64(), safe=False).fill_null(-1).to_numpy(zero_copy_only=False)
        return Coded(arrow_cells(array.dictionary, numeric), codes)
    kind = arrow_kind(array.type)
    if kind in ("number", "boolean") and (numeric or t.is_floating(array.type)):
        return _arrow_numbers(array)
    if kind in ("number", "boolean"):  # as text: a null would turn whole numbers into floats
        array, kind = array.cast(pa.large_string()), "text"
    if kind == "text":
        return array.cast(pa.large_binary())
    if kind == "date":
        unit = "D" if t.is_date32(array.type) else "ms" if t.is_date64(array.type) else array.type.unit
        whole = array.cast(pa.int32()).cast(pa.int64()) if t.is_date32(array.type) else array.cast(pa.int64())
        return np.asarray(whole.fill_null(np.iinfo(np.int64).min).to_numpy()).view(f"datetime64[{unit}]")
    return np.full(len(array), None, dtype=object)


def _arrow_numbers(array: Any) -> Floats:
    """Return numbers or booleans as float64; nulls become NaN.

    Decimals take the way over text, which is exact: Arrow's own cast rounds twice. 10⁻⁷⁶ and 10⁷⁶ are floats.

    >>> import decimal, pyarrow as pa
    >>> _arrow_numbers(pa.array([decimal.Decimal("0.3"), None])).tolist()
    [0.3, nan]
    """
    import pyarrow as pa

    if pa.types.is_decimal(array.type):
        array = array.cast(pa.large_string())
    if array.type != pa.float64():
        array = array.cast(pa.float64(), safe=False)  # a safe cast raises on large integers
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)
