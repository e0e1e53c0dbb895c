"""A plan: it allows what it declares and no more, in each order and under its adjacency."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import ndis
from helpers.ledgers import shift, sketch
from ndis.errors import BudgetError, ParameterError


def test_a_plan_allows_what_it_declares_and_no_more(plan):
    entry = plan.reserve("a", shift(0.25))
    plan.commit(entry)
    plan.reserve("a", shift(0.1))
    assert plan.remaining() == {"a": 0, "b": 1}
    with pytest.raises(BudgetError, match="slot 'a' is used up: all 2 releases are spent; left: 1 of 'b'"):
        plan.reserve("a", shift(0.25))
    assert plan.verify() == 3


def test_a_plan_beyond_the_budget_is_not_made(tmp_path):
    with pytest.raises(BudgetError, match="the plan must keep delta"):
        ndis.Ledger.create(tmp_path / "x.db", epsilon=1.0, delta=1e-6, plan={"a": (shift(1.0), 1)})
    assert list(tmp_path.iterdir()) == []


# Checks thm:plan.
def test_a_request_must_be_dominated_by_its_slot_in_each_order(plan):
    with pytest.raises(BudgetError, match="exceeds it in the order 'remove' at epsilon"):
        plan.reserve("a", shift(0.26))
    with pytest.raises(BudgetError, match="slot 'b'"):
        plan.reserve("b", sketch(copies=51))
    plan.reserve("b", sketch(copies=49, ratio=1.01))


def test_the_worse_order_of_a_slot_does_not_pay_for_the_other(tmp_path):
    """The slot's orders are exchanged in the request: the worse of two orders is the same, each order is not."""
    pair = ndis.GaussianPair.from_ratios(1.5, copies=3)
    slot, request = ndis.PrivacyProfile(pair), ndis.PrivacyProfile(pair.reversed())
    grid = np.linspace(0.0, 4.0, 9)
    assert np.allclose(slot.log_delta(grid), request.log_delta(grid), rtol=1e-9)
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-3, plan={"a": (slot, 1)})
    with pytest.raises(BudgetError, match="exceeds it in the order"):
        ledger.reserve("a", request)


def test_failure_probabilities_add_up_in_their_own_column(tmp_path):
    slot = shift(0.25, failure_probability=1e-7)
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=4.0, delta=1e-6, plan={"a": (slot, 3)})
    ledger.reserve("a", slot)
    ledger.reserve("a", shift(0.25, failure_probability=3e-8))
    assert Fraction(ledger.failure_probability) >= Fraction(1e-7) + Fraction(3e-8)
    assert ledger.failure_probability == pytest.approx(1.3e-7)
    with pytest.raises(BudgetError, match=r"may fail with probability 2e-07; slot 'a' allows 1e-07"):
        ledger.reserve("a", shift(0.25, failure_probability=2e-7))
    for kind in ("shifts", "renyi"):
        other = ndis.Ledger.create(tmp_path / f"{kind}.db", epsilon=4.0, delta=1e-6, kind=kind)
        with pytest.raises(ParameterError, match="no failure probability"):
            other.reserve(None, slot)


def test_promises_of_records_are_kept_with_the_guarantee(tmp_path):
    class Promising:
        max_records = 500

        def profile(self):
            return shift(0.1)

    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=4.0, delta=1e-6, plan={"a": (shift(0.1), 3)})
    assert ledger.max_records is None
    ledger.reserve("a", Promising())
    Promising.max_records = 800
    ledger.reserve("a", Promising())
    assert ledger.max_records == 500
    assert "at most 500 records" in ledger.report().to_html()


def test_adjacency_must_agree(plan, tmp_path):
    with pytest.raises(ParameterError, match="adjacency 'add-remove'"):
        plan.reserve("a", shift(0.1, adjacency="replace-one"))
    with pytest.raises(ParameterError, match="adjacency 'replace-one'"):
        ndis.Ledger.create(
            tmp_path / "x.db", epsilon=1.0, delta=1e-6, plan={"a": (shift(0.1), 1)}, adjacency="replace-one"
        )
