"""Attacks that once broke the rule, each with the answer that it has now."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import threading
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from helpers.cases import quick
from ndis import Schema
from ndis.data import open_table
from ndis.data.cells import text_of
from ndis.data.csv import line_blocks, line_cells
from ndis.data.memory import target_table
from ndis.data.opening import open_for
from ndis.data.schema import Date
from ndis.data.schema.changed import CORNER, changed_rows
from ndis.describing.release import Contents, Releases
from ndis.errors import ParameterError
from ndis.gram import exact_gram
from ndis.learn._saved import LinearModel
from ndis.learn._score import score_privately
from ndis.models.records import column_of_cells
from ndis.noise.bits import random_bits

D = 12
BOX = Schema({f"c{i}": (-1.0, 1.0) for i in range(D)}, row_norm_bound=2.0)


def straddling(rng: np.random.Generator, count: int) -> np.ndarray:
    """Rows within a few units in the last place of the bound, whose norm NumPy's sums put on either side of it."""
    found = []
    limit = BOX.row_norm_bound * CORNER
    while len(found) < count:
        row = rng.uniform(-1, 1, D)
        row *= limit / np.sqrt((row * row).sum())
        if np.abs(row).max() < 1:
            j = rng.integers(D)
            row[j] = np.nextafter(row[j], rng.choice([-2.0, 2.0]))
            found.append(row)
    return np.array(found)


def test_whether_a_row_counts_as_clipped_depends_on_that_row_only() -> None:
    """One record moved the count by 39, because NumPy adds up one row in another order than many."""
    rows = straddling(np.random.default_rng(1), 400)
    alone = [changed_rows(BOX, row[None]) for row in rows]
    assert 0 < sum(alone) < len(rows)
    for size in (2, 3, 7, 400):
        together = sum(changed_rows(BOX, rows[i : i + size]) for i in range(0, len(rows), size))
        assert together == sum(alone)


def test_the_cuts_of_a_file_move_no_count(tmp_path: Path) -> None:
    rows = straddling(np.random.default_rng(2), 6)
    names = [f"c{i}" for i in range(D)]
    lines = [",".join(map(repr, row.tolist())).encode() for row in rows]
    path = tmp_path / "c.csv"
    for padding in (0, 1 << 21, (1 << 22) - 300):
        body = b"".join(b" " * padding + line + b"\n" for line in lines)
        counts = []
        for victim in (b"", b"0" + b",0" * (D - 1) + b"\n"):  # an ordinary record, which no rule changes
            path.write_bytes(victim + body)
            counts.append(changed_rows(BOX, path, columns=names, progress=False))
        assert counts[0] == counts[1] == sum(changed_rows(BOX, row[None]) for row in rows)


def test_a_missing_cell_in_dask_changes_no_other_record(tmp_path: Path) -> None:
    """A null turned a partition of int64 into float64, in which 5000 records of a large number vanished."""
    dd = pytest.importorskip("dask.dataframe")
    pytest.importorskip("dask").config.set(scheduler="synchronous")
    big = 2**53 + 1
    schema = Schema({"hospital": [big, 7]})
    for how in ({}, {"dtype_backend": "pyarrow"}):
        for extra in ([], [None]):
            column = pa.array([7] * 50 + [big] * 40 + [big - 1] * 10 + extra, pa.int64())
            pq.write_table(pa.table({"hospital": column}), tmp_path / "a.parquet")
            gram = exact_gram(schema.table(dd.read_parquet(tmp_path, **how)), row_norm_bound=1.0)
            assert gram.to_float().tolist() == [[50.0, 0.0], [0.0, 50.0]]  # by the nearest float64
            gram = exact_gram(schema.table(tmp_path), row_norm_bound=1.0)
            assert gram.to_float().tolist() == [[40.0, 0.0], [0.0, 50.0]]  # by the number itself


@pytest.mark.parametrize("source", quick(["arrow", "parquet", "pandas"], ["arrow"]))
def test_dictionaries_of_long_texts_are_never_joined(source: str, tmp_path: Path) -> None:
    """Arrow decodes at most 2 GiB of text: one ordinary record decided between a release and an error."""
    schema = Schema({"region": ["north", "south"], "age": (0, 10)})
    long, tail = 1 << 24, 2**31 - 2 - 127 * (1 << 24)
    texts = pa.array(["x" * long, "y" * tail, "north"])
    for codes in ([0] * 127 + [1], [0] * 127 + [1, 2, 2]):
        column = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), texts)
        table = pa.table({"region": column, "age": [1.0] * len(codes)})
        data: Any = table
        if source == "parquet":
            data = tmp_path / "cat.parquet"
            pq.write_table(table, data, compression="zstd")
        elif source == "pandas":
            data = pd.DataFrame({"region": column.to_pandas(), "age": 1.0})
        (rows,) = open_table(data, progress=False).encoded(schema).matrix().arrays()
        assert rows[:, 0].sum() == len(codes) - 128


