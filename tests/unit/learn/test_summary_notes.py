"""What a summary says beside its numbers: the guarantee or its absence, the first category, the bound of a row."""

from __future__ import annotations

import datetime
import html
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ndis
from helpers.places import ROOT
from ndis.learn import PrivateLinearRegression, PrivateLogisticRegression
from ndis.schema import Boolean, Category, Date, Number

NOT_PRIVATE = "NOT private: a seed made the noise reproducible, so do not publish this"
UNLISTED = "ward is compared with 'ICU'; a value that is not listed counts as that one"
SCHEMA = ndis.Schema({"age": (0, 1), "ward": ["ICU", "surgery"]}, target=("cost", 0, 1))


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    wards = rng.choice(["ICU", "surgery", "other"], 300)
    return pd.DataFrame({"age": rng.uniform(size=300), "ward": wards, "cost": rng.uniform(size=300)})


def notes(**how: object) -> tuple[str, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ndis.NotPrivateWarning)
        found = PrivateLinearRegression(**{"schema": SCHEMA, "rounds": 2, **how}).fit(table()).summary()
    for note in found.notes:
        assert note in repr(found)
        assert note in html.unescape(found._repr_html_())
    return found.notes


def test_a_seeded_fit_does_not_read_as_private() -> None:
    seeded, private = (" ".join(notes(random_state=seed)) for seed in (0, None))
    assert NOT_PRIVATE in seeded
    assert "differentially private" not in seeded
    assert "(1, 10⁻⁶)-differentially private, add-remove" in private
    assert "NOT" not in private


def test_a_seeded_release_does_not_read_as_private() -> None:
    for mechanism in (
        ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, row_norm_bound=1.0),
        ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, row_norm_bound=1.0, sketch_size=5),
    ):
        with pytest.warns(ndis.NotPrivateWarning):
            seeded = mechanism.release(np.eye(2), random_state=0)
        assert "NOT private" in repr(seeded)
        assert "NOT private" not in repr(mechanism.release(np.eye(2)))


def test_categories_that_are_not_listed() -> None:
    assert UNLISTED in notes()
    assert UNLISTED not in notes(fit_intercept=False)
    assert UNLISTED not in notes(schema=ndis.Schema({"age": (0, 1)}, target=("cost", 0, 1)))


def test_the_value_that_others_are_compared_with() -> None:
    both = ndis.Schema(dict(SCHEMA.columns) | {"shoe": ["Falco", "Brisk"]}, target=("cost", 0, 1))
    model = PrivateLinearRegression(schema=both, rounds=2).fit(table().assign(shoe="Brisk"))
    assert model.baseline_ == {"ward": "ICU", "shoe": "Falco"}
    assert any("shoe is compared with 'Falco'" in note for note in model.summary().notes)
    model.set_params(fit_intercept=False).fit(table().assign(shoe="Brisk"))
    assert model.baseline_ == {}


def test_columns_without_a_fill() -> None:
    words = "count as zero rows: a fill would keep them, and would bend estimates if many cells are missing"
    assert f"rows with a missing cell in age, ward {words}" in notes()
    filled = {"age": Number(0, 1, fill=0.5), "ward": Category(["ICU", "surgery"], fill="ICU")}
    assert not any(words in note for note in notes(schema=ndis.Schema(filled, target=("cost", 0, 1))))
    columns = {f"x{i}": (0, 1) for i in range(12)}
    model = PrivateLinearRegression(schema=ndis.Schema(columns, target=("cost", 0, 1)), rounds=2)
    found = model.fit(dict.fromkeys([*columns, "cost"], np.zeros(4))).summary()
    assert any(
        note.startswith("rows with a missing cell in x0, x1") and "x9 and 2 others" in note for note in found.notes
    )


def test_fills_keep_rows() -> None:
    """The fills that the pages show, on rows in which every cell is missing."""
    day = datetime.date(2020, 1, 1)
    columns = {
        "ward": Category(["ICU", "surgery"], fill="surgery"),
        "smokes": Boolean(fill=False),
        "since": Date(day, datetime.date(2020, 1, 3), fill=day),
    }
    assert ndis.Schema(columns).encode({name: [None] for name in columns}).tolist() == [[0.0, 1.0, -1.0, -1.0]]


@pytest.mark.parametrize("how", [{}, {"method": "gram"}])
def test_almost_no_row_was_read(how: dict[str, str]) -> None:
    words = "almost no row was read: check the header, classes, text columns and missing cells (schema.preview, "
    empty = pd.concat([table().assign(age=np.nan)] * 10)
    model = PrivateLinearRegression(schema=SCHEMA, epsilon=5.0, **how)
    assert any(words in note for note in model.fit(empty).summary().notes)
    many = pd.concat([table().assign(age=0.7)] * 100)  # one column does not spread, and there are many records
    found = model.fit(many).summary().notes
    assert any(note.startswith("the noise hides 1 of 3 directions") for note in found)
    assert not any(words in note for note in found)


