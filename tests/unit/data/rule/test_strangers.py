"""Containers, columns and types of others are refused by their type, and nothing of theirs is asked first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ndis
from ndis import Schema
from ndis.data import open_table
from ndis.errors import ParameterError
from ndis.learn import PrivateCovariance, PrivateGaussianProcess, PrivateLinearRegression, PrivateLogisticRegression

X, Y = np.full((4, 1), 0.5), np.full(4, 0.5)
SCHEMA = Schema({"a": (0, 1)}, target=("y", 0, 1))
LINEAR = {"row_norm_bound": 1.0, "target_bound": 1.0, "weight_bound": 1.0}


class Lazy:
    """Says that it is an array, as xarray does over dask; NumPy would join its chunks by their types."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.ndim, self.dtype = shape, len(shape), np.dtype(float)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a cell was computed")


MATRIX, COLUMN = Lazy((4, 1)), Lazy((4,))
CALLS = {
    "table": lambda: open_table(MATRIX),
    "column": lambda: SCHEMA.encode({"a": COLUMN}),
    "pair": lambda: open_table((X, COLUMN)),
    "rows": lambda: PrivateCovariance(row_norm_bound=1.0).fit(MATRIX),
    "targets": lambda: PrivateLinearRegression(**LINEAR).fit(X, COLUMN),
    "weights": lambda: PrivateLinearRegression(**LINEAR).fit(X, Y, sample_weight=COLUMN),
    "labels": lambda: PrivateLogisticRegression(row_norm_bound=1.0, classes=(0, 1)).fit(X, COLUMN),
    "schema": lambda: PrivateGaussianProcess(schema=SCHEMA, max_records=9).fit({"a": Y}, COLUMN),
    "description": lambda: ndis.describe({"a": Y, "y": COLUMN}, schema=SCHEMA, epsilon=1.0, delta=1e-6),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_array_of_others_is_refused_before_a_cell_is_read(call: Any) -> None:
    """NumPy computed it, and one chunk of another type changed how every other record was read."""
    with pytest.raises(ParameterError, match=r"must (be|have) .*; got Lazy"):
        call()


@pytest.mark.parametrize("count", [3, 5])
def test_the_width_is_that_of_the_columns_whatever_their_names_are(count: int) -> None:
    """scikit-learn took the length of the column named 0 for the width: the exact number of records was public."""
    for names in ((0, 1), ("a", "b")):
        model = PrivateCovariance(row_norm_bound=1.0).fit(dict.fromkeys(names, [0.5] * count))
        assert (model.n_features_in_, model.covariance_.shape) == (2, (2, 2))


def test_no_item_of_a_list_is_asked_whether_it_is_a_path() -> None:
    """`os.PathLike` asks the type of an item, which may have a type with code of its own."""

    def trap(*_: Any) -> Any:
        raise RuntimeError("secret")

    hooks = ("__hash__", "__eq__", "__getattribute__", "__subclasscheck__", "__instancecheck__")
    item = object.__new__(type("Type", (type,), dict.fromkeys(hooks, trap))("Item", (), {}))
    for items in ([item], [1], [item, "x"], [[item]]):
        with pytest.raises(ParameterError, match="got another list"):
            open_table(items)
    assert np.isnan(Schema({"a": (0, 1)}).encode({"a": [item]})).all()


def test_a_category_that_no_bytes_can_write_is_refused_by_the_schema() -> None:
    """Arrow could not look it up: a table without records was encoded, and one record raised an error."""
    for value in ("\ud800", "a\udc7f", "\udd00"):
        with pytest.raises(ParameterError, match="values of column 'a' must be texts"):
            Schema({"a": [value, "x"]})
    kept = Schema({"a": ["\udce9", "é"]})  # a byte that is no UTF-8 reads as the first one
    texts = pa.array([b"\xe9", "é".encode()]).view(pa.string())
    assert kept.encode(pa.table({"a": texts})).tolist() == [[1, 0], [0, 1]]
