"""How estimators read rows and targets: by type and shape, and no cell changes how another is read."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from helpers.sketches import PLAIN
from ndis.data.memory import is_vector
from ndis.errors import ParameterError
from ndis.gram import exact_gram
from ndis.learn import PrivateCovariance, PrivateRidge
from ndis.learn._rows import private_rows, private_targets


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

    def read(rows):
        return private_rows(BaseEstimator(), np.array([*rows, [object()] * 2], dtype=object)[:-1])

    alone = exact_gram(read(rows), row_norm_bound=2.0)
    for cell in ("x", None, 10**400, "1_0", np.datetime64("2020")):
        beside = exact_gram(read([*rows, [0.0, cell]]), row_norm_bound=2.0)
        assert np.array_equal(alone.integers, beside.integers)
        PLAIN.release(read([*rows, [0.0, cell]]))


def test_a_target_of_another_form_is_a_missing_cell():
    """A list of targets is one column, and an item that holds one number is that number."""
    x, given = np.full((4, 1), 0.5), [1.0, [0.5], [5.0, 6.0], None]
    assert is_vector(private_targets(given))
    read = exact_gram((x, np.array([1.0, 0.5, np.nan, np.nan])), row_norm_bound=1.0, target_bound=1.0)
    for order in itertools.permutations(range(4)):
        found = exact_gram((x, private_targets([given[i] for i in order])), row_norm_bound=1.0, target_bound=1.0)
        assert found == read
        PrivateRidge(row_norm_bound=1.0, target_bound=1.0, sketch_size=5).fit(x, [given[i] for i in order])


def test_data_of_the_wrong_kind():
    bounds = {"row_norm_bound": 1.0, "target_bound": 1.0}
    with pytest.raises(ParameterError, match=r"data must be an array, a frame or a file.*got another list"):
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


def test_fit_data_takes_targets_where_the_estimator_has_them():
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, size=(40, 4))
    model = PrivateRidge(row_norm_bound=1.0, target_bound=1.0, sketch_size=10)
    assert model.fit_data(rows, target=[2, 3]).coef_.shape == (2, 2)
    assert model.fit_data(rows, target=3).coef_.shape == (3,)
    with pytest.raises(ParameterError, match="target must be left out; got 3; the estimator learns from rows only"):
        PrivateCovariance(row_norm_bound=1.0).fit_data(rows, target=3)
