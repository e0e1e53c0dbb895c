"""Schemas: what they say, how they read tables of every kind, what they show."""

from __future__ import annotations

import copy
import math
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import ndis
from helpers.tables import COLUMNS, ENCODED, SCHEMA, encoded
from ndis.data import Files
from ndis.errors import ParameterError
from ndis.schema import Boolean, Category, Date, Number, Schema

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")


def tables(tmp_path: Path) -> dict[str, tuple[Any, dict[str, Any]]]:
    """The same table in every form that a schema reads."""
    frame = pd.DataFrame(COLUMNS)
    arrow = pa.table(COLUMNS)
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    pq.write_table(arrow, tmp_path / "t.parquet", row_group_size=3)
    feather.write_feather(arrow, tmp_path / "t.arrow", compression="uncompressed")
    frame.to_csv(tmp_path / "header.csv", index=False)
    frame.to_csv(tmp_path / "plain.csv", index=False, header=False)
    folder = tmp_path / "folder"
    folder.mkdir()
    pq.write_table(arrow.slice(0, 1), folder / "a.parquet")
    pq.write_table(arrow.slice(1), folder / "b.parquet")
    typed = frame.assign(region=frame.region.astype("category"), since=pd.to_datetime(frame.since))
    order = [*SCHEMA.columns, "spend"]
    rows = [[COLUMNS[name][i] for name in order] for i in range(4)]
    array = np.empty((4, 6), dtype=object)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            array[i, j] = cell
    dictionary = arrow.set_column(2, "region", arrow.column("region").dictionary_encode())
    return {
        "mapping": (COLUMNS, {}),
        "pandas": (frame, {}),
        "pandas objects": (frame.astype(object), {}),
        "pandas typed": (typed, {}),
        "pandas nullable": (frame.convert_dtypes(), {}),
        "pandas arrow": (frame.convert_dtypes(dtype_backend="pyarrow"), {}),
        "polars": (pl.DataFrame(COLUMNS), {}),
        "polars categories": (pl.DataFrame(COLUMNS).with_columns(pl.col("region").cast(pl.Categorical)), {}),
        "arrow": (arrow, {}),
        "arrow dictionary": (dictionary, {}),
        "batch": (arrow.to_batches()[0], {}),
        "parquet": (tmp_path / "t.parquet", {}),
        "feather": (tmp_path / "t.arrow", {}),
        "csv with header": (tmp_path / "header.csv", {"header": True}),
        "csv": (tmp_path / "plain.csv", {"columns": list(COLUMNS)}),
        "folder": (folder, {}),
        "files": (Files([folder / "a.parquet", folder / "b.parquet"]), {}),
        "array": (array, {}),
    }


