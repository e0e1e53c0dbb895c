"""The ledger: what it allows, what it refuses, what it notices."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

import ndis
from helpers.ledgers import Model, lifted, shift, sketch
from helpers.places import ROOT
from ndis.errors import BudgetError, LedgerError, ParameterError
from ndis.gram.accumulator import GramAccumulator
from ndis.gram.sums import RecordSums
from ndis.learn import _gp, _logistic, _tables
from ndis.ledger import store as store_module
from ndis.ledger.moments import certified_log_moment, log_budget
from ndis.mechanisms import clipping


@pytest.fixture
def plan(tmp_path) -> ndis.Ledger:
    slots = {"a": (shift(0.25), 2), "b": (sketch(), 1)}
    return ndis.Ledger.create(tmp_path / "plan.db", epsilon=4.0, delta=1e-6, plan=slots, data_name="visits")


# ---------------------------------------------------------------------- a plan


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


# ---------------------------------------------------------------------- filters


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


# ---------------------------------------------------------------------- reserve, release, commit


def test_a_release_is_reserved_committed_and_named_in_its_receipt(tmp_path):
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    ledger = ndis.Ledger.create(
        tmp_path / "x.db", epsilon=3.0, delta=1e-6, plan={"a": (mechanism, 2)}, data_name="visits"
    )
    release = ledger.release("a", mechanism, 3.0)
    assert [entry.action for entry in ledger.history()] == ["reserve", "commit"]
    first = ledger.history()[0]
    assert release.receipt.ledger == {"data_name": "visits", "entry": 1, "head": first.digest}
    assert ndis.mechanisms.base.Receipt.from_json(release.receipt.to_json()) == release.receipt
    release.save(tmp_path / "release.json")
    assert type(release).load(tmp_path / "release.json").receipt == release.receipt


def test_data_is_not_read_if_the_budget_does_not_cover_it(tmp_path):
    model = Model()
    mechanism = lifted(model)
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=1.0, delta=1e-6, plan={"a": (mechanism, 1)})
    ledger.release("a", mechanism, "fine")
    assert model.asked == 1
    with pytest.raises(BudgetError, match="left: nothing"):
        ledger.release("a", mechanism, "fine")
    assert model.asked == 1


def test_what_is_reserved_and_not_released_counts_as_spent(tmp_path):
    mechanism = lifted(Model())
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=3.0, delta=1e-6, plan={"a": (mechanism, 2)})
    with pytest.raises(ValueError, match="no"):
        ledger.release("a", mechanism, "broken")
    assert ledger.remaining() == {"a": 1}
    assert ledger.report().to_dict()["entries"][0]["state"] == "reserved, counts as spent"


def test_a_seeded_release_is_no_release_of_a_ledger(tmp_path):
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=1.0, delta=1e-6, plan={"a": (mechanism, 1)})
    with pytest.warns(ndis.NotPrivateWarning), pytest.raises(ParameterError, match="random_state must be None"):
        ledger.release("a", mechanism, 3.0, random_state=0)
    assert ledger.remaining() == {"a": 1}


def test_a_reservation_is_committed_once(plan, tmp_path):
    entry = plan.reserve("a", shift(0.25))
    plan.commit(entry)
    with pytest.raises(LedgerError, match="is used"):
        plan.commit(entry)
    other = ndis.Ledger.create(tmp_path / "other.db", epsilon=4.0, delta=1e-6, plan={"a": (shift(0.25), 1)})
    other.reserve("a", shift(0.2))
    with pytest.raises(LedgerError, match="needs a reservation of this ledger"):
        other.commit(entry)
    assert plan.verify() == 2


def test_a_slot_without_a_ledger_is_refused():
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    with pytest.raises(ParameterError, match="slot must come with a ledger"):
        mechanism.release(1.0, slot="a")


@pytest.mark.parametrize(
    "mechanism",
    [
        ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=8, row_norm_bound=1.0),
        ndis.PoissonProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=8, row_norm_bound=1.0, rate=0.5),
        ndis.PTRProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=8, row_norm_bound=1.0, test_noise_std=10.0),
    ],
)
def test_projections_pay_with_their_own_slot(tmp_path, mechanism):
    path = tmp_path / "x.db"
    ledger = ndis.Ledger.create(path, epsilon=1.0, delta=1e-6, plan={"a": (mechanism, 1)})
    release = mechanism.release(np.eye(3), ledger=path, slot="a")
    assert release.receipt.ledger["entry"] == 1
    release.save(tmp_path / "release")
    assert ndis.ProjectionRelease.load(tmp_path / "release").receipt == release.receipt
    assert ledger.verify(heads={1: release.receipt.ledger["head"]}) == 2
    with pytest.raises(BudgetError):
        mechanism.release(np.eye(3), ledger=path, slot="a")


def test_estimators_take_a_ledger_and_still_clone_and_pickle(tmp_path):
    from sklearn.base import clone

    path = tmp_path / "x.db"
    public = {"epsilon": 1.0, "delta": 1e-6, "row_norm_bound": 1.0, "sketch_size": 30}
    rows, y = np.eye(4)[:, :2], np.ones(4)
    models = [
        ndis.learn.PrivateCovariance(**public, method="sketch", ledger=path, slot="a"),
        ndis.learn.PrivatePCA(**public, method="sketch", ledger=path, slot="a"),
        ndis.learn.PrivateRidge(**public, target_bound=1.0, ledger=path, slot="b"),
    ]
    mechanism = models[0]._calibrate(columns=3, row_norm_bound=1.0, intercept=0.5)
    wide = models[2]._calibrate(columns=4, row_norm_bound=1.0, intercept=0.5, target_bound=0.75)
    plan = {"a": (mechanism, 2), "b": (wide, 1)}
    ledger = ndis.Ledger.create(path, epsilon=4.0, delta=1e-5, plan=plan, data_name="rows")
    for number, model in enumerate(models):
        copy = pickle.loads(pickle.dumps(clone(model)))
        assert (copy.ledger, copy.slot) == (path, model.slot)
        copy.fit(rows, y)
        assert copy.receipt_.ledger["entry"] == 2 * number + 1
    with pytest.raises(BudgetError):
        clone(models[0]).fit(rows)
    assert ledger.verify() == 6


def estimators(adjacency: str) -> list:
    public = {"row_norm_bound": 1.0, "adjacency": adjacency}
    return [
        ndis.learn.PrivateCovariance(**public),
        ndis.learn.PrivatePCA(**public),
        ndis.learn.PrivateLinearRegression(**public, target_bound=1.0, rounds=2),
        ndis.learn.PrivateLinearRegression(**public, target_bound=1.0, method="gram"),
        ndis.learn.PrivateLogisticRegression(**public, classes=(0, 1), rounds=2),
    ]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("index", range(5))
def test_one_entry_pays_for_all_releases_of_a_fit(tmp_path, index, adjacency):
    model, path = estimators(adjacency)[index], tmp_path / "x.db"
    rows, y = np.eye(4)[:, :2], np.array([0, 1, 0, 1])
    public = model.fit(np.zeros((1, 2)), np.zeros(1)).mechanism_  # it depends on public parameters only
    plan = {"a": (public, 1)}
    ledger = ndis.Ledger.create(path, epsilon=1.0, delta=1e-6, plan=plan, adjacency=adjacency)
    model.set_params(ledger=path, slot="a")
    with ndis.odometer() as spent:
        model.fit(rows, y)
    assert [entry.action for entry in ledger.history()] == ["reserve", "commit"]
    assert model.receipt_.ledger == {"data_name": ledger.data_name, "entry": 1, "head": ledger.history()[0].digest}
    assert ledger.verify(heads={1: model.receipt_.ledger["head"]}) == 2
    assert spent.releases == 1
    assert spent.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("index", range(5))
def test_a_fit_beyond_the_budget_reads_no_record(tmp_path, index, monkeypatch):
    model, path = estimators("add-remove")[index], tmp_path / "x.db"
    ndis.Ledger.create(path, epsilon=0.5, delta=1e-6, kind="shifts")
    read = []
    for place, name in ((RecordSums, "_pass"), (GramAccumulator, "update")):
        known = getattr(place, name)
        monkeypatch.setattr(place, name, lambda *args, known=known, **kw: read.append(1) or known(*args, **kw))
    model.fit(np.eye(4)[:, :2], np.array([0, 1, 0, 1]))
    assert read
    read.clear()
    model.set_params(ledger=path)
    with pytest.raises(BudgetError, match="left"):
        model.fit(np.eye(4)[:, :2], np.array([0, 1, 0, 1]))
    assert not read
    assert not ndis.Ledger(path).history()


def test_a_gram_matrix_pays_and_its_file_keeps_the_seal(tmp_path):
    mechanism = ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, row_norm_bound=1.0)
    path = tmp_path / "x.db"
    ledger = ndis.Ledger.create(path, epsilon=1.0, delta=1e-6, plan={"a": (mechanism, 1)})
    release = mechanism.release(np.eye(3), ledger=path, slot="a")
    release.save(tmp_path / "gram.json")
    assert ndis.GramRelease.load(tmp_path / "gram.json").receipt == release.receipt
    assert ledger.verify(heads={1: release.receipt.ledger["head"]}) == 2
    with pytest.raises(BudgetError):
        mechanism.release(np.eye(3), ledger=path, slot="a")


def test_files_are_not_read_before_the_ledger_has_reserved(tmp_path, monkeypatch):
    path, data = tmp_path / "x.db", tmp_path / "data.csv"
    data.write_text("a,y\n0.5,1\n0.25,0\n")
    read = []
    for module in (_gp, _logistic):
        known = module.in_memory
        monkeypatch.setattr(module, "in_memory", lambda *args, known=known, **kw: read.append(1) or known(*args, **kw))
    for module in (_tables, clipping):
        monkeypatch.setattr(module, "changed_rows", lambda *args, **kw: read.append(1) or 1)
    ndis.Ledger.create(path, epsilon=0.5, delta=1e-6, kind="shifts")
    schema = ndis.Schema({"a": (0, 1)}, target=("y", 0, 1))
    models = [
        ndis.learn.PrivateGaussianProcess(label_bound=1.0, max_records=10),
        ndis.learn.PrivateLogisticRegression(row_norm_bound=1.0, method="mean", classes=(0, 1)),
        ndis.learn.PrivateLinearRegression(schema=schema, rounds=2, count_clipped=True),
    ]

    def each(ledger):
        yield lambda: models[0].set_params(ledger=ledger).fit_data(data, target="y", header=True)
        yield lambda: models[1].set_params(ledger=ledger).fit_data(data, target="y", header=True)
        yield lambda: models[2].set_params(ledger=ledger).fit_data(data, header=True)
        yield lambda: ndis.clipped_count(data, schema, epsilon=1.0, delta=1e-6, header=True, ledger=ledger)

    for paid in each(path):
        with pytest.raises((BudgetError, ParameterError), match=r"left|mean shift"):
            paid()
    assert not read
    assert not ndis.Ledger(path).history()
    for free in each(None):
        free()
    assert len(read) == 4


def test_a_gaussian_process_takes_a_ledger(tmp_path):
    path = tmp_path / "x.db"
    model = ndis.learn.PrivateGaussianProcess(label_bound=1.0, max_records=10, query=[[0.0, 0.0]])
    rows, y = np.eye(4)[:, :2], np.array([0.0, 1.0, 0.0, 1.0])
    mechanism = model.fit(rows, y).mechanism_
    whole = mechanism.profile().compose().epsilon(1e-6)
    ledger = ndis.Ledger.create(path, epsilon=1.1 * whole, delta=1e-6, plan={"a": (mechanism, 1)})
    model.set_params(ledger=path, slot="a").fit(rows, y)
    assert model.receipt_.ledger["entry"] == 1
    assert ledger.max_records == 10
    with pytest.raises(BudgetError):
        model.fit(rows, y)


@pytest.mark.parametrize("method", ["mean", "posterior"])
def test_lifted_estimators_take_a_ledger(tmp_path, method):
    path = tmp_path / "x.db"
    model = ndis.learn.PrivateLogisticRegression(
        row_norm_bound=1.0,
        l2_penalty=5.0,
        classes=(0, 1),
        method=method,
        bound="renyi",
        ledger=path,
        slot="a",
        max_records=100,
    )
    rows, y = np.eye(4)[:, :2], np.array([0, 1, 0, 1])
    drawn = "mean" if method == "mean" else "draw"
    public = ndis.models.BohningLogistic(
        l2_penalty=5.0, row_norm_bound=1.0, intercept=0.5, max_records=100, release=drawn
    )
    mechanism = ndis.lift(public, epsilon=1.0, delta=1e-6, bound="renyi")
    whole = mechanism.profile().compose().epsilon(1e-6)
    ledger = ndis.Ledger.create(path, epsilon=1.1 * whole, delta=1e-6, plan={"a": (mechanism, 1)})
    model.fit(rows, y)
    assert model.receipt_.ledger["entry"] == 1
    assert ledger.max_records == 100
    with pytest.raises(BudgetError):
        model.fit(rows, y)


# ---------------------------------------------------------------------- what it notices


def spend(ledger: ndis.Ledger) -> dict[int, str]:
    entries = []
    for name, request in (("a", shift(0.25)), ("a", shift(0.1)), ("b", sketch())):
        entries.append(ledger.reserve(name, request))
        ledger.commit(entries[-1])
    return {entry.number: entry.digest for entry in entries}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("UPDATE entries SET time = '2000-01-01' WHERE number = 2", "entry 2 .* does not fit the chain"),
        ("UPDATE entries SET totals = replace(totals, '2', '1') WHERE number = 3", "entry 3 .* does not fit the chain"),
        ("DELETE FROM entries WHERE number = 3", "entry 3 .* does not fit the chain"),
        (
            "UPDATE entries SET number = 99 WHERE number = 2; UPDATE entries SET number = 2 WHERE number = 4;"
            "UPDATE entries SET number = 4 WHERE number = 99",
            "entry 2 .* does not fit the chain",
        ),
        ("UPDATE about SET value = '9.0' WHERE key = 'epsilon'", "entry 1 .* does not fit the chain"),
        ("UPDATE profiles SET json = replace(json, '0.25', '0.75')", "does not have the digest"),
    ],
)
def test_a_changed_file_is_found(plan, sql, message):
    spend(plan)
    assert plan.verify() == 6
    with sqlite3.connect(plan.path) as connection:
        connection.executescript(sql)
    connection.close()
    with pytest.raises(LedgerError, match=message):
        ndis.Ledger(plan.path).verify()


def test_an_end_that_was_cut_off_is_found_with_a_receipt(plan):
    heads = spend(plan)
    with sqlite3.connect(plan.path) as connection:
        connection.execute("DELETE FROM entries WHERE number > 4")
    connection.close()
    assert ndis.Ledger(plan.path).verify() == 4  # nothing in the file tells of it
    with pytest.raises(LedgerError, match="entry 5 of the ledger is missing: a receipt names it"):
        ndis.Ledger(plan.path).verify(heads=heads)


def test_a_history_that_was_written_again_is_found_with_a_receipt(plan, tmp_path):
    """Whoever owns the file can compute a whole chain anew; only what others hold tells."""
    heads = spend(plan)
    slots = {"a": (shift(0.25), 2), "b": (sketch(), 1)}
    again = ndis.Ledger.create(tmp_path / "again.db", epsilon=4.0, delta=1e-6, plan=slots, data_name="visits")
    spend(again)
    assert again.verify() == 6
    with pytest.raises(LedgerError, match="entry 1 of the ledger is not the one that a receipt names"):
        again.verify(heads=heads)


def test_a_chain_computed_anew_over_an_overspent_plan_is_found(plan):
    """A forger who keeps the chain consistent still cannot have more releases than the plan has."""
    entry = plan.reserve("a", shift(0.25))
    store = plan._store
    for _ in range(2):
        store.append("reserve", lambda before: (entry.content, before.totals))
    with pytest.raises(LedgerError, match="entry 2 of the ledger has wrong totals"):
        plan.verify()


def test_a_forged_cost_is_found(tmp_path):
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=1.0, delta=1e-6, kind="shifts")
    entry = ledger.reserve(None, shift(0.1))
    cheap = {**entry.content, "cost": {"spent": "1"}}
    ledger._store.append("reserve", lambda before: (cheap, ledger._after(before.totals, cheap)))
    with pytest.raises(LedgerError, match="entry 2 of the ledger has a wrong cost"):
        ledger.verify()


# ---------------------------------------------------------------------- files


def test_an_existing_file_is_never_touched(tmp_path):
    path = tmp_path / "x.db"
    path.write_text("mine")
    with pytest.raises(ParameterError, match="path must be a new file"):
        ndis.Ledger.create(path, epsilon=1.0, delta=1e-6, kind="shifts")
    assert path.read_text() == "mine"
    with pytest.raises(LedgerError):
        ndis.Ledger(path)
    with pytest.raises(ParameterError, match="be an existing ledger file"):
        ndis.Ledger(tmp_path / "nothing.db")
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE x (y)").connection.close()
    with pytest.raises(LedgerError, match="no ledger of this package"):
        ndis.Ledger(tmp_path / "other.db")


def test_a_read_only_file_releases_nothing(tmp_path):
    model = Model()
    mechanism = lifted(model)
    path = tmp_path / "x.db"
    ledger = ndis.Ledger.create(path, epsilon=1.0, delta=1e-6, plan={"a": (mechanism, 1)})
    path.chmod(0o400)
    with pytest.raises(LedgerError, match="read-only file"):
        ledger.release("a", mechanism, "fine")
    assert model.asked == 0
    path.chmod(0o600)
    assert ledger.remaining() == {"a": 1}


FULL = """
import resource, sys
sys.path.insert(0, {tests!r})
from helpers.ledgers import Model, lifted
import ndis
model = Model()
mechanism = lifted(model)
ledger = ndis.Ledger({path!r})
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))
try:
    ledger.release("a", mechanism, "fine")
