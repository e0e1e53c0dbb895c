"""Known faults of private releases: each is refuted from a stated domain alone, and its repaired twin is not.

`python examples/known_faults.py` prints the table of docs/known-faults.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import ndis
from ndis.auditing import AuditReport, DataSet, Domain

EPSILON, DELTA = 1.0, 1e-6
UNIT = ndis.GaussianMechanism.calibrated(epsilon=EPSILON, delta=DELTA, sensitivity=1.0).noise_std
INTERVAL = Domain(low=0.0, high=1.0, features=1)
ANSWERS = Domain(low=0.0, high=1.0, features=5)
BALL = Domain(row_norm_bound=1.0, features=2)
WIDE = Domain(low=-100.0, high=100.0, features=1)
PAIRS = Domain(row_norm_bound=1.0, features=2, target_bound=1.0)
Law = Callable[[Any], Any]


@dataclass(frozen=True)
class Fault:
    """A fault has a domain, the faulty algorithm and the repaired one."""

    name: str
    words: str
    domain: Domain
    faulty: Law
    repaired: Law
    adjacency: Any = "add-remove"
    min_rows: int | None = None

    def audit(self, algorithm: Law) -> AuditReport:
        """Audit one of the two; no data are given."""
        claim = ndis.Claim(EPSILON, DELTA, self.adjacency)
        return ndis.audit(claim, algorithm=algorithm, data=DataSet(domain=self.domain, min_rows=self.min_rows))


def noise(size: int, deviation: float) -> np.ndarray:
    """Independent coordinates of equal deviation."""
    return np.full(size, deviation**2)


def total(rows: np.ndarray, deviation: float = UNIT) -> tuple[np.ndarray, np.ndarray]:
    """The sum with noise: sound if no row is longer than deviation/UNIT."""
    return rows.sum(axis=0), noise(rows.shape[1], deviation)


def mean_and_count(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum and count together, for rows in [0, 1]: what the analyst divides later."""
    return np.append(rows.sum(axis=0), float(len(rows))), noise(rows.shape[1] + 1, UNIT * math.sqrt(rows.shape[1] + 1))


def from_spread(rows: np.ndarray) -> tuple[Any, Any]:
    return [rows.mean()], [(UNIT * (rows.std() + 1e-6)) ** 2 / len(rows)]


def from_range(rows: np.ndarray) -> tuple[Any, Any]:
    return [rows.sum()], [(UNIT * (np.ptp(rows) + 1e-9)) ** 2]


def from_count(rows: np.ndarray) -> tuple[Any, Any]:
    return [rows.mean()], [(UNIT / len(rows)) ** 2]


def from_eigenvalue(rows: np.ndarray) -> tuple[Any, Any]:
    largest = float(np.linalg.eigvalsh(rows.T @ rows)[-1])
    return rows.sum(axis=0), noise(2, UNIT * max(1.0, largest))


def wrong_norm(rows: np.ndarray) -> tuple[Any, Any]:
    return total(rows, UNIT)  # the largest entry is 1, the norm is √5


def mean_for_sum(rows: np.ndarray) -> tuple[Any, Any]:
    return [rows.sum()], [(UNIT / 20) ** 2]


def sketch(rows: np.ndarray, *, ridge: float, intercept: bool = True) -> ndis.Gaussian:
    """A Gaussian sketch of 300 rows, each N(0, DᵀD + ridge·I)."""
    table = np.column_stack([rows, np.ones(len(rows))]) if intercept else rows
    width = table.shape[1]
    return ndis.Gaussian(np.zeros(width), table.T @ table + ridge * np.eye(width), copies=300)


SHORT_RIDGE, FULL_RIDGE = (
    ndis.RandomProjection.calibrated(epsilon=EPSILON, delta=DELTA, sketch_size=300, row_norm_bound=bound).law.ridge
    for bound in (1.0, math.sqrt(2.0) * (1.0 + 1e-9))
)


def seeded(rows: np.ndarray) -> tuple[Any, Any]:
    return [rows.sum() + UNIT * np.random.default_rng(0).standard_normal()], [0.0]  # the seed is public


def clip_after(rows: np.ndarray) -> tuple[Any, Any]:
    return np.clip(rows.sum(axis=0), -1.0, 1.0), noise(1, UNIT)


def clip_before(rows: np.ndarray) -> tuple[Any, Any]:
    return total(np.clip(rows, -1.0, 1.0))


def hidden_test(rows: np.ndarray) -> tuple[Any, Any]:
    enough = len(rows) > 12 and rows.mean() > 0.25  # the test itself has no noise
    return [rows.mean() if enough else 0.0], [(UNIT / 12) ** 2 if enough else UNIT**2]


def hidden_ridge(rows: np.ndarray) -> ndis.Gaussian:
    least = float(np.linalg.eigvalsh(rows.T @ rows)[0]) if len(rows) else 0.0
    return sketch(rows, ridge=SHORT_RIDGE - least if least < 0.9 * SHORT_RIDGE else 0.0, intercept=False)


