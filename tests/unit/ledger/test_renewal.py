"""A ledger is renewed once, its budget counts in full in every later total, and no plan comes for less."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from fractions import Fraction

import pytest

import ndis
from helpers.ledgers import shift, sketch
from ndis.ledger.store import Store, digest_of

NEXT = {"epsilon": 2.0, "delta": 1e-6, "plan": {"a": (shift(0.25), 1)}}


def test_the_next_ledger_holds_the_head_and_the_totals_of_the_last(plan, tmp_path):
    plan.commit(plan.reserve("a", shift(0.25)))
    second = plan.renew(tmp_path / "2.db", **NEXT)
    (period,) = second.periods
    assert (period["entry"], period["head"]) == (plan.entries(), plan.head())
    assert period["spent"]["used"] == {"a": 1}
    assert plan.verify(heads={period["entry"]: period["head"]}) == 3
    assert (second.data_name, second.adjacency) == (plan.data_name, plan.adjacency)
    assert second.verify() == 0
    assert "In words, for this period by itself: " in second.report().to_html()
    second.reserve("a", shift(0.25))
    assert second.verify() == 1


@pytest.mark.parametrize("used", [0, 1, 2])
# Checks thm:periods.
def test_budgets_add_in_full_whatever_was_used(plan, tmp_path, used):
    for _ in range(used):
        plan.reserve("a", shift(0.25))
    total = plan.renew(tmp_path / "2.db", **NEXT).total()
    assert total == {"periods": 2, "epsilon": 6.0, "delta": 2e-06, "max_records": None}


def test_sums_of_many_periods_are_rounded_up(tmp_path):
    ledger = ndis.Ledger.create(tmp_path / "0.db", epsilon=0.1, delta=1e-7, kind="shifts")
    for year in range(1, 6):
        ledger = ledger.renew(tmp_path / f"{year}.db", epsilon=0.1, delta=1e-7, kind="shifts")
    total = ledger.total()
    assert total["periods"] == 6
    assert Fraction(total["epsilon"]) >= 6 * Fraction(0.1)
    assert Fraction(total["delta"]) >= 6 * Fraction(1e-7)


def test_the_least_promise_of_all_periods_counts(plan, tmp_path):
    promising = replace_promise(plan, 40)
    assert promising.renew(tmp_path / "2.db", **NEXT).total()["max_records"] == 40


def replace_promise(ledger, records):
    """Reserve a request that relies on a promise."""
    asked = replace(ledger._asked(shift(0.25)), max_records=records)
    ledger._asked = lambda request: asked
    ledger.reserve("a", shift(0.25))
    del ledger._asked
    return ledger


@pytest.mark.parametrize("kind", ["plan", "shifts", "renyi"])
def test_a_renewed_ledger_takes_no_request_and_no_second_renewal(kind, tmp_path):
    choice = {"plan": {"a": (shift(0.25), 3)}} if kind == "plan" else {"kind": kind}
    first = ndis.Ledger.create(tmp_path / "1.db", epsilon=4.0, delta=1e-6, **choice)
    kept, dropped = first.reserve("a", shift(0.25)), first.reserve("a", shift(0.25))
    first.renew(tmp_path / "2.db", **NEXT)
    with pytest.raises(ndis.BudgetError, match="was renewed"):
        first.reserve("a", shift(0.25))
    mechanism = ndis.GaussianMechanism.with_noise(noise_std=4.1, delta=1e-6, sensitivity=1.0)
    with pytest.raises(ndis.BudgetError, match="was renewed"):
        first.release("a", mechanism, 3.0)
    with pytest.raises(ndis.LedgerError, match="renewed once"):
        first.renew(tmp_path / "3.db", **NEXT)  # the same budget under another name is a second successor
    with pytest.raises(ndis.LedgerError, match="renewed once"):
        first.renew(tmp_path / "4.db", **{**NEXT, "epsilon": 9.0})
    assert not (tmp_path / "3.db").exists()
    first.commit(kept)  # what was reserved before may still come out, or go back
    first.give_back(dropped)
    with pytest.raises(ndis.BudgetError, match="was renewed"):
        first.reserve("a", shift(0.25))
    assert first.left() == {"epsilon": 0.0, "delta": 0.0}
    assert first.verify() == 5


def test_a_mistake_does_not_close_the_old_ledger(plan, tmp_path):
    (tmp_path / "there.db").write_text("")
    with pytest.raises(ndis.ParameterError, match="new file"):
        plan.renew(tmp_path / "there.db", **NEXT)
    with pytest.raises(ndis.ParameterError, match="new file"):  # the name of a folder: nothing could ever be written
        plan.renew("", **NEXT)
    with pytest.raises(ndis.ParameterError, match="path must lie in an existing folder"):
        plan.renew(tmp_path / "nofolder" / "2.db", **NEXT)
    with pytest.raises(ndis.BudgetError, match="the plan must keep delta"):
        plan.renew(tmp_path / "2.db", **{**NEXT, "epsilon": 0.01})
    assert plan.entries() == 0


def test_a_renewal_whose_file_could_not_be_written_goes_on_as_it_was(plan, tmp_path, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(Store, "create", classmethod(lambda *_: (_ for _ in ()).throw(ndis.LedgerError("disk full"))))
        with pytest.raises(ndis.LedgerError, match="disk full"):
            plan.renew(tmp_path / "2.db", **NEXT)
    with pytest.raises(ndis.LedgerError, match="renewed once"):
        plan.renew(tmp_path / "2.db", **{**NEXT, "delta": 1e-5})
    second = plan.renew(tmp_path / "2.db", **NEXT)
    assert (plan.entries(), second.periods[0]["head"]) == (1, plan.head())


@pytest.mark.parametrize("repeat", ["x/2.db", "y/2.db", "x/3.db"])
def test_a_ledger_has_one_successor_whatever_becomes_of_its_file(plan, tmp_path, repeat):
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
    second = plan.renew(tmp_path / "x" / "2.db", **NEXT)
    with pytest.raises(ndis.ParameterError, match="new file"):
        plan.renew(tmp_path / "x" / "2.db", **NEXT)
    used = second.reserve("a", shift(0.25))
    (tmp_path / "x" / "2.db").rename(tmp_path / "moved.db")
    if repeat != "x/2.db":
        with pytest.raises(ndis.LedgerError, match="renewed once"):
            plan.renew(tmp_path / repeat, **NEXT)
        assert not (tmp_path / repeat).exists()
        return
    again = plan.renew(tmp_path / repeat, **NEXT)  # a fresh copy of the same ledger, as if an old copy was put back
    assert again.head() == used.previous
    again.reserve("a", shift(0.25))
    with pytest.raises(ndis.LedgerError, match="not the one that a receipt names"):
        again.verify(heads={used.number: used.digest})
    assert (plan.entries(), plan.verify()) == (1, 1)


def test_a_forged_request_after_the_renewal_is_found(plan, tmp_path):
    entry = plan.reserve("a", shift(0.25))
    plan.renew(tmp_path / "2.db", **NEXT)
    totals = {**entry.totals, "spent": {"used": {"a": 2}, "failure": "0"}}
    plan._store.append("reserve", entry.content, lambda before: totals)
    with pytest.raises(ndis.LedgerError, match="entry 3 of the ledger exceeds the budget"):
        plan.verify()


def test_the_next_ledger_is_an_anchor_of_the_last(plan, tmp_path):
    plan.reserve("a", shift(0.25))
    shutil.copy(tmp_path / "plan.db", tmp_path / "copy.db")
    (period,) = plan.renew(tmp_path / "2.db", **NEXT).periods
    shutil.copy(tmp_path / "copy.db", tmp_path / "plan.db")
    plan.reserve("a", shift(0.25))  # the old copy is open again
    assert plan.verify() == 2
    with pytest.raises(ndis.LedgerError, match="entry 2 of the ledger is not the one that a receipt names"):
        plan.verify(heads={period["entry"]: period["head"]})


def test_a_ledger_that_was_changed_is_not_renewed(plan, tmp_path):
    plan.reserve("a", shift(0.25))
    connection = sqlite3.connect(tmp_path / "plan.db")
    connection.execute("UPDATE entries SET time = 'never'")
    connection.commit()
    connection.close()
    with pytest.raises(ndis.LedgerError, match="entry 1 of the ledger does not fit"):
        plan.renew(tmp_path / "2.db", **NEXT)
    assert not (tmp_path / "2.db").exists()


def test_a_second_closing_entry_is_found(plan, tmp_path):
    plan.renew(tmp_path / "2.db", **NEXT)
    opens = {"opens": {"root": {"created": "x"}}}
    plan._store.append("renew", opens, lambda before: {**before.totals, "renewed": opens["opens"]})
    with pytest.raises(ndis.LedgerError, match="renewed once"):
        plan.verify()


def test_a_period_that_is_made_smaller_is_found(plan, tmp_path):
    second = plan.renew(tmp_path / "2.db", **NEXT)
    second.reserve("a", shift(0.25))
    connection = sqlite3.connect(tmp_path / "2.db")
    connection.execute("UPDATE about SET value = '[]' WHERE key = 'periods'")
    connection.commit()
    connection.close()
    changed = ndis.Ledger(tmp_path / "2.db")
    assert changed.total()["periods"] == 1
    with pytest.raises(ndis.LedgerError, match="entry 1 of the ledger does not fit"):
        changed.verify()
    assert digest_of(changed._store.about) != second._store.root


def test_the_adversary_of_the_natural_filter_gains_nothing_by_a_renewal(tmp_path):
    """He opens a plan of a mean shift, looks, and renews with the sketch or the shift that he likes best.

    The composed curve of either choice is smaller than the sum. What is printed is the sum, for both choices.
    """
    one, other = shift(0.25), sketch()
    budgets = {}
    for name, profile in (("shift", one), ("sketch", other)):
        first = ndis.Ledger.create(tmp_path / f"{name}1.db", epsilon=3.0, delta=1e-6, plan={"a": (one, 1)})
        first.reserve("a", one)
        choice = {"epsilon": 3.0, "delta": 1e-6, "plan": {"b": (profile, 1)}}
        budgets[name] = first.renew(tmp_path / f"{name}2.db", **choice).total()
    assert budgets["shift"] == budgets["sketch"] == {"periods": 2, "epsilon": 6.0, "delta": 2e-06, "max_records": None}


# ---------------------------------------------------------------------- what is left in ε and δ


def test_what_is_left_is_the_curve_of_what_may_still_come(plan):
    whole = shift(0.25).repeat(2).compose(sketch()).epsilon(1e-6)
    assert plan.left() == {"epsilon": pytest.approx(whole), "delta": 1e-6}
    plan.reserve("b", sketch())
    assert plan.left() == {"epsilon": pytest.approx(shift(0.25).repeat(2).epsilon(1e-6)), "delta": 1e-6}
    for _ in range(2):
        plan.reserve("a", shift(0.25))
    assert plan.left() == {"epsilon": 0.0, "delta": 0.0}


@pytest.mark.parametrize("kind", ["shifts", "renyi"])
def test_what_is_left_of_a_filter_falls_from_the_budget_to_nothing(kind, tmp_path):
    ledger = ndis.Ledger.create(tmp_path / "f.db", epsilon=1.0, delta=1e-6, kind=kind)
    assert ledger.left()["epsilon"] == pytest.approx(1.0)
    before = 1.0
    while True:
        try:
            ledger.reserve(None, shift(0.1))
        except ndis.BudgetError:
            break
        left = ledger.left()
        assert left["delta"] == 1e-6
        assert left["epsilon"] < before
        before = left["epsilon"]
    if kind == "shifts":  # what is left fits, and a little more does not
        largest = ledger.remaining()["largest_shift"]
        assert ledger.left()["epsilon"] == pytest.approx(shift(largest).epsilon(1e-6), rel=1e-6)
        ledger.reserve(None, shift(largest))
