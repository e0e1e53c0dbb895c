"""The package's own mechanisms under audit: on the neighbours that attain their guarantee, and on those of the data.

The profile of a mechanism is an upper bound over all neighbours, so it convicts nobody; `attained` is made of real
neighbours, and does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ndis._exact import ExactArray, exact_array
from ndis.auditing.candidates import EXCHANGED, WITH_RECORD, Found, candidates_of
from ndis.auditing.claim import Claim, ClaimedCurve
from ndis.auditing.projection import ProjectionLaw, projection_neighbours
from ndis.auditing.search import as_rules, search
from ndis.errors import ParameterError
from ndis.mechanisms.base import Mechanism
from ndis.mechanisms.projection import RandomProjection

__all__ = ["from_mechanism"]

Texts = tuple[str, ...]


def from_mechanism(
    mechanism: Any, data: Any, neighbours: Any, claim: Claim | ClaimedCurve, found: Found, **options: Any
) -> tuple[Texts, Texts, Texts]:
    """Add the candidates of a mechanism; returns how they were chosen, what is not tested, and notes."""
    if not isinstance(mechanism, Mechanism):
        raise ParameterError(
            "mechanism", "have profile(), attained() and adjacency", type(mechanism).__name__, "pass its law as pairs"
        )
    if mechanism.adjacency != claim.adjacency:
        rule = f"be that of the mechanism, {mechanism.adjacency!r}"
        raise ParameterError("adjacency of the claim", rule, repr(claim.adjacency))
    words = WITH_RECORD if claim.adjacency == "add-remove" else EXCHANGED
    attained = mechanism.attained()
    for one in attained:
        for candidate in candidates_of(one.neighbours, words, one.profile, claim):
            found.add(candidate)
        found.tried += 1
    known = f"the worst neighbours that the mechanism knows of, on any data ({len(attained)} in all)"
    how: Texts = (known,) if attained else ()
    missing: Texts = ("all other neighbours",)
    if data is None:
        return how, missing, ()
    more, notes = _from_data(mechanism, data, neighbours, claim, found, **options)
    return (*how, *more), missing, notes


def _from_data(
    mechanism: Any, data: Any, neighbours: Any, claim: Claim | ClaimedCurve, found: Found, **options: Any
) -> tuple[Texts, Texts]:
    law = _as_projection(mechanism)
    if law is not None:
        if neighbours is not None:
            raise ParameterError("neighbours", "be left out for a projection", type(neighbours).__name__)
        exact, tried, how = projection_neighbours(law, data)
        for one in exact:
            for candidate in candidates_of(one.label, one.words, one.profile, claim):
                found.add(candidate)
        found.tried += tried
        return how, ()
    if not (hasattr(getattr(mechanism, "model", None), "distribution") and hasattr(mechanism, "noise_variance")):
        rule = "be left out for this mechanism, whose output on given data is no single Gaussian"
        raise ParameterError("data", rule, type(mechanism).__name__)
    rules = as_rules(neighbours, claim)
    notes = search(Lifted(mechanism.model, float(mechanism.noise_variance)), data, rules, claim, found, **options)
    return tuple(rule.describe() for rule in rules), notes


def _as_projection(mechanism: Any) -> ProjectionLaw | None:
    """The law of a projection on given data; None where it is another mechanism, or a mixture by sampling."""
    if isinstance(mechanism, ProjectionLaw):
        return mechanism
    return ProjectionLaw.of(mechanism) if type(mechanism) is RandomProjection else None


@dataclass(frozen=True)
class Lifted:
    """The output law of a lifted model: N(mean, covariance + noise_variance·I)."""

    model: Any
    noise_variance: float

    def __call__(self, data: Any) -> tuple[ExactArray, ExactArray]:
        mean, covariance = self.model.distribution(data)
        centre, spread = exact_array(mean, name="mean"), exact_array(covariance, name="covariance")
        noise = exact_array(self.noise_variance)
        numerators = spread.numerators * noise.denominator
        numerators[np.diag_indices(len(numerators))] += noise.numerators.item() * spread.denominator
        return centre, ExactArray(numerators, spread.denominator * noise.denominator)
