"""Compare a claim with neighbours (rule:audit): claim → candidates → judge → witness → report."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ndis._validate import require
from ndis.auditing.candidates import edits
from ndis.auditing.candidates.algorithm import from_algorithm
from ndis.auditing.candidates.edits import DataSet
from ndis.auditing.candidates.laws import Algorithm
from ndis.auditing.candidates.mechanism import from_mechanism
from ndis.auditing.candidates.pairs import from_pairs
from ndis.auditing.candidates.rules import Search
from ndis.auditing.claim import Claim
from ndis.auditing.guarantees import advice, call_of, described, exactly_drawn, prove
from ndis.auditing.judge import judge, shortlist
from ndis.auditing.report import AuditReport
from ndis.errors import ParameterError
from ndis.pages.text import several

_FLOATS = "attacks on the floating-point numbers of an implementation: the laws are taken as exact Gaussians"
_EXACT = (
    "what a system leaks next to its output, such as time; the release itself is drawn exactly, so that its bytes keep "
    "the guarantee, last digits included"
)
_DISAGREE = (
    "the mechanism's own bound is within the claim, but the pair shown is above it: one of the assumptions of the "
    "mechanism is false on these data"
)
_REMOVALS = Search()
_SKETCH = "# a sketch of the call: put your own objects in place of the names and of every …"
_CHECK = "go through the checklist below; the proof holds only if every line of it does"


def audit(
    claim: Claim,
    *,
    pairs: Any = None,
    algorithm: Algorithm | None = None,
    mechanism: Any = None,
    data: Any = None,
    search: Search = _REMOVALS,
    title: str = "",
    data_name: str = "",
    workers: int = 1,
    progress: bool | None = None,
) -> AuditReport:
    """Try to refute a claim of differential privacy by certified lower bounds on δ over pairs of neighbours.

    Give one of `pairs`, `algorithm` or `mechanism`. The audit tests every pair in both orders.

    The paper's lem:ndis-upper-oracle gives an over-estimate of δ. A refutation reads the certified lower end instead.

    Parameters
    ----------
    claim : Claim
        The claim to test.
    pairs : iterable of GaussianPair or PrivacyProfile, or PairBatch, or mapping of arrays
        The output laws on neighbours, if you know them. A million pairs as a `PairBatch` take seconds.
    algorithm : callable
        data → (mean, covariance) of its Gaussian output, or an `ndis.Gaussian` with several copies. It must return the
        same law for the same data; the audit checks this. If the covariance is a vector, the coordinates are
        independent. The algorithm gets its own copy of the data. The audit takes its numbers as exact, up to rounding
        (`ndis.auditing.candidates.laws`).
    mechanism : Mechanism or ProjectionLaw
        The audit tests it on the neighbours that attain its guarantee, and on those of `data`. If a theorem of the
        package proves the claim, the report says so.
    data : array of rows, (X, y), data frame, Arrow table, path, or DataSet
        For `algorithm`, or for a `mechanism` that you want to test on these data as well. A `DataSet` also says which
        columns are read and what is public about them. A frame or a file becomes an array of rows, or (X, y) if there
        are targets. An algorithm is tried on other data sets too: inside the `Domain` of the `DataSet`, or made of the
        rows given. With a domain the data may be left out.
    search : Search
        How to choose neighbours of `data`. By default every row is removed in turn.
    title, data_name : str
        Names of the audited system and of the data, for the report. A file gives its own name to the data.
    workers : int
        The number of runs of `algorithm` at a time.
    progress : bool, optional
        Show a counter; by default only on a terminal.

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
    >>> report.refuted, report.witness.neighbours  # other data sets are tried too, and this one is worse
    (True, '1 row: 1 × [0., 1.], and the same with the row [1., 0.] added')
    """
    if not isinstance(claim, Claim):
        raise ParameterError("claim", "be a Claim", type(claim).__name__, "write ndis.Claim(epsilon=…, delta=…)")
    sources = {"pairs": pairs, "algorithm": algorithm, "mechanism": mechanism}
    chosen = [name for name, value in sources.items() if value is not None]
    require(len(chosen) == 1, "pairs, algorithm or mechanism", "be given, one of them", " and ".join(chosen) or "none")
    kind, value = chosen[0], sources[chosen[0]]
    table = data if data is None or isinstance(data, DataSet) else DataSet(data)
    rows = None
    require(table is not None or search.neighbours is None, "neighbours", "come with data", "none")
    if pairs is not None:
        if table is not None or workers != 1:
            raise ParameterError("data and workers", "be left out with pairs, for which no algorithm runs", "one")
        candidates = from_pairs(pairs, claim)
    elif mechanism is not None:
        if table is not None and table.data is None:
            raise ParameterError("domain", "come with an algorithm, or with data", "a mechanism")
        candidates = from_mechanism(mechanism, table, search, claim, workers=workers, progress=progress)
    else:
        table = DataSet() if table is None else table
        rows = None if table.data is None else table.rows(progress=progress)
        candidates = from_algorithm(value, rows, search, claim, about=table, workers=workers, progress=progress)
    tried, ranked = shortlist(candidates.tested)
    if tried == 0:
        rule = "be at least one" if pairs is not None else "lead to at least one pair of neighbours"
        raise ParameterError(kind, rule, "none")
    judgement = judge(ranked, progress=progress)
    refuted, witness = judgement.refuted, judgement.witness
    proof = None if mechanism is None else prove(mechanism, claim)
    notes = (*judgement.notes, *candidates.seen.notes, *((_DISAGREE,) if refuted and proof is not None else ()))
    exact = mechanism is not None and exactly_drawn(mechanism)
    missing = (*(candidates.missing if refuted or proof is None else ()), _EXACT if exact else _FLOATS)
    steps = advice(claim, judgement, given_only=candidates.given_only, mechanism=mechanism)
    return AuditReport(
        claim,
        refuted,
        witness,
        judgement.epsilon_refuted,
        witness.enclosure.lower,
        tried,
        candidates.how or (f"{several(tried, 'pair')} given by the user, who says that these are neighbours",),
        missing,
        _reproduce(claim, kind, value, table, rows, search.random_state),
        notes,
        judgement.undecided,
        title=title,
        data_name=data_name or ("" if table is None else table.file_name),
        date=datetime.now(UTC).isoformat(timespec="minutes"),
        given_only=candidates.given_only,
        mechanism="" if mechanism is None else described(mechanism),
        proof=None if refuted else proof,
        next_steps=steps if refuted or proof is None else (_CHECK,),
        noise_depends=candidates.seen.noise_depends,
        data_used="" if pairs is not None else "no" if table is None or table.data is None else "yes",
    )


def _reproduce(claim: Claim, kind: str, value: Any, data: DataSet | None, rows: Any, random_state: int) -> str:
    """Write the call, with the names and digests of its arguments."""
    made = call_of(value) if kind == "mechanism" else None
    given = "…" if kind == "pairs" else _name(value) if made is None else made[1]
    if data is not None:
        given += f", data=…, search=Search(…, random_state={random_state})"
    lines = [*([] if made is not None and data is None else [_SKETCH]), "import ndis", *(made or ())[:1]]
    if rows is not None:
        lines.append(f"# the digest of data is {edits.digest(*edits.parts_of(rows))}")
    return "\n".join([*lines, f"ndis.audit(ndis.auditing.{claim!r}, {kind}={given})"])


def _name(value: Any) -> str:
    """Return the name that an algorithm has, or module and name of the function or of the class of the object."""
    function = getattr(value, "func", value)
    function = function if hasattr(function, "__qualname__") else type(function)
    return str(getattr(value, "name", f"{function.__module__}.{function.__qualname__}"))
