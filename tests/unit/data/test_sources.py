"""The same rows from every source give the same bits, and nothing but schemas can raise."""

from __future__ import annotations

import decimal
import random
import threading
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from ndis.data.opening import open_table
from ndis.errors import ParameterError
from ndis.gram import Gram, exact_gram, leverage, worst_row

NAMES = ["a", "b", "c", "y"]
OPTIONS = {"row_norm_bound": 1.5, "targets": [3], "target_bound": 0.5, "intercept": 1.0}


def same_integers(left: Gram, right: Gram) -> bool:
    return bool(np.array_equal(left.integers, right.integers))


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5000, 4)) * 10.0 ** rng.uniform(-3, 2, size=(5000, 1))
    x[10, 1], x[11, 3], x[12, 0], x[13] = np.nan, np.nan, 1e308, 5e-324
    x[14, 2] = np.inf
    return x


@pytest.fixture(scope="module")
def expected(rows: np.ndarray) -> Gram:
    return exact_gram(rows, **OPTIONS)


def table(rows: np.ndarray) -> pa.Table:
    return pa.table({name: pa.array(rows[:, i], from_pandas=True) for i, name in enumerate(NAMES)})  # NaN → null


def test_sparse_matrices(rows: np.ndarray, expected: Gram) -> None:
    for kind in (scipy.sparse.csr_matrix, scipy.sparse.csr_array):
        assert exact_gram(kind(rows), **OPTIONS) == expected


def test_frames_and_tables(rows: np.ndarray, expected: Gram) -> None:
    frame = pd.DataFrame(rows, columns=NAMES)
    arrow = table(rows)
    for data in (frame, frame.convert_dtypes(), pl.DataFrame(rows, schema=NAMES), arrow, arrow.to_batches()[0]):
        gram = exact_gram(data, **OPTIONS)
        assert same_integers(gram, expected), type(data)
        assert gram.layout.names == ("a", "b", "c", "y", "intercept")
        assert same_integers(exact_gram(data, **OPTIONS | {"targets": "y"}), expected)


def test_a_pair_of_features_and_targets(rows: np.ndarray, expected: Gram) -> None:
    options = {k: v for k, v in OPTIONS.items() if k != "targets"}
    frame = pd.DataFrame(rows, columns=NAMES)
    assert exact_gram((rows[:, :3], rows[:, 3]), **options) == expected
    assert same_integers(exact_gram((frame[["a", "b", "c"]], frame["y"]), **options), expected)
    empty = exact_gram((frame[["a", "b", "c"]][:0], frame["y"][:0]), **options)
    assert not empty.integers.any()
    with pytest.raises(ParameterError, match="list of paths"):
        exact_gram(("a.parquet", "b.parquet"), **options)
    with pytest.raises(ParameterError, match="columns of equal length"):
        exact_gram((rows[:, :3], rows[:9, 3]), **options)
    with pytest.raises(ParameterError, match="columns and targets must be left out"):
        exact_gram((rows[:, :3], rows[:, 3]), **OPTIONS)