def test_almost_no_row_was_read_by_a_logistic_regression() -> None:
    schema = ndis.Schema(dict(SCHEMA.columns), target=("dies", ["no", "yes"]))
    empty = table().assign(age=np.nan, dies="no")
    found = PrivateLogisticRegression(schema=schema).fit(empty).summary().notes
    assert any("almost no row was read" in note for note in found)


def odds(dies: object, **columns: object) -> PrivateLogisticRegression:
    """Fit a table of two columns and 5,000 records, whose target has these values."""
    rng = np.random.default_rng(1)
    frame = {"age": rng.uniform(size=5000), "ward": rng.choice(["ICU", "surgery"], 5000), **columns}
    schema = ndis.Schema(dict(SCHEMA.columns), target=("dies", ["no", "yes"]))
    return PrivateLogisticRegression(schema=schema).fit(pd.DataFrame({**frame, "dies": dies}))


def test_all_directions_may_be_hidden_though_rows_were_read() -> None:
    model = odds("no")
    model.estimate_ = replace(model.estimate_, hidden=3, records=300.0)
    (note,) = [note for note in model.summary().notes if "hides" in note]
    assert note.startswith("the noise hides 3 of 3 directions of the columns: no interval is known; more records")
    assert not any("almost no row was read" in note for note in model.summary().notes)


def test_a_logistic_summary_has_an_answer_for_every_table() -> None:
    """A rare yes, a constant column, a class that nobody has, a column that separates the classes."""
    rng = np.random.default_rng(0)
    ward, dies = rng.choice(["ICU", "surgery"], 5000), np.where(rng.random(5000) < 0.5, "yes", "no")
    rare = np.where(rng.random(5000) < 0.002, "surgery", "ICU")
    for model in (
        odds(dies, ward=rare),
        odds(dies, age=0.5),
        odds("no"),
        odds(np.where(ward == "ICU", "no", "yes"), ward=ward),
    ):
        table = model.summary()
        assert not np.isnan([*table.estimate, *table.standard_error, *table.odds_ratios().ravel()]).any()
        assert "odds" in model.to_html()
        told = any("a column may separate the classes" in note for note in table.notes)
        assert told == (model.last_step_ > 0.5)
    model.last_step_ = 0.9
    assert any("moved by 0.9 in the last round: a column may separate" in note for note in model.summary().notes)


def test_a_bound_below_that_of_the_box() -> None:
    words = "count less, together with their targets: estimates are those of a weighted fit"
    assert not any(words in note for note in notes())
    assert f"encoded rows longer than 1.2 (at most 1.414) {words}" in notes(row_norm_bound=1.2)
    narrow = ndis.Schema(dict(SCHEMA.columns), target=("cost", 0, 1), row_norm_bound=1.1)
    assert f"encoded rows longer than 1.1 (at most 1.414) {words}" in notes(schema=narrow)


def test_the_summary_on_the_first_page_looks_like_one() -> None:
    """The page shows one run. Names, columns and notes are those of every run, and the truth lies in the intervals."""
    page = (ROOT / "docs" / "start" / "table.md").read_text(encoding="utf-8")
    shown = page.split("```text\nPrivate linear regression\n", 1)[1].split("```", 1)[0]
    rng = np.random.default_rng(0)
    age, region = rng.integers(18, 91, 5_000), rng.choice(["N", "S"], 5_000)
    frame = pd.DataFrame({"age": age, "region": region, "spend": 500 + 20 * age + 300 * (region == "S")})
    schema = ndis.Schema({"age": Number(18, 90, fill=50), "region": ["N", "S"]}, target=("spend", 0, 5_000))
    found = repr(PrivateLinearRegression(epsilon=1.0, delta=1e-6, schema=schema).fit(frame).summary())

    def words(text: str) -> list[str]:
        return re.sub(r"[-+]?[0-9][0-9.e+]*", "#", text).split()

    kept = "\n".join(line for line in found.splitlines() if not line.startswith("privacy costs most"))
    assert words(kept) == ["Private", "linear", "regression", *words(shown)]


def test_the_column_that_costs_most_is_named() -> None:
    rng, n = np.random.default_rng(0), 3000
    x = rng.uniform(0, 1, n)
    frame = pd.DataFrame({"age": x, "height": x + 0.2 * rng.normal(size=n), "weight": rng.uniform(0, 1, n)})
    frame["cost"] = 0.5 * frame["age"] + 0.05 * rng.normal(size=n)
    schema = ndis.Schema({"age": (0, 1), "height": (-1, 2), "weight": (0, 1)}, target=("cost", -0.2, 0.8))
    few = PrivateLinearRegression(schema=schema, epsilon=0.5).fit(frame).summary().notes
    assert any(note.startswith("privacy costs most in ") for note in few)
    plenty = PrivateLinearRegression(schema=schema, epsilon=50.0).fit(frame).summary().notes
    assert not any(note.startswith("privacy costs most") for note in plenty)


