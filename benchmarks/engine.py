"""The release engine in ratios: exact Gram against a plain product, streaming against reading, memory, sampling.

python -m benchmarks.engine
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ndis.errors import NotPrivateWarning
from ndis.gram import exact_gram, worst_row
from ndis.gram.sums import RecordSums
from ndis.learn import PrivateCovariance
from ndis.noise import exact_gaussian, grid_for


def fastest(
    *works: Callable[[], object], repeats: int = 7, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Best time of each, measured in turns, so that a busy machine slows all of them alike."""
    best = [float("inf")] * len(works)
    for turn in range(repeats + 1):
        for i, work in enumerate(works):
            start = clock()
            work()
            if turn:
                best[i] = min(best[i], clock() - start)
    return best


def unit_rows(rows: int, columns: int, *, scale: float = 0.5) -> np.ndarray:
    """Random rows of norm about ``scale``."""
    return np.random.default_rng(0).standard_normal((rows, columns)) * (scale / columns**0.5)


def gram_against_plain_product() -> None:
    """In-memory float64 rows; the goal is 1.5."""
    print("\nexact Gram of rows in memory, relative to X.T @ X")
    print(f"{'d':>6} {'rows':>9} {'plain s':>8} {'none clipped':>13} {'all clipped':>12} {'float32':>8}")
    for d in (64, 128, 512):
        rows = (1 << 25) // d
        inside, outside = unit_rows(rows, d), unit_rows(rows, d, scale=2.0)
        single = inside.astype(np.float32)
        grams = [lambda x=x: exact_gram(x, row_norm_bound=1.0) for x in (inside, outside, single)]
        plain, *ours = fastest(lambda x=inside: x.T @ x, *grams)
        a, b, c = (t / plain for t in ours)
        print(f"{d:>6} {rows:>9} {plain:>8.3f} {a:>13.2f} {b:>12.2f} {c:>8.2f}")


def second_pass() -> None:
    """Leverage of all rows; the goal is 3."""
    x = unit_rows(1_000_000, 50)
    gram = exact_gram(x, row_norm_bound=1.0)
    plain, first, second = fastest(
        lambda: x.T @ x,
        lambda: exact_gram(x, row_norm_bound=1.0),
        lambda: worst_row(x, gram, ridge=40.0),
        repeats=3,
    )
    print("\nworst leverage of 1 000 000 x 50 rows")
    print(f"relative to X.T @ X: {second / plain:.2f}; relative to the exact Gram: {second / first:.2f}")


def sums() -> None:
    """A pass of residual products, and one of softmax gradients for ten classes; the goal is the time of the Gram."""
    print("\npasses of exact sums over 500 000 rows, relative to the exact Gram")
    print(f"{'d':>6} {'residual products':>18} {'gradients, 10 classes':>22}")
    for d in (50, 100):
        x = unit_rows(500_000, d)
        y, label = x[:, 0].copy(), (np.arange(len(x)) % 10).astype(np.float64)
        linear = RecordSums((x, y), row_norm_bound=1.0, target_bound=1.0, intercept=0.5)
        classes = RecordSums((x, label), row_norm_bound=1.0, classes=range(10), intercept=0.5)
        theta = np.random.default_rng(1).normal(size=(d + 1, 10))
        gram, one, ten = fastest(
            linear.gram,
            lambda work=linear, t=theta[:, 0]: work.residual_products(t, clip=0.1),
            lambda work=classes, t=theta: work.gradients(t, clip=0.1),
            repeats=3,
        )
        print(f"{d:>6} {one / gram:>18.2f} {ten / gram:>22.2f}")


def covariance_error() -> None:
    """Root of the mean squared Frobenius error of the private covariance, both methods, 20 seeds."""
    print("\nerror of PrivateCovariance, ε = 1, δ = 1e-6, Frobenius norm over that of the truth")
    print(f"{'d':>6} {'rows':>9} {'gram':>8} {'sketch':>8}")
    for d, rows in ((5, 2_000), (5, 200_000), (20, 20_000), (20, 200_000)):
        x = np.random.default_rng(0).standard_normal((rows, d)) @ np.diag(np.linspace(1.0, 0.2, d))
        truth, bound = np.cov(x.T, bias=True), 1.5 * d**0.5
        errors = []
        for method in ("gram", "sketch"):
            found = []
            for seed in range(20):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", NotPrivateWarning)
                    model = PrivateCovariance(row_norm_bound=bound, method=method, random_state=seed).fit(x)
                found.append(np.sum((model.covariance_ - truth) ** 2))
            errors.append(np.sqrt(np.mean(found)) / np.linalg.norm(truth))
        print(f"{d:>6} {rows:>9} {errors[0]:>8.3f} {errors[1]:>8.3f}")


def streaming(place: Path) -> None:
    """Parquet rows through the engine, and merely read."""
    import pyarrow.parquet as pq

    folder = _parquet_folder(place / "stream", files=4, rows=50_000, columns=64)
    files = sorted(folder.glob("*.parquet"))

    def read() -> None:
        for path in files:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=1 << 14):
                    del batch

    reading, ours = fastest(read, lambda: exact_gram(folder, row_norm_bound=1.0, progress=False), repeats=5)
    print(f"\nParquet folder, 200 000 x 64: exact Gram relative to reading the batches alone: {ours / reading:.2f}")


def memory(place: Path) -> None:
    """Peak memory of a fresh process at 1, 4 and 16 times the rows."""
    print("\npeak memory while streaming Parquet")
    print(f"{'rows':>9} {'on disk MB':>11} {'peak MB':>8}")
    for times in (1, 4, 16):
        folder = _parquet_folder(place / f"memory{times}", files=times, rows=50_000, columns=64)
        script = (
            "import sys; from ndis.gram import exact_gram; "
            "exact_gram(sys.argv[1], row_norm_bound=1.0, progress=False); "
            "status = dict(line.split(':', 1) for line in open('/proc/self/status')); "
            "print(int(status['VmHWM'].split()[0]) // 1024)"
        )
        done = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=True)
        size = sum(p.stat().st_size for p in folder.iterdir()) // 10**6
        print(f"{50_000 * times:>9} {size:>11} {done.stdout.strip():>8}")


def sampling() -> None:
    """100 000 entries, root and product included; the goal is 5 s on one core."""
    gram = exact_gram(unit_rows(100_000, 100, scale=2.0), row_norm_bound=1.0)
    ridge = 40.72

    def draw() -> object:
        return exact_gaussian(0, gram.exact(ridge=ridge), size=1000, grid=grid_for(ridge**0.5))

    (cpu,) = fastest(draw, repeats=2, clock=time.process_time)
    print(f"\nexact_gaussian, d = 100, 1000 vectors: {cpu:.2f} s of one core, {cpu * 10:.1f} µs an entry")


def _parquet_folder(place: Path, *, files: int, rows: int, columns: int) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    place.mkdir()
    x = unit_rows(rows, columns)
    for i in range(files):
        table = pa.table({f"x{j}": x[:, j] for j in range(columns)})
        pq.write_table(table, place / f"part-{i:04}.parquet", row_group_size=1 << 14)
    return place


def main() -> None:
    """Print all tables."""
    gram_against_plain_product()
    second_pass()
    sums()
    covariance_error()
    with tempfile.TemporaryDirectory() as folder:
        streaming(Path(folder))
        memory(Path(folder))
    sampling()


if __name__ == "__main__":
    main()
