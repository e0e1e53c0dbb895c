"""A schema is the public knowledge about a table: its columns, their ranges and categories, stated once.

>>> from ndis.schema import Number, Schema
>>> schema = Schema({"age": Number(18, 90, fill=40), "region": ["N", "S"]}, target=("spend", 0, 5_000))
>>> schema.encode({"age": [None], "region": ["S"]}).tolist()
[[-0.3888888888888889, 0.0, 1.0]]
"""

from ndis.data.schema import *  # noqa: F403
from ndis.data.schema import __all__ as __all__
