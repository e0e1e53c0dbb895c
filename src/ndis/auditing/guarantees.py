"""Prove a claim of one of the package's mechanisms if a theorem does, and advise what to do next.

The profile of a mechanism is an upper bound over all neighbours. It refutes nothing, but it may prove a claim.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np

from ndis._search import budget
from ndis.auditing.candidates.mechanism import adds_noise, as_projection
from ndis.auditing.claim import Claim, Proof
from ndis.auditing.judge import Judgement
from ndis.auditing.witness import Witness
from ndis.dpsgd import DPSGD
from ndis.errors import NdisError
from ndis.mechanisms.gaussian import GaussianMechanism, unit_noise
from ndis.mechanisms.sketch_law import smallest_ridge
from ndis.pages.text import at_least, at_most, equation, few, plain
from ndis.worst_case.envelopes import RankOneEnvelope, as_envelope

Texts = tuple[str, ...]
_PLAIN = (bool, int, float, str, type(None))
# the claim has its own, and the page shows these; the last two say how numbers are rounded and found, not what is drawn
_TARGETS = ("epsilon", "delta", "target_epsilon", "target_delta", "adjacency")
_NOT_SHOWN = (*_TARGETS, "history", "fractional_bits", "calibration")
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
    "the published output is one release of this mechanism, and nothing else that is published depends on the data: "
    "compare all that was published with the receipt of the release",
    "the random bits of the release are secret and were not chosen with random_state: the receipt says if they were",
    "one person contributes at most {records}: count the records of each person, or join them before the release",
)
_PUBLIC_BOUNDS = (
    "the bounds of the mechanism are public, and were stated without looking at the data: ask who stated them, and "
    "from what (a questionnaire, a code book, a law)"
)
# Mechanisms of this package whose releases are drawn exactly, as docs/proof-of-exactness.md proves.
_EXACTLY_DRAWN = ("GaussianMechanism", "GramMechanism", "PTRProjection", "PoissonProjection", "RandomProjection")
_USELESS_EPSILON = 10.0  # a claim with a larger ε protects too little to be advised
_OWN = {
    "DPSGD": "batches are drawn with secret randomness ({loop}); the gradient of each record is clipped to the norm "
    "that the noise multiplier refers to, and the noisy sums are all that depends on the data: read the sampler, the "
    "clipping and the normaliser of the training loop",
    "GaussianMechanism": "the query changes by at most the stated sensitivity between any two neighbours: work out how "
    "far one record can move it, or clip each record first",
    "GaussianRounds": "no more rounds are released than the mechanism was made for: count them",
    "LiftedMechanism": "the model's declared sensitivity holds, for its numbers as they are rounded too; "
    "ndis.auditing.sensitivity.check_sensitivity can look for a violation",
    "ProjectionLaw": "the system draws an ideal Gaussian sketch with this ridge and clips rows to the stated bounds: "
    "read its code, or use RandomProjection",
}


# ---------------------------------------------------------------------- proofs


def prove(mechanism: Any, claim: Claim) -> Proof | None:
    """Return the theorem that proves the claim for a mechanism of this package; None if there is none.

    >>> from ndis.auditing import ProjectionLaw
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
    loop, most = getattr(mechanism, "loop", ""), getattr(mechanism, "examples_per_user", 1)
    words = {"loop": loop, "records": "one record" if most == 1 else f"{most} records"}
    assumptions = tuple(text.format(**words) for text in (*own, _PUBLIC_BOUNDS, *_ALWAYS))
    return Proof(theorem, statement(mechanism, claim), assumptions)


def statement(mechanism: Any, claim: Claim) -> str:
    """Write what is proved in one sentence."""
    points = "; ".join(f"{equation('ε', e)}, {equation('δ', d)}" for e, d in claim.points)
    return f"{described(mechanism)} gives differential privacy with {points} ({claim.adjacency}) on every data set"


def exactly_drawn(mechanism: Any) -> bool:
    """Say if the release of this mechanism is drawn exactly, byte for byte."""
    kind = type(mechanism)
    return kind.__name__ in _EXACTLY_DRAWN and kind.__module__.partition(".")[0] == __name__.partition(".")[0]


