"""What the estimators learn has the distribution that theory gives it. Fixed seeds; false-alarm rates are stated."""

from __future__ import annotations

import numpy as np
import pytest

from ndis.learn import PrivateCovariance, PrivateRidge

pytestmark = pytest.mark.usefixtures("seeded")

DRAWS = 100


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, size=(4_000, 3))
    return x, x @ [0.5, -0.25, 0.1] + 0.1 + 0.1 * rng.normal(size=4_000)


def test_moments_are_centred(records):
    """Means over 100 fits lie within five standard errors: about 10 numbers, so false alarms are below 1e-5.

    Quotients have a bias of the order of their relative variance, 2/r = 0.007, which is added to the tolerance.
    """
    x = records[0]
    fits = [
        PrivateCovariance(epsilon=20.0, row_norm_bound=2.0, method="sketch", sketch_size=300, random_state=seed).fit(x)
        for seed in range(DRAWS)
    ]
    for found, truth in (
        (np.array([f.records_ for f in fits]), len(x)),
        (np.array([f.location_ for f in fits]), x.mean(0)),
        (np.array([f.covariance_ for f in fits]), np.cov(x.T, bias=True)),
    ):
        error = found.mean(axis=0) - truth
        allowed = 5 * found.std(axis=0) / np.sqrt(DRAWS) + 0.014 * np.abs(truth)
        assert (np.abs(error) <= allowed).all()


def test_excess_error_is_columns_over_rows(records):
    """Where data outweigh the ridge, least squares on r Gaussian rows has excess error p/(r − p − 1) of the residual.

    The mean of 100 draws of a sum of p = 4 squares has relative standard deviation √(2/400) = 7 %; 35 % is five of
    them: false alarms below 1e-6.
    """
    x, y = records
    size, design = 100, np.c_[x, np.ones(len(x))]
    best = np.linalg.lstsq(design, y, rcond=None)[0]
    residual = np.mean((y - design @ best) ** 2)
    excess = []
    for seed in range(DRAWS):
        model = PrivateRidge(
            epsilon=50.0, delta=1e-2, row_norm_bound=1.8, target_bound=1.8, sketch_size=size, random_state=seed
        ).fit(x, y)
        off = np.append(model.coef_, model.intercept_) - best
        excess.append(off @ design.T @ design @ off / len(x) / residual)
    assert np.mean(excess) == pytest.approx(4 / (size - 4 - 1), rel=0.35)
