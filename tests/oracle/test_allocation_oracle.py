"""Random allocation against given values of log δ, in floats and in balls (thm:allocation)."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ndis import PrivacyProfile

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "given_allocation_cases.json").read_text(encoding="utf-8")
)
WANTED = [(case, order) for case in CASES for order in ("remove", "add") if order in case]
# One given value is off in its twelfth digit: the certificates of both orders exclude it at a width of 1e-14.
GIVEN = 2e-12


@pytest.mark.parametrize(("case", "order"), WANTED)
def test_floats_and_certificates_agree_with_the_given_values(case: dict[str, Any], order: Any) -> None:
    profile = PrivacyProfile.from_allocation(
        noise_multiplier=case["noise_multiplier"], bins=case["bins"], epochs=case["epochs"]
    )
    given, epsilon = float(case[order]), float(case["epsilon"])
    assert abs(profile.log_delta(epsilon, order=order) - given) <= GIVEN * (1.0 + abs(given))
    box = profile.certify(epsilon, order=order)
    assert box.width <= 1e-6 * box.upper
    assert box.lower <= math.exp(given) * (1.0 + 1e-10)
    assert box.upper >= math.exp(given) * (1.0 - 1e-10)


@pytest.mark.parametrize(("noise", "bins", "published"), [(0.5, 1000, 4.10601590), (0.4, 10_000, 5.24572217)])
def test_published_epsilon(noise: float, bins: int, published: float) -> None:
    assert abs(PrivacyProfile.from_allocation(noise_multiplier=noise, bins=bins).epsilon(1e-6) - published) < 2e-8
