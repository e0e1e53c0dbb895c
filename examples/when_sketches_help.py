"""When a private sketch helps and when it does not: the tables of docs/private-sketches.md.

A sketch is compared with the other way to release second moments, Gaussian noise on the Gram matrix, on the same rows,
bounds and budget, followed by the same solver. Seeds make the tables repeatable, so nothing here is a release.

python examples/when_sketches_help.py     four and a half minutes of one core; says on stderr how far it is

With fewer `--repeats` it is faster, and the figures differ from those of the page.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LinearRegression

sys.path.insert(0, str(Path(__file__).parent))
import private_regression as diabetes

import ndis
from ndis.gram import exact_gram
from ndis.learn._releases import INTERCEPT_SHARE
from ndis.learn._ridge import TARGET_SHARE, ridge_from_matrix
from ndis.paper import calibrated_projection

EPSILON, DELTA = 1.0, 1e-6
Fit = Callable[[diabetes.Records, int], tuple[np.ndarray, float]]


@cache
def gaussian_noise_std(norm_bound: float, epsilon: float) -> float:
    """Noise for a Gram matrix: one row changes it by vvᵀ, of Frobenius norm ‖v‖² at most; calibrated exactly."""
    sensitivity = norm_bound**2
    return ndis.GaussianMechanism.calibrated(epsilon=epsilon, delta=DELTA, sensitivity=sensitivity).noise_std


def noisy_gram(gram: np.ndarray, norm_bound: float, seed: int, *, epsilon: float = EPSILON) -> tuple[np.ndarray, float]:
    """Noise that is the same in every direction of the Frobenius norm; and its deviation off the diagonal."""
    std = gaussian_noise_std(norm_bound, epsilon)
    square = np.random.default_rng(seed).normal(size=gram.shape)
    return gram + std * (square + square.T) / 2, std / math.sqrt(2)


def bounds() -> dict[str, float]:
    """The bounds that PrivateRidge sketches with, so that all methods see the same rows."""
    bound = diabetes.ROW_NORM_BOUND
    return {"row_norm_bound": bound, "target_bound": TARGET_SHARE * bound, "intercept": INTERCEPT_SHARE * bound}


def scaled(records: diabetes.Records) -> tuple[np.ndarray, np.ndarray]:
    """Rows and targets in the units of the sketch."""
    return records.rows, records.targets * (TARGET_SHARE * diabetes.ROW_NORM_BOUND / diabetes.TARGET_BOUND)


def solve(gram: np.ndarray, noise: float) -> tuple[np.ndarray, float]:
    """Coefficients and intercept in the units of the data."""
    features = len(gram) - 2
    weights, _ = ridge_from_matrix(gram, features=features, targets=1, alpha=0.0, noise=noise)
    unit = diabetes.TARGET_BOUND / (TARGET_SHARE * diabetes.ROW_NORM_BOUND)
    return weights[:features, 0] * unit, float(weights[features, 0]) * INTERCEPT_SHARE * diabetes.ROW_NORM_BOUND * unit


def by_noise(records: diabetes.Records, seed: int) -> tuple[np.ndarray, float]:
    gram = exact_gram(scaled(records), **bounds())
    return solve(*noisy_gram(gram.to_float(), gram.layout.joint_norm_bound, seed))


def by_sketch(rows_per_column: float, calibrated: Callable[..., Any] = ndis.RandomProjection.calibrated) -> Fit:
    def fit(records: diabetes.Records, seed: int) -> tuple[np.ndarray, float]:
        size = round(rows_per_column * (records.rows.shape[1] + 2))
        mechanism = calibrated(epsilon=EPSILON, delta=DELTA, sketch_size=size, **bounds())
        release = mechanism.release(scaled(records), random_state=seed)
        return solve(release.gram(), release.ridge / math.sqrt(size))

    return fit


def by_rows(rows_per_column: float) -> Fit:
    """Plain least squares on the rows of the sketch, as if they were data; their ridge is left in."""

    def fit(records: diabetes.Records, seed: int) -> tuple[np.ndarray, float]:
        size = round(rows_per_column * (records.rows.shape[1] + 2))
        mechanism = ndis.RandomProjection.calibrated(epsilon=EPSILON, delta=DELTA, sketch_size=size, **bounds())
        sketch = mechanism.release(scaled(records), random_state=seed).sketch
        return solve(sketch.T @ sketch / size, 0.0)

    return fit


METHODS: dict[str, Fit] = {
    "Gaussian noise on the Gram matrix": by_noise,
    "sketch, 1000 rows a column": by_sketch(1000),
    "sketch, 100 rows a column (default)": by_sketch(100),
    "sketch, 20 rows a column": by_sketch(20),
    "sketch, 5 rows a column": by_sketch(5),
    "sketch, 100 rows a column, LSV calibration": by_sketch(100, partial(calibrated_projection, "lsv")),
    "least squares on 100 sketch rows a column": by_rows(100),
    "least squares on 5 sketch rows a column": by_rows(5),
}


def progress(words: str) -> None:
    """One line on stderr, so that the tables on stdout stay whole."""
    print(words, file=sys.stderr, flush=True)


def regression_table(repeats: int) -> None:
    """Held-out error on the diabetes data, as there are and enlarged."""
    records = diabetes.load()
    found: dict[tuple[str, int], list[float]] = {}
    for seed in range(repeats):
        progress(f"diabetes: split {seed + 1} of {repeats}")
        train, test = diabetes.split(records, seed)

        def error(predicted: np.ndarray | float, test: diabetes.Records = test) -> float:
            return float(np.sqrt(np.mean((test.targets - predicted) ** 2)))

        for factor in diabetes.ENLARGED:
            more = diabetes.enlarged(train, factor, seed)
            found.setdefault(("predicting the mean", factor), []).append(error(more.targets.mean()))
            exact = LinearRegression().fit(*more).predict(test.rows)
            found.setdefault(("least squares, not private", factor), []).append(error(exact))
            for name, fit in METHODS.items():
                coefficients, intercept = fit(more, seed)
                found.setdefault((name, factor), []).append(error(test.rows @ coefficients + intercept))
    print(f"Diabetes progression: median held-out error over {repeats} splits, ε = {EPSILON:g}, δ = {DELTA:g}\n")
    print("| method | 353 patients | 3,530 | 35,300 |\n|---|---|---|---|")
    for name in ("predicting the mean", "least squares, not private", *METHODS):
        print(f"| {name} | " + " | ".join(f"{np.median(found[name, f]):.1f}" for f in diabetes.ENLARGED) + " |")


def components_table(repeats: int) -> None:
    """Share of the variance of the digits that ten private components hold."""
    rows = load_digits().data / 16.0  # ink from 0 to 1, by the format of the images
    bound, kept = 5.0, 10
    covariance = np.cov(rows.T, bias=True)
    best = float(np.linalg.eigvalsh(covariance)[-kept:].sum() / np.trace(covariance))
    constant = INTERCEPT_SHARE * bound
    exact = exact_gram(rows, row_norm_bound=bound, intercept=constant)
    print(f"\nDigits, {rows.shape[0]} images of {rows.shape[1]} pixels: share of variance in {kept} components")
    print(f"(not private: {best:.3f})\n\n| ε | Gaussian noise on the Gram matrix | sketch |\n|---|---|---|")
    for epsilon in (0.5, 1.0, 4.0):
        shares: dict[str, list[float]] = {"noise": [], "sketch": []}
        for seed in range(repeats):
            progress(f"digits: ε = {epsilon:g}, draw {seed + 1} of {repeats}")
            noisy, _ = noisy_gram(exact.to_float(), exact.layout.joint_norm_bound, seed, epsilon=epsilon)
            count = max(noisy[-1, -1] / constant**2, 1.0)
            mean = noisy[:-1, -1] / (constant * count)
            vectors = np.linalg.eigh(noisy[:-1, :-1] / count - np.outer(mean, mean))[1][:, -kept:].T
            model = ndis.learn.PrivatePCA(
                kept, epsilon=epsilon, delta=DELTA, row_norm_bound=bound, method="sketch", random_state=seed
            ).fit(rows)
            for name, components in (("noise", vectors), ("sketch", model.components_)):
                shares[name].append(np.trace(components @ covariance @ components.T) / np.trace(covariance))
        print(f"| {epsilon:g} | {np.median(shares['noise']):.3f} | {np.median(shares['sketch']):.3f} |")


def sizes_table() -> None:
    """Ridge and error bound against the size of the sketch, for the diabetes bounds."""
    print("\nSizes, for 10 features, a target and a constant; a Gram norm of 10,000 assumed\n")
    print(
        ndis.RandomProjection.sizes(
            epsilon=1.0,
            delta=DELTA,
            columns=diabetes.load().rows.shape[1] + 1,
            gram_norm_bound=1e4,
            sketch_sizes=[60, 120, 240, 600, 1200, 2400, 12000, 120000],
            **bounds(),
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10, help="splits, and draws, to take the median over")
    repeats = parser.parse_args().repeats
    warnings.simplefilter("ignore", ndis.NotPrivateWarning)
    sizes_table()
    regression_table(repeats)
    components_table(max(repeats // 2, 1))


if __name__ == "__main__":
    main()