@pytest.mark.sweep  # 10 GiB of memory; test_footer.py holds that no large dictionary is read
def test_many_long_categories_in_one_row_group(tmp_path: Path) -> None:
    """Arrow keeps a dictionary of all texts of a row group, of at most 2 GiB; plain text has no such limit."""
    last = "north" * 200
    texts = [[chr(97 + j) * ((1 << 26) - 20) for j in range(i, i + 8)] for i in range(0, 40, 8)] + [[last]]
    chunks = [pa.DictionaryArray.from_arrays(pa.array(range(len(each)), pa.int32()), each) for each in texts]
    table = pa.table({"region": pa.chunked_array(chunks), "age": [1.0] * 41})
    how = {"compression": "lz4", "write_statistics": False, "use_dictionary": False}
    pq.write_table(table, tmp_path / "many.parquet", **how)
    schema = Schema({"region": [texts[0][0], last], "age": (0, 10)})
    (rows,) = open_table(tmp_path / "many.parquet", progress=False).encoded(schema).matrix().arrays()
    assert rows[:, :2].tolist() == [[1.0, 0.0]] + [[0.0, 0.0]] * 39 + [[0.0, 1.0]]


def test_a_byte_order_mark_is_no_part_of_any_line(tmp_path: Path) -> None:
    """It was dropped before the first line only, so the second line was read by the first one's presence."""

    def gram(content: bytes) -> Any:
        (tmp_path / "a.csv").write_bytes(content)
        found = exact_gram(tmp_path / "a.csv", row_norm_bound=1.0, columns=["a", "b"], progress=False)
        return found.to_float()

    first, second = b"1,0\n", b"\xef\xbb\xbf0,1\n"
    assert np.array_equal(gram(first + second), gram(first) + gram(second))
    assert np.array_equal(gram(second + first), gram(first + second))


