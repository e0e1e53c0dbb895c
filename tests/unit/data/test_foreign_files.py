"""Bytes that are no UTF-8, and Parquet files of one data set whose schemas differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ndis import Schema
from ndis.data import open_rows, open_table
from ndis.errors import ParameterError

SCHEMA = Schema({"size": (0, 10), "region": ["N", "M\u00fcnchen"]})
BAD = (b"M\xfcnchen", b"\xff\xfeN\x00", b"N\x80", b"\xc3", b"\xed\xa0\x80")  # Latin-1, UTF-16, broken UTF-8


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("column", [0, 1])
def test_bytes_that_are_no_utf8_concern_their_own_cell_only(tmp_path: Path, bad: bytes, column: int) -> None:
    good = [b"5,N", "7.5,M\u00fcnchen".encode()]
    for place in range(3):
        lines = good.copy()
        lines.insert(place, b",".join([bad, b"N"] if column == 0 else [b"5", bad]))
        (tmp_path / "t.csv").write_bytes(b"\n".join(lines) + b"\n")
        table = open_table(tmp_path / "t.csv", columns=["size", "region"]).encoded(SCHEMA)
        (rows,) = table.matrix().arrays()
        assert np.delete(rows, place, axis=0).tolist() == [[0.0, 1.0, 0.0], [0.5, 0.0, 1.0]]
        if column == 0:
            assert np.isnan(rows[place, 0])  # no number
        else:
            assert rows[place].tolist() == [0.0, 0.0, 0.0]  # of no listed category


@pytest.mark.parametrize("bad", BAD)
def test_parquet_text_that_is_no_utf8_concerns_its_own_cell_only(tmp_path: Path, bad: bytes) -> None:
    cells = pa.array([b"N", bad, "M\u00fcnchen".encode()], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"size": [5.0, 5.0, 7.5], "region": cells}), tmp_path / "t.parquet")
    (rows,) = open_table(tmp_path / "t.parquet").encoded(SCHEMA).matrix().arrays()
    assert rows.tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.5, 0.0, 1.0]]


def write(place: Path, *tables: pa.Table) -> Path:
    for i, table in enumerate(tables):
        pq.write_table(table, place / f"{i}.parquet")
    return place


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.float32(), pa.decimal128(21, 2), pa.bool_()])
def test_a_column_may_change_its_type_of_number(tmp_path: Path, kind: pa.DataType) -> None:
    """Each file is read by the types that it declares, so its rows are those of the file alone."""
    first, second = pa.table({"size": pa.array([2.5, None])}), pa.table({"size": pa.array([1, 0]).cast(kind)})
    (rows,) = open_rows(write(tmp_path, first, second)).arrays()
    alone = [open_rows(tmp_path / name).arrays()[0] for name in ("0.parquet", "1.parquet")]
    assert np.array_equal(rows, np.concatenate(alone), equal_nan=True)
    assert rows[2:].tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"size": pa.array(["x"]), "region": pa.array(["N"])}, "column 'size' must hold numbers"),
        ({"size": pa.array([1.0]), "region": pa.array([[1]])}, "column 'region' must hold"),
        ({"size": pa.array([1.0])}, "have the same columns in every file"),
        ({"size": pa.array([1.0]), "region": pa.array(["N"]), "more": pa.array([1])}, "have the same columns"),
        ({"region": pa.array(["N"]), "size": pa.array([1.0])}, "have the same columns"),
    ],
)
def test_schemas_that_do_not_fit_are_refused_from_the_footers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: dict[str, pa.Array], message: str
) -> None:
    first = pa.table({"size": pa.array([1.0]), "region": pa.array(["N"])})
    place = write(tmp_path, first, pa.table(second))

    def no_row(*args: object, **how: object) -> None:
        raise AssertionError("a row was read")

    monkeypatch.setattr(pq, "ParquetFile", no_row)
    with pytest.raises(ParameterError, match=message):
        SCHEMA.table(place)
