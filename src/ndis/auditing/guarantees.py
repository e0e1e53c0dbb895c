"""The package's own mechanisms under audit: neighbours to test, a proof if there is one, and a repair if it is known.

The profile of a mechanism is an upper bound over all neighbours. It refutes nothing, but it may prove a claim.
`attained` lists real neighbours, and these may refute one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ndis._digits import at_least, at_most, equation, plain
from ndis._exact import ExactArray, exact_array, plus_diagonal
from ndis._search import budget
from ndis.auditing.claim import Claim, ClaimedCurve, Proof
from ndis.auditing.described import described
from ndis.auditing.edits import as_rows
from ndis.auditing.judge import EXCHANGED, WITH_RECORD, Candidate, Tested, candidates_of
from ndis.auditing.projection import ProjectionLaw, projection_neighbours
from ndis.auditing.rules import as_rules, only_given
from ndis.auditing.run import Source, neighbours_to_test
from ndis.auditing.witness import Witness
from ndis.dpsgd import DPSGD
from ndis.errors import NdisError, ParameterError
from ndis.mechanisms.gaussian import GaussianMechanism, unit_noise
from ndis.mechanisms.mechanism import Attained, Mechanism
from ndis.mechanisms.sketch_law import calibrated_ridge
from ndis.worst_case.envelopes import RankOneEnvelope, as_envelope

__all__ = ["Lifted", "advice", "from_mechanism", "prove"]

Texts = tuple[str, ...]
_THEOREMS = {  # by the name of a class of this package
    "DPSGD": "thm:sampled-moment",
    "GaussianMechanism": "thm:mean-shift",
    "GaussianRounds": "thm:rounds",
    "GramMechanism": "thm:gram-mechanism",
    "LiftedMechanism": "thm:envelope-split",
    "PTRProjection": "thm:ptr-joint",
    "PoissonProjection": "thm:poisson-sampling",
    "ProjectionLaw": "thm:sketch-pair",
    "RandomProjection": "thm:sketch-pair",
}
_ALWAYS = (
    "the published output is one release of this mechanism, and nothing else that is published depends on the data",
    "the random bits of the release are secret and were not chosen with random_state",
    "one person contributes at most one record",
)
_OWN = {
    "DPSGD": "each record enters each batch on its own with the stated probability (Poisson sampling), its gradient is "
    "clipped to the norm that the noise multiplier refers to, and the noisy sums are all that depends on the data",
    "GaussianMechanism": "the query changes by at most the stated sensitivity between any two neighbours",
    "GaussianRounds": "no more rounds are released than the mechanism was made for",
    "LiftedMechanism": "the model's declared sensitivity holds, for its numbers as they are rounded too; "
    "ndis.check_sensitivity can look for a violation",
    "ProjectionLaw": "the system draws an ideal Gaussian sketch with this ridge and clips rows to the stated bounds",
}


@runtime_checkable
class AddsNoise(Protocol):
    """A mechanism that adds noise to the Gaussian output of a model."""

    @property
    def model(self) -> Any:
        """The model; its `distribution` takes the data."""

    @property
    def noise_variance(self) -> float:
        """The variance added to every coordinate."""


def from_mechanism(
    mechanism: Any, data: Any, neighbours: Any, claim: Claim | ClaimedCurve, *, table: Mapping[str, Any], **options: Any
) -> Source:
    """The pairs to test for a mechanism; `table` says how to read the data."""
    if not isinstance(mechanism, Mechanism):
        raise ParameterError(
            "mechanism", "have profile(), attained() and adjacency", type(mechanism).__name__, "pass its law as pairs"
        )
    if mechanism.adjacency != claim.adjacency:
        rule = f"be that of the mechanism, {mechanism.adjacency!r}"
        raise ParameterError("adjacency of the claim", rule, repr(claim.adjacency))
    attained = mechanism.attained()
    how: Texts = (f"the worst neighbours that the mechanism knows of, on any data ({len(attained)} in all)",)
    more = Source(()) if data is None else _on_data(mechanism, data, neighbours, claim, table, options)

    def tested() -> Iterator[Tested]:
        for one in attained:
            yield Tested(1, _candidates([one], claim))
        yield from more.tested

    given_only = more.given_only and not attained
    return Source(tested(), (how if attained else ()) + more.how, ("all other neighbours",), more.notes, given_only)


def _on_data(
    mechanism: Any,
    data: Any,
    neighbours: Any,
    claim: Claim | ClaimedCurve,
    table: Mapping[str, Any],
    options: dict[str, Any],
) -> Source:
    law = _as_projection(mechanism)
    if law is not None:
        if neighbours is not None:
            raise ParameterError("neighbours", "be left out for a projection", type(neighbours).__name__)
        found, tried, how = projection_neighbours(law, data, **table)
        return Source([Tested(tried, _candidates(found, claim))], how)
    if not (isinstance(mechanism, AddsNoise) and hasattr(mechanism.model, "distribution")):
        rule = "be left out for this mechanism, whose output on given data is no single Gaussian"
        raise ParameterError("data", rule, type(mechanism).__name__)
    rules = as_rules(neighbours, claim)
    lifted = Lifted(mechanism.model, float(mechanism.noise_variance))
    tested, notes = neighbours_to_test(lifted, as_rows(data, **table), rules, claim, **options)
    return Source(tested, tuple(rule.describe() for rule in rules), (), notes, only_given(rules))


def _candidates(found: Iterable[Attained], claim: Claim | ClaimedCurve) -> tuple[Candidate, ...]:
    words = WITH_RECORD if claim.adjacency == "add-remove" else EXCHANGED
    return tuple(c for one in found for c in candidates_of(one.neighbours, words, one.profile, claim))


def _as_projection(mechanism: Any) -> ProjectionLaw | None:
    """The law of a sketch on given data; None for any other mechanism."""
    law = mechanism if isinstance(mechanism, ProjectionLaw) else getattr(mechanism, "law", None)
    return law if isinstance(law, ProjectionLaw) and law.is_gaussian else None


@dataclass(frozen=True)
class Lifted:
    """The output law of a lifted model: N(mean, covariance + noise_variance·I)."""

    model: Any
    noise_variance: float

    def __call__(self, data: Any) -> tuple[ExactArray, ExactArray]:
        mean, covariance = self.model.distribution(data)
        centre, spread = exact_array(mean, name="mean"), exact_array(covariance, name="covariance")
        return centre, plus_diagonal(spread, self.noise_variance)


# ---------------------------------------------------------------------- proofs


def prove(mechanism: Any, claim: Claim | ClaimedCurve) -> Proof | None:
    """The theorem that proves the claim for a mechanism of this package; None if there is none.

    >>> law = ProjectionLaw(sketch_size=100, ridge=36.0, row_norm_bound=1.0)
    >>> prove(law, Claim(epsilon=1.0, delta=1e-6)).theorem
    'thm:sketch-pair'
    >>> prove(law, Claim(epsilon=0.9, delta=1e-6)) is None
    True
    """
    try:
        theorem = _theorem(mechanism, claim)
        if theorem is None or not all(_within(mechanism, epsilon, delta) for epsilon, delta in claim.points):
            return None
    except NdisError:
        return None
    kind = type(mechanism).__name__
    own = (_OWN[kind],) if kind in _OWN else ()
    points = "; ".join(f"{equation('ε', e)}, {equation('δ', d)}" for e, d in claim.points)
    statement = f"{described(mechanism)} gives differential privacy with {points} ({claim.adjacency}) on every data set"
    return Proof(theorem, statement, (*own, *_ALWAYS))


def _theorem(mechanism: Any, claim: Claim | ClaimedCurve) -> str | None:
    """The theorem that bounds δ for all neighbours; None if the mechanism does not belong to this package."""
    kind = type(mechanism)
    if kind.__name__ not in _THEOREMS or kind.__module__.partition(".")[0] != __name__.partition(".")[0]:
        return None
    theorem = _THEOREMS[kind.__name__]
    if theorem == "thm:sketch-pair" and claim.adjacency == "replace-one":
        return "thm:sketch-replace-one"
    if isinstance(mechanism, AddsNoise) and isinstance(
        as_envelope(mechanism.model.sensitivity(mechanism.noise_variance)), RankOneEnvelope
    ):
        return "thm:rank-one"
    return theorem


def _within(mechanism: Any, epsilon: float, delta: float) -> bool:
    """Whether the certified upper end of the mechanism's own δ meets the claimed point.

    A mechanism with its own ε and δ was certified when it was made, so no larger claim needs another certificate.
    """
    own: tuple[Any, Any] = getattr(mechanism, "target_epsilon", None), getattr(mechanism, "target_delta", None)
    stated = all(isinstance(number, int | float) for number in own)
    fixed = stated and not isinstance(mechanism, AddsNoise)  # a model may change after it was lifted
    if fixed and epsilon >= own[0] and delta >= own[1]:
        return True
    return bool(mechanism.profile().certify(epsilon).upper <= delta)


# ---------------------------------------------------------------------- what to do next


def advice(
    claim: Claim | ClaimedCurve,
    witness: Witness | None,
    *,
    refuted: bool,
    epsilon_refuted: float | None,
    given_only: bool,
    mechanism: Any = None,
) -> Texts:
    """Sentences that say what the reader can do next."""
    if refuted and witness is not None:
        return _after_a_refutation(claim, witness, epsilon_refuted, mechanism)
    found = []
    if given_only:
        found.append(
            "look for a worse record: state row_norm_bound (and target_bound), or test AddAdversarial or "
            "ReplaceAdversarial"
        )
    if witness is not None and epsilon_refuted is not None:
        found.append(
            f"do not claim a smaller ε without another mechanism: at {equation('δ', witness.delta)} the pairs tested "
            f"need an ε above {at_least(epsilon_refuted)}"
        )
    found.append(
        "for a proof, use a mechanism whose guarantee is a theorem, such as GaussianMechanism, RandomProjection or "
        "ndis.lift, and audit it with mechanism="
    )
    return tuple(found)


def _after_a_refutation(
    claim: Claim | ClaimedCurve, witness: Witness, epsilon_refuted: float | None, mechanism: Any
) -> Texts:
    found = ["do not rely on the claim, and do not publish further outputs under it"]
    repair = _calibrated(mechanism, claim) or _more_noise(witness, claim, mechanism)
    if repair is not None:
        found.append(repair)
    if epsilon_refuted is None:
        return tuple(found)
    if witness.delta == 0.0:
        found.append("claim a δ above 0: Gaussian outputs seldom keep a claim of δ = 0 at any ε")
    elif epsilon_refuted == np.inf:
        found.append(
            f"no ε repairs the claim at {equation('δ', witness.delta)}: the output must get noise in every direction, "
            "and ndis.lift finds how much"
        )
    else:
        proved = _provable(mechanism, claim, witness.delta)
        found.append(
            f"to keep the system as it is, claim an ε above {at_most(epsilon_refuted)} at "
            f"{equation('δ', witness.delta)}; the pairs tested need that much, and others may need more"
            if proved is None or not proved[0] > epsilon_refuted
            else f"to keep the system as it is, claim ε = {at_most(proved[0])} at {equation('δ', witness.delta)}: "
            f"{proved[1]} proves that claim for all neighbours"
        )
    return tuple(found)


def _provable(mechanism: Any, claim: Claim | ClaimedCurve, delta: float) -> tuple[float, str] | None:
    """An ε that a theorem proves at `delta` for all neighbours, and the theorem; None if there is none."""
    try:
        theorem = _theorem(mechanism, claim)
        return None if theorem is None else (mechanism.profile().certified_epsilon(delta), theorem)
    except NdisError:
        return None


def _calibrated(mechanism: Any, claim: Claim | ClaimedCurve) -> str | None:
    """The noise that makes the claim true for all neighbours, if calibration finds it."""
    try:
        points = [budget(*point) for point in claim.points]  # no noise reaches δ = 0
        law = _as_projection(mechanism)
        if law is not None:
            ridge = max(calibrated_ridge(law, "exact", epsilon=e, delta=d) for e, d in points)
            return (
                f"raise the ridge from {plain(law.ridge)} to {at_most(ridge)}: the claim is then "
                "true for all neighbours; RandomProjection.calibrated finds this ridge"
            )
        if isinstance(mechanism, GaussianMechanism):
            public = {name: getattr(mechanism, name) for name in ("sensitivity", "adjacency", "covariance")}
            noise = max(GaussianMechanism.calibrated(epsilon=e, delta=d, **public).noise_std for e, d in points)
            return (
                f"raise noise_std from {plain(mechanism.noise_std)} to {at_most(noise)}: "
                "the claim is then true for all neighbours; GaussianMechanism.calibrated finds this noise"
            )
        if isinstance(mechanism, DPSGD) and len(mechanism.stages) == 1:
            (stage,) = mechanism.stages
            runs = [
                DPSGD.calibrated(epsilon=e, delta=d, sampling_rate=stage.sampling_rate, steps=stage.steps)
                for e, d in points
            ]
            noise = max(run.noise_multiplier for run in runs)
            return (
                f"raise noise_multiplier from {plain(stage.noise_multiplier)} to about {at_most(noise)}, rounded up: "
                "with the same sampling rate and steps the claim is then true for all neighbours; DPSGD.calibrated "
                "finds this noise"
            )
    except NdisError:
        return None
    return None


def _more_noise(witness: Witness, claim: Claim | ClaimedCurve, mechanism: Any) -> str | None:
    """A factor for the noise if only the means of the two laws differ (thm:mean-shift)."""
    pair = witness.pair
    if pair is None or pair.mutually_singular or not (pair.excess == 0).all():
        return None
    shift = float(np.sqrt((pair.copies * pair.shift**2).sum()))
    try:
        factor = shift * max(unit_noise(e, d) for e, d in claim.points) * (1.0 + 2.0**-48)
    except NdisError:
        return None
    if isinstance(mechanism, DPSGD):  # full batches, and the neighbours shown are the worst
        return f"multiply the noise of every stage by {at_most(factor)}: the claim is then true for all neighbours"
    return (
        f"multiply the standard deviation of the noise by {at_most(factor)}: the claim then "
        "holds for the neighbours shown, whose outputs differ only in their means; other neighbours may need more"
    )
