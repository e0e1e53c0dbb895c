"""A dask collection holds numbers by its declared types, whatever a partition makes of them."""

from __future__ import annotations

import datetime as dt
import decimal
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from helpers.cases import quick
from ndis import Schema
from ndis.data import open_table
from ndis.data.cells import objects
from ndis.errors import ParameterError
from ndis.gram import exact_gram
from ndis.learn import PrivateLinearRegression
from ndis.models.records import column_of_cells

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
da = pytest.importorskip("dask.array")

BIG = 2**53 + 1
SCHEMAS = Schema({"a": (0, 5)}), Schema({"a": ["0", "1", BIG, "true", "x"]}), Schema({"a": bool})
DECLARED = ("int8", "int64", "uint64", "float32", "float64", "bool")
FRAMES = (*DECLARED, "Int64", "Float64", "boolean", "int64[pyarrow]", "bool[pyarrow]")


@pytest.fixture(autouse=True)
def in_this_process() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def collected(partitions: list[Any], declared: Any) -> Any:
    """Return a collection that declares a type, whatever its partitions have."""
    pieces = [dask.delayed(lambda piece=piece: piece, pure=False)() for piece in partitions]
    if isinstance(partitions[0], np.ndarray):
        strips = [da.from_delayed(p, each.shape, dtype=declared) for p, each in zip(pieces, partitions, strict=True)]
        return da.concatenate(strips)
    meta = pd.DataFrame({"a": pd.Series([], dtype=declared)})
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_delayed(pieces, meta=meta, verify_meta=False)


def rows_of(partitions: list[Any], declared: Any, schema: Schema) -> list[bytes]:
    """Return the rows of partitions, each read as a worker reads it."""
    found = schema.table(collected(partitions[:1], declared)).partitions
    assert found is not None
    pieces = [[part] if isinstance(part, np.ndarray) else part for part in partitions]
    return [row.tobytes() for piece in pieces for row in found.open(piece).matrix().arrays()[0]]


# ---------------------------------------------------------------------- hostile partitions

PLAIN: tuple[Any, ...] = (0, 1, 2.5, -0.0, BIG, BIG - 1, -(2**63), 2**64 - 1, 10**400, 1e308, np.inf, None, np.nan)
PLAIN += (True, False, np.float16(0.5), np.int8(1), np.bool_(True), np.uint64(2**64 - 1), np.float32(0.1))
WIDE: tuple[Any, ...] = (1 + 0j, 2j, np.complex64(1), np.longdouble("1.5"), np.longdouble("1e4000"), pd.NA)
WIDE += (decimal.Decimal("1"), decimal.Decimal("0.1"), decimal.Decimal("sNaN"), np.array(1.0), Fraction(1, 2))
OTHERS: tuple[Any, ...] = ("1", " 2", "x", "true", "", b"1", b"\xff", np.str_("1"), dt.timedelta(1), [1], [[1], [2]])
# NumPy calls a duration equal to its number, and pandas may make one category of both: 7 is no other cell.
OTHERS += ((1, 2), {"a": 1}, np.timedelta64(7, "D"), np.datetime64("2020"), dt.datetime(2020, 1, 1), object())
OTHERS += (dt.date(1, 1, 1), pd.Timestamp("2020", tz="UTC"), pd.NaT, pd.Period("2020"), pd.Interval(0, 1), float)
CELLS = (*PLAIN, *WIDE, *OTHERS)


def inferred(cells: list[Any]) -> Any:
    """As pandas finds it in the cells."""
    return pd.Series(objects(cells)).infer_objects()


PARTITIONS: dict[str, Callable[[list[Any]], Any]] = {
    "objects": lambda cells: pd.Series(objects(cells)),
    "inferred": inferred,
    "constructed": lambda cells: pd.Series(list(cells)),
    "nullable": lambda cells: inferred(cells).convert_dtypes(),
    "Arrow": lambda cells: inferred(cells).convert_dtypes(dtype_backend="pyarrow"),
    "categories": lambda cells: inferred(cells).astype("category"),
    "array of objects": lambda cells: objects(cells)[:, None],
    "array": lambda cells: np.array([[cell] for cell in cells]),
}
NUMERIC = {"array": [cell for cell in CELLS[: -len(OTHERS)] if cell is not pd.NA and cell is not WIDE[9]]}