def test_threads_leave_the_filters_of_warnings_alone() -> None:
    """Overlapping fits restored the list of filters in the wrong order: afterwards no warning was ever shown."""
    program = """
import threading, warnings, sys
import numpy as np
from ndis.learn import PrivateCovariance
X = np.random.default_rng(0).normal(size=(3000, 3)).astype(object)
X[2999, 2] = np.complex128(1 + 2j)
before = list(warnings.filters)
fit = lambda: PrivateCovariance(epsilon=1.0, row_norm_bound=3.0).fit(X)
threads = [threading.Thread(target=fit) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
assert list(warnings.filters) == before, warnings.filters[:3]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_long_line_costs_a_few_times_its_length() -> None:
    """A pattern kept one step per byte: a line of 8 MiB cost a gigabyte."""
    for cell in (b'"' + b"a" * (8 << 20) + b'"', b'"' + b'""' * (4 << 20) + b'"', b"7" * (8 << 20), b"," * (8 << 20)):
        line = b"0.5," + cell[: (8 << 20) - 6] + (b'"' if cell[:1] == b'"' else b"") + b"\n"
        for numeric in (True, False):
            tracemalloc.start()
            list(line_cells(line, 2, ((0, True), (1, numeric))))
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak <= 5 * len(line)


def test_short_lines_cost_memory_by_the_block(tmp_path: Path) -> None:
    """A block of bytes holds millions of short lines, of which a fixed number is read at a time."""
    width = 20  # all lines at once would take 335 MB
    with (tmp_path / "short.csv").open("wb") as file:
        file.write(b"1\n" * (1 << 21))
    with (tmp_path / "short.csv").open("rb") as file:
        lines = next(iter(line_blocks(file)))
    tracemalloc.start()
    count = sum(len(block[0]) for block in line_cells(lines, width, tuple((i, True) for i in range(width)), most=4096))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == len(lines or b"") // 2
    assert peak <= 64 << 20


def test_numpy_may_raise_on_underflow() -> None:
    """`np.seterr` made the count of clipped rows raise at a cell of 1e-200."""
    schema = Schema({"a": (-1, 1), "b": (-1, 1)})
    before = np.geterr()
    with np.errstate(all="raise"):
        for cell in (1e-200, 5e-324, 1e308, np.nan, np.inf):
            data = np.array([[cell, 0.5], [0.25, -cell]])
            changed_rows(schema, data)
            exact_gram(schema.table(data), row_norm_bound=1.0)
    assert np.geterr() == before


def test_messages_show_no_names_below_a_folder_and_no_escapes(tmp_path: Path) -> None:
    folder = tmp_path / "user=alice"
    folder.mkdir()
    (folder / "part.parquet").write_bytes(b"no Parquet")
    with pytest.raises(ParameterError) as caught:
        open_table(tmp_path)
    assert "alice" not in str(caught.value)
    with pytest.raises(ParameterError) as caught:
        open_table("\x1b]0;title\x07.csv", columns=["a"])
    assert str(caught.value).isprintable()


def test_the_number_of_categories_is_not_told() -> None:
    for count in (3, 200):
        column = pd.Series([f"k{i}" for i in range(count)], dtype="category")
        with pytest.raises(ParameterError) as caught:
            exact_gram(pa.Table.from_pandas(pd.DataFrame({"a": column})), row_norm_bound=1.0)
        assert "got text" in str(caught.value)


def test_zones_with_code_of_their_own_are_not_run() -> None:
    import datetime as dt

    class Zone(dt.tzinfo):
        def utcoffset(self, when: Any) -> Any:
            warnings.warn("secret", stacklevel=1)
            raise SystemExit

    day = dt.datetime(2021, 1, 1, tzinfo=Zone())
    schema = Schema({"since": (dt.date(2020, 1, 1), dt.date(2030, 1, 1))})
    assert np.isnan(schema.encode({"since": [day, dt.date(2021, 1, 1)]})).ravel().tolist() == [True, False]


def test_overlapping_dask_computations_restore_the_filters() -> None:
    dask = pytest.importorskip("dask")
    da = pytest.importorskip("dask.array")
    before = list(warnings.filters)
    barrier = threading.Barrier(3)

    def slow(block: np.ndarray) -> np.ndarray:
        barrier.wait(timeout=3600)
        return block

    def work() -> None:
        with dask.config.set(scheduler="synchronous"):
            data = da.from_array(np.ones((2, 2)), chunks=(2, 2)).map_blocks(slow, meta=np.empty((0, 0)))
            exact_gram(data, row_norm_bound=1.0)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(warnings.filters) == before


# ---------------------------------------------------------------------- the second attack


def rows_of(data: Any, schema: Schema | None = None) -> np.ndarray:
    table = open_table(data, progress=False)
    (rows,) = (table if schema is None else table.encoded(schema)).matrix().arrays()
    return rows


def test_entries_of_one_sparse_cell_add_up_in_their_own_order() -> None:
    """SciPy sorted all rows, in an unstable way, if one record was not sorted: 16 became 14 in every other record."""
    values = np.random.default_rng(0).permutation(np.r_[1e16, np.ones(30), -1e16])
    sums = []
    for unsorted in (False, True):
        ends = [0, 32, 64] + [66] * unsorted
        entries = np.array([*values, *values, *[0.5, 0.5] * unsorted])
        given = scipy.sparse.csr_array((entries, [1] * 64 + [1, 0] * unsorted, ends), shape=(2 + unsorted, 2))
        sums.append(rows_of(given)[:2].tobytes())
    alone = scipy.sparse.csr_array((values, [1] * 32, [0, 32]), shape=(1, 2))
    assert sums[0] == sums[1] == rows_of(alone).tobytes() * 2


def test_a_long_text_that_is_almost_a_number_costs_its_length() -> None:
    """A pattern that took steps back needed 7 s for 8000 digits, and hours for a million."""
    for text in ("1" * 10**6 + "x", "1." + "0" * 10**6 + "x", " " * 10**6 + "x", "1e" + "1" * 10**6 + "x"):
        assert np.isnan(rows_of(np.array([[text], [text.encode()]], dtype=object))).all()
        assert text_of(text) == text.strip()


BIG = 2**53 + 1


@pytest.mark.parametrize(
    "kind", ["Int64", pd.ArrowDtype(pa.int64()), "category", "boolean", "Float64", "string"], ids=str
)
def test_a_column_of_pandas_in_a_mapping_has_its_own_type(kind: Any) -> None:
    """NumPy read such an array by its values: a missing cell turned all whole numbers into floats."""
    cells: list[Any] = {"boolean": [True, False], "string": ["7", "x"]}.get(kind, [BIG - 1, 7])
    schema = Schema({"a": [BIG, 7, "true", "x"]})
    one, other = (pd.array([*cells, *more], dtype=kind) for more in ([], [None]))
    assert rows_of({"a": one}, schema).tobytes() == rows_of({"a": other}, schema)[:2].tobytes()
    assert open_table({"a": one}).kinds == open_table({"a": other}).kinds
    assert target_table(one).kinds == target_table(other).kinds


def test_a_column_of_dask_in_a_mapping_is_refused() -> None:
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(pd.DataFrame({"a": [1, 2]}), npartitions=1)
    with pytest.raises(ParameterError, match="columns that are lists, arrays or series; got Series"):
        open_table({"a": frame["a"]})


def test_a_code_without_a_value_is_a_missing_cell() -> None:
    """No library checks the codes of a file: one of them raised an IndexError."""
    codes = pa.array([0, 5, -3, None, 1], pa.int8())
    column = pa.DictionaryArray.from_arrays(codes, pa.array(["N", "S"]), safe=False)
    rows = rows_of(pa.table({"a": column}), Schema({"a": ["N", "S"]}))
    assert np.isnan(rows).all(axis=1).tolist() == [False, True, True, True, False]


def test_the_order_of_bytes_changes_no_date() -> None:
    days_of = Schema({"a": Date(dt.date(2000, 1, 1), dt.date(2040, 1, 1))})
    cells = np.array([["2020-01-01"], ["NaT"]], dtype="M8[us]")
    assert rows_of(cells, days_of).tobytes() == rows_of(cells.astype(">M8[us]"), days_of).tobytes()


def test_opening_npy_files_leaves_the_filters_of_warnings_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that opened files restored the filters in the wrong order, and all warnings stayed off."""
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    monkeypatch.setattr(warnings, "catch_warnings", None)
    assert rows_of(tmp_path / "x.npy").shape == (3, 2)
    old = (tmp_path / "x.npy").read_bytes().replace(b"(3, 2), }  ", b"(3L, 2L), }")  # as Python 2 wrote it
    (tmp_path / "x.npy").write_bytes(old)
    assert b"3L" in old
    with pytest.warns(UserWarning, match="created on Python 2"):  # by its header, whatever its cells
        assert rows_of(tmp_path / "x.npy").shape == (3, 2)


