"""Batches of a fixed size: the guarantee beside what neighbours attain, on fifty settings.

python -m benchmarks.fixed_size

Every line has the number of records, the batch size, the steps, the noise, and both ends of ε at δ = 1e-6. The last
line sums up the gap, (upper − lower)/upper.
"""

from __future__ import annotations

import itertools
import time

import numpy as np

from ndis import PrivacyProfile

SIZES = ((1000, 16), (1000, 100), (10_000, 100), (60_000, 256), (1_000_000, 1024))
NOISES = (0.8, 1.0, 1.5, 2.5, 5.0)
STEPS = (128, 1000)


def main() -> None:
    """Print the table."""
    gaps, begun = [], time.process_time()
    print("  records   batch  steps  noise    attained   guarantee     gap")
    for (records, size), noise, steps in itertools.product(SIZES, NOISES, STEPS):
        step = PrivacyProfile.from_fixed_size(noise_multiplier=noise, batch_size=size, records=records)
        low, high = step.repeat(steps).bounds(1e-6)
        gaps.append((high - low) / high)
        print(f"{records:9} {size:7} {steps:6} {noise:6} {low:11.6f} {high:11.6f} {gaps[-1]:7.2%}", flush=True)
    middle, most = np.median(gaps), max(gaps)
    print(f"{len(gaps)} settings: gap median {middle:.2%}, most {most:.2%}; {time.process_time() - begun:.0f} s")


if __name__ == "__main__":
    main()
