"""Certificates of repeated sketches of Poisson samples: their widths and the processor time that they take.

    python -m benchmarks.sketch_certificates

Each case is n sketches of r rows at rate q, whose loss without sampling has a given standard deviation. δ is certified
in both orders at the ε that belongs to δ = 1e-6.
"""

from __future__ import annotations

import itertools
import math
import time

import numpy as np

import ndis
from ndis.errors import PrecisionError

RATES = (0.01, 0.05, 0.2, 0.5)
COUNTS = (2, 3, 5, 10, 30, 100)
ROWS = (10, 50)
SPREADS = (0.3, 1.0, 2.0)  # standard deviation of the loss of one sketch, without sampling
DELTA = 1e-6
WIDTH = 1.01e-6


def main() -> None:
    """Print a line for each case that is slow or wide, and a summary."""
    took, widths = [], []
    for rows, spread, rate, count in itertools.product(ROWS, SPREADS, RATES, COUNTS):
        leverage = spread / math.sqrt(rows / 2)
        one = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.0 + leverage, copies=rows))
        profile = one.subsampled(rate).repeat(count)
        name = f"{count} sketches of {rows} rows, leverage {leverage:.3g}, rate {rate:g}"
        try:
            epsilon = profile.epsilon(DELTA)
        except PrecisionError as refusal:
            print(f"{name}: no epsilon ({refusal})", flush=True)
            continue
        begun = time.process_time()
        box = profile.certify(epsilon)
        took.append(time.process_time() - begun)
        widths.append(box.width / box.upper)
        if took[-1] > 3.0 or not widths[-1] <= WIDTH:
            print(f"{name}: {took[-1]:.2f} s, relative width {widths[-1]:.1e}", flush=True)
    print(
        f"{len(took)} certificates in both orders: processor time median {np.median(took):.2f} s, 95 % "
        f"{np.quantile(took, 0.95):.2f} s, max {max(took):.2f} s; relative width at most {max(widths):.1e}"
    )


if __name__ == "__main__":
    main()
