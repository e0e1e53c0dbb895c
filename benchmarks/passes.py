"""Time and memory of a fit in rounds from a Parquet folder, against reading it and one plain Gram product.

python -m benchmarks.passes [--records 1000000] [--columns 20]

A fit of r rounds makes r + 7 passes. The goal of r + 3 times one plain pass is not met: in each pass rows are rounded,
mapped to coordinates and rounded again. Times are those of later calls: the first ones import, compile and fill caches.
Memory is what a fit adds to the peak of the process, at this many records and at a quarter of them.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.engine import unit_rows

PARTS = 8
ROUNDS = 6  # of a fit by default


def write(folder: Path, records: int, columns: int) -> None:
    """Unit rows and targets, in several files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for part in range(PARTS):
        x = unit_rows(records // PARTS, columns)
        names = {f"x{j}": x[:, j] for j in range(columns)}
        pq.write_table(pa.table({**names, "y": x[:, 0] / 2}), folder / f"{part}.parquet", row_group_size=1 << 16)


def plain(folder: Path) -> float:
    """Processor seconds of reading every file and of X.T @ X."""
    import pyarrow.parquet as pq

    start = time.process_time()
    for path in sorted(folder.glob("*.parquet")):
        table = pq.read_table(path)
        x = np.column_stack([table.column(j).to_numpy() for j in range(table.num_columns)])
        x.T @ x
    return time.process_time() - start


def fit(folder: Path) -> tuple[float, float]:
    """Processor seconds of a later fit, and by how many megabytes the first one raises the peak of the process."""
    from ndis.learn import PrivateLinearRegression

    model = PrivateLinearRegression(row_norm_bound=1.0, target_bound=1.0, rounds=ROUNDS)
    model.fit(np.zeros((2, 2)), np.zeros(2))  # imports
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model.fit_data(folder, target="y", progress=False)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    model.fit_data(folder, target="y", progress=False)
    return time.process_time() - start, (after - before) / 1024


def main(arguments: list[str] | None = None) -> None:
    """Print times and memory, each fit in a process of its own."""
    parser = argparse.ArgumentParser(description="A fit in rounds from a Parquet folder.")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--fit", type=Path, help="only fit this folder")
    given = parser.parse_args(arguments if arguments is not None else [])
    if given.fit is not None:
        print(*fit(given.fit))
        return
    for records in (given.records // 4, given.records):
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), records, given.columns)
            base = min(plain(Path(name)) for _ in range(5))
            command = [sys.executable, "-m", "benchmarks.passes", "--fit", name]
            seconds, memory = map(
                float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            )
        print(
            f"{records} x {given.columns}: one plain pass {base:.3f} s, a fit of {ROUNDS} rounds {seconds:.2f} s, "
            f"{seconds / base:.0f} times (goal {ROUNDS + 3}); memory +{memory:.0f} MB",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
