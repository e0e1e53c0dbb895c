"""Dask arrays and data frames: every partition becomes an accumulator where it lives, and a tree merges them.

Tasks are pure, so a partition lost with its worker is simply computed again, to the same bits. Only the d×d result
travels to the client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ndis.errors import ParameterError
from ndis.gram.accumulator import Gram, GramAccumulator
from ndis.gram.layout import RowLayout
from ndis.gram.poisson import PoissonRows
from ndis.gram.sources import Groups, Parts, Source, choose_columns, open_source

__all__ = ["dask_gram", "open_dask", "read_partition", "tree"]

_FAN_IN = 8


def open_dask(data: Any) -> tuple[Source, list[Any]]:
    """Return the schema of a dask collection and its partitions as delayed values."""
    if hasattr(data, "_meta") and hasattr(data, "columns"):
        return open_source(data._meta), list(data.to_delayed())
    if getattr(data, "ndim", 0) != 2 or not hasattr(data, "rechunk"):
        raise ParameterError("data", "be a dask data frame or a two-dimensional dask array", type(data).__name__)
    return open_source(data._meta.reshape(0, data.shape[1])), list(data.rechunk({1: -1}).to_delayed().ravel())


def dask_gram(data: Any, *, columns: Any, targets: Any, sample: PoissonRows | None = None, **public: Any) -> Gram:
    """The exact Gram matrix of a dask collection, on the scheduler in use."""
    if sample is not None and not sample.private:
        raise ParameterError("random_state", "be left out for a sample of a dask collection", "a seed")
    from ndis.gram.engine import layout_for

    schema, partitions = open_dask(data)
    groups = choose_columns(schema, columns, targets)
    layout = layout_for(schema, groups, **public)
    total = tree(
        partitions, lambda part: _accumulate(part, groups, layout, sample), lambda parts: _merge(parts, layout)
    )
    accumulator: GramAccumulator = total.compute()
    return accumulator.finish()


def tree(partitions: list[Any], each: Callable[[Any], Any], join: Callable[[list[Any]], Any]) -> Any:
    """Apply ``each`` to all partitions and ``join`` the results in a tree; returns a delayed value."""
    from dask import delayed

    level = [delayed(each, pure=False)(part) for part in partitions]
    while len(level) != 1:
        level = [delayed(join, pure=False)(level[i : i + _FAN_IN]) for i in range(0, max(len(level), 1), _FAN_IN)]
    return level[0]


def _accumulate(part: Any, groups: Groups, layout: RowLayout, sample: PoissonRows | None) -> GramAccumulator:
    accumulator = GramAccumulator(layout)
    for parts in read_partition(part, groups):
        for block in (parts,) if sample is None else sample.blocks(parts):
            accumulator.update(*block, threads=1)  # the scheduler already keeps every core busy
    return accumulator


def read_partition(part: Any, groups: Groups) -> Iterator[Parts]:
    """Rows of one partition, whose columns must be of the kinds the collection declares. No message quotes a cell."""
    try:
        source = open_source(part)
        if not any(column in source.refused for group in groups for column in group):
            yield from source.read(groups)
            return
    except (IndexError, TypeError, ValueError):  # what a partition of other columns or kinds gives
        pass
    raise ParameterError("data", "have partitions of the columns and kinds it declares", "another partition") from None


def _merge(parts: list[GramAccumulator], layout: RowLayout) -> GramAccumulator:
    total = GramAccumulator(layout)
    for part in parts:
        total.merge(part)
    return total
