"""`audit`: compare a claim with neighbours (rule:audit)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ndis._digits import several
from ndis._validate import as_scalar
from ndis.auditing.claim import Claim, ClaimedCurve
from ndis.auditing.described import call_of, described
from ndis.auditing.edits import as_rows, digest, parts_of
from ndis.auditing.guarantees import advice, from_mechanism, prove
from ndis.auditing.judge import judge, shortlist
from ndis.auditing.laws import Algorithm
from ndis.auditing.pairs import pairs_to_test
from ndis.auditing.report import AuditReport
from ndis.auditing.rules import as_rules, only_given
from ndis.auditing.run import Source, counter, neighbours_to_test
from ndis.errors import ParameterError
from ndis.mechanisms.rows import encoded_data

if TYPE_CHECKING:
    from ndis.data.schema import Schema

__all__ = ["audit"]

LAW_ACCURACY = 2.0**-40
_FLOATS = "attacks on the floating-point numbers of an implementation: the laws are taken as exact Gaussians"
_PAIRS_ONLY = "every pair of neighbours that is not among those given"
_ALL_OTHERS = "neighbours of other data sets, and neighbours of this one that the rules above do not make"
_DISAGREE = (
    "the mechanism's own bound is within the claim, but the pair shown is above it: one of the assumptions of the "
    "mechanism is false on these data"
)


def audit(
    claim: Claim | ClaimedCurve,
    *,
    pairs: Any = None,
    algorithm: Algorithm | None = None,
    data: Any = None,
    neighbours: Any = None,
    mechanism: Any = None,
    row_norm_bound: float | None = None,
    target_bound: float | None = None,
    target_values: Sequence[float] | None = None,
    columns: Any = None,
    targets: Any = None,
    header: bool = False,
    schema: Schema | None = None,
    title: str = "",
    data_name: str = "",
    workers: int = 1,
    progress: bool | None = None,
    journal: str | os.PathLike[str] | None = None,
    random_state: int | None = None,
    law_accuracy: float = LAW_ACCURACY,
) -> AuditReport:
    """Try to refute a claim of differential privacy by certified lower bounds on δ over pairs of neighbours.

    Give one of `pairs`, `algorithm` or `mechanism`. The audit tests every pair in both orders.

    The paper's lem:ndis-upper-oracle gives an over-estimate of δ. A refutation reads the certified lower end instead.

    Parameters
    ----------
    claim : Claim or ClaimedCurve
        The claim to test.
    pairs : iterable of GaussianPair or PrivacyProfile, or PairBatch, or mapping of arrays
        The output laws on neighbours, if you know them. A million pairs as a `PairBatch` take seconds.
    algorithm : callable
        data → (mean, covariance) of its Gaussian output. It must return the same law for the same data; the audit
        checks this. If the covariance is a vector, the coordinates are independent. The algorithm gets its own copy of
        the data.
    data : array of rows, (X, y), data frame, Arrow table or path
        For `algorithm`, or for a `mechanism` that you want to test on these data as well. A frame or a file becomes an
        array of rows, or (X, y) if there are `targets`.
    neighbours : rule, rules, or iterable of data sets
        How to choose neighbours of `data`: `RemoveEach`, `AddRows`, `AddRandom`, `AddAdversarial`, `ReplaceEach`,
        `ReplaceAdversarial`; or the neighbouring data sets themselves. By default `RemoveEach`, and the search for the
        worst row as well if `row_norm_bound` is stated.
    mechanism : Mechanism or ProjectionLaw
        The audit tests it on the neighbours that attain its guarantee, and on those of `data`. If a theorem of the
        package proves the claim, the report says so.
    row_norm_bound, target_bound, target_values : optional
        Public bounds of a row, for `algorithm` without `neighbours`: the audit then searches for the worst row within
        them.
    columns, targets : optional
        Names or numbers of the columns to read, and of the targets, as for `ndis.gram.exact_gram`.
    header : bool
        Whether the first line of a CSV file names its columns. A CSV file needs `header=True` or the list `columns`.
    schema : Schema, optional
        What is public about the columns. The algorithm gets the rows as the schema encodes them, and (X, y) if the
        schema has a target: its number in [−1, 1], or the number of its class. A row with a missing cell becomes zeros.
    title, data_name : str
        Names of the audited system and of the data, for the report. A file gives its own name to the data.
    workers : int
        How many runs of `algorithm` at a time.
    progress : bool, optional
        Show a counter; by default only on a terminal.
    journal : path, optional
        File for the finished neighbours. If the same audit runs again, it goes on from there. It runs a few neighbours
        again to see that the algorithm is still the same.
    random_state : int, optional
        Seed of the rules that draw rows; 0 by default.
    law_accuracy : float
        Relative accuracy of the numbers that `algorithm` returns, per coordinate, for means and standard deviations.
        The audit allows for errors of that size. 0 takes the numbers as exact; fractions (`ExactArray`) always are.

    Returns
    -------
    AuditReport
        Refuted only if δ of a pair is above the claimed δ with certainty. "Not refuted" does not mean proved.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.auditing import Claim, audit
    >>> noisy_mean = lambda data: (data.mean(axis=0), np.full(2, 0.01))  # 0.01 is a variance
    >>> rows = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.2, 0.1]])
    >>> report = audit(Claim(epsilon=1.0, delta=1e-6), algorithm=noisy_mean, data=rows, title="Noisy mean")
    >>> report.refuted, report.witness.neighbours
    (True, 'the data, and the data without row 0')
    """
    if not isinstance(claim, Claim | ClaimedCurve):
        raise ParameterError("claim", "be a Claim", type(claim).__name__, "write ndis.Claim(epsilon=…, delta=…)")
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
        rule = "be left out with pairs, for which no algorithm runs"
        raise ParameterError("journal and workers", rule, f"journal={journal!r}, workers={workers!r}")
    if not 0 <= as_scalar("law_accuracy", law_accuracy) < 1:
        raise ParameterError("law_accuracy", "be at least 0 and below 1", law_accuracy)
    bounds = {"row_norm_bound": row_norm_bound, "target_bound": target_bound, "target_values": target_values}
    if algorithm is None and any(value is not None for value in bounds.values()):
        raise ParameterError("row_norm_bound, target_bound and target_values", "come with an algorithm", chosen[0])
    table: dict[str, Any] = {"columns": columns, "targets": targets, "header": header}
    if data is None and (columns is not None or targets is not None or header or schema is not None):
        raise ParameterError("columns, targets, header and schema", "come with data", "no data")
    seed = _seed(random_state)
    file_name = os.path.basename(os.fspath(data)) if isinstance(data, str | os.PathLike) else ""
    if mechanism is not None:
        if schema is not None and hasattr(mechanism, "model"):
            remedy = "encode the data by the schema, as the model takes them"
            raise ParameterError("schema", "be left out for a lifted mechanism", type(mechanism).__name__, remedy)
        law = getattr(mechanism, "law", mechanism)
        data, table = encoded_data(schema, data, table, target=getattr(law, "target_bound", None) is not None)
    options: dict[str, Any] = {"workers": workers, "progress": progress, "journal": journal, "seed": seed}
    if pairs is not None:
        source = Source(pairs_to_test(pairs, claim), missing=(_PAIRS_ONLY,), given_only=True)
    elif algorithm is not None:
        data = as_rows(data, **table, schema=schema, progress=progress)
        rules = as_rules(neighbours, claim, **bounds)
        tested, notes = neighbours_to_test(algorithm, data, rules, claim, law_accuracy=float(law_accuracy), **options)
        how = tuple(rule.describe() for rule in rules)
        source = Source(tested, how, (_ALL_OTHERS,), notes, only_given(rules))
    else:
        source = from_mechanism(mechanism, data, neighbours, claim, table=table, **options)
    tried, ranked = shortlist(source.tested)
    if tried == 0:
        rule = "be at least one" if pairs is not None else "lead to at least one pair of neighbours"
        raise ParameterError(chosen[0], rule, "none")
    with counter(progress, "certificates") as advance:
        judgement = judge(ranked, progress=advance)
    refuted = judgement.refuted
    proof = None if mechanism is None else prove(mechanism, claim)
    return AuditReport(
        claim,
        refuted,
        judgement.witness,
        judgement.epsilon_refuted,
        judgement.delta_possible,
        tried,
        source.how or _given(tried),
        (*source.missing, _FLOATS),
        _reproduce(claim, chosen[0], sources[chosen[0]], data, seed),
        (*judgement.notes, *source.notes, *((_DISAGREE,) if refuted and proof is not None else ())),
        judgement.undecided,
        title=title,
        data_name=data_name or file_name,
        date=datetime.now(UTC).date().isoformat(),
        given_only=source.given_only,
        mechanism="" if mechanism is None else described(mechanism),
        proof=None if refuted else proof,
        next_steps=advice(
            claim,
            judgement.witness,
            refuted=refuted,
            epsilon_refuted=judgement.epsilon_refuted,
            given_only=source.given_only,
            mechanism=mechanism,
        )
        if refuted or proof is None
        else ("check the assumptions above; the proof holds only if all of them do",),
    )


def _given(tried: int) -> tuple[str, ...]:
    verb = "it is a pair" if tried == 1 else "they are pairs"
    return (f"{several(tried, 'pair')} given by the user; the audit takes on trust that {verb} of neighbours",)


def _seed(random_state: Any) -> int:
    seed = 0 if random_state is None else random_state
    if isinstance(seed, bool) or not (as_scalar("random_state", seed) >= 0 and int(seed) == seed):
        raise ParameterError("random_state", "be a whole number, not negative", repr(random_state))
    return int(seed)


def _reproduce(claim: Claim | ClaimedCurve, source: str, value: Any, data: Any, seed: int) -> str:
    """The call, with the names and digests of its arguments."""
    if isinstance(claim, Claim):
        text = f"ndis.Claim(epsilon={claim.epsilon!r}, delta={claim.delta!r}, adjacency={claim.adjacency!r})"
    else:
        epsilons, deltas = zip(*claim.points, strict=True)
        text = f"ndis.Claim.curve({list(epsilons)}, {list(deltas)}, adjacency={claim.adjacency!r})"
    again = (
        "# or certify the pair shown again, from the JSON of this report",
        "from ndis.auditing import AuditReport",
        'AuditReport.from_json(open("audit.json").read()).witness.recheck()',
    )
    made = call_of(value) if source == "mechanism" and data is None else None
    if made is not None:
        call = f"ndis.audit({text}, mechanism={made[1]}, random_state={seed})"
        return "\n".join(["import ndis", made[0], call, *again])
    given = f"{source}=…"
    if source != "pairs":
        name = getattr(value, "name", None) if source == "algorithm" else type(value).__name__
        given = f"{source}={name if isinstance(name, str) else _name(value)}"
    lines = ["# a sketch of the call: put your own objects in place of the names and of every …"]
    if source == "algorithm":
        given += ", data=…, neighbours=…"
        lines.append(f"# the digest of data is {digest(*parts_of(data))}")
    elif data is not None:
        given += ", data=…"
    return "\n".join([*lines, f"ndis.audit({text}, {given}, random_state={seed})", *again])


def _name(algorithm: Any) -> str:
    """Module and name of a function, or of the class of an object."""
    found = getattr(algorithm, "func", algorithm)
    found = found if hasattr(found, "__qualname__") else type(found)
    return f"{found.__module__}.{found.__qualname__}"
