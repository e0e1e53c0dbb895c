"""The Gram engine on a CUDA device: same bits as NumPy, and rates as shares of what the device itself reaches.

Needs torch and NumPy alone:  PYTHONPATH=src python -m benchmarks.gram_cuda [--small] [--device cuda]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from ndis.gram import GramAccumulator, RowLayout, exact_gram
from ndis.gram.sums import RecordSums


def hard_rows(rows: int, columns: int, *, seed: int = 0) -> np.ndarray:
    """Rows over many magnitudes, with everything a float64 can hold among them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns)) * 10.0 ** rng.uniform(-4, 4, size=(rows, 1))
    x[::17] /= np.linalg.norm(x[::17], axis=1, keepdims=True)  # on the sphere
    x[3], x[4], x[5, 0], x[6, -1] = 1.7e308, 5e-324, np.nan, -np.inf
    x[7] = np.where(np.arange(columns) % 2, 1e308, 1e-308)
    return x


def same_bits(device: str) -> bool:
    """Compare integer Gram matrices entry by entry."""
    good = True
    for columns in (1, 2, 7, 64, 300):
        for bits in (8, 18, 24):
            for dtype in (np.float64, np.float32, np.int64):
                with np.errstate(all="ignore"):
                    x = hard_rows(5000, columns).astype(dtype)
                options = {"row_norm_bound": 1.3, "fractional_bits": bits}
                if columns > 2:
                    options |= {"targets": [1], "target_bound": 0.7, "intercept": 2.0}
                expected = exact_gram(x, **options)
                host = exact_gram(x, device=device, **options)
                resident = exact_gram(torch.from_numpy(x).to(device), device=device, **options)
                if not expected == host == resident:
                    print(f"DIFFERENT BITS: columns {columns}, fractional bits {bits}, {dtype.__name__}")
                    good = False
    print(f"bit-identical to NumPy: {good}")
    return good


def same_sums(device: str) -> bool:
    """Compare exact sums: residual products, counts and softmax gradients."""
    good = True
    for columns in (1, 7, 64, 300):
        for bits in (8, 18, 24):
            rng = np.random.default_rng(columns)
            x, y = hard_rows(20_000, columns), rng.normal(size=(20_000, 2))
            label = rng.integers(0, 10, size=(20_000, 1)).astype(np.float64)
            theta = rng.normal(size=(columns + 1, 10))
            public = {"row_norm_bound": 1.3, "intercept": 0.6, "fractional_bits": bits}
            found = []
            for where in (None, device):
                linear = RecordSums((x, y), target_bound=0.7, device=where, **public)
                one = linear.residual_products(theta[:, :2], clip=0.1, edges=[0.05, 0.1, 0.3])
                two = RecordSums((x, label), classes=range(10), device=where, **public).gradients(theta, clip=0.2)
                found.append((one, two))
            for a, b in zip(*found, strict=True):
                same = a.total == b.total and a.records == b.records
                if not (same and np.array_equal(a.longer, b.longer)):
                    print(f"DIFFERENT SUMS: columns {columns}, fractional bits {bits}")
                    good = False
    print(f"sums bit-identical to NumPy: {good}")
    return good


def seconds(work: Callable[[], object], *, repeats: int = 5) -> float:
    """Best wall time, the device's queue drained."""
    best = float("inf")
    for i in range(repeats + 1):
        _wait()
        start = time.perf_counter()
        work()
        _wait()
        if i:
            best = min(best, time.perf_counter() - start)
    return best


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def unit_rows(rows: int, columns: int, device: str, *, scale: float) -> torch.Tensor:
    """Random rows of norm about ``scale``."""
    x = torch.randn(rows, columns, dtype=torch.float64, device=device)
    return x.mul_(scale / columns**0.5)


def matrix_rate(n: int, device: str) -> float:
    """Operations a second of a square float64 product."""
    a = torch.randn(n, n, dtype=torch.float64, device=device)
    return 2 * n**3 / seconds(lambda: a @ a)


def rates(device: str, entries: int, square: int) -> None:
    """Print the table of resident and streamed rates."""
    peak = matrix_rate(square, device)
    print(f"float64 matrix rate of the device ({square}² times {square}²): {peak / 1e12:.2f} TFLOP/s")
    print("\nresident rows; work counted as 2·rows·d²")
    print(f"{'d':>6} {'rows':>9} {'clipped':>8} {'TFLOP/s':>8} {'of device':>10} {'of plain XᵀX':>13}")
    for d in (64, 128, 512, 2048):
        rows = entries // min(d, 128)  # long enough that fetching the d×d result does not count
        for clipped, scale in ((0, 0.5), (100, 2.0)):
            x = unit_rows(rows, d, device, scale=scale)
            flops = 2 * rows * d * d
            plain = flops / seconds(lambda x=x: x.T @ x)
            ours = flops / seconds(lambda x=x: exact_gram(x, row_norm_bound=1.0, device=device))
            print(f"{d:>6} {rows:>9} {clipped:>7}% {ours / 1e12:>8.2f} {ours / peak:>10.0%} {ours / plain:>13.0%}")
            del x

    print("\nrows from the host")
    print(f"{'d':>6} {'memory':>9} {'copy GB/s':>10} {'ours GB/s':>10} {'of copy':>8}")
    for d in (64, 512):
        rows = entries // d
        plain = unit_rows(rows, d, "cpu", scale=0.5)
        there = torch.empty_like(plain, device=device)
        kinds = {"pageable": plain, "pinned": plain.pin_memory()} if torch.cuda.is_available() else {"pageable": plain}
        for name, x in kinds.items():
            size = x.numel() * 8 / 1e9
            copy = size / seconds(lambda x=x, there=there: there.copy_(x, non_blocking=True))
            ours = size / seconds(lambda x=x: _stream(x, device))
            print(f"{d:>6} {name:>9} {copy:>10.1f} {ours:>10.1f} {ours / copy:>8.0%}")


def _stream(x: torch.Tensor, device: str) -> object:
    accumulator = GramAccumulator(RowLayout(x.shape[1], 1.0), device=device)
    accumulator.update(x)
    return accumulator.finish()


def main() -> int:
    """Check, measure, print; the exit status says whether the bits agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes for a quick try")
    arguments = parser.parse_args()
    if arguments.device.startswith("cuda"):
        print(torch.cuda.get_device_name(), "torch", torch.__version__, "numpy", np.__version__)
    good = same_bits(arguments.device) & same_sums(arguments.device)
    rates(arguments.device, *((1 << 20, 512) if arguments.small else (1 << 29, 8192)))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
