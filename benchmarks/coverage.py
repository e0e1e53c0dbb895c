"""Coverage and length of the intervals of `PrivateLinearRegression`, over simulated data sets.

python -m benchmarks.coverage [--fits 4000]

New records and new noise in every fit. Three regimes: noise of privacy dominates, is comparable with the noise of
sampling, is negligible. The oracle knows the variances of the residuals and of all noise, the true Gram matrix and the
true coefficients; it has the same releases, so the same estimate.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ndis.errors import NotPrivateWarning
from ndis.learn import PrivateLinearRegression
from ndis.learn._summary import normal_quantile

TRUTH = np.array([0.8, -0.5, 0.3, 0.0])
INTERCEPT = 0.2
DEVIATION = 0.3
REGIMES = {"privacy dominates": (4000, 0.5), "comparable": (4000, 2.0), "privacy negligible": (4000, 30.0)}


@dataclass(frozen=True, eq=False)
class Coverage:
    """Shares of intervals that hold the truth, and lengths over the oracle's."""

    fits: int
    each: NDArray[np.float64]
    length: float
    infinite: int
    privacy: float

    @property
    def pooled(self) -> float:
        """Over all coefficients."""
        return float(self.each.mean())


def simulate(records: int, epsilon: float, *, fits: int, seed: int = 0, level: float = 0.95) -> Coverage:
    """Fit `fits` new data sets; coefficients and the intercept are covered or not."""
    truth = np.append(TRUTH, INTERCEPT)
    errors, halves, oracles, shares, infinite = [], [], [], [], 0
    for i in range(fits):
        rng = np.random.default_rng([seed, i])
        x = rng.uniform(-1, 1, size=(records, len(TRUTH)))
        y = x @ TRUTH + INTERCEPT + DEVIATION * rng.normal(size=records)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            model = PrivateLinearRegression(
                epsilon=epsilon, delta=1e-6, row_norm_bound=2.0, target_bound=3.0, random_state=int(rng.integers(2**60))
            ).fit(x, y)
        table = model.summary(level)
        if not np.isfinite(table.standard_error).all():
            infinite += 1
            continue
        errors.append(table.estimate - truth)
        halves.append((table.interval[:, 1] - table.interval[:, 0]) / 2)
        privacy, sampling = oracle(model, x)
        oracles.append(normal_quantile(level) * np.sqrt(privacy + sampling))
        shares.append(privacy / (privacy + sampling))
    error, half = np.array(errors), np.array(halves)
    return Coverage(
        fits,
        (np.abs(error) <= half).mean(axis=0),
        float((half / np.array(oracles)).mean()),
        infinite,
        float(np.mean(shares)),
    )


def oracle(model: PrivateLinearRegression, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """True variances of the estimate, given the clips: by privacy, and by sampling."""
    releases = model.receipt_.parameters["releases"]
    constant = model.receipt_.parameters["intercept"]
    design = np.c_[x, np.full(len(x), constant)]
    units = np.append(np.ones(len(TRUTH)), constant)  # coefficients of the design are those of the data over these
    inverse = np.linalg.inv(design.T @ design)
    step = np.append(TRUTH, INTERCEPT) / units - model.estimate_.at[:, 0] / units
    matrix, noise = releases[0]["noise_std"], releases[-2]["noise_std"]
    inner = noise**2 * np.eye(len(step)) + matrix**2 / 2 * (step @ step * np.eye(len(step)) + np.outer(step, step))
    return np.diagonal(inverse @ inner @ inverse) * units**2, DEVIATION**2 * np.diagonal(inverse) * units**2


def main(arguments: list[str] | None = None) -> None:
    """Print one line per regime."""
    parser = argparse.ArgumentParser(description="Coverage of private intervals.")
    parser.add_argument("--fits", type=int, default=4000)
    given = parser.parse_args(arguments if arguments is not None else [])
    print(f"\n95 % intervals, {given.fits} fits per regime, {len(TRUTH)} coefficients and an intercept")
    print(f"{'regime':<20} {'n':>6} {'eps':>5} {'privacy':>8} {'pooled':>7} {'least':>6} {'length':>7} {'infinite':>9}")
    for name, (records, epsilon) in REGIMES.items():
        found = simulate(records, epsilon, fits=given.fits)
        print(
            f"{name:<20} {records:>6} {epsilon:>5g} {found.privacy:>8.0%} {found.pooled:>7.3f} "
            f"{found.each.min():>6.3f} {found.length:>7.3f} {found.infinite:>9}",
            flush=True,
        )


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
