"""Keep privacy budgets: ledgers on disk, and an odometer for one process."""

from ndis.dominance import Dominance, dominates
from ndis.ledger.ledger import Charge, Ledger, pay
from ndis.ledger.odometer import Odometer, odometer

__all__ = ["Charge", "Dominance", "Ledger", "Odometer", "dominates", "odometer", "pay"]