def _theorem(mechanism: Any, claim: Claim) -> str | None:
    """Return the theorem that bounds δ for all neighbours; None if the mechanism does not belong to this package."""
    kind = type(mechanism)
    if kind.__name__ not in _THEOREMS or kind.__module__.partition(".")[0] != __name__.partition(".")[0]:
        return None
    theorem = mechanism.theorem if isinstance(mechanism, DPSGD) else _THEOREMS[kind.__name__]
    if theorem == "thm:sketch-pair" and claim.adjacency == "replace-one":
        return "thm:sketch-replace-one"
    if not adds_noise(mechanism):
        return theorem
    envelope = as_envelope(mechanism.model.sensitivity(mechanism.noise_variance))
    return "thm:rank-one" if isinstance(envelope, RankOneEnvelope) else theorem


def _within(mechanism: Any, epsilon: float, delta: float) -> bool:
    """Say if the certified upper end of the mechanism's own δ meets the claimed point.

    A mechanism with its own ε and δ was certified when it was made, so no larger claim needs another certificate.
    """
    own: tuple[Any, Any] = getattr(mechanism, "target_epsilon", None), getattr(mechanism, "target_delta", None)
    stated = all(isinstance(number, int | float) for number in own)
    fixed = stated and not adds_noise(mechanism)  # a model may change after it was lifted
    if fixed and epsilon >= own[0] and delta >= own[1]:
        return True
    return bool(mechanism.profile().certify(epsilon).upper <= delta)


# ---------------------------------------------------------------------- what to do next


def advice(claim: Claim, judgement: Judgement, *, given_only: bool, mechanism: Any = None) -> Texts:
    """Write sentences that say what the reader can do next."""
    witness, epsilon_refuted = judgement.witness, judgement.epsilon_refuted
    if judgement.refuted:
        return _after_a_refutation(claim, witness, epsilon_refuted, mechanism)
    steps = ["do not take this page for an approval: ask for a proof, or for the reason why no other data can be worse"]
    if judgement.undecided:
        steps.append("the claim is at its very edge: claim a slightly larger ε, or add a little more noise")
    if given_only:
        steps.append(
            "look for worse records and data sets: state the domain of the rows, DataSet(data, domain=Domain(…)), or "
            "at the shell row_norm_bound or low and high"
        )
    if epsilon_refuted is not None:
        steps.append(
            f"do not claim a smaller ε without another mechanism: at {equation('δ', witness.delta)} the pairs tested "
            f"need an ε above {at_least(epsilon_refuted)}"
        )
    steps.append(
        "for a proof, use a mechanism whose guarantee is a theorem (GaussianMechanism for sums and counts, "
        "RandomProjection for sketches, ndis.lift for a model of known sensitivity), and audit it with mechanism="
    )
    return tuple(steps)


def _after_a_refutation(claim: Claim, witness: Witness, epsilon_refuted: float | None, mechanism: Any) -> Texts:
    """List what to do about a refuted claim: a repair, a claim that holds at this δ, or another mechanism."""
    steps = ["do not rely on the claim, and do not publish further outputs under it"]
    repair = _calibrated(mechanism, claim) or _more_noise(witness, claim, mechanism)
    if repair is not None:
        steps.append(repair)
    if epsilon_refuted is None:
        return tuple(steps)
    if witness.delta == 0.0:
        steps.append("claim a δ above 0: Gaussian outputs seldom keep a claim of δ = 0 at any ε")
    elif epsilon_refuted == np.inf:
        steps.append(
            f"no ε repairs the claim at {equation('δ', witness.delta)}: the output must get noise in every direction. "
            "Clip each record, and add noise that fits the bound (GaussianMechanism; ndis.lift for a model)"
        )
    elif epsilon_refuted >= _USELESS_EPSILON > witness.epsilon:
        steps.append(
            f"no useful ε describes the system unchanged at {equation('δ', witness.delta)}: change the mechanism. Clip "
            "each record to a bound stated beforehand, and add noise that fits the bound (GaussianMechanism)"
        )
    else:
        proved = _provable(mechanism, claim, witness.delta)
        steps.append(
            f"to keep the system as it is, claim an ε above {at_most(epsilon_refuted)} at "
            f"{equation('δ', witness.delta)}; the pairs tested need that much, and others may need more"
            if proved is None or not proved[0] > epsilon_refuted
            else f"to keep the system as it is, claim ε = {at_most(proved[0])} at {equation('δ', witness.delta)}: "
            f"{proved[1]} proves that claim for all neighbours"
        )
    return tuple(steps)


