"""Column types at the border of pandas, polars and Arrow: each is read or refused by its name, never by a library."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ndis
from ndis.data.memory import target_table
from ndis.data.opening import open_rows, open_table
from ndis.errors import ParameterError
from ndis.learn import PrivateLogisticRegression, check_labels
from ndis.learn._labels import occurring_classes, private_labels
from ndis.learn._rows import private_targets, weighted_rows

NUMBER = ndis.Schema({"a": (0, 10)})

NO_NUMBERS = [
    pl.Series("a", [0], dtype=pl.Int128),  # as Arrow has no such integers
    pl.Series("a", [0], dtype=pl.UInt128),
    pl.Series("a", [0], dtype=pl.Object),
    pl.Series("a", [[1]], dtype=pl.List(pl.Int64)),
    pl.Series("a", [[1]], dtype=pl.List(pl.Int128)),
    pl.Series("a", [{"x": 1}]),
    pl.Series("a", [dt.timedelta(1)]),
    pl.Series("a", [dt.time(1)]),
    pl.Series("a", [b"1"]),
    pl.Series("a", ["1"]),
    pl.Series("a", ["1"], dtype=pl.Categorical),
    pd.Series(["1"], name="a", dtype="string"),
    pd.Series(["1"], name="a", dtype="category"),
    pd.Series([pd.Timedelta(1)], name="a"),
    pd.Series(pd.period_range("2020", periods=1, freq="M"), name="a"),
]
ARROW_NO_NUMBERS = [
    pa.array(["1"]),
    pa.array(["1"], pa.string_view()),
    pa.array([b"1"]),
    pa.array([b"1"], pa.binary_view()),
    pa.array([[1]]),
    pa.array([[1]], pa.list_view(pa.int64())),
    pa.array([{"x": 1}]),
    pa.array([1], pa.duration("s")),
    pa.array([1], pa.time32("s")),
    pa.array([None], pa.month_day_nano_interval()),
    pa.RunEndEncodedArray.from_arrays([1], [1.0]),
    pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]),
]


def _pandas_arrow(array: pa.Array) -> pd.Series:
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array])), name="a")


def _numbers(targets: Any) -> np.ndarray:
    (rows,) = target_table(targets).matrix().arrays()
    return rows[:, 0]


@pytest.mark.parametrize("series", NO_NUMBERS, ids=lambda s: f"{type(s).__module__[:6]} {s.dtype}")
def test_a_type_that_holds_no_numbers_is_refused_by_name(series: pl.Series | pd.Series) -> None:
    frame = series.to_frame()
    with pytest.raises(ParameterError, match=r"column 'a' must hold numbers or booleans, as the schema says; got \w"):
        NUMBER.encode(frame)
    with pytest.raises(ParameterError, match=r"column 'a' must hold numbers or booleans, as the schema says; got \w"):
        NUMBER.encode({"a": series})
    with pytest.raises(ParameterError, match=r"column 'a' must hold real numbers; got \w"):
        ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, row_norm_bound=1.0).release(frame)
    with pytest.raises(ParameterError, match=r"y must hold real numbers; got \w"):
        private_targets(series)
    with pytest.raises(ParameterError, match=r"y must hold real numbers; got \w"):
        private_targets(frame)
    with pytest.raises(ParameterError, match=r"sample_weight must hold real numbers; got \w"):
        weighted_rows(open_rows((np.ones((1, 1)), np.ones(1))), series, bound=1.0, constant=None)


@pytest.mark.parametrize("array", ARROW_NO_NUMBERS, ids=lambda a: str(a.type))
def test_arrow_types_are_refused_by_name_in_a_table_and_in_pandas(array: pa.Array) -> None:
    for data in (pa.table({"a": array}), {"a": array}, _pandas_arrow(array).to_frame()):
        with pytest.raises(ParameterError, match=r"column 'a' must hold numbers or booleans"):
            NUMBER.encode(data)
        if not isinstance(data, dict):
            with pytest.raises(ParameterError, match=r"column 'a' must hold real numbers"):
                ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, row_norm_bound=1.0).release(data)
    for targets in (array, _pandas_arrow(array)):
        with pytest.raises(ParameterError, match=r"y must hold real numbers"):
            private_targets(targets)


def test_decimals_are_the_nearest_floats_in_every_container() -> None:
    cells = [Decimal("0.3"), None, Decimal("2.5")]
    for kind in (pa.decimal32(5, 2), pa.decimal128(20, 2), pa.decimal256(60, 2)):
        array = pa.array(cells, kind)
        for data in (pa.table({"a": array}), _pandas_arrow(array).to_frame(), pl.Series("a", cells).to_frame()):
            source = open_table(data)
            (block,) = next(iter(source.read(((0,),))))
            assert np.array_equal(block.ravel(), [0.3, np.nan, 2.5], equal_nan=True)
        for targets in (array, _pandas_arrow(array)):
            assert np.array_equal(_numbers(private_targets(targets)), [0.3, np.nan, 2.5], equal_nan=True)


def test_text_in_the_type_of_numpy_is_text() -> None:
    cells = np.array(["N", "S"], dtype=np.dtypes.StringDType())
    assert ndis.Schema({"a": ["N", "S"]}).encode({"a": cells}).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    with pytest.raises(ParameterError, match=r"column 'a' must hold numbers or booleans, as the schema says; got text"):
        NUMBER.encode({"a": cells})


def test_text_labels_of_arrow_are_read_as_text() -> None:
    for labels in (pa.array(["no", "yes", None]), pa.array(["no", "yes", None], pa.string_view())):
        for column in (labels, _pandas_arrow(labels)):
            assert occurring_classes(private_labels(column)).tolist() == ["no", "yes"]
    check_labels(pa.array(["no", "yes"]), classes=("no", "yes"))
    with pytest.raises(ParameterError, match="y must hold numbers or text; got type list"):
        PrivateLogisticRegression(row_norm_bound=1.0, classes=(0, 1)).fit(np.ones((1, 1)), pa.array([[1]]))


def test_a_missing_label_does_not_change_the_type_of_the_classes() -> None:
    whole, missing = pl.Series([0, 1, 1]), pl.Series([0, 1, None])
    found = [occurring_classes(private_labels(labels)) for labels in (whole, missing)]
    assert found[0].dtype == found[1].dtype
