"""A typing error spends nothing: all that is public is checked before a ledger reserves, and reservations go back."""

from __future__ import annotations

import copy
import threading

import numpy as np
import pytest

import ndis
from helpers.command import run
from helpers.ledgers import Model, lifted, shift, sketch
from ndis.errors import BudgetError, LedgerError, ParameterError
from ndis.gram.accumulator import GramAccumulator

PUBLIC = {"epsilon": 1.0, "delta": 1e-6, "row_norm_bound": 1.0}


@pytest.fixture
def rows(tmp_path):
    (tmp_path / "rows.csv").write_text("a,y\n0.5,1\n0.25,0\n")
    return tmp_path / "rows.csv"


MISTAKES = {
    "no file": ({}, lambda rows: (rows.with_name("nofile.csv"), {"header": True})),
    "no column": ({}, lambda rows: (rows, {"header": True, "columns": ["b"]})),
    "no target column": ({"target_bound": 1.0}, lambda rows: (rows, {"header": True, "targets": ["z"]})),
    "targets of a wrong type": ({"target_bound": 1.0}, lambda rows: (rows, {"header": True, "targets": 3.5})),
    "a bound without targets": ({"target_bound": 1.0}, lambda rows: (rows, {"header": True})),
    "targets without a bound": ({}, lambda rows: (rows, {"header": True, "targets": ["y"]})),
    "no device": ({}, lambda rows: (rows, {"header": True, "device": "nope"})),
    "no progress": ({}, lambda rows: (rows, {"header": True, "progress": [1, 2]})),
    "no path": ({}, lambda rows: ("no path at all", {})),
    "an argument that there is not": ({}, lambda rows: (rows, {"headers": True})),
    "a column of the schema": ({}, lambda rows: (rows, {"header": True, "schema": ndis.Schema({"b": (0, 1)})})),
}


@pytest.mark.parametrize("kind", [ndis.GramMechanism, ndis.RandomProjection, ndis.PTRProjection])
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_the_caller_spends_nothing(name, kind, rows, tmp_path):
    bounds, mistake = MISTAKES[name]
    size = {} if kind is ndis.GramMechanism else {"sketch_size": 5}
    mechanism = kind.calibrated(**PUBLIC, **bounds, **size)
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-3, plan={"a": (mechanism, 1)})
    data, how = mistake(rows)
    with pytest.raises((ParameterError, TypeError)):
        ledger.release("a", mechanism, data, **how)
    with pytest.warns(DeprecationWarning, match="charge"), pytest.raises((ParameterError, TypeError)):
        mechanism.release(data, **how, ledger=ledger.path, slot="a")
    assert (ledger.remaining(), ledger.history()) == ({"a": 1}, [])


@pytest.mark.filterwarnings("ignore:ledger= and slot=:DeprecationWarning")
def test_a_count_of_a_column_that_is_missing_spends_nothing(rows, tmp_path):
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-3, kind="shifts")
    count = ndis.mechanisms.rows.clipped_count
    with pytest.raises(ParameterError, match="have a column 'b'"):
        count(rows, ndis.Schema({"b": (0, 1)}), epsilon=1.0, delta=1e-6, header=True, ledger=ledger.path)
    assert ledger.history() == []
    count(rows, ndis.Schema({"a": (0, 1)}), epsilon=1.0, delta=1e-6, header=True, ledger=ledger.path)
    assert [entry.action for entry in ledger.history()] == ["reserve", "commit"]


def test_a_command_with_a_typing_error_spends_nothing(rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mechanism = ndis.RandomProjection.calibrated(**PUBLIC, sketch_size=5)
    ledger = ndis.Ledger.create("x.ledger", epsilon=9.0, delta=1e-3, plan={"a": (mechanism, 1)})
    budget = ("--epsilon", 1, "--delta", 1e-6, "--sketch-size", 5, "--row-norm-bound", 1, "-o", "out")
    pay = ("--ledger", "x.ledger", "--slot", "a")
    for words in (
        ("nofile.csv", "--header"),
        (rows, "--header", "--columns", "z"),
        (rows, "--header", "--target", "y"),
    ):
        assert run("sketch", *words, *budget, *pay).exit_code == 2
        assert ledger.history() == []
    assert run("sketch", rows, "--header", *budget, *pay).exit_code == 0
    assert ledger.remaining() == {"a": 0}


def test_the_reservation_is_written_before_a_cell_is_read(rows, tmp_path, monkeypatch):
    mechanism = ndis.GramMechanism.calibrated(**PUBLIC)
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-3, plan={"a": (mechanism, 2)})
    seen, known = [], GramAccumulator.update
    monkeypatch.setattr(
        GramAccumulator, "update", lambda *a, **k: seen.append([e.action for e in ledger.history()]) or known(*a, **k)
    )
    ledger.release("a", mechanism, rows, header=True)
    assert seen == [["reserve"]]
    monkeypatch.setattr(GramAccumulator, "update", lambda *a, **k: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        ledger.release("a", mechanism, rows, header=True)
    assert ledger.remaining() == {"a": 0}  # it had started to read


def test_a_mechanism_of_others_is_reserved_before_it_is_called(tmp_path):
    class Own:
        adjacency = "add-remove"

        def profile(self):
            return shift(0.25)

        def release(self, data):
            raise ValueError("it may have read")

    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-3, plan={"a": (Own(), 1)})
    with pytest.raises(ValueError, match="may have read"):
        ledger.release("a", Own(), None)
    assert ledger.remaining() == {"a": 0}


