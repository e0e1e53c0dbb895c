"""Time a release from memory, Parquet and CSV with two text columns, compared with number columns only.

    python -m benchmarks.text_columns [--rows 2000000]

Every table has eight columns. The target: with two text columns of four categories each it takes at most twice the
time of numbers only. The progress bar of files shows both.
"""

from __future__ import annotations

import argparse
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
    """Print seconds per source and kind of columns, the best of three."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    rows = parser.parse_args().rows
    times: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, (table, schema) in tables(rows).items():
            parquet, csv = Path(folder) / f"{kind}.parquet", Path(folder) / f"{kind}.csv"
            pq.write_table(table, parquet, row_group_size=250_000)
            if kind != "categories":
                pyarrow.csv.write_csv(table, csv)
            for source, data, how in (("memory", table, {}), ("Parquet", parquet, {}), ("CSV", csv, {"header": True})):
                for _ in range(3 if csv.exists() or source != "CSV" else 0):
                    start = time.perf_counter()
                    exact_gram(schema.table(data, progress=False, **how), row_norm_bound=schema.row_norm_bound)
                    spent = time.perf_counter() - start
                    times[source, kind] = min(spent, times.get((source, kind), spent))
    print(f"{rows} rows of eight columns, seconds")
    for (source, kind), seconds in times.items():
        print(f"{source:8s} {kind:10s} {seconds:6.2f}  {seconds / times[source, 'numbers']:5.2f} times numbers only")


if __name__ == "__main__":
    main()
