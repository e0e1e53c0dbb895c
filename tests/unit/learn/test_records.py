"""How estimators read rows and targets: by type and shape, and no cell changes how another is read."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from helpers.sketches import PLAIN
from ndis.data.memory import is_vector
from ndis.errors import ParameterError
from ndis.gram import exact_gram
from ndis.learn import PrivateCovariance, PrivateRidge
from ndis.learn._estimator import private_rows, private_targets


class TestTargetTypes:
    def text(self):
        import pandas as pd
        import polars as pl

        words = ["1", "2", "x"]
        return {
            "unicode": np.array(words),
            "bytes": np.array(words, dtype="S"),
            "string": pd.Series(words, dtype="string"),
            "object": pd.Series([1, 2, "x"], dtype=object),
            "frame": pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": words}),
            "polars": pl.Series(words),
        }

    @pytest.mark.parametrize("kind", ["unicode", "bytes", "string", "object", "frame", "polars"])
    def test_text_is_refused_by_its_type(self, kind):
        message = r"^y must hold real numbers; got (dtype .*|text|bytes); convert it first"
        with pytest.raises(ParameterError, match=message):
            PrivateRidge(row_norm_bound=1.0, target_bound=1.0).fit(np.zeros((3, 1)), self.text()[kind])

    def test_numbers_lists_and_objects_are_read(self):
        import pandas as pd
        import polars as pl

        for y in (
            [1, "x", None],
            np.array([1, "x", None], dtype=object),
            pd.Series([1, None, 3], dtype="Int64"),
            pd.DataFrame({"a": [1.0, 2.0, 3.0]}),
            pl.Series([True, False, True]),
            np.array([True, False, True]),
        ):
            model = PrivateRidge(row_norm_bound=1.0, target_bound=1.0, sketch_size=5).fit(np.zeros((3, 1)), y)
            assert np.isfinite(model.coef_).all()


def test_no_cell_changes_how_another_is_read():
    rows = [[np.timedelta64(1, "s"), 1.0], ["0.5", 0.25], [b"0.5", 0.0]]
    alone = exact_gram(private_rows(BaseEstimator(), rows), row_norm_bound=2.0)
    for cell in ("x", None, 10**400, "1_0", np.datetime64("2020")):
        beside = exact_gram(private_rows(BaseEstimator(), [*rows, [0.0, cell]]), row_norm_bound=2.0)
        assert np.array_equal(alone.integers, beside.integers)
        PLAIN.release([*rows, [0.0, cell]])


@pytest.mark.parametrize("item", [[3.0], 3.0, None, "ab", [1.0, 2.0, 3.0], {"a": 1.0}])
def test_an_item_of_another_form_is_a_missing_record(item):
    """The first item says the form of a list. No other item decides between a release and an error."""
    rows = [[1.0, 0.5], [0.5, 0.25]]
    alone = exact_gram(private_rows(BaseEstimator(), rows), row_norm_bound=2.0)
    beside = exact_gram(private_rows(BaseEstimator(), [*rows, item]), row_norm_bound=2.0)
    assert np.array_equal(alone.integers, beside.integers)
    PLAIN.release([*rows, item])
    private_targets([*rows, item])


def test_a_target_of_another_form_is_a_missing_cell():
    assert not is_vector(private_targets([[1.0]] * 3))
    for given in ([[1.0]] * 3 + [5.0], [1.0] * 3 + [[5.0]]):
        PrivateRidge(row_norm_bound=1.0, target_bound=1.0, sketch_size=5).fit(np.zeros((4, 1)), given)


@pytest.mark.parametrize("data", [[1.0, [2.0]], [None, [1.0]]])
def test_a_list_that_begins_with_no_row_is_refused(data):
    with pytest.raises(ParameterError, match="data must be a list of rows"):
        PLAIN.release(data)


def test_data_of_the_wrong_kind():
    bounds = {"row_norm_bound": 1.0, "target_bound": 1.0}
    with pytest.raises(ParameterError, match="data must show its columns; got an empty list"):
        PLAIN.release([])
    with pytest.raises(ParameterError, match="X must be in memory for fit; got a path"):
        PrivateCovariance(row_norm_bound=1.0).fit("records.csv")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "note": [1, "secret"]})
    with pytest.raises(ParameterError, match="column 'note' must hold real numbers; got dtype object"):
        PrivateRidge(**bounds).fit(frame, [1, 2])
    dask = pytest.importorskip("dask.array")
    with pytest.raises(ParameterError, match="X must be in memory for fit; got a dask collection"):
        PrivateRidge(**bounds).fit(dask.ones((4, 2)), np.ones(4))


def test_an_empty_list_says_how_to_show_its_columns() -> None:
    with pytest.raises(ParameterError, match=r"X must show its columns; .*np.empty\(\(0, columns\)\)"):
        private_rows(BaseEstimator(), [])
    assert private_rows(BaseEstimator(), np.empty((0, 3))).shape == (0, 3)


def test_fit_data_takes_targets_where_the_estimator_has_them():
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, size=(40, 4))
    model = PrivateRidge(row_norm_bound=1.0, target_bound=1.0, sketch_size=10)
    assert model.fit_data(rows, target=[2, 3]).coef_.shape == (2, 2)
    assert model.fit_data(rows, target=3).coef_.shape == (3,)
    with pytest.raises(ParameterError, match="target must be left out; got 3; the estimator learns from rows only"):
        PrivateCovariance(row_norm_bound=1.0).fit_data(rows, target=3)
