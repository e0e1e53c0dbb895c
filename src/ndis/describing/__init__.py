"""Describe a table: one release, and means, groups, correlations, tests and regressions that cost nothing more."""

from ndis.describing.description import Description, describe
from ndis.describing.tables import StatisticTable

__all__ = ["Description", "StatisticTable", "describe"]
