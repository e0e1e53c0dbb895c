"""Change the types that the footer of a Parquet file declares, in memory, so that categories are read as plain text.

Arrow keeps one dictionary of all different texts of a row group for a column of categories, and fails beyond 2 GiB: one
record would decide between a release and an error. Plain text has no such limit. The types of categories stand in the
footer only, under the key ``ARROW:schema``, and pyarrow has no option that leaves them out.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from ndis.data.cells import arrow_kind

_KEY = b"ARROW:schema"
_MAGIC = b"PAR1"  # it opens and closes the file; four bytes before the last one hold the length of the footer


def text_footer(path: Path) -> Any:
    """Return the metadata of a Parquet file, in which columns of text categories are declared as plain text.

    All other types stay. It depends on declared types only.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    declared = (metadata.metadata or {}).get(_KEY)
    if declared is None:  # only Arrow declares categories
        return metadata
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(declared)))
    texts = [i for i, kind in enumerate(schema.types) if pa.types.is_dictionary(kind) and arrow_kind(kind) == "text"]
    if not texts:
        return metadata
    for i in texts:
        schema = schema.set(i, schema.field(i).with_type(pa.string()))
    stream = pa.BufferOutputStream()
    metadata.write_metadata_file(stream)
    footer = stream.getvalue().to_pybytes()[len(_MAGIC) : -len(_MAGIC) - 4]
    # The last one: before it a least or greatest cell may hold the same bytes, after it no cell stands.
    before, _, after = footer.rpartition(_entry(declared))
    footer = before + _entry(base64.b64encode(schema.serialize().to_pybytes())) + after
    return pq.read_metadata(pa.BufferReader(_MAGIC + footer + len(footer).to_bytes(4, "little") + _MAGIC))


def _entry(value: bytes) -> bytes:
    """Return the entry of the key as Thrift's compact protocol writes it: two texts, each after its type and length."""
    return b"\x18" + _length(_KEY) + _KEY + b"\x18" + _length(value) + value


def _length(text: bytes) -> bytes:
    """Return the length of a text in groups of seven bits, the lowest first; all but the last have the eighth bit.

    >>> _length(b"-" * 300)
    b'\\xac\\x02'
    """
    groups, left = bytearray(), len(text)
    while left > 127:
        groups.append(left & 127 | 128)
        left >>= 7
    return bytes([*groups, left])
