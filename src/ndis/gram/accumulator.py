"""The exact Gram matrix as a mergeable value."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._exact import ExactArray, exact_array
from ndis.errors import ParameterError
from ndis.gram.device import DeviceProduct
from ndis.gram.host import check_block, exact_products
from ndis.gram.layout import RowLayout

__all__ = ["Gram", "GramAccumulator"]


@dataclass(frozen=True, eq=False)
class Gram:
    """The exact Gram matrix of clipped rows on their grid. **Private**: release only draws from it.

    It holds only the public layout and the integers: no row count, no statistics of the rows.

    Attributes
    ----------
    integers : (d, d) array
        Σ q qᵀ over the integer rows q; int64, or Python integers if int64 would overflow.
    layout : RowLayout
        Columns, bounds and grid. `RowLayout.joint_norm_bound` is the norm that no row exceeds.
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
        if extra.shape or not extra.numerators.item() >= 0:
            raise ParameterError("ridge", "be one number, not negative", ridge)
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


class GramAccumulator:
    """Sums q qᵀ over blocks of rows, exactly and in any order.

    Products of blocks are float64 and exact (see `RowLayout.block_rows`). They are added into int64, and these into
    Python integers before int64 could overflow. Accumulators of the same layout merge, and they can be pickled.

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
        self.layout = layout
        self._engine: Any = None
        if device is not None:
            self._engine = DeviceProduct(layout, device)
        width = layout.width
        self._exact_float = np.zeros((width, width))
        self._float_rows = 0
        self._int64 = np.zeros((width, width), dtype=np.int64)
        self._int64_rows = 0
        self._wide: NDArray[Any] | None = None

    def update(self, block: Any, targets: Any = None, *, threads: int | None = None) -> None:
        """Add the rows of ``block``.

        Parameters
        ----------
        block : (n, features) array of real numbers
        targets : (n, targets) array, given exactly when the layout has targets
        threads : int, optional
            Threads that quantise; all cores by default.
        """
        parts = self._parts(block, targets)
        if self._engine is not None:
            self._engine.update(parts)
            return
        for product, rows in exact_products(parts, self.layout, threads=threads):
            self._add_product(product, rows)

    def update_integers(self, rows: Any) -> None:
        """Add integer rows that are on the grid already: integers as floats, of norm at most 2ᵏ per group.

        They are an array, or with a device a tensor on it.
        """
        if self._engine is not None:
            for block in rows.split(self.layout.block_rows):
                self._engine.add_rows(block)
            return
        for start in range(0, len(rows), self.layout.block_rows):
            block = rows[start : start + self.layout.block_rows]
            self._add_product(block.T @ block, len(block))

    def _add_product(self, product: NDArray[np.float64], rows: int) -> None:
        if self._float_rows + rows > self.layout.block_rows:
            self._flush()
        self._exact_float += product
        self._float_rows += rows

    def merge(self, other: GramAccumulator) -> None:
        """Add all rows of ``other``, which stays as it is."""
        if self.layout != other.layout:
            raise ParameterError("other", f"have the layout {self.layout}", other.layout)
        if other is self:
            other = pickle.loads(pickle.dumps(self))
        self._add_integers(other._int64, other._int64_rows)
        self._add_integers(other._exact_float.astype(np.int64), other._float_rows)
        if other._engine is not None:
            for integers, rows in other._engine.totals():
                self._add_integers(integers, rows)
        if other._wide is not None:
            self._spill()
            self._wide = self._wide + other._wide

    def finish(self) -> Gram:
        """Return the Gram matrix of all rows so far; more may follow."""
        total = GramAccumulator(self.layout)
        total.merge(self)
        return Gram(total._narrow(), self.layout)

    def __getstate__(self) -> dict[str, Any]:
        # Only the sum travels between machines.
        plain = GramAccumulator(self.layout)
        plain.merge(self)
        return plain.__dict__.copy()

    def _parts(self, block: Any, targets: Any) -> tuple[Any, ...]:
        check = check_block if self._engine is None else self._engine.check_block
        if (targets is None) != (self.layout.targets == 0):
            got = "none" if targets is None else "some"
            raise ParameterError("targets", f"be {self.layout.targets} column(s)", got)
        parts = [check(block, columns=self.layout.features, name="block")]
        if targets is not None:
            parts.append(check(targets, columns=self.layout.targets, name="targets"))
            if len(parts[0]) != len(parts[1]):
                raise ParameterError("targets", "have as many rows as block", "another number")
        return tuple(parts)

    def _flush(self) -> None:
        self._add_integers(self._exact_float.astype(np.int64), self._float_rows)
        self._exact_float[...] = 0.0
        self._float_rows = 0

    def _add_integers(self, integers: NDArray[np.int64], rows: int) -> None:
        if (self._int64_rows + rows) << (2 * self.layout.fractional_bits) >= 1 << 63:
            self._spill()
        self._int64 += integers
        self._int64_rows += rows

    def _spill(self) -> None:
        wide = self._int64.astype(object)
        self._wide = wide if self._wide is None else self._wide + wide
        self._int64[...] = 0
        self._int64_rows = 0

    def _narrow(self) -> NDArray[Any]:
        """The sum as int64 if every entry fits, otherwise as Python integers."""
        if self._wide is None:
            return self._int64.copy()
        total = self._wide + self._int64.astype(object)
        try:
            return np.asarray(total, dtype=np.int64)
        except OverflowError:
            return np.asarray(total, dtype=object)
