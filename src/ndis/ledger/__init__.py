"""Budgets: ledgers on disk, an odometer, and the comparison of profiles that they rest on."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ndis.ledger.charging import Odometer, charged, odometer

if TYPE_CHECKING:
    from ndis.ledger.dominance import Dominance, dominates
    from ndis.ledger.ledger import Ledger

__all__ = ["Dominance", "Ledger", "Odometer", "charged", "dominates", "odometer"]

# Python imports these names when somebody first asks for them: a release that no ledger pays for needs none of them.
_HOMES = {"Dominance": "dominance", "Ledger": "ledger", "dominates": "dominance"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"ndis.ledger.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'ndis.ledger' has no attribute {name!r}")
