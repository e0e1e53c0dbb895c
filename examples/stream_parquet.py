"""Exact Gram of a Parquet folder on a laptop, a Dask cluster or a GPU, and one private-size sketch from it.

python examples/stream_parquet.py                                  small, on this machine
python examples/stream_parquet.py --rows 10000000 --columns 50     ten million rows
python examples/stream_parquet.py --engine dask
python examples/stream_parquet.py --engine cuda
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ndis.gram import Gram, exact_gram
from ndis.noise import exact_gaussian, grid_for

FILE_ROWS = 250_000
RIDGE = 40.72  # public: what a calibration for row_norm_bound = 1 may return


def make_folder(place: Path, *, rows: int, columns: int) -> None:
    """Write random rows, a file at a time."""
    for i, start in enumerate(range(0, rows, FILE_ROWS)):
        x = np.random.default_rng(i).normal(size=(min(FILE_ROWS, rows - start), columns)) / math.sqrt(columns)
        table = pa.table({f"x{j}": x[:, j] for j in range(columns)})
        pq.write_table(table, place / f"part-{i:05}.parquet", row_group_size=1 << 15)


def run(folder: Path, engine: str) -> Gram:
    """The same bits on every engine."""
    if engine == "dask":
        import dask.dataframe as dd
        from distributed import Client

        with Client(processes=True, dashboard_address=None):
            return exact_gram(dd.read_parquet(folder), row_norm_bound=1.0)
    return exact_gram(folder, row_norm_bound=1.0, device="cuda" if engine == "cuda" else None)


def main() -> None:
    """Make rows, reduce them, draw a sketch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--engine", choices=["local", "dask", "cuda"], default="local")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_folder(folder, rows=arguments.rows, columns=arguments.columns)
        start = time.perf_counter()
        gram = run(folder, arguments.engine)
        print(f"exact Gram of {arguments.rows} x {arguments.columns} rows: {time.perf_counter() - start:.2f} s")
    start = time.perf_counter()
    sketch = exact_gaussian(0, gram.exact(ridge=RIDGE), size=100, grid=grid_for(math.sqrt(RIDGE)))
    print(f"100 synthetic rows, private = {sketch.private}: {time.perf_counter() - start:.2f} s")
    print(np.array2string(sketch.values[0, :5], precision=6))


if __name__ == "__main__":
    main()
