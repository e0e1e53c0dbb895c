"""The white-box auditor: it refutes false privacy claims, with proof (rule:audit).

>>> import ndis
>>> from ndis.auditing import Claim, audit
>>> too_little_noise = ndis.GaussianPair.from_ratios(1.0, shift=1.0)
>>> report = audit(Claim(epsilon=1.0, delta=1e-6), pairs=[too_little_noise])
>>> report.refuted, report.witness.enclosure.lower > 1e-6
(True, True)
"""

from ndis.auditing.audit import audit
from ndis.auditing.claim import Claim, ClaimedCurve, Proof
from ndis.auditing.pairs import PairBatch
from ndis.auditing.projection import ProjectionLaw
from ndis.auditing.report import AuditReport, Portfolio, portfolio
from ndis.auditing.rules import (
    AddAdversarial,
    AddRandom,
    AddRows,
    RemoveEach,
    ReplaceAdversarial,
    ReplaceEach,
)
from ndis.auditing.witness import Curve, Witness

__all__ = [
    "AddAdversarial",
    "AddRandom",
    "AddRows",
    "AuditReport",
    "Claim",
    "ClaimedCurve",
    "Curve",
    "PairBatch",
    "Portfolio",
    "ProjectionLaw",
    "Proof",
    "RemoveEach",
    "ReplaceAdversarial",
    "ReplaceEach",
    "Witness",
    "audit",
    "portfolio",
]
