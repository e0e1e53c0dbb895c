"""`ndis describe`: a file, a schema and a budget in, tables and a page out."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import ndis
from ndis.cli import app


def call(*words, status: int = 0) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == status, done.output
    return done.output


@pytest.fixture
def place(tmp_path):
    lines = [f"{20 + i % 60},{'NS'[i % 2]},{i % 7}" for i in range(400)]
    (tmp_path / "t.csv").write_text("age,region,visits\n" + "\n".join([*lines, "x,,"]))
    ndis.Schema({"age": (0, 100), "region": ["N", "S"], "visits": (0, 10)}).to_toml(tmp_path / "t.toml")
    return tmp_path


def test_tables_and_a_page_come_from_one_release(place):
    words = ["describe", place / "t.csv", "--header", "--schema", place / "t.toml", "--epsilon", 1, "--delta", "1e-6"]
    shown = call(*words, "-o", place / "report.html", "--title", "Visits")
    assert "By region" in shown
    assert "Correlations" in shown
    assert "costs no further budget" in shown
    assert "<h1>Visits</h1>" in (place / "report.html").read_text()
    assert "must" in call(*words, "-o", place / "report.html", status=2)  # a file is not overwritten
    values = json.loads(call(*words, "--json", "--no-quantiles", "--no-matrix", "--groups", "region"))
    assert values["receipt"]["mechanism"] == "describe"
    assert set(values["tables"]) == {"Records", "Means", "By region"}


def test_what_the_noise_hides_is_null_and_loses_no_release(place):
    """JSON has no infinity: the whole answer was lost, and paid, if one statistic was unknown."""
    (place / "t.csv").write_text("age,region,visits\n")
    ndis.Ledger.create(place / "b.db", epsilon=1.0, delta=1e-6, kind="shifts")
    words = ["describe", place / "t.csv", "--header", "--schema", place / "t.toml", "--epsilon", 1, "--delta", "1e-6"]
    values = json.loads(call(*words, "--json", "--ledger", place / "b.db"))
    assert None in values["tables"]["Means"][0].values()


def test_a_ledger_pays_and_bad_words_are_refused(place):
    ndis.Ledger.create(place / "b.db", epsilon=1.0, delta=1e-6, kind="shifts")
    words = ["describe", place / "t.csv", "--header", "--schema", place / "t.toml", "--epsilon", 1, "--delta", "1e-6"]
    call(*words, "--ledger", place / "b.db")
    assert "ndis:" in call(*words, "--ledger", place / "b.db", status=2)
    assert "groups must" in call(*words, "--groups", "age", status=2).replace("--", "")


def test_three_classes_are_refused_before_the_ledger_pays(place):
    """A fit of three classes is no linear model that a file holds."""
    (place / "u.csv").write_text("age,ill\n" + "5,no\n7,yes\n" * 50)
    ndis.Schema({"age": (0, 100)}, target=("ill", ["no", "perhaps", "yes"])).to_toml(place / "c.toml")
    ndis.Ledger.create(place / "b.db", epsilon=1.0, delta=1e-6, kind="shifts")
    words = ["logistic", place / "u.csv", "--header", "--schema", place / "c.toml", "--epsilon", 0.5, "--delta", "1e-7"]
    assert "classes must be two" in call(*words, "--ledger", place / "b.db", status=2)
    assert (
        ndis.Ledger(place / "b.db").remaining()
        == ndis.Ledger.create(place / "c.db", epsilon=1.0, delta=1e-6, kind="shifts").remaining()
    )


def test_a_fit_is_saved_and_predicts(place):
    lines = [f"{i % 100},{(i % 100) / 10},{'yes' if i % 100 > 60 else 'no'}" for i in range(3000)]
    (place / "u.csv").write_text("age,spend,ill\n" + "\n".join(lines))
    ndis.Schema({"age": (0, 100)}, target=("spend", 0, 10)).to_toml(place / "n.toml")
    ndis.Schema({"age": (0, 100)}, target=("ill", bool)).to_toml(place / "c.toml")
    budget = ["--header", "--epsilon", 4, "--delta", "1e-6"]
    call("regress", place / "u.csv", "--schema", place / "n.toml", *budget, "-o", place / "n.json")
    call("logistic", place / "u.csv", "--schema", place / "c.toml", *budget, "-o", place / "c.json")
    for name, schema in (("regress", "n.toml"), ("logistic", "c.toml")):
        call(name, place / "u.csv", "--schema", place / schema, *budget, "-o", place / f"{name}.html")
        assert "<h1>A regression in numbers</h1>" in (place / f"{name}.html").read_text()
    (place / "new.csv").write_text("age\n5\n95\n?\n")
    numbers = call("predict", place / "n.json", place / "new.csv", "--header").split("\n")
    assert numbers[0] == "spend"
    assert float(numbers[1]) < 4 < 6 < float(numbers[2])
    assert numbers[3] == '""'  # an empty line would be no record
    call("predict", place / "c.json", place / "new.csv", "--header", "-o", place / "p.csv")
    assert (place / "p.csv").read_text() == 'ill\nFalse\nTrue\n""\n'
    schema = ndis.Schema({"age": (0, 100)}, target=("ill", ['no, "never"', "yes"]))
    ndis.learn.LinearModel({"age": 1.0}, -50.0, schema, {}).save(place / "q.json")
    written = call("predict", place / "q.json", place / "new.csv", "--header").split("\n")
    assert written == ["ill", '"no, ""never"""', "yes", '""', ""]
