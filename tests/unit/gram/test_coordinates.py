"""Sums of rows in public coordinates: exact, one record at a time, and within their bounds."""

from __future__ import annotations

import importlib.util
import math
import pickle
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from ndis.errors import ParameterError
from ndis.gram.maps import RowMap
from ndis.gram.sums import RecordSums
from ndis.learn._coordinates import BINS
from ndis.learn._linear_regression import calibrated_rounds
from ndis.mechanisms.gaussian import unit_noise

PUBLIC: dict[str, Any] = {"row_norm_bound": 3.0, "target_bound": 2.0}
MATRIX = np.array([[30.0, 1.0, 0.0], [-7.0, 200.0, 0.3], [0.1, 0.0, 1e-3]])
CENTRE = np.array([0.4, -0.2, 5.0])
SHIFT = -MATRIX @ CENTRE
MOVED: dict[str, Any] = {"row_norm_bound": 4.0, "target": (np.array([0.3]), 0.1), "target_bound": 25.0}


def records(count: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 3)), rng.normal(size=count)


# Checks thm:centred-rows.
class TestMap:
    def test_is_the_rounded_map_in_exact_integers(self) -> None:
        """The float64 product is that of Python integers, and its partial sums fit 2⁵³."""
        mapping = RowMap.of(MATRIX, SHIFT, row_norm_bound=3.0)
        assert (mapping.weights == np.rint(mapping.weights)).all()
        for i in range(3):
            length = Fraction(math.isqrt(sum(int(w) ** 2 for w in mapping.weights[:, i])) + 1)
            assert length * 2**24 + abs(int(mapping.offset[i])) <= 2**53
        x, _ = records(50)
        [(z,)] = mapping.blocks((x,))
        for row, mapped in zip(x, z, strict=True):
            length = float(np.linalg.norm(row))
            if length < 3.0:
                q = [int(v) for v in np.rint(row * (2.0**24 / 3.0))]
                for i in range(3):
                    total = sum(a * int(w) for a, w in zip(q, mapping.weights[:, i], strict=True))
                    assert Fraction(mapped[i]) == (total + int(mapping.offset[i])) * Fraction(mapping.unit)
                np.testing.assert_allclose(mapped, MATRIX @ (row - CENTRE), atol=1e-4)

    def test_depends_on_its_own_record_only(self) -> None:
        """Blocks of any length and order give the same bits."""
        mapping = RowMap.of(MATRIX, SHIFT, row_norm_bound=3.0)
        x, _ = records(1000)
        [(whole,)] = mapping.blocks((x,))
        for i in range(0, 1000, 37):
            [(one,)] = mapping.blocks((x[i : i + 1],))
            np.testing.assert_array_equal(one[0], whole[i])
        [(turned,)] = mapping.blocks((x[::-1],))
        np.testing.assert_array_equal(turned[::-1], whole)

    def test_a_row_that_cannot_be_read_stays_one(self) -> None:
        x, y = records(20)
        sums = RecordSums((np.r_[x, [[np.nan, 0, 0], [0, np.inf, 0]]], np.r_[y, 1.0, 1.0]), **PUBLIC)
        moved, plain = (each.in_coordinates(MATRIX, SHIFT, **MOVED) for each in (sums, RecordSums((x, y), **PUBLIC)))
        assert moved.gram() == plain.gram()
        for edges, norms in (((-1.0, 0.0, 1.0), ()), ((), (1.0, 2.0))):
            counts, less = (each.value_counts(edges, norms=norms) for each in (moved, plain))
            assert counts.records == less.records == 20
            np.testing.assert_array_equal(counts.above, less.above)
            np.testing.assert_array_equal(counts.longer, less.longer)
        theta = np.array([0.1, 0.2, -0.3])
        assert moved.term_grams(theta, clip=0.5) == plain.term_grams(theta, clip=0.5)

    def test_nothing_to_read(self) -> None:
        sums = RecordSums((np.zeros((0, 3)), np.zeros(0)), **PUBLIC).in_coordinates(MATRIX, SHIFT, **MOVED)
        assert not sums.gram().integers.any()
        assert sums.value_counts((0.0,)).records == 0

    def test_refused(self) -> None:
        for matrix in (np.zeros((3, 3)), np.full((3, 3), np.nan)):
            with pytest.raises(ParameterError, match=r"^matrix must be finite and not zero"):
                RowMap.of(matrix, np.zeros(3), row_norm_bound=3.0)


