"""Random projection: time of a release against reading and one plain product, and of calibration.

python -m benchmarks.projection
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

import ndis
from benchmarks import median_time, seconds
from benchmarks.engine import fastest, unit_rows


def release_against_plain_product() -> None:
    """One million rows of 100 columns, in a file: reading and X.T @ X, and the whole release. The goal is 2."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, unit_rows(1_000_000, 100))

        def plain() -> np.ndarray:
            x = np.load(path)
            return x.T @ x

        mechanism = _mechanism(100)
        base, ours = fastest(plain, lambda: mechanism.release(np.load(path)), repeats=3)
    print(f"\n1 000 000 x 100 rows, sketch_size 100: reading and X.T @ X {base:.2f} s, release {ours / base:.2f} times")


def sampling_alone() -> None:
    """What of a release depends on the size of the sketch: d·r normals, whatever the rows."""
    print("\nrelease of no rows of 100 columns")
    print(f"{'sketch_size':>12} {'cpu s':>7} {'µs an entry':>12}")
    empty = np.zeros((0, 100))
    for sketch_size in (100, 400, 1600):
        mechanism = _mechanism(sketch_size)

        def draw(mechanism=mechanism) -> object:
            return mechanism.release(empty)

        (cpu,) = fastest(draw, repeats=1, clock=time.process_time)
        print(f"{sketch_size:>12} {cpu:>7.2f} {cpu * 1e4 / sketch_size:>12.1f}")


def release_from_parquet() -> None:
    """The same rows as Parquet, read by Arrow into one matrix and multiplied."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        x = unit_rows(1_000_000, 100)
        pq.write_table(pa.table({f"x{j}": x[:, j] for j in range(100)}), path, row_group_size=1 << 16)
        del x
        mechanism = _mechanism(100)

        def plain() -> np.ndarray:
            table = pq.read_table(path)
            x = np.column_stack([column.to_numpy() for column in table.columns])
            return x.T @ x

        base, ours = fastest(plain, lambda: mechanism.release(path, progress=False), repeats=2)
    print(f"\nParquet, 1 000 000 x 100, sketch_size 100: {base:.2f} s plain, release {ours / base:.2f} times that")


def calibration() -> None:
    """Calibration with its certificate, and a certificate alone. The goals are 20 ms in floats and 0.5 s certified."""
    print("\ncalibration, certified")
    print(f"{'mechanism':<20} {'epsilon':>8} {'delta':>8} {'sketch_size':>12} {'time':>9}")
    public = {"row_norm_bound": 1.0}
    for epsilon, delta, sketch_size in ((1.0, 1e-6, 100), (0.01, 1e-15, 100_000), (20.0, 1e-3, 1)):
        public |= {"epsilon": epsilon, "delta": delta, "sketch_size": sketch_size}
        jobs = {
            "RandomProjection": lambda p=dict(public): ndis.RandomProjection.calibrated(**p),
            "PoissonProjection": lambda p=dict(public): ndis.PoissonProjection.calibrated(**p, rate=0.1),
            "PTRProjection": lambda p=dict(public): ndis.PTRProjection.calibrated(**p),
        }
        for name, job in jobs.items():

            def fresh(job=job) -> None:
                from ndis.mechanisms.sketch_law import certified_delta

                certified_delta.cache_clear()
                job()

            print(f"{name:<20} {epsilon:>8g} {delta:>8g} {sketch_size:>12} {seconds(median_time(fresh)):>9}")


def _mechanism(sketch_size: int) -> ndis.RandomProjection:
    return ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=sketch_size, row_norm_bound=1.0)


def main() -> None:
    """Print all tables."""
    calibration()
    sampling_alone()
    release_against_plain_product()
    release_from_parquet()


if __name__ == "__main__":
    main()