def outliers_dropped(rows: np.ndarray) -> tuple[Any, Any]:
    kept = rows[np.abs(rows - rows.mean()) <= 2.0 * rows.std() + 1e-9] if len(rows) else rows
    return [kept.sum()], [UNIT**2]


def standardised(rows: np.ndarray) -> tuple[Any, Any]:
    centred = (rows - rows.mean(axis=0)) / (rows.std(axis=0) + 1e-3) if len(rows) else rows
    return total(np.clip(centred, -1.0, 1.0), UNIT)


def scaled_to_largest(rows: np.ndarray) -> tuple[Any, Any]:
    largest = max(float(np.linalg.norm(rows, axis=1).max(initial=0.0)), 1e-9)
    return total(rows / largest, UNIT)


def nonempty_cells(rows: np.ndarray) -> tuple[Any, Any]:
    counts = np.bincount((rows[:, 0] * 4).astype(int), minlength=5).astype(float)
    return counts, np.where(counts > 0, UNIT**2, 0.0)


def all_cells(rows: np.ndarray) -> tuple[Any, Any]:
    return np.bincount((rows[:, 0] * 4).astype(int), minlength=5).astype(float), noise(5, UNIT)


def bins_from_data(rows: np.ndarray) -> tuple[Any, Any]:
    low, high = (rows.min(), rows.max()) if len(rows) else (0.0, 1.0)
    return np.histogram(rows, bins=4, range=(low, high + 1e-9))[0].astype(float), noise(4, UNIT)


