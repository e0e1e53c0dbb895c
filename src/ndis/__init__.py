"""Exactly how private is an algorithm with Gaussian output?

Two Gaussians, the output on neighbouring data, and how well they can be distinguished:

>>> import ndis, numpy as np
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
>>> release = mechanism.release(np.array([[0.6, 0.8], [0.0, 1.0]]))
>>> release.sketch.shape, release.receipt.private
((100, 2), True)

And from a claim to its refutation:

>>> too_little = ndis.GaussianPair.from_ratios(1.0, shift=1.0)
>>> ndis.audit(ndis.Claim(epsilon=1.0, delta=1e-6), pairs=[too_little]).refuted
True
"""

import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ndis._version import __version__

if TYPE_CHECKING:
    from ndis import auditing, interop, learn, models, plotting, testing
    from ndis._exact import exact_array
    from ndis.auditing.audit import audit
    from ndis.auditing.candidates.laws import Gaussian
    from ndis.auditing.claim import Claim
    from ndis.chi_square import GeneralizedChiSquare
    from ndis.data.schema import Schema
    from ndis.describing.description import Description, describe
    from ndis.dpsgd import DPSGD
    from ndis.enclosure import Enclosure
    from ndis.errors import BudgetError, LedgerError, NdisError, NotPrivateWarning, ParameterError, PrecisionError
    from ndis.learn._plan import plan_regression
    from ndis.ledger.ledger import Ledger
    from ndis.mechanisms.gaussian import GaussianMechanism
    from ndis.mechanisms.gram import GramMechanism
    from ndis.mechanisms.lifted import LiftedMechanism, lift
    from ndis.mechanisms.projection import PoissonProjection, RandomProjection
    from ndis.mechanisms.ptr import PTRProjection
    from ndis.noise.bits import allocation_batches
    from ndis.pair import GaussianPair
    from ndis.profile import PrivacyProfile
    from ndis.spectrum.batch import delta_batch

__all__ = [
    "DPSGD", "BudgetError", "Claim", "Description", "Enclosure", "Gaussian", "GaussianMechanism", "GaussianPair",
    "GeneralizedChiSquare", "GramMechanism", "Ledger", "LedgerError", "LiftedMechanism", "NdisError",
    "NotPrivateWarning", "PTRProjection",
    "ParameterError", "PoissonProjection", "PrecisionError", "PrivacyProfile", "RandomProjection", "Schema",
    "__version__", "allocation_batches", "audit", "auditing", "delta_batch", "describe", "exact_array", "interop",
    "learn", "lift", "models",
    "plan_regression", "plotting", "testing",
]  # fmt: skip

# Python imports these names when a program first asks for them, so that `import ndis` stays light. An interrupt then
# finds the command already running.
_NAMES: dict[str, tuple[str, ...]] = {
    "ndis._exact": ("exact_array",),
    "ndis.dpsgd": ("DPSGD",),
    "ndis.describing": ("Description", "describe"),
    "ndis.auditing": ("Claim", "Gaussian", "audit"),
    "ndis.enclosure": ("Enclosure",),
    "ndis.errors": (
        "BudgetError", "LedgerError", "NdisError", "NotPrivateWarning", "ParameterError", "PrecisionError",
    ),
    "ndis.chi_square": ("GeneralizedChiSquare",),
    "ndis.learn": ("plan_regression",),
    "ndis.ledger": ("Ledger",),
    "ndis.mechanisms.gaussian": ("GaussianMechanism",),
    "ndis.mechanisms.gram": ("GramMechanism",),
    "ndis.mechanisms.lifted": ("LiftedMechanism", "lift"),
    "ndis.mechanisms.projection": ("PoissonProjection", "RandomProjection"),
    "ndis.mechanisms.ptr": ("PTRProjection",),
    "ndis.noise.bits": ("allocation_batches",),
    "ndis.pair": ("GaussianPair",),
    "ndis.profile": ("PrivacyProfile",),
    "ndis.schema": ("Schema",),
    "ndis.spectrum.batch": ("delta_batch",),
}  # fmt: skip
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

# Names of version 0.2 with a new place. They warn, and go with the next version.
_DEPRECATED = {
    "DominatingPairs": "ndis.worst_case.envelopes.DominatingPairs",
    "GramRelease": "ndis.mechanisms.gram.GramRelease",
    "Group": "ndis.profile.Group",
    "LoewnerEnvelope": "ndis.worst_case.envelopes.LoewnerEnvelope",
    "ProjectionRelease": "ndis.mechanisms.releases.ProjectionRelease",
    "RankOneEnvelope": "ndis.worst_case.envelopes.RankOneEnvelope",
    "accounting": "ndis.dpsgd",
    "check_sensitivity": "ndis.auditing.check_sensitivity",
    "choose_sketch_size": "ndis.mechanisms.projection.choose_sketch_size",
    "clipped_count": "ndis.mechanisms.rows.clipped_count",
    "dominates": "ndis.dominance.dominates",
    "files": "ndis._files",
    "genchi2": "ndis.chi_square",
    "log_delta_batch": "ndis.spectrum.batch.log_delta_batch",
    "loss": "ndis.pair.GaussianPair",
    "odometer": "ndis.ledger.odometer",
    "sampling": "ndis.noise",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return globals().setdefault(name, getattr(import_module(_HOMES[name]), name))
    if name in _DEPRECATED:
        place = _DEPRECATED[name]
        warnings.warn(f"ndis.{name} is deprecated; use {place}", DeprecationWarning, stacklevel=2)
        home, _, attribute = place.rpartition(".")
        return getattr(import_module(home), attribute)
    if not name.startswith("_") and find_spec(f"ndis.{name}") is not None:
        return import_module(f"ndis.{name}")
    raise AttributeError(f"module 'ndis' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
