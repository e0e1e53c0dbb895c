"""Benchmarks: ``python -m benchmarks [name ...]``. Each run measures; nothing here is quoted from an earlier one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any


def median_times(*jobs: Callable[[], Any], rounds: int = 9, budget: float = 2.0) -> list[float]:
    """Median seconds of processor time of one warm call of each single-threaded job.

    The jobs take turns, so that whatever else the machine does falls on all of them; a turn is a loop of about 2 ms.
    At least three rounds, up to `rounds` within `budget` seconds a job. On an idle machine this is elapsed time.
    """
    loops = []
    for job in jobs:
        job()
        start = time.perf_counter()
        job()
        loops.append(max(1, round(2e-3 / max(time.perf_counter() - start, 1e-7))))
    samples: list[list[float]] = [[] for _ in jobs]
    begun = time.perf_counter()
    for done in range(rounds):
        if done >= 3 and time.perf_counter() - begun > budget * len(jobs):
            break
        for job, loop, sample in zip(jobs, loops, samples, strict=True):
            start = time.process_time()
            for _ in range(loop):
                job()
            sample.append((time.process_time() - start) / loop)
    return [statistics.median(sample) for sample in samples]


def median_time(job: Callable[[], Any], *, rounds: int = 15, budget: float = 2.0) -> float:
    """`median_times` of one job."""
    return median_times(job, rounds=rounds, budget=budget)[0]


def seconds(value: float) -> str:
    """A time in the unit that suits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"