def made(kind: str, cells: list[Any]) -> Any:
    """Return a partition of these cells, or None where pandas or NumPy make none."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            built = PARTITIONS[kind](cells)
        except (TypeError, ValueError, ArithmeticError, NotImplementedError, pa.ArrowException):
            return None
    return built if isinstance(built, np.ndarray) else built.to_frame("a")


@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize("declared", quick(FRAMES, ["int64", "bool", "Int64"]))
def test_a_cell_is_read_alike_alone_and_among_any_others(kind: str, declared: Any) -> None:
    """A null made floats or objects of integers, a complex cell made numbers complex, and a text made them objects."""
    if "array" in kind and declared not in DECLARED:
        pytest.skip("pandas only")
    cells = NUMERIC.get(kind, list(CELLS))
    single = [(cell, part) for cell in cells if (part := made(kind, [cell])) is not None]
    assert len(single) > len(cells) * 0.7
    rng = np.random.default_rng(0)
    groups = [[0], *([i, 0, 1, i] for i in range(len(single)))]
    groups += [rng.permutation(len(single))[:n].tolist() for n in (3, 5, 9, 20) for _ in range(6)]
    parts = [(group, made(kind, [single[i][0] for i in group])) for group in groups]
    built = [(group, part) for group, part in parts if part is not None]
    assert len(built) > len(groups) * 0.5
    with np.errstate(all="raise"):
        for schema in SCHEMAS:
            alone = rows_of([part for _, part in single], declared, schema)
            found = rows_of([part for _, part in built], declared, schema)
            flat = [(i, group) for group, _ in built for i in group]
            for (i, group), row in zip(flat, found, strict=True):
                assert row == alone[i], (single[i][0], [single[j][0] for j in group])


def test_what_a_cell_of_a_partition_means() -> None:
    """A number or a boolean counts, as its nearest float64; anything else is no number."""
    cells = [*PLAIN, *WIDE, *OTHERS]
    (read,) = open_table(collected([pd.DataFrame({"a": objects(cells)})], "float64")).matrix().arrays()
    values = dict(zip(map(repr, cells), read[:, 0].tolist(), strict=True))
    assert values[repr(BIG)] == 2.0**53
    assert values["True"] == values["(1+0j)"] == values["Decimal('1')"] == 1.0
    assert values["Decimal('0.1')"] == 0.1
    assert values[repr(np.longdouble("1e4000"))] == np.inf
    assert np.isnan([values[repr(cell)] for cell in (*OTHERS, None, 10**400, 2j, Fraction(1, 2))]).all()


@pytest.mark.parametrize("kind", ["U3", "M8[ns]", "m8[s]", "S2", "V4"])
def test_the_type_of_a_partition_decides_about_no_error(kind: str) -> None:
    """Which types a partition has depends on its cells: an error would tell about them."""
    block = np.zeros((3, 1), dtype=kind)
    (read,) = open_table(collected([np.ones((2, 1)), block], "float64")).matrix().arrays()
    assert np.isnan(read).ravel().tolist() == [False] * 2 + [True] * 3
    if kind != "V4":
        frames = [pd.DataFrame({"a": [1.0]}), pd.DataFrame({"a": block[:, 0]})]
        (read,) = open_table(collected(frames, "float64")).matrix().arrays()
        assert np.isnan(read).ravel().tolist() == [False] + [True] * 3


def test_blocks_side_by_side_keep_their_own_types() -> None:
    """dask would join them by their types, which may depend on a cell."""
    left, right = np.array([[BIG - 1], [1]]), objects([True, "x"])[:, None]
    lazy = [da.from_delayed(dask.delayed(lambda b=block: b)(), (2, 1), dtype=float) for block in (left, right)]
    (read,) = open_table(da.concatenate(lazy, axis=1)).matrix().arrays()
    np.testing.assert_array_equal(read, [[BIG - 1, 1.0], [1.0, np.nan]])


# ---------------------------------------------------------------------- declared types

REFUSED = ["object", "string", "str", "category", "datetime64[ns]", "timedelta64[ns]", "complex128", "string[pyarrow]"]


@pytest.mark.parametrize("declared", [*REFUSED, "datetime64[ns, UTC]", "period[D]", pd.ArrowDtype(pa.decimal128(5))])
def test_a_column_of_another_declared_type_is_refused_if_it_is_wanted(declared: Any) -> None:
    """dask and pandas infer the types of text per partition, and no check can see all that do."""
    parts = [pd.DataFrame({"n": [0.5, 2.0], "a": pd.Series([None, None], dtype="object")})]
    meta = pd.DataFrame({"n": pd.Series([], dtype=float), "a": pd.Series([], dtype=declared)})
    with dask.config.set({"dataframe.convert-string": False}):
        data = dd.from_delayed([dask.delayed(part) for part in parts], meta=meta, verify_meta=False)
    words = "must hold .*; got a type of dask that is no number or boolean .give the paths of its files"
    for schema in (*SCHEMAS, Schema({"a": (dt.date(2020, 1, 1), dt.date(2030, 1, 1))})):
        with pytest.raises(ParameterError, match="column 'a' " + words):
            schema.table(data)
    with pytest.raises(ParameterError, match="column 'a' " + words):
        exact_gram(data, row_norm_bound=1.0)
    assert exact_gram(data, row_norm_bound=4.0, columns=["n"]).to_float().round(3).tolist() == [[4.25]]
    assert Schema({"n": (0, 4)}).encode(data).ravel().tolist() == [-0.75, 0.0]


@pytest.mark.parametrize("kind", ["U3", "O", "M8[s]", "c16"])
def test_an_array_of_another_declared_type_is_refused(kind: str) -> None:
    data = da.zeros((2, 1), chunks=1, dtype=kind)
    with pytest.raises(ParameterError, match="no number or boolean"):
        exact_gram(data, row_norm_bound=1.0)


def test_booleans_are_listed_values() -> None:
    frame = pd.DataFrame({"a": [True, False], "ward": [2, 3]})
    schema = Schema({"a": ["true", "false"], "ward": [2, 3]})
    assert schema.encode(dd.from_pandas(frame, npartitions=2)).tolist() == schema.encode(frame).tolist()


def test_a_reader_that_infers_types_is_refused(tmp_path: Path) -> None:
    """It raises where a later cell fits the first ones not: a record would decide between a release and an error."""
    (tmp_path / "rows.csv").write_text("a\n" + "7\n" * 9)
    (tmp_path / "rows.json").write_text('{"a": 1}\n' * 9)
    lines = dd.read_json(str(tmp_path / "rows.json"), lines=True)
    for data in (dd.read_csv(str(tmp_path / "rows.csv")), dd.read_csv(str(tmp_path / "rows.csv"))[["a"]], lines):
        with pytest.raises(ParameterError, match="data must come from no reader of dask that infers types"):
            open_table(data, progress=False)


@pytest.mark.parametrize("block", [np.zeros(3), np.zeros((3, 2)), np.ma.masked_array(np.zeros(3)), 1.0])
def test_a_partition_of_another_shape_is_refused(block: Any) -> None:
    data = da.from_delayed(dask.delayed(lambda: block)(), (3, 1), dtype=float)
    with pytest.raises(ParameterError, match="with the columns it declares in every partition; got a task that failed"):
        exact_gram(data, row_norm_bound=1.0)


@pytest.mark.parametrize("kind", ["f8", "i4", "?", "O"])
def test_a_mask_of_one_partition_decides_about_no_error(kind: str) -> None:
    """netCDF4 gives a masked array where a cell is missing, and a plain one elsewhere."""
    plain = np.ones((3, 1), dtype=kind)
    masked = np.ma.masked_array(plain, mask=[[0], [1], [0]])
    declared = "f8" if kind == "O" else kind
    (read,) = open_table(collected([plain, masked, np.ma.masked_array(plain)], declared)).matrix().arrays()
    assert np.isnan(read).ravel().tolist() == [i == 4 for i in range(9)]
    assert np.nansum(read) == 8.0


def test_what_is_no_table_of_dask_is_refused_by_its_type() -> None:
    """Python's own errors came out: a delayed value has every attribute, and a series has one type."""
    series = dd.from_pandas(pd.DataFrame({"a": [1.0]}), npartitions=1)["a"]
    for data in (series, series.index, dask.delayed(np.eye(2)), da.zeros(3), da.zeros(3).sum()):
        with pytest.raises(ParameterError, match="data must be a dask data frame or a two-dimensional dask array; got"):
            open_table(data)


def test_weights_and_labels_of_dask_are_refused() -> None:
    """NumPy joined their blocks by types: complex numbers of one block decided between a fit and an error."""
    x, blocks = np.full((4, 1), 0.5), (np.ones(2), np.array([1.0, 1j]))
    lazy = [da.from_delayed(dask.delayed(lambda b=block: b)(), (2,), dtype=float) for block in blocks]
    model = PrivateLinearRegression(row_norm_bound=1.0, target_bound=1.0, weight_bound=1.0)
    for weights in (da.concatenate(lazy), da.ones(4), dask.delayed(np.ones(4))):
        with pytest.raises(ParameterError, match="sample_weight must be in memory for fit; got a dask collection"):
            model.fit(x, x[:, 0], sample_weight=weights)
        with pytest.raises(ParameterError, match="y must be a list, an array or a series"):
            column_of_cells(weights)
