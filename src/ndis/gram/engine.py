"""From any source to an exact sum: data are opened once, and every pass reads them where they live."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ndis.data.dask import computed, is_dask, open_dask, read_partition, tree
from ndis.data.opening import open_source
from ndis.data.source import Groups, Parts, Source, choose_columns, rows_per_read
from ndis.errors import ParameterError
from ndis.gram.accumulator import Gram, GramAccumulator
from ndis.gram.layout import DEFAULT_FRACTIONAL_BITS, layout_for
from ndis.gram.poisson import PoissonRows

__all__ = ["Opened", "exact_gram"]


@dataclass(frozen=True)
class Opened:
    """Data whose columns are chosen.

    Parameters
    ----------
    source : Source
        The public schema, and the rows.
    groups : tuple
        The numbers of the feature columns, and of the target columns if there are any.
    partitions : list, optional
        Those of a dask collection, as delayed values.
    """

    source: Source
    groups: Groups
    partitions: list[Any] | None = None

    @classmethod
    def of(
        cls,
        data: Any,
        *,
        columns: Any,
        targets: Any,
        header: bool,
        device: str | None = None,
        progress: bool | None = None,
    ) -> Opened:
        """Open data by their types only; the arguments are those of `exact_gram`."""
        if not is_dask(data):
            source = open_source(data, columns=columns, header=header, progress=progress)
            return cls(source, choose_columns(source, columns, targets))
        if device is not None:
            raise ParameterError("device", "be left out for dask collections", device)
        if header:
            raise ParameterError("header", "be left out for data other than CSV files", header)
        source, partitions = open_dask(data)
        return cls(source, choose_columns(source, columns, targets), partitions)

    def on_host(self) -> Iterator[Parts]:
        """All rows as arrays of this process, block by block."""
        for parts in self.source.read(self.groups):
            if self.source.device is None:
                yield parts
                continue
            step = rows_per_read(sum(part.shape[1] for part in parts))
            for start in range(0, len(parts[0]), step):
                yield tuple(part[start : start + step].cpu().numpy() for part in parts)

    def reduced(self, each: Callable[[Iterator[Parts]], Any], join: Callable[[list[Any]], Any]) -> Any:
        """``each`` of the partitions of a dask collection, where they live, and then ``join`` in a tree."""
        columns, groups = self.source.names or self.source.width, self.groups  # what travels with every task
        return computed(tree(self.partitions or [], lambda part: each(read_partition(part, columns, groups)), join))

    def total(
        self, make: Callable[[str | None], Any], device: str | None, blocks: Callable[[Parts], Iterable[Parts]]
    ) -> Any:
        """One pass: feed ``blocks`` of all rows to the accumulators that ``make`` makes, and return their sum."""

        def fed(accumulator: Any, rows: Iterator[Parts], **how: Any) -> Any:
            for parts in rows:
                for block in blocks(parts):
                    accumulator.update(*block, **how)
            return accumulator

        def merged(accumulators: list[Any]) -> Any:
            whole = make(None)
            for one in accumulators:
                whole.merge(one)
            return whole

        if self.partitions is None:
            return fed(make(device or self.source.device), self.source.read(self.groups))
        # The scheduler already keeps every core busy.
        return self.reduced(lambda rows: fed(make(None), rows, threads=1), merged)


def exact_gram(
    data: Any,
    *,
    row_norm_bound: float,
    columns: Any = None,
    targets: Any = None,
    header: bool = False,
    target_bound: float | None = None,
    intercept: float | None = None,
    fractional_bits: int = DEFAULT_FRACTIONAL_BITS,
    device: str | None = None,
    progress: bool | None = None,
    sample: PoissonRows | None = None,
) -> Gram:
    """Clip rows, round them onto their grid and return the exact integer Gram matrix.

    The result has the same bits however the rows are stored, split or ordered, and on every engine (thm:exact-gram).

    Parameters
    ----------
    data : array, sparse matrix, data frame, Arrow table, tensor, dask collection, path, list of paths, or pair (X, y)
        The private rows. A folder stands for the files that `ndis.data.paths` names. Dask collections are reduced
        where they live, and so is a tensor on a CUDA device. A row with a missing, NaN or infinite entry becomes a
        zero row.
    row_norm_bound : float
        Public bound: the features of a row are clipped to this Euclidean norm.
    columns : names or numbers, optional
        The feature columns; by default all but the targets. For CSV files without a header: the names of all columns,
        from left to right, with None for a column that is not read.
    targets : names or numbers, optional
        The target columns, which are clipped on their own.
    header : bool
        The first line of every CSV file holds names, which are public. Without it every line is a record.
    target_bound : float, optional
        Public bound of the target part of a row.
    intercept : float, optional
        Value of a constant column to append.
    fractional_bits : int
        k: each part of a row lies on the grid bound·2⁻ᵏ.
    device : str, optional
        A torch device to send the rows to, ``"cuda"``.
    progress : bool, optional
        Show a progress bar for files; by default if standard error is a terminal.
    sample : PoissonRows, optional
        Keep each row on its own with a probability; by default all rows.

    Returns
    -------
    Gram
        Private: exact, without noise.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[0.5, 0.0], [3.0, 4.0]])
    >>> gram = exact_gram(rows, row_norm_bound=1.0, fractional_bits=10)
    >>> gram.integers.tolist()
    [[637913, 501434], [501434, 669124]]
    >>> gram.layout.joint_norm_bound
    1.0
    """
    if is_dask(data) and sample is not None and not sample.private:
        raise ParameterError("random_state", "be left out for a sample of a dask collection", "a seed")
    opened = Opened.of(data, columns=columns, targets=targets, header=header, device=device, progress=progress)
    layout = layout_for(
        opened.source,
        opened.groups,
        row_norm_bound=row_norm_bound,
        target_bound=target_bound,
        intercept=intercept,
        fractional_bits=fractional_bits,
    )

    def blocks(parts: Parts) -> Iterable[Parts]:
        return (parts,) if sample is None else sample.blocks(parts)

    total: GramAccumulator = opened.total(lambda where: GramAccumulator(layout, device=where), device, blocks)
    return total.finish()
