"""The invariants (t, m²) of a pair, enclosed in balls from its exact binary inputs.

Pairs given by ratios or diagonals are a line of arithmetic each. Dense ones are diagonalised approximately in floats,
and the rest is proof:

With any invertible W, G = Wᵀ Σ_q W and H = Wᵀ (Σ_p − Σ_q) W describe the same pair; so do A = L⁻¹ H L⁻ᵀ and
m = L⁻¹ Wᵀ Δμ for any L with G = LLᵀ. `ndis.spectrum.verified_eigen` encloses A = D + E with D diagonal and η ≥ ‖E‖
(Frobenius) by products of ball matrices. Where floats give no good W, exact rotations do it entry by entry.

  - Weyl: the i-th largest eigenvalue of A lies within η of the i-th largest entry of D. No separation is needed.
  - Entries of D are put into clusters that lie further than a gap g > 2η apart. The balls D ± η of a cluster are
  joined to one ball T.
  - Davis–Kahan: the spectral projectors P of A and P̂ of D for a cluster differ by at most η/(g − η) in norm, so the
  part of m that belongs
    to it has ‖Pm‖² within ‖m‖² η/(g − η) of ‖P̂m‖².
  - A cluster acts like copies of one direction: Σ mᵢ²/(1−stᵢ) over its members is a weighted mean of points of the
  ball 1/(1−sT), and balls
    are convex.
  - The rank of Σ_p − Σ_q is computed exactly over the rationals; a cluster around 0 with as many members as the rank
  leaves out is exactly
    t = 0 (congruence keeps the rank), and it carries no shift if the rank does not grow when Δμ is appended.

Singular covariances are reduced to a maximal set of independent coordinates, exactly, when both have the same null
space and Δμ is
orthogonal to it; otherwise the laws are mutually singular.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from flint import arb, arb_mat, fmpq, fmpq_mat

from ndis._validate import Floats
from ndis.errors import ParameterError
from ndis.spectrum.balls import Ball, precision, scalar_invariants
from ndis.spectrum.verified_eigen import Diagonal, diagonalise

if TYPE_CHECKING:
    from ndis.pair import Origin

__all__ = ["Groups", "Rounded", "common_coordinates", "enclose", "rounded"]


@dataclass(frozen=True)
class Groups:
    """Directions with t ≠ 0 as (t, m² of one copy, copies), and the total m² of those with t = 0."""

    curved: list[tuple[Ball, Ball, int]]
    flat: Ball
    mutually_singular: bool = False


def enclose(origins: tuple[Origin, ...], bits: int) -> Groups | None:
    """Invariants of the product of all origins, at the working precision; None where it does not suffice."""
    curved: list[tuple[Ball, Ball, int]] = []
    flat = arb(0)
    for origin, times in _merged(origins):
        if origin.kind in ("ratios", "diagonal"):
            if origin.kind == "diagonal" and _apart(origin):
                return Groups([], arb(0), mutually_singular=True)
            found = scalar_invariants(origin)
        else:
            dense = _dense_invariants(origin, bits)
            if dense is None:
                return None
            if dense.mutually_singular:
                return dense
            found = [*dense.curved, (arb(0), dense.flat, 1)]
            if origin.reverse:
                found = [(-t / (1 + t), m2 / (1 + t), n) for t, m2, n in found]
        for t, m2, n in found:
            if t == 0:
                flat += n * times * m2
            else:
                curved.append((t, m2, n * times))
    return Groups(curved, flat)


class Rounded(NamedTuple):
    """Invariants correct to about the last digit of a float, or the news that the laws are mutually singular."""

    t: Floats
    ratio: Floats
    shift: Floats
    copies: Floats
    mutually_singular: bool = False


def rounded(origin: Origin) -> Rounded | None:
    """The invariants of a dense or low-rank pair from its exact inputs; None where its covariances are not exactly
    positive semidefinite, as floats leave them, or no precision tried suffices."""
    for bits in (160, 320, 640, 1280):
        with precision(bits):
            try:
                groups = enclose((origin,), bits)
            except ParameterError:
                return None
            if groups is None:
                continue
            if groups.mutually_singular:
                empty = np.zeros(0)
                return Rounded(empty, empty, empty, empty, mutually_singular=True)
            total = groups.flat + sum((m2 * n for _, m2, n in groups.curved), arb(0))
            fine = all(
                t.rel_accuracy_bits() >= 60
                and (1 + t).rel_accuracy_bits() >= 60
                and m2.rad() <= total.lower() * 2.0**-80
                for t, m2, n in groups.curved
            )
            if not fine:
                continue
            rows = [(float(t), float(1 + t), _root(m2), float(n)) for t, m2, n in groups.curved]
            if groups.flat != 0:
                rows.append((0.0, 1.0, _root(groups.flat), 1.0))
            rest = origin.size - sum(row[3] for row in rows)
            if rest > 0:
                rows.append((0.0, 1.0, 0.0, rest))
            t, ratio, m, n = (np.array(column) for column in zip(*rows, strict=True))
            return Rounded(t, ratio, m, n)
    return None


def _root(ball: Ball) -> float:
    """Square root of a number known not to be negative."""
    return math.sqrt(max(float(ball.mid()), 0.0))


def common_coordinates(origin: Origin) -> list[int] | None:
    """Indices of a maximal set of independent coordinates of both laws, over the rationals; None where the laws are
    mutually singular."""
    shift, difference, sigma_q = _exact_matrices(origin)
    return _independent_rows(sigma_q) if _restrict(shift, difference, sigma_q) is not None else None


def _merged(origins: tuple[Origin, ...]) -> list[tuple[Origin, int]]:
    """Origins with their multiplicities taken out; ratios with equal entries merged over all origins."""
    from ndis.pair import Origin

    rows: Counter[tuple[bool, float, float]] = Counter()
    rest = []
    for o in origins:
        if o.kind == "ratios":
            for r, m, n in zip(*(a.tolist() for a in o.arrays), strict=True):
                rows[(o.reverse, r, math.fabs(m))] += int(n) * o.copies
        else:
            rest.append((Origin(o.kind, o.arrays, o.reverse), o.copies))
    for reverse in (False, True):
        mine = [(r, m, float(n)) for (side, r, m), n in rows.items() if side is reverse]
        if mine:
            rest.append((Origin("ratios", tuple(np.array(a) for a in zip(*mine, strict=True)), reverse), 1))
    return rest


def _apart(origin: Origin) -> bool:
    """True when one coordinate has zero variance in one law only, or in both with different means."""
    mu_p, v_p, mu_q, v_q = origin.arrays
    return bool(np.any(((v_p == 0) != (v_q == 0)) | ((v_p == 0) & (v_q == 0) & (mu_p != mu_q))))


# ---------------------------------------------------------------------- exact rational facts


def _rational(matrix: Floats) -> Any:
    rows, cols = matrix.shape
    return fmpq_mat(rows, cols, [fmpq(*x.as_integer_ratio()) for x in matrix.ravel().tolist()])


def _exact_matrices(origin: Origin) -> tuple[Any, Any, Any]:
    """(Δμ as a column, Σ_p − Σ_q, Σ_q) over the rationals."""
    if origin.kind == "dense":
        mu_p, cov_p, mu_q, cov_q = origin.arrays
        sigma_q = _rational(cov_q)
        return _rational(mu_p[:, None]) - _rational(mu_q[:, None]), _rational(cov_p) - sigma_q, sigma_q
    mu_p, mu_q, cov_q, factor, sign = origin.arrays
    f = _rational(factor)
    return _rational(mu_p[:, None]) - _rational(mu_q[:, None]), f * f.transpose() * fmpq(int(sign)), _rational(cov_q)


def _beside(*blocks: Any) -> Any:
    """Blocks of equal height side by side."""
    rows = [list(chain.from_iterable(parts)) for parts in zip(*(b.tolist() for b in blocks), strict=True)]
    return fmpq_mat(len(rows), len(rows[0]), list(chain.from_iterable(rows)))


def _independent_rows(matrix: Any) -> list[int]:
    """Indices of a maximal set of independent columns (for a symmetric matrix, of rows as well)."""
    reduced, rank = matrix.rref()
    table = reduced.tolist()
    return [next(j for j, x in enumerate(table[i]) if x != 0) for i in range(rank)]


def _restrict(shift: Any, difference: Any, sigma_q: Any) -> tuple[Any, Any, Any] | None:
    """The pair on independent coordinates of its common range; None when the laws are mutually singular."""
    rank_q = sigma_q.rank()
    sigma_p = sigma_q + difference
    if sigma_p.rank() != rank_q:
        return None
    if rank_q == sigma_q.nrows():  # then no column beside it can add to the rank
        return shift, difference, sigma_q
    if _beside(sigma_q, sigma_p, shift).rank() != rank_q:
        return None
    keep = _independent_rows(sigma_q)

    def part(m: Any) -> Any:
        t = m.tolist()
        return fmpq_mat(len(keep), len(keep), [t[i][j] for i in keep for j in keep])

    return fmpq_mat(len(keep), 1, [shift.tolist()[i][0] for i in keep]), part(difference), part(sigma_q)


# ---------------------------------------------------------------------- dense whitening in balls


def _dense_invariants(origin: Origin, bits: int) -> Groups | None:
    shift, difference, sigma_q = _exact_matrices(origin)
    inner = _restrict(shift, difference, sigma_q)
    if inner is None:
        return Groups([], arb(0), mutually_singular=True)
    shift, difference, sigma_q = inner
    d = sigma_q.nrows()
    if d == 0:
        return Groups([], arb(0))
    w = arb_mat(_approximate_whitener(difference, sigma_q))
    delta, sigma, moved = arb_mat(difference), arb_mat(sigma_q), arb_mat(shift)
    diagonal = diagonalise(w, delta, sigma, moved, bits) or _rotated(w, delta, sigma, moved, bits)
    if diagonal is None:
        return None
    rank = difference.rank()
    shift_inside = rank == d or _beside(difference, shift).rank() == rank
    found = _clusters(diagonal, d - rank, shift_inside)
    if found is None:
        return None
    if any(1 + t < 0 for t, _, _ in found.curved):
        raise ParameterError("cov_p", "be positive semidefinite as exact binary numbers", "an indefinite matrix")
    return found if all(1 + t > 0 for t, _, _ in found.curved) else None


def _rotated(w: Any, delta: Any, sigma: Any, shift: Any, bits: int) -> Diagonal | None:
    """The diagonal form by a Cholesky factor and rotations in balls: slow, but it needs no good W."""
    wt = w.transpose()
    factor = _cholesky(wt * sigma * w)
    if factor is None:
        return None
    half = _solve_lower(factor, wt * delta * w)
    a, m = _solve_lower(factor, half.transpose()), _solve_lower(factor, wt * shift)
    table, vector = _symmetric(a), [row[0] for row in m.tolist()]
    _rotate(table, vector, bits)
    d = len(table)
    off = sum((table[i][j] * table[i][j] for i in range(d) for j in range(d) if i != j), arb(0))
    return Diagonal([table[i][i] for i in range(d)], off.abs_upper().sqrt().upper(), vector, arb(0))


def _approximate_whitener(difference: Any, sigma_q: Any) -> list[list[Any]]:
    """Columns w with wᵀΣ_q w ≈ 1 that nearly diagonalise the difference; powers of two on the diagonal where floats
    cannot do better."""
    from scipy.linalg import LinAlgError, eigh

    d = sigma_q.nrows()
    scale = [
        2.0 ** -round(0.5 * math.log2(max(Fraction(int(v.p), int(v.q)), Fraction(1, 2**2000))))
        for v in (sigma_q[i, i] for i in range(d))
    ]

    def scaled(m: Any) -> Floats:
        return np.array([[float(arb(m[i, j])) * scale[i] * scale[j] for j in range(d)] for i in range(d)])

    try:
        _, v = eigh(scaled(difference), scaled(sigma_q))
    except LinAlgError:
        v = np.eye(d)
    return [[arb(scale[i]) * arb(float(v[i, j])) for j in range(d)] for i in range(d)]


def _cholesky(matrix: Any) -> list[list[Ball]] | None:
    """Rows of the lower factor of a positive definite ball matrix; None where a pivot is not certainly positive."""
    d = matrix.nrows()
    a = matrix.tolist()
    rows: list[list[Ball]] = []
    for i in range(d):
        row: list[Ball] = []
        for j in range(i):
            total = a[i][j]
            for x, y in zip(row, rows[j], strict=False):
                total -= x * y
            row.append(total / rows[j][j])
        pivot = a[i][i]
        for x in row:
            pivot -= x * x
        if pivot < 0:
            raise ParameterError("cov_q", "be positive semidefinite as exact binary numbers", "an indefinite matrix")
        if not pivot > 0:
            return None
        row.append(pivot.sqrt())
        rows.append(row)
    return rows


def _solve_lower(factor: list[list[Ball]], right: Any) -> Any:
    """L⁻¹ B."""
    d = len(factor)
    full = arb_mat([row + [arb(0)] * (d - len(row)) for row in factor])
    return full.solve(right)


def _symmetric(matrix: Any) -> list[list[Ball]]:
    """Entries of a matrix known to be symmetric; the narrower ball of each mirrored couple."""
    a: list[list[Ball]] = matrix.tolist()
    for i in range(len(a)):
        for j in range(i):
            a[i][j] = a[j][i] = a[i][j] if a[i][j].rad() <= a[j][i].rad() else a[j][i]
    return a


def _rotate(a: list[list[Ball]], m: list[Ball], bits: int) -> None:
    """Jacobi rotations in place, exact in balls, until the off-diagonal is at the level of the working precision."""
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
            cosine = 1 / (1 + tangent * tangent).sqrt()  # any tangent gives an exact rotation
            sine = tangent * cosine
            for k in range(d):
                a[k][i], a[k][j] = cosine * a[k][i] - sine * a[k][j], sine * a[k][i] + cosine * a[k][j]
            a[i], a[j] = (
                [cosine * p - sine * q for p, q in zip(a[i], a[j], strict=True)],
                [sine * p + cosine * q for p, q in zip(a[i], a[j], strict=True)],
            )
            m[i], m[j] = cosine * m[i] - sine * m[j], sine * m[i] + cosine * m[j]


def _clusters(diagonal: Diagonal, null: int, shift_inside: bool) -> Groups | None:
    """Clusters of the diagonal with their shares of m, as the module docstring proves; `null` eigenvalues are exactly
    zero."""
    a, eta, m, drift = diagonal
    d = len(a)
    total = sum((x * x for x in m), arb(0))
    slack = 2 * total.abs_upper().sqrt() * drift + drift * drift  # of every ‖P̂m‖², and of ‖m‖²
    total += slack
    order = sorted(range(d), key=lambda i: float(a[i].lower()))
    spread = max(abs(a[i]).upper() for i in range(d))
    gap = (eta * spread).sqrt() if eta > 0 else arb(0)  # splits the loss between wider clusters and worse projectors
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
    return Groups(curved, flat)
