"""Text in Parquet files is read by codes or plainly, and few rows at a time where it may unpack. Rows are the same."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ndis import Schema
from ndis.data import files, footer, open_table
from ndis.data.cells import arrow_pieces
from ndis.data.footer import plain_footer, text_plan
from ndis.data.schema import Date
from ndis.errors import ParameterError

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pq = pytest.importorskip("pyarrow.parquet")

DAY = dt.datetime(2024, 5, 1, 22, 30, tzinfo=dt.UTC)
OTHERS = {  # each is another type without the key of Arrow, or with its own
    "zone": pa.array([DAY, None, DAY], pa.timestamp("us", "Asia/Tokyo")),
    "seconds": pa.array([DAY, None, DAY], pa.timestamp("s", "+05:30")),
    "local": pa.array([1000, None, 3000], pa.timestamp("ns")),
    "day": pa.array([0, None, 86_400_000], pa.date64()),
    "span": pa.array([1, None, 3], pa.duration("ms")),
    "long": pa.array(["x", None, "é"], pa.large_string()),
    "nothing": pa.nulls(3),
    "small": pa.array([1, None, 3], pa.uint8()),
    "list": pa.array([[1], None, []], pa.list_(pa.int16())),
    "codes": pa.array([7, None, 7]).dictionary_encode(),
    "ä": pa.array([0.5, None, 1.5], pa.float32()),
}
TEXTS = {
    "region": pa.array(["north", None, "sœuth"]),
    "other": pa.array([None, "", "north"]),
    "wide": pa.array(["west", "west", None], pa.large_string()),
}


def written(path: Path, *, categories: bool, **how: Any) -> Path:
    texts = {n: column.dictionary_encode() if categories else column.cast(pa.string()) for n, column in TEXTS.items()}
    pq.write_table(pa.table({"region": texts.pop("region"), **OTHERS, **texts}), path, **how)
    return path


@pytest.mark.parametrize("how", [{}, {"use_dictionary": False}, {"row_group_size": 1}, {"version": "1.0"}], ids=str)
def test_types_and_values_are_those_of_plain_text(how: dict[str, Any], tmp_path: Path) -> None:
    """The types of Arrow are left out, and those of Parquet stand for the same cells."""
    plain, coded = (written(tmp_path / f"{c}.parquet", categories=c, **how) for c in (False, True))
    assert [field.name for field in pq.read_schema(coded) if pa.types.is_dictionary(field.type)] == [*TEXTS]
    tables = []
    for path in (plain, coded):
        with pq.ParquetFile(path, metadata=plain_footer(path)) as file:
            tables.append(file.read())
    assert tables[0].equals(tables[1])
    year, start = Date(dt.date(2024, 1, 1), dt.date(2025, 1, 1)), Date(dt.date(1970, 1, 1), dt.date(1970, 1, 3))
    words = {name: ["north", "sœuth", "west"] for name in TEXTS} | {"long": ["x", "é"]}
    times = {"zone": year, "seconds": year, "local": start, "day": start}
    schema = Schema(words | times | {"small": (0, 3), "codes": [7], "ä": (0, 2), "nothing": (0, 1)})
    rows = [open_table(p, progress=False).encoded(schema).matrix().arrays()[0] for p in (plain, coded)]
    memory = open_table(pa.table({**OTHERS, **TEXTS})).encoded(schema).matrix().arrays()[0]
    assert rows[0].tobytes() == rows[1].tobytes() == memory.tobytes()
    assert rows[0][0, :3].tolist() == [1.0, 0.0, 0.0]
    assert rows[0][2, :3].tolist() == [0.0, 1.0, 0.0]
    with pytest.raises(ParameterError, match="duration"):
        open_table(plain).encoded(Schema({"span": (0, 1)}))


CODED = pa.dictionary(pa.int32(), pa.string())


@pytest.mark.parametrize(("most", "kind"), [(1 << 28, CODED), (1, pa.string())])
def test_only_small_row_groups_are_read_by_codes(
    most: int, kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dictionary beyond 2 GiB fails. The texts are the same either way."""
    frame = pd.DataFrame({"region": pd.Categorical(["north", None, "north"], ordered=True), "age": [1.0, 2.0, None]})
    frame["word"] = pd.Series(["a", "b", None], dtype="str")
    frame.to_parquet(tmp_path / "frame.parquet", engine="pyarrow")
    kinds = []

    def spied(array: Any, numeric: bool) -> Any:
        kinds.append(array.type)
        return arrow_pieces(array, numeric)

    monkeypatch.setattr(files, "arrow_pieces", spied)
    monkeypatch.setattr(footer, "_UNPACKED", most)
    table = open_table(tmp_path / "frame.parquet", progress=False)
    (rows,) = table.encoded(Schema({"region": ["north"], "age": (0, 2), "word": ["b"]})).matrix().arrays()
    assert np.array_equal(rows[:, 0], [1.0, np.nan, 1.0], equal_nan=True)
    assert np.array_equal(rows[:, 2], [0.0, 1.0, np.nan], equal_nan=True)
    assert kinds == [kind, pa.float64(), kind] * (1 if kind == CODED else 3)  # one row at a time


