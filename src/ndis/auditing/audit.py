"""`audit`: compare a claim with neighbours (rule:audit)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ndis._validate import as_scalar
from ndis.auditing.candidates import Found, explicit
from ndis.auditing.claim import Claim, ClaimedCurve
from ndis.auditing.edits import digest, parts_of
from ndis.auditing.explicit import PairBatch, from_batch
from ndis.auditing.judge import judge
from ndis.auditing.laws import Algorithm
from ndis.auditing.mechanisms import from_mechanism
from ndis.auditing.progress import counter
from ndis.auditing.result import AuditReport
from ndis.auditing.search import as_rules, search
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__all__ = ["audit"]

LAW_ACCURACY = 2.0**-40
_PAIRS_ONLY = "every pair of neighbours that is not among those given"
_ALL_OTHERS = "neighbours of other data sets, and neighbours of this one that the rules above do not make"


def audit(
    claim: Claim | ClaimedCurve,
    *,
    pairs: Any = None,
    algorithm: Algorithm | None = None,
    data: Any = None,
    neighbours: Any = None,
    mechanism: Any = None,
    samples: Any = None,
    workers: int = 1,
    progress: bool | None = None,
    journal: str | os.PathLike[str] | None = None,
    random_state: int | None = None,
    law_accuracy: float = LAW_ACCURACY,
) -> AuditReport:
    """Try to refute a claim of differential privacy, by certified lower bounds on δ over pairs of neighbours.

    The printed audit (lem:ndis-upper-oracle) returns an over-estimate of δ. A refutation here reads a certified lower end.

    Give one of `pairs`, `algorithm` or `mechanism`. Every pair is tested in both orders.

    Parameters
    ----------
    claim : Claim or ClaimedCurve
        What is claimed.
    pairs : iterable of GaussianPair or PrivacyProfile, or PairBatch, or mapping of arrays
        The output laws on neighbours, known beforehand. A million pairs as a `PairBatch` take seconds.
    algorithm : callable
        data → (mean, covariance) of its Gaussian output; always the same for the same data, which is checked. A
        covariance that is a vector means independent coordinates. It gets a copy of the data, which it may write to.
    data : array of rows, or (X, y)
        For `algorithm`, or for a `mechanism` whose law on these data is to be looked at as well.
    neighbours : rule, rules, or iterable of data sets
        How to choose neighbours of `data`: `RemoveEach` (the default), `AddRows`, `AddRandom`, `AddAdversarial`,
        `ReplaceEach`, `ReplaceAdversarial`; or the neighbouring data sets themselves.
    mechanism : Mechanism or ProjectionLaw
        Tested on the neighbours it says attain its guarantee, and on those of `data`.
    samples
        Out of scope: refused.
    workers : int
        How many runs of `algorithm` at a time.
    progress : bool, optional
        Show a counter; by default on a terminal.
    journal : path, optional
        Where to note finished neighbours, so that an interrupted audit can be run again and goes on. Some of them are
        run again, to see that the algorithm is still the same.
    random_state : int, optional
        Seed of the rules that draw rows; 0 by default.
    law_accuracy : float
        Relative accuracy to which the numbers returned by `algorithm` are trusted: of means and standard deviations,
        coordinate by coordinate. What errors of that size explain is not held against the claim. 0 takes the numbers as
        exact; fractions (`ExactArray`) are.

    Returns
    -------
    AuditReport
        Refuted only where δ of a pair is above the claimed δ with certainty. Not refuted is not proved.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.auditing import Claim, audit
    >>> noisy_mean = lambda data: (data.mean(axis=0), np.full(2, 0.01))  # 0.01 is a variance
    >>> rows = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.2, 0.1]])
    >>> report = audit(Claim(epsilon=1.0, delta=1e-6), algorithm=noisy_mean, data=rows)
    >>> report.refuted, report.witness.neighbours
    (True, 'the data, and the data without row 0')
    """
    if not isinstance(claim, Claim | ClaimedCurve):
        raise ParameterError("claim", "be a Claim", type(claim).__name__, "write ndis.Claim(epsilon=…, delta=…)")
    if samples is not None:
        raise ParameterError(
            "samples",
            "be left out",
            type(samples).__name__,
            "auditing from samples is out of scope: samples bound δ with a probability of error, "
            "this audit proves; give the output law as pairs, an algorithm or a mechanism",
        )
    sources = {"pairs": pairs, "algorithm": algorithm, "mechanism": mechanism}
    chosen = [name for name, value in sources.items() if value is not None]
    if len(chosen) != 1:
        raise ParameterError("pairs, algorithm or mechanism", "be given, one of them", " and ".join(chosen) or "none")
    if algorithm is not None and data is None:
        raise ParameterError("data", "come with an algorithm", None)
    if neighbours is not None and data is None:
        raise ParameterError("neighbours", "come with data", "none")
    if pairs is not None and data is not None:
        raise ParameterError("data", "be left out with pairs", type(data).__name__)
    if pairs is not None and (journal is not None or workers != 1):
        rule = "be left out with pairs, where no algorithm runs"
        raise ParameterError("journal and workers", rule, f"journal={journal!r}, workers={workers!r}")
    if not 0 <= as_scalar("law_accuracy", law_accuracy) < 1:
        raise ParameterError("law_accuracy", "be at least 0 and below 1", law_accuracy)
    seed = _seed(random_state)
    found = Found()
    notes: tuple[str, ...] = ()
    options: dict[str, Any] = {"workers": workers, "progress": progress, "journal": journal, "seed": seed}
    reproduce = _reproduce(claim, chosen[0], sources[chosen[0]], data, seed)
    if pairs is not None:
        how, missing = _from_pairs(pairs, claim, found)
    elif algorithm is not None:
        rules = as_rules(neighbours, claim)
        notes = search(algorithm, data, rules, claim, found, law_accuracy=float(law_accuracy), **options)
        how, missing = tuple(rule.describe() for rule in rules), (_ALL_OTHERS,)
    else:
        how, missing, notes = from_mechanism(mechanism, data, neighbours, claim, found, **options)
    if found.tried == 0:
        raise ParameterError(chosen[0], "lead to at least one pair of neighbours", "none")
    with counter(progress, "certificates") as advance:
        judgement = judge(found, progress=advance)
    return AuditReport(
        claim,
        judgement.refuted,
        judgement.witness,
        judgement.epsilon_refuted,
        judgement.delta_possible,
        found.tried,
        how,
        (*missing, "attacks on the floating-point numbers of an implementation: the laws are taken as exact Gaussians"),
        reproduce,
        (*judgement.notes, *notes),
        judgement.undecided,
    )


def _from_pairs(pairs: Any, claim: Claim | ClaimedCurve, found: Found) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if isinstance(pairs, Mapping):
        pairs = PairBatch.from_mapping(pairs)
    if isinstance(pairs, PairBatch):
        from_batch(pairs, claim, found)
    else:
        if isinstance(pairs, GaussianPair | PrivacyProfile):
            pairs = [pairs]
        explicit(pairs, claim, found)
    if found.tried == 0:
        raise ParameterError("pairs", "be at least one", "none")
    if found.tried == 1:
        return ("1 pair given as it is; that it is one of neighbours is taken at its word",), (_PAIRS_ONLY,)
    how = f"{found.tried:,} pairs given as they are; that they are neighbours is taken at their word"
    return (how,), (_PAIRS_ONLY,)


def _seed(random_state: Any) -> int:
    seed = 0 if random_state is None else random_state
    if isinstance(seed, bool) or not (as_scalar("random_state", seed) >= 0 and int(seed) == seed):
        raise ParameterError("random_state", "be a whole number, not negative", repr(random_state))
    return int(seed)


def _reproduce(claim: Claim | ClaimedCurve, source: str, value: Any, data: Any, seed: int) -> str:
    """The call, with the names and digests of what it was given."""
    if isinstance(claim, Claim):
        text = f"ndis.Claim(epsilon={claim.epsilon!r}, delta={claim.delta!r}, adjacency={claim.adjacency!r})"
    else:
        epsilons, deltas = zip(*claim.points, strict=True)
        text = f"ndis.Claim.curve({list(epsilons)}, {list(deltas)}, adjacency={claim.adjacency!r})"
    given = f"{source}=…"
    told = ""
    if source != "pairs":
        name = getattr(value, "name", None) if source == "algorithm" else type(value).__name__
        given = f"{source}={name if isinstance(name, str) else _name(value)}"
    if source == "algorithm":
        given += ", data=…, neighbours=…"
        told = f" the digest of data is {digest(*parts_of(data))};"
    elif data is not None:
        given += ", data=…"
    return (
        f"ndis.audit({text}, {given}, random_state={seed});{told} or, from the JSON of this report, "
        "AuditReport.from_json(text).witness.recheck()"
    )


def _name(algorithm: Any) -> str:
    """Module and name of a function, or of the class of an object."""
    found = getattr(algorithm, "func", algorithm)
    found = found if hasattr(found, "__qualname__") else type(found)
    return f"{found.__module__}.{found.__qualname__}"
