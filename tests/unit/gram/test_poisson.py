"""Poisson samples of rows: the rate, the rows of the mask, tensors and clusters."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import ndis
from helpers.sketches import PLAIN, PUBLIC, SAMPLED, seeded
from ndis.errors import NotPrivateWarning, ParameterError
from ndis.gram import exact_gram
from ndis.gram.accumulator import PoissonRows
from ndis.noise.bits import SeededBits, SystemBits

RNG = np.random.default_rng(0)


def test_the_probability_is_never_above_the_rate():
    for rate in (1.0, 0.3, 1e-3, 1e-12, 2.0**-40):
        rows = PoissonRows(rate, SystemBits())
        assert Fraction(rate) - Fraction(1, 2**64) < Fraction(rows._below, 2**64) <= Fraction(rate)
    for rate in (0.0, 1.5, math.nan, -0.1, 2.0**-41):
        with pytest.raises(ParameterError, match="rate"):
            PoissonRows(rate, SystemBits())


def test_sampled_blocks_are_the_rows_of_the_mask():
    x, y = RNG.normal(size=(30_000, 400)), RNG.normal(size=(30_000, 1))
    mask = np.concatenate([PoissonRows(0.25, SeededBits(3)).mask(30_000)])
    blocks = list(PoissonRows(0.25, SeededBits(3)).blocks((x, y)))
    assert len(blocks) > 1
    kept = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
    assert np.array_equal(kept[0], x[mask])
    assert np.array_equal(kept[1], y[mask])


def test_a_sample_of_all_rows_is_no_sample():
    rows = RNG.normal(size=(500, 3))
    whole = ndis.PoissonProjection.calibrated(**PUBLIC, rate=1.0)
    assert whole.ridge == PLAIN.ridge
    assert np.array_equal(seeded(whole, rows).sketch, seeded(PLAIN, rows).sketch)


def test_a_sample_of_tensors():
    torch = pytest.importorskip("torch")
    rows = RNG.normal(size=(500, 3))
    assert np.array_equal(seeded(SAMPLED, torch.from_numpy(rows)).sketch, seeded(SAMPLED, rows).sketch)
    assert np.array_equal(seeded(SAMPLED, rows, device="cpu").sketch, seeded(SAMPLED, rows).sketch)


def test_a_sample_on_a_cluster():
    da = pytest.importorskip("dask.array")
    there = da.from_array(np.ones((20_000, 1)), chunks=(1000, 1))
    total = exact_gram(there, row_norm_bound=1.0, sample=PoissonRows(0.5, SystemBits())).to_float().item()
    assert abs(total - 10_000) < 71 * 6  # six standard deviations: a false alarm in 5e8
    assert SAMPLED.release(there).receipt.private
    with pytest.warns(NotPrivateWarning), pytest.raises(ParameterError, match="random_state must be left out"):
        SAMPLED.release(there, random_state=1)
