"""Budgets: ledgers on disk, an odometer, and the comparison of profiles that they rest on."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ndis.ledger.charging import Odometer, charged, odometer

if TYPE_CHECKING:
    from ndis.dominance.compare import Dominance, dominates
    from ndis.ledger.ledger import Ledger

__all__ = ["Dominance", "Ledger", "Odometer", "charged", "dominates", "odometer"]

# Python imports these names when somebody first asks for them: a release that no ledger pays for needs none of them.
_HOMES = {"Dominance": "ndis.dominance", "Ledger": "ndis.ledger.ledger", "dominates": "ndis.dominance"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ndis.ledger' has no attribute {name!r}")