# Checks thm:weighted-rows.
class TestWeighted:
    """Rows beyond a bound are shortened together with their targets."""

    WITHIN: ClassVar[dict[str, Any]] = {**MOVED, "row_norm_bound": 1.5, "weighted": True}

    @pytest.mark.parametrize("shaped", [False, True])
    def test_sums_are_those_of_one_weighted_fit(self, shaped: bool) -> None:
        """With the roots of weights that a record's own row has: its length beyond both bounds."""
        x, y = records(2000)
        x[::7] *= 10.0
        matrix, shift = np.vstack([0.3 * np.eye(3), np.zeros(3)]), np.array([0.1, -0.2, 0.0, 1.0])  # with a constant
        shape = np.diag([1.0, 2.0, 0.5, 1.0]) + 0.1 if shaped else None
        sums = RecordSums((x, y), row_norm_bound=3.0, target_bound=5.0)
        how = {**self.WITHIN, "shape": shape, "target": (np.array([0.3]), 0.5)}
        moved = sums.in_coordinates(matrix, shift, **how)
        z, t = x @ matrix.T + shift, (np.clip(y, -5, 5) - 0.3) / 0.5
        own = np.minimum(1.0, 3.0 / np.linalg.norm(x, axis=1))
        root = np.minimum(own, 1.5 / np.linalg.norm(z, axis=1))
        assert 0.1 < (root < 1).mean() < 0.9
        z = (z if shape is None else z @ shape.T) * root[:, None]
        t = t * root
        np.testing.assert_allclose(moved.gram().to_float(), z.T @ z, atol=0.05)
        theta = np.array([0.4, -0.2, 0.1, 0.3])
        terms = z * (t - z @ theta)[:, None]
        np.testing.assert_allclose(
            moved.residual_products(theta, clip=99.0).total.to_float(), terms.sum(axis=0), atol=0.05
        )
        np.testing.assert_allclose(
            moved.term_grams(theta, clip=99.0)[0].to_float(), terms.T @ terms, rtol=0.01, atol=2.0
        )

    def test_a_weight_depends_on_its_own_record_only(self) -> None:
        """Blocks of any length, order and engine have the same bits, also at lengths next to the bounds."""
        x, y = records(3000)
        x *= 10.0 ** np.random.default_rng(1).uniform(-3, 6, size=(3000, 1))
        x[:100] *= 3.0 / np.linalg.norm(x[:100], axis=1)[:, None] * (1 + np.linspace(-1e-6, 1e-6, 100))[:, None]
        x[5, 1], x[6, 0], x[7] = np.nan, 1e308, 0.0
        how = {**self.WITHIN, "shape": np.diag([3.0, 1.0, 0.2])}
        whole = RecordSums((x, y), **PUBLIC).in_coordinates(MATRIX, SHIFT, **how).gram()
        parts = [RecordSums((x[i : i + 1], y[i : i + 1]), **PUBLIC) for i in range(3000)]
        one_by_one = sum(part.in_coordinates(MATRIX, SHIFT, **how).gram().integers for part in parts)
        np.testing.assert_array_equal(one_by_one, whole.integers)
        order = np.random.default_rng(2).permutation(3000)
        assert RecordSums((x[order], y[order]), **PUBLIC).in_coordinates(MATRIX, SHIFT, **how).gram() == whole
        if importlib.util.find_spec("torch"):
            sums = RecordSums((x, y), device="cpu", **PUBLIC)
            assert sums.in_coordinates(MATRIX, SHIFT, **how).gram() == whole

    def test_no_record_is_longer_than_its_bound_in_exact_arithmetic(self) -> None:
        rng = np.random.default_rng(3)
        for _ in range(200):
            x, y = rng.normal(size=(1, 3)) * 10.0 ** rng.uniform(-3, 8), rng.normal(size=1) * 10
            sums = RecordSums((x, y), **PUBLIC).in_coordinates(MATRIX, SHIFT, **self.WITHIN)
            exact = sums.gram().exact(ridge=0)
            assert sum(Fraction(int(n), exact.denominator) for n in np.diag(exact.numerators)) <= Fraction(1.5) ** 2

    @pytest.mark.parametrize("weighted", [False, True])
    def test_a_target_beyond_its_bound_is_one_at_it(self, weighted: bool) -> None:
        """The bound is that of the target itself, and not of its centred or weighted value."""
        totals = []
        for y in (30.0, 9999.0):
            sums = RecordSums((np.array([[20.0]]), np.array([y])), row_norm_bound=25.0, target_bound=30.0)
            how: dict[str, Any] = {"target": (np.array([10.0]), 2.0), "target_bound": 20.0, "weighted": weighted}
            moved = sums.in_coordinates([[1.0]], [0.0], row_norm_bound=2.0, **how)
            totals.append(moved.residual_products(np.zeros(1), clip=1e3).total.to_float())
        np.testing.assert_allclose(totals[1], totals[0], rtol=1e-4)
        np.testing.assert_allclose(totals[0], [2.0 if weighted else 20.0], rtol=1e-3)

    def test_targets_come_with_weighted_rows(self) -> None:
        with pytest.raises(ParameterError, match=r"^target must come with weighted rows"):
            RecordSums(records(9), **PUBLIC).in_coordinates(MATRIX, SHIFT, row_norm_bound=1.0, weighted=True)


