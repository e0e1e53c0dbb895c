"""The rule of `ndis.data.table`: the rows of n records are the rows of the n records read alone.

Every record is moved to the front, to the end and across every border of blocks, files and partitions, in every source
and in every declared type.
"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse

import ndis.data.csv
import ndis.data.dask
import ndis.data.files
import ndis.data.sparse
import ndis.data.table
from helpers.cases import quick
from ndis import Schema
from ndis.data import Table, open_table
from ndis.data.opening import open_for
from ndis.data.schema import Date
from ndis.describing.release import Contents, Releases
from ndis.learn._saved import LinearModel
from ndis.learn._score import score_privately
from ndis.mechanisms.gaussian import GaussianMechanism
from ndis.mechanisms.rounds import GaussianRounds

BIG = 2**53 + 1
NAMES = ("size", "code", "member", "region", "since")
SCHEMA = Schema(
    {
        "size": (0, 10),
        "code": [BIG, 7],
        "member": bool,
        "region": ["N", "S", "3"],
        "since": Date(dt.date(2020, 1, 1), dt.date(2030, 1, 1)),
    }
)
PLAIN = Schema({name: SCHEMA.columns[name] for name in NAMES[:3]})  # dask holds numbers only
DAY = dt.datetime(2021, 5, 3, 12, 30)
RECORDS: tuple[tuple[Any, ...], ...] = (
    (1.5, BIG, True, "N", DAY),
    (None, 7, False, " S", DAY),
    (1e308, BIG - 1, None, "S", None),
    (5e-324, None, True, "3.0", DAY),
    (-0.0, BIG, False, "x" * 3000, dt.datetime(1, 1, 1)),
    (math.inf, -7, True, None, DAY),
    (3.0, 7, True, 'a "quoted", text', DAY),
    (9.0, BIG, None, "NA", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),
)
Make = Callable[[list[tuple[Any, ...]], Path], tuple[Any, dict[str, Any]]]


def columns(records: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {name: [record[i] for record in records] for i, name in enumerate(NAMES)}


def arrow(records: list[tuple[Any, ...]], *, text: Any = None) -> pa.Table:
    types = {
        "size": pa.float64(),
        "code": pa.int64(),
        "member": pa.bool_(),
        "region": pa.string() if text is None else text,
        "since": pa.timestamp("us"),
    }
    return pa.table({name: pa.array(cells, types[name]) for name, cells in columns(records).items()})


def pandas(records: list[tuple[Any, ...]], **types: Any) -> pd.DataFrame:
    declared = {"size": "Float64", "code": "Int64", "member": "boolean", "region": "str", "since": "datetime64[us]"}
    return pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns(records).items()}).astype(
        declared | types
    )


def polars(records: list[tuple[Any, ...]]) -> pl.DataFrame:
    types = {
        "size": pl.Float64,
        "code": pl.Int64,
        "member": pl.Boolean,
        "region": pl.String,
        "since": pl.Datetime("us"),
    }
    return pl.DataFrame({n: pl.Series(n, cells, dtype=types[n]) for n, cells in columns(records).items()})


def csv_line(record: tuple[Any, ...]) -> str:
    cells = ["" if c is None else c.isoformat() if isinstance(c, dt.datetime) else str(c) for c in record]
    return ",".join('"' + c.replace('"', '""') + '"' if '"' in c or "," in c else c for c in cells)


def csv(
    records: list[tuple[Any, ...]], place: Path, *, head: bool = False, end: str = "\n", mark: bool = False
) -> tuple[Any, dict[str, Any]]:
    lines = [",".join(NAMES)] * head + [("\ufeff" if mark else "") + csv_line(record) for record in records]
    (place / "t.csv").write_bytes(end.join(lines).encode())
    return place / "t.csv", {"header": True} if head else {"columns": NAMES}


def parquet(table: pa.Table, place: Path, **how: Any) -> tuple[Any, dict[str, Any]]:
    pq.write_table(table, place / "t.parquet", **how)
    return place / "t.parquet", {}


def parts(records: list[tuple[Any, ...]], place: Path, size: int) -> tuple[Any, dict[str, Any]]:
    for old in place.glob("*.parquet"):
        old.unlink()
    for i in range(0, max(len(records), 1), size):
        pq.write_table(arrow(records[i : i + size]), place / f"{i:03d}.parquet")
    return place, {}


def dask_of(records: list[tuple[Any, ...]], size: int) -> Any:
    """Every partition has the types that pandas finds in its cells."""
    dask, dd = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
    declared = pd.DataFrame(columns(records[:0])).astype({"size": float, "code": "int64", "member": bool})
    cuts = range(0, max(len(records), 1), size)
    pieces = [dask.delayed(pd.DataFrame(columns(records[a : a + size]))) for a in cuts]
    return dd.from_delayed(pieces, meta=declared, verify_meta=False), {}


def feather(records: list[tuple[Any, ...]], place: Path) -> tuple[Any, dict[str, Any]]:
    pa.feather.write_feather(arrow(records), place / "t.arrow", chunksize=3, compression="uncompressed")
    return place / "t.arrow", {}


CATEGORY = pa.dictionary(pa.int8(), pa.string())
SOURCES: dict[str, Make] = {
    "array of objects": lambda r, _: (np.array([*r, (None,) * 5], dtype=object)[:-1], {}),
    "mapping of lists": lambda r, _: (columns(r), {}),
    "mapping of series": lambda r, _: ({n: pandas(r)[n] for n in NAMES}, {}),
    "pandas, nullable": lambda r, _: (pandas(r), {}),
    "pandas, objects": lambda r, _: (pandas(r, **dict.fromkeys(NAMES[:4], object)), {}),
    "pandas, Arrow": lambda r, _: (arrow(r).to_pandas(types_mapper=pd.ArrowDtype), {}),
    "pandas, categories": lambda r, _: (pandas(r, region="category", code="category"), {}),
    "polars": lambda r, _: (polars(r), {}),
    "Arrow": lambda r, _: (arrow(r), {}),
    "Arrow, chunks": lambda r, _: (pa.concat_tables([arrow([x]) for x in r]) if r else arrow(r), {}),
    "Arrow, dictionary": lambda r, _: (arrow(r, text=CATEGORY), {}),
    "Arrow, views": lambda r, _: (arrow(r, text=pa.string_view()), {}),
    "CSV": csv,
    "CSV, header": functools.partial(csv, head=True),
    "CSV, CRLF and marks": functools.partial(csv, end="\r\n", mark=True),
    "Parquet": lambda r, p: parquet(arrow(r), p, row_group_size=3),
    "Parquet, dictionary": lambda r, p: parquet(arrow(r, text=CATEGORY), p),
    "Parquet, no dictionary": lambda r, p: parquet(arrow(r), p, use_dictionary=False),
    "Parquet, folder": lambda r, p: parts(r, p, 3),
    "Arrow file": feather,
    "dask": lambda r, _: dask_of(r, 3),
    "dask, one record each": lambda r, _: dask_of(r, 1),
}


@pytest.fixture(params=[1, 3, 1000])
def step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Rows of a block, and bytes of a read of a CSV file."""
    for module in (ndis.data.sparse, ndis.data.files, ndis.data.table):
        monkeypatch.setattr(module, "rows_per_read", lambda width: request.param)
    blocks = functools.partial(ndis.data.csv.line_blocks, block=5 * request.param)
    monkeypatch.setattr(ndis.data.files, "line_blocks", blocks)
    return int(request.param)


