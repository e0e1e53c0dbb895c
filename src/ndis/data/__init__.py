"""Open private rows by public types, once and in one place.

>>> from ndis.data import open_table
>>> open_table({"a": [0.5, None], "b": ["x", 2.0]}).matrix().arrays()
(array([[0.5, nan], [nan, 2. ]]),)
"""

from ndis.data.opening import open_rows, open_table
from ndis.data.paths import Files
from ndis.data.table import Rows, Table

__all__ = ["Files", "Rows", "Table", "open_rows", "open_table"]
