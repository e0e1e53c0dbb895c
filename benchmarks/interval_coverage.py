"""Coverage and length of the intervals of private linear and logistic regression, over simulated data sets.

python -m benchmarks.interval_coverage [--fits 4000] [--logistic-fits 2000] [--hidden-fits 300]

New records and new noise in every fit. Three regimes: noise of privacy dominates, is comparable with the noise of
sampling, is negligible. The length is over that of least squares with known variances, or of plain maximum likelihood,
which have no noise of privacy.

The last table has directions that the noise hides, or nearly hides: a column with little spread, and two columns that
are nearly equal.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ndis.errors import NotPrivateWarning
from ndis.learn import PrivateLinearRegression, PrivateLogisticRegression

TRUTH = np.array([0.8, -0.5, 0.3, 0.0])
INTERCEPT = 0.2
DEVIATION = 0.3
REGIMES = {"privacy dominates": (4000, 0.5), "comparable": (4000, 2.0), "privacy negligible": (4000, 30.0)}


HIDDEN_TRUTH = np.array([0.8, -0.5, 0.6, -0.6])
HIDDEN_RECORDS = 8000
LOGISTIC_TRUTH = np.array([1.5, -1.0, 0.5, 0.0])
LOGISTIC_REGIMES = {
    "privacy dominates": (4000, 1.0, 1.0),
    "comparable": (20000, 1.0, 1.0),
    "privacy negligible": (4000, 30.0, 1.0),
    "large coefficients": (20000, 2.0, 3.0),
}


@dataclass(frozen=True, eq=False)
class Coverage:
    """Shares of intervals that hold the truth, and lengths over those without privacy."""

    fits: int
    each: NDArray[np.float64]
    length: float
    infinite: int
    privacy: float

    @property
    def pooled(self) -> float:
        """Over all coefficients."""
        return float(self.each.mean())


def simulate(records: int, epsilon: float, *, fits: int, seed: int = 0) -> Coverage:
    """Fit `fits` new data sets; coefficients and the intercept are covered or not."""
    truth = np.append(TRUTH, INTERCEPT)
    covered, lengths, infinite = [], [], 0
    for i in range(fits):
        rng = np.random.default_rng([seed, i])
        x = rng.uniform(-1, 1, size=(records, len(TRUTH)))
        y = x @ TRUTH + INTERCEPT + DEVIATION * rng.normal(size=records)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            model = PrivateLinearRegression(
                epsilon=epsilon, delta=1e-6, row_norm_bound=2.0, target_bound=3.0, random_state=int(rng.integers(2**60))
            ).fit(x, y)
        table = model.summary()
        if not np.isfinite(table.standard_error).all():
            infinite += 1
            continue
        low, high = table.interval.T
        covered.append((low <= truth) & (truth <= high))
        design = np.c_[x, np.ones(records)]
        lengths.append(table.standard_error**2 / np.diagonal(np.linalg.inv(design.T @ design)) / DEVIATION**2)
    ratio = float(np.mean(lengths))
    return Coverage(fits, np.mean(covered, axis=0), float(np.sqrt(ratio)), infinite, 1.0 - 1.0 / ratio)


def simulate_logistic(records: int, epsilon: float, scale: float, *, fits: int, seed: int = 0) -> Coverage:
    """The same for logistic regression, with coefficients times `scale`; lengths are over those of plain likelihood."""
    truth = np.append(LOGISTIC_TRUTH * scale, INTERCEPT)
    covered, lengths, infinite = [], [], 0
    for i in range(fits):
        rng = np.random.default_rng([seed, i])
        x = rng.uniform(-1, 1, size=(records, len(LOGISTIC_TRUTH)))
        chance = 1.0 / (1.0 + np.exp(-(x @ truth[:-1] + INTERCEPT)))
        y = (rng.uniform(size=records) < chance).astype(int)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            seeded = int(rng.integers(2**60))
            model = PrivateLogisticRegression(
                epsilon=epsilon, row_norm_bound=2.0, classes=(0, 1), random_state=seeded
            ).fit(x, y)
        table = model.summary()
        if not np.isfinite(table.standard_error).all():
            infinite += 1
            continue
        low, high = table.interval.T
        covered.append((low <= truth) & (truth <= high))
        design = np.c_[x, np.ones(records)]
        plain = np.linalg.inv((design * (chance * (1.0 - chance))[:, None]).T @ design)
        lengths.append(table.standard_error**2 / np.diagonal(plain))
    ratio = float(np.mean(lengths))
    return Coverage(fits, np.mean(covered, axis=0), float(np.sqrt(ratio)), infinite, 1.0 - 1.0 / ratio)


def hidden_table(kind: str, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Rows, targets and the number of coefficients that may be hidden, which come last."""
    x = rng.uniform(-1, 1, size=(HIDDEN_RECORDS, 4))
    if kind == "little spread":
        x[:, 3] = np.clip(rng.normal(0.3, 0.15, size=HIDDEN_RECORDS), -1, 1)
        count = 1
    else:
        x[:, 2] = 0.9 * rng.uniform(-1, 1, size=HIDDEN_RECORDS)
        x[:, 3] = np.clip(x[:, 2] + 0.1 * rng.normal(size=HIDDEN_RECORDS), -1, 1)
        count = 2
    return x, x @ HIDDEN_TRUTH + INTERCEPT + DEVIATION * rng.normal(size=HIDDEN_RECORDS), count


