"""How large the sketch of an estimator is by default."""

from __future__ import annotations

import numpy as np

from ndis.learn import PrivateRidge
from ndis.mechanisms.projection import default_sketch_size


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
