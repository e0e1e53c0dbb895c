"""A ledger with a plan of two slots."""

from __future__ import annotations

import pytest

import ndis
from helpers.ledgers import shift, sketch


@pytest.fixture
def plan(tmp_path) -> ndis.Ledger:
    slots = {"a": (shift(0.25), 2), "b": (sketch(), 1)}
    return ndis.Ledger.create(tmp_path / "plan.db", epsilon=4.0, delta=1e-6, plan=slots, data_name="visits")