def simulate_hidden(kind: str, epsilon: float, *, fits: int, seed: int = 0) -> tuple[float, float, float, float]:
    """Shares of known coefficients and of covered known ones: the last, which may be hidden, and the others."""
    known, covered = [], []
    for i in range(fits):
        rng = np.random.default_rng([seed, i])
        x, y, count = hidden_table(kind, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            model = PrivateLinearRegression(
                epsilon=epsilon, delta=1e-6, row_norm_bound=2.0, target_bound=3.0, random_state=int(rng.integers(2**60))
            ).fit(x, y)
        low, high = model.coef_interval().T
        known.append(np.isfinite(low))
        covered.append((low <= HIDDEN_TRUTH) & (high >= HIDDEN_TRUTH))
    finite, held = np.array(known), np.array(covered)
    last, others = np.s_[:, -count:], np.s_[:, :-count]
    shares = [
        finite[last].mean(),
        float(held[last][finite[last]].mean()) if finite[last].any() else np.nan,
        finite[others].mean(),
        float(held[others][finite[others]].mean()) if finite[others].any() else np.nan,
    ]
    return tuple(map(float, shares))  # type: ignore[return-value]  # four of them


def main(arguments: list[str] | None = None) -> None:
    """Print one line per regime."""
    parser = argparse.ArgumentParser(description="Coverage of private intervals.")
    parser.add_argument("--fits", type=int, default=4000)
    parser.add_argument("--logistic-fits", type=int, default=2000)
    parser.add_argument("--hidden-fits", type=int, default=300)
    given = parser.parse_args(arguments if arguments is not None else [])
    print(f"\n95 % intervals, {given.fits} fits per regime, {len(TRUTH)} coefficients and an intercept")
    print(HEADER)
    for name, (records, epsilon) in REGIMES.items() if given.fits else ():
        _show(name, records, epsilon, simulate(records, epsilon, fits=given.fits))
    print(f"\nlogistic: {given.logistic_fits} fits per regime, {len(LOGISTIC_TRUTH)} coefficients and an intercept")
    print(HEADER)
    for name, (records, epsilon, scale) in LOGISTIC_REGIMES.items() if given.logistic_fits else ():
        _show(name, records, epsilon, simulate_logistic(records, epsilon, scale, fits=given.logistic_fits))
    print(f"\nhidden directions: {given.hidden_fits} fits each, n = {HIDDEN_RECORDS}")
    print(f"{'table':<18} {'eps':>5} {'hidden: known':>14} {'covered':>8} {'others: known':>14} {'covered':>8}")
    for kind in ("little spread", "nearly equal") if given.hidden_fits else ():
        for epsilon in (0.5, 1.0, 2.0):
            shares = simulate_hidden(kind, epsilon, fits=given.hidden_fits)
            print(f"{kind:<18} {epsilon:>5g} " + "{:>14.2f} {:>8.3f} {:>14.2f} {:>8.3f}".format(*shares), flush=True)


HEADER = f"{'regime':<20} {'n':>6} {'eps':>5} {'privacy':>8} {'pooled':>7} {'least':>6} {'length':>7} {'infinite':>9}"


def _show(name: str, records: int, epsilon: float, found: Coverage) -> None:
    print(
        f"{name:<20} {records:>6} {epsilon:>5g} {found.privacy:>8.0%} {found.pooled:>7.3f} "
        f"{found.each.min():>6.3f} {found.length:>7.3f} {found.infinite:>9}",
        flush=True,
    )


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