class TestCounts:
    def test_are_those_of_the_values(self) -> None:
        x, y = records(500)
        edges = [-0.5, 0.25, 1.0]
        counts = RecordSums((x, y), row_norm_bound=100.0, target_bound=50.0).value_counts(edges, norms=[1.0, 2.0])
        every = np.c_[x, y]
        np.testing.assert_array_equal(counts.above, [(every > edge).sum(axis=0) for edge in edges])
        np.testing.assert_array_equal(counts.longer, [(np.linalg.norm(x, axis=1) > edge).sum() for edge in (1.0, 2.0)])
        assert counts.histograms().shape == (4, 4)
        assert (counts.histograms().sum(axis=1) == 500).all()
        assert counts.lengths().sum() == 500

    def test_values_on_an_edge_are_not_above_it(self) -> None:
        """Rows lie on a coarse grid, so many of them are equal to each other and to edges, and some are broken."""
        x = np.random.default_rng(5).integers(-4, 5, (9_000, 2)) / 4.0  # more than one tile
        edges, norms = [k / 4 for k in range(-4, 5)], [0.0, 0.25, 0.5, 1.0]
        broken = np.r_[x, [[np.nan, 1.0]]]
        counts = RecordSums(broken, row_norm_bound=2.0).value_counts(edges, norms=norms)
        assert counts.above.tolist() == [(x > edge).sum(axis=0).tolist() for edge in edges]
        assert counts.longer.tolist() == [int(((x**2).sum(axis=1) > norm**2).sum()) for norm in norms]
        assert counts.records == 9_000

    def test_travel(self) -> None:
        from ndis.gram.sums import CountAccumulator

        x, y = records(64)
        sums = RecordSums((x, y), **PUBLIC)
        marks = np.zeros((4, 1))
        whole, part = (CountAccumulator(sums._tile, marks, np.zeros(0)) for _ in range(2))
        part.update(x[:20], y[:20, None])
        whole.update(x[20:], y[20:, None])
        whole.merge(pickle.loads(pickle.dumps(part)))
        np.testing.assert_array_equal(whole.finish().above, sums.value_counts([0.0]).above)