class TestTables:
    def test_every_source_gives_the_same_rows(self, tmp_path: Path) -> None:
        expected = np.column_stack([ENCODED, SCHEMA.encode_target(COLUMNS)])
        assert expected[:, 0].tolist() == [-68 / 72, 1.0, -1.0, 0.0]
        assert expected[:, 2:5].tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 1, 0]]
        assert expected[:, -1].tolist() == [-1.0, 0.0, 1.0, 1.0]
        for name, (data, how) in tables(tmp_path).items():
            np.testing.assert_array_equal(encoded(SCHEMA.table(data, **how)), expected, err_msg=name)
            np.testing.assert_array_equal(encoded(SCHEMA.table(data, target=False, **how)), ENCODED, err_msg=name)

    def test_dask(self) -> None:
        dd = pytest.importorskip("dask.dataframe")
        schema = Schema({"age": (18, 90), "member": bool, "ward": [1, 2]}, target=("spend", 0, 5_000))
        frame = pd.DataFrame(
            {name: COLUMNS[name] for name in ("name", "age", "member", "spend")} | {"ward": [1, 2, 2, 3]}
        )
        parts = dd.from_pandas(frame, npartitions=2)  # the text of `name` is not wanted
        np.testing.assert_array_equal(encoded(schema.table(parts)), encoded(schema.table(frame)))
        mechanism = ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, **schema.bounds())
        assert mechanism.release(parts, schema=schema).names == (*schema.feature_names, "spend")

    def test_a_csv_in_the_order_of_the_schema(self, tmp_path: Path) -> None:
        pd.DataFrame(COLUMNS)[[*SCHEMA.columns, "spend"]].to_csv(tmp_path / "t.csv", index=False, header=False)
        with pytest.warns(UserWarning, match="without header=True every line of a CSV file is a record"):
            found = encoded(SCHEMA.table(tmp_path / "t.csv"))
        np.testing.assert_array_equal(found[:, :-1], ENCODED)

    def test_mechanisms_take_a_schema(self, tmp_path: Path) -> None:
        data, how = tables(tmp_path)["csv with header"]
        names = (*SCHEMA.feature_names, "spend")
        public: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, **SCHEMA.bounds()}
        gram = ndis.GramMechanism.calibrated(**public)
        assert gram.release(data, schema=SCHEMA, **how).names == names
        for kind in (ndis.RandomProjection, ndis.PTRProjection):
            mechanism = kind.calibrated(sketch_size=20, **public)
            release = mechanism.release(data, schema=SCHEMA, **how)
            assert (release.names, release.targets) == (names, 1)
        bare = ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, row_norm_bound=SCHEMA.row_norm_bound)
        assert bare.release(data, schema=SCHEMA, **how).names == SCHEMA.feature_names
        with pytest.raises(ParameterError, match="targets must be left out with a schema"):
            gram.release(data, schema=SCHEMA, targets=["spend"], **how)

    def test_types_that_do_not_fit_are_refused_by_name(self, tmp_path: Path) -> None:
        schema = Schema({"age": (0, 1)})
        for data in (pd.DataFrame({"age": ["x"]}), pl.DataFrame({"age": ["x"]}), pa.table({"age": ["x"]})):
            with pytest.raises(ParameterError, match=r"column 'age' must hold numbers or booleans, .*; got text"):
                schema.encode(data)
        pa.parquet.write_table(pa.table({"age": ["x"]}), tmp_path / "t.parquet")
        with pytest.raises(ParameterError, match="column 'age' must hold numbers"):
            encoded(schema.table(tmp_path / "t.parquet"))
        with pytest.raises(ParameterError, match=r"got type list<.*>"):
            schema.encode(pa.table({"age": [[1.0]]}))
        with pytest.raises(ParameterError, match="column 'age' must hold dates or text"):
            Schema({"age": (date(2020, 1, 1), date(2021, 1, 1))}).encode(pd.DataFrame({"age": [1.0]}))

    def test_a_missing_column_is_refused_by_name(self, tmp_path: Path) -> None:
        with pytest.raises(ParameterError, match=r"have a column 'age', which the schema names; got columns 'b'"):
            Schema({"age": (0, 1)}).encode({"b": [1]})
        (tmp_path / "t.csv").write_text("secret\n1\n")
        with pytest.raises(ParameterError, match="have a column 'age'") as caught:
            encoded(Schema({"age": (0, 1)}).table(tmp_path / "t.csv", header=True))
        assert "secret" not in str(caught.value)


