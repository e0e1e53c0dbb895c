"""Make integer rows on the host, tile by tile, and multiply them exactly in float64."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis.gram.rows import GroupRule, RowLayout, quantise_group_into

# Entries of a tile: large enough to feed a threaded BLAS, small enough to stay in the last-level cache.
_TILE_ENTRIES = 1 << 21
_OWN_TILE_ENTRIES = 1 << 17  # entries of a tile that one thread keeps to itself: a megabyte stays in its own cache
_ROWS_PER_THREAD = 1024


def integer_tiles(
    parts: tuple[NDArray[Any], ...], layout: RowLayout, *, threads: int | None = None, entries: int | None = None
) -> Iterator[NDArray[np.float64]]:
    """Yield the integer rows of ``parts`` (the features, then the targets if any) in tiles; each reuses one buffer."""
    rows = len(parts[0])
    height = min(max((entries or _TILE_ENTRIES) // layout.width, 1), layout.block_rows)
    buffer = np.empty((min(height, rows), layout.width))
    rules = [GroupRule.of(group, layout.fractional_bits) for group in layout.groups[: len(parts)]]
    workers = _cores() if threads is None else threads
    for start in range(0, rows, height):
        stop = min(start + height, rows)
        tile = buffer[: stop - start]
        _fill(tile, tuple(piece[start:stop] for piece in parts), layout, rules, workers)
        yield tile


Work = Callable[[tuple[NDArray[Any], ...], RowLayout], NDArray[Any]]


def over_strips(
    parts: tuple[NDArray[Any], ...], layout: RowLayout, work: Work, *, height: int, threads: int | None = None
) -> Iterator[tuple[NDArray[Any], int]]:
    """Yield ``work(strip, layout)`` for strips of at most ``height`` rows, with the rows each strip covers.

    Every thread rounds a small tile and works on it while it is in its own cache; BLAS starts no threads meanwhile.
    """
    rows = len(parts[0])
    workers = _cores() if threads is None else threads
    step = min(max(-(-rows // workers), _ROWS_PER_THREAD), height)
    strips = [tuple(piece[a : a + step] for piece in parts) for a in range(0, rows, step)]
    if len(strips) == 1 or workers == 1:
        results = (work(strip, layout) for strip in strips)
        yield from zip(results, (len(strip[0]) for strip in strips), strict=True)
        return
    with _blas().limit(limits=1, user_api="blas"):
        for start in range(0, len(strips), workers):
            jobs = [_pool(os.getpid()).submit(work, s, layout) for s in strips[start + 1 : start + workers]]
            yield work(strips[start], layout), len(strips[start][0])
            for job, strip in zip(jobs, strips[start + 1 :], strict=False):
                yield job.result(), len(strip[0])


def own_tile_entries(width: int) -> int:
    """Entries of a tile that one thread keeps to itself."""
    return min(max(_OWN_TILE_ENTRIES, 4 * width**2), _TILE_ENTRIES)


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _fill(
    tile: NDArray[np.float64], parts: tuple[NDArray[Any], ...], layout: RowLayout, rules: list[GroupRule], workers: int
) -> None:
    """Quantise a block of rows into a tile, with several threads if there are many rows."""

    def strip(start: int, stop: int) -> None:
        """Return nothing; quantise some rows of the block in place."""
        broken = np.zeros(stop - start, dtype=np.bool_)
        out = tile[start:stop]
        for piece, group, rule in zip(parts, layout.groups, rules, strict=False):
            with np.errstate(all="ignore"):
                x = np.ascontiguousarray(piece[start:stop], dtype=np.float64)
                quantise_group_into(x, rule, out[:, group.start : group.stop], broken)
        if layout.intercept is not None:
            out[:, -1] = 2.0**layout.fractional_bits
        out[broken] = 0.0  # a NaN in any group empties the whole row, the intercept included

    rows = len(tile)
    count = max(1, min(workers, rows // _ROWS_PER_THREAD))
    cuts = [rows * i // count for i in range(count + 1)]
    jobs = [_pool(os.getpid()).submit(strip, a, b) for a, b in pairwise(cuts[1:])]
    strip(cuts[0], cuts[1])
    for job in jobs:
        job.result()


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Return one pool per process: a forked child must not wait for its parent's threads."""
    return ThreadPoolExecutor(_cores(), thread_name_prefix="ndis-gram")


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
