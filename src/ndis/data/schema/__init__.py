"""State the public knowledge about a table once: its columns, their ranges and categories.

>>> from ndis.schema import Number, Schema
>>> schema = Schema({"age": Number(18, 90, fill=40), "region": ["N", "S"]}, target=("spend", 0, 5_000))
>>> schema.encode({"age": [None], "region": ["S"]}).tolist()
[[-0.3888888888888889, 0.0, 1.0]]
"""

from ndis.data.schema.columns import Boolean, Category, Column, Date, Number
from ndis.data.schema.core import Schema, SchemaTransformer
from ndis.data.schema.preview import ColumnPreview, Preview
from ndis.data.table import Table

__all__ = [
    "Boolean", "Category", "Column", "ColumnPreview", "Date", "Number", "Preview", "Schema", "SchemaTransformer",
    "Table",
]  # fmt: skip
