"""A layout describes a row publicly: which columns, with which bounds, on which grid.

A row is made of up to three groups of columns, each with its own norm bound b and its own grid b·2⁻ᵏ:

    features (``row_norm_bound``) · targets (``target_bound``) · intercept (a constant)

In integers every group has norm at most 2ᵏ, so in real units a whole row has norm at most √(Σ b²).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

from ndis._exact import root_up
from ndis.data.table import Rows
from ndis.errors import ParameterError

__all__ = ["DEFAULT_FRACTIONAL_BITS", "ColumnGroup", "RowLayout", "layout_for"]

# At k = 18 an exact float64 block holds 2¹⁷ rows, more than any cache tile, so exactness costs no extra flush,
# and the grid is 4·10⁻⁶ of the bound: a thousand times finer than the sampling error of any practical sketch.
DEFAULT_FRACTIONAL_BITS = 18


@dataclass(frozen=True)
class ColumnGroup:
    """Columns ``start:stop``, clipped together to norm ``bound``."""

    start: int
    stop: int
    bound: float

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return self.stop - self.start


@dataclass(frozen=True)
class RowLayout:
    """A layout is the public description of a row.

    Parameters
    ----------
    features : int
        Number of feature columns, clipped together to ``row_norm_bound``.
    row_norm_bound : float
        Euclidean bound of the feature part of a row.
    targets : int
        Number of target columns, which follow the features and are clipped together to ``target_bound``.
    target_bound : float, optional
        Euclidean bound of the target part; for one target, a bound on its absolute value.
    intercept : float, optional
        Value of a constant last column. Its square counts in the joint bound.
    fractional_bits : int
        k: each group lies on the grid bound·2⁻ᵏ.
    names : tuple of str
        Names of the columns, empty if the source has none.

    Examples
    --------
    >>> layout = RowLayout(features=3, row_norm_bound=3.0, targets=1, target_bound=4.0)
    >>> layout.width, layout.joint_norm_bound
    (4, 5.0)
    """

    features: int
    row_norm_bound: float
    targets: int = 0
    target_bound: float | None = None
    intercept: float | None = None
    fractional_bits: int = DEFAULT_FRACTIONAL_BITS
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (isinstance(self.features, int) and self.features >= 1):
            raise ParameterError("features", "be at least one column", self.features)
        if not (isinstance(self.targets, int) and self.targets >= 0):
            raise ParameterError("targets", "be a number of columns", self.targets)
        bits: Any = self.fractional_bits
        if not (isinstance(bits, Integral) and 8 <= int(bits) <= 24):
            raise ParameterError("fractional_bits", "be an integer from 8 to 24", bits)
        k = int(bits)
        object.__setattr__(self, "fractional_bits", k)
        object.__setattr__(self, "row_norm_bound", _bound("row_norm_bound", self.row_norm_bound))
        if self.targets:
            if self.target_bound is None:
                raise ParameterError("target_bound", "be given with targets", None, "state the largest target publicly")
            object.__setattr__(self, "target_bound", _bound("target_bound", self.target_bound))
        elif self.target_bound is not None:
            raise ParameterError("target_bound", "come with targets", self.target_bound, "name the target columns")
        if self.intercept is not None:
            object.__setattr__(self, "intercept", _bound("intercept", self.intercept))
        # The quantiser pulls clipped rows in by ⌈√d/2⌉ + 1 grid steps; half the ball must be left.
        widest = max(self.features, self.targets)
        if not math.ceil(math.sqrt(widest) / 2) + 1 <= 2 ** (k - 1):
            raise ParameterError("fractional_bits", f"be larger for {widest} columns", k)

    @property
    def groups(self) -> tuple[ColumnGroup, ...]:
        """Return the clipped groups in column order, the constant intercept last."""
        f, t = self.features, self.targets
        groups = [ColumnGroup(0, f, self.row_norm_bound)]
        if self.target_bound is not None:
            groups.append(ColumnGroup(f, f + t, self.target_bound))
        if self.intercept is not None:
            groups.append(ColumnGroup(f + t, f + t + 1, self.intercept))
        return tuple(groups)

    @property
    def width(self) -> int:
        """Return the number of columns of the Gram matrix."""
        return self.groups[-1].stop

    @property
    def steps(self) -> tuple[Fraction, ...]:
        """Return the grid step of every column, exactly."""
        scale = 1 << self.fractional_bits
        return tuple(Fraction(g.bound) / scale for g in self.groups for _ in range(g.width))

    @property
    def joint_norm_bound_squared(self) -> Fraction:
        """Return Σ b² over the groups, exactly: the squared norm that no row exceeds."""
        return sum((Fraction(g.bound) ** 2 for g in self.groups), Fraction(0))

    @property
    def joint_norm_bound(self) -> float:
        """Return the smallest float not below √(Σ b²)."""
        return root_up(self.joint_norm_bound_squared)

    @property
    def block_rows(self) -> int:
        """Rows whose product is exact in float64.

        Every group has integer norm ≤ 2ᵏ, so by Cauchy–Schwarz no partial sum of any entry exceeds rows·2²ᵏ ≤ 2⁵³.
        """
        return 1 << (53 - 2 * self.fractional_bits)


def _bound(name: str, value: Any) -> float:
    """Check a public bound. The range leaves room for x·2ᵏ/b and for the square of b."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ParameterError(name, "be a number", type(value).__name__)
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the floats
        number = math.inf
    if not 2.0**-400 <= number <= 2.0**400:
        raise ParameterError(name, "be positive and between 2^-400 and 2^400", value)
    return number


def layout_for(rows: Rows, *, intercept: float | None, **public: Any) -> RowLayout:
    """Return the layout of the chosen columns of a table."""
    names = rows.names
    if names and intercept is not None:
        constant = "intercept"
        while constant in names:
            constant += "_"
        names += (constant,)
    targets = rows.widths[1] if len(rows.widths) > 1 else 0
    return RowLayout(rows.widths[0], targets=targets, intercept=intercept, names=names, **public)
