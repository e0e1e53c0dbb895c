"""Risks in plain numbers: how long each method takes on a profile that has answered before, and how near it is.

python -m benchmarks.risk

Times are processor times of one warm call, medians and the longest over some runs of DP-SGD. `gdp` is a proof: it
takes one certificate for each of its places.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from ndis import DPSGD, PrivacyProfile

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
    "gdp(1e-10)": lambda p: p.gdp().mu,
}


def took(reading: Callable[[PrivacyProfile], float], profile: PrivacyProfile) -> float:
    """The processor time of the second call, in seconds: the first one makes tables."""
    if reading is not READINGS["gdp(1e-10)"]:
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
        times = sorted(took(reading, profile) for profile in profiles)
        print(f"{name:<28}{1e3 * statistics.median(times):>9.1f} ms{1e3 * times[-1]:>9.1f} ms")


if __name__ == "__main__":
    main()
