"""Standard errors of means, covariances, correlations and components from one release, and no repair of covariances."""

from __future__ import annotations

import numpy as np
import pytest

import ndis
from ndis.errors import ParameterError
from ndis.learn import PrivateCovariance, PrivatePCA

ROOT = np.array([[1.0, 0.5, 0.0], [0.0, 0.8, 0.3], [0.0, 0.0, 0.4]])


def test_errors_are_those_of_repeated_releases():
    rng = np.random.default_rng(3)
    found: dict[str, list] = {name: [] for name in ("location_", "covariance_", "correlation_", "explained_variance_")}
    errors: dict[str, list] = {name: [] for name in found}
    for _ in range(150):
        rows = rng.normal(size=(3000, 3)) @ ROOT + [0.3, 0.0, -0.2]
        model = PrivateCovariance(epsilon=2.0, delta=1e-6, row_norm_bound=6.0).fit(rows)
        pca = PrivatePCA(2, epsilon=2.0, delta=1e-6, row_norm_bound=6.0).fit(rows)
        for name in found:
            source = pca if name.startswith("explained") else model
            found[name].append(getattr(source, name))
            errors[name].append(getattr(source, name + "error_"))
    for name in found:
        spread, median = np.std(found[name], axis=0), np.median(errors[name], axis=0)
        keep = median > 0
        assert np.allclose(spread[keep], median[keep], rtol=0.25), name


def test_a_noisy_covariance_is_unbiased_and_its_precision_positive():
    model = PrivateCovariance(epsilon=0.2, delta=1e-6, row_norm_bound=4.0).fit(np.zeros((50, 6)))
    assert np.linalg.eigvalsh(model.covariance_).min() < 0
    assert np.linalg.eigvalsh(model.precision_).min() > -1e-9
    assert PrivatePCA(epsilon=0.2, delta=1e-6, row_norm_bound=4.0).fit(np.zeros((50, 6))).explained_variance_.min() >= 0


def test_errors_are_in_original_units_and_need_the_gram_matrix():
    rng = np.random.default_rng(0)
    table = {"age": rng.normal(50, 10, 4000), "stay": rng.normal(10, 2, 4000)}
    schema = ndis.Schema({"age": (0, 100), "stay": (0, 20)})
    model = PrivateCovariance(epsilon=1.0, delta=1e-6, schema=schema).fit(table)
    assert abs(model.covariance_[0, 0] - 100) < 5 * model.covariance_error_[0, 0]
    assert abs(model.location_[1] - 10) < 5 * model.location_error_[1] < 5
    sketch = PrivateCovariance(epsilon=1.0, delta=1e-6, schema=schema, method="sketch").fit(table)
    with pytest.raises(ParameterError, match="'gram'"):
        _ = sketch.covariance_error_
