"""Budgets: ledgers on disk, an odometer, and the comparison of profiles that they rest on."""

from ndis.ledger.charging import charged
from ndis.ledger.dominance import Dominance, dominates
from ndis.ledger.ledger import Ledger
from ndis.ledger.odometer import Odometer, odometer

__all__ = ["Dominance", "Ledger", "Odometer", "charged", "dominates", "odometer"]
