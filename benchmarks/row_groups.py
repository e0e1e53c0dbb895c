"""Memory of reading files that hold all rows in one row group or one record batch.

    python -m benchmarks.row_groups

writes such files of growing length into a temporary folder and prints by how much the peak memory of a process grows
while `exact_gram` reads each of them (on Linux).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROWS = (1_000_000, 2_000_000, 4_000_000)
MEASURE = r"""
import re, sys
import pyarrow
from ndis.gram import exact_gram
def peak():  # of this process alone; the usage that the system reports for a child counts its parent too
    return int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1])
exact_gram(sys.argv[2], row_norm_bound=1.0, progress=False)
before = peak()
exact_gram(sys.argv[1], row_norm_bound=1.0, progress=False)
print((peak() - before) // 1024)
"""


def write(path: Path, rows: int) -> None:
    """Write eight columns of normal numbers as one row group or one batch."""
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    table = pa.table({name: rng.normal(size=rows) for name in "abcdefgh"})
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=rows)
    elif path.suffix == ".npy":
        np.save(path, np.stack([column.to_numpy() for column in table.columns], axis=1))
    else:
        kind = "lz4" if "lz4" in path.name else "uncompressed"
        pyarrow.feather.write_feather(table, str(path), chunksize=rows, compression=kind)


def main() -> None:
    """Measure every kind at every length, each in a process of its own."""
    print("growth of the peak memory, MiB, for rows:", *ROWS)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("one.parquet", "one.npy", "one.arrow", "one.lz4.arrow"):
            found = []
            for rows in ROWS:
                path, small = Path(folder) / name, Path(folder) / f"small.{name}"
                write(path, rows)
                write(small, 1000)
                ran = [sys.executable, "-c", MEASURE, str(path), str(small)]
                found.append(subprocess.run(ran, capture_output=True, check=True, text=True).stdout.strip())
            print(name.ljust(16), *found)


if __name__ == "__main__":
    main()
