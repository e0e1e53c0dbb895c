"""Records with hostile codes, masks or code of their own: none of them decides how another one is read."""

from __future__ import annotations

import datetime as dt
import warnings
from collections import deque
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import ndis
from ndis import Schema
from ndis.data import cells, open_table
from ndis.data.cells import days, number, objects, text_of
from ndis.errors import BudgetError, ParameterError
from ndis.learn._labels import label_codes
from ndis.learn._score import split_records
from ndis.models.records import column_of_cells


def test_codes_beyond_signed_integers_are_missing() -> None:
    codes = pa.array(np.array([0, 2**63 + 1], dtype=np.uint64))
    table = pa.table({"c": pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b"]), safe=False)})
    missing = Schema({"c": ["a", "b"]}).encode({"c": ["a", None]})
    assert np.array_equal(Schema({"c": ["a", "b"]}).encode(table), missing, equal_nan=True)


@pytest.mark.parametrize("values", [["a", "b"], [4, 5]])
def test_labels_with_a_foreign_code_are_missing(values: list[Any]) -> None:
    codes = pa.array([0, 5, -7, 2**31 - 1], type=pa.int32())
    labels = column_of_cells(pa.DictionaryArray.from_arrays(codes, pa.array(values), safe=False)).tolist()
    assert labels[0] == values[0]
    assert all(label is None or label != label for label in labels[1:])


def test_narrow_floats_do_not_round_the_words() -> None:
    schema = Schema({"c": [70000, 16777217]})
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for kind in (np.float16, np.float32):
            read = schema.encode(np.array([[1.0], [16384.0], [16777216.0 if kind is np.float32 else 1.0]], dtype=kind))
            assert (read[0] == read[1]).all()
            assert (read[0] == read[2]).all()


def test_masked_arrays_are_refused_everywhere() -> None:
    from dask import array

    from ndis.learn import PrivateCovariance

    masked = np.ma.array([[0.5], [0.25]], mask=[[0], [1]])
    lazy = array.ma.masked_array(array.from_array(masked.data, chunks=1), mask=masked.mask)
    calls = [lambda: PrivateCovariance(epsilon=1.0, row_norm_bound=1.0).fit(masked), lambda: open_table(lazy)]
    for call in (*calls, lambda: column_of_cells(masked[:, 0])):
        with pytest.raises(ParameterError, match="a masked array"):
            call()


def test_cells_with_code_of_their_own_run_none() -> None:
    class Single(np.float32):
        def __float__(self) -> float:
            raise RuntimeError("secret")

    class Moment(dt.datetime):
        hour = property(lambda self: 1 / 0)

    assert np.isnan(number(Single(3)))
    assert text_of(Single(3)) is None
    assert days(objects([Moment(1970, 1, 2, 12), pd.NaT, pd.Timestamp("1970-01-02", tz="UTC")])).tolist()[::2] == [
        1.5,
        1.0,
    ]


@pytest.mark.parametrize("kind", [pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256])
@pytest.mark.parametrize("scale", [-5000, -77, -39, 0, 9, 39, 77, 5000])
def test_a_decimal_that_arrow_cannot_write_is_refused_by_its_type(kind: Any, scale: int) -> None:
    """A cell raised, and a column of nulls did not: Arrow writes no decimal with such a scale."""
    said = set()
    for declared in (kind(9, scale), pa.dictionary(pa.int8(), kind(9, scale))):
        width = declared.bit_width if not pa.types.is_dictionary(declared) else declared.value_type.bit_width
        for count in (0, 1):
            cell = pa.Array.from_buffers(
                kind(9, scale), count, [None, pa.py_buffer((7).to_bytes(width // 8, "little"))]
            )
            if pa.types.is_dictionary(declared):
                cell = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int8()), cell)
            try:
                said.add(open_table(pa.table({"a": cell})).matrix().arrays()[0].shape[1])
            except ParameterError as error:
                said.add(str(error))
    assert len(said) == 1
    assert (said == {1}) == (abs(scale) <= {32: 9, 64: 18, 128: 38, 256: 76}[width])


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_number_that_is_no_character_concerns_its_own_cell_only(order: str) -> None:
    """NumPy raises where a text holds one."""
    texts = np.array([78, 0x110000, 0xFFFFFFFF, 78], dtype=f"{order}u4").view(f"{order}U1")
    schema = Schema({"a": ["N"]})
    for data in (texts[:, None], {"a": texts}):
        assert np.isnan(schema.encode(data)).ravel().tolist()[1:3] == [True, True]
    assert schema.encode(texts[:, None]).ravel().tolist()[::3] == [1.0, 1.0]
    assert column_of_cells(texts).tolist() == ["N", None, None, "N"]
    ndis.learn.PrivateCovariance(epsilon=1.0, row_norm_bound=1.0).fit(texts[:, None])  # four missing records


def test_labels_have_a_declared_type_or_none() -> None:
    """NumPy chose one type for the labels of a sequence: a text turned all numbers into texts."""
    for labels in (deque([1, "x"]), range(2), {1: 2}.values()):
        with pytest.raises(ParameterError, match="y must be a list, an array or a series"):
            column_of_cells(labels)


def test_dates_in_a_column_of_objects_are_those_of_a_column_of_dates() -> None:
    """A partition of nothing but dates has their type, and a text beside them makes it one of objects."""
    fine = pd.Series(np.array(["2021-05-03T12:30:00.000005123", "NaT", "2021-05-03"], dtype="M8[ns]"))
    far = pd.Series(np.array(["20000-01-01", "NaT", "2021-05-03"], dtype="M8[s]"))
    for dates in (fine, far):
        turned = dates.astype(object)
        assert days(dates.to_numpy()).tobytes() == days(turned.to_numpy()).tobytes()
        for read in (number, text_of):
            assert [str(read(cell)) for cell in dates.to_numpy()] == [str(read(cell)) for cell in turned]


def test_views_of_one_long_text_are_not_copied_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of few bytes asked for gigabytes: a limit of memory would decide about its records."""
    monkeypatch.setattr(cells, "_UNPACKED", 1 << 18)
    size, count = 1 << 16, 1000
    texts = pa.array(["x" * size, None, "N"], pa.string_view())
    views = np.frombuffer(texts.buffers()[1], dtype="V16")[np.arange(count) % 2 * 2]
    column = pa.Array.from_buffers(pa.string_view(), count, [None, pa.py_buffer(views), *texts.buffers()[2:]])
    before, largest, seen = pa.total_allocated_bytes(), 0, 0
    for (piece,) in open_table(pa.table({"a": column[1:]})).cells(((0, False),)):
        largest, seen = max(largest, pa.total_allocated_bytes() - before), seen + len(piece)
    assert seen == count - 1
    assert largest < 4 << 18
    schema = Schema({"a": ["N"]})
    for data in (pa.table({"a": column}), pl.DataFrame({"a": pl.from_arrow(column)})):
        assert schema.encode(data).sum() == count / 2
    labels = column_of_cells(column)
    assert len({id(label) for label in labels}) == 2


def test_scalars_of_numpy_and_complex_cells_raise_nothing() -> None:
    """A record of NumPy raised if a text in it was none; a complex cell made numbers beside it complex."""
    record = np.zeros(1, [("a", "U1")])
    record["a"].view("u4")[:] = 0x110000
    odd = [record[0], object.__new__(Fraction), np.datetime64("2020"), np.timedelta64(3, "D"), 1 + 2j]
    assert np.isnan([number(cell) for cell in odd]).all()
    assert [text_of(cell) for cell in odd] == [None] * 5
    assert np.isnan(label_codes(objects(odd), np.array([3, 18262]))).all()
    for read in (number, text_of):
        assert {read(kind(3)) for kind in (float, complex, np.complex64, np.float32)} == {read(3.0)}
    assert cells.numbers(np.array([3, 1 + 2j])).tolist()[0] == 3.0


def test_no_cell_is_read_before_the_budget_covers_the_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit in memory encoded the table before it reserved."""
    ndis.Ledger.create(tmp_path / "x.db", epsilon=0.01, delta=1e-9, kind="shifts")
    schema = Schema({"a": (0, 1)}, target=("y", 0, 1))
    table = {"a": objects([0.5, "x"]), "y": [0.25, 0.5]}
    asked: list[Any] = []
    monkeypatch.setattr(cells, "number", lambda cell: asked.append(cell) or 0.0)
    models = [ndis.learn.PrivateLinearRegression(schema=schema, rounds=2), ndis.learn.PrivateCovariance(schema=schema)]
    for model in models:
        with pytest.raises(BudgetError):
            model.set_params(ledger=tmp_path / "x.db").fit(table)
        assert asked == []
        model.set_params(ledger=None).fit(table)
        assert "x" in asked
        asked.clear()


def test_records_are_not_split_by_unchecked_indices_nor_as_a_pair() -> None:
    for texts in ([], ["x"]):  # pyarrow raised where there is a record
        views = pa.array(texts, pa.string_view())
        frame = pd.DataFrame({"a": pd.arrays.ArrowExtensionArray(views)})
        nested = pa.array([[text] for text in texts], pa.list_(pa.string_view()))
        runs = pa.RunEndEncodedArray.from_arrays(np.arange(1, len(texts) + 1), pa.array(texts, pa.string()))
        for data in (pa.table({"a": views}), {"a": views}, frame, frame["a"], pa.table({"a": nested}), {"a": runs}):
            with pytest.raises(ParameterError, match="got views; cast them to string first"):
                split_records(data)
    for data in ((np.eye(3), np.ones(3)), scipy.sparse.csc_array(np.eye(3))):
        with pytest.raises(ParameterError, match="data must be rows"):
            split_records(data, 0.5)


def test_a_frame_is_split_without_joining_chunks_of_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond 2 GiB of text pandas raised, where it takes rows of a frame: the length of one text decided."""
    text = pd.arrays.ArrowExtensionArray(pa.chunked_array([["a"] * 20, ["b"] * 20], pa.string()))
    frame = pd.DataFrame({"type": ["string_view"] * 40, "text": text, "n": pd.array([1, None] * 20, dtype="Int64")})
    frame = frame.set_axis(pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("a", 2)]), axis=1).set_axis([0] * 40)

    def joined(*_: Any, **how: Any) -> Any:
        raise pa.ArrowInvalid("offset overflow while concatenating arrays")

    monkeypatch.setattr(pd.arrays.ArrowExtensionArray, "take", joined)
    for part in split_records(frame, 0.5):
        assert part.dtypes.tolist() == frame.dtypes.tolist()
        assert part.columns.equals(frame.columns)
        assert (part.iloc[:, 0] == "string_view").all()
    assert sum(map(len, split_records(frame, 0.5))) == 40
    assert len(split_records(pd.DataFrame(index=range(9)), 0.5)[0]) < 10
