"""A regression table with privacy: 20 000 made-up wages, so that the truth is known.

python examples/wages.py
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ndis.learn import PrivateLinearRegression

NAMES = ("schooling", "experience", "union", "town")
TRUTH = np.array([1.8, 0.25, 2.0, 0.0])  # euros per hour and year, year, membership, residence
EPSILON, DELTA = 1.0, 1e-7


def wages(records: int = 20_000, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Years of schooling from 12, years of work from 20, two indicators from one half; wages around 25 an hour."""
    rng = np.random.default_rng(seed)
    schooling = rng.normal(0.0, 2.5, records).clip(-6, 8)
    experience = rng.uniform(-20, 20, records)
    x = np.c_[schooling, experience, rng.integers(0, 2, (records, 2)) - 0.5]
    return x, 25.0 + x @ TRUTH + rng.normal(0.0, 6.0, records)


def main() -> None:
    """Print the table of least squares, and two private ones."""
    import pandas as pd

    x, y = wages()
    # Public knowledge: units in which all columns spread alike, a bound on rows, a centre and a bound for wages.
    scales = np.array([2.5, 12.0, 0.5, 0.5])
    rows = pd.DataFrame(x / scales, columns=NAMES)
    design = np.c_[rows, np.ones(len(y))]
    found, *_ = np.linalg.lstsq(design, y - 25.0, rcond=None)
    variance = ((y - 25.0 - design @ found) ** 2).sum() / (len(y) - 5)
    errors = np.sqrt(variance * np.diagonal(np.linalg.inv(design.T @ design)))
    print("Least squares, not private")
    for name, value, error in zip((*NAMES, "(intercept)"), found, errors, strict=True):
        print(f"{name:<12} {value:>8.3f} {error:>7.3f}")
    print("truth:", dict(zip(NAMES, (TRUTH * scales).tolist(), strict=True)))
    for records in (len(y), 1000):
        model = PrivateLinearRegression(epsilon=EPSILON, delta=DELTA, row_norm_bound=4.0, target_bound=40.0)
        print(f"\n{records} records")
        print(model.fit(rows[:records], y[:records] - 25.0).summary())


if __name__ == "__main__":
    main()
