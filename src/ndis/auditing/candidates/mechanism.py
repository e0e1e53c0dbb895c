"""A mechanism of the package is tested on the neighbours that attain its guarantee, and on those of given data.

The profile of a mechanism is an upper bound over all neighbours, so it refutes nothing. `attained` lists real
neighbours, and these may refute a claim. On given data a lifted model runs as an algorithm. The neighbours of a random
projection are exact: leverage chooses rows, and fractions use their integers.

A sketch of D has r rows N(0, A), A = DᵀD + λI (thm:sketch-pair). Write ⟨u, v⟩ = uᵀA⁻¹v. Then

    row v removed:           the sketch with it from the sketch without it has  t = h/(1 − h),  h = ⟨v, v⟩
    row w added:             the sketch with it from the sketch without it has  t = ⟨w, w⟩
    v replaced by w:         the new sketch from the old has  t± = ½(⟨w,w⟩ − ⟨v,v⟩ ± √((⟨w,w⟩ + ⟨v,v⟩)² − 4⟨v,w⟩²))

each r times. These are the nonzero eigenvalues of S·UᵀA⁻¹U if the covariance changes by U S Uᵀ (Sylvester). δ grows as
any t moves away from 0 (thm:monotone-ratio), and all t do if the products grow (thm:products-below). So products from
below, and a t rounded towards 0, give a pair whose δ is not above that of the neighbours, and its certificate stands.
The float leverages of all rows cost one more pass; they only choose rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, product
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._exact import ExactArray, down, exact_array, plus_diagonal, root_down, up
from ndis._validate import Floats, require
from ndis.auditing.candidates.algorithm import from_algorithm
from ndis.auditing.candidates.edits import DataSet, brief
from ndis.auditing.candidates.rules import Search
from ndis.auditing.claim import Claim
from ndis.auditing.judge import Candidate, Candidates, of_profile
from ndis.auditing.witness import EXCHANGED, WITH_RECORD
from ndis.gram import Gram, RowLayout, exact_gram
from ndis.gram.host import integer_tiles
from ndis.gram.leverage import worst_rows
from ndis.mechanisms.mechanism import Attained, Mechanism
from ndis.mechanisms.sketch_law import ProjectionLaw
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

_CORRECTIONS = 2  # solutions in floats, each of what the last one leaves
_DIRECTIONS = 3  # the number of rows that replace a row in turn


def adds_noise(mechanism: Any) -> bool:
    """Say if a mechanism adds noise of one variance to the Gaussian output of a model."""
    return hasattr(mechanism, "model") and hasattr(mechanism, "noise_variance")


@dataclass(frozen=True)
class Lifted:
    """The output of a lifted model has the law N(mean, covariance + noise_variance·I)."""

    model: Any
    noise_variance: float

    def __call__(self, data: Any) -> tuple[Any, ExactArray]:
        mean, covariance = self.model.distribution(data)
        return mean, plus_diagonal(exact_array(covariance, name="covariance"), self.noise_variance)


def from_mechanism(mechanism: Any, data: DataSet | None, search: Search, claim: Claim, **running: Any) -> Candidates:
    """Return the pairs to test for a mechanism; `running` are `workers` and `progress` of the audit."""
    rule, remedy = "have profile(), attained() and adjacency", "pass its law as pairs"
    require(isinstance(mechanism, Mechanism), "mechanism", rule, type(mechanism).__name__, remedy)
    rule = f"be that of the mechanism, {mechanism.adjacency!r}"
    require(mechanism.adjacency == claim.adjacency, "adjacency of the claim", rule, repr(claim.adjacency))
    attained = mechanism.attained()
    how = (f"the worst neighbours that the mechanism knows of, on any data ({len(attained)} in all)",)
    more = Candidates(()) if data is None else _on_data(mechanism, data, search, claim, running)
    tested = chain(((1, _candidates([one], claim)) for one in attained), more.tested)
    given_only = more.given_only and not attained
    return Candidates(tested, (how if attained else ()) + more.how, ("all other neighbours",), more.seen, given_only)


def _on_data(mechanism: Any, data: DataSet, search: Search, claim: Claim, running: dict[str, Any]) -> Candidates:
    """Return the neighbours of given data, for a projection or a lifted mechanism; others are refused."""
    law = as_projection(mechanism)
    if law is not None:
        require(search.neighbours is None, "neighbours", "be left out for a projection", type(mechanism).__name__)
        neighbours, tried, chosen = projection_neighbours(law, data.open(target=law.target_bound is not None))
        return Candidates([(tried, _candidates(neighbours, claim))], chosen)
    rule = "be left out for this mechanism, whose output on given data is no single Gaussian"
    require(adds_noise(mechanism) and hasattr(mechanism.model, "distribution"), "data", rule, type(mechanism).__name__)
    remedy = "encode the data by the schema, as the model takes them"
    require(data.schema is None, "schema", "be left out for a lifted mechanism", type(mechanism).__name__, remedy)
    lifted = Lifted(mechanism.model, float(mechanism.noise_variance))
    given = replace(search, seconds=0.0)  # a model may have a promise about its data, such as max_records
    return from_algorithm(lifted, data.rows(), given, claim, about=data, **running)


def _candidates(attained: Iterable[Attained], claim: Claim) -> Iterator[Candidate]:
    words = WITH_RECORD if claim.adjacency == "add-remove" else EXCHANGED
    for one in attained:
        yield from of_profile(one.neighbours, words, one.profile, claim)


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
    products = _products_below(gram, law.ridge, [q.astype(object) * steps for q in chosen])
    shown = [brief((row * steps.astype(np.float64),)) for row in additions]
    leverages = [max(h, Fraction(0)) for h in np.diagonal(products)]
    last, r = len(rows), law.sketch_size
    if law.adjacency == "add-remove":
        neighbours = []
        if rows:  # δ grows with t
            h, worst = max(((leverages[i], row) for i, row in enumerate(rows)), key=itemgetter(0))
            label = f"the data, and the data without row {worst.index}"
            neighbours.append(Attained(label, PrivacyProfile(_pair([h / (1 - h)], r))))
        label = f"the data, and the data with the row {shown[0]} added"
        neighbours.append(Attained(label, PrivacyProfile(_pair([leverages[last]], r))))
        how: tuple[str, ...] = (
            f"all {count} removals of one row: the largest leverages in floats, then evaluated exactly",
            "one addition, along the smallest eigenvector of the Gram matrix, evaluated exactly",
        )
        return neighbours, count + 1, how
    neighbours = []
    for (i, row), (j, text) in product(enumerate(rows), enumerate(shown, start=last)):
        new_from_old = _pair(_replaced(leverages[j], leverages[i], products[i, j]), r)
        label = f"the data, and the data with row {row.index} replaced by {text}"
        neighbours.append(Attained(label, PrivacyProfile(new_from_old.reversed())))
    how = (
        f"the {len(rows)} rows of largest leverage out of {count} replaced in turn by {len(shown)} rows along the "
        "smallest eigenvectors of the Gram matrix, evaluated exactly",
    )
    return neighbours, len(neighbours), how


def _additions(gram: Gram, ridge: float, *, count: int) -> list[NDArray[np.int64]]:
    """Return legal rows along the smallest eigenvectors of A."""
    _, vectors = np.linalg.eigh(gram.to_float() + ridge * np.eye(gram.layout.width))
    return [_legal_row(gram.layout, vector) for vector in vectors.T[:count]]


def _legal_row(layout: RowLayout, along: Floats) -> NDArray[np.int64]:
    """Take each group of columns of a direction to its bound."""
    w = along.copy()
    for group in layout.groups:
        own = slice(group.start, group.stop)
        norm = float(np.linalg.norm(along[own]))
        w[own] = along[own] * (group.bound / norm) if norm > 0 else group.bound / math.sqrt(group.width)
    if layout.intercept is not None:
        w[-1] = layout.intercept
    parts = [w[None, : layout.features]]
    if layout.targets:
        parts.append(w[None, layout.features : layout.features + layout.targets])
    (tile,) = integer_tiles(tuple(np.ascontiguousarray(p) for p in parts), layout)
    return np.asarray(tile[0].astype(np.int64))


def _products_below(gram: Gram, ridge: float, rows: list[NDArray[Any]]) -> NDArray[Any]:
    """Return fractions M with M ⪯ (⟨u, v⟩) for all rows u and v, and close to it (thm:products-below)."""
    A, V = gram.exact(ridge=ridge), exact_array(np.stack(rows, axis=1))
    near, X = A.to_float(), exact_array(np.zeros(V.shape))
    for _ in range(_CORRECTIONS):
        scale = A.denominator * X.denominator
        residual = ExactArray(V.numerators * scale - A.numerators @ X.numerators * V.denominator, V.denominator * scale)
        step = np.linalg.solve(near, residual.to_float())
        X = exact_array(X.to_fractions() + exact_array(step).to_fractions())
    once = ExactArray(X.numerators.T @ V.numerators, X.denominator * V.denominator).to_fractions()
    twice = ExactArray(X.numerators.T @ A.numerators @ X.numerators, X.denominator**2 * A.denominator).to_fractions()
    return np.asarray(once + once.T - twice)


def _replaced(w: Fraction, v: Fraction, c: Fraction) -> list[Fraction]:
    """Return t± of a row v that a row w replaces, c = ⟨v, w⟩; none if these are no products of two rows."""
    if v * w < c * c:
        return [Fraction(0)]
    square = (w + v) ** 2 - 4 * c * c
    root = Fraction(root_down(square)) if square > 0 else Fraction(0)
    return [(w - v + root) / 2, (w - v - root) / 2]


def _pair(excess: list[Fraction], copies: int) -> GaussianPair:
    """Compare N(0, 1 + t) with N(0, 1) for each t, rounded towards 0."""
    rounded = [max(down(t), 0.0) if t > 0 else min(up(t), 0.0) for t in excess]
    return GaussianPair.from_excess(rounded).repeat(copies)
