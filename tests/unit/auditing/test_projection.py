"""The auditor of projections: exact on the data."""

from __future__ import annotations

import numpy as np
import pytest

import ndis
from helpers.audits import CLAIM
from ndis.auditing import Claim, ProjectionLaw, audit
from ndis.pair import GaussianPair


def unit_rows(count, columns=3, seed=0):
    x = np.random.default_rng(seed).standard_normal((count, columns))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_projection_is_evaluated_exactly_on_the_data(adjacency):
    """Against the dense pair of the quantised rows, rounded to floats."""
    data = np.random.default_rng(2).normal(size=(40, 3)) * [1.0, 0.5, 0.2]
    law = ProjectionLaw(sketch_size=20, ridge=5.0, row_norm_bound=1.0, adjacency=adjacency)
    report = audit(Claim(0.5, 0.99, adjacency), mechanism=law, data=data)
    from ndis.gram import exact_gram

    def sketch(rows):
        return exact_gram(rows, row_norm_bound=1.0).to_float() + 5.0 * np.eye(3)

    whole = sketch(data)
    removed = [sketch(np.delete(data, i, axis=0)) for i in range(40)]
    zero = np.zeros(3)
    best = max(GaussianPair.from_moments(zero, whole, zero, one).repeat(20).delta(0.5) for one in removed)
    from ndis.auditing.candidates.mechanism import projection_neighbours

    exact, count, how = projection_neighbours(law, data)
    deltas = [one.profile.delta(0.5) for one in exact]
    if adjacency == "add-remove":
        assert count == 41
        assert deltas[0] == pytest.approx(best, rel=1e-10)
        _, vectors = np.linalg.eigh(whole)
        plus = whole + np.outer(vectors[:, 0], vectors[:, 0])
        assert deltas[1] == pytest.approx(
            GaussianPair.from_moments(zero, plus, zero, whole).repeat(20).delta(0.5), rel=1e-3
        )
    else:
        assert max(deltas) > best  # taking a row out and putting another in is worse than taking it out
    assert len(how) >= 1
    assert report.pairs_tried == count + len(law.attained())


def test_a_projection_with_too_little_ridge_is_refuted_by_its_own_data():
    exact = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=50, row_norm_bound=1.0)
    assert not audit(CLAIM, mechanism=exact, data=unit_rows(1)).refuted
    law = ProjectionLaw(50, 0.9 * exact.ridge, 1.0)
    report = audit(CLAIM, mechanism=law)
    assert report.refuted
    crowded = audit(CLAIM, mechanism=exact.law, data=unit_rows(500))
    assert not crowded.refuted
    assert crowded.pairs_tried == 502


def test_a_projection_of_no_rows_and_of_broken_rows():
    law = ProjectionLaw(10, 4.0, 1.0, target_bound=1.0, intercept=0.5)
    broken = (np.full((3, 2), np.nan), np.zeros(3))
    report = audit(CLAIM, mechanism=law, data=broken)
    assert report.pairs_tried == 5
    assert audit(CLAIM, mechanism=ProjectionLaw(10, 4.0, 1.0), data=np.zeros((0, 2))).pairs_tried == 2


def test_removal_by_norm_finds_the_row_of_largest_leverage():
    from ndis.gram import exact_gram, worst_row
    from ndis.gram.leverage import worst_rows

    random = np.random.default_rng(8)
    for scale in (np.ones(5), 10.0 ** -np.arange(5), np.array([30.0, 1, 1, 1, 1])):
        rows = random.standard_normal((70_000, 5)) * scale
        rows[[5, 69_000]] = np.inf
        gram = exact_gram(rows, row_norm_bound=2.0)
        found, count = worst_rows(rows, gram, ridge=0.3)
        worst = worst_row(rows, gram, ridge=0.3)
        assert count == 70_000
        assert found[0].index == worst.index
        assert found[0].integers.tolist() == worst.integers.tolist()


@pytest.mark.parametrize("ridge", [5.0, 1e-9])
def test_products_lie_below_the_true_ones(ridge):
    """thm:products-below, against the exact inverse of two columns; a tiny ridge makes the solution in floats bad."""
    from fractions import Fraction

    from ndis.auditing.candidates.mechanism import _products_below
    from ndis.gram import exact_gram

    rows = np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-20], [0.5, 0.5]]) / 2
    gram = exact_gram(rows, row_norm_bound=2.0)
    v, w = (np.array([Fraction(x) for x in row]) for row in ([0.5, 0.5], [0.25, -0.75]))
    (a, b), (_, d) = gram.exact(ridge=ridge).to_fractions()
    inverse = np.array([[d, -b], [-b, a]]) / (a * d - b * b)
    true = np.array([[p @ inverse @ q for q in (v, w)] for p in (v, w)])
    gap = true - _products_below(gram, ridge, [v, w])
    assert gap[0, 0] >= 0
    assert gap[1, 1] >= 0
    assert gap[0, 0] * gap[1, 1] >= gap[0, 1] * gap[1, 0]
    assert gap[0, 0] + gap[1, 1] <= Fraction(1, 10**9) * (true[0, 0] + true[1, 1])
