"""Prove that one privacy curve lies above another at every epsilon."""

from ndis.dominance.compare import Dominance, dominates

__all__ = ["Dominance", "dominates"]
