"""Keep privacy budgets: ledgers on disk, and an odometer for one process."""

from ndis.dominance import Dominance, dominates
from ndis.ledger.charge import Charge, on_behalf
from ndis.ledger.ledger import Ledger, pay
from ndis.ledger.odometer import Odometer, odometer

__all__ = ["Charge", "Dominance", "Ledger", "Odometer", "dominates", "odometer", "on_behalf", "pay"]