def test_a_release_that_announces_nothing_is_reserved_before_it_comes_out(tmp_path):
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-3, plan={"a": (mechanism, 1)})
    how = {"ledger": tmp_path / "x.db", "slot": "a", "announced": True}
    assert ndis.ledger.pay(mechanism, lambda: "silent", **how) == "silent"
    assert [entry.action for entry in ndis.Ledger(tmp_path / "x.db").history()] == ["reserve", "commit"]
    with pytest.raises(BudgetError):
        ndis.ledger.pay(mechanism, lambda: pytest.fail("it must not run"), **how)


@pytest.mark.parametrize("copied", [False, True])
def test_nothing_is_given_back_after_a_release_of_a_copy_or_of_another_thread(tmp_path, copied):
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-3, plan={"a": (mechanism, 1)})
    with ledger.charge("a", mechanism) as charge:
        if copied:
            copy.copy(mechanism).release(1.0)
        else:
            other = threading.Thread(target=mechanism.release, args=(1.0,))
            other.start()
            other.join()
        with pytest.raises(ndis.LedgerError):
            charge.give_back()
    assert ledger.remaining() == {"a": 0}


def test_the_right_to_give_back_ends_with_the_block(tmp_path):
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-3, plan={"a": (mechanism, 1)})
    with ledger.charge("a", mechanism) as charge:
        pass
    mechanism.release(1.0)
    with pytest.raises(LedgerError, match="before data are read"):
        charge.give_back()
    assert ledger.remaining() == {"a": 0}


# ---------------------------------------------------------------------- giving back


@pytest.mark.parametrize("kind", ["plan", "shifts", "renyi"])
def test_what_is_given_back_is_as_if_never_asked(kind, tmp_path):
    how = {"plan": {"a": (shift(0.25), 2)}} if kind == "plan" else {"kind": kind}
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=4.0, delta=1e-6, **how)
    before = ledger.remaining()
    kept = ledger.reserve("a", shift(0.2))
    after = ledger.remaining()
    entry = ledger.give_back(ledger.reserve("a", shift(0.25)))
    assert (entry.action, ledger.remaining()) == ("return", after)
    ledger.commit(kept)
    assert ledger.verify() == 4
    assert [row["state"] for row in ledger.releases()] == ["released", "given back, nothing was read"]
    ledger.give_back(ledger.reserve("a", shift(0.25)))
    assert ledger.remaining() == after != before


def test_only_the_owner_gives_back_and_only_once(plan):
    entry = plan.reserve("a", shift(0.25))
    with pytest.raises(LedgerError, match="only by its owner"):
        ndis.Ledger(plan.path).give_back(entry)
    plan.give_back(entry)
    with pytest.raises(LedgerError, match="only by its owner"):
        plan.give_back(entry)
    with pytest.raises(LedgerError, match="is used"):
        plan.commit(entry)
    done = plan.reserve("a", shift(0.25))
    plan.commit(done)
    with pytest.raises(LedgerError, match="only by its owner"):
        plan.give_back(done)
    assert plan.verify() == 4


def test_nothing_is_given_back_once_the_mechanism_reads(tmp_path):
    mechanism = lifted(Model())
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-3, plan={"a": (mechanism, 2)})
    with ledger.charge("a", mechanism) as charge:
        charge.give_back()
    with ledger.charge("a", mechanism) as charge:
        mechanism.release("fine")
        with pytest.raises(LedgerError, match="before data are read"):
            charge.give_back()
    assert ledger.remaining() == {"a": 1}
    assert ledger.verify() == 3


def test_a_forged_return_is_found(plan):
    entry = plan.reserve("b", sketch())
    content = {"reservation": entry.number, "digest": entry.digest, "secret": "0" * 64}
    totals = {**entry.totals, "spent": plan._account.give_back(entry.totals["spent"], entry.content["cost"])}
    plan._store.append("return", content, lambda before: totals, reservation=entry.number)
    with pytest.raises(LedgerError, match="entry 2 of the ledger gives back what it does not own"):
        plan.verify()


