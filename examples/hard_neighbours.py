"""Hard neighbouring data sets, for searches that try to break a declared sensitivity.

The last record of each data set is the one that the neighbour lacks. The kinds take turns: Gaussian clouds, lone
records, copies of one record, rows with extreme margins, near-singular designs, and short rows against one long row.
`examples/adversarial_search.py` and the tests of the models use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ndis._validate import Floats
from ndis.models.gp import GaussianProcess
from ndis.models.logistic import BohningLogistic, noisy_pair
from ndis.profile import PrivacyProfile

__all__ = ["KINDS", "climb", "gp_neighbours", "logistic_neighbours", "profile_on"]

Data = tuple[Floats, Floats]
KINDS = ("cloud", "lone", "copies", "margins", "near-singular", "crowd")


def profile_on(model: Any, data: Data, noise_variance: float) -> PrivacyProfile:
    """The exact profile of N(μ, Σ + vI) on `data` and on `data` without its last record.

    >>> model = BohningLogistic(l2_penalty=3.0, row_norm_bound=1.0)
    >>> profile_on(model, (np.array([[1.0]]), np.array([1.0])), 4.0).add.variance_ratio.round(6)
    array([1.005952])
    """
    x, y = data
    mean_p, cov_p = model.distribution(data)
    mean_q, cov_q = model.distribution((x[:-1], y[:-1]))
    return PrivacyProfile(noisy_pair(mean_p, cov_p, mean_q, cov_q, noise_variance))


def logistic_neighbours(
    model: BohningLogistic, *, features: int, records: int, random_state: int
) -> Iterator[tuple[str, Data]]:
    """Endless data sets of at most `records` records for `BohningLogistic`; its last record is the one that differs."""
    rng = np.random.default_rng(random_state)
    bound = model.row_norm_bound
    while True:
        for kind in KINDS:
            n = int(rng.integers(1, records + 1))
            x, y = rng.normal(size=(n, features)), rng.choice([-1.0, 1.0], size=n)
            if kind == "lone":
                x, y = x[-1:], y[-1:]
            elif kind == "copies":
                x, y = np.repeat(x[:1], n, axis=0), np.append(np.full(n - 1, -1.0), 1.0)
            elif kind == "margins":  # all but the last on one side, far out
                x[:, 0] = np.abs(x[:, 0]) * 10
                y = np.append(np.full(n - 1, 1.0), -1.0)
            elif kind == "near-singular":  # all rows but the last almost on a line
                x[:-1] = np.outer(rng.normal(size=n - 1), x[0]) + 1e-4 * x[:-1]
            elif kind == "crowd":
                x[:-1] = x[-1] * rng.uniform(0.0, 0.2) * (1 + 0.1 * rng.normal(size=(n - 1, 1)))
                y = np.append(np.full(n - 1, -1.0), 1.0)
            length = np.linalg.norm(x, axis=1, keepdims=True)
            if kind == "crowd":
                length = length[-1]
            elif kind not in ("margins",):
                length = length / rng.choice([1.0, rng.uniform()])
            yield kind, (x * (bound / np.maximum(length, 1e-300)), y)


def gp_neighbours(model: GaussianProcess, *, records: int, random_state: int) -> Iterator[tuple[str, Data]]:
    """Endless data sets of at most `records` records for `GaussianProcess`; its last record is the one that differs."""
    rng = np.random.default_rng(random_state)
    B, features = model.label_bound, model.query.shape[1]
    while True:
        for kind in KINDS:
            n = int(rng.integers(1, records + 1))
            near = model.query[rng.integers(len(model.query))]
            x = near + rng.normal(size=(n, features)) * 10.0 ** rng.uniform(-3, 1)
            y = rng.uniform(-B, B, size=n)
            if kind == "lone":
                x, y = near[None] + 0.0, np.array([B])
            elif kind == "copies":
                x = np.repeat(near[None], n, axis=0)
            elif kind == "near-singular":
                x = near + 1e-7 * rng.normal(size=(n, features))
            elif kind == "crowd":
                x[-1] = near
            if kind in ("copies", "crowd", "margins", "near-singular"):
                y = np.append(np.full(n - 1, -B), B)
            yield kind, (x, y)


def climb(score: Callable[[Data], float], data: Data, *, steps: int, random_state: int) -> tuple[float, Data]:
    """Random steps of falling size on all rows, labels kept, accepted where the score grows.

    >>> start = np.ones((1, 1)), np.ones(1)
    >>> climb(lambda data: -abs(float(data[0].sum())), start, steps=50, random_state=0)[0] > -0.2
    True
    """
    rng = np.random.default_rng(random_state)
    best, (x, y) = score(data), data
    for step in range(steps):
        size = 0.5 * (1 - step / steps) ** 2 + 1e-3
        which = rng.uniform(size=(len(x), 1)) < rng.choice([1.0, 0.2])
        trial = x * (1 + size * rng.normal(size=x.shape) * which) + 0.1 * size * rng.normal(size=x.shape) * which
        found = score((trial, y))
        if found > best:
            best, x = found, trial
    return best, (x, y)
