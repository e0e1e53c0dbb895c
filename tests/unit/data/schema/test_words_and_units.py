"""Which words count as true, as a date and as a category; schemas with another target; units of what was released."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ndis
from ndis.errors import ParameterError
from ndis.learn import ridge_from_gram
from ndis.schema import Schema


class TestWords:
    def test_truth(self) -> None:
        schema = Schema({"member": bool})
        for word in (True, 1, "1", "true", "True", "TRUE", "yes", "Yes", "Y", "y", "T", "t", b"Y"):
            assert schema.encode({"member": [word]}).tolist() == [[1.0]], word
        for word in (False, 0, "0", "false", "False", "no", "NO", "N", "n", "F", "f"):
            assert schema.encode({"member": [word]}).tolist() == [[-1.0]], word
        for word in ("maybe", "", None, 2, "ja", "yess"):
            assert np.isnan(schema.encode({"member": [word]})).all(), word

    def test_dates(self) -> None:
        schema = Schema({"day": (dt.date(2020, 1, 1), dt.date(2020, 1, 11))})
        for word in ("2020-01-06", "2020/01/06", "20200106", "2020-01-06T00:00", "2020/01/06 00:00"):
            assert schema.encode({"day": [word]}).tolist() == [[0.0]], word
        for word in ("06/01/2020", "2020/1/6", "2020/01/066", "6 Jan 2020", "2020/13/01", "", None):
            assert np.isnan(schema.encode({"day": [word]})).all(), word

    @pytest.mark.parametrize("listed", [["False", "True"], [False, True], ["false", "true"], ["FALSE", "TRUE"]])
    def test_booleans_match_their_words(self, listed: list[object]) -> None:
        schema = Schema({"member": listed})
        expected = [[0.0, 1.0], [1.0, 0.0]]
        for column in (
            pd.Series([True, False]),
            pd.Series([True, False], dtype="boolean"),
            pd.Series(["True", "False"]),
            pl.Series([True, False]),
            pa.array([True, False]),
            np.array([True, False]),
            ["TRUE", "false"],
        ):
            assert schema.encode({"member": column}).tolist() == expected

    def test_words_that_are_listed_apart_stay_apart(self) -> None:
        rows = Schema({"x": ["true", "TRUE"]}).encode({"x": ["true", "TRUE", True, "True", "other"]})
        assert rows.tolist() == [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]

    def test_a_text_column_that_the_schema_calls_a_number(self) -> None:
        frame = pd.DataFrame({"age": pd.Series(["1", "2"], dtype="string")})
        with pytest.raises(ParameterError, match=r"got text; convert it first, in pandas with pd.to_numeric"):
            Schema({"age": (0, 10)}).encode(frame)
        with pytest.raises(ParameterError, match="got numbers; convert the column first, or change the schema"):
            Schema({"day": (dt.date(2020, 1, 1), dt.date(2021, 1, 1))}).encode({"day": np.array([1.0])})

    def test_a_preview_shows_what_is_not_listed(self) -> None:
        found = Schema({"ward": ["ICU", "surgery"]}).preview({"ward": ["ICU", "other", "surgery", "x"]}, public=True)
        assert found.columns[0].unknown == 0.5
        assert "unlisted" in repr(found).splitlines()[1]


class TestTarget:
    SCHEMA = Schema({"age": (0, 10), "cost": (0, 100), "ward": ["a", "b"]})

    def test_a_column_becomes_the_target(self) -> None:
        found = self.SCHEMA.with_target("cost")
        assert found == Schema({"age": (0, 10), "ward": ["a", "b"]}, target=("cost", 0, 100))
        assert self.SCHEMA.with_target("ward").classes == ("a", "b")

    @pytest.mark.parametrize(("bound", "kept"), [(1.2, 1.2), (1.5, 2**0.5), (3**0.5, 2**0.5)])
    def test_the_bound_of_a_row(self, bound: float, kept: float) -> None:
        schema = Schema(dict(self.SCHEMA.columns), row_norm_bound=bound)
        assert schema.with_target("cost").row_norm_bound == pytest.approx(kept)

    def test_refusals(self) -> None:
        with pytest.raises(ParameterError, match="target must be a column of the schema, one of 'age', 'cost', 'ward'"):
            self.SCHEMA.with_target("height")
        with pytest.raises(ParameterError, match="target must be left out, or 'cost' as the schema says; got 'age'"):
            self.SCHEMA.with_target("cost").with_target("age")
        with pytest.raises(ParameterError, match="target must leave another column"):
            Schema({"age": (0, 10)}).with_target("age")
        with pytest.raises(ParameterError, match=r"schema must have a target; got none; .*in TOML \[target\]"):
            self.SCHEMA.needed_target()


class TestUnits:
    SCHEMA = Schema({"age": (20, 80), "day": (dt.date(2020, 1, 1), dt.date(2021, 1, 1))}, target=("cost", 0, 100))

    def test_a_column_of_weights(self) -> None:
        flat, constant = self.SCHEMA.in_units([0.5, 0.25], 0.0)
        column, constants = self.SCHEMA.in_units([[0.5], [0.25]], 0.0)
        assert column.shape == (2, 1)
        assert column.ravel().tolist() == flat.tolist()
        assert constants.tolist() == [float(constant)]

    @pytest.mark.parametrize("shape", [(3,), (3, 1), (2, 3), (), (1, 2, 2)])
    def test_other_shapes_are_refused(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(ParameterError, match="coefficients must have 2 entries, one per encoded column"):
            self.SCHEMA.in_units(np.zeros(shape), 0.0)

    def test_rows_with_a_target_are_no_encoded_rows(self) -> None:
        with pytest.raises(ParameterError, match="encoded must have 2 columns, those of feature_names; got shape"):
            self.SCHEMA.decode(np.zeros((5, 3)))

    @pytest.mark.parametrize("kind", ["sketch", "sampled", "tested", "gram"])
    def test_from_a_folder_back_to_units(self, kind: str, tmp_path: Path) -> None:
        schema = Schema({"age": (20, 80), "ward": ["a", "b"]}, target=("cost", 0, 1000), row_norm_bound=1.4)
        rng = np.random.default_rng(0)
        age, ward = rng.uniform(20, 80, 30_000), rng.choice(["a", "b"], 30_000)
        table = {"age": age, "ward": ward, "cost": 5 * age + 200 * (ward == "b")}
        public = {"epsilon": 20.0, "delta": 1e-3, **schema.bounds()}
        makers = {
            "sketch": lambda: ndis.RandomProjection.calibrated(**public, sketch_size=4000),
            "sampled": lambda: ndis.PoissonProjection.calibrated(**public, sketch_size=4000, rate=0.9),
            "tested": lambda: ndis.PTRProjection.calibrated(**public, sketch_size=4000),
            "gram": lambda: ndis.GramMechanism.calibrated(**public),
        }
        release = makers[kind]().release(table, schema=schema)
        release.save(tmp_path / "shared")
        loaded = type(release).load(tmp_path / "shared")
        found = Schema.from_receipt(loaded.receipt)
        assert found == schema
        slopes, _ = found.in_units(ridge_from_gram(loaded)[0], 0.0)
        assert abs(slopes[0, 0] - 5) < 0.5
        assert abs(slopes[2, 0] - slopes[1, 0] - 200) < 25

    def test_a_receipt_without_a_schema(self) -> None:
        release = ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, row_norm_bound=1.0).release(np.eye(2))
        with pytest.raises(ParameterError, match="receipt must have the schema of its release; got none"):
            Schema.from_receipt(release.receipt)
