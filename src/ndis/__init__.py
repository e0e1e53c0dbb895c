"""Exactly how private is an algorithm with Gaussian output?

Two Gaussians, the output on neighbouring data, and how well they can be told apart:

>>> import ndis
>>> pair = ndis.GaussianPair.from_moments([0.0, 1.0], [[2.0, 0.3], [0.3, 1.0]], [0.0, 0.0], [[1.0, 0.0], [0.0, 1.5]])
>>> round(pair.delta(1.0), 12), round(pair.reversed().delta(1.0), 12)  # the order matters
(0.104310352051, 0.194768717623)
>>> pair.delta(1.0) in pair.certify(1.0)  # enclosed with certainty
True
>>> profile = ndis.PrivacyProfile.from_pair(pair)  # the worse order is the guarantee
>>> epsilon = profile.epsilon(1e-6)
>>> profile.delta(epsilon) <= 1e-6
True
>>> sketch = ndis.PrivacyProfile.from_pair(ndis.GaussianPair.from_ratios(1.02, copies=100))
>>> sketch.compose(profile).epsilon(1e-6) > epsilon  # releases add up exactly
True

From the guarantee to the release, calibrated exactly and drawn exactly:

>>> mechanism = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=100, row_norm_bound=1.0)
>>> release = mechanism.release([[0.6, 0.8], [0.0, 1.0]])
>>> release.sketch.shape, release.receipt.private
((100, 2), True)

And from a claim to its refutation:

>>> too_little = ndis.GaussianPair.from_ratios(1.0, shift=1.0)
>>> ndis.audit(ndis.Claim(epsilon=1.0, delta=1e-6), pairs=[too_little]).refuted
True
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ndis._version import __version__

if TYPE_CHECKING:
    from ndis import gram, interop, learn, models, noise, plotting, testing
    from ndis._exact import exact_array
    from ndis.auditing.audit import audit
    from ndis.auditing.claim import Claim
    from ndis.auditing.sensitivity import check_sensitivity
    from ndis.chi_square import GeneralizedChiSquare
    from ndis.data.schema import Schema
    from ndis.dominance.compare import dominates
    from ndis.dpsgd import DPSGD
    from ndis.enclosure import Enclosure
    from ndis.errors import BudgetError, LedgerError, NdisError, NotPrivateWarning, ParameterError, PrecisionError
    from ndis.ledger.ledger import Ledger
    from ndis.ledger.odometer import odometer
    from ndis.mechanisms.gaussian import GaussianMechanism
    from ndis.mechanisms.gram import GramMechanism, GramRelease
    from ndis.mechanisms.lifted import LiftedMechanism, lift
    from ndis.mechanisms.projection import PoissonProjection, RandomProjection, choose_sketch_size
    from ndis.mechanisms.ptr import PTRProjection
    from ndis.mechanisms.releases import ProjectionRelease
    from ndis.mechanisms.rows import clipped_count
    from ndis.pair import GaussianPair
    from ndis.profile import Group, PrivacyProfile
    from ndis.spectrum.batch import delta_batch, log_delta_batch
    from ndis.worst_case.envelopes import DominatingPairs, LoewnerEnvelope, RankOneEnvelope

__all__ = [
    "DPSGD",
    "BudgetError",
    "Claim",
    "DominatingPairs",
    "Enclosure",
    "GaussianMechanism",
    "GaussianPair",
    "GeneralizedChiSquare",
    "GramMechanism",
    "GramRelease",
    "Group",
    "Ledger",
    "LedgerError",
    "LiftedMechanism",
    "LoewnerEnvelope",
    "NdisError",
    "NotPrivateWarning",
    "PTRProjection",
    "ParameterError",
    "PoissonProjection",
    "PrecisionError",
    "PrivacyProfile",
    "ProjectionRelease",
    "RandomProjection",
    "RankOneEnvelope",
    "Schema",
    "__version__",
    "audit",
    "check_sensitivity",
    "choose_sketch_size",
    "clipped_count",
    "delta_batch",
    "dominates",
    "exact_array",
    "gram",
    "interop",
    "learn",
    "lift",
    "log_delta_batch",
    "models",
    "noise",
    "odometer",
    "plotting",
    "testing",
]

# Python imports these names when somebody first asks for them, so that `import ndis` stays light. An interrupt then
# finds the command already running.
_NAMES: dict[str, tuple[str, ...]] = {
    "ndis._exact": ("exact_array",),
    "ndis.dpsgd": ("DPSGD",),
    "ndis.auditing": ("Claim", "audit"),
    "ndis.enclosure": ("Enclosure",),
    "ndis.errors": (
        "BudgetError", "LedgerError", "NdisError", "NotPrivateWarning", "ParameterError", "PrecisionError",
    ),
    "ndis.chi_square": ("GeneralizedChiSquare",),
    "ndis.dominance": ("dominates",),
    "ndis.ledger": ("Ledger", "odometer"),
    "ndis.auditing.sensitivity": ("check_sensitivity",),
    "ndis.mechanisms.rows": ("clipped_count",),
    "ndis.mechanisms.gaussian": ("GaussianMechanism",),
    "ndis.mechanisms.gram": ("GramMechanism", "GramRelease"),
    "ndis.mechanisms.lifted": ("LiftedMechanism", "lift"),
    "ndis.mechanisms.projection": ("PoissonProjection", "RandomProjection", "choose_sketch_size"),
    "ndis.mechanisms.ptr": ("PTRProjection", "ProjectionRelease"),  # all three mechanisms, so that `load` knows them
    "ndis.pair": ("GaussianPair",),
    "ndis.profile": ("Group", "PrivacyProfile"),
    "ndis.schema": ("Schema",),
    "ndis.spectrum.batch": ("delta_batch", "log_delta_batch"),
    "ndis.worst_case.envelopes": ("DominatingPairs", "LoewnerEnvelope", "RankOneEnvelope"),
}  # fmt: skip
_HOMES = {name: home for home, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return globals().setdefault(name, getattr(import_module(_HOMES[name]), name))
    if not name.startswith("_") and find_spec(f"ndis.{name}") is not None:
        return import_module(f"ndis.{name}")
    raise AttributeError(f"module 'ndis' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
