"""The solver of the logistic model: its bound of the gradient, its refinement."""

from __future__ import annotations

import mpmath
import numpy as np

from ndis.models import BohningLogistic
from ndis.models.newton import _refine, gradient_bound


def test_the_gradient_bound_counts_each_row_by_its_own_norm():
    """One long row among short ones: n·max‖z‖ would be 10⁵ times too much, and the ball arithmetic would follow."""
    rows, grid = np.ones((20_000, 3)), np.full(3, 2.0**-18)
    rows[0] = 2.0**17
    w = np.full(3, 0.5)
    margins = rows @ (grid * w)
    gradient = w * 1.0 - grid * ((1 / (1 + np.exp(margins))) @ rows)
    assert 0.0 < gradient_bound(rows, grid, w, 1.0) - np.linalg.norm(gradient) < 1e-12


def test_refinement_by_blocks_meets_the_tolerance():
    rng = np.random.default_rng(0)
    rows, grid = np.trunc(rng.normal(size=(1300, 2)) * 2.0**16), np.full(2, 2.0**-18)  # three blocks
    point = _refine(rows, grid, np.zeros(2), 2.0, 2.0**-58)
    model = BohningLogistic(l2_penalty=2.0, row_norm_bound=1.5, gradient_tolerance=2.0**-58)
    with mpmath.workprec(200):
        w = [mpmath.mpf(int(n)) / point.denominator for n in point.numerators]
        total = [2 * x for x in w]
        for row in (rows * grid).tolist():
            weight = 1 / (1 + mpmath.exp(sum(mpmath.mpf(z) * x for z, x in zip(row, w, strict=True))))
            total = [t - weight * mpmath.mpf(z) for t, z in zip(total, row, strict=True)]
        assert mpmath.sqrt(sum(t * t for t in total)) <= model.gradient_tolerance
