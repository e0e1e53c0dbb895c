"""Verified diagonalisation: what it encloses, and the inputs it must not give up on."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from flint import arb, arb_mat
from scipy.linalg import eigh

from ndis._balls import precision
from ndis.spectrum.dense import diagonalise

BITS = 160


def balls(matrix):
    rows, cols = matrix.shape
    return arb_mat(rows, cols, [arb(x) for x in matrix.ravel().tolist()])


def found(delta, sigma, vector, *, columns=None):
    if columns is None:
        columns = eigh(delta, sigma)[1]
    with precision(BITS):
        return diagonalise(balls(columns), balls(delta), balls(sigma), balls(vector[:, None]), BITS)


def truth(delta, sigma, vector):
    """Eigenvalues of the whitened Δ and the whitened vector in that basis, to 60 digits."""
    with mp.workdps(60):
        inverse = mp.inverse(mp.cholesky(mp.matrix(sigma.tolist())))
        values, basis = mp.eigsy(inverse * mp.matrix(delta.tolist()) * inverse.T)
        return list(values), list(basis.T * (inverse * mp.matrix(vector.tolist())))


def matrices(kind):
    """Symmetric Δ and positive definite Σ with small whole entries, so that floats hold them exactly."""
    rng = np.random.default_rng(7)

    def whole(rows, cols):
        return rng.integers(-3, 4, size=(rows, cols)).astype(float)

    base = whole(6, 6)
    sigma = base @ base.T + np.eye(6)
    thin = whole(6, 2)
    if kind == "plain":
        other = whole(6, 6)
        return other + other.T, sigma
    if kind == "low rank":
        return thin @ thin.T, sigma
    delta = np.kron(np.eye(3), thin @ thin.T + np.eye(6))
    if kind == "nearly equal":
        delta = delta + np.diag(2.0**-44 * rng.integers(0, 64, size=18))
    return delta, np.kron(np.eye(3), sigma)


@pytest.mark.parametrize("kind", ["plain", "low rank", "equal", "nearly equal"])
def test_encloses_values_and_vector(kind):
    delta, sigma = matrices(kind)
    vector = np.arange(1.0, delta.shape[0] + 1.0)
    diagonal = found(delta, sigma, vector)
    assert diagonal is not None
    values, parts = truth(delta, sigma, vector)
    eta, drift = float(diagonal.eta), float(diagonal.drift)
    assert eta < 1e-36
    with mp.workdps(60):
        mine = sorted(mp.mpf(x.mid().str(50, radius=False)) for x in diagonal.values)
        assert all(abs(a - b) <= eta + 1e-45 for a, b in zip(mine, sorted(values), strict=True))
        mine = mp.sqrt(sum(mp.mpf(x.mid().str(50, radius=False)) ** 2 for x in diagonal.vector))
        assert abs(mine - mp.norm(mp.matrix(parts))) <= drift + 1e-40


def test_a_separated_direction_gets_its_share_of_the_vector():
    delta, sigma = matrices("plain")
    vector = np.arange(1.0, 7.0)
    diagonal = found(delta, sigma, vector)
    values, parts = truth(delta, sigma, vector)
    mine = sorted(zip((float(x) for x in diagonal.values), (float(abs(x)) for x in diagonal.vector), strict=True))
    theirs = sorted(zip(map(float, values), (float(abs(x)) for x in parts), strict=True))
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)


@pytest.mark.parametrize("columns", [np.zeros((6, 6)), np.full((6, 6), 3.0)])
def test_useless_columns_are_refused(columns):
    delta, sigma = matrices("plain")
    assert found(delta, sigma, np.ones(6), columns=columns) is None


def test_an_indefinite_second_matrix_is_refused():
    delta, _ = matrices("plain")
    assert found(delta, np.diag([1.0, 1, 1, 1, 1, -1]), np.ones(6), columns=np.eye(6)) is None
