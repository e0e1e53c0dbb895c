"""Regression on a release that was loaded."""

from __future__ import annotations

import numpy as np
import pytest

import ndis
from ndis.errors import ParameterError
from ndis.learn import PrivateRidge, ridge_from_gram


class TestRidgeFromGram:
    @pytest.fixture
    def rows(self):
        x = np.random.default_rng(8).uniform(-1, 1, size=(30_000, 2))
        return np.c_[x, x @ [0.5, -0.25] + 0.1]

    def test_of_a_loaded_sketch_is_that_of_the_estimator(self, rows, tmp_path, seeded):
        model = PrivateRidge(row_norm_bound=1.5, target_bound=1.0, sketch_size=400, random_state=3)
        model.fit(rows[:, :2], rows[:, 2])
        model.release_.save(tmp_path / "sketch.npz")
        weights, penalty = ridge_from_gram(ndis.mechanisms.releases.ProjectionRelease.load(tmp_path / "sketch.npz"))
        scale = 0.75 * 1.5
        np.testing.assert_allclose(weights[:2, 0] / scale, model.coef_)
        np.testing.assert_allclose(weights[2, 0] * 0.75 / scale, model.intercept_)
        assert penalty == model.penalty_

    def test_any_column_of_a_loaded_matrix_may_be_the_target(self, rows, tmp_path, seeded):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(rows - [0, 0, 0.1], columns=["a", "b", "c"])
        mechanism = ndis.GramMechanism.calibrated(epsilon=5.0, delta=1e-6, row_norm_bound=2.0, intercept=1.0)
        mechanism.release(frame, random_state=2).save(tmp_path / "gram.json")
        loaded = ndis.mechanisms.gram.GramRelease.load(tmp_path / "gram.json")
        by_name, penalty = ridge_from_gram(loaded, target="c")
        np.testing.assert_allclose(by_name.ravel(), [0.5, -0.25, 0.0], atol=0.02)
        np.testing.assert_array_equal(by_name, ridge_from_gram(loaded, target=2)[0])
        assert penalty == 0
        assert ridge_from_gram(loaded, target="a", alpha=7.0)[1] == 7.0
        # a = 2c + b/2 has no error, so the other column is found as well
        np.testing.assert_allclose(ridge_from_gram(loaded, target="a")[0].ravel(), [0.5, 2.0, 0.0], atol=0.1)

    def test_refusals(self, rows, seeded):
        mechanism = ndis.GramMechanism.calibrated(epsilon=5.0, delta=1e-6, row_norm_bound=2.0)
        release = mechanism.release(rows, random_state=2)
        for target in (None, 3, -1, True, "c"):
            with pytest.raises(ParameterError, match=r"^target must"):
                ridge_from_gram(release, target=target)
        with pytest.raises(ParameterError, match=r"^alpha must not be negative"):
            ridge_from_gram(release, target=0, alpha=-1.0)
        with pytest.raises(ParameterError, match=r"^release must be a GramRelease"):
            ridge_from_gram(rows, target=0)
        with pytest.raises(ParameterError, match=r"^release must have a column beside the target"):
            ridge_from_gram(mechanism.release(rows[:, :1], random_state=2), target=0)
