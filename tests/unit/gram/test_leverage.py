"""Leverages of rows: the definition, the worst row, and what floats cannot factor."""

from __future__ import annotations

import numpy as np
import pytest

from ndis.errors import ParameterError, PrecisionError
from ndis.gram import RowLayout, exact_gram, leverage, worst_row

LAYOUT = RowLayout(4, 1.0)


def rows(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 4)) * rng.uniform(0, 1.5, size=(count, 1))


def test_leverage_matches_the_definition_and_the_worst_row_is_found() -> None:
    x = rows(3000)
    x[5] = np.nan
    gram = exact_gram(x, row_norm_bound=1.0, intercept=0.5)
    scores = np.concatenate(list(leverage(x, gram, ridge=2.0)))
    clipped = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)
    v = np.column_stack([clipped, np.full(len(x), 0.5)])
    v[5] = 0
    expected = np.einsum("ij,ij->i", v, np.linalg.solve(v.T @ v + 2 * np.eye(5), v.T).T)
    np.testing.assert_allclose(scores, expected, atol=1e-7)
    assert scores[5] == 0
    worst = worst_row(x, gram, ridge=2.0)
    assert worst is not None
    assert worst.index == scores.argmax()
    assert worst.leverage == scores.max()
    step = np.array([float(s) for s in gram.layout.steps])
    np.testing.assert_allclose(worst.integers * step, v[worst.index], atol=2e-5)
    assert worst_row(x[:0], gram, ridge=1.0) is None
    with pytest.raises(ParameterError, match="ridge must be positive"):
        worst_row(x, gram, ridge=0.0)
    with pytest.raises(ParameterError, match="data must have the columns of the Gram matrix"):
        worst_row(x[:, :2], gram, ridge=1.0)


def test_leverage_refuses_what_floats_cannot_factor() -> None:
    rows = np.ones((100, 3)) * 0.3
    with pytest.raises(PrecisionError, match="larger ridge"):
        worst_row(rows, exact_gram(rows, row_norm_bound=1.0), ridge=1e-20)
