"""Time a release from memory, Parquet and CSV with two text columns, compared with number columns only.

    python -m benchmarks.text_columns [--rows 2000000]

Every table has eight columns. The target: with two text columns of four categories each it takes at most twice the
time of numbers only. The progress bar of files shows both.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from ndis import Schema
from ndis.gram import exact_gram

WORDS = ["north", "south", "east", "west"]
NUMBERS = Schema(dict.fromkeys("abcdefgh", (0, 1)))
TEXT = Schema(dict.fromkeys("abcdef", (0, 1)) | {"g": WORDS, "h": WORDS})


def tables(rows: int) -> dict[str, tuple[pa.Table, Schema]]:
    """Return a table of eight columns of numbers, and two tables in which two of them are text."""
    rng = np.random.default_rng(0)
    numbers = {name: rng.random(rows) for name in "abcdefgh"}
    coded = {name: pa.DictionaryArray.from_arrays(rng.integers(0, 4, rows), WORDS) for name in "gh"}
    plain = {name: column.dictionary_decode() for name, column in coded.items()}
    return {
        "numbers": (pa.table(numbers), NUMBERS),
        "text": (pa.table(numbers | plain), TEXT),
        "categories": (pa.table(numbers | coded), TEXT),
    }


def main() -> None:
    """Print seconds per source and kind of columns, and the median ratio of rounds that take the kinds in turn."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    times: dict[str, dict[str, list[float]]] = {source: {} for source in ("memory", "Parquet", "CSV")}
    with tempfile.TemporaryDirectory() as folder:
        made = tables(options.rows)
        for kind, (table, _) in made.items():
            pq.write_table(table, Path(folder) / f"{kind}.parquet", row_group_size=250_000)
            pyarrow.csv.write_csv(table if kind != "categories" else table.slice(0, 0), Path(folder) / f"{kind}.csv")
        for _ in range(options.rounds):
            for source, measured in times.items():
                for kind, (table, schema) in made.items():
                    data = table if source == "memory" else Path(folder) / f"{kind}.{source.lower()}"
                    how = {"header": True} if source == "CSV" else {}
                    if source != "CSV" or kind != "categories":
                        start = time.perf_counter()
                        exact_gram(schema.table(data, progress=False, **how), row_norm_bound=schema.row_norm_bound)
                        measured.setdefault(kind, []).append(time.perf_counter() - start)
    print(f"{options.rows} rows of eight columns, seconds and ratios, medians of {options.rounds} rounds")
    for source, measured in times.items():
        for kind, spent in measured.items():
            ratio = statistics.median(a / b for a, b in zip(spent, measured["numbers"], strict=True))
            print(f"{source:8s} {kind:10s} {statistics.median(spent):6.2f}  {ratio:5.2f} times numbers only")


if __name__ == "__main__":
    main()
