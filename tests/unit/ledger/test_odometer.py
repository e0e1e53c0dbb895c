"""The odometer counts what this process releases, and says what it does not count."""

from __future__ import annotations

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.model_selection import GridSearchCV

import ndis
from ndis.errors import ParameterError


def mechanism(**options) -> ndis.GaussianMechanism:
    return ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0, **options)


def test_it_counts_releases_inside_the_block_only():
    one = mechanism()
    one.release(1.0)
    with ndis.ledger.odometer() as spent:
        for _ in range(3):
            one.release(1.0)
        with ndis.ledger.odometer() as inner:
            one.release(1.0)
    one.release(1.0)
    assert (spent.releases, inner.releases) == (4, 1)
    assert spent.epsilon(1e-6) == pytest.approx(one.profile().repeat(4).epsilon(1e-6))
    assert inner.delta(1.0) == pytest.approx(one.profile().delta(1.0))


def test_nothing_costs_nothing():
    with ndis.ledger.odometer() as spent:
        pass
    assert (spent.releases, spent.epsilon(1e-6), spent.delta(0.0)) == (0, 0.0, 0.0)
    with pytest.raises(ParameterError, match="have counted a release"):
        spent.profile()


@pytest.mark.filterwarnings("ignore:a score is exact")
def test_a_grid_search_of_ten_fits_is_not_one_epsilon():
    rng = np.random.default_rng(0)
    rows, y = rng.uniform(-1, 1, size=(60, 2)), rng.uniform(-1, 1, size=60)
    model = ndis.learn.PrivateRidge(row_norm_bound=1.5, target_bound=1.0, sketch_size=20)
    with ndis.ledger.odometer() as spent:
        GridSearchCV(model, {"alpha": [0.1, 1.0, 10.0]}, cv=3).fit(rows, y)
    assert spent.releases == 10
    assert spent.epsilon(1e-6) > 2.5
    said = str(spent)
    assert "valid only if sizes did not depend on answers" in said
    assert "best_params_" in said
    assert "other processes" in said


def test_threads_of_joblib_are_counted():
    one = mechanism()
    with ndis.ledger.odometer() as spent:
        Parallel(n_jobs=4, backend="threading")(delayed(one.release)(1.0) for _ in range(12))
    assert spent.releases == 12


def test_relations_are_not_mixed():
    with ndis.ledger.odometer() as spent:
        mechanism().release(1.0)
        mechanism(adjacency="replace-one").release(1.0)
    assert spent.releases == 2
    with pytest.raises(ParameterError, match="adjacency"):
        spent.epsilon(1e-6)


def test_a_release_that_a_ledger_refuses_is_not_counted(tmp_path):
    one = mechanism()
    ledger = ndis.Ledger.create(tmp_path / "x.db", epsilon=1.0, delta=1e-6, plan={"a": (one, 1)})
    with ndis.ledger.odometer() as spent:
        ledger.release("a", one, 1.0)
        with pytest.raises(ndis.BudgetError):
            ledger.release("a", one, 1.0)
    assert spent.releases == 1
