"""How large the sketch of an estimator is by default, and regression on a release that was loaded."""

from __future__ import annotations

import numpy as np
import pytest

import ndis
from ndis.errors import ParameterError
from ndis.learn import PrivateRidge, ridge_from_gram
from ndis.mechanisms.sketch_size import default_sketch_size


class TestDefaultSketchSize:
    def test_has_the_rows_that_serve(self):
        public = {"epsilon": 1.0, "delta": 1e-6}
        assert default_sketch_size(columns=6, **public) == 2**16 // 6
        assert default_sketch_size(columns=60, **public) == 6000
        assert default_sketch_size(columns=6, **public, records=30_000) == 30_000
        assert default_sketch_size(columns=6, **public, records=10**9) == 2**18 // 6
        # With little budget the privacy noise is above that of sampling already at fewer rows than records.
        assert default_sketch_size(columns=2, epsilon=0.005, delta=1e-6, records=20_000) < 20_000

    def test_is_used_and_depends_on_public_numbers_only(self, seeded):
        public = {"row_norm_bound": 1.0, "target_bound": 1.0, "random_state": 0}
        sizes = {
            PrivateRidge(**public, records=900).fit(np.full((n, 1), v), np.zeros(n)).mechanism_.sketch_size
            for n, v in ((1, 0.5), (50, np.nan), (300, 0.1))
        }
        assert sizes == {default_sketch_size(columns=3, epsilon=1.0, delta=1e-6, records=900)}

    def test_many_records_are_not_wasted(self, seeded):
        """Least squares on 100 rows per column, 400, has errors of 0.3·√3/√400 = 0.026; here they are a third of it.

        The default has 16,384 rows, so sampling adds 0.004 and privacy about as much: five deviations are below 0.026.
        """
        rng = np.random.default_rng(5)
        x = rng.uniform(-1, 1, size=(200_000, 2))
        y = x @ [0.5, -0.5] + 0.3 * rng.normal(size=len(x))
        model = PrivateRidge(row_norm_bound=1.5, target_bound=2.0, random_state=1).fit(x, y)
        assert np.abs(model.coef_ - [0.5, -0.5]).max() < 0.026


class TestRidgeFromGram:
    @pytest.fixture
    def rows(self):
        x = np.random.default_rng(8).uniform(-1, 1, size=(30_000, 2))
        return np.c_[x, x @ [0.5, -0.25] + 0.1]

    def test_of_a_loaded_sketch_is_that_of_the_estimator(self, rows, tmp_path, seeded):
        model = PrivateRidge(row_norm_bound=1.5, target_bound=1.0, sketch_size=400, random_state=3)
        model.fit(rows[:, :2], rows[:, 2])
        model.release_.save(tmp_path / "sketch.npz")
        weights, penalty = ridge_from_gram(ndis.ProjectionRelease.load(tmp_path / "sketch.npz"))
        scale = 0.75 * 1.5
        np.testing.assert_allclose(weights[:2, 0] / scale, model.coef_)
        np.testing.assert_allclose(weights[2, 0] * 0.75 / scale, model.intercept_)
        assert penalty == model.penalty_

    def test_any_column_of_a_loaded_matrix_may_be_the_target(self, rows, tmp_path, seeded):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(rows - [0, 0, 0.1], columns=["a", "b", "c"])
        mechanism = ndis.GramMechanism.calibrated(epsilon=5.0, delta=1e-6, row_norm_bound=2.0, intercept=1.0)
        mechanism.release(frame, random_state=2).save(tmp_path / "gram.json")
        loaded = ndis.GramRelease.load(tmp_path / "gram.json")
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