@pytest.mark.parametrize("kind", ["category", "Int64", pd.ArrowDtype(pa.int64())], ids=str)
def test_a_missing_label_changes_no_other_label(kind: Any) -> None:
    """A null turned the labels of a category, and those of a frame of one column, into floats."""
    one, other = (pd.Series([BIG, 7, *more], dtype=object).astype(kind) for more in ([], [None]))
    for labels in ((one, other), (one.to_frame("y"), other.to_frame("y"))):
        first, second = (column_of_cells(each) for each in labels)
        assert [(type(cell), cell) for cell in first] == [(type(cell), cell) for cell in second[:2]]
        assert first.dtype == second.dtype


TINY = [5e-324, 1e-310, 1e-200, -1e-200, 1e308, -1e308, np.inf, np.nan, 0.0, 0.5]


@pytest.mark.parametrize("cell", TINY)
def test_no_cell_raises_where_errors_of_floats_do(cell: float) -> None:
    """With `np.seterr(all="raise")` a number that underflows when it is squared would be an error of its record."""
    schema = Schema({"x": (-1, 1), "word": ["a"]}, target=("y", -1, 1))
    table = {"x": np.array([0.5, cell] * 3), "word": ["a", "b"] * 3, "y": np.array([cell, 0.25] * 3)}
    model = LinearModel({"x": 1e300, "word=a": 1e-300}, 5e-324, schema, {})
    with np.errstate(all="raise"):
        exact_gram(schema.table(table), row_norm_bound=1.0)
        changed_rows(schema, table)
        model.predict(table)
        Releases(CONTENTS, open_for(schema, table), *BUDGET, random_bits(None)).receipt()
        score_privately(model, table, epsilon=1.0, delta=1e-6)


CONTENTS = Contents.of(Schema({"x": (-1, 1), "word": ["a"]}, target=("y", -1, 1)), None, True, True, None)
BUDGET = CONTENTS.budget(1.0, 1e-6, "add-remove")