@pytest.fixture(scope="module")
def folder(rows: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("rows")
    for i, block in enumerate(np.array_split(rows, 7)):
        part = place / "parquet" / f"group={i % 2}"
        part.mkdir(parents=True, exist_ok=True)
        pq.write_table(table(block), part / f"part-{i}.parquet", row_group_size=200)
        for kind in ("arrow", "csv"):
            (place / kind).mkdir(exist_ok=True)
        pyarrow.feather.write_feather(table(block), str(place / "arrow" / f"part-{i}.arrow"), chunksize=100)
        pd.DataFrame(block, columns=NAMES).to_csv(place / "csv" / f"part-{i}.csv", index=False)
    (place / "parquet" / "_SUCCESS").touch()
    return place


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv"])
@pytest.mark.parametrize("progress", [False, True])
def test_folders_are_streamed_to_the_same_bits(
    folder: Path, expected: Gram, kind: str, progress: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    options = OPTIONS | {"header": kind == "csv"}
    gram = exact_gram(folder / kind, progress=progress, **options)
    assert same_integers(gram, expected)
    assert ("reading rows" in capfd.readouterr().err) == progress
    files = sorted((folder / kind).rglob(f"part*.{kind}"), reverse=True)
    assert same_integers(exact_gram([str(f) for f in files], progress=False, **options), expected)


def test_columns_by_name_in_any_order(folder: Path, rows: np.ndarray) -> None:
    gram = exact_gram(folder / "parquet", row_norm_bound=1.0, columns=["c", "a"], progress=False)
    assert same_integers(gram, exact_gram(rows[:, [2, 0]], row_norm_bound=1.0))
    assert gram.layout.names == ("c", "a")


def test_second_pass_on_files(folder: Path, rows: np.ndarray, expected: Gram) -> None:
    from_rows = np.concatenate(list(leverage(rows, expected, ridge=1.0, targets=[3])))
    files = sorted((folder / "csv").glob("*.csv"))
    streamed = np.concatenate(list(leverage([str(f) for f in files], expected, ridge=1.0, targets="y", header=True)))
    np.testing.assert_allclose(streamed, from_rows, rtol=1e-10)
    found = worst_row(folder / "csv", expected, ridge=1.0, targets="y", header=True)
    assert found is not None
    assert found.index == from_rows.argmax()


def test_an_interrupted_stream_leaves_nothing_behind(folder: Path, expected: Gram) -> None:

    before = sorted(folder.rglob("*"))
    scores = leverage(folder / "parquet", expected, ridge=1.0, targets="y")
    next(scores)
    with pytest.raises(KeyboardInterrupt):
        scores.throw(KeyboardInterrupt)
    assert sorted(folder.rglob("*")) == before
    assert not [t for t in threading.enumerate() if t.name.startswith("ndis-read")]


def test_cells_that_are_no_numbers_empty_their_row_without_a_word(tmp_path: Path) -> None:
    cells = ["1", " 2 ", "+3", "1e999", "abc", "", "NaN", "-inf", "0x10", "7e-1", '"0.5"', "9007199254740993"]
    path = tmp_path / "odd.csv"
    path.write_text("a,b\n" + "".join(f"{cell},0.25\n" for cell in cells) + "1,2,3\n4\n")
    numbers = [1, 2, 3, None, None, None, None, None, None, 0.7, 0.5, 9007199254740993.0]
    kept = np.array([[v, 0.25] for v in numbers if v is not None])
    found = exact_gram(path, row_norm_bound=1.0, header=True, progress=False)
    assert same_integers(found, exact_gram(kept, row_norm_bound=1.0))


def test_a_cell_never_changes_how_another_is_read(tmp_path: Path) -> None:
    grams = []
    for last in ("0", "word", "1e999"):
        path = tmp_path / "one.csv"
        path.write_text("a\n0.1\n9007199254740993\n+0.3\nTrue\n" + last + "\n")
        grams.append(exact_gram(path, row_norm_bound=1.0, header=True, progress=False))
    assert grams[0] == grams[1] == grams[2]


def test_csv_files_without_records_or_without_valid_text_raise_nothing(tmp_path: Path) -> None:
    nothing = np.zeros((1, 1), dtype=np.int64)
    for content in (b"a", b"a\n", b"a\r\n", b"a\n\xff\xfe\n", b"\xef\xbb\xbfa\nabc\n\xff\n", b"a\n\x00\n"):
        path = tmp_path / "rows.csv"
        path.write_bytes(content)
        found = exact_gram(path, row_norm_bound=1.0, header=True, progress=False)
        assert np.array_equal(found.integers, nothing), content


def test_large_integers_raise_nothing() -> None:
    values = [2**63 - 1, -(2**63), 2**53 + 1, None, 0]
    arrow = pa.table({"a": pa.array(values, pa.int64())})
    floats = np.array([[float(v)] for v in values if v is not None])
    expected = exact_gram(floats, row_norm_bound=2.0**60)
    frame = pd.DataFrame({"a": pd.array(values, dtype="Int64")})
    for data in (arrow, frame, pl.DataFrame({"a": values})):
        assert same_integers(exact_gram(data, row_norm_bound=2.0**60), expected)
    unsigned = np.array([[2**64 - 1]], dtype=np.uint64)
    assert exact_gram(unsigned, row_norm_bound=2.0**64).integers.tolist() == [[4**18]]


def test_values_cause_neither_error_nor_warning(rows: np.ndarray, tmp_path: Path) -> None:
    nasty = [np.nan, np.inf, -np.inf, 1.7976931348623157e308, 5e-324, -0.0, 2.0**1000]
    x = np.array([[a, b] for a in nasty for b in nasty])
    path = tmp_path / "nasty.parquet"
    pq.write_table(pa.table({"a": x[:, 0], "b": x[:, 1]}), path)
    frame = pd.DataFrame(x, columns=["a", "b"])
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        grams = [
            exact_gram(data, row_norm_bound=1.0, progress=False)
            for data in (x, scipy.sparse.csr_matrix(x), frame, pl.DataFrame(x, schema=["a", "b"]), path)
        ]
    assert all(same_integers(g, grams[0]) for g in grams)


def test_schemas_are_checked_before_anything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = pa.table({"a": [1.0], "name": ["secret"]})
    pq.write_table(text, tmp_path / "text.parquet")
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *_, **__: pytest.fail("read"))
    for data in (tmp_path / "text.parquet", text, text.to_pandas(), pl.from_arrow(text)):
        with pytest.raises(ParameterError, match="column 'name' must hold real numbers") as caught:
            exact_gram(data, row_norm_bound=1.0, progress=False)
        assert "secret" not in str(caught.value)


def test_text_columns_may_stay_beside_the_chosen_ones() -> None:
    frame = pd.DataFrame({"a": [0.5], "name": ["x"]})
    assert same_integers(
        exact_gram(frame, row_norm_bound=1.0, columns=["a"]), exact_gram(np.array([[0.5]]), row_norm_bound=1.0)
    )


def test_files_that_do_not_fit_are_named(tmp_path: Path) -> None:
    def gram(data: object) -> Gram:
        return exact_gram(data, row_norm_bound=1.0, progress=False)

    with pytest.raises(ParameterError, match=r"name an existing file or folder; got .*nowhere"):
        gram(tmp_path / "nowhere.parquet")
    with pytest.raises(ParameterError, match="hold files named"):
        gram(tmp_path)
    (tmp_path / "rows.txt").touch()
    with pytest.raises(ParameterError, match=r"be named .parquet"):
        gram(tmp_path / "rows.txt")
    pq.write_table(pa.table({"a": [1.0], "b": [1.0]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "2.parquet")
    with pytest.raises(ParameterError, match=r"same columns in every file") as caught:
        gram(tmp_path)
    assert "2.parquet" not in str(caught.value)  # names below a folder may be private
    (tmp_path / "broken.arrow").write_text("no Arrow file")
    with pytest.raises(ParameterError, match=r"readable file of its kind; got .*broken"):
        gram(tmp_path / "broken.arrow")
    (tmp_path / "broken.arrow").unlink()
    (tmp_path / "3.csv").write_text("a,a\n1,2\n")
    with pytest.raises(ParameterError, match="name all columns of a CSV file"):
        gram(tmp_path / "3.csv")
    with pytest.raises(ParameterError, match="one kind; got csv, parquet"):
        gram(tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros(3), "have two dimensions.*reshape"),
        (np.zeros((3, 0)), "at least one column"),
        (np.zeros((3, 2), dtype=complex), "real numbers"),
        (np.array([["a", "b"]]), "real numbers"),
        (np.ma.masked_array(np.zeros((2, 2))), "masked"),
        ([3.0, [1.0, 2.0]], "or list existing files and folders; got another list; rows are written"),
        (pl.LazyFrame({"a": [1.0]}), "polars DataFrame; got LazyFrame"),
        (42, "data must be an array"),
    ],
)
def test_other_data_is_refused(data: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        exact_gram(data, row_norm_bound=1.0)


def test_an_array_of_objects_is_read_cell_by_cell() -> None:
    rows = np.array([[0.5, "0.25"], [1, None], ["x", 0.5], [np.float32(0.25), True]], dtype=object)
    read = np.array([[0.5, 0.25], [1.0, np.nan], [np.nan, 0.5], [0.25, 1.0]])
    assert exact_gram(rows, row_norm_bound=2.0) == exact_gram(read, row_norm_bound=2.0)


def test_wide_floats_are_refused_before_their_values_matter() -> None:
    pandas = pytest.importorskip("pandas")
    for value in ("0.5", "1e400"):
        frame = pandas.DataFrame({"a": np.array([np.longdouble(value)])})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ParameterError, match="a"):
                exact_gram(frame, row_norm_bound=1.0)


def test_decimals_have_one_value_in_every_source(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    random.seed(0)
    digits = [(random.randint(-(10**37), 10**37), random.choice([0, 5, 20, 37])) for _ in range(400)]
    for scale in (0, 5, 20, 37):
        exact = [decimal.Decimal(n).scaleb(-scale, decimal.Context(prec=60)) for n, s in digits if s == scale]
        column = pa.array(exact, pa.decimal128(38, scale))
        table = pa.table({"a": column})
        pq.write_table(table, tmp_path / "a.parquet")
        (tmp_path / "a.csv").write_text("\n".join(map(str, exact)))
        floats = [float(x) for x in exact]
        for data in (table, pl.from_arrow(table), tmp_path / "a.parquet"):
            (blocks,) = zip(*open_table(data, progress=False).read(((0,),)), strict=True)
            assert np.concatenate(blocks)[:, 0].tolist() == floats
        found = exact_gram(tmp_path / "a.csv", row_norm_bound=1.0, progress=False, columns="a")
        assert np.array_equal(found.integers, exact_gram(table, row_norm_bound=1.0, progress=False).integers)


def test_types_of_text_do_not_tell_the_longest_cell() -> None:
    for words in (["a"], ["a", "secret 1234567"]):
        text = np.array([[w] for w in words])
        for array in (text, text.astype("S"), text.astype([("x", text.dtype)])):
            with pytest.raises(ParameterError) as caught:
                exact_gram(array, row_norm_bound=1.0)
            assert not any(digit in str(caught.value).replace("64 bits", "") for digit in "0123456789")
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": ["x"]}, schema={"a": pl.Enum(["x", "secret"])})
    with pytest.raises(ParameterError, match="got text") as caught:
        exact_gram(frame, row_norm_bound=1.0)
    assert "secret" not in str(caught.value)
