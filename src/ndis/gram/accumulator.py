"""Sum the exact Gram matrix of any source: accumulators merge, and one pass feeds them all rows or a sample of them.

Data are read where they live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ndis._exact import ExactArray, exact_array
from ndis._validate import require
from ndis.data import Rows, open_rows
from ndis.data.cells import kind_of
from ndis.data.memory import no_mask
from ndis.data.table import Parts, rows_per_read
from ndis.errors import ParameterError
from ndis.gram.device import DeviceTiles, import_torch
from ndis.gram.host import integer_tiles, over_strips, own_tile_entries
from ndis.gram.rows import DEFAULT_FRACTIONAL_BITS, RowLayout, layout_for

if TYPE_CHECKING:
    from ndis.noise.bits import RandomBits


@dataclass(frozen=True, eq=False)
class Gram:
    """A Gram matrix is the exact sum of products of clipped rows. **Private**: release only draws from it.

    It holds only the public layout and the integers: no row count, no statistics of the rows.

    Attributes
    ----------
    integers : (d, d) array
        Σ q qᵀ over the integer rows q; int64, or Python integers if int64 would overflow.
    layout : RowLayout
        Columns, bounds and grid. `RowLayout.joint_norm_bound` is the norm that no row exceeds.

    Examples
    --------
    >>> from ndis.gram import exact_gram
    >>> gram = exact_gram(np.array([[0.5, 0.25], [0.0, 0.5]]), row_norm_bound=1.0)
    >>> gram.to_float()
    array([[0.25  , 0.125 ],
           [0.125 , 0.3125]])
    """

    integers: NDArray[Any]
    layout: RowLayout

    def exact(self, *, ridge: Any) -> ExactArray:
        """Return DᵀD + ridge·I in real units, as exact rationals.

        Parameters
        ----------
        ridge : int, float or fractions.Fraction
            Taken as exact; not negative.
        """
        extra = exact_array(ridge, name="ridge")
        require(not extra.shape and extra.numerators.item() >= 0, "ridge", "be one number, not negative", ridge)
        step = exact_array(np.array(self.layout.steps, dtype=object))
        squares = step.denominator**2
        numerators = self.integers.astype(object) * step.numerators[:, None] * step.numerators * extra.denominator
        numerators[np.diag_indices(len(numerators))] += extra.numerators.item() * squares
        return ExactArray(numerators, squares * extra.denominator)

    def to_float(self) -> NDArray[np.float64]:
        """Return DᵀD in real units, rounded to float64."""
        step = np.array([float(s) for s in self.layout.steps])
        return np.asarray(self.integers.astype(np.float64) * step[:, None] * step, dtype=np.float64)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Gram):
            return NotImplemented
        return self.layout == other.layout and bool(np.array_equal(self.integers, other.integers))

    __hash__ = None  # type: ignore[assignment]


class IntegerSum:
    """A sum of integer arrays in int64, and in Python integers before int64 could overflow.

    Parameters
    ----------
    shape : int or tuple of int
    bits : int
        No entry of one row's contribution exceeds 2^bits.

    Examples
    --------
    >>> total = IntegerSum(2, 62)
    >>> for _ in range(3):
    ...     total.add(np.array([2**62, 1]), 1)
    >>> total.integers().tolist()
    [13835058055282163712, 3]
    """

    def __init__(self, shape: int | tuple[int, ...], bits: int) -> None:
        self._bits = bits
        self._int64 = np.zeros(shape, dtype=np.int64)
        self._rows = 0
        self._wide: NDArray[Any] | None = None

    def add(self, integers: NDArray[np.int64], rows: int) -> None:
        """Add the sum of this many rows."""
        if (self._rows + rows) << self._bits >= 1 << 63:
            self._spill()
        self._int64 += integers
        self._rows += rows

    def merge(self, other: IntegerSum) -> None:
        """Add another sum, which stays unchanged; it may be this one."""
        wide = other._wide
        self.add(other._int64.copy(), other._rows)
        if wide is not None:
            self._spill()
            self._wide = self._wide + wide

    def integers(self) -> NDArray[Any]:
        """The sum as int64 if every entry fits, otherwise as Python integers."""
        if self._wide is None:
            return self._int64.copy()
        total = self._wide + self._int64.astype(object)
        try:
            return np.asarray(total, dtype=np.int64)
        except OverflowError:
            return np.asarray(total, dtype=object)

    def _spill(self) -> None:
        wide = self._int64.astype(object)
        self._wide = wide if self._wide is None else self._wide + wide
        self._int64[...] = 0
        self._rows = 0


def checked_parts(layout: RowLayout, engine: DeviceTiles | None, block: Any, targets: Any) -> tuple[Any, ...]:
    """Features and targets, if the layout has any, of the types and shapes that it says. No check looks at a value."""
    parts = (block,) if targets is None else (block, targets)
    for given in parts:
        no_mask(given)
        if engine is not None and isinstance(given, engine.torch.Tensor):
            require(not given.is_complex(), "block", "hold real numbers of at most 64 bits", given.dtype)
        else:
            require(isinstance(given, np.ndarray), "block", "be a NumPy array", type(given).__name__)
            plain = given.dtype.kind in "fiub" and given.dtype.itemsize <= 8
            require(plain, "block", "hold real numbers of at most 64 bits", kind_of(given.dtype))
    widths = [layout.features] + [layout.targets] * bool(layout.targets)
    if [tuple(given.shape) for given in parts] != [(*block.shape[:1], width) for width in widths]:
        rule = f"be matrices of {' and '.join(map(str, widths))} column(s), with as many rows"
        raise ParameterError("block and targets", rule, "other shapes")
    return parts


class Accumulator:
    """Sums an array of integers over rows, exactly and in any order; accumulators merge, and they can be pickled.

    A subclass says what a tile of integer rows adds. What a row adds is exact in float64 for a tile, and added up in
    int64 (`IntegerSum`). Only the sum travels between machines.

    Parameters
    ----------
    tile : RowLayout
        The public description of a row that is read.
    shape : int or tuple of int
    bits : int
        No entry of what one row adds exceeds 2^bits.
    device : str, optional
    """

    def __init__(self, tile: RowLayout, shape: int | tuple[int, ...], bits: int, device: str | None = None) -> None:
        self.layout, self._shape, self._bits, self._sum = tile, shape, bits, IntegerSum(shape, bits)
        self._engine: Any = None if device is None else DeviceTiles(tile, device, most=1 << min(62 - bits, 17))
        self._there: Any = None  # the sum of the rows that went to the device since the last fetch
        self._rows_there = 0

    def update(self, block: Any, targets: Any = None, *, threads: int | None = None) -> None:
        """Add the rows of ``block``.

        Parameters
        ----------
        block : (n, features) array of real numbers
        targets : (n, targets) array, given exactly when the layout has targets
        threads : int, optional
            Threads that quantise; all cores by default.
        """
        parts, engine = checked_parts(self.layout, self._engine, block, targets), self._engine
        if engine is None:
            height = 1 << (62 - self._bits)
            for integers, rows in over_strips(parts, self.layout, self._strip, height=height, threads=threads):
                self._sum.add(integers, rows)
            return
        for tile in engine.tiles(parts):
            if (self._rows_there + len(tile)) << self._bits >= 1 << 63:
                self._fetch()
            added = self._of(engine.torch, tile)
            self._there = added if self._there is None else self._there + added
            self._rows_there += len(tile)

    def merge(self, other: Self) -> None:
        """Add all rows of ``other``, which stays unchanged."""
        require(self.layout == other.layout, "other", f"have the layout {self.layout}", other.layout)
        other._fetch()
        self._sum.merge(other._sum)

    def integers(self) -> NDArray[Any]:
        """Return the sum of all rows so far; more may follow."""
        self._fetch()
        return self._sum.integers()

    def _of(self, xp: Any, tile: Any) -> Any:
        """Return the sum over a tile as int64; ``xp`` is ``numpy`` or ``torch``."""
        raise NotImplementedError  # each sum has its own

    def _strip(self, parts: Parts, layout: RowLayout) -> NDArray[np.int64]:
        total = np.zeros(self._shape, dtype=np.int64)
        entries = min(own_tile_entries(layout.width), layout.width << (53 - self._bits))
        for tile in integer_tiles(parts, layout, threads=1, entries=entries):
            with np.errstate(all="ignore"):
                total += self._of(np, tile)
        return total

    def _product(self, q: Any) -> Any:
        """Return Σ q qᵀ over the rows of a tile."""
        return (q.T @ q).astype(np.int64) if self._engine is None else self._engine.product(q)

    def _placed(self, array: NDArray[Any]) -> Any:
        """Return a public array where the rows are."""
        return array if self._engine is None else self._engine.tensor(array).to(self._engine.device)

    def _fetch(self) -> None:
        if self._there is not None:
            self._sum.add(self._there.cpu().numpy(), self._rows_there)
        self._there, self._rows_there = None, 0

    def __getstate__(self) -> dict[str, Any]:
        self._fetch()
        return {**self.__dict__, "_engine": None}


class GramAccumulator(Accumulator):
    """Sums q qᵀ over blocks of rows, exactly and in any order.

    Products of blocks are float64 and exact (see `RowLayout.block_rows`). They are added as integers
    (`IntegerSum`). Accumulators of the same layout merge, and they can be pickled.

    Parameters
    ----------
    layout : RowLayout
        The public description of a row.
    device : str, optional
        A torch device (``"cuda"``) that does the products; the bits are the same.

    Examples
    --------
    >>> import numpy as np
    >>> layout = RowLayout(features=2, row_norm_bound=1.0, fractional_bits=8)
    >>> left, right = GramAccumulator(layout), GramAccumulator(layout)
    >>> left.update(np.array([[0.5, 0.25]]))
    >>> right.update(np.array([[0.0, np.nan], [0.25, 0.0]]))
    >>> left.merge(right)
    >>> left.finish().to_float()
    array([[0.3125, 0.125 ],
           [0.125 , 0.0625]])
    """

    def __init__(self, layout: RowLayout, *, device: str | None = None) -> None:
        super().__init__(layout, (layout.width, layout.width), 2 * layout.fractional_bits, device)

    def _of(self, xp: Any, tile: Any) -> Any:
        return self._product(tile)

    def update_integers(self, rows: Any) -> None:
        """Add integer rows that are on the grid already: integers as floats, of norm at most 2ᵏ per group."""
        for start in range(0, len(rows), self.layout.block_rows):
            block = rows[start : start + self.layout.block_rows]
            self._sum.add((block.T @ block).astype(np.int64), len(block))

    def finish(self) -> Gram:
        """Return the Gram matrix of all rows so far; more may follow."""
        return Gram(self.integers(), self.layout)


def check_device(rows: Rows, device: str | None) -> None:
    """Refuse a device that torch does not have, and any for a dask collection, which is summed where it lives."""
    if device is None:
        return
    require(not rows.is_dask, "device", "be left out for dask collections", device)
    try:
        import_torch().zeros(1, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:  # what torch raises for a name that it cannot use
        raise ParameterError("device", "be a device that torch can use", repr(device)) from error


def total(
    rows: Rows,
    make: Callable[[str | None], Any],
    device: str | None,
    blocks: Callable[[Parts], Iterable[Parts]] = lambda parts: (parts,),
) -> Any:
    """Make one pass: feed ``blocks`` of all rows to the accumulators that ``make`` makes, and return their sum."""

    def fed(accumulator: Any, stream: Iterator[Parts], **how: Any) -> Any:
        for parts in stream:
            for block in blocks(parts):
                accumulator.update(*block, **how)
        return accumulator

    def merged(accumulators: list[Any]) -> Any:
        whole = make(None)
        for one in accumulators:
            whole.merge(one)
        return whole

    check_device(rows, device)
    if not rows.is_dask:
        return fed(make(device or rows.table.device), rows.blocks())
    return rows.reduced(lambda stream: fed(make(None), stream, threads=1), merged)  # the scheduler keeps all cores busy


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
    rows = open_rows(data, columns=columns, targets=targets, header=header, progress=progress)
    if rows.is_dask and sample is not None and not sample.private:
        raise ParameterError("random_state", "be left out for a sample of a dask collection", "a seed")
    grid: dict[str, Any] = {"intercept": intercept, "fractional_bits": fractional_bits}
    layout = layout_for(rows, row_norm_bound=row_norm_bound, target_bound=target_bound, **grid)
    blocks = (lambda parts: (parts,)) if sample is None else sample.blocks
    whole: GramAccumulator = total(rows, lambda where: GramAccumulator(layout, device=where), device, blocks)
    return whole.finish()


# ---------------------------------------------------------------------- a sample, by random bits only

_WIDTH = 64  # bits a row's decision takes
LEAST_RATE = 2.0**-40  # from here on the rate in use is within 2⁻²⁴ of the one asked for, by which estimates divide
_READS = 8  # reads' worth of rows in one block, so that every core has some


class PoissonRows:
    """Keeps each row with probability ⌊rate·2⁶⁴⌋/2⁶⁴: never more than ``rate``, and less by under 2⁻⁶⁴.

    Parameters
    ----------
    rate : float
        From 2⁻⁴⁰ to 1; public.
    bits : RandomBits

    Examples
    --------
    >>> from ndis.noise.bits import SystemBits
    >>> PoissonRows(1.0, SystemBits()).mask(3).tolist()
    [True, True, True]
    """

    def __init__(self, rate: float, bits: RandomBits) -> None:
        require(LEAST_RATE <= rate <= 1, "rate", "be at least 2^-40 and at most 1", rate)
        self._below = int(Fraction(rate) * 2**_WIDTH)
        self._bits = bits

    @property
    def private(self) -> bool:
        """Return whether the choice can neither be known nor repeated."""
        return self._bits.private

    def mask(self, rows: int) -> NDArray[np.bool_]:
        """Return True for the rows that enter."""
        if self._below >> _WIDTH or not rows:
            return np.ones(rows, dtype=np.bool_)
        (drawn,) = self._bits.take(1, width=_WIDTH * rows)
        uniform = np.frombuffer(drawn.to_bytes(_WIDTH // 8 * rows, "big"), dtype=">u8")
        return np.asarray(uniform < np.uint64(self._below))

    def blocks(self, parts: Parts) -> Iterator[Parts]:
        """The rows of ``parts`` that enter, in blocks, so that no copy of all of them is made."""
        step = _READS * rows_per_read(sum(piece.shape[1] for piece in parts))
        for start in range(0, len(parts[0]), step):
            here = tuple(piece[start : start + step] for piece in parts)
            mask = self.mask(len(here[0]))
            there = mask if isinstance(here[0], np.ndarray) else import_torch().from_numpy(mask).to(here[0].device)
            yield tuple(piece[there] for piece in here)