def median(rows: np.ndarray) -> tuple[Any, Any]:
    middle = np.sort(rows[:, 0])[max(len(rows) // 2 - 1, 0) : len(rows) // 2 + 2]
    return [np.median(rows)], [(UNIT * (np.ptp(middle) + 1e-9)) ** 2]  # local sensitivity, not smoothed


def triangle(rows: np.ndarray, deviation: float) -> tuple[Any, Any]:
    return (rows.T @ rows)[np.triu_indices(rows.shape[1])], noise(rows.shape[1] * (rows.shape[1] + 1) // 2, deviation)


def posterior(data: tuple[np.ndarray, np.ndarray], *, extra: float) -> tuple[Any, Any]:
    x, y = data
    spread = np.linalg.inv(x.T @ x + 5.0 * np.eye(2))
    return spread @ (x.T @ y), spread + extra * np.eye(2)


def statistics(data: tuple[np.ndarray, np.ndarray], *, deviation: float) -> tuple[Any, Any]:
    x, y = data
    return np.append((x.T @ x)[np.triu_indices(2)], x.T @ y), noise(5, deviation)


def imputed(rows: np.ndarray) -> tuple[Any, Any]:
    known = rows[rows > 0]  # 0 stands for a missing answer
    guess = known.mean() if known.size else 0.0
    return [np.where(rows > 0, rows, guess).sum()], [UNIT**2]


def exact_when_empty(rows: np.ndarray) -> tuple[Any, Any]:
    return [rows.sum()], [UNIT**2 if len(rows) else 0.0]


def mode_dependent(rows: np.ndarray) -> tuple[Any, Any]:
    return [rows.sum()], [UNIT**2 * (1.0 + (rows.sum() > 7.5))]  # more noise once the answer is large


def maximum(rows: np.ndarray) -> tuple[Any, Any]:
    return [rows.max(initial=0.0)], [(UNIT / 20) ** 2]


def first_row(rows: np.ndarray) -> tuple[Any, Any]:
    return [(rows - rows[:1]).sum()], [UNIT**2]


def ratio(rows: np.ndarray) -> tuple[Any, Any]:
    return [rows[:, 0].sum() / (rows[:, 1].sum() + 1e-3)], [UNIT**2]


def two_sums(rows: np.ndarray) -> tuple[Any, Any]:
    return total(rows[:, :2], UNIT * math.sqrt(2.0))


def own_direction(rows: np.ndarray) -> tuple[Any, Any]:
    _, vectors = np.linalg.eigh(rows.T @ rows)
    return [float((rows @ vectors[:, -1]).sum())], [UNIT**2]


def least_squares(data: tuple[np.ndarray, np.ndarray]) -> tuple[Any, Any]:
    x, y = data
    return np.linalg.solve(x.T @ x + 1e-3 * np.eye(2), x.T @ y), noise(2, UNIT)


def exact_count(rows: np.ndarray) -> tuple[Any, Any]:
    return [rows.sum(), float(len(rows))], [UNIT**2, 0.0]


def wide_count(rows: np.ndarray) -> ndis.Gaussian:
    return ndis.Gaussian(rows.sum(axis=0), [UNIT**2 * (1000 + len(rows))], copies=1000)


def large_tables(rows: np.ndarray) -> tuple[Any, Any]:
    return [rows.sum()], [UNIT**2 * (1.0 if len(rows) < 1234 else 0.5)]


FAULTS = (
    Fault("spread", "noise from the sample's own spread", INTERVAL, from_spread, mean_and_count),
    Fault("range", "noise from the sample's own range", INTERVAL, from_range, total),
    Fault("count", "noise from the number of rows, which is private", INTERVAL, from_count, mean_and_count),
    Fault("eigenvalue", "noise from the largest eigenvalue", BALL, from_eigenvalue, total),
    Fault("norm", "largest entry instead of Euclidean norm", ANSWERS, wrong_norm,
          lambda r: total(r, UNIT * math.sqrt(5.0))),
    Fault("mean-for-sum", "sensitivity of the mean, noise on the sum", INTERVAL, mean_for_sum, total),
    Fault("intercept", "a sketch whose bound forgets the intercept", BALL, lambda r: sketch(r, ridge=SHORT_RIDGE),
          lambda r: sketch(r, ridge=FULL_RIDGE)),
    Fault("seed", "noise from a seed that everybody knows", INTERVAL, seeded, total),
    Fault("clip-after", "the sum is clipped, not the rows", WIDE, clip_after, clip_before),
    Fault("hidden-test", "a test on the data without noise decides", INTERVAL, hidden_test, mean_and_count),
    Fault("hidden-ridge", "propose, test, release with a test that has no noise", BALL, hidden_ridge,
          lambda r: sketch(r, ridge=SHORT_RIDGE, intercept=False)),
    Fault("outliers", "rows far from the mean are dropped first", WIDE, outliers_dropped, clip_before),
    Fault("standardised", "columns are standardised by the data", ANSWERS, standardised,
          lambda r: total(r, UNIT * math.sqrt(5.0))),
    Fault("largest-row", "rows are divided by the longest one", BALL, scaled_to_largest, total),
    Fault("empty-cells", "noise only for cells that are not empty", INTERVAL, nonempty_cells, all_cells),
    Fault("bins", "edges of a histogram from the data", INTERVAL, bins_from_data, all_cells),
    Fault("median", "local sensitivity of the median", INTERVAL, median, all_cells),
    Fault("maximum", "a maximum with the noise of a mean", INTERVAL, maximum, total),
    Fault("triangle", "second moments with the noise of one entry", ANSWERS, lambda r: triangle(r, UNIT),
          lambda r: triangle(r, UNIT * math.sqrt(15.0))),
    Fault("posterior", "a posterior is taken for private as it is", PAIRS, lambda d: posterior(d, extra=0.0),
          lambda d: statistics(d, deviation=UNIT * math.sqrt(2.0))),
    Fault("target", "the bound forgets the target", PAIRS, lambda d: statistics(d, deviation=UNIT),
          lambda d: statistics(d, deviation=UNIT * math.sqrt(2.0))),
    Fault("imputed", "gaps are filled with the mean of the others", INTERVAL, imputed, total),
    Fault("empty-table", "an empty table is answered without noise", INTERVAL, exact_when_empty, total),
    Fault("answer", "more noise if the answer is large", INTERVAL, mode_dependent, total),
    Fault("replace-one", "noise for add-remove, claimed for replace-one", BALL, total, lambda r: total(r, 2.0 * UNIT),
          "replace-one"),
    Fault("first-row", "the first row is the origin of the others", INTERVAL, first_row, total),
    Fault("ratio", "a quotient with the noise of a sum", ANSWERS, ratio, two_sums),
    Fault("direction", "rows along the data's own principal direction", BALL, own_direction, total),
    Fault("least-squares", "coefficients with the noise of a sum", PAIRS, least_squares,
          lambda d: statistics(d, deviation=UNIT * math.sqrt(2.0))),
    Fault("exact-count", "the count beside the noisy sum has no noise", INTERVAL, exact_count, mean_and_count),
    Fault("wide-count", "the count scales the noise of 1000 numbers", INTERVAL, wide_count,
          lambda r: ndis.Gaussian(r.sum(axis=0), [(UNIT**2) * 1000], copies=1000)),
    Fault("large-tables", "less noise from 1234 rows on", INTERVAL, large_tables, total),
    Fault("deviation", "the deviation is taken for the variance", INTERVAL, lambda r: ([r.sum()], [UNIT]), total),
    Fault("fewer-rows", "the number of rows is called public, but is lower", INTERVAL,
          lambda r: ([r.mean()], [(UNIT / 100) ** 2]), lambda r: ([r.mean()], [(UNIT / 30) ** 2]), min_rows=30),
)  # fmt: skip


def main() -> None:
    """Print the table of the page."""
    print("| fault | what goes wrong | refuted up to ε | the neighbours | repaired |\n|---|---|---|---|---|")
    for fault in FAULTS:
        report, twin = fault.audit(fault.faulty), fault.audit(fault.repaired)
        assert report.witness is not None
        epsilon = "every ε" if report.epsilon_refuted == math.inf else f"{report.epsilon_refuted:.3g}"
        verdict = "refuted" if twin.refuted else "not refuted"
        cells = (f"`{fault.name}`", fault.words, epsilon if report.refuted else "not refuted")
        print("|", " | ".join([*cells, report.witness.neighbours, verdict]), "|", flush=True)


if __name__ == "__main__":
    main()
