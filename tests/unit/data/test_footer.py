"""Text in Parquet files is read by codes or plainly; all other types, and all values, stay as they are declared."""

from __future__ import annotations

import base64
import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ndis import Schema
from ndis.data import files, footer, open_table
from ndis.data.cells import arrow_cells
from ndis.data.footer import _entry, coded_columns, text_footer
from ndis.data.schema import Date

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
    plain, coded = (written(tmp_path / f"{c}.parquet", categories=c, **how) for c in (False, True))
    tables = []
    for path in (plain, coded):
        with pq.ParquetFile(path, metadata=text_footer(path)) as file:
            tables.append(file.read())
    assert tables[0].schema.types == tables[1].schema.types == pq.read_schema(plain).types
    assert tables[0].equals(tables[1])
    assert [field.name for field in pq.read_schema(coded) if pa.types.is_dictionary(field.type)] == [*TEXTS]
    year = Date(dt.date(2024, 1, 1), dt.date(2025, 1, 1))
    schema = Schema({name: ["north", "sœuth", "west"] for name in TEXTS} | {"zone": year, "small": (0, 3)})
    rows = [open_table(p, progress=False).encoded(schema).matrix().arrays()[0] for p in (plain, coded)]
    assert np.array_equal(rows[0], rows[1], equal_nan=True)
    assert rows[0][0, :3].tolist() == [1.0, 0.0, 0.0]
    assert rows[0][2, :3].tolist() == [0.0, 1.0, 0.0]


CODED = pa.dictionary(pa.int32(), pa.string())


@pytest.mark.parametrize(("most", "kind"), [(1 << 30, CODED), (1, pa.string())])
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
        return arrow_cells(array, numeric)

    monkeypatch.setattr(files, "arrow_cells", spied)
    monkeypatch.setattr(footer, "_CODED", most)
    table = open_table(tmp_path / "frame.parquet", progress=False)
    (rows,) = table.encoded(Schema({"region": ["north"], "age": (0, 2), "word": ["b"]})).matrix().arrays()
    assert np.array_equal(rows[:, 0], [1.0, np.nan, 1.0], equal_nan=True)
    assert np.array_equal(rows[:, 2], [0.0, 1.0, np.nan], equal_nan=True)
    plain = pq.read_schema(tmp_path / "frame.parquet").field("word").type
    assert kinds == [kind, pa.float64(), CODED if kind == CODED else plain]


def test_texts_that_share_bytes_are_not_read_by_codes(tmp_path: Path) -> None:
    """A page of this encoding leaves out what texts have in common, so its size bounds nothing."""
    path = tmp_path / "shared.parquet"
    table = pa.table({"word": ["a" * 1000, "a" * 999 + "b"], "x": [0.5, 1.0]})
    pq.write_table(table, path, use_dictionary=False, column_encoding={"word": "DELTA_BYTE_ARRAY", "x": "PLAIN"})
    assert coded_columns(pq.read_metadata(path), ["word"]) == []
    pq.write_table(table, path)
    assert coded_columns(pq.read_metadata(path), ["word"]) == ["word"]


def test_no_cell_is_taken_for_the_declared_types(tmp_path: Path) -> None:
    """The footer holds the least and the greatest cell, which may be any bytes."""
    path = tmp_path / "hostile.parquet"

    def write(cell: bytes) -> bytes:
        column = pa.array(["north"]).dictionary_encode()
        pq.write_table(pa.table({"region": column, "bytes": [cell]}), path)
        return pq.read_metadata(path).metadata[b"ARROW:schema"]

    entry = _entry(write(b"x"))
    assert _entry(write(entry)) == entry
    assert path.read_bytes().count(entry) > 2  # a page, the greatest cell, the types
    with pq.ParquetFile(path, metadata=text_footer(path)) as file:
        assert file.read().to_pydict() == {"region": ["north"], "bytes": [entry]}
        assert file.schema_arrow.types == [pa.string(), pa.binary()]


def test_footers_without_categories_stay(tmp_path: Path) -> None:
    for how in ({}, {"store_schema": False}):
        path = written(tmp_path / "plain.parquet", categories=False, **how)
        assert text_footer(path).equals(pq.read_metadata(path))
    path = written(tmp_path / "coded.parquet", categories=True)
    kept = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text_footer(path).metadata[b"ARROW:schema"])))
    assert kept.field("codes").type == OTHERS["codes"].type
    assert kept.field("seconds").type == OTHERS["seconds"].type
