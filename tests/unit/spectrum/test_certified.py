"""Certificates of δ: they hold the float, they are found, and uncertain inputs widen them enough."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb

from helpers.pairs import agree
from ndis import GaussianPair
from ndis._balls import precision
from ndis.spectrum.certified import _delta_ball
from ndis.spectrum.dense import Diagonal, _clusters
from ndis.spectrum.invariants import Directions


def test_where_the_integrand_decays_algebraically() -> None:
    pair = GaussianPair.from_ratios([2, 0.5], shift=[0, 1])  # −½Σlog τ − ε − ½Σm²/t = 0 at ε = 1
    wide, narrow = pair.certify(1.0), pair.certify(1.0, relative_width=1e-15)
    assert wide.lower <= narrow.lower <= narrow.upper <= wide.upper


@pytest.mark.parametrize(
    ("moments", "epsilon"),
    [
        (([2.0, 0], [[49.0, 30], [30, 20]], [0, 0], [[13.0, 6], [6, 4]]), 1.0),
        (([1.0, 3.0], [[48.0, -6], [-6, 32]], [0, 0], 10 * np.eye(2)), 2.0),
        (([0, 0], np.diag([1e-200, 1]), [0, 0], np.eye(2)), 1.0),
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
