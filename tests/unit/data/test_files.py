"""Files of rows: those that change while they are read, lie about their size, or are damaged; the progress bar."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from helpers.sketches import PLAIN
from ndis.data.opening import open_table
from ndis.errors import ParameterError
from ndis.gram import Gram, exact_gram

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
pq = pytest.importorskip("pyarrow.parquet")


def gram(data: object, **how: object) -> Gram:
    return exact_gram(data, row_norm_bound=1.0, progress=False, **how)


def test_the_bar_is_the_same_whatever_is_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shown = set()
    for rows in (0, 1, 5, 100_000):
        table = pa.table({"a": np.zeros(rows)})
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=max(rows // 7, 1))
        feather.write_feather(table, tmp_path / "a.arrow", chunksize=max(rows // 3, 1))
        (tmp_path / "a.csv").write_text("0\n" * rows)
        np.save(tmp_path / "a.npy", np.zeros((rows, 1)))
        for ending in ("parquet", "arrow", "csv", "npy"):
            how = {"columns": "a"} if ending == "csv" else {}
            exact_gram(tmp_path / f"a.{ending}", row_norm_bound=1.0, progress=True, **how)
            shown.add(capfd.readouterr().err)
    (only,) = shown
    assert only.count("\r") == 20
    assert only.endswith("100 %\n")


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "npy"])
@pytest.mark.parametrize("change", ["grows", "shrinks", "is replaced"])
def test_a_file_that_changes_while_it_is_read_is_refused(ending: str, change: str, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(400_000, 1))
    path = tmp_path / f"rows.{ending}"
    table = pa.table({"a": rows[:, 0]})
    if ending == "parquet":
        pq.write_table(table, path, row_group_size=10_000)
    elif ending == "arrow":
        feather.write_feather(table, path, chunksize=10_000, compression="uncompressed")
    elif ending == "npy":
        np.save(path, rows)
    else:
        path.write_text("\n".join(map(repr, rows[:, 0].tolist())))
    source = open_table(path, columns="a" if ending == "csv" else None, progress=False)
    blocks = source.read(((0,),))
    next(blocks)
    if change == "grows":
        with path.open("ab") as file:
            file.write(b"\n1.0\n")
    elif change == "shrinks":
        os.truncate(path, 4096)  # a mapped file would end the process here
    else:
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)
    with pytest.raises(ParameterError, match=r"stay as it is while it is read|be a readable file|cut short"):
        list(blocks)


def test_npy_files_are_read_by_slices_in_either_order(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(3000, 3))
    expected = exact_gram(rows[:, [2, 0]], row_norm_bound=1.0)
    for i, array in enumerate((rows, np.asfortranarray(rows), rows.astype(">f8"))):
        np.save(tmp_path / f"{i}.npy", array)
        found = gram(tmp_path / f"{i}.npy", columns=[2, 0])
        assert np.array_equal(found.integers, expected.integers)
    content = (tmp_path / "0.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(content[:-8])
    with pytest.raises(ParameterError, match="cut short"):
        gram(tmp_path / "cut.npy")


def test_damage_inside_a_file_is_told_in_our_words(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.feather
    import pyarrow.parquet

    table = pa.table({"a": np.random.default_rng(0).integers(0, 50, 100_000).astype(float)})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=10_000, compression="snappy")
    pyarrow.feather.write_feather(table, tmp_path / "a.arrow", compression="lz4", chunksize=10_000)
    for name, start in (("a.parquet", 100), ("a.arrow", None)):
        content = bytearray((tmp_path / name).read_bytes())
        start = len(content) // 2 if start is None else start
        content[start : start + 3000] = b"\xff" * 3000
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ParameterError, match="be a readable file of its kind") as caught:
            PLAIN.release(tmp_path / name)
        assert caught.value.__suppress_context__
