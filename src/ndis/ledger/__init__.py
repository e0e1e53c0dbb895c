"""Budgets: ledgers on disk, an odometer, and the comparison of profiles that they rest on."""

from ndis.ledger.charging import Odometer, charged, odometer
from ndis.ledger.dominance import Dominance, dominates
from ndis.ledger.ledger import Ledger

__all__ = ["Dominance", "Ledger", "Odometer", "charged", "dominates", "odometer"]
