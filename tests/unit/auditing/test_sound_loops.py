"""Loops that keep their claim are never convicted; those that a theorem is about are proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import ndis
from ndis.auditing import Claim, TrainingLoop, audit_training


@cache
def gauss(noise: float, count: int) -> float:
    return ndis.PrivacyProfile.from_noise_multiplier(noise).repeat(count).certified_epsilon(1e-5)


@cache
def dpsgd(noise: float, rate: float, steps: int) -> float:
    return ndis.DPSGD(noise_multiplier=noise, sampling_rate=rate, steps=steps).certified_epsilon(1e-5)


def loop(sampler: str, noise: float, steps: int, **more: Any) -> TrainingLoop:
    return TrainingLoop(sampler=sampler, noise_multiplier=noise, steps=steps, **more)


MNIST: dict[str, Any] = {"records": 60_000, "batch_size": 250}
SCHEDULE = ((1.0, 0.01, 500), (1.4, 0.02, 250))
SOUND: list[tuple[TrainingLoop, Callable[[], float], str]] = [
    (loop("poisson", 1.0, 1000, sampling_rate=0.01), lambda: dpsgd(1.0, 0.01, 1000), "add-remove"),
    (loop("poisson", 1.1, 1406, sampling_rate=256 / 60_000), lambda: dpsgd(1.1, 256 / 60_000, 1406), "add-remove"),
    (loop("poisson", 1.0, 1000, sampling_rate=0.01, public=()), lambda: dpsgd(1.0, 0.01, 1000), "add-remove"),
    (loop("poisson", 1.0, 2400, **MNIST), lambda: dpsgd(1.0, 1 / 240, 2400), "add-remove"),
    (
        loop("poisson", 1.0, 2400, **MNIST, normaliser="opacus", parameters=10**9),
        lambda: dpsgd(1.0, 1 / 240, 2400),
        "add-remove",
    ),
    (
        loop("poisson", 1.0, 240, **MNIST, normaliser="records", parameters=10**6),
        lambda: dpsgd(1.0, 1 / 240, 240),
        "add-remove",
    ),
    (loop("poisson", 0.5, 100, sampling_rate=0.01, micro_batches=4), lambda: dpsgd(1.0, 0.01, 100), "add-remove"),
    (loop("poisson", 1.0, 100, sampling_rate=0.01, micro_batches=4), lambda: dpsgd(2.0, 0.01, 100), "add-remove"),
    (loop("poisson", 2.0, 100, sampling_rate=0.01, clipping="batch"), lambda: dpsgd(1.0, 0.01, 100), "add-remove"),
    (
        TrainingLoop(sampler="poisson", noise_std=30.0, clipping_norm=10.0, steps=50, sampling_rate=0.5),
        lambda: dpsgd(3.0, 0.5, 50),
        "add-remove",
    ),
    (
        TrainingLoop(sampler="poisson", schedule=SCHEDULE, public=("rate",)),
        lambda: ndis.DPSGD.from_schedule(SCHEDULE).certified_epsilon(1e-5),
        "add-remove",
    ),
    (loop("poisson", 3.0, 10, sampling_rate=1.0), lambda: gauss(3.0, 10), "add-remove"),
    (loop("full-batch", 3.0, 10), lambda: gauss(3.0, 10), "add-remove"),
    (loop("full-batch", 3.0, 10, public=()), lambda: gauss(3.0, 10), "add-remove"),
    (loop("full-batch", 6.0, 10), lambda: gauss(3.0, 10), "replace-one"),
    (loop("full-batch", 6.0, 10, clipping="batch"), lambda: gauss(3.0, 10), "add-remove"),
    (loop("full-batch", 3.0, 1, records=100, normaliser="batch"), lambda: gauss(3.0, 1), "add-remove"),
    (loop("sequential", 2.0, 480, **MNIST), lambda: gauss(2.0, 2), "add-remove"),
    (loop("sequential", 4.0, 480, **MNIST), lambda: gauss(2.0, 2), "replace-one"),
    (loop("shuffled", 2.0, 480, **MNIST), lambda: gauss(2.0, 2), "add-remove"),
    (loop("shuffled", 4.0, 480, **MNIST, drop_last=True), lambda: gauss(2.0, 2), "replace-one"),
    (loop("fixed-size", 1.0, 128, records=1000, batch_size=16), lambda: 9.7, "replace-one"),
]


@pytest.mark.parametrize(("run", "epsilon", "adjacency"), SOUND)
def test_a_sound_loop_is_proved(run, epsilon, adjacency):
    """thm:loop-guarantee: the claim is what a theorem proves for the loop, to the last digits of its certificate."""
    report = audit_training(run, Claim(epsilon() * (1 + 1e-6), 1e-5, adjacency))
    assert report.verdict == "sound"
    assert report.audit is None or not report.audit.refuted


@pytest.mark.parametrize(("run", "epsilon", "adjacency"), SOUND)
def test_what_convicts_never_exceeds_what_is_proved(run, epsilon, adjacency):
    """thm:loop-pairs against thm:loop-guarantee: no data are worse than the bound over all data."""
    run = replace(run, adjacency=adjacency)
    upper = run.profile()
    for attained in run.attained():
        for point in (0.0, 1e-3 * epsilon()):
            assert attained.profile.delta(point) <= upper.delta(point) * (1 + 1e-9)


@pytest.mark.parametrize(("run", "epsilon", "adjacency"), [SOUND[i] for i in (0, 3, 8, 10)])
def test_half_the_epsilon_is_never_proved(run, epsilon, adjacency):
    assert audit_training(run, Claim(0.5 * epsilon(), 1e-5, adjacency)).verdict != "sound"
