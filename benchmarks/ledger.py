"""A ledger of many entries: python -m benchmarks.ledger --entries 100000.

Each entry is flushed to the disk several times before it counts, so a disk decides how long the filling takes. The
ledger is therefore filled in memory, where a flush is free: this shows the work per entry, the last thousand against
the first. Then some entries are appended on the disk of temporary files, to a new ledger and to the full one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ndis

MEMORY = Path("/dev/shm")  # a file system in memory, on Linux
REQUEST = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=0.001))
FEW = 100  # entries on the disk


def seconds(work: Callable[[], object]) -> float:
    """The time that work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def append(ledger: ndis.Ledger, entries: int) -> list[float]:
    """Append reservations and commits in turn, and return the time of each."""
    times = []
    for k in range(entries // 2):
        start = time.perf_counter()
        entry = ledger.reserve("daily" if k % 7 else "weekly", REQUEST)
        middle = time.perf_counter()
        ledger.commit(entry)
        times += [middle - start, time.perf_counter() - middle]
    return times


def measure(entries: int) -> dict[str, float]:
    """Fill a new ledger with reservations and commits, and time it."""
    plan = {"daily": (REQUEST, entries), "weekly": (REQUEST, entries)}
    about = {"epsilon": 50.0, "delta": 1e-6, "plan": plan, "data_name": "many"}
    memory = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as place, tempfile.TemporaryDirectory() as disk:
        ledger = ndis.Ledger.create(Path(place) / "many.ledger", **about)
        times = append(ledger, entries)
        remaining, verify = seconds(ledger.remaining), seconds(ledger.verify)
        ledger.backup(Path(disk) / "full.ledger")
        full = append(ndis.Ledger(Path(disk) / "full.ledger"), FEW)
        new = append(ndis.Ledger.create(Path(disk) / "new.ledger", **about), FEW)
        size, count = (Path(place) / "many.ledger").stat().st_size, ledger.entries()
    few = min(1000, entries // 4)
    first, last = statistics.median(times[:few]), statistics.median(times[-few:])
    return {
        "entries": count,
        "bytes_per_entry": size / count,
        "first_append_seconds": first,
        "last_append_seconds": last,
        "last_over_first": last / first,
        "remaining_seconds": remaining,
        "verify_seconds": verify,
        "disk_append_new_seconds": statistics.median(new),
        "disk_append_full_seconds": statistics.median(full),
    }


def main() -> None:
    """Print the measurements as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    print(json.dumps(measure(parser.parse_args().entries), indent=2))


if __name__ == "__main__":
    main()
