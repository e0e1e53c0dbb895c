"""One cell of any type changes one row only, and nothing but the release depends on it."""

from __future__ import annotations

import decimal
import math
import warnings
from datetime import date, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ndis
from helpers.tables import COLUMNS, ENCODED, SCHEMA, encoded
from ndis.schema import Schema

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")


class Hostile:
    """A cell whose own code raises, with its secret in the words."""

    def _raise(self, *_: Any) -> Any:
        raise RuntimeError("secret 1234")

    __float__ = __int__ = __str__ = __repr__ = __bool__ = __eq__ = __hash__ = __len__ = __iter__ = _raise  # type: ignore
    __class__ = ndim = property(_raise)  # type: ignore[assignment]


class HostileText(str):
    """A text that does not want to be read."""

    def _raise(self, *_: Any) -> Any:
        raise RuntimeError("secret 1234")

    __str__ = __eq__ = __hash__ = strip = lower = encode = _raise  # type: ignore[assignment]


class HostileInt(int):
    """A number that does not want to be read."""

    def _raise(self, *_: Any) -> Any:
        raise RuntimeError("secret 1234")

    __int__ = __float__ = __str__ = __index__ = bit_length = _raise  # type: ignore[assignment]


class HostileFloat(float):
    """Likewise."""

    def _raise(self, *_: Any) -> Any:
        raise RuntimeError("secret 1234")

    __float__ = __str__ = is_integer = _raise  # type: ignore[assignment]


class HostileZone(tzinfo):
    """A time zone without an offset."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        raise RuntimeError("secret 1234")


class LoudZone(tzinfo):
    """A time zone that warns."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        warnings.warn("secret 1234", stacklevel=1)
        return timedelta(hours=1)


class HostileType(type):
    """A class whose own attributes raise."""

    @property
    def ndim(cls) -> int:
        raise RuntimeError("secret 1234")


class HostileClass(metaclass=HostileType):
    """A cell of such a class."""


CELLS: list[Any] = [
    datetime(2021, 1, 1, tzinfo=LoudZone()), HostileClass(),
    "secret", b"\xff\xfe", "", " ", None, 10**400, -(10**400), 10**5000, math.nan, math.inf, -math.inf, 1e308, 5e-324,
    True, 1j, [1.0], (1.0, 2.0), [[3.0]], {}, np.ones(2), np.ones((2, 2)), np.array(0.5), np.float32(0.5),
    np.datetime64("2020"), np.datetime64("NaT"), np.datetime64(2**62, "Y"), np.datetime64(2**62, "s"),
    np.timedelta64(1, "s"), decimal.Decimal("sNaN"), decimal.Decimal("1e999999"), "1_0", "١", "x" * 100_000,
    Hostile(), HostileText("N"), HostileText("1"), HostileInt(3), HostileFloat(0.5), object(), range(3), "nan",
    np.ma.masked, slice(1), type, lambda: 1.0, bytearray(b"1"), memoryview(b"1"), Ellipsis, pd.NA, pd.NaT,
    pd.Timestamp("2021-01-01", tz="Asia/Tokyo"), datetime(2021, 1, 1, tzinfo=HostileZone()), datetime.min, datetime.max,
    datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), date.max, "2021-13-45", "9999-12-31T23:59-23:59",
    "\ud800", "N\x00", np.str_("N"), np.bytes_(b"N"), np.bool_(True), np.int64(7), np.longdouble(1) / 3,
]  # fmt: skip


@pytest.mark.parametrize("name", [*SCHEMA.columns, "spend"])
def test_one_hostile_cell_changes_one_row_only(name: str) -> None:
    """Whatever a cell is, nothing is raised, warned or printed, and all other rows have the same bits."""
    kept = np.array([0, 2, 3])
    for cell in CELLS:
        data = {key: list(cells) for key, cells in COLUMNS.items()}
        data[name][1] = cell
        array = np.empty(4, dtype=object)
        for i in range(4):
            array[i] = data[name][i]
        for table in (data, data | {name: array}, pd.DataFrame(data | {name: pd.Series(array, dtype=object)})):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")  # an error would be caught with whatever else a cell may raise
                found, target = SCHEMA.encode(table), SCHEMA.encode_target(table)
            assert not said
            np.testing.assert_array_equal(found[kept], ENCODED[kept])
            np.testing.assert_array_equal(target[kept], SCHEMA.encode_target(COLUMNS)[kept])
            assert found.shape == ENCODED.shape
            readable = np.isnan(found) | (np.abs(found) <= 1.0)
            assert readable.all()
            assert (np.isnan(target) | (np.abs(target) <= 1.0)).all()


