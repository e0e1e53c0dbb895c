"""Neighbours of a random projection, exactly: rows by their leverage, then in ball arithmetic from their integers.

A sketch of D has r columns N(0, A), A = DᵀD + λI (thm:sketch-pair). Write ⟨u, v⟩ = uᵀA⁻¹v.

    row v removed:           the sketch with it from the sketch without it has  t = h/(1 − h),  h = ⟨v, v⟩
    row w added:             the sketch with it from the sketch without it has  t = ⟨w, w⟩
    v replaced by w:         the new sketch from the old has  t± = ½(⟨w,w⟩ − ⟨v,v⟩ ± √((⟨w,w⟩ + ⟨v,v⟩)² − 4⟨v,w⟩²))

each r times: the nonzero eigenvalues of S·UᵀA⁻¹U where the covariance changes by U S Uᵀ (Sylvester). δ grows as any t
moves away from 0, so t rounded towards 0 leaves a pair whose δ is not above that of the neighbours: its certificate
stands. In floats the leverages of all rows cost one more pass, and only choose.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._balls import outward, precision
from ndis._validate import Floats
from ndis.auditing.candidates import EXCHANGED, WITH_RECORD
from ndis.auditing.leverages import largest_leverages
from ndis.gram import Gram, RowLayout, exact_gram
from ndis.gram.host import integer_tiles
from ndis.mechanisms.sketch_law import ProjectionLaw
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__all__ = ["ProjectionLaw", "projection_neighbours"]

_BITS = 320
_CORRECTIONS = 4
_ACCURATE = 70  # bits of t, more than a float holds
_CLIMB = 200  # turns at most
_DIRECTIONS = 3  # of rows to put in the place of one


@dataclass(frozen=True, eq=False)
class Exact:
    """One neighbour with its exact pair, rounded to the safe side."""

    label: str
    words: tuple[str, str]
    profile: PrivacyProfile


def projection_neighbours(
    law: ProjectionLaw, data: Any, *, columns: Any = None, targets: Any = None
) -> tuple[list[Exact], int, tuple[str, ...]]:
    """The worst neighbours of the data, how many were looked at, and how they were chosen."""
    gram = exact_gram(data, columns=columns, targets=targets, **law.layout)
    rows, count = largest_leverages(data, gram, law.ridge, columns=columns, targets=targets)
    additions = _additions(gram, law.ridge, count=1 if law.adjacency == "add-remove" else _DIRECTIONS)
    steps = np.array(gram.layout.steps, dtype=object)
    exact = _Products(gram, law.ridge, [q.astype(object) * steps for q in (*(row for _, row in rows), *additions)])
    shown = [_brief(row, gram.layout) for row in additions]
    last, r = len(rows), law.sketch_size
    if law.adjacency == "add-remove":
        found = []
        if rows:  # δ grows with t
            i = max(range(len(rows)), key=exact.leverage)
            label = f"the data, and the data without row {rows[i][0]}"
            found.append(Exact(label, WITH_RECORD, exact.removal(i, r)))
        label = f"the data, and the data with the row {shown[0]} added"
        found.append(Exact(label, WITH_RECORD, exact.addition(last, r)))
        how: tuple[str, ...] = (
            f"all {count} removals of one row: the largest leverages in floats, then evaluated exactly",
            "one addition, along the smallest eigenvector of the Gram matrix, evaluated exactly",
        )
        return found, count + 1, how
    found = [
        Exact(f"the data, and the data with row {number} replaced by {text}", EXCHANGED, profile)
        for i, (number, _) in enumerate(rows)
        for text, profile in ((text, exact.replacement(i, last + j, r)) for j, text in enumerate(shown))
    ]
    how = (
        f"the {len(rows)} rows of largest leverage out of {count} replaced in turn by {len(shown)} rows along the "
        "smallest eigenvectors of the Gram matrix, evaluated exactly",
    )
    return found, len(found), how


def _additions(gram: Gram, ridge: float, *, count: int) -> list[NDArray[np.int64]]:
    """Legal rows along the smallest eigenvectors of A: the first has ⟨w, w⟩ as large as can be found."""
    values, vectors = np.linalg.eigh(gram.to_float() + ridge * np.eye(gram.layout.width))
    several = len(gram.layout.groups) > 1
    return [
        _legal_row(gram.layout, values, vectors, i, _CLIMB if several and i == 0 else 1)
        for i in range(min(count, gram.layout.width))
    ]


def _legal_row(layout: RowLayout, values: Floats, vectors: Floats, start: int, turns: int) -> NDArray[np.int64]:
    """An eigenvector with each group of columns taken to its bound, then along A⁻¹w again and again."""
    w: Floats = vectors[:, start]
    for turn in range(turns):
        last, along = w, w if turn == 0 else vectors @ ((vectors.T @ w) / values)
        w = along.copy()
        for group in layout.groups:
            part = slice(group.start, group.stop)
            norm = float(np.linalg.norm(along[part]))
            w[part] = along[part] * (group.bound / norm) if norm > 0 else group.bound / math.sqrt(group.width)
        if layout.intercept is not None:
            w[-1] = layout.intercept
        if np.allclose(w, last, rtol=1e-12, atol=0.0):
            break
    parts = [w[None, : layout.features]]
    if layout.targets:
        parts.append(w[None, layout.features : layout.features + layout.targets])
    (tile,) = integer_tiles(tuple(np.ascontiguousarray(p) for p in parts), layout)
    return np.asarray(tile[0].astype(np.int64))


def _brief(row: NDArray[np.int64], layout: RowLayout) -> str:
    values = row * np.array([float(s) for s in layout.steps])
    return np.array2string(values, threshold=8, edgeitems=3, precision=6, separator=", ").replace("\n", "")


class _Products:
    """⟨u, v⟩ of some rows in balls, and the pairs that follow.

    With x any vector near A⁻¹v and r = v − Ax its residual,

        ⟨u, v⟩ = uᵀx_v + x_uᵀr_v + ⟨r_u, r_v⟩,      |⟨r_u, r_v⟩| ≤ ‖r_u‖ ‖r_v‖ / λ   as A ⪰ λI,

    so that solutions in floats, or corrected once or twice, leave an error of the order of their square.
    """

    def __init__(self, gram: Gram, ridge: float, rows: list[NDArray[Any]]) -> None:
        from flint import arb, arb_mat, fmpq

        d = gram.layout.width
        exact = gram.exact(ridge=ridge)
        entries = [arb(fmpq(x.numerator, x.denominator)) for row in rows for x in row]
        A = gram.to_float() + ridge * np.eye(d)
        self._tables = []
        with precision(_BITS):
            matrix = arb_mat(d, d, [arb(x) / exact.denominator for x in exact.numerators.ravel().tolist()])
            V = arb_mat(len(rows), d, entries).transpose()
            X = arb_mat(d, len(rows))
            residual = V
            for _ in range(_CORRECTIONS):
                step = np.linalg.solve(A, np.array([[float(x) for x in row] for row in residual.tolist()]))
                moved = zip(X.entries(), step.ravel().tolist(), strict=True)
                X = arb_mat(d, len(rows), [(x + y).mid() for x, y in moved])
                residual = V - matrix * X
                norms = [sum((x * x for x in column), arb(0)).sqrt() for column in residual.transpose().tolist()]
                error = [arb(0, (p * q / ridge).upper()) for p in norms for q in norms]
                table = V.transpose() * X + X.transpose() * residual
                self._tables.append(table + arb_mat(len(rows), len(rows), error))
                if all(self._tables[-1][i, i].rel_accuracy_bits() >= _BITS // 2 for i in range(len(rows))):
                    break

    def leverage(self, i: int) -> float:
        """⟨v, v⟩ of row i, a little below."""
        return float(self._tables[-1][i, i].lower())

    def removal(self, i: int, copies: int) -> PrivacyProfile:
        """With row i from without it."""
        return PrivacyProfile(self._pair(lambda g: [g[i, i] / (1 - g[i, i])], copies))

    def addition(self, i: int, copies: int) -> PrivacyProfile:
        """With row i from without it, where it is not in the data."""
        return PrivacyProfile(self._pair(lambda g: [g[i, i]], copies))

    def replacement(self, i: int, j: int, copies: int) -> PrivacyProfile:
        """With row i from with row j in its place."""

        def ratios(g: Any) -> list[Any]:
            v, w, c = g[i, i], g[j, j], g[i, j]
            root = ((w + v) ** 2 - 4 * c * c).nonnegative_part().sqrt()
            return [(w - v + root) / 2, (w - v - root) / 2]

        return PrivacyProfile(self._pair(ratios, copies).reversed())

    def _pair(self, ratios: Callable[[Any], list[Any]], copies: int) -> GaussianPair:
        """The pair with these t; one that no correction tells from 0 is left out, which is rounding it towards 0."""
        with precision(_BITS):
            for table in self._tables:
                found = ratios(table)
                known = [t for t in found if t.is_finite() and t.rel_accuracy_bits() >= _ACCURATE]
                if len(known) == len(found):
                    break
            parts = [_one_direction(t) for t in known]
        return (parts[0].compose(*parts[1:]) if parts else GaussianPair.from_ratios(1.0)).repeat(copies)


def _one_direction(t: Any) -> GaussianPair:
    """N(0, 1 + t') against N(0, 1), t' the nearest float to t that is not beyond it."""
    low, high = outward(t)
    return GaussianPair.from_excess(max(low, 0.0) if t > 0 else min(high, 0.0))
