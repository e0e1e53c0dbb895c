"""Neighbours of a projection, for norm bounds whose floats have many digits."""

from __future__ import annotations

import numpy as np
import pytest

from ndis.auditing import ProjectionLaw
from ndis.auditing.candidates.mechanism import projection_neighbours
from ndis.gram import exact_gram
from ndis.pair import GaussianPair


@pytest.mark.parametrize("bound", [1.0, 0.7, 1.0 / 3.0])
def test_the_removal_has_the_leverage_of_its_row(bound):
    rows = np.random.default_rng(0).normal(size=(30, 3))
    law = ProjectionLaw(sketch_size=20, ridge=bound**2, row_norm_bound=bound)
    (removal, addition), _, _ = projection_neighbours(law, rows)
    clipped = rows * np.minimum(1.0, bound / np.linalg.norm(rows, axis=1))[:, None]
    inverse = np.linalg.inv(exact_gram(rows, **law.layout).to_float() + law.ridge * np.eye(3))
    leverage = max(np.einsum("ij,jk,ik->i", clipped, inverse, clipped))
    expected = GaussianPair.from_excess(leverage / (1.0 - leverage), copies=20).delta(0.5)
    assert removal.profile.remove.delta(0.5) == pytest.approx(expected, rel=1e-4)
    assert addition.profile.delta(0.5) > 0.01
