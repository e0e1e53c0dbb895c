"""Enclose the invariants (t, m²) of dense pairs in balls, from exact rational matrices.

Floats diagonalise the pair approximately. The rest is proof. With any invertible W, the matrices G = Wᵀ Σ_q W and
H = Wᵀ (Σ_p − Σ_q) W describe the same pair. So do A = L⁻¹ H L⁻ᵀ and m = L⁻¹ Wᵀ Δμ for any L with G = LLᵀ, and what
rotations make of both. `diagonalise` rotates entry by entry, in balls: every tangent gives an exact rotation. It ends
with A = D + E, D diagonal and η ≥ ‖E‖ (Frobenius norm).

  - Weyl: the i-th largest eigenvalue of A lies within η of the i-th largest entry of D. This needs no separation.
  - The code puts the entries of D into clusters that lie further apart than a gap g > 2η. It joins the balls D ± η of
    a cluster to one ball T.
  - Davis and Kahan: the spectral projectors P of A and P̂ of D for a cluster differ by at most η/(g − η) in norm. So
    the part of m that belongs to the cluster has ‖Pm‖² within ‖m‖² η/(g − η) of ‖P̂m‖².
  - A cluster acts like copies of one direction: Σ mᵢ²/(1−stᵢ) over its members is a weighted mean of points of the
    ball 1/(1−sT), and balls are convex.
  - The rank of Σ_p − Σ_q is computed exactly over the rationals. If a cluster around 0 has as many members as the rank
    leaves out, then its t is exactly 0, because congruence keeps the rank. Such a cluster carries no shift if the rank
    does not grow when Δμ is appended.

Singular covariances are reduced to a maximal set of independent coordinates, exactly. This needs that both have the
same null space and that Δμ is orthogonal to it. Otherwise the laws are mutually singular.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import scipy
from flint import arb, arb_mat, fmpq, fmpq_mat
from numpy.linalg import LinAlgError

from ndis._balls import Ball, cholesky
from ndis._validate import Floats
from ndis.errors import ParameterError
from ndis.spectrum.invariants import Directions

Rational = Any  # flint.fmpq_mat carries no type information

_ROUNDS = 40

# ---------------------------------------------------------------------- exact rational facts


def rational(matrix: Floats) -> Rational:
    """Return a matrix of floats or fractions over the rationals."""
    rows, cols = matrix.shape
    return fmpq_mat(rows, cols, [fmpq(*x.as_integer_ratio()) for x in matrix.ravel().tolist()])


def _side_by_side(*blocks: Any) -> Any:
    """Blocks of equal height, side by side."""
    rows = [list(chain.from_iterable(parts)) for parts in zip(*(b.tolist() for b in blocks), strict=True)]
    return fmpq_mat(len(rows), len(rows[0]), list(chain.from_iterable(rows)))


def independent_rows(matrix: Any) -> list[int]:
    """Return indices of a maximal set of independent columns; for a symmetric matrix, of independent rows too."""
    reduced, rank = matrix.rref()
    table = reduced.tolist()
    return [next(j for j, x in enumerate(table[i]) if x != 0) for i in range(rank)]


def restrict(shift: Any, difference: Any, sigma_q: Any) -> tuple[Any, Any, Any] | None:
    """The pair on independent coordinates of its common range; None if the laws are mutually singular."""
    rank_q = sigma_q.rank()
    sigma_p = sigma_q + difference
    if sigma_p.rank() != rank_q:
        return None
    if rank_q == sigma_q.nrows():  # then no other column can add to the rank
        return shift, difference, sigma_q
    if _side_by_side(sigma_q, sigma_p, shift).rank() != rank_q:
        return None
    keep = independent_rows(sigma_q)

    def part(m: Any) -> Any:
        t = m.tolist()
        return fmpq_mat(len(keep), len(keep), [t[i][j] for i in keep for j in keep])

    return fmpq_mat(len(keep), 1, [shift.tolist()[i][0] for i in keep]), part(difference), part(sigma_q)


# ---------------------------------------------------------------------- dense whitening in balls


def whiten_in_balls(shift: Rational, difference: Rational, sigma_q: Rational, bits: int) -> Directions | None:
    """The directions of a pair given by (Δμ, Σ_p − Σ_q, Σ_q); None if the working precision does not suffice."""
    inner = restrict(shift, difference, sigma_q)
    if inner is None:
        return Directions([], arb(0), mutually_singular=True)
    shift, difference, sigma_q = inner
    d = sigma_q.nrows()
    if d == 0:
        return Directions([], arb(0))
    w = _whitener(difference, sigma_q)
    diagonal = diagonalise(w, arb_mat(difference), arb_mat(sigma_q), arb_mat(shift), bits)
    if diagonal is None:
        return None
    rank = difference.rank()
    shift_inside = rank == d or _side_by_side(difference, shift).rank() == rank
    result = _clusters(diagonal, d - rank, shift_inside)
    if result is None:
        return None
    if any(1 + t < 0 for t, _, _ in result.curved):
        raise ParameterError("cov_p", "be positive semidefinite as exact binary numbers", "an indefinite matrix")
    return result if all(1 + t > 0 for t, _, _ in result.curved) else None


class Diagonal(NamedTuple):
    """A lies within `eta` of diag(values) in Frobenius norm; `vector` is m."""

    values: list[Ball]
    eta: Ball
    vector: list[Ball]


def diagonalise(columns: Any, delta: Any, sigma: Any, shift: Any, bits: int) -> Diagonal | None:
    """Return the diagonal form of (Δ, Σ) from any W; None if the working precision of `bits` does not suffice.

    >>> delta, sigma = arb_mat([[1, 0.5], [0.5, 0]]), arb_mat([[1, 0], [0, 1]])
    >>> found = diagonalise(arb_mat([[0.92, -0.38], [0.38, 0.92]]), delta, sigma, arb_mat([[1], [0]]), 53)
    >>> (found.values[0] + arb(0, found.eta)).contains((1 + arb(2).sqrt()) / 2)
    True
    """
    wt = columns.transpose()
    refusal = ParameterError("cov_q", "be positive semidefinite as exact binary numbers", "an indefinite matrix")
    factor = cholesky((wt * sigma * columns).tolist(), lambda: refusal)
    if factor is None:
        return None
    lower = arb_mat(factor)
    a, m = lower.solve(lower.solve(wt * delta * columns).transpose()), lower.solve(wt * shift)
    table, vector = ((a + a.transpose()) / 2).tolist(), m.entries()
    _rotate(table, vector, bits)
    d = len(table)
    off = sum((table[i][j] * table[i][j] for i in range(d) for j in range(d) if i != j), arb(0))
    return Diagonal([table[i][i] for i in range(d)], off.abs_upper().sqrt().upper(), vector)


def _whitener(difference: Any, sigma_q: Any) -> Any:
    """Return W, whose columns w have wᵀΣ_q w ≈ 1 and nearly diagonalise the difference; 1 if floats find none."""
    places = range(sigma_q.nrows())
    scale = [arb(sigma_q[i, i]).rsqrt().mid() for i in places]

    def scaled(m: Any) -> Floats:
        return np.array([[float(arb(m[i, j]) * scale[i] * scale[j]) for j in places] for i in places])

    try:
        _, v = scipy.linalg.eigh(scaled(difference), scaled(sigma_q))
    except (LinAlgError, ValueError):  # not positive definite in floats, or not finite
        return arb_mat([[arb(i == j) for j in places] for i in places])
    return arb_mat([[scale[i] * arb(float(v[i, j])) for j in places] for i in places]).mid()


def _rotate(a: list[list[Ball]], m: list[Ball], bits: int) -> None:
    """Rotate in place (Jacobi, exact in balls) until the off-diagonal is as small as the working precision."""
    d = len(a)
    size = max((abs(a[i][i]).upper() for i in range(d)), default=arb(0))
    level = size.mid() * arb(2) ** (24 - bits)
    for _ in range(_ROUNDS):
        active = [(i, j) for i in range(d) for j in range(i + 1, d) if abs(a[i][j].mid()) > level]
        if not active:
            return
        for i, j in active:
            x, y, z = a[i][i].mid(), a[j][j].mid(), a[i][j].mid()
            if not abs(z) > level:
                continue
            theta = (y - x) / (2 * z)
            tangent = (1 / (abs(theta) + (theta * theta + 1).sqrt())).mid()
            tangent = -tangent if theta < 0 else tangent
            cosine = 1 / (1 + tangent * tangent).sqrt()
            sine = tangent * cosine
            for row in (*a, m):
                row[i], row[j] = cosine * row[i] - sine * row[j], sine * row[i] + cosine * row[j]
            turned = [(cosine * p - sine * q, sine * p + cosine * q) for p, q in zip(a[i], a[j], strict=True)]
            a[i], a[j] = map(list, zip(*turned, strict=True))


def _clusters(diagonal: Diagonal, null: int, shift_inside: bool) -> Directions | None:
    """Clusters of the diagonal with their shares of m, as the module docstring proves.

    `null` eigenvalues are exactly zero.
    """
    a, eta, m = diagonal
    d = len(a)
    total = sum((x * x for x in m), arb(0))
    order = sorted(range(d), key=lambda i: float(a[i].lower()))
    spread = max(abs(a[i]).upper() for i in range(d))
    gap = (eta * spread).sqrt() if eta > 0 else arb(0)  # balances wider clusters against worse projectors
    clusters: list[list[int]] = []
    end = arb.neg_inf()
    for i in order:
        if not clusters or (a[i].lower() - end).lower() > gap + 2 * eta:
            clusters.append([i])
        else:
            clusters[-1].append(i)
        end = end.max(a[i].upper())
    turn = arb(0) if len(clusters) == 1 or eta == 0 else total * (eta / (gap + eta))
    curved, flat = [], arb(0)
    for members in clusters:
        t = a[members[0]]
        for i in members[1:]:
            t = t.union(a[i])
        t += arb(0, eta)
        share = (sum((m[i] * m[i] for i in members), arb(0)) + arb(0, turn.upper())).nonnegative_part()
        if null and t.contains(0):
            if len(members) != null:
                return None
            flat += arb(0) if shift_inside else share
        elif t.contains(0):
            return None
        else:
            curved.append((t, share / len(members), len(members)))
    return Directions(curved, flat)
