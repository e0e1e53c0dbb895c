"""The claim, the pairs, the rows and the algorithms of most audits; other processes can import the algorithms."""

from __future__ import annotations

import numpy as np

import ndis
from ndis.auditing import Claim
from ndis.pair import GaussianPair

CLAIM = Claim(epsilon=1.0, delta=1e-6)
LOUD = GaussianPair.from_ratios(1.0, shift=1.0)
SHIFT = GaussianPair.from_ratios(1.0, shift=0.5)
ROWS = np.random.default_rng(0).standard_normal((8, 2))


def total(data):
    return data.sum(axis=0), np.full(data.shape[1], 8.0)


def ridge(data):
    precision = data.T @ data + 3.0 * np.eye(data.shape[1])
    return np.linalg.solve(precision, data.sum(axis=0)), 20.0 * np.linalg.inv(precision)


def sketch(**more) -> ndis.RandomProjection:
    """A projection whose claim is proved."""
    public = {"epsilon": 1.0, "delta": 1e-6, "sketch_size": 50, "row_norm_bound": 1.0, **more}
    return ndis.RandomProjection.calibrated(**public)
