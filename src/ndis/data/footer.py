"""Choose from the footer of a Parquet file how its text is read: by codes where these cannot fail, or else plainly.

Arrow keeps one dictionary of all different texts of a row group for a column of categories, and fails beyond 2 GiB: one
record would decide between a release and an error. Plain text has no such limit. So a column is read by codes only if
its row groups are smaller, and the texts are the same either way. The types of categories stand in the footer only,
under the key ``ARROW:schema``, and pyarrow has no option that leaves them out. They are changed in memory.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from ndis.data.cells import arrow_kind

_KEY = b"ARROW:schema"
_CODED = 1 << 30  # bytes of a column in a row group that Arrow may read by codes
_WHOLE = {
    "PLAIN",
    "RLE",
    "BIT_PACKED",
    "PLAIN_DICTIONARY",
    "RLE_DICTIONARY",
}  # encodings that keep every byte of a text
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


def coded_columns(metadata: Any, names: list[str]) -> list[str]:
    """Return those of some columns of text whose different texts take less than 2 GiB in every row group."""
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]

    def is_small(i: int) -> bool:
        chunks = (group.column(i) for group in groups)
        return all(chunk.total_uncompressed_size < _CODED and _WHOLE.issuperset(chunk.encodings) for chunk in chunks)

    paths = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    return [path for i, path in enumerate(paths) if path in names and is_small(i)]


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
