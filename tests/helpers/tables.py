"""A schema with a column of every kind, and rows for it."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np

import ndis
from ndis.schema import Date, Number, Schema

SCHEMA = Schema(
    {
        "age": Number(18, 90, fill=50),
        "income": (0, 200_000),
        "region": ["N", "S", "Ö"],
        "member": bool,
        "since": Date(date(2020, 1, 1), date(2024, 1, 1), fill=date(2022, 1, 1)),
    },
    target=("spend", 0, 5_000),
)
COLUMNS: dict[str, list[Any]] = {
    "age": [20, 95, 18, 54],
    "income": [1e3, 5e4, 3e5, -1.0],
    "region": ["N", "Ö", "W", "S"],
    "member": [True, False, True, False],
    "since": [date(2020, 1, 1), date(2023, 5, 6), date(1999, 1, 1), date(2024, 1, 1)],
    "spend": [0.0, 2500.0, 9e9, 5000.0],
    "name": ["a", "b", "c", "d"],
}
ENCODED = SCHEMA.encode(COLUMNS)


def encoded(table: Any) -> Any:
    """All encoded columns of an opened table."""
    source = ndis.data.opening.open_table(table)
    blocks = [block for (block,) in source.read((tuple(range(source.width)),))]
    return np.concatenate(blocks)
