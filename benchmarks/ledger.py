"""A ledger of many entries: python -m benchmarks.ledger --entries 100000.

Measures the time to append (the last thousand against the first), to ask what is left, and to verify.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import ndis


def measure(entries: int) -> dict[str, float]:
    """Fill a new ledger with reservations and commits, and time it."""
    request = ndis.PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=0.001))
    with tempfile.TemporaryDirectory() as place:
        plan = {"daily": (request, entries), "weekly": (request, entries)}
        ledger = ndis.Ledger.create(Path(place) / "many.ledger", epsilon=50.0, delta=1e-6, plan=plan, data_name="many")
        times = []
        for k in range(entries // 2):
            start = time.perf_counter()
            entry = ledger.reserve("daily" if k % 7 else "weekly", request)
            middle = time.perf_counter()
            ledger.commit(entry)
            times += [middle - start, time.perf_counter() - middle]
        start = time.perf_counter()
        ledger.remaining()
        left = time.perf_counter() - start
        start = time.perf_counter()
        count = ledger.verify()
        verify = time.perf_counter() - start
    few = min(1000, entries // 4)
    first, last = statistics.median(times[:few]), statistics.median(times[-few:])
    return {
        "entries": count,
        "first_append_seconds": first,
        "last_append_seconds": last,
        "last_over_first": last / first,
        "remaining_seconds": left,
        "verify_seconds": verify,
    }


def main() -> None:
    """Print the measurements as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    print(json.dumps(measure(parser.parse_args().entries), indent=2))


if __name__ == "__main__":
    main()