class TestColumns:
    def test_dates_in_every_form(self) -> None:
        column = Date(date(1970, 1, 1), date(1970, 1, 3))
        noon = datetime(1970, 1, 1, 12)
        cells = [noon, "1970-01-01 12:00", pd.Timestamp(noon), np.datetime64(noon), noon.replace(tzinfo=UTC)]
        east = noon.replace(tzinfo=timezone(timedelta(hours=6)))
        cells += [east + timedelta(hours=6), pd.Timestamp(east) + timedelta(hours=6), "1970-01-01T18:00+06:00"]
        for cell in cells:
            assert column.encode(np.array([cell, None], dtype=object)[:1]).item() == -0.5, cell
        zoned = pd.Series([pd.Timestamp(east)] * 2).dt.tz_convert("Europe/Berlin") + timedelta(hours=6)
        schema = Schema({"day": column})
        for data in (pd.DataFrame({"day": zoned}), pl.DataFrame({"day": [noon, noon]}), {"day": zoned}):
            assert schema.encode(data).ravel().tolist() == [-0.5, -0.5]
        for unit in ("s", "ms", "us", "ns"):
            times = pa.array([noon, None]).cast(pa.timestamp(unit, tz="UTC"))
            np.testing.assert_array_equal(schema.encode(pa.table({"day": times})).ravel(), [-0.5, np.nan])
            assert schema.encode({"day": np.array([noon], dtype=f"M8[{unit}]")}).item() == -0.5
        far = np.array([2**62, -(2**62)], dtype="M8[s]")  # NumPy's own cast to microseconds overflows without a word
        assert schema.encode({"day": far}).ravel().tolist() == [1.0, -1.0]
        for unit in ("Y", "W", "ps", "2D"):  # of which pandas and Arrow have no columns
            with pytest.raises(ParameterError, match="got dtype datetime64"):
                schema.encode({"day": np.array([1], dtype=f"M8[{unit}]")})
            cells = np.array([np.datetime64(1, (unit[-1], 2) if unit == "2D" else unit), None], dtype=object)
            assert np.isnan(schema.encode({"day": cells})).all()

    def test_categories_match_by_text(self) -> None:
        column = Category((1, 2, "x", True))
        ones = [1, 1.0, "1", "1.0", " 1 ", b"1", np.int8(1)]
        cells = np.array([*ones, "x", b"x", True, "true", 3, "X", 1.5], dtype=object)
        assert column.read(cells).tolist() == [0] * 7 + [2, 2, 3, 3, -1, -1, -1]
        assert column.labels("c") == ("c=1", "c=2", "c=x", "c=true")
        texts = np.array(["NA", "nan", "", "b"], dtype=object)
        np.testing.assert_array_equal(Category(("NA", "a")).read(texts), [0, np.nan, np.nan, -1])
        assert Category(("a", "b"), fill="b").encode(np.array([None, "c"], dtype=object)).tolist() == [[0, 1], [0, 0]]

    @pytest.mark.parametrize("make", [
        lambda: Number(1, 1), lambda: Number(2, 1), lambda: Number(math.nan, 1), lambda: Number(0, math.inf),
        lambda: Number(-1e308, 1e308 * 1.5), lambda: Number(True, 2), lambda: Number("0", 1),
        lambda: Number(0, 10**400),
        lambda: Number(0, 1, fill=2), lambda: Number(0, 1, fill=math.nan), lambda: Boolean(fill=1),
        lambda: Date(date(2020, 1, 1), date(2020, 1, 1)), lambda: Date(1, 2), lambda: Category(()),
        lambda: Category("ab"), lambda: Category(("a", "a")), lambda: Category(("1", 1)), lambda: Category((1.5,)),
        lambda: Category((None,)), lambda: Category(("a",), fill="b"),
        lambda: Schema({}), lambda: Schema({"a": 3}), lambda: Schema({"": (0, 1)}), lambda: Schema({1: (0, 1)}),
        lambda: Schema({"a": (0, 1)}, target=("a", 0, 1)), lambda: Schema({"a": (0, 1)}, target="a"),
        lambda: Schema({"a": (0, 1)}, row_norm_bound=1.5), lambda: Schema({"a": (0, 1)}, row_norm_bound=math.nan),
        lambda: Schema({"a": ["b"], "a=b": (0, 1)}), lambda: Schema({"a": ["x"]}, target=("a=x", 0, 1)),
    ])  # fmt: skip
    def test_bad_columns_are_refused(self, make: Any) -> None:
        with pytest.raises(ParameterError):
            make()

    def test_messages_name_the_column(self) -> None:
        with pytest.raises(ParameterError, match=r"low of column 'age' must be below high; got 5.0 and 2.0"):
            Schema({"age": (5, 2)})