@pytest.mark.parametrize("line", [
    b"", b"\xff\xfe", b'"', b'"N"x,1', b"1,2,3,4,5,6,7,8,9", b",,,,,,", b"nan,inf,NaN,nan,NaT,nan,x",
    b'20,1,"N, S",true,2021-01-01,5,a', b"1e999,-1e999,N,yes,+99999-01-01,1e400,b", b"x" * 10_000,
])  # fmt: skip
def test_one_hostile_line_changes_one_row_only(tmp_path: Path, line: bytes) -> None:
    """The same in a CSV file; an empty line is no record."""
    path = tmp_path / "t.csv"
    pd.DataFrame(COLUMNS).to_csv(path, index=False)
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:2], line, *lines[3:]]) + b"\n")
    found = encoded(SCHEMA.table(path, header=True))[:, :-1]
    if line:
        np.testing.assert_array_equal(found[[0, 2, 3]], ENCODED[[0, 2, 3]])
    else:
        np.testing.assert_array_equal(found, ENCODED[[0, 2, 3]])


def test_a_missing_cell_does_not_change_the_type_of_another() -> None:
    """2⁵³ + 1 is no float: in a column with a missing cell it is still the same category."""
    large = 2**53 + 1
    schema = Schema({"code": [large, large - 1]})
    for make in (
        lambda cells: pd.DataFrame({"code": pd.Series(cells, dtype="Int64")}),
        lambda cells: pd.DataFrame({"code": pd.Series(cells, dtype="Int64").astype("category")}),
        lambda cells: pd.DataFrame({"code": pd.Series(cells, dtype="int64[pyarrow]")}),
        lambda cells: pl.DataFrame({"code": cells}),
        lambda cells: pa.table({"code": cells}),
    ):
        for other in (large - 1, None):
            assert schema.encode(make([large, other]))[0].tolist() == [1.0, 0.0]


def test_invalid_text_in_arrow_raises_nothing() -> None:
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"N", b"\xff"]).buffers())
    assert Schema({"region": ["N"]}).encode(pa.table({"region": broken})).tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize("name", ["age", "region", "since", "spend"])
def test_nothing_but_the_release_depends_on_a_cell(
    name: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """No error, warning, log record or word on a stream, and the same names and sizes, from memory and from dask."""
    mechanism = ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, **SCHEMA.bounds())
    for cell in CELLS:
        data = {key: list(cells) for key, cells in COLUMNS.items()}
        data[name][1] = cell
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            release = mechanism.release(data, schema=SCHEMA)
            ndis.mechanisms.rows.clipped_count(data, SCHEMA, epsilon=1.0, delta=1e-6)
        assert (release.names, release.values.shape) == ((*SCHEMA.feature_names, "spend"), (8, 8))
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_hostile_cells_in_dask() -> None:
    dask = pytest.importorskip("dask")
    dd = pytest.importorskip("dask.dataframe")
    mechanism = ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, row_norm_bound=1.0)
    cells = np.empty(len(CELLS), dtype=object)
    for i, cell in enumerate(CELLS):
        cells[i] = None if isinstance(cell, Hostile | HostileText) else cell  # dask itself hashes some of its cells
    part = pd.DataFrame({"age": pd.Series(cells, dtype=object), "ward": pd.Series(cells, dtype=object)})
    schema = Schema({"age": (0, 1), "ward": [1, 2]})
    with dask.config.set({"dataframe.convert-string": False}):
        opened = dd.from_delayed([dask.delayed(part)], meta=part[:0].astype(float), verify_meta=False)
        assert mechanism.release(opened, schema=schema).names == ("age", "ward=1", "ward=2")


def test_partitions_of_other_types_raise_nothing() -> None:
    """A partition of objects, because one cell of it is text, raises nothing; its numbers are read."""
    dask = pytest.importorskip("dask")
    dd = pytest.importorskip("dask.dataframe")
    cells = [0.5, 1.0], pd.Series([0, "0"], dtype=object), pd.Series([None], dtype=object)
    parts = [pd.DataFrame({"age": column}) for column in cells]
    opened = dd.from_delayed([dask.delayed(part) for part in parts], meta=parts[0], verify_meta=False)
    found = Schema({"age": (0, 1)}).table(opened).matrix().arrays()[0].ravel()
    np.testing.assert_array_equal(found, [0.0, 1.0, -1.0, np.nan, np.nan])
