"""Refute false privacy claims, with proof (rule:audit).

>>> import ndis
>>> from ndis.auditing import Claim, audit
>>> too_little_noise = ndis.GaussianPair.from_ratios(1.0, shift=1.0)
>>> report = audit(Claim(epsilon=1.0, delta=1e-6), pairs=[too_little_noise])
>>> report.refuted, report.witness.enclosure.lower > 1e-6
(True, True)
"""

from ndis.auditing.audit import audit
from ndis.auditing.candidates.data_sets import Domain
from ndis.auditing.candidates.edits import DataSet
from ndis.auditing.candidates.laws import Gaussian
from ndis.auditing.candidates.pairs import PairBatch
from ndis.auditing.candidates.rules import AddAdversarial, AddRows, RemoveEach, ReplaceAdversarial, ReplaceEach, Search
from ndis.auditing.claim import Claim, Proof
from ndis.auditing.loop import TrainingLoop
from ndis.auditing.report import AuditReport
from ndis.auditing.sensitivity import check_sensitivity
from ndis.auditing.training import Finding, TrainingReport, audit_training
from ndis.auditing.witness import Witness
from ndis.mechanisms.sketch_law import ProjectionLaw

__all__ = [
    "AddAdversarial",
    "AddRows",
    "AuditReport",
    "Claim",
    "DataSet",
    "Domain",
    "Finding",
    "Gaussian",
    "PairBatch",
    "ProjectionLaw",
    "Proof",
    "RemoveEach",
    "ReplaceAdversarial",
    "ReplaceEach",
    "Search",
    "TrainingLoop",
    "TrainingReport",
    "Witness",
    "audit",
    "audit_training",
    "check_sensitivity",
]
