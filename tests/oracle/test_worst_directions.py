"""Which gradients are worst: random directions in the plane against the pairs on the line, by sums over a fine grid."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ndis
from ndis._groups import StepGroup
from ndis.accountant.laws.mixture_steps import SampledStep

STEP = 0.05
AXIS = np.arange(-9.0, 9.0 + STEP / 2, STEP)
PLANE = np.stack(np.meshgrid(AXIS, AXIS), axis=-1)


def density(centre):
    """The density of a Gaussian with covariance I, times the area of a cell."""
    return np.exp(-0.5 * ((PLANE - centre) ** 2).sum(axis=-1)) * STEP**2 / (2.0 * math.pi)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def in_ball(rng, radius):
    angle = rng.uniform(0.0, 2.0 * math.pi)
    return radius * math.sqrt(rng.random()) * np.array([math.cos(angle), math.sin(angle)])


def close_to_opposite(rng, radius):
    """Two vectors near the worst ones, where a false claim would fail first."""
    u = np.array([radius, 0.0])
    return u, -u + in_ball(rng, 0.3 * radius) * np.array([0.0, 1.0]) + np.array([rng.uniform(0.0, 0.3) * radius, 0.0])


@pytest.mark.parametrize("seed", range(6))
def test_opposite_gradients_are_worst_for_a_replaced_record(seed):
    """thm:replace-poisson, lem:gram-order."""
    rng = np.random.default_rng(seed)
    sigma, rate = float(rng.uniform(0.5, 2.0)), float(rng.uniform(0.02, 0.9))
    worst = ndis.PrivacyProfile(
        groups=[StepGroup(SampledStep(sigma, (rate,), adjacency="replace-one"))], adjacency="replace-one"
    )
    base = density(np.zeros(2))
    for _ in range(6):
        u, v = (
            close_to_opposite(rng, 1.0 / sigma)
            if rng.random() < 0.5
            else (in_ball(rng, 1.0 / sigma), in_ball(rng, 1.0 / sigma))
        )
        p, q = ((1.0 - rate) * base + rate * density(centre) for centre in (u, v))
        for epsilon in (-1.0, -0.2, 0.0, 0.1, 0.5, 2.0):
            assert hockey_stick(p, q, epsilon) <= worst.delta(epsilon) * (1.0 + 1e-9) + 1e-6
    p, q = ((1.0 - rate) * base + rate * density(np.array([x, 0.0])) for x in (1.0 / sigma, -1.0 / sigma))
    assert hockey_stick(p, q, 0.3) == pytest.approx(worst.delta(0.3), abs=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_equal_others_are_worst_for_batches_of_a_fixed_size(seed):
    """thm:fixed-size: three others, of which one fills the place of the record."""
    rng = np.random.default_rng([seed, 1])
    sigma, records = float(rng.uniform(0.5, 2.0)), 4
    worst = ndis.PrivacyProfile.from_fixed_size(noise_multiplier=sigma, batch_size=1, records=records)
    for _ in range(6):
        u, v, *others = (in_ball(rng, 1.0 / sigma) for _ in range(2 + records - 1))
        rest = sum(density(x) for x in others) / records
        p, q = (rest + density(centre) / records for centre in (u, v))
        for epsilon in (-1.0, -0.2, 0.0, 0.1, 0.5, 2.0):
            assert hockey_stick(p, q, epsilon) <= worst.delta(epsilon) * (1.0 + 1e-9) + 1e-6
    u = np.array([1.0 / sigma, 0.0])
    p, q = ((records - 1) / records * density(-u) + density(centre) / records for centre in (u, -u))
    assert hockey_stick(p, q, 0.3) == pytest.approx(worst.delta(0.3), abs=1e-4)
    assert hockey_stick(q, p, 0.3) < worst.delta(0.3)


@pytest.mark.parametrize("seed", range(4))
def test_aligned_examples_are_worst_for_a_user(seed):
    """thm:mixtures: two examples of one user, in both orders."""
    rng = np.random.default_rng([seed, 2])
    sigma, rate = float(rng.uniform(0.7, 2.0)), float(rng.uniform(0.05, 0.9))
    worst = ndis.PrivacyProfile.from_noise_multiplier(sigma).subsampled(rate).group(2)
    base = density(np.zeros(2))
    for _ in range(6):
        u, v = in_ball(rng, 1.0 / sigma), in_ball(rng, 1.0 / sigma)
        p = (1.0 - rate) ** 2 * base + rate * (1.0 - rate) * (density(u) + density(v)) + rate**2 * density(u + v)
        for epsilon in (-0.5, 0.0, 0.4, 1.5):
            assert hockey_stick(p, base, epsilon) <= worst.delta(epsilon, order="remove") * (1.0 + 1e-9) + 1e-6
            assert hockey_stick(base, p, epsilon) <= worst.delta(epsilon, order="add") * (1.0 + 1e-9) + 1e-6


def test_truncated_batches_by_counting():
    """thm:truncated: all samples of three records in the plane, at most one of which is kept."""
    rng = np.random.default_rng(5)
    rate, sigma, n = 0.4, 1.0, 3
    worst = ndis.PrivacyProfile.from_truncated_poisson(
        noise_multiplier=sigma, sampling_rate=rate, max_batch_size=1, records=n
    )
    for _ in range(8):
        gradients = [in_ball(rng, 1.0) for _ in range(n)]
        if rng.random() < 0.5:
            gradients = [np.array([1.0, 0.0])] + [np.array([-1.0, 0.0])] * (n - 1)

        def law(count, gradients=gradients):
            out = np.zeros(PLANE.shape[:2])
            for mask in range(2**count):
                members = [g for i, g in enumerate(gradients[n - count :]) if mask >> i & 1]
                chance = rate ** len(members) * (1.0 - rate) ** (count - len(members))
                for g in members or [np.zeros(2)]:
                    out += chance / max(len(members), 1) * density(g / sigma)
            return out

        with_record, without = law(n), law(n - 1)
        for epsilon in (-0.5, 0.0, 0.3, 1.0):
            assert hockey_stick(with_record, without, epsilon) <= worst.delta(epsilon, order="remove") + 1e-6
            assert hockey_stick(without, with_record, epsilon) <= worst.delta(epsilon, order="add") + 1e-6
