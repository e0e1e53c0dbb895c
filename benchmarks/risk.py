"""Risks in plain numbers: how long each method takes on a profile that has answered before, and how near it is.

python -m benchmarks.risk

Times are processor times of one warm call, medians and the longest over some runs of DP-SGD. `gdp` is a proof. Its
first call makes a line of moments, which the profile keeps; later calls, with any larger slack, read it. The last table
has one profile of each other kind.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from ndis import DPSGD, GaussianPair, PrivacyProfile

RUNS = [
    DPSGD(noise_multiplier=noise, sampling_rate=rate, steps=steps)
    for noise, rate, steps in (
        (1.1, 256 / 60000, 14062),
        (1.0, 0.01, 1000),
        (0.8, 0.01, 2000),
        (0.7, 0.001, 10000),
        (2.0, 0.1, 500),
        (4.0, 0.2, 5000),
        (1.5, 0.004, 100000),
        (0.6, 0.02, 200),
    )
]
READINGS: dict[str, Callable[[PrivacyProfile], float]] = {
    "renyi(8)": lambda p: p.renyi(8.0),
    "total_variation()": lambda p: p.delta(0.0),  # what it computes; the answer is kept
    "true_positive_rate(1e-3)": lambda p: p.true_positive_rate(1e-3),
    "true_positive_rate(1e-12)": lambda p: p.true_positive_rate(1e-12),
    "bayes_risk(0.1)": lambda p: p.bayes_risk(0.1),
    "gdp(1e-10), first": lambda p: p.gdp().mu,
    "gdp(1e-10), later": lambda p: p.gdp().mu,
    "gdp(1e-8), later": lambda p: p.gdp(1e-8).mu,
}
STEP = PrivacyProfile.from_noise_multiplier(1.0)
OTHERS = {
    "128 batches of a fixed size": PrivacyProfile.from_fixed_size(
        noise_multiplier=1.0, batch_size=16, records=1000
    ).repeat(128),
    "1000 truncated samples": PrivacyProfile.from_truncated_poisson(
        noise_multiplier=1.0, sampling_rate=0.01, max_batch_size=128, records=10_000
    ).repeat(1000),
    "10 epochs of allocation": PrivacyProfile.from_allocation(noise_multiplier=0.5, bins=1000, epochs=10),
    "users with 4 examples": STEP.subsampled(0.01).repeat(100).group(4),
    "20 sampled sketches": PrivacyProfile(GaussianPair.from_ratios(1.02, copies=100)).subsampled(0.1).repeat(20),
    "one sampled step": STEP.subsampled(0.1),
}


def took(reading: Callable[[PrivacyProfile], float], profile: PrivacyProfile, *, first: bool = False) -> float:
    """The processor time of the second call, in seconds: the first one makes tables."""
    if not first:
        reading(profile)
    begun = time.process_time()
    reading(profile)
    return time.process_time() - begun


def main() -> None:
    profiles = [run.profile() for run in RUNS]
    for _ in range(2):  # the first answers compile, and make the tables of each profile
        for profile in profiles:
            profile.tradeoff([1e-4, 0.01, 0.5])
    print(f"{len(RUNS)} runs of DP-SGD; processor times of one warm call")
    print(f"{'reading':<28}{'median':>12}{'longest':>12}")
    for name, reading in READINGS.items():
        times = sorted(took(reading, profile, first=name.endswith("first")) for profile in profiles)
        print(f"{name:<28}{1e3 * statistics.median(times):>9.1f} ms{1e3 * times[-1]:>9.1f} ms")
    print(f"\n{'gdp(1e-10) of':<28}{'first':>12}{'later':>12}{'mu':>12}")
    gdp = READINGS["gdp(1e-10), later"]
    for name, profile in OTHERS.items():
        first, later = took(gdp, profile, first=True), took(gdp, profile)
        print(f"{name:<28}{1e3 * first:>9.1f} ms{1e3 * later:>9.1f} ms{gdp(profile):>12.6f}")


if __name__ == "__main__":
    main()
