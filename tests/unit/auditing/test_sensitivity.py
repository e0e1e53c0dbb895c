"""The checker finds models that lie, and lets honest ones pass."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ndis
from ndis import GaussianPair
from ndis.auditing.sensitivity import check_sensitivity
from ndis.worst_case.envelopes import DominatingPairs, LoewnerEnvelope, RankOneEnvelope


class Shrunk:
    """Records x in [0, 1]²; output N(Σx/(1+n), (I + Σxxᵀ)⁻¹): what an honest or a lying envelope says of it."""

    def __init__(self, shift=1.0, ratio=1.0, kind="rank one"):
        self.shift, self.ratio, self.kind = shift, ratio, kind

    def distribution(self, data):
        rows = np.clip(np.asarray(data, dtype=float).reshape(-1, 2), 0.0, 1.0)
        precision = np.eye(2) + rows.T @ rows
        return np.linalg.solve(precision, rows.sum(axis=0)), np.linalg.inv(precision)

    def sensitivity(self, v):
        # one record: Σ' − Σ = ww', ww' ⪯ I − (I + xxᵀ)⁻¹ with ‖x‖² ≤ 2, so t ≤ (2/3)/(v + 1/3); the mean moves by ≤ 3/2
        shift, ratio = self.shift * 1.5 / math.sqrt(v), self.ratio * (2 / 3) / (v + 1 / 3)
        if self.kind == "rank one":
            return RankOneEnvelope(shift, ratio)
        if self.kind == "pieces":
            return RankOneEnvelope(shift, ratio, (RankOneEnvelope(shift, 0.5 * ratio), RankOneEnvelope(0.0, ratio)))
        if self.kind == "pairs":
            return DominatingPairs(GaussianPair.from_ratios([1.0, 1 / (1 + ratio)], [shift, 0.0]))
        return LoewnerEnvelope(shift, math.log1p(ratio), math.log1p(ratio), 2)


def some(rng):
    return rng.uniform(0, 1, size=(rng.integers(1, 6), 2)).round(rng.integers(0, 3))


def fewer(data, rng):
    return np.delete(data, rng.integers(len(data)), axis=0)


def run(model, **more):
    return check_sensitivity(model, some, neighbours=fewer, noise_variance=[0.1, 2.0], trials=80, **more)


@pytest.mark.parametrize("kind", ["rank one", "loewner"])
def test_honest_models_pass(kind):
    report = run(Shrunk(kind=kind))
    assert report.ok
    assert report.counterexample is None
    assert report.pairs == 160
    assert 0.3 < report.closest.usage <= 1.0 + 1e-9
    assert report.usage["shift"] <= 1.0


@pytest.mark.parametrize(
    ("model", "quantity"),
    [
        (Shrunk(shift=0.2), "shift"),
        (Shrunk(ratio=0.3), "ratio"),
        (Shrunk(ratio=0.0), "ratio"),
        (Shrunk(kind="pieces"), "piece"),
        (Shrunk(shift=0.2, kind="loewner"), "shift"),
        (Shrunk(ratio=0.3, kind="loewner"), "log"),
        (Shrunk(shift=0.1, ratio=0.2, kind="pairs"), "delta"),
    ],
)
def test_liars_are_found(model, quantity):
    report = run(model)
    assert not report.ok
    assert report.counterexample is report.closest
    assert report.counterexample.quantity.startswith(quantity)
    assert report.counterexample.usage > 1.05
    # the counterexample can be checked by hand
    found = report.counterexample
    again = check_sensitivity(
        model, [found.data], neighbours=lambda data, rng: found.neighbour, noise_variance=found.noise_variance, trials=1
    )
    assert again.closest.usage == found.usage


def test_rank_two_is_found():
    class Two(Shrunk):
        def distribution(self, data):
            return np.zeros(2), np.eye(2) / (1.0 + len(data))

    assert run(Two()).counterexample.quantity == "second ratio"

    class Crossed(Shrunk):
        def distribution(self, data):
            return np.zeros(2), np.diag([1.0 + 0.1 * len(data), 2.0 - 0.1 * len(data)])

    assert run(Crossed(ratio=100.0, kind="loewner")).counterexample.quantity == "Loewner order"


@pytest.mark.parametrize("bad", [{"noise_variance": 0.0}, {"noise_variance": math.nan}, {"trials": 0}])
def test_bad_arguments(bad):
    with pytest.raises(ndis.ParameterError, match=next(iter(bad))):
        check_sensitivity(Shrunk(), some, neighbours=fewer, **({"noise_variance": 1.0} | bad))
