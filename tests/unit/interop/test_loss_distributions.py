"""`to_pld` is pessimistic: no δ of the distribution lies below a certified one, in both orders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dp_accounting")

from ndis import GaussianPair, PrivacyProfile
from ndis.interop.dp_accounting import to_pld

STEP = 2e-3  # distance of two ε of the grid
UNCERTAINTY = 1e-5
EPSILONS = np.array([-3.0, -0.7, -STEP, 0.0, 0.0031, 250 * STEP, 1.0, 1.7777, 3.0, 40.0])
PROFILES = {
    "shift": PrivacyProfile.from_noise_multiplier(2.0),
    "ratios": PrivacyProfile(GaussianPair.from_ratios(1.1, shift=0.3, copies=10)),
    "sample": PrivacyProfile(GaussianPair.from_ratios(2.0)).subsampled(0.1),
    "failure": replace(PrivacyProfile.from_noise_multiplier(1.0), failure_probability=1e-7),
    "replaced": PrivacyProfile.from_noise_multiplier(1.0, adjacency="replace-one"),
    "steps": PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.1).repeat(30),
}


def moved(pair: GaussianPair, share: float) -> GaussianPair:
    """The pair as a computation finds it that has lost digits and says so: every parameter is off by this share."""
    wrong = GaussianPair.from_excess(pair.excess * (1 + share), shift=pair.shift * (1 + share), copies=pair.copies)
    return replace(wrong, uncertainty=abs(share))


def sides(pld: Any) -> list[tuple[Any, Any]]:
    return [("remove", pld._pmf_remove), ("add", pld._pmf_add)]


@pytest.mark.parametrize("name", PROFILES)
def test_no_delta_below_a_certificate(name: str) -> None:
    profile = PROFILES[name]
    pld = to_pld(profile, discretization=STEP)
    for order, pmf in sides(pld):
        every = pmf.get_delta_for_epsilon(EPSILONS)  # the library adds up in another way for many ε
        for epsilon, one in zip(EPSILONS.tolist(), every.tolist(), strict=True):
            box = profile.certify(epsilon, order=order)
            assert pmf.get_delta_for_epsilon(epsilon) >= box.upper
            assert one >= box.upper
            assert one <= box.upper * (1 + 1e-3) + 1e-14 + profile.failure_probability  # the grid ends at twice that


@pytest.mark.parametrize("name", PROFILES)
def test_no_epsilon_below_that_of_the_profile(name: str) -> None:
    pld = to_pld(PROFILES[name], discretization=STEP)
    for delta in (1e-2, 1e-4, 1e-6, 1e-12):
        for order, pmf in sides(pld):
            assert pmf.get_epsilon_for_delta(delta) >= PROFILES[name].epsilon(delta, order=order)


@pytest.mark.parametrize("share", [UNCERTAINTY, -UNCERTAINTY])
@pytest.mark.parametrize("repeats", [0, pytest.param(20, marks=pytest.mark.sweep)])
def test_uncertain_pairs_are_rounded_up(share: float, repeats: int) -> None:
    """The δ of the floats lie on the wrong side of the exact ones for one sign, and the distribution does not."""
    exact = GaussianPair.from_ratios(1.25, shift=0.5, copies=4)
    truth, doubtful = PrivacyProfile(exact), PrivacyProfile(moved(exact, share))
    if repeats:
        steps = PrivacyProfile.from_noise_multiplier(1.0).subsampled(0.05).repeat(repeats)
        truth, doubtful = truth.compose(steps), doubtful.compose(steps)
    pld = to_pld(doubtful, discretization=STEP)
    for order, pmf in sides(pld):
        below = []
        for epsilon in (-1.0, 0.0, 1.0, 2.5):
            box = truth.certify(epsilon, order=order)
            assert pmf.get_delta_for_epsilon(epsilon) >= box.upper
            below.append(doubtful.delta(epsilon, order=order) < box.lower)
        assert any(below) == (share < 0)
        for delta in (1e-3, 1e-6):
            assert pmf.get_epsilon_for_delta(delta) >= doubtful.epsilon(delta, order=order)
