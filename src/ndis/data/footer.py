"""Choose from the footer of a Parquet file how its text is read. It never decides whether.

A footer depends on cells: sizes do, and so do encodings, because a writer leaves its dictionary when one text makes it
too large. So no file is refused by them, and the rows are the same whatever they say.

- *By codes*: Arrow keeps every different text of a row group once. It fails beyond 2 GiB, so a column is read so only
  if all its row groups are far smaller, in encodings that hold all bytes of every different text and that Arrow knows.
- *Plainly*, if the pages hold all bytes of every text: then memory grows with the bytes of the records alone.
- *Few rows at a time* otherwise. A dictionary repeats a text, and DELTA_BYTE_ARRAY leaves out what a text shares with
  the one before: rows of few bytes may stand for gigabytes. But no text is longer than its column in the row group.

Arrow's own types stand under one key of the footer, and those of categories would force the first way. pyarrow has no
option that leaves them out, so the key is renamed in memory. Parquet's own types say the same of numbers, text, dates.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_UNPACKED = 1 << 28  # bytes of text in memory at a time, or one row
_PLAIN = {"PLAIN", "RLE", "BIT_PACKED"}
_WHOLE = _PLAIN | {"DELTA_LENGTH_BYTE_ARRAY"}  # encodings with all bytes of every text
_DIFFERENT = _PLAIN | {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}  # with all bytes of every different text
_MAGIC = b"PAR1"  # it opens and closes the file; four bytes before the last one hold the length of the footer
# The key with the marks of Thrift for a text, its length and a text that follows: no name of a column reads so.
_KEY, _OTHER = b"\x18\x0cARROW:schema\x18", b"\x18\x0cother:schema\x18"


def plain_footer(path: Path) -> Any:
    """Return the metadata of a Parquet file without the types of Arrow."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with path.open("rb") as file:
        file.seek(-8, 2)
        size = file.read(4)
        file.seek(-8 - int.from_bytes(size, "little"), 2)
        footer = file.read(int.from_bytes(size, "little"))
    # A least or greatest cell may hold these bytes too. It keeps its length, and no reader asks for it.
    return pq.read_metadata(pa.BufferReader(_MAGIC + footer.replace(_KEY, _OTHER) + size + _MAGIC))


def text_plan(metadata: Any, names: list[str], step: int) -> tuple[list[str], list[int]]:
    """Return those of some columns of text that are read by codes, and for every row group how many rows at a time."""
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    paths = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    texts = {path: [group.column(i) for group in groups] for i, path in enumerate(paths) if path in names}

    def is_small(chunk: Any) -> bool:
        return chunk.total_uncompressed_size < _UNPACKED and _DIFFERENT.issuperset(chunk.encodings)

    coded = [path for path, chunks in texts.items() if all(map(is_small, chunks))]
    others = [chunks for path, chunks in texts.items() if path not in coded]
    longest = [
        sum(chunks[g].total_uncompressed_size for chunks in others if not _WHOLE.issuperset(chunks[g].encodings))
        for g in range(len(groups))
    ]
    return coded, [min(step, max(_UNPACKED // max(size, 1), 1)) for size in longest]
