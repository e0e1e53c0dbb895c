"""Reserve, release, commit: mechanisms and estimators pay before they read, and once per fit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import ndis
from helpers.ledgers import Model, lifted, shift
from ndis.data import Rows
from ndis.errors import BudgetError, LedgerError, ParameterError
from ndis.gram.accumulator import GramAccumulator
from ndis.gram.sums import RecordSums
from ndis.learn._ridge import sketching
from ndis.ledger.report import STATES
from ndis.mechanisms import rows as row_mechanisms
from ndis.profile import PrivacyProfile


def test_a_release_is_reserved_committed_and_named_in_its_receipt(tmp_path):
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    ledger = ndis.Ledger.create(
        tmp_path / "x.db", epsilon=3.0, delta=1e-6, plan={"a": (mechanism, 2)}, data_name="visits"
    )
    release = ledger.release("a", mechanism, 3.0)
    assert [entry.action for entry in ledger.history()] == ["reserve", "commit"]
    first = ledger.history()[0]
    assert release.receipt.ledger == {"data_name": "visits", "entry": 1, "head": first.digest}
    assert ndis.mechanisms.mechanism.Receipt.from_json(release.receipt.to_json()) == release.receipt
    release.save(tmp_path / "release.json")
    assert type(release).load(tmp_path / "release.json").receipt == release.receipt


def test_a_charge_pays_for_one_sealed_release_of_its_mechanism(tmp_path):
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    other = ndis.GaussianMechanism.calibrated(epsilon=2.0, delta=1e-6, sensitivity=1.0)
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-6, plan={"a": (mechanism, 5)})
    with ndis.ledger.odometer() as spent, ledger.charge("a", mechanism) as charge:
        release = charge.seal(mechanism.release(3.0))
    assert (spent.releases, release.receipt.ledger["entry"]) == (1, 1)
    with pytest.raises(LedgerError, match="is used"):
        charge.seal(release)
    with pytest.raises(ParameterError, match="the mechanism that was charged"), ledger.charge("a", mechanism) as c:
        c.seal(other.release(3.0))
    with pytest.warns(ndis.NotPrivateWarning):
        seeded = mechanism.release(3.0, random_state=0)
    with pytest.raises(ParameterError, match="release must be private"), ledger.charge("a", mechanism) as c:
        c.seal(seeded)
    with ledger.charge("a", mechanism):
        pass  # what is not sealed was not released, and is spent
    states = [row["state"] for row in ledger.report().to_dict()["entries"]]
    assert states == ["released", *[STATES["reserve"]] * 3]
    assert ledger.verify() == 5


def test_a_release_serialises_its_profile_once_and_parses_no_slot(tmp_path, monkeypatch):
    mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    plan = {"a": (mechanism, 2), "b": (shift(0.1), 1)}
    ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-6, plan=plan)
    asked: list[str] = []
    write, read = PrivacyProfile.to_json, PrivacyProfile.from_json
    monkeypatch.setattr(PrivacyProfile, "to_json", lambda self: asked.append("write") or write(self))
    monkeypatch.setattr(PrivacyProfile, "from_json", lambda text: asked.append("read") or read(text))
    ndis.Ledger(tmp_path / "x.db").release("a", mechanism, 3.0)
    assert asked == ["write"]


def test_a_model_that_was_changed_spends_nothing(tmp_path):
    model = Model()
    mechanism = lifted(model)
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=9.0, delta=1e-6, plan={"a": (mechanism, 1)})
    model.sensitivity = lambda noise_variance: ndis.worst_case.envelopes.DominatingPairs(
        ndis.GaussianPair.from_ratios(1.0, shift=9.0)
    )
    with pytest.raises(ParameterError, match="noise_variance must keep delta"):
        ledger.release("a", mechanism, "fine")
    assert (ledger.remaining(), model.asked) == ({"a": 1}, 0)


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
    assert ledger.report().to_dict()["entries"][0]["state"] == STATES["read"]


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
    release = ledger.release("a", mechanism, np.eye(3))
    assert release.receipt.ledger["entry"] == 1
    release.save(tmp_path / "release")
    assert ndis.mechanisms.releases.ProjectionRelease.load(tmp_path / "release").receipt == release.receipt
    assert ledger.verify(heads={1: release.receipt.ledger["head"]}) == 2
    with pytest.raises(BudgetError):
        ledger.release("a", mechanism, np.eye(3))


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
    mechanism = sketching(models[0], columns=3, row_norm_bound=1.0, intercept=0.5)
    wide = sketching(models[2], columns=4, row_norm_bound=1.0, intercept=0.5, target_bound=0.75)
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
    with ndis.ledger.odometer() as spent:
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
    release = ledger.release("a", mechanism, np.eye(3))
    release.save(tmp_path / "gram.json")
    assert ndis.mechanisms.gram.GramRelease.load(tmp_path / "gram.json").receipt == release.receipt
    assert ledger.verify(heads={1: release.receipt.ledger["head"]}) == 2
    with pytest.raises(BudgetError):
        ledger.release("a", mechanism, np.eye(3))


@pytest.mark.filterwarnings("ignore:ledger= and slot=:DeprecationWarning")
def test_files_are_not_read_before_the_ledger_has_reserved(tmp_path, monkeypatch):
    path, data = tmp_path / "x.db", tmp_path / "data.csv"
    data.write_text("a,y\n0.5,1\n0.25,0\n")
    read = []
    known = Rows.arrays
    monkeypatch.setattr(Rows, "arrays", lambda *args, **kw: read.append(1) or known(*args, **kw))
    monkeypatch.setattr(row_mechanisms, "changed_rows", lambda *args, **kw: read.append(1) or 1)
    ndis.Ledger.create(path, epsilon=0.5, delta=1e-6, kind="shifts")
    schema = ndis.Schema({"a": (0, 1)}, target=("y", 0, 1))
    models = [
        ndis.learn.PrivateGaussianProcess(label_bound=1.0, max_records=10),
        ndis.learn.PrivateLogisticRegression(row_norm_bound=1.0, method="mean", classes=(0, 1)),
        ndis.learn.PrivateLinearRegression(schema=schema, rounds=2),
    ]

    def each(ledger):
        yield lambda: models[0].set_params(ledger=ledger).fit_data(data, target="y", header=True)
        yield lambda: models[1].set_params(ledger=ledger).fit_data(data, target="y", header=True)
        yield lambda: models[2].set_params(ledger=ledger).fit_data(data, header=True)
        yield lambda: ndis.mechanisms.rows.clipped_count(
            data, schema, epsilon=1.0, delta=1e-6, header=True, ledger=ledger
        )

    for paid in each(path):
        with pytest.raises((BudgetError, ParameterError), match=r"left|mean shift"):
            paid()
    assert not read
    assert not ndis.Ledger(path).history()
    for free in each(None):
        free()
    assert len(read) == 5  # two models read what was read from the file once more, in memory


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
