"""The declared types of a dask collection decide how cells are read, whatever a partition makes of them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ndis.data.dask
from ndis import Schema
from ndis.data import open_table
from ndis.data.schema import Date
from ndis.errors import ParameterError

DAY = dt.datetime(2021, 5, 3, 12, 30)


def encoded(data: Any, schema: Schema) -> Any:
    """Return the rows of a collection as the schema encodes them."""
    return schema.table(data).matrix().arrays()[0]


NUMBERED = [
    np.dtype(t)
    for t in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
]
COLUMN = Schema({"a": ["0", "1", "3", "true", "x"]}), Schema({"a": (0, 5)}), Schema({"a": bool})


@pytest.mark.parametrize("declared", [*NUMBERED, np.dtype(bool)], ids=str)
def test_a_partition_of_another_type_is_read_alike(declared: Any) -> None:
    """A null turns a column of integers into floats, one of booleans into objects, and a complex cell any of them."""
    series = pd.Series([1, 0, 1]).astype(declared)
    partition = ndis.data.dask._Declared(("a",), (declared,))
    for schema in COLUMN:
        expected = partition(series.to_frame("a")).encoded(schema, typed=False).matrix().arrays()[0]
        for kind in (object, float, complex):
            other = series.astype(kind)
            found = partition(other.to_frame("a")).encoded(schema, typed=False).matrix().arrays()[0]
            assert found.tobytes() == expected.tobytes(), (schema, other.dtype)


def test_a_reader_that_infers_types_is_refused(tmp_path: Path) -> None:
    """One more line made another type of all lines of its block: 007 was a text before, and the number 7 after."""
    dd = pytest.importorskip("dask.dataframe")
    (tmp_path / "rows.csv").write_text("a\n" + "007\n" * 9)
    (tmp_path / "rows.json").write_text('{"a": 1}\n' * 9)
    text = dd.read_csv(str(tmp_path / "rows.csv"), dtype=str)
    lines = dd.read_json(str(tmp_path / "rows.json"), lines=True)
    found = dd.from_map(lambda k: pd.DataFrame({"a": ["x"]}), [0], meta={"a": object})  # turned into strings by dask
    for data in (text, text[["a"]], lines, found):
        with pytest.raises(ParameterError, match="data must come from a reader of dask that infers no types"):
            open_table(data, progress=False)


@pytest.mark.parametrize("declared", ["float64", "int64", "bool"])
def test_a_block_that_numpy_turned_into_another_kind_is_refused(declared: str) -> None:
    """The text of a cell is not the cell: True among texts was "True", which is no number."""
    array, dask = pytest.importorskip("dask.array"), pytest.importorskip("dask")
    for rows in ([[True], ["x"]], [[1], [np.timedelta64(1, "D")]], [[np.longdouble(1)]], [[b"1"]]):
        block = dask.delayed(np.array)(rows)
        data = open_table(array.from_delayed(block, (len(rows), 1), dtype=declared), progress=False)
        with pytest.raises(ParameterError, match="a task that failed"):
            data.matrix().arrays()


def test_the_longest_text_of_a_block_decides_nothing() -> None:
    array, dask = pytest.importorskip("dask.array"), pytest.importorskip("dask")
    for rows in ([["N"]], [["N"], ["no such word"]]):
        block = dask.delayed(np.array)(rows)
        data = array.from_delayed(block, (len(rows), 1), dtype="U3")
        encoded = Schema({"a": ["N", "S"]}).table(data).matrix().arrays()[0]
        assert encoded[0].tolist() == [1.0, 0.0]


KEPT = ["object", "datetime64[ns]", "datetime64[us]", "Int64", "boolean", "Float64", "string", "int64[pyarrow]"]


@pytest.mark.parametrize("declared", KEPT)
def test_a_type_that_holds_nulls_is_that_of_every_partition(declared: str) -> None:
    """The type of a partition decided: one text among 5000 large floats made texts of them, which no word matched."""
    dd, dask = pytest.importorskip("dask.dataframe"), pytest.importorskip("dask")
    dask.config.set(scheduler="synchronous")
    values = [DAY, None] if "date" in declared else [True, None] if declared == "boolean" else [1, None]
    frame = pd.DataFrame({"a": pd.Series(values, dtype=object).astype(declared)})
    schema = Schema({"a": Date(dt.date(2020, 1, 1), dt.date(2030, 1, 1)) if "date" in declared else ["1", "true"]})
    with dask.config.set({"dataframe.convert-string": False}):
        for part in (frame, frame[:0], frame.astype("Float64") if "date" not in declared else frame.astype("M8[s]")):
            data = dd.from_delayed([dask.delayed(part)], meta=frame[:0], verify_meta=False)
            if part.dtypes.equals(frame.dtypes):
                assert len(encoded(data, schema)) == len(part)
            elif declared != "Float64":
                with pytest.raises(ParameterError, match="a task that failed"):
                    encoded(data, schema)


def test_categories_that_dask_does_not_know_are_refused_by_type() -> None:
    """pandas finds categories in each partition anew, and takes True and 1 for one of them."""
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"a": pd.Categorical(["x", None])})
    known = dd.from_pandas(frame, npartitions=1)
    assert len(encoded(known, COLUMN[0])) == 2
    with pytest.raises(ParameterError, match=r"column 'a' must hold .*; got unknown categories"):
        encoded(known.astype("string").astype("category"), COLUMN[0])
