"""Sufficient statistics XᵀX and Xᵀy with noise for the change of one entry instead of the change of all.

`python examples/audits/wrong_norm.py` refutes it; noise for the Euclidean norm of the whole change survives.
"""

from __future__ import annotations

import math

import numpy as np
from gallery import Exhibit, show

import ndis
from ndis.auditing import AddRows, AuditReport, RemoveEach, Search

CLAIM = ndis.Claim(epsilon=1.0, delta=1e-6)
COLUMNS = 3  # answers between −1 and 1, and a target between −1 and 1
Data = tuple[np.ndarray, np.ndarray]


def statistics(data: Data) -> np.ndarray:
    """The upper triangle of XᵀX, and Xᵀy: all a least-squares fit needs."""
    rows, targets = data
    return np.concatenate([(rows.T @ rows)[np.triu_indices(COLUMNS)], rows.T @ targets])


def change(row: np.ndarray, target: float, *, full: bool = False) -> float:
    """Euclidean norm of what one record adds, to the upper triangle or to the full matrix."""
    products = np.outer(row, row).ravel() if full else np.outer(row, row)[np.triu_indices(COLUMNS)]
    return math.hypot(*products, *(target * row))


def exhibit() -> Exhibit:
    """Answers of 60 people, ±1 each; every removal, and one more person who answers 1 throughout."""
    random = np.random.default_rng(0)
    data = random.choice([-1.0, 1.0], (60, COLUMNS)), random.choice([-1.0, 1.0], 60)
    ones, unit = np.ones(COLUMNS), np.eye(COLUMNS)[0]
    neighbours = [RemoveEach(), AddRows((ones[None], np.ones(1)))]
    calibrated = {"epsilon": CLAIM.epsilon, "delta": CLAIM.delta}
    entry = ndis.GaussianMechanism.calibrated(sensitivity=1.0, **calibrated).noise_std
    whole = ndis.GaussianMechanism.calibrated(sensitivity=change(ones, 1.0), **calibrated).noise_std

    def release(noise_std: float) -> AuditReport:
        def algorithm(data: Data) -> tuple[np.ndarray, np.ndarray]:
            mean = statistics(data)
            return mean, np.full(mean.size, noise_std**2)

        return ndis.audit(CLAIM, algorithm=algorithm, data=data, search=Search(neighbours=neighbours))

    return Exhibit(
        "wrong-norm",
        "Sufficient statistics with the sensitivity of the wrong norm",
        release(entry),
        release(whole),
        {
            "noise for one entry": f"{entry:.6g}",
            "noise for the whole change": f"{whole:.6g}",
            "change, |x_i| ≤ 1, triangle": f"{change(ones, 1.0):.6g}",
            "change, |x_i| ≤ 1, full matrix": f"{change(ones, 1.0, full=True):.6g}",
            "change, ‖x‖ ≤ 1, triangle": f"{change(unit, 1.0):.6g}",
            "change, ‖x‖ ≤ 1, full matrix": f"{change(unit, 1.0, full=True):.6g}",
        },
    )


if __name__ == "__main__":
    show(exhibit())
