"""A mechanism of the package is tested on the neighbours that attain its guarantee, and on those of given data.

The profile of a mechanism is an upper bound over all neighbours, so it refutes nothing. `attained` lists real
neighbours, and these may refute a claim. On given data a lifted model runs as an algorithm. The neighbours of a random
projection are exact: leverage chooses rows, and ball arithmetic uses their integers.

A sketch of D has r rows N(0, A), A = DᵀD + λI (thm:sketch-pair). Write ⟨u, v⟩ = uᵀA⁻¹v. Then

    row v removed:           the sketch with it from the sketch without it has  t = h/(1 − h),  h = ⟨v, v⟩
    row w added:             the sketch with it from the sketch without it has  t = ⟨w, w⟩
    v replaced by w:         the new sketch from the old has  t± = ½(⟨w,w⟩ − ⟨v,v⟩ ± √((⟨w,w⟩ + ⟨v,v⟩)² − 4⟨v,w⟩²))

each r times. These are the nonzero eigenvalues of S·UᵀA⁻¹U if the covariance changes by U S Uᵀ (Sylvester). δ grows as
any t moves away from 0 (thm:monotone-ratio). So a t rounded towards 0 gives a pair whose δ is not above that of the
neighbours, and its certificate stands. The float leverages of all rows cost one more pass; they only choose rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from ndis._balls import exact_ball, outward, precision
from ndis._exact import ExactArray, exact_array, plus_diagonal
from ndis._validate import Floats
from ndis.auditing.candidates.algorithm import from_algorithm
from ndis.auditing.candidates.edits import DataSet, brief
from ndis.auditing.candidates.rules import Search
from ndis.auditing.claim import Claim
from ndis.auditing.judge import Candidate, Candidates, both_orders
from ndis.auditing.witness import EXCHANGED, WITH_RECORD
from ndis.errors import ParameterError
from ndis.gram import Gram, RowLayout, exact_gram
from ndis.gram.host import integer_tiles
from ndis.gram.leverage import worst_rows
from ndis.mechanisms.mechanism import Attained, Mechanism
from ndis.mechanisms.sketch_law import ProjectionLaw
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

_BITS = 320
_CORRECTIONS = 4
_ACCURATE = 70  # bits of t, more than a float holds
_CLIMB = 200  # turns at most
_DIRECTIONS = 3  # the number of rows that replace a row in turn


def adds_noise(mechanism: Any) -> bool:
    """Say if a mechanism adds noise of one variance to the Gaussian output of a model."""
    return hasattr(mechanism, "model") and hasattr(mechanism, "noise_variance")


@dataclass(frozen=True)
class Lifted:
    """The output of a lifted model has the law N(mean, covariance + noise_variance·I)."""

    model: Any
    noise_variance: float

    def __call__(self, data: Any) -> tuple[ExactArray, ExactArray]:
        mean, covariance = self.model.distribution(data)
        centre, spread = exact_array(mean, name="mean"), exact_array(covariance, name="covariance")
        return centre, plus_diagonal(spread, self.noise_variance)


def from_mechanism(mechanism: Any, data: DataSet | None, search: Search, claim: Claim, **running: Any) -> Candidates:
    """Return the pairs to test for a mechanism; `running` are `workers` and `progress` of the audit."""
    if not isinstance(mechanism, Mechanism):
        raise ParameterError(
            "mechanism", "have profile(), attained() and adjacency", type(mechanism).__name__, "pass its law as pairs"
        )
    if mechanism.adjacency != claim.adjacency:
        rule = f"be that of the mechanism, {mechanism.adjacency!r}"
        raise ParameterError("adjacency of the claim", rule, repr(claim.adjacency))
    attained = mechanism.attained()
    how = (f"the worst neighbours that the mechanism knows of, on any data ({len(attained)} in all)",)
    more = Candidates(()) if data is None else _on_data(mechanism, data, search, claim, running)
    tested = chain(((1, _candidates([one], claim)) for one in attained), more.tested)
    given_only = more.given_only and not attained
    return Candidates(tested, (how if attained else ()) + more.how, ("all other neighbours",), more.seen, given_only)


def _on_data(mechanism: Any, data: DataSet, search: Search, claim: Claim, running: dict[str, Any]) -> Candidates:
    law = as_projection(mechanism)
    if law is not None:
        if search.stated:
            raise ParameterError(" and ".join(search.stated), "be left out for a projection", type(mechanism).__name__)
        rows = data.open(target=law.target_bound is not None)
        neighbours, tried, chosen = projection_neighbours(law, rows)
        return Candidates([(tried, _candidates(neighbours, claim))], chosen)
    if not (adds_noise(mechanism) and hasattr(mechanism.model, "distribution")):
        rule = "be left out for this mechanism, whose output on given data is no single Gaussian"
        raise ParameterError("data", rule, type(mechanism).__name__)
    if data.schema is not None:
        remedy = "encode the data by the schema, as the model takes them"
        raise ParameterError("schema", "be left out for a lifted mechanism", type(mechanism).__name__, remedy)
    lifted = Lifted(mechanism.model, float(mechanism.noise_variance))
    given = replace(search, seconds=0.0)  # a model may have a promise about its data, such as max_records
    return from_algorithm(lifted, data.rows(), given, claim, about=data, **running)


def _candidates(attained: Iterable[Attained], claim: Claim) -> Iterator[Candidate]:
    words = WITH_RECORD if claim.adjacency == "add-remove" else EXCHANGED
    for one in attained:
        yield from both_orders(one.neighbours, words, one.profile, claim)


def as_projection(mechanism: Any) -> ProjectionLaw | None:
    """Return the law of a sketch on given data; None for any other mechanism."""
    law = mechanism if isinstance(mechanism, ProjectionLaw) else getattr(mechanism, "law", None)
    return law if isinstance(law, ProjectionLaw) and law.is_gaussian else None


# ---------------------------------------------------------------------- sketches of given data


def projection_neighbours(law: ProjectionLaw, data: Any) -> tuple[list[Attained], int, tuple[str, ...]]:
    """Return the worst neighbours of the data, the number tried, and how they were chosen.

    The pair of each neighbour is exact, or rounded to the safe side.
    """
    gram = exact_gram(data, **law.layout)
    rows, count = worst_rows(data, gram, ridge=law.ridge)
    additions = _additions(gram, law.ridge, count=1 if law.adjacency == "add-remove" else _DIRECTIONS)
    steps = np.array(gram.layout.steps, dtype=object)
    chosen = [*(row.integers for row in rows), *additions]
    exact = _Products(gram, law.ridge, [q.astype(object) * steps for q in chosen])
    shown = [brief((row * steps.astype(np.float64),)) for row in additions]
    last, r = len(rows), law.sketch_size
    if law.adjacency == "add-remove":
        neighbours = []
        if rows:  # δ grows with t
            i = max(range(len(rows)), key=exact.leverage)
            label = f"the data, and the data without row {rows[i].index}"
            neighbours.append(Attained(label, exact.removal(i, r)))
        label = f"the data, and the data with the row {shown[0]} added"
        neighbours.append(Attained(label, exact.addition(last, r)))
        how: tuple[str, ...] = (
            f"all {count} removals of one row: the largest leverages in floats, then evaluated exactly",
            "one addition, along the smallest eigenvector of the Gram matrix, evaluated exactly",
        )
        return neighbours, count + 1, how
    neighbours = [
        Attained(f"the data, and the data with row {row.index} replaced by {text}", profile)
        for i, row in enumerate(rows)
        for text, profile in ((text, exact.replacement(i, last + j, r)) for j, text in enumerate(shown))
    ]
    how = (
        f"the {len(rows)} rows of largest leverage out of {count} replaced in turn by {len(shown)} rows along the "
        "smallest eigenvectors of the Gram matrix, evaluated exactly",
    )
    return neighbours, len(neighbours), how


def _additions(gram: Gram, ridge: float, *, count: int) -> list[NDArray[np.int64]]:
    """Return legal rows along the smallest eigenvectors of A; the first has the largest ⟨w, w⟩ that a climb finds."""
    values, vectors = np.linalg.eigh(gram.to_float() + ridge * np.eye(gram.layout.width))
    several = len(gram.layout.groups) > 1
    return [
        _legal_row(gram.layout, values, vectors, i, _CLIMB if several and i == 0 else 1)
        for i in range(min(count, gram.layout.width))
    ]


def _legal_row(layout: RowLayout, values: Floats, vectors: Floats, start: int, turns: int) -> NDArray[np.int64]:
    """Take each group of columns of an eigenvector to its bound, then improve the row along A⁻¹w."""
    w: Floats = vectors[:, start]
    for turn in range(turns):
        last, along = w, w if turn == 0 else vectors @ ((vectors.T @ w) / values)
        w = along.copy()
        for group in layout.groups:
            own = slice(group.start, group.stop)
            norm = float(np.linalg.norm(along[own]))
            w[own] = along[own] * (group.bound / norm) if norm > 0 else group.bound / math.sqrt(group.width)
        if layout.intercept is not None:
            w[-1] = layout.intercept
        if np.allclose(w, last, rtol=1e-12, atol=0.0):
            break
    parts = [w[None, : layout.features]]
    if layout.targets:
        parts.append(w[None, layout.features : layout.features + layout.targets])
    (tile,) = integer_tiles(tuple(np.ascontiguousarray(p) for p in parts), layout)
    return np.asarray(tile[0].astype(np.int64))


class _Products:
    """The products ⟨u, v⟩ of some rows are known in balls, and so are the pairs that follow.

    With x any vector near A⁻¹v and r = v − Ax its residual,

        ⟨u, v⟩ = uᵀx_v + x_uᵀr_v + ⟨r_u, r_v⟩,      |⟨r_u, r_v⟩| ≤ ‖r_u‖ ‖r_v‖ / λ   as A ⪰ λI,

    so solutions in floats, corrected once or twice, leave an error of the order of their square.
    """

    def __init__(self, gram: Gram, ridge: float, rows: list[NDArray[Any]]) -> None:
        d = gram.layout.width
        exact = gram.exact(ridge=ridge)
        A = gram.to_float() + ridge * np.eye(d)
        self._tables = []
        with precision(_BITS):
            matrix = arb_mat(d, d, [arb(x) / exact.denominator for x in exact.numerators.ravel().tolist()])
            V = arb_mat(len(rows), d, [exact_ball(x) for row in rows for x in row]).transpose()
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
        """Return a lower end of ⟨v, v⟩ for row i."""
        return float(self._tables[-1][i, i].lower())

    def removal(self, i: int, copies: int) -> PrivacyProfile:
        """Compare the sketch with row i to the sketch without it."""
        return PrivacyProfile(self._pair(lambda g: [g[i, i] / (1 - g[i, i])], copies))

    def addition(self, i: int, copies: int) -> PrivacyProfile:
        """Compare the sketch with row i to the sketch without it, if the row is not in the data."""
        return PrivacyProfile(self._pair(lambda g: [g[i, i]], copies))

    def replacement(self, i: int, j: int, copies: int) -> PrivacyProfile:
        """Compare the sketch with row i to the sketch with row j in its place."""

        def ratios(g: Any) -> list[Any]:
            v, w, c = g[i, i], g[j, j], g[i, j]
            root = ((w + v) ** 2 - 4 * c * c).nonnegative_part().sqrt()
            return [(w - v + root) / 2, (w - v - root) / 2]

        return PrivacyProfile(self._pair(ratios, copies).reversed())

    def _pair(self, ratios: Callable[[Any], list[Any]], copies: int) -> GaussianPair:
        """Make the pair with these t. A t that no correction tells from 0 is left out, which rounds it towards 0."""
        with precision(_BITS):
            for table in self._tables:
                values = ratios(table)
                known = [t for t in values if t.is_finite() and t.rel_accuracy_bits() >= _ACCURATE]
                if len(known) == len(values):
                    break
            parts = [_one_direction(t) for t in known]
        return (parts[0].compose(*parts[1:]) if parts else GaussianPair.from_ratios(1.0)).repeat(copies)


def _one_direction(t: Any) -> GaussianPair:
    """Compare N(0, 1 + t') with N(0, 1), where t' is the nearest float to t that is not beyond it."""
    low, high = outward(t)
    return GaussianPair.from_excess(max(low, 0.0) if t > 0 else min(high, 0.0))
