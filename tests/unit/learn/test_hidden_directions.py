"""The noise of a released matrix hides directions: intervals stay finite, and cover under a stated assumption."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from ndis.errors import NotPrivateWarning
from ndis.learn import PrivateLinearRegression
from ndis.learn._solver import _hidden, unshrunk

FITS = 40


def found_from(gram: Any, total: Any, *, noise: float = 1.0) -> Any:
    theta, own = np.zeros((len(gram), 1)), np.eye(len(gram))
    released = {"own": own, "noise": noise, "terms": 0.1 * gram[None], "term_noise": 1.0, "records": 1000.0}
    return unshrunk(theta, np.asarray(total, dtype=float)[:, None], gram, **released)


class TestOneMatrix:
    def test_a_small_eigenvalue_beside_large_ones_is_clear(self) -> None:
        """The noise of one direction is s, and not the s·√(2p) of all directions together."""
        values = np.array([4.0, 50.0, 50.0, 50.0, 50.0, 50.0, 50.0])
        assert _hidden(values, 1.0) == 0
        assert found_from(np.diag(values), np.ones(7)).hidden == 0

    def test_many_small_ones_hide_each_other(self) -> None:
        assert _hidden(np.full(7, 4.0), 1.0) == 2
        assert _hidden(np.full(7, 4.6), 1.0) == 0
        assert _hidden(np.array([-3.0, 0.0, np.inf]), 1.0) == 2

    def test_only_what_lies_along_it_is_wide(self) -> None:
        """Columns 0 and 2 are one column twice; 1 has nothing to do with them."""
        gram = np.array([[100.0, 20.0, 100.0], [20.0, 80.0, 20.0], [100.0, 20.0, 100.0]])
        found = found_from(gram, [50.0, 40.0, 50.0])
        errors = found.errors()[0]
        assert found.hidden == 1
        assert np.isfinite(errors).all()
        assert min(errors[0], errors[2]) > 3 * errors[1]
        part = np.linalg.solve([[200.0, np.sqrt(2) * 20.0], [np.sqrt(2) * 20.0, 80.0]], [np.sqrt(2) * 50.0, 40.0])
        assert found.theta[1, 0] == pytest.approx(part[1])
        both = np.array([1.0, 0.0, 1.0])  # the sum of the two is known
        assert np.sqrt(both @ found.covariance[0] @ both) < errors[0]

    def test_a_hidden_direction_makes_the_others_wider(self) -> None:
        """It leaks through the noise of the matrix."""
        plain = found_from(np.diag([100.0, 80.0]), [50.0, 40.0])
        beside = found_from(np.diag([100.0, 80.0, 0.0]), [50.0, 40.0, 1.0])
        assert (beside.errors()[0, :2] > 1.01 * plain.errors()[0]).all()
        assert (beside.hidden, plain.hidden) == (1, 0)

    def test_what_is_hidden_is_like_what_is_seen(self) -> None:
        small, large = (found_from(np.diag([100.0, 80.0, 0.0]), [size, size, 0.0]) for size in (100.0, 200.0))
        assert large.errors()[0, 2] == pytest.approx(2 * small.errors()[0, 2])

    def test_of_a_hessian(self) -> None:
        given = {"own": 9.0 * np.eye(2), "noise": 1.0, "records": 800.0}
        found = unshrunk(np.zeros((2, 1)), np.array([[50.0], [0.0]]), np.diag([200.0, 1.0]), **given)
        assert found.hidden == 1
        assert found.theta.ravel().tolist() == [0.25, 0.0]
        assert np.isfinite(found.covariance).all()


def stays(rng: Any, records: int = 6000) -> Any:
    """A table with one column of little spread, as wide public ranges make it."""
    thin = np.clip(rng.normal(-0.4, 0.13, records), -1, 1)
    x = np.c_[thin, rng.uniform(-1, 1, records), rng.integers(0, 2, records) * 2.0 - 1, rng.integers(0, 2, records)]
    return x, x @ TRUTH[:4] + TRUTH[4] + 0.2 * rng.normal(size=records)


TRUTH = np.array([0.4, -0.3, 0.3, -0.4, 0.1])


def quietly(model: Any, *data: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        return model.fit(*data)


@pytest.mark.parametrize("epsilon", [0.25, pytest.param(1.0, marks=pytest.mark.sweep)])
def test_all_coefficients_are_known_and_covered(epsilon: float) -> None:
    """Of 200 intervals at 95 % fewer than 170 are covered with a probability below 10⁻⁶, if they hold what they say."""
    covered = []
    for seed in range(FITS):
        x, y = stays(np.random.default_rng([5, seed]))
        model = PrivateLinearRegression(epsilon=epsilon, row_norm_bound=2.0, target_bound=2.0, random_state=seed)
        low, high = quietly(model, x, y).summary().interval.T
        assert np.isfinite(high).all()
        covered.append((low <= TRUTH) & (high >= TRUTH))
    assert np.mean(covered) >= 0.85


def test_no_budget_makes_fewer_coefficients_known() -> None:
    """All are known at every budget; median lengths from one that hides directions to one that does not."""
    lengths = []
    for epsilon in (0.25, 1.0, 4.0, 16.0):
        fits = []
        for seed in range(5):
            x, y = stays(np.random.default_rng([6, seed]), 3000)
            model = PrivateLinearRegression(epsilon=epsilon, row_norm_bound=2.0, target_bound=2.0, random_state=seed)
            fits.append(quietly(model, x, y).summary().standard_error)
        lengths.append(np.median(fits, axis=0))
    assert np.isfinite(lengths).all()
    assert (lengths[-1] < 0.5 * lengths[0]).all()