except ndis.LedgerError as error:
    print(model.asked, "LedgerError", "could not be read or written" in str(error))
"""


@pytest.mark.parametrize("limit", [100, 4096, 12288])
def test_a_full_disk_releases_nothing(tmp_path, limit):
    """A limit on the size of files makes every write beyond it fail, as a full disk does; the last one in mid-entry."""
    path = tmp_path / "x.db"
    ledger = ndis.Ledger.create(path, epsilon=1.0, delta=1e-6, plan={"a": (lifted(Model()), 1)})
    code = FULL.format(tests=str(ROOT / "tests"), path=str(path), limit=limit)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["0", "LedgerError", "True"], done.stderr
    assert ledger.remaining() == {"a": 1}
    assert ledger.verify() == 0


def test_a_backup_is_whole_and_new(plan, tmp_path):
    spend(plan)
    plan.backup(tmp_path / "copy.db")
    copy = ndis.Ledger(tmp_path / "copy.db")
    assert copy.verify() == 6
    assert copy.head() == plan.head()
    with pytest.raises(ParameterError, match="new file"):
        plan.backup(tmp_path / "copy.db")


def test_a_later_format_is_refused_and_an_older_one_is_migrated(plan, monkeypatch):
    heads = spend(plan)
    monkeypatch.setattr(store_module, "FORMAT_VERSION", 2)
    with pytest.raises(LedgerError, match=r"has format version 1; .* needs 2; migrate it"):
        ndis.Ledger(plan.path)
    with pytest.raises(LedgerError, match="nothing leads from there"):
        ndis.Ledger.migrate(plan.path)
    monkeypatch.setitem(store_module._MIGRATIONS, 1, "CREATE TABLE notes (text TEXT); CREATE INDEX n ON notes (text);")
    migrated = ndis.Ledger.migrate(plan.path)
    assert migrated.verify(heads=heads) == 6
    assert ndis.Ledger.migrate(plan.path).head() == plan.head()
    monkeypatch.undo()
    with pytest.raises(LedgerError, match=r"has format version 2; .* needs 1$"):
        ndis.Ledger(plan.path)


def test_a_migration_that_fails_changes_nothing(plan, monkeypatch):
    spend(plan)
    monkeypatch.setattr(store_module, "FORMAT_VERSION", 2)
    monkeypatch.setitem(store_module._MIGRATIONS, 1, "CREATE TABLE notes (text TEXT); CREATE TABLE entries (x);")
    with pytest.raises(LedgerError):
        ndis.Ledger.migrate(plan.path)
    monkeypatch.undo()
    assert ndis.Ledger(plan.path).verify() == 6


def test_the_report_has_no_private_value_and_escapes_names(tmp_path):
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    ledger = ndis.Ledger.create(
        tmp_path / "x.db", epsilon=3.0, delta=1e-6, plan={"<b>a</b>": (mechanism, 2)}, data_name="<script>x</script>"
    )
    secret = 123456.789
    release = ledger.release("<b>a</b>", mechanism, secret)
    report = ledger.report()
    page, text = report.to_html(), report.to_json()
    for private in (str(secret), repr(float(release.values)), str(float(release.values))[:8]):
        assert private not in page
        assert private not in text
    assert "<script" not in page
    assert "<b>a</b>" not in page
    found = json.loads(text)
    assert found["remaining"] == {"<b>a</b>": 1}
    assert found["entries"][0]["state"] == "released"
    whole = mechanism.profile().repeat(2)
    row = found["curve"][40]
    assert row["remove"] == pytest.approx(whole.delta(row["epsilon"], order="remove"), rel=1e-9)


def test_processes_that_race_and_are_killed_leave_a_sound_ledger():
    """The short form of `make ledger-race`."""
    command = [sys.executable, "-m", "benchmarks.ledger_race", "--rounds", "2", "--processes", "64"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "2 rounds, 64 processes each" in done.stdout


def test_totals_stay_exact_over_many_entries(tmp_path):
    """Sums are whole numbers, so a thousand tenths are one hundred, in whatever order."""
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=60.0, delta=1e-6, kind="shifts")
    before = ledger._totals()["spent"]["spent"]
    for _ in range(60):
        ledger.reserve(None, shift(0.1))
    spent = int(ledger._totals()["spent"]["spent"], 16) - int(before, 16)
    assert Fraction(spent, 2**256) == 60 * Fraction(0.1) ** 2
    assert ledger.verify() == 60
