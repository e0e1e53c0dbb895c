"""Random pairs in all regimes: the float value against the certificate; 250 here, 10,000 in `make sweep`.

No exception, no silent miss: the float value lies inside the enclosure, or within its own error estimate of it.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from ndis import GaussianPair
from ndis.spectrum.certified import certify_log
from ndis.spectrum.evaluate import NEAR_ONE, spectrum

PAIRS = 250
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(1, 40))]


def draw(rng: np.random.Generator) -> tuple[str, GaussianPair, float]:
    """A random pair of a random kind and an ε in the body, in a tail, at zero, or near the end of a bounded loss."""
    k = int(rng.integers(1, 7))
    kind = str(rng.choice(["general", "close", "sketch", "narrow", "decades", "replace", "mean", "tiny mixed", "many"]))
    n: np.ndarray | int = 1
    if kind == "general":
        r = np.exp(rng.normal(size=k) * rng.choice([0.01, 0.1, 1, 3]))
        m = rng.normal(size=k) * rng.choice([0, 0.1, 1, 5])
    elif kind == "close":
        r = 1 + rng.uniform(-1, 1, size=k) * 10.0 ** rng.uniform(-9, -1)
        m = rng.normal(size=k) * 10.0 ** rng.uniform(-9, 0)
    elif kind == "sketch":
        r, m, n = (
            np.array([1 + 10.0 ** rng.uniform(-4, 1)]),
            np.zeros(1),
            int(rng.integers(1, 10 ** rng.integers(1, 6))),
        )
    elif kind == "narrow":
        r = 1 - rng.uniform(1e-4, 0.99, size=k)
        m = rng.normal(size=k) * rng.choice([0, 0.3, 1])
    elif kind == "decades":
        r = 10.0 ** rng.uniform(-5, 5, size=k)
        m = rng.normal(size=k) * rng.choice([0, 1, 10, 50])
    elif kind == "replace":
        h = 10.0 ** rng.uniform(-4, 0)
        r, m, n = np.array([1 + h, 1 / (1 + h)]), np.zeros(2), int(rng.integers(1, 1000))
    elif kind == "mean":
        r, m = np.ones(k), rng.normal(size=k) * 10.0 ** rng.uniform(-3, 1.5)
    elif kind == "tiny mixed":
        r = 1 + rng.uniform(-1, 1, size=k) * 10.0 ** rng.uniform(-6, -2, size=k)
        m = rng.normal(size=k) * 10.0 ** rng.uniform(-3, 1.3)
    else:
        k = int(rng.integers(10, 60))
        r, m = np.exp(rng.normal(size=k) * 0.3), rng.normal(size=k) * 0.2
    pair = GaussianPair.from_ratios(r, m, n)
    form = pair.form
    spread = math.sqrt(float(np.sum(0.5 * form.nu * form.t**2 + form.q)))
    epsilon = form.mean + spread * rng.choice([rng.uniform(-3, 8), rng.uniform(-1, 30), rng.normal()])
    if rng.random() < 0.1:
        epsilon = 0.0
    end = pair.loss_supremum()
    if math.isfinite(end) and rng.random() < 0.5:
        epsilon = end * (1 - 10.0 ** rng.uniform(-10, -0.3))
    return kind, pair, float(epsilon)


@pytest.mark.parametrize("seed", SEEDS)
def test_float_value_agrees_with_certificate(seed: int) -> None:
    rng = np.random.default_rng(seed)
    misses = []
    for i in range(PAIRS):
        kind, pair, epsilon = draw(rng)
        value = spectrum(pair, np.array([epsilon]))
        box = certify_log(pair, epsilon)
        if math.isinf(box.lower):
            if value.log_delta[0] != box.lower:
                misses.append((i, kind, epsilon, value, box))
            continue
        error = float(value.error[0])
        if value.log_delta[0] > NEAR_ONE:  # the estimate is then one of 1 − δ
            error *= math.exp(float(value.log_complement[0] - value.log_delta[0]))
        slack = 2 * error + 2.0**-50 * (1 + math.fabs(box.lower))
        inside = box.lower - slack <= value.log_delta[0] <= box.upper + slack
        if not inside or slack > 1e-12 * (1 + math.fabs(box.lower)):
            misses.append((i, kind, pair.variance_ratio, pair.shift, pair.copies, epsilon, value, box))
    assert not misses, "\n".join(map(repr, misses))