def test_the_record_says_who_asked_and_what_for(plan):
    with ndis.ledger.on_behalf(by="research"), ndis.ledger.on_behalf(purpose="monthly"):
        plan.reserve("a", shift(0.25))
    plan.reserve("a", shift(0.25))
    first, second = plan.releases()
    assert (first["by"], first["purpose"], second["by"]) == ("research", "monthly", None)
    assert first["host"] == second["host"] is not None
    with pytest.raises(ParameterError, match="by must be a text"), ndis.ledger.on_behalf(by=3):
        pass


@pytest.mark.parametrize("method", ["rounds", "posterior", "mean"])
def test_a_classification_of_two_targets_spends_nothing(method, tmp_path):
    """The lifted methods took the first target and spent."""
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-3, kind="shifts")
    (tmp_path / "rows.csv").write_text("a,b,y\n0.5,0,1\n")
    model = ndis.learn.PrivateLogisticRegression(row_norm_bound=1.0, classes=(0, 1), method=method, ledger=ledger.path)
    with pytest.raises(ParameterError, match="targets must be one column of classes"):
        model.fit_data(tmp_path / "rows.csv", header=True, target=["b", "y"])
    assert ledger.history() == []


def test_rows_and_weights_that_are_none_spend_nothing(tmp_path):
    """Python's own errors of their length came out before their types were refused."""
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-3, kind="shifts")
    bounds = {"row_norm_bound": 1.0, "target_bound": 1.0, "weight_bound": 1.0}
    model, y = ndis.learn.PrivateLinearRegression(**bounds, ledger=ledger.path), np.zeros(3)
    for rows, weights in ((None, None), (3, None), ((i for i in range(3)), None), (y[:, None], np.array(2.0))):
        with pytest.raises(ParameterError, match=r"(X|data|sample_weight) must"):
            model.fit(rows, y, sample_weight=weights)
    assert ledger.history() == []


@pytest.mark.parametrize("records", [1e-308, 0.5])
def test_less_than_one_record_spends_nothing(records, tmp_path):
    """Moments overflowed after the release."""
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-3, kind="shifts")
    model = ndis.learn.PrivateCovariance(row_norm_bound=1.0, records=records, ledger=ledger.path)
    with pytest.raises(ParameterError, match="records must be "):
        model.fit(np.eye(3))
    assert ledger.history() == []


def test_one_weight_that_is_no_float_spends_nothing(tmp_path):
    """It was read after the reservation."""
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-3, kind="shifts")
    bounds = {"row_norm_bound": 1.0, "target_bound": 1.0, "weight_bound": 1.0}
    for weight in (10**400, np.nan, np.inf):
        with pytest.raises(ParameterError, match="sample_weight must be"):
            ndis.learn.PrivateLinearRegression(**bounds, ledger=ledger.path).fit(np.eye(3), [1, 0, 1], weight)
    assert ledger.history() == []


def test_a_title_that_is_no_text_loses_no_release(rows, tmp_path):
    """A byte of a word at the shell that is no UTF-8 could not be written, when the release had been paid."""
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-3, kind="shifts", data_name="\udcff<b>")
    (tmp_path / "s.toml").write_text("[columns]\na = { low = 0, high = 1 }\n")
    how = ("--header", "--schema", tmp_path / "s.toml", "--epsilon", 1, "--delta", 1e-6, "--ledger", ledger.path)
    done = run("describe", rows, *how, "--title", "\udcff<b>", "--by", "\udcff<b>", "-o", tmp_path / "page.html")
    assert (done.exit_code, [entry.action for entry in ledger.history()]) == (0, ["reserve", "commit"])
    assert run("ledger", "export", ledger.path, "-o", tmp_path / "ledger.html").exit_code == 0
    for page in ("page.html", "ledger.html"):
        assert "\\udcff&lt;b&gt;" in (tmp_path / page).read_text(encoding="utf-8")


def test_no_setting_of_numpy_loses_a_release(tmp_path):
    """What follows a release underflows: numpy.seterr made it raise after the reservation."""
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=99.0, delta=1e-3, kind="shifts")
    x, schema = np.full((20, 1), 0.5), ndis.Schema({"a": (0, 1)}, target=("y", 0, 1))
    with np.errstate(all="raise"):
        for seed in range(8):
            model = ndis.learn.PrivateLinearRegression(schema=schema, random_state=seed)
            with pytest.warns(ndis.errors.NotPrivateWarning):
                model.fit({"a": x[:, 0], "y": [0.0] * 20})
        ndis.describe({"a": x[:, 0], "y": x[:, 0]}, schema=schema, epsilon=1.0, delta=1e-6, ledger=ledger.path)
    assert [entry.action for entry in ledger.history()] == ["reserve", "commit"]
