"""A mechanism of the package is tested on the neighbours that attain its guarantee, and on those of given data.

The profile of a mechanism is an upper bound over all neighbours, so it refutes nothing. `attained` lists real
neighbours, and these may refute a claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ndis._exact import ExactArray, exact_array, plus_diagonal
from ndis.auditing.candidates import Candidate, Candidates, Tested, both_orders
from ndis.auditing.candidates.algorithm import from_algorithm
from ndis.auditing.candidates.edits import DataSet
from ndis.auditing.candidates.projection import projection_neighbours
from ndis.auditing.candidates.rules import Search
from ndis.auditing.claim import Claim
from ndis.auditing.witness import EXCHANGED, WITH_RECORD
from ndis.errors import ParameterError
from ndis.mechanisms.mechanism import Attained, Mechanism
from ndis.mechanisms.sketch_law import ProjectionLaw

__all__ = ["AddsNoise", "Lifted", "as_projection", "from_mechanism"]


@runtime_checkable
class AddsNoise(Protocol):
    """A mechanism that adds noise to the Gaussian output of a model has these attributes."""

    @property
    def model(self) -> Any:
        """The model; its `distribution` takes the data."""

    @property
    def noise_variance(self) -> float:
        """The variance that is added to every coordinate."""


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

    def tested() -> Iterator[Tested]:
        for one in attained:
            yield 1, _candidates([one], claim)
        yield from more.tested

    given_only = more.given_only and not attained
    return Candidates(tested(), (how if attained else ()) + more.how, ("all other neighbours",), more.notes, given_only)


def _on_data(mechanism: Any, data: DataSet, search: Search, claim: Claim, running: dict[str, Any]) -> Candidates:
    law = as_projection(mechanism)
    if law is not None:
        if search.stated:
            raise ParameterError(" and ".join(search.stated), "be left out for a projection", type(mechanism).__name__)
        rows = data.open(target=law.target_bound is not None)
        neighbours, tried, chosen = projection_neighbours(law, rows)
        return Candidates([(tried, _candidates(neighbours, claim))], chosen)
    if not (isinstance(mechanism, AddsNoise) and hasattr(mechanism.model, "distribution")):
        rule = "be left out for this mechanism, whose output on given data is no single Gaussian"
        raise ParameterError("data", rule, type(mechanism).__name__)
    if data.schema is not None:
        remedy = "encode the data by the schema, as the model takes them"
        raise ParameterError("schema", "be left out for a lifted mechanism", type(mechanism).__name__, remedy)
    lifted = Lifted(mechanism.model, float(mechanism.noise_variance))
    return from_algorithm(lifted, data.rows(), search, claim, **running)


def _candidates(attained: Iterable[Attained], claim: Claim) -> Iterator[Candidate]:
    words = WITH_RECORD if claim.adjacency == "add-remove" else EXCHANGED
    for one in attained:
        yield from both_orders(one.neighbours, words, one.profile, claim)


def as_projection(mechanism: Any) -> ProjectionLaw | None:
    """Return the law of a sketch on given data; None for any other mechanism."""
    law = mechanism if isinstance(mechanism, ProjectionLaw) else getattr(mechanism, "law", None)
    return law if isinstance(law, ProjectionLaw) and law.is_gaussian else None