class TestTerms:
    @pytest.mark.parametrize("constant", [None, 1.0])
    def test_squares_of_clipped_terms(self, constant: float | None) -> None:
        x, y = records(400)
        two = np.c_[y, 0.5 - y]
        sums = RecordSums((x, two), row_norm_bound=10.0, target_bound=20.0)
        moved = sums.in_coordinates(np.eye(3), np.zeros(3), row_norm_bound=10.0, intercept=constant)
        theta = np.random.default_rng(2).normal(size=(3 + (constant is not None), 2))
        rows = x if constant is None else np.c_[x, np.ones(400)]
        residuals = two - rows @ theta
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(residuals, axis=1)
        residuals = residuals * np.minimum(1.0, 2.0 / lengths)[:, None]
        for j, gram in enumerate(moved.term_grams(theta, clip=2.0)):
            terms = rows * residuals[:, [j]]
            np.testing.assert_allclose(gram.to_float(), terms.T @ terms, atol=1e-2)

    def test_one_record_moves_all_matrices_by_at_most_the_squared_clip(self) -> None:
        """In exact integers, for records far beyond every bound."""
        rng = np.random.default_rng(0)
        for _ in range(200):
            x, y = rng.normal(size=(1, 3)) * 10.0 ** rng.integers(-3, 4), rng.normal(size=(1, 2)) * 5
            sums = RecordSums((x, y), **PUBLIC)
            moved = sums.in_coordinates(MATRIX, SHIFT, row_norm_bound=4.0, intercept=rng.choice([0.5, 1.0, 3.0]))
            clip = float(10.0 ** rng.uniform(-2, 2))
            grams = moved.term_grams(rng.normal(size=(4, 2)), clip=clip)
            total = sum(Fraction(int(v)) ** 2 for gram in grams for v in gram.integers.ravel())
            assert total <= Fraction(2) ** (4 * 18)
            assert {gram.layout.row_norm_bound for gram in grams} == {clip}


# Checks thm:rounds-weighted, and thm:centred-rows for both adjacencies.
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_no_two_records_are_farther_apart_than_the_joint_profile_says(adjacency: Any) -> None:
    """All releases of a fit on one record against those on another, or on none: the shift in standard deviations."""
    budget = calibrated_rounds(epsilon=1.0, delta=1e-6, adjacency=adjacency, rounds=3)
    allowed, rng, replaced = 1 / unit_noise(1.0, 1e-6), np.random.default_rng(4), 1 if adjacency == "add-remove" else 2
    theta, clip = np.array([0.02, -0.01, 0.5, 0.1]), 0.7
    edges = np.linspace(-1.0, 1.0, BINS + 1)[1:-1].tolist()

    def shifts(x: Any, y: float) -> list[Any]:
        sums = RecordSums((np.reshape(x, (1, 3)), np.array([y])), **PUBLIC)
        unit = sums.in_coordinates(np.eye(3) / 3, np.zeros(3), row_norm_bound=1.0, target=(np.zeros(1), 2.0))
        here = sums.in_coordinates(MATRIX, SHIFT, **MOVED, intercept=1.0)
        counts = [
            unit.value_counts(edges).histograms() / budget.count_noise(0, squared_reach=4 * replaced),
            here.value_counts((), norms=[0.5, 1.0, 2.0]).lengths() / budget.count_noise(1, squared_reach=replaced),
        ]
        bound = here.layout.joint_norm_bound_squared
        matrices = [here.gram().to_float() / budget.matrix_noise(i, bound) for i in range(2)]
        own = here.term_grams(theta, clip=clip)[0]
        matrices += [own.to_float() / budget.matrix_noise(i, own.layout.joint_norm_bound_squared) for i in (2, 3)]
        terms = []
        for i in range(3):
            released = here.residual_products(theta, clip=clip, edges=[0.1, 0.3])
            terms.append(released.total.to_float() / budget.sum_noise(i, clip=clip))
            if i < 3:
                counts.append(released.histogram / budget.count_noise(2 + i, squared_reach=replaced))
        return [np.ravel(each) for each in (*counts, *matrices, *terms)]

    farthest = 0.0
    for _ in range(60):
        x, other = (rng.normal(size=3) * 10.0 ** rng.integers(-2, 3) for _ in range(2))
        if rng.random() < 0.5:
            other = 2 * CENTRE - x  # opposite in the coordinates
        one, two = shifts(x, rng.normal() * 9), shifts(other, rng.normal() * 9)
        if adjacency == "add-remove":
            two = [np.zeros_like(each) for each in one]
        farthest = max(farthest, sum(float(np.sum((a - b) ** 2)) for a, b in zip(one, two, strict=True)))
    assert farthest <= allowed**2 * (1 + 1e-9)
    assert farthest > (0.9 if adjacency == "add-remove" else 0.6) * allowed**2