def orders(count: int) -> Iterator[list[int]]:
    """Every record first, and every record last."""
    for i in range(count):
        others = [j for j in range(count) if j != i]
        yield [i, *others]
        yield [*others, i]


def rows(data: Any, how: dict[str, Any], schema: Schema = SCHEMA) -> list[bytes]:
    (found,) = open_table(data, **how, progress=False).encoded(schema).matrix().arrays()
    return [row.tobytes() for row in found]


@pytest.mark.parametrize("source", SOURCES)
def test_the_rows_of_records_are_the_rows_of_each(source: str, step: int, tmp_path: Path) -> None:
    if "dask" in source:
        pytest.importorskip("dask").config.set(scheduler="synchronous")
    make, schema = SOURCES[source], PLAIN if "dask" in source else SCHEMA
    alone = [rows(*make([record], tmp_path), schema) for record in RECORDS]
    assert all(len(one) == 1 for one in alone)
    few = 5 if step == 1 or "dask" in source else 1
    for order in itertools.islice(orders(len(RECORDS)), 0, None, few):
        found = rows(*make([RECORDS[i] for i in order], tmp_path), schema)
        assert found == [alone[i][0] for i in order]


def test_all_sources_give_the_same_rows(tmp_path: Path) -> None:
    """But for whole numbers beyond 2⁵³, which cells of CSV and of typed columns keep, and dates without a zone."""
    expected = rows(*SOURCES["Arrow"](list(RECORDS), tmp_path))
    for source, make in SOURCES.items():
        if "dask" not in source:
            place = tmp_path / source
            place.mkdir()
            assert rows(*make(list(RECORDS), place)) == expected, source


def test_a_tuple_of_rows_is_no_pair() -> None:
    with pytest.raises(ndis.errors.ParameterError, match="pair"):
        open_table(tuple(RECORDS))


# ---------------------------------------------------------------------- the sums of releases

CONTENTS = {SCHEMA: Contents.of(SCHEMA, [("region", "member"), "code"], True, True, None)}
CONTENTS[PLAIN] = Contents.of(PLAIN, ["member", "code"], True, True, None)


def with_target(schema: Schema, name: str) -> Schema:
    features = {other: column for other, column in schema.columns.items() if other != name}
    return Schema(features, target=(name, schema.columns[name]))