SHARED = {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}


def test_texts_that_may_unpack_are_read_few_rows_at_a_time(tmp_path: Path) -> None:
    """DELTA_BYTE_ARRAY leaves out what texts have in common: a file of few bytes asked for 6 GB of memory."""
    path = tmp_path / "shared.parquet"
    for how, coded in ((SHARED, []), ({}, ["word"]), ({"use_dictionary": False}, ["word"])):
        pq.write_table(pa.table({"word": ["a" * 1000, "a" * 999 + "b"]}), path, **how)
        assert text_plan(pq.read_metadata(path), ["word"], 7) == (coded, [7])
    size = 1 << 20
    column = pa.array(["a" * (size - 1) + letter for letter in "bcde"]).take(pa.array([0, 1, 2, 3] * 100))
    pq.write_table(pa.table({"word": column}), path, **SHARED, compression="zstd")
    assert path.stat().st_size < size // 100
    (chunk,) = (pq.read_metadata(path).row_group(0).column(0),)
    coded, (rows,) = text_plan(pq.read_metadata(path), ["word"], 1 << 20)
    assert coded == []
    assert rows * size <= rows * chunk.total_uncompressed_size <= footer._UNPACKED


def test_memory_is_bounded_whatever_the_texts_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of memory must not decide about a record: 400 rows of 1 MiB each stand in a file of some kB."""
    monkeypatch.setattr(footer, "_UNPACKED", 1 << 23)
    size, path = 1 << 20, tmp_path / "shared.parquet"
    words = ["a" * size + letter for letter in "bcde"]
    pq.write_table(pa.table({"word": pa.array(words * 100)}), path, **SHARED, compression="zstd")
    before, schema = pa.total_allocated_bytes(), Schema({"word": words})
    largest = 0
    for (column,) in open_table(path, progress=False).cells(((0, False),)):
        largest = max(largest, pa.total_allocated_bytes() - before)
        assert schema.columns["word"].read(column).min() >= 0.0
    assert largest < 10 * footer._UNPACKED
    assert open_table(path, progress=False).encoded(schema).matrix().arrays()[0].sum() == 400


def test_encodings_and_sizes_change_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They depend on cells, for one text makes a writer leave its dictionary. So they never decide whether."""
    column = pa.array(["north", None, "x" * 5000, "north ", "", "south"] * 3)
    schema, read = Schema({"word": ["north", "south"]}), []
    ways: list[dict[str, Any]] = [{}, {"use_dictionary": False}, SHARED, {"row_group_size": 2}, {"version": "1.0"}]
    ways += [{"dictionary_pagesize_limit": 10, "data_page_size": 10}]
    ways += [SHARED | {"column_encoding": "DELTA_LENGTH_BYTE_ARRAY"}]
    for most, how in itertools.product((1, 1 << 13, 1 << 28), ways):
        monkeypatch.setattr(footer, "_UNPACKED", most)
        pq.write_table(pa.table({"word": column}), tmp_path / "t.parquet", **how)
        read.append(open_table(tmp_path / "t.parquet", progress=False).encoded(schema).matrix().arrays()[0].tobytes())
    assert len(set(read)) == 1


def test_no_cell_is_taken_for_the_declared_types(tmp_path: Path) -> None:
    """The footer holds the least and the greatest cell, and names; each may be any bytes."""
    path, cell = tmp_path / "hostile.parquet", footer._KEY + b"x"
    region = pa.array(["north"]).dictionary_encode()
    pq.write_table(pa.table({"region": region, "bytes": [cell], "ARROW:schema": [1.5]}), path)
    assert path.read_bytes().count(footer._KEY) > 2  # a page, the greatest cell, the types
    with pq.ParquetFile(path, metadata=plain_footer(path)) as file:
        assert file.read().to_pydict() == {"region": ["north"], "bytes": [cell], "ARROW:schema": [1.5]}
        assert file.schema_arrow.types == [pa.string(), pa.binary(), pa.float64()]
    assert plain_footer(path).metadata.keys() == {b"other:schema"}


def test_a_column_that_has_the_name_of_a_field_is_refused(tmp_path):
    """A reader takes both for a.b, so how long texts of one are would decide how the other one is read."""
    text, field = pa.array(["x", "y"]), pa.array([{"b": "long"}, {"b": "longer"}])
    pq.write_table(pa.table({"a.b": text, "a": field}), tmp_path / "both.parquet")
    with pytest.raises(ParameterError, match="data must have columns of different names, with those of fields"):
        open_table(tmp_path / "both.parquet")
    pq.write_table(pa.table({"a.c": text, "a": field}), tmp_path / "other.parquet")
    schema = Schema({"a.c": ["x", "y"]})
    (rows,) = open_table(tmp_path / "other.parquet").encoded(schema).matrix().arrays()
    assert rows.tolist() == [[1.0, 0.0], [0.0, 1.0]]
