"""Random compositions of sampled releases: the float, its error estimate and the certificate must agree.

Run as a program, it does the whole sweep and prints what it found: `python tests/property/test_sampled_sweep.py 2000`.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter

import numpy as np
import pytest

import ndis
from ndis.errors import PrecisionError
from ndis.spectrum.composition import Composition

IN_THE_SUITE = range(52)
ACCURACY = 1e-10  # of log δ, relative to 1 + |log δ|


def composition(seed: int) -> tuple[ndis.PrivacyProfile, str, float]:
    """A composition, an order and a δ, all of them random."""
    rng = np.random.default_rng(seed)

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(math.log(low), math.log(high))))

    groups = []
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.02:
            pair = ndis.GaussianPair.from_ratios(1.0 + between(0.001, 0.2), copies=int(rng.integers(10, 200)))
            count = int(between(2, 1000))
        else:
            pair = ndis.PrivacyProfile.from_noise_multiplier(between(0.3, 100.0)).remove
            count = int(between(1, 1e6))
        rate = 1.0 if rng.random() < 0.1 else between(1e-5, 0.999)
        groups.append(ndis.Group(pair, rates=(rate,), count=count))
    if all(not group.sampled for group in groups) or (len(groups) == 1 and groups[0].count == 1):
        groups.append(ndis.Group(pair, rates=(0.01,), count=100))
    order = ("remove", "add")[int(rng.integers(2))]
    return ndis.PrivacyProfile.from_groups(groups), order, 10.0 ** -rng.uniform(0.05, 100.0)


def check(seed: int) -> str:
    """What came out for one seed; raises AssertionError if two numbers contradict each other.

    Refused may be sampled sketches, and very small δ at very small rates (docs/dp-sgd.md, "Refusals").
    """
    profile, order, target = composition(seed)
    found = compare(profile, order, target)
    sketches = any(group.sampled and (group.remove.excess != 0.0).any() for group in profile.groups)
    rare = target < 1e-50 and min(group.rate for group in profile.groups) < 1e-4
    assert sketches or rare or "refused" not in found, f"a composition of mean shifts: {found}"
    return found


def compare(profile: ndis.PrivacyProfile, order: str, target: float) -> str:
    """The float, its error estimate and the certificate at the ε of a target δ."""
    try:
        epsilon = profile.epsilon(target, order=order)
        law = Composition(profile._steps(order), order)
        value, error = (float(a[0]) for a in law.log_delta(np.array([epsilon])))
    except PrecisionError:
        return "float refused"
    if value == -math.inf:
        assert profile.certify(epsilon, order=order).upper <= target
        return "zero"
    assert value <= math.log(target), "epsilon(delta) is not on the safe side"
    assert error <= ACCURACY * (1.0 + abs(value)), "the error estimate is above the accuracy promised"
    try:
        box = profile.certify(epsilon, order=order)
    except PrecisionError:
        return "certificate refused"
    slack = ACCURACY * (1.0 + abs(value))
    told = f"δ = exp({value}) ± {error}, certified {box}"
    assert box.lower == 0.0 or math.log(box.lower) <= value + slack, told
    assert value - slack <= math.log(box.upper), told
    return "agree" if box.width <= 1.01e-6 * box.upper else "agree within bounds"


@pytest.mark.parametrize("seed", IN_THE_SUITE)
def test_float_error_estimate_and_certificate_agree(seed: int) -> None:
    check(seed)


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    found: Counter[str] = Counter()
    wrong = 0
    start = time.perf_counter()
    for seed in range(count):
        begin = time.perf_counter()
        try:
            answer = check(seed)
        except AssertionError as failure:
            answer, wrong = "CONTRADICTION", wrong + 1
            print(f"seed {seed}: {failure}", flush=True)
        found[answer] += 1
        took = time.perf_counter() - begin
        if "refused" in answer or took > 20.0:
            print(f"seed {seed}: {answer} after {took:.1f} s", flush=True)
    print(f"{count} compositions in {time.perf_counter() - start:.0f} s: {dict(found.most_common())}")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