def test_costs_are_numbers_that_people_read(monkeypatch) -> None:
    model = PrivateLinearRegression(schema=SCHEMA, rounds=2).fit(table())
    monkeypatch.setattr(type(model.estimate_), "cost", lambda self: np.full((1, 3), 14.0))
    (said,) = (note for note in model.summary().notes if note.startswith("privacy costs most"))
    assert "its error is about 14 times that of sampling; epsilon 12 or 160 times the records would leave" in said


def test_a_date_says_where_the_intercept_is() -> None:
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, 300), unit="D")
    public = {"since": (datetime.date(2020, 1, 1), datetime.date(2024, 1, 1))}
    said = "since counts in days from 1970-01-01: its slope is per day, and the intercept is the value on that day"
    frame = table().assign(since=days)
    for intercept in (True, False):
        how = {"schema": ndis.Schema(public, target=("cost", 0, 1)), "fit_intercept": intercept, "rounds": 2}
        assert (said in PrivateLinearRegression(**how).fit(frame).summary().notes) == intercept
    assert not any("1970" in note for note in notes())


@pytest.mark.filterwarnings("ignore::ndis.errors.NotPrivateWarning")
def test_the_cost_of_privacy_is_over_an_error_of_sampling_that_holds_for_any_variances() -> None:
    """A rare yes has a large variance: equal ones would make its error of sampling four times too small."""
    rng, n = np.random.default_rng(0), 20_000
    yes = rng.random(n) < 0.05
    frame = pd.DataFrame({"x": rng.uniform(0, 10, n), "yes": yes})
    frame["y"] = 2 * frame["x"] + 3 * yes + np.where(yes, 5.0, 0.5) * rng.normal(size=n)
    schema = ndis.Schema({"x": (0, 10), "yes": bool}, target=("y", -50, 100))
    model = PrivateLinearRegression(schema=schema, random_state=1).fit(frame)
    design = np.stack([frame["x"], yes, np.ones(n)], axis=1).astype(float)
    inverse = np.linalg.inv(design.T @ design)
    residual = frame["y"].to_numpy() - design @ inverse @ design.T @ frame["y"].to_numpy()
    alone = np.sqrt(np.diagonal(inverse @ (design.T * residual**2) @ design @ inverse))
    equal = np.sqrt(np.diagonal(inverse) * residual.var())
    cost, error = model.estimate_.cost()[0, 1], model.summary().standard_error[1]
    assert 0.5 * error / alone[1] < cost < 0.5 * error / equal[1]


def test_a_page_of_a_fit(tmp_path) -> None:
    model = PrivateLinearRegression(schema=SCHEMA, rounds=2).fit(table())
    page = model.to_html(tmp_path / "fit.html", title="Costs of a stay")
    assert (tmp_path / "fit.html").read_text(encoding="utf-8") == page
    for words in ("Costs of a stay", "ward=surgery", "(intercept)", model.receipt_.digest, 'class="range"'):
        assert words in page
    assert model.summary().to_frame().index.tolist() == ["age", "ward=surgery", "(intercept)"]


def test_classes_that_labels_tell_are_named_as_not_private() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(500, 2))
    y = (x[:, 0] > 0).astype(int)
    for intervals in (None, False):
        how = {"row_norm_bound": 1.5, "intervals": intervals}
        models = [PrivateLogisticRegression(**how, **more) for more in ({}, {"classes": (0, 1)})]
        told = [model.fit(x, y).summary().notes for model in models]
        assert ["classes were read" in " ".join(map(str, notes)) for notes in told] == [True, False]


def test_a_column_with_values_far_from_most_is_named() -> None:
    rng, n = np.random.default_rng(0), 20_000
    gain = np.where(rng.random(n) < 0.05, np.clip(rng.lognormal(3.5, 0.5, n), 0, 200), 0.0)
    frame = pd.DataFrame({"age": rng.uniform(20, 80, n), "gain": gain}).assign(tax=lambda t: t.age + 2 * t.gain)
    for far in ("gain", "age"):
        schema = ndis.Schema({"age": (20, 80), "gain": (0, 200)}, target=("tax", 0, 500))
        kept = frame if far == "gain" else frame.assign(gain=rng.uniform(0, 200, n))
        found = PrivateLinearRegression(schema=schema).fit(kept).summary().notes
        words = "rows with gain far from most count less: estimates are right if the model holds there too"
        assert (words in found) == (far == "gain")


def test_every_summary_says_how_many_records_were_read() -> None:
    """A target false and true reads yes and no in any spelling; 0 and 1 stay classes."""
    rng = np.random.default_rng(0)
    table = {"age": rng.uniform(size=5000), "ill": rng.choice(["yes", "No", "Y", "n", "TRUE", "0"], 5000)}
    schema = ndis.Schema({"age": (0, 1)}, target=("ill", [False, True]))
    assert schema.target == Boolean()
    assert ndis.Schema({"age": (0, 1)}, target=("ill", [0, 1])).target == Category((0, 1))
    (note,) = [one for one in PrivateLogisticRegression(schema=schema).fit(table).summary().notes if "records;" in one]
    assert abs(float(note.split()[1].replace(",", "")) - 5000) < 500
