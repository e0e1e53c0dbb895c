"""One mechanism of each kind of projection, and releases with a seed."""

import pytest

import ndis
from ndis.errors import NotPrivateWarning

PUBLIC = {"epsilon": 1.0, "delta": 1e-6, "sketch_size": 12, "row_norm_bound": 1.0}
PLAIN = ndis.RandomProjection.calibrated(**PUBLIC)
SAMPLED = ndis.PoissonProjection.calibrated(**PUBLIC, rate=0.5)
TESTED = ndis.PTRProjection.calibrated(**PUBLIC, test_noise_std=10.0)
MECHANISMS = [PLAIN, SAMPLED, TESTED]
each = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)


def seeded(mechanism, data, seed=0, **how):
    with pytest.warns(NotPrivateWarning):
        return mechanism.release(data, random_state=seed, **how)