def _provable(mechanism: Any, claim: Claim, delta: float) -> tuple[float, str] | None:
    """Return an ε that a theorem proves at `delta` for all neighbours, and the theorem; None if there is none."""
    try:
        theorem = _theorem(mechanism, claim)
        return None if theorem is None else (mechanism.profile().certified_epsilon(delta), theorem)
    except NdisError:
        return None


def _calibrated(mechanism: Any, claim: Claim) -> str | None:
    """Return the noise that makes the claim true for all neighbours, if calibration finds it."""
    law: Any = as_projection(mechanism)
    stages: Any = getattr(mechanism, "stages", ())
    own: Any
    find: Any
    if law is not None:
        kind, name, own, find = "RandomProjection", "ridge", law, partial(smallest_ridge, law)
    elif isinstance(mechanism, GaussianMechanism):
        public = {name: getattr(mechanism, name) for name in ("sensitivity", "adjacency")}
        kind, name, own, find = "GaussianMechanism", "noise_std", mechanism, partial(mechanism.calibrated, **public)
    elif isinstance(mechanism, DPSGD) and len(stages) == 1:
        public = {name: value for name, value in stages[0].arguments().items() if name != "noise_multiplier"}
        kind, name, own, find = "DPSGD", "noise_multiplier", stages[0], partial(DPSGD.calibrated, **public)
    else:
        return None
    try:  # no noise is enough for δ = 0, which `budget` refuses
        budgets: list[Any] = [dict(zip(("epsilon", "delta"), budget(*point), strict=True)) for point in claim.points]
        values = [find(**one) for one in budgets]
    except NdisError:
        return None
    noise = at_most(max(getattr(value, name, value) for value in values))
    true = "with all else unchanged the claim is then true for all neighbours"
    return f"raise {name} from {plain(getattr(own, name))} to {noise}: {true}; {kind}.calibrated finds this number"


def _more_noise(witness: Witness, claim: Claim, mechanism: Any) -> str | None:
    """Return a factor for the noise if only the means of the two laws differ (thm:mean-shift)."""
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


# ---------------------------------------------------------------------- a mechanism in words


def described(mechanism: Any) -> str:
    """Name the class of a mechanism, and its public parameters in few digits; `call_of` has all digits.

    >>> described(DPSGD(noise_multiplier=1.1, sampling_rate=0.01, steps=100))
    'DPSGD with noise_multiplier = 1.1, sampling_rate = 0.01, steps = 100'
    """
    own = {name: _words(value) for name, value in _parameters(mechanism).items() if name not in _NOT_SHOWN}
    words = ", ".join(f"{name} = {text}" for name, text in own.items() if text not in ("None", "()"))
    return type(mechanism).__name__ + (f" with {words}" if words else "")


def call_of(mechanism: Any) -> tuple[str, str] | None:
    """Return the import and the call that make the same mechanism; None if one of its fields is no plain value.

    >>> call_of(DPSGD(noise_multiplier=1.1, sampling_rate=0.01, steps=100))[1]
    'DPSGD(noise_multiplier=1.1, sampling_rate=0.01, steps=100)'
    """
    kind, own = type(mechanism), _parameters(mechanism)
    if not own or "<locals>" in kind.__qualname__ or not all(_is_plain(value) for value in own.values()):
        return None
    made = f"{kind.__name__}({', '.join(f'{name}={value!r}' for name, value in own.items())})"
    if "stages" in own:
        made = f"{kind.__name__}.from_schedule({own['stages']!r})"
    return f"from {kind.__module__} import {kind.__name__}", made


def _parameters(mechanism: Any) -> dict[str, Any]:
    """Return the fields by name; those of the only stage, if the mechanism is a schedule."""
    if isinstance(mechanism, DPSGD):
        stages = [_fields(stage) for stage in mechanism.stages]
        usual = all(len(stage) == 3 for stage in stages)
        return stages[0] if len(stages) == 1 else {"stages": tuple(tuple(s.values()) if usual else s for s in stages)}
    return _fields(mechanism) if is_dataclass(mechanism) else {}


def _fields(item: Any) -> dict[str, Any]:
    if callable(getattr(item, "arguments", None)):
        return dict(item.arguments())
    return {field.name: getattr(item, field.name) for field in fields(item) if field.init}


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(map(_is_plain, value)))


def _words(value: Any) -> str:
    if isinstance(value, float):
        return few(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_words, value))})"
    return str(value) if isinstance(value, _PLAIN) else f"a {type(value).__name__}"
