"""Keep privacy budgets: ledgers on disk, and an odometer for one process."""

from ndis.dominance import Dominance, dominates
from ndis.ledger.charge import Charge, Odometer, odometer, on_behalf
from ndis.ledger.ledger import Ledger, pay

__all__ = ["Charge", "Dominance", "Ledger", "Odometer", "dominates", "odometer", "on_behalf", "pay"]
