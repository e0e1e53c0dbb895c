"""Enclose the invariants (t, m²) of dense pairs in balls, from exact rational matrices.

Floats diagonalise the pair approximately. The rest is proof. With any invertible W, the matrices G = Wᵀ Σ_q W and
H = Wᵀ (Σ_p − Σ_q) W describe the same pair. So do A = L⁻¹ H L⁻ᵀ and m = L⁻¹ Wᵀ Δμ for any L with G = LLᵀ.
`diagonalise` encloses A = D + E with D diagonal and η ≥ ‖E‖ (Frobenius norm) by products of ball matrices. If floats
give no good W, exact rotations do it entry by entry.

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

`diagonalise` proves a diagonal form as follows.

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

import math
from fractions import Fraction
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np
import scipy
from flint import arb, arb_mat, fmpq, fmpq_mat
from numpy.linalg import LinAlgError
from numpy.typing import NDArray

from ndis._balls import Ball, cholesky
from ndis._validate import Floats
from ndis.errors import ParameterError
from ndis.spectrum.invariants import Directions

Rational = Any  # flint.fmpq_mat carries no type information

_ROUNDS = 12
_CLOSE = 1e-9  # relative to the spread: closer values form a cluster
_INDEFINITE = "be positive semidefinite as exact binary numbers", "an indefinite matrix"


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
    w = arb_mat(_approximate_whitener(difference, sigma_q))
    delta, sigma, moved = arb_mat(difference), arb_mat(sigma_q), arb_mat(shift)
    diagonal = diagonalise(w, delta, sigma, moved, bits) or _rotated(w, delta, sigma, moved, bits)
    if diagonal is None:
        return None
    rank = difference.rank()
    shift_inside = rank == d or _side_by_side(difference, shift).rank() == rank
    result = _clusters(diagonal, d - rank, shift_inside)
    if result is None:
        return None
    if any(1 + t < 0 for t, _, _ in result.curved):
        raise ParameterError("cov_p", *_INDEFINITE)
    return result if all(1 + t > 0 for t, _, _ in result.curved) else None


def _rotated(w: Any, delta: Any, sigma: Any, shift: Any, bits: int) -> Diagonal | None:
    """Return the diagonal form by a Cholesky factor and rotations in balls: slow, but it needs no good W."""
    wt = w.transpose()
    factor = cholesky((wt * sigma * w).tolist(), lambda: ParameterError("cov_q", *_INDEFINITE))
    if factor is None:
        return None
    lower = arb_mat(factor)
    a, m = lower.solve(lower.solve(wt * delta * w).transpose()), lower.solve(wt * shift)
    table, vector = _symmetric(a), [row[0] for row in m.tolist()]
    _rotate(table, vector, bits)
    d = len(table)
    off = sum((table[i][j] * table[i][j] for i in range(d) for j in range(d) if i != j), arb(0))
    return Diagonal([table[i][i] for i in range(d)], off.abs_upper().sqrt().upper(), vector, arb(0))


def _approximate_whitener(difference: Any, sigma_q: Any) -> list[list[Any]]:
    """Return columns w with wᵀΣ_q w ≈ 1 that nearly diagonalise the difference.

    If floats cannot find them, the columns are powers of two on the diagonal.
    """
    d = sigma_q.nrows()
    variances = (Fraction(int(sigma_q[i, i].p), int(sigma_q[i, i].q)) for i in range(d))
    scale = [2.0 ** -round(0.5 * math.log2(max(v, Fraction(1, 2**1000)))) for v in variances]

    def scaled(m: Any) -> Floats:
        return np.array([[float(arb(m[i, j])) * scale[i] * scale[j] for j in range(d)] for i in range(d)])

    try:
        _, v = scipy.linalg.eigh(scaled(difference), scaled(sigma_q))
    except LinAlgError:
        v = np.eye(d)
    return [[arb(scale[i]) * arb(float(v[i, j])) for j in range(d)] for i in range(d)]


def _symmetric(matrix: Any) -> list[list[Ball]]:
    """Entries of a matrix that is known to be symmetric. Of two mirrored balls the narrower one is kept."""
    a: list[list[Ball]] = matrix.tolist()
    for i, j in combinations(range(len(a)), 2):
        a[i][j] = a[j][i] = a[i][j] if a[i][j].rad() <= a[j][i].rad() else a[j][i]
    return a


def _rotate(a: list[list[Ball]], m: list[Ball], bits: int) -> None:
    """Rotate in place (Jacobi, exact in balls) until the off-diagonal is as small as the working precision."""
    d = len(a)
    size = max((abs(a[i][i]).upper() for i in range(d)), default=arb(0))
    level = size.mid() * arb(2) ** (24 - bits)
    for _ in range(40):
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
            cosine = 1 / (1 + tangent * tangent).sqrt()  # every tangent gives an exact rotation
            sine = tangent * cosine
            for row in (*a, m):
                row[i], row[j] = cosine * row[i] - sine * row[j], sine * row[i] + cosine * row[j]
            turned = [(cosine * p - sine * q, sine * p + cosine * q) for p, q in zip(a[i], a[j], strict=True)]
            a[i], a[j] = map(list, zip(*turned, strict=True))


def _clusters(diagonal: Diagonal, null: int, shift_inside: bool) -> Directions | None:
    """Clusters of the diagonal with their shares of m, as the module docstring proves.

    `null` eigenvalues are exactly zero.
    """
    a, eta, m, drift = diagonal
    d = len(a)
    total = sum((x * x for x in m), arb(0))
    slack = 2 * total.abs_upper().sqrt() * drift + drift * drift  # bounds the error of every ‖P̂m‖² and of ‖m‖²
    total += slack
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
        share = sum((m[i] * m[i] for i in members), arb(0)) + arb(0, (turn + slack).upper())
        share = share.nonnegative_part()
        if null and t.contains(0):
            if len(members) != null:
                return None
            flat += arb(0) if shift_inside else share
        elif t.contains(0):
            return None
        else:
            curved.append((t, share / len(members), len(members)))
    return Directions(curved, flat)


# ---------------------------------------------------------------------- a proved diagonal form


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


def _correction(r: Floats, h: Any, goal: float) -> Floats:
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
    turns: list[tuple[NDArray[np.intp], Floats]] = []
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


def _floats(matrix: Any) -> Floats:
    return np.array([float(x.mid()) for x in matrix.entries()]).reshape(matrix.nrows(), matrix.ncols())


def _as_balls(matrix: Floats) -> Any:
    rows, cols = matrix.shape
    return arb_mat(rows, cols, [arb(x) for x in matrix.ravel().tolist()])
