"""Filters of shifts and of Rényi divergences: what they count, on the safe side."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import ndis
from helpers.ledgers import shift, sketch
from ndis.errors import BudgetError, ParameterError
from ndis.ledger.accounts import certified_log_moment, log_budget


# Checks thm:shift-filter.
def test_shifts_are_a_filter_in_the_sum_of_squares(tmp_path):
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=1.0, delta=1e-6, kind="shifts")
    whole = ledger.remaining()["largest_shift"]
    assert shift(whole).certify(1.0).upper <= 1e-6 < shift(1.001 * whole).certify(1.0).lower
    spent = Fraction(0)
    for size in (0.5, 0.4, 0.3, 0.2):
        ledger.reserve("any", shift(size * whole))
        spent += Fraction(size * whole) ** 2
    left = ledger.remaining()
    assert Fraction(left["squared_shift"]) + spent <= Fraction(whole) ** 2 * (1 + Fraction(1, 2**40))
    with pytest.raises(BudgetError, match="needs more than is left; left: squared_shift = "):
        ledger.reserve(None, shift(1.0001 * left["largest_shift"]))
    ledger.reserve(None, shift(left["largest_shift"]))
    assert ledger.verify() == 5


@pytest.mark.parametrize("request_", [sketch(), shift(0.1).subsampled(0.5)])
def test_the_filter_of_shifts_takes_shifts_only(tmp_path, request_):
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=1.0, delta=1e-6, kind="shifts")
    with pytest.raises(ParameterError, match="be a Gaussian mean shift without sampling"):
        ledger.reserve(None, request_)


def test_shifts_of_diagonal_pairs_are_counted_exactly(tmp_path):
    """The float of (3 − 0)/√7 is no exact number; the sum counts 9/7."""
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=40.0, delta=1e-6, kind="shifts")
    before = ledger.remaining()["squared_shift"]
    ledger.reserve(None, ndis.PrivacyProfile(ndis.GaussianPair.from_diagonal(3.0, 7.0, 0.0, 7.0)))
    assert before - ledger.remaining()["squared_shift"] == pytest.approx(9 / 7, rel=1e-12)


def test_renyi_counts_each_direction_and_keeps_its_order(tmp_path):
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=2.0, delta=1e-6, kind="renyi", order=9.0)
    before = ledger.remaining()
    assert before["order"] == 9.0
    ledger.reserve(None, sketch())
    after = ledger.remaining()
    pair = sketch().remove
    for way, one in (("remove", pair), ("add", pair.reversed())):
        assert before[way] - after[way] == pytest.approx(8.0 * float(one.renyi(9.0)), rel=1e-9)
    while True:
        try:
            ledger.reserve(None, sketch())
        except BudgetError:
            break
    spent = ledger.entries() * sketch().remove.renyi(9.0)
    bound = np.exp(8.0 * (spent - 2.0) + 8.0 * np.log(8.0) - 9.0 * np.log(9.0))
    assert bound <= 1e-6 * (1 + 1e-9)
    assert sketch().repeat(ledger.entries()).delta(2.0) <= 1e-6


def test_an_order_at_which_a_request_is_infinite_is_refused(tmp_path):
    wide = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.25))  # infinite from order 5 on
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=5.0, delta=1e-2, kind="renyi", order=5.0)
    with pytest.raises(BudgetError, match="infinite in the direction 'remove'"):
        ledger.reserve(None, wide)
    lower = ndis.Ledger.create(tmp_path / "y.db", epsilon=5.0, delta=1e-2, kind="renyi", order=4.5)
    lower.reserve(None, wide)


def test_sampled_mean_shifts_are_counted_by_their_moments(tmp_path):
    # E[(1 − q + qw)^2] = 1 + q²(e^{μ²} − 1), and the order "add" by a sum over a fine grid
    profile, q, m = shift(0.5).subsampled(0.5).subsampled(0.25), 0.125, 0.5
    found = certified_log_moment(profile.repeat(3), "remove", 2.0)
    exact = 3 * np.log1p(q**2 * np.expm1(m**2))
    assert float(found) == pytest.approx(exact, rel=1e-12)
    x = np.linspace(-12.0, 12.0, 20001)
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    for order in (1.25, 2.0, 9.0):
        exact = np.log(((1 - q + q * np.exp(m * x - m * m / 2)) ** (1 - order) * density).sum() * (x[1] - x[0]))
        assert float(certified_log_moment(profile, "add", order)) == pytest.approx(exact, rel=1e-9)
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=5.0, delta=1e-6, kind="renyi", order=8.0)
    for _ in range(20):
        ledger.reserve(None, profile)
    assert ledger.verify() == 20
    plain = ndis.Ledger.create(tmp_path / "y.db", epsilon=5.0, delta=1e-6, kind="renyi", order=8.0)
    for _ in range(3):
        plain.reserve(None, shift(0.5))
    with pytest.raises(BudgetError):
        plain.reserve(None, shift(0.5))


def test_other_sampled_requests_are_refused_in_words_by_the_renyi_filter(tmp_path):
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=5.0, delta=1e-2, kind="renyi")
    wide = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.01)).subsampled(0.5)
    with pytest.raises(ParameterError, match="be a mean shift if it is sampled"):
        ledger.reserve(None, wide)
    assert not ledger.history()


# Checks thm:renyi-filter.
def test_renyi_numbers_are_on_the_safe_side():
    rng = np.random.default_rng(0)
    for _ in range(40):
        ratio, m = float(np.exp(rng.normal(0, 0.3))), float(rng.normal())
        profile = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(ratio, shift=m, copies=int(rng.integers(1, 9))))
        order = 1.0 + float(rng.uniform(0.1, 0.9)) / max(ratio - 1.0, 1.0 / ratio - 1.0, 0.1)
        for way, pair in (("remove", profile.remove), ("add", profile.add)):
            exact = (order - 1.0) * float(pair.renyi(order))
            found = certified_log_moment(profile, way, order)
            assert float(found) == pytest.approx(exact, rel=1e-9)
    for order in (1.5, 2.0, 7.0):
        s = order - 1.0
        found = float(log_budget(order, 1.0, 1e-6))
        assert found - s + s * np.log(s) - order * np.log(order) == pytest.approx(np.log(1e-6), rel=1e-12)


def test_totals_stay_exact_over_many_entries(tmp_path):
    """Sums are whole numbers, so a thousand tenths are one hundred, in whatever order."""
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=60.0, delta=1e-6, kind="shifts")
    before = ledger._totals()["spent"]["spent"]
    for _ in range(60):
        ledger.reserve(None, shift(0.1))
    spent = int(ledger._totals()["spent"]["spent"], 16) - int(before, 16)
    assert Fraction(spent, 2**256) == 60 * Fraction(0.1) ** 2
    assert ledger.verify() == 60