def opened(data: Any, how: dict[str, Any], schema: Schema) -> Table:
    return open_for(schema, data, **how, progress=False)


def described(table: Table, schema: Schema, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The exact sums that `describe` releases, if every release came out as zeros."""
    sums: list[Any] = []
    budget = CONTENTS[schema].budget(1.0, 1e-6, "add-remove")

    def release_count(_: Any, index: int, counts: Any, **how: Any) -> Any:
        sums.append(counts.to_fractions())
        return SimpleNamespace(values=np.zeros(counts.shape), private=True)

    def release_matrix(_: Any, index: int, gram: Any, **how: Any) -> Any:
        sums.append(gram.integers.astype(object))
        return SimpleNamespace(values=np.zeros(gram.integers.shape), private=True)

    monkeypatch.setattr(GaussianRounds, "release_count", release_count)
    monkeypatch.setattr(GaussianRounds, "release_matrix", release_matrix)
    Releases(CONTENTS[schema], table, *budget, None).receipt()
    assert len(sums) == len(budget[1]) + 1
    return sums


def scored(data: Any, how: dict[str, Any], schema: Schema, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The exact sums that a score releases."""
    sums: list[Any] = []

    def release(mechanism: GaussianMechanism, values: Any, **how: Any) -> Any:
        sums.append(values.to_fractions())
        return drawn(mechanism, values, **how)

    drawn = GaussianMechanism.release
    slopes = {name: 0.5 + i for i, name in enumerate(schema.feature_names)}
    with monkeypatch.context() as patch:
        patch.setattr(GaussianMechanism, "release", release)
        model = LinearModel(slopes, -0.25, schema, {})
        score_privately(model, opened(data, how, schema), epsilon=1.0, delta=1e-6)
    return sums


FEW = ["mapping of lists", "pandas, categories", "Arrow, chunks", "CSV", "Parquet", "dask"]


@pytest.mark.parametrize("source", quick(SOURCES, FEW))
def test_the_sums_of_releases_are_those_of_each_record(
    source: str, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "dask" in source:
        pytest.importorskip("dask").config.set(scheduler="synchronous")
    make, schema = SOURCES[source], PLAIN if "dask" in source else SCHEMA

    def sums(records: list[tuple[Any, ...]]) -> list[Any]:
        data, how = make(records, tmp_path)
        found = described(opened(data, how, schema), schema, monkeypatch)
        for target in ("size", "member"):
            found += scored(data, how, with_target(schema, target), monkeypatch)
        return found

    alone = [sums([record]) for record in RECORDS]
    assert any(total.any() for total in alone[0])
    for first in (0, 5):
        whole = sums([*RECORDS[first:], *RECORDS[:first]])
        assert len(whole) == len(alone[0])
        assert all((total == sum(one)).all() for total, *one in zip(whole, *alone, strict=True))


NUMBERS = np.array([[0.5, 1e308], [np.nan, 1.0], [np.inf, 0.0], [5e-324, -0.0], [0.25, -3.0], [1.0, 2.0]])
MATRICES: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "array": lambda x, _: x,
    "columns first": lambda x, _: np.asfortranarray(x),
    "float32": lambda x, _: x.astype(np.float32),
    "CSR": lambda x, _: scipy.sparse.csr_array(x),
    "pair": lambda x, _: (x[:, :1], x[:, 1]),
    "pair, list of targets": lambda x, _: (x[:, :1], x[:, 1].tolist()),
    "pair, frame and series": lambda x, _: (pd.DataFrame({"a": x[:, 0]}), pd.Series(x[:, 1], name="b")),
    "NPY": lambda x, p: (np.save(p / "x.npy", x), p / "x.npy")[1],
    "NPY, columns first": lambda x, p: (np.save(p / "x.npy", np.asfortranarray(x)), p / "x.npy")[1],
    "dask array": lambda x, _: pytest.importorskip("dask.array").from_array(x, chunks=(2, 1)),
    "tensor": lambda x, _: pytest.importorskip("torch").from_numpy(x),
    "CUDA tensor": lambda x, _: cuda(x),
}


def cuda(x: np.ndarray) -> Any:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch.from_numpy(x).cuda()


@pytest.mark.parametrize("source", MATRICES)
@pytest.mark.filterwarnings("ignore:overflow")  # of float32, in this test
def test_matrices_too(source: str, step: int, tmp_path: Path) -> None:
    make = MATRICES[source]

    def found(which: list[int]) -> list[bytes]:
        parts = open_table(make(NUMBERS[which], tmp_path), progress=False).matrix().arrays()
        return [row.tobytes() for row in np.concatenate(parts, axis=1)]

    alone = [found([i])[0] for i in range(len(NUMBERS))]
    for order in orders(len(NUMBERS)):
        assert found(order) == [alone[i] for i in order]
