"""Scores on held-out records: sensitivities, intervals, the split, and saved models."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

import ndis
from ndis.errors import ParameterError
from ndis.learn import (
    LinearModel,
    PrivateCovariance,
    PrivateGaussianProcess,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateRidge,
    score_privately,
    split_records,
)  # fmt: skip
from ndis.learn._score import _histogram, _sums

NUMBER = ndis.Schema({"age": (0, 100), "ward": ["A", "B"]}, target=("spend", 0, 20))
CLASS = ndis.Schema({"age": (0, 100), "ward": ["A", "B"]}, target=("ill", bool))
LINE = LinearModel({"age": 0.1, "ward=B": 2.0}, 1.0, NUMBER, {})
LOGIT = LinearModel({"age": 0.05, "ward=B": 0.5}, -3.0, CLASS, {})


def table(count: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    age, ward = rng.uniform(0, 100, count), rng.choice(["A", "B"], count)
    spend = 1 + 0.1 * age + 2.0 * (ward == "B") + rng.normal(0, 1.5, count)
    ill = rng.random(count) < 1 / (1 + np.exp(3 - 0.05 * age - 0.5 * (ward == "B")))
    return {"age": age, "ward": ward, "spend": spend.clip(0, 20), "ill": ill}


def test_no_record_moves_the_sums_further_than_their_sensitivity():
    """As in thm:describe, with e and e² next to y and y²/2."""
    ends = np.array([-1.0, 1.0, 0.0, 0.3])
    scores = np.array([-1e9, 1e9, 10.0, 3.0])
    weights = [Fraction(3, 4), Fraction(1, 2**15), Fraction(1, 2**31), Fraction(1, 2**15), Fraction(1, 2**30)]
    each = [
        [int(x) * w for x, w in zip(_sums(LINE, np.array([s]), np.array([y])).tolist(), weights, strict=True)]
        for s in scores for y in ends
    ]  # fmt: skip
    assert max(sum(x * x for x in one) for one in each) <= Fraction(61, 16)
    apart = [sum((x - y) ** 2 for x, y in zip(one, other, strict=True)) for one in each for other in each]
    assert max(apart) <= 8
    assert all(_histogram(LOGIT, np.array([s]), np.array([c])).sum() == 1 for s in (-1e9, 0.0, 1e9) for c in (0.0, 1.0))


def test_scores_are_near_those_of_the_records():
    rows = table(20_000)
    held = {**rows, "age": rows["age"].astype(object)}
    held["age"][:50] = None  # these do not count
    number = score_privately(LINE, held, epsilon=1.0, delta=1e-6)
    error = rows["spend"] - LINE.predict(rows)
    truth = [1 - (error**2).mean() / rows["spend"].var(), np.sqrt((error**2).mean()), error.mean()]
    for (value, spread, _, _), true in zip(number.rows(), truth, strict=True):
        assert abs(value - true) < 5 * spread < 1.0
    assert number.receipt.private
    assert "costs no further budget" not in repr(number)
    classes = score_privately(LOGIT, held, epsilon=1.0, delta=1e-6)
    right = (LOGIT.predict(rows) == rows["ill"]).mean()
    assert abs(classes.estimate[0] - right) < 5 * classes.standard_error[0] < 0.1
    scores = LOGIT.scores(CLASS.encode(rows))
    area = (scores[rows["ill"]][:, None] > scores[~rows["ill"]][None, :3000]).mean()
    assert abs(classes.estimate[1] - area) < 5 * classes.standard_error[1] + 0.02
    assert abs(classes.estimate[2]) < 5 * classes.standard_error[2]


def test_few_records_have_no_known_score():
    for model in (LINE, LOGIT):
        assert np.isinf(score_privately(model, table(5), epsilon=1.0, delta=1e-6).standard_error).all()


def test_a_model_of_integers_adds_floats(tmp_path):
    """One record raised after the reservation, and none did not: an array of integers takes no float."""
    model, ledger = LinearModel({"age": 1}, 1, NUMBER, {}), tmp_path / "x.db"
    ndis.Ledger.create(ledger, epsilon=9.0, delta=1e-3, kind="shifts")
    for count in (0, 1):
        rows = {name: np.full(count, 0.5) for name in ("age", "ward", "spend")}
        score_privately(model, rows, epsilon=1.0, delta=1e-6, ledger=ledger)
    assert [entry.action for entry in ndis.Ledger(ledger).history()] == ["reserve", "commit"] * 2
    assert model.predict({"age": [0.5], "ward": ["A"]}).tolist() == [1.5]


def test_a_split_is_made_by_coins_only():
    """thm:held-out: neither cells nor order decide where a record falls."""
    fit, held = split_records({"age": np.zeros(4000), "i": np.arange(4000)}, 0.25)
    assert sorted([*fit["i"], *held["i"]]) == list(range(4000))
    assert 800 < len(held["i"]) < 1200
    assert len(split_records(np.zeros((100, 2)), 0.5)[0]) < 100
    with pytest.raises(ParameterError, match="share"):
        split_records(np.zeros((3, 1)), 1.5)


def test_predictions_of_a_record_do_not_depend_on_others():
    rows = table(999)
    encoded = NUMBER.encode(rows)
    alone = np.concatenate([LINE.scores(encoded[i : i + 1]) for i in range(999)])
    assert (LINE.scores(encoded) == alone).all()


def test_models_are_saved_and_loaded(tmp_path):
    rows = table(4000)
    for kind, schema in ((PrivateLinearRegression, NUMBER), (PrivateLogisticRegression, CLASS)):
        model = kind(epsilon=5.0, delta=1e-6, schema=schema).fit_data(rows)
        model.save(tmp_path / f"{kind.__name__}.json")
        loaded = kind.load(tmp_path / f"{kind.__name__}.json")
        assert loaded.receipt == model.receipt_.to_dict()
        expected = model.predict(rows)
        if schema is NUMBER:
            assert np.allclose(loaded.predict(rows), expected, rtol=1e-9)
        else:
            assert (loaded.predict(rows) == expected).mean() > 0.999
        assert score_privately(loaded, rows, epsilon=1.0, delta=1e-6).receipt.private
    with pytest.raises(ParameterError, match="model must be a fitted"):
        ndis.learn.PrivateCovariance(row_norm_bound=1.0).fit(np.zeros((5, 2))).save(tmp_path / "c.json")
    LINE.save(tmp_path / "line.json")
    text = (tmp_path / "line.json").read_text()
    for bad in ('{"prediction": {}}', text.replace("0.1", "9" * 400), text.replace("[columns]", "x = " + "[" * 9999)):
        (tmp_path / "bad.json").write_text(bad)
        with pytest.raises(ParameterError, match="coefficients and a schema"):
            LinearModel.load(tmp_path / "bad.json")
    for old, new in (("0.1", '"nan"'), ("0.1", "1e999"), ('"intercept": 1.0', '"intercept": "-inf"')):
        assert old in text
        (tmp_path / "bad.json").write_text(text.replace(old, new, 1))
        with pytest.raises(ParameterError, match="coefficients must be finite"):
            LinearModel.load(tmp_path / "bad.json")


@pytest.mark.parametrize("extra", [1.5, 1j, [1, 2], "x", True, None])
def test_a_split_changes_no_cell_of_another_record(extra):
    """NumPy would choose one type for a list: 2**53 + 1 becomes a float beside 1.5, and a list in a cell raises."""
    cells = [2**53 + 1, 7, 3]
    with pytest.warns(ndis.errors.NotPrivateWarning):
        alone = split_records({"code": cells}, 0.5, random_state=0)
    with pytest.warns(ndis.errors.NotPrivateWarning):
        both = split_records({"code": [*cells, extra]}, 0.5, random_state=0)
    assert sorted(c for one in alone for c in one["code"]) == sorted(cells)
    before, after = ([[repr(c) for c in one["code"] if c is not extra] for one in parts] for parts in (alone, both))
    assert before == after


def test_a_score_does_not_warn_by_value(recwarn):
    schema = ndis.Schema({"x": (-1e36, 1e36)}, target=("y", -1, 1))
    for cell in (0.0, 1e36, -1e36):
        score_privately(LinearModel({"x": 3e300}, 0.0, schema, {}), {"x": [cell], "y": [0.5]}, epsilon=1.0, delta=1e-6)
    assert not recwarn.list


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (lambda rows, **how: score_privately(LINE, rows, level=2.0, **how), "level"),
        (
            lambda rows, **how: score_privately(LinearModel({"weight": 1.0}, 0.0, NUMBER, {}), rows, **how),
            "coefficients",
        ),
        (lambda rows, **how: score_privately(LINE, {**rows, "spend": rows["spend"][1:]}, **how), "data"),
        (lambda rows, **how: ndis.describe({**rows, "age": rows["age"][1:]}, schema=NUMBER, **how), "data"),
        (lambda rows, **how: ndis.describe(rows, schema=NUMBER, groups=[("ward", "ward")], **how), "groups"),
        (lambda rows, **how: ndis.describe(rows, schema=NUMBER, shares={"matrix": 1e-17}, **how), "shares"),
    ],
)
def test_a_typing_error_spends_nothing(wrong, name, tmp_path):
    ledger = ndis.Ledger.create(tmp_path / "b.db", epsilon=3.0, delta=1e-5, kind="shifts", data_name="visits")
    with pytest.raises(ParameterError) as caught:
        wrong(table(20), epsilon=1.0, delta=1e-6, ledger=tmp_path / "b.db")
    assert caught.value.name == name
    assert ledger.entries() == 0


@pytest.mark.parametrize(
    "model",
    [
        PrivateRidge(row_norm_bound=1.0, target_bound=1.0, sketch_size=20),
        PrivateLinearRegression(row_norm_bound=1.0, target_bound=1.0, rounds=2),
        PrivateLogisticRegression(row_norm_bound=1.0, classes=(0, 1), rounds=2),
        PrivateGaussianProcess(label_bound=1.0, max_records=30),
        PrivateCovariance(row_norm_bound=1.0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_score_without_noise_warns_whatever_the_rows(model):
    """The words depend on no value and on no number of rows, and public=True silences them."""
    x, y = np.linspace(-0.5, 0.5, 60)[:, None], np.arange(60) % 2
    model.fit(x, y)
    said = []
    for rows in (x, x[:7] * 100, np.zeros((2, 1))):
        with pytest.warns(UserWarning, match="a score is exact, and leaks private rows") as seen:
            model.score(rows, y[: len(rows)])
        said.append([(str(each.message), each.category) for each in seen])
    assert said[0] == said[1] == said[2]
    with warnings.catch_warnings(record=True) as none:
        warnings.simplefilter("always")
        model.score(x, y, public=True)
    assert not none


def test_a_split_takes_rows_in_memory_only(tmp_path):
    pd, dask = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    frame = pd.DataFrame({"age": np.arange(50.0), "shape": 1})
    lazy = dask.from_pandas(frame, 2)
    for wrong in (
        lazy, {"age": lazy["age"]}, "rows.csv", b"x", tmp_path, 5, None, np.array(5), {}, {"age": 5}, {"age": "texts"},
        range(4), iter([1]), pa.scalar(3), pl.from_pandas(frame).lazy(), scipy.sparse.coo_array(np.eye(2)),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match="data must be rows in memory"):
            split_records(wrong)
    table = pa.table(frame)
    for given in (frame, frame["age"], table, table["age"], table["age"].chunk(0), pl.from_pandas(frame), [1, 2, 3]):
        fit, held = split_records(given, 0.5)
        assert (type(fit), len(fit) + len(held)) == (type(given), len(given))