class TestSchema:
    def test_toml_goes_there_and_back(self, tmp_path: Path) -> None:
        schema = Schema(
            {
                'a "quoted" näme': Number(-1e-36, 1e36, fill=0.5),
                "b": Category(("x", 'y"', 3, True), fill=3),
                "c": Boolean(fill=False),
                "d": Date(date(2020, 1, 1), datetime(2021, 1, 1, 12, tzinfo=UTC)),
            },
            target=("t", ["no", "yes"]),
            row_norm_bound=1.25,
        )
        schema.to_toml(tmp_path / "s.toml")
        again = Schema.from_toml(tmp_path / "s.toml")
        assert again == schema
        assert hash(again) == hash(schema)
        assert pickle.loads(pickle.dumps(schema)) == schema == copy.deepcopy(schema)
        assert Schema({"a": (0, 1)}) != schema
        small = Schema({"a": (0, 1)}, target=("t", [0, 1]), row_norm_bound=0.5)
        assert eval(repr(small)) == small

    def test_bad_toml(self, tmp_path: Path) -> None:
        for text, words in (
            ("x =", "be a TOML file"),
            ("x = " + "[" * 100_000, "be a TOML file"),  # nested so deep that Python gives up
            ("a = 1", "have columns"),
            ('[columns]\na = { low = "?", high = "?" }', "filled in"),
            ('[columns]\na = { categories = ["?"] }', "filled in"),
            ("[columns]\na = { low = 1 }", "column 'a' must have"),
        ):
            (tmp_path / "s.toml").write_text(text)
            with pytest.raises(ParameterError, match=words):
                Schema.from_toml(tmp_path / "s.toml")
        with pytest.raises(ParameterError, match="readable file"):
            Schema.from_toml(tmp_path / "none.toml")

    def test_the_box_bounds_every_row(self) -> None:
        assert np.nanmax(np.linalg.norm(ENCODED, axis=1)) <= SCHEMA.row_norm_bound == math.sqrt(5)

    def test_units(self) -> None:
        rng = np.random.default_rng(0)
        encoded_rows = rng.uniform(-1, 1, size=(50, len(SCHEMA.feature_names)))
        slopes, offset = rng.normal(size=encoded_rows.shape[1]), 0.3
        predicted = (encoded_rows @ slopes + offset) * 2500 + 2500
        coefficients, constant = SCHEMA.in_units(slopes, offset)
        np.testing.assert_allclose(SCHEMA.decode(encoded_rows) @ coefficients + constant, predicted, rtol=1e-9)
        matrix, shift = SCHEMA.unit_map()
        np.testing.assert_allclose(matrix @ [*slopes, offset] + shift, [*coefficients, constant], rtol=1e-12)

    def test_fill_keeps_the_row_and_no_fill_empties_it(self) -> None:
        schema = Schema({"a": Number(0, 2, fill=2), "b": (0, 2)})
        found = schema.encode({"a": [None, 1], "b": [1, None]})
        np.testing.assert_array_equal(found, [[1.0, 0.0], [0.0, np.nan]])


class TestPreview:
    ROWS: ClassVar = {"age": [17, 54, None, 200], "region": ["N", "W", "S", None], "spend": [1, 2, 9e9, 3]}
    SMALL = Schema({"age": Number(18, 90), "region": ["N", "S"]}, target=("spend", 0, 5_000), row_norm_bound=1.0)

    def test_private_rows_warn(self) -> None:
        with pytest.warns(UserWarning, match="public=True"):
            self.SMALL.preview(self.ROWS)

    def test_shares(self) -> None:
        found = self.SMALL.preview(self.ROWS, public=True)
        age, region, spend = found.columns
        assert (age.clipped, age.unknown, age.missing) == (0.5, 0.0, 0.25)
        assert (region.clipped, region.unknown, region.missing) == (0.0, 0.25, 0.25)
        assert spend.clipped == 0.25
        assert (found.rows, found.emptied, found.beyond) == (4, 0.5, 0.25)  # (-1, 1, 0) is √2 long
        assert found.quantiles[1.0] == math.sqrt(2.0)
        assert "50.0%" in repr(found)
        assert "<table>" in found._repr_html_()
        assert len(found.norms) == 2

    def test_files_and_no_target(self, tmp_path: Path) -> None:
        pd.DataFrame(self.ROWS).to_csv(tmp_path / "t.csv", index=False)
        found = self.SMALL.preview(tmp_path / "t.csv", header=True, public=True)
        assert [c.clipped for c in found.columns] == [0.5, 0.0, 0.25]
        assert len(self.SMALL.preview({"age": [20], "region": ["N"]}, public=True).columns) == 2

    def test_clipped_count_is_near_and_has_a_receipt(self) -> None:
        rows = {name: cells * 500 for name, cells in self.ROWS.items()}
        release = ndis.mechanisms.rows.clipped_count(rows, self.SMALL, epsilon=2.0, delta=1e-6)
        assert abs(release.values[0] - 2000) < 10 * math.sqrt(release.noise_variance)  # all four rows are changed
        fine = {"age": [54] * 1000, "region": ["N"] * 1000, "spend": [1] * 1000}
        release = ndis.mechanisms.rows.clipped_count(
            fine, Schema({"age": (18, 90)}, target=("spend", 0, 5)), epsilon=2.0, delta=1e-6
        )
        assert abs(release.values[0]) < 10 * math.sqrt(release.noise_variance)
        assert release.receipt.epsilon == 2.0
        assert "schema changes" in release.receipt.parameters["released"]
