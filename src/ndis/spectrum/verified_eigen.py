"""Prove a simultaneous diagonalisation of a symmetric matrix and a positive definite one.

Let Δ and Σ be symmetric, Σ positive definite, and let W be any matrix whose columns nearly diagonalise both. With
G = WᵀΣW = I + R and H = WᵀΔW, enclosed by products of ball matrices, let ρ ≥ ‖R‖ (Frobenius). If ρ < 1, then W is
invertible and Σ is positive definite, and A = G^{−½} H G^{−½} has the eigenvalues of Σ^{−½} Δ Σ^{−½}. With
G^{−½} = I + F,

    ‖F‖ ≤ f = (1−ρ)^{−½} − 1,        ‖A − H‖ ≤ (2f + f²) ‖H‖,        ‖G^{−½} v − v‖ ≤ f ‖v‖.

So A lies within η = ‖H − diag H‖ + (2f + f²)‖H‖ of diag H, and the whitened vector G^{−½} Wᵀ v within f‖Wᵀv‖ of Wᵀv.

W comes from floats and is refined: (I + E)ᵀ G (I + E) = I and (I + E)ᵀ H (I + E) diagonal, to first order in E, give

    E_ij = (H_ij − λ_j R_ij)/(λ_j − λ_i),        E_ii = −R_ii/2,

and E_ij = −R_ij/2 where λ_i and λ_j are too close. Each round gains about the digits of a float. The block of a cluster
of close values, less their mean, is diagonalised in floats of its own. Nothing rests on the refinement being good.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy
from flint import arb, arb_mat
from numpy.typing import NDArray

from ndis._balls import Ball

_ROUNDS = 12
_CLOSE = 1e-9  # relative to the spread: closer values form a cluster

Matrix = NDArray[np.float64]


class Diagonal(NamedTuple):
    """A lies within `eta` of diag(values) in Frobenius norm; the whitened vector within `drift` of `vector`."""

    values: list[Ball]
    eta: Ball
    vector: list[Ball]
    drift: Ball


def diagonalise(columns: Any, delta: Any, sigma: Any, vector: Any, bits: int) -> Diagonal | None:
    """Diagonal form of the pencil (Δ, Σ) in the sense above; None where the columns given do not lead to it.

    Parameters
    ----------
    columns : arb_mat
        Approximate W, as floats give it.
    delta, sigma, vector : arb_mat
        Δ, Σ and v, enclosed at the working precision or exact.
    bits : int
        η and the drift are driven down to about 2^(24−bits) of the largest value.

    Examples
    --------
    >>> delta, sigma = arb_mat([[1, 0.5], [0.5, 0]]), arb_mat([[1, 0], [0, 1]])
    >>> found = diagonalise(arb_mat([[0.92, -0.38], [0.38, 0.92]]), delta, sigma, arb_mat([[1], [0]]), 53)
    >>> (found.values[0] + arb(0, found.eta)).contains((1 + arb(2).sqrt()) / 2)
    True
    """
    d = sigma.nrows()
    identity = arb_mat(d, d, [arb(i == j) for i in range(d) for j in range(d)])
    w = columns.mid()
    goal = 2.0 ** (24 - bits)
    result, before = None, float("inf")
    for _ in range(_ROUNDS):
        wt = w.transpose()
        r, h = wt * (sigma * w) - identity, wt * (delta * w)
        result, error = _enclosed(r, h, wt * vector)
        if not error < float("inf"):
            return None
        if error <= goal:
            return result
        if error > 0.5 * before:
            return None
        before = error
        w = (w + w * _as_balls(_correction(_floats(r), h, goal))).mid()
    return None


def _enclosed(r: Any, h: Any, v: Any) -> tuple[Diagonal | None, float]:
    """The enclosure of the module docstring, and η relative to the largest value (or f where that is larger)."""
    d = h.nrows()
    table = h.tolist()
    values = [table[i][i] for i in range(d)]
    vector = [row[0] for row in v.tolist()]
    rho, whole = _norm(r), _norm(h)
    if not rho < 1:
        return None, float("inf")
    f = 1 / (1 - rho).sqrt() - 1
    stretch = 2 * f + f * f
    off = sum((x * x for i, row in enumerate(table) for j, x in enumerate(row) if i != j), arb(0))
    eta = (off.abs_upper().sqrt() + stretch * whole).upper()
    drift = (f * sum((x * x for x in vector), arb(0)).abs_upper().sqrt()).upper()
    size = max((x.abs_upper() for x in values), default=arb(0))
    error = float((eta / size).upper()) if size > 0 else float(f.upper())
    return Diagonal(values, eta, vector, drift), max(error, float(f.upper()))


def _norm(matrix: Any) -> Ball:
    """Upper bound of the Frobenius norm."""
    return sum((x * x for x in matrix.entries()), arb(0)).abs_upper().sqrt().upper()


def _correction(r: Matrix, h: Any, goal: float) -> Matrix:
    """E of the module docstring; for clusters that are not diagonal yet, a rotation less the identity."""
    d = r.shape[0]
    s = _floats(h)
    values = np.diagonal(s).copy()
    size = float(np.abs(values).max())
    apart = values[None, :] - values[:, None]
    numerator = s - r * values[None, :]
    order = np.argsort(values, kind="stable")
    breaks = np.flatnonzero(np.diff(values[order]) > _CLOSE * size) + 1
    close = np.abs(apart) <= _CLOSE * size
    turns: list[tuple[NDArray[np.intp], Matrix]] = []
    for members in np.split(order, breaks):
        if members.size == 1:
            continue
        place = np.ix_(members, members)
        mean = h[int(members[0]), int(members[0])].mid()
        inner = np.array(
            [[float((h[int(i), int(j)] - (mean if i == j else 0)).mid()) for j in members] for i in members]
        )
        inner = inner - 0.5 * float(mean) * (r[place] + r[place].T)  # what the Gram matrix will take away
        spread = float(np.abs(inner).max())
        if not spread > 0.25 * goal * size:
            continue
        own = np.diagonal(inner)
        off = np.abs(inner - np.diag(own)).max()
        if off > 1e-6 * spread:
            _, rotation = scipy.linalg.eigh(0.5 * (inner + inner.T) / spread)
            turns.append((members, rotation))
        else:
            apart[place] = own[None, :] - own[:, None]
            close[place] = np.abs(apart[place]) <= _CLOSE * spread
            numerator[place] = inner
    close[np.arange(d), np.arange(d)] = True
    e = np.where(close, -0.5 * r, numerator / np.where(close, 1.0, apart))
    if turns:  # first the small corrections, then the rotations
        total = np.eye(d)
        for members, rotation in turns:
            place = np.ix_(members, members)
            e[place], total[place] = -0.5 * r[place], rotation
        return (np.eye(d) + e) @ total - np.eye(d)
    return e


def _floats(matrix: Any) -> Matrix:
    return np.array([float(x.mid()) for x in matrix.entries()]).reshape(matrix.nrows(), matrix.ncols())


def _as_balls(matrix: Matrix) -> Any:
    rows, cols = matrix.shape
    return arb_mat(rows, cols, [arb(x) for x in matrix.ravel().tolist()])
