"""Inputs on which a number once came out wrong, or looked private: each is held to an independent truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb

import ndis
from ndis import GaussianPair, ParameterError
from ndis._balls import precision
from ndis.spectrum.certified import _delta_ball
from ndis.spectrum.dense_balls import _clusters
from ndis.spectrum.directions import Directions
from ndis.spectrum.verified_eigen import Diagonal

EYE2 = np.eye(2)


def agree(pair: GaussianPair, epsilon: float) -> None:
    """The float lies in its certificate, up to its own rounding."""
    box = pair.certify(epsilon)
    value = pair.delta(epsilon)
    assert box.lower * (1 - 1e-11) <= value <= box.upper * (1 + 1e-11)


@pytest.mark.parametrize(("scale", "epsilon"), [(2.0, 1.0), (0.5, 1.8), (200.0, 5.0)])
def test_repeated_ratios_share_the_shift(scale: float, epsilon: float) -> None:
    dense = GaussianPair.from_moments([1.0, 0, 0], scale * np.eye(3), [0] * 3, np.eye(3))
    plain = GaussianPair.from_ratios([scale] * 3, [1.0, 0, 0])
    assert dense.certify(epsilon).lower <= plain.certify(epsilon).upper
    assert plain.certify(epsilon).lower <= dense.certify(epsilon).upper
    assert dense.delta(epsilon) == pytest.approx(plain.delta(epsilon), rel=1e-12)
    assert dense.loss_supremum() == pytest.approx(plain.loss_supremum(), rel=1e-12)


def test_epsilon_is_checked_where_the_factor_is_rank_deficient() -> None:
    pair = GaussianPair.from_low_rank([1.0, -0.3], [0, 0], EYE2, [[0.3, 0.1], [0.6, 0.2]], sign=-1)
    epsilon = pair.epsilon(1e-6)
    assert pair.certify(epsilon).upper <= 1e-6
    assert math.isinf(pair.loss_supremum())


def test_what_is_exactly_singular_is_not_private() -> None:
    for pair in (
        GaussianPair.from_low_rank([0, 0], [0, 0], [[2, 1], [1, 1]], [[1], [0]], sign=-1),
        GaussianPair.from_moments([1, 1 + 2**-50], 0.5 * np.ones((2, 2)), [0, 0], np.ones((2, 2))),
    ):
        assert pair.mutually_singular
        assert pair.delta(1.0) == 1.0
        assert pair.epsilon(1e-6) == math.inf
        assert pair.certify(1.0).lower == 1.0


def test_overflow_does_not_look_private() -> None:
    for moments in (
        ([1e308, 0], EYE2, [-1e308, 0], EYE2),
        ([1e200, 1.0], 1e-300 * EYE2, [0, 0], 1e-300 * EYE2),
        ([0, 0], 1e300 * EYE2, [0, 0], 1e-300 * EYE2),
    ):
        with pytest.raises(ParameterError, match="must be within the range of floats"):
            GaussianPair.from_moments(*moments)
    for make in (
        lambda: GaussianPair.from_ratios(1.0, 1e-200),
        lambda: GaussianPair.from_diagonal(1e-200, 1, 0, 1),
        lambda: ndis.delta_batch([1.0], [1e-200], epsilon=0.0),
    ):
        with pytest.raises(ParameterError, match="be 0 or at least"):
            make()


@pytest.mark.parametrize("k", [46, 48, 49, 50, 52])
def test_directions_that_floats_cannot_see_count(k: int) -> None:
    u = 2.0**-k
    pair = GaussianPair.from_moments([0, 0], [[1, 1], [1, 1 + 4 * u]], [0, 0], [[1, 1], [1, 1 + 2 * u]])
    assert pair.delta(1.0) == pytest.approx(GaussianPair.from_ratios(2.0).delta(1.0), rel=1e-9)
    agree(pair, 1.0)


def test_common_range_with_and_without_rounding() -> None:
    two = GaussianPair.from_ratios(2.0, copies=2)
    rng = np.random.default_rng(0)
    rounded = rng.normal(size=(5, 2))
    exact = rng.integers(-3, 4, size=(40, 2)).astype(float)
    for f in (rounded, exact):
        c = f @ f.T
        pair = GaussianPair.from_moments(np.zeros(len(c)), 2 * c, np.zeros(len(c)), c)
        assert pair.delta(1.0) == pytest.approx(two.delta(1.0), rel=1e-12)


def test_tiny_ratios_are_told_apart_and_have_an_end() -> None:
    agree(GaussianPair.from_ratios([1e-20, 1e-30]), 57.0)
    for ratio in (1e-50, 1.6830891525830475e-58, 1e-60, 1e-200):
        pair = GaussianPair.from_ratios(ratio)
        assert pair.loss_supremum() == pytest.approx(-0.5 * math.log(ratio), rel=1e-15)
        assert pair.certify(pair.epsilon(1e-6)).upper <= 1e-6


def test_small_and_large_excess_in_one_dense_pair() -> None:
    w = np.array([[-1.0, 3, 0], [-2, -2, 2], [-1, -1, -3]])
    ratio = np.array([0.5, 1 + 2**-30, 1 + 2**-30])
    dense = GaussianPair.from_moments(np.zeros(3), w @ np.diag(ratio) @ w.T, np.zeros(3), w @ w.T)
    assert dense.log_delta(1.0) == pytest.approx(GaussianPair.from_ratios(ratio).log_delta(1.0), rel=1e-12)


def test_tradeoff_near_the_end_of_the_loss() -> None:
    # N(0, ½) against N(0, 1): reject P for |x| beyond a threshold; β = erf(x/√2) with erf(x) = 1 − α
    assert GaussianPair.from_ratios(0.5).tradeoff(1 - 1e-12) == pytest.approx(7.0709e-13, rel=1e-4)
    assert 1 - GaussianPair.from_ratios(2.0).tradeoff(1e-12) == pytest.approx(1.41e-12, rel=1e-2)


def test_where_the_integrand_decays_algebraically() -> None:
    pair = GaussianPair.from_ratios([2, 0.5], shift=[0, 1])  # −½Σlog τ − ε − ½Σm²/t = 0 at ε = 1
    wide, narrow = pair.certify(1.0), pair.certify(1.0, relative_width=1e-15)
    assert wide.lower <= narrow.lower <= narrow.upper <= wide.upper


@pytest.mark.parametrize(
    ("moments", "epsilon"),
    [
        (([2.0, 0], [[49.0, 30], [30, 20]], [0, 0], [[13.0, 6], [6, 4]]), 1.0),
        (([1.0, 3.0], [[48.0, -6], [-6, 32]], [0, 0], 10 * EYE2), 2.0),
        (([0, 0], np.diag([1e-200, 1]), [0, 0], EYE2), 1.0),
    ],
)
def test_small_dense_pairs_are_certified(moments: tuple[object, ...], epsilon: float) -> None:
    agree(GaussianPair.from_moments(*moments), epsilon)  # type: ignore[arg-type]


@pytest.mark.parametrize("d", [5, 25, 40])
def test_generic_dense_pairs_are_certified(d: int) -> None:
    rng = np.random.default_rng(d)
    a, b = rng.normal(size=(2 * d, d)), rng.normal(size=(2 * d, d))
    mean = 0.1 * rng.normal(size=d)
    agree(GaussianPair.from_moments(mean, a.T @ a / d + np.eye(d), 0 * mean, b.T @ b / d + np.eye(d)), 1.0)


def test_delta_near_one_through_its_complement() -> None:
    agree(GaussianPair.from_ratios(1.0000722046960087, copies=999876), -32.822341719322154)
    ratio = [3.3787822441061954, 28601.21086453596, 1.0874322530931223e-05]
    shift = [-4.227527128809428, -8.198995488725492, -5.818975542293626]
    agree(GaussianPair.from_ratios(ratio, shift).reversed(), -1.0)


def test_a_cholesky_factor_is_checked() -> None:
    cov = np.array([[2, 0.5], [0.5, 1.0]])
    factor = np.linalg.cholesky(cov)
    good = GaussianPair.from_low_rank([0, 0], [0, 0], cov, [[1.0], [0]], cholesky_q=factor)
    assert good.delta(1.0) == GaussianPair.from_low_rank([0, 0], [0, 0], cov, [[1.0], [0]]).delta(1.0)
    for bad in (factor.T, 10 * factor, np.zeros((2, 2))):
        with pytest.raises(ParameterError, match="cholesky_q must be the lower Cholesky factor"):
            GaussianPair.from_low_rank([0, 0], [0, 0], cov, [[1.0], [0]], cholesky_q=bad)


def test_asymmetry_is_judged_entry_by_entry() -> None:
    with pytest.raises(ParameterError, match="cov_p must be symmetric"):
        GaussianPair.from_moments([0, 0], [[1e20, 0.99], [-0.99, 1e-20]], [0, 0], EYE2)


def test_uncertain_inputs_widen_the_enclosure_enough() -> None:
    with precision(200):
        box = _delta_ball(Directions([], arb(0.01) * arb(1, 1e-9)), 6.0, 62.0)
        end = _delta_ball(Directions([], arb(0.01) * (1 + arb(1e-9))), 6.0, 62.0)
    assert box is not None
    assert end is not None
    assert box.overlaps(end)


def test_wide_diagonal_balls_join_one_cluster() -> None:
    half = arb(0.5)
    diagonal = Diagonal([arb(13.5, 9.5), arb(14), arb(20)], arb(0), [half, half, half], arb(0))
    found = _clusters(diagonal, 0, False)
    assert found is not None
    assert [n for _, _, n in found.curved] == [3]


def test_pairs_cannot_be_written_to() -> None:
    pair = GaussianPair.from_ratios([2.0])
    with pytest.raises(ValueError, match="read-only"):
        pair.variance_ratio[0] = 7.0


@pytest.mark.parametrize("rest", [0.0, 1e-9, 1e-12, 1.66e-15])
def test_epsilon_beside_the_cliff_of_an_almost_bounded_loss(rest):
    """A narrower coordinate bounds the loss at 0.468; the rounding of a whitening adds a hair of a Gaussian to it, and
    log δ falls off a cliff there. The answer, far from the cliff, does not change."""
    pair = ndis.GaussianPair.from_ratios([0.9920712457027678, 1.0], shift=[0.08578450318538254, rest])
    assert pair.epsilon(1e-5) == pytest.approx(0.2413974665545498, rel=1e-12)


def test_an_overflowing_error_refuses_without_a_warning() -> None:
    with pytest.raises(ndis.PrecisionError):
        GaussianPair.from_ratios(1.0, shift=1.0).log_delta(1e200)
