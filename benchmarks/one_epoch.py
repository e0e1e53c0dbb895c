"""Certified ε of one epoch and of parts of one, next to the ε of floats, with the times.

python -m benchmarks.one_epoch

In these settings a record is sampled about once, or almost never, and δ is small. The bar: `certified_epsilon` is
within 0.1 % of `epsilon` and takes at most 10 s of processor time.
"""

from __future__ import annotations

import time

from ndis import DPSGD

SETTINGS = (  # rate, steps, noise multiplier, δ
    (2e-4, 5005, 0.6, 1e-6),
    (5.18e-4, 1930, 0.614, 1.1e-10),
    (4.1e-5, 24415, 0.6, 1e-9),
    (6.4e-5, 15625, 0.5, 1e-12),
    (6.4e-8, 156250, 0.8, 1e-10),
    (1e-3, 50, 1.0, 1e-8),
)
SHARES = (1, 10, 100)  # the whole of a setting, a tenth, a hundredth


def main() -> None:
    """Print one line per setting and share."""
    print(f"{'rate':>9}{'steps':>8}{'noise':>7}{'delta':>9}{'epsilon':>15}{'s':>7}{'certified':>15}{'s':>7}{'excess':>10}")
    worst = slowest = 0.0
    for share in SHARES:
        for rate, steps, noise, delta in SETTINGS:
            run = DPSGD(noise_multiplier=noise, sampling_rate=rate, steps=max(steps // share, 1))
            start = time.process_time()
            epsilon = run.epsilon(delta)
            middle = time.process_time()
            certified = run.certified_epsilon(delta)
            end = time.process_time()
            excess = certified / epsilon - 1.0 if epsilon > 0.0 else certified
            worst, slowest = max(worst, excess), max(slowest, end - middle)
            print(
                f"{rate:9.2e}{run.steps:8d}{noise:7.3f}{delta:9.1e}{epsilon:15.8g}{middle - start:7.2f}"
                f"{certified:15.8g}{end - middle:7.2f}{excess:10.1e}",
                flush=True,
            )
    print(f"largest excess {worst:.1e} (bar 1e-3), slowest certificate {slowest:.1f} s (bar 10 s)")


if __name__ == "__main__":
    main()
