"""A slot made for one bound, and a request calibrated for another: equal to twelve digits is not dominated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ndis

BOUNDS = (2.236, 2.2, 2.1, 2.0, 1.0)


def sketch(bound: float, epsilon: float = 0.5) -> ndis.RandomProjection:
    return ndis.RandomProjection.calibrated(epsilon=epsilon, delta=1e-7, sketch_size=50, row_norm_bound=bound)


def test_a_slightly_smaller_epsilon_is_dominated_whatever_the_bound() -> None:
    slot = sketch(BOUNDS[0]).profile()
    assert all(ndis.dominance.dominates(slot, sketch(bound, 0.4995).profile()).holds for bound in BOUNDS)


def test_the_refusal_says_what_to_do(tmp_path: Path) -> None:
    """Calibrations differ in the last digit, so one of two is above the other."""
    higher, lower = sorted((sketch(b) for b in BOUNDS), key=lambda m: m.profile().groups[0].remove.excess[0])[::4]
    assert higher.leverage == pytest.approx(lower.leverage, rel=1e-12)
    low, high = (
        (lower, higher) if ndis.dominance.dominates(higher.profile(), lower.profile()).holds else (higher, lower)
    )
    ledger = ndis.Ledger.create(tmp_path / "l", epsilon=1.0, delta=1e-6, plan={"a": (low, 2)}, data_name="x")
    with pytest.raises(ndis.BudgetError, match="release with the mechanism of the slot, or with a slightly smaller"):
        ledger.release("a", high, np.array([[0.5]]))
    assert ledger.release("a", sketch(high.row_norm_bound, 0.4995), np.array([[0.5]])).receipt.private
    assert ledger.release("a", low, np.array([[0.5]])).receipt.private
